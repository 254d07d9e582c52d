"""AdamW written out (Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2).

Next: schedule.py, which gives the learning rate of each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch.optim import Optimizer


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as the course defines it.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps);
    p -= lr weight_decay p. The bias correction is folded into the step size (the "efficient" form at the end of Adam's
    section 2), so eps is added to the uncorrected sqrt(v): torch.optim.AdamW adds it to the corrected one, and decays
    before the step instead of after. Both differences vanish as eps and lr x weight_decay go to 0.

    params: parameters or groups (dicts) of them; lr >= 0; betas in [0, 1); eps >= 0; weight_decay >= 0. A parameter
    whose grad is None is left alone. Raises ValueError for values out of range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
    ) -> None:
        for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
            if not value >= 0.0:
                raise ValueError(f"{name} is {value}; it must be 0 or more.")
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas are {betas}; each must be at least 0 and below 1.")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "correct_bias": correct_bias}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        """Update every parameter that has a gradient; returns the closure's loss if one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, group)
        return loss

    def update(self, parameter: torch.Tensor, group: dict) -> None:
        """One parameter's step; its state is the step count and the two moments, of the parameter's own shape."""
        gradient, state = parameter.grad, self.state[parameter]
        if gradient.is_sparse:
            raise ValueError("AdamW needs dense gradients; build the embedding with sparse=False.")
        if not state:
            state["step"] = 0
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        state["step"] += 1
        first_moment, second_moment = state["first_moment"], state["second_moment"]
        beta_1, beta_2 = group["betas"]

        first_moment.lerp_(gradient, 1 - beta_1)  # m = b1 m + (1 - b1) g
        second_moment.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)  # v = b2 v + (1 - b2) g^2
        step_size = group["lr"]
        if group["correct_bias"]:  # the moments start at 0 and are too small in the first steps
            step_size *= math.sqrt(1 - beta_2 ** state["step"]) / (1 - beta_1 ** state["step"])
        parameter.addcdiv_(first_moment, second_moment.sqrt().add_(group["eps"]), value=-step_size)
        if group["weight_decay"] > 0.0:  # decoupled: it never enters the moments
            # p - (lr decay) p, not p (1 - lr decay): in float32 1 - 1e-7 is 1 - 1.2e-7, a fifth too much decay.
            parameter.add_(parameter, alpha=-group["lr"] * group["weight_decay"])


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict]:
    """Two groups for AdamW: matrices and embeddings with `weight_decay`, biases and LayerNorm (one dimension) without.

    Only parameters that require a gradient are listed (Devlin et al. 2019, released code).
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
