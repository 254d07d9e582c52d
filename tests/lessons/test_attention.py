"""Attention on its own; run it alone with `python -m pytest tests/lessons/test_attention.py`.

The first failure says most: add `-x`. B batch, T tokens, H hidden, N heads, D head size. From easy to hard: a number
worked by hand, a slow loop, PyTorch's own layer, properties. That wrong versions fail, with the right hint, is tested
in test_student_mistakes.py.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from minbert import BertConfig
from minbert.attention import MultiHeadAttention, attention, fused_attention, mask_to_bias

BOTH = pytest.mark.parametrize("attend", [attention, fused_attention], ids=["written-out", "fused"])
EXACT = 1e-6  # float64, measured 1e-15; a root or a softmax that is rounded to float32 on the way, 6e-8, is allowed


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_shape(found: Tensor, expected: Tensor, hint: str) -> None:
    assert isinstance(found, Tensor), (
        f"found {found}, expected a tensor: not written yet, or is the return missing?"
    )
    assert found.shape == expected.shape, (
        f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}. {hint}"
    )


def assert_close(found: Tensor, expected: Tensor, hint: str, tolerance: float = EXACT) -> None:
    assert_shape(found, expected, hint)
    difference = (found - expected).abs().max().item()
    assert difference <= tolerance, (
        f"off by {difference:.2e}, at most {tolerance:.0e} expected. {hint}"
    )


# --- by hand ---------------------------------------------------------------------------------------------------------

# Two equal heads of size D = 4, two tokens. Query 0 . key 1 = 2 ln 3; divided by sqrt(4) that is ln 3, and key 0 scores
# 0: the softmax gives 1/4 and 3/4. Query 1 scores 0 with both keys: 1/2 and 1/2. The values are unit vectors.
QUERY = torch.tensor([[2.0, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64).expand(1, 2, 2, 4)
KEY = torch.tensor([[0, 5, 0, 0], [math.log(3), 0, 0, 0]], dtype=torch.float64).expand(1, 2, 2, 4)
VALUE = torch.eye(4, dtype=torch.float64)[:2].expand(1, 2, 2, 4)
BY_HAND = torch.tensor([[0.25, 0.75, 0, 0], [0.5, 0.5, 0, 0]], dtype=torch.float64).expand(
    1, 2, 2, 4
)
SHARES = {  # the share of key 1 in query 0's result, and what makes it so
    0.9: "exp(2 ln 3) = 9 gives 9/10: did you divide by sqrt(head size)?",
    math.sqrt(3)
    / (
        1 + math.sqrt(3)
    ): "the scores are divided twice, or by the head size instead of sqrt(head size).",
    1
    / (
        1 + 3 ** -math.sqrt(0.5)
    ): "the scores are divided by sqrt(H); D, the size of one head, is what counts.",
    1
    / (
        1 + 3 ** -math.sqrt(2)
    ): "the scores are divided by sqrt(T), the number of tokens; D, the head size, counts.",
    0.45: "the weights are divided by sqrt(head size) after the softmax; divide the scores, before it.",
    3**4 / (1 + 3**4): "the scores are multiplied by sqrt(head size); divide.",
    0.5: "query and key are swapped: the scores are query @ key^T, and the arguments come as query, key, value.",
}
OVER_KEYS = (
    "Is the softmax taken over the keys, the last dimension of the scores (dim=-1), and is the result weights "
    "@ value?"
)


def check_by_hand(attend) -> None:
    """Three quarters and a quarter; the most common mistakes each give another number."""
    arguments = [tensor.clone() for tensor in (QUERY, KEY, VALUE)]
    found = attend(*arguments, None, 0.0, False)
    assert_shape(
        found,
        BY_HAND,
        "attention returns (B, N, T, D); MultiHeadAttention.forward joins the heads.",
    )
    share = found[0, 0, 0, 1].item()
    hint = next(
        (said for number, said in SHARES.items() if math.isclose(share, number, abs_tol=1e-3)),
        OVER_KEYS,
    )
    if math.isclose(
        found[0, 0, 1, 1].item(), share, abs_tol=1e-3
    ):  # 1/4 where query and key are swapped
        hint = OVER_KEYS
    assert_close(found, BY_HAND, hint)
    for name, given, was in zip(
        ("query", "key", "value"), arguments, (QUERY, KEY, VALUE), strict=True
    ):
        assert torch.equal(given, was), (
            f"attention changed its argument {name} in place; make a new tensor"
        )


def check_mask_by_hand(attend) -> None:
    """With key 1 masked, all weight is on key 0."""
    bias = mask_to_bias(torch.tensor([[1, 0]]), torch.float64)  # (1, 1, 1, 2)
    found = attend(QUERY, KEY, VALUE, bias, 0.0, False)
    expected = VALUE[:, :, [0, 0]]  # (1, 2, 2, 4)
    assert_close(
        found,
        expected,
        "a masked token still counts: is the mask added before the softmax, and does it "
        "mask the keys (the last dimension) rather than the queries?",
    )


def check_dropout(attend) -> None:
    """Uniform weights 1/8 and unit values show each link: 0 where dropped, 1/8 / (1 - p) = 1/4 where kept."""
    flat, value = (
        torch.zeros(1, 1, 8, 8),
        torch.cat([torch.eye(8), torch.eye(8)], dim=-1)[None, None],
    )  # (1, 1, 8, 16)
    torch.manual_seed(0)
    links, again = attend(flat, flat, value, None, 0.5, True).chunk(2, dim=-1)
    found = set(links.unique().tolist())
    hint = "are the weights that stay divided by 1 - p, and nothing else? BERT does not make them sum to 1 again."
    if found == {0.125}:
        hint = "nothing was dropped, or the scores were: dropout belongs on the probabilities, after the softmax."
    if found == {0.0, 0.125}:
        hint = "divide what stays by 1 - p."
    assert found == {0.0, 0.25}, (
        f"weights of 1/8 became {sorted(found)[:4]}, expected 0 and 1/4: {hint}"
    )
    assert torch.equal(links, again), (
        "dropout must drop a link, for all D units at once: before the product with value"
    )
    assert 0.2 < (links == 0).float().mean() < 0.8, (
        "half of the links"
    )  # 64 of them: five standard deviations
    assert_close(
        attend(flat, flat, value, None, 0.5, False),
        torch.full((1, 1, 8, 16), 0.125),
        "with training=False nothing may be dropped",
        1e-7,
    )  # fp32


def test_mask_to_bias():
    bias = mask_to_bias(torch.tensor([[1, 1, 0], [1, 0, 0]]), torch.float32)
    assert isinstance(bias, Tensor), (
        f"mask_to_bias returns {bias}, expected a tensor: not written yet?"
    )
    assert bias.shape == (2, 1, 1, 3), (
        "one row of biases for all heads and all queries: (B, 1, 1, T)"
    )
    assert not bias.isnan().any(), "0 x -inf is nan: use masked_fill, or a finite number"
    assert (bias == 0).squeeze().tolist() == [[True, True, False], [True, False, False]], (
        "1 means real, 0 padding"
    )
    assert torch.isfinite(bias).all(), (
        "-inf turns a row that is masked altogether into nan; use a finite number"
    )
    assert bias.min() <= -1e4, (
        "the bias of padding must be very negative, as torch.finfo(dtype).min is (not .tiny)"
    )
    for dtype in (torch.float64, torch.bfloat16):
        assert mask_to_bias(torch.tensor([[1, 0]]), dtype).dtype == dtype, (
            "the bias must have the dtype asked for"
        )


@BOTH
def test_by_hand(attend):
    check_by_hand(attend)


@BOTH
def test_mask_by_hand(attend):
    check_mask_by_hand(attend)


def test_dropout_drops_whole_links_in_training_only():
    check_dropout(attention)


# --- a slow loop -----------------------------------------------------------------------------------------------------


def attention_by_loops(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Equation 1 of Vaswani et al. 2017, one number at a time."""
    result = torch.zeros_like(value)
    batch, heads, tokens, size = query.shape
    for b in range(batch):
        for n in range(heads):
            for i in range(tokens):
                scores = [
                    sum(query[b, n, i, d].item() * key[b, n, j, d].item() for d in range(size))
                    / math.sqrt(size)
                    + bias[b, 0, 0, j].item()
                    for j in range(tokens)
                ]
                weights = [math.exp(score - max(scores)) for score in scores]
                for j in range(tokens):
                    result[b, n, i] += weights[j] / sum(weights) * value[b, n, j]
    return result


