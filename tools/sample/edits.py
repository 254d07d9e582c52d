"""Small changes of a sentence, such as a synonym or a negation.

Each function takes a sentence and a source of random numbers. It returns the changed sentence, or
None where it finds nothing to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from tools.sample.graded_words import with_article
from tools.sample.wordnet import Form, WordNet

Edit = Callable[[Random, str], str | None]

# A word, or anything between two words.
TOKENS = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|[^A-Za-z]+")

NAMES = ("Tom", "Mary", "Anna", "Peter", "Susan", "Jim", "Ken", "Linda", "Carlos", "Emily")
NAME = re.compile(r"\b(Tom|Mary|John|Jim|Ken|Bob|Jack|Jane|Mike|Kate|Bill|Nancy|Linda|Lucy)\b")

# Forms of a verb, with and without a negation. The second one is made of the first.
NEGATIONS = (
    (r"\b(is|are|was|were|should|would|could|must)\b(?! not|n't)", r"\1 not"),
    (r"\bcan\b(?! not|'t)", "cannot"),
    (r"\bwill\b(?! not)", "will not"),
    (r"\bI'm\b(?! not)", "I'm not"),
    (r"\b([Hh]e|[Ss]he|[Ii]t)'s (?!not)", r"\1's not "),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey)'re (?!not)", r"\1're not "),
    (r"\bI (like|love|know|want|need|think|have to|believe|remember|see)\b", r"I don't \1"),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey) (like|love|know|want|need|think|have to)\b", r"\1 don't \2"),
    (r"\bdo not |\bdon't ", ""),
    (r"\b(is|are|was|were)n't\b", r"\1"),
    (r"\bcan't\b|\bcannot\b", "can"),
    (r"\bwon't\b", "will"),
    (r"\b(is|are|was|were|will|should|would|could) not\b", r"\1"),
)

# Other ways to say the same.
CONTRACTIONS = (
    (r"\bI'm\b", "I am"),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey)'re\b", r"\1 are"),
    (r"\b([Hh]e|[Ss]he|[Ii]t)'s (?=a |an |the |not |very |too |so |my |his |her )", r"\1 is "),
    (r"\b(is|are|was|were|do|does|did|would|should|could|have|has|had)n't\b", r"\1 not"),
    (r"\bcan't\b", "cannot"),
    (r"\bwon't\b", "will not"),
    (r"\b(I|[Yy]ou|[Ww]e|[Tt]hey|[Hh]e|[Ss]he)'ll\b", r"\1 will"),
    (r"\b(I|[Yy]ou|[Ww]e|[Tt]hey)'ve\b", r"\1 have"),
    (r"\bhave to\b", "must"),
    (r"\bvery\b", "really"),
    (r"\ba lot of\b", "many"),
    (r"\bEverybody\b", "Everyone"),
    (r"\bwant to\b", "would like to"),
    (r"\bstarted to\b", "began to"),
    (r"\bkids\b", "children"),
    (r"\bMaybe\b", "Perhaps"),
    (r"\bright away\b|\bat once\b", "immediately"),
    (r"\bis able to\b", "can"),
    (r"\balmost\b", "nearly"),
    (r"\bbig\b", "large"),
    (r"\bbegins\b", "starts"),
)

# Beginnings and ends that add little.
BEGINNINGS = ("I think that ", "I heard that ", "Everyone knows that ", "They say that ")
ENDINGS = (" again", " today", " as well", " of course", " at last", " for a while")


# --- edits without a dictionary -------------------------------------------------------------------


def first_match(random: Random, text: str, rules: tuple[tuple[str, str], ...]) -> str | None:
    """Return the text changed by one of the rules that apply to it."""
    applicable = [rule for rule in rules if re.search(rule[0], text)]
    if not applicable:
        return None
    pattern, replacement = random.choice(applicable)
    changed = re.sub(pattern, replacement, text, count=1)
    return changed[0].upper() + changed[1:]


def negate(random: Random, text: str) -> str | None:
    """Return the text with a negation more, or one less. A question has none."""
    return None if text.endswith("?") else first_match(random, text, NEGATIONS)


def reword(random: Random, text: str) -> str | None:
    """Return the text with one expression said in another way."""
    return first_match(random, text, CONTRACTIONS)


def change_number(random: Random, text: str) -> str | None:
    """Return the text with another number."""
    matches = list(re.finditer(r"\b\d{1,4}\b", text))
    if not matches:
        return None
    match = random.choice(matches)
    number = int(match.group())
    # A year moves by some years, and a small number by some units.
    steps = [step for step in (-30, -12, -7, -3, -2, -1, 1, 2, 3, 5, 12, 40) if number + step > 0]
    changed = str(number + random.choice(steps))
    return text[: match.start()] + changed + text[match.end() :]


def change_name(random: Random, text: str) -> str | None:
    """Return the text with another person in it."""
    match = NAME.search(text)
    if match is None:
        return None
    others = [name for name in NAMES if name not in text]
    return text[: match.start()] + random.choice(others) + text[match.end() :]


def swap_sides(random: Random, text: str) -> str | None:
    """Return the text with two things in each other's place: "from A to B", "A more than B"."""
    patterns = (
        r"(from )([A-Za-z0-9]+)( to )([A-Za-z0-9]+)",
        r"\b(to|into) ([a-z]+)( from )([a-z]+)",
        r"^((?!We|He|She|It|They|You|My|Our)[A-Z][a-z]+)( [a-z ]+ )([A-Z][a-z]+)(?=[.!?]$)",
        r"([a-z]+)( (?:is|are) (?:more|less|[a-z]+er) [a-z ]*than )([a-z]+)",
    )
    for pattern in patterns:
        match = re.search(pattern, text)
        if match is None:
            continue
        parts = list(match.groups())
        first, last = (0, 2) if len(parts) == 3 else (1, 3)
        if parts[first].lower() == parts[last].lower():
            continue
        parts[first], parts[last] = parts[last], parts[first]
        joined = "".join(parts)
        return text[: match.start()] + joined + text[match.end() :]
    return None


