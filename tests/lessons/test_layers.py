"""The encoder on its own. Run it with `python -m pytest -x tests/lessons/test_layers.py`.

The first failure says most, hence `-x`. The functions of attention.py have to work before. The
order is from easy to hard: numbers worked by hand, a layer in plain Python, properties, Hugging
Face's BertModel in values and gradients. A check takes the class that it tests. In the full project
the same checks test the wrong versions of tests/teaching/mistakes.toml.

B batch, T tokens, H hidden.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert import BertConfig, BertModel
from minbert.attention import MultiHeadAttention
from minbert.bert import BertEmbeddings, BertLayer, FeedForward
from minbert.weights import to_hugging_face
from tests.relations import assert_same_gradients, relation

TINY = BertConfig(
    vocab_size=60,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_model(**changes) -> BertModel:
    torch.manual_seed(0)
    model = BertModel(dataclasses.replace(TINY, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def make_batch(num_tokens: int = 9, vocab_size: int = 60) -> dict[str, Tensor]:
    """Three rows (B, T): a full one, a padded pair, and one of two tokens."""
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(1, vocab_size, (3, num_tokens), generator=generator)
    lengths = torch.tensor([[num_tokens], [num_tokens - 4], [2]])
    mask = (torch.arange(num_tokens) < lengths).long()
    segments = (torch.arange(num_tokens) >= 3).long()
    return {
        "input_ids": input_ids * mask,
        "attention_mask": mask,
        "token_type_ids": segments * mask,
    }


def assert_close(found: Tensor, expected: Tensor, tolerance: float, hint: str) -> None:
    assert isinstance(found, Tensor), (
        f"found {found}, expected a tensor: not written yet, or is the return missing?"
    )
    assert found.shape == expected.shape, (
        f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}. {hint}"
    )
    difference = (found - expected).abs().max().item()
    assert difference <= tolerance, (
        f"off by {difference:.2e}, at most {tolerance:.0e} expected. "
        f"{relation(found, expected)}{hint}"
    )


# --- by hand --------------------------------------------------------------------------------------


EPS = "nearly right: has each LayerNorm eps=config.layer_norm_eps (1e-12; torch's default is 1e-5)?"


def mistakes_of_positions(layer: BertEmbeddings, ids: Tensor, rest: Tensor) -> dict[str, Tensor]:
    """The results of wrong rows of the table of positions. rest: words and segments, (2, 4, H)."""
    table = layer.position.weight
    wrong_rows = {
        "they begin at 1": table[1:5],
        "the order is reversed": table[:4].flip(0),
        "all tokens have that of token 0": table[:1],
        "the rows are those of the ids": layer.position(ids),
        "the rows of the batch have one each": table[:2, None],
    }
    row = "position: row t of its table belongs to token t, from 0"
    return {f"{row}; here {name}.": layer.norm(rest + p) for name, p in wrong_rows.items()}


def mistakes_of_embeddings(layer: BertEmbeddings, ids: Tensor, types: Tensor) -> dict[str, Tensor]:
    """The results of mistakes in embeddings, by their hints. ids, types: int64 (2, 4)."""
    norm = layer.norm
    w = layer.word(ids)
    p = layer.position.weight[:4].expand_as(w)
    s = layer.segment(types)
    total = w + p + s
    scaled = math.sqrt(w.size(-1)) * w
    return {
        **mistakes_of_positions(layer, ids, w + s),
        "the position embedding is missing.": norm(w + s),
        "the segment embedding is missing: is token_type_ids used?": norm(w + p),
        "the word embedding is missing.": norm(p + s),
        "the LayerNorm is missing.": total,
        "each embedding is normalised alone: add the three, then normalise the sum.": (
            norm(w) + norm(p) + norm(s)
        ),
        "the segment embedding is added after the LayerNorm; add it before.": norm(w + p) + s,
        "the position embedding is added after the LayerNorm; add it before.": norm(w + s) + p,
        "the word embedding is added after the LayerNorm; add it before.": norm(p + s) + w,
        "words alone are normalised: add the three, then normalise the sum.": norm(w) + p + s,
        "the LayerNorm is applied twice.": norm(norm(total)),
        "the three are added; here their mean is taken.": norm(total / 3),
        "the three are added; here they are multiplied.": norm(w * p * s),
        "words are multiplied by sqrt(H); BERT adds them as they are.": norm(scaled + p + s),
        "positions are subtracted; add them.": norm(w - p + s),
        "words are added twice.": norm(total + w),
        "the word embedding of padding is set to 0; it is added as the others are.": norm(
            w * (ids != 0).unsqueeze(-1) + p + s
        ),
        "segments are added twice.": norm(total + s),
        "positions are added twice.": norm(total + p),
        "segments are swapped: 0 is the first sentence in token_type_ids.": norm(
            w + p + layer.segment(1 - types)
        ),
        "all tokens get segment 0: is token_type_ids used?": norm(w + p + layer.segment(0 * types)),
        "the segment is looked up in the table of positions.": norm(w + p + layer.position(types)),
        "the segment is looked up in the table of words.": norm(w + p + layer.word(types)),
        "the LayerNorm acts on the units of a token, not over the tokens.": F.layer_norm(
            total.transpose(1, 2), (4,)
        ).transpose(1, 2),
        "self.norm has weights of its own; call it.": F.layer_norm(total, (24,), eps=0.1),
        "the variance is divided by H, and not by H - 1: call self.norm.": norm.bias
        + norm.weight
        * (total - total.mean(-1, keepdim=True))
        / (total.var(-1, keepdim=True) + norm.eps).sqrt(),
        "the embedding of segment 0 is left out.": norm(w + p + s * (types != 0).unsqueeze(-1)),
        "the segments of the first row are used for all rows.": norm(
            w + p + layer.segment(types[:1])
        ),
        "the vectors of padding are made 0; attention masks it, and nothing here.": norm(total)
        * (ids != TINY.pad_token_id).unsqueeze(-1),
        EPS: F.layer_norm(total, (24,), norm.weight, norm.bias),
    }


def hint_of_embeddings(embeddings_class: type[BertEmbeddings]) -> str:
    """The mistake that leads to the result of embeddings with random weights, or ""."""
    torch.manual_seed(0)
    config = dataclasses.replace(TINY, layer_norm_eps=0.1, hidden_dropout_prob=0.5)
    layer = embeddings_class(config).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter))
    ids = torch.tensor([[5, 1, 7, 0], [8, 9, 2, 3]])
    types = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])
    found = layer(ids, types)
    if not isinstance(found, Tensor):
        return "not written yet, or is the return missing?"
    right = layer.norm(layer.word(ids) + layer.position.weight[:4] + layer.segment(types))
    hint = ""
    if not is_equal(found, right):
        hint = (
            "are word, position and segment embeddings added before the LayerNorm, with dropout "
            "after it, in training?"
        )
    if not torch.equal(found, layer(ids, types)):
        hint = "two calls in eval() differ: call self.dropout, which drops in training alone."
    return name_of(found, mistakes_of_embeddings(layer, ids, types)) or hint


def check_embeddings(embeddings_class: type[BertEmbeddings]) -> None:
    """Word (1, 0, 0) + position (0, 2, 0) + segment (0, 0, 3) = (1, 2, 3).

    Normalised, that is (-1, 0, 1) x sqrt(3/2).
    """
    config = BertConfig(vocab_size=3, hidden_size=3, num_attention_heads=1)
    embeddings = embeddings_class(config).eval()
    with torch.no_grad():
        for table in (embeddings.word, embeddings.position, embeddings.segment):
            table.weight.zero_()
        embeddings.word.weight[2, 0] = 1.0
        embeddings.position.weight[1, 1] = 2.0
        embeddings.segment.weight[1, 2] = 3.0
    output = embeddings(torch.tensor([[1, 2]]), torch.tensor([[0, 1]]))
    assert isinstance(output, Tensor), f"found {output}, expected a tensor: not written yet?"
    found = output[0, 1]
    expected = torch.tensor([-1.0, 0.0, 1.0]) * math.sqrt(1.5)
    hint = hint_of_embeddings(embeddings_class)
    # Measured 1e-7.
    assert_close(found, expected, 1e-6, hint)
    assert not hint, hint


GELU = "BERT's GELU is the erf form, x Phi(x)."
# What stands in place of GELU, by its hint.
WRONG_ACTIVATIONS = {
    "the activation is missing: down(gelu(up(x))).": lambda x: x,
    f"this is the tanh approximation. {GELU}": lambda x: F.gelu(x, approximate="tanh"),
    f"this is the approximation x sigmoid(1.702 x). {GELU}": lambda x: x * (1.702 * x).sigmoid(),
    f"this is ReLU. {GELU}": F.relu,
    f"this is SiLU, x sigmoid(x). {GELU}": F.silu,
    f"this is a sigmoid. {GELU}": torch.sigmoid,
    f"this is tanh. {GELU}": torch.tanh,
    f"this is ELU. {GELU}": F.elu,
    f"this is a leaky ReLU. {GELU}": F.leaky_relu,
    f"this is a softplus. {GELU}": F.softplus,
    f"this is a softmax. {GELU}": lambda x: x.softmax(dim=-1),
    f"the factor x is missing. {GELU}": lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    f"erf gets x / sqrt(2), not x. {GELU}": lambda x: 0.5 * x * (1 + torch.erf(x)),
    f"the half is missing, 1/2 (1 + erf(x / sqrt(2))). {GELU}": (
        lambda x: x * (1 + torch.erf(x / math.sqrt(2)))
    ),
    "GELU is applied twice: down(gelu(up(x))).": lambda x: F.gelu(F.gelu(x)),
    "GELU is multiplied by up(x) once more: down(gelu(up(x))).": lambda x: x * F.gelu(x),
    "up(x) is added to the activation; nothing is added here.": lambda x: x + F.gelu(x),
}


def hint_of_network(feed_forward_class: type[FeedForward]) -> str:
    """The mistake that leads to the result of a network with random weights, or ""."""
    torch.manual_seed(0)
    layer = feed_forward_class(TINY).double()
    x = torch.randn(2, 3, 24, dtype=torch.float64)
    hint = "is it down(gelu(up(x))), with GELU in the erf form, x Phi(x)?"
    try:
        found = layer(x)
    except RuntimeError as error:
        pytest.fail(f"{hint} Up takes H units to I, and down takes I units to H. {error}")
    if not isinstance(found, Tensor) or found.shape != x.shape:
        return ""
    if not torch.equal(found, layer(x)):
        return "two calls differ: nothing is dropped in the network; BertLayer drops."
    up = layer.up(x)
    down = layer.down
    gelu = F.gelu
    right = down(gelu(up))
    if is_equal(found, right.transpose(0, 1).reshape(x.shape)):
        return "tokens come back in another order: join the tokens of a row, dim=1, not the rows."
    if not torch.allclose(found[:, :1], layer(x[:, :1])):
        return "a token's result depends on the others; each token is transformed by itself."
    mistakes = {
        "the activation comes last; it stands between the two layers: down(gelu(up(x))).": gelu(
            down(up)
        ),
        "an activation stands behind `down`, too; one between the two layers is enough.": gelu(
            right
        ),
        "the activation comes behind `up`, not before it: down(gelu(up(x))).": down(
            layer.up(gelu(x))
        ),
        "the input is added back here; BertLayer does that.": x + right,
        "a LayerNorm stands here; BertLayer has it.": F.layer_norm(right, right.shape[-1:]),
        "`down` is missing: down(gelu(up(x))).": gelu(up),
        "`up` is all that is applied: down(gelu(up(x))).": up,
        "the bias of `up` is missing: call self.up.": down(gelu(x @ layer.up.weight.T)),
        "the bias of `down` is missing: call self.down.": gelu(up) @ down.weight.T,
        "the bias of `up` is added twice: self.up has added it.": down(gelu(up + layer.up.bias)),
        "the bias of `down` is added twice: self.down has added it.": right + down.bias,
        "a LayerNorm stands in front; BertLayer has it.": down(
            gelu(layer.up(F.layer_norm(x, x.shape[-1:])))
        ),
        "a LayerNorm stands between the layers; there is none.": down(
            F.layer_norm(gelu(up), up.shape[-1:])
        ),
    }
    mistakes |= {name: down(activate(up)) for name, activate in WRONG_ACTIVATIONS.items()}
    if is_equal(found, right):
        return ""
    return name_of(found, mistakes) or relation(found, right) + hint


def check_feed_forward(feed_forward_class: type[FeedForward]) -> None:
    """With matrices 1 and 2, twice GELU is left: 2 x 1 x Phi(1) = 1.6826895.

    The tanh approximation gives 1.6823840.
    """
    config = BertConfig(hidden_size=1, num_attention_heads=1, intermediate_size=1)
    layer = feed_forward_class(config)
    hint = hint_of_network(feed_forward_class)
    with torch.no_grad():
        for factor, linear in ((1.0, layer.up), (2.0, layer.down)):
            linear.weight.fill_(factor)
            linear.bias.zero_()
    found = layer(torch.ones(1, 1, 1))
    assert_close(found, torch.tensor([[[1.6826895]]]), 1e-6, hint)
    assert not hint, hint


def test_embeddings_by_hand():
    check_embeddings(BertEmbeddings)


def test_embeddings_without_segments():
    """DistilBERT has none."""
    embeddings = BertEmbeddings(dataclasses.replace(TINY, model_type="distilbert")).eval()
    ids = torch.tensor([[5, 6, 7]])
    try:
        found = embeddings(ids, torch.zeros_like(ids))
    except TypeError:
        pytest.fail("self.segment is None in an encoder without segments: ask before you call it")
    expected = embeddings.norm(embeddings.word(ids) + embeddings.position.weight[:3])
    assert_close(found, expected, 1e-6, "an encoder without segments adds words and positions")


def test_embeddings_of_single_sentences():
    """All of their tokens are in segment 0, whose row of the table is added like any other."""
    embeddings = BertEmbeddings(TINY).eval()
    ids = torch.tensor([[5, 6, 7]])
    segments = torch.zeros_like(ids)
    words = embeddings.word(ids) + embeddings.segment(segments)
    expected = embeddings.norm(words + embeddings.position.weight[:3])
    hint = "with token_type_ids of 0 alone, the row of segment 0 is still added"
    assert_close(embeddings(ids, segments), expected, 1e-6, hint)


def test_embeddings_of_three_segments():
    embeddings = BertEmbeddings(dataclasses.replace(TINY, type_vocab_size=3)).eval()
    ids = torch.tensor([[5, 6, 7]])
    segments = torch.tensor([[0, 2, 1]])
    words = embeddings.word(ids) + embeddings.segment(segments)
    expected = embeddings.norm(words + embeddings.position.weight[:3])
    hint = "a model may have three segments: token_type_ids are the rows of the table as they are"
    assert_close(embeddings(ids, segments), expected, 1e-6, hint)


def test_embeddings_whose_positions_begin_elsewhere():
    """RoBERTa counts from the row behind padding's: here 2, 3, and 1 for padding."""
    config = dataclasses.replace(TINY, model_type="roberta", pad_token_id=1)
    embeddings = BertEmbeddings(config).eval()
    ids = torch.tensor([[5, 6, 1]])
    found = embeddings(ids, torch.zeros_like(ids))
    positions = embeddings.position(torch.tensor([[2, 3, 1]]))
    words = embeddings.word(ids) + embeddings.segment(torch.zeros_like(ids))
    expected = embeddings.norm(words + positions)
    hint = (
        "the rows of the position table are those of positions_of: this model counts behind its "
        "padding row, and not from 0"
    )
    assert_close(found, expected, 1e-6, hint)


