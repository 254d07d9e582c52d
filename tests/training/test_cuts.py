"""An update is the mean over its rows, however they are cut into batches and processes.

If an update of 8 + 1 rows differs from that of the 9 rows, batches are weighed in place of rows:
the gradient of the single row then counts eight times.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from minbert import BertConfig, BertModel
from minbert.pretraining.mlm import BertForMaskedLM, MaskedRows, mask_tokens, num_chosen
from minbert.training import gradients, processes
from minbert.training.gradients import backward
from minbert.training.job import Job, Step, TaskBatch, number_of_rows
from multitask.sampling import batch_round_robin, joint
from multitask.surgery import mean, weighted
from tests.toy_job import NUM_ROWS, make_job
from tests.toy_ranks import in_ranks
from tests.toy_surgery import make_surgery

SURGERIES = ("pcgrad", "gradvac", "cagrad", "upgrad")
NUM_CUTS = 200


def shares_of_rows(job: Job) -> Job:
    """The toy job, of whose loss each process has the share of its rows."""

    def loss(task, batch):
        rows, share = processes.own_rows(len(batch.ids))
        output = job.model(task, batch.inputs[rows])
        return nn.functional.mse_loss(output, batch.targets[rows]) * share

    return replace(job, loss=loss)


def gradient_of(job: Job, steps: Sequence[Step]) -> dict[str, Tensor]:
    """The gradient of the update that joins the steps, by the name of the parameter."""
    plan = replace(job, plan=lambda epoch, generator: list(steps), accumulation=len(steps))
    (update,) = plan.epoch_steps(0, torch.Generator())
    job.model.train()
    job.model.zero_grad(set_to_none=True)
    backward(plan, update)
    return {
        name: parameter.grad
        for name, parameter in job.model.named_parameters()
        if parameter.grad is not None
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Both gradients are one, within 1e-5 of its length: the sums have other orders."""
    assert found.keys() == expected.keys()
    length = torch.cat([gradient.flatten() for gradient in expected.values()]).norm()
    for name, gradient in expected.items():
        distance = (found[name] - gradient).norm() / length
        assert distance < 1e-5, f"{name} differs by {distance:.1e} of the gradient"


def cut(rows: Sequence[int], num_batches: int, draw: random.Random) -> list[list[int]]:
    """The rows in this many batches of random sizes, none of them empty."""
    places = sorted(draw.sample(range(1, len(rows)), num_batches - 1))
    bounds = [0, *places, len(rows)]
    return [list(rows[start:end]) for start, end in zip(bounds, bounds[1:], strict=False)]


def random_update(draw: random.Random) -> tuple[list[Step], list[Step]]:
    """An update of two tasks as few large batches, and the same rows in a random cut.

    In half of the cases the tasks meet in each step, else they take turns.
    """
    rows = {task: draw.sample(range(NUM_ROWS), draw.randint(2, NUM_ROWS)) for task in "ab"}
    whole = [TaskBatch(task, rows[task]) for task in "ab"]
    if draw.random() < 0.5:
        num_steps = draw.randint(1, min(map(len, rows.values())))
        batches = {task: cut(rows[task], num_steps, draw) for task in "ab"}
        steps = []
        for number in range(num_steps):
            steps.append([TaskBatch(task, batches[task][number]) for task in "ab"])
        return [whole], steps

    steps = []
    for task in "ab":
        for batch in cut(rows[task], draw.randint(1, len(rows[task])), draw):
            steps.append([TaskBatch(task, batch)])
    draw.shuffle(steps)
    # PCGrad draws its orders over the places of the tasks, so the whole begins with the same one.
    first = steps[0][0].task
    whole.sort(key=lambda batch: batch.task != first)
    return [[batch] for batch in whole], steps


@pytest.mark.parametrize("seed", range(NUM_CUTS))
def test_any_cut_has_the_gradient_of_the_whole(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    whole, steps = random_update(draw)
    count = draw.choice((1, 2, 3))
    method = draw.choice(("mean", "weighted", *SURGERIES))

    def job() -> Job:
        made = shares_of_rows(make_job(tmp_path, dropout=0.0, weigh=mean))
        if method == "weighted":
            return replace(made, weigh=lambda tasks: weighted(tasks, {"a": 3.0}))
        if method in SURGERIES:
            return replace(made, surgery=make_surgery(method, "mean", 0.01, "ab", seed))
        return made

    expected = gradient_of(job(), whole)
    jobs = [job() for _ in range(count)]
    for found in in_ranks(monkeypatch, count, lambda number: gradient_of(jobs[number], steps)):
        assert_same(found, expected)


def test_batches_that_weigh_the_same_are_not_the_whole(tmp_path, monkeypatch):
    """The wrong version: 8 + 1 rows, of which the single row counts as much as the eight."""
    job = shares_of_rows(make_job(tmp_path, dropout=0.0))
    steps = [[TaskBatch("a", list(range(8)))], [TaskBatch("a", [8])]]
    expected = gradient_of(job, [[TaskBatch("a", list(range(9)))]])
    assert_same(gradient_of(job, steps), expected)
    monkeypatch.setattr(gradients, "weigh_by_size", list)
    batches_alike = replace(job, surgery=make_surgery("pcgrad", "mean", 0.01, "ab", 0))
    with pytest.raises(AssertionError, match="differs by"):
        assert_same(gradient_of(batches_alike, steps), expected)


def test_the_loss_of_a_cut_is_that_of_the_whole(tmp_path):
    """Also the loss of each task, which log.csv holds."""
    job = shares_of_rows(make_job(tmp_path, dropout=0.0, accumulation=3))
    rows = list(range(9))
    losses = []
    for steps in ([rows], [rows[:6], rows[6:7], rows[7:]]):
        made = replace(job, plan=lambda *_, steps=steps: [[TaskBatch("a", part)] for part in steps])
        (update,) = made.epoch_steps(0, torch.Generator())
        update_loss = backward(made, update)
        losses += [update_loss.loss, update_loss.by_task["a"]]
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-6)


