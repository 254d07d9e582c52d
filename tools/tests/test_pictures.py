"""tools/pictures: the pictures of the documents."""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

from multitask.surgery import pcgrad
from tools.pictures.__main__ import FOLDER, PICTURES
from tools.pictures.canvas import STYLES, write_picture
from tools.pictures.multitask import (
    BATCHES,
    FIRST,
    SECOND,
    add,
    sampler_rows,
    without_conflict,
)
from tools.pictures.overview import attention_of_sentence

ROOT = Path(__file__).resolve().parents[2]
NAMES = list(PICTURES)


@pytest.fixture(scope="module", params=NAMES)
def drawn(request, tmp_path_factory):
    """The name of a picture and its two files, drawn anew."""
    folder = tmp_path_factory.mktemp("pictures")
    return request.param, write_picture(request.param, PICTURES[request.param], folder)


def test_the_attention_is_that_of_the_sentence():
    attention = attention_of_sentence()
    assert attention.tokens[:3] == ["[CLS]", "a", "lovely"]
    assert attention.tokens[-1] == "[SEP]"
    num_tokens = len(attention.tokens)
    assert attention.weights.shape == (num_tokens, num_tokens)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1, rtol=1e-5)


def test_both_versions_differ_in_their_colours_only(drawn):
    _, (light, dark) = drawn
    content = light.read_text()
    assert STYLES["light"].text in content
    assert STYLES["dark"].text in dark.read_text()
    assert content.count("<path") == dark.read_text().count("<path")
    # The page shows through.
    assert "fill: #ffffff" not in content


def test_the_repository_holds_the_picture_as_it_is_drawn(drawn):
    _, paths = drawn
    advice = "Run python -m tools.pictures."
    for path in paths:
        stored = FOLDER / path.name
        assert stored.is_file(), f"docs/pictures/{path.name} is missing. {advice}"
        content = stored.read_text()
        if f"Matplotlib v{matplotlib.__version__}," not in content:
            pytest.skip("another version of matplotlib drew the file, and may place a letter apart")
        assert content == path.read_text(), (
            f"docs/pictures/{path.name} differs from the code that draws it. {advice}"
        )


@pytest.mark.parametrize("style", STYLES)
def test_a_document_shows_each_picture_in_both_styles(style):
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in documents)
    missing = [name for name in NAMES if f"pictures/{name}-{style}.svg" not in text]
    assert not missing, f"no document shows {', '.join(missing)}"


def test_no_picture_is_left_over():
    expected = {f"{name}-{style}.svg" for name, style in itertools.product(NAMES, STYLES)}
    assert {path.name for path in FOLDER.iterdir()} == expected


def test_the_projected_gradients_are_those_of_pcgrad():
    first = without_conflict(FIRST, SECOND)
    second = without_conflict(SECOND, FIRST)
    expected = pcgrad(torch.tensor([FIRST, SECOND]))
    torch.testing.assert_close(torch.tensor(add(first, second)), expected)


def test_each_sampler_draws_all_tasks():
    for row in sampler_rows():
        tasks = set()
        for epoch in row.epochs:
            for step in epoch:
                tasks |= {task for task, _ in step}
        assert tasks == set(BATCHES), f"{row.name} never draws a task: choose another SEED"
