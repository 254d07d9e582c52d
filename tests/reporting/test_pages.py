"""minbert/reporting/pages.py: the same sections as HTML, Markdown and text for a terminal.

Any text must come out as the same text, whatever markup it contains.
"""

import re

import pytest

from minbert.reporting.figures import Figure, Line, LinePlot, ScatterPlot
from minbert.reporting.pages import (
    Section,
    render_html,
    render_markdown,
    render_text,
    write_html,
    write_markdown,
)
from minbert.reporting.tables import Column, Table, heading_and_numbers
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
    "{{ 1 + 1 }} {% raw %} {# no #}",
    "naïve – ☃ 中文",
]
COUNTS = Table(
    heading_and_numbers("gold", "no", "yes"),
    (("no", "3", "1"), ("yes", "0", "4")),
    ((0, 0.75, -0.25), (0, 0, 1)),
)
POINTS = ScatterPlot(
    [0.0, 5.0, 2.5], [5.0, 0.0, 2.5], "gold", "prediction", 0, 5, ("a", "b", "<c>")
)
CURVE = LinePlot((Line([0, 1], [2, 3]),), "step", "loss")
SECTIONS = [
    Section("Chapter", "How to read.", level=2),
    Section("Counts", body=COUNTS),
    Section("Plot", "Dots.", Figure((POINTS,), COUNTS)),
]


def hostile_sections() -> list[Section]:
    """A section, a cell, a label and a note of each hostile text."""
    columns = (Column("sentence", "sentence"), Column("id", "identifier"))
    texts = Table(columns, tuple((text, "0") for text in HOSTILE))
    points = [1.0] * len(HOSTILE)
    plot = ScatterPlot(points, points, HOSTILE[0], HOSTILE[8], 0, 5, tuple(HOSTILE))
    sections = []
    for number, text in enumerate(HOSTILE):
        sections.append(Section(text, text, level=2 + number % 2))
    return [*sections, Section("Texts", body=texts), Section("Plot", body=Figure((plot,), COUNTS))]


# --- Markdown -----------------------------------------------------------------------------------


def test_markdown_by_hand():
    table = "| gold | no | yes |\n| --- | ---: | ---: |\n| no | 3 | 1 |\n| yes | 0 | 4 |\n"
    assert render_markdown("Report", SECTIONS) == (
        f"# Report\n\n## Chapter\n\nHow to read.\n\n### Counts\n\n{table}\n### Plot\n\nDots.\n\n"
        f"{table}"
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
    table = Table((Column("t", "sentence"),), ((text,),))
    assert f"| {written} |\n" in render_markdown("", [Section("x", body=table)])


@pytest.mark.parametrize(
    ("prose", "written"),
    [
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("+ a", "\\+ a"),
        ("=== ", "\\==="),
        ("1. a", "1\\. a"),
        ("2) a", "2\\) a"),
        ("0.5 of 12 rows, #3", "0.5 of 12 rows, #3"),
        ("> a", "&gt; a"),
        ("\u202ea\x1b", "\\\\u202ea\\\\x1b"),
    ],
)
def test_prose_begins_no_heading_list_or_quotation(prose, written):
    assert f"\n\n{written}\n" in render_markdown("", [Section("x", prose)])


def test_hostile_texts_come_back_from_a_markdown_table():
    lines = render_markdown("x", hostile_sections()).splitlines()
    start = lines.index("| sentence | id |")
    rows = lines[start + 2 : start + 2 + len(HOSTILE)]
    assert [markdown_cells(row) for row in rows] == [[text, "0"] for text in HOSTILE]
    assert not any("<script" in line for line in lines)


def test_reading_back_notices_a_table_without_escapes():
    assert markdown_cells("| a | b | 0 |") == ["a", "b", "0"]
    assert markdown_cells("| a \\| b | 0 |") == ["a | b", "0"]


# --- HTML ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sections", [SECTIONS, hostile_sections(), []])
def test_html_has_balanced_tags_and_needs_no_other_file(sections):
    page = Page(render_html("Report", sections))
    assert not page.faults
    assert page.texts["title"][0] == page.texts["h1"][0] == "Report"


def test_hostile_texts_come_back_from_the_page():
    html = render_html(HOSTILE[0], hostile_sections())
    page = Page(html)
    assert page.texts["h1"] == [HOSTILE[0]]
    assert page.count("h2") + page.count("h3") == len(HOSTILE) + 2
    assert page.tables[0] == [["sentence", "id"], *([text, "0"] for text in HOSTILE)]
    assert page.texts["p"] == HOSTILE, "paragraphs"
    assert page.texts["title"][1:] == HOSTILE, "notes of points"
    assert "<script" not in html and not page.faults, "an attribute onmouseover is a fault"


# Signs that a reader cannot see: commands to a terminal, half a character, signs of direction.
UNSEEN = "a\x00b\x1b[2Jc\x9bd\ud800e\u202egnp.exe\u2066f\u200fg"
UNSEEN_AS_ESCAPES = r"a\x00b\x1b[2Jc\x9bd\ud800e\u202egnp.exe\u2066f\u200fg"


def test_signs_of_direction_act_in_the_cell_of_their_text_alone():
    cells = Table((Column("t", "sentence"), Column("n", "heading")), ((UNSEEN, UNSEEN),))
    html = render_html(UNSEEN, [Section(UNSEEN, UNSEEN, cells, level=2, code=UNSEEN)])
    cell_texts = re.findall(r"<t[hd][^>]*><bdi>(.*?)</bdi>", html)
    assert cell_texts[2:] == [r"a\x00b\x1b[2Jc\x9bd\ud800e" + UNSEEN.partition("e")[2]] * 2
    outside = re.sub(r"<bdi>.*?</bdi></t[hd]>", "", html)
    assert not re.search(
        "[\x00-\x08\x1b\x7f-\x9f\ud800\u200e\u200f\u202a-\u202e\u2066-\u2069]", outside
    )
    # The title of the window, the heading, the link to the chapter, its heading, prose and code.
    assert outside.count(UNSEEN_AS_ESCAPES) == 6


def test_long_words_and_piled_up_marks_stay_in_their_place():
    """A browser showed it: nothing is wider than the window, and no mark covers another line."""
    style = Page(render_html("x", [])).texts["style"][0]
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)

    def properties_of(selector):
        chosen = [body for names, body in rules if selector in map(str.strip, names.split(","))]
        return " ".join(chosen)

    for selector in ("h1", "h2", "h3", "p", "pre", "nav a"):
        assert "overflow-wrap: anywhere" in properties_of(selector), selector
        assert "overflow: clip" in properties_of(selector), selector
    for selector in ("th bdi", ".words bdi", ".identifier bdi"):
        assert "overflow-wrap: break-word" in properties_of(selector)
        assert "max-width" in properties_of(selector)
    assert "overflow: clip" in properties_of("td bdi")
    assert "overflow-x: auto" in properties_of(".wide")


