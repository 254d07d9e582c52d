"""Write the digests of the lesson files of a release.

Run `python -m tools.benchmarks.lesson_digests` before you commit an edit of a lesson file.
`minbert.fast.edited_lessons` compares with the digests.
"""

from __future__ import annotations

import json

from minbert.fast import RELEASED, ROOT, digest_of

LESSONS = (
    "minbert/dropout.py",
    "minbert/attention.py",
    "minbert/bert.py",
    "minbert/pooling.py",
    "minbert/optimizer.py",
    "minbert/schedule.py",
    "minbert/pretraining/mlm.py",
    "contrastive/losses.py",
    "multitask/losses.py",
    "multitask/sampling.py",
    "multitask/surgery.py",
)


def main() -> None:
    """Write minbert/lesson_digests.json."""
    digests = {name: digest_of(ROOT / name) for name in LESSONS}
    RELEASED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
