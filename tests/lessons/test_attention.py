"""Attention on its own. Run it with `python -m pytest -x tests/lessons/test_attention.py`.

The first failure says most, hence `-x`. The order is from easy to hard: numbers worked by hand, a
slow loop, PyTorch's own layer, properties. A check takes the function that it tests. In the full
project the same checks test the fused branch, in tests/minbert/test_fast.py, and the wrong versions
of tests/teaching/mistakes.toml.

B batch, T tokens, H hidden, N heads, D head size.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert import BertConfig
from minbert.attention import MultiHeadAttention, attention, mask_to_bias
from tests.relations import assert_same_gradients, relation

Attend = Callable[..., Tensor]

# float64, measured 1e-15. A root or a softmax may be rounded to float32 on the way: 6e-8.
EXACT = 1e-6


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def assert_shape(found: Tensor, expected: Tensor, hint: str) -> None:
    assert isinstance(found, Tensor), (
        f"found {type(found).__name__}, expected a tensor: not written yet, is the return missing, "
        "or is there more than one result?"
    )
    assert found.shape == expected.shape, (
        f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}. {hint}"
    )
    assert found.dtype == expected.dtype, (
        f"dtype {found.dtype}, expected {expected.dtype}: convert the weights to value's dtype."
    )


def is_close(found: object, expected: Tensor) -> bool:
    if not isinstance(found, Tensor) or found.shape != expected.shape:
        return False
    return torch.allclose(found.to(expected.dtype), expected, rtol=0, atol=EXACT)


def assert_close(found: Tensor, expected: Tensor, hint: str, tolerance: float = EXACT) -> None:
    assert_shape(found, expected, hint)
    difference = (found - expected).abs().max().item()
    assert difference <= tolerance, (
        f"off by {difference:.2e}, at most {tolerance:.0e} expected. "
        f"{relation(found, expected)}{hint}"
    )


# --- by hand --------------------------------------------------------------------------------------

# Two equal heads of size D = 4, two tokens. Query 0 . key 1 = 2 ln 3. Divided by sqrt(4), that is
# ln 3, and key 0 scores 0: the softmax gives 1/4 and 3/4. Query 1 scores 0 with both keys: 1/2 and
# 1/2. The values are unit vectors, so the result shows the weights.
QUERY_ROWS = [[2.0, 0, 0, 0], [0, 0, 0, 0]]
KEY_ROWS = [[0, 5, 0, 0], [math.log(3), 0, 0, 0]]
VALUE_ROWS = [[1.0, 0, 0, 0], [0, 1, 0, 0]]
EXPECTED_ROWS = [[0.25, 0.75, 0, 0], [0.5, 0.5, 0, 0]]


def two_heads(rows: list[list[float]]) -> Tensor:
    """Two equal heads of one batch row: (T, D) -> (1, 2, T, D) float64."""
    return torch.tensor(rows, dtype=torch.float64).repeat(1, 2, 1, 1)


# --- what a wrong result means --------------------------------------------------------------------


def wrong_scores(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Tensor]:
    """The scores of the usual mistakes by their hints, and the right ones by ""."""
    num_heads, num_tokens, head_size = query.shape[1:]
    root = math.sqrt(head_size)
    product = query @ key.transpose(-2, -1)
    scores = product / root
    is_later = torch.ones_like(scores).triu(1).bool()
    is_own = torch.eye(num_tokens).bool()
    divided = "the scores are divided by "
    counts = "D, the size of one head, is what counts."
    return {
        "": scores,
        "exp(2 ln 3) = 9 gives 9/10: did you divide by sqrt(head size)?": product,
        f"{divided}the head size instead of sqrt(head size), or divided twice.": product
        / head_size,
        f"{divided}sqrt(H). {counts}": product / math.sqrt(num_heads * head_size),
        f"{divided}sqrt(T), the number of tokens. {counts}": product / math.sqrt(num_tokens),
        f"{divided}sqrt(N), the number of heads. {counts}": product / math.sqrt(num_heads),
        f"{divided}sqrt(B), the size of the batch. {counts}": product / math.sqrt(len(query)),
        f"{divided}half the head size: D ** 1 / 2 is (D ** 1) / 2. Write math.sqrt(D).": product
        / (head_size / 2),
        f"{divided}a fourth root, the root of sqrt(D); sqrt(D) is right.": product
        / math.sqrt(root),
        f"{divided}8, which is sqrt(64). Read the head size from query: query.size(-1).": product
        / 8,
        f"{divided}2, which is sqrt(4), or sqrt(5) as a whole number. Take the root of "
        "query.size(-1) as it is.": product / 2,
        "the scores are multiplied by sqrt(head size). Divide them.": product * root,
        "query and key are swapped: the scores are query @ key^T, and the arguments come as query, "
        "key, value.": scores.transpose(-2, -1),
        "the scores are query @ key^T; here they are query @ query^T.": (
            query @ query.transpose(-2, -1) / root
        ),
        "the keys are reshaped to (B, N, D, T), which mixes their numbers. Transpose them.": (
            query @ key.reshape(*key.shape[:2], head_size, num_tokens) / root
        ),
        "the scores are query @ key^T; here they are key @ key^T.": (
            key @ key.transpose(-2, -1) / root
        ),
        "the scores are query @ key^T; here they are query @ value^T.": (
            query @ value.transpose(-2, -1) / root
        ),
        "the scores are query @ key^T; here they are key @ value^T.": (
            key @ value.transpose(-2, -1) / root
        ),
        "the scores are dot products; here they are cosines.": (
            F.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)
        ),
        "the scores are dot products; here they are distances.": -torch.cdist(query, key),
        "the scores have the wrong sign: a large dot product gets a large weight.": -scores,
        "the sign of the scores is lost.": scores.abs(),
        "later tokens are masked. BERT has no causal mask: a token sees all others.": (
            scores.masked_fill(is_later, -torch.inf)
        ),
        "a token's score with itself is masked; a token attends to itself, too.": (
            scores.masked_fill(is_own, -torch.inf)
        ),
    }


OVER = "Take it over the keys, the last dimension of the scores (dim=-1)."
# From the scores to weights: the usual mistakes by their hints, and the right one by "".
WRONG_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda scores: scores.softmax(dim=-1),
    f"the softmax is taken over the queries (dim=-2). {OVER}": lambda scores: scores.softmax(
        dim=-2
    ),
    f"the softmax is taken over the heads (dim=1). {OVER}": lambda scores: scores.softmax(dim=1),
    f"the softmax is taken over the batch (dim=0). {OVER}": lambda scores: scores.softmax(dim=0),
    f"the softmax is taken over queries and keys together. {OVER}": (
        lambda scores: scores.flatten(-2).softmax(dim=-1).view_as(scores)
    ),
    f"the weights are divided by their sum over the queries (dim=-2). {OVER}": (
        lambda scores: scores.exp() / scores.exp().sum(dim=-2, keepdim=True)
    ),
    "the softmax is missing: the scores themselves are the weights.": lambda scores: scores,
    "the weights are a softmax, not a log_softmax.": lambda scores: scores.log_softmax(dim=-1),
    "the weights are a softmax over the keys, not a sigmoid.": lambda scores: scores.sigmoid(),
    "the weights are a softmax over the keys, not a ReLU.": lambda scores: scores.relu(),
    "the weights are a softmax over the keys, not a tanh.": lambda scores: scores.tanh(),
    "the softmax is taken twice.": lambda scores: scores.softmax(dim=-1).softmax(dim=-1),
    "the weights are a softmax, with exp; here the scores are divided by their sum.": (
        lambda scores: scores / scores.sum(dim=-1, keepdim=True)
    ),
    "the weights of the softmax are not divided by their sum.": lambda scores: scores.exp(),
    "the weights of a query sum to 1; here they have the length 1.": (
        lambda scores: F.normalize(scores.exp(), dim=-1)
    ),
    "all keys get the same weight: do the scores reach the softmax?": (
        lambda scores: torch.ones_like(scores) / scores.size(-1)
    ),
    "only the key with the largest score counts; the softmax gives each key a weight.": (
        lambda scores: F.one_hot(scores.argmax(dim=-1), scores.size(-1)).to(scores)
    ),
}

# From weights, query, key and value to the result.
WRONG_RESULTS: dict[str, Callable[..., Tensor]] = {
    "": lambda weights, query, key, value: weights @ value,
    "the result is weights @ value; here the weights are transposed.": (
        lambda weights, query, key, value: weights.transpose(-2, -1) @ value
    ),
    "the result is weights @ value; here it is weights @ key.": (
        lambda weights, query, key, value: weights @ key
    ),
    "the result is weights @ value; here it is weights @ query.": (
        lambda weights, query, key, value: weights @ query
    ),
    "weights @ value is missing: these are the weights.": lambda weights, query, key, value: (
        weights
    ),
    "attention returns (B, N, T, D); MultiHeadAttention.forward joins the heads.": (
        lambda weights, query, key, value: (weights @ value).transpose(1, 2).flatten(2)
    ),
    "attention returns (B, N, T, D); here heads and tokens are swapped.": (
        lambda weights, query, key, value: (weights @ value).transpose(1, 2)
    ),
    "attention returns all N heads; here their mean is taken.": (
        lambda weights, query, key, value: (weights @ value).mean(dim=1)
    ),
    "the weights are divided by sqrt(head size) after the softmax. Divide the scores before it.": (
        lambda weights, query, key, value: weights @ value / math.sqrt(query.size(-1))
    ),
    "the query is added to the result; BertLayer adds what has to be added.": (
        lambda weights, query, key, value: weights @ value + query
    ),
    "the value is added to the result; BertLayer adds what has to be added.": (
        lambda weights, query, key, value: weights @ value + value
    ),
}


def hint_of(attend: Attend, hint: str) -> str:
    """The mistakes that lead to the results of a function, as few as possible, or `hint`."""
    inputs = draw(3, 2, 3, 7, 5)
    found = attend(*draw(3, 2, 3, 7, 5), None, 0.0, False)
    if not isinstance(found, Tensor):
        return hint
    weights = []
    for score_hint, scores in wrong_scores(*inputs).items():
        for weight_hint, weigh in WRONG_WEIGHTS.items():
            weights.append((score_hint, weight_hint, weigh(scores)))
    weights.sort(key=lambda row: bool(row[0]) + bool(row[1]))
    constant = attend(*inputs[:2], torch.ones_like(inputs[2]), None, 0.0, False)
    if is_close(constant.amax(), constant.amin()) and not is_close(constant, constant * 0 + 1):
        hint = f"the weights of a query sum to {constant.mean():.4g}, expected 1. {hint}"
    best = 3
    for score_hint, weight_hint, tensor in weights:
        for result_hint, finish in WRONG_RESULTS.items():
            wrong = finish(tensor, *inputs)
            words = [part for part in (score_hint, weight_hint, result_hint) if part]
            is_better = len(words) < best and found.shape == wrong.shape
            if is_better and torch.allclose(found, wrong, atol=1e-5):
                best, hint = len(words), " And ".join(words)
    return hint


def hint_of_mask(attend: Attend, hint: str) -> str:
    """The same with two masked tokens in the first row."""
    query, key, value = draw(3, 2, 3, 4, 5)
    bias = mask_to_bias(torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]), torch.float64)
    found = attend(query.clone(), key.clone(), value.clone(), bias, 0.0, False)
    if not isinstance(found, Tensor):
        return hint
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    kept = (bias == 0).double()
    weights = (scores + bias).softmax(dim=-1)
    of_other_rows = bias.expand(2, 3, 4, 4).transpose(0, 1).reshape(scores.shape)
    mistakes = {
        "heads get the mask of another row: are rows and heads flattened in another order?": (
            (scores + of_other_rows).softmax(dim=-1)
        ),
        "a masked token still counts: mask_bias has no effect. Add it to the scores, before the "
        "softmax.": scores.softmax(dim=-1),
        "only masked tokens count: mask_bias is added to the scores. Is it subtracted?": (
            (scores - bias).softmax(dim=-1)
        ),
        "only masked tokens count: mask_bias is 0 for a token that counts, and is added.": (
            scores.masked_fill(bias == 0, -1e9).softmax(dim=-1)
        ),
        "the weights no longer sum to 1: the mask acts before the softmax, on the scores.": (
            scores.softmax(dim=-1) * kept
        ),
        "the bias of a masked token is added after the softmax. Add it to the scores, before the "
        "softmax.": scores.softmax(dim=-1) + bias,
        "a masked token still counts: does the mask act on the queries? Mask the keys, the last "
        "dimension of the scores.": (scores + bias.transpose(-2, -1)).softmax(dim=-1),
        "a masked token still counts: mask_bias is added to the scores, not multiplied.": (
            (scores * bias).softmax(dim=-1)
        ),
        "a masked score is 0 here, and e^0 = 1 still counts: mask_bias is added to the scores.": (
            (scores * kept).softmax(dim=-1)
        ),
        "a masked token still counts in some heads: the mask is that of all heads.": torch.cat(
            [weights[:, :1], scores.softmax(dim=-1)[:, 1:]], dim=1
        ),
        "masked queries get 0 here; the mask is that of the keys alone.": (
            weights * kept.transpose(-2, -1)
        ),
        "the mask of the first row is used for all rows of the batch.": (
            (scores + bias[:1]).softmax(dim=-1)
        ),
        "a masked token keeps a small weight: the score gets mask_bias, which is -1e308 here, and "
        "not a number such as -10. Are the scores limited, as by clamp?": scores.masked_fill(
            bias != 0, -10.0
        ).softmax(dim=-1),
    }
    for name, wrong in mistakes.items():
        if found.shape == value.shape and torch.allclose(
            found, wrong @ value, rtol=1e-4, equal_nan=True
        ):
            return name
    return hint


OVER_KEYS = (
    "Is the softmax taken over the keys, the last dimension of the scores (dim=-1), and is the "
    "result weights @ value?"
)


def check_by_hand(attend: Attend) -> None:
    """Three quarters and a quarter. The most common mistakes each give another number."""
    arguments = {
        "query": two_heads(QUERY_ROWS),
        "key": two_heads(KEY_ROWS),
        "value": two_heads(VALUE_ROWS),
    }
    before = {name: tensor.clone() for name, tensor in arguments.items()}
    expected = two_heads(EXPECTED_ROWS)
    try:
        found = attend(*arguments.values(), None, 0.0, False)
    except TypeError as error:
        assert "NoneType" not in str(error), "mask_bias may be None: ask before you add it"
        raise
    except RuntimeError as error:
        is_shape = any(word in str(error) for word in ("size", "shape", "dimension"))
        assert not is_shape, (
            "shapes do not fit: (B, N, T, D) @ (B, N, D, T) gives the scores (B, N, T, T). Is it "
            "key.transpose(-2, -1), which swaps the last two dimensions of key? In words of torch: "
            f"{error}"
        )
        assert "did not match" not in str(error), f"convert the weights to value's dtype: {error}"
        raise
    hint = "" if is_close(found, expected) else hint_of(attend, OVER_KEYS)
    assert_close(found, expected, hint)
    for name, tensor in arguments.items():
        assert torch.equal(tensor, before[name]), (
            f"attention changed its argument {name} in place; make a new tensor"
        )


def check_mask_by_hand(attend: Attend) -> None:
    """With key 1 masked, all weight is on key 0."""
    bias = mask_to_bias(torch.tensor([[1, 0]]), torch.float64)  # (1, 1, 1, 2)
    value = two_heads(VALUE_ROWS)
    try:
        found = attend(two_heads(QUERY_ROWS), two_heads(KEY_ROWS), value, bias, 0.0, False)
    except RuntimeError as error:
        assert "Boolean value" not in str(error), f"ask `mask_bias is not None`. {error}"
        raise
    expected = value[:, :, [0, 0]]  # (1, 2, 2, 4)
    hint = (
        "a masked token still counts: is the mask added before the softmax, and does it mask the "
        "keys (the last dimension) rather than the queries?"
    )
    assert_close(found, expected, hint if is_close(found, expected) else hint_of_mask(attend, hint))
    # -ln 3 takes the score of key 1 from ln 3 to 0, so both keys get a half.
    bias = torch.tensor([0.0, -math.log(3)], dtype=torch.float64)[None, None, None]
    found = attend(two_heads(QUERY_ROWS), two_heads(KEY_ROWS), value, bias, 0.0, False)
    hint = "mask_bias is added as it is: after the division by sqrt(head size), and not before it."
    if is_close(found[:, :, :1], value[:, :, :1]):
        hint = "mask_bias is added as it is; here each number that is not 0 masks its token."
    if is_close(found, two_heads(EXPECTED_ROWS)):
        hint = "mask_bias is added as it is; here only a very negative number has an effect."
    assert_close(
        found[:, :, :1],
        torch.full_like(found[:, :, :1], 0.5) * (value.sum(dim=-2, keepdim=True) > 0),
        hint,
    )
    # Each query of each head sees one key.
    keys = torch.tensor([[[0, 1], [1, 0]]])  # (1, 2, 2)
    bias = (F.one_hot(keys, 2).double() - 1) * 1e9  # (1, 2, 2, 2)
    found = attend(two_heads(QUERY_ROWS), two_heads(KEY_ROWS), value, bias, 0.0, False)
    assert_close(
        found,
        torch.tensor(VALUE_ROWS).double()[keys],
        "mask_bias is broadcast to (B, N, T, T): it may have a number for each head and query. "
        "Is a part of it taken, or its shape changed? Add it as it is.",
    )


def check_dropout(attend: Attend) -> None:
    """Uniform weights of 1/8 and unit values show each link.

    A link is 0 where it is dropped, with p = 3/4, and 1/8 / (1 - p) = 1/2 where it is kept.
    """
    flat = torch.zeros(2, 2, 8, 8)
    value = torch.cat([torch.eye(8), torch.eye(8)], dim=-1).repeat(2, 2, 1, 1)  # (2, 2, 8, 16)
    torch.manual_seed(0)
    no_mask = torch.zeros(2, 1, 1, 8)
    try:
        links, again = attend(flat, flat, value, no_mask, 0.75, True).chunk(2, dim=-1)
    except RuntimeError as error:
        is_size = any(word in str(error) for word in ("size", "shape"))
        assert not is_size, f"the values may have another last size than queries and keys: {error}"
        raise
    found = set(links.unique().tolist())
    hint = (
        "are the weights that stay divided by 1 - p, and nothing else? BERT does not make them "
        "sum to 1 again."
    )
    if found == {0.125}:
        hint = (
            "nothing was dropped, or the scores were: dropout belongs on the probabilities, after "
            "the softmax."
        )
        if (attend(flat, flat, value, None, 0.75, False) == 0).any():
            hint = "`training` is the wrong way round: drop where it is True."
    if found == {0.0, 2.0}:
        hint = "what stays is divided by 1 - p twice: torch's dropout does so, too."
    if sorted(found) == pytest.approx([0.0, 0.125 / 0.9]):
        hint = "p is 0.1 here; it is the argument dropout_probability."
    if found == {0.0, 0.125}:
        hint = "divide what stays by 1 - p."
    if max(found) == pytest.approx(0.125 / 0.75):
        hint = "dropout_probability is the probability of dropping, not of keeping."
    assert found == {0.0, 0.5}, (
        f"weights of 1/8 became {sorted(found)[:4]}, expected 0 and 1/2: {hint}"
    )
    assert torch.equal(links, again), (
        "dropout must drop a link, for all D units at once: before the product with value"
    )
    check_each_link_is_drawn(attend, flat, value, links)
    assert_close(
        attend(flat, flat, value, None, 0.75, False),
        torch.full((2, 2, 8, 16), 0.125),
        "with training=False nothing may be dropped",
        1e-7,  # float32
    )


def check_each_link_is_drawn(attend: Attend, flat: Tensor, value: Tensor, links: Tensor) -> None:
    """Each link is drawn by itself, anew in each call, and dropped with p = 3/4.

    flat (2, 2, 8, 8), value (2, 2, 8, 16): as in check_dropout. links (2, 2, 8, 8): its result.
    """
    no_mask = torch.zeros(2, 1, 1, 8)
    assert not torch.equal(links, attend(flat, flat, value, no_mask, 0.75, True)[..., :8]), (
        "two calls drop the same links: draw from torch's global generator, without a seed or a "
        "generator of your own"
    )
    assert (attend(flat, flat, value, None, 0.75, True) == 0).any(), (
        "without a mask, too, links are dropped in training"
    )
    with torch.no_grad():
        assert (attend(flat, flat, value, None, 0.75, True) == 0).any(), (
            "under no_grad, too, links are dropped: `training` alone decides, and no gradient"
        )
    is_dropped = links == 0  # (2, 2, 8, 8)
    for dim in (-2, -1):
        is_mixed = is_dropped.any(dim) & ~is_dropped.all(dim)
        assert is_mixed.any(), "all links of a token are dropped together; draw each by itself"
    for dim, name in ((0, "rows of the batch"), (1, "heads")):
        first, second = is_dropped.unbind(dim)
        assert not torch.equal(first, second), (
            f"all {name} drop the same links; draw each link by itself"
        )
    # 256 links, three quarters of them on average, and five standard deviations.
    share_dropped = is_dropped.float().mean()
    assert 0.61 < share_dropped < 0.89, (
        f"{share_dropped:.2f} of the links were dropped, expected about 0.75: is it the "
        "probability of dropping, not of keeping?"
    )


def check_kinds_of_masks() -> None:
    """A mask may hold numbers of any dtype, or bools."""
    for dtype in (torch.bool, torch.uint8, torch.float32):
        hint = (
            f"a mask of {dtype} fails: `1 - mask` is an error for bools, and -10000 is no number "
            "of uint8. Ask `attention_mask == 0`, and make the bias in the dtype asked for"
        )
        mask = torch.tensor([[1, 0]]).to(dtype)
        bias = None
        with contextlib.suppress(RuntimeError):
            bias = mask_to_bias(mask, torch.float32)
        assert bias is not None and bias.flatten()[0] == 0 and bias.flatten()[1] <= -1e4, hint


def test_mask_to_bias():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    bias = mask_to_bias(mask, torch.float32)
    assert isinstance(bias, Tensor), (
        f"mask_to_bias returns {bias}, expected a tensor: not written yet?"
    )
    assert bias.shape != (2, 1, 3, 1), (
        "the padding is masked as a query here. It is masked as a key, the last dimension of the "
        "scores: (B, 1, 1, T)"
    )
    assert bias.shape == (2, 1, 1, 3), (
        "one row of biases for all heads and all queries: (B, 1, 1, T)"
    )
    assert not bias.isnan().any(), "0 x -inf is nan: use masked_fill, or a finite number"
    assert bias.dtype == torch.float32, (
        f"the bias has {bias.dtype}; it must have the dtype asked for, float32"
    )
    assert (bias == 0).squeeze().tolist() == [[True, True, False], [True, False, False]], (
        "the bias is 0 for a real token, whose mask is 1, and not for padding, whose mask is 0: 1 "
        "means real"
    )
    assert torch.isfinite(bias).all(), (
        "-inf turns a row that is masked altogether into nan; use a finite number"
    )
    assert bias.max() <= 0, "padding has a positive bias; it must be very negative"
    assert bias.min() <= -1e4, (
        "the bias of padding must be very negative, as torch.finfo(dtype).min is (not .tiny)"
    )
    assert mask.tolist() == [[1, 1, 0], [1, 0, 0]], "attention_mask was written to; make a new one"
    for row in ([0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1]):
        bias = mask_to_bias(torch.tensor([row]), torch.float32)
        assert isinstance(bias, Tensor), f"the mask {row} became {bias}: return a tensor always"
        assert bias.shape == (1, 1, 1, 4), (
            "one row stays a batch of one, (1, 1, 1, T): no squeeze()"
        )
        assert [int(number == 0) for number in bias.flatten()] == row, (
            f"the mask {row} became {bias.flatten().tolist()}: padding may stand anywhere, and a "
            "row may be padding alone. Compare each number of the mask with 0."
        )
    check_kinds_of_masks()
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        bias = mask_to_bias(torch.tensor([[1, 0]]), dtype)
        assert bias.dtype == dtype, "the bias must have the dtype asked for"
        assert torch.isfinite(bias).all(), (
            f"the bias is not finite in {dtype}: the lowest number of another dtype, or a fixed "
            "number such as -1e9, may be -inf in this one. Take torch.finfo(dtype).min, and "
            "compute in this dtype: float32 has no room for the lowest number of float64"
        )
        mask = torch.tensor([[1, 0]], dtype=dtype)
        mask_to_bias(mask, dtype)
        assert mask.tolist() == [[1, 0]], (
            "attention_mask was written to: .to(dtype) makes no copy of a mask that has the dtype "
            "already. Make a new tensor"
        )


# --- a slow loop ----------------------------------------------------------------------------------


def attention_by_loops(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Equation 1 of Vaswani et al. 2017, one number at a time."""
    result = torch.zeros_like(value)
    batch_size, num_heads, num_tokens, head_size = query.shape
    for b in range(batch_size):
        for n in range(num_heads):
            for i in range(num_tokens):
                scores = []
                for j in range(num_tokens):
                    product = 0.0
                    for d in range(head_size):
                        product += query[b, n, i, d].item() * key[b, n, j, d].item()
                    scores.append(product / math.sqrt(head_size) + bias[b, 0, 0, j].item())
                weights = [math.exp(score - max(scores)) for score in scores]
                for j in range(num_tokens):
                    result[b, n, i] += weights[j] / sum(weights) * value[b, n, j]
    return result


