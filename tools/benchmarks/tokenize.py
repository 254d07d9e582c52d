"""How fast does text become token ids, against transformers' fast tokenizer? Are they the same?

The text is all rows of the nine files in the data folder. Ours makes the arrays that training
reads. The peer is called once for each file. Both use the same library of tokenizers, so this
measures the code around it. Then comes the second reading: a run that finds the ids of all files in
the token cache.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from data.batching import EncodedExamples, arrange_sentences
from data.examples import Example
from data.options import DataOptions
from minbert import BertTokenizer
from multitask.rows import read_tables
from tools.benchmarks.comparison import Check, Comparison, json_line, versions
from tools.benchmarks.inputs import MAX_LENGTH, require
from tools.benchmarks.settings import Settings
from tools.benchmarks.timing import alternate

Files = Sequence[Sequence[Example]]


class TokenIds(NamedTuple):
    """The token ids and segment ids of the rows of a file."""

    input_ids: list[list[int]]
    token_type_ids: list[list[int]]


def encode_by_ours(tokenizer: BertTokenizer, examples: Sequence[Example]) -> TokenIds:
    """Return the ids of a file by our tokenizer."""
    first, second = arrange_sentences(examples, "cross")
    return TokenIds(*tokenizer.encode(first, second, max_length=MAX_LENGTH))


def encode_by_peer(tokenizer: Callable[..., Any], examples: Sequence[Example]) -> TokenIds:
    """Return the ids of a file by transformers' tokenizer."""
    first, second = arrange_sentences(examples, "cross")
    # It returns lists of ids, without padding.
    encoded = tokenizer(first, second, truncation=True, max_length=MAX_LENGTH)
    return TokenIds(encoded["input_ids"], encoded["token_type_ids"])


def num_differences(files: Files, ours: BertTokenizer, peer: Callable[..., Any]) -> int:
    """Return the number of rows to which the two give different token or segment ids."""
    count = 0
    for examples in files:
        our_rows = zip(*encode_by_ours(ours, examples), strict=True)
        peer_rows = zip(*encode_by_peer(peer, examples), strict=True)
        # A row is its token ids and its segment ids.
        for our_row, peer_row in zip(our_rows, peer_rows, strict=True):
            count += our_row != peer_row
    return count


def seconds_of_second_reading(files: Files, model: Path, num_rounds: int) -> float:
    """Return the median seconds until all ids are there, from a cache that is filled already."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(1 + num_rounds):
            # A new tokenizer for each round, as in a new run.
            tokenizer = BertTokenizer.from_pretrained(model, cache=Path(folder))
            start = time.perf_counter()
            for examples in files:
                EncodedExamples(examples, tokenizer, MAX_LENGTH)
            seconds.append(time.perf_counter() - start)
    # The first round filled the cache.
    return statistics.median(seconds[1:])


def read_files(settings: Settings) -> Files:
    """Return the examples of the nine files. Quick: at most 1,000 of each."""
    num_rows = settings.size(10**9, 1000)
    files = []
    for splits in read_tables(DataOptions(data_dir=settings.data_dir).with_files()).values():
        for table in splits.values():
            files.append(table.cut(num_rows).examples)
    return files


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 5 rounds of all rows; quick: 3."""
    require("transformers")
    from transformers import BertTokenizerFast  # type: ignore[attr-defined]

    files = read_files(settings)
    ours = BertTokenizer.from_pretrained(settings.model)
    peer = BertTokenizerFast.from_pretrained(settings.model)
    differences = num_differences(files, ours, peer)

    sides = {
        "ours": lambda part: EncodedExamples(files[part], ours, MAX_LENGTH),
        "peer": lambda part: encode_by_peer(peer, files[part]),
    }
    num_rounds = settings.rounds(5, 3)
    seconds = alternate(sides, num_rounds, len(files))
    second_reading = seconds_of_second_reading(files, settings.model, num_rounds)

    num_rows = sum(len(examples) for examples in files)
    comparison = Comparison.of(
        "EncodedExamples : BertTokenizerFast",
        "rows/s",
        seconds["ours"],
        seconds["peer"],
        per=num_rows,
    )
    checks = [
        Check("rows whose ids differ", differences, "<=", 0),
        Check("seconds of the second reading", second_reading, "<=", 1.0),
    ]
    note = f"{num_rows:,} rows of {len(files)} files"
    return json_line(
        "tokenize", [comparison], versions("tokenizers", "transformers"), checks, [note]
    )
