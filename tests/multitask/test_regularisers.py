"""R-Drop by hand, against torch, by finite differences and in a run. SMART in a run.

test_smart.py has the mathematics of SMART.

If only the symmetric value is wrong: one of the two directions of KL may be missing.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from command_line.automatic import Choice, choose_precision
from command_line.options import Options
from minbert.training import cost_estimate
from minbert.training.loop import fit
from multitask.heads_first import heads_job
from multitask.regularised_loss import perturbing
from multitask.regularisers import r_drop, symmetric_divergence
from multitask.rows import read_tables
from tests.toy_multitask import after_two_steps, differ, encoded, task_job

SHAPES = {"classes": (6, 5), "binary": (6,), "score": (6,)}
each_kind = pytest.mark.parametrize("kind", SHAPES)


def outputs_of(kind: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Two predictions of the same six rows, float32."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(SHAPES[kind], generator=generator)
    return first, first + 0.5 * torch.randn(SHAPES[kind], generator=generator)


# --- the divergence -----------------------------------------------------------------------------


def test_by_hand():
    # P1 = (3/4, 1/4) and P2 = (1/4, 3/4): both directions of KL are log(3) / 2.
    logits = torch.tensor([[math.log(3), 0.0]])
    found = symmetric_divergence(logits, logits.flip(1), "classes")
    torch.testing.assert_close(float(found), math.log(3), msg="the sum of both directions of KL")
    # The same two predictions as one logit, for the second class.
    found = symmetric_divergence(
        torch.tensor([-math.log(3)]), torch.tensor([math.log(3)]), "binary"
    )
    torch.testing.assert_close(float(found), math.log(3))
    found = symmetric_divergence(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]), "score")
    assert float(found) == 2.5, "the mean of 1 and 4"


def test_against_torch_and_a_slow_loop():
    first, second = outputs_of("classes")
    logs = first.log_softmax(1), second.log_softmax(1)
    forward = F.kl_div(logs[1], logs[0], log_target=True, reduction="batchmean")
    backward = F.kl_div(logs[0], logs[1], log_target=True, reduction="batchmean")
    found = symmetric_divergence(first, second, "classes")
    torch.testing.assert_close(found, forward + backward)
    assert not torch.allclose(found, 2 * forward), "negative control: one direction twice"

    first, second = outputs_of("binary")
    total = 0.0
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        p = 1 / (1 + math.exp(-a))
        q = 1 / (1 + math.exp(-b))
        total += p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        total += q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert float(symmetric_divergence(first, second, "binary")) == pytest.approx(total / 6)


def test_a_logit_is_the_same_as_two_classes():
    first, second = outputs_of("binary")
    classes = [torch.stack([torch.zeros(6), logit], dim=1) for logit in (first, second)]
    expected = symmetric_divergence(*classes, "classes")
    torch.testing.assert_close(symmetric_divergence(first, second, "binary"), expected)


@each_kind
def test_properties(kind):
    first, second = outputs_of(kind)
    found = symmetric_divergence(first, second, kind)
    assert found.dtype == torch.float32 and found.shape == () and found > 0
    torch.testing.assert_close(symmetric_divergence(second, first, kind), found)
    assert float(symmetric_divergence(first, first, kind)) == 0
    low = symmetric_divergence(first.bfloat16(), second.bfloat16(), kind)
    assert low.dtype == torch.float32
    if kind == "classes":
        # A number added to all logits changes no probability.
        torch.testing.assert_close(symmetric_divergence(first + 3, second, kind), found)
    extreme = symmetric_divergence(1e4 * first, -1e4 * second, kind)
    assert torch.isfinite(extreme)


@each_kind
def test_gradients_by_finite_differences(kind):
    """float64 is computed in float32, so the step is wide and the comparison loose."""
    first, second = outputs_of(kind)
    first.requires_grad_()
    second.requires_grad_()
    symmetric_divergence(first, second, kind).backward()
    for inputs in (first, second):
        direction = torch.ones_like(inputs).cumsum(0) / 6 * (-1) ** torch.arange(inputs.size(-1))
        values = []
        for step in (0.01, -0.01):
            with torch.no_grad():
                moved = inputs + step * direction
                pair = (moved, second) if inputs is first else (first, moved)
                values.append(float(symmetric_divergence(*pair, kind)))
        slope = (values[0] - values[1]) / 0.02
        assert slope == pytest.approx(float((inputs.grad * direction).sum()), rel=0.01, abs=1e-3)


def test_wrong_arguments_are_refused():
    with pytest.raises(
        ValueError, match="kind is 'pair'; it is classes, binary, multilabel or score"
    ):
        symmetric_divergence(torch.zeros(2), torch.zeros(2), "pair")
    with pytest.raises(ValueError, match=r"first is \(2, 1\), second is \(2,\)"):
        symmetric_divergence(torch.zeros(2, 1), torch.zeros(2), "score")


# --- R-Drop -------------------------------------------------------------------------------------


def test_r_drop_by_hand():
    """Equation 4: both losses are added, and the symmetric KL is halved."""
    found = r_drop(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.5), 4.0)
    assert float(found) == 1 + 2 + 4 * 0.5 / 2
    assert float(r_drop(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.5), 0.0)) == 3


# --- in a run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options.of(
        data_dir=str(sample_data),
        model=str(tiny_model),
        pair_encoding="cross",
        sampling="joint",
        precision="fp32",
        batch_size=4,
        max_length=24,
        warmup=0.0,
        epochs=2,
        lr=1e-3,
        hidden_dropout_prob=0.3,
        train_rows="sst=16,para=16,sts=16",
        dev_rows="sst=4,para=4,sts=4",
    ).with_files()


@pytest.fixture(scope="module")
def rows(options):
    return encoded(options.with_values(pair_encoding="cross"), read_tables(options.data))


@pytest.fixture
def make_job(options, rows, tmp_path):
    """A function that builds the job with some options changed."""

    def make(**changes):
        return task_job(options.with_values(**changes), rows, tmp_path / "run")

    return make


def disagreement(job) -> float:
    """The mean divergence of two passes with dropout, over all tasks."""
    torch.manual_seed(0)
    job.model.train()
    total = 0.0
    with torch.no_grad():
        for task in ("sst", "para", "sts"):
            batch = job.load(task, list(range(16)))
            kind = job.model.tasks[task].kind
            for _ in range(4):
                pair = job.model(task, batch), job.model(task, batch)
                total += float(symmetric_divergence(*pair, kind))
    return total / 12


def test_the_loss_of_a_batch_is_that_of_two_passes(make_job):
    job = make_job(regulariser="r-drop", r_drop_weight=3.0)
    job.model.train()
    for task in ("sst", "para", "sts"):
        batch = job.load(task, [0, 1, 2, 3])
        torch.manual_seed(3)
        found = job.loss(task, batch)
        torch.manual_seed(3)
        first = job.model(task, batch)
        second = job.model(task, batch)
        assert not torch.equal(first, second), "dropout makes them differ"
        of_task = job.model.tasks[task]
        losses = of_task.loss(first, batch.labels) + of_task.loss(second, batch.labels)
        divergence = symmetric_divergence(first, second, of_task.kind)
        torch.testing.assert_close(found, losses + 1.5 * divergence)


def test_a_run_with_r_drop_agrees_more_with_itself(make_job):
    found = {}
    for weight in (0.0, 20.0):
        job = make_job(regulariser="r-drop", r_drop_weight=weight, max_grad_norm=0.0)
        fit(job)
        found[weight] = disagreement(job)
    assert found[20.0] < found[0.0]


def test_r_drop_without_dropout_is_refused(make_job):
    words = "--regulariser r-drop has no effect without dropout, because both passes are equal"
    with pytest.raises(ValueError, match=words):
        make_job(regulariser="r-drop", hidden_dropout_prob=0.0)
    make_job(regulariser="r-drop", hidden_dropout_prob=0.0, vector_dropout_prob=0.1)


# --- SMART in a run -----------------------------------------------------------------------------

LARGER = {"regulariser": "smart", "smart_epsilon": 0.02, "smart_sigma": 0.01, "smart_step": 0.03}
ADVERSARIAL = {**LARGER, "proximal": "none"}
PROXIMAL = {"regulariser": "smart", "smart_weight": 0.0}
# A job of eight steps: two epochs of one task.
SHORT = {"tasks": "sst", "sampling": "mt-dnn"}


def independent_smart(job, task: str, batch, earlier: dict[str, torch.Tensor]) -> torch.Tensor:
    """SMART as its paper has it: on the embeddings x themselves, and with a second model.

    The model has no dropout. The loss is that of make_job(**LARGER, smart_weight=3).
    """
    words = job.model.encoder.embeddings.word
    kind = job.model.tasks[task].kind

    def outputs_of(embedded):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(words, "forward", lambda input_ids: embedded)
            return job.model(task, batch)

    def distance(outputs, others):
        if kind == "score":
            return (outputs - others).square().mean()
        if kind == "binary":
            outputs = torch.stack([torch.zeros_like(outputs), outputs], dim=1)
            others = torch.stack([torch.zeros_like(others), others], dim=1)
        p = torch.distributions.Categorical(logits=outputs)
        q = torch.distributions.Categorical(logits=others)
        kl = torch.distributions.kl_divergence
        return (kl(p, q) + kl(q, p)).mean()

    clean = words(batch.input_ids)
    x = clean.detach()
    changed = (x + 0.01 * torch.randn(x.shape)).requires_grad_()
    outputs = outputs_of(clean)
    (gradient,) = torch.autograd.grad(distance(outputs_of(changed), outputs.detach()), changed)
    moved = changed.detach().clone()
    for row in range(len(x)):
        moved[row] += 0.03 * gradient[row] / gradient[row].abs().max()
    moved = torch.minimum(torch.maximum(moved, x - 0.02), x + 0.02)
    smoothness = distance(outputs_of(clean + (moved - x)), outputs)

    other = copy.deepcopy(job.model)
    other.load_state_dict(earlier, strict=False)
    proximity = distance(outputs, other(task, batch).detach())
    return job.model.tasks[task].loss(outputs, batch.labels) + 3 * smoothness + proximity


def strengthen_heads(job) -> None:
    """Make the weights of the untrained heads larger, so that small differences show."""
    with torch.no_grad():
        for name, parameter in job.model.named_parameters():
            if name.startswith("heads."):
                parameter *= 30


HEADS = [("cross", "features"), ("dual", "dpha"), ("bi", "mlp")]


@pytest.mark.parametrize(("encoding", "head"), HEADS)
def test_the_loss_of_smart_against_an_independent_implementation(options, tmp_path, encoding, head):
    """Loss and gradient, for each kind of task and of encoding."""
    changes = {"pair_encoding": encoding, "head": head, "hidden_dropout_prob": 0.0}
    small = options.with_values(**LARGER, smart_weight=3.0, train_rows="sst=3,para=3,sts=3")
    small = small.with_values(**changes, dev_rows="sst=1,para=1,sts=1")
    job = task_job(small, encoded(small, read_tables(small.data)), tmp_path)
    strengthen_heads(job)
    job.before_epoch(0)
    earlier = dict(job.reference.state_dict())
    with torch.no_grad():
        for parameter in job.model.parameters():
            parameter *= 1.05
    job.model.train()
    trained = [parameter for parameter in job.model.parameters() if parameter.requires_grad]
    for task in ("sst", "para", "sts"):
        batch = job.load(task, [0, 1, 2])
        results = []
        for compute in (job.loss, lambda *step: independent_smart(job, *step, earlier)):
            torch.manual_seed(3)
            loss = compute(task, batch)
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            present = [gradient.flatten() for gradient in gradients if gradient is not None]
            results.append((loss.detach(), torch.cat(present)))
        torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-2, atol=1e-3)
        with torch.no_grad():
            plain = job.model.tasks[task].loss(job.model(task, batch), batch.labels)
        assert float(results[0][0]) > float(plain) + 1e-3, "the negative control"


def test_all_passes_of_smart_have_the_same_dropout_masks(make_job):
    """At the first step the reference is the model: the distance is 0, and the loss is plain."""
    losses = {}
    states = {}
    settings = {
        "plain": {},
        "proximal": PROXIMAL,
        "smart": {"regulariser": "smart"},
    }
    for name, changes in settings.items():
        job = make_job(**changes)
        strengthen_heads(job)
        job.before_epoch(0)
        job.model.train()
        torch.manual_seed(3)
        losses[name] = job.loss("sst", job.load("sst", [0, 1, 2, 3])).detach()
        states[name] = torch.get_rng_state()
        assert all(parameter.grad is None for parameter in job.model.parameters())
    assert torch.equal(losses["proximal"], losses["plain"])
    assert torch.equal(states["proximal"], states["plain"]), "its passes draw nothing new"
    # A perturbation of 0.00001 changes little. Other dropout masks change more.
    torch.testing.assert_close(losses["smart"], losses["plain"], rtol=0, atol=1e-4)
    with torch.no_grad():
        batch = job.load("sst", [0, 1, 2, 3])
        other = job.model.tasks["sst"].loss(job.model("sst", batch), batch.labels)
    assert abs(float(other - losses["plain"])) > 1e-3, "the negative control"


def roughness(job) -> float:
    """How far a perturbation of the embeddings moves the outputs, without dropout."""
    job.model.eval()
    torch.manual_seed(0)
    batch = job.load("sst", list(range(16)))
    words = job.model.encoder.embeddings.word
    with torch.no_grad():
        outputs = job.model("sst", batch)
        shape = (*batch.input_ids.shape, words.embedding_dim)
        with perturbing(words, 0.02 * torch.randn(shape).sign()):
            return float(symmetric_divergence(job.model("sst", batch), outputs, "classes"))


def test_a_run_with_smart_is_smoother(make_job):
    found = {}
    for weight in (1e-9, 300.0):
        job = make_job(**ADVERSARIAL, **SHORT, smart_weight=weight, max_grad_norm=0.0)
        fit(job)
        found[weight] = roughness(job)
    assert found[300.0] < found[1e-9]


@pytest.mark.parametrize("changes", [{"proximal_decay": 0.5}, {"proximal": "vanilla"}])
def test_a_resumed_run_with_smart_ends_in_the_same_bits(make_job, changes):
    values = {**LARGER, **SHORT, **changes, "save_every": 1}
    if "proximal_decay" not in changes:
        values["proximal_every"] = 3
    whole = make_job(**values)
    fit(whole)

    job = make_job(**values)
    job.folder = job.folder / "stopped"
    after_two_steps(job)  # of which one is saved
    again = make_job(**values)
    again.folder = job.folder
    fit(again, resume=True)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor), name
    for name, tensor in whole.reference.state_dict().items():
        assert torch.equal(again.reference.state_dict()[name], tensor), name


def test_a_checkpoint_without_the_reference_would_end_in_other_bits(make_job):
    """The negative control of the test above: the reference begins anew."""
    found = []
    for begins_anew in (False, True):
        job = make_job(**PROXIMAL, **SHORT, proximal_decay=0.5, epochs=1, save_every=1)
        job.folder = job.folder / str(begins_anew)
        after_two_steps(job)
        if begins_anew:
            job.reference.load_state_dict = lambda _, job=job: job.reference.begin()
        fit(job, resume=True)
        found.append(job.model.state_dict())
    assert differ(*found)


def test_a_trial_step_leaves_no_trace_in_the_reference(make_job):
    job = make_job(**LARGER, **SHORT)
    cost = cost_estimate.probe(job, num_timed=1)
    assert not job.reference.state_dict()
    assert cost.disk == 10 * cost_estimate.bytes_of_model(job), "two more than without a reference"


def test_the_heads_alone_have_a_reference_of_their_own(options, make_job):
    """--heads_first: the encoder is frozen, so it is no part of the reference."""
    values = options.with_values(**PROXIMAL, heads_first=1)
    job = make_job(**PROXIMAL, heads_first=1)
    heads = heads_job(job, values.multitask, values.training)
    with heads.freezing():
        heads.before_epoch(0)
        names = list(heads.reference.state_dict())
        assert names and not [name for name in names if name.startswith("encoder.")]
    job.before_epoch(0)
    assert "encoder.embeddings.word.weight" in job.reference.state_dict()


def test_smart_with_gradient_surgery_and_a_frozen_encoder(make_job):
    for changes in ({"surgery": "pcgrad"}, {"option": "pretrain", "pair_encoding": "cross"}):
        with_smart = after_two_steps(make_job(**LARGER, **changes))
        assert differ(with_smart, after_two_steps(make_job(**changes))), changes


def test_smart_in_bf16_is_refused_where_it_would_be_rounded_away(make_job):
    words = "--smart_epsilon 1e-05 has no effect with --precision bf16, which rounds it away"
    with pytest.raises(ValueError, match=words):
        make_job(regulariser="smart", precision="bf16")
    make_job(**LARGER, precision="bf16")
    make_job(**PROXIMAL, precision="bf16")


@pytest.mark.parametrize(
    ("values", "expected"),
    [({"regulariser": "smart"}, "fp32"), (PROXIMAL, "bf16"), ({"regulariser": "r-drop"}, "bf16")],
)
def test_smart_is_computed_in_float32_by_itself(values, expected):
    fastest = Choice("bf16", "the machine")
    assert choose_precision(Options.of(**values), fastest).value == expected
    assert choose_precision(Options.of(**values, precision="bf16"), fastest) == fastest
