"""How strong the opinion of a sentence is, by two lists of words.

VADER's lexicon (Hutto and Gilbert 2014) gives a word the mean valence of ten people, -4 to 4. The
opinion lexicon (Hu and Liu 2004) says of a word whether it is positive or negative.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# Words that strengthen, or weaken, the word after them.
STRONGER = frozenset(
    [
        "very",
        "really",
        "extremely",
        "absolutely",
        "truly",
        "so",
        "too",
        "totally",
        "utterly",
        "completely",
        "deeply",
        "highly",
        "incredibly",
        "remarkably",
        "thoroughly",
        "wonderfully",
        "terribly",
        "most",
    ]
)
WEAKER = frozenset(
    ["somewhat", "slightly", "fairly", "rather", "quite", "mildly", "almost", "occasionally"]
)
NEGATIONS = frozenset(
    ["not", "no", "never", "n't", "cannot", "without", "hardly", "nor", "neither", "nothing"]
)
STRENGTHENED = 1.3
WEAKENED = 0.7
REACH = 3  # words after a negation

# A word of the opinion lexicon that has no valence counts as a mild one.
MILD = 1.5


class Lexicon:
    """The valence of words, -4 to 4."""

    def __init__(self, folder: Path) -> None:
        self.rated = read_valences(folder / "vader_lexicon" / "vader_lexicon.txt")
        self.valence = dict(self.rated)
        for name, sign in (("positive", 1), ("negative", -1)):
            path = folder / "opinion_lexicon" / f"{name}-words.txt"
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if line and not line.startswith(";"):
                    self.valence.setdefault(line.strip().lower(), sign * MILD)

    def valences(self, sentence: str) -> list[float]:
        """Return the valences of the words of opinion in a sentence, as changed by words before."""
        words = re.findall(r"n't\b|[a-z]+(?:-[a-z]+)*", sentence.lower().replace("n't", " n't"))
        valences = []
        for place, word in enumerate(words):
            value = self.valence.get(word, 0.0)
            if word in NEGATIONS or value == 0:
                continue
            valences.append(value * factor_of(words[max(0, place - REACH) : place]))
        return valences


def factor_of(words_before: Sequence[str]) -> float:
    """Return by how much the words before a word of opinion change its valence."""
    factor = 1.0
    last = words_before[-1] if words_before else ""
    if last in STRONGER:
        factor = STRENGTHENED
    elif last in WEAKER:
        factor = WEAKENED
    return -factor if NEGATIONS & set(words_before) else factor


def read_valences(path: Path) -> dict[str, float]:
    """Read the mean valence of each word of VADER's lexicon."""
    valence = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, mean, *_ = line.split("\t")
        valence[word] = float(mean)
    return valence
