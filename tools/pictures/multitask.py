"""The multitask stage: pairs in the encoder, samplers, and gradient surgery.

The batches are those that the real samplers make. The gradients are invented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tools.pictures.canvas import Drawing, Point

if TYPE_CHECKING:
    import torch

    from minbert.training.job import Step

# --- pairs in the encoder -------------------------------------------------------------------------

# A sequence of tokens: "." stands for [CLS] and [SEP], a and b for tokens of the two sentences.
A_AND_B = ".aa.bb."
B_AND_A = ".bb.aa."
A_ALONE = ".aa."
B_ALONE = ".bb."
TOKEN = 0.19  # in inches
GAP = 0.3


class Way(NamedTuple):
    """A value of --pair-encoding."""

    centre: float
    title: str
    sequences: Sequence[str]
    meaning: str


WAYS = (
    Way(1.6, "cross (the default)", [A_AND_B], "Every token of a sees\nevery token of b."),
    Way(4.4, "bi", [A_ALONE, B_ALONE], "Each sentence is alone.\nIts vector can be stored."),
    Way(8.0, "dual", [A_AND_B, B_AND_A], "The pair is read\nin both orders."),
)


def draw_pairs(drawing: Drawing) -> None:
    """The three ways of a pair through the encoder. Each goes from the bottom to the top."""
    colours = drawing.colours
    drawing.legend(0.6, 0.2, "tokens of sentence a", colours.accent)
    drawing.legend(2.9, 0.2, "tokens of sentence b", colours.second)
    drawing.legend(5.2, 0.2, "[CLS] and [SEP]", colours.line)
    for way in WAYS:
        drawing.heading(way.centre, 3.75, way.title)
        drawing.text(way.centre, 0.72, way.meaning, 8)
        gap = (len(way.sequences) - 1) * GAP
        width = sum(map(len, way.sequences)) * TOKEN + gap
        x = way.centre - width / 2
        drawing.labelled_box(x - 0.05, 3.1, width + 0.08, 0.34, "head")
        for number, sequence in enumerate(way.sequences):
            vectors = "uv" if len(way.sequences) == 1 else "uv"[number]
            draw_sequence(drawing, x, sequence, vectors)
            x += len(sequence) * TOKEN + GAP


def draw_sequence(drawing: Drawing, x: float, sequence: str, vectors: str) -> None:
    """Tokens go through the encoder, and become a vector or two. x: the left end."""
    colours = drawing.colours
    of_token = {"a": colours.accent, "b": colours.second, ".": colours.line}
    width = len(sequence) * TOKEN
    for number, token in enumerate(sequence):
        drawing.cell(x + number * TOKEN, 1.1, TOKEN, 1, of_token[token])
    centre = x + width / 2
    drawing.arrow((centre, 1.28), (centre, 1.6))
    drawing.labelled_box(x - 0.05, 1.6, width + 0.08, 0.42, "encoder")
    for number, name in enumerate(vectors):
        place = x + width * (number + 0.5) / len(vectors)
        drawing.arrow((place, 2.02), (place, 2.4))
        drawing.box(place - 0.16, 2.4, 0.32, 0.34, edge=colours.accent)
        drawing.text(place, 2.57, name, 9)
        drawing.arrow((place, 2.74), (place, 3.1))


# --- samplers -------------------------------------------------------------------------------------

BATCHES = {"sst": 2, "para": 5, "sts": 2}  # of one pass over each task
EPOCHS = 2
SEED = 5  # with which all samplers draw each task
BLOCK = 0.17  # in inches


class SamplerRow(NamedTuple):
    """The steps of a sampler, epoch by epoch."""

    name: str  # the value of --sampling
    epochs: list[list[Step]]


def sampler_rows() -> list[SamplerRow]:
    """Ask each sampler for the steps of two epochs."""
    import torch

    from command_line.options import Options
    from multitask.sampler_registry import SAMPLERS, Epoch
    from multitask.sampling import plan_epoch

    make_batches = {task: pass_over(count) for task, count in BATCHES.items()}
    order = tuple(BATCHES)
    rows = []
    for name, sampler in SAMPLERS.items():
        generator = torch.Generator().manual_seed(SEED)
        method_options = Options.of(sampling=name).multitask.tasks.of_sampler
        epochs = []
        for number in range(sampler.num_epochs(EPOCHS, order)):
            epoch = Epoch(number, EPOCHS, order)
            epochs.append(plan_epoch(name, make_batches, generator, method_options, epoch))
        rows.append(SamplerRow(name, epochs))
    return rows


def pass_over(count: int) -> Callable[[torch.Generator], list[list[int]]]:
    """A function that forms the batches of one pass, as a sampler expects it."""

    def make(generator: torch.Generator) -> list[list[int]]:
        return [[number] for number in range(count)]

    return make


def draw_samplers(drawing: Drawing) -> None:
    """Each sampler is a row of blocks. A block is a batch, and a stack of blocks is one step."""
    colours = drawing.colours
    of_task = dict(zip(BATCHES, (colours.accent, colours.second, colours.third), strict=True))
    x = 1.75
    for task, count in BATCHES.items():
        words = f"{task.upper()}, {count} batches"
        drawing.legend(x, 3.4, words, of_task[task])
        x += 1.5

    y = 3.3
    for row in sampler_rows():
        # The highest stack needs the room.
        stack = 0
        for epoch in row.epochs:
            stack = max(stack, *map(len, epoch))
        y -= stack * BLOCK + 0.15
        drawing.text(1.55, y + stack * BLOCK / 2, row.name, 8.5, ha="right")
        x = 1.75
        for epoch in row.epochs:
            for step in epoch:
                for number, (task, _) in enumerate(step):
                    place = y + number * BLOCK
                    drawing.cell(x, place, BLOCK, 1, of_task[task])
                x += BLOCK
            # A gap stands between two epochs.
            x += BLOCK * 0.8
    words = "A block is a batch. A stack of blocks is one step. A gap is the end of an epoch."
    drawing.text(1.75, 0.1, words, 8, ha="left", color=colours.soft)


# --- gradient surgery -----------------------------------------------------------------------------

FIRST: Point = (1.6, 0.1)  # the gradient of one task
SECOND: Point = (-0.6, 0.95)  # that of another one, at more than 90 degrees


def without_conflict(gradient: Point, other: Point) -> Point:
    """PCGrad: take away what points against the other gradient (Yu et al. 2020, algorithm 1)."""
    product = gradient[0] * other[0] + gradient[1] * other[1]
    if product >= 0:
        return gradient
    share = product / (other[0] ** 2 + other[1] ** 2)
    return gradient[0] - share * other[0], gradient[1] - share * other[1]


def draw_surgery(drawing: Drawing) -> None:
    """Two gradients that conflict, the projection of one of them, and the sum of both."""
    colours = drawing.colours
    first = without_conflict(FIRST, SECOND)
    second = without_conflict(SECOND, FIRST)
    total = add(first, second)
    top = 3.1
    drawing.heading(1.6, top, "1. conflict")
    start = (1.2, 0.95)
    draw_vector(drawing, start, FIRST, "g1", colours.accent)
    draw_vector(drawing, start, SECOND, "g2", colours.second)
    words = "The angle is over 90 degrees:\na step for one task hurts the other."
    drawing.text(1.6, 0.35, words, 7.5)

    drawing.heading(4.9, top, "2. projection")
    start = (4.5, 0.95)
    draw_vector(drawing, start, SECOND, "g2", colours.line)
    draw_vector(drawing, start, FIRST, "g1", colours.line)
    draw_vector(drawing, start, first, "new g1", colours.accent)
    drawing.line(add(start, FIRST), add(start, first), colours.soft, "--")
    draw_right_angle(drawing, start, first, SECOND)
    words = "g1 loses the part against g2.\nNow it is at a right angle to g2."
    drawing.text(4.9, 0.35, words, 7.5)

    drawing.heading(8.2, top, "3. update")
    start = (7.8, 0.95)
    draw_vector(drawing, start, first, "new g1", colours.accent)
    draw_vector(drawing, start, second, "new g2", colours.second)
    draw_vector(drawing, start, total, "sum", colours.text)
    drawing.line(add(start, first), add(start, total), colours.soft, "--")
    drawing.line(add(start, second), add(start, total), colours.soft, "--")
    words = "g2 is projected in the same way.\nThe sum hurts neither task."
    drawing.text(8.2, 0.35, words, 7.5)


def add(first: Point, second: Point) -> Point:
    """The sum of two vectors."""
    return first[0] + second[0], first[1] + second[1]


def draw_vector(drawing: Drawing, start: Point, vector: Point, name: str, colour: str) -> None:
    """An arrow with its name behind its head, to the left or to the right."""
    end = add(start, vector)
    drawing.vector(start, end, colour)
    if vector[0] > 0:
        drawing.text(end[0] + 0.08, end[1] + 0.05, name, 8.5, ha="left")
    else:
        drawing.text(end[0] - 0.08, end[1] + 0.05, name, 8.5, ha="right")


def draw_right_angle(drawing: Drawing, start: Point, first: Point, second: Point) -> None:
    """The little square between two vectors."""
    size = 0.14
    along = scale(first, size)
    across = scale(second, size)
    corner = add(add(start, along), across)
    drawing.line(add(start, along), corner, drawing.colours.line)
    drawing.line(add(start, across), corner, drawing.colours.line)


def scale(vector: Point, length: float) -> Point:
    """A vector of the same direction with another length."""
    factor = length / math.hypot(*vector)
    return vector[0] * factor, vector[1] * factor
