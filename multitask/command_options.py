"""The options of multitask.predict, multitask.check and multitask.compare. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from data.tables.columns import ColumnNames
from minbert.commands.options import AUTO, CommandOptions, argument, positional
from minbert.commands.outputs import OVERWRITE, STREAM
from minbert.commands.plugins import plugin_argument
from minbert.options import FP32_ONEDNN


@dataclass(frozen=True)
class PredictOptions(CommandOptions):
    """The command line of multitask.predict."""

    runs: tuple[Path, ...] = positional(
        "RUN...",
        "folder that run_multitask.py wrote, such as runs/NAME or runs/latest; of several the mean "
        "of what they say (default: the small model that comes with minBERT)",
        is_required=False,
    )
    task: str | None = argument(
        None,
        "a task of the run; it may be left out where there is only one. sst: a sentence a line; "
        "para, sts: two texts a line, with a tab between",
        "NAME",
    )
    probabilities: bool = argument(
        False,
        "print probabilities instead of classes: sst, the five classes' with blanks between; "
        "para, that of a paraphrase, which can be a training label; your own task, those of all "
        "labels in their order. --out gets a column for each class",
    )
    precision: str = argument(
        AUTO,
        "of matrix products. auto: that of the run. fp32: that of multitask.export. int8 is faster "
        "on the CPU and less exact. fp32-onednn: fp32 by oneDNN, faster on some processors",
        choices=(AUTO, "fp32", "bf16", "int8", FP32_ONEDNN),
    )
    temperature: float = argument(
        1.0, "divide logits by this number, which `minbert labels RUN` finds", low=0.01, high=100
    )
    threshold: float = argument(
        0.5,
        "of two classes, predict the second one from this probability on; of several labels, each",
        low=0.0001,
        high=0.9999,
    )
    plugin: tuple[str, ...] = plugin_argument()
    # The input, and the file to write.
    input: Path | None = argument(
        None,
        "the rows: plain lines, or a table (.csv, .tsv, .jsonl, .xlsx) (default: standard input)",
        "FILE",
    )
    text: str | None = argument(
        None,
        "column of a table with the texts (default: sentence or text; of pairs sentence1)",
        "COLUMN",
    )
    text_pair: str | None = argument(
        None, "column of a table with the second texts of pairs (default: sentence2)", "COLUMN"
    )
    lines: bool = argument(
        False, "each line of the input is a row, also where it looks like a table"
    )
    out: Path | None = argument(
        None,
        "write all columns of the input, the prediction and its confidence to a file that a "
        "spreadsheet opens: .csv or .xlsx. - is standard output, as .csv",
        "FILE.csv",
    )
    overwrite: bool = argument(False, "replace the file of --out if it exists")

    @property
    def writes_file(self) -> bool:
        """Whether the answers go to a file, and not to standard output."""
        return self.out not in (None, STREAM)

    def check(self) -> None:
        if self.overwrite and not self.writes_file:
            raise ValueError(f"{OVERWRITE} has no effect without a file of --out. Drop it.")


@dataclass(frozen=True)
class CheckOptions(CommandOptions):
    """The command line of multitask.check."""

    files: tuple[str, ...] = positional(
        "FILE...", "prediction file of any task, told by its header"
    )
    gold: str | None = argument(
        None,
        "labelled file to score against, in any format; default: the one of --data-dir with these "
        "ids",
        "FILE",
    )
    id: str | None = argument(None, "column of --gold with the ids (default: id)", "COLUMN")
    text: str | None = argument(
        None,
        "column of --gold with the sentences, or first sentences (default: those of the course)",
        "COLUMN",
    )
    text_pair: str | None = argument(
        None, "column of --gold with the second sentences (default: sentence2)", "COLUMN"
    )
    label: str | None = argument(
        None, "column of --gold with the labels (default: those of the course)", "COLUMN"
    )
    data_dir: Path | None = argument(
        None,
        "folder of the data files; default: those of the run that wrote FILE, otherwise the "
        "bundled sample",
        "DIR",
    )
    drop_bad_rows: bool = argument(False, "skip and count malformed rows of labelled files")

    @property
    def column_names(self) -> ColumnNames:
        """The names of the columns of --gold that the user passed."""
        return ColumnNames(self.text, self.text_pair, self.label, self.id)

    def check(self) -> None:
        if self.column_names.are_given and not self.gold:
            raise ValueError(
                "--id, --text, --text-pair and --label name columns of --gold; pass it, too."
            )


def without_logs(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The paths without the logs that `python -m experiments` writes beside its runs.

    A pattern such as runs/a-seed* matches runs/a-seed0 and runs/a-seed0.log.
    """
    kept = []
    for path in paths:
        is_log = path.suffix == ".log" and path.with_suffix("") in paths
        if not is_log:
            kept.append(path)
    return tuple(kept)


@dataclass(frozen=True)
class CompareOptions(CommandOptions):
    """The command line of multitask.compare."""

    systems: tuple[Path, ...] = positional(
        "RUN...",
        "A and B: folders of finished runs, or files of predictions for the same rows. With "
        "--with: all runs of A, which differ in their seeds",
    )
    with_: tuple[Path, ...] = argument((), "all runs of B, which differ in their seeds", "RUN...")
    within: float = argument(
        0.01, "differences up to this one count as none: the same within 0.01", "X", low=0
    )
    gold: str | None = argument(None, "labelled file for the files of predictions", "FILE")
    data_dir: Path | None = argument(
        None, "folder of the labelled files, as for `python -m multitask.check`", "DIR"
    )
    plugin: tuple[str, ...] = plugin_argument()
    json: bool = argument(False, "print JSON")

    @property
    def sides(self) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """The runs or files of A and of B."""
        systems = without_logs(self.systems)
        if self.with_:
            return systems, without_logs(self.with_)
        return systems[:1], systems[1:]

    def check(self) -> None:
        first, second = self.sides
        if not self.with_ and len(second) != 1:
            raise ValueError(
                f"{len(first) + len(second)} runs or files are given. Give A and B, or several "
                "runs of each: RUN RUN --with RUN RUN."
            )
        paths = [*first, *second]
        for path in paths:
            if not path.exists():
                raise ValueError(f"{path} does not exist. Check the path.")
            if paths.count(path) > 1:
                raise ValueError(f"{path} is given twice. Name each run once.")
        if self.with_ and min(len(first), len(second)) == 1 and len(paths) > 2:
            raise ValueError(
                "one side has one run and the other side several. Give one run on each side, or "
                "several on each, for chance in the seeds is measured on both."
            )
