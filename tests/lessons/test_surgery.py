"""multitask/surgery.py: weights of losses; PCGrad and GradVac against closed forms, slow loops and torchjd."""

import pytest
import torch

from multitask.combining import GradientSurgery
from multitask.gramian import gradvac_weights, pcgrad_weights
from multitask.surgery import mean, pcgrad, weighted


def test_weights_by_hand():
    assert mean(["sst"]) == [1.0]
    assert mean(["sst", "sts"]) == [0.5, 0.5]
    assert mean(["sst", "para", "sts"]) == pytest.approx([1 / 3] * 3)
    assert weighted(["sst", "para", "sst"], {"para": 2.0}) == [1.0, 2.0, 1.0]


def make_losses(weight: torch.Tensor) -> list[torch.Tensor]:
    """Three losses with different gradients, the first on a parameter that the others share."""
    inputs = torch.arange(12.0).reshape(3, 4)
    return [
        (row @ weight - target).square()
        for row, target in zip(inputs, (1.0, -2.0, 5.0), strict=True)
    ]


def test_accumulated_backward_passes_equal_one_backward_of_the_mean():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    torch.stack(make_losses(weight)).mean().backward()
    expected, weight.grad = weight.grad, None
    for share, loss in zip(mean(["a", "b", "c"]), make_losses(weight), strict=True):
        (share * loss).backward()
    torch.testing.assert_close(
        weight.grad, expected, rtol=1e-6, atol=0
    )  # a sum in another order: measured 1e-7


def test_negative_control_the_sum_is_another_gradient():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    torch.stack(make_losses(weight)).mean().backward()
    expected, weight.grad = weight.grad, None
    for loss in make_losses(weight):
        loss.backward()
    assert not torch.allclose(weight.grad, expected)


# --- PCGrad ---------------------------------------------------------------------------------------


def rows(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# g1 = (1, 0), g2 = (-1, 1), whose product is -1: g1 + g2 / 2 = (.5, .5) and g2 + g1 = (0, 1), together (.5, 1.5).
MISTAKES = {
    (
        0.0,
        1.0,
    ): "this is the plain sum: a gradient is projected where its product with another is below 0.",
    (
        0.25,
        0.75,
    ): "this is the mean of the projected gradients; Yu et al. add them up (reduction='mean' is ours).",
    (
        -0.5,
        1.5,
    ): "only the first was projected, or the second on what the first had become; project on the originals.",
    (1.0, 1.0): "only the second was projected; each is.",
    (0.0, 2.0): "divide the product by the squared length of the gradient that is projected on.",
    (-0.5, 0.5): "the projection is added; subtract it.",
}


def check_pcgrad(surgery) -> None:
    """The most common mistakes each give another vector, or project where nothing conflicts."""
    gradients = rows([1, 0], [-1, 1])
    found = surgery(gradients)
    assert isinstance(found, torch.Tensor), f"found {found}, expected a tensor: not written yet?"
    assert found.shape == (2,), (
        f"shape {tuple(found.shape)}, expected (2,): one gradient of all tasks together."
    )
    assert torch.equal(gradients, rows([1, 0], [-1, 1])), (
        "the gradients that were given are changed; copy them."
    )
    hint = next(
        (
            said
            for vector, said in MISTAKES.items()
            if torch.allclose(found, rows(vector)[0], atol=1e-3)
        ),
        "is it g_i - (g_i . g_j) / |g_j|^2 g_j for each j that is not i, where g_i . g_j is below 0?",
    )
    assert torch.allclose(found, rows([0.5, 1.5])[0]), (
        f"found {found.tolist()}, expected [0.5, 1.5]: {hint}"
    )
    agreeing = surgery(rows([1, 2], [3, 1]))
    assert torch.allclose(agreeing, rows([4, 3])[0]), (
        f"found {agreeing.tolist()}, expected [4.0, 3.0]: two gradients that agree are left as they are."
    )


def test_pcgrad_with_hints():
    check_pcgrad(pcgrad)


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        (
            rows([1, 0], [-1, 1]),
            [0.5, 1.5],
        ),  # g1 - (-1 / 2) g2 = (.5, .5); g2 - (-1 / 1) g1 = (0, 1)
        (rows([2, 0], [0, 3]), [2, 3]),  # orthogonal: unchanged
        (rows([1, 2], [3, 1]), [4, 3]),  # no conflict: unchanged
        (rows([1, 2], [-1, -2]), [0, 0]),  # opposite: nothing is left
        (rows([1, 2], [-3, -6]), [0, 0]),
        (rows([1, 2], [0, 0]), [1, 2]),  # a zero gradient takes nothing, and nothing of it
        (rows([0, 0], [0, 0]), [0, 0]),
        (rows([5, 7]), [5, 7]),
    ],
    ids=[
        "two",
        "orthogonal",
        "agreeing",
        "opposite",
        "opposite-scaled",
        "one-zero",
        "all-zero",
        "alone",
    ],
)
def test_pcgrad_closed_forms(gradients, expected):
    before = gradients.clone()
    torch.testing.assert_close(pcgrad(gradients), rows(expected)[0])
    torch.testing.assert_close(
        pcgrad(gradients, reduction="mean"), rows(expected)[0] / len(gradients)
    )
    assert torch.equal(gradients, before), "the originals are changed"


