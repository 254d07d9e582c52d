"""multitask/model.py: shapes, the two sides of a pair, gradients, and a folder that others open.

If the test of a pair in one row fails, the model most likely takes a mean over padding, or over the
other sentence.
"""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from data.batching import EncodedExamples
from data.examples import Example
from data.task_specs import stored
from minbert import BertModel, BertTokenizer
from multitask.heads import DenseHead, pair_features
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
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
each_encoding = pytest.mark.parametrize("pair_encoding", ["cross", "bi"])
each_pooling = pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


def batch_of(task, tokenizer, pair_encoding, examples=None):
    rows = EncodedExamples(examples or ROWS[task], tokenizer, 64, pair_encoding)
    return rows.batch(range(len(rows)))


# --- outputs and modes --------------------------------------------------------------------------


@each_encoding
@each_pooling
def test_shapes(tiny_model, tokenizer, pair_encoding, pooling):
    model = make_bert(tiny_model, pooling, pair_encoding)
    for task, shape in {"sst": (3, 5), "para": (2,), "sts": (2,)}.items():
        for count in (len(ROWS[task]), 1):  # a batch of one stays a batch
            batch = batch_of(task, tokenizer, pair_encoding, ROWS[task][:count])
            outputs = model(task, batch)
            assert outputs.shape == (count, *shape[1:]), (task, count)
            assert TASKS[task].loss(outputs, batch.labels).shape == ()


@pytest.mark.parametrize("has_encoder_dropout", [True, False])
def test_training_with_and_without_dropout_in_the_encoder(
    tiny_model, tokenizer, has_encoder_dropout
):
    """Without it the heads' dropout stays, and the encoder is trained all the same."""
    encoder = BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    model = make_bert(encoder, dropout=0.5, has_encoder_dropout=has_encoder_dropout)
    assert model.train() is model
    assert model.training
    assert model.heads["sst"].training
    assert encoder.training == has_encoder_dropout == encoder.layers[0].attention.training

    batch = batch_of("sst", tokenizer, "cross")
    once = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    again = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    assert torch.equal(once, again) != has_encoder_dropout
    assert not torch.equal(model("sst", batch), model("sst", batch))
    model("sst", batch).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.layers.parameters())
    assert not model.eval().encoder.training
    assert not model.heads["sst"].training


def test_similarity_starts_at_the_middle_of_its_scale(tiny_model, tokenizer):
    predictions = make_bert(tiny_model).eval()("sts", batch_of("sts", tokenizer, "cross"))
    assert predictions.tolist() == pytest.approx([2.5, 2.5], abs=0.3)  # start values are small


def test_features_of_a_pair_by_hand():
    first = torch.tensor([[1.0, 2]])
    second = torch.tensor([[3.0, -1]])
    assert pair_features(first, second).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]
    head = DenseHead(2, 1, 0.0)
    head.dense.weight.data = torch.tensor([[10.0, 1]])
    head.dense.bias.data = torch.tensor([0.5])
    assert head(torch.tensor([[1.0, 2], [0, 3]])).tolist() == [12.5, 3.5]


# --- the two sides of a pair --------------------------------------------------------------------


def swapped(examples):
    pairs = []
    for example in examples:
        pairs.append(Example(example.id, example.sentence_2, example.sentence_1, example.label))
    return pairs


@torch.no_grad()
def test_swapping_a_pair_apart(tiny_model, tokenizer):
    """|u - v| and u * v are the same for both orders. u and v change places.

    So do their columns in the head.
    """
    model = make_bert(tiny_model, pair_encoding="bi").eval()
    one = batch_of("sts", tokenizer, "bi")
    other = batch_of("sts", tokenizer, "bi", swapped(ROWS["sts"]))
    expected = model("sts", one)
    assert (model("sts", other) - expected).abs().max() > 1e-4

    weight = model.heads["sts"].dense.weight  # (1, 4H)
    u, v, difference, product = weight.clone().chunk(4, dim=1)
    weight.copy_(torch.cat([v, u, difference, product], dim=1))
    # fp32, another padding
    torch.testing.assert_close(model("sts", other), expected, rtol=0, atol=1e-5)


def output_apart(model, tokenizer) -> torch.Tensor:
    """STS with each sentence alone and unpadded through the encoder, the features written out."""
    rows = []
    for example in ROWS["sts"]:
        vectors = []
        for text in (example.sentence_1, example.sentence_2):
            states = model.encoder(tokenizer([text])["input_ids"]).last_hidden_state[0]
            vectors.append(torch.tanh(model.shared(states.mean(dim=0))))
        u, v = vectors
        rows.append(torch.cat([u, v, (u - v).abs(), u * v]))
    dense = model.heads["sts"].dense
    return (torch.stack(rows) @ dense.weight.T + dense.bias)[:, 0]


