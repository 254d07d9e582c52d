"""python -m tools.tables: the tables of the documents are those of the records."""

from __future__ import annotations

import pytest

from minbert.training.code_version import ROOT
from tools.tables import __main__ as pages
from tools.tables.__main__ import find_changes, with_tables
from tools.tables.answers import all_tables

BEGIN = "<!-- table {}: begin, written by python -m tools.tables -->\n"
END = "<!-- table {}: end -->"


def page_with(name: str, content: str) -> str:
    return f"# Title\n\n{BEGIN.format(name)}{content}\n{END.format(name)}\n\nText.\n"


def test_a_table_is_written_between_its_markers():
    tables = {"some": lambda: "| a |\n|---|\n| 1 |"}
    text = with_tables(page_with("some", "| a |\n|---|\n| 2 |"), tables)
    assert text == page_with("some", "| a |\n|---|\n| 1 |")
    assert with_tables(text, tables) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (page_with("other", ""), "no table is called other; there are some"),
        (BEGIN.format("some"), "only one of its two markers"),
        (END.format("some"), "only one of its two markers"),
        (BEGIN.format("some").replace("written", "made") + END.format("some"), "are changed"),
    ],
)
def test_wrong_markers_are_named(text, words):
    with pytest.raises(ValueError, match=words):
        with_tables(text, {"some": lambda: ""})


def test_a_number_that_was_edited_by_hand_is_noticed(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(page_with("some", "| 1 |"))
    (tmp_path / "docs" / "page.md").write_text(page_with("some", "| 2 |"))
    tables = {"some": lambda: "| 1 |"}
    assert list(find_changes(tmp_path, tables)) == [tmp_path / "docs" / "page.md"]

    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "all_tables", lambda: tables)
    assert pages.main(["--check"]) == 1
    assert "docs/page.md: a table disagrees with the records" in capsys.readouterr().out
    assert pages.main([]) == 0
    assert pages.main(["--check"]) == 0
    assert (tmp_path / "docs" / "page.md").read_text() == page_with("some", "| 1 |")


def test_the_documents_agree_with_the_records():
    changed = [str(page.relative_to(ROOT)) for page in find_changes(ROOT, all_tables())]
    assert not changed, f"{changed}: run python -m tools.tables"
