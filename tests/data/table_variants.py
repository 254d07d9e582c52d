"""Tables of real life, as bytes: those that are read right, and those that are refused with advice.

test_table_reader.py reads each of them. docs/table-variants.md lists them. This command writes that
page again:

    .venv/bin/python -m tests.data.table_variants
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from data.tables.columns import Role, find_columns
from data.tables.reader import read_table
from data.tables.rows import RawTable

PAGE = Path(__file__).parents[2] / "docs" / "table-variants.md"
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
GERMAN = [("a1", "Schön, sehr gut", "3,5"), ("a2", 'Er sagt "nein"', "1")]

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
GERMAN_EXCEL = 'id;sentence;label\r\na1;Schön, sehr gut;3,5\r\na2;"Er sagt ""nein""";1\r\n'
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
    "pandas with line ends of Windows": (".csv", COMMAS.replace("\n", "\r\n"), ROWS),
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
        '"";"id";"sentence";"label"\n"1";"a1";"Schön, sehr gut";3,5\n'
        '"2";"a2";"Er sagt ""nein""";1\n',
        GERMAN,
    ),
    "R, a missing text": (
        ".csv",
        '"id","sentence","label"\n"a1","It is fine",3\n"a2",NA,NA\n',
        [("a1", "It is fine", "3"), ("a2", "", "")],
    ),
    "R, a text NA beside a missing label": (
        ".csv",
        '"id","sentence","label"\n"a1","NA",NA\n"a2","a, ""b""",NA\n"a3",NA,1\n',
        [("a1", "NA", ""), ("a2", 'a, "b"', ""), ("a3", "", "1")],
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
    "JSON with NaN for a missing text": (
        ".jsonl",
        '{"id": 7, "sentence": "fine", "label": 3}\n{"id": 8, "sentence": NaN, "label": NaN}\n',
        [("7", "fine", "3"), ("8", "", "")],
    ),
    "JSON with an emoji as a pair of escapes": (
        ".jsonl",
        '{"id": 7, "sentence": "\\ud83d\\ude00", "label": 3}\n',
        [("7", "\U0001f600", "3")],
    ),
    "JSON with half an emoji in another column": (
        ".jsonl",
        '{"id": 7, "sentence": "x", "label": 3, "user": "\\ud83d", "u": ["\\ud83d"]}\n',
        [("7", "x", "3")],
    ),
    "JSON in a file of another name": (".txt", as_json(SIMPLE), SIMPLE),
    "a JSON array": (".json", "[" + ",".join(as_json(ROWS).splitlines()) + "]", ROWS),
    "a JSON array with indents": (
        ".json",
        '[\n  {\n    "id": "a1",\n    "sentence": "x",\n    "label": 3\n  }\n]\n',
        [("a1", "x", "3")],
    ),
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
    "a JSON array that is cut": (".json", '[{"id": 1, "sentence": "x"},', "not readable as one"),
    "a JSON array of other things": (".json", '[{"id": 1}, 2]', "item 2: holds 2. Expected is an"),
    "pandas to_json as it is": (
        ".jsonl",
        '{"id":{"0":1},"sentence":{"0":"x"},"label":{"0":1}}\n',
        "one JSON object holds the whole table",
    ),
    "pandas to_json with orient=index": (
        ".json",
        '{"0":{"id":1,"sentence":"x","label":1}}\n',
        "pandas writes it with to_json(PATH, orient='records', lines=True).",
    ),
    "pandas to_json with indents": (
        ".json",
        '{\n "id":{"0":1},\n "sentence":{"0":"x"}\n}\n',
        "one JSON object holds the whole table",
    ),
    "pandas to_json with orient=values": (".json", '[\n [1, "x"]\n]\n', "array of other things"),
    "rows below a key of JSON": (
        ".json",
        '{"version": "1.1", "data": [{"id": 1, "sentence": "x", "label": 1}]}\n',
        "in an array called 'data'. Write that array alone",
    ),
    "an object over several lines in a file of another name": (
        ".txt",
        '{\n "id": 1\n}\n',
        "one JSON value fills lines 1 to 3",
    ),
    "a key of JSON comes twice": (".jsonl", '{"id": 1, "id": 2}\n', "the key 'id' comes twice"),
    "a list as a text": (".jsonl", '{"id": 1, "sentence": ["x"], "label": 1}\n', 'holds ["x"]'),
    "a list as a label": (
        ".jsonl",
        '{"id": 1, "sentence": "x", "label": ["a"]}\n',
        'holds ["a"]; ex',
    ),
    "Infinity as a label": (
        ".jsonl",
        '{"id": 1, "sentence": "x", "label": Infinity}\n',
        "'label' holds Infinity; expected is one text",
    ),
    "half an emoji in JSON": (
        ".jsonl",
        '{"id": 1, "sentence": "x", "label": 1}\n{"id": 2, "sentence": "no \\ud83d", "label": 1}\n',
        "line 2: 'sentence' holds the escape \\ud83d, which is half of a character",
    ),
    "the other half of an emoji in JSON": (
        ".json",
        '[{"id": 1, "sentence": "\\ude00 cut", "label": 1}]',
        "item 1: 'sentence' holds the escape \\ude00, which is half of a character",
    ),
    "a damaged byte in JSON": (
        ".jsonl",
        '{"id": 1, "sentence": "café", "label": 1}\n'.encode()
        + b'{"id": 2, "sentence": "caf\xe9"}\n',
        "line 2: the row holds bytes that are not UTF-8",
    ),
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
    "no header": (
        ".csv",
        "a1,It is fine,3\na2,It is dull,1\n",
        "found is a line like the rows bel",
    ),
    "two columns of a name": (
        ".csv",
        "id,text,text,label\n1,a,b,3\n",
        "2 columns may be 'sentence or text'; found are: id, text, text, label. Pass one with --te",
    ),
    "a dictionary of columns": (".csv", "id:a1\nsentence:fine\n", "found are: id:a1"),
}