def test_embeddings_of_another_size_are_projected():
    """ELECTRA's small models have fewer units in their tables."""
    embeddings = BertEmbeddings(
        dataclasses.replace(TINY, model_type="electra", embedding_size=12)
    ).eval()
    ids = torch.tensor([[5, 6, 7]])
    parts = embeddings.word(ids) + embeddings.position.weight[:3]
    expected = embeddings.project(embeddings.norm(parts + embeddings.segment(0 * ids)))
    hint = "E units become H: self.project, if it is not None, is the last step"
    assert_close(embeddings(ids, 0 * ids), expected, 1e-6, hint)


def test_the_embeddings_drop_after_the_norm():
    embeddings = BertEmbeddings(dataclasses.replace(TINY, hidden_dropout_prob=0.5))
    ids = torch.randint(60, (4, 9), generator=torch.Generator().manual_seed(0))
    kept = embeddings.eval()(ids, 0 * ids)
    torch.manual_seed(0)
    dropped = embeddings.train()(ids, 0 * ids)
    is_dropped = dropped == 0
    assert not torch.equal(dropped, kept), "nothing is dropped in training: where is self.dropout?"
    hint = "dropout follows the LayerNorm: a unit is 0, or 1 / (1 - p) = 2 times as large"
    factors = dropped[~is_dropped] / kept[~is_dropped]
    if torch.allclose(factors, factors.mean(), rtol=1e-3):
        hint = (
            f"what stays is {factors.mean():.3g} times as large, expected 1 / (1 - p) = 2: call "
            "self.dropout once, which has the p of the config"
        )
    assert_close(dropped, torch.where(is_dropped, 0.0, 2 * kept), 1e-6, hint)
    for dim, name in ((0, "rows of the batch"), (1, "tokens of a row"), (2, "units of a token")):
        assert (is_dropped.any(dim) & ~is_dropped.all(dim)).any(), (
            f"all {name} drop alike; self.dropout draws each unit by itself"
        )
    assert not torch.equal(dropped, embeddings(ids, 0 * ids)), (
        "two calls drop the same units: is a seed set here?"
    )
    projected = dataclasses.replace(TINY, model_type="electra", embedding_size=12)
    embeddings = BertEmbeddings(dataclasses.replace(projected, hidden_dropout_prob=0.5))
    assert embeddings(ids, 0 * ids).all(), (
        "units of the result are dropped: dropout stands before self.project, which comes last"
    )


