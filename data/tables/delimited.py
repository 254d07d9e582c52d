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
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

from data.tables.numbers import is_number
from data.tables.rows import DELIMITER_NAMES, EmptyTable, Layout, RawTable, Row

DELIMITERS = ("\t", ",", ";", "|")
CMU_DELIMITER = " ||| "  # of the files `label ||| sentence`
CMU_HEADER = ("label", "sentence")
FASTTEXT_LABEL = "__label__"  # stands before each label of fastText, and these before the text
FASTTEXT_HEADER = ("label", "text")
NUM_SNIFFED = 20  # rows that decide about the delimiter

# Excel reads and writes this first line, which names the delimiter.
SEP_LINE = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
# Export-Csv of Windows PowerShell names the type of its objects.
TYPE_LINE = re.compile(r"#TYPE .*")
# write.table of R puts blanks between quoted names, if it is not told otherwise.
R_HEADER = re.compile(r'"[^"]*"( "[^"]*")+\s*')

# Programs also write tables with these delimiters without any quotes around fields.
PLAIN_DELIMITERS = ("\t", "|")
BEGINS_WITH_QUOTE = re.compile(r'(^|[\t|])"')

# Databases and some dialects of CSV write a backslash before certain characters.
ESCAPE = re.compile(r'\\["\\nrt]')


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
    if delimiter == FASTTEXT_LABEL:
        return read_fasttext(name, body, encoding)

    use = are_quotes_used(lines, delimiter) if has_quotes is None else QuoteUse(has_quotes)
    parser = DelimitedParser(name, lines, delimiter, use.is_csv)
    parsed = parser.parse()
    rows = [item.row for item in parsed]
    header, rows = align_header(rows[0], rows[1:], body)
    layout = Layout("delimited", encoding, delimiter, use.is_csv)
    table = RawTable(name, header, tuple(rows), layout)
    notes = (use.note, note_on_backslashes(rows), parser.check_swallowed_rows(table, parsed))
    return replace(table, notes=tuple(note for note in notes if note))


# --- the delimiter --------------------------------------------------------------------------------


def find_delimiter(name: str, lines: Sequence[str], suffix: str) -> str:
    """Return the delimiter that splits the header and the first rows into equally many fields.

    Raises ValueError where several delimiters do so.
    """
    if is_cmu(lines):
        return CMU_DELIMITER
    if is_fasttext(lines):
        return FASTTEXT_LABEL
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


def is_fasttext(lines: Sequence[str]) -> bool:
    """Whether all lines with text have the form `__label__a __label__b text`."""
    filled = [line for line in lines if line.strip()]
    return bool(filled) and all(line.lstrip().startswith(FASTTEXT_LABEL) for line in filled)


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


class Enclosed(NamedTuple):
    """The rows of a text whose quotation marks enclose fields.

    fault_line: the first line that cannot be read so, or 0.
    long_line: the first line of a field that holds tabs and line ends, or 0. A quote that is not
        closed makes such a field out of several rows.
    """

    rows: list[list[str]]
    fault_line: int = 0
    long_line: int = 0


def are_quotes_used(lines: Lines, delimiter: str) -> QuoteUse:
    """Find whether quotation marks enclose fields.

    With a comma or semicolon they always do. A table with tabs or vertical bars may have sentences
    that begin with a quotation mark, which is then a character like any other (STS12 has them). So
    may a table of one column. Where both readings are possible, the more likely one is taken, and a
    note says so.
    """
    body = lines.lines[lines.num_skipped :]
    has_any = any('"' in line for line in body)
    is_single = len(first_rows(body, delimiter)[0]) == 1
    if not has_any or not (delimiter in PLAIN_DELIMITERS or is_single):
        return QuoteUse(True)
    # pandas writes its index in a column without a name. R and PowerShell quote names. All of them
    # write CSV.
    header = next(line for line in body if line.strip())
    if header.startswith((delimiter, '"')):
        return QuoteUse(True)

    enclosed = read_enclosed(body, delimiter)
    plain = read_plain(body, "" if is_single else delimiter)
    # A writer of CSV never leaves a quote that cannot be read.
    if enclosed.fault_line:
        number = lines.num_skipped + enclosed.fault_line
        is_doubled = any(is_doubling(field) for field in chain.from_iterable(plain))
        return QuoteUse(False, note_on_open_quote(number) if is_doubled else "")
    # Perhaps only one of the two readings gives rows of equal length.
    is_csv_equal = have_equal_lengths(enclosed.rows)
    is_plain_equal = have_equal_lengths(plain)
    if enclosed.long_line and is_plain_equal:
        return QuoteUse(False, note_on_open_quote(lines.num_skipped + enclosed.long_line))
    if is_csv_equal != is_plain_equal:
        return QuoteUse(is_csv_equal)
    if plain == enclosed.rows:
        return QuoteUse(False)
    is_csv = has_break(enclosed.rows, delimiter) or is_likely_csv(plain)
    return QuoteUse(is_csv, note_on_choice(lines, is_csv))


