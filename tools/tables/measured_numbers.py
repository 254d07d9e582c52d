"""Finds measured numbers in documents and code that stand outside of the tables from records.

`python -m tools.tables.measured_numbers [PAGE ...]` lists them. Of code, it reads docstrings and
comments. numbers_in_code.toml says which numbers there were not measured, and why. A number counts
as measured if it has the form of a score, a share, a time, a size in memory, a ratio or a speed
(RULES). Four places of a document are exempt:

- Tables between the markers of `python -m tools.tables`. They come from records.
- `inline code`. There a number is a value that a reader types, such as `0.05`.
- Blocks of code, and tables of options with their defaults. Blocks of printed output are searched
  for scores.
- The block of text below a line that says why its numbers are not from records:

    <!-- not measured here: worked by hand -->

  It ends at the next empty line, or at the end of a block of code.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.training.code_version import ROOT
from tools.tables.__main__ import BLOCK
from tools.toml_files import read_toml

EXCEPTIONS = Path(__file__).parent / "numbers_in_code.toml"

# Where the documents are.
PAGES = (
    "*.md",
    "docs/**/*.md",
    "data/**/*.md",
    "*/bundled/*.md",
    "*/*/templates/*.md",
    "tools/*/*.md",
)
# Where the code is. Tests compare with numbers that they write down.
CODE = ("*.py", "*/**/*.py")
NO_CODE = ("tests", "docs", "runs", ".venv")
# Languages of code blocks that hold printed output. "" is a block that names none.
OUTPUT_LANGUAGES = ("", "text", "console")
# A table of options begins with these cells. A test compares its defaults with the code.
OPTIONS_HEAD = re.compile(r"\| *option *\| *default *\|")

# --- the forms of measured numbers ----------------------------------------------------------------


class Rule(NamedTuple):
    """A form of measured numbers. is_for_output: it is looked for in printed output alone."""

    kind: str
    pattern: re.Pattern[str]
    is_for_output: bool = False


# The sign, the word or the path that a number may be a part of ends before it.
START = r"(?<![\w.,/#-])"
END = r"(?![\w-])"
NUMBER = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
THINGS = "tokens|sentences|rows|steps|examples|pairs|texts|words"
COMPARED = "as|faster|slower|more|less|smaller|larger|cheaper|longer|shorter"


def unit_rule(kind: str, units: str) -> Rule:
    """Return the rule of numbers before a unit, such as 3 minutes."""
    return Rule(kind, re.compile(rf"{START}{NUMBER}[ -]?(?:{units}){END}"))


def score_pattern(num_decimals: int) -> re.Pattern[str]:
    """Return the pattern of numbers with so many decimals or more.

    3.11 after "Python" is a version, and so are 2.13.0 and 1.2rc1. 1901.11504 is a paper.
    """
    return re.compile(
        rf"(?<!Python )(?<!orch )(?<!version )(?<![\w.,/#])\d{{0,2}}\.\d{{{num_decimals},}}"
        r"(?!\.?\w)(?! ?%)"
    )


RULES = (
    Rule("score", score_pattern(2)),
    Rule("score", score_pattern(3), is_for_output=True),
    Rule("deviation", re.compile(rf"{START}{NUMBER} ?(?:±|\+/?-) ?{NUMBER}")),
    Rule("share", re.compile(rf"{START}{NUMBER} ?(?:%|percent\b|per cent\b)")),
    unit_rule("time", "ms|s|seconds?|min|minutes?|h|hours?|milliseconds?"),
    unit_rule("memory", "[kKMGT]i?B|megabytes?|gigabytes?"),
    unit_rule("speed", rf"(?:{THINGS}) ?(?:/ ?s|(?:a|per|each) second)|[GT]FLOP(?:/s|s)?"),
    unit_rule("ratio", rf"x|times (?:{COMPARED})"),
    Rule("ratio", re.compile(rf"{START}\d*\.\d+ times\b")),
    # 1e-5 is a setting or a tolerance. 2.4e-05 was measured.
    Rule("difference", re.compile(rf"{START}\d\.\d+e-\d+{END}")),
)


def all_pages(root: Path) -> list[Path]:
    """Return all documents of the repository."""
    pages: set[Path] = set()
    for pattern in PAGES:
        pages.update(root.glob(pattern))
    return sorted(pages)


def all_code(root: Path) -> list[Path]:
    """Return all Python files whose docstrings and comments are searched."""
    files: set[Path] = set()
    for pattern in CODE:
        for path in root.glob(pattern):
            if not {*NO_CODE} & {*path.relative_to(root).parts[:-1]}:
                files.add(path)
    return sorted(files)


# --- the lines of a page --------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of a page.

    text: without what a reader does not see as a number. language: of its code block, or None.
    """

    number: int
    text: str
    language: str | None


