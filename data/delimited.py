"""Delimited text -> rows: finds the delimiter, and whether quotation marks enclose fields.

Files come from pandas, R, Excel in many languages, PowerShell and by hand. Nothing is guessed in
silence: where two readings are possible, the file is refused. Where an open quote swallowed rows,
the line is named.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from data.rows import DELIMITER_NAMES, EmptyTable, Layout, RawTable, Row, is_number

DELIMITERS = ("\t", ",", ";", "|")
CMU_DELIMITER = " ||| "  # of the files `label ||| sentence`
CMU_HEADER = ("label", "sentence")
NUM_SNIFFED = 20  # rows that decide about the delimiter

# Excel reads and writes this first line, which names the delimiter.
SEP_LINE = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
# Export-Csv of Windows PowerShell names the type of its objects.
TYPE_LINE = re.compile(r"#TYPE .*")
# write.table of R puts blanks between quoted names, if it is not told otherwise.
R_HEADER = re.compile(r'"[^"]*"( "[^"]*")+\s*')


class Lines(NamedTuple):
    """The lines of a text with their ends, and what stands before the header.

    num_skipped: lines before the header that only say how the file is written.
    delimiter: what such a line says; None where there is none.
    """

    lines: list[str]
    num_skipped: int
    delimiter: str | None


class ParsedRow(NamedTuple):
    """A row, and the number of its last line."""

    row: Row
    end: int


class QuoteUse(NamedTuple):
    """Whether quotation marks enclose fields, and a sentence for the user or ""."""

    is_csv: bool
    note: str = ""


def split_lines(text: str) -> Lines:
    """Split a text at the line ends of any system, and at nothing else.

    str.splitlines would also split at characters that stand inside sentences, such as U+2028.
    """
    lines = list(io.StringIO(text, newline=""))
    first = lines[0] if lines else ""
    declared = SEP_LINE.fullmatch(first)
    if declared:
        return Lines(lines, 1, declared.group(1))
    if TYPE_LINE.match(first):
        return Lines(lines, 1, ",")
    return Lines(lines, 0, None)


def read_delimited(
    name: str, text: str, encoding: str, suffix: str = "", has_quotes: bool | None = None
) -> RawTable:
    """Return the table in a delimited text with a header.

    name: the path, or "standard input". suffix: the end of the file's name, such as ".csv".
    has_quotes: whether quotation marks enclose fields. None: it is found from the text. Tables with
        tabs are written in both ways, all others with quotes.

    Raises ValueError with the line, what was found, what is expected and what to do.
    """
    # The csv module stops at 131,072 characters in a field, unless it is told otherwise.
    csv.field_size_limit(2**31 - 1)
    lines = split_lines(text)
    body = lines.lines[lines.num_skipped :]
    if not any(line.strip() for line in body):
        raise EmptyTable(f"{name}: the file is empty; expected are a header and at least one row.")
    delimiter = lines.delimiter or find_delimiter(name, body, suffix)
    if delimiter == CMU_DELIMITER:
        return read_cmu(name, body, encoding)

    use = are_quotes_used(body, delimiter) if has_quotes is None else QuoteUse(has_quotes)
    parser = DelimitedParser(name, lines, delimiter, use.is_csv)
    parsed = parser.parse()
    rows = [item.row for item in parsed]
    header, rows = align_header(rows[0], rows[1:], body)
    layout = Layout("delimited", encoding, delimiter, use.is_csv)
    notes = (use.note,) if use.note else ()
    table = RawTable(name, header, tuple(rows), layout, notes)
    parser.refuse_swallowed_rows(table, parsed)
    return table


# --- the delimiter --------------------------------------------------------------------------------


def find_delimiter(name: str, lines: Sequence[str], suffix: str) -> str:
    """Return the delimiter that splits the header and the first rows into equally many fields.

    Raises ValueError where several delimiters do so.
    """
    if is_cmu(lines):
        return CMU_DELIMITER
    header = next(line for line in lines if line.strip())
    if R_HEADER.fullmatch(header):
        raise ValueError(
            f"{name}: its columns are separated by blanks, as write.table of R does. Write it with "
            "write.csv(..., row.names = FALSE)."
        )

    regular = []
    for delimiter in DELIMITERS:
        if is_regular(first_rows(lines, delimiter)):
            regular.append(delimiter)
    # Some rows are damaged. They are named later, when the header is known.
    if not regular:
        return delimiter_of_header(header, suffix)
    # Sentences hold commas and semicolons, but no tabs.
    if "\t" in regular:
        return "\t"
    if len(regular) == 1:
        return regular[0]
    names = " and at every ".join(DELIMITER_NAMES[delimiter] for delimiter in regular)
    raise ValueError(
        f"{name}: its rows split into equally many fields at every {names}. The header is: "
        f"{header.strip()[:80]}. Save the table with tabs between the columns."
    )


def is_cmu(lines: Sequence[str]) -> bool:
    """Whether all lines with text have the form `label ||| sentence`."""
    filled = [line for line in lines if line.strip()]
    return bool(filled) and all(CMU_DELIMITER in line for line in filled)


def first_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the fields of the first rows that are not blank."""
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(lines, delimiter=delimiter)
    filled = (fields for fields in reader if not is_blank(fields))
    return list(islice(filled, NUM_SNIFFED))


