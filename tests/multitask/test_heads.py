"""multitask/heads.py: each head by hand, on two units, and as a part of the model.

If a number by hand is wrong, two weights or two vectors most likely changed places.
"""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertTokenizer
from minbert.pooling import pool
from multitask.heads import (
    CosineHead,
    DenseHead,
    FeaturesHead,
    MlpHead,
    PairMlpHeads,
    TwoOrdersHead,
)
from multitask.model import MultitaskBert
from multitask.tasks import TASKS
from tests.toy_multitask import make_bert

U = torch.tensor([[1.0, 2.0]])
V = torch.tensor([[3.0, -1.0]])
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
EXAMPLES = {
    "sst": [Example("1", "a short doctor", None, 2.0), Example("2", "the girl", None, 0.0)],
    "para": [
        Example("1", "is the hotel tall", "how tall is the hotel", 1.0),
        Example("2", "a girl", "a letter", 0.0),
    ],
    "sts": [
        Example("1", "a girl", "a tall girl", 4.0),
        Example("2", "the soldier is in a hotel", "a letter", 0.5),
    ],
}


@torch.no_grad()
def fill(linear, weight, bias=0.0):
    linear.weight.copy_(torch.tensor(weight))
    if linear.bias is not None:
        linear.bias.fill_(bias)


# --- by hand ------------------------------------------------------------------------------------


def test_dense_head_by_hand():
    head = DenseHead(4, 1, 0.0)
    fill(head.dense, [[1.0, 10.0, 100.0, 1000.0]], 0.5)
    assert head(U, V).tolist() == [1 + 20 + 300 - 1000 + 0.5]
    assert DenseHead(2, 5, 0.0)(U).shape == (1, 5)


def test_features_head_by_hand():
    head = FeaturesHead(8, 1, 0.0)
    fill(head.dense, [[1.0, 0, 0, 0, 10.0, 0, 0, 100.0]])
    assert head(U, V).tolist() == [1 + 10 * 2 + 100 * -2]  # u_1, |u - v|_1, (u * v)_2


WEIGHTS = torch.tensor([1.0, 10.0, 100.0])  # of the logits, in the last layer
TANH = torch.tensor([1.0, 3.0, -2.0]).tanh()


@pytest.mark.parametrize(
    ("has_difference", "has_activation", "expected"),
    [
        (False, False, 1 + 10 * 3),
        (True, False, 1 + 30 + 100 * (1 - 3)),
        (True, True, float(TANH @ WEIGHTS)),
    ],
)
def test_two_orders_by_hand(has_difference, has_activation, expected):
    """Each order's logit is its first unit; the last layer weighs them 1, 10 and 100."""
    head = TwoOrdersHead(2, 0.0, has_difference, has_activation)
    for dense in head.logits:
        fill(dense, [[1.0, 0.0]])
    fill(head.dense, [WEIGHTS[: len(head.logits)].tolist()])
    assert head(*head.inputs(U, V)).item() == pytest.approx(expected)


def test_two_orders_start_as_the_mean_of_the_logits():
    head = TwoOrdersHead(2, 0.0, has_difference=True)
    head.reset(2.5)
    assert head.dense.weight.tolist() == [[pytest.approx(1 / 3)] * 3]
    assert head.dense.bias.item() == 2.5


@pytest.mark.parametrize("task", ["para", "sts"])
@pytest.mark.parametrize("has_difference", [False, True])
def test_after_tanh_an_untrained_head_can_say_all_of_its_scale(task, has_difference):
    """Similarities of 0 and of 5, and a paraphrase with 98 %. The mean of the logits could not."""
    head = TwoOrdersHead(2, 0.0, has_difference, has_activation=True)
    head.reset(TASKS[task].start)
    reach = head.dense.weight.sum().item()
    low = head.dense.bias.item() - reach
    high = head.dense.bias.item() + reach
    lowest, highest = {"sts": (0, 5), "para": (-4, 4)}[task]
    assert low <= lowest
    assert high >= highest


def test_cosine_by_hand():
    assert CosineHead()(U, V).item() == pytest.approx(5 * (3 - 2) / (5**0.5 * 10**0.5))
    assert not list(CosineHead().parameters())


