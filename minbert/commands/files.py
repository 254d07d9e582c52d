"""Files that are written whole or not at all.

A file is written beside its place, flushed to the disk and renamed. A reader finds the old file or
the new one, and never half of one.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a path beside `path`, flush to the disk, rename.

    Raises ValueError with what to do where the disk is full or the folder cannot be written; the half-written file is
    removed and an older file at `path` stays as it was.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        with suppress(PermissionError):  # a file system may know no modes
            mask = os.umask(0)  # the system call can only read it by setting it
            os.umask(mask)
            beside.chmod(0o666 & ~mask)  # safetensors writes files that only their owner can read
        with open(beside, "rb") as written:
            os.fsync(written.fileno())
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        if beside.parent.is_dir():
            beside.unlink(missing_ok=True)
        is_full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        problem = (
            "the disk is full. Free some space"
            if is_full
            else f"cannot be written ({error}). Check the folder"
        )
        raise ValueError(
            f"{path}: {problem}, then run again or resume; what stood there before is intact."
        ) from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write named tensors as safetensors, atomically; transformers asks for the "format" entry."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, lambda beside: save_file(tensors, beside, metadata={"format": "pt"}))


def write_json(path: Path, content: dict) -> None:
    """Write `content` as indented JSON, atomically; a non-finite number is refused, since JSON has none."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda beside: beside.write_text(text, encoding="utf-8"))
