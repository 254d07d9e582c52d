"""The zip that Gradescope runs: teaching.grade, the files that it needs, and two scripts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from teaching.small_handout import libraries_of, needed_files

SETUP = """#!/usr/bin/env bash
# Gradescope runs this once. torch comes without the libraries of a GPU.
set -e
apt-get install -y python3-pip
# As a variable and not as a flag: the pip of Ubuntu 22.04 does not know the flag.
export PIP_BREAK_SYSTEM_PACKAGES=1
python3 -m pip install torch --index-url https://download.pytorch.org/whl/cpu
python3 -m pip install {libraries}
"""

RUN = """#!/usr/bin/env bash
# Gradescope runs this for each student.
cd /autograder/source
python3 -m teaching.grade /autograder/submission --exercises {exercises} \\
    --gradescope /autograder/results/results.json
"""


def write_zip(path: Path, exercises: Sequence[str]) -> None:
    """Write the zip of some exercises. It holds the answers, as the clone does."""
    # grafting.py imports the files of the exercises by name.
    needed = needed_files(exercises, "teaching/grade.py", "teaching/grading.py")
    files = {file: text for file, text in needed.items() if not file.startswith("tests/")}
    libraries = [name for name in libraries_of(files) if name not in ("torch", "pytest")]
    files["setup.sh"] = SETUP.format(libraries=" ".join(libraries))
    files["run_autograder"] = RUN.format(exercises=" ".join(exercises))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            info = zipfile.ZipInfo(file)
            info.external_attr = 0o755 << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
