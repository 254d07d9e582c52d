"""data/tables/reader.py on tables of other programs: each is read right, or refused with advice.

table_variants.py holds the bytes of each variant. A variant that is read must give ROWS, to the
character. A refusal must name the cause and what to do.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from datetime import date, datetime, time

import pytest

from data.tables.columns import Role, find_columns
from data.tables.reader import looks_like_table, parse_table, read_table
from minbert.commands.optional import install_command
from tests.data.table_variants import (
    COMMAS,
    ID,
    LABEL,
    MULTILINE,
    PAGE,
    READ,
    REFUSED,
    SEMICOLONS,
    SIMPLE,
    TABS_CSV,
    TEXT,
    archive,
    as_json,
    read_variant,
    write_page,
    write_variant,
)


@pytest.mark.parametrize("variant", READ)
def test_a_table_that_another_program_wrote_is_read_right(variant, tmp_path):
    suffix, content, expected = READ[variant]
    path = write_variant(tmp_path, suffix, content)
    assert read_variant(path).rows == expected
    assert looks_like_table(str(path), path.read_bytes()), "it would be read as plain sentences"


@pytest.mark.parametrize("variant", REFUSED)
def test_a_file_that_cannot_be_read_right_is_refused_with_advice(variant, tmp_path):
    suffix, content, words = REFUSED[variant]
    path = write_variant(tmp_path, suffix, content)
    with pytest.raises(ValueError) as caught:
        read_variant(path)
    assert str(caught.value).startswith(str(path)) and words in str(caught.value)


def test_the_page_lists_all_variants():
    assert len(READ) + len(REFUSED) >= 40
    is_same = PAGE.read_text(encoding="utf-8") == write_page()
    assert is_same, "write it again: .venv/bin/python -m tests.data.table_variants"


# --- Excel workbooks ------------------------------------------------------------------------------


@pytest.fixture
def openpyxl():
    return pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")


@pytest.fixture
def save(openpyxl, tmp_path):
    """A function: rows of each sheet -> the path of a workbook."""

    def save_sheets(**sheets):
        workbook = openpyxl.Workbook()
        workbook.remove(workbook.active)
        for title, rows in sheets.items():
            sheet = workbook.create_sheet(title)
            for row in rows:
                sheet.append(row)
        path = tmp_path / "rows.xlsx"
        workbook.save(path)
        return path

    return save_sheets


def test_a_workbook_has_one_sheet_of_values(save):
    rows = [
        ["id", "sentence", "label", None],
        [1, "Fine,\nreally", 3.0, None],
        [None, None, None, None],
        [2, "5 €", 2.5, None],
        ["x", True, None, None],
    ]
    table = read_table(save(Data=rows, Empty=[]))
    assert table.columns == ["id", "sentence", "label"]
    assert [row.fields for row in table.rows] == [
        ["1", "Fine,\nreally", "3"],
        ["2", "5 €", "2.5"],
        ["x", "true", ""],
    ]
    assert table.place(table.rows[1]).endswith("rows.xlsx, row 4")


def test_dates_of_a_workbook(save):
    row = [datetime(2025, 1, 3), datetime(2025, 1, 3, 8, 15), date(2025, 1, 3), time(8, 15)]
    table = read_table(save(Data=[["a", "b", "c", "d"], row]))
    expected = ["2025-01-03", "2025-01-03 08:15:00", "2025-01-03", "08:15:00"]
    assert table.rows[0].fields == expected


def test_columns_of_a_workbook_that_no_row_fills_are_no_columns(openpyxl, save, tmp_path):
    """A cell that only has a colour makes the sheet wider."""
    path = save(Data=[["id", "sentence"], [1, "x"]])
    workbook = openpyxl.load_workbook(path)
    workbook.active["E9"].fill = openpyxl.styles.PatternFill("solid", fgColor="FFFF00")
    workbook.save(path)
    table = read_table(path)
    assert table.columns == ["id", "sentence"]
    assert [row.fields for row in table.rows] == [["1", "x"]]


def test_workbooks_that_hold_something_else(save):
    with pytest.raises(ValueError, match=r"it has 2 \(First, Second\). Save the sheet as CSV"):
        read_table(save(First=[["id"], [1]], Second=[["id"], [2]]))
    with pytest.raises(ValueError, match=r"it has 0 \(none\)"):
        read_table(save(First=[]))
    with pytest.raises(ValueError, match="cell B2: holds a formula without its result"):
        read_table(save(First=[["id", "sentence"], [1, "=A2"]]))
    table = read_table(save(First=[["id", "sentence"], [1, "#N/A"]]))
    assert "a spreadsheet's failed formula" in str(table.fault_of(table.rows[0], [1]))


def test_without_openpyxl_a_workbook_is_refused_with_the_way_to_install_it(tmp_path, monkeypatch):
    path = tmp_path / "rows.xlsx"
    path.write_bytes(archive("xl/workbook.xml"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    command = re.escape(install_command(["openpyxl"], "--excel"))
    with pytest.raises(ValueError, match=f"needs the package openpyxl.* Run `{command}`"):
        read_table(path)


# --- what stands where ----------------------------------------------------------------------------


def parse(text: str | bytes, name: str = "rows.csv", **options):
    return parse_table(name, text if isinstance(text, bytes) else text.encode(), **options)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (COMMAS, [2, 3, 4]),
        ("sep=;\n" + SEMICOLONS, [3, 4, 5]),
        ("#TYPE X\n\n" + COMMAS, [4, 5, 6]),
        (MULTILINE, [2, 4]),
        (MULTILINE.replace("\n", "\r"), [2, 4]),
        ("\n" + COMMAS.replace("\n", "\n\n"), [4, 6, 8]),
        (as_json(SIMPLE).replace("\n", "\n\n"), [1, 3]),
        ("3 ||| Fine\n\n1 ||| Dull\n", [1, 3]),
        ('[{"id": 1},\n\n{"id": 2}]', [1, 2]),
    ],
)
def test_a_row_knows_the_line_on_which_it_begins(text, lines):
    assert [row.line for row in parse(text).rows] == lines


def test_the_cmu_format_has_no_header_and_a_sentence_may_hold_its_separator():
    table = parse('3 ||| Fine , "really"\n1 |||  Dull ||| very \n', "sst-train.txt")
    assert table.columns == ["label", "sentence"]
    assert [row.fields for row in table.rows] == [["3", 'Fine , "really"'], ["1", "Dull ||| very"]]
    assert parse("label ||| sentence\n3 ||| Fine\n").rows[0].fields == ["3", "Fine"]


def test_fasttext_has_its_labels_before_the_text():
    table = parse(
        "__label__a __label__b  Fine , really\n\n__label__b __label\n__label__c\n", "x.txt"
    )
    assert table.columns == ["label", "text"]
    rows = [(row.line, *row.fields) for row in table.rows]
    assert rows == [(1, "a b", "Fine , really"), (3, "b", "__label"), (4, "c", "")]
    assert parse("__label__a Fine, it is\nDull, it is\n", "x.csv").columns != ["label", "text"]


def test_an_item_of_an_array_is_named_by_its_number():
    table = parse('[{"id": 1},\n {"id": ["x"]}]', "rows.json")
    assert table.place(table.rows[1]) == "rows.json, item 2"
    assert table.fault_of(table.rows[1], [0]) == """'id' holds ["x"]; expected is one text"""


@pytest.mark.parametrize("half", ["\\ud83d", "\\udc4d", "\\udc00", "\\udc80", "\\ude00", "\\udfff"])
def test_each_half_of_a_character_is_named_as_it_is_written(half):
    table = parse(f'{{"text": "{half} x"}}\n', "rows.jsonl")
    assert f"holds the escape {half}, which is half" in table.fault_of(table.rows[0], [0])


def test_as_many_right_characters_as_wrong_bytes_show_damaged_utf_8():
    table = parse("id,sentence\n1,Café\n".encode() + b"2,caf\xe9\n")
    assert (table.rows[0].fields[1], table.layout.encoding) == ("Café", "UTF-8")
    assert "bytes that are not UTF-8" in table.fault_of(table.rows[1])


def test_a_single_column_keeps_the_commas_at_the_ends_of_its_texts():
    table = parse("sentence\nWell,\nNo,\n")
    assert table.columns == ["sentence"]
    assert "the row has 2 fields; the header names 1 (a text that holds" in table.fault_of(
        table.rows[0]
    )


def test_how_a_file_was_read_is_said():
    table = parse("id,sentence\n1,Café\n".encode("cp1252"))
    assert table.notes == ("read as Windows-1252, because it is not UTF-8; it holds 'Café'",)
    assert str(table.layout) == "comma-separated Windows-1252"
    assert str(parse(COMMAS.encode("utf-16")).layout) == "comma-separated UTF-16"
    assert parse(COMMAS).notes == ()


QUOTES = {
    "a doubled quote": ('a\tb\n"He said ""no"""\t1\n', True),
    "a line break": ('a\tb\n"two\nlines"\t1\n', True),
    "a tab": ('a\tb\n"two\twords"\t1\nx\t2\n', True),
    "a quoted header": ('"a"\t"b"\n"x"\t1\n', True),
    "commas as Excel quotes them": ('a\tb\n"Yes, so"\t1\nx\t2\n', True),
    "commas with and without": ('a\tb\n"Yes, so"\t1\nNo, so\t2\n', False),
    "a sentence in quotes": ('a\tb\n"Yes."\t1\nx\t2\n', False),
    "an open quote": ('a\tb\n"Yes\t1\nx\t2\n', False),
    "two open quotes": ('a\tb\n"Yes\t1\nx\t"2\n', False),
    "a literal pair of quotes": ('a\tb\nsay ""yes""\t1\n', False),
    "an empty text in quotes": ('a\tb\n""\t1\nx\t2\n', True),
    "all texts of a column": ('a\tb\n"Yes."\t1\n"No."\t2\n', True),
    "one row, one sentence in quotes": ('a\tb\n"Yes."\t1\n', False),
    "an index of pandas": ('\ta\n0\t"Yes."\n1\tNo.\n', True),
    "a quote elsewhere": ('a\tb\n"Yes, so"\t1\n5" long\t2\n', False),
    "more columns without quotes": ('a\tb\tc\n"x\ty"\t1\n', False),
}


