"""tools/benchmarks/busy_machine.py: sides take turns, and the table shows their medians."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager

import pytest

from minbert.commands import cores
from tools.benchmarks import busy_machine
from tools.benchmarks.busy_machine import WAYS, Timed, environment, make_record, measure
from tools.tables.generic import make_table

OURS, THEIRS = "minBERT", "libgomp's own"


@pytest.fixture
def measured(monkeypatch):
    """Two rounds of two sides. Beside programs ours takes 1.5 times as long, theirs 4 times.

    Programs of low priority change nothing.
    """
    calls = []
    running = [(0, 0)]

    @contextmanager
    def programs(number, niceness):
        running[0] = (number, niceness)
        yield
        running[0] = (0, 0)

    def side_of(name, alone, busy):
        def run_part(request):
            calls.append((name, running[0]))
            return Timed(busy if running[0] == (2, 0) else alone, 0.25)

        return run_part

    monkeypatch.setattr(busy_machine, "busy_programs", programs)
    sides = {OURS: side_of(OURS, 0.04, 0.06), THEIRS: side_of(THEIRS, 0.05, 0.16)}
    return measure(sides, 2, 2), calls


def test_the_first_side_changes(measured):
    _, calls = measured
    expected = []
    for names in ([OURS, THEIRS], [THEIRS, OURS]):
        for programs in ((0, 0), (2, 0), (2, 10)):
            expected += [(name, programs) for name in names]
    assert calls == expected


def test_the_table_compares_with_the_fastest_step_alone(measured, record_files):
    path = record_files / "busy-machine.jsonl"
    assert "Not measured yet" in make_table("busy-machine")
    record = make_record(measured[0], "minbert-mini", 2)
    busy_machine.record_measurement(path, record)
    table = make_table("busy-machine")
    assert "| minBERT | 40 | 60 | 40 | 1.00 | 1.50 | 1.00 |" in table
    assert "| libgomp's own | 50 | 160 | 50 | 1.25 | 4.00 | 1.25 |" in table
    assert "beside 2 programs" in table and "`nice -n 10`" in table and "2 threads" in table
    assert "the median of 2 rounds" in table and "other programs used 0.2 cores" in table


def test_each_way_has_its_own_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(cores.POLICY, "active")
    before = dict(os.environ)
    with environment(WAYS[OURS]):
        assert os.environ[cores.LOOKS] == cores.NUM_LOOKS
        assert cores.POLICY not in os.environ and "OMP_NUM_THREADS" not in os.environ
    assert dict(os.environ) == before


def test_busy_programs_end_with_the_block():
    with busy_machine.busy_programs(0, 0):
        pass
    with pytest.raises(KeyError), busy_machine.busy_programs(1, 0):
        raise KeyError


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="Windows has no niceness")
def test_a_busy_program_has_the_priority_that_was_asked_for(monkeypatch):
    ours = os.nice(0)
    started = []
    popen = subprocess.Popen

    def record(*arguments):
        started.append(popen(*arguments))
        return started[0]

    monkeypatch.setattr(busy_machine.subprocess, "Popen", record)
    with busy_machine.busy_programs(1, 3):
        end = time.monotonic() + 20
        while os.getpriority(os.PRIO_PROCESS, started[0].pid) != min(ours + 3, 19):
            assert time.monotonic() < end
            time.sleep(0.01)