def test_mlp_by_hand():
    head = MlpHead(2, 1, 0.0)
    fill(head.first, [[1.0, 0.0], [0.0, -1.0]])
    fill(head.second, [[2.0, 7.0]], 0.5)
    assert head(U).tolist() == [2 * 1 + 7 * 0 + 0.5]  # relu(-2) is 0


def test_pair_mlp_by_hand():
    """Both layers are the identity on positive numbers.

    STS: the cosine of (1, 2) and (3, 1). PARA: u . W v with W = diag(1, 10).
    """
    heads = PairMlpHeads(2, 0.0, "heads")
    fill(heads.first["both"], IDENTITY)
    fill(heads.second["both"], IDENTITY)
    fill(heads.bilinear, [[1.0, 0.0], [0.0, 10.0]])
    other = torch.tensor([[3.0, 1.0]])
    assert heads("sts", U, other).item() == pytest.approx(5 * 5 / (5**0.5 * 10**0.5))
    assert heads("para", U, other).item() == pytest.approx(1 * 3 + 2 * 10)
    heads.bias.data.fill_(-4.0)
    assert heads("para", U, other).item() == pytest.approx(1 * 3 + 2 * 10 - 4)
    assert heads("sts", U, 7 * U).item() == pytest.approx(5.0), "a cosine does not see length"


def test_para_s_bilinear_form_is_torch_s():
    torch.manual_seed(0)
    heads = PairMlpHeads(6, 0.0, "none")
    reference = torch.nn.Bilinear(6, 6, 1)
    reference.weight.data.copy_(heads.bilinear.weight.unsqueeze(0))
    heads.bias.data.copy_(reference.bias.squeeze())
    first, second = torch.randn(2, 4, 6)
    found = heads("para", first, second)
    u = heads.transform("para", first)
    v = heads.transform("para", second)
    expected = reference(u, v).squeeze(-1)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(heads.bilinear.weight.grad, reference.weight.grad[0])
    torch.testing.assert_close(heads.bias.grad, reference.bias.grad[0])


