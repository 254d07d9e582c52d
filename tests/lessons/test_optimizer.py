"""AdamW on its own. Run it with `python -m pytest -x tests/lessons/test_optimizer.py`.

The first failure says most, hence `-x`. Steps worked by hand, the course's reference numbers, a
slow loop in plain Python, PyTorch's AdamW, properties. A check takes the class that it tests. In
the full project the same checks test the fused update, in tests/minbert/test_fast.py, and the wrong
versions of tests/teaching/mistakes.toml.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from minbert import AdamW

# float32 has 7 digits and the numbers here are near 1: measured 1e-7.
FLOAT32 = 1e-6

OptimizerClass = Callable[..., torch.optim.Optimizer]


def step_once(
    optimizer_class: OptimizerClass = AdamW,
    start: float = 1.0,
    gradients: tuple[float, ...] = (3.0,),
    **options,
) -> float:
    """Where one number ends that has a given gradient at each step."""
    parameter = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = optimizer_class([parameter], **options)
    for gradient in gradients:
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        try:
            optimizer.step()
        except ZeroDivisionError:
            pytest.fail("t is 1 at the first step, not 0: 1 - beta^0 is 0, and no divisor.")
        except ValueError as error:
            # The message of math.sqrt.
            assert "math domain error" not in str(error), (
                "a root of a number below 0: is it sqrt(1 - beta_2^t), a power of t?"
            )
            raise
        except KeyError as error:
            pytest.fail(
                f"there is no {error}. The state of a parameter has step, first_moment and "
                "second_moment; the group has lr, betas, eps, weight_decay and correct_bias."
            )
        assert parameter.grad is not None and parameter.grad.item() == gradient, (
            "step() changed parameter.grad: does a method such as pow_ or mul_ write to it?"
        )
        assert parameter.dtype == torch.float64, (
            f"the parameter has {parameter.dtype} after step(), and had torch.float64 before"
        )
    return parameter.item()


# --- what a wrong number means --------------------------------------------------------------------

# A part of the formula, from what is known so far (`s`) to its number.
Part = Callable[[SimpleNamespace], float]
RIGHT: dict[str, Part] = {
    "g": lambda s: s.g,
    "m": lambda s: s.b1 * s.m + (1 - s.b1) * s.g,
    "v": lambda s: s.b2 * s.v + (1 - s.b2) * s.g**2,
    "size": lambda s: s.lr * math.sqrt(1 - s.b2**s.t) / (1 - s.b1**s.t),
    "uncorrected_size": lambda s: s.lr,
    "step": lambda s: s.size * s.m / (math.sqrt(s.v) + s.eps),
    "decay": lambda s: s.lr * s.weight_decay * s.p,
}


def plain_steps(
    parts: Mapping[str, Part],
    start: float = 1.0,
    gradients: tuple[float, ...] = (3.0,),
    correct_bias: bool = True,
    betas: tuple[float, float] = (0.9, 0.999),
    **settings: float,
) -> float:
    """`step_once` in plain Python. parts: those of RIGHT that are computed in another way."""
    parts = {**RIGHT, **parts}
    defaults = {"eps": 0.0, "weight_decay": 0.0}
    s = SimpleNamespace(
        **{**defaults, **settings}, p=start, m=0.0, v=0.0, correct_bias=correct_bias
    )
    s.b1, s.b2 = betas
    for s.t, s.g in enumerate(gradients, 1):
        s.old = s.p
        # Each part sees those before it.
        s.g = parts["g"](s)
        s.m = parts["m"](s)
        s.v = parts["v"](s)
        s.size = parts["size" if correct_bias else "uncorrected_size"](s)
        s.p -= parts["step"](s)
        s.p -= parts["decay"](s)
    return s.p


MISTAKES: dict[str, dict[str, Part]] = {
    "the parameter did not move: not written yet, or rebound to a new tensor? Change it in "
    "place.": {
        "step": lambda s: 0.0,
        "decay": lambda s: 0.0,
    },
    "the step goes up the gradient; subtract it.": {"step": lambda s: -RIGHT["step"](s)},
    # --- the correction
    "the bias correction, sqrt(1 - beta_2^t) / (1 - beta_1^t), is missing.": {
        "size": lambda s: s.lr
    },
    "the bias correction has sqrt(1 - beta_2^t), not 1 - beta_2^t.": {
        "size": lambda s: s.lr * (1 - s.b2**s.t) / (1 - s.b1**s.t)
    },
    "the bias correction is upside down. It is sqrt(1 - beta_2^t) / (1 - beta_1^t).": {
        "size": lambda s: s.lr * (1 - s.b1**s.t) / math.sqrt(1 - s.b2**s.t)
    },
    "the bias correction divides by 1 - beta_1^t.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2**s.t) * (1 - s.b1**s.t)
    },
    "the bias correction divides by 1 - beta_1^t, without a root.": {
        "size": lambda s: s.lr * math.sqrt((1 - s.b2**s.t) / (1 - s.b1**s.t))
    },
    "the bias correction multiplies by sqrt(1 - beta_2^t): it is folded into the step size.": {
        "size": lambda s: s.lr / math.sqrt(1 - s.b2**s.t) / (1 - s.b1**s.t)
    },
    "the bias correction is sqrt(1 - beta_2^t) / (1 - beta_1^t); here the power stands outside the "
    "brackets.": {"size": lambda s: s.lr * math.sqrt((1 - s.b2) ** s.t) / (1 - s.b1) ** s.t},
    "the bias correction has 1 - beta_1^t, not (1 - beta_1)^t.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2**s.t) / (1 - s.b1) ** s.t
    },
    "correct_bias is the wrong way round: correct where it is True.": {
        "size": lambda s: s.lr,
        "uncorrected_size": RIGHT["size"],
    },
    "the step size is divided by lr; multiply by it.": {
        "size": lambda s: RIGHT["size"](s) / s.lr**2,
        "uncorrected_size": lambda s: 1 / s.lr,
    },
    "lr is a fixed number, 0.001; read it from the group.": {
        "size": lambda s: 0.001 * RIGHT["size"](s) / s.lr,
        "uncorrected_size": lambda s: 0.001,
    },
    "the second moment's correction, sqrt(1 - beta_2^t), is missing.": {
        "size": lambda s: s.lr / (1 - s.b1**s.t)
    },
    "the first moment's correction, 1 / (1 - beta_1^t), is missing.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2**s.t)
    },
    "the first moment's correction has beta_1, not beta_2.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2**s.t) / (1 - s.b2**s.t)
    },
    "the second moment's correction has beta_2, not beta_1.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b1**s.t) / (1 - s.b1**s.t)
    },
    "beta_1 and beta_2 are swapped in the bias correction.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b1**s.t) / (1 - s.b2**s.t)
    },
    "the bias correction has the power beta^t, not the product beta t.": {
        "size": lambda s: s.lr * math.sqrt(abs(1 - s.b2 * s.t)) / (1 - s.b1 * s.t)
    },
    "correct_bias=False is not heeded.": {"uncorrected_size": RIGHT["size"]},
    "t is 1 at the first step, not 2: `prepare` has counted it already.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2 ** (s.t + 1)) / (1 - s.b1 ** (s.t + 1))
    },
    "t stays 1: it is right at step 1, wrong at step 2. Read it from the state.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2) / (1 - s.b1)
    },
    # --- the learning rate
    "the step is multiplied by lr twice.": {
        "size": lambda s: s.lr * RIGHT["size"](s),
        "uncorrected_size": lambda s: s.lr**2,
    },
    "the step is not multiplied by lr.": {
        "size": lambda s: RIGHT["size"](s) / s.lr,
        "uncorrected_size": lambda s: 1.0,
    },
    # --- the moments
    "the first moment takes 1 - beta_1 of the gradient, and keeps beta_1 of itself.": {
        "m": lambda s: (1 - s.b1) * s.m + s.b1 * s.g
    },
    "the second moment takes 1 - beta_2 of g^2, and keeps beta_2 of itself.": {
        "v": lambda s: (1 - s.b2) * s.v + s.b2 * s.g**2
    },
    "the first moment is (1 - beta_1) g at first, and the step follows it, not g itself.": {
        "m": lambda s: s.g
    },
    "the factor 1 - beta_1 of g is missing: the first moment is 0.3 at first, not g itself.": {
        "m": lambda s: s.b1 * s.m + s.g
    },
    "is the factor 1 - beta_2 of g^2 missing in the second moment?": {
        "v": lambda s: s.b2 * s.v + s.g**2
    },
    "the second moment keeps beta_2 of itself; here it keeps all.": {
        "v": lambda s: s.v + (1 - s.b2) * s.g**2
    },
    "the first moment keeps beta_1 of itself; here it keeps all.": {
        "m": lambda s: s.m + (1 - s.b1) * s.g
    },
    "the second moment adds up g^2, the square of the gradient.": {
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * abs(s.g)
    },
    "the second moment adds up g^2, and not the square of the first moment.": {
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * s.m**2
    },
    "square g alone, and not its factor: the second moment adds up (1 - beta_2) g^2.": {
        "v": lambda s: s.b2 * s.v + ((1 - s.b2) * s.g) ** 2
    },
    "the first moment is not kept: right at step 1, wrong at step 2. Write it to the state, such "
    "as m.mul_(...); `m = ...` makes a new tensor.": {"m": lambda s: (1 - s.b1) * s.g},
    "the second moment is not kept: right at step 1, wrong at step 2. Write it to the state, such "
    "as v.mul_(...); `v = ...` makes a new tensor.": {"v": lambda s: (1 - s.b2) * s.g**2},
    "no moment is kept: right at step 1, wrong at step 2. Write both to the state, such as "
    "m.mul_(...); `m = ...` makes a new tensor.": {
        "m": lambda s: (1 - s.b1) * s.g,
        "v": lambda s: (1 - s.b2) * s.g**2,
    },
    "the state keeps the corrected moments; keep the uncorrected ones.": {
        "m": lambda s: RIGHT["m"](s) / (1 - s.b1**s.t if s.correct_bias else 1.0),
        "v": lambda s: RIGHT["v"](s) / (1 - s.b2**s.t if s.correct_bias else 1.0),
        "size": lambda s: s.lr,
    },
    "beta_1 and beta_2 are swapped.": {
        "m": lambda s: s.b2 * s.m + (1 - s.b2) * s.g,
        "v": lambda s: s.b1 * s.v + (1 - s.b1) * s.g**2,
        "size": lambda s: s.lr * math.sqrt(1 - s.b1**s.t) / (1 - s.b2**s.t),
    },
    "beta_1 and beta_2 are swapped in the moments.": {
        "m": lambda s: s.b2 * s.m + (1 - s.b2) * s.g,
        "v": lambda s: s.b1 * s.v + (1 - s.b1) * s.g**2,
    },
    "the second moment has beta_2, not beta_1.": {"v": lambda s: s.b1 * s.v + (1 - s.b1) * s.g**2},
    "the first moment has beta_1, not beta_2.": {"m": lambda s: s.b2 * s.m + (1 - s.b2) * s.g},
    "the second moment keeps beta_2 of itself, not beta_1.": {
        "v": lambda s: s.b1 * s.v + (1 - s.b2) * s.g**2
    },
    "the first moment keeps beta_1 of itself, not beta_2.": {
        "m": lambda s: s.b2 * s.m + (1 - s.b1) * s.g
    },
    "betas are fixed numbers here; read them from the group.": {
        "m": lambda s: 0.9 * s.m + 0.1 * s.g,
        "v": lambda s: 0.999 * s.v + 0.001 * s.g**2,
        "size": lambda s: s.lr * math.sqrt(1 - 0.999**s.t) / (1 - 0.9**s.t),
    },
    "the first moment adds up g, not g^2, and the second one g^2.": {
        "m": lambda s: s.b1 * s.m + (1 - s.b1) * s.g**2,
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * s.g,
    },
    "the second moment is the product of g and the first moment; it adds up g^2.": {
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * s.g * s.m
    },
    "the second moment adds up g^2, the square of the gradient, and not g.": {
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * s.g
    },
    "the second moment adds up (g - m)^2; g^2 is right.": {
        "v": lambda s: s.b2 * s.v + (1 - s.b2) * (s.g - s.m) ** 2
    },
    "the first moment keeps beta_1 of itself; here it keeps 1 - beta_1.": {
        "m": lambda s: (1 - s.b1) * (s.m + s.g)
    },
    "the second moment keeps beta_2 of itself; here it keeps 1 - beta_2.": {
        "v": lambda s: (1 - s.b2) * (s.v + s.g**2)
    },
    # --- the step
    "the step follows the first moment; here it follows the gradient.": {
        "step": lambda s: s.size * s.g / (math.sqrt(s.v) + s.eps)
    },
    "the step follows the sign of the gradient; it is m / (sqrt(v) + eps).": {
        "step": lambda s: s.size * math.copysign(1, s.g)
    },
    "the step is m / (sqrt(v) + eps); here it is b1 m + (1 - b1) g in place of m, as in NAdam.": {
        "step": lambda s: s.size * (s.b1 * s.m + (1 - s.b1) * s.g) / (math.sqrt(s.v) + s.eps)
    },
    "the step has the sign of m; here the sign is lost.": {
        "step": lambda s: s.size * abs(s.m) / (math.sqrt(s.v) + s.eps)
    },
    "m is divided by sqrt(v) + eps, not multiplied.": {
        "step": lambda s: s.size * s.m * (math.sqrt(s.v) + s.eps)
    },
    "the root of v is taken twice.": {"step": lambda s: s.size * s.m / (s.v**0.25 + s.eps)},
    "m is not divided by sqrt(v) + eps.": {"step": lambda s: s.size * s.m},
    "eps is added twice, inside the root and outside; outside is right.": {
        "step": lambda s: s.size * s.m / (math.sqrt(s.v + s.eps) + s.eps)
    },
    "eps is added to sqrt(v); here it is the least divisor.": {
        "step": lambda s: s.size * s.m / max(math.sqrt(s.v), s.eps)
    },
    "eps is subtracted; add it.": {"step": lambda s: s.size * s.m / (math.sqrt(s.v) - s.eps)},
    "eps stands outside the fraction; it belongs to the divisor, sqrt(v) + eps.": {
        "step": lambda s: s.size * (s.m / math.sqrt(s.v) + s.eps)
    },
    "the moment of the step is the one from before the update; update m first.": {
        "step": lambda s: s.size * (s.m - (1 - s.b1) * s.g) / s.b1 / (math.sqrt(s.v) + s.eps)
    },
    "the second moment needs its square root.": {"step": lambda s: s.size * s.m / (s.v + s.eps)},
    "the state keeps the root of v; keep v without its root.": {
        "v": lambda s: math.sqrt(RIGHT["v"](s)),
        "step": lambda s: s.size * s.m / (s.v + s.eps),
    },
    "eps stands outside the root: sqrt(v) + eps.": {
        "step": lambda s: s.size * s.m / math.sqrt(s.v + s.eps)
    },
    "eps is missing, or not that of the group: the divisor is sqrt(v) + eps.": {
        "step": lambda s: s.size * s.m / math.sqrt(s.v)
    },
    "eps is added to the uncorrected sqrt(v), before the bias correction, which is folded into the "
    "step size.": {
        "step": lambda s: s.size * s.m / (math.sqrt(s.v) + s.eps * math.sqrt(1 - s.b2**s.t))
    },
    # --- the decay
    "weight decay is left out; a vector decays, too, where its group says so.": {
        "decay": lambda s: 0.0
    },
    "weight decay does not depend on correct_bias; here it is left out without.": {
        "decay": lambda s: RIGHT["decay"](s) if s.correct_bias else 0.0
    },
    "weight decay is added to the gradient, where Adam's normalisation swallows it.": {
        "g": lambda s: s.g + s.weight_decay * s.p,
        "decay": lambda s: 0.0,
    },
    "weight decay is applied before the step, or to the value from before it; the course applies "
    "it after.": {"decay": lambda s: s.lr * s.weight_decay * s.old},
    "weight decay is not multiplied by lr.": {"decay": lambda s: s.weight_decay * s.p},
    "weight decay has the wrong sign.": {"decay": lambda s: -RIGHT["decay"](s)},
    "weight decay is multiplied by lr alone, not by the bias-corrected step size.": {
        "decay": lambda s: s.size * s.weight_decay * s.p
    },
    "weight decay is multiplied by lr alone, and not by the bias-corrected step size; and it comes "
    "after the step.": {"decay": lambda s: s.size * s.weight_decay * s.old},
    "weight decay multiplies the parameter, not its gradient.": {
        "decay": lambda s: s.lr * s.weight_decay * s.g
    },
    "weight decay multiplies the parameter, not the first moment.": {
        "decay": lambda s: s.lr * s.weight_decay * s.m
    },
    "weight decay is multiplied by lr once, not by lr^2.": {
        "decay": lambda s: s.lr**2 * s.weight_decay * s.p
    },
    "weight decay is multiplied by lr; here lr is multiplied by its square.": {
        "decay": lambda s: s.lr * s.weight_decay**2 * s.p
    },
    "half of the weight decay is applied.": {"decay": lambda s: s.lr * s.weight_decay * s.p / 2},
    "weight decay divides by 1 + lr weight_decay; subtract lr weight_decay p.": {
        "decay": lambda s: s.p - s.p / (1 + s.lr * s.weight_decay)
    },
    "weight decay is multiplied by t; it is lr weight_decay p at each step.": {
        "decay": lambda s: s.t * s.lr * s.weight_decay * s.p
    },
    "weight decay takes the parameter itself, not its sign.": {
        "decay": lambda s: s.lr * s.weight_decay * math.copysign(1, s.p)
    },
    "weight decay is added to the gradient and to the parameter; the second alone is right.": {
        "g": lambda s: s.g + s.weight_decay * s.p
    },
    "weight decay is applied twice.": {
        "decay": lambda s: s.p - s.p * (1 - s.lr * s.weight_decay) ** 2
    },
    # --- corners
    "a gradient of 0 is passed over: the step follows m, which is not 0, and the decay goes on.": {
        "step": lambda s: RIGHT["step"](s) if s.g else 0.0,
        "decay": lambda s: RIGHT["decay"](s) if s.g else 0.0,
    },
    "where the gradient is 0 the parameter does not move: the step follows m, which is not 0.": {
        "step": lambda s: RIGHT["step"](s) if s.g else 0.0
    },
    "the gradient is limited to [-1, 1]; take it as it is.": {
        "g": lambda s: max(-1.0, min(1.0, s.g))
    },
    "lr is divided by the root of t; a schedule changes it, and not the optimizer.": {
        "size": lambda s: RIGHT["size"](s) / math.sqrt(s.t),
        "uncorrected_size": lambda s: s.lr / math.sqrt(s.t),
    },
    "the gradient is divided by its length; take it as it is.": {
        "g": lambda s: math.copysign(1.0, s.g) if s.g else 0.0
    },
    "the divisor has the largest v so far, as in AMSGrad; take v itself.": {
        "v": lambda s: max(s.v, RIGHT["v"](s))
    },
    "the divisor has v from before the update; update v first.": {
        "step": lambda s: s.size * s.m / (math.sqrt((s.v - (1 - s.b2) * s.g**2) / s.b2) + s.eps)
    },
    "the step is counted again, behind the update: `prepare` counts it.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2 ** (2 * s.t - 1)) / (1 - s.b1 ** (2 * s.t - 1))
    },
    "the step is counted twice: `prepare` has counted it already.": {
        "size": lambda s: s.lr * math.sqrt(1 - s.b2 ** (2 * s.t)) / (1 - s.b1 ** (2 * s.t))
    },
}

# Settings that tell the mistakes apart.
PROBES: tuple[dict[str, Any], ...] = (
    {"lr": 0.5, "eps": 0.0},
    {"lr": 0.5, "eps": 0.0, "gradients": (3.0, -1.0, 2.0)},
    {"lr": 0.5, "eps": 0.3, "gradients": (3.0, -1.0), "betas": (0.7, 0.95), "correct_bias": False},
    {"lr": 0.25, "eps": 0.3, "gradients": (3.0, -1.0), "weight_decay": 0.2},
    {"lr": 0.25, "eps": 0.3, "gradients": (3.0, 0.0), "weight_decay": 0.2},
    {"lr": 0.25, "eps": 0.3, "gradients": (-3.0, 1.0), "weight_decay": 0.2, "correct_bias": False},
)


def hint_of(optimizer_class: OptimizerClass, probe: dict[str, Any], hint: str) -> str:
    """The mistake, or two of them, that lead to the numbers of all probes.

    Otherwise what the state says about the moments, or `hint`.
    """
    probes = (probe, *(settings for settings in PROBES if settings != probe))
    found = [step_once(optimizer_class, **settings) for settings in probes]
    if all(is_led_to(number, {}, probe) for number, probe in zip(found, probes, strict=True)):
        return f"nearly right: is something rounded, or left out where it is small? {hint}"
    pairs = []
    for (name, one), (other_name, other) in itertools.combinations(MISTAKES.items(), 2):
        if not {*one} & {*other}:
            pairs.append((f"{name} And {other_name}", {**one, **other}))
    for name, parts in [*MISTAKES.items(), *pairs]:
        if all(
            is_led_to(number, parts, probe) for number, probe in zip(found, probes, strict=True)
        ):
            return name
    hint = hint_of_most(found, probes, f"both moments are right. {hint}")
    return hint_of_moments(optimizer_class) or hint


def is_led_to(found: float, parts: Mapping[str, Part], probe: dict[str, Any]) -> bool:
    """Whether these parts lead to a number. Some divide by 0, overflow, or become complex."""
    try:
        return math.isclose(found, plain_steps(parts, **probe), rel_tol=1e-6, abs_tol=1e-6)
    except (ArithmeticError, TypeError, ValueError):
        return not math.isfinite(found)


def hint_of_most(found: list[float], probes: tuple[dict[str, Any], ...], hint: str) -> str:
    """The mistake that leads to the number of the first probe and to most others, or `hint`."""
    most = 2
    for name, parts in MISTAKES.items():
        fits = [is_led_to(one, parts, probe) for one, probe in zip(found, probes, strict=True)]
        if fits[0] and sum(fits) > most:
            most, hint = sum(fits), name
    return hint


def hint_of_moments(optimizer_class: OptimizerClass) -> str:
    """Which line is wrong, by the state after two steps with gradients 3 and -1, or ""."""
    parameter = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = optimizer_class([parameter], lr=0.5, eps=0.0)
    state: dict[str, Any] = {}
    for step, (gradient, m, v) in enumerate([(3.0, 0.3, 0.009), (-1.0, 0.17, 0.009991)], 1):
        parameter.grad = torch.full((1,), gradient, dtype=torch.float64)
        optimizer.step()
        state = optimizer.state[parameter]
        for name, formula, expected, beta in (
            ("first_moment", "m = b1 m + (1 - b1) g", m, 0.9),
            ("second_moment", "v = b2 v + (1 - b2) g^2", v, 0.999),
        ):
            if math.isclose(float(state[name]), expected / (1 - beta**step), rel_tol=1e-5):
                return f"{name} is kept with its bias correction. The state holds it without."
            if float(state[name]) == 0.0:
                return f"{name} is not written to the state. Change it in place, as by mul_."
            if not math.isclose(float(state[name]), expected, rel_tol=1e-5):
                return (
                    f"{name} is {float(state[name]):.7g} after step {step} with g = {gradient:g}, "
                    f"expected {expected:.7g}: {formula}."
                )
    return ""


def assert_ends(optimizer_class: OptimizerClass, expected: float, hint: str, **probe: Any) -> None:
    """Compare where a number ends, and explain a wrong one. The hint is for unknown mistakes."""
    found = step_once(optimizer_class, **probe)
    # A factor may be rounded to float32 on the way.
    is_right = found == pytest.approx(expected, abs=1e-6)
    if not is_right:
        hint = hint_of(optimizer_class, probe, hint)
    assert is_right, f"found {found:.7g}, expected {expected:.7g}: {hint}"


# --- by hand --------------------------------------------------------------------------------------


def check_first_step(optimizer_class: OptimizerClass) -> None:
    """m = 0.1 g and v = 0.001 g^2. Corrected, they are g and g^2 again.

    So the step is lr times sign(g): 1 - 0.5 = 0.5.
    """
    hint = "is each line of the formula there?"
    assert_ends(optimizer_class, 0.5, hint, lr=0.5, eps=0.0)


def check_second_step(optimizer_class: OptimizerClass) -> None:
    """Gradients 3 and -1, so m = 0.9 x 0.3 - 0.1 = 0.17, v = 0.999 x 0.009 + 0.001, and t = 2."""
    correction = math.sqrt(1 - 0.999**2) / (1 - 0.9**2)
    assert_ends(
        optimizer_class,
        0.5 - 0.5 * correction * 0.17 / math.sqrt(0.009991),
        "right at step 1, wrong at step 2: are both moments and t kept in self.state, v without "
        "its root, and does the group's lr stay as it is?",
        gradients=(3.0, -1.0),
        lr=0.5,
        eps=0.0,
    )


def check_moments_are_kept(optimizer_class: OptimizerClass) -> None:
    """Checkpoints hold the state, so its names are those of `prepare`."""
    hint = hint_of_moments(optimizer_class)
    assert not hint, hint


def check_without_correction(optimizer_class: OptimizerClass) -> None:
    """Without correction the step is lr x 0.1 / sqrt(0.001) = 3.1623 lr."""
    expected = -0.1 / math.sqrt(0.001)
    hint = "is that the step of the uncorrected moments?"
    options = {"start": 0.0, "lr": 1.0, "eps": 0.0, "correct_bias": False}
    assert_ends(optimizer_class, expected, hint, **options)


def check_eps(optimizer_class: OptimizerClass) -> None:
    """m = 0.3, sqrt(v) = sqrt(0.009) = 0.094868.

    eps = 1 is added to the uncorrected root: 0.3 / 1.094868.
    """
    correction = math.sqrt(1 - 0.999) / (1 - 0.9)
    expected = -correction * 0.3 / (math.sqrt(0.009) + 1)
    hint = "is eps that of the group, outside the root, and added before the bias correction?"
    assert_ends(optimizer_class, expected, hint, start=0.0, lr=1.0, eps=1.0)


def check_decay(optimizer_class: OptimizerClass) -> None:
    """The step first, 1 - 0.25 = 0.75. Then the decay by lr x weight_decay = 0.05: 0.7125."""
    hint = "is weight decay applied after the step, with the current learning rate?"
    assert_ends(optimizer_class, 0.7125, hint, lr=0.25, eps=0.0, weight_decay=0.2)
    expected = -0.25 * 0.1 / math.sqrt(0.001) * 0.95
    hint = "weight decay does not depend on correct_bias"
    options = {"start": 0.0, "lr": 0.25, "eps": 0.0, "weight_decay": 0.2, "correct_bias": False}
    assert_ends(optimizer_class, expected, hint, **options)


def check_several_steps(optimizer_class: OptimizerClass) -> None:
    """Two or three steps with each setting."""
    for probe in PROBES:
        hint = f"compare with plain_steps: {probe}"
        assert_ends(optimizer_class, plain_steps({}, **probe), hint, **probe)


def check_large_gradients(optimizer_class: OptimizerClass) -> None:
    """Gradients of -300 and 100."""
    probe = {"lr": 0.5, "eps": 0.3, "gradients": (-300.0, 100.0)}
    hint = "is a large gradient, or the step, limited? Take it as it is."
    assert_ends(optimizer_class, plain_steps({}, **probe), hint, **probe)


def check_without_a_first_moment(optimizer_class: OptimizerClass) -> None:
    """With beta_1 = 0 the first moment is the gradient."""
    probe = {"lr": 0.5, "eps": 0.3, "gradients": (3.0, -1.0), "betas": (0.0, 0.9)}
    hint = "beta_1 may be 0; `beta_1 or 0.9` takes 0 for nothing."
    assert_ends(optimizer_class, plain_steps({}, **probe), hint, **probe)


def check_many_steps(optimizer_class: OptimizerClass) -> None:
    """With one gradient at all steps, the corrected moments are g and g^2: each step is lr."""
    parameter = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = optimizer_class([parameter], lr=0.25, eps=0.0)
    for step in range(1, 1201):
        before = parameter.item()
        parameter.grad = torch.full((1,), 3.0, dtype=torch.float64)
        optimizer.step()
        length = before - parameter.item()
        assert math.isclose(length, 0.25, rel_tol=1e-6), (
            f"with the same gradient at all steps, step {step} is {length:.6g} long, expected lr = "
            "0.25: does the bias correction end after some steps, or does t?"
        )


def check_decay_follows_the_schedule(optimizer_class: OptimizerClass) -> None:
    """A schedule changes the group's lr. With lr = 0 the parameter neither steps nor decays."""
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_class([parameter], lr=0.5, weight_decay=0.5)
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = torch.ones(1)
    optimizer.step()
    assert parameter.item() == 1.0, (
        "read all settings from the group at each step, and none from the optimizer's defaults: "
        "does the decay use the current learning rate?"
    )
    assert optimizer.state[parameter]["first_moment"].item() != 0, (
        "with lr = 0, as at the start of a warm-up, the moments follow the gradient all the same"
    )


