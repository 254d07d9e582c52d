"""The rows of the three papers' tables: published figures beside those of the records.

A cell is the mean over the seeds with its interval, which holds the chance in the rows and in the
seeds, and in brackets the published figure. A row without a record has a dash in each cell. A
comparison has two rows of a paper that differ in the choice about which the paper draws a
conclusion.

Keys of an entry, beside those of generic.py: `recipes` (the rows, in this order), `sets` (the sets
of an average that stands alone), `copies` (of contrastive tension, what stands in a row of its
own), `poolings` (of hidden states, likewise), `less` (the row that is subtracted from them),
`compared_rows`, `with_pearson` (whether each row stands a second time, with Pearson's correlation
in the place of Spearman's) and `without_encoder` (whether the last row has the scores that need no
encoder). A column of scores has the format "interval", and `published`: the name that the paper
gives the set.

`model` and `with` say which runs of a recipe are meant: those of this model, whose flags of --with
were these. A row may have other flags: "ct-table-1 --steps 400 --rows 4000".
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.paper_recipes import AVERAGE, PEARSON, PaperRecipe, find_recipe
from experiments.paper_scores import (
    Score,
    copies_in_order,
    mean_on_same_rows,
    scores_of_record,
)
from experiments.records import Record, newest_of
from experiments.results import join
from experiments.tables import format_difference, judge
from tools.tables.conditions import measured_on
from tools.tables.report_rows import ENOUGH_SEEDS, NOTHING, TOO_FEW, compare, directions
from tools.tables.row_chance import OF_DIFFERENCES, OF_INTERVALS, OF_SEEDS, STANDARD_ERRORS
from tools.tables.rows import Content, Entry, Row, pairs_of

SCORES = "scores."  # the fields of scores begin with it
ENCODER = "encoder"  # the name of the scores where one encoder is measured
WORSE = "worse copy"
FIFTHS = 5  # parts of the scale of labels
COMPARISONS = ("paper comparisons", "paper changes")  # rows of differences
OF_COPIES = "That of a difference of two copies holds the seeds alone, as both have the same rows."
# Words of the command of a run that differ between its seeds.
OF_A_SEED = ("--seed", "--out")
WITHOUT_ENCODER = (
    "no encoder: the more common answer, and for F1 and average precision all pairs positive"
)


# --- the runs of a row ----------------------------------------------------------------------------


def score_columns(entry: Entry) -> list[Mapping[str, Any]]:
    """Return the columns of measured scores."""
    return [column for column in entry["columns"] if column.get("value", "").startswith(SCORES)]


def score_names(entry: Entry) -> list[str]:
    """Return the scores that a record must have to stand in a table."""
    if "compared_rows" in entry:
        return list(dict.fromkeys(pair.get("score", AVERAGE) for pair in entry["compared_rows"]))
    names = [column["value"].removeprefix(SCORES) for column in score_columns(entry)]
    if entry.get("with_pearson", False):
        names += [name + PEARSON for name in names]
    return names


def recipe_of(row: str) -> PaperRecipe:
    """Return the recipe of a row, which may name flags behind it."""
    return find_recipe(row.split()[0])


def label_of(row: str) -> str:
    """Return how a table names a row: the recipe, and the flags of its own."""
    name, *flags = row.split()
    return f"`{name}`, `{shlex.join(flags)}`" if flags else f"`{name}`"


def is_of_row(entry: Entry, row: str, record: Record) -> bool:
    """Return whether a record is of the recipe, the model and the flags of a row."""
    name, *own_flags = row.split()
    if record["paper_recipe"] != name or record["model"] != entry.get("model", record["model"]):
        return False
    # The command of an encoder that is not trained is that of its measurement.
    if not (own_flags or "with" in entry) or not find_recipe(name).method:
        return True
    # The flags of --with stand last, behind the folder.
    words = shlex.split(record["command"])
    flags = words[words.index("--out") + 2 :]
    return flags == (own_flags or shlex.split(entry["with"]))


def runs_of_recipe(entry: Entry, name: str, records: Sequence[Record]) -> list[Record]:
    """Return the records of a row that have all scores of a table, one for a seed.

    name: of the recipe, with flags of its own or without. Raises ValueError where two seeds were
    trained or measured in different ways.
    """
    wanted = {*score_names(entry), *entry.get("sets", [])}
    runs = []
    for record in records:
        names = set(next(iter(record["scores"].values())))
        if is_of_row(entry, name, record) and wanted <= names:
            runs.append(record)
    runs = sorted(newest_of(runs, lambda run: run["seed"]), key=lambda run: run["seed"])
    ways = {way_of(run) for run in runs}
    if len(ways) > 1:
        raise ValueError(
            f"the records of {name} are of {len(ways)} experiments: their commands or their data "
            "differ in more than the seed. Keep the lines of one in the file."
        )
    return runs


def way_of(record: Record) -> tuple[str, ...]:
    """Return how an encoder was trained and measured, without its seed."""
    words = shlex.split(record.get("command", ""))
    kept = []
    for before, word in zip(["", *words], words, strict=False):
        if word not in OF_A_SEED and before not in OF_A_SEED:
            kept.append(word)
    data = [f"{name} {digest}" for name, digest in sorted(record["data"].items())]
    return (*kept, record["model"], record["measured"], *data)


# --- published beside measured --------------------------------------------------------------------


def paper_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return the rows of each recipe: one, or one for each of the `copies` of the entry."""
    kinds = ["", PEARSON] if entry.get("with_pearson", False) else [""]
    rows = []
    for kind in kinds:
        for name in entry["recipes"]:
            has_copies = recipe_of(name).has_copies
            for copy in entry.get("copies", [WORSE]) if has_copies else [""]:
                rows.append(paper_row(entry, name, copy, kind, records))
    if entry.get("without_encoder", False):
        rows.append(row_without_encoder(entry, records))
    return rows


