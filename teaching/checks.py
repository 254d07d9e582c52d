"""The checks of each function: a case that is drawn anew, and a judge of the answer.

A weak check could be passed without the formula, such as one that expects an error. It counts only
where the first check of its function has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from teaching import references
from teaching.judging import (
    Case,
    Judge,
    Rng,
    differs_from,
    draw_attention,
    draw_bad_vectors,
    draw_dropped,
    draw_gramian,
    draw_loss,
    draw_mask,
    draw_module,
    draw_own_conflict,
    draw_plan,
    draw_schedule,
    draw_steps,
    draw_tokens,
    draw_unequal,
    draw_vectors,
    equal_to,
    expects_error,
    gradients_of,
    judge_dropped,
    judge_dropped_embeddings,
    judge_joint,
    judge_mask,
    judge_mt_dnn,
    judge_pcgrad,
    judge_projections,
    judge_repeated,
    judge_same_steps,
    judge_scalar,
    judge_schedule,
    judge_tokens,
    judge_words,
)


class Check(NamedTuple):
    """One check of a function."""

    name: str
    draw: Callable[[Rng], Case]
    judge: Judge
    is_weak: bool = False
    error: str = ""  # the exception that is expected


def check(
    name: str,
    draw: Callable[..., Case],
    judge: Judge,
    *,
    is_weak: bool = False,
    error: str = "",
    **options: Any,
) -> Check:
    """A check whose cases are drawn with these options."""
    return Check(name, partial(draw, **options), judge, is_weak, error)


# The judges and draws of several checks.
SAME_ATTENTION = equal_to(references.attention)
SAME_HEADS = equal_to(references.multi_head)
SAME_STEPS = equal_to(references.adamw)
SAME_EMBEDDINGS = equal_to(references.embeddings)
SAME_FEED_FORWARD = equal_to(references.feed_forward)
SAME_LAYER = equal_to(references.layer)
SAME_INFO_NCE = equal_to(references.info_nce)
SAME_SENTIMENT = judge_scalar(references.sentiment)
SAME_PARAPHRASE = judge_scalar(references.paraphrase)

DRAW_HEADS = partial(draw_module, module="heads")
DRAW_EMBEDDINGS = partial(draw_module, module="embeddings")
DRAW_FEED_FORWARD = partial(draw_module, module="feed forward")
DRAW_LAYER = partial(draw_module, module="layer")
DRAW_DROPPED = partial(DRAW_LAYER, training=True, hidden_dropout_prob=0.5)
DROPPED_LAYER = differs_from(references.layer)
OUT = "attention.output"
DOWN = "feed_forward.down"

CHECKS: dict[str, list[Check]] = {
    "attention": [
        check("values", draw_attention, SAME_ATTENTION),
        check("mask", draw_attention, SAME_ATTENTION, is_masked=True),
        check("a bias that is no mask", draw_attention, SAME_ATTENTION, has_bias=True),
        check("large scores", draw_attention, SAME_ATTENTION, scale=60.0),
        check(
            "gradients",
            draw_attention,
            gradients_of(references.attention),
            gradients_of=["query", "key", "value"],
        ),
        check("dropout", draw_dropped, judge_dropped, training=True),
        check("no dropout in evaluation", draw_dropped, SAME_ATTENTION, training=False),
    ],
    "mask_to_bias": [
        check(dtype, draw_mask, judge_mask, dtype=dtype)
        for dtype in ("float32", "float64", "bfloat16")
    ],
    "MultiHeadAttention.project": [
        check("values", DRAW_HEADS, judge_projections),
    ],
    "MultiHeadAttention.forward": [
        check("values", DRAW_HEADS, SAME_HEADS),
        check("mask", DRAW_HEADS, SAME_HEADS, is_masked=True),
        check(
            "gradients", DRAW_HEADS, gradients_of(references.multi_head), gradients_of=["hidden"]
        ),
        check(
            "dropout",
            DRAW_HEADS,
            differs_from(references.multi_head),
            is_weak=True,
            training=True,
            attention_probs_dropout_prob=0.5,
        ),
        check("no dropout in evaluation", DRAW_HEADS, SAME_HEADS, attention_probs_dropout_prob=0.5),
        check(
            "no dropout with p = 0",
            DRAW_HEADS,
            SAME_HEADS,
            training=True,
            attention_probs_dropout_prob=0.0,
        ),
    ],
    "AdamW.update": [
        check("first step", draw_steps, SAME_STEPS, num_steps=1),
        check("six steps", draw_steps, SAME_STEPS, num_steps=6),
        check("large eps", draw_steps, SAME_STEPS, num_steps=4, eps=0.5),
        check("no bias correction", draw_steps, SAME_STEPS, num_steps=4, correct_bias=False),
        check("decay", draw_steps, SAME_STEPS, num_steps=4, weight_decay=0.3),
        check(
            "decay without correction",
            draw_steps,
            SAME_STEPS,
            num_steps=4,
            weight_decay=0.3,
            correct_bias=False,
        ),
    ],
    "BertEmbeddings.forward": [
        check("values", DRAW_EMBEDDINGS, SAME_EMBEDDINGS),
        check("no segments", DRAW_EMBEDDINGS, SAME_EMBEDDINGS, model_type="distilbert"),
        check(
            "positions of RoBERTa",
            DRAW_EMBEDDINGS,
            SAME_EMBEDDINGS,
            model_type="roberta",
            pad_token_id=1,
        ),
        check(
            "dropout",
            DRAW_EMBEDDINGS,
            judge_dropped_embeddings,
            training=True,
            hidden_dropout_prob=0.5,
        ),
    ],
    "FeedForward.forward": [
        check("values", DRAW_FEED_FORWARD, SAME_FEED_FORWARD),
        check("other activation", DRAW_FEED_FORWARD, SAME_FEED_FORWARD, hidden_act="relu"),
    ],
    "BertLayer.forward": [
        check("values", DRAW_LAYER, SAME_LAYER),
        check("mask", DRAW_LAYER, SAME_LAYER, is_masked=True),
        check("positions", DRAW_LAYER, SAME_LAYER, has_positions=True),
        check("dropout of attention", DRAW_DROPPED, DROPPED_LAYER, is_weak=True, zeros=[DOWN]),
        check("dropout of the network", DRAW_DROPPED, DROPPED_LAYER, is_weak=True, zeros=[OUT]),
        # Where both give 0, nothing is left to drop.
        check("no dropout of a sum", DRAW_DROPPED, SAME_LAYER, zeros=[DOWN, OUT]),
    ],
    "linear": [
        check("values", draw_schedule, judge_schedule("linear")),
        check("corners", draw_schedule, judge_schedule("linear"), is_corner=True),
    ],
    "cosine": [
        check("values", draw_schedule, judge_schedule("cosine")),
        check("corners", draw_schedule, judge_schedule("cosine"), is_corner=True),
    ],
    "mask_tokens": [
        check("15 %", draw_tokens, judge_tokens, p=0.15),
        check("half", draw_tokens, judge_tokens, p=0.5),
        check("none", draw_tokens, judge_tokens, is_weak=True, p=0.0),
        check("all", draw_tokens, judge_tokens, p=1.0),
        check("whole words", draw_tokens, judge_words, p=0.3, whole_words=True),
    ],
    "sentiment_loss": [
        check("values", draw_loss, SAME_SENTIMENT, kind="classes"),
        check(
            "half precision",
            draw_loss,
            judge_scalar(references.sentiment, 2e-3),
            kind="classes",
            dtype="float16",
        ),
        check("large logits", draw_loss, SAME_SENTIMENT, kind="classes", scale=300.0),
        check("weights", draw_loss, SAME_SENTIMENT, kind="classes", is_weighted=True),
        check(
            "gradients",
            draw_loss,
            gradients_of(references.sentiment),
            kind="classes",
            dtype="float64",
            gradients_of=["logits"],
        ),
    ],
    "paraphrase_loss": [
        check("values", draw_loss, SAME_PARAPHRASE, kind="pairs"),
        check("large logits", draw_loss, SAME_PARAPHRASE, kind="pairs", scale=300.0),
        check("shift", draw_loss, SAME_PARAPHRASE, kind="pairs", shift=0.7),
        check("weights", draw_loss, SAME_PARAPHRASE, kind="pairs", is_weighted=True),
        check(
            "gradients",
            draw_loss,
            gradients_of(references.paraphrase),
            kind="pairs",
            dtype="float64",
            gradients_of=["logit"],
        ),
        check(
            "shapes", draw_unequal, expects_error, is_weak=True, error="ValueError", kind="pairs"
        ),
    ],
    "similarity_loss": [
        check("values", draw_loss, judge_scalar(references.similarity), kind="scores"),
        check(
            "half precision",
            draw_loss,
            judge_scalar(references.similarity),
            kind="scores",
            dtype="float16",
        ),
        check(
            "gradients",
            draw_loss,
            gradients_of(references.similarity),
            kind="scores",
            dtype="float64",
            gradients_of=["prediction"],
        ),
        check(
            "shapes", draw_unequal, expects_error, is_weak=True, error="ValueError", kind="scores"
        ),
    ],
    "info_nce": [
        check("values", draw_vectors, SAME_INFO_NCE),
        check("dot products", draw_vectors, SAME_INFO_NCE, num_hard=1, similarity="dot"),
        check("hard negatives", draw_vectors, SAME_INFO_NCE, num_hard=2),
        check("same", draw_vectors, SAME_INFO_NCE, num_hard=1, same=True),
        check(
            "gradients",
            draw_vectors,
            gradients_of(references.info_nce),
            num_hard=1,
            gradients_of=["anchors", "positives", "hard_negatives"],
        ),
        check(
            "a trained temperature",
            draw_vectors,
            gradients_of(references.info_nce),
            is_trained=True,
            gradients_of=["temperature"],
        ),
        check("shapes", draw_bad_vectors, expects_error, is_weak=True, error="ValueError"),
        check(
            "a temperature of 0",
            draw_vectors,
            expects_error,
            is_weak=True,
            error="ValueError",
            temperature=0.0,
        ),
    ],
    "joint": [
        check("largest", draw_plan, judge_joint, num_calls=3),
        check("smallest", draw_plan, judge_joint, num_calls=3, argument="smallest"),
        check(
            "another limit",
            draw_plan,
            expects_error,
            is_weak=True,
            error="ValueError",
            argument="median",
        ),
        check(
            "the generator alone",
            draw_plan,
            judge_repeated,
            is_weak=True,
            num_calls=2,
            is_reseeded=True,
        ),
    ],
    "mt_dnn": [
        check("all batches", draw_plan, judge_mt_dnn, num_calls=1000),
        check(
            "weights",
            draw_plan,
            judge_mt_dnn,
            num_calls=1000,
            argument={"sst": 2.3, "sts": 0.05},
        ),
        check(
            "the generator alone",
            draw_plan,
            judge_repeated,
            is_weak=True,
            num_calls=2,
            is_reseeded=True,
        ),
    ],
    "pcgrad_weights": [
        check("three tasks", draw_gramian, judge_pcgrad, num_tasks=3, num_steps=300),
        check("four tasks", draw_gramian, judge_pcgrad, num_tasks=4),
        check("never on itself", draw_own_conflict, judge_pcgrad),
        check("two tasks", draw_gramian, judge_pcgrad, num_tasks=2),
        check("mean", draw_gramian, judge_pcgrad, num_tasks=3, reduction="mean"),
        check(
            "the generator alone",
            draw_gramian,
            judge_same_steps,
            num_tasks=4,
            num_steps=20,
            is_reseeded=True,
        ),
        check("a zero gradient", draw_gramian, judge_pcgrad, num_tasks=3, is_zero=True),
    ],
}
