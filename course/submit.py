"""The hand-in of a course: `python -m course.submit RUN --part1 runs/part1`.

The six files of a run, and the eight files of part 1, are read back and verified: each id of the
data stands there once, with a value that the task has. The zip then has the names and the folders
that the course's prepare_submit.py gives it. Like that script, it holds the Python files of a
folder, too (--code).
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from course.editions import DEFAULT, EDITIONS, HELP, SPLITS, TASKS, Edition, HandIn
from data.download import PUBLISHED
from data.readers import BUILT_IN_FILES, Table, read_examples, sha256_of
from experiments.run_files import read_json
from minbert.commands.ending import exit_code
from minbert.commands.files import write_atomically
from minbert.commands.flags import Parser
from minbert.commands.options import AUTO, NONE
from minbert.commands.outputs import HELP_OF_OVERWRITE, OVERWRITE, Output, check_outputs
from multitask.prediction_files import (
    check_as_written,
    score_predictions,
    verify_predictions,
)
from multitask.tasks import BUILT_IN_TASKS

COMMENT = b"minBERT"  # of our zips
# Scores of a task that a run did not train say nothing.
UNTRAINED = "not trained by this run"


class Source(NamedTuple):
    """The files of a run or of a folder, and the data that they predict.

    predictions: by task and split. data: the path of the data file, by task and split. trained: the
    tasks that were trained, or None where it is not known.
    """

    predictions: dict[tuple[str, str], Path]
    data: dict[tuple[str, str], str]
    trained: tuple[str, ...] | None = None


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m course.submit",
        description="Verify the prediction files of a hand-in and write its zip.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="folder of a finished run, or of multitask.ensemble (add --data-dir)",
    )
    parser.add_argument(
        "--part1", type=Path, metavar="DIR", help="folder of course.part1: adds its eight files"
    )
    parser.add_argument("--course", default=DEFAULT, choices=EDITIONS, help=HELP)
    parser.add_argument(
        "--code",
        default=".",
        metavar="FOLDER",
        help="folder whose .py files are added, as the course does it; none: no code "
        "(default: the current folder)",
    )
    parser.add_argument(
        "--data-dir",
        "--data_dir",
        default=None,
        metavar="DIR",
        help="folder of the data files, if RUN has no run.json",
    )
    parser.add_argument(
        "--out", type=Path, metavar="ZIP", help="the zip (default: the course's name, here)"
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    return parser


@exit_code("python -m course.submit")
def main(argv: Sequence[str] | None = None) -> None:
    """Verify all files first. Nothing is written where one of them is refused."""
    arguments = build_parser().parse_args(argv)
    edition = EDITIONS[arguments.course]
    if arguments.part1 is not None and not edition.has_part1:
        raise ValueError(
            f"--part1 has no place in the zip of {edition.title}. Drop it, or choose --course "
            "cs224n-2023 or cs224n-2024."
        )
    out = arguments.out or Path(edition.zip_name)
    # RUN may be the folder of a student's project, where the zip belongs.
    check_outputs([Output("--out", out, is_our_zip)], overwrite=arguments.overwrite)
    files: dict[str, Path] = {}
    source = source_of(arguments.run, arguments.data_dir)
    for file in edition.multitask_files():
        path = source.predictions[file.task, file.split]
        print(verified(file, path, source))
        files[file.name] = path
    if arguments.part1 is not None:
        files |= verify_part1(arguments.part1, edition, print)

    code = [] if arguments.code == NONE else python_files(Path(arguments.code))
    for path in code:
        files[path.name] = path
    write_zip(out, files)
    num_predictions = len(files) - len(code)
    print(f"{out}: {num_predictions} files of predictions, {len(code)} of code")
    if not code and arguments.code != NONE:
        print(
            f"{arguments.code} has no .py file. The course asks for your code: add --code FOLDER."
        )


# --- where the files are --------------------------------------------------------------------------


def source_of(folder: Path, data_dir: str | None) -> Source:
    """The six files of a run, or of a folder with predictions, and their data files.

    Raises ValueError where the folder is no finished run and the data is not known.
    """
    from multitask.saved_run import check_finished

    check_finished(folder)
    record = folder / "run.json"
    if not record.is_file():
        return source_of_folder(folder, data_dir)
    content = read_json(record, "options")
    options = content["options"]
    trained = tuple(str(options["tasks"]).split(","))
    predictions = {}
    data = {}
    for task in TASKS:
        if task not in trained and task not in str(options.get("untrained_tasks", NONE)).split(","):
            raise ValueError(
                f"{folder}: this run has no files of {task}. The hand-in needs {', '.join(TASKS)}: "
                f"train them all, or add --untrained-tasks {task} to the run."
            )
        for split in SPLITS:
            stored = options.get(f"{task}_{split}_out", AUTO)
            usual = folder / "predictions" / f"{task}-{split}-output.csv"
            predictions[task, split] = usual if stored == AUTO else Path(stored)
            check_as_written(predictions[task, split], content)
            data[task, split] = options[f"{task}_{split}"]
    if data_dir is not None:
        data = data_files(data_dir, TASKS)
    return Source(predictions, data, trained)


def source_of_folder(folder: Path, data_dir: str | None) -> Source:
    """The six files in a folder, such as that of an ensemble."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder. Give that of a finished run.")
    if data_dir is None:
        raise ValueError(
            f"{folder}: there is no run.json, which says what the files predict. Give the folder "
            "of a finished run, or the folder of their data as --data-dir."
        )
    inside = folder / "predictions"
    place = inside if inside.is_dir() else folder
    predictions = {}
    for task in TASKS:
        for split in SPLITS:
            predictions[task, split] = place / f"{task}-{split}-output.csv"
    return Source(predictions, data_files(data_dir, TASKS))


