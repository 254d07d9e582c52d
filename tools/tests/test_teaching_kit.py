"""tools/teaching_kit.py: what counts as a line of code."""

from __future__ import annotations

from tools.teaching_kit import lines_of_code

SOURCE = '''\
"""A docstring
of two lines."""

# A comment.
import a

TABLE = {
    "one": 1,
    "two": 2,
}
SHORT = (
    1,
)


def f(x):
    """A docstring."""
    y = """a text,
    which is code"""  # with a comment

    return [
        x,
        y,
        1,
    ]
'''


def test_lines_of_code_by_hand():
    """The import, three lines of SHORT, and eight of the function."""
    assert lines_of_code(SOURCE) == 1 + 3 + 8
    # A table inside a function is code.
    assert lines_of_code("def f():\n    t = [\n        1,\n        2,\n    ]\n") == 5
