"""`python -m multitask.ensemble` on two tiny runs: its files, its output, its refusals."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multitask import check
from multitask import saved_run as finished
from multitask.ensemble import __main__ as ensemble
from multitask.ensemble.__main__ import main
from multitask.ensemble.voting import METHODS
from multitask.prediction_files import read_predictions
from multitask.tasks import TASKS
from tests.toy_votes import altered

ROOT = Path(__file__).parents[2]
FILES = {(task, split): f"{task}-{split}-output.csv" for task in TASKS for split in ("dev", "test")}
SCORES = ["sst", "para", "sts", "overall_2023", "overall_2024"]
ROWS = ["best, out of fold", "average", "weighted, out of fold"]


@pytest.fixture(scope="module", autouse=True)
def _fast(no_fsync):
    """Nothing here pulls a plug."""


@pytest.fixture(scope="module")
def raw_outputs(two_runs):
    """Raw outputs of the two runs, outputs[run][task][split], and the tables."""
    return [ensemble.outputs_of(folder) for folder in two_runs], finished.open_run(
        two_runs[0]
    ).tables


@pytest.fixture
def quick(raw_outputs, two_runs, monkeypatch):
    """The models have spoken once; that they are asked is seen where this is not used."""
    by_folder = {
        folder.resolve(): outputs for folder, outputs in zip(two_runs, raw_outputs[0], strict=True)
    }
    monkeypatch.setattr(
        ensemble,
        "outputs_of",
        lambda folder, tasks: {name: by_folder[folder.resolve()][name] for name in tasks},
    )


def run(*arguments) -> int:
    return main(list(map(str, arguments)))


def record_of(out: Path) -> dict:
    return json.loads((out / "ensemble.json").read_text(encoding="utf-8"))


def files_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "predictions").iterdir()}


# --- what it writes -------------------------------------------------------------------------------


def test_the_average_is_that_of_a_slow_loop(two_runs, raw_outputs, tmp_path):
    """From the models to the files, with the sums written out."""
    assert run(*two_runs, "--out", tmp_path / "out") == 0
    (first, second), tables = raw_outputs
    for (name, split), file in FILES.items():
        one, other = first[name][split].tolist(), second[name][split].tolist()
        if name == "sst":
            shares = [
                [[math.exp(value) / sum(map(math.exp, row)) for value in row] for row in rows]
                for rows in (one, other)
            ]
            expected = [
                max(
                    range(5),
                    key=lambda label, row=row: shares[0][row][label] + shares[1][row][label],
                )
                for row in range(24)
            ]
        elif name == "para":
            expected = [
                float((1 / (1 + math.exp(-a)) + 1 / (1 + math.exp(-b))) / 2 > 0.5)
                for a, b in zip(one, other, strict=True)
            ]
        else:
            (m, s), (n, t) = (
                (np.mean(rows), np.std(rows))
                for rows in (first[name]["dev"].astype(float), second[name]["dev"].astype(float))
            )
            expected = [
                ((a - m) / s + (b - n) / t) / 2 * (s + t) / 2 + (m + n) / 2
                for a, b in zip(one, other, strict=True)
            ]
        assert len(set(expected)) > 1, "the tiny runs answer all rows alike; train them longer"
        written = read_predictions(tmp_path / "out" / "predictions" / file, TASKS[name])
        assert list(written) == [example.id for example in tables[name][split].examples]
        assert list(written.values()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_six_files_that_score_what_is_said(two_runs, sample_data, tmp_path, quick, capsys, method):
    out = tmp_path / "out"
    assert run(*two_runs, "--out", out, "--method", method, "--folds", 4, "--seed", 9) == 0
    capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["ensemble.json", "predictions"]
    assert files_of(out).keys() == set(FILES.values())
    files = [str(out / "predictions" / name) for name in FILES.values()]
    assert check.main([*files, "--data-dir", str(sample_data)]) == 0
    scores = record_of(out)["scores"]
    assert list(scores) == SCORES
    assert (
        f"overall 2023: {scores['overall_2023']:.4f}, overall 2024: {scores['overall_2024']:.4f}"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_record(two_runs, tmp_path, quick, method):
    out = tmp_path / "out"
    assert run(*two_runs, "--out", out, "--method", method, "--folds", 4, "--seed", 9) == 0
    record = record_of(out)
    assert record["runs"] == list(map(str, two_runs))
    assert (record["method"], record["num_folds"], record["seed"]) == (method, 4, 9)
    assert list(record["dev_scores"]) == [*map(str, two_runs), *ROWS]
    assert all(list(scores) == SCORES for scores in record["dev_scores"].values())
    for folder in two_runs:
        of_run = finished.read_record(folder).scores
        assert {name: record["dev_scores"][str(folder)][name] for name in TASKS} == pytest.approx(
            of_run, abs=1e-6
        )
    title = method if method == "average" else f"{method}, out of fold"
    assert record["scores"] == pytest.approx(
        record["dev_scores"][title], abs=1e-9
    )  # of the files, of the table
    assert ("out of fold" in record["files_hold"]["dev"]) == METHODS[method].is_fitted
    assert "same dev rows" in record["caution"]
    for name in TASKS:
        assert record["weights"]["average"][name] == [0.5, 0.5]
        assert sorted(record["weights"]["best"][name]) == [0, 1]
        of_runs = [record["dev_scores"][str(folder)][name] for folder in two_runs]
        assert record["dev_scores"]["best, out of fold"][name] <= max(of_runs) + 1e-6
        assert sum(record["weights"]["weighted"][name]) == pytest.approx(1)
        assert np.shape(record["fold_weights"][method][name]) == (4, 2)


def test_the_best_run_s_test_files_are_its_own(two_runs, tmp_path, quick):
    assert run(*two_runs, "--out", tmp_path / "out", "--method", "best") == 0
    for name, weights in record_of(tmp_path / "out")["weights"]["best"].items():
        ours, its = (
            read_predictions(folder / "predictions" / FILES[name, "test"], TASKS[name])
            for folder in (tmp_path / "out", two_runs[weights.index(1)])
        )
        if name == "sts":  # on the runs' mean scale
            assert np.corrcoef(list(ours.values()), list(its.values()))[0, 1] == pytest.approx(
                1, abs=1e-6
            )
        else:
            assert ours == its


def test_the_dev_files_of_a_fitted_method_follow_the_folds(two_runs, raw_outputs, tmp_path, quick):
    """PARA by hand: the rows of the file come from the weights of their fold."""
    assert (
        run(*two_runs, "--out", tmp_path / "out", "--method", "weighted", "--folds", 3, "--seed", 5)
        == 0
    )
    fold_weights = record_of(tmp_path / "out")["fold_weights"]["weighted"]["para"]
    folds = np.random.default_rng(5).permutation(np.arange(24) % 3)
    first, second = (
        1 / (1 + np.exp(-outputs["para"]["dev"].astype(float))) for outputs in raw_outputs[0]
    )
    expected = [
        float(fold_weights[fold][0] * a + fold_weights[fold][1] * b > 0.5)
        for fold, a, b in zip(folds, first, second, strict=True)
    ]
    written = read_predictions(
        tmp_path / "out" / "predictions" / "para-dev-output.csv", TASKS["para"]
    )
    assert list(written.values()) == expected


def test_the_order_of_the_runs_and_the_method_s_name_change_no_average(two_runs, tmp_path, quick):
    assert run(*two_runs, "--out", tmp_path / "a") == 0
    assert run(*two_runs[::-1], "--out", tmp_path / "b", "--method", "average", "--folds", 3) == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_same_command_gives_the_same_bytes(two_runs, tmp_path, quick):
    for name in "ab":
        assert run(*two_runs, "--out", tmp_path / name, "--method", "weighted") == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert record_of(tmp_path / "a") == record_of(tmp_path / "b")


def test_one_model_in_memory_at_a_time(two_runs, tmp_path, monkeypatch):
    import gc
    import weakref

    opened = []

    def watched(folder, opening=finished.open_run):
        gc.collect()
        assert not any(model() for model in opened), "the model before is still there"
        found = opening(folder)
        opened.append(weakref.ref(found.model))
        return found

    monkeypatch.setattr(ensemble, "open_run", watched)
    assert run(*two_runs, "--out", tmp_path / "out") == 0
    assert len(opened) == 2


# --- what it prints -------------------------------------------------------------------------------


def test_what_is_printed(two_runs, tmp_path, quick, capsys):
    out = tmp_path / "out"
    assert run(*two_runs, "--out", out, "--method", "weighted") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines, record = printed.out.splitlines(), record_of(out)
    start = next(number for number, line in enumerate(lines) if line.startswith("dev "))
    assert lines[start].split("  ")[-1].strip() == "overall 2024"
    for line, (name, scores) in zip(lines[start + 1 :], record["dev_scores"].items(), strict=False):
        assert line.startswith(name)
        assert line[len(name) :].split() == [f"{scores[key]:.4f}" for key in SCORES]
    assert [line for line in lines if line.startswith(("best: ", "average: ", "weighted: "))] == [
        f"{name}: {method.sentence}" for name, method in METHODS.items()
    ]
    assert any("dev in 5 parts" in line for line in lines)
    assert any("same dev rows" in line for line in lines)
    weights = lines[
        next(number for number, line in enumerate(lines) if line.startswith("weights, weighted"))
        + 1 :
    ]
    for line, folder, number in zip(weights, two_runs, (0, 1), strict=False):
        expected = [f"{record['weights']['weighted'][name][number]:.4f}" for name in TASKS]
        assert line.startswith(str(folder))
        assert line[len(str(folder)) :].split() == expected
    assert all(str(out / "predictions" / name) in printed.out for name in FILES.values())
    assert lines[-2].startswith("dev files: out of fold")
    assert lines[-1].startswith("test files: weights fitted on all")


# --- what it refuses ------------------------------------------------------------------------------


def refused(capsys, *arguments) -> str:
    """The message of a command that stops with exit code 2, having opened no model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "open_run", lambda folder: pytest.fail("a model was opened first"))
        assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_no_run_and_one_run(two_runs, tmp_path, capsys):
    assert "no run is given; an ensemble needs two runs at least. Name" in refused(
        capsys, "--out", tmp_path / "out"
    )
    message = refused(capsys, two_runs[0], "--out", tmp_path / "out")
    assert f"only {two_runs[0]} is given; an ensemble needs two" in message
    assert not (tmp_path / "out").exists()


