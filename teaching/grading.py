"""From a student's folder to points, and to the files that hold them.

The exercises of a student are graded one after the other. A file that is missing gets 0, and so
does a function that breaks. The others are graded all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minbert import fast
from minbert.commands.files import write_text
from minbert.commands.hidden import ROOT
from minbert.reporting.tables import aligned
from teaching.calls import warm_up
from teaching.exercises import EXERCISES
from teaching.grafting import module_of
from teaching.options import GradeOptions
from teaching.running import FunctionResult, grade_function
from teaching.small_handout import write_zip

LONGEST = 1_000_000  # characters of a file that are read

# The result of a function, as a test in Gradescope's results.json: its name, score, max_score and
# output. The file has the `tests` of a student and their sum as `score`.
Test = dict[str, Any]


def find_file(student: Path, file: str) -> Path | None:
    """A student's version of a file, or None if there is none or it is not clear which.

    It is the file at its path. Otherwise it is the only one whose path ends like that, as in
    work/minbert/optimizer.py, and otherwise the only one of its name. A link is not followed: it
    could lead to the answers.
    """
    name = Path(file).name
    if student.is_file():
        return student if student.name == name else None
    for pattern in (file, f"**/{file}", f"**/{name}"):
        paths = [path for path in student.glob(pattern) if is_inside(path, student)]
        if len(paths) == 1:
            return paths[0]
    return None


def is_inside(path: Path, student: Path) -> bool:
    """Whether a path leads to a file of the student, and not through a link."""
    return path.is_file() and path.resolve() == student.resolve() / path.relative_to(student)


def grade_exercise(student: Path, exercise: str) -> list[Test]:
    """Grade the functions of an exercise, each for the same share of its points.

    A file that is missing gets 0.
    """
    file = EXERCISES[exercise].file
    path = find_file(student, file)
    if path is not None:
        with path.open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(LONGEST)
    clean = (ROOT / file).read_text(encoding="utf-8")
    most = EXERCISES[exercise].points / len(EXERCISES[exercise].to_write)
    tests = []
    for name in EXERCISES[exercise].to_write:
        missing = f"{file} is missing, and no single file has its name"
        result = FunctionResult({"file": missing})
        if path is not None:
            result = grade_function(name, clean, text, module_of(file))
        tests.append(
            {
                "name": f"{exercise}: {name}",
                "score": round(result.share * most, 3),
                "max_score": round(most, 3),
                "output": "\n".join(result.faults) or "all checks passed",
            }
        )
    return tests


def points(tests: Iterable[Test]) -> float:
    """The points of some functions together."""
    return round(sum(test["score"] for test in tests), 2)


def as_table(results: dict[str, Any], exercises: Sequence[str]) -> str:
    """One row for each student, and what is wrong below. results: as in --json."""
    rows = [["student", *exercises, "sum"]]
    lines = []
    for student, result in results.items():
        cells = []
        for exercise in exercises:
            tests = [test for test in result["tests"] if test["name"].startswith(f"{exercise}: ")]
            cells.append(f"{points(tests):g}/{EXERCISES[exercise].points}")
        rows.append([student, *cells, f"{result['score']:g}"])
        for test in result["tests"]:
            if test["score"] < test["max_score"]:
                faults = test["output"].splitlines()
                lines += [f"{student}: {test['name']}: {fault}" for fault in faults]
    return "\n".join([aligned(rows), *lines])


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
    results: dict[str, Any] = {}
    for student in options.students:
        for exercise in options.exercises:
            result = results.setdefault(str(student), {"score": 0, "tests": []})
            result["tests"] += grade_exercise(student, exercise)
            result["score"] = points(result["tests"])
            # After each exercise, so that a stop later loses nothing.
            for path, content in ((options.json, results), (options.gradescope, result)):
                if path is not None:
                    write_text(path, json.dumps(content, indent=2) + "\n")
    return as_table(results, options.exercises)
