"""Numeric extremes: options, labels and weights far beyond what is sensible.

Survived: the run is refused in one line, or it ends as one that diverged, or it ends with finite
scores.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from minbert.commands.ending import BAD_INPUT, DIVERGED, DONE
from tools.reliability import children
from tools.reliability.children import Call
from tools.reliability.targets import training
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import Workplace

NUMBERS = ("1e30", "1e-30", "1e300", "1e-300", "0", "-1", "nan", "inf")
COUNTS = ("1000000000", "1000000000000000000000", "0", "-1", "nan", "1.5")
# An option, and the flags that it is only allowed with.
REAL_OPTIONS: dict[str, tuple[str, ...]] = {
    "lr": (),
    "weight_decay": (),
    "max_grad_norm": (),
    "warmup": (),
    "layer_decay": (),
    "hidden_dropout_prob": (),
    "contrastive_lr": ("--pretrain", "simcse"),
    "contrastive_temperature": ("--pretrain", "simcse"),
    "mlm_lr": ("--pretrain", "mlm"),
    "r_drop_weight": ("--regulariser", "r-drop"),
    "ema_decay": ("--averaging", "ema"),
    "gradvac_beta": ("--sampling", "joint", "--surgery", "gradvac"),
    "cagrad_radius": ("--sampling", "joint", "--surgery", "cagrad"),
    "sampling_power": ("--sampling", "power"),
}
WHOLE_OPTIONS: dict[str, tuple[str, ...]] = {
    "epochs": (),
    "batch_size": (),
    "accumulation": (),
    "max_length": (),
    "max_tokens": (),
    "seed": (),
    "save_every": (),
    "patience": (),
    "heads_first": (),
}
LABELS = ("nan", "inf", "1e30", "-1e30", "1e-300", "5.0000001", "-0.0", "3")


def all_cases() -> list[tuple[str, str]]:
    """Every option with every number, and every label."""
    cases = []
    for option in REAL_OPTIONS:
        cases += [(option, number) for number in NUMBERS]
    for option in WHOLE_OPTIONS:
        cases += [(option, number) for number in COUNTS]
    cases += [("label", label) for label in LABELS]
    cases += [("weights", number) for number in ("1e30", "1e-30", "nan", "inf")]
    return cases


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Train with one extreme number."""
    cases = all_cases()
    random.Random(trial.seed).shuffle(cases)
    option, number = cases[trial.number % len(cases)]
    folder.mkdir()
    if option == "label":
        flags = damage_labels(workplace, folder, number)
    elif option == "weights":
        flags = ["--sampling", "joint", "--surgery", "weighted", "--loss_weights", f"para={number}"]
    else:
        extra = REAL_OPTIONS.get(option, ()) or WHOLE_OPTIONS.get(option, ())
        flags = [*extra, f"--{option}={number}"]
    words = training(workplace.places, "none", *flags, output=str(folder))
    ending = children.run(Call("run_multitask", words))
    problem = complaint(ending, (DONE, DIVERGED, BAD_INPUT))
    if not problem and ending.code == DONE:
        problem = find_infinite(folder / "run" / "run.json")
    return Outcome("extreme number", f"{option} {number}", problem)


def damage_labels(workplace: Workplace, folder: Path, label: str) -> list[str]:
    """Write the STS table with one label in all its rows."""
    header, *rows = (workplace.places.data / "sts-train.csv").read_text("utf-8").splitlines()
    place = header.split("\t").index("similarity")
    lines = [header]
    for row in rows:
        cells = row.split("\t")
        cells[place] = label
        lines.append("\t".join(cells))
    path = folder / "sts.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--sts_train", str(path)]


def find_infinite(path: Path) -> str:
    """A score of a finished run that is no finite number; "" if all are finite."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name, score in record["scores"].items():
        if not math.isfinite(score):
            return f"it ended well although the score {name} is {score}"
    return ""


PART = Part("numbers", "numeric extremes", 60, 0.7, run_trial)
