"""Advice in the errors of Python functions works: the call that it asks for gives a result.

A case has a call that is refused, words of its message, and the call that they ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import minbert
from contrastive.embed import SentenceEncoder
from contrastive.embedder import nearest
from contrastive.losses import info_nce, matryoshka
from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.reporting.attention_pictures import attention_of_sentence as attention_of
from multitask import Predictor
from multitask.head_registry import HeadEntry, register_head
from multitask.heads import BUILDERS
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
from multitask.sampler_registry import Sampler, register_sampler
from multitask.sampling import FUNCTIONS, first_passes
from multitask.tasks import accuracy, labels_of
from tests.advice import shown

ROWS = ["a cat", "the dog ran"]
MODEL = "minbert-mini"
FOLDER = Path(minbert.__file__).parent / "bundled" / MODEL


class Tools:
    """What the calls of the cases use, opened once."""

    @cached_property
    def tokenizer(self) -> BertTokenizer:
        return BertTokenizer.from_pretrained(MODEL)

    @cached_property
    def unlimited(self) -> BertTokenizer:
        return BertTokenizer(self.tokenizer.get_vocab())

    @cached_property
    def model(self) -> BertModel:
        return BertModel.from_pretrained(MODEL)

    @cached_property
    def fused(self) -> BertModel:
        return BertModel.from_pretrained(MODEL, attention_implementation="fused")

    @cached_property
    def encoder(self) -> SentenceEncoder:
        return SentenceEncoder(MODEL)

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor()

    @property
    def batch(self) -> dict[str, Tensor]:
        return self.tokenizer(ROWS, return_tensors="pt", padding=True)

    def attentions(self) -> tuple[Tensor, ...]:
        return self.model(**self.batch, output_attentions=True).attentions

    def tokens(self) -> list[str]:
        return self.tokenizer.convert_ids_to_tokens(self.batch["input_ids"][0].tolist())


class Case(NamedTuple):
    """A call that is refused, words of its message, and the call that they ask for."""

    refused: Callable[[Tools], Any]
    words: str
    followed: Callable[[Tools], Any]


def example(label: int | None) -> Example:
    return Example("1", "a cat", None, label)


CASES = [
    # --- the tokenizer
    Case(
        lambda t: t.tokenizer(ROWS, max_length=0),
        "max_length is {0}; pass a whole number of 1 or more.",
        lambda t: t.tokenizer(ROWS, max_length=8),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, max_length=1),
        "special tokens alone. Pass a larger max_length.",
        lambda t: t.tokenizer(ROWS, max_length=3),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, max_length=8, truncation=False),
        "Pass truncation=True or padding='max_length', or leave max_length out.",
        lambda t: t.tokenizer(ROWS, max_length=8, truncation=True),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, max_length=8, truncation=False),
        "Pass truncation=True or padding='max_length', or leave max_length out.",
        lambda t: t.tokenizer(ROWS, max_length=8, truncation=False, padding="max_length"),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, max_length=9, pad_to_multiple_of=8),
        "Pass a max_length that is one.",
        lambda t: t.tokenizer(ROWS, max_length=16, pad_to_multiple_of=8),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, padding=False),
        "Pass padding=True, truncation=True beside padding='max_length', or return_tensors=None",
        lambda t: t.tokenizer(ROWS, padding=False, return_tensors=None),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, padding=False),
        "Pass padding=True, truncation=True beside padding='max_length', or return_tensors=None",
        lambda t: t.tokenizer(ROWS, padding=True),
    ),
    Case(
        lambda t: t.unlimited(ROWS, padding="max_length"),
        "Pass max_length, or padding=True.",
        lambda t: t.unlimited(ROWS, padding="max_length", max_length=8),
    ),
    Case(
        lambda t: t.tokenizer([]),
        "so there is no tensor. Pass one or more texts.",
        lambda t: t.tokenizer(["a"]),
    ),
    Case(
        lambda t: t.tokenizer(["a", None]),
        "or two for a pair. Replace or drop missing values first.",
        lambda t: t.tokenizer(["a"]),
    ),
    Case(
        lambda t: t.tokenizer(["a"], ["b", "c"]),
        "a pair needs both. Pass two lists of equal length.",
        lambda t: t.tokenizer(["a"], ["b"]),
    ),
    Case(
        lambda t: t.tokenizer(["a"], "b"),
        "pass two texts, or two lists of equal length.",
        lambda t: t.tokenizer("a", "b"),
    ),
    Case(
        lambda t: t.tokenizer(ROWS, text_target=ROWS),
        "call the tokenizer once more for the targets",
        lambda t: (t.tokenizer(ROWS), t.tokenizer(ROWS)),
    ),
    Case(
        lambda t: t.tokenizer.encode("a cat", 8),
        'give a list of strings. For the ids of one text, tokenizer(text)["input_ids"] is the way.',
        lambda t: t.tokenizer("a cat")["input_ids"],
    ),
    Case(
        lambda t: t.tokenizer.decode([-100, 5]),
        "Replace such labels by pad_token_id first.",
        lambda t: t.tokenizer.decode([t.tokenizer.pad_token_id, 5]),
    ),
    Case(
        lambda t: BertTokenizer.from_pretrained(MODEL, do_lower_case=1),
        "pass True or False.",
        lambda t: BertTokenizer.from_pretrained(MODEL, do_lower_case=True),
    ),
    Case(
        lambda t: t.tokenizer(["a cat"], ["the dog"], max_length=4, truncation="only_first"),
        "Pass a larger max_length, or truncation='longest_first'.",
        lambda t: t.tokenizer(["a cat"], ["the dog ran"], max_length=4, truncation="longest_first"),
    ),
    # --- the encoder
    Case(lambda t: t.model(t.batch), "Pass model(**batch)", lambda t: t.model(**t.batch)),
    Case(lambda t: t.model([[1, 2]]), "Pass a tensor", lambda t: t.model(torch.tensor([[1, 2]]))),
    Case(
        lambda t: t.model(**t.batch, return_dict=False),
        "Leave out return_dict.",
        lambda t: t.model(**t.batch).to_tuple(),
    ),
    Case(
        lambda t: t.fused(**t.batch, output_attentions=True),
        "Open the model with BertModel.from_pretrained(..., attention_implementation='eager').",
        lambda t: BertModel.from_pretrained(MODEL, attention_implementation="eager")(
            **t.batch, output_attentions=True
        ).attentions[0],
    ),
    Case(
        lambda t: t.model(t.batch["input_ids"], t.batch["attention_mask"][:, None, None].float()),
        "Pass (mask == 1) for a mask of 1 and 0.",
        lambda t: t.model(t.batch["input_ids"], t.batch["attention_mask"][:, None, None] == 1),
    ),
    # --- pictures of the attention
    Case(
        lambda t: attention_of(None, t.tokens()),
        "Call the model with output_attentions=True.",
        lambda t: attention_of(t.attentions(), t.tokens()),
    ),
    Case(
        lambda t: attention_of((torch.ones(2, 4, 4),), t.tokens()),
        "Pass the attentions of the model's output as they are.",
        lambda t: attention_of(t.attentions(), t.tokens()),
    ),
    Case(
        lambda t: attention_of(t.attentions(), t.tokens()[:2]),
        "Pass the tokens of row's input_ids, with their padding.",
        lambda t: attention_of(t.attentions(), t.tokens()),
    ),
    Case(
        lambda t: attention_of(t.attentions(), t.tokens(), attention_mask=torch.ones(4)),
        "Pass the one that the model got.",
        lambda t: attention_of(
            t.attentions(), t.tokens(), attention_mask=t.batch["attention_mask"]
        ),
    ),
    # --- sentence vectors
    Case(
        lambda t: t.encoder.encode(ROWS, batch_size=0),
        "batch_size is {0}; pass a whole number of 1 or more.",
        lambda t: t.encoder.encode(ROWS, batch_size=1),
    ),
    Case(
        lambda t: t.encoder.encode(ROWS, prompt_name="question"),
        "Pass one of them, or the text as prompt.",
        lambda t: t.encoder.encode(ROWS, prompt="question: "),
    ),
    Case(
        lambda t: t.encoder.encode(["a", None]),
        "sentence {2} is {None}; expected is a str. Replace or drop missing values first.",
        lambda t: t.encoder.encode(["a"]),
    ),
    Case(
        lambda t: t.encoder.encode(ROWS, device="cuda"),
        "pass device= to SentenceEncoder",
        lambda t: SentenceEncoder(MODEL, device="cpu").encode(ROWS),
    ),
    Case(
        lambda t: t.encoder.embedder.encode("a cat"),
        "read letter by letter; pass a list of strings.",
        lambda t: t.encoder.embedder.encode(["a cat"]),
    ),
    Case(
        lambda t: t.encoder.encode(ROWS, normalise=True),
        "takes no argument '{normalise}'. Beside those of its signature it takes",
        lambda t: t.encoder.encode(ROWS, output_value="sentence_embedding"),
    ),
    Case(
        lambda t: t.encoder.encode(ROWS, pool=[1]),
        "start several processes yourself",
        lambda t: SentenceEncoder(MODEL).encode(ROWS),
    ),
    Case(
        lambda t: nearest(torch.eye(3), 3),
        "Ask for 1 to {2}.",
        lambda t: nearest(torch.eye(3), 2),
    ),
    # --- losses
    Case(
        lambda t: info_nce(torch.eye(3), torch.eye(2, 3)),
        "row i of one belongs to row i of the other. Pass equal shapes.",
        lambda t: info_nce(torch.eye(3), torch.eye(3)),
    ),
    Case(
        lambda t: matryoshka(info_nce, torch.eye(3), torch.eye(3), [4]),
        "Pass widths from 1 to that.",
        lambda t: matryoshka(info_nce, torch.eye(3), torch.eye(3), [2]),
    ),
    # --- predictions
    Case(
        lambda t: t.predictor.predict("A lovely film.", task="sst"),
        "rows is the text {'A lovely film.'}; pass a list, such as predict([text]).",
        lambda t: t.predictor.predict(["A lovely film."], task="sst"),
    ),
    Case(
        lambda t: t.predictor.predict(["a", None], task="sst"),
        "row {2} is {None}; expected is a str. Replace or drop missing values first.",
        lambda t: t.predictor.predict(["a"], task="sst"),
    ),
    Case(
        lambda t: t.predictor.predict(ROWS, task="tickets"),
        "task is {'tickets'};",
        lambda t: t.predictor.predict(ROWS, task="sst"),
    ),
    Case(
        lambda t: t.predictor.label_names,
        "has the tasks {sst, para, sts}. Pass one of them as task",
        lambda t: Predictor(task="sst").label_names,
    ),
    Case(
        lambda t: Predictor(precision="fp8"),
        "precision is {'fp8'}; pass one of",
        lambda t: Predictor(precision="fp32").tasks,
    ),
    Case(
        lambda t: Predictor(batch_size=0),
        "batch_size is {0}; pass a whole number of 1 or more.",
        lambda t: Predictor(batch_size=1).tasks,
    ),
    Case(
        lambda t: labels_of([example(None)]),
        "Give a labelled file, such as the dev file.",
        lambda t: labels_of([example(1)]),
    ),
    Case(
        lambda t: accuracy(np.ones(2), np.ones(3)),
        "Pass one prediction for each label.",
        lambda t: accuracy(np.ones(3), np.ones(3)),
    ),
    Case(
        lambda t: EncodedExamples([], t.tokenizer),
        "at least one is expected. Check the file that they come from.",
        lambda t: EncodedExamples([example(1)], t.tokenizer).lengths,
    ),
    Case(
        lambda t: accuracy(np.array([np.nan]), np.ones(1)),
        "Train again with a lower learning rate (--lr).",
        lambda t: accuracy(np.ones(1), np.ones(1)),
    ),
    Case(
        lambda t: accuracy(np.ones(1), np.array([np.nan])),
        "Correct the label in its file, or leave the row out.",
        lambda t: accuracy(np.ones(1), np.ones(1)),
    ),
    Case(
        lambda t: MultitaskBert(t.model, "mean", HeadOptions(), seed=0),
        "Pass HeadOptions(pair_encoding=...).",
        lambda t: MultitaskBert(t.model, "mean", HeadOptions(pair_encoding="bi"), seed=0),
    ),
    # --- names of models
    Case(
        lambda t: BertModel.from_pretrained("someone/none", local_files_only=True),
        "Give a folder, or pass local_files_only=False once to download it.",
        lambda t: BertModel.from_pretrained(FOLDER, local_files_only=True),
    ),
    Case(
        lambda t: BertModel.from_pretrained("./none"),
        "Give 'minbert-mini', 'minbert-mini-distilled', 'minilm', a folder in Hugging Face layout",
        lambda t: BertModel.from_pretrained(FOLDER),
    ),
    # --- methods of a plugin
    Case(
        lambda t: register_head("mine", HeadEntry(title="a head")),
        "is not built; pass HeadEntry(build=..., ...).",
        lambda t: register_head("mine", HeadEntry(title="a head", build=BUILDERS["features"])),
    ),
    Case(
        lambda t: register_sampler("mine", Sampler(title="a sampler")),
        "has no function; pass Sampler(sample=..., ...).",
        lambda t: register_sampler("mine", Sampler(title="one", sample=FUNCTIONS["joint"])),
    ),
    Case(
        lambda t: first_passes({}, torch.Generator()),
        "no task to sample from; name at least one",
        lambda t: first_passes({"sst": lambda generator: [[0]]}, torch.Generator()),
    ),
    Case(
        lambda t: first_passes({"sst": lambda generator: []}, torch.Generator()),
        "has no training batches; give it rows, or leave it out",
        lambda t: first_passes({"sst": lambda generator: [[0]]}, torch.Generator()),
    ),
]


@pytest.fixture(scope="module")
def tools() -> Tools:
    return Tools()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_advice_that_is_followed_works(tools, case):
    with pytest.raises((ValueError, TypeError)) as caught:
        case.refused(tools)
    assert shown(case.words) in str(caught.value)
    case.followed(tools)