@pytest.mark.parametrize("case", QUOTES)
def test_quotes_in_a_table_with_tabs_enclose_fields_only_for_a_reason(case):
    text, is_csv = QUOTES[case]
    table = parse(text, "rows.tsv")
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))[1:]
    if not is_csv:
        expected = [line.split("\t") for line in text.splitlines()[1:]]
    assert [row.fields for row in table.rows] == expected
    assert table.layout.has_quotes == is_csv or '"' not in text


def test_quotes_of_tables_with_bars_and_of_one_column_are_found_in_the_same_way():
    bars = 'a|b\n"Yes."|1\nx|2\n'
    assert [row.fields for row in parse(bars).rows] == [['"Yes."', "1"], ["x", "2"]]
    assert [row.fields for row in parse(bars.replace("x", '"x"')).rows] == [
        ["Yes.", "1"],
        ["x", "2"],
    ]
    single = 'a\n"Yes."\nNo.\n'
    assert [row.fields for row in parse(single).rows] == [['"Yes."'], ["No."]]
    assert [row.fields for row in parse(single.replace("Yes.", "Yes, so")).rows][0] == ["Yes, so"]


NOTES = {
    "CSV is more likely": (
        'a\tb\n"Yes."\t1\n"No."\t2\n',
        "the quotation marks of line 2 are read as those of CSV, not as text",
    ),
    "text is more likely": (
        'sep=\t\na\tb\nx\t1\n"Yes."\t1\n',
        "the quotation marks of line 4 are read as text, not as those of CSV",
    ),
    "an open quote joins two rows": (
        'a\tb\nx\t1\n"Yes\t1\nNo"\t2\n',
        "because line 3 has one that is not closed",
    ),
    "an open quote beside doubled ones, behind a line that is skipped": (
        'sep=\t\na\tb\n"He said ""no"""\t1\n"Fine\t2\n',
        "because line 4 has one that is not closed",
    ),
    "backslashes before quotes": (
        'a,b\nsay \\"no\\",1\n',
        'line 2 holds \\", which is read as these two characters',
    ),
    "all backslashes are doubled": (
        "a,b\nx,1\nC:\\\\temp,1\n",
        "line 3 holds \\\\, which is read as these two characters",
    ),
    "rows that may have been joined": (
        'a,b\nx,"one\ny,two"\n',
        "lines 2 to 3 are read as one row with line breaks in quotation marks, though each could",
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_where_two_readings_are_possible_the_user_is_told(case):
    text, words = NOTES[case]
    (note,) = parse(text).notes
    assert words in note


@pytest.mark.parametrize(
    "text",
    [
        'a\tb\n"two\nlines"\t1\n',
        '"a"\t"b"\n"x"\t1\n',
        "a\tb\nx\t1\n",
        'a,b\n"x, ""y""",1\n',
        "a,b\nC:\\users\\temp,1\n",
    ],
)
def test_a_table_with_one_reading_has_no_note(text):
    assert parse(text).notes == ()


def test_a_quote_behind_a_backslash_does_not_move_the_columns():
    with pytest.raises(ValueError, match="line 2: not readable.* a backslash stands before"):
        parse('"id"\t"text"\t"label"\n"r"\t"\\"\t x"\t1\n')


def test_quotes_that_look_enclosing_but_cannot_be_are_noted():
    table = parse('a\tb\n"He said ""no"""\t1\n"Fine\t2\n', "rows.tsv")
    assert [row.fields[0] for row in table.rows] == ['"He said ""no"""', '"Fine']
    (note,) = table.notes
    assert note.startswith("its quotation marks are read as ordinary characters, because line 3")


# --- a table, or plain sentences? -----------------------------------------------------------------

PROSE = [
    "One sentence.\nAnother sentence.\n",
    "Well, it is fine.\nNo, it is not.\n",
    "Well; it is fine, really.\nNo; it is not, really.\n",
    "1,000 euros were paid, and then more.\nNothing came.\n",
    "just one line, with\ttabs\n",
    "a\ttab\nno tab\n",
    "{not json}\n{nor this}\n",
    'He said "no".\n"Yes", said she.\n',
    "",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_table(text):
    assert not looks_like_table("sentences.txt", text.encode())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".xlsx", ".CSV"])
def test_a_file_with_the_name_of_a_table_is_one(suffix):
    assert looks_like_table(f"rows{suffix}", b"One sentence.\n")


def test_a_sentence_per_line_in_utf_16_is_no_table_and_a_table_on_standard_input_is():
    assert not looks_like_table("standard input", "One.\nTwo.\n".encode("utf-16"))
    for content in (COMMAS, SEMICOLONS, TABS_CSV, "3 ||| Fine\n1 ||| Dull\n", as_json(SIMPLE)):
        assert looks_like_table("standard input", content.encode())


def test_only_the_beginning_of_a_long_file_decides():
    long = "a,b\n" + "1,2\n" * 40_000
    assert looks_like_table("rows.txt", long.encode())
    assert looks_like_table("rows.txt", (long + "one,two,three\n").encode())


# --- columns --------------------------------------------------------------------------------------


def test_a_column_is_found_by_the_name_that_is_passed():
    table = parse("key,text,other text,team\n1,a,b,c\n")
    passed = ("KEY", "other  text", "team")
    assert find_columns(table, (ID, TEXT, LABEL), passed, "") == [0, 2, 3]


def test_an_exact_name_is_preferred_to_other_letters():
    table = parse("Text,text\na,b\n")
    assert find_columns(table, (TEXT,), (None,), "") == [1]


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        ((None, None, None), "line 1: the header has no column id, label; found are: text, sen"),
        (("key", "text", "text"), "no column key, which --id names; found are: text, sentence."),
        (("text", None, "text"), "2 columns may be 'sentence or text'; found are: text, sentence."),
        (("text", "text", "sentence"), "--id and --text and --label name the same column, text."),
    ],
)
def test_columns_that_are_missing_or_ambiguous(passed, words):
    table = parse("text,sentence\na,b\n")
    roles = (ID, TEXT if passed[1] or passed[0] else Role("--text", ("text",)), LABEL)
    with pytest.raises(ValueError) as caught:
        find_columns(table, roles, passed, "Fix the header.")
    assert words in str(caught.value)
