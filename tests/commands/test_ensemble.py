"""multitask/ensemble/__main__.py: the command on two tiny runs.

The tests see what it writes, prints and refuses. If an average differs from the slow loop, the runs
are most likely weighted, or their outputs mixed up between splits.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from multitask import check, saved_run
from multitask.ensemble import work as ensemble
from multitask.ensemble.__main__ import main
from multitask.ensemble.voting import METHODS
from multitask.prediction_files import read_predictions
from multitask.tasks import TASKS
from tests.toy_votes import altered

ROOT = Path(__file__).parents[2]
FILES = {}
for _task in TASKS:
    for _split in ("dev", "test"):
        FILES[_task, _split] = f"{_task}-{_split}-output.csv"
SCORES = ["sst", "para", "sts", "overall_2023", "overall_2024"]
ROWS = [
    "best, out of fold",
    "best, in sample",
    "average",
    "weighted, out of fold",
    "weighted, in sample",
]
each_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module", autouse=True)
def _fast():
    """Nothing here pulls a plug."""


@pytest.fixture(scope="module")
def raw_outputs(two_runs):
    """Raw outputs of the two runs, outputs[run][task][split]."""
    return [ensemble.outputs_of(folder) for folder in two_runs]


@pytest.fixture
def quick(raw_outputs, two_runs, monkeypatch):
    """The models predict once for all tests. Tests without this fixture open them."""
    by_folder = {}
    for folder, outputs in zip(two_runs, raw_outputs, strict=True):
        by_folder[folder.resolve()] = outputs

    def outputs_of(folder, tasks):
        return {name: by_folder[folder.resolve()][name] for name in tasks}

    monkeypatch.setattr(ensemble, "outputs_of", outputs_of)


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


def run(*arguments) -> int:
    return main(list(map(str, arguments)))


def record_of(out: Path) -> dict:
    return json.loads((out / "ensemble.json").read_text(encoding="utf-8"))


def files_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "predictions").iterdir()}


def written(out: Path, task: str, split: str) -> dict[str, float]:
    return read_predictions(out / "predictions" / FILES[task, split], TASKS[task])


# --- what it writes -----------------------------------------------------------------------------


def softmax(row: list[float]) -> list[float]:
    total = sum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def average_of_two(task: str, first: dict, second: dict, split: str) -> list[float]:
    """The predictions of an average, with the sums written out. first, second: outputs[split]."""
    one = first[split].tolist()
    other = second[split].tolist()
    if task == "sst":
        classes = []
        for row_of_one, row_of_other in zip(one, other, strict=True):
            pairs = zip(softmax(row_of_one), softmax(row_of_other), strict=True)
            sums = [a + b for a, b in pairs]
            classes.append(sums.index(max(sums)))
        return classes
    if task == "para":
        means = [(sigmoid(a) + sigmoid(b)) / 2 for a, b in zip(one, other, strict=True)]
        return [float(mean > 0.5) for mean in means]

    # STS: z-scores by the dev rows of each run, then back to the mean scale.
    m = np.mean(first["dev"].astype(float))
    s = np.std(first["dev"].astype(float))
    n = np.mean(second["dev"].astype(float))
    t = np.std(second["dev"].astype(float))
    numbers = []
    for a, b in zip(one, other, strict=True):
        mean_score = ((a - m) / s + (b - n) / t) / 2
        numbers.append(mean_score * (s + t) / 2 + (m + n) / 2)
    return numbers


def test_the_average_is_that_of_a_slow_loop(two_runs, raw_outputs, out):
    """From the models to the files."""
    assert run(*two_runs, "--out", out) == 0
    first, second = raw_outputs
    tables = saved_run.open_run(two_runs[0]).tables
    for name, split in FILES:
        expected = average_of_two(name, first[name], second[name], split)
        assert len(set(expected)) > 1, "the tiny runs answer all rows alike; train them longer"
        predictions = written(out, name, split)
        assert list(predictions) == [example.id for example in tables[name][split].examples]
        assert list(predictions.values()) == pytest.approx(expected, abs=1e-5)


@each_method
def test_six_files_that_score_what_is_said(two_runs, sample_data, out, quick, capsys, method):
    assert run(*two_runs, "--out", out, "--method", method, "--folds", 4, "--seed", 9) == 0
    capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["ensemble.json", "predictions"]
    assert files_of(out).keys() == set(FILES.values())

    files = [str(out / "predictions" / name) for name in FILES.values()]
    assert check.main([*files, "--data-dir", str(sample_data)]) == 0
    scores = record_of(out)["scores"]
    assert list(scores) == SCORES
    said = capsys.readouterr().out
    for year in ("2023", "2024"):
        assert f"overall {year}: {scores[f'overall_{year}']:.4f} [" in said


@each_method
def test_the_record(two_runs, out, quick, method):
    assert run(*two_runs, "--out", out, "--method", method, "--folds", 4, "--seed", 9) == 0
    record = record_of(out)
    assert record["runs"] == list(map(str, two_runs))
    assert (record["method"], record["num_folds"], record["seed"]) == (method, 4, 9)
    assert list(record["dev_scores"]) == [*map(str, two_runs), *ROWS]
    assert all(list(scores) == SCORES for scores in record["dev_scores"].values())
    for folder in two_runs:
        scores = {name: record["dev_scores"][str(folder)][name] for name in TASKS}
        assert scores == pytest.approx(saved_run.read_record(folder).scores, abs=1e-6)

    # The scores of the files are those of the table.
    title = method if method == "average" else f"{method}, out of fold"
    assert record["scores"] == pytest.approx(record["dev_scores"][title], abs=1e-9)
    assert ("out of fold" in record["files_hold"]["dev"]) == METHODS[method].is_fitted
    assert "same dev rows" in record["caution"]

    for name in TASKS:
        assert record["weights"]["average"][name] == [0.5, 0.5]
        assert sorted(record["weights"]["best"][name]) == [0, 1]
        of_runs = [record["dev_scores"][str(folder)][name] for folder in two_runs]
        assert record["dev_scores"]["best, out of fold"][name] <= max(of_runs) + 1e-6
        # As [GEN] reports it: the best run of each task, on the rows that chose it.
        in_sample = record["dev_scores"]["best, in sample"][name]
        assert in_sample == pytest.approx(max(of_runs), abs=1e-6)
        assert sum(record["weights"]["weighted"][name]) == pytest.approx(1)
        assert np.shape(record["fold_weights"][method][name]) == (4, 2)


def test_the_best_run_s_test_files_are_its_own(two_runs, out, quick):
    assert run(*two_runs, "--out", out, "--method", "best") == 0
    for name, weights in record_of(out)["weights"]["best"].items():
        ours = written(out, name, "test")
        its = written(two_runs[weights.index(1)], name, "test")
        if name == "sts":  # on the runs' mean scale
            correlation = np.corrcoef(list(ours.values()), list(its.values()))[0, 1]
            assert correlation == pytest.approx(1, abs=1e-6)
        else:
            assert ours == its


def test_the_dev_files_of_a_fitted_method_follow_the_folds(two_runs, raw_outputs, out, quick):
    """PARA, where every step can be taken by hand.

    The file's rows are those of the weights of their fold.
    """
    flags = ["--method", "weighted", "--folds", 3, "--seed", 5]
    assert run(*two_runs, "--out", out, *flags) == 0
    fold_weights = record_of(out)["fold_weights"]["weighted"]["para"]
    folds = np.random.default_rng(5).permutation(np.arange(24) % 3)
    first, second = [outputs["para"]["dev"].tolist() for outputs in raw_outputs]
    expected = []
    for fold, a, b in zip(folds, first, second, strict=True):
        mixed = fold_weights[fold][0] * sigmoid(a) + fold_weights[fold][1] * sigmoid(b)
        expected.append(float(mixed > 0.5))
    assert list(written(out, "para", "dev").values()) == expected


def test_the_order_of_the_runs_and_the_method_s_name_change_no_average(two_runs, tmp_path, quick):
    assert run(*two_runs, "--out", tmp_path / "a") == 0
    assert run(*two_runs[::-1], "--out", tmp_path / "b", "--method", "average", "--folds", 3) == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_same_command_gives_the_same_bytes(two_runs, tmp_path, quick):
    for name in "ab":
        assert run(*two_runs, "--out", tmp_path / name, "--method", "weighted") == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert record_of(tmp_path / "a") == record_of(tmp_path / "b")


def test_one_model_in_memory_at_a_time(two_runs, out, monkeypatch):
    import gc
    import weakref

    opened = []

    def watched(folder, opening=saved_run.open_run):
        gc.collect()
        assert not any(model() for model in opened), "the model before is still there"
        finished = opening(folder)
        opened.append(weakref.ref(finished.model))
        return finished

    monkeypatch.setattr(ensemble, "open_run", watched)
    assert run(*two_runs, "--out", out) == 0
    assert len(opened) == 2


# --- what it prints -----------------------------------------------------------------------------


def lines_from(lines: list[str], start: str) -> list[str]:
    """The lines from the first one that starts so."""
    number = next(number for number, line in enumerate(lines) if line.startswith(start))
    return lines[number:]


def check_row(line: str, title: str, values: list[float]) -> None:
    """A line of a table of numbers."""
    assert line.startswith(title)
    assert line[len(title) :].split() == [f"{value:.4f}" for value in values]


def test_what_is_printed(two_runs, out, quick, capsys):
    assert run(*two_runs, "--out", out, "--method", "weighted") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    record = record_of(out)

    table = lines_from(lines, "dev ")
    assert table[0].split("  ")[-1].strip() == "overall 2024"
    for line, (name, scores) in zip(table[1:], record["dev_scores"].items(), strict=False):
        check_row(line, name, [scores[key] for key in SCORES])

    sentences = [line for line in lines if line.startswith(("best: ", "average: ", "weighted: "))]
    assert sentences == [f"{name}: {method.sentence}" for name, method in METHODS.items()]
    assert any("dev in 5 parts" in line for line in lines)
    assert any(line.startswith("In sample: ") and "flatters" in line for line in lines)
    assert any("same dev rows" in line for line in lines)

    weights = record["weights"]["weighted"]
    table = lines_from(lines, "weights, weighted")
    for number, folder in enumerate(two_runs):
        check_row(table[number + 1], str(folder), [weights[name][number] for name in TASKS])

    assert all(str(out / "predictions" / name) in printed.out for name in FILES.values())
    assert lines[-2].startswith("dev files: out of fold")
    assert lines[-1].startswith("test files: weights fitted on all")


# --- who votes ----------------------------------------------------------------------------------


@each_method
def test_a_run_has_no_vote_in_a_task_that_it_was_not_trained_on(
    two_runs, tmp_path, out, capsys, method
):
    """Nor have its cosines: no head had to learn them, and they have no scale of their own."""

    def without_sts(record):
        record["options"].update(tasks="sst,para", score="mean")

    def cosines_without_sts(record):
        without_sts(record)
        record["options"]["head"] = "cosine"

    other = altered(two_runs[1], tmp_path / "run", cosines_without_sts)
    another = altered(two_runs[1], tmp_path / "other", without_sts)
    assert run(two_runs[0], other, "--out", out, "--method", method) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{other}: predicting dev and test; trained on sst,para, votes on sst para" in lines
    assert lines_from(lines, f"{other} ")[0].split()[-3:] == ["–"] * 3

    record = record_of(out)
    assert record["weights"][method]["sts"] == [1, 0]
    assert record["weights"]["average"]["sst"] == [0.5, 0.5]
    scores = saved_run.read_record(two_runs[0]).scores
    assert record["scores"]["sts"] == pytest.approx(scores["sts"], abs=1e-6)
    assert list(record["dev_scores"][str(other)]) == ["sst", "para"]
    assert run(other, another, "--out", tmp_path / "both") == 0, "what none knows, all vote in"


# --- what it refuses ----------------------------------------------------------------------------


def refused(capsys, *arguments) -> str:
    """The message of a command that stops with exit code 2, having opened no model."""

    def open_run(folder):
        pytest.fail("a model was opened first")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "open_run", open_run)
        assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_no_run_and_one_run(two_runs, out, capsys):
    message = refused(capsys, "--out", out)
    assert "no run is given; an ensemble needs two runs at least. Name" in message
    message = refused(capsys, two_runs[0], "--out", out)
    assert f"only {two_runs[0]} is given; an ensemble needs two" in message
    assert not out.exists()


def test_a_run_given_twice(two_runs, out, capsys):
    again = two_runs[0].parent / "second" / ".." / "first"
    assert f"{again} is given twice" in refused(capsys, *two_runs, again, "--out", out)


def test_a_folder_that_is_there_stays_as_it_is(two_runs, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    message = refused(capsys, *two_runs, "--out", tmp_path)
    assert f"{tmp_path} exists; --out is made anew" in message
    assert "Choose another folder" in message
    message = refused(capsys, *two_runs, "--out", mine / "out")
    assert f"{mine / 'out'}: cannot be written, because {mine} is a file" in message
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_unfinished_run_and_no_run(two_runs, tmp_path, out, capsys):
    unfinished = Path(shutil.copytree(two_runs[1], tmp_path / "run"))
    (unfinished / "run.json").unlink()
    message = refused(capsys, two_runs[0], unfinished, "--out", out)
    assert f"{unfinished}: the run there has not come to its end" in message
    assert "--resume" in message
    message = refused(capsys, two_runs[0], tmp_path / "none", "--out", out)
    assert ": no finished run there" in message


def test_runs_on_other_data(two_runs, tmp_path, out, capsys):
    def change_digest(record):
        record["files"][record["options"]["sts_dev"]] = "0" * 64

    other = altered(two_runs[1], tmp_path / "run", change_digest)
    message = refused(capsys, *two_runs, other, "--out", out)
    assert f"{two_runs[0]} and {other} have different files for --sts_dev" in message
    assert "on one data" in message


@pytest.mark.parametrize("flags", [("--folds", 1), ("--folds", -3), ("--seed", -1)])
def test_numbers_that_cannot_be(two_runs, out, capsys, flags):
    message = refused(capsys, *two_runs, "--out", out, *flags)
    assert f"{flags[0]} is {flags[1]}; it must be a whole number, at least" in message


def test_more_folds_than_rows(two_runs, out, capsys):
    message = refused(capsys, *two_runs, "--out", out, "--folds", 25)
    assert "--folds is 25; it must be from 2 to 24, the number of dev rows" in message
