"""From a command line to Options. No torch here.

The flags are made from the fields of the option groups: one section of the help per group.
Next: folders.py, which finds the folder of the run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command_line.course_flags import translate
from command_line.folders import load
from command_line.options import Options, RunOptions
from contrastive.options import ContrastiveOptions
from contrastive.registry import METHODS
from data.examples import BUILT_IN_FILES
from data.options import DataOptions, InputFileOptions
from minbert.commands import plugins
from minbert.commands.flags import Formatter, Parser, add_flag
from minbert.commands.launcher import training_command
from minbert.commands.options import (
    AUTO,
    NONE,
    OptionGroup,
    all_fields,
    direct_fields,
    flat,
    groups_of_methods,
)
from minbert.commands.outputs import check_no_links
from minbert.commands.paths import behind_link, in_shell, real_path
from minbert.options import EncoderOptions
from minbert.pretraining.options import MlmOptions
from minbert.training.options import TrainingOptions
from multitask.options import (
    ENOUGH_STEPS,
    FEW_PAIRS,
    FineTuningOptions,
    HeadOptions,
    PredictionFileOptions,
    TaskOptions,
)

PROGRAM = "run_multitask.py"
# With them, a cosine may have nothing to train, or the vectors are not those that are measured.
VECTOR_FLAGS = {"option", "heads_first", "pooling", "regulariser"}

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
    MlmOptions: "only with --pretrain mlm (minbert.pretraining)",
    InputFileOptions: "input files, instead of those in --data_dir",
    PredictionFileOptions: "leaderboard files, instead of those in the run's folder",
}
DESCRIPTION = (
    "Train one encoder on several tasks, after the stages of --pretrain, and write the files of "
    "predictions.\n\nExample: {command} --option finetune --pretrain simcse"
)
HELP_HINT = "These are the most common flags. `{command} --help-all` shows all flags."
SPELLING = "Every flag may be written with _ or with -, such as --data_dir or --data-dir."


def all_sections() -> dict[str, list[type[OptionGroup]]]:
    """The option groups in each section of the help.

    The own options of samplers, surgeries and heads stand beside --sampling, --surgery and --head.
    Those of a contrastive method have a section of their own.
    """
    sections: dict[str, list[type[OptionGroup]]] = {}
    for cls, title in SECTIONS.items():
        sections[title] = [cls]
        for group in groups_of_methods(cls):
            if group not in METHODS.groups():
                sections[title].append(group)
                continue
            names = METHODS.readers(direct_fields(group)[0].name)
            of_methods = f"only with --pretrain {' or '.join(names)}"
            sections.setdefault(of_methods, []).append(group)
    return sections


class MainParser(Parser):
    """The parser of this command, whose --help shows the common flags only."""

    help_flag = "--help-all"


class HelpAll(argparse.Action):
    """--help-all: the help with all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        build_parser(shows_all=True).print_help()
        parser.exit()


