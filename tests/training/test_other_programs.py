"""minbert/training/other_programs.py: a run on a busy machine says so."""

from __future__ import annotations

import pytest
import torch

from minbert.commands import cores
from minbert.commands.cores import Reading
from minbert.training import other_programs
from minbert.training.other_programs import notes_on_others

CPU = torch.device("cpu")


@pytest.fixture
def busy(monkeypatch):
    """Other programs used 1.87 of two cores since the command began, and we use two threads."""
    monkeypatch.setattr(cores, "num_usable", lambda: 2)
    monkeypatch.setattr(cores, "at_start", Reading(0.0, 10.0, 0.0))
    monkeypatch.setattr(cores, "read", lambda: Reading(10.0, 29.7, 1.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(other_programs.processes, "num_started", lambda: 1)


def test_a_busy_machine_is_said(busy):
    assert notes_on_others(CPU) == [
        "Other programs use 1.8 of 2 cores, so this run will take longer than usual. "
        "`renice -n 10 -p PID` gives a program of yours a low priority."
    ]


def test_nothing_is_said_where_it_does_not_matter_or_is_unknown(busy, monkeypatch):
    assert notes_on_others(torch.device("cuda")) == []
    monkeypatch.setattr(other_programs.processes, "num_started", lambda: 2)
    assert notes_on_others(CPU) == []
    monkeypatch.setattr(other_programs.processes, "num_started", lambda: 1)
    monkeypatch.setattr(cores, "read", lambda: Reading(10.0, 12.0, 1.0))
    assert notes_on_others(CPU) == []
    # Somebody gave this process a low priority. The ticks of all such programs came on top.
    monkeypatch.setattr(cores, "read", lambda: Reading(10.0, 9000.0, 1.0, counts_nice=True))
    assert notes_on_others(CPU) == []
    monkeypatch.setattr(cores, "read", lambda: None)
    assert notes_on_others(CPU) == []
    # In a notebook nobody has looked at the beginning.
    monkeypatch.setattr(cores, "at_start", None)
    assert notes_on_others(CPU) == []
