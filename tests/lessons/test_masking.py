"""Which tokens are hidden. Run it with `python -m pytest -x tests/lessons/test_masking.py`.

Corner cases worked by hand, then the law of the draws, then whole words. A test of a law fails by
chance at most once in 10,000 runs of right code. In the full project, tests/lessons/test_mlm.py
tests the model that predicts the tokens.

B batch, T tokens.
"""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from minbert import BertTokenizer
from minbert.pretraining.mlm import IGNORED, Masking, mask_tokens

# The ids of [CLS], [SEP] and [MASK] in these tests.
CLS = 2
SEP = 3
MASK = 4


def make_batch(num_rows: int = 3) -> tuple[Tensor, Tensor]:
    """Full sequences (B, T = 12), [CLS] first and [SEP] last, and the mask of these two."""
    torch.manual_seed(1)
    input_ids = torch.randint(5, 60, (num_rows, 12))
    input_ids[:, 0] = CLS
    input_ids[:, -1] = SEP
    return input_ids, (input_ids == CLS) | (input_ids == SEP)


def mask_sevens(num_rows: int, num_tokens: int, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Masked ids and labels of a text that consists of token 7 alone."""
    input_ids = torch.full((num_rows, num_tokens), 7)
    is_special = torch.zeros_like(input_ids, dtype=torch.bool)
    return mask_tokens(input_ids, is_special, vocab_size, MASK)


# --- corners by hand ------------------------------------------------------------------------------


def test_probability_0_changes_nothing():
    input_ids, is_special = make_batch(400)
    before = input_ids.clone()
    result = mask_tokens(input_ids, is_special, 60, MASK, probability=0.0)
    assert isinstance(result, tuple), (
        f"found {type(result).__name__}, expected MaskedBatch: not written yet?"
    )
    same, labels = result
    assert same.dtype == labels.dtype == torch.int64, (
        f"token ids are int64; here they are {same.dtype}, and labels {labels.dtype}"
    )
    assert same.data_ptr() != input_ids.data_ptr(), (
        "input_ids itself was returned: write to a copy of it, also where no token is chosen"
    )
    assert not (same == IGNORED).any(), "input_ids come first in MaskedBatch, then the labels"
    share = (labels != IGNORED)[~is_special].float().mean().item()
    hint = "with probability 0 no token is chosen, and none is changed: is it draw < probability?"
    if 0 < share < 0.4:
        hint = "with probability 0 no token is chosen: is the argument probability heeded?"
    if share == 0:
        hint = "a token is changed that was not chosen: only is_chosen is hidden or replaced"
    assert torch.equal(same, before), hint
    assert (labels == IGNORED).all(), f"the label of a token that is not chosen is {IGNORED}"


def test_probability_1_chooses_everything_but_special_tokens():
    input_ids, is_special = make_batch()
    before = input_ids.clone()
    changed, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=1.0)
    is_edge = (before == CLS) | (before == SEP)
    assert torch.equal(is_special, is_edge), "is_special was written to; make a new tensor"
    is_missing = (labels == IGNORED) & ~is_special
    is_changed = changed != before
    hint = "special tokens are never chosen, all others are"
    is_some = is_missing.any() and (is_missing != ~is_special).any()
    if is_some and torch.equal(is_missing, ~is_special & ~is_changed):
        hint = "a chosen token that stays as it is has a label, too: it is predicted as the others"
    if is_some and torch.equal(is_missing, ~is_special & (changed != MASK)):
        hint = "only [MASK] has a label here; a chosen token that is random or stays has one, too"
    assert torch.equal(labels == IGNORED, is_special), hint
    assert torch.equal(labels[~is_special], before[~is_special]), (
        "the label is the token that stood there, not what stands there now"
    )
    assert torch.equal(input_ids, before), "input_ids was written to; make a new tensor"


def test_ids_say_nothing_about_what_a_token_is():
    """[MASK] is token 8 here. Tokens 0 to 4 are words, and a word is special in column 5."""
    input_ids, _ = make_batch(100)
    input_ids = input_ids % 5
    is_special = torch.zeros_like(input_ids, dtype=torch.bool)
    is_special[:, 5] = True
    changed, labels = mask_tokens(input_ids, is_special, 60, 8, probability=1.0)
    assert torch.equal(labels == IGNORED, is_special), (
        "`is_special` alone says which tokens are never chosen, and not their ids"
    )
    assert (changed == 8).float().mean() > 0.5, (
        "none that is chosen becomes mask_token_id, which is 8 here: is it a fixed number?"
    )


# --- the law --------------------------------------------------------------------------------------


def hint_of_shares(masked: Tensor, kept: Tensor) -> str:
    """What wrong shares of [MASK] and of tokens that stay most likely mean."""
    # With probability 1, the draw of the choice says nothing about the fate.
    input_ids, is_special = make_batch()
    corrupted, _ = mask_tokens(input_ids, is_special, 60, MASK, probability=1.0)
    share_of_all = (corrupted == MASK)[~is_special].float().mean().item()
    shares = (round(masked.item(), 1), round(kept.item(), 1))
    if shares[0] == 1.0 and share_of_all < 0.95:
        return "one draw decides both the choice and the fate; draw anew for the fate."
    hints = {
        (1.0, 0.0): "all that are chosen become [MASK]; 10 % become random, and 10 % stay.",
        (0.9, 0.0): "none that is chosen stays as it is; 10 % do, and 80 % become [MASK].",
        (0.8, 0.0): "none that is chosen stays as it is; 10 % do, and 10 % become random.",
        (0.7, 0.2): (
            "random tokens overwrite [MASK]: one draw decides between [MASK], random and the same."
        ),
        (0.8, 0.2): "10 % of all that are chosen become random, not 10 % of the rest, nor none.",
        (0.0, 0.1): (
            "none that is chosen becomes mask_token_id: is it a fixed number here, or does a "
            "random token overwrite it?"
        ),
        (0.1, 0.8): "80 % become [MASK] and 10 % stay; here it is the other way round.",
        (0.0, 1.0): "none that is chosen becomes [MASK]; 80 % do.",
        (0.9, 0.1): "none that is chosen becomes random; 10 % do.",
        (0.0, 0.8): "[MASK] and what stays are swapped.",
        (0.1, 0.1): "[MASK] and random tokens are swapped.",
    }
    return hints.get(shares, "are the shares of the chosen tokens, 80 %, 10 % and 10 % of them?")


def assert_drawn_alone(is_chosen: Tensor, corrupted: Tensor) -> None:
    """Each token has its own draws. is_chosen, corrupted: 100 rows of 1,000 tokens of one id."""
    assert is_chosen.any() and not is_chosen.all(), (
        "all tokens with the same id are chosen, or none: draw a number for each token, (B, T)"
    )
    for dim, name in ((1, "row"), (0, "column")):
        is_whole = is_chosen.all(dim).any()
        assert not is_whole, f"a {name} is chosen whole: draw (B, T) numbers, one for each token"
    assert len(is_chosen.sum(1).unique()) > 1, (
        "each row has the same number of chosen tokens; each token is chosen by itself"
    )
    is_masked = is_chosen & (corrupted == MASK)
    for dim, name in ((1, "row"), (0, "column")):
        is_mixed = is_masked.any(dim) & (is_chosen & ~is_masked).any(dim)
        is_even = is_mixed.float().mean() > 0.5
        assert is_even or is_masked.any(dim).all() or not is_masked.any(), (
            f"all chosen tokens of a {name} have the same fate: draw (B, T) numbers, one for each "
            "token"
        )
    is_random = is_chosen & ~is_masked & (corrupted != 7)
    assert len(corrupted[is_random].unique()) != 1 or is_random.sum() < 9, (
        "all random tokens of the batch are the same: draw one for each place"
    )
    for name, ids, is_there in (
        ("row", corrupted, is_random),
        ("column", corrupted.T, is_random.T),
    ):
        lines = [line[there] for line, there in zip(ids, is_there, strict=True) if there.sum() > 1]
        assert not lines or any(len(line.unique()) > 1 for line in lines[:20]), (
            f"all random tokens of a {name} are the same: draw one for each place"
        )


def test_shares():
    """15 % are chosen. Of these 80 % become [MASK], 10 % a random token, 10 % stay."""
    torch.manual_seed(12)
    corrupted, labels = mask_sevens(100, 1000, vocab_size=1000)
    is_chosen = labels != IGNORED
    is_masked = (corrupted == MASK) & is_chosen
    is_kept = (corrupted == 7) & is_chosen
    is_replaced = is_chosen & ~is_masked & ~is_kept
    num_chosen = is_chosen.sum().item()

    assert_drawn_alone(is_chosen, corrupted)
    # Four standard deviations, sqrt(n p (1 - p)), of n = 100,000 tokens.
    allowed = 4 * math.sqrt(100_000 * 0.15 * 0.85)
    assert num_chosen == pytest.approx(15_000, abs=allowed), (
        f"{num_chosen:,} of 100,000 tokens were chosen, expected about 15,000. 12,000: are only "
        "those that become [MASK] chosen?"
    )
    hint = hint_of_shares(is_masked.sum() / num_chosen, is_kept.sum() / num_chosen)
    if is_replaced.any() and int(corrupted[is_replaced].max()) < 7:
        hint = "random tokens come from all vocab_size tokens, and not from the ids of the batch."
    fates = {"[MASK]": (0.8, is_masked), "the same": (0.1, is_kept), "random": (0.1, is_replaced)}
    for name, (share, is_so) in fates.items():
        # The same of the chosen tokens. A random token may be 4 or 7.
        allowed = 4 * math.sqrt(num_chosen * share * (1 - share)) + num_chosen * 0.0002
        found = is_so.sum().item()
        assert found == pytest.approx(share * num_chosen, abs=allowed), (
            f"{found / num_chosen:.3f} of the chosen tokens are {name}, expected {share}: {hint}"
        )
    assert (corrupted[~is_chosen] == 7).all(), "a token was changed that was not chosen"
    num_different = corrupted[is_replaced].unique().numel()
    assert num_different > 1, "all random tokens are the same: draw one for each place"
    assert num_different > 500, "random tokens come from the whole vocabulary"


@pytest.mark.parametrize("seed", range(3))
def test_the_three_fates_follow_their_law(seed):
    """Chi-square of all four outcomes of 200,000 tokens together."""
    torch.manual_seed(seed)
    corrupted, labels = mask_sevens(200, 1000, vocab_size=50_000)
    is_chosen = labels != IGNORED
    num_unchosen = int((~is_chosen).sum())
    num_masked = int((is_chosen & (corrupted == MASK)).sum())
    num_kept = int((is_chosen & (corrupted == 7)).sum())
    num_replaced = labels.numel() - num_unchosen - num_masked - num_kept
    found = [num_unchosen, num_masked, num_kept, num_replaced]
    shares = (0.85, 0.15 * 0.8, 0.15 * 0.1, 0.15 * 0.1)
    expected = [200_000 * share for share in shares]
    assert chisquare(found, expected).pvalue > 1e-4, (
        f"not chosen, [MASK], the same, random: {found}, expected about {expected}"
    )


def test_each_place_and_random_token_is_as_likely_as_another():
    torch.manual_seed(1)
    corrupted, labels = mask_sevens(4000, 40, vocab_size=20)
    is_chosen = labels != IGNORED
    assert chisquare(is_chosen.sum(0).numpy()).pvalue > 1e-4, (
        "some places of a row are chosen more often than others"
    )
    counts = corrupted[is_chosen].bincount(minlength=20)
    random_ids = [token for token in range(20) if token not in (MASK, 7)]
    assert chisquare(counts[random_ids].numpy()).pvalue > 1e-4, (
        "some tokens are drawn more often than others: is the draw over the whole vocabulary, from "
        "0 to vocab_size - 1? The end of torch.randint is left out: it is vocab_size"
    )
    # A random token is one of eight, so it is token 7 again in an eighth of the cases.
    corrupted, labels = mask_sevens(4000, 40, vocab_size=8)
    is_chosen = labels != IGNORED
    share = 0.1 + 0.1 / 8
    allowed = 4 * math.sqrt(int(is_chosen.sum()) * share * (1 - share))
    num_same = int((corrupted == 7)[is_chosen].sum())
    assert num_same == pytest.approx(share * int(is_chosen.sum()), abs=allowed), (
        "a random token is any of the vocabulary, and may be the one that stood there"
    )


def test_masks_follow_the_seed_and_differ_between_calls():
    input_ids, is_special = make_batch()
    torch.manual_seed(3)
    _, first = mask_tokens(input_ids, is_special, 60, MASK)
    _, second = mask_tokens(input_ids, is_special, 60, MASK)
    torch.manual_seed(3)
    _, again = mask_tokens(input_ids, is_special, 60, MASK)
    assert torch.equal(again, first), "draw from torch's global generator only"
    assert not torch.equal(first, second), (
        "two calls choose the same tokens, and each pass over the text is masked anew: draw from "
        "torch's global generator, without a seed or a generator of your own"
    )
    hidden = [mask_tokens(input_ids, is_special, 60, MASK, 1.0)[0] for _ in range(2)]
    assert not torch.equal(*hidden), (
        "two calls replace the tokens alike: draw the fate from torch's global generator, too"
    )
    input_ids, is_special = make_batch(400)
    hidden = [mask_tokens(input_ids, is_special, 60, MASK, 1.0)[0] for _ in range(2)]
    is_random = torch.stack([(part != MASK) & (part != input_ids) for part in hidden]).all(0)
    is_alike = hidden[0] == hidden[1]
    assert is_alike[is_random].float().mean() < 0.5, (
        "two calls draw the same random tokens: draw them from torch's global generator, too"
    )
    input_ids, is_special = make_batch()
    results = [mask_tokens(input_ids, is_special, 60, MASK)[1] for _ in range(20)]
    counts = {int((labels != IGNORED).sum()) for labels in results}
    assert len(counts) > 1, (
        "each call chooses the same number of tokens; each token is chosen by itself"
    )
    # No random token is 99.
    hidden = [mask_tokens(input_ids, is_special, 60, 99, 1.0)[0] for _ in range(20)]
    assert len({int((ids == 99).sum()) for ids in hidden}) > 1, (
        "each call makes the same number of tokens [MASK]: each chosen token draws its fate by "
        "itself, and 80 % of them are no fixed number"
    )


# --- whole words ----------------------------------------------------------------------------------


def words_of_pieces() -> tuple[Tensor, Tensor]:
    """1,000 rows of [CLS] a ##b ##c d e ##f [SEP], and which pieces continue a word."""
    row = torch.tensor([CLS, 10, 31, 32, 11, 12, 33, SEP])
    return row.repeat(1000, 1), (row > 30).repeat(1000, 1)


def test_the_pieces_of_a_word_are_chosen_together():
    input_ids, continues = words_of_pieces()
    is_special = (input_ids == CLS) | (input_ids == SEP)
    torch.manual_seed(0)
    before = continues.clone()
    _, labels = mask_tokens(input_ids, is_special, 60, MASK, probability=0.3, continues=continues)
    assert torch.equal(continues, before), "continues was written to; make a new tensor"
    is_chosen = (labels != IGNORED)[:, 1:-1]
    words = [is_chosen[:, :3], is_chosen[:, 3:4], is_chosen[:, 4:]]
    hint = (
        "a word is chosen whole or not at all: does `continues` decide whose draw a piece takes "
        "(share_within_words)? Each piece takes that of the first token of its word"
    )
    if not is_chosen[:, [1, 2, 5]].any():
        hint = "only the first piece of a word is chosen; its later pieces are chosen with it"
    if is_chosen.all():
        hint = "all words are chosen"
    for word in words:
        assert (word.all(1) == word.any(1)).all(), hint
    counts = torch.stack([word.any(1) for word in words], dim=1).long()
    for number in counts.sum(0).tolist():
        assert number == pytest.approx(300, abs=4 * math.sqrt(1000 * 0.3 * 0.7)), (
            "a word is chosen with the probability of one token, however many pieces it has, and "
            "not where any of its pieces is drawn"
        )
    pairs = (counts[:, 0] * 2 + counts[:, 1]).bincount(minlength=4)
    expected = [1000 * share for share in (0.49, 0.21, 0.21, 0.09)]
    assert chisquare(pairs.numpy(), expected).pvalue > 1e-4, (
        "words are chosen independently of each other"
    )


def test_each_piece_of_a_word_has_its_own_replacement():
    input_ids, continues = words_of_pieces()
    torch.manual_seed(0)
    corrupted, _ = mask_tokens(input_ids, input_ids < 4, 60, MASK, 1.0, continues)
    is_masked = corrupted[:, 1:4] == MASK  # the three pieces of one word
    differ = (is_masked.any(1) & ~is_masked.all(1)).sum().item()
    assert not is_masked.all(), (
        "each piece of a chosen word becomes [MASK]: with whole words, too, each piece draws its "
        "fate, 80 %, 10 % and 10 %"
    )
    # 1 - .8^3 - .2^3 is .48 of 1,000 words.
    assert differ > 300, (
        "the pieces of a word are chosen together, and each still draws its own replacement: is "
        "the second draw shared within a word, too?"
    )
    # A tenth of 3,000 pieces behind the first.
    is_random = (corrupted != input_ids) & (corrupted != MASK) & continues
    assert is_random.sum() > 200, "later pieces of a word become random, too, as other tokens"
    # About 90 words of 9,000 whose later pieces are both random.
    input_ids, continues = (part.repeat(9, 1) for part in words_of_pieces())
    corrupted, _ = mask_tokens(input_ids, input_ids < 4, 60, MASK, 1.0, continues)
    pieces = corrupted[:, 2:4]
    is_random = ((pieces != input_ids[:, 2:4]) & (pieces != MASK)).all(1)
    is_alike = pieces[:, 0] == pieces[:, 1]
    assert is_alike[is_random].float().mean() < 0.5, (
        "the pieces of a word become the same random token; each draws its own"
    )


def test_tokens_are_chosen_alone_without_whole_words():
    input_ids, _ = words_of_pieces()
    torch.manual_seed(0)
    _, labels = mask_tokens(input_ids, input_ids < 4, 60, MASK, probability=0.3)
    word = (labels != IGNORED)[:, 1:4]
    assert (word.any(1) & ~word.all(1)).sum() > 300, (
        "without `continues` each piece is drawn by itself"
    )


def test_a_row_that_begins_within_a_word():
    """A sequence may cut a word. The rest of it follows [CLS] and takes the draw of [CLS]."""
    input_ids = torch.tensor([[CLS, 31, 32, 10, SEP]]).repeat(2000, 1)
    torch.manual_seed(0)
    _, labels = mask_tokens(
        input_ids, input_ids < 4, 60, MASK, probability=0.3, continues=input_ids > 30
    )
    is_chosen = labels != IGNORED
    assert torch.equal(is_chosen[:, 1], is_chosen[:, 2]), "a word is chosen whole or not at all"
    assert not is_chosen[:, 0].any(), "[CLS] lends its draw and is still never chosen"
    allowed = 4 * math.sqrt(2000 * 0.3 * 0.7)
    assert is_chosen[:, 1].sum().item() == pytest.approx(600, abs=allowed), (
        "the pieces behind [CLS] are chosen as often as another word: leave special tokens out "
        "after the draws are shared, not before"
    )


# --- the masking of a vocabulary ------------------------------------------------------------------


def test_a_word_ends_with_its_row():
    """Each row is a single later piece, as where a long text was cut into rows."""
    ids = torch.full((400, 1), 9)
    torch.manual_seed(0)
    continues = torch.ones_like(ids).bool()
    labels = mask_tokens(ids, torch.zeros_like(ids).bool(), 50, 4, 0.5, continues).labels
    assert continues.all(), (
        "continues was written to, where the first column is True; make a new tensor"
    )
    assert 100 < (labels != -100).sum() < 300, (
        "rows are chosen together that begin with a later piece: a word ends with its row. Are "
        "words counted through the flattened batch?"
    )


def test_the_masking_of_a_vocabulary():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "walk", "##ing"]
    tokenizer = BertTokenizer({token: number for number, token in enumerate(tokens)})
    input_ids = torch.tensor([[2, 5, 6, 1, 5, 3, 0, 0]]).repeat(500, 1)
    torch.manual_seed(0)
    _, labels = Masking.of(tokenizer)(input_ids)
    is_chosen = labels != IGNORED
    # "walk", "##ing" and "walk" again. A special token is never chosen.
    assert is_chosen.any(0).nonzero().flatten().tolist() == [1, 2, 4]
    assert not torch.equal(is_chosen[:, 1], is_chosen[:, 2])
    _, labels = Masking.of(tokenizer, whole_word=True)(input_ids)
    assert torch.equal(labels[:, 1] != IGNORED, labels[:, 2] != IGNORED)


def test_a_vocabulary_with_a_gap_masks_by_id():
    """A blank line of vocab.txt moves no id: 4 is nothing, 5 is [MASK], 6 and 7 are words."""
    names = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 5, "man": 6, "##s": 7}
    masking = Masking.of(BertTokenizer(names), whole_word=True)
    assert masking.is_special.tolist() == [True] * 4 + [False, True, False, False]
    assert masking.continues is not None and masking.continues.tolist() == [False] * 7 + [True]
    assert masking.mask_token_id == 5
