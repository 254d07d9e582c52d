"""Write the digests of the lesson files of a release.

Run `python -m tools.benchmarks.lesson_digests` after an edit of a file in minbert/ that has a fast
branch. `minbert.fast.edited_lessons` compares with the digests.
"""

from __future__ import annotations

import json

from minbert.fast import PACKAGE, RELEASED, digest_of

# The files whose formulas are computed with a fast branch, here or in a file that they call.
LESSONS = (
    "dropout.py",
    "attention.py",
    "bert.py",
    "pooling.py",
    "optimizer.py",
    "schedule.py",
    "pretraining/mlm.py",
)


def main() -> None:
    """Write minbert/lesson_digests.json."""
    digests = {name: digest_of(PACKAGE / name) for name in LESSONS}
    RELEASED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