def test_a_pair_apart_in_one_pass_is_two_passes(tiny_model, tokenizer):
    """Output and gradients."""
    found = []
    for is_apart in (False, True):
        model = make_bert(tiny_model, pair_encoding="bi").eval()
        if is_apart:
            output = output_apart(model, tokenizer)
        else:
            output = model("sts", batch_of("sts", tokenizer, "bi"))
        TASKS["sts"].loss(output, torch.tensor([4.0, 0.5])).backward()
        tensors = {"output": output.detach()}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[name] = parameter.grad
        found.append(tensors)
    assert len(found[0]) > 30
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_swapping_a_pair_together(tiny_model, tokenizer):
    """In one row the two orders are two inputs, told apart by position and segment."""
    model = make_bert(tiny_model).eval()
    one = batch_of("sts", tokenizer, "cross")
    other = batch_of("sts", tokenizer, "cross", swapped(ROWS["sts"]))
    assert (model("sts", one) - model("sts", other)).abs().max() > 1e-5


@torch.no_grad()
def test_a_pair_in_one_row_gives_the_mean_of_each_sentence(tiny_model, tokenizer):
    """By hand, each pair alone and unpadded. With the sides exchanged it is another number."""
    model = make_bert(tiny_model).eval()
    found = model("sts", batch_of("sts", tokenizer, "cross"))
    dense = model.heads["sts"].dense
    for row, example in enumerate(ROWS["sts"]):
        alone = batch_of("sts", tokenizer, "cross", [example])
        states = model.encoder(alone.input_ids, None, alone.token_type_ids).last_hidden_state[0]
        vectors = []
        for segment in (0, 1):
            is_inside = alone.token_type_ids[0] == segment
            vectors.append(torch.tanh(model.shared(states[is_inside].mean(dim=0))))
        u, v = vectors
        features = torch.cat([u, v, (u - v).abs(), u * v])
        assert float(dense(features)) == pytest.approx(float(found[row]), abs=1e-5)
        exchanged = torch.cat([v, u, (u - v).abs(), u * v])
        assert abs(float(dense(exchanged)) - float(found[row])) > 1e-4


@torch.no_grad()
def test_the_segment_of_the_second_sentence_counts(tiny_model, tokenizer):
    model = make_bert(tiny_model).eval()
    batch = batch_of("sts", tokenizer, "cross")
    assert batch.token_type_ids.sum() > 0
    expected = model("sts", batch)
    batch.token_type_ids[:, 1] = 1
    assert (model("sts", batch) - expected).abs().max() > 1e-5


# --- gradients, seeds, dropout ------------------------------------------------------------------


def without_gradient(model) -> set[str]:
    """The names of the parameters that have no gradient, or one of zeros."""
    names = set()
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not parameter.grad.abs().sum() > 0:
            names.add(name)
    return names


@each_encoding
@each_pooling
def test_every_parameter_gets_a_gradient(tiny_model, tokenizer, pair_encoding, pooling):
    model = make_bert(tiny_model, pooling, pair_encoding).train()
    for task in TASKS:
        batch = batch_of(task, tokenizer, pair_encoding)
        TASKS[task].loss(model(task, batch), batch.labels).backward()
    pooler = {"encoder.pooler.weight", "encoder.pooler.bias"}
    assert without_gradient(model) == (set() if pooling == "pooler" else pooler)


def test_a_task_reaches_its_own_head_only(tiny_model, tokenizer):
    model = make_bert(tiny_model)
    model("sts", batch_of("sts", tokenizer, "cross")).sum().backward()
    touched = {name for name, head in model.heads.items() if head.dense.weight.grad is not None}
    assert touched == {"sts"}
    assert model.shared.weight.grad is not None


def test_heads_depend_on_the_seed_alone(tiny_model):
    encoder = BertModel.from_pretrained(tiny_model)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = make_bert(encoder, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    same = make_bert(encoder, seed=3)
    other = make_bert(encoder, seed=4)
    for parameter, parameter_of_same in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(parameter, parameter_of_same)
    assert not torch.equal(one.shared.weight, other.shared.weight)
    assert one.shared.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not one.shared.bias.any()


def test_dropout_is_before_the_head_and_off_when_predicting(tiny_model, tokenizer):
    encoder = BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = make_bert(encoder, dropout=0.5)
    batch = batch_of("sst", tokenizer, "cross")
    assert not torch.equal(model.train()("sst", batch), model("sst", batch))
    assert torch.equal(model.eval()("sst", batch), model("sst", batch))


def test_dropout_is_before_the_common_layer(tiny_model, tokenizer):
    """Of vectors that are dropped whole, that layer leaves tanh of its bias, and not 0."""
    model = make_bert(tiny_model, dropout=0.0).train()
    model.dropout.probability = 1.0
    torch.manual_seed(0)  # one unit of 65,536 would stay
    with torch.no_grad():
        model.shared.bias.fill_(0.5)
        found = model("sst", batch_of("sst", tokenizer, "cross"))
        expected = model.heads["sst"](torch.tanh(model.shared.bias).expand(len(found), -1))
    torch.testing.assert_close(found, expected)


# --- options that cannot be ---------------------------------------------------------------------


def test_a_name_without_a_head_is_an_error(tiny_model):
    with pytest.raises(ValueError, match="--head is 'blend'; it is one of features, vm, "):
        make_bert(tiny_model, head="blend")


def test_a_model_needs_a_pair_encoding(tiny_model):
    encoder = BertModel.from_pretrained(tiny_model)
    with pytest.raises(ValueError, match="--pair_encoding is auto; a model needs one of cross, bi"):
        MultitaskBert(encoder, "mean", HeadOptions(), seed=0)


# --- on disk ------------------------------------------------------------------------------------


@each_encoding
def test_saved_and_loaded(tiny_model, tokenizer, tmp_path, pair_encoding):
    model = make_bert(tiny_model, "cls", pair_encoding, seed=9).eval()
    model.save_pretrained(tmp_path, tokenizer)
    loaded = MultitaskBert.from_pretrained(tmp_path)
    assert (loaded.pooling, loaded.pair_encoding, loaded.training) == ("cls", pair_encoding, False)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name])
    again = BertTokenizer.from_pretrained(tmp_path)
    for task in TASKS:
        batch = batch_of(task, again, pair_encoding)
        assert torch.equal(model(task, batch), loaded(task, batch))


