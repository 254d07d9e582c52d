"""The mean of word vectors: how the file is read, and the command that measures the mean."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from contrastive.quality.__main__ import main
from contrastive.quality.pair_map import project
from contrastive.quality.vector_sources import WordMean
from contrastive.quality.word_vectors import read_word_vectors
from data.sentence_sets import read_pairs
from tests.toy_sets import write_class_file, write_sts_file

LINES = [
    "the 1 2 3 4",
    ". 0 0 0 1",
    "U.S. 5 5 5 5",
    "u.s. 9 9 9 9",
    "n't 4 3 2 1",
    "café -1 0 0 1e-2",
    ". . . 7 7 7 7",
    "at name@domain.com 8 8 8 8",
    "the 9 9 9 9",
    "other x y z 1",
]


def write(path, lines=LINES, end="\n"):
    path.write_bytes((end.join(lines) + end).encode())
    return path


def slow_mean(text, table):
    """Word by word, with a loop over the numbers. Texts have spaces around each word."""
    total = [0.0] * 4
    known = 0
    for word in text.split():
        for name in (word, word.lower()):
            if name in table:
                known += 1
                for place in range(4):
                    total[place] += table[name][place]
                break
    return [value / max(known, 1) for value in total]


@pytest.mark.parametrize("header", [[], ["10 4"]])
@pytest.mark.parametrize("end", ["\n", " \r\n"])
def test_the_mean_is_that_of_a_slow_loop(tmp_path, header, end):
    """word2vec writes a header, and a space at the end of each line."""
    path = write(tmp_path / "vectors.txt", header + LINES, end)
    texts = ["The Café does n't .", "unknown words", "the the U.S. u.s. . . ."]
    words = read_word_vectors(path, texts)
    # Only words that occur are kept. Of the two lines of "the" the first one counts.
    assert set(words.vectors) == {"the", ".", "U.S.", "u.s.", "n't", "café"}
    table = {name: words.vectors[name].tolist() for name in words.vectors}
    assert table["the"] == [1, 2, 3, 4] and table["café"][3] == pytest.approx(0.01)
    means, num_cut = WordMean(words, words.coverage(texts)).encode(texts)
    assert means.dtype == torch.float32 and num_cut == 0
    for text, mean in zip(texts, means.tolist(), strict=True):
        assert mean == pytest.approx(slow_mean(text, table))
    # The negative control: a mean that counts unknown words, too, is another one.
    assert means[0, 0].item() != pytest.approx(np.mean([1, -1, 0, 4, 0]))
    coverage = words.coverage([*texts, texts[0]])
    assert coverage[:3] == (3, 14, 3) and coverage.without == ["unknown words"]
    assert "repeat a word (its first vector counts): 1; words with spaces" in words.summary
    assert "'unknown words'" in coverage.summary


def test_words_as_they_are_then_in_small_letters_then_split(tmp_path):
    words = read_word_vectors(write(tmp_path / "vectors.txt"), ["U.S. THE. café: The,x"])
    found = words.vectors_in("U.S. THE. café: The,x")
    known = [None if vector is None else vector[0] for vector in found]
    # U.S. | the and . | café and : | the and , and x
    assert known == [5, 1, 0, -1, None, 1, None, None]
    assert words.vectors_in("  ") == []
    assert not WordMean(words, words.coverage(["  "])).encode(["  "])[0].any()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its first line is ''"),
        (b"3 4\n", "its header says 3 words, and 0 lines follow"),
        (b"score,sentence1\n5,a cat\n", "no word with two or more numbers behind it"),
        (b"the 23135851162\nof 13151942776\n", "no word with two or more numbers"),
        (b"the\t1\t2\n", "separated by spaces"),
        (b"PK\3\4glove.6B.300d.txt", "is packed (zip)"),
        (b"\x1f\x8b\x08", "is packed (gzip)"),
        (b"3 4\nthe \0\0\x80\x3f", "gensim writes one"),
        ("the 1 2\n".encode("utf-16"), "holds bytes that are no text"),
        (b"the 1 2 3\nof 1 2\n", "line 2: begins with 'of 1 2' and has 3 fields"),
        (b"the 1 2 3\nof 1 2 3 in 1 2 3\n", "line 2: begins with 'of 1 2 3 in 1 2 3' and has 8"),
        (b"the 1 2 3\nof 1 2 x\n", "line 2: begins with 'of 1 2 x'"),
        (b"of 1 2 3\n\nthe nan 2 3\n", "line 3: the vector of 'the nan 2 3' holds 'nan'"),
        (b"of 1 2 3\nthe 1e39 2 3\n", "holds '1e39'"),
        (b"of 1 2 3\nthe 1  3\n", "line 2: the vector of 'the 1  3' holds ''"),
        (b"4 3\nthe 1 2 3\n", "says 4 words, and 1 lines follow. The file is not complete"),
        (b"maison 1 2 3\ncaf\xe9 1 2 3\n", "that are no UTF-8 and match none: 1. No word occurs"),
    ],
)
def test_what_is_refused(content, message, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        read_word_vectors(path, ["the cat"])
    assert message in str(error.value) and str(error.value).startswith(str(path))


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(sample_data, tmp_path_factory):
    """Files to measure on, and vectors of all words of the STS set that have no capital."""
    folder = tmp_path_factory.mktemp("words")
    sets = write_sts_file(folder / "pairs.tsv", sample_data)
    texts = []
    for example in read_pairs(sets).examples:
        texts += example.texts
    names = sorted({word for word in " ".join(texts).split() if word.islower()})
    numbers = np.random.default_rng(0).normal(size=(len(names), 6)).round(3)
    lines = [f"{name} {' '.join(map(str, row))}" for name, row in zip(names, numbers, strict=True)]
    write(folder / "vectors.txt", lines)
    rows = [
        "a man is playing\tis playing a man\t1",
        "a woman sings\tthe dog\t0",
        "zzz\tthe man is\t0",
    ]
    write(folder / "labelled.tsv", ["sentence1\tsentence2\tlabel", *rows])
    write(
        folder / "ranked.tsv", ["question\tanswer\tlabel", *rows[:1], "a man is playing\ta dog\t0"]
    )
    write_class_file(folder / "films.tsv")
    (folder / "downstream" / "MR").mkdir(parents=True)
    for name, word in (("pos", "the man is"), ("neg", "a woman of")):
        content = "".join(f"{word} {names[number]}\n" for number in range(12))
        (folder / "downstream" / "MR" / f"rt-polarity.{name}").write_text(content)
    return folder


def test_it_is_measured_as_an_encoder_is(files, tmp_path, capsys):
    words = [files / "vectors.txt", "--sets", files / "pairs.tsv", "--baselines"]
    words += ["--pairs", files / "labelled.tsv", "--pairs-dev", files / "labelled.tsv"]
    words += ["--ranking", files / "ranked.tsv", "--transfer", files / "films.tsv", "--folds", "2"]
    words += ["--senteval", files, "--senteval-tasks", "MR"]
    words += ["--out", tmp_path / "out", "--report", tmp_path / "page.html"]
    assert main([str(word) for word in words]) == 0
    record = json.loads((tmp_path / "out" / "quality.json").read_text(encoding="utf-8"))

    # STS, against a mean of its own.
    pairs = read_pairs(files / "pairs.tsv").examples
    texts = []
    for row in pairs:
        texts += row.texts
    words = read_word_vectors(files / "vectors.txt", texts)
    reader = WordMean(words, words.coverage(texts))
    cosines = []
    for row in pairs:
        first, second = reader.encode(row.texts)[0].double().numpy()
        cosines.append(first @ second / np.sqrt((first @ first) * (second @ second)))
    expected = spearmanr(cosines, [row.label for row in pairs]).statistic
    of_set = record["sets"]["pairs"]
    assert of_set["vectors"]["mean"]["all"]["spearman"] == pytest.approx(expected, abs=1e-6)
    assert list(of_set["vectors"]) == ["mean", "mean, whitened"]
    assert of_set["left_out"]["WK"] == "a file of word vectors has no layers"

    # The other kinds of files.
    labelled = record["pairs"]["labelled"]
    assert labelled["accuracy"] == labelled["average_precision"] == 1
    assert record["word_vectors"]["without"] == 1
    assert record["ranking"]["ranked"]["MAP"] == 1
    assert record["senteval"]["MR"]["accuracy"] > 0.9
    assert record["transfer"]["films"]["rows"] == 40
    assert record["max_length"] is None and record["machine"]["device"] == "cpu"
    printed = capsys.readouterr().out
    assert "whose vector is zero: 1, the first is 'zzz'" in printed
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Layer by pooling" not in page and "Map of pairs" in page and "Word vectors" in page


def test_vectors_of_zeros_have_a_place_on_the_map():
    points = project(np.concatenate([np.zeros((2, 4)), np.eye(4)]))
    assert np.isfinite(points).all()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pooling", "cls"], "--pooling needs an encoder"),
        (["--layers"], "--layers needs an encoder"),
        (["--report", "r.html", "--before", "minbert-mini"], "--before needs an encoder"),
        (["--precision", "bf16"], "--precision needs an encoder"),
        (["--device", "cuda"], "--device needs an encoder"),
        (["--max-length", "64"], "--max-length needs an encoder"),
        (["--batch-size", "8"], "--batch-size needs an encoder"),
    ],
)
def test_flags_of_encoders_are_refused(flags, message, files, capsys):
    assert main([str(files / "vectors.txt"), "--sets", str(files / "pairs.tsv"), *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_misspelt_name_is_looked_for_on_no_hub(files, capsys):
    assert main(["golve.txt", "--sets", str(files / "pairs.tsv")]) == 2
    assert "golve.txt: there is no such file" in capsys.readouterr().err
