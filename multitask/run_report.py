"""What report.html of a run shows: its scores, its training, its conflicts and its worst mistakes.

The numbers are those of run.json and log.csv. Only the texts of mistakes and the cosines of each
step come from memory. minbert/reporting/pages.py writes the page. model_card.py says the same in
short, for whoever gets the model.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from data.examples import Example
from minbert.commands.options import NONE
from minbert.reporting.pages import Section, write_html
from minbert.reporting.tables import NO_VALUE, Table, heading_and_numbers
from minbert.training import run_page
from minbert.training.run_page import Curves
from multitask import plan_registry
from multitask.combining import GradientSurgery
from multitask.conflicts import conflict_figure
from multitask.errors.mistakes import DevOutputs, worst_section
from multitask.leaderboard import (
    INTERVAL_TITLE,
    TFIDF,
    Chance,
    interval_cells,
    known_scores,
    lines_on_tfidf,
    score_titles,
)
from multitask.soup import name_of_first
from multitask.tasks import Tasks, answerable_tasks
from multitask.verdict import describe_verdict

NUM_WORST = 5  # mistakes of each task


@dataclass(frozen=True)
class ReportedRun:
    """A finished run, as its report and its model card describe it."""

    folder: Path
    record: Mapping[str, Any]  # the content of run.json
    tasks: Tasks  # that the run reads
    command: str  # that gives the same run again
    dev_rows: Mapping[str, Sequence[Example]]  # by task
    dev_outputs: Mapping[str, np.ndarray]  # by task, raw: (N, C) or (N,)
    surgery: GradientSurgery | None

    @property
    def options(self) -> dict[str, Any]:
        """All options by their flat names, without "auto"."""
        return self.record["options"]

    @property
    def trained(self) -> list[str]:
        """The tasks that were trained, in the order of --tasks, each once."""
        return list(dict.fromkeys(self.options["tasks"].split(",")))

    @property
    def stages(self) -> list[str]:
        """The stages of --pretrain."""
        pretrain = self.options["pretrain"]
        return [] if pretrain == NONE else pretrain.split(",")

    @property
    def answered(self) -> list[str]:
        """The tasks that the model can answer. The heads of all others are still random."""
        return answerable_tasks(self.tasks, self.trained, self.options["head"])

    @property
    def task_titles(self) -> dict[str, str]:
        """The titles of the tasks by name."""
        return {name: task.title for name, task in self.tasks.items()}

    @cached_property
    def curves(self) -> Curves:
        """The step log."""
        return run_page.read_curves(self.folder)


def write_report(run: ReportedRun) -> Path:
    """Write report.html into the run's folder; returns its path."""
    path = run.folder / run_page.REPORT_FILE
    write_html(path, f"Run {run.folder.resolve().name}", report_sections(run))
    return path


def report_sections(run: ReportedRun) -> list[Section]:
    """All chapters of the page."""
    return [
        score_section(run),
        *plan_registry.sections(run.record, run.tasks),
        *training_sections(run),
        *conflict_sections(run),
        *mistake_sections(run),
        run_page.cost_section(run.record, run.curves),
        *run_page.reproduction_sections(run.record, run.command),
    ]


# --- scores ---------------------------------------------------------------------------------------


def score_section(run: ReportedRun) -> Section:
    """The scores beside the baselines."""
    baselines = (
        " The baselines read the same rows: one answer for all rows (majority), a linear model on "
        "counts of words (TF-IDF) and, for your own tasks, on the encoder's vectors before "
        "training (vectors)."
    )
    prose = (
        f"{describe_verdict(run.record, run.tasks, run.answered)} "
        f"The encoder {run.options['model']} was trained on {', '.join(run.trained)}."
        f"{baselines if run.record['baselines'] else ''}{prose_on_test(run)}{prose_on_chance(run)}"
    )
    return Section("Scores", prose, score_table(run), level=2)


def prose_on_test(run: ReportedRun) -> str:
    """Says that there are no predictions of test files, if they were left out."""
    is_skipped = "test" in run.options.get("skip", NONE).split(",")
    return " The predictions of test files were left out by --skip." if is_skipped else ""


def prose_on_chance(run: ReportedRun) -> str:
    """What the intervals are, and where TF-IDF may be as good. "" for a run of an older version."""
    record = run.record
    if "intervals" not in record:
        return ""
    chance = Chance(record["intervals"], record["against_tfidf"])
    sentences = [
        "The interval holds the score on all such rows in 95 of 100 cases. It says nothing about "
        "other seeds.",
        *lines_on_tfidf(chance, score_titles(run.tasks), record["baselines"].get(TFIDF, {})),
    ]
    return "".join(f" {sentence}" for sentence in sentences)


def score_table(run: ReportedRun) -> Table:
    """A row for each score: dev, the test files that have labels, and the baselines."""
    record = run.record
    columns: dict[str, Mapping[str, float | str]] = {
        "dev": known_scores({name: record["scores"][name] for name in run.tasks}, run.answered)
    }
    if "intervals" in record:
        columns[f"{INTERVAL_TITLE}, dev"] = interval_cells(record["intervals"])
    if "test_scores" in record:
        columns["test"] = known_scores(record["test_scores"], run.answered)
    for name, scores in record["baselines"].items():
        columns[f"{name}, dev"] = scores
    for name, scores in record.get("test_baselines", {}).items():
        columns[f"{name}, test"] = scores

    rows = []
    for key, title in score_titles(run.tasks).items():
        scores = [of_column.get(key, NO_VALUE) for of_column in columns.values()]
        cells = [score if isinstance(score, str) else f"{score:.4f}" for score in scores]
        rows.append((title, *cells))
    return Table(heading_and_numbers("score", *columns), tuple(rows))


# --- training -------------------------------------------------------------------------------------


def training_sections(run: ReportedRun) -> list[Section]:
    """The stages in the order of their training: curves, and scores before and after."""
    curves = run.curves
    stages = run.record["stages"]
    # A stage whose encoder was used again left no steps. It came before those that did.
    reused = [name for name in stages if curves.stages and name not in curves.stages]
    without_steps = [name for name in stages if name not in curves.stages]
    sections = [Section("Training", curves.problem, level=2)]
    for name in (*without_steps, *curves.stages):
        if name in curves.stages:
            sections.append(run_page.curve_section(name, curves.stages[name], run.task_titles))
        if name in stages:
            sections.append(run_page.stage_section(name, stages[name], name in reused))
    return sections


def conflict_sections(run: ReportedRun) -> list[Section]:
    """How often the gradients of two tasks conflict, where it was measured."""
    conflicts = run.record["conflicts"]
    if not conflicts or run.surgery is None:
        return []
    prose = (
        "Two gradients conflict where the cosine between them is below 0: what helps one task "
        "then hurts the other one. They were measured before the surgery."
    )
    figure = conflict_figure(conflicts, run.surgery, run.tasks)
    first = name_of_first(run.record)
    title = f"Gradient conflicts of {first}" if first else "Gradient conflicts"
    return [Section(title, prose, figure, level=2)]


# --- mistakes -------------------------------------------------------------------------------------


def mistake_sections(run: ReportedRun) -> list[Section]:
    """The worst mistakes on the dev rows of each task that the model can answer."""
    prose = "python -m multitask.errors shows more of them, and the scores of groups of rows."
    sections = [Section("Worst mistakes on dev", prose, level=2)]
    for name in run.answered:
        task = run.tasks[name]
        dev = DevOutputs(task, tuple(run.dev_rows[name]), run.dev_outputs[name])
        sections.append(replace(worst_section(dev, NUM_WORST), title=task.title))
    return sections
