"""What the teaching kit finds, and how long it takes: `python -m tools.teaching_kit --record`.

Each row of tests/teaching/mistakes.toml that changes the encoder runs on the probe of
`minbert trace --against`. A row counts as found where the station is that of the row, and as equal
where no number of an evaluation changes, as with dropout. Right code in other styles must be equal.
Then the commands of docs/teaching.md are timed, from the clone to a graded student.

With --sizes it counts the files and lines of hand-outs instead: the default, each exercise alone,
and all of them. It also counts the lines of the kit itself.
"""

from __future__ import annotations

import ast
import io
import re
import resource
import subprocess
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from experiments.records import RECORDS
from minbert.commands.flags import Parser
from teaching.exercises import DEFAULT_EXERCISES, EXERCISES
from teaching.handout import hand_out
from teaching.rehearsal import write_answers
from tests.teaching.answers import BEFORE_STYLES, FILE_OF, ROOT, STYLES, student_file
from tests.teaching.mistakes import MISTAKES, Mistake
from tests.teaching.test_trace import ENCODER, difference_of
from tools.benchmarks.recording import HELP, record_measurement
from tools.benchmarks.report import busy_cores

TEACHING_KIT = RECORDS / "teaching-kit.jsonl"
TEACHING_HANDOUTS = RECORDS / "teaching-handouts.jsonl"
FOUND, ELSEWHERE, STOPPED, EQUAL = "found", "elsewhere", "stopped", "equal"


def outcome_of(mistake: Mistake) -> str:
    """FOUND, ELSEWHERE, STOPPED (it raises an error) or EQUAL."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            difference, changed = difference_of(mistake.function, mistake.file, monkeypatch)
        except Exception:
            # The command prints the error with its line.
            return STOPPED
    if difference is None and not changed:
        return EQUAL
    if mistake.station == "changed":
        return FOUND if changed else ELSEWHERE
    is_found = difference is not None and mistake.station
    if is_found and re.search(f"({mistake.station})$", difference.station):
        return FOUND
    print(f"{mistake.function}, {mistake.cause}: {difference}, expected {mistake.station}")
    return ELSEWHERE


class Times(NamedTuple):
    """The times of a command in seconds."""

    wall: float
    computing: float  # of all its processes: what a busy machine does not change


def times_of(*arguments: str) -> Times:
    """The times of a command of this clone. Raises CalledProcessError where it fails."""
    start = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computing = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Times(round(time.monotonic() - start, 1), round(computing, 1))


def time_commands() -> dict[str, Times]:
    """The times of the commands of docs/teaching.md."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "course")
        archive = Path(temporary, "grader.zip")
        times = {
            "handout": times_of("teaching.handout", str(folder), "--rehearse"),
            "zip": times_of("teaching.grade", "--zip", str(archive)),
        }
        write_answers(folder, DEFAULT_EXERCISES)
        times["grade"] = times_of("teaching.grade", str(folder))
        times["against"] = times_of("teaching.trace", "A film.", "--against", str(folder))
    return times


class Size(NamedTuple):
    """The size of a hand-out, with its pages."""

    files: int
    lines: int


def size_of_handout(exercises: Sequence[str]) -> Size:
    """Write a hand-out, and count."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "course")
        hand_out(folder, exercises, whole=False)
        paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    return Size(len(paths), lines)


# Tokens that make a line none of code.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

# A definition at the top of a file that is longer than this is a table, or a text.
LONGEST_VALUE = 3  # lines

# The builder of notebooks: it is no part of grading, hand-outs or traces.
NOTEBOOKS = ("notebooks.py", "built_notebooks.py")


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring or another text."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def lines_of_code(source: str) -> int:
    """The lines of a file without docstrings, comments, blank lines and tables."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign):
            place = {*range(node.lineno, (node.end_lineno or 0) + 1)}
            is_table = node in tree.body and len(place) > LONGEST_VALUE
            if is_text(node) or is_table:
                lines -= place
    return len(lines)


def size_of_kit() -> dict[str, int]:
    """The files of teaching/, their lines, and those of code without the builder of notebooks."""
    sources = {}
    for path in sorted((ROOT / "teaching").glob("*.py")):
        sources[path.name] = path.read_text(encoding="utf-8")
    code = {name: lines_of_code(text) for name, text in sources.items() if name not in NOTEBOOKS}
    return {
        "files": len(sources),
        "lines": sum(len(text.splitlines()) for text in sources.values()),
        "lines_of_code": sum(code.values()),
    }


def measure_sizes(is_recorded: bool) -> None:
    """Print the sizes of the kit and of the hand-outs, and record them."""
    kit = {"part": "kit", **size_of_kit()}
    print(kit)
    if is_recorded:
        record_measurement(TEACHING_KIT, kit)
    for exercises in (DEFAULT_EXERCISES, *((name,) for name in EXERCISES), tuple(EXERCISES)):
        name = "all" if len(exercises) == len(EXERCISES) else ", ".join(exercises)
        measured = {"exercises": name, **size_of_handout(exercises)._asdict()}
        print(measured)
        if is_recorded:
            record_measurement(TEACHING_HANDOUTS, measured)


def main() -> int:
    """Try all rows and styles, and print the counts."""
    parser = Parser(prog="python -m tools.teaching_kit", description=__doc__)
    parser.add_argument("--record", action="store_true", help=HELP)
    parser.add_argument("--sizes", action="store_true", help="count what hand-outs hold")
    arguments = parser.parse_args()
    if arguments.sizes:
        measure_sizes(arguments.record)
        return 0
    rows = [mistake for mistake in MISTAKES if FILE_OF[mistake.function] in ENCODER]
    counts = Counter(outcome_of(mistake) for mistake in rows)

    styles = [(name, body) for name, body in STYLES if FILE_OF[name] in ENCODER]
    num_equal = 0
    for name, body in styles:
        text = student_file(name, body.strip(), BEFORE_STYLES)
        with pytest.MonkeyPatch.context() as monkeypatch:
            num_equal += difference_of(name, text, monkeypatch) == (None, [])

    measured = {
        "rows": len(rows),
        **{outcome: counts[outcome] for outcome in (FOUND, ELSEWHERE, STOPPED, EQUAL)},
        "changed": counts[FOUND] + counts[ELSEWHERE],
        "share": counts[FOUND] / (counts[FOUND] + counts[ELSEWHERE]),
        "styles": len(styles),
        "styles_equal": num_equal,
        "busy_cores": busy_cores(),
        "seconds": {name: times._asdict() for name, times in time_commands().items()},
    }
    print(measured)
    if arguments.record:
        record_measurement(TEACHING_KIT, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
