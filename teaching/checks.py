"""The checks of each function: a case that is drawn anew, and a judge of the answer.

A weak check could be passed without the formula, such as one that expects an error. It counts only
where the first check of its function has passed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from minbert.attention import MultiHeadAttention
from minbert.bert import BertEmbeddings, BertLayer, FeedForward
from teaching import calls, judging
from teaching.calls import Call, Values
from teaching.judging import Judge, Rng, equal, normal, outputs, uniform, whole


class Check(NamedTuple):
    """One check of a function."""

    name: str
    call: Call
    judge: Judge
    values: Values  # of its cases; those that can be called are drawn anew
    is_weak: bool = False
    error: str = ""  # the exception that is expected

    def draw(self, rng: Rng) -> Values:
        """Draw the values of a case."""
        values: Values = {"seed": int(rng.integers(2**31))}
        for name, value in self.values.items():
            values[name] = value(rng) if name != "build" and callable(value) else value
        return values


def check(
    name: str,
    call: Call = calls.call_plain,
    judge: Judge = equal,
    *,
    is_weak: bool = False,
    error: str = "",
    **values: Any,
) -> Check:
    """A check whose cases have these values. One that expects an error is weak."""
    return Check(name, call, judge, values, is_weak or bool(error), error)


def ending_with_0(rng: Rng) -> Any:
    """Gradients of four steps, the last of them 0: (4, 2, 4)."""
    return rng.standard_normal((4, 2, 4)) * np.array([1, 1, 1, 0])[:, None, None]


# What most checks of a function share.
HEADS_SHAPE = (2, 3, 5, 6)
DROPPED: Values = {"judge": judging.judge_dropped, "training": True, "draws": 1000}
ATTENTION = partial(
    check,
    query=normal(*HEADS_SHAPE),
    key=normal(*HEADS_SHAPE),
    value=normal(*HEADS_SHAPE),
    mask_bias=None,
    dropout_probability=0.0,
    training=False,
)
DROPPED_ATTENTION = partial(ATTENTION, dropout_probability=uniform(0.2, 0.35))
MASK = partial(check, judge=judging.judge_mask, attention_mask=judging.padding_mask)
MODULE = partial(check, call=calls.call_module)
WEIGHTS = "gradients of the weights"
HIDDEN = partial(MODULE, hidden_states=normal(2, 5, 8))
HEADS = partial(HIDDEN, build=MultiHeadAttention)
DROPPED_HEADS = partial(HEADS, config={"attention_probs_dropout_prob": 0.5})
STEPS = partial(check, call=calls.call_update, start=normal(2, 4), gradients=ending_with_0)
EMBEDDINGS = partial(
    MODULE, build=BertEmbeddings, input_ids=whole(30, 3, 7), token_type_ids=whole(2, 3, 7)
)
PROJECTED = {"model_type": "electra", "embedding_size": 4}
FEED_FORWARD = partial(HIDDEN, build=FeedForward)
LAYER = partial(HIDDEN, build=BertLayer, mask_bias=None)
SCHEDULE = partial(check, call=calls.call_schedule, judge=judging.judge_schedule)
TOKENS = partial(
    check, call=calls.call_mask_tokens, judge=judging.judge_tokens, input_ids=judging.draw_ids
)
LOSS = partial(check, judge=judging.judge_loss, cast_to=torch.float32)
SENTIMENT = partial(LOSS, logits=outputs(6, 5), labels=judging.draw_classes, cast=["logits"])
PARAPHRASE = partial(LOSS, logit=outputs(6), labels=judging.draw_pairs, cast=["logit"])
SIMILARITY = partial(LOSS, prediction=outputs(6), labels=uniform(0, 5, 6), cast=["prediction"])
INFO_NCE = partial(
    check, anchors=normal(6, 4), positives=normal(6, 4), temperature=uniform(0.2, 0.8)
)
HARD_NEGATIVES = partial(
    INFO_NCE, hard_negatives=normal(6, 4), hard_negative_weight=uniform(0.5, 2.0)
)
SAMPLER = partial(check, call=calls.call_sampler, num_rows=judging.draw_rows)
JOINT = partial(SAMPLER, judge=judging.judge_joint, num_calls=3)
MT_DNN = partial(SAMPLER, judge=judging.judge_mt_dnn, num_calls=1000)
REPEATED = SAMPLER(
    "the generator alone",
    judge=judging.judge_repeated,
    is_weak=True,
    num_calls=2,
    is_reseeded=True,
)
PCGRAD = partial(check, call=calls.call_pcgrad, judge=judging.judge_pcgrad)

CHECKS: dict[str, list[Check]] = {
    "attention": [
        ATTENTION("values"),
        ATTENTION("mask", mask_bias=judging.padding_bias),
        ATTENTION("a bias that is no mask", mask_bias=normal(2, 1, 1, 5)),
        ATTENTION(
            "large scores",
            query=normal(*HEADS_SHAPE, scale=60.0),
            key=normal(*HEADS_SHAPE, scale=60.0),
        ),
        ATTENTION("gradients", gradients_of=["query", "key", "value"]),
        DROPPED_ATTENTION("dropout", mask_bias=normal(2, 1, 1, 5), **DROPPED),
        DROPPED_ATTENTION("no dropout in evaluation"),
    ],
    "mask_to_bias": [
        MASK("float32", dtype=torch.float32),
        MASK("float64", dtype=torch.float64),
        MASK("bfloat16", dtype=torch.bfloat16),
        MASK("float16", dtype=torch.float16),
    ],
    "MultiHeadAttention.project": [
        HEADS("values"),
        HEADS(WEIGHTS, call=calls.call_for_gradients),
        DROPPED_HEADS("no dropout here", training=True),
    ],
    "MultiHeadAttention.forward": [
        HEADS("values"),
        HEADS("mask", mask_bias=judging.padding_bias),
        HEADS("gradients", gradients_of=["hidden_states"]),
        HEADS(
            WEIGHTS, call=calls.call_for_gradients, training=True, mask_bias=judging.padding_bias
        ),
        DROPPED_HEADS("dropout", **DROPPED),
        DROPPED_HEADS("no dropout in evaluation"),
        HEADS("no dropout with p = 0", training=True),
    ],
    "AdamW.update": [
        STEPS("first step", gradients=normal(1, 2, 4)),
        STEPS("six steps", gradients=normal(6, 2, 4)),
        STEPS("large eps", settings={"eps": 0.5}),
        STEPS("no bias correction", settings={"correct_bias": False}),
        STEPS("decay", settings={"weight_decay": 0.3}),
        STEPS("a second group", call=calls.call_in_a_second_group, settings={"weight_decay": 0.3}),
        STEPS("decay without correction", settings={"weight_decay": 0.3, "correct_bias": False}),
    ],
    "BertEmbeddings.forward": [
        EMBEDDINGS("values"),
        EMBEDDINGS("no segments", config={"model_type": "distilbert"}),
        EMBEDDINGS("positions of RoBERTa", config={"model_type": "roberta", "pad_token_id": 1}),
        EMBEDDINGS("a projection", config=PROJECTED),
        # Without padding, whose row may get a gradient or none.
        EMBEDDINGS(
            WEIGHTS,
            call=calls.call_for_gradients,
            input_ids=lambda rng: rng.integers(1, 30, (3, 7)),
        ),
        EMBEDDINGS("dropout", config={"hidden_dropout_prob": 0.5}, **DROPPED),
        EMBEDDINGS(
            "dropout before the projection",
            config={**PROJECTED, "hidden_dropout_prob": 0.5},
            **DROPPED,
        ),
    ],
    "FeedForward.forward": [
        FEED_FORWARD("values"),
        FEED_FORWARD("other activation", config={"hidden_act": "relu"}),
        FEED_FORWARD(WEIGHTS, call=calls.call_for_gradients, training=True),
    ],
    "BertLayer.forward": [
        LAYER("values"),
        LAYER("mask", mask_bias=judging.padding_bias),
        LAYER(
            "positions",
            positions=lambda rng: rng.permutation(10)[:3],
            mask_bias=judging.padding_bias,
        ),
        LAYER(
            WEIGHTS, call=calls.call_for_gradients, training=True, mask_bias=judging.padding_bias
        ),
        LAYER("dropout", config={"hidden_dropout_prob": 0.5}, **DROPPED),
    ],
    **dict.fromkeys(
        ("linear", "cosine"),
        [
            SCHEDULE("values", steps=judging.draw_steps),
            SCHEDULE("corners", steps=judging.draw_corners),
        ],
    ),
    "mask_tokens": [
        TOKENS("15 %", probability=0.15),
        TOKENS("half", probability=0.5),
        TOKENS("none", is_weak=True, probability=0.0),
        TOKENS("all", probability=1.0),
        TOKENS("whole words", probability=0.3, whole_words=True),
    ],
    "sentiment_loss": [
        SENTIMENT("values"),
        SENTIMENT("half precision", cast_to=torch.float16),
        SENTIMENT("labels of int64", labels=whole(5, 6)),
        SENTIMENT(
            "a label that is no class",
            call=calls.call_with_a_wrong_label,
            judge=judging.judge_refusal,
            is_weak=True,
            labels=lambda rng: rng.permutation([0.0, 1, 2, 3, 4, 5]),
        ),
        SENTIMENT("large logits", logits=outputs(6, 5, scale=300.0)),
        SENTIMENT("weights", weights=uniform(0.2, 3.0, 5), gradients_of=["logits"]),
        SENTIMENT("weights in half precision", weights=uniform(0.2, 3.0, 5), cast_to=torch.float16),
        SENTIMENT("gradients", cast_to=torch.float64, gradients_of=["logits"]),
    ],
    "paraphrase_loss": [
        PARAPHRASE("values"),
        PARAPHRASE("large logits", logit=outputs(6, scale=300.0)),
        PARAPHRASE("shift", shift=0.7),
        PARAPHRASE("shift down", shift=-0.7),
        PARAPHRASE("weights", weights=uniform(0.2, 3.0, 2), shift=0.7),
        PARAPHRASE("half precision", cast_to=torch.float16),
        PARAPHRASE("labels of int64", labels=whole(2, 6)),
        PARAPHRASE(
            "several labels",
            logit=outputs(6, 2),
            labels=uniform(0, 1, 6, 2),
            weights=uniform(0.2, 3.0, 2, 2),
            gradients_of=["logit"],
        ),
        PARAPHRASE("gradients", cast_to=torch.float64, gradients_of=["logit"]),
        # Their sum would have the shape of the labels.
        PARAPHRASE("shapes", error="ValueError", logit=outputs(1)),
    ],
    "similarity_loss": [
        SIMILARITY("values"),
        SIMILARITY("half precision", cast_to=torch.float16),
        SIMILARITY("gradients", cast_to=torch.float64, gradients_of=["prediction"]),
        SIMILARITY("shapes", error="ValueError", prediction=outputs(6, 1)),
    ],
    "info_nce": [
        INFO_NCE("values"),
        HARD_NEGATIVES("dot products", similarity="dot"),
        HARD_NEGATIVES("hard negatives", hard_negatives=normal(12, 4)),
        HARD_NEGATIVES(
            "same",
            hard_negatives=normal(12, 4),
            hard_negative_weight=uniform(-2.0, -0.5),
            same=lambda rng: judging.sometimes(rng) | np.eye(6, dtype=bool),
            same_hard=lambda rng: rng.random((6, 12)) < 0.3,
        ),
        # Row 0 has no other candidate than its positive, whose logit is -100.
        INFO_NCE(
            "left out",
            temperature=0.01,
            anchors=lambda rng: np.eye(2),
            positives=lambda rng: np.diag([-1.0, 1.0]),
            same=lambda rng: np.array([[False, True], [False, False]]),
        ),
        HARD_NEGATIVES("gradients", gradients_of=["anchors", "positives", "hard_negatives"]),
        HARD_NEGATIVES(
            "a trained temperature",
            temperature=uniform(0.2, 0.8, 1),
            gradients_of=["temperature"],
        ),
        INFO_NCE("shapes", error="ValueError", positives=normal(5, 4)),
        INFO_NCE("a temperature of 0", error="ValueError", temperature=0.0),
    ],
    "joint": [
        JOINT("largest"),
        JOINT("smallest", argument="smallest"),
        JOINT("another limit", error="ValueError", argument="median"),
        REPEATED,
        JOINT("no task", error="ValueError", num_rows={}),
        JOINT("a task without batches", error="ValueError", num_rows={"sst": 5, "para": 0}),
    ],
    "mt_dnn": [
        MT_DNN("all batches"),
        MT_DNN("weights", argument={"sst": 2.3, "sts": 0.05}),
        # Of 3, 6 and 2 batches: 4.5, 4.5 and 2.5.
        MT_DNN(
            "half a batch",
            num_calls=1,
            num_rows={"sst": 5, "para": 11, "sts": 4},
            argument={"sst": 1.5, "para": 0.75, "sts": 1.25},
        ),
        MT_DNN("a weight of another task", error="ValueError", argument={"qqp": 2.0}),
        REPEATED,
        MT_DNN("no task", error="ValueError", num_rows={}),
        MT_DNN("a task without batches", error="ValueError", num_rows={"sst": 5, "para": 0}),
    ],
    "pcgrad_weights": [
        PCGRAD("three tasks", gramian=judging.gramian(3), num_calls=1500),
        PCGRAD("four tasks", gramian=judging.gramian(4)),
        PCGRAD("never on itself", gramian=judging.conflict_with_itself, num_calls=60),
        PCGRAD("two tasks", gramian=judging.gramian(2)),
        PCGRAD("mean", gramian=judging.gramian(3), reduction="mean"),
        PCGRAD("the generator alone", gramian=judging.gramian(4), num_calls=20, is_reseeded=True),
        PCGRAD("a zero gradient", gramian=judging.gramian(3, is_zero=True)),
        PCGRAD(
            "float32",
            judge=judging.judge_dtype,
            is_weak=True,
            gramian=lambda rng: judging.gramian(3)(rng).astype(np.float32),
        ),
    ],
}


def trained_first(checks: list[Check]) -> list[Check]:
    """The check of gradients first, and the others weak, where there is one.

    The students' tests hold slow loops over plain numbers. A copy of one trains nothing.
    """
    gradients = [check for check in checks if check.name == "gradients"]
    if not gradients:
        return checks
    others = [check._replace(is_weak=True) for check in checks if check.name != "gradients"]
    return gradients + others


CHECKS = {name: trained_first(checks) for name, checks in CHECKS.items()}
