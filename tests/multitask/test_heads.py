"""multitask/heads.py: each head by hand, on two units, and as a part of the model."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from data.batching import EncodedExamples
from data.readers import Example
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

U, V = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])
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
COMBINATIONS = [  # head, PARA's head, pair encoding, pooling, sharing, common layer
    ("features", "", "bi", "cls", "none", True),
    ("features", "", "cross", "mean", "none", False),
    ("features", "vm", "cross", "pooler", "none", True),
    ("vm", "", "bi", "pooler", "none", False),
    ("vm", "", "cross", "cls", "none", True),
    ("vm", "", "dual", "mean", "none", True),
    ("ph", "", "dual", "pooler", "none", True),
    ("ph", "dph", "dual", "pooler", "none", True),
    ("dph", "", "dual", "cls", "none", False),
    ("dpha", "", "dual", "pooler", "none", True),
    ("mlp", "", "bi", "cls", "none", False),
    ("mlp", "", "bi", "cls", "heads", False),
    ("mlp", "", "cross", "mean", "first", True),
    ("cosine", "features", "bi", "mean", "none", False),
]


@torch.no_grad()
def fill(linear, weight, bias=0.0):
    linear.weight.copy_(torch.tensor(weight))
    if linear.bias is not None:
        linear.bias.fill_(bias)


def test_dense_head_by_hand():
    head = DenseHead(4, 1, 0.0)
    fill(head.dense, [[1.0, 10.0, 100.0, 1000.0]], 0.5)
    assert head(U, V).tolist() == [1 + 20 + 300 - 1000 + 0.5]
    assert DenseHead(2, 5, 0.0)(U).shape == (1, 5)


def test_features_head_by_hand():
    head = FeaturesHead(8, 1, 0.0)
    fill(head.dense, [[1.0, 0, 0, 0, 10.0, 0, 0, 100.0]])
    assert head(U, V).tolist() == [1 + 10 * 2 + 100 * -2]  # u_1, |u - v|_1, (u * v)_2


@pytest.mark.parametrize(
    ("has_difference", "has_activation", "expected"),
    [(False, False, 1 + 10 * 3), (True, False, 1 + 30 + 100 * (1 - 3)), (True, True, None)],
)
def test_two_orders_by_hand(has_difference, has_activation, expected):
    """Each order's logit is its first unit; the last layer weighs them 1, 10 and 100."""
    head = TwoOrdersHead(2, 0.0, has_difference, has_activation)
    for dense in head.logits:
        fill(dense, [[1.0, 0.0]])
    fill(head.dense, [[1.0, 10.0, 100.0][: len(head.logits)]])
    tanh = torch.tensor([1.0, 3.0, -2.0]).tanh()
    expected = (tanh @ torch.tensor([1.0, 10.0, 100.0])).item() if expected is None else expected
    assert head(*head.inputs(U, V)).item() == pytest.approx(expected)


def test_two_orders_start_as_the_mean_of_the_logits():
    head = TwoOrdersHead(2, 0.0, has_difference=True)
    head.reset(2.5)
    assert (
        head.dense.weight.tolist() == [[pytest.approx(1 / 3)] * 3] and head.dense.bias.item() == 2.5
    )


@pytest.mark.parametrize("task", ["para", "sts"])
@pytest.mark.parametrize("has_difference", [False, True])
def test_under_tanh_a_head_can_say_all_of_its_scale_before_it_has_learned(task, has_difference):
    """Similarities of 0 and of 5, and a paraphrase with 98 %; as the mean of the logits it could not."""
    head = TwoOrdersHead(2, 0.0, has_difference, has_activation=True)
    head.reset(TASKS[task].start)
    low, high = head.dense.bias.item() + torch.tensor([-1, 1]) * head.dense.weight.sum().item()
    assert (low <= 0 and high >= 5) if task == "sts" else (low <= -4 and high >= 4)


def test_the_difference_goes_through_the_common_layer_as_both_orders_do(tiny_model):
    """[ROB] section 4: of the two embeddings, with which it is passed on; CL is the first layer of each head."""
    model = make_bert(tiny_model, pair_encoding="dual", head="dpha").eval()
    read = []
    model.shared.register_forward_pre_hook(lambda module, given: read.append(given[0]))
    model("sts", batch_of("sts", tiny_model, "dual"))
    assert len(read) == 3 and torch.equal(read[2], read[0] - read[1])


def test_cosine_by_hand():
    assert CosineHead()(U, V).item() == pytest.approx(5 * (3 - 2) / (5**0.5 * 10**0.5))
    assert not list(CosineHead().parameters())


def test_mlp_by_hand():
    head = MlpHead(2, 1, 0.0)
    fill(head.first, [[1.0, 0.0], [0.0, -1.0]])
    fill(head.second, [[2.0, 7.0]], 0.5)
    assert head(U).tolist() == [[2 * 1 + 7 * 0 + 0.5]]  # relu(-2) is 0


def test_pair_mlp_by_hand():
    """Both layers the identity on positive numbers: cosine of (1, 2) and (3, 1), and u . W v with W = diag(1, 10)."""
    heads = PairMlpHeads(2, 0.0, "heads")
    for layer in (heads.first["both"], heads.second["both"]):
        fill(layer, [[1.0, 0.0], [0.0, 1.0]])
    fill(heads.bilinear, [[1.0, 0.0], [0.0, 10.0]])
    other = torch.tensor([[3.0, 1.0]])
    assert heads("sts", U, other).item() == pytest.approx(5 * 5 / (5**0.5 * 10**0.5))
    assert heads("para", U, other).item() == pytest.approx(1 * 3 + 2 * 10)
    heads.bias.data.fill_(-4.0)
    assert heads("para", U, other).item() == pytest.approx(1 * 3 + 2 * 10 - 4)
    assert heads("sts", U, 7 * U).item() == pytest.approx(5.0), "a cosine does not see length"


