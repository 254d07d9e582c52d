"""Which sentences may not be bundled, because the course's dev and test files hold them.

SST, for example, was built on the film reviews that the sample also draws from, and it split some
of them into several sentences. So a sentence is left out if it contains a held-out sentence, or is
contained in one. Only letters and digits are compared, and sentences of fewer than 20 of them are
too common to tell anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from data.examples import COURSE_FILES, FORMATS
from data.readers import read_examples

MIN_LENGTH = 20
HELD_OUT_SPLITS = ("dev", "test")


def normal_form(text: str) -> str:
    """Return the letters a to z and the digits of a text. Accents are folded."""
    # NFKD splits an accented letter into the letter and its accent.
    decomposed = unicodedata.normalize("NFKD", text)
    return re.sub(r"[^a-z0-9]", "", decomposed.lower())


class HeldOut:
    """A set of sentences. `touches` tells whether a text contains, or is part of, one of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        forms = {normal_form(text) for text in texts}
        self.forms = sorted(form for form in forms if len(form) >= MIN_LENGTH)

        # Forms by their first letters, and by the letters that begin at any place in them.
        self.by_start: dict[str, list[int]] = defaultdict(list)
        self.by_part: dict[str, list[int]] = defaultdict(list)
        for number, form in enumerate(self.forms):
            self.by_start[form[:MIN_LENGTH]].append(number)
            for part in set(parts_of(form)):
                self.by_part[part].append(number)

    def touches(self, text: str) -> bool:
        """Return whether the text contains a held-out sentence or is contained in one."""
        form = normal_form(text)
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
