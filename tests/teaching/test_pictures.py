"""teaching/pictures.py: the picture of the README."""

from __future__ import annotations

import numpy as np

from teaching.pictures import FOLDER, STYLES, attention_of_sentence, write_pictures


def test_the_attention_is_that_of_the_sentence():
    attention = attention_of_sentence()
    assert attention.tokens[:3] == ["[CLS]", "a", "lovely"]
    assert attention.tokens[-1] == "[SEP]"
    num_tokens = len(attention.tokens)
    assert attention.weights.shape == (num_tokens, num_tokens)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1, rtol=1e-5)


def test_both_versions_differ_in_their_colours_only(tmp_path):
    light, dark = write_pictures(tmp_path)
    colours = STYLES["light"]
    content = light.read_text()
    assert colours.text in content
    assert colours.accent in content
    assert STYLES["dark"].text in dark.read_text()
    assert content.count("<path") == dark.read_text().count("<path")
    # The page shows through.
    assert "fill: #ffffff" not in content


def test_the_same_picture_is_the_same_file(tmp_path):
    first = [path.read_bytes() for path in write_pictures(tmp_path / "first")]
    second = [path.read_bytes() for path in write_pictures(tmp_path / "second")]
    assert first == second


def test_the_pictures_are_in_the_repository():
    for name in STYLES:
        assert (FOLDER / f"overview-{name}.svg").stat().st_size > 1000
