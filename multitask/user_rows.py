"""The task of `multitask.predict`, and the rows that a user has given it. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from data.examples import COURSE_FILES, Example
from data.tables.columns import ColumnNames, Role
from data.tables.spreadsheets import check_cells, check_spreadsheet
from data.task_specs import BUILT_IN, TaskSpec, from_stored
from data.user_texts import TEXT, UserTexts, read_texts
from minbert.commands.files import read_json
from minbert.commands.outputs import Output, check_outputs
from minbert.commands.paths import in_shell
from multitask.command_options import PredictOptions

# A finished run of the main job that comes with minBERT, so that a sentence can be tried at once.
BUNDLED_RUN = Path(__file__).parent / "bundled"


class RunTasks(NamedTuple):
    """The tasks of a run: what they are by name, and which of them were trained."""

    specs: dict[str, TaskSpec]
    trained: list[str]


def read_tasks(run: Path) -> RunTasks:
    """The tasks in a run's run.json, without torch. Raises ValueError where there is none."""
    try:
        record = read_json(run / "run.json")
        trained = record["options"]["tasks"].split(",")
        # Older runs have the three tasks of the course, and no list of them.
        specs = {name: BUILT_IN[name] for name in COURSE_FILES}
        if "tasks" in record:
            specs = from_stored(record["tasks"], TaskSpec)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        from multitask.saved_run import read_record

        read_record(run)  # says what is wrong
        raise
    return RunTasks(specs, list(dict.fromkeys(trained)))


def choose_task(options: PredictOptions) -> TaskSpec:
    """The task that --task names, or the only one that the first run was trained on.

    Raises ValueError where the run does not have it.
    """
    run = options.runs[0]
    for folder in options.runs:
        refuse_ensemble(folder)
    specs, trained = read_tasks(run)
    name = options.task or choose_only_task(run)
    if name not in specs:
        raise ValueError(
            f"--task {name}: {run} was trained on {', '.join(trained)}. Pass one of these, or "
            "another run."
        )
    return specs[name]


def choose_only_task(run: Path) -> str:
    """The only task that a run was trained on. Raises ValueError where there are several."""
    trained = read_tasks(run).trained
    if len(trained) > 1:
        raise ValueError(f"{run} was trained on {', '.join(trained)}; pass one as --task.")
    return trained[0]


def refuse_ensemble(folder: Path) -> None:
    """Raise ValueError for the folder of an ensemble, with the runs that can be named instead."""
    path = folder / "ensemble.json"
    if not path.is_file() or (folder / "run.json").is_file():
        return
    advice = "the runs that it joins"
    try:
        runs = read_json(path)["runs"]
        advice += ": " + " ".join(in_shell(Path(run)) for run in runs)
    except (OSError, ValueError, KeyError, TypeError):
        advice += ", which ensemble.json names"
    raise ValueError(f"{folder} holds an ensemble, and no model. Name {advice}")


def check_request(options: PredictOptions, task: TaskSpec) -> None:
    """Raise ValueError for everything else that can be refused before any work."""
    if options.probabilities and task.is_regression:
        specs, trained = read_tasks(options.runs[0])
        others = [name for name in trained if not specs[name].is_regression]
        advice = f"Pass --task {' or '.join(others)}, or drop it." if others else "Drop it."
        raise ValueError(f"--probabilities: {task.name} has no classes. {advice}")
    if options.temperature != 1 and task.is_regression:
        raise ValueError(
            f"--temperature has no effect with --task {task.name}, whose answer is a number. Drop "
            "it."
        )
    if options.threshold != 0.5 and task.kind not in ("binary", "multilabel"):
        raise ValueError(
            f"--threshold has no effect with --task {task.name}: it is for two classes, or several "
            "labels in a row. Drop it."
        )
    if options.text_pair is not None and not task.is_pair:
        raise ValueError(
            f"--text-pair has no effect with --task {task.name}, which reads one text. Drop it."
        )
    if options.out is None or not options.writes_file:
        return
    check_spreadsheet(options.out)
    inputs = [] if options.input is None else [options.input]
    check_outputs([Output("--out", options.out)], inputs, options.runs, options.overwrite)


# --- the rows -------------------------------------------------------------------------------------


def read_rows(options: PredictOptions, task: TaskSpec) -> UserTexts:
    """The texts of the input. Raises ValueError where they cannot be read."""
    format = task.format
    # A user's own task has its own names of columns.
    roles = [TEXT if task.is_built_in else Role("--text", format.text_columns)]
    if format.is_pair:
        first, second = format.text_columns
        roles = [Role("--text", (first,)), Role("--text-pair", (second,))]
    names = ColumnNames(text=options.text, text_pair=options.text_pair)
    texts = read_texts(options.input, roles, names, options.lines, skips_empty=True)
    if texts.table is None and not format.is_pair:
        refuse_tabs(texts)
    if options.out is not None and texts.table is not None:
        check_cells(options.out, [row.fields for row in texts.table.rows])
    return texts


def refuse_tabs(texts: UserTexts) -> None:
    """Raise ValueError for a line with a tab where each line is one sentence."""
    for row in texts.rows:
        if "\t" in row.texts[0]:
            raise ValueError(
                f"{texts.name}, line {row.id} is {row.texts[0]!r}; expected is one sentence, "
                "without a tab. Fix or remove the line."
            )


def to_examples(texts: UserTexts) -> list[Example]:
    """The rows as the model reads them."""
    examples = []
    for number, row in enumerate(texts.rows, start=1):
        first = row.texts[0]
        second = row.texts[1] if len(row.texts) == 2 else None
        examples.append(Example(str(number), first, second, None))
    return examples