def paper_row(entry: Entry, name: str, copy: str, kind: str, records: Sequence[Record]) -> Row:
    """Return one row of a recipe.

    copy: of `scores_of`. kind: PEARSON, or "" for Spearman's correlation.
    """
    recipe = recipe_of(name)
    runs = runs_of_recipe(entry, name, records)
    scored = []
    for run in runs:
        scores = scores_of(run, copy)
        if kind:
            of_kind = [title for title in scores if title.endswith(kind)]
            scores = {title.removesuffix(kind): scores[title] for title in of_kind}
        scored.append(with_errors(run, scores))
    parts = [label_of(name), copy, kind.strip()]
    is_published = copy in ("", WORSE)
    return Row(
        ", ".join(part for part in parts if part),
        scored,
        published=published_figures(entry, name, kind) if is_published else {},
        values={"about": recipe.about},
        count=str(len(runs)) if runs else "not measured yet",
    )


def row_without_encoder(entry: Entry, records: Sequence[Record]) -> Row:
    """Return the row of scores that need no encoder. All runs have the same ones."""
    runs = runs_of_recipe(entry, entry["recipes"][0], records)[:1]
    scored = [with_errors(run, scores_of(run["without_encoder"], "")) for run in runs]
    return Row(WITHOUT_ENCODER, scored, values={"about": "-"}, count="-")


def scores_of(record: Record, copy: str) -> dict[str, Score]:
    """Return the scores of a record. copy: of contrastive tension, a row of `copies_in_order`."""
    scores = scores_of_record(record)
    return scores[ENCODER] if ENCODER in scores else copies_in_order(scores)[copy or WORSE]


def with_errors(record: Record, scores: Mapping[str, Score]) -> Record:
    """Return a record with these scores in the form that `score_of` reads."""
    return {
        **record,
        "scores": {name: score.value for name, score in scores.items()},
        "errors": {f"{SCORES}{name}": score.error for name, score in scores.items()},
        "groups": {f"{SCORES}{name}": score.num_groups for name, score in scores.items()},
    }


