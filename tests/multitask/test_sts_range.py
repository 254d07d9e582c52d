"""STS as a cosine: --sts_range fitted, from the formula to a finished run.

M is the cosine that the label 0 stands for. If a test of the stage fails and the formulas pass, M
was most likely fitted too early, or again.
"""

import copy
import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import run_multitask
from command_line.options import Options
from minbert import BertModel
from minbert.pooling import pool
from minbert.training.cost_estimate import probe
from minbert.training.loop import fit
from multitask.evaluation import predict
from multitask.heads import CosineHead
from multitask.heads_first import heads_job
from multitask.losses import fitted_range, similarity_loss, similarity_regression
from multitask.rows import read_tables
from multitask.saved_run import open_run
from multitask.stage import regression_of
from multitask.tasks import TASKS
from tests.toy_job import Kill, killed_at
from tests.toy_multitask import after_two_steps, differ, encoded, task_job
from tests.toy_options import options_of, refusal

U = torch.tensor([[1.0, 0.0]])
V = torch.tensor([[1.0, 1.0]])  # at 45 degrees to U

# --- the formulas -------------------------------------------------------------------------------


def test_the_fitted_range_by_hand():
    cosines = torch.tensor([0.5, 0.7, 0.9, 1.0])
    labels = torch.tensor([0.0, 0.25, 0.26, 5.0])
    # The edge belongs to the bucket.
    assert fitted_range(cosines, labels) == pytest.approx(0.6)
    # (.25, .5] holds the first alone.
    assert fitted_range(cosines, labels + 0.3) == pytest.approx(0.5)
    # .55 is in (.5, .75], .8 and .81 are in the next one.
    assert fitted_range(cosines, labels + 0.55) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="all vectors are equal"):
        fitted_range(torch.ones(4), labels)


def test_prediction_and_loss_by_hand():
    """cos 45 degrees = .707, M = .6: (.707 - .6) / .4 of 5 points.

    The label 2.5 stands for a cosine of .8.
    """
    head = CosineHead(has_range=True)
    head.lowest.fill_(0.6)
    prediction = head(U, V)
    assert prediction.item() == pytest.approx(5 * (math.sqrt(0.5) - 0.6) / 0.4)
    loss = similarity_regression(prediction, torch.tensor([2.5]), head.lowest)
    assert loss.item() == pytest.approx(25 * (math.sqrt(0.5) - 0.8) ** 2)
    assert head(U, U).item() == pytest.approx(5.0), "a cosine of 1 is five points, whatever M"
    assert head(torch.tensor([[0.6, 0.8]]), U).item() == pytest.approx(0.0, abs=1e-6)


def test_a_range_from_0_is_what_it_was():
    prediction = CosineHead()(U, V)
    labels = torch.tensor([2.5])
    assert torch.equal(prediction, 5 * F.cosine_similarity(U, V))
    loss = similarity_regression(prediction, labels, 0.0)
    assert torch.equal(loss, similarity_loss(prediction, labels))
    assert not CosineHead().state_dict()
    assert set(CosineHead(has_range=True).state_dict()) == {"lowest"}


def test_the_gradient_is_that_of_the_cosine_s_regression():
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(6, 5, dtype=torch.float64, generator=generator).float()
    v = torch.randn(6, 5, dtype=torch.float64, generator=generator).float()
    u.requires_grad_()
    labels = torch.tensor([0.0, 1, 2, 3, 4, 5])
    head = CosineHead(has_range=True)
    head.lowest.fill_(0.3)
    loss = similarity_regression(head(u, v), labels, head.lowest)
    found = torch.autograd.grad(loss, u)[0]

    targets = 0.3 + 0.7 * labels / 5
    by_hand = 25 * F.mse_loss(F.cosine_similarity(u, v), targets)
    expected = torch.autograd.grad(by_hand, u)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # fp32

    from_zero = similarity_loss(5 * F.cosine_similarity(u, v), labels)
    other = torch.autograd.grad(from_zero, u)[0]
    assert (found - other).abs().max() > 1e-2, "the negative control: targets from 0 pull elsewhere"


def test_finite_differences_and_the_order_of_the_batch():
    """The loss computes in float32. A wide step is exact, too: the loss is a square."""
    predictions = torch.tensor([0.1, -0.4, 0.9], dtype=torch.float64, requires_grad=True)
    labels = torch.arange(3.0)

    def loss(values):
        return similarity_regression(values, labels, 0.3)

    assert torch.autograd.gradcheck(loss, [predictions], eps=0.5, atol=1e-5)
    order = torch.tensor([2, 0, 1])
    whole = loss(predictions)
    reordered = similarity_regression(predictions[order], labels[order], 0.3)
    torch.testing.assert_close(reordered, whole)
    assert not torch.isclose(loss(predictions[order]), whole), "other pairs"


