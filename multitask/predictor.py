"""Predictor: a finished run that answers texts of your own, in a script or a notebook.

    predictor = Predictor("runs/latest", task="sst")
    predictor.predict(["A lovely film."])  # array(['positive'], dtype=object)

The command `python -m multitask.predict` asks the same class, so both give the same answers.

Legend: N rows, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data.batching import EncodedExamples, sorted_batches
from data.examples import Example
from minbert.commands.options import AUTO
from minbert.commands.plugins import load_named
from minbert.options import FP32_ONEDNN, PRECISIONS
from minbert.training import int8, processes, runtime
from multitask.evaluation import predict
from multitask.probabilities import decode, probabilities, votes_by_class
from multitask.rows import describe_cuts
from multitask.saved_run import can_answer, check_trained, open_model, read_record
from multitask.tasks import Task
from multitask.user_rows import BUNDLED_RUN

TWO_COLUMNS = "predict(list(zip(first, second)))"


class Predictor:
    """A finished run, opened to predict texts or pairs of texts.

    run: the folder of a run of run_multitask.py. Default: the small model that comes with minBERT.
    task: the name of a task of the run. It may be left out where only one task of the run reads
        such rows.
    device: "auto" is the device of the run, or the fastest one here where there is no such device.
    precision: of matrix products. "auto" is that of the run. "fp32" is that of multitask.export.
        "int8" is faster on the CPU and less exact. "fp32-onednn" is fp32 by oneDNN.
    batch_size: rows in the model at a time.
    plugin: the files of --plugin that the run was trained with.
    temperature: by which logits are divided. threshold: from which probability on the second of two
        classes, or a label of several, is predicted. `minbert labels` finds both.

    A Predictor can be pickled, with its weights: the process that unpickles it needs no folder.
    Compare with SetFitModel of setfit, and CrossEncoder of sentence-transformers.

    Raises ValueError for a folder without a finished run, and a task that the run has not learned.
    """

    def __init__(
        self,
        run: str | Path = BUNDLED_RUN,
        task: str | None = None,
        *,
        device: str = AUTO,
        precision: str = AUTO,
        batch_size: int = 64,
        plugin: Sequence[str] = (),
        temperature: float = 1.0,
        threshold: float = 0.5,
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}; pass one of {', '.join(PRECISIONS)}.")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; pass a whole number of 1 or more.")
        if not (temperature > 0 and 0 < threshold < 1):
            raise ValueError(
                f"temperature is {temperature} and threshold {threshold}; they are a number over 0 "
                "and a probability between 0 and 1."
            )
        load_named(plugin)
        self.temperature = temperature
        self.threshold = threshold
        self.record = read_record(run)
        self.task = None if task is None else self._find(task)
        self.model, self.tokenizer = open_model(self.record, device)
        self.precision = self.record.options.training.precision if precision == AUTO else precision
        device_of_model = next(self.model.parameters()).device
        if precision == FP32_ONEDNN:
            # Refuses it where it would have no effect.
            runtime.choose_precision(precision, device_of_model)
        if precision == "int8":
            self.model = int8.quantised(self.model, device_of_model)
        self.batch_size = batch_size

    # --- tasks ------------------------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks that the run has learned."""
        return tuple(name for name in self.record.tasks if can_answer(self.record, name))

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the columns of `predict_proba`.

        Empty for a task whose answer is a number. ValueError where the run has several tasks, and
        none was passed as `task`.
        """
        if self.task is not None:
            return self.task.label_names
        if len(self.tasks) > 1:
            raise ValueError(f"{self._several(self.tasks)}: Predictor(run, task='{self.tasks[0]}')")
        return self._find(self.tasks[0]).label_names

    def _find(self, name: str) -> Task:
        """The task of a name. Raises ValueError where the run has not learned it."""
        if name not in self.record.tasks:
            raise ValueError(
                f"task is {name!r}; {self.record.folder} has the tasks {', '.join(self.tasks)}. "
                "Pass one of these."
            )
        task = self.record.tasks[name]
        check_trained([self.record], task)
        return task

    def _several(self, names: Sequence[str]) -> str:
        return f"{self.record.folder} has the tasks {', '.join(names)}. Pass one of them as task"

    def _choose(self, name: str | None, are_pairs: bool) -> Task:
        """The task that is named, the only one of the run, or the only one with such rows."""
        if name is not None:
            return self._find(name)
        if self.task is not None:
            return self.task
        if len(self.tasks) == 1:
            return self._find(self.tasks[0])
        fitting = [name for name in self.tasks if self.record.tasks[name].is_pair == are_pairs]
        if len(fitting) != 1:
            raise ValueError(f"{self._several(fitting or self.tasks)}.")
        return self._find(fitting[0])

    # --- answers ----------------------------------------------------------------------------------

    def predict(self, rows: Iterable[Any], *, task: str | None = None) -> np.ndarray:
        """Answer each row, in the order of the rows.

        rows: texts, such as a list or a column of pandas. Of a task that reads pairs: tuples or
            lists of two texts, or a data frame of two columns. task: by default that of the object.

        Returns (N,): the names of the classes, or float64 numbers of a task whose answer is a
        number. Of a task with several labels: a tuple of names for each row. Rows that are too long
        are cut, and a warning says how many.
        Raises ValueError for a row that is no text or pair, such as a missing value.
        """
        examples, chosen = self._read(rows, task)
        if not examples:
            return np.array([], dtype=float if chosen.is_regression else object)
        labels = decode(chosen, self.votes(chosen, examples, warn), self.threshold)
        if chosen.is_regression:
            return labels.astype(float)
        if chosen.is_multilabel:
            answers = np.empty(len(labels), dtype=object)
            answers[:] = [chosen.names_of(row) for row in labels]
            return answers
        return np.array([chosen.label_names[int(label)] for label in labels], dtype=object)

    def predict_proba(self, rows: Iterable[Any], *, task: str | None = None) -> np.ndarray:
        """The probability of each class for each row: (N, C) float64, each row adds up to 1.

        Of a task with several labels: that of each label, and rows do not add up to 1. Rows and
        task are those of `predict`. Raises ValueError for a task whose answer is a number.
        """
        examples, chosen = self._read(rows, task)
        if chosen.is_regression:
            raise ValueError(f"{chosen.name} has no classes, so call predict for its numbers.")
        if not examples:
            return np.zeros((0, len(chosen.label_names)))
        return votes_by_class(self.votes(chosen, examples, warn))

    def _read(self, rows: Iterable[Any], name: str | None) -> tuple[list[Example], Task]:
        """The rows as the model reads them, and the task that answers them."""
        items = items_of(rows)
        task = self._choose(name, any(is_sequence(item) for item in items))
        examples = []
        for place, item in enumerate(items, start=1):
            first, second = texts_of_pair(item, place, task) if task.is_pair else (item, None)
            examples.append(Example(str(place), text_of(first, place), second, None))
        return examples, task

    def votes(
        self,
        task: Task,
        rows: Sequence[Example],
        log: Callable[[str], None],
        shares_batches: bool = False,
    ) -> np.ndarray:
        """The probabilities of the rows, or their numbers, before they become answers.

        log: is told about rows that are cut, and of a language that the model does not know.
        shares_batches: whether the processes of torchrun each compute a share of the batches. All
            of them must then ask for the same rows, and all get the votes.
        Returns (N, C), (N,) of the second of two classes, or (N,) numbers of a regression.
        """
        max_length = self.record.options.data.max_length
        encoded = EncodedExamples(rows, self.tokenizer, max_length, self.model.pair_encoding)
        if encoded.num_truncated:
            log(describe_cuts({task.name: {"input": encoded}}, max_length))
        unknown = encoded.warn_of_unknown(f"the rows, for {self.record.folder}")
        if unknown is not None:
            log(unknown)
        outputs = self._outputs(task, encoded, shares_batches)
        if task.is_regression:
            return outputs
        return probabilities(outputs / self.temperature, task.is_multilabel)

    def _outputs(self, task: Task, rows: EncodedExamples, shares_batches: bool) -> np.ndarray:
        """The raw outputs of the model for all rows, (N, C) or (N,) float32."""
        asked = (self.model, task.name, rows, self.precision, self.batch_size)
        if not shares_batches:
            return predict(*asked)
        # Sorted again, the rows of these batches make the same batches.
        share = processes.share_out(sorted_batches(rows.lengths, self.batch_size))
        outputs = predict(*asked, chosen=np.array(share.rows))
        return processes.join_rows(share, torch.from_numpy(outputs), len(rows)).numpy()


# --- rows -----------------------------------------------------------------------------------------


def warn(line: str) -> None:
    """Show a line about the rows as a warning of Python, at the line of the user's call."""
    warnings.warn(line.removeprefix("warning: "), stacklevel=4)


