"""The folder of a run: a new one, or the one that --resume names. No torch here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from command_line.automatic import choose_name
from command_line.options import Options
from data.examples import COURSE_FILES
from minbert.commands.files import DamagedFile, read_json
from minbert.commands.new_folders import is_reserved, refuse_taken
from minbert.commands.options import AUTO, NONE
from minbert.commands.paths import LATEST, is_free
from minbert.commands.plugins import PluginError, check_named
from minbert.training.code_version import writer_of

LONGEST = 500  # letters of a reason in a message, which may quote a damaged file


class Start(NamedTuple):
    """The options of a run, its folder, and whether it goes on."""

    options: Options
    folder: Path
    is_resumed: bool


def find_folder(options: Options, resumed: Path | None) -> Start:
    """The folder of a run. resumed: that of --resume, whose options are `options`.

    ValueError as choose_folder and load.
    """
    if resumed is not None:
        return Start(options, resumed, is_resumed=True)
    begun = begun_before_restart(options)
    if begun is not None:
        return Start(load(begun), begun, is_resumed=True)
    return Start(options, choose_folder(options), is_resumed=False)


def choose_folder(options: Options) -> Path:
    """The folder of a new run, not created yet: OUTPUT_DIR/NAME.

    An automatic name that is in use is followed by -2, -3 and so on. ValueError where the name of
    the user is no folder's name, or is in use.
    """
    name = options.run.name
    parent = Path(options.run.output_dir)
    if name == AUTO:
        return first_free(parent, choose_name(options))
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(
            f"--name is '{name}'; it must be the name of one folder. --output_dir says where."
        )
    if name == LATEST:
        raise ValueError(f"--name is '{name}', the link to the newest run; pass another name.")

    # A run of that name may be meant to be continued.
    folder = parent / name
    if not is_free(folder):
        refuse_taken(str(folder), folder, load, "another --name")
    return folder


def begun_before_restart(options: Options) -> Path | None:
    """The folder of --name where torchrun has restarted the command and the run had begun.

    `torchrun --max_restarts` starts the same command again after a failure. The run then goes on.
    A run of this name that began with other options is another one.
    """
    name = options.run.name
    is_restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    if not is_restart or name == AUTO:
        return None
    folder = Path(options.run.output_dir) / name
    if not (folder / "options.json").is_file():
        return None
    stored = load(folder).flat()
    is_same = all(value in (AUTO, stored[key]) for key, value in options.flat().items())
    return folder if is_same else None


def first_free(parent: Path, stem: str) -> Path:
    """The first of STEM, STEM-2, STEM-3, ... that a new folder can take."""
    folder = parent / stem
    number = 1
    while not is_free(folder) or is_reserved(folder):
        number += 1
        folder = parent / f"{stem}-{number}"
    return folder


def load(folder: Path) -> Options:
    """The options of the run in `folder`; ValueError where there is none."""
    path = folder / "options.json"
    if not path.is_file():
        raise ValueError(
            f"--resume {folder}: no run there (options.json is missing). Give a folder such as "
            "runs/NAME."
        )
    stored = None
    try:
        stored = read_json(path)
        files = stored.get("files")
        digests = files if isinstance(files, dict) else {}
        check_named(stored["options"].get("plugin", ()), digests, f"--resume {folder}")
        options = Options.of(**with_old_tasks(stored["options"]))
        # The digests of the run's input files, which it compares.
        if not isinstance(stored["files"], dict):
            raise TypeError("'files' is no table")
        code = stored.get("code", {"git": "", "sha256": ""})
        if not all(isinstance(code[name], str) for name in ("git", "sha256")):
            raise TypeError("'code' is no version")
    except PluginError:
        raise
    except DamagedFile as error:
        raise ValueError(f"--resume {folder}: options.json cannot be used: {error}.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not the options of this version ({str(error)[:LONGEST]}{writer_of(stored)}). "
            "Start a new run instead."
        ) from error
    return options


def with_old_tasks(values: dict[str, Any]) -> dict[str, Any]:
    """The options of an older run, which read all three tasks of the course and trained some."""
    if "untrained_tasks" in values or "tasks" not in values:
        return values
    trained = values["tasks"].split(",")
    untrained = [name for name in COURSE_FILES if name not in trained]
    return {**values, "untrained_tasks": ",".join(untrained) or NONE}
