"""The advice in our messages, found by reading the code, and the tests that follow it.

`python -m tests.advice` lists every advice with the test that follows it.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
# Calls that declare a flag or a method. Their texts stand in --help.
DECLARING = {"flag", "argument", "positional", "group", "Command", "ArgumentParser"}
# Names and arguments with texts that describe a command.
DESCRIBING = {"description", "DESCRIPTION", "EPILOG", "help", "epilog"}
# A clause that begins with one of these verbs asks the reader to do something.
VERBS = (
    "Add|Ask|Bring|Call|Change|Check|Choose|Clone|Close|Commit|Compute|Convert|Copy|Correct|"
    "Delete|Download|Drop|Empty|Encode|Export|Fetch|Finish|Fix|Free|Freeze|Give|Go|Install|Keep|"
    "Leave|Let|Load|Lower|Make|Measure|Merge|Move|Name|Open|Pass|Put|Raise|Read|Remove|Rename|Repeat|"
    "Replace|Restore|Run|Save|Say|Send|Set|Shorten|Start|Store|Take|Train|Try|Unpack|Unset|Use|"
    "Wait|Write"
)
# Small, these are more often another kind of word, as in "lower left" or "commit 1a2b".
NO_VERBS_WHEN_SMALL = {"Commit", "Empty", "Lower", "Open", "Read", "Train"}
SMALL_VERBS = "|".join(verb.lower() for verb in VERBS.split("|") if verb not in NO_VERBS_WHEN_SMALL)
# A verb with a sign behind it names a key, a flag or a file, as run.json.
VERB = rf"(?:{VERBS}|{SMALL_VERBS})\b(?![:=]|\.\w)"
# An advice is an order, a command in backticks or by `python -m` with its arguments, or a guess.
# A text that only names a flag states a fact.
ADVICE = re.compile(
    rf"(?:^|[.;:] |^, |, or |^; ){VERB}|\{{\.\.\.\}} ?(?:{VERBS})\b"
    rf"|\b(?:If|if|To|For)\b[^.;]*, {VERB}"
    r"|`[^`]*(?:minbert|pip|bash|python| -m|multitask\.)[^`]*`|^(?:multitask|contrastive)\.\w+ "
    r"|python -m [\w.]+ |[Dd]id you mean|[Ee]xpected is (?:such as )?--"
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
    if isinstance(node, ast.keyword) and node.arg in DESCRIBING:
        return
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in DESCRIBING:
        return
    for child in ast.iter_child_nodes(node):
        is_statement = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not is_statement:
            yield from texts_in(child)


@cache
def advices() -> list[Message]:
    """Each text of our packages that gives advice. A text of several lines is a page or a file."""
    found = []
    files = [ROOT / "run_multitask.py"]
    for package in PACKAGES:
        files += sorted((ROOT / package).rglob("*.py"))
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        for line, text in texts_in(ast.parse(file.read_text(encoding="utf-8"))):
            if " " in text and is_advice(text):
                found.append(Message(path, line, text))
    return found


def is_advice(text: str) -> bool:
    """Whether a text asks the reader to do something."""
    return bool(ADVICE.search(text))


# --- who follows an advice ------------------------------------------------------------------------

# Tables of cases: a message, what it asks for, and what comes of it.
TABLES = (
    "tests.commands.test_advice",
    "tests.data.test_advice",
    "tests.minbert.test_advice",
    "tests.system.test_python_advice",
)
# The tests and the reasons that stand in no table, with words of the messages.
LIST = ROOT / "tests" / "followed_advice.txt"


def pattern(words: str) -> str:
    """Words of a case as a text of the code has them: each {value} is {...}."""
    return re.sub(r"\{[^{}]+\}", "{...}", words)


def shown(words: str) -> str:
    """Words of a case as the user reads them: without the braces around values."""
    return re.sub(r"\{([^{}]+)\}", r"\1", words)


def rows_of_tables() -> dict[str, list[str]]:
    """For each table of cases the words of its cases, as the code has them."""
    rows = {}
    for name in TABLES:
        module = importlib.import_module(name)
        cases = module.CASES.values() if isinstance(module.CASES, dict) else module.CASES
        cases = [*cases, *getattr(module, "EDITS", []), *getattr(module, "WARNINGS", [])]
        rows[name] = [pattern(case.words) for case in cases]
    return rows


def listed() -> dict[str, dict[str, list[str]]]:
    """The words of messages in the list by kind ("test" or "reason") and name."""
    entries: dict[str, dict[str, list[str]]] = {}
    words: list[str] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind, _, name = line[1:].partition("] ")
            words = entries.setdefault(kind, {}).setdefault(name, [])
        elif line and not line.startswith("#"):
            words.append(line)
    return entries


class Coverage(NamedTuple):
    """Who follows what."""

    by_row: dict[str, str]  # text of an advice -> table
    by_test: dict[str, str]  # text -> test
    by_reason: dict[str, str]  # text -> why no test can follow it
    faults: list[str]  # words that fit no advice, or several


def texts_of(words: str, texts: Sequence[str]) -> list[str]:
    """The one text that is these words, or else all texts that hold them."""
    return [words] if words in texts else [text for text in texts if words in text]


def coverage(
    found: Iterable[Message],
    rows: dict[str, list[str]],
    entries: dict[str, dict[str, list[str]]],
) -> Coverage:
    """Match the texts of advice with the words of cases, tests and reasons.

    The words of a case and of a test must fit one text alone: each place is followed by itself.
    Words of a reason may fit many. Rows that stand for no advice of ours are passed over.
    """
    texts = list(dict.fromkeys(message.text for message in found))
    result = Coverage({}, {}, {}, [])
    for table, words_of_rows in rows.items():
        for words in words_of_rows:
            fitting = texts_of(words, texts)
            if len(fitting) > 1:
                result.faults.append(f"{table}: {words!r} fits {len(fitting)} messages")
            result.by_row.update(dict.fromkeys(fitting[:1], table))

    for kind, place in (("test", result.by_test), ("reason", result.by_reason)):
        for name, all_words in entries.get(kind, {}).items():
            for words in all_words:
                fitting = texts_of(words, texts)
                if kind == "reason":
                    fitting = [text for text in texts if words in text]
                if not fitting or (kind == "test" and len(fitting) > 1):
                    result.faults.append(f"{name}: {words!r} fits {len(fitting)} messages")
                for text in fitting:
                    place.setdefault(text, name)
    return result


def followers(covered: Coverage) -> dict[str, str]:
    """For the text of each advice who follows it, or why nobody does."""
    return {**covered.by_reason, **covered.by_test, **covered.by_row}


def main() -> None:
    """Print each advice with its follower, and the counts."""
    covered = coverage(advices(), rows_of_tables(), listed())
    followed = followers(covered)
    counts = Counter()
    for message in advices():
        name = followed.get(message.text, "NOBODY")
        print(f"{message.path}:{message.line}: {message.text}\n    {name}")
        for kind in ("by_row", "by_test", "by_reason"):
            if message.text in getattr(covered, kind):
                counts[kind] += 1
                break
        else:
            counts["nobody"] += 1
    print(f"{len(advices())} advices:", dict(counts))
    print("\n".join(covered.faults))


if __name__ == "__main__":
    main()