def items_of(rows: Iterable[Any]) -> list[Any]:
    """The rows of an argument, one item each. A data frame of one column has texts as items."""
    if isinstance(rows, str):
        raise ValueError(f"rows is the text {rows!r}; pass a list, such as predict([text]).")
    if not hasattr(rows, "itertuples"):
        return list(rows)
    # A data frame of pandas gives its columns where it is asked for its items.
    items = [tuple(row) for row in rows.itertuples(index=False)]
    return [item[0] if len(item) == 1 else item for item in items]


def is_sequence(item: Any) -> bool:
    """Whether a row holds several values, such as a tuple."""
    return isinstance(item, Iterable) and not isinstance(item, str)


def text_of(item: Any, place: int) -> str:
    """A row that is one text. Raises ValueError for anything else."""
    if not isinstance(item, str):
        raise ValueError(
            f"row {place} is {item!r}; expected is a str. Replace or drop missing values first."
        )
    return item


def texts_of_pair(item: Any, place: int, task: Task) -> tuple[str, str]:
    """A row that is two texts. Raises ValueError for anything else."""
    texts = tuple(item) if is_sequence(item) else (item,)
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"row {place} is {item!r}; {task.name} reads pairs, so a tuple of two str is expected. "
            "One pair stands in a list, predict([(a, b)]). "
            f"Two columns are joined by {TWO_COLUMNS}."
        )
    return texts[0], texts[1]
