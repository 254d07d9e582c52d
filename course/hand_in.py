"""The hand-in of `python -m course.submit`: its files are verified, and then joined in a zip."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from course.editions import (
    EDITIONS,
    SPLITS,
    TASKS,
    Edition,
    HandIn,
)
from course.options import SubmitOptions
from data.download import describe_doubt
from data.examples import BUILT_IN_FILES, Table
from data.readers import read_examples
from experiments.run_files import read_json
from minbert.commands.files import write_atomically
from minbert.commands.hidden import ROOT
from minbert.commands.options import AUTO, NONE
from minbert.commands.outputs import Output, check_outputs
from minbert.commands.paths import in_shell
from multitask.prediction_files import (
    check_as_written,
    score_predictions,
    verify_predictions,
)
from multitask.saved_run import check_finished
from multitask.tasks import BUILT_IN_TASKS

COMMENT = b"minBERT"  # of our zips
# Scores of a task that a run did not train say nothing.
UNTRAINED = "not trained by this run"


class Source(NamedTuple):
    """The files of a run or of a folder, and the data that they predict.

    predictions: by task and split. data: the path of the data file, by task and split. trained: the
    tasks that were trained, or None where it is not known. train_rows: the value of --train-rows.
    """

    predictions: dict[tuple[str, str], Path]
    data: dict[tuple[str, str], str]
    trained: tuple[str, ...] | None = None
    train_rows: str = NONE


class VerifiedFile(NamedTuple):
    """A file of predictions that was read back and holds all rows of its data.

    has_doubt: whether the rows may not be those of the course.
    """

    name: str  # in the zip
    path: Path
    line: str  # for the user
    has_doubt: bool


def write_hand_in(options: SubmitOptions, log: Callable[[str], None]) -> None:
    """Verify all files, then write the zip. Nothing is written where one of them is refused.

    log: is told the line of each file.
    """
    out = options.out or Path(options.edition.zip_name)
    # RUN may be the folder of a student's project, where the zip belongs.
    check_outputs([Output("--out", out, is_our_zip)], overwrite=options.overwrite)
    try:
        files = verified_files(options, log)
    except ValueError as error:
        if not out.is_file():
            raise
        raise ValueError(f"{error} {out} is an older zip, which was left as it is.") from error

    write_zip(out, files)
    num_code = sum(name.endswith(".py") for name in files)
    log(f"{out}: {len(files) - num_code} files of predictions, {num_code} of code")
    note = note_on_code(options.code, num_code)
    if note:
        log(note)


def verified_files(options: SubmitOptions, log: Callable[[str], None]) -> dict[str, Path]:
    """All files of the zip, by their names in it.

    log: is told the line of each file of predictions. Raises ValueError where one is refused.
    """
    files: dict[str, Path] = {}
    num_doubts = 0
    for file in verify_predicted(options):
        log(file.line)
        files[file.name] = file.path
        num_doubts += file.has_doubt
    if num_doubts:
        log(
            f"warning: {num_doubts} of these {len(files)} files predict rows that may not be the "
            "course's. Read their lines above before you hand in."
        )
    if options.code != NONE:
        for path in python_files(Path(options.code)):
            files[path.name] = path
    return files


def verify_predicted(options: SubmitOptions) -> Iterator[VerifiedFile]:
    """Verify the six files, and the eight of --part1, one after the other.

    Raises ValueError at the first one that is refused.
    """
    source = source_of(options.run, options.data_dir)
    for file in options.edition.multitask_files():
        yield verify(file, source.predictions[file.task, file.split], source)
    if options.part1 is not None:
        yield from verify_part1(options.part1, options.edition, options.data_dir)


def note_on_code(folder: str, num_code: int) -> str:
    """What the user should know about the code in the zip, or ""."""
    if folder == NONE:
        return ""
    if not num_code:
        return f"{folder} has no .py file. The course asks for your code: add --code FOLDER."
    if Path(folder).resolve() == ROOT:
        return (
            "warning: the code in the zip is run_multitask.py of minBERT, because --code is "
            "minBERT's own folder. Pass --code FOLDER for your code, or --code none."
        )
    return ""


# --- where the files are --------------------------------------------------------------------------


def source_of(folder: Path, data_dir: str | None) -> Source:
    """The six files of a run, or of a folder with predictions, and their data files.

    Raises ValueError where the folder is no finished run and the data is not known.
    """
    check_finished(folder)
    record = folder / "run.json"
    if not record.is_file():
        return source_of_folder(folder, data_dir)
    content = read_json(record, "options")
    options = content["options"]
    trained = tuple(str(options["tasks"]).split(","))
    predicted = (*trained, *str(options.get("untrained_tasks", NONE)).split(","))
    missing = ",".join(task for task in TASKS if task not in predicted)
    if missing:
        advice = "Train all of them"
        if missing != ",".join(TASKS):
            advice += f", or add --untrained-tasks {missing} to the run"
        raise ValueError(
            f"{folder}: this run has no files of {missing}. A hand-in must have the files of "
            f"{','.join(TASKS)}. {advice}."
        )
    if "test" in str(options.get("skip", NONE)).split(","):
        predict = f"python -m course.predict {in_shell(folder)} --out DIR"
        raise ValueError(
            f"{folder}: --skip of this run left out the predictions of test files. `{predict}` "
            "makes all files. Then pass DIR here, with the folder of the data as --data-dir."
        )
    predictions = {}
    data = {}
    for task in TASKS:
        for split in SPLITS:
            stored = options.get(f"{task}_{split}_out", AUTO)
            usual = folder / "predictions" / f"{task}-{split}-output.csv"
            predictions[task, split] = usual if stored == AUTO else Path(stored)
            check_as_written(predictions[task, split], content)
            data[task, split] = options[f"{task}_{split}"]
    if data_dir is not None:
        data = data_files(data_dir, TASKS)
    return Source(predictions, data, trained, str(options.get("train_rows", NONE)))


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


def verify(file: HandIn, path: Path, source: Source) -> VerifiedFile:
    """Read one file back. Raises ValueError where it is refused."""
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
    elif source.train_rows != NONE:
        result += f"; trained on a part of the rows (--train-rows {source.train_rows})"

    name = BUILT_IN_FILES[file.task][file.split]
    doubt = describe_doubt(name, table.path, len(table.examples) + len(table.dropped))
    if doubt:
        # The leaderboard knows the ids of the course's own files.
        result += f"; {table.path}: {doubt}, so a leaderboard may know other ids"
    line = f"{file.name}: {len(table.examples):,} rows, {result}"
    return VerifiedFile(file.name, path, line, bool(doubt))


def read_rows(file: HandIn, path: str) -> Table:
    """The rows that a file predicts."""
    return read_examples(path, BUILT_IN_TASKS[file.task].format, labelled=file.split == "dev")


def verify_part1(folder: Path, edition: Edition, data_dir: str | None) -> Iterator[VerifiedFile]:
    """Verify the eight files of part 1, one after the other.

    data_dir: folder of the data, or None where the runs say it. Raises ValueError where a file is
    missing or refused.
    """
    for file in edition.part1_files():
        path = folder / file.name
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file. {advice_on_part1(folder, edition)}")
        yield verify(file, path, source_of_part1(folder, file, data_dir))


def source_of_part1(folder: Path, file: HandIn, data_dir: str | None) -> Source:
    """The data of one file of part 1: of --data-dir, or of the run that wrote it."""
    record = folder / f"{file.mode}-{file.task}" / "run.json"
    source = Source({}, {})
    if record.is_file():
        content = read_json(record, "options")
        options = content["options"]
        again = "The command course.part1 copies it again: start it with the same flags as before."
        check_as_written(folder / file.name, content, again)
        data = {(file.task, file.split): options[f"{file.task}_{file.split}"]}
        source = Source({}, data, train_rows=str(options.get("train_rows", NONE)))
    elif data_dir is None:
        raise ValueError(
            f"{record}: there is no such file. It says which data {folder / file.name} predicts. "
            "Give the folder of course.part1, or the folder of the data as --data-dir."
        )
    if data_dir is not None:
        source = source._replace(data=data_files(data_dir, [file.task]))
    return source


def advice_on_part1(folder: Path, edition: Edition) -> str:
    """What to do where a file of part 1 is missing. The folder may have the names of another year.

    edition: the one whose names were expected.
    """
    wanted = next(name for name, other in EDITIONS.items() if other is edition)
    command = f"python -m course.part1 --out {in_shell(folder)} --course {wanted}"
    for name, other in EDITIONS.items():
        expected = [file.name for file in other.part1_files()] if other.has_part1 else []
        if expected and all((folder / file).is_file() for file in expected):
            return (
                f"The eight files have the names of {other.title}. Pass --course {name} here, or "
                f"run `{command}` with the other flags of before. It trains nothing again and "
                f"adds the names of {edition.title}."
            )
    return f"`{command}` writes the eight files."


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
