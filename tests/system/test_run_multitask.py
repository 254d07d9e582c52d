"""The one command and bad input: its message, its exit code, and that it leaves nothing behind.

Every test runs `main` in this process, with a tiny model and a dozen rows in each file.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

import run_multitask
from data.examples import COURSE_FILES
from data.options import DataOptions
from minbert.commands.ending import this_python
from minbert.commands.files import write_atomically
from minbert.commands.optional import install_command
from minbert.training import cost_estimate
from minbert.training.loop import Loop
from minbert.training.options import TrainingOptions
from minbert.training.stage import encoders_beside
from multitask import results, run_report
from multitask.run_data import RunData

NUM_ROWS = 12


class Result(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    message: str  # on standard error


@dataclass
class Command:
    """The command with copied files in `folder`: data/, tiny/ (the model) and runs/."""

    folder: Path
    capsys: pytest.CaptureFixture

    def path(self, name: str) -> Path:
        """The path of a data file."""
        return self.folder / "data" / name

    def run(self, *flags: str) -> Result:
        try:
            code = run_multitask.main(list(flags))
        except SystemExit as error:  # argparse ends so
            code = error.code
        output, message = self.capsys.readouterr()
        return Result(code, output, message)

    def train(self, *flags: str) -> Result:
        """A short run called "mine"; `flags` win over those here."""
        defaults = []
        for flag, name in (("--model", "tiny"), ("--data-dir", "data"), ("--output-dir", "runs")):
            if flag not in flags:
                defaults += [flag, str(self.folder / name)]
        defaults += ["--name", "mine", "--epochs", "2", "--precision", "fp32"]
        return self.run(*defaults, *flags)

    def resume(self) -> Result:
        return self.run("--resume", str(self.folder / "runs" / "mine"))

    def stored(self) -> dict[str, bytes]:
        """All files of all runs."""
        runs = self.folder / "runs"
        files = {}
        for path in runs.rglob("*"):
            if path.is_file():
                files[str(path.relative_to(runs))] = path.read_bytes()
        return files

    def replace_line(self, name: str, number: int, line: bytes) -> None:
        lines = self.path(name).read_bytes().splitlines(keepends=True)
        lines[number - 1] = line
        self.path(name).write_bytes(b"".join(lines))


@pytest.fixture
def command(tmp_path, tiny_model, cut_sample, capsys):
    cut_sample(tmp_path / "data", NUM_ROWS)
    shutil.copytree(tiny_model, tmp_path / "tiny")
    return Command(tmp_path, capsys)


def assert_refused(command: Command, result: Result, *words: str) -> None:
    """Exit code 2, all words on standard error, no traceback, and no folder of any run."""
    assert result.code == 2 and "Traceback" not in result.message, result.message
    for part in words:
        assert part in result.message
    assert not (command.folder / "runs").exists()


# --- packages that are not installed --------------------------------------------------------------


def test_tensorboard_is_refused_where_it_is_not_installed(command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = command.train("--tensorboard")
    advice = f"`{install_command(['tensorboard'], '--plots')}`"
    assert_refused(command, result, "tensorboard is not installed", advice)
    assert result.output == "", "some work was done before"


# --- parts that are left out ----------------------------------------------------------------------


def test_parts_that_are_left_out_change_no_weight_and_no_score(command, monkeypatch):
    """A run of another name has them all. A resumed run leaves them out, too."""
    assert command.train("--name", "whole", "--epochs", "1").code == 0
    monkeypatch.setattr(cost_estimate, "probe", lambda job: pytest.fail("an estimate was made"))
    result = command.train("--skip", "estimate,baselines,test", "--epochs", "1")
    folder = command.folder / "runs" / "mine"
    for _ in range(2):
        assert result.code == 0, result.message
        assert "left out by --skip: estimate, baselines, test" in result.output
        assert "TF-IDF" not in result.output and "predicted" not in result.output
        assert len(list((folder / "predictions").iterdir())) == 3
        whole, mine = (
            json.loads((command.folder / "runs" / name / "run.json").read_text())
            for name in ("whole", "mine")
        )
        assert mine["baselines"] == mine["against_tfidf"] == {} and mine["predicted"] == []
        for key in ("scores", "epochs", "intervals"):
            assert whole[key] == mine[key]
        weights = Path("model") / "model.safetensors"
        assert (folder.parent / "whole" / weights).read_bytes() == (folder / weights).read_bytes()
        # Killed before its last file: it trains nothing, and writes all of it again.
        (folder / "run.json").unlink()
        result = command.resume()


# --- data -----------------------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line of a file, what stands there instead, and words of the message."""

    file: str
    number: int
    content: bytes
    words: str


