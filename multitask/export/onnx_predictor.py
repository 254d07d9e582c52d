"""Predicts with the ONNX model in this folder. It needs neither minBERT nor torch.

    pip install onnxruntime tokenizers numpy
    python predict.py < rows.txt

`multitask.export --format onnx` copies this file beside each model, as predict.py. A line of the
input is a text. Of a task of pairs it is two texts, with a tab between them. Each row is printed
behind its answer and the probability of this answer. A score has no probability.

From Python:

    from predict import OnnxPredictor

    predictor = OnnxPredictor("FOLDER")
    predictor.predict(["A lovely film."])  # array(['positive'], dtype=object)

N rows, B rows of a batch, R rows of the encoder (B, or 2B where a pair has two rows), T tokens,
C classes.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Encoding, Tokenizer

Row = str | Sequence[str]  # a text, or two


class OnnxPredictor:
    """An exported task, opened to predict texts or pairs of texts.

    folder: that of this file by default. batch_size: rows in the model at a time.

    Compare with Predictor of minBERT, which has the same methods and gives the same answers in
    fp32. Raises ValueError for rows of another kind.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent, batch_size: int = 64) -> None:
        folder = Path(folder)
        self.batch_size = batch_size
        self.settings = read_json(folder / "onnx.json")
        self.config = read_json(folder / "config.json")
        # The file says where rows are cut, and how they are padded.
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = self.settings["split_special_tokens"]
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )

    @property
    def is_regression(self) -> bool:
        """Whether the answers are numbers, and no classes."""
        return self.config["problem_type"] == "regression"

    @property
    def is_multilabel(self) -> bool:
        """Whether a row may have several labels, or none."""
        return self.config["problem_type"] == "multi_label_classification"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the columns of `predict_proba`."""
        return () if self.is_regression else tuple(self.config["id2label"].values())

    # --- answers ----------------------------------------------------------------------------------

    def predict(self, rows: Iterable[Row]) -> np.ndarray:
        """Answer each row, in the order of the rows.

        rows: texts, or tuples of two texts where the task reads pairs.

        Returns (N,): the names of the classes, or the numbers of a score. Of a task with several
        labels: a tuple of names for each row.
        """
        logits = self.logits(rows)  # (N, C)
        if self.is_regression:
            return logits[:, 0].astype(float)
        if self.is_multilabel:
            answers = np.empty(len(logits), dtype=object)
            answers[:] = [self.names_of(row) for row in logits > 0]
            return answers
        return np.array([self.label_names[label] for label in logits.argmax(axis=1)], dtype=object)

    def names_of(self, has_label: np.ndarray) -> tuple[str, ...]:
        """The names of the labels of a row, from (C,) of bool."""
        return tuple(self.label_names[number] for number in np.flatnonzero(has_label))

    def predict_proba(self, rows: Iterable[Row]) -> np.ndarray:
        """The probability of each class for each row: (N, C) float64, each row adds up to 1.

        Of several labels, each has a probability of its own.
        """
        if self.is_regression:
            raise ValueError("this task has no classes, so call predict for its numbers.")
        logits = self.logits(rows).astype(float)  # (N, C)
        if self.is_multilabel:
            return 1 / (1 + np.exp(-logits))
        # The largest exponent is 0, so that no exponential is too large.
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))  # (N, C)
        return weights / weights.sum(axis=1, keepdims=True)

    def logits(self, rows: Iterable[Row]) -> np.ndarray:
        """The outputs of the model: (N, C) float32, or (N, 1) of a score."""
        if isinstance(rows, str):
            raise ValueError(f"rows is the text {rows!r}; pass a list, such as predict([text]).")
        items = [self.texts_of(row, place) for place, row in enumerate(rows, start=1)]
        num_columns = 1 if self.is_regression else len(self.label_names)
        parts = [np.zeros((0, num_columns), dtype=np.float32)]
        num_cut = 0
        for start in range(0, len(items), self.batch_size):
            sides = self.sides(items[start : start + self.batch_size])
            encodings = self.tokenizer.encode_batch(sides)
            num_cut += sum(bool(encoding.overflowing) for encoding in encodings)
            (outputs,) = self.session.run(None, self.inputs(encodings))
            parts.append(outputs)
        if num_cut:
            longest = self.settings["max_length"]
            warnings.warn(f"{num_cut} rows were cut to {longest} tokens.", stacklevel=3)
        return np.concatenate(parts)

    # --- rows -------------------------------------------------------------------------------------

    def texts_of(self, row: Any, place: int) -> tuple[str, ...]:
        """The texts of a row: one, or two of a pair. Raises ValueError for anything else."""
        is_pair = self.settings["pair_encoding"] is not None
        texts = (row,) if isinstance(row, str) or not is_pair else tuple(row)
        if len(texts) != 1 + is_pair or not all(isinstance(text, str) for text in texts):
            expected = "a tuple of two str" if is_pair else "a str"
            raise ValueError(f"row {place} is {row!r}; expected is {expected}.")
        return texts

    def sides(self, items: Sequence[tuple[str, ...]]) -> list[Any]:
        """The rows that the encoder reads: one for each item, or one for each side of a pair."""
        encoding = self.settings["pair_encoding"]
        if encoding == "cross":
            return list(items)
        if encoding == "dual":
            return [*items, *(item[::-1] for item in items)]
        first = [item[0] for item in items]
        return first if encoding is None else first + [item[1] for item in items]

    def inputs(self, encodings: Sequence[Encoding]) -> dict[str, np.ndarray]:
        """The inputs of the graph by name, (R, T) int64 each."""
        columns = {
            "input_ids": [encoding.ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
            "sentence_ids": [sentence_ids(encoding) for encoding in encodings],
        }
        names = [entry.name for entry in self.session.get_inputs()]
        return {name: np.array(columns[name], dtype=np.int64) for name in names}


def sentence_ids(encoding: Encoding) -> list[int]:
    """0 for the tokens of the first text and the separator after it, 1 for all that follow.

    Padding may be anything, because the mask hides it.
    """
    places = [place for place, number in enumerate(encoding.sequence_ids) if number == 0]
    start = places[-1] + 2 if places else 2
    return [int(place >= start) for place in range(len(encoding.ids))]


def read_json(path: Path) -> Any:
    """The content of a file of JSON."""
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Answer the lines of standard input. The command line has no flags but --help."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    predictor = OnnxPredictor()
    lines = [line.rstrip("\r\n") for line in sys.stdin]
    is_pair = predictor.settings["pair_encoding"] is not None
    rows: list[Any] = [tuple(line.split("\t")) for line in lines] if is_pair else lines
    try:
        if predictor.is_regression:
            cells = [f"{answer:.4g}" for answer in predictor.predict(rows)]
        else:
            shares = predictor.predict_proba(rows)  # (N, C)
            names = [predictor.label_names[label] for label in shares.argmax(axis=1)]
            highest = shares.max(axis=1)
            if predictor.is_multilabel:
                names = [", ".join(predictor.names_of(row)) or "-" for row in shares > 0.5]
                # The least sure decision of each row.
                highest = np.maximum(shares, 1 - shares).min(axis=1)
            cells = [f"{name}\t{share:.2f}" for name, share in zip(names, highest, strict=True)]
    except ValueError as error:
        sys.exit(f"predict.py: {error}")
    for cell, line in zip(cells, lines, strict=True):
        print(cell, line, sep="\t")


if __name__ == "__main__":
    main()
