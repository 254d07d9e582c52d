"""Gradients of several tasks. Run it with `python -m pytest -x tests/lessons/test_surgery.py`.

Weights of the losses first. Then PCGrad: vectors worked by hand, a plain loop, and wrong versions
that must differ. The functions work on the K x K Gramian. The slow loops here work on the
gradients themselves, as the papers do. If only three or more tasks differ, then a weight of a
gradient was mixed up with its place in the Gramian.

K tasks, P parameters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from itertools import permutations

import pytest
import torch
from torch import Tensor

from multitask.surgery import gramian_of, mean, pcgrad, pcgrad_weights, weighted


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- weights of the losses ------------------------------------------------------------------------


def test_weights_by_hand():
    assert mean(["sst"]) == [1.0], "one batch a step: its loss as it is"
    assert mean(["sst", "sts"]) == [0.5, 0.5], "1 / K each"
    assert mean(["sst", "para", "sts"]) == pytest.approx([1 / 3] * 3), "1 / K each"
    assert weighted(["sst", "para", "sst"], {"para": 2.0}) == [1.0, 2.0, 1.0], (
        "1 for a task without an entry, in the order of the tasks"
    )


def make_losses(weight: Tensor) -> list[Tensor]:
    """Three losses of one shared parameter (4,), with different gradients."""
    inputs = torch.arange(12.0).reshape(3, 4)
    targets = (1.0, -2.0, 5.0)
    return [(row @ weight - target) ** 2 for row, target in zip(inputs, targets, strict=True)]


def gradient_of_the_mean(weight: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(torch.stack(make_losses(weight)).mean(), weight)
    return gradient


def test_accumulated_backward_passes_equal_one_backward_of_the_mean():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    for share, loss in zip(mean(["a", "b", "c"]), make_losses(weight), strict=True):
        (share * loss).backward()
    # A sum in another order: measured 1e-7.
    torch.testing.assert_close(weight.grad, gradient_of_the_mean(weight), rtol=1e-6, atol=0)


def test_negative_control_the_sum_is_another_gradient():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    for loss in make_losses(weight):
        loss.backward()
    assert not torch.allclose(weight.grad, gradient_of_the_mean(weight))


# --- PCGrad: by hand ------------------------------------------------------------------------------

# g1 = (1, 0) and g2 = (-1, 1), whose product is -1. g1 + g2 / 2 = (.5, .5) and g2 + g1 = (0, 1),
# together (.5, 1.5). A mistake leads to another vector.
MISTAKES = {
    (0.0, 1.0): (
        "this is the plain sum: a gradient is projected where its product with another is below 0."
    ),
    (0.5, 0.5): "only the first gradient is returned; add up all projected ones.",
    (0.25, 0.75): (
        "this is the mean of the projected gradients; Yu et al. add them up (reduction='mean' is "
        "ours)."
    ),
    (1.0, 1.0): "only the second was projected; each is.",
    (0.0, 2.0): "divide the product by the squared length of the gradient that is projected on.",
    (1.0, 2.0): "the projection is subtracted twice.",
    (0.25, 1.25): "half of the projection is subtracted; subtract all of it.",
    (0.0, 1.70711): "divide the product by the squared length; here it is the cosine.",
    (0.0, 0.0): "a gradient in conflict is left out altogether; only its part along the other is.",
    (1.0, 3.0): "the result is multiplied by the number of tasks.",
    (-0.5, 0.5): "the projection is added; subtract it.",
    (-0.5, 2.0): (
        "are the weights summed along the wrong axis? Sum over the tasks, for each gradient. Or is "
        "the divisor not |g_j|^2 of the gradient that is projected on?"
    ),
    (0.29289, 1.70711): "divide the product by the squared length, not by the length.",
}
OTHER_MISTAKE = (
    "is it g_i - (g_i . g_j) / |g_j|^2 g_j for each j that is not i, where g_i . g_j is below 0?"
)


def hint_for(found: Tensor, surgery: Callable[..., Tensor]) -> str:
    agreeing = surgery(rows([1, 2], [3, 1]))
    if torch.allclose(found, rows([0, 1])[0]) and not torch.allclose(agreeing, rows([4, 3])[0]):
        return (
            "the condition is the wrong way round: a gradient is projected where its product with "
            "another is below 0, and not where it is above."
        )
    if torch.allclose(found, rows([-0.5, 1.5])[0]):
        return hint_of_one(surgery)
    three = rows([3, -2, 0], [-1, 2, -2], [0, -1, 1])
    for orders in ([[1], [0], [0, 1]], [[1], [0], [1, 0]]):
        if torch.allclose(surgery(three), plain_pcgrad(three, orders)):
            return "the last task is never visited: is it torch.randperm(K), for all K tasks?"
    for mistake, change in WRONG_PROJECTIONS.items():
        if is_possible(surgery(three), three, 1e-9, 1e-9, change):
            return mistake
    for vector, mistake in MISTAKES.items():
        if torch.allclose(found, rows(list(vector))[0], atol=1e-3):
            return mistake
    return OTHER_MISTAKE


def hint_of_one(surgery: Callable[..., Tensor]) -> str:
    """Which mistake projects only the first of two gradients: three tell them apart."""
    gradients = rows([3, -2, 0], [-1, 2, -2], [0, -1, 1])
    found = surgery(gradients)
    for order in ([1, 2], [2, 1]):
        if torch.allclose(found, project(gradients, 0, order) + gradients[1] + gradients[2]):
            return "only the first was projected; each is."
    return "a gradient is projected on what another has become; project on the originals."


def check_pcgrad(surgery: Callable[..., Tensor]) -> None:
    """The most common mistakes each give another vector, or project where nothing conflicts."""
    gradients = rows([1, 0], [-1, 1])
    found = surgery(gradients)
    assert isinstance(found, Tensor), f"found {found}, expected a tensor: not written yet?"
    assert found.shape == (2,), (
        f"shape {tuple(found.shape)}, expected (2,): one gradient of all tasks together."
    )
    assert torch.equal(gradients, rows([1, 0], [-1, 1])), (
        "the gradients that were given are changed; copy them."
    )
    assert torch.allclose(found, rows([0.5, 1.5])[0]), (
        f"found {found.tolist()}, expected [0.5, 1.5]: {hint_for(found, surgery)}"
    )
    agreeing = surgery(rows([1, 2], [3, 1]))
    assert torch.allclose(agreeing, rows([4, 3])[0]), (
        f"found {agreeing.tolist()}, expected [4.0, 3.0]: two gradients that agree are left as "
        "they are."
    )


def test_the_gramian_stays_as_it_is():
    gramian = gramian_of(rows([1, 0], [-1, 1]))
    pcgrad_weights(gramian, generator=seeded(0))
    assert gramian.tolist() == [[1, -1], [-1, 2]], (
        "the Gramian was written to: a row of it is a view. Change the weights alone"
    )


def test_pcgrad_with_hints():
    check_pcgrad(pcgrad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_weights_have_the_dtype_of_the_gramian(dtype):
    gramian = gramian_of(conflicting(3)).to(dtype)
    before = gramian.clone()
    try:
        found = pcgrad_weights(gramian, generator=seeded(0))
    except RuntimeError as error:
        pytest.fail(f"a Gramian of {dtype}: make the weights with dtype=gramian.dtype. {error}")
    assert found.dtype == dtype, f"the weights have {found.dtype}, and the Gramian has {dtype}"
    assert torch.equal(gramian, before), "the Gramian was written to; change the weights alone"
    # g1 = (1, 0) and g2 = (-1, sqrt 2): the second weight is 1 + 1/3.
    found = pcgrad_weights(torch.tensor([[1.0, -1], [-1, 3]], dtype=dtype))
    third = float(found[1]) - 1
    assert third == pytest.approx(1 / 3, rel=16 * torch.finfo(dtype).eps), (
        f"{third} is no third in {dtype}: are the weights rounded to float32 on the way, or is a "
        "small number added to the squared length? Make them with dtype=gramian.dtype"
    )


CLOSED_FORMS = {
    # g1 - (-1 / 2) g2 = (.5, .5) and g2 - (-1 / 1) g1 = (0, 1).
    "two": (rows([1, 0], [-1, 1]), [0.5, 1.5]),
    "orthogonal": (rows([2, 0], [0, 3]), [2, 3]),
    "agreeing": (rows([1, 2], [3, 1]), [4, 3]),
    # Nothing is left.
    "opposite": (rows([1, 2], [-1, -2]), [0, 0]),
    "opposite-scaled": (rows([1, 2], [-3, -6]), [0, 0]),
    # A zero gradient takes nothing from another one, and loses nothing.
    "one-zero": (rows([1, 2], [0, 0]), [1, 2]),
    "all-zero": (rows([0, 0], [0, 0]), [0, 0]),
    "alone": (rows([5, 7]), [5, 7]),
}


def test_the_mean_of_three_tasks_is_a_third_of_their_sum():
    gradients = conflicting(3)
    torch.manual_seed(2)
    found = pcgrad(gradients, "mean")
    torch.manual_seed(2)
    assert torch.allclose(3 * found, pcgrad(gradients, "sum")), (
        "reduction='mean' is not heeded, or the sum of three tasks is not divided by K = 3: is it "
        "divided by K - 1, or by a fixed number?"
    )


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_pcgrad_closed_forms(name):
    gradients, vector = CLOSED_FORMS[name]
    before = gradients.clone()
    expected = rows(vector)[0]
    found = pcgrad(gradients)
    assert torch.isfinite(found).all(), "nan: is a zero gradient divided by its squared length?"
    torch.testing.assert_close(found, expected)
    averaged = pcgrad(gradients, reduction="mean")
    assert torch.allclose(averaged, expected / len(gradients)), (
        "reduction='mean' is not heeded: it divides the sum by the number of tasks"
    )
    assert torch.equal(gradients, before), "the originals are changed"


# --- PCGrad: a plain loop -------------------------------------------------------------------


def plain_pcgrad(
    gradients: Tensor,
    orders: list[list[int]],
    project_on_changed: bool = False,
    is_own_skipped: bool = True,
) -> Tensor:
    """Algorithm 1 on flat vectors, word by word; or with one of two mistakes."""
    changed = [gradient.clone() for gradient in gradients]
    for i, order in enumerate(orders):
        for j in order:
            if j == i and is_own_skipped:
                continue
            other = changed[j] if project_on_changed else gradients[j]
            product = changed[i] @ other
            if product < 0:
                changed[i] = changed[i] - product / (other @ other) * other
    return torch.stack(changed).sum(dim=0)


def orders_of(seed: int, num_tasks: int) -> list[list[int]]:
    """The orders in which a generator lets each task visit all tasks."""
    generator = seeded(seed)
    return [torch.randperm(num_tasks, generator=generator).tolist() for _ in range(num_tasks)]


def conflicting(num_tasks: int, seed: int = 0) -> Tensor:
    """(K, 40) with many negative dot products: random, less their mean."""
    gradients = torch.randn(num_tasks, 40, dtype=torch.float64, generator=seeded(seed))
    return gradients - gradients.mean(dim=0)


ORDERS_HINT = (
    "no orders of the other tasks give this result: is each gradient projected on all others, one "
    "after the other, and never on itself?"
)


def assert_possible(
    found: Tensor, gradients: Tensor, rtol: float, atol: float, hint: str = ORDERS_HINT
) -> None:
    """The result must be that of some orders: which ones are drawn is free."""
    for mistake, change in WRONG_PROJECTIONS.items():
        if is_possible(found, gradients, rtol, atol, change):
            hint = mistake
    if is_possible(found, gradients, 1e-5, 1e-5 * float(gradients.abs().max())):
        hint = "nearly right: is a small number added to the squared length?"
    assert is_possible(found, gradients, rtol, atol), hint


def is_possible(
    found: Tensor,
    gradients: Tensor,
    rtol: float,
    atol: float,
    change: Callable[..., Tensor] | None = None,
) -> bool:
    """Whether some orders give this result. change: another way to change one gradient."""
    possible = possible_results(gradients, change or project)
    is_equal = torch.isclose(possible, found, rtol=rtol, atol=atol)
    return bool(is_equal.all(dim=1).any())


def possible_results(gradients: Tensor, change: Callable[..., Tensor] | None = None) -> Tensor:
    """The results of all orders: (K, P), of at most four tasks, -> (number of orders, P).

    change: another way to change one gradient than `project`.
    """
    change = change or project
    num_tasks = len(gradients)
    sums = torch.zeros(1, gradients.size(1), dtype=gradients.dtype)
    for i in range(num_tasks):
        others = [j for j in range(num_tasks) if j != i]
        projected = [change(gradients, i, order) for order in permutations(others)]
        sums = (sums[:, None] + torch.stack(projected)).flatten(0, 1)
    return sums


def project(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """Algorithm 1 for one gradient and one order."""
    changed = gradients[i]
    for j in order:
        other = gradients[j]
        if changed @ other < 0:
            changed = changed - (changed @ other) / (other @ other) * other
    return changed


def project_by_original(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """`project`, but with the products of the original gradient."""
    changed = gradients[i]
    for j in order:
        other = gradients[j]
        product = gradients[i] @ other
        if product < 0:
            changed = changed - product / (other @ other) * other
    return changed


def project_once(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """`project`, but on the first gradient in conflict alone."""
    conflicts = [j for j in order if gradients[i] @ gradients[j] < 0]
    return project(gradients, i, conflicts[:1])


def scale_own(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """The gradient times its own weight, which is changed in place of the other's."""
    weight = torch.ones((), dtype=gradients.dtype)
    for j in order:
        other = gradients[j]
        product = weight * gradients[i] @ other
        if product < 0:
            weight = weight - product / (other @ other)
    return weight * gradients[i]


