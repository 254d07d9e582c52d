"""The checks of each function: a case that is drawn anew, and a judge of the answer.

A weak check could be passed without the formula, such as one that expects an error. It counts only
where the first check of its function has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from minbert.attention import MultiHeadAttention
from minbert.bert import BertEmbeddings, BertLayer, FeedForward
from teaching import judging, references
from teaching.judging import Case, Judge, Rng, equal_to, judge_scalar


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
    """A check whose cases are drawn with these options. One that expects an error is weak."""
    return Check(name, partial(draw, **options), judge, is_weak or bool(error), error)


# What most checks of a function share.
ATTENTION = partial(check, draw=judging.draw_attention, judge=equal_to(references.attention))
MASK = partial(check, draw=judging.draw_mask, judge=judging.judge_mask)
DRAW_HEADS = partial(judging.draw_module, build=MultiHeadAttention)
HEADS = partial(check, draw=DRAW_HEADS, judge=equal_to(references.multi_head))
STEPS = partial(check, draw=judging.draw_steps, judge=equal_to(references.adamw), num_steps=4)
DRAW_EMBEDDINGS = partial(judging.draw_module, build=BertEmbeddings)
EMBEDDINGS = partial(check, draw=DRAW_EMBEDDINGS, judge=equal_to(references.embeddings))
DRAW_FEED_FORWARD = partial(judging.draw_module, build=FeedForward)
FEED_FORWARD = partial(check, draw=DRAW_FEED_FORWARD, judge=equal_to(references.feed_forward))
DRAW_LAYER = partial(judging.draw_module, build=BertLayer)
LAYER = partial(check, draw=DRAW_LAYER, judge=equal_to(references.layer))
DROPPED = partial(LAYER, training=True, hidden_dropout_prob=0.5)
DROPPED_LAYER = judging.differs_from(references.layer)
TOKENS = partial(check, draw=judging.draw_tokens, judge=judging.judge_tokens)
DRAW_CLASSES = partial(judging.draw_loss, kind="classes")
SENTIMENT = partial(check, draw=DRAW_CLASSES, judge=judge_scalar(references.sentiment))
DRAW_PAIRS = partial(judging.draw_loss, kind="pairs")
PARAPHRASE = partial(check, draw=DRAW_PAIRS, judge=judge_scalar(references.paraphrase))
DRAW_SCORES = partial(judging.draw_loss, kind="scores")
SIMILARITY = partial(check, draw=DRAW_SCORES, judge=judge_scalar(references.similarity))
INFO_NCE = partial(check, draw=judging.draw_vectors, judge=equal_to(references.info_nce))
JOINT = partial(check, draw=judging.draw_plan, judge=judging.judge_joint, num_calls=3)
MT_DNN = partial(check, draw=judging.draw_plan, judge=judging.judge_mt_dnn, num_calls=1000)
PCGRAD = partial(check, draw=judging.draw_gramian, judge=judging.judge_pcgrad)

SCHEDULES = {}
for name in ("linear", "cosine"):
    schedule = partial(check, draw=judging.draw_schedule, judge=judging.judge_schedule(name))
    SCHEDULES[name] = [schedule("values"), schedule("corners", is_corner=True)]
REPEATED = check(
    "the generator alone",
    judging.draw_plan,
    judging.judge_repeated,
    is_weak=True,
    num_calls=2,
    is_reseeded=True,
)

CHECKS: dict[str, list[Check]] = {
    "attention": [
        ATTENTION("values"),
        ATTENTION("mask", is_masked=True),
        ATTENTION("a bias that is no mask", has_bias=True),
        ATTENTION("large scores", scale=60.0),
        ATTENTION("gradients", gradients_of=["query", "key", "value"]),
        check("dropout", judging.draw_dropped, judging.judge_dropped, training=True),
        ATTENTION("no dropout in evaluation", draw=judging.draw_dropped, training=False),
    ],
    "mask_to_bias": [MASK(dtype, dtype=dtype) for dtype in ("float32", "float64", "bfloat16")],
    "MultiHeadAttention.project": [HEADS("values", judge=equal_to(references.projections))],
    "MultiHeadAttention.forward": [
        HEADS("values"),
        HEADS("mask", is_masked=True),
        HEADS("gradients", gradients_of=["hidden"]),
        HEADS(
            "dropout",
            judge=judging.differs_from(references.multi_head),
            is_weak=True,
            training=True,
            attention_probs_dropout_prob=0.5,
        ),
        HEADS("no dropout in evaluation", attention_probs_dropout_prob=0.5),
        HEADS("no dropout with p = 0", training=True),
    ],
    "AdamW.update": [
        STEPS("first step", num_steps=1),
        STEPS("six steps", num_steps=6),
        STEPS("large eps", eps=0.5),
        STEPS("no bias correction", correct_bias=False),
        STEPS("decay", weight_decay=0.3),
        STEPS("decay without correction", weight_decay=0.3, correct_bias=False),
    ],
    "BertEmbeddings.forward": [
        EMBEDDINGS("values"),
        EMBEDDINGS("no segments", model_type="distilbert"),
        EMBEDDINGS("positions of RoBERTa", model_type="roberta", pad_token_id=1),
        EMBEDDINGS(
            "dropout",
            judge=judging.judge_dropped_embeddings,
            training=True,
            hidden_dropout_prob=0.5,
        ),
    ],
    "FeedForward.forward": [
        FEED_FORWARD("values"),
        FEED_FORWARD("other activation", hidden_act="relu"),
    ],
    "BertLayer.forward": [
        LAYER("values"),
        LAYER("mask", is_masked=True),
        LAYER("positions", has_positions=True),
        DROPPED(
            "dropout of attention", judge=DROPPED_LAYER, is_weak=True, zeros=["feed_forward.down"]
        ),
        DROPPED(
            "dropout of the network", judge=DROPPED_LAYER, is_weak=True, zeros=["attention.output"]
        ),
        # Where both give 0, nothing is left to drop.
        DROPPED("no dropout of a sum", zeros=["feed_forward.down", "attention.output"]),
    ],
    **SCHEDULES,
    "mask_tokens": [
        TOKENS("15 %", p=0.15),
        TOKENS("half", p=0.5),
        TOKENS("none", is_weak=True, p=0.0),
        TOKENS("all", p=1.0),
        TOKENS("whole words", judge=judging.judge_words, p=0.3, whole_words=True),
    ],
    "sentiment_loss": [
        SENTIMENT("values"),
        SENTIMENT(
            "half precision", judge=judge_scalar(references.sentiment, 2e-3), dtype="float16"
        ),
        SENTIMENT("large logits", scale=300.0),
        SENTIMENT("weights", is_weighted=True),
        SENTIMENT("gradients", dtype="float64", gradients_of=["logits"]),
    ],
    "paraphrase_loss": [
        PARAPHRASE("values"),
        PARAPHRASE("large logits", scale=300.0),
        PARAPHRASE("shift", shift=0.7),
        PARAPHRASE("shift down", shift=-0.7),
        PARAPHRASE("weights", is_weighted=True),
        PARAPHRASE("gradients", dtype="float64", gradients_of=["logit"]),
        PARAPHRASE("shapes", error="ValueError", is_column=True),
    ],
    "similarity_loss": [
        SIMILARITY("values"),
        SIMILARITY("half precision", dtype="float16"),
        SIMILARITY("gradients", dtype="float64", gradients_of=["prediction"]),
        SIMILARITY("shapes", error="ValueError", is_column=True),
    ],
    "info_nce": [
        INFO_NCE("values"),
        INFO_NCE("dot products", num_hard=1, similarity="dot"),
        INFO_NCE("hard negatives", num_hard=2),
        INFO_NCE("same", num_hard=1, same=True),
        INFO_NCE("gradients", num_hard=1, gradients_of=["anchors", "positives", "hard_negatives"]),
        INFO_NCE("a trained temperature", is_trained=True, gradients_of=["temperature"]),
        INFO_NCE("shapes", error="ValueError", num_positives=5),
        INFO_NCE("a temperature of 0", error="ValueError", temperature=0.0),
    ],
    "joint": [
        JOINT("largest"),
        JOINT("smallest", argument="smallest"),
        JOINT("another limit", error="ValueError", argument="median"),
        REPEATED,
    ],
    "mt_dnn": [
        MT_DNN("all batches"),
        MT_DNN("weights", argument={"sst": 2.3, "sts": 0.05}),
        REPEATED,
    ],
    "pcgrad_weights": [
        PCGRAD("three tasks", num_tasks=3, num_steps=300),
        PCGRAD("four tasks", num_tasks=4),
        check("never on itself", judging.draw_own_conflict, judging.judge_pcgrad),
        PCGRAD("two tasks", num_tasks=2),
        PCGRAD("mean", num_tasks=3, reduction="mean"),
        PCGRAD("the generator alone", num_tasks=4, num_steps=20, is_reseeded=True),
        PCGRAD("a zero gradient", num_tasks=3, is_zero=True),
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
