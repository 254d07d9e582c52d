"""From a command line to Options, and the folder that a run goes to. No torch here.

The flags are made from the fields of the option groups, one group of flags per package.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, NoReturn

from command_line.options import Options, RunOptions
from contrastive.options import ContrastiveOptions
from contrastive.presets import METHODS
from data.options import DataOptions
from experiments.recipes import recipe_list, values_of
from minbert.commands.options import AUTO, NONE, all_fields
from minbert.commands.paths import in_shell, is_free
from minbert.options import EncoderOptions
from minbert.pretraining.options import MlmOptions
from minbert.training.options import TrainingOptions
from multitask.options import (
    FineTuningOptions,
    HeadOptions,
    PredictionFileOptions,
    TaskOptions,
)

PROGRAM = "run_multitask.py"
KINDS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
TITLES: dict[type, str] = {
    RunOptions: "the run",
    DataOptions: "data",
    EncoderOptions: "the encoder (minbert)",
    TrainingOptions: "every training stage (minbert.training)",
    FineTuningOptions: "the multitask stage (multitask)",
    TaskOptions: "tasks, sampling and gradient surgery (multitask)",
    HeadOptions: "heads (multitask)",
    ContrastiveOptions: "contrastive stages (contrastive)",
    MlmOptions: "masked language modelling (minbert.pretraining)",
    PredictionFileOptions: "leaderboard files",
}
FILES = "input files"
HELP_HINT = f"This help shows the most common flags. `{PROGRAM} --help-all` shows all of them."


class Parser(argparse.ArgumentParser):
    """argparse that suggests the flag that a typo may have meant, without a page of usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flags = self._option_string_actions
            close = difflib.get_close_matches(unknown[0].split("=")[0], flags, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; --help-all lists all flags."
            self.error(f"unknown flag {unknown[0]}{hint}")
        return namespace


class HelpAll(argparse.Action):
    """--help-all: the help with all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        build_parser(shows_all=True).print_help()
        parser.exit()


def number_or_word(kind: Callable[[str], Any], word: str) -> Callable[[str], Any]:
    """What a flag takes whose default is a word, such as auto: that word, or a number of the kind."""

    def number(text: str) -> Any:  # argparse says "invalid number value"
        return text if text == word else kind(text)

    return number


def help_of(item: Field) -> str:
    """The help text of a flag, with its default and the papers of the methods that read it."""
    papers = []
    for entry in METHODS.values():
        if item.name in entry.own_options and entry.preset.source not in papers:
            papers.append(entry.preset.source)
    default = "off" if item.default is False else item.default
    details = "; ".join([f"default: {default}", *papers])
    return f"{item.metadata['help']} ({details})"


def add_flag(parser: argparse._ArgumentGroup, item: Field, is_shown: bool) -> None:
    """One flag, by both spellings: --train_rows (the course's) and --train-rows."""
    names = dict.fromkeys([f"--{item.name}", f"--{item.name.replace('_', '-')}"])
    settings: dict[str, Any] = {"dest": item.name}
    settings["help"] = help_of(item).replace("%", "%%") if is_shown else argparse.SUPPRESS
    if item.type == "bool":
        settings["action"] = "store_true"
    else:
        first, *words = str(item.type).split(" | ")
        kind = KINDS[first]
        settings["type"] = number_or_word(kind, item.default) if words else kind
        settings["choices"] = item.metadata["choices"] or None
    parser.add_argument(*names, **settings)


def build_parser(shows_all: bool = False) -> Parser:
    """The parser of all flags; its help shows the common ones, or all of them."""
    parser = Parser(
        prog=PROGRAM,
        allow_abbrev=False,
        description="Contrastive pretraining, multitask training and the six leaderboard files, in "
        "one command.",
        epilog=None if shows_all else HELP_HINT,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--help-all", action=HelpAll, nargs=0, help="Show all flags, and stop.")
    parser.add_argument(
        "--list-recipes", action="store_true", help="Show the values of --recipe, and stop."
    )
    parser.add_argument(
        "--resume", metavar="RUN", help="Continue the run in this folder with its own options."
    )
    files: list[Field] = []
    for cls, title in TITLES.items():
        section = parser.add_argument_group(title)
        for item in all_fields(cls):
            if item.metadata["is_file"] and cls is DataOptions:
                files.append(item)
            else:
                add_flag(section, item, shows_all or item.metadata["is_common"])
    section = parser.add_argument_group(FILES)
    for item in files:
        add_flag(section, item, shows_all)
    return parser


def parse(argv: Sequence[str] | None = None) -> tuple[Options, Path | None]:
    """The options of a command line, and the folder of --resume.

    A wrong flag or combination ends the program with exit code 2 and a message.
    """
    parser = build_parser()
    values = vars(parser.parse_args(argv))
    if values.pop("list_recipes", False):
        sys.stdout.write(recipe_list() + "\n")
        parser.exit(0)
    run = values.pop("resume", None)
    try:
        if run is not None:
            return resume(Path(run), values), Path(run)
        recipe = values.get("recipe", NONE)
        of_recipe = {} if recipe == NONE else values_of(recipe)
        return Options.of(**{**of_recipe, **values}).with_files(), None
    except (ValueError, OSError) as error:
        parser.exit(2, f"{PROGRAM}: {error}\n")


def resume(folder: Path, flags: dict[str, Any]) -> Options:
    """The options of the run that --resume names; ValueError where other flags stand beside it."""
    if flags:
        raise ValueError(
            f"--resume continues a run with its own options; drop --{next(iter(flags))}, or start a "
            "new run without --resume."
        )
    return load(folder)


def load(folder: Path) -> Options:
    """The options of the run in `folder`; ValueError where there is none."""
    path = folder / "options.json"
    if not path.is_file():
        raise ValueError(
            f"--resume {folder}: no run there (options.json is missing). Give a folder such as "
            "runs/NAME."
        )
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        options = Options.of(**stored["options"])
        stored["files"].keys()  # the digests of its input files, which the run compares
        return options
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not the options of this version ({error}). Start a new run instead."
        ) from error


def choose_folder(options: Options) -> Path:
    """The folder of a new run, not created yet: OUTPUT_DIR/NAME.

    An automatic name that is in use is followed by -2, -3 and so on. ValueError where the name that
    was given is none, or is in use.
    """
    name = options.run.name
    parent = Path(options.run.output_dir)
    if name == AUTO:
        return first_free(parent, automatic_name(options))
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(
            f"--name is '{name}'; it must be the name of one folder. --output_dir says where."
        )
    folder = parent / name
    if not is_free(folder):
        raise ValueError(
            f"{folder} exists. Pass --resume {in_shell(folder)} to continue it, or another --name."
        )
    return folder


def automatic_name(options: Options) -> str:
    """A name made of the main options and the seed."""
    what = options.run.recipe
    if what == NONE:
        stages = "-".join(options.run.stages) or NONE
        what = f"{options.multitask.fine_tuning.option}-{stages}"
    model = Path(options.encoder.model).name
    data = Path(options.data.data_dir).name
    return f"{what}-{model}-{data}-seed{options.training.seed}"


def first_free(parent: Path, stem: str) -> Path:
    """The first of STEM, STEM-2, STEM-3, ... that a new folder can take."""
    folder = parent / stem
    number = 1
    while not is_free(folder):
        number += 1
        folder = parent / f"{stem}-{number}"
    return folder