# --- the stage ----------------------------------------------------------------------------------


@pytest.fixture
def make_job(sample_data, tiny_model, tmp_path):
    """A function that builds the job on 16 training rows a task. An encoder may be given."""
    base = {
        "data_dir": str(sample_data),
        "model": str(tiny_model),
        "batch_size": 4,
        "epochs": 2,
        "lr": 1e-3,
        "precision": "fp32",
        "max_length": 48,
        "pair_encoding": "bi",
        "train_rows": "sst=16,para=16,sts=16",
        "dev_rows": "sst=8,para=8,sts=8",
        "sts_range": "fitted",
        "head": "cosine",
        "tasks": "sst,sts",
        "common_layer": "none",
    }

    def make(name: str = "run", encoder: BertModel | None = None, **changes):
        options = Options.of(**{**base, **changes}).with_files()
        rows = encoded(options, read_tables(options.data))
        return task_job(options, rows, tmp_path / name, encoder), rows, options

    return make


def lowest_in(job) -> float:
    """M of the job's model."""
    return float(job.model.lowest_cosines()["sts"])


@torch.no_grad()
def lowest_of(encoder: BertModel, rows) -> float:
    """M in a slow loop, each sentence alone.

    It is the mean over the first bucket of .25 that holds a pair. The edge is a part of the bucket.
    """
    encoder.eval()
    edge = 0.25
    while not any(example.label <= edge for example in rows.examples):
        edge += 0.25
    cosines = []
    for row, example in enumerate(rows.examples):
        if example.label <= edge:
            batch = rows.batch([row])
            output = encoder(batch.input_ids, batch.attention_mask)
            u, v = pool(output, batch.attention_mask, "mean")
            cosines.append(float(u @ v / (u.norm() * v.norm())))
    return sum(cosines) / len(cosines)


@pytest.mark.parametrize("head", ["cosine", "mlp"])
def test_the_range_changes_what_is_learned(make_job, head):
    found = []
    for sts_range in ("zero", "fitted"):
        job, _, _ = make_job(sts_range, sts_range=sts_range, head=head, tasks="sst,sts")
        found.append(after_two_steps(job))
    (lowest,) = {name for name in found[1] if name not in found[0]}
    assert lowest.endswith("lowest")
    assert found[1].pop(lowest) != 0
    assert differ(*found)


def test_m_is_that_of_the_model_as_training_begins(make_job, tiny_model):
    """Not as the job is built: --pretrain's stages train the encoder in between."""
    job, rows, _ = make_job()
    probe(job)
    assert lowest_in(job) == 0, "a cost estimate fits nothing"
    with torch.no_grad():
        for parameter in job.model.encoder.layers[1].parameters():
            parameter.mul_(1.5)
    expected = lowest_of(job.model.encoder, rows["sts"]["train"])
    untouched = lowest_of(BertModel.from_pretrained(tiny_model), rows["sts"]["train"])
    assert abs(untouched - expected) > 1e-4

    history = fit(job).history
    fitted = [entry["sts_lowest"] for entry in history]
    assert fitted == pytest.approx([expected] * 2, abs=1e-5)  # fp32, other padding

    # Predictions are points. Turned back into cosines they are those of the vectors.
    points = torch.from_numpy(predict(job.model, "sts", rows["sts"]["dev"], "fp32"))
    batch = rows["sts"]["dev"].batch(range(8))
    with torch.no_grad():
        output = job.model.encoder.eval()(batch.input_ids, batch.attention_mask)
        vectors = pool(output, batch.attention_mask, "mean")
    cosines = expected + (1 - expected) * points / 5
    by_hand = F.cosine_similarity(*vectors.chunk(2))
    torch.testing.assert_close(cosines, by_hand, rtol=0, atol=1e-5)  # fp32


def test_a_cosine_of_its_own_vectors_trains_the_encoder(make_job):
    """No weight outside the encoder could move for STS, and still the loss falls."""
    job, _, _ = make_job(tasks="sts", sts_range="zero", epochs=8, lr=2e-3, dev_rows="sts=8")
    before = copy.deepcopy(job.model.state_dict())
    history = fit(job).history
    moved = set()
    for name, tensor in job.model.state_dict().items():
        if not torch.equal(tensor, before[name]):
            moved.add(name.split(".")[0])
    assert moved == {"encoder"}
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]