SST_ROW = b"3\ta1b2c3\t A fine film .\t%s\n"
BAD_LINES = {
    "label that is not a number": BadLine(
        "ids-sst-train.csv", 5, SST_ROW % b"n/a", "label 'n/a' is not a number; SST"
    ),
    "label out of range": BadLine(
        "ids-sst-dev.csv", 5, SST_ROW % b"7", "label '7' is not allowed; SST labels are whole"
    ),
    "row short of fields": BadLine(
        "sts-train.csv", 4, b"2\tabc\tOne.\n", "the row has 3 fields; the header names 5"
    ),
    "not UTF-8": BadLine(
        "quora-dev.csv",
        6,
        # One word in UTF-8 and one in Windows-1252: the file is in neither.
        b"4\tabc\tCaf\xc3\xa9 caf\xe9?\tWhy?\t1.0\n",
        "the row holds bytes that are not UTF-8",
    ),
    "id with a comma": BadLine(
        "sts-dev.csv", 3, b"1\ta,b\tOne.\tTwo.\t1.0\n", "the id 'a,b' holds a comma"
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_row(command, name):
    bad = BAD_LINES[name]
    command.replace_line(bad.file, bad.number, bad.content)
    place = f"{command.path(bad.file)}, line {bad.number}: "
    advice = "Fix the row, or pass --drop-bad-rows to skip and count such rows."
    assert_refused(command, command.train(), place, bad.words, advice)


def test_duplicate_ids(command):
    path = command.path("sts-dev.csv")
    lines = path.read_bytes().splitlines(keepends=True)
    command.replace_line("sts-dev.csv", 9, lines[3])
    row_id = lines[3].split(b"\t")[1].decode()
    words = f"{path}, line 9: the id {row_id} stands on line 4 already"
    assert_refused(command, command.train(), words, "Fix the row")


def test_bad_rows_are_dropped_and_counted_where_that_is_asked_for(command):
    command.replace_line("ids-sst-train.csv", 5, SST_ROW % b"n/a")
    code, output, message = command.train("--drop-bad-rows")
    assert code == 0, message
    words = f"{NUM_ROWS} rows read, 1 dropped (line 5, id a1b2c3: label 'n/a' is not a number"
    assert words in output


def test_a_row_of_a_test_file_is_never_dropped(command):
    command.replace_line("sts-test-student.csv", 3, b"1\tabc\tOnly one sentence\n")
    place = f"{command.path('sts-test-student.csv')}, line 3: the row has 3 fields"
    result = command.train("--drop-bad-rows")
    assert_refused(command, result, place, "each row of a file without")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            None,
            (
                "there is no such file. Check the path or --data-dir, or resume where",
                "`python -m data.download --out",
            ),
        ),
        (b"", ("the file is empty; expected are a header and at least one row. Restore the file",)),
        (
            b"\tid\tsentence1\tsentence2\tis_duplicate\n",
            ("a header and no usable rows (0 dropped)",),
        ),
        (
            b"\tid\tsentence1\tsentence2\tlabel\n0\ta1\tOne?\tTwo?\t1.0\n",
            (
                ", line 1: the header has no column is_duplicate; found are: ",
                "id, sentence1, sentence2, label.",
                "Fix the head",
            ),
        ),
    ],
)
def test_bad_file(command, content, words):
    path = command.path("quora-train.csv")
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert_refused(command, command.train(), str(path), *words)


def test_a_missing_folder_of_data(command):
    result = command.train("--data-dir", "nowhere")
    assert_refused(command, result, "ids-sst-train.csv: there is no such file.")


# --- models ---------------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def reshape_a_weight(path: Path) -> None:
    tensors = load_file(path)
    tensors["pooler.dense.weight"] = torch.zeros(32, 31)
    save_file(tensors, path)


