"""Masked-language modelling: which tokens are hidden, and a loss equal to transformers' BertForMaskedLM.

B batch, T tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

import math

import pytest
import torch

from minbert import BertConfig, BertModel
from minbert.mlm import IGNORED, BertForMaskedLM, mask_tokens

TINY = BertConfig(vocab_size=60, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
                  max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
MASK = 4


def make_model() -> BertForMaskedLM:
    torch.manual_seed(0)
    model = BertForMaskedLM(BertModel(TINY))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def make_batch(num_rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Full blocks (B, T = 12), [CLS] 2 first and [SEP] 3 last, and the mask of these."""
    torch.manual_seed(1)
    input_ids = torch.randint(5, 60, (num_rows, 12))
    input_ids[:, 0], input_ids[:, -1] = 2, 3
    return input_ids, (input_ids == 2) | (input_ids == 3)


# --- masking ---------------------------------------------------------------------------------------------------------


def test_everything_or_nothing_by_hand():
    input_ids, is_special = make_batch()
    same, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.0)
    assert torch.equal(same, input_ids) and (labels == IGNORED).all()
    _, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=1.0)
    assert torch.equal(labels == IGNORED, is_special), "special tokens are never chosen, all others are"
    assert torch.equal(labels[~is_special], input_ids[~is_special]), "the label is the token that stood there"


def test_shares():
    """15 % are chosen; of these 80 % become [MASK], 10 % a random token, 10 % stay. 100,000 tokens."""
    torch.manual_seed(0)
    input_ids = torch.full((100, 1000), 7)
    corrupted, labels = mask_tokens(input_ids, torch.zeros_like(input_ids, dtype=torch.bool), 1000, MASK)
    chosen = labels != IGNORED
    masked, kept = (corrupted == MASK) & chosen, (corrupted == 7) & chosen
    other = chosen & ~masked & ~kept
    num_chosen = chosen.sum().item()
    # Four standard deviations: sqrt(n p (1 - p)) for n = 100,000 tokens, then for n = 15,000 chosen ones.
    assert num_chosen == pytest.approx(15_000, abs=4 * math.sqrt(100_000 * 0.15 * 0.85))
    for share, found in ((0.8, masked), (0.1, kept), (0.1, other)):
        allowed = 4 * math.sqrt(num_chosen * share * (1 - share)) + num_chosen * 0.0002  # a random token may be 4 or 7
        assert found.sum().item() == pytest.approx(share * num_chosen, abs=allowed)
    assert torch.equal(corrupted[~chosen], input_ids[~chosen]), "what is not chosen is left alone"
    assert corrupted[other].unique().numel() > 500, "random tokens come from the whole vocabulary"
    assert input_ids.eq(7).all(), "the input itself is not written to"


def test_masks_follow_the_seed_and_differ_between_calls():
    input_ids, is_special = make_batch()
    torch.manual_seed(3)
    first, second = (mask_tokens(input_ids, is_special, 60, MASK)[1] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(mask_tokens(input_ids, is_special, 60, MASK)[1], first)
    assert not torch.equal(first, second), "each pass over the text is masked anew"


# --- the loss --------------------------------------------------------------------------------------------------------


def test_uniform_logits_by_hand():
    """With all weights 0 each of 60 tokens is equally likely: the loss is ln 60, whatever the labels."""
    model = make_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    input_ids, is_special = make_batch()
    labels = input_ids.masked_fill(is_special, IGNORED)
    assert model.loss(input_ids, labels).item() == pytest.approx(math.log(60), rel=1e-6)


def test_slow_loop():
    """Mean over the chosen tokens of -log softmax, one token at a time; tokens that were not chosen do not count."""
    model, (input_ids, _) = make_model(), make_batch()
    labels = torch.full_like(input_ids, IGNORED)
    labels[0, 3], labels[0, 4], labels[2, 7] = 9, 33, 5
    logits = model(model.bert(input_ids).last_hidden_state)  # (B, T, V)
    losses = []
    for row, column in ((0, 3), (0, 4), (2, 7)):
        scores = logits[row, column].tolist()
        losses.append(math.log(sum(map(math.exp, scores))) - scores[labels[row, column]])
    assert model.loss(input_ids, labels).item() == pytest.approx(sum(losses) / 3, rel=1e-5)  # fp32: measured 1e-7


def test_equals_transformers_in_loss_logits_and_gradients(tmp_path):
    """Through the saved folder, so that every name of the head is checked as well."""
    transformers = pytest.importorskip("transformers", reason="transformers is the reference; run setup.sh --dev")
    model, (input_ids, is_special) = make_model(), make_batch()
    model.save_pretrained(tmp_path)
    theirs, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    corrupted, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.5)
    expected = theirs.eval()(corrupted, labels=labels)
    logits = model(model.bert(corrupted).last_hidden_state)
    torch.testing.assert_close(logits, expected.logits, atol=1e-5, rtol=0)  # fp32, 2 layers: measured 2e-6
    loss = model.loss(corrupted, labels)
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    loss.backward()
    expected.loss.backward()
    gradient = theirs.bert.embeddings.word_embeddings.weight.grad  # it is the input and the output matrix
    torch.testing.assert_close(model.bert.embeddings.word.weight.grad, gradient, atol=1e-6, rtol=1e-4)


def test_saved_folder_opens_as_an_encoder(tmp_path):
    model, (input_ids, _) = make_model(), make_batch()
    model.save_pretrained(tmp_path, dtype=torch.float16)
    encoder = BertModel.from_pretrained(tmp_path).eval()
    assert encoder.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias"), "this objective has no pooler"
    found, expected = encoder(input_ids).last_hidden_state, model.bert(input_ids).last_hidden_state
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)  # fp16 weights: 2^-11 relative, measured 2e-3


def test_every_parameter_but_the_pooler_gets_a_gradient():
    model, (input_ids, is_special) = make_model(), make_batch()
    model.loss(input_ids, input_ids.masked_fill(is_special, IGNORED)).backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {"bert.pooler.weight", "bert.pooler.bias"}


def test_a_hundred_steps_learn_a_text_by_heart():
    """From ln 60 = 4.1 to almost 0 on three sentences; a loss that ignores the labels would not fall."""
    from minbert import AdamW
    model, (input_ids, is_special) = make_model().train(), make_batch()
    labels = input_ids.masked_fill(is_special, IGNORED)
    corrupted = torch.where(labels != IGNORED, MASK, input_ids)  # all hidden: only place and row would tell
    corrupted[:, 1], labels[:, 1] = input_ids[:, 1], IGNORED  # the first word names the sentence
    optimizer = AdamW(model.parameters(), lr=5e-3)
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.loss(corrupted, labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_negative_control_another_matrix_is_noticed(tmp_path):
    """The output matrix is the word embedding: scaling it must move the logits of the head."""
    model, (input_ids, _) = make_model(), make_batch()
    hidden_states = model.bert(input_ids).last_hidden_state.detach()
    before = model(hidden_states).detach()
    with torch.no_grad():
        model.bert.embeddings.word.weight.mul_(2)
    assert not torch.allclose(model(hidden_states), before)
