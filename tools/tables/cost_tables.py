"""The tables of cost: the default job, growth with size, and a step beside other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.conditions import count, measured_on, not_measured
from experiments.records import BYTES_PER_GB, RECORDS, Record, newest_of, read_records
from experiments.tables import Answer, format_head, format_row

DEFAULT_JOB = RECORDS / "default-job.jsonl"
SCALING = RECORDS / "scaling.jsonl"
BUSY_MACHINE = RECORDS / "busy-machine.jsonl"


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
    """Seconds and memory of the default job: tools/benchmarks/default_job.py."""
    records = newest_default_jobs()
    if not records:
        return not_measured("default-job")
    return "\n".join([table_of_default_job(records), "", measured_on(records)])


def cost_answers() -> list[Answer]:
    """The seconds of the default job, alone on its machine."""
    answers = []
    for record in newest_default_jobs():
        # The first run has no other program beside it.
        alone = record["runs"][0]
        threads = count(record["machine"]["threads"], "thread")
        cost = f"{alone['seconds']:.0f} seconds on {threads}"
        cost += f", {alone['peak_memory'] / BYTES_PER_GB:.1f} GB"
        title = f"How much does the default job with {record['model']} cost?"
        answers.append(Answer(title, cost, "cost.md"))
    return answers


def scaling_runs() -> str:
    """Seconds and memory of whole runs on more and more rows: tools/benchmarks/scaling.py."""
    records = read_records(SCALING)
    if not records:
        return not_measured("scaling")
    record = records[-1]
    lines = format_head(["training rows", "seconds", "peak memory, MB"])
    for run in record["runs"]:
        memory = f"{run['peak_memory'] / 1e6:,.0f}"
        lines.append(format_row([f"{run['rows']:,.0f}", f"{run['seconds']:.1f}", memory]))
    # An exponent of 1 means that twice the rows take twice the time.
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
        # The exponent is fitted to all sizes. The first and the last one show their range.
        ends = [sizes[0], sizes[-1], times[0], times[-1]]
        lines.append(format_row([series["title"], *ends, f"{series['exponent']:.2f}"]))
    return "\n".join([*lines, "", measured_on([record])])


def table_of_waiting(record: Record) -> str:
    """Milliseconds of a step by how threads wait, and what they are to the fastest one alone."""
    # By state of the machine, and then by how threads wait.
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
    """A step beside other programs: tools/benchmarks/busy_machine.py."""
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
    # Not every system says what other programs use.
    if record["busy_cores"] is not None:
        text += (
            f" While the steps were alone, other programs used {record['busy_cores']:.1f} cores."
        )
    return "\n".join([table_of_waiting(record), "", text, "", measured_on([record])])


COST_TABLES: dict[str, Callable[[], str]] = {
    "busy-machine": busy_machine,
    "cost-of-default-job": cost_of_default_job,
    "scaling-runs": scaling_runs,
    "scaling-steps": scaling_steps,
}
