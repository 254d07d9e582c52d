"""What "auto" means, in one place: every value that is chosen for the user, with its reason.

run_multitask.py prints each as `lr: 5e-05 (5e-5 x 384 / hidden size 384)` before any work begins.
Three kinds of options stand elsewhere, where more is known, and are printed there:

  input files        data/options.py: the course's names in --data_dir
  leaderboard files  multitask/leaderboard.py: names in the run's folder
  --contrastive_*    contrastive/presets.py: the values of each method's paper

No torch here. Device, precision and formulas, which depend on the machine and the clone, come in as
arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from command_line.options import Options
from contrastive.registry import METHODS
from data.examples import BUILT_IN_FILES, COURSE_FILES
from data.options import DEFAULT_LENGTH
from minbert.commands.options import AUTO, NONE
from minbert.options import SMALL
from multitask.head_registry import HEADS
from multitask.regulariser_registry import SmartOptions

if TYPE_CHECKING:
    from minbert import BertConfig


class Choice(NamedTuple):
    """A value in place of "auto", and why."""

    value: Any
    reason: str


# The formulas of the released lesson files.
FAST = Choice("fast", "no lesson file was edited")


def resolve(
    options: Options,
    hidden_size: int,
    device: Choice,
    precision: Choice,
    formulas: Choice = FAST,
) -> tuple[Options, dict[str, Choice]]:
    """Replace every "auto" that depends on the machine, the encoder or other options.

    hidden_size: of the encoder. Returns the options, and the choices to print, by option. The
    device, the precision and the formulas are printed even where the user has set them.
    """
    choices = {
        **choose_encoding(options),
        **choose_learning_rates(options, hidden_size),
        **choose_fusion(options),
        **choose_sentences(options),
        "attention": choose_attention(device.value),
        "score": choose_score(options),
    }

    # Device and precision come first: other choices follow from them.
    precision = choose_precision(options, precision)
    machine = {"device": device, "precision": precision, "formulas": formulas}
    choices = {**machine, **only_auto(options, choices)}
    if formulas.value == "readable":
        reason = "readable formulas compute attention step by step"
        choices["attention"] = Choice("eager", reason)
    values = {name: choice.value for name, choice in choices.items()}
    return options.with_values(**values), choices


def explain(options: Options, config: BertConfig, folder: Path) -> dict[str, Choice]:
    """What "auto" means where options.json keeps the word, by option.

    These are folders of this computer, and values that stand in another place. config: of the
    encoder. folder: of the run.
    """
    cache = options.data.token_folder
    choices = {
        "name": Choice(folder.name, "made of the main options and the seed"),
        "token_cache": Choice(cache or NONE, "the user's cache" if cache else "no home folder"),
        **choose_dropout(options, config),
    }
    if "para" in options.multitask.tasks.order:
        choices["para_head"] = Choice(options.multitask.heads.head_of_para, "as --head")
    return only_auto(options, choices)


def only_auto(options: Options, choices: dict[str, Choice]) -> dict[str, Choice]:
    """The choices of options that the user has not set."""
    values = options.flat()
    return {name: choice for name, choice in choices.items() if values[name] == AUTO}


def choose_name(options: Options) -> str:
    """The name of a run's folder: the main options and the seed."""
    main = options.run.recipe
    if main == NONE:
        stages = "-".join(options.run.stages) or NONE
        main = f"{options.multitask.fine_tuning.option}-{stages}"
    model = Path(options.encoder.model).name
    # The data folder holds the course's tasks, and not those of the user.
    tasks = options.data.in_order(options.multitask.tasks.read)
    data = [Path(options.data.data_dir).name] if set(tasks) & set(BUILT_IN_FILES) else []
    data += [name for name in tasks if name not in BUILT_IN_FILES]
    return f"{main}-{model}-{'-'.join(data)}-seed{options.training.seed}"


def describe_small(hidden_size: int) -> str:
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
        needing = [name for name in names if HEADS[name].encodings[0] == readable[0]]
        choice = Choice(readable[0], " and ".join(f"head {name}" for name in needing))
    return {"pair_encoding": choice}


