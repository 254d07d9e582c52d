"""data/tables.py on tables that other programs wrote: each is read right, or refused with advice.

Every variant is made from bytes in this file. A variant that is read must give ROWS, to the
character. A refusal must name the cause and what to do.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import sys
import zipfile

import pytest

from data.columns import Role, find_columns
from data.tables import looks_like_table, parse_table, read_table

ID = Role("--id", ("id",))
TEXT = Role("--text", ("sentence", "text"))
LABEL = Role("--label", ("label",))

# What most variants hold: a comma and quotes, an accent and the euro sign, a word for nothing.
ROWS = [
    ("a1", 'Fine, she said, "really" fine', "3"),
    ("a2", "Ein Café für 5 €; gut", "1"),
    ("a3", "NA", "2"),
]
SIMPLE = [("a1", "It is fine", "3"), ("a2", "It is dull", "1")]
TWO_LINES = [("a1", "first, line\nsecond line", "3"), ("a2", "It is dull", "1")]
GERMAN = [("a1", "Gut, sehr gut", "3,5"), ("a2", 'Er sagt "nein"', "1")]

COMMAS = (
    "id,sentence,label\n"
    'a1,"Fine, she said, ""really"" fine",3\n'
    "a2,Ein Café für 5 €; gut,1\n"
    "a3,NA,2\n"
)
ALL_QUOTED = (
    '"id","sentence","label"\n'
    '"a1","Fine, she said, ""really"" fine","3"\n'
    '"a2","Ein Café für 5 €; gut","1"\n'
    '"a3","NA","2"\n'
)
SEMICOLONS = (
    "id;sentence;label\r\n"
    'a1;"Fine, she said, ""really"" fine";3\r\n'
    'a2;"Ein Café für 5 €; gut";1\r\n'
    "a3;NA;2\r\n"
)
TABS_CSV = (
    "id\tsentence\tlabel\n"
    'a1\t"Fine, she said, ""really"" fine"\t3\n'
    "a2\tEin Café für 5 €; gut\t1\n"
    "a3\tNA\t2\n"
)
PLAIN_TABS = (
    'id\tsentence\tlabel\na1\tFine, she said, "really" fine\t3\n'
    "a2\tEin Café für 5 €; gut\t1\na3\tNA\t2\n"
)
GERMAN_EXCEL = 'id;sentence;label\r\na1;Gut, sehr gut;3,5\r\na2;"Er sagt ""nein""";1\r\n'
MULTILINE = 'id,sentence,label\na1,"first, line\nsecond line",3\na2,It is dull,1\n'


def with_index(text: str) -> str:
    """As pandas writes a table: with its index, whose column has no name."""
    header, *rows = text.splitlines()
    numbered = [f"{number},{row}" for number, row in enumerate(rows)]
    return "\n".join([f",{header}", *numbered]) + "\n"


def as_json(rows) -> str:
    lines = [json.dumps(dict(zip(("id", "sentence", "label"), row, strict=True))) for row in rows]
    return "\n".join(lines) + "\n"


