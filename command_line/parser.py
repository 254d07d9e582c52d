"""The command line, derived from the fields of Options, and the folder that a run goes to. Next: run_multitask.py.

Imports no torch, so that `--help` and a typo answer at once.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from command_line.options import AUTO, Options
from contrastive.presets import OWN, PRESETS
from experiments.recipes import recipe_list, values_of
from minbert.commands.paths import in_shell, is_free


class Parser(argparse.ArgumentParser):
    """argparse that suggests the flag that a typo may have meant, without a page of usage before it."""

    def error(self, message: str) -> None:
        self.exit(2, f"{self.prog}: {message}\n")

    def parse_args(self, args=None, namespace=None):
        namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            close = difflib.get_close_matches(
                unknown[0].split("=")[0], self._option_string_actions, n=1
            )
            hint = f"; did you mean {close[0]}?" if close else "; --help lists all flags."
            self.error(f"unknown flag {unknown[0]}{hint}")
        return namespace


def number_or_word(kind: type, word: str) -> Callable[[str], float | int | str]:
    """What a flag takes whose default is a word, such as auto: that word, or a number of the kind."""

    def number(text: str) -> float | int | str:  # argparse says "invalid number value"
        return text if text == word else kind(text)

    return number


def parse(argv: list[str] | None = None) -> tuple[Options, Path | None]:
    """The options of a command line, and the folder of --resume. Wrong flags exit with code 2 and a message."""
    parser = Parser(
        prog="run_multitask.py",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Contrastive pretraining, multitask training and the six leaderboard files, in one go.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--list-recipes", action="store_true", help="show what --recipe takes, and stop"
    )
    parser.add_argument(
        "--resume", metavar="RUN", help="continue the run in this folder, with its own options"
    )
    groups = {"": parser, "files": parser.add_argument_group("files, by the course's flags")}
    kinds = {"int": int, "float": float, "str": str}
    for item in fields(Options):
        flags = dict.fromkeys([f"--{item.name}", f"--{item.name.replace('_', '-')}"])
        papers = "".join(
            dict.fromkeys(
                f"; {PRESETS[name].source}" for name, own in OWN.items() if item.name in own
            )
        )
        settings = {
            "help": f"{item.metadata['help']} (default: {item.default}{papers})",
            "dest": item.name,
        }
        if item.type == "bool":
            settings["action"] = "store_true"
        else:
            first, *is_word = item.type.split(" | ")
            kind = number_or_word(kinds[first], item.default) if is_word else kinds[first]
            settings |= {"type": kind, "choices": item.metadata["choices"] or None}
        groups[item.metadata["group"]].add_argument(*flags, **settings)
    given = vars(parser.parse_args(argv))
    if given.pop("list_recipes", False):
        sys.stdout.write(recipe_list() + "\n")
        parser.exit(0)
    run = given.pop("resume", None)
    try:
        if run is None:
            recipe = values_of(given["recipe"]) if given.get("recipe", "none") != "none" else {}
            return Options(**{**recipe, **given}).with_files(), None
        if given:
            raise ValueError(
                f"--resume continues a run with its own options; drop --{next(iter(given))}, or start a "
                "new run without --resume."
            )
        return load(Path(run)), Path(run)
    except (ValueError, OSError) as error:
        parser.exit(2, f"run_multitask.py: {error}\n")


def load(folder: Path) -> Options:
    """The options of the run in `folder`; ValueError where there is none."""
    path = folder / "options.json"
    if not path.is_file():
        raise ValueError(
            f"--resume {folder}: no run there (options.json is missing). Give a folder such as runs/NAME."
        )
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        options = Options(**stored["options"])
        stored["files"].keys()  # which the run compares with its input
        return options
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not the options of this version ({error}). Start a new run instead."
        ) from error


def choose_folder(options: Options) -> Path:
    """The folder of a new run, not created yet: OUTPUT_DIR/NAME; -2, -3, ... follow an automatic name in use."""
    parent = Path(options.output_dir)
    if options.name != AUTO:
        if options.name in ("", ".", "..") or Path(options.name).name != options.name:
            raise ValueError(
                f"--name is '{options.name}'; it must be the name of one folder. --output_dir says where."
            )
        if not is_free(parent / options.name):
            raise ValueError(
                f"{parent / options.name} exists. Pass --resume {in_shell(parent / options.name)} to "
                "continue it, or another --name."
            )
        return parent / options.name
    model, data = (Path(text).name for text in (options.model, options.data_dir))
    what = (
        f"{options.option}-{'-'.join(options.stages) or 'none'}"
        if options.recipe == "none"
        else options.recipe
    )
    stem = f"{what}-{model}-{data}-seed{options.seed}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(parent / name for name in names if is_free(parent / name))
