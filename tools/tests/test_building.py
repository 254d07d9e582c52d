"""tools/sample: words, edits, questions and grades, on small inputs worked by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from tools.sample import edits
from tools.sample.__main__ import PAIR_SHARE, choose, describe, main, without_leaks
from tools.sample.graded_words import Word, class_of, make_graded, negated_class, with_article
from tools.sample.opinions import Lexicon
from tools.sample.pairs import groups_of_alike, label_of, label_of_questions, nearest
from tools.sample.questions import read_question, rewordings, tidy, with_content
from tools.sample.reviews import class_of_product, class_of_strength
from tools.sample.rows import Row, Source, is_sample, split_of, unique
from tools.sample.wordnet import WordNet, inflect

ROOT = Path(__file__).resolve().parents[2]

# --- WordNet --------------------------------------------------------------------------------------

# Two meanings with pointers to each other, as in data.noun: dog and cat are kinds of animal, and
# "hound" means the same as dog. The columns are those of the manual page wndb(5).
NOUNS = """\
  1 This line is part of the licence.
00000001 05 n 02 dog 0 hound 0 001 @ 00000003 n 0000 | barks
00000002 05 n 01 cat 0 001 @ 00000003 n 0000 | purrs
00000003 05 n 01 animal 0 002 ~ 00000001 n 0000 ~ 00000002 n 0000 | lives
"""
ADJECTIVES = """\
00000004 00 a 01 hot 0 001 ! 00000005 a 0101 | warm
00000005 00 a 01 cold 0 001 ! 00000004 a 0101 | cool
"""
COUNTS = """\
dog%1:05:00:: 1 40
hound%1:05:00:: 1 10
cat%1:05:00:: 1 20
animal%1:05:00:: 1 20
hot%3:00:00:: 1 30
cold%3:00:00:: 1 30
"""


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    for part in ("noun", "verb", "adj", "adv"):
        for name in (f"data.{part}", f"index.{part}", f"{part}.exc"):
            (tmp_path / name).write_text("")
    (tmp_path / "data.noun").write_text(NOUNS)
    (tmp_path / "data.adj").write_text(ADJECTIVES)
    index = "dog n 1 1 @ 1 1 00000001\nhound n 1 1 @ 1 1 00000001\ncat n 1 1 @ 1 1 00000002\n"
    (tmp_path / "index.noun").write_text(f"{index}animal n 1 1 ~ 1 1 00000003\n")
    (tmp_path / "index.adj").write_text("hot a 1 1 ! 1 1 00000004\ncold a 1 1 ! 1 1 00000005\n")
    (tmp_path / "cntlist.rev").write_text(COUNTS)
    return WordNet(tmp_path)


def test_words_of_wordnet(wordnet):
    dogs = wordnet.form_of("dogs")
    assert dogs == ("dog", "noun", "s")
    assert wordnet.related(dogs, wordnet.synonyms) == ["hounds"]
    assert wordnet.related(dogs, wordnet.sisters) == ["cats"]
    hot = wordnet.form_of("hot")
    assert wordnet.related(hot, wordnet.antonyms) == ["cold"]
    assert wordnet.form_of("the") is None and wordnet.form_of("xyz") is None


@pytest.mark.parametrize(
    ("base", "ending", "expected"),
    [
        ("city", "s", "cities"),
        ("box", "s", "boxes"),
        ("day", "s", "days"),
        ("like", "ed", "liked"),
        ("like", "ing", "liking"),
        ("carry", "ed", "carried"),
        ("walk", "ing", "walking"),
    ],
)
def test_regular_endings(base, ending, expected):
    assert inflect(base, ending) == expected


def test_edits_with_wordnet(wordnet):
    words = edits.WordEdits(wordnet)
    random = Random(0)
    assert words.synonym(random, "The dogs bark.") == "The hounds bark."
    assert words.antonym(random, "It is a cold day.") == "It is a hot day."
    assert words.sister(random, "Nothing to change here.") is None


# --- edits and questions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "text", "expected"),
    [
        (edits.negate, "He is at home.", "He is not at home."),
        (edits.negate, "I don't know.", "I know."),
        (edits.negate, "Is he at home?", None),
        (edits.reword, "I'm tired.", "I am tired."),
        (edits.swap_sides, "It snowed from Monday to Friday.", "It snowed from Friday to Monday."),
        (edits.swap_clauses, "If it rains, we stay.", "We stay if it rains."),
        (edits.drop_words, "He goes to school by bus.", "He goes to school."),
        (edits.change_name, "No names here.", None),
    ],
)
def test_edits_by_hand(edit, text, expected):
    assert edit(Random(1), text) == expected


def test_a_number_and_a_name_change():
    random = Random(0)
    assert edits.change_number(random, "It was 1988.") != "It was 1988."
    assert edits.change_name(random, "Tom is here.") not in (None, "Tom is here.")


def test_rewordings_keep_the_content():
    wordings = rewordings("How do you clean your car?")
    assert "What is the best way to clean my car?" in wordings
    assert all("clean my car" in wording for wording in wordings)
    assert rewordings("Which one?") == []
    assert read_question("How many legs are there in a chair?").content["n"] == "legs"


def test_the_content_of_another_question():
    changed = with_content(Random(0), "Who wrote Hamlet?", "Who wrote Emma?")
    assert "Emma" in changed and "Hamlet" not in changed
    assert with_content(Random(0), "Who wrote Hamlet?", "How old is Emma?") is None


def test_questions_are_tidied():
    assert tidy("what is  the dog 's name ?") == "What is the dog's name?"


# --- labels ---------------------------------------------------------------------------------------


def test_labels_of_questions():
    same = ("How tall is it?", "What is its height?")
    assert label_of_questions(same, 0.9) == 1.0
    assert label_of_questions(same, 0.8) is None
    assert label_of_questions(same, 0.6) == 0.0
    assert label_of_questions(same, 0.1) is None
    assert label_of_questions(("What happened in 1990?", "What happened in 1991?"), 0.99) == 0.0


def test_labels_of_sentences():
    assert label_of(0.5) == 2.5
    assert label_of(-0.2) == 0.0
    assert label_of(0.98, "negate") == 3.0
    assert label_of(0.8, "reword") == 4.7


def test_neighbours_and_groups_by_hand():
    vectors = np.eye(15, dtype=np.float32)
    vectors[1] = vectors[0]
    neighbours = nearest(vectors)
    assert neighbours.numbers[0, 0] == 1 and neighbours.cosines[0, 0] == 1
    assert not any(neighbours.numbers[number, 0] == number for number in range(15))
    groups = groups_of_alike(neighbours)
    assert groups[0] == groups[1] and len(set(groups.tolist())) == 14


@pytest.fixture
def lexicon(tmp_path: Path) -> Lexicon:
    for name in ("vader_lexicon", "opinion_lexicon"):
        (tmp_path / name).mkdir()
    (tmp_path / "vader_lexicon" / "vader_lexicon.txt").write_text("good\t2.0\t0\t[]\n")
    (tmp_path / "opinion_lexicon" / "positive-words.txt").write_text(";comment\n\nsleek\n")
    (tmp_path / "opinion_lexicon" / "negative-words.txt").write_text("faulty\n")
    return Lexicon(tmp_path)


def test_valences_of_words(lexicon):
    assert lexicon.valences("A sleek but faulty thing") == [1.5, -1.5]
    assert lexicon.valences("very good") == [pytest.approx(2.6)]
    assert lexicon.valences("it isn't good") == [-2.0]
    assert lexicon.valences("the table") == []


def test_classes_of_product_sentences(lexicon):
    assert [class_of_strength(number) for number in (-4, -3, -1, 0, 2, 3)] == [0, 0, 1, 2, 3, 4]
    assert class_of_product("screen[+2], menu[+1]", "x", lexicon) == 4
    assert class_of_product("size[-][u]", "x", lexicon) == 1
    assert class_of_product("screen[+1], menu[-1]", "x", lexicon) == 2
    assert class_of_product("", "I bought it in May", lexicon) == 2
    assert class_of_product("", "it is a good one", lexicon) is None, "nobody said so"


def test_classes_of_graded_words():
    assert [class_of(valence, 2.4) for valence in (-3, -1, 1, 3)] == [0, 1, 3, 4]
    assert [negated_class(valence) for valence in (-3, -1, 1, 3)] == [3, 3, 1, 1]
    rows = make_graded(Random(0), [Word("good", 2.0), Word("bad", -2.0)], 200)
    assert {row.label for row in rows} == {0, 1, 2, 3, 4}
    for row in rows:
        (text,) = row.texts
        if "not good" in text:
            assert row.label == 1, text


def test_articles():
    assert with_article("What a awful show, an good one") == "What an awful show, a good one"
    assert with_article("a university, a hour") == "a university, a hour"


# --- rows -----------------------------------------------------------------------------------------


def test_a_sentence_is_in_one_split_whatever_its_case():
    assert split_of("A Lovely film!") == split_of("a lovely film")
    splits = {split_of(f"sentence {number}") for number in range(50)}
    assert splits == {"train", "dev", "test"}


def test_pairs_are_kept_once_in_either_order():
    first = Row(("one a", "two"), 1, Source.NEAR_QUESTIONS)
    again = Row(("Two", "one a."), 0, Source.NEAR_QUESTIONS)
    trivial = Row(("x", "X!"), 1, Source.NEAR_QUESTIONS)
    assert unique([first, again, trivial]) == [first]


def row(*texts: str, source: Source = Source.NEAR_QUESTIONS) -> Row:
    return Row(texts, 1, source)


def test_training_rows_yield_to_those_of_dev_and_test():
    """A sentence of one task's dev file is in no training pair of another task either."""
    para = {"train": [row("a1", "b1"), row("c1", "d1")], "dev": [row("e1", "f1")], "test": []}
    sts = {"train": [row("E1!", "g1")], "dev": [row("h1", "i1")], "test": [row("B1", "i1")]}
    cleaned = without_leaks([para, sts])
    assert cleaned[0] == {"train": [row("c1", "d1")], "dev": [row("e1", "f1")], "test": []}
    assert cleaned[1] == {"train": [], "dev": [], "test": [row("B1", "i1")]}


