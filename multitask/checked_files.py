"""Leaderboard files against the rows that they are for: scores (dev) and verdicts (test).

check.py is the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.download import GOETTINGEN_STEMS, describe_doubt, is_of_sample
from data.examples import BUILT_IN_FILES, Table
from data.options import SAMPLE_FOLDER
from data.readers import read_examples
from data.task_specs import CORRELATIONS
from data.task_tables import is_one_label, shown_label
from minbert.commands import streams
from minbert.commands.files import read_json
from minbert.commands.texts import as_message
from multitask.command_options import CheckOptions
from multitask.prediction_files import (
    find_tasks,
    is_as_written,
    read_predictions,
    score_predictions,
    verify_predictions,
)
from multitask.score_intervals import ResampledScores, resample_scores, with_overall_scores
from multitask.tasks import BUILT_IN_TASKS, TASKS, Task

# The names that a course gives its files say what they predict, such as sst-dev-output.csv.
TASK_OF_STEM = {stem: task for task, stem in GOETTINGEN_STEMS.items()}
TASK_OF_STEM |= {task: task for task in BUILT_IN_FILES}
COURSE_NAME = re.compile(rf"(?:.*-)?({'|'.join(TASK_OF_STEM)})-(dev|test)-out(?:put)?\.csv")
# The names of the files of part 1 begin with a word for --option. course/editions.py has the words.
MODE_OF_WORD = {
    "pretrain": "pretrain",
    "finetune": "finetune",
    "last-linear-layer": "pretrain",
    "full-model": "finetune",
}
PART1_NAME = re.compile(rf"({'|'.join(MODE_OF_WORD)})-(sst|cfimdb)-(?:dev|test)-out\.csv")


def check_files(options: CheckOptions, log: Callable[[str], None]) -> int:
    """Check the files. log: is told the line of each.

    Returns the exit code: 2 if one of them was refused, or is not as its run wrote it.
    """
    scored: dict[str, list[ResampledScores]] = {}
    num_refused = 0
    doubts: dict[str, str] = {}
    for file in options.files:
        try:
            checked = check_file(file, options)
        except ValueError as error:
            # The other files may still be good.
            num_refused += 1
            streams.say(f"refused: {error}")
            continue
        log(as_message(checked.line))
        num_refused += not checked.is_as_written
        doubts |= checked.doubts
        if checked.scored is not None:
            scored.setdefault(checked.task.name, []).append(checked.scored)

    # Both overall scores need exactly one dev file of each task.
    is_one_of_each = scored.keys() == TASKS.keys() and all(len(s) == 1 for s in scored.values())
    if is_one_of_each:
        by_task = with_overall_scores({name: of_files[0] for name, of_files in scored.items()})
        overall = [("2023", by_task["overall_2023"]), ("2024", by_task["overall_2024"])]
        log(", ".join(f"overall {year}: {with_interval(of_year)}" for year, of_year in overall))
    for path, doubt in doubts.items():
        streams.say(f"note: {path} may not be the course's file: {doubt}.")
    return 2 if num_refused else 0


class CheckResult(NamedTuple):
    """The result of one file."""

    task: Task
    line: str  # for the user
    scored: ResampledScores | None  # None for a test file
    is_as_written: bool  # False for a file of a run that has changed since
    doubts: dict[str, str]  # why a data file may not be the course's, by its path


def check_file(file: str, options: CheckOptions) -> CheckResult:
    """Score or verify one file. Raises ValueError if it is refused."""
    run = find_run(Path(file))
    task, rows = find_rows(file, options, run)
    check_name(file, task, rows)
    scored = None
    if rows.split == "test":
        verify_predictions(file, task, [example.id for example in rows.table.examples])
        result = "every id once, no labels to score against"
    else:
        # A file that cannot be scored is refused here.
        score_predictions(file, task, rows.table)
        scored = resampled_scores_of(file, task, rows.table)
        result = f"{task.metric} {with_interval(scored)}"
        if is_one_label(rows.table) and task.metric_name in CORRELATIONS:
            label = shown_label(rows.table, task)
            result += f", which says nothing: all labels of {rows.table.path} are {label}"

    num_dropped = len(rows.table.dropped)
    dropped = f" ({num_dropped} rows of {rows.table.path} dropped)" if num_dropped else ""
    num_rows = f"{len(rows.table.examples):,} rows{dropped}"
    note = "" if run is None else run.note
    is_as_written = run is None or not run.is_changed
    line = f"{file}: {task.title} {rows.split}, {num_rows}, {result}{note}"
    return CheckResult(task, line, scored, is_as_written, doubts_about(task, rows))


def resampled_scores_of(file: str, task: Task, table: Table) -> ResampledScores:
    """The score of a file, and the same score on resampled rows."""
    by_id = read_predictions(file, task)
    values = np.array([by_id[example.id] for example in table.examples], dtype=np.float32)
    return resample_scores(task, [values], table.examples)


def with_interval(scored: ResampledScores) -> str:
    """A score with its 95 % interval in brackets."""
    low, high = scored.interval()
    return f"{scored.scores[0]:.4f} [{low:.3f}, {high:.3f}]"


def doubts_about(task: Task, rows: SplitRows) -> dict[str, str]:
    """Why the data file of some rows may not be the course's, by its path.

    Those of the sample and of --gold do not claim to be the course's.
    """
    table = rows.table
    if rows.split not in BUILT_IN_FILES[task.name] or is_of_sample(table.path):
        return {}
    name = BUILT_IN_FILES[task.name][rows.split]
    doubt = describe_doubt(name, table.path, len(table.examples) + len(table.dropped))
    return {table.path: doubt} if doubt else {}


def check_name(file: str, task: Task, rows: SplitRows) -> None:
    """Raise ValueError for a file with a course's name for other rows than those it predicts."""
    named = named_rows(file)
    if named is not None and rows.split != "gold" and named != (task.name, rows.split):
        title = BUILT_IN_TASKS[named[0]].title
        raise ValueError(
            f"{file}: its name says {title} {named[1]}, but its ids are those of "
            f"{task.title} {rows.split} ({rows.table.path}). Two files may have changed places. "
            "Give it the name of its rows, or write it again."
        )


