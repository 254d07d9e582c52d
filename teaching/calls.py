"""The child's side of grading: how each function of the exercises is called.

The answer goes back as plain lists, which JSON can hold. Nothing here knows which result is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
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
# gradients are judged.
SETTINGS_OF_CALLS = {"seed", "draws", "cast", "cast_to", "gradients_of"}

# Calls a function, with the values of a case.
Call = Callable[[Any, Values], Any]


# --- a call and its answer ------------------------------------------------------------------------


def warm_up() -> None:
    """Let torch open the files that it opens once. A child may open none."""
    # A thread of torch's would not be there in a forked process.
    torch.set_num_threads(1)
    AdamW([nn.Parameter(torch.zeros(1))])
    torch.zeros(2, 2).half().float().log_softmax(dim=-1)
    torch.zeros(2, 2).bfloat16() @ torch.zeros(2, 2).bfloat16()


def answer(function: Any, call: Call, values: Values) -> str:
    """Call a function on a case, and describe its result as JSON.

    The JSON holds `output`, its `dtype`, `changed` (names of inputs that it changed) and
    `gradients` (by name of the inputs in `gradients_of`: of the sum of the output, each number
    times one that is always the same). An exception of the function is `error` instead.
    """
    torch.manual_seed(values["seed"])
    arrays = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[name] = np.concatenate([value] * values.get("draws", 1))
    tensors = {name: torch.from_numpy(value.copy("K")) for name, value in arrays.items()}
    wanted = values.get("gradients_of", [])
    for name in wanted:
        tensors[name].requires_grad_()
    try:
        with fast.switched(is_fast=False):
            output = call(function, values | tensors)
        parts = {
            "output": output,
            "dtype": str(getattr(output, "dtype", "")).removeprefix("torch."),
            "changed": [name for name in tensors if is_changed(tensors[name], arrays[name])],
            "gradients": gradients_of(output, tensors, wanted),
        }
        return json.dumps(parts, default=described)
    except Exception as error:  # whatever the student's code raises
        hint = ", or no answer may use it" if isinstance(error, NameError) else ""
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:500] + hint})


def is_changed(tensor: Tensor, before: np.ndarray) -> bool:
    """Whether a tensor holds other numbers than before."""
    return not np.array_equal(np.nan_to_num(tensor.detach().numpy()), np.nan_to_num(before))


def gradients_of(output: Any, tensors: dict[str, Tensor], names: Sequence[str]) -> Values:
    """The gradients of the sum of output x probe, 0 where none flows."""
    if not names:
        return {}
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    wanted = [tensors[name] for name in names]
    gradients = torch.autograd.grad(
        (output * probe).sum(), wanted, allow_unused=True, materialize_grads=True
    )
    return dict(zip(names, gradients, strict=True))


def described(value: Any) -> Any:
    """What JSON lacks: a tensor as its numbers, and any other object as the name of its type."""
    return {"numbers": value.tolist()} if isinstance(value, Tensor) else type(value).__name__


# --- the calls ------------------------------------------------------------------------------------


def call_plain(function: Any, values: Values) -> Any:
    """Pass the values by name, those of `cast` in the dtype of the case."""
    arguments = {key: value for key, value in values.items() if key not in SETTINGS_OF_CALLS}
    for name in values.get("cast", ()):
        arguments[name] = arguments[name].to(values["cast_to"])
    return function(**arguments)


def call_with_a_wrong_label(function: Any, values: Values) -> bool:
    """Whether a label that is no class is refused."""
    try:
        call_plain(function, values)
    except (IndexError, RuntimeError):
        return True
    return False


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
    module.train(values.get("training", False))
    arguments = {name: value for name, value in values.items() if isinstance(value, Tensor | None)}
    output = function(module, **arguments)
    # Three tensors are not one of three times the rows.
    return torch.stack([*output])[None] if isinstance(output, tuple | list) else output


def call_for_gradients(function: Any, values: Values) -> Tensor:
    """The gradients of a module's parameters and hidden states, one behind the other."""
    leaves: list[Tensor] = []

    def noted(module: nn.Module, **arguments: Any) -> Any:
        leaves.extend(module.parameters())
        if "hidden_states" in arguments:
            leaves.append(arguments["hidden_states"].requires_grad_())
        return function(module, **arguments)

    output = call_module(noted, values)
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    gradients = torch.autograd.grad(
        (output * probe).sum(), leaves, allow_unused=True, materialize_grads=True
    )
    return torch.cat([gradient.flatten() for gradient in gradients])


