"""minbert/pooling.py: token vectors -> one vector a row."""

import pytest
import torch

from minbert import BertModel
from minbert.bert import BertOutput
from minbert.pooling import POOLINGS, check_pooling, mean, pool, save_pooling, stored_pooling

HIDDEN = torch.tensor([[[1.0, 2], [3, 4], [5, 9]], [[7, 7], [100, -100], [100, -100]]])  # (2, 3, 2)
MASK = torch.tensor([[1, 1, 1], [1, 0, 0]])
OUTPUT = BertOutput(HIDDEN, torch.tensor([[0.5, -0.5], [0.25, 0.75]]))


def test_by_hand():
    assert pool(OUTPUT, MASK, "mean").tolist() == [
        [3, 5],
        [7, 7],
    ]  # (1 + 3 + 5) / 3, (2 + 4 + 9) / 3; one token alone
    assert pool(OUTPUT, MASK, "cls").tolist() == [[1, 2], [7, 7]]
    assert pool(OUTPUT, MASK, "pooler").tolist() == [[0.5, -0.5], [0.25, 0.75]]


def test_mean_is_a_slow_loop():
    torch.manual_seed(0)
    hidden, lengths = torch.randn(5, 7, 4), [7, 1, 3, 5, 2]
    mask = torch.tensor([[int(token < length) for token in range(7)] for length in lengths])
    slow = torch.stack(
        [
            sum(hidden[row, token] for token in range(length)) / length
            for row, length in enumerate(lengths)
        ]
    )
    torch.testing.assert_close(
        mean(hidden, mask), slow, rtol=1e-6, atol=1e-6
    )  # fp32, sums of 7 in another order


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
    longer = torch.nn.functional.pad(input_ids, (0, 6), value=17)  # whatever the padding holds
    with torch.no_grad():
        expected = pool(encoder(input_ids, mask), mask, pooling)
        mask = torch.nn.functional.pad(mask, (0, 6))
        found = pool(encoder(longer, mask), mask, pooling)
        unmasked = pool(encoder(longer), torch.ones_like(longer), pooling)
    torch.testing.assert_close(
        found, expected, rtol=0, atol=1e-5
    )  # fp32, 2 layers: measured 2e-7 to 1e-6
    assert (
        unmasked - expected
    ).abs().max() > 1e-3  # the negative control: unmasked padding does matter


def test_an_unknown_pooling():
    with pytest.raises(ValueError, match="pooling is 'max'; it is one of mean, cls, pooler"):
        pool(OUTPUT, MASK, "max")


def test_a_model_remembers_its_pooling(tmp_path):
    check_pooling(tmp_path, "cls")  # nothing noted: any will do
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
