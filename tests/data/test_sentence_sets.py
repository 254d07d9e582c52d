"""data/sentence_sets.py: plain files and the course's, and the messages about unreadable ones."""

from pathlib import Path

import pytest

from data.sentence_sets import evenly_cut, read_labelled, read_pairs
from data.tables.columns import ColumnNames


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "set.tsv"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


# --- what is read ---------------------------------------------------------------------------------


def rows_of(sentence_set):
    """The sentences and labels of a set."""
    rows = []
    for example in sentence_set.examples:
        rows.append((example.sentence_1, example.sentence_2, example.label))
    return rows


def test_a_plain_file_by_hand(tmp_path):
    """Columns come in any order. A quote that is never closed is a character like any other. U+2028
    does not end a line."""
    path = write(
        tmp_path,
        'sentence2\tsubset\tscore\tsentence1\r\n"Then\tnews\t4.500\the said.\r\n\r\n'
        "b\u2028c\tforum\t0\t a \n",
    )
    pairs = read_pairs(path)
    assert rows_of(pairs) == [("he said.", '"Then', 4.5), ("a", "b\u2028c", 0.0)]
    assert pairs.subsets == ("news", "forum")
    assert pairs.classes == ()
    assert pairs.summary == f"{path}: 2 rows read"


def test_a_cut_is_evenly_spaced_and_keeps_each_row_whole(tmp_path):
    rows = [f"{number % 3}\tfirst {number}\tsecond {number}\tpart {number}" for number in range(10)]
    pairs = read_pairs(write(tmp_path, "\n".join(["score\tsentence1\tsentence2\tsubset", *rows])))
    cut = evenly_cut(pairs, 4)
    expected = [(f"first {n}", f"second {n}", float(n % 3)) for n in (0, 2, 5, 7)]
    assert rows_of(cut) == expected
    assert cut.subsets == ("part 0", "part 2", "part 5", "part 7")
    assert "4 of these are measured" in cut.summary
    assert evenly_cut(pairs, 0) is pairs
    assert evenly_cut(pairs, 10) is pairs
    with pytest.raises(ValueError, match="all labels are 0"):
        evenly_cut(pairs, 1)


def test_without_subsets_and_with_a_byte_order_mark(tmp_path):
    text = "\ufeffscore\tsentence1\tsentence2\tentailment\n1\ta\tb\tNO\n5\ta\ta\tYES"
    pairs = read_pairs(write(tmp_path, text))
    assert pairs.subsets is None
    assert rows_of(pairs) == [("a", "b", 1.0), ("a", "a", 5.0)]


def test_sick_as_it_is_published(tmp_path):
    text = (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "1\ta\tb\t4.5\tNEUTRAL\n2\tc\td\t1\tYES\n"
    )
    pairs = read_pairs(write(tmp_path, text))
    assert rows_of(pairs) == [("a", "b", 4.5), ("c", "d", 1.0)]


def test_the_course_s_files_are_quoted(tmp_path, controlled_data):
    path = write(
        tmp_path,
        '\tid\tsentence1\tsentence2\tsimilarity\n0\tx\t"He said ""no"" ."\tb\t2.5\n1\ty\ta\tb\t5\n',
    )
    assert read_pairs(path).examples[0].sentence_1 == 'He said "no" .'
    assert len(read_pairs(controlled_data / "sts-dev.csv").examples) == 500


def test_classes_are_numbered_in_the_order_of_their_names(tmp_path):
    path = write(tmp_path, 'label\tsentence\nspam\ta\nham\tb\nspam\t"c\nham\td\n')
    labelled = read_labelled(path, 2)
    assert labelled.classes == ("ham", "spam")
    assert rows_of(labelled) == [("a", None, 1), ("b", None, 0), ('"c', None, 1), ("d", None, 0)]


def test_the_course_s_sentiment_file(controlled_data):
    labelled = read_labelled(controlled_data / "ids-sst-dev.csv", 10)
    assert labelled.classes == ("0", "1", "2", "3", "4")
    assert len(labelled.examples) == 500
    assert labelled.examples[0].label == 1
    assert "0 dropped" in labelled.summary


def test_rows_without_a_score_are_left_out_and_counted(tmp_path):
    """As SentEval does: many pairs of STS12 to STS16 were never annotated."""
    path = write(tmp_path, "score\tsentence1\tsentence2\n5\ta\tb\n\tc\td\n1\te\tf\n \tg\th\n")
    pairs = read_pairs(path)
    assert rows_of(pairs) == [("a", "b", 5.0), ("e", "f", 1.0)]
    assert [example.id for example in pairs.examples] == ["line 2", "line 4"]
    assert pairs.summary == f"{path}: 4 rows read, 2 without a score left out"

    path = write(tmp_path, "label\tsentence\nham\ta\n\tb\nspam\tc\n")
    assert read_labelled(path, 1).summary == f"{path}: 3 rows read, 1 without a label left out"


def test_scores_with_a_decimal_comma(tmp_path):
    path = write(tmp_path, "score;sentence1;sentence2\n4,5;a;b\n1,125;c;d\n0;e;f\n")
    assert [row[2] for row in rows_of(read_pairs(path))] == [4.5, 1.125, 0.0]


