"""CAGrad and UPGrad: by hand, slow references, properties, and wrong versions that must differ.

The functions of multitask/surgery.py work on the K x K Gramian. The slow loops here work on the
gradients themselves.

K tasks, P parameters.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from multitask.surgery import cagrad, pcgrad, upgrad, worst_mixture
from tests.lessons.test_surgery import conflicting, rows
from tests.toy_surgery import make_surgery

every_one = pytest.mark.parametrize(
    "combine", [cagrad, upgrad], ids=lambda combine: combine.__name__
)


# --- both methods -------------------------------------------------------------------------------


def test_the_numbers_of_torchjds_documentation():
    """Its pages of CAGrad and of UPGrad show them, with four decimals."""
    gradients = rows([-4, 1, 1], [6, 1, 1])
    found = cagrad(gradients, 0.5)
    torch.testing.assert_close(found, rows([0.1835, 1.2041, 1.2041])[0], rtol=0, atol=6e-5)
    found = upgrad(gradients)
    # Its solver adds 1e-4 to the diagonal.
    torch.testing.assert_close(found, rows([0.2929, 1.9004, 1.9004])[0], rtol=0, atol=6e-4)


@every_one
def test_the_sum_is_as_many_times_the_mean_as_there_are_tasks(combine):
    gradients = conflicting(3)
    own = () if "upgrad" in combine.__name__ else (0.5,)
    whole = combine(gradients, *own, "sum")
    torch.testing.assert_close(whole, 3 * combine(gradients, *own, "mean"))
    with pytest.raises(ValueError, match="reduction is 'avg'; it is sum or mean"):
        combine(gradients, *own, "avg")


@every_one
@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_longer_gradients_give_a_longer_update(combine, scale):
    gradients = conflicting(3, seed=1)
    before = gradients.clone()
    found = combine(scale * gradients) / scale
    torch.testing.assert_close(found, combine(gradients), rtol=1e-5, atol=1e-7)
    assert torch.equal(gradients, before), "the originals are changed"


@every_one
def test_the_order_of_the_tasks_does_not_matter(combine):
    gradients = conflicting(4, seed=2) * rows([0.1], [1], [2], [5])
    found = combine(gradients[[2, 0, 3, 1]])
    torch.testing.assert_close(found, combine(gradients), rtol=1e-4, atol=1e-6)


@every_one
def test_gradients_of_zero_give_finite_updates(combine):
    assert combine(rows([0, 0], [0, 0])).tolist() == [0, 0]
    assert torch.isfinite(combine(rows([1, 2], [0, 0]))).all()


@pytest.mark.parametrize("method", ["cagrad", "upgrad"])
def test_in_the_loop_the_options_of_the_run_count(method):
    gradients = conflicting(3)
    names = ["sst", "para", "sts"]
    found = {}
    for reduction in ("sum", "mean"):
        surgery = make_surgery(method, reduction, 0.01, names, seed=0)
        found[reduction] = surgery(gradients @ gradients.T, names) @ gradients
    expected = cagrad(gradients, 0.5) if method == "cagrad" else upgrad(gradients)
    torch.testing.assert_close(found["mean"], expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found["sum"], 3 * found["mean"])


# --- CAGrad -------------------------------------------------------------------------------------


def test_cagrad_by_hand():
    # Equal tasks at a right angle: the mixture is the mean, which becomes (1 + c) times as long.
    found = cagrad(rows([1, 0], [0, 1]), 0.4)
    torch.testing.assert_close(found, rows([0.7, 0.7])[0])
    # g_0 = (-1, 0). d lies within .5 of it, and min(d_x, -3 d_x) is largest for d_x = -.5.
    found = cagrad(rows([1, 0], [-3, 0]), 0.5)
    torch.testing.assert_close(found, rows([-0.5, 0])[0])
    # One task: its gradient, 1 + c times.
    torch.testing.assert_close(cagrad(rows([2, 4]), 0.5), rows([3, 6])[0])


def test_cagrad_without_a_ball_is_the_mean():
    gradients = conflicting(4) + 0.1
    torch.testing.assert_close(cagrad(gradients, 0.0), gradients.mean(dim=0))


def primal_cagrad(gradients: Tensor, radius: float) -> Tensor:
    """Equation 2 as it stands, over all updates d and the worst task's help t: (P + 1) numbers."""
    table = gradients.numpy()
    mean = table.mean(axis=0)
    limit = radius * np.linalg.norm(mean)
    start = np.append(mean, (table @ mean).min())
    result = minimize(
        lambda point: -point[-1],
        start,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
        constraints=[
            {"type": "ineq", "fun": lambda point: table @ point[:-1] - point[-1]},
            {"type": "ineq", "fun": lambda point: limit**2 - ((point[:-1] - mean) ** 2).sum()},
        ],
    )
    return torch.from_numpy(result.x[:-1])


