"""--soup: the multitask stage several times, and the mean of the models (Wortsman et al. 2022).

The paper calls the mean a uniform model soup, and the models its ingredients. All ingredients
start from the same weights, heads included. They differ in the order of the rows and in what
dropout drops. Each of them is the best model of its own training. The soup is as large and as fast
as one model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor

from minbert.training.averaging import running_mean
from minbert.training.job import Job, Progress
from multitask.model import MultitaskBert

RECORD_KEY = "soup"  # in run.json
SEED_STRIDE = 1_000_003  # between two ingredients; seeds of users are closer together


@dataclass(frozen=True)
class Ingredient:
    """One of the models whose mean the soup is.

    seed: of the order of its rows and of its dropout. scores: on dev, of its best model.
    epochs: the scores after each evaluation. best_step: that of the best one.
    """

    seed: int
    scores: dict[str, float]
    epochs: list[dict[str, Any]]
    best_step: int


@dataclass(frozen=True)
class Soup:
    """What the multitask stage leaves behind.

    progress: of the first training. scores: on dev, of the model that is left.
    ingredients: the models whose mean it is. Empty where there was only one training.
    """

    progress: Progress
    scores: dict[str, float]
    ingredients: list[Ingredient]


def seed_of(seed: int, number: int) -> int:
    """The seed of an ingredient's training. seed: of the run. number: of the ingredient, from 0."""
    return (seed + number * SEED_STRIDE) % 2**32


def best_scores(progress: Progress) -> dict[str, float]:
    """The dev scores of the best model of a finished job."""
    (best,) = [entry for entry in progress.history if entry["step"] == progress.best_step]
    return {name: value for name, value in best.items() if name not in ("epoch", "step", "loss")}


def train_soup(jobs: Sequence[Job], train: Callable[[Job], Progress]) -> Soup:
    """Train all jobs from the same weights, and leave the mean of their best models in the model.

    jobs: of one model, at least one. train: trains a job to its end, such as loop.fit. One job is
    trained as it is, and there is no mean.
    """
    model = cast(MultitaskBert, jobs[0].model)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mean: dict[str, Tensor] = {}
    trained: list[Progress] = []
    for job in jobs:
        model.load_state_dict(start)
        progress = train(job)
        if len(jobs) == 1:
            return Soup(progress, best_scores(progress), [])
        job.optimizer.state.clear()  # the moments would hold the memory of two models
        add_to_mean(mean, model.state_dict(), len(trained))
        trained.append(progress)

    model.load_state_dict(mean)
    ingredients = []
    for job, progress in zip(jobs, trained, strict=True):
        scores = best_scores(progress)
        ingredients.append(Ingredient(job.seed, scores, progress.history, progress.best_step))
    return Soup(trained[0], jobs[0].evaluate(), ingredients)


def add_to_mean(mean: dict[str, Tensor], state: Mapping[str, Tensor], num_averaged: int) -> None:
    """Take one more state into a mean of states. Weights that are equal in all stay so, to the bit.

    num_averaged: how many states are in the mean already. Of 0 states the mean is {}.
    """
    with torch.no_grad():
        for name, tensor in state.items():
            mean[name] = running_mean(mean.get(name, tensor), tensor, num_averaged)


# --- in run.json ----------------------------------------------------------------------------------


def stored_soup(soup: Soup) -> dict[str, Any]:
    """The entry of run.json: {} where there is no soup."""
    if not soup.ingredients:
        return {}
    ingredients = [asdict(ingredient) for ingredient in soup.ingredients]
    return {RECORD_KEY: {"scores": soup.scores, "ingredients": ingredients}}


def soup_table(entry: Mapping[str, Any], titles: Mapping[str, str]) -> list[list[str]]:
    """The rows of a table: the dev scores of each ingredient, and those of the soup.

    entry: of run.json, as `stored_soup` makes it. titles: of the scores, by name.
    """
    names = [name for name in titles if name in entry["scores"]]
    rows = [["model soup", *(titles[name] for name in names)]]
    shown = {}
    for number, ingredient in enumerate(entry["ingredients"], start=1):
        shown[f"ingredient {number}"] = ingredient["scores"]
    shown["the soup"] = entry["scores"]
    for title, of_model in shown.items():
        rows.append([title, *(f"{of_model[name]:.4f}" for name in names)])
    return rows
