"""minbert/reporting/pages.py: the same sections as Markdown and as HTML; whatever the texts hold comes out as text."""

import re

import pytest

from minbert.reporting.figures import PLOT_MARGIN, PLOT_SIZE, Boxes, Scatter
from minbert.reporting.pages import Section, render_html, render_markdown, render_text
from minbert.reporting.tables import Grid, score_table
from tests.report_reader import Page, markdown_cells

HOSTILE = [
    "<script>alert(1)</script>",
    "a | b",
    "a \\| b",
    "ends in \\",
    "*bold* _it_ `code` [x](http://x.org) ~~no~~",
    "$x$",
    "\"quoted\" & 'so'",
    "&lt; stays &lt;",
    "</td></table><h1>",
    '" onmouseover="alert(1)',
    "<!-- no -->",
    "]]>",
    "naïve – ☃ 中文",
]
COUNTS = Grid(
    ("gold", "no", "yes"),
    (("no", "3", "1"), ("yes", "0", "4")),
    "hnn",
    ((0, 0.75, -0.25), (0, 0, 1)),
)
POINTS = Scatter(
    [0.0, 5.0, 2.5], [5.0, 0.0, 2.5], "gold", "prediction", 0, 5, ("a", "b", "<c>"), COUNTS
)
SECTIONS = [
    Section("Chapter", "How to read.", level=2),
    Section("Counts", body=COUNTS),
    Section("Plot", "Dots.", POINTS),
]
BOXES = Boxes(
    [0, 2, 4, 5],
    [[0, 0.1, 0.25, 0.5, 1], None, [0.5] * 5],
    [0, 5],
    [0, 0.5, 1],
    "label",
    "cosine",
    ("first", "", "<third>"),
    COUNTS,
)


def hostile_sections() -> list[Section]:
    texts = Grid(("sentence", "id"), tuple((text, "0") for text in HOSTILE), "ti")
    points = [1.0] * len(HOSTILE)
    plot = Scatter(points, points, HOSTILE[0], HOSTILE[8], 0, 5, tuple(HOSTILE), COUNTS)
    return [Section(text, text, level=2 + number % 2) for number, text in enumerate(HOSTILE)] + [
        Section("Texts", body=texts),
        Section("Plot", body=plot),
    ]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_markdown_by_hand():
    assert render_markdown("Report", SECTIONS) == (
        "# Report\n\n## Chapter\n\nHow to read.\n\n### Counts\n\n"
        "| gold | no | yes |\n| --- | ---: | ---: |\n| no | 3 | 1 |\n| yes | 0 | 4 |\n\n### Plot\n\nDots.\n\n"
        "| gold | no | yes |\n| --- | ---: | ---: |\n| no | 3 | 1 |\n| yes | 0 | 4 |\n"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("two\nlines\r\nand\ttab", "two lines and tab"),
        ("a\u2028b", "a b"),
        ("<script>", "&lt;script&gt;"),
        ("*a*", "\\*a\\*"),
        ("don't", "don't"),
        ("R&D", "R&amp;D"),
        ("", ""),
    ],
)
def test_markdown_escapes(text, written):
    assert f"| {written} |\n" in render_markdown(
        "", [Section("x", body=Grid(("t",), ((text,),), "t"))]
    )


def test_hostile_texts_come_back_from_a_markdown_table():
    lines = render_markdown("x", hostile_sections()).splitlines()
    start = lines.index("| sentence | id |")
    rows = lines[start + 2 : start + 2 + len(HOSTILE)]
    assert [markdown_cells(row) for row in rows] == [[text, "0"] for text in HOSTILE]
    assert not any("<script" in line for line in lines)


def test_reading_back_notices_a_table_without_escapes():
    assert markdown_cells("| a | b | 0 |") == ["a", "b", "0"] and markdown_cells(
        "| a \\| b | 0 |"
    ) == ["a | b", "0"]


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_html_has_balanced_tags_and_needs_nothing_beside_itself():
    for sections in (SECTIONS, hostile_sections(), []):
        page = Page(render_html("Report", sections))
        assert not page.faults
        assert page.texts["title"][0] == page.texts["h1"][0] == "Report"


def test_hostile_texts_come_back_from_the_page():
    html = render_html(HOSTILE[0], hostile_sections())
    page = Page(html)
    assert (
        page.texts["h1"] == [HOSTILE[0]] and page.count("h2") + page.count("h3") == len(HOSTILE) + 2
    )
    assert page.tables[0] == [["sentence", "id"], *([text, "0"] for text in HOSTILE)]
    assert page.texts["p"] == HOSTILE and page.texts["title"][1:] == HOSTILE
    assert "<script" not in html and 'onmouseover="' not in html


def test_every_chapter_is_linked_and_every_link_leads_somewhere():
    html = render_html("x", [*SECTIONS, Section("Chapter", level=2)])  # the same title twice
    targets, ids = re.findall('href="#(.*?)"', html), re.findall('id="(.*?)"', html)
    assert len(targets) == 2 and set(targets) <= set(ids) and len(set(ids)) == len(ids) == 4


