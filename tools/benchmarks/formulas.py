"""What does each fast branch of a formula save?

`python -m tools.benchmarks.formulas` trains or encodes with all fast branches, and with one of them
off, in turn. The unit is milliseconds a batch, and medians of rounds count. A branch that saves
less than 5 % on every machine should go (docs/formulas.md). --record keeps the result.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch

import minbert.dropout
import minbert.fast
import minbert.optimizer
from data.options import SAMPLE_FOLDER
from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.training import runtime
from tools.benchmarks import inference
from tools.benchmarks.comparison import versions
from tools.benchmarks.inputs import sst_examples, write_model
from tools.benchmarks.recording import HELP, record_measurement
from tools.benchmarks.settings import Execution
from tools.benchmarks.timing import Side, alternate
from tools.benchmarks.training_sides import TrainingData, our_side

BATCH_SIZE = 32
FINE_TUNING = "fine-tuning"
ENCODING = "encoding"
READABLE = SimpleNamespace(is_on=lambda: False)


class Branch(NamedTuple):
    """A fast branch, and the work that takes it.

    name: what decides in a file whether it is taken. off: the value that turns it off.
    """

    file: ModuleType
    training: str
    name: str = "fast"
    off: Any = READABLE


class Work(NamedTuple):
    """What is timed: a side, the parts of a round, and the batches in all of them."""

    side: Side
    num_parts: int
    num_batches: int


BRANCHES = {
    "dropout": Branch(minbert.dropout, FINE_TUNING),
    "AdamW": Branch(minbert.optimizer, FINE_TUNING),
    "attention of short rows": Branch(minbert.fast, ENCODING, "SHORT_ROW", 0),
}


@contextmanager
def without(branch: Branch) -> Iterator[None]:
    """Take the readable branch of one lesson file in a block."""
    before = getattr(branch.file, branch.name)
    setattr(branch.file, branch.name, branch.off)
    try:
        yield
    finally:
        setattr(branch.file, branch.name, before)


def works(place: Path, precision: str, num_steps: int) -> dict[str, Callable[[], Work]]:
    """What takes the branches, by its name. place: of the model, beside which files are written."""
    examples = sst_examples(str(SAMPLE_FOLDER), num_steps * BATCH_SIZE)
    execution = Execution(torch.device("cpu"), precision)

    def train() -> Work:
        data = TrainingData(place, examples, BATCH_SIZE)
        side = our_side(data, place.with_name("run"), execution)
        return Work(side, num_steps, num_steps)

    def encode() -> Work:
        folder = inference.write_export(place, place.with_name(f"{place.name}-export"))
        sentences = [example.sentence_1 for example in examples]
        side = inference.our_side(folder, sentences, BATCH_SIZE, execution)
        return Work(side, 1, num_steps)

    # In fp32 no branch is taken.
    return {FINE_TUNING: train, ENCODING: encode} if precision == "bf16" else {FINE_TUNING: train}


def measure(
    model: str,
    precision: str,
    num_rounds: int,
    num_steps: int,
    folder: Path,
    branches: Sequence[str] = tuple(BRANCHES),
) -> list[dict[str, Any]]:
    """Time the branches on one encoder in one precision."""
    place = folder / f"{model}-{precision}"
    write_model(model, place)
    measured = []
    for training, begin in works(place, precision, num_steps).items():
        names = [name for name in branches if BRANCHES[name].training == training]
        if not names:
            continue
        work = begin()
        sides = {"all": work.side}
        for name in names:
            sides[name] = switched_off(work.side, BRANCHES[name])
        seconds = alternate(sides, num_rounds, work.num_parts)
        whole = statistics.median(seconds["all"])
        for name in names:
            pairs = zip(seconds[name], seconds["all"], strict=True)
            saved = sorted(1 - fast / readable for readable, fast in pairs)
            line = {
                "model": model,
                "precision": precision,
                "branch": name,
                "training": training,
                "milliseconds": 1e3 * whole / work.num_batches,
                "saved": statistics.median(saved),
                "least": saved[0],
                "most": saved[-1],
                "rounds": num_rounds,
            }
            measured.append(line)
            print(line)
    return measured


def switched_off(step: Side, branch: Branch) -> Side:
    """A step that takes the readable branch of one lesson file."""

    def run_part(part: int) -> None:
        with without(branch):
            step(part)

    return run_part


@exit_code("python -m tools.benchmarks.formulas")
def main(argv: Sequence[str] | None = None) -> None:
    """Run the measurement."""
    assert __doc__ is not None
    parser = Parser(prog="python -m tools.benchmarks.formulas", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["minilm", "minbert-mini-distilled"])
    parser.add_argument("--branches", nargs="+", choices=list(BRANCHES), default=list(BRANCHES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)
    precisions = ["fp32"]
    if runtime.is_native("bf16", torch.device("cpu")):
        precisions.append("bf16")
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            for precision in precisions:
                lines = measure(
                    model,
                    precision,
                    arguments.rounds,
                    arguments.steps,
                    Path(folder),
                    arguments.branches,
                )
                for line in lines:
                    if arguments.record:
                        line["versions"] = versions()
                        record_measurement(RECORDS / "formulas.jsonl", line)


if __name__ == "__main__":
    sys.exit(main())
