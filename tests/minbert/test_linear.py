"""The linear layer by oneDNN: the same numbers as torch's, and where it is taken."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.embedder import open_embedder
from contrastive.zero_shot import embed
from minbert import linear
from minbert.linear import (
    Linear,
    OneDNNLinear,
    can_pack,
    has_onednn,
    pack,
    packed_weights,
    use_onednn,
)
from minbert.options import FP32_ONEDNN, check_compiled
from minbert.training import cost_estimate, runtime
from multitask import Predictor
from multitask.rows import read_tables
from tests.toy_multitask import after_two_steps, encoded, task_job, two_task_options

TEXTS = ["A lovely film.", "An awful one, and too long."]
CPU = torch.device("cpu")
needs_onednn = pytest.mark.skipif(not has_onednn(), reason="torch has no oneDNN here")
needs_packing = pytest.mark.skipif(
    not can_pack(Linear(6, 4), torch.bfloat16), reason="weights are not packed on this machine"
)
UNIT = 2.0**-24  # float32 rounds by at most this share


def results(layer: nn.Linear, inputs: Tensor, gradient: Tensor) -> list[Tensor]:
    """Output and gradients of inputs, weight and bias."""
    inputs = inputs.detach().requires_grad_()
    outputs = layer(inputs)
    sources = [inputs, *layer.parameters()]
    return [outputs, *torch.autograd.grad(outputs, sources, gradient)]


INPUTS = {
    "two axes": lambda: torch.randn(7, 6),
    "three axes": lambda: torch.randn(3, 5, 6),
    "one row": lambda: torch.randn(6),
    "every second row": lambda: torch.randn(5, 12, 6)[:, ::2],
    "batch and tokens exchanged": lambda: torch.randn(5, 3, 6).transpose(0, 1),
    "columns beside each other": lambda: torch.randn(6, 12).t(),
    "one row for all": lambda: torch.randn(1, 1, 6).expand(3, 4, 6),
    "no sentence": lambda: torch.randn(0, 5, 6),
    "no token": lambda: torch.randn(3, 0, 6),
}


@needs_onednn
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("name", INPUTS)
def test_output_and_gradients_are_those_of_torch(name, has_bias):
    """In float64 torch says what is right. Each sum of n numbers may err by n roundings."""
    torch.manual_seed(0)
    inputs = INPUTS[name]()
    layer = Linear(6, 4, bias=has_bias)
    exact = nn.Linear(6, 4, bias=has_bias).double()
    exact.load_state_dict(layer.state_dict())
    use_onednn(layer, True)
    gradient = torch.randn(*inputs.shape[:-1], 4)

    computed = results(layer, inputs, gradient)
    expected = results(exact, inputs.double(), gradient.double())
    # The same sums of absolute values bound the rounding.
    for parameter in exact.parameters():
        parameter.data.abs_()
    sizes = results(exact, inputs.double().abs(), gradient.double().abs())
    for value, right, size in zip(computed, expected, sizes, strict=True):
        assert value.shape == right.shape and value.dtype == torch.float32
        assert ((value - right).abs() <= 64 * UNIT * size).all(), name


@needs_onednn
def test_a_wrong_gradient_would_be_seen(monkeypatch):
    """The negative control of the test above: a product that forgets a row of the inputs."""
    right = linear.product
    monkeypatch.setattr(linear, "product", lambda a, b, bias=None: right(a, b.roll(1, -1), bias))
    with pytest.raises(AssertionError):
        test_output_and_gradients_are_those_of_torch("two axes", True)


@needs_onednn
def test_it_is_taken_for_float32_on_a_cpu_alone(monkeypatch):
    """Elsewhere, and where the sizes do not fit, torch computes or says what is wrong."""
    calls = []
    apply = OneDNNLinear.apply

    def noted(*arguments):
        calls.append(arguments)
        return apply(*arguments)

    monkeypatch.setattr(OneDNNLinear, "apply", noted)
    layer = Linear(6, 4)
    inputs = torch.randn(2, 6)
    layer(inputs)
    assert not calls, "it was not asked for"

    use_onednn(layer, True)
    layer(inputs)
    assert len(calls) == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(inputs).dtype == torch.bfloat16
    copy.deepcopy(layer).double()(inputs.double())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(torch.randn(2, 5))
    assert len(calls) == 1


@needs_onednn
def test_a_second_derivative_is_refused():
    """It would be wrong without a word: backward is no formula that autograd follows."""
    layer = Linear(6, 4)
    use_onednn(layer, True)
    inputs = torch.randn(2, 6, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(inputs).square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_where_torch_has_no_onednn(monkeypatch):
    """A new run is refused. A run that another machine trained with it is opened as fp32."""
    monkeypatch.setattr(runtime, "has_onednn", lambda: False)
    with pytest.raises(ValueError, match=r"has no oneDNN product on this machine\. Use fp32"):
        runtime.choose_precision(FP32_ONEDNN, CPU)
    assert runtime.choose_precision("fp32", CPU)[0] == "fp32"
    layer = Linear(6, 4)
    runtime.choose_products(layer, FP32_ONEDNN)
    inputs = torch.randn(2, 6)
    assert torch.equal(layer(inputs), F.linear(inputs, layer.weight, layer.bias))


def test_a_gpu_and_compiled_layers_are_refused():
    with pytest.raises(ValueError, match="is for the CPU, and the device is cuda"):
        runtime.choose_precision(FP32_ONEDNN, torch.device("cuda"))
    assert runtime.choose_precision("fp32", torch.device("cuda"))[0] == "fp32"
    with pytest.raises(ValueError, match="--compile and --precision fp32-onednn"):
        check_compiled(True, FP32_ONEDNN)
    check_compiled(True, "fp32")
    check_compiled(False, FP32_ONEDNN)


@needs_onednn
def test_a_run_and_a_finished_model_take_it(monkeypatch, sample_data, tiny_model, tmp_path):
    """The precision is all that a command passes on. Each must reach the layers."""
    shapes = []
    right = linear.product

    def counted(left: Tensor, right_side: Tensor, bias: Tensor | None = None) -> Tensor:
        shapes.append(left.shape)
        return right(left, right_side, bias)

    def vectors(precision: str) -> Tensor:
        return open_embedder(tiny_model, device="cpu", precision=precision)[0].encode(TEXTS)[0]

    def answers(precision: str) -> Tensor:
        probabilities = Predictor(task="sst", precision=precision).predict_proba(TEXTS)
        return torch.from_numpy(probabilities)

    def weights(precision: str) -> Tensor:
        options = two_task_options(sample_data, tiny_model).with_values(precision=precision)
        rows = encoded(options, read_tables(options.data))
        trained = after_two_steps(task_job(options, rows, tmp_path / precision))
        return torch.cat([tensor.float().flatten() for tensor in trained.values()])

    monkeypatch.setattr(linear, "product", counted)
    for work in (vectors, answers, weights):
        expected = work("fp32")
        assert not shapes
        torch.testing.assert_close(work(FP32_ONEDNN), expected, rtol=1e-4, atol=1e-5)
        assert shapes, work.__name__
        shapes.clear()


@needs_onednn
def test_the_limit_is_that_of_the_same_product(monkeypatch):
    """Else a share of the limit could be over 1."""
    calls = []

    def noted(left, right):
        calls.append(right)
        return left

    monkeypatch.setattr(linear, "product", noted)
    cost_estimate.matrix_product_limit(CPU, "fp32", num_timed=1)
    assert not calls
    cost_estimate.matrix_product_limit(CPU, FP32_ONEDNN, num_timed=1)
    assert calls


# --- packed weights -------------------------------------------------------------------------------


def multiplied(layer: nn.Module, inputs: Tensor, precision: str) -> Tensor:
    """The outputs of a layer without gradients, in a precision."""
    runtime.choose_products(layer, precision)
    with torch.no_grad(), runtime.autocast(CPU, precision):
        return layer(inputs)


@needs_packing
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("precision", ["bf16", FP32_ONEDNN])
@pytest.mark.parametrize("name", INPUTS)
def test_packed_weights_give_the_same_product(name, precision, has_bias, monkeypatch):
    torch.manual_seed(0)
    inputs = INPUTS[name]()
    layer = Linear(6, 4, bias=has_bias)
    expected = multiplied(layer, inputs, precision)
    pack(layer, expected.dtype)

    # Only the packed weight may be read from here on, but for float32 of no rows.
    if inputs.numel() > 0:
        monkeypatch.setattr(linear, "linear", None)
    computed = multiplied(layer, inputs, precision)
    assert computed.dtype == expected.dtype
    # One rounding of the last digit, and for a sum near 0 the roundings of its terms.
    unit = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(computed, expected, rtol=unit, atol=unit)


@needs_packing
def test_a_packed_weight_serves_the_present_weight_alone(monkeypatch):
    """With gradients, in another precision and after a change, the layer computes as without it."""
    inputs = torch.randn(3, 6)
    layer = Linear(6, 4)
    pack(layer, torch.bfloat16)
    layer(inputs).sum().backward()
    assert layer.weight.grad is not None
    assert torch.equal(
        multiplied(layer, inputs, "fp32"), F.linear(inputs, layer.weight, layer.bias)
    )
    # autocast leaves float64 as it is, so torch says that the types differ.
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        multiplied(layer, inputs.double(), "bf16")

    before = multiplied(layer, inputs, "bf16")
    changes = {
        "a step": lambda: layer.weight.add_(1.0),
        "a new bias": lambda: layer.bias.add_(1.0),
        "another file": lambda: layer.load_state_dict(Linear(6, 4).state_dict()),
        "new storage": lambda: setattr(layer.weight, "data", torch.ones(4, 6)),
    }
    for name, change in changes.items():
        with torch.no_grad():
            change()
        after = multiplied(layer, inputs, "bf16")
        assert not torch.equal(after, before), name
        assert torch.equal(after, multiplied(copy.deepcopy(layer), inputs, "bf16")), name
        pack(layer, torch.bfloat16)
        before = multiplied(layer, inputs, "bf16")

    # The negative control: without the comparison of states the old weight would be used.
    monkeypatch.setattr(linear, "state_of", lambda layer: ())
    pack(layer, torch.bfloat16)
    with torch.no_grad():
        layer.weight.add_(1.0)
    assert torch.equal(multiplied(layer, inputs, "bf16"), before)


@needs_packing
def test_a_copy_of_a_layer_has_no_packed_weight():
    layer = Linear(6, 4)
    pack(layer, torch.float32)
    assert layer.packed is not None
    assert copy.deepcopy(layer).packed is None


@needs_packing
def test_a_block_leaves_what_it_came_upon():
    packed, plain = Linear(6, 4), Linear(6, 4)
    model = nn.Sequential(packed, plain)
    pack(packed, torch.bfloat16)
    before = packed.packed
    with packed_weights(model, torch.bfloat16):
        assert packed.packed is before
        assert plain.packed is not None
    assert packed.packed is before
    assert plain.packed is None


@needs_packing
def test_what_is_not_packed():
    layer = Linear(6, 4)
    assert can_pack(layer, torch.bfloat16)
    assert not can_pack(copy.deepcopy(layer).to("meta"), torch.bfloat16)
    compiled = copy.deepcopy(layer)
    compiled.compile(backend="eager")
    assert not can_pack(nn.Sequential(compiled), torch.bfloat16)
    with torch.inference_mode():
        inference = Linear(6, 4)
    assert not can_pack(inference, torch.bfloat16)


@needs_packing
def test_vectors_and_answers_take_packed_weights(monkeypatch, tiny_model):
    """An embedder packs once. Answers pack for each call, if it has several batches."""
    packs = []
    right = linear.PackedWeight

    def counted(layer: Linear, dtype: torch.dtype) -> linear.PackedWeight:
        packs.append(dtype)
        return right(layer, dtype)

    monkeypatch.setattr(linear, "PackedWeight", counted)
    embedder, _ = open_embedder(tiny_model, device="cpu", precision="bf16")
    assert packs and set(packs) == {torch.bfloat16}
    packs.clear()
    vectors, _ = embedder.encode(TEXTS)
    assert not packs

    # An encoder that is trained is packed for the time of its evaluation.
    encoder = copy.deepcopy(embedder.encoder)
    rows = embedder.rows_of(TEXTS, "")
    assert torch.equal(embed(encoder, rows, embedder.pooling, "bf16"), vectors)
    assert packs and all(
        layer.packed is None for layer in encoder.modules() if isinstance(layer, Linear)
    )

    packs.clear()
    predictor = Predictor(task="sst", precision="bf16")
    predictor.predict(TEXTS)
    assert not packs
    predictor.predict(TEXTS * 100)
    assert packs