def is_regular(rows: Sequence[list[str]]) -> bool:
    """Whether all rows have the same number of fields, at least two.

    The header may lack the name of a first column, or have no delimiter at its end.
    """
    if len(rows) < 2:
        return False
    counts = {len(fields) for fields in rows[1:]}
    if len(counts) != 1:
        return False
    count = counts.pop()
    in_header = len(rows[0])
    return min(in_header, count) >= 2 and abs(in_header - count) <= 1


def delimiter_of_header(header: str, suffix: str) -> str:
    """Return the delimiter that the header has most often.

    Without any, there is one column. Then the name of the file decides.
    """
    counts = {delimiter: header.count(delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: counts[delimiter])
    if counts[best]:
        return best
    return "\t" if suffix in (".tsv", ".tab") else ","


# --- quotation marks ------------------------------------------------------------------------------


def are_quotes_used(lines: Sequence[str], delimiter: str) -> QuoteUse:
    """Find whether quotation marks enclose fields.

    With a comma or semicolon they always do. A table with tabs may have sentences that begin with a
    quotation mark, which is then a character like any other (STS12 has them). A writer of CSV puts
    quotes around a field only for a reason, and `has_reason` looks for it.
    """
    has_any = any('"' in line for line in lines)
    if delimiter != "\t" or not has_any:
        return QuoteUse(True)

    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    end = 0
    is_enclosed = False
    bare: list[str] = []
    quoted: list[str] = []
    try:
        for fields in reader:
            begin = end
            end = reader.line_num
            if any(has_swallowed(field, delimiter) for field in fields):
                return QuoteUse(False, note_on_quotes(lines, begin + 1))
            # Without quotes, a row is the pieces between the tabs of one line.
            pieces = "".join(lines[begin:end]).rstrip("\r\n").split("\t")
            if end > begin + 1 or len(pieces) > len(fields):
                is_enclosed = True  # a line end or a tab inside a field
                continue
            quoted += [piece for piece in pieces if piece.startswith('"')]
            bare += [piece for piece in pieces if not piece.startswith('"')]
    except csv.Error:
        # A writer of CSV never leaves a quote like this one.
        return QuoteUse(False, note_on_quotes(lines, end + 1))
    header = next(line for line in lines if line.strip()).rstrip("\r\n").split("\t")
    return QuoteUse(is_enclosed or has_reason(header, quoted, bare))


def has_reason(header: Sequence[str], quoted: Sequence[str], bare: Sequence[str]) -> bool:
    """Whether the quotes around some fields of a table with tabs were put there by a writer of CSV.

    It doubles a quote inside. Or it quotes every text, also in the header. Or it quotes exactly the
    fields with a comma or a quote, as Excel does.
    """
    if any('""' in piece[1:-1] for piece in quoted):
        return True
    if all(piece.startswith('"') for piece in header if piece):
        return True
    has_comma = any("," in piece for piece in quoted)
    is_bare_special = any("," in piece or '"' in piece for piece in bare)
    return has_comma and not is_bare_special


def note_on_quotes(lines: Sequence[str], line: int) -> str:
    """A sentence for the user where quotes are ordinary characters, but some look otherwise."""
    for text in lines:
        for piece in text.rstrip("\r\n").split("\t"):
            inside = piece[1:-1]
            if re.fullmatch('"[^"]*("")+.*"', piece) and '"' not in inside.replace('""', ""):
                return (
                    f"its quotation marks are read as ordinary characters, because line {line} has "
                    "one that is not closed"
                )
    return ""


def has_swallowed(field: str, delimiter: str) -> bool:
    """Whether a field holds delimiters and line breaks, as behind a quote that is not closed."""
    return delimiter in field and ("\n" in field or "\r" in field)


# --- the rows -------------------------------------------------------------------------------------


class DelimitedParser:
    """Parses the lines of one file with the csv module, and knows where each row begins."""

    def __init__(self, name: str, lines: Lines, delimiter: str, has_quotes: bool) -> None:
        self.name = name
        self.lines = lines
        self.delimiter = delimiter
        self.has_quotes = has_quotes
        self.has_blanks = has_quotes and has_blanks_before_quotes(lines.lines, delimiter)

    def parse(self) -> list[ParsedRow]:
        """Return the rows that hold any text, the header first.

        Raises ValueError where the csv module cannot read a row, and where an open quote swallowed
        rows with tabs.
        """
        skipped = self.lines.num_skipped
        reader = self.open_reader(skipped)
        parsed = []
        begin = skipped
        end = skipped
        try:
            for fields in reader:
                begin = end
                end = skipped + reader.line_num
                # No tab stands in a sentence, but a comma and a line break may well do so.
                if self.delimiter == "\t" and any(has_swallowed(field, "\t") for field in fields):
                    self.refuse(begin + 1, end, "has a field with tabs and line breaks")
                if not is_blank(fields):
                    parsed.append(ParsedRow(Row(begin + 1, fields), end))
                    self.clear_missing(parsed[0], parsed[-1])
        except csv.Error as error:
            # `end` is still the last line of the row before.
            last = skipped + reader.line_num
            fields = "a field with line breaks" if last > end + 1 else "a field"
            self.refuse(end + 1, last, f"has {fields} that ends wrongly: {error}")
        return parsed

    def open_reader(self, skipped: int) -> Any:
        """Return the reader of the csv module, behind the lines that only describe the file."""
        lines = self.lines.lines[skipped:]
        if not self.has_quotes:
            return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)
        return csv.reader(
            lines, delimiter=self.delimiter, strict=True, skipinitialspace=self.has_blanks
        )

    def clear_missing(self, header: ParsedRow, parsed: ParsedRow) -> None:
        """Empty the fields that stand for a missing value.

        Databases write \\N. R writes NA without quotes, and puts every text in quotes, so that the
        text "NA" differs. Elsewhere NA, null and None are texts.
        """
        fields = parsed.row.fields
        for column, field in enumerate(fields):
            if field == "\\N":
                fields[column] = ""
        if "NA" in fields and self.is_quoted(header) and '"NA"' not in self.text_of(parsed):
            for column, field in enumerate(fields):
                if field == "NA":
                    fields[column] = ""

    def text_of(self, parsed: ParsedRow) -> str:
        """Return the lines of a row."""
        return "".join(self.lines.lines[parsed.row.line - 1 : parsed.end])

    def is_quoted(self, header: ParsedRow) -> bool:
        """Whether every name in the header stands in quotes."""
        count = self.text_of(header).count('"')
        return self.has_quotes and count >= 2 * len(header.row.fields)

    def refuse(self, first: int, last: int, problem: str) -> NoReturn:
        """Raise the ValueError about a row with a quotation mark that does not fit."""
        delimiter = DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        text = "".join(self.lines.lines[first - 1 : last])
        cause = "a quote that is never closed, or stands where none belongs, does this. Fix it."
        if '\\"' in text:
            cause = (
                "a backslash stands before a quotation mark. CSV doubles a quote inside a text "
                "instead: write the file so (in R: qmethod = 'double'; in Spark: escape = '\"')."
            )
        raise ValueError(
            f"{self.name}, line {last}: not readable as {delimiter}-separated text (the row that "
            f"begins on line {first} {problem}); {cause}"
        )

    def refuse_swallowed_rows(self, table: RawTable, parsed: Sequence[ParsedRow]) -> None:
        """Raise ValueError where a text with line breaks looks like several rows.

        Texts with line breaks are allowed. Two quotes that are not closed may enclose rows, though.
        Then each line inside has as many fields as the header, and numbers or known words in the
        columns that hold numbers or few words.
        """
        # Only a row of several lines can have swallowed others.
        long = [item for item in parsed[1:] if item.end > item.row.line]
        if not long or len(table.header.fields) < 2:
            return
        checks = column_checks(table)
        for item in long:
            lines = self.lines.lines[item.row.line - 1 : item.end]
            pieces = [line.rstrip("\r\n").split(self.delimiter) for line in lines]
            if checks and all(looks_like_row(fields, table, checks) for fields in pieces):
                self.refuse(item.row.line, item.end, "has lines that look like rows of their own")


