"""How the cases of checks are drawn, and how their answers are judged.

The right results come from references.py. A judge returns "" for a right answer, and otherwise says
what is wrong. checks.py lists the checks of each function.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from minbert import BertConfig
from teaching import references
from teaching.calls import CONFIG
from teaching.references import Array

Rng = np.random.Generator


class Case(NamedTuple):
    """What a function is called with (calls.py)."""

    inputs: dict[str, Array]
    options: dict[str, Any]


class Answer(NamedTuple):
    """What a function gave back."""

    output: Any
    changed: list[str]
    gradients: dict[str, Array]
    dtype: str = ""  # of an output that is a tensor


Judge = Callable[[Case, Answer], str]
Reference = Callable[[Mapping[str, Array], Mapping[str, Any]], Any]


def read_answer(line: str) -> dict[str, Any]:
    """The parts of an answer from the child's JSON (calls.py), with tensors as arrays."""
    return dict(json.loads(line, object_hook=as_array))


def as_array(parts: dict[str, Any]) -> Any:
    """The array that stands in JSON as {"numbers": [...]}."""
    return np.array(parts["numbers"]) if "numbers" in parts else parts


# --- judges ---------------------------------------------------------------------------------------


def compare(found: Any, expected: Any, tolerance: float = 1e-5) -> str:
    """Compare numbers, up to a tolerance relative to the largest."""
    if not isinstance(found, np.ndarray):
        return f"returned {found}, expected a tensor: is the return missing?"
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if not np.isfinite(found).all():
        return "the result is not finite"
    difference = np.abs(found - expected)
    if difference.max() > tolerance * max(1.0, float(np.abs(expected).max())):
        place = tuple(int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
        return f"off by {difference.max():.2g}" + (f" at {place}" if place else "")
    return ""


def is_far(count: float, share: float, num_draws: int) -> bool:
    """Whether a count is more than five standard deviations from that of independent draws."""
    return bool(abs(count - share * num_draws) > 5 * np.sqrt(share * (1 - share) * num_draws))


def wrong_dropout(found: Any, expected: Array, p: float) -> str:
    """What is wrong, where each number should be 0, or 1 / (1 - p) times as large."""
    is_dropped = np.asarray(found) == 0
    if is_dropped.shape != expected.shape:
        return "dropout changes no shape"
    if is_far(is_dropped.mean() * is_dropped.size, p, is_dropped.size):
        return f"{is_dropped.mean():.2f} of the numbers are dropped, expected {p:.2f}"
    return compare(found, np.where(is_dropped, 0.0, expected / (1 - p)))


def equal_to(reference: Reference, tolerance: float = 1e-5) -> Judge:
    """A judge that compares numbers and gradients with a reference."""

    def judge(case: Case, answer: Answer) -> str:
        wrong = compare(answer.output, reference(*case), tolerance)
        return wrong or wrong_gradient(reference, case, answer)

    return judge


def wrong_gradient(reference: Reference, case: Case, answer: Answer) -> str:
    """What is wrong, by central differences of the reference in a random direction."""
    generator = np.random.default_rng(len(case.inputs))
    for name, gradient in answer.gradients.items():
        direction = generator.standard_normal(case.inputs[name].shape)
        ends = []
        for sign in (1, -1):
            moved = {**case.inputs, name: case.inputs[name] + sign * 1e-5 * direction}
            value = reference(moved, case.options) * case.inputs.get("probe", 1.0)
            ends.append(float(np.sum(value)))
        slope = (ends[0] - ends[1]) / 2e-5
        found = float((gradient * direction).sum())
        if not abs(found - slope) <= 1e-4 * max(1.0, abs(slope)):
            return f"the gradient of {name} is wrong: is the result detached, or rounded?"
    return ""


def differs_from(reference: Reference) -> Judge:
    """A judge of dropout in training: the result is another one than without."""

    def judge(case: Case, answer: Answer) -> str:
        expected = reference(*case)
        if answer.output.shape != expected.shape:
            return "dropout changes no shape"
        if (answer.output == 0).any():
            return "units of the result are dropped; dropout acts before the last step"
        return "" if compare(answer.output, expected) else "nothing is dropped in training mode"

    return judge


# --- drawing --------------------------------------------------------------------------------------


def normal(rng: Rng, *shape: int) -> Array:
    """Draw a standard normal array."""
    return rng.standard_normal(shape)


def padding_bias(rng: Rng, batch_size: int, num_tokens: int) -> Array:
    """A bias (B, 1, 1, T) that masks the last tokens of each row."""
    lengths = rng.integers(1, num_tokens, batch_size)
    is_padding = np.arange(num_tokens) >= lengths[:, None]
    return np.where(is_padding, np.finfo(np.float64).min, 0.0)[:, None, None]


def seed_of(rng: Rng) -> int:
    """Draw a seed for torch."""
    return int(rng.integers(2**31))


# --- the encoder ----------------------------------------------------------------------------------


def draw_attention(
    rng: Rng,
    is_masked: bool = False,
    has_bias: bool = False,
    scale: float = 1.0,
    **options: Any,
) -> Case:
    """Queries, keys and values (2, 3, 5, 4); the first two times `scale`.

    has_bias: one of moderate numbers, in the shape of a mask's.
    """
    inputs = {name: scale * normal(rng, 2, 3, 5, 4) for name in ("query", "key")}
    inputs["value"] = normal(rng, 2, 3, 5, 4)
    inputs["probe"] = normal(rng, 2, 3, 5, 4)
    if is_masked:
        inputs["mask_bias"] = padding_bias(rng, 2, 5)
    if has_bias:
        inputs["mask_bias"] = normal(rng, 2, 1, 1, 5)
    arguments: dict[str, Any] = {} if "mask_bias" in inputs else {"mask_bias": None}
    arguments |= {"dropout_probability": 0.0, "training": False}
    return Case(inputs, {"arguments": arguments, **options})


def draw_dropped(rng: Rng, training: bool) -> Case:
    """Unit vectors as values, each twice, so that the result shows the weights twice."""
    values = np.broadcast_to(np.tile(np.eye(8), 2), (20, 4, 8, 16)).copy()
    inputs = {"query": normal(rng, 20, 4, 8, 4), "key": normal(rng, 20, 4, 8, 4), "value": values}
    p = float(rng.uniform(0.3, 0.6))
    arguments = {"mask_bias": None, "dropout_probability": p, "training": training}
    return Case(inputs, {"arguments": arguments, "seed": seed_of(rng)})


def judge_dropped(case: Case, answer: Answer) -> str:
    """Each weight is either 0 or 1 / (1 - p) times as large, and about p of them are 0."""
    p = case.options["arguments"]["dropout_probability"]
    weights, weights_again = np.split(answer.output, 2, axis=-1)
    wrong = wrong_dropout(weights, np.split(references.attention(*case), 2, axis=-1)[0], p)
    if wrong:
        return f"dropout drops each probability with p, and divides the others by 1 - p: {wrong}"
    links = weights == 0
    # Two neighbours agree in little more than half of all cases, as p is near a half.
    if any((np.diff(links, axis=axis) == 0).mean() > 0.7 for axis in range(4)):
        return "dropout draws each link by itself, not those of a row or column together"
    if compare(weights_again, weights):
        return "dropout drops a link before the product with value, so for all its units at once"
    return ""


def draw_mask(rng: Rng, dtype: str) -> Case:
    """A mask (3, 6) whose first row is padding alone."""
    mask = rng.integers(0, 2, (3, 6))
    mask[0] = 0
    return Case({"mask": mask}, {"dtype": dtype})


def judge_mask(case: Case, answer: Answer) -> str:
    """0 for tokens, a very negative finite number for padding, in the right shape and dtype."""
    mask = case.inputs["mask"]
    found = answer.output
    if not isinstance(found, np.ndarray) or found.shape != (3, 1, 1, 6):
        return "expected is a tensor (B, 1, 1, T)"
    if answer.dtype != case.options["dtype"]:
        return f"dtype {answer.dtype}, expected {case.options['dtype']}"
    if not np.isfinite(found).all():
        return "expected are finite numbers"
    is_padding = mask[:, None, None] == 0
    # -10,000 is -9,984 in bfloat16.
    is_right = (found[~is_padding] == 0).all() and (found[is_padding] <= -9e3).all()
    return "" if is_right else "0 for tokens, very negative for padding"


def draw_module(
    rng: Rng,
    build: Callable[[BertConfig], nn.Module],
    is_masked: bool = False,
    has_positions: bool = False,
    training: bool = False,
    gradients_of: Sequence[str] = (),
    zeros: Sequence[str] = (),
    **config: Any,
) -> Case:
    """The weights of a module, hidden states (2, 5, 8), and token ids and segments (3, 7).

    has_positions: of three tokens. zeros: layers that give 0. config: what differs from CONFIG.
    """
    config = {**CONFIG, **config}
    inputs: dict[str, Array] = {}
    for name, parameter in build(BertConfig(**config)).named_parameters():
        inputs[f"weights.{name}"] = normal(rng, *parameter.shape)
    for name in zeros:
        inputs[f"weights.{name}.weight"] *= 0
        inputs[f"weights.{name}.bias"] *= 0
    inputs["hidden"] = normal(rng, 2, 5, 8)
    inputs["probe"] = normal(rng, 2, 5, 8)
    inputs["ids"] = rng.integers(0, 30, (3, 7))
    inputs["segments"] = rng.integers(0, 2, (3, 7))
    if is_masked:
        inputs["mask_bias"] = padding_bias(rng, 2, 5)
    if has_positions:
        inputs["positions"] = rng.permutation(10)[:3]
    options = {"config": config, "training": training, "gradients_of": gradients_of}
    return Case(inputs, {**options, "seed": seed_of(rng)})


def judge_dropped_embeddings(case: Case, answer: Answer) -> str:
    """About half of the units are 0, and the others are twice as large."""
    wrong = wrong_dropout(answer.output, references.embeddings(*case), 0.5)
    return f"in training, dropout follows the norm: {wrong}" if wrong else ""


# --- the optimizer --------------------------------------------------------------------------------


def draw_steps(rng: Rng, num_steps: int, **settings: Any) -> Case:
    """Gradients and learning rates of some steps, and the settings of AdamW."""
    chosen = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0, "correct_bias": True}
    chosen |= settings
    inputs = {"start": normal(rng, 2, 4), "gradients": normal(rng, num_steps, 2, 4)}
    rates = rng.uniform(0.05, 0.2, num_steps).tolist()
    first_steps = [0, min(2, num_steps - 1)]
    return Case(inputs, {"settings": chosen, "rates": rates, "first_steps": first_steps})


