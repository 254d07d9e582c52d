"""Open a finished run from its folder, for the commands predict, ensemble and errors.

`read_record` is quick and says whether the run can be used. `open_run` also loads the model and
the rows. Runs of older versions open, too, if their run.json holds the options that these
commands read.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError

from data.options import DataOptions, numbers_by_task
from minbert import BertTokenizer
from minbert.commands.ending import this_python
from minbert.commands.files import DamagedFile, digest_of_file, read_json
from minbert.commands.options import AUTO, OptionGroup, all_fields, from_flat
from minbert.commands.paths import in_shell
from minbert.commands.plugins import check_named, digest_of_plugin, flags_of_named
from minbert.options import EncoderOptions
from minbert.reporting import terminal
from minbert.training import runtime
from minbert.training.options import TrainingOptions
from multitask.evaluation import predict
from multitask.head_registry import HEADS
from multitask.leaderboard import PREDICTED
from multitask.model import MultitaskBert
from multitask.options import HeadOptions, TaskOptions
from multitask.rows import EncodedTables, Tables, encode_tables, read_tables
from multitask.sampler_registry import SAMPLERS
from multitask.surgery_registry import SURGERIES
from multitask.task_models import SHARED_FOLDER, TaskModels, tasks_alone
from multitask.tasks import BUILT_IN_TASKS, Task, answerable_tasks, stored_tasks

Group = TypeVar("Group", bound=OptionGroup)

# The options without which a run cannot be predicted again. Defaults would only guess them.
NEEDED_OPTIONS = (
    "pair_encoding",
    "max_length",
    "precision",
    "device",
    "attention",
    "drop_bad_rows",
    "train_rows",
    "dev_rows",
    "tasks",
    "head",
)
LONGEST = 500  # letters of a reason in a message, which may quote a damaged file
ADVICE = "so another version wrote it. Start the run anew with this one."


@dataclass(frozen=True)
class SavedOptions:
    """The options of a finished run that its predictions depend on, and those that name it."""

    data: DataOptions
    encoder: EncoderOptions
    training: TrainingOptions
    tasks: TaskOptions
    heads: HeadOptions


@dataclass(frozen=True)
class Record:
    """The content of a finished run's run.json."""

    folder: Path
    options: SavedOptions
    tasks: dict[str, Task]  # by name, those that the run reads
    scores: dict[str, float]  # dev scores by task
    files: dict[str, str]  # SHA-256 of each data file, by its path
    alone: list[str]  # the tasks that have a model of their own (--single_task_epochs)


@dataclass(frozen=True)
class FinishedRun(Record):
    """A record with the model in evaluation mode and the data of the run."""

    model: MultitaskBert | TaskModels
    tables: Tables  # [task][split]
    rows: EncodedTables  # [task][split], dev and test only

    def outputs(self, task: str, split: str) -> np.ndarray:
        """Predict one split: float32 in row order, (N, C) for C classes, otherwise (N,)."""
        return predict(self.model, task, self.rows[task][split], self.options.training.precision)


def read_record(folder: str | Path) -> Record:
    """Read run.json in the folder of a run of run_multitask.py.

    Raises ValueError if the folder holds no finished run, or one of a version that saved other
    options.
    """
    folder = Path(folder)
    check_finished(folder)
    try:
        record = read_json(folder / "run.json")
        values = dict(record["options"])
        files = dict(record["files"])
        tasks = stored_tasks(record)
        scores = {name: float(record["scores"][name]) for name in tasks}
        alone = tasks_alone(record)
    except DamagedFile as error:
        raise ValueError(f"{folder}: run.json cannot be used: {error}.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder}: no finished run there (run.json: {type(error).__name__}: {error}). Give a "
            "folder that run_multitask.py wrote, such as runs/NAME."
        ) from error

    check_heads(values, files, folder)
    for path in values.get("plugin", ()):
        files.pop(path, None)  # no data file
    missing = [name for name in NEEDED_OPTIONS if name not in values]
    if missing:
        raise ValueError(f"{folder}: its run.json lacks {missing[0]}, {ADVICE}")
    try:
        options = saved_options(values)
    except ValueError as error:
        raise ValueError(
            f"{folder}: its run.json has an option that this version does not know "
            f"({str(error)[:LONGEST]}), {ADVICE}"
        ) from error
    # A file that is named but has no digest cannot be checked, so it counts as missing.
    for name, task in tasks.items():
        is_known = task.is_built_in or name in options.data.requests
        for split in options.data.splits_of(name):
            if not is_known or options.data.file_of(name, split) not in files:
                raise ValueError(f"{folder}: its run.json lacks {name}_{split}, {ADVICE}")
    return Record(folder, options, tasks, scores, files, alone)


