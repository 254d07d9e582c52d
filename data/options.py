"""Options of the files that a run reads. No torch here."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from data.readers import COURSE_FILES
from minbert.commands.options import AUTO, NONE, OptionGroup, flag, group, with_values

SAMPLE = "data/sample"
SAMPLE_FOLDER = Path(__file__).resolve().parent / "sample"


def numbers_by_task(text: str) -> dict[str, float]:
    """Return the numbers in an option such as "para=2,sts=0.5", by task. "none" gives {}.

    Raises ValueError where a number cannot be read.
    """
    numbers: dict[str, float] = {}
    if text == NONE:
        return numbers
    for item in text.split(","):
        task, _, number = item.partition("=")
        numbers[task] = float(number)
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
    if names <= set(COURSE_FILES) and not names <= set(tasks):
        raise ValueError(
            f"--{name} {text} names a task that --tasks {trained} does not train; leave it out, "
            f"or pass --{name} none."
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
    """The nine course files, one by one."""

    sst_train: str = flag(AUTO, "auto: DATA_DIR/ids-sst-train.csv.", is_file=True)
    sst_dev: str = flag(AUTO, "auto: DATA_DIR/ids-sst-dev.csv.", is_file=True)
    sst_test: str = flag(AUTO, "auto: DATA_DIR/ids-sst-test-student.csv.", is_file=True)
    para_train: str = flag(AUTO, "auto: DATA_DIR/quora-train.csv.", is_file=True)
    para_dev: str = flag(AUTO, "auto: DATA_DIR/quora-dev.csv.", is_file=True)
    para_test: str = flag(AUTO, "auto: DATA_DIR/quora-test-student.csv.", is_file=True)
    sts_train: str = flag(AUTO, "auto: DATA_DIR/sts-train.csv.", is_file=True)
    sts_dev: str = flag(AUTO, "auto: DATA_DIR/sts-dev.csv.", is_file=True)
    sts_test: str = flag(AUTO, "auto: DATA_DIR/sts-test-student.csv.", is_file=True)


@dataclass(frozen=True)
class DataOptions(OptionGroup):
    """Which files are read, how many of their rows, and how long a row may be."""

    data_dir: str = flag(SAMPLE, "Folder with the nine course files.", is_common=True)
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
        128, "Maximum number of tokens in a row. Longer rows are cut.", low=4, is_common=True
    )
    # Token ids depend on the text and the tokenizer only, so runs can share them.
    token_cache: str = flag(
        AUTO,
        "Folder that keeps token ids for later runs on the same text. auto: "
        "$XDG_CACHE_HOME/minbert, or ~/.cache/minbert. none: keep nothing.",
    )
    files: InputFileOptions = group(InputFileOptions)

    def check(self) -> None:
        """Raise ValueError where --train_rows or --dev_rows cannot be read."""
        for name in ("train_rows", "dev_rows"):
            check_numbers(name, getattr(self, name), COURSE_FILES, is_whole=True)

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
        """Return the path of one input file, or "auto"."""
        return getattr(self.files, f"{task}_{split}")

    def with_files(self) -> DataOptions:
        """Return the same options with the course's files in data_dir where no file is named."""
        folder = Path(self.data_dir)
        # Outside of the clone, the default means the files that came with this package.
        if self.data_dir == SAMPLE and not folder.is_dir():
            folder = SAMPLE_FOLDER
        paths = {}
        for task, names in COURSE_FILES.items():
            for split, name in names.items():
                if self.file_of(task, split) == AUTO:
                    paths[f"{task}_{split}"] = str(folder / name)
        return with_values(self, **paths)

    def input_files(self) -> list[str]:
        """Return the paths of the nine files, in the order of tasks and splits."""
        paths: list[str] = []
        for task, names in COURSE_FILES.items():
            paths += [self.file_of(task, split) for split in names]
        return paths
