"""PARA and STS: pairs of real sentences, with labels of rules and of the teacher.

PARA. Two questions are labelled 1 where the teacher's cosine is at least SAME, and 0 where it is
below DIFFERENT or where they name different numbers. Pairs in between are left out. A question and
another wording of it are 1. A question and the same wording with another content are 0.

STS. The label is five times the teacher's cosine. A rule corrects it where an encoder is known to
be blind: a sentence and its negation, with its sides swapped, or with another number or name, get
at most the label in MOST. A wording that surely means the same gets at least the label in LEAST.

Legend: N sentences, H size of a vector.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from tools.sample import edits
from tools.sample.edits import Edit, WordEdits
from tools.sample.held_out import HeldOut
from tools.sample.questions import (
    REFUSED,
    numbers_of,
    read_questions,
    rewordings,
    with_content,
)
from tools.sample.rows import SPLITS, Row, Source, in_split, split_of, unique
from tools.sample.teacher import Teacher

# The rows by split, and in it by kind.
Kinds = dict[str, list[tuple[str, list[Row]]]]

# --- which pairs ----------------------------------------------------------------------------------

NUM_NEIGHBOURS = 12
NUM_NEAR = 5  # of a question
CHUNK = 1000

SAME = 0.86
DIFFERENT = 0.76
# A pair of questions must be somewhat alike, and a changed one not too much.
LEAST_ALIKE = 0.35
REWORDED = 0.72
CHANGED = 0.95

# Questions that are as alike as SAME are in one split. Prices of coins are asked very often.
COMMON = re.compile(r"\b(worth|value|cost|price|how many|how much)\b", re.IGNORECASE)
SHARE_COMMON = 0.15

# How often a sentence may stand in pairs of one kind.
MAX_USES = 2

MAX_LABEL = 5.0
MOST = {"negate": 3.0, "swap_sides": 3.5, "antonym": 3.0, "change_number": 3.8, "change_name": 3.8}
LEAST = {"reword": 4.7, "swap_clauses": 4.7}

MIN_WORDS = 4
MAX_WORDS_EVERYDAY = 16
MIN_WORDS_WIKIPEDIA = 8
MAX_WORDS_WIKIPEDIA = 22
MAX_SENTENCES = 9000


class Neighbours(NamedTuple):
    """The nearest sentences of N sentences: their numbers and cosines, (N, NUM_NEIGHBOURS)."""

    numbers: np.ndarray
    cosines: np.ndarray


def nearest(vectors: np.ndarray) -> Neighbours:
    """Return the nearest other vectors of each one. vectors: (N, H), of length 1."""
    numbers = []
    cosines = []
    for start in range(0, len(vectors), CHUNK):
        similarity = vectors[start : start + CHUNK] @ vectors.T  # (CHUNK, N)
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -1.0  # a vector and itself
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :NUM_NEIGHBOURS]
        numbers.append(order)
        cosines.append(np.take_along_axis(similarity, order, axis=1))
    return Neighbours(np.concatenate(numbers), np.concatenate(cosines))


def groups_of_alike(neighbours: Neighbours) -> np.ndarray:
    """Return the number of a group for each sentence, (N,). Those as alike as SAME share one."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    num_rows, width = neighbours.numbers.shape
    is_alike = (neighbours.cosines >= SAME).ravel()
    first = np.repeat(np.arange(num_rows), width)[is_alike]
    second = neighbours.numbers.ravel()[is_alike]
    graph = coo_matrix((np.ones(len(first)), (first, second)), shape=(num_rows, num_rows))
    return connected_components(graph, directed=False)[1]


# --- PARA -----------------------------------------------------------------------------------------


