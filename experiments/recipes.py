"""The experiments of the two reports as named options, with the figures they published. Next: ablation.py.

[ROB] is Robust embeddings using contrastive and multiple negatives on BERT, [GEN] Contrastive learning for
generalizable sentence embeddings (recipes_gen.py). A recipe is a function that returns the values of options which
differ from their defaults; `--recipe NAME` sets them, and flags beside it win. All of them were run on
bert-base-uncased: give --model, and with another one a --lr for it, and a --contrastive_lr where the recipe has one:
neither is scaled by the encoder's width. No torch here, so that --list-recipes answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from experiments import recipes_gen as gen


@dataclass(frozen=True)
class Published:
    """Dev scores as printed in the report; None where it prints none or one that is not the row's own.

    train: of the same run SST, PARA and STS on the rows it was trained on ([ROB] table 3); None where not printed.
    """

    sst: float | None = None
    para: float | None = None
    sts: float | None = None
    overall: float | None = None
    train: tuple[float, float, float] | None = None


# What [ROB]'s rows with CL share. Its dropout is that "of the pooler output" (section 5), so before the common layer.
COMMON_LAYER = {"common_layer": "tanh", "vector_dropout_prob": 0.5, "hidden_dropout_prob": 0.0}


def rob(**changes) -> dict:
    """What [ROB]'s rows share: pooler output, lr 1e-5; no common layer unless the row says CL."""
    return {
        "pooling": "pooler",
        "lr": 1e-5,
        "batch_size": 32,
        "hidden_dropout_prob": 0.5,
        "common_layer": "none",
        **changes,
    }


def rob_mt_dnn(**changes) -> dict:
    """[ROB]'s random batch sampling with the common layer, five epochs."""
    return rob(sampling="mt-dnn", head="ph", epochs=5, **changes) | COMMON_LAYER


def rob_1() -> dict:
    """VM, encoder frozen, trained on SST only."""
    return rob(option="pretrain", tasks="sst", head="vm", pair_encoding="bi", epochs=10) | {
        "hidden_dropout_prob": 0.3
    }


def rob_2() -> dict:
    """PH, one task after the other; the table says RR, section 6.2 calls this experiment sequential."""
    return rob(head="ph", sampling="sequential", tasks="para,sst,sts", epochs=3)


def rob_3() -> dict:
    """RR + PH."""
    return rob(head="ph", sampling="epoch-round-robin", tasks="sst,sts,sst,sts,para", epochs=3)


def rob_4() -> dict:
    """RR + PH + CL, batches of 16."""
    return rob_5() | {"batch_size": 16}


def rob_5() -> dict:
    """RR + PH + CL."""
    return (
        rob(head="ph", sampling="epoch-round-robin", tasks="sts,sst,para,sst,sts", epochs=3)
        | COMMON_LAYER
    )


def rob_6() -> dict:
    """RR + PH + CL with dropout, behind the common layer too."""
    return rob_5() | {"tasks": "sts,sst,sst,sts,para", "epochs": 5, "hidden_dropout_prob": 0.5}


def rob_7() -> dict:
    """MT-DNN + PH + CL."""
    return rob_mt_dnn()


def rob_8() -> dict:
    """MT-DNN + PH + CL, batches of 64."""
    return rob_mt_dnn() | {"batch_size": 64}


def rob_9() -> dict:
    """MT-DNN + DPH for PARA + CL."""
    return rob_8() | {"para_head": "dph"}


def rob_10() -> dict:
    """MT-DNN + DPHA for PARA + CL, twice the weight for PARA."""
    return rob_8() | {"para_head": "dpha", "sampling_weights": "para=2"}


def rob_11() -> dict:
    """MT-DNN + DPHA + CL, dropout 0.3."""
    return rob_13() | {"vector_dropout_prob": 0.3}


def rob_12() -> dict:
    """DPHA + CL + gradient surgery, batches of 8 for each task, all in a step; so PARA's double weight has no place.

    An epoch is one pass over PARA, which its figure asks for; SST and STS then come many times in it, more often than
    the report's 85.8 % on SST's training rows look like (99 % in the other rows). It does not say how it went.
    """
    return rob_14() | {
        "sampling": "joint",
        "sampling_weights": "none",
        "batch_size": 8,
        "surgery": "pcgrad",
        "surgery_reduction": "mean",
    }


def rob_13() -> dict:
    """MT-DNN + DPHA + CL."""
    return rob_8() | {"head": "dpha", "sampling_weights": "para=2"}


def rob_14() -> dict:
    """MT-DNN + DPHA + CL, dropout 0.1: the report's best."""
    return rob_13() | {"vector_dropout_prob": 0.1}


def rob_15() -> dict:
    """The same after supervised SimCSE: 3 epochs for the report's 100, 4 of the tasks for 3.5. Add --nli FILE."""
    return rob_14() | {"pretrain": "simcse-nli", "hand_on": "trained", "epochs": 4}


