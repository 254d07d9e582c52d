"""Records of measured runs: one line of JSON for each, in experiments/records/*.jsonl.

A run that is meant to be stated somewhere gets a record. The tables of measured numbers in the
documents are written from the records (tools/tables), so no number is copied by hand. Every line
holds a digest of its content, so a number in it is not edited by hand either.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import Field
from datetime import date
from pathlib import Path
from typing import Any

from command_line.options import Options
from experiments.run_files import dev_scores
from minbert.commands.locks import locked
from minbert.commands.options import NONE, all_fields

RECORDS = Path(__file__).parent / "records"
# Options that say where a run and its data are. A digest stands for the content of the data.
PLACES = ("name", "output_dir", "data_dir", "token_cache", "seed", "recipe")
BYTES_PER_GB = 1e9
# With these options, the model of the scores is none of those after an epoch.
CHANGED_AFTER_EPOCHS = {"soup", "single_task_epochs"}
COURSE_TASKS = ("sst", "para", "sts")
DIGEST = "digest"
# What makes the records of a file. Every other file holds runs of `python -m experiments`.
COMMANDS = {
    "bit-flips": "python -m tools.benchmarks.bit_flips --record",
    "benchmarks": "python -m tools.benchmarks all --data-dir DIR --record",
    "busy-machine": "python -m tools.benchmarks.busy_machine --record",
    "calibration": "python -m tools.calibration --record",
    "course-ensembles": "python -m tools.tables.ensembles DIR --title TITLE",
    "default-job": "python -m tools.benchmarks.default_job --record",
    "installs": "python -m tools.benchmarks.installs --python PATH... --record",
    "onnx-installs": "python -m tools.benchmarks.installs --onnx FOLDER --python PATH... --record",
    "kill-resume": "python -m tools.benchmarks.kill_resume --record",
    "own-tables": "python -m tools.benchmarks.own_tables TABLE... --out DIR --record",
    "large": "python -m tools.benchmarks.large NAME... --record",
    "papers": "python -m experiments.papers NAME... --model MODEL --sets FILE... --record",
    "phases": "python -m tools.benchmarks.phases --record",
    "profiles": "python -m tools.benchmarks.profiles NAME --data-dir DIR --record",
    "readable": "python -m tools.benchmarks.readable --data-dir DIR --out FILE --record",
    "real-sentences": "python -m tools.benchmarks.real_sentences RUN --course DIR --record",
    "reports": "python -m tools.tables.reports rob gen --data-dir DIR --nli FILE",
    "reliability": "python -m tools.reliability --record",
    "round-trips": "python -m tools.benchmarks.round_trips",
    "sample-grades": "python -m tools.sample.sample_grades --sources DIR --out DIR ... --record",
    "sample-parts": "python -m tools.sample.sample_parts --course DIR --out DIR --record",
    "sample-shares": "python -m tools.benchmarks.real_sentences RUN --course DIR --binary FILE "
    "--label PAIR --record sample-shares",
    "scaling": "python -m tools.benchmarks.scaling --data-dir DIR --record",
    "vector-seconds": "python -m tools.benchmarks.vector_seconds --sets FILE --data-dir DIR "
    "--record",
}

Record = dict[str, Any]


def record_of(run: Mapping[str, Any], day: date) -> Record:
    """Return the record of a finished run.

    run: the content of its run.json. day: on which it is recorded. The record holds the recipe, the
    command that starts the run again, the seed, the options that differ from their defaults, a
    digest of the data, the SHA-256 of each file of --plugin, scores after the best and after each
    epoch (of training rows, too, where --score_train asked for them), the scores before and after
    each stage of --pretrain, the ingredients of --soup, machine, versions, commit, minutes and
    gigabytes.
    """
    options = run["options"]
    actual = run["actual"]
    parts = ("train_scores", "stages", "soup", "intervals", "against_tfidf")
    parts_of_some_runs = {name: run[name] for name in parts if run.get(name)}
    # A run that was resumed was last started with --resume. Older runs have no other command.
    command = split_command(run.get("reproduction", "")) or run.get("command", [])
    return {
        "recipe": options.get("recipe", NONE),
        "command": without_folders(command),
        "seed": options["seed"],
        "options": changed_options(options),
        "data": data_digest(data_files(run)),
        **plugin_digests(run),
        "scores": run["scores"],
        "trained": list(dev_scores(dict(run))),
        "epochs": run["epochs"],
        **parts_of_some_runs,
        "baselines": run["baselines"],
        "minutes": round(actual["seconds"] / 60, 2),
        "gigabytes": round(actual["peak_memory"] / BYTES_PER_GB, 2),
        "machine": run["machine"],
        "versions": run["versions"],
        "code": run["code"],
        "date": day.isoformat(),
    }


def split_command(command: str) -> list[str]:
    """Return the words of a command that a backslash may continue on the next line."""
    return shlex.split(command.replace("\\\n", " "))


def without_folders(words: Sequence[str]) -> str:
    """Return a command without the folders of one machine: of a whole path its last name stays."""
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def changed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, without those that only name a place.

    Paths of files are left out, too: `data_digest` stands for their content. The options of a
    plugin have no defaults here, because its file is not loaded. So all of them are returned.
    """
    defaults = default_options()
    unrecorded = unrecorded_options()
    changed = {}
    for name, value in options.items():
        if name in unrecorded or (name in defaults and as_stored(value) == defaults[name]):
            continue
        changed[name] = value
    return changed