# --- schedules ------------------------------------------------------------------------------------


def draw_schedule(rng: Rng, is_corner: bool = False) -> Case:
    """Forty calls. is_corner: no warm-up, nothing but warm-up, steps behind the last one.

    What a step behind the last one is in a run of nothing but warm-up, the docstring does not say.
    """
    calls = []
    for _ in range(40):
        num_steps = int(rng.integers(2, 50))
        num_warmup = int(rng.integers(0, num_steps))
        step = int(rng.integers(0, num_steps))
        if is_corner:
            num_warmup = int(rng.choice([0, num_steps, num_steps + 5]))
            step = int(rng.integers(0, num_steps + (0 if num_warmup else 10)))
        calls.append([step, num_steps, num_warmup])
    return Case({}, {"calls": calls})


def judge_schedule(name: str) -> Judge:
    """A judge of the factors of a schedule."""

    def judge(case: Case, answer: Answer) -> str:
        for call, found in zip(case.options["calls"], answer.output, strict=True):
            expected = references.schedule(name, *call)
            is_number = isinstance(found, int | float) and not isinstance(found, bool)
            if not is_number or not abs(found - expected) <= 1e-6:
                return f"{name}{tuple(call)} is {found}, expected {expected:.6g}"
        return ""

    return judge


# --- masking --------------------------------------------------------------------------------------