class Questions:
    """The questions of all splits, their vectors and their neighbours."""

    def __init__(self, texts: Sequence[str], teacher: Teacher, words: WordEdits) -> None:
        self.texts = list(texts)
        self.teacher = teacher
        self.words = words
        vectors = teacher.vectors(self.texts)
        self.neighbours = nearest(vectors)
        groups = groups_of_alike(self.neighbours)
        # A group is in the split of its first member.
        first: dict[int, str] = {}
        self.splits = []
        for text, group in zip(self.texts, groups.tolist(), strict=True):
            first.setdefault(group, text)
            self.splits.append(split_of(first[group]))

    def members(self, split: str) -> list[int]:
        """The numbers of the questions of a split."""
        return [number for number, name in enumerate(self.splits) if name == split]

    def near(self, split: str) -> list[Row]:
        """Return pairs of neighbours, labelled by the teacher and by their numbers."""
        rows = []
        for number in self.members(split):
            for other, cosine in zip(
                self.neighbours.numbers[number, :NUM_NEAR].tolist(),
                self.neighbours.cosines[number, :NUM_NEAR].tolist(),
                strict=True,
            ):
                texts = (self.texts[number], self.texts[other])
                label = label_of_questions(texts, cosine)
                if self.splits[other] == split and label is not None:
                    rows.append(Row(texts, label, Source.NEAR_QUESTIONS))
        return rows

    def reworded(self, random: Random, split: str) -> list[Row]:
        """Return questions with other wordings of them. Some have a synonym as well."""
        pairs = []
        for number in self.members(split):
            wordings = rewordings(self.texts[number])
            for wording in random.sample(wordings, min(2, len(wordings))):
                changed = wording
                if random.random() < 0.4:
                    changed = self.words.synonym(random, wording) or wording
                pairs.append((self.texts[number], changed))
        return self.labelled(pairs, 1, Source.NEW_WORDING, REWORDED, 1.01)

    def changed(self, random: Random, split: str) -> list[Row]:
        """Return questions with others that ask something else in similar words."""
        pairs = []
        edits_of_questions: tuple[Edit, ...] = (
            edits.change_number,
            edits.swap_sides,
            self.words.antonym,
            self.words.sister,
        )
        for number in self.members(split):
            text = self.texts[number]
            for other in self.neighbours.numbers[number, 1:6].tolist():
                if self.splits[other] == split:
                    question = with_content(random, text, self.texts[other])
                    if question is not None and numbers_of(question) is not None:
                        pairs.append((text, question))
                        break
            question = random.choice(edits_of_questions)(random, text)
            if question is not None:
                wordings = [question, *rewordings(question)]
                pairs.append((text, random.choice(wordings)))
        return self.labelled(pairs, 0, Source.OTHER_CONTENT, LEAST_ALIKE, CHANGED)

    def labelled(
        self,
        pairs: Sequence[tuple[str, str]],
        label: float,
        source: Source,
        low: float,
        high: float,
    ) -> list[Row]:
        """Return the pairs whose cosine is from `low` to below `high`, with their label."""
        cosines = self.teacher.similarity([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        rows = []
        for pair, cosine in zip(pairs, cosines.tolist(), strict=True):
            has_same_numbers = numbers_of(pair[0]) == numbers_of(pair[1])
            is_contradicted = label == 0 and has_same_numbers and cosine >= SAME
            if low <= cosine < high and not is_contradicted:
                rows.append(Row(pair, label, source))
        return rows


def label_of_questions(texts: tuple[str, str], cosine: float) -> float | None:
    """Return 1, 0 or None for two questions that nobody labelled."""
    if cosine < LEAST_ALIKE:
        return None
    if numbers_of(texts[0]) != numbers_of(texts[1]):
        return 0.0
    if cosine >= SAME:
        return 1.0
    return 0.0 if cosine < DIFFERENT else None


def make_para(
    path: Path, held_out: HeldOut, teacher: Teacher, words: WordEdits, seed: int
) -> Kinds:
    """Return the rows of PARA by split, and in it by kind."""
    texts = [text for text in read_questions(path) if not held_out.touches(text)]
    questions = Questions(texts, teacher, words)
    kinds: Kinds = {}
    for split in SPLITS:
        near = questions.near(split)
        rows = [
            ("near, same", [row for row in near if row.label == 1]),
            ("near, different", [row for row in near if row.label == 0]),
            ("reworded", questions.reworded(Random(f"reworded {split} {seed}"), split)),
            ("changed", questions.changed(Random(f"changed {split} {seed}"), split)),
        ]
        random = Random(f"varied {split} {seed}")
        kinds[split] = [(name, varied(random, unique(members))) for name, members in rows]
    return kinds


def varied(random: Random, rows: Sequence[Row]) -> list[Row]:
    """Return rows in random order. No sentence comes often, and the most common topics seldom."""
    shuffled = list(rows)
    random.shuffle(shuffled)
    uses: Counter[str] = Counter()
    num_common = 0
    kept: list[Row] = []
    for row in shuffled:
        is_common = COMMON.search(row.texts[0]) is not None
        if is_common and num_common > SHARE_COMMON * len(kept) + 5:
            continue
        if any(uses[text] >= MAX_USES for text in row.texts):
            continue
        uses.update(row.texts)
        num_common += is_common
        kept.append(row)
    return kept


# --- STS ------------------------------------------------------------------------------------------


class Sentences(NamedTuple):
    """Sentences of one source, and the sources of rows that are made of them."""

    texts: list[str]
    near: Source
    edited: Source | None  # None: they are not changed


def read_everyday(path: Path) -> list[str]:
    """Read the everyday sentences that may be bundled."""
    return read_plain(path, MIN_WORDS, MAX_WORDS_EVERYDAY)


def read_wikipedia(path: Path) -> list[str]:
    """Read the sentences of Wikipedia that are not too long."""
    return read_plain(path, MIN_WORDS_WIKIPEDIA, MAX_WORDS_WIKIPEDIA)


def read_plain(path: Path, min_words: int, max_words: int) -> list[str]:
    """Read the sentences of plain letters with a number of words in this range."""
    texts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = " ".join(line.split())
        is_plain = re.fullmatch(r"[A-Z][A-Za-z0-9 ,.'$%-]+[.!?]", text) is not None
        if is_plain and min_words <= len(text.split()) <= max_words and not REFUSED.search(text):
            texts.append(text)
    return list(dict.fromkeys(texts))[:MAX_SENTENCES]


def near_sentences(random: Random, sentences: Sentences, split: str, teacher: Teacher) -> list[Row]:
    """Return neighbours and random pairs, labelled by the teacher."""
    texts = in_split(sentences.texts, split)
    vectors = teacher.vectors(texts)
    neighbours = nearest(vectors)
    rows = []
    for number, text in enumerate(texts):
        place = random.randrange(NUM_NEIGHBOURS)
        for rank in {0, place}:
            cosine = float(neighbours.cosines[number, rank])
            other = texts[neighbours.numbers[number, rank]]
            rows.append(Row((text, other), label_of(cosine), sentences.near))
        stranger = random.randrange(len(texts))
        cosine = float(vectors[number] @ vectors[stranger])
        rows.append(Row((text, texts[stranger]), label_of(cosine), sentences.near))
    return unique(rows)


def edited_sentences(
    random: Random, sentences: Sentences, split: str, teacher: Teacher, words: WordEdits
) -> list[Row]:
    """Return sentences with small changes of them."""
    if sentences.edited is None:
        return []
    changes: dict[str, Edit] = {
        "negate": edits.negate,
        "reword": edits.reword,
        "change_number": edits.change_number,
        "change_name": edits.change_name,
        "swap_sides": edits.swap_sides,
        "swap_clauses": edits.swap_clauses,
        "add_words": edits.add_words,
        "drop_words": edits.drop_words,
        "synonym": words.synonym,
        "two_synonyms": words.two_synonyms,
        "antonym": words.antonym,
        "sister": words.sister,
        "two_sisters": twice(words.sister),
        "drop_and_sister": chain(edits.drop_words, words.sister),
        "synonym_and_negate": chain(words.synonym, edits.negate),
    }
    pairs = []
    names = []
    for text in in_split(sentences.texts, split):
        # Rare edits are tried as often as frequent ones.
        for name in random.sample(list(changes), 4):
            changed = changes[name](random, text)
            if changed is not None and changed != text:
                pairs.append((text, changed))
                names.append(name)
                break
    cosines = teacher.similarity([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    rows = []
    for pair, name, cosine in zip(pairs, names, cosines.tolist(), strict=True):
        rows.append(Row(pair, label_of(cosine, name), sentences.edited))
    return unique(rows)


def label_of(cosine: float, edit: str = "") -> float:
    """Return the label of a pair, 0 to 5: the teacher's cosine and the rule of an edit."""
    label = MAX_LABEL * min(max(cosine, 0.0), 1.0)
    if edit == "synonym_and_negate":
        edit = "negate"
    label = min(label, MOST.get(edit, MAX_LABEL))
    return round(max(label, LEAST.get(edit, 0.0)), 2)


def twice(edit: Edit) -> Edit:
    """Return an edit that is made two times."""
    return chain(edit, edit)


def chain(first: Edit, second: Edit) -> Edit:
    """Return an edit that makes one change and then another."""

    def change(random: Random, text: str) -> str | None:
        changed = first(random, text)
        return None if changed is None else second(random, changed)

    return change


def make_sts(
    sentences: Sentences,
    held_out: HeldOut,
    teacher: Teacher,
    words: WordEdits,
    seed: int,
) -> Kinds:
    """Return the rows of STS by split, and in it by kind."""
    allowed = [text for text in sentences.texts if not held_out.touches(text)]
    sentences = sentences._replace(texts=allowed)
    kinds: Kinds = {}
    for split in SPLITS:
        rows = [
            ("near", near_sentences(Random(f"near {split} {seed}"), sentences, split, teacher)),
            (
                "edited",
                edited_sentences(
                    Random(f"edited {split} {seed}"), sentences, split, teacher, words
                ),
            ),
        ]
        random = Random(f"balanced {split} {seed}")
        kinds[split] = [(name, balanced(random, members)) for name, members in rows]
    return kinds


def balanced(random: Random, rows: Sequence[Row]) -> list[Row]:
    """Return rows in an order in which the five whole numbers of labels take turns."""
    shuffled = list(rows)
    random.shuffle(shuffled)
    by_label: dict[int, list[Row]] = {number: [] for number in range(5)}
    uses: Counter[str] = Counter()
    for row in shuffled:
        if all(uses[text] < MAX_USES for text in row.texts):
            uses.update(row.texts)
            by_label[min(int(row.label), 4)].append(row)
    ordered: list[Row] = []
    longest = max(len(members) for members in by_label.values())
    for place in range(longest):
        for members in by_label.values():
            if place < len(members):
                ordered.append(members[place])
    return ordered