def default_options() -> dict[str, Any]:
    """Return the default of every option, by name, as JSON stores it."""
    return {item.name: as_stored(item.default) for item in option_fields()}


def unrecorded_options() -> set[str]:
    """Return the options that only say where a run and its files are."""
    files = [item.name for item in option_fields() if item.metadata["is_file"]]
    return {*PLACES, *files}


def option_fields() -> list[Field]:
    """Return the fields of all options."""
    return list(all_fields(Options))


def as_stored(value: Any) -> Any:
    """Return a value as JSON stores it, which has lists in place of tuples."""
    return list(value) if isinstance(value, tuple) else value


def data_files(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of the data files of a run, by path. run: the content of its run.json."""
    plugins = run["options"].get("plugin", ())
    return {path: sha256 for path, sha256 in run["files"].items() if path not in plugins}


def plugin_digests(run: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return {"plugins": SHA-256 of each file of --plugin by name}, or {} for a run without."""
    data = data_files(run)
    plugins = {Path(path).name: sha for path, sha in run["files"].items() if path not in data}
    return {"plugins": plugins} if plugins else {}


def data_digest(files: Mapping[str, str]) -> str:
    """Return one SHA-256 for all data files of a run, whatever their folders are.

    files: the SHA-256 of each file by its path.
    """
    digest = hashlib.sha256()
    for name, sha256 in sorted((Path(path).name, sha256) for path, sha256 in files.items()):
        digest.update(f"{name} {sha256}\n".encode())
    return digest.hexdigest()


def check_committed(code: Mapping[str, str]) -> None:
    """Raise ValueError for code that is in no commit: nobody could run it again.

    code: of code_version.
    """
    if code["git"].endswith("-dirty"):
        raise ValueError(
            f"the code has changed since commit {code['git'].removesuffix('-dirty')}, and a record "
            "must name code that others have. Commit the changes, and measure again."
        )


def contradictions(record: Mapping[str, Any]) -> list[str]:
    """Return what does not fit together in the record of a run: a score was edited, or is wrong.

    The overall score is the mean of the tasks. The scores are those of the best epoch, but for a
    mean of several models, and for what was trained afterwards.
    """
    scores = record.get("scores", {})
    faults = []
    if scores.keys() >= {*COURSE_TASKS, "overall_2023"}:
        mean = sum(scores[task] for task in COURSE_TASKS) / len(COURSE_TASKS)
        if not math.isclose(mean, scores["overall_2023"], abs_tol=1e-9):
            faults.append("overall_2023 is not the mean of the three tasks")

    options = record.get("options", {})
    epochs = record.get("epochs", [])
    # A benchmark may record their number alone.
    is_of_tasks = isinstance(epochs, list) and options.get("contrastive_order") != "last"
    if is_of_tasks and epochs and not CHANGED_AFTER_EPOCHS & options.keys():
        names = epochs[0].keys() & scores.keys()
        of_epochs = []
        for epoch in epochs:
            of_epochs.append([epoch[name] for name in names])
        if [scores[name] for name in names] not in of_epochs:
            faults.append("the scores are those of no epoch")
        faults += worse_than_an_epoch(options.get("score", ""), scores, epochs)
    return faults


def worse_than_an_epoch(
    selected_by: str, scores: Mapping[str, float], epochs: Sequence[Mapping[str, float]]
) -> list[str]:
    """Return a fault where an epoch has a higher score than the one that was kept.

    selected_by: the score that chooses the epoch, as far as the record says it.
    """
    if selected_by not in scores or selected_by not in epochs[0]:
        return []
    if max(epoch[selected_by] for epoch in epochs) > scores[selected_by]:
        return [f"another epoch has a higher {selected_by}, which chose the epoch"]
    return []


# --- on disk --------------------------------------------------------------------------------------


def command_of(path: Path) -> str:
    """Return the command that adds records to a file."""
    return COMMANDS.get(path.stem, f"python -m experiments RECIPE --record {path.stem}")


def digest_of(record: Mapping[str, Any]) -> str:
    """Return the beginning of the SHA-256 of a record without its digest."""
    content = {name: value for name, value in record.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def add_records(path: Path, records: Sequence[Mapping[str, Any]]) -> int:
    """Append records to a file, and return how many were new.

    A record that the file holds already, whatever its date, is not written again. Several processes
    may add at the same time. Raises ValueError where the file is damaged, or for code that is in no
    commit.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    num_new = 0
    # Without locks, two processes may add the same record. `newest_of` then counts it once.
    with locked(path.with_name(f".{path.name}.lock")):
        known = [without_date(record) for record in read_records(path)]
        with open(path, "a", encoding="utf-8") as file:
            for new in records:
                record = as_read(new)
                check_committed(record.get("code", {"git": ""}))
                if without_date(record) in known:
                    continue
                file.write(json.dumps({**record, DIGEST: digest_of(record)}) + "\n")
                known.append(without_date(record))
                num_new += 1
    return num_new


def as_read(record: Mapping[str, Any]) -> Record:
    """Return a record as it will be read: JSON has no tuples, and its keys are text."""
    read: Record = json.loads(json.dumps(record, allow_nan=False))
    return read


def without_date(record: Mapping[str, Any]) -> Record:
    """Return what identifies a record."""
    return {name: value for name, value in record.items() if name != "date"}


def newest_of(records: Iterable[Record], key: Callable[[Record], Hashable]) -> list[Record]:
    """Return the newest record of each key, in the order in which the keys come first.

    key: what a measurement is of, such as recipe and seed. A run that is measured again replaces
    its older record. Otherwise one seed would count twice.
    """
    newest: dict[Hashable, Record] = {}
    for record in records:
        newest[key(record)] = record
    return list(newest.values())


def group_records(records: Iterable[Record], name: str) -> dict[Any, list[Record]]:
    """Return the records by their value of a field, in the order in which the values come."""
    return group_by(records, lambda record: record[name])


def group_by(
    records: Iterable[Record], key: Callable[[Record], Hashable]
) -> dict[Any, list[Record]]:
    """Return the records by a key, in the order in which the keys come."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def check_file(path: Path, field: str, content: str) -> None:
    """Raise ValueError where records cannot be added to a file, or where it holds other records.

    field: that each record of this kind has. content: what the file is to hold, such as "runs".
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file, such as {path / 'mine.jsonl'}.")
    for record in read_records(path):
        if field not in record:
            raise ValueError(f"{path} holds records, and they are no {content}. Name another file.")


def read_records(path: Path) -> list[Record]:
    """Return the records of a file in its order, without their digests; none without a file.

    Raises ValueError with the line that is no record, or that was edited.
    """
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}: no record there ({error}). Restore the file."
            ) from error
        if record.pop(DIGEST, None) != digest_of(record):
            raise ValueError(
                f"{path}, line {number}: this record was edited after it was written. Restore the "
                f"file with git checkout, or remove the line and measure again: {command_of(path)}"
            )
        records.append(record)
    return records