def check_heads(values: Mapping[str, Any], files: Mapping[str, str], folder: Path) -> None:
    """PluginError where a head of the run is in a plugin that the user has not named.

    Nothing else of a plugin predicts. No code runs here.

    values: its options. files: SHA-256 by path.
    """
    names = {values.get("head", AUTO), values.get("para_head", AUTO)} - {AUTO}
    paths = values.get("plugin", ())
    if all(name in HEADS and not digest_of_plugin(HEADS, name) for name in names):
        return
    # A plugin of another run may have a head of the same name.
    digests = {"", *(files.get(path, "") for path in paths)}
    if not all(name in HEADS and digest_of_plugin(HEADS, name) in digests for name in names):
        check_named(paths, files, str(folder))


def check_finished(folder: Path) -> None:
    """ValueError with the command that finishes the run, if it has begun and not ended.

    --resume refuses a run whose options.json cannot be used, so no command finishes that one.
    """
    path = folder / "options.json"
    if not path.is_file() or (folder / "run.json").is_file():
        return
    state = f"{folder}: the run there has not come to its end (there is no run.json)"
    try:
        content = read_json(path)
        for section in ("options", "files"):
            dict(content[section])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{state}, and its options.json cannot be used ({type(error).__name__}: {error}). "
            "Give another run, or start a new one."
        ) from error
    program = in_shell(Path(__file__).parents[1] / "run_multitask.py")
    raise ValueError(
        f"{state}. Finish it: {this_python()} {program} --resume {in_shell(folder)}"
        f"{flags_of_named()}"
    )


def saved_options(values: Mapping[str, Any]) -> SavedOptions:
    """The option groups of a run from the flat values in its run.json.

    Names that no group knows are dropped: another version had them. Raises ValueError for a value
    that a group refuses.
    """
    return SavedOptions(
        data=known_values(DataOptions, values),
        encoder=known_values(EncoderOptions, values),
        training=known_values(TrainingOptions, values),
        tasks=known_values(TaskOptions, without_training(values)),
        heads=known_values(HeadOptions, values),
    )


