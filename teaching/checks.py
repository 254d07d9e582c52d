"""The checks of each function: a case that is drawn anew, and a judge of the answer.

A weak check could be passed without the formula, such as one that expects an error. It counts only
where the first check of its function has passed. The others of a formula ask for its gradients,
too: the students' tests hold slow loops over plain numbers, and a copy of one trains nothing.
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
from teaching.judging import (
    Judge,
    Rng,
    eighths,
    equal,
    fixed,
    heads,
    normal,
    outputs,
    uniform,
    whole,
)


class Check(NamedTuple):
    """One check of a function."""

    name: str
    call: Call
    judge: Judge
    values: Values  # of its cases; those that can be called are drawn anew
    is_weak: bool = False
    error: str = ""  # the exceptions that are expected

    def draw(self, rng: Rng) -> Values:
        """Draw the values of a case."""
        values: Values = {"seed": int(rng.integers(2**31))}
        for name, value in self.values.items():
            is_drawn = callable(value) and name not in ("build", "under")
            values[name] = value(rng) if is_drawn else value
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
DROPPED: Values = {
    "judge": judging.same_law(judging.dropped),
    "training": True,
    "draws": 1000,
    "is_weak": True,
    "gradients_of": (),
}
# Gradients in half precision are rounded, in one way or another.
HALF: Values = {"is_weak": True, "cast_to": torch.float16, "gradients_of": ()}
BFLOAT16: Values = {**HALF, "cast_to": torch.bfloat16}
ATTENTION = partial(
    check,
    query=normal(*HEADS_SHAPE),
    key=normal(*HEADS_SHAPE),
    value=normal(*HEADS_SHAPE),
    mask_bias=None,
    dropout_probability=0.0,
    training=False,
    gradients_of=("query", "key", "value"),
)
DROPPED_ATTENTION = partial(ATTENTION, dropout_probability=uniform(0.2, 0.35))
MASK = partial(
    check,
    call=calls.call_mask_to_bias,
    judge=judging.equal_to(1e-9),
    attention_mask=judging.padding_mask,
)
MODULE = partial(check, call=calls.call_module, gradients_of=("weights",))
HIDDEN = partial(MODULE, hidden_states=normal(2, 5, 8), gradients_of=("weights", "hidden_states"))
HEADS = partial(HIDDEN, build=MultiHeadAttention)
DROPPED_HEADS = partial(HEADS, config={"attention_probs_dropout_prob": 0.5})
# A factor may be rounded to float32.
STEPS = partial(
    check,
    call=calls.call_update,
    judge=judging.equal_to(1e-6),
    start=normal(2, 4),
    gradients=ending_with_0,
)
# Without padding, whose row may get a gradient or none.
EMBEDDINGS = partial(
    MODULE,
    build=BertEmbeddings,
    input_ids=lambda rng: rng.integers(1, 30, (3, 7)),
    token_type_ids=whole(2, 3, 7),
)
PROJECTED = {"model_type": "electra", "embedding_size": 4}
FEED_FORWARD = partial(HIDDEN, build=FeedForward)
LAYER = partial(HIDDEN, build=BertLayer, mask_bias=None)
SCHEDULE = partial(check, call=calls.call_schedule, judge=judging.judge_schedule)
TOKENS = partial(
    check,
    call=calls.call_mask_tokens,
    judge=judging.same_law(judging.masked),
    input_ids=judging.token_ids(range(5, 100)),
    vocab_size=100,
    num_calls=1000,
)
LOSS = partial(check, cast_to=torch.float32)
SENTIMENT = partial(
    LOSS,
    logits=outputs(6, 5),
    labels=judging.draw_classes,
    cast=["logits"],
    gradients_of=("logits",),
)
REFUSED_LABEL = partial(SENTIMENT, error="IndexError RuntimeError")
PARAPHRASE = partial(
    LOSS, logit=outputs(6), labels=judging.draw_pairs, cast=["logit"], gradients_of=("logit",)
)
SIMILARITY = partial(
    LOSS,
    prediction=outputs(6),
    labels=uniform(0, 5, 6),
    cast=["prediction"],
    gradients_of=("prediction",),
)
INFO_NCE = partial(
    check,
    anchors=normal(6, 4),
    positives=normal(6, 4),
    temperature=uniform(0.2, 0.8),
    gradients_of=("anchors", "positives"),
)
HARD_NEGATIVES = partial(
    INFO_NCE,
    hard_negatives=normal(6, 4),
    hard_negative_weight=uniform(0.5, 2.0),
    gradients_of=("anchors", "positives", "hard_negatives"),
)
LEFT_OUT = partial(
    INFO_NCE,
    is_weak=True,
    gradients_of=(),
    temperature=1e-4,
    anchors=fixed([[1.0, 0], [0, 1]]),
    positives=fixed([[-1.0, 0], [0, 1]]),
    same=fixed([[False, True], [False, False]]),
)
SAMPLER = partial(check, call=calls.call_sampler, num_rows=judging.draw_rows, num_calls=3)
JOINT = partial(SAMPLER, judge=judging.judge_joint)
MT_DNN = partial(SAMPLER, judge=judging.same_law(judging.shuffled), num_calls=1000)
PCGRAD = partial(check, call=calls.call_pcgrad, judge=judging.judge_pcgrad, num_calls=400)
REPEATED: Values = {
    "name": "the generator alone",
    "judge": judging.judge_repeated,
    "is_weak": True,
    "num_calls": 3,
    "is_reseeded": True,
}

CHECKS: dict[str, list[Check]] = {
    "attention": [
        ATTENTION("values"),
        ATTENTION("mask", mask_bias=judging.padding_bias),
        ATTENTION(
            "a bias that is no mask",
            mask_bias=normal(2, 1, 1, 5),
            gradients_of=("query", "key", "value", "mask_bias"),
        ),
        ATTENTION(
            "large scores",
            is_weak=True,
            query=normal(*HEADS_SHAPE, scale=60.0),
            key=normal(*HEADS_SHAPE, scale=60.0),
            mask_bias=judging.padding_bias,
        ),
        # A softmax in float32 rounds this bias.
        ATTENTION(
            "nothing but padding",
            judge=judging.equal_to(2e-3),
            mask_bias=fixed([[[[-3e4] * 5]]] * 2),
            gradients_of=(),
            is_weak=True,
        ),
        ATTENTION(
            "nothing but padding, in float32",
            mask_bias=fixed([[[[-3.4e38] * 5]]] * 2),
            cast=["query", "key", "value", "mask_bias"],
            cast_to=torch.float32,
            gradients_of=(),
            is_weak=True,
        ),
        ATTENTION(
            "other sizes",
            query=heads(3, 2, 9, 4),
            key=heads(3, 2, 9, 4),
            value=heads(3, 2, 9, 6),
            mask_bias=normal(3, 2, 9, 9),
        ),
        ATTENTION(
            "one of each",
            is_weak=True,
            query=normal(1, 1, 1, 7),
            key=normal(1, 1, 1, 7),
            value=normal(1, 1, 1, 7),
        ),
        ATTENTION("float32", cast=["query", "key", "value"], cast_to=torch.float32),
        ATTENTION(
            "bfloat16",
            judge=judging.equal_to(0.05),
            mask_bias=normal(2, 1, 1, 5),
            cast=["query", "key", "value", "mask_bias"],
            **BFLOAT16,
        ),
        ATTENTION("training without dropout", training=True),
        DROPPED_ATTENTION("dropout", mask_bias=normal(2, 1, 1, 5), **DROPPED),
        DROPPED_ATTENTION("dropout without a mask", **DROPPED),
        DROPPED_ATTENTION(
            "dropout of one token, without gradients",
            under=torch.no_grad,
            **DROPPED,
            **dict.fromkeys(("query", "key", "value"), normal(2, 3, 1, 6)),
        ),
        DROPPED_ATTENTION("no dropout in evaluation"),
    ],
    "mask_to_bias": [
        MASK("float32", dtype=torch.float32),
        MASK("no padding", is_weak=True, dtype=torch.float32, attention_mask=fixed([[1] * 6])),
        MASK("float64", dtype=torch.float64),
        MASK("bfloat16", dtype=torch.bfloat16),
        MASK("float16", dtype=torch.float16),
        MASK(
            "a mask of bool",
            dtype=torch.float32,
            attention_mask=lambda rng: judging.padding_mask(rng).astype(bool),
        ),
        MASK(
            "a mask of uint8",
            dtype=torch.float32,
            attention_mask=lambda rng: judging.padding_mask(rng).astype(np.uint8),
        ),
        MASK(
            "one row, a mask of float32",
            dtype=torch.float32,
            # With padding, or a mask of zeros would be right.
            attention_mask=lambda rng: rng.permutation([1, 1, 0, 1, 0, 1, 0, 1, 1])[None].astype(
                np.float32
            ),
        ),
    ],
    "MultiHeadAttention.project": [
        HEADS("values"),
        DROPPED_HEADS("no dropout here", training=True),
        HEADS("one row", hidden_states=normal(1, 9, 8)),
    ],
    "MultiHeadAttention.forward": [
        HEADS("values"),
        HEADS("mask", mask_bias=judging.padding_bias),
        HEADS("a bias for all rows", mask_bias=normal(1, 2, 1, 5)),
        HEADS(
            "other sizes",
            is_weak=True,
            config={"hidden_size": 12, "num_attention_heads": 4},
            hidden_states=normal(1, 9, 12),
            mask_bias=normal(1, 4, 9, 9),
        ),
        DROPPED_HEADS("dropout", **DROPPED),
        DROPPED_HEADS("no dropout in evaluation"),
        HEADS("no dropout with p = 0", training=True, mask_bias=judging.padding_bias),
    ],
    "AdamW.update": [
        STEPS("first step", gradients=normal(1, 2, 4)),
        STEPS("six steps", gradients=normal(6, 2, 4)),
        STEPS("large gradients", gradients=normal(6, 2, 4, scale=1e3)),
        STEPS(
            "many steps of transposed matrices",
            start=lambda rng: rng.standard_normal((2, 3, 2)).swapaxes(1, 2),
            gradients=normal(1100, 2, 2, 3),
            settings={"betas": (0.9, 0.999), "weight_decay": 0.01},
        ),
        STEPS("one number", start=normal(2), gradients=normal(4, 2)),
        STEPS("no first moment", settings={"betas": (0.0, 0.9)}),
        STEPS("large eps", settings={"eps": 0.5}),
        STEPS("no bias correction", settings={"correct_bias": False}),
        STEPS("decay", settings={"weight_decay": 0.3}),
        STEPS(
            "a second group",
            settings={"weight_decay": 0.3},
            of_others={"lr": 2.0, "betas": (0.1, 0.2), "eps": 3.0, "weight_decay": 0.0},
        ),
        STEPS("decay without correction", settings={"weight_decay": 0.3, "correct_bias": False}),
    ],
    "BertEmbeddings.forward": [
        EMBEDDINGS("values"),
        EMBEDDINGS("three segments", config={"type_vocab_size": 3}, token_type_ids=whole(3, 3, 7)),
        EMBEDDINGS("single sentences", token_type_ids=fixed([[0] * 7] * 3)),
        EMBEDDINGS(
            "no segments, one row",
            config={"model_type": "distilbert"},
            input_ids=lambda rng: rng.integers(1, 30, (1, 9)),
            token_type_ids=whole(2, 1, 9),
        ),
        EMBEDDINGS(
            "positions of RoBERTa",
            is_weak=True,
            gradients_of=(),
            config={"model_type": "roberta", "pad_token_id": 1},
            input_ids=whole(3, 3, 9),
            token_type_ids=whole(2, 3, 9),
        ),
        EMBEDDINGS("a projection", config=PROJECTED),
        EMBEDDINGS("padding", is_weak=True, input_ids=whole(3, 3, 7), gradients_of=()),
        EMBEDDINGS("dropout", config={"hidden_dropout_prob": 0.5}, **DROPPED),
        EMBEDDINGS("no dropout in evaluation", config={"hidden_dropout_prob": 0.5}),
        EMBEDDINGS(
            "dropout before the projection",
            config={**PROJECTED, "hidden_dropout_prob": 0.5},
            **DROPPED,
        ),
    ],
    "FeedForward.forward": [
        FEED_FORWARD("values"),
        FEED_FORWARD("large numbers", is_weak=True, hidden_states=normal(1, 9, 8, scale=30.0)),
        FEED_FORWARD(
            "other activation", is_weak=True, training=True, config={"hidden_act": "relu"}
        ),
    ],
    "BertLayer.forward": [
        LAYER("values"),
        LAYER("mask", mask_bias=judging.padding_bias),
        LAYER(
            "positions",
            positions=lambda rng: rng.permutation(10)[[2, 0, 1, 2]],
            mask_bias=judging.padding_bias,
        ),
        LAYER("the first token alone", positions=fixed([0])),
        LAYER("no dropout in evaluation", config={"hidden_dropout_prob": 0.5}),
        LAYER("training without dropout", training=True, mask_bias=judging.padding_bias),
        LAYER("dropout", config={"hidden_dropout_prob": 0.5}, **DROPPED),
        LAYER(
            "dropout of some tokens",
            config={"hidden_dropout_prob": 0.5},
            # A tensor is not repeated: tokens 2 and 7 of the ten of each draw.
            positions=lambda rng: (
                10 * torch.arange(1000)[:, None] + torch.tensor([2, 7])
            ).flatten(),
            **DROPPED,
        ),
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
        TOKENS("small ids", probability=0.5, input_ids=judging.token_ids(range(5, 10))),
        TOKENS("none", is_weak=True, probability=0.0),
        TOKENS("all", probability=1.0),
        TOKENS(
            "a vocabulary of five",
            num_calls=2000,
            probability=1.0,
            vocab_size=5,
            input_ids=judging.token_ids([0, 1, 4]),
        ),
        TOKENS("whole words", probability=0.3, whole_words=True),
        TOKENS("all words", probability=1.0, whole_words=True),
        TOKENS("pieces that open a row", probability=0.5, whole_words=True, first_piece=0),
        TOKENS(probability=0.5, **REPEATED),
        TOKENS(
            "special tokens in words",
            probability=0.3,
            whole_words=True,
            first_piece=1,
            input_ids=judging.token_ids(range(5, 100), share_of_special=0.1),
        ),
    ],
    "sentiment_loss": [
        SENTIMENT("values"),
        SENTIMENT("half precision", **HALF),
        SENTIMENT("bfloat16", logits=eighths(6, 5), **BFLOAT16),
        SENTIMENT("labels of int64", labels=whole(5, 6)),
        SENTIMENT("labels of int32", labels=lambda rng: rng.integers(0, 5, 6).astype(np.int32)),
        REFUSED_LABEL("the label 5", labels=lambda rng: rng.permutation([0.0, 1, 2, 3, 4, 5])),
        REFUSED_LABEL("the label -1", labels=lambda rng: rng.permutation([0.0, 1, 2, 3, 4, -1])),
        REFUSED_LABEL(
            "the label -1, with weights",
            labels=lambda rng: rng.permutation([0.0, 1, 2, 3, 4, -1]),
            weights=uniform(0.2, 3.0, 5),
        ),
        SENTIMENT(
            "a class without weight",
            labels=lambda rng: rng.permutation([0.0, 1, 2, 3, 4, 0]),
            weights=lambda rng: np.array([0, *rng.uniform(0.2, 3.0, 4)], dtype=np.float32),
        ),
        SENTIMENT("large logits", is_weak=True, logits=outputs(6, 5, scale=300.0)),
        SENTIMENT("weights", weights=uniform(0.2, 3.0, 5)),
        SENTIMENT("weights in half precision", weights=uniform(0.2, 3.0, 5), **HALF),
        SENTIMENT("float64", cast_to=torch.float64),
    ],
    "paraphrase_loss": [
        PARAPHRASE("values"),
        PARAPHRASE("logits of 0", is_weak=True, logit=fixed([0.0] * 6)),
        PARAPHRASE("large logits", is_weak=True, logit=outputs(6, scale=300.0)),
        PARAPHRASE("shift", shift=1.7),
        PARAPHRASE("shift down", shift=-1.7),
        PARAPHRASE("bfloat16", shift=0.7, logit=eighths(6), **BFLOAT16),
        PARAPHRASE("a class without weight", weights=fixed([0, 2], np.float32)),
        PARAPHRASE("weights", weights=uniform(0.2, 3.0, 2), shift=0.7),
        PARAPHRASE("half precision", **HALF),
        PARAPHRASE("labels of int64", labels=whole(2, 6), shift=0.7),
        PARAPHRASE("labels of uint8", labels=lambda rng: rng.integers(0, 2, 6).astype(np.uint8)),
        PARAPHRASE("one pair", logit=outputs(1), labels=fixed([0.25], np.float32), shift=0.7),
        PARAPHRASE(
            "several labels",
            logit=outputs(6, 2),
            labels=lambda rng: rng.integers(0, 3, (6, 2)).astype(np.float32) / 2,
            shift=0.7,
            weights=uniform(0.2, 3.0, 2, 2),
        ),
        PARAPHRASE("float64", shift=0.7, cast_to=torch.float64),
        # Their sum would have the shape of the labels.
        PARAPHRASE("shapes", error="ValueError", logit=outputs(1)),
        PARAPHRASE(
            "one column", error="ValueError", logit=outputs(6, 1), labels=uniform(0, 1, 6, 2)
        ),
    ],
    "similarity_loss": [
        SIMILARITY("values"),
        SIMILARITY("half precision", **HALF),
        SIMILARITY("far off", prediction=outputs(6, scale=300.0)),
        SIMILARITY("bfloat16", prediction=eighths(6), **BFLOAT16),
        SIMILARITY("float64", cast_to=torch.float64),
        SIMILARITY("labels of int64", labels=whole(6, 6)),
        SIMILARITY("labels of float64", labels=lambda rng: rng.uniform(0, 5, 6)),
        SIMILARITY("shapes", error="ValueError", prediction=outputs(6, 1)),
        SIMILARITY("one prediction", error="ValueError", prediction=outputs(1)),
    ],
    "info_nce": [
        INFO_NCE("values"),
        INFO_NCE(
            "bfloat16",
            anchors=eighths(6, 4),
            positives=eighths(6, 4),
            cast=["anchors", "positives"],
            **BFLOAT16,
        ),
        HARD_NEGATIVES("dot products", similarity="dot", same_hard=judging.sometimes),
        HARD_NEGATIVES("hard negatives", hard_negatives=normal(12, 4)),
        HARD_NEGATIVES(
            "same",
            hard_negatives=normal(12, 4),
            hard_negative_weight=uniform(-2.0, -0.5),
            same=lambda rng: judging.sometimes(rng) | np.eye(6, dtype=bool),
            same_hard=lambda rng: rng.random((6, 12)) < 0.3,
        ),
        HARD_NEGATIVES("same alone", same=judging.sometimes),
        HARD_NEGATIVES(
            "one anchor",
            anchors=normal(1, 4),
            positives=normal(1, 4),
            hard_negatives=normal(2, 4),
        ),
        HARD_NEGATIVES(
            "bfloat16, hard negatives",
            **dict.fromkeys(("anchors", "positives", "hard_negatives"), eighths(6, 4)),
            cast=["anchors", "positives", "hard_negatives"],
            **BFLOAT16,
        ),
        INFO_NCE(
            "a row without other candidates",
            same=lambda rng: judging.sometimes(rng) | (np.arange(6) == rng.integers(6))[:, None],
        ),
        INFO_NCE(
            "equal vectors",
            is_weak=True,
            anchors=fixed([[1.0, 2, 3]] * 6),
            positives=fixed([[3.0, 1, 2]] * 6),
        ),
        INFO_NCE(
            "a vector of zeros",
            anchors=lambda rng: rng.standard_normal((6, 4)) * (np.arange(6) > 0)[:, None],
            gradients_of=(),
        ),
        INFO_NCE("a temperature near 0", is_weak=True, temperature=1e-3),
        INFO_NCE("a tensor near 0 as temperature", is_weak=True, temperature=fixed(0.004)),
        HARD_NEGATIVES(
            "autocast",
            under=partial(torch.autocast, "cpu", dtype=torch.bfloat16),
            cast=["anchors", "positives", "hard_negatives"],
            cast_to=torch.float32,
        ),
        # Row 0 has no other candidate than its positive, whose logit is -10,000.
        LEFT_OUT("left out"),
        LEFT_OUT(
            "hard ones left out",
            hard_negatives=fixed([[1.0, 0], [0, 1]]),
            same_hard=fixed([[True] * 2] * 2),
        ),
        HARD_NEGATIVES(
            "a trained temperature",
            temperature=lambda rng: np.array(rng.uniform(0.2, 0.8)),
            same=judging.sometimes,
            same_hard=judging.sometimes,
            gradients_of=("temperature",),
        ),
        INFO_NCE("shapes", error="ValueError", positives=normal(5, 4)),
        INFO_NCE("more positives", error="ValueError", positives=normal(7, 4)),
        INFO_NCE("shapes of hard negatives", error="ValueError", hard_negatives=normal(7, 4)),
        INFO_NCE("other hard negatives", error="ValueError", hard_negatives=normal(6, 3)),
        INFO_NCE("a similarity of another name", error="ValueError", similarity="cosine"),
        INFO_NCE("a temperature of 0", error="ValueError", temperature=0.0),
        INFO_NCE("a tensor of 0 as temperature", error="ValueError", temperature=fixed(0.0)),
        INFO_NCE("a temperature below 0", error="ValueError", temperature=-0.5),
        INFO_NCE("an infinite temperature", error="ValueError", temperature=np.inf),
    ],
    "joint": [
        JOINT("largest"),
        JOINT("smallest", is_weak=True, argument="smallest"),
        JOINT("one task", is_weak=True, num_rows={"sts": 7}),
        JOINT("batches of other sizes", num_rows={"para": 11, "sts": 9}, batch_sizes={"para": 8}),
        JOINT("passes of several lengths", later_growth=1),
        JOINT("another limit", error="ValueError", argument="median"),
        JOINT("a limit in other letters", error="ValueError", argument="Largest"),
        SAMPLER(**REPEATED),
        JOINT("no task", error="ValueError", num_rows={}),
        JOINT("a task without batches", error="ValueError", num_rows={"sst": 5, "para": 0}),
        JOINT(
            "smallest, a task without batches",
            error="ValueError",
            argument="smallest",
            num_rows={"sst": 5, "para": 0},
        ),
    ],
    "mt_dnn": [
        MT_DNN("all batches", num_calls=4000),
        MT_DNN("weights", argument={"sst": 2.3, "sts": 0.05}),
        MT_DNN("one task", is_weak=True, num_rows={"sts": 7}),
        MT_DNN("no pass", is_weak=True, argument={"para": 0.0}),
        # Of 3, 6 and 2 batches: 4.5, 4.5 and 2.5.
        MT_DNN(
            "half a batch",
            num_rows={"sst": 5, "para": 11, "sts": 4},
            argument={"sst": 1.5, "para": 0.75, "sts": 1.25},
        ),
        MT_DNN("a weight of another task", error="ValueError", argument={"qqp": 2.0}),
        SAMPLER(**REPEATED),
        MT_DNN("no task", error="ValueError", num_rows={}),
        MT_DNN("a task without batches", error="ValueError", num_rows={"sst": 5, "para": 0}),
    ],
    "pcgrad_weights": [
        PCGRAD("three tasks", gramian=judging.gramian(3), num_calls=1500),
        PCGRAD("four tasks", gramian=judging.gramian(4)),
        # The third conflicts with all others, and each of its six orders counts. The others
        # conflict with it alone, also once they are projected.
        PCGRAD(
            "one against three",
            gramian=judging.of_gradients([-2, -1, -2], [-1, 0, -2], [-1, 2, 2], [-1, -2, 0]),
        ),
        # The first one, once it is projected, may point against what it was.
        PCGRAD("never on itself", gramian=judging.of_gradients([-2, -2], [0, 1], [2, 1])),
        PCGRAD("two tasks", is_weak=True, gramian=judging.gramian(2)),
        PCGRAD("one task", is_weak=True, gramian=fixed([[2.5]])),
        PCGRAD("mean", gramian=judging.gramian(4), reduction="mean"),
        PCGRAD(
            "another reduction",
            error="ValueError",
            gramian=fixed([[1.0, 0], [0, 1]]),
            reduction="avg",
        ),
        PCGRAD("short gradients", gramian=lambda rng: 1e-18 * judging.gramian(3)(rng)),
        PCGRAD("without a generator", gramian=judging.gramian(4), is_global=True),
        PCGRAD(gramian=judging.gramian(4), **REPEATED),
        PCGRAD("a zero gradient", is_weak=True, gramian=judging.gramian(3, is_zero=True)),
        PCGRAD(
            "a square that is rounded to 0",
            gramian=lambda rng: judging.gramian(3)(rng) * (1 - np.diag([1, 0, 0])),
        ),
        PCGRAD(
            "float32",
            judge=judging.judge_dtype,
            is_weak=True,
            gramian=lambda rng: judging.gramian(3)(rng).astype(np.float32),
        ),
    ],
}
