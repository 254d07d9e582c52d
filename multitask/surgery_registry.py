"""The methods of --surgery by name, each with its options and with everything that belongs to it.

gramian.py and surgery.py have the mathematics. combining.py calls a method in the training loop.

Legend: K tasks of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from data.options import check_numbers, numbers_by_task
from minbert.commands.late import torch
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Entry, Fixture, Registry
from multitask import surgery
from multitask.gramian import cagrad_weights, gradvac_weights, pcgrad_weights, upgrad_weights
from multitask.surgery import Reduction

if TYPE_CHECKING:
    from torch import Tensor


class GradientStep(NamedTuple):
    """What a method that changes gradients gets of a step."""

    gramian: Tensor  # (K, K) float64 on the CPU
    # (K, K) float64: a number that the run keeps for each pair of tasks, 0 at first. GradVac has
    # its targets here. A method may change them in place.
    targets: Tensor
    generator: torch.Generator  # for all random numbers, so that a run can be resumed
    method_options: MethodOptions  # TaskOptions.of_surgery


def accept(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For a method whose options fit all tasks."""


@dataclass(frozen=True, kw_only=True)
class Surgery(Entry):
    """A value of --surgery: either `weigh` or `combine`."""

    # (the K tasks of a step, method options) -> K weights of their losses
    weigh: Callable[[Sequence[str], MethodOptions], Sequence[float]] | None = None
    # From the dot products of the K gradients to their weights, (K,)
    combine: Callable[[GradientStep], Tensor] | None = None
    needs_several_tasks: bool = True  # it changes nothing in a step of one task
    # ValueError where its own options do not fit the tasks of the run.
    check: Callable[[MethodOptions, Sequence[str]], None] = accept

    def __post_init__(self) -> None:
        if (self.weigh is None) == (self.combine is None):
            raise ValueError("a surgery has either weigh or combine, and not both.")

    @property
    def changes_gradients(self) -> bool:
        """Whether each task's own gradient is needed."""
        return self.combine is not None


SURGERIES: Registry[Surgery] = Registry("surgery", Surgery)


def register_surgery(name: str, surgery: Surgery) -> None:
    """Add a value of --surgery, from a file that is given to --plugin.

        from multitask import Surgery, register_surgery

        def shortest(step):
            # The update follows the shortest of the gradients alone.
            lengths = step.gramian.diagonal()  # (K,), the squared lengths
            return (lengths == lengths.min()).double()

        register_surgery(
            "shortest", Surgery(title="the shortest gradient alone", combine=shortest)
        )

    The gradient of the step is the sum of the tasks' gradients with these weights. A method that
    only weighs losses has `weigh` in place of `combine`: it gets the names of the step's tasks.

    An option of your own is a field of an OptionGroup. Name the group in `options`, and read it as
    step.method_options[YourGroup].your_option. ValueError where the name exists.
    """
    SURGERIES.register(name, surgery)


# --- the methods of gramian.py and of surgery.py --------------------------------------------------


@dataclass(frozen=True)
class ReductionOptions(OptionGroup):
    """Option of all methods that change gradients."""

    surgery_reduction: str = flag(
        "sum",
        "With --surgery pcgrad, gradvac, cagrad or upgrad: the changed gradients are summed or "
        "averaged. The papers of PCGrad and GradVac sum, those of CAGrad and UPGrad average. "
        "Compare sums with --surgery sum.",
        choices=("sum", "mean"),
    )

    @property
    def reduction(self) -> Reduction:
        """Its value, as the methods take it."""
        return cast(Reduction, self.surgery_reduction)


