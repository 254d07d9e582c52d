"""What is chosen where there is no GPU: the attention whose backward pass is fast there, products of the precision."""

import json
from argparse import Namespace

import pytest
import torch

from minbert import BertConfig, BertModel
from minbert.attention import MultiHeadAttention, attention, fused_attention
from minbert.pretraining import plain_text as from_text
from minbert.pretraining.mlm import BertForMaskedLM
from minbert.training import cost_estimate as price

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("implementation", "function"), [("eager", attention), ("fused", fused_attention)]
)
def test_a_layer_attends_as_its_config_says(implementation, function):
    """Both give the same values, so that nothing else would tell."""
    config = BertConfig(
        hidden_size=12, num_attention_heads=3, attention_implementation=implementation
    )
    assert MultiHeadAttention(config).attend is function


def test_a_run_takes_the_written_out_attention(two_runs):
    record = json.loads((two_runs[0] / "run.json").read_text(encoding="utf-8"))
    assert record["options"]["attention"] == "eager" and record["options"]["device"] == "cpu"


def test_pretraining_takes_the_written_out_attention():
    arguments = Namespace(seed=0, init=None, size="tiny", compile=False)
    model = from_text.build_model(arguments, 100, CPU)
    assert [layer.attention.attend for layer in model.bert.layers] == [attention] * 2
    assert (
        model.bert.config.hidden_dropout_prob == model.bert.config.attention_probs_dropout_prob == 0
    )


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_the_limit_is_that_of_products_in_the_precision(precision, dtype, monkeypatch):
    seen, rand = [], torch.rand

    class Recorder:
        def to(self, dtype):
            seen.append(dtype)
            return rand(8, 8).to(dtype)

    monkeypatch.setattr(torch, "rand", lambda *size, device: Recorder())
    assert price.matrix_product_limit(CPU, precision, num_timed=1) > 0 and seen == [dtype]


@pytest.mark.parametrize("has_bf16", [True, False])
def test_an_emulated_product_is_no_limit_of_the_machine(has_bf16, monkeypatch, capsys):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_bf16})
    monkeypatch.setattr(
        price,
        "matrix_product_limit",
        lambda device, precision: 1e12 if has_bf16 else pytest.fail("it would take minutes"),
    )
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    job = Namespace(device=CPU, precision="bf16", model=BertForMaskedLM(BertModel(config)))
    progress = Namespace(
        step=10,
        seconds=2.0,
        best_step=10,
        history=[{"step": 10, "held_out_loss": 1.0, "masked_accuracy": 0.5}],
    )
    numbers = from_text.report(
        progress, job, Namespace(accumulation=1, batch_size=2, block_size=8), 1
    )
    printed = capsys.readouterr().out
    assert numbers["tokens_per_second"] == 80
    assert numbers["matrix_product_limit"] == (1e12 if has_bf16 else None)
    assert numbers["share_of_limit"] == (
        80 * numbers["flops_per_token"] / 1e12 if has_bf16 else None
    )
    assert ("this machine reaches in bf16 matrix products" in printed) == has_bf16
    assert (
        "bf16 is not measured: this processor has no fast bf16 matrix product." in printed
    ) != has_bf16
