"""The control of each method, and which runs `--record methods` takes.

A method is compared with its control seed by seed. Both have read the same data, and their options
are those of their recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from data.options import SAMPLE_FOLDER
from experiments.comparable import MACHINE_OPTIONS, check_recipe, check_row
from experiments.flags import parse_flags
from experiments.known_data import digest_of_data, known_data
from experiments.records import RECORDS, Record, group_records, newest_of
from experiments.series import Series

METHODS = RECORDS / "methods.jsonl"

# A method, and the run that differs from it in the method alone.
CONTROLS = {
    "r-drop": "defaults",
    "smart": "defaults",
    "smart-larger": "defaults",
    "averaging-ema": "defaults",
    "averaging-swa": "averaging-swa-control",
    "soup": "defaults",
    "single-task-epochs": "defaults",
    "surgery-pcgrad": "surgery-sum",
    "surgery-gradvac": "surgery-sum",
    "surgery-cagrad": "surgery-sum",
    "surgery-upgrad": "surgery-sum",
}
# Flags that runs for these tables may have. Every other one would make another experiment.
FREE_FLAGS = (*MACHINE_OPTIONS, "plugin", "token_cache")


Runs = Mapping[int, Record]


def by_seed(records: Sequence[Record]) -> dict[int, Record]:
    """Return the newest record of each seed, in the order of the seeds."""
    newest = newest_of(records, lambda record: record["seed"])
    return {record["seed"]: record for record in sorted(newest, key=lambda record: record["seed"])}


def check_flags(series: Series) -> None:
    """Raise ValueError where runs of a series would not belong into the tables of methods.

    Nothing has run yet.
    """
    for name in series.names:
        if name not in {*CONTROLS, *CONTROLS.values()}:
            raise ValueError(
                f"the tables of --record methods compare each recipe with its control, and {name} "
                "has none. Add it to CONTROLS in experiments/controls.py, or give --record "
                "another name."
            )
    for option in parse_flags(series.flags):
        if option not in FREE_FLAGS:
            raise ValueError(
                "--record methods takes runs with the options of their recipes, and --with has "
                f"--{option}. Drop it, or give --record another name."
            )


def check_sample(records: Sequence[Record]) -> None:
    """Raise ValueError where the bundled sample is not the data of the tables of methods.

    Nothing has run yet. records: those of the tables.
    """
    for record in records[:1]:
        if digest_of_data(SAMPLE_FOLDER, record) != record["data"]:
            known = known_data().get(record["data"])
            raise ValueError(
                "--record methods takes runs on the data of its records, which are of "
                f"{known.name if known else 'other data'}. The bundled sample has other rows "
                "today. Measure the control as well, and give --record another name."
            )


def check_methods(records: Sequence[Record]) -> dict[str, Runs]:
    """Return the runs of each recipe by their seed, after a check that one table may hold them.

    Raises ValueError where a record has other options than its recipe, where the records of a
    recipe are two experiments, or where the records come from several data.
    """
    of_recipe: dict[str, Runs] = {}
    for name, group in group_records(records, "recipe").items():
        of_recipe[name] = by_seed(group)

    first: Record | None = None
    for name, runs in of_recipe.items():
        for record in runs.values():
            check_recipe(record)
            first = first or record
            if record["data"] != first["data"]:
                raise ValueError(
                    f"{name} with seed {record['seed']} has read other data than "
                    f"{first['recipe']}, and one table would mix them. Keep the records of one "
                    "data set, and measure the others again with --record methods."
                )
        check_row(name, list(runs.values()))
    return of_recipe
