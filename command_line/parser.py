"""From a command line to Options. No torch here.

The flags are made from the fields of the option groups: one section of the help per group.
Next: folders.py, which finds the folder of the run.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, NoReturn

from command_line.folders import load
from command_line.options import Options, RunOptions
from contrastive.options import (
    BscOptions,
    ContrastiveOptions,
    MnrOptions,
    NliOptions,
    SelfGuidedOptions,
    SupervisedOptions,
    TensionOptions,
)
from data.options import DataOptions, InputFileOptions
from experiments.recipes import recipe_list, values_of
from minbert.commands.options import NONE, OptionGroup, direct_fields
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
NUMBERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float}
METAVARS = {"int": "N", "float": "X"}
MAX_WIDTH = 100  # columns of the help in a wide terminal

# The sections of the help, in the order in which a reader needs them.
SECTIONS: dict[type[OptionGroup], str] = {
    RunOptions: "the run",
    DataOptions: "data",
    EncoderOptions: "the encoder (minbert)",
    TrainingOptions: "every training stage (minbert.training)",
    FineTuningOptions: "the multitask stage (multitask)",
    TaskOptions: "tasks, sampling and gradient surgery (multitask)",
    HeadOptions: "heads (multitask)",
    ContrastiveOptions: "contrastive stages (contrastive)",
    SupervisedOptions: "only --pretrain simcse-supervised (the GEN report)",
    NliOptions: "only --pretrain simcse-nli (Gao et al. 2021, section 4)",
    MnrOptions: "only --pretrain mnr (Henderson et al. 2017)",
    BscOptions: "only --pretrain bsc (Chernyavskiy et al. 2022)",
    TensionOptions: "only --pretrain ct and ct-in-batch (Carlsson et al. 2021)",
    SelfGuidedOptions: "only --pretrain sg and sg-opt (Kim et al. 2021)",
    MlmOptions: "only --pretrain mlm (minbert.pretraining)",
    InputFileOptions: "input files, instead of those in --data_dir",
    PredictionFileOptions: "leaderboard files, instead of those in the run's folder",
}
DESCRIPTION = (
    "Train one encoder on three tasks, after the stages of --pretrain, and write the six "
    f"leaderboard files.\n\nExample: python {PROGRAM} --option finetune --pretrain simcse"
)
HELP_HINT = f"These are the most common flags. `python {PROGRAM} --help-all` shows all flags."
SPELLING = "Every flag may be written with _ or with -, such as --data_dir or --data-dir."


class Formatter(argparse.HelpFormatter):
    """argparse's layout, but lines of a help text that begin with "- " stay a list."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns - 2, MAX_WIDTH)
        super().__init__(prog, max_help_position=26, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines = []
        for paragraph in text.splitlines():
            indent = "  " if paragraph.startswith("- ") else ""
            lines += textwrap.wrap(
                paragraph, width, subsequent_indent=indent, break_on_hyphens=False
            )
        return lines

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


class Parser(argparse.ArgumentParser):
    """argparse that suggests the flag that a typo may have meant, without a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit code 2."""
        self.exit(2, f"{self.prog}: {message}\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """The values of the flags; a flag that does not exist ends the program."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flags = self._option_string_actions
            close = difflib.get_close_matches(unknown[0].split("=")[0], flags, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; --help-all lists all flags."
            self.error(f"unknown flag {unknown[0]}{hint}")
        return parsed or argparse.Namespace()


class HelpAll(argparse.Action):
    """--help-all: the help with all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        build_parser(shows_all=True).print_help()
        parser.exit()


def number_or_word(kind: Callable[[str], Any], word: object) -> Callable[[str], Any]:
    """The type of a flag whose default is a word, such as auto: that word, or a number."""

    # argparse says the name of this function: "invalid number value".
    def number(text: str) -> Any:
        return text if text == word else kind(text)

    return number


def help_of(item: Field) -> str:
    """The help text of a flag with its default."""
    default = item.default
    if isinstance(default, bool):
        default = "off"
    elif isinstance(default, float):
        default = f"{default:g}"
    text = item.metadata["help"]
    # The default of a text that ends with a list has a line of its own.
    separator = "\n" if "\n- " in text else " "
    return f"{text}{separator}(default: {default})".replace("%", "%%")


def metavar_of(item: Field) -> str | None:
    """The word behind a flag in the help; None for the list of its choices."""
    number = item.type.split(" | ")[0]
    if number in METAVARS:
        return METAVARS[number]
    has_list = "\n- " in item.metadata["help"]
    if item.metadata["choices"] and not has_list:
        return None
    return "FILE" if item.metadata["is_file"] else item.name.rpartition("_")[2].upper()


def add_flag(section: argparse._ArgumentGroup, item: Field, is_shown: bool) -> None:
    """One flag, by both spellings: --train_rows (the course's) and --train-rows."""
    settings: dict[str, Any] = {"dest": item.name}
    if item.type == "bool":
        settings["action"] = "store_true"
    else:
        word, *others = item.type.split(" | ")
        kind = NUMBERS.get(word, str)
        settings["type"] = number_or_word(kind, item.default) if others else kind
        settings["choices"] = item.metadata["choices"] or None
        settings["metavar"] = metavar_of(item)

    text = help_of(item) if is_shown else argparse.SUPPRESS
    section.add_argument(f"--{item.name}", help=text, **settings)
    if "_" in item.name:
        with_dashes = f"--{item.name.replace('_', '-')}"
        section.add_argument(with_dashes, help=argparse.SUPPRESS, **settings)


def build_parser(shows_all: bool = False) -> Parser:
    """The parser of all flags. Its help shows the common ones, or all of them."""
    parser = Parser(
        prog=PROGRAM,
        usage="python %(prog)s [--FLAG VALUE ...]",
        description=DESCRIPTION,
        epilog=SPELLING if shows_all else f"{HELP_HINT}\n{SPELLING}",
        formatter_class=Formatter,
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    section = parser.add_argument_group("help")
    section.add_argument("-h", "--help", action="help", help="Show the common flags, and stop.")
    section.add_argument("--help-all", action=HelpAll, nargs=0, help="Show all flags, and stop.")
    section.add_argument(
        "--list-recipes", action="store_true", help="Show the values of --recipe, and stop."
    )
    for cls, title in SECTIONS.items():
        section = parser.add_argument_group(title)
        if cls is RunOptions:
            section.add_argument(
                "--resume",
                metavar="RUN",
                help="Continue the run in this folder, without other flags.",
            )
        for item in direct_fields(cls):
            add_flag(section, item, shows_all or item.metadata["is_common"])
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
        if run is None:
            return options_of(values), None
        if values:
            raise ValueError(
                f"--resume continues a run with its own options; drop --{next(iter(values))}, or "
                "start a new run without --resume."
            )
        return load(Path(run)), Path(run)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{PROGRAM}: {error}\n")


def options_of(flags: dict[str, Any]) -> Options:
    """The options of a new run: those of --recipe, with the flags in place of them."""
    recipe = flags.get("recipe", NONE)
    of_recipe = {} if recipe == NONE else values_of(recipe)
    return Options.of(**{**of_recipe, **flags}).with_files()
