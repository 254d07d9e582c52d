"""Options of the files that a run reads. No torch here."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from data.examples import BUILT_IN_FILES
from data.tables.numbers import parse_number
from data.task_flags import EXAMPLE, TaskRequest, parse_tasks
from minbert.commands.options import AUTO, NONE, OptionGroup, flag, group, with_values

SAMPLE = "data/sample"
DEFAULT_LENGTH = 128  # tokens of a row
SAMPLE_FOLDER = Path(__file__).resolve().parent / "sample"


def folder_of_data(data_dir: str | Path) -> Path:
    """The folder of the course's files.

    Outside of the clone, the default means the files that came with this package.
    """
    folder = Path(data_dir)
    return SAMPLE_FOLDER if folder == Path(SAMPLE) and not folder.is_dir() else folder


def numbers_by_task(text: str) -> dict[str, float]:
    """Return the numbers in an option such as "para=2,sts=0.5", by task. "none" gives {}.

    Raises ValueError where a number cannot be read.
    """
    numbers: dict[str, float] = {}
    if text == NONE:
        return numbers
    for item in text.split(","):
        task, _, written = item.partition("=")
        number = parse_number(written)
        if math.isnan(number):
            raise ValueError(f"'{written}' is not a number")
        numbers[task] = number
    return numbers


def check_numbers(
    name: str, text: str, tasks: Collection[str], trained: str = "", is_whole: bool = False
) -> None:
    """Raise ValueError where an option is not "none" or a number above 0 for each task it names.

    name: of the option. text: its value, such as "para=2,sts=0.5".
    tasks: the names it may hold. trained: the value of --tasks, for the message.
    is_whole: whether the numbers must be whole.
    """
    try:
        numbers = numbers_by_task(text)
    except ValueError:
        # No task has this name, so the text is refused below.
        numbers = {"": 0.0}

    names = set(numbers)
    is_task = all(name.isidentifier() for name in names)
    if trained and is_task and not names <= set(tasks):
        raise ValueError(
            f"--{name} {text} names a task that --tasks {trained} does not train; leave it out, "
            f"or pass --{name} none."
        )

    unknown = sorted(names - set(tasks))
    if is_task and unknown:
        raise ValueError(
            f"--{name} {text}: there is no task {unknown[0]}; there are {', '.join(tasks)}."
        )

    is_repeated = len(numbers) < text.count("=")
    is_allowed = names <= set(tasks) and not is_repeated
    for number in numbers.values():
        is_above_zero = 0 < number < math.inf
        is_fitting = number % 1 == 0 or not is_whole
        is_allowed = is_allowed and is_above_zero and is_fitting
    if not is_allowed:
        kind = "whole number" if is_whole else "number"
        example = "para=6000" if is_whole else "para=2,sts=0.5"
        raise ValueError(
            f"--{name} is '{text}'; it is none, or tasks, each once, with a {kind} above 0, such "
            f"as {example}."
        )


@dataclass(frozen=True)
class InputFileOptions(OptionGroup):
    """The course's files, one by one."""

    sst_train: str = flag(AUTO, "auto: DATA_DIR/ids-sst-train.csv.", is_file=True)
    sst_dev: str = flag(AUTO, "auto: DATA_DIR/ids-sst-dev.csv.", is_file=True)
    sst_test: str = flag(AUTO, "auto: DATA_DIR/ids-sst-test-student.csv.", is_file=True)
    para_train: str = flag(AUTO, "auto: DATA_DIR/quora-train.csv.", is_file=True)
    para_dev: str = flag(AUTO, "auto: DATA_DIR/quora-dev.csv.", is_file=True)
    para_test: str = flag(AUTO, "auto: DATA_DIR/quora-test-student.csv.", is_file=True)
    sts_train: str = flag(AUTO, "auto: DATA_DIR/sts-train.csv.", is_file=True)
    sts_dev: str = flag(AUTO, "auto: DATA_DIR/sts-dev.csv.", is_file=True)
    sts_test: str = flag(AUTO, "auto: DATA_DIR/sts-test-student.csv.", is_file=True)
    cfimdb_train: str = flag(AUTO, "auto: DATA_DIR/ids-cfimdb-train.csv.", is_file=True)
    cfimdb_dev: str = flag(AUTO, "auto: DATA_DIR/ids-cfimdb-dev.csv.", is_file=True)
    cfimdb_test: str = flag(AUTO, "auto: DATA_DIR/ids-cfimdb-test-student.csv.", is_file=True)


