"""contrastive/quality/measurement.py: the record of one file, for a tiny model."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from contrastive.embedder import Embedder
from contrastive.quality.measurement import measure_set, measure_transfer, score_vectors
from contrastive.quality.vector_sources import EncoderVectors
from contrastive.zero_shot import sts_quality
from data.batching import EncodedExamples
from data.sentence_sets import read_labelled, read_pairs
from minbert import BertModel, BertTokenizer
from tests.toy_sets import write_class_file, write_sts_file

KINDS = ["mean", "[CLS]", "first-last mean", "last-two mean", "WK"]
WHITENED = ["mean, whitened", "first-last mean, whitened", "last-two mean, whitened"]


@pytest.fixture(scope="module")
def embedder(tiny_model):
    return Embedder(
        encoder=BertModel.from_pretrained(tiny_model),
        tokenizer=BertTokenizer.from_pretrained(tiny_model),
        pooling="mean",
        precision="fp32",
        batch_size=7,
        max_length=64,
    )


@pytest.fixture(scope="module")
def source(embedder):
    return EncoderVectors(embedder)


@pytest.fixture(scope="module")
def pairs(sample_data, tmp_path_factory):
    return read_pairs(write_sts_file(tmp_path_factory.mktemp("sets") / "pairs.tsv", sample_data))


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    return read_labelled(write_class_file(tmp_path_factory.mktemp("classes") / "films.tsv"), 4)


@pytest.fixture(scope="module")
def record(source, pairs):
    return measure_set(source, pairs, with_baselines=True, with_layers=True)


# --- STS sets -----------------------------------------------------------------------------------


def test_the_own_vector_scores_as_in_the_contrastive_stage(embedder, pairs, record):
    rows = EncodedExamples(pairs.examples, embedder.tokenizer, 64, pair_encoding="bi")
    expected = sts_quality(embedder.encoder, rows, "mean", "fp32")
    own = record["vectors"]["mean"]
    for name in ("spearman", "pearson"):
        assert own["all"][name] == pytest.approx(expected[name], abs=1e-5)
    for name in ("alignment", "uniformity"):
        assert own[name] == pytest.approx(expected[name], abs=1e-5)


def test_a_record_holds_every_row_and_kind_of_vector(record):
    measured = [name for name in WHITENED if name not in record["left_out"]]
    assert list(record["vectors"]) == KINDS + measured
    own = record["vectors"]["mean"]
    assert own["subsets"]["rest"] is None and own["subsets"]["news"]["rows"] == 11
    assert record["rows"] == 24 and record["range"] == [0, 5] and record["truncated"] == 0
    assert sum(bucket["rows"] for bucket in record["buckets"]) == 24
    # Chance in the rows moves each score, but not that of a state which is always 0.
    assert 0 < own["standard_errors"]["spearman"] < 0.5 and record["groups"] <= 24
    assert record["layer_errors"]["cls"][0] == 0 < min(record["layer_errors"]["mean"])
    json.dumps(record, allow_nan=False)


def test_the_last_state_of_the_layers_is_the_own_vector(record):
    layers = record["layers"]
    assert list(layers) == ["cls", "mean", "max"]
    assert {len(values) for values in layers.values()} == {3}
    for pooling, kind in (("mean", "mean"), ("cls", "[CLS]")):
        expected = record["vectors"][kind]["all"]["spearman"]
        assert layers[pooling][2] == pytest.approx(expected, abs=1e-5)
    # The embedding of [CLS] is the same in every sentence.
    assert layers["cls"][0] == 0
    values = sum(layers.values(), [])
    assert len({round(value, 6) for value in values}) > 5


def test_the_batch_size_does_not_matter(embedder, pairs, record):
    larger = EncoderVectors(replace(embedder, batch_size=64))
    other = measure_set(larger, pairs, with_baselines=True, with_layers=True)
    for kind, scores in record["vectors"].items():
        assert other["vectors"][kind]["all"] == pytest.approx(scores["all"], abs=1e-4), kind
    assert other["layers"]["max"] == pytest.approx(record["layers"]["max"], abs=1e-4)


def test_the_precision_is_the_one_asked_for(embedder, pairs, record):
    rounded = measure_set(EncoderVectors(replace(embedder, precision="bf16")), pairs)
    assert rounded["vectors"]["mean"]["uniformity"] != record["vectors"]["mean"]["uniformity"]
    assert "layers" not in rounded and list(rounded["vectors"]) == ["mean"]


def test_whitening_needs_more_sentences_than_units(source, pairs, record):
    assert record["sentences"] > 32 and "mean, whitened" in record["vectors"]
    few = replace(pairs, examples=pairs.examples[:10], subsets=None)
    short = measure_set(source, few, with_baselines=True)
    assert list(short["vectors"]) == KINDS and list(short["left_out"]) == WHITENED
    assert "for 32 units" in short["left_out"]["mean, whitened"]


def test_labels_outside_the_scale_are_refused(source, pairs):
    with pytest.raises(ValueError, match="labels are 0 to 5, and --range is 1 to 5"):
        measure_set(source, pairs, scale=(1, 5))


def test_scores_of_made_up_vectors():
    """Cosines 1, .6 and 0 for labels 5, 3 and 0. The one pair above 4 has an alignment of 0."""
    vectors = torch.tensor([[1.0, 0], [1, 0], [1, 0], [2, 0], [0.6, 0.8], [0, 3]])
    labels = np.array([5.0, 3, 0])
    groups = np.arange(3)
    cosines, record = score_vectors(vectors, labels, None, 4.0, groups)
    assert cosines == pytest.approx([1, 0.6, 0])
    assert list(record) == ["all", "subsets", "alignment", "uniformity", "standard_errors"]
    assert record["alignment"] == 0 and record["subsets"] == {}
    assert record["all"]["spearman"] == pytest.approx(1)
    assert score_vectors(vectors, labels, None, 5.0, groups).record["alignment"] is None


# --- transfer -----------------------------------------------------------------------------------


def test_transfer_of_frozen_vectors(embedder, source, sentences):
    before = {name: tensor.clone() for name, tensor in embedder.encoder.state_dict().items()}
    record = measure_transfer(source, sentences, num_folds=4, seed=1)
    assert record["rows"] == 40 and record["classes"] == ["bad", "good"]
    assert record["majority"] == 0.5 and len(record["of_folds"]) == 4
    assert record["accuracy"] == pytest.approx(np.mean(record["of_folds"]))
    assert record["accuracy"] > 0.8
    for name, tensor in embedder.encoder.state_dict().items():
        assert torch.equal(tensor, before[name]), "the encoder must stay frozen"


def test_the_deviation_is_that_of_a_sample_of_folds(source, sentences, monkeypatch):
    monkeypatch.setattr(
        "contrastive.quality.measurement.transfer_accuracies", lambda *_: np.array([0.5, 0.75])
    )
    record = measure_transfer(source, sentences, num_folds=4, seed=1)
    assert record["deviation"] == pytest.approx(0.25 / 2**0.5)
