"""contrastive/sentences.py: the text that each method reads, and files that cannot be used."""

import pytest
import torch

from contrastive.sentences import (
    POSITIVE_ABOVE,
    EncodedGroups,
    labelled_pairs,
    read_triplets,
    tension_sentences,
    unique_sentences,
)
from data.examples import Example
from minbert import BertTokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


def texts(examples) -> list[str]:
    return [example.sentence_1 for example in examples]


# --- sentences ------------------------------------------------------------------------------------


def test_sentences_count_once(tokenizer):
    examples = [
        Example("1", "a doctor is helping", "the girl", 1.0),
        Example("2", "The GIRL", None, 0.0),
        Example("3", "a   doctor is helping", "a doctor is", 2.0),
    ]
    unique = unique_sentences(examples, tokenizer, 32)
    assert texts(unique) == ["a doctor is helping", "the girl", "a doctor is"]
    assert [example.id for example in unique] == ["sentence-0", "sentence-1", "sentence-2"]
    assert all(example.sentence_2 is None and example.label is None for example in unique)

    # [CLS] a doctor is [SEP]: the difference is cut off.
    cut = unique_sentences(examples, tokenizer, 5)
    assert texts(cut) == ["a doctor is helping", "the girl"]


def test_sentences_cut_alike_count_once(tokenizer):
    examples = [
        Example("1", "a doctor is helping", None, None),
        Example("2", "a doctor is a man", None, None),
    ]
    assert len(unique_sentences(examples, tokenizer, 5)) == 1
    assert len(unique_sentences(examples, tokenizer, 6)) == 2


# --- labelled pairs -------------------------------------------------------------------------------


def test_labelled_pairs():
    para = [Example("a", "x", "y", 1.0), Example("b", "x", "z", 0.0)]
    sts = [Example("a", "u", "v", 3.0), Example("c", "u", "w", 3.2)]
    pairs = labelled_pairs(para, sts, keeps_negatives=True)
    labels = {pair.id: pair.label for pair in pairs}
    assert labels == {"para-a": 1.0, "para-b": 0.0, "sts-a": 0.6, "sts-c": 0.64}
    assert list(labels) == ["para-a", "para-b", "sts-a", "sts-c"]
    positives = labelled_pairs(para, sts, keeps_negatives=False)
    assert [pair.id for pair in positives] == ["para-a", "sts-c"]


def test_the_same_border_in_a_tensor():
    """A score of 3 is .6 in double and in float32. Neither is above POSITIVE_ABOVE."""
    assert POSITIVE_ABOVE == 0.6
    assert not (torch.tensor([3.0 / 5], dtype=torch.float32) > POSITIVE_ABOVE).any()


# --- triplets -------------------------------------------------------------------------------------


