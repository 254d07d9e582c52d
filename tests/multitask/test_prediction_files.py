"""multitask/prediction_files.py: golden bytes, the way back, each refusal with its line.

A leaderboard compares these files byte for byte. A difference is most likely a blank, or a number
printed in another way.
"""

import errno
import math
import os
from pathlib import Path

import numpy as np
import pytest

from multitask.prediction_files import find_tasks, read_predictions, verify_predictions
from multitask.prediction_files import write_predictions as write
from multitask.tasks import TASKS

SST = TASKS["sst"]
PARA = TASKS["para"]
STS = TASKS["sts"]
IDS = ["a7d575c9ed86ea9633660c67e", "33cfa32975091f471e3a19656", "0009d487c97525f8589179641"]
VALUES = {
    "sst": np.array([3, 0, 4]),
    "para": np.array([1, 0, 1], dtype=np.float32),
    "sts": np.array([2.7514617, -0.25, 5], dtype=np.float32),
}
# What the course's own evaluation writes for these: f"{id} , {value} \n" under its header.
GOLDEN = {
    "sst": b"id \t Predicted_Sentiment \n"
    b"a7d575c9ed86ea9633660c67e , 3 \n"
    b"33cfa32975091f471e3a19656 , 0 \n"
    b"0009d487c97525f8589179641 , 4 \n",
    "para": b"id \t Predicted_Is_Paraphrase \n"
    b"a7d575c9ed86ea9633660c67e , 1.0 \n"
    b"33cfa32975091f471e3a19656 , 0.0 \n"
    b"0009d487c97525f8589179641 , 1.0 \n",
    "sts": b"id \t Predicted_Similiary \n"
    b"a7d575c9ed86ea9633660c67e , 2.7514617 \n"
    b"33cfa32975091f471e3a19656 , -0.25 \n"
    b"0009d487c97525f8589179641 , 5.0 \n",
}
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def refusal(function, *arguments) -> str:
    with pytest.raises(ValueError) as caught:
        function(*arguments)
    return str(caught.value)


# --- what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["dev", "test"])
@each_task
def test_the_six_files_equal_the_golden_bytes(tmp_path, task, split):
    path = tmp_path / "predictions" / f"{task.name}-{split}-output.csv"
    write(path, task, IDS, VALUES[task.name])
    assert path.read_bytes() == GOLDEN[task.name]
    assert os.listdir(path.parent) == [path.name]  # nothing left beside it


@each_task
def test_the_same_bytes_for_any_number_type(tmp_path, task):
    path = tmp_path / "file.csv"
    values = VALUES[task.name]
    for other in (values.tolist(), values.astype(np.float64), tuple(values)):
        write(path, task, IDS, other)
        assert path.read_bytes() == GOLDEN[task.name]


@each_task
def test_read_gives_back_what_was_written(tmp_path, task):
    path = tmp_path / "file.csv"
    write(path, task, IDS, VALUES[task.name])
    predictions = read_predictions(path, task)
    assert list(predictions) == IDS
    assert list(predictions.values()) == VALUES[task.name].tolist()
    assert verify_predictions(path, task, reversed(IDS)) == predictions  # in any order
    assert task in find_tasks(path)


def test_every_float32_survives(tmp_path):
    path = tmp_path / "file.csv"
    generator = np.random.default_rng(5)
    bits = generator.integers(0, 2**32, size=5000, dtype=np.uint32).view(np.float32)
    values = np.concatenate(
        [
            bits[np.isfinite(bits)],
            generator.uniform(-1, 6, 5000).astype(np.float32),
            np.array([1e-45, 3.4028235e38, 0.1, 1 / 3], dtype=np.float32),
        ]
    )
    ids = [f"{index:025x}" for index in range(len(values))]
    write(path, STS, ids, values)
    found = np.array(list(read_predictions(path, STS).values()))
    assert np.array_equal(found.astype(np.float32), values)
    assert np.array_equal(found, values.astype(np.float64))
    rows = path.read_text(encoding="utf-8").splitlines()[1:]
    assert not any("e" in row.split(" , ")[1] for row in rows)  # no exponent


