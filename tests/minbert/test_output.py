"""The output of BertModel by name, position and unpacking, and its attention probabilities."""

from __future__ import annotations

import pytest
import torch

from minbert import BertModel, fast
from minbert.token_batch import TokenBatch

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

INPUT_IDS = torch.tensor([[5, 9, 21, 33, 2, 7], [4, 8, 3, 0, 0, 0]])
BATCH = {
    "input_ids": INPUT_IDS,
    "attention_mask": (INPUT_IDS != 0).long(),
    "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0]]),
}
FLAGS = [
    {},
    {"output_hidden_states": True},
    {"output_attentions": True},
    {"output_hidden_states": True, "output_attentions": True},
]


@pytest.fixture(scope="module")
def ours(hugging_face_folder):
    return BertModel.from_pretrained(hugging_face_folder)


@pytest.fixture(scope="module")
def theirs(hugging_face_folder):
    return transformers.BertModel.from_pretrained(hugging_face_folder, attn_implementation="eager")


def encode(model, **flags):
    with torch.no_grad():
        return model(**BATCH, **flags)


def assert_close(found, expected):
    """Tensors, or tuples of them, within 1e-5."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for first, second in zip(found, expected, strict=True):
            assert_close(first, second)
        return
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


# --- by name, position and unpacking --------------------------------------------------------------


@pytest.mark.parametrize("flags", FLAGS)
def test_every_way_to_read_the_output_is_that_of_transformers(ours, theirs, flags):
    found = encode(ours, **flags)
    expected = encode(theirs, **flags)
    # A model that can be a decoder has an empty entry for its cross-attention.
    names = [name for name in expected if name != "cross_attentions"]
    assert list(found.keys()) == names == list(dict(found))
    assert len(found) == len(names)
    assert_close(found.to_tuple(), expected.to_tuple()[: len(names)])
    for position, name in enumerate(names):
        assert_close(found[position], expected[position])
        assert found[position] is found[name] is getattr(found, name)
        assert name in found
    assert_close(found[:2], expected[:2])
    assert found[-1] is found.to_tuple()[-1]


def test_unpacking(ours):
    output = encode(ours)
    states, pooled = output
    assert states is output.last_hidden_state and pooled is output.pooler_output
    states, pooled, hidden_states, attentions = encode(ours, **FLAGS[-1])
    assert states is hidden_states[-1] and len(attentions) == len(hidden_states) - 1


def test_what_was_not_asked_for(ours):
    output = encode(ours)
    assert output.hidden_states is None and output.attentions is None
    assert output["hidden_states"] is None and "hidden_states" not in output
    with pytest.raises(IndexError):
        output[2]
    with pytest.raises(KeyError, match="'logits'; this output holds last_hidden_state, pooler"):
        output["logits"]


def test_a_batch_goes_where_the_model_is(ours):
    assert ours.device == torch.device("cpu")
    assert BertModel(ours.config).to("meta").device == torch.device("meta")


def test_an_option_that_is_no_field_is_named(hugging_face_folder):
    with pytest.raises(ValueError, match="'attn_implementation'.*mean attention_implementation"):
        BertModel.from_pretrained(hugging_face_folder, attn_implementation="eager")
    with pytest.raises(ValueError, match="'torch_dtype' is no field of a config"):
        BertModel.from_pretrained(hugging_face_folder, torch_dtype="float32")


# --- attention probabilities ----------------------------------------------------------------------


def test_attentions_equal_transformers(ours, theirs):
    found = encode(ours, output_attentions=True).attentions
    expected = encode(theirs, output_attentions=True).attentions
    assert [tuple(layer.shape) for layer in found] == [(2, 4, 6, 6)] * 3
    assert_close(found, expected)


def test_attentions_of_the_readable_functions(ours):
    with fast.switched(is_fast=False):
        readable = encode(ours, output_attentions=True).attentions
    assert_close(encode(ours, output_attentions=True).attentions, readable)


def test_each_row_is_a_distribution_over_real_tokens(ours):
    for layer in encode(ours, output_attentions=True).attentions:
        torch.testing.assert_close(layer.sum(dim=-1), torch.ones(2, 4, 6))
        assert (layer[1, :, :, 3:] == 0).all(), "padding is attended to"


def test_attentions_are_those_that_made_the_output(ours):
    """Probabilities times values, joined and projected, are the result of the layer."""
    with torch.no_grad():
        layer = ours.layers[1].attention
        hidden = encode(ours, output_hidden_states=True).hidden_states[1]
        values = layer.split_heads(layer.value(hidden))  # (B, N, T, D)
        probabilities = layer.probabilities(hidden)  # (B, N, T, T)
        joined = (probabilities @ values).transpose(1, 2).flatten(2)  # (B, T, H)
        torch.testing.assert_close(layer.output(joined), layer(hidden))


def test_they_hold_no_dropout_and_change_nothing(ours, hugging_face_folder):
    plain = encode(ours)
    assert_close(encode(ours, output_attentions=True)[:2], plain[:2])
    training = BertModel.from_pretrained(hugging_face_folder).train()
    expected = encode(ours, output_attentions=True).attentions[0]
    first = training.layers[0].attention.probabilities(
        encode(ours, output_hidden_states=True).hidden_states[0],
        torch.where(BATCH["attention_mask"][:, None, None, :] == 0, torch.finfo().min, 0.0),
    )
    torch.testing.assert_close(first, expected)


def test_with_positions_all_tokens_are_seen(ours):
    positions = torch.tensor([0, 6])
    found = encode(ours, output_attentions=True, positions=positions)
    assert found.last_hidden_state.shape == (2, 1, 24)
    assert_close(found.attentions, encode(ours, output_attentions=True).attentions)


def test_gradients_flow_through_them(ours):
    output = ours(**BATCH, output_attentions=True)
    output.attentions[-1].square().sum().backward()
    assert ours.layers[-1].attention.key.weight.grad.abs().sum() > 0
    assert ours.layers[-1].attention.value.weight.grad is None or (
        ours.layers[-1].attention.value.weight.grad.abs().sum() == 0
    )
    ours.zero_grad()


def test_the_fused_attention_says_how(hugging_face_folder):
    fused = BertModel.from_pretrained(hugging_face_folder, attention_implementation="fused")
    with pytest.raises(ValueError, match=r"output_attentions.*attention_implementation='eager'"):
        encode(fused, output_attentions=True)
    assert encode(fused).attentions is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TokenBatch(BATCH),), r"input_ids is a TokenBatch; .* Pass model\(\*\*batch\)."),
        (([[1, 2]],), "input_ids is a list; .* Pass a tensor."),
        ((INPUT_IDS[0],), r"shape \(6,\); .* For one row pass input_ids.unsqueeze\(0\)."),
        ((INPUT_IDS[None],), r"shape \(1, 2, 6\); expected is \(rows, tokens\).$"),
    ],
)
def test_a_call_with_something_else_than_rows_of_ids(ours, arguments, message):
    for call in (ours, ours.embed):
        with pytest.raises(ValueError, match=message):
            call(*arguments)


def test_a_tuple_is_made_of_the_output(ours):
    with pytest.raises(ValueError, match=r"return_dict is False; .* output.to_tuple\(\)"):
        encode(ours, return_dict=False)
    states, pooled = encode(ours, return_dict=True)
    assert torch.equal(states, encode(ours)[0]) and torch.equal(pooled, encode(ours)[1])


# --- the two steps of the course's BertModel ------------------------------------------------------


@pytest.mark.parametrize("is_training", [False, True])
def test_embed_and_encode_are_the_two_steps_of_forward(hugging_face_folder, is_training):
    """The course's starter has these two methods, and scripts of students call them."""
    model = BertModel.from_pretrained(hugging_face_folder, hidden_dropout_prob=0.5)
    model.train(is_training)
    for mask in (BATCH["attention_mask"], None):
        torch.manual_seed(0)
        output = model(BATCH["input_ids"], mask, BATCH["token_type_ids"], output_hidden_states=True)
        torch.manual_seed(0)
        embedded = model.embed(BATCH["input_ids"], BATCH["token_type_ids"])
        encoded = model.encode(embedded, attention_mask=mask)
        assert torch.equal(embedded, output.hidden_states[0])
        assert torch.equal(encoded, output.last_hidden_state)
    # As in the starter, token_type_ids may be left out.
    model.eval()
    hidden_states = model.encode(model.embed(input_ids=INPUT_IDS), BATCH["attention_mask"])
    expected = model(INPUT_IDS, BATCH["attention_mask"]).last_hidden_state
    assert torch.equal(hidden_states, expected)


