"""The encoder: masks of attention, and poolings."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pictures.canvas import Drawing

LONG = ("[CLS]", "a", "lovely", "film", "[SEP]")
SHORT = ("[CLS]", "dull", "[SEP]", "[PAD]", "[PAD]")
PAD = "[PAD]"
POOLED = ("[CLS]", "lovely", "film", "[SEP]", PAD)
# Attention of the short row, without the columns of padding. Each row sums to 1.
WEIGHTS = ((0.5, 0.3, 0.2), (0.2, 0.6, 0.2), (0.3, 0.4, 0.3), (0.4, 0.3, 0.3), (0.4, 0.3, 0.3))
POOLINGS = (
    ("mean", "the average of all real tokens", "mean"),
    ("cls", "the vector of [CLS]", ""),
    ("pooler", "[CLS] through a trained layer and tanh", "tanh(W x + b)"),
)
WIDTH = 0.72  # of a token


def draw_masks(drawing: Drawing) -> None:
    """Two rows of a batch with their masks, and the attention of the shorter one."""
    drawing.heading(2.5, 2.95, "a batch: both rows have one length")
    for row, tokens in enumerate((LONG, SHORT)):
        y = 2.2 - row * 1.15
        drawing.text(0.5, y + 0.17, f"row {row + 1}", 8, color=drawing.colours.soft)
        drawing.text(0.5, y - 0.22, "mask", 8, color=drawing.colours.soft)
        for place, token in enumerate(tokens):
            x = 0.9 + place * (WIDTH + 0.04)
            draw_token(drawing, x, y, token)
            drawing.text(x + WIDTH / 2, y - 0.22, "0" if token == PAD else "1", 9)
    words = "1 marks a real token, 0 marks padding"
    drawing.text(2.5, 0.4, words, 8, color=drawing.colours.soft)

    drawing.heading(6.75, 2.95, "attention in row 2")
    draw_attention(drawing)


def draw_attention(drawing: Drawing) -> None:
    """The weights of the short row. The columns of padding are empty."""
    cell = 0.36
    left = 6.0
    top = 2.35
    for column, token in enumerate(SHORT):
        colour = drawing.colours.soft if token == PAD else drawing.colours.text
        x = left + (column + 0.5) * cell
        drawing.text(x, top + 0.22, token, 6.2, color=colour, rotation=30)
    for row, token in enumerate(SHORT):
        y = top - (row + 1) * cell
        colour = drawing.colours.soft if token == PAD else drawing.colours.text
        drawing.text(left - 0.1, y + cell / 2, token, 7.5, ha="right", color=colour)
        for column in range(len(SHORT)):
            is_real = column < len(WEIGHTS[row])
            share = WEIGHTS[row][column] if is_real else 0
            drawing.cell(left + column * cell, y, cell, share)
            if not is_real:
                x = left + (column + 0.48) * cell
                drawing.text(x, y + 0.47 * cell, "0", 7, color=drawing.colours.soft)
    words = "no token looks at padding,\nand each row still sums to 1"
    drawing.text(6.85, 0.3, words, 8, color=drawing.colours.soft)


def draw_token(drawing: Drawing, x: float, y: float, token: str) -> None:
    """A token in its box. Padding is grey."""
    drawing.box(x, y, WIDTH, 0.34)
    colour = drawing.colours.soft if token == PAD else drawing.colours.text
    drawing.text(x + WIDTH / 2, y + 0.17, token, 8.5, color=colour)


def draw_poolings(drawing: Drawing) -> None:
    """The three ways from token vectors to a sentence vector."""
    for number, (name, meaning, function) in enumerate(POOLINGS):
        left = 0.25 + number * 2.75
        drawing.heading(left + 1.1, 2.95, name)
        drawing.text(left + 1.1, 2.7, meaning, 7.5, color=drawing.colours.soft)
        is_mean = name == "mean"
        draw_vectors(drawing, left, POOLED, 4 if is_mean else 1)
        drawing.arrow((left + (0.89 if is_mean else 0.19), 1.12), (left + 1.1, 0.62))
        if function and not is_mean:
            drawing.text(left + 1.2, 0.93, function, 7.5, ha="left", color=drawing.colours.soft)
        for place in range(6):
            drawing.cell(left + 0.5 + place * 0.2, 0.35, 0.2, 0.9, drawing.colours.second)
        drawing.text(left + 1.1, 0.17, "sentence vector", 7.5)


def draw_vectors(drawing: Drawing, left: float, tokens: Sequence[str], num_read: int) -> None:
    """The token vectors of the last layer as columns. The first `num_read` are strong."""
    for place, token in enumerate(tokens):
        x = left + place * 0.46
        is_read = place < num_read
        colour = drawing.colours.text if is_read else drawing.colours.soft
        drawing.text(x + 0.19, 2.42, token, 7, color=colour)
        for number in range(6):
            share = 0.8 if is_read else 0.1
            drawing.cell(x + 0.09, 1.17 + number * 0.18, 0.2, share)
