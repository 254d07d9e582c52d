"""data/tables/numbers.py: one grammar says what a number is, for all readers and flags."""

from __future__ import annotations

import math
from random import Random

import pytest

from data.examples import STS
from data.options import DataOptions
from data.readers import read_examples
from data.sentence_sets import read_pairs
from data.tables.numbers import is_number, parse_number
from data.task_flags import parse_task
from data.task_tables import resolve_task

# pandas 3.1.1 reads a column of each of these as numbers, with the same values.
NUMBERS = {
    "0": 0,
    "007": 7,
    "-3": -3,
    "+3.5": 3.5,
    ".5": 0.5,
    "5.": 5,
    "1e-05": 0.00001,
    "2.5E+3": 2500,
}
# pandas reads a column of each of these as text, nan alone as missing, and inf as a number.
NO_NUMBERS = (
    "1_2 1_000 0x1F 0b1 1e 1e5.0 --1 +-1 . - + 1.2.3 1/2 50% $5 1d 1L ٣ １２ ½ ² 1e999 -1e999 "
    "nan NaN inf -inf Infinity True 1,2,3 ,5 5,"
)


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number(text):
    assert is_number(text) and parse_number(text) == NUMBERS[text]


@pytest.mark.parametrize("text", ["", "1 2", " 1", "1\n", *NO_NUMBERS.split()])
def test_a_text_that_is_no_number(text):
    assert math.isnan(parse_number(text))


@pytest.mark.parametrize(
    ("text", "has_decimal_comma", "expected"),
    [
        ("1,5", False, 1.5),
        ("1,5E+3", False, 1500),
        ("12,345", True, 12.345),
        ("0,345", False, 0.345),
        ("12,345", False, math.nan),
        ("1.234,5", True, math.nan),
    ],
)
def test_a_comma_stands_for_the_decimal_point(text, has_decimal_comma, expected):
    assert parse_number(text, has_decimal_comma) == pytest.approx(expected, nan_ok=True)


def test_no_text_is_read_in_another_way_than_by_float():
    random = Random(0)
    num_numbers = 0
    for _ in range(20_000):
        text = "".join(random.choices("0123456789.,-+eE_x", k=random.randint(1, 6)))
        number = parse_number(text)
        if math.isfinite(number):
            num_numbers += 1
            assert "_" not in text and number == float(text.replace(",", "."))
    assert num_numbers > 500


CODES = [f"{part}_{kind}" for part in range(1, 6) for kind in range(1, 7)]


@pytest.mark.parametrize(
    "codes",
    [
        CODES,
        [f"{number:#x}" for number in range(30)],
        [f"{chr(0x0661 + number % 9)}{number}" for number in range(30)],
        [*(f"{number}e999" for number in range(1, 30)), "1"],
    ],
)
def test_codes_are_classes_and_no_scores(tmp_path, codes):
    path = tmp_path / "codes.csv"
    rows = [f"text {number},{code}" for number, code in enumerate(codes * 4)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    spec = resolve_task(parse_task(f"name=t,train={path}")).spec
    assert (spec.kind, len(spec.label_names)) == ("classes", 30)


def test_every_reader_has_the_same_grammar(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,sentence1,sentence2,similarity\na1,One.,Two.,1_0\na2,One.,Two.,1\n")
    with pytest.raises(ValueError, match="label '1_0' is not a number; STS labels are 0 to 5"):
        read_examples(path, STS)
    path.write_text("sentence1,sentence2,score\nOne.,Two.,1_0\nOne.,Two.,1\n")
    with pytest.raises(ValueError, match="line 2: score '1_0' is not a number"):
        read_pairs(path)
    with pytest.raises(ValueError, match="low=1_0; it is a number"):
        parse_task("name=t,train=a.csv,low=1_0,high=20")
    with pytest.raises(ValueError, match="--train_rows is 'sst=1_0'; it is none, or tasks"):
        DataOptions(train_rows="sst=1_0")
