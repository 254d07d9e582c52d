"""How answers are judged, and the numbers that cases are made of.

A judge gets the case, the student's answer, and a function that computes the right answer: the
released function, called in the same way. `right(name=value)` computes it with another value of the
case. A judge returns "" for a right answer, and otherwise says what is wrong. checks.py lists the
checks of each function.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from teaching.calls import CLS, MASK, Values

Array = NDArray[Any]
Rng = np.random.Generator
Drawn = Callable[[Rng], Any]


class Answer(NamedTuple):
    """What a function gave back."""

    output: Any
    changed: list[str]
    gradients: dict[str, Array]
    dtype: str  # of an output that is a tensor


Right = Callable[..., Answer]
Judge = Callable[[Values, Answer, Right], str]

# What shows the law of random outputs: (R, n) by name, a row for each of R draws. It gets the case
# and the output, and raises ValueError with what is wrong in a single draw.
Numbers = Callable[[Values, Any], dict[str, Array]]


def read_answer(line: str) -> dict[str, Any]:
    """The parts of an answer from the child's JSON (calls.py), with tensors as arrays."""
    return dict(json.loads(line, object_hook=as_array))


def as_array(parts: dict[str, Any]) -> Any:
    """The array that stands in JSON as {"numbers": [...]}."""
    return np.array(parts["numbers"]) if "numbers" in parts else parts


CHANCE = 1e-6  # with which `same_law` refuses a right answer, at most

# --- judges ---------------------------------------------------------------------------------------


