"""The command line of grade.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.options import CommandOptions, argument, positional
from teaching.exercises import DEFAULT_EXERCISES, EXERCISES


@dataclass(frozen=True)
class GradeOptions(CommandOptions):
    """The flags of `python -m teaching.grade`."""

    students: tuple[Path, ...] = positional(
        "STUDENT...", "folders, or files of one exercise", is_required=False
    )
    exercises: tuple[str, ...] = argument(
        tuple(DEFAULT_EXERCISES),
        f"some of {', '.join(EXERCISES)}",
        "NAME...",
        choices=tuple(EXERCISES),
    )
    json: Path | None = argument(None, "also write all results to a file of JSON", "FILE")
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