RECIPES: dict[str, tuple[Callable[[], dict], Published]] = {
    "rob-1": (rob_1, Published(0.388, 0.38, -0.009, 0.253, (0.393, 0.235, 0.008))),
    "rob-2": (rob_2, Published(0.327, 0.764, 0.866, 0.652, (0.491, 0.824, 0.883))),
    "rob-3": (rob_3, Published(0.498, 0.874, 0.851, 0.741, (0.859, 0.921, 0.876))),
    "rob-4": (rob_4, Published(0.483, 0.81, 0.878, 0.724, (0.876, 0.891, 0.483))),
    "rob-5": (rob_5, Published(0.499, 0.822, 0.875, 0.732, (0.846, 0.896, 0.948))),
    "rob-6": (rob_6, Published(0.454, 0.794, 0.864, 0.704, (0.964, 0.935, 0.968))),
    "rob-7": (rob_7, Published(0.491, 0.843, 0.866, 0.733, (0.977, 0.85, 0.985))),
    "rob-8": (rob_8, Published(0.51, 0.851, 0.871, 0.744, (0.968, 0.855, 0.988))),
    "rob-9": (rob_9, Published(0.521, 0.842, 0.875, 0.746, (0.986, 0.845, 0.99))),
    "rob-10": (rob_10, Published(0.52, 0.851, 0.87, 0.747, (0.985, 0.898, 0.986))),
    "rob-11": (rob_11, Published(0.521, 0.852, 0.872, 0.748, (0.989, 0.896, 0.986))),
    "rob-12": (rob_12, Published(0.51, 0.876, 0.882, 0.756, (0.858, 0.891, 0.962))),
    "rob-13": (rob_13, Published(0.511, 0.883, 0.885, 0.76, (0.993, 0.946, 0.993))),
    "rob-14": (rob_14, Published(0.526, 0.88, 0.879, 0.762, (0.99, 0.931, 0.994))),
    "rob-15": (rob_15, Published(0.508, 0.879, 0.881, 0.756, (0.991, 0.95, 0.991))),
    "gen-vanilla": (gen.vanilla, Published(0.516, 0.388, 0.27, 0.391)),
    "gen-contrastive-first": (gen.contrastive_first, Published(0.479, 0.401, 0.466, 0.449)),
    "gen-supervised-first": (gen.supervised_first, Published(0.422, 0.402, 0.682, 0.502)),
    "gen-fusion": (gen.fusion, Published(0.465, 0.41, 0.685, 0.52)),
    "gen-baseline": (gen.baseline, Published(0.49, 0.726, 0.404, 0.54)),
    "gen-nli": (gen.nli, Published(0.5, 0.746, 0.735, 0.661)),
    "gen-given": (gen.given, Published(0.516, 0.815, 0.661, 0.664)),
    "gen-given-sst": (gen.given_sst, Published(sst=0.502)),
    "gen-given-para": (gen.given_para, Published(para=0.836)),
    "gen-given-sts": (gen.given_sts, Published(sts=0.642)),
    "gen-heads-different": (gen.heads_different, Published(0.496, 0.732, 0.361, 0.53)),
    "gen-heads-shared": (gen.heads_shared, Published(0.497, 0.625, 0.361, 0.494)),
    "gen-first-shared": (gen.first_shared, Published(0.514, 0.734, 0.37, 0.539)),
    "gen-quora-no-negatives": (gen.quora_no_negatives, Published(0.387, 0.73, 0.743, 0.62)),
    "gen-quora-only": (gen.quora_only, Published(0.521, 0.781, 0.565, 0.623)),
    "gen-all-given": (gen.all_given, Published(0.488, 0.784, 0.683, 0.651)),
    "gen-nli-before-given": (gen.nli_before_given, Published(0.476, 0.794, 0.614, 0.628)),
    "gen-given-before-nli": (gen.given_before_nli, Published(0.431, 0.79, 0.592, 0.604)),
    "gen-epoch-round-robin": (gen.epoch_round_robin, Published(0.507, 0.519, 0.453, 0.493)),
    "gen-batch-round-robin": (gen.batch_round_robin, Published(0.51, 0.52, 0.442, 0.491)),
    "gen-surgery": (gen.surgery, Published(0.48, 0.8, 0.596, 0.625)),
    "gen-nli-1-epoch": (gen.nli_1_epoch, Published(0.5, 0.73, 0.658, 0.63)),
    "gen-given-2-epochs": (gen.given_2_epochs, Published(0.406, 0.697, 0.671, 0.591)),
    "gen-given-3-epochs": (gen.given_3_epochs, Published(0.36, 0.724, 0.748, 0.61)),
    "gen-given-lr-1e-5": (gen.given_lr_1e_5, Published(0.497, 0.806, 0.609, 0.637)),
    "gen-given-lr-3e-5": (gen.given_lr_3e_5, Published(0.496, 0.799, 0.68, 0.658)),
}
COMPARISONS: dict[
    str, dict
] = {  # one choice at a time, all else the defaults; nothing published stands beside them
    "defaults": {},
    **{
        f"encoding-{name}": {"head": "vm", "pair_encoding": name}
        for name in ("bi", "cross", "dual")
    },
    "head-features": {"head": "features"},
    "head-features-no-common": {"head": "features", "common_layer": "none"},
    "head-vm": {"head": "vm"},
    "head-vm-no-common": {"head": "vm", "common_layer": "none"},
    "head-mlp": {"head": "mlp", "pair_encoding": "bi", "sharing": "first"},
    "head-mlp-no-common": {
        "head": "mlp",
        "pair_encoding": "bi",
        "sharing": "first",
        "common_layer": "none",
    },
    "head-dpha": {"head": "dpha"},
    "head-dpha-no-common": {"head": "dpha", "common_layer": "none"},
    "head-cosine": {"head": "cosine", "para_head": "features", "common_layer": "none"},
    "range-zero": {"head": "cosine", "tasks": "sst,sts", "common_layer": "none"},
    "range-fitted": {
        "head": "cosine",
        "tasks": "sst,sts",
        "common_layer": "none",
        "sts_range": "fitted",
    },
    **{
        f"sampling-{name}": {"sampling": name}
        for name in (
            "mt-dnn",
            "sequential",
            "epoch-round-robin",
            "batch-round-robin",
            "annealed",
            "power",
            "joint",
        )
    },
    **{
        f"surgery-{name}": {"sampling": "joint", "surgery": name}
        for name in ("sum", "pcgrad", "gradvac")
    },
    "contrastive-first": {"pretrain": "simcse"},
    "contrastive-last": {"pretrain": "simcse", "contrastive_order": "last"},
    "contrastive-fusion": {"pretrain": "simcse", "contrastive_order": "fusion"},
    "further-mlm": {"pretrain": "mlm"},
    **{
        f"pretrain-{method}": {"pretrain": method}
        for method in (
            "simcse-supervised",
            "simcse-nli",
            "mnr",
            "bsc",
            "ct",
            "ct-in-batch",
            "sg",
            "sg-opt",
        )
    },
    "sg-cls": {"pretrain": "sg", "pooling": "cls"},
    "sg-opt-cls": {"pretrain": "sg-opt", "pooling": "cls"},
    "bsc-rows-only": {"pretrain": "bsc", "bsc_symmetric": "no"},
    "bsc-positives-only": {"pretrain": "bsc", "bsc_labelled_negatives": "no"},
    "bsc-range": {"pretrain": "bsc", "bsc_normalise": "batch"},
    "bsc-range-t2": {"pretrain": "bsc", "bsc_normalise": "batch", "contrastive_temperature": 2.0},
    "bsc-none": {"pretrain": "bsc", "bsc_normalise": "none"},
    "bsc-none-t4": {"pretrain": "bsc", "bsc_normalise": "none", "contrastive_temperature": 4.0},
    "bsc-align": {"pretrain": "bsc", "bsc_align": 0.5},
    "bsc-learned-temperature": {"pretrain": "bsc", "bsc_temperature_lr": 1e-3},
    "bsc-learned-faster": {"pretrain": "bsc", "bsc_temperature_lr": 1e-2},
    "bsc-any-length": {"pretrain": "bsc", "bsc_shuffle": "any-length"},
    "bsc-knn": {"pretrain": "bsc", "bsc_shuffle": "knn"},
    "bsc-cluster": {"pretrain": "bsc", "bsc_shuffle": "cluster"},
    "bsc-align-cluster": {"pretrain": "bsc", "bsc_align": 0.5, "bsc_shuffle": "cluster"},
    **{f"single-{task}": {"tasks": task} for task in ("sst", "para", "sts")},
}


