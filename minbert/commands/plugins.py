"""A user's own methods: `--plugin mine.py` runs a Python file that registers them.

The file calls register_method of contrastive, or register_sampler, register_surgery or
register_head of multitask. Their docstrings have examples. It runs before the flags are made, so
that its names are choices and its options have flags. Like every Python file it can do whatever
its user can: run only files that you trust.

A run records the SHA-256 of the file. Whoever opens the run later has to name the same file again:
a run's folder may come from someone else, so the folder alone must not make any code run.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from minbert.commands.options import OptionGroup, argument
from minbert.commands.paths import in_shell, real_path
from minbert.commands.registry import REGISTERED, Entry, Registered, Registry

HOW = "register_method, register_sampler, register_surgery or register_head"


class PluginError(ValueError):
    """A file of --plugin that cannot be used. The message names it, and the line of an error."""


@dataclass(frozen=True)
class Plugin:
    """A file that was loaded: its SHA-256, its module, and what it registered."""

    path: Path
    digest: str
    module: ModuleType
    registered: tuple[Registered, ...]

    @property
    def entries(self) -> list[Entry]:
        """The entries of its methods."""
        return [registry[name] for registry, name in self.registered]

    def groups(self) -> list[type[OptionGroup]]:
        """The option groups of its entries, each once."""
        groups: dict[type[OptionGroup], None] = {}
        for entry in self.entries:
            groups |= dict.fromkeys(entry.options)
        return list(groups)


LOADED: dict[Path, Plugin] = {}  # by the real path


def load(path: str | Path) -> Plugin:
    """Run a file that registers methods. A file that is loaded already is not run again.

    PluginError with the file, and where there is one the line, if it cannot be read or run, if it
    registers nothing or a name that exists, or if it has changed since it was loaded. Nothing stays
    registered then.
    """
    path = Path(path)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PluginError(
            f"--plugin {path}: {error.strerror}. Give a Python file that registers a method."
        ) from error
    digest = hashlib.sha256(source).hexdigest()
    place = real_path(path)
    if place in LOADED:
        if LOADED[place].digest != digest:
            raise PluginError(f"--plugin {path}: it has changed since it was loaded. Start again.")
        return LOADED[place]

    num_before = len(REGISTERED)
    try:
        module = run_source(path, source)
        registered = tuple(REGISTERED[num_before:])
        if not registered:
            raise PluginError(f"--plugin {path}: it registers nothing. Call {HOW} in it.")
    except PluginError:
        forget(REGISTERED[num_before:])
        raise
    LOADED[place] = Plugin(path, digest, module, registered)
    return LOADED[place]


class LoaderOfSource(SourceLoader):
    """Runs exactly the bytes whose SHA-256 was taken, and never a compiled file beside them."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path = path
        self.source = source

    def get_filename(self, fullname: str) -> str:
        """The path of the file, for messages."""
        return str(self.path)

    def get_data(self, path: str | bytes) -> bytes:
        """The bytes of the file. There is no other one."""
        if path != str(self.path):
            raise OSError(f"{path!r} is not read")
        return self.source


def run_source(path: Path, source: bytes) -> ModuleType:
    """Run a Python file as a module of its own. PluginError names the line where it fails."""
    name = f"minbert_plugin_{path.stem}_{len(LOADED)}"
    loader = LoaderOfSource(path, source)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    # Dataclasses look for their module by its name.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        sys.modules.pop(name)
        place = error.filename or path
        raise PluginError(f"--plugin {place}, line {error.lineno}: {error.msg}.") from error
    except (Exception, SystemExit) as error:
        sys.modules.pop(name)
        raise PluginError(f"--plugin {path}{line_of(path, error)}: {describe(error)}") from error
    return module


def line_of(path: Path, error: BaseException) -> str:
    """The line of a file that an error comes from, for a message; "" where it has none."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        if real_path(frame.filename) == real_path(path):
            lines.append(frame.lineno)
    return f", line {lines[-1]}" if lines else ""


def describe(error: BaseException) -> str:
    """An error in one line. A ValueError says all itself."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def forget(registered: Iterable[Registered]) -> None:
    """Take entries out of their registries again."""
    for item in tuple(registered):
        del item.registry[item.name]
        REGISTERED.remove(item)


def load_named(values: Sequence[str]) -> None:
    """Run the files that a user names with --plugin, for a command that opens runs."""
    for path in paths_in(values):
        load(path)


def check_named(paths: Any, digests: Mapping[str, str], place: str) -> None:
    """PluginError unless the user has named each plugin of a run in this very command.

    The run alone makes no code run: whoever wrote the folder chose the files and their digests. A
    file that was named counts wherever it lies, if it has the recorded digest.

    paths: the plugins of the run, a list of texts in an intact record. digests: SHA-256 by path, as
    the run recorded them. place: of the message, such as the run's folder.
    """
    named = {plugin.digest for plugin in LOADED.values()}
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise PluginError(f"{place}: its list of plugins is damaged. Bring the run back as it was.")
    for path in paths:
        if digests.get(path) in named:
            continue
        if real_path(path) in LOADED:
            raise PluginError(
                f"{place}: its plugin {path} has changed since the run began. Bring the file back "
                "as it was, or start a new run."
            )
        raise PluginError(
            f"{place}: it was trained with the plugin {path}, whose code runs only if you name it. "
            f"Read the file. If you trust it, add --plugin {in_shell(Path(path))} to this command."
        )


def flags_of_named() -> str:
    """The flags that name the files of this command again, for advice; each begins with a blank."""
    words = []
    for plugin in LOADED.values():
        words.append(f" --plugin {in_shell(Path(plugin.path))}")
    return "".join(words)


def plugin_argument() -> Any:
    """The flag --plugin of a command that opens runs, as a field of a `CommandOptions`."""
    return argument(
        (),
        "a Python file with methods of your own that a run was trained with. Its code runs only if "
        "you name it here",
        "FILE",
    )


def digest_of_plugin(registry: Registry, name: str) -> str:
    """SHA-256 of the file that registered a method; "" of a method of our own."""
    for plugin in LOADED.values():
        for item in plugin.registered:
            if item.registry is registry and item.name == name:
                return plugin.digest
    return ""


def paths_in(values: Sequence[str]) -> tuple[str, ...]:
    """The files that the values of --plugin name, absolute and each once.

    A value may join several files by commas. A run is opened from other folders, too, so the paths
    are absolute.
    """
    paths: dict[str, None] = {}
    for value in values:
        names = [value] if Path(value).is_file() else value.split(",")
        paths |= dict.fromkeys(str(Path(name).absolute()) for name in names)
    return tuple(paths)
