"""The kinds of plots in a report: their data, and how matplotlib draws each one.

A plot is a frozen dataclass of plain numbers and texts. Its method `draw` puts it on matplotlib's
axes. A figure is one plot, or several side by side, with one table of their numbers. images.py
turns plots into SVG for a page and into PNG files.

matplotlib is imported late, in the functions that draw.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from minbert.commands.texts import visible_everywhere

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from minbert.reporting.tables import Table

# The colours of light mode, as in templates/page.css. A page replaces each by its variable there,
# so that a plot follows the reader's light or dark mode.
COLOURS = {
    "paper": "#fdfdfc",
    "ink": "#1f2530",
    "soft": "#5f6877",
    "line": "#dcdfe5",
    "blue": "#2670d6",
    "orange": "#c96f10",
    "green": "#2a8a4a",
    "purple": "#8a4fc4",
}
LINE_COLOURS = ("blue", "orange", "green", "purple")
LINE_STYLES = ("-", "--", ":")

# Letters of a text inside a plot. Longer ones would leave no room for the plot.
LONGEST_AXIS_LABEL = 40
LONGEST_NAME = 32
# Letters of the longest name in a legend, and in how many columns names of this length fit.
LEGEND_COLUMNS = {14: 3, 18: 2}

Limits = tuple[float, float]  # the lowest and the highest number of an axis


def shorten(text: str, longest: int) -> str:
    """A text as a plot can show it: on one line, cut, and with escapes for invisible signs."""
    line = visible_everywhere(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


class Tooltip(NamedTuple):
    """Notes that a page shows while a pointer rests on an artist.

    notes: one note for the artist, or one for each of its N marks. "" means no note.
    """

    artist: Artist
    notes: Sequence[str]


class Plot(ABC):
    """The base of every kind of plot."""

    # Height divided by width.
    aspect: float = 1.0

    @property
    @abstractmethod
    def description(self) -> str:
        """The plot in words, for readers who cannot see it."""

    @abstractmethod
    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw the plot on empty axes; returns the notes of its marks."""


@dataclass(frozen=True)
class Figure:
    """One plot, or several side by side, with one table of their numbers.

    Markdown and the terminal show only the table.
    """

    plots: tuple[Plot, ...]
    table: Table


@dataclass(frozen=True)
class ScatterPlot(Plot):
    """N points on two axes of the same scale, and the diagonal on which both numbers agree.

    x, y: N numbers within low to high, the ends of the scale.
    notes: N texts. ticks: of both axes; () for one at each whole number.
    """

    x: Sequence[float]
    y: Sequence[float]
    x_label: str
    y_label: str
    low: float
    high: float
    notes: Sequence[str]
    ticks: Sequence[float] = ()

    @property
    def description(self) -> str:
        """The plot in words."""
        return f"Scatter plot of {len(self.x)} points: {_name_axes(self.x_label, self.y_label)}"

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw the points over the diagonal."""
        _prepare(axes, self.x_label, self.y_label)
        # On the diagonal, both numbers agree.
        ends = (self.low, self.high)
        axes.plot(ends, ends, color=COLOURS["soft"], linestyle="--", linewidth=1)
        # Half transparent, so that many points in one place look darker.
        points = axes.scatter(self.x, self.y, s=28, color=COLOURS["blue"], alpha=0.4, linewidths=0)

        # A little room at the ends keeps the outer points whole.
        margin = 0.02 * (self.high - self.low)
        limits = (self.low - margin, self.high + margin)
        ticks = self.ticks or range(int(self.low), int(self.high) + 1)
        axes.set(xlim=limits, ylim=limits, xticks=ticks, yticks=ticks, aspect="equal")
        return [Tooltip(points, self.notes)]


@dataclass(frozen=True)
class BoxPlot(Plot):
    """A box plot over K intervals of the x axis.

    edges: K + 1 ascending numbers.
    quantiles: for each interval five ascending numbers (whisker, box, median, box, whisker).
        None for an interval without rows.
    x_limits, y_limits: the ends of the axes. They hold all numbers.
    notes: K texts.
    """

    edges: Sequence[float]
    quantiles: Sequence[Sequence[float] | None]
    x_limits: Limits
    y_limits: Limits
    x_label: str
    y_label: str
    notes: Sequence[str]

    @property
    def description(self) -> str:
        """The plot in words."""
        num_intervals = len(self.quantiles)
        return f"Box plot of {num_intervals} intervals: {_name_axes(self.x_label, self.y_label)}"

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw a box for each interval that has rows."""
        _prepare(axes, self.x_label, self.y_label)
        tooltips = []
        spans = itertools.pairwise(self.edges)
        for span, quantiles, note in zip(spans, self.quantiles, self.notes, strict=True):
            if quantiles is not None:
                tooltips.append(Tooltip(_draw_box(axes, span, quantiles), [note]))
        axes.set(xlim=self.x_limits, ylim=self.y_limits)
        return tooltips


