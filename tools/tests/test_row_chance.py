"""The note on chance in the rows: by hand, by simulation, and where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.known_data import known_data
from tools.tables.row_chance import Scores, chance_in_rows, half_width
from tools.tables.rows import Content, Row


def test_half_an_interval_by_hand():
    """1.96 sqrt(.5 * .5 / 100), and 1.96 (1 - .64) / sqrt(103 - 3)."""
    assert half_width(Scores("sst", 100, [0.4, 0.6])) == pytest.approx(0.098)
    assert half_width(Scores("sts", 103, [0.8])) == pytest.approx(0.07056)


def test_half_an_interval_of_a_correlation_by_simulation():
    random = np.random.default_rng(0)
    first = random.normal(size=(4000, 343))
    second = 0.8 * first + 0.6 * random.normal(size=first.shape)
    drawn = [np.corrcoef(pair)[0, 1] for pair in zip(first, second, strict=True)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert half_width(Scores("sts", 343, [0.8])) == pytest.approx((high - low) / 2, rel=0.05)


def test_the_note_names_the_rows_of_known_data():
    digest = next(digest for digest, data in known_data().items() if data.dev == {"sst": 1101})
    records = [{"data": digest, "scores": {"sst": 0.5}}, {"data": digest, "scores": {"sst": 0.5}}]
    note = chance_in_rows(Content({}, records, [Row("a row", records)]))
    assert "± 0.030 for SST (1,101 rows). That is" in note and "PARA" not in note


@pytest.mark.parametrize("data", [[None], ["0" * 64]])
def test_unknown_rows_get_no_note(data):
    records = [{"data": digest, "scores": {"sst": 0.5}} for digest in data]
    assert chance_in_rows(Content({}, records, [Row("a row", records)])) == ""
