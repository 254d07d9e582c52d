"""Which records may stand in one row of a table, and which rows may be compared.

The mean of a row is the mean of one experiment: its runs differ in their seed alone. A method and
its control differ in the method alone, and they read the same data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.flags import normalise
from experiments.recipes import values_of
from experiments.records import (
    Record,
    as_stored,
    changed_options,
    data_files,
    default_options,
    unrecorded_options,
)
from experiments.series import Series
from minbert.commands.options import AUTO

# Options that say how a machine computes, or what is left out beside the training. The line below a
# table names the machine.
MACHINE_OPTIONS = ("device", "use_gpu", "precision", "attention", "skip")
# Options whose "auto" follows from the options of a recipe, so that its control may have others.
FOLLOWING_OPTIONS = (
    "pair_encoding",
    "score",
    "max_length",
    "single_task_lr",
    "mlm_lr",
    "contrastive_sentences",
    "contrastive_temperature",
    "contrastive_projection",
    "contrastive_chunk",
)
NO_RECIPE = "none"  # of a run that was started without --recipe
# An option that a record of another program does not have, such as that of a plugin.
ABSENT = "absent"

ADVICE = (
    "Give --record another name, leave out the flags that differ, or remove the older lines of "
    "this recipe from the file."
)


def compared_options(record: Record) -> dict[str, Any]:
    """Return the options of a record that say what was computed.

    An option of a run that holds nothing, such as no --task, is the same as none.
    """
    compared = {}
    for name, value in record["options"].items():
        if name not in MACHINE_OPTIONS and value != []:
            compared[name] = value
    return compared


def find_differences(
    first: Mapping[str, Any], other: Mapping[str, Any], free: Collection[str] = ()
) -> list[str]:
    """Return the options whose values differ, such as "--lr is 0.001 and 0.0005".

    first, other: options by name, without those that have their default. free: options that may
    differ beside MACHINE_OPTIONS.
    """
    defaults = default_options()
    sentences = []
    for name in sorted((first.keys() | other.keys()) - {*MACHINE_OPTIONS, *free}):
        default = defaults.get(name, ABSENT)
        values = [text_of(options.get(name, default)) for options in (first, other)]
        if normalise(values[0]) != normalise(values[1]):
            sentences.append(f"--{name} is {values[0]} and {values[1]}")
    return sentences


def text_of(value: object) -> str:
    """Return a value of an option as text. The values of a repeated flag have a line each."""
    stored = as_stored(value)
    return "\n".join(map(str, stored)) if isinstance(stored, list) else str(stored)


def check_row(title: str, records: Sequence[Record]) -> None:
    """Raise ValueError where the records of a row are not one experiment.

    title: of the row. The options and the data must be the same. The seed, the machine and the
    code may differ. The line below a table names machines and commits.
    """
    for other in records[1:]:
        first = records[0]
        causes = find_differences(compared_options(first), compared_options(other))
        if first["data"] != other["data"]:
            causes.append("the data are not the same")
        if first.get("plugins") != other.get("plugins"):
            causes.append("the files of --plugin are not the same")
        if causes:
            raise ValueError(
                f"the records of {title} with the seeds {first['seed']} and {other['seed']} are "
                f"two experiments: {'; '.join(causes)}. One mean would mix them."
            )


def check_recipe(record: Record) -> None:
    """Raise ValueError where a record has other options than its recipe.

    Options whose default is "auto" and that the recipe does not set are free: a run replaces the
    word by a value. Options of plugins are free, too.
    """
    recipe = record["recipe"]
    values = {name: value for name, value in values_of(recipe).items() if value != AUTO}
    defaults = default_options()
    options = compared_options(record)
    free = {name for name in options if defaults.get(name, AUTO) == AUTO} - values.keys()
    causes = find_differences(values, options, free)
    if causes:
        raise ValueError(
            f"a record of {recipe} with seed {record['seed']} has other options than the recipe: "
            f"{'; '.join(causes)}. Remove its line from the file, or measure the recipe again."
        )


def check_runs(
    run: Mapping[str, Any],
    control: Mapping[str, Any],
    names: tuple[str, str] | None = None,
    free: Collection[str] = (),
) -> None:
    """Raise ValueError where a run and its control differ in more than their recipes.

    run, control: the content of their run.json. names: of both in the table, by default their
    recipes. free: options in which they may differ, those of two arms.

    Two recipes may read different files, such as those of --nli. Files that both read must be the
    same. A run of an older version does not say what it has read.
    """
    records = []
    for item in (run, control):
        recipe = item["options"]["recipe"]
        records.append({"recipe": recipe, "options": changed_options(item["options"])})
    causes = differences_of_pair(records[0], records[1], free)

    files = []
    for item in (run, control):
        digests = data_files({"files": {}, **item})
        files.append({Path(path).name: sha256 for path, sha256 in digests.items()})
    for name in sorted(files[0].keys() & files[1].keys()):
        if files[0][name] != files[1][name]:
            causes.append(f"{name} is not the same file")
    first, second = names or [record["recipe"] for record in records]
    refuse_pair(first, second, run["options"].get("seed", "?"), causes)


def differences_of_pair(run: Record, control: Record, of_arms: Collection[str] = ()) -> list[str]:
    """Return the options that differ and that neither recipe sets.

    run, control: of each, the recipe and the options are read. of_arms: options that may differ.
    """
    of_recipes = set(of_arms)
    for record in (run, control):
        if record["recipe"] != NO_RECIPE:
            of_recipes |= values_of(record["recipe"]).keys()
    free = {*of_recipes, *FOLLOWING_OPTIONS}
    # The learning rate follows from --option.
    free |= {"lr"} if "option" in of_recipes else set()
    # Options of a plugin belong to its method.
    known = default_options()
    free |= {name for name in run["options"] if name not in known}
    return find_differences(compared_options(run), compared_options(control), free)


def refuse_pair(name: str, control: str, seed: object, causes: Sequence[str]) -> None:
    """Raise ValueError where there are causes why a run cannot be compared with its control."""
    if causes:
        raise ValueError(
            f"{name} cannot be compared with {control} for seed {seed}: {'; '.join(causes)}. Run "
            "both with the same flags and the same data."
        )


# --- before a run is recorded ---------------------------------------------------------------------


def check_fits(series: Series, path: Path, records: Sequence[Record]) -> None:
    """Raise ValueError where runs of a series would not fit the records of a file.

    path: of the file. Nothing has run yet, so only the options that recipe and flags set are known.
    """
    unrecorded = unrecorded_options()
    defaults = default_options()
    for name in series.names:
        expected = {}
        for option, value in series.expected_options(name).items():
            if option not in unrecorded and value != AUTO:
                expected[option] = value

        for record in records:
            if record["recipe"] != name:
                continue
            options = compared_options(record)
            # A run replaces "auto", so its record has options that nobody set.
            free = {option for option in options if defaults.get(option, AUTO) == AUTO}
            causes = find_differences(expected, options, free - expected.keys())
            if causes:
                raise ValueError(
                    f"{path} has runs of {name} that are another experiment than this command asks "
                    f"for: {'; '.join(causes)}. {ADVICE}"
                )


def check_new(path: Path, records: Sequence[Record], new: Record) -> None:
    """Raise ValueError where a finished run does not fit the records of its recipe in a file."""
    same = [record for record in records if record["recipe"] == new["recipe"]]
    try:
        check_row(new["recipe"], [*same, new])
    except ValueError as error:
        raise ValueError(f"{path}: {error} {ADVICE} This run was not recorded.") from error