@dataclass(frozen=True)
class GradVacOptions(OptionGroup):
    """Option of gradvac."""

    gradvac_beta: float = flag(
        0.01,
        "With --surgery gradvac: how fast its target follows the observed cosines.",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class CaGradOptions(OptionGroup):
    """Option of cagrad."""

    cagrad_radius: float = flag(
        0.5,
        "With --surgery cagrad: how far the update may be from the mean gradient, as a share of "
        "its length (c in the paper). With 0 it is the mean.",
        low=0,
        high=10,
    )


@dataclass(frozen=True)
class LossWeightOptions(OptionGroup):
    """Option of weighted."""

    loss_weights: str = flag(
        NONE,
        "With --surgery weighted: factors of the tasks' losses, such as para=2,sts=0.5. Tasks "
        "without a number have 1.",
    )


def mean_of_losses(tasks: Sequence[str], method_options: MethodOptions) -> list[float]:
    """--surgery mean."""
    return surgery.mean(tasks)


def sum_of_losses(tasks: Sequence[str], method_options: MethodOptions) -> list[float]:
    """--surgery sum: each loss has the weight 1."""
    return surgery.weighted(tasks, {})


def weighted_losses(tasks: Sequence[str], method_options: MethodOptions) -> list[float]:
    """--surgery weighted, with --loss_weights."""
    return surgery.weighted(tasks, numbers_by_task(method_options[LossWeightOptions].loss_weights))


def check_loss_weights(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For weighted."""
    text = method_options[LossWeightOptions].loss_weights
    if text == NONE:
        raise ValueError("--surgery weighted has no weights; add --loss_weights, such as para=2.")
    check_numbers("loss_weights", text, tasks, ",".join(tasks))


def combine_by_pcgrad(step: GradientStep) -> Tensor:
    """--surgery pcgrad, which has no targets."""
    return pcgrad_weights(
        step.gramian, step.method_options[ReductionOptions].reduction, step.generator
    )


def combine_by_gradvac(step: GradientStep) -> Tensor:
    """--surgery gradvac. It moves the targets."""
    beta = step.method_options[GradVacOptions].gradvac_beta
    reduction = step.method_options[ReductionOptions].reduction
    result = gradvac_weights(step.gramian, step.targets, beta, reduction, step.generator)
    step.targets.copy_(result.targets)
    return result.weights


def combine_by_cagrad(step: GradientStep) -> Tensor:
    """--surgery cagrad."""
    radius = step.method_options[CaGradOptions].cagrad_radius
    return cagrad_weights(step.gramian, radius, step.method_options[ReductionOptions].reduction)


def combine_by_upgrad(step: GradientStep) -> Tensor:
    """--surgery upgrad."""
    return upgrad_weights(step.gramian, step.method_options[ReductionOptions].reduction)


SURGERIES["mean"] = Surgery(title="of the losses", weigh=mean_of_losses, needs_several_tasks=False)
SURGERIES["sum"] = Surgery(title="of the losses", weigh=sum_of_losses)
SURGERIES["weighted"] = Surgery(
    title="the sum with --loss_weights",
    weigh=weighted_losses,
    needs_several_tasks=False,
    check=check_loss_weights,
    options=(LossWeightOptions,),
    fixture=Fixture(
        options={"loss_weights": "sst=3"}, values={"loss_weights": ["sst=3", "sst=2", "para=2"]}
    ),
)
SURGERIES["pcgrad"] = Surgery(
    title="projects gradients that conflict (Yu et al. 2020)",
    combine=combine_by_pcgrad,
    options=(ReductionOptions,),
    fixture=Fixture(values={"surgery_reduction": ["sum", "mean"]}),
)
SURGERIES["gradvac"] = Surgery(
    title="moves gradients towards a target cosine (Wang et al. 2021)",
    combine=combine_by_gradvac,
    options=(ReductionOptions, GradVacOptions),
    fixture=Fixture(values={"gradvac_beta": [0.01, 0.9], "surgery_reduction": ["sum", "mean"]}),
)
SURGERIES["cagrad"] = Surgery(
    title="near the mean gradient, the update that helps the worst task most (Liu et al. 2021)",
    combine=combine_by_cagrad,
    options=(ReductionOptions, CaGradOptions),
    fixture=Fixture(values={"cagrad_radius": [0.5, 0.9], "surgery_reduction": ["sum", "mean"]}),
)
SURGERIES["upgrad"] = Surgery(
    title="projects each gradient so that it conflicts with no task (Quinton and Rey 2024)",
    combine=combine_by_upgrad,
    options=(ReductionOptions,),
    fixture=Fixture(values={"surgery_reduction": ["sum", "mean"]}),
)