def published_of(row: str) -> Mapping[str, float]:
    """Return the published figures of a row. A row with flags of its own is none of the paper's."""
    name, *own_flags = row.split()
    return {} if own_flags else find_recipe(name).published


def published_figures(entry: Entry, row: str, kind: str) -> dict[str, float | None]:
    """Return the published figure of each column, by the field of the measured score.

    kind: PEARSON, or "" for Spearman's correlation. An average over other sets than those of the
    columns is none of them.
    """
    figures = {}
    names = {column.get("published", "") for column in score_columns(entry)}
    sets = names - {"", AVERAGE}
    is_other = bool(sets) and sets.isdisjoint(recipe_of(row).sets)
    for column in score_columns(entry):
        name = column.get("published", "")
        figures[column["value"]] = None if is_other else published_of(row).get(name + kind)
    return figures


def closing_of_papers(content: Content) -> str:
    """Return what an interval holds, the conditions, and which rows have few seeds."""
    names = names_of(content.entry)
    runs: list[Record] = []
    missing = []
    for name in names:
        of_recipe = runs_of_recipe(content.entry, name, content.records)
        runs += of_recipe
        if recipe_of(name).method and len(of_recipe) < ENOUGH_SEEDS:
            missing.append(label_of(name))
    paragraphs = [about_intervals(content, runs)]
    if runs:
        models = join(run["model"] for run in runs)
        paragraphs.append(f"The model is {models}. {measured_on(runs)}")
    if missing:
        paragraphs.append(f"Rows with fewer than {ENOUGH_SEEDS} seeds so far: {join(missing)}.")
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def about_intervals(content: Content, runs: Sequence[Record]) -> str:
    """Return what the intervals of a table hold. runs: of all of its rows."""
    if content.entry["rows"] in COMPARISONS:
        return OF_DIFFERENCES
    if content.entry["rows"] == "paper copies":
        averages = []
        for run in runs:
            averages += [scores[AVERAGE] for scores in scores_of_record(run).values()]
        widths = [STANDARD_ERRORS * score.error for score in averages if score.error is not None]
        if not widths:
            return ""
        least, most = f"{min(widths):.3f}", f"{max(widths):.3f}"
        return (
            f"Chance in the rows alone moves the average of a copy as well: ± {least} to {most}, "
            "which is half of its 95 % interval. It moves the difference inside a pair less, "
            "because both copies are measured on the same rows."
        )
    # Older records have no errors over the rows.
    if not all("row_errors" in run for run in runs):
        return OF_SEEDS
    sentences = [OF_INTERVALS]
    if "difference" in content.entry.get("copies", []):
        sentences.append(OF_COPIES)
    return " ".join(sentences)


def names_of(entry: Entry) -> list[str]:
    """Return the recipes that a table is about."""
    names: list[str] = entry.get("recipes", [])
    for comparison in entry.get("compared_rows", []):
        names = [*names, comparison["row"], comparison["less"]]
    return list(dict.fromkeys(names))


