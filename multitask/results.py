"""The end of a run: prediction files, the model, run.json, and what is printed of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from data.known_words import save_words
from data.task_specs import stored
from minbert import BertTokenizer
from minbert.commands.ending import only_warn
from minbert.commands.options import NONE
from minbert.commands.paths import in_shell
from minbert.commands.plugins import flags_of_named
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact
from minbert.training import cost_estimate, run_folder
from minbert.training.cost_estimate import CostEstimate
from minbert.training.options import TrainingOptions
from minbert.training.stage import Quality
from multitask import (
    conflicts,
    evaluation,
    leaderboard,
    model_card,
    plan_registry,
    prediction_files,
    run_report,
    summary,
    verdict,
)
from multitask.baselines import lines_on_known_words, vectors_predictions
from multitask.combining import GradientSurgery
from multitask.few_pairs import has_cosine
from multitask.options import MultitaskOptions
from multitask.plan import TrainedTasks
from multitask.plan_registry import TaskStage
from multitask.run_data import RunData
from multitask.soup import name_of_first
from multitask.start_vectors import StartVectors
from multitask.task_models import TaskModels
from multitask.tasks import Task, answerable_tasks


@dataclass(frozen=True)
class Outcome:
    """What training leaves behind."""

    tasks: TaskStage
    trained: TrainedTasks
    pretraining: dict[str, Quality]  # by stage of --pretrain: its scores before and after
    seconds: float


@dataclass(frozen=True)
class TrainedRun:
    """A run whose training has ended, with everything that its results are made of."""

    folder: Path
    options: MultitaskOptions
    training: TrainingOptions
    all_options: dict[str, Any]  # by flat names, without "auto"
    command: str  # that gives the same run again
    data: RunData
    tokenizer: BertTokenizer
    model_folder: Path  # of the encoder before any training
    costs: list[CostEstimate]
    outcome: Outcome
    skipped: Collection[str]  # the parts of --skip

    @property
    def models(self) -> TaskModels:
        """The models that answer."""
        return self.outcome.trained.models

    @property
    def surgery(self) -> GradientSurgery | None:
        """That of the first training of all tasks."""
        return cast("GradientSurgery | None", self.outcome.tasks.parts.job.surgery)

    @property
    def trained_tasks(self) -> dict[str, Task]:
        """The tasks of --tasks, in their order."""
        return {name: self.data.tasks[name] for name in self.options.tasks.order}

    @property
    def answered(self) -> list[str]:
        """The tasks that the models can answer."""
        options = self.options
        return answerable_tasks(self.data.tasks, options.tasks.order, options.heads.head)


@dataclass(frozen=True)
class Results:
    """What a finished run has written, and what it prints of it."""

    record: dict[str, Any]  # the content of run.json
    scores: leaderboard.FileScores
    chance: leaderboard.Chance
    conflicts: str  # a table, "" without --surgery
    pages: list[str]  # for each page of the run, a line that says where it is
    cost: str  # a sentence: predicted and actual


def finish(run: TrainedRun) -> None:
    """Write the files of predictions, the model, the report and run.json; print the scores."""
    terminal.title("Results", "predicting dev and test")
    results = write_results(run)
    print_tables(run, results)
    print_places(run)
    terminal.say(*results.pages)
    print_summary(run, results.record)


def write_results(run: TrainedRun) -> Results:
    """Write everything. run.json is the last file: the run is finished then.

    A run that is killed before is resumed. It then trains nothing, and writes all of it again.
    """
    started = time.perf_counter()
    data = run.data
    models = run.models
    precision = run.training.precision
    conflict_record, conflict_table = conflicts.report(run.surgery, run.folder, data.tasks)
    scores, dev_outputs = leaderboard.write_results(
        models, data.rows, data.tables, data.prediction_paths, precision
    )
    train_rows = {task: splits["train"] for task, splits in data.rows.items()}
    fine_tuning = run.options.fine_tuning
    train_scores = evaluation.score_training_rows(fine_tuning, models, train_rows, precision)
    seconds = run.outcome.seconds + time.perf_counter() - started

    models.save_pretrained(run.folder, run.tokenizer)
    save_words(run.folder / "model", data.examples("train"))
    tested = {name: data.tasks[name] for name in scores.test}
    of_baselines, of_test = predict_baselines(run, tested)
    baselines = leaderboard.baseline_scores(of_baselines, data.tables, data.tasks)
    test_baselines = leaderboard.baseline_scores(of_test, data.tables, tested, "test")
    terminal.doing("intervals of the scores")
    chance = leaderboard.measure_chance(
        dev_outputs, of_baselines, data.tables, data.tasks, run.answered
    )
    device = run.outcome.tasks.parts.job.device
    actual = {"seconds": seconds, "peak_memory": cost_estimate.peak_memory(device)}
    record = run_folder.make_record(
        run.all_options,
        run.data.digests,
        tasks=stored(data.tasks),
        predictions=prediction_files.digests_of(data.prediction_paths),
        scores=scores.dev,
        **({"test_scores": scores.test, "test_baselines": test_baselines} if tested else {}),
        **({"train_scores": train_scores} if train_scores else {}),
        baselines=baselines,
        **chance._asdict(),
        epochs=run.outcome.trained.epochs,
        best_step=run.outcome.trained.best_step,
        reproduction=run.command,
        **run.outcome.tasks.stored(),
        conflicts=conflict_record,
        stages=run.outcome.pretraining,
        predicted=[asdict(cost) for cost in run.costs],
        actual=actual,
    )
    terminal.doing("writing the report")
    pages = write_report(run, record, dev_outputs)
    run_folder.write_record(run.folder, record)
    run_folder.point_to_latest(run.folder)
    cost = cost_estimate.comparison(run.costs, **actual)
    return Results(record, scores, chance, conflict_table, pages, cost)


def predict_baselines(
    run: TrainedRun, tested: Mapping[str, Task]
) -> tuple[leaderboard.BaselinePredictions, leaderboard.BaselinePredictions]:
    """The predictions of the baselines, of dev and of test. Empty if --skip leaves them out.

    tested: the tasks whose test rows have labels.
    """
    data = run.data
    if "baselines" in run.skipped:
        return {}, {}
    terminal.doing("baselines: majority and TF-IDF")
    of_dev = leaderboard.predict_baselines(data.tables, data.tasks)
    of_test = leaderboard.predict_baselines(data.tables, tested, "test") if tested else {}
    if any(not task.is_built_in for task in data.tasks.values()):
        of_dev["vectors"], vectors_of_test = predict_from_start_vectors(run, tested)
        of_test |= {"vectors": vectors_of_test} if tested else {}
    return of_dev, of_test


def predict_from_start_vectors(
    run: TrainedRun, tested: Collection[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The predictions of a linear model on the encoder before training, of own tasks.

    tested: the tasks whose test rows have labels. Returns those of dev and of test.
    """
    terminal.doing("baseline: the vectors of the encoder before training")
    data = run.data
    device = run.outcome.tasks.parts.job.device
    start = StartVectors(run.model_folder, data.options.max_length, device)
    of_dev = {}
    of_test = {}
    for name, task in data.tasks.items():
        if task.is_built_in:
            continue
        train = data.tables[name]["train"].examples
        dev = data.tables[name]["dev"].examples
        test = data.tables[name]["test"].examples if name in tested else []
        # Both in one call, because it encodes the training rows.
        predictions = vectors_predictions(task, train, [*dev, *test], start.encode)
        of_dev[name] = predictions[: len(dev)]
        if test:
            of_test[name] = predictions[len(dev) :]
    return of_dev, of_test


