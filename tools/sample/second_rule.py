"""A second rule for rows that touch the course's dev and test files. It checks held_out.py.

`python -m tools.sample.second_rule --course DIR` lists the rows of the sample that it finds. It
shares no code with held_out.py, and reads the files in its own way. That file compares letters
without blanks. This one compares runs of whole words. A text touches a held-out one if

- both have the same words,
- one of them is at least RUN words long and stands in the other one, or
- both share at least SHARED of the words of the longer one, which has LONG words or more.

"what's" is one word here, and two in held_out.py.
"""

from __future__ import annotations

import argparse
import collections
import csv
import pathlib
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser

RUN = 4
LONG = 5
SHARED = 0.8
# How the Penn treebank writes signs.
TREEBANK = {"lrb", "rrb", "lsb", "rsb", "lcb", "rcb"}
FILES = ("ids-sst-{}.csv", "quora-{}.csv", "sts-{}.csv")
TEXT_COLUMNS = ("sentence", "sentence1", "sentence2")
SAMPLE = pathlib.Path("data/sample")

Run = tuple[str, ...]


def run_of(sentence: str) -> Run:
    """Return the words of a sentence. Accents, case and signs do not count. "does n't" is one."""
    signs = []
    for sign in unicodedata.normalize("NFD", sentence.casefold()):
        if sign in "'’`" or unicodedata.category(sign) == "Mn":
            continue
        signs.append(sign if sign.isalnum() else " ")
    pieces = "".join(signs).replace(" nt ", "nt ").split()
    return tuple(piece for piece in pieces if piece not in TREEBANK)


class SecondRule:
    """What is held out, as runs of words."""

    def __init__(self, held_out: Iterable[str]) -> None:
        self.whole = {run_of(text) for text in held_out} - {()}
        # The held-out runs by the words with which a part of them begins.
        self.beginnings: dict[Run, list[Run]] = collections.defaultdict(list)
        self.with_word: dict[str, list[Run]] = collections.defaultdict(list)
        for run in self.whole:
            for start in range(len(run) - RUN + 1):
                self.beginnings[run[start : start + RUN]].append(run)
            for word in set(run):
                self.with_word[word].append(run)

    def finds(self, text: str) -> str:
        """Return the held-out words that the text touches. They are empty where there are none."""
        run = run_of(text)
        if run in self.whole:
            return " ".join(run)
        touched = self.longer_one(run) or self.shorter_one(run) or self.alike(run)
        return " ".join(touched)

    def longer_one(self, run: Run) -> Run:
        """Return a held-out run in which the whole text stands."""
        if len(run) < RUN:
            return ()
        padded = f" {' '.join(run)} "
        for other in self.beginnings.get(run[:RUN], []):
            if padded in f" {' '.join(other)} ":
                return other
        return ()

    def shorter_one(self, run: Run) -> Run:
        """Return a whole held-out run that stands in the text."""
        for start in range(len(run)):
            for end in range(start + RUN, len(run) + 1):
                if run[start:end] in self.whole:
                    return run[start:end]
        return ()

    def alike(self, run: Run) -> Run:
        """Return a held-out run with nearly the same words in any order."""
        counts = collections.Counter(run)
        # Some run of the words that are shared has one of the rarest words of the text.
        rarest = sorted(counts, key=lambda word: len(self.with_word.get(word, [])))
        for word in rarest[: len(run) // 4 + 1]:
            for other in self.with_word.get(word, []):
                longer = max(len(run), len(other))
                if longer < LONG or min(len(run), len(other)) < SHARED * longer:
                    continue
                if (counts & collections.Counter(other)).total() >= SHARED * longer:
                    return other
        return ()


def sentences_of_rows(folder: pathlib.Path, split: str) -> Iterator[list[str]]:
    """Yield the sentences of each row of the three files of a split."""
    for name in FILES:
        with open(folder / name.format(split), encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                yield [row[column] or "" for column in TEXT_COLUMNS if column in row]


def held_out_of(course: pathlib.Path) -> SecondRule:
    """Return the rule for the course's dev and test files."""
    texts: list[str] = []
    for split in ("dev", "test-student"):
        for sentences in sentences_of_rows(course, split):
            texts += sentences
    return SecondRule(texts)


@exit_code("python -m tools.sample.second_rule")
def main(arguments: Sequence[str] | None = None) -> int:
    """List the rows. Exit code 1 where there is one."""
    parser: argparse.ArgumentParser = Parser(
        prog="python -m tools.sample.second_rule",
        allow_abbrev=False,
        description="Look for rows of a sample that touch the course's dev and test files.",
    )
    add = parser.add_argument
    add("--course", type=pathlib.Path, required=True, metavar="DIR", help="the course's files")
    add("--sample", type=pathlib.Path, default=SAMPLE, metavar="DIR", help="the nine files")
    options = parser.parse_args(arguments)

    rule = held_out_of(options.course)
    num_touching = 0
    for split in ("train", "dev", "test-student"):
        for sentences in sentences_of_rows(options.sample, split):
            touched = next(filter(None, map(rule.finds, sentences)), "")
            if touched:
                num_touching += 1
                print(f"{split}: {sentences} | {touched}")
    print(f"{num_touching} rows touch the dev and test files in {options.course}")
    return 1 if num_touching else 0


if __name__ == "__main__":
    sys.exit(main())
