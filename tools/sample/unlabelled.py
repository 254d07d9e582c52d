"""Choose text like that of the tasks, without labels, for an ensemble to label.

`python -m tools.sample.unlabelled --data-dir DIR --out TEXT --reviews FILE... --questions FILE
--premises FILE --similar FILE...` writes three files, as `multitask.predict` reads them. sst.txt
has a sentence on each line. para.txt and sts.txt have two texts on each line, with a tab between
them.

Sentences of reviews are drawn at random. Pairs drawn at random are hardly ever alike. So a pair is
one that a file lists, or a text and one of its nearest texts by TF-IDF. (Augmented SBERT, Thakur et
al. 2021, finds them by BM25.)

Nothing of dev or test is chosen, no sentence of SST's training rows, and no pair twice. Texts are
compared by their letters a to z and their digits.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.examples import COURSE_FILES, FORMATS, Example
from data.readers import read_examples
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import is_free

# Words of a sentence of SST. A text of a pair may be shorter.
MIN_WORDS = 5
MAX_WORDS = 40

# Nearest texts that are looked at, and queries at a time.
NUM_NEAREST = 40
CHUNK = 500

# Columns of the files with pairs.
SENTENCES = ("sentence1", "sentence2")
PREMISES = ("premise", "hypothesis")

Pair = tuple[str, str]
Course = dict[str, dict[str, tuple[Example, ...]]]


class Ranks(NamedTuple):
    """Ranks of neighbours, from `first` to `end` - 1. Rank 0 is the nearest text."""

    first: int
    end: int


# The neighbour of a question is drawn from these.
QUESTION_RANKS = [Ranks(0, 6)]


class Source(NamedTuple):
    """A file that the command reads, and the columns that it must have."""

    path: Path
    columns: tuple[str, ...] = ()


# --- which texts may be chosen --------------------------------------------------------------------


def key_of(text: str) -> str:
    """Return the letters a to z and the digits of a text, by which texts are compared.

    So case, blanks and punctuation do not matter.
    """
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def pair_key(pair: Iterable[str]) -> frozenset[str]:
    """Return the key of a pair in either order. It has one element where both texts are equal."""
    return frozenset(key_of(text) for text in pair)


class Filter:
    """Which texts and pairs may be chosen.

    No text of dev or test is, none with a quote or a tab, and no pair twice. A quote begins a
    quoted field in a data file.

    course: examples, as course[task][split].
    """

    def __init__(self, course: Course) -> None:
        self.held_out: set[str] = set()
        for splits in course.values():
            for example in chain(splits["dev"], splits["test"]):
                self.held_out.update(key_of(text) for text in example.texts)

        self.used_pairs: set[frozenset[str]] = set()
        # A pair of PARA is not chosen for STS either.
        for task in ("para", "sts"):
            self.used_pairs.update(pair_key(example.texts) for example in course[task]["train"])
        self.used_sentences = {key_of(example.sentence_1) for example in course["sst"]["train"]}

    def allows(self, text: str) -> bool:
        """Return whether a text may be part of what is chosen."""
        key = key_of(text)
        is_plain = '"' not in text and "\t" not in text
        return bool(key) and is_plain and key not in self.held_out

    def new_sentences(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts that are allowed, have a sentence's length, and were not seen yet."""
        for text in texts:
            # Each sentence is counted as used as soon as it was chosen.
            key = key_of(text)
            has_length = MIN_WORDS <= len(text.split()) <= MAX_WORDS
            if has_length and self.allows(text) and key not in self.used_sentences:
                self.used_sentences.add(key)
                yield text

    def new_pairs(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs that are allowed, not too long, and were not seen yet in either order.

        The two texts of a pair differ.
        """
        for pair in pairs:
            key = pair_key(pair)
            is_short = all(len(text.split()) <= MAX_WORDS for text in pair)
            is_allowed = all(self.allows(text) for text in pair)
            if is_short and is_allowed and len(key) == 2 and key not in self.used_pairs:
                self.used_pairs.add(key)
                yield pair

    def leave_out(self, folder: Path) -> None:
        """Count the text that an earlier call wrote as seen already."""
        for task in FORMATS:
            lines = (folder / f"{task}.txt").read_text("utf-8").split("\n")
            if task == "sst":
                self.used_sentences.update(key_of(line) for line in lines)
            else:
                self.used_pairs.update(pair_key(line.split("\t")) for line in lines)


# --- reading --------------------------------------------------------------------------------------


def check_sources(arguments: argparse.Namespace) -> None:
    """Check all files before anything is chosen.

    Raises ValueError for a file that is not there, not UTF-8, or without the columns it must have.
    """
    sources = [Source(arguments.premises, PREMISES)]
    for path in (arguments.questions, *arguments.similar):
        sources.append(Source(path, SENTENCES))
    for path in arguments.reviews:
        sources.append(Source(path))
    if arguments.beside:
        for task in FORMATS:
            sources.append(Source(arguments.beside / f"{task}.txt"))
    for source in sources:
        check_source(source)


def check_source(source: Source) -> None:
    """Raise ValueError for a file that cannot be read or that lacks a column."""
    path = source.path
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "not UTF-8"
        raise ValueError(
            f"{path}: cannot be read ({problem}); expected is text in UTF-8. Check the path, or "
            "convert the file."
        ) from None

    header = text.partition("\n")[0].strip().split("\t")
    missing = [name for name in source.columns if name not in header]
    if missing:
        raise ValueError(
            f"{path}: the header has no column {', '.join(missing)}; expected are "
            f"{', '.join(source.columns)}, separated by tabs. Pass another file, or fix the header."
        )


def read_pairs(path: str, columns: tuple[str, str]) -> Iterator[Pair]:
    """Yield the texts of two columns of a tab-separated file, row by row. A missing text is ""."""
    first, second = columns
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            yield (row[first] or "").strip(), (row[second] or "").strip()


def sentences_of(paths: Iterable[str | Path]) -> Iterator[str]:
    """Yield the sentences of plain text with one paragraph on each line.

    A sentence ends after . ! or ?. Quotation marks are dropped.
    """
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for paragraph in file:
                for sentence in re.split(r"(?<=[.!?])\s+", paragraph.strip()):
                    yield sentence.replace('"', "").strip()


def read_course(data_dir: str) -> Course:
    """Return the examples of the nine files, as course[task][split]."""
    course: Course = {}
    for task, names in COURSE_FILES.items():
        course[task] = {}
        for split, name in names.items():
            path = Path(data_dir) / name
            course[task][split] = read_examples(path, FORMATS[task], labelled=False).examples
    return course


def texts_of(examples: Sequence[Example]) -> Iterator[str]:
    """Yield the texts of all examples."""
    for example in examples:
        yield from example.texts


def texts_by_key(texts: Iterable[str], allows: Callable[[str], bool]) -> list[str]:
    """Return the allowed texts. Of those with the same key, it is the last."""
    by_key = {}
    for text in texts:
        if allows(text):
            by_key[key_of(text)] = text
    return list(by_key.values())


# --- choosing -------------------------------------------------------------------------------------


def near_pairs(
    queries: Sequence[str], pool: Sequence[str], ranks: Sequence[Ranks], rng: random.Random
) -> list[Pair]:
    """Return each query with a near text of the pool, once for each of the `ranks`.

    The rank of the text is drawn. Rank 0 is the text with the largest cosine of TF-IDF vectors that
    is not the query itself.

    Raises ValueError where the pool is too small.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(pool) <= NUM_NEAREST:
        raise ValueError(
            f"{len(pool)} texts to draw neighbours from; expected are {NUM_NEAREST + 1} at least. "
            "Pass larger files, or ask for 0 near pairs."
        )
    # Rare words weigh more. A word that comes n times counts 1 + log(n).
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(pool)
    vectors = vectorizer.transform(pool)  # (texts, words)
    keys = [key_of(text) for text in pool]

    pairs: list[Pair] = []
    for start in range(0, len(queries), CHUNK):
        chunk = queries[start : start + CHUNK]
        cosines = (vectorizer.transform(chunk) @ vectors.T).toarray()  # (queries, texts)
        # The nearest texts without an order, and then sorted: faster than sorting all.
        nearest = np.argpartition(-cosines, NUM_NEAREST, axis=1)[:, :NUM_NEAREST]
        for query, candidates, query_cosines in zip(chunk, nearest, cosines, strict=True):
            by_cosine = candidates[np.argsort(-query_cosines[candidates])]
            others = [place for place in by_cosine if keys[place] != key_of(query)]
            drawn = [rng.randrange(*bounds) for bounds in ranks]
            pairs += [(query, pool[others[rank]]) for rank in drawn if rank < len(others)]
    return pairs


def choose_questions(
    arguments: argparse.Namespace, train: Sequence[Example], seen: Filter, rng: random.Random
) -> list[Pair]:
    """Return pairs of a list of questions, and pairs of near questions.

    The near ones are of the list and of PARA's training rows.
    """
    num_listed, num_near = arguments.question_pairs
    listed = list(read_pairs(arguments.questions, SENTENCES))
    texts = chain(texts_of(train), chain.from_iterable(listed))
    questions = texts_by_key(texts, seen.allows)
    rng.shuffle(questions)
    rng.shuffle(listed)

    pairs = list(islice(seen.new_pairs(listed), num_listed))
    if num_near:
        # A fifth more than are asked for, because some will be there already.
        num_queries = min(num_near * 6 // 5, len(questions))
        queries = rng.sample(questions, num_queries)
        near = near_pairs(queries, questions, QUESTION_RANKS, rng)
        pairs += islice(seen.new_pairs(near), num_near)
    rng.shuffle(pairs)
    return pairs


def choose_sentence_pairs(
    arguments: argparse.Namespace, train: Sequence[Example], seen: Filter, rng: random.Random
) -> list[Pair]:
    """Return premises with their hypotheses, and STS's training sentences with near ones.

    The near ones are of STS's training rows, of the premises, and of the files of --similar.
    """
    num_listed, num_near = arguments.sentence_pairs
    queries = texts_by_key(texts_of(train), seen.allows)
    listed = list(read_pairs(arguments.premises, PREMISES))
    rng.shuffle(listed)

    pairs = list(islice(seen.new_pairs(listed), num_listed))
    if num_near:
        texts = [*queries, *(premise for premise, _ in listed)]
        for path in arguments.similar:
            texts += chain.from_iterable(read_pairs(path, SENTENCES))
        pool = [text for text in dict.fromkeys(texts) if seen.allows(text)]
        near = near_pairs(queries, pool, arguments.ranks, rng)
        rng.shuffle(near)
        pairs += islice(seen.new_pairs(near), num_near)
    rng.shuffle(pairs)
    return pairs


# --- the command ----------------------------------------------------------------------------------


def parse_ranks(text: str) -> Ranks:
    """Return the ranks 3 to 19 for "3-20". Raises ArgumentTypeError for anything else."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match:
        ranks = Ranks(int(match[1]), int(match[2]))
        if ranks.first < ranks.end < NUM_NEAREST:
            return ranks
    raise argparse.ArgumentTypeError(
        f"'{text}' is not two ranks such as 3-20, the second one larger and below {NUM_NEAREST}"
    )


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m tools.sample.unlabelled",
        allow_abbrev=False,
        description="Choose text like that of the tasks, without labels, for an ensemble to label.",
    )
    add_file_flags(parser)
    add_number_flags(parser)
    return parser


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the files that are read and written."""
    parser.add_argument("--data-dir", required=True, help="folder with the nine course files")
    parser.add_argument(
        "--out", type=Path, required=True, help="new folder for sst.txt, para.txt and sts.txt"
    )
    parser.add_argument(
        "--reviews", nargs="+", required=True, help="plain text, a paragraph a line"
    )
    parser.add_argument(
        "--questions", required=True, help="tab-separated pairs: sentence1, sentence2"
    )
    parser.add_argument(
        "--premises", required=True, help="tab-separated pairs: premise, hypothesis"
    )
    parser.add_argument(
        "--similar",
        nargs="*",
        default=[],
        help="tab-separated files with sentence1, sentence2, whose sentences can be neighbours of "
        "STS's too",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="TEXT",
        help="folder of an earlier call, whose text is left out",
    )


def add_number_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how much is chosen, and the seed."""
    parser.add_argument(
        "--sentences", type=int, default=50000, help="of reviews, at most (%(default)s)"
    )
    numbers = {"--question-pairs": [15000, 25000], "--sentence-pairs": [0, 25000]}
    for flag, default in numbers.items():
        listed, near = default
        parser.add_argument(
            flag,
            nargs=2,
            type=int,
            metavar=("LISTED", "NEAR"),
            default=default,
            help=f"so many of the list and so many near ones, at most ({listed} {near})",
        )
    parser.add_argument(
        "--ranks",
        nargs="+",
        type=parse_ranks,
        default=[Ranks(0, 3), Ranks(3, 20)],
        metavar="FIRST-END",
        help=f"each of STS's sentences gets a neighbour of each; END below {NUM_NEAREST} (0-3 "
        "3-20)",
    )
    parser.add_argument("--seed", type=int, default=11, help="of all that is drawn (%(default)s)")


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise ValueError for arguments that cannot be used, before anything is chosen."""
    check_new_folder("--out", arguments.out)
    if not is_free(arguments.out):
        raise ValueError(
            f"{arguments.out} exists; nothing is overwritten. Choose another folder as --out."
        )
    check_sources(arguments)
    if arguments.sentences < 0:
        raise ValueError(f"--sentences is {arguments.sentences}; pass a whole number of 0 or more.")
    if min(arguments.question_pairs + arguments.sentence_pairs) < 0:
        raise ValueError(
            "--question-pairs and --sentence-pairs are numbers of pairs; pass 0 or more."
        )


@exit_code("python -m tools.sample.unlabelled")
def main(argv: Sequence[str] | None = None) -> None:
    """Choose the text and write the three files."""
    arguments = build_parser().parse_args(argv)
    check_arguments(arguments)
    course = read_course(arguments.data_dir)
    seen = Filter(course)
    if arguments.beside:
        seen.leave_out(arguments.beside)

    # All three draw from it in turn, so their order is part of the result.
    rng = random.Random(arguments.seed)
    sentences = list(seen.new_sentences(sentences_of(arguments.reviews)))
    rng.shuffle(sentences)
    questions = choose_questions(arguments, course["para"]["train"], seen, rng)
    sentence_pairs = choose_sentence_pairs(arguments, course["sts"]["train"], seen, rng)
    lines_of_task = {
        "sst": sentences[: arguments.sentences],
        "para": ["\t".join(pair) for pair in questions],
        "sts": ["\t".join(pair) for pair in sentence_pairs],
    }

    arguments.out.mkdir(parents=True, exist_ok=True)
    for task, lines in lines_of_task.items():
        path = arguments.out / f"{task}.txt"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        print(f"{path}: {len(lines):,} lines")


if __name__ == "__main__":
    sys.exit(main())
