"""The registry of contrastive methods: the preset of each one, and the options that only it reads.

`METHODS` is where a new method is entered. methods.py builds the module of an entry, inputs.py
collects what it reads. No torch here: options are checked against the registry, and
run_multitask.py prints the settings before any work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from contrastive.options import ContrastiveOptions
from minbert.commands.options import AUTO, NONE, flat


@dataclass(frozen=True)
class Settings:
    """How one contrastive stage trains.

    Weight decay, clipping, pooling, precision and seed are those of the run.
    """

    source: str  # the paper that the values are from
    epochs: int
    batch_size: int  # sentences, pairs or triplets, whichever the method reads
    lr: float  # peak for an encoder of 768 units; an encoder of H units takes 768 / H times it
    temperature: float
    max_length: int = 32
    projection: str = "none"  # or "tanh", "mlp", "guided" (of sg); used in training only
    optimizer: str = "adamw"  # or "rmsprop"
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    schedule: str = "linear"
    warmup: float = 0.1  # our own value where a paper names none
    evaluate_every: int = 0  # steps; 0: four times per epoch
    patience: int = 0  # evaluations without a better score; 0: never stop early
    chunk: int = 0  # rows in the encoder at a time (caching.py); 0: the whole batch


@dataclass(frozen=True)
class MethodEntry:
    """One contrastive method."""

    preset: Settings
    own_options: tuple[str, ...] = ()  # the options that only some methods read
    unread: tuple[str, ...] = ()  # fields of Settings without a use in this method


SELF_GUIDED = Settings(
    source="Kim et al. 2021, for [CLS]",
    epochs=1,
    batch_size=16,
    lr=5e-5,
    temperature=0.01,
    betas=(0.9, 0.9),
    projection="guided",
    evaluate_every=50,
    patience=10,
)

METHODS: dict[str, MethodEntry] = {
    "simcse": MethodEntry(
        Settings(
            source="Gao et al. 2021, for [CLS]",
            epochs=1,
            batch_size=64,
            lr=3e-5,
            temperature=0.05,
            projection="tanh",
        ),
    ),
    "simcse-supervised": MethodEntry(
        Settings(
            source="the GEN report, Quora",
            epochs=5,
            batch_size=16,
            lr=2e-5,
            temperature=0.05,
            projection="mlp",
        ),
        own_options=("labelled_negatives", "unsupervised_too"),
    ),
    "simcse-nli": MethodEntry(
        Settings(
            source="Gao et al. 2021, for [CLS]",
            epochs=3,
            batch_size=512,
            lr=5e-5,
            temperature=0.05,
            projection="tanh",
            chunk=128,  # a batch has 1,536 rows, more than most machines hold at once
        ),
        own_options=("nli", "hard_negative_weight"),
    ),
    "mnr": MethodEntry(
        Settings(
            source="Henderson et al. 2017, with cosine",
            epochs=1,
            batch_size=64,
            lr=2e-5,
            temperature=0.05,
        ),
        own_options=("mnr_similarity",),
    ),
    "bsc": MethodEntry(
        Settings(
            source="Chernyavskiy et al. 2022",
            epochs=5,
            batch_size=30,
            lr=2e-5,
            temperature=0.07,
        ),
        own_options=(
            "bsc_symmetric",
            "bsc_labelled_negatives",
            "bsc_normalise",
            "bsc_align",
            "bsc_temperature_lr",
            "bsc_shuffle",
        ),
    ),
    "ct": MethodEntry(
        Settings(
            source="Carlsson et al. 2021",
            epochs=1,
            batch_size=16,
            lr=1e-5,
            temperature=1.0,
            optimizer="rmsprop",
            schedule="tension",
            warmup=0.0,
        ),
        own_options=("ct_corpus", "ct_negatives"),
        unread=("temperature", "projection"),
    ),
    "ct-in-batch": MethodEntry(
        Settings(
            source="sentence-transformers' variant of Carlsson et al. 2021",
            epochs=1,
            batch_size=16,
            lr=1e-5,
            temperature=0.05,
            optimizer="rmsprop",
            schedule="tension",
            warmup=0.0,
        ),
        own_options=("ct_corpus",),
        unread=("projection",),
    ),
    "sg": MethodEntry(
        SELF_GUIDED,
        own_options=("sg_states", "sg_regulariser", "sg_loss"),
        unread=("projection",),
    ),
    "sg-opt": MethodEntry(
        SELF_GUIDED,
        own_options=("sg_states", "sg_regulariser"),
        unread=("projection",),
    ),
}
RMSPROP = {"alpha": 0.9, "eps": 1e-7}  # of Carlsson et al. 2021
NUM_NEGATIVES = 7  # of contrastive tension, for each positive: batch 16 is 2 x (1 + 7) pairs
READ_IN_FUSION = ("temperature", "projection", "chunk")  # the steps are those of the tasks


def unread(method: str, options: ContrastiveOptions) -> tuple[str, ...]:
    """The fields of Settings that `method` does not use: an option for one would do nothing."""
    if method == "simcse" and options.is_fusion:
        return tuple(item.name for item in fields(Settings) if item.name not in READ_IN_FUSION)
    if method == "bsc" and options.bsc.bsc_temperature_lr != NONE:
        return ("temperature",)
    return METHODS[method].unread


def settings_of(
    method: str, options: ContrastiveOptions, hidden_size: int, device: str
) -> Settings:
    """The settings of a stage: the preset with its learning rate scaled to the encoder's width,
    then the --contrastive_* options in place of its values.
    """
    preset = preset_of(method, options, device)
    values = {"lr": preset.lr * 768 / hidden_size, **overrides(method, options)}
    return replace(preset, **values)


def preset_of(method: str, options: ContrastiveOptions, device: str) -> Settings:
    """The preset of `method` under the run's other options."""
    preset = METHODS[method].preset
    if method == "mnr" and options.mnr.mnr_similarity == "dot":
        preset = replace(preset, source="Henderson et al. 2017", temperature=1.0)
    if device == "mps":
        # Gradient caching repeats the dropout of a batch, which mps cannot do.
        preset = replace(preset, chunk=0)
    return preset


