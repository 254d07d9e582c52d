"""The formulas of the exercises in numpy, to judge answers with. No other code of ours is used.

A formula takes the inputs and the options of a case (judging.py).

B batch, T tokens, H hidden, N heads, D head size, K tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, log_softmax, softmax

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Settings = Mapping[str, Any]


def attention(inputs: Arrays, options: Settings) -> Array:
    """softmax(Q K^T / sqrt(D) + bias) V, for query, key and value (B, N, T, D)."""
    query = inputs["query"]
    scores = query @ inputs["key"].swapaxes(-2, -1) / math.sqrt(query.shape[-1])
    return softmax(scores + inputs.get("mask_bias", 0.0), axis=-1) @ inputs["value"]


def linear(inputs: Arrays, name: str, hidden: Array) -> Array:
    """x W^T + b with the weights of a module's part."""
    return hidden @ inputs[f"weights.{name}.weight"].T + inputs[f"weights.{name}.bias"]


def norm(inputs: Arrays, options: Settings, name: str, hidden: Array) -> Array:
    """LayerNorm over the last dimension."""
    centred = hidden - hidden.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    scaled = centred / np.sqrt(variance + options["config"]["layer_norm_eps"])
    return scaled * inputs[f"weights.{name}.weight"] + inputs[f"weights.{name}.bias"]


def projections(inputs: Arrays, options: Settings) -> Array:
    """Query, key and value, (3, B, T, H)."""
    names = ("query", "key", "value")
    return np.stack([linear(inputs, name, inputs["hidden"]) for name in names])


def multi_head(inputs: Arrays, options: Settings, prefix: str = "") -> Array:
    """Multi-head attention: (B, T, H) -> (B, T, H)."""
    hidden = inputs["hidden"]
    heads = {}
    for name in ("query", "key", "value"):
        projected = linear(inputs, prefix + name, hidden)
        split = projected.reshape(*hidden.shape[:2], options["config"]["num_attention_heads"], -1)
        heads[name] = split.transpose(0, 2, 1, 3)
    if "mask_bias" in inputs:
        heads["mask_bias"] = inputs["mask_bias"]
    context = attention(heads, options).transpose(0, 2, 1, 3)
    return linear(inputs, prefix + "output", context.reshape(hidden.shape))


def feed_forward(inputs: Arrays, options: Settings, prefix: str = "") -> Array:
    """down(activation(up(x))), with GELU in the erf form, or ReLU."""
    values = linear(inputs, f"{prefix}up", inputs["hidden"])
    if options["config"].get("hidden_act") == "relu":
        activated = np.maximum(values, 0)
    else:
        activated = values * 0.5 * (1 + erf(values / math.sqrt(2)))
    return linear(inputs, f"{prefix}down", activated)


def embeddings(inputs: Arrays, options: Settings) -> Array:
    """Words, positions and segments, added and normalised."""
    ids = inputs["ids"]
    family = options["config"].get("model_type", "bert")
    total = inputs["weights.word.weight"][ids]
    if family != "distilbert":
        total = total + inputs["weights.segment.weight"][inputs["segments"]]
    rows = np.arange(ids.shape[1])
    if family == "roberta":
        # Tokens are counted from the row behind padding's own.
        padding = options["config"]["pad_token_id"]
        rows = (ids != padding).cumsum(axis=1) * (ids != padding) + padding
    return norm(inputs, options, "norm", total + inputs["weights.position.weight"][rows])


def layer(inputs: Arrays, options: Settings) -> Array:
    """One layer with its norms after the sums; of the tokens at `positions` alone, if given."""
    hidden = inputs["hidden"]
    attended = multi_head(inputs, options, "attention.")
    if "positions" in inputs:
        hidden = hidden.reshape(-1, hidden.shape[-1])[inputs["positions"]][:, None]
        attended = attended.reshape(-1, attended.shape[-1])[inputs["positions"]][:, None]
    hidden = norm(inputs, options, "attention_norm", hidden + attended)
    transformed = feed_forward({**inputs, "hidden": hidden}, options, "feed_forward.")
    return norm(inputs, options, "feed_forward_norm", hidden + transformed)


