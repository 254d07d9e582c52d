"""The hand-out of a course: files of this clone without the answers of some exercises.

Run `python -m teaching.handout DIR`. Each exercise removes the bodies of some functions and keeps
their signatures and docstrings. Their fast branches go, too, so what the student writes is what
runs. A hand-out holds the files that its exercises need and pages on them, or with --whole all that
git tracks. docs/teaching.md says how to use it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.hidden import ROOT
from minbert.commands.new_folders import new_folder, reserved
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import is_free
from teaching.exercises import EXERCISES, write_bodies
from teaching.options import HandoutOptions
from teaching.small_handout import needed_files, texts_from

# Folders that a hand-out lacks: they hold whole answers, and what looks for them.
LEFT_OUT = ("teaching/", "tests/teaching/")


def git(folder: Path, *arguments: str) -> str:
    """What a command of git prints in a folder. Raises ValueError where it fails."""
    result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    if result.returncode:
        command = " ".join(arguments)
        raise ValueError(f"git {command} failed in {folder}: {result.stderr.strip()}")
    return result.stdout


def tracked() -> list[str]:
    """List the files of the clone that git tracks; ValueError if this is no clone."""
    # Without this check, git would look for a clone in the folders above.
    if not (ROOT / ".git").exists():
        raise ValueError(
            f"{ROOT} is no clone: what belongs to it is what git tracks. Clone the repository."
        )
    return [name for name in git(ROOT, "ls-files", "-z").split("\0") if name]


def hand_out(folder: Path, exercises: Sequence[str], whole: bool) -> None:
    """Write a new folder without the answers of the exercises.

    whole: all that git tracks. Otherwise what the exercises need, as a repository of one commit.
    """
    names = [name for name in tracked() if not name.startswith(LEFT_OUT)]
    with reserved(folder), new_folder(folder) as beside:
        if whole:
            for name in names:
                (beside / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, beside / name)
        else:
            files = needed_files(exercises)
            write_files(beside, files | texts_from("handout", exercises, files))
        remove_answers(beside, exercises)
        if not whole:
            git(beside, "init", "--quiet", "--initial-branch=main")
            git(beside, "add", "--all")
            author = ("-c", "user.name=The course", "-c", "user.email=course@localhost")
            git(beside, *author, "commit", "--quiet", "--message", "The exercises")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder that exists. files: texts by name."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def remove_answers(folder: Path, exercises: Sequence[str]) -> None:
    """Remove the answers of some exercises from the files of a folder."""
    for name in exercises:
        write_bodies(folder / EXERCISES[name].file, EXERCISES[name].bodies())


PROGRAM = "python -m teaching.handout"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Write the copy, and print what is to be written in it."""
    description = "Write the files of some exercises without their answers."
    options = parse_command(HandoutOptions, PROGRAM, description, arguments)
    if not is_free(options.folder):
        raise ValueError(
            f"{options.folder} is there already, and holds something. Give a new folder."
        )
    check_new_folder("DIR", options.folder)
    hand_out(options.folder, options.exercises, options.whole)
    for name in options.exercises:
        exercise = EXERCISES[name]
        place = f"{', '.join(exercise.to_write)} in {exercise.file}"
        print(f"{name}: {place}; .venv/bin/python -m pytest -x {exercise.tests}")
    if options.rehearse:
        from teaching import rehearsal

        rehearsal.rehearse(options.folder, options.exercises)
        print("rehearsed: a blank gets 0 points, the answers get all, and their tests pass")


if __name__ == "__main__":
    sys.exit(main())