def test_feed_forward_by_hand():
    check_feed_forward(FeedForward)


def test_feed_forward_has_the_activation_of_its_config():
    torch.manual_seed(0)
    layer = FeedForward(dataclasses.replace(TINY, hidden_act="relu"))
    hidden_states = torch.randn(2, 5, 24)
    assert_close(
        layer(hidden_states),
        layer.down(layer.up(hidden_states).clamp(min=0)),
        1e-6,
        "the config asks for relu here: call self.activation",
    )


def test_the_network_limits_nothing_and_passes_gradients_on():
    torch.manual_seed(0)
    layer = FeedForward(TINY).double()
    hidden_states = (300 * torch.randn(1, 5, 24, dtype=torch.float64)).requires_grad_()
    found = layer(hidden_states)
    expected = layer.down(F.gelu(layer.up(hidden_states)))
    assert_close(found, expected, 1e-6, "are large numbers limited, or made less exact?")
    hint = "the input of the network has no gradient, or a part of it: is something detached?"
    assert_same_gradients(found, expected, [hidden_states], hint)


# --- a layer in plain Python ----------------------------------------------------------------------


Rows = list[list[float]]


def dot(first: list[float], second: list[float]) -> float:
    return sum(one * other for one, other in zip(first, second, strict=True))


def linear(module: nn.Linear, rows: Rows) -> Rows:
    weight = module.weight.tolist()
    bias = module.bias.tolist()
    result = []
    for row in rows:
        result.append([dot(w, row) + b for w, b in zip(weight, bias, strict=True)])
    return result


