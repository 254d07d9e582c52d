"""The sections of a run's report that every kind of run has: curves, cost, and how it was made.

All numbers are those of run.json and log.csv. minbert/reporting/pages.py writes the sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minbert.reporting.figures import Figure, Line, LinePlot
from minbert.reporting.pages import Section
from minbert.reporting.tables import NO_VALUE, Column, Table, heading_and_numbers
from minbert.training.code_version import name_of
from minbert.training.step_log import LOG_FILE, StepRecord, read_log

REPORT_FILE = "report.html"  # in the folder of a run
CARD_FILE = "README.md"
NUM_POINTS = 60  # of a curve: the loss of a single step is noise
NUM_ROWS = 10  # of the table of a curve
NUM_EVALUATIONS = 20  # of the table of scores
ASPECT = 0.62  # height of a curve divided by its width
DIGEST_LETTERS = 12

Titles = Mapping[str, str]  # of tasks or scores, by name


# --- the curves of a stage ------------------------------------------------------------------------


class Curves(NamedTuple):
    """The steps of each stage in the order of their training, and why there are none, if so."""

    stages: dict[str, list[StepRecord]]
    problem: str


def read_curves(folder: Path) -> Curves:
    """The step log in the folder of a run. A log that is absent or damaged is no error."""
    try:
        records = read_log(folder / LOG_FILE)
    except (OSError, ValueError):
        return Curves({}, f"There are no curves, because {LOG_FILE} cannot be read.")
    if not records:
        return Curves({}, f"There are no curves, because this run has no {LOG_FILE}.")
    stages: dict[str, list[StepRecord]] = {}
    for record in records:
        stages.setdefault(record.stage, []).append(record)
    return Curves(stages, "")


def curve_section(stage: str, steps: Sequence[StepRecord], titles: Titles) -> Section:
    """The loss of each task and the learning rate over the steps of a stage.

    steps: at least one. titles: of the tasks, by name. A task without a title has its name.
    """
    plots = (loss_plot(steps, titles), learning_rate_plot(steps))
    prose = f"{len(steps):,} steps, trained in {duration(steps[-1].seconds)}."
    if steps[0].step > 1:
        prose += f" The log begins at step {steps[0].step:,}, because an older version began it."
    size = len(pieces_of(len(steps), NUM_POINTS)[0])
    if size > 1:
        prose += f" A point is the mean of up to {size:,} steps."
    if len(steps) > NUM_ROWS:
        prose += " The table has the means of longer parts."
    figure = Figure(plots, curve_table(steps, titles))
    return Section(f"{stage}: loss and learning rate", prose, figure)


def tasks_of(steps: Sequence[StepRecord], titles: Titles) -> dict[str, str]:
    """The titles of the tasks whose losses the steps hold, by name, in the order of `titles`."""
    names: dict[str, None] = {}
    for step in steps:
        names.update(dict.fromkeys(step.losses))
    order = {name: title for name, title in titles.items() if name in names}
    return order | {name: titles.get(name, name) for name in names}


def pieces_of(length: int, num_pieces: int) -> list[np.ndarray]:
    """The numbers 0 to length - 1 in at most `num_pieces` parts of about equal size."""
    return np.array_split(np.arange(length), min(num_pieces, length))


def smoothed(steps: Sequence[int], values: Sequence[float], name: str = "") -> Line:
    """A line of at most NUM_POINTS points. Each is the mean of a part, in the middle of its steps.

    steps, values: of equal length, at least 1.
    """
    x = []
    y = []
    for piece in pieces_of(len(steps), NUM_POINTS):
        x.append(float(np.mean([steps[number] for number in piece])))
        y.append(float(np.mean([values[number] for number in piece])))
    return Line(x, y, name)


def loss_plot(steps: Sequence[StepRecord], titles: Titles) -> LinePlot:
    """A line for each task, over those steps that hold it."""
    tasks = tasks_of(steps, titles)
    lines = []
    summaries = []
    for task, title in tasks.items():
        with_task = [step for step in steps if task in step.losses]
        numbers = [step.step for step in with_task]
        losses = [step.losses[task] for step in with_task]
        # A single line needs no legend.
        line = smoothed(numbers, losses, title if len(tasks) > 1 else "")
        lines.append(line)
        summaries.append(f"{title} from {line.y[0]:.3g} to {line.y[-1]:.3g}")
    return LinePlot(
        tuple(lines),
        "step",
        "training loss",
        starts_at_zero=True,
        aspect=ASPECT,
        summary=f"{', '.join(summaries)}.",
    )


def learning_rate_plot(steps: Sequence[StepRecord]) -> LinePlot:
    """The learning rate of each step. It is that of the parameters with the highest one."""
    values = [step.learning_rate for step in steps]
    line = smoothed([step.step for step in steps], values)
    return LinePlot(
        (line,),
        "step",
        "learning rate",
        starts_at_zero=True,
        aspect=ASPECT,
        summary=f"Its peak is {max(values):.3g}.",
    )


def curve_table(steps: Sequence[StepRecord], titles: Titles) -> Table:
    """Means of at most NUM_ROWS parts of the steps."""
    tasks = tasks_of(steps, titles)
    # The loss of a single task is that of the step.
    shown = tasks if len(tasks) > 1 else {}
    rows = []
    for piece in pieces_of(len(steps), NUM_ROWS):
        part = [steps[number] for number in piece]
        first = part[0].step
        last = part[-1].step
        losses = [mean_of([step.loss for step in part])]
        for task in shown:
            losses.append(mean_of([step.losses[task] for step in part if task in step.losses]))
        rows.append(
            (
                f"{first:,} to {last:,}" if first < last else f"{first:,}",
                f"{part[-1].epoch}",
                *losses,
                f"{np.mean([step.learning_rate for step in part]):.2e}",
                f"{np.mean([step.gradient_norm for step in part]):.2f}",
            )
        )
    columns = heading_and_numbers(
        "steps", "epoch", "loss", *shown.values(), "learning rate", "gradient norm"
    )
    return Table(columns, tuple(rows))


def mean_of(values: Sequence[float]) -> str:
    """The mean with four decimals, or a dash where there is nothing."""
    return f"{np.mean(values):.4f}" if values else NO_VALUE


# --- scores ---------------------------------------------------------------------------------------


def evaluation_section(
    title: str,
    history: Sequence[Mapping[str, Any]],
    best_step: int,
    score: str,
    titles: Titles,
    is_one_scale: bool = True,
) -> Section:
    """The scores after each evaluation, as a table, and as curves where there are several.

    history: entries with "epoch", "step", "loss" and the scores, at least one. score: the one that
    selects the best model. titles: of the scores, by name. is_one_scale: whether one plot can show
    all scores. Otherwise each has its own.
    """
    names = [name for name in history[-1] if name not in ("epoch", "step", "loss")]
    # The score that selects comes first: its best point stands out.
    names.sort(key=lambda name: name != score)
    shown = {name: titles.get(name, name) for name in names}
    table = evaluation_table(history, best_step, shown)
    prose = (
        f"The best step is {best_step:,}. It was selected by {shown[score]}. The training loss is "
        "the mean since the evaluation before."
    )
    if len(table.rows) < len(history):
        prose += " The table leaves out some evaluations."
    if len(history) == 1:
        return Section(title, prose, table)
    if is_one_scale:
        plots = [evaluation_plot(history, best_step, shown, "score on dev")]
    else:
        plots = [
            evaluation_plot(history, best_step, {name: text}, text) for name, text in shown.items()
        ]
    return Section(title, prose, Figure(tuple(plots), table))


def evaluation_table(history: Sequence[Mapping[str, Any]], best_step: int, shown: Titles) -> Table:
    """A row for each evaluation. Of many, about NUM_EVALUATIONS are left, and the best one.

    shown: the titles of the scores, by name.
    """
    lasts = {int(piece[-1]) for piece in pieces_of(len(history), NUM_EVALUATIONS)}
    rows = []
    for number, entry in enumerate(history):
        is_best = entry["step"] == best_step
        if number in lasts or is_best:
            cells = [f"{entry[name]:.4f}" for name in ("loss", *shown)]
            mark = "yes" if is_best else ""
            rows.append((f"{entry['epoch']}", f"{entry['step']:,}", *cells, mark))
    columns = heading_and_numbers("epoch", "step", "training loss", *shown.values())
    return Table((*columns, Column("best", "words")), tuple(rows))


def evaluation_plot(
    history: Sequence[Mapping[str, Any]], best_step: int, shown: Titles, label: str
) -> LinePlot:
    """A line for each score over the steps. The best step of the first one stands out.

    shown: the titles of the scores, by name. label: of the vertical axis.
    """
    steps = [entry["step"] for entry in history]
    lines = []
    summaries = []
    for name, text in shown.items():
        values = [entry[name] for entry in history]
        # A single line needs no legend.
        lines.append(Line(steps, values, text if len(shown) > 1 else ""))
        summaries.append(f"{text} from {values[0]:.3f} to {values[-1]:.3f}")
    return LinePlot(
        tuple(lines),
        "step",
        label,
        highlighted=steps.index(best_step) if best_step in steps else None,
        starts_at_zero=True,
        aspect=ASPECT,
        summary=f"{', '.join(summaries)}. The best step is {best_step}.",
    )


def stage_section(name: str, quality: Mapping[str, Any], is_reused: bool) -> Section:
    """The scores of the encoder before and after a stage.

    quality: of the stage, as run.json holds it. is_reused: whether a run before had trained it.
    """
    scores = list(quality["before"])
    rows = []
    for when in ("before", "after"):
        rows.append((when, *(f"{quality[when][score]:.4f}" for score in scores)))
    sentences = []
    if is_reused:
        sentences.append("This run did not train it: it used the encoder of an earlier run.")
    if not quality["is_kept"]:
        sentences.append("The trained encoder was worse, so the next stage began without it.")
    for measure, value in quality["found"].items():
        sentences.append(f"{measure}: {value:.4f}.")
    settings = [f"{key} {value}" for key, value in quality["settings"].items() if key != "source"]
    if settings:
        sentences.append(f"Settings: {', '.join(settings)}.")
    table = Table(heading_and_numbers("encoder", *scores), tuple(rows))
    return Section(f"{name}: scores before and after", " ".join(sentences), table)


# --- cost -----------------------------------------------------------------------------------------


def cost_section(record: Mapping[str, Any], curves: Curves) -> Section:
    """The cost estimate of each stage beside the actual cost."""
    estimates = record["predicted"]
    actual = record["actual"]
    if not estimates:
        prose = (
            f"The run took {duration(actual['seconds'])} and {gigabytes(actual['peak_memory'])} GB "
            "of memory. The estimate was left out by --skip."
        )
        return Section("Cost", prose, level=2)
    rows = []
    for estimate in estimates:
        steps = curves.stages.get(estimate["name"], [])
        rows.append(
            (
                estimate["name"],
                f"{estimate['num_steps']:,}",
                f"{steps[-1].step:,}" if steps else NO_VALUE,
                duration(estimate["seconds"]),
                duration(steps[-1].seconds) if steps else NO_VALUE,
                gigabytes(estimate["peak_memory"]),
                NO_VALUE,
            )
        )
    rows.append(
        (
            "the whole run",
            f"{sum(item['num_steps'] for item in estimates):,}",
            NO_VALUE,
            duration(sum(item["seconds"] for item in estimates)),
            duration(actual["seconds"]),
            gigabytes(max((item["peak_memory"] for item in estimates), default=0)),
            gigabytes(actual["peak_memory"]),
        )
    )
    columns = heading_and_numbers(
        "stage",
        "steps planned",
        "steps trained",
        "time estimated",
        "time taken",
        "GB estimated",
        "GB used",
    )
    prose = (
        "The estimate was made before the training, from a few real steps. The time of a stage "
        "ends with its last step. That of the whole run includes evaluations and predictions."
    )
    return Section("Cost", prose, Table(columns, tuple(rows)), level=2)


def duration(seconds: float) -> str:
    """A time in its fitting unit."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def gigabytes(number: float) -> str:
    """Bytes as gigabytes, for a table."""
    return f"{number / 1e9:,.1f}"


