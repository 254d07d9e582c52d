"""The commands that trials disturb, what they leave on the disk, and how they are continued."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.killed_runs import RECORD_KEYS, TENSOR_FILES, read_record
from tools.reliability.children import Call

TEXT = b"a good film\nthe worst film\nthe man plays a guitar\n"
# A page with a table that is out of date.
PAGE = """# A page

<!-- table kill-resume: begin, written by python -m tools.tables -->
nothing
<!-- table kill-resume: end -->

The last line.
"""
# Pretraining also leaves times and pictures, which differ from run to run.
PRETRAINING_FILES = ("model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json")


class Target(NamedTuple):
    """A command that a trial disturbs.

    arguments: `{}` stands for the folder of the trial. text: standard input. is_training: whether
    it leaves a run that can be resumed.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    text: bytes = b""
    is_training: bool = False


class Places(NamedTuple):
    """The files that all targets read, and never change."""

    data: Path
    model: Path
    corpus: Path
    first: Path  # a finished run
    second: Path


def training(places: Places, stages: str, *flags: str, output: str = "{}") -> tuple[str, ...]:
    """The arguments of a tiny training run, whose folder is `output`/run.

    stages: as --pretrain.
    """
    values: dict[str, Any] = {
        "option": "finetune",
        "model": places.model,
        "data_dir": places.data,
        "max_length": 32,
        "epochs": 1,
        "batch_size": 8,
        "save_every": 2,
        "precision": "fp32",
        "token_cache": "none",
        "output_dir": output,
        "name": "run",
        "pretrain": stages,
    }
    if stages == "distill":
        values |= {"teacher": places.model, "contrastive_epochs": 1}
    if stages not in ("mlm", "none"):
        values["contrastive_batch_size"] = 16
    words: list[str] = []
    for name, value in values.items():
        words += [f"--{name}", str(value)]
    return (*words, *flags)


def pretraining(places: Places) -> tuple[str, ...]:
    """The arguments of a tiny run of minbert.pretraining."""
    values: dict[str, Any] = {
        "corpus": places.corpus,
        "out": "{}/run",
        "size": "tiny",
        "vocabulary": places.model,
        "tokens": 800,
        "batch-size": 8,
        "block-size": 32,
        "precision": "fp32",
    }
    words: list[str] = []
    for name, value in values.items():
        words += [f"--{name}", str(value)]
    return tuple(words)


def make_targets(places: Places) -> list[Target]:
    """All commands that are disturbed. Training comes first, with every kind of stage."""
    first = str(places.first)
    second = str(places.second)
    run = "run_multitask"
    rows = (first, "--task", "sst", "--out", "{}/rows.csv")
    vectors = (f"{first}/model", "--out", "{}/vectors.npy")
    model = (first, "--task", "sst", "--out", "{}/exported")
    return [
        Target("mlm, simcse, multitask", run, training(places, "mlm,simcse"), is_training=True),
        Target("distill, multitask", run, training(places, "distill"), is_training=True),
        Target("pretraining", "minbert.pretraining", pretraining(places), is_training=True),
        Target("predict", "multitask.predict", rows, TEXT),
        Target("errors", "multitask.errors", (first, "--out", "{}/errors")),
        Target("ensemble", "multitask.ensemble", (first, second, "--out", "{}/joined")),
        Target("embed", "contrastive.embed", vectors, TEXT),
        Target("export", "multitask.export", model),
        Target("embed --export", "contrastive.embed", (f"{first}/model", "--export", "{}/folder")),
        Target("pages", "tools.tables", ()),
    ]


def prepare(target: Target, folder: Path) -> None:
    """Make a trial's folder, with what the target reads there."""
    folder.mkdir(parents=True, exist_ok=True)
    if target.name == "pages":
        (folder / "README.md").write_text(PAGE, encoding="utf-8")


def call_of(target: Target, folder: Path) -> Call:
    """The first call of a target, which writes into a folder."""
    arguments = [text.replace("{}", str(folder)) for text in target.arguments]
    before = use_pages_of(folder) if target.name == "pages" else None
    return Call(target.module, arguments, before, target.text)


def call_again(target: Target, folder: Path) -> Call:
    """The call that continues a target: it resumes a run that has begun, or starts again."""
    run = folder / "run"
    if target.is_training and (run / "options.json").is_file():
        return Call(target.module, ["--resume", str(run)])
    return call_of(target, folder)


def use_pages_of(folder: Path) -> Callable[[], None]:
    """Let the command for pages work on another folder than the clone."""

    def before() -> None:
        from tools.tables import __main__ as pages

        pages.ROOT = folder

    return before


# --- what a target leaves -------------------------------------------------------------------------


def facts_of(target: Target, folder: Path, output: str = "") -> dict[str, str]:
    """What a target has left, as digests by name, without times.

    The names of all files are there, so a file that is left over shows. output: what a command has
    printed that is no training.
    """
    facts = {}
    for name in file_names(folder):
        # A log of TensorBoard has the time and the process in its name.
        if "/tensorboard/" not in name:
            facts[name] = "is there"
    if target.name == "pretraining":
        files = [folder / "run" / name for name in PRETRAINING_FILES]
    elif target.is_training:
        files = [folder / "run" / name for name in TENSOR_FILES]
        files += sorted((folder / "run" / "predictions").iterdir())
        record = read_record(folder / "run")
        facts |= {f"run.json: {key}": str(record[key]) for key in RECORD_KEYS}
    else:
        files = [folder / name for name in file_names(folder)]
        # Pages that are up to date already are not named again.
        if target.name != "pages":
            facts["output"] = output.replace(str(folder), "")
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        facts[str(path.relative_to(folder))] = digest
    return facts


def file_names(folder: Path) -> list[str]:
    """The names of all files and links below a folder."""
    names = []
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in [*files, *links]:
            names.append(os.path.relpath(os.path.join(parent, name), folder))
    return sorted(names)


def differences(expected: dict[str, str], facts: dict[str, str]) -> str:
    """What a target has left otherwise than without a fault, in words; "" if nothing."""
    parts = []
    for name in sorted({*expected, *facts}):
        if name not in facts:
            parts.append(f"{name} is missing")
        elif name not in expected:
            parts.append(f"{name} is left over")
        elif facts[name] != expected[name]:
            parts.append(f"{name} differs")
    return "; ".join(parts)
