"""contrastive/zero_shot.py: alignment, uniformity, sentence vectors in row order, zero-shot STS."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive import zero_shot
from contrastive.zero_shot import (
    alignment,
    embed,
    encode,
    spearman_by_width,
    sts_quality,
    uniformity,
)
from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.bert import BertOutput
from minbert.pooling import pool

WORDS = [
    *("a", "short", "doctor", "is", "helping", "the", "girl"),
    *("in", "hotel", "near", "tall", "soldier", "street"),
]


def sentence(number: int) -> str:
    """A sentence of 1 to 11 words."""
    length = 1 + number * 7 % 11
    return " ".join(WORDS[(number * 5 + place * 3) % len(WORDS)] for place in range(length))


def make_pairs() -> list[Example]:
    pairs = []
    for n in range(17):
        pairs.append(Example(str(n), sentence(n), sentence(n + 3), n % 6 * 1.0))
    return pairs


PAIRS = make_pairs()


@pytest.fixture(scope="module")
def encoder(tiny_model):
    return BertModel.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


# --- alignment and uniformity ---------------------------------------------------------------------


def test_alignment_by_hand():
    """An equal, an orthogonal and an opposite pair: squared distances 0, 2 and 4."""
    first = torch.tensor([[2.0, 0], [0, 1], [1, 1]])
    second = torch.tensor([[1.0, 0], [5, 0], [-2, -2]])
    assert alignment(first, second) == pytest.approx((0 + 2 + 4) / 3, rel=1e-6)


def test_uniformity_by_hand():
    """A square: 4 pairs at the squared distance 2, and 2 pairs at 4."""
    square = torch.tensor([[1.0, 0], [0, 3], [-1, 0], [0, -1]])
    expected = math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6)
    assert uniformity(square) == pytest.approx(expected, rel=1e-5)
    assert uniformity(torch.zeros(3, 2)) == pytest.approx(-4), "a dead encoder has a number too"
    assert uniformity(torch.ones(5, 3)) == pytest.approx(0, abs=1e-12)


def test_both_are_slow_loops():
    torch.manual_seed(0)
    first, second = torch.randn(2, 9, 4).unbind()
    x = [vector / vector.norm() for vector in first]
    y = [vector / vector.norm() for vector in second]
    total = sum(float(((x[i] - y[i]) ** 2).sum()) for i in range(9))
    assert alignment(first, second) == pytest.approx(total / 9, rel=1e-5)  # fp32

    total = 0.0
    for i in range(9):
        for j in range(i):
            total += math.exp(-2 * float(((x[i] - x[j]) ** 2).sum()))
    assert uniformity(first) == pytest.approx(math.log(total / 36), rel=1e-5)


def test_random_directions_fill_the_sphere():
    """The mean squared distance of random directions is 2."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(300, 64, generator=generator)
    assert uniformity(vectors) == pytest.approx(-4, abs=0.15)


# --- sentence vectors -----------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_vectors_come_in_row_order(encoder, tokenizer, pooling, batch_size):
    rows = EncodedExamples(PAIRS, tokenizer, 64, pair_encoding="bi")
    vectors = embed(encoder, rows, pooling, "fp32", batch_size)
    assert vectors.shape == (34, 32)
    assert vectors.dtype == torch.float32

    # Each sentence alone, without any padding. fp32, 2 layers: measured 1e-6.
    encoder.eval()
    texts = [pair.sentence_1 for pair in PAIRS] + [pair.sentence_2 for pair in PAIRS]
    for vector, text in zip(vectors, texts, strict=True):
        batch = tokenizer([text])
        with torch.no_grad():
            alone = pool(encoder(**batch), batch["attention_mask"], pooling)[0]
        torch.testing.assert_close(vector, alone, rtol=0, atol=1e-5)


def test_single_sentences_and_the_mode(encoder, tokenizer):
    singles = [Example(pair.id, pair.sentence_1, None, None) for pair in PAIRS]
    rows = EncodedExamples(singles, tokenizer, 64)
    vectors = {}
    for mode in (True, False):
        encoder.train(mode)
        vectors[mode] = embed(encoder, rows, "mean", "fp32", 4)
        assert encoder.training == mode
        assert vectors[mode].shape == (17, 32)
        assert not vectors[mode].requires_grad
    assert torch.equal(vectors[True], vectors[False]), "dropout in an evaluation"
    pairs = embed(encoder, EncodedExamples(PAIRS, tokenizer, 64, "bi"), "mean", "fp32", 4)
    torch.testing.assert_close(vectors[False], pairs[:17], rtol=0, atol=1e-5)


