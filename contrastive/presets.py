"""The entries of the methods, and the settings of each stage.

An entry holds the preset, and the options that only some methods read. registry.py says what else.
The class or the loss of each method stands in methods.py, and the function that collects its
training rows in inputs.py.

No torch here: options are checked, and settings are printed, before any heavy import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from contrastive.options import (
    BscOptions,
    ContrastiveOptions,
    CopyOptions,
    DistillOptions,
    MatryoshkaOptions,
    MnrOptions,
    NegativesOptions,
    NliOptions,
    ObjectiveOptions,
    SelfGuidedOptions,
    SupervisedOptions,
    TensionOptions,
)
from contrastive.registry import (
    METHODS,
    ON_ALL_SENTENCES,
    BatchGroups,
    MethodEntry,
    Settings,
)
from minbert.commands.options import AUTO, NONE, MethodOptions, flat

RMSPROP = {"alpha": 0.9, "eps": 1e-7}  # of Carlsson et al. 2021
PRESET_WIDTH = 768  # hidden size of the encoder for which the presets give learning rates
READ_IN_FUSION = ("temperature", "projection", "chunk")  # the steps are those of the tasks


# --- the methods ----------------------------------------------------------------------------------


def without_temperature(method_options: MethodOptions) -> tuple[str, ...]:
    """For bsc: a trained temperature begins at 1, and --bsc_shuffle says which pairs meet."""
    is_fixed = method_options[BscOptions].bsc_temperature_lr == NONE
    return ("batches",) if is_fixed else ("batches", "temperature")


def groups_of_tension(method_options: MethodOptions) -> BatchGroups:
    """For ct: batch 16 is 2 x (1 + 7) pairs."""
    number = method_options[NegativesOptions].ct_num_negatives
    return BatchGroups(1 + number, f"a positive and its {number} negatives")


def preset_of_tension(method_options: MethodOptions, preset: Settings) -> Settings:
    """For ct: two positives and their negatives, whatever their number is."""
    return replace(preset, batch_size=2 * groups_of_tension(method_options).size)


def preset_of_mnr(method_options: MethodOptions, preset: Settings) -> Settings:
    """The paper's dot product has no temperature."""
    if method_options[MnrOptions].mnr_similarity == "cos":
        return preset
    return replace(preset, source="Henderson et al. 2017", temperature=1.0)


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
SELF_GUIDED_ARGUMENTS = {
    "state_pooling": "sg_states",
    "regulariser": "sg_regulariser",
    "layers": "sg_layers",
}

