"""The pictures of a report as SVG: points on two scales, boxes, curves, maps of pairs. report.py puts them on its page.

A picture is a frozen dataclass of plain numbers and strings; `draw` makes the SVG, whose colours are those of page.css.
Each has a name and a description for readers who cannot see it, and its numbers as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from minbert.reporting.label_places import LETTER, name_places

if TYPE_CHECKING:
    from minbert.reporting.tables import Grid

PLOT_SIZE, PLOT_MARGIN = (
    460,
    46,
)  # of a plot's square and of what its axes need around it, in units of the SVG
TRACE_TOP = 24  # of the margin above a trace, what is cut off
PANEL_LETTERS = (
    6  # room for so many letters beside an axis, so that pictures side by side have one size
)


@dataclass(frozen=True)
class Scatter:
    """A square plot of N points on two axes of one scale, with the diagonal; Markdown shows the summary in its place.

    x, y: N numbers within low to high, which are whole; a grid line stands at each whole number.
    notes: N texts, each shown while a pointer rests on its point.
    """

    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    x_label: str
    y_label: str
    low: int
    high: int
    notes: tuple[str, ...]
    summary: Grid


@dataclass(frozen=True)
class Boxes:
    """A box plot over K intervals of the x axis; Markdown shows the summary in its place.

    edges: K + 1 ascending numbers. quantiles: for each interval five ascending numbers (whisker, box, median, box,
    whisker), or None for an empty one. x_ticks, y_ticks: ascending; the axes span from the first to the last of them.
    notes: K texts, each shown while a pointer rests on its box.
    """

    edges: Sequence[float]
    quantiles: Sequence[Sequence[float] | None]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_label: str
    y_label: str
    notes: tuple[str, ...]
    summary: Grid


@dataclass(frozen=True)
class Ridges:
    """A histogram in each of K bands of the y axis, standing on the band's lower edge, of Panels.

    edges: B + 1 ascending numbers on the x axis. bands: K + 1 ascending numbers on the y axis. shares: (K, B), each row
    a band's; the largest number of all is as high as a band. notes: K texts, shown as in Boxes.
    """

    edges: Sequence[float]
    bands: Sequence[float]
    shares: Sequence[Sequence[float]]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_label: str
    y_label: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """N points joined in their order, of Panels: a curve, or a way through a plane.

    x, y: N numbers within the ticks, which ascend. names: N short texts, each beside its point where there is room,
    "" for none. marked: the number of the point that stands out; its name and the first one are important.
    notes: N texts, each shown while a pointer rests on its point.
    """

    x: Sequence[float]
    y: Sequence[float]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_label: str
    y_label: str
    names: tuple[str, ...]
    notes: tuple[str, ...]
    marked: int
    height: int = PLOT_SIZE

    def __post_init__(self) -> None:
        counts = {len(self.x), len(self.y), len(self.names), len(self.notes)}
        assert len(counts) == 1 and self.marked < len(self.x), (
            f"points of a trace: {counts}, marked {self.marked}"
        )
        for values, ticks in ((self.x, self.x_ticks), (self.y, self.y_ticks)):
            slack = 1e-9 * (ticks[-1] - ticks[0])
            assert ticks[0] - slack <= min(values) and max(values) <= ticks[-1] + slack, (
                f"{values} beside {ticks}"
            )


@dataclass(frozen=True)
class PairMap:
    """K pairs of points on a plane, of Panels: each pair joined by a line, positive and negative ones told apart.

    points: (K, 2, 2), for each pair two points of two coordinates, drawn to one scale. is_positive: K bools.
    notes: K texts, each shown while a pointer rests on its pair.
    """

    title: str
    points: Sequence[Sequence[Sequence[float]]]
    is_positive: Sequence[bool]
    label: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Panels:
    """Pictures side by side, with one table for all; Markdown shows that summary in their place."""

    pictures: tuple[Boxes | Ridges | Trace | PairMap, ...]
    summary: Grid


Picture = Scatter | Boxes | Panels


def draw(picture: Picture | Ridges | Trace | PairMap) -> str:
    """The picture as one <svg>, of Panels several, whatever characters its texts hold."""
    if isinstance(picture, Panels):
        return "\n".join(map(draw, picture.pictures))
    makers = {Scatter: _scatter, Boxes: _boxes, Ridges: _ridges, Trace: _trace, PairMap: _pair_map}
    return makers[type(picture)](picture)


def round_ticks(values: Sequence[float], most: int = 6) -> list[float]:
    """Ascending multiples of 1, 2 or 5 times a power of ten, `most` intervals at most, from below to above all values.

    Equal values are given a tenth of their size, or 1 around 0, on either side.
    """
    low, high = min(values), max(values)
    if low == high:
        low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
    exponent = math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = factor * 10.0**exponent
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= most:
            break
    return [round(number * step, max(0, -exponent)) for number in range(first, last + 1)]


def _axes(
    what: str,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_label: str,
    y_label: str,
    height: int = PLOT_SIZE,
    top: int = 0,
    letters: int = 0,
) -> tuple[list[str], Callable, Callable]:
    """The beginning of an SVG with grid, ticks and labels, and where a number stands on each axis; y points down.

    what: the picture's name for who cannot see it, to which those of the axes are added.
    top: of the margin above the plot, what is cut off. letters: so many have room to the left of it, or more if needed.
    """
    end, bottom = PLOT_MARGIN + PLOT_SIZE, PLOT_MARGIN + height

    def across(x):
        return PLOT_MARGIN + (x - x_ticks[0]) * (PLOT_SIZE / (x_ticks[-1] - x_ticks[0]))

    def down(y):
        return bottom - (y - y_ticks[0]) * (height / (y_ticks[-1] - y_ticks[0]))

    # Long numbers need more room on either side than the margins have.
    left = min(0, PLOT_MARGIN - 28 - LETTER * max(letters, *(len(f"{tick:g}") for tick in y_ticks)))
    right = end + max(10, LETTER * len(f"{x_ticks[-1]:g}") // 2 + 2)
    box = f"{left} {top} {right - left} {bottom + PLOT_MARGIN - top}"
    name = f"{what}: {x_label} to the right, {y_label} upwards"
    parts = [f'<svg viewBox="{box}" role="img" aria-label="{escape(name)}">']
    for tick in x_ticks:
        parts += [
            f'<path class="grid" d="M{across(tick):g} {PLOT_MARGIN}V{bottom}"/>',
            f'<text x="{across(tick):g}" y="{bottom + 17}">{tick:g}</text>',
        ]
    for tick in y_ticks:
        parts += [
            f'<path class="grid" d="M{PLOT_MARGIN} {down(tick):g}H{end}"/>',
            f'<text class="end" x="{PLOT_MARGIN - 7}" y="{down(tick) + 4:g}">{tick:g}</text>',
        ]
    parts += [
        f'<text x="{PLOT_MARGIN + PLOT_SIZE / 2:g}" y="{bottom + 37}">{escape(x_label)}</text>',
        f'<text transform="translate({left + 14} {PLOT_MARGIN + height / 2:g}) rotate(-90)">{escape(y_label)}'
        "</text>",
    ]
    return parts, across, down


def _scatter(plot: Scatter) -> str:
    x, y = (np.asarray(values, dtype=np.float64) for values in (plot.x, plot.y))
    ticks, end = range(plot.low, plot.high + 1), PLOT_MARGIN + PLOT_SIZE
    parts, across, down = _axes(
        f"Scatter plot of {len(x)} points", ticks, ticks, plot.x_label, plot.y_label
    )
    parts.append(f'<path class="diagonal" d="M{PLOT_MARGIN} {end}L{end} {PLOT_MARGIN}"/>')
    parts += [
        f'<circle cx="{column:.1f}" cy="{row:.1f}" r="3"><title>{escape(note)}</title></circle>'
        for column, row, note in zip(across(x), down(y), plot.notes, strict=True)
    ]
    return "\n".join([*parts, "</svg>"])


def _boxes(plot: Boxes) -> str:
    parts, across, down = _axes(
        f"Box plot of {len(plot.quantiles)} intervals",
        plot.x_ticks,
        plot.y_ticks,
        plot.x_label,
        plot.y_label,
    )
    for number, (quantiles, note) in enumerate(zip(plot.quantiles, plot.notes, strict=True)):
        if quantiles is None:
            continue
        left, right = across(plot.edges[number]), across(plot.edges[number + 1])
        gap = 0.15 * (right - left)  # on either side, so that neighbours do not touch
        least, lower, median, upper, greatest = (down(value) for value in quantiles)
        parts += [
            f"<g><title>{escape(note)}</title>",
            f'<path class="whisker" d="M{(left + right) / 2:.1f} {least:.1f}V{greatest:.1f}"/>',
            f'<rect class="box" x="{left + gap:.1f}" y="{upper:.1f}" width="{right - left - 2 * gap:.1f}" '
            f'height="{lower - upper:.1f}"/>',
            f'<path class="median" d="M{left + gap:.1f} {median:.1f}H{right - gap:.1f}"/></g>',
        ]
    return "\n".join([*parts, "</svg>"])


def _ridges(plot: Ridges) -> str:
    parts, across, down = _axes(
        f"Histograms of {len(plot.shares)} bands",
        plot.x_ticks,
        plot.y_ticks,
        plot.x_label,
        plot.y_label,
    )
    most = max(map(max, plot.shares)) or 1.0
    for number, (shares, note) in enumerate(zip(plot.shares, plot.notes, strict=True)):
        foot, roof = down(plot.bands[number]), down(plot.bands[number + 1])
        way = "".join(
            f"V{foot - (foot - roof) * share / most:.1f}H{across(right):.1f}"
            for share, right in zip(shares, plot.edges[1:], strict=True)
        )
        parts.append(
            f'<path class="box" d="M{across(plot.edges[0]):.1f} {foot:.1f}{way}V{foot:.1f}Z"><title>'
            f"{escape(note)}</title></path>"
        )
    return "\n".join([*parts, "</svg>"])


def _trace(plot: Trace) -> str:
    parts, across, down = _axes(
        f"Line through {len(plot.x)} points",
        plot.x_ticks,
        plot.y_ticks,
        plot.x_label,
        plot.y_label,
        plot.height,
        TRACE_TOP,
        PANEL_LETTERS,
    )
    points = [(across(x), down(y)) for x, y in zip(plot.x, plot.y, strict=True)]
    told = f"First: {plot.notes[0]}. Marked: {plot.notes[plot.marked]}. Last: {plot.notes[-1]}."
    parts.insert(1, f"<desc>{escape(told)}</desc>")
    way = "L".join(f"{column:.1f} {row:.1f}" for column, row in points)
    parts.append(f'<path class="line" d="M{way}"/>')
    for number in sorted(
        range(len(points)), key=lambda number: number == plot.marked
    ):  # that one over all others
        mark = 'class="point marked" r="6"' if number == plot.marked else 'class="point" r="4"'
        parts.append(
            f'<circle {mark} cx="{points[number][0]:.1f}" cy="{points[number][1]:.1f}">'
            f"<title>{escape(plot.notes[number])}</title></circle>"
        )
    frame = (PLOT_MARGIN, TRACE_TOP, PLOT_MARGIN + PLOT_SIZE, PLOT_MARGIN + plot.height)
    parts += [
        f'<text class="name" x="{column:.1f}" y="{row:.1f}">{escape(plot.names[number])}</text>'
        for number, (column, row) in name_places(
            points, plot.names, (plot.marked, 0), frame
        ).items()
    ]
    return "\n".join([*parts, "</svg>"])


def _pair_map(plot: PairMap) -> str:
    counts = sum(plot.is_positive), len(plot.is_positive) - sum(plot.is_positive)
    ticks = round_ticks(np.ravel(plot.points).tolist(), most=10)
    what = f"Map of {len(plot.points)} pairs{f', {plot.title}' if plot.title else ''}"
    parts, across, down = _axes(
        what, ticks, ticks, f"{plot.label} 1", f"{plot.label} 2", letters=PANEL_LETTERS
    )
    legend = (
        (True, f"{counts[0]} positive pairs", 126),
        (False, f"{counts[1]} negative pairs", 306),
    )
    told = f"{legend[0][1]} as circles with a line, {legend[1][1]} as squares with a dashed line."
    parts.insert(1, f"<desc>{escape(told)}</desc>")
    parts.append(
        f'<text class="name" x="{PLOT_MARGIN + PLOT_SIZE / 2:g}" y="14">{escape(plot.title)}</text>'
    )
    for is_positive, words, column in legend:
        parts += [
            _pair(((column - 40, 32), (column - 12, 32)), is_positive, words),
            f'<text class="start" x="{column}" y="36">{escape(words)}</text>',
        ]
    for pair, is_positive, note in zip(plot.points, plot.is_positive, plot.notes, strict=True):
        parts.append(_pair([(across(x), down(y)) for x, y in pair], is_positive, note))
    return "\n".join([*parts, "</svg>"])


def _pair(points: Sequence[tuple[float, float]], is_positive: bool, note: str) -> str:
    line = "L".join(f"{column:.1f} {row:.1f}" for column, row in points)
    marks = "".join(
        f'<circle cx="{column:.1f}" cy="{row:.1f}" r="5"/>'
        if is_positive
        else f'<rect x="{column - 4:.1f}" y="{row - 4:.1f}" width="8" height="8"/>'
        for column, row in points
    )
    kind = "positive" if is_positive else "negative"
    return f'<g class="pair {kind}"><title>{escape(note)}</title><path d="M{line}"/>{marks}</g>'
