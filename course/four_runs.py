"""The four runs of `python -m course.part1`, and their eight files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from command_line.course_flags import SINGLE_TASK_FLAGS
from command_line.options import Options
from command_line.parser import parse
from course.editions import PART1_TASKS, SPLITS, Edition
from course.options import Part1Options
from data.examples import BUILT_IN_FILES
from experiments.flags import is_different, parse_flags
from experiments.run_files import read_json
from experiments.series import command_of, run_process
from minbert import BertConfig, hub
from minbert.commands import streams
from minbert.commands.ending import FAILS_AGAIN
from minbert.commands.files import digest_of_file, write_atomically
from minbert.commands.paths import in_shell
from minbert.options import EncoderOptions
from minbert.reporting.tables import score_table
from multitask.prediction_files import check_as_written

# What the course's classifier.py trains with, where ours has other defaults. Its learning rates
# are those of bert-base, so ours stay: they fit the width of the encoder.
COURSE_FLAGS = {"epochs": "10", "batch_size": "8", "hidden_dropout_prob": "0.3"}
MAX_LENGTH = 512  # tokens of a review, where the model has as many positions
# Flags of run_multitask.py that this command sets itself.
SET_FLAGS = ("tasks", "name", "output_dir", "resume", "recipe", "data_dir", "option")
# Flags with the paths of single files. The four runs would share them.
FILE_FLAGS = (
    *SINGLE_TASK_FLAGS,
    "sst_dev_out",
    "sst_test_out",
    "cfimdb_dev_out",
    "cfimdb_test_out",
)
# Options that change no prediction, so a finished run may have other ones.
FREE_OPTIONS = (
    "name",
    "output_dir",
    "token_cache",
    "tensorboard",
    "save_every",
    "overwrite",
    "skip",
)


class Run(NamedTuple):
    """One of the four runs."""

    task: str
    mode: str  # of MODES
    folder: Path


def train_and_write(options: Part1Options, flags: Sequence[str], log: Callable[[str], None]) -> int:
    """Train what is not trained yet, and write the files.

    flags: those of the runs. log: is told what happens. Returns exit code 0 when the files are
    written, else that of the run that failed.
    """
    check_flags(flags)
    runs = []
    for task in PART1_TASKS:
        for mode in options.modes:
            runs.append(Run(task, mode, options.out / f"{mode}-{task}"))
    # What cannot be trained or used is named before any run begins.
    for run in runs:
        of_run, _ = parse(run_flags(run, options.data_dir, flags))
        check_same_options(run, of_run.flat(), log)
    check_data(Path(options.data_dir))
    for run in runs:
        check_same_files(run)

    for run in runs:
        code = finish(run, options.data_dir, flags, log)
        if code:
            fails_again = code in FAILS_AGAIN
            advice = "Correct that first" if fails_again else "The same command goes on from here"
            streams.say(f"{run.folder}: ended with code {code}. The message is above. {advice}.")
            return code
    log(dev_table(runs, options.edition))
    for path in write_files(runs, options.out, options.edition):
        log(str(path))
    return 0


def check_flags(flags: Sequence[str]) -> None:
    """Raise ValueError for a flag that this command sets itself, or for another argument."""
    if flags and not flags[0].startswith("--"):
        raise ValueError(f"unknown argument {flags[0]}; --help lists the flags.")
    taken = [name for name in parse_flags(flags) if name in SET_FLAGS]
    if taken:
        raise ValueError(f"--{taken[0]} is set by this command itself; drop it.")
    if "test" in parse_flags(flags).get("skip", "").split(","):
        raise ValueError("--skip test leaves out files that the course asks for. Drop test there.")
    files = [name for name in parse_flags(flags) if name in FILE_FLAGS]
    if files:
        raise ValueError(
            f"--{files[0]} names one file, but this command trains four models. It reads the files "
            "of --data-dir and writes to --out. Drop the flag."
        )


def check_data(folder: Path) -> None:
    """Raise ValueError with the command that brings the files, if one of them is missing."""
    for task in PART1_TASKS:
        for name in BUILT_IN_FILES[task].values():
            if not (folder / name).is_file():
                raise ValueError(
                    f"{folder / name}: there is no such file. `python -m data.download --cfimdb "
                    f"--out {in_shell(folder)}` fetches the files of part 1, and --from FOLDER "
                    "takes those that you have."
                )


# --- the runs -------------------------------------------------------------------------------------


def check_same_options(run: Run, options: Mapping[str, object], log: Callable[[str], None]) -> None:
    """Raise ValueError if a run that has begun was started with other options.

    A trial with a few rows would pass as the real run otherwise. options: of this command. log: is
    told the options that the run lacks, because an older version has made it. They are compared as
    their defaults, with which --resume would continue the run.
    """
    path = run.folder / "options.json"
    if not path.is_file():
        return
    stored = read_json(path, "options")["options"]
    defaults = Options().flat()
    missing = []
    for name, value in options.items():
        if name in FREE_OPTIONS:
            continue
        note = ""
        if name not in stored:
            missing.append(f"--{name}")
            note = " (the default, because its options.json lacks this option)"
        used = stored.get(name, defaults[name])
        asked = flag_value(value)
        if asked != flag_value(used) and is_different(used, asked):
            raise ValueError(
                f"{run.folder} was trained with --{name} {used}{note}, not {asked}. Choose "
                "another --out, or pass the same flags."
            )
    if missing:
        log(
            f"note: {path} lacks {', '.join(missing)}, as that of an older version of minBERT. "
            "Their defaults count."
        )


def check_same_files(run: Run) -> None:
    """Raise ValueError if a data file has changed since a finished run was trained with it.

    A run that has not ended checks its files itself when it goes on.
    """
    path = run.folder / "run.json"
    if not path.is_file():
        return
    for name, digest in read_json(path, "files")["files"].items():
        if digest_of_file(Path(name)) != digest:
            raise ValueError(
                f"{name} has changed since {run.folder} was trained with it. Bring the old file "
                "back, or choose another --out to train with this one."
            )


def flag_value(value: object) -> str:
    """The value of an option as parse_flags has it. Flags such as --plugin may have several."""
    return "\n".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def finish(run: Run, data_dir: str, flags: Sequence[str], log: Callable[[str], None]) -> int:
    """Bring one run to its end. Returns its exit code, 0 where it was finished before.

    log: is told which run begins.
    """
    command = command_of(run.folder, run_flags(run, data_dir, flags))
    if command is None:
        return 0
    output = run.folder.with_name(f"{run.folder.name}.log")
    log(f"{run.folder}: running, its output and an estimate of its time in {output}")
    return run_process(command, output)


def run_flags(run: Run, data_dir: str, flags: Sequence[str]) -> list[str]:
    """The command line of one run. The user's flags come last, so they win."""
    where = ["--output-dir", str(run.folder.parent), "--name", run.folder.name]
    words = ["--tasks", run.task, "--option", run.mode, "--data-dir", data_dir]
    chosen = parse_flags(flags)
    values = dict(COURSE_FLAGS)
    if "max_length" not in chosen:
        values["max_length"] = str(usual_length(chosen.get("model", EncoderOptions().model)))
    for name, value in values.items():
        if name not in chosen:
            words += [f"--{name}", value]
    return [*words, *where, *flags]


