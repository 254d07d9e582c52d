"""Text like that of the tasks, without labels, for an ensemble to label; nothing of dev or test is in it.

`python -m benchmarks.unlabelled --data-dir DIR --out TEXT --reviews FILE... --questions FILE --premises FILE
--similar FILE...`: writes sst.txt, a sentence a line, and para.txt and sts.txt, two texts a line with a tab between,
as `multitask.predict` reads them. Sentences of reviews are drawn at random. Pairs drawn at random are hardly ever
alike; so a pair is one that a file lists, or a text and one of its nearest by TF-IDF (as in augmented SBERT, Thakur et
al. 2021, by BM25). A text is known by its letters a to z and digits: no text of dev or test is chosen, no sentence of
SST's training rows, no pair twice. So the text of the best single run in docs/archive/results.md was chosen.
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

import numpy as np

from data.readers import COURSE_FILES, FORMATS, Example, read_examples
from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.paths import check_writable, is_free

MIN_WORDS, MAX_WORDS = 5, 40  # of a sentence of SST; a text of a pair may be shorter
NUM_NEAREST, CHUNK = 40, 500  # nearest texts that are looked at; queries at a time
SENTENCES, PREMISES = ("sentence1", "sentence2"), ("premise", "hypothesis")  # columns
QUESTION_RANKS = [(0, 6)]  # the neighbour of a question is drawn from these
Pair = tuple[str, str]


def key_of(text: str) -> str:
    """What of a text is compared: its letters a to z and its digits, so that case, blanks and marks do not matter."""
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def pair_key(pair: Iterable[str]) -> frozenset[str]:
    """Of a pair the same in either order; one element where both texts are the same."""
    return frozenset(map(key_of, pair))


class Filter:
    """Which texts and pairs may be chosen: none of dev or test, none with a quote or a tab, no pair twice.

    course: course[task][split], examples. Quotes begin a quoted field in a data file.
    """

    def __init__(self, course: dict[str, dict[str, Sequence[Example]]]) -> None:
        self.held_out = {
            key_of(text)
            for splits in course.values()
            for split in ("dev", "test")
            for example in splits[split]
            for text in example.texts
        }
        self.used = {
            pair_key(example.texts) for task in ("para", "sts") for example in course[task]["train"]
        }
        self.sentences = {key_of(example.sentence_1) for example in course["sst"]["train"]}

    def allows(self, text: str) -> bool:
        key = key_of(text)
        return bool(key) and '"' not in text and "\t" not in text and key not in self.held_out

    def new_sentences(self, texts: Iterable[str]) -> Iterator[str]:
        """Those that are allowed, have a sentence's length and were not seen yet."""
        for text in texts:
            if (
                MIN_WORDS <= len(text.split()) <= MAX_WORDS
                and self.allows(text)
                and (key := key_of(text)) not in self.sentences
            ):
                self.sentences.add(key)
                yield text

    def new_pairs(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Those of two different texts that are allowed, of some length, and were not seen yet in either order."""
        for pair in pairs:
            key = pair_key(pair)
            if (
                all(self.allows(text) and len(text.split()) <= MAX_WORDS for text in pair)
                and len(key) == 2
                and key not in self.used
            ):
                self.used.add(key)
                yield pair

    def leave_out(self, folder: Path) -> None:
        """What an earlier call wrote there is seen already."""
        for task in FORMATS:
            lines = (folder / f"{task}.txt").read_text("utf-8").split("\n")
            if task == "sst":
                self.sentences.update(map(key_of, lines))
            else:
                self.used.update(pair_key(line.split("\t")) for line in lines)


def check_sources(given: argparse.Namespace) -> None:
    """ValueError, before anything is chosen, for a file that is not there, not UTF-8, or without the columns needed."""
    sources = [
        (given.premises, PREMISES),
        *((path, SENTENCES) for path in (given.questions, *given.similar)),
    ]
    sources += [(path, ()) for path in given.reviews]
    sources += [(given.beside / f"{task}.txt", ()) for task in FORMATS if given.beside]
    for path, names in sources:
        try:
            header = Path(path).read_text("utf-8").partition("\n")[0].strip().split("\t")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'}); needed is "
                "text in UTF-8. Check the path, or convert the file."
            ) from None
        if missing := [name for name in names if name not in header]:
            raise ValueError(
                f"{path}: the header has no column {', '.join(missing)}; needed are {', '.join(names)}, "
                "separated by tabs. Pass another file, or fix the header."
            )


def read_columns(path: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The texts of the named columns of a tab-separated file, row by row; "" for one that is not there."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            yield tuple((row[name] or "").strip() for name in names)


def sentences_of(paths: Iterable[str]) -> Iterator[str]:
    """The sentences of plain text, a paragraph a line, split behind . ! and ?, without quotation marks."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for paragraph in file:
                for sentence in re.split(r"(?<=[.!?])\s+", paragraph.strip()):
                    yield sentence.replace('"', "").strip()


def near_pairs(
    queries: Sequence[str],
    pool: Sequence[str],
    ranks: Sequence[tuple[int, int]],
    rng: random.Random,
) -> list[Pair]:
    """For each query and each (first, end) of ranks the query with the text of the pool at a rank drawn from these.

    Rank 0 is the text with the largest cosine of TF-IDF vectors that is not the query itself.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(pool) <= NUM_NEAREST:
        raise ValueError(
            f"{len(pool)} texts to draw neighbours from; needed are {NUM_NEAREST + 1} at least. Pass "
            "larger files, or ask for 0 near pairs."
        )
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(pool)
    vectors, keys, pairs = vectorizer.transform(pool), list(map(key_of, pool)), []
    for begin in range(0, len(queries), CHUNK):
        chunk = queries[begin : begin + CHUNK]
        cosines = (vectorizer.transform(chunk) @ vectors.T).toarray()
        nearest = np.argpartition(-cosines, NUM_NEAREST, axis=1)[:, :NUM_NEAREST]
        for query, row, of_row in zip(chunk, nearest, cosines, strict=True):
            others = [
                other for other in row[np.argsort(-of_row[row])] if keys[other] != key_of(query)
            ]
            drawn = [rng.randrange(*bounds) for bounds in ranks]
            pairs += [(query, pool[others[rank]]) for rank in drawn if rank < len(others)]
    return pairs


def texts_by_key(texts: Iterable[str], allows: Callable[[str], bool]) -> list[str]:
    """The allowed texts, of those with the same key the last."""
    return list({key_of(text): text for text in texts if allows(text)}.values())


def choose_questions(
    given: argparse.Namespace, train: Sequence[Example], seen: Filter, rng: random.Random
) -> list[Pair]:
    """Pairs of a list of questions, and questions of it or of PARA's training rows beside a near one."""
    num_listed, num_near = given.question_pairs
    listed = list(read_columns(given.questions, SENTENCES))
    texts = chain(
        (text for example in train for text in example.texts), chain.from_iterable(listed)
    )
    questions = texts_by_key(texts, seen.allows)
    rng.shuffle(questions)
    rng.shuffle(listed)
    pairs = list(islice(seen.new_pairs(listed), num_listed))
    if num_near:  # a fifth more than are asked for, since some will be there already
        queries = rng.sample(questions, min(num_near * 6 // 5, len(questions)))
        pairs += islice(
            seen.new_pairs(near_pairs(queries, questions, QUESTION_RANKS, rng)), num_near
        )
    rng.shuffle(pairs)
    return pairs


def choose_sentence_pairs(
    given: argparse.Namespace, train: Sequence[Example], seen: Filter, rng: random.Random
) -> list[Pair]:
    """Premises with their hypotheses, and STS's training sentences beside near ones of their own or of other files."""
    num_listed, num_near = given.sentence_pairs
    own = texts_by_key((text for example in train for text in example.texts), seen.allows)
    listed = list(read_columns(given.premises, PREMISES))
    rng.shuffle(listed)
    pairs = list(islice(seen.new_pairs(listed), num_listed))
    if num_near:
        similar = chain.from_iterable(read_columns(path, SENTENCES) for path in given.similar)
        texts = chain(own, (premise for premise, _ in listed), chain.from_iterable(similar))
        pool = [text for text in dict.fromkeys(texts) if seen.allows(text)]
        near = near_pairs(own, pool, given.ranks, rng)
        rng.shuffle(near)
        pairs += islice(seen.new_pairs(near), num_near)
    rng.shuffle(pairs)
    return pairs


def bounds_of(text: str) -> tuple[int, int]:
    """ "3-20" -> (3, 20): ranks 3 to 19."""
    if (
        not (found := re.fullmatch(r"(\d+)-(\d+)", text))
        or not int(found[1]) < int(found[2]) < NUM_NEAREST
    ):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not two ranks such as 3-20, the second one larger and below {NUM_NEAREST}"
        )
    return int(found[1]), int(found[2])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unlabelled",
        allow_abbrev=False,
        description=__doc__.splitlines()[0],
    )
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
        help="tab-separated files with sentence1, sentence2, whose "
        "sentences can be neighbours of STS's too",
    )
    parser.add_argument(
        "--sentences", type=int, default=50000, help="of reviews, at most (%(default)s)"
    )
    for flag, listed, near in (("--question-pairs", 15000, 25000), ("--sentence-pairs", 0, 25000)):
        parser.add_argument(
            flag,
            nargs=2,
            type=int,
            metavar=("LISTED", "NEAR"),
            default=[listed, near],
            help=f"so many of the list and so many near ones, at most ({listed} {near})",
        )
    parser.add_argument(
        "--ranks",
        nargs="+",
        type=bounds_of,
        default=[(0, 3), (3, 20)],
        metavar="FIRST-END",
        help=f"each of STS's sentences gets a neighbour of each; END below {NUM_NEAREST} (0-3 3-20)",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="TEXT",
        help="folder of an earlier call, whose text is left out",
    )
    parser.add_argument("--seed", type=int, default=11, help="of all that is drawn (%(default)s)")
    return parser.parse_args(arguments)


