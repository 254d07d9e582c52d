"""contrastive/quality/untrained_vectors.py: poolings, WK pooling, whitening, cosines of layers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from contrastive.quality.untrained_vectors import (
    LAYER_POOLINGS,
    first_last_mean,
    first_token,
    last_two_mean,
    layer_cosines,
    state_weights,
    token_variances,
    vector_functions,
    whiten,
    wk_pool,
)
from minbert.bert import BertOutput
from minbert.pooling import maximum, mean, pool

HIDDEN = torch.tensor(
    [[[1.0, -2], [3, -4], [5, -9]], [[-7, 7], [100, -100], [100, 100]]]
)  # (2, 3, 2)
MASK = torch.tensor([[1, 1, 1], [1, 0, 0]])


def random_states(num_states: int, lengths: list[int], num_units: int = 6, seed: int = 0):
    """Hidden states that change from one to the next, as an encoder's do, and noise as padding."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths), num_units)
    states = [torch.randn(shape, generator=generator)]
    for _ in range(num_states - 1):
        states.append(states[-1] + 0.7 * torch.randn(shape, generator=generator))
    mask = torch.tensor(
        [[int(token < length) for token in range(max(lengths))] for length in lengths]
    )
    return states, mask


# --- max, first token, first-last mean ----------------------------------------------------------


def test_poolings_by_hand():
    assert maximum(HIDDEN, MASK).tolist() == [[5, -2], [-7, 7]], "padding must not count"
    assert first_token(HIDDEN, MASK).tolist() == [[1, -2], [-7, 7]]
    last = torch.tensor([[[2.0, 0], [2, 0], [2, 6]], [[1, 1], [9, 9], [9, 9]]])
    embeddings = torch.full_like(HIDDEN, 1000)
    result = first_last_mean([embeddings, HIDDEN, HIDDEN * 50, last], MASK)
    # ((3, -5) + (2, 2)) / 2 and ((-7, 7) + (1, 1)) / 2, without the embeddings.
    assert result.tolist() == [[2.5, -1.5], [-3, 4]]
    assert torch.equal(last_two_mean([embeddings, HIDDEN * 50, HIDDEN, last], MASK), result)
    # The only layer of an encoder counts alone.
    assert torch.equal(last_two_mean([embeddings, last], MASK), mean(last, MASK))


def test_max_is_a_slow_loop_and_sentence_transformers():
    (state,), mask = random_states(1, [5, 1, 3])
    rows = []
    for row, length in enumerate([5, 1, 3]):
        rows.append(torch.stack([max(state[row, :length, unit]) for unit in range(6)]))
    slow = torch.stack(rows)
    assert torch.equal(maximum(state, mask), slow)
    models = pytest.importorskip("sentence_transformers.models")
    library = models.Pooling(6, pooling_mode="max")
    features = library({"token_embeddings": state.clone(), "attention_mask": mask})
    assert torch.equal(features["sentence_embedding"], slow)


# --- WK pooling ---------------------------------------------------------------------------------


def slow_weights(states: np.ndarray, window: int) -> np.ndarray:
    """(S, H) -> (S,): the formula as the paper prints it, with its singular value decomposition."""
    alignment, novelty = [], []
    for i, v in enumerate(states):
        others = [j for j in range(i - window, i + window + 1) if j != i]
        context = np.stack([states[j] for j in others if 0 <= j < len(states)])
        cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u in context]
        alignment.append(1 / (sum(cosines) / (2 * window)))
        basis, sizes, _ = np.linalg.svd(context.T, full_matrices=False)
        basis = basis[:, sizes > 1e-9]
        novelty.append(np.linalg.norm(v - basis @ basis.T @ v) / np.linalg.norm(v))
    return 0.5 * np.array(alignment) / sum(alignment) + 0.5 * np.array(novelty) / sum(novelty)


