"""The advice of a refused command line works: each change that a message asks for is made.

The changed command is accepted. A message may ask for a value that needs another flag. Then the
next message names that flag, and what it asks for is accepted.
"""

from __future__ import annotations

import re

import pytest

from command_line.parser import parse
from tests.command_line.test_checks import FILES, HEADS, STAGES, SURGERY, TASKS

# "add --pretrain simcse or bsc", "or pass --gradvac_beta 0.01", "or --accumulation 2"
SET = re.compile(
    r"(?:[Aa]dd|[Pp]ass|, or|\bor) (?:pass |add )?(--[a-z_]+) "
    r"((?!or\b|to\b|it\b|as\b)[\w.=,-]*\w(?: or (?!--|pass\b|drop\b|add\b)[\w.=,-]*\w)*)"
)
SUCH_AS = re.compile(r"add (--[a-z_]+), such as ([\w.=]+\w)")
DROP = re.compile(r"[Dd]rop (--\w+)(?: \S+ and (--\w+))?")
LINES = [line for line, _ in [*HEADS, *TASKS, *SURGERY, *STAGES, *FILES]]
# Flags that need another one, which the tables above do not have.
LINES += [
    "--surgery_reduction mean",
    "--cagrad_radius 2",
    "--sts_range fitted",
    "--soup_kind greedy",
    "--ema_decay 0.9",
    "--joint_limit smallest",
    "--proximal_every 2",
    "--draw_weights para=2",
    # A list of tasks that holds the one that the message keeps.
    "--head cosine --common_layer none --option pretrain --pair_encoding bi --tasks sts,sst",
]


def message_of(words: list[str], capsys: pytest.CaptureFixture) -> str:
    """The refusal of a command line; "" where it is accepted."""
    try:
        parse(words)
    except SystemExit:
        return capsys.readouterr().err.strip().splitlines()[-1].split("error: ")[-1]
    return ""


def without(words: list[str], flag: str) -> list[str]:
    """A command line without a flag and its value."""
    kept = []
    is_dropped = False
    for word in words:
        if word.startswith("--"):
            is_dropped = word.replace("-", "_") == flag.replace("-", "_")
        if not is_dropped:
            kept.append(word)
    return kept


def changes(words: list[str], message: str) -> list[list[str]]:
    """The command lines that a message asks for."""
    changed = []
    start = re.search(r"\b([Aa]dd|[Pp]ass|[Dd]rop|[Ll]eave)\b", message)
    advice = message[start.start() :] if start else ""
    for flag, values in SET.findall(advice) + SUCH_AS.findall(advice):
        for value in values.split(" or "):
            # FILE stands for a value of the user.
            value = "a.tsv" if value == "FILE" else value
            changed.append([*without(words, flag), flag, value])

    named = re.findall(r"--[a-z_]+", message)
    dropped = DROP.search(advice)
    if dropped:
        rest = words
        for flag in filter(None, dropped.groups()):
            rest = without(rest, flag)
        changed.append(rest)
    elif re.search(r"[Dd]rop it|or drop", advice):
        changed.append(without(words, named[0]))
    elif "Drop one of" in advice:
        for flag in named:
            rest = without(words, flag)
            changed += [rest] if rest != words else []
    return changed


@pytest.mark.parametrize("line", LINES)
def test_advice_that_is_followed_works(line, capsys):
    words = line.split()
    message = message_of(words, capsys)
    assert message
    for changed in changes(words, message):
        next_message = message_of(changed, capsys)
        if next_message:
            assert next_message != message, changed
            further = changes(changed, next_message)
            assert further, f"{changed}: {next_message}"
            assert message_of(further[0], capsys) == "", f"{changed}: {next_message}"


def test_most_messages_have_advice_that_is_read(capsys):
    """Otherwise the test above would follow nothing. Others say which values there are."""
    read = 0
    for line in LINES:
        read += bool(changes(line.split(), message_of(line.split(), capsys)))
    assert read >= 40


def test_advice_that_changes_nothing_is_found(capsys):
    """The negative control: the flag stays as it is, and so does the message."""
    words = ["--hand_on", "trained"]
    message = message_of(words, capsys)
    assert changes(words, "Pass --hand_on trained.") == [words]
    assert message_of(words, capsys) == message