LEARNING_RATES = (0.1, 0.05, 0.2, 0.15, 0.0, 4.0)  # of the steps, which begin anew
ADAMW = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0, "correct_bias": True}


def call_update(function: Any, values: Values) -> Any:
    """Train two parameters of one group; the second one has no gradient at first.

    start: (2, ...). gradients: (steps, 2, ...). settings: what differs from ADAMW. The moments of
    the last step come behind the parameters of all steps.
    """
    gradients = values["gradients"]
    parameters = [nn.Parameter(value.clone()) for value in values["start"]]
    optimizer = AdamW(parameters, **ADAMW | values.get("settings", {}))
    group = optimizer.param_groups[0]
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


def call_in_a_second_group(function: Any, values: Values) -> Any:
    """`call_update`, where the defaults and the first group have other settings."""

    def update(optimizer: Any, parameter: nn.Parameter, group: Values) -> None:
        other = {"lr": 2.0, "betas": (0.1, 0.2), "eps": 3.0, "weight_decay": 0.0}
        optimizer.defaults.update(other)
        optimizer.param_groups = [{**group, **other}, group]
        function(optimizer, parameter, group)

    return call_update(update, values)


def call_schedule(function: Any, values: Values) -> Any:
    """The factors of all steps of the case."""
    return [function(*arguments) for arguments in values["steps"]]


# Token ids: [CLS], [MASK], and the first one that may be a later piece of a word.
CLS, MASK, PIECE = 2, 3, 50


def continues(ids: Any) -> Any:
    """Whether a token is a later piece of a word. ids: (B, T), a tensor or an array."""
    is_piece = (ids >= PIECE) | (ids == CLS)
    is_piece[:, :2] = False
    return is_piece


def call_mask_tokens(function: Any, values: Values) -> Any:
    """Mask twice with the same seed, and three times more with what follows."""
    ids = values["input_ids"]
    is_piece = continues(ids) if values.get("whole_words") else None
    is_special = ids == CLS
    settings = (values["vocab_size"], MASK, values["probability"], is_piece)
    results = []
    for is_seeded in (True, True, False, False, False):
        if is_seeded:
            torch.manual_seed(values["seed"])
        results.append(function(ids, is_special, *settings))
        if any(part.dtype != torch.int64 or part is ids for part in results[-1]):
            raise TypeError("expected are two new tensors of int64")
    if not torch.equal(is_special, ids == CLS):
        raise ValueError("is_special was changed in place")
    return results


def generators(values: Values) -> Iterator[torch.Generator]:
    """The generator of each of `num_calls` calls: always the same, or one that begins anew."""
    generator = torch.Generator().manual_seed(values["seed"])
    for _ in range(values.get("num_calls", 1)):
        if values.get("is_reseeded"):
            generator.manual_seed(values["seed"])
        yield generator


def call_sampler(function: Any, values: Values) -> Any:
    """Call a sampler several times. Also returns which passes it asked for of each task."""
    results = []
    for generator in generators(values):
        asked: dict[str, list[list[int]]] = {task: [] for task in values["num_rows"]}
        makes = {}
        given: dict[str, list[list[list[int]]]] = {task: [] for task in asked}
        for task, num_rows in values["num_rows"].items():
            makes[task] = batch_maker(num_rows, asked[task], given[task])
        arguments = [values["argument"]] if "argument" in values else []
        results.append([[list(step) for step in function(makes, generator, *arguments)], asked])
        if any(list(chain(*given[task])) != asked[task] for task in asked):
            raise ValueError("a list that make_batches returned was changed")
    return results


def batch_maker(
    num_rows: int, asked: list[list[int]], given: list[list[list[int]]]
) -> Callable[..., Any]:
    """A function that forms batches of two rows in a new order.

    asked: receives copies of the batches. given: the lists that the function returns.
    """

    def make(generator: torch.Generator) -> list[list[int]]:
        order = torch.randperm(num_rows, generator=generator).tolist()
        batches = [order[start : start + 2] for start in range(0, num_rows, 2)]
        asked.extend(list(batch) for batch in batches)
        given.append(batches)
        return batches

    return make


def call_pcgrad(function: Any, values: Values) -> Any:
    """The weights of many steps, (steps, K)."""
    reduction = values.get("reduction", "sum")
    steps = []
    for generator in generators(values):
        source = None if values.get("is_global") else generator
        steps.append(function(values["gramian"], reduction, source))
    return torch.stack(steps)
