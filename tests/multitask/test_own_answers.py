"""What tasks of other kinds need: metrics, losses, and heads with several outputs for a pair.

References: scikit-learn for metrics, SciPy for ranks, torch for losses. If a number by hand is
wrong in one class only, two classes most likely share a weight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score, matthews_corrcoef

from data.batching import EncodedExamples
from data.examples import Example, Format
from data.task_specs import METRICS_OF_CLASSES
from minbert import BertTokenizer
from multitask.heads import (
    BilinearForm,
    CosineHead,
    PairMlpHeads,
    PairTask,
    TwoOrdersHead,
    module_name,
)
from multitask.losses import (
    absolute_loss,
    absolute_regression,
    fitted_range,
    similarity_loss,
    similarity_regression,
)
from multitask.model import MultitaskBert
from multitask.tasks import LOSSES, METRICS, TASKS, Task, macro_f1, matthews, spearman
from tests.toy_multitask import make_bert

RANDOM = np.random.default_rng(5)
PAIR = Format("nli", ("a", "b"), "label", 0, 2, True, ("x", "y", "z"), is_course=False)
NLI = Task("nli", "nli", PAIR, "classes", ("x", "y", "z"))
SAME = Task("type", "type", replace(PAIR, name="type", high=1), "binary", ("no", "yes"))
LIKE = Task(
    "like",
    "like",
    Format("like", ("a", "b"), "label", 1, 9, False, is_course=False),
    "score",
    loss_name="mae",
    metric_name="spearman",
)
TASKS_OF_ALL_KINDS = {**TASKS, "nli": NLI, "type": SAME, "like": LIKE}
PAIRS = [Example("1", "a girl", "a tall girl", 1.0), Example("2", "a hotel", "the man", 0.0)]


# --- metrics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_classes", [2, 3, 7])
@pytest.mark.parametrize("num_rows", [1, 5, 200])
def test_metrics_of_classes_are_those_of_scikit_learn(num_classes, num_rows):
    labels = RANDOM.integers(0, num_classes, num_rows).astype(np.float32)
    predictions = RANDOM.integers(0, num_classes, num_rows)
    expected = f1_score(labels, predictions, average="macro", zero_division=0)
    assert macro_f1(predictions, labels) == pytest.approx(expected)
    assert matthews(predictions, labels) == pytest.approx(matthews_corrcoef(labels, predictions))


def test_macro_f1_and_matthews_by_hand():
    labels = np.array([0, 0, 0, 1])
    # Class 0: 2 x 3 / (4 + 3). Class 1 is never predicted: 0.
    assert macro_f1(np.zeros(4), labels) == pytest.approx(6 / 7 / 2)
    assert matthews(np.zeros(4), labels) == 0.0, "one prediction for all tells nothing"
    assert matthews(labels, labels) == macro_f1(labels, labels) == 1.0
    assert matthews(1 - labels, labels) == pytest.approx(-1.0)


def test_a_rare_class_counts_in_macro_f1_and_not_in_accuracy():
    labels = np.array([0] * 99 + [1])
    assert METRICS["accuracy"].score(np.zeros(100), labels) == 0.99
    assert macro_f1(np.zeros(100), labels) < 0.5


def test_spearman_is_that_of_scipy():
    labels = RANDOM.integers(0, 6, 50).astype(np.float32)
    predictions = (labels + RANDOM.normal(size=50)).astype(np.float32)
    expected = scipy.stats.spearmanr(predictions, labels).statistic
    assert spearman(predictions, labels) == pytest.approx(expected)
    assert spearman(np.exp(predictions), labels) == pytest.approx(expected), "ranks alone count"
    assert spearman(np.ones(5), np.arange(5)) == 0.0


@pytest.mark.parametrize("name", [*METRICS_OF_CLASSES, "spearman"])
def test_metrics_refuse_other_shapes(name):
    with pytest.raises(ValueError, match=r"shape \(3, 1\), labels \(3,\)"):
        METRICS[name].score(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(ValueError, match="N >= 1"):
        METRICS[name].score(np.zeros(0), np.zeros(0))


# --- losses ---------------------------------------------------------------------------------------


def test_losses_by_name_are_torch_s():
    logits = torch.randn(6, 4)
    classes = torch.tensor([0.0, 3, 1, 2, 2, 0])
    torch.testing.assert_close(
        LOSSES["cross_entropy"](logits, classes), F.cross_entropy(logits, classes.long())
    )
    logit, label = torch.randn(6), torch.tensor([0.0, 1, 1, 0, 1, 0])
    torch.testing.assert_close(
        LOSSES["binary_cross_entropy"](logit, label),
        F.binary_cross_entropy_with_logits(logit, label),
    )
    torch.testing.assert_close(LOSSES["mse"](logit, label), F.mse_loss(logit, label))
    torch.testing.assert_close(LOSSES["mae"](logit, label), F.l1_loss(logit, label))


def test_the_absolute_loss():
    assert absolute_loss(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 3.0])).item() == 1.5
    with pytest.raises(ValueError, match=r"prediction is \(2, 1\), labels are \(2,\)"):
        absolute_loss(torch.zeros(2, 1), torch.zeros(2))


# --- cosines on other scales ----------------------------------------------------------------------


def test_a_cosine_on_another_scale():
    """From 1 to 9: a cosine of 1 is 9, one of M is 1, and the middle is between them."""
    u = torch.tensor([[1.0, 0.0]])
    head = CosineHead(has_range=True, low=1.0, high=9.0)
    assert head(u, 3 * u).item() == pytest.approx(9.0)
    assert head(u, torch.tensor([[0.0, 1.0]])).item() == pytest.approx(1.0)
    head.lowest.fill_(0.6)
    assert head(u, torch.tensor([[0.8, 0.6]])).item() == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("regression", "error"),
    [(similarity_regression, similarity_loss), (absolute_regression, absolute_loss)],
)
def test_an_error_of_the_cosine_costs_the_same_for_every_range(regression, error):
    cosines = torch.tensor([0.9, 0.7])
    labels = torch.tensor([8.0, 2.0])
    costs = []
    for lowest in (0.0, 0.5):
        prediction = 1 + 8 * (cosines - lowest) / (1 - lowest)
        targets = lowest + (1 - lowest) * (labels - 1) / 8
        # The cost in cosines, times the width of the scale.
        expected = error(8 * cosines, 8 * targets)
        torch.testing.assert_close(regression(prediction, labels, lowest), expected)
        costs.append(expected)
    assert costs[0] != costs[1]


def test_the_range_is_fitted_in_the_lowest_twentieth_of_a_scale():
    cosines = torch.tensor([0.4, 0.8, 0.9])
    labels = torch.tensor([1.3, 1.5, 9.0])
    # Buckets are .4 wide: [1, 1.4], (1.4, 1.8] and so on.
    assert fitted_range(cosines, labels, 8 / 20, 1.0) == pytest.approx(0.4)
    assert fitted_range(cosines, labels + 0.1, 8 / 20, 1.0) == pytest.approx(0.4)
    assert fitted_range(cosines, labels + 0.3, 8 / 20, 1.0) == pytest.approx((0.4 + 0.8) / 2)


# --- heads of pairs with several outputs ----------------------------------------------------------


@pytest.mark.parametrize(("has_difference", "has_activation"), [(False, False), (True, True)])
def test_both_orders_with_classes_are_as_many_heads_side_by_side(has_difference, has_activation):
    """Output c must be that of a head with one output that has the weights of class c."""
    torch.manual_seed(0)
    joined = TwoOrdersHead(6, 0.0, has_difference, has_activation, num_outputs=3)
    joined.reset(0.5)
    torch.nn.init.normal_(joined.dense.weight)
    vectors = joined.inputs(*torch.randn(2, 4, 6))
    outputs = joined(*vectors)
    assert outputs.shape == (4, 3)
    for number in range(3):
        single = TwoOrdersHead(6, 0.0, has_difference, has_activation)
        for layer, source in zip(single.logits, joined.logits, strict=True):
            layer.weight.data.copy_(source.weight[number : number + 1])
            layer.bias.data.copy_(source.bias[number : number + 1])
        single.dense.weight.data.copy_(joined.dense.weight[number : number + 1])
        single.dense.bias.data.copy_(joined.dense.bias[number : number + 1])
        torch.testing.assert_close(outputs[:, number], single(*vectors))


def test_bilinear_forms_are_torch_s():
    torch.manual_seed(0)
    form = BilinearForm(6, 3)
    reference = torch.nn.Bilinear(6, 6, 3)
    form.bilinear.weight.data.copy_(reference.weight.reshape(18, 6))
    form.bias.data.copy_(reference.bias)
    u, v = torch.randn(2, 4, 6)
    torch.testing.assert_close(form(u, v), reference(u, v))
    assert BilinearForm(6, 1)(u, v).shape == (4,)


def test_two_binary_tasks_share_no_bilinear_form():
    tasks = {"para": PairTask(), "other": PairTask(), "sts": PairTask(is_score=True)}
    heads = PairMlpHeads(4, 0.0, "heads", tasks=tasks)
    u, v = torch.randn(2, 3, 4)
    heads("other", u, v).sum().backward()
    assert heads.bilinear.weight.grad is None and heads.bias.grad is None
    assert heads.forms["task_other"].bilinear.weight.grad is not None
    heads.zero_grad(set_to_none=True)
    heads("para", u, v).sum().backward()
    assert heads.forms["task_other"].bilinear.weight.grad is None


def test_two_scores_have_two_scales():
    tasks = {"sts": PairTask(is_score=True), "own": PairTask(is_score=True, low=1, high=9)}
    heads = PairMlpHeads(4, 0.0, "heads", has_range=True, tasks=tasks)
    u = torch.randn(3, 4)
    torch.testing.assert_close(heads("sts", u, u), torch.full((3,), 5.0))
    torch.testing.assert_close(heads("own", u, u), torch.full((3,), 9.0))
    heads.cosine_of("own").lowest.fill_(0.5)
    assert heads.cosine_of("sts").lowest == 0
    assert set(heads.state_dict()) >= {"cosine.lowest", "cosines.task_own.lowest"}


def test_the_parameters_of_para_and_sts_keep_their_names():
    """Saved models and checkpoints of older versions hold these, in this order."""
    names = [name for name, _ in PairMlpHeads(4, 0.0, "first", has_range=True).named_parameters()]
    assert names == [
        "bias",
        "first.both.weight",
        "first.both.bias",
        "second.para.weight",
        "second.para.bias",
        "second.sts.weight",
        "second.sts.bias",
        "bilinear.weight",
    ]


# --- in the model ---------------------------------------------------------------------------------


@pytest.fixture
def rows(tiny_model):
    """A function from a pair encoding to a batch of pairs."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)

    def make(pair_encoding: str):
        return EncodedExamples(PAIRS, tokenizer, 32, pair_encoding).batch([0, 1])

    return make


