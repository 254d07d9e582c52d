"""How answers are judged, and the numbers that cases are made of.

A judge gets the case, the student's answer, and a function that computes the right answer: the
released function, called in the same way. `right(name=value)` computes it with another value of the
case. A judge returns "" for a right answer, and otherwise says what is wrong. checks.py lists the
checks of each function.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from teaching.calls import CLS, MASK, Values, continues

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

# Of three calls of mask_tokens: input_ids and labels.
Results = Sequence[tuple[Array, Array]]


def read_answer(line: str) -> dict[str, Any]:
    """The parts of an answer from the child's JSON (calls.py), with tensors as arrays."""
    return dict(json.loads(line, object_hook=as_array))


def as_array(parts: dict[str, Any]) -> Any:
    """The array that stands in JSON as {"numbers": [...]}."""
    return np.array(parts["numbers"]) if "numbers" in parts else parts


CHANCE = 1e-6  # with which `differing` refuses a right answer, at most

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


def first_wrong(conditions: Mapping[str, Any]) -> str:
    """The first key whose condition is true, or ""."""
    return next((words for words, is_wrong in conditions.items() if is_wrong), "")


def is_far(holds: Array, share: float, num_deviations: float = 5.5) -> bool:
    """Whether a share of draws is too many standard deviations from the expected one."""
    deviation = math.sqrt(share * (1 - share) * holds.size)
    return bool(abs(holds.sum() - share * holds.size) > num_deviations * deviation)


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
    """A judge that compares numbers, gradients and dtype with those of the released function.

    A loss of float64 may be float64 or float32.
    """

    def judge(values: Values, answer: Answer, right: Right) -> str:
        expected = right(cast_to=torch.float64)
        wrong = compare(answer.output, expected.output, tolerance)
        for name, gradient in answer.gradients.items():
            if not wrong and compare(gradient, expected.gradients[name], 1e-4):
                wrong = f"the gradient of {name} is wrong: is the result detached, or rounded?"
        is_free = values.get("cast_to") == torch.float64
        return wrong or ("" if is_free else judge_dtype(values, answer, right))

    return judge


equal = equal_to(1e-5)


def judge_dtype(values: Values, answer: Answer, right: Right) -> str:
    """The dtype of the released function's result."""
    expected = right().dtype
    return "" if answer.dtype == expected else f"dtype {answer.dtype}, expected {expected}"


def judge_refusal(values: Values, answer: Answer, right: Right) -> str:
    """The call was refused."""
    return "" if answer.output is True else "it must raise an error; see the docstring"


# --- drawing --------------------------------------------------------------------------------------


def normal(*shape: int, scale: float = 1.0) -> Drawn:
    """Normal numbers in this shape."""
    return lambda rng: scale * rng.standard_normal(shape)


def fixed(numbers: Sequence[Any], dtype: Any = None) -> Drawn:
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


def judge_mask(values: Values, answer: Answer, right: Right) -> str:
    """0 for tokens, a very negative finite number for padding, in the right shape and dtype."""
    bias = answer.output
    expected = right()
    if not isinstance(bias, np.ndarray) or bias.shape != expected.output.shape:
        return "expected is a tensor (B, 1, 1, T)"
    is_padding = expected.output < 0
    return first_wrong(
        {
            f"dtype {answer.dtype}, expected {expected.dtype}": answer.dtype != expected.dtype,
            "expected are finite numbers": not np.isfinite(bias).all(),
            "expected is 0 for tokens": (bias[~is_padding] != 0).any(),
            # -10,000 is -9,984 in bfloat16.
            "expected is a very negative number for padding": (bias[is_padding] > -9e3).any(),
        }
    )


def judge_dropped(values: Values, answer: Answer, right: Right) -> str:
    """Each of `draws` parts of the output is a draw with the same law as those of another seed."""
    expected = right(seed=values["seed"] + 1).output
    if np.shape(answer.output) != expected.shape or not np.isfinite(answer.output).all():
        return compare(answer.output, expected)
    draws = values["draws"]
    is_other = differing(answer.output.reshape(draws, -1), expected.reshape(draws, -1))
    undropped = right(training=False).output
    return first_wrong(
        {
            "nothing is dropped in training mode": not compare(answer.output, undropped),
            "with dropout the mean is another: what is dropped, with p, and how is it scaled?": (
                is_other[0].any()
            ),
            "with dropout the variance is another: is each number dropped where it should be?": (
                is_other.diagonal().any()
            ),
            "with dropout numbers are dropped together, or by themselves, that should not be": (
                is_other.any()
            ),
        }
    )


# --- schedules ------------------------------------------------------------------------------------


def draw_steps(rng: Rng) -> list[list[int]]:
    """Forty times a step, the number of steps, and that of the warm-up."""
    lengths = rng.integers(2, 50, 40).tolist()
    return [[int(rng.integers(n)), n, int(rng.integers(n))] for n in lengths]


