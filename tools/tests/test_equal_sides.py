"""tools/benchmarks: do the two sides of each compute the same? Nothing is timed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from minbert import BertModel, BertTokenizer
from minbert.pretraining.options import PlainTextOptions
from tools.benchmarks import pretraining, surgery, training_sides
from tools.benchmarks.inputs import sst_examples, write_model
from tools.benchmarks.jobs import make_loop
from tools.benchmarks.optimizer import largest_difference
from tools.benchmarks.settings import Execution, Settings
from tools.benchmarks.training_sides import TrainingData, Tricks


@pytest.fixture
def settings(tiny_model, sample_data, tmp_path):
    assert write_model(str(tiny_model), tmp_path / "model") == tiny_model.name
    return Settings(
        data_dir=str(sample_data),
        threads=1,
        batch_size=8,
        is_quick=True,
        num_rounds=1,
        folder=tmp_path,
    )


@pytest.fixture
def data(settings):
    """24 sentences in batches of 8."""
    examples = sst_examples(settings.data_dir, 24)
    return TrainingData(settings.model, examples, settings.batch_size)


@pytest.fixture
def sentences(data):
    return [example.sentence_1 for example in data.examples]


@pytest.fixture
def has_transformers():
    pytest.importorskip("transformers", reason="transformers is the peer; run setup.sh --dev")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_sides_of_train_step_have_the_same_loss_and_batches(
    data, tmp_path, has_transformers, pooling
):
    training_sides.write_heads(data, tmp_path / "heads", pooling)
    job = training_sides.build_our_job(data, tmp_path / "ours", Execution())
    classifier = training_sides.Classifier(data.model).eval()
    rows = training_sides.HuggingFaceBatches(data)
    assert job.model.pooling == pooling
    assert job.model.has_encoder_dropout, "the peer has dropout, though the encoder is small"

    batches = training_sides.group_by_length(data)
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(24))

    # No dropout on either side.
    job.model.eval()
    with torch.no_grad():
        for batch in batches:
            ours = job.load("sst", batch)
            peer = rows.batch(batch)
            assert torch.equal(ours.input_ids, peer["input_ids"])
            # fp32 and 2 layers: measured 1e-7, allow 1e-6.
            torch.testing.assert_close(classifier(**peer), job.loss("sst", ours), rtol=0, atol=1e-6)


def test_the_sides_of_train_step_take_steps(data, tmp_path, has_transformers):
    training_sides.write_heads(data, tmp_path / "heads")
    tricks = Tricks(groups_by_length=True, is_fused=True)
    sides = [
        training_sides.our_side(data, tmp_path / "ours", Execution()),
        training_sides.peer_side(data, Execution(), Tricks()),
        training_sides.peer_side(data, Execution(precision="bf16"), tricks),
    ]
    for run_part in sides:
        for part in range(3):
            run_part(part)
        assert run_part("peak") > 0


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_of_inference_agree(data, sentences, tmp_path, pooling):
    pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is the peer; run setup.sh --dev"
    )
    from tools.benchmarks import inference

    folder = inference.write_export(data.model, tmp_path / "export", pooling)

    def vectors_of(make_side, folder, precision):
        side = make_side(folder, sentences, 8, Execution(precision=precision))
        return side(inference.VECTORS)

    peer = vectors_of(inference.peer_side, folder, "fp32")
    peer_in_bf16 = vectors_of(inference.peer_side, folder, "bf16")
    assert inference.least_cosine(peer_in_bf16, peer) >= 0.99

    for precision, least in {"fp32": 1 - 1e-6, "bf16": 0.999}.items():
        ours = vectors_of(inference.our_side, folder, precision)
        assert inference.least_cosine(ours, peer) >= least

    # The control: other vectors are further away. All vectors of [CLS] are alike here, so the
    # control of [CLS] is the mean, and the control of the mean has the rows in another order.
    others = peer[::-1]
    if pooling == "cls":
        mean_folder = inference.write_export(data.model, tmp_path / "mean")
        others = vectors_of(inference.peer_side, mean_folder, "fp32")
    assert inference.least_cosine(ours, others) < 0.999


def test_a_part_of_inference_sends_no_vectors(data, sentences, tmp_path):
    from tools.benchmarks import inference

    folder = inference.write_export(data.model, tmp_path / "export")
    ours = inference.our_side(folder, sentences, 8, Execution())
    assert ours(0) is None


def test_the_optimizers_take_the_same_step(settings):
    # The goal of the benchmark; measured 3e-8.
    assert largest_difference(BertModel.from_pretrained(settings.model)) <= 1e-6


def test_both_ways_of_simcse_have_the_same_loss_and_gradients_without_dropout(data):
    from contrastive.methods import MethodSetup, SimCSE
    from data.batching import EncodedExamples
    from tools.benchmarks.simcse import TwoPasses

    tokenizer = BertTokenizer.from_pretrained(data.model)
    batch = EncodedExamples(data.examples, tokenizer, 32).batch(range(8))

    def loss_and_gradients(method):
        # The same projection for both.
        torch.manual_seed(0)
        encoder = BertModel.from_pretrained(data.model)
        module = method(MethodSetup(encoder, "mean", 0.05, "tanh")).eval()
        loss = module(batch)
        loss.backward()
        tensors = {"loss": loss.detach()}
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                tensors[name] = parameter.grad
        return tensors

    one_pass = loss_and_gradients(SimCSE)
    two_passes = loss_and_gradients(TwoPasses)
    assert len(one_pass) > 30, "every layer and the projection have gradients"
    torch.testing.assert_close(one_pass, two_passes, rtol=1e-4, atol=1e-6)


def test_torchjd_takes_our_step(settings, tmp_path):
    """Two tasks have no choice of order, so both surgeries must give the same gradients."""
    pytest.importorskip("torchjd", reason="torchjd is the peer; run setup.sh --dev")
    joint_step = surgery.JointStep(settings.model, settings.data_dir, 4, "fp32")

    def loop_of_two_tasks(name):
        job = surgery.build_job(joint_step, name, tmp_path / name)
        step = [batch for batch in job.plan(0, torch.Generator())[0] if batch[0] != "sts"]
        return make_loop(replace(job, plan=lambda epoch, generator: [step]))

    # The same dropout for both.
    ours = loop_of_two_tasks("pcgrad")
    peer = loop_of_two_tasks("mean")
    torch.manual_seed(1)
    ours.train_step(surgery.only_update(ours))
    torch.manual_seed(1)
    surgery.torchjd_side(peer)(0)

    for parameter, peer_parameter in zip(ours.parameters, peer.parameters, strict=True):
        assert (parameter.grad is None) == (peer_parameter.grad is None)
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, peer_parameter.grad, rtol=1e-4, atol=1e-6)


def test_both_sides_of_pretraining_have_the_same_model(tmp_path, has_transformers):
    options = PlainTextOptions(
        size="tiny", batch_size=2, block_size=16, tokens=960, device="cpu", precision="fp32"
    )
    ours = pretraining.make_our_loop(options, tmp_path / "out")
    peer = pretraining.HuggingFaceLoop(options, tmp_path)
    ours.train_step(next(ours.job.all_steps()))
    peer.step()

    def num_parameters(model):
        sizes = []
        for name, parameter in model.named_parameters():
            if "pooler" not in name:
                sizes.append(parameter.numel())
        return sum(sizes)

    assert num_parameters(ours.job.model) == num_parameters(peer.model)
    assert ours.job.model.bert.config.hidden_dropout_prob == 0
    assert peer.model.config.hidden_dropout_prob == 0

    # 2 layers of 64 units: four projections, two layers of 256 units, their biases, two norms.
    weights = 4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert pretraining.layer_flops("tiny") == 6 * 2 * weights
