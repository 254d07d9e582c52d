"""minbert/reporting/figures.py: curves, maps of pairs, pictures side by side. Scatter plots and boxes: test_report.py."""

import re
from xml.etree import ElementTree

import pytest

from minbert.reporting.figures import (
    PLOT_MARGIN,
    PLOT_SIZE,
    PairMap,
    Panels,
    Ridges,
    Trace,
    draw,
    round_ticks,
)
from minbert.reporting.pages import Section, render_html, render_markdown, render_text
from minbert.reporting.tables import Grid
from tests.report_reader import Page

FIRST, LAST = PLOT_MARGIN, PLOT_MARGIN + PLOT_SIZE
HOSTILE = '<b>"&'
TRACE = Trace(
    [0, 50, 100],
    [1.0, 3.0, 2.0],
    [0, 50, 100],
    [1, 2, 3],
    "step",
    HOSTILE,
    ("start", "", "end"),
    ("first", HOSTILE, "third"),
    2,
)
MAP = PairMap(
    HOSTILE,
    [[[-10, -10], [10, 10]], [[0, 0], [-10, 10]]],
    [True, False],
    "t-SNE",
    ("near", HOSTILE),
)
TABLE = Grid(("name", "value"), (("a", "1"),), "hn")


def parts(picture) -> ElementTree.Element:
    return ElementTree.fromstring(draw(picture))


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 591], [0, 100, 200, 300, 400, 500, 600]),
        ([-2.52, -0.91], [-3, -2.5, -2, -1.5, -1, -0.5]),
        ([2e-4, 7.9e-4], [2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 7e-4, 8e-4]),
        ([0, 0], [-1, -0.5, 0, 0.5, 1]),
        ([1e5, 9e5], [0, 2e5, 4e5, 6e5, 8e5, 1e6]),
        ([0.7, 0.1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    ],
)
def test_round_ticks_by_hand(values, expected):
    assert round_ticks(values) == expected


def test_round_ticks_hold_all_values_and_are_few():
    for exponent in range(-6, 7):
        for low in (-3.7, -1, 0, 0.001, 2):
            for span in (0, 0.011, 0.5, 1, 2.5, 9.99):
                values = [low * 10.0**exponent, (low + span) * 10.0**exponent]
                ticks = round_ticks(values)
                slack = 1e-9 * (ticks[-1] - ticks[0])
                assert 3 <= len(ticks) <= 7 and ticks == sorted(set(ticks)), values
                assert ticks[0] <= values[0] + slack and values[1] <= ticks[-1] + slack, values
                assert len({f"{tick:g}" for tick in ticks}) == len(ticks), ticks


# --- a trace ----------------------------------------------------------------------------------------------------------


def test_a_trace_goes_through_its_points_in_order():
    """Step 0 is at the left, the value 1 of 1 to 3 at the bottom; y points down."""
    svg = parts(TRACE)
    middle = (FIRST + LAST) / 2
    way = numbers(svg.find("path[@class='line']").get("d"))
    assert way == [FIRST, LAST, middle, FIRST, LAST, middle]
    circles = svg.findall("circle")  # the marked one is drawn last, over all others
    assert [(float(each.get("cx")), float(each.get("cy"))) for each in circles] == list(
        zip(way[::2], way[1::2], strict=True)
    )
    assert [each.get("class") for each in circles] == ["point", "point", "point marked"]
    assert [each.find("title").text for each in circles] == ["first", HOSTILE, "third"]


def test_the_marked_point_is_drawn_over_the_others():
    moved = Trace(*list(vars(TRACE).values())[:8], marked=0)
    assert [each.get("class") for each in parts(moved).findall("circle")][-1] == "point marked"
    assert [each.find("title").text for each in parts(moved).findall("circle")] == [
        HOSTILE,
        "third",
        "first",
    ]


def test_a_lower_trace_is_as_wide():
    lower = Trace(*list(vars(TRACE).values())[:9], height=200)
    assert numbers(parts(lower).find("path[@class='line']").get("d"))[:2] == [
        FIRST,
        PLOT_MARGIN + 200,
    ]
    assert numbers(parts(TRACE).get("viewBox"))[2] == numbers(parts(lower).get("viewBox"))[2]
    assert numbers(parts(TRACE).get("viewBox"))[3] == numbers(parts(lower).get("viewBox"))[3] + 260


def test_a_picture_can_be_told_without_seeing_it():
    svg = parts(TRACE)
    assert svg.get("role") == "img" and svg.get("aria-label") == (
        f"Line through 3 points: step to the right, {HOSTILE} upwards"
    )
    assert svg[0].tag == "desc" and svg[0].text == "First: first. Marked: third. Last: third."
    assert parts(MAP)[0].text == (
        "1 positive pairs as circles with a line, 1 negative pairs as squares with a dashed line."
    )


def boxes_of_names(trace: Trace) -> dict[str, tuple[float, ...]]:
    """left, top, right, bottom of each name that is shown, with letters 8 wide."""
    found = {}
    for text in parts(trace).findall("text[@class='name']"):
        x, y, half = float(text.get("x")), float(text.get("y")), 4 * len(text.text)
        found[text.text] = (x - half, y - 10, x + half, y + 3)
    return found