# --- masked tokens --------------------------------------------------------------------------------


def masked_job(folder) -> Job:
    """Masked language modelling on eight rows, whose masks are drawn once for all cuts."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(BertModel(config))
    ids = torch.randint(5, 30, (8, 12))
    is_special = torch.zeros(8, 12, dtype=torch.bool)
    is_special[1, 1:] = True  # a row with hardly a token to mask
    masked = mask_tokens(ids, is_special, 30, 4, probability=0.4)

    def load(task, rows):
        return MaskedRows(
            masked.input_ids[rows],
            masked.labels[rows],
            torch.zeros(len(rows), 12, dtype=torch.int64),
            None,
            tuple(map(str, rows)),
        )

    return make_job(
        folder,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        load=load,
        loss=lambda task, batch: model.loss_of(batch),
        size=num_chosen,
    )


@pytest.mark.parametrize("seed", range(20))
def test_masked_language_modelling_is_the_mean_over_the_masked_tokens(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    rows = list(range(8))
    steps = [[TaskBatch("a", part)] for part in cut(rows, draw.randint(2, 8), draw)]
    expected = gradient_of(masked_job(tmp_path), [[TaskBatch("a", rows)]])
    jobs = [masked_job(tmp_path) for _ in range(draw.choice((1, 2, 3)))]
    for found in in_ranks(monkeypatch, len(jobs), lambda number: gradient_of(jobs[number], steps)):
        assert_same(found, expected)


def test_rows_in_place_of_masked_tokens_are_not_the_whole(tmp_path):
    """The wrong version: rows of which many tokens are masked weigh as much as the others."""
    steps = [[TaskBatch("a", [0])], [TaskBatch("a", [1])], [TaskBatch("a", [2, 3])]]
    job = masked_job(tmp_path)
    expected = gradient_of(job, [[TaskBatch("a", [0, 1, 2, 3])]])
    with pytest.raises(AssertionError, match="differs by"):
        assert_same(gradient_of(replace(job, size=number_of_rows), steps), expected)


# --- what stays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [joint, batch_round_robin])
@pytest.mark.parametrize("accumulation", [1, 2, 3, 7, 49])
def test_equal_batches_have_the_weights_of_a_plain_mean_to_the_bit(tmp_path, sampler, accumulation):
    """Records without accumulation, or with batches of one size, stay as they are."""
    batches = [[row, row + 1] for row in range(0, NUM_ROWS, 2)]
    tasks = dict.fromkeys("abc", lambda generator: [list(batch) for batch in batches * 5])
    steps = sampler(tasks, torch.Generator().manual_seed(0))
    job = make_job(tmp_path, plan=lambda *_: steps, weigh=mean, accumulation=accumulation)
    updates = job.epoch_steps(0, torch.Generator())
    for number, update in enumerate(updates):
        joined = steps[number * accumulation : (number + 1) * accumulation]
        expected = [1 / len(step) / len(joined) for step in joined for _ in step]
        loaded = [gradients.LoadedPart(part, None, len(part.rows)) for part in update]
        weights = [part.weight for part, _, _ in gradients.weigh_by_size(loaded)]
        assert weights == expected


def test_an_update_of_one_batch_keeps_its_weight_to_the_bit(tmp_path):
    """However many rows the batch of each task has."""
    step = [TaskBatch("a", [0, 1, 2, 3, 4]), TaskBatch("b", [5]), TaskBatch("c", [6, 7])]
    job = make_job(tmp_path, plan=lambda *_: [step], weigh=mean)
    (update,) = job.epoch_steps(0, torch.Generator())
    loaded = [gradients.LoadedPart(part, None, len(part.rows)) for part in update]
    assert [part.weight for part, _, _ in gradients.weigh_by_size(loaded)] == [1 / 3] * 3