def test_thousands_with_dots_are_no_scores(tmp_path):
    """Read as a fraction, 6.124 would count below 331."""
    path = write(tmp_path, "score;sentence1;sentence2\n540;a;b\n6.124;c;d\n331;e;f\n")
    with pytest.raises(ValueError, match="dots stand before three digits.*: 6124."):
        read_pairs(path)


def test_a_thousand_or_a_decimal_is_not_guessed(tmp_path):
    path = write(tmp_path, "score\tsentence1\tsentence2\n1,125\ta\tb\n0\te\tf\n")
    with pytest.raises(ValueError, match="'score': commas stand before.*'1,125'.* write 1.125"):
        read_pairs(path)


def test_columns_of_other_names(tmp_path):
    path = write(tmp_path, "Nummer,Satz A,Satz B,Wert\n1,a,b,0.5\n2,c,d,1\n")
    names = ColumnNames(text="Satz A", text_pair="Satz B", label="Wert")
    assert rows_of(read_pairs(path, names)) == [("a", "b", 0.5), ("c", "d", 1.0)]

    path = write(tmp_path, "body,team\na,x\nb,y\n")
    found = read_labelled(path, 1, ColumnNames(text="body", label="team"))
    assert found.classes == ("x", "y")


def test_how_a_file_was_read_is_said(tmp_path):
    text = "score;sentence1;sentence2\n5;Das Café;b\n1;c;d\n"
    pairs = read_pairs(write(tmp_path, text.encode("cp1252")))
    assert pairs.summary.endswith(
        "; read as Windows-1252, because it is not UTF-8; it holds 'Café'"
    )


# --- what is refused ------------------------------------------------------------------------------

HEADER = "score\tsentence1\tsentence2\tsubset\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file is empty; expected are a header and at least one row"),
        (HEADER, "the file has a header and no rows"),
        (HEADER + "\ta\tb\tx\n", "the file has no row with a label; expected are a header and"),
        (
            "id\tsentence1\n1\ta\n",
            "line 1: the header has no column score, sentence2; found are: id, sentence1. Expected "
            "are score, sentence1, sentence2 (or similarity for score, in the course's files). Fix "
            "the header, pass another file, or name the columns with --label and --text and --te",
        ),
        (
            HEADER + "1\ta\tb\tx\n2\ta\tb\n",
            "line 3: the row has 3 fields; the header names 4. Fix or remove the row",
        ),
        (
            HEADER + "1\ta\tb\tx\n\n2\ta\t \tx\n",
            "line 4: sentence2 is empty; each row needs a value there",
        ),
        (HEADER + "1\ta\tb\t\n2\ta\tb\tx\n", "line 2: subset is empty"),
        (HEADER + "1\ta\tb\tx\nhigh\ta\tb\tx\n", "line 3: score 'high' is not a number"),
        (HEADER + "nan\ta\tb\tx\n", "line 2: score 'nan' is not a number"),
        (HEADER + "3\ta\tb\tx\n3\tc\td\tx\n", "all labels are 3; expected are different ones"),
        (
            HEADER.encode() + "1\tä\tb\tx\n".encode() + b"2\t\xff\tb\tx\n",
            "line 3: the row holds bytes that are not UTF-8",
        ),
        (
            "\tid\tsentence1\tsentence2\tsimilarity\n0\tx\ta\tb\t9\n",
            "line 2: label '9' is not allowed; STS labels are",
        ),
    ],
)
def test_pairs_that_cannot_be_read(tmp_path, text, complaint):
    path = write(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "label\tsentence\na\tx\na\ty\n",
            "found is the one class 'a'; expected are two classes at least, each with 2 dif",
        ),
        ("label\tsentence\na\tx\nb\ty\nb\tz\n", "found is 1 sentences of class 'a'"),
        (
            "class\tsentence\na\tx\n",
            "has no column label; found are: class, sentence. Expected are label, sentence (or "
            "sentiment for label",
        ),
        ("label\tsentence\na\t \n", "line 2: sentence is empty"),
    ],
)
def test_classes_that_cannot_be_read(tmp_path, text, complaint):
    with pytest.raises(ValueError) as caught:
        read_labelled(write(tmp_path, text), 2)
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="gone.tsv: there is no such file. Check the path"):
        read_pairs(tmp_path / "gone.tsv")
    with pytest.raises(ValueError, match="cannot be read"):
        read_labelled(tmp_path, 2)


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        (["a", "b", "nan"], "'nan' (2 rows) may stand for a missing label, and is a class here"),
        (["a|b", "a", "b"], "'a|b' (2 rows) seem to be several labels, and each combination is"),
        (["0", "1", "2", "-1"], "'-1' (2 rows) may stand for a missing label"),
        (["a", "b", "c"], ""),
    ],
)
def test_classes_that_may_be_none_are_named(tmp_path, labels, warning):
    path = tmp_path / "rows.csv"
    rows = [f"text {number},{label}" for number, label in enumerate(labels * 2)]
    path.write_text("\n".join(["text,label", *rows]))
    summary = read_labelled(path, 2).summary
    assert warning in summary and ("warning" in summary) == bool(warning)
