"""A script as a user writes it. The type checker reads it as strictly as `mypy --strict` does.

pyproject.toml has the settings. Each `type: ignore` marks a mistake that must be found. If our
types were lost on the way to the user, the mark would be of no use, which is an error as well.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from contrastive.embed import SentenceEncoder
from multitask import Predictor


def classify(texts: list[str]) -> dict[str, str]:
    """The class of each text."""
    predictor = Predictor("runs/latest", task="sst", batch_size=32)
    shares = predictor.predict_proba(texts)
    names = predictor.label_names
    print(names[int(shares[0].argmax())], float(shares.max(axis=1).mean()))
    return dict(zip(texts, predictor.predict(texts).tolist(), strict=True))


def score(pairs: list[tuple[str, str]]) -> list[float]:
    """The similarity of each pair."""
    numbers = Predictor(Path("runs/latest")).predict(pairs, task="sts")
    return [float(number) for number in numbers]


def most_similar(query: str, texts: list[str], count: int = 3) -> list[str]:
    """The texts that are nearest to another one."""
    encoder = SentenceEncoder("minilm", device="cpu")
    cosines = encoder.similarity(encoder.encode([query]), encoder.encode(texts))
    places = np.argsort(-cosines[0].numpy())[:count]
    return [texts[place] for place in places.tolist()]


def main() -> None:
    """Answer the rows of a table."""
    with open("reviews.csv", encoding="utf-8") as file:
        rows = [row["text"] for row in csv.DictReader(file)]
    print(classify(rows), score([("a", "b")]), most_similar("A lovely film.", rows))


def mistakes() -> None:
    """What a type checker must find."""
    Predictor("runs/latest", task=1)  # type: ignore[arg-type]
    Predictor().label_names.append("more")  # type: ignore[attr-defined]
    SentenceEncoder(model=None)  # type: ignore[arg-type]