def choose_learning_rates(options: Options, hidden_size: int) -> dict[str, Choice]:
    """The peak learning rates of the tasks and of mlm."""
    if options.multitask.fine_tuning.option == "pretrain":
        choices = {"lr": Choice(1e-3, "the encoder is frozen")}
    elif hidden_size < SMALL:
        choices = {"lr": Choice(5e-4, describe_small(hidden_size))}
    else:
        reason = f"5e-5 x 384 / hidden size {hidden_size}"
        choices = {"lr": Choice(5e-5 * 384 / hidden_size, reason)}
    fine_tuning = options.multitask.fine_tuning
    if fine_tuning.single_task_epochs:
        lr = choices["lr"].value if fine_tuning.lr == AUTO else fine_tuning.lr
        choices["single_task_lr"] = Choice(lr, "as --lr")
    if "mlm" in options.run.stages:
        reason = f"5e-5 x 768 / hidden size {hidden_size}"
        choices["mlm_lr"] = Choice(5e-5 * 768 / hidden_size, reason)
    return choices


def choose_fusion(options: Options) -> dict[str, Choice]:
    """The settings of SimCSE in fusion training. It has no stage whose record would hold them."""
    if not options.contrastive.is_fusion or options.run.methods != ("simcse",):
        return {}
    preset = METHODS["simcse"].preset
    return {
        "contrastive_temperature": Choice(preset.temperature, preset.source),
        "contrastive_projection": Choice(preset.projection, preset.source),
        "contrastive_chunk": Choice(preset.chunk, preset.source),
    }


def choose_sentences(options: Options) -> dict[str, Choice]:
    """How many sentences a contrastive stage reads: fewer of the bundled sample.

    The sample is for a first run of minutes. With all of its sentences, the stage would take as
    long as the tasks.
    """
    is_read = any(METHODS[method].reads_all_sentences for method in options.run.methods)
    if not options.data.is_bundled or options.contrastive.is_fusion or not is_read:
        return {}
    return {"contrastive_sentences": Choice(1000, "a first run on the bundled sample is short")}


def choose_length(options: Options, num_positions: int) -> dict[str, Choice]:
    """The maximum length of a row, where the model has fewer positions than the default.

    num_positions: of the encoder. Another length than the default is the user's, and stays.
    """
    length = options.data.max_length
    if length != DEFAULT_LENGTH or length <= num_positions:
        return {}
    reason = f"the model has {num_positions} positions, fewer than the default of {DEFAULT_LENGTH}"
    return {"max_length": Choice(num_positions, reason)}


def choose_attention(device: str) -> Choice:
    """Eager attention or torch's fused kernel."""
    reason = "torch's fused kernel is faster on a GPU, its backward pass is slow on a CPU"
    return Choice("fused" if device == "cuda" else "eager", reason)


def choose_precision(options: Options, fastest: Choice) -> Choice:
    """The precision of matrix products. fastest: that of the machine, or what the user has set."""
    fine_tuning = options.multitask.fine_tuning
    is_smart = fine_tuning.regulariser == "smart"
    is_adversarial = fine_tuning.of_regulariser[SmartOptions].is_adversarial
    if options.training.precision == AUTO and is_smart and is_adversarial:
        return Choice("fp32", "bf16 would round the perturbation of SMART away")
    return fastest


def choose_score(options: Options) -> Choice:
    """The dev score that selects the best epoch."""
    tasks = set(options.multitask.tasks.order)
    if tasks == set(COURSE_FILES):
        return Choice("overall_2023", "the mean of the three tasks' scores")
    if len(tasks) > 1:
        return Choice("mean", "the mean of the scores of --tasks")
    return Choice(options.multitask.tasks.order[0], "the only task")


def choose_dropout(options: Options, config: BertConfig) -> dict[str, Choice]:
    """The dropout in the encoder: the model's own, but 0 in the tasks of a small encoder."""
    if not has_dropout_in_tasks(options, config.hidden_size):
        choice = Choice(0.0, f"in the tasks, {describe_small(config.hidden_size)}")
        return {"encoder_dropout": choice, "attention_dropout": choice}
    reason = "as in the model's config.json"
    return {
        "encoder_dropout": Choice(config.hidden_dropout_prob, reason),
        "attention_dropout": Choice(config.attention_probs_dropout_prob, reason),
    }


def has_dropout_in_tasks(options: Options, hidden_size: int) -> bool:
    """Whether the encoder drops out in the tasks. SimCSE's two views in fusion training need it."""
    is_fusion = options.contrastive.is_fusion
    return is_fusion or options.encoder.has_dropout_in_tasks(hidden_size)