def test_triplets(tokenizer, tmp_path):
    path = tmp_path / "nli.tsv"
    rows = [
        "source\tpremise\tentailment\tcontradiction",
        'x\tA man "sits"\ta man\tthe girl',
        "",  # blank lines are no rows
        "y\tthe hotel is good\ta\tb",
        "",
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    triplets = read_triplets(path)
    assert triplets == [('A man "sits"', "a man", "the girl"), ("the hotel is good", "a", "b")]

    batch = EncodedGroups(triplets, tokenizer, 32).batch([1, 0])
    assert batch.ids == ("triplet-1", "triplet-0")
    assert batch.input_ids.shape[0] == 6
    assert batch.labels is None
    first, last = tokenizer.encode([triplets[1].premise, triplets[0].contradiction])[0]
    assert batch.input_ids[0][: len(first)].tolist() == first
    assert batch.input_ids[5][: len(last)].tolist() == last


def test_triplets_as_simcse_has_them(tmp_path):
    path = tmp_path / "nli_for_simcse.csv"
    path.write_text(
        '\ufeffsent0,sent1,hard_neg\n"One, two",a man,"the ""girl"""\nx,y,z\n', encoding="utf-8"
    )
    assert read_triplets(path) == [("One, two", "a man", 'the "girl"'), ("x", "y", "z")]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_triplets_of_either_names_with_any_separator(tmp_path, separator):
    path = tmp_path / "nli.csv"
    text = "Entailment,PREMISE,contradiction\na,b,c\n"
    path.write_bytes(text.replace(",", separator).encode("utf-16"))
    assert read_triplets(path) == [("b", "a", "c")]


def test_a_very_long_text_of_a_triplet(tmp_path):
    path = tmp_path / "nli.csv"
    text = "x " * 70_000 + "x"
    path.write_text(f"sent0,sent1,hard_neg\na cat,{text},a dog\n", encoding="utf-8")
    assert read_triplets(path) == [("a cat", text, "a dog")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty; expected are a header and at least one row"),
        ("premise\tentailment\tcontradiction\n", "a header and no rows; expected is at least one"),
        (
            "a\tb\tc\nd\te\tf\n",
            "line 1: the header has no column premise, entailment, contradiction; found are: a, b, "
            "c. A file of triplets has the columns premise, entailment and contradiction, or sent0",
        ),
        (
            "premise\tentailment\tcontradiction\na\tb\tc\na\tb\n",
            "line 3: the row has 2 fields; the header names 3",
        ),
        (
            "premise\tentailment\tcontradiction\na\t \tc\n",
            "line 2: premise, entailment, contradiction are not all there",
        ),
        (
            'sent0,sent1,hard_neg\n"a\nb",c,d\na,,b\n',
            "line 4: sent0, sent1, hard_neg are not all there",
        ),
        ('sent0,sent1,hard_neg\n"a,b,c\n', "line 2: not readable as comma-separated text"),
    ],
)
def test_triplets_that_cannot_be_used(tmp_path, content, words):
    (tmp_path / "nli.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read_triplets(tmp_path / "nli.tsv")


def test_triplets_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="absent.tsv: there is no such file. Check the path"):
        read_triplets(tmp_path / "absent.tsv")


# --- the text of contrastive tension --------------------------------------------------------------

TRAIN = [
    Example("1", "a doctor is helping", "the girl", 1.0),
    Example("2", "The girl", "a man", 0.0),
]


def test_contrastive_tension_reads_the_training_sentences(tokenizer):
    sentences = tension_sentences("none", TRAIN, tokenizer, 32, 0)
    assert texts(sentences) == ["a doctor is helping", "the girl", "a man"]


def test_contrastive_tension_reads_a_file(tokenizer, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("A line.\n\nA man\na MAN\n  Another line.  \n", encoding="utf-8")
    sentences = tension_sentences(str(path), TRAIN, tokenizer, 32, 0)
    assert texts(sentences) == ["A line.", "A man", "Another line."]


def test_contrastive_tension_reads_random_words(tokenizer):
    draws = [tension_sentences("random-words", TRAIN, tokenizer, 32, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
    words = [text.split() for text in texts(draws[0])]
    assert [len(row) for row in words] == [4, 2, 2], "as long as the training sentences"
    assert all(word in tokenizer.vocabulary for row in words for word in row)


@pytest.mark.parametrize(("content", "number"), [("A man\na man\n", 1), ("\n \n", 0)])
def test_fewer_than_two_sentences(tokenizer, tmp_path, content, number):
    path = tmp_path / "one.txt"
    path.write_text(content, encoding="utf-8")
    message = f"one.txt: {number} different sentences; contrastive tension tells sentences apart"
    with pytest.raises(ValueError, match=message):
        tension_sentences(str(path), [], tokenizer, 32, 0)


def test_text_that_cannot_be_read(tokenizer, tmp_path):
    message = "absent.txt: No such file or directory. "
    with pytest.raises(ValueError, match=message):
        tension_sentences(str(tmp_path / "absent.txt"), [], tokenizer, 32, 0)
    (tmp_path / "latin.txt").write_bytes("A man\ncaf\xe9\n".encode("latin1"))
    with pytest.raises(ValueError, match="latin.txt, line 2: not UTF-8"):
        tension_sentences(str(tmp_path / "latin.txt"), [], tokenizer, 32, 0)