def check_each_number_by_itself(optimizer_class: OptimizerClass) -> None:
    """Two numbers of one parameter end where each of them ends alone."""
    parameter = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = optimizer_class([parameter], lr=0.5, eps=0.0)
    parameter.grad = torch.tensor([3.0, -1.0], dtype=torch.float64)
    optimizer.step()
    assert parameter.tolist() == pytest.approx([0.5, 1.5], abs=1e-6), (
        "each number has its own moments: no mean, sum or length over the numbers of a parameter"
    )
    # As in check_decay.
    for shape in ((1,), (1, 1), ()):
        parameter = nn.Parameter(torch.ones(shape, dtype=torch.float64))
        optimizer = optimizer_class([parameter], lr=0.25, eps=0.0, weight_decay=0.2)
        parameter.grad = torch.full(shape, 3.0, dtype=torch.float64)
        try:
            optimizer.step()
        except IndexError as error:
            pytest.fail(f"a parameter of shape {shape} may be one number, with no rows: {error}")
        assert parameter.item() == pytest.approx(0.7125, abs=1e-6), (
            f"a parameter of shape {shape} ends at {parameter.item():.5g}, expected 0.7125: its "
            "shape does not matter. The group says whether it decays."
        )
    transposed = nn.Parameter(torch.ones(2, 3, dtype=torch.float64).t())
    optimizer = optimizer_class([transposed], lr=0.25, eps=0.0)
    transposed.grad = torch.full((2, 3), 3.0, dtype=torch.float64).t()
    optimizer.step()
    assert torch.allclose(transposed, torch.full_like(transposed, 0.75)), (
        "a transposed parameter does not change: its reshape(-1) is a copy. Change it as it is"
    )


