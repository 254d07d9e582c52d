"""data/corpus.py: files of plain text -> paragraphs, and the messages about files that are none."""

import gzip
from pathlib import Path

import pytest

from data.corpus import MAX_CHARACTERS, check_files, read_lines


def test_lines_of_several_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n  two  \n\t\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("drei, vier: fünf", encoding="utf-8")
    paths = [tmp_path / "b.txt", tmp_path / "a.txt"]
    assert list(read_lines(paths)) == ["drei, vier: fünf", "one", "two"]


@pytest.mark.parametrize(
    ("name", "problem"), [("absent.txt", "No such file"), ("", "Is a directory")]
)
def test_paths_that_are_no_file(tmp_path, name, problem):
    with pytest.raises(ValueError, match=f"{name}: {problem}.*Give a file of plain text in UTF-8"):
        check_files([tmp_path / name])
    with pytest.raises(ValueError, match="null: not a file that can be read more than once"):
        check_files([Path("/dev/null")])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            gzip.compress(b"eins\n"), "the file is compressed; unpack it with gunzip", id="gzip"
        ),
        pytest.param(b"id\ttext\n1\teins\n", "the file is a table; expected is plain", id="tabs"),
        pytest.param(b'{"text": "eins"}\n', "the file is a table; expected is plain", id="JSON"),
    ],
)
def test_files_that_are_no_plain_text(tmp_path, content, problem):
    (tmp_path / "file.txt").write_bytes(content)
    with pytest.raises(ValueError, match=f"file.txt: {problem}"):
        check_files([tmp_path / "file.txt"])


def test_a_file_with_the_name_of_a_table_is_none_of_paragraphs(tmp_path):
    (tmp_path / "texts.csv").write_text("text\neins\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Write its column of texts to a file that ends in .txt"):
        check_files([tmp_path / "texts.csv"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_text_of_other_encodings(tmp_path, encoding):
    """The beginning that is looked at ends inside a character of two units."""
    path = tmp_path / "wide.txt"
    path.write_bytes("eins, fünf\n\U0001f600\n".encode(encoding) * 20_000)
    check_files([path])
    lines = list(read_lines([path]))
    assert lines[:2] == ["eins, fünf", "\U0001f600"]
    assert len(lines) == 40_000


def test_a_file_that_is_given_twice_also_as_a_link(tmp_path):
    (tmp_path / "good.txt").write_text("eins", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "good.txt")
    check_files([tmp_path / "good.txt"])
    with pytest.raises(ValueError, match="link.txt: given twice.*give it once"):
        check_files([tmp_path / "good.txt", tmp_path / "link.txt"])


def test_bytes_that_are_not_utf8_are_named_by_their_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"eins\n" * 5000 + "fünf\n".encode("latin-1") + b"sechs\n")
    with pytest.raises(ValueError, match=r"latin.txt, line 5001: not UTF-8 .*iconv"):
        list(read_lines([tmp_path / "latin.txt"]))
    (tmp_path / "endless.txt").write_bytes(
        b"eins\rzwei\n" + b"drei " * MAX_CHARACTERS + b"f\xfcnf\n"
    )
    with pytest.raises(ValueError, match=r"endless.txt, line 3: not UTF-8"):
        list(read_lines([tmp_path / "endless.txt"]))


def test_an_empty_file_a_byte_order_mark_and_foreign_line_ends(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "windows.txt").write_bytes("\ufeffeins\r\nzwei\r\n".encode())
    assert list(read_lines([tmp_path / "empty.txt", tmp_path / "windows.txt"])) == ["eins", "zwei"]


@pytest.mark.parametrize("between", [" ", "\t", "  ", "\u3000"])
def test_a_line_without_end_comes_in_parts_and_loses_no_word(tmp_path, between):
    # 290,000 characters.
    words = [f"wört{number}" for number in range(30_000)]
    path = tmp_path / "endless.txt"
    path.write_text(between.join(words) + "\nshort\n", encoding="utf-8")
    parts = list(read_lines([path]))
    assert parts[-1] == "short"
    assert " ".join(parts[:-1]).split() == words
    assert len(parts) > 10
    assert max(len(part) for part in parts) <= 2 * MAX_CHARACTERS


def test_a_line_without_blanks_is_cut_at_the_limit(tmp_path):
    path = tmp_path / "unbroken.txt"
    path.write_text("x" * (3 * MAX_CHARACTERS + 5), encoding="utf-8")
    lengths = [len(part) for part in read_lines([path])]
    assert lengths == [MAX_CHARACTERS] * 3 + [5]


def test_a_line_that_just_fits_is_not_cut(tmp_path):
    path = tmp_path / "exact.txt"
    path.write_text("y" * (MAX_CHARACTERS - 1) + "\nz", encoding="utf-8")
    assert [len(part) for part in read_lines([path])] == [MAX_CHARACTERS - 1, 1]
