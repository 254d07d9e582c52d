"""The note on chance in the rows: by hand, by simulation, and where nothing is known."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binomtest

from experiments.known_data import known_data
from minbert.training.code_version import ROOT
from tools.tables.__main__ import BLOCK, pages_of
from tools.tables.row_chance import (
    COLUMN,
    ESTIMATED,
    NO_PREDICTIONS,
    OF_INTERVALS,
    SAME_ROWS,
    chance_column,
    chance_in_rows,
    half_width,
    largest_error_of_macro_f1,
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


def test_all_answers_right_is_no_certainty():
    """Wilson's interval of 150 right answers of 150 begins at 1 - 1.96^2 / (150 + 1.96^2)."""
    low = binomtest(150, 150).proportion_ci(method="wilson").low
    assert half_width("accuracy", 150, 1.0) == half_width("accuracy", 150, 0.0)
    assert half_width("accuracy", 150, 1.0) == pytest.approx(1 - low, rel=1e-3)


def test_a_record_of_own_rows_names_their_number_and_metric():
    record = {"metric": "pearson", "num_rows": {"scores": 103, "test": 28}}
    row = Row("pairs", [record | {"scores": {"minBERT": 0.8}, "test": {"minBERT": 0.8}}])
    columns = [{"title": "r", "value": "scores.minBERT", "format": "scores"}]
    assert "± 0.071 for r (103 rows)" in note_of({"columns": columns}, [row])
    columns[0]["value"] = "test.minBERT"
    assert "± 0.141 for r (28 rows)" in note_of({"columns": columns}, [row])


def test_a_run_with_fewer_dev_rows_has_their_number():
    row = Row("x", [{"data": OF_SST, "scores": {"sst": 0.5}}])
    columns = [{"title": "SST", "value": "scores.sst", "format": "scores"}]
    assert "(1,101 rows)" in note_of({"columns": columns}, [row])
    row.records[0]["options"] = {"dev_rows": "sst=100"}
    assert "± 0.098 for SST (100 rows)" in note_of({"columns": columns}, [row])


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
    assert list(chance_column([row], list(majority)).values()) == ["0.081", "0.186", "0.031"]
    assert note_of({"turned": True}, [row]).endswith(f"{ESTIMATED} SST, macro-F1.")
    scores = {"SST, five classes, accuracy": 0.5, "SST, recall of class 2": 0.5}
    row = Row("shares", [{"products": 1180, "scores": scores}])
    note = note_of({"scores": list(scores)}, [row])
    assert "± 0.029 for SST, five classes, accuracy (1,180 rows) and ± 0.064 for" in note
    assert "SST, recall of class 2 (236 rows). That" in note, "each class has a fifth of them"

    # More rows, less chance. Without an error of its own, macro-F1 has that of the later runs.
    widths = [1.96 * largest_error_of_macro_f1() * np.sqrt(1101 / rows) for rows in (1101, 4404)]
    assert widths[0] == pytest.approx(2 * widths[1])
    many = Row("shares", [{"products": 4404, "scores": {"SST, macro-F1": 0.3}}])
    note = note_of({"scores": ["SST, macro-F1"]}, [many])
    assert f"± {widths[1]:.3f} for SST, macro-F1 (4,404 rows)" in note and ESTIMATED in note

    # Macro-F1 has an error where its rows were drawn.
    drawn = {"scores": {"SST, macro-F1": 0.3}, "row_errors": {"SST, macro-F1": 0.01}}
    row = Row("a model", [{**drawn, "majority": majority}])
    assert chance_column([row], ["SST, macro-F1"]) == {"SST, macro-F1": "0.020"}
    note = note_of({"scores": ["SST, macro-F1"]}, [row])
    assert "± 0.020 for SST, macro-F1 (1,101 rows)" in note and ESTIMATED not in note


@pytest.mark.parametrize("data", [[None], ["0" * 64], [OF_SST, None]])
def test_unknown_rows_get_a_reason(data):
    records = [{"data": digest, "scores": {"sst": 0.5}} for digest in data]
    note = note_of({"scores": "dev"}, [Row("a row", records)])
    assert note == "The records hold no predictions, so they have no interval of SST."


# --- every score of the documents -----------------------------------------------------------------

SCORE = re.compile(r"(?<![\d.e])[01]\.\d{3}(?!\d)")
PUBLISHED = re.compile(r"\([^)]*\)")  # the figure of a paper or a report
# Columns that hold no score of ours.
OTHERS = {"", "what it is", "what differs", "published", "majority", "goal", COLUMN}
# Tables of times, of memory and of how near two programs are.
NO_SCORES = {"speed", "benchmark-checks"}


def split_row(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def without_rows(table: str) -> list[str]:
    """The columns of a table with a score of which nothing says how far chance in the rows goes.

    An interval in the cell must be one over rows, or of a difference on the same rows. Otherwise a
    note or a column has the chance, or the reason why it is not known.
    """
    lines = table.splitlines()
    first, _, *rows = [line for line in lines if line.startswith("|")] or ["", ""]
    titles = split_row(first)
    notes = " ".join(line for line in lines if not line.startswith("|"))
    paragraphs = [line for line in lines if "rows alone moves" in line or NO_PREDICTIONS in line]
    explained = " ".join(paragraphs)
    missing = []
    for row in rows:
        cells = dict(zip(titles, split_row(row), strict=True))
        # In a turned table the first cell names the score.
        name = cells[""] if COLUMN in cells else ""
        for title, cell in cells.items():
            shown = PUBLISHED.sub("", cell)
            if title in OTHERS or not SCORE.search(shown) or "by rows ±" in shown:
                continue
            if "[" in shown:
                is_said = OF_INTERVALS in notes or SAME_ROWS in notes
            elif name and SCORE.search(cells[COLUMN]):
                is_said = True
            else:
                topic = (name or title).removesuffix(" on SST dev").split(":")[0]
                is_said = SAME_ROWS in notes or topic in explained
            if not is_said:
                missing.append(f"{title} {name}".strip())
    return missing


def test_every_score_of_the_documents_has_its_chance_in_the_rows_or_a_reason():
    """With controls: a table whose note is gone, and one whose interval says less."""
    tables = {}
    for page in pages_of(ROOT):
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            tables[block["name"]] = block["content"]
    found = {name: without_rows(table) for name, table in tables.items() if name not in NO_SCORES}
    assert {name: columns for name, columns in found.items() if columns} == {}

    without_note = tables["methods"].partition("Chance in the rows")[0]
    assert "SST" in without_rows(without_note)
    over_seeds = tables["sg-table-5"].replace(OF_INTERVALS, "The intervals are over the seeds.")
    assert "average" in without_rows(over_seeds)
    without_reason = re.sub(r"SST, macro-F1 \(1,180 rows\)", "", tables["sample-grades"])
    without_reason = re.sub(f"{ESTIMATED} .*", "", without_reason)
    assert set(without_rows(without_reason)) == {"SST, macro-F1"}
