"""Which sentences may not be bundled, because the course's dev and test files hold them.

SST, for example, was built on the film reviews that the sample also draws from, and it split some
of them into several sentences. So a sentence is left out if it equals or contains a held-out
sentence, or is contained in one. Only letters and digits are compared. A part of fewer than 11 of
them is too common to tell anything. A near copy is left out as well: nearly all of its words are
those of a held-out sentence.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from data.examples import COURSE_FILES, FORMATS
from data.readers import read_examples

# Letters of a part of a sentence that tells something. Whole sentences may be shorter.
MIN_LENGTH = 11
# The treebank of SST writes brackets in this way: -LRB- is a left round one.
BRACKET = re.compile(r"-[LR][RCS]B-", re.IGNORECASE)
# Two near copies share this part of the words of the longer one, or one of them has one word more.
NEAR = 0.8
MIN_WORDS = 3
HELD_OUT_SPLITS = ("dev", "test")


def normal_form(text: str) -> str:
    """Return the letters a to z and the digits of a text. Accents are folded.

    The names of the treebank's brackets are no letters of the text.
    """
    return re.sub(r"[^a-z0-9]", "", folded(text))


def folded(text: str) -> str:
    """Return a text in small letters without accents, and with brackets as signs."""
    # Some reviews were copied from web pages, with &#8217; in place of an apostrophe.
    plain = html.unescape(BRACKET.sub(" ", text))
    # NFKD splits an accented letter into the letter and its accent.
    decomposed = unicodedata.normalize("NFKD", plain)
    without_accents = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return without_accents.lower()


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text.

    "does n't" of the treebank is the word "doesnt". Other short forms are two words: "what", "s".
    A word that is there twice is two elements: itself, and "2 " before it.
    """
    plain = folded(text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    # The treebank puts a blank before this end of a word.
    joined = plain.replace(" n't", "nt").replace("n't", "nt")
    counts: Counter[str] = Counter()
    words = []
    for word in re.findall(r"[a-z0-9]+", joined):
        counts[word] += 1
        words.append(word if counts[word] == 1 else f"{counts[word]} {word}")
    return frozenset(words)


class HeldOut:
    """A set of sentences. `touches` tells whether a text holds one, is part of one, or is near."""

    def __init__(self, texts: Iterable[str]) -> None:
        texts = list(texts)
        word_sets = {words_of(text) for text in texts}
        self.word_sets = [words for words in word_sets if len(words) >= MIN_WORDS]
        self.by_word: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self.word_sets):
            for word in words:
                self.by_word[word].append(number)

        self.all_forms = {normal_form(text) for text in texts}
        self.forms = sorted(form for form in self.all_forms if len(form) >= MIN_LENGTH)

        # Forms by their first letters, and by the letters that begin at any place in them.
        self.by_start: dict[str, list[int]] = defaultdict(list)
        self.by_part: dict[str, list[int]] = defaultdict(list)
        for number, form in enumerate(self.forms):
            self.by_start[form[:MIN_LENGTH]].append(number)
            for part in set(parts_of(form)):
                self.by_part[part].append(number)

    def touches(self, text: str) -> bool:
        """Return whether the text holds a held-out sentence, is a part of one, or a near copy."""
        return self.overlaps(text) or self.is_near(text)

    def is_near(self, text: str) -> bool:
        """Return whether nearly all words of the text are those of one held-out sentence."""
        words = words_of(text)
        if len(words) < MIN_WORDS:
            return False
        # A near copy lacks at most this many words of the text. So it has one of the rarest ones.
        num_lacking = max(1, len(words) - math.ceil(NEAR * len(words)))
        rarest = sorted(words, key=lambda word: (len(self.by_word.get(word, [])), word))
        for word in rarest[: num_lacking + 1]:
            for number in self.by_word.get(word, []):
                other = self.word_sets[number]
                if len(words & other) >= NEAR * max(len(words), len(other)):
                    return True
                if len(words ^ other) == 1:
                    return True
        return False

    def overlaps(self, text: str) -> bool:
        """Return whether the text equals a held-out sentence, contains one, or is part of one."""
        form = normal_form(text)
        if form and form in self.all_forms:
            return True
        if len(form) < MIN_LENGTH:
            return False

        # Is the text a part of a held-out sentence?
        containing = self.by_part.get(form[:MIN_LENGTH], [])
        if any(form in self.forms[number] for number in containing):
            return True

        # Does the text have a held-out sentence in it?
        for part in parts_of(form):
            contained = self.by_start.get(part, [])
            if any(self.forms[number] in form for number in contained):
                return True
        return False


def parts_of(form: str) -> list[str]:
    """Return all substrings of MIN_LENGTH letters."""
    return [form[start : start + MIN_LENGTH] for start in range(len(form) - MIN_LENGTH + 1)]


def held_out_files(folder: Path) -> list[Path]:
    """The course's dev and test files in a folder."""
    files = []
    for names in COURSE_FILES.values():
        files += [folder / names[split] for split in HELD_OUT_SPLITS]
    return files


def read_held_out(folder: Path) -> HeldOut:
    """Read the sentences of the course's dev and test files in a folder."""
    texts: list[str] = []
    for task, names in COURSE_FILES.items():
        for split in HELD_OUT_SPLITS:
            table = read_examples(folder / names[split], FORMATS[task], labelled=split != "test")
            for example in table.examples:
                texts += example.texts
    return HeldOut(texts)
