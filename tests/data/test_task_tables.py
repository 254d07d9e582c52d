"""data/task_tables.py and task_kinds.py: the kind, the labels and the rows that files give."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from data.options import DataOptions
from data.task_flags import parse_task
from data.task_specs import BUILT_IN, TaskSpec, from_stored, stored
from data.task_tables import read_splits, resolve_task
from minbert.commands.options import from_flat

TEAMS = ("billing", "login", "product, other", "shipping")


def write_table(path: Path, labels, header: str = "text,label") -> Path:
    """A table with a different text in each row."""
    lines = [header]
    for number, label in enumerate(labels):
        quoted = f'"{label}"' if {",", "\n"} & set(str(label)) else label
        lines.append(f"text number {number},{quoted}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def resolve(tmp_path):
    """A function from labels and further keys to the resolved task."""

    def make(labels, keys: str = ""):
        path = write_table(tmp_path / "train.csv", labels)
        return resolve_task(parse_task(f"name=mine,train={path}{keys}"))

    return make


def read(tmp_path, labels, keys: str = "", **options):
    """The tables of a task by split."""
    path = write_table(tmp_path / "train.csv", labels)
    flag = f"name=mine,train={path}{keys}"
    spec = resolve_task(parse_task(flag)).spec
    return read_splits(spec, DataOptions(task=(flag,), **options))


# --- kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "kind", "names", "reason"),
    [
        (["yes", "no"] * 4, "binary", ("no", "yes"), "2 different labels"),
        (["1", "0"] * 4, "binary", ("0", "1"), "2 different labels"),
        (["b", "c", "a"] * 4, "classes", ("a", "b", "c"), "3 different labels"),
        (["10", "9", "2"] * 4, "classes", ("2", "9", "10"), "3 different labels"),
        # pandas writes whole numbers beside missing ones with a point.
        (["1.0", "2.0", "3.0"] * 4, "classes", ("1", "2", "3"), "3 different labels"),
        (["01", "02", "10"] * 4, "classes", ("01", "02", "10"), "3 different labels"),
        (["0.5", "1", "2"] * 4, "score", (), "numbers with fractions"),
        ([str(number) for number in range(21)], "score", (), "21 different numbers"),
    ],
)
def test_the_kind_that_the_labels_suggest(resolve, labels, kind, names, reason):
    spec, line, _ = resolve(labels)
    assert (spec.kind, spec.label_names) == (kind, names)
    assert reason in line and line.startswith(f"task mine: {kind} (")


@pytest.mark.parametrize(
    ("labels", "kind", "num_classes", "words"),
    [
        # Ids of classes, as `datasets` writes them: scikit-learn's type_of_target is multiclass.
        ([str(n) for n in range(77)] * 10, "classes", 77, "0 to 76), 0, 1, 2"),
        ([f"{n}.0" for n in range(77)] * 10, "classes", 77, "If they are scores, say kind=score"),
        ([str(n) for n in range(1, 151)] * 4, "classes", 150, "whole numbers 1 to 150"),
        # A class or two may have no row in training.
        (
            [str(n) for n in range(60) if n % 20 != 7] * 5,
            "classes",
            57,
            "each of these numbers comes many times",
        ),
        # Few rows, no series, or a series that begins elsewhere: scores.
        ([str(n) for n in range(77)] * 3, "score", 0, "leave hardly one out, as classes do, but"),
        ([str(10 * n) for n in range(30)] * 5, "score", 0, "If they are classes, say kind=classes"),
        ([str(n) for n in range(18, 80)] * 5, "score", 0, "If they are classes, say kind=classes"),
        # More than 200 classes are taken only where the user says so.
        ([str(n) for n in range(250)] * 5, "score", 0, "If they are classes, say kind=classes"),
        # Codes of part and kind, or scores with one decimal.
        ([f"{p}.{k}" for p in range(1, 6) for k in range(6)] * 4, "score", 0, "say kind=classes"),
        ([f"{n / 100:.2f}" for n in range(300)] * 5, "score", 0, ""),
    ],
)
def test_numbers_that_may_be_classes_or_scores(resolve, labels, kind, num_classes, words):
    spec, line, _ = resolve(labels)
    assert (spec.kind, len(spec.label_names)) == (kind, num_classes)
    assert words in line and ("warning: " in line) == bool(words)
    # The flag that the warning names decides, without another warning.
    for flag in ("classes", "score"):
        decided = resolve(labels, f",kind={flag}")
        assert decided.spec.kind == flag and "warning" not in decided.line


def test_several_ids_with_a_comma_are_no_silent_numbers(resolve):
    """GoEmotions writes 2,5 for a text with the labels 2 and 5."""
    labels = ["27", "2", "5", "2,5", "5,27", "2"] * 4
    spec, line, _ = resolve(labels)
    assert spec.kind == "score"
    assert "labels such as '2,5' are read as numbers with a decimal comma. If they are sev" in line
    # The advice works.
    advice = line.rpartition("say ")[2].partition(" in --task")[0]
    spec, line, _ = resolve(labels, f",{advice}")
    assert spec.label_names == ("2", "5", "27") and "warning" not in line
    spec, line, _ = resolve(labels, ",kind=classes")
    assert len(spec.label_names) == 5 and "several labels, with ',' between them" in line
    assert "warning" not in resolve(labels, ",kind=score").line
    # Three labels are no number.
    assert resolve([*labels, "2,5,27", "2,5,27"]).spec.kind == "classes"


def test_a_metric_of_scores_decides_too(resolve):
    labels = [str(number) for number in range(77)] * 10
    spec, line, _ = resolve(labels, ",metric=spearman")
    assert spec.kind == "score" and "warning" not in line


def test_the_order_is_said(resolve):
    assert "9, 10 (by number)" in resolve(["10", "9"] * 3).line
    points = ["10", "1", "2"] * 3
    assert "10 (by number; kind=score reads them as scores)" in resolve(points).line
    assert resolve(points, ",kind=score").spec.kind == "score"
    assert "a, b, c (in alphabetical order)" in resolve(["c", "b", "a"] * 3).line
    named = resolve(["no", "yes"] * 3, ",labels=yes|no")
    assert named.spec.label_names == ("yes", "no") and "(in the order of labels=)" in named.line


def test_the_kind_that_the_user_names(resolve):
    assert resolve(["1", "0"] * 4, ",kind=classes").spec.num_outputs == 2
    assert resolve(["1", "2", "3"] * 4, ",kind=score").spec.kind == "score"
    assert resolve(["0.5", "1", "2"] * 4, ",kind=classes").spec.label_names == ("0.5", "1", "2")
    spec = resolve(["1", "2", "3"] * 4, ",low=0,high=10,metric=spearman,loss=mae").spec
    assert (spec.format.low, spec.format.high, spec.start) == (0, 10, 5)
    assert (spec.loss_name, spec.metric_name) == ("mae", "spearman")


def test_limits_of_a_score_are_those_of_the_training_rows(resolve):
    spec, line, _ = resolve(["0.5", "3.5", "2"] * 4)
    assert (spec.format.low, spec.format.high, spec.start) == (0.5, 3.5, 2.0)
    assert "0.5 to 3.5; loss mse, metric pearson" in line


@pytest.mark.parametrize(
    ("labels", "keys", "words"),
    [
        (["a"] * 5, "", "all 5 labels are 'a'; a task needs two different ones at least"),
        (["", ""], "", "no row has a text and a label"),
        ([f"text {n}" for n in range(9)], "", "9 different labels in 9 rows, such as 'text 0'"),
        ([f"t{n // 3}" for n in range(900)], "", "300 different labels in 900 rows. If they are"),
        (["a", "b", "c"] * 3, ",kind=binary", "3 different labels, and --task mine says kind=bin"),
        (["1", "x", "2"], ",kind=score", "line 3: label 'x' is not a number, and --task mine is a"),
        (["a", "b"] * 3, ",labels=a|c", "line 3: label 'b' is none of labels= in --task mine: a,"),
        (["a", "b"] * 3, ",labels=a|b|c", "no training row has the label 'c', which labels= in"),
        (["a", "b"] * 3, ",metric=pearson", "metric=pearson does not fit; its kind is binary (2"),
        (
            ["1.5", "2", "3"],
            ",loss=cross_entropy",
            "loss=cross_entropy does not fit; its kind is sc",
        ),
        (["a", "b"] * 3, ",text=words", "the header has no column words, which text= in --task m"),
        (["a", "b"] * 3, ",label=text", "name the same column, text"),
    ],
)
def test_labels_that_are_refused(resolve, labels, keys, words):
    with pytest.raises(ValueError) as caught:
        resolve(labels, keys)
    assert words in str(caught.value)


def test_a_column_that_is_not_named(tmp_path):
    path = write_table(tmp_path / "train.csv", ["a", "b"] * 3, "message,team")
    with pytest.raises(ValueError, match=r"found are: message, team. Name the columns with text="):
        resolve_task(parse_task(f"name=mine,train={path}"))
    spec = resolve_task(parse_task(f"name=mine,train={path},text=message,label=team")).spec
    assert (spec.format.text_columns, spec.format.label_column) == (("message",), "team")
    with pytest.raises(ValueError, match="there is no such file. Check the path or --task"):
        resolve_task(parse_task(f"name=mine,train={tmp_path}/none.csv"))


def test_labels_that_are_all_lists_are_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    lists = [["a", "b"], ["b"]] * 4
    rows = [json.dumps({"text": f"text {n}", "label": names}) for n, names in enumerate(lists)]
    path.write_text("\n".join(rows))
    with pytest.raises(ValueError, match=r"line 1: 'label' holds \[.*say kind=multilabel in"):
        resolve_task(parse_task(f"name=mine,train={path}"))
    assert resolve_task(parse_task(f"name=mine,train={path},kind=multilabel")).spec.num_outputs == 2
    # Beside single labels, too.
    single = [json.dumps({"text": f"one {n}", "label": "ab"[n % 2]}) for n in range(8)]
    path.write_text("\n".join([*single, *rows]))
    flag = f"name=mine,train={path}"
    spec = resolve_task(parse_task(flag)).spec
    with pytest.raises(ValueError, match="line 9: .*several labels of a row need kind=multilabel"):
        read_splits(spec, DataOptions(task=(flag,)))


def test_a_specification_is_stored_and_read_back(resolve):
    specs = {**BUILT_IN, "mine": resolve(TEAMS * 3).spec}
    content = stored(specs)
    assert from_stored(content, TaskSpec) == specs
    assert BUILT_IN["cfimdb"].column == BUILT_IN["sst"].column


def test_a_file_of_labels_and_sentences_needs_no_names(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("".join(f"{'good' if n % 2 else 'bad'} ||| film {n}\n" for n in range(8)))
    flag = f"name=mine,train={path},dev=0.25"
    spec, line, _ = resolve_task(parse_task(flag))
    assert spec.label_names == ("bad", "good")
    tables = read_splits(spec, DataOptions(task=(flag,)))
    assert tables["train"].examples[0].sentence_1.startswith("film ")
    assert len(tables["dev"].examples) == 2


# --- dev rows from the training file --------------------------------------------------------------


def test_the_split_is_stratified_and_reported(tmp_path):
    labels = [*["a"] * 50, *["b"] * 30, *["c"] * 20]
    tables = read(tmp_path, labels)
    train, dev = tables["train"], tables["dev"]
    assert Counter(example.label for example in dev.examples) == {0: 10, 1: 6, 2: 4}
    assert len(train.examples) == 80
    ids = [example.id for example in train.examples] + [example.id for example in dev.examples]
    assert len(set(ids)) == 100, "no row is in both"
    lines = [int(example.id.removeprefix("line-")) for example in train.examples]
    assert lines == sorted(lines), "the order of the file stays"
    assert "100 rows read, 0 dropped; 80 of them are for training" in train.summary
    assert dev.summary.endswith(
        "20 of 100 rows are dev rows of mine, drawn with seed 0, stratified by label: 10 a, 6 b, "
        "4 c"
    )
    numbers = read(tmp_path, [*["1"] * 50, *["2"] * 30, *["3"] * 20])["dev"].summary
    assert numbers.endswith("10 of label 1, 6 of label 2, 4 of label 3")


def test_the_same_seed_draws_the_same_rows_and_another_one_others(tmp_path):
    labels = ["a", "b"] * 50

    def drawn(keys: str = "") -> list[str]:
        return [example.sentence_1 for example in read(tmp_path, labels, keys)["dev"].examples]

    assert drawn() == drawn() == drawn(",split_seed=0")
    assert drawn() != drawn(",split_seed=1")
    assert len(drawn(",dev=0.5")) == 50


def test_rows_with_the_same_text_stay_together(tmp_path):
    path = tmp_path / "train.csv"
    lines = ["text,label"]
    for number in range(120):
        lines.append(f"text {number % 40},{'ab'[number % 2]}")
    path.write_text("\n".join(lines) + "\n")
    flag = f"name=mine,train={path}"
    tables = read_splits(resolve_task(parse_task(flag)).spec, DataOptions(task=(flag,)))
    dev = {example.texts for example in tables["dev"].examples}
    assert not dev & {example.texts for example in tables["train"].examples}
    assert len(tables["dev"].examples) == 24


def test_dev_rows_of_a_score_have_its_whole_range(tmp_path):
    tables = read(tmp_path, [f"{number / 10:.1f}" for number in range(200)])
    labels = [example.label for example in tables["dev"].examples]
    assert len(labels) == 40
    # Four of each tenth of the ordered scores.
    assert Counter(int(label // 2) for label in labels) == dict.fromkeys(range(10), 4)


def test_a_rare_class_stays_in_training(tmp_path):
    tables = read(tmp_path, [*["a"] * 9, *["b"] * 9, "c", "d", "d"], ",kind=classes")
    dev = Counter(example.label for example in tables["dev"].examples)
    train = Counter(example.label for example in tables["train"].examples)
    assert dev == {0: 2, 1: 2, 3: 1} and train == {0: 7, 1: 7, 2: 1, 3: 1}


def test_names_with_commas_and_large_numbers_are_told_apart(tmp_path):
    labels = [*["a, b"] * 20, *["c"] * 6000]
    tables = read(tmp_path, labels)
    assert tables["dev"].summary.endswith("stratified by label: 4 'a, b', 1,200 c")


def test_a_split_can_be_cut(tmp_path):
    table = read(tmp_path, ["a", "b"] * 50)["train"].cut(10)
    assert len(table.examples) == 10
    assert table.summary.endswith("80 of them are for training, 70 left out as asked")


# --- dev and test files ---------------------------------------------------------------------------


def test_labels_of_other_files_are_the_same_classes(tmp_path):
    dev = write_table(tmp_path / "dev.csv", ["2.0", "1", "3.0"])
    tables = read(tmp_path, ["1", "2", "3"] * 4, f",dev={dev}")
    assert [example.label for example in tables["dev"].examples] == [1, 0, 2]


def test_a_label_that_training_never_had_is_named(tmp_path):
    dev = write_table(tmp_path / "dev.csv", ["a", "B", "c"])
    with pytest.raises(ValueError) as caught:
        read(tmp_path, ["a", "b"] * 4, f",dev={dev}")
    message = str(caught.value)
    assert f"{dev}, line 3: label 'B' is not allowed; mine labels are a, b" in message
    assert "pass --drop-bad-rows" in message
    tables = read(tmp_path, ["a", "b"] * 4, f",dev={dev}", drop_bad_rows=True)
    assert len(tables["dev"].examples) == 1 and len(tables["dev"].dropped) == 2


def test_a_score_outside_the_limits(tmp_path):
    dev = write_table(tmp_path / "dev.csv", ["0.5", "9"])
    tables = read(tmp_path, ["1", "2.5", "4"], f",dev={dev}")
    assert [example.label for example in tables["dev"].examples] == [0.5, 9]
    dev = write_table(tmp_path / "dev.csv", ["1", "9"])
    with pytest.raises(ValueError, match="line 3: label '9' is not allowed; mine labels are 1 to"):
        read(tmp_path, ["1", "2.5", "4"], f",dev={dev},low=1,high=5")
    with pytest.raises(ValueError, match="train.csv, line 4: label '4' is not allowed"):
        read(tmp_path, ["1", "2.5", "4"], ",low=1,high=3")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text\none\ntwo\n", [None, None]),
        ("text,label\none,\ntwo,\n", [None, None]),
        ("text,label\none,b\ntwo,a\n", [1, 0]),
        ("Text,Label\none,b\ntwo,a\n", [1, 0]),
    ],
)
def test_a_test_file_with_and_without_labels(tmp_path, content, expected):
    path = tmp_path / "test.csv"
    path.write_text(content)
    tables = read(tmp_path, ["a", "b"] * 4, f",test={path}")
    assert [example.label for example in tables["test"].examples] == expected


@pytest.mark.parametrize(
    ("train", "hidden", "mark"),
    [
        (["0", "1"], ["-1", "-1"], "-1"),
        (["0", "1", "2"], ["-1.0", "-1.0"], "-1"),
        (["a", "b"], ["?", ""], "?"),
        (["a", "b"], ["*", "*"], "*"),
        (["a", "b"], ["hidden", "hidden"], "hidden"),
        (["0.5", "1", "2"], ["-1", "-1"], "-1"),
        (["0.5", "1", "2"], ["NA", "NA"], "NA"),
    ],
)
def test_hidden_labels(tmp_path, train, hidden, mark):
    path = write_table(tmp_path / "hidden.csv", hidden)
    test = read(tmp_path, train * 4, f",test={path}")["test"]
    assert [example.label for example in test.examples] == [None, None]
    assert f"all its labels are '{mark}', which hides them, so mine gets no test" in test.summary
    # Dev rows need labels. The advice works.
    with pytest.raises(ValueError, match="dev rows need labels. Name another file with dev="):
        read(tmp_path, train * 4, f",dev={path}")
    assert read(tmp_path, train * 4)["dev"].examples


def test_a_test_file_without_labels(tmp_path):
    path = write_table(tmp_path / "test.csv", ["", ""])
    bare = tmp_path / "bare.csv"
    bare.write_text("text\none\ntwo\n")
    for name in (path, bare):
        test = read(tmp_path, ["a", "b"] * 4, f",test={name}")["test"]
        assert [example.label for example in test.examples] == [None, None]
        assert "it has no labels, so mine gets no test score" in test.summary


def test_a_mark_that_is_a_label_hides_nothing(tmp_path):
    path = write_table(tmp_path / "test.csv", ["-1", "-1"])
    test = read(tmp_path, ["-1", "0", "1"] * 4, f",test={path}")["test"]
    assert [example.label for example in test.examples] == [0, 0]


@pytest.mark.parametrize(
    ("train", "content", "reason"),
    [
        (["a", "b"], "text,label\none,-1\ntwo,?\n", "all its labels are '-1' or '?', which hides"),
        # Scikit-learn and scipy give nan for a correlation with equal numbers.
        (["-2", "0.5", "1"], "text,label\none,-1\ntwo,-1.0\n", "all its labels are -1, so"),
        (["0.5", "1", "4"], "text,label\none,2\ntwo,\n", "all its labels are 2, so"),
    ],
)
def test_a_test_file_that_gives_no_score_says_why(tmp_path, train, content, reason):
    path = tmp_path / "test.csv"
    path.write_text(content)
    test = read(tmp_path, train * 4, f",test={path}")["test"]
    assert [example.label for example in test.examples] == [None, None]
    assert reason in test.summary and "so mine gets no test score" in test.summary


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "matthews"])
def test_a_file_with_one_class_only(tmp_path, metric):
    """sklearn.metrics.matthews_corrcoef is 0 there, whatever the model answers."""
    path = write_table(tmp_path / "one.csv", ["b", "b"])
    keys = f",metric={metric}"
    test = read(tmp_path, ["a", "b"] * 4, f"{keys},test={path}")["test"]
    if metric == "matthews":
        assert [example.label for example in test.examples] == [None, None]
        assert "all its labels are 'b', so mine gets no test score" in test.summary
        with pytest.raises(ValueError, match="are 'b'; matthews needs two different .* drop dev="):
            read(tmp_path, ["a", "b"] * 4, f"{keys},dev={path}")
        return
    dev = read(tmp_path, ["a", "b"] * 4, f"{keys},dev={path}")["dev"]
    for table in (test, dev):
        assert [example.label for example in table.examples] == [1, 1]
        assert f"'b', so {metric} only says how often the model gives that answer" in table.summary
    both = write_table(tmp_path / "both.csv", ["b", "a"])
    assert "only says" not in read(tmp_path, ["a", "b"] * 4, f",dev={both}")["dev"].summary


def test_one_score_in_all_dev_rows_is_refused(tmp_path):
    dev = write_table(tmp_path / "dev.csv", ["2", "2.0", "2"])
    with pytest.raises(ValueError, match="all its labels are 2; pearson needs two different"):
        read(tmp_path, ["0.5", "1", "4"] * 4, f",dev={dev}")
    dev.write_text("id\tsentence1\tsentence2\tsimilarity\n1\ta\tb\t2\n2\tc\td\t2.0\n")
    options = from_flat(DataOptions, {"data_dir": "data/sample", "sts_dev": str(dev)}).with_files()
    with pytest.raises(ValueError, match="2; pearson needs two .* another file with --sts_dev"):
        read_splits(BUILT_IN["sts"], options)


def test_one_unknown_label_in_all_rows_is_no_row_to_drop(tmp_path):
    path = write_table(tmp_path / "test.csv", ["TBD", "TBD"])
    with pytest.raises(ValueError) as caught:
        read(tmp_path, ["0", "1"] * 4, f",test={path}")
    message = str(caught.value)
    assert "all its labels are 'TBD', and mine labels are 0, 1" in message
    assert "--drop-bad-rows" not in message and "empty the column" in message


def test_one_hidden_label_beside_others_is_named(tmp_path):
    path = write_table(tmp_path / "test.csv", ["0", "-1", "1"])
    keys = f",test={path}"
    with pytest.raises(ValueError) as caught:
        read(tmp_path, ["0", "1"] * 4, keys)
    message = str(caught.value)
    assert "line 3: label '-1' is not allowed; mine labels are 0, 1; it often stands for" in message
    assert "did you mean" not in message and "pass --drop-bad-rows" in message
    test = read(tmp_path, ["0", "1"] * 4, keys, drop_bad_rows=True)["test"]
    assert [example.label for example in test.examples] == [0, 1]


def test_ids(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("id,key,text,label\n7,x,one,a\n7,y,two,b\n8,z,three,a\n9,w,four,b\n")

    def ids(keys: str = "") -> list[str]:
        flag = f"name=mine,train={path},dev={path}{keys}"
        table = read_splits(resolve_task(parse_task(flag)).spec, DataOptions(task=(flag,)))["dev"]
        return [example.id for example in table.examples]

    assert ids() == ["line-2", "line-3", "line-4", "line-5"], "the column id is not unique"
    assert ids(",id=key") == ["x", "y", "z", "w"]
    with pytest.raises(ValueError, match="the id 7 stands on line 2 already; each row needs"):
        ids(",id=id")
    with pytest.raises(ValueError, match="no column number, which id=number in --task names"):
        ids(",id=number")


# --- numbers with thousands -----------------------------------------------------------------------


def resolve_text(tmp_path, content: str, keys: str = ""):
    """The task of a file with the columns text and label."""
    path = tmp_path / "train.csv"
    path.write_text(content, encoding="utf-8")
    return resolve_task(parse_task(f"name=mine,train={path}{keys}"))


@pytest.mark.parametrize(
    ("labels", "keys", "words"),
    [
        # Read as fractions, 6.124 would count below 331.
        (["540", "6.124", "331"], "", "such as '6.124'. Write such numbers without them: 6124. If"),
        (["540", "6.124", "331"], ",kind=score", "If it is a fraction, write 6,124."),
        (["540", "6.124", "331"], "", "If they are classes, say kind=classes in --task mine."),
        (["2.500", "1.988,0", "3.100"], "", "dots stand before three digits, as thousands are wri"),
        (["2.500", "1.988,0", "3.100"], ",kind=score", "Write such numbers without them: 1988,0."),
        (["2.500", "1.234.567", "3.100"], "", "such as '1.234.567'"),
        # A number with a decimal comma says what the dot is for.
        (["6.124", "12,5", "331"], "", "such as '6.124'"),
    ],
)
def test_thousands_in_a_table_with_semicolons(tmp_path, labels, keys, words):
    rows = [f"text {number};{label}" for number, label in enumerate(labels * 2)]
    with pytest.raises(ValueError) as caught:
        resolve_text(tmp_path, "text;label\n" + "\n".join(rows), keys)
    assert words in str(caught.value) and "column 'label'" in str(caught.value)


def test_a_decimal_comma_in_another_column_tells_thousands(tmp_path):
    content = "text\tlabel\tprice\na b\t6.124\t3,5\nc d\t2.500\t4,25\ne f\t3.100\t4\n"
    with pytest.raises(ValueError, match=r"such as '6\.124'"):
        resolve_text(tmp_path, content)
    without = content.replace("3,5", "3.5").replace("4,25", "4.25")
    assert "2.5 to 6.124" in resolve_text(tmp_path, without).line


@pytest.mark.parametrize("keys", ["", ",kind=score"])
def test_thousands_with_commas(resolve, keys):
    with pytest.raises(ValueError, match="commas stand before three digits.*: 6124. If it is a fr"):
        resolve(["540", "6,124", "331"] * 2, keys)


@pytest.mark.parametrize(
    ("labels", "answers"),
    [
        # Thirds, with three decimals each. A whole number over 99 could not be told apart.
        (["3.667", "4", "2.333"], "2.333 to 4"),
        (["0.125", "540", "2.333"], "0.125 to 540"),
        (["6.12", "540", "6.124"], "6.12 to 540"),
        (["6.124", "5400", "331"], "6.124 to 5400"),
        (["3,667", "4", "2,333"], "2.333 to 4"),
    ],
)
def test_fractions_with_three_decimals_are_read(tmp_path, labels, answers):
    rows = [f"text {number};{label}" for number, label in enumerate(labels * 2)]
    assert answers in resolve_text(tmp_path, "text;label\n" + "\n".join(rows)).line


def test_thousands_in_a_dev_file(tmp_path):
    dev = tmp_path / "dev.csv"
    dev.write_text("text;label\nx y;540\nz w;6.124\n", encoding="utf-8")
    keys = f",dev={dev}"
    content = "text;label\na b;540\nc d;6124,5\ne f;331\n"
    spec = resolve_text(tmp_path, content, keys).spec
    flag = f"name=mine,train={tmp_path / 'train.csv'}{keys}"
    with pytest.raises(ValueError, match=r"dev\.csv, column 'label': dots stand"):
        read_splits(spec, DataOptions(task=(flag,)))


def test_a_column_of_text_is_not_sent_to_kind_score(resolve):
    with pytest.raises(ValueError) as caught:
        resolve([f"text {number}" for number in range(9)])
    assert "kind=score" not in str(caught.value)
    with pytest.raises(ValueError, match="or fix 'x', which is not a number"):
        resolve(["x", *(f"{number}.5" for number in range(9))])


# --- labels that may be mistakes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "spellings"),
    [
        (["Sales", "sales", "help"], "'Sales' (4 rows), 'sales' (4 rows) differ only"),
        (["TRUE", "true", "FALSE"], "'TRUE' (4 rows), 'true' (4 rows) differ only"),
        (["1", "01", "2"], "'01' (4 rows), '1' (4 rows) differ only"),
        (["a  b", "a b", "c"], "'a  b' (4 rows), 'a b' (4 rows) differ only"),
    ],
)
def test_one_label_in_several_spellings_is_named(resolve, labels, spellings):
    lines = resolve(labels * 4).line.splitlines()
    assert len(lines) == 2 and lines[1].startswith("warning: ") and spellings in lines[1]
    assert "are 2 classes" in lines[1]
    # Who lists both, means both.
    assert "warning" not in resolve(labels * 4, f",labels={'|'.join(labels)}").line


# As floats these are one number.
LONG = ["12345678901234567890", "12345678901234567891", "12345678901234567892"]


def test_different_labels_are_not_named(resolve):
    for labels in (["a", "b", "c"], ["1", "2", "10"], ["10", "01", "02"], ["C", "C++", "C#"], LONG):
        assert "warning" not in resolve(labels * 4).line


@pytest.mark.parametrize("word", ["-", "NA", "nan", "?", "None", "null"])
def test_a_label_that_stands_for_a_missing_one_is_named_and_dropped(resolve, tmp_path, word):
    labels = ["neutral", "entailment", word, "contradiction"] * 4
    spec, line, _ = resolve(labels)
    assert f"'{word}' (4 rows) may stand for a missing label" in line and len(spec.label_names) == 4

    spec, line, _ = resolve(labels, f",drop_labels={word}")
    assert "warning" not in line
    assert spec.label_names == ("contradiction", "entailment", "neutral")
    tables = read(tmp_path, labels, f",drop_labels={word}")
    train = tables["train"]
    assert len(train.examples) + len(tables["dev"].examples) == 12
    assert "16 rows read, 4 dropped" in train.summary
    assert f"label '{word}', which drop_labels= names" in train.summary


@pytest.mark.parametrize(
    ("labels", "is_missing"),
    [
        (["0", "1", "2", "-1"], True),
        ([*["0", "1"] * 10, "-1"], True),
        (["pos", "neg", "-1"], True),
        (["-1", "0", "1"], False),
        (["-1", "1"], False),
        (["-2", "-1", "0", "1", "2"], False),
    ],
)
def test_minus_one_beside_ids_of_classes_is_named(resolve, labels, is_missing):
    line = resolve(labels * 4).line
    assert ("'-1' (4 rows) may stand for a missing label" in line) == is_missing
    if is_missing:
        assert "-1" not in resolve(labels * 4, ",drop_labels=-1").spec.label_names


def test_dropped_labels_are_stored_with_the_task(resolve):
    spec = resolve(["a", "b", "-", "NA"] * 4, ",drop_labels=-|NA").spec
    assert from_stored(stored({"mine": spec}), TaskSpec) == {"mine": spec}
    assert spec.kind == "binary"


def test_a_dropped_label_that_no_row_has(resolve):
    with pytest.raises(ValueError, match="no row has the label 'n.a.', which drop_labels= in"):
        resolve(["a", "b"] * 4, ",drop_labels=n.a.")


def test_a_missing_score_says_how_to_drop_it(resolve):
    with pytest.raises(ValueError, match="line 3: label '-' is not a number.*with drop_labels=-"):
        resolve(["1.5", "-", "2"] * 4, ",kind=score")
    assert resolve(["1.5", "-", "2", "3"] * 4, ",drop_labels=-").spec.kind == "score"


def test_missing_labels_among_scores_are_named_and_dropped(resolve):
    scores = [f"{n / 7:.3f}" for n in range(20)]
    assert (
        "'-1' (3 rows) may stand for a missing label, and is"
        in resolve([*scores, *["-1"] * 3]).line
    )
    spec, line, _ = resolve([*scores, *["-1"] * 3], ",drop_labels=-1")
    assert spec.format.low == 0 and "warning" not in line
    # A scale that goes below 0.
    for negative in ("-0.5", "-2"):
        assert "warning" not in resolve([*scores, negative, *["-1"] * 3]).line
    with pytest.raises(
        ValueError, match="or drop such rows with drop_labels=nan, if it holds scor"
    ):
        resolve([*scores, "nan", "nan"])
    assert resolve([*scores, "nan", "nan"], ",drop_labels=nan").spec.kind == "score"


def test_a_column_of_ids_is_named(resolve):
    ids = [str(number) for number in range(300)]
    assert "all 300 labels are different whole numbers, as ids are" in resolve(ids).line
    assert "warning" not in resolve([*ids, "7"]).line
    assert "warning" not in resolve([*ids, "7.5"]).line


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (["a", "b", "a;b"], ";"),
        (["a,b", "b,a", "c"], ","),
        (["a", "b", "a,b", "c,a"], ","),
        (["login|billing", "billing", "login"], "|"),
        (["rock / pop", "pop / jazz", "jazz / rock"], "/"),
        (["['a' 'b']", "['a'; 'b']", "['b'; 'c']", "['c'; 'a']"], ";"),
        (["joy+fear", "joy", "fear", "anger"], "+"),
        (['[""a"", ""b""]', '[""b"", ""a""]', '[""c""]'], ","),
        (["joy fear", "fear", "joy"], " "),
        (["joy#fear", "fear#joy", "anger"], "#"),
        (["joy::fear", "fear", "joy"], "::"),
        (["joy、fear", "fear、joy", "joy"], "、"),
        (["joy\tfear", "fear", "joy"], "a tab"),
        (["joy\nfear", "fear", "joy"], "a line end"),
    ],
)
def test_several_labels_in_a_field_are_named(resolve, labels, separator):
    line = resolve(labels * 4).line
    shown = separator if separator.startswith("a ") else f"'{separator}'"
    assert f"seem to be several labels, with {shown} between them" in line
    # The advice works.
    spec = resolve(labels * 4, ",kind=multilabel").spec
    assert not any(separator in name for name in spec.label_names)
    if separator not in ",|" and not separator.startswith("a "):
        assert "several labels" not in resolve(labels * 4, f",labels={'|'.join(labels)}").line


def test_two_signs_between_labels_are_named(resolve):
    line = resolve(["joy|fear", "fear", "joy", "joy;fear"] * 4, ",kind=multilabel").line
    assert "'joy;fear' (4 rows) seem to be several labels, with ';' between them" in line
    assert "Elsewhere '|' stands between them, so each is one label here. Write" in line


def test_one_label_with_a_sign_inside_is_one_label(resolve):
    for labels in (
        ["yes, but", "no, but", "yes"],
        ["very good", "good", "very bad", "bad"],
        ["C", "C++", "C#"],
        ["R&B", "R&D", "pop"],
        ["sport/tennis", "sport/golf", "news/world"],
        ["product, other", "billing", "login"],
        ["+", "-1", "1"],
        ["issue #1", "issue #2", "bug #1"],
        ["std::vector", "std::list", "vector::sort"],
    ):
        assert "several labels" not in resolve(labels * 4).line


def test_many_combinations_are_refused_with_the_cause(resolve):
    labels = [f"a{n}|b{m}" for n in range(4) for m in range(4)]
    with pytest.raises(ValueError, match=r"such as 'a0\|b0'.*several labels, with '\|' between"):
        resolve(labels)
