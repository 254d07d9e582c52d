"""The tables that compare training methods: each beside the same run without it.

The first table holds comparisons of recipes.py on the bundled sample, which everybody has. The
second one holds runs with MiniLM on the whole course data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.record_tables import measured_on, not_measured
from experiments.records import RECORDS, Record, group_records, read_records
from experiments.tables import COLUMNS, OVERALL, format_head, format_row, format_scores

METHODS = RECORDS / "methods.jsonl"
COURSE = RECORDS / "course-minilm.jsonl"
SCORES = [column.score for column in COLUMNS]
TITLES = [column.title for column in COLUMNS]

# A method, and the run that differs from it in the method alone.
CONTROLS = {
    "r-drop": "defaults",
    "smart": "defaults",
    "smart-larger": "defaults",
    "averaging-ema": "defaults",
    "averaging-swa": "averaging-swa-control",
    "single-task-epochs": "defaults",
    "surgery-pcgrad": "surgery-sum",
    "surgery-gradvac": "surgery-sum",
    "surgery-cagrad": "surgery-sum",
    "surgery-upgrad": "surgery-sum",
}

# Options that tell apart the runs on the course's data, by the name of their row. All of them have
# MiniLM, no common layer, and the steps of --sampling annealed.
COURSE_ROWS: dict[str, dict[str, Any]] = {
    "dropout 0.1, the model's own": {},
    "dropout 0.1 and R-Drop": {"regulariser": "r-drop"},
    "no dropout": {"encoder_dropout": 0.0},
    "no dropout, EMA": {"encoder_dropout": 0.0, "averaging": "ema"},
    "no dropout, text labelled by an ensemble": {"encoder_dropout": 0.0, "batch_size": 64},
}


def by_seed(records: Sequence[Record]) -> dict[int, Record]:
    """Return the newest record of each seed, in the order of the seeds."""
    newest = {record["seed"]: record for record in records}
    return {seed: newest[seed] for seed in sorted(newest)}


def difference_cell(runs: Mapping[int, Record], controls: Mapping[int, Record], score: str) -> str:
    """Return the mean of a score less that of the control, over the seeds of both."""
    differences = []
    for seed, run in runs.items():
        if seed in controls:
            differences.append(run["scores"][score] - controls[seed]["scores"][score])
    return format_scores(differences)


def score_cells(runs: Mapping[int, Record]) -> list[str]:
    """Return a cell for each task and the overall score."""
    cells = []
    for score in SCORES:
        cells.append(format_scores([run["scores"][score] for run in runs.values()]))
    return cells


def methods() -> str:
    """Methods on the bundled sample, each below its control."""
    of_recipe = group_records(read_records(METHODS), "recipe")
    if not of_recipe:
        return not_measured("methods")

    lines = format_head(["recipe", "n", *TITLES])
    shown: list[Record] = []
    for control in dict.fromkeys(CONTROLS.values()):
        for name in [control, *(name for name in CONTROLS if CONTROLS[name] == control)]:
            runs = by_seed(of_recipe.get(name, []))
            if runs:
                lines.append(format_row([f"`{name}`", str(len(runs)), *score_cells(runs)]))
                shown += runs.values()
    return "\n".join([*lines, "", measured_on(shown)])


def method_differences() -> str:
    """What each method changed: its scores less those of its control."""
    of_recipe = group_records(read_records(METHODS), "recipe")
    if not of_recipe:
        return not_measured("methods")

    lines = format_head(["recipe", "control", *TITLES])
    for name, control in CONTROLS.items():
        runs = by_seed(of_recipe.get(name, []))
        controls = by_seed(of_recipe.get(control, []))
        if runs and controls:
            cells = [difference_cell(runs, controls, score) for score in SCORES]
            lines.append(format_row([f"`{name}`", f"`{control}`", *cells]))
    return "\n".join(lines)


def is_of_row(record: Record, row: Mapping[str, Any]) -> bool:
    """Return whether a run of all three tasks has the options of a row, and no other row's."""
    told_apart = set().union(*COURSE_ROWS.values())
    options = {key: value for key, value in record["options"].items() if key in told_apart}
    return OVERALL in record["scores"] and options == row


def course() -> str:
    """Runs with MiniLM on the whole course data."""
    records = read_records(COURSE)
    if not records:
        return not_measured("course-minilm")
    lines = format_head(["two epochs of all tasks", "n", *TITLES])
    shown: list[Record] = []
    for title, row in COURSE_ROWS.items():
        runs = by_seed([record for record in records if is_of_row(record, row)])
        if runs:
            lines.append(format_row([title, str(len(runs)), *score_cells(runs)]))
            shown += runs.values()
    return "\n".join([*lines, "", measured_on(shown)])


METHOD_TABLES: dict[str, Callable[[], str]] = {
    "methods": methods,
    "method-differences": method_differences,
    "course-minilm": course,
}
