"""minbert/training/waiting.py: further teams of threads while other programs need the cores."""

from __future__ import annotations

import pytest
import torch

from minbert.commands import cores
from minbert.commands.cores import Reading
from minbert.training import waiting
from minbert.training.waiting import Team, Watch, adapted, notes_on_others, teams_beyond

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("num_cores", "num_threads", "expected"),
    [(2, 2, 1), (16, 16, 1), (16, 8, 2), (16, 4, 5), (2, 3, 0), (2, 1, 0)],
)
def test_teams_make_more_threads_than_cores(num_cores, num_threads, expected):
    num_teams = teams_beyond(num_cores, num_threads)
    assert num_teams == expected
    if num_threads > 1:
        assert num_threads + num_teams * (num_threads - 1) > num_cores


class FakeTeam:
    """Counts how many teams there are."""

    number = 0

    def __init__(self) -> None:
        FakeTeam.number += 1

    def end(self) -> None:
        FakeTeam.number -= 1


def readings(*used_by_others: float):
    """A function that reads one of these uses every two seconds. We use one core ourselves."""
    everybody = 0.0
    series = [Reading(0.0, 0.0, 0.0)]
    for number, others in enumerate(used_by_others, start=1):
        everybody += 2 * (others + 1)
        series.append(Reading(2.0 * number, everybody, 2.0 * number))
    return iter(series).__next__


def test_the_watch_follows_the_machine(monkeypatch):
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "at_start", None)
    monkeypatch.setattr(FakeTeam, "number", 0)
    watch = Watch(3, readings(0.1, 1.0, 1.8, 0.2, 1.0), FakeTeam)
    watch.num_threads = 2
    numbers = []
    for _ in range(6):
        watch.look()
        numbers.append(FakeTeam.number)
    assert numbers == [0, 0, 3, 3, 0, 3]
    watch.end_teams()
    assert FakeTeam.number == 0


def test_the_watch_ends_with_its_block(monkeypatch):
    """Its first look already counts the time since the command began."""
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "at_start", Reading(0.0, 0.0, 0.0))
    monkeypatch.setattr(FakeTeam, "number", 0)
    watch = Watch(1, lambda: Reading(2.0, 4.0, 0.0), FakeTeam)
    watch.num_threads = 2
    watch.start()
    assert FakeTeam.number == 1 and watch.thread.is_alive()
    watch.end()
    assert FakeTeam.number == 0 and not watch.thread.is_alive()


def test_a_system_without_further_threads_trains_all_the_same(monkeypatch):
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "at_start", Reading(0.0, 0.0, 0.0))

    def refuse():
        raise RuntimeError("can't start new thread")

    watch = Watch(1, lambda: Reading(2.0, 4.0, 0.0), refuse)
    watch.num_threads = 2
    watch.start()
    watch.end()
    assert watch.teams == [] and not watch.thread.is_alive()


def test_a_team_ends(monkeypatch):
    team = Team()
    assert team.thread.is_alive()
    team.end()
    assert not team.thread.is_alive()


@pytest.mark.parametrize("change", ["", "own setting", "one thread", "does not tell"])
def test_a_watch_only_where_it_can_help(change, monkeypatch):
    started = []
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "is_limited", lambda: change != "own setting")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1 if change == "one thread" else 2)
    reading = None if change == "does not tell" else Reading(0.0, 0.0, 0.0)
    monkeypatch.setattr(cores, "read", lambda: reading)
    monkeypatch.setattr(Watch, "start", lambda watch: started.append(watch.num_teams))
    monkeypatch.setattr(Watch, "end", lambda watch: started.append("end"))
    with adapted():
        pass
    assert started == ([] if change else [1, "end"])


# --- the note -------------------------------------------------------------------------------------


@pytest.fixture
def busy(monkeypatch):
    """Other programs used 1.87 of two cores since the command began, and we use two threads."""
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "at_start", Reading(0.0, 10.0, 0.0))
    monkeypatch.setattr(cores, "read", lambda: Reading(10.0, 29.7, 1.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(waiting.processes, "num_started", lambda: 1)


def test_a_busy_machine_is_said(busy):
    assert notes_on_others(CPU) == [
        "Other programs use 1.8 of 2 cores, so this run will take longer than usual. "
        "`renice -n 10 -p PID` gives a program of yours a low priority."
    ]


def test_nothing_is_said_where_it_does_not_matter_or_is_unknown(busy, monkeypatch):
    assert notes_on_others(torch.device("cuda")) == []
    monkeypatch.setattr(waiting.processes, "num_started", lambda: 2)
    assert notes_on_others(CPU) == []
    monkeypatch.setattr(waiting.processes, "num_started", lambda: 1)
    monkeypatch.setattr(cores, "read", lambda: Reading(10.0, 12.0, 1.0))
    assert notes_on_others(CPU) == []
    monkeypatch.setattr(cores, "read", lambda: None)
    assert notes_on_others(CPU) == []
    # In a notebook nobody has looked at the beginning.
    monkeypatch.setattr(cores, "at_start", None)
    assert notes_on_others(CPU) == []
