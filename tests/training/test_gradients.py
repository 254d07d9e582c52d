"""minbert/training/gradients.py: each task's own gradient, their Gramian, and what they are combined to."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from minbert.training import gradients
from minbert.training.gradients import backward, combine, gramian
from minbert.training.loop import fit
from multitask.surgery import GradientSurgery
from tests.toy_job import bits, make_job

BOTH = [[("a", [0, 1, 2]), ("b", [3, 4, 5])]] * 4


def plan(epoch, generator):
    return BOTH


class Keep:
    """A surgery that keeps what it is told and answers with fixed weights."""

    def __init__(self, *weights: float) -> None:
        self.weights, self.seen = weights, []

    def __call__(self, products, tasks):
        self.seen.append((products, tasks))
        return torch.tensor(self.weights, dtype=torch.float64)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        self.seen = []


def gradients_of(job, step) -> dict[str, torch.Tensor | None]:
    job.model.train()
    job.optimizer.zero_grad(set_to_none=True)
    backward(job, step)
    return {name: parameter.grad for name, parameter in job.model.named_parameters()}


def own_gradient(job, task, rows) -> dict[str, torch.Tensor | None]:
    job.optimizer.zero_grad(set_to_none=True)
    job.loss(task, job.load(task, rows)).backward()
    return {name: parameter.grad for name, parameter in job.model.named_parameters()}


def test_a_full_gpu_is_told_with_what_helps(tmp_path):
    def loss(task, batch):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 8 GiB"
        )

    with pytest.raises(
        ValueError,
        match=r"toy: a batch of 2 examples does not fit into the GPU's memory \(CUDA out of "
        r"memory\)\. Pass a smaller one \(--batch-size, with --accumulation",
    ):
        backward(make_job(tmp_path, loss=loss), [("a", [0, 1], 1.0)])


def test_gramian_by_hand():
    columns = [
        (torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0])),
        (torch.tensor([[2.0]]), torch.tensor([[-4.0]])),
    ]
    assert gramian(columns, 2).tolist() == [
        [9.0, -7.0],
        [-7.0, 26.0],
    ]  # 1 + 4 + 4; 3 - 2 - 8; 9 + 1 + 16


def test_gramian_equals_the_product_of_flat_vectors_whatever_the_pieces(monkeypatch):
    torch.manual_seed(0)
    shapes = [(3, 4), (7,), (2, 5, 2), (1,)]
    columns = [tuple(torch.randn(shape, dtype=torch.float64) for _ in range(3)) for shape in shapes]
    flat = torch.stack(
        [torch.cat([column[task].flatten() for column in columns]) for task in range(3)]
    )
    for chunk in (1, 4, 1000):
        monkeypatch.setattr(gradients, "CHUNK", chunk)
        torch.testing.assert_close(gramian(columns, 3), flat @ flat.T)


def test_what_all_tasks_touch_is_weighted_and_a_head_keeps_its_own(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    own = {task: own_gradient(job, task, rows) for task, rows in BOTH[0]}
    keep = Keep(2.0, -3.0)
    found = gradients_of(replace(job, surgery=keep), [(task, rows, 0.5) for task, rows in BOTH[0]])
    for name in ("body.weight", "body.bias"):
        torch.testing.assert_close(found[name], 2 * own["a"][name] - 3 * own["b"][name])
    for task in "ab":
        assert torch.equal(found[f"heads.{task}.weight"], own[task][f"heads.{task}.weight"])
    assert found["idle"] is None, "what no task touches must keep None, or Adam would decay it"
    ((products, tasks),) = keep.seen
    flat = torch.stack(
        [
            torch.cat([own[task][name].flatten() for name in ("body.weight", "body.bias")])
            for task in "ab"
        ]
    ).double()
    assert tasks == ["a", "b"]
    torch.testing.assert_close(products, flat @ flat.T, rtol=1e-6, atol=0)  # the body only, in fp32


def test_a_head_that_the_step_does_not_touch_keeps_none(tmp_path):
    job = replace(make_job(tmp_path), surgery=Keep(1.0))
    found = gradients_of(job, [("a", [0, 1], 1.0)])
    assert found["heads.b.weight"] is None and found["heads.a.weight"] is not None


def test_accumulation_averages_a_task_s_batches_before_the_tasks_meet(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    step = [("a", [0, 1], 0.25), ("b", [2, 3], 0.25), ("a", [4, 5], 0.25), ("a", [6, 7], 0.25)]
    whole = own_gradient(job, "a", [0, 1, 4, 5, 6, 7])
    found = gradients_of(replace(job, surgery=Keep(1.0, 0.0)), step)
    torch.testing.assert_close(found["body.weight"], whole["body.weight"])


def test_the_loss_of_a_step_with_surgery_is_the_mean_over_its_tasks(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    first, second, other = (
        float(job.loss(task, job.load(task, rows)).detach())
        for task, rows in (("a", [0, 1]), ("a", [4, 5]), ("b", [2, 3]))
    )
    step = [("a", [0, 1], 0.25), ("b", [2, 3], 0.25), ("a", [4, 5], 0.25)]
    job.optimizer.zero_grad(set_to_none=True)
    loss, _ = backward(replace(job, surgery=Keep(1.0, 1.0)), step)
    assert loss == pytest.approx(((first + second) / 2 + other) / 2)


def test_weights_of_one_are_the_sum_of_the_losses(tmp_path):
    job = make_job(tmp_path, dropout=0.0)
    step = [(task, rows, 1.0) for task, rows in BOTH[0]]
    summed, combined = (
        gradients_of(job, step),
        gradients_of(replace(job, surgery=Keep(1.0, 1.0)), step),
    )
    for name, gradient in summed.items():
        torch.testing.assert_close(combined[name], gradient)


def test_what_two_of_three_tasks_touch_gets_their_plain_sum():
    shared, of_two, of_one, idle = (nn.Parameter(torch.zeros(1)) for _ in range(4))
    one, ten, hundred = torch.tensor([1.0]), torch.tensor([10.0]), torch.tensor([100.0])
    columns = [
        [one, one.clone(), None, None],
        [ten, ten.clone(), ten.clone(), None],
        [hundred, None, None, None],
    ]
    seen = []
    combine(
        [shared, of_two, of_one, idle],
        columns,
        lambda products: seen.append(products) or torch.tensor([2.0, -1.0, 0.5]),
    )
    assert (shared.grad, of_two.grad, of_one.grad, idle.grad) == (2 - 10 + 50, 11, 10, None)
    assert seen[0].tolist() == [
        [1, 10, 100],
        [10, 100, 1000],
        [100, 1000, 10000],
    ]  # of the shared one alone


def test_clipping_comes_after_surgery(tmp_path):
    """One step of the loop: the combined gradient, made shorter as a whole, not each task's own before."""

    def first_gradient(limit: float) -> torch.Tensor:
        job = make_job(
            tmp_path / str(limit),
            dropout=0.0,
            plan=plan,
            surgery=Keep(5.0, -3.0),
            max_grad_norm=limit,
        )
        found = []
        job.optimizer.step = lambda: found.append(
            torch.cat(
                [
                    parameter.grad.flatten()
                    for parameter in job.model.parameters()
                    if parameter.grad is not None
                ]
            )
        )
        fit(replace(job, epochs=1))
        return found[0]

    free, clipped = first_gradient(0.0), first_gradient(0.01)
    torch.testing.assert_close(clipped, free * (0.01 / (float(free.norm()) + 1e-6)))
    assert float(free.norm()) > 1


