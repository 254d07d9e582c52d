"""The regularisers by name, with their options and with what --regulariser needs to know of each.

No torch here. regularised_loss.py has the functions by the same names, and regularisers.py the
mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minbert.commands.options import NONE, MethodOptions, OnlyWith, OptionGroup, changed, flag
from minbert.commands.registry import Entry, Registry

# What a step costs, in usual steps. A forward pass is a third of it. A backward pass that only
# goes to the embeddings, and not to the weights, is another third.
FORWARD = 1 / 3
BACKWARD_TO_EMBEDDINGS = 1 / 3


def once(method_options: MethodOptions) -> float:
    """The cost of a step with one forward pass."""
    return 1.0


@dataclass(frozen=True, kw_only=True)
class RegulariserEntry(Entry):
    """A value of --regulariser."""

    # The cost of a step, in steps without a regulariser.
    cost: Callable[[MethodOptions], float] = once


REGULARISERS: Registry[RegulariserEntry] = Registry("regulariser", RegulariserEntry)


# --- their options --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RDropOptions(OptionGroup):
    """Option of r-drop."""

    r_drop_weight: float = flag(
        1.0,
        "With --regulariser r-drop: the weight of the disagreement (alpha in the paper).",
        low=0,
    )


PROXIMAL = ("momentum", "vanilla")


@dataclass(frozen=True)
class SmartOptions(OptionGroup):
    """Options of smart."""

    smart_weight: float = flag(
        1.0,
        "With --regulariser smart: the weight of the adversarial term (lambda_s in the paper, "
        "which has 1, 3 and 5). 0: without that term.",
        low=0,
    )
    smart_epsilon: float = flag(
        1e-5,
        "With --regulariser smart: the largest change of a number of the word embeddings "
        "(epsilon). The paper's value is so small that it hardly changes the gradient. 0.01 does, "
        "with --smart_sigma 0.01 and --smart_step 0.01.",
        low=1e-9,
    )
    smart_sigma: float = flag(
        1e-5,
        "With --regulariser smart: the standard deviation of the random start of that change "
        "(sigma).",
        low=1e-9,
    )
    smart_step: float = flag(
        1e-3,
        "With --regulariser smart: the step size of the ascent to the worst change (eta).",
        low=1e-9,
    )
    smart_steps: int = flag(
        1, "With --regulariser smart: the number of steps of that ascent.", low=1, high=100
    )
    proximal: str = flag(
        "momentum",
        "With --regulariser smart: the earlier model that the outputs stay close to.\n"
        "- momentum: a moving average of the weights\n"
        "- vanilla: the weights of some steps ago\n"
        "- none: without that term",
        choices=(*PROXIMAL, NONE),
    )
    proximal_weight: float = flag(
        1.0,
        "With --regulariser smart: the weight of the distance from the earlier model (mu).",
        low=1e-9,
        only_with=OnlyWith("proximal", PROXIMAL),
    )
    proximal_decay: float = flag(
        0.999,
        "With --proximal momentum: the share of the old average that stays in each step (beta). In "
        "the first tenth of the steps it is at most 0.99, as in the paper.",
        low=0,
        high=0.999999,
        only_with=OnlyWith("proximal", ("momentum",)),
    )
    proximal_every: int = flag(
        100,
        "With --proximal vanilla: the number of steps between two earlier models (S). The paper "
        "names none.",
        low=2,
        only_with=OnlyWith("proximal", ("vanilla",)),
    )

    @property
    def is_adversarial(self) -> bool:
        """Whether the word embeddings are perturbed."""
        return self.smart_weight > 0

    @property
    def is_proximal(self) -> bool:
        """Whether the outputs are compared with those of an earlier model."""
        return self.proximal != NONE

    def check(self) -> None:
        if not self.is_adversarial and not self.is_proximal:
            raise ValueError(
                "--smart_weight 0 and --proximal none leave nothing of SMART. Drop one of the two, "
                "or pass --regulariser none."
            )
        of_ascent = {"smart_epsilon", "smart_sigma", "smart_step", "smart_steps"} & set(
            changed(self)
        )
        if of_ascent and not self.is_adversarial:
            raise ValueError(
                f"--{min(of_ascent)} has no effect with --smart_weight 0; drop one of the two."
            )


# --- the regularisers -----------------------------------------------------------------------------


def cost_of_r_drop(method_options: MethodOptions) -> float:
    """Every row is computed twice."""
    return 2.0


def cost_of_smart(method_options: MethodOptions) -> float:
    """One more step on the perturbed rows, the ascent to them, and a pass of the earlier model."""
    options = method_options[SmartOptions]
    cost = 1.0
    if options.is_adversarial:
        cost += 1 + options.smart_steps * (FORWARD + BACKWARD_TO_EMBEDDINGS)
    if options.is_proximal:
        cost += FORWARD
    return cost


REGULARISERS[NONE] = RegulariserEntry(title="nothing")
REGULARISERS["r-drop"] = RegulariserEntry(
    title="two forward passes with different dropout must agree (Liang et al. 2021). A step takes "
    "about twice as long",
    cost=cost_of_r_drop,
    options=(RDropOptions,),
)
REGULARISERS["smart"] = RegulariserEntry(
    title="a small change of the word embeddings or of the weights must change little (Jiang et "
    "al. 2020). A step takes about three times as long",
    cost=cost_of_smart,
    options=(SmartOptions,),
)
