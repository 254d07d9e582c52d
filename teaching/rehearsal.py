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
from teaching.exercises import EXERCISES, released_body, without_answers
from teaching.grading import as_table, check_released, grade_exercise


def rehearse(folder: Path, exercises: Sequence[str]) -> None:
    """Grade a hand-out as it is and with the answers. Raises ValueError where a result is wrong."""
    check_released()
    warm_up()
    for exercise in exercises:
        points = grade_exercise(folder, exercise).points
        if points:
            raise ValueError(f"{exercise}: the blank hand-out gets {points:g} points, expected 0.")
    with tempfile.TemporaryDirectory() as temporary:
        solved = Path(temporary, "solved")
        shutil.copytree(folder, solved, ignore=shutil.ignore_patterns(".git"))
        write_answers(solved, exercises)
        for exercise in exercises:
            result = grade_exercise(solved, exercise)
            if result.points != result.most:
                raise ValueError(
                    f"{exercise}: the answers get {result.points:g} of {result.most} points.\n"
                    + as_table({"answers": [result]})
                )
        check_tests(solved, exercises)


def write_answers(folder: Path, exercises: Sequence[str]) -> None:
    """Write the answers of the clone into a hand-out."""
    for exercise in (EXERCISES[name] for name in exercises):
        source = (ROOT / exercise.file).read_text(encoding="utf-8")
        answers = {name: released_body(source, name) for name in exercise.to_write}
        file = folder / exercise.file
        blank = file.read_text(encoding="utf-8")
        file.write_text(without_answers(blank, answers), encoding="utf-8")


def check_tests(folder: Path, exercises: Sequence[str]) -> None:
    """Run the students' tests in a folder. Raises ValueError where one fails."""
    tests = [EXERCISES[exercise].tests for exercise in exercises]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", *tests],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise ValueError(f"a test fails with the answers:\n{result.stdout[-2000:]}")