def check_slow_loop(attend: Attend) -> None:
    query, key, value = draw(3, 2, 3, 4, 5)  # (B, N, T, D) each
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]), torch.float64)
    found = attend(query, key, value, bias, 0.0, False)
    expected = attention_by_loops(query, key, value, bias)
    hint = "compare your tensor line by line with attention_by_loops; are B, N, T, D in this order?"
    if not is_close(found, expected):
        hint = hint_of(attend, hint) or hint_of_mask(attend, hint)
    assert_close(found, expected, hint)


# --- properties -----------------------------------------------------------------------------------


def check_weights_sum_to_one(attend: Attend) -> None:
    query, key, _ = draw(3, 2, 3, 6, 4)
    constant = torch.ones(2, 3, 6, 4, dtype=torch.float64)
    assert_close(
        attend(query, key, constant, None, 0.0, False),
        constant,
        "the weights of a query must sum to 1",
    )
    query, key, value = draw(3, 1, 1, 1, 4)
    assert_close(
        attend(query, key, value, None, 0.0, False),
        value,
        "one token attends to itself alone; a dimension of size 1 stays, without squeeze().",
    )


def check_padding_never_matters(attend: Attend) -> None:
    query, key, value = draw(3, 2, 3, 6, 4)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.float64)
    before = attend(query, key, value, bias, 0.0, False)
    key[:, :, 4:] = 7.0
    value[:, :, 4:] = 1e6
    assert_close(
        attend(query, key, value, bias, 0.0, False),
        before,
        "padded keys or values leak into the result",
    )