def add_tokens(path: Path) -> None:
    path.write_text(path.read_text() + "".join(f"more{number}\n" for number in range(9)))


class BadFile(NamedTuple):
    """A file of a model folder, what happens to it, and words of the message."""

    file: str
    spoil: Callable[[Path], object]
    words: tuple[str, ...]


BAD_MODELS = {
    "no config.json": BadFile(
        "config.json",
        Path.unlink,
        ("tiny: no config.json in it; a model folder", "It holds model.safetensors (PyTorch)."),
    ),
    "config.json not JSON": BadFile(
        "config.json",
        cut_short,
        ("config.json: not valid JSON", "fetch the model again"),
    ),
    "no vocab.txt": BadFile(
        "vocab.txt",
        Path.unlink,
        ("tiny: no vocab.txt in it, and no tokenizer.json; one must hold the WordPiece",),
    ),
    "vocab.txt beyond the embeddings": BadFile(
        "vocab.txt",
        add_tokens,
        ("config.json has vocab_size", "do not belong"),
    ),
    "no weights": BadFile(
        "model.safetensors",
        Path.unlink,
        ("tiny: neither model.safetensors nor pytorch_model.bin in it",),
    ),
    "truncated weights": BadFile(
        "model.safetensors",
        cut_short,
        ("model.safetensors: cannot be read (", "Fetch it again."),
    ),
    "weight of another shape": BadFile(
        "model.safetensors",
        reshape_a_weight,
        (
            "'pooler.dense.weight' has shape (32, 31); config.json asks for (32, 32).",
            "do not belong together",
        ),
    ),
    "another pooling": BadFile(
        "sentence.json",
        lambda path: path.write_text('{"pooling": "cls"}'),
        (
            "this encoder was trained with --pooling cls; asked for is mean",
            "Pass --pooling cls, or start from another",
        ),
    ),
    "no pooling": BadFile(
        "sentence.json",
        lambda path: path.write_text("{}"),
        ("sentence.json: names no pooling", "Delete"),
    ),
    "tokenizer settings": BadFile(
        "tokenizer_config.json",
        cut_short,
        ("tiny/tokenizer_config.json: not JSON", "Fetch the model again."),
    ),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_model(command, name):
    bad = BAD_MODELS[name]
    folder = command.folder / "tiny"
    bad.spoil(folder / bad.file)
    assert_refused(command, command.train(), str(folder), *bad.words)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("./nowhere", ["./nowhere: no such folder. Give 'minbert-mini'"]),
        (
            "no-such-model",
            [
                "no-such-model: not a folder here, and not complete in the Hugging Face cache",
                "HF_HUB_OFFLINE is set",
            ],
        ),
    ],
)
def test_a_model_that_is_nowhere(command, model, words):
    assert_refused(command, command.train("--model", model), *words)


@pytest.mark.parametrize(
    "line", ["--max_length 129", "--pretrain simcse --contrastive_max_length 129"]
)
def test_more_tokens_than_positions(command, line):
    flags = line.split()
    model = command.folder / "tiny"
    words = f"{flags[-2]} is 129; {model} has 128 positions. Pass at most that."
    assert_refused(command, command.train(*flags), words)


def test_the_default_length_of_a_model_with_fewer_positions(command, short_model):
    """The run trains, stores the length that it used, and can be resumed with it."""
    result = command.train("--model", str(short_model), "--epochs", "1")
    assert result.code == 0, result.message
    reason = "the model has 64 positions, fewer than the default of 128"
    assert f"max_length: 64 ({reason})" in result.output
    stored = json.loads((command.folder / "runs" / "mine" / "options.json").read_text())
    assert stored["options"]["max_length"] == 64

    words = f"--max_length is 65; {short_model} has 64 positions. Pass at most that."
    result = command.train("--model", str(short_model), "--max_length", "65", "--name", "other")
    assert result.code == 2 and words in result.message


def test_training_says_which_modules_it_leaves_out(command):
    """A folder of sentence-transformers with a Dense, whose vectors are not the encoder's."""
    kinds = ["Transformer", "Pooling", "Dense"]
    modules = []
    for number, kind in enumerate(kinds):
        modules.append({"idx": number, "path": "", "type": f"sentence_transformers.models.{kind}"})
    (command.folder / "tiny" / "modules.json").write_text(json.dumps(modules))
    result = command.train("--max_length", "129")
    assert "This run trains its encoder alone and leaves out the module Dense" in result.output


