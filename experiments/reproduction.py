"""A run trained again from what is recorded, and how its results compare with the first ones."""

from __future__ import annotations

import math
import os
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.numpy import load_file
from scipy.stats import t

from command_line.folders import load
from command_line.reproduction import command_of
from data.options import folder_of_data
from experiments.known_data import describe, digest_of_data, faults_of_command
from experiments.records import (
    RECORDS,
    Record,
    contradictions,
    option_fields,
    read_records,
    split_command,
)
from experiments.run_files import read_record
from experiments.series import COMMAND
from minbert.commands.files import digest_of_file
from minbert.commands.flags import shell_command
from minbert.commands.options import AUTO, flat
from minbert.commands.paths import in_shell
from minbert.commands.plugins import flags_of_named
from minbert.reporting import terminal
from minbert.reporting.differences import holm, is_better_or_worse
from minbert.training.code_version import ROOT, code_version, run_git
from minbert.training.step_log import LOG_FILE, read_log
from multitask.options import PredictionFileOptions

Say = Callable[..., Any]
SAME, OTHER = 0, 1  # exit codes
# The records of one experiment differ in their seed.
EXPERIMENT = ("recipe", "options", "data")
COMPARED_ENTRIES = ("scores", "epochs", "best_step", "stages")


def reproduce(source: str, out: Path, data_dir: Path, start: bool) -> int:
    """Train a run or a record again. Returns 0 where it comes out the same, else 1.

    source: a folder or FILE:LINE. out: for the new run. data_dir and start: for a record, where its
    data are, and whether to train.
    """
    if Path(source).is_dir():
        return reproduce_run(Path(source), out, terminal.say)
    return reproduce_record(source, out, data_dir, start, terminal.say)


# --- a run ----------------------------------------------------------------------------------------


def reproduce_run(folder: Path, out: Path, say: Say) -> int:
    """Train a finished run again, and say "same bits" or where it differs first.

    Raises ValueError where something that the run has read has changed since, or where the files of
    the run contradict each other.
    """
    record = read_record(folder)
    check_inputs(folder, record)
    say(*notes_on(record))
    # All that it writes goes into its folder and the user's cache: the options may be a stranger's,
    # and the first run's own files of predictions must stay.
    usual = flat(PredictionFileOptions()) | {"token_cache": AUTO}
    words = split_command(command_of(load(folder).with_values(**usual)))[2:]
    again = train_again(words, out, folder.resolve().name, record, say)
    differing = differences_of_runs(folder, again)
    if not differing:
        say("same bits: all tensors, all files of predictions and all scores agree.")
        return SAME
    say(f"differs, {first_difference(folder, again)}: {', '.join(differing[:5])}")
    runs = f"{in_shell(folder)} {in_shell(again)}{flags_of_named()}"
    say(f"`python -m multitask.compare {runs}` says whether the scores differ by chance.")
    return OTHER


def check_inputs(folder: Path, record: Mapping[str, Any]) -> None:
    """Raise ValueError for a file that the run has read and that is another one now."""
    for path, digest in record["files"].items():
        if not Path(path).is_file():
            raise ValueError(
                f"{folder}: {path}, which the run has read, is not there. Restore it, or start "
                "this command in the folder where the run was started."
            )
        if digest_of_file(Path(path)) != digest:
            raise ValueError(f"{folder}: {path} has changed since the run read it. Restore it.")
    options = load(folder).flat()
    for name, value in record["options"].items():
        stored = list(options[name]) if isinstance(options.get(name), tuple) else options.get(name)
        if name in options and stored != value:
            raise ValueError(
                f"{folder}: run.json has --{name} {value}, and options.json has {stored}. One of "
                "the two was edited. Restore it."
            )
    for name, digest in record.get("predictions", {}).items():
        task, split = name.rsplit("_", 1)
        path = folder / "predictions" / f"{task}-{split}-output.csv"
        if path.is_file() and digest_of_file(path) != digest:
            raise ValueError(f"{path}: the run did not write this file. Bring it back.")