def build_parser(shows_all: bool = False) -> MainParser:
    """The parser of all flags. Its help shows the common ones, or all of them."""
    command = " ".join(training_command())
    hint = HELP_HINT.format(command=command)
    parser = MainParser(
        prog=PROGRAM,
        usage=f"{command} [--FLAG VALUE ...]",
        description=DESCRIPTION.format(command=command),
        epilog=SPELLING if shows_all else f"{hint}\n{SPELLING}",
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
    for title, groups in all_sections().items():
        section = parser.add_argument_group(title)
        if RunOptions in groups:
            section.add_argument(
                "--resume",
                metavar="RUN",
                help="Continue the run in this folder. Other flags are refused, except for the "
                "paths of leaderboard files, and --plugin for a run with plugins.",
            )
        for group in groups:
            for item in direct_fields(group):
                add_flag(section, item, shows_all or item.metadata["is_common"])
    return parser


def load_plugins(argv: Sequence[str] | None) -> None:
    """Run the files of --plugin, so that their names are choices and their options have flags.

    A file that cannot be used ends the program with exit code 2 and a message.
    """
    parser = MainParser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", action="append", default=[])
    values, _ = parser.parse_known_args(argv)
    try:
        for path in plugins.paths_in(values.plugin):
            check_option_names(plugins.load(path))
    except plugins.PluginError as error:
        parser.exit(2, f"{PROGRAM}: {error}\n")


def check_option_names(plugin: plugins.Plugin) -> None:
    """PluginError where an option of a plugin has the name of another option."""
    names = [item.name for item in all_fields(Options)]
    for group in plugin.groups():
        for item in direct_fields(group):
            if names.count(item.name) > 1:
                raise plugins.PluginError(
                    f"--plugin {plugin.path}: its option {group.__name__}.{item.name} has the name "
                    f"of another option, --{item.name}. Choose another name."
                )


def parse(argv: Sequence[str] | None = None) -> tuple[Options, Path | None]:
    """The options of a command line, and the folder of --resume.

    A wrong flag or combination ends the program with exit code 2 and a message.
    """
    parser = MainParser(prog=PROGRAM, add_help=False)
    try:
        words = translate(sys.argv[1:] if argv is None else argv)
    except ValueError as error:
        parser.error(str(error))
    load_plugins(words)
    parser = build_parser()
    values = vars(parser.parse_args(words))
    if values.pop("list_recipes", False):
        from experiments.recipes import recipe_list

        sys.stdout.write(recipe_list() + "\n")
        parser.exit(0)

    # Making the options checks them. Every refusal ends as a wrong flag does.
    run = values.pop("resume", None)
    try:
        if run is None:
            return options_of(values), None
        check_resumed(values)
        folder = behind_link(Path(run))
        stored = load(folder)
        return stored.with_values(**trusted_places(stored, values, folder)), folder
    except (ValueError, OSError) as error:
        parser.exit(2, f"{PROGRAM}: {error}\n")


def check_resumed(flags: dict[str, Any]) -> None:
    """Refuse flags beside --resume, except the paths of predictions, and the run's plugins.

    --plugin is taken out: the run has its own list.
    """
    flags.pop("plugin", None)
    free = [item.name for item in direct_fields(PredictionFileOptions)]
    for name in flags:
        if name not in free:
            raise ValueError(
                f"--resume continues a run with its own options; drop --{name}, or start a new run "
                "without --resume. Only the paths of the leaderboard files may change. --plugin "
                "names the run's own plugins."
            )


def trusted_places(stored: Options, flags: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The flags of --resume, with which nothing is written outside the run's folder unasked.

    The folder may come from someone else. ValueError for a link in it that leads out of it, and for
    a file of predictions outside of it that the user has not named in this command.

    stored: the options of the run.
    """
    check_no_links(folder)
    values = dict(flags)
    stored_paths = flat(stored.multitask.files)
    stored_paths.pop("overwrite")
    for name, path in stored_paths.items():
        is_inside = real_path(folder) in real_path(path).parents
        if path != AUTO and not is_inside and name not in flags:
            raise ValueError(
                f"--resume {folder}: its options.json sends predictions to {path}, which is not in "
                f"its folder. Add --{name} {in_shell(Path(path))} if they shall go there, or "
                f"--{name} auto."
            )
    # Files of others are replaced only if this command says so.
    values.setdefault("overwrite", False)
    # Token ids are kept in the user's own cache, wherever the run kept them.
    if stored.data.token_cache != NONE:
        values["token_cache"] = AUTO
    return values


def options_of(flags: dict[str, Any]) -> Options:
    """The options of a new run: those of --recipe, with the flags in place of them."""
    values = dict(flags)
    recipe = flags.get("recipe", NONE)
    if recipe != NONE:
        # Imported here, because few runs need it.
        from experiments.recipes import values_of

        values = {**values_of(recipe), **flags}
    if "plugin" in values:
        values["plugin"] = plugins.paths_in(values["plugin"])
    options = Options.of(**values).with_files()
    # The epochs of a table of the user follow its size, unless the user has said how many.
    is_own = not BUILT_IN_FILES.keys() & set(options.multitask.tasks.order)
    if is_own and not {"epochs", "least_steps"} & values.keys():
        options = options.with_values(least_steps=ENOUGH_STEPS)
    # So does the head of few pairs, unless the user has said anything about heads or vectors.
    about_heads = {item.name for item in all_fields(HeadOptions)} & values.keys()
    if "few_pairs" in about_heads and len(about_heads) > 1:
        raise ValueError(
            f"--few_pairs chooses the head, so --{min(about_heads - {'few_pairs'})} would have no "
            "effect. Drop one of the two."
        )
    if is_own and not about_heads | (VECTOR_FLAGS & values.keys()):
        options = options.with_values(few_pairs=FEW_PAIRS)
    return options
