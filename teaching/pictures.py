"""Draws the picture of the README: `python -m teaching.pictures`.

It shows the way of one sentence: tokens, layers with their attention, a sentence vector, three
heads and six files. The attention is real: it is that of minbert-mini. Two files are written, for
light and for dark pages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SENTENCE = "A lovely film with a quiet heart."
LAYER = 2  # whose attention is drawn, counted from 0
HEAD = 1
SIZE = (10.3, 3.5)  # in inches
TASKS = (
    ("SST", "sentiment, 5 classes", "positive"),
    ("PARA", "same question or not", "yes"),
    ("STS", "similarity, 0 to 5", "3.8"),
)


class Colours(NamedTuple):
    """The colours of one version of the picture."""

    text: str
    soft: str  # of secondary words
    line: str
    box: str
    accent: str


STYLES = {
    "light": Colours("#1f2328", "#59636e", "#8c959f", "#f6f8fa", "#0969da"),
    "dark": Colours("#f0f6fc", "#9198a1", "#656c76", "#212830", "#4493f8"),
}


class Attention(NamedTuple):
    """The tokens of the sentence, and how each attends to the others."""

    tokens: list[str]
    weights: np.ndarray  # (T, T), rows sum to 1


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


class Drawing:
    """The picture in one style. Units are inches, from the lower left corner."""

    def __init__(self, axes: Axes, colours: Colours) -> None:
        self.axes = axes
        self.colours = colours

    def box(self, x: float, y: float, width: float, height: float, is_accent: bool = False) -> None:
        """Draw a box with round corners."""
        from matplotlib.patches import FancyBboxPatch

        colour = self.colours.accent if is_accent else self.colours.line
        style = "round,pad=0,rounding_size=0.06"
        patch = FancyBboxPatch((x, y), width, height, boxstyle=style)
        patch.set(facecolor=self.colours.box, edgecolor=colour, linewidth=1.1)
        self.axes.add_patch(patch)

    def text(self, x: float, y: float, words: str, size: float = 9, **settings: str) -> None:
        """Write words around a point."""
        place: dict[str, Any] = {"ha": "center", "va": "center", "color": self.colours.text}
        self.axes.text(x, y, words, fontsize=size, **{**place, **settings})

    def arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw an arrow."""
        style = {"arrowstyle": "-|>", "color": self.colours.line, "lw": 1.2}
        self.axes.annotate("", xy=end, xytext=start, arrowprops=style)

    def heading(self, x: float, words: str) -> None:
        """Write the title of a part."""
        self.text(x, 3.28, words, 9.5, weight="bold")


def draw(drawing: Drawing, attention: Attention) -> None:
    """Draw all parts, from the left to the right."""
    draw_tokens(drawing, attention.tokens)
    drawing.arrow((1.55, 1.6), (1.95, 1.6))
    draw_layers(drawing, attention)
    drawing.arrow((4.65, 1.6), (5.05, 1.6))
    draw_vector(drawing)
    draw_heads(drawing)


def draw_tokens(drawing: Drawing, tokens: Sequence[str]) -> None:
    """A sentence becomes tokens."""
    drawing.heading(0.9, "tokens")
    drawing.text(0.9, 3.02, f'"{SENTENCE}"', 6.2, color=drawing.colours.soft, style="italic")
    height = 2.65 / len(tokens)
    for number, token in enumerate(tokens):
        y = 2.8 - (number + 1) * height
        drawing.box(0.35, y + 0.03, 1.1, height - 0.06)
        drawing.text(0.9, y + height / 2, token, 8)


def draw_layers(drawing: Drawing, attention: Attention) -> None:
    """The tokens go through layers. Each token attends to the others."""
    from matplotlib.patches import Rectangle

    drawing.heading(3.3, "5 layers of attention")
    # The layers behind the first one look out at the top and the right.
    for number in range(4, 0, -1):
        drawing.box(2.05 + 0.09 * number, 0.2 + 0.09 * number, 2.1, 2.4)
    drawing.box(2.05, 0.2, 2.1, 2.4, is_accent=True)
    num_tokens = len(attention.tokens)
    cell = 1.5 / num_tokens
    strongest = attention.weights.max()
    for row in range(num_tokens):
        for column in range(num_tokens):
            corner = (2.45 + column * cell, 2.35 - (row + 1) * cell)
            share = float(attention.weights[row, column] / strongest)
            patch = Rectangle(corner, cell * 0.92, cell * 0.92)
            patch.set(facecolor=drawing.colours.accent, alpha=0.06 + 0.94 * share, linewidth=0)
            drawing.axes.add_patch(patch)
    words = f"layer {LAYER + 1}, head {HEAD + 1}: which token\nlooks at which"
    drawing.text(3.1, 0.5, words, 7.2, color=drawing.colours.soft)


def draw_vector(drawing: Drawing) -> None:
    """The tokens' vectors become one vector of the sentence."""
    drawing.heading(5.55, "sentence vector")
    for number in range(12):
        drawing.box(5.38, 0.42 + number * 0.2, 0.34, 0.17)
    drawing.text(5.55, 0.2, "192 numbers", 7.2, color=drawing.colours.soft)


def draw_heads(drawing: Drawing) -> None:
    """Three heads read the vector, and six files hold their answers."""
    drawing.heading(7.25, "three heads")
    drawing.heading(9.3, "six files")
    for number, (name, meaning, answer) in enumerate(TASKS):
        y = 2.25 - number * 0.92
        drawing.arrow((5.82, 1.6), (6.45, y + 0.3))
        drawing.box(6.5, y, 1.5, 0.6)
        drawing.text(7.25, y + 0.4, f"{name}: {answer}", 9)
        drawing.text(7.25, y + 0.17, meaning, 6.8, color=drawing.colours.soft)
        drawing.arrow((8.05, y + 0.3), (8.45, y + 0.3))
        drawing.box(8.5, y, 1.6, 0.6)
        files = f"{name.lower()}-dev-output.csv\n{name.lower()}-test-output.csv"
        drawing.text(9.3, y + 0.3, files, 6.8, family="monospace")


def write_pictures(folder: Path) -> list[Path]:
    """Write overview-light.svg and overview-dark.svg. Returns their paths."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    attention = attention_of_sentence()
    paths = []
    for name, colours in STYLES.items():
        path = folder / f"overview-{name}.svg"
        # Fixed names and no date: the same picture is the same file.
        with rc_context({"svg.hashsalt": name}):
            figure = make_figure(attention, colours)
            figure.savefig(path, transparent=True, metadata={"Date": None})
        paths.append(path)
    return paths


def make_figure(attention: Attention, colours: Colours) -> Figure:
    """Draw the picture in one style."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, SIZE[0]), ylim=(0, SIZE[1]))
    axes.axis("off")
    draw(Drawing(axes, colours), attention)
    return figure


@exit_code("python -m teaching.pictures")
def main(argv: Sequence[str] | None = None) -> None:
    """Draw the pictures."""
    parser = Parser(
        prog="python -m teaching.pictures",
        description="Draw the picture of the README.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="folder")
    for path in write_pictures(parser.parse_args(argv).out):
        print(path)


if __name__ == "__main__":
    sys.exit(main())
