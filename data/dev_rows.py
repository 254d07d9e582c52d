"""Dev rows of a task that has no dev file: drawn from its training rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise

from data.examples import Example, Table, join_some, quoted
from data.task_flags import TaskRequest
from data.task_specs import TaskSpec

NUM_STRATA = 10  # of the scores, when dev rows are drawn


def draw_dev(table: Table, spec: TaskSpec, request: TaskRequest) -> dict[str, Table]:
    """Split a training table into training and dev rows, with a seed and stratified by label.

    Rows with the same texts stay together. Both parts keep the order of the file. The draw depends
    on the texts and the seed, and not on the order of the rows.
    """
    # Equal texts in training and dev would flatter the score.
    groups = group_by_texts(table.examples, spec)
    strata = strata_of(groups, spec)
    for stratum in strata:
        stratum.sort(key=lambda texts: draw_key(texts, request.split_seed))
    dev_texts: set[tuple[str, ...]] = set()
    if request.num_folds:
        dev_texts.update(fold_of(strata, groups, request))
    else:
        for stratum in strata:
            dev_texts.update(stratum[: num_dev(len(stratum), request.dev_share)])

    # False: training rows. True: dev rows.
    parts: dict[bool, list[Example]] = {False: [], True: []}
    for example in table.examples:
        parts[example.texts in dev_texts].append(example)
    if not parts[True] or not parts[False]:
        raise ValueError(
            f"{table.path}: its {len(table.examples):,} rows are too few to draw dev rows from. "
            f"Name a file with dev= in --task {spec.name}."
        )
    # The sentences for the user stand in place of the counts of a whole file.
    num_rows = len(table.examples)
    stratified = ", stratified by label" + describe_labels(parts[True], spec)
    fold = f" as part {request.fold} of {request.num_folds}" if request.num_folds else ""
    dev_origin = (
        f"{table.path}: {len(parts[True]):,} of {num_rows:,} rows are dev rows of {spec.name}"
        f"{fold}, drawn with seed {request.split_seed}{stratified}"
    )
    train_origin = f"{table.summary}; {len(parts[False]):,} of them are for training"
    return {
        "train": replace(table, examples=tuple(parts[False]), origin=train_origin),
        "dev": Table(table.path, tuple(parts[True]), (), origin=dev_origin, style=table.style),
    }


def fold_of(
    strata: list[list[tuple[str, ...]]],
    groups: dict[tuple[str, ...], float],
    request: TaskRequest,
) -> list[tuple[str, ...]]:
    """The texts of one fold of a cross-validation. Each text is in one fold.

    The texts are counted through, label by label, so that the folds have each label equally often.
    strata: sorted by draw_key. Compare with sklearn.model_selection.StratifiedKFold.
    """
    ordered = sorted(strata, key=lambda stratum: groups[stratum[0]])
    texts = list(chain.from_iterable(ordered))
    return texts[request.fold - 1 :: request.num_folds]


def group_by_texts(examples: Sequence[Example], spec: TaskSpec) -> dict[tuple[str, ...], float]:
    """The different texts, each with the label of its first row.

    Of a row with several labels, it is the rarest of them, so that both parts have it.
    """
    counts = count_labels(examples, spec)
    groups: dict[tuple[str, ...], float] = {}
    for example in examples:
        label = example.label or 0.0
        if example.label_set is not None:
            numbers = [number for number, value in enumerate(example.label_set) if value]
            label = float(min(numbers, key=lambda number: counts[number], default=-1))
        groups.setdefault(example.texts, label)
    return groups


def count_labels(examples: Sequence[Example], spec: TaskSpec) -> Counter[int]:
    """How many rows each class has. A row with several labels counts for each of them."""
    counts: Counter[int] = Counter()
    for example in examples:
        if example.label_set is not None:
            counts.update(number for number, value in enumerate(example.label_set) if value)
        elif not spec.is_regression:
            counts[int(example.label or 0)] += 1
    return counts


def strata_of(groups: dict[tuple[str, ...], float], spec: TaskSpec) -> list[list[tuple[str, ...]]]:
    """The texts in parts with alike labels: one for each class, or tenths of the scores."""
    if not spec.is_regression:
        by_label: dict[float, list[tuple[str, ...]]] = {}
        for texts, label in groups.items():
            by_label.setdefault(label, []).append(texts)
        return list(by_label.values())
    # Scores have no classes. Neighbours in their order are alike.
    ordered = sorted(groups, key=lambda texts: (groups[texts], texts))
    num_strata = max(1, min(NUM_STRATA, len(ordered) // NUM_STRATA))
    ends = [len(ordered) * number // num_strata for number in range(num_strata + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]


def num_dev(num_texts: int, share: float) -> int:
    """How many texts of a stratum are dev: at least one of two, and never all."""
    return min(max(1, round(num_texts * share)), num_texts - 1)


def draw_key(texts: tuple[str, ...], seed: int) -> bytes:
    """A number that is random, but always the same for a text and a seed."""
    return hashlib.sha256("\t".join([str(seed), *texts]).encode()).digest()


def describe_labels(examples: Sequence[Example], spec: TaskSpec) -> str:
    """How many dev rows each class has: ": 5 no, 7 yes", or ": 5 of label 1" of numbers."""
    if spec.is_regression:
        return ""
    counts = count_labels(examples, spec)
    listed = []
    # "5 1" would be no words.
    of_label = "of label " if any(name[:1].isdigit() for name in spec.label_names) else ""
    for number, name in enumerate(spec.label_names):
        listed.append(f"{counts[number]:,} {of_label}{quoted(name)}")
    return f": {join_some(listed)}"