CLS, MASK, PIECE = 2, 4, 50


def draw_tokens(rng: Rng, p: float, whole_words: bool = False) -> Case:
    """Token ids (400, 25) whose first column is [CLS]."""
    ids = rng.integers(5, 100, (400, 25))
    ids[:, 0] = CLS
    arguments = {"vocab_size": 100, "mask_token_id": MASK, "probability": p}
    inputs: dict[str, Array] = {"input_ids": ids, "is_special": ids == CLS}
    if whole_words:
        continues = ids >= PIECE
        continues[:, 1] = False
        inputs["continues"] = continues
    return Case(inputs, {"arguments": arguments, "seed": seed_of(rng)})


def judge_tokens(case: Case, answer: Answer) -> str:
    """Masked twice with one seed, and then once more."""
    for result in answer.output:
        is_pair = isinstance(result, list) and len(result) == 2
        if not is_pair or any(part.shape != case.inputs["input_ids"].shape for part in result):
            return "expected are input_ids and labels, (B, T) each"
    first, again, later = answer.output
    if any((one != other).any() for one, other in zip(first, again, strict=True)):
        return "the same state of torch's generator gives other masks"
    if (
        0 < case.options["arguments"]["probability"] < 1
        and ((first[1] != -100) == (later[1] != -100)).all()
    ):
        return "two calls choose the same tokens"
    return wrong_tokens(case, *first) or wrong_shares(case, *first)


