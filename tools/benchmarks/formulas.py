"""What does each fast branch of a formula save?

`python -m tools.benchmarks.formulas` trains or encodes with all fast branches, and with one of them
off, in turn. The unit is milliseconds a batch, and medians of rounds count. A branch that saves
less than 5 % on every machine should go (docs/formulas.md). --record keeps the result.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

import minbert.dropout
import minbert.fast
import minbert.linear
import minbert.optimizer
from data.options import SAMPLE_FOLDER
from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.linear import Linear, PackedWeight, has_onednn
from minbert.options import FP32_ONEDNN
from minbert.training import batch_outputs, runtime
from tools.benchmarks import inference
from tools.benchmarks.inputs import sst_examples, write_model
from tools.benchmarks.recording import HELP, record_measurement
from tools.benchmarks.settings import Execution
from tools.benchmarks.timing import Side, alternate
from tools.benchmarks.training_sides import TrainingData, our_side

BATCH_SIZE = 32
FINE_TUNING = "fine-tuning"
ENCODING = "encoding"
READABLE = SimpleNamespace(is_on=lambda: False)


def takes_torch(inputs: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies them: never, so torch does."""
    return False


def takes_plain_weight(packed: PackedWeight, layer: Linear, inputs: Tensor) -> bool:
    """Whether a packed weight is used: never. Autocast still converts the weights only once."""
    return False


class Branch(NamedTuple):
    """A fast branch, and the work that takes it.

    name: what decides in a file or class whether it is taken. off: the value that turns it off.
    precisions: in which it is taken.
    """

    place: ModuleType | type
    training: str
    name: str = "fast"
    off: Any = READABLE
    precisions: tuple[str, ...] = ("fp32", "bf16")


class Work(NamedTuple):
    """What is timed: a side, and the parts of a round."""

    side: Side
    num_parts: int


def suits_no_threads(model: torch.nn.Module) -> bool:
    """Whether two batches run at the same time: never."""
    return False


BRANCHES = {
    "dropout": Branch(minbert.dropout, FINE_TUNING),
    "AdamW": Branch(minbert.optimizer, FINE_TUNING),
    "attention of short rows": Branch(minbert.fast, ENCODING, "SHORT_ROW", 0, ("bf16",)),
    "two batches at a time": Branch(
        batch_outputs,
        ENCODING,
        "suits_threads",
        suits_no_threads,
        ("fp32", "int8", "bf16", FP32_ONEDNN),
    ),
    "weights packed once": Branch(
        PackedWeight, ENCODING, "suits", takes_plain_weight, ("bf16", FP32_ONEDNN)
    ),
    "training by oneDNN": Branch(
        minbert.linear, FINE_TUNING, "suits_onednn", takes_torch, (FP32_ONEDNN,)
    ),
    "encoding by oneDNN": Branch(
        minbert.linear, ENCODING, "suits_onednn", takes_torch, (FP32_ONEDNN,)
    ),
}


@contextmanager
def without(branch: Branch) -> Iterator[None]:
    """Take the readable branch of one lesson file in a block."""
    before = getattr(branch.place, branch.name)
    setattr(branch.place, branch.name, branch.off)
    try:
        yield
    finally:
        setattr(branch.place, branch.name, before)


def works(place: Path, precision: str, num_steps: int) -> dict[str, Callable[[], Work]]:
    """What takes the branches, by its name. place: of the model, beside which files are written."""
    examples = sst_examples(str(SAMPLE_FOLDER), num_steps * BATCH_SIZE)
    execution = Execution(torch.device("cpu"), precision)

    def train() -> Work:
        data = TrainingData(place, examples, BATCH_SIZE)
        side = our_side(data, place.with_name("run"), execution)
        return Work(side, num_steps)

    def encode() -> Work:
        folder = inference.write_export(place, place.with_name(f"{place.name}-export"))
        sentences = [example.sentence_1 for example in examples]
        side = inference.our_side(folder, sentences, BATCH_SIZE, execution)
        return Work(side, 1)

    return {FINE_TUNING: train, ENCODING: encode}


def measure(
    model: str,
    precision: str,
    num_rounds: int,
    num_steps: int,
    folder: Path,
    branches: Sequence[str] = tuple(BRANCHES),
    clock: Callable[[], float] = time.perf_counter,
) -> list[dict[str, Any]]:
    """Time the branches on one encoder in one precision."""
    place = folder / f"{model}-{precision}"
    write_model(model, place)
    measured = []
    for training, begin in works(place, precision, num_steps).items():
        names = []
        for name in branches:
            branch = BRANCHES[name]
            if branch.training == training and precision in branch.precisions:
                names.append(name)
        if not names:
            continue
        work = begin()
        sides = {"all": work.side}
        for name in names:
            sides[name] = switched_off(work.side, BRANCHES[name])
        seconds = alternate(sides, num_rounds, work.num_parts, clock=clock)
        whole = statistics.median(seconds["all"])
        for name in names:
            pairs = zip(seconds[name], seconds["all"], strict=True)
            saved = sorted(1 - fast / readable for readable, fast in pairs)
            line = {
                "model": model,
                "precision": precision,
                "branch": name,
                "training": training,
                "milliseconds": 1e3 * whole / num_steps,
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
    parser.add_argument(
        "--cpu-seconds",
        action="store_true",
        help="count the CPU seconds of one thread, where other programs use the machine",
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)
    clock = time.perf_counter
    if arguments.cpu_seconds:
        torch.set_num_threads(1)
        clock = time.process_time
    precisions = ["fp32", "int8", *([FP32_ONEDNN] if has_onednn() else [])]
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
                    clock,
                )
                for line in lines:
                    if arguments.record:
                        record_measurement(RECORDS / "formulas.jsonl", line)


if __name__ == "__main__":
    sys.exit(main())
