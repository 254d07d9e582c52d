"""Which values and combinations of options are refused, with what to do instead. Called as Options are made.

Each function takes Options and raises ValueError where something is out of range, contradicts itself, or would be
ignored: a flag that does nothing is a mistake that nobody sees. Next: command_line/parser.py.
"""

from __future__ import annotations

import math
import os
from dataclasses import fields

from contrastive.presets import AUTO, NUM_NEGATIVES, OWN, PRESETS, unread
from data.readers import COURSE_FILES, numbers_by_task

STAGES = ("mlm", *PRESETS)  # what --pretrain may name
ONLY_WITH = {  # an option that only some values of another one read
    "sampling_weights": ("sampling", "mt-dnn"),
    "sampling_power": ("sampling", "power"),
    "sharing": ("head", "mlp"),
    "para_head": (
        "head",
        "features",
        "vm",
        "ph",
        "dph",
        "dpha",
        "cosine",
    ),  # mlp has one module for PARA and STS
    "sts_range": ("head", "mlp", "cosine"),
    "surgery_reduction": ("surgery", "pcgrad", "gradvac"),
    "gradvac_beta": ("surgery", "gradvac"),
    "loss_weights": ("surgery", "weighted"),
    "joint_limit": ("sampling", "joint", "batch-round-robin"),
    "hand_on": ("contrastive_order", "first", "fusion"),
}
ENCODINGS_OF = {  # of a head; the first is what "auto" becomes
    "ph": ("dual",),
    "dph": ("dual",),
    "dpha": ("dual",),
    "mlp": ("bi", "cross"),
    "cosine": ("bi", "cross"),
    "vm": ("cross", "bi", "dual"),
    "features": ("cross", "bi"),
}


def check(options) -> None:
    """Every check, the simplest first."""
    for look in (
        check_ranges,
        check_stages,
        check_methods,
        check_tasks,
        check_unread,
        check_surgery,
        check_heads,
        check_training,
        check_order,
        check_files,
    ):
        look(options)


def check_ranges(options) -> None:
    """Values of their own kind, words among the choices, numbers within their limits; the first two for a file edited
    by hand, since a command line gives no others."""
    kinds = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
    for item in fields(options):
        found, choices = getattr(options, item.name), item.metadata["choices"]
        if not any(
            type(found) in kinds[kind] for kind in item.type.split(" | ")
        ):  # to isinstance True is an int
            raise ValueError(
                f"--{item.name} is {found!r}; it must be {item.type.replace('|', 'or')}."
            )
        if choices and found not in choices:
            raise ValueError(f"--{item.name} is '{found}'; it is one of {', '.join(choices)}.")
        value, low, high = getattr(options, item.name), item.metadata["low"], item.metadata["high"]
        is_bounded = low is not None and not (isinstance(value, str) and value == item.default)
        if is_bounded and not (
            math.isfinite(value) and low <= value <= (value if high is None else high)
        ):
            limit = f"a finite number, at least {low:g}" if high is None else f"{low:g} to {high:g}"
            raise ValueError(f"--{item.name} is {value}; it must be {limit}.")
    if options.use_gpu and options.device not in (AUTO, "cuda"):
        raise ValueError(
            f"--use_gpu asks for cuda and --device for {options.device}; pass only one of them."
        )


def check_stages(options) -> None:
    """--pretrain, and options of stages that are not in it."""
    if not set(options.stages) <= set(STAGES) or len(set(options.stages)) < len(options.stages):
        raise ValueError(
            f"--pretrain is '{options.pretrain}'; it is none, or some of these, each once, separated by "
            f"commas: {', '.join(STAGES)}."
        )
    for name in options.changed():
        needed = needed_stages(name, options)
        if needed and not set(needed) & set(options.stages):
            raise ValueError(
                f"--{name} has no effect without --pretrain {' or '.join(needed)}; add that or drop it."
            )


def needed_stages(name: str, options) -> tuple[str, ...]:
    """The stages of which option `name` needs one in --pretrain to have an effect; () where it needs none."""
    if name == "contrastive_order" and options.contrastive_order == "fusion":
        return ("simcse",)
    if name == "hand_on":
        return tuple(
            each for each in STAGES if each != "simcse" or options.contrastive_order != "fusion"
        )
    if name.startswith("contrastive_"):
        return tuple(
            method
            for method in PRESETS
            if name.removeprefix("contrastive_") not in unread(method, options)
        )
    return (
        ("mlm",)
        if name.startswith("mlm_")
        else tuple(method for method, own in OWN.items() if name in own)
    )


