"""How often intervals.py of minbert/reporting is wrong: `python -m tools.calibration`.

Two systems are simulated, with 1 to 5 runs each, on 100 to 2,000 rows. Rows are hard for both
systems, for one of them, or for one run, and seeds have effects of their own. Equal systems must be
called different in 5 of 100 pairs. Of systems with a known difference, the interval must hold it in
95 of 100 pairs.

Legend: N rows, K runs.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from experiments.records import RECORDS
from minbert.commands.flags import Parser
from minbert.reporting.differences import LEVEL, Estimate
from minbert.reporting.intervals import estimate_difference, resample
from multitask.tasks import METRICS
from tools.benchmarks.recording import HELP, record_measurement

CALIBRATION = RECORDS / "calibration.jsonl"

METRICS_MEASURED = ("accuracy", "macro_f1", "pearson")
NUM_CLASSES = {"accuracy": 2, "macro_f1": 5}
NUM_RESAMPLES = 400
# Shares of the variance of a row's difficulty: for both systems, for one of them, for one run.
SHARED, OF_SYSTEM, OF_RUN = 0.4, 0.3, 0.3


class Setting(NamedTuple):
    """What one simulated comparison is like."""

    metric: str
    num_rows: int
    num_runs: int  # of each system
    seed_effect: float  # standard deviation of a run's skill
    skills: tuple[float, float]

    @property
    def true_difference(self) -> float:
        """The second system's score minus the first one's, over all rows and seeds."""
        first, second = (self.true_score(skill) for skill in self.skills)
        return second - first

    def true_score(self, skill: float) -> float:
        """The score of a skill, over all rows and seeds."""
        if self.metric != "pearson":
            # All classes are as frequent and as hard, so macro F1 is the accuracy.
            return float(norm.cdf(skill / math.sqrt(1 + self.seed_effect**2)))
        # The mean over the seeds, at the middle of 1,000 equally likely parts.
        places = skill + self.seed_effect * norm.ppf((np.arange(1000) + 0.5) / 1000)
        return float(np.mean(places / np.sqrt(places**2 + 1)))


def draw_setting(generator: np.random.Generator, metric: str, is_equal: bool) -> Setting:
    """A setting at random. Where several runs are compared, half of them have seed effects."""
    num_rows = round(math.exp(generator.uniform(math.log(100), math.log(2000))))
    num_runs = int(generator.integers(1, 6))
    # One run has no seeds to generalise to: the question is which of two models is better.
    has_effect = num_runs > 1 and generator.random() < 0.5
    skill = generator.uniform(0.4, 1.0)
    gap = 0.0 if is_equal else generator.uniform(0.05, 0.3)
    return Setting(metric, num_rows, num_runs, 0.1 * has_effect, (skill, skill + gap))


def simulate(generator: np.random.Generator, setting: Setting) -> Estimate:
    """Draw rows and runs of both systems, and estimate their difference."""
    labels = draw_labels(generator, setting)
    difficulty = math.sqrt(SHARED) * generator.normal(size=setting.num_rows)
    predictions = []
    for skill in setting.skills:
        of_system = math.sqrt(OF_SYSTEM) * generator.normal(size=setting.num_rows)
        for _ in range(setting.num_runs):
            of_run = math.sqrt(OF_RUN) * generator.normal(size=setting.num_rows)
            skill_of_run = skill + setting.seed_effect * generator.normal()
            noise = difficulty + of_system + of_run
            predictions.append(answer(setting.metric, labels, skill_of_run, noise))

    stacked = np.array(predictions)  # (2K, N)
    score = METRICS[setting.metric].score
    scores = np.array([score(of_run, labels) for of_run in stacked])
    groups = np.arange(setting.num_rows)
    resampled = resample(setting.metric, stacked, labels, groups, num_resamples=NUM_RESAMPLES)
    cut = setting.num_runs
    return estimate_difference(
        (scores[:cut], scores[cut:]), (resampled[:, :cut], resampled[:, cut:]), setting.num_rows
    )


def draw_labels(generator: np.random.Generator, setting: Setting) -> np.ndarray:
    """The labels (N,): classes, or numbers."""
    if setting.metric == "pearson":
        return generator.normal(size=setting.num_rows)
    return generator.integers(NUM_CLASSES[setting.metric], size=setting.num_rows).astype(float)


def answer(metric: str, labels: np.ndarray, skill: float, noise: np.ndarray) -> np.ndarray:
    """The predictions of a run (N,). A class is wrong where the noise is larger than the skill."""
    if metric == "pearson":
        return skill * labels + noise
    return np.where(noise > skill, (labels + 1) % NUM_CLASSES[metric], labels)


def measure(metric: str, num_pairs: int, seed: int) -> tuple[float, float]:
    """The share of false alarms among equal systems, and of intervals that hold a difference."""
    generator = np.random.default_rng(seed)
    num_alarms = 0
    num_held = 0
    for _ in range(num_pairs):
        equal = simulate(generator, draw_setting(generator, metric, is_equal=True))
        num_alarms += equal.p_value <= 1 - LEVEL

        setting = draw_setting(generator, metric, is_equal=False)
        low, high = simulate(generator, setting).interval
        num_held += low <= setting.true_difference <= high
    return num_alarms / num_pairs, num_held / num_pairs


def main() -> int:
    """Measure each metric and print a table."""
    parser = Parser(prog="python -m tools.calibration", description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="simulated pairs of each metric")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args()
    print("| metric | false alarms | difference held |\n|---|---|---|")
    lines = []
    for metric in METRICS_MEASURED:
        alarms, held = measure(metric, arguments.pairs, arguments.seed)
        title = METRICS[metric].title
        lines.append({"metric": title, "false_alarms": alarms, "held": held})
        print(f"| {title} | {alarms:.1%} | {held:.1%} |", flush=True)
    if arguments.record:
        sizes = {"pairs": arguments.pairs, "seed": arguments.seed, "resamples": NUM_RESAMPLES}
        record_measurement(CALIBRATION, {**sizes, "metrics": lines})
    return 0


if __name__ == "__main__":
    sys.exit(main())
