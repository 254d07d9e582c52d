"""The options of `python -m contrastive.quality`, and what is refused before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.senteval import OF_SCORES, READERS, TASKS
from data.tables.columns import ColumnNames
from minbert.commands.options import AUTO, CommandOptions, argument, positional
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    PAGE_START,
    Output,
    begins_with,
    check_outputs,
)
from minbert.commands.paths import check_writable, real_path
from minbert.hub import BUNDLED

MIN_LENGTH = 3  # [CLS], a token, [SEP]
DEFAULT_FOLDS = 10
DEFAULT_TASKS = ",".join(TASKS)
ALL_TASKS = ",".join(READERS)
DEFAULT_SEED = 11711
DEFAULT_BATCH_SIZE = 32
WORD_VECTOR_SUFFIXES = (".txt", ".vec")  # a name with one of them is no hub name
TITLE_START = "Sentence vectors of "
RECORD_START = '{\n  "model": '  # of quality.json


class Cutoffs(NamedTuple):
    """The numbers of first answers that P@k and nDCG@k look at."""

    precision: tuple[int, ...] = (1,)
    gain: tuple[int, ...] = (10,)


@dataclass(frozen=True)
class QualityOptions(CommandOptions):
    """The command line of contrastive.quality."""

    model: str = positional(
        "MODEL",
        "minbert-mini-distilled, minilm, a folder such as runs/NAME/encoder, a hub name, or a text "
        "file of word vectors (GloVe, word2vec), whose mean is measured. A word counts as the file "
        "has it, or in small letters, or split at punctuation; an unknown one is left out",
    )
    # Files to read and to write.
    sets: tuple[Path, ...] = argument(
        (),
        "STS files: columns score (or similarity), sentence1, sentence2, and perhaps subset; or "
        "folders of STS.input.*.txt and STS.gs.*.txt, as SentEval has them",
        "FILE...",
    )
    transfer: tuple[Path, ...] = argument(
        (), "classification files: columns sentence, and sentiment or label", "FILE..."
    )
    pairs: tuple[Path, ...] = argument(
        (),
        "labelled pairs, classified by their cosine: columns sentence1, sentence2, and label or "
        "is_duplicate (1 or 0)",
        "FILE...",
    )
    pairs_dev: tuple[Path, ...] = argument(
        (),
        "for each file of --pairs the pairs on which its threshold is found. Without them there is "
        "only the average precision, which needs none",
        "FILE...",
    )
    ranking: tuple[Path, ...] = argument(
        (),
        "candidate answers, ranked by their cosine with the question: columns question (or qtext), "
        "answer (or atext), label (1 or 0)",
        "FILE...",
    )
    ranking_cutoffs: str = argument(
        AUTO, "k of P@k and nDCG@k, such as 1,5,10; auto: P@1 and nDCG@10", "NUMBERS"
    )
    senteval: Path | None = argument(
        None, "the data folder of the toolkit SentEval: its transfer tasks by its protocol", "DIR"
    )
    senteval_tasks: str = argument(DEFAULT_TASKS, f"some of {ALL_TASKS}; with --senteval", "NAMES")
    classifier: str = argument(
        "logistic",
        "of --senteval: logistic regression, or a network with 50 hidden units (mlp), which takes "
        "minutes to hours",
        choices=("logistic", "mlp"),
    )
    rows: int = argument(
        0, "rows of each file of --sets and --pairs at most, evenly spaced. 0: all", low=0
    )
    text: str | None = argument(
        None,
        "column of the files with the sentences (default: sentence1 of --sets, sentence of "
        "--transfer)",
        "COLUMN",
    )
    text_pair: str | None = argument(
        None,
        "column of the files with the second sentences of --sets (default: sentence2)",
        "COLUMN",
    )
    label: str | None = argument(
        None,
        "column of the files with the labels (default: score of --sets, label of --transfer)",
        "COLUMN",
    )
    report: Path | None = argument(
        None,
        "one page with all figures: --layers, cosines by label, a map of pairs of the first set, "
        "and, if MODEL is the folder of a training stage, loss, dev score, alignment and "
        "uniformity over its training",
        "FILE.html",
    )
    before: str | None = argument(
        None, "the encoder before training, for a second map of the pairs in --report", "MODEL"
    )
    out: Path | None = argument(
        None, "folder for quality.json (the numbers) and quality.md (the tables)", "DIR"
    )
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)
    # What is measured.
    layers: bool = argument(False, "every hidden state under cls, mean and max, on the first set")
    baselines: bool = argument(
        False, "also [CLS], mean, first-last mean, last-two mean, WK pooling and whitening"
    )
    range: tuple[float, float] | None = argument(
        None,
        "scale of the labels; default: the whole numbers around those of each file",
        "LOW HIGH",
    )
    folds: int = argument(
        DEFAULT_FOLDS, "parts of a --transfer file, and of a task of --senteval", low=2
    )
    seed: int = argument(DEFAULT_SEED, "of the folds of --transfer", low=0, high=2**32 - 1)
    # How sentences become vectors.
    pooling: str = argument(
        AUTO,
        "the encoder's own sentence vector; auto: the one it was trained for, or else mean",
        choices=(AUTO, "mean", "cls", "pooler"),
    )
    device: str = argument(AUTO, "where the encoder runs", choices=(AUTO, "cpu", "cuda", "mps"))
    precision: str = argument(
        "fp32",
        "of the encoder; auto is faster on some machines, and cosines then agree to two digits",
        choices=("fp32", "bf16", AUTO),
    )
    max_length: int | None = argument(
        None,
        "tokens of a sentence at most (default: that of the model's folder, or 128)",
        low=MIN_LENGTH,
    )
    batch_size: int = argument(DEFAULT_BATCH_SIZE, "pairs or sentences encoded at once", low=1)

    @property
    def others(self) -> list[Path]:
        """What is measured beside --sets and --transfer."""
        folder = [] if self.senteval is None else [self.senteval]
        return [*self.pairs, *self.ranking, *folder]

    @property
    def task_names(self) -> list[str]:
        """The tasks of --senteval."""
        return self.senteval_tasks.split(",")

    @property
    def cutoffs(self) -> Cutoffs:
        """How many first answers of --ranking are looked at."""
        if self.ranking_cutoffs == AUTO:
            return Cutoffs()
        numbers = tuple(int(number) for number in self.ranking_cutoffs.split(","))
        return Cutoffs(numbers, numbers)

    @property
    def column_names(self) -> ColumnNames:
        """The names of the columns that the user passed."""
        return ColumnNames(text=self.text, text_pair=self.text_pair, label=self.label)

    @property
    def has_word_vectors(self) -> bool:
        """Whether MODEL is a file of word vectors. A misspelt name is looked for on no hub."""
        path = Path(self.model)
        if self.model in (*BUNDLED, "minilm") or path.is_dir():
            return False
        return path.suffix in WORD_VECTOR_SUFFIXES or path.is_file()

    def check(self) -> None:
        if not (self.sets or self.transfer or self.others):
            raise ValueError(
                "there is nothing to measure on; expected is --sets FILE..., --transfer FILE..., "
                "--pairs FILE..., --ranking FILE... or --senteval DIR. Name some, such as --sets "
                "data/sample/sts-dev.csv."
            )
        # A flag without an effect is refused: the user expects one.
        self.check_needed_flags()
        if self.has_word_vectors:
            self.check_word_vectors()
        if self.range and not self.range[0] < self.range[1]:
            raise ValueError(
                f"--range is {self.range[0]:g} {self.range[1]:g}; expected is the lowest label "
                "and then the highest, such as --range 0 5."
            )

    def check_needed_flags(self) -> None:
        """ValueError for a flag that has no effect."""
        needs_sets = {
            "--layers": self.layers,
            "--baselines": self.baselines,
            "--range": self.range,
            "--before": self.before,
            "--text-pair": self.text_pair,
        }
        for flag, value in needs_sets.items():
            if value and not self.sets:
                raise ValueError(f"{flag} has no effect without --sets; add that or drop it.")
        if self.rows and not (self.sets or self.pairs):
            raise ValueError(
                "--rows has no effect without --sets or --pairs; add one of them or drop it."
            )
        if self.column_names.are_given and self.sets and self.transfer:
            raise ValueError(
                "--text and --label would name columns of --sets and of --transfer; measure the "
                "two in commands of their own."
            )
        if self.column_names.are_given and self.others:
            raise ValueError(
                "--text and --label name columns of --sets or of --transfer, and not of --pairs, "
                "--ranking or --senteval; measure these in a command of their own."
            )
        if not self.transfer and self.seed != DEFAULT_SEED:
            raise ValueError("--seed has no effect without --transfer; add that or drop it.")
        if not self.transfer and not self.senteval and self.folds != DEFAULT_FOLDS:
            raise ValueError(
                "--folds has no effect without --transfer or --senteval; add one or drop it."
            )
        folders = [path for path in self.sets if path.is_dir()]
        if folders and self.column_names.are_given:
            raise ValueError(
                f"--text and --label name columns, and {folders[0]} is a folder of files without "
                "any. Measure it in a command of its own, or drop these flags."
            )
        self.check_others()
        self.check_cutoffs()
        if self.before and not self.report:
            raise ValueError(
                "--before has no effect without --report, the page that shows its map; add that or "
                "drop it."
            )

    def check_cutoffs(self) -> None:
        """ValueError for --ranking-cutoffs without an effect, or that are no numbers."""
        if self.ranking_cutoffs == AUTO:
            return
        if not self.ranking:
            raise ValueError(
                "--ranking-cutoffs has no effect without --ranking; add that or drop it."
            )
        words = self.ranking_cutoffs.split(",")
        are_numbers = all(word.isdecimal() and int(word) > 0 for word in words)
        if not are_numbers or len(set(words)) < len(words):
            raise ValueError(
                f"--ranking-cutoffs is '{self.ranking_cutoffs}'; pass whole numbers above 0, each "
                "once, with commas between them, such as 1,5,10."
            )

    def check_word_vectors(self) -> None:
        """ValueError for a flag that only an encoder has."""
        of_encoders = {
            "--pooling": self.pooling not in (AUTO, "mean"),
            "--layers": self.layers,
            "--before": self.before,
            "--device": self.device not in (AUTO, "cpu"),
            "--precision": self.precision not in (AUTO, "fp32"),
            "--max-length": self.max_length,
            "--batch-size": self.batch_size != DEFAULT_BATCH_SIZE,
        }
        for flag, value in of_encoders.items():
            if value:
                raise ValueError(
                    f"{flag} needs an encoder, and {self.model} is read as a file of word vectors: "
                    "the mean of all words of a sentence is measured, on the CPU. Drop that flag, "
                    "or name a model."
                )

    def check_others(self) -> None:
        """ValueError for what does not fit --pairs and --senteval."""
        if len(self.pairs_dev) not in (0, len(self.pairs)):
            raise ValueError(
                f"--pairs-dev names {len(self.pairs_dev)} files and --pairs {len(self.pairs)}; "
                "expected is one for each, in the same order."
            )
        if self.senteval is None:
            if (self.senteval_tasks, self.classifier) != (DEFAULT_TASKS, "logistic"):
                raise ValueError(
                    "--senteval-tasks and --classifier have no effect without --senteval; add that "
                    "or drop them."
                )
            return
        names = self.task_names
        if not set(names) <= set(READERS) or len(set(names)) < len(names):
            raise ValueError(
                f"--senteval-tasks is '{self.senteval_tasks}'; it is some of {ALL_TASKS}, each "
                "once."
            )
        if self.classifier != "logistic" and set(names) <= set(OF_SCORES):
            raise ValueError(
                f"--classifier has no effect on tasks of scores, such as {names[0]}; add another "
                "task, or drop it."
            )


def check_output_files(request: QualityOptions) -> None:
    """ValueError for a file or a folder that cannot or must not be written."""
    outputs = []
    if request.report:
        if request.report.suffix != ".html":
            raise ValueError(
                f"--report is {request.report}; expected is a file whose name ends in .html, new "
                "or not. Pass such a name."
            )
        outputs.append(Output("--report", request.report, begins_with(PAGE_START)))
    if request.out:
        check_writable(request.out)
        is_ours = begins_with(f"# {TITLE_START}")
        outputs.append(Output("--out", request.out / "quality.md", is_ours))
        is_ours = begins_with(RECORD_START)
        outputs.append(Output("--out", request.out / "quality.json", is_ours))
    if request.overwrite and not outputs:
        raise ValueError(f"{OVERWRITE} has no effect without --out or --report. Drop it.")
    folders = [] if request.has_word_vectors else [Path(request.model)]
    models = [Path(request.model)] if request.has_word_vectors else []
    inputs = [*models, *request.sets, *request.transfer, *request.pairs, *request.pairs_dev]
    check_outputs(outputs, [*inputs, *request.ranking], folders, request.overwrite)


def by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Paths by their names in tables.

    The name is the file's without its suffix, or the whole path if two files share that. Raises
    ValueError for a file that is given twice.
    """
    resolved: set[Path] = set()
    for path in paths:
        if real_path(path) in resolved:
            raise ValueError(
                f"{path} is given twice, and would count twice in the average. Name each file once."
            )
        resolved.add(real_path(path))

    # Short names where they are clear, whole paths where they are not.
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}
