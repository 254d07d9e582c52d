"""Which finished or begun runs may be counted in one table.

The mean of a table row must be the mean of one experiment. So its runs must come from the same
recipe and have the same options. Only the seed and the folder may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.flags import has_raised_epochs, is_different, normalise, parse_flags
from experiments.records import default_options
from experiments.run_files import read_json, read_record
from experiments.series import Series
from minbert.commands.files import digest_of_file
from minbert.training.code_version import name_of

# Options in which the runs of one experiment may differ.
FREE_OPTIONS = {"seed", "name", "output_dir"}


class BegunRun(NamedTuple):
    """A run that is finished or was begun."""

    folder: Path
    options: dict[str, Any]


def check_series(series: Series) -> None:
    """Check all runs that are there, and the files that the missing ones need.

    Nothing has run yet. Raises ValueError with the folder, what is wrong and what to do.
    """
    for name in series.names:
        check_same(series.recipe_of(name), series.folders(name), series.flags_of(name))
        for folder in series.folders(name):
            if (folder / "run.json").is_file():
                read_record(folder)
        check_triplets(series, name)


def check_same(recipe: str, folders: Sequence[Path], flags: Sequence[str]) -> None:
    """Check that the runs in these folders belong to one experiment. Folders may be missing.

    Raises ValueError where a run is of another recipe, where it has other options than the flags
    ask for, or where two runs differ in more than seed and folder.
    """
    runs = []
    for folder in folders:
        path = folder / "options.json"
        if path.is_file():
            runs.append(BegunRun(folder, read_json(path, "options")["options"]))

    for run in runs:
        check_recipe(run, recipe)
        check_flags(run, flags)
    for run in runs[1:]:
        check_equal(runs[0], run)


def check_recipe(run: BegunRun, recipe: str) -> None:
    """Raise ValueError where a run is of another recipe."""
    stored = run.options.get("recipe")
    if stored != recipe:
        raise ValueError(f"{run.folder} holds a run of recipe {stored}, not of {recipe}. Move it.")


def check_flags(run: BegunRun, flags: Sequence[str]) -> None:
    """Raise ValueError where a run has other options than the flags ask for."""
    asked = parse_flags(flags)
    for name, text in asked.items():
        if name not in run.options:
            if name in default_options():
                raise ValueError(
                    f"--with has --{name}, and another version made the run in {run.folder}, "
                    "without this option. Move the run, or leave out the flag."
                )
            raise ValueError(
                f"--with has --{name}, which is no option of run_multitask.py. Correct the flag."
            )
        if "least_steps" in asked and has_raised_epochs(run.options, name, text):
            continue
        if is_different(run.options[name], text):
            raise ValueError(
                f"{run.folder} has --{name} {run.options[name]}, and --with asks for {text}. It is "
                "not run again: move it, give another --out, or no --with, for a table of what is "
                "finished."
            )


def check_equal(first: BegunRun, other: BegunRun) -> None:
    """Raise ValueError where two runs differ in more than seed and folder."""
    # One run may come from a newer version, which has more options.
    shared = first.options.keys() & other.options.keys()
    for name in sorted(shared - FREE_OPTIONS):
        values = first.options[name], other.options[name]
        if normalise(values[0]) != normalise(values[1]):
            raise ValueError(
                f"{first.folder} has --{name} {values[0]} and {other.folder} {values[1]}: one mean "
                "would mix two experiments. Give the series one --with, or another --out."
            )


def check_triplets(series: Series, name: str) -> None:
    """Raise ValueError where a run that is not begun needs triplets and --with names no file."""
    options = series.expected_options(name)
    stages = options.get("pretrain", "").split(",")
    path = options.get("nli", "none")

    are_begun = all((folder / "options.json").is_file() for folder in series.folders(name))
    if "simcse-nli" in stages and not are_begun and not Path(path).is_file():
        raise ValueError(
            f"{name} reads triplets, and --nli in --with is {path}, no file. Add --nli FILE, or "
            "give this recipe a command of its own with the same --out."
        )


def find_doubts(
    series: Series, name: str, folder: Path, record: dict[str, Any], code: dict[str, str]
) -> list[str]:
    """Return a line for each reason why a finished run may not be what the command asks for.

    Reasons are options other than those of the recipe and the flags, a file that has changed since
    the run read it, such as that of --plugin, and code other than today's.
    """
    lines = []
    for option, expected in series.expected_options(name).items():
        if option not in record["options"]:
            lines.append(
                f"{folder}: its version has no --{option}, which {name} sets to {expected}; remove "
                "it to have it made anew"
            )
            continue
        stored = record["options"][option]
        if is_different(stored, str(expected)):
            lines.append(
                f"{folder}: has --{option} {stored}, where {name} says {expected}: flags of an "
                "earlier --with won, or the recipe was edited since; remove it to have it made anew"
            )

    # A file that is gone may have stood in a temporary folder.
    for path, digest in record.get("files", {}).items():
        if Path(path).is_file() and digest_of_file(Path(path)) != digest:
            lines.append(
                f"{folder}: {path} has changed since the run read it; remove the run to have it "
                "made anew"
            )

    run_code = record.get("code")
    if run_code is None:
        lines.append(
            f"{folder}: run.json does not say which code made it; remove it to have it made anew"
        )
    elif run_code["sha256"] != code["sha256"]:
        lines.append(
            f"{folder}: made by other code than this ({name_of(run_code)}); remove it to have it "
            "made anew"
        )
    return lines
