"""What a number is, in every table and flag of data/.

One grammar decides: digits with a point or a comma, perhaps a sign and an exponent. Python's float
reads more than that: 1_2 would be 12, so that codes of parts become numbers, and nan would be one.
"""

from __future__ import annotations

import math
import re

# Only the digits 0 to 9: 3, -3.5, .5, 5., 1e-05 and 3,5.
NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*|,[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


def is_number(text: str) -> bool:
    """Whether a text is a number, with a point or a comma for its decimals."""
    return NUMBER.fullmatch(text) is not None


def parse_number(text: str, has_decimal_comma: bool = False) -> float:
    """Return the number in a text, or nan where it is none.

    A comma stands for the decimal point, as Excel writes it in many languages. "1,234" may be a
    thousand, too, so it is a number only with has_decimal_comma.
    """
    if not is_number(text):
        return math.nan
    if "," in text:
        if is_grouped(text, ",") and not has_decimal_comma:
            return math.nan
        text = text.replace(",", ".")
    number = float(text)
    # 1e999 is more than a number of Python holds.
    return number if math.isfinite(number) else math.nan


def decimal_sign_of(text: str) -> str:
    """The decimal sign of a number, or "" for other texts and for a dot that may mean thousands."""
    number = re.fullmatch(r"[-+]?\d+([.,])\d+", text)
    return "" if number is None or is_grouped(text, ".") else number[1]


def is_grouped(number: str, sign: str) -> bool:
    """Whether a sign stands before each three digits of a number, as in 1.234.567."""
    decimal = "," if sign == "." else "."
    pattern = rf"[-+]?[1-9]\d{{0,2}}(\{sign}\d{{3}})+(\{decimal}\d+)?"
    return re.fullmatch(pattern, number) is not None
