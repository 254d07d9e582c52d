"""contrastive/zero_shot.py: alignment, uniformity, sentence vectors in row order, zero-shot STS."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from contrastive import zero_shot as quality
from contrastive.zero_shot import alignment, embed, sts_quality, uniformity
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import pool

WORDS = (
    "a",
    "short",
    "doctor",
    "is",
    "helping",
    "the",
    "girl",
    "in",
    "hotel",
    "near",
    "tall",
    "soldier",
    "street",
)


def sentence(number: int) -> str:
    return " ".join(
        WORDS[(number * 5 + place * 3) % len(WORDS)] for place in range(1 + number * 7 % 11)
    )


PAIRS = [
    Example(str(number), sentence(number), sentence(number + 3), number % 6 * 1.0)
    for number in range(17)
]


@pytest.fixture(scope="module")
def encoder(tiny_model):
    return BertModel.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


def test_alignment_by_hand():
    first = torch.tensor([[2.0, 0], [0, 1], [1, 1]])
    second = torch.tensor([[1.0, 0], [5, 0], [-2, -2]])
    assert alignment(first, second) == pytest.approx(
        (0 + 2 + 4) / 3, rel=1e-6
    )  # equal, orthogonal, opposite


def test_uniformity_by_hand():
    square = torch.tensor(
        [[1.0, 0], [0, 3], [-1, 0], [0, -1]]
    )  # 4 pairs at distance^2 2, 2 pairs at 4
    assert uniformity(square) == pytest.approx(
        math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6), rel=1e-5
    )
    assert uniformity(torch.zeros(3, 2)) == pytest.approx(-4), "a dead encoder has a number too"
    assert uniformity(torch.ones(5, 3)) == pytest.approx(0, abs=1e-12)


def test_both_are_slow_loops():
    torch.manual_seed(0)
    first, second = torch.randn(2, 9, 4).unbind()
    unit = [[vector / vector.norm() for vector in rows] for rows in (first, second)]
    slow = sum(float(((x - y) ** 2).sum()) for x, y in zip(*unit, strict=True)) / 9
    assert alignment(first, second) == pytest.approx(slow, rel=1e-5)  # fp32
    terms = [
        math.exp(-2 * float(((unit[0][i] - unit[0][j]) ** 2).sum()))
        for i in range(9)
        for j in range(i)
    ]
    assert uniformity(first) == pytest.approx(math.log(sum(terms) / 36), rel=1e-5)


def test_random_directions_fill_the_sphere():
    generator = torch.Generator().manual_seed(0)
    assert uniformity(torch.randn(300, 64, generator=generator)) == pytest.approx(
        -4, abs=0.15
    )  # E d^2 = 2


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_vectors_come_in_row_order(encoder, tokenizer, pooling, batch_size):
    rows = EncodedExamples(PAIRS, tokenizer, 64, pair_encoding="bi")
    found = embed(encoder, rows, pooling, "fp32", batch_size)
    assert found.shape == (34, 32) and found.dtype == torch.float32
    encoder.eval()
    texts = [example.sentence_1 for example in PAIRS] + [example.sentence_2 for example in PAIRS]
    with torch.no_grad():
        for vector, text in zip(
            found, texts, strict=True
        ):  # each sentence alone, without any padding
            batch = tokenizer([text])
            alone = pool(encoder(**batch), batch["attention_mask"], pooling)[0]
            torch.testing.assert_close(
                vector, alone, rtol=0, atol=1e-5
            )  # fp32, 2 layers: measured 1e-6


def test_single_sentences_and_the_mode(encoder, tokenizer):
    singles = [Example(example.id, example.sentence_1, None, None) for example in PAIRS]
    rows = EncodedExamples(singles, tokenizer, 64)
    vectors = []
    for mode in (True, False):
        encoder.train(mode)
        found = embed(encoder, rows, "mean", "fp32", 4)
        assert encoder.training == mode and found.shape == (17, 32) and not found.requires_grad
        vectors.append(found)
    assert torch.equal(*vectors), "dropout in an evaluation"
    pairs = embed(encoder, EncodedExamples(PAIRS, tokenizer, 64, "bi"), "mean", "fp32", 4)
    torch.testing.assert_close(found, pairs[:17], rtol=0, atol=1e-5)


def with_vectors(monkeypatch, first, second) -> None:
    monkeypatch.setattr(quality, "embed", lambda *_: torch.cat([first, second]))


class Labelled:
    def __init__(self, labels):
        self.examples = [Example(str(number), "", "", label) for number, label in enumerate(labels)]


def test_zero_shot_scores_of_made_up_vectors(monkeypatch):
    """Angles of 90, 60, 30, 20 and 0 degrees against labels that follow them but are not linear in the cosine."""
    angles, labels = np.radians([90, 60, 30, 20, 0]), [0.0, 1.0, 4.0, 4.5, 5.0]
    first = torch.tensor([[1.0, 0]] * 5)
    second = (
        torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1), dtype=torch.float32) * 7
    )
    with_vectors(monkeypatch, first, second)
    scores = sts_quality(None, Labelled(labels), "mean", "fp32")
    assert list(scores) == ["spearman", "pearson", "alignment", "uniformity"]
    assert scores["spearman"] == pytest.approx(1.0)
    assert (
        scores["pearson"] == pytest.approx(pearsonr(np.cos(angles), labels).statistic, abs=1e-6)
        and scores["pearson"] < 0.99
    )
    assert scores["alignment"] == pytest.approx(
        (2 - 2 * math.cos(math.radians(20)) + 0) / 2, rel=1e-4
    )
    assert scores["uniformity"] == pytest.approx(uniformity(torch.cat([first, second])))
    with_vectors(monkeypatch, first, second.flip(0))  # the negative control: the opposite order
    assert sts_quality(None, Labelled(labels), "mean", "fp32")["spearman"] < -0.9


def test_zero_shot_scores_of_an_encoder(encoder, tokenizer):
    rows = EncodedExamples(PAIRS, tokenizer, 64, pair_encoding="bi")
    vectors = embed(encoder, rows, "mean", "fp32").numpy().astype(np.float64)
    u, v = vectors[:17], vectors[17:]
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    labels = [example.label for example in PAIRS]
    scores = sts_quality(encoder, rows, "mean", "fp32")
    assert scores["pearson"] == pytest.approx(pearsonr(cosines, labels).statistic, abs=1e-5)
    assert scores["spearman"] == pytest.approx(spearmanr(cosines, labels).statistic, abs=1e-5)


@pytest.mark.parametrize("labels", [[0.0, 2.0, 4.0], [4.5, 4.5, 4.5]])
def test_labels_that_cannot_be_scored(monkeypatch, labels):
    with_vectors(monkeypatch, torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="the STS dev rows have labels .* above 4"):
        sts_quality(None, Labelled(labels), "mean", "fp32")


def test_a_collapsed_encoder_scores_nothing(monkeypatch):
    with_vectors(monkeypatch, torch.ones(3, 2), torch.ones(3, 2))
    scores = sts_quality(None, Labelled([0.0, 2.0, 5.0]), "mean", "fp32")
    assert scores == pytest.approx(
        {"spearman": 0.0, "pearson": 0.0, "alignment": 0.0, "uniformity": 0.0}, abs=1e-12
    )
