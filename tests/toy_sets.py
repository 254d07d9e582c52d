"""Small files of labelled sentences, for the tests of the quality command."""

from __future__ import annotations

from pathlib import Path

from data.sentence_sets import read_pairs


def write_sts_file(path: Path, sample: Path) -> Path:
    """The sample's STS dev rows as a plain file with three subsets.

    The first two have 11 rows each. The third has 2, which are too few for a correlation.
    """
    lines = ["score\tsentence1\tsentence2\tsubset"]
    for number, example in enumerate(read_pairs(sample / "sts-dev.csv").examples):
        subset = ("news", "forum", "rest")[number // 11]
        cells = (str(example.label), example.sentence_1, example.sentence_2, subset)
        lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_class_file(path: Path) -> Path:
    """40 sentences of two classes. One word tells them apart."""
    lines = ["label\tsentence"]
    for number in range(40):
        label, word = (("bad", "slow"), ("good", "fresh"))[number % 2]
        lines.append(f"{label}\tthe film number {number} is {word}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
