"""contrastive/quality/pair_map.py: the pairs that are chosen, and their map."""

import json

import numpy as np
import pytest
import torch
from sklearn.manifold import TSNE

from contrastive.embedder import Embedder
from contrastive.quality.pair_map import choose_pairs, measure_map, project
from contrastive.quality.vector_sources import EncoderVectors
from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.sentence_sets import read_pairs
from minbert import BertModel, BertTokenizer


def embedder_of(encoder: BertModel, folder) -> Embedder:
    return Embedder(
        encoder=encoder,
        tokenizer=BertTokenizer.from_pretrained(folder),
        pooling="mean",
        precision="fp32",
        batch_size=7,
        max_length=64,
    )


# --- which pairs --------------------------------------------------------------------------------


def test_the_highest_and_the_lowest_labels_are_chosen():
    positive, negative = choose_pairs(np.array([5.0, 1, 3, 0, 4, 2.4, 2.6]), 2)
    assert positive.tolist() == [0, 4] and negative.tolist() == [1, 3]


def test_equal_labels_are_chosen_at_even_distances():
    """One label is above the 5s. The other three come from nine 5s, rows 0 to 8: 0, 3 and 6."""
    positive, negative = choose_pairs(np.array([5.0] * 9 + [5.5] + [1] * 8), 4)
    assert positive.tolist() == [0, 3, 6, 9] and negative.tolist() == [10, 12, 14, 16]


def test_no_pair_is_both_and_there_are_as_many_of_each():
    positive, negative = choose_pairs(np.array([0.0, 0, 0, 0, 0, 5, 2.5]))
    assert positive.tolist() == [5] and negative.tolist() == [0]
    for seed in range(20):
        labels = np.random.default_rng(seed).integers(0, 6, 100).astype(float)
        positive, negative = choose_pairs(labels)
        assert len(set(positive)) == len(set(negative)) == 20
        assert labels[positive].min() > labels[negative].max()


# --- the map ------------------------------------------------------------------------------------


def test_a_map_is_t_sne_of_normalised_vectors_and_always_the_same():
    vectors = np.random.default_rng(0).normal(size=(30, 8))
    points = project(vectors)
    assert points.shape == (30, 2) and np.isfinite(points).all()
    assert np.array_equal(points, project(vectors))
    # A multiplication by 4 is exact.
    assert np.array_equal(points, project(4 * vectors))
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    library = TSNE(perplexity=8.0, init="pca", method="exact", random_state=0)
    expected = library.fit_transform(directions)
    assert np.allclose(points, expected, atol=1e-4 * np.abs(expected).max())
    assert not np.allclose(points, project(np.roll(vectors, 1, axis=1) ** 3)), "negative control"


def test_neighbours_stay_neighbours():
    """Two bundles of directions: the nearest point on the map is of the same bundle."""
    centres = np.repeat(np.eye(6)[:2], 10, axis=0)
    points = project(centres + 0.05 * np.random.default_rng(1).normal(size=(20, 6)))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(20)
    assert ((distances.argmin(axis=1) < 10) == (np.arange(20) < 10)).all()


def test_few_points_and_equal_vectors_have_a_map():
    assert np.isfinite(project(np.random.default_rng(0).normal(size=(4, 8)))).all()
    assert np.array_equal(project(np.ones((4, 8))), np.zeros((4, 2)))


@pytest.fixture(scope="module")
def sources(tiny_model):
    """A random encoder before, and the tiny model after training."""
    after = BertModel.from_pretrained(tiny_model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        before = BertModel(after.config)
    return {
        "before": EncoderVectors(embedder_of(before, tiny_model)),
        "after": EncoderVectors(embedder_of(after, tiny_model)),
    }


@pytest.fixture(scope="module")
def pairs(sample_data):
    return read_pairs(sample_data / "sts-dev.csv")


@pytest.fixture(scope="module")
def record(sources, pairs):
    return measure_map(sources, "dev", pairs)


def test_the_record_holds_the_pairs_and_is_always_the_same(sources, pairs, record):
    labels = [pair["label"] for pair in record["pairs"]]
    kinds = [pair["is_positive"] for pair in record["pairs"]]
    count = len(labels) // 2
    assert kinds == [True] * count + [False] * count
    assert min(labels[:count]) > max(labels[count:])
    assert list(record["maps"]) == ["before", "after"]
    assert record["maps"]["before"]["points"] != record["maps"]["after"]["points"]
    assert record == measure_map(sources, "dev", pairs)
    json.dumps(record, allow_nan=False)


def test_the_map_by_a_slow_loop(sources, pairs, record):
    by_text = {(item.sentence_1, item.sentence_2): item for item in pairs.examples}
    examples = [by_text[pair["sentence_1"], pair["sentence_2"]] for pair in record["pairs"]]
    embedder = sources["after"].embedder
    rows = EncodedExamples(examples, embedder.tokenizer, 64, "bi")
    vectors = embed(embedder.encoder, rows, "mean", "fp32").double()
    cosines = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)

    num_pairs = len(examples)
    num_sentences = 2 * num_pairs
    num_nearest = [0, 0]
    for row in range(num_sentences):
        partner = (row + num_pairs) % num_sentences
        others = [cosines[row, other] for other in range(num_sentences) if other != row]
        is_negative = row % num_pairs >= num_pairs // 2
        num_nearest[is_negative] += int(cosines[row, partner] >= max(others) - 1e-9)
    after = record["maps"]["after"]
    assert after["beside"] == num_nearest and num_nearest != [0, 0]

    partners = torch.stack([cosines[row, row + num_pairs] for row in range(num_pairs)])
    expected = [float(half.mean()) for half in partners.chunk(2)]
    assert after["cosine"] == pytest.approx(expected, abs=1e-6)

    # Both sentences of a pair stand in its row. fp32 vectors of other batches differ a little:
    # the difference measured was below 1e-3 of the map's size.
    points = np.array(after["points"])
    assert points.shape == (num_pairs, 2, 2)
    expected = project(vectors.numpy()).reshape(2, -1, 2).swapaxes(0, 1)
    assert np.allclose(points, expected, atol=0.05 * np.ptp(points))
