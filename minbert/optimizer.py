"""AdamW written out (Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2).

Next: schedule.py, which gives the learning rate of each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch.optim import Optimizer
from torch.optim.adamw import adamw


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as the course defines it.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps);
    p -= lr weight_decay p. The bias correction is folded into the step size (the "efficient" form at the end of Adam's
    section 2), so eps is added to the uncorrected sqrt(v): torch.optim.AdamW adds it to the corrected one, and decays
    before the step instead of after. Both differences vanish as eps and lr x weight_decay go to 0.

    params: parameters or groups (dicts) of them; lr >= 0; betas in [0, 1); eps >= 0; weight_decay >= 0. A parameter
    whose grad is None is left alone. fused: the same update by torch's fused kernel, which passes over memory once.
    Raises ValueError for values out of range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
        fused: bool = False,
    ) -> None:
        for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
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

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        """Update every parameter that has a gradient; returns the closure's loss if one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            touched = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in touched:
                self.prepare(parameter)
            if group["fused"] and group["correct_bias"]:
                self.update_fused(touched, group)
            else:
                for parameter in touched:
                    self.update(parameter, group)
        return loss

    def prepare(self, parameter: torch.Tensor) -> None:
        """Count the step; a parameter's state is that count and the two moments, of its own shape."""
        state = self.state[parameter]
        if parameter.grad.is_sparse:
            raise ValueError("AdamW needs dense gradients; build the embedding with sparse=False.")
        if not state:
            state["step"] = 0
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        state["step"] += 1

    def update(self, parameter: torch.Tensor, group: dict) -> None:
        """One parameter's step, one formula a line."""
        gradient, state = parameter.grad, self.state[parameter]
        first_moment, second_moment = state["first_moment"], state["second_moment"]
        beta_1, beta_2 = group["betas"]

        first_moment.lerp_(gradient, 1 - beta_1)  # m = b1 m + (1 - b1) g
        second_moment.mul_(beta_2).addcmul_(
            gradient, gradient, value=1 - beta_2
        )  # v = b2 v + (1 - b2) g^2
        step_size = group["lr"]
        if group["correct_bias"]:  # the moments start at 0 and are too small in the first steps
            step_size *= math.sqrt(1 - beta_2 ** state["step"]) / (1 - beta_1 ** state["step"])
        parameter.addcdiv_(first_moment, second_moment.sqrt().add_(group["eps"]), value=-step_size)
        if group["weight_decay"] > 0.0:  # decoupled: it never enters the moments
            # p - (lr decay) p, not p (1 - lr decay): in float32 1 - 1e-7 is 1 - 1.2e-7, a fifth too much decay.
            parameter.add_(parameter, alpha=-group["lr"] * group["weight_decay"])

    def update_fused(self, parameters: list[torch.Tensor], group: dict) -> None:
        """The step of `update` for many parameters through torch.optim's kernel, whose formula is another one.

        It adds eps to the corrected sqrt(v), so it gets eps / sqrt(1 - b2^t); it decays before the step, p (1 - d) - s,
        where (p - s) (1 - d) is wanted, d = lr weight_decay, so its step s is made (1 - d) times as long. It multiplies
        by 1 - d in float32, where d is rounded to a multiple of 6e-8: 5e-7 (5e-5 x .01) by a sixteenth at most, 1e-7 to
        1.2e-7, and under 3e-8 nothing decays.
        """
        by_step: dict[int, list[torch.Tensor]] = {}
        for parameter in parameters:  # a head that some steps do not touch counts fewer of them
            by_step.setdefault(self.state[parameter]["step"], []).append(parameter)
        decay = group["lr"] * group["weight_decay"]
        beta_1, beta_2 = group["betas"]
        for step, members in by_step.items():
            states = [self.state[parameter] for parameter in members]
            adamw(
                members,
                [parameter.grad for parameter in members],
                [state["first_moment"] for state in states],
                [state["second_moment"] for state in states],
                [],
                list(
                    torch.full((len(members),), step - 1.0, device=members[0].device)
                ),  # the kernel adds 1
                fused=True,
                amsgrad=False,
                maximize=False,
                beta1=beta_1,
                beta2=beta_2,
                lr=group["lr"] * (1 - decay),
                weight_decay=group["weight_decay"] / (1 - decay),
                eps=group["eps"] / math.sqrt(1 - beta_2**step),
            )


def parameter_groups(
    model: torch.nn.Module, weight_decay: float, lr_of: Callable[[str], float] | None = None
) -> list[dict]:
    """Groups for AdamW: matrices and embeddings with `weight_decay`, biases and LayerNorm (one dimension) without.

    So does the released code of Devlin et al. 2019. Only parameters that require a gradient are listed. With lr_of,
    name of a parameter -> its learning rate, there are two groups for every rate.
    """
    by_rate: dict[float | None, list] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            by_rate.setdefault(lr_of(name) if lr_of else None, []).append(parameter)
    groups = []
    for rate, parameters in by_rate.items():
        chosen = {} if rate is None else {"lr": rate}
        groups += [
            {
                "params": [p for p in parameters if p.ndim > 1],
                "weight_decay": weight_decay,
                **chosen,
            },
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0, **chosen},
        ]
    return groups


def layer_decayed(lr: float, decay: float, num_layers: int) -> Callable[[str], float]:
    """Layer-wise learning-rate decay (Clark et al. 2020, ELECTRA, appendix): `lr_of` for `parameter_groups`.

    lr: peak rate, above 0; decay in (0, 1]. Layer l of `encoder.layers`, 0 to L - 1, gets lr x decay^(L - l), the
    embeddings lr x decay^(L + 1); what stands on the encoder, its pooler too, gets lr. ELECTRA's code has one factor
    more between head and encoder: its last layer gets lr x decay^2.
    """

    def lr_of(name: str) -> float:
        if name.startswith("encoder.embeddings"):
            return lr * decay ** (num_layers + 1)
        if name.startswith("encoder.layers."):
            return lr * decay ** (num_layers - int(name.split(".")[2]))
        return lr

    return lr_of