def read_enclosed(lines: Sequence[str], delimiter: str) -> Enclosed:
    """Read the lines as CSV, up to the first one that a writer of CSV would not leave."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows = []
    end = 0
    long_line = 0
    try:
        for fields in reader:
            if any(has_swallowed(field, delimiter) for field in fields):
                long_line = long_line or end + 1
            end = reader.line_num
            if not is_blank(fields):
                rows.append(fields)
    except csv.Error:
        return Enclosed(rows, fault_line=end + 1)
    return Enclosed(rows, long_line=long_line)


def read_plain(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Split the lines at every delimiter, or take each one as a field where it is ""."""
    rows = []
    for line in lines:
        text = line.rstrip("\r\n")
        if text.strip():
            rows.append(text.split(delimiter) if delimiter else [text])
    return rows


def have_equal_lengths(rows: Sequence[list[str]]) -> bool:
    """Whether all rows have as many fields as the header."""
    return len({len(fields) for fields in rows}) == 1


def has_break(rows: Sequence[list[str]], delimiter: str) -> bool:
    """Whether a field holds the delimiter or a line end, which only quotes can enclose."""
    breaks = re.compile(f"[{re.escape(delimiter)}\r\n]")
    return any(breaks.search(field) for field in chain.from_iterable(rows))


def is_likely_csv(plain: Sequence[list[str]]) -> bool:
    """Whether the quotes around some fields of a table with tabs were put there by a writer of CSV.

    It doubles a quote inside. Or it quotes all texts of a column. Or it quotes exactly the fields
    with a comma or a quote, as Excel does.

    plain: the header and the rows, with the quotes that enclose fields.
    """
    quoted: list[str] = []
    bare: list[str] = []
    for fields in plain:
        quoted += [field for field in fields if field.startswith('"')]
        bare += [field for field in fields if not field.startswith('"')]
    if any('""' in field[1:-1] or field == '""' for field in quoted):
        return True
    if any('"' in field for field in bare):
        return False
    has_comma = any("," in field for field in quoted)
    if has_comma and not any("," in field for field in bare):
        return True
    return has_quoted_columns(plain[1:])


def has_quoted_columns(rows: Sequence[list[str]]) -> bool:
    """Whether each column of at least two fields has all of them in quotes, or none."""
    if len(rows) < 2 or not have_equal_lengths(rows):
        return False
    for column in zip(*rows, strict=True):
        are_quoted = {field.startswith('"') for field in column if field}
        if len(are_quoted) == 2:
            return False
    return True


def note_on_choice(lines: Lines, is_csv: bool) -> str:
    """A sentence for the user where quotes may enclose fields, or be part of the texts."""
    number = lines.num_skipped + 1
    while not BEGINS_WITH_QUOTE.search(lines.lines[number - 1]):
        number += 1
    if is_csv:
        return f"the quotation marks of line {number} are read as those of CSV, not as text"
    return f"the quotation marks of line {number} are read as text, not as those of CSV"


def is_doubling(field: str) -> bool:
    """Whether a field is in quotes, and all quotes inside are doubled, as a writer of CSV does."""
    inside = field[1:-1]
    is_enclosed = re.fullmatch('"[^"]*("")+.*"', field) is not None
    return is_enclosed and '"' not in inside.replace('""', "")


def note_on_open_quote(line: int) -> str:
    """A sentence for the user where quotes are text because one of them is not closed."""
    return (
        f"its quotation marks are read as ordinary characters, because line {line} has one that is "
        "not closed"
    )


def note_on_backslashes(rows: Sequence[Row]) -> str:
    """A sentence for the user where backslashes may be marks of the program that wrote them, or "".

    A backslash before a quotation mark nearly always is. One before another backslash or a letter
    is one only if no backslash stands elsewhere.
    """
    first = None
    has_others = False
    for row in rows:
        for field in row.fields:
            if "\\" in field and ESCAPE.search(field):
                first = first or row
                if '\\"' in field:
                    return name_backslash(row)
            has_others = has_others or "\\" in ESCAPE.sub("", field)
    return "" if first is None or has_others else name_backslash(first)