def add_and_norm(module: nn.LayerNorm, rows: Rows, others: Rows) -> Rows:
    weight = module.weight.tolist()
    bias = module.bias.tolist()
    result = []
    for row, other in zip(rows, others, strict=True):
        total = [a + b for a, b in zip(row, other, strict=True)]
        mean = sum(total) / len(total)
        variance = sum((x - mean) ** 2 for x in total) / len(total)
        deviation = math.sqrt(variance + 1e-12)
        normalised = [(x - mean) / deviation for x in total]
        result.append([x * w + b for x, w, b in zip(normalised, weight, bias, strict=True)])
    return result


def attend_by_loops(module: MultiHeadAttention, rows: Rows, num_heads: int) -> Rows:
    query = linear(module.query, rows)
    key = linear(module.key, rows)
    value = linear(module.value, rows)
    head_size = len(rows[0]) // num_heads
    context: Rows = [[] for _ in rows]
    for head in range(num_heads):
        units = slice(head * head_size, (head + 1) * head_size)
        for i in range(len(rows)):
            scores = [dot(query[i][units], k[units]) / math.sqrt(head_size) for k in key]
            weights = [math.exp(score) for score in scores]
            for d in range(units.start, units.stop):
                column = [row[d] for row in value]
                context[i].append(dot(weights, column) / sum(weights))
    return linear(module.output, context)


