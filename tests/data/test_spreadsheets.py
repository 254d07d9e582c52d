"""data/tables/spreadsheets.py: a spreadsheet opens the table as it was, and runs no cell."""

import csv
import io
import re

import pytest

from data.tables.reader import read_table
from data.tables.spreadsheets import (
    MAX_CHARACTERS,
    MAX_ROWS,
    check_cells,
    check_spreadsheet,
    new_column,
    safe_cell,
    typed_cell,
    write_spreadsheet,
)
from minbert.commands.optional import install_command


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30", "'+49 30"),
        ("-sum", "'-sum"),
        ("@x", "'@x"),
        ("\t=1", "'\t=1"),
        ("\n=1", "'\n=1"),
        ("\r=1", "'\r=1"),
        ("  =1", "'  =1"),
        ("＝1", "'＝1"),
        ("a=1", "a=1"),
        ("-1.5", "-1.5"),
        ("+3", "+3"),
        ("-2,5", "-2,5"),
        ("-", "'-"),
        ("fine", "fine"),
        ("", ""),
    ],
)
def test_no_cell_is_taken_for_a_formula(cell, expected):
    assert safe_cell(cell) == expected


def test_a_spreadsheet_reads_what_is_written(tmp_path):
    path = tmp_path / "out.csv"
    rows = [['a "b", c', "Café für 5 €"], ["two\nlines", "=x"]]
    write_spreadsheet(path, ["first", "second"], rows)
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    text = content.decode("utf-8-sig")
    read_back = list(csv.reader(io.StringIO(text, newline="")))
    assert read_back == [["first", "second"], rows[0], ["two\nlines", "'=x"]]
    write_spreadsheet(path, ["a", "b"], [["1;2", "3"]], delimiter=";")
    assert path.read_text("utf-8-sig") == 'a;b\n"1;2";3\n'


def test_a_new_column_has_a_name_of_its_own():
    assert new_column("prediction", ["id"]) == "prediction"
    assert new_column("prediction", ["Prediction", "prediction_2"]) == "prediction_3"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-1.5", -1.5),
        ("0.9731", 0.9731),
        ("007", "007"),
        ("2.50", "2.50"),
        ("1e5", "1e5"),
        ("+3", "+3"),
        ("3,5", "3,5"),
        ("12345678901234567", "12345678901234567"),
        ("fine", "fine"),
        ("", ""),
    ],
)
def test_only_a_number_that_is_written_as_usual_becomes_one(text, value):
    cell = typed_cell(text, has_decimal_comma=False)
    assert (cell, type(cell)) == (value, type(value))


def test_a_decimal_comma_is_read_in_a_table_that_has_it():
    assert typed_cell("3,5", has_decimal_comma=True) == 3.5
    assert typed_cell("3,5,1", has_decimal_comma=True) == "3,5,1"
    assert typed_cell("3,50", has_decimal_comma=True, decimals=2) == 3.5


# --- workbooks ------------------------------------------------------------------------------------


@pytest.fixture
def openpyxl():
    return pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")


def test_a_workbook_holds_texts_as_texts_and_numbers_as_numbers(openpyxl, tmp_path):
    path = tmp_path / "out.xlsx"
    row = ["007", "=1+1", "-5 °C", "#N/A", "two\nlines", "bell\x07", "0.25", ""]
    write_spreadsheet(path, ["id", "=a", "b", "c", "d", "e", "confidence", "f"], [row])
    header, cells = openpyxl.load_workbook(path).active.iter_rows()
    expected = ["007", "=1+1", "-5 °C", "#N/A", "two\nlines", "bell\ufffd", 0.25, None]
    assert [cell.value for cell in cells] == expected
    assert [cell.data_type for cell in cells[:6]] == ["s"] * 6, "a formula would be run"
    assert header[1].data_type == "s"
    assert cells[1].quotePrefix and not cells[0].quotePrefix
    # Read again, nothing has an apostrophe that the text had not.
    assert read_table(path).rows[0].fields[1:4] == ["=1+1", "-5 °C", "#N/A"]


def test_a_column_with_equal_decimals_holds_numbers_only(openpyxl, tmp_path):
    """Some of four decimals end in 0. They are numbers as well, and look as they were."""
    path = tmp_path / "out.xlsx"
    rows = [["0.9340", "3.10", "07.50"], ["", "3.9", "7.25"], ["-1.0000", "x", "7.20"]]
    write_spreadsheet(path, ["confidence", "version", "id"], rows)
    cells = list(zip(*openpyxl.load_workbook(path).active.iter_rows(min_row=2), strict=True))
    assert [cell.value for cell in cells[0]] == [0.934, None, -1]
    assert cells[0][0].data_type == "n" and cells[0][0].number_format == "0.0000"
    # Where the decimals differ or a cell is a text, a final zero may be a part of a name.
    assert [cell.value for cell in cells[1]] == ["3.10", 3.9, "x"]
    assert [cell.value for cell in cells[2]] == ["07.50", 7.25, 7.2]


def test_what_a_workbook_cannot_hold_is_refused(openpyxl, tmp_path):
    path = tmp_path / "out.xlsx"
    check_cells(path, [["x" * MAX_CHARACTERS]])
    with pytest.raises(ValueError, match="row 2 has a cell of 32,768 characters"):
        check_cells(path, [["x"], ["y", "x" * (MAX_CHARACTERS + 1)]])
    with pytest.raises(ValueError, match="Excel holds 1,048,575 rows"):
        check_cells(path, [["x"]] * MAX_ROWS)
    check_cells(tmp_path / "out.csv", [["x" * (MAX_CHARACTERS + 1)]])


def test_a_name_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    check_spreadsheet(tmp_path / "out.CSV")
    with pytest.raises(ValueError, match=r"expected is a name that ends in \.csv or \.xlsx"):
        check_spreadsheet(tmp_path / "out.tsv")
    monkeypatch.setattr("data.tables.spreadsheets.importlib.util.find_spec", lambda name: None)
    command = re.escape(install_command(["openpyxl"], "--excel"))
    with pytest.raises(ValueError, match=f"needs the package openpyxl.* Run `{command}`"):
        check_spreadsheet(tmp_path / "out.xlsx")
