"""benchmarks/: do the two sides of each compute the same? Nothing is timed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import pretraining, surgery, training
from benchmarks.material import Place, Settings, sst_examples, write_model
from benchmarks.optimizer import largest_difference
from minbert import BertModel, BertTokenizer


@pytest.fixture
def settings(tiny_model, sample_data, tmp_path):
    assert write_model(str(tiny_model), tmp_path / "model") == tiny_model.name
    return Settings(str(sample_data), 1, 8, is_quick=True, num_rounds=1, folder=tmp_path)


@pytest.fixture
def examples(settings):
    return sst_examples(settings.data_dir, 24)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_sides_of_train_step_have_the_same_loss_and_batches(
    settings, examples, tmp_path, pooling
):
    pytest.importorskip("transformers", reason="transformers is the peer; run setup.sh --dev")
    training.write_heads(settings.model, tmp_path / "heads", examples, pooling)
    job = training.our_job(settings.model, tmp_path / "ours", examples, 8, Place())
    classifier, rows = (
        training.Classifier(settings.model).eval(),
        training.HuggingFaceBatches(settings.model, examples),
    )
    assert job.model.pooling == pooling
    assert job.model.drops_out, "as the peer, though the encoder is small"
    job.model.eval()  # no dropout on either side
    batches = training.grouped(examples, BertTokenizer.from_pretrained(settings.model), 8)
    assert sorted(row for batch in batches for row in batch) == list(range(24))
    with torch.no_grad():
        for indices in batches:
            ours, theirs = job.load("sst", indices), rows.batch(indices)
            assert torch.equal(ours.input_ids, theirs["input_ids"])
            # fp32, 2 layers: measured 1e-7, allow 1e-6
            torch.testing.assert_close(
                classifier(**theirs), job.loss("sst", ours), rtol=0, atol=1e-6
            )


def test_the_sides_of_train_step_take_steps(settings, examples, tmp_path):
    pytest.importorskip("transformers", reason="transformers is the peer; run setup.sh --dev")
    training.write_heads(settings.model, tmp_path / "heads", examples)
    ours = training.our_side(settings.model, tmp_path / "ours", examples, 8, Place())
    plain = training.peer_side(settings.model, examples, 8, Place())
    tricks = training.peer_side(settings.model, examples, 8, Place(precision="bf16"), True, True)
    for take in (ours, plain, tricks):
        for part in range(3):
            take(part)
        assert take("peak") > 0


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_of_inference_agree(settings, examples, tmp_path, pooling):
    pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is the peer; run setup.sh --dev"
    )
    from benchmarks import inference

    folder = inference.write_export(settings.model, tmp_path / "export", pooling)
    sentences = [example.sentence_1 for example in examples]
    peer = inference.peer_side(folder, sentences, 8, Place())("vectors")
    assert (
        inference.least_cosine(
            inference.peer_side(folder, sentences, 8, Place(precision="bf16"))("vectors"), peer
        )
        >= 0.99
    )
    for precision, least in {"fp32": 1 - 1e-6, "bf16": 0.999}.items():
        ours = inference.our_side(folder, sentences, 8, Place(precision=precision))
        assert ours(0) is None
        assert inference.least_cosine(ours("vectors"), peer) >= least
    others = peer[
        ::-1
    ]  # the negative control: rows in another order; all [CLS] are alike here, but unlike the means
    if pooling == "cls":
        mean = inference.write_export(settings.model, tmp_path / "mean")
        others = inference.peer_side(mean, sentences, 8, Place())("vectors")
    assert inference.least_cosine(ours("vectors"), others) < 0.999


def test_the_optimizers_take_the_same_step(settings):
    assert (
        largest_difference(BertModel.from_pretrained(settings.model)) <= 1e-6
    )  # the goal; measured 3e-8


def test_both_ways_of_simcse_have_the_same_loss_and_gradients_without_dropout(settings, examples):
    from benchmarks.simcse import TwoPasses
    from contrastive.methods import MethodSetup, SimCSE
    from data.batching import EncodedExamples

    batch = EncodedExamples(examples, BertTokenizer.from_pretrained(settings.model), 32).batch(
        range(8)
    )
    found = []
    for method in (SimCSE, TwoPasses):
        torch.manual_seed(0)  # the same projection
        encoder = BertModel.from_pretrained(settings.model)
        module = method(MethodSetup(encoder, "mean", 0.05, "tanh")).eval()
        loss = module(batch)
        loss.backward()
        found.append(
            {"loss": loss.detach()}
            | {
                name: parameter.grad
                for name, parameter in module.named_parameters()
                if parameter.grad is not None
            }
        )
    assert len(found[0]) > 30  # every layer's, the projection's
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


def test_torchjd_takes_our_step(settings, tmp_path):
    """Two tasks have no choice of order, so that both surgeries must give the same weights."""
    pytest.importorskip("torchjd", reason="torchjd is the peer; run setup.sh --dev")
    loops = []
    for name in ("pcgrad", "mean"):
        job = surgery.make_job(settings.model, settings.data_dir, 4, "fp32", name, tmp_path / name)
        step = [part for part in job.plan(0, None)[0] if part[0] != "sts"]
        loops.append(
            training.make_loop(replace(job, plan=lambda epoch, generator, step=step: [step]))
        )
    torch.manual_seed(1)  # dropout
    loops[0].train_step(loops[0].job.epoch_steps(0, torch.Generator())[0])
    torch.manual_seed(1)
    surgery.torchjd_side(loops[1])(0)
    for ours, theirs in zip(*(loop.parameters for loop in loops), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_both_sides_of_pretraining_have_the_same_model(tmp_path):
    pytest.importorskip("transformers", reason="transformers is the peer; run setup.sh --dev")
    flags = [
        "--size",
        "tiny",
        "--batch-size",
        "2",
        "--block-size",
        "16",
        "--tokens",
        "960",
        "--corpus",
        "x",
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
        "--precision",
        "fp32",
    ]
    ours, peer = pretraining.make_loop(flags), pretraining.make_peer(flags, tmp_path)
    ours.train_step(next(ours.job.all_steps()))
    peer.step()
    sizes = [
        sum(p.numel() for name, p in model.named_parameters() if "pooler" not in name)
        for model in (ours.job.model, peer.model)
    ]
    assert sizes[0] == sizes[1]
    assert (
        peer.model.config.hidden_dropout_prob == ours.job.model.bert.config.hidden_dropout_prob == 0
    )
    assert pretraining.layer_flops("tiny") == 6 * 2 * (
        4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    )
