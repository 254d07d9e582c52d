"""A finished run, opened again from its folder: what ensemble.py and errors.py work on.

`read_record` is quick and tells whether the run can be used; `open_run` brings the model and the rows as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from safetensors import SafetensorError

from data.batching import EncodedExamples
from data.readers import Table, numbers_by_task, sha256_of
from minbert import BertTokenizer
from minbert.commands.ending import this_python
from minbert.commands.paths import in_shell
from minbert.training import runtime
from multitask.evaluation import predict
from multitask.leaderboard import PREDICTED
from multitask.model import MultitaskBert
from multitask.stage import SPLITS, encode_tables, read_tables
from multitask.tasks import TASKS, learned

NEEDED = (
    "pair_encoding",
    "max_length",
    "precision",
    "device",
    "attention",
    "drop_bad_rows",
    "train_rows",
    "dev_rows",
)
FILE_OPTIONS = tuple(f"{task}_{split}" for task in TASKS for split in SPLITS)


@dataclass(frozen=True)
class Record:
    """What run.json says of a finished run.

    `options` are the run's; `scores` its dev scores by task name; `files` the SHA-256 of each data file by its path.
    """

    folder: Path
    options: SimpleNamespace
    scores: dict[str, float]
    files: dict[str, str]


@dataclass(frozen=True)
class FinishedRun(Record):
    """A record with its model in evaluation mode, and the data it was trained on.

    tables[task][split] and rows[task][split] are as in train.py, rows of dev and test only.
    """

    model: MultitaskBert
    tables: dict[str, dict[str, Table]]
    rows: dict[str, dict[str, EncodedExamples]]

    def outputs(self, task: str, split: str) -> np.ndarray:
        """Raw outputs float32 in row order: (N, 5) logits for "sst", (N,) for the others."""
        return predict(self.model, task, self.rows[task][split], self.options.precision)


def read_record(folder: str | Path) -> Record:
    """Read run.json in the folder of a run of run_multitask.py.

    Raises ValueError where the folder holds no finished run, or one that another version wrote.
    """
    folder = Path(folder)
    if (folder / "options.json").is_file() and not (folder / "run.json").is_file():
        how = f"{this_python()} {in_shell(Path(__file__).parents[1] / 'run_multitask.py')} --resume {in_shell(folder)}"
        raise ValueError(
            f"{folder}: the run there has not come to its end (there is no run.json). Finish it: {how}"
        )
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        options, files = dict(record["options"]), dict(record["files"])
        scores = {name: float(record["scores"][name]) for name in TASKS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder}: no finished run there (run.json: {type(error).__name__}: {error}). Give a folder "
            "that run_multitask.py wrote, such as runs/NAME."
        ) from error
    missing = [name for name in NEEDED if name not in options]
    missing += [name for name in FILE_OPTIONS if options.get(name) not in files]
    if missing:
        raise ValueError(
            f"{folder}: its run.json lacks {missing[0]}, so another version wrote it. Start the run "
            "anew with this one."
        )
    return Record(folder, SimpleNamespace(**options), scores, files)


def knows(run: Record, task: str) -> bool:
    """Whether the run can answer the task, as tasks.learned says."""
    return task in learned(run.options.tasks.split(","), run.options.head)


def open_model(run: Record) -> tuple[MultitaskBert, BertTokenizer]:
    """The run's model in evaluation mode and its tokenizer; ValueError where they cannot be read.

    The model is put on the device that the run had, or on the fastest of this machine where that is absent: a run of a
    GPU is opened on a laptop.
    """
    options, source = run.options, run.folder / "model"
    runtime.settle_memory()
    try:
        model = MultitaskBert.from_pretrained(source, attention_implementation=options.attention)
        tokenizer = BertTokenizer.from_pretrained(source)
    except (OSError, SafetensorError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"{source}: the model cannot be read ({error}). Bring the folder back as the run wrote it, "
            "or start the run anew."
        ) from error
    try:
        device, _ = runtime.choose_device(options.device)
    except ValueError:  # no such device on this machine
        device, _ = runtime.choose_device()
    return model.to(device), tokenizer


def check_files(run: Record) -> None:
    """ValueError where a data file of the run is absent or has changed since."""
    for path, digest in run.files.items():
        if not Path(path).is_file():
            raise ValueError(
                f"{run.folder}: {Path(path).absolute()}, which the run was trained on, is not there. "
                "Restore it, or start this command in the folder where the run was started."
            )
        if sha256_of(path) != digest:
            raise ValueError(
                f"{run.folder}: {path} is not the file that the run was trained on, it has changed since. "
                "Restore it, or start the run anew."
            )


def open_run(folder: str | Path) -> FinishedRun:
    """Read run.json, the model (`open_model`) and the data files (`check_files`) of a run of run_multitask.py.

    Raises ValueError where the folder holds no finished run, where its model cannot be read, or where a data file is
    absent or has changed since.
    """
    record = read_record(folder)
    check_files(record)
    model, tokenizer = open_model(record)
    tables = read_tables(record.options)
    predicted = {
        name: {split: of_task[split] for split in PREDICTED} for name, of_task in tables.items()
    }
    rows = encode_tables(predicted, tokenizer, record.options.max_length, model.pair_encoding)
    return FinishedRun(**vars(record), model=model, tables=tables, rows=rows)


def same_data(runs: Sequence[Record]) -> None:
    """ValueError where the runs were not scored on the same dev and test files, so that they cannot be compared.

    What the runs were trained on may differ, but has to be there as it was (`check_files`), so that this is not found
    when the last run is opened.
    """
    for run in runs:
        for name in (name for name in FILE_OPTIONS if not name.endswith("_train")):
            paths = [getattr(other.options, name) for other in (runs[0], run)]
            if runs[0].files[paths[0]] != run.files[paths[1]]:
                raise ValueError(
                    f"{runs[0].folder} and {run.folder} have different files for --{name} ({paths[0]}, "
                    f"{paths[1]}). Give runs on one data folder."
                )
        if numbers_by_task(runs[0].options.dev_rows) != numbers_by_task(run.options.dev_rows):
            raise ValueError(
                f"{runs[0].folder} and {run.folder} were scored on different dev rows (--dev_rows "
                f"{runs[0].options.dev_rows}, {run.options.dev_rows}). Give runs with the same."
            )
        check_files(run)
