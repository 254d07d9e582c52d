"""From the fields of an option group to the flags of a command, and the look of its help.

`parse_command` reads the whole command line of a command. `add_flag` makes one flag, and
`shell_command` writes flags with their values. `Formatter` keeps lists in help texts. `Parser`
suggests the flag that a typo may have meant. argparse is enough for all of it, and answers at once.
"""

from __future__ import annotations

import argparse
import difflib
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, NoReturn

from minbert.commands.options import (
    NONE,
    Group,
    OptionGroup,
    all_fields,
    from_flat,
    shown_name,
    type_words,
)
from minbert.commands.registry import Registry
from minbert.commands.texts import as_message


def strict(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of numbers without underscores and digits of other scripts, which Python takes."""

    def read(text: str) -> Any:
        if "_" in text or not text.isascii():
            raise ValueError(f"{text!r} is no number")
        return kind(text)

    # argparse says this name: "invalid int value".
    read.__name__ = kind.__name__
    return read


# What makes a value of a word, by the type of the field.
READERS: dict[str, Callable[[str], Any]] = {
    "int": strict(int),
    "float": strict(float),
    "Path": Path,
    "tuple[Path, ...]": Path,
    "tuple[float, float]": strict(float),
}
METAVARS = {"int": "N", "float": "X"}
REPEATED = "tuple[str, ...]"  # the type of a flag that may be given several times
# Flags of transformers, sentence-transformers and their scripts, and what they are called here.
NAMES_ELSEWHERE = {
    "learning_rate": "lr",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "train_batch_size": "batch_size",
    "per_device_eval_batch_size": "batch_size",
    "gradient_accumulation_steps": "accumulation",
    "max_seq_length": "max_length",
    "model_name_or_path": "model",
    "model_name": "model",
    "output_dir": "out",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
    "lr_scheduler_type": "schedule",
    "early_stopping_patience": "patience",
    "pooling_mode": "pooling",
    "fp16": "precision",
    "bf16": "precision",
}
CLOSE = 0.7  # of difflib, from 0 to 1: how alike a typo and the flag that it means must be
MAX_WIDTH = 100  # columns of the help in a wide terminal


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

    help_flag = "--help"  # the flag that lists all flags

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit code 2."""
        self.exit(2, as_message(f"{self.prog}: {message}\n"))

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """The values of the flags; a flag that does not exist ends the program."""
        words = sys.argv[1:] if args is None else args
        # First: a typo in a flag that is required would be told as a missing flag.
        for word in words:
            if word == "--":
                break
            if word.startswith("--") and not self.knows(word.split("=")[0]):
                self.refuse(word)
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown[0])
        return parsed or argparse.Namespace()

    def knows(self, flag: str) -> bool:
        """Whether there is such a flag, or one that begins so where that is allowed."""
        flags = self._option_string_actions
        return flag in flags or (self.allow_abbrev and any(name.startswith(flag) for name in flags))

    def refuse(self, word: str) -> NoReturn:
        """Say that there is no such flag or argument, and which one may have been meant."""
        if not word.startswith("-"):
            self.error(f"unknown argument {word}; {self.help_flag} lists all arguments.")
        flags = self._option_string_actions
        # Without the dashes, which every flag has. They would make short names look alike.
        names = {flag.lstrip("-"): flag for flag in flags}
        name = word.split("=")[0].lstrip("-")
        close = difflib.get_close_matches(name, names, n=1, cutoff=CLOSE)
        known = NAMES_ELSEWHERE.get(name.replace("-", "_"), "")
        # In the spelling of the user.
        known = known.replace("_", "-") if "-" in name else known
        if known in names:
            close = [known]
        hint = (
            f"; did you mean {names[close[0]]}?"
            if close
            else f"; {self.help_flag} lists all flags."
        )
        self.error(f"unknown flag {word}{hint}")


def number_or_word(kind: Callable[[str], Any], word: object) -> Callable[[str], Any]:
    """The type of a flag whose default is a word, such as auto: that word, or a number."""

    # argparse says the name of this function: "invalid number value".
    def number(text: str) -> Any:
        return text if text == word else kind(text)

    return number


def text_of(item: Field) -> str:
    """The help text of a flag, followed by the list of its choices where a registry has them."""
    text = item.metadata["help"]
    lines = [text() if callable(text) else text]
    choices = item.metadata["choices"]
    if isinstance(choices, Registry):
        lines += choices.help_lines()
    return "\n".join(lines)


