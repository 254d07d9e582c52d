"""Files of a user that hide a package of ours, noticed before they do harm.

Python looks for modules in the folder of a script or a notebook first. A file data.py there is
imported in place of our package `data`, and an import inside our code fails with a message that
names neither. Each package therefore checks those that it imports.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# The folder of our packages: the clone, or site-packages.
ROOT = Path(__file__).resolve().parents[2]


def check_packages(*names: str) -> None:
    """Raise ImportError if Python would import something else under a name of our packages.

    names: packages beside `minbert`. The message names the file, and what to do.
    """
    for name in names:
        place = place_of(name)
        if place is None or place.resolve() in (ROOT / name, ROOT / f"{name}.py"):
            continue
        raise ImportError(
            f"{place} hides a package of minBERT, {ROOT / name}: Python finds it first, because "
            f"{place.parent} comes before {ROOT} on its path. Rename {place.name}, or move your "
            "script to another folder. The command `minbert` does not look into your folder."
        )


def place_of(name: str) -> Path | None:
    """The folder or file that `import NAME` gives, or None where there is nothing."""
    if name in sys.modules:
        spec = getattr(sys.modules[name], "__spec__", None)
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec is not None else None
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return None if origin is None else Path(origin)