def test_a_run_given_twice(two_runs, tmp_path, capsys):
    again = two_runs[0].parent / "second" / ".." / "first"
    assert f"{again} is given twice" in refused(capsys, *two_runs, again, "--out", tmp_path / "out")


def test_a_folder_that_is_there_stays_as_it_is(two_runs, tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")
    message = refused(capsys, *two_runs, "--out", tmp_path)
    assert f"{tmp_path} exists; --out is made anew" in message
    assert "Choose another folder" in message
    assert (
        f"{tmp_path / 'mine' / 'out'}: cannot be written, because {tmp_path / 'mine'} is a file"
        in refused(capsys, *two_runs, "--out", tmp_path / "mine" / "out")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_unfinished_run_and_no_run(two_runs, tmp_path, capsys):
    unfinished = Path(shutil.copytree(two_runs[1], tmp_path / "run"))
    (unfinished / "run.json").unlink()
    message = refused(capsys, two_runs[0], unfinished, "--out", tmp_path / "out")
    assert f"{unfinished}: the run there has not come to its end" in message
    assert "--resume" in message
    assert ": no finished run there" in refused(
        capsys, two_runs[0], tmp_path / "none", "--out", tmp_path / "out"
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_run_has_no_vote_in_a_task_that_it_was_not_trained_on(two_runs, tmp_path, capsys, method):
    """Nor have its cosines, which have no head and no scale of their own to train."""
    heads = {"run": {"head": "cosine"}, "other": {}}
    other, another = (
        altered(
            two_runs[1],
            tmp_path / name,
            lambda record, name=name: record["options"].update(
                tasks="sst,para", score="mean", **heads[name]
            ),
        )
        for name in heads
    )  # noqa: B023 - called at once
    assert run(two_runs[0], other, "--out", tmp_path / "out", "--method", method) == 0
    printed = capsys.readouterr().out
    assert f"{other}: predicting dev and test; trained on sst,para, votes on sst para\n" in printed
    assert (
        next(line for line in printed.splitlines() if line.startswith(f"{other} ")).split()[-3:]
        == ["–"] * 3
    )
    record = record_of(tmp_path / "out")
    assert record["weights"][method]["sts"] == [1, 0]
    assert record["weights"]["average"]["sst"] == [
        0.5,
        0.5,
    ]
    assert record["scores"]["sts"] == pytest.approx(
        finished.read_record(two_runs[0]).scores["sts"], abs=1e-6
    )
    assert list(record["dev_scores"][str(other)]) == ["sst", "para"]
    assert run(other, another, "--out", tmp_path / "both") == 0, "what none knows, all vote in"


def test_runs_on_other_data(two_runs, tmp_path, capsys):
    other = altered(
        two_runs[1],
        tmp_path / "run",
        lambda record: record["files"].update({record["options"]["sts_dev"]: "0" * 64}),
    )
    message = refused(capsys, *two_runs, other, "--out", tmp_path / "out")
    assert f"{two_runs[0]} and {other} have different files for --sts_dev" in message
    assert "on one data" in message


@pytest.mark.parametrize("flags", [("--folds", 1), ("--folds", -3), ("--seed", -1)])
def test_numbers_that_cannot_be(two_runs, tmp_path, capsys, flags):
    message = refused(capsys, *two_runs, "--out", tmp_path / "out", *flags)
    assert f"{flags[0]} is {flags[1]}; pass a whole number of" in message


def test_more_folds_than_rows(two_runs, tmp_path, capsys):
    assert "25 folds of 24 dev rows" in refused(
        capsys, *two_runs, "--out", tmp_path / "out", "--folds", 25
    )


@pytest.mark.parametrize("flags", [["--method", "vote"], ["--fold", "3"]])
def test_argparse_errors_exit_2(two_runs, flags):
    with pytest.raises(SystemExit, match="2"):
        run(*two_runs, *flags)


def test_as_a_command(tmp_path):
    command = [
        sys.executable,
        "-m",
        "multitask.ensemble",
        str(tmp_path / "none"),
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("python -m multitask.ensemble: ")
    assert done.stderr.count("\n") == 1
