"""benchmarks/: the turns and medians, the closing line, the command, lines and exponents. Nothing is timed."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from types import SimpleNamespace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import contrastive, scaling
from benchmarks.comparison import Check, Comparison, json_line, markdown, report, versions
from benchmarks.material import MINILM_SHAPE, require, write_model
from benchmarks.sides import Process, alternate, spread
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pretraining.sizes import SIZES

FIELDS = {"name", "ours", "peer", "unit", "ratio", "n", "share_of_limit", "versions"}


class Clock:
    """Time that passes only when a side works."""

    def __init__(self) -> None:
        self.now, self.taken = 0.0, []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, seconds):
        def take(part: int) -> None:
            self.taken.append((name, part))
            self.now += seconds(len(self.taken))

        return take


def test_sides_take_turns_part_by_part_and_who_goes_first_changes():
    clock, rounds = Clock(), []
    sides = {
        "ours": clock.side("ours", lambda count: 1.0),
        "peer": clock.side("peer", lambda count: 3.0),
    }
    seconds = alternate(
        sides, 2, 3, num_warm=1, between=lambda: rounds.append(clock.now), clock=clock
    )
    assert seconds == {
        "ours": [3.0, 3.0],
        "peer": [9.0, 9.0],
    }  # three parts of 1 and of 3 s; the warm ones not counted
    assert clock.taken[:2] == [("ours", 0), ("peer", 0)]
    assert [f"{name[0]}{part}" for name, part in clock.taken[2:]] == [
        "o0",
        "p0",
        "p1",
        "o1",
        "o2",
        "p2",
        "p0",
        "o0",
        "o1",
        "p1",
        "p2",
        "o2",
    ]
    assert rounds == [16.0, 28.0]


def test_a_comparison_is_of_medians():
    """One slow round of five changes nothing, as it would change a mean."""
    ours, peer = [1.0, 1.0, 50.0, 1.0, 1.0], [4.0, 4.0, 4.0, 4.0, 400.0]
    rate = Comparison.of("a", "rows/s", ours, peer, (">=", 4.0), per=100).as_json()
    assert (rate["ours"], rate["peer"], rate["ratio"], rate["n"], rate["is_met"]) == (
        100,
        25,
        4,
        5,
        True,
    )
    time = Comparison.of("a", "ms", ours, peer, ("<=", 0.2), scale=1e3).as_json()
    assert (time["ours"], time["peer"], time["ratio"], time["is_met"]) == (1000, 4000, 0.25, False)
    assert Comparison.of("a", "ms", ours, peer).as_json()["is_met"] is None


def test_spread_by_hand():
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)  # quartiles 2 and 4, median 3
    assert spread([7.0]) == 0.0


def test_a_process_keeps_its_side_and_says_when_it_ends(capfd):
    with Process(1, make_counter, 5) as process:
        assert [process(1), process(2)] == [6, 8]  # the side remembers
        with pytest.raises(RuntimeError, match="ended with code 1"):
            process("not a number")
    assert "TypeError" in capfd.readouterr().err


def make_counter(start: int):
    total = [start]

    def take(number: int) -> int:
        total[0] += number
        return total[0]

    return take


# --- the closing line, the report and the command ---------------------------------------------------------------------


@pytest.fixture
def line():
    comparisons = [
        Comparison("ours : theirs", "ms", 2.0, 8.0, 5, (0.01, 0.02), ("<=", 0.35)),
        Comparison("ours : another", "ms", 2.0, 1.0, 5, (0.01, 0.02)),
    ]
    return json_line(
        "optimizer",
        comparisons,
        versions(),
        [Check("largest difference", 3e-8, "<=", 1e-6)],
        ["a note"],
        share_of_limit=0.25,
        limit=2e12,
    )


def test_the_line_has_all_fields(line):
    read = json.loads(json.dumps(line))
    assert read.keys() >= FIELDS
    assert (read["ours"], read["peer"], read["ratio"], read["n"]) == (
        2,
        8,
        0.25,
        5,
    )  # of the first comparison
    assert (
        torch.__version__.partition("+")[0] in read["versions"]["torch"]
    )  # a build for CUDA is named by torch alone
    assert [each["is_met"] for each in read["comparisons"] + read["checks"]] == [True, None, True]


def test_the_report_shows_every_benchmark_and_what_failed(line):
    text = report(
        {"optimizer": line, "memory": None},
        command.QUESTIONS,
        "A full run",
        0.1,
        datetime(2026, 1, 2, 3, 4),
    )
    assert (
        text.startswith("# Benchmarks · 2026-01-02 03:04\n") and "\n".join(markdown(line)) in text
    )
    assert "| ours : theirs | 2 | 8 | ms | 0.250 | <= 0.35: met | 5 | 1.0%, 2.0% |" in text
    assert "25.0% of the 2,000 GFLOP/s" in text and "- a note" in text
    assert "## memory" in text and "It failed" in text


def test_every_name_has_a_question_and_a_function(capsys):
    assert command.functions().keys() == command.QUESTIONS.keys()
    assert command.main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown and question in shown for name, question in command.QUESTIONS.items())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["train-stepp"], "no benchmark is called 'train-stepp'; did you mean train_step?"),
        (["xyz"], "no benchmark is called 'xyz'; there are train_step, "),
        ([], "no name is given"),
        (["memory", "--out", "x"], "--out is for the report of all"),
        (["memory", "--n", "0"], "--n is 0; pass 1 or more"),
        (["simcse", "--batch-size", "4"], "--batch-size has no effect on simcse; drop it"),
        (["memory", "--device", "cuda"], "--device has no effect on memory; drop it"),
        (["memory", "--pooling", "cls"], "--pooling has no effect on memory; drop it"),
        (["surgery", "--compile"], "--compile has no effect on surgery; drop it"),
    ],
)
def test_what_is_refused(capsys, flags, message):
    with pytest.raises(SystemExit) as stop:
        command.main(flags)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_all_asks_of_each_only_what_it_reads(monkeypatch):
    asked = []
    failed = contextlib.nullcontext(SimpleNamespace(stdout=[], returncode=1))
    monkeypatch.setattr(
        command.subprocess, "Popen", lambda words, **_: (asked.append(words), failed)[1]
    )
    flags = [
        "all",
        "--batch-size",
        "64",
        "--device",
        "mps",
        "--compile",
        "--pooling",
        "cls",
        "--quick",
    ]
    lines = command.run_all(command.parse(flags), log=lambda text: None)
    assert lines == dict.fromkeys(command.QUESTIONS)
    given = [
        command.parse(words[3:]) for words in asked
    ]  # which exits where a flag would have no effect
    for flag, value in {
        "batch_size": 64,
        "device": "mps",
        "compile": True,
        "pooling": "cls",
    }.items():
        assert {each.name for each in given if getattr(each, flag) == value} == {
            *command.READS[flag][1]
        }, flag


def test_a_missing_peer_is_named():
    require("torch")
    with pytest.raises(ValueError, match="peer a-peer-of-nobody is not installed.*setup.sh --dev"):
        require("torch", "a-peer-of-nobody")


@pytest.mark.parametrize(("name", "shape"), [("tiny", SIZES["tiny"]), ("auto", MINILM_SHAPE)])
def test_random_weights_where_no_others_are_wanted_or_installed(tmp_path, monkeypatch, name, shape):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert write_model(name, tmp_path).startswith("random weights of ")
    found = BertConfig.from_pretrained(tmp_path)
    assert (found.hidden_size, found.num_hidden_layers) == (
        shape.hidden_size,
        shape.num_hidden_layers,
    )
    ids, _ = BertTokenizer.from_pretrained(tmp_path).encode(
        ["A sentence that has zebras in it."], max_length=32
    )
    assert (
        max(ids[0])
        < found.vocab_size
        == len(BertModel.from_pretrained(tmp_path).embeddings.word.weight)
    )


def test_a_run_of_all_goes_on_after_a_failure(monkeypatch, tiny_model, tmp_path, capsys):
    """Without the data every benchmark that reads them ends with code 2; the report says so."""
    monkeypatch.setattr(
        command, "QUESTIONS", {name: command.QUESTIONS[name] for name in ("optimizer", "tokenize")}
    )
    flags = [
        "all",
        "--quick",
        "--n",
        "1",
        "--threads",
        "1",
        "--model",
        str(tiny_model),
        "--data-dir",
        str(tmp_path),
    ]
    assert command.main([*flags, "--out", str(tmp_path / "reports")]) == 1
    (path,) = (tmp_path / "reports").iterdir()
    text = path.read_text(encoding="utf-8")
    assert (
        f"A quick look with {tiny_model.name}" in text
        and "AdamW(fused=True)" in text
        and "It failed" in text
    )
    assert str(tmp_path) not in text  # it is to be read elsewhere


# --- scaling and stages -----------------------------------------------------------------------------------------------


def test_an_exponent_is_the_slope_in_logarithms():
    assert scaling.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert scaling.exponent([1, 2, 4, 8], [5, 5, 5, 5]) == pytest.approx(0)


def test_the_distance_from_a_line():
    assert scaling.off_a_line([1, 2, 4, 8], [3, 5, 9, 17]) == pytest.approx((1, 2, 0), abs=1e-9)
    assert (
        scaling.off_a_line([1, 2, 4, 8], [1, 4, 16, 64])[2] > 0.3
    )  # the negative control: a square is no line


def test_the_distance_from_the_middle():
    assert scaling.off_the_middle([5, 5, 5]) == 0
    assert scaling.off_the_middle([9, 11, 10]) == pytest.approx(0.1)


@pytest.mark.parametrize("names", scaling.TASKS)
def test_a_joint_step_has_every_task(sample_data, tmp_path, monkeypatch, names):
    """What `task_steps` times: one batch of each task, which no other series has."""
    monkeypatch.setattr(scaling, "TASKS", (names,))
    monkeypatch.setattr(scaling.price, "rehearse", lambda job, step: [task for task, _, _ in step])
    (found,) = scaling.task_steps(str(sample_data), "fp32", tmp_path).values()
    assert sorted(found(0)) == sorted(names.split(","))


def test_a_stage_of_the_contrastive_table_is_a_method_or_a_comparison(tiny_model, sample_data):
    found = contrastive.run_apart(
        stage="bsc-rows-only",
        model=str(tiny_model),
        seed=0,
        data_dir=str(sample_data),
        train_rows="sst=32,para=64,sts=32",
    )
    assert (
        found["stage"] == "bsc-rows-only"
        and {"before", "after", "seconds", "peak_memory"} <= found.keys()
    )
    assert contrastive.table([found]).splitlines()[-1].endswith("n=1")
