"""The checks of each function: a case that is drawn anew, and a judge of the answer.

The right results come from references.py. A judge returns "" for a right answer, and otherwise says
what is wrong. A weak check could be passed without the formula, such as one that expects an error.
It counts only where the first check of its function has passed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from teaching import references
from teaching.references import Array

Rng = np.random.Generator


class Case(NamedTuple):
    """What a function is called with."""

    inputs: dict[str, Array]
    options: dict[str, Any]


class Answer(NamedTuple):
    """What a function gave back."""

    output: Any
    changed: list[str]
    gradients: dict[str, Array]
    dtype: str = ""  # of an output that is a tensor


Judge = Callable[[Case, Answer], str]


class Check(NamedTuple):
    """One check of a function."""

    name: str
    draw: Callable[[Rng], Case]
    judge: Judge
    is_weak: bool = False
    error: str = ""  # the exception that is expected


def read_answer(text: str) -> Answer:
    """An answer from the child's JSON. Raises ValueError for another text."""
    parts = json.loads(text)
    output = read_value(parts["output"])
    is_tensor = isinstance(parts["output"], dict) and "dtype" in parts["output"]
    gradients = {name: read_value(value) for name, value in parts["gradients"].items()}
    return Answer(
        output, parts["changed"], gradients, parts["output"]["dtype"] if is_tensor else ""
    )


def read_value(value: Any) -> Any:
    """An array, a plain value, or a list of them."""
    if isinstance(value, list):
        return [read_value(item) for item in value]
    if "numbers" in value:
        return np.array(value["numbers"]).reshape(value["shape"])
    return value.get("value", value.get("type"))


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
    difference = float(np.abs(found - expected).max(initial=0.0))
    if difference > tolerance * max(1.0, float(np.abs(expected).max(initial=0.0))):
        return f"off by {difference:.2g}"
    return ""


def equal_to(reference: Callable[[Case], Any], tolerance: float = 1e-5) -> Judge:
    """A judge that compares with a reference, and wants the inputs unchanged."""

    def judge(case: Case, answer: Answer) -> str:
        wrong = compare(answer.output, reference(case), tolerance)
        if not wrong and answer.changed:
            wrong = f"the argument {answer.changed[0]} was changed in place"
        return wrong

    return judge


def gradients_of(reference: Callable[[Case], Any]) -> Judge:
    """A judge of gradients, by central differences of the reference in a random direction."""

    def judge(case: Case, answer: Answer) -> str:
        generator = np.random.default_rng(len(case.inputs))
        for name, gradient in answer.gradients.items():
            direction = generator.standard_normal(case.inputs[name].shape)
            ends = []
            for sign in (1, -1):
                moved = {**case.inputs, name: case.inputs[name] + sign * 1e-5 * direction}
                value = reference(Case(moved, case.options)) * case.inputs.get("probe", 1.0)
                ends.append(float(np.sum(value)))
            slope = (ends[0] - ends[1]) / 2e-5
            found = float((gradient * direction).sum())
            if not abs(found - slope) <= 1e-4 * max(1.0, abs(slope)):
                return f"the gradient of {name} is wrong: is the result detached, or rounded?"
        return ""

    return judge


def expects_error(case: Case, answer: Answer) -> str:
    """The judge of a call that must raise an error: it came back."""
    return "no error was raised; see the docstring"


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


# --- attention ------------------------------------------------------------------------------------


def draw_attention(rng: Rng, is_masked: bool = False, scale: float = 1.0, **options: Any) -> Case:
    """Queries, keys and values (2, 3, 5, 4); the first two times `scale`."""
    inputs = {name: scale * normal(rng, 2, 3, 5, 4) for name in ("query", "key")}
    inputs["value"] = normal(rng, 2, 3, 5, 4)
    if is_masked:
        inputs["bias"] = padding_bias(rng, 2, 5)
    if "gradients_of" in options:
        inputs["probe"] = normal(rng, 2, 3, 5, 4)
    return Case(inputs, options)


def draw_dropped(rng: Rng, training: bool) -> Case:
    """Unit vectors as values, each twice, so that the result shows the weights twice."""
    values = np.broadcast_to(np.tile(np.eye(8), 2), (20, 4, 8, 16)).copy()
    inputs = {"query": normal(rng, 20, 4, 8, 4), "key": normal(rng, 20, 4, 8, 4), "value": values}
    p = float(rng.uniform(0.3, 0.6))
    return Case(inputs, {"p": p, "training": training, "seed": seed_of(rng)})


