"""What the page of the demo shows of a run.

Each method that the page calls takes values of JSON and returns an object of JSON. A ValueError is
shown on the page.

N rows, H hidden, D size of a vector (H, or 2H where a pair has two vectors).
"""

from __future__ import annotations

import base64
import io
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import rc_context

from data.batching import EncodedExamples, arrange_sentences, sorted_batches
from data.examples import BUILT_IN_FILES, Example
from data.options import SAMPLE_FOLDER
from data.user_texts import TextRow, UserTexts
from minbert import BertModel
from minbert.commands.files import digest_of_file
from minbert.commands.options import with_values
from minbert.reporting.attention_pictures import draw_attention
from multitask.answers import Answer, describe_file, warn_of_unknown_words, write_answers
from multitask.command_options import PredictOptions
from multitask.model import MultitaskBert
from multitask.predictor import Predictor
from multitask.probabilities import decode, votes_by_class
from multitask.rows import read_tables
from multitask.task_models import SHARED_FOLDER, TaskModels, model_folder
from multitask.tasks import Task
from multitask.user_rows import BUNDLED_RUN, check_request, read_rows, to_examples

NUM_TRAINING_ROWS = 2000  # that are searched for the nearest ones
NUM_NEAREST = 5
BATCH_SIZE = 64


class TrainingRows(NamedTuple):
    """The training rows that are searched, and the vectors (N, D) of length 1 that the head reads.

    notes: what the user should know of them, one sentence each.
    """

    examples: tuple[Example, ...]
    vectors: np.ndarray
    notes: list[str]