def notes_on(record: Mapping[str, Any]) -> list[str]:
    """What differs between then and now, and may change the last digits."""
    notes = []
    if record["code"]["sha256"] != code_version()["sha256"]:
        commit = record["code"]["git"][:10]
        notes.append(f"note: the code of minBERT has changed since commit {commit or 'unknown'}")
    if record["versions"].get("python") not in (None, ".".join(map(str, sys.version_info[:3]))):
        notes.append(f"note: it was trained with Python {record['versions']['python']}")
    return notes


def train_again(
    words: Sequence[str], out: Path, name: str, record: Mapping[str, Any], say: Say
) -> Path:
    """Train in a process of its own, with as many threads as then. Returns the new folder.

    words: the flags of run_multitask.py.
    """
    folder = out / name
    if folder.exists():
        raise ValueError(f"{folder} exists. Give another --out, or remove it.")
    threads = str(record["machine"].get("threads", 1))
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    command = [sys.executable, str(COMMAND), *words, "--output-dir", str(out), "--name", name]
    say(f"training again: {shlex.join(command[1:])}")
    terminal.doing("training again")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"{name}.log", "wb") as log:
        code = subprocess.run(command, env=environment, stdout=log, stderr=log).returncode
    if code:
        raise ValueError(
            f"the training ended with exit code {code}; {out / f'{name}.log'} says why."
        )
    return folder


def differences_of_runs(first: Path, second: Path) -> list[str]:
    """What differs between two finished runs: tensors by bits, files by bytes, scores exactly."""
    differing = []
    for path in sorted(first.rglob("*.safetensors")):
        name = path.relative_to(first).as_posix()
        if not (second / name).is_file():
            differing.append(f"{name} is missing")
            continue
        tensors, others = load_file(path), load_file(second / name)
        if tensors.keys() != others.keys():
            differing.append(f"{name} has other tensors")
            continue
        for key, tensor in tensors.items():
            # By bits: nan is equal to itself, and 0 differs from -0.
            if tensor.tobytes() != others[key].tobytes():
                differing.append(f"{name}: {key}")
    for path in sorted((first / "predictions").glob("*")):
        other = second / "predictions" / path.name
        if not other.is_file() or path.read_bytes() != other.read_bytes():
            differing.append(path.name)
    records = read_record(first), read_record(second)
    for entry in COMPARED_ENTRIES:
        if records[0].get(entry) != records[1].get(entry):
            differing.append(f"{entry} in run.json")
    return differing


def first_difference(first: Path, second: Path) -> str:
    """The first step with another loss, from log.csv."""
    steps, others = read_log(first / LOG_FILE), read_log(second / LOG_FILE)
    for step, other in zip(steps, others, strict=False):
        if (step.stage, step.step, step.loss) != (other.stage, other.step, other.loss):
            return f"first at step {step.step} of {step.stage} (loss {step.loss}, now {other.loss})"
    if len(steps) != len(others):
        return f"after {min(len(steps), len(others))} equal steps"
    return "though the losses of all steps agree"


# --- a record -------------------------------------------------------------------------------------


class NamedRecord(NamedTuple):
    """A record of a run, and the others of the same experiment, which have other seeds."""

    record: Record
    siblings: list[Record]