def _draw_box(axes: Axes, span: Limits, quantiles: Sequence[float]) -> Artist:
    """Draw whiskers, box and median over an interval of the x axis; returns the box."""
    # matplotlib's names of the five numbers.
    names = ("whislo", "q1", "med", "q3", "whishi")
    left, right = span
    artists = axes.bxp(
        [dict(zip(names, quantiles, strict=True))],
        positions=[(left + right) / 2],
        # Neighbours do not touch.
        widths=0.7 * (right - left),
        manage_ticks=False,
        showfliers=False,
        showcaps=False,
        patch_artist=True,
        boxprops={"facecolor": (COLOURS["blue"], 0.3), "edgecolor": COLOURS["blue"]},
        whiskerprops={"color": COLOURS["blue"]},
        medianprops={"color": COLOURS["orange"], "linewidth": 2.5},
    )
    return artists["boxes"][0]


@dataclass(frozen=True)
class StackedHistograms(Plot):
    """K histograms above each other, each on its own band of the y axis.

    edges: B + 1 ascending numbers on the x axis, the edges of the bins.
    bands: K + 1 ascending numbers on the y axis. A histogram stands on the lower edge of its band.
    shares: (K, B), the shares of each band. The largest number of all is as high as a band.
    notes: K texts.
    """

    edges: Sequence[float]
    bands: Sequence[float]
    shares: Sequence[Sequence[float]]
    x_limits: Limits
    x_label: str
    y_label: str
    notes: Sequence[str]

    @property
    def description(self) -> str:
        """The plot in words."""
        return f"Histograms of {len(self.shares)} bands: {_name_axes(self.x_label, self.y_label)}"

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw the histograms, all to one scale."""
        _prepare(axes, self.x_label, self.y_label)
        # 1.0 if there are no rows at all.
        highest = max(max(row) for row in self.shares) or 1.0
        tooltips = []
        bands = itertools.pairwise(self.bands)
        for (low, high), shares, note in zip(bands, self.shares, self.notes, strict=True):
            heights = [low + (high - low) * share / highest for share in shares]
            histogram = axes.stairs(
                heights,
                self.edges,
                baseline=low,
                fill=True,
                facecolor=(COLOURS["blue"], 0.3),
                edgecolor=COLOURS["blue"],
                linewidth=1,
            )
            tooltips.append(Tooltip(histogram, [note]))
        axes.set(xlim=self.x_limits, ylim=(self.bands[0], self.bands[-1]), yticks=self.bands)
        return tooltips


@dataclass(frozen=True)
class Line:
    """N points that are joined in their order.

    name: for the legend, "" for none. notes: N texts, or none at all.
    colour: a name in COLOURS. "" means the next one of LINE_COLOURS.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    notes: Sequence[str] = ()
    colour: str = ""


def draw_legend(axes: Axes) -> None:
    """Write the names above the axes, where they cover nothing."""
    _, names = axes.get_legend_handles_labels()
    longest = max(map(len, names), default=0)
    fitting = [columns for letters, columns in LEGEND_COLUMNS.items() if longest <= letters]
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=max(fitting, default=1),
        frameon=False,
        labelcolor=COLOURS["ink"],
    )


