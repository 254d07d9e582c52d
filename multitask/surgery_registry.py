"""The methods of --surgery by name, each with its options and their checks. No torch here.

surgery.py has the mathematics. combining.py calls a method in the training loop.

Legend: K tasks of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

from data.options import check_numbers
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Entry, Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from multitask.surgery import Reduction


class GradientStep(NamedTuple):
    """What a method that changes gradients gets of a step.

    A method of a user's own file may also keep tensors in `memory`, each under a name of its
    choice. They are there again in the next step, and in a run that is resumed.
    """

    gramian: Tensor  # (K, K) float64 on the CPU, in the order of the losses
    # Of the K tasks, each the mean over its rows, before the step and without a weight.
    losses: Mapping[str, float]
    # (K, K) float64: a number that the run keeps for each pair of tasks, 0 at first. GradVac has
    # its targets here. A method may change them in place.
    targets: Tensor
    generator: torch.Generator  # for all random numbers, so that a run can be resumed
    method_options: MethodOptions  # TaskOptions.of_surgery
    memory: dict[str, Tensor]  # on the CPU; empty at first


def accept(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For a method whose options fit all tasks."""


@dataclass(frozen=True, kw_only=True)
class Surgery(Entry):
    """A value of --surgery. A method of a user's own file has either `weigh` or `combine`."""

    changes_gradients: bool = False  # whether each task's own gradient is needed
    needs_several_tasks: bool = True  # it changes nothing in a step of one task
    # ValueError where its own options do not fit the tasks of the run.
    check: Callable[[MethodOptions, Sequence[str]], None] = accept

    # The function of a user's own method. combining.py names those of surgery.py.
    # (the K tasks of a step, method options) -> K weights of their losses
    weigh: Callable[[Sequence[str], MethodOptions], Sequence[float]] | None = None
    # From the dot products of the K gradients to their weights, (K,)
    combine: Callable[[GradientStep], Tensor] | None = None


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
    step.method_options[YourGroup].your_option. ValueError where the name exists, and for a method
    that has both functions or none.
    """
    if isinstance(surgery, Surgery):
        if (surgery.weigh is None) == (surgery.combine is None):
            raise ValueError("a surgery has either weigh or combine, and not both.")
        surgery = replace(surgery, changes_gradients=surgery.combine is not None)
    SURGERIES.register(name, surgery)


# --- the methods of surgery.py --------------------------------------------------------------------


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
        return cast("Reduction", self.surgery_reduction)


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


def check_loss_weights(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For weighted."""
    text = method_options[LossWeightOptions].loss_weights
    if text == NONE:
        raise ValueError("--surgery weighted has no weights; add --loss_weights, such as para=2.")
    check_numbers("loss_weights", text, tasks, ",".join(tasks))


SURGERIES["mean"] = Surgery(title="of the losses", needs_several_tasks=False)
SURGERIES["sum"] = Surgery(title="of the losses")
SURGERIES["weighted"] = Surgery(
    title="the sum with --loss_weights",
    needs_several_tasks=False,
    check=check_loss_weights,
    options=(LossWeightOptions,),
)
SURGERIES["pcgrad"] = Surgery(
    title="projects gradients that conflict (Yu et al. 2020)",
    changes_gradients=True,
    options=(ReductionOptions,),
)
SURGERIES["gradvac"] = Surgery(
    title="moves gradients towards a target cosine (Wang et al. 2021)",
    changes_gradients=True,
    options=(ReductionOptions, GradVacOptions),
)
SURGERIES["cagrad"] = Surgery(
    title="near the mean gradient, the update that helps the worst task most (Liu et al. 2021)",
    changes_gradients=True,
    options=(ReductionOptions, CaGradOptions),
)
SURGERIES["upgrad"] = Surgery(
    title="projects each gradient so that it conflicts with no task (Quinton and Rey 2024)",
    changes_gradients=True,
    options=(ReductionOptions,),
)
