"""Which values and combinations of options are refused, with what to do instead. Called as Options are made.

Each function takes Options and raises ValueError where something is out of range, contradicts itself, or would be
ignored: a flag that does nothing is a mistake that nobody sees. Next: command_line.py.
"""

from __future__ import annotations

import math
import os
from dataclasses import fields

from contrastive.presets import NUM_NEGATIVES, OWN, PRESETS, unread
from data.readers import COURSE_FILES, numbers_by_task

AUTO = "auto"
STAGES = ("mlm", *PRESETS)  # what --pretrain may name
ONLY_WITH = {  # an option that only some values of another one read
    "sampling_weights": ("sampling", "mt-dnn"),
    "sampling_power": ("sampling", "power"),
    "sharing": ("head", "mlp"),
    "sts_range": ("head", "mlp", "cosine"),
    "surgery_reduction": ("surgery", "pcgrad", "gradvac"),
    "gradvac_beta": ("surgery", "gradvac"),
    "loss_weights": ("surgery", "weighted"),
    "joint_limit": ("sampling", "joint", "batch-round-robin"),
}
ENCODINGS_OF = {  # of a head; the first is what "auto" becomes
    "ph": ("dual",), "dph": ("dual",), "dpha": ("dual",), "mlp": ("bi", "cross"), "cosine": ("bi", "cross"),
    "vm": ("cross", "bi", "dual"),
    "features": ("cross", "bi"),
}


def check(options) -> None:
    """Every check, the simplest first."""
    for look in (check_ranges, check_stages, check_methods, check_tasks, check_unread, check_heads, check_training,
                 check_files):
        look(options)


def check_ranges(options) -> None:
    """Numbers within their limits."""
    for item in fields(options):
        value, low, high = getattr(options, item.name), item.metadata["low"], item.metadata["high"]
        is_bounded = low is not None and not (isinstance(value, str) and value == item.default)
        if is_bounded and not (math.isfinite(value) and low <= value <= (value if high is None else high)):
            limit = f"a finite number, at least {low:g}" if high is None else f"{low:g} to {high:g}"
            raise ValueError(f"--{item.name} is {value}; it must be {limit}.")
    if options.use_gpu and options.device not in (AUTO, "cuda"):
        raise ValueError(f"--use_gpu asks for cuda and --device for {options.device}; pass only one of them.")


def check_stages(options) -> None:
    """--pretrain, and options of stages that are not in it."""
    unknown = [name for name in options.stages if name not in STAGES]
    if unknown or len(set(options.stages)) < len(options.stages):
        raise ValueError(f"--pretrain is '{options.pretrain}'; it is none, or some of these, separated by commas: "
                         f"{', '.join(STAGES)}.")
    for name in options.changed():
        needed = needed_stages(name, options)
        if needed and not set(needed) & set(options.stages):
            raise ValueError(f"--{name} has no effect without --pretrain {' or '.join(needed)}; add that or drop it.")


def needed_stages(name: str, options) -> tuple[str, ...]:
    """The stages of which option `name` needs one in --pretrain to have an effect; () where it needs none."""
    if name == "contrastive_order" and options.contrastive_order == "fusion":
        return ("simcse",)
    if name.startswith("contrastive_"):
        return tuple(method for method in PRESETS if name.removeprefix("contrastive_") not in unread(method, options))
    return ("mlm",) if name.startswith("mlm_") else tuple(method for method, own in OWN.items() if name in own)


def check_methods(options) -> None:
    """What options of contrastive methods ask of each other."""
    if "simcse-nli" in options.stages and options.nli == "none":
        raise ValueError("the stage simcse-nli trains on triplets of sentences, and no file of them is named; add "
                         "--nli FILE, tab-separated with the columns premise, entailment, contradiction.")
    if options.bsc_shuffle != "random" and options.contrastive_epochs == 1:
        raise ValueError(f"--bsc_shuffle {options.bsc_shuffle} has no effect in one epoch: it begins with the second. "
                         "Drop --contrastive_epochs 1, or the shuffle.")
    size = options.contrastive_batch_size
    if "ct" in options.stages and size != AUTO and size % (1 + NUM_NEGATIVES):
        raise ValueError(f"--contrastive_batch_size is {size}; with ct it is a multiple of {1 + NUM_NEGATIVES}: a "
                         f"positive and its {NUM_NEGATIVES} negatives.")


