"""What "auto" becomes, in one place: each value with the reason that is printed. No torch here.

What a machine decides (device and precision) comes in as an argument.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from command_line.options import Options
from contrastive.presets import METHODS
from data.readers import COURSE_FILES
from minbert.commands.options import AUTO
from minbert.options import SMALL
from multitask.options import ENCODINGS_OF


class Choice(NamedTuple):
    """A value in place of "auto", and why."""

    value: Any
    reason: str


def resolve(
    options: Options, hidden_size: int, device: Choice, precision: Choice
) -> tuple[Options, dict[str, str]]:
    """Replace every "auto" that depends on the machine, the encoder or other options.

    hidden_size: of the encoder. Returns the options, and a reason for each line to print, by option.
    What a contrastive method's preset decides stays "auto": contrastive/presets.py prints it.
    """
    choices = {
        **choose_encoding(options),
        **choose_learning_rates(options, hidden_size),
        **choose_fusion(options),
        "attention": choose_attention(device.value),
        "score": choose_score(options),
    }
    values = options.flat()
    choices = {name: choice for name, choice in choices.items() if values[name] == AUTO}
    choices = {"device": device, "precision": precision, **choices}
    reasons = {name: choice.reason for name, choice in choices.items()}
    if not has_dropout_in_tasks(options, hidden_size):
        reasons["encoder_dropout"] = f"0 in the tasks, {small(hidden_size)}"
    resolved = options.with_values(**{name: choice.value for name, choice in choices.items()})
    return resolved, reasons


def small(hidden_size: int) -> str:
    """The reason for a value of small encoders."""
    return f"hidden size {hidden_size} is under {SMALL}"


def choose_encoding(options: Options) -> dict[str, Choice]:
    """How pairs are encoded: as the heads need it, and apart where the encoder is frozen."""
    heads = options.multitask.heads
    readable = heads.readable_encodings()
    is_frozen = options.multitask.fine_tuning.option == "pretrain"
    if is_frozen and readable == ["cross", "bi"]:
        # A frozen encoder does not learn to compare two sentences in one row.
        choice = Choice("bi", "the encoder is frozen")
    elif readable[0] == "cross":
        choice = Choice("cross", "the two sentences see each other")
    else:
        names = dict.fromkeys([heads.head, heads.head_of_para])
        needing = [name for name in names if ENCODINGS_OF[name][0] == readable[0]]
        choice = Choice(readable[0], " and ".join(f"head {name}" for name in needing))
    return {"pair_encoding": choice}


def choose_learning_rates(options: Options, hidden_size: int) -> dict[str, Choice]:
    """The peak learning rates of the tasks and of mlm."""
    if options.multitask.fine_tuning.option == "pretrain":
        choices = {"lr": Choice(1e-3, "the encoder is frozen")}
    elif hidden_size < SMALL:
        choices = {"lr": Choice(5e-4, small(hidden_size))}
    else:
        reason = f"5e-5 x 384 / hidden size {hidden_size}"
        choices = {"lr": Choice(5e-5 * 384 / hidden_size, reason)}
    if "mlm" in options.run.stages:
        reason = f"5e-5 x 768 / hidden size {hidden_size}"
        choices["mlm_lr"] = Choice(5e-5 * 768 / hidden_size, reason)
    return choices


def choose_fusion(options: Options) -> dict[str, Choice]:
    """The settings of SimCSE in fusion training, which has no stage whose record would hold them."""
    if not options.contrastive.is_fusion or options.run.methods != ("simcse",):
        return {}
    preset = METHODS["simcse"].preset
    return {
        "contrastive_temperature": Choice(preset.temperature, preset.source),
        "contrastive_projection": Choice(preset.projection, preset.source),
        "contrastive_chunk": Choice(preset.chunk, preset.source),
    }


def choose_attention(device: str) -> Choice:
    """Eager attention or torch's fused kernel."""
    reason = "torch's fused kernel wins on a GPU, its backward pass is slow on CPU"
    return Choice("fused" if device == "cuda" else "eager", reason)


def choose_score(options: Options) -> Choice:
    """The dev score that selects the best epoch."""
    tasks = set(options.multitask.tasks.order)
    if tasks == set(COURSE_FILES):
        return Choice("overall_2023", "the mean of the three tasks' scores")
    if len(tasks) > 1:
        return Choice("mean", "of the scores of --tasks")
    return Choice(options.multitask.tasks.order[0], "the only task")


def has_dropout_in_tasks(options: Options, hidden_size: int) -> bool:
    """Whether the encoder drops out in the tasks. Fusion needs it: SimCSE's two views differ in it."""
    is_fusion = options.contrastive.is_fusion
    return is_fusion or options.encoder.has_dropout_in_tasks(hidden_size)
