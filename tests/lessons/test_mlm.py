"""minbert/pretraining/mlm.py: the loss and the head, equal to transformers' BertForMaskedLM.

Which tokens are hidden is tested in tests/lessons/test_masking.py.

B batch, T tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert import AdamW, BertConfig, BertModel
from minbert.pretraining.mlm import (
    IGNORED,
    BertForMaskedLM,
    MaskedRows,
    mask_tokens,
    num_chosen,
    summed_cross_entropy,
)
from minbert.weights import to_hugging_face
from tests.lessons.test_masking import MASK, make_batch

TINY = BertConfig(
    vocab_size=60,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_model() -> BertForMaskedLM:
    torch.manual_seed(0)
    model = BertForMaskedLM(BertModel(TINY))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def label_everything(input_ids: Tensor, is_special: Tensor) -> Tensor:
    """Labels that choose every token but the special ones."""
    return input_ids.masked_fill(is_special, IGNORED)


# --- the loss -------------------------------------------------------------------------------------


def test_uniform_logits_by_hand():
    """With all weights 0 each of 60 tokens is equally likely: ln 60, whatever the labels."""
    model = make_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    input_ids, is_special = make_batch()
    labels = label_everything(input_ids, is_special)
    assert model.loss(input_ids, labels).item() == pytest.approx(math.log(60), rel=1e-6)


def test_slow_loop():
    """Mean over the chosen tokens of -log softmax, one at a time. Other tokens do not count."""
    model = make_model()
    input_ids, _ = make_batch()
    labels = torch.full_like(input_ids, IGNORED)
    chosen = {(0, 3): 9, (0, 4): 33, (2, 7): 5}
    logits = model(model.bert(input_ids).last_hidden_state)  # (B, T, V)
    losses = []
    for (row, column), label in chosen.items():
        labels[row, column] = label
        scores = logits[row, column].tolist()
        losses.append(math.log(sum(map(math.exp, scores))) - scores[label])
    # float32: measured 1e-7.
    assert model.loss(input_ids, labels).item() == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_logits_of_half_precision_are_summed_in_float32():
    torch.manual_seed(0)
    logits = (torch.randn(200, 1000) * 3).bfloat16().requires_grad_()
    targets = torch.randint(1000, (200,))
    found = summed_cross_entropy(logits, targets)
    expected = torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum")
    assert found.dtype == torch.float32, "bfloat16 has 8 bits: convert the logits before the sum"
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def test_the_loss_of_a_batch_is_a_mean_over_its_masked_tokens():
    """Two batches, weighted by their masked tokens, have the loss of both together."""
    model = make_model()
    input_ids, is_special = make_batch()
    labels = label_everything(input_ids, is_special)
    labels[0, 2:] = IGNORED
    segments = torch.zeros_like(input_ids)
    parts = []
    for rows in (slice(0, 1), slice(1, None)):
        part = (input_ids[rows], labels[rows], segments[rows], None)
        parts.append(MaskedRows(*part, ids=("a",)))
    sizes = [num_chosen("mlm", part) for part in parts]
    assert sizes == [1, (labels[1:] != IGNORED).sum().item()], (
        "a masked token is one whose label is not IGNORED"
    )
    weighted = sum(n * model.loss_of(part) for n, part in zip(sizes, parts, strict=True))
    torch.testing.assert_close(weighted / sum(sizes), model.loss(input_ids, labels))


def test_equals_transformers_in_loss_logits_and_gradients(tmp_path):
    """Through the saved folder, so that every name of the head is checked as well."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    model = make_model()
    input_ids, is_special = make_batch()
    model.save_pretrained(tmp_path)
    theirs, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"], report

    corrupted, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.5)
    attention_mask = torch.ones_like(corrupted)
    attention_mask[0, -3:] = 0
    labels[0, -3:] = IGNORED
    token_type_ids = torch.zeros_like(corrupted)
    token_type_ids[1:, 5:] = 1
    expected = theirs.eval()(corrupted, attention_mask, token_type_ids, labels=labels)
    logits = model(model.bert(corrupted, attention_mask, token_type_ids).last_hidden_state)
    # float32, 2 layers: measured 2e-6.
    torch.testing.assert_close(logits, expected.logits, atol=1e-5, rtol=0)
    loss = model.loss(corrupted, labels, token_type_ids, attention_mask)
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)

    loss.backward()
    expected.loss.backward()
    others = dict(theirs.named_parameters())
    ours = model.head_tensors()
    for name, parameter in model.bert.named_parameters():
        if "pooler" not in name:
            ours[f"bert.{to_hugging_face(name)}"] = parameter
    # The word embeddings are the input and the output matrix.
    assert ours.keys() == others.keys()
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter.grad, others[name].grad, atol=1e-6, rtol=1e-3)


