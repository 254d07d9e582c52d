"""`minbert compare`: two runs, files, lists of runs, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from multitask.compare import main
from multitask.prediction_files import read_predictions
from multitask.saved_run import open_run
from multitask.tasks import TASKS


@pytest.fixture
def compare(capsys):
    """A function: arguments -> exit code, what was printed, what was said."""

    def run(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return run


def test_two_runs_are_compared_in_each_score(two_runs, compare):
    code, printed, _ = compare(*two_runs)
    assert code == 0
    lines = printed.splitlines()
    assert lines[0] == f"A: {two_runs[0]}" and lines[1] == f"B: {two_runs[1]}"
    titles = [line.split(", ")[0] for line in lines[2:-1]]
    assert titles == ["SST accuracy", "PARA accuracy", "STS Pearson", "overall 2023"]
    verdicts = r"is better by|the same within 0\.01$|cannot tell \(.*are needed$"
    assert all(re.search(verdicts, line) for line in lines[2:-1])
    assert "one run each, no seeds, corrected for 4 scores" in lines[-1]


def test_json_has_the_scores_of_run_json(two_runs, compare):
    _, printed, _ = compare(*two_runs, "--json")
    content = json.loads(printed)
    for name in TASKS:
        expected = []
        for run in two_runs:
            record = json.loads((run / "run.json").read_text(encoding="utf-8"))
            expected.append(record["scores"][name])
        assert content[name]["scores"] == pytest.approx(expected, abs=1e-6)
        difference = content[name]["difference"]
        assert difference == pytest.approx(expected[1] - expected[0], abs=1e-6)
        assert content[name]["low"] <= difference <= content[name]["high"]


def test_the_order_of_the_two_only_changes_the_sign(two_runs, compare):
    forwards = json.loads(compare(*two_runs, "--json")[1])
    backwards = json.loads(compare(*reversed(two_runs), "--json")[1])
    for name in TASKS:
        assert backwards[name]["difference"] == pytest.approx(-forwards[name]["difference"])
        assert backwards[name]["low"] == pytest.approx(-forwards[name]["high"])
        assert backwards[name]["p_value"] == pytest.approx(forwards[name]["p_value"])


def write_answers(run, path, share: float):
    """A leaderboard file of STS whose predictions are the labels with noise."""
    examples = open_run(run).tables["sts"]["dev"].examples
    noise = np.random.default_rng(0).normal(size=len(examples))
    lines = [TASKS["sts"].header]
    for example, value in zip(examples, noise, strict=True):
        lines.append(f"{example.id} , {example.label + share * value:.4f} \n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_two_files_of_predictions(two_runs, tmp_path, compare, sample_data):
    """Nearly right answers against answers that are mostly noise."""
    good = write_answers(two_runs[0], tmp_path / "good.csv", 0.1)
    bad = write_answers(two_runs[0], tmp_path / "bad.csv", 8.0)
    code, printed, said = compare(bad, good, "--data-dir", sample_data)
    assert code == 0, said
    assert "STS Pearson" in printed and "B is better by" in printed
    copy = shutil.copy(good, tmp_path / "copy.csv")
    _, printed, _ = compare(good, copy, "--data-dir", sample_data)
    assert "the same within 0.01" in printed

    # Files of test rows are compared by labels that the user has.
    tests = [run / "predictions" / "sst-test-output.csv" for run in two_runs]
    code, _, said = compare(*tests, "--data-dir", sample_data)
    assert code == 2 and "or the labels as --gold" in said
    gold = tmp_path / "gold.csv"
    ids = read_predictions(tests[0], TASKS["sst"])
    gold.write_text("\tid\tsentence\tsentiment\n" + "".join(f"0\t{key}\ta\t1\n" for key in ids))
    assert compare(*tests, "--data-dir", sample_data, "--gold", gold)[0] == 0


def test_lists_of_runs_over_seeds(two_runs, tmp_path, compare):
    copies = []
    for number, run in enumerate(two_runs):
        copies.append(shutil.copytree(run, tmp_path / str(number)))
        copies.append(tmp_path / f"{number}.log")  # of `python -m experiments`, as * matches it
        copies[-1].touch()
    code, printed, said = compare(*two_runs, "--with", *copies)
    assert code == 0, said
    assert ".log" not in printed
    assert "(95 % intervals over rows and seeds, corrected for 4 scores)" in printed
    # The same runs on both sides: no difference, but two seeds leave a wide interval.
    assert "is better" not in printed


def test_a_changed_file_of_a_run_is_refused(two_runs, tmp_path, compare):
    """One prediction with another value would be another run."""
    folder = shutil.copytree(two_runs[1], tmp_path / "changed")
    path = folder / "predictions" / "sst-dev-output.csv"
    text = path.read_text(encoding="utf-8")
    first = next(iter(read_predictions(path, TASKS["sst"]).items()))
    old = f"{first[0]} , {first[1]:.0f} \n"
    path.write_text(text.replace(old, f"{first[0]} , {(first[1] + 1) % 5:.0f} \n", 1), "utf-8")
    code, _, said = compare(two_runs[0], folder)
    assert code == 2 and "the run did not write this file" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}"], "1 runs or files are given"),
        (["{0}", "{0}"], "is given twice"),
        (["{0}", "nowhere"], "nowhere does not exist"),
        (["{0}", "{1}", "--with", "{2}"], "one side has one run"),
        (["{0}", "{2}/run.json"], "copy/run.json is a file. Give runs alone"),
    ],
)
def test_what_is_refused(two_runs, tmp_path, compare, arguments, message):
    copy = shutil.copytree(two_runs[0], tmp_path / "copy")
    places = [str(folder) for folder in (*two_runs, copy)]
    code, _, said = compare(*(argument.format(*places) for argument in arguments))
    assert code == 2 and message in said