def named_rows(file: str) -> tuple[str, str] | None:
    """The task and the split that a course's name for a file says, or None for another name."""
    match = COURSE_NAME.fullmatch(Path(file).name)
    return None if match is None else (TASK_OF_STEM[match[1]], match[2])


# --- the run that wrote a file --------------------------------------------------------------------


class RunOfFile(NamedTuple):
    """What is known about the run that wrote a file.

    path: of its run.json. options: of the run, {} where run.json cannot be read. is_changed:
    whether the file is not as the run wrote it, or run.json is damaged and cannot tell. note: the
    same for the line of the file, "" for a file that is as the run wrote it.
    """

    path: Path
    options: dict[str, Any]
    is_changed: bool
    note: str


def find_run(file: Path) -> RunOfFile | None:
    """The run in whose folder `predictions` a file is, or None.

    The folder of course.part1 has copies of the files of four runs. The name of a copy tells its
    run. A copy that got another name is as its run wrote it, or belongs to no run.
    """
    file = file.absolute()
    folder = file.parent.parent
    if file.parent.name != "predictions":
        return None
    if (folder / "run.json").is_file():
        return run_of(file, folder / "run.json")
    name = PART1_NAME.fullmatch(file.name)
    if name is not None:
        path = folder / f"{MODE_OF_WORD[name[1]]}-{name[2]}" / "run.json"
        if path.is_file():
            return run_of(file, path)
    for path in sorted(folder.glob("*/run.json")):
        run = run_of(file, path)
        if not run.is_changed:
            return run
    return None


def run_of(file: Path, path: Path) -> RunOfFile:
    """What a run.json says about a file."""
    try:
        record = read_json(path)
        options = dict(record.get("options", {}))
        is_unchanged = is_as_written(file, record)
    except (OSError, ValueError, AttributeError, TypeError):
        note = f"; {path} cannot be read, so nobody knows whether the run wrote this file"
        return RunOfFile(path, {}, True, note)
    name = path.parent.name
    note = f"; NOT as the run {name} wrote it: it was edited, is damaged, or is of another run"
    return RunOfFile(path, options, not is_unchanged, "" if is_unchanged else note)


