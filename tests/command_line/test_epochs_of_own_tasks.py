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
    ("num_rows", "said"),
    [
        (66, "30 (the most without --epochs; about 90 steps, as 66 rows give few)"),
        (640, "10 (for about 200 steps, as 640 rows give few)"),
    ],
)
def test_the_steps_are_those_of_the_estimate(num_rows, said, capsys):
    """3 batches in 30 epochs are 90 steps, and not the 200 that were asked for."""
    table = SimpleNamespace(examples=range(num_rows))
    settle_epochs(parse(OWN)[0], {"tickets": {"train": table}})
    assert f"epochs: {said}" in capsys.readouterr().out


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