# --- how it was made ------------------------------------------------------------------------------


def reproduction_sections(record: Mapping[str, Any], command: str) -> list[Section]:
    """The command that gives this run again, versions and machine, and the files that were read."""
    prose = (
        "The command names every option that differs from its default, also those that the run "
        "chose itself. Start it in the folder in which this run was started."
    )
    return [
        Section("How to reproduce it", prose, level=2, code=command),
        Section("Versions and machine", body=environment_table(record)),
        files_section(record),
    ]


def environment_table(record: Mapping[str, Any]) -> Table:
    """Code, versions and machine of a run."""
    values = {"code": name_of(record["code"]), **record["versions"], **record["machine"]}
    rows = [(name, str(value)) for name, value in values.items()]
    return Table((Column("name", "heading"), Column("value", "sentence")), tuple(rows))


def files_section(record: Mapping[str, Any], has_paths: bool = True) -> Section:
    """The files that a run read. has_paths: whether their folders are shown, too."""
    rows = []
    for path, digest in record["files"].items():
        rows.append((path if has_paths else Path(path).name, digest[:DIGEST_LETTERS]))
    prose = "The beginning of each file's SHA-256. run.json has all of it."
    columns = (Column("file", "sentence"), Column("SHA-256", "identifier"))
    return Section("Files that were read", prose, Table(columns, tuple(rows)))