def plain_pcgrad(
    gradients: torch.Tensor,
    orders: list[list[int]],
    project_on_changed: bool = False,
    is_own_skipped: bool = True,
) -> torch.Tensor:
    """Algorithm 1 on flat vectors, word by word."""
    changed = [gradient.clone() for gradient in gradients]
    for i, order in enumerate(orders):
        for j in order:
            other = changed[j] if project_on_changed else gradients[j]
            if (j != i or not is_own_skipped) and changed[i] @ other < 0:
                changed[i] = changed[i] - (changed[i] @ other) / (other @ other) * other
    return torch.stack(changed).sum(dim=0)


def orders_of(seed: int, num_tasks: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(num_tasks, generator=generator).tolist() for _ in range(num_tasks)]


def conflicting(num_tasks: int, seed: int = 0) -> torch.Tensor:
    """(K, 40) with many negative dot products: random, less their mean."""
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randn(num_tasks, 40, dtype=torch.float64, generator=generator)
    return gradients - gradients.mean(dim=0)


@pytest.mark.parametrize("num_tasks", range(2, 7))
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_pcgrad_equals_a_plain_loop_over_flat_vectors(num_tasks, scale):
    for seed in range(5):
        gradients = conflicting(num_tasks, seed) * scale
        assert (gradients @ gradients.T < 0).any()
        expected = plain_pcgrad(gradients, orders_of(seed, num_tasks))
        found = pcgrad(gradients, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(
            found, expected, rtol=1e-9, atol=1e-12 * scale
        )  # float64, a few roundings


def test_a_gradient_is_not_projected_on_itself():
    """Once it is projected its product with the original may be below 0, as in a plane of three tasks."""
    gradients = rows([-2, -2], [0, 1], [2, 1])
    seed = next(seed for seed in range(99) if orders_of(seed, 3)[0] == [1, 2, 0])
    expected, wrong = (
        plain_pcgrad(gradients, orders_of(seed, 3), is_own_skipped=skipped)
        for skipped in (True, False)
    )
    assert not torch.allclose(expected, wrong), "the negative control: here it makes a difference"
    torch.testing.assert_close(
        pcgrad(gradients, generator=torch.Generator().manual_seed(seed)), expected
    )


def test_pcgrad_with_gradients_of_very_different_scales():
    gradients = conflicting(4) * rows([1e-10], [1e10], [1.0], [1e-3])
    found = pcgrad(gradients, generator=torch.Generator().manual_seed(1))
    expected = plain_pcgrad(gradients, orders_of(1, 4))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-2)  # 1e10 x 1e-12


def test_negative_controls_changed_gradients_and_surgery_after_a_summed_backward():
    gradients = conflicting(4, seed=3)
    generator = torch.Generator().manual_seed(3)
    wrong = plain_pcgrad(gradients, orders_of(3, 4), project_on_changed=True)
    found = pcgrad(gradients, generator=generator)
    assert not torch.allclose(found, wrong), "projecting on projected gradients goes unnoticed"
    after_the_sum = (
        pcgrad(gradients.sum(dim=0, keepdim=True).expand(4, -1)) / 4
    )  # every task holds the same sum
    assert not torch.allclose(found, after_the_sum), (
        "surgery after a summed backward pass goes unnoticed"
    )


def test_a_reduction_of_another_name_is_not_taken_for_the_sum():
    for call in (
        lambda: pcgrad(conflicting(2), "avg"),
        lambda: gradvac_weights(torch.eye(2), torch.zeros(2, 2), reduction="avg"),
    ):
        with pytest.raises(ValueError, match="reduction is 'avg'; it is sum or mean"):
            call()


def test_orders_are_drawn_anew_and_matter():
    gradients = conflicting(5)
    generator = torch.Generator().manual_seed(0)
    found = [pcgrad(gradients, generator=generator) for _ in range(5)]
    assert any(not torch.allclose(found[0], other) for other in found[1:])
    torch.manual_seed(6)
    first = pcgrad(gradients)
    torch.manual_seed(6)
    assert torch.equal(first, pcgrad(gradients))


@pytest.mark.parametrize("num_tasks", range(2, 7))
def test_pcgrad_agrees_with_torchjd(num_tasks):
    aggregation = pytest.importorskip(
        "torchjd.aggregation", reason="torchjd is the reference; run setup.sh --dev"
    )
    gradients = conflicting(num_tasks)
    torch.manual_seed(7)
    expected = aggregation.PCGrad()(gradients)
    torch.manual_seed(7)  # both draw an order of all K for each task
    torch.testing.assert_close(pcgrad(gradients), expected)


# --- GradVac --------------------------------------------------------------------------------------