def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def layer_by_loops(layer: BertLayer, rows: Rows, num_heads: int) -> Rows:
    attended = attend_by_loops(layer.attention, rows, num_heads)
    attended = add_and_norm(layer.attention_norm, rows, attended)
    activated = []
    for row in linear(layer.feed_forward.up, attended):
        activated.append([gelu(x) for x in row])
    transformed = linear(layer.feed_forward.down, activated)
    return add_and_norm(layer.feed_forward_norm, attended, transformed)


class Call(NamedTuple):
    """What went into a part of a layer, and what came out."""

    part: str
    inputs: Tensor
    result: Tensor


@contextmanager
def recorded(layer: BertLayer) -> Iterator[list[Call]]:
    """The calls of the parts of a layer, in their order."""
    calls: list[Call] = []
    handles = []
    for part in PARTS:

        def keep(_: nn.Module, inputs: tuple, result: Tensor, part: str = part) -> None:
            calls.append(Call(part, inputs[0].detach().clone(), result.detach().clone()))

        handles.append(layer.get_submodule(part).register_forward_hook(keep))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


PARTS = ("attention", "attention_norm", "feed_forward", "feed_forward_norm")
MISSING = {
    "attention": "self.attention is not called.",
    "attention_norm": "the first LayerNorm is missing: call self.attention_norm.",
    "feed_forward": "the network is missing: call self.feed_forward.",
    "feed_forward_norm": "the second LayerNorm is missing: call self.feed_forward_norm.",
}


# The norms of a layer in the order of their calls.
WRONG_NORMS = {
    ("feed_forward_norm", "attention_norm"): (
        "attention_norm is the first LayerNorm, and feed_forward_norm the second; they are swapped."
    ),
    ("attention_norm", "attention_norm"): (
        "feed_forward_norm is the second LayerNorm; attention_norm stands there."
    ),
    ("feed_forward_norm", "feed_forward_norm"): (
        "attention_norm is the first LayerNorm; feed_forward_norm stands there."
    ),
    (): "both LayerNorms are missing: call self.attention_norm and self.feed_forward_norm.",
}


def wrong_order(names: list[str]) -> str:
    """What is wrong with the order in which a layer calls its parts, or ""."""
    norms = [name for name in names if name.endswith("_norm")]
    if tuple(norms) in WRONG_NORMS:
        return WRONG_NORMS[tuple(norms)]
    if names and names[0].endswith("_norm"):
        return POST_NORM
    if "attention" in names and "feed_forward" in names[: names.index("attention")]:
        return "attention comes first, and then the network; here it is the other way round."
    for part in PARTS:
        if names.count(part) > 1:
            return f"self.{part} is called {names.count(part)} times; once is right."
    return next((MISSING[part] for part in PARTS if part not in names), "")


def hint_of_layer(layer: BertLayer, x: Tensor, hint: str) -> str:
    """The first mistake on the way through a layer, by what its parts get; or `hint`.

    x: the layer's input. a: what attention returns. y: the first norm. f: the network.
    """
    with recorded(layer) as calls, torch.no_grad():
        found = layer(x, None)
    wrong = wrong_order([call.part for call in calls])
    if wrong:
        return wrong
    by_part = {call.part: call for call in calls}
    steps = {
        "attention": ("x", "x"),
        "attention_norm": ("x + a", "x + attention(x)"),
        "feed_forward": ("y", "y, the output of the first LayerNorm"),
        "feed_forward_norm": ("y + f", "y + feed_forward(y)"),
    }
    terms: dict[str, Tensor] = {"x": x}
    letters = dict(zip(PARTS, "ayfz", strict=True))
    for part, (right, words) in steps.items():
        call = by_part[part]
        name = name_of(call.inputs, sums_of(terms) | norms_of(layer, terms))
        if name != right:
            is_first = part == "attention_norm"
            before = "x" if is_first else "y"
            later = by_part["feed_forward"].inputs if is_first else found
            if name in ("a", "f") and is_equal(later, terms[before] + call.result):
                return f"the LayerNorm stands before the sum; add {before} first, then normalise."
            return meaning_of(part, name, words)
        terms[letters[part]] = call.result
    name = name_of(found, sums_of(terms))
    if name != "z":
        name = name or "another tensor"
        hint = f"the layer returns the second LayerNorm's output; here it is {name}. {LETTERS}"
    return hint


LETTERS = "(x: the layer's input, a: attention, y: the first norm, f: the network, z: the second.)"


