"""Questions, and other wordings of them.

A rule is a pattern and the questions that ask the same. `rewordings` gives all wordings of a
question. `with_content` puts the content of one question into the wording of another, which then
asks for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

MIN_WORDS = 4
MAX_WORDS = 14

# What we do not want to bundle, whoever asked it.
REFUSED = re.compile(
    r"\b(sex\w*|anal|oral|porn\w*|nude\w*|naked|penis\w*|vagin\w*|breast\w*|dick|cock|fuck\w*|shit|bitch\w*|"
    r"gay\w*|lesbian\w*|homosexual\w*|nazi\w*|rape\w*|suicide|kill yourself|masturb\w*|slut\w*|"
    r"whore\w*|nigg\w*|cocaine|meth|heroin|marijuana|weed|get high|boobs?|hooker\w*|orgasm\w*|"
    r"virgin\w*|horny|condom\w*|erotic|fart\w*|poop\w*|rapist\w*)\b",
    re.IGNORECASE,
)


class Rule(NamedTuple):
    """A pattern of questions, and all wordings that ask the same. {x} and so on is the content."""

    pattern: str
    wordings: tuple[str, ...]


VERB_OF_WAY = r"(?:you|I|we|one|people)"

# Contents of at most five words, without a second clause.
SHORT = r"(?P<x>(?:(?!and|that|who|which|for|when|if)\S+ ?){1,5})"
RULES = (
    Rule(
        rf"How (?:do|can|could|should|would) {VERB_OF_WAY} (?P<x>.+)",
        (
            "How can I {x}?",
            "How do I {x}?",
            "How do you {x}?",
            "What is the best way to {x}?",
            "What is a good way to {x}?",
            "What are some ways to {x}?",
            "What should I do to {x}?",
            "Is there an easy way to {x}?",
            "How should I {x}?",
        ),
    ),
    Rule(
        r"What (?:is|was) the value of (?P<x>.+)",
        ("How much is {x} worth?", "What is {x} worth?", "What is the value of {x}?"),
    ),
    Rule(
        r"How much (?:is|are) (?P<x>.+) worth",
        ("How much is {x} worth?", "What is {x} worth?", "What is the value of {x}?"),
    ),
    Rule(
        r"How much (?:does|do) (?P<x>.+) cost(?P<y>.*)",
        (
            "What is the price of {x}{y}?",
            "What does {x} cost{y}?",
            "How expensive is {x}{y}?",
            "How much money do I need for {x}{y}?",
        ),
    ),
    Rule(
        r"How much (?:money )?(?:does|do|can|did) (?P<x>.+?) (?:usually )?"
        r"(?:make|earn|get paid)(?P<y>.*)",
        (
            "What is the salary of {x}{y}?",
            "What does {x} earn{y}?",
            "How much money does {x} make{y}?",
            "How well is {x} paid{y}?",
            "What is the income of {x}{y}?",
        ),
    ),
    Rule(
        r"Where (?:is|are) (?P<x>the .+?)(?: located| found)?",
        (
            "Where can I find {x}?",
            "What is the location of {x}?",
            "Where do I find {x}?",
            "In which place is {x}?",
        ),
    ),
    Rule(
        rf"Where (?:can|do|could|should|would) {VERB_OF_WAY} (?P<x>.+)",
        (
            "Where can I {x}?",
            "What is a good place to {x}?",
            "Where should I go to {x}?",
            "Which place is best to {x}?",
            "Where is it possible to {x}?",
        ),
    ),
    Rule(
        r"Who (?P<v>invented|discovered|founded|created|designed|painted|built|directed) (?P<x>.+)",
        ("Who {v} {x}?", "By whom was {x} {v}?", "Who was the first person that {v} {x}?"),
    ),
    Rule(
        r"Who wrote (?P<x>.+)",
        ("Who is the author of {x}?", "Who was {x} written by?", "Which author wrote {x}?"),
    ),
    Rule(
        r"(?:When|What year|In what year|In which year) (?P<b>was|were|did) (?P<x>.+)",
        ("When {b} {x}?", "In what year {b} {x}?", "What year {b} {x}?", "In which year {b} {x}?"),
    ),
    Rule(
        r"How many (?P<n>[a-z]+(?: (?!are|is|were)[a-z]+)?) "
        r"(?:are |is |were )?(?:there )?in (?P<x>.+)",
        (
            "How many {n} are there in {x}?",
            "What is the number of {n} in {x}?",
            "{x} has how many {n}?",
            "How many {n} does {x} have?",
        ),
    ),
    Rule(
        r"What (?:kind|type|sort)s? of (?P<x>.+)",
        ("What kind of {x}?", "What type of {x}?", "What sort of {x}?", "Which kind of {x}?"),
    ),
    Rule(
        r"Why do (?P<x>.+)",
        (
            "Why do {x}?",
            "What is the reason why {x}?",
            "For what reason do {x}?",
            "How come {x}?",
        ),
    ),
    Rule(
        r"What (?:is|are) the (?P<a>[a-z]+) of (?P<x>.+)",
        (
            "What is the {a} of {x}?",
            "Can you tell me the {a} of {x}?",
            "Do you know the {a} of {x}?",
        ),
    ),
    Rule(
        r"What causes (?P<x>.+)",
        ("What is the cause of {x}?", "What causes {x}?", "What leads to {x}?"),
    ),
    Rule(
        r"How (?P<a>big|large) (?:is|are) (?P<x>.+)",
        ("What is the size of {x}?", "How big is {x}?", "How large is {x}?"),
    ),
    Rule(
        r"How (?:tall|high) is (?P<x>.+)",
        ("What is the height of {x}?", "How tall is {x}?", "How high is {x}?"),
    ),
    Rule(r"How old is (?P<x>.+)", ("What is the age of {x}?", "How old is {x}?")),
    Rule(
        r"How far is (?:it from )?(?P<x>.+)",
        ("What is the distance from {x}?", "How many miles is it from {x}?", "How far is {x}?"),
    ),
    Rule(
        r"How long does (?:it take )(?P<x>.+)",
        (
            "How much time does it take {x}?",
            "How many hours or days does it take {x}?",
            "How long does it take {x}?",
        ),
    ),
    Rule(
        rf"Can {VERB_OF_WAY} (?P<x>.+)",
        ("Is it possible to {x}?", "Can I {x}?", "Is there any way to {x}?", "Am I able to {x}?"),
    ),
    Rule(
        r"What are some (?P<x>.+)",
        ("What are some {x}?", "Can you name some {x}?", "Which {x} are there?"),
    ),
    Rule(
        r"What are the (?P<x>.+)",
        ("What are the {x}?", "Can you name the {x}?", "Which are the {x}?"),
    ),
    Rule(
        r"What (?:is|are) (?P<x>(?:an? )?[a-z]+(?: [a-z]+)?)",
        (
            "What is {x}?",
            "What does {x} mean?",
            "What exactly is {x}?",
            "Can you explain {x}?",
            "What is the meaning of {x}?",
        ),
    ),
    Rule(
        rf"Who (?P<b>is|was) {SHORT}",
        ("Who {b} {x}?", "Who exactly {b} {x}?", "Can you tell me who {x} {b}?"),
    ),
    Rule(
        rf"What (?P<b>is|was) {SHORT}",
        ("What {b} {x}?", "What exactly {b} {x}?", "Can you tell me what {x} {b}?"),
    ),
    Rule(
        r"Do (?P<x>[a-z].+)",
        ("Do {x}?", "Is it true that {x}?", "Do {x} or not?"),
    ),
)
COMPILED = tuple((re.compile(rf"{rule.pattern}\?"), rule) for rule in RULES)


class Reading(NamedTuple):
    """What a rule finds in a question: which rule it is, and the content."""

    rule: Rule
    content: dict[str, str]


def read_question(text: str) -> Reading | None:
    """Return the first rule that matches the whole question, or None."""
    for pattern, rule in COMPILED:
        match = pattern.fullmatch(text)
        if match is not None:
            return Reading(rule, match.groupdict())
    return None


def rewordings(text: str) -> list[str]:
    """Return other questions that ask the same."""
    reading = read_question(text)
    if reading is None:
        return []
    return [wording for wording in fill(reading.rule, reading.content) if wording != text]


def fill(rule: Rule, content: dict[str, str]) -> Iterator[str]:
    """Yield all wordings of a rule with a content."""
    for wording in rule.wordings:
        values = {name: personal(value) for name, value in content.items()}
        question = wording.format(**values)
        yield question[0].upper() + question[1:]


def personal(text: str) -> str:
    """Return a content in the first person, as most wordings have it."""
    text = re.sub(r"\byour\b", "my", text)
    return re.sub(r"\byourself\b", "myself", text)


def with_content(random: Random, text: str, other: str) -> str | None:
    """Return a question with the wording of `text` that asks what `other` asks.

    None where the two do not have one rule, or nothing that differs.
    """
    reading = read_question(text)
    other_reading = read_question(other)
    if reading is None or other_reading is None or reading.rule is not other_reading.rule:
        return None
    if reading.content == other_reading.content:
        return None
    return random.choice(list(fill(reading.rule, other_reading.content)))


def numbers_of(text: str) -> list[str]:
    """Return the numbers in a text. Two questions with different ones ask different things."""
    return sorted(re.findall(r"\d+", text))


def read_questions(path: Path) -> list[str]:
    """Read the questions that may be bundled, tidied."""
    questions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = tidy(line)
        num_words = len(text.split())
        is_plain = re.fullmatch(r"[A-Za-z0-9 ,.'&%$-]+\?", text) is not None
        if is_plain and MIN_WORDS <= num_words <= MAX_WORDS and not REFUSED.search(text):
            questions.append(text)
    return list(dict.fromkeys(questions))


def tidy(text: str) -> str:
    """Return a question without stray blanks, with a capital and one question mark."""
    text = " ".join(text.replace("`", "'").split()).rstrip("?.! '")
    text = re.sub(r" '(?=s\b)", "'", text)
    text = re.sub(r"\bi\b(?!\.)", "I", text)
    return f"{text[:1].upper()}{text[1:]}?"
