"""The child's side of grading: how each function of the exercises is called.

The answer goes back as plain lists, which JSON can hold. Nothing here knows which result is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minbert import AdamW, BertConfig, fast

Values = dict[str, Any]

# A case is its values by name: arrays and plain values. These say how a function is called, and are
# none of its arguments. `seed`: of torch. `draws`: how often the rows of the arrays are repeated.
# `cast`: the arrays that are passed in the dtype `cast_to`. `gradients_of`: the arrays whose
# gradients are judged, and "weights" for those of a module. `leaves`: their tensors by name.
# `under`: makes the context of the call, such as torch.no_grad.
SETTINGS_OF_CALLS = {"seed", "draws", "cast", "cast_to", "gradients_of", "leaves", "under"}

# Calls a function, with the values of a case.
Call = Callable[[Any, Values], Any]


# --- a call and its answer ------------------------------------------------------------------------


def warm_up() -> None:
    """Let torch open the files that it opens once. A child may open none."""
    # A thread of torch's would not be there in a forked process.
    torch.set_num_threads(1)
    AdamW([nn.Parameter(torch.zeros(1))])
    # It imports further modules when it is called first.
    torch.broadcast_shapes((1,), (1,))
    torch.zeros(2, 2).half().float().log_softmax(dim=-1)
    torch.zeros(2, 2).bfloat16() @ torch.zeros(2, 2).bfloat16()


def answer(function: Any, call: Call, values: Values) -> str:
    """Call a function on a case, and describe its result as JSON.

    The JSON holds `output`, its `dtype`, `changed` (names of inputs that it changed) and
    `gradients` (by name of the inputs in `gradients_of`: of the sum of the output, each number
    times one that is always the same). An exception of the function is `error` instead.
    """
    torch.manual_seed(values["seed"])
    tensors = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            draws = values.get("draws", 0)
            array = np.concatenate([value] * draws) if draws else value.copy("K")
            tensors[name] = torch.from_numpy(array)
    wanted = values.get("gradients_of", ())
    leaves = {name: tensors[name].requires_grad_() for name in wanted if name in tensors}
    for name in values.get("cast", ()):
        tensors[name] = tensors[name].to(values["cast_to"])
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    try:
        with fast.switched(is_fast=False):
            output = call(function, {**values, **tensors, "leaves": leaves})
        parts = {
            "output": output,
            "dtype": str(getattr(output, "dtype", "")).removeprefix("torch."),
            "changed": [name for name in tensors if not torch.equal(tensors[name], before[name])],
            "gradients": gradients_of(output, leaves),
        }
        return json.dumps(parts, default=described)
    except Exception as error:  # whatever the student's code raises
        hint = ", or no answer may use it" if isinstance(error, NameError) else ""
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:500] + hint})


def gradients_of(output: Any, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of the sum of output x probe, 0 where none flows."""
    if not leaves:
        return {}
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    gradients = torch.autograd.grad(
        (output * probe).sum(), [*leaves.values()], allow_unused=True, materialize_grads=True
    )
    return dict(zip(leaves, gradients, strict=True))


def described(value: Any) -> Any:
    """What JSON lacks: a tensor as its numbers, and any other object as the name of its type."""
    return {"numbers": value.tolist()} if isinstance(value, Tensor) else type(value).__name__


# --- the calls ------------------------------------------------------------------------------------


def call_plain(function: Any, values: Values) -> Any:
    """Pass the values by name, inside the context `under`."""
    arguments = {key: value for key, value in values.items() if key not in SETTINGS_OF_CALLS}
    with values.get("under", nullcontext)():
        return function(**arguments)


def call_mask_to_bias(function: Any, values: Values) -> Tensor:
    """`call_plain`, where any very negative number is as right. -1e4 is -9,984 in bfloat16."""
    bias = call_plain(function, values)
    return bias.where(bias.isinf(), bias.clamp(min=-9e3))


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


def call_module(function: Any, values: Values) -> Any:
    """Call a method of a module with random weights in float64, and pass it tensors and None.

    build: the class of the module. config: what differs from CONFIG. The weights are always the
    same: `seed` is that of dropout.
    """
    module = values["build"](BertConfig(**CONFIG | values.get("config", {}))).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    if "weights" in values["gradients_of"]:
        values["leaves"].update(module.named_parameters())
    module.train(values.get("training", False))
    arguments = {name: value for name, value in values.items() if isinstance(value, Tensor | None)}
    output = function(module, **arguments)
    # Three tensors are not one of three times the rows.
    return torch.stack([*output])[None] if isinstance(output, tuple | list) else output


LEARNING_RATES = (0.1, 0.05, 0.2, 0.15, 0.0, 4.0)  # of the steps, which begin anew
ADAMW = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0, "correct_bias": True}


