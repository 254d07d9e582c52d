"""multitask/leaderboard.py: the six files byte for byte, and the closing table.

If a file holds the right values in the wrong rows, predictions lost the order of their table.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from data.examples import Example, Table
from data.options import DataOptions
from minbert import BertTokenizer
from multitask import leaderboard
from multitask.evaluation import evaluate
from multitask.options import PredictionFileOptions
from multitask.rows import encode_tables, read_tables
from multitask.tasks import TASKS
from tests.toy_multitask import make_bert

SPLITS = dict.fromkeys(TASKS, ("train", "dev", "test"))
MODEL = SimpleNamespace(tasks=TASKS)  # what write_results reads of a model, beside predictions

GOLDEN = {
    "sst-dev-output.csv": b"id \t Predicted_Sentiment \nabc1 , 4 \nabc2 , 0 \n",
    "sst-test-output.csv": b"id \t Predicted_Sentiment \nt1 , 0 \nt2 , 4 \n",
    "para-dev-output.csv": b"id \t Predicted_Is_Paraphrase \nabc1 , 1.0 \nabc2 , 0.0 \n",
    "para-test-output.csv": b"id \t Predicted_Is_Paraphrase \nt1 , 0.0 \nt2 , 1.0 \n",
    "sts-dev-output.csv": b"id \t Predicted_Similiary \nabc1 , 2.75 \nabc2 , -0.1 \n",
    "sts-test-output.csv": b"id \t Predicted_Similiary \nt1 , -0.1 \nt2 , 2.75 \n",
}
OUTPUTS = {
    "sst": np.array([[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]], dtype=np.float32),
    "para": np.array([0.3, -0.3], dtype=np.float32),
    "sts": np.array([2.75, -0.1], dtype=np.float32),
}
LABELS = {"sst": (4.0, 1.0), "para": (1.0, 0.0), "sts": (5.0, 0.0)}
SCORES = {
    "sst": 0.5,
    "para": 0.75,
    "sts": 0.875,
    "overall_2023": 2.125 / 3,
    "overall_2024": 2.1875 / 3,
}


class Rows:
    """What write_results reads of encoded rows."""

    def __init__(self, table):
        self.examples = table.examples


def make_table(task, split):
    """Two made-up rows. Those of test have no labels."""
    second = None if task == "sst" else "b"
    prefix = "t" if split == "test" else "abc"
    rows = []
    for number, label in enumerate(LABELS[task], start=1):
        rows.append(Example(f"{prefix}{number}", "a", second, None if split == "test" else label))
    return Table("made up", tuple(rows), ())


@pytest.fixture
def tables():
    made = {}
    for task in LABELS:
        made[task] = {split: make_table(task, split) for split in ("dev", "test")}
    return made


@pytest.fixture
def rows(tables):
    made = {}
    for task, splits in tables.items():
        made[task] = {split: Rows(table) for split, table in splits.items()}
    return made


# --- the six files ------------------------------------------------------------------------------


def test_the_six_files_byte_for_byte(tables, rows, tmp_path, monkeypatch):
    def predict(model, task, rows, precision):
        is_test = rows.examples[0].id == "t1"
        return OUTPUTS[task][::-1] if is_test else OUTPUTS[task]

    monkeypatch.setattr(leaderboard, "predict", predict)
    paths = leaderboard.output_paths(PredictionFileOptions(), tmp_path, SPLITS)
    (scores, of_tests), dev_outputs = leaderboard.write_results(MODEL, rows, tables, paths, "fp32")
    written = {path.name: path.read_bytes() for path in (tmp_path / "predictions").iterdir()}
    assert written == GOLDEN
    expected = {"sst": 0.5, "para": 1.0, "sts": 1.0}
    overall = {"overall_2023": 2.5 / 3, "overall_2024": 2.5 / 3}
    assert scores == pytest.approx({**expected, **overall})
    assert all(dev_outputs[task] is outputs for task, outputs in OUTPUTS.items())
    assert of_tests == {}, "the course's test files have no labels"


def test_output_that_does_not_fit_its_rows_leaves_no_file(tables, rows, tmp_path, monkeypatch):
    def predict(model, task, rows, precision):
        return OUTPUTS[task][:1]

    monkeypatch.setattr(leaderboard, "predict", predict)
    paths = leaderboard.output_paths(PredictionFileOptions(), tmp_path, SPLITS)
    with pytest.raises(ValueError, match="2 ids and 1 predictions"):
        leaderboard.write_results(MODEL, rows, tables, paths, "fp32")
    assert not list(tmp_path.rglob("*.csv"))


def test_paths_of_ones_own(tmp_path):
    options = PredictionFileOptions(sst_dev_out="mine/a.csv", sts_test_out="/else/b.csv")
    paths = leaderboard.output_paths(options, tmp_path, SPLITS)
    assert paths["sst"] == {
        "dev": Path("mine/a.csv"),
        "test": tmp_path / "predictions" / "sst-test-output.csv",
    }
    assert paths["sts"]["test"] == Path("/else/b.csv")
    assert sum(len(splits) for splits in paths.values()) == 6


@pytest.mark.parametrize("pair_encoding", ["cross", "bi"])
def test_scores_of_the_files_are_those_of_evaluate(
    tiny_model, sample_data, tmp_path, pair_encoding
):
    tables = read_tables(DataOptions(data_dir=str(sample_data)).with_files())
    rows = encode_tables(tables, BertTokenizer.from_pretrained(tiny_model), 64, pair_encoding)
    model = make_bert(tiny_model, pair_encoding=pair_encoding, seed=1)
    paths = leaderboard.output_paths(PredictionFileOptions(), tmp_path, SPLITS)
    scores = leaderboard.write_results(model, rows, tables, paths, "fp32").scores.dev
    dev = {task: splits["dev"] for task, splits in rows.items()}
    assert scores == evaluate(model, dev, "fp32")
    for task, splits in paths.items():
        for split, path in splits.items():
            ids = [line.split(" , ")[0] for line in path.read_text().splitlines()[1:]]
            assert ids == [example.id for example in tables[task][split].examples]


# --- the closing table --------------------------------------------------------------------------


def test_baselines(sample_data):
    tables = read_tables(DataOptions(data_dir=str(sample_data)).with_files())
    baselines = leaderboard.baseline_scores(leaderboard.predict_baselines(tables), tables)
    assert list(baselines) == ["majority", "TF-IDF"]
    for scores in baselines.values():
        mean = (scores["sst"] + scores["para"] + scores["sts"]) / 3
        assert scores["overall_2023"] == pytest.approx(mean)
    assert baselines["majority"]["sts"] == 0.0


def test_what_was_not_trained_has_no_score():
    baselines = {"majority": dict.fromkeys(SCORES, 0.25)}
    lines = leaderboard.closing_table(SCORES, baselines, known=["sst"]).splitlines()
    assert lines[1:3] == ["SST accuracy    0.5000    0.2500", "PARA accuracy        –    0.2500"]
    assert lines[4:] == [
        "overall 2023         –    0.2500",
        "overall 2024         –    0.2500",
        "–: not trained; the files of PARA, STS hold what an untrained head says",
    ]


def test_intervals_and_what_chance_may_have_done():
    """sst is told from TF-IDF, para is not."""
    baselines = {"TF-IDF": dict.fromkeys(SCORES, 0.25)}
    intervals = {name: [score - 0.04, score + 0.05] for name, score in SCORES.items()}
    told = {name: {"is_told": name in ("sst", "sts")} for name in SCORES}
    del told["overall_2024"]  # it holds the same tasks
    chance = leaderboard.Chance(intervals, told)
    lines = leaderboard.closing_table(SCORES, baselines, chance=chance).splitlines()
    assert lines[:2] == [
        "dev            minBERT   95 % interval   TF-IDF",
        "SST accuracy    0.5000  0.460 to 0.550   0.2500",
    ]
    assert lines[-2:] == [
        "The difference to TF-IDF can't be told from chance: PARA accuracy, overall 2023. That of "
        "overall 2024 was not tested, for it has the same tasks.",
        "TF-IDF is outside the interval of PARA accuracy, overall 2023. But its score is "
        "uncertain, too, and 4 differences are tested at once.",
    ]

    # The model's own scores lie inside its intervals.
    lines = leaderboard.closing_table(SCORES, {"TF-IDF": SCORES}, chance=chance).splitlines()
    assert lines[-1].startswith("TF-IDF is inside the interval of SST accuracy, STS Pearson. But")
    assert not any("outside" in line for line in lines)

    # The interval of a share ends a little below 1. It says 1.000, and 1 is not outside.
    scores = {"sst": 1.0}
    chance = leaderboard.Chance({"sst": [0.95, 1 - 1e-12]}, {"sst": {"is_told": False}})
    lines = leaderboard.lines_on_tfidf(chance, {"sst": "SST accuracy"}, scores)
    assert lines == ["The difference to TF-IDF can't be told from chance: SST accuracy."]


def test_perfect_answers_are_told_from_tfidf_and_tfidf_itself_is_not(sample_data):
    """TF-IDF's own predictions as outputs of a model, and the labels."""
    tables = read_tables(DataOptions(data_dir=str(sample_data)).with_files())
    baselines = leaderboard.predict_baselines(tables)
    outputs = {
        "para": baselines["TF-IDF"]["para"] - 0.5,
        "sts": np.array([row.label for row in tables["sts"]["dev"].examples], dtype=np.float32),
    }
    chance = leaderboard.measure_chance(outputs, baselines, tables, TASKS, ["para", "sts"])
    assert not chance.against_tfidf["para"]["is_told"]
    assert chance.against_tfidf["para"]["difference"] == 0.0
    assert chance.against_tfidf["sts"]["is_told"]
    assert chance.intervals["sts"] == pytest.approx([1.0, 1.0])
