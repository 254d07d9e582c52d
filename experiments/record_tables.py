"""The tables that are made from records, by name. pages.py puts them into the documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.records import RECORDS, read_records
from experiments.tables import format_head, format_row, format_scores

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"
DEFAULT_JOB = RECORDS / "default-job.jsonl"
FIRST_SCORES = (
    "SST, five classes, accuracy",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
)


def real_sentences() -> str:
    """Scores of the default job on real sentences, by model: benchmarks/real_sentences.py."""
    records = read_records(REAL_SENTENCES)
    models = list(dict.fromkeys(record["model"] for record in records))
    of_model = {name: [item for item in records if item["model"] == name] for name in models}
    titles = [f"{name}, {count_runs(of_model[name])}" for name in models]
    lines = format_head(["", *titles, "majority"])
    for score, constant in records[0]["majority"].items():
        cells = [score]
        for name in models:
            cells.append(format_scores([item["scores"][score] for item in of_model[name]]))
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
    """What the default job prints at its end: the closing table of its newest record."""
    # Imported late, because it imports torch.
    from multitask.leaderboard import closing_table
    from multitask.tasks import TASKS

    record = read_records(DEFAULT_JOB)[-1]
    table = closing_table(record["scores"], record["baselines"], TASKS)
    return f"```text\n{table}\n```"


TABLES: dict[str, Callable[[], str]] = {
    "default-job": default_job,
    "first-results": first_results,
    "real-sentences": real_sentences,
}