def check_tasks(options) -> None:
    """The tasks, their weights, and the score that judges them."""
    if any(task not in COURSE_FILES for task in options.order):
        raise ValueError(f"--tasks is '{options.tasks}'; it is some of these, separated by commas: "
                         f"{', '.join(COURSE_FILES)}.")
    if len(set(options.order)) < len(options.order) and options.sampling not in ("sequential", "epoch-round-robin"):
        raise ValueError(f"--tasks {options.tasks} names a task twice; that has a meaning with --sampling sequential "
                         "and epoch-round-robin only.")
    for name in ("sampling_weights", "loss_weights", "train_rows", "dev_rows"):
        is_whole = name.endswith("_rows")
        text, tasks = getattr(options, name), COURSE_FILES if is_whole else options.order
        try:
            numbers = numbers_by_task(text)
        except ValueError:
            numbers = {"": 0.0}
        if any(task not in tasks or not 0 < number < math.inf or (is_whole and number % 1)
               for task, number in numbers.items()):
            raise ValueError(f"--{name} is '{text}'; it is none, or tasks with a {'whole ' if is_whole else ''}number "
                             f"above 0, such as para={6000 if is_whole else '2,sts=0.5'}.")
    scores = {*options.order, *(("overall_2023", "overall_2024") if len(set(options.order)) == 3 else ())}
    if options.score not in (AUTO, *scores):
        raise ValueError(f"--score {options.score} cannot judge --tasks {options.tasks}; it can be "
                         f"{', '.join(sorted(scores))}.")


def check_unread(options) -> None:
    """An option that nothing reads under the value of another one."""
    for name, (other, *values) in ONLY_WITH.items():
        if name in options.changed() and getattr(options, other) not in values:
            raise ValueError(f"--{name} has no effect with --{other} {getattr(options, other)}; add --{other} "
                             f"{' or '.join(values)}, or drop it.")
    holds_one_task = options.sampling != "joint" and options.accumulation == 1
    if options.surgery not in ("mean", "weighted") and holds_one_task:
        raise ValueError(f"--surgery {options.surgery} has no effect with --sampling {options.sampling}: its steps "
                         "hold one task each. Add --sampling joint, or --accumulation.")


def check_heads(options) -> None:
    """Heads that cannot read what the pair encoding gives."""
    heads = {options.head, options.head_of_para}
    for head in sorted(heads):
        if options.pair_encoding not in (AUTO, *ENCODINGS_OF[head]):
            raise ValueError(f"--head {head} cannot read --pair_encoding {options.pair_encoding}; it needs "
                             f"{' or '.join(ENCODINGS_OF[head])}.")
    has_one_vector = options.pair_encoding == "cross" and options.pooling != "mean"
    if heads & {"mlp", "cosine"} and (len(heads) > 1 or has_one_vector):
        raise ValueError(f"--head {options.head} needs a vector for each sentence and the same head for PARA: drop "
                         "--para_head, and use --pair_encoding bi, or cross with --pooling mean.")


def check_training(options) -> None:
    """The size of batches, what is frozen, and stages that get in each other's way."""
    if not (options.freeze in ("none", "embeddings") or options.freeze.isdecimal()):
        raise ValueError(f"--freeze is '{options.freeze}'; it is none, embeddings, or a number of layers.")
    if 0 < options.max_tokens < options.max_length:
        raise ValueError(f"--max_tokens {options.max_tokens} is less than one row may have, --max_length "
                         f"{options.max_length}. Give more, or lower --max_length.")
    if options.option == "pretrain" and (options.freeze != "none" or options.heads_first or options.layer_decay < 1):
        raise ValueError("--freeze, --heads_first and --layer_decay have no effect with --option pretrain, which "
                         "freezes the whole encoder; drop them.")
    if options.heads_first and options.sampling == "sequential":
        raise ValueError("--heads_first and --sampling sequential: its epochs would all go to the first task. Use "
                         "another sampling.")
    if options.head == "cosine" and "para" in options.order:
        raise ValueError("--head cosine has nothing to train for PARA; add --tasks sst,sts, or choose another head.")
    is_fixed = options.head == "cosine" and options.common_layer == "none" and "sts" in options.order
    if is_fixed and (options.option == "pretrain" or options.heads_first):
        raise ValueError("--head cosine with --common_layer none has nothing to train for STS where the encoder is "
                         "frozen; drop --option pretrain and --heads_first, or add --tasks sst.")
    if options.sts_range == "fitted" and "sts" not in options.order:
        raise ValueError(f"--sts_range fitted has no effect with --tasks {options.tasks}, which does not train STS; "
                         "add sts, or drop it.")
    if options.contrastive_order == "fusion" and options.surgery in ("pcgrad", "gradvac"):
        raise ValueError(f"--contrastive_order fusion and --surgery {options.surgery}: the contrastive loss is no task "
                         "of its own. Drop one of the two.")


def check_files(options) -> None:
    """No file is written over an input or twice."""
    owner = {os.path.realpath(path): "an input" for path in options.input_files()}
    for name, path in options.changed().items():
        if name.endswith("_out") and owner.setdefault(os.path.realpath(path), f"--{name}") != f"--{name}":
            raise ValueError(f"--{name} {path}: it is {owner[os.path.realpath(path)]} already; give another file.")