def draw_corners(rng: Rng) -> list[list[int]]:
    """As draw_steps, with each kind of corner.

    No warm-up, or one of a single step, of the whole run, or longer. Steps behind the last one. One
    step alone, and many. Where `cosine` may end at 1 or at 0, as its warm-up does, there is none.
    """
    calls = draw_steps(rng) + [[0, 1, 0], [0, 1, 1], [3, 1, 0], [1999, 4000, 1000]]
    for step, num_steps, _ in draw_steps(rng):
        behind = num_steps + step
        calls += [[0, num_steps, 1], [num_steps - 1, num_steps, 0], [num_steps, num_steps, 1]]
        calls += [[step, num_steps, num_steps], [behind, num_steps, 0]]
        calls += [[behind + 1, num_steps, num_steps], [step, num_steps, num_steps + 5]]
        calls += [[num_steps + step % 5, num_steps, num_steps + 5]]
        calls += [[behind + 6, num_steps, num_steps + 5]]
    return calls


def judge_schedule(values: Values, answer: Answer, right: Right) -> str:
    """Each factor is that of the released function."""
    factors = zip(values["steps"], answer.output, right().output, strict=True)
    for call, factor, expected in factors:
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not is_number or not abs(factor - expected) <= 1e-9:
            return f"with {tuple(call)} it is {factor}, expected {expected:.6g}"
    return ""


# --- masking --------------------------------------------------------------------------------------


def token_ids(choices: Sequence[int]) -> Drawn:
    """Token ids (600, 25) that are drawn from some. The first column is [CLS], in no word."""

    def draw(rng: Rng) -> Array:
        ids = rng.choice(choices, (600, 25))
        ids[:, 0] = CLS
        return ids

    return draw


def words_with_special_tokens(rng: Rng) -> Array:
    """Token ids as by `token_ids`. Some later pieces of words are [CLS]."""
    ids = token_ids(range(5, 100))(rng)
    ids[:, 3:][rng.random((600, 22)) < 0.1] = CLS
    return ids


def judge_tokens(values: Values, answer: Answer, right: Right) -> str:
    """Masked twice with one seed, and then three times more. With whole_words, pieces, too."""
    ids = values["input_ids"]
    for result in answer.output:
        is_pair = isinstance(result, list) and len(result) == 2
        if not is_pair or any(part.shape != ids.shape for part in result):
            return "expected are input_ids and labels, (B, T) each"
    return wrong_choice(values, answer.output) or wrong_replacement(values, answer.output)


def wrong_choice(values: Values, results: Results) -> str:
    """What is wrong with the tokens that are chosen, or ""."""
    ids = values["input_ids"]
    p = values["probability"]
    (hidden, labels), (hidden_again, labels_again), *later = results
    labels_later = later[0][1]
    counts = {int((labels != -100).sum()) for _, labels in (results[0], *later)}
    is_special = ids == CLS
    is_chosen = labels != -100
    has_words = bool(values.get("whole_words"))
    # Words are counted through the batch. Without them, each token is one.
    words = np.cumsum(~(continues(ids) & has_words))
    in_words = np.bincount(words[~is_special.ravel()])
    chosen_in_words = np.bincount(words[(is_chosen & ~is_special).ravel()], minlength=len(in_words))
    return first_wrong(
        {
            "the same state of torch's generator gives other masks": (
                (hidden != hidden_again).any() or (labels != labels_again).any()
            ),
            "two calls choose the same tokens": (
                0 < p < 1 and (is_chosen == (labels_later != -100)).all()
            ),
            # Of four calls: once in 10^6 times, the right ones are the same, too.
            "each row, or each call, has the same number of chosen tokens": (
                0 < p < 1 and (np.ptp(is_chosen.sum(axis=1)) == 0 or len(counts) == 1)
            ),
            "a special token was chosen": (is_chosen & is_special).any(),
            "a label is the token that stood there": (labels != ids)[is_chosen].any(),
            "a token changed that was not chosen": ((hidden != ids) & ~is_chosen).any(),
            "a word is chosen whole or not at all": (
                (chosen_in_words > 0) & (chosen_in_words != in_words)
            ).any(),
            # The pieces of a word are chosen together.
            f"{is_chosen.sum()} of {(~is_special).sum()} tokens were chosen, p is {p:.2f}": (
                is_far(is_chosen[~is_special], p, 10 if has_words else 5.5)
            ),
        }
    )


