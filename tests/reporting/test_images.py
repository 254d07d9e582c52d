"""minbert/reporting/images.py: SVG for a page, and PNG files."""

import re
import warnings
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.figure import Figure as Canvas

from minbert.reporting.figures import (
    COLOURS,
    BarPlot,
    Bars,
    BoxPlot,
    Line,
    LinePlot,
    PairMap,
    ScatterPlot,
    StackedHistograms,
    draw_legend,
)
from minbert.reporting.images import svg, write_png
from minbert.reporting.pages import TEMPLATES

HOSTILE = "<b>\"& $x$ ]]> --> ' {{ 1 }}"
PLOTS = {
    "scatter": ScatterPlot([0, 5, 2], [5, 0, 1], HOSTILE, "y", 0, 5, ("a", HOSTILE, "c")),
    "boxes": BoxPlot([0, 1], [[0, 1, 2, 3, 4]], (0, 1), (0, 4), "x", HOSTILE, (HOSTILE,)),
    "histograms": StackedHistograms([0, 1], [0, 1], [[1.0]], (0, 1), HOSTILE, "y", (HOSTILE,)),
    "lines": LinePlot(
        (Line([0, 1], [2, 3], HOSTILE, ("a", HOSTILE)),), HOSTILE, "y", 1, {1: HOSTILE}
    ),
    "map": PairMap(HOSTILE, [[[0, 0], [1, 1]]], [True], "x", "y", (HOSTILE,)),
}


def parsed(plot, name: str = "x") -> ElementTree.Element:
    return ElementTree.fromstring(svg(plot, name))


@pytest.fixture(params=PLOTS)
def plot(request):
    return PLOTS[request.param]


def test_equal_plots_give_equal_bytes(plot):
    assert svg(plot, "x") == svg(plot, "x")


def test_the_ids_of_two_plots_on_a_page_differ(plot):
    first, second = (set(re.findall(r' id="(.*?)"', svg(plot, name))) for name in ("1-0", "1-1"))
    assert first and not first & second


def test_every_reference_leads_somewhere(plot):
    text = svg(plot, "x")
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert references == set(re.findall(r' id="(.*?)"', text))


def test_texts_stay_texts(plot):
    """They can be selected, have the page's font, and no text is markup or a formula."""
    image = parsed(plot)
    assert plot.description == image.get("aria-label") and image.get("role") == "img"
    texts = [element.text for element in image.iter("text")]
    texts += [element.text for element in image.iter("title")]
    assert HOSTILE in texts
    assert "font-family" not in svg(plot, "x") and "tspan" not in svg(plot, "x")


def test_every_colour_is_a_variable_of_the_page(plot):
    text = svg(plot, "x")
    assert not re.findall("#[0-9a-f]{6}", text)
    assert set(re.findall(r"var\(--(\w+)\)", text)) <= set(COLOURS)


def test_the_colours_are_those_of_light_mode():
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[:2]
    assert dict(re.findall(r"--(\w+): (#\w+);", light)) == COLOURS
    assert dict(re.findall(r"--(\w+): (#\w+);", dark)).keys() == COLOURS.keys()


def test_each_mark_has_its_note():
    marks = parsed(PLOTS["scatter"]).findall(".//use[@class='noted']")
    assert [mark.find("title").text for mark in marks] == ["a", HOSTILE, "c"]
    # SVG counts y downwards: the first point is at the left and on top.
    places = [(float(mark.get("x")), float(mark.get("y"))) for mark in marks]
    assert places[0][0] < places[2][0] < places[1][0]
    assert places[0][1] < places[2][1] < places[1][1]
    groups = parsed(PLOTS["map"]).findall(".//g[@class='noted']")
    assert [group.find("title").text for group in groups] == [HOSTILE]


def test_an_image_loads_nothing_and_has_no_style_of_its_own(plot):
    text = svg(plot, "x")
    for word in ("<style", "<metadata", "http", "xmlns", "<script", "xlink"):
        assert word not in text


def test_nothing_global_changes(plot):
    before = dict(matplotlib.rcParams)
    svg(plot, "x")
    assert dict(matplotlib.rcParams) == before


def test_the_user_s_settings_of_matplotlib_do_not_matter(plot):
    expected = svg(plot, "x")
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.grid": True}):
        assert svg(plot, "x") == expected


def test_a_png_has_all_plots_side_by_side(tmp_path, plot):
    write_png(tmp_path / "new" / "one.png", [plot], HOSTILE)
    write_png(tmp_path / "two.png", [plot, plot])
    write_png(tmp_path / "again.png", [plot, plot])
    one = (tmp_path / "new" / "one.png").read_bytes()
    two = (tmp_path / "two.png").read_bytes()
    assert one.startswith(b"\x89PNG") and two.startswith(b"\x89PNG")
    assert two == (tmp_path / "again.png").read_bytes()

    # The width stands in the header of a PNG file, bytes 16 to 19.
    widths = [int.from_bytes(content[16:20], "big") for content in (one, two)]
    assert widths[1] == 2 * widths[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.png", "new", "two.png"]


def test_long_and_unseen_names_leave_room_for_the_plot():
    """An escape of a terminal is no XML, and 400 letters beside the bars hid them all."""
    names = ("n" * 400, "a\x1b\u202eb\nc")
    series = tuple(Bars(name, [0.5, 1.0], ["", ""]) for name in names)
    plot = BarPlot(names, series, "x" * 400, (0, 1))
    with warnings.catch_warnings():
        # matplotlib warns where no room is left.
        warnings.simplefilter("error")
        image = svg(plot, "long")
    for text in ("n" * 31 + "…", r"a\x1b\u202eb c", "x" * 39 + "…"):
        assert f">{text}<" in image


def test_a_legend_has_fewer_columns_for_longer_names():
    columns = {}
    for length in (5, 14, 15, 18, 19):
        axes = Canvas().add_subplot()
        for _ in range(3):
            axes.plot([0, 1], [0, 1], label="n" * length)
        draw_legend(axes)
        columns[length] = axes.get_legend()._ncols
    assert columns == {5: 3, 14: 3, 15: 2, 18: 2, 19: 1}