@dataclass(frozen=True)
class LinePlot(Plot):
    """Lines over one x axis: curves over steps, or a path through a plane.

    highlighted: the number of a point of the first line that stands out.
    labels: short texts by the number of their point of the first line. At most two, so that
        they never overlap. The numbers of all other points belong in the figure's table.
    starts_at_zero: whether the x axis begins at 0.
    least_height: of the y axis, so that a difference that is nothing does not look large.
    summary: the numbers in words, for readers who cannot see the plot. Without it, they hear the
        notes of the first line.
    """

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    highlighted: int | None = None
    labels: dict[int, str] = field(default_factory=dict)
    starts_at_zero: bool = False
    least_height: float = 0.0
    aspect: float = 1.0
    summary: str = ""

    def __post_init__(self) -> None:
        assert len(self.labels) <= 2, f"{len(self.labels)} labels; two fit without overlap"
        for line in self.lines:
            counts = f"a line with {len(line.x)} x, {len(line.y)} y and {len(line.notes)} notes"
            assert len(line.x) == len(line.y), counts
            assert len(line.notes) in (0, len(line.x)), counts

    @property
    def description(self) -> str:
        """The plot in words, with the notes of the first, the highlighted and the last point."""
        counts = ", ".join(str(len(line.x)) for line in self.lines)
        text = f"Line through {counts} points: {_name_axes(self.x_label, self.y_label)}"
        if self.summary:
            return f"{text}. {self.summary}"
        notes = self.lines[0].notes if self.lines else ()
        if not notes:
            return text
        text += f". First: {notes[0]}."
        if self.highlighted is not None:
            text += f" Highlighted: {notes[self.highlighted]}."
        return f"{text} Last: {notes[-1]}."

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw each line with its points, then the point that stands out, then the labels."""
        _prepare(axes, self.x_label, self.y_label)
        numbers = itertools.chain.from_iterable(line.x for line in self.lines)
        if all(isinstance(number, int) for number in numbers):
            axes.locator_params(axis="x", integer=True)
        tooltips = []
        styles = itertools.product(LINE_STYLES, LINE_COLOURS)
        for line, (style, colour) in zip(self.lines, itertools.cycle(styles), strict=False):
            (artist,) = axes.plot(
                line.x,
                line.y,
                linestyle=style,
                color=COLOURS[line.colour or colour],
                marker="o",
                markersize=4,
                label=shorten(line.name, LONGEST_NAME) or None,
                # A point on the edge stays whole.
                clip_on=False,
            )
            tooltips.append(Tooltip(artist, line.notes))

        tooltips += self._draw_highlight(axes)
        self._draw_labels(axes)
        # Room for the labels of points at an edge.
        axes.margins(0.08)
        if self.starts_at_zero:
            axes.set_xlim(left=0)
        bottom, top = axes.get_ylim()
        if top - bottom < self.least_height:
            middle = (bottom + top) / 2
            bottom, top = axes.set_ylim(
                middle - self.least_height / 2, middle + self.least_height / 2
            )
        if bottom < 0 < top:
            axes.axhline(0, color=COLOURS["soft"], linewidth=0.8)
        if any(line.name for line in self.lines):
            draw_legend(axes)
        return tooltips

    def _draw_highlight(self, axes: Axes) -> list[Tooltip]:
        if self.highlighted is None:
            return []
        line = self.lines[0]
        (artist,) = axes.plot(
            line.x[self.highlighted],
            line.y[self.highlighted],
            marker="o",
            markersize=9,
            color=COLOURS["orange"],
            zorder=3,
        )
        return [Tooltip(artist, line.notes[self.highlighted : self.highlighted + 1])]

    def _draw_labels(self, axes: Axes) -> None:
        """Put each label beside its point, where the other label and the edge are far."""
        if not self.labels:
            return
        line = self.lines[0]
        middle = (min(line.x) + max(line.x)) / 2
        highest = max(self.labels, key=lambda number: line.y[number])
        for number, text in self.labels.items():
            # Of two labels one stands above its point and one below.
            is_above = number == highest
            vertical = "bottom" if is_above else "top"
            is_left = line.x[number] < middle
            horizontal = "left" if is_left else "right"
            axes.annotate(
                shorten(text, LONGEST_NAME),
                (line.x[number], line.y[number]),
                xytext=(4 if is_left else -4, 8 if is_above else -8),
                textcoords="offset points",
                horizontalalignment=horizontal,
                verticalalignment=vertical,
                color=COLOURS["ink"],
                # The line may go through the label.
                bbox={"facecolor": COLOURS["paper"], "alpha": 0.8, "linewidth": 0, "pad": 1},
            )


@dataclass(frozen=True)
class Bars:
    """N bars of one colour, with a name for the legend.

    deviations: N standard deviations, which thin lines show; () for none.
    notes: N texts.
    """

    name: str
    heights: Sequence[float]
    notes: Sequence[str]
    deviations: Sequence[float] = ()


@dataclass(frozen=True)
class BarPlot(Plot):
    """Groups of horizontal bars: N groups, each with one bar of every series.

    groups: N names, from the top to the bottom.
    x_limits: the ends of the axis of the heights.
    """

    groups: Sequence[str]
    series: tuple[Bars, ...]
    x_label: str
    x_limits: Limits
    aspect: float = 1.0

    @property
    def description(self) -> str:
        """The plot in words."""
        names = ", ".join(bars.name for bars in self.series)
        groups = "one group" if len(self.groups) == 1 else f"{len(self.groups)} groups"
        return f"Bars of {groups}: {self.x_label} of {names}"

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw the bars of each series, and the names of the groups beside them."""
        _prepare(axes, self.x_label, "")
        # Between two groups the space of one bar stays free.
        thickness = 1 / (len(self.series) + 1)
        middle = (len(self.series) - 1) / 2
        tooltips = []
        colours = itertools.cycle(LINE_COLOURS)
        for number, (bars, colour) in enumerate(zip(self.series, colours, strict=False)):
            places = [group + (number - middle) * thickness for group in range(len(self.groups))]
            artists = axes.barh(
                places,
                bars.heights,
                height=thickness,
                color=COLOURS[colour],
                label=shorten(bars.name, LONGEST_NAME),
                xerr=bars.deviations or None,
                ecolor=COLOURS["ink"],
            )
            for artist, note in zip(artists, bars.notes, strict=True):
                tooltips.append(Tooltip(artist, [note]))

        # The first group stands at the top, and half a bar is free above and below all groups.
        ends = (len(self.groups) - 0.5, -0.5)
        axes.set(xlim=self.x_limits, ylim=ends, yticks=range(len(self.groups)))
        axes.set_yticklabels([shorten(name, LONGEST_NAME) for name in self.groups])
        draw_legend(axes)
        return tooltips


