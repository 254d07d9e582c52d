"""`python -m tools.benchmarks`: names, flags, `all`, and the measured model."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from experiments.records import read_records
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pretraining.sizes import SIZES
from minbert.training.code_version import code_version
from tools.benchmarks import __main__ as command
from tools.benchmarks.inputs import MINILM_SHAPE, require, write_model


def test_every_name_has_a_question_and_a_function():
    assert command.load_benchmarks().keys() == command.QUESTIONS.keys()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["train-stepp"], "no benchmark is called 'train-stepp'; did you mean train_step?"),
        ([], "no name is given"),
        (["memory", "--n", "0"], "--n is 0; pass 1 or more"),
        (["memory", "--record", "--quick"], "--record is for full measurements; drop it, or drop"),
        (["train_step", "--precision", "int8"], "--precision int8 is for inference alone; pass"),
        (["memory", "--device", "cuda"], "--device has no effect on memory; drop it"),
    ],
)
def test_flags_that_are_refused(capsys, flags, message):
    with pytest.raises(SystemExit) as stop:
        command.main(flags)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_all_gives_each_benchmark_only_the_flags_that_it_reads(monkeypatch):
    commands = []

    def start(words, **_):
        commands.append(words)
        return contextlib.nullcontext(SimpleNamespace(stdout=[], returncode=1))

    monkeypatch.setattr(command.subprocess, "Popen", start)
    values = {"batch_size": 64, "device": "mps", "compile": True, "pooling": "cls"}
    flags = ["--batch-size", "64", "--device", "mps", "--compile", "--pooling", "cls", "--quick"]
    lines = command.run_all(command.parse(["all", *flags]), log=lambda text: None)
    assert lines == dict.fromkeys(command.QUESTIONS)

    # `parse` would exit where a flag has no effect.
    parsed = [command.parse(words[3:]) for words in commands]
    for name, value in values.items():
        readers = {arguments.name for arguments in parsed if getattr(arguments, name) == value}
        assert readers == set(command.FLAG_USES[name].benchmarks), name


def test_all_continues_after_a_failure(monkeypatch, tiny_model, tmp_path, capsys):
    """Without the data, every benchmark that reads them ends with code 2."""
    questions = {name: command.QUESTIONS[name] for name in ("tokenize", "optimizer")}
    monkeypatch.setattr(command, "QUESTIONS", questions)
    inputs = ["--model", str(tiny_model), "--data-dir", str(tmp_path)]
    assert command.main(["all", "--quick", "--n", "1", "--threads", "1", *inputs]) == 1
    printed = capsys.readouterr().out
    assert "AdamW(fused=True)" in printed
    assert printed.endswith("failed: tokenize\n")


def test_results_are_recorded_with_what_a_reader_needs_to_judge_them(
    monkeypatch, sample_data, tmp_path, capsys
):
    line = {"name": "memory", "comparisons": [], "checks": [], "notes": [], "versions": {}}
    line["share_of_limit"] = None
    monkeypatch.setattr(command, "load_benchmarks", lambda: {"memory": lambda settings: line})
    path = tmp_path / "benchmarks.jsonl"
    monkeypatch.setattr(command, "BENCHMARKS", path)
    flags = ["--model", "tiny", "--data-dir", str(sample_data), "--threads", "1", "--record"]
    assert command.main(["memory", *flags, "--batch-size", "4"]) == 0
    assert "python -m tools.tables writes its tables" in capsys.readouterr().out

    (record,) = read_records(path)
    assert record["name"] == "memory"
    assert record["model"].startswith("random weights")
    assert record["changed_flags"] == ["--batch-size", "4", "--threads", "1"]
    assert record["machine"]["threads"] == 1
    assert record["machine"]["cores"] >= 1 and record["machine"]["processor"]
    assert record["code"] == code_version()
    assert len(record["data"]) == 64 and record["date"] >= "2026-11-25"
    assert str(tmp_path) not in path.read_text(), "a record is read on other machines, too"

    # Those of all, with the load before the first of them, and without one that failed.
    lines = {"memory": {**record, "busy_cores": 3.0}, "simcse": None}
    monkeypatch.setattr(command, "run_all", lambda arguments, log: lines)
    monkeypatch.setattr(command, "busy_cores", lambda: 0.25)
    assert command.main(["all", *flags]) == 1
    assert [record["busy_cores"] for record in read_records(path)][1:] == [0.25]


def test_a_missing_peer_is_named():
    require("torch")
    with pytest.raises(ValueError, match="peer a-peer-of-nobody is not installed.*setup.sh --dev"):
        require("torch", "a-peer-of-nobody")


@pytest.mark.parametrize(("name", "shape"), [("tiny", SIZES["tiny"]), ("auto", MINILM_SHAPE)])
def test_random_weights_of_a_named_size_or_without_minilm(tmp_path, monkeypatch, name, shape):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert write_model(name, tmp_path).startswith("random weights of ")
    config = BertConfig.from_pretrained(tmp_path)
    assert config.hidden_size == shape.hidden_size
    assert config.num_hidden_layers == shape.num_hidden_layers

    # The vocabulary is that of minbert-mini, and all its ids have an embedding.
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    ids, _ = tokenizer.encode(["A sentence that has zebras in it."], max_length=32)
    assert max(ids[0]) < config.vocab_size
    model = BertModel.from_pretrained(tmp_path)
    assert config.vocab_size == len(model.embeddings.word.weight)