@exit_code("python -m benchmarks.unlabelled")
def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    check_writable(given.out)
    if not is_free(given.out):
        raise ValueError(
            f"{given.out} exists; nothing is overwritten. Choose another folder as --out."
        )
    check_at_least(given, {"sentences": 0})
    check_sources(given)
    if min(given.question_pairs + given.sentence_pairs) < 0:
        raise ValueError(
            "--question-pairs and --sentence-pairs are numbers of pairs; pass 0 or more."
        )
    course = {
        task: {
            split: read_examples(
                Path(given.data_dir) / name, FORMATS[task], labelled=False
            ).examples
            for split, name in names.items()
        }
        for task, names in COURSE_FILES.items()
    }
    seen, rng = Filter(course), random.Random(given.seed)
    if given.beside:
        seen.leave_out(given.beside)
    sentences = list(seen.new_sentences(sentences_of(given.reviews)))
    rng.shuffle(sentences)
    chosen = {"sst": sentences[: given.sentences]}
    chosen["para"] = list(
        map("\t".join, choose_questions(given, course["para"]["train"], seen, rng))
    )
    chosen["sts"] = list(
        map("\t".join, choose_sentence_pairs(given, course["sts"]["train"], seen, rng))
    )
    given.out.mkdir(parents=True, exist_ok=True)
    for task, lines in chosen.items():
        path = given.out / f"{task}.txt"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        print(f"{path}: {len(lines):,} lines")


if __name__ == "__main__":
    sys.exit(main())
