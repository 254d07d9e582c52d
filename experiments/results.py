"""What the finished runs of a series say: their scores, and how they were made.

`python -m experiments` prints these tables and writes them to a file and to a page.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.comparable import check_runs
from experiments.figures import History, build_sections, keep_trained
from experiments.flags import is_different, parse_flags
from experiments.recipes import published_tasks, values_of
from experiments.records import data_digest, data_files, plugin_digests
from experiments.run_files import Scores, dev_scores, metrics_of, stage_records, train_scores
from experiments.run_logs import describe_warnings, read_warnings
from experiments.series import Series
from experiments.tables import (
    Labels,
    build_difference_table,
    build_score_table,
    build_stage_table,
    build_train_table,
    difference_table,
)
from minbert.commands.options import AUTO
from minbert.reporting.pages import Section
from minbert.training.code_version import name_of

# Digits of a SHA-256 that tell files or commits apart.
NUM_DIGITS = 10
ABOUT_DIFFERENCES = (
    "Differences: the mean with its 95 % interval over the seeds, then each seed. A cell says "
    "better or worse where the interval, corrected for the number of cells, does not hold 0. It "
    "speaks of these dev rows. For others, see python -m multitask.compare RUN... --with RUN..."
)


@dataclass
class Results:
    """The finished runs of a series.

    series: which runs it has. against: the control of the differences, or "".
    runs: by recipe, the run.json of its runs, seed by seed.
    scores: by recipe, the dev scores of its runs.
    histories: by recipe, the dev scores after each epoch of its runs.
    train: by recipe, the scores on training rows, of runs with --score_train.
    stages: by recipe and stage of --pretrain, the records of that stage.
    metrics: of each task. has_own_tasks: whether one of them is the user's.
    warnings: by recipe and seed, those in the log of the run.
    """

    series: Series
    against: str = ""
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    scores: dict[str, list[Scores]] = field(default_factory=dict)
    histories: dict[str, list[History]] = field(default_factory=dict)
    train: dict[str, list[Scores]] = field(default_factory=dict)
    stages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    has_own_tasks: bool = False
    warnings: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        """How the tables name their rows and columns."""
        kinds = {"arm" if self.series.is_arm(name) else "recipe" for name in self.series.names}
        return Labels(" or ".join(sorted(kinds, reverse=True)), self.metrics)

    @property
    def baselines(self) -> dict[str, list[dict[str, Scores]]]:
        """By recipe, the baselines of its runs. A report prints none beside the course's tasks."""
        if not self.has_own_tasks:
            return {}
        baselines = {}
        for name, runs in self.runs.items():
            baselines[name] = [run.get("baselines", {}) for run in runs]
        return baselines

    def add(self, name: str, folder: Path, run: dict[str, Any]) -> None:
        """Add one finished run of a recipe. run: the content of its run.json."""
        # Curves have trained tasks alone. The table also has what the report of a recipe prints.
        trained = list(dev_scores(run))
        self.runs.setdefault(name, []).append(run)
        self.scores.setdefault(name, []).append(dev_scores(run, published_tasks(name)))
        self.metrics |= metrics_of(run)
        self.has_own_tasks |= bool(run["options"].get("task"))
        seed = self.series.seeds[len(self.runs[name]) - 1]
        self.warnings[name, seed] = read_warnings(folder.with_name(f"{folder.name}.log"))
        history = [keep_trained(entry, trained) for entry in run.get("epochs", [])]
        self.histories.setdefault(name, []).append(history)
        if train_scores(run):
            self.train.setdefault(name, []).append(train_scores(run))
        for stage, stage_record in stage_records(folder, run).items():
            self.stages.setdefault(f"{name}: {stage}", []).append(stage_record)

    def tables(self) -> list[str]:
        """Return all tables in Markdown.

        Raises ValueError where a run and its control differ in more than their recipes.
        """
        tables = [build_score_table(self.scores, self.labels, self.baselines)]
        if self.against:
            self.check_controls()
            tables.append(build_difference_table(self.scores, self.against, self.labels))
        if self.train:
            tables.append(build_train_table(self.train, self.labels))
        if self.stages:
            tables.append(build_stage_table(self.stages))
        return tables

    def notes(self) -> list[str]:
        """Return what the tables mean and what the runs warned of, in paragraphs of Markdown."""
        about = [ABOUT_DIFFERENCES] if self.against else []
        return [*about, *describe_warnings(self.warnings)]

    def check_controls(self) -> None:
        """Raise ValueError where a run cannot be compared with its control."""
        for name, runs in self.runs.items():
            if name != self.against:
                names = name, self.against
                free: set[str] = set()
                for of_pair in names:
                    if self.series.is_arm(of_pair):
                        free |= self.series.expected_options(of_pair).keys()
                for run, control in zip(runs, self.runs[self.against], strict=True):
                    # The epochs follow from --least_steps and the size of a batch. A run with
                    # --epochs in its flags has no --least_steps.
                    if run["options"].get("least_steps") or control["options"].get("least_steps"):
                        free |= {"epochs", "least_steps"}
                    # The head may follow from --few_pairs, and a run with --head has none.
                    if run["options"].get("few_pairs") or control["options"].get("few_pairs"):
                        free |= {"head", "few_pairs"}
                    check_runs(run, control, names, free)

    def sections(self) -> list[Section]:
        """Return the sections of the page: the conditions, then bars and curves."""
        # A page is no Markdown, so its flags have no marks.
        about = Section("The runs", " ".join(self.conditions()).replace("`", ""), level=2)
        sections = [about]
        if self.against:
            table = difference_table(self.scores, self.against, self.labels)
            sections.append(Section("Differences", ABOUT_DIFFERENCES, table, level=2))
        return [*sections, *build_sections(self.scores, self.histories, self.labels)]

    def conditions(self) -> list[str]:
        """Return sentences that say how the runs were made and what the numbers are."""
        runs = list(itertools.chain.from_iterable(self.runs.values()))
        # A row has the name of its recipe, whatever the flags have changed.
        models = [str(run["options"].get("model", "unknown")) for run in runs]
        return [
            "Each number is the mean over the seeds ± the standard deviation, which divides by "
            "n - 1. In brackets: the published score. All seeds share the dev rows, so ± says "
            "nothing about other rows.",
            f"Seeds: {', '.join(map(str, self.series.seeds))}.",
            f"Flags of --with: {marked(self.series.flags)}.",
            *(f"Flags of {arm.name}: {marked(arm.flags)}." for arm in self.series.arms),
            *describe_replaced(self.series),
            f"Model: {join(models)}.",
            f"Data: {describe_data(runs)}.",
            f"Code: {describe_codes(runs)}.",
        ]