# --- prepared masks -------------------------------------------------------------------------------

IS_TOKEN = BATCH["attention_mask"].bool()
BLOCKS = BATCH["token_type_ids"][:, :, None] == BATCH["token_type_ids"][:, None, :]


def bias(mask):
    """0 where a token may be attended to, and else the most negative number."""
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


@pytest.mark.parametrize(
    "mask",
    [
        IS_TOKEN[:, None, None, :],
        bias(IS_TOKEN[:, None, None, :]),
        (IS_TOKEN[:, None, :] & BLOCKS)[:, None],
        bias((IS_TOKEN[:, None, :] & BLOCKS)[:, None]),
        torch.ones(6, 6, dtype=torch.bool).tril()[None, None],
    ],
    ids=["tokens", "bias of tokens", "blocks", "bias of blocks", "causal"],
)
def test_a_prepared_mask_is_that_of_transformers(hugging_face_folder, mask):
    # The kernel of transformers reads a mask of bool, its eager attention does not.
    theirs = transformers.BertModel.from_pretrained(hugging_face_folder, attn_implementation="sdpa")
    for implementation in ("eager", "fused"):
        ours = BertModel.from_pretrained(
            hugging_face_folder, attention_implementation=implementation
        )
        # A token that sees no other token has no meaning: of padding nobody reads anything.
        sees = (mask == 0).any(-1) if mask.is_floating_point() else mask.any(-1)
        read = IS_TOKEN & sees[:, 0].expand(2, 6)
        with torch.no_grad():
            found = ours(INPUT_IDS, attention_mask=mask).last_hidden_state
            expected = theirs(INPUT_IDS, attention_mask=mask).last_hidden_state
        assert_close(found[read], expected[read])


