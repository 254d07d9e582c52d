"""The tables that are made from records, by name. pages.py puts them into the documents.

Below every table stands when, with which code and on which machine its numbers were measured. A
table without records says which command measures it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from data.building.shares import Shares
from experiments.comparable import check_row
from experiments.conditions import count, join, measured_on, not_measured
from experiments.grades import FIRST, choose_shares
from experiments.records import (
    BYTES_PER_GB,
    RECORDS,
    Record,
    group_records,
    newest_of,
    read_records,
)
from experiments.tables import format_head, format_row, format_scores, score_cells
from minbert.options import EncoderOptions
from minbert.training.options import TrainingOptions

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"
ROUND_TRIPS = RECORDS / "round-trips.jsonl"
BENCHMARKS = RECORDS / "benchmarks.jsonl"
KILL_RESUME = RECORDS / "kill-resume.jsonl"
RELIABILITY = RECORDS / "reliability.jsonl"
SCALING = RECORDS / "scaling.jsonl"
BIT_FLIPS = RECORDS / "bit-flips.jsonl"
SAMPLE_GRADES = RECORDS / "sample-grades.jsonl"
SAMPLE_PARTS = RECORDS / "sample-parts.jsonl"
SAMPLE_SHARES = RECORDS / "sample-shares.jsonl"
READABLE_RUNS = RECORDS / "readable.jsonl"
BUSY_MACHINE = RECORDS / "busy-machine.jsonl"
DEFAULT_JOB = RECORDS / "default-job.jsonl"

FIRST_SCORES = (
    "SST, five classes, accuracy",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
)
# A comparison in benchmarks.jsonl that the first table shows, and what it is called there.
MAIN_COMPARISONS = {
    "train_step": "How fast is a training step, next to a plain Hugging Face loop?",
    "inference": "How fast do sentences become vectors, next to sentence-transformers?",
    "memory": "How much memory does training take, next to a plain Hugging Face loop?",
}


# --- how good is the first model? -----------------------------------------------------------------


def with_newest_data(records: Sequence[Record]) -> list[Record]:
    """The records whose runs read the same data as the last one.

    The bundled sample changes. Scores of an older sample stay on file, and in no table.
    """
    if not records:
        return []
    newest = records[-1]["run"]["data"]
    return [record for record in records if record["run"]["data"] == newest]


def runs_on_real_sentences() -> dict[str, list[Record]]:
    """The records of the default job on real sentences, by model: those of the newest data.

    Each seed counts once. Raises ValueError where the runs of a model have different options.
    """
    records = read_records(REAL_SENTENCES)
    newest = newest_of(with_newest_data(records), lambda record: (record["model"], seed_of(record)))
    of_model = group_records(newest, "model")
    for model, group in of_model.items():
        check_row(model, [record["run"] for record in group])
    # The columns stay in the order in which the models were first measured.
    names = group_records(records, "model")
    return {model: of_model[model] for model in names if model in of_model}


def seed_of(record: Record) -> int:
    """The seed of the run that a record measures."""
    return record["run"]["seed"]


def runs_of(records: Iterable[Record]) -> list[Record]:
    """The runs that records measure."""
    return [record["run"] for record in records]


def default_runs(of_model: Mapping[str, list[Record]]) -> tuple[str, list[Record]]:
    """The default model and its records; another model where it has none yet."""
    default = EncoderOptions().model
    model = default if default in of_model else next(iter(of_model))
    return model, of_model[model]


def score_lines(
    of_title: Mapping[str, list[Record]], scores: Sequence[str] | None = None
) -> list[str]:
    """The lines of a table of scores, without what stands below them.

    of_title: the records of each column. scores: of the rows, or None for all of them.
    """
    titles = [f"{name}, {count(len(records), 'seed')}" for name, records in of_title.items()]
    lines = format_head(["", *titles, "majority"])

    majority = next(iter(of_title.values()))[0]["majority"]
    for score in majority if scores is None else scores:
        cells = [score]
        for records in of_title.values():
            cells.append(format_scores([record["scores"][score] for record in records]))
        lines.append(format_row([*cells, f"{majority[score]:.3f}"]))
    return lines


def real_sentences() -> str:
    """Scores of the default job on real sentences, by model: benchmarks/real_sentences.py."""
    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    runs = []
    for records in of_model.values():
        runs += runs_of(records)
    return "\n".join([*score_lines(of_model), "", measured_on(runs)])


def first_results() -> str:
    """The four rows of the README: those of the default model in `real_sentences`."""
    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    model, records = default_runs(of_model)
    lines = score_lines({model: records}, FIRST_SCORES)
    return "\n".join([*lines, "", measured_on(runs_of(records))])


def default_job() -> str:
    """What the default job with the default seed prints at its end: its closing table."""
    # Imported late, because it imports torch.
    from multitask.leaderboard import closing_table
    from multitask.tasks import TASKS

    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    model, records = default_runs(of_model)
    default_seed = TrainingOptions().seed
    for run in runs_of(records):
        if run["seed"] == default_seed:
            table = closing_table(run["scores"], run["baselines"], TASKS)
            return f"```text\n{table}\n```\n\nThe model is {model}. {measured_on([run])}"
    # It is a run of run_multitask.py without --seed.
    return f"{not_measured('real-sentences')}, with a RUN of {model} that has the default seed."


PART_SCORES = (
    "SST, five classes, accuracy",
    "SST, macro-F1",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
    "100 sentences, polarity",
)


def table_of_parts(records: Sequence[Record]) -> str:
    """Scores without each part of the sample, in the order of the records."""
    lines = format_head(["left out", "seeds", *PART_SCORES])
    for name, runs in group_records(records, "left_out").items():
        cells = score_cells([run["scores"] for run in runs], PART_SCORES)
        title = "nothing" if name == "all rows" else name
        lines.append(format_row([title, str(len(runs)), *cells]))
    return "\n".join(lines)


def sample_parts() -> str:
    """What each part of the bundled sample contributes: benchmarks/sample_parts.py."""
    records = newest_of(
        read_records(SAMPLE_PARTS), lambda record: (record["left_out"], seed_of(record))
    )
    if not records:
        return not_measured("sample-parts")
    for name, group in group_records(records, "left_out").items():
        check_row(name, runs_of(group))
    return "\n".join([table_of_parts(records), "", measured_on(runs_of(records))])


GRADE_SCORES = ("SST, macro-F1", "SST, five classes, accuracy", "SST, recall of class 2")


def shares_of(record: Record) -> Shares:
    """The pair of shares of a record."""
    return Shares(record["neutral"], record["strong"])


def scores_of_shares(records: Sequence[Record]) -> dict[Shares, list[float]]:
    """The scores by which the rule chooses, by pair of shares."""
    scores: dict[Shares, list[float]] = {}
    for record in records:
        scores.setdefault(shares_of(record), []).append(record["scores"][GRADE_SCORES[0]])
    return scores


def words_of(shares: Shares) -> str:
    """A pair of shares in words."""
    return f"{shares.neutral:.0%} neutral and {shares.strong:.0%} strong"


def table_of_grades(records: Sequence[Record]) -> str:
    """Scores of each pair of shares, in the order of the records, and what the rule chooses."""
    runs_of: dict[Shares, list[Record]] = {}
    for record in records:
        runs_of.setdefault(shares_of(record), []).append(record)
    lines = format_head(["neutral", "strong", "seeds", *GRADE_SCORES])
    for shares, runs in runs_of.items():
        cells = score_cells([run["scores"] for run in runs], GRADE_SCORES)
        first = [f"{shares.neutral:.0%}", f"{shares.strong:.0%}", str(len(runs))]
        lines.append(format_row([*first, *cells]))

    choice = choose_shares(scores_of_shares(records))
    sentences = (
        f"Each run was measured on {records[0]['products']:,} product sentences.",
        f"The best macro-F1 has {words_of(choice.best)}.",
        f"It is {choice.margin:.4f} above the mean of the first pair, {words_of(FIRST)}.",
        f"The pooled standard deviation is {choice.deviation:.4f}.",
        f"The rule chooses {words_of(choice.chosen)}.",
    )
    return "\n".join([*lines, "", " ".join(sentences)])


def sample_grades() -> str:
    """The shares of neutral and strong film sentences: benchmarks/sample_grades.py."""
    records = newest_of(
        read_records(SAMPLE_GRADES), lambda record: (shares_of(record), seed_of(record))
    )
    if not records:
        return not_measured("sample-grades")
    return "\n".join([table_of_grades(records), "", measured_on(runs_of(records))])


def sample_shares() -> str:
    """The default job with two pairs of shares, on the same real sentences."""
    records = newest_of(
        read_records(SAMPLE_SHARES), lambda record: (record["label"], seed_of(record))
    )
    if not records:
        return not_measured("sample-shares")
    of_label = group_records(records, "label")
    for label, group in of_label.items():
        check_row(label, runs_of(group))
    return "\n".join([*score_lines(of_label), "", measured_on(runs_of(records))])


# --- what does a run cost? ------------------------------------------------------------------------


def table_of_default_job(records: Sequence[Record]) -> str:
    """Seconds and memory of the default job, one row for each run of each record."""
    lines = format_head(["model", "beside", "seconds", "peak memory, GB"])
    for record in records:
        for run in record["runs"]:
            others = run["busy_programs"]
            beside = count(others, "busy program") if others else "nothing"
            cells = [f"{run['seconds']:.0f}", f"{run['peak_memory'] / BYTES_PER_GB:.2f}"]
            lines.append(format_row([record["model"], beside, *cells]))
    return "\n".join(lines)


def newest_default_jobs() -> list[Record]:
    """The newest record of the default job's cost for each model."""
    return newest_of(read_records(DEFAULT_JOB), lambda record: record["model"])


