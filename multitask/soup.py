"""All tasks together: once, or with --soup several times, for the mean of the models.

Wortsman et al. 2022 call the mean a model soup, and the models its ingredients. All ingredients
start from the same weights, heads included. They differ in the order of the rows and in what
dropout drops. Each of them is the best model of its own training. The soup is as large and as fast
as one model.

    uniform    all ingredients
    greedy     from the best ingredient down, each one with which the score of the soup does not
               fall (recipe 1 of the paper)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from minbert.reporting.pages import Section
from minbert.reporting.tables import Table, aligned, heading_and_numbers
from minbert.training import run_page
from minbert.training.averaging import running_mean
from minbert.training.job import Job, Progress
from multitask.leaderboard import score_titles
from multitask.model import MultitaskBert
from multitask.options import MultitaskOptions
from multitask.plan import Plan, StageParts, Train, TrainedTasks
from multitask.rows import num_tokens
from multitask.task_models import TaskModels
from multitask.tasks import Tasks

RECORD_KEY = "soup"  # in run.json

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


class AllTasks(Plan):
    """The tasks together. With --soup there are several jobs, and their mean is left."""

    @staticmethod
    def is_asked_for(options: MultitaskOptions) -> bool:
        """Every run trains its tasks."""
        return True

    def __init__(self, parts: StageParts) -> None:
        fine_tuning = parts.options.fine_tuning
        self.is_greedy = fine_tuning.is_greedy_soup
        self.model = parts.model
        self.jobs = [parts.job]
        for number in range(1, fine_tuning.soup):
            self.jobs.append(parts.build_job(number))
        # The means are scored on dev. This is counted for the first job.
        trained = {task: parts.rows[task] for task in parts.options.tasks.order}
        means = num_evaluations(fine_tuning.soup, self.is_greedy)
        parts.job.closing_tokens += means * num_tokens(trained, "dev")
        # Filled by `train`.
        self.ingredients: list[Ingredient] = []  # empty without --soup
        self.soup_scores: dict[str, float] = {}

    def train(self, train: Train, trained: TrainedTasks) -> TrainedTasks:
        """Train all jobs from the same weights, and leave the mean of their best models."""
        if len(self.jobs) == 1:
            progress = train(self.jobs[0])
            scores = best_scores(progress)
            models = TaskModels(self.model, {})
            return TrainedTasks(models, scores, progress.history, progress.best_step)

        start = copy_of_state(self.model)
        progresses = []
        states = []
        for job in self.jobs:
            self.model.load_state_dict(start)
            progresses.append(train(job))
            job.release()
            states.append(copy_of_state(self.model))

        started = time.perf_counter()
        self.mix(states, progresses)
        self.seconds = time.perf_counter() - started
        first = progresses[0]
        models = TaskModels(self.model, {})
        return TrainedTasks(models, self.soup_scores, first.history, first.best_step)

    def mix(self, states: Sequence[State], progresses: Sequence[Progress]) -> None:
        """Put the mean of the ingredients into the model, and score it.

        states, progresses: of each job, its best model and its training.
        """
        scores_of_each = [best_scores(progress) for progress in progresses]
        kept = list(range(len(states)))
        if self.is_greedy:
            kept = choose_greedily(self.jobs[0], states, scores_of_each)
        self.model.load_state_dict(mean_of([states[number] for number in kept]))
        self.soup_scores = self.jobs[0].evaluate()
        for number, progress in enumerate(progresses):
            ingredient = Ingredient(
                seed=self.jobs[number].seed,
                scores=scores_of_each[number],
                epochs=progress.history,
                best_step=progress.best_step,
                is_kept=number in kept,
            )
            self.ingredients.append(ingredient)

    def stored(self) -> dict[str, Any]:
        """The soup and its ingredients, where there is one."""
        if not self.ingredients:
            return {}
        ingredients = [asdict(ingredient) for ingredient in self.ingredients]
        return {RECORD_KEY: {"scores": self.soup_scores, "ingredients": ingredients}}

    @staticmethod
    def printed(record: Mapping[str, Any], tasks: Tasks) -> str:
        """The scores of the soup and of its ingredients."""
        entry = record.get(RECORD_KEY)
        if not entry:
            return ""
        titles = score_titles(tasks)
        score = record["options"]["score"]
        warning = warning_of_soup(entry, score, titles.get(score, score))
        return "\n".join([aligned(soup_table(entry, titles)), *([warning] if warning else [])])

    @staticmethod
    def sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
        """The soup, and the scores after each evaluation of the first training."""
        return [*soup_sections(record, tasks), *epoch_sections(record, tasks)]

    @staticmethod
    def note(record: Mapping[str, Any]) -> str:
        """How many models are in the mean."""
        if RECORD_KEY not in record:
            return ""
        number = len(record[RECORD_KEY]["ingredients"])
        return f"Its weights are the mean of {number} models (a model soup)."


# --- the mean -------------------------------------------------------------------------------------


def best_scores(progress: Progress) -> dict[str, float]:
    """The dev scores of the best model of a finished job."""
    (best,) = [entry for entry in progress.history if entry["step"] == progress.best_step]
    return {name: value for name, value in best.items() if name not in ("epoch", "step", "loss")}


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
    """How often `AllTasks` scores a mean of ingredients on dev."""
    if num_ingredients == 1:
        return 0
    return num_ingredients if is_greedy else 1


# --- from run.json to what a person reads ---------------------------------------------------------


def name_of_first(record: Mapping[str, Any]) -> str:
    """What the first training of all tasks is called in a soup, and "" without one."""
    return "ingredient 1" if RECORD_KEY in record else ""


def epoch_sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
    """The scores after each evaluation of the first training."""
    history = record["epochs"]
    if not history:
        return []
    titles = {name: task.title for name, task in tasks.items()} | score_titles(tasks)
    first = name_of_first(record)
    title = f"Scores by epoch of {first}" if first else "Scores by epoch"
    score = record["options"]["score"]
    return [run_page.evaluation_section(title, history, record["best_step"], score, titles)]


def soup_sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
    """The scores of the ingredients and of their mean."""
    entry = record.get(RECORD_KEY)
    if not entry:
        return []
    prose = (
        f"The multitask stage was trained {len(entry['ingredients'])} times from the same "
        "weights, with the rows in another order each time. The model is the mean of these "
        "ingredients. Each of them is the best model of its own training. Their stages are called "
        "multitask, multitask-2 and so on."
    )
    heading, *rows = soup_table(entry, score_titles(tasks))
    table = Table(heading_and_numbers(*heading), tuple(tuple(row) for row in rows))
    return [Section("Model soup", prose, table, level=2)]


def soup_table(entry: Mapping[str, Any], titles: Mapping[str, str]) -> list[list[str]]:
    """The rows of a table: the dev scores of each ingredient, and those of the soup.

    entry: of run.json, as `AllTasks.stored` makes it. titles: of the scores, by name.
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
