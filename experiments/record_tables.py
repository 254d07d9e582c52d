"""The tables that are made from records, by name. pages.py puts them into the documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.records import RECORDS, Record, read_records
from experiments.tables import format_head, format_row, format_scores
from minbert.training.options import TrainingOptions

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"
ROUND_TRIPS = RECORDS / "round-trips.jsonl"
FIRST_SCORES = (
    "SST, five classes, accuracy",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
)


def real_sentences() -> str:
    """Scores of the default job on real sentences, by model: benchmarks/real_sentences.py."""
    of_model: dict[str, list[Record]] = {}
    for record in read_records(REAL_SENTENCES):
        of_model.setdefault(record["model"], []).append(record)
    titles = [f"{name}, {count_runs(records)}" for name, records in of_model.items()]
    lines = format_head(["", *titles, "majority"])

    first = next(iter(of_model.values()))[0]
    for score, constant in first["majority"].items():
        cells = [score]
        for records in of_model.values():
            cells.append(format_scores([record["scores"][score] for record in records]))
        lines.append(format_row([*cells, f"{constant:.3f}"]))
    return "\n".join(lines)


def count_runs(records: Sequence[Mapping[str, Any]]) -> str:
    """The number of runs in words, such as "3 seeds"."""
    return "1 seed" if len(records) == 1 else f"{len(records)} seeds"


def first_results() -> str:
    """The four rows of the README, from the same records as `real_sentences`."""
    lines = real_sentences().splitlines()
    chosen = [line for line in lines if line.split(" | ")[0].removeprefix("| ") in FIRST_SCORES]
    return "\n".join([*lines[:2], *chosen])


def default_job() -> str:
    """What the default job with the default seed prints at its end: its closing table."""
    # Imported late, because it imports torch.
    from multitask.leaderboard import closing_table
    from multitask.tasks import TASKS

    runs = [record["run"] for record in read_records(REAL_SENTENCES)]
    run = next(run for run in runs if run["seed"] == TrainingOptions().seed)
    table = closing_table(run["scores"], run["baselines"], TASKS)
    return f"```text\n{table}\n```"


def round_trips() -> str:
    """The largest difference of each model on the way through each library."""
    record = read_records(ROUND_TRIPS)[-1]
    ways = list(next(iter(record["differences"].values())))
    lines = format_head(["model", "weights", *ways])
    for name, differences in record["differences"].items():
        cells = [f"{value:.0e}" if value else "0" for value in differences.values()]
        lines.append(format_row([name, record["weights"][name], *cells]))
    names = ", ".join(f"{library} {number}" for library, number in record["versions"].items())
    return "\n".join([*lines, "", f"Measured on {record['date']} with {names}."])


TABLES: dict[str, Callable[[], str]] = {
    "default-job": default_job,
    "first-results": first_results,
    "real-sentences": real_sentences,
    "round-trips": round_trips,
}