def compare(output: Any, expected: Any, tolerance: float = 1e-5, smallest: float = 1.0) -> str:
    """Compare numbers, up to a tolerance relative to the largest, or to `smallest` if it is less.

    Says what is wrong: the largest difference, and where in the array it is.
    """
    if not isinstance(output, np.ndarray):
        return f"returned {output}, expected a tensor: is the return missing?"
    if output.shape != expected.shape:
        return f"shape {output.shape}, expected {expected.shape}"
    if not np.isfinite(output).all():
        return "the result is not finite (nan or inf)"
    difference = np.abs(output - expected)
    if difference.max(initial=0) <= tolerance * max(smallest, np.abs(expected).max(initial=0)):
        return ""
    place = tuple(int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
    where = f" at {place}" if place else ""
    numbers = f"{output[place]:.5g}, expected {expected[place]:.5g}"
    return f"off by {difference.max():.2g}{where}: {numbers}"


def compare_dtypes(answer: Answer, expected: Answer) -> str:
    """Say that the dtype is another one, or ""."""
    return "" if answer.dtype == expected.dtype else f"dtype {answer.dtype}, not {expected.dtype}"


def differing(draws: Array, expected: Array) -> Array:
    """Which means of numbers, and of products of two, are not those of the expected draws.

    draws, expected: (R, n). Each row is drawn by itself. Returns (n + 1, n + 1): the first row is
    about the numbers, and the others about their products.

    Where both are drawn by the same law, a row of one could as well stand in the other: the
    difference of two rows has a random sign. By Hoeffding's inequality the sum of such differences
    is above t times the root of the sum of their squares with a probability of at most
    2 exp(-t^2 / 2), whatever the law. The limit here is the t with which all comparisons together
    refuse a right answer with a probability of at most CHANCE.
    """
    centre = (draws.mean(axis=0) + expected.mean(axis=0)) / 2
    one = np.ones((len(draws), 1))
    x = np.hstack([one, draws - centre])  # (R, n + 1)
    y = np.hstack([one, expected - centre])
    differences = x.T @ x - y.T @ y
    products = x * y
    squares = (x**2).T @ x**2 + (y**2).T @ y**2 - 2 * products.T @ products
    num_comparisons = len(squares) * (len(squares) + 1) / 2
    limit = math.sqrt(2 * math.log(2 * num_comparisons / CHANCE))
    # A mean that differs by less is rounded otherwise.
    rounding = 1e-4 * len(draws)
    return np.asarray(np.abs(differences) > limit * np.sqrt(squares.clip(0)) + rounding)


def equal_to(tolerance: float) -> Judge:
    """A judge that compares numbers, gradients and dtype with those of the released function."""

    def judge(values: Values, answer: Answer, right: Right) -> str:
        expected = right(cast_to=torch.float64)
        wrong = compare(answer.output, expected.output, tolerance)
        for name, gradient in answer.gradients.items():
            if not wrong and compare(gradient, expected.gradients[name], 1e-4):
                wrong = f"the gradient of {name} is wrong: is the result detached, or rounded?"
        return wrong or judge_dtype(values, answer, right)

    return judge


equal = equal_to(1e-5)


def same_law(numbers_of: Numbers) -> Judge:
    """A judge of random outputs: they have the law of the released function's, by `differing`."""

    def judge(values: Values, answer: Answer, right: Right) -> str:
        try:
            numbers = numbers_of(values, answer.output)
        except ValueError as error:
            return str(error)
        released = right(seed=values["seed"] + 1)
        expected = numbers_of(values, released.output)
        for name, array in numbers.items():
            if array.shape != expected[name].shape:
                return f"{name}: shape {array.shape}, expected {expected[name].shape}"
        names = np.repeat([*expected], [array.shape[1] for array in expected.values()])
        x = np.hstack([*numbers.values()]).astype(float)
        y = np.hstack([*expected.values()]).astype(float)
        if not np.isfinite(x).all():
            return "the result is not finite (nan or inf)"
        is_other = differing(x, y)
        for words, is_wrong, statistic in (
            ("mean", is_other[0, 1:], np.mean),
            ("standard deviation", is_other.diagonal()[1:], np.std),
        ):
            if is_wrong.any():
                at = is_wrong.argmax()
                both = f"{statistic(x[:, at]):.4g}, expected {statistic(y[:, at]):.4g}"
                return f"{names[at]}: the {words} of {len(x)} draws is {both}"
        if is_other.any():
            first, second = np.argwhere(is_other[1:, 1:])[0]
            return f"{names[first]} and {names[second]} vary together in another way"
        return compare_dtypes(answer, released)

    return judge


def judge_dtype(values: Values, answer: Answer, right: Right) -> str:
    """The dtype of the released function's result."""
    return compare_dtypes(answer, right())


def judge_repeated(values: Values, answer: Answer, right: Right) -> str:
    """Calls with the same state of the generator give the same."""
    outputs = {json.dumps(output, default=np.ndarray.tolist) for output in answer.output}
    return "" if len(outputs) == 1 else "the same state of the generator gives another result"


# --- drawing --------------------------------------------------------------------------------------


def normal(*shape: int, scale: float = 1.0) -> Drawn:
    """Normal numbers in this shape."""
    return lambda rng: scale * rng.standard_normal(shape)


def fixed(numbers: Sequence[Any] | float, dtype: Any = None) -> Drawn:
    """These numbers in each case."""
    return lambda rng: np.array(numbers, dtype)


def eighths(*shape: int) -> Drawn:
    """Numbers between -2 and 2 that bfloat16 holds. None is 0."""
    return lambda rng: (rng.integers(-8, 8, shape) + 0.5) / 4


def heads(num_rows: int, num_heads: int, num_tokens: int, head_size: int) -> Drawn:
    """Normal numbers (B, N, T, D) that lie in memory as `split_heads` leaves them."""
    projected = normal(num_rows, num_tokens, num_heads, head_size)
    return lambda rng: projected(rng).swapaxes(1, 2)


def uniform(low: float, high: float, *shape: int) -> Drawn:
    """Numbers between two others. Without a shape it is one number."""
    if not shape:
        return lambda rng: float(rng.uniform(low, high))
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


def whole(end: int, *shape: int) -> Drawn:
    """Whole numbers from 0 to end - 1 in this shape."""
    return lambda rng: rng.integers(0, end, shape)


# --- the encoder ----------------------------------------------------------------------------------


def padding_bias(rng: Rng) -> Array:
    """A bias (2, 1, 1, 5) that masks the last tokens of each row."""
    is_padding = np.arange(5) >= rng.integers(1, 5, (2, 1, 1, 1))
    return np.where(is_padding, np.finfo(np.float64).min, 0.0)


def padding_mask(rng: Rng) -> Array:
    """A mask (3, 6) whose first row is padding alone."""
    mask = rng.integers(0, 2, (3, 6))
    mask[0] = 0
    return mask


def dropped(values: Values, output: Any) -> dict[str, Array]:
    """Each of the `draws` parts of an output."""
    return {"the output": np.reshape(output, (values["draws"], -1))}


# --- schedules ------------------------------------------------------------------------------------


def draw_steps(rng: Rng) -> list[list[int]]:
    """Forty times a step, the number of steps, and that of the warm-up."""
    lengths = rng.integers(2, 50, 40).tolist()
    return [[int(rng.integers(n)), n, int(rng.integers(n))] for n in lengths]


def draw_corners(rng: Rng) -> list[list[int]]:
    """All steps up to 60 and one of 1999, with several lengths of the run and of the warm-up.

    Where `cosine` may end at 1 or at 0, as its warm-up does, there is none.
    """
    lengths = [1, 4000, *rng.integers(2, 50, 3).tolist()]
    calls = product([*range(60), 1999], lengths, [0, *lengths])
    return [[step, *others] for step, *others in calls if not step == others[1] >= others[0]]


def judge_schedule(values: Values, answer: Answer, right: Right) -> str:
    """Each factor is that of the released function."""
    factors = zip(values["steps"], answer.output, right().output, strict=True)
    for call, factor, expected in factors:
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        # A factor may be rounded to float32, and 0 may not.
        if not is_number or not abs(factor - expected) <= (2e-7 if expected else 1e-9):
            return f"with {tuple(call)} it is {factor}, expected {expected:.6g}"
    return ""


# --- masking --------------------------------------------------------------------------------------


def token_ids(choices: Sequence[int], share_of_special: float = 0.0) -> Drawn:
    """Token ids (5, 15) that are drawn from some. The first column is [CLS], in no word.

    share_of_special: how many of the later pieces of words are [CLS], too.
    """

    def draw(rng: Rng) -> Array:
        ids = rng.choice(choices, (5, 15))
        ids[:, 3:][rng.random((5, 12)) < share_of_special] = CLS
        ids[:, 0] = CLS
        return ids

    return draw


def masked(values: Values, output: Array) -> dict[str, Array]:
    """Which tokens are chosen and masked, and what stands in their place.

    output: (R, 2, B, T), input_ids and labels of each call.
    """
    ids = values["input_ids"]
    hidden, labels = output.swapaxes(0, 1)  # (R, B, T)
    is_chosen = labels != -100
    if (is_chosen & (ids == CLS)).any():
        raise ValueError("a special token was chosen")
    if (labels != ids)[is_chosen].any():
        raise ValueError("a label is the token that stood there")
    if ((hidden != ids) & ~is_chosen).any():
        raise ValueError("a token changed that was not chosen")
    is_masked = is_chosen & (hidden == MASK)
    is_kept = is_chosen & (hidden == ids)
    is_random = is_chosen & ~is_masked & ~is_kept
    is_repeated = is_random[..., 1:] & is_random[..., :-1] & (hidden[..., 1:] == hidden[..., :-1])
    counts = {
        "chosen tokens": is_chosen,
        "[MASK]": is_masked,
        "chosen tokens that stay": is_kept,
        "neighbours with the same random token": is_repeated,
    }
    # A vocabulary of five shows whether each of its tokens is as likely as another.
    counts |= {f"tokens with the id {token}": hidden == token for token in range(6)}
    places = {"a chosen token (1)": is_chosen, "a [MASK] (1)": is_masked, "an id": hidden}
    num_calls = len(output)
    return {
        **{name: part.reshape(num_calls, -1) for name, part in places.items()},
        **{name: part.sum(axis=(1, 2))[:, None] for name, part in counts.items()},
    }


# --- losses ---------------------------------------------------------------------------------------


def outputs(*shape: int, scale: float = 3.0) -> Drawn:
    """Outputs of a model.

    Odd 128ths: bfloat16 does not hold them and half precision does. None is 0, where a right loss
    may be written with a kink that has no gradient.
    """
    return lambda rng: (np.floor(scale * rng.standard_normal(shape) * 64) + 0.5) / 64


def draw_classes(rng: Rng) -> Array:
    """The labels of six rows, 0 to 4."""
    return rng.integers(0, 5, 6).astype(np.float32)


def draw_pairs(rng: Rng) -> Array:
    """The labels of six pairs, three of them probabilities, in some order."""
    return rng.permutation(np.array([0, 1, 1, 0.02, 0.25, 0.99], dtype=np.float32))


def sometimes(rng: Rng) -> Array:
    """(6, 6), True in three of ten places."""
    return rng.random((6, 6)) < 0.3


# --- samplers and surgery -------------------------------------------------------------------------


def draw_rows(rng: Rng) -> dict[str, int]:
    """Three tasks with 5, 11 and 4 rows in some order."""
    return dict(zip(("sst", "para", "sts"), rng.permutation([5, 11, 4]).tolist(), strict=True))


# The answer of a sampler has for each call its steps, and by task the batches of all passes that it
# asked for, in order. No batch comes twice.


def places_of(plan: Any) -> list[list[tuple[str, int]]]:
    """The steps of a call, with each batch as its place among those of its task."""
    steps, asked = plan
    places = []
    for step in steps:
        places.append([(task, asked[task].index(batch)) for task, batch in step])
    return places


def judge_joint(values: Values, answer: Answer, right: Right) -> str:
    """Step n holds batch n of each task."""
    expected = places_of(right().output[0])
    for steps in map(places_of, answer.output):
        if steps != expected:
            return f"the steps are {steps} (task, batch), expected {expected}"
    return ""


def shuffled(values: Values, plans: Any) -> dict[str, Array]:
    """The order of the batches of each plan, and how many of them a task has.

    Which batches of a task's last pass are left out does not count.
    """
    tasks = [*values["num_rows"]]
    draws = []
    for plan in plans:
        places = [(tasks.index(task), place) for [(task, place)] in places_of(plan)]
        in_order = sorted(set(places))
        if len(in_order) < len(places):
            raise ValueError("a batch comes twice")
        order = np.array([in_order.index(place) for place in places])
        # A shuffle that swaps each place with any other one prefers some moves.
        moves = (order - np.arange(len(order))) % len(order)
        # A shuffle of few orders may still bring each pair of places as often as another.
        num_falling = (np.diff(order) < 0).sum()
        is_odd = np.triu(order[:, None] > order).sum() % 2
        counts = []
        for task, num_rows in enumerate(values["num_rows"].values()):
            of_task = [place for number, place in places if number == task]
            counts += [len(of_task), sum(2 * place < num_rows for place in of_task)]
        num_moved = ((moves > 0) & (3 * moves <= len(order))).sum()
        draws.append((counts, order, [num_moved], [num_falling], [is_odd]))
    names = (
        "a task's batches, or those of its first pass",
        "a batch's place",
        "the batches that moved up a little",
        "neighbours in falling order",
        "an odd number of pairs in falling order (1)",
    )
    return dict(zip(names, map(np.array, zip(*draws, strict=True)), strict=True))


def gramian(num_tasks: int, is_zero: bool = False) -> Drawn:
    """The dot products of gradients. The first three conflict, others with none.

    So few orders of tasks differ. is_zero: the first gradient is 0.
    """

    def draw(rng: Rng) -> Array:
        products = np.zeros((num_tasks, num_tasks))
        while products.min() > -0.1:
            gradients = rng.standard_normal((num_tasks, 5))
            gradients[:3] -= 0.9 * gradients[:3].mean(axis=0)
            gradients[0] *= not is_zero
            products = gradients @ gradients.T
            products[:3, 3:] = products[3:, :3] = 0
        return products

    return draw


def of_gradients(*gradients: Sequence[float]) -> Drawn:
    """The dot products of these gradients, all of them longer or shorter by one factor."""
    products = np.array(gradients) @ np.transpose(gradients)
    return lambda rng: rng.uniform(0.25, 4) * products


def judge_pcgrad(values: Values, answer: Answer, right: Right) -> str:
    """The weights are those of some orders, and all orders are as likely as another."""
    # There are at most eight orders that differ. One of them is missing once in 10^10 times.
    possible = right(seed=values["seed"] + 1).output
    weights = answer.output
    is_equal = np.abs(weights[:, None] - possible).max(axis=2) <= 1e-9  # (steps, calls)
    if not is_equal.any(axis=1).all():
        return "no orders of the other tasks give these weights"
    if not is_equal.any(axis=0).all():
        return "some orders of the other tasks never come"
    return same_law(lambda _, output: {"a weight": output})(values, answer, right)