def check_order_of_keys_and_of_the_batch(attend: Attend) -> None:
    query, key, value = draw(3, 3, 2, 5, 4)
    before = attend(query, key, value, None, 0.0, False)
    order = torch.tensor([3, 0, 4, 1, 2])
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


def check_extremes_stay_finite(attend: Attend) -> None:
    query, key, value = draw(3, 2, 3, 6, 4).float()
    found = attend(query * 1e4, key * 1e4, value, None, 0.0, False)
    assert torch.isfinite(found).all(), (
        "large scores overflow: is the maximum of each row taken off before exp, as in softmax?"
    )
    best = (query @ key.transpose(-2, -1)).argmax(dim=-1, keepdim=True)  # (B, N, T, 1)
    expected = torch.take_along_dim(value, best, dim=-2)  # (B, N, T, D)
    assert_close(
        found,
        expected,
        "with large scores, the largest one takes all the weight: are the scores limited?",
    )
    everything_masked = mask_to_bias(torch.zeros(2, 6), torch.float32)
    found = attend(query, key, value, everything_masked, 0.0, False)
    assert torch.isfinite(found).all(), "-inf in the mask bias, or in your scores?"
    lowest = torch.full((2, 1, 1, 6), torch.finfo(torch.float32).min)
    assert_close(
        attend(query.float(), key.float(), value.float(), lowest, 0.0, False),
        value.float().mean(dim=-2, keepdim=True).expand_as(value),
        "in a row of padding alone the weights must sum to 1, and each key has the same: beside "
        "the lowest number, log T is lost in rounding. Take off the maximum first",
    )
    query, key, value = draw(3, 2, 3, 6, 4)
    bias = torch.full((2, 1, 1, 6), -1e4, dtype=torch.float64)
    assert_close(
        attend(query, key, value, bias, 0.0, False),
        attend(query, key, value, None, 0.0, False),
        "the same bias for all keys changes no weight; a row of padding needs no case of its own.",
        1e-3,  # a softmax in float32 rounds -1e4
    )