READ = {
    "a plain CSV": (".csv", COMMAS, ROWS),
    "pandas with its index": (".csv", with_index(COMMAS), ROWS),
    "pandas without quotes inside quotes": (".csv", COMMAS.replace("\n", "\r\n"), ROWS),
    "pandas with sep=tab": (".tsv", TABS_CSV, ROWS),
    "pandas with quoting=QUOTE_ALL": (".csv", ALL_QUOTED, ROWS),
    "pandas in utf-8-sig": (".csv", COMMAS.encode("utf-8-sig"), ROWS),
    "pandas in utf-16": (".csv", COMMAS.encode("utf-16"), ROWS),
    "pandas to_json with lines": (".jsonl", as_json(ROWS), ROWS),
    "Excel, CSV UTF-8": (".csv", COMMAS.replace("\n", "\r\n").encode("utf-8-sig"), ROWS),
    "Excel, CSV of Windows in English": (
        ".csv",
        COMMAS.replace("\n", "\r\n").encode("cp1252"),
        ROWS,
    ),
    "Excel, CSV of Windows in German": (".csv", GERMAN_EXCEL.encode("cp1252"), GERMAN),
    "Excel, CSV of Windows in French": (".csv", SEMICOLONS.encode("cp1252"), ROWS),
    "Excel, with sep=;": (".csv", "sep=;\r\n" + SEMICOLONS, ROWS),
    "Excel, with sep=, in quotes": (".csv", '"sep=,"\r\n' + COMMAS, ROWS),
    "Excel, Unicode text": (".txt", TABS_CSV.replace("\n", "\r\n").encode("utf-16"), ROWS),
    "Excel, text with tabs": (".txt", TABS_CSV.replace("\n", "\r\n").encode("cp1252"), ROWS),
    "Excel, with empty rows at the end": (".csv", SEMICOLONS + ";;\r\n;;\r\n", ROWS),
    "Excel, with an empty column at the end": (
        ".csv",
        SEMICOLONS.replace("\r\n", ";\r\n"),
        ROWS,
    ),
    "rows end with a delimiter, the header does not": (
        ".csv",
        "id,sentence,label\na1,It is fine,3,\na2,It is dull,1,\n",
        SIMPLE,
    ),
    "the header ends with a delimiter, rows do not": (
        ".csv",
        "id,sentence,label,\na1,It is fine,3\na2,It is dull,1\n",
        SIMPLE,
    ),
    "R, write.csv with names of rows": (
        ".csv",
        '"","id","sentence","label"\n"1","a1","It is fine",3\n"2","a2","It is dull",1\n',
        SIMPLE,
    ),
    "R, write.table with commas and names of rows": (
        ".csv",
        '"id","sentence","label"\n"1","a1","It is fine",3\n"2","a2","It is dull",1\n',
        SIMPLE,
    ),
    "R, write.csv2": (
        ".csv",
        '"";"id";"sentence";"label"\n"1";"a1";"Gut, sehr gut";3,5\n"2";"a2";"Er sagt ""nein""";1\n',
        GERMAN,
    ),
    "R, a missing text": (
        ".csv",
        '"id","sentence","label"\n"a1","It is fine",3\n"a2",NA,NA\n',
        [("a1", "It is fine", "3"), ("a2", "", "")],
    ),
    "PowerShell, Export-Csv with #TYPE": (
        ".csv",
        "#TYPE Selected.System.Object\r\n" + ALL_QUOTED.replace("\n", "\r\n"),
        ROWS,
    ),
    "PowerShell, Export-Csv -Encoding Unicode": (
        ".csv",
        codecs.BOM_UTF16_LE + ("#TYPE X\r\n" + ALL_QUOTED).encode("utf-16-le"),
        ROWS,
    ),
    "PowerShell, redirected": (".csv", ALL_QUOTED.encode("utf-16"), ROWS),
    "UTF-16 without a mark": (".csv", COMMAS.encode("utf-16-le"), ROWS),
    "UTF-16, big end first": (".csv", codecs.BOM_UTF16_BE + COMMAS.encode("utf-16-be"), ROWS),
    "Google Sheets": (".csv", COMMAS.replace("\n", "\r\n").rstrip("\r\n"), ROWS),
    "Google Sheets with line breaks in a cell": (
        ".csv",
        MULTILINE.replace("\na2", "\r\na2"),
        TWO_LINES,
    ),
    "line breaks of Windows inside quotes": (
        ".csv",
        MULTILINE.replace("\n", "\r\n"),
        [("a1", "first, line\r\nsecond line", "3"), TWO_LINES[1]],
    ),
    "line ends of an old Mac": (".csv", COMMAS.replace("\n", "\r"), ROWS),
    "blank lines between rows": (".csv", COMMAS.replace("\n", "\n\n"), ROWS),
    "vertical bars": (
        ".txt",
        "id|sentence|label\na1|It is fine|3\na2|It is dull|1\n",
        SIMPLE,
    ),
    "tabs, quotes are characters": (".tsv", PLAIN_TABS, ROWS),
    "tabs, a sentence begins with a quote": (
        ".tsv",
        'id\tsentence\tlabel\na1\t"Fine\t3\na2\tsaid "no"\t1\na3\t"Yes, so."\t2\n',
        [("a1", '"Fine', "3"), ("a2", 'said "no"', "1"), ("a3", '"Yes, so."', "2")],
    ),
    "blanks behind the commas": (
        ".csv",
        'id, sentence, label\na1, "Fine, she said, ""really"" fine", 3\na2, It is dull, 1\n',
        [ROWS[0], SIMPLE[1]],
    ),
    "names in capitals, with blanks": (
        ".csv",
        " ID ,Sentence , LABEL\na1,It is fine,3\na2,It is dull,1\n",
        SIMPLE,
    ),
    "other columns in another order": (
        ".csv",
        "date,label,sentence,id\n2024-01-02,3,It is fine,a1\n2024-01-03,1,It is dull,a2\n",
        SIMPLE,
    ),
    "words for nothing": (
        ".csv",
        "id,sentence,label\na1,None,3\na2,null,1\na3,nan,2\na4,n/a,2\n",
        [("a1", "None", "3"), ("a2", "null", "1"), ("a3", "nan", "2"), ("a4", "n/a", "2")],
    ),
    "missing values of MySQL": (
        ".tsv",
        "id\tsentence\tlabel\na1\tIt is fine\t3\na2\t\\N\t\\N\n",
        [SIMPLE[0], ("a2", "", "")],
    ),
    "JSON with numbers, null and a missing key": (
        ".jsonl",
        '{"id": 7, "sentence": "Café", "label": 3.0}\n\n{"id": 8, "label": null}\n',
        [("7", "Café", "3"), ("8", "", "")],
    ),
    "JSON in a file of another name": (".txt", as_json(SIMPLE), SIMPLE),
    "a field of 140,000 characters": (
        ".csv",
        f"id,sentence,label\na1,{'x ' * 70_000}y,3\n",
        [("a1", "x " * 70_000 + "y", "3")],
    ),
    "characters that are line ends elsewhere": (
        ".csv",
        "id,sentence,label\na1,one\u2028two\x0bthree\x85four,3\n",
        [("a1", "one\u2028two\x0bthree\x85four", "3")],
    ),
}


