"""The tables of reliability: killed runs, damaged files, and what other faults cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.conditions import measured_on, not_measured
from experiments.records import RECORDS, Record, read_records
from experiments.tables import Answer, format_head, format_row

KILL_RESUME = RECORDS / "kill-resume.jsonl"
BIT_FLIPS = RECORDS / "bit-flips.jsonl"
RELIABILITY = RECORDS / "reliability.jsonl"


# --- does a killed run end in the same bits? ------------------------------------------------------


def kill_resume() -> str:
    """How many killed and resumed runs ended in the same bits, by what they trained."""
    records = read_records(KILL_RESUME)
    if not records:
        return not_measured("kill-resume")
    titles = ["stages before the tasks", "runs", "killed before their end", "with the same bits"]
    lines = format_head(titles)
    for record in records:
        counts = [str(record[key]) for key in ("n", "killed", "identical")]
        lines.append(format_row([f"`{record['stages']}`", *counts]))
    return "\n".join([*lines, "", measured_on(records)])


def kill_answers() -> list[Answer]:
    """All killed runs together."""
    records = read_records(KILL_RESUME)
    if not records:
        return []
    total = sum(record["n"] for record in records)
    identical = sum(record["identical"] for record in records)
    question = "Does a killed run end in the same bits?"
    return [Answer(question, f"{identical} of {total} runs", "resume.md")]


# --- is a damaged file noticed before it is used? -------------------------------------------------


def bit_flips() -> str:
    """What became of single bits that were turned over in each kind of file."""
    records = read_records(BIT_FLIPS)
    if not records:
        return not_measured("bit-flips")
    # One record holds all kinds of files, so the newest one is the whole table.
    newest = records[-1]
    lines = format_head(["file", "flips", "noticed", "without effect", "silent"])
    for file in newest["files"]:
        counts = [str(file[key]) for key in ("flips", "noticed", "without_effect", "silent")]
        lines.append(format_row([file["file"], *counts]))
    return "\n".join([*lines, "", measured_on([newest])])


def damage_answers() -> list[Answer]:
    """All flips of the newest record together."""
    records = read_records(BIT_FLIPS)
    if not records:
        return []
    files = records[-1]["files"]
    flips = sum(file["flips"] for file in files)
    silent = sum(file["silent"] for file in files)
    result = f"{flips:,} bits turned over in {len(files)} kinds of files, {silent} unnoticed"
    return [Answer("Is a damaged file noticed?", result, "damage.md")]


# --- what does a fault cost? ----------------------------------------------------------------------


def latest_of(name: str) -> Record | None:
    """The newest record of the campaign or of the soak, by its name."""
    records = [record for record in read_records(RELIABILITY) if record["name"] == name]
    return records[-1] if records else None


def table_of_faults(record: Mapping[str, Any]) -> str:
    """How many trials of each kind were tried and survived, beside what a full campaign tries."""
    lines = format_head(["part", "fault", "tried", "survived"])
    for row in record["rows"]:
        counts = [f"{row[key]:,}" for key in ("tried", "survived")]
        lines.append(format_row([row["part"], row["kind"], *counts]))
    parts = []
    for name, goal in record["goals"].items():
        rows = [row for row in record["rows"] if row["part"] == name]
        # A command that ends before its signal is no kill.
        tried = sum(row["tried"] for row in rows if not row["kind"].startswith("no kill"))
        parts.append(f"{name} {tried:,} of {goal:,}")
    tried = sum(row["tried"] for row in record["rows"])
    survived = sum(row["survived"] for row in record["rows"])
    lines += ["", f"{survived:,} of {tried:,} trials were survived, in {record['seconds']:,} s."]
    lines += ["", f"Trials of a full campaign that were done: {', '.join(parts)}."]
    return "\n".join(lines)


def reliability() -> str:
    """The newest campaign of faults: tools/reliability."""
    record = latest_of("faults")
    if record is None:
        return not_measured("reliability")
    return "\n".join([table_of_faults(record), "", measured_on([record])])


def soak() -> str:
    """Memory and open files of the newest soak, at ten moments."""
    record = latest_of("soak")
    if record is None:
        return not_measured("reliability", "--parts soak")
    samples = record["samples"]
    lines = format_head(["minutes", "rounds", "resident memory, MB", "open files"])
    # A soak takes many samples. The first, the last and eight between them are shown.
    chosen = sorted({round(part * (len(samples) - 1) / 9) for part in range(10)})
    for index in chosen:
        seconds, num_bytes, descriptors = samples[index]
        cells = [f"{seconds / 60:.1f}", str(index + 1), f"{num_bytes / 1e6:,.0f}"]
        lines.append(format_row([*cells, str(descriptors)]))
    problem = record["problem"] or "Memory and open files are flat."
    return "\n".join([*lines, "", problem, "", measured_on([record])])


def fault_answers() -> list[Answer]:
    """All trials of the newest campaign together."""
    record = latest_of("faults")
    if record is None:
        return []
    tried = sum(row["tried"] for row in record["rows"])
    survived = sum(row["survived"] for row in record["rows"])
    question = "Does a kill, a full disk or a damaged file cost anything?"
    return [Answer(question, f"{survived:,} of {tried:,} trials survived", "reliability.md")]


RELIABILITY_TABLES: dict[str, Callable[[], str]] = {
    "bit-flips": bit_flips,
    "kill-resume": kill_resume,
    "reliability": reliability,
    "soak": soak,
}
