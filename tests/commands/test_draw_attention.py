"""`python -m minbert.draw_attention`: the picture that it writes, and what it refuses."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from minbert.draw_attention import main

TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module", autouse=True)
def _fast():
    """No test here cuts the power."""


def words_of(path) -> list[str]:
    """The texts of an SVG file."""
    return [element.text for element in ElementTree.parse(path).getroot().iter(TEXT)]


def test_the_picture_of_a_head(tiny_model, tmp_path, capsys):
    out = tmp_path / "new" / "picture.svg"
    flags = ["--model", str(tiny_model), "--layer", "1", "--head", "0", "--out", str(out)]
    assert main(["c-d", "--text-pair", "b", *flags]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    words = words_of(out)
    # Each token stands beside a row and above a column.
    for token in ("c", "-", "d", "b"):
        assert words.count(token) == 2
    assert words.count("[CLS]") == 2 and words.count("[SEP]") == 4
    assert "layer 1, head 0" in words

    first = out.read_bytes()
    assert main(["c-d", "--text-pair", "b", *flags]) == 0
    assert out.read_bytes() == first


def test_all_heads_as_png(tiny_model, tmp_path):
    out = tmp_path / "picture.png"
    assert main(["a b", "--model", str(tiny_model), "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([" "], "TEXT is empty"),
        (["a", "--head", "1"], "--head 1 has no meaning without --layer"),
        (["a", "--layer", "2"], "layer is 2; this model has the layers 0 to 1"),
        (["a", "--layer", "0", "--head", "2"], "head is 2; this model has the heads 0 to 1"),
        (["a", "--out", "a.jpg"], "must end in one of .svg, .png, .pdf"),
        (["a " * 127], "the text has 129 tokens"),
        (["a", "--model", "nowhere/here/there"], "nowhere"),
    ],
)
def test_bad_input_is_refused(tiny_model, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    model = [] if "--model" in arguments else ["--model", str(tiny_model)]
    assert main([*arguments, *model]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