@pytest.mark.parametrize("variant", READ)
def test_a_table_that_another_program_wrote_is_read_right(variant, tmp_path):
    suffix, content, expected = READ[variant]
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read_table(path)
    columns = find_columns(table, (ID, TEXT, LABEL), (None, None, None), "")
    rows = []
    for row in table.rows:
        assert table.fault_of(row, columns) is None
        rows.append(tuple(row.fields[column].strip() for column in columns))
    assert rows == expected
    assert looks_like_table(str(path), path.read_bytes()), "it would be read as plain sentences"


# --- what is refused ------------------------------------------------------------------------------


def archive(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr(name, COMMAS)
    return file.getvalue()


REFUSED = {
    "gzip": (".csv.gz", gzip.compress(COMMAS.encode()), "gunzip"),
    "bzip2": (".csv.bz2", bz2.compress(COMMAS.encode()), "bunzip2"),
    "xz": (".csv.xz", lzma.compress(COMMAS.encode()), "unxz"),
    "zip": (".zip", archive("rows.csv"), "Unpack it first"),
    "an old Excel workbook": (".xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ".xlsx"),
    "a binary workbook": (".xlsb", archive("xl/workbook.bin"), "Save it as .xlsx"),
    "OpenDocument": (".ods", archive("content.xml"), "Save its table as .xlsx"),
    "Parquet": (".parquet", b"PAR1\x15\x04" + bytes(60), "read_parquet"),
    "a pickle": (".pkl", b"\x80\x04\x95\x01\x00", "a pickle of Python"),
    "a page that asks to sign in": (".csv", "<!DOCTYPE html>\n<html><head>", "a web page"),
    "a pointer of Git LFS": (
        ".csv",
        "version https://git-lfs.github.com/spec/v1\n",
        "git lfs pull",
    ),
    "a damaged archive": (".xlsx", b"PK\x03\x04" + bytes(40), "is damaged"),
    "empty": (".csv", "", "the file is empty"),
    "only blank lines": (".csv", "\n \n", "the file is empty"),
    "two delimiters are possible": (
        ".csv",
        "id;a,label\n1;x,2\n2;y,3\n",
        "equally many fields at every comma and at every semicolon",
    ),
    "a quote that is never closed": (
        ".csv",
        'id,sentence,label\na1,"Fine,3\na2,It is dull,1\n',
        "begins on line 2 has a field with line breaks that ends wrongly: unexpected end of data",
    ),
    "a quote where none belongs": (
        ".csv",
        'id,sentence,label\na1,It is dull,1\na2,"Fine" she said,3\n',
        "line 3: not readable as comma-separated text (the row that begins on line 3",
    ),
    "two open quotes that enclose a row": (
        ".csv",
        'id,sentence,label\n1,"Fine,3\n2,it is dull",1\n3,good,2\n4,bad,1\n',
        "the row that begins on line 2 has lines that look like rows of their own",
    ),
    "quotes behind backslashes": (
        ".csv",
        'id,sentence,label\na1,"He said \\"no\\" twice",1\n',
        "a backslash stands before a quotation mark",
    ),
    "R, write.table as it is": (
        ".txt",
        '"id" "sentence" "label"\n"1" "a1" "It is fine" 3\n',
        "Write it with write.csv(..., row.names = FALSE)",
    ),
    "JSON that is no lines": (".json", '{\n "id": 1\n}\n', "lines=True"),
    "a JSON array": (".json", '[{"id": 1, "sentence": "x"}]', "Expected is one JSON object per"),
    "pandas to_json as it is": (
        ".jsonl",
        '{"id":{"0":1},"sentence":{"0":"x"},"label":{"0":1}}\n',
        """'id' holds {"0": 1}; expected is one text""",
    ),
    "a key of JSON comes twice": (".jsonl", '{"id": 1, "id": 2}\n', "the key 'id' comes twice"),
    "a list as a text": (".jsonl", '{"id": 1, "sentence": ["x"], "label": 1}\n', 'holds ["x"]'),
    "MacRoman": (
        ".csv",
        COMMAS.replace("€", "").encode("mac-roman"),
        "Save it again as CSV in UTF-8",
    ),
    "DOS": (".csv", "id,sentence,label\na1,Mädchen für vier,3\n".encode("cp850"), "in UTF-8"),
    "Cyrillic": (
        ".csv",
        "id,sentence,label\na1,Это хороший фильм,3\n".encode("cp1251"),
        "in UTF-8",
    ),
    "Polish": (".csv", "id,sentence,label\na1,Spółka była zła,3\n".encode("cp1250"), "in UTF-8"),
    "Chinese": (".csv", "id,sentence,label\na1,这部电影很好,3\n".encode("gbk"), "in UTF-8"),
    "UTF-16 that is cut": (".csv", COMMAS.encode("utf-16")[:-1], "does not fit it"),
    "a damaged byte": (".csv", COMMAS.encode() + b"a4,caf\xe9,2\n", "bytes that are not UTF-8"),
    "a zero byte": (".csv", COMMAS + "a4,ca\0fe,2\n", "holds a zero byte"),
    "a comma without quotes": (
        ".csv",
        "id,sentence,label\na1,It is fine,3\na2,Yes, it is,1\n",
        "the row has 4 fields; the header names 3 (a text that holds a comma must stand in quotes)",
    ),
    "a comma without quotes in every row": (
        ".csv",
        "id,sentence,label\n1,Yes, it is,3\n2,No, it is not,1\n",
        "the row has 4 fields; the header names 3",
    ),
    "two tables in one file": (".csv", COMMAS + COMMAS, "the row repeats the header"),
    "a title above the header": (".csv", "Survey 2024\n" + COMMAS, "found are: Survey 2024"),
    "a failed formula": (
        ".csv",
        "id,sentence,label\na1,#NAME?,3\na2,It is dull,1\n",
        "'sentence' holds #NAME?, a spreadsheet's failed formula",
    ),
    "no header": (".csv", "a1,It is fine,3\na2,It is dull,1\n", "the header has no column id, sen"),
    "two columns of a name": (
        ".csv",
        "id,text,text,label\n1,a,b,3\n",
        "2 columns may be 'sentence or text'; found are: id, text, text, label. Pass one with --te",
    ),
    "a dictionary of columns": (".csv", "id:a1\nsentence:fine\n", "found are: id:a1"),
}


def read_all(path) -> None:
    """Read a table as every command does: columns by name, and the faults of each row."""
    table = read_table(path)
    columns = find_columns(table, (ID, TEXT, LABEL), (None, None, None), "Fix the header.")
    for row in table.rows:
        fault = table.fault_of(row, columns)
        if fault:
            raise ValueError(f"{table.place(row)}: {fault}")


@pytest.mark.parametrize("variant", REFUSED)
def test_a_file_that_cannot_be_read_right_is_refused_with_advice(variant, tmp_path):
    suffix, content, words = REFUSED[variant]
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError) as caught:
        read_all(path)
    assert str(caught.value).startswith(str(path)) and words in str(caught.value)


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
    with pytest.raises(
        ValueError, match="needs the package openpyxl.* Run `bash setup.sh --excel`"
    ):
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
    ],
)
def test_a_row_knows_the_line_on_which_it_begins(text, lines):
    assert [row.line for row in parse(text).rows] == lines


def test_the_cmu_format_has_no_header_and_a_sentence_may_hold_its_separator():
    table = parse('3 ||| Fine , "really"\n1 |||  Dull ||| very \n', "sst-train.txt")
    assert table.columns == ["label", "sentence"]
    assert [row.fields for row in table.rows] == [["3", 'Fine , "really"'], ["1", "Dull ||| very"]]
    assert parse("label ||| sentence\n3 ||| Fine\n").rows[0].fields == ["3", "Fine"]


def test_how_a_file_was_read_is_said():
    table = parse("id,sentence\n1,Café\n".encode("cp1252"))
    assert table.notes == ("read as Windows-1252, because it is not UTF-8; it holds '1,Café'",)
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