def test_gradvac_with_targets_of_zero_is_pcgrad():
    gradients = conflicting(4)
    products = gradients @ gradients.T
    weights, targets = gradvac_weights(
        products,
        torch.zeros(4, 4, dtype=torch.float64),
        beta=0.0,
        generator=torch.Generator().manual_seed(2),
    )
    torch.testing.assert_close(
        weights, pcgrad_weights(products, generator=torch.Generator().manual_seed(2))
    )
    assert not targets.any()


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
def test_gradvac_equals_a_plain_loop_over_flat_vectors(num_tasks):
    """Targets of both signs, each pair's own, moving while the gradient is in the making."""
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        gradients = torch.randn(num_tasks, 40, dtype=torch.float64, generator=generator)
        targets = (
            torch.rand(num_tasks, num_tasks, dtype=torch.float64, generator=generator) * 0.6 - 0.2
        )
        expected_targets, summed = targets.clone(), 0.0
        for i, order in enumerate(orders_of(seed, num_tasks)):
            g = gradients[i].clone()
            for j in (j for j in order if j != i):
                cosine = g @ gradients[j] / (g.norm() * gradients[j].norm())
                target = float(targets[i, j])
                if cosine < target:
                    g += (
                        g.norm()
                        * (target * (1 - cosine**2).sqrt() - cosine * (1 - target**2) ** 0.5)
                        / (gradients[j].norm() * (1 - target**2) ** 0.5)
                        * gradients[j]
                    )
                expected_targets[i, j] = 0.9 * target + 0.1 * cosine
            summed = summed + g
        weights, found = gradvac_weights(
            gradients @ gradients.T, targets, 0.1, generator=torch.Generator().manual_seed(seed)
        )
        torch.testing.assert_close(weights @ gradients, summed, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found, expected_targets)


def test_gradvac_lifts_the_cosine_to_its_target_by_hand():
    """g1 = (1, 0), g2 = (0, 2): cosine 0 under a target of .6. g1 + a g2 with cosine .6 is (1, .75): a = .375."""
    gradients = rows([1, 0], [0, 2])
    target = rows([0, 0.6], [0, 0])
    weights, targets = gradvac_weights(gradients @ gradients.T, target, beta=0.1)
    torch.testing.assert_close(weights @ gradients, rows([1, 2.75])[0])
    torch.testing.assert_close(targets, rows([0, 0.54], [0, 0]))  # .9 x .6 + .1 x 0
    assert target[0, 1] == 0.6, "the argument is changed"
    halved, _ = gradvac_weights(gradients @ gradients.T, target, beta=0.1, reduction="mean")
    torch.testing.assert_close(halved, weights / 2)


def test_gradvac_passes_over_zero_gradients_and_survives_a_target_of_one():
    gradients = rows([1, 0], [0, 0])
    weights, targets = gradvac_weights(
        gradients @ gradients.T, torch.full((2, 2), 0.5, dtype=torch.float64)
    )
    assert weights.tolist() == [1, 1] and (targets == 0.5).all()
    gradients = rows([1, 0], [1, 1])
    weights, _ = gradvac_weights(gradients @ gradients.T, torch.ones(2, 2, dtype=torch.float64))
    assert torch.isfinite(weights).all()


def test_a_gradient_whose_square_is_too_small_for_its_dtype_is_passed_over():
    gradients = torch.tensor(
        [[1.0, 0.0], [-1e-25, 1e-25]]
    )  # float32: their product is below 0, the square is 0
    torch.testing.assert_close(pcgrad(gradients), gradients.sum(dim=0))
    surgery = GradientSurgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    assert surgery((gradients @ gradients.T).double(), ["sst", "sts"]).tolist() == [1, 1]
    assert surgery.conflicts()[0]["cosine"] == 0


def test_gradvac_agrees_with_torchjd_over_many_steps():
    """Two tasks, where no order is drawn; beta given, since torchjd's default is another one."""
    aggregation = pytest.importorskip(
        "torchjd.aggregation", reason="torchjd is the reference; run setup.sh --dev"
    )
    reference, surgery = (
        aggregation.GradVac(beta=0.3),
        GradientSurgery("gradvac", "sum", 0.3, ["sst", "sts"], seed=0),
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        gradients = torch.randn(2, 6, dtype=torch.float64, generator=generator)
        found = surgery(gradients @ gradients.T, ["sst", "sts"]) @ gradients
        torch.testing.assert_close(
            found, reference(gradients), rtol=1e-6, atol=1e-7
        )  # torchjd adds 1e-8 to norms
    assert surgery.targets[0, 1] != 0


def test_gradvac_of_opposite_gradients_is_finite():
    """Of g and -3g the cosine is -1 but for rounding, which takes it below in a quarter of these draws."""
    for seed in range(50):
        gradient = torch.randn(
            5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        gradients = torch.stack([gradient, -3 * gradient])
        weights, targets = gradvac_weights(
            gradients @ gradients.T, torch.zeros(2, 2, dtype=torch.float64), beta=0.1
        )
        torch.testing.assert_close(
            weights @ gradients, torch.zeros_like(gradient), rtol=0, atol=1e-6
        )
        torch.testing.assert_close(targets, rows([0, -0.1], [-0.1, 0]))
