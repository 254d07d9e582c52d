"""Tables whose cost is set by what they claim: each is read right or refused, and at once."""

from __future__ import annotations

import io
import json
import time
import zipfile

import pytest

from data.tables.reader import parse_table
from data.tables.workbooks import MAX_ROWS, sheet_files, without_empty_cells

SECONDS = 5
SHEET = "xl/worksheets/sheet1.xml"
ROWS = [["text", "label"], ["one", 1], ["two", 2]]
FIELDS = [["one", "1"], ["two", "2"]]
STRANGE_TEXT = '<row r="4"><c r="A4" t="s"><v>4000000000</v></c></row>'
ANOTHER_FILE = '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
# "lol" to the power of a billion.
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def workbook(rows=ROWS, num_sheets=1) -> bytes:
    openpyxl = pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for number in range(1, num_sheets):
        book.create_sheet(f"empty {number}")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def changed(member: str, old: str, new: str, content: bytes | None = None) -> bytes:
    """A workbook with a piece of one of its files replaced."""
    file = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(content or workbook()))
    assert member in source.namelist()
    with source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            text = source.read(name).decode()
            if name == member:
                assert old in text
                text = text.replace(old, new, 1)
            target.writestr(name, text)
    return file.getvalue()


def with_row(number: int, column: str = "A", content: bytes | None = None) -> bytes:
    """A workbook with one more cell, in a row far below the others."""
    cell = f'<row r="{number}"><c r="{column}{number}" t="n"><v>7</v></c></row></sheetData>'
    return changed(SHEET, "</sheetData>", cell, content)


def with_far_cells(num_rows: int) -> str:
    """Rows with a cell in the last column of Excel, and the end of a sheet."""
    rows = [f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(4, 4 + num_rows)]
    return "".join(rows) + "</sheetData>"


def with_laughs() -> bytes:
    """A workbook whose first text expands to three billion letters."""
    doctype = f'<!DOCTYPE worksheet [<!ENTITY l0 "lol">{LAUGHS}]><worksheet'
    return changed(SHEET, "<t>text</t>", "<t>&l9;</t>", changed(SHEET, "<worksheet", doctype))


READ = {
    "a sheet that claims all cells of Excel": lambda: changed(
        SHEET, 'ref="A1:B3"', 'ref="A1:XFD1048576"'
    ),
    "a sheet that claims one cell": lambda: changed(SHEET, 'ref="A1:B3"', 'ref="A1:A1"'),
    "all cells merged": lambda: changed(
        SHEET,
        "</sheetData>",
        '</sheetData><mergeCells><mergeCell ref="D1:XFD1048576"/></mergeCells>',
    ),
    "300 empty sheets": lambda: workbook(num_sheets=300),
    "a formula for all cells": lambda: changed(
        SHEET, 't="n"><v>1</v>', 't="n"><f t="array" ref="B2:XFD1048576">1</f><v>1</v>'
    ),
    "a list of choices for all cells": lambda: changed(
        SHEET,
        "</sheetData>",
        '</sheetData><dataValidations count="1"><dataValidation sqref="A1:XFD1048576" type="list">'
        '<formula1>"a"</formula1></dataValidation></dataValidations>',
    ),
    "XML that is 50,000 levels deep": lambda: changed(
        SHEET, "</sheetData>", "<a>" * 50_000 + "</a>" * 50_000 + "</sheetData>"
    ),
    "an empty cell far out": lambda: changed(
        SHEET, "</sheetData>", '<row r="1048576"><c r="XFD1048576" s="0"/></row></sheetData>'
    ),
}
REFUSED = {
    "a value in the last cell of Excel": (
        lambda: with_row(MAX_ROWS, "XFD", workbook(ROWS * 50)),
        "it has 2,473,984 cells, but only 301 values. Delete the cells that do not belong",
    ),
    "a value below the last row": (lambda: with_row(999_999_999), "has cells below row 1,048,576"),
    "a value behind the last column": (lambda: with_row(4, "AAAAA"), "cannot be opened"),
    "200 MB of blanks": (
        lambda: changed(SHEET, "<sheetData>", " " * 200_000_000 + "<sheetData>"),
        "and unpacks to 200,0",
    ),
    "a bomb of entities": (with_laughs, "cannot be opened"),
    "a cell in the last column of many rows": (
        lambda: changed(SHEET, "</sheetData>", with_far_cells(20_000)),
        "but only 68 values. Delete the cells",
    ),
    "a row that comes twice": (lambda: with_row(3), "row 3 comes behind row 3"),
    "a row that comes too late": (
        lambda: with_row(2, content=with_row(9)),
        "row 2 comes behind row 9",
    ),
    "a cell that comes twice": (
        lambda: changed(SHEET, 'r="B3"', 'r="A3"'),
        "cell A3 comes behind A3",
    ),
    "a cell behind one of a later row": (
        lambda: changed(SHEET, 'r="B2"', 'r="B9"'),
        "cell A3 comes behind B9",
    ),
    "a row below zero": (lambda: with_row(-5), "row -5 comes behind row 3"),
    "a text that is not there": (
        lambda: changed(SHEET, "</sheetData>", f"{STRANGE_TEXT}</sheetData>"),
        "cannot be opened",
    ),
    "an entity of another file": (
        lambda: changed(
            SHEET,
            "<t>text</t>",
            "<t>&x;</t>",
            changed(SHEET, "<worksheet", f"{ANOTHER_FILE}<worksheet"),
        ),
        "cannot be opened",
    ),
    "half a workbook": (lambda: workbook()[:2000], "begins as an archive, but is damaged"),
    "a sheet that is cut": (lambda: changed(SHEET, "</sheetData>", ""), "cannot be opened"),
}