# --- dropout and sharing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "inputs", "bare"),
    [
        (DenseHead(4, 1, 0.5), (U, V), []),
        (FeaturesHead(8, 1, 0.5), (U, V), []),
        (MlpHead(2, 5, 0.5), (U,), []),
        (TwoOrdersHead(2, 0.5, has_difference=True), (U, V, U - V), ["dense"]),
        (PairMlpHeads(2, 0.5, "none"), ("para", U, V), ["bilinear"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dropout_stands_before_each_layer(head, inputs, bare):
    """But where logits are joined, or two results compared."""
    dropped = []
    found = []

    def note_output(module, given, output):
        dropped.append(output)

    def note_input(name):
        def note(module, given):
            found.append((name, any(given[0] is output for output in dropped)))

        return note

    for name, module in head.named_modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(note_output)
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(note_input(name))
    head.train()(*inputs)
    assert [name for name, is_dropped in found if not is_dropped] == bare
    assert len(found) > len(bare)


@pytest.mark.parametrize(("sharing", "layers"), [("none", 4), ("first", 3), ("heads", 2)])
def test_sharing_is_what_gets_both_gradients(sharing, layers):
    torch.manual_seed(0)
    heads = PairMlpHeads(6, 0.0, sharing)
    assert len(heads.first) + len(heads.second) == layers
    touched = {}
    for task in ("para", "sts"):
        heads.zero_grad()
        heads(task, torch.randn(4, 6), torch.randn(4, 6)).sum().backward()
        touched[task] = set()
        for name, parameter in heads.named_parameters():
            if parameter.grad is not None and "bias" not in name:
                touched[task].add(name)
    expected = {
        "none": set(),
        "first": {"first.both.weight"},
        "heads": {"first.both.weight", "second.both.weight"},
    }
    assert touched["para"] & touched["sts"] == expected[sharing]


# --- in the model -------------------------------------------------------------------------------


class Combination(NamedTuple):
    """Options that a model is built from."""

    head: str
    para_head: str
    pair_encoding: str
    pooling: str
    sharing: str
    common_layer: str


COMBINATIONS = [
    Combination("features", "auto", "bi", "cls", "none", "tanh"),
    Combination("features", "auto", "cross", "mean", "none", "none"),
    Combination("features", "vm", "cross", "pooler", "none", "tanh"),
    Combination("vm", "auto", "bi", "pooler", "none", "none"),
    Combination("vm", "auto", "cross", "cls", "none", "tanh"),
    Combination("vm", "auto", "dual", "mean", "none", "tanh"),
    Combination("ph", "auto", "dual", "pooler", "none", "tanh"),
    Combination("ph", "dph", "dual", "pooler", "none", "tanh"),
    Combination("dph", "auto", "dual", "cls", "none", "none"),
    Combination("dpha", "auto", "dual", "pooler", "none", "tanh"),
    Combination("mlp", "auto", "bi", "cls", "none", "none"),
    Combination("mlp", "auto", "bi", "cls", "heads", "none"),
    Combination("mlp", "auto", "cross", "mean", "first", "tanh"),
    Combination("cosine", "features", "bi", "mean", "none", "none"),
]


def make_model(folder, combination: Combination) -> MultitaskBert:
    return make_bert(folder, dropout=0.0, seed=3, **combination._asdict())


def batch_of(task, folder, pair_encoding):
    rows = EncodedExamples(EXAMPLES[task], BertTokenizer.from_pretrained(folder), 64, pair_encoding)
    return rows.batch(range(2))


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda values: "-".join(values))
def test_every_combination_trains_and_comes_back_from_disk(tiny_model, tmp_path, combination):
    pair_encoding = combination.pair_encoding
    model = make_model(tiny_model, combination).train()
    for task, shape in {"sst": (2, 5), "para": (2,), "sts": (2,)}.items():
        batch = batch_of(task, tiny_model, pair_encoding)
        outputs = model(task, batch)
        assert outputs.shape == shape
        TASKS[task].loss(outputs, batch.labels).backward()
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder.pooler"):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name

    model.eval().save_pretrained(tmp_path, BertTokenizer.from_pretrained(tiny_model))
    loaded = MultitaskBert.from_pretrained(tmp_path)
    for task in TASKS:
        batch = batch_of(task, tiny_model, pair_encoding)
        assert torch.equal(loaded(task, batch), model(task, batch))


def test_the_difference_goes_through_the_common_layer_as_both_orders_do(tiny_model):
    """[ROB] section 4: of the two embeddings, with which it is passed on.

    CL is the first layer of each head.
    """
    model = make_bert(tiny_model, pair_encoding="dual", head="dpha").eval()
    read = []

    def note_input(module, given):
        read.append(given[0])

    model.shared.register_forward_pre_hook(note_input)
    model("sts", batch_of("sts", tiny_model, "dual"))
    assert len(read) == 3
    assert torch.equal(read[2], read[0] - read[1])


@torch.no_grad()
def test_dual_is_both_orders_of_a_row(tiny_model):
    """PH against the same by hand: the two rows through the encoder, one after the other."""
    combination = Combination("ph", "auto", "dual", "cls", "none", "none")
    model = make_model(tiny_model, combination).eval()
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    batch = batch_of("sts", tiny_model, "dual")
    vectors = []
    for order in (1, -1):
        examples = []
        for example in EXAMPLES["sts"]:
            texts = example.texts[::order]
            examples.append(Example(example.id, *texts, example.label))
        rows = EncodedExamples(examples, tokenizer, 64, "cross").batch(range(2))
        output = model.encoder(rows.input_ids, rows.attention_mask, rows.token_type_ids)
        vectors.append(pool(output, rows.attention_mask, "cls"))

    head = model.heads["sts"]
    columns = []
    for vector, dense in zip(vectors, head.logits, strict=True):
        columns.append(F.linear(vector, dense.weight, dense.bias))
    logits = torch.cat(columns, dim=1)
    expected = F.linear(logits, head.dense.weight, head.dense.bias).squeeze(1)
    # fp32, another padding
    torch.testing.assert_close(model("sts", batch), expected, rtol=0, atol=1e-5)
    assert (model("sts", batch) - expected.flip(0)).abs().max() > 1e-4  # the negative control


def test_heads_differ_in_what_is_trained(tiny_model):
    names = set()
    for combination in COMBINATIONS:
        names.add(tuple(make_model(tiny_model, combination).heads.state_dict()))
    assert len(names) >= 6