def judge_dropped(case: Case, answer: Answer) -> str:
    """Each weight is either 0 or 1 / (1 - p) times as large, and about p of them are 0."""
    p = case.options["p"]
    scaled = references.attention(case.inputs) / (1 - p)
    if not isinstance(answer.output, np.ndarray) or answer.output.shape != scaled.shape:
        return "dropout changes no shape"
    is_dropped = answer.output == 0
    wrong = compare(answer.output, np.where(is_dropped, 0.0, scaled))
    links, again = np.split(is_dropped, 2, axis=-1)
    # 5,120 links and five standard deviations.
    if wrong or abs(links.mean() - p) > 5 * np.sqrt(p * (1 - p) / links.size):
        return "dropout drops each probability with p, and divides the others by 1 - p"
    if (links != again).any():
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
    rng: Rng, parts: Mapping[str, tuple[int, ...]], options: Mapping[str, Any], **inputs: Array
) -> Case:
    """Weights of a module by name and shape, and the other inputs."""
    drawn = {f"weights.{name}": normal(rng, *shape) for name, shape in parts.items()}
    return Case({**drawn, **inputs}, {"seed": seed_of(rng), **options})


def of_linear(*names: str, rows: int = 8, columns: int = 8) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights of linear layers."""
    parts: dict[str, tuple[int, ...]] = {}
    for name in names:
        parts[f"{name}.weight"] = (rows, columns)
        parts[f"{name}.bias"] = (rows,)
    return parts


def of_norm(*names: str) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights of LayerNorms of eight units."""
    parts: dict[str, tuple[int, ...]] = {}
    for name in names:
        parts[f"{name}.weight"] = (8,)
        parts[f"{name}.bias"] = (8,)
    return parts


HEADS = of_linear("query", "key", "value", "output")
SIZES = {
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "layer_norm_eps": 0.01,
}


def draw_heads(
    rng: Rng,
    is_masked: bool = False,
    drop: float = 0.0,
    gradients: bool = False,
    training: bool = True,
) -> Case:
    """The weights of multi-head attention and hidden states (2, 5, 8)."""
    inputs = {"hidden": normal(rng, 2, 5, 8)}
    options: dict[str, Any] = {"config": {**SIZES, "attention_probs_dropout_prob": drop}}
    options["training"] = training and drop > 0
    if is_masked:
        inputs["bias"] = padding_bias(rng, 2, 5)
    if gradients:
        inputs["probe"] = normal(rng, 2, 5, 8)
        options["gradients_of"] = ["hidden"]
    return draw_module(rng, HEADS, options, **inputs)


def judge_projections(case: Case, answer: Answer) -> str:
    """Query, key and value in this order."""
    found = answer.output
    if not isinstance(found, list) or len(found) != 3:
        return "expected are three tensors: query, key, value"
    for tensor, name in zip(found, ("query", "key", "value"), strict=True):
        expected = references.linear(case.inputs, name, case.inputs["hidden"])
        wrong = compare(tensor, expected)
        if wrong:
            return f"{name}: {wrong}"
    return "hidden_states was changed in place" if answer.changed else ""


def heads_of(case: Case) -> Array:
    """The right result of MultiHeadAttention.forward."""
    return references.multi_head(case.inputs, case.inputs["hidden"], 2)


def judge_differs(reference: Callable[[Case], Any]) -> Judge:
    """In training mode with dropout, the result is another one than without."""

    def judge(case: Case, answer: Answer) -> str:
        expected = reference(case)
        if not isinstance(answer.output, np.ndarray) or answer.output.shape != expected.shape:
            return "dropout changes no shape"
        return "" if compare(answer.output, expected) else "nothing is dropped in training mode"

    return judge


# --- the optimizer --------------------------------------------------------------------------------


def draw_steps(rng: Rng, num_steps: int, **settings: Any) -> Case:
    """Gradients and learning rates of some steps, and the settings of AdamW."""
    chosen = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0, "correct_bias": True}
    chosen |= settings
    inputs = {"start": normal(rng, 2, 4), "gradients": normal(rng, num_steps, 2, 4)}
    rates = rng.uniform(0.05, 0.2, num_steps).tolist()
    first_steps = [0, min(2, num_steps - 1)]
    return Case(inputs, {"settings": chosen, "rates": rates, "first_steps": first_steps})


