"""The checks of the lessons fail on the mistakes that students make, and say what is wrong.

The lessons test the code in the repository. Here the same checks test right and wrong versions that
are written without it. So this file passes whatever state an exercise is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from minbert.bert import BertEmbeddings, BertLayer, FeedForward
from tests.lessons.test_attention import check_by_hand, check_dropout, check_mask_by_hand
from tests.lessons.test_layers import check_embeddings, check_feed_forward, check_layer
from tests.lessons.test_optimizer import (
    CHECKS,
    check_decay,
    check_decay_follows_the_schedule,
    check_first_step,
    check_second_step,
    check_without_correction,
)


def expect_hint(check: Callable[[Any], None], wrong: Any, hint: str) -> None:
    """The check fails, and its message matches the regular expression `hint`."""
    with pytest.raises(AssertionError, match=hint):
        check(wrong)


# --- attention ------------------------------------------------------------------------------------


def drop(weights: Tensor, probability: float, training: bool) -> Tensor:
    return F.dropout(weights, probability, training)


@dataclass
class Attention:
    """Attention in seven steps. The defaults are right. A mistake replaces one or two steps."""

    take: Callable = lambda query, key: (query, key)
    divide: Callable = lambda scores, query: scores / math.sqrt(query.size(-1))
    mask: Callable = lambda scores, bias: scores + bias
    weigh: Callable = lambda scores: scores.softmax(dim=-1)
    correct: Callable = lambda weights, query, bias: weights
    drop: Callable = drop
    combine: Callable = lambda weights, value, probability, training: weights @ value

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        probability: float,
        training: bool,
    ) -> Tensor:
        query, key = self.take(query, key)
        scores = self.divide(query @ key.transpose(-2, -1), query)
        if bias is not None:
            scores = self.mask(scores, bias)
        weights = self.correct(self.weigh(scores), query, bias)
        weights = self.drop(weights, probability, training)
        return self.combine(weights, value, probability, training)


def divided_by(number: Callable[[Tensor], float]) -> Attention:
    """The scores are divided by another number, which depends on the query (B, N, T, D)."""
    return Attention(divide=lambda scores, query: scores / number(query))


def scale_in_place(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    query /= math.sqrt(query.size(-1))
    return query, key


def drop_without_scale(weights: Tensor, probability: float, training: bool) -> Tensor:
    if not training:
        return weights
    return weights * (torch.rand_like(weights) >= probability)


def drop_and_renormalise(weights: Tensor, probability: float, training: bool) -> Tensor:
    weights = drop(weights, probability, training)
    return weights / weights.sum(dim=-1, keepdim=True)


def keep(weights: Tensor, probability: float, training: bool) -> Tensor:
    return weights


def mask_weights(weights: Tensor, query: Tensor, bias: Tensor | None) -> Tensor:
    return weights if bias is None else weights * (bias == 0)


def drop_context(weights: Tensor, value: Tensor, probability: float, training: bool) -> Tensor:
    return drop(weights @ value, probability, training)


def join_heads(weights: Tensor, value: Tensor, probability: float, training: bool) -> Tensor:
    return (weights @ value).transpose(1, 2).flatten(2)


@dataclass
class DropScores(Attention):
    """Dropout before the softmax."""

    drop: Callable = keep

    def __call__(self, query, key, value, bias, probability, training) -> Tensor:
        self.weigh = lambda scores: drop(scores, probability, training).softmax(dim=-1)
        return super().__call__(query, key, value, bias, probability, training)


ATTENTION_MISTAKES = {
    "unwritten": (lambda *arguments: None, check_by_hand, "not written yet"),
    "joined": (Attention(combine=join_heads), check_by_hand, "joins the heads"),
    "no scale": (divided_by(lambda q: 1), check_by_hand, r"did you divide by sqrt\(head size\)"),
    "by D": (divided_by(lambda q: q.size(-1)), check_by_hand, "instead of sqrt"),
    "by sqrt(H)": (
        divided_by(lambda q: math.sqrt(q.size(-1) * q.size(1))),
        check_by_hand,
        r"divided by sqrt\(H\)",
    ),
    "by sqrt(T)": (
        divided_by(lambda q: math.sqrt(q.size(2))),
        check_by_hand,
        "the number of tokens",
    ),
    "times": (
        divided_by(lambda q: 1 / math.sqrt(q.size(-1))),
        check_by_hand,
        "multiplied by sqrt",
    ),
    "after": (
        Attention(
            divide=lambda scores, query: scores,
            correct=lambda weights, query, bias: weights / math.sqrt(query.size(-1)),
        ),
        check_by_hand,
        "Divide the scores before it",
    ),
    "swapped": (
        Attention(take=lambda query, key: (key, query)),
        check_by_hand,
        "query and key are swapped",
    ),
    "over queries": (
        Attention(weigh=lambda scores: scores.softmax(dim=-2)),
        check_by_hand,
        "over the keys",
    ),
    "over heads": (
        Attention(weigh=lambda scores: scores.softmax(dim=1)),
        check_by_hand,
        "over the keys",
    ),
    "in place": (
        Attention(take=scale_in_place, divide=lambda scores, query: scores),
        check_by_hand,
        "changed its argument query",
    ),
    "mask after": (
        Attention(mask=lambda scores, bias: scores, correct=mask_weights),
        check_mask_by_hand,
        "before the softmax",
    ),
    "mask queries": (
        Attention(mask=lambda scores, bias: scores + bias.transpose(-2, -1)),
        check_mask_by_hand,
        "mask the keys",
    ),
    "no dropout": (Attention(drop=keep), check_dropout, "nothing was dropped"),
    "dropout on scores": (DropScores(), check_dropout, "nothing was dropped, or the scores were"),
    "no rescaling": (
        Attention(drop=drop_without_scale),
        check_dropout,
        "divide what stays by 1 - p",
    ),
    "renormalised": (
        Attention(drop=drop_and_renormalise),
        check_dropout,
        "does not make them sum to 1 again",
    ),
    "dropout on context": (
        Attention(drop=keep, combine=drop_context),
        check_dropout,
        "for all D units at once",
    ),
}


@pytest.mark.parametrize("check", [check_by_hand, check_mask_by_hand, check_dropout])
def test_the_right_attention_passes(check):
    check(Attention())


@pytest.mark.parametrize("mistake", ATTENTION_MISTAKES)
def test_attention(mistake):
    wrong, check, hint = ATTENTION_MISTAKES[mistake]
    expect_hint(check, wrong, hint)


# --- the optimizer --------------------------------------------------------------------------------


class WrittenAdamW(Optimizer):
    """AdamW in small methods. Each is right. A mistake replaces one of them."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-6,
        weight_decay=0.0,
        correct_bias=True,
    ):
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "correct_bias": correct_bias,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.move(parameter, group)

    def move(self, parameter, group):
        state = self.state[parameter]
        lr = self.learning_rate(group)
        gradient = self.gradient(parameter, group)
        self.before(parameter, lr * group["weight_decay"])
        t = self.count(state)
        m, v = self.moments(state, gradient, self.betas(group))
        size = self.step_size(lr, self.correction(t, self.betas(group)), group)
        step = size * m / self.denominator(v, group["eps"])
        parameter.sub_(step)
        parameter.sub_(self.decay(parameter, step, size, lr, group))

    def learning_rate(self, group):
        return group["lr"]

    def betas(self, group):
        return group["betas"]

    def gradient(self, parameter, group):
        return parameter.grad

    def before(self, parameter, decay):
        """Nothing decays before the step."""

    def count(self, state):
        state["t"] = state.get("t", 0) + 1
        return state["t"]

    def moments(self, state, gradient, betas):
        state["m"] = betas[0] * state.get("m", 0 * gradient) + (1 - betas[0]) * gradient
        state["v"] = betas[1] * state.get("v", 0 * gradient) + (1 - betas[1]) * gradient**2
        return state["m"], state["v"]

    def correction(self, t, betas):
        return math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)

    def step_size(self, lr, correction, group):
        return lr * correction if group["correct_bias"] else lr

    def denominator(self, v, eps):
        return v.sqrt() + eps

    def decay(self, parameter, step, size, lr, group):
        return lr * group["weight_decay"] * parameter