def test_negative_control_six_decimals_would_not_survive():
    value = np.float32(2.7514617)
    assert np.float32(f"{value:.6f}") != value


# --- what is refused ----------------------------------------------------------------------------


def with_change(tmp_path, task, old: bytes, new: bytes) -> Path:
    assert old in GOLDEN[task.name]
    path = tmp_path / f"{task.name}.csv"
    path.write_bytes(GOLDEN[task.name].replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    "task, old, new, line, words",
    [
        (
            SST,
            b"id \t Predicted_Sentiment \n",
            b"",
            1,
            "the header is 'a7d575c9ed86ea9633660c67e , 3 \\n'",
        ),
        (
            SST,
            b"id \t",
            b"id\t",
            1,
            "'id\\t Predicted_Sentiment \\n'; SST needs 'id \\t Predicted_Sentiment \\n'",
        ),
        (SST, b"id \t", b"\xef\xbb\xbfid \t", 1, "the header is '\\ufeffid"),
        (
            STS,
            b"Similiary",
            b"Similarity",
            1,
            "STS needs 'id \\t Predicted_Similiary \\n', byte for byte",
        ),
        (PARA, b" 1.0 \n33", b" 1.0\n33", 2, "the row is 'a7d575c9ed86ea9633660c67e , 1.0\\n'"),
        (
            PARA,
            b" 1.0 \n33",
            b" 1.0 \r\n33",
            2,
            "the row is 'a7d575c9ed86ea9633660c67e , 1.0 \\r\\n'",
        ),
        (PARA, b" , 0.0", b",0.0", 3, "it must be '{id} , {value} \\n', byte for byte"),
        (PARA, b"641 , 1.0 \n", b"641 , 1.0 ", 4, "the row is '0009d487c97525f8589179641 , 1.0 '"),
        (PARA, b"641 , 1.0 \n", b"641 , 1.0 \n\n", 5, "the row is '\\n'"),
        (PARA, b"33cf", b"33,cf", 3, "no comma in the id"),
        (SST, b"656 , 0", b"656 , 5", 3, "the value is '5'; SST needs a class: 0, 1, 2, 3 or 4"),
        (SST, b"656 , 0", b"656 , -1", 3, "the value is '-1'"),
        (SST, b"656 , 0", b"656 , 2.0", 3, "the value is '2.0'"),
        (SST, b"656 , 0", "656 , \u0663".encode(), 3, "the value is '\u0663'"),
        (PARA, b"656 , 0.0", b"656 , 0.7", 3, "the value is '0.7'; PARA needs 0.0 or 1.0"),
        (PARA, b"656 , 0.0", b"656 , 0", 3, "the value is '0'"),
        (STS, b"656 , -0.25", b"656 , nan", 3, "the value is 'nan'; STS needs a finite number"),
        (STS, b"656 , -0.25", b"656 , inf", 3, "the value is 'inf'"),
        (STS, b"656 , -0.25", b"656 , 1e39", 3, "the value is '1e39'"),
        (STS, b"656 , -0.25", b"656 , 2,75", 3, "the value is '2,75'"),
        (STS, b"656 , -0.25", b"656 , 1_0", 3, "the value is '1_0'"),
        (
            STS,
            b"33cfa32975091f471e3a19656",
            b"a7d575c9ed86ea9633660c67e",
            3,
            "stands on line 2 already",
        ),
        (STS, b"33cf", b"33\xffcf", 3, "is not UTF-8"),
    ],
)
def test_refused_with_the_line(tmp_path, task, old, new, line, words):
    path = with_change(tmp_path, task, old, new)
    message = refusal(read_predictions, path, task)
    assert message.startswith(f"{path}, line {line}: ")
    assert words in message


