"""Tables as users have them, made of templates: tickets of six teams, and pairs of questions.

No sentence is of a real customer. A seed is fixed, so each call makes the same rows. The tickets
have a second set of wordings, because rows of later months rarely repeat those of the first ones.
"""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.toml_files import read_toml

SEED = 20261128
NUM_TRAINED = 800  # tickets
NUM_TESTED = 150  # of each set of wordings
NUM_PAIRS = 90  # with each of the three scores
SAME_QUESTION, SAME_TOPIC, OTHER_TOPIC = 5, 2, 0  # scores of pairs

ITEMS = (
    "phone",
    "laptop",
    "camera",
    "headset",
    "printer",
    "tablet",
    "keyboard",
    "watch",
    "monitor",
    "router",
)
BEFORE = ("Hello, ", "Hi there, ", "Dear team, ", "Good morning, ", "", "", "", "Excuse me, ")
AFTER = (
    ".",
    ", please help.",
    " since yesterday.",
    " again!",
    "?? Thanks.",
    " for the second time.",
    ". My order is {number}.",
    ". Customer number {number}.",
    ", what can I do?",
)


def read_wordings() -> dict[str, Any]:
    """Return the wordings: of tickets by team, and of questions by topic."""
    return read_toml(Path(__file__).with_suffix(".toml"))


def make_tickets(
    requests: Mapping[str, Sequence[str]], count: int, draw: random.Random
) -> list[list[str]]:
    """Return different tickets, each with its team."""
    rows: dict[str, str] = {}
    while len(rows) < count:
        team = draw.choice(list(requests))
        request = draw.choice(requests[team]).format(item=draw.choice(ITEMS))
        end = draw.choice(AFTER).format(number=draw.randrange(10_000, 99_999))
        rows.setdefault(draw.choice(BEFORE) + request + end, team)
    return [list(row) for row in rows.items()]


def write_tickets(folder: Path) -> list[Path]:
    """Write training tickets, tickets with the same wordings, and tickets with others."""
    draw = random.Random(SEED)
    wordings = read_wordings()
    rows = make_tickets(wordings["seen"], NUM_TRAINED + NUM_TESTED, draw)
    others = make_tickets(wordings["unseen"], NUM_TESTED, draw)
    header = ["message", "team"]
    return [
        write_table(folder / "tickets.csv", header, rows[:NUM_TRAINED]),
        write_table(folder / "tickets-seen.csv", header, rows[NUM_TRAINED:]),
        write_table(folder / "tickets-unseen.csv", header, others),
    ]


def write_questions(folder: Path) -> Path:
    """Write pairs of questions with the score of their similarity, in any order."""
    wordings = []
    for topic, questions in read_wordings()["questions"].items():
        for question in questions:
            wordings += [(topic, question, text) for text in question]
    by_score: dict[int, list[list[str]]] = {SAME_QUESTION: [], SAME_TOPIC: [], OTHER_TOPIC: []}
    for first, second in itertools.combinations(wordings, 2):
        score = SAME_TOPIC if first[0] == second[0] else OTHER_TOPIC
        if first[1] == second[1]:
            score = SAME_QUESTION
        by_score[score].append([first[2], second[2], str(score)])
    draw = random.Random(SEED)
    rows = []
    for of_score in by_score.values():
        rows += draw.sample(of_score, min(NUM_PAIRS, len(of_score)))
    draw.shuffle(rows)
    return write_table(folder / "questions.csv", ["first", "second", "score"], rows)


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    """Write a table as CSV, and return its path."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path
