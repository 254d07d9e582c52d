"""How often which tasks pulled in opposite directions: the log of surgery.py as a small table and a picture.

S steps. Next: train.py.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from minbert.reporting.curves import draw_panels
from multitask.surgery import GradientSurgery
from multitask.tasks import TASKS

NUM_POINTS = 60  # of a curve: a step's cosine alone is noise


def report(surgery: GradientSurgery | None, folder: Path) -> tuple[list[dict], str]:
    """The log for run.json and the words to print, after writing folder/conflicts.png; both empty without a surgery."""
    if surgery is None:
        return [], ""
    is_drawn = draw_conflicts(surgery, folder / "conflicts.png")
    picture = (
        folder / "conflicts.png"
        if is_drawn
        else "none, matplotlib is not installed (bash setup.sh --plots)"
    )
    return surgery.conflicts(), f"{conflict_table(surgery.conflicts())}\npicture: {picture}\n\n"


def conflict_table(conflicts: list[dict]) -> str:
    """A line for each pair of tasks, as GradientSurgery.conflicts lists them."""
    lines = [f"{'gradients of':<16}{'steps':>10}{'conflicts':>12}{'mean cosine':>14}"]
    for entry in conflicts:
        pair = " and ".join(TASKS[task].title for task in entry["tasks"])
        lines.append(
            f"{pair:<16}{entry['steps']:>10,}{entry['conflicts']:>12.1%}{entry['cosine']:>14.4f}"
        )
    return "\n".join(lines)


def draw_conflicts(surgery: GradientSurgery, path: Path) -> bool:
    """Write the picture: a pair's mean cosine and share of conflicts over the steps; False without matplotlib."""
    if find_spec("matplotlib") is None:
        return False
    cosines = surgery.state_dict()[
        "cosines"
    ].numpy()  # (S, pairs), nan where a step does not hold the pair
    means, shares = {}, {}
    for number, pair in enumerate(surgery.pairs):
        steps = np.flatnonzero(~np.isnan(cosines[:, number]))
        if not len(steps):
            continue
        pieces = np.array_split(steps, min(NUM_POINTS, len(steps)))
        middles = [piece.mean() + 1 for piece in pieces]
        label = " and ".join(TASKS[surgery.tasks[task]].title for task in pair)
        means[label] = middles, [cosines[piece, number].mean() for piece in pieces]
        shares[label] = middles, [100 * (cosines[piece, number] < 0).mean() for piece in pieces]
    draw_panels(
        path, "step", {"mean cosine of the gradients": means, "conflicts (% of the steps)": shares}
    )
    return True