class Finding(NamedTuple):
    """A number that looks measured."""

    line: int
    kind: str
    text: str


EXEMPTION = re.compile(r"<!-- not measured here: \S.* -->")
COMMENT = re.compile(r"<!--(?! not measured here: ).*?-->", re.DOTALL)
# Code, targets of links, addresses and tags.
HIDDEN = re.compile(r"`[^`\n]+`|\]\([^)\n]*\)|https?://\S+|</?[a-z][^>\n]*>")
FENCE = re.compile(r" *(?:\d+\. |[-*] )?(?:```|~~~)(?P<language>\w*)")


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with each match replaced by blanks. Its lines stay where they are."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def searched_lines(text: str) -> Iterator[Line]:
    """Yield the lines of a page that are not exempt."""
    language = None
    is_exempt = False
    for number, line in enumerate(blank(blank(text, BLOCK), COMMENT).splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and language is not None:
            language = None
            is_exempt = False
        elif fence:
            language = fence["language"]
        elif EXEMPTION.match(line.strip()) or OPTIONS_HEAD.match(line):
            is_exempt = True
        elif language is None:
            is_exempt = is_exempt and bool(line.strip())

        is_code = language is not None and language not in OUTPUT_LANGUAGES
        if not (fence or is_exempt or is_code):
            yield Line(number, line if language is not None else blank(line, HIDDEN), language)


def find_numbers(text: str) -> list[Finding]:
    """Return the numbers of a page that look measured and are not exempt."""
    findings = []
    for line in searched_lines(text):
        is_output = line.language is not None
        for rule in RULES:
            if rule.is_for_output != is_output:
                continue
            for match in rule.pattern.finditer(line.text):
                findings.append(Finding(line.number, rule.kind, match.group()))
    return findings


# --- docstrings and comments ----------------------------------------------------------------------

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def words_in_code(code: str) -> list[Line]:
    """Return the docstrings and the comments of a Python file. A docstring is one Line."""
    lines = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, DOCUMENTED):
            text = ast.get_docstring(node, clean=False)
            if text:
                lines.append(Line(node.body[0].lineno, text, None))
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            lines.append(Line(token.start[0], token.string.removeprefix("#"), None))
    return lines


def find_numbers_in_code(code: str) -> list[Finding]:
    """Return the numbers in docstrings and comments that look measured."""
    findings = []
    for words in words_in_code(code):
        for line, kind, text in find_numbers(words.text):
            findings.append(Finding(words.number + line - 1, kind, text))
    return findings


def read_exceptions() -> set[tuple[str, str]]:
    """Return the files and numbers of numbers_in_code.toml."""
    reasons = read_toml(EXCEPTIONS)
    exceptions: set[tuple[str, str]] = set()
    for files in reasons.values():
        for name, numbers in files.items():
            exceptions.update((name, number) for number in numbers)
    return exceptions


# --- the command ----------------------------------------------------------------------------------

ADVICE = (
    "Put each number into a record and its table (docs/results/README.md says how), write a value "
    "that a reader chooses as `code`, or write <!-- not measured here: REASON --> above the block. "
    "A number in code that was not measured belongs into tools/tables/numbers_in_code.toml."
)


def complaints(root: Path) -> list[str]:
    """Return a line for each measured number of the repository, and for each needless exception."""
    lines = []
    for path in all_pages(root):
        name = path.relative_to(root).as_posix()
        lines += describe(name, find_numbers(path.read_text(encoding="utf-8")))

    unused = read_exceptions()
    exceptions = frozenset(unused)
    for path in all_code(root):
        name = path.relative_to(root).as_posix()
        findings = find_numbers_in_code(path.read_text(encoding="utf-8"))
        unused -= {(name, finding.text) for finding in findings}
        lines += describe(
            name, [finding for finding in findings if (name, finding.text) not in exceptions]
        )
    lines += [f"{name} has no {text}, which {EXCEPTIONS.name} lists" for name, text in unused]
    return lines


def describe(page: str, findings: Sequence[Finding]) -> list[str]:
    """Return a line for each number of a page."""
    return [f"{page}, line {line}: {text} ({kind})" for line, kind, text in findings]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m tools.tables.measured_numbers",
        description="List measured numbers outside of the tables from records.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "pages",
        nargs="*",
        type=Path,
        metavar="PAGE",
        help="a document (default: all of them, and all code)",
    )
    return parser


@exit_code("python -m tools.tables.measured_numbers")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a measured number stands outside of a table."""
    lines = []
    pages = build_parser().parse_args(argv).pages
    for page in pages:
        lines += describe(str(page), find_numbers(page.read_text(encoding="utf-8")))
    if not pages:
        lines = complaints(ROOT)
    if lines:
        print("\n".join([*lines, ADVICE]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
