"""SST: short sentences on one graded word, with negations and intensifiers.

The words are adjectives of WordNet whose valence ten people gave for VADER's lexicon. A row is one
of our templates with such a word. It shows the model many words of opinion outside of films, and
what a negation does to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tools.sample.opinions import Lexicon
from tools.sample.rows import Row, Source
from tools.sample.wordnet import WordNet

# Valences from here on are mild, or strong.
MILD = 0.9
STRONG = 2.4

# A mild word that is strengthened counts as strong from here on.
STRENGTHENED = 1.5

# An adjective must stand in so many sentences of reviews: "jealous" says little about a camera.
MIN_USES = 5

# They do not stand behind "very".
COMPARED = ("better", "best", "worse", "worst", "greater", "greatest")

THINGS = (
    "soup",
    "sandwich",
    "breakfast",
    "menu",
    "restaurant",
    "apartment",
    "house",
    "lobby",
    "beach",
    "city",
    "trip",
    "bus ride",
    "car",
    "laptop",
    "printer",
    "headset",
    "camera",
    "website",
    "software",
    "update",
    "lesson",
    "lecture",
    "letter",
    "speech",
    "song",
    "band",
    "show",
    "movie",
    "scene",
    "script",
    "novel",
    "chapter",
    "painting",
    "exhibition",
    "game",
    "race",
    "season",
    "training",
    "summer",
    "winter",
    "climate",
    "garden",
    "gift",
    "jacket",
    "service",
    "answer",
    "plan",
    "idea",
    "conversation",
    "party",
    "wedding",
    "neighbourhood",
    "doctor",
    "waitress",
    "manager",
    "driver",
    "actress",
    "player",
    "crowd",
    "colleague",
)
JUDGEMENTS = (
    "The {thing} was {word}.",
    "This {thing} is {word}.",
    "I found the {thing} {word}.",
    "Our {thing} was {word}.",
    "The {thing} is {word}, I think.",
    "The {thing} seemed {word} to me.",
    "Everyone said that the {thing} was {word}.",
)
NOUN_JUDGEMENTS = (
    "What a {word} {thing}!",
    "It was a {word} {thing}.",
    "We had a {word} {thing}.",
    "A {word} {thing}.",
)
NEGATED = (
    "The {thing} was not {word}.",
    "The {thing} is not {word} at all.",
    "The {thing} isn't {word}.",
    "The {thing} wasn't {word}.",
    "I don't think the {thing} is {word}.",
    "The {thing} was never {word}.",
    "I would not call this {thing} {word}.",
    "Nothing about the {thing} was {word}.",
)
INTENSIFIERS = ("very", "really", "extremely", "so", "truly")
SOFTENERS = ("a bit", "somewhat", "rather", "slightly")

# Sentences with a verb, and their class.
VERBS = {
    "I love this {thing}.": 4,
    "We absolutely loved the {thing}.": 4,
    "I adore the {thing}.": 4,
    "I like this {thing}.": 3,
    "We enjoyed the {thing} a lot.": 3,
    "I am happy with the {thing}.": 3,
    "I can recommend the {thing}.": 3,
    "The {thing} made us smile.": 3,
    "I don't regret the {thing}.": 3,
    "Nobody complained about the {thing}.": 3,
    "There is nothing wrong with the {thing}.": 3,
    "I could not be happier with the {thing}.": 4,
    "I have never had a better {thing}.": 4,
    "I have never had a worse {thing}.": 0,
    "I hate this {thing}.": 0,
    "We hated every minute of the {thing}.": 0,
    "The {thing} was a disaster.": 0,
    "Stay away from this {thing}.": 0,
    "I don't like the {thing}.": 1,
    "We did not enjoy the {thing}.": 1,
    "I cannot recommend the {thing}.": 1,
    "I am not happy with the {thing}.": 1,
    "The {thing} did not impress me.": 1,
    "I expected more of the {thing}.": 1,
    "There were problems with the {thing}.": 1,
    "I was tired of the {thing}.": 1,
    "I know the {thing}.": 2,
    "We talked about the {thing}.": 2,
    "The {thing} begins on Monday.": 2,
    "They told me about the {thing} yesterday.": 2,
    "The {thing} is the same as last year.": 2,
    "I saw the {thing} in the newspaper.": 2,
}

# How often a row has each kind of sentence.
KINDS = {"plain": 5, "noun": 3, "stronger": 2, "softer": 1, "negated": 5, "verb": 4}


class Word(NamedTuple):
    """An adjective and its valence, -4 to 4."""

    text: str
    valence: float


def graded_adjectives(wordnet: WordNet, lexicon: Lexicon, reviews: Sequence[str]) -> list[Word]:
    """Return the adjectives with a rated valence that the reviews use often enough."""
    uses: dict[str, int] = {}
    for review in reviews:
        for word in set(review.lower().split()):
            uses[word] = uses.get(word, 0) + 1
    words = []
    for text, valence in sorted(lexicon.rated.items()):
        counts = wordnet.counts.get(text)
        is_adjective = counts is not None and counts["adj"] > counts["noun"] + counts["verb"]
        if text.endswith("ed") or text in COMPARED:
            # Most words in "ed" tell the feelings of a person: "The soup was frustrated."
            continue
        if is_adjective and abs(valence) >= MILD and uses.get(text, 0) >= MIN_USES:
            words.append(Word(text, valence))
    return words


def make_graded(random: Random, words: Sequence[Word], num_rows: int) -> list[Row]:
    """Return rows of all kinds. As many adjectives are positive as negative."""
    by_sign = {
        1: [word for word in words if word.valence > 0],
        -1: [word for word in words if word.valence < 0],
    }
    kinds = list(KINDS)
    weights = list(KINDS.values())
    rows = []
    for _ in range(num_rows):
        (kind,) = random.choices(kinds, weights)
        word = random.choice(by_sign[random.choice((1, -1))])
        rows.append(make_row(random, kind, word))
    return rows


def make_row(random: Random, kind: str, word: Word) -> Row:
    """Return a row of one kind: a key of KINDS."""
    label: int
    if kind == "verb":
        template = random.choice(list(VERBS))
        label = VERBS[template]
    elif kind == "negated":
        template = random.choice(NEGATED)
        label = negated_class(word.valence)
    elif kind == "noun":
        template = random.choice(NOUN_JUDGEMENTS)
        label = class_of(word.valence, STRONG)
    else:
        template = random.choice(JUDGEMENTS)
        label = class_of(word.valence, STRENGTHENED if kind == "stronger" else STRONG)
        if kind == "softer":
            label = 3 if word.valence > 0 else 1

    text = word.text
    if kind == "stronger":
        text = f"{random.choice(INTENSIFIERS)} {text}"
    elif kind == "softer":
        text = f"{random.choice(SOFTENERS)} {text}"
    sentence = template.format(thing=random.choice(THINGS), word=text)
    return Row((with_article(sentence),), label, Source.GRADED_WORDS)


def class_of(valence: float, strong: float) -> int:
    """Return the class of a sentence that says this word of something."""
    grade = 2 if abs(valence) >= strong else 1
    return 2 + grade if valence > 0 else 2 - grade


def negated_class(valence: float) -> int:
    """Return the class of a sentence that denies this word.

    What is not good is somewhat negative, and what is not dull somewhat positive.
    """
    return 1 if valence > 0 else 3


def with_article(text: str) -> str:
    """Return a text with "an" before a vowel sound: "a awful show" becomes "an awful show"."""
    text = re.sub(r"\b([Aa]) (?=[aeio]|u(?!s|ni|ti|ro))", r"\1n ", text)
    return re.sub(r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxyz])", r"\1 ", text)
