"""tools/sample/unlabelled.py: what may be chosen, what is near, the same bytes, and refusals."""

import random

import pytest

from data.examples import Example
from tools.sample import unlabelled
from tools.sample.unlabelled import Filter, key_of, main, near_pairs

REVIEWS = """A film of the train set, seen again. This one is entirely new and short! Too short.
this one, is ENTIRELY new - and short? "Quotes" are taken out of a sentence here.
The sentence of dev, known by its letters only. {} is the forty-first word of it.
""".format(" ".join(["word"] * 40))


def single(row_id, sentence):
    return Example(row_id, sentence, None, None)


def pair(row_id, sentences):
    return Example(row_id, *sentences, None)


def course(sst=("", ""), pairs=(("", ""), ("", ""))):
    """A course with one row in each training and dev file. Test files are empty.

    sst: the sentences of train and dev. pairs: the pairs of train and dev, for both tasks of pairs.
    """
    sst_train, sst_dev = sst
    train_pair, dev_pair = pairs
    of_pairs = {"train": (pair("1", train_pair),), "dev": (pair("2", dev_pair),), "test": ()}
    of_sst = {"train": (single("1", sst_train),), "dev": (single("2", sst_dev),), "test": ()}
    return {"sst": of_sst, "para": of_pairs, "sts": of_pairs}


def test_sentences_are_new_of_a_length_and_none_of_dev(tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_text(REVIEWS, encoding="utf-8")
    train = "A film of the train set , seen again ."
    dev = "the sentence OF DEV known by its letters only"
    seen = Filter(course(sst=(train, dev)))
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
    unrelated = [f"stone{number} stands alone{number}" for number in range(40)]
    related = [
        "the red boat sails to rome",
        "The red boat sails to Rome!",
        "a red boat sails to paris",
    ]
    query = "the red boat sails to rome"
    pairs = near_pairs([query], unrelated + related, [(0, 1)], random.Random(0))
    assert pairs == [("the red boat sails to rome", "a red boat sails to paris")]
    with pytest.raises(
        ValueError, match="40 texts to draw neighbours from; expected are 41 at least"
    ):
        near_pairs(["a"], unrelated, [(0, 1)], random.Random(0))


@pytest.fixture
def flags(sample_data, tmp_path):
    """The flags of a call on the sample. Its training files stand for the user's other files."""
    reviews = tmp_path / "reviews.txt"
    sentences = [f"The tale number {number} is quite a good one.\n" for number in range(30)]
    reviews.write_text("".join(sentences), "utf-8")

    premises = tmp_path / "premises.tsv"
    rows = ["premise\thypothesis\n"]
    for number in range(50):
        rows.append(f"A man number {number} sleeps.\tA man number {number} is awake.\n")
    premises.write_text("".join(rows), "utf-8")
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


def words(flags):
    """The words of a command line."""
    line = []
    for flag, values in flags.items():
        line += [flag, *map(str, values)]
    return line


def read(folder):
    """The lines of the three files, by task."""
    lines = {}
    for task in ("sst", "para", "sts"):
        lines[task] = (folder / f"{task}.txt").read_text("utf-8").splitlines()
    return lines


def count(lines):
    return {task: len(of_task) for task, of_task in lines.items()}


def held_out_keys(sample_data):
    """The keys of all fields in files of dev and test."""
    keys = set()
    for name in ("quora-dev.csv", "sts-dev.csv", "sts-test-student.csv"):
        for line in (sample_data / name).read_text("utf-8").splitlines():
            keys.update(key_of(field) for field in line.split("\t"))
    return keys


def test_a_call_writes_new_text_of_the_asked_sizes(flags, tmp_path, sample_data):
    assert main(words(flags)) == 0
    lines = read(tmp_path / "text")
    assert count(lines) == {"sst": 20, "para": 30, "sts": 40}
    assert sum(line.startswith("A man number") for line in lines["sts"]) == 10

    texts = []
    for line in lines["para"] + lines["sts"]:
        texts += line.split("\t")
    assert len(texts) == 140
    assert not held_out_keys(sample_data) & {key_of(text) for text in texts}


def test_the_same_seed_writes_the_same_bytes(flags, tmp_path):
    assert main(words(flags)) == 0
    assert main(words(flags | {"--out": [tmp_path / "again"]})) == 0
    assert read(tmp_path / "again") == read(tmp_path / "text")


def test_a_call_beside_another_writes_nothing_of_it(flags, tmp_path):
    assert main(words(flags)) == 0
    changes = {"--out": [tmp_path / "more"], "--beside": [tmp_path / "text"], "--seed": [12]}
    assert main(words(flags | changes)) == 0
    first = read(tmp_path / "text")
    more = read(tmp_path / "more")
    assert count(more) == {"sst": 10, "para": 30, "sts": 40}
    for task in first:
        assert not set(more[task]) & set(first[task])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--questions": ["none.tsv"]}, "none.tsv: cannot be read (No such file or directory)"),
        (
            {"--premises": ["QUESTIONS"]},
            "the header has no column premise, hypothesis; expected are premise, hypothesis",
        ),
        (
            {"--questions": ["PREMISES"]},
            "the header has no column sentence1, sentence2; expected are sentence1, sentence2",
        ),
        ({"--reviews": ["BINARY"]}, "cannot be read (not UTF-8); expected is text in UTF-8"),
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
    changed = dict(flags)
    for flag, values in change.items():
        changed[flag] = [places.get(value, value) for value in values]
    try:
        code = main(words(changed))
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "text").exists()
