"""Tables of data in TOML, read with each Python that minBERT supports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    # pytest installs it where Python has no reader of its own.
    import tomli as tomllib


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a file. Raises ValueError where it is no TOML."""
    with open(path, "rb") as file:
        return tomllib.load(file)