# --- the model ------------------------------------------------------------------------------------


def test_saved_folder_opens_as_an_encoder(tmp_path):
    model = make_model()
    input_ids, _ = make_batch()
    model.save_pretrained(tmp_path, dtype=torch.float16)
    encoder = BertModel.from_pretrained(tmp_path).eval()
    assert encoder.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias"), (
        "this objective has no pooler"
    )
    found = encoder(input_ids).last_hidden_state
    expected = model.bert(input_ids).last_hidden_state
    # float16 weights: 2^-11 relative, measured 2e-3.
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_a_head_with_the_names_of_the_first_bert(tmp_path):
    """gamma and beta, as in the files of bert-base-uncased."""
    model = make_model()
    model.norm.weight.data.normal_()
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    for new, old in (("weight", "gamma"), ("bias", "beta")):
        name = "cls.predictions.transform.LayerNorm."
        stored[name + old] = stored.pop(name + new)
    save_file(stored, tmp_path / "model.safetensors")
    (tmp_path / "SHA256SUMS").unlink()
    assert torch.equal(BertForMaskedLM.from_pretrained(tmp_path).norm.weight, model.norm.weight)


def test_every_parameter_but_the_pooler_gets_a_gradient():
    model = make_model()
    input_ids, is_special = make_batch()
    model.loss(input_ids, label_everything(input_ids, is_special)).backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {"bert.pooler.weight", "bert.pooler.bias"}


def test_a_hundred_steps_learn_a_text_by_heart():
    """From ln 60 = 4.1 to almost 0 on three sentences. A loss that ignores labels would not fall.

    All tokens are hidden, so place and row have to tell. The first word names the sentence.
    """
    model = make_model().train()
    input_ids, is_special = make_batch()
    labels = label_everything(input_ids, is_special)
    corrupted = torch.where(labels != IGNORED, MASK, input_ids)
    corrupted[:, 1] = input_ids[:, 1]
    labels[:, 1] = IGNORED
    optimizer = AdamW(model.parameters(), lr=5e-3)
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.loss(corrupted, labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_the_score_of_held_out_text_by_hand():
    """With logits of 0 each of the 60 tokens has the probability 1 / 60."""
    model = make_model()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    batch, _ = make_batch()
    labels = torch.full_like(batch, IGNORED)
    labels[:, 1] = batch[:, 1]
    score = model.score([(batch,)], lambda input_ids: (input_ids, labels), "fp32")
    assert score["held_out_loss"] == pytest.approx(math.log(model.bert.config.vocab_size))
    # Of equal logits, argmax takes token 0, which is padding.
    assert score["masked_accuracy"] == 0


def test_negative_control_another_matrix_is_noticed():
    """The output matrix is the word embedding: scaling it must move the logits of the head."""
    model = make_model()
    input_ids, _ = make_batch()
    hidden_states = model.bert(input_ids).last_hidden_state.detach()
    before = model(hidden_states).detach()
    with torch.no_grad():
        model.bert.embeddings.word.weight.mul_(2)
    assert not torch.allclose(model(hidden_states), before)
