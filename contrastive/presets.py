"""The registry of contrastive methods, and the settings of each one.

`METHODS` is the only place where a method is entered. An entry names the class that computes the
loss (methods.py) and the function that collects the training rows (inputs.py). It holds the preset
and the options that only some methods read. --pretrain, --help-all and the checks of options read
the entries. tests/contrastive/method_cases.py holds what the tests need of each method.

No torch here: options are checked, and settings are printed, before any heavy import. That is why
an entry names its class and function as text, "module:name". `class_of` and `collector_of` import
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pkgutil import resolve_name
from typing import Any, Literal

from contrastive.options import ContrastiveOptions
from minbert.commands.options import AUTO, NONE, flat

RMSPROP = {"alpha": 0.9, "eps": 1e-7}  # of Carlsson et al. 2021
NUM_NEGATIVES = 7  # of contrastive tension, for each positive: batch 16 is 2 x (1 + 7) pairs
PRESET_WIDTH = 768  # hidden size of the encoder for which the presets give learning rates
READ_IN_FUSION = ("temperature", "projection", "chunk")  # the steps are those of the tasks

Reads = Literal["sentences", "labelled pairs", "triplets"]
HEADINGS: dict[Reads, str] = {
    "sentences": "Contrastive stages on sentences without labels:",
    "labelled pairs": "On labelled pairs:",
    "triplets": "On the triplets of --nli:",
}

# --- what an entry holds --------------------------------------------------------------------------


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

    title: str  # the method and its paper, for the help of --pretrain
    reads: Reads
    method_class: str  # "module:class", a Method of methods.py
    collector: str  # "module:function", from a Source to Inputs (inputs.py)
    preset: Settings
    own_options: tuple[str, ...] = ()  # the options that only some methods read
    unread: tuple[str, ...] = ()  # fields of Settings without a use in this method


# --- the methods ----------------------------------------------------------------------------------

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
        title="Gao et al. 2021",
        reads="sentences",
        method_class="contrastive.methods:SimCSE",
        collector="contrastive.inputs:all_sentences",
        preset=Settings(
            source="Gao et al. 2021, for [CLS]",
            epochs=1,
            batch_size=64,
            lr=3e-5,
            temperature=0.05,
            projection="tanh",
        ),
    ),
    "simcse-supervised": MethodEntry(
        title="the GEN report",
        reads="labelled pairs",
        method_class="contrastive.methods:SupervisedSimCSE",
        collector="contrastive.inputs:paraphrase_pairs",
        preset=Settings(
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
        title="Gao et al. 2021, section 4",
        reads="triplets",
        method_class="contrastive.methods:TripletSimCSE",
        collector="contrastive.inputs:nli_triplets",
        preset=Settings(
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
        title="multiple negatives ranking, Henderson et al. 2017",
        reads="labelled pairs",
        method_class="contrastive.methods:Ranking",
        collector="contrastive.inputs:ranking_pairs",
        preset=Settings(
            source="Henderson et al. 2017, with cosine",
            epochs=1,
            batch_size=64,
            lr=2e-5,
            temperature=0.05,
        ),
        own_options=("mnr_similarity",),
    ),
    "bsc": MethodEntry(
        title="batch-softmax contrastive loss, Chernyavskiy et al. 2022",
        reads="labelled pairs",
        method_class="contrastive.methods:BatchSoftmax",
        collector="contrastive.inputs:softmax_pairs",
        preset=Settings(
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
        title="contrastive tension, Carlsson et al. 2021",
        reads="sentences",
        method_class="contrastive.methods:ContrastiveTension",
        collector="contrastive.inputs:tension_pairs",
        preset=Settings(
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
        title="contrastive tension as in sentence-transformers",
        reads="sentences",
        method_class="contrastive.methods:TensionInBatch",
        collector="contrastive.inputs:tension_in_batch",
        preset=Settings(
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
        title="self-guided, Kim et al. 2021",
        reads="sentences",
        method_class="contrastive.methods:SelfGuided",
        collector="contrastive.inputs:all_sentences",
        preset=SELF_GUIDED,
        own_options=("sg_states", "sg_regulariser", "sg_loss"),
        unread=("projection",),
    ),
    "sg-opt": MethodEntry(
        title="self-guided, optimised (SG-OPT)",
        reads="sentences",
        method_class="contrastive.methods:SelfGuidedOpt",
        collector="contrastive.inputs:all_sentences",
        preset=SELF_GUIDED,
        own_options=("sg_states", "sg_regulariser"),
        unread=("projection",),
    ),
}


def class_of(method: str) -> Any:
    """The class of a method, a subclass of methods.Method. This imports torch."""
    return resolve_name(METHODS[method].method_class)


def collector_of(method: str) -> Callable[..., Any]:
    """The function of a method that makes Inputs of a Source (inputs.py). This imports torch."""
    return resolve_name(METHODS[method].collector)


def list_methods() -> str:
    """The methods with their papers, for the help of --pretrain: a list under each heading."""
    lines = []
    for reads, heading in HEADINGS.items():
        lines.append(heading)
        for name, entry in METHODS.items():
            if entry.reads == reads:
                lines.append(f"- {name}: {entry.title}")
    return "\n".join(lines)


# --- from the preset to the settings of a run -----------------------------------------------------


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
    """The settings of a stage: the preset, then the --contrastive_* options in place of its values.

    hidden_size: of the encoder; the preset's learning rate is scaled to it.
    device: "cpu", "cuda" or "mps".
    """
    preset = preset_of(method, options, device)
    scaled = preset.lr * PRESET_WIDTH / hidden_size
    values = {"lr": scaled, **overrides(method, options)}
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
    """The --contrastive_* options that replace a value of the preset, by field of Settings.

    They are those that are not "auto" and that `method` reads.
    """
    ignored = unread(method, options)
    values = {}
    for item in fields(Settings):
        value = getattr(options, f"contrastive_{item.name}", AUTO)
        if value != AUTO and item.name not in ignored:
            values[item.name] = value
    return values


def own_values(method: str, options: ContrastiveOptions) -> dict[str, Any]:
    """The values of the options that only some methods read, `method` among them."""
    values = flat(options)
    return {name: values[name] for name in METHODS[method].own_options}


def described(
    method: str,
    settings: Settings,
    options: ContrastiveOptions,
    device: str,
    shared: Mapping[str, Any],
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
    values |= own_values(method, options)
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
    changes = f"; set: {', '.join(replaced)}" if replaced else ""
    return f"{method}: {', '.join(texts)} ({settings.source}{changes})"
