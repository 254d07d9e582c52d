"""The command line of `python -m contrastive.train`. No torch here.

A setting of the stage has the name that run_multitask.py gives it, and a short one: --steps stands
for --contrastive_steps. The help shows the short one.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.options import RANDOM_WORDS, ContrastiveOptions
from contrastive.registry import METHODS, list_methods
from contrastive.train.options import LEFT_OUT, PREFIX, StageOptions, TrainOptions
from contrastive.train.texts import is_task
from data.options import folder_of_data
from minbert.commands import plugins
from minbert.commands.files import DamagedFile, read_json
from minbert.commands.flags import Formatter, Parser, add_flag
from minbert.commands.new_folders import refuse_taken
from minbert.commands.options import (
    OptionGroup,
    all_fields,
    direct_fields,
    flat,
    from_flat,
    groups_of_methods,
    type_words,
)
from minbert.commands.outputs import check_no_links
from minbert.commands.paths import is_free
from minbert.options import EncoderOptions
from minbert.training.code_version import writer_of
from minbert.training.options import TrainingOptions

PROGRAM = "python -m contrastive.train"
DESCRIPTION = (
    "Trains one contrastive stage, and no task. The trained encoder is in DIR/encoder.\n\n"
    f"Example: {PROGRAM} sg-opt --model minbert-mini --text sts --out runs/sg-opt"
)
SPELLING = "Every flag may be written with - or with _, such as --batch-size or --batch_size."
SECTIONS: dict[str, type[OptionGroup]] = {
    "the stage": ContrastiveOptions,
    "the encoder": EncoderOptions,
    "every training stage": TrainingOptions,
}
HELP_OF_RESUME = "continue the run in this folder; no other flag but --plugin"
HELP_OF_PLUGIN = "a Python file that registers a method of your own; it is run"
PLUGIN = "plugin"

# No task follows that could take the encoder before the stage instead, so this option has no flag.
ALWAYS = {"hand_on": "trained"}


class Run(NamedTuple):
    """What a command line asks for.

    plugins: the files of --plugin. is_resumed: whether the run in options.stage.out goes on.
    """

    options: TrainOptions
    plugins: tuple[str, ...]
    is_resumed: bool

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.options.stage.out

    def stored(self) -> dict[str, Any]:
        """All options as options.json holds them."""
        values: dict[str, Any] = {}
        for name, value in flat(self.options).items():
            values[name] = str(value) if isinstance(value, Path) else value
        return {**values, PLUGIN: list(self.plugins)}


def parse(argv: Sequence[str] | None = None) -> Run:
    """The run that a command line asks for; with --resume the one that began in that folder.

    A wrong flag ends the program with exit code 2. ValueError for values that are refused.
    """
    first = Parser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    first.add_argument("--resume", type=Path)
    first.add_argument("--plugin", action="append", default=[])
    begun, others = first.parse_known_args(argv)
    # The methods of these files are known from here on, and their options have flags.
    plugins.load_named(begun.plugin)
    if begun.resume is not None:
        if others:
            raise ValueError(
                f"--resume continues a run with its own options; drop {others[0]}, or start a new "
                "run without --resume."
            )
        return load(begun.resume)

    run = new_run(argv)
    if not is_free(run.folder):
        refuse_taken(f"--out {run.folder}", run.folder, load, "another folder")
    return run


def new_run(argv: Sequence[str] | None) -> Run:
    """The run of a command line without --resume. Whether its folder is free is not checked."""
    values = vars(build_parser().parse_args(argv))
    paths = plugins.paths_in(values.pop(PLUGIN, ()))
    options = from_flat(TrainOptions, with_long_names(values) | ALWAYS)
    return Run(options, paths, is_resumed=False)


@contextmanager
def short_flags() -> Iterator[None]:
    """Within it, an error names a setting as this command's help does: --steps."""
    try:
        yield
    except ValueError as error:
        message = str(error).replace(f"--{PREFIX}", "--")
        if message == str(error):
            raise
        raise ValueError(message) from error


def build_parser() -> Parser:
    """The parser of all flags."""
    parser = Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=f"{list_methods()}\n\n{SPELLING}",
        formatter_class=Formatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for item in direct_fields(StageOptions):
        add_flag(parser, item, separator="-")
    parser.add_argument("--resume", type=Path, metavar="DIR", help=HELP_OF_RESUME)
    parser.add_argument("--plugin", action="append", metavar="FILE", help=HELP_OF_PLUGIN)
    for title, cls in SECTIONS.items():
        section = parser.add_argument_group(title)
        for item in direct_fields(cls):
            add_names(section, item)
    for cls in groups_of_methods(ContrastiveOptions):
        readers = METHODS.readers(direct_fields(cls)[0].name)
        section = parser.add_argument_group(f"only with {' or '.join(readers)}")
        for item in direct_fields(cls):
            add_names(section, item)
    return parser


def add_names(section: argparse._ArgumentGroup, item: Field) -> None:
    """Add the flag of an option under its short name, and without help under its long one."""
    if item.name in LEFT_OUT:
        return
    if not item.name.startswith(PREFIX):
        add_flag(section, item, separator="-")
        return
    short = copy.copy(item)
    short.name = item.name.removeprefix(PREFIX)
    add_flag(section, short, separator="-")
    add_flag(section, item, is_shown=False, separator="-")


def with_long_names(flags: dict[str, Any]) -> dict[str, Any]:
    """The values of flags by the names of their options. Paths are absolute.

    So --resume finds the files from any folder.
    """
    # schedule and warmup are options of the tasks as well, which have no flag here.
    names = {item.name for item in all_fields(TrainOptions)} - set(LEFT_OUT)
    values = {name if name in names else PREFIX + name: value for name, value in flags.items()}
    if "dev" in values:
        values["dev"] = values["dev"].absolute()
    if "data_dir" in values:
        values["data_dir"] = folder_of_data(values["data_dir"]).absolute()
    for name in ("model", "teacher"):
        if name in values and Path(values[name]).is_dir():
            values[name] = str(Path(values[name]).absolute())
    texts = []
    for text in values.get("text", ()):
        is_word = text == RANDOM_WORDS or is_task(text)
        texts.append(text if is_word else str(Path(text).absolute()))
    return {**values, "text": tuple(texts)}


def load(folder: Path) -> Run:
    """The run that began in a folder. ValueError where there is none, or one of another version."""
    content = None
    check_no_links(folder)
    try:
        content = read_json(folder / "options.json")
        stored = dict(content["options"])
        paths = tuple(stored.pop(PLUGIN))
        plugins.check_named(paths, content["files"], f"--resume {folder}")
        for item in all_fields(TrainOptions):
            if "Path" in type_words(item) and stored[item.name] is not None:
                stored[item.name] = Path(stored[item.name])
        options = from_flat(TrainOptions, stored | ALWAYS | {"out": folder})
    except plugins.PluginError:
        raise
    except DamagedFile as error:
        raise ValueError(f"--resume {folder}: options.json cannot be used: {error}.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--resume {folder}: no run of contrastive.train there, or of another version "
            f"(options.json: {error}{writer_of(content)}). Give the folder of --out."
        ) from error
    return Run(options, paths, is_resumed=True)
