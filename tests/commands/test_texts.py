"""minbert/commands/texts.py: what a reader cannot see becomes visible."""

import pytest

from minbert.commands.texts import visible, visible_everywhere


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
