"""A series of runs: recipes times seeds, with the folder and the command of each run."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from experiments.flags import parse_flags
from experiments.recipes import values_of
from minbert.commands.ending import BAD_INPUT, DEFECT, DIVERGED, STOPPED

PR_SET_PDEATHSIG = 1  # of Linux' prctl: the signal that a process gets when its parent ends
COMMAND = Path(__file__).resolve().parent.parent / "run_multitask.py"


def advice_after(code: int) -> str:
    """What to do after a process of a series that ended with another exit code than 0."""
    if code in (DIVERGED, BAD_INPUT):
        # The same command would fail in the same way.
        return "Correct what the message names. Then start the same command again."
    if code == DEFECT:
        return "The message names a file with the traceback. Please report it."
    return "The same command goes on from here."


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of --seeds, such as "0,1,2".

    Raises ValueError for what is no number, and for a seed that is there twice.
    """
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise ValueError(f"--seeds is '{text}'; it is whole numbers, separated by commas.")
    seeds = tuple(map(int, words))
    # 1 and 01 are the same seed.
    for seed in seeds:
        if seeds.count(seed) > 1:
            raise ValueError(
                f"--seeds: {seed} is given twice, and would count twice. Name each seed once."
            )
    return seeds


class Arm(NamedTuple):
    """A row of the table that is no recipe: its name, and its own flags of run_multitask.py."""

    name: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """Every recipe, and every arm of the user, is run with every seed.

    names: recipes or comparisons of recipes.py, and the names of the arms.
    out: the folder that holds the folders of all runs.
    flags: flags of run_multitask.py that every run gets.
    arms: those of --arm.
    """

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    out: Path
    flags: tuple[str, ...]
    arms: tuple[Arm, ...] = ()

    def is_arm(self, name: str) -> bool:
        """Return whether a name is that of an arm, and not of a recipe."""
        return any(arm.name == name for arm in self.arms)

    def recipe_of(self, name: str) -> str:
        """Return what a run of this name has as --recipe."""
        return "none" if self.is_arm(name) else name

    def flags_of(self, name: str) -> tuple[str, ...]:
        """Return the flags of all runs, and those of the arm."""
        flags = list(self.flags)
        for arm in self.arms:
            if arm.name == name:
                flags += arm.flags
        return tuple(flags)

    def folder(self, name: str, seed: int) -> Path:
        """Return the folder of one run."""
        return self.out / f"{name}-seed{seed}"

    def folders(self, name: str) -> list[Path]:
        """Return the folders of all runs of a recipe, seed by seed."""
        return [self.folder(name, seed) for seed in self.seeds]

    def expected_options(self, name: str) -> dict[str, Any]:
        """Return the options that a recipe and the flags set. The flags win, as in a run."""
        of_recipe = {} if self.is_arm(name) else values_of(name)
        return {**of_recipe, **parse_flags(self.flags_of(name))}

    def command(self, name: str, seed: int) -> list[str] | None:
        """Return the command that brings one run to its end, or None where it is finished."""
        folder = self.folder(name, seed)
        flags = ["--recipe", self.recipe_of(name), "--seed", str(seed)]
        flags += ["--output-dir", str(folder.parent), "--name", folder.name]
        return command_of(folder, [*flags, *self.flags_of(name)])


def command_of(folder: Path, flags: Sequence[str]) -> list[str] | None:
    """Return the command that brings a run to its end, or None where it is finished.

    folder: of the run. flags: of run_multitask.py, for a run that has not begun.
    """
    if (folder / "run.json").is_file():
        return None
    is_begun = (folder / "options.json").is_file()
    if not is_begun:
        return [sys.executable, str(COMMAND), *flags]
    # A run does not run its plugins by itself.
    plugins = parse_flags(flags).get("plugin", "").split()
    named = [f"--plugin={path}" for path in plugins]
    return [sys.executable, str(COMMAND), "--resume", str(folder), *named]


def stop_with_parent() -> None:
    """Called in a new process: it gets SIGTERM when this program ends, also after a kill.

    Otherwise the run would go on alone, and the same command could not continue it. Only Linux can
    do this.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run_process(command: list[str], log: Path) -> int:
    """Run a command to its end and return its exit code. Its output is added to the file `log`.

    A signal gives the code that a shell gives, such as 137. SIGTERM gives that of a stop.

    Ctrl-C in a terminal reaches the process by itself. SIGTERM reaches only this program, which
    passes it on. In both cases the process gets the time to save.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, preexec_fn=stop_with_parent)

    # Without this, SIGTERM would end this program, and the run would go on alone.
    handler_before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = process.wait()
    finally:
        # After Ctrl-C: the run is saving.
        process.wait()
        signal.signal(signal.SIGTERM, handler_before)
    if code == -signal.SIGTERM:
        # It came before the program could answer to it.
        return STOPPED
    return code if code >= 0 else 128 - code