def test_para_s_bilinear_form_is_torch_s():
    torch.manual_seed(0)
    heads, reference = PairMlpHeads(6, 0.0, "none"), torch.nn.Bilinear(6, 6, 1)
    reference.weight.data.copy_(heads.bilinear.weight.unsqueeze(0))
    heads.bias.data.copy_(reference.bias.squeeze())
    first, second = torch.randn(2, 4, 6)
    found = heads("para", first, second)
    expected = reference(heads.transform("para", first), heads.transform("para", second)).squeeze(
        -1
    )
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(heads.bilinear.weight.grad, reference.weight.grad[0])
    torch.testing.assert_close(heads.bias.grad, reference.bias.grad[0])


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
    dropped, found = [], []
    for name, module in head.named_modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda module, given, output: dropped.append(output))
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(
                lambda module, given, name=name: found.append(
                    (name, any(given[0] is each for each in dropped))
                )
            )
    head.train()(*inputs)
    assert [name for name, is_dropped in found if not is_dropped] == bare and len(found) > len(bare)


@pytest.mark.parametrize(("sharing", "layers"), [("none", 4), ("first", 3), ("heads", 2)])
def test_sharing_is_what_gets_both_gradients(sharing, layers):
    torch.manual_seed(0)
    heads = PairMlpHeads(6, 0.0, sharing)
    assert len(heads.first) + len(heads.second) == layers
    touched = {}
    for task in ("para", "sts"):
        heads.zero_grad()
        heads(task, torch.randn(4, 6), torch.randn(4, 6)).sum().backward()
        touched[task] = {
            name
            for name, p in heads.named_parameters()
            if p.grad is not None and "bias" not in name
        }
    expected = {
        "none": set(),
        "first": {"first.both.weight"},
        "heads": {"first.both.weight", "second.both.weight"},
    }
    assert touched["para"] & touched["sts"] == expected[sharing]


def make_model(
    folder, head, para_head, pair_encoding, pooling, sharing, has_common_layer
) -> MultitaskBert:
    return make_bert(
        folder,
        pooling,
        pair_encoding,
        dropout=0.0,
        seed=3,
        head=head,
        para_head=para_head or "auto",
        sharing=sharing,
        common_layer="tanh" if has_common_layer else "none",
    )


def batch_of(task, folder, pair_encoding):
    rows = EncodedExamples(EXAMPLES[task], BertTokenizer.from_pretrained(folder), 64, pair_encoding)
    return rows.batch(range(2))


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda values: "-".join(map(str, values)))
def test_every_combination_trains_and_comes_back_from_disk(tiny_model, tmp_path, combination):
    pair_encoding = combination[2]
    model = make_model(tiny_model, *combination).train()
    for task, shape in {"sst": (2, 5), "para": (2,), "sts": (2,)}.items():
        batch = batch_of(task, tiny_model, pair_encoding)
        outputs = model(task, batch)
        assert outputs.shape == shape
        TASKS[task].loss(outputs, batch.labels).backward()
    without = {
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0
    }
    assert {name for name in without if not name.startswith("encoder.pooler")} == set()
    model.eval().save_pretrained(tmp_path, BertTokenizer.from_pretrained(tiny_model))
    loaded = MultitaskBert.from_pretrained(tmp_path)
    for task in TASKS:
        batch = batch_of(task, tiny_model, pair_encoding)
        assert torch.equal(loaded(task, batch), model(task, batch))


@torch.no_grad()
def test_dual_is_both_orders_of_a_row(tiny_model):
    """PH against the same by hand: the two rows through the encoder, one after the other."""
    model = make_model(tiny_model, "ph", "", "dual", "cls", "none", False).eval()
    batch = batch_of("sts", tiny_model, "dual")
    vectors = []
    for order in (1, -1):
        examples = [
            Example(e.id, *(e.sentence_1, e.sentence_2)[::order], e.label) for e in EXAMPLES["sts"]
        ]
        rows = EncodedExamples(
            examples, BertTokenizer.from_pretrained(tiny_model), 64, "cross"
        ).batch(range(2))
        output = model.encoder(rows.input_ids, rows.attention_mask, rows.token_type_ids)
        vectors.append(pool(output, rows.attention_mask, "cls"))
    head = model.heads["sts"]
    logits = torch.cat(
        [F.linear(v, d.weight, d.bias) for v, d in zip(vectors, head.logits, strict=True)], dim=1
    )
    expected = F.linear(logits, head.dense.weight, head.dense.bias).squeeze(1)
    torch.testing.assert_close(
        model("sts", batch), expected, rtol=0, atol=1e-5
    )  # fp32, another padding
    assert (model("sts", batch) - expected.flip(0)).abs().max() > 1e-4  # the negative control


def test_heads_differ_in_what_they_learn(tiny_model):
    names = [
        make_model(tiny_model, *combination).heads.state_dict().keys()
        for combination in COMBINATIONS
    ]
    assert len({tuple(keys) for keys in names}) >= 6
