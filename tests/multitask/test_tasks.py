"""multitask/tasks.py: from raw outputs to predictions to scores, for each task.

A wrong score is most likely one of labels and predictions in other rows, or a nan that was kept.
"""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from data.examples import COURSE_FILES, FORMATS, PARA, SST, STS, Example
from data.options import DataOptions
from multitask.losses import paraphrase_loss, sentiment_loss, similarity_loss
from multitask.rows import read_tables
from multitask.tasks import (
    TASKS,
    accuracy,
    labels_of,
    macro_f1,
    matthews,
    open_tasks,
    overall_2023,
    overall_2024,
    pearson,
    spearman,
)


def floats(*values) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_the_table():
    assert list(TASKS) == ["sst", "para", "sts"] == list(COURSE_FILES) == list(FORMATS)
    assert [name for name, task in TASKS.items() if name != task.name] == []
    assert [task.title for task in TASKS.values()] == ["SST", "PARA", "STS"]
    assert [task.format for task in TASKS.values()] == [SST, PARA, STS]
    assert [task.num_outputs for task in TASKS.values()] == [5, 1, 1]
    assert [task.is_pair for task in TASKS.values()] == [False, True, True]
    assert [task.metric for task in TASKS.values()] == ["accuracy", "accuracy", "Pearson"]
    assert [task.loss for task in TASKS.values()] == [
        sentiment_loss,
        paraphrase_loss,
        similarity_loss,
    ]


def test_sst_takes_the_most_likely_class():
    logits = np.array([[0, 3, 1, 2, -1], [-5, -4, -3, -2, -1], [7, 7, 0, 0, 0]], dtype=np.float32)
    predictions = TASKS["sst"].decode(logits)
    assert predictions.tolist() == [1, 4, 0]
    assert predictions.dtype == np.int64


def test_para_rounds_the_sigmoid():
    logits = floats(-1e4, -2, -1e-3, 0, 1e-3, 2, 1e4)
    predictions = TASKS["para"].decode(logits)
    assert predictions.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert predictions.dtype == np.float32
    random = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    expected = torch.from_numpy(random).sigmoid().round()
    assert TASKS["para"].decode(random).tolist() == expected.tolist()


def test_sts_keeps_the_number():
    outputs = floats(-0.5, 2.7514617, 5.25)
    predictions = TASKS["sts"].decode(outputs)
    assert predictions.tolist() == outputs.tolist()
    assert predictions.dtype == np.float32


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_outputs_that_are_not_finite_are_refused_with_their_row(task, bad):
    outputs = np.zeros((4, 5) if task.num_outputs == 5 else 4, dtype=np.float32)
    outputs[2] = bad
    with pytest.raises(ValueError, match="in row 2: .*lower learning"):
        task.decode(outputs)


def test_accuracy_by_hand():
    assert accuracy(np.array([0, 1, 4, 3]), floats(0, 2, 4, 3)) == 0.75
    assert accuracy(floats(0, 1), floats(1, 0)) == 0.0


def test_pearson_by_hand():
    # deviations (-1, 0, 1) and (-2, 1, 1): 3 / sqrt(2 * 6)
    assert pearson(floats(1, 2, 3), floats(0, 3, 3)) == pytest.approx(3 / math.sqrt(12), rel=1e-9)
    assert pearson(floats(1, 2, 3), floats(5, 3, 1)) == pytest.approx(-1)


def test_pearson_slow_loop_and_numpy():
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, 200).astype(np.float32)
    predictions = (labels + generator.normal(size=200)).astype(np.float32)
    x, y = predictions.tolist(), labels.tolist()
    mean_x, mean_y = sum(x) / 200, sum(y) / 200
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    squares_x = sum((a - mean_x) ** 2 for a in x)
    squares_y = sum((b - mean_y) ** 2 for b in y)
    slow = covariance / math.sqrt(squares_x * squares_y)
    # float64, 200 terms: measured 4e-16
    assert pearson(predictions, labels) == pytest.approx(slow, rel=1e-12)
    assert pearson(predictions, labels) == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-12)


