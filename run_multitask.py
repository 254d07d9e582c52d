"""The main job: from the options of a command line to files of predictions and run.json.

`run` is the way through, in seven steps. torch is imported once the command line is understood.
"""

from __future__ import annotations

import minbert  # noqa: F401, from here on Ctrl-C ends the command without a traceback

# isort: split

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from command_line import automatic
from command_line.automatic import Choice
from command_line.checks import check_positions
from command_line.folders import choose_folder
from command_line.options import Options
from command_line.parser import parse
from minbert import __version__
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.ending import exit_code, only_warn, resumable
from minbert.commands.optional import check_tensorboard
from minbert.commands.options import NONE
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import in_shell
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact

if TYPE_CHECKING:
    import numpy as np
    import torch

    from data.examples import Example, Table
    from minbert import BertModel, BertTokenizer
    from minbert.options import EncoderOptions
    from minbert.training.cost_estimate import CostEstimate
    from minbert.training.job import Job, Progress
    from minbert.training.stage import Chain, Stage
    from minbert.training.step_log import StepRecord
    from multitask.combining import GradientSurgery
    from multitask.leaderboard import FileScores
    from multitask.rows import EncodedTables, Tables
    from multitask.soup import Soup
    from multitask.task_models import SingleTaskResult, TaskModels
    from multitask.tasks import Task


@dataclass(frozen=True)
class Setup:
    """What every step of a run reads: options without "auto", data, encoder, tokenizer."""

    options: Options
    folder: Path  # receives all that is written
    model_folder: Path
    device: torch.device
    tasks: dict[str, Task]  # by name, those that are read
    prediction_paths: dict[str, dict[str, Path]]  # [task][split]
    tables: Tables  # [task][split]
    rows: EncodedTables  # [task][split], the tables as token ids
    encoder: BertModel
    tokenizer: BertTokenizer
    start: str  # fingerprint of the encoder before any training

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each input file. The run asks once every reader has checked its file."""
        from minbert.commands.files import digest_of_file

        return {path: digest_of_file(path) for path in self.options.input_files()}

    @cached_property
    def sts_dev(self) -> Sequence[Example]:
        """The STS dev pairs, which measure every contrastive stage.

        Where STS is none of the tasks, its dev file in --data_dir is read for that alone.
        """
        if "sts" in self.tables:
            return self.tables["sts"]["dev"].examples
        from multitask.rows import read_sts_dev

        table = read_sts_dev(self.options.data)
        terminal.say(
            f"{table.summary}; they only select the best weights of the contrastive stages"
        )
        return table.examples


class Resolved(NamedTuple):
    """The options without "auto", and where the model and the computation are."""

    options: Options
    model_folder: Path
    device: torch.device


class TaskJobs(NamedTuple):
    """The jobs of the tasks, in the order of their training."""

    heads: list[Job]  # of the heads alone, with --heads_first
    multitask: list[Job]  # of all tasks together. With --soup there are several.
    single: dict[str, Job]  # of each task alone, by task, with --single_task_epochs

    @property
    def in_order(self) -> list[Job]:
        """All of them."""
        return [*self.heads, *self.multitask, *self.single.values()]


@dataclass(frozen=True)
class Outcome:
    """What training leaves behind."""

    job: Job  # of the tasks. Its model is the best one, or the mean of --soup.
    soup: Soup  # what the multitask stage has left
    models: TaskModels  # that answer: that model, or a task's own
    singles: list[SingleTaskResult]  # of --single_task_epochs
    stages: dict[str, dict]  # scores before and after each stage of --pretrain
    seconds: float


@exit_code("run_multitask.py", outlives_reader=True)
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command. After Ctrl-C it says how the run is continued."""
    options, resumed = parse(argv)
    folder = resumed or choose_folder(options)
    check_tensorboard(options.training.tensorboard)
    with resumable(in_shell(Path(__file__)), folder), terminal.session("importing PyTorch"):
        terminal.heading(f"minBERT {__version__}, run {folder.name}")
        run(options, folder, is_resumed=resumed is not None)

    from minbert.training import processes

    processes.end()


