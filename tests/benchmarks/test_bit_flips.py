"""benchmarks/bit_flips.py: one turned bit in each kind of file that a run reads again."""

from __future__ import annotations

from benchmarks import bit_flips
from benchmarks.bit_flips import Counts, Kind, make_kinds, try_flips


def test_no_damage_is_silent(tmp_path, no_fsync):
    """All eight kinds of files. The command tries more flips."""
    kinds = make_kinds(tmp_path)
    assert len(kinds) == 8
    for kind in kinds:
        before = kind.path.read_bytes()
        counts = try_flips(kind, 40, seed=1)
        assert counts.silent == 0 and sum(counts) == 40, kind.name
        assert kind.path.read_bytes() == before


def test_silent_damage_is_counted(tmp_path):
    """The negative control: a reader that checks nothing."""
    path = tmp_path / "a"
    path.write_bytes(b"text")
    assert try_flips(Kind("bytes", path, path.read_bytes), 5, seed=0) == Counts(0, 0, 5)
    assert try_flips(Kind("nothing", path, lambda: 1), 5, seed=0) == Counts(0, 5, 0)


def test_the_command_says_what_it_tried(capsys, no_fsync):
    assert bit_flips.main(["--flips", "1"]) == 0
    assert "token cache" in capsys.readouterr().out
