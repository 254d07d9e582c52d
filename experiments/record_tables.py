"""The tables that are made from records, by name. pages.py puts them into the documents."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.records import RECORDS, read_records
from experiments.tables import format_head, format_row, format_scores

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"


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
    lines.append(cost_row(of_model))
    return "\n".join(lines)


def count_runs(records: Sequence[Mapping[str, Any]]) -> str:
    """The number of runs in words, such as "3 seeds"."""
    return "1 seed" if len(records) == 1 else f"{len(records)} seeds"


def cost_row(of_model: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The row with the mean minutes of the runs."""
    cells = ["minutes"]
    for records in of_model.values():
        cells.append(f"{statistics.mean(record['run']['minutes'] for record in records):.1f}")
    return format_row([*cells, "–"])


TABLES: dict[str, Callable[[], str]] = {"real-sentences": real_sentences}
