"""command_line/options.py: all options joined, by flat names and by groups."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from command_line.options import Options
from contrastive.options import BscOptions
from minbert import BertConfig
from minbert.commands.options import all_fields, changed
from minbert.pretraining.options import PlainTextOptions
from tests.toy_options import FIELDS, SPLITS

OLD_FILE = Path(__file__).parent / "options_before_groups.json"
TYPES = {
    "int": int,
    "float": (int, float),
    "float | str": (float, str),
    "int | str": (int, str),
    "str": str,
    "bool": bool,
    "tuple[str, ...]": tuple,
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_has_type_default_and_help(name):
    item = FIELDS[name]
    assert isinstance(item.default, TYPES[item.type]), (
        f"{name}: default {item.default!r} is not of type {item.type}"
    )
    assert item.metadata["help"], f"{name} has no help text"
    assert item.default is not None, f"{name}: None would mean 'some default'; say which, or 'auto'"
    if item.metadata["choices"]:
        assert item.default in item.metadata["choices"], (
            f"{name}: the default is none of its choices"
        )


def test_names_are_flat_and_none_comes_twice():
    names = [item.name for item in all_fields(Options)]
    assert len(set(names)) == len(names)
    assert list(Options().flat()) == names


def test_options_by_flat_names():
    options = Options.of(lr=1e-3, head="vm", seed=7, pretrain="bsc", bsc_align=0.5)
    assert options.multitask.fine_tuning.lr == 1e-3
    assert options.multitask.heads.head == "vm"
    assert options.training.seed == 7
    assert options.contrastive.of_method[BscOptions].bsc_align == 0.5
    expected = {"lr": 1e-3, "head": "vm", "seed": 7, "pretrain": "bsc", "bsc_align": 0.5}
    assert changed(options) == expected
    assert Options.of(**options.flat()) == options
    assert options.with_values(seed=8) == Options.of(**{**expected, "seed": 8})


def test_a_name_that_is_no_option():
    with pytest.raises(TypeError, match="unknown option epoch$"):
        Options.of(epoch=3)
    with pytest.raises(TypeError, match="unknown option learning_rate$"):
        Options().with_values(learning_rate=1e-3)


def test_options_of_an_older_version_are_read():
    """A run that began before options had groups can still be resumed."""
    stored = json.loads(OLD_FILE.read_text(encoding="utf-8"))["options"]
    options = Options.of(**stored)
    values = options.flat()
    assert {name: values[name] for name in stored} == stored, "the keys of options.json must stay"
    added = {name: value for name, value in values.items() if name not in stored}
    assert added.items() <= Options().flat().items(), "a new option must not change an old run"
    assert options.run.stages == ("mlm", "simcse")
    assert options.contrastive.is_fusion and options.multitask.heads.pair_encoding == "dual"


def test_tasks_of_the_user_survive_a_file():
    """options.json has a list where the options have a tuple."""
    flag = "name=tickets,train=tickets.csv,label=team"
    options = Options.of(task=[flag], tasks="tickets,sst", train_rows="tickets=5")
    again = Options.of(**json.loads(json.dumps(options.flat())))
    assert again == options and again.data.task == (flag,)
    assert again.with_files().input_files()[-1] == "tickets.csv"


def test_options_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Options().training.seed = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Options().epochs = 5  # type: ignore[attr-defined]


def test_stages_and_the_contrastive_ones_among_them():
    assert Options().run.stages == ()
    assert Options.of(pretrain="simcse").run.stages == ("simcse",)
    options = Options.of(pretrain="mlm,simcse", mlm_epochs=2, mlm_lr=1e-4)
    assert options.run.stages == ("mlm", "simcse")
    assert options.run.methods == ("simcse",)
    assert Options.of(pretrain="ct,mlm,bsc").run.methods == ("ct", "bsc")


def test_input_files_are_the_course_s_in_a_folder():
    options = Options.of(data_dir="course", para_dev="mine.csv").with_files()
    assert options.data.files.para_dev == "mine.csv"
    assert options.data.files.para_train == str(Path("course/quora-train.csv"))
    assert options.data.file_of("sst", "test") == str(Path("course/ids-sst-test-student.csv"))
    assert len(options.input_files()) == len(SPLITS)


def test_files_of_text_are_input_files_too():
    options = Options.of(pretrain="simcse-nli,ct", nli="a.tsv", ct_corpus="b.txt").with_files()
    assert options.input_files()[len(SPLITS) :] == ["a.tsv", "b.txt"]
    options = Options.of(pretrain="ct", ct_corpus="random-words").with_files()
    assert len(options.input_files()) == len(SPLITS)


def test_dropout_of_the_encoder_replaces_fields_of_its_config(tiny_model):
    assert Options().encoder.dropout_overrides() == {}
    options = Options.of(encoder_dropout=0.25, attention_dropout=0.0)
    config = BertConfig.from_pretrained(tiny_model, **options.encoder.dropout_overrides())
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.25, 0.0)
    dropout = options.multitask.heads.hidden_dropout_prob
    assert dropout == 0.1, "the dropout of the heads is another one"


def test_the_folder_that_keeps_token_ids(monkeypatch):
    def folder_of(**values: str) -> Path | None:
        return Options.of(**values).data.token_folder

    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert folder_of() == Path("/cache/minbert")
    assert folder_of(token_cache="/mine") == Path("/mine")
    assert folder_of(token_cache="none") is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder_of() == Path.home() / ".cache" / "minbert"

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert folder_of() is None
    assert folder_of(token_cache="/mine") == Path("/mine")


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 10**9},
        {"mlm_epochs": 10**9},
        {"heads_first": 10**9},
        {"contrastive_epochs": 10**9, "pretrain": "simcse"},
        {"steps_per_epoch": 10**9, "sampling": "random-task"},
        {"lr": float("inf")},
        {"weight_decay": float("nan")},
    ],
    ids=str,
)
def test_numbers_that_would_fill_the_memory_or_the_weights_are_refused(values):
    with pytest.raises(ValueError, match="must be|expected|at most|needed"):
        Options.of(**values)
    with pytest.raises(ValueError, match="at most 50,000,000"):
        PlainTextOptions(tokens=10**12)
    PlainTextOptions(tokens=10**10)