class Demo:
    """A finished run that answers the page.

    run: its folder. Raises ValueError as `Predictor`.
    """

    def __init__(self, run: Path) -> None:
        self.predictor = Predictor(run)
        self.record = self.predictor.record
        self.name = "the bundled model" if run == BUNDLED_RUN else run.resolve().name
        self.training_rows: dict[str, TrainingRows] = {}  # by task, once they are asked for
        self.encoders: dict[str, BertModel] = {}  # by task, the same

    def methods(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The methods that the page calls, by their addresses."""
        return {
            "/answer": self.answer,
            "/attention": self.attention,
            "/nearest": self.nearest,
            "/table": self.table,
        }

    def tasks(self) -> list[dict[str, Any]]:
        """What the page knows of each task from the start."""
        tasks = []
        for name in self.predictor.tasks:
            task = self.record.tasks[name]
            config = self.model_of(task).encoder.config
            tasks.append(
                {
                    "name": name,
                    "title": task.title,
                    "is_pair": task.is_pair,
                    "layers": config.num_hidden_layers,
                    "heads": config.num_attention_heads,
                }
            )
        return tasks

    # --- one sentence or pair ---------------------------------------------------------------------

    def answer(self, task: str, texts: Sequence[str]) -> dict[str, Any]:
        """The probability of each class, or a number, with what the user should know."""
        known, example = self.read(task, texts)
        notes: list[str] = []
        votes = self.predictor.votes(known, [example], notes.append)
        row = UserTexts("the text", (TextRow("1", example.texts),), None, ())
        warn_of_unknown_words([self.record], known, [example], row, notes.append)
        if known.is_regression:
            low, high = known.format.low, known.format.high
            return {"number": float(votes[0]), "scale": [low, high], "notes": notes}
        shares = votes_by_class(votes)[0].tolist()
        classes = [list(pair) for pair in zip(known.label_names, shares, strict=True)]
        return {"classes": classes, "notes": notes}

    def attention(self, task: str, texts: Sequence[str], layer: int, head: int) -> dict[str, Any]:
        """A picture of one head as SVG, for each row that the encoder reads."""
        known, example = self.read(task, texts)
        if task not in self.encoders:
            folder = self.record.folder / SHARED_FOLDER
            if task in self.record.alone:
                folder = model_folder(self.record.folder, task)
            # The fused attention never holds the probabilities.
            self.encoders[task] = BertModel.from_pretrained(
                folder, attention_implementation="eager"
            )
        tokenizer = self.predictor.tokenizer
        first, second = arrange_sentences([example], self.predictor.model.pair_encoding)
        pictures = []
        for place, text in enumerate(first):
            pair = None if second is None else [second[place]]
            batch = tokenizer([text], pair, max_length=self.record.options.data.max_length)
            with torch.no_grad():
                output = self.encoders[task](**batch, output_attentions=True)
            ids = batch["input_ids"][0].tolist()
            tokens = [str(tokenizer.convert_ids_to_tokens(number)) for number in ids]
            figure = draw_attention(output.attentions, tokens, layer, head)
            stream = io.StringIO()
            with rc_context({"svg.fonttype": "none", "svg.hashsalt": "attention"}):
                figure.savefig(stream, format="svg")
            pictures.append(stream.getvalue())
        return {"pictures": pictures}

    def read(self, name: str, texts: Sequence[str]) -> tuple[Task, Example]:
        """The task of a name, and its row. Raises ValueError where a text is missing."""
        task = self.task_of(name)
        if len(texts) != 1 + task.is_pair or not all(str(text).strip() for text in texts):
            expected = "two sentences" if task.is_pair else "a sentence"
            raise ValueError(f"{task.title} reads {expected}. Type {expected}.")
        return task, Example("1", str(texts[0]), str(texts[1]) if task.is_pair else None, None)

    def task_of(self, name: str) -> Task:
        """The task of a name. Raises ValueError where the run has not learned it."""
        if name not in self.predictor.tasks:
            raise ValueError(f"the run has no task {name!r}.")
        return self.record.tasks[name]

    def model_of(self, task: Task) -> MultitaskBert:
        """The model that answers a task."""
        model = self.predictor.model
        return model.of(task.name) if isinstance(model, TaskModels) else model

    # --- the nearest training rows ----------------------------------------------------------------

    def nearest(self, task: str, texts: Sequence[str]) -> dict[str, Any]:
        """The training rows whose vectors have the highest cosine with that of the row."""
        known, example = self.read(task, texts)
        if task not in self.training_rows:
            self.training_rows[task] = self.open_training_rows(known)
        rows = self.training_rows[task]
        cosines = rows.vectors @ self.vectors_of(known, [example])[0]  # (N,)
        places = np.argsort(-cosines, kind="stable")[:NUM_NEAREST]
        rows_of_table = []
        for place in places.tolist():
            neighbour = rows.examples[place]
            label = known.label_text(neighbour.answer)
            rows_of_table.append([f"{cosines[place]:.3f}", label, *neighbour.texts])
        return {"rows": rows_of_table, "notes": rows.notes}

    def open_training_rows(self, task: Task) -> TrainingRows:
        """Read and encode the training rows of a task, or some of them at even distances.

        Raises ValueError where the file is not there.
        """
        data = self.record.options.data
        path = Path(data.file_of(task.name, "train"))
        digest = self.record.files.get(str(path))
        # The files of the bundled run came with this package, which may lie anywhere.
        if self.record.folder == BUNDLED_RUN and not path.is_file():
            files = BUILT_IN_FILES[task.name].items()
            paths = {f"{task.name}_{split}": str(SAMPLE_FOLDER / name) for split, name in files}
            data = with_values(data, **paths)
            path = Path(data.file_of(task.name, "train"))
        if not path.is_file():
            raise ValueError(
                f"{path.absolute()} is not there. Restore it, or start this command in the folder "
                "where the run was started."
            )
        table = read_tables(data, {task.name: task})[task.name]["train"]
        examples = table.cut(NUM_TRAINING_ROWS).examples
        vectors = self.vectors_of(task, examples)
        notes = []
        if len(examples) < len(table.examples):
            notes.append(f"{len(examples):,} of {len(table.examples):,} rows were searched.")
        if digest_of_file(path) != digest:
            notes.append(f"{path} has changed since the run was trained.")
        return TrainingRows(examples, vectors, notes)

    @torch.no_grad()
    def vectors_of(self, task: Task, examples: Sequence[Example]) -> np.ndarray:
        """The vectors that the head reads, side by side, each of length 1: (N, D) float32."""
        model = self.model_of(task)
        max_length = self.record.options.data.max_length
        rows = EncodedExamples(
            examples, self.predictor.tokenizer, max_length, self.predictor.model.pair_encoding
        )
        device = next(model.parameters()).device
        parts = []
        order: list[int] = []
        for numbers in sorted_batches(rows.lengths, BATCH_SIZE):
            vectors = model.sentence_vectors(rows.batch(numbers).to(device), task.is_pair)
            joined = torch.cat([F.normalize(vector, dim=-1) for vector in vectors], dim=-1)
            parts.append(F.normalize(joined, dim=-1).cpu().numpy())  # (B, D)
            order += numbers
        return np.concatenate(parts)[np.argsort(order)]

    # --- a table ----------------------------------------------------------------------------------

    def table(
        self,
        task: str,
        name: str,
        content: str,
        text: str = "",
        text_pair: str = "",
        lines: bool = False,
    ) -> dict[str, Any]:
        """Answer the rows of a file, as `multitask.predict --out` does.

        name, content: of the file; the content in base64. text, text_pair: names of its columns, or
        "". lines: whether each line is a row, and the file no table. Returns the same for the table
        with the answers.
        """
        known = self.task_of(task)
        ending = re.search(r"\.[a-z]{1,5}$", name.lower())
        suffix = ending[0] if ending else ".txt"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"table{suffix}"
            path.write_bytes(base64.b64decode(content))
            out = Path(folder) / f"predictions{'.xlsx' if suffix == '.xlsx' else '.csv'}"
            options = PredictOptions(
                runs=(self.record.folder,),
                task=task,
                input=path,
                text=text or None,
                text_pair=text_pair or None,
                lines=lines,
                out=out,
            )
            try:
                check_request(options, known)
                texts = read_rows(options, known)
            except ValueError as error:
                raise ValueError(str(error).replace(str(path), name)) from error
            notes = list(texts.notes)
            votes = self.predictor.votes(known, to_examples(texts), notes.append)
            has_classes = not known.is_regression
            write_answers(out, texts, Answer(known, decode(known, votes), votes), has_classes)
            line = describe_file(out, texts).replace(str(out), out.name)
            encoded = base64.b64encode(out.read_bytes()).decode()
        notes = [note.replace(str(path), name) for note in [*notes, line]]
        return {"name": out.name, "content": encoded, "notes": notes}