def adamw_with(**methods: Callable) -> type[Optimizer]:
    """AdamW with one or two methods replaced."""
    return type("Wrong", (WrittenAdamW,), methods)


def forget(self, state, gradient, betas):
    """Moments of this gradient alone."""
    return WrittenAdamW.moments(self, {}, gradient, betas)


def first_moment_is_gradient(self, state, gradient, betas):
    _, v = WrittenAdamW.moments(self, state, gradient, betas)
    return gradient, v


def keep_root(self, state, gradient, betas):
    """The root of v is stored in the place of v."""
    m, v = WrittenAdamW.moments(self, state, gradient, betas)
    state["v"] = v.sqrt()
    return m, v


def change_group(self, lr, correction, group):
    group["lr"] = lr * correction
    return group["lr"]


def change_gradient(self, parameter, step, size, lr, group):
    parameter.grad.mul_(2)
    return 0 * parameter


def decay_if_corrected(self, parameter, step, size, lr, group):
    return lr * group["weight_decay"] * parameter * group["correct_bias"]


def count_from_two(self, state):
    state["t"] = state.get("t", 1) + 1
    return state["t"]


def no_decay(self, parameter, step, size, lr, group):
    return 0 * parameter


SWAPPED_BETAS = adamw_with(betas=lambda self, group: group["betas"][::-1])