def data_files(folder: str, tasks: Sequence[str]) -> dict[tuple[str, str], str]:
    """The paths of the dev and test files of some tasks in a folder."""
    paths = {}
    for task in tasks:
        for split in SPLITS:
            paths[task, split] = str(Path(folder) / BUILT_IN_FILES[task][split])
    return paths


# --- verifying ------------------------------------------------------------------------------------


def verified(file: HandIn, path: Path, source: Source) -> str:
    """Verify one file and return its line for the user. Raises ValueError where it is refused."""
    task = BUILT_IN_TASKS[file.task]
    table = read_rows(file, source.data[file.task, file.split])
    if file.split == "dev":
        score = score_predictions(path, task, table)
        result = f"{task.metric} {score:.4f}"
    else:
        verify_predictions(path, task, [example.id for example in table.examples])
        result = "every id once"
    if source.trained is not None and file.task not in source.trained:
        result += f"; {UNTRAINED}"
    return f"{file.name}: {len(table.examples):,} rows, {result}{doubt(table.path)}"


def read_rows(file: HandIn, path: str) -> Table:
    """The rows that a file predicts."""
    return read_examples(path, BUILT_IN_TASKS[file.task].format, labelled=file.split == "dev")


def doubt(path: str) -> str:
    """A note where the data file is not the published one, whose ids the leaderboard knows."""
    published = PUBLISHED.get(Path(path).name)
    if published is None or sha256_of(path) == published.sha256:
        return ""
    return f"; {path} is not the course's published file, so a leaderboard may know other ids"


def verify_part1(folder: Path, edition: Edition, log: Callable[[str], None]) -> dict[str, Path]:
    """Verify the eight files of part 1. Returns their paths by their names in the zip.

    log: is told the line of each file. Raises ValueError where one is missing or refused.
    """
    files = {}
    for file in edition.part1_files():
        path = folder / file.name
        record = folder / f"{file.mode}-{file.task}" / "run.json"
        if not path.is_file() or not record.is_file():
            raise ValueError(
                f"{path}: there is no such file. `python -m course.part1 --out {folder} --course "
                "NAME` writes the eight files, with the names of that course."
            )
        content = read_json(record, "options")
        options = content["options"]
        check_as_written(path, content)
        data = {(file.task, file.split): options[f"{file.task}_{file.split}"]}
        log(verified(file, path, Source({}, data)))
        files[file.name] = path
    return files


# --- the zip --------------------------------------------------------------------------------------


def python_files(folder: Path) -> list[Path]:
    """The .py files of a folder, without those of the folders in it, as the course takes them."""
    if not folder.is_dir():
        raise ValueError(f"--code {folder}: there is no such folder. Give one, or none.")
    return sorted(folder.glob("*.py"))


def is_our_zip(path: Path) -> bool:
    """Whether a file was written by `write_zip`, which names minBERT in it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return archive.comment == COMMENT


def write_zip(path: Path, files: dict[str, Path]) -> None:
    """Write a zip, whole or not at all. files: by their names in it."""

    def write(beside: Path) -> None:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, source in files.items():
                archive.write(source, name)
            archive.comment = COMMENT

    write_atomically(path, write)


if __name__ == "__main__":
    sys.exit(main())