def call_update(function: Any, values: Values) -> Any:
    """Train two parameters of a second group; the last one has no gradient at first.

    start: (2, ...). gradients: (steps, 2, ...). settings: what differs from ADAMW. of_others: what
    differs from these in the defaults and in the first group. The moments of the last step come
    behind the parameters of all steps.
    """
    gradients = values["gradients"]
    parameters = [nn.Parameter(value.clone()) for value in values["start"]]
    settings = ADAMW | values.get("settings", {})
    groups = [{"params": [nn.Parameter(torch.zeros(1))]}, {"params": parameters, **settings}]
    optimizer = AdamW(groups, **settings | values.get("of_others", {}))
    group = optimizer.param_groups[1]
    steps = []
    for step in range(len(gradients)):
        group["lr"] = LEARNING_RATES[step % len(LEARNING_RATES)]
        for number, parameter in enumerate(parameters):
            if step < min(2 * number, len(gradients) - 1):
                continue
            parameter.grad = gradients[step, number]
            optimizer.prepare(parameter)
            with torch.no_grad():
                # The settings of the group must not be changed.
                function(optimizer, parameter, MappingProxyType(group))
        steps.append(torch.stack([parameter.detach() for parameter in parameters]))
    for moment in ("first_moment", "second_moment"):
        steps.append(torch.stack([optimizer.state[parameter][moment] for parameter in parameters]))
    return torch.stack(steps)


def call_schedule(function: Any, values: Values) -> Any:
    """The factors of all steps of the case."""
    return [function(*arguments) for arguments in values["steps"]]


# --- random numbers -------------------------------------------------------------------------------


def repeated(
    values: Values, generator: torch.Generator, run: Callable[[torch.Generator], Any]
) -> list[Any]:
    """The results of `num_calls` calls. They share a generator, and with is_reseeded its state."""
    results = []
    for number in range(values["num_calls"]):
        if number == 0 or values.get("is_reseeded"):
            generator.manual_seed(values["seed"])
        results.append(run(generator))
    return results


# Token ids: [CLS], [MASK], and the first one that may be a later piece of a word.
CLS, MASK, PIECE = 2, 3, 50


def call_mask_tokens(function: Any, values: Values) -> Tensor:
    """input_ids and labels of each call, (R, 2, B, T)."""
    ids = values["input_ids"]
    is_special = ids == CLS
    is_piece = (ids >= PIECE) | is_special
    is_piece[:, : values.get("first_piece", 2)] = False
    before = is_piece.clone()
    pieces = is_piece if values.get("whole_words") else None
    settings = (values["vocab_size"], MASK, values["probability"], pieces)

    def run(generator: torch.Generator) -> Tensor:
        parts = function(ids, is_special, *settings)
        if any(part.dtype != torch.int64 for part in parts):
            raise TypeError("expected are two tensors of int64")
        if any(part.data_ptr() == ids.data_ptr() for part in parts):
            raise ValueError("input_ids itself was returned")
        return torch.stack([*parts])

    results = repeated(values, torch.default_generator, run)
    masks = {"is_special": (is_special, ids == CLS), "continues": (is_piece, before)}
    for name, (mask, expected) in masks.items():
        if not torch.equal(mask, expected):
            raise ValueError(f"{name} was changed in place")
    return torch.stack(results)


def call_sampler(function: Any, values: Values) -> Any:
    """Call a sampler several times. Also returns the batches that it asked for, of each task."""
    arguments = [values["argument"]] if "argument" in values else []
    before = repr(arguments)

    def run(generator: torch.Generator) -> Any:
        asked: dict[str, list[list[int]]] = {task: [] for task in values["num_rows"]}
        returned: list[tuple[list[list[int]], list[list[int]]]] = []

        def make(task: str, generator: torch.Generator) -> list[list[int]]:
            """Batches of rows in a new order. The rows of each pass have other numbers."""
            num_rows = values["num_rows"][task]
            order = torch.randperm(num_rows, generator=generator) + 100 * len(asked[task])
            size = values.get("batch_sizes", {}).get(task, 2)
            # Later passes have fewer batches.
            size += values.get("later_growth", 0) if asked[task] else 0
            rows = order.tolist()
            batches = [rows[start : start + size] for start in range(0, num_rows, size)]
            asked[task] += [list(batch) for batch in batches]
            returned.append((batches, [list(batch) for batch in batches]))
            return batches

        steps = function({task: partial(make, task) for task in asked}, generator, *arguments)
        steps = [list(step) for step in steps]
        if any(batches != copied for batches, copied in returned):
            raise ValueError("a list that make_batches returned was changed")
        if repr(arguments) != before:
            raise ValueError("weights was changed")
        return [steps, asked]

    return repeated(values, torch.Generator(), run)


def call_pcgrad(function: Any, values: Values) -> Any:
    """The weights of many steps, (steps, K)."""
    is_global = values.get("is_global", False)
    reduction = values.get("reduction", "sum")

    def run(generator: torch.Generator) -> Any:
        return function(values["gramian"], reduction, None if is_global else generator)

    return torch.stack(repeated(values, torch.Generator(), run))
