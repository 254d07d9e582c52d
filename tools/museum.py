"""A museum of mistakes: famous rows of tests/teaching/mistakes.toml, each trained as it is.

`python -m tools.museum --record` copies the clone for each mistake, writes the mistake into the
copy, and trains a short job there. The right code trains the same job with several seeds. They show
how far curves differ by chance, and so whether a reader could see the mistake in its curve.
docs/museum.md shows the curves and the scores.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.records import RECORDS
from minbert.commands.flags import Parser
from teaching.handout import ROOT, tracked
from tests.teaching.answers import FILE_OF
from tests.teaching.mistakes import MISTAKES, Mistake
from tools.benchmarks.recording import HELP, record_measurement

MUSEUM = RECORDS / "museum.jsonl"
SECONDS = 600  # a run that takes longer is stopped
NUM_WINDOWS = 15  # of a curve: the loss is the mean of the steps in each
RIGHT = "nothing"
SAME = "--device cpu --precision fp32 --formulas readable"  # flags of all runs

# The right code trains with these seeds. The last one is judged as if it were a mistake: it must
# not be seen.
SEEDS = (0, 1, 2, 3)


class Job(NamedTuple):
    """A short training, and the stage whose loss is shown."""

    flags: str
    stage: str
    title: str


JOBS = {
    "sst": Job("--train_rows sst=2880", "multitask", "five classes of SST"),
    "mlm": Job(
        "--train_rows sst=1440 --pretrain mlm --mlm_epochs 2 --mlm_lr 1e-3", "mlm", "masked tokens"
    ),
    "simcse": Job(
        "--train_rows sst=640 --pretrain simcse --contrastive_steps 45", "simcse", "SimCSE"
    ),
}


class Exhibit(NamedTuple):
    """A mistake of the table, and the job in which it is tried."""

    function: str
    cause: str
    job: str = "sst"


EXHIBITS = (
    Exhibit("attention", "no division"),
    Exhibit("attention", "softmax over the queries"),
    Exhibit("attention", "mask left out"),
    Exhibit("BertEmbeddings.forward", "no positions"),
    Exhibit("BertLayer.forward", "norm before"),
    Exhibit("AdamW.update", "no bias correction"),
    Exhibit("AdamW.update", "up the gradient"),
    Exhibit("AdamW.update", "decay in the gradient"),
    Exhibit("linear", "rises"),
    Exhibit("sentiment_loss", "softmax twice"),
    Exhibit("mask_tokens", "labels of all", "mlm"),
    Exhibit("info_nce", "no temperature", "simcse"),
)


def find_mistake(exhibit: Exhibit) -> Mistake:
    """The row of an exhibit in the table of mistakes. ValueError where the table lacks it."""
    for mistake in MISTAKES:
        if (mistake.function, mistake.cause) == (exhibit.function, exhibit.cause):
            return mistake
    raise ValueError(f"mistakes.toml has no row {exhibit.function}: {exhibit.cause}")


# --- one run --------------------------------------------------------------------------------------


def copy_clone(folder: Path) -> None:
    """Copy what git tracks and a run needs."""
    for name in tracked():
        if not name.startswith(("docs/", "tests/", "tools/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def train(job: Job, seed: int, clone: Path) -> dict[str, Any]:
    """Train a job with the code of a clone, on one thread. Returns its curve and its score."""
    with tempfile.TemporaryDirectory() as runs:
        flags = f"--tasks sst --epochs 1 {job.flags} --seed {seed} {SAME}"
        where = ["--output_dir", runs, "--name", "run"]
        subprocess.run(
            [sys.executable, "run_multitask.py", *flags.split(), *where],
            cwd=clone,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(clone)},
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=SECONDS,
        )
        folder = Path(runs, "run")
        with open(folder / "log.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["stage"] == job.stage]
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    losses = [float(row["loss"]) for row in rows]
    return {
        "flags": flags,
        "steps": len(losses),
        "losses": windows_of(losses),
        "accuracy": run["scores"]["sst"],
        "wall": round(run["actual"]["seconds"], 1),
    }


def windows_of(losses: Sequence[float]) -> list[float]:
    """The mean loss of each of NUM_WINDOWS equal parts of a run."""
    parts = np.array_split(np.array(losses), NUM_WINDOWS)
    return [round(float(part.mean()), 4) for part in parts]


def is_seen(losses: Sequence[float], right: Sequence[Sequence[float]]) -> bool:
    """Whether a curve leaves those of the right code.

    In a third of its windows, it must lie farther from their middle than twice the farthest of
    them. losses: (W,) right: (K, W), of K seeds.
    """
    curves = np.array(right)
    middle = (curves.max(axis=0) + curves.min(axis=0)) / 2  # (W,)
    reach = (curves.max(axis=0) - curves.min(axis=0)) / 2  # (W,)
    # A curve of nan is far from every other one.
    is_near = np.abs(np.array(losses) - middle) <= 2 * reach
    return bool((~is_near).mean() >= 1 / 3)


# --- the command ----------------------------------------------------------------------------------


def main() -> int:
    """Train the right code and each mistake, and print a row for each."""
    parser = Parser(prog="python -m tools.museum", description=__doc__)
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as clone:
        copy_clone(Path(clone))
        for name, job in JOBS.items():
            *right, last = [train(job, seed, Path(clone)) for seed in SEEDS]
            curves = [run["losses"] for run in right]
            show(Exhibit("", RIGHT, name), last, curves, arguments.record)
            for exhibit in EXHIBITS:
                if exhibit.job == name:
                    run = train_mistake(exhibit, Path(clone))
                    show(exhibit, run, curves, arguments.record)
    return 0


def train_mistake(exhibit: Exhibit, clone: Path) -> dict[str, Any]:
    """Train the job of an exhibit with its mistake in the clone, and take it back."""
    file = clone / FILE_OF[exhibit.function]
    right = file.read_text(encoding="utf-8")
    file.write_text(find_mistake(exhibit).file, encoding="utf-8")
    run = train(JOBS[exhibit.job], SEEDS[0], clone)
    file.write_text(right, encoding="utf-8")
    return run


def show(
    exhibit: Exhibit, run: dict[str, Any], right: list[list[float]], is_recorded: bool
) -> None:
    """Print an exhibit, and record it if asked for. right: the curves of the right code."""
    seen = is_seen(run["losses"], right)
    loss = run["losses"][-1]
    name = f"{exhibit.function}: {exhibit.cause}"
    print(f"{name}: loss {loss}, accuracy {run['accuracy']:.3f}, seen: {seen}", flush=True)
    if is_recorded:
        measured = {**exhibit._asdict(), **run, "right": right, "is_seen": seen}
        record_measurement(MUSEUM, measured)


if __name__ == "__main__":
    sys.exit(main())
