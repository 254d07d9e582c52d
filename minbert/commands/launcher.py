"""The command `minbert`: it lists all commands and starts one, from any folder.

`minbert predict RUN` does what `python -m multitask.predict RUN` does. No command is imported
before it is started, so the list appears at once.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Sequence
from typing import NamedTuple

from minbert.commands import streams
from minbert.commands.hidden import ROOT
from minbert.commands.optional import advice_on_module

USAGE = "usage: minbert COMMAND ...   (minbert COMMAND --help lists the flags of a command)"


class Command(NamedTuple):
    """A command: its short name, its module, and one line on it."""

    name: str
    module: str
    line: str
    needs_clone: bool = False  # it reads files of the repository that no package holds


COMMANDS = (
    Command("train", "run_multitask", "Train tasks on one encoder, and stages before them."),
    Command("pretrain", "minbert.pretraining", "Train an encoder on plain text."),
    Command("contrastive", "contrastive.train", "Train one contrastive stage, and no task."),
    Command("predict", "multitask.predict", "Predict rows of your own with a finished run."),
    Command("demo", "multitask.demo", "Try a finished run on a page of this machine."),
    Command("export", "multitask.export", "Write a task as a model of transformers or ONNX."),
    Command("errors", "multitask.errors", "Show where a finished run is wrong."),
    Command("ensemble", "multitask.ensemble", "Join several finished runs."),
    Command("compare", "multitask.compare", "Say whether one run is better than another one."),
    Command("check", "multitask.check", "Verify or score leaderboard files."),
    Command("embed", "contrastive.embed", "Use sentence vectors: store, search, compare, export."),
    Command("quality", "contrastive.quality", "Measure the sentence vectors of a model."),
    Command("attention", "minbert.draw_attention", "Draw the attention of a sentence."),
    Command("trace", "teaching.trace", "Follow a sentence through the model, tensor by tensor."),
    Command("experiments", "experiments", "Run recipes over several seeds and compare them."),
    Command("labels", "experiments.labels", "Calibrate, cross-validate, find wrong labels."),
    Command("track", "experiments.track", "Put a run into trackio or wandb."),
    Command("papers", "experiments.papers", "Repeat rows of the three papers over seeds."),
    Command("reproduce", "experiments.reproduce", "Train a run again, and compare."),
    Command("part1", "course.part1", "Train part 1 of the course, and write its eight files."),
    Command("leaderboard", "course.predict", "Predict other data as leaderboard files."),
    Command("submit", "course.submit", "Verify the files of a hand-in and write its zip."),
    Command("download", "data.download", "Download the course's files."),
    Command("handout", "teaching.handout", "Write files without the answers, for a course.", True),
    Command("grade", "teaching.grade", "Grade what students hand in.", True),
    Command("notebooks", "teaching.notebooks", "Build the notebooks of docs/notebooks/.", True),
)


# Names that other programs have for these commands. They are suggested, and start nothing.
OTHER_NAMES = {
    "finetune": "train",
    "fine-tune": "train",
    "fit": "train",
    "classify": "predict",
    "infer": "predict",
    "serve": "demo",
    "try": "demo",
    "evaluate": "errors",
    "eval": "errors",
    "score": "check",
    "encode": "embed",
    "search": "embed",
}


def is_ours(module: str) -> bool:
    """Whether a module, or the package that holds it, is beside this package."""
    package = module.partition(".")[0]
    return (ROOT / package).is_dir() or (ROOT / f"{package}.py").is_file()


def is_clone() -> bool:
    """Whether our packages stand in a clone of the repository, and not in site-packages."""
    return (ROOT / "docs").is_dir() and (ROOT / "pyproject.toml").is_file()


def training_command() -> list[str]:
    """The words that start a training. Only a clone has the file run_multitask.py."""
    return ["python", "run_multitask.py"] if is_clone() else ["minbert", "train"]


def listing() -> str:
    """The text that `minbert` prints: each command with its line, and what it is short for.

    Commands that need a clone are listed only in one.
    """
    commands = [command for command in COMMANDS if is_clone() or not command.needs_clone]
    lines = [USAGE, ""]
    for command in commands:
        lines.append(f"  {command.name:12} {command.line}")
    if is_clone():
        lines += ["", "The same as modules, from the folder of the clone:", ""]
        for command in commands:
            lines.append(f"  {command.name:12} {long_form(command)}")
    return "\n".join(lines)


def long_form(command: Command) -> str:
    """The command that starts the same module without `minbert`."""
    if (ROOT / f"{command.module}.py").is_file():
        return f"python {command.module}.py"
    return f"python -m {command.module}"


def find(name: str) -> Command:
    """The command of a name. ValueError, with the name that was likely meant, where none has it."""
    by_name = {command.name: command for command in COMMANDS}
    # The long names are taken, too.
    by_name |= {command.module: command for command in by_name.values()}
    if name in by_name:
        command = by_name[name]
        if command.needs_clone and not is_clone():
            raise ValueError(
                f"{name} reads files of the repository, which {ROOT} does not hold. Clone the "
                f"repository, and start it there: python -m {command.module}"
            )
        return command
    if name.startswith("-"):
        raise ValueError(
            f"{name} is a flag, and a command must stand before it, such as `minbert train {name} "
            "...`. `minbert` lists all commands."
        )
    close = difflib.get_close_matches(name, by_name, n=1)
    if name in OTHER_NAMES:
        close = [OTHER_NAMES[name]]
    hint = f"did you mean {close[0]}?" if close else "`minbert` lists all commands."
    raise ValueError(f"no command '{name}'; {hint}")


def main(arguments: Sequence[str] | None = None) -> int:
    """List the commands, or start one. It ends with the exit code of that command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(listing())
        return 0
    if words[0] == "--version":
        # This file's own package, which is imported already.
        version = sys.modules["minbert"].__version__
        print(f"minbert {version} in {ROOT}")
        return 0
    try:
        command = find(words[0])
    except ValueError as error:
        streams.say(f"minbert: {error}")
        return 2
    sys.argv[1:] = words[1:]
    try:
        # As `python -m` does it. The module ends with sys.exit and its exit code.
        runpy.run_module(command.module, run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        if is_ours(error.name or ""):
            raise
        print(f"minbert: {error}. {advice_on_module(error.name or '')}.", file=sys.stderr)
        return 2
    return 0
