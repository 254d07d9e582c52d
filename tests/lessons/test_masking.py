"""Masked-language modelling: which tokens are hidden, and a loss equal to transformers' BertForMaskedLM.

B batch, T tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare

from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM, CrossEntropy, Masking, mask_tokens
from minbert.weights import to_hugging_face

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


# --- masking --------------------------------------------------------------------------------------


def test_everything_or_nothing_by_hand():
    input_ids, is_special = make_batch()
    same, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.0)
    assert torch.equal(same, input_ids) and (labels == IGNORED).all()
    _, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=1.0)
    assert torch.equal(labels == IGNORED, is_special), (
        "special tokens are never chosen, all others are"
    )
    assert torch.equal(labels[~is_special], input_ids[~is_special]), (
        "the label is the token that stood there"
    )


def test_shares():
    """15 % are chosen; of these 80 % become [MASK], 10 % a random token, 10 % stay. 100,000 tokens."""
    torch.manual_seed(0)
    input_ids = torch.full((100, 1000), 7)
    corrupted, labels = mask_tokens(
        input_ids, torch.zeros_like(input_ids, dtype=torch.bool), 1000, MASK
    )
    chosen = labels != IGNORED
    masked, kept = (corrupted == MASK) & chosen, (corrupted == 7) & chosen
    other = chosen & ~masked & ~kept
    num_chosen = chosen.sum().item()
    # Four standard deviations: sqrt(n p (1 - p)) for n = 100,000 tokens, then for n = 15,000 chosen ones.
    assert num_chosen == pytest.approx(15_000, abs=4 * math.sqrt(100_000 * 0.15 * 0.85))
    for share, found in ((0.8, masked), (0.1, kept), (0.1, other)):
        allowed = (
            4 * math.sqrt(num_chosen * share * (1 - share)) + num_chosen * 0.0002
        )  # a random token may be 4 or 7
        assert found.sum().item() == pytest.approx(share * num_chosen, abs=allowed)
    assert torch.equal(corrupted[~chosen], input_ids[~chosen]), "what is not chosen is left alone"
    assert corrupted[other].unique().numel() > 500, "random tokens come from the whole vocabulary"
    assert input_ids.eq(7).all(), "the input itself is not written to"


@pytest.mark.parametrize("seed", range(3))
def test_the_three_fates_follow_their_law(seed):
    """Chi-square of all four outcomes of 200,000 tokens together; 1e-4 is passed by 9,999 of 10,000 right codes."""
    torch.manual_seed(seed)
    input_ids = torch.full((200, 1000), 7)
    corrupted, labels = mask_tokens(
        input_ids, torch.zeros_like(input_ids, dtype=torch.bool), 50_000, MASK
    )
    chosen = labels != IGNORED
    found = [
        int(part.sum())
        for part in (~chosen, chosen & (corrupted == MASK), chosen & (corrupted == 7))
    ]
    found.append(input_ids.numel() - sum(found))
    expected = [200_000 * share for share in (0.85, 0.15 * 0.8, 0.15 * 0.1, 0.15 * 0.1)]
    assert chisquare(found, expected).pvalue > 1e-4, found


def test_each_place_and_random_token_is_as_likely_as_another():
    torch.manual_seed(1)
    input_ids = torch.full((4000, 40), 7)
    corrupted, labels = mask_tokens(
        input_ids, torch.zeros_like(input_ids, dtype=torch.bool), 20, MASK
    )
    chosen = labels != IGNORED
    assert chisquare(chosen.sum(0).numpy()).pvalue > 1e-4
    tokens = corrupted[chosen].bincount(minlength=20)
    ordinary = [token for token in range(20) if token not in (MASK, 7)]
    assert chisquare(tokens[ordinary].numpy()).pvalue > 1e-4


# --- whole words ----------------------------------------------------------------------------------


def words_of_pieces() -> tuple[torch.Tensor, torch.Tensor]:
    """1,000 rows of [CLS] a ##b ##c d e ##f [SEP]: words of three pieces, one and two; and which pieces continue."""
    row = torch.tensor([2, 10, 31, 32, 11, 12, 33, 3])
    return row.repeat(1000, 1), (row > 30).repeat(1000, 1)


def test_the_pieces_of_a_word_are_chosen_together():
    input_ids, continues = words_of_pieces()
    is_special = (input_ids == 2) | (input_ids == 3)
    torch.manual_seed(0)
    _, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.3, continues=continues)
    chosen = (labels != IGNORED)[:, 1:-1]
    words = [chosen[:, :3], chosen[:, 3:4], chosen[:, 4:]]
    for word in words:
        assert (word.all(1) == word.any(1)).all(), "a word is chosen whole or not at all"
    counts = torch.stack([word.any(1) for word in words], dim=1).long()
    for number in counts.sum(0).tolist():
        assert number == pytest.approx(300, abs=4 * math.sqrt(1000 * 0.3 * 0.7))
    pairs = (counts[:, 0] * 2 + counts[:, 1]).bincount(minlength=4)
    expected = [1000 * share for share in (0.49, 0.21, 0.21, 0.09)]
    assert chisquare(pairs.numpy(), expected).pvalue > 1e-4, (
        "words are chosen independently of each other"
    )


def test_tokens_are_chosen_alone_without_whole_words():
    input_ids, continues = words_of_pieces()
    torch.manual_seed(0)
    _, labels = mask_tokens(input_ids, input_ids < 4, 60, MASK, probability=0.3)
    word = (labels != IGNORED)[:, 1:4]
    assert (word.any(1) & ~word.all(1)).sum() > 300


