"""The one check of every path that a user gives a command to write to. It runs before any work.

An output is a plain file or a new file. It is no input and no other output, and it lies in no
folder of a run or a model. A file that is there already is replaced only if minBERT wrote it, or
with --overwrite. The name itself is tried, so an impossible one is refused before any training.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.commands.paths import check_writable, real_path, temporary_name

STREAM = Path("-")  # as the value of a flag: standard output
OVERWRITE = "--overwrite"
HELP_OF_OVERWRITE = "replace files at the output paths, whoever wrote them"

# The first lines of every page of ours (minbert/reporting/templates/page.html).
PAGE_START = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="generator" content="minBERT">'
)

# A folder that holds all files of one of these rows is a run's or a model's folder.
OWN_FILES = (
    ("options.json", "run.json"),
    ("options.json", ".lock"),
    ("stage.json",),
    ("config.json", "model.safetensors"),
    ("config.json", "model.safetensors.index.json"),
    ("config.json", "pytorch_model.bin"),
    ("config.json", "pytorch_model.bin.index.json"),
    ("adapter_config.json", "adapter_model.safetensors"),
    ("adapter_config.json", "adapter_model.bin"),
)


def is_never_ours(path: Path) -> bool:
    """The default of Output.is_ours: a file of this kind does not say who wrote it."""
    return False


def begins_with(*starts: str) -> Callable[[Path], bool]:
    """A function that tells whether a file begins with one of these texts, in UTF-8."""

    def is_ours(path: Path) -> bool:
        beginnings = tuple(start.encode("utf-8") for start in starts)
        with open(path, "rb") as file:
            return file.read(max(map(len, beginnings))).startswith(beginnings)

    return is_ours


class Output(NamedTuple):
    """A file that a command will write.

    flag: the flag that names it, for messages. is_ours: tells whether a file that exists was
    written by minBERT. default: the place where a run itself keeps this file, which is allowed
    although it lies in the run's folder.
    """

    flag: str
    path: Path
    is_ours: Callable[[Path], bool] = is_never_ours
    default: Path | None = None

    @property
    def words(self) -> str:
        """The flag and its value, as messages begin."""
        return f"{self.flag} {self.path}"


def check_outputs(
    outputs: Sequence[Output],
    inputs: Iterable[str | Path] = (),
    folders: Iterable[Path] = (),
    overwrite: bool | None = False,
) -> None:
    """Raise ValueError for the first output that cannot or must not be written. Writes nothing.

    inputs: all files that the command reads. folders: those of the run and of the models that it
    uses, also where they are not made yet. overwrite: whether foreign files may be replaced. None:
    they may not, and the command has no flag for it.
    """
    sources = list(inputs)
    closed = [real_path(folder) for folder in folders]
    taken: dict[Path, str] = {}
    for output in outputs:
        check_kind(output)
        check_writable(output.path.absolute().parent, [output.path])
        check_is_no_input(output, sources)
        check_is_alone(output, taken)
        check_place(output, closed)
        if not overwrite:
            check_owner(output, has_flag=overwrite is not None)


def check_new_folder(flag: str, folder: Path) -> None:
    """Raise ValueError if a new folder cannot be made, or would lie in a run or a model.

    flag: the flag that names it, for the message. Whether the folder exists is not checked.
    """
    check_writable(folder)
    check_place(Output(flag, folder), ())


def check_no_links(run: Path) -> None:
    """Raise ValueError for a link in a run's folder that leads out of it.

    The run may come from someone else. What is written into it must stay in it.
    """
    place = real_path(run)
    for parent, folders, files in os.walk(run):
        for name in (*folders, *files):
            path = Path(parent) / name
            if path.is_symlink() and place not in real_path(path).parents:
                raise ValueError(
                    f"{path}: a link that leads out of the run's folder, to {os.readlink(path)}. "
                    "Replace it with what it leads to."
                )


def check_kind(output: Output) -> None:
    """Raise ValueError unless a plain file or nothing is at the path, links followed."""
    path = output.path
    if path == STREAM:
        raise ValueError(f"{output.words}: standard output is not possible here; give a file.")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        # The link leads nowhere, or in a circle.
        if os.path.islink(path):
            raise ValueError(
                f"{output.words}: it is a link to {os.readlink(path)}, which cannot be followed "
                f"({error.strerror}). Choose another path."
            ) from None
        # Nothing is there, its folder is a file, or its name is too long: check_writable says it.
        return
    if stat.S_ISDIR(mode):
        raise ValueError(
            f"{output.words}: a folder stands where a file is to be written. Choose another path."
        )
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{output.words}: it is not a plain file, but a device, a pipe or a socket. Choose "
            "another path."
        )


def check_is_no_input(output: Output, inputs: Iterable[str | Path]) -> None:
    """Raise ValueError if an input is the same file, also under another name."""
    for source in inputs:
        if is_same_file(output.path, Path(source)):
            raise ValueError(f"{output.words}: it is an input already; give another file.")


def is_same_file(first: Path, second: Path) -> bool:
    """Whether two paths lead to one file. Links and hard links are followed."""
    if real_path(first) == real_path(second):
        return True
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def check_is_alone(output: Output, taken: dict[Path, str]) -> None:
    """Raise ValueError if another output has the path, or needs it as a folder.

    taken: the places of the outputs so far, with their flags. This output is added.
    """
    place = real_path(output.path)
    for other, flag in taken.items():
        if place == other:
            raise ValueError(f"{output.words}: it is {flag} already; give another file.")
        if other in place.parents or place in other.parents:
            raise ValueError(
                f"{output.words}: it and {flag} {other} cannot both be files, because one would "
                "lie in the other. Give another file."
            )
    taken[place] = output.flag
    # The file is written under this name first.
    taken[place.with_name(temporary_name(place))] = f"the temporary file of {output.flag}"


def check_place(output: Output, folders: Sequence[Path]) -> None:
    """Raise ValueError if the path lies in the folder of a run or a model."""
    place = real_path(output.path)
    if output.default is not None and place == real_path(output.default):
        return
    for folder in place.parents:
        if folder in folders or is_own_folder(folder):
            raise ValueError(
                f"{output.words}: {folder} is the folder of a run or a model, whose files must "
                "stay as they are. Choose a path outside of it."
            )


def is_own_folder(folder: Path) -> bool:
    """Whether a folder holds the files of a run, a stage or a model."""
    return any(has_files(folder, names) for names in OWN_FILES)


def has_files(folder: Path, names: Iterable[str]) -> bool:
    """Whether a folder holds a file of each name."""
    return all(os.path.isfile(folder / name) for name in names)


def check_owner(output: Output, has_flag: bool) -> None:
    """Raise ValueError if a file exists that minBERT did not write.

    has_flag: whether the command has the flag --overwrite.
    """
    path = output.path
    if not os.path.isfile(path) or path.stat().st_size == 0:
        return
    try:
        is_ours = output.is_ours(path)
    except OSError:  # it cannot be read, so nobody knows
        is_ours = False
    if not is_ours:
        advice = f"another path, or pass {OVERWRITE} to replace it" if has_flag else "another path"
        raise ValueError(
            f"{output.words}: this file exists, and minBERT may not have written it. Choose "
            f"{advice}."
        )
