"""The plugins of this folder as modules, without a trace in the registries.

An `import` would register them for all tests of the process.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from minbert.commands import plugins
from minbert.commands.paths import real_path

FOLDER = Path(__file__).resolve().parent
FILES = {
    name: FOLDER / f"{name}.py"
    for name in ("ance", "supcon", "mgda", "famo", "spread", "product", "triplet_margin")
}


def unload(plugin: plugins.Plugin) -> None:
    """Take all that a file has registered out again."""
    plugins.forget(plugin.registered)
    plugins.LOADED.pop(real_path(plugin.path))


def module_of(name: str) -> ModuleType:
    """The module of a plugin, for its functions."""
    is_loaded = FILES[name] in plugins.LOADED  # by --plugin-file
    plugin = plugins.load(FILES[name])
    if not is_loaded:
        unload(plugin)
    return plugin.module
