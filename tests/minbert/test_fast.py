"""minbert/fast.py: each fast branch gives the values and gradients of the readable one.

B batch, T tokens, H hidden, N heads, D head size, P positions.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import chisquare
from torch import Tensor, nn

from contrastive.methods import MethodSetup, SimCSE
from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.examples import Example
from minbert import AdamW, BertModel, BertTokenizer, fast
from minbert.attention import attention, mask_to_bias
from minbert.dropout import dropout
from minbert.pooling import POOLINGS, pool
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM
from tests.lessons import test_attention as attention_lesson
from tests.lessons import test_optimizer as optimizer_lesson
from tests.lessons.test_layers import make_batch, make_model
from tests.toy_multitask import make_bert

FLOAT32 = optimizer_lesson.FLOAT32


def gradients_of(loss: Tensor, module: nn.Module) -> dict[str, Tensor]:
    """The gradients of all parameters that have one, by name; none is left behind."""
    loss.backward()
    gradients = {}
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            gradients[name] = parameter.grad
    module.zero_grad(set_to_none=True)
    return gradients


def assert_same_gradients(
    found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10
) -> None:
    """The default tolerance is that of float64."""
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        difference = (found[name] - gradient).abs().max().item()
        assert difference <= tolerance, f"the gradient of {name} is off by {difference:.1e}"


# --- the switch -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def fast_branches() -> Iterator[None]:
    """The tests of this file begin with the fast branches, also after an edit of a lesson file."""
    with fast.switched(is_fast=True):
        yield


def test_a_block_puts_back_what_it_came_upon():
    with fast.switched(is_fast=False):
        assert not fast.is_on()
        with fast.switched(is_fast=True):
            assert fast.is_on()
        assert not fast.is_on()
    assert fast.is_on()
    with pytest.raises(ZeroDivisionError), fast.switched(is_fast=False):
        1 / 0  # noqa: B018
    assert fast.is_on(), "an error puts it back, too"


def copy_lessons(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fast.py compare copies of the lesson files, which a test may edit."""
    for name in json.loads(fast.RELEASED.read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((fast.ROOT / name).read_bytes())
    monkeypatch.setattr(fast, "ROOT", folder)


def test_the_released_lessons_are_these_files():
    """After an edit on purpose, run `python -m tools.benchmarks.lesson_digests`."""
    assert fast.edited_lessons() == []


def test_an_edited_lesson_is_computed_as_it_reads(tmp_path, monkeypatch):
    copy_lessons(tmp_path, monkeypatch)
    assert fast.choose("auto") == ("fast", "no lesson file was edited")
    assert fast.is_on()

    # The line ends of Windows are no edit.
    file = tmp_path / "minbert/dropout.py"
    plain = file.read_bytes()
    file.write_bytes(plain.replace(b"\n", b"\r\n"))
    assert fast.choose("auto").formulas == "fast"

    # A hand-out may lack a lesson file.
    (tmp_path / "contrastive/losses.py").unlink()
    assert fast.choose("auto").formulas == "fast"

    file.write_bytes(plain.replace(b"1 - probability", b"probability"))
    assert fast.edited_lessons() == ["minbert/dropout.py"]
    choice = fast.choose("auto")
    assert choice.formulas == "readable" and not fast.is_on()
    assert "minbert/dropout.py" in choice.reason


def test_the_choice_by_hand():
    assert fast.choose("readable") == ("readable", "as you asked") and not fast.is_on()
    assert fast.choose("fast").formulas == "fast" and fast.is_on()
    with pytest.raises(ValueError, match="auto, readable or fast is expected"):
        fast.choose("quick")


def train_a_few_steps(fused: bool) -> dict[str, Tensor]:
    """Five steps of a small model without dropout; its parameters afterwards."""
    model = make_model().train()
    batch = make_batch()
    optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=fused)
    for _ in range(5):
        optimizer.zero_grad()
        output = model(**batch)
        (output.last_hidden_state.pow(3).sum() + output.pooler_output.sum()).backward()
        optimizer.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def test_training_with_both_kinds_of_branches_ends_alike(monkeypatch):
    taken = []
    original = fast.adamw_update

    def record(*arguments) -> None:
        taken.append("fused")
        original(*arguments)

    monkeypatch.setattr(fast, "adamw_update", record)
    with_fast = train_a_few_steps(fused=True)
    assert len(taken) == 5
    with fast.switched(is_fast=False):
        with_readable = train_a_few_steps(fused=True)
    assert len(taken) == 5, "the switch turns the fused optimizer off, too"
    for name, parameter in with_fast.items():
        # Rounding differs. Adam makes a whole step of noise where the gradient is 0 (key.bias).
        tolerance = 0.02 if name.endswith("key.bias") else 1e-4
        torch.testing.assert_close(parameter, with_readable[name], rtol=0, atol=tolerance)