def test_a_row_that_begins_within_a_word():
    """A block may cut a word: its rest follows [CLS], takes that draw, and is chosen as any other word."""
    input_ids = torch.tensor([[2, 31, 32, 10, 3]]).repeat(2000, 1)
    torch.manual_seed(0)
    _, labels = mask_tokens(
        input_ids, input_ids < 4, 60, MASK, probability=0.3, continues=input_ids > 30
    )
    chosen = labels != IGNORED
    assert torch.equal(chosen[:, 1], chosen[:, 2]) and not chosen[:, 0].any()
    assert chosen[:, 1].sum().item() == pytest.approx(600, abs=4 * math.sqrt(2000 * 0.3 * 0.7))


def test_the_masking_of_a_vocabulary():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "walk", "##ing"]
    tokenizer = BertTokenizer({token: number for number, token in enumerate(tokens)})
    input_ids = torch.tensor([[2, 5, 6, 1, 5, 3, 0, 0]]).repeat(500, 1)
    torch.manual_seed(0)
    _, labels = Masking.of(tokenizer)(input_ids)
    chosen = labels != IGNORED
    assert chosen.any(0).tolist() == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
        False,
    ]  # never a special token
    assert not torch.equal(chosen[:, 1], chosen[:, 2])
    _, labels = Masking.of(tokenizer, whole_word=True)(input_ids)
    assert torch.equal(labels[:, 1] != IGNORED, labels[:, 2] != IGNORED)


def test_masks_follow_the_seed_and_differ_between_calls():
    input_ids, is_special = make_batch()
    torch.manual_seed(3)
    first, second = (mask_tokens(input_ids, is_special, 60, MASK)[1] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(mask_tokens(input_ids, is_special, 60, MASK)[1], first)
    assert not torch.equal(first, second), "each pass over the text is masked anew"


# --- the loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_rows", [0, 1, 128, 300])  # none, one, a full piece, two and a part
def test_cross_entropy_equals_torchs_in_value_and_gradient(num_rows):
    torch.manual_seed(0)
    logits = (torch.randn(num_rows, 50, dtype=torch.float64) * 5).requires_grad_()
    targets = torch.randint(50, (num_rows,))
    expected = F.cross_entropy(logits, targets, reduction="sum")
    found = CrossEntropy.apply(logits, targets)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(loss * 0.37, logits)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_cross_entropy_sums_bfloat16_in_float32():
    torch.manual_seed(0)
    logits = (torch.randn(200, 1000) * 3).bfloat16().requires_grad_()
    targets = torch.randint(1000, (200,))
    found, expected = (
        CrossEntropy.apply(logits, targets),
        F.cross_entropy(logits.float(), targets, reduction="sum"),
    )
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    gradients = [torch.autograd.grad(loss / 200, logits)[0] for loss in (found, expected)]
    assert gradients[0].dtype == torch.bfloat16
    torch.testing.assert_close(*gradients, rtol=0.01, atol=1e-6)  # one rounding to bf16 more: 2^-8


def test_cross_entropy_by_finite_differences():
    torch.manual_seed(0)
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: CrossEntropy.apply(x, torch.tensor([0, 4, 2, 2])), logits
    )


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
    assert model.loss(input_ids, labels).item() == pytest.approx(
        sum(losses) / 3, rel=1e-5
    )  # fp32: measured 1e-7


def test_equals_transformers_in_loss_logits_and_gradients(tmp_path):
    """Through the saved folder, so that every name of the head is checked as well."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    model, (input_ids, is_special) = make_model(), make_batch()
    model.save_pretrained(tmp_path)
    theirs, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    corrupted, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.5)
    attention_mask, token_type_ids = torch.ones_like(corrupted), torch.zeros_like(corrupted)
    attention_mask[0, -3:], labels[0, -3:], token_type_ids[1:, 5:] = 0, IGNORED, 1
    expected = theirs.eval()(corrupted, attention_mask, token_type_ids, labels=labels)
    logits = model(model.bert(corrupted, attention_mask, token_type_ids).last_hidden_state)
    torch.testing.assert_close(
        logits, expected.logits, atol=1e-5, rtol=0
    )  # fp32, 2 layers: measured 2e-6
    loss = model.loss(corrupted, labels, token_type_ids, attention_mask)
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    loss.backward()
    expected.loss.backward()
    others, encoder = dict(theirs.named_parameters()), model.bert.named_parameters()
    ours = model.head_tensors() | {
        f"bert.{to_hugging_face(name)}": p for name, p in encoder if "pooler" not in name
    }
    assert ours.keys() == others.keys()  # the word embeddings are the input and the output matrix
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter.grad, others[name].grad, atol=1e-6, rtol=1e-3)


def test_saved_folder_opens_as_an_encoder(tmp_path):
    model, (input_ids, _) = make_model(), make_batch()
    model.save_pretrained(tmp_path, dtype=torch.float16)
    encoder = BertModel.from_pretrained(tmp_path).eval()
    assert encoder.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias"), (
        "this objective has no pooler"
    )
    found, expected = encoder(input_ids).last_hidden_state, model.bert(input_ids).last_hidden_state
    torch.testing.assert_close(
        found, expected, atol=0.02, rtol=0
    )  # fp16 weights: 2^-11 relative, measured 2e-3


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
    assert torch.equal(BertForMaskedLM.from_pretrained(tmp_path).norm.weight, model.norm.weight)


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
    corrupted = torch.where(
        labels != IGNORED, MASK, input_ids
    )  # all hidden: only place and row would tell
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
