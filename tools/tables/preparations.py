"""What entries of tables.toml call by name: records, rows and notes that need a computation."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.comparable import (
    check_row,
    compared_options,
    differences_of_pair,
    refuse_pair,
)
from experiments.controls import CONTROLS, check_methods
from experiments.known_data import known_data
from experiments.records import Record, group_by, group_records, newest_of
from experiments.results import describe_code, join
from experiments.tables import COLUMNS, OVERALL
from minbert.options import EncoderOptions
from tools.sample.grades import FIRST, choose_shares
from tools.sample.shares import Shares
from tools.tables.conditions import count, measured_on
from tools.tables.ensembles import ROWS as WAYS_TO_JOIN
from tools.tables.ensembles import check_table, distinct
from tools.tables.paper_rows import PAPER_NOTES, PAPER_ROWS
from tools.tables.report_rows import REPORT_NOTES, REPORT_ROWS
from tools.tables.row_chance import (
    MACRO_F1,
    OF_DIFFERENCES,
    OF_INTERVALS,
    SAME_ROWS,
    Chance,
    chance_in_rows,
    describe,
    half_width,
    note_of,
    of_several_runs,
)
from tools.tables.rows import Content, Entry, Row, by_seed, pair_rows

# --- the default job on real sentences ------------------------------------------------------------

# What a reader must know of a model wherever its score of PARA stands.
TITLES_OF_MODELS = {"minilm": "MiniLM (a sentence model that has seen Quora's duplicates)"}


def with_newest_data(records: Sequence[Record]) -> list[Record]:
    """Return the records of each model whose runs read the same data as the model's last one.

    The bundled sample changes. A model that was not measured with the newest one stands there with
    an older one, which its name says. Each seed counts once. The models stay in the order in which
    they were first measured.
    """
    newest_data = records[-1]["run"]["data"]
    ordered = []
    for model, of_model in group_records(records, "model").items():
        data = of_model[-1]["run"]["data"]
        current = [record for record in of_model if record["run"]["data"] == data]
        known = known_data().get(data)
        older = known.name if known else "other data"
        title = TITLES_OF_MODELS.get(model, model)
        name = title if data == newest_data else f"{title} on {older}"
        for record in newest_of(current, lambda record: record["run"]["seed"]):
            ordered.append({**record, "model": name})
    return ordered


def of_default_model(records: Sequence[Record]) -> list[Record]:
    """Return the newest records of the default model; of another one where it has none yet."""
    of_model = group_records(with_newest_data(records), "model")
    default = EncoderOptions().model
    return of_model.get(default) or next(iter(of_model.values()))


# --- the bundled sample ---------------------------------------------------------------------------


def scores_of_shares(records: Sequence[Record]) -> dict[Shares, list[float]]:
    """Return the scores by which the rule chooses, by pair of shares."""
    scores = {}
    by_shares = group_by(records, lambda record: Shares(record["neutral"], record["strong"]))
    for shares, group in by_shares.items():
        scores[shares] = [record["scores"][MACRO_F1] for record in group]
    return scores


def words_of(shares: Shares) -> str:
    """Return a pair of shares in words."""
    return f"{shares.neutral:.0%} neutral and {shares.strong:.0%} strong"


def choice_of_shares(content: Content) -> str:
    """Return what the rule of grades.py chooses, with the numbers that show how narrow it was."""
    choice = choose_shares(scores_of_shares(content.records))
    sentences = (
        f"Each run was measured on {content.records[0]['products']:,} product sentences.",
        f"The best macro-F1 has {words_of(choice.best)}.",
        f"It is {choice.margin:.4f} above the mean of the first pair, {words_of(FIRST)}.",
        f"The pooled standard deviation is {choice.deviation:.4f}.",
        f"The rule chooses {words_of(choice.chosen)}.",
    )
    return " ".join(sentences)


# --- cost and other code --------------------------------------------------------------------------


def ways_of_waiting(records: Sequence[Record]) -> list[Record]:
    """Return a record for each way in which threads wait, with its milliseconds by state.

    "times" has them as multiples of the fastest step alone.
    """
    ways = []
    for record in records:
        states = record["milliseconds"]
        fastest = min(states["alone"].values())
        for way in states["alone"]:
            of_way = {state: milliseconds[way] for state, milliseconds in states.items()}
            times = {state: value / fastest for state, value in of_way.items()}
            ways.append({**record, "way": way, "milliseconds": of_way, "times": times})
    return ways


def conditions_of_waiting(content: Content) -> str:
    """Return what the states of the machine were."""
    record = content.records[-1]
    text = (
        f"Busy: beside {count(record['busy_programs'], 'program')} that only compute. "
        f"Low priority: beside the same programs, started with `nice -n {record['niceness']}`. "
        f"The columns without ms are multiples of the fastest step alone. The model is "
        f"{record['model']}. Each number is the median of {count(record['rounds'], 'round')}."
    )
    # Not every system says what other programs use.
    if record["busy_cores"] is None:
        return text
    return (
        f"{text} While the steps were alone, other programs used {record['busy_cores']:.1f} cores."
    )


def ways_of_models(records: Sequence[Record]) -> list[Record]:
    """Return a record for each model, with its largest difference on each way."""
    models = []
    for record in records:
        for name, ways in record["differences"].items():
            kind = record["weights"][name]
            models.append({**record, "name": name, "kind": kind, "differences": ways})
    return models


def of_one_kind(records: Sequence[Record]) -> list[Record]:
    """Return fine-tunes of two codes. Raises ValueError where they cannot be compared."""
    for name in ("model", "train_rows", "epochs", "data"):
        values = list(dict.fromkeys(record.get(name) for record in records))
        if len(values) > 1:
            raise ValueError(
                f"the records have several values of {name}: {values}. Keep those of one, and "
                "measure the others again."
            )
    return list(records)


def conditions_of_benchmarks(content: Content) -> str:
    """Return what benchmarks were measured on: model, machine, versions, and how quiet it was."""
    versions: dict[str, str] = {}
    for record in content.records:
        versions |= record["versions"]
    # The version of minBERT is its commit, which is named anyway.
    libraries = [name for name in versions if name not in ("minBERT", "python")]
    models = join(record["model"] for record in content.records)
    busiest = max(record["busy_cores"] for record in content.records)
    return (
        f"The model is {models}. {measured_on(content.records, libraries)} Before each start, at "
        f"most {busiest:.1f} processes wanted to run."
    )


def profiles_with_shapes(records: Sequence[Record]) -> list[Record]:
    """Return profiles in which each side says which shapes it spent its time on.

    Older profiles have not noted them.
    """
    profiles = []
    for record in records:
        sides = [{"shapes": "not noted", **side} for side in record["sides"]]
        profiles.append({**record, "sides": sides})
    return profiles


def benchmarks_by_precision(records: Sequence[Record]) -> list[Record]:
    """Return the benchmarks with --precision: the newest of each processor and precision."""
    with_precision = []
    for record in records:
        flags = record["changed_flags"]
        if flags[:1] == ["--precision"] and flags[1] != "bf16":  # bf16 is that of the main table
            with_precision.append(record)

    def key(record: Record) -> tuple[str, str, str]:
        return record["name"], record["machine"]["processor"], record["changed_flags"][1]

    return newest_of(with_precision, key)


# --- reliability ----------------------------------------------------------------------------------


NO_FAULT = "no kill"  # a kind of rows begins so if the command ended before its signal came


def count_faults(record: Record) -> tuple[int, int]:
    """Return how many faults of a campaign were survived, and how many there were.

    A command that ended before its signal came is no fault that it could survive.
    """
    rows = [row for row in record["rows"] if not row["kind"].startswith(NO_FAULT)]
    return sum(row["survived"] for row in rows), sum(row["tried"] for row in rows)


def trials_of_faults(content: Content) -> str:
    """Return how many faults were survived, and how many of a full campaign were tried."""
    record = content.records[-1]
    parts = []
    for name, goal in record["goals"].items():
        rows = [row for row in record["rows"] if row["part"] == name]
        tried = count_faults({"rows": rows})[1]
        parts.append(f"{name} {tried:,} of {goal:,}")
    survived, tried = count_faults(record)
    num_ended = sum(row["tried"] for row in record["rows"]) - tried
    return (
        f"{survived:,} of {tried:,} faults were survived, in {record['seconds']:,} s. "
        f"{num_ended:,} commands ended before their signal came, and are not counted.\n\n"
        f"Trials of a full campaign that were done: {', '.join(parts)}."
    )


def moments_of_soak(records: Sequence[Record]) -> list[Record]:
    """Return ten samples of a soak: the first, the last and eight between them."""
    moments = []
    for record in records:
        samples = record["samples"]
        for index in sorted({round(part * (len(samples) - 1) / 9) for part in range(10)}):
            seconds, num_bytes, descriptors = samples[index]
            moment = {"seconds": seconds, "rounds": index + 1, "bytes": num_bytes}
            moments.append({**record, **moment, "descriptors": descriptors})
    return moments


# --- methods --------------------------------------------------------------------------------------


def checked_methods(records: Sequence[Record]) -> list[Record]:
    """Return the runs that --record methods has added, recipe by recipe and seed by seed.

    Raises ValueError as `check_methods` does.
    """
    runs: list[Record] = []
    for of_seed in check_methods(records).values():
        runs += of_seed.values()
    return runs


def of_all_tasks(records: Sequence[Record]) -> list[Record]:
    """Return the runs that trained all three tasks. Only they have an overall score."""
    return [record for record in records if OVERALL in record["scores"]]


def method_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each recipe: the controls, each followed by the methods that it is for."""
    of_recipe = group_records(records, "recipe")
    rows = []
    for control in dict.fromkeys(CONTROLS.values()):
        compared = [method for method in CONTROLS if CONTROLS[method] == control]
        for name in [control, *compared]:
            if name in of_recipe:
                rows.append(Row(name, of_recipe[name]))
    return rows