def copy_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each recipe of contrastive tension: all copies, and the pairs of copies.

    Tables 6 and 7 of [CT]: the worst, the best and the mean average of all copies, and the least,
    the largest and the mean difference of the two copies of a run.
    """
    rows = []
    for name in entry["recipes"]:
        runs = runs_of_recipe(entry, name, records)
        copies = []
        differences = []
        for run in runs:
            averages = [scores[AVERAGE] for scores in run["scores"].values()]
            copies += averages
            differences.append(max(averages) - min(averages))
        values: dict[str, Any] = {"about": recipe_of(name).about}
        for title, numbers in (("copies", copies), ("differences", differences)):
            values[title] = "-"
            if numbers:
                low, mean, high = min(numbers), statistics.fmean(numbers), max(numbers)
                values[title] = f"{low:.3f} / {mean:.3f} / {high:.3f}"
        rows.append(Row(label_of(name), runs, values=values, count=str(len(runs))))
    return rows


# --- hidden states, and cosines by label ----------------------------------------------------------


def state_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each recipe and each pooling of `poolings`.

    Its records have "states": Spearman's correlation of each hidden state, "cosines": the mean
    cosine in each fifth of the labels, and "spread": the last of them less the first. Of
    contrastive tension, they are the means of both copies.
    """
    rows = []
    for name in entry["recipes"]:
        for pooling in entry["poolings"]:
            runs = runs_with_states(entry, name, pooling, records)
            values = {"about": recipe_of(name).about, "pooling": pooling}
            count = str(len(runs)) if runs else "not measured yet"
            rows.append(Row(label_of(name), runs, values=values, count=count))
    return rows


def runs_with_states(
    entry: Entry, name: str, pooling: str, records: Sequence[Record]
) -> list[Record]:
    """Return the runs of a row that have hidden states, with the means of both copies.

    The errors are those of `with_errors`. Both copies are measured on the same rows, so their mean
    has about the mean of their errors.
    """
    runs = []
    for run in runs_of_recipe(entry, name, records):
        if "states" in run:
            copies = list(run["states"].values())
            states = [scores_of_layers(of_copy, pooling) for of_copy in copies]
            cosines = [cosines_by_fifth(of_copy["buckets"]) for of_copy in copies]
            fifths = mean_of_copies(cosines)
            runs.append(with_states(run, mean_of_copies(states), fifths))
    return runs


def scores_of_layers(of_copy: Mapping[str, Any], pooling: str) -> list[Score]:
    """Return the correlation of each hidden state."""
    values = of_copy["layers"][pooling]
    errors = of_copy.get("layer_errors", {}).get(pooling, [None] * len(values))
    num_groups = of_copy.get("groups", 0)
    return [Score(*pair, num_groups) for pair in zip(values, errors, strict=True)]


def with_states(run: Record, states: Sequence[Score], cosines: Sequence[Score]) -> Record:
    """Return a record with "states", "cosines" and "spread", and the errors of these."""
    last, first = cosines[-1], cosines[0]
    spread = Score(last.value - first.value)
    if first.error is not None and last.error is not None:
        # Two fifths share no pair.
        error = math.hypot(first.error, last.error)
        spread = Score(spread.value, error, first.num_groups + last.num_groups)
    scores = {"spread": spread}
    for field, of_field in (("states", states), ("cosines", cosines)):
        scores |= {f"{field}.{place}": score for place, score in enumerate(of_field)}
    return {
        **run,
        "states": [score.value for score in states],
        "cosines": [score.value for score in cosines],
        "spread": spread.value,
        "errors": {path: score.error for path, score in scores.items()},
        "groups": {path: score.num_groups for path, score in scores.items()},
    }


