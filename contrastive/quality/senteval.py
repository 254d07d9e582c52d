"""The protocol of SentEval on frozen vectors: a classifier, its strength chosen on held-out rows.

Conneau and Kiela 2018, as in senteval/tools/validation.py of their toolkit.

- A task without a split of its own (MR, CR, SUBJ, MPQA): 10 folds. Inside each of them, 10 folds
  choose the strength of the regularisation.
- A task with a test file (TREC, MRPC): 10 folds of the training rows choose it.
- A task with a dev file, too (SST, SST5, SICKEntailment): the dev rows choose it.
- A task of scores (SICKRelatedness, STSBenchmark): relatedness.py.

The vector of a pair (MRPC) is |u - v| and u * v side by side. The classifier is logistic
regression, or a network with one hidden layer of 50 logistic units. Vectors are not scaled.

Legend: N rows, D features of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from contrastive.quality.relatedness import best_of_rounds, fit_layer, predict_scores
from contrastive.quality.vector_sources import VectorSource
from contrastive.zero_shot import correlations
from data.senteval import Rows, TransferTask
from minbert.reporting.differences import standard_error_of_share

SEED = 1111  # the toolkit's
MLP_UNITS = 50
MLP_BATCH = 64
EPOCHS_IN_ROUND = 4  # between two looks at the held-out rows
MOST_EPOCHS = 200
TENACITY = 5  # rounds without a better score
HELD_OUT = 0.05  # of the training rows, where there are no others
# The inverse strengths that are tried, C of scikit-learn.
INVERSE_STRENGTHS = {
    "folds": [2.0**power for power in range(-2, 4)],
    "test": [2.0**power for power in range(-1, 6)],
    "dev": [2.0**power for power in range(-2, 4)],
}
WEIGHT_DECAYS = [10.0**power for power in range(-5, -1)]

Classifier = Any  # of scikit-learn
# (features (N, D), labels (N,), strength, held-out rows or None) -> a fitted classifier
Fit = Callable[[np.ndarray, np.ndarray, float, "tuple[np.ndarray, np.ndarray] | None"], Classifier]


# --- the two classifiers --------------------------------------------------------------------------


def fit_logistic(
    features: np.ndarray,
    labels: np.ndarray,
    inverse_strength: float,
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
) -> Classifier:
    """scikit-learn's logistic regression. It needs no held-out rows."""
    from sklearn.linear_model import LogisticRegression  # late: it takes a second to import

    classifier = LogisticRegression(C=inverse_strength, random_state=SEED, max_iter=1000)
    return classifier.fit(features, labels)


def fit_mlp(
    features: np.ndarray,
    labels: np.ndarray,
    weight_decay: float,
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
) -> Classifier:
    """A network with 50 hidden units, from the round with the best accuracy on held-out rows.

    It is scikit-learn's network with Adam. The toolkit's one is the same, but its weight decay
    holds for the biases, too. held_out: None for 5 % of the rows.
    """
    from sklearn.neural_network import MLPClassifier

    if held_out is None:
        order = np.random.default_rng(SEED).permutation(len(labels))
        num_held_out = max(1, int(HELD_OUT * len(labels)))
        held_out = features[order[:num_held_out]], labels[order[:num_held_out]]
        features = features[order[num_held_out:]]
        labels = labels[order[num_held_out:]]
    # scikit-learn divides its penalty by the rows of a batch.
    network = MLPClassifier(
        (MLP_UNITS,),
        activation="logistic",
        alpha=weight_decay * MLP_BATCH,
        batch_size=min(MLP_BATCH, len(labels)),
        # A generator and no number: with a number, each epoch would have the same order.
        random_state=np.random.RandomState(SEED),
    )
    classes = np.unique(np.concatenate([labels, held_out[1]]))

    def score_round() -> float:
        for _ in range(EPOCHS_IN_ROUND):
            network.partial_fit(features, labels, classes=classes)  # shuffles anew
        return network.score(*held_out)

    num_rounds = MOST_EPOCHS // EPOCHS_IN_ROUND + 1
    return best_of_rounds(network, score_round, num_rounds, TENACITY)


FITS: dict[str, Fit] = {"logistic": fit_logistic, "mlp": fit_mlp}


# --- the three ways to split ----------------------------------------------------------------------


