"""The options of `python -m multitask.predict` and `python -m multitask.check`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from data.tables.columns import ColumnNames
from minbert.commands.options import AUTO, CommandOptions, argument, positional
from minbert.commands.outputs import OVERWRITE, STREAM
from minbert.commands.plugins import plugin_argument


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
        "of matrix products. auto: that of the run. fp32: that of multitask.export",
        choices=(AUTO, "fp32", "bf16"),
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
