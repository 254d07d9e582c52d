"""minbert/commands/cores.py: how threads wait, and who else uses the cores."""

from __future__ import annotations

import sys

import pytest

from minbert.commands import cores
from minbert.commands.cores import Reading

# user nice system idle iowait irq softirq steal guest guest_nice
STATISTICS = """\
cpu  600 60 90 9000 9 9 9 5 0 0
cpu0 100 10 20 1000 1 2 3 4 0 0
cpu1 200 20 30 2000 1 2 3 4 0 0
cpu10 300 30 40 6000 1 2 3 4 0 0
intr 1 2 3
""".splitlines()


@pytest.fixture
def environment(monkeypatch):
    """The environment of a fresh program that has not imported torch."""
    monkeypatch.delitem(sys.modules, "torch")
    for name in (cores.LOOKS, cores.POLICY):
        monkeypatch.delenv(name, raising=False)
    return cores.os.environ


def test_waiting_threads_sleep_early(environment):
    cores.limit_waiting()
    assert environment[cores.LOOKS] == cores.NUM_LOOKS


def test_what_the_user_has_set_stays(environment):
    environment[cores.LOOKS] = "7"
    cores.limit_waiting()
    assert environment[cores.LOOKS] == "7"
    del environment[cores.LOOKS]
    environment[cores.POLICY] = "active"
    cores.limit_waiting()
    assert cores.LOOKS not in environment


def test_nothing_is_set_after_torch_has_read_it(environment, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", cores)
    cores.limit_waiting()
    assert cores.LOOKS not in environment


def test_the_ticks_of_our_cores_alone():
    assert cores.used_ticks(STATISTICS, {0}, counts_nice=False) == 100 + 20 + 2 + 3
    assert cores.used_ticks(STATISTICS, {0}, counts_nice=True) == 100 + 10 + 20 + 2 + 3
    assert cores.used_ticks(STATISTICS, {1, 10}, counts_nice=False) == 235 + 345
    with pytest.raises(ValueError, match="no line"):
        cores.used_ticks(STATISTICS, {7}, counts_nice=False)


@pytest.mark.parametrize("content", [None, "", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"])
def test_a_system_that_does_not_tell(content, tmp_path, monkeypatch):
    path = tmp_path / "stat"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(cores, "STATISTICS", str(path))
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert cores.read() is None


def test_a_system_without_affinity_has_no_reading(monkeypatch):
    """macOS and Windows."""
    for name in ("sched_getaffinity", "nice", "sysconf"):
        monkeypatch.delattr(cores.os, name, raising=False)
    assert cores.read() is None
    assert cores.num_usable() >= 1


@pytest.mark.skipif(cores.read() is None, reason="this system does not tell")
def test_our_own_work_is_counted_as_ours():
    before = cores.read()
    end = cores.time.process_time() + 0.05
    while cores.time.process_time() < end:
        pass
    now = cores.read()
    assert now.ours - before.ours >= 0.03
    # The system counts whole ticks of a hundredth of a second.
    assert now.everybody - before.everybody >= 0.01


def test_others_are_everybody_without_us():
    before = Reading(10.0, 50.0, 5.0)
    assert cores.used_by_others(before, Reading(12.0, 54.0, 6.0)) == 1.5
    # Ticks are whole numbers, so a difference may be a little below 0.
    assert cores.used_by_others(before, Reading(12.0, 51.0, 6.1)) == 0.0


def test_others_are_unknown_after_a_moment_or_without_a_reading():
    reading = Reading(10.0, 50.0, 5.0)
    assert cores.used_by_others(reading, Reading(10.1, 51.0, 5.0)) is None
    assert cores.used_by_others(None, reading) is None
    assert cores.used_by_others(reading, None) is None


@pytest.mark.parametrize(
    ("others", "num_threads", "expected"),
    [(None, 4, False), (0.4, 4, False), (0.5, 4, True), (1.9, 2, False), (2.5, 2, True)],
)
def test_crowded_is_half_a_core_too_few(others, num_threads, expected, monkeypatch):
    monkeypatch.setattr(cores, "num_usable", lambda: 4)
    assert cores.are_crowded(others, num_threads) is expected