@pytest.mark.parametrize("num_tasks", [2, 3, 4])
def test_cagrad_solves_the_problem_of_the_paper(num_tasks):
    """The dual problem's update equals that of the primal problem, which has no mixture."""
    for seed in range(2):
        gradients = conflicting(num_tasks, seed)[:, :5] + 0.3
        expected = primal_cagrad(gradients, 0.6)
        # Two solvers, each with tolerances of its own: measured below 2e-7.
        torch.testing.assert_close(cagrad(gradients, 0.6), expected, rtol=1e-4, atol=1e-5)


def test_cagrad_helps_the_worst_task_more_than_any_other_update_of_the_ball():
    generator = torch.Generator().manual_seed(0)
    gradients = conflicting(3)[:, :4] + 0.3
    mean = gradients.mean(dim=0)
    found = cagrad(gradients, 0.5)
    length = 0.5 * mean.norm()
    torch.testing.assert_close((found - mean).norm(), length, msg="it lies on the ball's edge")

    directions = torch.randn(1000, 4, dtype=torch.float64, generator=generator)
    directions = directions / directions.norm(dim=1, keepdim=True)
    helped = ((mean + length * directions) @ gradients.T).min(dim=1).values
    assert helped.max() <= (gradients @ found).min() + 1e-9
    assert helped.max() > (gradients @ mean).min(), "negative control: the mean is not the best"


def test_negative_control_an_even_mixture_is_another_update():
    gradients = conflicting(3)[:, :4] + 0.3
    mean = gradients.mean(dim=0)
    assert not torch.allclose(cagrad(gradients, 0.5), 1.5 * mean, rtol=0.05)


def test_the_mixture_is_a_distribution_over_the_tasks():
    for num_tasks in (1, 2, 5):
        gradients = conflicting(num_tasks) + 0.1
        mixture = worst_mixture(gradients @ gradients.T, 0.5)
        assert mixture.dtype == torch.float64 and (mixture >= 0).all()
        assert float(mixture.sum()) == pytest.approx(1)


def test_cagrad_of_gradients_that_cancel_is_the_mean():
    """No direction helps both tasks, and the ball around a mean of 0 is a point."""
    torch.testing.assert_close(cagrad(rows([1, 2], [-1, -2])), rows([0, 0])[0])


# --- UPGrad -------------------------------------------------------------------------------------


def test_upgrad_by_hand():
    # (.5, .5) and (0, 1), as in PCGrad, and their mean.
    torch.testing.assert_close(upgrad(rows([1, 0], [-1, 1])), rows([0.25, 0.75])[0])
    # No conflict: the mean. Opposite gradients: nothing is left.
    torch.testing.assert_close(upgrad(rows([1, 2], [3, 1])), rows([2, 1.5])[0])
    opposite = upgrad(rows([1, 2], [-3, -6]))
    torch.testing.assert_close(opposite, rows([0, 0])[0], rtol=0, atol=1e-9)
    torch.testing.assert_close(upgrad(rows([5, 7])), rows([5, 7])[0])


def test_upgrad_of_two_tasks_is_pcgrad():
    gradients = conflicting(2) + 0.1
    torch.testing.assert_close(upgrad(gradients, "sum"), pcgrad(gradients))


def nearest_without_conflict(gradients: Tensor, number: int) -> Tensor:
    """The projection of one gradient, by trying every set of tasks at a right angle to it.

    The nearest vector is at a right angle to some of the tasks. Of all candidates that conflict
    with no task, it is the one at the smallest distance.
    """
    num_tasks = len(gradients)
    best = torch.full_like(gradients[0], torch.inf)
    for code in range(2**num_tasks):
        chosen = [task for task in range(num_tasks) if code >> task & 1]
        candidate = gradients[number]
        if chosen:
            basis = gradients[chosen]
            candidate = candidate - torch.linalg.pinv(basis) @ (basis @ candidate)
        has_conflict = (gradients @ candidate).min() < -1e-9
        distance = (candidate - gradients[number]).norm()
        if not has_conflict and distance < (best - gradients[number]).norm():
            best = candidate
    return best


