"""The tables beside other code: speed, memory, models of other libraries, and our readable code."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

from experiments.conditions import join, measured_on, not_measured
from experiments.records import RECORDS, Record, group_by, newest_of, read_records
from experiments.tables import Answer, format_head, format_row, score_cells

BENCHMARKS = RECORDS / "benchmarks.jsonl"
ROUND_TRIPS = RECORDS / "round-trips.jsonl"
READABLE_RUNS = RECORDS / "readable.jsonl"

READABLE_SCORES = ("sst", "para", "sts", "overall_2023")
# What two fine-tunes must share to be compared.
READABLE_SETTINGS = ("model", "train_rows", "epochs", "data")

# A comparison in benchmarks.jsonl that the first table shows, and what it is called there.
MAIN_COMPARISONS = {
    "train_step": "How fast is a training step, next to a plain Hugging Face loop?",
    "inference": "How fast do sentences become vectors, next to sentence-transformers?",
    "memory": "How much memory does training take, next to a plain Hugging Face loop?",
}


# --- speed and memory beside other libraries ------------------------------------------------------


def latest_benchmarks() -> dict[str, Record]:
    """The newest record of each benchmark with its default flags, by name."""
    # A quick try with other flags is on file, and in no table.
    records = [record for record in read_records(BENCHMARKS) if not record["changed_flags"]]
    newest = newest_of(records, lambda record: record["name"])
    return {record["name"]: record for record in newest}


def format_value(value: float) -> str:
    """A measured number with three digits, or all of them before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_goal(relation: str, goal: float, is_met: bool) -> str:
    """A goal, and whether it is met."""
    return f"{relation} {goal:g}: {'met' if is_met else 'not met'}"


def speed() -> str:
    """Our side and the peer, one row per comparison: `python -m tools.benchmarks all`."""
    records = latest_benchmarks()
    if not records:
        return not_measured("benchmarks")
    lines = format_head(["benchmark", "ours : peer", "ours", "peer", "unit", "ratio", "goal"])
    for name, record in records.items():
        for comparison in record["comparisons"]:
            goal = "none"
            if comparison["goal"]:
                relation, number = comparison["goal"]
                goal = format_goal(relation, number, comparison["is_met"])
            sides = [format_value(comparison[side]) for side in ("ours", "peer")]
            cells = [*sides, comparison["unit"], f"{comparison['ratio']:.2f}", goal]
            lines.append(format_row([f"`{name}`", comparison["what"], *cells]))
    return "\n".join([*lines, "", describe_benchmarks(records)])


def benchmark_checks() -> str:
    """Numbers of the benchmarks that have a goal of their own, such as the least cosine."""
    records = latest_benchmarks()
    if not records:
        return not_measured("benchmarks")
    lines = format_head(["benchmark", "number", "value", "goal"])
    for name, record in records.items():
        for check in record["checks"]:
            goal = format_goal(check["relation"], check["goal"], check["is_met"])
            value = f"{check['value']:.5g}"
            lines.append(format_row([f"`{name}`", check["what"], value, goal]))
    return "\n".join([*lines, "", describe_benchmarks(records)])


def describe_benchmarks(records: Mapping[str, Record]) -> str:
    """What the benchmarks were measured on: model, machine, versions, and how quiet it was."""
    newest = list(records.values())
    versions: dict[str, str] = {}
    for record in newest:
        versions |= record["versions"]
    # The version of minBERT is its commit, which is named anyway.
    libraries = [name for name in versions if name not in ("minBERT", "python")]
    models = join(record["model"] for record in newest)
    busiest = max(record["busy_cores"] for record in newest)
    return (
        f"The model is {models}. {measured_on(newest, libraries)} Before each start, at most "
        f"{busiest:.1f} processes wanted to run."
    )


def speed_answers() -> list[Answer]:
    """The first comparison of the main benchmarks."""
    answers = []
    records = latest_benchmarks()
    for name, question in MAIN_COMPARISONS.items():
        if name in records:
            first = records[name]["comparisons"][0]
            result = f"{first['ratio']:.2f} times: {format_value(first['ours'])} for "
            result += f"{format_value(first['peer'])} {first['unit']}"
            answers.append(Answer(question, result, "speed.md"))
    return answers


# --- can models of other libraries be opened exactly? ---------------------------------------------


def round_trips() -> str:
    """The largest difference of each model on the way through each library."""
    records = read_records(ROUND_TRIPS)
    if not records:
        return not_measured("round-trips")
    # One record holds all models, so the newest one is the whole table.
    record = records[-1]
    ways = list(next(iter(record["differences"].values())))
    lines = format_head(["model", "weights", *ways])
    for name, differences in record["differences"].items():
        # A difference of exactly 0 is more than a small one.
        cells = [f"{value:.0e}" if value else "0" for value in differences.values()]
        lines.append(format_row([name, record["weights"][name], *cells]))
    return "\n".join([*lines, "", measured_on([record], list(record["versions"]))])


def round_trip_answers() -> list[Answer]:
    """The largest difference of all models on all ways."""
    records = read_records(ROUND_TRIPS)
    if not records:
        return []
    differences = records[-1]["differences"]
    largest = max(max(ways.values()) for ways in differences.values())
    result = f"{len(differences)} models, the largest difference is {largest:.0e}"
    question = "Can models of other libraries be opened exactly?"
    return [Answer(question, result, "other-libraries.md")]


# --- does the fast code train what the readable code trains? --------------------------------------


def path_of(record: Record) -> tuple[str, str]:
    """Whether a record is of the fast or of the readable code, and with which precision."""
    return record["path"], record["precision"]


def readable() -> str:
    """Dev scores and minutes of the fast and the readable code: tools/benchmarks/readable.py.

    Raises ValueError where the records are of several models, rows or numbers of epochs.
    """
    records = newest_of(
        read_records(READABLE_RUNS), lambda record: (*path_of(record), record["seed"])
    )
    if not records:
        return not_measured("readable")

    # The two sides are compared, so all their fine-tunes must be of one kind.
    for name in READABLE_SETTINGS:
        values = list(dict.fromkeys(record.get(name) for record in records))
        if len(values) > 1:
            raise ValueError(
                f"{READABLE_RUNS} has records with several values of {name}: {values}. Keep those "
                "of one, and measure the others again."
            )

    lines = format_head(["code", "seeds", "SST", "PARA", "STS", "overall 2023", "minutes"])
    for path, group in group_by(records, path_of).items():
        cells = score_cells(group, READABLE_SCORES)
        minutes = statistics.mean(record["seconds"] for record in group) / 60
        lines.append(format_row([", ".join(path), str(len(group)), *cells, f"{minutes:.1f}"]))
    return "\n".join([*lines, "", measured_on(records)])


BENCHMARK_TABLES: dict[str, Callable[[], str]] = {
    "benchmark-checks": benchmark_checks,
    "readable": readable,
    "round-trips": round_trips,
    "speed": speed,
}
