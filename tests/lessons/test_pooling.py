"""minbert/pooling.py: token vectors -> one vector per row.

B rows, T tokens, H hidden.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from minbert import BertModel
from minbert.bert import BertOutput
from minbert.pooling import (
    POOLINGS,
    SENTENCE_POOLINGS,
    check_pooling,
    mean,
    pool,
    positions_read,
    save_pooling,
    stored_pooling,
)

ROW = [[1.0, 2], [3, 4], [5, 9]]
PADDED_ROW = [[7, 7], [100, -100], [100, -100]]
HIDDEN = torch.tensor([ROW, PADDED_ROW])  # (2, 3, 2)
MASK = torch.tensor([[1, 1, 1], [1, 0, 0]])
OUTPUT = BertOutput(HIDDEN, torch.tensor([[0.5, -0.5], [0.25, 0.75]]))


def test_by_hand():
    # (1 + 3 + 5) / 3 and (2 + 4 + 9) / 3, then one token alone.
    assert pool(OUTPUT, MASK, "mean").tolist() == [[3, 5], [7, 7]]
    assert pool(OUTPUT, MASK, "cls").tolist() == [[1, 2], [7, 7]]
    assert pool(OUTPUT, MASK, "pooler").tolist() == [[0.5, -0.5], [0.25, 0.75]]


def test_the_poolings_of_sentence_transformers_by_hand():
    root = 3**0.5
    expected = {
        "cls": [[1, 2], [7, 7]],
        "max": [[5, 9], [7, 7]],
        "mean": [[3, 5], [7, 7]],
        # The sums 9 and 15 over the root of 3 tokens.
        "mean_sqrt_len_tokens": [[9 / root, 15 / root], [7, 7]],
        # (1 + 2 * 3 + 3 * 5) / 6 and (2 + 2 * 4 + 3 * 9) / 6.
        "weightedmean": [[22 / 6, 37 / 6], [7, 7]],
        "lasttoken": [[5, 9], [7, 7]],
    }
    for name, pooling in SENTENCE_POOLINGS.items():
        found = pooling(HIDDEN, MASK)
        assert found.flatten().tolist() == pytest.approx(sum(expected[name], [])), name


def test_only_the_first_tokens_are_read_where_the_mean_is_not():
    """Token 0 of row b is number b T of the flat batch."""
    assert positions_read(MASK, "mean") is None
    assert positions_read(MASK, "cls").tolist() == [0, 3]
    assert positions_read(MASK, "pooler").tolist() == [0, 3]


def test_mean_is_a_slow_loop():
    torch.manual_seed(0)
    hidden = torch.randn(5, 7, 4)
    lengths = torch.tensor([7, 1, 3, 5, 2])
    mask = (torch.arange(7) < lengths.unsqueeze(1)).long()
    slow = torch.zeros(5, 4)
    for row, length in enumerate(lengths.tolist()):
        for token in range(length):
            slow[row] += hidden[row, token] / length
    # float32, sums of 7 in another order.
    torch.testing.assert_close(mean(hidden, mask), slow, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_vector_is_float32(pooling, dtype):
    output = BertOutput(HIDDEN.to(dtype), OUTPUT.pooler_output.to(dtype))
    assert pool(output, MASK, pooling).dtype == torch.float32


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_never_matters(tiny_model, pooling):
    encoder = BertModel.from_pretrained(tiny_model).eval()
    input_ids = torch.tensor([[2, 9, 11, 12, 3], [2, 13, 3, 0, 0]])
    mask = (input_ids != 0).long()
    # Whatever the padding holds.
    longer = F.pad(input_ids, (0, 6), value=17)
    with torch.no_grad():
        expected = pool(encoder(input_ids, mask), mask, pooling)
        mask = F.pad(mask, (0, 6))
        found = pool(encoder(longer, mask), mask, pooling)
        unmasked = pool(encoder(longer), torch.ones_like(longer), pooling)
    # float32, 2 layers: measured 2e-7 to 1e-6.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    difference = (unmasked - expected).abs().max()
    assert difference > 1e-3, "the negative control: unmasked padding does matter"


def test_an_unknown_pooling():
    with pytest.raises(ValueError, match="pooling is 'max'; it is one of mean, cls, pooler"):
        pool(OUTPUT, MASK, "max")


def test_a_model_remembers_its_pooling(tmp_path):
    # Nothing is noted: any pooling will do.
    check_pooling(tmp_path, "cls")
    assert stored_pooling(tmp_path) is None
    save_pooling(tmp_path, "mean")
    check_pooling(tmp_path, "mean")
    assert stored_pooling(tmp_path) == "mean"
    with pytest.raises(
        ValueError, match="trained with --pooling mean; asked for is cls.*Pass --pooling mean"
    ):
        check_pooling(tmp_path, "cls")


def test_a_note_of_no_pooling_of_ours(tmp_path):
    (tmp_path / "sentence.json").write_text('{"pooling": "max"}', encoding="utf-8")
    with pytest.raises(
        ValueError,
        match="sentence.json: names no pooling .it is none of mean, cls, pooler.*Delete the file",
    ):
        stored_pooling(tmp_path)
