"""Averages of a model's weights over the steps of training: EMA and SWA.

The optimizer goes on with the weights themselves. The average is scored, kept as the best model
and written at the end. Both averages are a line of mathematics, and WeightAverage applies one of
them to a model. loop.py calls it after each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

COUNT = "count"  # the name of the number of averaged weights in a checkpoint


# --- the mathematics ------------------------------------------------------------------------------


def moving_average(average: Tensor, weights: Tensor, decay: float) -> Tensor:
    """One step of an exponential moving average (EMA).

        average <- b average + (1 - b) weights

    It is the mean of all past weights, in which the weights of n steps ago count b^n as much as
    those of now. Polyak and Juditsky 1992 average iterates, with equal weights.

    average, weights: of one shape. decay: b, in [0, 1). Returns a new tensor. Equal tensors stay as
    they are, to the bit. Compare with torch.optim.swa_utils.get_ema_multi_avg_fn.
    """
    # The same as the formula, written so that a difference of 0 changes no bit.
    return average + (1 - decay) * (weights - average)


def warmed_up_decay(decay: float, num_averaged: int) -> float:
    """The decay of an early step, min(b, (1 + n) / (10 + n)), as TensorFlow has it.

    Without it, the first weights would be a large part of the average of a short run. With n = 0
    it is 0.1, and after 10,000 steps 0.999.

    decay: b, in [0, 1). num_averaged: n, how many weights the average holds already, at least 0.
    """
    return min(decay, (1 + num_averaged) / (10 + num_averaged))


def running_mean(average: Tensor, weights: Tensor, num_averaged: int) -> Tensor:
    """One step of stochastic weight averaging, SWA (Izmailov et al. 2018, algorithm 1).

        average <- (n average + weights) / (n + 1)

    average: the mean of n weights. weights: of the same shape. num_averaged: n, at least 0.
    Returns a new tensor, the plain mean of n + 1 weights. Compare with
    torch.optim.swa_utils.AveragedModel.
    """
    return average + (weights - average) / (num_averaged + 1)


# --- in the loop ----------------------------------------------------------------------------------


class WeightAverage:
    """The average of a model's weights, as the training loop keeps it.

    method: "ema" or "swa". decay: of ema. start: the share of the steps before swa begins. every:
    steps between two weights that swa averages (c in algorithm 1; the paper has one epoch).

    Parameters without a gradient, such as frozen ones, and buffers are not averaged.
    """

    def __init__(
        self, model: nn.Module, method: str, decay: float, start: float, every: int
    ) -> None:
        self.parameters = dict(model.named_parameters())
        self.method = method
        self.decay = decay
        self.start = start
        self.every = every
        self.num_averaged = 0
        self.average: dict[str, Tensor] = {}  # empty until the first weights are taken

    def update(self, step: int, num_steps: int) -> None:
        """Take the weights after a step into the average, if this step counts.

        step: counted from 1. num_steps: of the whole job.
        """
        if not self.counts(step, num_steps):
            return
        for name, parameter in self.parameters.items():
            if not parameter.requires_grad:
                continue
            weights = parameter.detach()
            if name not in self.average:
                self.average[name] = weights.clone()
            elif self.method == "ema":
                decay = warmed_up_decay(self.decay, self.num_averaged)
                self.average[name] = moving_average(self.average[name], weights, decay)
            else:
                self.average[name] = running_mean(self.average[name], weights, self.num_averaged)
        self.num_averaged += 1

    def counts(self, step: int, num_steps: int) -> bool:
        """Whether the weights after this step belong to the average."""
        if self.method == "ema":
            return True
        first = max(1, round(self.start * num_steps))
        return step >= first and (step - first) % self.every == 0

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Within it the model has the averaged weights. Afterwards it has its own, to the bit.

        Before the first weights are averaged it changes nothing.
        """
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def swap(self) -> None:
        """Exchange the values of the model and of the average."""
        with torch.no_grad():
            for name, averaged in self.average.items():
                parameter = self.parameters[name]
                weights = parameter.detach().clone()
                parameter.copy_(averaged)
                averaged.copy_(weights)

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint has to hold."""
        return {COUNT: torch.tensor(self.num_averaged), **self.average}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned. KeyError for a state of no average."""
        self.num_averaged = int(state[COUNT])
        self.average = {}
        for name, tensor in state.items():
            if name != COUNT:
                self.average[name] = tensor.to(self.parameters[name].device, copy=True)

    def clear(self) -> None:
        """Free the memory of the average. It holds no weights afterwards."""
        self.num_averaged = 0
        self.average = {}
