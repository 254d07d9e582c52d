"""A dev score taken apart: buckets of rows.

Pure functions on arrays. Next: page.py, which shows the numbers.

Legend: N rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from data.examples import Example

# The lower edges of all overlap buckets but the first. The last bucket holds pairs of equal words.
OVERLAP_EDGES = (0.2, 0.4, 0.6, 0.8, 1.0)
MAX_UNITS = 10  # of a scale, to have a bucket for each
OVERLAP_NAMES = ("below 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1", "1")


class Bucket(NamedTuple):
    """Rows that belong together. In a list of buckets, each row is in exactly one."""

    name: str
    rows: np.ndarray  # row numbers, int64


def words_of(text: str) -> list[str]:
    """The lower-cased words of a text: runs of letters, digits and underscores.

    The TF-IDF baseline splits texts in the same way.
    """
    return re.findall(r"\w+", text.lower())


def count_words(examples: Sequence[Example]) -> np.ndarray:
    """The number of words of each example, int64 (N,). A pair counts both sentences."""
    counts = []
    for example in examples:
        text = f"{example.sentence_1} {example.sentence_2 or ''}"
        counts.append(len(words_of(text)))
    return np.array(counts)


def word_overlap(first: str, second: str) -> float:
    """The Jaccard index of the two sets of lower-cased words: shared words / all words, 0 to 1.

    It is 0.0 if there are no words at all.
    """
    first_words = set(words_of(first))
    second_words = set(words_of(second))
    num_all = len(first_words | second_words)
    return len(first_words & second_words) / max(1, num_all)


def quartiles(values: np.ndarray) -> list[Bucket]:
    """Four buckets of about equal size, named by their least and their greatest value.

    values: int64 (N,). Equal values share a bucket, so the sizes differ. If one value fills several
    quarters, there are fewer buckets.
    """
    # With "inverted_cdf" each edge is one of the values.
    shares = [0.25, 0.5, 0.75, 1]
    edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    bucket = np.searchsorted(edges, values)  # (N,)

    buckets = []
    for number in range(len(edges)):
        rows = np.flatnonzero(bucket == number)
        low = values[rows].min()
        high = values[rows].max()
        name = f"{low} to {high}" if low < high else f"{low}"
        buckets.append(Bucket(name, rows))
    return buckets


def overlap_buckets(overlaps: np.ndarray) -> list[Bucket]:
    """Six buckets of word overlap (N,), 0 to 1. They are fixed, so pages can be compared."""
    bucket = np.digitize(overlaps, OVERLAP_EDGES)  # (N,)
    buckets = []
    for number, name in enumerate(OVERLAP_NAMES):
        buckets.append(Bucket(name, np.flatnonzero(bucket == number)))
    return buckets


def scale_edges(low: float, high: float) -> list[float]:
    """The edges of buckets on a scale: each unit of it, or fifths.

    A scale of whole numbers with at most ten units has a bucket for each. Others have five.
    """
    width = high - low
    if float(low).is_integer() and float(width).is_integer() and width <= MAX_UNITS:
        return [low + unit for unit in range(int(width) + 1)]
    return [low + width * fifth / 5 for fifth in range(6)]


def edge_buckets(labels: np.ndarray, edges: Sequence[float]) -> list[Bucket]:
    """A bucket between each two edges. Labels outside are in the first or the last one.

    A label on an edge belongs to the bucket above it, and one on the last edge to the last bucket.
    labels: (N,).
    """
    inner = np.asarray(edges[1:-1], dtype=np.float64)
    numbers = np.digitize(labels.astype(np.float64), inner)  # (N,)
    buckets = []
    for number, (low, high) in enumerate(pairwise(edges)):
        buckets.append(Bucket(f"{low:g} to {high:g}", np.flatnonzero(numbers == number)))
    return buckets
