"""The switch for fast formulas, and the code of those that are too long for a branch.

A lesson file computes its formula step by step. Where another form saves time, the same function
has a branch that begins with `if fast.is_on():`. docs/formulas.md says what each branch saves.

The fast branches are taken unless a lesson file was edited. Then the readable ones are taken, so
that whoever edits a formula sees the edit run. --formulas decides it by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.adamw import adamw

# --- the switch -----------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parent.parent

# SHA-256 of each lesson file as released, by its path, such as "minbert/attention.py".
RELEASED = Path(__file__).parent / "lesson_digests.json"


class FormulasChoice(NamedTuple):
    """Which formulas a run computes with, and why."""

    formulas: str  # "readable" or "fast"
    reason: str


def digest_of(file: Path) -> str:
    """SHA-256 of a text file as 64 hex digits. Windows' line ends count as plain ones."""
    content = file.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(content).hexdigest()


def edited_lessons() -> list[str]:
    """The lesson files that differ from the released ones, such as "minbert/attention.py".

    A hand-out may lack some of them. They are passed over.
    """
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    edited = []
    for name, digest in released.items():
        file = ROOT / name
        if file.is_file() and digest_of(file) != digest:
            edited.append(name)
    return edited


# The lesson files are compared once, when this file is imported.
_is_on = not edited_lessons()


def is_on() -> bool:
    """Whether the fast branches are taken."""
    return _is_on


def choose(formulas: str) -> FormulasChoice:
    """Set the switch for this process, as --formulas asks.

    formulas: "readable", "fast", or "auto": fast, unless a lesson file was edited.
    Returns the choice. Raises ValueError for another word.
    """
    global _is_on
    if formulas not in ("auto", "readable", "fast"):
        raise ValueError(f"formulas is '{formulas}'; auto, readable or fast is expected.")
    names = ", ".join(edited_lessons())
    if formulas == "fast" and names:
        reason = f"as you asked; the edits of {names} do not run where a fast branch is taken"
        choice = FormulasChoice("fast", reason)
    elif formulas != "auto":
        choice = FormulasChoice(formulas, "as you asked")
    elif names:
        choice = FormulasChoice("readable", f"{names} was edited, so that the edit runs")
    else:
        choice = FormulasChoice("fast", "no lesson file was edited")
    _is_on = choice.formulas == "fast"
    return choice


@contextmanager
def switched(is_fast: bool) -> Iterator[None]:
    """Inside the `with` block, take the fast branches or the readable ones."""
    global _is_on
    before = _is_on
    _is_on = is_fast
    try:
        yield
    finally:
        _is_on = before


# --- attention ------------------------------------------------------------------------------------

# Tokens of a row up to which a CPU makes vectors in bf16 faster without torch's kernel.
SHORT_ROW = 64


def takes_kernel(query: Tensor) -> bool:
    """Whether the fused attention of a query (B, N, T, D) is computed by torch's kernel.

    In bf16 and without gradients, a CPU computes short rows step by step. That is faster than its
    kernel. docs/formulas.md has the gain.
    """
    is_bf16_on_cpu = query.device.type == "cpu" and query.dtype == torch.bfloat16
    is_short = is_bf16_on_cpu and query.size(-2) <= SHORT_ROW
    return torch.is_grad_enabled() or not is_short


# --- dropout --------------------------------------------------------------------------------------

# A decision takes 16 random bits, so that one 64-bit draw decides four units.
LEVELS = 2**16


def dropout_mask(inputs: Tensor, probability: float) -> Tensor:
    """Draw 0 where a unit is dropped and the scale elsewhere, in the shape and dtype of `inputs`.

    On a CPU, torch draws one 64-bit number per unit, one after the other. This mask needs a quarter
    of the draws. It is another mask than torch's, by the same law.

    The probability is rounded to a multiple of 1 / 65,536, so 0.1 becomes 0.100006. The scale
    belongs to the rounded probability. The mean is therefore exact in float32. bfloat16 rounds
    1.1111 to 1.1094, as it does in torch's own dropout.
    """
    num_dropped_levels = min(round(probability * LEVELS), LEVELS - 1)

    # `None` as the upper end makes every one of the 64 bits random.
    num_words = (inputs.numel() + 3) // 4
    words = torch.empty(num_words, dtype=torch.int64).random_(-(2**63), None)

    # The same memory read as 16-bit numbers: -32,768 to 32,767, all equally likely.
    levels = words.view(torch.int16)[: inputs.numel()].view(inputs.shape)

    # 1 or 0, written over the levels. A bool tensor in between takes four times as long.
    is_kept = levels.ge_(num_dropped_levels - LEVELS // 2).to(inputs.dtype)
    return is_kept.mul_(LEVELS / (LEVELS - num_dropped_levels))


# --- the optimizer --------------------------------------------------------------------------------


def adamw_update(optimizer: Optimizer, parameters: list[Tensor], group: dict[str, Any]) -> None:
    """Make AdamW.update for many parameters by torch's fused kernel, which reads memory once.

    parameters: those of `group` that have a gradient; their step is counted already. group: as in
    AdamW, with the bias correction on.

    torch's formula differs from ours in two places, so the kernel receives other numbers:

    - It adds eps to the corrected sqrt(v). It therefore receives eps / sqrt(1 - b2^t).
    - It decays before the step: p (1 - d) - s, with d = lr weight_decay. Ours is (p - s) (1 - d),
      so the step s is made (1 - d) times as long.

    The kernel multiplies by 1 - d in float32, which rounds d to a multiple of 6e-8. That changes
    5e-7 (5e-5 times 0.01) by a sixteenth at most. It makes 1.2e-7 of 1e-7. Below 3e-8 nothing
    decays.
    """
    # A head that some steps do not touch has counted fewer steps than the other parameters.
    by_step: dict[int, list[Tensor]] = {}
    for parameter in parameters:
        step = optimizer.state[parameter]["step"]
        by_step.setdefault(step, []).append(parameter)

    decay = group["lr"] * group["weight_decay"]
    beta_1, beta_2 = group["betas"]
    for step, members in by_step.items():
        states = [optimizer.state[parameter] for parameter in members]
        # The kernel adds 1 to the number of steps itself.
        steps = torch.full((len(members),), step - 1.0, device=members[0].device)
        adamw(
            members,
            [cast(Tensor, parameter.grad) for parameter in members],
            [state["first_moment"] for state in states],
            [state["second_moment"] for state in states],
            [],
            list(steps),
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=beta_1,
            beta2=beta_2,
            lr=group["lr"] * (1 - decay),
            weight_decay=group["weight_decay"] / (1 - decay),
            eps=group["eps"] / math.sqrt(1 - beta_2**step),
        )