def add_words(random: Random, text: str) -> str | None:
    """Return the text with a beginning, or an end, that adds something."""
    if text.endswith("?"):
        return None
    if random.random() < 0.6 and text[:-1].split()[0].lower() not in ("i", "please", "don't"):
        return random.choice(BEGINNINGS) + lower_first(text)
    return text[:-1] + random.choice(ENDINGS) + text[-1]


def drop_words(random: Random, text: str) -> str | None:
    """Return the text without one of its parts: after or before a comma, or its last words."""
    parts = text.rstrip(".").split(", ")
    if len(parts) > 1:
        place = random.randrange(len(parts))
        kept = ", ".join(parts[:place] + parts[place + 1 :])
        return upper_first(kept) + "."
    matches = list(re.finditer(r" (?:in|on|at|with|for|because|when|while|by|from) ", text))
    matches = [match for match in matches if len(text[: match.start()].split()) >= 3]
    if not matches:
        return None
    return text[: random.choice(matches).start()].rstrip(",;") + text[-1]


def swap_clauses(random: Random, text: str) -> str | None:
    """Return "B, A" or "A B" of a sentence of two clauses. The meaning stays."""
    match = re.fullmatch(r"(If|When|Because|While|Although) ([^,]+), ([^,]+)\.", text)
    if match is not None:
        return f"{upper_first(match[3])} {match[1].lower()} {match[2]}."
    match = re.fullmatch(r"([^,]+) (if|when|because|while|although) ([^,]+)\.", text)
    if match is not None:
        return f"{upper_first(match[2])} {match[3]}, {lower_first(match[1])}."
    return None


def upper_first(text: str) -> str:
    """The text with a capital at the start."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """The text without a capital at the start, unless it is a name or "I"."""
    first = text.split()[0] if text.split() else ""
    is_name = NAME.match(first) is not None or first in ("I", "I'm", "I'll", "I've", "I'd")
    return text if is_name else text[:1].lower() + text[1:]


# --- edits with WordNet ---------------------------------------------------------------------------


class WordEdits:
    """Edits that replace one word by a related one."""

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet

    def replace_word(
        self, random: Random, text: str, find: Callable[[Form], list[str]]
    ) -> str | None:
        """Return the text with one word replaced by one of those that `find` gives."""
        tokens = TOKENS.findall(text)
        places = list(range(len(tokens)))
        random.shuffle(places)
        for place in places:
            word = tokens[place]
            # A capital inside a sentence is mostly that of a name.
            form = self.wordnet.form_of(word) if word.islower() else None
            words = self.wordnet.related(form, find) if form is not None else []
            if words:
                tokens[place] = random.choice(words)
                return with_article("".join(tokens))
        return None

    def synonym(self, random: Random, text: str) -> str | None:
        """Return the text with a synonym."""
        return self.replace_word(random, text, self.wordnet.synonyms)

    def two_synonyms(self, random: Random, text: str) -> str | None:
        """Return the text with two synonyms, or with one."""
        once = self.synonym(random, text)
        if once is None:
            return None
        twice = self.synonym(random, once)
        return once if twice in (None, text) else twice

    def antonym(self, random: Random, text: str) -> str | None:
        """Return the text with a word of the opposite meaning."""
        return self.replace_word(random, text, self.wordnet.antonyms)

    def sister(self, random: Random, text: str) -> str | None:
        """Return the text about another kind of thing."""
        return self.replace_word(random, text, self.wordnet.sisters)
