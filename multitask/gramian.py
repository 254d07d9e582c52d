"""Gradient surgery from dot products alone, and the methods of --surgery by name.

The functions here are the fast twins of those in surgery.py. All methods look at gradients only
through their dot products. So the K x K Gramian tells everything, and the long gradients are read
once. A gradient that is being changed is kept as its weights w on the original ones. Its dot
product with g_j is then G[j] . w, and its squared length w . G w.

A new method is a function from the Gramian to the weights of the gradients, and an entry of
SURGERIES at the end of this file. combining.py calls it in the training loop.

Legend: K tasks of a step, G the Gramian with G[i, j] = g_i . g_j.
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
from multitask.surgery import SMALLEST_LENGTH, SMALLEST_SINE, Reduction, reduce, worst_mixture

if TYPE_CHECKING:
    from torch import Tensor


def pcgrad_weights(
    gramian: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """The weights with which `pcgrad` adds up the original gradients (Yu et al. 2020, algorithm 1).

    Row i of the weights begins one-hot. Where G[j] . w_i is below 0, w_ij loses
    (G[j] . w_i) / G[j, j].

    gramian: (K, K), float32 or better float64. Returns (K,) of the same dtype, such that
    weights @ gradients is surgery.pcgrad(gradients). generator and errors: as there.
    """
    num_tasks = len(gramian)
    # Row i: the projected g_i in terms of the original gradients.
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)  # (K, K)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            product = gramian[j] @ weights[i]
            squared_norm = gramian[j, j]
            # A square may be too small for its dtype. It is then 0, and g_j is passed over.
            if j != i and product < 0 < squared_norm:
                weights[i, j] -= product / squared_norm
    return reduce(weights, reduction)


class WeightsAndTargets(NamedTuple):
    """The result of one step of gradient vaccine."""

    weights: Tensor  # (K,), of the original gradients
    targets: Tensor  # (K, K), moved


def gradvac_weights(
    gramian: Tensor,
    targets: Tensor,
    beta: float = 0.01,
    reduction: Reduction = "sum",
    generator: torch.Generator | None = None,
) -> WeightsAndTargets:
    """The weights with which `gradvac` adds up the original gradients (Wang et al. 2021).

    gramian: (K, K). targets: (K, K) in [-1, 1], row i for the gradient of task i. beta: 0 to 1.
    The arguments are not changed. weights @ gradients is the gradient of surgery.gradvac. A zero
    gradient is passed over. reduction, generator and errors: as there.
    """
    num_tasks = len(gramian)
    targets = targets.clone()
    # Row i: the changed g_i in terms of the original gradients.
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)  # (K, K)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            norm = (weights[i] @ gramian @ weights[i]).clamp(min=0).sqrt()
            other_norm = gramian[j, j].sqrt()
            if j == i or norm == 0 or other_norm == 0:
                continue
            cosine = (gramian[j] @ weights[i] / (norm * other_norm)).clamp(-1, 1)
            target = targets[i, j].clone()
            targets[i, j] = (1 - beta) * target + beta * cosine
            if cosine < target:
                # Equation 4, as in surgery.gradvac.
                target_sine = (1 - target**2).sqrt().clamp(min=SMALLEST_SINE)
                cosine_sine = (1 - cosine**2).sqrt()
                numerator = norm * (target * cosine_sine - cosine * target_sine)
                weights[i, j] += numerator / (other_norm * target_sine)
    return WeightsAndTargets(reduce(weights, reduction), targets)


def cagrad_weights(gramian: Tensor, radius: float = 0.5, reduction: Reduction = "mean") -> Tensor:
    """The weights with which `cagrad` adds up the original gradients (Liu et al. 2021).

        d = sum_i (1 / K + c |g_0| / |g_w| w_i) g_i

    gramian: (K, K) float64. radius: c, at least 0. Returns (K,) float64, such that
    weights @ gradients is surgery.cagrad(gradients). reduction and errors: as there.
    """
    num_tasks = len(gramian)
    even = torch.full((num_tasks,), 1 / num_tasks, dtype=torch.float64)
    mixture = worst_mixture(gramian, radius)  # w, (K,)
    # |g_0|^2 = b . G b with b = 1 / K, and |g_w|^2 = w . G w.
    mean_length = (even @ gramian @ even).clamp(min=0).sqrt()
    mixture_length = (mixture @ gramian @ mixture).clamp(min=0).sqrt()

    weights = even
    if mixture_length > SMALLEST_LENGTH * gramian.trace().sqrt():
        weights = even + radius * mean_length / mixture_length * mixture
    return reduce(weights.expand(num_tasks, -1), reduction)


def upgrad_weights(gramian: Tensor, reduction: Reduction = "mean") -> Tensor:
    """The weights with which `upgrad` adds up the original gradients (Quinton and Rey 2024).

    The projection of g_i is g_i + sum_j u_j g_j with the u >= 0 that make it shortest (proposition
    1). This is non-negative least squares, which scipy solves exactly.

    gramian: (K, K) float64. Returns (K,) float64, such that weights @ gradients is
    surgery.upgrad(gradients). reduction and errors: as there.
    """
    # Imported late: scipy takes half a second, and `--help` must answer at once.
    from scipy.optimize import nnls

    # Gradients of length 1 have the same projections. A zero gradient stays zero.
    lengths = gramian.diagonal().sqrt()  # (K,)
    divisors = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    cosines = gramian / torch.outer(divisors, divisors)  # (K, K)
    # Short vectors with the same dot products as the gradients: the columns of a root of `cosines`.
    values, vectors = torch.linalg.eigh(cosines)
    root = (values.clamp(min=0).sqrt()[:, None] * vectors.T).numpy()  # (K, K)

    weights = torch.eye(len(gramian), dtype=torch.float64)  # (K, K)
    for i in range(len(gramian)):
        added, _ = nnls(root, -root[:, i])
        weights[i] += torch.from_numpy(added) * divisors[i] / divisors
    return reduce(weights, reduction)


# --- methods by name ------------------------------------------------------------------------------


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


# --- the methods of this file and of surgery.py ---------------------------------------------------


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
