"""The baselines of the closing table: the majority answer, and linear models on simple features.

The functions take (task, train, dev) and return predictions of the dev rows. A trained encoder
should beat them. If it does not beat TF-IDF, it has learned no more than the counts of words tell.
If it does not beat the vectors of the encoder before training, the training has not helped.

Legend: N rows, V words and word pairs in the vocabulary, H size of a vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data.examples import Example, evenly_spaced
from data.known_words import share_of_known_words, words_in
from multitask.rows import Tables
from multitask.tasks import TASKS, Task, Tasks, labels_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

# More rows of Quora make the baseline slightly better. These still take only seconds.
MAX_TRAINING_ROWS = 50_000
MAX_ENCODED_ROWS = 5_000  # of the baseline that runs the encoder


def repeated_rows(tables: Tables, tasks: Tasks = TASKS) -> str:
    """The line for the user: how many dev rows of each task are training rows, too, text for text.

    A model may know the answers to those by heart. A pair in the other order is another row. Labels
    are not compared.
    """
    counts = []
    for name, task in tasks.items():
        train = {example.texts for example in tables[name]["train"].examples}
        dev = tables[name]["dev"].examples
        num_repeated = sum(example.texts in train for example in dev)
        counts.append(f"{num_repeated:,} of {task.title}")
    return f"dev rows that are training rows too: {', '.join(counts)}"


def lines_on_known_words(tables: Tables, tasks: Tasks) -> list[str]:
    """What the table can't show of TF-IDF, a line for each task of the user.

    Dev rows that are drawn from the training table often have its wordings, and later rows not.
    """
    lines = []
    for name, task in tasks.items():
        if task.is_built_in:
            continue
        train = words_in(tables[name]["train"].examples)
        share = share_of_known_words(tables[name]["dev"].examples, train)
        lines.append(
            f"TF-IDF: {share:.0%} of the words in the dev rows of {task.title} stand in its "
            "training rows. It knows no other words."
        )
    return lines


def majority_predictions(
    task: Task, train: Sequence[Example], dev: Sequence[Example]
) -> np.ndarray:
    """One answer to every row, float32 (N,), or (N, C) of several labels.

    The answer is the most frequent training label, the lower one in a tie. For a regression it is
    the mean label, and the score is 0.0 by definition (see tasks.pearson).

    train: labelled examples. dev: N examples.
    """
    labels = answers_of(task, train)
    # Of several labels, it is the most frequent set of them.
    values, counts = np.unique(labels, axis=0, return_counts=True)  # ascending
    answer = labels.mean() if task.is_regression else values[counts.argmax()]
    return np.full((len(dev), *labels.shape[1:]), answer, dtype=np.float32)


def tfidf_predictions(
    task: Task,
    train: Sequence[Example],
    dev: Sequence[Example],
    max_training_rows: int = MAX_TRAINING_ROWS,
) -> np.ndarray:
    """What a linear model on TF-IDF features of words and word pairs says, float32 (N,).

    Single sentences: logistic regression on the vector of the sentence. Pairs: the same on [|u -
    v|, u * v, cos(u, v)] of the two sentences' vectors u, v. Similarities: ridge regression on
    those. Nothing is tuned, and nothing is drawn at random.

    train: labelled examples. dev: N examples. max_training_rows: a longer training set is cut to
    so many rows at even distances, which keeps this to seconds. (Of a file sorted by label, the
    first rows would be a bad sample.)
    """
    fitted = fit_tfidf(task, evenly_spaced(train, max_training_rows))
    if fitted is None:
        return majority_predictions(task, evenly_spaced(train, max_training_rows), dev)
    return fitted.model.predict(tfidf_features(fitted.vectorizer, dev)).astype(np.float32)


def tfidf_probabilities(
    task: Task, train: Sequence[Example], rows: Sequence[Example]
) -> np.ndarray | None:
    """The probabilities of the same model, in the shapes of `probabilities`. Not of a score.

    (N, C), (N,) of the second of two classes, or (N, L) of several labels. None: there is nothing
    to learn. A class without a training row has the probability 0.
    """
    fitted = fit_tfidf(task, evenly_spaced(train, MAX_TRAINING_ROWS))
    if fitted is None:
        return None
    of_classes = fitted.model.predict_proba(tfidf_features(fitted.vectorizer, rows))
    if task.is_multilabel:
        return of_classes
    shares = np.zeros((len(rows), len(task.label_names)))
    shares[:, fitted.model.classes_.astype(np.int64)] = of_classes
    return shares if task.kind == "classes" else shares[:, 1]


class FittedTfidf(NamedTuple):
    """A linear model of scikit-learn on TF-IDF features."""

    vectorizer: TfidfVectorizer
    model: Any


def fit_tfidf(task: Task, train: Sequence[Example]) -> FittedTfidf | None:
    """The linear model of tfidf_predictions. None: there is nothing to learn."""
    # Imported late: scikit-learn takes a second.
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    labels = answers_of(task, train)
    texts: list[str] = []
    for example in train:
        texts += example.texts
    has_words = re.search(r"\w", " ".join(texts))
    if len(np.unique(labels)) == 1 or not has_words:
        return None

    # \w+ keeps one-letter words ("I", "C"), which scikit-learn drops. With sublinear_tf a word
    # counts as 1 + log(count).
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    vectorizer.fit(texts)
    # newton-cg reaches the optimum of lbfgs, the default, in a tenth of its seconds here. It draws
    # nothing at random.
    model = Ridge(solver="lsqr") if task.is_regression else LogisticRegression(solver="newton-cg")
    if task.is_multilabel:
        model = OneVsRestClassifier(model)  # one for each label
    model.fit(tfidf_features(vectorizer, train), labels)
    return FittedTfidf(vectorizer, model)


def vectors_predictions(
    task: Task,
    train: Sequence[Example],
    dev: Sequence[Example],
    encode: Callable[[Sequence[str]], np.ndarray],
    max_training_rows: int = MAX_ENCODED_ROWS,
) -> np.ndarray:
    """The predictions (N,) of a linear model on sentence vectors that nothing was trained for.

    Single sentences: logistic regression on the vector of the sentence, each unit brought to mean 0
    and variance 1. Pairs with classes: the same on [|u - v|, u * v, cos(u, v)]. Pairs with a score:
    a line through the cosine, which is also the first thing to try in an application.

    encode: texts to vectors (N, H). Other arguments as of `tfidf_predictions`.
    """
    # Imported late: scikit-learn takes a second.
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train = evenly_spaced(train, max_training_rows)
    labels = answers_of(task, train)
    if len(np.unique(labels)) == 1:
        return majority_predictions(task, train, dev)  # there is nothing to learn
    model = LogisticRegression(max_iter=1000)
    if task.is_regression:
        model = LinearRegression() if task.is_pair else Ridge()
    if task.is_multilabel:
        model = OneVsRestClassifier(model)  # one for each label
    model = make_pipeline(StandardScaler(), model)
    model.fit(vector_features(task, train, encode), labels)
    return model.predict(vector_features(task, dev, encode)).astype(np.float32)


def vector_features(
    task: Task, examples: Sequence[Example], encode: Callable[[Sequence[str]], np.ndarray]
) -> np.ndarray:
    """Features of sentence vectors: (N, H) of single sentences, (N, 2H + 1) or (N, 1) of pairs."""
    u = encode([example.sentence_1 for example in examples])  # (N, H)
    if not task.is_pair:
        return u
    v = encode([example.texts[1] for example in examples])  # (N, H)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)  # (N,)
    cosines = ((u * v).sum(axis=1) / lengths)[:, None]  # (N, 1)
    if task.is_regression:
        return cosines
    return np.concatenate([abs(u - v), u * v, cosines], axis=1)  # (N, 2H + 1)


def tfidf_features(vectorizer: TfidfVectorizer, examples: Sequence[Example]) -> csr_matrix:
    """TF-IDF features: (N, V) of single sentences, (N, 2V + 1) of pairs."""
    from scipy.sparse import hstack

    # Every row of u and v has length 1, so the sum of their product is their cosine.
    u = vectorizer.transform([example.sentence_1 for example in examples])  # (N, V)
    if examples[0].sentence_2 is None:
        return u
    v = vectorizer.transform([example.sentence_2 for example in examples])  # (N, V)
    product = u.multiply(v)  # (N, V)
    return hstack([abs(u - v), product, product.sum(axis=1)], format="csr")  # (N, 2V + 1)


def answers_of(task: Task, examples: Sequence[Example]) -> np.ndarray:
    """The labels, float32 (N,), or (N, C) of several. A probability counts as its class."""
    labels = labels_of(examples)
    return labels if task.is_regression else labels.round()
