"""data/training_texts.py: what a file of text holds, by its columns, and what is refused."""

import pytest

from data.training_texts import read_training_text, read_triplets, triplets_in_pairs

FILES = {
    "plain.txt": ("A dog ran, fast.\n\nThe cat sat\n", "sentences", 2, None),
    "sentences.csv": ("sentence,label\na dog,1\na cat,0\n", "sentences", 2, None),
    "scores.tsv": ("sentence1\tsentence2\tscore\na\tb\t5\nc\td\t2.5\n", "pairs", 2, [1.0, 0.5]),
    "labels.tsv": ("sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n", "pairs", 2, [1.0, 0.0]),
    "quora.csv": ("question1,question2,is_duplicate\na,b,0\nc,d,1\n", "pairs", 2, [0.0, 1.0]),
    "no-score.tsv": ("sentence1\tsentence2\tscore\na\tb\t\nc\td\t1\n", "pairs", 1, [1.0]),
    "wordings.tsv": ("a dog ran\tthe dog was running\nit rains\train falls\n", "pairs", 2, None),
    "threes.tsv": (
        "a dog ran\tit ran\tno dog\nit is\tit was\tit is not\n",
        "triplets",
        2,
        None,
    ),
    "answers.csv": ("qtext,label,atext\nwho ?,1,me\nwho ?,0,it rains\n", "pairs", 2, [1.0, 0.0]),
    "triplets.csv": ("sent0,sent1,hard_neg\na,b,c\n", "triplets", 1, None),
    "sick.tsv": (
        "score\tsentence1\tsentence2\tentailment_label\n4\ta\tb\tNEUTRAL\n",
        "pairs",
        1,
        [0.8],
    ),
}


def write(folder, name, content):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_the_columns_say_what_a_file_holds(name, tmp_path):
    content, kind, count, labels = FILES[name]
    text = read_training_text(write(tmp_path, name, content))
    assert (text.kind, len(text.rows), text.labels) == (kind, count, labels)


@pytest.mark.parametrize(
    ("row", "header", "kind"),
    [
        # The SMS Spam Collection, and STS: these would be pairs with a label, and triplets.
        ("ham\tthe text of {n}", "label\ttext", "sentences"),
        ("the text {n}\tother words {n}\t{n}.25", "sentence1\tsentence2\tscore", "pairs"),
        ("sick\tMSRpar\t{n}\tone text {n}\tanother {n}", "a\tb\tscore\ttext1\ttext2", "pairs"),
    ],
)
def test_labels_and_scores_without_a_header_are_no_texts(tmp_path, row, header, kind):
    lines = [row.format(n=n % 5) for n in range(20)]
    path = write(tmp_path, "rows.tsv", "\n".join(lines))
    with pytest.raises(ValueError, match="Write a line with the names of the columns above it"):
        read_training_text(path)
    # The advice works, and no row is lost.
    text = read_training_text(write(tmp_path, "rows.tsv", "\n".join([header, *lines])))
    assert (text.kind, len(text.rows)) == (kind, 20)


def test_a_premise_may_come_many_times_in_lines_without_a_header(tmp_path):
    lines = [f"a man eats\tone text {n}\tno text {n}" for n in range(9)]
    assert read_training_text(write(tmp_path, "rows.tsv", "\n".join(lines))).kind == "triplets"


SNLI = [
    ("entailment", "a man eats", "someone eats"),
    ("neutral", "a man eats", "a man is hungry"),
    ("contradiction", "a man eats", "nobody eats"),
    ("contradiction", "a man eats", "a man sleeps"),
    ("-", "a man eats", "a cook eats"),
    ("entailment", "it rains", "water falls"),
]


@pytest.mark.parametrize(
    "header", ["gold_label\tsentence1\tsentence2", "label\tpremise\thypothesis"]
)
def test_triplets_in_labelled_pairs(header, tmp_path):
    """SNLI's own columns, and those of others. A premise without both labels gives no triplet."""
    content = "\n".join([header, *("\t".join(row) for row in SNLI)])
    path = write(tmp_path, "snli.txt", content + "\n")
    expected = [("a man eats", "someone eats", "nobody eats")]
    assert read_training_text(path).rows == read_triplets(path).rows == expected
    as_sentences = read_training_text(path, is_for_sentences=True)
    assert as_sentences.rows == [row[1:] for row in SNLI]


def test_labelled_negatives_as_hard_negatives(tmp_path):
    """Both sides of a pair count. A text with pairs of one label only gives no triplet."""
    content = "question1,question2,is_duplicate\na,b,1\nc,a,0\nd,e,1\nf,b,0\nf,g,0\n"
    text = read_training_text(write(tmp_path, "quora.csv", content))
    assert triplets_in_pairs(text) == [("a", "b", "c"), ("b", "a", "f")]


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11])
def test_the_rows_of_a_limit_are_evenly_spaced(limit, tmp_path):
    """Of plain text and of a table alike."""
    lines = [f"line {number} is here" for number in range(10)]
    plain = read_training_text(write(tmp_path, "a.txt", "\n".join(lines)), limit)
    table = read_training_text(write(tmp_path, "a.csv", "\n".join(["sentence", *lines])), limit)
    expected = [(lines[place * 10 // min(limit, 10)],) for place in range(min(limit, 10))]
    assert plain.rows == table.rows == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "first,second\nx,y\n", "none of them says what the file holds"),
        ("a.tsv", "first\tsecond\nx y\tz\n", "none of them says what the file holds"),
        ("a.tsv", "x y\tz w\na b\tc\td\n", "not readable|3 texts, and the first line has 2"),
        ("a.tsv", "sentence1\tsentence2\tscore\na\tb\t7\n", "holds 7 to 7; expected are labels"),
        ("a.tsv", "sentence1\tsentence2\tscore\na\t\t1\n", "line 2: sentence1, sentence2 are not"),
        ("a.tsv", "sentence1\tsentence2\tlabel\na\tb\t2\n", "0 to 1. Name the column score if"),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\tneutral\n", "no premise has both"),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\t0\nc\td\t2\n", "holds 0, 2; .* are the words"),
        ("a.txt", "\n\n", "there is no text in it"),
        ("absent.txt", None, "there is no such file"),
    ],
)
def test_files_that_cannot_be_used(name, content, words, tmp_path):
    path = tmp_path / name
    if content is not None:
        write(tmp_path, name, content)
    with pytest.raises(ValueError, match=words):
        read_training_text(path)
