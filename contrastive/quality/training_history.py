"""The chapter of the report on how an encoder was trained.

A training stage writes stage.json into the encoder's folder. It holds the scores before and after
training, and every evaluation between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minbert import hub
from minbert.commands.files import read_json
from minbert.reporting.figures import Figure, Line, LinePlot
from minbert.reporting.pages import Section
from minbert.reporting.tables import NO_VALUE, Table, heading_and_numbers, number_text
from minbert.training.stage import STAGE_FILE

# The scores that select the best evaluation of a stage, with their names in the report.
SELECTING_SCORES = {
    "spearman": "Spearman of dev",
    "held_out_loss": "held-out loss of dev",
}
CURVE_ASPECT = 0.6  # height divided by width

ABOUT_TRAINING = (
    "This chapter shows stage.json in the model's folder. Its scores are those of the dev pairs "
    "that selected the best evaluation. These pairs can differ from the files above. {outcome}"
)
ABOUT_PATH = (
    "The path goes from before training through each evaluation to after training (as in Wang and "
    "Isola 2020 and Gao et al. 2021). Lower is better on both axes, so a good path goes down and "
    "to the left. Most often one of the two gets better while the other one gets worse."
)
ABOUT_CURVES = (
    "The loss is the mean over the steps since the evaluation before. Step 0 is before training. "
    "The highlighted point is the best evaluation, whose weights the stage kept."
)

Scores = Mapping[str, Any]


def read_training(model: str) -> dict[str, Any] | None:
    """Read from stage.json how an encoder was trained. None without such a file, or its scores.

    model: a folder or the name of a model. The result has "before" and "after" (scores), "is_kept"
    and "history", as a training stage writes them. Raises ValueError if they are damaged.
    """
    path = hub.resolve(model) / STAGE_FILE
    if not path.exists():
        return None
    try:
        stage = read_json(path)
        training = {name: stage[name] for name in ("before", "after", "is_kept", "history")}
        if training["before"] == training["after"] == {}:
            return None  # no pairs have measured this stage (contrastive.train without --dev)
        _check_scores(training)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: is not what a stage of training writes ({type(error).__name__}: {error}); "
            "expected are before, after, is_kept and history, with the same scores. Restore the "
            "file, or remove it to do without the chapter on training."
        ) from None
    return training


def _check_scores(training: dict[str, Any]) -> None:
    """ValueError, KeyError or TypeError if a score is missing or is no number."""
    before = training["before"]
    if not training["history"] or not set(SELECTING_SCORES) & set(before):
        raise ValueError(f"no evaluations, or none with {' or '.join(SELECTING_SCORES)}")
    _check_numbers(before, before)
    _check_numbers(training["after"], before)
    for entry in training["history"]:
        _check_numbers(entry, [*before, "step", "loss"])


def _check_numbers(scores: Scores, names: Sequence[str] | Scores) -> None:
    for name in names:
        if not isinstance(scores[name], int | float):
            raise ValueError("a score that is no number")


# --- sections -----------------------------------------------------------------------------------


def training_sections(training: dict[str, Any]) -> list[Section]:
    """The chapter: the outcome, alignment against uniformity if measured, loss and dev score.

    training: as `read_training` returns it.
    """
    before = training["before"]
    after = training["after"]
    history = training["history"]
    score = next(name for name in SELECTING_SCORES if name in before)

    # Point 0 is before training, point n the n-th evaluation.
    points = [{"step": 0, **before}, *history]
    best = _best_point(history, score)
    names = ["before", *map(str, range(1, len(points)))]
    names[best] = f"{best} = after"

    outcome = f"{SELECTING_SCORES[score]} went from {before[score]:.4f} to {after[score]:.4f}"
    outcome += "." if training["is_kept"] else ", so the encoder in the folder is the one before."
    sections = [Section("Training", ABOUT_TRAINING.format(outcome=outcome), level=2)]
    if "alignment" in before:
        sections.append(path_section(before, after, points, names, best))
    sections.append(curve_section(points, names, best, score))
    return sections


def _best_point(history: Sequence[Scores], score: str) -> int:
    """The number of the point whose weights the stage kept: the first one with the best score.

    The scores `after` were measured on these weights once more.
    """
    values = [entry[score] for entry in history]
    best = min(values) if score == "held_out_loss" else max(values)
    return 1 + values.index(best)


def path_section(
    before: Scores, after: Scores, points: Sequence[Scores], names: Sequence[str], best: int
) -> Section:
    """Alignment against uniformity: the path through all evaluations.

    points: before training and at each evaluation. names: of the points. best: its number.
    """
    notes = []
    for name, point in zip(names, points, strict=True):
        scores = f"alignment {point['alignment']:.4f}, uniformity {point['uniformity']:.4f}"
        notes.append(f"{name}, step {point['step']:,}: {scores}")
    x = [point["uniformity"] for point in points]
    y = [point["alignment"] for point in points]
    labels = {0: names[0], best: names[best]}
    line = Line(x, y, notes=notes)
    plot = LinePlot((line,), "uniformity", "alignment", highlighted=best, labels=labels)

    rows = []
    for name, ends in (("before", before), ("after", after)):
        cells = (number_text(ends["alignment"]), number_text(ends["uniformity"]))
        rows.append((name, *cells))
    table = Table(heading_and_numbers("", "alignment", "uniformity"), tuple(rows))
    return Section("Alignment against uniformity", ABOUT_PATH, Figure((plot,), table))


def curve_section(points: Sequence[Scores], names: Sequence[str], best: int, score: str) -> Section:
    """The loss and the dev score over steps, with a table of all scores."""
    # A method that trains two copies of the encoder (contrastive tension) has scores of both.
    of_copies = [name for name in points[-1] if name.startswith(f"{score}_")]
    titles = [name for name in points[0] if name != "step"] + of_copies
    rows = []
    for name, point in zip(names, points, strict=True):
        # A loss can be small, so it has four significant digits.
        loss = f"{point['loss']:.4g}" if "loss" in point else NO_VALUE
        numbers = [number_text(point.get(title)) for title in titles]
        rows.append((name, f"{point['step']:,}", loss, *numbers))
    table = Table(heading_and_numbers("evaluation", "step", "loss", *titles), tuple(rows))

    # There is no loss before training.
    loss_curve = _curve(points[1:], "loss", "loss", best - 1)
    score_curve = _curve(points, score, SELECTING_SCORES[score], best)
    figure = Figure((loss_curve, score_curve), table)
    return Section("Loss and dev score", ABOUT_CURVES, figure)


def _curve(points: Sequence[Scores], key: str, label: str, best: int) -> LinePlot:
    steps = [point["step"] for point in points]
    values = [point[key] for point in points]
    notes = [f"step {point['step']:,}: {point[key]:.4g}" for point in points]
    line = Line(steps, values, notes=notes)
    return LinePlot(
        (line,),
        "step",
        label,
        highlighted=best,
        labels={best: f"{values[best]:.4g}"},
        starts_at_zero=True,
        aspect=CURVE_ASPECT,
    )
