"""minbert/commands/texts.py: what a reader cannot see becomes visible."""

import re

import pytest

from minbert.commands.texts import as_message, visible, visible_everywhere


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("nul \x00, del \x7f, c1 \x9b", "nul \\x00, del \\x7f, c1 \\x9b"),
        ("half \ud83d", "half \\ud83d"),
        ("tab\tline\nand\r\n", "tab\tline\nand\r\n"),
        ("naïve – ☃ 中文 שלום 😀 \u200d", "naïve – ☃ 中文 שלום 😀 \u200d"),
    ],
)
def test_control_characters_become_escapes(text, shown):
    assert visible(text) == visible_everywhere(text) == shown


def test_a_terminal_is_not_moved_back_to_the_start_of_its_line():
    assert visible_everywhere("right\rwrong") == "right\\x0dwrong"
    assert visible("right\rwrong") == "right\rwrong"


def test_signs_of_direction_stay_on_a_page_only():
    text = "a\u202eb\u2066c\u200fd"
    assert visible(text) == text
    assert visible_everywhere(text) == "a\\u202eb\\u2066c\\u200fd"


def test_a_message_keeps_both_ends_of_a_line_that_is_far_too_long():
    text = f"a.csv, line 3: the row is '{'x' * 1_000_000}'. Restore it.\nNothing \x1b was written."
    first, second = as_message(text).split("\n")
    assert first.startswith("a.csv, line 3: the row is 'xxx") and first.endswith("'. Restore it.")
    assert len(first) < 1600 and " characters are left out) ..." in first
    assert second == "Nothing \\x1b was written."
    num_left_out = int(re.search(r"\(([0-9,]+) characters", first)[1].replace(",", ""))
    start, _, end = first.partition(f"... ({num_left_out:,} characters are left out) ...")
    assert len(start) + num_left_out + len(end) == len(text.split("\n")[0])


def test_a_message_of_usual_length_is_whole():
    text = "a" * 1500 + "\n" + "b" * 1500
    assert as_message(text) == text
    # Signs of control become longer, and count as they are shown.
    assert len(as_message("\x1b" * 1500)) < 1600
