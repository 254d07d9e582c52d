"""What a score is held against: the majority answer, and TF-IDF with a linear model. For the closing table.

Legend: N rows, V words and word pairs in the vocabulary. The two scores take (task, train, dev) and return the
task's own dev score; a trained encoder that does not beat them has learned nothing that counting words would not.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from data.readers import Example, Table
from multitask.tasks import TASKS, Task

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# 41,566 Quora pairs reach .746 on dev, 20,000 of them .727; they take about six seconds on 2 cores.
MAX_TRAINING_ROWS = 50_000


def repeated_rows(tables: dict[str, dict[str, Table]]) -> str:
    """The line for the user: how many dev rows of each task are training rows too, text for text.

    What a model says of those may be known by heart. A pair in the other order is another row; labels are not compared.
    """
    counts = []
    for name, task in TASKS.items():
        train = {example.texts for example in tables[name]["train"].examples}
        counts.append(
            f"{sum(example.texts in train for example in tables[name]['dev'].examples):,} of {task.title}"
        )
    return f"dev rows that are training rows too: {', '.join(counts)}"


def majority_score(task: Task, train: Sequence[Example], dev: Sequence[Example]) -> float:
    """The dev score of giving every row the same answer: the most frequent training label, or for STS their mean.

    train, dev: labelled examples. A tie goes to the lower label. For STS the score is 0.0 by definition (see
    tasks.pearson).
    """
    labels, dev_labels = _labels(task, train), _labels(task, dev)
    values, counts = np.unique(labels, return_counts=True)  # ascending
    answer = labels.mean() if task.is_regression else values[counts.argmax()]
    return task.score(np.full(len(dev_labels), answer, dtype=np.float32), dev_labels)


def tfidf_score(
    task: Task,
    train: Sequence[Example],
    dev: Sequence[Example],
    max_training_rows: int = MAX_TRAINING_ROWS,
) -> float:
    """The dev score of a linear model on TF-IDF features of words and word pairs (scikit-learn's).

    SST: logistic regression on the vector of the sentence. PARA: the same on [|u - v|, u * v, cos(u, v)] of the two
    sentences' vectors u, v. STS: ridge regression on those. Nothing is tuned, and nothing is drawn at random.

    train, dev: labelled examples. max_training_rows: of a longer training set, so many rows at even distances are
    used (a file sorted by label would make its first rows a bad sample), to keep this to seconds.
    """
    from sklearn.feature_extraction.text import (
        TfidfVectorizer,
    )  # late, with the next line: a second of imports
    from sklearn.linear_model import LogisticRegression, Ridge

    if len(train) > max_training_rows:
        train = [
            train[index * len(train) // max_training_rows] for index in range(max_training_rows)
        ]
    labels, dev_labels = _labels(task, train), _labels(task, dev)
    texts = [text for example in train for text in example.texts]
    if len(set(labels.tolist())) == 1 or not re.search(r"\w", " ".join(texts)):
        return majority_score(
            task, train, dev
        )  # no second label, or no word: nothing that a model could learn from
    # \w+ keeps one-letter words ("I", "C"), which scikit-learn drops; sublinear_tf counts a word as 1 + log(count).
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    vectorizer.fit(texts)
    # newton-cg reaches the optimum of lbfgs, the default, in a tenth of its seconds here, and draws nothing at random.
    model = Ridge(solver="lsqr") if task.is_regression else LogisticRegression(solver="newton-cg")
    model.fit(_features(vectorizer, train), labels)
    return task.score(model.predict(_features(vectorizer, dev)).astype(np.float32), dev_labels)


def _features(vectorizer, examples: Sequence[Example]) -> "csr_matrix":
    from scipy.sparse import hstack

    u = vectorizer.transform(
        [example.sentence_1 for example in examples]
    )  # (N, V), rows of length 1
    if examples[0].sentence_2 is None:
        return u
    v = vectorizer.transform([example.sentence_2 for example in examples])  # (N, V)
    product = u.multiply(v)  # (N, V)
    return hstack([abs(u - v), product, product.sum(axis=1)], format="csr")  # (N, 2V + 1)


def _labels(task: Task, examples: Sequence[Example]) -> np.ndarray:
    labels = np.array([example.label for example in examples], dtype=np.float32)
    return labels if task.is_regression else labels.round()  # a probability's class
