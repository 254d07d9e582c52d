"""The relative positions of MPNet: by hand, by a slow loop, and as transformers has them."""

from __future__ import annotations

import math

import pytest
import torch

from minbert import BertModel
from minbert.relative_positions import NUM_BUCKETS, distance_numbers, relative_bias
from tests.small_models import make_model


def number_by_hand(offset: int) -> int:
    """The number of a distance, as Raffel et al. 2020 describe it."""
    side = 16 if offset > 0 else 0
    distance = abs(offset)
    if distance < 8:
        return side + distance
    growth = math.log(distance / 8) / math.log(128 / 8)
    return side + min(15, 8 + int(growth * 8))


def test_numbers_by_hand():
    numbers = distance_numbers(200, torch.device("cpu"))
    row = numbers[100].tolist()
    assert row[100] == 0 and row[99] == 1 and row[101] == 17 and row[93] == 7 and row[107] == 23
    # 8 is the first that shares its number, and 128 or more all share the last one.
    assert row[92] == 8 and row[91] == 8 and row[108] == 24
    assert numbers[199, 0] == 15 and numbers[0, 199] == 31
    assert numbers.max() == NUM_BUCKETS - 1


@pytest.mark.parametrize("num_tokens", [1, 7, 128, 300])
def test_numbers_of_a_slow_loop(num_tokens):
    numbers = distance_numbers(num_tokens, torch.device("cpu"))
    rows = []
    for token in range(num_tokens):
        rows.append([number_by_hand(other - token) for other in range(num_tokens)])
    # A logarithm that is a whole number may fall on either side.
    assert (numbers - torch.tensor(rows)).abs().max() <= 1
    assert (numbers != torch.tensor(rows)).float().mean() < 0.02


def test_numbers_of_transformers():
    mpnet = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    places = torch.arange(512)
    expected = mpnet.MPNetEncoder.relative_position_bucket(places[None, :] - places[:, None])
    assert torch.equal(distance_numbers(512, torch.device("cpu")), expected)


def test_the_bias_has_a_row_for_each_head():
    table = torch.randn(NUM_BUCKETS, 3)
    bias = relative_bias(table, 5)
    assert bias.shape == (1, 3, 5, 5)
    assert bias[0, 2, 4, 1] == table[3, 2] and bias[0, 1, 1, 4] == table[19, 1]


def test_the_order_of_tokens_matters_through_the_table_alone(tmp_path):
    """With a table of 0, the attention of an MPNet is BERT's."""
    pytest.importorskip("transformers", reason="run setup.sh --dev")
    make_model("mpnet", tmp_path)
    model = BertModel.from_pretrained(tmp_path)
    ids = torch.tensor([[0, 7, 8, 9, 2]])
    before = model(ids, output_attentions=True).attentions[0]
    table = model.embeddings.relative.weight
    model(ids).last_hidden_state.sum().backward()
    assert table.grad is not None and table.grad.abs().sum() > 0, "the table is not trained"
    with torch.no_grad():
        table.zero_()
        after = model(ids, output_attentions=True).attentions[0]
    assert (before - after).abs().max() > 1e-3