def test_every_chapter_is_linked_and_every_link_leads_somewhere():
    # The same title twice.
    html = render_html("x", [*SECTIONS, Section("Chapter", level=2)])
    targets = re.findall('href="#(section.*?)"', html)
    ids = re.findall('id="(section.*?)"', html)
    assert len(targets) == 2 and set(targets) <= set(ids) and len(set(ids)) == len(ids) == 4


def test_cells_are_coloured_by_sign_and_strength():
    """1 is 60 % of the colour, so that the text on it stays readable."""
    html = render_html("x", SECTIONS).replace("\n", "")
    assert (
        '<th scope="row"><bdi>no</bdi></th>'
        '<td class="number positive" style="--shade: 45.0%">3</td>'
        '<td class="number negative" style="--shade: 15.0%">1</td>'
    ) in html
    assert (
        '<th scope="row"><bdi>yes</bdi></th><td class="number">0</td>'
        '<td class="number positive" style="--shade: 60.0%">4</td>'
    ) in html


def test_several_plots_stand_side_by_side_with_one_table():
    sections = [Section("Both", "How.", Figure((POINTS, CURVE), COUNTS))]
    page = Page(render_html("x", sections))
    assert not page.faults, "equal ids in two plots count as a fault"
    assert [image["aria-label"] for image in page.images] == [
        POINTS.description,
        CURVE.description,
    ]
    assert page.tables == [[["gold", "no", "yes"], ["no", "3", "1"], ["yes", "0", "4"]]]
    assert "| no | 3 | 1 |" in render_markdown("x", sections)
    assert "yes    0    4" in render_text("x", sections)


def test_the_same_plot_may_occur_twice():
    section = Section("Plot", body=Figure((POINTS, POINTS), COUNTS))
    assert not Page(render_html("x", [section, section])).faults


def test_equal_reports_are_equal_bytes():
    assert render_html("x", hostile_sections()) == render_html("x", hostile_sections())


def test_the_page_follows_the_reader_s_mode_and_prints_light():
    style = Page(render_html("x", [])).texts["style"][0]
    assert "color-scheme: light dark" in style and style.count("{") == style.count("}")
    assert "@media screen and (prefers-color-scheme: dark)" in style and "@media print" in style
    used = set(re.findall(r"var\((--[\w-]+)\)", style))
    defined = set(re.findall(r"(--[\w-]+):", style))
    # --shade is set in the cell. Two colours are used only by plots.
    assert used - {"--shade"} == defined - {"--green", "--purple"}


def test_a_template_of_a_package_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "<h1><bdi>Report</bdi></h1>" in render_html("Report", [])


# --- terminal, files ----------------------------------------------------------------------------


def test_text_for_a_terminal_by_hand():
    table = Table(heading_and_numbers("set", "rows"), (("a", "1,000"), ("long name", "7")))
    sections = [Section("Chapter", "word " * 30, level=2), Section("Table", body=table)]
    assert render_text("Title", sections) == (
        f"Title\n=====\n\nChapter\n-------\n\n{' '.join(['word'] * 20)}\n"
        f"{' '.join(['word'] * 10)}\n\nTable\n\n"
        "set         rows\na          1,000\nlong name      7\n"
    )


def test_files_hold_what_is_rendered(tmp_path):
    write_html(tmp_path / "a" / "page.html", "x", hostile_sections())
    write_markdown(tmp_path / "a" / "page.md", "x", hostile_sections())
    html = (tmp_path / "a" / "page.html").read_bytes().decode("utf-8")
    markdown = (tmp_path / "a" / "page.md").read_bytes().decode("utf-8")
    assert html == render_html("x", hostile_sections())
    assert markdown == render_markdown("x", hostile_sections())
    assert len(list((tmp_path / "a").iterdir())) == 2, "no half-written file stays"


# --- the reader of these tests ------------------------------------------------------------------


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
        '<p id="a"></p><p id="a"></p>',
    ],
)
def test_a_broken_page_is_noticed(broken):
    assert Page(broken).faults
