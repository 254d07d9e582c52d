"""The note on chance in the rows: by hand, by simulation, and where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.known_data import known_data
from tools.tables.row_chance import (
    chance_column,
    chance_in_rows,
    half_width,
    of_several_runs,
)
from tools.tables.rows import Content, Row

DIGESTS = {tuple(data.dev): digest for digest, data in known_data().items() if "files" in data.name}
OF_SST = DIGESTS[("sst",)]


def note_of(entry, rows):
    return chance_in_rows(Content(entry, rows[0].records, rows))


def test_half_an_interval_by_hand():
    """1.96 sqrt(.5 * .5 / 100), and 1.96 (1 - .64) / sqrt(103 - 3)."""
    assert half_width("sst", 100, 0.5) == pytest.approx(0.098)
    assert half_width("sts", 103, 0.8) == pytest.approx(0.07056)


def test_half_an_interval_of_a_correlation_by_simulation():
    random = np.random.default_rng(0)
    first = random.normal(size=(4000, 343))
    second = 0.8 * first + 0.6 * random.normal(size=first.shape)
    drawn = [np.corrcoef(pair)[0, 1] for pair in zip(first, second, strict=True)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert half_width("sts", 343, 0.8) == pytest.approx((high - low) / 2, rel=0.05)


def test_the_note_names_the_rows_of_known_data():
    """The interval of the mean of a row: .5 and .1 of 1,101 sentences."""
    rows = [Row("a row", [{"data": OF_SST, "scores": {"sst": score}}]) for score in (0.5, 0.1)]
    note = note_of({"scores": "dev"}, rows)
    assert "± 0.018 to 0.030 for SST (1,101 rows). That is" in note and "PARA" not in note


def test_a_score_of_several_runs_has_the_rows_of_all_and_an_overall():
    """A soup answers each task with another run. The overall has a third of the root of squares."""
    runs = [{"data": DIGESTS[(task,)]} for task in ("sst", "para", "sts")]
    scores = {"sst": 0.5, "para": 0.9, "sts": 0.8, "overall_2023": 0.733}
    row = Row("a soup", [of_several_runs(scores, runs)])
    widths = [half_width("sst", 1101, 0.5), half_width("para", 20212, 0.9)]
    widths.append(half_width("sts", 863, 0.8))
    overall = np.sqrt(np.square(widths).sum()) / 3
    assert f"and ± {overall:.3f} for overall 2023." in note_of({"scores": "dev"}, [row])


def test_a_score_with_a_name_of_its_own_has_the_rows_of_its_kind():
    """.4 of the 139 sentences of class 0, 9 of 10 sentences, and 1,180 product sentences."""
    majority = {"SST, recall of class 0": 0.0, "10 sentences, polarity": 0.5, "SST, macro-F1": 0.1}
    scores = {"SST, recall of class 0": 0.4, "10 sentences, polarity": 0.9, "SST, macro-F1": 0.3}
    row = Row("a model", [{"scores": scores, "majority": majority}])
    assert list(chance_column([row], list(majority)).values()) == ["0.081", "0.186", "–"]
    assert note_of({"turned": True}, [row]).endswith("no interval of SST, macro-F1.")
    scores = {"SST, five classes, accuracy": 0.5, "SST, recall of class 2": 0.5}
    row = Row("shares", [{"products": 1180, "scores": scores}])
    note = note_of({"scores": list(scores)}, [row])
    assert "± 0.029 for SST, five classes, accuracy (1,180 rows) and ± 0.064 for" in note
    assert "SST, recall of class 2 (236 rows). That" in note, "each class has a fifth of them"

    # Macro-F1 has an error where its rows were drawn.
    drawn = {"scores": {"SST, macro-F1": 0.3}, "row_errors": {"SST, macro-F1": 0.01}}
    row = Row("a model", [{**drawn, "majority": majority}])
    assert chance_column([row], ["SST, macro-F1"]) == {"SST, macro-F1": "0.020"}
    assert "± 0.020 for SST, macro-F1 (1,101 rows)" in note_of({"scores": ["SST, macro-F1"]}, [row])


@pytest.mark.parametrize("data", [[None], ["0" * 64], [OF_SST, None]])
def test_unknown_rows_get_no_note(data):
    records = [{"data": digest, "scores": {"sst": 0.5}} for digest in data]
    assert note_of({"scores": "dev"}, [Row("a row", records)]) == ""