class WeightConversions(TorchDispatchMode):
    """Counts the conversions of parameters while it is on."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.places = {parameter.data_ptr() for parameter in model.parameters()}
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation.overloadpacket is torch.ops.aten._to_copy:
            self.count += args[0].data_ptr() in self.places
        return operation(*args, **(kwargs or {}))


def test_bf16_converts_each_weight_once_and_reads_in_the_precision_of_the_states(
    encoder, tokenizer
):
    """The vectors are those of a region for each batch, to the bit."""
    rows = EncodedExamples(PAIRS, tokenizer, 64, pair_encoding="bi")
    counts = []
    for batches in ([[0]], [[0], [1, 2], [3]]):
        with WeightConversions(encoder) as conversions:
            encode(encoder, rows, read_mean, "bf16", batches)
        counts.append(conversions.count)
    assert counts[0] == counts[1] > 0

    vectors = encode(encoder, rows, read_mean, "bf16", [[1, 2], [0]])["vectors"]
    alone = []
    for batch in ([0], [1, 2]):
        alone.append(encode(encoder, rows, read_mean, "bf16", [batch])["vectors"])
    # All first sentences, then all second ones.
    firsts = [alone[0][:1], alone[1][:2]]
    seconds = [alone[0][1:], alone[1][2:]]
    assert torch.equal(vectors, torch.cat([*firsts, *seconds]))


def read_mean(output: BertOutput, attention_mask: Tensor) -> dict[str, Tensor]:
    assert not torch.is_autocast_enabled("cpu"), "a module after the encoder would be in bf16"
    return {"vectors": pool(output, attention_mask, "mean")}


# --- zero-shot STS --------------------------------------------------------------------------------


def with_vectors(monkeypatch, first, second) -> None:
    """Let every encoder give these vectors."""
    monkeypatch.setattr(zero_shot, "embed", lambda *_: torch.cat([first, second]))


class Labelled:
    """Pairs of which only the labels are read."""

    def __init__(self, labels):
        self.examples = [Example(str(n), "", "", label) for n, label in enumerate(labels)]


def quality_of(labels) -> dict[str, float]:
    return sts_quality(None, Labelled(labels), "mean", "fp32")


def test_zero_shot_scores_of_made_up_vectors(monkeypatch):
    """Angles against labels that follow them, but are not linear in the cosine."""
    angles = np.radians([90, 60, 30, 20, 0])
    labels = [0.0, 1.0, 4.0, 4.5, 5.0]
    first = torch.tensor([[1.0, 0]] * 5)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    second = torch.tensor(directions, dtype=torch.float32) * 7
    with_vectors(monkeypatch, first, second)
    scores = quality_of(labels)
    assert list(scores) == ["spearman", "pearson", "alignment", "uniformity"]
    assert scores["spearman"] == pytest.approx(1.0)
    expected = pearsonr(np.cos(angles), labels).statistic
    assert scores["pearson"] == pytest.approx(expected, abs=1e-6)
    assert scores["pearson"] < 0.99

    # Labels above 4: the angles of 20 and 0 degrees.
    expected = (2 - 2 * math.cos(math.radians(20)) + 0) / 2
    assert scores["alignment"] == pytest.approx(expected, rel=1e-4)
    assert scores["uniformity"] == pytest.approx(uniformity(torch.cat([first, second])))

    # The negative control: the opposite order.
    with_vectors(monkeypatch, first, second.flip(0))
    assert quality_of(labels)["spearman"] < -0.9


def test_zero_shot_scores_of_an_encoder(encoder, tokenizer):
    rows = EncodedExamples(PAIRS, tokenizer, 64, pair_encoding="bi")
    vectors = embed(encoder, rows, "mean", "fp32").numpy().astype(np.float64)
    u, v = vectors[:17], vectors[17:]
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    labels = [pair.label for pair in PAIRS]
    scores = sts_quality(encoder, rows, "mean", "fp32")
    assert scores["pearson"] == pytest.approx(pearsonr(cosines, labels).statistic, abs=1e-5)
    assert scores["spearman"] == pytest.approx(spearmanr(cosines, labels).statistic, abs=1e-5)

    by_width = spearman_by_width(encoder, rows, "mean", "fp32", (4, vectors.shape[1]))
    assert by_width[vectors.shape[1]] == scores["spearman"]
    u, v = u[:, :4], v[:, :4]
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    assert by_width[4] == pytest.approx(spearmanr(cosines, labels).statistic, abs=1e-5)
    assert by_width[4] != scores["spearman"]


@pytest.mark.parametrize("labels", [[0.0, 2.0, 4.0], [4.5, 4.5, 4.5]])
def test_labels_that_cannot_be_scored(monkeypatch, labels):
    with_vectors(monkeypatch, torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="that measure the stage have labels .* above 4"):
        quality_of(labels)


def test_a_collapsed_encoder_scores_nothing(monkeypatch):
    with_vectors(monkeypatch, torch.ones(3, 2), torch.ones(3, 2))
    nothing = {"spearman": 0.0, "pearson": 0.0, "alignment": 0.0, "uniformity": 0.0}
    assert quality_of([0.0, 2.0, 5.0]) == pytest.approx(nothing, abs=1e-12)
