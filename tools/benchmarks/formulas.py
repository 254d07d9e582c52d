"""What does each fast branch of a formula save?

`python -m tools.benchmarks.formulas` trains with all fast branches, and with one of them off, in
turn. The unit is milliseconds a step, and medians of rounds count. A branch that saves less than
5 % on every machine should go (docs/formulas.md). --record keeps the result.
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
import minbert.optimizer
from data.options import SAMPLE_FOLDER
from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.training import runtime
from tools.benchmarks.comparison import versions
from tools.benchmarks.inputs import sst_examples, write_model
from tools.benchmarks.recording import HELP, record_measurement
from tools.benchmarks.settings import Execution
from tools.benchmarks.timing import Side, alternate
from tools.benchmarks.training_sides import TrainingData, our_side

FINE_TUNING = "fine-tuning"


class Branch(NamedTuple):
    """A fast branch: the lesson file that it stands in, and the training that takes it."""

    file: ModuleType
    training: str


BRANCHES = {
    "dropout": Branch(minbert.dropout, FINE_TUNING),
    "AdamW": Branch(minbert.optimizer, FINE_TUNING),
}


@contextmanager
def without(branch: Branch) -> Iterator[None]:
    """Take the readable branch of one lesson file in a block."""
    before = branch.file.fast
    branch.file.fast = SimpleNamespace(is_on=lambda: False)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        branch.file.fast = before  # type: ignore[attr-defined]


def measure(
    model: str, precision: str, num_rounds: int, num_steps: int, folder: Path
) -> list[dict[str, Any]]:
    """Time the branches on one encoder in one precision."""
    place = folder / f"{model}-{precision}"
    write_model(model, place)
    data = TrainingData(place, sst_examples(str(SAMPLE_FOLDER), num_steps * 32), 32)
    trainings: dict[str, Callable[[], Side]] = {
        FINE_TUNING: lambda: our_side(
            data, folder / "run", Execution(torch.device("cpu"), precision)
        ),
    }
    measured = []
    for training, make_side in trainings.items():
        step = make_side()
        sides = {"all": step}
        for name, branch in BRANCHES.items():
            if branch.training == training:
                sides[name] = switched_off(step, branch)
        seconds = alternate(sides, num_rounds, num_steps)
        whole = statistics.median(seconds["all"])
        for name in sides:
            if name == "all":
                continue
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
                lines = measure(model, precision, arguments.rounds, arguments.steps, Path(folder))
                for line in lines:
                    if arguments.record:
                        line["versions"] = versions()
                        record_measurement(RECORDS / "formulas.jsonl", line)


if __name__ == "__main__":
    sys.exit(main())
