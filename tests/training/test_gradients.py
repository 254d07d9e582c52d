"""minbert/training/gradients.py: each task's own gradient, their Gramian, and their combination.

If a head gets another gradient than its own, the surgery has weighted what only one task touches.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from minbert.training import gradients
from minbert.training.gradients import backward, combine, gramian
from minbert.training.job import Part, TaskBatch
from minbert.training.loop import fit
from multitask.surgery import pcgrad, pcgrad_weights
from tests.toy_job import bits, make_job
from tests.toy_surgery import make_surgery

BOTH = [TaskBatch("a", [0, 1, 2]), TaskBatch("b", [3, 4, 5])]


def plan(epoch, generator):
    """Four steps with a batch of both tasks."""
    return [BOTH] * 4


def parts(weight: float) -> list[Part]:
    """The batches of BOTH with one weight."""
    return [Part(task, rows, weight) for task, rows in BOTH]


class Keep:
    """A surgery that keeps its arguments and answers with fixed weights."""

    def __init__(self, *weights: float) -> None:
        self.weights = weights
        self.seen = []

    def __call__(self, products, losses):
        self.seen.append((products, losses))
        return torch.tensor(self.weights, dtype=torch.float64)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        self.seen = []


def gradients_of(job, update) -> dict[str, Tensor | None]:
    """What `backward` leaves in .grad, by name."""
    job.model.train()
    job.optimizer.zero_grad(set_to_none=True)
    backward(job, update)
    return {name: parameter.grad for name, parameter in job.model.named_parameters()}


def gradient_alone(job, task, rows) -> dict[str, Tensor | None]:
    """The gradient of one batch's loss, by torch alone."""
    job.optimizer.zero_grad(set_to_none=True)
    job.loss(task, job.load(task, rows)).backward()
    return {name: parameter.grad for name, parameter in job.model.named_parameters()}


def test_a_full_gpu_is_told_with_what_helps(tmp_path):
    def loss(task, batch):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 8 GiB"
        )

    message = (
        r"toy: a batch of 2 examples does not fit into the GPU's memory \(CUDA out of memory\)\. "
        r"Pass a smaller one \(--batch-size; in run_multitask.py with --accumulation"
    )
    with pytest.raises(ValueError, match=message):
        backward(make_job(tmp_path, loss=loss), [Part("a", [0, 1], 1.0)])


# --- the Gramian ----------------------------------------------------------------------------------


def test_gramian_by_hand():
    columns = [
        (torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0])),
        (torch.tensor([[2.0]]), torch.tensor([[-4.0]])),
    ]
    # 1 + 4 + 4; 3 - 2 - 8; 9 + 1 + 16
    assert gramian(columns, 2).tolist() == [[9.0, -7.0], [-7.0, 26.0]]


def test_gramian_equals_the_product_of_flat_vectors_whatever_the_pieces(monkeypatch):
    torch.manual_seed(0)
    shapes = [(3, 4), (7,), (2, 5, 2), (1,)]
    columns = [tuple(torch.randn(shape, dtype=torch.float64) for _ in range(3)) for shape in shapes]
    vectors = []
    for task in range(3):
        vectors.append(torch.cat([column[task].flatten() for column in columns]))
    flat = torch.stack(vectors)
    for chunk in (1, 4, 1000):
        monkeypatch.setattr(gradients, "CHUNK", chunk)
        torch.testing.assert_close(gramian(columns, 3), flat @ flat.T)


# --- tasks meet -----------------------------------------------------------------------------------


SCALES = (0.0, 1e-30, 1e-22, 1e-19, 1e-10, 1.0, 1e10, 1e18, 1e20, 1e30)


