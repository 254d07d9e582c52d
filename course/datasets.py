"""The course's readers and data sets, with the names and the results that its scripts expect.

`load_multitask_data` reads three files, and a data set turns rows into the batches of a DataLoader:

    rows, num_labels, pairs, similar = load_multitask_data(sst, para, sts, split="train")
    dataset = SentenceClassificationDataset(rows, args)
    loader = DataLoader(dataset, batch_size=8, collate_fn=dataset.collate_fn)

Texts are in lower case, as in the course. The course also puts blanks around marks such as commas.
That changes no token, because BERT's tokenizer splits at them by itself.

B rows, T tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from data.examples import COURSE_FILES, PARA, SST, STS, Example, Format
from data.readers import read_examples
from minbert import BertTokenizer

# The tokenizer that the course's data sets open. A folder of this name beside the script is taken
# first. A script with another encoder needs the tokenizer of that encoder.
MODEL = "bert-base-uncased"
DATA_DIR = Path("data")  # of a script of the course

Row = tuple[Any, ...]
Batch = dict[str, Any]


# --- the files ------------------------------------------------------------------------------------


def load_multitask_data(
    sentiment_filename: str,
    paraphrase_filename: str,
    similarity_filename: str,
    split: str = "train",
) -> tuple[list[Row], dict[int, int], list[Row], list[Row]]:
    """Read one file of SST, of PARA and of STS.

    split: "test" for files without labels; any other word for labelled files.

    Returns rows of SST (sentence, label, id), the labels of SST with the order in which they came,
    rows of PARA and of STS (sentence, sentence, label, id). Rows of a test file have no label.
    Raises ValueError with file and line where a file cannot be read.
    """
    has_labels = split != "test"
    sentiment = read_rows(sentiment_filename, SST, has_labels, split)
    paraphrase = read_rows(paraphrase_filename, PARA, has_labels, split)
    similarity = read_rows(similarity_filename, STS, has_labels, split)

    num_labels: dict[int, int] = {}
    if has_labels:
        for row in sentiment:
            num_labels.setdefault(row[1], len(num_labels))
    return sentiment, num_labels, paraphrase, similarity


def load_multitask_test_data() -> tuple[list[str], list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Read the texts of the three test files in the folder `data` of a script, without ids.

    The starter of 2023 imports this function and never calls it. There it reads files that students
    do not have. Here it reads those that they have, such as data/ids-sst-test-student.csv.

    Returns the sentences of SST, and the pairs of PARA and of STS.
    """
    sst, para, sts = (str(DATA_DIR / files["test"]) for files in COURSE_FILES.values())
    sentiment, _, paraphrase, similarity = load_multitask_data(sst, para, sts, split="test")
    sentences = [row[0] for row in sentiment]
    return sentences, [row[:2] for row in paraphrase], [row[:2] for row in similarity]


def read_rows(path: str, format: Format, has_labels: bool, split: str) -> list[Row]:
    """The rows of one file. Prints how many there are, and those that were dropped."""
    table = read_examples(path, format, labelled=has_labels)
    print(f"Loaded {len(table.examples)} {split} examples: {table.summary}")
    return [row_of(example, format, has_labels) for example in table.examples]


def row_of(example: Example, format: Format, has_label: bool) -> Row:
    """One example as the course has it."""
    texts = [example.sentence_1.lower()]
    if example.sentence_2 is not None:
        texts.append(example.sentence_2.lower())
    if not has_label or example.label is None:
        return (*texts, example.id)
    label = int(example.label) if format.is_integer else example.label
    return (*texts, label, example.id)


# --- the data sets --------------------------------------------------------------------------------


class CourseDataset(Dataset, ABC):
    """Rows, and the tokenizer that makes batches of them."""

    def __init__(self, dataset: Sequence[Row], args: Any = None) -> None:
        """dataset: rows of load_multitask_data. args: of the script.

        Two values of args are read where they are there: `local_files_only`, and
        `model_name_or_path`, the encoder whose tokenizer is opened.
        """
        self.dataset = dataset
        self.p = args
        name = getattr(args, "model_name_or_path", None) or MODEL
        is_local = getattr(args, "local_files_only", False)
        try:
            self.tokenizer = BertTokenizer.from_pretrained(name, local_files_only=is_local)
        except ValueError as error:
            raise ValueError(
                f"{error} The data sets of the course open the tokenizer of {name}. For another "
                "encoder, set args.model_name_or_path to its name."
            ) from error

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Row:
        return self.dataset[index]

    @abstractmethod
    def collate_fn(self, all_data: Sequence[Row]) -> Batch:
        """A batch of rows, for a DataLoader."""


def single_batch(tokenizer: BertTokenizer, rows: Sequence[Row]) -> Batch:
    """The tokens (B, T), the texts and the ids of rows with one sentence."""
    texts = [row[0] for row in rows]
    encoding = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    return {
        "token_ids": encoding["input_ids"],
        "attention_mask": encoding["attention_mask"],
        "sents": texts,
        "sent_ids": [row[-1] for row in rows],
    }


def pair_batch(tokenizer: BertTokenizer, rows: Sequence[Row]) -> Batch:
    """The tokens (B, T) of both sentences, each alone, and the ids of rows with two."""
    batch: Batch = {}
    for number in (1, 2):
        texts = [row[number - 1] for row in rows]
        encoding = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        batch[f"token_ids_{number}"] = encoding["input_ids"]
        batch[f"token_type_ids_{number}"] = encoding["token_type_ids"]
        batch[f"attention_mask_{number}"] = encoding["attention_mask"]
    batch["sent_ids"] = [row[-1] for row in rows]
    return batch


class SentenceClassificationDataset(CourseDataset):
    """Rows (sentence, label, id)."""

    def collate_fn(self, all_data: Sequence[Row]) -> Batch:
        """A batch with the labels, (B,) int64."""
        labels = torch.tensor([row[1] for row in all_data], dtype=torch.int64)
        return {**single_batch(self.tokenizer, all_data), "labels": labels}


class SentenceClassificationTestDataset(CourseDataset):
    """Rows (sentence, id)."""

    def collate_fn(self, all_data: Sequence[Row]) -> Batch:
        """A batch without labels."""
        return single_batch(self.tokenizer, all_data)


class SentencePairDataset(CourseDataset):
    """Rows (sentence, sentence, label, id)."""

    def __init__(
        self, dataset: Sequence[Row], args: Any = None, isRegression: bool = False
    ) -> None:
        """isRegression: whether the labels are numbers on a scale, such as those of STS."""
        super().__init__(dataset, args)
        self.isRegression = isRegression

    def collate_fn(self, all_data: Sequence[Row]) -> Batch:
        """A batch with the labels, (B,): float64 with isRegression, otherwise int64.

        Raises ValueError for a label with decimals that would be cut off.
        """
        values = [row[2] for row in all_data]
        if self.isRegression:
            labels = torch.tensor(values, dtype=torch.float64)
        else:
            for value in values:
                if value != int(value):
                    raise ValueError(
                        f"the label {value} has decimals, and labels of classes are whole numbers. "
                        "For STS write SentencePairDataset(rows, args, isRegression=True)."
                    )
            labels = torch.tensor(values, dtype=torch.int64)
        return {**pair_batch(self.tokenizer, all_data), "labels": labels}


class SentencePairTestDataset(CourseDataset):
    """Rows (sentence, sentence, id)."""

    def collate_fn(self, all_data: Sequence[Row]) -> Batch:
        """A batch without labels."""
        return pair_batch(self.tokenizer, all_data)