def wrong_replacement(values: Values, results: Results) -> str:
    """What is wrong with the tokens that stand in place of the chosen ones, or ""."""
    ids = values["input_ids"]
    is_all = values["probability"] == 1
    vocab_size = values["vocab_size"]
    (hidden, labels), _, (hidden_later, _), *_ = results
    is_chosen = labels != -100
    num_chosen = is_chosen.sum()
    is_masked = hidden == MASK
    is_kept = hidden == ids
    is_replaced = is_chosen & ~is_masked & ~is_kept
    has_words = bool(values.get("whole_words"))
    is_piece = continues(ids)[:, 1:] & has_words & is_chosen[:, 1:]
    # Neighbours: both replaced, or a word and its next piece.
    is_pair = is_replaced[:, 1:] & is_replaced[:, :-1] & (is_piece | (not has_words))
    is_repeated = hidden[:, 1:] == hidden[:, :-1]
    is_masked_alike = is_masked[:, 1:] == is_masked[:, :-1]
    # A random token may be [MASK], or what stood there.
    share = 0.1 / vocab_size
    # How often each token of a small vocabulary comes in place of another one.
    is_uneven = False
    for token in {*range(vocab_size)} - {MASK} if vocab_size < 10 else ():
        is_uneven |= is_far(hidden[is_chosen & (ids != token)] == token, share)
    return first_wrong(
        {
            "two calls replace the tokens alike": is_all and (hidden == hidden_later).all(),
            f"{(is_chosen & is_masked).sum()} of {num_chosen} chosen tokens are [MASK], not 80%": (
                is_far(is_masked[is_chosen], 0.8 + share)
            ),
            f"{(is_chosen & is_kept).sum()} of {num_chosen} chosen tokens are as before, not 10%": (
                is_far(is_kept[is_chosen], 0.1 + share)
            ),
            "random tokens come from the whole vocabulary, 0 to vocab_size - 1": is_uneven,
            "each place draws its own random token": (
                (is_all or has_words)
                and vocab_size > 10
                and is_repeated[is_pair].sum() > 0.5 * is_pair.sum()
            ),
            # Of more than 1,000 pairs, two of three are equal where each is drawn by itself.
            "each piece of a word draws its own replacement": (
                has_words and is_masked_alike[is_piece].sum() > 0.85 * is_piece.sum()
            ),
        }
    )


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
# asked for, in order.


def judge_joint(values: Values, answer: Answer, right: Right) -> str:
    """Step n holds batch n of each task."""
    expected = len(right().output[0][0])
    for steps, asked in answer.output:
        if len(steps) != expected:
            return f"{len(steps)} steps, expected {expected}"
        for number, step in enumerate(steps):
            wanted = [[task, asked[task][number]] for task in asked]
            if step != wanted:
                return f"step {number} is {step}, expected {wanted}: passes one after the other"
    return ""


def judge_mt_dnn(values: Values, answer: Answer, right: Right) -> str:
    """The right number of each task's batches, none of them twice, and evenly shuffled."""
    expected = right(seed=values["seed"] + 1).output
    counts = Counter(step[0][0] for step in expected[0][0])
    for steps, asked in answer.output:
        if any(len(step) != 1 for step in steps):
            return "expected is one batch in each step"
        batches = Counter(str(step[0]) for step in steps)
        for task in counts:
            batches.subtract(str([task, batch]) for batch in asked[task])
        if Counter(step[0][0] for step in steps) != counts or max(batches.values()) > 0:
            return "expected are the batches of each pass, each once"
    if differing(orders_of(answer.output), orders_of(expected)).any():
        return "each order of the batches must be as likely as another"
    return ""


def orders_of(plans: Sequence[Any]) -> Array:
    """The places in the unshuffled pool of the batches of each plan, counted from 0."""
    orders = []
    for steps, asked in plans:
        pool = []
        for task in sorted(asked):
            pool += [[task, batch] for batch in asked[task]]
        places = [pool.index(step[0]) for step in steps]
        orders.append(np.argsort(np.argsort(places)))
    return np.array(orders)


def judge_repeated(values: Values, answer: Answer, right: Right) -> str:
    """Both plans are the same."""
    first, second = answer.output
    return "" if first == second else "the same state of the generator gives another plan"


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


def conflict_with_itself(rng: Rng) -> Array:
    """Gradients of which the first, once it is projected, may point against what it was."""
    gradients = rng.uniform(0.5, 2) * np.array([[-2.0, -2], [0, 1], [2, 1]])
    return gradients @ gradients.T


def one_against_three(rng: Rng) -> Array:
    """Gradients of which the third conflicts with all others, and each of its six orders counts.

    The others conflict with it alone, also once they are projected.
    """
    gradients = rng.uniform(0.5, 2) * np.array(
        [[-2.0, -1, -2], [-1, 0, -2], [-1, 2, 2], [-1, -2, 0]]
    )
    return gradients @ gradients.T


def judge_pcgrad(values: Values, answer: Answer, right: Right) -> str:
    """The weights are those of some orders, and all orders are as likely as another.

    With is_reseeded, all steps have the same order.
    """
    weights = answer.output
    # There are at most eight orders that differ. One of them is missing once in 10^10 times.
    num_calls = max(200, len(weights))
    possible = right(seed=values["seed"] + 1, num_calls=num_calls, is_reseeded=False).output
    if weights.shape[1:] != possible.shape[1:]:
        return f"expected are {possible.shape[1]} weights"
    is_reseeded = values.get("is_reseeded", False)
    is_equal = np.abs(weights[:, None] - possible).max(axis=2) <= 1e-5  # (steps, calls)
    return first_wrong(
        {
            "the order is not that of the generator": is_reseeded and (weights != weights[0]).any(),
            "no orders of the other tasks give these weights": not is_equal.any(axis=1).all(),
            "each gradient visits the others in an order of its own": (
                len(weights) >= 200 and not is_equal.any(axis=0).all()
            ),
            "the orders are not drawn anew, or some come too often": (
                not is_reseeded and differing(weights, possible[: len(weights)]).any()
            ),
        }
    )
