"""Predict rows of your own: `python -m multitask.predict RUN --task sst < rows.txt`.

The command reads one row per line, or a table in any format that data/tables/ reads. A line of a
task of pairs, such as PARA and STS, is two texts with a tab between them. Of a table, --text and
--text-pair name the columns.

Each row is printed behind its prediction: the class of a task of the course (0 to 4 of SST, 1 or 0
of PARA), its name, and the model's confidence in it. A user's own task has names alone. A
similarity has neither name nor confidence. With `--probabilities` the probabilities stand in their
place, and standard error names their classes. Tabs stand between the columns. A terminal gets
aligned columns instead. --out writes all columns of the input to a file for a spreadsheet.

A warning names rows of words that the training rows never held. The model answers them, too, but
the answer means little.

Several runs give one prediction together: that of the mean of their probabilities or similarities.

`torchrun --nproc_per_node N -m multitask.predict ...` shares the batches among N processes.

answers.py asks the models. It brings torch, so it is imported when the command line and the rows
are understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from minbert.commands.ending import exit_code, first_speaks
from minbert.commands.flags import parse_command
from minbert.commands.paths import in_shell
from minbert.commands.plugins import load_named
from minbert.reporting import terminal
from multitask.command_options import PredictOptions
from multitask.user_rows import BUNDLED_RUN, check_request, choose_task, read_rows

PROGRAM = "python -m multitask.predict"


def use_bundled_run(options: PredictOptions) -> PredictOptions:
    """The options with the bundled run, for a user who names none. It reads sentences of SST."""
    return replace(options, runs=(BUNDLED_RUN,), task=options.task or "sst")


@exit_code(PROGRAM, takes_processes=True)
def main(arguments: Sequence[str] | None = None) -> None:
    """Read rows, and print or write them with their predictions."""
    description = "Predict rows of your own with finished runs."
    with first_speaks():
        options = parse_command(PredictOptions, PROGRAM, description, arguments)
        load_named(options.plugin)
    with terminal.session("reading the rows", uses_stderr=True):
        if not options.runs:
            options = use_bundled_run(options)
            terminal.say(
                f"No RUN is named. The small model in {in_shell(BUNDLED_RUN)} answers, for the "
                f"task {options.task}. run_multitask.py trains a model of your own."
            )
        with first_speaks():
            spec = choose_task(options)
            check_request(options, spec)
        # Of several processes the first one reads them. Standard input can be read once.
        texts_of_first = None
        if not terminal.is_muted():
            with terminal.typing("row", options.input):
                texts_of_first = read_rows(options, spec)
        terminal.doing("importing PyTorch")
        from multitask import answers

        texts = answers.share_texts(texts_of_first)
        answer = answers.predict_rows(options, spec, texts)
        if options.out is not None:
            answers.write_answers(options.out, texts, answer, options.probabilities)
            terminal.say(answers.describe_file(options.out, texts))
        elif options.probabilities:
            terminal.say(answers.describe_probabilities(answer))
    if options.out is None:
        answers.print_rows(texts, answers.printed_cells(answer, options.probabilities))
    answers.processes.end()


if __name__ == "__main__":
    sys.exit(main())
