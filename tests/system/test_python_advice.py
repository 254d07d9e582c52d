"""Advice in the errors of Python functions works: the call that it asks for gives a result.

A case has a call that is refused, words of its message, and the call that they ask for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from torch import Tensor

import minbert
from command_line.checks import check_positions
from contrastive.caching import in_pieces
from contrastive.embed import SentenceEncoder
from contrastive.embed.options import check_query
from contrastive.embedder import nearest
from contrastive.losses import info_nce, matryoshka
from contrastive.zero_shot import dev_labels
from data.batching import EncodedExamples
from data.download import check_folder, part_of
from data.examples import Example
from data.tables.spreadsheets import check_cells
from experiments.__main__ import path_of_records
from experiments.controls import METHODS, check_sample
from experiments.label_questions import Question
from experiments.records import add_records, check_file, read_records
from experiments.run_files import read_json
from experiments.series import Series
from minbert import BertModel, BertTokenizer, hub
from minbert.commands.options import MethodOptions
from minbert.commands.outputs import check_no_links
from minbert.commands.plugins import forget
from minbert.commands.registry import REGISTERED
from minbert.reporting.attention_pictures import attention_of_sentence as attention_of
from minbert.reporting.attention_pictures import draw_attention
from minbert.training import int8
from multitask import Predictor
from multitask.checked_files import SplitRows, check_name
from multitask.ensemble.voting import make_folds
from multitask.head_registry import HeadEntry, register_head
from multitask.heads import BUILDERS
from multitask.model import MultitaskBert, read_settings
from multitask.options import HeadOptions
from multitask.prediction_files import read_bytes
from multitask.regulariser_registry import SmartOptions
from multitask.sampler_registry import Sampler, register_sampler
from multitask.sampling import FUNCTIONS, first_passes
from multitask.saved_run import Record, check_same_rows, read_record
from multitask.tasks import BUILT_IN_TASKS, accuracy, labels_of
from multitask.user_rows import BUNDLED_RUN
from tests.advice import shown

ROWS = ["a cat", "the dog ran"]
MODEL = "minbert-mini"
OFFLINE = "HF_HUB_OFFLINE"
FOLDER = Path(minbert.__file__).parent / "bundled" / MODEL


class Tools:
    """What the calls of the cases use, opened once. folder: an empty one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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


def pairs(*labels: int) -> SimpleNamespace:
    """Pairs that measure a stage."""
    return SimpleNamespace(examples=[example(label) for label in labels])


class RowsOnApple(list):
    """Rows that lie in the memory of Apple's GPU."""

    device = SimpleNamespace(type="mps")


def without_network(t: Tools) -> None:
    with patch.object(hub, "_fetch", side_effect=OSError), patch.object(constants, OFFLINE, False):
        BertModel.from_pretrained("someone/none")


def without_int8(t: Tools) -> None:
    with patch.object(torch.backends, "quantized", SimpleNamespace(engine="none")):
        int8.quantised(t.model, torch.device("cpu"))


def run_with_link(t: Tools) -> Path:
    """A folder of a run with a link that leads out of it."""
    run = t.folder / "run"
    run.mkdir(exist_ok=True)
    (t.folder / "log.csv").write_text("mine")
    if not (run / "log.csv").is_symlink():
        (run / "log.csv").symlink_to(t.folder / "log.csv")
    return run


def copy_what_it_leads_to(t: Tools) -> Path:
    run = run_with_link(t)
    (run / "log.csv").unlink()
    shutil.copy(t.folder / "log.csv", run / "log.csv")
    return run


def download_beside_link(t: Tools) -> None:
    folder = t.folder / "course"
    folder.mkdir(exist_ok=True)
    part = part_of(folder / "sst.csv")
    part.unlink(missing_ok=True)
    part.symlink_to(t.folder / "log.csv")
    check_folder(folder, ["sst.csv"])


def records_in(t: Tools, **record: str) -> Path:
    path = t.folder / "records.jsonl"
    path.unlink(missing_ok=True)
    add_records(path, [record])
    return path


def with_dev_rows(record: Record, dev_rows: str) -> Record:
    """The record of a run that was scored on another part of the dev rows."""
    data = replace(record.options.data, dev_rows=dev_rows)
    return replace(record, options=replace(record.options, data=data))


def of_sst_dev(name: str) -> None:
    """Check the name of a file whose ids are those of SST's dev rows."""
    table = SimpleNamespace(path="ids-sst-dev.csv")
    check_name(name, BUILT_IN_TASKS["sst"], SplitRows("dev", table))


