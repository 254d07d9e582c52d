"""The child's side of grading: how each function of the exercises is called.

A case comes from judging.py as arrays and plain values. The answer goes back as plain lists, which
JSON can hold. Nothing here knows which result is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minbert import AdamW, BertConfig, fast
from minbert.attention import MultiHeadAttention
from minbert.bert import BertEmbeddings, BertLayer, FeedForward

Tensors = dict[str, Tensor]
Settings = Mapping[str, Any]

# --- a call and its answer ------------------------------------------------------------------------


def warm_up() -> None:
    """Let torch open the files that it opens once. A child may open none."""
    # A thread of torch's would not be there in a forked process.
    torch.set_num_threads(1)
    AdamW([nn.Parameter(torch.zeros(1))])
    torch.zeros(2, 2).half().float().log_softmax(dim=-1)
    torch.zeros(2, 2).bfloat16() @ torch.zeros(2, 2).bfloat16()


def answer(name: str, function: Any, inputs: Mapping[str, np.ndarray], options: Settings) -> str:
    """Call a function, and describe its result as JSON.

    The JSON holds `output`, its `dtype`, `changed` (names of inputs that it changed) and
    `gradients` (by name of the inputs in options["gradients_of"]: of the sum of output times the
    input "probe"). An exception of the function is `error` instead.
    """
    torch.manual_seed(options.get("seed", 0))
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in inputs.items()}
    before = {key: value.clone() for key, value in tensors.items()}
    wanted = options.get("gradients_of", [])
    for key in wanted:
        tensors[key].requires_grad_()
    try:
        with fast.switched(is_fast=False):
            output = CALLS[name](function, dict(tensors), options)
        parts = {
            "output": output,
            "dtype": str(getattr(output, "dtype", "")).removeprefix("torch."),
            "changed": [key for key in tensors if is_changed(tensors[key], before[key])],
            "gradients": gradients_of(output, tensors, wanted),
        }
        return json.dumps(parts, default=described)
    except Exception as error:  # whatever the student's code raises
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:500]})


def is_changed(tensor: Tensor, before: Tensor) -> bool:
    """Whether a tensor holds other numbers than before."""
    return not torch.equal(tensor.detach().nan_to_num(), before.nan_to_num())


def gradients_of(output: Any, tensors: Tensors, names: Sequence[str]) -> Tensors:
    """The gradients of sum(output x probe), 0 where none flows."""
    if not names:
        return {}
    total = (output * tensors["probe"]).sum() if "probe" in tensors else output
    wanted = [tensors[name] for name in names]
    found = torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


def described(value: Any) -> Any:
    """What JSON lacks: a tensor as its numbers, and any other object as the name of its type."""
    return {"numbers": value.tolist()} if isinstance(value, Tensor) else type(value).__name__


# --- the calls ------------------------------------------------------------------------------------


def call_plain(function: Any, inputs: Tensors, options: Settings) -> Any:
    """Pass the inputs by name, those of options["in_dtype"] in the dtype of the case."""
    tensors = {name: tensor for name, tensor in inputs.items() if name != "probe"}
    for name in options.get("in_dtype", ()):
        tensors[name] = tensors[name].to(getattr(torch, options["dtype"]))
    return function(**tensors, **options["arguments"])


def call_mask_to_bias(function: Any, inputs: Tensors, options: Settings) -> Any:
    """Call `mask_to_bias` for the dtype of the case."""
    return function(inputs["mask"], getattr(torch, options["dtype"]))


# A small encoder without dropout.
CONFIG = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 12,
    "layer_norm_eps": 0.01,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def call_module(build: Callable[[BertConfig], nn.Module], *names: str) -> Callable[..., Any]:
    """A call of a method of a module in float64. The inputs of these names are passed."""

    def call(function: Any, inputs: Tensors, options: Settings) -> Any:
        module = build(BertConfig(**options["config"])).double().train(options["training"])
        for name, parameter in module.named_parameters():
            parameter.data.copy_(inputs[f"weights.{name}"])
        output = function(module, *(inputs.get(name) for name in names))
        return torch.stack([*output]) if isinstance(output, tuple | list) else output

    return call


def call_update(function: Any, inputs: Tensors, options: Settings) -> Any:
    """Train two parameters of one group; the second one has no gradient at first."""
    parameters = [nn.Parameter(value.clone()) for value in inputs["start"]]
    optimizer = AdamW(parameters, **options["settings"])
    group = optimizer.param_groups[0]
    steps = []
    for step, rate in enumerate(options["rates"]):
        group["lr"] = rate
        settings = {key: value for key, value in group.items() if key != "params"}
        for number, parameter in enumerate(parameters):
            if step < options["first_steps"][number]:
                continue
            gradient = inputs["gradients"][step, number]
            parameter.grad = gradient.clone()
            optimizer.prepare(parameter)
            with torch.no_grad():
                function(optimizer, parameter, group)
            if not torch.equal(parameter.grad, gradient):
                raise ValueError("the gradient was changed")
        if settings != {key: value for key, value in group.items() if key != "params"}:
            raise ValueError("the settings of the group were changed")
        steps.append(torch.stack([parameter.detach() for parameter in parameters]))
    return torch.stack(steps)


def call_schedule(function: Any, inputs: Tensors, options: Settings) -> Any:
    """The factors of all steps of the case."""
    return [function(*arguments) for arguments in options["calls"]]


def call_mask_tokens(function: Any, inputs: Tensors, options: Settings) -> Any:
    """Mask twice with the same seed, and once more with what follows."""
    results = []
    for is_seeded in (True, True, False):
        if is_seeded:
            torch.manual_seed(options["seed"])
        results.append(function(**inputs, **options["arguments"]))
    return results


def call_sampler(function: Any, inputs: Tensors, options: Settings) -> Any:
    """Call a sampler several times. Also returns which passes it asked for of each task."""
    results = []
    generator = torch.Generator().manual_seed(options["seed"])
    for _ in range(options.get("num_calls", 1)):
        if options.get("is_reseeded"):
            generator.manual_seed(options["seed"])
        asked: dict[str, list[list[int]]] = {task: [] for task in options["num_rows"]}
        makes = {}
        for task, num_rows in options["num_rows"].items():
            makes[task] = batch_maker(num_rows, asked[task])
        arguments = [options["argument"]] if "argument" in options else []
        steps = [list(step) for step in function(makes, generator, *arguments)]
        results.append([steps, asked])
    return results


def batch_maker(num_rows: int, asked: list[list[int]]) -> Callable[..., Any]:
    """A function that forms batches of two rows in a new order, and notes them in `asked`."""

    def make(generator: torch.Generator) -> list[list[int]]:
        order = torch.randperm(num_rows, generator=generator).tolist()
        batches = [order[start : start + 2] for start in range(0, num_rows, 2)]
        asked.extend(list(batch) for batch in batches)
        return batches

    return make


def call_pcgrad(function: Any, inputs: Tensors, options: Settings) -> Any:
    """The weights of many steps, (steps, K)."""
    generator = torch.Generator().manual_seed(options["seed"])
    steps = []
    for _ in range(options.get("num_steps", 1)):
        if options.get("is_reseeded"):
            generator.manual_seed(options["seed"])
        steps.append(function(inputs["gramian"], options.get("reduction", "sum"), generator))
    return torch.stack(steps)


CALLS: dict[str, Callable[..., Any]] = {
    "attention": call_plain,
    "mask_to_bias": call_mask_to_bias,
    "MultiHeadAttention.project": call_module(MultiHeadAttention, "hidden"),
    "MultiHeadAttention.forward": call_module(MultiHeadAttention, "hidden", "mask_bias"),
    "AdamW.update": call_update,
    "BertEmbeddings.forward": call_module(BertEmbeddings, "ids", "segments"),
    "FeedForward.forward": call_module(FeedForward, "hidden"),
    "BertLayer.forward": call_module(BertLayer, "hidden", "mask_bias", "positions"),
    "linear": call_schedule,
    "cosine": call_schedule,
    "mask_tokens": call_mask_tokens,
    "sentiment_loss": call_plain,
    "paraphrase_loss": call_plain,
    "similarity_loss": call_plain,
    "info_nce": call_plain,
    "joint": call_sampler,
    "mt_dnn": call_sampler,
    "pcgrad_weights": call_pcgrad,
}
