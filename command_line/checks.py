"""Combinations of options from several packages that are refused, with what to do instead.

A flag without an effect is a mistake that nobody sees, so it is refused, too. Checks inside one
package stand beside its options (PACKAGE/options.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from contrastive.options import ContrastiveOptions, NliOptions
from contrastive.presets import unread
from contrastive.registry import METHODS
from data.examples import BUILT_IN_FILES
from data.options import DataOptions
from minbert.commands.options import AUTO, NONE
from minbert.commands.outputs import Output, check_is_alone, check_is_no_input
from multitask.head_registry import HEADS
from multitask.options import HeadOptions, MultitaskOptions, TaskOptions


def all_stages() -> tuple[str, ...]:
    """The names that --pretrain may hold."""
    return ("mlm", *METHODS)


def check_tasks(data: DataOptions, tasks: TaskOptions) -> None:
    """Refuse names of tasks that do not exist, and tasks of the user that are not trained."""
    known = (*BUILT_IN_FILES, *data.requests)
    for option, names in (("tasks", tasks.order), ("untrained_tasks", tasks.read)):
        for name in names:
            if name in known:
                continue
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"--{option} is '{getattr(tasks, option)}'; it is some of these, separated by "
                f"commas: {', '.join(known)}.{hint} --task describes another one."
            )
    for name in data.requests:
        if name not in tasks.read:
            raise ValueError(
                f"--task name={name} has no effect with --tasks {tasks.tasks}. Pass --tasks {name} "
                f"or --tasks {tasks.tasks},{name}."
            )


def check_stages(
    pretrain: str,
    stages: Sequence[str],
    changed: Mapping[str, Any],
    contrastive: ContrastiveOptions,
) -> None:
    """Refuse unknown stages, and options of stages that are not in --pretrain.

    changed: the options that differ from their defaults, by name.
    """
    if not set(stages) <= set(all_stages()) or len(set(stages)) < len(stages):
        raise ValueError(
            f"--pretrain is '{pretrain}'; it is none, or some of these, each once, separated by "
            f"commas: {', '.join(all_stages())}."
        )

    # An option of a stage needs that stage.
    for name in changed:
        needed = needed_stages(name, contrastive)
        if needed and not set(needed) & set(stages):
            raise ValueError(
                f"--{name} has no effect without --pretrain {' or '.join(needed)}; add that or "
                "drop it."
            )

    # After the tasks no stage follows that could start from the encoder.
    if "hand_on" in changed and contrastive.is_last:
        orders = "first or fusion" if "simcse" in stages and len(stages) > 1 else "first"
        raise ValueError(
            "--hand_on has no effect with --contrastive_order last; add --contrastive_order "
            f"{orders}, or pass --hand_on better."
        )


def needed_stages(name: str, contrastive: ContrastiveOptions) -> tuple[str, ...]:
    """The stages of which option `name` needs one in --pretrain; () where it needs none."""
    if name == "contrastive_order" and contrastive.is_fusion:
        return ("simcse",)
    # In fusion training simcse is no stage, so it gives no encoder to another one.
    if name == "hand_on":
        return tuple(
            stage for stage in all_stages() if stage != "simcse" or not contrastive.is_fusion
        )
    # A setting of the presets needs a method that reads it.
    if name.startswith("contrastive_"):
        setting = name.removeprefix("contrastive_")
        return tuple(method for method in METHODS if setting not in unread(method, contrastive))
    if name.startswith("mlm_"):
        return ("mlm",)
    if name == "nli":
        return methods_of_triplets()
    return METHODS.readers(name)


def methods_of_triplets() -> tuple[str, ...]:
    """The methods that read the file of --nli."""
    return tuple(method for method, entry in METHODS.items() if entry.reads == "triplets")


def check_methods(
    stages: Sequence[str], contrastive: ContrastiveOptions, tasks: TaskOptions
) -> None:
    """Refuse methods without what they read, and batch sizes that they cannot use."""
    entries = {stage: METHODS[stage] for stage in stages if stage in METHODS}
    for stage, entry in entries.items():
        sources = entry.pairs_of
        if entry.reads == "labelled pairs" and not set(sources) & set(tasks.read):
            raise ValueError(
                f"--pretrain {stage} trains on labelled pairs of {' and '.join(sources)}, and "
                f"--tasks {tasks.tasks} reads none. Add one of them to --tasks, read it only with "
                f"--untrained_tasks {sources[0]}, or choose a stage that reads plain sentences, "
                "such as simcse."
            )
    of_triplets = [stage for stage, entry in entries.items() if entry.reads == "triplets"]
    if of_triplets and contrastive.of_method[NliOptions].nli == NONE:
        raise ValueError(
            f"the stage {of_triplets[0]} trains on triplets of sentences, and no file of them is "
            "named; add --nli FILE, tab-separated with the columns premise, entailment, "
            "contradiction."
        )
    contrastive.check_text(tasks.read)
    size = contrastive.contrastive_batch_size
    if size == AUTO:
        return
    for stage, entry in entries.items():
        entry.check_batch_size("--contrastive_batch_size", int(size), stage, contrastive.of_method)


def check_order(
    pretrain: str,
    stages: Sequence[str],
    contrastive: ContrastiveOptions,
    multitask: MultitaskOptions,
) -> None:
    """Refuse an order of the stages that gets in the way of the tasks."""
    if contrastive.is_last and "mlm" in stages:
        raise ValueError(
            f"--contrastive_order last and --pretrain {pretrain}: masked language modelling comes "
            "before the tasks, its encoder would not fit their heads any more. Drop "
            "--contrastive_order, or leave mlm out of --pretrain."
        )
    if contrastive.is_last and multitask.fine_tuning.single_task_epochs:
        raise ValueError(
            "--contrastive_order last and --single_task_epochs: the contrastive stage would change "
            "the multitask model after the tasks have left it. Drop one of the two."
        )
    if not contrastive.is_fusion:
        return
    if multitask.tasks.changes_gradients:
        raise ValueError(
            f"--contrastive_order fusion and --surgery {multitask.tasks.surgery}: the contrastive "
            "loss is no task of its own. Drop one of the two."
        )
    fine_tuning = multitask.fine_tuning
    if fine_tuning.accumulation > 1:
        raise ValueError(
            "--contrastive_order fusion gives each loss an update of its own, and --accumulation "
            f"{fine_tuning.accumulation} would mix them. Drop one of the two."
        )

    if fine_tuning.option == "pretrain":
        raise ValueError(
            "--contrastive_order fusion trains the encoder, which --option pretrain freezes. Drop "
            "one of the two."
        )
    # While the heads are trained alone, a projection still gives the loss something to train.
    if fine_tuning.heads_first and contrastive.contrastive_projection == NONE:
        raise ValueError(
            "--contrastive_order fusion with --contrastive_projection none trains only the "
            f"encoder, which --heads_first {fine_tuning.heads_first} freezes at first. Drop one of "
            "the three."
        )


def check_formulas(formulas: str, attention: str) -> None:
    """Refuse readable formulas together with attention by torch's kernel."""
    if formulas == "readable" and attention == "fused":
        raise ValueError(
            "--formulas readable computes attention step by step, and --attention fused by torch's "
            "kernel. Drop one of the two."
        )


