"""Contrastive training: in-batch negatives, and vectors before and after.

All values are invented. They show the idea.
"""

from __future__ import annotations

import math

from tools.pictures.canvas import Drawing, Point

# --- in-batch negatives ---------------------------------------------------------------------------

SENTENCES = (
    "A lovely film.",
    "The plot is dull.",
    "A man plays a guitar.",
    "How do I learn to cook?",
    "Someone makes music.",
)
# Cosines of the first views (rows) with the second views (columns).
COSINES = (
    (0.97, 0.45, 0.18, 0.12, 0.20),
    (0.43, 0.96, 0.10, 0.15, 0.12),
    (0.20, 0.12, 0.95, 0.22, 0.58),
    (0.10, 0.16, 0.20, 0.98, 0.25),
    (0.22, 0.11, 0.60, 0.24, 0.94),
)


def draw_negatives(drawing: Drawing) -> None:
    """The cosines of a batch as a matrix: the right answers stand on the diagonal."""
    size = 0.5
    left = 2.5
    top = 2.65
    colours = drawing.colours
    drawing.text(left + 2.5 * size, 3.12, "the same sentences with another dropout mask", 8)
    for row, sentence in enumerate(SENTENCES):
        y = top - (row + 1) * size
        drawing.text(left - 0.4, y + size / 2, sentence, 8, ha="right")
        drawing.text(left - 0.17, y + size / 2, f"z{row + 1}", 8, color=colours.soft)
        drawing.text(left + (row + 0.47) * size, top + 0.15, f"z'{row + 1}", 8, color=colours.soft)
        for column, cosine in enumerate(COSINES[row]):
            colour = colours.accent if row == column else colours.second
            x = left + column * size
            drawing.cell(x, y, size, cosine, colour)

    # What one row asks.
    y = top - 3 * size
    right = left + 5 * size
    corners = [
        (left - 0.03, y - 0.03),
        (right, y - 0.03),
        (right, y + size),
        (left - 0.03, y + size),
    ]
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        drawing.line(start, end, colours.text)
    y += size / 2
    drawing.arrow((right + 0.03, y), (5.4, y))
    drawing.text(5.5, y + 0.21, "One row is one question:", 8.5, ha="left", weight="bold")
    drawing.text(5.5, y, "which column is my second view?", 8.5, ha="left")
    drawing.text(5.5, y - 0.21, "A softmax over the row answers it.", 8.5, ha="left")
    drawing.legend(5.5, 2.5, "right answer: should come close", colours.accent)
    drawing.legend(5.5, 2.2, "in-batch negative: should move away", colours.second)
    drawing.text(5.5, 0.45, "A strong colour is a high cosine.", 8, ha="left", color=colours.soft)


# --- the cone of vectors --------------------------------------------------------------------------

# The directions of sentence vectors in degrees. Neighbours in the list belong together.
IN_A_CONE = (58, 66, 72, 63, 80, 87, 76, 93)
SPREAD = (20, 30, 112, 123, 196, 206, 288, 300)


def draw_cone(drawing: Drawing) -> None:
    """Vectors before and after contrastive training."""
    parts = (
        (1.7, "before", IN_A_CONE, "all cosines are high:\nthey tell little"),
        (6.0, "after", SPREAD, "pairs stay close (alignment),\nothers spread (uniformity)"),
    )
    for x, title, directions, words in parts:
        centre = (x, 1.75)
        drawing.heading(x, 3.2, title)
        drawing.circle(centre, 1.15)
        for number, degrees in enumerate(directions):
            pair = number // 2
            colours = drawing.colours
            palette = (colours.accent, colours.second, colours.third, colours.soft)
            end = on_circle(centre, 1.17, degrees)
            drawing.vector(centre, end, palette[pair])
        drawing.text(x, 0.27, words, 8)
    drawing.arrow((3.25, 1.75), (4.45, 1.75))
    drawing.text(3.85, 1.97, "contrastive\ntraining", 8, va="bottom")


def on_circle(centre: Point, radius: float, degrees: float) -> Point:
    """A point of a circle."""
    angle = math.radians(degrees)
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)