def test_names_stand_beside_their_points_and_on_nothing():
    assert set(boxes_of_names(TRACE)) == {"start", "end"}
    many = [number / 40 for number in range(41)]
    crowded = Trace(
        many,
        [value**2 for value in many],
        [0, 1],
        [0, 1],
        "x",
        "y",
        tuple(map(str, range(41))),
        ("",) * 41,
        20,
    )
    boxes = boxes_of_names(crowded)
    assert {"20", "0"} < set(boxes) and len(boxes) > 10
    for name, (left, top, right, bottom) in boxes.items():
        column, row = FIRST + many[int(name)] * PLOT_SIZE, LAST - many[int(name)] ** 2 * PLOT_SIZE
        assert abs((left + right) / 2 - column) < 25 and abs((top + bottom) / 2 - row) < 25, name
        assert left >= FIRST and right <= LAST and bottom <= LAST
        for other, box in boxes.items():
            is_apart = right <= box[0] or box[2] <= left or bottom <= box[1] or box[3] <= top
            assert name == other or is_apart, (name, other)


def test_names_without_room_are_left_out_and_the_marked_one_stays():
    same = Trace(
        [1] * 30,
        [1] * 30,
        [0, 2],
        [0, 2],
        "x",
        "y",
        tuple(f"name {number}" for number in range(30)),
        ("",) * 30,
        17,
    )
    assert {"name 17", "name 0"} < set(boxes_of_names(same)) and len(boxes_of_names(same)) < 10


def test_long_numbers_have_room_beside_the_axis():
    long = Trace(
        [0, 1], [1.23e-6, 1.24e-6], [0, 1], [1.23e-6, 1.24e-6], "x", "y", ("", ""), ("", ""), 0
    )
    left = numbers(parts(long).get("viewBox"))[0]
    assert (
        PLOT_MARGIN - 7 - 8 * len("1.23e-06") > left + 14 + 6
    )  # the axis' label, turned, is 12 high


# --- maps and panels --------------------------------------------------------------------------------------------------


def test_a_map_joins_the_points_of_each_pair():
    """Ticks are -10 to 10 on both axes: the first pair goes from the lower left corner to the upper right."""
    svg = parts(MAP)
    positive, negative = (
        svg.findall(f"g[@class='pair {kind}']") for kind in ("positive", "negative")
    )
    assert len(positive) == len(negative) == 2  # the legend's, and the pair's own
    assert [each.find("title").text for each in (positive[1], negative[1])] == ["near", HOSTILE]
    assert numbers(positive[1].find("path").get("d")) == [FIRST, LAST, LAST, FIRST]
    assert [
        numbers(each.get("cx") + " " + each.get("cy")) for each in positive[1].findall("circle")
    ] == [[FIRST, LAST], [LAST, FIRST]]
    middle = (FIRST + LAST) / 2
    assert numbers(negative[1].find("path").get("d")) == [middle, middle, FIRST, FIRST]
    assert [
        (float(each.get("x")) + 4, float(each.get("y")) + 4) for each in negative[1].findall("rect")
    ] == [(middle, middle), (FIRST, FIRST)]
    texts = [text.text for text in svg.findall("text")]
    assert {"t-SNE 1", "t-SNE 2", "1 positive pairs", "1 negative pairs", HOSTILE} <= set(texts)


def test_both_axes_of_a_map_have_one_scale():
    flat = PairMap("", [[[-10, -1], [10, 1]]], [True], "t-SNE", ("",))
    x1, y1, x2, y2 = numbers(parts(flat).findall("g")[2].find("path").get("d"))
    assert (x2 - x1) == pytest.approx(10 * (y1 - y2), abs=0.6)


def test_ridges_stand_on_their_bands_and_one_is_as_high_as_a_band():
    shares = [[0.25, 0.75], [0.5, 0.0]]
    svg = parts(
        Ridges([0, 0.5, 1], [0, 2, 4], shares, [0, 1], [0, 4], "cosine", "label", ("low", HOSTILE))
    )
    low, high = svg.findall("path[@class='box']")
    assert [path.find("title").text for path in (low, high)] == ["low", HOSTILE]
    band = PLOT_SIZE / 2
    left, middle, right, foot = (
        PLOT_MARGIN,
        PLOT_MARGIN + band,
        PLOT_MARGIN + 2 * band,
        PLOT_MARGIN + 2 * band,
    )
    assert numbers(low.get("d")) == pytest.approx(
        [left, foot, foot - band / 3, middle, foot - band, right, foot], abs=0.06
    )
    assert numbers(high.get("d")) == pytest.approx(
        [left, foot - band, foot - band * 5 / 3, middle, foot - band, right, foot - band], abs=0.06
    )


def test_panels_stand_side_by_side_with_one_table():
    sections = [Section("Both", "How.", Panels((TRACE, MAP), TABLE))]
    html = render_html("x", sections)
    page = Page(html)
    assert (
        not page.faults
        and page.count("svg") == 2
        and page.tables == [[["name", "value"], ["a", "1"]]]
    )
    assert "| a | 1 |" in render_markdown("x", sections) and "a         1" in render_text(
        "x", sections
    )
    assert "<b>" not in html


def test_equal_pictures_are_equal_text():
    assert draw(Panels((TRACE, MAP), TABLE)) == draw(Panels((TRACE, MAP), TABLE))


def test_a_point_beside_the_axes_is_an_error_of_ours():
    for x, y in ([0, 3], [0, 1]), ([0, 1], [-1, 1]), ([0, 1], [0, 1, 1]):
        with pytest.raises(AssertionError):
            Trace(x, y, [0, 2], [0, 2], "x", "y", ("", ""), ("", ""), 0)


def test_what_is_no_picture_is_an_error_of_ours():
    with pytest.raises(KeyError, match="Grid"):
        draw(TABLE)