def method_pairs(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each method and its control, as far as both were measured."""
    of_recipe = group_records(records, "recipe")
    rows = []
    for name, control in CONTROLS.items():
        if name in of_recipe and control in of_recipe:
            is_judged = name not in entry["never_worse"]
            row = pair_rows(
                name, of_recipe[name], of_recipe[control], {"control": control}, is_judged
            )
            for run, partner in zip(row.records, row.controls, strict=True):
                check_pair(run, partner)
            rows.append(row)
    return rows


def check_pair(run: Record, control: Record) -> None:
    """Raise ValueError where a record and that of its control differ in more than their recipes.

    All other options and the data must be the same.
    """
    causes = differences_of_pair(run, control)
    if run["data"] != control["data"]:
        causes.append("the data are not the same")
    refuse_pair(run["recipe"], control["recipe"], run["seed"], causes)


def other_code(content: Content) -> str:
    """Return the lines on methods that were not measured with the code of their controls."""
    of_recipe = group_records(content.records, "recipe")
    lines = []
    for row in content.rows:
        runs, controls = of_recipe[row.title], of_recipe[row.values["control"]]
        # An edit that is in no commit changes the digest alone.
        if len({run["code"]["sha256"] for run in (*runs, *controls)}) > 1:
            of_runs = describe_code(run["code"] for run in runs)
            of_controls = describe_code(run["code"] for run in controls)
            lines.append(
                f"The runs of `{row.title}` and of its control were not all made with the same "
                f"code: {of_runs} here, {of_controls} in the control. Run both again before you "
                "rely on their difference."
            )
    return "\n\n".join(lines)


# --- the museum of mistakes -----------------------------------------------------------------------

MUSEUM_ROWS = 570  # dev rows of SST in the bundled sample


def chance_in_museum(content: Content) -> str:
    """Return how far chance in the dev rows moves the accuracies."""
    accuracies = [record["accuracy"] for record in content.records]
    chances = [Chance(half_width("sst", MUSEUM_ROWS, value), MUSEUM_ROWS) for value in accuracies]
    return note_of([describe("the accuracy", chances)])


# --- soups: one run for each task -----------------------------------------------------------------

# What the options of these runs add to those of their task.
ALONE: dict[str, Any] = {
    "model": "minilm",
    "common_layer": "none",
    "encoder_dropout": 0.0,
    "attention_dropout": 0.0,
}
SOUPS: dict[str, dict[str, Any]] = {
    "sst": {"tasks": "sst", "score": "sst", "pair_encoding": "cross", "lr": 1e-4, "soup": 3},
    "para": {
        "tasks": "para",
        "score": "para",
        "pair_encoding": "cross",
        "para_prior": 0.37,
        "epochs": 2,
        "lr": 7e-5,
        "soup": 2,
    },
    "sts": {
        "tasks": "sts",
        "score": "sts",
        "pair_encoding": "bi",
        "head": "cosine",
        "epochs": 5,
        "lr": 1e-4,
        "soup": 2,
    },
}
SOUP = "the soup"


def runs_of_soups(records: Sequence[Record]) -> list[Record]:
    """Return the runs of --soup of each seed that has all three tasks, seed by seed.

    Raises ValueError where the runs of a task have read other data.
    """
    of_task = {}
    for task, options in SOUPS.items():
        runs = by_seed([run for run in records if compared_options(run) == ALONE | options])
        check_row(f"the soups of {task}", runs)
        of_task[task] = {run["seed"]: run for run in runs}
    complete = []
    for seed in of_task["sst"]:
        if all(seed in runs for runs in of_task.values()):
            complete += [runs[seed] for runs in of_task.values()]
    return complete


def ingredient_scores(run: Record) -> list[float]:
    """Return the dev score of each ingredient of a run that trains one task."""
    task = run["options"]["tasks"]
    return [ingredient["scores"][task] for ingredient in run["soup"]["ingredients"]]


SCORES_OF_SOUPS: dict[str, Callable[[Record], float]] = {
    "one training (ingredient 1)": lambda run: ingredient_scores(run)[0],
    "mean over the ingredients": lambda run: statistics.mean(ingredient_scores(run)),
    "best ingredient, chosen on dev": lambda run: max(ingredient_scores(run)),
    SOUP: lambda run: run["scores"][run["options"]["tasks"]],
}


def soup_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each model: its scores are those of the three tasks, and their overall."""
    # Imported late, because it imports torch.
    from multitask.tasks import with_overall

    rows = []
    for title, score_of in SCORES_OF_SOUPS.items():
        of_seeds = []
        for seed, runs in group_records(records, "seed").items():
            scores = with_overall({run["options"]["tasks"]: score_of(run) for run in runs})
            of_seeds.append({"seed": seed, **of_several_runs(scores, runs)})
        rows.append(Row(title, of_seeds))
    return rows


def soup_pairs(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each other model: the soup less that model."""
    *others, soup = soup_rows(entry, records)
    return [pair_rows(other.title, soup.records, other.records) for other in others]


def conditions_of_soups(content: Content) -> str:
    """Return how many ingredients soups have, and how the runs were measured."""
    titles = {column.score: column.title for column in COLUMNS}
    sizes = join(f"{options['soup']} for {titles[task]}" for task, options in SOUPS.items())
    minutes = sum(run["minutes"] for run in content.records)
    minutes /= len({run["seed"] for run in content.records})
    return (
        f"{seeds_of(content.records)} Ingredients: {sizes}. {measured_on(content.records)} The "
        f"three runs of a seed took {minutes:.0f} minutes together."
    )


# --- ensembles ------------------------------------------------------------------------------------


def ensemble_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each way in which the runs of ensembles are joined."""
    rows = []
    for title, group in group_records(records, "title").items():
        for way in WAYS_TO_JOIN:
            joined = []
            for record in group:
                joined.append(of_several_runs(record["scores"][way], record["runs"]))
            rows.append(Row(title, joined, values={"way": way}))
    return rows


def checked_ensembles(records: Sequence[Record]) -> list[Record]:
    """Return each ensemble once. Raises ValueError as `check_table` does."""
    ensembles = distinct(records)
    check_table(ensembles)
    return ensembles


def conditions_of_ensembles(content: Content) -> str:
    """Return when and where the runs of ensembles were measured."""
    runs = []
    for record in content.records:
        runs += [{**run, "date": record["date"]} for run in record["runs"]]
    return measured_on(runs)


def goal_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each of `goals`: what, its goal, and what the newest record says of it.

    `where` of a goal has values that its record must have, and `measured` is a template. Raises
    ValueError where no record fits.
    """
    rows = []
    for goal in entry["goals"]:
        fitting = [record for record in records if record.items() >= goal["where"].items()]
        if not fitting:
            raise ValueError(
                f"No record has {goal['where']}, which the goal {goal['what']!r} asks for."
            )
        values = {"goal": goal["goal"], "measured": goal["measured"].format_map(fitting[-1])}
        rows.append(Row(goal["what"], [fitting[-1]], values=values))
    return rows


# --- below many tables ----------------------------------------------------------------------------


def seeds_of(records: Sequence[Record]) -> str:
    """Return a sentence with the seeds of records."""
    seeds = sorted({record["seed"] for record in records})
    return f"Seeds: {join(map(str, seeds))}."


def conditions(content: Content) -> str:
    """Return when, where and with which code the runs of all rows were measured."""
    return measured_on(content.runs, content.entry.get("libraries", ["torch"]))


# --- the names ------------------------------------------------------------------------------------

PREPARATIONS: Mapping[str, Callable[[Sequence[Record]], list[Record]]] = {
    "newest data": with_newest_data,
    "default model": of_default_model,
    "ways of waiting": ways_of_waiting,
    "ways of models": ways_of_models,
    "one kind": of_one_kind,
    "moments": moments_of_soak,
    "methods": checked_methods,
    "all tasks": of_all_tasks,
    "soups": runs_of_soups,
    "ensembles": checked_ensembles,
    "profiles": profiles_with_shapes,
    "benchmarks by precision": benchmarks_by_precision,
}
ROWS: Mapping[str, Callable[[Entry, Sequence[Record]], list[Row]]] = {
    "methods": method_rows,
    "method pairs": method_pairs,
    "soups": soup_rows,
    "soup pairs": soup_pairs,
    "ensembles": ensemble_rows,
    "goals": goal_rows,
    **REPORT_ROWS,
    **PAPER_ROWS,
}
NOTES: Mapping[str, Callable[[Content], str]] = {
    "measured": conditions,
    "rows": chance_in_rows,
    "differences": lambda content: OF_DIFFERENCES,
    "same_rows": lambda content: SAME_ROWS,
    "rows_and_seeds": lambda content: OF_INTERVALS,
    "rows_of_museum": chance_in_museum,
    "seeds": lambda content: seeds_of(content.runs),
    "choice_of_shares": choice_of_shares,
    "conditions_of_waiting": conditions_of_waiting,
    "conditions_of_benchmarks": conditions_of_benchmarks,
    "trials": trials_of_faults,
    "flat": lambda content: content.records[-1]["problem"] or "Memory and open files are flat.",
    "other_code": other_code,
    "conditions_of_soups": conditions_of_soups,
    "conditions_of_ensembles": conditions_of_ensembles,
    **REPORT_NOTES,
    **PAPER_NOTES,
}