@BOTH
def test_slow_loop(attend):
    query, key, value = draw(3, 2, 3, 4, 5)  # three times (B, N, T, D)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]), torch.float64)
    assert_close(
        attend(query, key, value, bias, 0.0, False),
        attention_by_loops(query, key, value, bias),
        "compare your tensor line by line with attention_by_loops; are B, N, T, D in this order?",
    )


# --- PyTorch's own ---------------------------------------------------------------------------------------------------


def gradients_of(attend, bias: Tensor | None) -> list[Tensor]:
    inputs = [tensor.clone().requires_grad_() for tensor in draw(3, 2, 3, 6, 4)]
    (attend(*inputs, bias, 0.0, True) * draw(2, 3, 6, 4, seed=1)).sum().backward()
    assert all(tensor.grad is not None for tensor in inputs), (
        "detached: .data, .detach, torch.tensor or no_grad?"
    )
    return [tensor.grad for tensor in inputs]


@pytest.mark.parametrize("is_masked", [False, True])
def test_written_out_equals_fused_in_values_and_gradients(is_masked):
    mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
    bias = mask_to_bias(mask, torch.float64) if is_masked else None
    query, key, value = draw(3, 2, 3, 6, 4)
    assert_close(
        attention(query, key, value, bias, 0.0, True),
        fused_attention(query, key, value, bias, 0.0, True),
        "attention and torch's scaled_dot_product_attention are the same function",
    )
    for name, ours, fused in zip(
        ("query", "key", "value"),
        gradients_of(attention, bias),
        gradients_of(fused_attention, bias),
        strict=True,
    ):
        assert_close(
            ours, fused, f"the gradient of {name} differs: is something rounded on the way?"
        )


