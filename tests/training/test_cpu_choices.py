"""What is chosen without a GPU: attention with a fast backward pass, products of the precision."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from minbert import BertConfig, BertModel, BertTokenizer
from minbert.attention import MultiHeadAttention
from minbert.pretraining.mlm import BertForMaskedLM
from minbert.pretraining.options import PlainTextOptions
from minbert.pretraining.plain_text import build_model, measure
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training import cost_estimate
from minbert.training.job import Progress

CPU = torch.device("cpu")


@pytest.mark.parametrize(("implementation", "is_fused"), [("eager", False), ("fused", True)])
def test_a_layer_attends_as_its_config_says(implementation, is_fused):
    """Both give the same values, so that nothing else would tell."""
    config = BertConfig(
        hidden_size=12, num_attention_heads=3, attention_implementation=implementation
    )
    assert MultiHeadAttention(config).is_fused == is_fused


def test_a_run_takes_the_written_out_attention(two_runs):
    record = json.loads((two_runs[0] / "run.json").read_text(encoding="utf-8"))
    assert record["options"]["attention"] == "eager" and record["options"]["device"] == "cpu"


def test_pretraining_takes_the_written_out_attention_and_no_dropout():
    special = BertTokenizer({name: number for number, name in enumerate(SPECIAL_TOKENS)})
    model = build_model(PlainTextOptions(size="tiny"), special, CPU)
    assert [layer.attention.is_fused for layer in model.bert.layers] == [False] * 2
    config = model.bert.config
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_the_limit_is_that_of_products_in_the_precision(precision, dtype, monkeypatch):
    seen = []
    rand = torch.rand

    class Recorder:
        """Stands for the matrix, which is converted before it is multiplied."""

        def to(self, dtype):
            seen.append(dtype)
            return rand(8, 8).to(dtype)

    monkeypatch.setattr(torch, "rand", lambda *size, device: Recorder())
    assert cost_estimate.matrix_product_limit(CPU, precision, num_timed=1) > 0
    assert seen == [dtype]


@pytest.mark.parametrize("has_bf16", [True, False])
def test_an_emulated_product_is_no_limit_of_the_machine(has_bf16, monkeypatch, capsys):
    def limit(device, precision):
        return 1e12 if has_bf16 else pytest.fail("it would take minutes")

    monkeypatch.setattr(
        torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_bf16}, raising=False
    )
    monkeypatch.setattr(cost_estimate, "matrix_product_limit", limit)
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    model = BertForMaskedLM(BertModel(config))
    job = SimpleNamespace(device=CPU, precision="bf16", model=model)
    entry = {"step": 10, "held_out_loss": 1.0, "masked_accuracy": 0.5}
    progress = Progress(step=10, seconds=2.0, best_step=10, history=[entry])
    numbers = measure(PlainTextOptions(batch_size=2, block_size=8), job, progress, 1)
    printed = capsys.readouterr().out
    assert numbers["tokens_per_second"] == 80
    assert numbers["matrix_product_limit"] == (1e12 if has_bf16 else None)
    share = 80 * numbers["flops_per_token"] / 1e12
    assert numbers["share_of_limit"] == (share if has_bf16 else None)
    assert ("this machine reaches in bf16 matrix products" in printed) == has_bf16
    reason = "bf16 is not measured: this processor has no fast bf16 matrix product."
    assert (reason in printed) != has_bf16