def steps_of(case: Case) -> Array:
    """The right places after each step."""
    return references.adamw(case.inputs, case.options)


# --- embeddings and layers ------------------------------------------------------------------------


def draw_embeddings(rng: Rng, drop: float = 0.0) -> Case:
    """The weights of the embeddings, token ids and segments (3, 7)."""
    parts = {"word.weight": (30, 8), "position.weight": (12, 8), "segment.weight": (2, 8)}
    ids = rng.integers(0, 30, (3, 7))
    segments = rng.integers(0, 2, (3, 7))
    config = {**SIZES, "hidden_dropout_prob": drop}
    options = {"config": config, "training": drop > 0}
    return draw_module(rng, parts | of_norm("norm"), options, ids=ids, segments=segments)


def embeddings_of(case: Case) -> Array:
    """The right embeddings."""
    return references.embeddings(case.inputs, 0.01)


def judge_dropped_embeddings(case: Case, answer: Answer) -> str:
    """About half of the units are 0, and the others are twice as large."""
    expected = 2 * embeddings_of(case)
    if not isinstance(answer.output, np.ndarray) or answer.output.shape != expected.shape:
        return "dropout changes no shape"
    is_dropped = answer.output == 0
    wrong = compare(answer.output, np.where(is_dropped, 0.0, expected))
    # 168 units, half of them, and five standard deviations.
    if wrong or not 0.3 < is_dropped.mean() < 0.7:
        return "in training, dropout follows the norm"
    return ""


WIDE = of_linear("up", rows=12) | of_linear("down", columns=12)


def draw_feed_forward(rng: Rng, act: str = "gelu") -> Case:
    """The weights of the network, and hidden states (2, 5, 8)."""
    options = {"config": {**SIZES, "hidden_act": act}}
    return draw_module(rng, WIDE, options, hidden=normal(rng, 2, 5, 8))


def feed_forward_of(case: Case) -> Array:
    """The right result of the network."""
    act = case.options["config"]["hidden_act"]
    return references.feed_forward(case.inputs, case.inputs["hidden"], act)


def draw_layer(rng: Rng, is_masked: bool = False, drop: float = 0.0, some: bool = False) -> Case:
    """The weights of a layer, and hidden states (2, 5, 8). some: of three tokens alone."""
    parts = {f"attention.{name}": shape for name, shape in HEADS.items()}
    parts |= {f"feed_forward.{name}": shape for name, shape in WIDE.items()}
    parts |= of_norm("attention_norm", "feed_forward_norm")
    inputs = {"hidden": normal(rng, 2, 5, 8)}
    if is_masked:
        inputs["bias"] = padding_bias(rng, 2, 5)
    if some:
        inputs["positions"] = rng.permutation(10)[:3]
    config = {**SIZES, "hidden_dropout_prob": drop}
    return draw_module(rng, parts, {"config": config, "training": drop > 0}, **inputs)


def layer_of(case: Case) -> Array:
    """The right result of a layer."""
    return references.layer(case.inputs, 2, 0.01)


# --- schedules ------------------------------------------------------------------------------------


def draw_schedule(rng: Rng, is_corner: bool = False) -> Case:
    """Forty calls. is_corner: no warm-up, nothing but warm-up, steps behind the last one."""
    calls = []
    for _ in range(40):
        num_steps = int(rng.integers(2, 50))
        num_warmup = int(rng.integers(0, num_steps))
        step = int(rng.integers(0, num_steps))
        if is_corner:
            num_warmup = int(rng.choice([0, num_steps, num_steps + 5]))
            step = int(rng.integers(0, num_steps + 10))
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
    options = {"p": p, "vocab_size": 100, "mask_id": MASK, "seed": seed_of(rng)}
    inputs: dict[str, Array] = {"ids": ids, "is_special": ids == CLS}
    if whole_words:
        continues = ids >= PIECE
        continues[:, 1] = False
        inputs["continues"] = continues
    return Case(inputs, options)


