"""Output collisions: a path that a command is to write to is something else already.

Survived: the command refuses it before any work, in one line, and what stood there is intact.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.commands.ending import BAD_INPUT, DONE
from tools.reliability import children
from tools.reliability.children import Call
from tools.reliability.damaged_tables import stop_before_training
from tools.reliability.targets import TEXT, training
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import Workplace

LONGEST_NAME = 255
Obstacle = Callable[[Path], None]


class Writer(NamedTuple):
    """A command that writes to a path. `{}` in its arguments is the path.

    ending: of the names that it accepts; "" if it makes a folder.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    ending: str = ""
    text: bytes = b""


def make_writers(workplace: Workplace) -> list[Writer]:
    """All commands with an output path."""
    run = str(workplace.places.first)
    model = f"{run}/model"
    table = ("--input", str(workplace.places.data / "ids-sst-dev.csv"))
    sets = ("--sets", str(workplace.places.data / "sts-dev.csv"))
    corpus = ("--corpus", str(workplace.places.corpus))
    other = str(workplace.places.second)
    train = training(workplace.places, "none", output=str(workplace.folder / "none"))
    return [
        Writer("train", "run_multitask", (*train, "--sst_dev_out", "{}"), ".csv"),
        Writer(
            "predict", "multitask.predict", (run, "--task", "sst", *table, "--out", "{}"), ".csv"
        ),
        Writer("embed", "contrastive.embed", (model, "--out", "{}"), ".npy", TEXT),
        Writer("quality", "contrastive.quality", (model, *sets, "--report", "{}"), ".html"),
        Writer("errors", "multitask.errors", (run, "--out", "{}")),
        Writer("ensemble", "multitask.ensemble", (run, other, "--out", "{}")),
        Writer("export", "multitask.export", (run, "--task", "sst", "--out", "{}")),
        Writer("embed --export", "contrastive.embed", (model, "--export", "{}")),
        Writer("pretrain", "minbert.pretraining", (*corpus, "--out", "{}")),
    ]


# --- what stands in the way -----------------------------------------------------------------------


def device(path: Path) -> None:
    """A device, which swallows what is written. Without the rights of root it is a link to one."""
    if os.geteuid() == 0:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    else:
        path.symlink_to(os.devnull)


def pipe(path: Path) -> None:
    """A named pipe without a reader."""
    os.mkfifo(path)


def local_socket(path: Path) -> None:
    """A socket."""
    with socket.socket(socket.AF_UNIX) as server:
        # Its address may be short only.
        before = os.getcwd()
        os.chdir(path.parent)
        server.bind(path.name)
        os.chdir(before)


def full_folder(path: Path) -> None:
    """A folder with a file of the user."""
    path.mkdir()
    (path / "mine.txt").write_text("my own text\n")


def foreign_file(path: Path) -> None:
    """A file that minBERT did not write."""
    path.write_text("my own text\n")


def link_to_file(path: Path) -> None:
    """A link to such a file."""
    target = path.parent / "mine.txt"
    target.write_text("my own text\n")
    path.symlink_to(target)


def hard_link(path: Path) -> None:
    """A second name of such a file."""
    target = path.parent / "mine.txt"
    target.write_text("my own text\n")
    os.link(target, path)


def link_to_nothing(path: Path) -> None:
    """A link that leads nowhere."""
    path.symlink_to(path.parent / "nothing")


def link_to_itself(path: Path) -> None:
    """A link that leads to itself."""
    path.symlink_to(path.name)


OBSTACLES: tuple[Obstacle, ...] = (
    device,
    pipe,
    local_socket,
    full_folder,
    foreign_file,
    link_to_file,
    hard_link,
    link_to_nothing,
    link_to_itself,
)

NUM_INSIDE = 4  # what `paths_inside` returns
NUM_OBSTACLES = len(OBSTACLES) + NUM_INSIDE


def paths_inside(workplace: Workplace, folder: Path, writer: Writer) -> dict[str, Path]:
    """Paths at which nothing may be written, although nothing special stands there."""
    run = folder / "run"
    shutil.copytree(workplace.places.first, run)
    name = f"x{writer.ending}"
    file = folder / "file.txt"
    file.write_text("my own text\n")
    return {
        "in the folder of a run": run / name,
        "in the folder of a model": run / "model" / name,
        "below a file": file / name,
        "a name that is too long": folder / ("x" * LONGEST_NAME + name),
    }


# --- a trial --------------------------------------------------------------------------------------


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Let one command write where something stands."""
    folder.mkdir()
    writer, turn = choose_case(make_writers(workplace), trial)
    names = list(paths_inside(workplace, folder, writer))
    if turn < len(OBSTACLES):
        obstacle = OBSTACLES[turn]
        path = folder / f"output{writer.ending}"
        obstacle(path)
        words = obstacle.__name__.replace("_", " ")
    else:
        words = names[turn - len(OBSTACLES)]
        shutil.rmtree(folder / "run")
        path = paths_inside(workplace, folder, writer)[words]
    before = contents(folder)
    arguments = [word.replace("{}", str(path)) for word in writer.arguments]
    call = Call(writer.module, arguments, stop_before_training, writer.text)
    ending = children.run(call)
    # This one adds its files to a folder that exists.
    is_allowed = writer.name == "errors" and words == "full folder"
    problem = complaint(ending, (DONE, BAD_INPUT) if is_allowed else (BAD_INPUT,))
    after = contents(folder)
    if not problem and not is_allowed and after.keys() != before.keys():
        problem = f"it has left {sorted(after.keys() - before.keys())}"
    if not problem and any(after.get(name) != text for name, text in before.items()):
        problem = "it has changed what stood there"
    if not problem and workplace.is_changed():
        problem = "it has changed one of its inputs"
    return Outcome("output path", f"{writer.name}: {words}", problem)


def choose_case(writers: Sequence[Writer], trial: Trial) -> tuple[Writer, int]:
    """The command of a trial, and the number of what stands in its way. The seed shuffles all."""
    cases = list(itertools.product(writers, range(NUM_OBSTACLES)))
    random.Random(trial.seed).shuffle(cases)
    return cases[trial.number % len(cases)]


def contents(folder: Path) -> dict[str, str]:
    """What stands below a folder: the kind of each entry, and a digest of each file."""
    result = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        text = str(stat.S_IFMT(mode))
        if stat.S_ISREG(mode):
            text = hashlib.sha256(path.read_bytes()).hexdigest()
        result[str(path)] = text
    return result


PART = Part("outputs", "output collisions", 60, 0.2, run_trial)