def read_in_time(name: str, content: bytes):
    """Read a table, and check that it did not take long."""
    start = time.monotonic()
    try:
        return parse_table(name, content)
    finally:
        assert time.monotonic() - start < SECONDS


@pytest.mark.parametrize("case", READ)
def test_a_workbook_with_a_strange_claim_is_read_right(case):
    content = READ[case]()
    table = read_in_time("rows.xlsx", content)
    assert table.columns[:2] == ["text", "label"]
    assert [row.fields[:2] for row in table.rows] == FIELDS


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_workbook_is_refused_at_once(case):
    make, words = REFUSED[case]
    content = make()
    with pytest.raises(ValueError) as caught:
        read_in_time("rows.xlsx", content)
    assert words in str(caught.value) and str(caught.value).startswith("rows.xlsx: ")


def test_objects_with_different_keys_do_not_fill_the_memory():
    lines = [json.dumps({"text": "a", f"key {number}": 1}) for number in range(20_000)]
    with pytest.raises(ValueError, match="it has 400,020,000 cells, but only 40,000 values"):
        read_in_time("rows.jsonl", "\n".join(lines).encode())
    few = read_in_time("rows.jsonl", "\n".join(lines[:500]).encode())
    assert (len(few.rows), len(few.columns)) == (500, 501)


def test_a_wide_row_beside_short_ones_is_named_by_its_fields():
    table = read_in_time("rows.csv", b"a,b\n1,2\n" + b"," * 1_000_000 + b"x\n" + b"3,4\n" * 1000)
    assert "the row has 1000001 fields" in table.fault_of(table.rows[1])


@pytest.mark.parametrize("row", ['<row r="{n}"/>', '<row r="{n}" ht="15">\n</row>'])
def test_many_rows_that_hold_nothing_cost_little(row):
    rows = "".join(row.format(n=number) for number in range(4, 100_000))
    last = '<row r="100000"><c r="A100000" s="0"/><c r="B100000"><v>3</v></c></row></sheetData>'
    content = changed(SHEET, "</sheetData>", rows + last)
    table = read_in_time("rows.xlsx", content)
    assert [row.fields[:2] for row in table.rows] == [*FIELDS, ["", "3"]]
    assert table.rows[-1].line == 100_000
    # openpyxl sees only the rows that hold something.
    (xml,) = sheet_files(content).values()
    assert without_empty_cells(xml).count(b"<row") == len(ROWS) + 1


def test_rows_without_numbers_keep_their_places():
    rows = '<row/><row ht="15"></row><row><c/><c t="n"><v>3</v></c></row></sheetData>'
    table = read_in_time("rows.xlsx", changed(SHEET, "</sheetData>", rows))
    assert (table.rows[-1].line, table.rows[-1].fields[:2]) == (6, ["", "3"])


def test_a_text_that_looks_like_an_empty_row_stays():
    text = '<c r="A4" t="inlineStr"><is><t><![CDATA[see <row r="5"/>]]></t></is></c>'
    row = f'<row r="4">{text}<c r="B4"><v>3</v></c></row></sheetData>'
    table = read_in_time("rows.xlsx", changed(SHEET, "</sheetData>", row))
    assert table.rows[-1].fields[:2] == ['see <row r="5"/>', "3"]
