"""What TEXT of `python -m contrastive.train` may be, and the rows that a method reads of it.

TEXT is a file that data/training_texts.py reads, the name of a course task, or random-words. No
torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contrastive.registry import Reads
from data.examples import BUILT_IN_FILES, CFIMDB, TRAINING_FORMATS, Example, Format, evenly_spaced
from data.options import folder_of_data
from data.readers import read_examples
from data.training_texts import TrainingText, read_training_text, triplets_in_pairs

TASK_FORMATS: dict[str, Format] = {**TRAINING_FORMATS, "cfimdb": CFIMDB}
# The stage reads labelled pairs of this task, whose labels are 0 to 1.
PAIRS = "para"
# What a method reads of each kind of file.
READABLE: dict[Reads, tuple[str, ...]] = {
    "sentences": ("sentences", "pairs", "triplets"),
    "labelled pairs": ("pairs",),
    "triplets": ("triplets",),
}


@dataclass
class StageRows:
    """The rows of a stage.

    examples: by the name of their source, such as sst or wikipedia. triplets: three texts each, for
    a method that reads them. summaries: a line for the user on each source.
    """

    examples: dict[str, list[Example]] = field(default_factory=dict)
    triplets: list[tuple[str, ...]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)


def is_task(text: str) -> bool:
    """Whether a TEXT is a task of the course, and not a file of that name."""
    return text in BUILT_IN_FILES and not Path(text).exists()


def files_of(text: str, data_dir: Path, splits: Sequence[str]) -> list[Path]:
    """The files of one TEXT."""
    if not is_task(text):
        return [Path(text)]
    folder = folder_of_data(data_dir)
    return [folder / BUILT_IN_FILES[text][split] for split in splits]


def read_rows(
    texts: Sequence[str],
    reads: Reads,
    data_dir: Path,
    splits: Sequence[str],
    limit: int,
    sentences_of: Sequence[str] = (),
) -> StageRows:
    """The rows that a method reads of all TEXT.

    splits: of the tasks; without their labels, but for training pairs. limit: rows of each source
    at most, evenly spaced; 0 for all. sentences_of: the tasks whose sentences a method of labelled
    pairs reads as well.

    Raises ValueError where a file cannot be read, or holds what the method does not read.
    """
    rows = StageRows()
    for text in texts:
        if is_task(text):
            of_task: Reads = "sentences" if text in sentences_of else reads
            name, examples = text, read_task(text, of_task, data_dir, splits, rows.summaries)
            examples = list(evenly_spaced(examples, limit) if limit else examples)
        else:
            content = read_training_text(text, limit, is_for_sentences=reads == "sentences")
            rows.summaries.append(content.summary)
            if reads == "triplets" and set(content.labels or ()) == {0.0, 1.0}:
                content = content._replace(kind="triplets", rows=triplets_in_pairs(content))
                rows.summaries.append(f"{text}: {len(content.rows):,} triplets in these pairs")
            check_kind(text, content, reads)
            if reads == "triplets":
                rows.triplets += content.rows
                continue
            name = PAIRS if reads == "labelled pairs" else Path(text).stem
            examples = examples_of(name, content, reads)
        rows.examples.setdefault(name, []).extend(examples)
    return rows


def check_kind(text: str, content: TrainingText, reads: Reads) -> None:
    """ValueError where a method does not read what a file holds."""
    if not content.rows:
        raise ValueError(
            f"--text {text}: no text stands in a pair labelled 1 and in one labelled 0, so there "
            "is no triplet in it. Pass other pairs, or choose another method."
        )
    if content.kind not in READABLE[reads]:
        raise ValueError(
            f"--text {text} holds {content.kind}, and this method trains on {reads}. Pass a file "
            f"of {' or '.join(READABLE[reads])}, or choose another method."
        )


def read_task(
    task: str, reads: Reads, data_dir: Path, splits: Sequence[str], summaries: list[str]
) -> list[Example]:
    """The rows of a task of the course. summaries: gets a line for each file."""
    format = TASK_FORMATS[task]
    if reads == "triplets" or (reads == "labelled pairs" and not format.is_pair):
        raise ValueError(
            f"--text {task} is a task of {'pairs' if format.is_pair else 'single sentences'}, and "
            f"this method trains on {reads}. Pass other text, or choose another method."
        )
    examples: list[Example] = []
    for split, path in zip(splits, files_of(task, data_dir, splits), strict=True):
        table = read_examples(path, format, labelled=split != "test")
        summaries.append(table.summary)
        examples += table.examples
    return examples


def examples_of(name: str, content: TrainingText, reads: Reads) -> list[Example]:
    """The rows of a file as examples: labelled pairs, or single sentences without labels."""
    examples = []
    for number, texts in enumerate(content.rows):
        if reads == "labelled pairs":
            label = 1.0 if content.labels is None else content.labels[number]
            examples.append(Example(f"{name}-{number}", texts[0], texts[1], label))
            continue
        for text in texts:
            examples.append(Example(f"{name}-{number}", text, None, None))
    return examples
