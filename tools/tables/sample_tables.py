"""The tables behind the choices of the bundled sample: its parts, and the shares of its grades."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.comparable import check_row
from experiments.conditions import measured_on, not_measured
from experiments.records import RECORDS, Record, group_by, group_records, newest_of, read_records
from experiments.tables import format_head, format_row, score_cells
from tools.sample.grades import FIRST, choose_shares
from tools.sample.shares import Shares
from tools.tables.first_model_tables import runs_of, score_lines, seed_of

SAMPLE_PARTS = RECORDS / "sample-parts.jsonl"
SAMPLE_GRADES = RECORDS / "sample-grades.jsonl"
SAMPLE_SHARES = RECORDS / "sample-shares.jsonl"

PART_SCORES = (
    "SST, five classes, accuracy",
    "SST, macro-F1",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
    "100 sentences, polarity",
)

# The rule chooses by the first one.
GRADE_SCORES = ("SST, macro-F1", "SST, five classes, accuracy", "SST, recall of class 2")


def table_of_parts(records: Sequence[Record]) -> str:
    """Scores without each part of the sample, in the order of the records."""
    lines = format_head(["left out", "seeds", *PART_SCORES])
    for name, group in group_records(records, "left_out").items():
        cells = score_cells([record["scores"] for record in group], PART_SCORES)
        title = "nothing" if name == "all rows" else name
        lines.append(format_row([title, str(len(group)), *cells]))
    return "\n".join(lines)


def sample_parts() -> str:
    """What each part of the bundled sample contributes: tools/sample/sample_parts.py."""
    # Each part is trained with several seeds. A seed that was trained again counts once.
    records = newest_of(
        read_records(SAMPLE_PARTS), lambda record: (record["left_out"], seed_of(record))
    )
    if not records:
        return not_measured("sample-parts")
    for name, group in group_records(records, "left_out").items():
        check_row(name, runs_of(group))
    return "\n".join([table_of_parts(records), "", measured_on(runs_of(records))])


def shares_of(record: Record) -> Shares:
    """The pair of shares of a record."""
    return Shares(record["neutral"], record["strong"])


def scores_of_shares(records: Sequence[Record]) -> dict[Shares, list[float]]:
    """The scores by which the rule chooses, by pair of shares."""
    scores = {}
    for shares, group in group_by(records, shares_of).items():
        scores[shares] = [record["scores"][GRADE_SCORES[0]] for record in group]
    return scores


def words_of(shares: Shares) -> str:
    """A pair of shares in words."""
    return f"{shares.neutral:.0%} neutral and {shares.strong:.0%} strong"


def table_of_grades(records: Sequence[Record]) -> str:
    """Scores of each pair of shares, in the order of the records, and what the rule chooses."""
    lines = format_head(["neutral", "strong", "seeds", *GRADE_SCORES])
    for shares, group in group_by(records, shares_of).items():
        cells = score_cells([record["scores"] for record in group], GRADE_SCORES)
        first = [f"{shares.neutral:.0%}", f"{shares.strong:.0%}", str(len(group))]
        lines.append(format_row([*first, *cells]))

    # The table shows how narrow the choice was, so the numbers of the rule stand below it.
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
    """The shares of neutral and strong film sentences: tools/sample/sample_grades.py."""
    records = newest_of(
        read_records(SAMPLE_GRADES), lambda record: (shares_of(record), seed_of(record))
    )
    if not records:
        return not_measured("sample-grades")
    for shares, group in group_by(records, shares_of).items():
        check_row(words_of(shares), runs_of(group))
    return "\n".join([table_of_grades(records), "", measured_on(runs_of(records))])


def sample_shares() -> str:
    """The default job with two pairs of shares, on the same real sentences."""
    records = newest_of(
        read_records(SAMPLE_SHARES), lambda record: (record["label"], seed_of(record))
    )
    if not records:
        return not_measured("sample-shares")
    # The two pairs make different files. The runs of one pair have read the same ones.
    of_label = group_records(records, "label")
    for label, group in of_label.items():
        check_row(label, runs_of(group))
    return "\n".join([*score_lines(of_label), "", measured_on(runs_of(records))])


SAMPLE_TABLES: dict[str, Callable[[], str]] = {
    "sample-grades": sample_grades,
    "sample-parts": sample_parts,
    "sample-shares": sample_shares,
}