def same_rows_as_bundled(dev_rows: str) -> None:
    record = read_record(BUNDLED_RUN)
    check_same_rows("sst", record, with_dev_rows(record, dev_rows))


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
    Case(
        lambda t: draw_attention(t.attentions(), t.tokens(), head=1),
        "and layer is missing. Pass both, or a layer alone.",
        lambda t: draw_attention(t.attentions(), t.tokens(), layer=1),
    ),
    # --- sentence vectors
    Case(
        lambda t: check_query("caf\udce9"),
        "--query is not in UTF-8; pass it in that encoding.",
        lambda t: check_query("caf\u00e9"),
    ),
    Case(
        lambda t: t.encoder.embedder.encode(["\u200b"]),
        "so its vector would mean nothing. Change it, or leave it out.",
        lambda t: t.encoder.embedder.encode(["a"]),
    ),
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
    Case(
        lambda t: dev_labels(pairs(1, 1)),
        "or pass another one, as --dev or --sts_dev.",
        lambda t: dev_labels(pairs(1, 5)),
    ),
    Case(
        lambda t: in_pieces(torch.sum, 1, RowsOnApple([0, 0])),
        "Pass --contrastive_chunk 0 with a smaller batch, or --device cpu.",
        lambda t: (in_pieces(list, 0, RowsOnApple([0])), in_pieces(torch.exp, 1, torch.ones(2))),
    ),
    # --- predictions
    Case(
        without_int8,
        "has no int8 products for this processor. Use fp32.",
        lambda t: Predictor(precision="fp32").predict(ROWS, task="sst"),
    ),
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
    Case(
        lambda t: of_sst_dev("sts-dev-output.csv"),
        "Give it the name of its rows, or write it again.",
        lambda t: of_sst_dev("sst-dev-output.csv"),
    ),
    Case(
        lambda t: same_rows_as_bundled("sst=9"),
        "were scored on different dev rows (--dev_rows {none}, {sst=9}). Give runs with the same.",
        lambda t: same_rows_as_bundled("none"),
    ),
    Case(
        lambda t: read_bytes(t.folder),
        "cannot be read ({Is a directory}); check the path and its permissions.",
        lambda t: read_bytes(FOLDER / "config.json"),
    ),
    Case(
        lambda t: Question.of(BUNDLED_RUN, "tickets"),
        f"--task {{tickets}}: {{{BUNDLED_RUN}}} has the tasks {{sst, para, sts}}. Pass one of "
        "these.",
        lambda t: Question.of(BUNDLED_RUN, "sst"),
    ),
    Case(
        lambda t: read_settings(t.folder / "heads.json"),
        "as the run wrote it.",
        lambda t: read_settings(BUNDLED_RUN / "model" / "heads.json"),
    ),
    Case(
        lambda t: make_folds(1, 2, seed=0),
        "a score out of fold needs at least 2. Use more dev rows.",
        lambda t: make_folds(2, 2, seed=0),
    ),
    # --- records, and folders of runs
    Case(
        lambda t: check_sample([read_records(METHODS)[0] | {"data": "other rows"}]),
        "Measure the control as well, and give --record another name.",
        lambda t: path_of_records("mine", Series(("defaults",), (1,), t.folder, ())),
    ),
    Case(
        lambda t: read_json(t.folder / "run.json"),
        "there is no such file. Give the folder of a finished run.",
        lambda t: read_json(BUNDLED_RUN / "run.json"),
    ),
    Case(
        lambda t: check_file(t.folder, "recipe", "runs"),
        "is a folder. Name a file, such as",
        lambda t: check_file(t.folder / "mine.jsonl", "recipe", "runs"),
    ),
    Case(
        lambda t: check_file(records_in(t, title="a"), "recipe", "runs"),
        "and they are no {runs}. Name another file.",
        lambda t: check_file(records_in(t, recipe="a"), "recipe", "runs"),
    ),
    Case(
        lambda t: check_no_links(run_with_link(t)),
        "Replace it with what it leads to.",
        lambda t: check_no_links(copy_what_it_leads_to(t)),
    ),
    Case(
        download_beside_link,
        "it is a link. Remove it, or choose another --out.",
        lambda t: check_folder(t.folder / "another", ["sst.csv"]),
    ),
    Case(
        lambda t: check_cells(Path("a.xlsx"), [["x" * 40_000]]),
        "Pass a name for --out that ends in .csv.",
        lambda t: check_cells(Path("a.csv"), [["x" * 40_000]]),
    ),
    Case(
        lambda t: check_positions(129, [], MODEL, 128),
        "--{max_length} is {129}; {minbert-mini} has {128} positions. Pass at most that.",
        lambda t: check_positions(128, [], MODEL, 128),
    ),
    # --- names of models
    Case(
        without_network,
        "Check the spelling and the network, or use what needs no hub: minbert-mini-distilled, "
        "minilm, or a folder.",
        lambda t: BertModel.from_pretrained(MODEL),
    ),
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
        lambda t: MethodOptions(())[SmartOptions],
        "no method has the options {SmartOptions}; name them in its entry",
        lambda t: MethodOptions((SmartOptions(),))[SmartOptions],
    ),
    Case(
        lambda t: MethodOptions(()).value("smart_weight"),
        "no method has the option {smart_weight}; name its group in an entry",
        lambda t: MethodOptions((SmartOptions(),)).value("smart_weight"),
    ),
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
def tools(tmp_path_factory) -> Tools:
    return Tools(tmp_path_factory.mktemp("advice"))


@pytest.fixture
def registries():
    """What a case registers is gone after it, as other tests go over all methods."""
    count = len(REGISTERED)
    yield
    forget(REGISTERED[count:])


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_advice_that_is_followed_works(tools, case):
    with pytest.raises((ValueError, TypeError, KeyError)) as caught:
        case.refused(tools)
    assert shown(case.words) in str(caught.value)
    case.followed(tools)
