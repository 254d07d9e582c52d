"""Tries a hand-out before any student does: a blank gets nothing, and the answers get all.

The answers are those of the clone, written into a copy of the hand-out. Their tests must pass
there, so a file that the hand-out lacks is noticed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.hidden import ROOT
from teaching.calls import warm_up
from teaching.exercises import EXERCISES, released_body, write_bodies
from teaching.grading import check_released, grade_exercise, points


def rehearse(folder: Path, exercises: Sequence[str]) -> None:
    """Grade a hand-out as it is and with the answers. Raises ValueError where a result is wrong."""
    check_released()
    warm_up()
    with tempfile.TemporaryDirectory() as temporary:
        solved = Path(temporary, "solved")
        shutil.copytree(folder, solved, ignore=shutil.ignore_patterns(".git"))
        write_answers(solved, exercises)
        for words, student, share in (
            ("the blank hand-out", folder, 0),
            ("the hand-out with the answers", solved, 1),
        ):
            for exercise in exercises:
                tests = grade_exercise(student, exercise)
                expected = share * EXERCISES[exercise].points
                if points(tests) != expected:
                    raise ValueError(
                        f"{exercise}: {words} gets {points(tests):g} points, expected {expected}.\n"
                        + "\n".join(f"{test['name']}: {test['output']}" for test in tests)
                    )
        check_tests(solved, exercises)


def write_answers(folder: Path, exercises: Sequence[str]) -> None:
    """Write the answers of the clone into a hand-out."""
    for exercise in (EXERCISES[name] for name in exercises):
        source = (ROOT / exercise.file).read_text(encoding="utf-8")
        answers = {name: released_body(source, name) for name in exercise.to_write}
        write_bodies(folder / exercise.file, answers)


def check_tests(folder: Path, exercises: Sequence[str]) -> None:
    """Run the students' tests in a folder. Raises ValueError where one fails."""
    tests = [EXERCISES[exercise].tests for exercise in exercises]
    command = [sys.executable, "-m", "pytest", "-x", *tests]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        raise ValueError(f"a test fails with the answers:\n{result.stdout[-2000:]}")
