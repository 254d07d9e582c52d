"""The documents are in plain English: short sentences, no semicolons, pages that one can read.

The measures are rough on purpose. They look at prose only: no code, tables or headings.
"""

from __future__ import annotations

import re
import statistics

from minbert.training.code_version import ROOT
from tools.tables.__main__ import pages_of

PAGES = [*pages_of(ROOT), ROOT / "tools" / "benchmarks" / "README.md", ROOT / "data" / "README.md"]
MAX_MEDIAN = 18  # words of a sentence
LONG = 28
MAX_LONG_SHARE = 0.12
MAX_SEMICOLONS = 0.25  # per 100 words
MAX_LINES = 300


def prose_of(text: str) -> str:
    """The text without blocks of code, tables, headings and comments. A span of code is a word."""
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<"))]
    return re.sub(r"`[^`]*`", "x", "\n".join(lines))


def sentences_of(prose: str) -> list[str]:
    """The sentences of prose. Three words or more are a sentence."""
    sentences = re.split(r"(?<=[.!?:])\s+", prose)
    return [sentence for sentence in sentences if len(sentence.split()) > 2]


def complaints_about(prose: str) -> list[str]:
    """What is hard to read in a text."""
    lengths = [len(sentence.split()) for sentence in sentences_of(prose)]
    median = statistics.median(lengths)
    share = sum(length > LONG for length in lengths) / len(lengths)
    semicolons = 100 * prose.count(";") / len(prose.split())
    complaints = []
    if median > MAX_MEDIAN:
        complaints.append(f"half of the sentences have {median:.0f} words or more")
    if share > MAX_LONG_SHARE:
        complaints.append(f"{share:.0%} of the sentences have more than {LONG} words")
    if semicolons > MAX_SEMICOLONS:
        complaints.append(f"{semicolons:.2f} semicolons per 100 words")
    return complaints


def test_the_documents_are_easy_to_read():
    complaints = []
    for page in PAGES:
        if prose := prose_of(page.read_text("utf-8")).strip():
            for complaint in complaints_about(prose):
                complaints.append(f"{page.relative_to(ROOT)}: {complaint}")
    assert not complaints, "\n".join(
        ["hard to read. Write short sentences with one fact each:", *complaints]
    )


def test_a_page_is_not_too_long():
    lengths = {}
    for page in PAGES:
        lengths[str(page.relative_to(ROOT))] = len(page.read_text("utf-8").splitlines())
    too_long = {page: length for page, length in lengths.items() if length > MAX_LINES}
    assert not too_long, f"more than {MAX_LINES} lines: {too_long}. Make two pages of it"


def test_hard_text_is_noticed():
    long_sentence = "It has one word after another and " * 5 + "ends here."
    assert "more than 28 words" in complaints_about(f"It is short. {long_sentence}")[-1]
    assert complaints_about("One fact is here; another one follows.")
    assert not complaints_about("One fact is here. Another one follows.")


def test_code_and_tables_are_no_prose():
    text = "# A title; long\n\nIt is `a; b` here.\n\n| a; b |\n\n```text\na; b\n```\n"
    assert prose_of(text).split() == ["It", "is", "x", "here."]