def print_tables(run: TrainedRun, results: Results) -> None:
    """Print the conflicts, the tables of the plans, and the closing table."""
    record = results.record
    tasks = run.data.tasks
    if results.conflicts:
        first = name_of_first(record)
        terminal.say(*([f"Conflicts of {first}:"] if first else []))
        terminal.table(results.conflicts.rstrip("\n"))
        terminal.say("")
    for table in plan_registry.printed(record, tasks):
        terminal.table(table)
        terminal.say("")

    answered = run.answered
    num_rows = {name: len(of_task["train"].examples) for name, of_task in run.data.tables.items()}
    terminal.say(
        *verdict.warnings_of_leads(record, run.trained_tasks, answered, run.options, num_rows)
    )
    table = leaderboard.closing_table(
        results.scores.dev, record["baselines"], tasks, run.answered, results.chance
    )
    terminal.table(table)
    if "vectors" in record["baselines"]:
        has_cosine = any(task.is_pair and task.is_regression for task in tasks.values())
        of_pairs = "; of pairs with a score, on their cosine alone" if has_cosine else ""
        terminal.say(f"vectors: a linear model on the encoder's vectors before training{of_pairs}")
    if run.skipped:
        terminal.say(f"left out by --skip: {', '.join(run.skipped)}")
    terminal.say(*lines_on_known_words(run.data.tables, run.trained_tasks))
    for split in ("test", "train"):
        scores = record.get(f"{split}_scores", {})
        of_baselines = record.get(f"{split}_baselines", {})
        terminal.say(*leaderboard.score_lines(split, scores, of_baselines, tasks))
    terminal.say("", results.cost)