def test_state_weights_by_hand():
    """Sums of cosines 1.6, 1.6, 1.2: inverse .3, .3, .4. Only the third one is new, by .8."""
    states = torch.tensor([[1.0, 0], [2, 0], [0.6, 0.8]]).unsqueeze(1).double()  # (3, 1, 2)
    expected = torch.tensor([[0.15, 0.15, 0.7]]).double()
    torch.testing.assert_close(state_weights(states), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("num_states", [2, 3, 5, 9])
def test_state_weights_are_a_slow_loop(num_states, window):
    generator = torch.Generator().manual_seed(num_states)
    states = torch.randn(num_states, 7, 12, generator=generator).double() + 2
    weights = state_weights(states, window)
    slow = np.stack([slow_weights(states[:, token].numpy(), window) for token in range(7)])
    assert (slow > 0).all(), "a sum of cosines below 0: choose another seed"
    # In float64, with residuals around 0.5.
    np.testing.assert_allclose(weights, slow, rtol=0, atol=1e-9)
    np.testing.assert_allclose(weights.sum(dim=1), 1, rtol=0, atol=1e-12)


def test_state_weights_do_not_depend_on_length_or_direction():
    states = torch.randn(5, 4, 8, generator=torch.Generator().manual_seed(1)).double() + 1
    weights = state_weights(states)
    matrix = torch.randn(8, 8, generator=torch.Generator().manual_seed(2)).double()
    rotation = torch.linalg.qr(matrix)[0]
    lengths = torch.rand(5, 4, 1, generator=torch.Generator().manual_seed(3)).double() + 0.1
    moved = state_weights(states @ rotation * lengths)
    torch.testing.assert_close(moved, weights, rtol=0, atol=1e-9)
    assert (weights - 0.2).abs().max() > 0.02, "negative control: weights differ"


def test_states_that_leave_the_formula_undefined():
    # Nothing is new: only the inverse alignment counts, whose sums have 2, 3, 3 and 2 terms.
    same = torch.ones(4, 2, 3).double()
    expected = torch.tensor([[0.3, 0.2, 0.2, 0.3]] * 2).double()
    # pinv rounds, and a square root enlarges that.
    torch.testing.assert_close(state_weights(same), expected, rtol=0, atol=1e-6)
    opposite = torch.stack([torch.ones(2, 3), -torch.ones(2, 3), torch.ones(2, 3)]).double()
    assert (state_weights(opposite) >= 0).all() and torch.isfinite(state_weights(opposite)).all()


def test_token_variances_by_hand():
    """Cosines 1 and 0: mean .5, variance .25."""
    states = torch.tensor([[[1.0, 0]], [[2, 0]], [[0, 3]]])
    assert token_variances(states).tolist() == [0.25]


def test_wk_pooling_is_a_slow_loop():
    # A sentence of 2 tokens is [CLS] alone, because [SEP] is left out.
    lengths = [7, 2, 4]
    # 6 layers: states 2 to 6 are used.
    states, mask = random_states(7, lengths)
    result = wk_pool(states, mask)
    for row, length in enumerate(lengths):
        of_row = torch.stack(states[2:])[:, row, : length - 1].double().numpy()  # (5, tokens, 6)
        weighted_sum = np.zeros(6)
        sum_of_variances = 0.0
        for token in range(length - 1):
            v = of_row[:, token]
            cosines = []
            for i in range(4):
                cosines.append(v[i] @ v[i + 1] / np.linalg.norm(v[i]) / np.linalg.norm(v[i + 1]))
            weighted_sum += np.var(cosines) * (positive_slow_weights(v) @ v)
            sum_of_variances += np.var(cosines)
        expected = weighted_sum / sum_of_variances
        # The result is float32.
        np.testing.assert_allclose(result[row], expected, rtol=0, atol=1e-5)
    assert result.dtype == torch.float32


def positive_slow_weights(states: np.ndarray) -> np.ndarray:
    weights = slow_weights(states, 2)
    assert (weights > 0).all(), "a sum of cosines below 0: choose another seed"
    return weights


def test_wk_pooling_leaves_out_padding_the_last_token_and_early_states():
    # 3 layers: states 1 to 3 are used.
    states, mask = random_states(4, [5, 3])
    result = wk_pool(states, mask)

    def changed(layer: int, row: int, token: int) -> bool:
        other = [state.clone() for state in states]
        other[layer][row, token] += torch.tensor([9.0, -1, 0, 0, 3, 0])
        return not torch.equal(wk_pool(other, mask), result)

    assert not changed(1, 1, 3) and not changed(3, 1, 4), "padding must not count"
    assert not changed(2, 0, 4) and not changed(2, 1, 2), "[SEP] must not count"
    assert not changed(0, 0, 1), "the embeddings must not count"
    assert changed(1, 0, 1) and changed(3, 1, 0), "negative control"
    longer = [F.pad(state, (0, 0, 0, 2), value=7.0) for state in states]
    padded = wk_pool(longer, F.pad(mask, (0, 2)))
    torch.testing.assert_close(padded, result, rtol=0, atol=1e-6)
    flipped = wk_pool([state.flip(0) for state in states], mask.flip(0))
    torch.testing.assert_close(flipped, result.flip(0), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("num_states", "num_skipped"), [(3, 0), (4, 1), (6, 1), (7, 2), (13, 4)])
def test_the_first_third_of_the_layers_does_not_count(num_states, num_skipped):
    """The authors leave out 4 of 13 states. Here these are the embeddings and the first layers."""
    states, mask = random_states(num_states, [5])
    result = wk_pool(states, mask)
    for number in range(num_states):
        other = [state.clone() for state in states]
        other[number][0, 1] += torch.tensor([9.0, -1, 0, 0, 3, 0])
        is_equal = torch.equal(wk_pool(other, mask), result)
        assert is_equal == (number < num_skipped), f"state {number} of {num_states}"


def test_one_layer_has_no_variance_so_tokens_weigh_the_same():
    state = torch.tensor([[[1.0, 0], [0, 1], [5, 5]]])
    other = torch.tensor([[[0.0, 1], [3, 0], [8, 8]]])
    # Two states of a token are each other's context, so both count the same. Two tokens count,
    # [SEP] does not: ((.5, .5) + (1.5, .5)) / 2.
    result = wk_pool([state, other], torch.tensor([[1, 1, 1]]))
    torch.testing.assert_close(result, torch.tensor([[1.0, 0.5]]), rtol=0, atol=1e-6)


# --- whitening ----------------------------------------------------------------------------------


def correlated(num_rows: int, num_units: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    vectors = torch.randn(num_rows, num_units, generator=generator)
    return vectors @ torch.randn(num_units, num_units, generator=generator) + 5


def cosines(vectors: torch.Tensor) -> torch.Tensor:
    unit = F.normalize(vectors.double(), dim=-1)
    return unit @ unit.T


def test_whitening_by_hand():
    """Around (3, 4): variances 2 and .5, so lengths 2 and 1 both become the square root of 2."""
    result = whiten(torch.tensor([[5.0, 4], [1, 4], [3, 5], [3, 3]]))
    expected = torch.tensor([[2.0, -2, 0, 0], [-2, 2, 0, 0], [0, 0, 2, -2], [0, 0, -2, 2]])
    # Inner products, because the signs of the directions are arbitrary.
    torch.testing.assert_close(result @ result.T, expected, rtol=0, atol=1e-5)


def test_whitened_vectors_have_mean_0_and_covariance_1():
    result = whiten(correlated(200, 8)).double()
    torch.testing.assert_close(result.mean(dim=0), torch.zeros(8).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(result.T @ result / 200, torch.eye(8).double(), rtol=0, atol=1e-5)


def test_whitening_is_scikit_learn_s():
    from sklearn.decomposition import PCA

    vectors = correlated(60, 8)
    library = PCA(whiten=True, svd_solver="full").fit_transform(vectors.double().numpy())
    expected = cosines(torch.from_numpy(library))
    torch.testing.assert_close(cosines(whiten(vectors)), expected, rtol=0, atol=1e-5)
    assert (cosines(vectors) - expected).abs().max() > 0.1, "negative control: not whitened"


def test_whitening_undoes_every_linear_map():
    vectors = correlated(60, 8)
    mapped = vectors @ torch.randn(8, 8, generator=torch.Generator().manual_seed(5)) - 3
    # The input is fp32.
    torch.testing.assert_close(cosines(whiten(mapped)), cosines(whiten(vectors)), rtol=0, atol=1e-3)


def test_too_few_vectors_become_equally_far_apart():
    result = cosines(whiten(correlated(6, 8)))
    expected = torch.full((6, 6), -1 / 5).double().fill_diagonal_(1)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-4)


def test_directions_without_variance_are_left_out():
    flat = torch.cat([correlated(30, 3), torch.ones(30, 2)], dim=1)
    assert whiten(flat).shape == (30, 3) and torch.isfinite(whiten(flat)).all()
    assert whiten(torch.ones(4, 3)).shape == (4, 0)


# --- which vectors are measured -----------------------------------------------------------------


OF_LAYERS = ["first-last mean", "last-two mean", "WK"]


def test_the_own_vector_comes_first_and_no_kind_twice():
    assert list(vector_functions("mean", False)) == ["mean"]
    assert list(vector_functions("mean", True)) == ["mean", "[CLS]", *OF_LAYERS]
    assert list(vector_functions("cls", True)) == ["[CLS]", "mean", *OF_LAYERS]
    assert list(vector_functions("pooler", True))[0] == "pooler"


def test_kinds_are_what_their_names_say():
    states, mask = random_states(4, [4, 3])
    output = BertOutput(states[-1], torch.tanh(states[-1][:, 0]), tuple(states))
    expected = {
        "[CLS]": pool(output, mask, "cls"),
        "mean": pool(output, mask, "mean"),
        "pooler": output.pooler_output,
        "first-last mean": first_last_mean(states, mask),
        "last-two mean": last_two_mean(states, mask),
        "WK": wk_pool(states, mask),
    }
    for name, make in vector_functions("pooler", True).items():
        assert torch.equal(make(output, mask), expected[name])


def test_layer_cosines_are_a_slow_loop():
    # 2 pairs: rows 0 and 2, rows 1 and 3.
    states, mask = random_states(3, [4, 2, 3, 4])
    result = layer_cosines(states, mask)
    names = ("cls", "mean", "max")
    assert list(result) == [(state, name) for state in range(3) for name in names]
    poolings = {"cls": first_token, "mean": mean, "max": maximum}
    assert poolings == LAYER_POOLINGS
    for (state, name), values in result.items():
        vectors = poolings[name](states[state], mask).numpy().astype(np.float64)
        for pair in range(2):
            u, v = vectors[pair], vectors[pair + 2]
            expected = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
            assert values[pair] == pytest.approx(expected, abs=1e-6)
