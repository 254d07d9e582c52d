"""Does a killed run, resumed, end in the same bits? `python -m tools.benchmarks.kill_resume`.

A tiny model is trained once undisturbed on a cut of the sample data. Then it is trained K times
with SIGKILL at a random step and `--resume`. Weights must agree in every bit, leaderboard files in
every byte, and the scores of each epoch exactly. tests/system/test_resume.py asks the same of one
run, with the same functions (tests/killed_runs.py).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from tests.killed_runs import (
    ROOT,
    SAVE_EVERY,
    cut_data,
    differences,
    finish,
    read_record,
    saved_step,
    settings,
    start,
    stop_when,
    write_tiny_model,
)
from tools.benchmarks.comparison import versions
from tools.benchmarks.recording import HELP, conditions, record_measurement

KILL_RESUME = RECORDS / "kill-resume.jsonl"


class Kill(NamedTuple):
    """When a run is killed: `delay` seconds after the stage has saved step `target`.

    num_steps: of the whole stage.
    """

    stage: str
    num_steps: int
    target: int
    delay: float


class KilledRun(NamedTuple):
    """Whether a run was killed before its end, and the step at which it was resumed."""

    is_killed: bool
    step: int


# --- a killed run ---------------------------------------------------------------------------------


def kill_once(kill: Kill, flags: list[str], folder: Path) -> KilledRun:
    """Start a run, kill it, and resume it to its end. folder: of the run."""
    process = start(*flags)

    # Signal 0 only asks whether the process is there: the kill comes `delay` seconds later.
    is_saved = stop_when(process, lambda: saved_step(folder, kill.stage) >= kill.target, number=0)
    is_killed = False
    if is_saved:
        time.sleep(kill.delay)
        is_killed = process.poll() is None
        process.kill()
    # Wait for the end of the process, whether it was killed or not.
    process.communicate()

    step = saved_step(folder, kill.stage)
    finish(start("--resume", folder))
    return KilledRun(is_killed, step)


# --- the command ----------------------------------------------------------------------------------


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(description="Does a killed run, resumed, end in the same bits?")
    parser.add_argument(
        "--kills", type=int, default=5, help="runs that are killed (default %(default)s)"
    )
    parser.add_argument(
        "--pretrain", default="simcse", help="stages before the tasks (default %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the moments of the kills (default %(default)s)"
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


def choose_kills(arguments: argparse.Namespace, record: dict[str, Any]) -> list[Kill]:
    """Return random kills that take the stages in turn. record: of the undisturbed run."""
    num_steps = {estimate["name"]: estimate["num_steps"] for estimate in record["predicted"]}
    print(f"undisturbed: {num_steps} steps")
    stages = list(num_steps)

    # With a delay, the kill may also fall between two checkpoints.
    longest_delay = SAVE_EVERY * record["actual"]["seconds"] / sum(num_steps.values())
    chance = random.Random(arguments.seed)
    kills = []
    for number in range(arguments.kills):
        stage = stages[number % len(stages)]
        target = chance.randrange(SAVE_EVERY, num_steps[stage])
        delay = chance.uniform(0, longest_delay)
        kills.append(Kill(stage, num_steps[stage], target, delay))
    return kills


@exit_code("python -m tools.benchmarks.kill_resume")
def main(argv: Sequence[str] | None = None) -> None:
    """Kill runs and resume them. Exit code 0 where all were killed and ended in the same bits."""
    arguments = build_parser().parse_args(argv)
    num_killed = 0
    num_equal = 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        data = cut_data(ROOT / "data" / "sample", place / "data")
        model = write_tiny_model(place / "model", data)
        finish(start(*settings(model, data, place / "undisturbed", arguments.pretrain)))
        undisturbed = place / "undisturbed" / "run"

        kills = choose_kills(arguments, read_record(undisturbed))
        for number, kill in enumerate(kills, start=1):
            folder = place / str(number) / "run"
            flags = settings(model, data, folder.parent, arguments.pretrain)
            is_killed, step = kill_once(kill, flags, folder)
            differing = differences(undisturbed, folder)
            num_killed += is_killed
            num_equal += not differing
            outcome = f"DIFFERENT: {differing}" if differing else "same bits"
            print(
                f"kill {number}: {kill.stage}, {kill.delay * 1000:.0f} ms after the checkpoint at "
                f"or past step {kill.target} of {kill.num_steps}; resumed at step {step}, {outcome}"
            )

    line = {
        "name": "kill_resume",
        "stages": arguments.pretrain,
        "n": arguments.kills,
        "killed": num_killed,
        "identical": num_equal,
        "seed": arguments.seed,
        "versions": versions(),
    }
    if arguments.record:
        # The runs have one thread (see `start`), whatever this process has.
        record_measurement(KILL_RESUME, {**conditions(num_threads=1), **line})
    print(json.dumps(line))
    sys.exit(0 if num_killed == num_equal == arguments.kills else 1)


if __name__ == "__main__":
    sys.exit(main())
