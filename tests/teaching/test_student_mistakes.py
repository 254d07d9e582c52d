"""The checks of the three files for students fail on what students write wrong, and say what it is.

tests/lessons/test_attention.py, test_optimizer.py and test_bert.py judge the code in the repository; here the same checks judge
wrong versions, written without it, so that this file passes whatever state an exercise is in.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
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


def expect_hint(check, wrong, hint: str) -> None:
    with pytest.raises(AssertionError, match=hint):
        check(wrong)


# --- attention ------------------------------------------------------------------------------------


def written_attention(mistake: str):
    """Attention in one function, with one mistake; "" has none."""

    def attend(query, key, value, bias, probability, training):
        size = query.size(-1)
        divisor = {
            "no scale": 1,
            "by D": size,
            "by sqrt(H)": math.sqrt(size * query.size(1)),
            "after": 1,
            "by sqrt(T)": math.sqrt(query.size(2)),
            "times": 1 / math.sqrt(size),
        }.get(mistake, math.sqrt(size))
        if mistake == "in place":
            query /= divisor
            divisor = 1
        if mistake == "swapped":
            query, key = key, query
        scores = query @ key.transpose(-2, -1) / divisor
        if bias is not None and mistake != "mask after":
            scores = scores + (bias.transpose(-2, -1) if mistake == "mask queries" else bias)
        if mistake == "dropout on scores":
            scores = F.dropout(scores, probability, training)
        weights = scores.softmax(dim={"over queries": -2, "over heads": 1}.get(mistake, -1))
        if mistake == "after":
            weights = weights / math.sqrt(size)
        if mistake == "mask after" and bias is not None:
            weights = weights * (bias == 0)
        if mistake == "no rescaling" and training:
            weights = weights * (torch.rand_like(weights) >= probability)
        elif mistake not in ("no dropout", "dropout on scores", "dropout on context"):
            weights = F.dropout(weights, probability, training)
        if mistake == "renormalised":
            weights = weights / weights.sum(dim=-1, keepdim=True)
        context = weights @ value
        if mistake == "dropout on context":
            context = F.dropout(context, probability, training)
        if mistake == "joined":
            context = context.transpose(1, 2).flatten(2)
        return None if mistake == "unwritten" else context

    return attend


@pytest.mark.parametrize("check", [check_by_hand, check_mask_by_hand, check_dropout])
def test_the_right_attention_passes(check):
    check(written_attention(""))


@pytest.mark.parametrize(
    ("mistake", "check", "hint"),
    [
        ("unwritten", check_by_hand, "not written yet"),
        ("joined", check_by_hand, "joins the heads"),
        ("no scale", check_by_hand, r"did you divide by sqrt\(head size\)"),
        ("by D", check_by_hand, "instead of sqrt"),
        ("by sqrt(H)", check_by_hand, r"divided by sqrt\(H\)"),
        ("by sqrt(T)", check_by_hand, "the number of tokens"),
        ("times", check_by_hand, "multiplied by sqrt"),
        ("after", check_by_hand, "Divide the scores before it"),
        ("swapped", check_by_hand, "query and key are swapped"),
        ("over queries", check_by_hand, "over the keys"),
        ("over heads", check_by_hand, "over the keys"),
        ("in place", check_by_hand, "changed its argument query"),
        ("mask after", check_mask_by_hand, "before the softmax"),
        ("mask queries", check_mask_by_hand, "mask the keys"),
        ("no dropout", check_dropout, "nothing was dropped"),
        ("dropout on scores", check_dropout, "nothing was dropped, or the scores were"),
        ("no rescaling", check_dropout, "divide what stays by 1 - p"),
        ("renormalised", check_dropout, "does not make them sum to 1 again"),
        ("dropout on context", check_dropout, "for all D units at once"),
    ],
)
def test_attention(mistake, check, hint):
    expect_hint(check, written_attention(mistake), hint)


# --- the optimizer --------------------------------------------------------------------------------


def written_adamw(mistake: str) -> type[Optimizer]:
    """AdamW in one method, with one mistake; "" has none."""

    class Written(Optimizer):
        def __init__(
            self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, correct_bias=True
        ):
            super().__init__(
                params,
                {
                    "lr": lr,
                    "betas": betas,
                    "eps": eps,
                    "weight_decay": weight_decay,
                    "correct_bias": correct_bias,
                },
            )

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if mistake != "unwritten":
                        self.move(parameter, group)

        def move(self, parameter, group):
            g, state = parameter.grad, self.state[parameter]
            lr, (beta_1, beta_2), decay = group["lr"], group["betas"], group["weight_decay"]
            if mistake == "first lr":
                lr = self.defaults["lr"]
            if mistake == "swapped betas":
                beta_1, beta_2 = beta_2, beta_1
            if mistake == "decay in gradient":
                g = g + decay * parameter
            if mistake == "decay before":
                parameter.mul_(1 - lr * decay)
            t = state["t"] = (
                1 if mistake == "t stays" else state.get("t", int(mistake == "t from 2")) + 1
            )
            m = beta_1 * state.get("m", 0 * g) + (1 if mistake == "m is g" else 1 - beta_1) * g
            v = beta_2 * state.get("v", 0 * g) + (1 - beta_2) * g * g
            if mistake != "nothing stored":
                state["m"], state["v"] = m, v.sqrt() if mistake == "root stored" else v
            correction = math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            if mistake == "correction without root":
                correction = (1 - beta_2**t) / (1 - beta_1**t)
            if mistake == "correction upside down":
                correction = 1 / correction
            if mistake == "always corrected" or (
                group["correct_bias"] and mistake != "no correction"
            ):
                size = lr * correction
            else:
                size = lr
            if mistake == "group's lr changed":
                group["lr"] = size
            size = {"lr twice": size * lr, "no lr": size / lr if lr else 0.0, "sign": -size}.get(
                mistake, size
            )
            step = size * m / ((v if mistake == "no root" else v.sqrt()) + group["eps"])
            parameter.sub_(step)
            rate = {
                "decay without lr": 1.0,
                "decay by the step size": size,
                "decay's sign": -lr,
                "no decay": 0.0,
                "decay in gradient": 0.0,
                "decay before": 0.0,
            }.get(mistake, lr)
            if not (mistake == "decay if corrected" and not group["correct_bias"]):
                parameter.sub_(
                    rate
                    * decay
                    * (parameter + step if mistake == "decay of the old" else parameter)
                )
            if mistake == "gradient changed":
                parameter.grad.mul_(2)

    return Written


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_right_optimizer_passes(check):
    check(written_adamw(""))


@pytest.mark.parametrize(
    ("mistake", "check", "hint"),
    [
        ("unwritten", check_first_step, "did not move"),
        ("sign", check_first_step, "goes up the gradient"),
        ("no correction", check_first_step, "is missing"),
        ("correction without root", check_first_step, "not 1 - beta_2"),
        ("correction upside down", check_first_step, "upside down"),
        ("t from 2", check_first_step, "t is 1 at the first step"),
        ("lr twice", check_first_step, "by lr twice"),
        ("no lr", check_first_step, "not multiplied by lr"),
        ("no root", check_first_step, "its square root"),
        ("m is g", check_first_step, "is that g itself"),
        ("gradient changed", check_first_step, "changed parameter.grad"),
        ("t stays", check_second_step, "right at step 1, wrong at step 2"),
        ("nothing stored", check_second_step, "right at step 1, wrong at step 2"),
        ("root stored", check_second_step, "v without its root"),
        ("group's lr changed", check_second_step, "lr stay as it is"),
        ("swapped betas", check_second_step, "swapped"),
        ("always corrected", check_without_correction, "not heeded"),
        ("swapped betas", check_without_correction, "swapped"),
        ("no decay", check_decay, "left out"),
        ("decay in gradient", check_decay, "added to the gradient"),
        ("decay before", check_decay, "before the step"),
        ("decay of the old", check_decay, "to the value from before it"),
        ("decay without lr", check_decay, "not multiplied by lr"),
        ("decay's sign", check_decay, "wrong sign"),
        ("decay by the step size", check_decay, "not by the bias-corrected step size"),
        ("decay if corrected", check_decay, "does not depend on correct_bias"),
        ("first lr", check_decay_follows_the_schedule, "use the current learning rate"),
    ],
)
def test_optimizer(mistake, check, hint):
    expect_hint(check, written_adamw(mistake), hint)


# --- the encoder ----------------------------------------------------------------------------------


class NoSegments(BertEmbeddings):
    """Feeds segment 0 everywhere."""

    def forward(self, input_ids, token_type_ids):
        return self.norm(
            self.word(input_ids) + self.segment(0 * token_type_ids) + self.position.weight[:2]
        )


class NoPositions(BertEmbeddings):
    """A bag of words."""

    def forward(self, input_ids, token_type_ids):
        return self.norm(self.word(input_ids) + self.segment(token_type_ids))


class NoNorm(BertEmbeddings):
    """The sum as it is."""

    def forward(self, input_ids, token_type_ids):
        return self.word(input_ids) + self.segment(token_type_ids) + self.position.weight[:2]


class OtherEps(BertEmbeddings):
    """torch's default eps."""

    def forward(self, input_ids, token_type_ids):
        return F.layer_norm(NoNorm.forward(self, input_ids, token_type_ids), (3,), eps=1e-5)