# --- the rows that a file is for ------------------------------------------------------------------


class SplitRows(NamedTuple):
    """The rows that a prediction file is for."""

    split: str  # "dev", "test", or "gold" of --gold
    table: Table


def find_rows(
    file: str, options: CheckOptions, run: RunOfFile | None = None
) -> tuple[Task, SplitRows]:
    """The task of a file and its rows: those of --gold, or of the split that shares most ids.

    SST and CFIMDB have the same header. Their ids, or the labels of --gold, tell which it is.
    run: that wrote the file, if one is known.
    """
    tasks = find_tasks(file)
    if options.gold:
        task = narrowest(file, tasks, options)
        return task, SplitRows("gold", read_gold(task, options))

    # The file may be of dev or of test. Count the ids that it shares with each.
    ids = read_predictions(file, tasks[0]).keys()
    candidates: list[tuple[int, Task, SplitRows]] = []
    absent: list[Path] = []
    for task in tasks:
        for split in ("dev", "test"):
            path = data_file(task, split, options, run)
            # Few folders have CFIMDB, and some have nothing else.
            if len(tasks) > 1 and not path.exists():
                absent.append(path)
                continue
            table = read_examples(
                path, task.format, labelled=split == "dev", drop_bad_rows=options.drop_bad_rows
            )
            num_shared = len(ids & {example.id for example in table.examples})
            candidates.append((num_shared, task, SplitRows(split, table)))

    # Rows without ids are called by their lines, so dev and test have the same ids. Then the name
    # of the file tells, and after it the number of rows.
    named = named_rows(file)

    def fit(candidate: tuple[int, Task, SplitRows]) -> tuple[int, bool, int]:
        num_shared, task, rows = candidate
        return num_shared, (task.name, rows.split) == named, -len(rows.table.examples)

    best = max(candidates, key=fit, default=None)
    if best is None or not best[0]:
        searched = [candidate[2].table.path for candidate in candidates]
        raise ValueError(describe_no_rows(file, len(ids), searched, absent))
    return best[1], best[2]


def describe_no_rows(file: str, num_ids: int, searched: list[str], absent: list[Path]) -> str:
    """The message about a file whose ids are in no data file.

    searched: the data files that were read. absent: those that are not there.
    """
    causes = []
    if searched:
        causes.append(f"none of its {num_ids} ids is in {' or '.join(searched)}")
    if absent:
        names = " and no ".join(path.name for path in absent)
        causes.append(f"{absent[0].parent} has no {names}")
    return f"{file}: {', and '.join(causes)}. Pass the folder it was predicted from as --data-dir."


def data_file(task: Task, split: str, options: CheckOptions, run: RunOfFile | None) -> Path:
    """The data file of a task and a split: of --data-dir, of the run, or of the sample."""
    name = BUILT_IN_FILES[task.name][split]
    if options.data_dir is not None:
        return options.data_dir / name
    if run is None:
        return SAMPLE_FOLDER / name
    if f"{task.name}_{split}" not in run.options:
        raise ValueError(
            f"{run.path} does not say which data the run has predicted. Pass their folder as "
            "--data-dir."
        )
    return Path(run.options[f"{task.name}_{split}"])


def read_gold(task: Task, options: CheckOptions) -> Table:
    """The rows of --gold as those of a task. Raises ValueError where they are not."""
    assert options.gold is not None
    return read_examples(
        options.gold,
        task.format,
        drop_bad_rows=options.drop_bad_rows,
        names=options.column_names,
    )


def narrowest(file: str, tasks: list[Task], options: CheckOptions) -> Task:
    """The task with the fewest classes that the labels of --gold and the predictions allow."""
    for task in sorted(tasks, key=lambda task: task.num_outputs)[:-1]:
        try:
            read_predictions(file, task)
            read_gold(task, options)
        except ValueError:
            continue
        return task
    return max(tasks, key=lambda task: task.num_outputs)