def reproduce_record(source: str, out: Path, data_dir: Path, start: bool, say: Say) -> int:
    """Say what a record needs. With start: train it, and compare with all seeds of its experiment.

    Raises ValueError for a record that contradicts itself, names no commit of the history, or has
    read other data than those in data_dir.
    """
    record, siblings = find_record(source)
    check_record(source, record)
    values = {**record["options"], "seed": record["seed"]}
    command = shell_command(["python", "run_multitask.py"], values)
    device = record["machine"].get("device", "cpu")
    say(
        f"{source}: {record['recipe']}, seed {record['seed']}. It took {record['minutes']} minutes "
        f"and {record['gigabytes']} GB on {device}.",
        f"data: files with the digest {record['data'][:10]}",
        f"commit: {record['code']['git'][:10]}",
        command,
        *notes_on(record),
    )
    data_dir = folder_of_data(data_dir)
    digest = digest_of_data(data_dir, record)
    if digest != record["data"]:
        held = f"has the digest {digest[:10]}" if digest else "does not hold all files of its tasks"
        raise ValueError(
            f"{data_dir} {held}, and the record was made with {record['data'][:10]}. "
            f"{describe(record['data'])}Give the folder of its data as --data-dir."
        )
    if not start:
        say("the data are there. --start trains.")
        return SAME

    flags = [*split_command(command)[2:], "--data-dir", str(data_dir)]
    name = re.sub(r"\W", "-", source)
    again = read_record(train_again(flags, out, name, record, say))["scores"]
    if all(again[score] == value for score, value in record["scores"].items()):
        say("the same scores, to the last digit.")
        return SAME
    outside = unlike_seeds(record, siblings, again)
    for score, value in record["scores"].items():
        say(f"{score}: {value:.4f} in the record, {again[score]:.4f} now")
    if outside is None:
        say("differs. No other seed of this experiment is recorded, so seed noise is not known.")
        return OTHER
    if outside:
        say(f"differs, by more than the seeds of this experiment do: {', '.join(outside)}")
        return OTHER
    say(f"the same within seed noise ({len(siblings) + 1} recorded seeds).")
    return SAME


def find_record(source: str) -> NamedRecord:
    """The record of FILE:LINE. Raises ValueError where there is none of a run."""
    match = re.fullmatch(r"(?:.*/)?([\w-]+?)(?:\.jsonl)?:(\d+)", source)
    if match is None:
        raise ValueError(
            f"{source} is no folder of a run, and no record. Name a record by its file and its "
            "line, such as methods:6."
        )
    # A benchmark's record holds the record of the run that it measured.
    records = [record.get("run", record) for record in read_records(RECORDS / f"{match[1]}.jsonl")]
    number = int(match[2])
    if not 1 <= number <= len(records) or not {"recipe", "data"} <= set(records[number - 1]):
        raise ValueError(f"{source}: no record of a run stands there.")
    record = records[number - 1]
    siblings = []
    for other in records:
        same = all(name in other and other[name] == record[name] for name in EXPERIMENT)
        if same and other["seed"] != record["seed"]:
            siblings.append(other)
    return NamedRecord(record, siblings)


def check_record(source: str, record: Record) -> None:
    """Raise ValueError for a record that contradicts itself or that nobody could run again."""
    faults = [*contradictions(record), *faults_of_command(record)]
    if faults:
        raise ValueError(f"{source}: {'; '.join(faults)}. The record was edited.")
    commit = record["code"]["git"]
    if commit.endswith("-dirty"):
        raise ValueError(f"{source}: its code is in no commit ({commit}), so it can't be repeated.")
    if (ROOT / ".git").exists() and run_git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise ValueError(f"{source}: no commit {commit} is in the history of this clone.")
    known = {item.name for item in option_fields()}
    unknown = sorted(record["options"].keys() - known)
    if unknown:
        raise ValueError(
            f"{source}: --{unknown[0]} is no option of today's version. Use that of the commit."
        )


def unlike_seeds(
    record: Record, siblings: Sequence[Record], again: Mapping[str, float]
) -> list[str] | None:
    """The scores that are further from those of the seeds than a new seed would be.

    It is the t test of one new value against K others, with Holm's correction for the number of
    scores. None: there are no siblings, and one score has no deviation.
    """
    if not siblings:
        return None
    p_values = []
    for score in record["scores"]:
        values = [run["scores"][score] for run in (record, *siblings)]
        deviation = statistics.stdev(values)
        distance = abs(again[score] - statistics.fmean(values))
        if deviation == 0:
            p_values.append(1.0 if distance == 0 else 0.0)
            continue
        statistic = distance / (deviation * math.sqrt(1 + 1 / len(values)))
        p_values.append(float(2 * t.sf(statistic, len(values) - 1)))
    corrected = holm(p_values)
    pairs = zip(record["scores"], corrected, strict=True)
    return [score for score, p_value in pairs if is_better_or_worse(p_value)]