def cost_of_default_job() -> str:
    """Seconds and memory of the default job: benchmarks/default_job.py."""
    records = newest_default_jobs()
    if not records:
        return not_measured("default-job")
    return "\n".join([table_of_default_job(records), "", measured_on(records)])


def scaling_runs() -> str:
    """Seconds and memory of whole runs on more and more rows: benchmarks/scaling.py."""
    records = read_records(SCALING)
    if not records:
        return not_measured("scaling")
    record = records[-1]
    lines = format_head(["training rows", "seconds", "peak memory, MB"])
    for run in record["runs"]:
        memory = f"{run['peak_memory'] / 1e6:,.0f}"
        lines.append(format_row([f"{run['rows']:,.0f}", f"{run['seconds']:.1f}", memory]))
    rows, rows_without_start = record["exponents"]
    lines += [
        "",
        f"The exponent of the rows is {rows:.2f}, and {rows_without_start:.2f} without the cost at "
        f"size 0. No run is farther than {record['off_a_line']:.1%} from a straight line. The "
        f"memory is within {record['off_the_middle']:.1%} of its middle.",
    ]
    return "\n".join([*lines, "", measured_on([record])])


def scaling_steps() -> str:
    """The exponents of a step's time in length, batch, parameters and tasks."""
    records = read_records(SCALING)
    if not records:
        return not_measured("scaling")
    record = records[-1]
    lines = format_head(["size that grows", "from", "to", "ms at first", "ms at last", "exponent"])
    for name in ("length", "batch", "parameters", "tasks"):
        series = record[name]
        sizes = [f"{size:,}" for size in series["sizes"]]
        times = [f"{1e3 * seconds:,.0f}" for seconds in series["seconds"]]
        ends = [sizes[0], sizes[-1], times[0], times[-1]]
        lines.append(format_row([series["title"], *ends, f"{series['exponent']:.2f}"]))
    return "\n".join([*lines, "", measured_on([record])])