@dataclass(frozen=True)
class PairMap(Plot):
    """K pairs of points on a plane. A line joins the points of a pair.

    points: (K, 2, 2), for each pair two points of two coordinates. Both axes have one scale.
    is_positive: K bools. Positive pairs are circles, negative ones are squares.
    notes: K texts.
    """

    title: str
    points: Sequence[Sequence[Sequence[float]]]
    is_positive: Sequence[bool]
    x_label: str
    y_label: str
    notes: Sequence[str]

    @property
    def description(self) -> str:
        """The plot in words."""
        num_positive = sum(self.is_positive)
        num_negative = len(self.points) - num_positive
        title = f", {self.title}" if self.title else ""
        return (
            f"Map of {len(self.points)} pairs{title}: {num_positive} positive pairs as circles "
            f"with a line, {num_negative} negative pairs as squares with a dashed line"
        )

    def draw(self, axes: Axes) -> list[Tooltip]:
        """Draw each pair. The numbers on the axes mean nothing and are left out."""
        _prepare(axes, self.x_label, self.y_label)
        axes.tick_params(labelbottom=False, labelleft=False)
        axes.set_title(shorten(self.title, LONGEST_AXIS_LABEL), color=COLOURS["ink"])
        tooltips = []
        examples: dict[str, Artist] = {}
        for pair, is_positive, note in zip(self.points, self.is_positive, self.notes, strict=True):
            x, y = zip(*pair, strict=True)
            # Marker and line differ, too, for readers who do not see the colours.
            form = "o-" if is_positive else "s--"
            colour = COLOURS["blue" if is_positive else "orange"]
            (artist,) = axes.plot(x, y, form, color=colour, linewidth=1, markersize=6)
            tooltips.append(Tooltip(artist, [note]))
            examples["positive pairs" if is_positive else "negative pairs"] = artist

        axes.set_aspect("equal", adjustable="datalim")
        axes.legend(
            examples.values(),
            examples.keys(),
            # Below the axes, where it covers no pair.
            loc="upper center",
            bbox_to_anchor=(0.5, -0.06),
            ncols=2,
            frameon=False,
            labelcolor=COLOURS["ink"],
        )
        return tooltips


def _name_axes(x_label: str, y_label: str) -> str:
    return f"{x_label} to the right, {y_label} upwards"


def _prepare(axes: Axes, x_label: str, y_label: str) -> None:
    """Give the axes labels, a grid, round ticks and the colours of a page."""
    from matplotlib.ticker import MaxNLocator

    # The page or the paper shows through.
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    axes.grid(color=COLOURS["line"], linewidth=0.8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(colors=COLOURS["soft"], length=0)
    for axis, label in ((axes.xaxis, x_label), (axes.yaxis, y_label)):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_label_text(shorten(label, LONGEST_AXIS_LABEL), color=COLOURS["soft"])
        axis.get_offset_text().set_color(COLOURS["soft"])
