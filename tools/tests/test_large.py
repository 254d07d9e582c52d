"""tools/benchmarks/large.py: what is made of the numbers of the measured processes."""

from pathlib import Path

import pytest

from tools.benchmarks import large


@pytest.fixture
def started(monkeypatch):
    """The commands that were started, what they answer in turn, and the vectors that they write."""
    commands = []
    answers: list = []
    vectors = [b"vectors"] * 5

    def start(words, num_processes):
        commands.append((list(words), num_processes))
        if "--out" in words and words[0] == "contrastive.embed":
            Path(words[-1]).write_bytes(vectors.pop())
        return answers.pop(0)

    monkeypatch.setattr(large, "start", start)
    return commands, answers, vectors


def test_the_growth_is_that_from_text_to_text(started, tmp_path):
    commands, answers, _ = started
    answers += [[{"peak": 300e6}], [{"peak": 300.5e6}]]
    measured = large.growth(tmp_path, (1, 3))
    assert measured["value"] == pytest.approx(0.5e6 / 2e6, rel=0.3)
    assert [num_processes for _, num_processes in commands] == [1, 1]


def test_the_slower_process_counts_and_files_are_compared(started, tmp_path):
    commands, answers, vectors = started
    answers += [[{"seconds": 18.0}], [{"seconds": 8.0}, {"seconds": 10.0}]]
    answers += [[{"seconds": 9.0}], [{"seconds": 6.0}], [{"seconds": 1.0}]]
    shared, separate = large.embed(tmp_path, "minilm", "fp32", 5)
    assert shared["value"] == pytest.approx(1.8)
    assert (
        separate["value"] == pytest.approx(2.0) and "One sentence takes 1.0" in separate["details"]
    )
    assert [num_processes for _, num_processes in commands] == [1, 2, 1, 1, 1]
    halves = (tmp_path / "first.txt").read_text(), (tmp_path / "second.txt").read_text()
    assert "\n".join(halves) == (tmp_path / "shared.txt").read_text()

    vectors[:] = [b"those of two", b"those of one"]
    answers += [[{"seconds": 1.0}], [{"seconds": 1.0}]]
    with pytest.raises(AssertionError):
        large.embed(tmp_path, "minilm", "fp32", 5)


def test_each_measurement_is_a_record(started, monkeypatch, capsys):
    _, answers, _ = started
    answers += [[{"adding": 1.0, "all": 4.0}, {}]]
    records = []
    monkeypatch.setattr(large, "record_measurement", lambda path, record: records.append(record))
    assert large.main(["gradients", "--record"]) == 0
    assert "0.250" in capsys.readouterr().out
    (record,) = records
    assert record["value"] == 0.25 and record["machine"]["threads"] == 1 and record["model"]


@pytest.mark.parametrize("words", [["growths"], [], ["int8"]])
def test_what_cannot_be_measured(words):
    with pytest.raises(SystemExit):
        large.main(words)
