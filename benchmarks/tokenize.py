"""How fast does text become token ids, against transformers' fast tokenizer, and are they the same?

All rows of the nine files in the data folder. Ours makes the arrays that training reads; the peer is called once for
each file. Both stand on the same library of tokenizers, so this asks what each puts around it. Then the second reading:
a run that finds the ids of all files in the token cache.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import MAX_LENGTH, Settings, require
from benchmarks.sides import alternate
from command_line.options import Options
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertTokenizer
from multitask.stage import read_tables

Files = Sequence[Sequence[Example]]


def columns(examples: Sequence[Example]) -> tuple[list[str], list[str] | None]:
    """First and second sentences; None where there are no pairs."""
    first, second = (
        [getattr(example, name) for example in examples] for name in ("sentence_1", "sentence_2")
    )
    return first, None if second[0] is None else second


def num_differences(files: Files, ours: BertTokenizer, peer) -> int:
    """Rows to which the two give different token or segment ids."""
    count = 0
    for examples in files:
        ids, types = ours.encode(*columns(examples), max_length=MAX_LENGTH)
        found = peer(*columns(examples), truncation=True, max_length=MAX_LENGTH)
        count += sum(
            row != other
            for row, other in zip(
                zip(ids, types, strict=True),
                zip(found["input_ids"], found["token_type_ids"], strict=True),
                strict=True,
            )
        )
    return count


def seconds_of_second_reading(files: Files, model: str, num_rounds: int) -> float:
    """Median seconds in which all files' ids are there, from a cache that an earlier tokenizer has filled."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for _ in range(1 + num_rounds):
            tokenizer = BertTokenizer.from_pretrained(model, cache=Path(folder))
            start = time.perf_counter()
            for examples in files:
                EncodedExamples(examples, tokenizer, MAX_LENGTH)
            found.append(time.perf_counter() - start)
    return statistics.median(found[1:])  # the first one filled it


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 5 rounds of all rows; quick: 3 of at most 1,000 rows a file."""
    require("transformers")
    from transformers import BertTokenizerFast

    tables = read_tables(Options(data_dir=settings.data_dir).with_files())
    files = [
        table.cut(settings.size(10**9, 1000)).examples
        for splits in tables.values()
        for table in splits.values()
    ]
    ours = BertTokenizer.from_pretrained(settings.model)
    peer = BertTokenizerFast.from_pretrained(settings.model)
    differences = num_differences(files, ours, peer)
    sides = {
        "ours": lambda part: EncodedExamples(files[part], ours, MAX_LENGTH),
        "peer": lambda part: peer(*columns(files[part]), truncation=True, max_length=MAX_LENGTH),
    }
    seconds = alternate(sides, settings.rounds(5, 3), len(files))
    second = seconds_of_second_reading(files, settings.model, settings.rounds(5, 3))
    num_rows = sum(map(len, files))
    comparison = Comparison.of(
        "EncodedExamples : BertTokenizerFast",
        "rows/s",
        seconds["ours"],
        seconds["peer"],
        per=num_rows,
    )
    return json_line(
        "tokenize",
        [comparison],
        versions("tokenizers", "transformers"),
        [
            Check("rows whose ids differ", differences, "<=", 0),
            Check("seconds of the second reading", second, "<=", 1.0),
        ],
        [f"{num_rows:,} rows of {len(files)} files"],
    )