def values_of(name: str) -> dict:
    """The options that a recipe or comparison sets; ValueError where there is none of that name."""
    if name in RECIPES:
        return RECIPES[name][0]()
    if name in COMPARISONS:
        return dict(COMPARISONS[name])
    close = get_close_matches(name, [*RECIPES, *COMPARISONS], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"there is no recipe '{name}'; {hint}--list-recipes shows them all.")


def recipe_list() -> str:
    """What --list-recipes prints: name, what it is, the published dev scores."""
    lines = [f"{'recipe':<24}{'SST':>7}{'PARA':>7}{'STS':>7}{'mean':>7}  what it is"]
    for name, (function, published) in RECIPES.items():
        scores = (published.sst, published.para, published.sts, published.overall)
        cells = "".join(f"{'-' if score is None else f'{score:.3f}':>7}" for score in scores)
        trained = (
            " Train " + ", ".join(f"{score:.3f}" for score in published.train) + "."
            if published.train
            else ""
        )
        lines.append(f"{name:<24}{cells}  {function.__doc__.splitlines()[0]}{trained}")
    lines += [
        "",
        "gen's ensemble (.521 .836 .761, mean .706) took the best run for each task, by its figures "
        "gen-quora-only and gen-given-para; for STS none has its figure: "
        "python -m multitask.ensemble RUN... --method best --out DIR",
        "",
        "comparisons, one choice at a time:",
    ]
    for name, values in COMPARISONS.items():
        lines.append(f"{name:<28}{', '.join(f'{key} {value}' for key, value in values.items())}")
    return "\n".join(lines)