@pytest.fixture
def saved(tiny_model, tokenizer, tmp_path):
    """The folder of a saved model, which may be changed: there is no record of its files."""
    make_bert(tiny_model, "cls").save_pretrained(tmp_path, tokenizer)
    (tmp_path / "SHA256SUMS").unlink()
    return tmp_path


def test_heads_that_cannot_be_read(saved):
    path = saved / "heads.safetensors"
    cut = {name: tensor[..., :1].contiguous() for name, tensor in load_file(path).items()}
    message = r"(?s)heads.safetensors: these heads cannot be read .*Bring the folder"
    save_file(cut, path)
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)
    path.unlink()
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)


def test_heads_without_a_record_of_their_pooling(saved):
    (saved / "sentence.json").unlink()
    message = r"the record of the pooling is missing \(sentence.json\).* Bring the file back"
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)


def test_heads_of_another_version(saved):
    tensors = load_file(saved / "heads.safetensors")
    tensors["heads.old.bias"] = tensors.pop("heads.sts.dense.bias")
    save_file(tensors, saved / "heads.safetensors")
    names = "it lacks heads.sts.dense.bias, and this model has no heads.old.bias."
    with pytest.raises(ValueError, match=f"heads.safetensors: {names}.* Bring both files back"):
        MultitaskBert.from_pretrained(saved)


@pytest.mark.parametrize("change", [{"depth": 3}, {"sharing": "foo"}])
def test_a_record_of_heads_of_another_version(saved, change):
    stored = json.loads((saved / "heads.json").read_text())
    (saved / "heads.json").write_text(json.dumps(stored | change))
    message = r"heads.json: of another version \(.*(depth|foo).*\). Start the run anew"
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)


@pytest.mark.parametrize("name", ["head", "para_head"])
def test_a_head_that_no_file_has_registered(saved, name):
    stored = json.loads((saved / "heads.json").read_text())
    (saved / "heads.json").write_text(json.dumps(stored | {name: "foo"}))
    message = "heads.json: there is no head 'foo'. If a file of --plugin registers it, load that"
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_record_of_heads_that_is_none(saved, content):
    (saved / "heads.json").write_text(content)
    message = r"heads.json: no record of heads there .*such as runs/NAME/model"
    with pytest.raises(ValueError, match=message):
        MultitaskBert.from_pretrained(saved)


def test_the_record_of_heads_keeps_its_form(saved):
    """Other versions read it, and models that they wrote open here."""
    assert json.loads((saved / "heads.json").read_text()) == {
        "pair_encoding": "cross",
        "head": "features",
        "para_head": "features",
        "sharing": "none",
        "has_common_layer": True,
        "sts_range": "zero",
        "tasks": json.loads(json.dumps(stored(TASKS))),
    }


def test_a_folder_of_an_older_version_has_the_tasks_of_the_course(saved):
    """The commit 94b06e7 wrote no tasks into heads.json."""
    path = saved / "heads.json"
    settings = json.loads(path.read_text())
    del settings["tasks"]
    path.write_text(json.dumps(settings))
    assert MultitaskBert.from_pretrained(saved).tasks == TASKS


def test_what_only_training_needs_is_not_stored(tiny_model, tokenizer, tmp_path):
    """A buffer that keeps the state of an epoch must not keep the model from opening.

    docs/training-loop.md advises such buffers.
    """
    model = make_bert(tiny_model, pair_encoding="bi")
    model.register_buffer("needs", torch.ones(3))
    model.save_pretrained(tmp_path, tokenizer)
    assert "needs" not in MultitaskBert.from_pretrained(tmp_path).state_dict()


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
    # fp32, 2 layers
    torch.testing.assert_close(found[is_token], expected[is_token], rtol=0, atol=1e-5)

    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = their_tokenizer("a tall soldier", "the hotel")["input_ids"]
    assert ids == tokenizer.encode(["a tall soldier"], ["the hotel"])[0][0]
