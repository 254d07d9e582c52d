"""--least_steps: the epochs of a user's own tables follow their rows, unless the user decides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from command_line.parser import parse
from command_line.reproduction import command_of
from command_line.settings import settle_epochs
from experiments.records import split_command
from multitask.options import FineTuningOptions

OWN = ["--task", "name=tickets,train=tickets.csv", "--tasks", "tickets"]


@pytest.mark.parametrize(
    ("num_rows", "epochs"),
    # 8 batches of 32 rows are 8 steps. 25 of 8 are 200. No more than 30, and no fewer than 3.
    [(250, 25), (640, 10), (6400, 3), (100_000, 3), (20, 30)],
)
def test_small_tables_have_more_epochs(num_rows, epochs):
    assert FineTuningOptions(least_steps=200).num_needed_epochs([num_rows]) == epochs
    assert FineTuningOptions().num_needed_epochs([num_rows]) == 3
    joined = FineTuningOptions(least_steps=200, accumulation=2)
    assert joined.num_needed_epochs([num_rows]) >= epochs


@pytest.mark.parametrize(
    ("flags", "epochs"),
    [
        (OWN, 10),
        ([*OWN, "--epochs", "3"], 3),
        ([*OWN, "--epochs", "1"], 1),
        ([*OWN, "--least-steps", "100"], 5),
        ([*OWN[:-1], "tickets,sst"], 3),
        ([], 3),
    ],
)
def test_what_the_user_says_wins_and_is_said_again(flags, epochs):
    """The command that repeats the run gives the same number of epochs."""
    table = SimpleNamespace(examples=range(640))
    tables = {name: {"train": table} for name in ("tickets", "sst", "para", "sts")}
    options = settle_epochs(parse(flags)[0], tables)
    assert options.multitask.fine_tuning.epochs == epochs
    words = split_command(command_of(options))[2:]
    again = settle_epochs(parse(words)[0], tables)
    assert again.multitask.fine_tuning.epochs == epochs
