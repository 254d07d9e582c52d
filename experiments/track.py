"""Put a finished run into an experiment tracker: `python -m experiments.track RUN --to trackio`.

The losses of each step come from log.csv, and the scores and the options from run.json. No code of
a tracker runs while a model is trained.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from experiments.run_files import read_record
from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.memory import first_line_of
from minbert.commands.optional import install_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.training.step_log import LOG_FILE, LOSS_PREFIX, read_log

PROGRAM = "python -m experiments.track"
# Their functions init, log and finish take the same arguments.
TRACKERS = ("trackio", "wandb")
ADVICE = {"wandb": " WANDB_MODE=offline before the command keeps the run on this machine."}
NO_SCORES = ("epoch", "step", "loss")  # of an entry of run.json's epochs


@dataclass(frozen=True)
class TrackOptions(CommandOptions):
    """The command line of this command."""

    run: Path = positional("RUN", "folder of a finished run, such as runs/NAME")
    to: str = argument("trackio", "the tracker, which must be installed", choices=TRACKERS)
    project: str = argument("minbert", "the project in the tracker", "NAME")


class Event(NamedTuple):
    """Numbers of one step, by the names of their curves."""

    step: int
    values: dict[str, float]


def read_events(folder: Path, record: dict[str, Any]) -> Iterator[Event]:
    """The losses of each update of each stage, with the dev scores after it, in their order.

    The steps of later stages follow those of earlier ones. folder: of a run. record: its run.json.
    """
    scores = {entry["step"]: entry for entry in record.get("epochs", [])}
    for step, row in enumerate(read_log(folder / LOG_FILE), start=1):
        values = {"loss": row.loss, "learning_rate": row.learning_rate}
        values["gradient_norm"] = row.gradient_norm
        values |= {f"{LOSS_PREFIX}{task}": loss for task, loss in row.losses.items()}
        values = {f"{row.stage}/{name}": value for name, value in values.items()}
        # run.json has the scores of the first training of all tasks.
        if row.stage == "multitask" and row.step in scores:
            for name, value in scores[row.step].items():
                if name not in NO_SCORES:
                    values[f"dev/{name}"] = value
        yield Event(step, values)


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Send the run. Raises ValueError where it is not finished, or the tracker is not installed."""
    description = "Put a finished run into trackio or wandb."
    options = parse_command(TrackOptions, PROGRAM, description, arguments)
    record = read_record(options.run)
    events = list(read_events(options.run, record))
    try:
        tracker = importlib.import_module(options.to)
    except ModuleNotFoundError as error:
        if error.name != options.to:
            raise
        others = [name for name in TRACKERS if name != options.to]
        raise ValueError(
            f"{options.to} is not installed. Run `{install_command([options.to])}`, or pass --to "
            f"{' or '.join(others)}."
        ) from None
    final = {f"final/{name}": score for name, score in record["scores"].items()}
    events.append(Event(len(events) + 1, final))
    name = options.run.resolve().name
    try:
        tracker.init(project=options.project, name=name, config=record["options"])
        for event in events:
            tracker.log(event.values, step=event.step)
        tracker.finish()
    # Each tracker has exceptions of its own, such as for a missing login.
    except Exception as error:
        raise ValueError(
            f"{options.to} did not take the run ({type(error).__name__}: {first_line_of(error)}). "
            f"Correct that first.{ADVICE.get(options.to, '')}"
        ) from error
    print(
        f"{options.run}: {len(events) - 1:,} steps are in {options.to}, project {options.project}."
    )


if __name__ == "__main__":
    sys.exit(main())
