"""--soup: the multitask stage several times, and the mean of the models (Wortsman et al. 2022).

The paper calls the mean a model soup, and the models its ingredients. All ingredients start from
the same weights, heads included. They differ in the order of the rows and in what dropout drops.
Each of them is the best model of its own training. The soup is as large and as fast as one model.

    uniform    all ingredients
    greedy     from the best ingredient down, each one with which the score of the soup does not
               fall (recipe 1 of the paper)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from torch import Tensor

from minbert.training.averaging import running_mean
from minbert.training.job import Job, Progress
from multitask.model import MultitaskBert

RECORD_KEY = "soup"  # in run.json
SEED_STRIDE = 1_000_003  # between two ingredients; seeds of users are closer together

State = dict[str, Tensor]  # the weights of a model by name, on the CPU


@dataclass(frozen=True)
class Ingredient:
    """One of the models that were trained for a soup.

    seed: of the order of its rows and of its dropout. scores: on dev, of its best model.
    epochs: the scores after each evaluation. best_step: that of the best one. is_kept: whether it
    is in the soup.
    """

    seed: int
    scores: dict[str, float]
    epochs: list[dict[str, Any]]
    best_step: int
    is_kept: bool


@dataclass(frozen=True)
class Soup:
    """What the multitask stage leaves behind.

    progress: of the first training. scores: on dev, of the model that is left. ingredients: empty
    where there was only one training. seconds: that the mean and its scores took.
    """

    progress: Progress
    scores: dict[str, float]
    ingredients: list[Ingredient]
    seconds: float


def seed_of(seed: int, number: int) -> int:
    """The seed of an ingredient's training. seed: of the run. number: of the ingredient, from 0."""
    return (seed + number * SEED_STRIDE) % 2**32


def best_scores(progress: Progress) -> dict[str, float]:
    """The dev scores of the best model of a finished job."""
    (best,) = [entry for entry in progress.history if entry["step"] == progress.best_step]
    return {name: value for name, value in best.items() if name not in ("epoch", "step", "loss")}


def train_soup(
    jobs: Sequence[Job], train: Callable[[Job], Progress], is_greedy: bool = False
) -> Soup:
    """Train all jobs from the same weights, and leave the mean of their best models in the model.

    jobs: of one model, at least one. train: trains a job to its end, such as loop.fit. One job is
    trained as it is, and there is no mean. is_greedy: whether the soup is a greedy one.
    """
    if len(jobs) == 1:
        progress = train(jobs[0])
        return Soup(progress, best_scores(progress), [], seconds=0.0)

    model = cast(MultitaskBert, jobs[0].model)
    start = copy_of_state(model)
    trained = []
    states = []
    for job in jobs:
        model.load_state_dict(start)
        trained.append(train(job))
        job.release()
        states.append(copy_of_state(model))

    started = time.perf_counter()
    scores_of_each = [best_scores(progress) for progress in trained]
    kept = list(range(len(jobs)))
    if is_greedy:
        kept = choose_greedily(jobs[0], states, scores_of_each)
    model.load_state_dict(mean_of([states[number] for number in kept]))
    scores = jobs[0].evaluate()

    ingredients = []
    for number, progress in enumerate(trained):
        ingredient = Ingredient(
            seed=jobs[number].seed,
            scores=scores_of_each[number],
            epochs=progress.history,
            best_step=progress.best_step,
            is_kept=number in kept,
        )
        ingredients.append(ingredient)
    return Soup(trained[0], scores, ingredients, time.perf_counter() - started)


def copy_of_state(model: MultitaskBert) -> State:
    """A copy of the model's weights in the memory of the CPU."""
    return {name: tensor.to("cpu", copy=True) for name, tensor in model.state_dict().items()}


def mean_of(states: Sequence[State]) -> State:
    """The mean of at least one state. Weights that are equal in all stay so, to the bit."""
    mean = dict(states[0])
    for number, state in enumerate(states[1:], start=1):
        for name, tensor in state.items():
            mean[name] = running_mean(mean[name], tensor, number)
    return mean


def choose_greedily(
    job: Job, states: Sequence[State], scores: Sequence[Mapping[str, float]]
) -> list[int]:
    """The numbers of the ingredients of a greedy soup (Wortsman et al. 2022, recipe 1).

    job: scores the model on dev. Its model is changed. states, scores: of each ingredient.
    """
    values = [job.selection_value(dict(entry)) for entry in scores]
    # Of equal scores the earlier ingredient comes first.
    order = sorted(range(len(states)), key=lambda number: -values[number])
    kept = [order[0]]
    best = values[order[0]]
    for number in order[1:]:
        job.model.load_state_dict(mean_of([states[other] for other in (*kept, number)]))
        value = job.selection_value(job.evaluate())
        if value >= best:
            kept.append(number)
            best = value
    return kept


def num_evaluations(num_ingredients: int, is_greedy: bool) -> int:
    """How often `train_soup` scores a mean of ingredients on dev."""
    if num_ingredients == 1:
        return 0
    return num_ingredients if is_greedy else 1


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
        note = "" if ingredient["is_kept"] else ", left out"
        shown[f"ingredient {number}{note}"] = ingredient["scores"]
    shown["the soup"] = entry["scores"]
    for title, scores in shown.items():
        rows.append([title, *(f"{scores[name]:.4f}" for name in names)])
    return rows


def warning_of_soup(entry: Mapping[str, Any], score: str, title: str) -> str | None:
    """A sentence where an ingredient has a higher dev score than the soup, else None.

    entry: of run.json. score: that selects the best model. title: of that score.
    """
    values = [ingredient["scores"][score] for ingredient in entry["ingredients"]]
    best = max(values)
    if best <= entry["scores"][score]:
        return None
    number = values.index(best) + 1
    return (
        f"The soup has a lower {title} than ingredient {number}. --soup_kind greedy never goes "
        "below the best ingredient. A lower --lr keeps the ingredients closer together."
    )