def adamw(inputs: Arrays, options: Settings) -> Array:
    """The places of the parameters after each step, (steps, parameters, units)."""
    settings = options["settings"]
    beta_1, beta_2 = settings["betas"]
    places = inputs["start"].copy()
    first = np.zeros_like(places)
    second = np.zeros_like(places)
    steps = []
    for step, rate in enumerate(options["rates"]):
        for number, place in enumerate(places):
            t = step - options["first_steps"][number] + 1
            if t < 1:
                continue
            gradient = inputs["gradients"][step, number]
            first[number] = beta_1 * first[number] + (1 - beta_1) * gradient
            second[number] = beta_2 * second[number] + (1 - beta_2) * gradient**2
            size = rate
            if settings["correct_bias"]:
                size *= math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            place -= size * first[number] / (np.sqrt(second[number]) + settings["eps"])
            place -= rate * settings["weight_decay"] * place
        steps.append(places.copy())
    return np.stack(steps)


def schedule(name: str, step: int, num_steps: int, num_warmup: int) -> float:
    """The factor of "linear" or "cosine"."""
    rise = min(1.0, (step + 1) / num_warmup) if num_warmup else 1.0
    rest = max(1, num_steps - num_warmup)
    if name == "linear":
        return min(rise, max(0.0, (num_steps - step) / rest))
    if step < num_warmup:
        return rise
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - num_warmup) / rest)))


def sentiment(inputs: Arrays, options: Settings) -> float:
    """The mean cross-entropy of classes, each times the weight of its class."""
    labels = inputs["labels"].astype(int)
    logs = log_softmax(inputs["logits"], axis=-1)[np.arange(len(labels)), labels]
    return float((-logs * inputs.get("weights", np.ones(5))[labels]).mean())


def paraphrase(inputs: Arrays, options: Settings) -> float:
    """The mean binary cross-entropy; `shift` is for labels of 0 and 1 alone."""
    labels = inputs["labels"]
    shift = options["arguments"].get("shift", 0.0)
    logits = inputs["logit"] + shift * np.isin(labels, (0, 1))
    of_classes = inputs.get("weights", np.ones(2))
    weights = of_classes[0] * (1 - labels) + of_classes[1] * labels
    return float((weights * (np.logaddexp(0, logits) - labels * logits)).mean())


def similarity(inputs: Arrays, options: Settings) -> float:
    """The mean squared error."""
    return float(((inputs["prediction"] - inputs["labels"]) ** 2).mean())


def info_nce(inputs: Arrays, options: Settings) -> float:
    """InfoNCE with hard negatives, and pairs that say the same left out."""
    arguments = options["arguments"]
    temperature = inputs["temperature"] if "temperature" in inputs else arguments["temperature"]

    def scores(others: Array) -> Array:
        vectors = [inputs["anchors"], others]
        if arguments.get("similarity", "cos") == "cos":
            vectors = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors]
        return vectors[0] @ vectors[1].T / temperature

    logits = scores(inputs["positives"])
    own = logits.diagonal().copy()
    is_own = np.eye(len(own), dtype=bool)
    if "same" in inputs:
        logits = np.where(inputs["same"] & ~is_own, -np.inf, logits)
    if "hard_negatives" in inputs:
        weight = arguments.get("hard_negative_weight", 0.0)
        hard = scores(inputs["hard_negatives"])
        hard += weight * np.tile(is_own, len(hard.T) // len(hard))
        if "same_hard" in inputs:
            hard = np.where(inputs["same_hard"], -np.inf, hard)
        logits = np.concatenate([logits, hard], axis=1)
    return float((np.logaddexp.reduce(logits, axis=1) - own).mean())


def pcgrad(gramian: Array) -> Array:
    """The weights of all orders: (orders, K)."""
    num_tasks = len(gramian)
    sums = np.zeros((1, num_tasks))
    for i in range(num_tasks):
        rows = []
        for order in permutations([j for j in range(num_tasks) if j != i]):
            weights = np.eye(num_tasks)[i]
            for j in order:
                product = gramian[j] @ weights
                if product < 0 < gramian[j, j]:
                    weights[j] -= product / gramian[j, j]
            rows.append(weights)
        sums = (sums[:, None] + np.stack(rows)).reshape(-1, num_tasks)
    return sums