METHODS["simcse"] = MethodEntry(
    title="Gao et al. 2021",
    reads="sentences",
    preset=Settings(
        source="Gao et al. 2021, for [CLS]",
        epochs=1,
        batch_size=64,
        lr=3e-5,
        temperature=0.05,
        projection="tanh",
    ),
)
METHODS["simcse-supervised"] = MethodEntry(
    title="the GEN report",
    reads="labelled pairs",
    has_own_rows=True,
    pairs_of=("para",),
    preset=Settings(
        source="the GEN report, Quora",
        epochs=5,
        batch_size=16,
        lr=2e-5,
        temperature=0.05,
        projection="mlp",
    ),
    options=(SupervisedOptions,),
    arguments={"maximises_negatives": "maximises_negatives"},
)
METHODS["simcse-nli"] = MethodEntry(
    title="Gao et al. 2021, section 4",
    reads="triplets",
    preset=Settings(
        source="Gao et al. 2021, for [CLS]",
        epochs=3,
        batch_size=512,
        lr=5e-5,
        temperature=0.05,
        projection="tanh",
        chunk=128,  # a batch has 1,536 rows, more than most machines hold at once
    ),
    options=(NliOptions,),
    arguments={"hard_negative_weight": "hard_negative_weight"},
)
METHODS["bsc"] = MethodEntry(
    title="batch-softmax contrastive loss, Chernyavskiy et al. 2022",
    reads="labelled pairs",
    has_own_rows=True,
    preset=Settings(
        source="Chernyavskiy et al. 2022",
        epochs=5,
        batch_size=30,
        lr=2e-5,
        temperature=0.07,
    ),
    options=(BscOptions,),
    arguments={
        "symmetric": "bsc_symmetric",
        "normalise": "bsc_normalise",
        "align": "bsc_align",
        "temperature_lr": "bsc_temperature_lr",
    },
    unread_with=without_temperature,
)
METHODS["ct"] = MethodEntry(
    title="contrastive tension, Carlsson et al. 2021",
    reads="sentences",
    has_own_rows=True,
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
    options=(TensionOptions, NegativesOptions, CopyOptions),
    adapted=preset_of_tension,
    has_dropout=False,
    unread=("temperature", "batches"),
    arguments={"as_printed": "has_printed_loss"},
    groups=groups_of_tension,
)
METHODS["ct-in-batch"] = MethodEntry(
    title="contrastive tension as in sentence-transformers",
    reads="sentences",
    has_own_rows=True,
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
    options=(TensionOptions, CopyOptions),
    has_dropout=False,
)
METHODS["sg"] = MethodEntry(
    title="self-guided, Kim et al. 2021",
    reads="sentences",
    preset=SELF_GUIDED,
    options=(SelfGuidedOptions, ObjectiveOptions),
    arguments={**SELF_GUIDED_ARGUMENTS, "objective": "sg_loss"},
)
METHODS["sg-opt"] = MethodEntry(
    title="self-guided, optimised (SG-OPT)",
    reads="sentences",
    preset=SELF_GUIDED,
    options=(SelfGuidedOptions,),
    arguments=SELF_GUIDED_ARGUMENTS,
)
METHODS["distill"] = MethodEntry(
    title="a teacher's vectors, Reimers and Gurevych 2020",
    reads="sentences",
    has_own_rows=True,
    preset=Settings(
        source="our own",
        epochs=3,
        batch_size=64,
        lr=1.25e-4,
        temperature=1.0,
        max_length=48,
    ),
    options=(DistillOptions,),
    has_dropout=False,
    unread=("temperature",),
)
METHODS["mnr"] = MethodEntry(
    title="multiple negatives ranking, Henderson et al. 2017",
    reads="labelled pairs",
    preset=Settings(
        source="Henderson et al. 2017, with cosine",
        epochs=1,
        batch_size=64,
        lr=2e-5,
        temperature=0.05,
    ),
    adapted=preset_of_mnr,
    options=(MnrOptions,),
)
METHODS["cosent"] = MethodEntry(
    title="CoSENT, Su 2022",
    reads="labelled pairs",
    has_own_rows=True,
    preset=Settings(
        source="Su 2022",
        epochs=5,
        batch_size=32,
        lr=2e-5,
        temperature=0.05,
        max_length=64,
    ),
)
METHODS["matryoshka"] = MethodEntry(
    title="mnr at several widths, Kusupati et al. 2022",
    reads="labelled pairs",
    preset=Settings(
        source="Kusupati et al. 2022 with mnr's settings",
        epochs=1,
        batch_size=64,
        lr=2e-5,
        temperature=0.05,
    ),
    options=(MatryoshkaOptions,),
    unread=("projection",),
    why_unread={
        "projection": "its widths are the first units of the encoder's own vectors, and after a "
        "projection they would be other units"
    },
    arguments={"widths": "matryoshka_widths"},
)


# --- from the preset to the settings of a run -----------------------------------------------------


def unread(method: str, options: ContrastiveOptions) -> tuple[str, ...]:
    """The fields of Settings that `method` does not use: an option for one would do nothing."""
    if method == "simcse" and options.is_fusion:
        return tuple(item.name for item in fields(Settings) if item.name not in READ_IN_FUSION)
    entry = METHODS[method]
    names = entry.unread + entry.unread_with(options.of_method)
    return names if entry.reads_all_sentences else (*names, *ON_ALL_SENTENCES)


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
    if values.get("keep") == "last":
        values["patience"] = 0  # nothing better is waited for
    return replace(preset, **values)


def preset_of(method: str, options: ContrastiveOptions, device: str) -> Settings:
    """The preset of `method` under the run's other options."""
    entry = METHODS[method]
    preset = entry.adapted(options.of_method, entry.preset)
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
    left_out.add("epochs" if settings.steps else "steps")

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
