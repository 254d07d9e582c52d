"""Layers and poolings before and after contrastive training, as figure 1 of [SG]."""

from __future__ import annotations

import statistics

from experiments.records import RECORDS, read_records
from tools.pictures.canvas import Drawing
from tools.tables.generic import read_entries
from tools.tables.paper_rows import runs_with_states

WIDTH, HEIGHT = 2.5, 2.1  # of the curves of one pooling, in inches
HIGHEST = 0.7  # Spearman's correlation at the upper edge
POOLINGS = {"cls": "[CLS]", "mean": "mean of the tokens", "max": "maximum of the tokens"}
# The row of each line, and the table whose flags it had.
LINES = {
    "not tuned": ("ct-table-1-mean", "ct-layers"),
    "contrastive tension": ("ct-table-1", "ct-layers"),
    "SG-OPT": ("sg-table-1-sg-opt", "sg-layers"),
}


def curves_of(pooling: str) -> dict[str, list[float]]:
    """Spearman's correlation of each hidden state, as the mean over the seeds, by line."""
    records = read_records(RECORDS / "papers.jsonl")
    curves = {}
    for title, (row, table) in LINES.items():
        runs = runs_with_states(read_entries()[table], row, pooling, records)
        states = zip(*[run["states"] for run in runs], strict=True)
        curves[title] = [statistics.fmean(values) for values in states]
    return curves


def draw(drawing: Drawing) -> None:
    """A field for each pooling."""
    colours = drawing.colours
    used = dict(zip(LINES, (colours.soft, colours.second, colours.accent), strict=True))
    for number, (title, colour) in enumerate(used.items()):
        drawing.legend(0.5 + 1.8 * number, 3.15, title, colour)
    for number, (pooling, title) in enumerate(POOLINGS.items()):
        left, bottom = 0.5 + number * 3.0, 0.45
        drawing.heading(left + WIDTH / 2, bottom + HEIGHT + 0.2, title)
        corner = [bottom + HEIGHT, bottom, bottom]
        drawing.curve([left, left, left + WIDTH], corner, colours.line, 0.8)
        for mark in (0.2, 0.4, 0.6):
            up = bottom + HEIGHT * mark / HIGHEST
            drawing.text(left - 0.2, up, f"{mark:g}", 8, color=colours.soft)
        for name, states in curves_of(pooling).items():
            across = [left + WIDTH * state / (len(states) - 1) for state in range(len(states))]
            heights = [bottom + HEIGHT * value / HIGHEST for value in states]
            drawing.curve(across, heights, used[name], 1.6)
        drawing.text(left, bottom - 0.18, "embeddings", 8, color=colours.soft, ha="left")
        drawing.text(left + WIDTH, bottom - 0.18, "last layer", 8, color=colours.soft, ha="right")
