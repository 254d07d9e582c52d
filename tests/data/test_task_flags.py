"""data/task_flags.py: --task as text, and everything about it that is refused without a file."""

from __future__ import annotations

import pytest

from data.options import DataOptions
from data.task_flags import DEV_SHARE, TaskRequest, parse_task, parse_tasks


def test_a_task_with_the_least_that_it_needs():
    request = parse_task("name=tickets,train=tickets.csv")
    assert request == TaskRequest("tickets", "tickets.csv")
    assert request.is_split and request.dev_share == DEV_SHARE
    assert request.files() == ["tickets.csv"]
    assert request.file_of("dev") == "tickets.csv" and request.file_of("test") is None


def test_every_key():
    request = parse_task(
        "name=a,train=b,dev=c,test=d,text=e,text_pair=f,label=g,id=h,kind=classes,labels=x|y|z,"
        "loss=cross_entropy,metric=macro_f1"
    )
    assert request == TaskRequest(
        "a",
        "b",
        dev="c",
        test="d",
        text="e",
        text_pair="f",
        label="g",
        id="h",
        kind="classes",
        labels=("x", "y", "z"),
        loss="cross_entropy",
        metric="macro_f1",
    )
    assert request.files() == ["b", "c", "d"]
    score = parse_task("name=a,train=b,dev=0.25,split_seed=7,low=-1,high=2.5,loss=mae")
    assert (score.dev, score.dev_share, score.split_seed) == (None, 0.25, 7)
    assert (score.kind, score.low, score.high) == ("score", -1.0, 2.5), "only a score has limits"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('name=a,train="my, file.csv",text=t', "my, file.csv"),
        ("name=a,train='my, file.csv',text=t", "my, file.csv"),
        ('name=a, train = "say ""hi"".csv" , text=t', 'say "hi".csv'),
        ("name=a,train=a=b.csv,text=t", "a=b.csv"),
        ("text=t,train=plain file.csv,name=a", "plain file.csv"),
    ],
)
def test_values_with_commas_and_quotes(text, path):
    request = parse_task(text)
    assert (request.train, request.text) == (path, "t")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name=a", "--task name=a: train= is missing; write such as name=tickets"),
        ("train=a.csv", "name= is missing"),
        ("name=a,train=b,train=c", "train= comes twice"),
        ("name=a,trian=b", "there is no key 'trian'; did you mean train=?"),
        ("name=a,train=b,zzz=c", "there is no key 'zzz'; there are name, train, dev,"),
        ("name=a,train=", "train= has no value"),
        ("name=a,train=my, file.csv", "'file.csv' is no key=value"),
        ('name=a,train="b.csv', 'the quote in "b.csv is not closed'),
        ("name=my task,train=b", "name=my task: a name has letters, digits and _"),
        ("name=1st,train=b", "a name has letters"),
        ("name=../x,train=b", "a name has letters"),
        ("name=SST,train=b", "sst is a built-in task. Choose another name, or give its files with"),
        ("name=cfimdb,train=b", "cfimdb is a built-in task"),
        ("name=mean,train=b", "this name means another number in run.json"),
        ("name=overall_2023,train=b", "this name means another number"),
        ("name=sts_lowest,train=b", "this name means another number"),
        ("name=a,train=b,text_pair=c", "text_pair= names the second text; add text="),
        ("name=a,train=b,dev=0", "dev=0; it is a file, or a share of the training rows between 0"),
        ("name=a,train=b,dev=1.5", "dev=1.5; it is a file, or a share"),
        ("name=a,train=b,split_seed=x", "split_seed=x; it is a whole number"),
        ("name=a,train=b,dev=c,split_seed=1", "split_seed=1 has no effect beside a dev file"),
        (
            "name=a,train=b,kind=clases",
            "kind=clases; it is one of classes, binary, multilabel, score. Did you",
        ),
        ("name=a,train=b,labels=x", "labels=x; it is two or more different names, separated by |"),
        ("name=a,train=b,labels=x|x", "labels=x|x; it is two or more different names"),
        ("name=a,train=b,kind=score,labels=x|y", "labels= names classes, and low="),
        ("name=a,train=b,low=0,high=1,labels=x|y", "labels= names classes, and low="),
        ("name=a,train=b,kind=binary,low=0,high=1", "low= and high= have no effect with kind=b"),
        ("name=a,train=b,low=0", "low= and high= come together. Give both, or neither."),
        ("name=a,train=b,kind=binary,labels=x|y|z", "kind=binary has two labels"),
        ("name=a,train=b,low=x", "low=x; it is a number"),
        ("name=a,train=b,low=2,high=1", "low=2 is not below high=1"),
        ("name=a,train=b,metric=acuracy", "metric=acuracy; it is one of accuracy, macro_f1, matt"),
        ("name=a,train=b,kind=score,metric=accuracy", "one of pearson, spearman with kind=score"),
        ("name=a,train=b,kind=classes,loss=mse", "loss=mse; it is one of cross_entropy with kind="),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(ValueError) as caught:
        parse_task(text)
    assert words in str(caught.value)
    assert str(caught.value).startswith("--task ")


def test_two_tasks_need_two_names():
    with pytest.raises(ValueError, match="another --task has the name a; give each its own"):
        parse_tasks(("name=a,train=b", "name=A,train=c"))


def test_the_flag_in_the_options():
    """JSON gives a list, and options must not change."""
    options = DataOptions(task=["name=a,train=b.csv,test=c.csv", "name=d,train=e.csv"])
    assert options.task == ("name=a,train=b.csv,test=c.csv", "name=d,train=e.csv")
    assert list(options.requests) == ["a", "d"]
    assert options.in_order(["d", "sts", "sst"]) == ["sst", "sts", "d"]
    assert options.splits_of("a") == ("train", "dev", "test") == options.splits_of("sst")
    assert options.splits_of("d") == ("train", "dev")
    assert options.input_files(["d", "a"]) == ["b.csv", "c.csv", "e.csv"]
    assert options.file_of("a", "dev") == "b.csv" and options.file_of("d", "test") == ""
    assert DataOptions(task=("name=a,train=b.csv",), train_rows="a=5").train_rows == "a=5"
    with pytest.raises(ValueError, match="--train_rows b=5: there is no task b; there are sst, "):
        DataOptions(task=("name=a,train=b.csv",), train_rows="b=5")


def test_dropped_labels():
    assert parse_task("name=a,train=a.csv,drop_labels=-|NA").drop_labels == ("-", "NA")
    for keys in ("drop_labels=-|", "drop_labels=-|-", "labels=a|b,drop_labels=b"):
        with pytest.raises(ValueError, match="drop_labels="):
            parse_task(f"name=a,train=a.csv,{keys}")
