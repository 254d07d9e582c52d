"""The Python that the documents print does what they say of it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_snippet(monkeypatch, tmp_path):
    """A function that runs a document's first Python block with a word in it, in the root.

    It returns the names that the block leaves behind. `replaced`: paths in place of words.
    """

    def run(document: str, word: str = "import", **replaced: Path) -> dict:
        text = (ROOT / document).read_text(encoding="utf-8")
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```", text)
        code = next(block for block in blocks if word in block)
        for name, path in replaced.items():
            assert name in code
            code = code.replace(name, str(path))
        (tmp_path / "snippet.py").write_text(code, encoding="utf-8")
        return runpy.run_path(str(tmp_path / "snippet.py"))

    monkeypatch.chdir(ROOT)
    return run


def test_a_run_on_the_first_page(run_snippet, two_runs):
    names = run_snippet("README.md", **{"runs/latest": two_runs[0]})
    assert len(names["classes"]) == 2 and names["probabilities"].shape == (1, 5)
    assert names["similarities"].shape == (1,)


def test_the_encoder_on_the_first_page(run_snippet):
    names = run_snippet("README.md", "BertModel")
    num_tokens = names["batch"].input_ids.size(1)
    assert names["states"].shape == (2, num_tokens, 192)
    assert names["tokens"][:2] == ["[CLS]", "a"] and names["tokens"][-1] == "[PAD]"
    assert names["attention"].shape == (num_tokens, num_tokens)
    assert names["vectors"].shape == (2, 192) and names["similarity"].shape == (2, 2)


def test_the_encoder(run_snippet):
    names = run_snippet("docs/encoder.md")
    assert names["states"].shape == (2, names["batch"].input_ids.size(1), 192)


def test_the_tour(run_snippet, capsys):
    run_snippet("docs/tour.md")
    assert "'charm'" in capsys.readouterr().out


def test_a_finished_run(run_snippet, two_runs):
    names = run_snippet("docs/tasks.md", **{"runs/NAME": two_runs[0]})
    assert names["similarities"].shape == (1,) and -5 < names["similarities"][0] < 10


def test_sentence_vectors(run_snippet):
    names = run_snippet("docs/sentence-vectors.md", "SentenceEncoder")
    assert names["vectors"].shape == (2, 192) and names["cosines"].shape == (2, 2)
    assert names["cosines"].diagonal().allclose(names["cosines"].new_ones(2))
