"""Columns whose numbers have signs between thousands, such as 6.124 or 6,124: they are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from data.tables.numbers import is_grouped
from data.tables.rows import RawTable

NUMBER_SHAPE = re.compile(r"[-+]?[0-9][0-9.,]*")  # a number, or several groups of digits
SIGNS = {".": "dots", ",": "commas"}


def thousands_fault(table: RawTable, column: int) -> str | None:
    """Say that a column writes thousands as 6.124 or 6,124, or None where it does not.

    Such a number would be read as a fraction, or not at all. A sign is taken for that of thousands
    only if three digits follow it everywhere in the column, and something else shows it, too.
    """
    fields = [row.fields[column].strip() for row in table.rows if len(row.fields) > column]
    numbers = [field for field in fields if NUMBER_SHAPE.fullmatch(field)]
    for sign, decimal in ((".", ","), (",", ".")):
        with_sign = [number for number in numbers if sign in number]
        if not with_sign or not all(is_grouped(number, sign) for number in with_sign):
            continue
        certain = [item for item in with_sign if decimal in item or item.count(sign) > 1]
        if not certain and not are_thousands(table, numbers, sign):
            continue

        example = (certain or with_sign)[0]
        fault = (
            f"{table.name}, column '{table.columns[column]}': {SIGNS[sign]} stand before three "
            f"digits, as thousands are written, such as '{example}'. Write such numbers without "
            f"them: {example.replace(sign, '')}."
        )
        if certain:
            return fault
        return f"{fault} If it is a fraction, write {example.replace(sign, decimal)}."
    return None


def are_thousands(table: RawTable, numbers: Sequence[str], sign: str) -> bool:
    """Whether numbers such as 6.124 or 6,124 are thousands, by what else the table holds.

    numbers: those of the column. Only text is doubtful: a workbook and JSON hold numbers.
    """
    if table.layout.kind != "delimited":
        return False
    # parse_number takes 6,124 for a number only where the comma is the decimal sign.
    if sign == ",":
        return not table.has_decimal_comma
    # A comma that is a decimal sign, anywhere in the file.
    for row in table.rows:
        for field in row.fields:
            if re.fullmatch(r"[-+]?\d+,\d+", field.strip()) and not is_grouped(field.strip(), ","):
                return True
    # Whole numbers up to 999, and none above that is written without the sign.
    digits = [len(number.lstrip("+-")) for number in numbers if sign not in number]
    return table.has_decimal_comma and max(digits, default=0) == 3
