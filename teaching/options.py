"""The command lines of handout.py, grade.py and trace.py. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import HELP_OF_OVERWRITE
from minbert.commands.plugins import plugin_argument
from teaching.exercises import DEFAULT_EXERCISES, EXERCISES

NAMES = tuple(EXERCISES)


@dataclass(frozen=True)
class ExercisesOptions(CommandOptions):
    """The choice of exercises, which two of the commands have."""

    exercises: tuple[str, ...] = argument(
        DEFAULT_EXERCISES, f"some of {', '.join(NAMES)}", "NAME...", choices=NAMES
    )


@dataclass(frozen=True)
class HandoutOptions(ExercisesOptions):
    """The command line of handout.py."""

    folder: Path = positional("DIR", "a new folder")
    whole: bool = argument(
        False, "hand out all that git tracks but this kit: training and documents, too"
    )
    rehearse: bool = argument(False, "grade the hand-out as it is and with the answers")


@dataclass(frozen=True)
class GradeOptions(ExercisesOptions):
    """The flags of `python -m teaching.grade`."""

    students: tuple[Path, ...] = positional(
        "STUDENT...", "folders, or files of one exercise", is_required=False
    )
    json: Path | None = argument(
        None, "also write the results of each student, in the form of --gradescope", "FILE"
    )
    gradescope: Path | None = argument(
        None, "also write the results of the only student as Gradescope reads them", "FILE"
    )

    zip: Path | None = argument(
        None, "write the zip that Gradescope runs, and grade the students that are given", "FILE"
    )

    def check(self) -> None:
        """Raise ValueError for a student who is not there, and for several in one file."""
        if self.gradescope and len(self.students) != 1:
            raise ValueError("--gradescope needs exactly one STUDENT.")
        if not self.students and not self.zip:
            raise ValueError("Give at least one STUDENT, or --zip FILE.")
        for student in self.students:
            if not student.exists():
                raise ValueError(f"{student} is not there. Give a folder or a file of a student.")


@dataclass(frozen=True)
class TraceOptions(CommandOptions):
    """The command line of trace.py."""

    text: str = positional("TEXT", "the sentence, in quotation marks")
    pair: str | None = argument(None, "a second sentence, for the tasks that read pairs", "TEXT")
    model: str | None = argument(
        None,
        "folder of a run, such as runs/latest; or an encoder, as for minbert attention (default: "
        "the small model that comes with minBERT)",
        "RUN",
    )
    hide: str | None = argument(
        None, "mask this word wherever it stands, and show what changes", "WORD"
    )
    against: Path | None = argument(
        None,
        "run other code beside ours, and name the first tensor that differs: a clone or a hand-out "
        "with a student's code, or a model's folder, which transformers runs. The code there is "
        "run as it is",
        "FOLDER",
    )
    page: Path | None = argument(None, "write one HTML page with all stations", "FILE")
    plugin: tuple[str, ...] = plugin_argument()
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)

    def check(self) -> None:
        if not self.text.strip():
            raise ValueError("TEXT is empty. Pass a sentence in quotation marks.")
        if self.against is not None and (self.page or self.hide):
            raise ValueError("--against prints the comparison alone. Drop --page and --hide.")
        if self.overwrite and self.page is None:
            raise ValueError("--overwrite has no effect without --page. Drop it.")
