"""`python -m tools.sample --sources DIR --wordnet DIR --course DIR --out DIR`: build the sample.

DIR of --sources holds the folders open/ and corpus/ with the texts that data/sample/README.md
names. The course's files tell which sentences must not be inside. The same sources and the same
teacher give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

from data.examples import COURSE_FILES, PARA, SST, STS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import HELP_OF_OVERWRITE, OVERWRITE, check_outputs
from tools.sample import controlled
from tools.sample.edits import WordEdits
from tools.sample.graded_words import graded_adjectives, make_graded
from tools.sample.held_out import HeldOut, held_out_files, normal_form, read_held_out
from tools.sample.opinions import Lexicon
from tools.sample.pairs import (
    Kinds,
    Sentences,
    balanced,
    label_of,
    make_para,
    make_sts,
    read_everyday,
    read_wikipedia,
)
from tools.sample.questions import read_questions
from tools.sample.reviews import make_reviews
from tools.sample.rows import SPLITS, Row, Source, is_sample, split_of, unique, write_task
from tools.sample.shares import SHARES, Shares
from tools.sample.teacher import Teacher, cache_outputs
from tools.sample.wordnet import WordNet

# Rows of each kind in the training files. The files of dev and test have a share of them.
SST_ROWS = {
    Source.FILMS: 4400,
    Source.PRODUCTS: 1000,
    Source.PROS_AND_CONS: 300,
    Source.GRADED_WORDS: 600,
    Source.CONTROLLED: 100,
}
PARA_ROWS = {
    "near, same": 400,
    "near, different": 650,
    "reworded": 500,
    "changed": 600,
    "controlled": 100,
}
STS_ROWS = {
    "everyday near": 1300,
    "everyday edited": 600,
    "questions near": 600,
    "questions edited": 0,
    "wikipedia near": 80,
    "wikipedia edited": 40,
    "controlled": 400,
}

# Rows that are made of templates, to choose from.
NUM_GRADED = 3000
NUM_CONTROLLED = 1500

SHARE = {"train": 1.0, "dev": 0.09, "test": 0.09}
PAIR_SHARE = {"train": 1.0, "dev": 0.13, "test": 0.13}


class Builder:
    """The sources, and what is shared by the three tasks."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.sources: Path = options.sources
        self.seed: int = options.seed
        self.held_out: HeldOut = read_held_out(options.course)
        self.teacher = Teacher(options.teacher, options.cache)
        self.wordnet = WordNet(options.wordnet)
        self.lexicon = Lexicon(self.sources / "open")
        self.words = WordEdits(self.wordnet)

    def random(self, name: str) -> Random:
        """A source of random numbers of its own for each part."""
        return Random(f"{name} {self.seed}")

    def sst(self, shares: Shares = SHARES) -> dict[str, list[Row]]:
        """The rows of SST by split. Other shares give the same sentences, with other classes."""
        random = self.random("sst")
        folder = self.sources / "open"
        reviews = make_reviews(folder, self.held_out, self.lexicon, self.teacher, shares)
        rows = unique(reviews)
        texts = [row.texts[0] for row in rows]
        adjectives = graded_adjectives(self.wordnet, self.lexicon, texts)
        rows += make_graded(random, adjectives, NUM_GRADED)
        for _ in range(NUM_CONTROLLED):
            review = controlled.make_review(random)
            text = review.texts[0].strip()
            rows.append(Row((text,), review.label, Source.CONTROLLED))
        rows = unique(rows)
        random.shuffle(rows)

        chosen: dict[str, list[Row]] = {split: [] for split in SPLITS}
        for split in SPLITS:
            members = [row for row in rows if split_of(row.texts[0]) == split]
            for source, size in SST_ROWS.items():
                of_source = [row for row in members if row.source is source]
                if source is Source.PRODUCTS:
                    # People praise more products than they blame.
                    of_source = balanced(random, of_source)
                chosen[split] += of_source[: round(size * SHARE[split])]
        return chosen

    def para(self) -> dict[str, list[Row]]:
        """The rows of PARA by split."""
        path = self.sources / "corpus" / "questions.txt"
        kinds = make_para(path, self.held_out, self.teacher, self.words, self.seed)
        return choose(kinds, PARA_ROWS, self.extra("para", controlled.make_questions))

    def sts(self) -> dict[str, list[Row]]:
        """The rows of STS by split."""
        corpus = self.sources / "corpus"
        everyday = Sentences(
            read_everyday(corpus / "everyday-sentences-tatoeba.txt"),
            Source.NEAR_SENTENCES,
            Source.EDITED_SENTENCE,
        )
        wikipedia = Sentences(
            read_wikipedia(corpus / "wikipedia-sentences.txt"),
            Source.NEAR_WIKIPEDIA,
            Source.EDITED_WIKIPEDIA,
        )
        questions = Sentences(
            read_questions(corpus / "questions.txt"), Source.ALIKE_QUESTIONS, None
        )
        kinds: Kinds = {split: [] for split in SPLITS}
        texts = {"everyday": everyday, "questions": questions, "wikipedia": wikipedia}
        for title, sentences in texts.items():
            made = make_sts(sentences, self.held_out, self.teacher, self.words, self.seed)
            for split in SPLITS:
                kinds[split] += [(f"{title} {name}", rows) for name, rows in made[split]]
        scenes = self.extra("sts", controlled.make_scenes)
        return choose(kinds, STS_ROWS, balanced(self.random("scenes"), self.relabelled(scenes)))

    def relabelled(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with the teacher's labels: one scale for all pairs of STS."""
        firsts = [row.texts[0] for row in rows]
        seconds = [row.texts[1] for row in rows]
        cosines = self.teacher.similarity(firsts, seconds).tolist()
        relabelled = []
        for row, cosine in zip(rows, cosines, strict=True):
            relabelled.append(row._replace(label=label_of(cosine)))
        return relabelled

    def extra(self, name: str, make: Callable[[Random], controlled.Labelled]) -> list[Row]:
        """Controlled pairs, in an order that balances their labels."""
        random = self.random(f"controlled {name}")
        rows = []
        for _ in range(NUM_CONTROLLED):
            pair = make(random)
            if split_of(pair.texts[0]) == split_of(pair.texts[1]):
                rows.append(Row(pair.texts, pair.label, Source.CONTROLLED))
        return balanced(random, unique(rows))


def choose(kinds: Kinds, sizes: Mapping[str, int], extra: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the first rows of each kind in each split, and controlled rows."""
    chosen = {}
    for split in SPLITS:
        members = [row for row in extra if split_of(row.texts[0]) == split]
        rows: list[Row] = []
        for name, of_kind in [*kinds[split], ("controlled", members)]:
            rows += of_kind[: round(sizes[name] * PAIR_SHARE[split])]
        chosen[split] = unique(rows)
    return chosen


def without_leaks(tasks: Sequence[dict[str, list[Row]]]) -> list[dict[str, list[Row]]]:
    """Return the rows of the tasks, none of whose sentences stands in two splits.

    A change of a question can be another real question. Training rows yield to those of dev and
    test, and dev rows to those of test.
    """
    forms: dict[str, set[str]] = {split: set() for split in SPLITS}
    for rows_of in tasks:
        for split in SPLITS:
            for row in rows_of[split]:
                forms[split].update(normal_form(text) for text in row.texts)
    later = {"train": forms["dev"] | forms["test"], "dev": forms["test"], "test": set()}

    cleaned = []
    for rows_of in tasks:
        kept = {}
        for split in SPLITS:
            kept[split] = [row for row in rows_of[split] if not is_among(row, later[split])]
        cleaned.append(kept)
    return cleaned


def is_among(row: Row, forms: Collection[str]) -> bool:
    """Return whether one of the row's sentences has one of these normal forms."""
    return any(normal_form(text) in forms for text in row.texts)


def describe(name: str, rows: Sequence[Row]) -> str:
    """The line for a file: its rows, and how many are from each source."""
    counts = Counter(row.source.value for row in rows)
    parts = ", ".join(f"{count:,} {source}" for source, count in sorted(counts.items()))
    return f"{name}: {len(rows):,} rows ({parts})"


def add_source_flags(parser: Parser) -> None:
    """Add the flags that name the sources, and what is read beside them."""
    add_folder = partial(parser.add_argument, type=Path, required=True, metavar="DIR")
    add_folder("--sources", help="folder with the texts that data/sample/README.md describes")
    add_folder("--wordnet", help="folder with WordNet's files data.noun, index.noun and so on")
    add_folder("--course", help="the course's files. Their dev and test sentences are left out")
    add_folder("--cache", help="folder that keeps the teacher's vectors")
    parser.add_argument(
        "--teacher",
        default="minilm",
        metavar="MODEL",
        help="encoder whose cosines label pairs (default minilm, of setup.sh --minilm)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed: other rows of the same sources"
    )


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m tools.sample",
        allow_abbrev=False,
        description="Build data/sample from texts under open licences.",
    )
    add_source_flags(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the nine files"
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    return parser


def source_files(options: argparse.Namespace) -> list[Path]:
    """The files that are read: inputs, which nothing may replace."""
    inputs = held_out_files(options.course)
    for folder in (options.sources / "open", options.sources / "corpus", options.wordnet):
        inputs += [path for path in folder.rglob("*") if path.is_file()]
    return inputs


def check_paths(options: argparse.Namespace) -> None:
    """Raise ValueError if a file of --out or --cache cannot or must not be written."""
    inputs = source_files(options)
    outputs = controlled.course_outputs(options.out, is_sample)
    outputs += cache_outputs(options.cache)
    check_outputs(outputs, inputs, overwrite=options.overwrite)


@exit_code("python -m tools.sample")
def main(arguments: Sequence[str] | None = None) -> None:
    """Build the nine files."""
    options = build_parser().parse_args(arguments)
    check_paths(options)
    builder = Builder(options)
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = without_leaks([builder.sst(), builder.para(), builder.sts()])
    for format, rows in zip((SST, PARA, STS), tasks, strict=True):
        write_task(options.out, format, rows, builder.random(f"{format.name} order"))
        for split, members in rows.items():
            print(describe(COURSE_FILES[format.name][split], members))


if __name__ == "__main__":
    sys.exit(main())