def usual_length(model: str) -> int:
    """The most tokens of a review: 512, or as many as the model has positions."""
    config = BertConfig.from_pretrained(hub.resolve(model))
    return min(MAX_LENGTH, config.num_positions)


# --- the results ----------------------------------------------------------------------------------


def dev_table(runs: Sequence[Run], edition: Edition) -> str:
    """The dev accuracies, a line for each task and a column for each mode."""
    rows: dict[str, dict[str, float]] = {}
    for run in runs:
        record = read_json(run.folder / "run.json", "scores")
        row = rows.setdefault(f"{run.task.upper()} accuracy", {})
        row[run.mode] = record["scores"][run.task]
    headings = {run.mode: edition.word_of(run.mode) for run in runs}
    return score_table("dev", headings, rows)


def write_files(runs: Sequence[Run], out: Path, edition: Edition) -> list[Path]:
    """Copy the files of the runs to the names of the course. Returns their paths.

    Each run has verified its files when it wrote them.
    """
    folders = {(run.task, run.mode): run.folder for run in runs}
    written = []
    for file in edition.part1_files():
        if (file.task, file.mode) not in folders:
            continue
        folder = folders[file.task, file.mode]
        source = folder / "predictions" / f"{file.task}-{file.split}-output.csv"
        again = f"Bring it back, or remove {folder} and start the same command again."
        if not source.is_file():
            raise ValueError(f"{source}: there is no such file. {again}")
        check_as_written(source, read_json(folder / "run.json"), again)
        content = source.read_bytes()
        path = out / file.name

        def write(beside: Path, content: bytes = content) -> None:
            beside.write_bytes(content)

        write_atomically(path, write)
        written.append(path)
    assert len(written) == len(runs) * len(SPLITS)
    return written