def print_places(run: TrainedRun) -> None:
    """Print where everything is that the run has written."""
    terminal.title("Files")
    terminal.facts(Fact(name, run.folder / place) for name, place in places_of(run).items())
    is_course = all(task.is_built_in for task in run.data.tasks.values())
    terminal.say("leaderboard files:" if is_course else "files of predictions:")
    for splits in run.data.prediction_paths.values():
        terminal.say(*(f"  {path}" for path in splits.values()))
    rows = run.data.options.dev_rows
    if is_course and rows != NONE:
        terminal.say(
            f"The dev files hold only the rows of --dev_rows {rows}. To hand in, let `python -m "
            f"course.predict {in_shell(run.folder)} --out DIR{flags_of_named()}` predict all rows."
        )


def places_of(run: TrainedRun) -> Mapping[str, str]:
    """The names of the files and folders of a run, and where they are in its folder."""
    places = {"model": "model"}
    for task in run.models.tasks_alone:
        places[f"model of {task}"] = f"model-{task}"
    places["record"] = "run.json"
    places["losses of each step"] = "log.csv"
    if run.training.tensorboard:
        places["TensorBoard log"] = "tensorboard"
    return places


def write_report(
    run: TrainedRun, record: Mapping[str, Any], dev_outputs: dict[str, np.ndarray]
) -> list[str]:
    """Write report.html and the model card. Returns a line for each that says where it is.

    An error here is one line of warning, and the run goes on to its end. ValueError where a file
    cannot be written: the run is resumed when the disk is well again.
    """
    lines = []
    writers = {"model card": model_card.write_model_card, "report": run_report.write_report}
    with only_warn("the report"):
        reported = run_report.ReportedRun(
            folder=run.folder,
            record=record,
            tasks=run.data.tasks,
            command=run.command,
            dev_rows=run.data.examples("dev"),
            dev_outputs=dev_outputs,
            surgery=run.surgery,
        )
        for name, write in writers.items():
            with only_warn(f"the {name}"):
                lines.append(f"{name}: {write(reported)}")
    return lines


def print_summary(run: TrainedRun, record: Mapping[str, Any]) -> None:
    """Print some predictions, which scores still rose, and what to do next."""
    trained = run.trained_tasks
    terminal.title("What it says")
    terminal.say(
        summary.describe_predictions(
            run.models,
            run.tokenizer,
            run.data.tables,
            list(trained),
            run.data.options.max_length,
            run.training.precision,
        )
    )
    fine_tuning = run.options.fine_tuning
    stop = summary.describe_stop(
        run.outcome.trained.epochs,
        run.outcome.trained.best_step,
        run.options.tasks.sampler.num_epochs(fine_tuning.epochs, run.options.tasks.order),
        fine_tuning.patience,
    )
    terminal.say(*([stop] if stop else []))
    history = run.outcome.trained.epochs
    # Where tasks have epochs of their own, the later ones would not begin.
    in_turn = run.options.tasks.sampler.has_epochs_per_task and len(trained) > 1
    num_since_best = sum(entry["step"] > run.outcome.trained.best_step for entry in history)
    may_stop_early = num_since_best > 3 and not fine_tuning.patience and not in_turn
    progress = "" if stop else summary.describe_progress(history, trained, may_stop_early)
    if progress:
        first = name_of_first(record)
        terminal.say(f"{first.capitalize()}: {progress}" if first else progress)
    first_task = next(iter(trained))
    dev_file = run.data.options.file_of(first_task, "dev") or run.data.options.file_of(
        first_task, "train"
    )
    terminal.say(*summary.describe_stages(record["stages"]))
    terminal.title("Next")
    encoder = encoder_for_search(run, trained[first_task])
    terminal.say(summary.next_commands(run.folder, trained[first_task], dev_file, encoder))


def encoder_for_search(run: TrainedRun, task: Task) -> str | Path:
    """The encoder whose vectors find texts of the same meaning.

    The training of a class moves all texts of this class together. Only a cosine of two sentence
    vectors is trained to compare them.
    """
    is_score = task.is_pair and task.is_regression
    is_bi = run.options.heads.pair_encoding == "bi"
    if is_score and is_bi and has_cosine(task, run.options):
        return run.folder / "model"
    before = run.folder / "encoder"  # of --pretrain
    return before if before.is_dir() else run.all_options["model"]
