"""From a student's folder to points, and to the files that hold them.

The exercises of a student are graded one after the other. A file that is missing gets 0, and so
does a function that breaks. The others are graded all the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from minbert import fast
from minbert.commands.files import write_text
from minbert.commands.hidden import ROOT
from minbert.reporting.tables import aligned
from teaching.autograder import write_zip
from teaching.calls import warm_up
from teaching.exercises import EXERCISES
from teaching.grafting import module_of
from teaching.options import GradeOptions
from teaching.running import FunctionResult, grade_function

LONGEST = 1_000_000  # characters of a file that are read


class ExerciseResult(NamedTuple):
    """What a student gets for an exercise."""

    exercise: str
    functions: list[FunctionResult]

    @property
    def points(self) -> float:
        """The points: each function counts alike."""
        share = sum(function.share for function in self.functions) / len(self.functions)
        return round(share * self.most, 2)

    @property
    def most(self) -> int:
        """The points of a right answer."""
        return EXERCISES[self.exercise].points


def find_file(student: Path, file: str) -> Path | None:
    """A student's version of a file, or None if there is none or it is not clear which.

    It is the file at its path. Otherwise it is the only one whose path ends like that, as in
    work/minbert/optimizer.py, and otherwise the only one of its name. A link is not followed: it
    could lead to the answers.
    """
    name = Path(file).name
    if student.is_file():
        return student if student.name == name else None
    paths = [path for path in student.rglob(name) if path.is_file() and is_inside(path, student)]
    if student / file in paths:
        return student / file
    same_end = [path for path in paths if path.as_posix().endswith(f"/{file}")]
    paths = same_end or paths
    return paths[0] if len(paths) == 1 else None


def is_inside(path: Path, student: Path) -> bool:
    """Whether a path leads to a file of the student, and not through a link."""
    return path.resolve() == student.resolve() / path.relative_to(student)


def grade_exercise(student: Path, exercise: str) -> ExerciseResult:
    """Grade one exercise of a student. A file that is missing gets 0."""
    file = EXERCISES[exercise].file
    path = find_file(student, file)
    if path is not None:
        with path.open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(LONGEST)
    clean = (ROOT / file).read_text(encoding="utf-8")
    results = []
    for name in EXERCISES[exercise].to_write:
        if path is None:
            missing = f"{file} is missing, and no single file has its name"
            results.append(FunctionResult(name, {"file": missing}))
        else:
            results.append(grade_function(name, clean, text, module_of(file)))
    return ExerciseResult(exercise, results)


# --- what is written ------------------------------------------------------------------------------


def as_table(results: dict[str, list[ExerciseResult]]) -> str:
    """One row for each student, and what is wrong below."""
    exercises = [result.exercise for result in next(iter(results.values()))]
    rows = [["student", *exercises, "sum"]]
    for student, graded in results.items():
        total = sum(result.points for result in graded)
        cells = [f"{result.points:g}/{result.most}" for result in graded]
        rows.append([student, *cells, f"{total:g}"])
    lines = [aligned(rows)]
    for student, graded in results.items():
        for result in graded:
            for function in result.functions:
                lines += [f"{student}: {function.name}: {text}" for text in function.faults]
    return "\n".join(lines)


def as_gradescope(graded: list[ExerciseResult]) -> dict[str, Any]:
    """The results of a student as in Gradescope's results.json: one test for each function."""
    tests = []
    for result in graded:
        most = result.most / len(result.functions)
        for function in result.functions:
            tests.append(
                {
                    "name": f"{result.exercise}: {function.name}",
                    "score": round(function.share * most, 3),
                    "max_score": round(most, 3),
                    "output": "\n".join(function.faults) or "all checks passed",
                }
            )
    score = round(sum(result.points for result in graded), 2)
    return {"score": score, "tests": tests}


def check_released() -> None:
    """Raise ValueError where a lesson file was edited, because answers are compared with it."""
    edited = " ".join(fast.edited_lessons())
    if edited:
        raise ValueError(
            f"answers would be compared with edited files: {edited}. Restore them with "
            f"`git restore {edited}`, or grade in another clone."
        )


def grade_all(options: GradeOptions) -> str:
    """Grade the students of a command line, write its files, and return the table."""
    check_released()
    if options.zip:
        write_zip(options.zip, options.exercises)
    if not options.students:
        return str(options.zip)
    warm_up()
    results: dict[str, list[ExerciseResult]] = {}
    for student in options.students:
        graded = results.setdefault(str(student), [])
        for exercise in options.exercises:
            graded.append(grade_exercise(student, exercise))
            # After each exercise, so that a stop later loses nothing.
            write_results(options, results)
    return as_table(results)


def write_results(options: GradeOptions, results: dict[str, list[ExerciseResult]]) -> None:
    """Write the files that were asked for."""
    plain = {student: as_gradescope(graded) for student, graded in results.items()}
    if options.json:
        write_text(options.json, json.dumps(plain, indent=2) + "\n")
    if options.gradescope:
        (only,) = plain.values()
        write_text(options.gradescope, json.dumps(only, indent=2) + "\n")