def table_of_waiting(record: Record) -> str:
    """Milliseconds of a step by how threads wait, and what they are to the fastest one alone."""
    states = record["milliseconds"]
    fastest = min(states["alone"].values())
    titles = ["how threads wait", *(f"ms, {state}" for state in states), *states]
    lines = format_head(titles)
    for way in states["alone"]:
        milliseconds = [of_way[way] for of_way in states.values()]
        cells = [f"{value:.0f}" for value in milliseconds]
        cells += [f"{value / fastest:.2f}" for value in milliseconds]
        lines.append(format_row([way, *cells]))
    return "\n".join(lines)


def busy_machine() -> str:
    """A step beside other programs: benchmarks/busy_machine.py."""
    records = read_records(BUSY_MACHINE)
    if not records:
        return not_measured("busy-machine")
    record = records[-1]
    text = (
        f"Busy: beside {count(record['busy_programs'], 'program')} that only compute. "
        f"Low priority: beside the same programs, started with `nice -n {record['niceness']}`. "
        f"The columns without ms are multiples of the fastest step alone. The model is "
        f"{record['model']}. Each number is the median of {count(record['rounds'], 'round')}."
    )
    if record["busy_cores"] is not None:
        text += (
            f" While the steps were alone, other programs used {record['busy_cores']:.1f} cores."
        )
    return "\n".join([table_of_waiting(record), "", text, "", measured_on([record])])


# --- speed and memory beside other libraries ------------------------------------------------------


def latest_benchmarks() -> dict[str, Record]:
    """The newest record of each benchmark with its default flags, by name."""
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
    """Our side and the peer, one row per comparison: `python -m benchmarks all`."""
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


# --- can models of other libraries be opened exactly? ---------------------------------------------


def round_trips() -> str:
    """The largest difference of each model on the way through each library."""
    records = read_records(ROUND_TRIPS)
    if not records:
        return not_measured("round-trips")
    record = records[-1]
    ways = list(next(iter(record["differences"].values())))
    lines = format_head(["model", "weights", *ways])
    for name, differences in record["differences"].items():
        cells = [f"{value:.0e}" if value else "0" for value in differences.values()]
        lines.append(format_row([name, record["weights"][name], *cells]))
    return "\n".join([*lines, "", measured_on([record], list(record["versions"]))])


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


# --- is a damaged file noticed before it is used? -------------------------------------------------


