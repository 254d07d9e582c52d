"""Advice in the messages about tables works: each is followed, and what comes of it is checked.

A case has the content of a file, the keys of --task for it, words of the message, and the change
that they ask for: other keys, other options, or an edit of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from data.options import DataOptions
from data.task_flags import parse_task
from data.task_tables import read_splits, resolve_task
from tests.advice import shown


class Case(NamedTuple):
    """A message, and how to follow its advice."""

    content: str
    keys: str
    words: str  # of the message
    new_keys: str | None = None  # those that the message asks for
    edit: Callable[[str], str] | None = None
    options: dict[str, Any] = {}
    kind: str = "classes"  # of the task that comes out
    num_rows: int = 12


def rows(labels, header: str = "text,label", delimiter: str = ",") -> str:
    """Twelve rows with different texts, whose labels come in turns."""
    lines = [header] if header else []
    for number in range(12):
        lines.append(f"text {number}{delimiter}{labels[number % len(labels)]}")
    return "\n".join(lines) + "\n"


ABC = ["a", "b", "c"]
CASES = {
    "other names of columns": Case(
        rows(ABC, "message,team"),
        "",
        "Name the columns with text= and label= {in --task t}.",
        ",text=message,label=team",
    ),
    "a name that is not there": Case(
        rows(ABC, "message,team"),
        ",text=words,label=team",
        "found are: {message, team}. Pass one of these, or its position, 1 to {2}",
        ",text=message,label=team",
    ),
    "a position in place of a name": Case(
        rows(ABC, "message,team"),
        ",text=words,label=team",
        "Pass one of these, or its position, 1 to {2}",
        ",text=1,label=2",
    ),
    "no header": Case(
        rows(ABC, ""),
        "",
        "by position, from 1 to 2, with text= in --task t and label= in --task t",
        ",text=1,label=2",
    ),
    "two columns that may be meant": Case(
        rows(ABC, "text,label").replace("text,label", "text,Label"),
        ",label=team",
        "found are: {text, Label}. Pass one of these",
        ",label=Label",
    ),
    "a comma in a text without quotes": Case(
        rows(ABC).replace("text 3", "text, 3"),
        "",
        "(a text that holds a comma must stand in quotes)",
        edit=lambda text: text.replace("text, 3", '"text, 3"'),
    ),
    "a bad row is dropped": Case(
        rows(ABC).replace("text 3", "text, 3"),
        "",
        "pass --drop-bad-rows to skip and count such rows",
        options={"drop_bad_rows": True},
        num_rows=11,
    ),
    "a label that no row has": Case(
        rows(ABC), ",labels=a|b|c|d", "cannot be trained. Drop the name.", ",labels=a|b|c"
    ),
    "a label that labels= lacks": Case(
        rows(ABC), ",labels=a|b", "Fix the row, or add the name.", ",labels=a|b|c"
    ),
    "a dropped label that no row has": Case(
        rows(ABC), ",drop_labels=x", "Fix or drop the name.", ""
    ),
    "a score with a word": Case(
        rows(["1.5", "-", "2"]),
        ",kind=score",
        "Fix the row, or drop such rows with drop_labels={-}",
        ",kind=score,drop_labels=-",
        kind="score",
        num_rows=8,
    ),
    "a score with a class": Case(
        rows(["1", "x", "2"]), ",kind=score", "or pass kind=classes", ",kind=classes"
    ),
    "two classes that are three": Case(
        rows(ABC), ",kind=binary", "Pass kind=classes, or another", ",kind=classes"
    ),
    "numbers that are all different": Case(
        rows([str(number) for number in range(12)]),
        "",
        "or say kind=score",
        ",kind=score",
        kind="score",
    ),
    "a metric that does not fit": Case(
        rows(ABC), ",metric=pearson", "which has accuracy, macro_f1, matthews", ",metric=macro_f1"
    ),
    "thousands": Case(
        rows(["540", "6.124", "331"], "text;label", ";"),
        "",
        "Write such numbers without them: {6124}.",
        edit=lambda text: text.replace("6.124", "6124"),
    ),
    "thousands that are fractions": Case(
        rows(["540", "6.124", "331"], "text;label", ";"),
        "",
        "If it is a fraction, write {6,124}.",
        edit=lambda text: text.replace("6.124", "6,124"),
        kind="score",
    ),
    "thousands that are classes": Case(
        rows(["540", "6.124", "331"], "text;label", ";"),
        "",
        "If they are classes, say kind=classes in --task {t}.",
        ",kind=classes",
    ),
    "two delimiters": Case(
        rows(["a;1", "b;2", "c;3"], "text;x,label;y"),
        "",
        "Save the table with tabs between the columns.",
        edit=lambda text: text.replace(";x", "").replace(";y", "").replace(",", "\t"),
        kind="classes",
    ),
    "rows in an array of an object": Case(
        json.dumps({"data": [{"text": f"text {n}", "label": ABC[n % 3]} for n in range(12)]}),
        "",
        "Write that array alone into the file.",
        edit=lambda text: json.dumps(json.loads(text)["data"]),
    ),
    "a table of R": Case(
        '"text" "label"\n' + "".join(f'"{n}" "text {n}" "{ABC[n % 3]}"\n' for n in range(12)),
        "",
        "Write it with write.csv(..., row.names = FALSE).",
        edit=lambda text: rows(ABC),
    ),
    "a key without a value": Case(
        rows(ABC), ",label=", "Give one, or drop the key.", ",label=label"
    ),
    "a key that comes twice": Case(
        rows(ABC), ",label=label,label=text", "comes twice. Drop one of the two.", ",label=label"
    ),
    "a dev file beside a seed": Case(
        rows(ABC),
        ",split_seed=2,dev=0.2,fold=1of3",
        "both say which rows are dev. Drop one of them.",
        ",dev=0.2,split_seed=2",
    ),
    "scores without a lowest": Case(
        rows(["1.5", "2.5"]), ",high=5", "Give both, or neither.", ",low=0,high=5", kind="score"
    ),
    "quotes behind backslashes": Case(
        rows(ABC).replace("text 3", '"text \\"3\\" x"'),
        "",
        "CSV doubles a quote inside a text instead",
        edit=lambda text: text.replace('\\"', '""'),
    ),
}


@pytest.fixture
def train(tmp_path):
    """A function: the content of a training file, keys and options -> the kind and all rows."""

    def read(content: str, keys: str, **options):
        path = tmp_path / "train.csv"
        path.write_text(content, encoding="utf-8")
        flag = f"name=t,train={path}{keys}"
        spec = resolve_task(parse_task(flag)).spec
        tables = read_splits(spec, DataOptions(task=(flag,), **options))
        return spec.kind, sum(len(table.examples) for table in tables.values())

    return read


@pytest.mark.parametrize("name", CASES)
def test_advice_that_is_followed_works(train, name):
    case = CASES[name]
    with pytest.raises(ValueError) as caught:
        train(case.content, case.keys)
    assert shown(case.words) in str(caught.value)

    keys = case.keys if case.new_keys is None else case.new_keys
    content = case.edit(case.content) if case.edit else case.content
    assert train(content, keys, **case.options) == (case.kind, case.num_rows)
