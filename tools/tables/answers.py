"""The first table of results, with a row for each question, and what the default job prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from experiments.records import BYTES_PER_GB, Record, group_records
from experiments.tables import format_head, format_row, format_scores
from minbert.training.options import TrainingOptions
from tools.tables.conditions import count, measured_on, not_measured
from tools.tables.generic import (
    goal_of,
    make_table,
    read_entries,
    records_of,
    rows_of,
    three_digits,
)
from tools.tables.preparations import count_faults
from tools.tables.report_rows import TOO_FEW, UNPUBLISHED, count_directions
from tools.tables.row_chance import chance_of
from tools.tables.rows import Row


class Answer(NamedTuple):
    """A row of the first table of results. page: beside docs/results/README.md."""

    question: str
    result: str
    page: str


class MainComparison(NamedTuple):
    """A question, and the comparison of a benchmark that answers it.

    words: that only this comparison of the benchmark has, of those in bf16 or in fp32 alone.
    """

    question: str
    benchmark: str
    words: str


# The best settings of the peers come first, and the plain ones after them.
MAIN_COMPARISONS = (
    MainComparison(
        "How fast is a training step, next to the best setting of a Hugging Face loop?",
        "train_step",
        "fused AdamW",
    ),
    MainComparison(
        "How fast do sentences become vectors, next to the best setting of sentence-transformers?",
        "inference",
        "(everything in bf16)",
    ),
    MainComparison(
        "How fast is a training step, next to a plain Hugging Face loop in fp32?",
        "train_step",
        "plain Hugging Face loop",
    ),
    MainComparison(
        "How fast do sentences become vectors, next to sentence-transformers as it comes, in fp32?",
        "inference",
        "ours (bf16) : sentence_transformers.encode (fp32)",
    ),
    MainComparison(
        "How much memory does training take, next to a plain Hugging Face loop in fp32?",
        "memory",
        "plain Hugging Face loop",
    ),
)


def measured(name: str) -> list[Record]:
    """Return the records of a table."""
    return records_of(read_entries()[name])


def first_model_answers() -> list[Answer]:
    """Return the scores of the first model, encoder by encoder."""
    answers = []
    scores = read_entries()["first-results"]["scores"]
    for model, records in group_records(measured("real-sentences"), "model").items():
        parts = []
        for score in scores:
            values = [record["scores"][score] for record in records]
            chance = chance_of(Row(model, records), f"scores.{score}")
            by_rows = "" if chance is None else f", by rows ± {chance.half_width:.3f}"
            parts.append(f"{score} {format_scores(values)}{by_rows}")
        title = f"How good is {model}, trained by the default job?"
        answers.append(Answer(title, "<br>".join(parts), "first-model.md"))
    return answers


def cost_answers() -> list[Answer]:
    """Return the seconds of the default job, alone on its machine."""
    answers = []
    for record in measured("cost-of-default-job"):
        # The first run has no other program beside it.
        alone = record["runs"][0]
        threads = count(record["machine"]["threads"], "thread")
        cost = f"{alone['seconds']:.0f} seconds on {threads}"
        cost += f", {alone['peak_memory'] / BYTES_PER_GB:.1f} GB"
        title = f"How much does the default job with {record['model']} cost?"
        answers.append(Answer(title, cost, "cost.md"))
    return answers


def speed_answers() -> list[Answer]:
    """Return the main comparisons of the benchmarks, with their goals."""
    comparisons: dict[str, list[Record]] = {}
    for record in measured("speed"):
        comparisons[record["name"]] = record["comparisons"]
    answers = []
    for question, name, words in MAIN_COMPARISONS:
        for item in comparisons.get(name, []):
            if words in item["what"]:
                result = f"{item['ratio']:.2f} times: {three_digits(item['ours'])} for "
                result += f"{three_digits(item['peer'])} {item['unit']}"
                if item["goal"]:
                    result += f" (goal {goal_of(item)})"
                answers.append(Answer(question, result, "speed.md"))
    return answers


def round_trip_answers() -> list[Answer]:
    """Return the largest difference of all models on all ways."""
    models = measured("round-trips")
    if not models:
        return []
    largest = max(max(model["differences"].values()) for model in models)
    result = f"{len(models)} models, the largest difference is {largest:.0e}"
    question = "Can models of other libraries be opened exactly?"
    return [Answer(question, result, "other-libraries.md")]


def kill_answers() -> list[Answer]:
    """Return all killed runs together."""
    records = measured("kill-resume")
    if not records:
        return []
    total = sum(record["n"] for record in records)
    identical = sum(record["identical"] for record in records)
    question = "Does a killed run end in the same bits?"
    return [Answer(question, f"{identical} of {total} runs", "resume.md")]


def damage_answers() -> list[Answer]:
    """Return all bits that were turned over, together."""
    answers = []
    for record in measured("bit-flips"):
        files = record["files"]
        flips = sum(file["flips"] for file in files)
        silent = sum(file["silent"] for file in files)
        result = f"{flips:,} bits turned over in {len(files)} kinds of files, {silent} unnoticed"
        answers.append(Answer("Is a damaged file noticed?", result, "damage.md"))
    return answers


def fault_answers() -> list[Answer]:
    """Return all trials of the newest campaign together."""
    answers = []
    for record in measured("reliability"):
        survived, tried = count_faults(record)
        question = "Does a kill, a full disk or a damaged file cost anything?"
        result = f"{survived:,} of {tried:,} faults survived"
        answers.append(Answer(question, result, "reliability.md"))
    return answers


def comparison_answers() -> list[Answer]:
    """Return a row for each report that was measured: how many differences have its direction."""
    answers = []
    for report in ("rob", "gen"):
        entry = read_entries()[f"{report}-comparisons"]
        rows = rows_of(entry, records_of(entry))
        directions = [row.values["direction"] for row in rows]
        if set(directions) <= {TOO_FEW, UNPUBLISHED}:
            continue
        question = f"Do our measurements agree with the course report {report.upper()}?"
        answers.append(Answer(question, count_directions(directions), f"../papers/{report}.md"))
    return answers


def main_results() -> str:
    """Return a table with a row for each question, and a link to the page that has all numbers."""
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


def default_job() -> str:
    """Return what the default job with the default seed prints at its end: its closing table."""
    # Imported late, because it imports torch.
    from multitask.leaderboard import Chance, closing_table
    from multitask.tasks import TASKS

    records = measured("first-results")
    if not records:
        return not_measured("real-sentences")
    model = records[0]["model"]
    # The README's command has no --seed.
    default_seed = TrainingOptions().seed
    for run in (record["run"] for record in records):
        if run["seed"] == default_seed:
            # Older records have no intervals.
            chance = None
            if "intervals" in run:
                chance = Chance(run["intervals"], run["against_tfidf"])
            table = closing_table(run["scores"], run["baselines"], TASKS, chance=chance)
            return f"```text\n{table}\n```\n\nThe model is {model}. {measured_on([run])}"
    # It is a run of run_multitask.py without --seed.
    return f"{not_measured('real-sentences')}, with a RUN of {model} that has the default seed."


def all_tables() -> Mapping[str, Callable[[], str]]:
    """Return the functions that make the tables of the documents, by name."""
    tables: dict[str, Callable[[], str]] = {}
    for name in read_entries():
        tables[name] = lambda name=name: make_table(name)  # type: ignore[misc]
    return {**tables, "default-job": default_job, "main-results": main_results}
