"""WordNet's files: synonyms, opposites and sisters of a word, with the endings of the word.

WordNet 3.0 (Princeton University) has for each word its meanings, the most frequent one first. We
use the first meaning only, and only words that are mostly of one part of speech. So a replacement
is seldom wrong, and many words have none. The format of the files is described in WordNet's manual
pages wndb(5) and cntlist(5).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# The files by the number that WordNet gives a part of speech. Satellite adjectives (5) are in adj.
PARTS_OF_SPEECH = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
ANTONYM = "!"
HYPERNYMS = ("@", "@i")
HYPONYMS = ("~", "~i")

# Share of a word's uses that must be of one part of speech, and of those of the first meaning.
MIN_SHARE = 0.7
MIN_SHARE_FIRST = 0.5

# A rarer word does not replace another one.
MIN_COUNT = 3

# Regular endings, as (ending of the form, ending of its base).
ENDINGS = {
    "noun": (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ses", "s"), ("s", "")),
    "verb": (
        ("ies", "y"),
        ("ied", "y"),
        ("es", "e"),
        ("ed", "e"),
        ("ing", "e"),
        ("s", ""),
        ("ed", ""),
        ("ing", ""),
    ),
}

# Words of grammar. Some of them stand in WordNet with a rare meaning.
GRAMMAR = """
a an the i you he she it we they me him her us them my your his its our their this that these
those who whom whose which what when where why how be am is are was were been being have has
had having do does did done doing will would shall should can could may might must not no nor
and or but if then than as at by for from in into of off on onto out over to under up with
about after before between through during against all any both each few more most other some
such only own same so too very just there here now ever never yet still much many lot one two
three four five six seven eight nine ten get got go went let make made take took us mr mrs
please yes ok oh
"""
FUNCTION_WORDS = frozenset(GRAMMAR.split())


class Form(NamedTuple):
    """A word of a text: its base, its part of speech, and its ending after the base."""

    base: str
    part: str
    ending: str  # "", "s", "ed" or "ing"


class Synset(NamedTuple):
    """A meaning: the words that express it, and the pointers to other meanings."""

    words: tuple[str, ...]
    pointers: tuple[tuple[str, str, int, int], ...]  # symbol, key, source word, target word


class WordNet:
    """Words of English by their first meaning."""

    def __init__(self, folder: Path) -> None:
        self.synsets: dict[str, Synset] = {}
        self.first: dict[tuple[str, str], str] = {}
        self.irregular: dict[str, set[str]] = {}
        for part in ("noun", "verb", "adj", "adv"):
            self.read_synsets(folder / f"data.{part}", part)
            self.read_index(folder / f"index.{part}", part)
            self.read_irregular(folder / f"{part}.exc", part)
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.read_counts(folder / "cntlist.rev")

    # --- reading ----------------------------------------------------------------------------------

    def read_synsets(self, path: Path, part: str) -> None:
        """Read all meanings of a part of speech."""
        for line in path.read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                # The licence.
                continue
            fields = line.split("|")[0].split()
            num_words = int(fields[3], 16)
            words = tuple(fields[4 + 2 * number].split("(")[0] for number in range(num_words))
            start = 4 + 2 * num_words
            pointers = []
            for number in range(int(fields[start])):
                symbol, offset, kind, ends = fields[start + 1 + 4 * number :][:4]
                target = f"{PARTS_OF_SPEECH_BY_LETTER[kind]} {offset}"
                pointers.append((symbol, target, int(ends[:2], 16), int(ends[2:], 16)))
            self.synsets[f"{part} {fields[0]}"] = Synset(words, tuple(pointers))

    def read_index(self, path: Path, part: str) -> None:
        """Read the first meaning of each word."""
        for line in path.read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            fields = line.split()
            num_pointers = int(fields[3])
            self.first[fields[0], part] = f"{part} {fields[6 + num_pointers]}"

    def read_irregular(self, path: Path, part: str) -> None:
        """Read which bases and forms have no regular endings."""
        words: set[str] = set()
        for line in path.read_text(encoding="latin-1").splitlines():
            words.update(line.split())
        self.irregular[part] = words

    def read_counts(self, path: Path) -> None:
        """Read how often each word has each part of speech, and its first meaning."""
        for line in path.read_text(encoding="latin-1").splitlines():
            key, sense, count = line.split()
            word, _, rest = key.partition("%")
            part = PARTS_OF_SPEECH[rest[0]]
            self.counts[word][part] += int(count)
            if sense == "1":
                self.counts[word][f"{part} 1"] += int(count)

    # --- words ------------------------------------------------------------------------------------

    def main_part(self, base: str) -> str:
        """Return the part of speech that a word mostly has, or ""."""
        counts = self.counts.get(base)
        if counts is None:
            return ""
        total = sum(counts[part] for part in ("noun", "verb", "adj", "adv"))
        for part in ("noun", "verb", "adj", "adv"):
            is_clear = counts[part] >= MIN_SHARE * total and (base, part) in self.first
            if is_clear and counts[f"{part} 1"] >= MIN_SHARE_FIRST * counts[part]:
                return part
        return ""

    def form_of(self, word: str) -> Form | None:
        """Return base, part of speech and ending of a word. None where that is not clear."""
        if word in FUNCTION_WORDS or not word.isalpha() or len(word) < 3:
            return None
        part = self.main_part(word)
        if part and word not in self.irregular[part]:
            return Form(word, part, "")
        for part, endings in ENDINGS.items():
            for ending, base_ending in endings:
                if not word.endswith(ending):
                    continue
                base = word.removesuffix(ending) + base_ending
                kind = "s" if ending.endswith("s") else ending[-3:].removeprefix("i")
                kind = "ing" if ending.endswith("ing") else kind
                kind = "ed" if ending.endswith("ed") or ending == "ied" else kind
                is_known = self.main_part(base) == part and base not in self.irregular[part]
                if is_known and inflect(base, kind) == word:
                    return Form(base, part, kind)
        return None

    def related(self, form: Form, find: Callable[[Form], list[str]]) -> list[str]:
        """Return the words that `find` gives for a base, with the same ending."""
        words = []
        for base in find(form):
            is_plain = base.isalpha() and base.islower() and base != form.base
            if form.ending == "s" and base.endswith("s"):
                # It is a plural already.
                continue
            is_regular = not form.ending or base not in self.irregular[form.part]
            if is_plain and is_regular and self.main_part(base) == form.part:
                words.append(inflect(base, form.ending))
        return words

    def synonyms(self, form: Form) -> list[str]:
        """Return the words whose first meaning is that of the word."""
        key = self.first[form.base, form.part]
        return [
            word
            for word in self.synsets[key].words
            if self.first.get((word.lower(), form.part)) == key
        ]

    def antonyms(self, form: Form) -> list[str]:
        """Return the words of the opposite first meaning."""
        synset = self.synsets[self.first[form.base, form.part]]
        words = []
        for symbol, target, source_word, target_word in synset.pointers:
            is_own = source_word and synset.words[source_word - 1].lower() == form.base
            if symbol == ANTONYM and is_own:
                words.append(self.synsets[target].words[target_word - 1])
        return words

    def sisters(self, form: Form) -> list[str]:
        """Return words for other kinds of the same thing: cat and cow for dog."""
        key = self.first[form.base, form.part]
        words = []
        for above in self.targets(key, HYPERNYMS):
            for beside in self.targets(above, HYPONYMS):
                if beside == key:
                    continue
                word = self.synsets[beside].words[0]
                is_common = self.counts[word][f"{form.part} 1"] >= MIN_COUNT
                if is_common and self.first.get((word.lower(), form.part)) == beside:
                    words.append(word)
        return words

    def targets(self, key: str, symbols: tuple[str, ...]) -> list[str]:
        """Return the meanings that pointers of a kind lead to."""
        return [pointer[1] for pointer in self.synsets[key].pointers if pointer[0] in symbols]


PARTS_OF_SPEECH_BY_LETTER = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}


def inflect(base: str, ending: str) -> str:
    """Return a base with a regular ending: "s", "ed" or "ing"."""
    if not ending:
        return base
    has_y = base.endswith("y") and base[-2] not in "aeiou"
    if ending == "s":
        if has_y:
            return f"{base[:-1]}ies"
        return f"{base}es" if base.endswith(("s", "x", "ch", "sh", "z")) else f"{base}s"
    if ending == "ed" and has_y:
        return f"{base[:-1]}ied"
    stem = base[:-1] if base.endswith("e") and not base.endswith(("ee", "ye", "oe")) else base
    if base.endswith("e") and ending == "ed":
        stem = base[:-1]
    return f"{stem}{ending}"