def wrong_tokens(case: Case, hidden: Array, labels: Array) -> str:
    """What is wrong with single tokens."""
    ids = case.inputs["input_ids"]
    is_chosen = labels != -100
    if (is_chosen & case.inputs["is_special"]).any():
        return "a special token was chosen"
    if (labels[is_chosen] != ids[is_chosen]).any():
        return "a label is the token that stood there"
    if (hidden[~is_chosen] != ids[~is_chosen]).any():
        return "a token changed that was not chosen"
    return ""


def wrong_shares(case: Case, hidden: Array, labels: Array) -> str:
    """What is wrong with the law of the draws: 9,600 tokens, and five standard deviations."""
    ids = case.inputs["input_ids"]
    p = case.options["arguments"]["probability"]
    is_chosen = labels != -100
    num_places = int((~case.inputs["is_special"]).sum())
    spread = 5 * np.sqrt(num_places * p * (1 - p))
    if "continues" in case.inputs:
        # The pieces of a word are chosen together.
        spread *= 2
    if abs(is_chosen.sum() - p * num_places) > spread:
        return f"{is_chosen.sum()} of {num_places} tokens were chosen, p is {p:.2f}"
    if p == 0:
        return ""
    num_chosen = int(is_chosen.sum())
    # One random token in a hundred is [MASK], and one is what stood there.
    for name, share, is_so in (
        ("[MASK]", 0.801, hidden == MASK),
        ("as before", 0.101, hidden == ids),
    ):
        count = int((is_so & is_chosen).sum())
        if is_far(count, share, num_chosen):
            return f"{count} of {num_chosen} chosen tokens are {name}, expected {share:.0%}"
    replaced = hidden[is_chosen & (hidden != MASK) & (hidden != ids)]
    if len(set(replaced.tolist())) < min(60, len(replaced) // 4):
        return "random tokens come from the whole vocabulary"
    # Of 960 tokens. That none of 100 ids is missing fails once in 8,000 draws of right code.
    is_replaced = is_chosen & (hidden != MASK) & (hidden != ids)
    if p == 1 and not {0, 99} <= {*hidden[is_replaced].tolist()}:
        return "random tokens come from the whole vocabulary, 0 to vocab_size - 1"
    both = is_replaced[:, 1:] & is_replaced[:, :-1]
    if p == 1 and (hidden[:, 1:] == hidden[:, :-1])[both].mean() > 0.5:
        return "each place draws its own random token"
    return ""


def judge_words(case: Case, answer: Answer) -> str:
    """As judge_tokens, and the pieces of a word share their fate."""
    wrong = judge_tokens(case, answer)
    is_chosen = answer.output[0][1] != -100
    continues = case.inputs["continues"][:, 1:]
    if not wrong and (is_chosen[:, 1:] != is_chosen[:, :-1])[continues].any():
        wrong = "a word is chosen whole or not at all"
    is_hidden = answer.output[0][0] == MASK
    pairs = continues & is_chosen[:, 1:]
    is_equal = (is_hidden[:, 1:] == is_hidden[:, :-1])[pairs]
    # Of more than 1,000 pairs, two of three are equal where each is drawn by itself.
    if not wrong and is_equal.mean() > 0.85:
        wrong = "each piece of a word draws its own replacement"
    return wrong


# --- losses ---------------------------------------------------------------------------------------


OUTPUTS = {"classes": "logits", "pairs": "logit", "scores": "prediction"}


def draw_loss(
    rng: Rng,
    kind: str,
    dtype: str = "float32",
    is_weighted: bool = False,
    is_column: bool = False,
    scale: float = 3.0,
    gradients_of: Sequence[str] = (),
    **arguments: Any,
) -> Case:
    """Outputs of a model, of this scale, and labels of six rows.

    is_weighted: with a weight for each class. is_column: outputs (6, 1) against labels (6,).
    """
    labels: Array = rng.uniform(0, 5, 6)
    if kind == "classes":
        labels = rng.integers(0, 5, 6).astype(np.float32)
    elif kind == "pairs":
        # What the weights of a label between 0 and 1 are, the docstring does not say.
        soft = [0.0, 1.0] if is_weighted else [0.25, 0.9]
        labels = rng.permutation(np.array([0, 1, 1, 0, *soft], dtype=np.float32))
    outputs = scale * normal(rng, *((6, 5) if kind == "classes" else (6,)))
    if is_column:
        outputs = outputs[:, None]
    # Odd 128ths: bfloat16 does not hold them and half precision does. None is 0, where a right loss
    # may be written with a kink that has no gradient.
    inputs = {OUTPUTS[kind]: (np.floor(outputs * 64) + 0.5) / 64, "labels": labels}
    if is_weighted:
        weights = rng.uniform(0.2, 3.0, 5 if kind == "classes" else 2)
        inputs["weights"] = weights.astype(np.float32)
    options = {"dtype": dtype, "in_dtype": [OUTPUTS[kind]], "gradients_of": gradients_of}
    return Case(inputs, {**options, "arguments": arguments})


def judge_scalar(reference: Reference, tolerance: float = 1e-4) -> Judge:
    """The value, in float32 for every dtype of the inputs."""

    def judge(case: Case, answer: Answer) -> str:
        wrong = equal_to(reference, tolerance)(case, answer)
        if not wrong and answer.dtype not in ("float32", "float64"):
            wrong = f"dtype {answer.dtype}, expected float32"
        return wrong

    return judge


def draw_vectors(
    rng: Rng,
    num_hard: int = 0,
    num_positives: int = 6,
    same: bool = False,
    is_trained: bool = False,
    gradients_of: Sequence[str] = (),
    **arguments: Any,
) -> Case:
    """Six pairs of vectors. num_hard: hard negatives of each. same: some pairs say the same.

    is_trained: the temperature is a tensor.
    """
    inputs = {"anchors": normal(rng, 6, 4), "positives": normal(rng, num_positives, 4)}
    temperature = arguments.pop("temperature", rng.uniform(0.2, 0.8))
    if is_trained:
        inputs["temperature"] = np.array(temperature)
    else:
        arguments["temperature"] = temperature
    if num_hard:
        inputs["hard_negatives"] = normal(rng, 6 * num_hard, 4)
        arguments["hard_negative_weight"] = float(rng.uniform(0.5, 2))
    if same:
        inputs["same"] = rng.random((6, 6)) < 0.3
        np.fill_diagonal(inputs["same"], True)
        inputs["same_hard"] = rng.random((6, 6)) < 0.3
    return Case(inputs, {"arguments": arguments, "gradients_of": gradients_of})


# --- samplers and surgery -------------------------------------------------------------------------


def draw_plan(rng: Rng, **options: Any) -> Case:
    """Three tasks with 5, 11 and 4 rows in some order."""
    num_rows = dict(zip(("sst", "para", "sts"), rng.permutation([5, 11, 4]).tolist(), strict=True))
    return Case({}, {"num_rows": num_rows, "seed": seed_of(rng), **options})


# The answer of a sampler has for each call its steps, and by task the batches of all passes that it
# asked for, in order.


def judge_joint(case: Case, answer: Answer) -> str:
    """Step n holds batch n of each task."""
    counts = {task: -(-rows // 2) for task, rows in case.options["num_rows"].items()}
    is_smallest = case.options.get("argument") == "smallest"
    expected = min(counts.values()) if is_smallest else max(counts.values())
    for steps, asked in answer.output:
        if len(steps) != expected:
            return f"{len(steps)} steps, expected {expected}"
        for number, step in enumerate(steps):
            wanted = [[task, asked[task][number]] for task in counts]
            if step != wanted:
                return f"step {number} is {step}, expected {wanted}: passes one after the other"
    return ""


def judge_mt_dnn(case: Case, answer: Answer) -> str:
    """The right number of each task's batches, none of them twice, and evenly shuffled."""
    weights = case.options.get("argument", {})
    counts = {}
    for task, rows in case.options["num_rows"].items():
        counts[task] = max(1, round(-(-rows // 2) * weights.get(task, 1.0)))
    firsts: Counter[str] = Counter()
    for steps, asked in answer.output:
        if any(len(step) != 1 for step in steps):
            return "expected is one batch in each step"
        batches = Counter(str(step[0]) for step in steps)
        for task in counts:
            batches.subtract(str([task, batch]) for batch in asked[task])
        if Counter(step[0][0] for step in steps) != counts or max(batches.values()) > 0:
            return "expected are the batches of each pass, each once"
        firsts[steps[0][0][0]] += 1
    for task, count in counts.items():
        if is_far(firsts[task], count / sum(counts.values()), len(answer.output)):
            return "each batch must be as likely as another to come first"
    return ""


def judge_repeated(case: Case, answer: Answer) -> str:
    """Both plans are the same."""
    first, second = answer.output
    return "" if first == second else "the same state of the generator gives another plan"


def draw_gramian(rng: Rng, num_tasks: int, **options: Any) -> Case:
    """The dot products of gradients of which some conflict. is_zero: the first one is 0."""
    is_zero = options.pop("is_zero", False)
    gramian = np.zeros((num_tasks, num_tasks))
    while gramian.min() > -0.1:
        gradients = normal(rng, num_tasks, 5)
        gradients -= 0.9 * gradients.mean(axis=0)
        if is_zero:
            gradients[0] = 0
        gramian = gradients @ gradients.T
    return Case({"gramian": gramian}, {"seed": seed_of(rng), **options})


def draw_own_conflict(rng: Rng) -> Case:
    """Gradients of which the first, once it is projected, may point against what it was."""
    gradients = rng.uniform(0.5, 2) * np.array([[-2.0, -2], [0, 1], [2, 1]])
    return Case({"gramian": gradients @ gradients.T}, {"seed": seed_of(rng), "num_steps": 60})


def judge_pcgrad(case: Case, answer: Answer) -> str:
    """The weights are those of some orders, and in the mean those of all orders.

    With is_reseeded, all steps have the same order.
    """
    possible = references.pcgrad(case.inputs["gramian"])
    num_tasks = possible.shape[1]
    if case.options.get("reduction") == "mean":
        possible = possible / num_tasks
    found = answer.output
    if not isinstance(found, np.ndarray) or found.shape[1:] != (num_tasks,):
        return f"expected are {num_tasks} weights"
    if case.options.get("is_reseeded"):
        if (found != found[:1]).any():
            return "the order is not that of the generator"
        found = found[:1]
    distances = np.abs(found[:, None] - possible).max(axis=2).min(axis=1)
    if not (distances <= 1e-5).all():
        return "no orders of the other tasks give these weights"
    spread = 5 * possible.std(axis=0) / np.sqrt(len(found)) + 1e-9
    if len(found) > 1 and (np.abs(found.mean(axis=0) - possible.mean(axis=0)) > spread).any():
        return "the orders are not drawn anew, or some come too often"
    return ""