# --- flags and places -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--epoch 3", "unknown flag --epoch; did you mean --epochs?"),
        (
            "--use_gpu --device cpu",
            "--use_gpu asks for cuda and --device for cpu; pass only one of them.",
        ),
    ],
)
def test_flags(command, line, words):
    """The other refusals are in tests/command_line."""
    assert_refused(command, command.train(*line.split()), words)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("flags", [["--device", "cuda"], ["--use_gpu"]])
def test_a_gpu_where_none_is(command, flags):
    words = ("--device cuda: torch", "finds no such device", "Use --device au")
    assert_refused(command, command.train(*flags), *words)


IN_THE_WAY = ("cannot be written, because", "file is a file. Choose another folder.")
IS_A_FOLDER = ("data: a folder stands where a file is to be written. Choose another path.",)


@pytest.mark.parametrize(
    ("flag", "path", "words"),
    [
        ("--output-dir", "file/runs", IN_THE_WAY),
        ("--sst_dev_out", "file/out.csv", IN_THE_WAY),
        ("--sts_test_out", "data", IS_A_FOLDER),
    ],
)
def test_a_place_that_cannot_be_written(command, flag, path, words):
    (command.folder / "file").write_text("in the way")
    assert_refused(command, command.train(flag, str(command.folder / path)), *words)
    assert (command.folder / "file").read_text() == "in the way"


def test_a_disk_with_too_little_space(command, monkeypatch):
    usage = shutil.disk_usage(command.folder)
    full = usage._replace(free=1000)
    monkeypatch.setattr(cost_estimate.shutil, "disk_usage", lambda path: full)
    words = (
        "0 MB free on its disk; this run needs ",
        " MB for checkpoints and results. Free some space, or choose a ",
    )
    assert_refused(command, command.train(), *words)


# --- runs that have begun -------------------------------------------------------------------------


def test_a_name_in_use_and_a_finished_run(command):
    assert command.train().code == 0
    before = command.stored()
    assert "mine exists. Pass --resume" in command.train().message
    code, output, _ = command.resume()
    assert code == 0 and "is finished, there is nothing to resume; its scores are in" in output
    assert command.stored() == before


@pytest.mark.parametrize("rows", ["none", "sst=4"])
def test_dev_files_with_fewer_rows_are_no_hand_in(capsys, rows):
    run = SimpleNamespace(
        folder=Path("runs"),
        data=RunData(DataOptions(dev_rows=rows), [], {}, {}, {}, {}),
        models=SimpleNamespace(tasks_alone=[]),
        training=TrainingOptions(),
    )
    results.print_places(run)
    printed = capsys.readouterr().out
    assert ("hold only the rows of --dev_rows sst=4. To hand in" in printed) == (rows != "none")


def test_the_link_to_the_newest_run_is_taken_as_its_folder(command):
    assert command.train("--name", "older").code == 0
    assert command.train().code == 0
    runs = command.folder / "runs"
    assert os.readlink(runs / "latest") == "mine"
    output = command.run("--resume", str(runs / "latest")).output
    assert f"{runs / 'mine'} is finished, there is nothing to resume" in output
    refusal = command.train("--name", "latest").message
    assert "--name is 'latest', the link to the newest run; pass another name." in refusal


def test_the_stages_of_a_run_are_offered_once_although_a_link_names_it_too(tmp_path):
    (tmp_path / "older" / "encoder-mlm").mkdir(parents=True)
    (tmp_path / "latest").symlink_to("older")
    found = encoders_beside(tmp_path / "new")
    assert found == [tmp_path / "older" / "encoder-mlm"]


