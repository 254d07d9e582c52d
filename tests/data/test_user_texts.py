"""data/user_texts.py: the texts that a user gives a command."""

import pytest

from data.tables.columns import ColumnNames, Role
from data.user_texts import TEXT, read_texts

ONE = [TEXT]
TWO = [Role("--text", ("sentence1",)), Role("--text-pair", ("sentence2",))]


@pytest.fixture
def read(tmp_path):
    """A function: content, roles, names of columns -> texts, as of a file with this ending."""

    def read_file(content, roles=ONE, suffix=".txt", has_lines=False, skips_empty=False, **names):
        path = tmp_path / f"input{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        names = ColumnNames(**names)
        return read_texts(path, roles, names, has_lines, skips_empty, has_ids=True)

    return read_file


def rows_of(texts):
    return [(row.id, *row.texts) for row in texts.rows]


# --- plain lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"one\ntwo", b"one\ntwo\n", b"one\r\ntwo\r\n", b"one\rtwo\r", b"\xef\xbb\xbfone\ntwo\n"],
)
def test_lines_of_every_system(read, content):
    assert rows_of(read(content)) == [("1", "one"), ("2", "two")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252", "utf-8"])
def test_lines_in_every_encoding(read, encoding):
    texts = read("Ein Café für 5 €\nund so\n".encode(encoding))
    assert rows_of(texts) == [("1", "Ein Café für 5 €"), ("2", "und so")]
    assert bool(texts.notes) == (encoding == "cp1252")


def test_only_newlines_end_a_line(read):
    text = "one\u2028still one\x0bone\x85one\ronce more\ntwo"
    assert [row.texts[0] for row in read(text).rows] == text.split("\n")


def test_pairs_have_a_tab_between_and_no_header(read):
    content = "Is it?\tYes, it is.\nWhere is it?\tHere it is.\n"
    assert rows_of(read(content, TWO))[0] == ("1", "Is it?", "Yes, it is.")


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_is_never_read_as_lines(read):
    content = "id,sentence\nx,One.\ny,Two.\n"
    for suffix in (".txt", ".csv"):
        texts = read(content, suffix=suffix)
        assert rows_of(texts) == [("x", "One."), ("y", "Two.")]
        assert texts.notes[0].endswith("comma-separated UTF-8, 2 rows, text in 'sentence'")
    assert len(read(content, has_lines=True).rows) == 3
    assert rows_of(read("sentence1\tsentence2\na b\tc d\n", TWO)) == [("2", "a b", "c d")]
    assert rows_of(read("q one\tq two\na b\tc d\n", TWO, text="q one", text_pair="q two"))


def test_words_that_may_stand_for_a_missing_value_are_texts_and_noted(read):
    texts = read("id,text\n1,NA\n2,fine\n3,nan\n", suffix=".csv")
    assert [row.texts[0] for row in texts.rows] == ["NA", "fine", "nan"]
    assert texts.notes[1:] == ("2 texts are only a word such as 'NA', and are read as texts",)
    assert len(read("id,text\n1,NA is fine\n", suffix=".csv").notes) == 1


def test_rows_without_a_text_may_be_left_out(read):
    content = "id,text\n1,one\n2, \n3,three\n4,\n"
    texts = read(content, suffix=".csv", skips_empty=True)
    assert rows_of(texts) == [("1", "one"), ("3", "three")]
    assert texts.notes[1:] == ("2 without a text left out, the first: line 3",)
    assert texts.spread(["a", "b"]) == ["a", "", "b", ""]
    with pytest.raises(ValueError, match="holds no row with a text"):
        read("id,text\n1,\n", suffix=".csv", skips_empty=True)
    with pytest.raises(ValueError, match="line 2 is empty"):
        read("one\n\nthree\n", skips_empty=True)
    pairs = read("sentence1,sentence2\na,b\nc,\n,d\n", TWO, suffix=".csv", skips_empty=True)
    assert rows_of(pairs) == [("2", "a", "b")]


def test_values_of_lines_stay_as_they_are(read):
    assert read("one\ntwo\n").spread(["a", "b"]) == ["a", "b"]


def test_a_column_that_is_named_makes_a_table_of_one_column(read):
    """Without the name, its first line would be a text."""
    assert rows_of(read("Satz\nEins.\nZwei.\n", text="Satz")) == [("2", "Eins."), ("3", "Zwei.")]
    assert rows_of(read("Satz;k\nEins.;7\n", text="Satz", id="k")) == [("7", "Eins.")]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("Nachricht\nHallo.\nUnd, du?\n", ["Hallo.", "Und, du?"]),
        # Quotes as in CSV enclose a text.
        ('Nachricht\n"Und, du?"\nHallo.\n', ["Und, du?", "Hallo."]),
        ("nachricht\nHallo.\n\nUnd?\n", ["Hallo.", "Und?"]),
        # A quotation in prose is no quoted field.
        ('Nachricht\n"Nein", sagte er.\n', ['"Nein", sagte er.']),
    ],
)
def test_a_first_line_that_is_the_column_of_the_task_is_a_header(read, content, texts):
    role = [Role("--text", ("Nachricht",))]
    table = read(content, role)
    assert [row.texts[0] for row in table.rows] == texts
    assert any("is the header (--lines reads it as a text)" in note for note in table.notes)
    assert rows_of(read(content, text="Nachricht")) == rows_of(table)
    # As lines, the first one is a text. So it is where another column is expected.
    assert read("Nachricht\nHallo.\n", role, has_lines=True).rows[0].texts == ("Nachricht",)
    assert read("Nachricht\nHallo.\n").rows[0].texts == ("Nachricht",)
    assert len(read("Nachricht\n", role).rows) == 1


@pytest.mark.parametrize(
    ("content", "suffix", "words"),
    [
        ("", ".txt", "holds no lines; expected is one text per line, in UTF-8"),
        ("one\n\nthree\n", ".txt", "line 2 is empty; expected is one text per line, so that row"),
        ("One sentence.\nAnother.\n", ".csv", "the header has no column sentence; found are: One"),
        ("One sentence.\nAnother.\n", ".csv", "or --lines if each line is a text of its own"),
        ("text,sentence\na,b\n", ".csv", "found are: text, sentence. Pass one with --text"),
        ("text,n\na,1\n , 2\n", ".csv", "line 3: 'text' is empty; each row needs a text"),
        ("text,n\na,1\nb,c,2\n", ".csv", "line 3: the row has 3 fields; the header names 2"),
        ("text,n\n", ".csv", "holds a header and no rows"),
    ],
)
def test_what_is_refused(read, content, suffix, words):
    with pytest.raises(ValueError) as caught:
        read(content, suffix=suffix)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "header", ["question1\tquestion2", "text_a\ttext_b", "premise\thypothesis"]
)
def test_a_first_line_that_may_be_a_header_is_not_guessed(read, header):
    content = f"{header}\nIs it?\tYes.\n"
    with pytest.raises(ValueError, match="may be names of columns, or two texts. Name the columns"):
        read(content, TWO)
    assert len(read(content, TWO, has_lines=True).rows) == 2
    first, second = header.split("\t")
    assert len(read(content, TWO, text=first, text_pair=second).rows) == 1


def test_columns_of_ids_do_not_matter_where_no_ids_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,id,text\n1,2,one\n3,4,two\n")
    texts = read_texts(path, ONE, ColumnNames())
    assert rows_of(texts) == [("2", "one"), ("3", "two")]
    with pytest.raises(ValueError, match="2 columns may be 'id'.* Pass one with --id"):
        read_texts(path, ONE, ColumnNames(), has_ids=True)