CHECKS = (
    check_first_step,
    check_second_step,
    check_moments_are_kept,
    check_without_correction,
    check_eps,
    check_decay,
    check_several_steps,
    check_large_gradients,
    check_without_a_first_moment,
    check_many_steps,
    check_decay_follows_the_schedule,
    check_each_number_by_itself,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_by_hand(check):
    check(AdamW)


def test_each_parameter_counts_its_own_steps():
    """A head that the first steps do not touch takes its first step, lr x sign(g), when touched."""
    always = nn.Parameter(torch.ones(1))
    later = nn.Parameter(torch.ones(1))
    optimizer = AdamW([always, later], lr=0.5, eps=0.0)
    for step in range(5):
        always.grad = torch.ones(1)
        later.grad = torch.ones(1) if step == 4 else None
        optimizer.step()
    # float32, and logarithms of 1 - beta on the way.
    assert later.item() == pytest.approx(0.5, abs=1e-4), (
        "are t and the moments kept for each parameter, and not once for all?"
    )


# --- the course's reference -----------------------------------------------------------------------


def test_course_reference():
    """The six numbers of the course's own test: linear 3 -> 2 without bias, 1,000 steps.

    1,000 float32 steps round 1,000 times. The same in float64 ends 7e-6 away. A decay that is
    written as p times (1 - lr decay) ends 2e-5 away.
    """
    reference = torch.tensor(
        [[0.55482787, 0.86665666, 0.07291982], [-0.44724506, -0.2951228, -0.2717272]]
    )
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model = nn.Linear(3, 2, bias=False)
    optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, correct_bias=True)
    for _ in range(1000):
        optimizer.zero_grad()
        x = torch.FloatTensor(random.uniform(size=[model.in_features]))
        target = torch.stack([x[0] + x[1], -x[2]])
        ((model(x) - target) ** 2).sum().backward()
        optimizer.step()
    difference = (model.weight.detach() - reference).abs().max().item()
    assert difference <= 5e-5, (
        f"off by {difference:.2e} in 1,000 steps. 3e-4: is eps inside the root? More: look at "
        "test_by_hand first."
    )