@dataclass(frozen=True)
class DataOptions(OptionGroup):
    """Which files are read, how many of their rows, and how long a row may be."""

    data_dir: str = flag(SAMPLE, "Folder with the nine course files.", is_common=True)
    task: tuple[str, ...] = flag(
        (),
        f"A task of your own, such as {EXAMPLE}. Name it in --tasks, too. The flag may be given "
        "several times. Keys:\n"
        "- name, train: a name, and the table with the training rows\n"
        "- dev: a table, or a share of the training rows (0.2); test: a table\n"
        "- text, text_pair, label, id: names of columns\n"
        "- kind: classes, binary, multilabel or score, if the labels suggest another one\n"
        "- separator: the sign between several labels of a row, such as ;\n"
        "- labels: names of the classes in their order, such as no|yes\n"
        "- drop_labels: labels whose rows are dropped, such as -|NA\n"
        "- low, high: of a score; loss, metric: others than the usual ones\n"
        "- split_seed: of the dev rows that are drawn; fold: such as 2/5, the second of 5 parts",
        is_common=True,
    )
    train_rows: str = flag(
        NONE,
        "Maximum number of training rows of a task, such as sst=2000,para=6000. They are evenly "
        "spaced in the file. none: all rows.",
        is_common=True,
    )
    dev_rows: str = flag(
        NONE,
        "The same for dev rows. The dev leaderboard file then holds only these rows.",
    )
    drop_bad_rows: bool = flag(
        False,
        "Skip and count malformed rows of labelled files. Without this flag they stop the run.",
    )
    max_length: int = flag(
        DEFAULT_LENGTH,
        "Maximum number of tokens in a row. Longer rows are cut. A model with fewer positions than "
        "the default gets that many.",
        low=4,
        is_common=True,
    )
    # Token ids depend on the text and the tokenizer only, so runs can share them.
    token_cache: str = flag(
        AUTO,
        "Folder that keeps token ids for later runs on the same text. auto: "
        "$XDG_CACHE_HOME/minbert, or ~/.cache/minbert. none: keep nothing.",
    )
    files: InputFileOptions = group(InputFileOptions)

    def check(self) -> None:
        """Raise ValueError where --task, --train_rows or --dev_rows cannot be read."""
        names = (*BUILT_IN_FILES, *parse_tasks(self.task))
        for name in ("train_rows", "dev_rows"):
            check_numbers(name, getattr(self, name), names, is_whole=True)

    @property
    def requests(self) -> dict[str, TaskRequest]:
        """What --task says of each task of the user, by name."""
        return parse_tasks(self.task)

    @property
    def is_bundled(self) -> bool:
        """Whether the rows are those of the bundled sample."""
        return self.data_dir == SAMPLE

    @property
    def token_folder(self) -> Path | None:
        """The folder that keeps token ids from run to run, or None."""
        if self.token_cache == NONE:
            return None
        if self.token_cache != AUTO:
            return Path(self.token_cache)
        try:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:
            # The user has no home folder.
            return None
        return Path(cache) / "minbert"

    def file_of(self, task: str, split: str) -> str:
        """Return the path of one input file, "auto", or "" where a user's task has none."""
        request = self.requests.get(task)
        if request is not None:
            return request.file_of(split) or ""
        return getattr(self.files, f"{task}_{split}")

    def with_files(self) -> DataOptions:
        """Return the same options with the course's files in data_dir where no file is named."""
        folder = folder_of_data(self.data_dir)
        paths = {}
        for task, names in BUILT_IN_FILES.items():
            for split, name in names.items():
                if self.file_of(task, split) == AUTO:
                    paths[f"{task}_{split}"] = str(folder / name)
        return with_values(self, **paths)

    def input_files(self, tasks: Collection[str]) -> list[str]:
        """Return the paths of the files of some tasks, in the order of all tasks and splits."""
        paths: list[str] = []
        for task, names in BUILT_IN_FILES.items():
            if task in tasks:
                paths += [self.file_of(task, split) for split in names]
        for task, request in self.requests.items():
            if task in tasks:
                paths += request.files()
        return paths

    def splits_of(self, task: str) -> tuple[str, ...]:
        """Return the splits of a task. A user's task may have no test file."""
        request = self.requests.get(task)
        has_test = request is None or request.test is not None
        return ("train", "dev", "test") if has_test else ("train", "dev")

    def in_order(self, tasks: Collection[str]) -> list[str]:
        """Return names of tasks in the order of all: the built-in ones, then those of --task.

        Heads are drawn in this order, whatever the order of --tasks.
        """
        return [name for name in (*BUILT_IN_FILES, *self.requests) if name in tasks]