def test_with_heads_first_it_is_fitted_once(make_job):
    job, _, options = make_job(head="mlp")
    expected = None

    def told(epoch: int) -> None:
        nonlocal expected
        job.before_epoch(epoch)
        expected = expected or lowest_in(job)

    first = heads_job(job, options.with_values(heads_first=1).multitask, options.training)
    fit(replace(first, before_epoch=told))
    fit(replace(job, before_epoch=told))
    assert expected == lowest_in(job) != 0


@pytest.mark.parametrize("step", [2, 10])
def test_a_killed_stage_goes_on_with_the_same_m(make_job, step):
    """Killed in the first or the second of two epochs of 8 steps.

    It is resumed from another encoder than it began with.
    """
    job, _, _ = make_job("undisturbed")
    history = fit(job).history
    stopped, _, _ = make_job("stopped")
    with pytest.raises(Kill):
        fit(killed_at(stopped, step))
    other = BertModel(job.model.encoder.config)
    again, _, _ = make_job("stopped", other)
    assert fit(again, resume=True).history == history
    assert not differ(again.model.state_dict(), job.model.state_dict())
    assert lowest_in(again) == lowest_in(job) != 0


# --- what is refused ----------------------------------------------------------------------------


def test_all_layers_frozen_leave_nothing(make_job):
    message = "leaves nothing to train for --head cosine with --common_layer none. Freeze fewer"
    with pytest.raises(ValueError, match=message):
        make_job(freeze="2")
    make_job(freeze="1")
    make_job(freeze="2", common_layer="tanh")
    make_job(freeze="2", pooling="pooler")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            "--head cosine --tasks sts --common_layer none --option pretrain",
            "nothing to train for STS where the encoder is frozen. Drop --option pretrain, or pass",
        ),
        (
            "--head cosine --tasks sts --common_layer none --heads_first 1",
            "nothing to train for STS where the encoder is frozen. Drop --heads_first 1, or pass",
        ),
        (
            "--sts_range fitted",
            "effect with --head features; add --head mlp or cosine, or pass --sts_range zero.",
        ),
        (
            "--sts_range fitted --head cosine --tasks sst",
            "has no effect with --tasks sst. Drop it, or add sts.",
        ),
    ],
)
def test_what_nothing_would_read_or_train_is_refused(capsys, flags, words):
    assert words in refusal(capsys, *flags.split())


@pytest.mark.parametrize(
    "flags",
    [
        "--head cosine --tasks sst --common_layer none --option pretrain",
        "--head cosine --tasks sts --option pretrain",
        "--head cosine --tasks sst,sts --sts_range fitted",
        "--head mlp --sts_range fitted --heads_first 1",
    ],
)
def test_what_makes_sense(flags):
    assert options_of(*flags.split()).multitask.heads.head in ("cosine", "mlp")


# --- the command --------------------------------------------------------------------------------


def test_a_run(sample_data, tiny_model, tmp_path, capsys):
    """M is in run.json and in the saved model. The files of STS hold points of similarity."""
    flags = {
        "model": tiny_model,
        "data-dir": sample_data,
        "output-dir": tmp_path,
        "name": "r",
        "epochs": 1,
        "batch-size": 8,
        "precision": "fp32",
        "head": "cosine",
        "tasks": "sst,sts",
        "sts-range": "fitted",
        "common-layer": "none",
    }
    assert run_multitask.main([f"--{name}={value}" for name, value in flags.items()]) == 0
    assert "sts_lowest 0." in capsys.readouterr().out

    folder = tmp_path / "r"
    record = json.loads((folder / "run.json").read_text())
    run = open_run(folder)
    assert record["options"]["sts_range"] == "fitted"
    lowest = float(run.model.lowest_cosines()["sts"])
    assert lowest == record["epochs"][0]["sts_lowest"] != 0

    written = (folder / "predictions" / "sts-dev-output.csv").read_text().splitlines()[1:]
    points = [float(line.split(",")[1]) for line in written]
    assert points == pytest.approx(run.outputs("sts", "dev").tolist(), abs=1e-5)


def test_a_loss_that_no_cosine_has_is_refused():
    """A loss of one's own must not become the squared error without a word."""
    task = replace(TASKS["sts"], loss_name="huber")
    with pytest.raises(ValueError, match="the task sts has the loss huber, which no cosine has"):
        regression_of(task)
    assert regression_of(TASKS["sts"]) is similarity_regression