def check_half_precision_keeps_its_type(attend: Attend) -> None:
    query, key, value = draw(3, 2, 3, 6, 4).bfloat16()
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 0, 0]] * 2), torch.bfloat16)
    found = attend(query, key, value, bias, 0.0, False)
    assert found.dtype == torch.bfloat16, (
        f"bfloat16 in, {found.dtype} out: convert the probabilities back to the dtype of value"
    )
    expected = attention(query.double(), key.double(), value.double(), bias.double(), 0.0, False)
    # bfloat16 has 8 bits: 2^-8 = 0.004 a step.
    assert_close(found.double(), expected, "is it the same formula?", 0.03)


CHECKS = (
    check_by_hand,
    check_mask_by_hand,
    check_dropout,
    check_slow_loop,
    check_weights_sum_to_one,
    check_padding_never_matters,
    check_order_of_keys_and_of_the_batch,
    check_extremes_stay_finite,
    check_half_precision_keeps_its_type,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_attention(check):
    check(attention)


# --- PyTorch's own --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_masked", [False, True])
def test_equals_torch_in_values_and_gradients(is_masked):
    mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
    bias = mask_to_bias(mask, torch.float64) if is_masked else None
    ours = [tensor.clone().requires_grad_() for tensor in draw(3, 2, 3, 6, 4)]
    theirs = [tensor.clone().requires_grad_() for tensor in draw(3, 2, 3, 6, 4)]
    found = attention(*ours, bias, 0.0, True)
    expected = F.scaled_dot_product_attention(*theirs, attn_mask=bias)
    assert_close(
        found,
        expected,
        "attention and torch's scaled_dot_product_attention are the same function",
    )
    factors = draw(2, 3, 6, 4, seed=1)
    (found * factors).sum().backward()
    (expected * factors).sum().backward()
    for name, mine, other in zip(("query", "key", "value"), ours, theirs, strict=True):
        assert mine.grad is not None, (
            f"{name} gets no gradient: .data, .detach, torch.tensor or no_grad?"
        )
        assert_close(
            mine.grad,
            other.grad,
            f"the gradient of {name} differs: is something rounded on the way?",
        )


def test_a_bias_may_be_trained():
    """As in a model with a table of relative positions."""
    bias = draw(1, 3, 6, 6).requires_grad_()
    query, key, value = draw(3, 2, 3, 6, 4).requires_grad_()
    attention(query, key, value, bias, 0.0, True).square().sum().backward()
    assert bias.grad is not None, "mask_bias gets no gradient: it may be trained. Is it detached?"


# --- the layer around it --------------------------------------------------------------------------


def test_heads_are_cut_from_neighbouring_units():
    layer = MultiHeadAttention(BertConfig(hidden_size=6, num_attention_heads=2))
    # Token 0 holds the numbers 0 to 5, token 1 holds 6 to 11.
    found = layer.split_heads(torch.arange(12.0).view(1, 2, 6))
    head_0 = [[0.0, 1, 2], [6, 7, 8]]
    head_1 = [[3.0, 4, 5], [9, 10, 11]]
    expected = torch.tensor([[head_0, head_1]])  # (B, N, T, D)
    assert_close(
        found,
        expected,
        "unit n x D + d belongs to head n: cut (B, T, H) as (B, T, N, D), then transpose to "
        "(B, N, T, D). A view straight to (B, N, T, D) mixes tokens.",
    )


def test_query_key_and_value_are_three_projections():
    layer = MultiHeadAttention(BertConfig(hidden_size=6, num_attention_heads=2)).double()
    hidden_states = draw(2, 3, 6).requires_grad_()
    projected = layer.project(hidden_states)
    assert isinstance(projected, tuple | list) and len(projected) == 3, (
        f"project returns {type(projected).__name__}, expected three tensors: query, key, value"
    )
    for number, name in enumerate(("query", "key", "value")):
        found = projected[number]
        linear = layer.get_submodule(name)
        expected = linear(hidden_states)
        mistakes = {
            f"the bias of {name} is missing: call self.{name}.": expected - linear.bias,
            f"{name} is divided by sqrt(head size) here; attention does that.": expected
            / math.sqrt(layer.head_size),
            f"the matrix of {name} is not transposed: call self.{name}.": (
                hidden_states @ linear.weight + linear.bias
            ),
            "the hidden states are added back here; BertLayer does that.": hidden_states + expected,
            "an activation stands behind the projection; there is none.": F.gelu(expected),
            "a LayerNorm stands in front of the projection; there is none.": linear(
                F.layer_norm(hidden_states, (6,))
            ),
        }
        for other in ("query", "key", "value", "output"):
            wrong = layer.get_submodule(other)(hidden_states)
            mistakes[f"here {name} is self.{other} of them."] = wrong
            mistakes[f"here it is self.{name} of the {other}."] = linear(wrong)
        hint = (
            f"{name} is self.{name} of the hidden states, (B, T, H) and not split yet, and the "
            "order is query, key, value"
        )
        if not torch.equal(found, layer.project(hidden_states)[number]):
            hint = "two calls of project differ: dropout belongs into `attention`, and not here."
        for mistake, wrong in mistakes.items():
            if is_close(found, wrong):
                hint = f"{hint}; {mistake}"
        assert_close(found, expected, hint)
        detached = f"{name} has no gradient: no_grad or detach on the way?"
        assert found.requires_grad, detached
        inputs = (hidden_states, linear.weight)
        gradients = torch.autograd.grad(found.sum(), inputs, allow_unused=True, retain_graph=True)
        assert None not in gradients, detached


def test_a_layer_in_evaluation_drops_nothing():
    layer = MultiHeadAttention(BertConfig(hidden_size=12, num_attention_heads=3)).eval()
    hidden_states = torch.randn(2, 5, 12)
    before = hidden_states.clone()
    found = layer(hidden_states)
    assert_shape(found, hidden_states, "MultiHeadAttention returns one tensor (B, T, H).")
    assert torch.equal(before, hidden_states), "hidden_states was written to; make a new tensor"
    assert torch.equal(found, layer(hidden_states)), (
        "two calls in eval() differ: pass self.training on"
    )
    found = layer.train()(hidden_states)
    assert not torch.equal(found, layer(hidden_states)), (
        "two calls in train() are equal: are self.dropout_probability and self.training passed on? "
        "Or is a seed set here?"
    )
    assert found.all(), (
        "units of the result are dropped: `attention` drops weights, and nothing is dropped here"
    )
    layer.dropout_probability = 0.0
    assert torch.equal(layer(hidden_states), layer(hidden_states)), (
        "two calls with self.dropout_probability = 0 differ: is another number passed on?"
    )
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 0, 0]] * 2), torch.float32)
    trained = layer(hidden_states, bias)
    assert torch.allclose(trained, layer.eval()(hidden_states, bias), atol=1e-5), (
        "without dropout, train() and eval() differ under a mask: pass mask_bias on in both"
    )


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_layer_equals_torch_multihead_attention(implementation):
    """Projections, heads and output together, against nn.MultiheadAttention with equal weights."""
    config = BertConfig(
        hidden_size=12, num_attention_heads=3, attention_implementation=implementation
    )
    ours = MultiHeadAttention(config).double().eval()
    reference = nn.MultiheadAttention(12, 3, batch_first=True).double().eval()
    linears = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears]))
        reference.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
        reference.out_proj.weight.copy_(ours.output.weight)
        reference.out_proj.bias.copy_(ours.output.bias)
    hidden_states = draw(2, 5, 12)
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
    expected, _ = reference(hidden_states, hidden_states, hidden_states, key_padding_mask=mask == 0)
    found = ours(hidden_states, mask_to_bias(mask, torch.float64))
    hint = (
        "attention and split_heads are right by themselves: does query come from self.query, key "
        "from self.key, value from self.value; are they split by self.split_heads; and are the "
        "heads transposed back, in their order, before they are joined?"
    )
    bias = mask_to_bias(mask, torch.float64)
    is_right = found.shape == expected.shape and is_close(found, expected)
    assert_close(
        found, expected, hint if is_right else hint_of_layer(found, ours, hidden_states, bias, hint)
    )
    hint = "gets no gradient: is something detached on the way?"
    assert found.requires_grad, f"the layer {hint}"
    (found * draw(2, 5, 12, seed=1)).sum().backward()
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, f"{name} {hint}"


