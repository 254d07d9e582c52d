"""The command line that starts a run with the same options again. No torch here."""

from __future__ import annotations

from command_line.options import Options
from data.examples import BUILT_IN_FILES
from minbert.commands.flags import shell_command
from minbert.commands.launcher import training_command
from minbert.commands.options import changed, with_values

# They say where a run is written. What a recipe and --few_pairs chose has flags of its own.
LEFT_OUT = ("name", "output_dir", "recipe", "few_pairs")


def command_of(options: Options) -> str:
    """The command with a flag for each option that differs from its default, a line each.

    options: of a finished run, where "auto" has been replaced. So the command says, too, what the
    run chose itself.
    """
    values = changed(without_usual_files(options))
    flags = {name: value for name, value in values.items() if name not in LEFT_OUT}
    # Without these flags, a run of own tasks alone would choose them by its rows.
    if not BUILT_IN_FILES.keys() & set(options.multitask.tasks.order):
        flags["epochs"] = options.multitask.fine_tuning.epochs
        if options.multitask.heads.few_pairs:
            flags["head"] = options.multitask.heads.head
    return shell_command(training_command(), flags)


def without_usual_files(options: Options) -> Options:
    """The same options with "auto" for each file that has the course's name in --data_dir."""
    names = []
    for task, splits in BUILT_IN_FILES.items():
        names += [f"{task}_{split}" for split in splits]
    automatic = with_values(options, **dict.fromkeys(names, "auto"))
    usual = automatic.with_files().flat()
    values = options.flat()
    unusual = {name: values[name] for name in names if values[name] != usual[name]}
    return with_values(automatic, **unusual)
