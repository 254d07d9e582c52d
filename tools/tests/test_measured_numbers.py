"""Every measured number in the documents stands in a table from records."""

from __future__ import annotations

import pytest

from minbert.training.code_version import ROOT
from tools.tables import measured_numbers
from tools.tables.measured_numbers import (
    ADVICE,
    complaints,
    find_numbers,
    find_numbers_in_code,
)

BEGIN = "<!-- table some: begin, written by python -m tools.tables -->\n"


def test_measured_numbers_stand_in_tables_from_records():
    """In documents, docstrings and comments. No exception is needless."""
    found = complaints(ROOT)
    assert not found, "\n".join(
        ["these numbers look measured, and stand outside of a table:", *found, ADVICE]
    )


def test_a_number_in_a_docstring_or_a_comment_is_noticed():
    code = '''"""One line.

It reaches .405 on dev.
"""

SIZE = 3  # takes 95 ms
NAME = "a text that says .517"


def answer():
    """Takes `0.05`, and needs 1,565 MB."""
'''
    findings = find_numbers_in_code(code)
    assert sorted((finding.line, finding.text) for finding in findings) == [
        (3, ".405"),
        (6, "95 ms"),
        (11, "1,565 MB"),
    ]


# --- the rules ------------------------------------------------------------------------------------

MEASURED = [
    ("It reaches .405 on dev.", ".405"),
    ("It reaches 0.81 there.", "0.81"),
    ("| SST | .516 |", ".516"),
    ("Spearman 74.62, over seven sets", "74.62"),
    ("It gains 0.5 ± 0.1 there", "0.5 ± 0.1"),
    ("That is 8 % less.", "8 %"),
    ("That is 12.5% less.", "12.5%"),
    ("some 30 percent of it", "30 percent"),
    ("It takes 3 minutes.", "3 minutes"),
    ("a 3-minute run", "3-minute"),
    ("a step takes 95 ms", "95 ms"),
    ("(9.5 s)", "9.5 s"),
    ("It takes 1,565 MB.", "1,565 MB"),
    ("about .9 GB", ".9 GB"),
    ("2.4 times", "2.4 times"),
    ("5 times as fast", "5 times as"),
    ("a 2x speed-up", "2x"),
    ("17,273 tokens/s", "17,273 tokens/s"),
    ("850 sentences a second", "850 sentences a second"),
    ("891 GFLOP/s of bf16", "891 GFLOP/s"),
    ("at most 2.4e-05 apart", "2.4e-05"),
    ("```text\nSST accuracy    0.5174\n```", "0.5174"),
    ("1. ```\n   loss 0.693\n   ```", "0.693"),
    ("<!-- not measured here: published -->\n| .516 |\n\nWe have .517.", ".517"),
    ("<!-- a comment -->\nWe have .517.", ".517"),
]
OTHERS = [
    "The temperature is `0.05`, and `--lr 5e-5` is a choice.",
    "A half is 0.5, and 1.5 is more.",
    "Python 3.10, torch 2.13.0 and version 3.30",
    "Liu et al. 2019 (arXiv 1901.11504), section 3.1",
    "It has 22 million tokens, 6 layers, 192 units and 5e-5 as its rate.",
    "On 2026-11-25, from 10 to 12 epochs, in 3 steps.",
    "It is run 3 times, over 3 seeds.",
    "[a link](results.md#a-score-of-.405) and https://example.org/0.123",
    '<img src="picture-0.25.svg" width="50%">',
    "<!-- 0.405 -->",
    "```python\nlr = 0.001  # 3 minutes\n```",
    "```text\n3 minutes, epoch 2.5\n```",
    "<!-- not measured here: published by their authors -->\n| a | b |\n|---|---|\n| .516 | .815 |",
    "<!-- not measured here: worked by hand -->\n```text\n0.665\n\n0.245\n```\n",
    "| option | default |\n|---|---|\n| `--lr` | 0.0005 |",
    f"{BEGIN}| .405 |\n\n3 minutes\n<!-- table some: end -->",
]


@pytest.mark.parametrize(("text", "number"), MEASURED)
def test_a_measured_number_is_noticed(text, number):
    assert [finding.text for finding in find_numbers(text)] == [number]


@pytest.mark.parametrize("text", OTHERS)
def test_other_numbers_are_left_alone(text):
    assert find_numbers(text) == []


def test_the_command_names_page_line_and_what_to_do(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIt reaches .405 in 3 minutes.\n")
    assert measured_numbers.main([str(page)]) == 1
    shown = capsys.readouterr().out
    assert f"{page}, line 3: .405 (score)\n{page}, line 3: 3 minutes (time)\n" in shown
    assert ADVICE in shown
    page.write_text("# Title\n\nIt reaches more in less time.\n")
    assert measured_numbers.main([str(page)]) == 0
    assert capsys.readouterr().out == ""
