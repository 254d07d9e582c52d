"""The rows of the tasks: from their files to tables, and from tables to token ids.

Training and all commands on finished runs read rows here.
"""

from __future__ import annotations

from collections.abc import Mapping

from data.batching import EncodedExamples
from data.examples import STS, Table
from data.options import DataOptions, numbers_by_task
from data.readers import read_examples
from data.tables.rows import RawTable
from data.task_specs import TaskSpec
from data.task_tables import read_splits
from minbert import BertTokenizer
from minbert.training import processes
from multitask.tasks import TASKS

Tables = dict[str, dict[str, Table]]  # [task][split]
EncodedTables = dict[str, dict[str, EncodedExamples]]  # [task][split], the same rows as token ids


def read_tables(
    options: DataOptions,
    tasks: Mapping[str, TaskSpec] = TASKS,
    training_tables: Mapping[str, RawTable] | None = None,
) -> Tables:
    """The files of the tasks, as tables[task][split]. ValueError names the first unusable one.

    training_tables: those that open_tasks has read already, by task.

    Training and dev files are cut to --train_rows and --dev_rows. Test files stay whole, for the
    leaderboard. A user's task may have no test file.
    """
    opened = training_tables or {}
    tables = {name: read_splits(task, options, opened.get(name)) for name, task in tasks.items()}
    # Rows are left out at even distances. A file sorted by label stays balanced.
    for split, limits in {"train": options.train_rows, "dev": options.dev_rows}.items():
        for task, limit in numbers_by_task(limits).items():
            if task in tables:
                tables[task][split] = tables[task][split].cut(int(limit))
    return tables


def read_sts_dev(options: DataOptions) -> Table:
    """The STS dev file of --data_dir, cut to --dev_rows, for runs that do not train STS."""
    table = read_examples(options.file_of("sts", "dev"), STS, drop_bad_rows=options.drop_bad_rows)
    limit = numbers_by_task(options.dev_rows).get("sts")
    return table if limit is None else table.cut(int(limit))


def encode_tables(
    tables: Tables, tokenizer: BertTokenizer, max_length: int, pair_encoding: str
) -> EncodedTables:
    """Token ids of every row, made once, as rows[task][split]."""

    def encode() -> EncodedTables:
        rows: EncodedTables = {}
        for task, splits in tables.items():
            rows[task] = {}
            for split, table in splits.items():
                rows[task][split] = EncodedExamples(
                    table.examples, tokenizer, max_length, pair_encoding
                )
        return rows

    def fill_cache() -> None:
        encode()

    # The first of several processes fills the cache, from which the others read.
    if processes.count() > 1:
        processes.from_first(fill_cache)
    return encode()


def describe_cuts(rows: EncodedTables, max_length: int) -> str:
    """The line for the user that says how many rows were too long."""
    num_rows = 0
    num_cut = 0
    for splits in rows.values():
        for encoded in splits.values():
            num_rows += len(encoded)
            num_cut += encoded.num_truncated
    share = f"{num_cut:,} of {num_rows:,} rows"
    return f"{share} are longer than --max_length {max_length} and were cut to it"


def warnings_of_unknown(rows: EncodedTables, data: DataOptions) -> list[str]:
    """The warnings of files that the model does not know most of, one a file."""
    warnings = []
    for task, splits in rows.items():
        for split, encoded in splits.items():
            # Rows that were split off a training file have no file of their own.
            source = data.file_of(task, split) or f"the {split} rows of {task}"
            warning = encoded.warn_of_unknown(source)
            warnings += [warning] if warning else []
    return warnings


def num_tokens(rows: EncodedTables, split: str) -> int:
    """Tokens of one split of all tasks. A task may lack a test split."""
    return sum(int(splits[split].sizes.sum()) for splits in rows.values() if split in splits)