def wrong_heads(
    layer: MultiHeadAttention, name: str, hidden: Tensor, projected: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What stands for query, key or value in the usual mistakes, and the right heads by ""."""
    vectors = projected[name]
    split = layer.split_heads
    heads = split(vectors)
    wrong = {
        "": heads,
        f"{name} is split without transpose(1, 2): a view mixes tokens. Call self.split_heads.": (
            vectors.reshape(heads.shape)
        ),
        f"unit n x D + d belongs to head n; in {name}, every N-th unit does. Call "
        "self.split_heads.": vectors.unflatten(-1, (-1, layer.num_heads)).permute(0, 3, 1, 2),
        f"{name} is made of the hidden states, without self.{name}.": split(hidden),
        f"self.{name} is applied twice: project has done it already.": split(
            layer.get_submodule(name)(vectors)
        ),
        f"{'value' if name == 'value' else 'query or key'} is divided by sqrt(head size) here; "
        "attention does that.": heads / math.sqrt(layer.head_size),
        f"a LayerNorm stands in front of {name}; there is none.": split(
            layer.get_submodule(name)(F.layer_norm(hidden, hidden.shape[-1:]))
        ),
    }
    for other, tensor in projected.items():
        if other != name:
            wrong[f"the {other} stands in place of the {name}."] = split(tensor)
    return wrong


def wrong_joins(context: Tensor) -> dict[str, Tensor]:
    """What goes into self.output in the usual mistakes, and the right one by ""."""
    batch_size, num_heads, num_tokens, head_size = context.shape
    shape = (batch_size, num_tokens, num_heads * head_size)
    order = "the heads are not joined as they were split: "
    side = "the heads stand side by side; here "
    return {
        "": context.transpose(1, 2).flatten(2),
        f"{order}are they transposed back, (B, N, T, D) to (B, T, N, D), before they are joined? A "
        "view alone mixes tokens.": context.reshape(shape),
        f"{order}transpose(1, 2) gives (B, T, N, D); here N comes behind D.": context.permute(
            0, 2, 3, 1
        ).flatten(2),
        f"{order}transpose(1, 2), not (2, 3): (B, T, N, D) is flattened.": context.transpose(
            2, 3
        ).reshape(shape),
        f"{order}T comes in front of B; it is (B, T, N, D).": context.permute(2, 0, 1, 3).reshape(
            shape
        ),
        f"{order}they stand in their order, head 0 first.": context.flip(1)
        .transpose(1, 2)
        .flatten(2),
        f"{side}their mean is taken.": context.mean(dim=1).repeat(1, 1, num_heads),
        f"{side}their sum is taken.": context.sum(dim=1).repeat(1, 1, num_heads),
        f"{side}the first one stands in place of all.": context[:, 0].repeat(1, 1, num_heads),
        f"{side}the last one stands in place of all.": context[:, -1].repeat(1, 1, num_heads),
        "the result of attention is divided by sqrt(head size) once more.": (
            context.transpose(1, 2).flatten(2) / math.sqrt(head_size)
        ),
    }


def wrong_ends(layer: MultiHeadAttention, joined: Tensor, hidden: Tensor) -> dict[str, Tensor]:
    """What is returned in the usual mistakes, and the right one by ""."""
    right = layer.output(joined)
    return {
        "": right,
        "self.output is not applied.": joined,
        "self.output is applied twice.": layer.output(right),
        "the bias of self.output is missing: call self.output.": right - layer.output.bias,
        "the matrix of self.output is not transposed: call self.output.": (
            joined @ layer.output.weight + layer.output.bias
        ),
        "the last layer is self.output; here it is self.value.": layer.value(joined),
        "the last layer is self.output; here it is self.query.": layer.query(joined),
        "the input is added back here; BertLayer does that.": hidden + right,
        "a LayerNorm stands here; BertLayer has it.": F.layer_norm(right, right.shape[-1:]),
        "an activation stands behind self.output; there is none.": right.relu(),
        "an activation stands behind self.output, a GELU; there is none.": F.gelu(right),
    }


def wrong_contexts(
    layer: MultiHeadAttention, hidden: Tensor, bias: Tensor
) -> list[tuple[list[str], Tensor]]:
    """What `attention` returns in the usual mistakes, with their hints. The fewest come first."""
    names = ("query", "key", "value")
    projected = {name: layer.get_submodule(name)(hidden) for name in names}
    choices = [wrong_heads(layer, name, hidden, projected).items() for name in names]
    masks = {
        "": bias,
        "the mask is not passed on to attention.": None,
        "the mask has the wrong sign when it is passed on.": -bias,
        "the mask of the first row is used for all rows.": bias[:1],
    }
    contexts = []
    for num_heads in (1, 2, 4, 6, 12):
        words = f"there are {num_heads} heads here: their number is self.num_heads."
        if num_heads == 1:
            words = (
                "the heads are not split: all units are one head, so the scores are divided by "
                "sqrt(H). Call self.split_heads."
            )
        heads = [x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in projected.values()]
        joined = attention(*heads, bias, 0.0, False).transpose(1, 2).flatten(2)
        contexts.append(([words], joined.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)))
    shape = (len(hidden), layer.num_heads, -1, layer.head_size)
    joined = attention(*(x.reshape(shape) for x in projected.values()), bias, 0.0, False)
    joined = joined.reshape(hidden.shape).unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)
    words = "a view from (B, T, H) to (B, N, T, D) mixes tokens and heads: call self.split_heads."
    contexts.append(([words], joined))
    for *parts, mask in itertools.product(*choices, masks.items()):
        words = [name for name, _ in (*parts, mask) if name]
        kinds = {word.replace(name, "") for word, name in zip(words, names, strict=False)}
        if len(words) > 2 and len(kinds) == 1:
            words[:3] = [f"{words[0]} The same holds for key and value."]
        # At most two mistakes.
        if len(words) < 3:
            heads = [tensor for _, tensor in parts]
            contexts.append((words, attention(*heads, mask[1], 0.0, False)))
    contexts.sort(key=lambda row: len(row[0]))
    return contexts


def hint_of_layer(
    found: Tensor, layer: MultiHeadAttention, hidden: Tensor, bias: Tensor, hint: str
) -> str:
    """The mistakes that lead to a result of a layer, as few as possible, or `hint`."""
    best = 4
    for words, context in wrong_contexts(layer, hidden, bias):
        for join_hint, joined in wrong_joins(context).items():
            for end_hint, wrong in wrong_ends(layer, joined, hidden).items():
                mistakes = [*words, *(part for part in (join_hint, end_hint) if part)]
                if len(mistakes) < best and is_close(found, wrong):
                    best, hint = len(mistakes), " And ".join(mistakes)
        if len(words) >= best:
            break
    return hint


def test_a_layer_of_other_sizes():
    """Two heads of 3 units, one row, and the gradient of what comes in."""
    layer = MultiHeadAttention(BertConfig(hidden_size=6, num_attention_heads=2)).double().eval()
    hidden_states = draw(1, 3, 6).requires_grad_()
    hint = (
        "is a size a fixed number here? They are self.num_heads, self.head_size and those of "
        "hidden_states."
    )
    try:
        found = layer(hidden_states)
    except RuntimeError as error:
        pytest.fail(f"{hint} {error}")
    heads = [layer.split_heads(vectors) for vectors in layer.project(hidden_states)]
    expected = layer.output(attention(*heads, None, 0.0, False).transpose(1, 2).flatten(2))
    assert_close(found, expected, hint)
    hint = "hidden_states has no gradient, or a part of it: is something detached on the way?"
    assert_same_gradients(found, expected, [hidden_states], hint)


@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (1, 1, 1, 5), (1, 3, 5, 5)])
def test_a_layer_passes_its_bias_on_as_it_is(shape):
    layer = MultiHeadAttention(BertConfig(hidden_size=12, num_attention_heads=3)).double().eval()
    hidden_states, bias = draw(2, 5, 12), 5 * draw(*shape, seed=1)
    heads = [layer.split_heads(vectors) for vectors in layer.project(hidden_states)]
    expected = layer.output(attention(*heads, bias, 0.0, False).transpose(1, 2).flatten(2))
    hint = (
        f"a bias of the shape {shape} is not heeded, or a part of it: it may have a number for "
        "each head and query, and one row may serve all rows. Pass it to attention as it is"
    )
    found = torch.empty(0)
    with contextlib.suppress(RuntimeError):
        found = layer(hidden_states, bias)
    assert is_close(found, expected), hint


def test_a_layer_drops_weights_and_nothing_else():
    """One token attends to itself alone, with the weight 1, which is dropped or doubled."""
    config = BertConfig(hidden_size=12, num_attention_heads=3, attention_probs_dropout_prob=0.5)
    layer = MultiHeadAttention(config).double().train()
    with torch.no_grad():
        layer.output.weight.copy_(torch.eye(12))
        layer.output.bias.zero_()
    hidden_states = draw(200, 1, 12)
    torch.manual_seed(0)
    found = layer.split_heads(layer(hidden_states))  # (B, N, 1, D)
    is_kept = found.any(dim=-1, keepdim=True)  # (B, N, 1, 1)
    value = layer.split_heads(layer.value(hidden_states))
    hint = (
        "with one token, a head is 0, or 1 / (1 - p) = 2 times its value. Does `attention` drop, "
        "with p = self.dropout_probability, and nothing else?"
    )
    assert_close(found, 2 * value * is_kept, hint)
    # 600 weights and five standard deviations.
    assert 0.4 < is_kept.double().mean() < 0.6, f"{is_kept.double().mean():.2f} are kept: {hint}"


# --- what is attended to --------------------------------------------------------------------------


def test_probabilities_times_values_are_the_output():
    """They are what `forward` takes the weighted mean with."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(BertConfig(hidden_size=12, num_attention_heads=3)).double().eval()
    hidden_states = draw(2, 5, 12)
    bias = mask_to_bias(torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]), torch.float64)
    weights = layer.probabilities(hidden_states, bias)  # (2, 3, 5, 5)
    assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5).double(), "each row sums to 1")
    assert (weights[1, :, :, 3:] == 0).all(), "padding is attended to"
    values = layer.split_heads(layer.value(hidden_states))
    joined = (weights @ values).transpose(1, 2).flatten(2)  # (2, 5, 12)
    hint = "the weights are other ones: is D the last size of the query, and not of the values?"
    assert_close(layer.output(joined), layer(hidden_states, bias), hint)
