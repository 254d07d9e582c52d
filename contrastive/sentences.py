"""What a contrastive stage reads: sentences, labelled pairs, triplets, plain text. Next: plans.py, pretrain.py.

B triplets, N all of them, R rows for the encoder.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from data.batching import Batch, EncodedExamples
from data.corpus import check_files, read_lines
from data.readers import Example
from data.token_cache import tokenize_once
from minbert import BertTokenizer

POSITIVE_ABOVE = 0.6  # [BSC]: STS pairs belong together where score / 5 is above
TRIPLET = ("premise", "entailment", "contradiction")
RELEASED = (
    "sent0",
    "sent1",
    "hard_neg",
)  # the same in the file of SimCSE's authors, which is comma-separated


def unique_sentences(
    examples: Iterable[Example], tokenizer: BertTokenizer, max_length: int
) -> list[Example]:
    """Every sentence of the examples once, each side of a pair on its own, in first-seen order.

    Sentences that the tokenizer cannot tell apart (case, accents, what max_length cuts) count as one, so that no batch
    holds a negative that is equal to its anchor.
    """
    texts = [text for example in examples for text in example.texts]
    if not texts:
        return []
    rows = tokenize_once(tokenizer, texts, None, max_length)
    ends = rows.lengths.cumsum()
    first_seen: dict[bytes, str] = {}
    for start, end, text in zip(ends - rows.lengths, ends, texts, strict=True):
        first_seen.setdefault(rows.tokens[0, start:end].tobytes(), text)
    return [
        Example(f"sentence-{number}", text, None, None)
        for number, text in enumerate(first_seen.values())
    ]


def labelled_pairs(
    para: Iterable[Example], sts: Iterable[Example], keeps_negatives: bool
) -> list[Example]:
    """The tasks' pairs with labels 0 to 1: PARA's own, and score / 5 of STS.

    Above POSITIVE_ABOVE two sentences belong together; others remain only where negatives are kept.
    """
    pairs = [
        Example(f"para-{each.id}", each.sentence_1, each.sentence_2, each.label) for each in para
    ]
    pairs += [
        Example(f"sts-{each.id}", each.sentence_1, each.sentence_2, each.label / 5) for each in sts
    ]
    return [pair for pair in pairs if keeps_negatives or pair.label > POSITIVE_ABOVE]


def read_triplets(path: str | Path) -> list[tuple[str, str, str]]:
    """(premise, entailment, contradiction) of a tab-separated file with these columns; further ones are not read.

    Or sent0, sent1, hard_neg of a comma-separated one. ValueError names file and line where a column or a text is
    missing.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            has_tabs = "\t" in file.readline()
            file.seek(0)
            lines = csv.reader(
                file,
                **{"delimiter": "\t", "quoting": csv.QUOTE_NONE} if has_tabs else {"strict": True},
            )
            (_, header), *rows = [(lines.line_num, row) for row in lines if row] or [(1, [])]
    except OSError as error:
        raise ValueError(
            f"--nli {path}: {error.strerror}. Give a file of triplets, tab-separated with the columns "
            f"{', '.join(TRIPLET)}."
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path}: neither tab- nor comma-separated UTF-8 ({error}). Convert the file."
        ) from error
    names = TRIPLET if has_tabs else RELEASED
    if not set(names) <= set(header) or not rows:
        raise ValueError(
            f"{path}, line 1: the header has the columns {', '.join(header) or 'none'}, and {len(rows)} "
            f"rows follow; needed are {', '.join(TRIPLET)}, separated by tabs, or {', '.join(RELEASED)}, "
            "separated by commas, and rows. Fix the file."
        )
    columns = [header.index(name) for name in names]
    triplets = []
    for number, row in rows:
        texts = tuple(row[column].strip() for column in columns if column < len(row))
        if len(texts) < 3 or not all(texts):
            raise ValueError(
                f"{path}, line {number}: {', '.join(names)} are not all there. Fix or remove the row."
            )
        triplets.append(texts)
    return triplets


class EncodedTriplets:
    """Triplets tokenized once; a batch of B has R = 3B rows: first sentences, positives, hard negatives."""

    def __init__(
        self, triplets: Sequence[tuple[str, str, str]], tokenizer: BertTokenizer, max_length: int
    ) -> None:
        self.examples = tuple(
            Example(f"triplet-{number}", triplet[side], None, None)
            for side in range(3)
            for number, triplet in enumerate(triplets)
        )
        self.rows = EncodedExamples(self.examples, tokenizer, max_length)
        self.num_truncated = self.rows.num_truncated
        self.lengths = self.rows.lengths.reshape(3, -1).max(axis=0)  # (N,)

    def batch(self, indices: Sequence[int]) -> Batch:
        """The triplets at `indices`, in that order."""
        return self.rows.batch(
            [index + side * len(self.lengths) for side in range(3) for index in indices]
        )


def tension_sentences(
    corpus: str, train: Iterable[Example], tokenizer: BertTokenizer, max_length: int, seed: int
) -> list[Example]:
    """What contrastive tension reads: "none" the training sentences, "random-words" as many sequences of words drawn
    from the vocabulary, as long as those ([CT] 5.4 draws 20 to 75 tokens), else the lines of a text file. No sentence
    twice.
    """
    if corpus == "random-words":
        generator = torch.Generator().manual_seed(seed)
        words = [token for token in tokenizer.vocabulary if token.isalpha()]
        lengths = [
            len(each.sentence_1.split()) for each in unique_sentences(train, tokenizer, max_length)
        ]
        draws = (
            torch.randint(len(words), (length,), generator=generator).tolist() for length in lengths
        )
        train = [
            Example("", " ".join(words[index] for index in draw), None, None) for draw in draws
        ]
    elif corpus != "none":
        check_files([Path(corpus)])
        train = [Example("", line, None, None) for line in read_lines([Path(corpus)])]
    sentences = unique_sentences(train, tokenizer, max_length)
    if len(sentences) < 2:
        source = "the training data" if corpus == "none" else f"--ct_corpus {corpus}"
        raise ValueError(
            f"{source}: {len(sentences)} different sentences; contrastive tension needs two, to tell them "
            "apart. Give more text."
        )
    return sentences
