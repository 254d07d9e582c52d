"""A task's loss with the regulariser of --regulariser, as the training loop calls it.

regularisers.py has the mathematics. Here are the forward passes whose outputs it compares.
Legend: B batch, C classes, R encoded rows, T tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from data.batching import Batch
from minbert.commands.options import NONE, MethodOptions
from minbert.training import processes, runtime
from multitask.model import MultitaskBert
from multitask.options import FineTuningOptions
from multitask.proximal import ReferenceModel
from multitask.regulariser_registry import RDropOptions, SmartOptions
from multitask.regularisers import adversarial_perturbation, r_drop, smart, symmetric_divergence
from multitask.tasks import Loss


class RegularisedBatch(NamedTuple):
    """What a regulariser gets: a batch of one task, and how it is computed."""

    model: MultitaskBert
    task: str
    batch: Batch
    loss: Loss  # of the task: outputs and labels -> a scalar
    method_options: MethodOptions  # FineTuningOptions.of_regulariser
    reference: ReferenceModel | None  # of smart

    def outputs(self) -> Tensor:
        """The raw outputs of a forward pass, (B, C) or (B,). Each call draws dropout masks."""
        return self.model(self.task, self.batch)

    def loss_of(self, outputs: Tensor) -> Tensor:
        """The task's loss of these outputs, a scalar."""
        return self.loss(outputs, cast(Tensor, self.batch.labels))

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """How far two outputs are apart, a scalar."""
        return symmetric_divergence(first, second, self.model.tasks[self.task].kind)


# --- the regularisers -----------------------------------------------------------------------------


def plain_loss(task_batch: RegularisedBatch) -> Tensor:
    """--regulariser none: the task's loss."""
    return task_batch.loss_of(task_batch.outputs())


def r_drop_loss(task_batch: RegularisedBatch) -> Tensor:
    """--regulariser r-drop: the losses of two passes, and their disagreement."""
    first = task_batch.outputs()
    second = task_batch.outputs()  # it draws other dropout masks
    divergence = task_batch.divergence(first, second)
    weight = task_batch.method_options[RDropOptions].r_drop_weight
    return r_drop(task_batch.loss_of(first), task_batch.loss_of(second), divergence, weight)


def smart_loss(task_batch: RegularisedBatch) -> Tensor:
    """--regulariser smart: the loss, the effect of a perturbation, the distance from the reference.

    All passes of a batch have the same dropout masks. So only the perturbation, or only the
    weights, make their outputs differ. The generators end as after one pass and the random start.
    """
    options = task_batch.method_options[SmartOptions]
    state = runtime.random_state()
    outputs = task_batch.outputs()
    nothing = outputs.new_zeros((), dtype=torch.float32)

    smoothness = nothing
    if options.is_adversarial:
        perturbed = perturbed_outputs(task_batch, options, outputs, state)
        smoothness = task_batch.divergence(perturbed, outputs)

    proximity = nothing
    if task_batch.reference is not None:
        with runtime.repeating(state):
            earlier = task_batch.reference.outputs(task_batch.task, task_batch.batch)
        proximity = task_batch.divergence(outputs, earlier)

    loss = task_batch.loss_of(outputs)
    return smart(loss, smoothness, proximity, options.smart_weight, options.proximal_weight)


def perturbed_outputs(
    task_batch: RegularisedBatch, options: SmartOptions, outputs: Tensor, state: dict[str, Tensor]
) -> Tensor:
    """The outputs with the worst perturbation of the word embeddings, (B, C) or (B,).

    outputs: those without it. state: of the generators before they were computed.
    """
    words = task_batch.model.encoder.embeddings.word

    def outputs_of(perturbation: Tensor) -> Tensor:
        with runtime.repeating(state), perturbing(words, perturbation):
            return task_batch.outputs()

    shape = (*task_batch.batch.input_ids.shape, words.embedding_dim)  # (R, T, H)
    start = options.smart_sigma * torch.randn(shape, device=outputs.device)  # (R, T, H)
    perturbation = adversarial_perturbation(
        outputs_of,
        outputs,
        start,
        task_batch.model.tasks[task_batch.task].kind,
        options.smart_step,
        options.smart_epsilon,
        options.smart_steps,
    )
    return outputs_of(perturbation)


@contextmanager
def perturbing(words: nn.Embedding, perturbation: Tensor) -> Iterator[None]:
    """Within it the looked-up embeddings (R, T, H) have `perturbation` added to them."""

    def add(module: nn.Module, inputs: Any, embedded: Tensor) -> Tensor:
        return embedded + perturbation  # (R, T, H)

    hook = words.register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()


# The function of each entry in regulariser_registry.py.
FUNCTIONS: dict[str, Callable[[RegularisedBatch], Tensor]] = {
    NONE: plain_loss,
    "r-drop": r_drop_loss,
    "smart": smart_loss,
}


# --- in the loop ----------------------------------------------------------------------------------


def task_loss(task_batch: RegularisedBatch, regulariser: str) -> Tensor:
    """The mean loss of a batch, a float32 scalar, with the regulariser of this name.

    Of several processes each computes only its rows. Its result is their share of the loss.
    """
    indices, share = processes.own_rows(len(task_batch.batch.ids))
    if processes.count() > 1:
        task_batch = task_batch._replace(batch=task_batch.batch.part(indices))
    with processes.own_randomness():
        return FUNCTIONS[regulariser](task_batch) * share


def reference_model(options: FineTuningOptions, model: MultitaskBert) -> ReferenceModel | None:
    """The earlier model that --regulariser smart compares with, or None."""
    of_smart = options.of_regulariser[SmartOptions]
    if options.regulariser != "smart" or not of_smart.is_proximal:
        return None
    return ReferenceModel(
        model, of_smart.proximal, of_smart.proximal_decay, of_smart.proximal_every
    )


def check_regulariser(options: FineTuningOptions, model: MultitaskBert, precision: str) -> None:
    """Raise ValueError where a regulariser would compare two equal passes."""
    if options.regulariser == "r-drop":
        check_dropout(model)
    of_smart = options.of_regulariser[SmartOptions]
    if options.regulariser == "smart" and of_smart.is_adversarial and precision == "bf16":
        check_bf16(of_smart, model)


def check_dropout(model: MultitaskBert) -> None:
    """R-Drop needs dropout."""
    encoder = model.encoder.config
    probabilities = [model.options.vector_dropout_prob, model.options.hidden_dropout_prob]
    if model.has_encoder_dropout:
        probabilities += [encoder.hidden_dropout_prob, encoder.attention_probs_dropout_prob]
    if not any(probabilities):
        raise ValueError(
            "--regulariser r-drop has no effect without dropout, because both passes are equal. "
            "Add --hidden_dropout_prob 0.1 or --encoder_dropout 0.1, or pass --regulariser none."
        )


def check_bf16(options: SmartOptions, model: MultitaskBert) -> None:
    """SMART needs a perturbation that bf16 does not round away."""
    size = float(model.encoder.embeddings.word.weight.detach().std())
    # bf16 keeps 8 bits of a number. A change below this share of it may be rounded away.
    unit_roundoff = torch.finfo(torch.bfloat16).eps / 2
    smallest = unit_roundoff * size
    for name in ("smart_epsilon", "smart_sigma"):
        value = getattr(options, name)
        if value < smallest:
            raise ValueError(
                f"--{name} {value:g} has no effect with --precision bf16, which rounds it away: "
                f"the word embeddings have a standard deviation of {size:.2g}, and bf16 keeps 8 "
                f"bits of a number. Pass --precision fp32, or at least {smallest:.1g}."
            )
