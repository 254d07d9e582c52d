"""Every command reads every kind of table: the same texts come back from each file and each reader.

The readers are those of training, `predict`, `embed`, `quality`, `check --gold` and `--nli`.
"""

from __future__ import annotations

import csv
import io
import json

import pytest

from contrastive.sentences import read_triplets
from data.corpus import check_files
from data.examples import PARA, SST, STS
from data.readers import read_examples
from data.sentence_sets import read_labelled, read_pairs
from data.tables.columns import ColumnNames, Role
from data.user_texts import TEXT, read_texts

# The euro sign, a delimiter, quotes, a line break, and a word for nothing.
FIRST = ["Das kostet 5 € im Café", 'one, line\nand "two"', "plain; text", "NA"]
SECOND = ["another", "a, b", "c\nd", "the end"]


# --- what each reader gives -----------------------------------------------------------------------


def texts_of(examples):
    return [example.texts for example in examples]


def read_sst(path):
    return texts_of(read_examples(path, SST).examples)


def read_para(path):
    return texts_of(read_examples(path, PARA).examples)


def read_sts(path):
    return texts_of(read_examples(path, STS).examples)


def read_set(path):
    return texts_of(read_pairs(path).examples)


def read_classes(path):
    return texts_of(read_labelled(path, 2).examples)


def read_one_text(path):
    return [row.texts for row in read_texts(path, [TEXT], ColumnNames(id="key")).rows]


def read_two_texts(path):
    roles = [Role("--text", ("sentence1",)), Role("--text-pair", ("sentence2",))]
    names = ColumnNames(text="first", text_pair="second")
    return [row.texts for row in read_texts(path, roles, names).rows]


READERS = {
    "training on SST": (read_sst, ["id", "sentence", "sentiment"], [0, 1, 2, 3]),
    "training on PARA": (read_para, ["id", "sentence1", "sentence2", "is_duplicate"], [0, 1, 0, 1]),
    "training on STS": (read_sts, ["id", "sentence1", "sentence2", "similarity"], [0, 4.5, 2, 5]),
    "quality --sets": (read_set, ["id", "sentence1", "sentence2", "score"], [0, 4.5, 2, 5]),
    "quality --transfer": (read_classes, ["id", "text", "label"], ["a", "b", "a", "b"]),
    "one text of a user": (read_one_text, ["key", "text", "team"], ["a", "b", "a", "b"]),
    "two texts of a user": (read_two_texts, ["id", "first", "second", "n"], [1, 2, 3, 4]),
    "--nli": (read_triplets, ["sent0", "sent1", "hard_neg"], None),
    "--nli of sentence-transformers": (read_triplets, ["anchor", "positive", "negative"], None),
}


def rows_for(header, labels):
    """Rows under a header: ids and labels where there are labels, and else three texts."""
    if labels is None:
        return [(first, second, "no") for first, second in zip(FIRST, SECOND, strict=True)]
    rows = []
    for number, label in enumerate(labels):
        texts = [FIRST[number], SECOND[number]][: len(header) - 2]
        rows.append((f"r{number}", *texts, label))
    return rows


# --- how each file is written ---------------------------------------------------------------------


def as_csv(header, rows, delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([header, *rows])
    return file.getvalue()


def as_json_lines(header, rows):
    return "\r\n".join(json.dumps(dict(zip(header, row, strict=True))) for row in rows)


def as_workbook(header, rows):
    openpyxl = pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")
    workbook = openpyxl.Workbook()
    for row in (header, *rows):
        workbook.active.append(row)
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


WRITERS = {
    "byte-order mark": (".csv", lambda h, r: as_csv(h, r).encode("utf-8-sig")),
    "UTF-16": (".csv", lambda h, r: as_csv(h, r).encode("utf-16")),
    "UTF-16 with tabs": (".txt", lambda h, r: as_csv(h, r, "\t", "\r\n").encode("utf-16")),
    "Windows-1252": (".csv", lambda h, r: as_csv(h, r, ";", "\r\n").encode("cp1252")),
    "line ends of Windows": (".tsv", lambda h, r: as_csv(h, r, "\t", "\r\n").encode()),
    "all in quotes": (".csv", lambda h, r: as_csv(h, r, quoting=csv.QUOTE_ALL).encode()),
    "vertical bars": (".txt", lambda h, r: as_csv(h, r, "|").encode()),
    "JSON lines": (".jsonl", lambda h, r: as_json_lines(h, r).encode()),
    "a workbook": (".xlsx", as_workbook),
}


@pytest.fixture
def write(tmp_path):
    """A function: writer and reader -> the path of a file for it."""

    def write_file(writer, reader):
        _, header, labels = READERS[reader]
        suffix, content_of = WRITERS[writer]
        path = tmp_path / f"rows{suffix}"
        path.write_bytes(content_of(header, rows_for(header, labels)))
        return path

    return write_file


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_every_file(write, writer, reader):
    path = write(writer, reader)
    read, header, labels = READERS[reader]
    if labels is None:
        expected = rows_for(header, None)
    else:
        expected = [row[1:-1] for row in rows_for(header, labels)]
    assert [tuple(texts) for texts in read(path)] == expected


@pytest.mark.parametrize("writer", WRITERS)
def test_no_table_is_read_as_plain_text(write, writer):
    with pytest.raises(ValueError, match="the file is a table; expected is plain text"):
        check_files([write(writer, "training on STS")])