def check_methods(options) -> None:
    """What options of contrastive methods ask of each other."""
    if "simcse-nli" in options.stages and options.nli == "none":
        raise ValueError(
            "the stage simcse-nli trains on triplets of sentences, and no file of them is named; add "
            "--nli FILE, tab-separated with the columns premise, entailment, contradiction."
        )
    if options.bsc_shuffle in ("knn", "cluster") and options.contrastive_epochs == 1:
        raise ValueError(
            f"--bsc_shuffle {options.bsc_shuffle} has no effect in one epoch: it begins with the second. "
            "Drop --contrastive_epochs 1, or the shuffle."
        )
    size = options.contrastive_batch_size
    if "ct" in options.stages and size != AUTO and size % (1 + NUM_NEGATIVES):
        raise ValueError(
            f"--contrastive_batch_size is {size}; with ct it is a multiple of {1 + NUM_NEGATIVES}: a "
            f"positive and its {NUM_NEGATIVES} negatives."
        )


def check_tasks(options) -> None:
    """The tasks, their weights, and the score that judges them."""
    if any(task not in COURSE_FILES for task in options.order):
        raise ValueError(
            f"--tasks is '{options.tasks}'; it is some of these, separated by commas: "
            f"{', '.join(COURSE_FILES)}."
        )
    if len(set(options.order)) < len(options.order) and options.sampling not in (
        "sequential",
        "epoch-round-robin",
    ):
        raise ValueError(
            f"--tasks {options.tasks} names a task twice; that has a meaning with --sampling sequential "
            "and epoch-round-robin only."
        )
    for name in ("sampling_weights", "loss_weights", "train_rows", "dev_rows"):
        is_whole = name.endswith("_rows")
        text, tasks = getattr(options, name), COURSE_FILES if is_whole else options.order
        try:
            numbers = numbers_by_task(text)
        except ValueError:
            numbers = {"": 0.0}
        if set(numbers) <= set(COURSE_FILES) and not set(numbers) <= set(tasks):
            raise ValueError(
                f"--{name} {text} names a task that --tasks {options.tasks} does not train; leave it out, "
                f"or pass --{name} none."
            )
        if len(numbers) < text.count("=") or any(
            task not in tasks or not 0 < number < math.inf or (is_whole and number % 1)
            for task, number in numbers.items()
        ):
            raise ValueError(
                f"--{name} is '{text}'; it is none, or tasks, each once, with a {'whole ' * is_whole}"
                f"number above 0, such as para={6000 if is_whole else '2,sts=0.5'}."
            )
    scores = {
        *options.order,
        *(("overall_2023", "overall_2024") if set(options.order) == set(COURSE_FILES) else ()),
    }
    if options.score not in (AUTO, *scores):
        raise ValueError(
            f"--score {options.score} cannot judge --tasks {options.tasks}; it can be "
            f"{', '.join(sorted(scores))}."
        )


def check_unread(options) -> None:
    """An option that nothing reads under the value of another one."""
    by_default = {
        item.name: item.default for item in fields(options)
    }  # dropping is not enough where a recipe set it
    for name, (other, *values) in ONLY_WITH.items():
        if name in options.changed() and getattr(options, other) not in values:
            raise ValueError(
                f"--{name} has no effect with --{other} {getattr(options, other)}; add --{other} "
                f"{' or '.join(values)}, or pass --{name} {by_default[name]}."
            )


def check_surgery(options) -> None:
    """Ways to make one gradient of several where a step has only one, or nothing that the tasks share."""
    if options.surgery == "weighted" and options.loss_weights == "none":
        raise ValueError("--surgery weighted has no weights; add --loss_weights, such as para=2.")
    if options.surgery in ("mean", "weighted"):
        return
    if len(set(options.order)) == 1:
        raise ValueError(
            f"--surgery {options.surgery} has no effect with --tasks {options.tasks}: one task has one "
            "gradient. Drop it."
        )
    meets = options.surgery != "sum" and options.sampling not in ("sequential", "epoch-round-robin")
    if options.sampling != "joint" and not (meets and options.accumulation > 1):
        raise ValueError(
            f"--surgery {options.surgery} has no effect with --sampling {options.sampling}: its steps "
            f"hold one task each. Add --sampling joint{', or --accumulation' if meets else ''}."
        )
    if options.surgery != "sum" and options.option == "pretrain" and not options.shares_a_layer:
        raise ValueError(
            f"--surgery {options.surgery} has no effect with --option pretrain and --common_layer none: "
            "the tasks share no parameter that learns. Drop one of the three."
        )


def encodings_of(options) -> list[str]:
    """The pair encodings that the head and PARA's can both read, the preferred one first."""
    return [
        name for name in ENCODINGS_OF[options.head] if name in ENCODINGS_OF[options.head_of_para]
    ]