def sums_of(terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """All sums of one, two or three different terms, and the usual ones with another sign."""
    sums = {}
    for number in (1, 2, 3):
        for names in itertools.combinations(terms, number):
            sums[" + ".join(names)] = torch.stack([terms[name] for name in names]).sum(dim=0)
    for one, other in itertools.permutations(terms, 2):
        sums[f"{one} - {other}"] = terms[one] - terms[other]
        sums[f"2 {one} + {other}"] = 2 * terms[one] + terms[other]
    return sums


def norms_of(layer: BertLayer, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """Normalised terms."""
    norms = {}
    for part in ("attention_norm", "feed_forward_norm"):
        for name, term in terms.items():
            norms[f"{part}({name})"] = layer.get_submodule(part)(term).detach()
    return norms


def is_equal(found: Tensor, tensor: Tensor) -> bool:
    return found.shape == tensor.shape and torch.allclose(found, tensor, rtol=0, atol=1e-6)


def name_of(found: Tensor, known: dict[str, Tensor]) -> str:
    """The first known tensor that equals `found`, or ""."""
    return next((name for name, tensor in known.items() if is_equal(found, tensor)), "")


def meaning_of(part: str, name: str, words: str) -> str:
    """What it means that a part of a layer gets the tensor of this name."""
    meanings = {
        ("attention", "attention_norm(x)"): POST_NORM,
        ("attention", "feed_forward_norm(x)"): POST_NORM,
        ("attention_norm", "a"): "the input of attention is not added back.",
        ("attention_norm", "x"): "what attention returns is not added, or the norm comes first. "
        f"{POST_NORM}",
        ("feed_forward", "a"): "the network reads the output of the first LayerNorm, not that of "
        "attention.",
        ("feed_forward_norm", "f"): "the input of the network is not added back.",
        ("feed_forward_norm", "x + f"): "the network's input is added back, which is the output of "
        "the first LayerNorm; here it is the layer's input.",
        ("feed_forward_norm", "y"): f"what the network returns is not added. {POST_NORM}",
    }
    is_given = f"here it is {name}. {LETTERS}" if name else "here it is another tensor."
    return meanings.get((part, name), f"self.{part} gets {words}; {is_given}")


POST_NORM = (
    "norm(x + attention(x)): let each LayerNorm stand after its sum (post-norm), not before."
)


def check_layer(layer_class: type[BertLayer]) -> None:
    """Two heads, four units, three tokens, one number at a time."""
    torch.manual_seed(0)
    config = BertConfig(hidden_size=4, num_attention_heads=2, intermediate_size=6)
    layer = layer_class(config).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter))
    tokens = torch.randn(1, 3, 4, dtype=torch.float64)
    expected_rows = layer_by_loops(layer, tokens[0].tolist(), num_heads=2)
    expected = torch.tensor([expected_rows], dtype=torch.float64)

    before = tokens.clone()
    found = layer(tokens, None)
    assert isinstance(found, Tensor), f"found {found}, expected a tensor: not written yet?"
    assert torch.equal(before, tokens), (
        "the layer changed its argument in place: write x = x + ..., not x += ..."
    )
    assert torch.equal(found, layer(tokens, None)), (
        "two calls in eval() differ: is dropout drawn in evaluation?"
    )
    bias = torch.tensor([0.0, 0.0, -1e9], dtype=torch.float64)[None, None, None]
    assert not torch.equal(found, layer(tokens, bias)), (
        "mask_bias has no effect in the layer: pass it on to self.attention"
    )
    hint = (
        "a layer is norm(x + attention(x)), then norm(y + feed_forward(y)): is each input added "
        "back, and does each LayerNorm stand after its sum?"
    )
    if found.shape == expected.shape and torch.allclose(found, expected, atol=1e-4):
        hint = EPS
    elif found.shape == expected.shape:
        hint = hint_of_layer(layer, tokens, hint)
    # float64: measured 1e-14.
    assert_close(found, expected, 1e-8, hint)


def test_layer_against_plain_python():
    check_layer(BertLayer)


def test_a_layer_of_some_tokens_alone():
    """positions: 2 is token 2 of row 0, and 6 token 1 of row 1."""
    torch.manual_seed(0)
    layer = BertLayer(TINY).eval()
    hidden_states = torch.randn(2, 5, 24)
    positions = torch.tensor([2, 6])
    bias = torch.tensor([0.0, 0, 0, 0, -1e9])[None, None, None]

    def expected_at(places: torch.Tensor) -> torch.Tensor:
        return layer(hidden_states, bias).flatten(0, 1)[places].unsqueeze(1)

    found = layer(hidden_states, bias, positions)
    expected = expected_at(positions)
    hint = (
        "`tokens_at` takes the tokens of `positions`, (P, 1, H): of the layer's input and of what "
        "attention returns, so behind it. Otherwise they don't see the rest of their sentence."
    )
    unmasked = layer(hidden_states, None).flatten(0, 1)[positions].unsqueeze(1)
    if found.shape == unmasked.shape and torch.allclose(found, unmasked, atol=1e-5):
        hint = "with `positions`, too, mask_bias is passed on to self.attention."
    by_columns = expected_at(positions % 2 * 5 + positions // 2)
    if found.shape == by_columns.shape and torch.allclose(found, by_columns, atol=1e-5):
        hint = "position b T + t is token t of row b: divide by the number of tokens, not of rows."
    assert_close(found, expected, 1e-5, hint)
    for chosen in ([8, 0, 3, 8], [0], []):
        positions = torch.tensor(chosen, dtype=torch.int64)
        expected = expected_at(positions)
        found = layer(hidden_states, bias, positions)
        assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5), (
            f"positions {chosen}: the tokens come in this order, one may come twice, 0 is a token, "
            "and there may be none. Ask `is not None`, and leave the rest to `tokens_at`."
        )


