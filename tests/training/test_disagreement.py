"""Processes of one run that do not have the same options, inputs, weights or code.

Such processes would train one model all the same. Each of these ends before the first step.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch

import run_multitask
from minbert import BertModel
from minbert.pretraining import __main__ as pretraining
from minbert.training import code_version, processes
from tests.forked_processes import forked
from tests.plugins.loading import FILES
from tests.toy_text import LINES


def flags_of(out: Path) -> list[str]:
    """A short run on the data and the model in the working folder."""
    flags = ["--model", "model", "--data-dir", "data", "--output-dir", out, "--name", "run"]
    flags += ["--epochs", 1, "--batch-size", 32, "--device", "cpu", "--precision", "fp32"]
    return list(map(str, flags))


def with_inverted_labels(data: Path, model: Path) -> None:
    """PARA's training labels, turned round."""
    path = data / "quora-train.csv"
    header, *lines = path.read_text().splitlines()
    turned = []
    for line in lines:
        *fields, label = line.split("\t")
        turned.append("\t".join([*fields, str(1 - int(float(label)))]))
    path.write_text("\n".join([header, *turned]) + "\n")


def with_another_row(data: Path, model: Path) -> None:
    """SST's dev file without its last row."""
    path = data / "ids-sst-dev.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def with_other_weights(data: Path, model: Path) -> None:
    """The encoder with one number changed."""
    encoder = BertModel.from_pretrained(model)
    with torch.no_grad():
        encoder.embeddings.word.weight[7, 0] += 1e-3
    encoder.save_pretrained(model)


def with_other_words(data: Path, model: Path) -> None:
    """The vocabulary with two words exchanged."""
    path = model / "vocab.txt"
    words = path.read_text().splitlines()
    words[20], words[21] = words[21], words[20]
    path.write_text("\n".join(words) + "\n")


def nothing(data: Path, model: Path) -> None:
    """No change of files."""


# Of the second process: flags, a change of files, and what the message names.
KINDS: dict[str, tuple[list[str], Callable[[Path, Path], None], str]] = {
    "learning rate": (["--lr", "0.3"], nothing, "--lr than process 0: 0.3, not auto"),
    "batch size": (["--batch-size", "8"], nothing, "--batch_size than process 0: 8, not 32"),
    "epochs": (["--epochs", "3"], nothing, "--epochs than process 0: 3, not 1"),
    "seed": (["--seed", "5"], nothing, "--seed than process 0: 5, not 11711"),
    "stages": (["--pretrain", "mlm"], nothing, "--pretrain than process 0: mlm, not none"),
    "surgery": (
        ["--sampling", "joint", "--surgery", "pcgrad"],
        nothing,
        "--sampling than process 0: joint",
    ),
    "plugin": (
        ["--plugin", str(FILES["spread"]), "--sampling", "spread"],
        nothing,
        "--plugin than process 0: ",
    ),
    "labels": ([], with_inverted_labels, "quora-train.csv than process 0: "),
    "dev rows": ([], with_another_row, "ids-sst-dev.csv than process 0: "),
    "weights": ([], with_other_weights, "than process 0: "),
    "vocabulary": ([], with_other_words, "than process 0: "),
}


@pytest.fixture
def folders(tiny_model, sample_data, tmp_path) -> list[Path]:
    """The folder of each process, with data and a model of its own at the same relative paths."""
    made = [tmp_path / "first", tmp_path / "second"]
    for folder in made:
        shutil.copytree(sample_data, folder / "data")
        shutil.copytree(tiny_model, folder / "model")
    return made


def started_in(folder: Path, act: Callable[[], int]) -> Callable[[], int]:
    """The same function in another working folder."""

    def start() -> int:
        os.chdir(folder)
        return act()

    return start


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_disagrees_is_named(folders, tmp_path, kind):
    flags, change, words = KINDS[kind]
    common = flags_of(tmp_path / "runs")
    change(folders[1] / "data", folders[1] / "model")
    acts = [
        started_in(folders[0], lambda: run_multitask.main(common)),
        started_in(folders[1], lambda: run_multitask.main([*common, *flags])),
    ]
    for ended in forked(tmp_path, acts):
        assert ended.code == 2, ended.text
        assert "run_multitask.py: process 1 has another " in ended.text and words in ended.text
        assert "Start all processes with the same command, files and code." in ended.text
    assert not (tmp_path / "runs" / "run").exists()


def test_a_process_with_other_code_is_named(folders, tmp_path):
    common = flags_of(tmp_path / "runs")

    def with_other_code() -> int:
        code_version.code_version.cache_clear()
        with mock.patch.object(code_version, "digest_of", lambda *packages: "0" * 64):
            return run_multitask.main(common)

    acts = [lambda: run_multitask.main(common), with_other_code]
    both = [started_in(folder, act) for folder, act in zip(folders, acts, strict=True)]
    for ended in forked(tmp_path, both):
        assert ended.code == 2 and "process 1 has another code than process 0" in ended.text


def test_pretraining_on_another_text_is_named(folders, tmp_path):
    for folder, lines in zip(folders, (LINES, LINES[::-1]), strict=True):
        (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    flags = ["--corpus", "text.txt", "--size", "tiny", "--vocabulary", "minbert-mini"]
    flags += ["--tokens", "3840", "--batch-size", "6", "--block-size", "16"]
    flags += ["--precision", "fp32", "--device", "cpu", "--out", str(tmp_path / "out")]
    act = partial(pretraining.main, flags)
    for ended in forked(tmp_path, [started_in(folder, act) for folder in folders]):
        assert ended.code == 2 and "process 1 has another the corpus" not in ended.text
        assert "process 1 has another corpus than process 0: " in ended.text


def test_processes_that_agree_train(folders, tmp_path):
    """The control, in two folders with the same files."""
    act = partial(run_multitask.main, flags_of(tmp_path / "runs"))
    first, second = forked(tmp_path, [started_in(folder, act) for folder in folders])
    assert (first.code, second.code) == (0, 0), first.text + second.text
    assert (tmp_path / "runs" / "run" / "run.json").is_file()


def test_alone_nothing_is_compared(monkeypatch):
    """Not even the digest of the code is computed, which reads all files."""
    digests = []
    monkeypatch.setattr(processes, "code_version", lambda: digests.append("read"))
    processes.check_agreement({"--lr": 1})
    assert digests == []
