"""Files that are written whole or not at all.

A file is written beside its place, flushed to the disk and renamed. A reader finds the old file or
the new one, and never half of one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from minbert.commands.paths import TEMPORARY, NotWritten, real_path, temporary_name

if TYPE_CHECKING:
    from torch import Tensor


CHECKSUM = "checksum"  # the key of a JSON file's checksum of itself


class DamagedFile(ValueError):
    """A file is not as it was written. The message says so and names what to do."""


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a path beside `path`, flush that file to the disk, and rename it.

    The folder is flushed, too: after a power cut the name leads to the new file or to the old one.
    A link stays a link, and the file that it points to is replaced.

    Raises NotWritten with what to do if the disk is full, if the folder cannot be written, or if
    something other than a plain file is at `path`. The half-written file is then removed, and an
    older file at `path` stays as it was.
    """
    path = Path(path)
    if path.is_symlink():
        path = real_path(path)
    beside = path.with_name(temporary_name(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_is_plain(path)
        write(beside)
        _set_usual_mode(beside)
        with open(beside, "rb") as written:
            os.fsync(written.fileno())
        os.replace(beside, path)
        flush_folder(path.parent)
    except (OSError, SafetensorError) as error:
        # A path of which a part is a file has no such name.
        with suppress(OSError):
            beside.unlink()
        # safetensors says "No space left" without an errno.
        is_full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        problem = f"cannot be written ({error}). Check the folder"
        if is_full:
            problem = "the disk is full. Free some space"
        raise NotWritten(
            f"{path}: {problem}, then run again or resume; what stood there before is intact."
        ) from error


def remove_half_written(folder: Path) -> None:
    """Remove the files that a process was writing in this folder when it was killed."""
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def _check_is_plain(path: Path) -> None:
    """OSError if a device, a pipe, a folder or a link is at the path: a rename would replace it.

    Links were followed before. One that is left leads in a circle.
    """
    if os.path.lexists(path) and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a plain file")


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk. Some systems cannot open a folder."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _set_usual_mode(path: Path) -> None:
    """Give a file the mode of the user's other files.

    safetensors writes files that only their owner can read. A file system may know no modes.
    """
    with suppress(PermissionError):
        # The system call reads the mask only by setting it.
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)


def digest_of_file(path: str | Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_digest(path: Path, expected: str) -> None:
    """Raise DamagedFile if the SHA-256 of a file is another one. OSError if it cannot be read."""
    if digest_of_file(path) != expected:
        raise DamagedFile(f"{path.name} is damaged: its SHA-256 is not the recorded one")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors as safetensors, atomically. Returns the SHA-256 of the file."""
    # This file is read before torch is needed.
    from safetensors.torch import save_file

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # transformers expects the "format" entry.
    metadata = {"format": "pt"}
    digests = []

    def write(beside: Path) -> None:
        save_file(contiguous, beside, metadata=metadata)
        digests.append(digest_of_file(beside))

    write_atomically(path, write)
    return digests[0]


def read_json(path: Path) -> Any:
    """The content of a JSON file in UTF-8.

    Raises OSError if it cannot be read. Raises ValueError if it is no JSON or nested too deeply.
    Raises DamagedFile if it is not what its checksum was computed from. The checksum is left out.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(content, dict) and CHECKSUM in content:
        checksum = content.pop(CHECKSUM)
        if checksum != checksum_of(content):
            raise DamagedFile(
                "its checksum is wrong, so it is damaged or was edited. Bring it back. If the edit "
                f'was meant, delete its entry "{CHECKSUM}", too'
            )
    return content


def checksum_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON. Line breaks and blanks in the file do not count."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def write_text(path: Path, text: str) -> str:
    """Write a text in UTF-8, with the line ends that it has, atomically. Returns its SHA-256."""
    content = text.encode("utf-8")
    write_atomically(path, lambda beside: beside.write_bytes(content))
    return hashlib.sha256(content).hexdigest()


def write_json(path: Path, content: Mapping[str, Any], has_checksum: bool = False) -> str:
    """Write `content` as indented JSON, atomically.

    has_checksum: whether the file holds a checksum of itself, which `read_json` compares.

    Returns the SHA-256 of the file. Raises ValueError for a number that is not finite, because JSON
    has none.
    """
    if has_checksum:
        content = {**content, CHECKSUM: checksum_of(content)}
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
