"""Each advice in a message is followed by a test, or a reason says why no test can follow it."""

from __future__ import annotations

import ast

import pytest

from tests.advice import (
    ROOT,
    Message,
    advices,
    coverage,
    followers,
    is_advice,
    listed,
    rows_of_tables,
)


@pytest.mark.parametrize(
    "text",
    [
        "--rows is 3. Pass a larger number.",
        "it is none of these; drop it.",
        "To drop such rows, add drop_labels=x.",
        "{...} is damaged. {...}Give another folder.",
        "`minbert train --help` lists all flags.",
        "see python -m multitask.check DIR",
        "there is no task 'stt'; did you mean 'sts'?",
        ", or drop the row",
    ],
)
def test_a_text_that_asks_for_something_is_advice(text):
    assert is_advice(text)


@pytest.mark.parametrize(
    "text",
    [
        "--freeze is 'all'; it is none, embeddings, or a number of layers.",
        "--resume {...}: options.json cannot be used: {...}.",
        "python -m multitask.check",
        "{...}: run.json cannot be used: {...}.",
        "the mean of the scores of --tasks",
        "the set of rows has no use for a name",
        "3 rows were dropped; read: 5",
    ],
)
def test_a_text_that_states_a_fact_is_none(text):
    """The negative control. A flag alone is no advice."""
    assert not is_advice(text)


def test_each_advice_is_followed_by_a_test_or_has_a_reason():
    """A new message fails here."""
    covered = coverage(advices(), rows_of_tables(), listed())
    followed = followers(covered)
    missing = [message for message in advices() if message.text not in followed]
    lines = [f"{message.path}:{message.line}: {message.text}" for message in missing]
    assert not missing, (
        "no test follows the advice of these messages. Add a case to a table (advice.txt beside "
        "tests/commands/test_advice.py, or the CASES of another test_advice.py), or name the test "
        "that does what the message asks for in tests/followed_advice.txt:\n" + "\n".join(lines)
    )
    assert not covered.faults, "say more words, or remove the line:\n" + "\n".join(covered.faults)
    assert len(covered.by_row) + len(covered.by_test) > 200


def test_each_named_test_exists():
    by_file: dict[str, set[str]] = {}
    for name in listed()["test"]:
        path, _, function = name.partition("::")
        if path not in by_file:
            tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
            by_file[path] = {getattr(node, "name", "") for node in tree.body}
        assert function in by_file[path], name


def test_what_nobody_follows_is_noticed():
    """The negative control: a new message, a row that is deleted, and a line that is stale."""
    old = Message("data/a.py", 1, "{...} is empty. Pass another file.")
    new = Message("data/a.py", 2, "{...} is too long. Cut it with --max-length {...}.")
    rows = {"table": ["is empty. Pass another file"]}
    entries = {"test": {"test_a.py::test_b": ["Cut it with --max-length {...}."]}}
    assert len(followers(coverage([old, new], rows, entries))) == 2
    assert new.text not in followers(coverage([old, new], rows, {}))
    assert old.text not in followers(coverage([old, new], {"table": []}, entries))
    assert coverage([old], rows, entries).faults, "the message is gone, and its line stays"


def test_words_that_fit_two_messages_are_too_few():
    """Each place is followed by itself."""
    both = [Message("a.py", 1, "a is b. Drop it."), Message("a.py", 2, "c has d. Drop it.")]
    assert coverage(both, {"table": ["Drop it."]}, {}).faults
    assert not coverage(both, {"table": ["b. Drop it.", "d. Drop it."]}, {}).faults