def test_cells_are_coloured_by_side_and_strength():
    html = render_html("x", SECTIONS)
    assert (
        '<td class="n right" style="--shade: 0.450">3</td><td class="n wrong" style="--shade: 0.150">1</td>'
        in html
    )
    assert (
        '<th scope="row">yes</th><td class="n">0</td><td class="n right" style="--shade: 0.600">4</td>'
        in html
    )


def test_points_stand_where_they_belong():
    """A gold 0 predicted as 5 is at the left, on top (y points down); its opposite diagonally across."""
    html = render_html("x", SECTIONS)
    found = [
        tuple(map(float, point))
        for point in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', html)
    ]
    first, last, middle = PLOT_MARGIN, PLOT_MARGIN + PLOT_SIZE, PLOT_MARGIN + PLOT_SIZE / 2
    assert found == [(first, first), (last, last), (middle, middle)]
    assert f'<path class="diagonal" d="M{first} {last}L{last} {first}"/>' in html
    assert sorted(re.findall(r"<text [^>]*>(\d)</text>", html)) == [
        str(tick) for tick in range(6) for _ in "xy"
    ]
    assert Page(html).texts["title"] == ["x", "a", "b", "<c>"]


def test_boxes_stand_where_they_belong():
    """The first interval is 0 to 2 of 5, less 15 % on either side; a cosine of 1 is on top."""
    html = render_html("x", [Section("Boxes", "How.", BOXES)])
    page, unit, end = Page(html), PLOT_SIZE / 5, PLOT_MARGIN + PLOT_SIZE
    assert (
        not page.faults
        and page.count("svg") == 1
        and page.texts["title"] == ["x", "first", "<third>"]
    )
    assert page.tables == [[["gold", "no", "yes"], ["no", "3", "1"], ["yes", "0", "4"]]]
    found = re.findall(
        r'<rect class="box" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"/>', html
    )
    expected = [
        (PLOT_MARGIN + 0.3 * unit, end - 0.5 * PLOT_SIZE, 1.4 * unit, 0.4 * PLOT_SIZE),
        (PLOT_MARGIN + 4.15 * unit, end - 0.5 * PLOT_SIZE, 0.7 * unit, 0),
    ]
    assert [tuple(map(float, box)) for box in found] == [
        pytest.approx(box, abs=0.06) for box in expected
    ]
    assert (
        f'<path class="whisker" d="M{PLOT_MARGIN + unit:.1f} {end:.1f}V{PLOT_MARGIN:.1f}"/>' in html
    )
    assert re.search(rf'<path class="median" d="M[\d.]+ {end - 0.25 * PLOT_SIZE:.1f}H', html)
    assert re.findall(r"<text [^>]*>([\d.]+)</text>", html) == ["0", "5", "0", "0.5", "1"]
    assert "| no | 3 | 1 |" in render_markdown("x", [Section("Boxes", body=BOXES)])


def test_text_for_a_terminal_by_hand():
    grid = Grid(("set", "rows"), (("a", "1,000"), ("long name", "7")), "hn")
    assert render_text(
        "Title", [Section("Chapter", "word " * 30, level=2), Section("Table", body=grid)]
    ) == (
        f"Title\n=====\n\nChapter\n-------\n\n{' '.join(['word'] * 20)}\n{' '.join(['word'] * 10)}\n\nTable\n\n"
        "set         rows\na          1,000\nlong name      7\n"
    )
    assert "yes    0    4" in render_text("x", [Section("Boxes", body=BOXES)])


def test_the_page_follows_the_reader_s_mode_and_prints_light():
    style = Page(render_html("x", [])).texts["style"][0]
    assert (
        "color-scheme: light dark" in style
        and "@media screen and (prefers-color-scheme: dark)" in style
    )
    assert "@media print" in style and style.count("{") == style.count("}")
    used, defined = (
        set(re.findall(r"var\((--[\w-]+)\)", style)),
        set(re.findall(r"(--[\w-]+):", style)),
    )
    assert used - {"--shade"} == defined  # --shade is the cell's own


def test_columns_that_do_not_fit_are_an_error_of_ours():
    for grid in (
        (("a", "b"), (("1",),), "tt", ()),
        (("a",), (("1",),), "x", ()),
        (("a",), (("1",),), "t", ((0,), (0,))),
    ):
        with pytest.raises(AssertionError):
            Grid(*grid)


@pytest.mark.parametrize(
    "broken",
    [
        "<p>",
        "<b><i></b></i>",
        "</p>",
        "<script></script>",
        '<link href="#x">',
        '<p onclick="x()"></p>',
        '<img src="x.png">',
        '<a href="https://example.org">x</a>',
        "<style>@import 'x';</style>",
        '<p style="background: url(x)"></p>',
        "<table><tr><td>1</tr></table>",
    ],
)
def test_a_broken_page_is_noticed(broken):
    assert Page(broken).faults


def test_a_table_of_scores_by_hand():
    table = score_table(
        "dev",
        {"a": "A", "b": "overall 2023"},
        {"first": {"a": 1, "b": -0.25}, "x": {"a": 0, "b": 2}},
    )
    assert table.splitlines() == [
        "dev          A  overall 2023",
        "first   1.0000       -0.2500",
        "x       0.0000        2.0000",
    ]