@pytest.mark.parametrize(
    ("head", "pair_encoding"),
    [
        ("features", "cross"),
        ("vm", "bi"),
        ("ph", "dual"),
        ("dph", "dual"),
        ("dpha", "dual"),
        ("mlp", "bi"),
    ],
)
def test_every_head_answers_every_kind_and_is_saved(
    tiny_model, tmp_path, rows, head, pair_encoding
):
    """A name that nn.ModuleDict has itself, "type", must not be in the way."""
    model = make_bert(tiny_model, pair_encoding=pair_encoding, head=head, tasks=TASKS_OF_ALL_KINDS)
    model.eval()
    batch = rows(pair_encoding)
    shapes = {"para": (2,), "sts": (2,), "nli": (2, 3), "type": (2,), "like": (2,)}
    for name, shape in shapes.items():
        outputs = model(name, batch)
        assert outputs.shape == shape
        model.zero_grad(set_to_none=True)
        model.tasks[name].loss(outputs, batch.labels).backward()
        trained = set()
        for parameter_name, parameter in model.heads.named_parameters():
            if parameter.grad is not None:
                trained.add(parameter_name)
        others = {module_name(other) for other in shapes if other != name}
        assert trained and not [text for text in trained if others & set(text.split("."))]

    model.save_pretrained(tmp_path, BertTokenizer.from_pretrained(tiny_model))
    opened = MultitaskBert.from_pretrained(tmp_path)
    assert opened.tasks == TASKS_OF_ALL_KINDS and list(opened.tasks) == list(TASKS_OF_ALL_KINDS)
    with torch.no_grad():
        for name in shapes:
            torch.testing.assert_close(opened(name, batch), model(name, batch))


@pytest.mark.parametrize("head", ["features", "vm"])
def test_an_untrained_head_begins_in_the_middle_of_its_scale(tiny_model, rows, head):
    model = make_bert(tiny_model, head=head, tasks=TASKS_OF_ALL_KINDS).eval()
    with torch.no_grad():
        assert model("like", rows("cross")).tolist() == pytest.approx([5.0, 5.0], abs=1.5)
        assert model("sts", rows("cross")).tolist() == pytest.approx([2.5, 2.5], abs=1.5)
