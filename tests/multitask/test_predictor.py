"""multitask/predictor.py: a finished run answers rows of Python as it answers rows of files."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import joblib
import numpy as np
import pytest

import multitask
from multitask import Predictor
from multitask.probabilities import decode, probabilities
from multitask.saved_run import open_run
from tests.toy_ranks import in_ranks


@pytest.fixture(scope="module")
def run(two_runs):
    return open_run(two_runs[0])


def rows_of(run, task: str) -> list:
    """The dev rows of a task as a user has them: texts, or pairs of texts."""
    rows = []
    for example in run.tables[task]["dev"].examples:
        rows.append(example.texts if run.tasks[task].is_pair else example.sentence_1)
    return rows


@pytest.mark.parametrize("task", ["sst", "para"])
def test_classes_are_those_of_the_run(run, task):
    predictor = Predictor(run.folder, task)
    votes = probabilities(run.outputs(task, "dev"))
    names = run.tasks[task].label_names
    expected = [names[int(label)] for label in decode(run.tasks[task], votes)]
    assert predictor.predict(rows_of(run, task)).tolist() == expected
    assert len(set(expected)) > 1

    found = predictor.predict_proba(rows_of(run, task))
    assert predictor.label_names == names
    assert found.shape == (len(expected), len(names))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert [names[column] for column in found.argmax(axis=1)] == expected
    np.testing.assert_array_equal(found if votes.ndim == 2 else found[:, 1], votes)


def test_numbers_are_those_of_the_run(run):
    found = Predictor(run.folder).predict(rows_of(run, "sts"), task="sts")
    np.testing.assert_array_equal(found, run.outputs("sts", "dev").astype(float))


def test_the_size_of_a_batch_changes_nothing(run):
    rows = rows_of(run, "sst")
    one_by_one = Predictor(run.folder, "sst", batch_size=1, precision="fp32").predict_proba(rows)
    together = Predictor(run.folder, "sst", precision="fp32").predict_proba(rows)
    np.testing.assert_allclose(one_by_one, together, atol=1e-5)


@pytest.mark.parametrize("task", ["sst", "para", "sts"])
def test_two_processes_share_the_rows_and_answer_as_one(run, task, monkeypatch):
    examples = run.tables[task]["dev"].examples[:7]
    predictors = [Predictor(run.folder, task, batch_size=2) for _ in range(3)]
    spec = run.tasks[task]

    def act(number: int) -> np.ndarray:
        return predictors[number].votes(spec, examples, print, shares_batches=True)

    expected = predictors[2].votes(spec, examples, print)
    for votes in in_ranks(monkeypatch, 2, act):
        assert votes.tobytes() == expected.tobytes()


def test_an_only_task_for_such_rows_needs_no_name(run):
    predictor = Predictor(run.folder)
    assert predictor.tasks == ("sst", "para", "sts")
    rows = rows_of(run, "sst")[:3]
    assert predictor.predict(rows).tolist() == predictor.predict(rows, task="sst").tolist()
    with pytest.raises(ValueError, match="has the tasks para, sts. Pass one of them as task"):
        predictor.predict([("a", "b")])
    with pytest.raises(ValueError, match="Pass one of them as task"):
        predictor.label_names  # noqa: B018


def test_the_only_task_of_a_run_says_what_its_rows_are(run):
    """A pair without its list looks like two texts, which no task of the run reads."""
    predictor = Predictor(run.folder)
    only = {"sts": predictor.record.tasks["sts"]}
    predictor.record = dataclasses.replace(predictor.record, tasks=only)
    with pytest.raises(ValueError, match="sts reads pairs, so a tuple of two str"):
        predictor.predict(("a", "b"))


@pytest.mark.parametrize("make", [list, tuple, iter, np.array, lambda rows: (r for r in rows)])
def test_texts_come_in_any_container(run, make):
    predictor = Predictor(run.folder)
    texts = ["a man", "a woman", "not a girl"]
    assert predictor.predict(make(texts)).tolist() == predictor.predict(texts).tolist()
    pairs = [["a man", "a girl"], ["a man", "not a man"]]
    expected = predictor.predict(pairs, task="sts").tolist()
    assert predictor.predict(make(pairs), task="sts").tolist() == expected


def frame(*columns: list[str]) -> SimpleNamespace:
    """What a data frame of pandas gives to whoever asks for its rows."""
    return SimpleNamespace(itertuples=lambda index: iter(zip(*columns, strict=True)))


def test_a_data_frame_is_read_by_rows(run):
    predictor = Predictor(run.folder)
    first, second = ["a man", "a girl"], ["a woman", "a girl"]
    expected = predictor.predict([*zip(first, second, strict=True)], task="sts")
    found = predictor.predict(frame(first, second), task="sts")
    assert found.tolist() == expected.tolist()
    assert predictor.predict(frame(first)).tolist() == predictor.predict(first).tolist()


def test_pandas(run):
    pandas = pytest.importorskip("pandas")
    predictor = Predictor(run.folder)
    table = pandas.DataFrame({"a": ["a man", "a girl"], "b": ["a woman", "a girl"]}, index=[7, 3])
    pairs = [("a man", "a woman"), ("a girl", "a girl")]
    table["sts"] = predictor.predict(table[["a", "b"]], task="sts")
    assert table["sts"].tolist() == predictor.predict(pairs, task="sts").tolist()
    assert len(predictor.predict(table["a"])) == 2


def test_no_rows_have_no_answers(run):
    predictor = Predictor(run.folder)
    assert predictor.predict([]).shape == (0,)
    assert predictor.predict_proba([]).shape == (0, 5)


@pytest.mark.parametrize(
    ("rows", "task", "words"),
    [
        ("A lovely film.", "sst", r"pass a list, such as predict\(\[text\]\)"),
        (["a", float("nan")], "sst", "row 2 is nan; expected is a str. Replace or drop missing"),
        ([("a", "b")], "sst", r"row 1 is \('a', 'b'\); expected is a str"),
        (["a man", "a girl"], "sts", "row 1 is 'a man'; sts reads pairs, so a tuple of two str"),
        (("a", "b"), "sts", r"One pair stands in a list, predict\(\[\(a, b\)\]\)"),
        ([("a", "b"), ("a", None)], "sts", "row 2 is .*a tuple of two str is expected"),
        (["a"], "tickets", "task is 'tickets'; .* has the tasks sst, para, sts. Pass one of"),
    ],
)
def test_rows_that_cannot_be(run, rows, task, words):
    with pytest.raises(ValueError, match=words):
        Predictor(run.folder).predict(rows, task=task)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "tickets"}, "has the tasks sst, para, sts"),
        ({"precision": "fp8"}, "pass one of auto, fp32, bf16, int8, fp32-onednn"),
        ({"batch_size": 0}, "pass a whole number of 1 or more"),
    ],
)
def test_arguments_that_cannot_be(run, arguments, words):
    with pytest.raises(ValueError, match=words):
        Predictor(run.folder, **arguments)


def test_a_number_has_no_probabilities(run):
    with pytest.raises(ValueError, match="sts has no classes, so call predict"):
        Predictor(run.folder, "sts").predict_proba([("a", "b")])


def test_rows_that_are_cut_are_warned_of_at_the_users_line(run):
    with pytest.warns(UserWarning, match="1 of 2 rows are longer") as caught:
        Predictor(run.folder).predict(["fine", "very " * 200])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("precision", ["auto", "int8"])
def test_a_pickled_predictor_needs_no_folder(run, monkeypatch, tmp_path, precision):
    predictor = Predictor(run.folder, "sst", precision=precision)
    joblib.dump(predictor, tmp_path / "predictor")
    monkeypatch.chdir(tmp_path)
    copy = joblib.load("predictor")
    rows = rows_of(run, "sst")
    np.testing.assert_array_equal(copy.predict_proba(rows), predictor.predict_proba(rows))


def test_int8_is_close_to_the_exact_answers(run):
    rows = rows_of(run, "sst")
    exact, rounded = [
        Predictor(run.folder, "sst", precision=name).predict_proba(rows)
        for name in ("fp32", "int8")
    ]
    assert 0 < np.abs(rounded - exact).max() < 0.05


def test_the_bundled_model_answers_without_a_folder():
    found = Predictor(task="sst").predict(["A lovely film.", "An awful film."])
    assert found.tolist() == ["positive", "negative"]


def test_its_name_is_listed_before_it_is_imported():
    assert "Predictor" in dir(multitask)
    with pytest.raises(AttributeError, match="no attribute 'Predicter'"):
        multitask.Predicter  # noqa: B018
