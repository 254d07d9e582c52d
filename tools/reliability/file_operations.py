"""Every change that a command makes to files, in its order: to stop there, or to fail there.

`watch` runs in a child before the command. It wraps the calls of the system, and counts those that
change something inside of one folder.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError

WRAPPED = ("mkdir", "rename", "replace", "unlink", "remove", "rmdir", "symlink", "chmod")
# A full disk lets these through.
NO_SPACE_NEEDED = ("unlink", "remove", "rmdir", "chmod")
WRITING = set("wax+")
KILL = 0  # in place of the number of an error


class Fault(NamedTuple):
    """What happens at a file operation.

    number: of the operation, from 1. error: such as errno.ENOSPC, or KILL. lasts: whether all
    later operations fail, too.
    """

    number: int
    error: int
    lasts: bool = False


class Watch:
    """Counts the file operations below a folder, and makes one of them fail.

    log: gets a line for each operation, or None.
    """

    def __init__(self, root: Path, fault: Fault | None = None, log: int | None = None) -> None:
        self.root = os.path.realpath(root)
        self.fault = fault
        self.log = log
        self.count = 0

    def happens(self, name: str, path: str, half: Callable[[], Any] | None = None) -> None:
        """Count an operation, and kill the process or raise OSError if it is its turn.

        half: does one half of the operation, before the kill or the error.
        """
        if not path.startswith(self.root):
            return
        self.count += 1
        if self.log is not None:
            os.write(self.log, f"{name} {path[len(self.root) :]}\n".encode())
        if self.fault is None or self.count < self.fault.number:
            return
        if self.count > self.fault.number and not self.fault.lasts:
            return
        if self.fault.error == errno.ENOSPC and name in NO_SPACE_NEEDED:
            return
        if half is not None:
            half()
        if self.fault.error == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "save_file":
            # As safetensors says it, without a number.
            words = os.strerror(self.fault.error)
            raise SafetensorError(f"I/O error: {words} (os error {self.fault.error})")
        raise OSError(self.fault.error, os.strerror(self.fault.error), path)

    def wrap_all(self) -> None:
        """Wrap the calls of this process. It is a child, and ends soon."""
        for name in WRAPPED:
            setattr(os, name, self.wrapped(name))
        self.wrap_os_open()
        self.wrap_open()
        self.wrap_fsync()
        self.wrap_save_file()

    def wrapped(self, name: str) -> Callable[..., Any]:
        """A function of `os` that is counted. Of two paths the last one is the one that changes."""
        original = getattr(os, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            paths = [part for part in arguments if isinstance(part, str | bytes | os.PathLike)]
            self.happens(name, place_of(paths[-1], settings.get("dir_fd")))
            return original(*arguments, **settings)

        return call

    def wrap_os_open(self) -> None:
        """Count before a descriptor is opened for writing, as locks and temporary files do."""
        original = os.open

        def call(path: Any, flags: int, *arguments: Any, **settings: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.happens("os.open", place_of(path, settings.get("dir_fd")))
            return original(path, flags, *arguments, **settings)

        os.open = call

    def wrap_open(self) -> None:
        """Count before a file is opened for writing, and again when it is there and still empty."""
        original = io.open

        def call(file: Any, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
            if isinstance(file, int) or not WRITING & set(mode):
                return original(file, mode, *arguments, **settings)
            path = place_of(file)
            self.happens("open", path)
            stream = original(file, mode, *arguments, **settings)
            self.happens("write", path)
            return stream

        builtins.open = call
        io.open = call

    def wrap_fsync(self) -> None:
        """Count before a file or a folder is flushed to the disk."""
        original = os.fsync

        def call(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            self.happens("fsync", os.readlink(f"/proc/self/fd/{number}"))
            original(number)

        replacement: Any = call
        os.fsync = replacement

    def wrap_save_file(self) -> None:
        """Count before tensors are written. They are written by half before the kill."""
        original = safetensors.torch.save_file

        def call(tensors: Any, filename: Any, metadata: Any = None) -> None:
            path = place_of(filename)

            def half() -> None:
                original(tensors, filename, metadata=metadata)
                os.truncate(filename, os.path.getsize(filename) // 2)

            self.happens("save_file", path, half)
            original(tensors, filename, metadata=metadata)

        safetensors.torch.save_file = call


def place_of(path: Any, folder: int | None = None) -> str:
    """The absolute path of an argument. folder: the descriptor that it is relative to, if any."""
    text = os.fsdecode(path)
    if folder is not None:
        text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
    parent, name = os.path.split(os.path.abspath(text))
    return os.path.join(os.path.realpath(parent), name)


def watch(root: Path, fault: Fault | None = None, log: int | None = None) -> Callable[[], None]:
    """A function for `Call.before`."""
    return lambda: Watch(root, fault, log).wrap_all()


def name_of(error: int) -> str:
    """The name of an error, such as ENOSPC."""
    return errno.errorcode[error]
