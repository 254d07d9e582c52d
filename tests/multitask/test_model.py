"""multitask/model.py: shapes, what a pair's two sides do, gradients, and a folder that others open."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from multitask.heads import DenseHead, pair_features
from multitask.model import MultitaskBert
from multitask.tasks import TASKS
from tests.toy_multitask import make_bert

ROWS = {
    "sst": [
        Example("1", "a short doctor", None, 2.0),
        Example("2", "the girl", None, 0.0),
        Example("3", "a tall soldier is helping the girl near a hotel", None, 4.0),
    ],
    "para": [
        Example("1", "is the hotel tall", "how tall is the hotel", 1.0),
        Example("2", "a girl", "the doctor", 0.0),
    ],
    "sts": [
        Example("1", "a girl", "a tall girl", 4.0),
        Example("2", "the soldier is in a hotel", "a letter", 0.5),
    ],
}


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


def batch_of(task, tokenizer, pair_encoding, examples=None):
    rows = EncodedExamples(examples or ROWS[task], tokenizer, 64, pair_encoding)
    return rows.batch(range(len(rows)))


@pytest.mark.parametrize("pair_encoding", ["cross", "bi"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_shapes(tiny_model, tokenizer, pair_encoding, pooling):
    model = make_bert(tiny_model, pooling, pair_encoding)
    for task, shape in {"sst": (3, 5), "para": (2,), "sts": (2,)}.items():
        for count in (len(ROWS[task]), 1):  # a batch of one stays a batch
            batch = batch_of(task, tokenizer, pair_encoding, ROWS[task][:count])
            assert model(task, batch).shape == (count, *shape[1:]), (task, count)
            assert TASKS[task].loss(model(task, batch), batch.labels).shape == ()


@pytest.mark.parametrize("drops_out", [True, False])
def test_training_with_and_without_dropout_in_the_encoder(tiny_model, tokenizer, drops_out):
    """Without it the heads' dropout stays, and the encoder learns all the same."""
    encoder = BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    model = make_bert(encoder, dropout=0.5, has_encoder_dropout=drops_out)
    assert model.train() is model and model.training and model.heads["sst"].training
    assert encoder.training == drops_out == encoder.layers[0].attention.training
    batch = batch_of("sst", tokenizer, "cross")
    once, again = (
        encoder(batch.input_ids, batch.attention_mask).last_hidden_state for _ in range(2)
    )
    assert torch.equal(once, again) != drops_out
    assert not torch.equal(model("sst", batch), model("sst", batch))
    model("sst", batch).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.layers.parameters())
    assert not model.eval().encoder.training and not model.heads["sst"].training


def test_heads_of_another_version_are_told(tiny_model, tokenizer, tmp_path):
    make_bert(tiny_model).save_pretrained(tmp_path, tokenizer)
    tensors = load_file(tmp_path / "heads.safetensors")
    tensors["heads.old.bias"] = tensors.pop("heads.sts.dense.bias")
    save_file(tensors, tmp_path / "heads.safetensors")
    with pytest.raises(
        ValueError, match="have, or lack, heads.old.bias, heads.sts.dense.bias, so another version"
    ):
        MultitaskBert.from_pretrained(tmp_path)


def test_similarity_starts_at_the_middle_of_its_scale(tiny_model, tokenizer):
    predictions = make_bert(tiny_model).eval()("sts", batch_of("sts", tokenizer, "cross"))
    assert predictions.tolist() == pytest.approx([2.5, 2.5], abs=0.3)  # start values are small


def test_features_of_a_pair_by_hand():
    first, second = torch.tensor([[1.0, 2]]), torch.tensor([[3.0, -1]])
    assert pair_features(first, second).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]
    head = DenseHead(2, 1, 0.0)
    head.dense.weight.data = torch.tensor([[10.0, 1]])
    head.dense.bias.data = torch.tensor([0.5])
    assert head(torch.tensor([[1.0, 2], [0, 3]])).tolist() == [12.5, 3.5]


def swapped(examples):
    return [
        Example(example.id, example.sentence_2, example.sentence_1, example.label)
        for example in examples
    ]


@torch.no_grad()
def test_swapping_a_pair_apart(tiny_model, tokenizer):
    """|u - v| and u * v are the same for both orders, u and v change places: so do their columns in the head."""
    model = make_bert(tiny_model, pair_encoding="bi").eval()
    one = batch_of("sts", tokenizer, "bi")
    other = batch_of("sts", tokenizer, "bi", swapped(ROWS["sts"]))
    expected = model("sts", one)
    assert (model("sts", other) - expected).abs().max() > 1e-4
    weight = model.heads["sts"].dense.weight  # (1, 4H)
    u, v, difference, product = weight.clone().chunk(4, dim=1)
    weight.copy_(torch.cat([v, u, difference, product], dim=1))
    torch.testing.assert_close(
        model("sts", other), expected, rtol=0, atol=1e-5
    )  # fp32, another padding


