"""AdamW written out (Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2).

Next: schedule.py, which gives the learning rate of each step.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from minbert import fast

# Computes a loss and its gradients.
Closure = Callable[[], Tensor]


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as the course defines it.

    With gradient g, parameter p, step t and the moments m and v, both 0 at first:

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g^2
        p = p - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
        p = p - lr weight_decay p

    Compare with torch.optim.AdamW. Two things differ there. Ours folds the bias correction into
    the step size (the "efficient" form at the end of Adam's section 2), so eps is added to the
    uncorrected sqrt(v). torch adds it to the corrected one. Ours decays after the step, torch
    before it. Both differences vanish as eps and lr times weight_decay go to 0.

    params: parameters, or groups (dicts) of them. A parameter whose grad is None stays as it is.
    lr: the learning rate, 0 or more. betas: b1 and b2, each in [0, 1). eps: 0 or more.
    weight_decay: 0 or more. correct_bias: whether to correct the moments, which start at 0.
    fused: allow torch's fused kernel for the same update (`fast.adamw_update`). It is taken with
        correct_bias, and only while no lesson file was edited.
    Raises ValueError for values out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
        fused: bool = False,
    ) -> None:
        for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
            # `not ... >= 0` also refuses nan.
            if not value >= 0.0:
                raise ValueError(f"{name} is {value}; it must be 0 or more.")
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas are {betas}; each must be at least 0 and below 1.")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "correct_bias": correct_bias,
            "fused": fused,
        }
        super().__init__(params, defaults)

    # torch tells its compiler to skip these methods, and loads the compiler for that. It takes as
    # long as torch itself, and no optimizer is compiled here. So they are taken without that.
    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Tensor | None:  # type: ignore[override]
        """Update every parameter that has a gradient.

        closure: computes the loss and its gradients first. Returns its loss, or None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()

        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            for parameter in parameters:
                self.prepare(parameter)

            # torch's kernel reads memory once for the same update, but for the rounding of a very
            # small decay (fast.adamw_update). docs/formulas.md has its gain.
            if group["fused"] and group["correct_bias"] and fast.is_on():
                fast.adamw_update(self, parameters, group)
            else:
                for parameter in parameters:
                    self.update(parameter, group)
        return loss

    def prepare(self, parameter: Tensor) -> None:
        """Count the step of a parameter. Its state is that count and two moments of its shape."""
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise ValueError("AdamW needs dense gradients; build the embedding with sparse=False.")
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        state["step"] += 1

    def update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """Make one parameter's step, one formula a line. Its data change, in place or as a whole.

        parameter: has a gradient, and its step is counted. The gradient stays as it is. group: its
        settings. The state has the names that `prepare` gives, and keeps them.
        """
        gradient = parameter.grad
        assert gradient is not None
        state = self.state[parameter]
        m = state["first_moment"]
        v = state["second_moment"]
        beta_1, beta_2 = group["betas"]
        learning_rate = group["lr"]

        # m = b1 m + (1 - b1) g, which is m + (1 - b1) (g - m)
        m.lerp_(gradient, 1 - beta_1)

        # v = b2 v + (1 - b2) g^2
        v.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)

        # The moments start at 0, so they are too small in the first steps.
        step_size = learning_rate
        if group["correct_bias"]:
            t = state["step"]
            step_size *= math.sqrt(1 - beta_2**t) / (1 - beta_1**t)

        # p = p - step_size m / (sqrt(v) + eps)
        denominator = v.sqrt().add_(group["eps"])
        parameter.addcdiv_(m, denominator, value=-step_size)

        # Decoupled decay: it never enters the moments. p - (lr decay) p keeps its precision. In
        # p (1 - lr decay), the factor 1 - 1e-7 is 1 - 1.2e-7 in float32: a fifth too much decay.
        if group["weight_decay"] > 0.0:
            parameter.add_(parameter, alpha=-learning_rate * group["weight_decay"])


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    learning_rate_of: Callable[[str], float] | None = None,
) -> list[dict[str, Any]]:
    """Sort the parameters of a model into groups for AdamW.

    Matrices and embeddings get `weight_decay`. Biases and LayerNorm, which have one dimension, and
    scalars get none. The released code of Devlin et al. 2019 does the same. Only parameters that
    require a gradient are listed.

    learning_rate_of: from a parameter's name to its learning rate. There are then two groups for
    each learning rate. None leaves the learning rate to the optimizer.
    """
    by_learning_rate: dict[float | None, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            learning_rate = learning_rate_of(name) if learning_rate_of else None
            by_learning_rate.setdefault(learning_rate, []).append(parameter)

    groups: list[dict[str, Any]] = []
    for learning_rate, parameters in by_learning_rate.items():
        matrices = [parameter for parameter in parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
        for members, decay in ((matrices, weight_decay), (vectors, 0.0)):
            group: dict[str, Any] = {"params": members, "weight_decay": decay}
            if learning_rate is not None:
                group["lr"] = learning_rate
            groups.append(group)
    return groups


def layer_decayed(lr: float, decay: float, num_layers: int) -> Callable[[str], float]:
    """Make the `learning_rate_of` of layer-wise decay (Clark et al. 2020, ELECTRA, appendix).

    lr: the peak learning rate, above 0. decay in (0, 1]. num_layers: L of the encoder.

    Layer l of `encoder.layers`, from 0 to L - 1, gets lr decay^(L - l). The embeddings get
    lr decay^(L + 1). The parts on top of the encoder get lr, and so does its pooler. ELECTRA's
    code has one more factor between head and encoder: its last layer gets lr decay^2.
    """

    def learning_rate_of(name: str) -> float:
        if name.startswith("encoder.embeddings"):
            return lr * decay ** (num_layers + 1)
        if name.startswith("encoder.layers."):
            layer = int(name.split(".")[2])
            return lr * decay ** (num_layers - layer)
        return lr

    return learning_rate_of