OPTIMIZER_MISTAKES = {
    "unwritten": (
        adamw_with(move=lambda self, parameter, group: None),
        check_first_step,
        "did not move",
    ),
    "sign": (
        adamw_with(step_size=lambda self, lr, correction, group: -lr * correction),
        check_first_step,
        "goes up the gradient",
    ),
    "no correction": (
        adamw_with(step_size=lambda self, lr, correction, group: lr),
        check_first_step,
        "is missing",
    ),
    "correction without root": (
        adamw_with(correction=lambda self, t, betas: (1 - betas[1] ** t) / (1 - betas[0] ** t)),
        check_first_step,
        "not 1 - beta_2",
    ),
    "correction upside down": (
        adamw_with(step_size=lambda self, lr, correction, group: lr / correction),
        check_first_step,
        "upside down",
    ),
    "t from 2": (adamw_with(count=count_from_two), check_first_step, "t is 1 at the first step"),
    "lr twice": (
        adamw_with(step_size=lambda self, lr, correction, group: lr * lr * correction),
        check_first_step,
        "by lr twice",
    ),
    "no lr": (
        adamw_with(step_size=lambda self, lr, correction, group: correction),
        check_first_step,
        "not multiplied by lr",
    ),
    "no root": (
        adamw_with(denominator=lambda self, v, eps: v + eps),
        check_first_step,
        "its square root",
    ),
    "m is g": (
        adamw_with(moments=first_moment_is_gradient),
        check_first_step,
        "is that g itself",
    ),
    "gradient changed": (
        adamw_with(decay=change_gradient),
        check_first_step,
        "changed parameter.grad",
    ),
    "t stays": (
        adamw_with(count=lambda self, state: 1),
        check_second_step,
        "right at step 1, wrong at step 2",
    ),
    "nothing stored": (
        adamw_with(moments=forget),
        check_second_step,
        "right at step 1, wrong at step 2",
    ),
    "root stored": (adamw_with(moments=keep_root), check_second_step, "v without its root"),
    "group's lr changed": (
        adamw_with(step_size=change_group),
        check_second_step,
        "lr stay as it is",
    ),
    "swapped betas": (SWAPPED_BETAS, check_second_step, "swapped"),
    "always corrected": (
        adamw_with(step_size=lambda self, lr, correction, group: lr * correction),
        check_without_correction,
        "not heeded",
    ),
    "swapped betas without correction": (SWAPPED_BETAS, check_without_correction, "swapped"),
    "no decay": (adamw_with(decay=no_decay), check_decay, "left out"),
    "decay in gradient": (
        adamw_with(
            gradient=lambda self, p, group: p.grad + group["weight_decay"] * p,
            decay=no_decay,
        ),
        check_decay,
        "added to the gradient",
    ),
    "decay before": (
        adamw_with(before=lambda self, p, decay: p.mul_(1 - decay), decay=no_decay),
        check_decay,
        "before the step",
    ),
    "decay of the old": (
        adamw_with(
            decay=lambda self, p, step, size, lr, group: lr * group["weight_decay"] * (p + step)
        ),
        check_decay,
        "to the value from before it",
    ),
    "decay without lr": (
        adamw_with(decay=lambda self, p, step, size, lr, group: group["weight_decay"] * p),
        check_decay,
        "not multiplied by lr",
    ),
    "decay's sign": (
        adamw_with(decay=lambda self, p, step, size, lr, group: -lr * group["weight_decay"] * p),
        check_decay,
        "wrong sign",
    ),
    "decay by the step size": (
        adamw_with(decay=lambda self, p, step, size, lr, group: size * group["weight_decay"] * p),
        check_decay,
        "not by the bias-corrected step size",
    ),
    "decay if corrected": (
        adamw_with(decay=decay_if_corrected),
        check_decay,
        "does not depend on correct_bias",
    ),
    "first lr": (
        adamw_with(learning_rate=lambda self, group: self.defaults["lr"]),
        check_decay_follows_the_schedule,
        "use the current learning rate",
    ),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_right_optimizer_passes(check):
    check(WrittenAdamW)


@pytest.mark.parametrize("mistake", OPTIMIZER_MISTAKES)
def test_optimizer(mistake):
    wrong, check, hint = OPTIMIZER_MISTAKES[mistake]
    expect_hint(check, wrong, hint)


# --- the encoder ----------------------------------------------------------------------------------


class RightEmbeddings(BertEmbeddings):
    """The three embeddings, added and normalised."""

    def forward(self, input_ids, token_type_ids):
        return self.norm(self.added(input_ids, token_type_ids))

    def added(self, input_ids, token_type_ids):
        positions = self.position.weight[: input_ids.size(1)]
        return self.word(input_ids) + self.segment(token_type_ids) + positions


class NoSegments(RightEmbeddings):
    """Feeds segment 0 everywhere."""

    def forward(self, input_ids, token_type_ids):
        return self.norm(self.added(input_ids, 0 * token_type_ids))


class NoPositions(RightEmbeddings):
    """A bag of words."""

    def added(self, input_ids, token_type_ids):
        return self.word(input_ids) + self.segment(token_type_ids)


class NoNorm(RightEmbeddings):
    """The sum as it is."""

    def forward(self, input_ids, token_type_ids):
        return self.added(input_ids, token_type_ids)


class OtherEps(RightEmbeddings):
    """torch's default eps."""

    def forward(self, input_ids, token_type_ids):
        return F.layer_norm(self.added(input_ids, token_type_ids), (3,), eps=1e-5)


class RightFeedForward(FeedForward):
    """Up, GELU, down."""

    def forward(self, hidden_states):
        return self.down(nn.GELU()(self.up(hidden_states)))


class TanhGelu(FeedForward):
    """The approximation of GPT-2."""

    def forward(self, hidden_states):
        return self.down(F.gelu(self.up(hidden_states), approximate="tanh"))


class GeluLast(FeedForward):
    """The activation after the second layer."""

    def forward(self, hidden_states):
        return F.gelu(self.down(self.up(hidden_states)))


class Nothing(FeedForward):
    """Not written yet."""

    def forward(self, hidden_states):
        return None


class PreNorm(BertLayer):
    """The order of GPT-2: norm first, then the sum."""

    def forward(self, hidden_states, mask_bias):
        normalised = self.attention_norm(hidden_states)
        hidden_states = hidden_states + self.attention(normalised, mask_bias)
        return hidden_states + self.feed_forward(self.feed_forward_norm(hidden_states))


class AlwaysDrops(BertLayer):
    """F.dropout without `training`."""

    def forward(self, hidden_states, mask_bias):
        attended = F.dropout(self.attention(hidden_states, mask_bias), 0.5)
        hidden_states = self.attention_norm(hidden_states + attended)
        return self.feed_forward_norm(hidden_states + self.feed_forward(hidden_states))


class InPlace(BertLayer):
    """The residual added into the argument."""

    def forward(self, hidden_states, mask_bias):
        hidden_states += self.attention(hidden_states, mask_bias)
        hidden_states = self.attention_norm(hidden_states)
        return self.feed_forward_norm(hidden_states + self.feed_forward(hidden_states))


def test_the_right_embeddings_and_network_pass():
    check_embeddings(RightEmbeddings)
    check_feed_forward(RightFeedForward)


@pytest.mark.parametrize(
    ("wrong", "check", "hint"),
    [
        (NoSegments, check_embeddings, "token_type_ids"),
        (NoPositions, check_embeddings, "position embedding is missing"),
        (NoNorm, check_embeddings, "LayerNorm is missing"),
        (OtherEps, check_embeddings, "layer_norm_eps"),
        (TanhGelu, check_feed_forward, "erf form"),
        (GeluLast, check_feed_forward, r"down\(gelu\(up"),
        (PreNorm, check_layer, "LayerNorm stand after its sum"),
        (AlwaysDrops, check_layer, "drawn in evaluation"),
        (InPlace, check_layer, "changed its argument in place"),
        (Nothing, check_feed_forward, "not written yet"),
    ],
)
def test_encoder(wrong, check, hint):
    expect_hint(check, wrong, hint)