def test_a_pair_apart_in_one_pass_is_two_passes(tiny_model, tokenizer):
    """Output and gradients; each sentence alone and unpadded through the encoder, the features written out."""
    found = []
    for is_apart in (False, True):
        model = make_bert(tiny_model, pair_encoding="bi").eval()
        if is_apart:
            rows = []
            for example in ROWS["sts"]:
                sides = [tokenizer([text]) for text in (example.sentence_1, example.sentence_2)]
                u, v = (
                    torch.tanh(
                        model.shared(
                            model.encoder(side["input_ids"]).last_hidden_state[0].mean(dim=0)
                        )
                    )
                    for side in sides
                )
                rows.append(torch.cat([u, v, (u - v).abs(), u * v]))
            dense = model.heads["sts"].dense
            output = (torch.stack(rows) @ dense.weight.T + dense.bias)[:, 0]
        else:
            output = model("sts", batch_of("sts", tokenizer, "bi"))
        TASKS["sts"].loss(output, torch.tensor([4.0, 0.5])).backward()
        found.append(
            {"output": output.detach()}
            | {
                name: parameter.grad
                for name, parameter in model.named_parameters()
                if parameter.grad is not None
            }
        )
    assert len(found[0]) > 30
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_swapping_a_pair_together(tiny_model, tokenizer):
    """In one row the two orders are two inputs, told apart by position and segment."""
    model = make_bert(tiny_model).eval()
    one, other = (
        batch_of("sts", tokenizer, "cross", rows) for rows in (ROWS["sts"], swapped(ROWS["sts"]))
    )
    assert (model("sts", one) - model("sts", other)).abs().max() > 1e-5


@torch.no_grad()
def test_a_pair_in_one_row_gives_the_mean_of_each_sentence(tiny_model, tokenizer):
    """By hand, each pair alone and unpadded; with the sides exchanged it would be another number."""
    model = make_bert(tiny_model).eval()
    found, dense = model("sts", batch_of("sts", tokenizer, "cross")), model.heads["sts"].dense
    for row, example in enumerate(ROWS["sts"]):
        alone = batch_of("sts", tokenizer, "cross", [example])
        states = model.encoder(alone.input_ids, None, alone.token_type_ids).last_hidden_state[0]
        sides = [
            states[
                [place for place, side in enumerate(alone.token_type_ids[0]) if side == wanted]
            ].mean(dim=0)
            for wanted in (0, 1)
        ]
        u, v = (torch.tanh(model.shared(side)) for side in sides)
        features = torch.cat([u, v, (u - v).abs(), u * v])
        assert float(dense(features)) == pytest.approx(float(found[row]), abs=1e-5)
        assert abs(float(dense(torch.cat([v, u, (u - v).abs(), u * v]))) - float(found[row])) > 1e-4


@torch.no_grad()
def test_the_segment_of_the_second_sentence_counts(tiny_model, tokenizer):
    model = make_bert(tiny_model).eval()
    batch = batch_of("sts", tokenizer, "cross")
    assert batch.token_type_ids.sum() > 0
    expected = model("sts", batch)
    batch.token_type_ids[:, 1] = 1
    assert (model("sts", batch) - expected).abs().max() > 1e-5


