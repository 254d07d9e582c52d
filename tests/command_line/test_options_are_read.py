"""Every option of the command line is read by some code: an option that does nothing would be a promise not kept."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from command_line.options import Options
from contrastive.presets import Settings

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {item.name: item for item in fields(Options)}

WORDS = {
    "task": "(sst|para|sts)",
    "task.name": "(sst|para|sts)",
    "split": "(train|dev|test)",
    "item.name": f"({'|'.join(item.name for item in fields(Settings))})",
}


def reads_in(source: str) -> set[str]:
    """Patterns of what a file reads: `options.NAME`, in Options `self.NAME`, `getattr(options, f"{task}_{split}")`.

    The checks of command_line/checks.py do not count: an option that is only checked does nothing.
    """
    tree = ast.parse(source)
    checks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"
    ]
    skipped = {inner for node in checks for inner in ast.walk(node)}
    patterns = set()
    own = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == "Options"
        for inner in ast.walk(node)
    }
    for node in (node for node in ast.walk(tree) if node not in skipped):
        if isinstance(node, ast.Attribute) and (
            ast.unparse(node.value) == "options"
            or (node in own and ast.unparse(node.value) == "self")
        ):
            patterns.add(node.attr)
        is_getattr = isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"
        if is_getattr and isinstance(node.args[1], ast.JoinedStr):
            patterns.add(
                "".join(
                    part.value
                    if isinstance(part, ast.Constant)
                    else WORDS.get(ast.unparse(part.value), "none")
                    for part in node.args[1].values
                )
            )
    return patterns


def unread(names, sources: list[str]) -> list[str]:
    patterns = set().union(*map(reads_in, sources))
    return [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)]


def test_no_option_that_nothing_reads():
    paths = [
        ROOT / name
        for name in ("run_multitask.py", "command_line/parser.py", "command_line/options.py")
    ]
    paths += [
        path
        for room in ("minbert", "data", "contrastive", "multitask")
        for path in (ROOT / room).glob("*.py")
    ]
    assert not unread(FIELDS, [path.read_text(encoding="utf-8") for path in paths])


def test_an_option_that_nothing_reads_is_noticed():
    source = "def f(options, path):\n    return path.dead, getattr(options, f'{task}_{split}'), options.alive\n"
    checked = "class Options:\n    def __post_init__(self):\n        assert self.checked\n"
    other = "class Shuffle:\n    def f(self):\n        return self.dead_flag\n"
    names = ("alive", "sst_dev", "sst_dev_out", "dead", "checked", "dead_flag")
    assert unread(names, [source, checked, other]) == [
        "sst_dev_out",
        "dead",
        "checked",
        "dead_flag",
    ]
