"""Word vectors from a text file of GloVe, word2vec or fastText: those of the words of some texts.

A line is a word and its D numbers, with single spaces between. A first line of two whole numbers is
word2vec's header: the number of words, and D. The file is read line by line. Only vectors of words
that occur are kept, so a large file needs little memory.

D numbers of a vector.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

MAX_LINE = 2**20  # bytes of a line
LARGEST = 3.4028234663852886e38  # of float32
SIGNATURES = {b"PK\3\4": "zip", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # at the start of some files in UTF-8


class WordVectors(NamedTuple):
    """The vectors of the words that occur in some texts.

    vectors: D numbers of float32 each, by word. size: D. summary: the line for the user.
    """

    path: str
    vectors: Mapping[str, array[float]]
    size: int
    summary: str

    def vectors_in(self, text: str) -> list[array[float] | None]:
        """The vector of each word of a text, in order. None for an unknown word.

        A word between spaces is looked up as it is, and then in small letters. If the file has
        neither, the word is split at each sign of punctuation. Its parts are looked up likewise.
        """
        vectors: list[array[float] | None] = []
        for word in text.split():
            vector = self.look_up(word)
            if vector is None:
                vectors += map(self.look_up, parts_of(word))
            else:
                vectors.append(vector)
        return vectors

    def look_up(self, word: str) -> array[float] | None:
        """The vector of a word as it is, or else in small letters. None without any."""
        vector = self.vectors.get(word)
        return self.vectors.get(word.lower()) if vector is None else vector

    def coverage(self, texts: Iterable[str]) -> Coverage:
        """How many words of different texts are known."""
        num_words = 0
        num_unknown = 0
        without = []
        different = dict.fromkeys(texts)
        for text in different:
            vectors = self.vectors_in(text)
            num_unknown_here = sum(vector is None for vector in vectors)
            num_words += len(vectors)
            num_unknown += num_unknown_here
            if num_unknown_here == len(vectors):
                without.append(text)
        return Coverage(len(different), num_words, num_unknown, without)


class Coverage(NamedTuple):
    """The words of different sentences, the unknown ones, and sentences without a known word."""

    num_sentences: int
    num_words: int
    num_unknown: int
    without: list[str]

    @property
    def record(self) -> dict[str, Any]:
        """The numbers, for a file."""
        return {
            "sentences": self.num_sentences,
            "words": self.num_words,
            "unknown": self.num_unknown,
            "without": len(self.without),
        }

    @property
    def summary(self) -> str:
        """A line for the user."""
        line = (
            f"words without a vector, which are left out: {self.num_unknown:,} of "
            f"{self.num_words:,}, in {self.num_sentences:,} different sentences"
        )
        if self.without:
            line += (
                f"; sentences without a known word, whose vector is zero: {len(self.without):,}, "
                f"the first is {self.without[0]!r}"
            )
        return line


def parts_of(word: str) -> list[str]:
    """A word, split before and behind each sign of punctuation, as BERT does."""
    from tokenizers.pre_tokenizers import BertPreTokenizer  # late: --help needs none

    return [part for part, _ in BertPreTokenizer().pre_tokenize_str(word)]


def forms_in(texts: Iterable[str]) -> set[str]:
    """Each form in which `WordVectors` may look up a word of the texts."""
    words: set[str] = set()
    for text in texts:
        words.update(text.split())
    forms = set(words)
    for word in words:
        forms.update(parts_of(word))
    return forms | {form.lower() for form in forms}


# --- the file -------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """What the first lines say: D, and where there is a header, the number of words."""

    size: int
    num_words: int | None


def read_word_vectors(path: str | Path, texts: Iterable[str]) -> WordVectors:
    """Read the vectors of all words that occur in the texts.

    Words are compared as bytes of UTF-8. A word may hold spaces: the last D fields of a line are
    its vector. No word of a text has one, so such lines only are counted. Of a word that stands
    there twice the first vector counts, as in gensim. The numbers of other words are not read,
    apart from the last one of each line.

    ValueError, with the line, where the file is no such text, has a line with fewer numbers or a
    number that is not finite, or knows none of the words.
    """
    wanted = {form.encode("utf-8", "surrogatepass"): form for form in forms_in(texts)}
    vectors: dict[str, array[float]] = {}
    num_lines = num_spaced = num_repeated = num_foreign = 0
    if not Path(path).is_file():
        raise ValueError(f"{path}: there is no such file. Check the path.")
    with open(path, "rb") as file:
        shape = find_shape(path, file)
        for number, line in numbered_lines(file):
            if number == 1 and shape.num_words is not None:
                continue
            num_lines += 1
            if not has_one_word(line, shape, f"{path}, line {number}"):
                num_spaced += 1
                continue
            word = line.partition(b" ")[0]
            num_foreign += not is_utf_8(word)
            form = wanted.get(word)
            if form in vectors:
                num_repeated += 1
            elif form is not None:
                vectors[form] = numbers_in(line, f"{path}, line {number}")

    if shape.num_words not in (None, num_lines):
        raise ValueError(
            f"{path}: its header says {shape.num_words:,} words, and {num_lines:,} lines follow. "
            "The file is not complete, or its first line is wrong. Download it again, or correct "
            "that line."
        )
    notes = [f"{path}: {num_lines:,} words of {shape.size} numbers, {len(vectors):,} of them kept"]
    for count, kind in (
        (num_repeated, "lines that repeat a word (its first vector counts)"),
        (num_spaced, "words with spaces, which match no word of a sentence"),
        (num_foreign, "words that are no UTF-8 and match none"),
    ):
        notes += [f"{kind}: {count:,}"] if count else []
    if not vectors:
        raise ValueError(
            f"{'; '.join(notes)}. No word occurs in the measured sentences. Pass word vectors of "
            "their language, in UTF-8."
        )
    return WordVectors(str(path), vectors, shape.size, "; ".join(notes))


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, without spaces at their ends, with their numbers from 1."""
    file.seek(0)
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        # A word may begin with a space of another kind, so only the end is cut.
        stripped = line.rstrip(b" \r\n")
        if stripped:
            yield number, stripped


