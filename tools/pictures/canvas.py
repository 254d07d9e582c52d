"""Boxes, words, arrows and cells, in two styles. Writes a picture's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Point = tuple[float, float]


class Colours(NamedTuple):
    """The colours of one version of a picture."""

    text: str
    soft: str  # of secondary words
    line: str
    box: str
    accent: str
    second: str  # of what stands against the accent
    third: str  # beside both, where three things are told apart


STYLES = {
    "light": Colours("#1f2328", "#59636e", "#8c959f", "#f6f8fa", "#0969da", "#bc4c00", "#7fbf8e"),
    "dark": Colours("#f0f6fc", "#9198a1", "#656c76", "#212830", "#4493f8", "#db6d28", "#5aa469"),
}


class Drawing:
    """A picture in one style. Units are inches, from the lower left corner."""

    def __init__(self, axes: Axes, colours: Colours) -> None:
        self.axes = axes
        self.colours = colours

    def box(self, x: float, y: float, width: float, height: float, edge: str | None = None) -> None:
        """Draw a box with round corners around an area. edge: its colour."""
        from matplotlib.patches import FancyBboxPatch

        style = "round,pad=0,rounding_size=0.06"
        patch = FancyBboxPatch((x, y), width, height, boxstyle=style)
        patch.set(facecolor=self.colours.box, edgecolor=edge or self.colours.line, linewidth=1.1)
        self.axes.add_patch(patch)

    def cell(self, x: float, y: float, size: float, share: float, colour: str = "") -> None:
        """Draw a square of a grid. share: how strong its colour is, from 0 to 1."""
        from matplotlib.patches import Rectangle

        patch = Rectangle((x, y), size * 0.92, size * 0.92)
        # Two digits are the same on every machine.
        alpha = round(0.06 + 0.94 * share, 2)
        patch.set(facecolor=colour or self.colours.accent, alpha=alpha, linewidth=0)
        self.axes.add_patch(patch)

    def text(
        self, x: float, y: float, words: str, size: float = 9, **settings: str | float
    ) -> None:
        """Write words around a point."""
        place: dict[str, Any] = {"ha": "center", "va": "center", "color": self.colours.text}
        self.axes.text(x, y, words, fontsize=size, **{**place, **settings})

    def labelled_box(self, x: float, y: float, width: float, height: float, words: str) -> None:
        """Draw a box with words in its middle."""
        self.box(x, y, width, height)
        self.text(x + width / 2, y + height / 2, words)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], bend: float = 0) -> None:
        """Draw an arrow. bend: how far it leaves the straight line, as a share of its length."""
        style = {"arrowstyle": "-|>", "color": self.colours.line, "lw": 1.2}
        if bend:
            style["connectionstyle"] = f"arc3,rad={bend}"
        self.axes.annotate("", xy=end, xytext=start, arrowprops=style)

    def vector(self, start: Point, end: Point, colour: str) -> None:
        """Draw an arrow that stands for a vector."""
        style = {"arrowstyle": "-|>", "color": colour, "lw": 1.8}
        self.axes.annotate("", xy=end, xytext=start, arrowprops=style)

    def line(self, start: Point, end: Point, colour: str, dash: str = "-") -> None:
        """Draw a line. dash: "-" or "--"."""
        across = (start[0], end[0])
        up = (start[1], end[1])
        self.axes.plot(across, up, color=colour, linestyle=dash, linewidth=1.1)

    def circle(self, centre: Point, radius: float) -> None:
        """Draw a circle without a filling."""
        from matplotlib.patches import Circle

        patch = Circle(centre, radius)
        patch.set(fill=False, edgecolor=self.colours.line, linewidth=1.1)
        self.axes.add_patch(patch)

    def legend(self, x: float, y: float, words: str, colour: str) -> None:
        """Explain a colour with a cell of it and words."""
        self.cell(x, y - 0.08, 0.18, 1, colour)
        self.text(x + 0.26, y, words, 8, ha="left")

    def curve(
        self, x: Sequence[float], y: Sequence[float], colour: str, width: float = 1.1
    ) -> None:
        """Draw a line through many points."""
        self.axes.plot(x, y, color=colour, linewidth=width)

    def heading(self, x: float, y: float, words: str) -> None:
        """Write the title of a part."""
        self.text(x, y, words, 9.5, weight="bold")


class Picture(NamedTuple):
    """A picture: its size in inches, and the function that draws it."""

    width: float
    height: float
    draw: Callable[[Drawing], None]


def paths_of(name: str, folder: Path) -> dict[str, Path]:
    """The file of a picture in each style: NAME-light.svg and NAME-dark.svg."""
    return {style: folder / f"{name}-{style}.svg" for style in STYLES}


def write_picture(name: str, picture: Picture, folder: Path) -> list[Path]:
    """Write NAME-light.svg and NAME-dark.svg. Returns their paths."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = paths_of(name, folder)
    for style, colours in STYLES.items():
        # Fixed names and no date: the same picture is the same file.
        with rc_context({"svg.hashsalt": style}):
            figure = make_figure(picture, colours)
            figure.savefig(paths[style], transparent=True, metadata={"Date": None})
    return list(paths.values())


def make_figure(picture: Picture, colours: Colours) -> Figure:
    """Draw the picture in one style."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(picture.width, picture.height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, picture.width), ylim=(0, picture.height))
    axes.axis("off")
    picture.draw(Drawing(axes, colours))
    return figure
