"""Damaged files: one file that a command reads is changed by chance.

A file of somebody else may say anything: the command then works, or refuses it in one line. A file
that minBERT wrote and reads again has a digest or a checksum. If it is changed, the command says
so, or the change has no effect at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.commands.ending import BAD_INPUT, DONE
from tools.reliability import children
from tools.reliability.children import Call, Ending
from tools.reliability.kills import compare
from tools.reliability.mutations import mutations_of
from tools.reliability.targets import TEXT, call_of, differences, facts_of, training
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import TRAINING, Workplace

DISTILLATION = "distill, multitask"


class Reader(NamedTuple):
    """A command that reads files.

    source: the folder that is copied. files: patterns of the files that are damaged. call: makes
    the call, from the workplace, the trial's folder and the copy. expected: what must be the same
    where the command succeeds: "output" is what it prints, "run" is all that a run leaves,
    "results" is only its results, and "any" stands for nothing.
    """

    name: str
    source: Callable[[Workplace], Path]
    files: tuple[str, ...]
    call: Callable[[Workplace, Path, Path], Call]
    expected: str


def predict(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Predict with a damaged run."""
    return Call("multitask.predict", [str(copy), "--task", "sst", "--probabilities"], text=TEXT)


def errors(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Look at the mistakes of a damaged run."""
    return Call("multitask.errors", [str(copy), "--out", str(folder / "errors")])


def ensemble(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Join a damaged run with another one."""
    runs = [str(copy), str(workplace.places.second)]
    return Call("multitask.ensemble", [*runs, "--out", str(folder / "joined")])


def export(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Export a damaged run."""
    words = [str(copy), "--task", "sst", "--out", str(folder / "exported")]
    return Call("multitask.export", words)


def embed(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Vectors of a damaged model."""
    return Call("contrastive.embed", [str(copy), "--nearest", "1"], text=TEXT)


def nearest(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Search in damaged vectors."""
    words = [str(workplace.places.first / "model"), "--vectors", str(copy / "vectors.npy")]
    return Call("contrastive.embed", [*words, "--nearest", "1"], text=TEXT)


def check(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Score a damaged leaderboard file."""
    words = [str(copy / "sst-dev-output.csv"), "--data-dir", str(workplace.places.data)]
    return Call("multitask.check", words)


def pages(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Write the tables of a damaged page."""
    return call_of(workplace.targets["pages"], copy)


def resume(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """Continue a killed run of which a file is damaged."""
    run = folder / "run"
    copy.rename(run)
    return Call("run_multitask", ["--resume", str(run)])


def reuse(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """A new run beside a finished one, whose encoder it would use."""
    copy.rename(folder / "older")
    words = training(workplace.places, "mlm,simcse", output=str(folder))
    return Call("run_multitask", words)


def tokens(workplace: Workplace, folder: Path, copy: Path) -> Call:
    """A run that reads damaged token ids."""
    words = list(training(workplace.places, "distill", output=str(folder)))
    words[words.index("--token_cache") + 1] = str(copy)
    return Call("run_multitask", words)


MODEL = (
    "model/config.json",
    "model/heads.json",
    "model/heads.safetensors",
    "model/model.safetensors",
    "model/sentence.json",
    "model/tokenizer*.json",
    "model/*.txt",
)
ENCODER = ("encoder*/*.json", "encoder*/*.safetensors", "encoder*/*.txt")
KILLED = ("options.json", "cost_estimate.json", "checkpoint/*/*", *ENCODER)


def first_run(workplace: Workplace) -> Path:
    """A finished run."""
    return workplace.places.first


READERS = (
    Reader("resume", lambda place: place.killed, KILLED, resume, "run"),
    Reader("reuse", lambda place: place.left_by(TRAINING) / "run", ENCODER, reuse, "results"),
    Reader("predict", first_run, ("run.json", *MODEL), predict, "output"),
    Reader("errors", first_run, ("run.json", *MODEL), errors, "output"),
    Reader("ensemble", first_run, ("run.json", *MODEL), ensemble, "output"),
    Reader("export", first_run, ("run.json", *MODEL), export, "output"),
    Reader("embed, a model", lambda place: place.places.model, ("*",), embed, "any"),
    Reader("embed, vectors", lambda place: place.left_by("embed"), ("*",), nearest, "any"),
    Reader("check", lambda place: first_run(place) / "predictions", ("sst-dev*",), check, "any"),
    Reader("pages", lambda place: place.left_by("pages"), ("*.md",), pages, "any"),
    Reader("token cache", lambda place: place.tokens, ("*.npz",), tokens, "results"),
)


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Damage one file of a copy, and let a command read it."""
    chance = trial.chance
    reader = READERS[trial.number % len(READERS)]
    folder.mkdir()
    copy = folder / "copy"
    shutil.copytree(reader.source(workplace), copy, symlinks=True)
    path = chance.choice(matching(copy, reader.files))
    mutation = chance.choice(mutations_of(path.name))
    name = str(path.relative_to(copy))
    content = path.read_bytes()
    path.write_bytes(mutation(content, chance))
    action = f"{reader.name}: {mutation.__name__} in {name}"

    ending = children.run(reader.call(workplace, folder, copy))
    codes = (DONE, BAD_INPUT, 1) if reader.name == "check" else (DONE, BAD_INPUT)
    problem = complaint(ending, codes)
    if not problem and ending.code == DONE:
        problem = silent_damage(workplace, reader, folder, ending)
    return Outcome(f"read by {reader.name}", action, problem)


def matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """All files that match one of the patterns."""
    paths = []
    for pattern in patterns:
        paths += [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    return paths


def silent_damage(workplace: Workplace, reader: Reader, folder: Path, ending: Ending) -> str:
    """What a damaged file of ours has changed in a result without a word; "" if nothing."""
    problem = ""
    if reader.expected == "run":
        problem = compare(workplace, workplace.targets[TRAINING], folder, ending)
        # The record leaves out the scores of an earlier stage whose encoder is damaged.
        if "is not reused (" in ending.output and problem == "run.json: stages differs":
            problem = ""
    elif reader.expected == "results":
        name = DISTILLATION if reader.name == "token cache" else TRAINING
        facts = facts_of(workplace.targets[name], folder)
        expected = workplace.undisturbed[name].facts
        problem = differences(results(expected), results(facts))
    elif reader.expected == "output" and without(folder, ending) != whole(workplace, reader):
        problem = "it prints other results"
    return f"silent damage: {problem}" if problem else ""


def results(facts: dict[str, str]) -> dict[str, str]:
    """The scores, predictions and weights of a run, wherever its encoder comes from."""
    chosen = {}
    for name, fact in facts.items():
        is_result = name.startswith(("run/predictions", "run/model", "run.json: scores"))
        if is_result and fact != "is there":
            chosen[name] = fact
    return chosen


def whole(workplace: Workplace, reader: Reader) -> str:
    """What a command prints when it reads whole files. It is asked once."""
    if reader.name not in workplace.outputs:
        folder = workplace.folder.parent / "whole"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(reader.source(workplace), folder / "copy", symlinks=True)
        ending = children.run(reader.call(workplace, folder, folder / "copy"))
        workplace.outputs[reader.name] = without(folder, ending)
    return workplace.outputs[reader.name]


def without(folder: Path, ending: Ending) -> str:
    """What a command has printed, without the names of the trial's folder."""
    return ending.output.replace(str(folder), "")


PART = Part("files", "mutated files", 2000, 0.5, run_trial)
