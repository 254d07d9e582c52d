"""The courses and their years: what each calls the two modes, and how its files are named.

The facts come from the public starter projects. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# The values of --option, in the words of 2023. All further code uses them.
MODES = ("pretrain", "finetune")
PART1_TASKS = ("sst", "cfimdb")
TASKS = ("sst", "para", "sts")
SPLITS = ("dev", "test")


class HandIn(NamedTuple):
    """A file of predictions: what it holds, and its name in the zip."""

    task: str
    split: str
    name: str  # such as predictions/sst-dev-output.csv
    mode: str = ""  # of MODES for a file of part 1, "" for the multitask files


@dataclass(frozen=True)
class Edition:
    """One year of a course.

    title: for messages. modes: its words for MODES. zip_name: of the file to hand in. folder: of
    the multitask files in the zip. stems: the beginning of their names, by task. has_part1: whether
    its hand-in has the eight files of part 1.
    """

    title: str
    modes: tuple[str, str]
    zip_name: str
    folder: str
    stems: dict[str, str]
    has_part1: bool

    def word_of(self, mode: str) -> str:
        """What this course calls a value of MODES."""
        return self.modes[MODES.index(mode)]

    def multitask_files(self) -> list[HandIn]:
        """The six files of the multitask model."""
        files = []
        for task in TASKS:
            for split in SPLITS:
                name = f"{self.folder}/{self.stems[task]}-{split}-output.csv"
                files.append(HandIn(task, split, name))
        return files

    def part1_files(self) -> list[HandIn]:
        """The eight files of part 1."""
        files = []
        for mode in MODES:
            for task in PART1_TASKS:
                for split in SPLITS:
                    name = f"predictions/{self.word_of(mode)}-{task}-{split}-out.csv"
                    files.append(HandIn(task, split, name, mode))
        return files


CS224N_ZIP = "cs224n_default_final_project_submission.zip"
SHORT_STEMS = {task: task for task in TASKS}
EDITIONS = {
    "cs224n-2023": Edition(
        "CS224N 2023", ("pretrain", "finetune"), CS224N_ZIP, "predictions", SHORT_STEMS, True
    ),
    # Only the words of the two modes have changed.
    "cs224n-2024": Edition(
        "CS224N 2024",
        ("last-linear-layer", "full-model"),
        CS224N_ZIP,
        "predictions",
        SHORT_STEMS,
        True,
    ),
    "goettingen": Edition(
        "the course of Goettingen",
        ("pretrain", "finetune"),
        "dnlp_final_project_submission.zip",
        "predictions/bert/multitask",
        {"sst": "sst-sentiment", "para": "quora-paraphrase", "sts": "sts-similarity"},
        False,
    ),
}
DEFAULT_EDITION = "cs224n-2023"
HELP_OF_COURSE = "whose names the files get (default: %(default)s)"
