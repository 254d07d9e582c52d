"""tools/benchmarks: each of the eight from its command to its closing line, on a tiny model."""

from __future__ import annotations

import contextlib
import json
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from minbert.training import cost_estimate
from tools.benchmarks import __main__ as command
from tools.benchmarks import inference, memory, memory_of_batches, surgery, train_step
from tools.benchmarks.inputs import layer_flops
from tools.benchmarks.settings import Settings
from tools.tests.test_comparison import FIELDS

PEERS = {
    "train_step": "transformers",
    "inference": "sentence_transformers",
    "surgery": "torchjd",
    "startup": "transformers",
    "tokenize": "transformers",
    "memory": "transformers",
}

# Those with matrix products: the rows of one sentence or of one step.
NUM_ROWS = {"train_step": 1, "inference": 1, "surgery": 12, "simcse": 128}


@pytest.fixture
def measured_limits(monkeypatch):
    """The precisions of the limits that were measured."""
    precisions = []
    measure = cost_estimate.matrix_product_limit

    def note_and_measure(device, precision):
        precisions.append(precision)
        return measure(device, precision)

    monkeypatch.setattr(cost_estimate, "matrix_product_limit", note_and_measure)
    return precisions


def in_this_process(num_threads, make_side, *arguments):
    """A side without its own process. torch and the peers take long to start in one.

    SideProcess pickles a side: this refuses what it could not send, such as a local function.
    """
    ForkingPickler.dumps((make_side, arguments))
    return contextlib.nullcontext(make_side(*arguments))


def run_quickly(name, model, data, capsys):
    """The closing line, and the text before it."""
    if name in PEERS:
        pytest.importorskip(PEERS[name], reason=f"{PEERS[name]} is the peer; run setup.sh --dev")
    flags = ["--quick", "--n", "1", "--threads", "1", "--model", str(model)]
    if name in command.FLAG_USES["batch_size"].benchmarks:
        flags += ["--batch-size", "4"]
    assert command.main([name, *flags, "--data-dir", str(data)]) == 0
    *text, last = capsys.readouterr().out.splitlines()
    line = json.loads(last)

    assert line.keys() >= FIELDS
    assert line["name"] == name
    assert line["n"] >= 1
    assert line["ours"] > 0
    assert line["peer"] > 0
    assert line["ratio"] == line["ours"] / line["peer"]
    return line, "\n".join(text)


def tokens_of_a_row(line, model):
    """The tokens that the share of the limit counts, whatever the speed of the processor."""
    is_rate = line["unit"] == "sentences/s"
    seconds = 1 / line["ours"] if is_rate else line["ours"] / 1e3
    flops = line["share_of_limit"] * line["limit"] * seconds
    per_weight = 2 if line["name"] == "inference" else 6
    return flops / layer_flops(model, per_weight) / NUM_ROWS[line["name"]]


@pytest.mark.parametrize("name", command.QUESTIONS)
def test_each_runs_to_its_closing_line(
    capsys, monkeypatch, tiny_model, sample_data, measured_limits, name
):
    """On every processor as on one with bf16 instructions: tiny products are emulated quickly."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    for module in (inference, train_step):
        monkeypatch.setattr(module, "SideProcess", in_this_process)

    line, text = run_quickly(name, tiny_model, sample_data, capsys)
    assert "skipped" not in text
    if name in NUM_ROWS:
        assert set(measured_limits) == {"bf16"}
        assert 16 < tokens_of_a_row(line, tiny_model) < 32, "SST's sentences have about 22 tokens"
    else:
        assert not measured_limits
        assert line["share_of_limit"] is None
    if name == "inference":
        sides = [comparison["what"].partition(" : ")[0] for comparison in line["comparisons"]]
        assert sides == ["ours (bf16)", "ours (bf16)", "ours (fp32)"]
        assert len(line["checks"]) == 2


@pytest.fixture
def product_dtypes(monkeypatch):
    """The number types in which linear layers compute."""
    dtypes = set()
    product = torch.nn.functional.linear

    def note_and_compute(rows, weight, bias=None):
        is_autocast = torch.is_autocast_enabled("cpu")
        dtypes.add(torch.get_autocast_dtype("cpu") if is_autocast else weight.dtype)
        return product(rows, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", note_and_compute)
    return dtypes


@pytest.mark.parametrize("name", ["train_step", "inference", "surgery", "simcse", "memory"])
def test_without_bf16_instructions_nothing_is_in_bf16(
    capsys, monkeypatch, tiny_model, sample_data, measured_limits, product_dtypes, name
):
    """What would be emulated is skipped, and the printed lines say so."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    for module in (inference, memory, surgery, train_step):
        monkeypatch.setattr(module, "SideProcess", in_this_process)

    line, text = run_quickly(name, tiny_model, sample_data, capsys)
    assert product_dtypes == {torch.float32}
    assert "- bf16 is skipped: this processor has no fast bf16 matrix product." in text
    for item in line["comparisons"] + line["checks"]:
        assert "bf16" not in item["what"]
    if name in NUM_ROWS:
        assert set(measured_limits) == {"fp32"}
        assert 16 < tokens_of_a_row(line, tiny_model) < 32
    if name == "inference":
        note = "Ours in bf16, the peer in bf16 and the cosines of bf16 vectors are left out."
        assert note in text
        assert "ours in fp32 on cpu" in text
        assert len(line["comparisons"]) == 1
        assert len(line["checks"]) == 1
    if name == "train_step":
        assert not line["checks"]
        goals = [comparison["goal"] for comparison in line["comparisons"]]
        assert goals == [[">=", 1.3], None, None], "the best setting of the peer has one in fp32"


def test_inference_takes_the_precision_that_was_asked_for(monkeypatch, tmp_path):
    """Without one it has none of fp32-onednn, and the share of the limit is that of bf16."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    of_precision = {"auto": ["bf16", "bf16", "fp32"], "fp32-onednn": ["fp32-onednn"] * 2}
    for asked, ours in of_precision.items():
        settings = Settings("", 1, 4, True, 1, tmp_path, asked_precision=asked)
        sides = inference.list_sides(settings)
        for name in ("peer", "peer in bf16"):
            assert sides[name].make_side is inference.peer_side
        comparisons = inference.compare({name: [1.0] for name in sides}, settings, 8)
        assert [item.what.partition(" : ")[0] for item in comparisons] == [
            f"ours ({precision})" for precision in ours
        ]
        assert sides[settings.precision].execution.precision == ours[0] == settings.precision


def test_bf16_is_refused_where_it_would_be_emulated(monkeypatch, capsys):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    monkeypatch.setattr("sys.argv", ["memory_of_batches", "--precision", "bf16"])
    with pytest.raises(SystemExit) as stop:
        memory_of_batches.main()
    assert stop.value.code == 2
    message = "--precision bf16: this processor has no fast bf16 matrix product."
    assert message in capsys.readouterr().err