# --- a slow loop ----------------------------------------------------------------------------------


def test_slow_loop():
    """Plain Python numbers, three of them, fifty steps of changing gradients and learning rates."""
    random = np.random.default_rng(1)
    lr = 0.01
    betas = (0.8, 0.95)
    eps = 1e-3
    decay = 0.1
    values = [1.0, -2.0, 0.5]
    first = [0.0] * 3
    second = [0.0] * 3
    parameter = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    optimizer = AdamW([parameter], lr=lr, betas=betas, eps=eps, weight_decay=decay)
    for t in range(1, 51):
        gradient = random.normal(size=3)
        current = lr / t
        # A copy, which this loop does not share.
        parameter.grad = torch.tensor(gradient)
        optimizer.param_groups[0]["lr"] = current
        optimizer.step()
        for i, g in enumerate(gradient):
            first[i] = betas[0] * first[i] + (1 - betas[0]) * g
            second[i] = betas[1] * second[i] + (1 - betas[1]) * g * g
            correction = math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
            values[i] -= current * correction * first[i] / (math.sqrt(second[i]) + eps)
            values[i] -= current * decay * values[i]
    hint = "compare with this loop, line by line"
    is_right = parameter.tolist() == pytest.approx(values, abs=1e-6)
    assert is_right, hint_of(AdamW, PROBES[2], hint)