def check_heads(options) -> None:
    """Options of one task without that task, and heads that cannot read what the pair encoding gives."""
    heads = {options.head, options.head_of_para}
    for name, task in {"para_head": "para", "para_prior": "para", "sts_range": "sts"}.items():
        if name in options.changed() and task not in options.order:
            raise ValueError(
                f"--{name} {getattr(options, name)} has no effect with --tasks {options.tasks}. Drop it, "
                f"or add {task}."
            )
    if not encodings_of(options):
        raise ValueError(
            f"--head {options.head} and --para_head {options.head_of_para} read pairs in different "
            f"encodings ({' or '.join(ENCODINGS_OF[options.head])}; "
            f"{' or '.join(ENCODINGS_OF[options.head_of_para])}). Choose another of the two."
        )
    for head in sorted(heads):
        if options.pair_encoding not in (AUTO, *ENCODINGS_OF[head]):
            raise ValueError(
                f"--head {head} cannot read --pair_encoding {options.pair_encoding}; it needs "
                f"{' or '.join(ENCODINGS_OF[head])}."
            )
    if heads & {"mlp", "cosine"} and options.pair_encoding == "cross" and options.pooling != "mean":
        raise ValueError(
            f"--head {options.head} needs a vector for each sentence: use --pair_encoding bi, or cross "
            "with --pooling mean."
        )


def check_training(options) -> None:
    """The size of batches, what is frozen, and what that leaves to train."""
    if not (options.freeze in ("none", "embeddings") or options.freeze.isdecimal()):
        raise ValueError(
            f"--freeze is '{options.freeze}'; it is none, embeddings, or a number of layers."
        )
    if 0 < options.max_tokens < options.max_length:
        raise ValueError(
            f"--max_tokens {options.max_tokens} is less than one row may have, --max_length "
            f"{options.max_length}. Give more, or lower --max_length."
        )
    if options.option == "pretrain" and (
        options.freeze != "none" or options.heads_first or options.layer_decay < 1
    ):
        raise ValueError(
            "--freeze, --heads_first and --layer_decay have no effect with --option pretrain, which "
            "freezes the whole encoder; drop them."
        )
    if options.heads_first and options.sampling == "sequential":
        raise ValueError(
            "--heads_first and --sampling sequential: its epochs would all go to the first task. Use "
            "another sampling."
        )
    if options.patience and options.sampling == "sequential" and len(options.order) > 1:
        raise ValueError(
            "--patience and --sampling sequential: a task that brings nothing new would end the run, and "
            "the later ones would not begin. Drop --patience, or use another sampling."
        )
    if options.head_of_para == "cosine" and "para" in options.order:
        raise ValueError(
            "--head cosine has nothing to train for PARA; add --para_head features, or --tasks sst,sts."
        )
    is_fixed = (
        options.head == "cosine" and options.common_layer == "none" and "sts" in options.order
    )
    if is_fixed and (options.option == "pretrain" or options.heads_first):
        raise ValueError(
            "--head cosine with --common_layer none has nothing to train for STS where the encoder is "
            "frozen; drop --option pretrain and --heads_first, or add --tasks sst."
        )


def check_order(options) -> None:
    """Stages that get in the way of the tasks."""
    if options.contrastive_order == "last" and "mlm" in options.stages:
        raise ValueError(
            f"--contrastive_order last and --pretrain {options.pretrain}: masked language modelling comes "
            "before the tasks, its encoder would not fit their heads any more. Drop one of the two."
        )
    if options.contrastive_order != "fusion":
        return
    if options.surgery not in ("mean", "sum", "weighted"):
        raise ValueError(
            f"--contrastive_order fusion and --surgery {options.surgery}: the contrastive loss is no task "
            "of its own. Drop one of the two."
        )
    if options.accumulation > 1:
        raise ValueError(
            "--contrastive_order fusion gives each loss an update of its own, and --accumulation "
            f"{options.accumulation} would mix them. Drop one of the two."
        )
    if options.option == "pretrain" or (
        options.heads_first and options.contrastive_projection == "none"
    ):
        raise ValueError(
            "--contrastive_order fusion trains the encoder, which --option pretrain and --heads_first "
            "freeze. Drop one of the two."
        )


def check_files(options) -> None:
    """No file is written over an input or twice."""
    owner = {os.path.realpath(path): "an input" for path in options.input_files()}
    for name, path in options.changed().items():
        if (
            name.endswith("_out")
            and owner.setdefault(os.path.realpath(path), f"--{name}") != f"--{name}"
        ):
            raise ValueError(
                f"--{name} {path}: it is {owner[os.path.realpath(path)]} already; give another file."
            )
