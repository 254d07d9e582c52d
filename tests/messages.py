"""The texts of messages in our code, found by reading it: for tests of the advice in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
# Calls that declare a flag or a method. Their texts stand in --help.
DECLARING = {"flag", "argument", "positional", "group", "Command"}
# A sentence that begins so asks the reader to do something.
VERBS = (
    "Add|Ask|Bring|Call|Change|Check|Choose|Close|Compute|Convert|Copy|Correct|Delete|Download|"
    "Drop|Export|Fetch|Fix|Free|Give|Go|Install|Leave|Lower|Make|Measure|Merge|Move|Name|Open|"
    "Pass|Put|Raise|Read|Remove|Rename|Repeat|Replace|Restore|Run|Save|Say|Set|Shorten|Start|Store|"
    "Take|Train|Try|Unpack|Unset|Use|Wait|Write"
)
ADVICE = re.compile(
    rf"--[a-z]|python -m |`(minbert|pip|bash) |(^|[.;:,`] |\bor |\band )({VERBS}|{VERBS.lower()})\b"
)


class Message(NamedTuple):
    """A text, and where it stands. Values that are filled in are {...}."""

    path: str  # from the root of the repository
    line: int
    text: str


def text_of(node: ast.AST) -> str | None:
    """The text of a string, of a string with values, or of a sum of them. None for other code."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "{...}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None and right is None else (left or "{...}") + (right or "{...}")
    return None


def texts_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each string below a node, without docstrings and help."""
    text = text_of(node)
    if text is not None:
        yield node.lineno, " ".join(text.split())  # type: ignore[attr-defined]
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in DECLARING:
        return
    if isinstance(node, ast.keyword) and node.arg in ("help", "description"):
        return
    for child in ast.iter_child_nodes(node):
        is_statement = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not is_statement:
            yield from texts_in(child)


@cache
def messages() -> list[Message]:
    """Each text of our packages that names a flag or a command, or asks for something."""
    found = []
    files = [ROOT / "run_multitask.py"]
    for package in PACKAGES:
        files += sorted((ROOT / package).rglob("*.py"))
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        for line, text in texts_in(ast.parse(file.read_text(encoding="utf-8"))):
            if " " in text and ADVICE.search(text):
                found.append(Message(path, line, text))
    return found


if __name__ == "__main__":
    for message in messages():
        print(f"{message.path}:{message.line}: {message.text}")