def help_of(item: Field) -> str:
    """The help text of a flag with its default."""
    default: Any = item.default
    text = text_of(item)
    is_nothing = default is None or (default == () and item.metadata["metavar"])
    if is_nothing or item.metadata["is_positional"]:
        return text.replace("%", "%%")
    if isinstance(default, bool):
        default = "off"
    elif isinstance(default, float):
        default = f"{default:g}"
    elif isinstance(default, tuple):
        default = " ".join(map(str, default)) or NONE
    # The default of a text that ends with a list has a line of its own.
    separator = "\n" if "\n- " in text else " "
    return f"{text}{separator}(default: {default})".replace("%", "%%")


def metavar_of(item: Field) -> str | tuple[str, ...] | None:
    """The word behind a flag in the help; None for the list of its choices."""
    if item.metadata["metavar"]:
        words = item.metadata["metavar"].removesuffix("...").split()
        return words[0] if len(words) == 1 else tuple(words)
    number = type_words(item)[0]
    if number in METAVARS:
        return METAVARS[number]
    if item.metadata["is_file"]:
        return "FILE"
    if item.metadata["choices"]:
        return "NAME" if "\n- " in text_of(item) else None
    return item.name.rpartition("_")[2].upper()


def add_flag(
    parser: argparse._ActionsContainer, item: Field, is_shown: bool = True, separator: str = "_"
) -> None:
    """Add one flag to a parser or to a section of it, such as --train_rows.

    Both spellings are accepted, --train_rows and --train-rows. separator: of the one that the help
    shows. is_shown: whether the help shows the flag.
    """
    settings = settings_of(item)
    settings["help"] = help_of(item) if is_shown else argparse.SUPPRESS
    if item.metadata["is_positional"]:
        # argparse makes the name of the value from the first argument.
        parser.add_argument(item.name, **settings)
        return
    settings["dest"] = item.name
    shown = shown_name(item, separator)
    other = shown_name(item, "_" if separator == "-" else "-")
    if item.metadata["is_required"]:
        # One flag, so that either spelling is enough.
        parser.add_argument(*dict.fromkeys([shown, other]), required=True, **settings)
        return
    parser.add_argument(shown, **settings)
    if other != shown:
        parser.add_argument(other, **{**settings, "help": argparse.SUPPRESS})


def settings_of(item: Field) -> dict[str, Any]:
    """What argparse must know of a flag, besides its names and its help."""
    word, *others = [word for word in type_words(item) if word != "None"]
    if word == "bool":
        return {"action": "store_true"}
    metavar = metavar_of(item)
    settings: dict[str, Any] = {"metavar": metavar}
    is_optional = item.metadata["is_positional"] and not item.metadata["is_required"]
    if item.metadata["metavar"].endswith("..."):
        settings["nargs"] = "*" if is_optional else "+"
    elif is_optional:
        settings["nargs"] = "?"
        # argparse would make a value of the word that stands for no default.
        settings["default"] = item.default
    elif isinstance(metavar, tuple):
        settings["nargs"] = len(metavar)
    elif item.type == REPEATED:
        settings["action"] = "append"
        return settings
    kind = READERS.get(word, str)
    settings["type"] = number_or_word(kind, item.default) if others else kind
    settings["choices"] = item.metadata["choices"] or None
    return settings


def parser_of(cls: type[OptionGroup], program: str, description: str, epilog: str = "") -> Parser:
    """The parser of a command. Values that are not given are left out of its result."""
    parser = Parser(
        prog=program,
        description=description,
        epilog=epilog or None,
        formatter_class=Formatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for item in all_fields(cls):
        add_flag(parser, item, separator=cls.separator)
    return parser


def parse_command(
    cls: type[Group],
    program: str,
    description: str,
    arguments: Sequence[str] | None = None,
    epilog: str = "",
) -> Group:
    """The options of a command line. arguments: its words; None: those of this process.

    A wrong flag ends the program with exit code 2. ValueError for values that the options refuse.
    """
    parser = parser_of(cls, program, description, epilog)
    return from_flat(cls, vars(parser.parse_args(arguments)))


def shell_command(program: Sequence[str], values: Mapping[str, Any], separator: str = "_") -> str:
    """The command that gives flags these values, for a shell: a line for each flag.

    program: its words before the flags. values: by the names of fields, such as train_rows; a bool
    is True. separator: as in `add_flag`.
    """
    lines = [shlex.join(program)]
    for name, value in values.items():
        flag = f"--{name.replace('_', separator)}"
        if value is True:
            lines.append(flag)
            continue
        for item in value if isinstance(value, tuple) else (value,):
            text = str(item)
            # Behind a blank, a text such as -1.csv would be read as a flag.
            words = [f"{flag}={text}"] if text.startswith("-") else [flag, text]
            lines.append(shlex.join(words))
    return " \\\n    ".join(lines)
