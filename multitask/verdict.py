"""Whether a model is better than the baselines, in a sentence, and what to try where it is not."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from multitask.few_pairs import flags_of_cosine, has_cosine
from multitask.options import ENOUGH_STEPS, MultitaskOptions
from multitask.tasks import Task, Tasks


class Lead(NamedTuple):
    """The best baseline of a task, which is better than the model or as good."""

    task: Task
    baseline: str
    baseline_score: float
    score: float  # of the model

    @property
    def is_tie(self) -> bool:
        """Whether both scores are equal as they are printed."""
        return f"{self.baseline_score:.4f}" == f"{self.score:.4f}"

    @property
    def sentence(self) -> str:
        """Both scores in words."""
        if self.is_tie:
            return (
                f"In {self.task.title}, {self.baseline} scores as high as this model: "
                f"{self.task.metric} {self.score:.4f}."
            )
        return (
            f"In {self.task.title}, {self.baseline} scores higher than this model: "
            f"{self.task.metric} {self.baseline_score:.4f} and {self.score:.4f}."
        )


def leads(record: Mapping[str, Any], tasks: Tasks, answered: Collection[str]) -> list[Lead]:
    """The best baseline of each task in which one is better than the model.

    record: the content of run.json. answered: the tasks that the model has learned.
    """
    return [lead for lead in leads_and_ties(record, tasks, answered) if not lead.is_tie]


def leads_and_ties(
    record: Mapping[str, Any], tasks: Tasks, answered: Collection[str]
) -> list[Lead]:
    """The best baseline of each task in which one is as good as the model, or better."""
    compared = []
    for name in answered:
        score = record["scores"][name]
        of_task = {}
        for title, scores in record["baselines"].items():
            if name in scores:
                of_task[title] = scores[name]
        best = max(of_task, key=lambda title: of_task[title], default="")  # "": left out by --skip
        if not best:
            continue
        lead = Lead(tasks[name], best, of_task[best], score)
        if lead.is_tie or lead.baseline_score > score:
            compared.append(lead)
    return compared


def describe_verdict(record: Mapping[str, Any], tasks: Tasks, answered: Collection[str]) -> str:
    """How good the model is beside the baselines, for the first line of a page."""
    if not record["baselines"]:
        return "The baselines were left out by --skip, so this model was compared with none."
    sentences = [lead.sentence for lead in leads_and_ties(record, tasks, answered)]
    if not sentences:
        return "On the dev rows, this model scores higher than each baseline."
    return f"On the dev rows: {' '.join(sentences)}"


def warnings_of_leads(
    record: Mapping[str, Any],
    tasks: Tasks,
    answered: Collection[str],
    options: MultitaskOptions,
    num_rows: Mapping[str, int],
) -> list[str]:
    """A line for each task in which a baseline is better, with what to try.

    num_rows: the training rows of each task.
    """
    lines = []
    for lead in leads(record, tasks, answered):
        lines.append(
            f"warning: {lead.sentence} Try {advice(record, lead.task, options, num_rows)}."
        )
    return lines


def advice(
    record: Mapping[str, Any],
    task: Task,
    options: MultitaskOptions,
    num_rows: Mapping[str, int],
) -> str:
    """Flags that are likely to help a task, or something else to do. Arguments as above."""
    history = record["epochs"]
    num_steps = history[-1]["step"] if history else ENOUGH_STEPS
    more_epochs = ""
    if num_steps < ENOUGH_STEPS:
        more_epochs = f" --epochs {math.ceil(len(history) * ENOUGH_STEPS / num_steps)}"

    if task.is_pair and task.is_regression:
        # Few rows do not teach a head to compare two vectors. The cosine needs no teaching.
        if has_cosine(task, options):
            return "a smaller --lr, or compare the vectors themselves with contrastive.embed"
        if len(options.tasks.order) > 1:
            # The flags train this task alone, which has fewer steps in an epoch.
            num_updates = options.fine_tuning.num_updates([num_rows[task.name]])
            is_enough = len(history) * num_updates >= ENOUGH_STEPS
            more_epochs = "" if is_enough else f" --epochs {math.ceil(ENOUGH_STEPS / num_updates)}"
        return f"{flags_of_cosine(task, options)}{more_epochs}"
    if task.is_pair and options.fine_tuning.option != "pretrain":
        # Few pairs teach a large encoder to know them by heart. A head on its vectors learns.
        return "--option pretrain --epochs 30, which trains the head alone"
    return more_epochs.strip() or "another encoder, such as --model minilm"
