"""data/tables/headers.py: tables without a header are recognised, and read by position."""

from __future__ import annotations

import pytest

from data.examples import SST
from data.options import DataOptions
from data.readers import read_examples
from data.sentence_sets import read_labelled, read_pairs
from data.tables.columns import ColumnNames, Role
from data.task_flags import parse_task
from data.task_tables import read_splits, resolve_task
from data.user_texts import TEXT, read_texts

# As the sets are published: SMS Spam, CoLA, STS-B, and the polarity of tweets in Sentiment140.
SETS = {
    "SMS Spam": (
        "rows",
        [("ham" if number % 3 else "spam", f"text number {number}") for number in range(24)],
        "text=2,label=1",
    ),
    "CoLA": (
        "rows.tsv",
        [("gj04", str(n % 2), "*" if n % 2 == 0 else "", f"Sentence {n}.") for n in range(24)],
        "text=4,label=2",
    ),
    "STS-B": (
        "rows.csv",
        [
            (
                "main-news",
                "MSRvid",
                "2012test",
                f"{n:04}",
                f"{n % 11 / 2:.3f}",
                f"A {n}.",
                f"B {n}.",
            )
            for n in range(24)
        ],
        "text=6,text_pair=7,label=5",
    ),
    "no words tell": (
        "rows",
        [(f"text {n}", f"{'ab'[n % 2]}") for n in range(4)],
        "text=1,label=2",
    ),
}


