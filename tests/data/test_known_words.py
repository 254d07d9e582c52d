"""data/known_words.py: the words of training, and rows of other words."""

from __future__ import annotations

import pytest

from data.examples import Example
from data.known_words import (
    WORDS_FILE,
    UnknownWords,
    load_words,
    rows_of_unknown_words,
    save_words,
    share_of_known_words,
    words_in,
    words_of,
)


def row(number: int, *texts: str) -> Example:
    second = texts[1] if len(texts) == 2 else None
    return Example(str(number), texts[0], second, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A lovely film .", ["a", "lovely", "film"]),
        ("Don't GO!", ["don't", "go"]),
        ("It’s the 2nd-best", ["it's", "the", "2nd", "best"]),
        ("snake_case 'quoted'", ["snake", "case", "quoted"]),
        ("Straße ÉTÉ", ["strasse", "été"]),
        ("... -- !", []),
        ("", []),
    ],
)
def test_words_of_a_text(text, words):
    assert words_of(text) == words


def test_words_of_rows_are_those_of_both_texts():
    assert words_in([row(1, "A film"), row(2, "a plot", "The end")]) == {
        "a",
        "film",
        "plot",
        "the",
        "end",
    }


def test_a_row_is_named_if_more_than_half_of_its_words_are_unknown():
    known = {"a", "good", "film"}
    rows = [
        row(1, "A good film"),
        row(2, "A zorp film"),
        row(3, "good blarg"),  # exactly half
        row(4, "zorp blarg film"),
        row(5, "a good", "zorp blarg quux"),
        row(6, "!!!"),  # no words, so none is unknown
    ]
    assert rows_of_unknown_words(rows, known) == [
        UnknownWords("4", ("zorp", "blarg"), 3),
        UnknownWords("5", ("zorp", "blarg", "quux"), 5),
    ]
    assert share_of_known_words(rows, known) == 9 / 16
    assert share_of_known_words(rows[-1:], known) == 1.0


def test_words_are_kept_with_a_model_by_task(tmp_path):
    save_words(tmp_path, {"sst": [row(1, "A lovely film")], "sts": [row(1, "one", "Two")]})
    assert load_words(tmp_path, "sst") == {"a", "lovely", "film"}
    assert load_words(tmp_path, "sts") == {"one", "two"}


def test_a_model_of_an_older_version_has_no_words(tmp_path):
    assert load_words(tmp_path, "sst") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sst": 3}', '{"sst": "a'])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / WORDS_FILE).write_text(content)
    with pytest.raises(ValueError, match=r"training_words\.json: cannot be read"):
        load_words(tmp_path, "sst")
