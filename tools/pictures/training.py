"""The tour, the training loop and pretraining: stations, one step, schedules, masked words."""

from __future__ import annotations

from minbert.schedule import constant, cosine, linear
from tools.pictures.canvas import Drawing

STATIONS = (
    ("1", "the command", "flags become options"),
    ("2", "Example", 'sentence ". . . no charm …",\nlabel 1'),
    ("3", "token ids", "[CLS] . . . no … [SEP]"),
    ("4", "batch", "(B, T), with a mask"),
    ("5", "training", "other rows change\nthe weights"),
    ("6", "prediction", "dev and test rows"),
    ("7", "encoder", "(B, T, 192), then\n(B, 192)"),
    ("8", "task head", "five numbers"),
    ("9", "file", "f124fb… , 1"),
)
PIECES = ("a", "heart", "##bre", "##aking", "film", "about", "music")
TOKENS_MASKED = ("a", "heart", "[MASK]", "##aking", "film", "about", "[MASK]")
WORDS_MASKED = ("a", "[MASK]", "[MASK]", "[MASK]", "film", "about", "music")
MASK = "[MASK]"
NUM_STEPS = 100
WARMUP = 10


def draw_stations(drawing: Drawing) -> None:
    """The nine stations of the tour. Training stands aside."""
    for number, (station, name, meaning) in enumerate(STATIONS):
        # The second line goes back to the left, so that each station is beside the next one.
        is_back = number >= 5
        column = 9 - number if is_back else number
        x = 0.2 + column * 1.95
        y = 0.3 if is_back else 1.75
        is_aside = station == "5"
        edge = drawing.colours.second if is_aside else drawing.colours.line
        drawing.box(x, y, 1.6, 1.0, edge)
        drawing.heading(x + 0.8, y + 0.76, f"{station}  {name}")
        drawing.text(x + 0.8, y + 0.33, meaning, 7.5, color=drawing.colours.soft)
        if number < 4:
            drawing.arrow((x + 1.62, y + 0.5), (x + 1.93, y + 0.5))
        elif number == 4:
            drawing.arrow((x + 0.8, y - 0.02), (x + 0.8, 1.32))
        elif number < len(STATIONS) - 1:
            drawing.arrow((x - 0.02, y + 0.5), (x - 0.33, y + 0.5))


def draw_step(drawing: Drawing) -> None:
    """One step of the training loop."""
    colours = drawing.colours
    drawing.text(0.95, 2.62, "one step of the plan", 8, color=colours.soft)
    for number, part in enumerate(("sst, 32 rows", "para, 32 rows", "sts, 32 rows")):
        y = 2.0 - number * 0.62
        drawing.labelled_box(0.2, y, 1.5, 0.42, part)
        drawing.arrow((1.72, y + 0.21), (2.13, y + 0.21))
        drawing.labelled_box(2.15, y, 1.15, 0.42, "loss")
        drawing.arrow((3.32, y + 0.21), (3.73, 1.59))
    drawing.text(2.72, 2.62, "forward", 8, color=colours.soft)
    drawing.labelled_box(3.75, 1.3, 1.35, 0.58, "gradients\nadd up")
    drawing.text(4.42, 2.05, "backward", 8, color=colours.soft)
    drawing.arrow((5.12, 1.59), (5.48, 1.59))
    drawing.labelled_box(5.5, 1.3, 1.2, 0.58, "clip the\nnorm")
    drawing.arrow((6.72, 1.59), (7.08, 1.59))
    drawing.box(7.1, 1.3, 1.5, 0.58, colours.accent)
    drawing.text(7.85, 1.59, "AdamW moves\nthe weights")
    drawing.labelled_box(7.1, 2.25, 1.5, 0.42, "learning rate")
    drawing.arrow((7.85, 2.23), (7.85, 1.9))
    drawing.text(6.3, 2.46, "schedule →", 8, color=colours.soft)
    # Back to the start.
    drawing.arrow((7.85, 1.28), (0.95, 0.72), bend=-0.12)
    drawing.text(4.4, 0.22, "the next step: gradients are cleared", 8, color=colours.soft)


def draw_schedules(drawing: Drawing) -> None:
    """The learning rate over a run, by schedule."""
    schedules = (("linear", linear), ("cosine", cosine), ("constant", constant))
    for number, (name, factor) in enumerate(schedules):
        left = 0.45 + number * 2.65
        drawing.heading(left + 1.05, 1.95, name)
        x = [left + 2.1 * step / NUM_STEPS for step in range(NUM_STEPS)]
        y = [0.45 + 1.2 * factor(step, NUM_STEPS, WARMUP) for step in range(NUM_STEPS)]
        drawing.curve([left, left, left + 2.15], [1.75, 0.45, 0.45], drawing.colours.line)
        drawing.curve(x, y, drawing.colours.accent, 2.0)
        drawing.text(left + 1.05, 0.25, "steps", 7.5, color=drawing.colours.soft)
    words = "learning rate"
    drawing.text(0.25, 1.05, words, 7.5, color=drawing.colours.soft, rotation=90)


def draw_masking(drawing: Drawing) -> None:
    """Masked tokens, and masked whole words."""
    rows = (
        ("the text", PIECES, ""),
        ("tokens", TOKENS_MASKED, "heart and ##aking give ##bre away"),
        ("--whole-word", WORDS_MASKED, "the model must use the other words"),
    )
    for number, (name, tokens, remark) in enumerate(rows):
        y = 2.15 - number * 0.9
        drawing.text(0.65, y + 0.2, name, 9, weight="bold")
        for place, token in enumerate(tokens):
            x = 1.3 + place * 0.95
            is_masked = token == MASK
            drawing.box(x, y, 0.9, 0.4, drawing.colours.accent if is_masked else None)
            colour = drawing.colours.accent if is_masked else drawing.colours.text
            drawing.text(x + 0.45, y + 0.2, token, 9, color=colour)
        drawing.text(4.6, y - 0.18, remark, 8, color=drawing.colours.soft)