@pytest.mark.parametrize("pair_encoding", ["cross", "bi"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_every_parameter_gets_a_gradient(tiny_model, tokenizer, pair_encoding, pooling):
    model = make_bert(tiny_model, pooling, pair_encoding).train()
    for task in TASKS:
        batch = batch_of(task, tokenizer, pair_encoding)
        TASKS[task].loss(model(task, batch), batch.labels).backward()
    without = {
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0
    }
    assert without == (
        set() if pooling == "pooler" else {"encoder.pooler.weight", "encoder.pooler.bias"}
    )


def test_a_task_reaches_its_own_head_only(tiny_model, tokenizer):
    model = make_bert(tiny_model)
    model("sts", batch_of("sts", tokenizer, "cross")).sum().backward()
    touched = {name for name, head in model.heads.items() if head.dense.weight.grad is not None}
    assert touched == {"sts"} and model.shared.weight.grad is not None


def test_heads_depend_on_the_seed_alone(tiny_model):
    encoder = BertModel.from_pretrained(tiny_model)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = make_bert(encoder, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    same, other = (make_bert(encoder, seed=seed) for seed in (3, 4))
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.shared.weight, other.shared.weight)
    assert (
        one.shared.weight.std().item() == pytest.approx(0.02, rel=0.2) and not one.shared.bias.any()
    )


def test_dropout_is_before_the_head_and_off_when_predicting(tiny_model, tokenizer):
    encoder = BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model, batch = (
        make_bert(encoder, dropout=0.5),
        batch_of("sst", tokenizer, "cross"),
    )
    assert not torch.equal(model.train()("sst", batch), model("sst", batch))
    assert torch.equal(model.eval()("sst", batch), model("sst", batch))


def test_dropout_is_before_the_common_layer(tiny_model, tokenizer):
    """Of vectors that are dropped whole that layer leaves tanh of its bias, and not 0."""
    encoder = BertModel.from_pretrained(tiny_model)
    model = make_bert(encoder, dropout=0.0).train()
    model.dropout.probability = 1.0
    torch.manual_seed(0)  # one unit of 65,536 would stay
    with torch.no_grad():
        model.shared.bias.fill_(0.5)
        found = model("sst", batch_of("sst", tokenizer, "cross"))
        expected = model.heads["sst"](torch.tanh(model.shared.bias).expand(len(found), -1))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("pair_encoding", ["cross", "bi"])
def test_saved_and_loaded(tiny_model, tokenizer, tmp_path, pair_encoding):
    model = make_bert(tiny_model, "cls", pair_encoding, seed=9).eval()
    model.save_pretrained(tmp_path, tokenizer)
    loaded = MultitaskBert.from_pretrained(tmp_path)
    assert (loaded.pooling, loaded.pair_encoding, loaded.training) == ("cls", pair_encoding, False)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert all(
        torch.equal(tensor, loaded.state_dict()[name])
        for name, tensor in model.state_dict().items()
    )
    again = BertTokenizer.from_pretrained(tmp_path)
    for task in TASKS:
        batch = batch_of(task, again, pair_encoding)
        assert torch.equal(model(task, batch), loaded(task, batch))
    heads = load_file(tmp_path / "heads.safetensors")
    for wrong in ({name: tensor[..., :1].contiguous() for name, tensor in heads.items()}, None):
        (tmp_path / "heads.safetensors").unlink()
        if wrong:
            save_file(wrong, tmp_path / "heads.safetensors")
        with pytest.raises(
            ValueError,
            match=r"(?s)heads.safetensors: these heads cannot be read .*Bring the folder",
        ):
            MultitaskBert.from_pretrained(tmp_path)
    save_file(heads, tmp_path / "heads.safetensors")
    (tmp_path / "sentence.json").unlink()
    with pytest.raises(
        ValueError, match="have, or lack, a record of their pooling, so another version"
    ):
        MultitaskBert.from_pretrained(tmp_path)
    stored = json.loads((tmp_path / "heads.json").read_text())
    for change in ({"depth": 3}, {"head": "foo"}):
        (tmp_path / "heads.json").write_text(json.dumps(stored | change))
        with pytest.raises(
            ValueError,
            match=r"heads.json: of another version \(.*(depth|foo).*\). Start the run anew",
        ):
            MultitaskBert.from_pretrained(tmp_path)
    for content in ("{", "[]", "{}"):
        (tmp_path / "heads.json").write_text(content)
        with pytest.raises(
            ValueError, match=r"heads.json: no record of heads there .*such as runs/NAME/model"
        ):
            MultitaskBert.from_pretrained(tmp_path)


def test_what_only_training_needs_is_not_stored(tiny_model, tokenizer, tmp_path):
    """A buffer that keeps the state of an epoch, as training-loop.md advises, must not keep the model from opening."""
    model = make_bert(tiny_model, pair_encoding="bi")
    model.register_buffer("needs", torch.ones(3))
    model.save_pretrained(tmp_path, tokenizer)
    assert "needs" not in MultitaskBert.from_pretrained(tmp_path).state_dict()


def test_a_name_without_a_head_is_an_error(tiny_model):
    with pytest.raises(ValueError, match="--head is 'blend'; it is one of features, vm, "):
        make_bert(tiny_model, head="blend")


def test_transformers_opens_the_folder(tiny_model, tokenizer, tmp_path):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    model = make_bert(tiny_model).eval()
    model.save_pretrained(tmp_path, tokenizer)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert"
    reference = transformers.AutoModel.from_pretrained(tmp_path).eval()
    batch = batch_of("para", tokenizer, "cross")
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    with torch.no_grad():
        expected = reference(*inputs).last_hidden_state
        found = model.encoder(*inputs).last_hidden_state
    is_token = batch.attention_mask.bool()
    torch.testing.assert_close(
        found[is_token], expected[is_token], rtol=0, atol=1e-5
    )  # fp32, 2 layers
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)("a tall soldier", "the hotel")[
        "input_ids"
    ]
    assert ids == tokenizer.encode(["a tall soldier"], ["the hotel"])[0][0]
