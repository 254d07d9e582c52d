"""SST: sentences of film and product reviews, in five classes.

People said which film sentences and phrases are positive, and how strong the opinions of product
sentences are. This file decides the rest, and it never turns a polarity round:

- A product sentence has the sum s of its marked strengths. s >= 3: 4; 1 or 2: 3; -1 or -2: 1;
  s <= -3: 0. Marks that sum to 0 are 2, and so is a sentence without marks in which the lexicons
  find no word of opinion. Other sentences without marks are left out.
- A film sentence, or a phrase of pros or cons, has no strength. A logistic regression on the
  sentence vectors and the lexicons' valences is trained to tell the polarity. Of each sentence it
  is asked in the fold that it was not trained on. The share of a polarity that it is most sure of
  becomes 4, or 0. Film sentences that it puts on the other side or close to the border are 2: their
  opinion is mixed or hidden. The rest is 3, or 1. tools/sample/sample_grades.py compares the
  shares.

Legend: N sentences, H size of a vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tools.sample.held_out import HeldOut
from tools.sample.opinions import Lexicon
from tools.sample.rows import Row, Source
from tools.sample.shares import Shares
from tools.sample.teacher import Teacher

MIN_WORDS = 3
MAX_WORDS = 24
MAX_WORDS_OF_PHRASE = 12
MAX_PHRASES = 2000

# Strengths of a product sentence: mild opinions sum to less than STRONG.
STRONG = 3
MARK = re.compile(r"\[([+-])(\d?)\]")
TITLE = "[t]"

NUM_FOLDS = 5

# Words by which the few Spanish lines of the film reviews are known.
SPANISH = re.compile(r"\b(que|una|los|las|del|pero|como|esta|aunque|por)\b")


class Opinion(NamedTuple):
    """A sentence with a human polarity: 1 positive, -1 negative."""

    text: str
    polarity: int


# --- reading --------------------------------------------------------------------------------------


def read_films(folder: Path) -> list[Opinion]:
    """Read the film sentences of Pang and Lee (2005)."""
    opinions = []
    for name, polarity in (("pos", 1), ("neg", -1)):
        path = folder / "sentence_polarity" / f"rt-polarity.{name}"
        for line in path.read_text(encoding="utf-8").splitlines():
            text = " ".join(line.split())
            if is_usable(text, MAX_WORDS):
                opinions.append(Opinion(text, polarity))
    return opinions


def read_phrases(folder: Path) -> list[Opinion]:
    """Read the phrases of pros and cons of Ganapathibhotla and Liu (2008)."""
    opinions = []
    for name, polarity in (("Pros", 1), ("Cons", -1)):
        path = folder / "pros_cons" / f"Integrated{name}.txt"
        text = path.read_text(encoding="utf-8", errors="replace")
        for phrase in re.findall(rf"<{name}>(.*?)</{name}>", text):
            phrase = " ".join(phrase.split())
            is_plain = re.fullmatch(r"[A-Za-z ,.'!-]+", phrase) is not None
            if is_plain and is_usable(phrase, MAX_WORDS_OF_PHRASE):
                opinions.append(Opinion(phrase, polarity))
    # Far more than are needed. Every so many of them is taken.
    return opinions[:: max(1, len(opinions) // MAX_PHRASES)]


def is_usable(text: str, max_words: int) -> bool:
    """Return whether a text is English and neither too short nor too long."""
    num_words = len(re.findall(r"[A-Za-z]+", text))
    is_english = text.isascii() and not SPANISH.search(text.lower())
    return is_english and num_words >= MIN_WORDS and len(text.split()) <= max_words


def read_products(folder: Path, lexicon: Lexicon) -> list[Row]:
    """Read the product sentences of Hu, Liu and Ding (2004, 2008) with their classes."""
    rows = []
    for path in sorted(folder.glob("product_reviews_?/*.txt")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            marks, separator, sentence = line.partition("##")
            text = " ".join(sentence.replace("&#38;", "&").split())
            if not separator or marks.startswith(TITLE) or not is_usable(text, MAX_WORDS):
                continue
            label = class_of_product(marks, text, lexicon)
            if label is not None:
                rows.append(Row((text,), label, Source.PRODUCTS))
    return rows


def class_of_product(marks: str, text: str, lexicon: Lexicon) -> int | None:
    """Return the class of a product sentence, or None where nobody said what it is."""
    strengths = [int(f"{sign}{number or 1}") for sign, number in MARK.findall(marks)]
    if not strengths:
        return None if lexicon.valences(text) else 2
    return class_of_strength(sum(strengths))


def class_of_strength(strength: int) -> int:
    """Return the class 0 to 4 of a sum of strengths."""
    if strength == 0:
        return 2
    grade = 2 if abs(strength) >= STRONG else 1
    return 2 + grade if strength > 0 else 2 - grade


# --- grades ---------------------------------------------------------------------------------------


def grade(
    opinions: Sequence[Opinion],
    source: Source,
    lexicon: Lexicon,
    teacher: Teacher,
    shares: Shares,
) -> list[Row]:
    """Return the sentences with a class that has their polarity, or is neutral.

    The shares change the classes only, and neither the sentences nor their order.
    """
    polarity = np.array([opinion.polarity for opinion in opinions])  # (N,)
    sureness = polarity * log_odds(opinions, polarity, lexicon, teacher)
    neutral_share = shares.neutral if source is Source.FILMS else 0.0

    rows = []
    for sign in (1, -1):
        members = np.flatnonzero(polarity == sign)
        bounds = np.quantile(sureness[members], [neutral_share, 1 - shares.strong])
        for number in members.tolist():
            size = int(np.searchsorted(bounds, sureness[number], side="right"))
            text = opinions[number].text
            rows.append(Row((text,), 2 + sign * size, source))
    return rows


def log_odds(
    opinions: Sequence[Opinion], polarity: np.ndarray, lexicon: Lexicon, teacher: Teacher
) -> np.ndarray:
    """Return for each sentence the log-odds of positive, (N,), by a model that did not see it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    vectors = teacher.vectors([opinion.text for opinion in opinions])  # (N, H)
    valences = np.array([summary(lexicon.valences(opinion.text)) for opinion in opinions])
    features = np.concatenate([vectors, valences], axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    return cross_val_predict(model, features, polarity, cv=NUM_FOLDS, method="decision_function")


def summary(valences: Sequence[float]) -> list[float]:
    """Return the sum, the highest and the lowest valence, and how many there are."""
    if not valences:
        return [0.0, 0.0, 0.0, 0.0]
    return [sum(valences), max(valences), min(valences), float(len(valences))]


def make_reviews(
    folder: Path, held_out: HeldOut, lexicon: Lexicon, teacher: Teacher, shares: Shares
) -> list[Row]:
    """Return all rows of reviews. Nothing held out is among them."""
    rows = []
    for source, read in ((Source.FILMS, read_films), (Source.PROS_AND_CONS, read_phrases)):
        opinions = [opinion for opinion in read(folder) if not held_out.touches(opinion.text)]
        rows += grade(opinions, source, lexicon, teacher, shares)
    for row in read_products(folder, lexicon):
        if not held_out.touches(row.texts[0]):
            rows.append(row)
    return rows
