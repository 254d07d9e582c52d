"""Which code made a result: a digest of its files, and the commit.

run_folder.py writes it down, stage.py compares it before it uses an encoder of another run, and
experiments/__main__.py compares whole runs. Imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the clone: the folder of run_multitask.py
SOURCES = (  # all that a run may import
    "minbert",
    "data",
    "contrastive",
    "multitask",
    "command_line",
    "experiments/recipes.py",
    "run_multitask.py",
)


def digest_of(*sources: str) -> str:
    """SHA-256 of Python files, by their path and content.

    sources: packages, each with all its nested packages, and single files. They are named as in
    SOURCES, relative to the clone, so that no caller depends on where its own file is.
    Raises ValueError for a name without a Python file.
    """
    digest = hashlib.sha256()
    for source in sources:
        place = ROOT / source
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        if not paths or not paths[0].is_file():
            raise ValueError(f"{place}: no Python file. Name a package or a file of the clone.")
        for path in paths:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


@cache
def code_version() -> dict[str, str]:
    """The version of the code that a run may import: {"sha256": its digest, "git": its commit}.

    "-dirty" follows the commit where a tracked file was edited. "git" is "" where the code is no
    clone, or git is not installed. The answer is computed once: an edit during a run does not
    change the code of that run.
    """
    return {"sha256": digest_of(*SOURCES), "git": current_commit()}


def current_commit() -> str:
    """The commit of the clone, with "-dirty" where a tracked file was edited; "" without git.

    experiments/records does not count: a series adds its records while it goes on.
    """
    # Without this check git would look for a clone in the folders above.
    if not (ROOT / ".git").exists():
        return ""
    with suppress(OSError, subprocess.TimeoutExpired):
        head = run_git("rev-parse", "--verify", "HEAD")
        if head.returncode:
            return ""
        files = (".", ":(exclude)experiments/records")
        is_edited = run_git("diff", "--quiet", "HEAD", "--", *files).returncode != 0
        return head.stdout.strip() + ("-dirty" if is_edited else "")
    return ""


def run_git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the clone. Raises OSError where git is not installed.

    Git refuses a clone of another user, such as one in a mounted folder. But its code is running
    already, so git may read it, too.
    """
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10)


def name_of(code: dict[str, str]) -> str:
    """A `code_version` in a message: the commit, or else the beginning of the digest."""
    return code["git"] or code["sha256"][:12]


def writer_of(content: object) -> str:
    """Which version wrote a run's options.json, as the end of a message: "; version X wrote it".

    content: of the file, which may be damaged. "" where it does not say it.
    """
    try:
        return f"; version {name_of(content['code'])} wrote it"  # type: ignore[index]
    except (KeyError, TypeError):
        return ""