def check_lengths(max_tokens: int, max_length: int) -> None:
    """Refuse a batch that may not hold one row."""
    if 0 < max_tokens < max_length:
        raise ValueError(
            f"--max_tokens {max_tokens} is less than one row may have, --max_length {max_length}. "
            "Give more, or lower --max_length."
        )


def check_positions(
    max_length: int, contrastive_lengths: Sequence[int], model: str, num_positions: int
) -> None:
    """Refuse rows that are longer than the encoder's positions.

    contrastive_lengths: the maximum length of each contrastive stage.
    """
    lengths = [("max_length", max_length)]
    lengths += [("contrastive_max_length", length) for length in contrastive_lengths]
    for name, length in lengths:
        if length > num_positions:
            raise ValueError(
                f"--{name} is {length}; {model} has {num_positions} positions. Pass at most that."
            )


def check_pooling(pooling: str, heads: HeadOptions) -> None:
    """Refuse heads that read two vectors where one row has one vector."""
    if heads.pair_encoding != "cross" or pooling == "mean":
        return
    for flag, head in heads.heads_by_flag().items():
        if HEADS[head].needs_two_vectors:
            raise ValueError(
                f"{flag} {head} reads a vector of each sentence, and --pair_encoding cross with "
                f"--pooling {pooling} gives one of both. Pass --pair_encoding bi, or --pooling "
                "mean."
            )


def check_paths(inputs: Sequence[str], changed: Mapping[str, Any]) -> None:
    """Refuse an output that is an input or another output."""
    taken: dict[Path, str] = {}
    for name, path in changed.items():
        if name.endswith("_out"):
            output = Output(f"--{name}", Path(path))
            check_is_no_input(output, inputs)
            check_is_alone(output, taken)


def check_skipped(skipped: Sequence[str], changed: Mapping[str, Any]) -> None:
    """Refuse the path of a file that --skip leaves out.

    skipped: the parts of --skip. changed: the options that differ from their defaults, by name.
    """
    paths = [name for name in changed if name.endswith("_test_out")]
    if "test" in skipped and paths:
        raise ValueError(
            f"--{paths[0]} has no effect with --skip {','.join(skipped)}: test files are not "
            "predicted. Drop one of the two."
        )