def test_no_gradient_is_copied():
    parameter = nn.Parameter(torch.zeros(3))
    columns = [[torch.tensor([1.0, 2.0, 3.0])], [torch.tensor([1.0, 0.0, 0.0])]]
    combine([parameter], columns, lambda products: torch.tensor([2.0, 1.0]))
    assert parameter.grad.tolist() == [3.0, 4.0, 6.0] and parameter.grad is columns[0][0]


def test_a_loss_that_is_not_finite_stops_before_its_backward_pass(tmp_path):
    job = replace(make_job(tmp_path, disturb=lambda when, number: None), surgery=Keep(1.0, 1.0))
    nan = replace(
        job, loss=lambda task, batch: job.loss(task, batch) * (float("nan") if task == "b" else 1.0)
    )
    loss, (task, rows, _) = backward(nan, [(task, rows, 1.0) for task, rows in BOTH[0]])
    assert loss != loss and (task, rows) == BOTH[0][1]
    gradients = {name: parameter.grad for name, parameter in job.model.named_parameters()}
    assert all(
        gradient is None for name, gradient in gradients.items() if name.startswith("heads.b")
    )
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients.values())


def surgical(folder, **changes):
    return make_job(
        folder,
        plan=plan,
        surgery=GradientSurgery("gradvac", "sum", 0.1, ["a", "b"], seed=0),
        **changes,
    )


def test_a_run_with_surgery_resumes_to_the_same_bits(tmp_path):
    job = surgical(tmp_path / "whole")
    expected, log = bits(job, fit(job)), job.surgery.state_dict()

    def stop(when, number):
        if when == "step" and number == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(surgical(tmp_path / "cut", disturb=stop))
    again = surgical(tmp_path / "cut")
    torch.manual_seed(4)
    assert bits(again, fit(again, resume=True)) == expected
    assert {name: tensor.tolist() for name, tensor in again.surgery.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in log.items()
    }
    assert len(log["cosines"]) == 12 and log["targets"].any()


def test_another_surgery_is_another_run(tmp_path):
    one = make_job(tmp_path / "one", plan=plan)
    other = make_job(tmp_path / "other", plan=plan, surgery=Keep(1.0, -1.0))
    assert bits(one, fit(one))["weights"] != bits(other, fit(other))["weights"]
