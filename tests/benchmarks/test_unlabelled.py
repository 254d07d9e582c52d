"""Text for an ensemble to label: what may be chosen, what is near, the same seed the same bytes, refusals at once."""

import random

import pytest

from benchmarks import unlabelled
from benchmarks.unlabelled import Filter, key_of, main, near_pairs
from data.readers import Example

REVIEWS = """A film of the train set, seen again. This one is entirely new and short! Too short.
this one, is ENTIRELY new - and short? "Quotes" are taken out of a sentence here.
The sentence of dev, known by its letters only. {} is the forty-first word of it.
""".format(" ".join(["word"] * 40))


def course(
    sst: tuple[str, str] = ("", ""), pairs: tuple[tuple[str, str], tuple[str, str]] | None = None
) -> dict:
    """A course of one row a split: texts of train and dev; test is empty."""

    def splits(train: tuple[str, ...], dev: tuple[str, ...]) -> dict:
        return {
            "train": [Example("1", train[0], *train[1:], *[None] * (3 - len(train)))],
            "dev": [Example("2", dev[0], *dev[1:], *[None] * (3 - len(dev)))],
            "test": [],
        }

    of_pairs = splits(*(pairs or (("", ""), ("", ""))))
    return {"sst": splits((sst[0],), (sst[1],)), "para": of_pairs, "sts": of_pairs}


def test_sentences_are_new_of_a_length_and_none_of_dev(tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_text(REVIEWS, encoding="utf-8")
    seen = Filter(
        course(
            (
                "A film of the train set , seen again .",
                "the sentence OF DEV known by its letters only",
            )
        )
    )
    assert list(seen.new_sentences(unlabelled.sentences_of([path]))) == [
        "This one is entirely new and short!",
        "Quotes are taken out of a sentence here.",
    ]


def test_pairs_are_of_two_texts_and_none_is_known_in_either_order():
    seen = Filter(course(pairs=(("Train a.", "Train b."), ("Dev a.", "Dev b."))))
    pairs = [
        ("train B", "train a"),
        ("new", "dev A"),
        ("new", "New!"),
        ("new", ""),
        ("new", 'a "quote"'),
        ("new", "train a"),
        ("train a", "NEW"),
        ("new", " ".join(["word"] * 41)),
        ("new", "train c"),
    ]
    assert list(seen.new_pairs(pairs)) == [("new", "train a"), ("new", "train c")]


def test_a_neighbour_shares_words_and_is_not_the_query():
    pool = [f"stone{number} stands alone{number}" for number in range(40)] + [
        "the red boat sails to rome",
        "The red boat sails to Rome!",
        "a red boat sails to paris",
    ]
    pairs = near_pairs(["the red boat sails to rome"], pool, [(0, 1)], random.Random(0))
    assert pairs == [("the red boat sails to rome", "a red boat sails to paris")]
    with pytest.raises(
        ValueError, match="40 texts to draw neighbours from; needed are 41 at least"
    ):
        near_pairs(["a"], pool[:40], [(0, 1)], random.Random(0))


@pytest.fixture
def flags(sample_data, tmp_path):
    """The flags of a call on the sample; its own training files stand for what else a user has."""
    reviews, premises = tmp_path / "reviews.txt", tmp_path / "premises.tsv"
    reviews.write_text(
        "".join(f"The tale number {number} is quite a good one.\n" for number in range(30)), "utf-8"
    )
    rows = (
        f"A man number {number} sleeps.\tA man number {number} is awake.\n" for number in range(50)
    )
    premises.write_text("premise\thypothesis\n" + "".join(rows), "utf-8")
    return {
        "--data-dir": [sample_data],
        "--reviews": [reviews],
        "--questions": [sample_data / "quora-train.csv"],
        "--premises": [premises],
        "--similar": [sample_data / "sts-train.csv"],
        "--sentences": [20],
        "--question-pairs": [0, 30],
        "--sentence-pairs": [10, 30],
        "--out": [tmp_path / "text"],
    }


def words(flags: dict) -> list[str]:
    return [str(word) for flag, values in flags.items() for word in (flag, *values)]


def read(folder) -> dict[str, list[str]]:
    return {
        task: (folder / f"{task}.txt").read_text("utf-8").splitlines()
        for task in ("sst", "para", "sts")
    }


def test_a_call_writes_what_predict_reads_and_the_next_nothing_of_it(flags, tmp_path, sample_data):
    assert main(words(flags)) == 0
    first = read(tmp_path / "text")
    assert {task: len(lines) for task, lines in first.items()} == {"sst": 20, "para": 30, "sts": 40}
    assert sum(line.startswith("A man number") for line in first["sts"]) == 10
    held_out = {
        key_of(field)
        for name in ("quora-dev.csv", "sts-dev.csv", "sts-test-student.csv")
        for line in (sample_data / name).read_text("utf-8").splitlines()
        for field in line.split("\t")
    }
    texts = [text for task in ("para", "sts") for line in first[task] for text in line.split("\t")]
    assert len(texts) == 140 and not held_out & set(map(key_of, texts))

    assert main(words(flags | {"--out": [tmp_path / "again"]})) == 0
    assert read(tmp_path / "again") == first
    assert (
        main(
            words(
                flags
                | {"--out": [tmp_path / "more"], "--beside": [tmp_path / "text"], "--seed": [12]}
            )
        )
        == 0
    )
    more = read(tmp_path / "more")
    assert {task: len(lines) for task, lines in more.items()} == {"sst": 10, "para": 30, "sts": 40}
    assert not any(set(more[task]) & set(first[task]) for task in first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--questions": ["none.tsv"]}, "none.tsv: cannot be read (No such file or directory)"),
        (
            {"--premises": ["QUESTIONS"]},
            "the header has no column premise, hypothesis; needed are premise, hypothesis",
        ),
        (
            {"--questions": ["PREMISES"]},
            "the header has no column sentence1, sentence2; needed are sentence1, sentence2",
        ),
        ({"--reviews": ["BINARY"]}, "cannot be read (not UTF-8); needed is text in UTF-8"),
        ({"--question-pairs": [0, -1]}, "are numbers of pairs; pass 0 or more"),
        ({"--sentences": [-1]}, "--sentences is -1; pass a whole number of 0 or more"),
        ({"--out": ["OUT"]}, "exists; nothing is overwritten"),
        ({"--ranks": ["3-40"]}, "argument --ranks: '3-40' is not two ranks such as 3-20"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    flags, change, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(unlabelled, "near_pairs", lambda *_: pytest.fail("began to choose"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    places = {
        "QUESTIONS": flags["--questions"][0],
        "PREMISES": flags["--premises"][0],
        "BINARY": tmp_path / "binary",
        "OUT": tmp_path,
    }
    change = {
        flag: [places.get(value, value) for value in values] for flag, values in change.items()
    }
    try:
        code = main(words(flags | change))
    except SystemExit as stop:
        code = stop.code
    assert code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "text").exists()
