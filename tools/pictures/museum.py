"""The museum of mistakes: the loss of each beside that of the right code."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.records import RECORDS, Record, newest_of, read_records
from tools.pictures.canvas import Drawing

COLUMNS = 4
WIDTH, HEIGHT = 2.15, 1.05  # of the curves of one mistake, in inches
ABOVE = 0.8  # of what the right code spans: a curve that rises higher is cut off


def exhibits() -> list[Record]:
    """The newest record of each mistake, in the order of the museum."""
    records = read_records(RECORDS / "museum.jsonl")
    newest = newest_of(records, lambda record: (record["function"], record["cause"], record["job"]))
    return [record for record in newest if record["function"]]


def draw(drawing: Drawing) -> None:
    """A field for each mistake."""
    colours = drawing.colours
    records = exhibits()
    num_rows = -(-len(records) // COLUMNS)
    top = num_rows * 1.85 + 0.1
    drawing.legend(0.35, top + 0.1, "with the mistake", colours.second)
    drawing.legend(2.2, top + 0.1, "right code, three seeds", colours.accent)
    drawing.text(5.6, top + 0.1, "loss of training, from left to right", 8, color=colours.soft)
    for number, record in enumerate(records):
        row, column = divmod(number, COLUMNS)
        draw_exhibit(drawing, record, 0.3 + column * 2.5, top - 1.7 - row * 1.85)


def draw_exhibit(drawing: Drawing, record: Record, left: float, bottom: float) -> None:
    """The curves of one mistake above (left, bottom)."""
    colours = drawing.colours
    name = record["function"].removesuffix(".forward")
    drawing.text(left, bottom + 1.42, record["cause"], 9.5, weight="bold", ha="left")
    words = name if record["is_seen"] else f"{name}: not seen in its curve"
    drawing.text(left, bottom + 1.22, words, 7.5, color=colours.soft, ha="left")
    drawing.curve([left, left, left + WIDTH], [bottom + HEIGHT, bottom, bottom], colours.line, 0.8)
    right = record["right"]
    lowest_right = min(min(curve) for curve in right)
    highest_right = max(max(curve) for curve in right)
    lowest = min(lowest_right, *record["losses"])
    highest = highest_right + ABOVE * (highest_right - lowest_right)

    def up(losses: Sequence[float]) -> list[float]:
        shares = [min((loss - lowest) / (highest - lowest), 1.0) for loss in losses]
        return [bottom + HEIGHT * share for share in shares]

    across = [left + WIDTH * (place + 0.5) / len(right[0]) for place in range(len(right[0]))]
    for curve in right:
        drawing.curve(across, up(curve), colours.accent, 0.9)
    drawing.curve(across, up(record["losses"]), colours.second, 1.8)