def find_shape(path: str | Path, file: BinaryIO) -> Shape:
    """Find D in the first lines. ValueError where they are not those of word vectors."""
    beginning = file.read(4096)
    for signature, name in SIGNATURES.items():
        if beginning.startswith(signature):
            raise ValueError(
                f"{path}: is packed ({name}). Unpack it, and pass the text file that it holds."
            )
    if b"\0" in beginning:
        raise ValueError(
            f"{path}: holds bytes that are no text, as word2vec's binary files do. Pass a text "
            "file of word vectors. gensim writes one: KeyedVectors.load_word2vec_format(FILE, "
            "binary=True).save_word2vec_format('vectors.txt')"
        )
    _, first = next(numbered_lines(file), (0, b""))
    fields = first.split(b" ")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return Shape(int(fields[1]), int(fields[0]))

    # Of "1 2 3" the word is 1.
    size = 0
    while size < len(fields) - 1 and is_number(fields[-1 - size]):
        size += 1
    if size < 2:
        raise ValueError(
            f"{path}: its first line is {shown(first)}, which is no word with two or more numbers "
            "behind it, separated by spaces. Pass a text file of word vectors, such as "
            "glove.6B.300d.txt, or the name or the folder of a model."
        )
    return Shape(size, None)


def has_one_word(line: bytes, shape: Shape, place: str) -> bool:
    """Whether one word stands before the vector, and not one with spaces.

    ValueError for a line that does not end in a number, and for one with too few or, by far, too
    many fields.
    """
    num_words = line.count(b" ") + 1 - shape.size
    if not 1 <= num_words <= shape.size or not is_number(line[line.rfind(b" ") + 1 :]):
        raise ValueError(
            f"{place}: begins with {shown(line)} and has {num_words + shape.size} fields. Expected "
            f"are a word and {shape.size} numbers, separated by single spaces, as in the lines "
            "before it. Remove the line, or download the file again."
        )
    return num_words == 1


def numbers_in(line: bytes, place: str) -> array[float]:
    """The vector of a line, float32. ValueError for a number that is none, or not finite."""
    fields = line.split(b" ")[1:]
    for field in fields:
        if not is_number(field):
            raise ValueError(
                f"{place}: the vector of {shown(line)} holds {shown(field)}. Expected are "
                "finite numbers. Remove the line, or download the file again."
            )
    return array("f", map(float, fields))


def is_number(field: bytes) -> bool:
    """Whether a field is a number that float32 holds."""
    try:
        return abs(float(field)) <= LARGEST
    except ValueError:
        return False


def is_utf_8(word: bytes) -> bool:
    """Whether a word can be read."""
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(text: bytes) -> str:
    """The beginning of a line, for a message."""
    return repr(text[:40].decode("utf-8", "replace"))