# --- dropout --------------------------------------------------------------------------------------

# What holds for both branches is in test_dropout.py. Here is what only the cheap mask does.
N = 400_000


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.001, 0.9])
def test_the_share_and_the_scale_are_those_of_the_rounded_probability(probability):
    torch.manual_seed(0)
    found = dropout(torch.full((N // 8, 8), 3.0), probability, training=True)
    rounded = round(probability * fast.LEVELS) / fast.LEVELS
    num_dropped = int((found == 0).sum())
    standard_deviation = math.sqrt(N * rounded * (1 - rounded))
    assert abs(num_dropped - rounded * N) < 5 * standard_deviation
    assert found.unique().tolist() == pytest.approx([0.0, 3.0 / (1 - rounded)])
    assert abs(rounded - probability) <= 0.5 / fast.LEVELS


def test_a_probability_that_rounds_to_one_keeps_one_level_of_all():
    torch.manual_seed(0)
    found = dropout(torch.ones(N), 1 - 1e-9, training=True)
    # About six of the units stay.
    assert set(found.unique().tolist()) == {0.0, fast.LEVELS}


def test_neighbours_fall_independently():
    """Four decisions come from one draw. All 16 outcomes of four neighbours are equally likely."""
    torch.manual_seed(1)
    is_kept = dropout(torch.ones(N // 4, 4), 0.5, training=True) != 0
    outcomes = (is_kept * torch.tensor([8, 4, 2, 1])).sum(1).bincount(minlength=16)
    assert chisquare(outcomes.numpy()).pvalue > 1e-4


# --- attention ------------------------------------------------------------------------------------


fused_attention = functools.partial(attention, is_fused=True)


@pytest.mark.parametrize("check", attention_lesson.CHECKS, ids=lambda check: check.__name__)
def test_fused_attention_passes_the_checks_of_the_lesson(check):
    check(fused_attention)


def attention_gradients(attend, bias: Tensor | None) -> list[Tensor]:
    inputs = [tensor.clone().requires_grad_() for tensor in attention_lesson.draw(3, 2, 3, 6, 4)]
    factors = attention_lesson.draw(2, 3, 6, 4, seed=1)
    (attend(*inputs, bias, 0.0, True) * factors).sum().backward()
    return [tensor.grad for tensor in inputs]


@pytest.mark.parametrize("is_masked", [False, True])
def test_attention_written_out_equals_fused_in_values_and_gradients(is_masked):
    mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
    bias = mask_to_bias(mask, torch.float64) if is_masked else None
    query, key, value = attention_lesson.draw(3, 2, 3, 6, 4)
    torch.testing.assert_close(
        fused_attention(query, key, value, bias, 0.0, True),
        attention(query, key, value, bias, 0.0, True),
        rtol=0,
        atol=1e-12,
    )
    fused = attention_gradients(fused_attention, bias)
    for found, expected in zip(fused, attention_gradients(attention, bias), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_mask_bias_of_another_dtype_stays_finite():
    """Under autocast the bias is float32, whose most negative number is -inf in bfloat16."""
    query, key, value = attention_lesson.draw(3, 2, 3, 6, 4).bfloat16()
    bias = mask_to_bias(torch.zeros(2, 6), torch.float32)
    assert torch.isfinite(fused_attention(query, key, value, bias, 0.0, False)).all()


@pytest.mark.parametrize(
    ("num_tokens", "dtype", "num_calls"),
    [
        (fast.SHORT_ROW, torch.bfloat16, 1),
        (fast.SHORT_ROW + 1, torch.bfloat16, 2),
        (fast.SHORT_ROW, torch.float32, 2),
    ],
)
def test_a_layer_makes_bf16_vectors_of_short_rows_without_the_kernel(
    monkeypatch, num_tokens: int, dtype: torch.dtype, num_calls: int
):
    """With gradients the kernel computes them, as a training with --attention fused asks."""
    calls = []
    kernel = F.scaled_dot_product_attention

    def record(*arguments, **keywords) -> Tensor:
        calls.append(num_tokens)
        return kernel(*arguments, **keywords)

    monkeypatch.setattr(F, "scaled_dot_product_attention", record)
    layer = make_model(attention_implementation="fused").to(dtype).layers[0].attention
    hidden_states = attention_lesson.draw(2, num_tokens, 24).to(dtype)
    with_gradients = layer(hidden_states)
    assert len(calls) == 1
    with torch.no_grad():
        without_gradients = layer(hidden_states)
    assert len(calls) == num_calls
    # Numbers of about 0.1, with 8 bits.
    torch.testing.assert_close(without_gradients, with_gradients, rtol=0, atol=2e-3)


# --- the optimizer --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lr", "weight_decay", "eps"),
    [(1e-3, 0.01, 1e-6), (0.05, 0.5, 1e-2), (5e-5, 0.01, 1e-8), (0.0, 0.3, 1e-6)],
)
def test_the_fused_kernel_equals_the_readable_update(lr, weight_decay, eps):
    """200 steps with changing learning rates.

    A head that every third step does not touch counts its own steps.
    """
    torch.manual_seed(0)
    ours = nn.ModuleDict({"body": nn.Linear(8, 300), "head": nn.Linear(300, 4)})
    theirs = copy.deepcopy(ours)
    settings = {"lr": lr, "weight_decay": weight_decay, "eps": eps}
    readable = AdamW(ours.parameters(), **settings)
    fused = AdamW(theirs.parameters(), fused=True, **settings)
    for t in range(200):
        for name, p in ours.named_parameters():
            gradient = torch.randn(p.shape) * 10.0 ** (t % 4 - 2)
            is_skipped = name.startswith("head") and t % 3 == 0
            p.grad = None if is_skipped else gradient
            theirs.get_parameter(name).grad = None if is_skipped else gradient.clone()
        for optimizer in (readable, fused):
            optimizer.param_groups[0]["lr"] = lr * (1 - t / 200)
            optimizer.step()

    # d = lr weight_decay is rounded to 6e-8 / 2. For weights up to 0.4 that is 2e-6 in 200 steps.
    rounding = 2e-6 if 0 < lr * weight_decay < 1e-6 else 0.0
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (p - q).abs().max() <= FLOAT32 + rounding, name
        num_steps = 133 if name.startswith("head") else 200
        assert readable.state[p]["step"] == fused.state[q]["step"] == num_steps
        torch.testing.assert_close(
            readable.state[p]["second_moment"], fused.state[q]["second_moment"]
        )


def test_the_fused_kernel_gets_what_its_own_formula_needs():
    """The negative control: torch's AdamW as it is, with the same numbers, goes elsewhere."""
    ours = nn.Parameter(torch.ones(4))
    theirs = nn.Parameter(torch.ones(4))
    settings = {"lr": 0.1, "eps": 1e-2, "weight_decay": 0.5, "fused": True}
    optimizers = [AdamW([ours], **settings), torch.optim.AdamW([theirs], **settings)]
    for _ in range(5):
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = torch.full((4,), 0.01)
            optimizer.step()
    assert (ours - theirs).abs().max() > 1e-2


# Without bias correction, fused=True takes the readable update. So that check shows nothing here.
FUSED_CHECKS = (
    optimizer_lesson.check_first_step,
    optimizer_lesson.check_eps,
    optimizer_lesson.check_decay,
    optimizer_lesson.check_decay_follows_the_schedule,
)


@pytest.mark.parametrize("check", FUSED_CHECKS, ids=lambda check: check.__name__)
def test_the_fused_update_passes_the_checks_of_the_lesson(check):
    check(functools.partial(AdamW, fused=True))


# --- the last layer at positions ------------------------------------------------------------------

# Of 3 rows of 9 tokens: (0, 0), (1, 4), (0, 4), (1, 0), (2, 0).
POSITIONS = torch.tensor([0, 13, 4, 9, 18])


def record_num_tokens(model: BertModel) -> list[int]:
    """The number of tokens that each feed-forward network is given, filled at every pass."""
    num_tokens: list[int] = []

    def record(_module, inputs, _output) -> None:
        num_tokens.append(inputs[0].shape[:-1].numel())

    for layer in model.layers:
        layer.feed_forward.register_forward_hook(record)
    return num_tokens


@pytest.mark.parametrize("implementation", ["eager", "fused"])
def test_as_the_whole_layer_in_values_and_gradients(implementation):
    model = make_model(attention_implementation=implementation).double()
    batch = make_batch()
    num_tokens = record_num_tokens(model)
    whole = model(**batch)
    assert num_tokens == [27, 27, 27], "without positions every layer works on all tokens"
    chosen = whole.last_hidden_state.flatten(0, 1)[POSITIONS]  # (P, H)
    pooled = torch.tanh(model.pooler(chosen))  # (P, H)
    expected = gradients_of(chosen.pow(3).sum() + pooled.sum(), model)

    num_tokens.clear()
    output = model(**batch, output_hidden_states=True, positions=POSITIONS)
    assert num_tokens == [27, 27, 5], (
        "the last feed-forward network works on the five positions, the others on all 27 tokens"
    )
    assert output.last_hidden_state.shape == (5, 1, 24)
    assert output.pooler_output.shape == (5, 24)
    assert output.hidden_states[-1] is output.last_hidden_state
    assert output.hidden_states[-2].shape == (3, 9, 24)
    torch.testing.assert_close(output.last_hidden_state.squeeze(1), chosen, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.pooler_output, pooled, rtol=0, atol=1e-12)
    loss = output.last_hidden_state.pow(3).sum() + output.pooler_output.sum()
    assert_same_gradients(gradients_of(loss, model), expected)


def test_a_layer_at_positions_is_that_layer_with_dropout():
    """Dropout is drawn for fewer units, so the draws differ. All of it dropped is comparable."""
    layer = make_model(hidden_dropout_prob=1 - 1e-9).layers[0].train()
    hidden_states = torch.randn(3, 9, 24)
    torch.manual_seed(0)
    found = layer(hidden_states, None, positions=POSITIONS)
    expected = layer.feed_forward_norm(layer.attention_norm(hidden_states)).flatten(0, 1)
    torch.testing.assert_close(found.squeeze(1), expected[POSITIONS])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_way_to_a_sentence_vector_gives_the_whole_layers(tiny_model, pooling):
    """Multitask outputs, contrastive vectors and embeddings, against the whole last layer."""
    encoder = BertModel.from_pretrained(tiny_model)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    examples = [Example(text, text, None, 0.0) for text in ("a b c d", "b", "c a b")]
    rows = EncodedExamples(examples, tokenizer, 16)
    batch = rows.batch([0, 1, 2])
    inputs = (batch.input_ids, batch.attention_mask)
    with torch.no_grad():
        expected = pool(encoder(*inputs), batch.attention_mask, pooling)  # (3, H)
        num_tokens = record_num_tokens(encoder)
        contrastive = SimCSE(MethodSetup(encoder, pooling, 0.05)).eval().vectors(encoder, *inputs)
        model = make_bert(encoder, pooling, dropout=0.0, common_layer="none").eval()
        logits = model("sst", batch)
    num_all = batch.input_ids.numel()
    num_read = num_all if pooling == "mean" else 3
    of_a_pass = [num_all] * (len(encoder.layers) - 1) + [num_read]
    assert num_tokens == 2 * of_a_pass
    # float32
    torch.testing.assert_close(contrastive, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(logits, model.heads["sst"](expected), rtol=0, atol=1e-5)
    torch.testing.assert_close(embed(encoder, rows, pooling, "fp32"), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_chosen", [0, 1, 7])
def test_masked_language_modelling_reads_masked_tokens_only(num_chosen):
    model = BertForMaskedLM(make_model()).double()
    batch = make_batch()
    labels = torch.full((27,), IGNORED)
    chosen = torch.randperm(27, generator=torch.Generator().manual_seed(0))[:num_chosen]
    labels[chosen] = torch.randint(60, (num_chosen,), generator=torch.Generator().manual_seed(1))
    labels = labels.view(3, 9)

    # The reference applies the head to every token.
    reference = copy.deepcopy(model)
    logits = reference(reference.bert(**batch).last_hidden_state)  # (B, T, V)
    summed = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    expected_loss = summed / max(1, num_chosen)
    expected = gradients_of(expected_loss, reference)

    num_tokens = record_num_tokens(model.bert)
    loss = model.loss(batch["input_ids"], labels, batch["token_type_ids"], batch["attention_mask"])
    assert num_tokens == [27, 27, num_chosen]
    torch.testing.assert_close(loss, expected_loss, rtol=0, atol=1e-10)
    assert_same_gradients(gradients_of(loss, model), expected)
