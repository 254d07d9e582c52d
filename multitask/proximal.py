"""The earlier model of Bregman proximal point optimization, for --regulariser smart.

The loss of SMART compares the outputs of the model with those of an earlier one, the reference
model. Its weights follow those of the model, and its outputs get no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from data.batching import Batch
from minbert.training.averaging import moving_average
from multitask.model import MultitaskBert
from multitask.regularisers import reference_decay


class ReferenceModel:
    """The model with earlier weights (Jiang et al. 2020, section 3.2).

        vanilla     theta_t, the weights at the last step that was a multiple of S
        momentum    theta~_t = (1 - beta) theta_t + beta theta~_(t-1)

    Weights without a gradient, such as frozen ones, are those of the model.

    method: "vanilla" or "momentum". decay: beta of momentum. every: S of vanilla, at least 2. With
    S = 1 the reference would be the model itself.
    """

    def __init__(self, model: MultitaskBert, method: str, decay: float, every: int) -> None:
        self.model = model
        self.method = method
        self.decay = decay
        self.every = every
        self.weights: dict[str, Tensor] = {}  # empty until the job begins

    def begin(self) -> None:
        """Take the weights as they are: theta_0. A job calls it before its first step."""
        self.weights = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                self.weights[name] = parameter.detach().clone()

    def update(self, step: int, num_steps: int) -> None:
        """Follow the weights after a step. step: counted from 1. num_steps: of the whole job."""
        parameters = dict(self.model.named_parameters())
        for name, earlier in self.weights.items():
            weights = parameters[name].detach()
            if self.method == "momentum":
                decay = reference_decay(self.decay, step, num_steps)
                self.weights[name] = moving_average(earlier, weights, decay)
            elif step % self.every == 0:
                self.weights[name] = weights.clone()

    def outputs(self, task: str, batch: Batch) -> Tensor:
        """The raw outputs of the earlier model for a batch, without a gradient.

        Before `begin` they are those of the model itself, at the same cost.
        """
        with torch.no_grad():
            return functional_call(self.model, self.weights, (task, batch))

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint has to hold."""
        return dict(self.weights)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""
        device = next(self.model.parameters()).device
        self.weights = {name: tensor.to(device, copy=True) for name, tensor in state.items()}

    def clear(self) -> None:
        """Free the memory of the weights. They are those of the model until `begin`."""
        self.weights = {}