def column_checks(table: RawTable) -> dict[int, set[str] | None]:
    """Return the columns whose fields can be recognised.

    Their values are None for a column of numbers, and the words of a column with few words.
    """
    width = len(table.header.fields)
    rows = [row.fields for row in table.rows if len(row.fields) == width]
    checks: dict[int, set[str] | None] = {}
    for column in range(width):
        values = [fields[column].strip() for fields in rows]
        filled = [value for value in values if value]
        if filled and all(is_number(value) for value in filled):
            checks[column] = None
        # Each word comes at least three times on average, as the names of classes do.
        elif len(set(filled)) <= len(filled) / 3:
            checks[column] = set(filled)
    return checks


def looks_like_row(
    fields: Sequence[str], table: RawTable, checks: dict[int, set[str] | None]
) -> bool:
    """Whether the pieces of a line could be a row of the table."""
    if len(fields) != len(table.header.fields):
        return False
    for column, words in checks.items():
        value = fields[column].strip().strip('"')
        if not (is_number(value) if words is None else value in words):
            return False
    return True


def has_blanks_before_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Whether fields begin with a blank and then a quote, as some programs write them."""
    if delimiter == "\t":
        return False
    for fields in first_rows(lines, delimiter):
        if any(field.startswith(' "') for field in fields):
            return True
    return False


def is_blank(fields: Sequence[str]) -> bool:
    """Whether a row is a blank line, or only delimiters, as Excel writes below a table.

    A table of one column may hold an empty text in quotes: that is a row.
    """
    if fields == [""]:
        return False
    return not any(field.strip() for field in fields)


def align_header(header: Row, rows: list[Row], lines: Sequence[str]) -> tuple[Row, list[Row]]:
    """Return header and rows with equally many fields, where all rows differ in the same way.

    All rows may end with a delimiter that the header lacks. Or R wrote names of rows, and none for
    their column: then the header is in quotes.
    """
    width = len(header.fields)
    widths = {len(row.fields) for row in rows}
    # A delimiter ends the header alone.
    if widths == {width - 1} and header.fields[-1] == "":
        return Row(header.line, header.fields[:-1]), rows
    if widths != {width + 1}:
        return header, rows
    # A delimiter ends every row.
    if all(row.fields[-1] == "" for row in rows):
        return header, [Row(row.line, row.fields[:-1]) for row in rows]
    # R quotes every name, and names each row differently. Without both, a text may have split.
    first = next(line for line in lines if line.strip())
    has_row_names = first.startswith('"') and first.rstrip("\r\n").endswith('"')
    are_different = len({row.fields[0] for row in rows}) == len(rows)
    if has_row_names and are_different:
        return Row(header.line, ["", *header.fields]), rows
    return header, rows


def read_cmu(name: str, lines: Sequence[str], encoding: str) -> RawTable:
    """Return the table in a file of lines `label ||| sentence`, with or without a header."""
    rows = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            label, _, sentence = line.partition(CMU_DELIMITER)
            rows.append(Row(number, [label.strip(), sentence.strip()]))
    # The course of CMU has no header; line 0 stands for none.
    header = Row(0, list(CMU_HEADER))
    if rows[0].fields[0].casefold() in ("label", "sentiment"):
        header = rows.pop(0)
    layout = Layout("delimited", encoding, CMU_DELIMITER, has_quotes=False)
    return RawTable(name, header, tuple(rows), layout)
