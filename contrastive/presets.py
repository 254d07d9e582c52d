"""What each method's preset holds, and what of it --contrastive_* options replace. Next: methods.py, pretrain.py.

No torch here: options are checked against it, and run_multitask.py prints the settings before any work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

AUTO = "auto"


@dataclass(frozen=True)
class Settings:
    """How one contrastive stage trains; weight decay, clipping, pooling, precision and seed are those of the run."""

    source: str
    epochs: int
    batch_size: int  # sentences, pairs or triplets, whichever the method reads; of ct pairs
    lr: float  # the peak for an encoder of 768 units; narrower ones take 768 / H times it
    temperature: float
    max_length: int = 32
    projection: str = "none"  # "tanh": one layer and tanh; "mlp": two layers; "guided": those of sg; in training only
    optimizer: str = "adamw"  # or "rmsprop"
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    schedule: str = "linear"
    warmup: float = 0.1  # ours where a paper names none
    evaluate_every: int = 0  # steps; 0: four times an epoch
    patience: int = 0  # evaluations without a better score; 0: the stage goes to its end
    chunk: int = 0  # rows in the encoder at a time (caching.py); 0: all of a batch


PRESETS: dict[str, Settings] = {
    "simcse": Settings(
        "Gao et al. 2021, for [CLS]",
        epochs=1,
        batch_size=64,
        lr=3e-5,
        temperature=0.05,
        projection="tanh",
    ),
    "simcse-supervised": Settings(
        "the GEN report, Quora",
        epochs=5,
        batch_size=16,
        lr=2e-5,
        temperature=0.05,
        projection="mlp",
    ),
    "simcse-nli": Settings(
        "Gao et al. 2021, for [CLS]",
        epochs=3,
        batch_size=512,
        lr=5e-5,
        temperature=0.05,
        projection="tanh",
        chunk=128,
    ),  # 1,536 rows, more than most machines hold at once
    "mnr": Settings(
        "Henderson et al. 2017, with cosine", epochs=1, batch_size=64, lr=2e-5, temperature=0.05
    ),
    "bsc": Settings("Chernyavskiy et al. 2022", epochs=5, batch_size=30, lr=2e-5, temperature=0.07),
    "ct": Settings(
        "Carlsson et al. 2021",
        epochs=1,
        batch_size=16,
        lr=1e-5,
        temperature=1.0,
        optimizer="rmsprop",
        schedule="tension",
        warmup=0.0,
    ),
    "ct-in-batch": Settings(
        "sentence-transformers' variant of Carlsson et al. 2021",
        epochs=1,
        batch_size=16,
        lr=1e-5,
        temperature=0.05,
        optimizer="rmsprop",
        schedule="tension",
        warmup=0.0,
    ),
    **dict.fromkeys(
        ("sg", "sg-opt"),
        Settings(
            "Kim et al. 2021, for [CLS]",
            epochs=1,
            batch_size=16,
            lr=5e-5,
            temperature=0.01,
            betas=(0.9, 0.9),
            projection="guided",
            evaluate_every=50,
            patience=10,
        ),
    ),
}
RMSPROP = {"alpha": 0.9, "eps": 1e-7}  # [CT]'s
NUM_NEGATIVES = 7  # of contrastive tension, for each positive: batch 16 is 2 x (1 + 7) pairs
OWN: dict[str, tuple[str, ...]] = {  # the options that only some methods read
    "simcse": (),
    "simcse-supervised": ("labelled_negatives", "unsupervised_too"),
    "simcse-nli": ("nli", "hard_negative_weight"),
    "mnr": ("mnr_similarity",),
    "bsc": (
        "bsc_symmetric",
        "bsc_labelled_negatives",
        "bsc_normalise",
        "bsc_align",
        "bsc_temperature_lr",
        "bsc_shuffle",
    ),
    "ct": ("ct_corpus", "ct_negatives"),
    "ct-in-batch": ("ct_corpus",),
    "sg": ("sg_states", "sg_regulariser", "sg_loss"),
    "sg-opt": ("sg_states", "sg_regulariser"),
}


def unread(method: str, options) -> tuple[str, ...]:
    """The fields of Settings that `method` has no use for: an option that replaced one would do nothing."""
    match method:
        case "simcse" if options.contrastive_order == "fusion":  # its steps are the tasks'
            read = ("temperature", "projection", "chunk")
            return tuple(item.name for item in fields(Settings) if item.name not in read)
        case "ct":
            return ("temperature", "projection")
        case "ct-in-batch" | "sg" | "sg-opt":
            return ("projection",)
        case "bsc" if options.bsc_temperature_lr != "none":
            return ("temperature",)
    return ()


def settings_of(method: str, options, hidden_size: int) -> Settings:
    """The preset of `method`, its rate scaled to the encoder's width, with what --contrastive_* options replace."""
    preset = preset_of(method, options)
    return replace(preset, **{"lr": preset.lr * 768 / hidden_size, **given(method, options)})


def preset_of(method: str, options) -> Settings:
    """The preset of `method` under the run's other options."""
    preset = PRESETS[method]
    if method == "mnr" and options.mnr_similarity == "dot":
        preset = replace(preset, source="Henderson et al. 2017", temperature=1.0)
    return (
        replace(preset, chunk=0) if options.device == "mps" else preset
    )  # which cannot repeat dropout: caching.py


def given(method: str, options) -> dict:
    """The --contrastive_* options that are not "auto" and that `method` reads, by field of Settings."""
    values = {
        item.name: getattr(options, f"contrastive_{item.name}", AUTO) for item in fields(Settings)
    }
    return {
        name: value
        for name, value in values.items()
        if value != AUTO and name not in unread(method, options)
    }


def described(method: str, settings: Settings, options) -> str:
    """One line for the user: every value in use, the paper that the preset is from, and which were given instead."""
    is_adamw = settings.optimizer == "adamw"
    left_out = {"source", *unread(method, options), *(() if is_adamw else ("betas",))}
    read = {name: value for name, value in asdict(settings).items() if name not in left_out}
    read |= {"weight_decay": options.weight_decay} if is_adamw else RMSPROP
    read |= {name: getattr(options, name) for name in (*OWN[method], "max_grad_norm", "pooling")}
    values = (
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in read.items()
    )
    preset = preset_of(
        method, options
    )  # its lr is that of 768 units, so a given lr is always listed
    instead = [
        name
        for name, value in given(method, options).items()
        if name == "lr" or value != getattr(preset, name)
    ]
    replaced = f"; given: {', '.join(instead)}" if instead else ""
    return f"{method}: {', '.join(values)} ({settings.source}{replaced})"
