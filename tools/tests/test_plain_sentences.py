"""tools/sample/plain_sentences.py: sentences of plain text for a distillation."""

from __future__ import annotations

from random import Random

from tools.sample.held_out import HeldOut
from tools.sample.plain_sentences import draw, main, split_sentences


def test_paragraphs_become_sentences_of_some_words():
    paragraphs = ['The dog sleeps. "It is old," he said! Why? A cat came in at 3.5 p.m. today.\n']
    assert split_sentences(paragraphs, 2, 6) == ["The dog sleeps.", '"It is old," he said!']
    assert split_sentences(paragraphs, 1, 1) == ["Why?"]


def test_no_sentence_is_drawn_twice_or_held_out():
    held_out = HeldOut(["The old dog sleeps in the garden."])
    sentences = [
        "the OLD dog sleeps in the garden",
        "He says that the old dog sleeps in the garden.",
        "A cat came in.",
        "a cat came in",
        "It rains again.",
    ]
    taken: set[str] = set()
    drawn = draw(sentences, 9, held_out, taken, Random(0))
    assert sorted(text.lower().rstrip(".") for text in drawn) == ["a cat came in", "it rains again"]
    assert draw(sentences, 9, held_out, taken, Random(1)) == [], "all are taken"
    assert len(draw(sentences, 1, held_out, set(), Random(0))) == 1


def test_the_command_writes_a_line_for_each_sentence(sample_data, tmp_path, capsys):
    corpus = tmp_path / "text.txt"
    corpus.write_text("The dog sleeps here. The cat is awake now.\nIt rains a lot.\n", "utf-8")
    out = tmp_path / "sentences.txt"
    flags = ["--corpus", str(corpus), "--course", str(sample_data), "--out", str(out)]
    assert main(flags) == 0
    assert sorted(out.read_text("utf-8").splitlines()) == [
        "It rains a lot.",
        "The cat is awake now.",
        "The dog sleeps here.",
    ]
    assert f"{corpus}: 3 sentences, 3 drawn" in capsys.readouterr().out


def test_another_file_is_not_replaced(sample_data, tmp_path, capsys):
    corpus = tmp_path / "text.txt"
    corpus.write_text("The dog sleeps here.\n", "utf-8")
    mine = tmp_path / "mine.txt"
    mine.write_text("mine\n", "utf-8")
    flags = ["--corpus", str(corpus), "--course", str(sample_data), "--out", str(mine)]
    assert main(flags) == 2 and mine.read_text("utf-8") == "mine\n"
    assert "pass --overwrite to replace it" in capsys.readouterr().err
    assert main([*flags, "--overwrite"]) == 0
    assert mine.read_text("utf-8") == "The dog sleeps here.\n"


def test_the_course_s_files_are_never_replaced(sample_data, tmp_path, capsys):
    corpus = tmp_path / "text.txt"
    corpus.write_text("The dog sleeps here.\n", "utf-8")
    flags = ["--corpus", str(corpus), "--course", str(sample_data), "--overwrite"]
    assert main([*flags, "--out", str(sample_data / "sts-dev.csv")]) == 2
    assert "sts-dev.csv: it is an input already" in capsys.readouterr().err