@pytest.mark.parametrize("num_writes", [2, 5, 6, 8, 13, 19])
def test_a_full_disk_while_saving(command, monkeypatch, num_writes):
    """At the step log, the first checkpoint, inside it, later, at a leaderboard file, at the model.

    With space again it resumes to the same results.
    """
    assert command.train("--name", "undisturbed").code == 0
    flush = os.fsync
    written = []

    def flush_or_fail(descriptor: int) -> None:
        if len(written) == num_writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(flush(descriptor))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", flush_or_fail)
        code, _, message = command.train()
    stored = command.stored()
    assert code == 2
    assert "the disk is full. Free some space, then run again or resume; what stood" in message
    assert str(command.folder / "runs" / "mine") in message
    assert not any(name.endswith(".writing") for name in stored)
    assert "mine/run.json" not in stored

    assert command.resume().code == 0
    stored = command.stored()
    results = []
    for name in stored:
        # The step log holds the seconds of each run.
        is_result = name.endswith((".csv", ".safetensors")) and not name.endswith("log.csv")
        if name.startswith("undisturbed") and is_result:
            results.append(name)
    assert len(results) == 8
    for name in results:
        assert stored[name] == stored[name.replace("undisturbed", "mine")]


def stop(*_) -> None:
    raise KeyboardInterrupt


def test_changed_data_on_resume(command, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "save", stop)
        code, _, message = command.train()
    folder = command.folder / "runs" / "mine"
    advice = f"Continue with: {this_python()} run_multitask.py --resume {folder}"
    assert code == 130 and advice in message

    before = command.stored()
    path = command.path("sts-dev.csv")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"A ", b"The ", 1))
    code, _, message = command.resume()
    words = f"{path} has changed since the run began. Restore it, or start a new run"
    assert code == 2 and words in message
    assert command.stored() == before

    path.write_bytes(content)
    # A kill can come before the link is made. The resumed run makes it.
    latest = folder.with_name("latest")
    latest.unlink()
    assert command.resume().code == 0
    assert os.readlink(latest) == "mine"


def test_stopped_while_the_report_is_written(command, monkeypatch):
    """The record is the last file, so the run is not finished. It trains nothing again."""
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_report", stop)
        assert command.train().code == 130
    folder = command.folder / "runs" / "mine"
    predictions = {path.name: path.read_bytes() for path in (folder / "predictions").iterdir()}
    assert len(predictions) == 6 and not (folder / "run.json").exists()
    written = []
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_report", lambda *_: written.append("again") or [])
        patch.setattr(Loop, "train_step", stop)
        assert command.resume().code == 0
    assert written == ["again"] and (folder / "run.json").is_file()
    for name, content in predictions.items():
        assert (folder / "predictions" / name).read_bytes() == content


def test_a_disk_that_fails_while_the_report_is_written(command, _no_reports, monkeypatch):
    """Its message says "resume", so a resumed run must write the report."""
    disk = SimpleNamespace(is_well=False)

    def write(path: Path) -> None:
        if not disk.is_well:
            raise OSError(errno.EIO, "Input/output error")
        path.touch()

    def write_report(run: run_report.ReportedRun) -> None:
        write_atomically(run.folder / "report.html", write)

    monkeypatch.setattr(results, "write_report", _no_reports)
    monkeypatch.setattr(run_report, "write_report", write_report)
    code, _, message = command.train()
    folder = command.folder / "runs" / "mine"
    assert code == 2 and "then run again or resume" in message
    assert not (folder / "run.json").exists()
    disk.is_well = True
    assert command.resume().code == 0
    assert (folder / "report.html").is_file() and (folder / "run.json").is_file()


def test_interrupted_before_anything_was_written(command, monkeypatch):
    monkeypatch.setattr(cost_estimate, "probe", stop)
    code, _, message = command.train()
    assert code == 130 and "Nothing was written yet." in message and not command.stored()


@pytest.mark.parametrize("save_every", ["1", "200"])
def test_a_loss_that_is_not_finite(command, save_every):
    code, _, message = command.train("--lr", "1e30", "--warmup", "0", "--save_every", save_every)
    assert code == 1 and "Traceback" not in message
    assert "multitask: the loss is nan at step 2 of 6. Batch: " in message
    task, ids = message.split("Batch: ")[1].split(". Last")[0].split(": ")
    rows = command.path(COURSE_FILES[task]["train"]).read_text()
    assert len(ids.split(", ")) == NUM_ROWS
    assert all(row_id in rows for row_id in ids.split(", "))
    folder = command.folder / "runs" / "mine" / "checkpoint" / "multitask"
    last = f"{folder} (step 1)" if save_every == "1" else "none yet"
    assert f"Last good checkpoint: {last}. Lower this stage's learning rate (--lr, " in message
