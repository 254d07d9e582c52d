"""tools/benchmarks/bit_flips.py: one turned bit in each kind of file that a run reads again."""

from __future__ import annotations

from tools.benchmarks import bit_flips
from tools.benchmarks.bit_flips import Counts, Kind, make_kinds, make_records, try_flips


def test_no_damage_is_silent(tmp_path):
    """All kinds of files. The command tries more flips."""
    kinds = make_kinds(tmp_path)
    assert len({kind.name for kind in kinds}) == len(kinds) == 27
    for kind in kinds:
        before = kind.path.read_bytes()
        counts = try_flips(kind, 10, seed=1)
        assert counts.silent == 0 and sum(counts) == 10, kind.name
        assert kind.path.read_bytes() == before


def test_silent_damage_is_counted(tmp_path):
    """The negative control: a reader that checks nothing."""
    path = tmp_path / "a"
    path.write_bytes(b"text")
    assert try_flips(Kind("bytes", path, path.read_bytes), 5, seed=0) == Counts(0, 0, 5)
    assert try_flips(Kind("nothing", path, lambda: 1), 5, seed=0) == Counts(0, 5, 0)


def test_the_command_goes_on_where_it_was_stopped(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(bit_flips, "make_kinds", lambda folder: make_records(folder))
    words = ["--flips", "1", "--out", str(tmp_path / "counts.jsonl")]
    assert bit_flips.main(words) == 0
    assert "run.json " in capsys.readouterr().out
    lines = (tmp_path / "counts.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "counts.jsonl").write_text("".join(lines[:2]))
    tried = []
    monkeypatch.setattr(
        bit_flips, "try_flips", lambda kind, *rest: tried.append(kind.name) or Counts(1, 0, 0)
    )
    assert bit_flips.main(words) == 0
    assert tried == ["cost_estimate.json", "data file", "predictions"]
    (tmp_path / "notes.txt").write_text("mine")
    assert bit_flips.main([*words[:3], str(tmp_path / "notes.txt")]) == 2
    assert "minBERT may not have written it" in capsys.readouterr().err
