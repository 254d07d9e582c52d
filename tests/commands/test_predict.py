"""multitask/predict.py: rows of standard input get what the runs give the same rows of their files."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest

from multitask.predict import main
from multitask.prediction_files import read_predictions
from multitask.probabilities import probabilities
from multitask.saved_run import open_run
from multitask.tasks import TASKS
from tests.toy_votes import altered


@pytest.fixture
def predict(monkeypatch, capsys):
    """A function: arguments and the bytes on standard input -> exit code, what was printed, what was said."""

    def run(text: str | bytes, *arguments) -> tuple[int, str, str]:
        content = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return (main(list(map(str, arguments))), *capsys.readouterr())

    return run


@pytest.mark.parametrize("name", TASKS)
def test_rows_get_what_the_run_wrote_of_them(two_runs, tmp_path, predict, name):
    """The folder alone is enough: the data files are elsewhere."""
    examples = open_run(two_runs[0]).tables[name]["dev"].examples
    folder = altered(
        two_runs[0],
        tmp_path / "run",
        lambda record: record.update(
            files={f"nowhere/{path}": digest for path, digest in record["files"].items()},
            options={
                key: f"nowhere/{value}" if value in record["files"] else value
                for key, value in record["options"].items()
            },
        ),
    )
    lines = [
        "\t".join(filter(None, (example.sentence_1, example.sentence_2))) for example in examples
    ]
    code, printed, said = predict("\r\n".join(lines), folder, "--task", name)
    assert (code, said) == (0, "")
    values, texts = zip(*(line.split("\t", 1) for line in printed.splitlines()), strict=True)
    assert list(texts) == lines
    written = read_predictions(two_runs[0] / "predictions" / f"{name}-dev-output.csv", TASKS[name])
    assert list(map(float, values)) == pytest.approx(list(written.values()), rel=1e-3, abs=1e-3)
    assert len(set(values)) > 1


@pytest.mark.parametrize("name", TASKS)
def test_several_runs_are_averaged(two_runs, predict, name):
    """Against the mean of the runs' outputs on the same rows, taken here; neither run alone says the same."""
    runs = [open_run(folder) for folder in two_runs]
    lines = ["\t".join(example.texts) for example in runs[0].tables[name]["dev"].examples]
    outputs = [run.outputs(name, "dev").astype(np.float64) for run in runs]
    votes = outputs if name == "sts" else list(map(probabilities, outputs))
    decoded = {
        "sst": lambda votes: votes.argmax(axis=1),
        "para": lambda votes: votes > 0.5,
        "sts": lambda votes: votes,
    }
    expected, *alone = [
        decoded[name](of_runs).astype(float).tolist()
        for of_runs in (np.mean(votes, axis=0), *votes)
    ]
    code, printed, said = predict("\n".join(lines), *two_runs, "--task", name)
    assert (code, said) == (0, "")
    assert [float(line.split("\t")[0]) for line in printed.splitlines()] == pytest.approx(
        expected, rel=1e-3, abs=1e-3
    )
    assert expected not in alone


@pytest.mark.parametrize("name", ["sst", "para"])
def test_probabilities_are_the_mean_of_the_runs(two_runs, predict, name):
    runs = [open_run(folder) for folder in two_runs]
    lines = ["\t".join(example.texts) for example in runs[0].tables[name]["dev"].examples]
    expected = np.mean([probabilities(run.outputs(name, "dev")) for run in runs], axis=0)
    code, printed, said = predict("\n".join(lines), *two_runs, "--task", name, "--probabilities")
    assert (code, said) == (0, "")
    values, texts = zip(*(line.split("\t", 1) for line in printed.splitlines()), strict=True)
    assert list(texts) == lines
    found = np.array([list(map(float, value.split(" "))) for value in values])
    np.testing.assert_allclose(found, expected.reshape(len(lines), -1), rtol=1e-3)


def test_sts_has_no_probabilities(two_runs, predict, capsys):
    with pytest.raises(SystemExit, match="2"):
        predict("a\tb", two_runs[0], "--task", "sts", "--probabilities")
    assert (
        "--probabilities: sts has no classes; pass --task sst or para, or drop it."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        (
            "sst",
            "fine\n\nbad\n",
            "line 2 is ''; needed is one sentence in UTF-8, without a tab. Fix or remove",
        ),
        ("sst", "a\tb", "line 1 is 'a\\tb'; needed is one sentence"),
        (
            "sts",
            "a\tb\nalone",
            "line 2 is 'alone'; needed is two texts in UTF-8 with a tab between",
        ),
        ("para", "a\tb\tc", "line 1 is 'a\\tb\\tc'; needed is two texts"),
        ("para", "a\t ", "needed is two texts"),
        ("sst", "", "standard input holds no row; needed is one sentence"),
        ("sst", b"fine\ncaf\xe9\n", "line 2 is 'caf\\udce9'; needed is one sentence in UTF-8"),
    ],
)
def test_rows_that_cannot_be(two_runs, predict, task, text, words):
    code, printed, said = predict(text, two_runs[0], "--task", task)
    assert (
        (code, printed) == (2, "")
        and words in said
        and said.startswith("python -m multitask.predict: ")
    )


def test_a_person_at_a_terminal_is_asked(two_runs, capsys, monkeypatch):
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Terminal(b"fine\n")))
    code = main([str(two_runs[0]), "--task", "sst"])
    printed, said = capsys.readouterr()
    assert (code, said) == (0, "Type one row a line and end with Ctrl-D.\n") and printed.endswith(
        "\tfine\n"
    )


def test_rows_that_are_cut_are_counted(two_runs, predict):
    code, printed, said = predict("fine\n" + "very " * 200 + "bad\n", two_runs[0], "--task", "sst")
    assert code == 0 and len(printed.splitlines()) == 2
    assert said == "1 of 2 rows are longer than --max_length 128 and were cut to it\n"


def test_a_task_that_the_run_does_not_know_and_no_run(two_runs, tmp_path, predict):
    other = altered(
        two_runs[0],
        tmp_path / "run",
        lambda record: record["options"].update(tasks="sst,para", score="mean"),
    )
    assert (
        "was trained on sst,para; its head for STS never learned. Pass"
        in predict("a\tb", other, "--task", "sts")[2]
    )
    beside = predict("a\tb", two_runs[0], other, "--task", "sts")
    assert beside[:2] == (2, "") and f"{other} was trained on sst,para" in beside[2]
    assert predict("a", other, "--task", "sst")[0] == 0
    shutil.rmtree(other / "model")
    assert predict("a", other, "--task", "sst")[0] == 2
    assert ": no finished run there" in predict("a", tmp_path / "none", "--task", "sst")[2]
