"""The model card of a run: README.md with metadata for the Hugging Face hub.

It says only what the run knows. A licence or a language that nobody has stated is left out. So are
the texts of rows and the folders of files. Only the command names paths, as the user wrote them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from data.options import SAMPLE_FOLDER
from minbert import hub
from minbert.commands.plugins import flags_of_named
from minbert.reporting.model_cards import CardMetadata, CardScore, write_card
from minbert.reporting.pages import Section
from minbert.reporting.tables import Column, Table
from minbert.training import run_page
from multitask import plan_registry
from multitask.run_report import ReportedRun, prose_on_chance, prose_on_test, score_table
from multitask.tasks import Task
from multitask.verdict import describe_verdict, leads

SAMPLE_NAME = "minbert-sample"
# The hub's names of metrics.
METRICS = {
    "accuracy": "accuracy",
    "macro_f1": "f1",
    "micro_f1": "f1",
    "exact_match": "exact_match",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


class Origin(NamedTuple):
    """What is known of the encoder and the rows that a run began with.

    base_model: a name on the hub or of a bundled model, or "".
    """

    base_model: str
    is_sample: bool  # whether all rows are those of the bundled sample

    @property
    def license(self) -> str:
        """The licence of the weights, or "" where it follows from files that we do not know."""
        return "mit" if self.is_sample and self.base_model in hub.BUNDLED else ""


def origin_of(run: ReportedRun) -> Origin:
    """What is known of the encoder and the rows of a run."""
    plugins = set(run.options.get("plugin", ()))
    folders = {Path(path).resolve().parent for path in run.record["files"] if path not in plugins}
    return Origin(hub.published_name(run.options["model"]), folders == {SAMPLE_FOLDER.resolve()})


def write_model_card(run: ReportedRun) -> Path:
    """Write README.md into the run's folder; returns its path."""
    path = run.folder / run_page.CARD_FILE
    name = run.folder.resolve().name
    write_card(path, card_metadata(run), name, card_sections(run))
    return path


# --- metadata -------------------------------------------------------------------------------------


def card_metadata(run: ReportedRun) -> CardMetadata:
    """The metadata of the card."""
    origin = origin_of(run)
    scores = list(card_scores(run))
    tags = ["minbert", "bert", *run.stages]
    if len(run.trained) > 1:
        tags.append("multi-task-learning")
    return CardMetadata(
        name=run.folder.resolve().name,
        tags=tags,
        language=("en",) if origin.is_sample else (),
        license=origin.license,
        base_model=origin.base_model,
        datasets=(SAMPLE_NAME,) if origin.is_sample else (),
        pipeline=scores[0].task if scores else "",
        scores=scores,
    )


def card_scores(run: ReportedRun) -> Iterator[CardScore]:
    """The scores of the tasks that the model can answer, on dev and on test files with labels."""
    of_split = {"validation": run.record["scores"], "test": run.record.get("test_scores", {})}
    for split, scores in of_split.items():
        for name in run.answered:
            if name in scores:
                task = run.tasks[name]
                yield CardScore(
                    kind_of_task(task),
                    task.title,
                    split,
                    METRICS[task.metric_name],
                    task.metric,
                    scores[name],
                )


def kind_of_task(task: Task) -> str:
    """The hub's name of a kind of task."""
    is_similarity = task.is_regression and task.is_pair
    return "sentence-similarity" if is_similarity else "text-classification"


# --- sections -------------------------------------------------------------------------------------


def card_sections(run: ReportedRun) -> list[Section]:
    """The text of the card."""
    record = run.record
    folder = run.folder.resolve().name
    stages = ", ".join(run.stages) or "none"
    first = run.trained[0]
    # Who gets the model should read this before anything else.
    warning = f"{describe_verdict(record, run.tasks, run.answered)} " if is_worse(run) else ""
    notes = "".join(f" {note}" for note in plan_registry.notes(record))
    return [
        Section(
            "Model",
            f"{warning}"
            f"A BERT encoder with a head for each of these tasks: {', '.join(run.answered)}. "
            f"minBERT trained it. Stages beside the training of the tasks: {stages}.{notes}",
            task_table(run),
            level=2,
        ),
        Section(
            "How to use it",
            "In a clone of minBERT, beside the folder that holds this card:",
            level=2,
            code=f"python -m multitask.predict {shlex.quote(folder)} --task {first}"
            # Code of another person runs only where the command names it.
            f"{flags_of_named()}",
        ),
        Section("Scores", score_prose(run), score_table(run), level=2),
        Section("Limitations", limitations(run), level=2),
        Section("Licence", licence_prose(origin_of(run)), level=2),
        *reproduction(record, run.command),
    ]


def task_table(run: ReportedRun) -> Table:
    """The tasks that the model can answer, and their possible answers."""
    columns = (Column("task", "heading"), Column("input", "words"), Column("answer", "sentence"))
    rows = []
    for name in run.answered:
        task = run.tasks[name]
        answer = ", ".join(task.label_names)
        if task.is_multilabel:
            answer = f"any of {answer}"
        if task.is_regression:
            answer = f"a number, {task.format.low:g} to {task.format.high:g} in the labels"
        rows.append((task.title, "two texts" if task.is_pair else "a text", answer))
    return Table(columns, tuple(rows))


def score_prose(run: ReportedRun) -> str:
    """What the scores were measured on."""
    counts = [f"{len(run.dev_rows[name]):,} of {run.tasks[name].title}" for name in run.answered]
    verdict = "" if is_worse(run) else describe_verdict(run.record, run.tasks, run.answered)
    baselines = " The baselines read the same rows." if run.record["baselines"] else ""
    return (
        f"{verdict} The dev rows: {', '.join(counts)}. They also selected the best epoch, so their "
        f"scores are a little too high for new rows.{baselines}{prose_on_test(run)}"
        f"{prose_on_chance(run)}"
    ).strip()


def is_worse(run: ReportedRun) -> bool:
    """Whether a baseline is better in one of the tasks."""
    return bool(leads(run.record, run.tasks, run.answered))


def limitations(run: ReportedRun) -> str:
    """What a user of the model must know."""
    text = (
        f"This is one run with one seed ({run.options['seed']}). Another seed gives other scores. "
        "The model knows only texts like its training rows."
    )
    unknown = [name for name in run.tasks if name not in run.answered]
    if unknown:
        text += f" It cannot answer {', '.join(unknown)}, whose heads are still random."
    return text


def licence_prose(origin: Origin) -> str:
    """The licence of the weights, as far as it is known."""
    if origin.license:
        return (
            "The weights have the MIT licence. The texts that they were trained on have licences "
            "of their own, and some ask to be named. Two pages of minBERT list them: "
            "minbert/bundled/README.md and data/sample/README.md. Add both if you pass the weights "
            "on."
        )
    return (
        "Not stated. The licence of the weights depends on the encoder and the texts that the run "
        "began with. Add it before you publish the model."
    )


def reproduction(record: Mapping[str, Any], command: str) -> list[Section]:
    """The command, the versions, and the files without their folders."""
    first, environment, _ = run_page.reproduction_sections(record, command)
    return [first, environment, run_page.files_section(record, has_paths=False)]