@pytest.mark.parametrize("first", SCALES)
def test_pcgrad_of_gradients_of_every_size(first):
    """Squares of 1e30 are more than float32 holds. The reference is Algorithm 1 in float64."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(50, generator=generator)
    other = 0.5 * torch.randn(50, generator=generator) - base  # the two conflict
    for second in SCALES:
        rows = torch.stack([base * first, other * second])  # (2, P)
        expected = pcgrad(rows.double(), generator=generator)
        parameter = nn.Parameter(torch.zeros(50))
        columns = [[row.clone()] for row in rows]
        combine([parameter], columns, lambda products: pcgrad_weights(products, "sum", generator))
        error = (parameter.grad.double() - expected).norm()
        assert error <= 1e-5 * expected.norm(), (first, second)


def test_scaled_dot_products_have_the_same_bits():
    """Powers of two round nothing, so the way to the Gramian does not change a run."""
    generator = torch.Generator().manual_seed(1)
    pieces = [torch.randn(3, 400, generator=generator) * 10.0**-size for size in range(4)]
    columns = [list(piece) for piece in pieces]
    plain = gradients.dot_products(columns, 3)
    scales = [gradients.power_of_two(of_task) for of_task in zip(*columns, strict=True)]
    inverse = torch.tensor(scales, dtype=torch.float64)
    scaled = gradients.dot_products(columns, 3, scales) / torch.outer(inverse, inverse)
    assert set(scales) - {1.0} and torch.equal(plain, scaled)
    assert torch.equal(gramian(columns, 3), plain)


def test_powers_of_two():
    cases = {3.0: 0.25, 1.0: 0.5, 0.75: 1.0, 0.0: 1.0, math.inf: 1.0, math.nan: 1.0}
    for largest, expected in cases.items():
        assert gradients.power_of_two([torch.tensor([largest, 0.0]), torch.ones(0)]) == expected


def test_a_shared_parameter_is_weighted_and_a_head_keeps_its_own_gradient(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    alone = {task: gradient_alone(job, task, rows) for task, rows in BOTH}
    keep = Keep(2.0, -3.0)
    both = gradients_of(replace(job, surgery=keep), parts(0.5))
    body = ("body.weight", "body.bias")
    for name in body:
        torch.testing.assert_close(both[name], 2 * alone["a"][name] - 3 * alone["b"][name])
    for task in "ab":
        name = f"heads.{task}.weight"
        assert torch.equal(both[name], alone[task][name])
    assert both["idle"] is None, "what no task touches must keep None, or Adam would decay it"

    # The surgery sees the body only, which both tasks touch.
    ((products, _),) = keep.seen
    vectors = []
    for task in "ab":
        vectors.append(torch.cat([alone[task][name].flatten() for name in body]))
    flat = torch.stack(vectors).double()
    torch.testing.assert_close(products, flat @ flat.T, rtol=1e-6, atol=0)  # fp32


def test_a_head_that_the_step_does_not_touch_keeps_none(tmp_path):
    job = replace(make_job(tmp_path), surgery=Keep(1.0))
    left = gradients_of(job, [Part("a", [0, 1], 1.0)])
    assert left["heads.b.weight"] is None and left["heads.a.weight"] is not None


def test_accumulation_averages_a_task_s_batches_before_the_tasks_meet(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    update = [
        Part("a", [0, 1], 0.25),
        Part("b", [2, 3], 0.25),
        Part("a", [4, 5], 0.25),
        Part("a", [6, 7], 0.25),
    ]
    together = gradient_alone(job, "a", [0, 1, 4, 5, 6, 7])
    left = gradients_of(replace(job, surgery=Keep(1.0, 0.0)), update)
    torch.testing.assert_close(left["body.weight"], together["body.weight"])


def test_the_loss_of_a_step_with_surgery_is_the_mean_over_its_tasks(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    update = [Part("a", [0, 1], 0.25), Part("b", [2, 3], 0.25), Part("a", [4, 5], 0.25)]
    first, other, second = (
        float(job.loss(task, job.load(task, rows)).detach()) for task, rows, _ in update
    )
    job.optimizer.zero_grad(set_to_none=True)
    keep = Keep(1.0, 1.0)
    update_loss = backward(replace(job, surgery=keep), update)
    ((_, losses),) = keep.seen
    assert list(losses) == ["a", "b"] and losses == update_loss.by_task, "the surgery sees them"
    assert update_loss.loss == pytest.approx(((first + second) / 2 + other) / 2)
    assert update_loss.by_task == pytest.approx({"a": (first + second) / 2, "b": other})


def test_weights_of_one_are_the_sum_of_the_losses(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    summed = gradients_of(job, parts(1.0))
    combined = gradients_of(replace(job, surgery=Keep(1.0, 1.0)), parts(1.0))
    for name, gradient in summed.items():
        torch.testing.assert_close(combined[name], gradient)


def test_two_of_three_tasks_give_their_plain_sum():
    shared, of_two, of_one, idle = (nn.Parameter(torch.zeros(1)) for _ in range(4))
    one, ten, hundred = (torch.tensor([value]) for value in (1.0, 10.0, 100.0))
    columns = [
        [one, one.clone(), None, None],
        [ten, ten.clone(), ten.clone(), None],
        [hundred, None, None, None],
    ]
    seen = []

    def weigh(products):
        seen.append(products)
        return torch.tensor([2.0, -1.0, 0.5])

    combine([shared, of_two, of_one, idle], columns, weigh)
    assert (shared.grad, of_two.grad, of_one.grad, idle.grad) == (2 - 10 + 50, 11, 10, None)
    # Of the shared one alone.
    assert seen[0].tolist() == [[1, 10, 100], [10, 100, 1000], [100, 1000, 10000]]


def test_clipping_comes_after_surgery(tmp_path):
    """The combined gradient is made shorter, not each task's own before."""

    def first_gradient(limit: float) -> Tensor:
        job = make_job(
            tmp_path / str(limit),
            dropout=0.0,
            plan=plan,
            surgery=Keep(5.0, -3.0),
            max_grad_norm=limit,
            epochs=1,
        )
        seen = []

        def look():
            present = [p.grad.flatten() for p in job.model.parameters() if p.grad is not None]
            seen.append(torch.cat(present))

        job.optimizer.step = look
        fit(job)
        return seen[0]

    free = first_gradient(0.0)
    clipped = first_gradient(0.01)
    torch.testing.assert_close(clipped, free * (0.01 / (float(free.norm()) + 1e-6)))
    assert float(free.norm()) > 1