def overrides(method: str, options: ContrastiveOptions) -> dict[str, Any]:
    """The --contrastive_* options that are not "auto" and that `method` reads, by field of Settings."""
    ignored = unread(method, options)
    values = {}
    for item in fields(Settings):
        value = getattr(options, f"contrastive_{item.name}", AUTO)
        if value != AUTO and item.name not in ignored:
            values[item.name] = value
    return values


def described(
    method: str,
    settings: Settings,
    options: ContrastiveOptions,
    device: str,
    shared: dict[str, Any],
) -> str:
    """One line for the user: every value in use, the preset's paper, and which values were set.

    shared: the weight decay, clipping norm and pooling of the run, by name.
    """
    is_adamw = settings.optimizer == "adamw"
    left_out = {"source", *unread(method, options)}
    if not is_adamw:
        left_out.add("betas")

    # Everything that the method reads, in the order of its settings.
    values = {name: value for name, value in asdict(settings).items() if name not in left_out}
    values |= {"weight_decay": shared["weight_decay"]} if is_adamw else RMSPROP
    all_values = flat(options)
    values |= {name: all_values[name] for name in METHODS[method].own_options}
    values |= {"max_grad_norm": shared["max_grad_norm"], "pooling": shared["pooling"]}
    texts = []
    for name, value in values.items():
        texts.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")

    # A learning rate is always listed: the preset's is that of 768 units.
    preset = preset_of(method, options, device)
    replaced = []
    for name, value in overrides(method, options).items():
        if name == "lr" or value != getattr(preset, name):
            replaced.append(name)
    given = f"; set: {', '.join(replaced)}" if replaced else ""
    return f"{method}: {', '.join(texts)} ({settings.source}{given})"
