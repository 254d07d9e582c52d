"""Disk faults: a file operation fails, a disk is full, or the folder cannot be written.

Survived: one line that says so, exit code 2, what stood there before is intact, and the same bits
once the disk is well again. An operation that only cleans up may fail without a word.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minbert.commands.ending import BAD_INPUT
from tools.reliability import children
from tools.reliability.file_operations import NO_SPACE_NEEDED, Fault, name_of, watch
from tools.reliability.kills import (
    choose_operation,
    choose_target,
    continue_and_compare,
    targets_of,
)
from tools.reliability.targets import Target, call_of, prepare
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import Workplace, in_turn

ERRORS = (errno.ENOSPC, errno.EIO)
# Bytes of a file that may not grow further, and bytes that are free on a small disk: from, to.
LIMITS = (16, 200_000)
FREE = (4096, 1_000_000)
# A disk that no trial fills.
WIDE = 2**30


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Most trials fail at one operation. The others have limits of the system itself."""
    if trial.number % 16 == 6:
        return limited_files(workplace, trial, folder)
    if trial.number % 16 == 14:
        return full_disk(workplace, trial, folder)
    if trial.number % 8 == 7:
        return unwritable(workplace, trial, folder)
    return failing_operation(workplace, trial, folder)


def failing_operation(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """One operation fails, or this one and all later ones."""
    other = trial._replace(seed=trial.seed + 1)
    _, target, operation = choose_operation(workplace, trial.number, other)
    name = workplace.undisturbed[target.name].operations[operation - 1]
    error = ERRORS[trial.number % len(ERRORS)]
    if name.startswith(NO_SPACE_NEEDED):
        error = errno.EIO
    lasts = trial.number // 2 % 2 == 0
    prepare(target, folder)
    fault = watch(folder, Fault(operation, error, lasts))
    problem = with_fault(workplace, target, folder, fault)
    length = "from then on" if lasts else "once"
    action = f"{target.name}: {name_of(error)} at file operation {operation}, {name}, {length}"
    return Outcome(f"{name_of(error)} {length}", action, problem)


def limited_files(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """No file may grow beyond a few bytes: the system itself refuses to write more."""
    target = choose_target(targets_of(workplace, trial), trial.chance)
    size = draw_size(trial, *LIMITS)
    prepare(target, folder)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    problem = with_fault(workplace, target, folder, limit)
    return Outcome("RLIMIT_FSIZE", f"{target.name}: no file above {size:,} bytes", problem)


def draw_size(trial: Trial, smallest: int, largest: int) -> int:
    """A number of bytes. Each order of magnitude is equally likely."""
    return int(smallest * (largest / smallest) ** trial.chance.random())


def full_disk(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """A small disk of its own becomes full. Where no disk may be mounted, files are limited."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    if not mount(disk):
        return limited_files(workplace, trial, folder)
    target = choose_target(targets_of(workplace, trial), trial.chance)
    num_free = draw_size(trial, *FREE)
    place = disk / "trial"
    with mounted(disk):
        prepare(target, place)
        usage = shutil.disk_usage(disk)
        resize(disk, usage.used + num_free)
        problem = complaint(children.run(call_of(target, place)))
        resize(disk, WIDE)
        problem = problem or continue_and_compare(workplace, target, place)
    return Outcome("a full disk", f"{target.name}: {num_free:,} bytes are free", problem)


def mount(disk: Path) -> bool:
    """Put a file system in memory on a folder. False where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={WIDE}", "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True).returncode == 0


def resize(disk: Path, size: int) -> None:
    """Give the file system a size in bytes. The system rounds it up to whole pages."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@contextmanager
def mounted(disk: Path) -> Iterator[None]:
    """Take the file system away at the end of the `with` block, with all that it holds."""
    try:
        yield
    finally:
        children.kill_all()
        subprocess.run(["umount", str(disk)], check=True)


def with_fault(
    workplace: Workplace, target: Target, folder: Path, fault: Callable[[], None]
) -> str:
    """Run a target with a fault, then without it. Returns the problem, "" if there is none."""
    call = call_of(target, folder)
    ending = children.run(call._replace(before=in_turn(call.before, fault)))
    problem = complaint(ending)
    return problem or continue_and_compare(workplace, target, folder)


# --- folders that cannot be written ---------------------------------------------------------------


def unwritable(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """The folder of the output is no folder, or a folder of somebody else."""
    target = choose_target(targets_of(workplace, trial), trial.chance)
    # The page is written where it is read.
    if target.name == "pages":
        target = workplace.targets["errors"]
    name, damage = UNWRITABLE[trial.number // 8 % len(UNWRITABLE)]
    folder.mkdir()
    place = folder / "place"
    before = damage(place)
    listing = sorted(os.listdir(folder))

    call = call_of(target, place / "below")
    ending = children.run(call._replace(before=before))
    problem = complaint(ending, (BAD_INPUT,))
    if not problem and listing != sorted(os.listdir(folder)):
        problem = f"it has left {sorted(os.listdir(folder))}"
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome("unwritable folder", f"{target.name}: {name}", problem)


def a_file(place: Path) -> None:
    """A file stands where a folder is expected."""
    place.write_text("a file")


def a_link_to_nothing(place: Path) -> None:
    """A link leads nowhere."""
    place.symlink_to(place.parent / "nothing")


def a_folder_of_root(place: Path) -> Callable[[], None]:
    """A folder that only its owner may write. A child of root gives up its rights."""
    place.mkdir()
    place.chmod(0o555)

    def become_nobody() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)

    return become_nobody


def too_long(place: Path) -> None:
    """Below it is a name that no file system allows."""
    place.symlink_to("x" * 255)


UNWRITABLE: tuple[tuple[str, Callable[[Path], Callable[[], None] | None]], ...] = (
    ("its folder is a file", a_file),
    ("its folder is a link to nothing", a_link_to_nothing),
    ("its folder is read-only", a_folder_of_root),
    ("its folder is a link to an impossible name", too_long),
)

PART = Part("disk", "disk faults", 400, 1.4, run_trial)