def without_training(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without the sampler and the surgery, if a plugin that is not loaded has them.

    Predictions do not depend on them.
    """
    is_known = values.get("sampling", "joint") in SAMPLERS
    is_known = is_known and values.get("surgery", "mean") in SURGERIES
    if is_known:
        return dict(values)
    kept = {name: values[name] for name in ("tasks", "untrained_tasks", "score") if name in values}
    # Only some samplers allow a task to come several times.
    return {**kept, "sampling": "sequential"}


def known_values(cls: type[Group], values: Mapping[str, Any]) -> Group:
    """The group of those values that are its options."""
    names = {item.name for item in all_fields(cls)}
    return from_flat(cls, {name: value for name, value in values.items() if name in names})


def can_answer(run: Record, task: str) -> bool:
    """Whether the run can answer the task, as tasks.answerable_tasks says."""
    return task in answerable_tasks(run.tasks, run.options.tasks.order, run.options.heads.head)


def open_model(run: Record, device: str = AUTO) -> tuple[MultitaskBert | TaskModels, BertTokenizer]:
    """Load the run's model, in evaluation mode, and its tokenizer.

    device: a name of torch. auto: that of the run, as `choose_device` says. Raises ValueError if
    the files cannot be read, and for a device that is not here.
    """
    source = run.folder / SHARED_FOLDER
    runtime.settle_memory()
    attention = run.options.encoder.attention
    model: MultitaskBert | TaskModels
    try:
        if run.alone:
            model = TaskModels.from_pretrained(
                run.folder, run.alone, attention_implementation=attention
            )
        else:
            model = MultitaskBert.from_pretrained(source, attention_implementation=attention)
        tokenizer = BertTokenizer.from_pretrained(source)
    except (OSError, SafetensorError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"{source}: the model cannot be read ({error}). Bring the folder back as the run wrote "
            "it, or start the run anew."
        ) from error

    place = choose_device(run) if device == AUTO else runtime.choose_device(device).device
    return model.to(place), tokenizer


def choose_device(run: Record) -> torch.device:
    """The device of the run, or the fastest one here where this machine has no such device.

    So a run of a GPU opens on a laptop. The user is told, because the numbers may differ in their
    last digits.
    """
    name = run.options.training.device
    try:
        return runtime.choose_device(name).device
    except runtime.MissingDevice:
        device = runtime.choose_device().device
        terminal.say(
            f"{run.folder} was trained on the device {name}, which torch does not find on this "
            f"machine. It is opened on {device}."
        )
        return device


def check_files(run: Record) -> None:
    """ValueError if a data file of the run is absent or has changed since."""
    for path, digest in run.files.items():
        if not Path(path).is_file():
            raise ValueError(
                f"{run.folder}: {Path(path).absolute()}, which the run was trained on, is not "
                "there. Restore it, or start this command in the folder where the run was started."
            )
        if digest_of_file(path) != digest:
            raise ValueError(
                f"{run.folder}: {path} is not the file that the run was trained on, it has changed "
                "since. Restore it, or start the run anew."
            )


def open_run(folder: str | Path) -> FinishedRun:
    """Read run.json, the model and the data files of a run of run_multitask.py.

    Raises ValueError as read_record, check_files and open_model do.
    """
    record = read_record(folder)
    check_files(record)
    model, tokenizer = open_model(record)
    tables = read_tables(record.options.data, record.tasks)

    # Training rows take the most time to encode, and no command predicts them.
    predicted = {}
    for task, splits in tables.items():
        predicted[task] = {split: splits[split] for split in PREDICTED if split in splits}
    rows = encode_tables(predicted, tokenizer, record.options.data.max_length, model.pair_encoding)
    return FinishedRun(
        folder=record.folder,
        options=record.options,
        tasks=record.tasks,
        scores=record.scores,
        files=record.files,
        alone=record.alone,
        model=model,
        tables=tables,
        rows=rows,
    )


def all_tasks(runs: Sequence[Record]) -> dict[str, Task]:
    """The tasks of several runs: those that any of them reads, built-in ones first.

    Raises ValueError where two runs mean different things by a name.
    """
    tasks: dict[str, Task] = {}
    first: dict[str, Record] = {}
    for run in runs:
        for name, task in run.tasks.items():
            if meaning_of(tasks.setdefault(name, task)) != meaning_of(task):
                raise ValueError(
                    f"{first[name].folder} and {run.folder} have different tasks called {name}: "
                    f"{described(tasks[name])}, and {described(task)}. Give runs on the same task."
                )
            first.setdefault(name, run)
    built_in = {name: tasks[name] for name in BUILT_IN_TASKS if name in tasks}
    return built_in | tasks


def meaning_of(task: Task) -> tuple[str, tuple[str, ...], bool]:
    """What must be equal for the answers of two runs to mean the same. Metrics only score them."""
    return task.kind, task.label_names, task.is_pair


def described(task: Task) -> str:
    """A task in words, for a message."""
    texts = "pairs of texts" if task.is_pair else "single texts"
    return f"{task.kind} {', '.join(task.label_names)}".strip() + f" of {texts}"


def notes_on_metrics(runs: Sequence[Record]) -> list[str]:
    """A line for each task whose runs were scored by different metrics: which one counts here."""
    notes = []
    for name, task in all_tasks(runs).items():
        metrics = [run.tasks[name].metric for run in runs if name in run.tasks]
        others = sorted(set(metrics) - {task.metric})
        if others:
            notes.append(
                f"{name}: scored by {task.metric}, as the first run that reads it. Others of the "
                f"runs chose their best epoch by {' and '.join(others)}."
            )
    return notes


def same_data(runs: Sequence[Record]) -> None:
    """ValueError if the runs were not scored on the same dev and test files.

    Runs may have different training files, but each file must be unchanged. We check all of them
    here, before any model is opened. Runs may have different tasks. Those that share a task must
    share its rows.
    """
    for name in all_tasks(runs):
        sharing = [run for run in runs if name in run.tasks]
        for run in sharing[1:]:
            check_same_rows(name, sharing[0], run)
    for run in runs:
        check_files(run)


def check_same_rows(task: str, first: Record, run: Record) -> None:
    """ValueError if two runs have different dev or test rows of a task."""
    data = first.options.data
    other = run.options.data
    for split in PREDICTED:
        path = data.file_of(task, split)
        other_path = other.file_of(task, split)
        # Of a user's task, a run may have no test file.
        if first.files.get(path) != run.files.get(other_path):
            raise ValueError(
                f"{first.folder} and {run.folder} have different files for "
                f"--{task}_{split} ({path}, {other_path}). Give runs on one data folder."
            )
    if numbers_by_task(data.dev_rows).get(task) != numbers_by_task(other.dev_rows).get(task):
        raise ValueError(
            f"{first.folder} and {run.folder} were scored on different dev rows (--dev_rows "
            f"{data.dev_rows}, {other.dev_rows}). Give runs with the same."
        )
    if task in data.requests and draw_of(data, task) != draw_of(other, task):
        raise ValueError(
            f"{first.folder} and {run.folder} drew different dev rows of {task} (dev= and "
            "split_seed= in --task). Give runs with the same."
        )


def draw_of(data: DataOptions, task: str) -> tuple[bool, float, int, int, int]:
    """What decides which dev rows of a user's task are drawn from its training file."""
    request = data.requests[task]
    part = request.fold, request.num_folds
    return request.is_split, request.dev_share, request.split_seed, *part


def check_trained(runs: Sequence[Record], task: Task) -> None:
    """ValueError if a run cannot answer the task."""

    for run in runs:
        if not can_answer(run, task.name):
            raise ValueError(
                f"{run.folder} was trained on {run.options.tasks.tasks}; its head for {task.title} "
                "never learned. Pass another --task, or another run."
            )