def test_pearson_ignores_scale_and_shift_and_order():
    labels = floats(0, 1.5, 2.75, 4, 5)
    predictions = floats(0.5, 1, 3, 3.5, 4.75)
    score = pearson(predictions, labels)
    assert pearson(predictions * 4 + 8, labels) == pytest.approx(score, rel=1e-6)
    order = [3, 0, 4, 2, 1]
    assert pearson(predictions[order], labels[order]) == pytest.approx(score, rel=1e-12)
    # The negative control: rows that belong to other labels.
    assert pearson(predictions[order], labels) < score - 0.1


@pytest.mark.parametrize(
    "predictions, labels",
    [
        (floats(2.5, 2.5, 2.5), floats(0, 3, 5)),
        (floats(0, 3, 5), floats(1, 1, 1)),
        (floats(2.5), floats(3)),
    ],
)
def test_pearson_of_a_constant_is_zero_and_not_nan(predictions, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pearson(predictions, labels) == 0.0


def test_negative_control_scipy_alone_gives_nan():
    with pytest.warns(scipy.stats.ConstantInputWarning):
        assert math.isnan(scipy.stats.pearsonr(floats(2.5, 2.5, 2.5), floats(0, 3, 5)).statistic)


def test_pearson_of_nearly_constant_predictions_is_a_number():
    base = np.float32(2.5)
    predictions = np.array([base, np.nextafter(base, np.float32(3)), base], dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pearson(predictions, floats(0, 5, 0)) == pytest.approx(1)


@pytest.mark.parametrize("score", [accuracy, macro_f1, matthews, pearson, spearman])
def test_scores_refuse_what_is_not_finite(score):
    """A label of nan equals nothing, so accuracy would be 0 without a word."""
    with pytest.raises(ValueError, match="in row 1: nan. The training diverged. .* lower"):
        score(floats(1, math.nan, 3), floats(1, 2, 3))
    with pytest.raises(ValueError, match="labels .* in row 2: inf.* Correct the label"):
        score(floats(1, 2, 3), floats(1, 2, math.inf))


def test_a_row_without_a_label_is_refused():
    examples = [Example("a1", "a", None, 2.0), Example("a2", "b", None, None)]
    assert labels_of(examples[:1]).tolist() == [2.0]
    with pytest.raises(ValueError, match="the row with the id a2 has no label"):
        labels_of(examples)


@pytest.mark.parametrize("score", [accuracy, pearson])
def test_scores_refuse_other_shapes(score):
    # NumPy would broadcast to (3, 3).
    with pytest.raises(ValueError, match=r"shape \(3, 1\), labels \(3,\)"):
        score(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(ValueError, match="N >= 1"):
        score(np.zeros(0), np.zeros(0))


def test_overall_by_hand():
    scores = {"sst": 0.5, "para": 0.8, "sts": 0.2}
    assert overall_2023(scores) == pytest.approx(0.5)  # 1.5 / 3
    assert overall_2024(scores) == pytest.approx(1.9 / 3)  # (0.5 + 0.8 + 0.6) / 3


def test_overall_against_a_published_pair():
    # The test scores .557, .892, .871 of a published course report are .773 (2023) and .795 (2024).
    scores = {"sst": 0.557, "para": 0.892, "sts": 0.871}
    assert round(overall_2023(scores), 3) == 0.773
    assert round(overall_2024(scores), 3) == 0.795


def test_overall_needs_all_three():
    with pytest.raises(KeyError, match="sts"):
        overall_2023({"sst": 0.5, "para": 0.8})


def test_each_file_of_a_task_is_read_once(tmp_path, monkeypatch):
    paths = []
    for split in ("train", "dev", "test"):
        paths.append(str(tmp_path / f"{split}.csv"))
        Path(paths[-1]).write_text("text,label\n" + "one,a\ntwo,b\n" * 4)
    read = []

    def read_content(path):
        read.append(str(path))
        return Path(path).read_bytes()

    monkeypatch.setattr("data.tables.reader.read_content", read_content)
    flag = f"name=mine,train={paths[0]},dev={paths[1]},test={paths[2]}"
    options = DataOptions(task=(flag,))
    opened = open_tasks(options, ["mine"])
    tables = read_tables(options, opened.tasks, opened.training_tables)["mine"]
    assert read == paths
    # A finished run is opened without the tables.
    assert read_tables(options, opened.tasks)["mine"] == tables
    assert read == paths * 2
