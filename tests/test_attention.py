"""Attention on its own; run it alone with `python -m pytest tests/test_attention.py`.

B batch, T tokens, H hidden, N heads, D head size. From easy to hard: a number worked by hand, a slow loop, PyTorch's
own layer, properties, and at the end wrong versions that have to fail.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from minbert import BertConfig
from minbert.attention import MultiHeadAttention, attention, fused_attention, mask_to_bias

BOTH = pytest.mark.parametrize("attend", [attention, fused_attention], ids=["written-out", "fused"])
EXACT = 1e-12  # float64, a dozen operations: measured 1e-15


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_close(found: Tensor, expected: Tensor, hint: str, tolerance: float = EXACT) -> None:
    assert found.shape == expected.shape, f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}. {hint}"
    difference = (found - expected).abs().max().item()
    assert difference <= tolerance, f"off by {difference:.2e}, at most {tolerance:.0e} expected. {hint}"


# --- by hand ---------------------------------------------------------------------------------------------------------

# One head of size D = 4, two tokens. Query 0 . key 0 = 2 ln 3; divided by sqrt(4) that is ln 3, and key 1 scores 0:
# the softmax gives 3/4 and 1/4. Query 1 scores 0 with both keys: 1/2 and 1/2. The values are unit vectors.
QUERY = torch.tensor([[2.0, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)[None, None]  # (1, 1, 2, 4)
KEY = torch.tensor([[math.log(3), 0, 0, 0], [0, 5, 0, 0]], dtype=torch.float64)[None, None]  # (1, 1, 2, 4)
VALUE = torch.eye(4, dtype=torch.float64)[None, None, :2]  # (1, 1, 2, 4)
BY_HAND = torch.tensor([[0.75, 0.25, 0, 0], [0.5, 0.5, 0, 0]], dtype=torch.float64)[None, None]  # (1, 1, 2, 4)


def check_by_hand(attend) -> None:
    """Three quarters and a quarter; the most common mistakes each give another number."""
    found = attend(QUERY, KEY, VALUE, None, 0.0, False)
    share = found[0, 0, 0, 0].item()
    hint = "Is the softmax taken over the keys (the last dimension of the scores), and are the values its weights' sum?"
    if math.isclose(share, 0.9):
        hint = "exp(2 ln 3) = 9 gives 9/10: did you divide by sqrt(head size)?"
    if math.isclose(share, math.sqrt(3) / (1 + math.sqrt(3))):
        hint = "the scores are divided twice, or by the head size instead of sqrt(head size)."
    assert_close(found, BY_HAND, hint)


def check_mask_by_hand(attend) -> None:
    """With key 1 masked, all weight is on key 0."""
    bias = mask_to_bias(torch.tensor([[1, 0]]), torch.float64)  # (1, 1, 1, 2)
    found = attend(QUERY, KEY, VALUE, bias, 0.0, False)
    expected = VALUE[:, :, [0, 0]]  # (1, 1, 2, 4)
    assert_close(found, expected, "a masked token still counts: is the mask added before the softmax, and does it "
                                  "mask the keys (the last dimension) rather than the queries?")


@BOTH
def test_by_hand(attend):
    check_by_hand(attend)


@BOTH
def test_mask_by_hand(attend):
    check_mask_by_hand(attend)


def test_mask_to_bias():
    bias = mask_to_bias(torch.tensor([[1, 1, 0], [1, 0, 0]]), torch.float32)
    assert bias.shape == (2, 1, 1, 3), "one row of biases for all heads and all queries: (B, 1, 1, T)"
    assert (bias == 0).squeeze().tolist() == [[True, True, False], [True, False, False]], "1 means real, 0 padding"
    assert torch.isfinite(bias).all(), "-inf turns a row that is masked altogether into nan; use the smallest number"


# --- a slow loop -----------------------------------------------------------------------------------------------------


def attention_by_loops(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Equation 1 of Vaswani et al. 2017, one number at a time."""
    result = torch.zeros_like(value)
    batch, heads, tokens, size = query.shape
    for b in range(batch):
        for n in range(heads):
            for i in range(tokens):
                scores = [sum(query[b, n, i, d].item() * key[b, n, j, d].item() for d in range(size)) / math.sqrt(size)
                          + bias[b, 0, 0, j].item() for j in range(tokens)]
                weights = [math.exp(score - max(scores)) for score in scores]
                for j in range(tokens):
                    result[b, n, i] += weights[j] / sum(weights) * value[b, n, j]
    return result


@BOTH
def test_slow_loop(attend):
    query, key, value = draw(3, 2, 3, 4, 5)  # three times (B, N, T, D)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]), torch.float64)
    assert_close(attend(query, key, value, bias, 0.0, False), attention_by_loops(query, key, value, bias),
                 "compare your tensor line by line with attention_by_loops; are B, N, T, D in this order?")


# --- PyTorch's own ---------------------------------------------------------------------------------------------------


def gradients_of(attend, bias: Tensor | None) -> list[Tensor]:
    inputs = [tensor.clone().requires_grad_() for tensor in draw(3, 2, 3, 6, 4)]
    (attend(*inputs, bias, 0.0, True) * draw(2, 3, 6, 4, seed=1)).sum().backward()
    return [tensor.grad for tensor in inputs]


