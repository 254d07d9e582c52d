"""--few_pairs: the head of few pairs with scores, unless user or scores decide otherwise."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from command_line.parser import parse
from command_line.reproduction import command_of
from command_line.settings import settle_head
from data.examples import STS
from data.options import SAMPLE_FOLDER
from data.readers import read_examples
from experiments.records import split_command
from minbert import hub
from minbert.options import EncoderOptions
from multitask.tasks import TASKS

FLAGS = ["--task", "name=faq,train=faq.csv,text=a,text_pair=b,label=score", "--tasks", "faq"]
OTHERS = ["--task", "name=nli,train=nli.csv,text=a,text_pair=b,label=c", "--tasks", "faq,nli"]


def task_of_user(like: str, name: str):
    """A task of the user, with the kind of a built-in one."""
    task = TASKS[like]
    return replace(task, name=name, title=name, format=replace(task.format, is_course=False))


FAQ = task_of_user("sts", "faq")
CLASSES = task_of_user("para", "nli")


@pytest.fixture(scope="module")
def pairs():
    return read_examples(SAMPLE_FOLDER / "sts-train.csv", STS).cut(60).examples


def settled(flags, examples, tasks):
    """The options of a run whose tasks have these training rows."""
    tables = {name: {"train": SimpleNamespace(examples=examples)} for name in tasks}
    folder = hub.resolve(EncoderOptions().model)
    return settle_head(parse(flags)[0], tasks, tables, folder, torch.device("cpu"))


def head_of(flags, examples, tasks=None) -> str:
    return settled(flags, examples, tasks or {"faq": FAQ}).multitask.heads.head


def test_few_pairs_have_the_cosine_and_the_command_says_so(pairs, capsys):
    options = settled(FLAGS, pairs, {"faq": FAQ})
    assert (options.multitask.heads.head, options.multitask.heads.pair_encoding) == ("cosine", "bi")
    assert "few pairs, and their scores rise with the cosines" in capsys.readouterr().out
    words = split_command(command_of(options))[2:]
    assert parse(words)[0].multitask.heads.few_pairs == 0 and head_of(words, pairs) == "cosine"


def test_scores_that_do_not_rise_with_the_cosine_keep_the_head(pairs, capsys):
    """A cosine cannot learn distances, which are 0 for equal texts. Nor labels at random."""
    distances = [replace(pair, label=5 - pair.label) for pair in pairs]
    assert head_of(FLAGS, distances) == "features"
    assert "the scores do not rise with the cosines of the encoder (Pearson -0." in (
        capsys.readouterr().out
    )
    labels = [pair.label for pair in pairs]
    random.Random(0).shuffle(labels)
    mixed = [replace(pair, label=label) for pair, label in zip(pairs, labels, strict=True)]
    assert head_of(FLAGS, mixed) == "features"
    # What was not chosen is repeated as well.
    options = settled(FLAGS, distances, {"faq": FAQ})
    words = split_command(command_of(options))[2:]
    assert parse(words)[0].multitask.heads.few_pairs == 0
    assert head_of(words, distances) == "features"


@pytest.mark.parametrize(
    "flags",
    ["--head features", "--pair-encoding cross", "--option pretrain", "--few-pairs 59"],
)
def test_what_the_user_says_wins(flags, pairs):
    assert head_of([*FLAGS, *flags.split()], pairs) == "features"


def test_other_tasks_and_many_pairs_keep_the_head(pairs):
    assert head_of([*FLAGS, *OTHERS], pairs, {"faq": FAQ, "nli": CLASSES}) == "features"
    assert head_of(FLAGS, pairs * 17) == "features"
    assert parse([])[0].multitask.heads.few_pairs == 0, "the default job stays as it was"


def test_two_flags_that_decide_the_same_are_refused(capsys):
    with pytest.raises(SystemExit):
        parse([*FLAGS, "--few-pairs", "500", "--head", "vm"])
    assert "--few_pairs chooses the head, so --head would have no effect" in capsys.readouterr().err