@pytest.mark.parametrize("num_tasks", [2, 3, 4])
def test_upgrad_is_the_mean_of_the_nearest_vectors_without_conflict(num_tasks):
    gradients = conflicting(num_tasks) + 0.1
    nearest = [nearest_without_conflict(gradients, number) for number in range(num_tasks)]
    expected = torch.stack(nearest).mean(dim=0)
    torch.testing.assert_close(upgrad(gradients), expected, rtol=1e-6, atol=1e-7)


MAX_ROUNDS = 10_000  # of plain_upgrad over the tasks
TOLERANCE = 1e-9  # it ends with changes that are smaller than this share of a gradient


def plain_upgrad(gradients: Tensor) -> Tensor:
    """The mean of the projections, on flat vectors.

    The projection goes round all tasks, as PCGrad does, until nothing changes (Hildreth 1957). Each
    visit adds a multiple u_j of g_j. A later visit may take it back, but u_j stays at least 0.
    """
    num_tasks = len(gradients)
    projected = gradients.clone()
    squared_norms = gradients.square().sum(dim=1)  # (K,)
    for i in range(num_tasks):
        added = torch.zeros_like(squared_norms)  # u, (K,)
        for _ in range(MAX_ROUNDS):
            largest_change = 0.0
            for j in range(num_tasks):
                # What is missing until the product with g_j is 0; or less than nothing.
                change = -(projected[i] @ gradients[j]) / squared_norms[j]
                change = torch.maximum(change, -added[j])
                added[j] += change
                projected[i] += change * gradients[j]
                length = change.abs() * squared_norms[j].sqrt()
                largest_change = max(largest_change, float(length))
            if largest_change <= TOLERANCE * float(squared_norms[i].sqrt()):
                break
    return projected.mean(dim=0)


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
def test_upgrad_equals_a_loop_that_goes_round_the_tasks(num_tasks):
    gradients = conflicting(num_tasks) + 0.1
    torch.testing.assert_close(upgrad(gradients), plain_upgrad(gradients), rtol=1e-6, atol=1e-7)


def test_upgrad_conflicts_with_no_task_where_pcgrad_does():
    num_conflicts = {"pcgrad": 0, "upgrad": 0}
    for seed in range(20):
        gradients = conflicting(3, seed)[:, :3] + 0.1
        updates = {"pcgrad": pcgrad(gradients), "upgrad": upgrad(gradients)}
        for name, update in updates.items():
            num_conflicts[name] += int((gradients @ update).min() < -1e-9)
    assert num_conflicts["upgrad"] == 0
    assert num_conflicts["pcgrad"] > 0, "negative control: PCGrad's update may conflict"


def test_upgrad_agrees_with_torchjd():
    aggregation = pytest.importorskip("torchjd.aggregation", reason="run setup.sh --dev")
    pytest.importorskip("quadprog", reason="torchjd's UPGrad needs quadprog and qpsolvers")
    projector = pytest.importorskip("torchjd.linalg").QuadprogProjector
    reference = aggregation.UPGrad(projector=projector(norm_eps=0, reg_eps=1e-12))
    for num_tasks in (2, 3, 4, 6):
        gradients = conflicting(num_tasks) + 0.1
        torch.testing.assert_close(upgrad(gradients), reference(gradients), rtol=1e-6, atol=0)


# --- a tiny run ---------------------------------------------------------------------------------


def worst_rise(combine) -> float:
    """The largest rise of any loss in 40 steps of gradient descent on two bowls."""
    centres = rows([10, 0], [0, 3])
    weights = rows([1, 1])[0]
    worst = -torch.inf
    for _ in range(40):
        before = (weights - centres).square().sum(dim=1)  # (2,)
        weights = weights - 0.01 * combine(2 * (weights - centres))
        after = (weights - centres).square().sum(dim=1)
        worst = max(worst, float((after - before).max()))
    return worst


def test_a_run_with_upgrad_makes_no_loss_larger_and_one_with_the_mean_does():
    assert worst_rise(upgrad) < 0
    rise_of_the_mean = worst_rise(lambda gradients: gradients.mean(dim=0))
    assert rise_of_the_mean > 0.1
    assert worst_rise(cagrad) < rise_of_the_mean
