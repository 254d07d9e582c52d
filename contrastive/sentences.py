"""The training text of a contrastive stage: sentences, labelled pairs, triplets, plain text.

B groups of a batch, N groups in all, S texts of a group, R rows for the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F

from contrastive.options import RANDOM_WORDS
from data import training_texts
from data.batching import Batch, EncodedExamples
from data.corpus import check_files, read_lines
from data.examples import Example
from data.token_cache import tokenize_once
from minbert import BertTokenizer
from minbert.commands.options import NONE

POSITIVE_ABOVE = 0.6  # [BSC]: the sentences of an STS pair belong together if score / 5 is above
BYTE_LEVEL_MARK = "\u0120"  # a space, before the first piece of a word of byte-level BPE
RANDOM_LENGTHS = (20, 75)  # words of a random sequence ([CT] section 5.4)
STS_SCALE = 5  # the highest score of an STS pair


class Triplet(NamedTuple):
    """A sentence, one that it entails, and one that contradicts it."""

    premise: str
    entailment: str
    contradiction: str


# --- sentences and labelled pairs -----------------------------------------------------------------


def read_sentences(path: str) -> list[Example]:
    """The lines of a text file, as sentences without labels."""
    check_files([Path(path)])
    return [unlabelled("", line) for line in read_lines([Path(path)])]


def unlabelled(name: str, sentence: str) -> Example:
    """A single sentence as an example without a label."""
    return Example(name, sentence, None, None)


def unique_sentences(
    examples: Iterable[Example], tokenizer: BertTokenizer, max_length: int
) -> list[Example]:
    """Every sentence of the examples once, each side of a pair by itself, in first-seen order.

    Sentences that the tokenizer cannot tell apart (case, accents, or a difference that max_length
    cuts off) count as one. So no batch holds a negative that is equal to its anchor.
    """
    texts: list[str] = []
    for example in examples:
        texts += example.texts
    if not texts:
        return []

    # The token ids of all texts are one long row. Text i ends at ends[i].
    rows = tokenize_once(tokenizer, texts, None, max_length)
    ends = rows.lengths.cumsum()
    starts = ends - rows.lengths
    first_seen: dict[bytes, str] = {}
    for start, end, text in zip(starts, ends, texts, strict=True):
        token_ids = rows.tokens[0, start:end].tobytes()
        first_seen.setdefault(token_ids, text)
    return [unlabelled(f"sentence-{n}", text) for n, text in enumerate(first_seen.values())]


def label_of(example: Example) -> float:
    """The label of a training example. All of them have one."""
    assert example.label is not None, f"{example.id} has no label"
    return example.label


def labelled_pairs(
    para: Iterable[Example], sts: Iterable[Example], keeps_negatives: bool
) -> list[Example]:
    """The pairs of PARA and STS with labels from 0 to 1: PARA's labels, and score / 5 of STS.

    Two sentences belong together if their label is above POSITIVE_ABOVE. Other pairs remain only
    where `keeps_negatives`.
    """
    pairs = []
    for pair in para:
        label = label_of(pair)
        pairs.append(Example(f"para-{pair.id}", pair.sentence_1, pair.sentence_2, label))
    for pair in sts:
        label = label_of(pair) / STS_SCALE
        pairs.append(Example(f"sts-{pair.id}", pair.sentence_1, pair.sentence_2, label))
    return [pair for pair in pairs if keeps_negatives or label_of(pair) > POSITIVE_ABOVE]


# --- triplets -------------------------------------------------------------------------------------


def read_triplets(path: str | Path) -> list[Triplet]:
    """The triplets of any table that data/training_texts.py reads.

    Its columns are premise, entailment and contradiction. SimCSE's authors call them sent0, sent1
    and hard_neg, and sentence-transformers anchor, positive and negative. In a table of labelled
    pairs (premise, hypothesis, label) the triplets are found. ValueError names file and line where
    a column or a text is missing.
    """
    return [Triplet(*texts) for texts in training_texts.read_triplets(path).rows]


class EncodedGroups:
    """Groups of texts that are tokenized once: an anchor, a positive, and perhaps hard negatives.

    A batch of B groups of S texts has R = S B rows: all anchors, then all positives, then the first
    negatives of all, and so on. A triplet is a group of three texts.

    groups: N groups of S texts, at least two. labels: N numbers from 0 to 1, of each anchor with
    its positive. None: all of them belong together.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[str]],
        tokenizer: BertTokenizer,
        max_length: int,
        labels: Sequence[float] | None = None,
    ) -> None:
        self.groups = groups
        self.labels = labels
        self.num_sides = len(groups[0])
        examples = []
        for side in range(self.num_sides):
            for number, group in enumerate(groups):
                examples.append(unlabelled(f"triplet-{number}", group[side]))
        self.examples = tuple(examples)
        self.rows = EncodedExamples(self.examples, tokenizer, max_length)
        self.num_truncated = self.rows.num_truncated
        self.lengths = self.rows.lengths.reshape(self.num_sides, -1).max(axis=0)  # (N,)

    def sides(self, indices: Sequence[int]) -> list[list[int]]:
        """The rows of a batch, side by side. Row n + s N is text s of group n.

        A subclass may add sides, such as negatives that it has found.
        """
        sides = []
        for side in range(self.num_sides):
            first = side * len(self.groups)
            sides.append([first + index for index in indices])
        return sides

    def batch(self, indices: Sequence[int]) -> Batch:
        """The groups at `indices`, in that order. The ids are (B,), one for each group."""
        sides = self.sides(indices)
        batch = self.rows.batch(list(chain.from_iterable(sides)))
        labels = None if self.labels is None else [self.labels[index] for index in indices]
        texts = []
        for rows in zip(*sides, strict=True):
            texts.append(tuple(self.examples[row].sentence_1 for row in rows))
        return replace(
            batch,
            ids=batch.ids[: len(indices)],
            labels=None if labels is None else torch.tensor(labels, dtype=torch.float32),
            texts=tuple(texts),
        )


