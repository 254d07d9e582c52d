"""Advice in the messages about tables works: each is followed, and what comes of it is checked.

A case has the content of a file, the keys of --task for it, words of the message, and the change
that they ask for: other keys, other options, or an edit of the file.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from data.corpus import check_files, read_lines
from data.examples import SST
from data.options import DataOptions
from data.readers import read_examples
from data.task_flags import parse_task
from data.task_tables import read_splits, resolve_task
from data.training_texts import read_training_text, read_triplets
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
# The column team has two labels, and the column label has one.
ONE_LABEL = "text,label,team\n" + "".join(f"text {n},a,{ABC[n % 3]}\n" for n in range(12))


def table(labels, header: str = "text,label") -> str:
    lines = [f"text {number},{label}\n" for number, label in enumerate(labels)]
    return header + "\n" + "".join(lines)


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
        "by position, from 1 to {2}, with {text= in --task t and label= in --task t}.",
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
    "one label": Case(
        ONE_LABEL, "", "needs two different ones at least. Name another column", ",label=team"
    ),
    "no row has both": Case(
        "text,label\n,\n", "", "Check the columns of --task", edit=lambda text: rows(ABC)
    ),
    "labels that are ids": Case(
        rows([f"t{number}" for number in range(12)]),
        "",
        "Name another column with label= in --task {t}",
        edit=lambda text: rows(ABC),
    ),
    "several labels without a sign": Case(
        rows(["a:b", "b:c", "a:c"]),
        ",kind=multilabel",
        "such as separator=|.",
        ",kind=multilabel,separator=:",
        kind="multilabel",
    ),
    "several labels that are one": Case(
        rows(ABC), ",kind=multilabel", "such as separator=|. If each row has", ",kind=classes"
    ),
    "another sign": Case(
        rows(["a|b", "b", "a"]),
        ",kind=multilabel,separator=/",
        "Name another sign.",
        ",kind=multilabel,separator=|",
        kind="multilabel",
    ),
    "several labels that are all one": Case(
        rows(["a"]).replace("text 0,a", "text 0,a|a"),
        ",kind=multilabel,separator=|",
        "with several labels needs two at least. Name another column",
        edit=lambda text: rows(["a|b", "b"]),
        kind="multilabel",
    ),
    "several labels that are ids": Case(
        rows([f"a{number}|b{number}" for number in range(12)]),
        ",kind=multilabel,separator=|",
        "Check label= and separator= in --task",
        edit=lambda text: rows(["a|b", "b"]),
        kind="multilabel",
    ),
    "a list of labels": Case(
        "\n".join(json.dumps({"text": f"t{n}", "label": ["a", "b"][n % 2 :]}) for n in range(12)),
        "",
        "If these are several labels of a row, say kind=multilabel in --task.",
        ",kind=multilabel",
        kind="multilabel",
    ),
    "one column twice": Case(rows(ABC), ",label=text", "Pass different ones.", ",label=label"),
    "no key and value": Case(rows(ABC), ",dev", "is no key=value. Expected is such as", ",dev=0.2"),
    "an open quote in a key": Case(rows(ABC), ',text="text', "Close or drop it.", ',text="text"'),
    "a key that is misspelt": Case(
        rows(ABC), ",lable=label", "did you mean {label}=?", ",label=label"
    ),
    "a kind that is misspelt": Case(
        rows(ABC), ",kind=clases", "Did you mean {classes}?", ",kind=classes"
    ),
    "labels that are dropped, too": Case(
        rows(ABC),
        ",labels=a|b|c,drop_labels=c",
        "drop_labels= both name '{c}'. Drop one",
        ",labels=a|b|c",
    ),
    "labels of a number": Case(
        rows(["1", "2", "3"]),
        ",labels=1|2|3,low=1,high=3",
        "belong to a number. Drop one of them.",
        ",labels=1|2|3",
    ),
    "a quote that is never closed": Case(
        rows(ABC).replace("text 3", '"text 3'),
        "",
        "stands where none belongs, does this. Fix it.",
        edit=lambda text: text.replace('"', ""),
    ),
    "a word among numbers": Case(
        rows([*"0123456789", "10.5", "bad"]),
        "",
        "or fix '{bad}', which is not a number, if it holds scores",
        edit=lambda text: text.replace("bad", "0.5"),
        kind="score",
    ),
    "a word among numbers that is dropped": Case(
        rows([*"0123456789", "10.5", "-"]),
        "",
        "or drop such rows with drop_labels={-}, if it holds scores",
        ",drop_labels=-",
        kind="score",
        num_rows=11,
    ),
    "labels of one row each": Case(
        table([f"t{n // 3},{ABC[n % 3]}" for n in range(900)], "text,label,team"),
        "",
        "Otherwise name another column with label=.",
        ",label=team",
        num_rows=900,
    ),
    "a row with one more field": Case(
        "text,label\ntext 0,a,b\n", "", "Fix the row.", edit=lambda text: rows(ABC)
    ),
    "an array of JSON that is cut": Case(
        '[{"text": "a", "label": ',
        "",
        "not readable as one ({Expecting value: line 1 column 25 (char 24)}). Write the file again",
        edit=lambda text: json.dumps([{"text": f"t{n}", "label": ABC[n % 3]} for n in range(12)]),
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


# --- warnings -------------------------------------------------------------------------------------


class Warned(NamedTuple):
    """A table that gives a warning, its words, and the table and the keys that they ask for."""

    content: str
    keys: str
    words: str
    new_content: str = ""
    new_keys: str = ""


WARNINGS = [
    Warned(
        table(["a", "b", "nan"] * 4),
        "",
        'To drop such rows, add drop_labels="{nan}" to --task.',
        new_keys=',drop_labels="nan"',
    ),
    Warned(
        table(["0.5", "1.5", "2.5", "-1"] * 4),
        "",
        'To drop such rows, add drop_labels="-1" to --task.',
        new_keys=',drop_labels="-1"',
    ),
    Warned(
        table(["Yes", "yes", "no"] * 4),
        "",
        "If they mean the same, write them alike.",
        table(["yes", "yes", "no"] * 4),
    ),
    Warned(
        table(["joy|fear", "fear", "joy", "joy;fear"] * 4),
        ",kind=multilabel",
        "so each is one label here. Write all of them alike.",
        table(["joy|fear", "fear", "joy", "joy|fear"] * 4),
        ",kind=multilabel",
    ),
    Warned(
        table(["joy|fear", "fear", "joy"] * 4),
        "",
        "To train them as several labels of a row, say kind=multilabel in --task.",
        new_keys=",kind=multilabel",
    ),
    Warned(
        table([f"{number},{ABC[number % 3]}" for number in range(300)], "text,label,team"),
        "",
        "If they are no scores, name another column with label= in --task.",
        new_keys=",label=team",
    ),
]


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: case.words)
def test_a_warning_is_gone_when_its_advice_is_followed(tmp_path, case):
    path = tmp_path / "train.csv"

    def said(content: str, keys: str) -> str:
        path.write_text(content, encoding="utf-8")
        return resolve_task(parse_task(f"name=t,train={path}{keys}")).line

    assert shown(case.words) in said(case.content, case.keys)
    assert shown(case.words) not in said(case.new_content or case.content, case.new_keys)


# --- files of other kinds -------------------------------------------------------------------------


def read_task(path: Path) -> None:
    flag = f"name=t,train={path},dev=0.5"
    read_splits(resolve_task(parse_task(flag)).spec, DataOptions(task=(flag,)))


def read_corpus(path: Path) -> None:
    check_files([path])
    assert list(read_lines([path]))


class Edit(NamedTuple):
    """A file that is refused, words of the message, and the file that they ask for."""

    read: Callable[[Path], object]
    name: str
    content: str | bytes
    words: str
    mended: str


def read_gold(path: Path) -> None:
    """As a command reads that has no flag to drop rows."""
    read_examples(path, SST)


TABLE = "text,label\na,x\nb,y\nc,x\nd,y\n"
SCORED = "sentence1\tsentence2\tscore\na\tb\t1\n"
INFERRED = "premise\thypothesis\tlabel\na\tb\tentailment\na\tc\tcontradiction\n"
TRIPLETS = "anchor\tpositive\tnegative\na\tb\tc\n"
# What a file begins with, and what the message asks for.
FORMATS = {
    gzip.compress(TABLE.encode()): "unpack it with gunzip first",
    bz2.compress(TABLE.encode()): "unpack it with bunzip2 first",
    lzma.compress(TABLE.encode()): "unpack it with unxz first",
    b"\x28\xb5\x2f\xfd": "unpack it with unzstd first",
    b"7z\xbc\xaf": "unpack it with 7z first",
    b"\xd0\xcf\x11\xe0": "save it as .xlsx without a password, or as CSV in UTF-8",
    b"%PDF": "copy its table into a file of CSV in UTF-8",
    b"{\\rtf": "save it as plain text in UTF-8",
    b"PAR1": "write it with pandas.read_parquet(...).to_csv(...) first",
    b"ARROW1": "write it with pandas.read_feather(...).to_csv(...) first",
    b"SQLite format 3": "export the table as CSV first",
    b"\x80\x04\x95": "a pickle of Python; write it with to_csv(...) first",
    TABLE.replace("a,x", "wör,ä").encode("cp437"): "Save it again as CSV in UTF-8.",
    b"<!DOCTYPE html><html><body>x</body></html>": "Download the table itself, as CSV.",
}
EDITS = [Edit(read_task, "a.csv", content, words, TABLE) for content, words in FORMATS.items()]
EDITS += [
    Edit(
        read_task,
        "a.csv",
        "text,label\na,x\nb,y\n",
        "too few to draw dev rows from. Name a file with dev=",
        TABLE,
    ),
    Edit(
        read_training_text,
        "a.csv",
        "first,second\nx,y\n",
        "Rename the columns, or write tab-separated lines",
        "sentence1,sentence2\nx,y\n",
    ),
    Edit(
        read_training_text,
        "a.tsv",
        "x y\tz w\na b\tc\td\n",
        "and the first line has {2}. Fix or remove the row.",
        "x y\tz w\n",
    ),
    Edit(
        read_training_text,
        "a.tsv",
        SCORED.replace("b", ""),
        "are not all there. Fix or remove the row.",
        SCORED,
    ),
    Edit(
        read_training_text,
        "a.tsv",
        SCORED.replace("score", "label").replace("1\n", "2\n"),
        "Name the column score if they are scores of 0 to {5}.",
        SCORED,
    ),
    Edit(
        read_training_text,
        "a.tsv",
        INFERRED.replace("contradiction", "neutral"),
        "so there is no triplet in it. Add such rows.",
        INFERRED,
    ),
    Edit(
        read_training_text,
        "a.tsv",
        INFERRED.replace("entailment", "0").replace("contradiction", "2"),
        "Write them in place of it.",
        INFERRED,
    ),
    Edit(
        read_training_text,
        "a.tsv",
        "1\ta\n0\tb\n2\tc\n",
        "such as sentence1, sentence2 and score, or label and text.",
        "label\ttext\n1\ta\n0\tb\n2\tc\n",
    ),
    Edit(
        read_training_text,
        "a.tsv",
        TRIPLETS.splitlines()[0] + "\n",
        "a header and no rows; expected is at least one. Fix the file.",
        TRIPLETS,
    ),
    Edit(
        read_triplets,
        "a.tsv",
        "anchor\tpositive\tanswer\na\tb\tc\n",
        "have the columns premise, hypothesis and label. Fix the file.",
        TRIPLETS,
    ),
    Edit(
        read_training_text,
        "a.tsv",
        TRIPLETS.replace("\tc", ""),
        "{a.tsv, line 2}: {the row has 2 fields; the header names 3}. Fix or remove the row.",
        TRIPLETS,
    ),
    Edit(
        read_gold,
        "a.tsv",
        "id\tsentence\tsentiment\n1\ta\t9\n",
        "Fix or remove the row.",
        "id\tsentence\tsentiment\n1\ta\t4\n",
    ),
    Edit(read_corpus, "a.txt", "id\ttext\n1\teins\n", "Write its column of texts", "eins\n"),
    Edit(
        read_corpus,
        "a.txt",
        "fünf\n".encode("latin-1"),
        "Convert the file, for instance with iconv -f cp1252 -t utf-8",
        "fünf\n",
    ),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.words)
def test_a_file_is_read_after_its_edit(tmp_path, edit, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(edit.name)
    content = edit.content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError) as caught:
        edit.read(path)
    assert shown(edit.words) in str(caught.value)
    path.write_text(edit.mended, encoding="utf-8")
    edit.read(path)
