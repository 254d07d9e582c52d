"""The data of a run: its tasks, their rows, and the files of its predictions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from data.examples import Example
from data.options import DataOptions
from minbert import BertTokenizer
from minbert.commands.files import digest_of_file
from minbert.commands.options import NONE
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact
from multitask import baselines
from multitask.leaderboard import Paths, check_output_paths, output_paths
from multitask.options import MultitaskOptions
from multitask.rows import (
    EncodedTables,
    Tables,
    describe_cuts,
    encode_tables,
    read_sts_dev,
    read_tables,
    warnings_of_unknown,
)
from multitask.stage import check_options_of_tasks, describe_class_weights
from multitask.tasks import Task, open_tasks


class TaskTables(NamedTuple):
    """The tasks of a run by name, and their tables by [task][split]."""

    tasks: dict[str, Task]
    tables: Tables


@dataclass(frozen=True)
class RunData:
    """All rows that a run reads, and where its predictions go."""

    options: DataOptions
    inputs: list[str]  # the paths of all files that the run reads
    tasks: dict[str, Task]  # by name, those that are read
    tables: Tables  # [task][split]
    rows: EncodedTables  # [task][split], the tables as token ids
    prediction_paths: Paths  # [task][split]

    def examples(self, split: str) -> dict[str, Sequence[Example]]:
        """The rows of one split by task. Every task must have it."""
        return {task: splits[split].examples for task, splits in self.tables.items()}

    @cached_property
    def sts_dev(self) -> Sequence[Example]:
        """The STS dev pairs, which measure every contrastive stage.

        Where STS is none of the tasks, its dev file in --data_dir is read for that alone.
        """
        if "sts" in self.tables:
            return self.tables["sts"]["dev"].examples
        table = read_sts_dev(self.options)
        terminal.say(
            f"{table.summary}; they only select the best weights of the contrastive stages"
        )
        return table.examples

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each input file. The run asks once every reader has checked its file."""
        return {path: digest_of_file(path) for path in self.inputs}


def place_predictions(
    data: DataOptions,
    multitask: MultitaskOptions,
    folder: Path,
    inputs: Iterable[str],
    model_folder: Path,
    skipped: Collection[str] = (),
) -> Paths:
    """Where the predictions of a run go. ValueError for a path that must not be written.

    folder: of the run. inputs: all files that the run reads. model_folder: of the encoder. skipped:
    the parts of --skip.
    """
    splits = {}
    for name in data.in_order(multitask.tasks.read):
        splits[name] = set(data.splits_of(name)) - set(skipped)
    paths = output_paths(multitask.files, folder, splits)
    check_output_paths(multitask.files, paths, folder, inputs, model_folder)
    return paths


def read_task_tables(data: DataOptions, multitask: MultitaskOptions) -> TaskTables:
    """Read the files of all tasks, and print what each of them holds."""
    terminal.title("Data", "reading the data")
    opened = open_tasks(data, data.in_order(multitask.tasks.read))
    check_options_of_tasks(multitask, opened.tasks)
    terminal.say(*opened.lines)
    tables = read_tables(data, opened.tasks, opened.training_tables)
    facts = []
    for splits in tables.values():
        facts += [Fact.of(table.path, table.summary) for table in splits.values()]
    terminal.facts(facts)
    terminal.say(baselines.repeated_rows(tables, opened.tasks))
    if multitask.fine_tuning.class_weights != NONE:
        for name in dict.fromkeys(multitask.tasks.order):
            if not opened.tasks[name].is_regression:
                train = tables[name]["train"].examples
                terminal.say(describe_class_weights(opened.tasks[name], train))
    return TaskTables(opened.tasks, tables)


def tokenize(
    tables: Tables, tokenizer: BertTokenizer, data: DataOptions, pair_encoding: str
) -> EncodedTables:
    """The token ids of all rows. Prints how many rows were cut, and which are mostly unknown."""
    terminal.doing("tokenizing the rows, once for this run and those that follow")
    rows = encode_tables(tables, tokenizer, data.max_length, pair_encoding)
    terminal.say(describe_cuts(rows, data.max_length))
    terminal.say(*warnings_of_unknown(rows, data))
    return rows