def name_backslash(row: Row) -> str:
    """The note about a row that holds an escape."""
    field = next(field for field in row.fields if ESCAPE.search(field))
    sign = ESCAPE.findall(field)[0]
    return f"line {row.line} holds {sign}, which is read as these two characters"


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
                if self.has_escaped_end(fields, begin, end):
                    self.refuse(begin + 1, end, "has a quotation mark that is not closed")
                if not is_blank(fields):
                    parsed.append(ParsedRow(Row(begin + 1, fields), end))
                    self.clear_missing(parsed[0], parsed[-1])
        except csv.Error as error:
            # `end` is still the last line of the row before.
            last = skipped + reader.line_num
            fields = "a field with line breaks" if last > end + 1 else "a field"
            self.refuse(end + 1, last, f"has {fields} that ends wrongly: {error}")
        return parsed

    def has_escaped_end(self, fields: Sequence[str], begin: int, end: int) -> bool:
        """Whether a quote behind a backslash was taken for the end of a field.

        Then a field ends with a backslash, and the quote that should have ended it stands alone.
        """
        if not self.has_quotes or not any(field.endswith("\\") for field in fields):
            return False
        text = "".join(self.lines.lines[begin:end])
        return text.count('"') % 2 == 1

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
        if "NA" not in fields or not self.is_quoted(header):
            return
        # The fields with their quotes, if the row is simple.
        text = self.text_of(parsed)
        pieces = text.rstrip("\r\n").split(self.delimiter)
        is_simple = len(pieces) == len(fields)
        for column, field in enumerate(fields):
            is_bare = pieces[column] == "NA" if is_simple else '"NA"' not in text
            if field == "NA" and is_bare:
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

    def check_swallowed_rows(self, table: RawTable, parsed: Sequence[ParsedRow]) -> str:
        """Look for a text with line breaks that may be several rows.

        Texts with line breaks are allowed. Two quotes that are not closed may enclose rows, though.
        Then each line inside has as many fields as the header. Columns that hold numbers or few
        words show whether it is a row.

        Returns a sentence for the user where no column shows it, or "". Raises ValueError where
        the lines are rows.
        """
        # Only a row of several lines can have swallowed others.
        long = [item for item in parsed[1:] if item.end > item.row.line]
        width = len(table.header.fields)
        if not long or width < 2:
            return ""
        checks = column_checks(table)
        note = ""
        for item in long:
            lines = self.lines.lines[item.row.line - 1 : item.end]
            pieces = [line.rstrip("\r\n").split(self.delimiter) for line in lines]
            if not all(looks_like_row(fields, width, checks) for fields in pieces):
                continue
            if checks:
                self.refuse(item.row.line, item.end, "has lines that look like rows of their own")
            note = note or (
                f"lines {item.row.line} to {item.end} are read as one row with line breaks in "
                "quotation marks, though each could be a row"
            )
        return note


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
        elif filled and len(set(filled)) <= len(filled) / 3:
            checks[column] = set(filled)
    return checks


def looks_like_row(fields: Sequence[str], width: int, checks: dict[int, set[str] | None]) -> bool:
    """Whether the pieces of a line could be a row of `width` fields."""
    if len(fields) != width:
        return False
    for column, words in checks.items():
        value = fields[column].strip().strip('"')
        is_fitting = is_number(value) if words is None else value in words
        if value and not is_fitting:
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
    # A delimiter ends every row. A single column may hold texts that end with a comma.
    if width > 1 and all(row.fields[-1] == "" for row in rows):
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


def read_fasttext(name: str, lines: Sequence[str], encoding: str) -> RawTable:
    """Return the table in a file of lines `__label__a __label__b text`. Line 0 stands for a header.

    A blank stands between several labels of a row.
    """
    rows = []
    for number, line in enumerate(lines, start=1):
        labels = []
        rest = line.strip()
        while rest.startswith(FASTTEXT_LABEL):
            word, _, rest = rest.partition(" ")
            labels.append(word.removeprefix(FASTTEXT_LABEL))
            rest = rest.lstrip()
        if labels:
            rows.append(Row(number, [" ".join(labels), rest]))
    layout = Layout("delimited", encoding, FASTTEXT_LABEL, has_quotes=False)
    return RawTable(name, Row(0, list(FASTTEXT_HEADER)), tuple(rows), layout)