# --- PyTorch's AdamW ------------------------------------------------------------------------------


def largest_difference(first: Iterable[Tensor], second: Iterable[Tensor]) -> float:
    differences = []
    for one, other in zip(first, second, strict=True):
        differences.append((one - other).abs().max().item())
    return max(differences)


def train_side_by_side(eps: float, torch_eps: Callable[[int], float]) -> float:
    """100 steps of both optimizers on the same gradients, without decay.

    torch_eps: from a step to the eps that torch's optimizer gets. Returns the largest difference
    between the weights.
    """
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    theirs = copy.deepcopy(ours)
    optimizer = AdamW(ours.parameters(), lr=1e-3, eps=eps)
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-3, eps=eps, weight_decay=0.0)
    for t in range(1, 101):
        reference.param_groups[0]["eps"] = torch_eps(t)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            p.grad = torch.randn(p.shape)
            q.grad = p.grad.clone()
        optimizer.step()
        reference.step()
    return largest_difference(ours.parameters(), theirs.parameters())


def test_equals_torch_adamw_with_a_small_eps():
    """eps stands in another place, which the next test shows. A small eps hides that."""
    difference = train_side_by_side(1e-8, lambda t: 1e-8)
    assert difference <= FLOAT32, (
        f"off by {difference:.2e} from torch.optim.AdamW; look at test_by_hand"
    )


