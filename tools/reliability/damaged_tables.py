"""Damaged tables: a training, dev or test file of the user is changed by chance.

A table may say anything. The command reads it, or refuses it in one line that no terminal can be
harmed by. It stops before the training: the reading is the question here.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tools.reliability import children
from tools.reliability.children import Call
from tools.reliability.mutations import ANY
from tools.reliability.targets import training
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import Workplace

TABLES = {
    "sst_train": "ids-sst-train.csv",
    "sst_dev": "ids-sst-dev.csv",
    "sst_test": "ids-sst-test-student.csv",
    "para_train": "quora-train.csv",
    "para_test": "quora-test-student.csv",
    "sts_train": "sts-train.csv",
    "sts_dev": "sts-dev.csv",
}
STRANGE_CELLS = (
    b"",
    b" ",
    b"nan",
    b"inf",
    b"-0",
    b"1e400",
    b"0x1",
    b"5.0001",
    b"1_0",
    b"\xd9\xa3",
    b'"',
    b'""',
    b'"a',
    b'a"b',
    b"\x1b]0;title\x07",
    b"\xff",
    b"\0",
    b"\xe2\x80\xae\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"x" * 100_000,
    b"a " * 50_000,
    b"\xf4\x8f\xbf\xbf",
    b"\r",
    b"\t",
    b"\x85",
    b"[SEP] [MASK]",
    b"<script>alert(1)</script>",
)


def change_cell(content: bytes, chance: random.Random) -> bytes:
    """Put a strange text into one cell."""
    lines = content.split(b"\n")
    row = chance.randrange(len(lines))
    cells = lines[row].split(b"\t")
    cells[chance.randrange(len(cells))] = chance.choice(STRANGE_CELLS)
    lines[row] = b"\t".join(cells)
    return b"\n".join(lines)


def change_rows(content: bytes, chance: random.Random) -> bytes:
    """Change the header, the number of rows, the delimiter or the line ends."""
    lines = content.split(b"\n")
    ways = [
        lines[:1],
        lines[1:],
        lines[:2],
        [lines[0], *[lines[1]] * 5],
        [lines[0].upper(), *lines[1:]],
        [lines[0] + b"\tid", *lines[1:]],
        [line.replace(b"\t", b",") for line in lines],
        chance.sample(lines, len(lines)),
    ]
    return chance.choice([b"\n", b"\r\n", b"\r"]).join(chance.choice(ways))


MUTATIONS = (*ANY, *[change_cell] * 8, *[change_rows] * 3)


def stop_before_training() -> None:
    """Let a run end, in this process, where its folder would be made."""
    import run_multitask

    def begin_run(*arguments: Any) -> Any:
        raise SystemExit(0)

    replacement: Any = begin_run
    run_multitask.begin_run = replacement
    run_multitask.estimate = lambda *arguments: []


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Give a run one damaged table."""
    chance = trial.chance
    flag = chance.choice(list(TABLES))
    mutation = chance.choice(MUTATIONS)
    folder.mkdir()
    path = folder / "table.csv"
    content = (workplace.places.data / TABLES[flag]).read_bytes()
    path.write_bytes(mutation(content, chance))

    flags = [f"--{flag}", str(path)]
    if chance.random() < 0.3:
        flags.append("--drop_bad_rows")
    words = training(workplace.places, "none", *flags, output=str(folder))
    ending = children.run(Call("run_multitask", words, stop_before_training))
    problem = complaint(ending)
    if not problem and "\x1b" in ending.output + ending.errors:
        problem = "an escape sequence of the table reaches the terminal"
    return Outcome("table", f"--{flag}: {mutation.__name__}", problem)


PART = Part("tables", "mutated tables", 300, 0.3, run_trial)
