"""The zip that Gradescope runs: teaching.grade, the files that it needs, and two scripts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from teaching.small_handout import needed_files, texts_from


def write_zip(path: Path, exercises: Sequence[str]) -> None:
    """Write the zip of some exercises. It holds the answers, as the clone does."""
    # grafting.py imports the files of the exercises by name.
    needed = needed_files(exercises, "teaching/grade.py", "teaching/grading.py")
    files = {file: text for file, text in needed.items() if not file.startswith("tests/")}
    files |= texts_from("grader", exercises, files)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            info = zipfile.ZipInfo(file)
            info.external_attr = 0o755 << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