def test_equals_torch_adamw_with_any_eps_once_it_is_put_in_the_same_place():
    """Ours: m / (sqrt(v) + eps) x sqrt(1 - b2^t). torch's: m / (sqrt(v) / sqrt(1 - b2^t) + eps).

    They are one formula with eps_torch = eps / sqrt(1 - b2^t), which goes from 32 eps to eps.
    """
    difference = train_side_by_side(1e-2, lambda t: 1e-2 / math.sqrt(1 - 0.999**t))
    assert difference <= FLOAT32, (
        f"off by {difference:.2e}: eps belongs beside the uncorrected sqrt(v)"
    )
    assert train_side_by_side(1e-2, lambda t: 1e-2) > 1e-3, (
        "the negative control: with the same eps the two optimizers differ. If they do not, eps "
        "is added to the corrected root, as in torch"
    )


# --- properties -----------------------------------------------------------------------------------


def test_groups_have_their_own_settings():
    frozen, fast, slow, other = (nn.Parameter(torch.ones(2)) for _ in range(4))
    groups = [
        {"params": [frozen, fast], "lr": 0.1},
        {"params": [slow], "weight_decay": 0.5},
        {"params": [other], "betas": (0.8, 0.9), "eps": 1.0, "correct_bias": False},
    ]
    optimizer = AdamW(groups, lr=0.01, eps=0.0)
    for parameter in (fast, slow, other):
        parameter.grad = torch.ones(2)
    optimizer.step()
    assert frozen.tolist() == [1.0, 1.0], (
        "without a gradient a parameter is neither moved nor decayed"
    )
    assert not torch.equal(fast, torch.ones(2)), (
        "it stands after one without a gradient: continue, not break or return"
    )
    assert torch.allclose(fast, torch.tensor(1 - 0.1)), "a group's own lr is not used"
    assert torch.allclose(slow, torch.tensor((1 - 0.01) * (1 - 0.01 * 0.5))), (
        "expected the default lr with the group's own decay"
    )
    expected = 1 - 0.01 * 0.2 / (math.sqrt(0.1) + 1)
    assert torch.allclose(other, torch.tensor(expected)), (
        "betas, eps and correct_bias are those of the group"
    )