def divide_by_own(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """`project`, but divided by the squared length of the gradient itself."""
    changed = gradients[i]
    for j in order:
        other = gradients[j]
        if changed @ other < 0:
            changed = changed - (changed @ other) / (gradients[i] @ gradients[i]) * other
    return changed


def decide_by_original(gradients: Tensor, i: int, order: Iterable[int]) -> Tensor:
    """`project`, but on each gradient that was in conflict before any projection."""
    changed = gradients[i]
    for j in order:
        other = gradients[j]
        if gradients[i] @ other < 0:
            changed = changed - (changed @ other) / (other @ other) * other
    return changed


WRONG_PROJECTIONS = {
    "divide by |g_j|^2 of the gradient that is projected on, not by its own |g_i|^2.": (
        divide_by_own
    ),
    "the product of the original gradient decides whether there is a conflict. That of the "
    "gradient as changed so far, G[j] . w_i, does.": decide_by_original,
    "the product is that of the original gradient, G[i, j]. Projections follow one after the "
    "other: take that of the gradient as changed so far, G[j] . w_i.": project_by_original,
    "a gradient is projected on the first one in conflict alone; go on with the others.": (
        project_once
    ),
    "the weight of the gradient itself, w_ii, is changed. Change that of the other one, w_ij.": (
        scale_own
    ),
}


@pytest.mark.parametrize("num_tasks", [2, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 1e-10, 1e10])
def test_pcgrad_equals_a_plain_loop_over_flat_vectors(num_tasks, scale):
    hint = ORDERS_HINT
    if scale != 1:
        hint = (
            f"right for gradients of ordinary length, and wrong for {scale:g} times as long ones: "
            "is a small number added to the squared length, or a small product passed over?"
        )
    for seed in range(5):
        gradients = conflicting(num_tasks, seed) * scale
        assert (gradients @ gradients.T < 0).any()
        found = pcgrad(gradients, generator=seeded(seed))
        # float64, a few roundings.
        assert_possible(found, gradients, rtol=1e-9, atol=1e-12 * scale, hint=hint)


def test_a_conflict_may_be_over_after_a_projection():
    """Once the first is projected on the second, (1, 0), it agrees with the third."""
    gradients = rows([1, -2], [0, 1], [1, 1])
    for seed in range(20):
        assert_possible(pcgrad(gradients, generator=seeded(seed)), gradients, 1e-9, 1e-12)
    results = possible_results(gradients, decide_by_original)
    are_possible = [is_possible(result, gradients, 1e-9, 1e-12) for result in results]
    assert not all(are_possible), "the negative control"


def test_a_gradient_is_not_projected_on_itself():
    """Once it is projected, its product with the original may be below 0."""
    gradients = rows([-2, -2], [0, 1], [2, 1])
    for seed in range(20):
        assert_possible(pcgrad(gradients, generator=seeded(seed)), gradients, 1e-9, 1e-12)
    wrong = plain_pcgrad(gradients, [[1, 2, 0], [0, 2, 1], [0, 1, 2]], is_own_skipped=False)
    assert not is_possible(wrong, gradients, 1e-9, 1e-12), "the negative control"


def test_pcgrad_with_gradients_of_very_different_scales():
    gradients = conflicting(4) * rows([1e-10], [1e10], [1.0], [1e-3])
    # 1e10 times 1e-12.
    assert_possible(pcgrad(gradients, generator=seeded(1)), gradients, rtol=1e-8, atol=1e-2)


def test_each_order_is_as_likely_as_another():
    """So the mean of many steps is the mean over all orders."""
    gradients = rows([-2, -2], [0, 1], [2, 1])
    possible = possible_results(gradients)
    generator = seeded(5)
    found = torch.stack([pcgrad(gradients, generator=generator) for _ in range(400)]).mean(dim=0)
    hint = (
        "some orders come too often. Is a new order drawn for each gradient of each step, and are "
        "all orders of the other tasks equally likely, as those of torch.randperm?"
    )
    if len({str(pcgrad(gradients, generator=seeded(seed)).tolist()) for seed in range(20)}) == 1:
        hint = "the tasks come in the same order each time; draw it anew, with torch.randperm"
    # Four standard deviations of the mean of 400 steps.
    allowed = 4 * possible.std(dim=0) / 20
    assert ((found - possible.mean(dim=0)).abs() <= allowed + 1e-12).all(), hint

    # Three gradients have eight orders, and one against three has six. Each comes in 300 steps.
    one_against_three = rows([-2, -1, -2], [-1, 0, -2], [-1, 2, 2], [-1, -2, 0])
    for gradients, hint in (
        (conflicting(3), "is one order drawn for all gradients? Draw a new one for each"),
        (one_against_three, "three other tasks have six orders; torch.randperm draws all of them"),
    ):
        steps = torch.stack([pcgrad(gradients, generator=generator) for _ in range(300)])
        is_drawn = torch.isclose(possible_results(gradients)[:, None], steps).all(dim=2).any(dim=1)
        assert is_drawn.all(), f"some orders never come: {hint}"


def test_negative_control_projecting_on_projected_gradients_is_noticed():
    gradients = conflicting(4, seed=3)
    wrong = plain_pcgrad(gradients, orders_of(3, 4), project_on_changed=True)
    assert not torch.allclose(pcgrad(gradients, generator=seeded(3)), wrong)


def test_negative_control_surgery_after_a_summed_backward_is_noticed():
    """There, every task holds the same sum, and nothing conflicts."""
    gradients = conflicting(4, seed=3)
    summed = gradients.sum(dim=0, keepdim=True).expand(4, -1)
    found = pcgrad(gradients, generator=seeded(3))
    assert not torch.allclose(found, pcgrad(summed) / 4)


def test_a_reduction_of_another_name_is_not_taken_for_the_sum():
    is_refused = True
    with contextlib.suppress(ValueError):
        pcgrad(conflicting(2), "avg")
        is_refused = False
    assert is_refused, (
        "reduction='avg' was taken; only 'sum' and 'mean' are known (`reduce` sees to it)"
    )


def test_orders_are_drawn_anew_and_matter():
    gradients = conflicting(5)
    generator = seeded(0)
    found = [pcgrad(gradients, generator=generator) for _ in range(5)]
    assert any(not torch.allclose(found[0], other) for other in found[1:]), (
        "five steps gave the same: is the order of the tasks random?"
    )
    assert torch.equal(found[0], pcgrad(gradients, generator=seeded(0))), (
        "the orders are drawn from the generator that is passed"
    )
    torch.manual_seed(6)
    first = pcgrad(gradients)
    torch.manual_seed(6)
    assert torch.equal(first, pcgrad(gradients)), (
        "without a generator the orders come from torch's global one"
    )
    found = [pcgrad(gradients) for _ in range(5)]
    assert any(not torch.allclose(found[0], other) for other in found[1:]), (
        "without a generator five steps gave the same: is one with a fixed seed made in each call? "
        "Draw from torch's global one"
    )


def test_a_gradient_whose_square_is_too_small_for_its_dtype_is_passed_over():
    """float64: the product of the two is below 0, and the square of the second is 0."""
    gradients = rows([1.0, 0.0], [-1e-200, 1e-200])
    found = pcgrad(gradients)
    assert torch.isfinite(found).all(), "the product was divided by a square that is 0"
    torch.testing.assert_close(found, gradients.sum(dim=0))


def test_a_zero_gradient_does_not_end_the_projections():
    gradients = rows([1, -2], [0, 0], [-1, 1])
    hint = "at a zero gradient the others of the order are left out: pass over it alone (continue)"
    for seed in range(20):
        found = pcgrad(gradients, generator=seeded(seed))
        assert is_possible(found, gradients, rtol=1e-9, atol=1e-12), hint


def test_short_gradients_of_float32_are_projected():
    """Their squares are 0 in float32, so the products are taken in float64."""
    found = pcgrad(torch.tensor([[1.0, 0.0], [-1e-25, 1e-25]]))
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5]))
