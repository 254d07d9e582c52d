"""An Excel workbook -> rows.

Its cells have types. Here they become text, as in JSON. A small file can claim a huge sheet, or
unpack to a huge one, so its size is checked before it is read and while its rows are read.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from data.tables.json_rows import emptiness, to_field
from data.tables.rows import WORKBOOK, Layout, RawTable, Row
from minbert.commands.optional import install_command

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

MAX_ROWS = 1_048_576  # of a sheet, in Excel
# A workbook that unpacks to more than this, and to so many times its own size, is no table.
MAX_UNPACKED = 16 << 20
MAX_RATIO = 100
SHEET = re.compile(rb"<(?:[a-z]+:)?sheetData[ />]")
# In the XML of a sheet: the number of a row, and the beginning of a formula.
ROW_NUMBER = re.compile(rb'<(?:[a-z]+:)?row [^>]*?\br="(-?[0-9]+)"')
# The place of a cell, such as B3.
CELL_PLACE = re.compile(rb'<(?:[a-z]+:)?c [^>]*?\br="([A-Z]+)([0-9]+)"')
FORMULA = re.compile(rb"<([a-z]+:)?f[ >/]")
# A cell and a row that hold nothing, and one that does not say where it is.
ATTRIBUTES = rb'(?:\s+[\w:]+="[^"<>]*")*\s*'
EMPTY_CELL = re.compile(
    rb"<((?:[a-z]+:)?)c" + ATTRIBUTES + rb"(?:/>|>(?:<\1v\s*/>|<\1v></\1v>)?</\1c>)"
)
EMPTY_ROW = re.compile(rb"<((?:[a-z]+:)?)row" + ATTRIBUTES + rb"(?:/>|>\s*</\1row>)")
WITHOUT_PLACE = re.compile(rb'<(?:[a-z]+:)?(?:row|c)(?=[ />])(?![^<>]*\sr=")')


class WorkbookFault(ValueError):
    """A workbook that can be opened, but holds no table that can be read."""


def read_workbook(name: str, content: bytes) -> RawTable:
    """Return the table in an Excel workbook that has one sheet with cells.

    Raises ValueError where openpyxl is missing, where the content is no workbook, for several
    sheets, for a formula whose result was not saved, and for a sheet that is nearly empty but huge.
    """
    check_archive(name, content)
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise ValueError(
            f"{name}: an Excel workbook needs the package openpyxl, which is not installed. Run "
            f"`{install_command(['openpyxl'], '--excel')}`, or save the sheet as CSV in UTF-8."
        ) from None
    try:
        sheets = read_sheets(name, content, openpyxl)
    except WorkbookFault:
        raise
    # openpyxl raises the errors of many libraries for a damaged file.
    except Exception as error:
        raise ValueError(
            f"{name}: the workbook cannot be opened ({type(error).__name__}: {error}). Save it as "
            "CSV in UTF-8."
        ) from None

    # Which of several sheets is meant cannot be known.
    filled = {title: rows for title, rows in sheets.items() if rows}
    if len(filled) != 1:
        titles = ", ".join(filled) or "none"
        raise ValueError(
            f"{name}: expected is a workbook with one sheet that has cells; it has {len(filled)} "
            f"({titles}). Save the sheet as CSV in UTF-8, or in a workbook of its own."
        )
    (rows,) = filled.values()
    return RawTable(name, rows[0], tuple(rows[1:]), Layout(WORKBOOK))


def check_archive(name: str, content: bytes) -> None:
    """Raise ValueError for an archive that is no Excel workbook, or that unpacks to a huge one."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = archive.namelist()
            unpacked = sum(file.file_size for file in archive.infolist())
    except zipfile.BadZipFile:
        raise ValueError(
            f"{name}: the file begins as an archive, but is damaged. Fetch or save it again."
        ) from None
    if "xl/workbook.xml" in files:
        if unpacked > max(MAX_UNPACKED, MAX_RATIO * len(content)):
            raise ValueError(
                f"{name}: the workbook has {len(content):,} bytes and unpacks to {unpacked:,}, as "
                "no table does. Save its sheet as CSV in UTF-8."
            )
        return
    if "content.xml" in files:
        raise ValueError(
            f"{name}: an OpenDocument file. Save its table as .xlsx, or as CSV in UTF-8."
        )
    if "xl/workbook.bin" in files:
        raise ValueError(
            f"{name}: a binary workbook (.xlsb). Save it as .xlsx, or as CSV in UTF-8."
        )
    listed = ", ".join(files[:3])
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    raise ValueError(f"{name}: an archive of {count} ({listed}). Unpack it first.")


def read_sheets(name: str, content: bytes, openpyxl: ModuleType) -> dict[str, list[Row]]:
    """Return the rows of each sheet that hold values, the header first."""
    stored = sheet_files(content)
    for xml in stored.values():
        refuse_empty_cells(name, xml)
    sheets = {member: without_empty_cells(xml) for member, xml in stored.items()}
    if sheets != stored:
        content = with_files(content, sheets)
    check_order(name, sheets.values())
    # Read-only: no cell is made that the file does not hold.
    workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    if any(FORMULA.search(xml) for xml in sheets.values()):
        formulas = openpyxl.load_workbook(io.BytesIO(content), read_only=True)
        for sheet in formulas.worksheets:
            check_formulas(name, workbook[sheet.title], sheet)
    return {sheet.title: read_sheet(name, sheet) for sheet in workbook.worksheets}