def test_no_gradient_is_copied():
    parameter = nn.Parameter(torch.zeros(3))
    columns = [[torch.tensor([1.0, 2.0, 3.0])], [torch.tensor([1.0, 0.0, 0.0])]]
    combine([parameter], columns, lambda products: torch.tensor([2.0, 1.0]))
    assert parameter.grad.tolist() == [3.0, 4.0, 6.0] and parameter.grad is columns[0][0]


def test_a_loss_that_is_not_finite_stops_before_its_backward_pass(tmp_path):
    job = replace(make_job(tmp_path), surgery=Keep(1.0, 1.0))

    def loss(task, batch):
        factor = float("nan") if task == "b" else 1.0
        return job.loss(task, batch) * factor

    update_loss = backward(replace(job, loss=loss), parts(1.0))
    part = update_loss.part
    assert math.isnan(update_loss.loss) and (part.task, part.rows) == BOTH[1]
    for name, parameter in job.model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
        assert parameter.grad is None or not name.startswith("heads.b")


# --- a run with surgery ---------------------------------------------------------------------------


def surgical(folder, **changes):
    """The toy job with GradVac, whose targets are a state of their own."""
    surgery = make_surgery("gradvac", "sum", 0.1, ["a", "b"], seed=0)
    return make_job(folder, plan=plan, surgery=surgery, **changes)


def test_a_run_with_surgery_resumes_to_the_same_bits(tmp_path):
    job = surgical(tmp_path / "whole")
    expected = bits(job, fit(job))
    log = job.surgery.state_dict()

    def stop(when, number):
        if when == "step" and number == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(surgical(tmp_path / "cut", disturb=stop))
    again = surgical(tmp_path / "cut")
    torch.manual_seed(4)
    assert bits(again, fit(again, resume=True)) == expected
    log_again = again.surgery.state_dict()
    assert log_again.keys() == log.keys()
    for name, tensor in log.items():
        assert log_again[name].tolist() == tensor.tolist()
    assert len(log["cosines"]) == 12 and log["targets"].any()


def test_another_surgery_is_another_run(tmp_path):
    one = make_job(tmp_path / "one", plan=plan)
    other = make_job(tmp_path / "other", plan=plan, surgery=Keep(1.0, -1.0))
    assert bits(one, fit(one))["weights"] != bits(other, fit(other))["weights"]
