"""What is chosen where there is no GPU: the attention whose backward pass is fast there, products of the precision."""

import json
from argparse import Namespace

import pytest
import torch

from minbert import BertConfig
from minbert.attention import MultiHeadAttention, attention, fused_attention
from minbert.pretraining import plain_text as from_text
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