def test_heads_are_cut_from_neighbouring_units():
    layer = MultiHeadAttention(BertConfig(hidden_size=6, num_attention_heads=2))
    found = layer.split_heads(
        torch.arange(12.0).view(1, 2, 6)
    )  # token 0 holds 0 to 5, token 1 6 to 11
    expected = torch.tensor([[[0.0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]])[
        None
    ]  # (B, N, T, D)
    assert_close(
        found,
        expected,
        "unit n x D + d belongs to head n: cut (B, T, H) as (B, T, N, D), then transpose to "
        "(B, N, T, D). A view straight to (B, N, T, D) mixes tokens.",
    )


def test_a_layer_in_evaluation_drops_nothing():
    layer = MultiHeadAttention(BertConfig(hidden_size=12, num_attention_heads=3)).eval()
    hidden_states = torch.randn(2, 5, 12)
    found = layer(hidden_states)
    assert isinstance(found, Tensor), (
        f"MultiHeadAttention returns {found}, expected a tensor: not written yet?"
    )
    assert torch.equal(found, layer(hidden_states)), (
        "two calls in eval() differ: pass self.training on"
    )
    assert not torch.equal(layer.train()(hidden_states), layer(hidden_states)), (
        "two calls in train() are equal: are self.dropout_probability and self.training passed on?"
    )


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_layer_equals_torch_multihead_attention(implementation):
    """Projections, heads and output together, against nn.MultiheadAttention with the same weights."""
    config = BertConfig(
        hidden_size=12, num_attention_heads=3, attention_implementation=implementation
    )
    ours = MultiHeadAttention(config).double().eval()
    reference = nn.MultiheadAttention(12, 3, batch_first=True).double().eval()
    with torch.no_grad():
        reference.in_proj_weight.copy_(
            torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
        )
        reference.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        reference.out_proj.weight.copy_(ours.output.weight)
        reference.out_proj.bias.copy_(ours.output.bias)
    hidden_states, mask = draw(2, 5, 12), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    expected, _ = reference(hidden_states, hidden_states, hidden_states, key_padding_mask=mask == 0)
    found = ours(hidden_states, mask_to_bias(mask, torch.float64))
    assert_close(
        found,
        expected,
        "attention and split_heads are right by themselves: does query come from self.query, "
        "key from self.key, value from self.value; is the mask passed on; are the heads "
        "transposed back before they are joined; and is self.output applied, with nothing "
        "added to it?",
    )


# --- properties ------------------------------------------------------------------------------------------------------


@BOTH
def test_weights_sum_to_one(attend):
    query, key, _ = draw(3, 2, 3, 6, 4)
    constant = torch.ones(2, 3, 6, 4, dtype=torch.float64)
    assert_close(
        attend(query, key, constant, None, 0.0, False),
        constant,
        "the weights of a query must sum to 1",
    )


@BOTH
def test_what_padding_holds_never_matters(attend):
    query, key, value = draw(3, 2, 3, 6, 4)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.float64)
    before = attend(query, key, value, bias, 0.0, False)
    key[:, :, 4:], value[:, :, 4:] = 7.0, 1e6
    assert_close(
        attend(query, key, value, bias, 0.0, False),
        before,
        "padded keys or values leak into the result",
    )


@BOTH
def test_order_of_keys_and_of_the_batch(attend):
    query, key, value = draw(3, 3, 2, 5, 4)
    before, order = attend(query, key, value, None, 0.0, False), torch.tensor([3, 0, 4, 1, 2])
    assert_close(
        attend(query, key[:, :, order], value[:, :, order], None, 0.0, False),
        before,
        "attention has no order of its own: keys and values permuted alike give the same",
    )
    rows = torch.tensor([2, 0, 1])
    assert_close(
        attend(query[rows], key[rows], value[rows], None, 0.0, False),
        before[rows],
        "batch rows are mixed",
    )


@BOTH
def test_extreme_scores_and_rows_of_padding_stay_finite(attend):
    query, key, value = (tensor.float() for tensor in draw(3, 2, 3, 6, 4))
    everything_masked = mask_to_bias(torch.zeros(2, 6), torch.float32)
    assert torch.isfinite(attend(query * 1e4, key * 1e4, value, None, 0.0, False)).all(), (
        "softmax without its maximum?"
    )
    found = attend(query, key, value, everything_masked, 0.0, False)
    assert torch.isfinite(found).all(), "-inf in the mask bias, or in your scores?"


@BOTH
def test_half_precision_keeps_its_type(attend):
    query, key, value = (tensor.bfloat16() for tensor in draw(3, 2, 3, 6, 4))
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.bfloat16)
    found = attend(query, key, value, bias, 0.0, False)
    assert found.dtype == torch.bfloat16
    expected = attention(query.double(), key.double(), value.double(), bias.double(), 0.0, False)
    assert_close(
        found.double(), expected, "is it the same formula?", 0.03
    )  # bf16 has 8 bits: 2^-8 = 0.004 a step