def bit_flips() -> str:
    """What became of single bits that were turned over in each kind of file."""
    records = read_records(BIT_FLIPS)
    if not records:
        return not_measured("bit-flips")
    newest = records[-1]
    lines = format_head(["file", "flips", "noticed", "without effect", "silent"])
    for file in newest["files"]:
        counts = [str(file[key]) for key in ("flips", "noticed", "without_effect", "silent")]
        lines.append(format_row([file["file"], *counts]))
    return "\n".join([*lines, "", measured_on([newest])])


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
    """The newest campaign of faults: benchmarks/reliability."""
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
    chosen = sorted({round(part * (len(samples) - 1) / 9) for part in range(10)})
    for index in chosen:
        seconds, num_bytes, descriptors = samples[index]
        cells = [f"{seconds / 60:.1f}", str(index + 1), f"{num_bytes / 1e6:,.0f}"]
        lines.append(format_row([*cells, str(descriptors)]))
    problem = record["problem"] or "Memory and open files are flat."
    return "\n".join([*lines, "", problem, "", measured_on([record])])


# --- does the fast code train what the readable code trains? --------------------------------------


def readable() -> str:
    """Dev scores and minutes of the fast and the readable code: benchmarks/readable.py."""
    records = newest_of(
        read_records(READABLE_RUNS),
        lambda record: (record["path"], record["precision"], record["seed"]),
    )
    if not records:
        return not_measured("readable")
    of_path: dict[str, list[Record]] = {}
    for record in records:
        of_path.setdefault(f"{record['path']}, {record['precision']}", []).append(record)
    scores = ("sst", "para", "sts", "overall_2023")
    lines = format_head(["code", "seeds", "SST", "PARA", "STS", "overall 2023", "minutes"])
    for path, runs in of_path.items():
        cells = score_cells(runs, scores)
        minutes = statistics.mean(run["seconds"] for run in runs) / 60
        lines.append(format_row([path, str(len(runs)), *cells, f"{minutes:.1f}"]))
    return "\n".join([*lines, "", measured_on(records)])


# --- the main results -----------------------------------------------------------------------------


class Answer(NamedTuple):
    """A row of the first table of results. page: beside docs/results/README.md."""

    question: str
    result: str
    page: str


def first_model_answers() -> list[Answer]:
    """The scores of the first model, encoder by encoder."""
    answers = []
    for model, records in runs_on_real_sentences().items():
        parts = []
        cells = score_cells([run["scores"] for run in records], FIRST_SCORES)
        for score, cell in zip(FIRST_SCORES, cells, strict=True):
            parts.append(f"{score} {cell}")
        title = f"How good is {model}, trained by the default job?"
        answers.append(Answer(title, "<br>".join(parts), "first-model.md"))
    return answers


def cost_answers() -> list[Answer]:
    """The seconds of the default job, alone on its machine."""
    answers = []
    for record in newest_default_jobs():
        alone = record["runs"][0]
        threads = count(record["machine"]["threads"], "thread")
        cost = f"{alone['seconds']:.0f} seconds on {threads}"
        cost += f", {alone['peak_memory'] / BYTES_PER_GB:.1f} GB"
        title = f"How much does the default job with {record['model']} cost?"
        answers.append(Answer(title, cost, "cost.md"))
    return answers


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


def kill_answers() -> list[Answer]:
    """All killed runs together."""
    records = read_records(KILL_RESUME)
    if not records:
        return []
    total = sum(record["n"] for record in records)
    identical = sum(record["identical"] for record in records)
    question = "Does a killed run end in the same bits?"
    return [Answer(question, f"{identical} of {total} runs", "resume.md")]


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


def fault_answers() -> list[Answer]:
    """All trials of the newest campaign together."""
    record = latest_of("faults")
    if record is None:
        return []
    tried = sum(row["tried"] for row in record["rows"])
    survived = sum(row["survived"] for row in record["rows"])
    question = "Does a kill, a full disk or a damaged file cost anything?"
    return [Answer(question, f"{survived:,} of {tried:,} trials survived", "reliability.md")]


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
    ]
    if not answers:
        return not_measured("real-sentences")
    lines = format_head(["question", "result"])
    for question, result, page in answers:
        lines.append(format_row([f"[{question}]({page})", result]))
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "bit-flips": bit_flips,
    "benchmark-checks": benchmark_checks,
    "busy-machine": busy_machine,
    "cost-of-default-job": cost_of_default_job,
    "default-job": default_job,
    "first-results": first_results,
    "kill-resume": kill_resume,
    "main-results": main_results,
    "readable": readable,
    "real-sentences": real_sentences,
    "reliability": reliability,
    "round-trips": round_trips,
    "sample-grades": sample_grades,
    "sample-parts": sample_parts,
    "sample-shares": sample_shares,
    "scaling-runs": scaling_runs,
    "scaling-steps": scaling_steps,
    "soak": soak,
    "speed": speed,
}