def test_an_empty_file_and_no_file_are_refused(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    message = refusal(read_predictions, empty, SST)
    assert "line 1: the header is missing (the file is empty)" in message
    message = refusal(read_predictions, tmp_path / "none.csv", SST)
    assert "none.csv: cannot be read (No such file" in message
    assert "cannot be read (Is a directory)" in refusal(read_predictions, tmp_path, SST)


def test_another_tasks_file_is_refused(tmp_path):
    path = tmp_path / "file.csv"
    write(path, PARA, IDS, VALUES["para"])
    assert "STS needs 'id \\t Predicted_Similiary" in refusal(read_predictions, path, STS)


def test_an_exponent_of_others_is_read(tmp_path):
    path = with_change(tmp_path, STS, b"-0.25", b"1.25e-05")
    assert read_predictions(path, STS)[IDS[1]] == float(np.float32(1.25e-5))


def test_missing_and_unknown_ids_are_named(tmp_path):
    path = tmp_path / "file.csv"
    write(path, SST, IDS, VALUES["sst"])
    message = refusal(verify_predictions, path, SST, [*IDS[:2], "m1", "m2", "m3", "m4"])
    missing = "4 missing (m1, m2, m3, ...)"
    assert f"of 6 expected SST ids, {missing} and 1 unknown ({IDS[2]})" in message
    message = refusal(verify_predictions, path, SST, [*IDS, "m1"])
    assert "1 missing (m1). There must be one row for each id" in message
    message = refusal(verify_predictions, path, SST, IDS[1:])
    assert f"ids, 1 unknown ({IDS[0]}). There must" in message


@pytest.mark.parametrize(
    "task, ids, values, words",
    [
        (SST, IDS, [1, 2], "3 ids and 2 predictions"),
        (SST, [], [], "0 ids and 0 predictions"),
        (SST, IDS, [1, 2, 5], "line 4: the value is '5'"),
        (SST, IDS, [1, 2.5, 3], "line 3: the value is '2.5'"),  # never cut to 2
        (PARA, IDS, [0, 0.5, 1], "line 3: the value is '0.5'"),
        (STS, IDS, [0, math.nan, 1], "line 3: the value is 'nan'"),
        (STS, IDS, [0, 1, -math.inf], "line 4: the value is '-inf'"),
        (STS, [IDS[0], IDS[1], IDS[0]], [0, 1, 2], f"line 4: id {IDS[0]} stands on line 2 already"),
        (STS, [IDS[0], "a,b", IDS[2]], [0, 1, 2], "line 3: the row is 'a,b , 1.0 \\n'"),
        (STS, [IDS[0], "", IDS[2]], [0, 1, 2], "line 3: the row is ' , 1.0 \\n'"),
    ],
)
def test_nothing_is_written_that_could_not_be_read(tmp_path, task, ids, values, words):
    assert words in refusal(write, tmp_path / "file.csv", task, ids, values)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "code, words", [(errno.ENOSPC, "disk is full"), (errno.EACCES, "Permission denied")]
)
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, code, words):
    path = tmp_path / "file.csv"
    write(path, SST, IDS, [0, 0, 0])
    before = path.read_bytes()

    def write_half(self, content):
        with open(self, "wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    message = refusal(write, path, SST, IDS, VALUES["sst"])
    assert str(path) in message
    assert words in message
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file.csv"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file where the folder should be")
    message = refusal(write, taken / "file.csv", SST, IDS, VALUES["sst"])
    assert str(taken / "file.csv") in message
    assert "Check the folder" in message
    assert taken.read_text() == "a file where the folder should be"


def test_ids_may_hold_blanks(tmp_path):
    """As in an early release of the course's Quora files."""
    path = tmp_path / "para-dev-output.csv"
    write(path, PARA, ["101 0a1b", "102 0a 1b"], [1, 0])
    assert read_predictions(path, PARA) == {"101 0a1b": 1.0, "102 0a 1b": 0.0}
    for row_id in (" x", "x ", "x\ty", "x\ny"):
        with pytest.raises(ValueError, match="the row is"):
            write(path, PARA, [row_id], [1])