class TanhGelu(FeedForward):
    """The approximation of GPT-2."""

    def forward(self, hidden_states):
        return self.down(F.gelu(self.up(hidden_states), approximate="tanh"))


class GeluLast(FeedForward):
    """The activation after the second layer."""

    def forward(self, hidden_states):
        return F.gelu(self.down(self.up(hidden_states)))


class PreNorm(BertLayer):
    """The order of GPT-2: norm first, then the sum."""

    def forward(self, hidden_states, mask_bias):
        hidden_states = hidden_states + self.attention(
            self.attention_norm(hidden_states), mask_bias
        )
        return hidden_states + self.feed_forward(self.feed_forward_norm(hidden_states))


class AlwaysDrops(BertLayer):
    """F.dropout without `training`."""

    def forward(self, hidden_states, mask_bias):
        hidden_states = self.attention_norm(
            hidden_states + F.dropout(self.attention(hidden_states, mask_bias), 0.5)
        )
        return self.feed_forward_norm(hidden_states + self.feed_forward(hidden_states))


class InPlace(BertLayer):
    """The residual added into the argument."""

    def forward(self, hidden_states, mask_bias):
        hidden_states += self.attention(hidden_states, mask_bias)
        hidden_states = self.attention_norm(hidden_states)
        return self.feed_forward_norm(hidden_states + self.feed_forward(hidden_states))


class Nothing(FeedForward):
    """Not written yet."""

    def forward(self, hidden_states):
        return None


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
