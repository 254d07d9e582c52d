"""tools/sample/controlled.py: it writes the same bytes, and the labels follow from the meaning."""

import hashlib
import os
from collections import Counter
from random import Random

import pytest

from data.examples import COURSE_FILES, PARA, SST, STS
from data.readers import read_examples
from tools.sample import controlled
from tools.sample.controlled import (
    NUM_ROWS,
    Meaning,
    compare_scenes,
    correct_spelling,
    make_clause,
    read_meanings,
    write_controlled,
)

# SHA-256 of the nine files with seed 0, one after the other in the order of their names.
DIGEST = "62bd475734eee68919589f3a34e47b20bf0e97cf3831aeda346e2c24503db39e"


def read_split(folder, format, split):
    path = folder / COURSE_FILES[format.name][split]
    return read_examples(path, format, labelled=split != "test").examples


def texts_of(examples):
    return {frozenset((example.sentence_1, example.sentence_2)) for example in examples}


def test_generator_writes_the_same_bytes(controlled_data):
    """Scores of runs on these files hold for these bytes only."""
    digest = hashlib.sha256()
    paths = sorted(controlled_data.iterdir())
    for path in paths:
        digest.update(path.read_bytes())
    assert len(paths) == 9 and digest.hexdigest() == DIGEST


def test_another_seed_writes_other_rows(tmp_path, controlled_data):
    write_controlled(tmp_path, seed=1)
    name = COURSE_FILES["sts"]["dev"]
    assert (tmp_path / name).read_bytes() != (controlled_data / name).read_bytes()


@pytest.mark.parametrize("format", [SST, PARA, STS], ids=lambda format: format.name)
def test_rows_are_readable_balanced_and_in_one_file_only(format, controlled_data):
    splits = {split: read_split(controlled_data, format, split) for split in NUM_ROWS}
    assert {split: len(examples) for split, examples in splits.items()} == NUM_ROWS

    num_rows = sum(NUM_ROWS.values())
    texts = set()
    ids = set()
    for examples in splits.values():
        texts |= texts_of(examples)
        ids |= {example.id for example in examples}
    assert len(texts) == num_rows, "a sentence or pair stands in two files"
    assert len(ids) == num_rows

    expected_share = 1 / (format.high + 1)
    for split in ("train", "dev"):
        counts = Counter(round(example.label) for example in splits[split])
        for count in counts.values():
            share = count / NUM_ROWS[split]
            assert 0.75 * expected_share < share < 1.25 * expected_share


def test_files_have_the_course_headers(controlled_data):
    headers = {}
    for path in controlled_data.glob("*.csv"):
        headers[path.name] = path.read_text().split("\n")[0]
    assert headers["ids-sst-train.csv"] == "\tid\tsentence\tsentiment"
    assert headers["ids-sst-test-student.csv"] == "0\t\tid\tsentence"
    assert headers["quora-dev.csv"] == "\tid\tsentence1\tsentence2\tis_duplicate"
    assert headers["sts-test-student.csv"] == "\tid\tsentence1\tsentence2"


def test_word_order_decides_where_the_words_are_the_same(controlled_data):
    def words(sentence):
        return sorted(sentence.lower().strip("?").split())

    pairs = []
    for example in read_split(controlled_data, PARA, "train"):
        if words(example.sentence_1) == words(example.sentence_2):
            pairs.append(example)
    assert len(pairs) > 20
    assert {example.label for example in pairs} == {0.0}


MAN = Meaning("person0", ("man",))
WOMAN = Meaning("person0", ("woman",))
BOY = Meaning("person1", ("boy",))
BUYING = Meaning("any0", ("buying",))
SCENE = {
    "person": MAN,
    "quality": None,
    "verb": Meaning("music0", ("playing",)),
    "object": Meaning("music1", ("flute",)),
    "place": Meaning("0", ("in a park",)),
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 5.0, id="the same scene"),
        pytest.param({"person": WOMAN}, 4.5, id="a related person counts half"),
        pytest.param({"person": BOY}, 3.5, id="another person takes its quality along"),
        pytest.param({"quality": Meaning("0", ("tall",))}, 4.75, id="only one scene says it"),
        pytest.param({"verb": BUYING}, 3.0, id="a place needs its event"),
        pytest.param(
            {"person": BOY, "verb": BUYING, "object": Meaning("food0", ("onion",))},
            0.0,
            id="unrelated",
        ),
    ],
)
def test_scores_of_scenes_by_hand(changes, expected):
    assert compare_scenes(SCENE, SCENE | changes) == expected


@pytest.mark.parametrize(
    "text, score",
    [
        ("is good", 1),
        ("is not dull", 1),
        ("is far from clever", -1),
        ("is anything but boring", 2),
        ("is hardly dreadful", 0),
        ("is only mildly amusing", 0),
        ("is utterly silly", -2),
        ("is superb", 2),
    ],
)
def test_scores_of_judgements(text, score):
    random = Random(0)
    scores = set()
    for _ in range(8000):
        clause = make_clause(random)
        if clause.text.replace("  ", " ").endswith(f" {text}"):
            scores.add(clause.score)
    assert scores == {score}


def test_articles_and_word_lists():
    assert correct_spelling("a apple and  a used boat") == "An apple and a used boat"
    assert correct_spelling("a unhappy man eats a onion") == "An unhappy man eats an onion"
    assert read_meanings("car/automobile, boat | pie", "thing") == (
        ("thing0", ("car", "automobile")),
        ("thing0", ("boat",)),
        ("thing1", ("pie",)),
    )


def test_no_sentence_reads_wrong(controlled_data):
    for format in (SST, PARA, STS):
        for example in read_split(controlled_data, format, "train"):
            for sentence in example.texts:
                lowered = f" {sentence.lower()}"
                assert "  " not in lowered, sentence
                assert not set("{}[]|/_") & set(lowered), sentence
                assert sentence[0].isupper() and sentence[-1] in ".?", sentence
                assert not any(f" a {vowel}" in lowered for vowel in "aeio"), sentence


def test_it_replaces_no_file(tmp_path, capsys):
    (tmp_path / "quora-dev.csv").write_text("mine")
    refused = {
        tmp_path: "quora-dev.csv: this file exists, and minBERT may not have written it",
        tmp_path / "quora-dev.csv" / "new": "quora-dev.csv is a file. Choose another folder",
    }
    for out, message in refused.items():
        assert controlled.main(["--out", str(out)]) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["quora-dev.csv"]
    assert (tmp_path / "quora-dev.csv").read_text() == "mine"


def test_overwrite_replaces_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(controlled, "NUM_ROWS", {"train": 6, "dev": 6, "test": 6})
    (tmp_path / "quora-dev.csv").write_text("mine")
    assert controlled.main(["--out", str(tmp_path), "--overwrite"]) == 0
    assert (tmp_path / "quora-dev.csv").read_text().startswith("\tid\tsentence1")
    assert len(list(tmp_path.iterdir())) == 9
    assert "nine files written, 18 rows a task" in capsys.readouterr().out


def test_a_pipe_or_a_run_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "sts-dev.csv")
    assert controlled.main(["--out", str(tmp_path), "--overwrite"]) == 2
    assert "sts-dev.csv: it is not a plain file" in capsys.readouterr().err
    run = tmp_path / "run"
    run.mkdir()
    for name in ("options.json", "run.json"):
        (run / name).write_text("{}")
    assert controlled.main(["--out", str(run)]) == 2
    assert "is the folder of a run or a model" in capsys.readouterr().err