def marked(flags: Sequence[str]) -> str:
    """Flags as code of Markdown, or "none"."""
    return f"`{shlex.join(flags)}`" if flags else "none"


def describe_replaced(series: Series) -> list[str]:
    """Return a sentence for each recipe whose options the flags replace."""
    flags = parse_flags(series.flags)
    sentences = []
    for name in series.names:
        if series.is_arm(name):
            continue
        replaced = []
        for option, value in values_of(name).items():
            # A run replaces "auto" by itself, too.
            if option in flags and value != AUTO and is_different(value, flags[option]):
                replaced.append(f"--{option} {flags[option]} and not {value}")
        if replaced:
            sentences.append(f"They give {name} {join(replaced)}.")
    return sentences


def describe_data(runs: Sequence[dict[str, Any]]) -> str:
    """Return the folders of the data, with the beginning of a digest of their files."""
    texts = []
    plugins: dict[str, str] = {}
    for run in runs:
        # A run of an older version does not say what it has read.
        if "files" in run:
            digest = data_digest(data_files(run))[:NUM_DIGITS]
            files = data_files(run)
            folder = run["options"].get("data_dir", "files")
            # The tables of own tasks may lie anywhere.
            place = join(files) if run["options"].get("task") else folder
            texts.append(f"{place} with digest {digest}")
            plugins |= plugin_digests(run).get("plugins", {})
    text = join(texts) if texts else "unknown"
    for name, digest in plugins.items():
        text += f"; plugin {name} with SHA-256 {digest[:NUM_DIGITS]}"
    return text


def describe_codes(runs: Sequence[dict[str, Any]]) -> str:
    """Return the commits that made runs. A run of an older version does not say it."""
    codes = [run["code"] for run in runs if "code" in run]
    return describe_code(codes) if codes else "unknown"


# --- in words -------------------------------------------------------------------------------------


def join(values: Iterable[str]) -> str:
    """The different values in their order, such as "a, b and c"."""
    *others, last = dict.fromkeys(values)
    return f"{', '.join(others)} and {last}" if others else last


def shorten(commit: str) -> str:
    """The first digits of a commit, with the "-dirty" of files that were edited."""
    digits, *edited = commit.split("-")
    return "-".join([digits[:NUM_DIGITS], *edited])


def describe_code(codes: Iterable[Mapping[str, str]]) -> str:
    """The commits of code versions, such as "commit `0123456789`"."""
    return f"commit {join(f'`{shorten(name_of(dict(code)))}`' for code in codes)}"