def test_sets_that_other_programs_wrote(tmp_path):
    """Sentiment140 quotes every field. AG News has commas, and no quotes around the class."""
    tweets = "".join(
        f'"{4 * (n % 2)}","{1467810000 + n}","Mon Apr 06","NO_QUERY","u{n}","@x ""{n}"", ok"\n'
        for n in range(24)
    )
    news = "".join(f'{n % 4 + 1},"Title {n}","Text, number {n}"\n' for n in range(24))
    for name, content, keys in (
        ("tweets", tweets, "text=6,label=1"),
        ("news", news, "text=3,label=1"),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(content, encoding="utf-8")
        spec = resolve_task(parse_task(f"name=t,train={path},{keys}")).spec
        assert len(read_examples(path, spec.format).examples) == 24
        with pytest.raises(ValueError, match=r"line 1: expected is a header.*position, from 1 to"):
            resolve_task(parse_task(f"name=t,train={path}"))


def test_a_workbook_without_a_header(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")
    workbook = openpyxl.Workbook()
    for number in range(12):
        workbook.active.append([f"text {number}", number % 3])
    path = tmp_path / "rows.xlsx"
    workbook.save(path)
    spec = resolve_task(parse_task(f"name=t,train={path},text=1,label=2")).spec
    table = read_examples(path, spec.format)
    assert len(table.examples) == 12 and "and row 1 is read as a row" in table.summary


def test_a_name_that_is_no_column_may_be_a_position(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("first text\tx\nsecond text\ty\nthird text\tz\n")
    names = ColumnNames(text="text")
    with pytest.raises(ValueError, match=r"or its position, 1 to 2, if the file has no header"):
        read_texts(path, [TEXT], names)
    assert len(read_texts(path, [TEXT], ColumnNames(text="1")).rows) == 3


def test_positions_begin_at_one(tmp_path):
    """Programs count from 0. The message has the names of the header, and no numbers."""
    path = tmp_path / "rows.csv"
    path.write_text("message,team\nfirst,x\nsecond,y\nthird,x\n")
    words = "column 0, which --text names; found are: message, team. Pass one of these"
    with pytest.raises(ValueError, match=words):
        read_texts(path, [TEXT], ColumnNames(text="0", label="1"))


@pytest.fixture(params=SETS)
def published(request, tmp_path):
    """A file without a header, its rows, and the keys of --task for it."""
    name, rows, keys = SETS[request.param]
    path = tmp_path / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path, rows, keys


def test_no_row_is_lost(published):
    path, rows, keys = published
    flag = f"name=t,train={path},dev={path},test={path},{keys}"
    spec = resolve_task(parse_task(flag)).spec
    places = [int(item.partition("=")[2]) - 1 for item in keys.split(",")]
    for table in read_splits(spec, DataOptions(task=(flag,))).values():
        assert "its columns are named by position, and line 1 is read as a row" in table.summary
        texts = [tuple(row[place] for place in places[:-1]) for row in rows]
        assert [example.texts for example in table.examples] == texts
        labels = [row[places[-1]] for row in rows]
        if spec.is_regression:
            assert [example.label for example in table.examples] == [float(x) for x in labels]
        else:
            assert [spec.label_names[int(e.label)] for e in table.examples] == labels


def test_who_names_columns_is_told_to_give_positions(published):
    path, rows, keys = published
    num_columns = len(rows[0])
    flag = f"name=t,train={path},text=text,label=label"
    with pytest.raises(ValueError) as caught:
        resolve_task(parse_task(flag))
    if num_columns == 2 and len(rows) == 4:
        assert "the header has no column text" in str(caught.value), "nothing tells"
        return
    message = str(caught.value)
    assert f"{path}, line 1: expected is a header with the names of the columns" in message
    assert f"by position, from 1 to {num_columns}, with text= in --task t and label=" in message


def test_the_other_readers(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [f"{number % 5}.0\tone {number}\ttwo {number}\n" for number in range(12)]
    path.write_text("".join(rows))
    names = ColumnNames(text="2", text_pair="3", label="1")
    assert len(read_pairs(path, names).examples) == 12
    with pytest.raises(ValueError, match="from 1 to 3, with --label and --text and --text-pair"):
        read_pairs(path)

    sentences = read_labelled(path, 1, ColumnNames(text="2", label="1"))
    assert len(sentences.examples) == 12 and len(sentences.classes) == 5

    roles = [Role("--text", ("sentence1",)), Role("--text-pair", ("sentence2",))]
    read = read_texts(path, roles, ColumnNames(text="2", text_pair="3"))
    assert [row.texts for row in read.rows][0] == ("one 0", "two 0") and len(read.rows) == 12
    assert len(read_texts(path, [TEXT], ColumnNames(text="3", id="2")).rows) == 12

    course = tmp_path / "gold.tsv"
    course.write_text("".join(f"{n % 5}\ta{n}\tfilm {n}\n" for n in range(15)))
    gold = read_examples(course, SST, names=ColumnNames(text="3", label="1", id="2"))
    assert [example.id for example in gold.examples] == [f"a{n}" for n in range(15)]


def test_a_task_by_position_predicts_tables_with_other_names(tmp_path):
    """Its columns 6 and 7 are those of its training file."""
    roles = [Role("--text", ("6",)), Role("--text-pair", ("7",))]
    path = tmp_path / "rows.csv"
    path.write_text("first,second\n" + "".join(f"one {n},two {n}\n" for n in range(5)))
    with pytest.raises(ValueError, match=r"no column 6, 7; found are: first, second. Pass the col"):
        read_texts(path, roles, ColumnNames())
    read = read_texts(path, roles, ColumnNames(text="first", text_pair="second"))
    assert [row.texts for row in read.rows] == [(f"one {n}", f"two {n}") for n in range(5)]


def test_a_header_in_another_order_is_not_read_by_position(tmp_path):
    """Position 2 would be the label."""
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"row {n},{'ab'[n % 2]}\n" for n in range(8)))
    with pytest.raises(ValueError, match="no column 2; found are: text, label. Pass the columns"):
        read_texts(path, [Role("--text", ("2",))], ColumnNames())
    read = read_texts(path, [Role("--text", ("2",))], ColumnNames(text="text"))
    assert [row.texts[0] for row in read.rows] == [f"row {n}" for n in range(8)]


def test_free_texts_without_a_header_are_offered_positions(tmp_path):
    """Nothing tells that the first line is a row. Its values as names would lose it."""
    path = tmp_path / "rows.tsv"
    path.write_text("".join(f"one film {n}\tother cat {n}\n" for n in range(8)))
    with pytest.raises(ValueError, match="has no header, a number names a column: 1 to 2"):
        read_texts(path, [Role("--text", ("sentence",))], ColumnNames())
    with pytest.raises(ValueError, match="has no header, a number names a column: 1 to 2"):
        resolve_task(parse_task(f"name=mine,train={path}"))
    read = read_texts(path, [Role("--text", ("sentence",))], ColumnNames(text="1"))
    assert len(read.rows) == 8


def test_positions_in_a_table_with_a_header(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "key,text,team\n" + "".join(f"k{n},text {n},{'ab'[n % 2]}\n" for n in range(12))
    )
    spec = resolve_task(parse_task(f"name=t,train={path},text=2,label=3")).spec
    table = read_examples(path, spec.format)
    assert len(table.examples) == 12
    assert "named by position, and line 1 is read as a header" in table.summary


def test_an_index_without_a_name_shows_a_header(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",message,reply\n" + "".join(f"{n},text {n},reply {n}\n" for n in range(6)))
    read = read_texts(path, [TEXT], ColumnNames(text="3"))
    assert [row.texts for row in read.rows] == [(f"reply {n}",) for n in range(6)]


def test_a_number_that_is_a_name_is_a_name(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,0\n" + "".join(f"{'ab'[n % 2]},text {n}\n" for n in range(12)))
    spec = resolve_task(parse_task(f"name=t,train={path},text=0,label=1")).spec
    assert spec.label_names == ("a", "b")
    assert len(read_examples(path, spec.format).examples) == 12

    # pandas calls columns without names 0, 1, 2.
    path.write_text("0,1\n" + "".join(f"text {n},{n % 3}\n" for n in range(12)))
    spec = resolve_task(parse_task(f"name=t,train={path},text=0,label=1")).spec
    assert spec.label_names == ("0", "1", "2")
    assert len(read_examples(path, spec.format).examples) == 12


def test_keys_of_json_are_a_header(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"text": "text {n}", "label": {n % 3}}}\n' for n in range(12)))
    spec = resolve_task(parse_task(f"name=t,train={path},text=1,label=2")).spec
    assert len(read_examples(path, spec.format).examples) == 12


def test_a_usual_header_is_none_of_the_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("message,team\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(12)))
    with pytest.raises(ValueError, match="the header has no column sentence, label; found are: m"):
        resolve_task(parse_task(f"name=t,train={path}"))
