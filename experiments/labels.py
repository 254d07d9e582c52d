"""What people with labels ask about a finished run: `python -m experiments.labels RUN`.

Without a flag: are its probabilities right, and from which one on should a label be named?
--folds K trains K times, so that each row is a dev row once: a score with an interval for a small
table, and a list of labels that may be wrong. --curve trains on parts of the rows, and says what
more labels would bring. What TF-IDF reaches stands beside each answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import check_new_folder
from minbert.commands.plugins import load_named, plugin_argument
from minbert.reporting import terminal

PROGRAM = "python -m experiments.labels"


@dataclass(frozen=True)
class LabelsOptions(CommandOptions):
    """The command line of this command."""

    run: Path = positional("RUN", "folder that run_multitask.py wrote, such as runs/NAME")
    task: str | None = argument(
        None, "a task of the run; it may be left out where there is only one", "NAME"
    )
    folds: int | None = argument(
        None, "train this number of times: each row is a dev row once", "K", low=2, high=100
    )
    curve: bool = argument(False, "train on 1/8, 1/4 and 1/2 of the training rows, too")
    cost_missed: float = argument(
        1.0, "what it costs if a label is not named that a row has", "X", low=0.001
    )
    cost_false: float = argument(
        1.0, "what it costs if a label is named that a row has not", "X", low=0.001
    )
    out: Path = argument(
        Path("runs/labels"), "folder for the runs of --folds and --curve, and the list", "DIR"
    )
    plugin: tuple[str, ...] = plugin_argument()

    def check(self) -> None:
        if self.folds and self.curve:
            raise ValueError("--folds and --curve are two questions. Ask one after the other.")
        has_cost = (self.cost_missed, self.cost_false) != (1.0, 1.0)
        if has_cost and (self.folds or self.curve):
            raise ValueError(
                "--cost-missed and --cost-false have no effect with --folds and --curve. Drop them."
            )


@exit_code(PROGRAM, "Stopped. The same command goes on from here.")
def main(arguments: Sequence[str] | None = None) -> None:
    """Answer the question of the command line."""
    description = "Calibrate a run, cross-validate it, or say what more labels would bring."
    options = parse_command(LabelsOptions, PROGRAM, description, arguments)
    load_named(options.plugin)
    if options.folds or options.curve:
        check_new_folder("--out", options.out)
    # The runs of --folds and --curve show no bar: their output goes to files.
    with terminal.session(f"opening {options.run}", has_bar=not (options.folds or options.curve)):
        from experiments import label_questions

        question = label_questions.Question.of(options.run, options.task)
        if options.folds:
            label_questions.cross_validate(question, options.folds, options.out)
        elif options.curve:
            label_questions.draw_curve(question, options.out)
        else:
            costs = label_questions.Costs(options.cost_missed, options.cost_false)
            label_questions.describe_calibration(question, costs)


if __name__ == "__main__":
    sys.exit(main())