# --- the page -------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """A table, and its rows in the columns ID, TEXT and LABEL."""

    table: RawTable
    rows: list[tuple[str, ...]]


def read_variant(path: Path) -> Reading:
    """Read a table as every command does: columns by name, and the faults of each row."""
    table = read_table(path)
    columns = find_columns(table, (ID, TEXT, LABEL), (None, None, None), "Fix the header.")
    rows = []
    for row in table.rows:
        fault = table.fault_of(row, columns)
        if fault:
            raise ValueError(f"{table.place(row)}: {fault}")
        rows.append(tuple(row.fields[column].strip() for column in columns))
    return Reading(table, rows)


def write_variant(folder: Path, suffix: str, content: str | bytes) -> Path:
    """Write a variant to rows.csv, or another name with its suffix."""
    path = folder / f"rows{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_page() -> str:
    """The page that lists all variants, with what the reader says of each."""
    lines = [
        "# Tables of real life",
        "",
        "After this page you know which files are read and which are refused, with what advice.",
        "`tests/data/table_variants.py` holds each file. It also wrote this page, from what the "
        "reader says.",
        "",
        f"## Read right: {len(READ)} variants",
        "",
        "| variant | file | read as |",
        "|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variant, (suffix, content, _) in READ.items():
            table = read_variant(write_variant(folder, suffix, content)).table
            result = "; ".join([str(table.layout), *table.notes])
            lines.append(f"| {cell(variant)} | {suffix} | {cell(result)} |")
        lines += [
            "",
            f"## Refused with advice: {len(REFUSED)} variants",
            "",
            "| variant | file | message |",
            "|---|---|---|",
        ]
        for variant, (suffix, content, _) in REFUSED.items():
            path = write_variant(folder, suffix, content)
            message = message_of(path).replace(str(path), path.name)
            lines.append(f"| {cell(variant)} | {suffix} | {cell(message)} |")
    return "\n".join(lines) + "\n"


def message_of(path: Path) -> str:
    """What the reader says of a file that it refuses."""
    try:
        read_variant(path)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{path} is not refused")


def cell(text: str) -> str:
    """A text as a cell of a Markdown table."""
    text = " ".join(text.split())
    for sign in "\\|<*_`":
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
