"""Commands that make a folder, killed at every rename: the same command again ends well.

A folder that was filled in place would make the second command say "exists".
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import run_multitask
from contrastive.embed import __main__ as embed
from multitask.ensemble import __main__ as ensemble
from multitask.export import __main__ as export
from tests.forked_processes import forked

COMMANDS: dict[str, Callable[[list[Path], Path], int]] = {
    "ensemble": lambda runs, out: ensemble.main([*map(str, runs), "--out", str(out)]),
    "multitask.export": lambda runs, out: export.main(
        [str(runs[0]), "--task", "sst", "--out", str(out)]
    ),
    "embed --export": lambda runs, out: embed.main([str(runs[0] / "model"), "--export", str(out)]),
}


def killed_at(rename: int, act: Callable[[], int]) -> int:
    """The function, killed right before its rename of this number; 0 where it ends before."""
    num_renames = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal num_renames
        if event == "os.rename":
            num_renames += 1
            if num_renames == rename:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)  # in a fork: it can't be taken out again
    return act()


def files_of(folder: Path) -> list[str]:
    """The names of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def runs(tiny_model, sample_data, tmp_path_factory) -> list[Path]:
    """Two runs that other libraries can open."""
    folder = tmp_path_factory.mktemp("runs")
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--output-dir", folder]
    flags += ["--epochs", 1, "--pooling", "pooler", "--common_layer", "none"]
    for name, seed in (("first", 1), ("second", 2)):
        assert run_multitask.main([*map(str, flags), "--name", name, "--seed", str(seed)]) == 0
    return [folder / "first", folder / "second"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_again_ends_well(runs, tmp_path, name):
    def act() -> int:
        return COMMANDS[name](runs, tmp_path / "made" / "out")

    whole = tmp_path / "whole"
    (ended,) = forked(tmp_path, [lambda: COMMANDS[name](runs, whole)])
    assert ended.code == 0, ended.text
    num_kills = 0
    while True:
        rename = num_kills + 1
        (killed,) = forked(tmp_path, [lambda rename=rename: killed_at(rename, act)])
        if killed.code == 0:
            break
        assert killed.code == -signal.SIGKILL, killed.text
        assert not (tmp_path / "made" / "out").exists(), "it stands there, and is not whole"
        num_kills += 1
    # The last command met what all that were killed had left.
    assert num_kills >= 3
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["out"]
    assert files_of(tmp_path / "made" / "out") == files_of(whole)