def test_rows_of_each_kind_are_chosen_by_size():
    near = [row(f"near {number}", "x") for number in range(50)]
    kinds = {split: [("near", near)] for split in ("train", "dev", "test")}
    chosen = choose(kinds, {"near": 20, "controlled": 0}, [])
    assert chosen["train"] == near[:20]
    share = round(20 * PAIR_SHARE["dev"])
    assert chosen["dev"] == near[:share] and 0 < share < 20
    assert describe("dev.csv", near) == "dev.csv: 50 rows (50 d1)"


# --- what the command may write -------------------------------------------------------------------


def flags_of(folder: Path, course: Path, **folders: Path) -> list[str]:
    """The command line, with empty sources."""
    places = {"sources": folder / "none", "wordnet": folder / "none", "cache": folder}
    places |= {"out": folder, "course": course, **folders}
    flags = []
    for name, path in places.items():
        flags += [f"--{name}", str(path)]
    return flags


def test_files_of_others_are_not_replaced(sample_data, tmp_path, capsys):
    flags = flags_of(tmp_path, sample_data)
    (tmp_path / "sts-dev.csv").write_text("\tid\tsentence1\n0\tff00\tmine\n")
    assert main(flags) == 2
    assert "sts-dev.csv: this file exists, and minBERT may not" in capsys.readouterr().err
    (tmp_path / "sts-dev.csv").unlink()

    (tmp_path / "texts.txt").write_text("a list of mine\n")
    assert main(flags) == 2
    assert "--cache" in capsys.readouterr().err
    (tmp_path / "texts.txt").unlink()

    # The course's files are an input. --overwrite does not allow to replace them.
    assert main([*flags_of(tmp_path, sample_data, out=sample_data), "--overwrite"]) == 2
    assert "it is an input already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_older_sample_is_replaced(tmp_path):
    """A second call with the same --out needs no flag."""
    names = sorted((ROOT / "data" / "sample").glob("*.csv"))
    assert len(names) == 9 and all(is_sample(path) for path in names)
    other = tmp_path / "ids-sst-dev.csv"
    for text in ("", "\tid\tsentence\n", "\tid\tsentence\n0\t9900\ta\n1\tf100\tb\n", "x" * 9000):
        other.write_text(text)
        assert not is_sample(other), text