def test_a_layer_passes_gradients_on():
    """The two sums, the attention and the network in order, and their gradients."""
    torch.manual_seed(0)
    layer = BertLayer(TINY).double().eval()
    x = torch.randn(2, 5, 24, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor([0.0, 0, 0, 0, -1e9]).double()[None, None, None]
    y = layer.attention_norm(x + layer.attention(x, bias))
    expected = layer.feed_forward_norm(y + layer.feed_forward(y))
    found = layer(x, bias)
    assert_close(found, expected, 1e-8, "with a mask, too, each token is computed, as without")
    hint = "the result is right, and its gradient is not: is an input or a term detached?"
    assert_same_gradients(found, expected, [x, *layer.parameters()], hint)


def test_pooler_by_hand():
    model = make_model()
    with torch.no_grad():
        model.pooler.weight.copy_(2 * torch.eye(24))
        model.pooler.bias.fill_(0.5)
    output = model(**make_batch())
    assert_close(
        output.pooler_output,
        torch.tanh(2 * output.last_hidden_state[:, 0] + 0.5),
        1e-6,
        "the pooler is tanh(linear([CLS])), and [CLS] is token 0",
    )


# --- properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_padding_never_changes_a_result(implementation):
    """A row alone and unpadded equals the row in a padded batch, whatever ids the padding holds."""
    model = make_model(attention_implementation=implementation)
    batch = make_batch()
    noise = torch.where(batch["attention_mask"] == 0, 7, batch["input_ids"])
    outputs = [model(**batch), model(**{**batch, "input_ids": noise})]
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        alone = model(
            batch["input_ids"][row : row + 1, :length],
            token_type_ids=batch["token_type_ids"][row : row + 1, :length],
        )
        for output in outputs:
            # float32: kernels of another size round otherwise, measured 1e-6.
            assert_close(
                output.last_hidden_state[row, :length],
                alone.last_hidden_state[0],
                1e-5,
                "padding leaks in: does mask_to_bias(attention_mask) reach every layer?",
            )
            assert_close(
                output.pooler_output[row],
                alone.pooler_output[0],
                1e-5,
                "padding leaks into the pooler",
            )


def test_permuting_the_batch_permutes_the_output():
    model = make_model()
    batch = make_batch()
    order = torch.tensor([2, 0, 1])
    shuffled = model(**{name: tensor[order] for name, tensor in batch.items()})
    assert_close(
        shuffled.last_hidden_state,
        model(**batch).last_hidden_state[order],
        1e-6,
        "rows of a batch are mixed",
    )


def test_every_parameter_gets_a_gradient():
    model = make_model()
    output = model(**make_batch())
    (output.last_hidden_state.pow(3).sum() + output.pooler_output.sum()).backward()
    # Embeddings and their norm, three layers, pooler.
    num_tensors = 5 + 3 * 16 + 2
    assert len(list(model.parameters())) == num_tensors, (
        "are the layers, each with its own weights, in a ModuleList?"
    )
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, (
            f"{name} has no gradient: it is not used, or detached on the way"
        )
        # The true gradient of key.bias is 0: see compare_with_hugging_face.
        is_zero = not parameter.grad.any()
        assert not is_zero or name.endswith("key.bias"), (
            f"{name} has a gradient of zeros: is it multiplied by 0, or used where it cancels?"
        )


def test_without_dropout_training_is_evaluation():
    model = make_model()
    batch = make_batch()
    trained = model.train()(**batch).last_hidden_state
    evaluated = model.eval()(**batch).last_hidden_state
    assert torch.allclose(trained, evaluated, atol=1e-5), (
        "both dropout probabilities are 0, so train() and eval() give the same: is a number fixed?"
    )


def test_the_pooler_has_no_dropout():
    model = make_model(hidden_dropout_prob=0.5).train()
    output = model(**make_batch())
    assert_close(
        output.pooler_output,
        torch.tanh(model.pooler(output.last_hidden_state[:, 0])),
        1e-6,
        "the pooler is tanh(linear([CLS])) in training too, without dropout",
    )


def test_a_layer_drops_by_the_hidden_probability():
    # The dropout of attention stays 0.
    config = dataclasses.replace(TINY, hidden_dropout_prob=0.5)
    hidden_states = torch.randn(2, 5, 24)
    for part, other in {
        "attention": "feed_forward.down",
        "the network": "attention.output",
    }.items():
        layer = BertLayer(config).train()
        with torch.no_grad():
            for parameter in layer.get_submodule(other).parameters():
                parameter.zero_()
        assert not torch.equal(layer(hidden_states, None), layer(hidden_states, None)), (
            f"two calls in train() are equal: the output of {part} has dropout, too, self.dropout"
        )
        first, second = (layer(hidden_states, None, torch.tensor([2, 6])) for _ in range(2))
        assert not torch.equal(first, second), (
            f"with `positions`, too, the output of {part} has dropout in training"
        )


def test_a_layer_drops_what_attention_and_the_network_return():
    """A unit of either is 0, or 1 / (1 - p) = 2 times as large, before it is added."""
    layer = BertLayer(dataclasses.replace(TINY, hidden_dropout_prob=0.5)).double().train()
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    with recorded(layer) as calls, torch.no_grad():
        found = layer(x, None)
    by_part = {call.part: call for call in calls}
    shapes = {tensor.shape for call in calls for tensor in (call.inputs, call.result)}
    if len(calls) != len(PARTS) or set(by_part) != {*PARTS} or shapes != {x.shape}:
        pytest.skip("a part is not called as a module, once and on all tokens")
    y = by_part["attention_norm"].result
    masks = []
    for part, norm, before in (
        ("attention", "attention_norm", x),
        ("feed_forward", "feed_forward_norm", y),
    ):
        added = by_part[norm].inputs - before
        is_kept = added.abs() > 1e-9
        hint = (
            f"self.dropout is applied once, to what self.{part} returns, before it is added: a "
            "unit is 0, or 1 / (1 - p) = 2 times as large."
        )
        assert_close(added, 2 * by_part[part].result * is_kept, 1e-9, hint)
        # 240 units and five standard deviations.
        share = is_kept.double().mean().item()
        assert 0.33 < share < 0.67, f"{share:.2f} of the units stay, expected 0.5. {hint}"
        for dim, name in ((0, "rows"), (1, "tokens of a row"), (2, "units of a token")):
            assert (is_kept.any(dim) & ~is_kept.all(dim)).any(), (
                f"all {name} drop alike; self.dropout draws each unit by itself"
            )
        masks.append(is_kept)
    assert not torch.equal(*masks), (
        "both sums drop the same units: call self.dropout for each of them"
    )
    hint = "the network reads the output of the first norm as it is: no dropout stands in front."
    assert_close(by_part["feed_forward"].inputs, y, 1e-9, hint)
    hint = "the layer returns the output of the second norm as it is: no dropout stands behind."
    assert_close(found, by_part["feed_forward_norm"].result, 1e-9, hint)


@pytest.mark.parametrize("field", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_each_dropout_is_drawn_in_training_only(field):
    model = make_model(**{field: 0.5})
    batch = make_batch()
    model.train()
    first = model(**batch).pooler_output
    second = model(**batch).pooler_output
    assert not torch.allclose(first, second), f"{field} is not used"
    model.eval()
    assert torch.equal(model(**batch).pooler_output, model(**batch).pooler_output), (
        f"{field} is used in evaluation, too"
    )


def test_defaults_and_ways_to_read_the_output():
    model = make_model()
    ids = make_batch()["input_ids"][:1]
    output = model(ids, output_hidden_states=True)
    explicit = model(ids, torch.ones_like(ids), torch.zeros_like(ids))
    assert_close(
        output.last_hidden_state,
        explicit.last_hidden_state,
        1e-6,
        "default: all tokens real, all segment 0",
    )
    assert output["pooler_output"] is output.pooler_output
    assert output[0] is output.last_hidden_state and output[1] is output.pooler_output
    assert len(output.hidden_states) == TINY.num_hidden_layers + 1, (
        "the embeddings and the output of every layer"
    )
    assert output.hidden_states[-1] is output.last_hidden_state
    assert explicit.hidden_states is None


def test_embed_and_encode_are_the_two_steps_of_forward():
    model = make_model()
    batch = make_batch()
    embedded = model.embed(batch["input_ids"], batch["token_type_ids"])
    found = model.encode(embedded, batch["attention_mask"])
    assert torch.equal(found, model(**batch).last_hidden_state)


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match=r"21 tokens.*20 positions"):
        make_model()(torch.ones(1, 21, dtype=torch.long))


# --- Hugging Face ---------------------------------------------------------------------------------


def compare_with_hugging_face(folder: Path, implementation: str, batch: dict[str, Tensor]) -> None:
    """Outputs within 3e-5, and the gradient of every parameter within 1e-4 of its own size.

    float32, 3 and 6 layers. Right code in another order of sums differs by the rounding of MiniLM's
    six layers.
    """
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run pip install transformers"
    )
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    ours = BertModel.from_pretrained(folder, attention_implementation=implementation)
    assert not ours.training, "from_pretrained gives a model in evaluation mode"
    torch.manual_seed(2)
    found = ours(**batch, output_hidden_states=True)
    expected = theirs(**batch, output_hidden_states=True)
    states = zip(found.hidden_states, expected.hidden_states, strict=True)
    for number, (mine, other) in enumerate(states):
        assert_close(
            mine,
            other,
            3e-5,
            f"hidden state {number} (0 is the embeddings) is the first that differs; does each "
            "layer take the one before, is none changed in place, are two names swapped in "
            "NAME_TABLE?",
        )
    assert_close(
        found.pooler_output, expected.pooler_output, 3e-5, "is the pooler tanh(linear([CLS]))?"
    )

    # A loss of both outputs that leaves padding out.
    token_factors = torch.randn_like(found.last_hidden_state)
    pooled_factors = torch.randn_like(found.pooler_output)
    token_factors = token_factors * batch["attention_mask"].unsqueeze(-1)
    for output in (found, expected):
        loss = (output.last_hidden_state * token_factors).sum()
        loss = loss + (output.pooler_output * pooled_factors).sum()
        loss.backward()

    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        reference = gradients.pop(to_hugging_face(name))
        scale = reference.norm()
        if name.endswith("attention.key.bias"):
            # The same number added to all scores of a query leaves the softmax as it is. The true
            # gradient is 0 and both have rounding noise only. It is measured against the query's
            # bias.
            scale = ours.get_parameter(name.replace("key", "query")).grad.norm()
        difference = ((parameter.grad - reference).norm() / scale).item()
        assert difference <= 1e-4, (
            f"the gradient of {name} is off by {difference:.1e} of its size, and the outputs are "
            "right: is one of the terms detached?"
        )
    assert not gradients, f"parameters that we lack: {sorted(gradients)}"


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_equals_hugging_face_on_a_tiny_random_model(hugging_face_folder, implementation):
    compare_with_hugging_face(hugging_face_folder, implementation, make_batch())


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_equals_hugging_face_on_minilm(minilm_folder, implementation):
    batch = make_batch(num_tokens=24, vocab_size=30522)
    compare_with_hugging_face(minilm_folder, implementation, batch)
