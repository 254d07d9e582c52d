"""All tables that are made from records, by name, and the first one: one row per question.

pages.py puts them into the documents. Below every table stands when, with which code and on which
machine its numbers were measured. A table without records says which command measures it.
"""

from __future__ import annotations

from collections.abc import Callable

from experiments.conditions import not_measured
from experiments.tables import format_head, format_row
from tools.tables.benchmark_tables import BENCHMARK_TABLES, round_trip_answers, speed_answers
from tools.tables.cost_tables import COST_TABLES, cost_answers
from tools.tables.first_model_tables import FIRST_MODEL_TABLES, first_model_answers
from tools.tables.reliability_tables import (
    RELIABILITY_TABLES,
    damage_answers,
    fault_answers,
    kill_answers,
)
from tools.tables.report_comparisons import comparison_answers
from tools.tables.sample_tables import SAMPLE_TABLES


def main_results() -> str:
    """One row per question, with a link to the page that has all numbers."""
    answers = [
        *first_model_answers(),
        *cost_answers(),
        *speed_answers(),
        *round_trip_answers(),
        *kill_answers(),
        *damage_answers(),
        *fault_answers(),
        *comparison_answers(),
    ]
    if not answers:
        return not_measured("real-sentences")
    lines = format_head(["question", "result"])
    for question, result, page in answers:
        lines.append(format_row([f"[{question}]({page})", result]))
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    **FIRST_MODEL_TABLES,
    **SAMPLE_TABLES,
    **COST_TABLES,
    **BENCHMARK_TABLES,
    **RELIABILITY_TABLES,
    "main-results": main_results,
}
