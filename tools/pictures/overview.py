"""README: from a sentence to six files.

The picture shows the way of one sentence: tokens, layers with their attention, a sentence vector,
three task heads and six files. The attention is real: it is that of minbert-mini.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tools.pictures.canvas import Drawing

if TYPE_CHECKING:
    import numpy as np

SENTENCE = "A lovely film with a quiet heart."
SMALL = 8.6  # points, of the smallest words in the narrow picture
LAYER = 2  # whose attention is drawn, counted from 0
HEAD = 1
TASKS = (
    ("SST", "1 sentence: 5 classes", "positive"),
    ("PARA", "2 questions: the same?", "yes"),
    ("STS", "2 sentences: 0 to 5", "3.8"),
)


class Attention(NamedTuple):
    """The tokens of the sentence, and how each attends to the others."""

    tokens: list[str]
    weights: np.ndarray  # (T, T), rows sum to 1


@cache
def attention_of_sentence() -> Attention:
    """Ask minbert-mini for the attention of one head."""
    import torch

    from minbert import BertModel, BertTokenizer

    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    model = BertModel.from_pretrained("minbert-mini")
    batch = tokenizer([SENTENCE], return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    weights = output.attentions[LAYER][0, HEAD]  # (T, T)
    tokens = [str(tokenizer.convert_ids_to_tokens(int(number))) for number in batch.input_ids[0]]
    return Attention(tokens, weights.numpy())


def draw(drawing: Drawing) -> None:
    """Draw all parts, from the left to the right."""
    attention = attention_of_sentence()
    draw_tokens(drawing, attention.tokens)
    drawing.arrow((1.55, 1.6), (1.95, 1.6))
    drawing.heading(3.3, 3.28, "5 layers of attention")
    draw_layers(drawing, attention, 2.05, 0.2)
    drawing.arrow((4.65, 1.6), (5.05, 1.6))
    draw_vector(drawing)
    drawing.heading(7.25, 3.28, "three task heads")
    drawing.heading(9.3, 3.28, "six files")
    for number in range(len(TASKS)):
        y = 2.25 - number * 0.92
        drawing.arrow((5.82, 1.6), (6.45, y + 0.3))
        draw_head(drawing, number, y, WIDE)


def draw_narrow(drawing: Drawing) -> None:
    """Draw the same parts from the top to the bottom, for the screen of a phone.

    On a screen of 320 pixels, words of size SMALL are 9 pixels high.
    """
    attention = attention_of_sentence()
    drawing.heading(1.95, 7.3, "tokens")
    drawing.text(1.95, 7.07, f'"{SENTENCE}"', SMALL, color=drawing.colours.soft, style="italic")
    for number, token in enumerate(attention.tokens):
        row, column = divmod(number, 5)
        drawing.labelled_box(0.15 + column * 0.73, 6.6 - row * 0.32, 0.68, 0.28, token)
    drawing.arrow((1.95, 6.25), (1.95, 5.95))
    drawing.heading(1.95, 5.83, "5 layers of attention")
    draw_layers(drawing, attention, 0.75, 2.9, SMALL)
    drawing.arrow((1.95, 2.85), (1.95, 2.55))
    drawing.heading(1.95, 2.43, "sentence vector")
    for number in range(12):
        drawing.box(0.76 + number * 0.2, 2.02, 0.17, 0.26)
    drawing.heading(0.9, 1.73, "three task heads")
    drawing.heading(2.95, 1.73, "six files")
    for number in range(len(TASKS)):
        draw_head(drawing, number, 1.0 - number * 0.48, NARROW)


def draw_tokens(drawing: Drawing, tokens: Sequence[str]) -> None:
    """A sentence becomes tokens."""
    drawing.heading(0.9, 3.28, "tokens")
    drawing.text(0.9, 3.02, f'"{SENTENCE}"', 6.2, color=drawing.colours.soft, style="italic")
    height = 2.65 / len(tokens)
    for number, token in enumerate(tokens):
        y = 2.8 - (number + 1) * height
        drawing.box(0.35, y + 0.03, 1.1, height - 0.06)
        drawing.text(0.9, y + height / 2, token, 8)


def draw_layers(
    drawing: Drawing, attention: Attention, left: float, bottom: float, small: float = 7.2
) -> None:
    """The tokens go through layers. Each token attends to the others. small: size of the words."""
    # The layers behind the first one look out at the top and the right.
    for number in range(4, 0, -1):
        drawing.box(left + 0.09 * number, bottom + 0.09 * number, 2.1, 2.4)
    drawing.box(left, bottom, 2.1, 2.4, edge=drawing.colours.accent)
    num_tokens = len(attention.tokens)
    cell = 1.5 / num_tokens
    strongest = attention.weights.max()
    for row in range(num_tokens):
        for column in range(num_tokens):
            x = left + 0.4 + column * cell
            y = bottom + 2.15 - (row + 1) * cell
            drawing.cell(x, y, cell, float(attention.weights[row, column] / strongest))
    words = f"layer {LAYER + 1}, attention head {HEAD + 1}:\nwhich token looks at which"
    drawing.text(left + 1.05, bottom + 0.3, words, small, color=drawing.colours.soft)


def draw_vector(drawing: Drawing) -> None:
    """The tokens' vectors become one vector of the sentence."""
    drawing.heading(5.55, 3.28, "sentence vector")
    for number in range(12):
        drawing.box(5.38, 0.42 + number * 0.2, 0.34, 0.17)
    drawing.text(5.55, 0.2, "192 numbers", 7.2, color=drawing.colours.soft)


class Places(NamedTuple):
    """Where a task head and its files stand, and how large their small words are, in points."""

    head: float
    head_width: float
    files: float
    height: float
    small: float


WIDE = Places(head=6.5, head_width=1.5, files=8.5, height=0.6, small=6.8)
NARROW = Places(head=0.05, head_width=1.75, files=2.15, height=0.44, small=SMALL)


def draw_head(drawing: Drawing, number: int, y: float, places: Places) -> None:
    """A task head reads vectors, and two files hold its answers."""
    name, meaning, answer = TASKS[number]
    centre = places.head + places.head_width / 2
    drawing.box(places.head, y, places.head_width, places.height)
    drawing.text(centre, y + places.height * 0.67, f"{name}: {answer}", 9)
    soft = drawing.colours.soft
    drawing.text(centre, y + places.height * 0.28, meaning, places.small, color=soft)
    middle = y + places.height / 2
    end_of_head = places.head + places.head_width
    drawing.arrow((end_of_head + 0.05, middle), (places.files - 0.05, middle))
    drawing.box(places.files, y, 1.6, places.height)
    files = f"{name.lower()}-dev-output.csv\n{name.lower()}-test-output.csv"
    drawing.text(places.files + 0.8, middle, files, places.small, family="monospace")