def state_changes(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row as in `state_rows`: what training changes in each hidden state.

    "changes" has a text for each state: the difference of the correlation to the untuned encoder,
    which is the row `less` of the entry, and what the rule says.
    """
    rows = []
    cells: list[list[float]] = []
    for name in entry["recipes"]:
        for pooling in entry["poolings"]:
            runs = runs_with_states(entry, name, pooling, records)
            (untuned,) = runs_with_states(entry, entry["less"], pooling, records)
            for state, before in enumerate(untuned["states"]):
                cells.append([run["states"][state] - before for run in runs])
            values = {"pooling": pooling, "n": len(runs)}
            rows.append(Row(label_of(name), values=values))

    size = len(cells) // len(rows)
    words = judge(cells)
    changed = []
    for place, row in enumerate(rows):
        changes = []
        for number in range(place * size, (place + 1) * size):
            word = f" ({words[number]})" if words[number] else ""
            changes.append(format_difference(cells[number]) + word)
        changed.append(replace(row, values={**row.values, "changes": changes}))
    return changed


def mean_of_copies(copies: Sequence[Sequence[Score]]) -> list[Score]:
    """Return the mean of one or two copies, score by score."""
    return [mean_on_same_rows(scores) for scores in zip(*copies, strict=True)]


def cosines_by_fifth(buckets: Sequence[Mapping[str, Any]]) -> list[Score]:
    """Return the mean cosine of the rows in each fifth of the scale of labels."""
    size = len(buckets) // FIFTHS
    means = []
    for start in range(0, len(buckets), size):
        filled = [bucket for bucket in buckets[start : start + size] if bucket["rows"]]
        weights = [bucket["rows"] for bucket in filled]
        num_rows = sum(weights)
        mean = statistics.fmean([bucket["mean"] for bucket in filled], weights)
        error = None
        if all("deviation" in bucket for bucket in filled):
            squares = [bucket["deviation"] ** 2 + bucket["mean"] ** 2 for bucket in filled]
            variance = max(statistics.fmean(squares, weights) - mean**2, 0.0)
            error = math.sqrt(variance / num_rows)
        means.append(Score(mean, error, num_rows))
    return means


# --- two rows compared ----------------------------------------------------------------------------


def paper_comparisons(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each comparison: the published difference, ours, and their directions.

    Of contrastive tension, the worse copies are compared. An encoder that is measured as it is has
    one value for all seeds.
    """
    compared = entry["compared_rows"]
    cells = []
    for comparison in compared:
        score = comparison.get("score", AVERAGE)
        runs = runs_of_recipe(entry, comparison["row"], records)
        controls = runs_of_recipe(entry, comparison["less"], records)
        if not recipe_of(comparison["less"]).method:
            untuned = controls
            controls = []
            for run in runs:
                controls += [{**control, "seed": run["seed"]} for control in untuned]
        differences = []
        for run, control in pairs_of(runs, controls):
            differences.append(
                scores_of(run, "")[score].value - scores_of(control, "")[score].value
            )
        cells.append(differences)

    rows = []
    for comparison, measured, word in zip(compared, cells, judge(cells), strict=True):
        published = published_difference(comparison)
        values = {
            **comparison,
            "row": label_of(comparison["row"]),
            "less": label_of(comparison["less"]),
            "published": "-" if published is None else f"{published:+.3f}",
            "n": len(measured),
            "measured": format_difference(measured),
            "direction": direction_of(published, measured, word),
        }
        rows.append(Row(comparison["what"], values=values))
    return rows


def direction_of(published: float | None, measured: Sequence[float], word: str) -> str:
    """Return the direction beside the published one; what `judge` says where none is printed."""
    if published is not None:
        return compare(published, measured, word)
    if len(measured) < ENOUGH_SEEDS:
        return TOO_FEW
    return word or NOTHING


def published_difference(comparison: Mapping[str, str]) -> float | None:
    """Return the difference of two published averages; None where none is over the same sets."""
    if recipe_of(comparison["row"]).sets != recipe_of(comparison["less"]).sets:
        return None
    figures = [published_of(comparison[key]).get(AVERAGE) for key in ("row", "less")]
    if comparison.get("score", AVERAGE) != AVERAGE or None in figures:
        return None
    first, second = figures
    assert first is not None and second is not None
    return first - second


PAPER_ROWS: Mapping[str, Callable[[Entry, Sequence[Record]], list[Row]]] = {
    "papers": paper_rows,
    "paper comparisons": paper_comparisons,
    "paper states": state_rows,
    "paper copies": copy_rows,
    "paper changes": state_changes,
}
PAPER_NOTES: Mapping[str, Callable[[Content], str]] = {
    "closing_of_papers": closing_of_papers,
    "directions_of_papers": directions,
}
