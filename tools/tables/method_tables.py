"""The tables that compare training methods: each beside the same run without it.

The first tables hold comparisons of recipes.py on the bundled sample, which everybody has. The
others hold runs with MiniLM on the whole course data.

A row holds the runs of one experiment. Two rows are compared seed by seed, where both have read the
same data with the same other options. Records that break this rule are refused (comparable.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.comparable import check_pair, check_row, compared_options
from experiments.conditions import describe_code, join, measured_on, not_measured
from experiments.controls import CONTROLS, METHODS, Runs, by_seed, check_methods
from experiments.records import RECORDS, Record, read_records
from experiments.tables import (
    COLUMNS,
    OVERALL,
    differences_of,
    format_difference,
    format_head,
    format_row,
    format_scores,
    score_cells,
)

COURSE = RECORDS / "course-minilm.jsonl"
SCORES = [column.score for column in COLUMNS]
TITLES = [column.title for column in COLUMNS]

# A task's own model is only kept where it is better, so the difference cannot be negative. The rule
# for differences does not apply to these methods.
NEVER_WORSE = {"single-task-epochs"}
# --- runs on the course's data --------------------------------------------------------------------

# All options of a run that differ from their defaults, by the name of its row.
MINILM: dict[str, Any] = {
    "model": "minilm",
    "sampling": "annealed",
    "score": OVERALL,
    "pair_encoding": "cross",
    "para_prior": 0.37,
    "common_layer": "none",
    "epochs": 2,
    "lr": 7e-5,
}
NO_DROPOUT = MINILM | {"encoder_dropout": 0.0, "attention_dropout": 0.0}
COURSE_ROWS: dict[str, dict[str, Any]] = {
    "dropout 0.1, the model's own": MINILM,
    "dropout 0.1 and R-Drop": MINILM | {"regulariser": "r-drop"},
    "no dropout": NO_DROPOUT,
    "no dropout, EMA": NO_DROPOUT | {"averaging": "ema"},
    "no dropout, text labelled by an ensemble": NO_DROPOUT | {"batch_size": 64, "lr": 1e-4},
    # Its scores are those after the joint stage. Each task alone was not finished.
    "the same, batches of 32": NO_DROPOUT | {"single_task_epochs": 1, "single_task_lr": 7e-5},
}
# A row, and the row whose scores are subtracted. R-Drop needs dropout. So it is also compared with
# the run without any, which differs from it in two choices. The last two rows of COURSE_ROWS have
# no control: their training rows are others.
COURSE_PAIRS = (
    ("dropout 0.1 and R-Drop", "dropout 0.1, the model's own"),
    ("no dropout", "dropout 0.1, the model's own"),
    ("dropout 0.1 and R-Drop", "no dropout"),
    ("no dropout, EMA", "no dropout"),
)


def difference_cells(runs: Runs, controls: Runs, is_judged: bool = True) -> list[str]:
    """Return how many seeds both have, and the mean difference of each score over them.

    is_judged: whether the cells say if a difference is a hint or clear. Raises ValueError where a
    run and its control have read other data.
    """
    seeds = [seed for seed in runs if seed in controls]
    for seed in seeds:
        if runs[seed]["data"] != controls[seed]["data"]:
            raise ValueError(
                f"the runs of seed {seed} have read other data than their controls. Run both on "
                "the same data, or remove the lines of one of them from the records."
            )
    scores = [runs[seed]["scores"] for seed in seeds]
    control_scores = [controls[seed]["scores"] for seed in seeds]
    cells = [str(len(seeds))]
    for score in SCORES:
        values = differences_of(scores, control_scores, score)
        cells.append(format_difference(values) if is_judged else format_scores(values))
    return cells


def score_row(title: str, runs: Runs) -> list[str]:
    """Return the cells of a row: its title, the number of seeds, and the scores."""
    scores = [run["scores"] for run in runs.values()]
    return [title, str(len(runs)), *score_cells(scores, SCORES)]


def seeds_of(records: Sequence[Record]) -> str:
    """Return a sentence with the seeds of records."""
    seeds = sorted({record["seed"] for record in records})
    return f"Seeds: {join(map(str, seeds))}."


# --- on the bundled sample ------------------------------------------------------------------------


def runs_of_methods() -> dict[str, Runs]:
    """Return the recorded runs of each recipe by their seed. Raises ValueError as check_methods."""
    try:
        return check_methods(read_records(METHODS))
    except ValueError as error:
        raise ValueError(f"{METHODS}: {error}") from error


def methods() -> str:
    """Methods on the bundled sample, each below its control."""
    of_recipe = runs_of_methods()
    if not of_recipe:
        return not_measured("methods")

    lines = format_head(["recipe", "n", *TITLES])
    shown: list[Record] = []
    for control in dict.fromkeys(CONTROLS.values()):
        compared = [method for method in CONTROLS if CONTROLS[method] == control]
        for name in [control, *compared]:
            runs = of_recipe.get(name, {})
            if runs:
                lines.append(format_row(score_row(f"`{name}`", runs)))
                shown += runs.values()
    return "\n".join([*lines, "", f"{seeds_of(shown)} {measured_on(shown)}"])


def method_differences() -> str:
    """What each method changed: its scores less those of its control."""
    of_recipe = runs_of_methods()
    if not of_recipe:
        return not_measured("methods")

    lines = format_head(["recipe", "control", "n", *TITLES])
    notes = []
    for name, control in CONTROLS.items():
        runs = of_recipe.get(name, {})
        controls = of_recipe.get(control, {})
        for seed in runs.keys() & controls.keys():
            check_pair(runs[seed], controls[seed])
        if runs and controls:
            cells = difference_cells(runs, controls, name not in NEVER_WORSE)
            lines.append(format_row([f"`{name}`", f"`{control}`", *cells]))
            notes += describe_other_code(name, runs, controls)
    return "\n".join([*lines, *notes])


def describe_other_code(name: str, runs: Runs, controls: Runs) -> list[str]:
    """Return the lines below a table that say where a method and its control have other code."""
    # An edit that is in no commit changes the digest alone.
    digests = {run["code"]["sha256"] for run in (*runs.values(), *controls.values())}
    if len(digests) == 1:
        return []
    of_runs = describe_code(run["code"] for run in runs.values())
    of_controls = describe_code(run["code"] for run in controls.values())
    return [
        "",
        f"The runs of `{name}` and of its control were not all made with the same code: {of_runs} "
        f"here, {of_controls} in the control. Run both again before you rely on their difference.",
    ]


# --- on the course's data -------------------------------------------------------------------------


def is_of_row(record: Record, row: Mapping[str, Any]) -> bool:
    """Return whether a run of all three tasks has exactly the options of a row.

    Only the seed and the machine may differ.
    """
    return OVERALL in record["scores"] and compared_options(record) == row


def runs_of_course() -> dict[str, Runs]:
    """Return the recorded runs of each row by their seed, without rows that have none.

    Raises ValueError where the runs of a row have read other data.
    """
    records = read_records(COURSE)
    of_row: dict[str, Runs] = {}
    for title, row in COURSE_ROWS.items():
        runs = by_seed([record for record in records if is_of_row(record, row)])
        if runs:
            check_row(title, list(runs.values()))
            of_row[title] = runs
    return of_row


def course() -> str:
    """Runs with MiniLM on the whole course data."""
    of_row = runs_of_course()
    if not of_row:
        return not_measured("course-minilm")

    lines = format_head(["two epochs of all tasks", "n", *TITLES, "minutes"])
    shown: list[Record] = []
    for title, runs in of_row.items():
        minutes = [run["minutes"] for run in runs.values()]
        lines.append(format_row([*score_row(title, runs), f"{statistics.mean(minutes):.1f}"]))
        shown += runs.values()
    return "\n".join([*lines, "", f"{seeds_of(shown)} {measured_on(shown)}"])


def course_differences() -> str:
    """What each method changed on the course's data: its scores less those of its control."""
    of_row = runs_of_course()
    if not of_row:
        return not_measured("course-minilm")

    lines = format_head(["row", "control", "n", *TITLES])
    for title, control in COURSE_PAIRS:
        if title in of_row and control in of_row:
            cells = difference_cells(of_row[title], of_row[control])
            lines.append(format_row([title, control, *cells]))
    return "\n".join(lines)


METHOD_TABLES: dict[str, Callable[[], str]] = {
    "methods": methods,
    "method-differences": method_differences,
    "course-minilm": course,
    "course-differences": course_differences,
}
