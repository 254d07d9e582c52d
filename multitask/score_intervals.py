"""The intervals of a run's scores, and the differences between several predictions of its rows.

intervals.py has the mathematics. Here it meets tasks, rows and overall scores.

Legend: N rows, K predictions of the same rows, such as those of K runs, R resamples.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data.examples import Example
from minbert.reporting.differences import (
    Estimate,
    Interval,
    describe_difference,
    holm,
    is_better_or_worse,
)
from minbert.reporting.intervals import (
    estimate_difference,
    groups_of,
    resample,
    score_interval,
)
from multitask.tasks import COURSE_TASKS, Task, labels_of, with_overall


class ResampledScores(NamedTuple):
    """K scores of the same rows, and the same scores on resampled rows."""

    metric_name: str  # "" of an overall score
    scores: np.ndarray  # (K,)
    resampled: np.ndarray  # (R, K)
    num_groups: int
    num_rows: int

    def interval(self, place: int = 0) -> Interval:
        """The interval of one of the scores, for one run."""
        score = float(self.scores[place])
        of_score = self.resampled[:, place]
        return score_interval(self.metric_name, score, of_score, self.num_groups, self.num_rows)

    def difference(self, first: Sequence[int], second: Sequence[int]) -> Estimate:
        """The mean of some scores minus that of others. first, second: their places."""
        scores = self.scores[list(first)], self.scores[list(second)]
        resampled = self.resampled[:, list(first)], self.resampled[:, list(second)]
        return estimate_difference(scores, resampled, self.num_groups)


def resample_scores(
    task: Task, predictions: Sequence[np.ndarray], examples: Sequence[Example]
) -> ResampledScores:
    """Score K predictions of the same labelled rows, and do so again on resampled rows.

    predictions: K arrays (N,). All of them meet the same resamples, so differences are paired.
    """
    stacked = np.stack(predictions).astype(np.float32)  # (K, N)
    labels = labels_of(examples)
    groups = groups_of([example.texts for example in examples])
    scores = np.array([task.score(values, labels) for values in stacked])
    # Rows of one task are drawn apart from those of another one.
    seed = zlib.crc32(task.name.encode())
    resampled = resample(task.metric_name, stacked, labels, groups, seed)
    num_groups = int(groups.max()) + 1
    return ResampledScores(task.metric_name, scores, resampled, num_groups, len(labels))


def with_overall_scores(of_tasks: Mapping[str, ResampledScores]) -> dict[str, ResampledScores]:
    """The scores of the tasks, then both overall scores if no task of the course is missing."""
    # The formulas of the overall scores hold for arrays as well.
    arrays: dict[str, Any] = {name: of_task.scores for name, of_task in of_tasks.items()}
    scores: dict[str, Any] = with_overall(arrays)
    arrays = {name: of_task.resampled for name, of_task in of_tasks.items()}
    resampled: dict[str, Any] = with_overall(arrays)
    num_groups = sum(of_tasks[name].num_groups for name in COURSE_TASKS if name in of_tasks)
    num_rows = sum(of_tasks[name].num_rows for name in COURSE_TASKS if name in of_tasks)
    result = dict(of_tasks)
    for name in scores.keys() - of_tasks.keys():
        result[name] = ResampledScores("", scores[name], resampled[name], num_groups, num_rows)
    return {name: result[name] for name in scores}


class Comparison(NamedTuple):
    """A difference between two systems in one score, as one line of a table."""

    estimate: Estimate
    p_value: float  # corrected for the number of lines

    def words(self, names: tuple[str, str], margin: float) -> str:
        """What it says. names: of the first and the second system."""
        return describe_difference(self.estimate, names, self.p_value, margin)

    @property
    def is_told(self) -> bool:
        """Whether the difference can be told from chance."""
        return is_better_or_worse(self.p_value)

    def stored(self) -> dict[str, Any]:
        """The numbers for a JSON file."""
        low, high = self.estimate.interval
        return {
            "difference": self.estimate.value,
            "low": low,
            "high": high,
            "p_value": self.p_value,
            "is_told": self.is_told,
        }


def compare_scores(
    scores: Mapping[str, ResampledScores], first: Sequence[int], second: Sequence[int]
) -> dict[str, Comparison]:
    """Each score of the second system minus that of the first one, corrected for their number.

    first, second: which of the K predictions belong to each system.
    """
    estimates = {name: score.difference(first, second) for name, score in scores.items()}
    corrected = holm([estimate.p_value for estimate in estimates.values()])
    pairs = zip(estimates.items(), corrected, strict=True)
    return {name: Comparison(estimate, p_value) for (name, estimate), p_value in pairs}
