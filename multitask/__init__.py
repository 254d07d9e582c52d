"""The multitask stage: several tasks (SST, PARA, STS, or a user's own) on one encoder.

It imports minbert and data, never contrastive. The two stages meet through an encoder on disk, or
through a callable that run_multitask.py passes in. The files in reading order:

tasks.py             A task's functions: loss, decoding and metric of its specification.
losses.py            One loss per task.
rows.py              Reads the rows of the tasks, and turns them into token ids.
regularisers.py      What may be added to a task's loss: R-Drop and SMART.
regulariser_registry.py  The regularisers by name, and their options.
heads.py             The layers that read sentence vectors.
head_registry.py     The heads by name.
model.py             An encoder, a common layer, and a head per task.
task_models.py       The models of a run in which some tasks have their own.
sampling.py          Which batches make a step.
sampler_registry.py  The samplers by name, and their options.
surgery.py           How the losses of a step become one gradient: PCGrad and its relatives.
surgery_registry.py  The methods of --surgery by name, and their options.
combining.py         A method of --surgery as the training loop calls it.
options.py           The options of this package.
proximal.py          The earlier model of SMART, which follows the weights.
regularised_loss.py  A task's loss with its regulariser, as the training loop calls it.
stage.py             The job of the tasks, for the training loop.
rows_for_mlm.py      The rows of the tasks for `--pretrain mlm`.
plan.py              What a training method must be that needs jobs of its own.
heads_first.py       A plan: the heads alone, on a frozen encoder.
soup.py              A plan: all tasks together, once or for a mean of several models.
single_tasks.py      A plan: each task alone, from a copy of the model.
plan_registry.py     The plans in the order of their training.
evaluation.py        Predicts and scores.
score_intervals.py   The intervals of tasks, of their rows, and of the overall scores.
prediction_files.py  Leaderboard files: writes, reads, verifies and scores them. Other tables.
baselines.py         The majority answer, and linear models on simple features.
start_vectors.py     The vectors of the encoder before training, for a baseline.
few_pairs.py         Few pairs with scores: which head a run takes for them.
verdict.py           Whether the model is better than the baselines, and what to try.
leaderboard.py       The prediction files of a run and its closing table.
run_data.py          All rows that a run reads, and where its predictions go.
results.py           The end of a run: what it writes and prints.
summary.py           Some predictions of a run, what still rose, and what to do next.
conflicts.py         How often the gradients of the tasks conflict: a table and a picture.
run_report.py        What report.html of a run shows.
model_card.py        README.md of a run, with metadata for the Hugging Face hub.

Commands on finished runs and on leaderboard files, and the files that they share:

saved_run.py         Opens a finished run again.
probabilities.py     From raw outputs to probabilities to predictions.
command_options.py   The options of predict.py, check.py and compare.py.
user_rows.py         The task and the rows of predict.py.
predictor.py         Predictor: a finished run, to predict from Python.
answers.py           What the runs say of these rows.
predict.py           Command: predicts rows of your own.
checked_files.py     Leaderboard files against the rows that they are for.
check.py             Command: scores or verifies leaderboard files.
comparison.py        Two systems on the same dev rows.
compare.py           Command: says whether one of two systems is better.
demo/                Command: a page on this machine to try a run.
export/              Command: a task as a model of transformers, or as an ONNX graph.
ensemble/            Command: several runs together.
errors/              Command: where a run is wrong.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

try:
    from minbert.commands.hidden import check_packages
except ModuleNotFoundError as error:
    if error.name != "minbert.commands":
        raise
    place = getattr(sys.modules.get("minbert"), "__file__", None) or "a folder named minbert"
    raise ImportError(
        f"{place} hides the package minbert, because it comes first on Python's path. Rename it, "
        "or move your script to another folder."
    ) from error

check_packages("data")

# What a file for --plugin needs.
from multitask.head_registry import HeadEntry, register_head  # noqa: E402
from multitask.sampler_registry import Epoch, Sampler, register_sampler  # noqa: E402
from multitask.surgery_registry import GradientStep, Surgery, register_surgery  # noqa: E402

# At run time it waits until it is asked for, because torch takes a second or two.
if TYPE_CHECKING:
    from multitask.predictor import Predictor

__all__ = [
    "Epoch",
    "GradientStep",
    "HeadEntry",
    "Predictor",
    "Sampler",
    "Surgery",
    "register_head",
    "register_sampler",
    "register_surgery",
]


def __getattr__(name: str) -> type:
    """Import Predictor when it is first asked for (PEP 562)."""
    if name != "Predictor":
        raise AttributeError(f"module 'multitask' has no attribute '{name}'")
    return import_module("multitask.predictor").Predictor


def __dir__() -> list[str]:
    """All public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