@pytest.mark.parametrize("is_masked", [False, True])
def test_written_out_equals_fused_in_values_and_gradients(is_masked):
    mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
    bias = mask_to_bias(mask, torch.float64) if is_masked else None
    query, key, value = draw(3, 2, 3, 6, 4)
    assert_close(attention(query, key, value, bias, 0.0, True), fused_attention(query, key, value, bias, 0.0, True),
                 "attention and torch's scaled_dot_product_attention are the same function")
    for name, ours, fused in zip(("query", "key", "value"), gradients_of(attention, bias),
                                 gradients_of(fused_attention, bias), strict=True):
        assert_close(ours, fused, f"the gradient of {name} differs: is something detached, or rounded on the way?")


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_layer_equals_torch_multihead_attention(implementation):
    """Projections, heads and output together, against nn.MultiheadAttention with the same weights."""
    config = BertConfig(hidden_size=12, num_attention_heads=3, attention_implementation=implementation)
    ours = MultiHeadAttention(config).double().eval()
    reference = nn.MultiheadAttention(12, 3, batch_first=True).double().eval()
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        reference.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        reference.out_proj.weight.copy_(ours.output.weight)
        reference.out_proj.bias.copy_(ours.output.bias)
    hidden_states, mask = draw(2, 5, 12), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    expected, _ = reference(hidden_states, hidden_states, hidden_states, key_padding_mask=mask == 0)
    found = ours(hidden_states, mask_to_bias(mask, torch.float64))
    assert_close(found, expected, "is (B, T, H) cut into heads as (B, T, N, D) and then transposed to (B, N, T, D)? A "
                                  "view straight to (B, N, T, D) mixes tokens; and back again before the output?")


# --- properties ------------------------------------------------------------------------------------------------------


@BOTH
def test_weights_sum_to_one(attend):
    query, key, _ = draw(3, 2, 3, 6, 4)
    constant = torch.ones(2, 3, 6, 4, dtype=torch.float64)
    assert_close(attend(query, key, constant, None, 0.0, False), constant, "the weights of a query must sum to 1")


@BOTH
def test_what_padding_holds_never_matters(attend):
    query, key, value = draw(3, 2, 3, 6, 4)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.float64)
    before = attend(query, key, value, bias, 0.0, False)
    key[:, :, 4:], value[:, :, 4:] = 7.0, 1e6
    assert_close(attend(query, key, value, bias, 0.0, False), before, "padded keys or values leak into the result")


@BOTH
def test_order_of_keys_and_of_the_batch(attend):
    query, key, value = draw(3, 3, 2, 5, 4)
    before, order = attend(query, key, value, None, 0.0, False), torch.tensor([3, 0, 4, 1, 2])
    assert_close(attend(query, key[:, :, order], value[:, :, order], None, 0.0, False), before,
                 "attention has no order of its own: keys and values permuted alike give the same")
    rows = torch.tensor([2, 0, 1])
    assert_close(attend(query[rows], key[rows], value[rows], None, 0.0, False), before[rows], "batch rows are mixed")


@BOTH
def test_extreme_scores_and_rows_of_padding_stay_finite(attend):
    query, key, value = (tensor.float() for tensor in draw(3, 2, 3, 6, 4))
    everything_masked = mask_to_bias(torch.zeros(2, 6), torch.float32)
    assert torch.isfinite(attend(query * 1e4, key * 1e4, value, None, 0.0, False)).all(), "softmax without its maximum?"
    assert torch.isfinite(attend(query, key, value, everything_masked, 0.0, False)).all(), "-inf in the mask bias?"


def test_dropout_drops_whole_links_in_training_only():
    """Uniform weights 1/8 and unit values show each link: 0 where dropped, 1/8 / (1 - p) = 1/4 where kept."""
    flat, value = torch.zeros(1, 1, 8, 8), torch.eye(8)[None, None]
    torch.manual_seed(0)
    links = attention(flat, flat, value, None, 0.5, True)
    assert set(links.unique().tolist()) == {0.0, 0.25}, "dropout belongs on the probabilities, after the softmax"
    assert 0.2 < (links == 0).float().mean() < 0.8  # 64 links, p = 0.5: five standard deviations
    for attend in (attention, fused_attention):
        assert_close(attend(flat, flat, value, None, 0.5, False), torch.full((1, 1, 8, 8), 0.125),
                     "with training=False nothing may be dropped", 1e-7)  # fp32


@BOTH
def test_half_precision_keeps_its_type(attend):
    query, key, value = (tensor.bfloat16() for tensor in draw(3, 2, 3, 6, 4))
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.bfloat16)
    found = attend(query, key, value, bias, 0.0, False)
    assert found.dtype == torch.bfloat16
    expected = attention(query.double(), key.double(), value.double(), bias.double(), 0.0, False)
    assert_close(found.double(), expected, "is the softmax in float32?", 0.03)  # bf16 has 8 bits: 2^-8 = 0.004 a step


# --- wrong versions must fail ----------------------------------------------------------------------------------------


def without_scale(query, key, value, bias, probability, training):
    return attention(query * math.sqrt(query.size(-1)), key, value, bias, probability, training)


def divided_by_size(query, key, value, bias, probability, training):
    return attention(query / math.sqrt(query.size(-1)), key, value, bias, probability, training)


def softmax_over_queries(query, key, value, bias, probability, training):
    return (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-2) @ value


def mask_after_softmax(query, key, value, bias, probability, training):
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-1)
    return (weights * (bias == 0)) @ value


def mask_over_queries(query, key, value, bias, probability, training):
    return attention(query, key, value, bias.transpose(-2, -1), probability, training)


@pytest.mark.parametrize(("wrong", "check", "hint"), [
    (without_scale, check_by_hand, "did you divide by sqrt"),
    (divided_by_size, check_by_hand, "instead of sqrt"),
    (softmax_over_queries, check_by_hand, "over the keys"),
    (mask_after_softmax, check_mask_by_hand, "before the softmax"),
    (mask_over_queries, check_mask_by_hand, "mask the keys"),
])
def test_negative_control(wrong, check, hint):
    with pytest.raises(AssertionError, match=hint):
        check(wrong)
