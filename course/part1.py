"""Part 1 of the course: `python -m course.part1 --data-dir data/course`.

SST and CFIMDB are trained alone, each with a frozen encoder (pretrain, or last-linear-layer) and
with all weights (finetune, or full-model). The eight files of predictions get the course's names.

Each of the four is a run of run_multitask.py, in a process of its own. Its folder is OUT/MODE-TASK,
and its output goes to OUT/MODE-TASK.log. All other flags go to these runs. A run that is finished
is not trained again, and an interrupted one continues.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course.options import Part1Options
from minbert.commands.ending import exit_code
from minbert.commands.flags import parser_of
from minbert.commands.options import from_flat

PROGRAM = "python -m course.part1"
DESCRIPTION = "Train SST and CFIMDB in both modes, and write the eight files of part 1."
EPILOG = (
    "All other flags, such as --model, --lr, --epochs or --use_gpu, go to the runs. Each run "
    "begins its log (OUT/MODE-TASK.log) with an estimate of its time. A small trial: --train-rows "
    "sst=64,cfimdb=32 --epochs 1 --out runs/trial"
)


@exit_code(PROGRAM, "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when the files are written, else that of the run that failed."""
    parser = parser_of(Part1Options, PROGRAM, DESCRIPTION, EPILOG)
    # All flags that this command does not know belong to run_multitask.py.
    values, flags = parser.parse_known_args(argv)
    options = from_flat(Part1Options, vars(values))
    from course.four_runs import train_and_write

    return train_and_write(options, flags, print)


if __name__ == "__main__":
    sys.exit(main())