# --- sentences with a teacher's vectors ---------------------------------------------------------


class TaughtSentences(EncodedExamples):
    """Single sentences with a teacher's vector each, which a batch has in place of labels.

    vectors: (examples, H) float32. Row i belongs to example i.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        vectors: torch.Tensor,
        tokenizer: BertTokenizer,
        max_length: int,
    ) -> None:
        super().__init__(examples, tokenizer, max_length)
        self.vectors = vectors

    def batch(self, indices: Sequence[int]) -> Batch:
        """The sentences at `indices`, in that order. The labels are (B, H)."""
        return replace(super().batch(indices), labels=self.vectors[list(indices)])


def change_width(vectors: torch.Tensor, width: int) -> torch.Tensor:
    """Vectors (N, D) at length 1 as (N, width), with cosines as near as this width allows.

    Narrower ones are the coordinates along the principal directions, those of the largest
    eigenvalues of the sum of all v v^T. Wider ones get zeros, which change no cosine.
    """
    vectors = F.normalize(vectors, dim=-1)
    if vectors.size(1) <= width:
        return F.pad(vectors, (0, width - vectors.size(1)))
    directions = torch.linalg.eigh(vectors.T @ vectors).eigenvectors  # (D, D), ascending
    return vectors @ directions[:, -width:]  # (N, width)


# --- the text of contrastive tension --------------------------------------------------------------


def tension_sentences(
    corpus: str, train: Iterable[Example], tokenizer: BertTokenizer, max_length: int, seed: int
) -> list[Example]:
    """The sentences of contrastive tension, each one once.

    corpus: "none" for the training sentences, "random-words" for as many sequences of random words,
    else the path of a text file, of which every line is read. ValueError for fewer than two
    different sentences.
    """
    if corpus == RANDOM_WORDS:
        train = random_sequences(unique_sentences(train, tokenizer, max_length), tokenizer, seed)
    elif corpus != NONE:
        train = read_sentences(corpus)

    sentences = unique_sentences(train, tokenizer, max_length)
    if len(sentences) < 2:
        source = "the training data" if corpus == NONE else f"--ct_corpus {corpus}"
        raise ValueError(
            f"{source}: {len(sentences)} different sentences; contrastive tension tells sentences "
            "apart, so at least 2 are expected. Add more text."
        )
    return sentences


def words_of(tokenizer: BertTokenizer) -> list[str]:
    """The words of the vocabulary that consist of letters, in its order.

    In WordPiece a word has no mark, and a later piece has one. In byte-level BPE and Unigram the
    first piece of a word has one, which is left out.
    """
    if not tokenizer.continues_word("word"):
        return [token for token in tokenizer.vocabulary if token.isalpha()]
    words = []
    for token in tokenizer.vocabulary:
        word = token[1:]
        if tokenizer.continues_word(token) or not word.isalpha():
            continue
        # There, a sign beyond ASCII is a byte and no letter.
        if token[0] != BYTE_LEVEL_MARK or word.isascii():
            words.append(word)
    return words


def draw_text(words: Sequence[str], num_words: int, generator: torch.Generator) -> str:
    """A sequence of words, all equally likely."""
    drawn = torch.randint(len(words), (num_words,), generator=generator).tolist()
    return " ".join(words[index] for index in drawn)


def random_sequences(
    sentences: Sequence[Example], tokenizer: BertTokenizer, seed: int
) -> list[Example]:
    """For each sentence a sequence of as many words, drawn from the vocabulary.

    [CT] section 5.4 draws sequences of 20 to 75 tokens instead.
    """
    generator = torch.Generator().manual_seed(seed)
    words = words_of(tokenizer)
    sequences = []
    for sentence in sentences:
        length = len(sentence.sentence_1.split())
        sequences.append(unlabelled("", draw_text(words, length, generator)))
    return sequences


def draw_words(tokenizer: BertTokenizer, num_sequences: int, seed: int) -> list[Example]:
    """Sequences of 20 to 75 words, drawn from the vocabulary ([CT] section 5.4).

    All lengths are equally likely, and so are all words. Pieces of words are not drawn: beside
    other words they would be read as other tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    words = words_of(tokenizer)
    shortest, longest = RANDOM_LENGTHS
    sequences = []
    for number in range(num_sequences):
        length = int(torch.randint(shortest, longest + 1, (), generator=generator))
        text = draw_text(words, length, generator)
        sequences.append(unlabelled(f"random-{number}", text))
    return sequences
