"""What all trials work on: a tiny model, a tiny table, finished runs, and undisturbed results."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from minbert.commands.files import write_atomically
from minbert.reporting import curves, pages
from minbert.training import cost_estimate
from tests.killed_runs import ROOT, cut_data, write_tiny_model
from tools.reliability import children
from tools.reliability.children import Call, Ending
from tools.reliability.file_operations import KILL, Fault, watch
from tools.reliability.targets import (
    Places,
    Target,
    call_of,
    facts_of,
    make_targets,
    prepare,
    training,
)

ROWS = {"train": 24, "dev": 12, "test": 6}
TRAINING = "mlm, simcse, multitask"  # the target that other trials use
CHECKPOINT = "replace /run/checkpoint/multitask/state.json"


class Undisturbed(NamedTuple):
    """A target without any fault. facts: what it leaves. operations: its changes of files."""

    facts: dict[str, str]
    operations: list[str]
    seconds: float


class Workplace:
    """A folder with all that the trials read. It is made once and never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = Places(
            folder / "data",
            folder / "model",
            folder / "corpus.txt",
            folder / "first" / "run",
            folder / "second" / "run",
        )
        self.targets = {target.name: target for target in make_targets(self.places)}
        self.undisturbed: dict[str, Undisturbed] = {}
        # What commands print when they read whole files, by name of the command.
        self.outputs: dict[str, str] = {}

    def make_tables(self) -> None:
        """Write the tables and the model into a new folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        places = self.places
        cut_data(ROOT / "data" / "sample", places.data, ROWS)
        sentences = (places.data / "ids-sst-train.csv").read_text(encoding="utf-8").splitlines()
        corpus = [line.split("\t")[-1] for line in sentences[1:]]
        places.corpus.write_text("\n".join(corpus * 8) + "\n", encoding="utf-8")
        in_child(lambda: write_tiny_model(places.model, places.data))

    def make(self, say: Callable[[str], Any]) -> None:
        """Write everything, and run every target once without a fault."""
        self.make_tables()
        leave_out_slow_extras()
        places = self.places
        say("importing everything once")
        for run, seed in ((places.first, "1"), (places.second, "2")):
            # This vector and the usual head are what multitask.export can write.
            flags = ("--pooling", "cls", "--seed", seed)
            call = Call("run_multitask", training(places, "simcse", *flags, output=str(run.parent)))
            if seed == "1":
                children.preload(call)
                shutil.rmtree(run.parent, ignore_errors=True)
            must_be_done(children.run(call))
        for target in self.targets.values():
            say(f"without a fault: {target.name}")
            self.undisturbed[target.name] = self.run_undisturbed(target)
        say("a killed run and a token cache")
        self.killed = self.make_killed()
        self.tokens = self.make_tokens()
        self.inputs = stamps(self.folder)

    def run_undisturbed(self, target: Target) -> Undisturbed:
        """Run a target once to import all that it needs, and once to note what it does."""
        place = self.left_by(target.name)
        prepare(target, place)
        children.preload(call_of(target, place))
        shutil.rmtree(place)
        prepare(target, place)
        listing = place.with_name(f"{place.name}-operations.txt")
        log = os.open(listing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        call = call_of(target, place)
        call = call._replace(before=in_turn(call.before, watch(place, log=log)))
        ending = must_be_done(children.run(call))
        os.close(log)
        operations = listing.read_text(encoding="utf-8").splitlines()
        return Undisturbed(facts_of(target, place, ending.output), operations, ending.seconds)

    def left_by(self, name: str) -> Path:
        """The folder of what a target has left without a fault."""
        return self.folder / "undisturbed" / name.replace(", ", "-")

    def make_killed(self) -> Path:
        """A run that was killed near its end, with a checkpoint. Returns its folder."""
        target = self.targets[TRAINING]
        operations = self.undisturbed[TRAINING].operations
        saved = [place for place, name in enumerate(operations, 1) if CHECKPOINT in name]
        place = self.folder / "killed"
        prepare(target, place)
        stop = watch(place, Fault(saved[-2] + 1, KILL))
        children.run(call_of(target, place)._replace(before=stop))
        return place / "run"

    def make_tokens(self) -> Path:
        """A cache of the token ids of a run. Returns its folder."""
        place = self.folder / "cached"
        words = list(training(self.places, "distill", output=str(place)))
        words[words.index("--token_cache") + 1] = str(place / "tokens")
        must_be_done(children.run(Call("run_multitask", words)))
        return place / "tokens"

    def is_changed(self) -> bool:
        """Whether a file of the workplace has changed since it was made."""
        return stamps(self.folder) != self.inputs


def leave_out_slow_extras() -> None:
    """Let all commands write empty pictures, and not measure the machine.

    In a tiny run they take half of the time. Every file is written all the same.
    """
    cost_estimate.matrix_product_limit = lambda *settings: 1e12
    pages.svg = lambda plot, name: "<svg></svg>"

    def write_png(path: Path, plots: Any, title: str = "") -> None:
        write_atomically(path, lambda beside: beside.write_bytes(b"no picture"))

    curves.write_png = write_png


def in_child(work: Callable[[], Any]) -> None:
    """Do some work in a process of its own, so that this one never computes."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError("the files of the trials could not be written; see the line above.")


def in_turn(*functions: Callable[[], None] | None) -> Callable[[], None]:
    """One function that calls several, where they are not None."""

    def call() -> None:
        for function in functions:
            if function is not None:
                function()

    return call


def must_be_done(ending: Ending) -> Ending:
    """Raise RuntimeError unless a command without a fault has succeeded."""
    if ending.code != 0:
        raise RuntimeError(
            f"{ending.name} ended with {ending.code} although nothing disturbed it:\n"
            f"{ending.output[-1000:]}\n{ending.errors[-1000:]}"
        )
    return ending


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of each file below a folder."""
    result = {}
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            result[str(path)] = (status.st_size, status.st_mtime_ns)
    return result
