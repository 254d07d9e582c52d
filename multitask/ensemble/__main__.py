"""Join several finished runs: `python -m multitask.ensemble RUN RUN... --out DIR`.

The command opens one run after the other and predicts dev and test. It prints the dev scores of the
runs and of three ways to join them (voting.py). It writes the prediction files of one of these
ways, and ensemble.json.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.new_folders import reserved
from minbert.commands.plugins import load_named
from minbert.reporting import terminal
from multitask.ensemble.options import EnsembleOptions, check_folders

PROGRAM = "python -m multitask.ensemble"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Predict with every run, join the predictions, write and print the results."""
    description = "Join the predictions of several finished runs on the same data."
    options = parse_command(EnsembleOptions, PROGRAM, description, arguments)
    load_named(options.plugin)
    check_folders(options)
    with reserved(options.out), terminal.session("importing PyTorch"):
        from multitask.ensemble.work import join_runs

        join_runs(options)


if __name__ == "__main__":
    sys.exit(main())
