"""Which code made a result. record.py writes it down, experiments/__main__.py compares it. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("minbert", "data", "contrastive", "multitask", "command_line", "run_multitask.py")


def digest_of(places: list[Path]) -> str:
    """SHA-256 of Python files and of those in folders, in this order."""
    digest = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def code_version() -> dict[str, str]:
    """{"sha256": of all that a run may import, "git": its commit, "-dirty" behind it where a tracked file was edited}.

    "git" is "" where the code is no clone, or git is not installed. Asked once: what is edited while a run goes on is
    not its code.
    """
    commit = ""
    if (ROOT / ".git").exists():  # else git would look for a clone further up
        command = [
            "git",
            "-C",
            str(ROOT),
            "describe",
            "--always",
            "--dirty",
            "--abbrev=40",
            "--exclude=*",
        ]
        with suppress(OSError, subprocess.TimeoutExpired):
            commit = subprocess.run(
                command, capture_output=True, text=True, timeout=10
            ).stdout.strip()
    return {"sha256": digest_of([ROOT / name for name in SOURCES]), "git": commit}


def name_of(code: dict[str, str]) -> str:
    """A `code_version` in a message: the commit, or else the beginning of the digest."""
    return code["git"] or code["sha256"][:12]