def sheet_files(content: bytes) -> dict[str, bytes]:
    """Return the XML of the sheets of a workbook, by the names of their files."""
    sheets = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            xml = archive.read(member) if member.endswith(".xml") else b""
            if SHEET.search(xml):
                sheets[member] = xml
    return sheets


def refuse_empty_cells(name: str, xml: bytes) -> None:
    """Raise WorkbookFault for a sheet with so many empty cells that removing them takes long."""
    num_values = xml.count(b"</v>") - xml.count(b"<v></v>") + xml.count(b"</is>")
    refuse_emptiness(name, xml.count(b"<c "), num_values)


def without_empty_cells(xml: bytes) -> bytes:
    """Return the XML of a sheet without the cells and rows that hold nothing.

    A sheet may have a million of them, such as a column that was coloured down to its end. openpyxl
    would need seconds and hundreds of megabytes for them. The others keep their places, because
    each says its own. Where one does not, all stay.
    """
    # In a comment or in character data, what looks like an empty cell may be a text.
    if b"<!" in xml or WITHOUT_PLACE.search(xml):
        return xml
    return EMPTY_ROW.sub(b"", EMPTY_CELL.sub(b"", xml))


def with_files(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """Return an archive in which some files have another content."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(target, "w") as new:
        for member in dict.fromkeys(old.namelist()):
            new.writestr(member, files[member] if member in files else old.read(member))
    return target.getvalue()


def check_order(name: str, sheets: Iterable[bytes]) -> None:
    """Raise WorkbookFault where the rows of a sheet, or the cells of a row, are not in order.

    The read-only mode would leave out one that comes too late, without a word.
    """
    advice = "Open and save the workbook in a spreadsheet, or save its sheet as CSV in UTF-8."
    for xml in sheets:
        last = 0
        for match in ROW_NUMBER.finditer(xml):
            number = int(match[1])
            if number <= last:
                raise WorkbookFault(f"{name}: row {number} comes behind row {last}. {advice}")
            last = number

        place = (0, 0, b"")
        for match in CELL_PLACE.finditer(xml):
            # AA stands behind Z.
            next_place = (int(match[2]), len(match[1]), match[1])
            if next_place <= place:
                cells = [f"{column.decode()}{row}" for row, _, column in (next_place, place)]
                raise WorkbookFault(f"{name}: cell {cells[0]} comes behind {cells[1]}. {advice}")
            place = next_place


def check_formulas(name: str, sheet: ReadOnlyWorksheet, formulas: ReadOnlyWorksheet) -> None:
    """Raise WorkbookFault for a formula whose result was not saved.

    Programs other than Excel may write a formula and leave its result to Excel.

    formulas: the same sheet, with formulas where `sheet` has their results.
    """
    for cells, formula_cells in zip(rows_of(name, sheet), rows_of(name, formulas), strict=True):
        for cell, formula in zip(cells, formula_cells, strict=True):
            if formula.data_type == "f" and cell.value is None:
                raise WorkbookFault(
                    f"{name}, cell {formula.coordinate}: holds a formula without its result. Open "
                    "and save the workbook in Excel, or save the sheet as CSV in UTF-8."
                )


def read_sheet(name: str, sheet: ReadOnlyWorksheet) -> list[Row]:
    """Return the rows of a sheet that hold values, all with as many fields."""
    rows = []
    width = 0
    for number, cells in enumerate(rows_of(name, sheet), start=1):
        fields = [to_field(cell.value) for cell in cells]
        filled = [column for column, field in enumerate(fields, start=1) if field]
        if filled:
            rows.append(Row(number, fields))
            width = max(width, filled[-1])
    num_values = sum(len(row.fields) - row.fields.count("") for row in rows)
    refuse_emptiness(name, len(rows) * width, num_values)

    # Columns at the end that no row fills are no columns.
    equal = []
    for row in rows:
        fields = row.fields[:width]
        equal.append(Row(row.line, fields + [""] * (width - len(fields))))
    return equal


def rows_of(name: str, sheet: ReadOnlyWorksheet) -> Iterator[Sequence[Any]]:
    """The cells of each row, () where it has none.

    Raises WorkbookFault below Excel's last row, and where nearly all cells are empty.
    """
    # A sheet says how many cells it has, which may be wrong. Without that, only cells are read.
    sheet.reset_dimensions()
    num_cells = 0
    num_values = 0
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        if number > MAX_ROWS:
            raise WorkbookFault(
                f"{name}: its sheet '{sheet.title}' has cells below row {MAX_ROWS:,}, the last one "
                "of Excel. Save it as CSV in UTF-8."
            )
        num_cells += len(cells)
        num_values += len(cells) - [cell.value for cell in cells].count(None)
        refuse_emptiness(name, num_cells, num_values)
        yield cells


def refuse_emptiness(name: str, num_cells: int, num_values: int) -> None:
    """Raise WorkbookFault for a large table of which nearly all cells are empty."""
    fault = emptiness(num_cells, num_values)
    if fault:
        raise WorkbookFault(f"{name}: {fault}. Delete the cells that do not belong to the table.")
