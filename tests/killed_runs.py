"""Tiny runs that are started and stopped in processes of their own, and what differs between two.

tests/system/test_resume.py uses them for one run, and `python -m tools.benchmarks.kill_resume` for
many.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from data.examples import COURSE_FILES
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.tokenizer import SPECIAL_TOKENS
from tests.python_processes import Running

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"train": 64, "dev": 24, "test": 12}
TENSOR_FILES = ("encoder/model.safetensors", "model/model.safetensors", "model/heads.safetensors")
RECORD_KEYS = ("epochs", "best_step", "stages", "scores")

# A run of `start`, or one of tests.python_processes.
Process = subprocess.Popen[str] | Running

# Steps between two checkpoints.
SAVE_EVERY = 3


# --- a tiny run -----------------------------------------------------------------------------------


def cut_data(source: Path, folder: Path, rows: dict[str, int] = ROWS) -> Path:
    """Copy the first rows of each of the nine course files. Return `folder`.

    rows: number of rows by split. The header is copied, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for splits in COURSE_FILES.values():
        for split, name in splits.items():
            lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
            kept = lines[: rows[split] + 1]
            (folder / name).write_text("".join(kept), encoding="utf-8")
    return folder


def lines_of(folder: Path) -> Iterator[str]:
    """Yield the lines of all data files in a folder."""
    for path in sorted(folder.glob("*.csv")):
        yield from path.read_text(encoding="utf-8").splitlines()


def vocabulary_of(lines: Iterable[str], size: int) -> dict[str, int]:
    """A WordPiece vocabulary of the characters and the most frequent words of a text.

    A trained one breaks ties in no fixed order. With this one, the same trial of
    tools.reliability does the same in every workplace.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(re.findall(r"\w+|[^\w\s]", line.lower()))
    characters = sorted(set("".join(counts)))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    tokens = [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in characters)]
    # A character may be a word, too.
    tokens = list(dict.fromkeys([*tokens, *words]))[:size]
    return {token: number for number, token in enumerate(tokens)}


def write_tiny_model(folder: Path, data: Path) -> Path:
    """Write an encoder of random weights with 32 units and 2 layers. Return `folder`.

    Its vocabulary has the words of the files in `data`.
    """
    tokenizer = BertTokenizer(vocabulary_of(lines_of(data), size=400))
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    # The caller's random state stays as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def settings(model: Path, data: Path, output_dir: Path, stages: str = "simcse") -> list[str]:
    """Return the flags of a small run with a checkpoint every SAVE_EVERY steps.

    stages: as --pretrain. The tasks follow.
    """
    values = {
        "option": "finetune",
        "pretrain": stages,
        "model": model,
        "data_dir": data,
        "max_length": 48,
        "save_every": SAVE_EVERY,
        "epochs": 2,
        "batch_size": 8,
        "contrastive_batch_size": 16,
        "output_dir": output_dir,
        "name": "run",
    }
    flags = []
    for name, value in values.items():
        flags += [f"--{name}", str(value)]
    return flags


def start(*flags: str | Path) -> subprocess.Popen[str]:
    """Start run_multitask.py with `flags`, with its output in pipes.

    It has one thread. Matrices this small gain nothing from a second one, and beside other work it
    costs three times the seconds.
    """
    command = [sys.executable, "run_multitask.py", *map(str, flags)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Process) -> str:
    """Wait for a run that must succeed. Return what it printed."""
    output, errors = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode}:\n{output[-2000:]}\n{errors[-2000:]}")
    return output


# --- a run that is stopped ------------------------------------------------------------------------


def saved_step(folder: Path, stage: str) -> int:
    """Return the step of the stage's checkpoint, or -1 where there is none."""
    path = folder / "checkpoint" / stage / "state.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))["step"]
    except FileNotFoundError:
        return -1


def stop_when(
    process: Process,
    is_time: Callable[[], bool],
    number: int = signal.SIGKILL,
) -> bool:
    """Send the signal as soon as `is_time()`. Return False if the run ended before."""
    while process.poll() is None:
        if is_time():
            process.send_signal(number)
            return True
        time.sleep(0.001)
    return False


# --- the comparison -------------------------------------------------------------------------------


def differences(run: Path, other: Path) -> list[str]:
    """Return what differs between two finished runs.

    Tensors are compared by bits, leaderboard files by bytes, and scores exactly.
    """
    return [
        *tensor_differences(run, other),
        *file_differences(run / "predictions", other / "predictions"),
        *record_differences(run, other),
    ]


def tensor_differences(run: Path, other: Path) -> list[str]:
    """Return the tensors that differ in a bit."""
    differing = []
    for name in TENSOR_FILES:
        tensors = load_file(run / name)
        other_tensors = load_file(other / name)
        if tensors.keys() != other_tensors.keys():
            differing.append(f"{name}: other tensors")
            continue
        for key, tensor in tensors.items():
            # By bits: nan is equal to itself, and 0 differs from -0.
            if tensor.numpy().tobytes() != other_tensors[key].numpy().tobytes():
                differing.append(f"{name}: {key}")
    return differing


def file_differences(folder: Path, other: Path) -> list[str]:
    """Return the leaderboard files that differ in a byte."""
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 6, names
    differing = []
    for name in names:
        if (folder / name).read_bytes() != (other / name).read_bytes():
            differing.append(name)
    return differing


def read_record(run: Path) -> dict[str, Any]:
    """Return the run.json of a finished run."""
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def record_differences(run: Path, other: Path) -> list[str]:
    """Return the entries of run.json that differ."""
    record = read_record(run)
    other_record = read_record(other)
    return [f"run.json: {key}" for key in RECORD_KEYS if record[key] != other_record[key]]