def test_a_prepared_mask_of_whole_numbers_and_of_heads(ours):
    plain = encode(ours).last_hidden_state
    mask = BATCH["attention_mask"]
    heads = ours.config.num_attention_heads
    for prepared in (mask[:, None, None, :], IS_TOKEN[:, None, None, :].expand(2, heads, 6, 6)):
        with torch.no_grad():
            found = ours(INPUT_IDS, prepared, BATCH["token_type_ids"]).last_hidden_state
        assert_close(found[IS_TOKEN], plain[IS_TOKEN])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (IS_TOKEN[:, None, :], r"the shape \(2, 1, 6\); expected is \(rows, tokens\), here \(2, 6"),
        (IS_TOKEN[:, None, :, None], r"the shape \(2, 1, 6, 1\)"),
        (IS_TOKEN[:, :5], r"the shape \(2, 5\)"),
        (IS_TOKEN[:, None, None, :5], r"the shape \(2, 1, 1, 5\)"),
        (torch.ones(3, 6), r"the shape \(3, 6\)"),
        (torch.ones(2, 3, 6, 6).bool(), r"the shape \(2, 3, 6, 6\)"),
        (IS_TOKEN[0], r"the shape \(6,\)"),
        (IS_TOKEN[:, None, None, :].float(), r"floating point and positive numbers.*mask == 1"),
        ([[1] * 6] * 2, "attention_mask is a list"),
    ],
)
def test_a_mask_that_does_not_fit_is_named(ours, mask, message):
    with pytest.raises(ValueError, match=message):
        ours(INPUT_IDS, attention_mask=mask)
