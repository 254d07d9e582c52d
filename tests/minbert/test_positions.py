"""The last layer at `positions` alone: the same numbers and gradients as the whole layer's, for less work.

B batch, T tokens, H hidden, P positions.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.methods import SimCSE
from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import POOLINGS, pool, positions_read
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM
from multitask.model import MultitaskBert
from tests.lessons.test_layers import make_batch, make_model

POSITIONS = torch.tensor(
    [0, 13, 4, 9, 18]
)  # of 3 rows of 9 tokens: (0, 0), (1, 4), (0, 4), (1, 0), (2, 0)


def gradients(loss: Tensor, module: torch.nn.Module) -> dict[str, Tensor]:
    loss.backward()
    found = {
        name: parameter.grad
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    module.zero_grad(set_to_none=True)
    return found


def assert_same_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        off = (found[name] - gradient).abs().max().item()
        assert off <= 1e-10, f"the gradient of {name} is off by {off:.1e}"  # float64


def widths(model: BertModel) -> list[int]:
    """The rows that each layer's feed-forward network was given, filled at every pass."""
    found: list[int] = []
    for layer in model.layers:
        layer.feed_forward.register_forward_hook(
            lambda _, inputs, __: found.append(inputs[0].shape[:-1].numel())
        )
    return found


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_as_the_whole_layer_in_values_and_gradients(implementation):
    model, batch = make_model(attention_implementation=implementation).double(), make_batch()
    seen = widths(model)
    whole = model(**batch)
    assert seen == [27, 27, 27], "without positions every layer works on all tokens"
    chosen = whole.last_hidden_state.flatten(0, 1)[POSITIONS]  # (P, H)
    pooled = torch.tanh(model.pooler(chosen))
    expected = gradients(chosen.pow(3).sum() + pooled.sum(), model)
    seen.clear()
    output = model(**batch, output_hidden_states=True, positions=POSITIONS)
    assert seen == [27, 27, 5], (
        "the last feed-forward network works on the five positions, the others on all 27 tokens"
    )
    assert output.last_hidden_state.shape == (5, 1, 24) and output.pooler_output.shape == (5, 24)
    assert output.hidden_states[-1] is output.last_hidden_state and output.hidden_states[
        -2
    ].shape == (3, 9, 24)
    torch.testing.assert_close(output.last_hidden_state.squeeze(1), chosen, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.pooler_output, pooled, rtol=0, atol=1e-12)
    loss = output.last_hidden_state.pow(3).sum() + output.pooler_output.sum()
    assert_same_gradients(gradients(loss, model), expected)


def test_the_first_tokens_are_what_cls_and_pooler_read():
    mask = make_batch()["attention_mask"]  # (3, 9)
    assert positions_read(mask, "mean") is None
    assert (
        positions_read(mask, "cls").tolist()
        == positions_read(mask, "pooler").tolist()
        == [0, 9, 18]
    )


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_way_to_a_sentence_vector_gives_the_whole_layers(tiny_model, pooling):
    """Multitask outputs, contrastive vectors and embeddings, against the vectors of the whole last layer."""
    encoder, tokenizer = (
        BertModel.from_pretrained(tiny_model),
        BertTokenizer.from_pretrained(tiny_model),
    )
    rows = EncodedExamples(
        [Example(text, text, None, 0.0) for text in ("a b c d", "b", "c a b")], tokenizer, 16
    )
    batch = rows.batch([0, 1, 2])
    inputs = (batch.input_ids, batch.attention_mask)
    with torch.no_grad():
        expected = pool(encoder(*inputs), batch.attention_mask, pooling)  # (3, H)
        seen = widths(encoder)
        contrastive = SimCSE(encoder, pooling, 0.05).eval().vectors(encoder, *inputs)
        model = MultitaskBert(encoder, pooling, "cross", 0.0, seed=0, has_common_layer=False).eval()
        logits = model("sst", batch)
    tokens, read = batch.input_ids.numel(), batch.input_ids.numel() if pooling == "mean" else 3
    assert seen == 2 * [*(len(encoder.layers) - 1) * [tokens], read]
    torch.testing.assert_close(contrastive, expected, rtol=0, atol=1e-5)  # fp32
    torch.testing.assert_close(logits, model.heads["sst"](expected), rtol=0, atol=1e-5)
    torch.testing.assert_close(embed(encoder, rows, pooling, "fp32"), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_chosen", [0, 1, 7])
def test_masked_language_modelling_reads_masked_tokens_only(num_chosen):
    model = BertForMaskedLM(make_model()).double()
    batch, labels = make_batch(), torch.full((27,), IGNORED)
    chosen = torch.randperm(27, generator=torch.Generator().manual_seed(0))[:num_chosen]
    labels[chosen] = torch.randint(60, (num_chosen,), generator=torch.Generator().manual_seed(1))
    labels = labels.view(3, 9)
    reference = copy.deepcopy(model)
    logits = reference(
        reference.bert(**batch).last_hidden_state
    )  # (B, T, V): the head at every token
    loss = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    expected = gradients(loss / max(1, num_chosen), reference)
    seen = widths(model.bert)
    found = model.loss(batch["input_ids"], labels, batch["token_type_ids"], batch["attention_mask"])
    assert seen == [27, 27, num_chosen]
    torch.testing.assert_close(found, loss / max(1, num_chosen), rtol=0, atol=1e-10)
    assert_same_gradients(gradients(found, model), expected)
