"""The tables of model soups with MiniLM on the whole course data, one run per task.

For each seed there are three runs, one of each task alone. A run of --soup records the scores of
its ingredients, so the soup is compared with the models that it was made of.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from experiments.comparable import check_row, compared_options
from experiments.conditions import join, measured_on, not_measured
from experiments.records import Record, read_records
from experiments.run_files import Scores
from experiments.tables import (
    COLUMNS,
    differences_of,
    format_difference,
    format_head,
    format_row,
    score_cells,
)
from tools.tables.method_tables import COURSE, SCORES, TITLES, by_seed, seeds_of

# All options of the runs that differ from their defaults, by task.
ALONE: dict[str, Any] = {
    "model": "minilm",
    "common_layer": "none",
    "encoder_dropout": 0.0,
    "attention_dropout": 0.0,
}
RUNS: dict[str, dict[str, Any]] = {
    "sst": {"tasks": "sst", "score": "sst", "pair_encoding": "cross", "lr": 1e-4, "soup": 3},
    "para": {
        "tasks": "para",
        "score": "para",
        "pair_encoding": "cross",
        "para_prior": 0.37,
        "epochs": 2,
        "lr": 7e-5,
        "soup": 2,
    },
    "sts": {
        "tasks": "sts",
        "score": "sts",
        "pair_encoding": "bi",
        "head": "cosine",
        "epochs": 5,
        "lr": 1e-4,
        "soup": 2,
    },
}
# Titles of rows.
FIRST = "one training (ingredient 1)"
MEAN = "mean over the ingredients"
BEST = "best ingredient, chosen on dev"
SOUP = "the soup"

OfSeed = Mapping[str, Record]  # the runs of one seed, by task


def runs_of_soups() -> dict[int, OfSeed]:
    """Return the runs of each seed that has all three tasks, by task.

    Raises ValueError where the runs of a task have read other data.
    """
    records = read_records(COURSE)
    of_task: dict[str, dict[int, Record]] = {}
    for task, options in RUNS.items():
        runs = by_seed([run for run in records if compared_options(run) == ALONE | options])
        check_row(f"the soups of {task}", list(runs.values()))
        of_task[task] = runs

    complete: dict[int, OfSeed] = {}
    for seed in of_task["sst"]:
        if all(seed in runs for runs in of_task.values()):
            complete[seed] = {task: runs[seed] for task, runs in of_task.items()}
    return complete


def ingredient_scores(run: Record, task: str) -> list[float]:
    """Return the dev score of each ingredient of a run."""
    return [ingredient["scores"][task] for ingredient in run["soup"]["ingredients"]]


def soup_score(run: Record, task: str) -> float:
    """Return the dev score of the soup of a run."""
    score: float = run["scores"][task]
    return score


SCORES_OF: dict[str, Callable[[Record, str], float]] = {
    FIRST: lambda run, task: ingredient_scores(run, task)[0],
    MEAN: lambda run, task: statistics.mean(ingredient_scores(run, task)),
    BEST: lambda run, task: max(ingredient_scores(run, task)),
    SOUP: soup_score,
}


def scores_of_seed(runs: OfSeed, row: str) -> Scores:
    """Return the scores of a row for one seed: those of the three tasks, and their overall."""
    # Imported late, because it imports torch.
    from multitask.tasks import with_overall

    return with_overall({task: SCORES_OF[row](run, task) for task, run in runs.items()})


def scores_by_row(seeds: Mapping[int, OfSeed]) -> dict[str, list[Scores]]:
    """Return the scores of each row of the tables, seed by seed."""
    by_row = {}
    for row in SCORES_OF:
        by_row[row] = [scores_of_seed(runs, row) for runs in seeds.values()]
    return by_row


def soups() -> str:
    """Model soups of each task alone, beside their ingredients."""
    seeds = runs_of_soups()
    if not seeds:
        return not_measured("course-minilm")

    lines = format_head(["each task alone", "n", *TITLES])
    for row, scores in scores_by_row(seeds).items():
        lines.append(format_row([row, str(len(scores)), *score_cells(scores, SCORES)]))
    shown: list[Record] = []
    for runs in seeds.values():
        shown += runs.values()
    minutes = sum(run["minutes"] for run in shown) / len(seeds)
    cost = f"The three runs of a seed took {minutes:.0f} minutes together."
    notes = f"{seeds_of(shown)} {describe_sizes()} {measured_on(shown)} {cost}"
    return "\n".join([*lines, "", notes])


def describe_sizes() -> str:
    """Return a sentence with the number of ingredients of each task."""
    titles = {column.score: column.title for column in COLUMNS}
    sizes = [f"{options['soup']} for {titles[task]}" for task, options in RUNS.items()]
    return f"Ingredients: {join(sizes)}."


def soup_differences() -> str:
    """The scores of the soups less those of their ingredients, seed by seed."""
    seeds = runs_of_soups()
    if not seeds:
        return not_measured("course-minilm")

    by_row = scores_by_row(seeds)
    lines = format_head([f"{SOUP} less", "n", *TITLES])
    for row in (FIRST, MEAN, BEST):
        cells = []
        for score in SCORES:
            cells.append(format_difference(differences_of(by_row[SOUP], by_row[row], score)))
        lines.append(format_row([row, str(len(seeds)), *cells]))
    return "\n".join(lines)


SOUP_TABLES: dict[str, Callable[[], str]] = {
    "course-soups": soups,
    "course-soup-differences": soup_differences,
}
