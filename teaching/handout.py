"""The hand-out of a course: this clone without its history and without the answers.

Run `python -m teaching.handout DIR`. Each exercise removes the bodies of some functions and keeps
their signatures and docstrings. Their fast branches go, too, so what the student writes is what
runs. docs/teaching.md says how to use a hand-out.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.new_folders import new_folder
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import is_free
from teaching.exercises import DEFAULT_EXERCISES, EXERCISES, functions

ROOT = Path(__file__).resolve().parent.parent

# Folders that a hand-out lacks: they hold whole answers, and what looks for them.
LEFT_OUT = ("teaching/", "tests/teaching/")


def without_answers(source: str, bodies: Mapping[str, str]) -> str:
    """Replace the bodies of some functions behind their docstrings.

    bodies: from a function's name to its new body. Raises KeyError for a name that is not in the
    source.
    """
    by_name = functions(ast.parse(source))
    lines = source.splitlines()

    # From the end of the file, so that the line numbers before it stay right.
    for name in sorted(bodies, key=lambda name: by_name[name].lineno, reverse=True):
        node = by_name[name]
        has_docstring = ast.get_docstring(node) is not None
        body = node.body[1:] if has_docstring else node.body

        # Comments in front of the first statement are a part of the answer.
        start = body[0].lineno - 1
        while lines[start - 1].lstrip().startswith("#"):
            start -= 1

        indent = " " * body[0].col_offset
        new_lines = [f"{indent}{line}".rstrip() for line in bodies[name].splitlines()]
        lines[start : node.end_lineno] = new_lines
    return "\n".join(lines) + "\n"


def tracked() -> list[str]:
    """List the files of the clone that git tracks; ValueError if this is no clone."""
    # Without this check, git would look for a clone in the folders above.
    if not (ROOT / ".git").exists():
        raise ValueError(
            f"{ROOT} is no clone: what belongs to it is what git tracks. Clone the repository."
        )
    result = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        raise ValueError(f"git cannot list the files of {ROOT}: {result.stderr.strip()}")
    return [name for name in result.stdout.split("\0") if name]


def hand_out(folder: Path, exercises: Sequence[str]) -> None:
    """Write what git tracks into a new folder, without the answers of the exercises."""
    with new_folder(folder) as beside:
        copy_without_answers(beside, exercises)


def copy_without_answers(folder: Path, exercises: Sequence[str]) -> None:
    """`hand_out` into a folder that exists."""
    for name in tracked():
        if not name.startswith(LEFT_OUT):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for exercise in exercises:
        for name, bodies in EXERCISES[exercise].bodies().items():
            source = (folder / name).read_text(encoding="utf-8")
            (folder / name).write_text(without_answers(source, bodies), encoding="utf-8")


PROGRAM = "python -m teaching.handout"


@dataclass(frozen=True)
class HandoutOptions(CommandOptions):
    """The command line of this file."""

    folder: Path = positional("DIR", "a new folder")
    exercises: tuple[str, ...] = argument(
        tuple(DEFAULT_EXERCISES),
        f"some of {', '.join(EXERCISES)}",
        "NAME...",
        choices=tuple(EXERCISES),
    )


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Write the copy, and print what is to be written in it."""
    description = "Write a copy of the clone without its history and without the answers."
    options = parse_command(HandoutOptions, PROGRAM, description, arguments)
    if not is_free(options.folder):
        raise ValueError(
            f"{options.folder} is there already, and holds something. Give a new folder."
        )
    check_new_folder("DIR", options.folder)
    hand_out(options.folder, options.exercises)
    for exercise in options.exercises:
        tests = EXERCISES[exercise].tests
        for file, names in EXERCISES[exercise].to_write.items():
            print(
                f"{exercise}: {', '.join(names)} in {file}; .venv/bin/python -m pytest -x {tests}"
            )


if __name__ == "__main__":
    sys.exit(main())
