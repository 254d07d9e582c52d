"""multitask/regularisers.py: R-Drop by hand, against torch, by finite differences, and in a run.

If only the symmetric value is wrong: one of the two directions of KL may be missing.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from command_line.options import Options
from minbert.training.loop import fit
from multitask.regularisers import r_drop, symmetric_divergence
from multitask.stage import read_tables
from tests.toy_multitask import encoded, task_job

SHAPES = {"classes": (6, 5), "binary": (6,), "score": (6,)}
each_kind = pytest.mark.parametrize("kind", SHAPES)


def outputs_of(kind: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Two predictions of the same six rows, float32."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(SHAPES[kind], generator=generator)
    return first, first + 0.5 * torch.randn(SHAPES[kind], generator=generator)


# --- the divergence -----------------------------------------------------------------------------


def test_by_hand():
    # P1 = (3/4, 1/4) and P2 = (1/4, 3/4): both directions of KL are log(3) / 2.
    logits = torch.tensor([[math.log(3), 0.0]])
    found = symmetric_divergence(logits, logits.flip(1), "classes")
    torch.testing.assert_close(float(found), math.log(3), msg="the sum of both directions of KL")
    # The same two predictions as one logit, for the second class.
    found = symmetric_divergence(
        torch.tensor([-math.log(3)]), torch.tensor([math.log(3)]), "binary"
    )
    torch.testing.assert_close(float(found), math.log(3))
    found = symmetric_divergence(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]), "score")
    assert float(found) == 2.5, "the mean of 1 and 4"


def test_against_torch_and_a_slow_loop():
    first, second = outputs_of("classes")
    logs = first.log_softmax(1), second.log_softmax(1)
    forward = F.kl_div(logs[1], logs[0], log_target=True, reduction="batchmean")
    backward = F.kl_div(logs[0], logs[1], log_target=True, reduction="batchmean")
    found = symmetric_divergence(first, second, "classes")
    torch.testing.assert_close(found, forward + backward)
    assert not torch.allclose(found, 2 * forward), "negative control: one direction twice"

    first, second = outputs_of("binary")
    total = 0.0
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        p = 1 / (1 + math.exp(-a))
        q = 1 / (1 + math.exp(-b))
        total += p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        total += q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert float(symmetric_divergence(first, second, "binary")) == pytest.approx(total / 6)


def test_a_logit_is_the_same_as_two_classes():
    first, second = outputs_of("binary")
    classes = [torch.stack([torch.zeros(6), logit], dim=1) for logit in (first, second)]
    expected = symmetric_divergence(*classes, "classes")
    torch.testing.assert_close(symmetric_divergence(first, second, "binary"), expected)


@each_kind
def test_properties(kind):
    first, second = outputs_of(kind)
    found = symmetric_divergence(first, second, kind)
    assert found.dtype == torch.float32 and found.shape == () and found > 0
    torch.testing.assert_close(symmetric_divergence(second, first, kind), found)
    assert float(symmetric_divergence(first, first, kind)) == 0
    low = symmetric_divergence(first.bfloat16(), second.bfloat16(), kind)
    assert low.dtype == torch.float32
    if kind == "classes":
        # A number added to all logits changes no probability.
        torch.testing.assert_close(symmetric_divergence(first + 3, second, kind), found)
    extreme = symmetric_divergence(1e4 * first, -1e4 * second, kind)
    assert torch.isfinite(extreme)


@each_kind
def test_gradients_by_finite_differences(kind):
    """float64 is computed in float32, so the step is wide and the comparison loose."""
    first, second = outputs_of(kind)
    first.requires_grad_()
    second.requires_grad_()
    symmetric_divergence(first, second, kind).backward()
    for inputs in (first, second):
        direction = torch.ones_like(inputs).cumsum(0) / 6 * (-1) ** torch.arange(inputs.size(-1))
        values = []
        for step in (0.01, -0.01):
            with torch.no_grad():
                moved = inputs + step * direction
                pair = (moved, second) if inputs is first else (first, moved)
                values.append(float(symmetric_divergence(*pair, kind)))
        slope = (values[0] - values[1]) / 0.02
        assert slope == pytest.approx(float((inputs.grad * direction).sum()), rel=0.01, abs=1e-3)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="kind is 'pair'; it is classes, binary or score"):
        symmetric_divergence(torch.zeros(2), torch.zeros(2), "pair")
    with pytest.raises(ValueError, match=r"first is \(2, 1\), second is \(2,\)"):
        symmetric_divergence(torch.zeros(2, 1), torch.zeros(2), "score")


# --- R-Drop -------------------------------------------------------------------------------------


def test_r_drop_by_hand():
    """Equation 4: both losses are added, and the symmetric KL is halved."""
    found = r_drop(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.5), 4.0)
    assert float(found) == 1 + 2 + 4 * 0.5 / 2
    assert float(r_drop(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.5), 0.0)) == 3


# --- in a run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options.of(
        data_dir=str(sample_data),
        model=str(tiny_model),
        pair_encoding="cross",
        sampling="joint",
        precision="fp32",
        batch_size=4,
        max_length=24,
        warmup=0.0,
        epochs=2,
        lr=1e-3,
        hidden_dropout_prob=0.3,
        train_rows="sst=16,para=16,sts=16",
        dev_rows="sst=4,para=4,sts=4",
    ).with_files()


@pytest.fixture(scope="module")
def rows(options):
    return encoded(options.with_values(pair_encoding="cross"), read_tables(options.data))


@pytest.fixture
def make_job(options, rows, tmp_path):
    """A function that builds the job with some options changed."""

    def make(**changes):
        return task_job(options.with_values(**changes), rows, tmp_path / "run")

    return make


def disagreement(job) -> float:
    """The mean divergence of two passes with dropout, over all tasks."""
    torch.manual_seed(0)
    job.model.train()
    total = 0.0
    with torch.no_grad():
        for task in ("sst", "para", "sts"):
            batch = job.load(task, list(range(16)))
            kind = job.model.tasks[task].kind
            for _ in range(4):
                pair = job.model(task, batch), job.model(task, batch)
                total += float(symmetric_divergence(*pair, kind))
    return total / 12


def test_the_loss_of_a_batch_is_that_of_two_passes(make_job):
    job = make_job(regulariser="r-drop", r_drop_weight=3.0)
    job.model.train()
    for task in ("sst", "para", "sts"):
        batch = job.load(task, [0, 1, 2, 3])
        torch.manual_seed(3)
        found = job.loss(task, batch)
        torch.manual_seed(3)
        first = job.model(task, batch)
        second = job.model(task, batch)
        assert not torch.equal(first, second), "dropout makes them differ"
        of_task = job.model.tasks[task]
        losses = of_task.loss(first, batch.labels) + of_task.loss(second, batch.labels)
        divergence = symmetric_divergence(first, second, of_task.kind)
        torch.testing.assert_close(found, losses + 1.5 * divergence)


def test_a_run_with_r_drop_agrees_more_with_itself(make_job, no_fsync):
    found = {}
    for weight in (0.0, 20.0):
        job = make_job(regulariser="r-drop", r_drop_weight=weight, max_grad_norm=0.0)
        fit(job)
        found[weight] = disagreement(job)
    assert found[20.0] < found[0.0]


def test_r_drop_without_dropout_is_refused(make_job):
    words = "--regulariser r-drop has no effect without dropout, because both passes are equal"
    with pytest.raises(ValueError, match=words):
        make_job(regulariser="r-drop", hidden_dropout_prob=0.0)
    make_job(regulariser="r-drop", hidden_dropout_prob=0.0, vector_dropout_prob=0.1)