def run(options: Options, folder: Path, is_resumed: bool) -> None:
    """The main job. `folder` receives all that is written."""
    from minbert.training import processes

    processes.join(options.training.device)
    if is_finished(folder):
        return
    setup = prepare(options, folder)  # device, precision, rows, encoder, tokenizer
    stages = plan_pretraining(setup)  # --pretrain; what is already trained is reused
    jobs = build_task_jobs(setup)  # all tasks together, then each alone where asked
    cost = estimate(setup, stages, jobs, is_resumed)  # printed before any work begins
    begin_run(setup, cost, is_resumed)  # options.json exists from here on: the run can be resumed
    outcome = train(setup, stages, jobs, is_resumed)
    write_results(setup, cost, outcome)  # verified files, the model, run.json


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` has come to its end; says so."""
    from minbert.training import run_folder

    record = folder / "run.json"
    if record.is_file():
        run_folder.tidy_up(folder)
        terminal.say(
            f"{folder} is finished, there is nothing to resume; its scores are in {record}."
        )
    return record.is_file()


# --- 1. prepare -----------------------------------------------------------------------------------


def prepare(options: Options, folder: Path) -> Setup:
    """Resolve the options, check the paths, read the data, open the encoder."""
    from minbert import BertTokenizer
    from minbert.training import processes, run_folder, runtime, waiting
    from minbert.training.stage import encoder_fingerprint
    from multitask import baselines, leaderboard, tasks
    from multitask.rows import describe_cuts, encode_tables, read_tables, warnings_of_unknown
    from multitask.stage import check_options_of_tasks

    # Of several processes the first one decides. The others may have found another name free.
    folder = processes.from_first(lambda: run_folder.hold(folder))
    options, model_folder, device = resolve(options, folder)
    terminal.say(*waiting.notes_on_others(device))
    names = options.data.in_order(options.multitask.tasks.read)
    splits = {name: options.data.splits_of(name) for name in names}
    paths = leaderboard.output_paths(options.multitask.files, folder, splits)
    check_new_folder("--output_dir", folder)
    leaderboard.check_output_paths(
        options.multitask.files, paths, folder, options.input_files(), model_folder
    )

    terminal.title("Data", "reading the data")
    opened = tasks.open_tasks(options.data, names)
    check_options_of_tasks(options.multitask, opened.tasks)
    terminal.say(*opened.lines)
    tables = read_tables(options.data, opened.tasks)
    terminal.facts(Fact.of(table.path, table.summary) for table in all_tables(tables))
    terminal.say(baselines.repeated_rows(tables, opened.tasks))

    terminal.title("Model", "reading the weights")
    encoder = open_encoder(options.encoder, model_folder, options.training.seed).to(device)
    runtime.compile_layers(encoder, options.encoder.compile)
    tokenizer = BertTokenizer.from_pretrained(model_folder, options.data.token_folder)
    report = encoder.load_report
    if report is not None:
        terminal.facts([Fact.of(report.source, str(report))])
    terminal.doing("tokenizing the rows, once for this run and those that follow")
    max_length = options.data.max_length
    rows = encode_tables(tables, tokenizer, max_length, options.multitask.heads.pair_encoding)
    terminal.say(describe_cuts(rows, max_length))
    terminal.say(*warnings_of_unknown(rows, options.data))
    return Setup(
        options=options,
        folder=folder,
        model_folder=model_folder,
        device=device,
        tasks=opened.tasks,
        prediction_paths=paths,
        tables=tables,
        rows=rows,
        encoder=encoder,
        tokenizer=tokenizer,
        start=encoder_fingerprint(encoder, tokenizer),
    )


def all_tables(tables: Tables) -> list[Table]:
    """The tables of all tasks and splits, in their order."""
    in_order: list[Table] = []
    for splits in tables.values():
        in_order += splits.values()
    return in_order


def resolve(options: Options, folder: Path) -> Resolved:
    """Replace what is "auto", and print each value with its reason.

    folder: of the run. ValueError where the model cannot do what the options ask.
    """
    from contrastive.presets import described, settings_of
    from contrastive.sentence_folder import note_for_training
    from minbert import BertConfig, hub
    from minbert.pooling import check_pooling, note_on_pooling
    from minbert.training import runtime

    terminal.title("Settings", "looking for devices")
    runtime.settle_memory()
    name = "cuda" if options.training.use_gpu else options.training.device
    device, device_reason = runtime.choose_device(name)
    precision, precision_reason = runtime.choose_precision(options.training.precision, device)
    with terminal.paused():  # a download shows its own progress
        model_folder = hub.resolve(options.encoder.model)
    check_pooling(model_folder, options.encoder.pooling)
    notes = [
        note_on_pooling(model_folder, options.encoder.pooling),
        note_for_training(model_folder),
    ]
    terminal.say(*(note for note in notes if note is not None))
    config = BertConfig.from_pretrained(model_folder)

    fitting = automatic.choose_length(options, config.num_positions)
    options = options.with_values(**{name: choice.value for name, choice in fitting.items()})

    settings = {}
    for method in options.run.methods:
        settings[method] = settings_of(method, options.contrastive, config.hidden_size, device.type)
    lengths = [preset.max_length for preset in settings.values()]
    check_positions(options.data.max_length, lengths, options.encoder.model, config.num_positions)

    meanings = automatic.explain(options, config, folder)
    options, choices = automatic.resolve(
        options,
        config.hidden_size,
        Choice(device.type, device_reason),
        Choice(precision, precision_reason),
    )
    facts = []
    for option, choice in {**choices, **meanings, **fitting}.items():
        facts.append(Fact(option, choice.value, choice.reason))
    for method, chosen in settings.items():
        line = described(method, chosen, options.contrastive, device.type, options.flat())
        facts.append(Fact.of(method, line))
    terminal.facts(facts)
    return Resolved(options, model_folder, device)


def open_encoder(options: EncoderOptions, model_folder: Path, seed: int) -> BertModel:
    """The encoder that the run starts from. Weights that its files lack are drawn from the seed."""
    from minbert import BertModel
    from minbert.training import runtime

    runtime.seed_everything(seed)
    return BertModel.from_pretrained(
        model_folder,
        attention_implementation=options.attention,
        **options.dropout_overrides(),
    )


# --- 2. plan the stages of --pretrain -------------------------------------------------------------


def plan_pretraining(setup: Setup) -> Chain:
    """The stages of --pretrain, each with the finished encoder that is used instead, if any.

    A stage after the tasks (--contrastive_order last) starts from an encoder that no other run has.
    """
    from minbert.training.stage import plan_chain

    candidates = []
    if not setup.options.contrastive.is_last:
        candidates = encoders_beside(setup.folder)
    return plan_chain(build_stages(setup), candidates)


def encoders_beside(folder: Path) -> list[Path]:
    """The encoders that stages of runs in the same place have left, by the names of the runs.

    The link to the newest run is left out: it would name a run twice.
    """
    encoders = []
    for path in sorted(folder.parent.glob("*/encoder*")):
        if not path.parent.is_symlink():
            encoders.append(path)
    return encoders


def build_stages(setup: Setup) -> list[Stage]:
    """The stages in order. Each starts from the encoder that the one before it leaves."""
    from minbert.training.stage import stage_fingerprint

    options = setup.options
    start = setup.start
    if options.contrastive.is_last:  # they start from what the tasks make of the encoder
        start = stage_fingerprint(start, options.flat(), ())
    names = list(options.run.stages)
    if options.contrastive.is_fusion:  # SimCSE is trained together with the tasks
        names.remove("simcse")
    stages: list[Stage] = []
    for name in names:
        # The last encoder is the result of the chain.
        folder = setup.folder / ("encoder" if name == names[-1] else f"encoder-{name}")
        stage = build_stage(setup, name, folder, start)
        stages.append(stage)
        start = stage.fingerprint
    return stages


def build_stage(setup: Setup, name: str, folder: Path, start: str) -> Stage:
    """One stage of --pretrain. start: fingerprint of what it starts from."""
    if name == "mlm":
        return build_mlm_stage(setup, folder, start)
    from contrastive import stage

    options = setup.options
    text = stage.StageText(
        train={task: splits["train"].examples for task, splits in setup.tables.items()},
        sts_dev=setup.sts_dev,
        sts_max_length=options.data.max_length,
    )
    return stage.build_stage(
        name,
        options.contrastive,
        options.training,
        options.encoder.pooling,
        setup.encoder,
        setup.tokenizer,
        text,
        stage.Place(start, folder, setup.folder / "checkpoint" / name),
    )


def build_mlm_stage(setup: Setup, folder: Path, start: str) -> Stage:
    """Masked language modelling on the tasks' own training rows."""
    from minbert.pretraining import stage
    from multitask.stage import rows_for_mlm

    options = setup.options
    # mlm learns no sentence vector. One that an earlier stage has learned stays noted.
    earlier = set(options.run.stages[: options.run.stages.index("mlm")])
    if options.contrastive.is_fusion:
        earlier.discard("simcse")
    return stage.build_stage(
        options.mlm,
        options.training,
        options.encoder.pooling,
        bool(earlier),
        setup.encoder,
        setup.tokenizer,
        rows_for_mlm(setup.rows, options.multitask, options.mlm.mlm_batch_size, options.data),
        stage.Place(start, setup.model_folder, folder, setup.folder / "checkpoint" / "mlm"),
    )


# --- 3. build the jobs of the tasks ---------------------------------------------------------------


def build_task_jobs(setup: Setup) -> TaskJobs:
    """The multitask stage as jobs: the heads alone first where --heads_first asks, then all.

    All come several times where --soup asks. After them comes each task alone, where
    --single_task_epochs asks.
    """
    from contrastive.stage import build_companion
    from multitask import stage
    from multitask.model import MultitaskBert

    options = setup.options
    companion = None
    if options.contrastive.is_fusion:
        companion = build_companion(
            options.contrastive, options.training, options.encoder.pooling, setup.encoder
        )
    model = MultitaskBert(
        setup.encoder,
        options.encoder.pooling,
        options.multitask.heads,
        options.training.seed,
        automatic.has_dropout_in_tasks(options, setup.encoder.config.hidden_size),
        setup.tasks,
    )
    fine_tuning = options.multitask.fine_tuning
    jobs = []
    for number in range(fine_tuning.soup):
        jobs.append(
            stage.build_job(
                options.multitask,
                options.training,
                model,
                setup.rows,
                setup.folder,
                companion,
                number,
            )
        )
    job = jobs[0]
    heads = []
    if fine_tuning.heads_first:
        heads.append(stage.heads_job(job, options.multitask, options.training))
    single: dict[str, Job] = {}
    if fine_tuning.single_task_epochs:
        for task in dict.fromkeys(options.multitask.tasks.order):
            single[task] = stage.single_task_job(
                job, task, setup.rows, options.multitask, options.training
            )
    return TaskJobs(heads, jobs, single)


# --- 4. estimate the cost -------------------------------------------------------------------------


def estimate(setup: Setup, stages: Chain, jobs: TaskJobs, is_resumed: bool) -> list[CostEstimate]:
    """What the run will cost in time, memory and disk, from a few real steps of each job."""
    from minbert.training import cost_estimate

    terminal.title("Cost estimate", "planning the stages")
    planned = [step.stage.job for step in stages if step.reused is None]
    costs = cost_estimate.estimate(planned + jobs.in_order, setup.folder, is_resumed)
    terminal.table(cost_estimate.table(costs))
    return costs


# --- 5. begin the run -----------------------------------------------------------------------------


def begin_run(setup: Setup, costs: list[CostEstimate], is_resumed: bool) -> None:
    """Make the run's folder with options.json, or on resume check that the inputs are the same."""
    from minbert.training import cost_estimate, processes, run_folder

    terminal.doing("making the folder of the run")
    inputs = {**setup.digests, f"--model {setup.options.encoder.model}": setup.start}
    run_folder.claim(setup.folder, setup.options.flat(), inputs, is_resumed)
    processes.from_first(lambda: run_folder.point_to_latest(setup.folder))
    cost_estimate.write_estimates(costs, setup.folder)


# --- 6. train -------------------------------------------------------------------------------------


def train(setup: Setup, stages: Chain, jobs: TaskJobs, is_resumed: bool) -> Outcome:
    """Train the stages before or after the tasks, and the tasks."""
    from minbert.training import processes
    from minbert.training.loop import fit
    from minbert.training.stage import run_chain
    from multitask.soup import train_soup
    from multitask.stage import train_single_tasks

    log_steps(setup, [*(step.stage.job for step in stages), *jobs.in_order])
    is_last = setup.options.contrastive.is_last
    qualities: dict[str, dict] = {}
    seconds = 0.0
    if not is_last:
        qualities, seconds = run_chain(stages, is_resumed)

    def train_job(job: Job) -> Progress:
        nonlocal seconds
        terminal.title(f"Stage {job.name}")
        progress = fit(job, is_resumed)
        seconds += progress.seconds
        return progress

    for job in jobs.heads:
        train_job(job)
    soup = train_soup(jobs.multitask, train_job, setup.options.multitask.fine_tuning.is_greedy_soup)
    seconds += soup.seconds
    job = jobs.multitask[0]
    models, singles = train_single_tasks(job, soup.scores, jobs.single, train_job)
    if is_last:
        qualities, spent = run_chain(stages, is_resumed)
        seconds += spent
    processes.leave()  # of several processes the first one goes on alone
    return Outcome(job, soup, models, singles, qualities, seconds)


def log_steps(setup: Setup, jobs: list[Job]) -> None:
    """Let each job write log.csv, and the log of --tensorboard."""
    from minbert.training.step_log import StepLog
    from minbert.training.tensorboard import TensorBoardLog

    step_log = StepLog(setup.folder)
    board = TensorBoardLog(setup.folder) if setup.options.training.tensorboard else None

    def write(record: StepRecord) -> None:
        step_log.write(record)
        if board is not None:
            board.write(record)

    for job in jobs:
        job.on_step = write
        if board is not None:
            job.on_evaluation = partial(board.write_scores, job.name)


# --- 7. write the results -------------------------------------------------------------------------


def write_results(setup: Setup, costs: list[CostEstimate], outcome: Outcome) -> None:
    """Write the files of predictions, the model and run.json, and print the closing table."""
    from data.known_words import save_words
    from data.task_specs import stored
    from minbert.training import cost_estimate, run_folder
    from multitask import conflicts, evaluation, leaderboard, prediction_files, soup, task_models

    terminal.title("Results", "predicting dev and test")
    options = setup.options
    started = time.perf_counter()
    surgery: Any = outcome.job.surgery
    conflict_record, conflict_table = conflicts.report(surgery, setup.folder, setup.tasks)
    scores, dev_outputs = leaderboard.write_results(
        outcome.models, setup.rows, setup.tables, setup.prediction_paths, options.training.precision
    )
    training = {task: splits["train"] for task, splits in setup.rows.items()}
    train_scores = evaluation.score_training_rows(
        options.multitask.fine_tuning, outcome.models, training, options.training.precision
    )
    seconds = outcome.seconds + time.perf_counter() - started

    outcome.models.save_pretrained(setup.folder, setup.tokenizer)
    training_rows = {task: splits["train"].examples for task, splits in setup.tables.items()}
    save_words(setup.folder / "model", training_rows)
    terminal.doing("baselines: majority and TF-IDF")
    baselines = leaderboard.baseline_scores(setup.tables, setup.tasks)
    terminal.doing("writing run.json")
    actual = {"seconds": seconds, "peak_memory": cost_estimate.peak_memory(setup.device)}
    record = run_folder.write_record(
        setup.folder,
        options.flat(),
        setup.digests,
        tasks=stored(setup.tasks),
        predictions=prediction_files.digests_of(setup.prediction_paths),
        scores=scores.dev,
        **({"test_scores": scores.test} if scores.test else {}),
        **({"train_scores": train_scores} if train_scores else {}),
        baselines=baselines,
        epochs=outcome.soup.progress.history,
        best_step=outcome.soup.progress.best_step,
        **soup.stored_soup(outcome.soup),
        **task_models.stored_results(outcome.singles),
        conflicts=conflict_record,
        stages=outcome.stages,
        predicted=[asdict(cost) for cost in costs],
        actual=actual,
    )
    run_folder.point_to_latest(setup.folder)

    print_conflicts(conflict_table, outcome.soup)
    print_soup(setup, record)
    print_single_tasks(setup, outcome.singles)
    print_results(setup, scores, train_scores, baselines)
    terminal.say("", cost_estimate.comparison(costs, **actual))
    print_paths(setup, outcome.singles)
    write_report(setup, record, dev_outputs, surgery)
    print_summary(setup, outcome)


def write_report(
    setup: Setup,
    record: dict[str, Any],
    dev_outputs: dict[str, np.ndarray],
    surgery: GradientSurgery | None,
) -> None:
    """Write report.html and the model card, and print where they are.

    The results are on the disk by now. An error here is one line of warning.
    """
    from command_line.reproduction import command_of
    from multitask import model_card, run_report

    writers = {"model card": model_card.write_model_card, "report": run_report.write_report}
    with only_warn("the report"):
        run = run_report.ReportedRun(
            folder=setup.folder,
            record=record,
            tasks=setup.tasks,
            command=command_of(setup.options),
            dev_rows={name: splits["dev"].examples for name, splits in setup.tables.items()},
            dev_outputs=dev_outputs,
            surgery=surgery,
        )
        for name, write in writers.items():
            with only_warn(f"the {name}"):
                terminal.say(f"{name}: {write(run)}")


def print_conflicts(table: str, soup: Soup) -> None:
    """Print how often the gradients of two tasks conflict. table: "" without --surgery."""
    if table:
        if soup.ingredients:
            terminal.say("Conflicts of ingredient 1:")
        terminal.table(table.rstrip("\n"))
        terminal.say("")


def print_soup(setup: Setup, record: dict[str, Any]) -> None:
    """Print the scores of the soup and of its ingredients, where --soup asked for one.

    record: the content of run.json.
    """
    from minbert.reporting.tables import aligned
    from multitask.leaderboard import score_titles
    from multitask.soup import RECORD_KEY, soup_table, warning_of_soup

    entry = record.get(RECORD_KEY)
    if entry:
        titles = score_titles(setup.tasks)
        terminal.table(aligned(soup_table(entry, titles)))
        score = setup.options.multitask.tasks.score
        warning = warning_of_soup(entry, score, titles.get(score, score))
        terminal.say(*([warning] if warning else []), "")


def print_single_tasks(setup: Setup, results: list[SingleTaskResult]) -> None:
    """Print what training each task alone has brought, where that was asked for."""
    from minbert.reporting.tables import aligned
    from multitask.leaderboard import score_titles
    from multitask.task_models import result_table

    if results:
        terminal.table(aligned(result_table(results, score_titles(setup.tasks))))
        terminal.say("")


def print_results(
    setup: Setup,
    scores: FileScores,
    train_scores: dict[str, float],
    baselines: dict[str, dict[str, float]],
) -> None:
    """Print the closing table, and under it the scores of other rows where there are any."""
    from multitask import leaderboard
    from multitask.tasks import answerable_tasks

    options = setup.options.multitask
    trained = answerable_tasks(setup.tasks, options.tasks.order, options.heads.head)
    terminal.table(leaderboard.closing_table(scores.dev, baselines, setup.tasks, trained))
    terminal.say(*leaderboard.score_lines("test", scores.test, setup.tasks).splitlines())
    terminal.say(*leaderboard.score_lines("train", train_scores, setup.tasks).splitlines())


def print_paths(setup: Setup, singles: list[SingleTaskResult]) -> None:
    """Print where everything is that the run has written."""
    terminal.title("Files")
    single_models = {
        f"model of {item.task}": f"model-{item.task}" for item in singles if item.is_kept
    }
    places = {
        "model": "model",
        **single_models,
        "record": "run.json",
        "losses of each step": "log.csv",
    }
    if setup.options.training.tensorboard:
        places["TensorBoard log"] = "tensorboard"
    terminal.facts(Fact(name, setup.folder / place) for name, place in places.items())
    is_course = all(task.is_built_in for task in setup.tasks.values())
    terminal.say("leaderboard files:" if is_course else "files of predictions:")
    for splits in setup.prediction_paths.values():
        terminal.say(*(f"  {path}" for path in splits.values()))
    rows = setup.options.data.dev_rows
    if is_course and rows != NONE:
        terminal.say(
            f"The dev files hold only the rows of --dev_rows {rows}. To hand in, let `python -m "
            f"course.predict {in_shell(setup.folder)} --out DIR` predict all rows."
        )


def print_summary(setup: Setup, outcome: Outcome) -> None:
    """Print some predictions, which scores still rose, and what to do next."""
    from multitask import summary

    options = setup.options
    trained = {name: setup.tasks[name] for name in options.multitask.tasks.order}
    terminal.title("What it says")
    terminal.say(
        summary.describe_predictions(
            outcome.models,
            setup.tokenizer,
            setup.tables,
            list(trained),
            options.data.max_length,
            options.training.precision,
        )
    )
    progress = summary.describe_progress(outcome.soup.progress.history, trained)
    if progress:
        prefix = "Ingredient 1: " if outcome.soup.ingredients else ""
        terminal.say(f"{prefix}{progress}")
    first = next(iter(trained))
    dev_file = options.data.file_of(first, "dev") or options.data.file_of(first, "train")
    terminal.title("Next")
    terminal.say(summary.next_commands(setup.folder, trained[first], dev_file))


if __name__ == "__main__":
    # SIGTERM ends a run as Ctrl-C does, outside the training loop, too.
    signal.signal(signal.SIGTERM, INTERRUPTION.receive)
    sys.exit(main())