def judge_tokens(case: Case, answer: Answer) -> str:
    """Masked twice with one seed, and then once more."""
    for result in answer.output:
        is_pair = isinstance(result, list) and len(result) == 2
        if not is_pair or any(part.shape != case.inputs["ids"].shape for part in result):
            return "expected are input_ids and labels, (B, T) each"
    first, again, later = answer.output
    if answer.changed:
        return f"{answer.changed[0]} was changed in place"
    if any((one != other).any() for one, other in zip(first, again, strict=True)):
        return "the same state of torch's generator gives other masks"
    if 0 < case.options["p"] < 1 and ((first[1] != -100) == (later[1] != -100)).all():
        return "two calls choose the same tokens"
    return wrong_tokens(case, *first) or wrong_shares(case, *first)


def wrong_tokens(case: Case, hidden: Array, labels: Array) -> str:
    """What is wrong with single tokens."""
    ids = case.inputs["ids"]
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
    ids = case.inputs["ids"]
    p = case.options["p"]
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
    # A random token may be the one that stood there.
    for name, share, is_so in (("[MASK]", 0.8, hidden == MASK), ("the same", 0.101, hidden == ids)):
        found = (is_so & is_chosen).sum() / num_chosen
        if abs(found - share) > 5 * np.sqrt(share * (1 - share) / num_chosen) + 0.002:
            return f"{found:.2f} of the chosen tokens are {name}, expected {share:.2f}"
    replaced = hidden[is_chosen & (hidden != MASK) & (hidden != ids)]
    if len(set(replaced.tolist())) < min(60, len(replaced) // 4):
        return "random tokens come from the whole vocabulary"
    return ""


def judge_words(case: Case, answer: Answer) -> str:
    """As judge_tokens, and the pieces of a word share their fate."""
    wrong = judge_tokens(case, answer)
    is_chosen = answer.output[0][1] != -100
    continues = case.inputs["continues"][:, 1:]
    if not wrong and (is_chosen[:, 1:] != is_chosen[:, :-1])[continues].any():
        wrong = "a word is chosen whole or not at all"
    return wrong


# --- losses ---------------------------------------------------------------------------------------


def draw_loss(rng: Rng, kind: str, dtype: str = "float32", **options: Any) -> Case:
    """Outputs of a model and labels, of six rows."""
    if kind == "classes":
        logits = 3 * normal(rng, 6, 5)
        inputs = {"logits": logits, "labels": rng.integers(0, 5, 6).astype(np.float32)}
    elif kind == "pairs":
        labels = np.array([0, 1, 1, 0, 0.25, 0.9], dtype=np.float32)
        inputs = {"logits": 3 * normal(rng, 6), "labels": rng.permutation(labels)}
    else:
        inputs = {"prediction": 3 * normal(rng, 6), "labels": rng.uniform(0, 5, 6)}
    for name in ("logits", "prediction"):
        if name in inputs:
            # Whole 64ths, which bfloat16 does not hold and half precision does.
            inputs[name] = np.round(inputs[name] * 64) / 64
    return Case(inputs, {"dtype": dtype, **options})


def draw_unequal(rng: Rng, kind: str) -> Case:
    """As draw_loss, with a column (6, 1) against labels (6,)."""
    case = draw_loss(rng, kind)
    name = "logits" if kind == "pairs" else "prediction"
    return Case({**case.inputs, name: case.inputs[name][:, None]}, case.options)


def judge_scalar(reference: Callable[[Case], float], tolerance: float = 1e-4) -> Judge:
    """The value, in float32 for every dtype of the inputs."""

    def judge(case: Case, answer: Answer) -> str:
        wrong = equal_to(reference, tolerance)(case, answer)
        if not wrong and answer.dtype not in ("float32", "float64"):
            wrong = f"dtype {answer.dtype}, expected float32"
        return wrong

    return judge


def sentiment_of(case: Case) -> float:
    """The right loss of sentiment."""
    return references.sentiment(case.inputs)


def paraphrase_of(case: Case) -> float:
    """The right loss of paraphrases."""
    return references.paraphrase(case.inputs, case.options.get("shift", 0.0))


def similarity_of(case: Case) -> float:
    """The right loss of similarity."""
    return float(((case.inputs["prediction"] - case.inputs["labels"]) ** 2).mean())


def info_nce_of(case: Case) -> float:
    """The right InfoNCE."""
    return references.info_nce(case.inputs, case.options)


def draw_vectors(rng: Rng, hard: bool = False, same: bool = False, **options: Any) -> Case:
    """Six pairs of vectors, with hard negatives and pairs that say the same if asked for."""
    inputs = {"anchors": normal(rng, 6, 4), "positives": normal(rng, 6, 4)}
    if hard:
        inputs["hard"] = normal(rng, 6, 4)
        options["weight"] = float(rng.uniform(0.5, 2))
    if same:
        inputs["same"] = rng.random((6, 6)) < 0.3
        np.fill_diagonal(inputs["same"], True)
        inputs["same_hard"] = rng.random((6, 6)) < 0.3
    return Case(inputs, {"temperature": float(rng.uniform(0.2, 0.8)), **options})


def draw_bad_vectors(rng: Rng) -> Case:
    """Six anchors and five positives."""
    case = draw_vectors(rng)
    return Case({**case.inputs, "positives": normal(rng, 5, 4)}, case.options)


# --- samplers and surgery -------------------------------------------------------------------------


def draw_plan(rng: Rng, **options: Any) -> Case:
    """Three tasks with 5, 11 and 4 rows in some order."""
    num_rows = dict(zip(("sst", "para", "sts"), rng.permutation([5, 11, 4]).tolist(), strict=True))
    return Case({}, {"num_rows": num_rows, "seed": seed_of(rng), **options})


class Plan(NamedTuple):
    """What one call of a sampler returned, and the batches that it had asked for."""

    steps: list[list[list[Any]]]
    asked: dict[str, list[list[int]]]  # the batches of all passes of a task, in order


def plans_of(answer: Answer) -> list[Plan]:
    """The plans of all calls of a sampler."""
    plans = []
    for result in json.loads(answer.output):
        asked: dict[str, list[list[int]]] = {}
        for task, batches in result["passes"]:
            asked.setdefault(task, []).extend(batches)
        plans.append(Plan(result["steps"], asked))
    return plans


def judge_joint(case: Case, answer: Answer) -> str:
    """Step n holds batch n of each task."""
    counts = {task: -(-rows // 2) for task, rows in case.options["num_rows"].items()}
    is_smallest = case.options.get("argument") == "smallest"
    expected = min(counts.values()) if is_smallest else max(counts.values())
    for plan in plans_of(answer):
        if len(plan.steps) != expected:
            return f"{len(plan.steps)} steps, expected {expected}"
        for number, step in enumerate(plan.steps):
            wanted = [[task, plan.asked[task][number]] for task in counts]
            if step != wanted:
                return f"step {number} is {step}, expected {wanted}: passes one after the other"
    return ""


def judge_mt_dnn(case: Case, answer: Answer) -> str:
    """The right number of each task's batches, none of them twice, and evenly shuffled."""
    weights = case.options.get("argument", {})
    counts = {}
    for task, rows in case.options["num_rows"].items():
        counts[task] = max(1, round(-(-rows // 2) * weights.get(task, 1.0)))
    plans = plans_of(answer)
    firsts: Counter[str] = Counter()
    for plan in plans:
        if any(len(step) != 1 for step in plan.steps):
            return "expected is one batch in each step"
        batches = Counter(str(step[0]) for step in plan.steps)
        asked: Counter[str] = Counter()
        for task in counts:
            asked.update(str([task, batch]) for batch in plan.asked[task])
        if Counter(step[0][0] for step in plan.steps) != counts or batches - asked:
            return "expected are the batches of each pass, each once"
        firsts[plan.steps[0][0][0]] += 1
    for task, count in counts.items():
        share = count / sum(counts.values())
        allowed = 5 * np.sqrt(share * (1 - share) * len(plans))
        if abs(firsts[task] - share * len(plans)) > allowed:
            return "each batch must be as likely as another to come first"
    return ""


def judge_repeated(case: Case, answer: Answer) -> str:
    """Both plans are the same."""
    first, second = plans_of(answer)
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
    """The weights are those of some orders, and in the mean those of all orders."""
    possible = references.pcgrad(case.inputs["gramian"])
    num_tasks = possible.shape[1]
    if case.options.get("reduction") == "mean":
        possible = possible / num_tasks
    found = answer.output
    if not isinstance(found, np.ndarray) or found.shape[1:] != (num_tasks,):
        return f"expected are {num_tasks} weights"
    if answer.changed:
        return "the Gramian was changed in place"
    distances = np.abs(found[:, None] - possible).max(axis=2).min(axis=1)
    if not (distances <= 1e-5).all():
        return "no orders of the other tasks give these weights"
    spread = 5 * possible.std(axis=0) / np.sqrt(len(found)) + 1e-9
    if len(found) > 1 and (np.abs(found.mean(axis=0) - possible.mean(axis=0)) > spread).any():
        return "the orders are not drawn anew, or some come too often"
    return ""


def judge_same_steps(case: Case, answer: Answer) -> str:
    """All steps have the same weights, and they are possible ones."""
    first = Answer(answer.output[:1], answer.changed, answer.gradients)
    is_same = bool((answer.output == answer.output[:1]).all())
    return judge_pcgrad(case, first) if is_same else "the order is not that of the generator"


# --- all checks -----------------------------------------------------------------------------------

CHECKS: dict[str, list[Check]] = {
    "attention": [
        Check("values", draw_attention, equal_to(lambda case: references.attention(case.inputs))),
        Check(
            "mask",
            partial(draw_attention, is_masked=True),
            equal_to(lambda case: references.attention(case.inputs)),
        ),
        Check(
            "large scores",
            partial(draw_attention, scale=60.0),
            equal_to(lambda case: references.attention(case.inputs)),
        ),
        Check(
            "gradients",
            partial(draw_attention, gradients_of=["query", "key", "value"]),
            gradients_of(lambda case: references.attention(case.inputs)),
        ),
        Check("dropout", partial(draw_dropped, training=True), judge_dropped),
        Check(
            "no dropout in evaluation",
            partial(draw_dropped, training=False),
            equal_to(lambda case: references.attention(case.inputs)),
        ),
    ],
    "mask_to_bias": [
        Check("float32", partial(draw_mask, dtype="float32"), judge_mask),
        Check("float64", partial(draw_mask, dtype="float64"), judge_mask),
        Check("bfloat16", partial(draw_mask, dtype="bfloat16"), judge_mask),
    ],
    "MultiHeadAttention.project": [Check("values", draw_heads, judge_projections)],
    "MultiHeadAttention.forward": [
        Check("values", draw_heads, equal_to(heads_of)),
        Check("mask", partial(draw_heads, is_masked=True), equal_to(heads_of)),
        Check("gradients", partial(draw_heads, gradients=True), gradients_of(heads_of)),
        Check("dropout", partial(draw_heads, drop=0.5), judge_differs(heads_of), is_weak=True),
        Check(
            "no dropout in evaluation",
            partial(draw_heads, drop=0.5, training=False),
            equal_to(heads_of),
        ),
    ],
    "AdamW.update": [
        Check("first step", partial(draw_steps, num_steps=1), equal_to(steps_of)),
        Check("six steps", partial(draw_steps, num_steps=6), equal_to(steps_of)),
        Check("large eps", partial(draw_steps, num_steps=4, eps=0.5), equal_to(steps_of)),
        Check(
            "no bias correction",
            partial(draw_steps, num_steps=4, correct_bias=False),
            equal_to(steps_of),
        ),
        Check("decay", partial(draw_steps, num_steps=4, weight_decay=0.3), equal_to(steps_of)),
        Check(
            "decay without correction",
            partial(draw_steps, num_steps=4, weight_decay=0.3, correct_bias=False),
            equal_to(steps_of),
        ),
    ],
    "BertEmbeddings.forward": [
        Check("values", draw_embeddings, equal_to(embeddings_of)),
        Check("dropout", partial(draw_embeddings, drop=0.5), judge_dropped_embeddings),
    ],
    "FeedForward.forward": [
        Check("values", draw_feed_forward, equal_to(feed_forward_of)),
        Check(
            "other activation", partial(draw_feed_forward, act="relu"), equal_to(feed_forward_of)
        ),
    ],
    "BertLayer.forward": [
        Check("values", draw_layer, equal_to(layer_of)),
        Check("mask", partial(draw_layer, is_masked=True), equal_to(layer_of)),
        Check("positions", partial(draw_layer, some=True), equal_to(layer_of)),
        Check("dropout", partial(draw_layer, drop=0.5), judge_differs(layer_of), is_weak=True),
    ],
    "linear": [
        Check("values", draw_schedule, judge_schedule("linear")),
        Check("corners", partial(draw_schedule, is_corner=True), judge_schedule("linear")),
    ],
    "cosine": [
        Check("values", draw_schedule, judge_schedule("cosine")),
        Check("corners", partial(draw_schedule, is_corner=True), judge_schedule("cosine")),
    ],
    "mask_tokens": [
        Check("15 %", partial(draw_tokens, p=0.15), judge_tokens),
        Check("half", partial(draw_tokens, p=0.5), judge_tokens),
        Check("none", partial(draw_tokens, p=0.0), judge_tokens, is_weak=True),
        Check("all", partial(draw_tokens, p=1.0), judge_tokens),
        Check("whole words", partial(draw_tokens, p=0.3, whole_words=True), judge_words),
    ],
    "sentiment_loss": [
        Check("values", partial(draw_loss, kind="classes"), judge_scalar(sentiment_of)),
        Check(
            "half precision",
            partial(draw_loss, kind="classes", dtype="float16"),
            judge_scalar(sentiment_of, 2e-3),
        ),
        Check(
            "gradients",
            partial(draw_loss, kind="classes", dtype="float64", gradients_of=["logits"]),
            gradients_of(sentiment_of),
        ),
    ],
    "paraphrase_loss": [
        Check("values", partial(draw_loss, kind="pairs"), judge_scalar(paraphrase_of)),
        Check("shift", partial(draw_loss, kind="pairs", shift=0.7), judge_scalar(paraphrase_of)),
        Check(
            "gradients",
            partial(draw_loss, kind="pairs", dtype="float64", gradients_of=["logits"]),
            gradients_of(paraphrase_of),
        ),
        Check(
            "shapes",
            partial(draw_unequal, kind="pairs"),
            expects_error,
            is_weak=True,
            error="ValueError",
        ),
    ],
    "similarity_loss": [
        Check("values", partial(draw_loss, kind="scores"), judge_scalar(similarity_of)),
        Check(
            "gradients",
            partial(draw_loss, kind="scores", dtype="float64", gradients_of=["prediction"]),
            gradients_of(similarity_of),
        ),
        Check(
            "shapes",
            partial(draw_unequal, kind="scores"),
            expects_error,
            is_weak=True,
            error="ValueError",
        ),
    ],
    "info_nce": [
        Check("values", draw_vectors, equal_to(info_nce_of)),
        Check("dot products", partial(draw_vectors, similarity="dot"), equal_to(info_nce_of)),
        Check("hard negatives", partial(draw_vectors, hard=True), equal_to(info_nce_of)),
        Check("same", partial(draw_vectors, hard=True, same=True), equal_to(info_nce_of)),
        Check(
            "gradients",
            partial(draw_vectors, hard=True, gradients_of=["anchors", "positives", "hard"]),
            gradients_of(info_nce_of),
        ),
        Check("shapes", draw_bad_vectors, expects_error, is_weak=True, error="ValueError"),
    ],
    "joint": [
        Check("largest", partial(draw_plan, num_calls=3), judge_joint),
        Check("smallest", partial(draw_plan, num_calls=3, argument="smallest"), judge_joint),
        Check(
            "the generator alone",
            partial(draw_plan, num_calls=2, is_reseeded=True),
            judge_repeated,
            is_weak=True,
        ),
    ],
    "mt_dnn": [
        Check("all batches", partial(draw_plan, num_calls=1000), judge_mt_dnn),
        Check(
            "weights",
            partial(draw_plan, num_calls=1000, argument={"sst": 2.3, "sts": 0.8}),
            judge_mt_dnn,
        ),
        Check(
            "the generator alone",
            partial(draw_plan, num_calls=2, is_reseeded=True),
            judge_repeated,
            is_weak=True,
        ),
    ],
    "pcgrad_weights": [
        Check("three tasks", partial(draw_gramian, num_tasks=3, num_steps=300), judge_pcgrad),
        Check("four tasks", partial(draw_gramian, num_tasks=4), judge_pcgrad),
        Check("never on itself", draw_own_conflict, judge_pcgrad),
        Check("two tasks", partial(draw_gramian, num_tasks=2), judge_pcgrad),
        Check("mean", partial(draw_gramian, num_tasks=3, reduction="mean"), judge_pcgrad),
        Check(
            "the generator alone",
            partial(draw_gramian, num_tasks=4, num_steps=20, is_reseeded=True),
            judge_same_steps,
        ),
        Check("a zero gradient", partial(draw_gramian, num_tasks=3, is_zero=True), judge_pcgrad),
    ],
}