def folds_of(labels: np.ndarray, num_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows of each fold to train on, and those to test on. Classes are spread evenly."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(num_folds, shuffle=True, random_state=SEED)
    return list(folds.split(np.zeros(len(labels)), labels))


def best_strength(
    features: np.ndarray, labels: np.ndarray, strengths: Sequence[float], fit: Fit, num_folds: int
) -> float:
    """The strength with the best mean accuracy over folds. Of equal ones the first."""
    means = []
    for strength in strengths:
        accuracies = []
        for train, test in folds_of(labels, num_folds):
            held_out = features[test], labels[test]
            classifier = fit(features[train], labels[train], strength, held_out)
            accuracies.append(classifier.score(*held_out))
        means.append(np.mean(accuracies))
    return strengths[int(np.argmax(means))]


Part = tuple[np.ndarray, np.ndarray]  # features (N, D) and labels (N,)


def predict_parts(
    parts: dict[str, Part], name: str, num_folds: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The labels of the test rows and their predictions: one pair, or one for each fold.

    parts: "train", and where the task has them "dev" and "test". name: of the classifier.
    """
    fit = FITS[name]
    features, labels = parts["train"]
    kind = "dev" if "dev" in parts else "test" if "test" in parts else "folds"
    strengths = WEIGHT_DECAYS if name == "mlp" else INVERSE_STRENGTHS[kind]

    if kind == "folds":
        outcomes = []
        for train, test in folds_of(labels, num_folds):
            inside = features[train], labels[train]
            strength = best_strength(*inside, strengths, fit, num_folds)
            classifier = fit(*inside, strength, None)
            outcomes.append((labels[test], classifier.predict(features[test])))
        return outcomes

    held_out = parts.get("dev")
    if held_out is None:
        strength = best_strength(features, labels, strengths, fit, num_folds)
    else:
        fitted = [fit(features, labels, strength, held_out) for strength in strengths]
        scores = [classifier.score(*held_out) for classifier in fitted]
        strength = strengths[int(np.argmax(scores))]
    classifier = fit(features, labels, strength, held_out)
    test_features, test_labels = parts["test"]
    return [(test_labels, classifier.predict(test_features))]


# --- a task ---------------------------------------------------------------------------------------


def features_of(source: VectorSource, rows: Rows) -> np.ndarray:
    """The vectors of sentences (N, H), or |u - v| and u * v of pairs (N, 2H)."""
    columns = list(zip(*rows.texts, strict=True))
    vectors = [source.encode(list(column))[0].numpy() for column in columns]
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def measure_task(
    source: VectorSource, task: TransferTask, classifier: str, num_folds: int
) -> dict[str, Any]:
    """The accuracy of a task, and of one of pairs in two classes F1, with the numbers of rows.

    A task of scores has correlations and the squared error instead. "tested" is the number of rows
    on which a score was computed: those of all folds together, or of the test file.
    """
    from sklearn.metrics import f1_score

    parts = {}
    for part, rows in task.parts.items():
        parts[part] = features_of(source, rows), np.array(rows.labels)
    if not task.classes:
        return measure_scores(task, parts)
    outcomes = predict_parts(parts, classifier, num_folds)
    accuracies = [float((labels == predicted).mean()) for labels, predicted in outcomes]
    num_tested = sum(len(labels) for labels, _ in outcomes)
    accuracy = float(np.mean(accuracies))
    record: dict[str, Any] = {
        "rows": {part: len(rows.labels) for part, rows in task.parts.items()},
        "classes": task.classes,
        "classifier": classifier,
        "folds": num_folds,
        "accuracy": accuracy,
        "tested": num_tested,
        "standard_error": standard_error_of_share(accuracy, num_tested),
        "of_folds": accuracies,
    }
    if task.is_pair and task.classes == 2:
        labels, predicted = outcomes[0]
        record["f1"] = float(f1_score(labels, predicted))
    return record


def measure_scores(task: TransferTask, parts: dict[str, Part]) -> dict[str, Any]:
    """The record of a task of scores: correlations and squared error on its test pairs."""
    layer = fit_layer(*parts["train"], *parts["dev"])
    features, scores = parts["test"]
    predicted = predict_scores(layer, torch.from_numpy(features).float())
    return {
        "rows": {part: len(rows.labels) for part, rows in task.parts.items()},
        "tested": len(scores),
        **correlations(predicted, scores),
        "squared_error": float(np.mean((predicted - scores) ** 2)),
    }
