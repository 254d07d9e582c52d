"""multitask/baselines.py: the majority answer and TF-IDF with a linear model.

If TF-IDF scores no better than the majority, its features and labels are of different rows.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from data.examples import Example, Table
from multitask.baselines import (
    answers_of,
    majority_predictions,
    repeated_rows,
    tfidf_features,
    tfidf_predictions,
)
from multitask.tasks import TASKS

ROOT = Path(__file__).parents[2]
WORDS = ["dreadful", "weak", "plain", "good", "superb"]
NOUNS = ["film", "story", "cast", "plot", "score", "scene", "ending", "camera", "actor", "script"]


def majority_score(task, train, dev) -> float:
    """The dev score of the majority answer."""
    return task.score(majority_predictions(task, train, dev), answers_of(task, dev))


def tfidf_score(task, train, dev, **options) -> float:
    """The dev score of TF-IDF."""
    return task.score(tfidf_predictions(task, train, dev, **options), answers_of(task, dev))


def singles(num_rows: int, seed: int) -> list[Example]:
    """One word decides the class, the noun does not."""
    generator = np.random.default_rng(seed)
    examples = []
    for index in range(num_rows):
        label = int(generator.integers(5))
        noun = NOUNS[generator.integers(10)]
        text = f"A {WORDS[label]} {noun} ."
        examples.append(Example(str(index), text, None, float(label)))
    return examples


def pairs(num_rows: int, seed: int, is_graded: bool) -> list[Example]:
    """Sentences of five nouns. The label is how many they share, or whether they share most."""
    generator = np.random.default_rng(seed)
    examples = []
    for index in range(num_rows):
        num_shared = int(generator.integers(6))
        order = [NOUNS[position] for position in generator.permutation(10)]
        first = order[:5]
        second = order[5 - num_shared : 10 - num_shared]
        label = float(num_shared) if is_graded else float(num_shared >= 3)
        examples.append(Example(str(index), " ".join(first), " ".join(second), label))
    return examples


def examples_of(task: str, labels: list[float]) -> list[Example]:
    second = "it is fine" if TASKS[task].is_pair else None
    return [Example(str(index), "it is fine", second, label) for index, label in enumerate(labels)]


def test_majority_by_hand():
    train = examples_of("sst", [3, 1, 3, 0, 2])
    dev = examples_of("sst", [3, 0, 1, 3])
    assert majority_score(TASKS["sst"], train, dev) == 0.5
    train = examples_of("para", [0, 0, 1])
    dev = examples_of("para", [1, 1, 0, 1])
    assert majority_score(TASKS["para"], train, dev) == 0.25


def test_majority_comes_from_the_training_rows():
    train = examples_of("sst", [3, 3, 1])
    dev = examples_of("sst", [1, 1, 1, 3])
    assert majority_score(TASKS["sst"], train, dev) == 0.25  # and not .75, dev's own majority


@pytest.mark.parametrize("score", [majority_score, tfidf_score])
def test_of_a_probability_the_likelier_class_counts(score):
    train = pairs(60, seed=0, is_graded=False)
    dev = pairs(30, seed=1, is_graded=False)
    unsure = [replace(example, label=0.7 * example.label + 0.1) for example in train]  # .1 and .8
    assert score(TASKS["para"], unsure, dev) == score(TASKS["para"], train, dev)


def test_majority_tie_goes_to_the_lower_label():
    train = examples_of("sst", [4, 1, 4, 1])
    dev = examples_of("sst", [1, 1, 4])
    assert majority_score(TASKS["sst"], train, dev) == pytest.approx(2 / 3)


def test_majority_of_sts_is_zero_by_definition():
    train = examples_of("sts", [0.0, 2.75, 5.0])
    dev = examples_of("sts", [1.0, 4.6])
    assert majority_score(TASKS["sts"], train, dev) == 0.0


TRAIN_AND_DEV = {
    "sst": (singles(200, 0), singles(100, 1)),
    "para": (pairs(400, 0, is_graded=False), pairs(200, 1, is_graded=False)),
    "sts": (pairs(400, 0, is_graded=True), pairs(200, 1, is_graded=True)),
}
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


@each_task
def test_tfidf_finds_what_words_tell(task):
    train, dev = TRAIN_AND_DEV[task.name]
    score = tfidf_score(task, train, dev)
    assert score >= 0.9
    assert score > majority_score(task, train, dev) + 0.1


@each_task
def test_negative_control_shuffled_labels_tell_nothing(task):
    train, dev = TRAIN_AND_DEV[task.name]
    labels = np.random.default_rng(2).permutation([example.label for example in train]).tolist()
    mixed = []
    for example, label in zip(train, labels, strict=True):
        mixed.append(replace(example, label=label))
    assert tfidf_score(task, mixed, dev) < 0.7


def test_features_of_a_pair_end_with_its_cosine():
    vectorizer = TfidfVectorizer().fit(["film cast", "film plot"])
    pairs = [Example("1", "film cast", "film cast", 1.0), Example("2", "film cast", "plot", 0.0)]
    features = tfidf_features(vectorizer, pairs).toarray()
    assert features.shape == (2, 2 * 3 + 1)
    assert features[:, -1] == pytest.approx([1, 0])
    assert not features[0, :3].any()
    assert features[1, :3].all()
    assert not features[1, 3:6].any()


@each_task
def test_tfidf_is_the_same_each_time(task):
    train, dev = TRAIN_AND_DEV[task.name]
    assert tfidf_score(task, train, dev) == tfidf_score(task, train, dev)


def test_the_order_of_a_pair_does_not_matter():
    train, dev = TRAIN_AND_DEV["sts"]
    swapped = []
    for example in dev:
        swapped.append(Example(example.id, example.sentence_2, example.sentence_1, example.label))
    expected = tfidf_score(TASKS["sts"], train, dev)
    assert tfidf_score(TASKS["sts"], train, swapped) == pytest.approx(expected, abs=1e-6)


def test_a_longer_training_set_is_sampled_at_even_distances():
    unsorted, dev = TRAIN_AND_DEV["sst"]
    train = sorted(unsorted, key=lambda example: example.label)
    score = tfidf_score(TASKS["sst"], train, dev, max_training_rows=50)
    assert score >= 0.9
    assert score == tfidf_score(TASKS["sst"], train[::4], dev)
    # Its first rows are of two classes only.
    assert tfidf_score(TASKS["sst"], train[:80], dev) < 0.6


def test_dev_rows_that_are_training_rows_are_counted():
    """By their texts: ids and labels differ, and a pair in the other order is another row."""

    def table(*texts: tuple[str, str | None]) -> Table:
        examples = []
        for number, (first, second) in enumerate(texts):
            examples.append(Example(str(number), first, second, number % 2))
        return Table("x.csv", tuple(examples), ())

    pairs = {
        "train": table(("a", "b"), ("c", "d")),
        "dev": table(("d", "c"), ("a", "b"), ("a", "c")),
    }
    same = table(*((f"s{number}", None) for number in range(1200)))
    tables = {
        "sst": {"train": same, "dev": same},
        "para": pairs,
        "sts": {"train": table(("a", "b")), "dev": table()},
    }
    assert repeated_rows(tables) == (
        "dev rows that are training rows too: 1,200 of SST, 1 of PARA, 0 of STS"
    )


def test_importing_the_package_does_not_import_scikit_learn():
    code = (
        "import multitask.baselines, sys; "
        "sys.exit('sklearn' in sys.modules or 'scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