def test_state_round_trip_continues_to_the_same_bits():
    torch.manual_seed(0)
    gradients = torch.randn(20, 7)

    def train(parameter: nn.Parameter, optimizer: AdamW, rows: Tensor) -> None:
        for gradient in rows:
            parameter.grad = gradient.clone()
            optimizer.step()

    straight = nn.Parameter(torch.ones(7))
    train(straight, AdamW([straight], weight_decay=0.1), gradients)

    first = nn.Parameter(torch.ones(7))
    stopped = AdamW([first], weight_decay=0.1)
    train(first, stopped, gradients[:10])

    second = nn.Parameter(first.detach().clone())
    # The stored settings replace this learning rate.
    resumed = AdamW([second], lr=99.0)
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    train(second, resumed, gradients[10:])
    assert torch.equal(straight, second), "is the step count, or a moment, missing from self.state?"


def test_closure_is_called_with_gradients_on():
    parameter = nn.Parameter(torch.ones(1))
    optimizer = AdamW([parameter], lr=0.5, eps=0.0)

    def closure() -> Tensor:
        loss = (2 * parameter).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0, "step returns the loss of its closure"
    assert parameter.item() == pytest.approx(0.5, abs=1e-4), (
        "the step uses the gradients of the closure"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -1.0},
        {"betas": (1.0, 0.9)},
        {"betas": (0.9, -0.1)},
        {"eps": -1e-8},
        {"weight_decay": -0.1},
        {"lr": math.nan},
    ],
)
def test_values_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        AdamW([nn.Parameter(torch.ones(1))], **options)
