"""The cut of the course's data on which the rows of the two reports are measured.

The cut is REPORT_CUT. Its files have the names and the format of the course's files, so a run reads
them with --data-dir. The draw of a file depends on its name and the cut's seed alone: every recipe
and every seed of a run reads the same rows.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from data.examples import COURSE_FILES
from experiments.flags import is_different
from experiments.recipes import RECIPES, Values, values_of
from experiments.records import RECORDS
from experiments.results import join
from minbert.commands.files import write_text

# The rows of the two reports.
REPORTS = RECORDS / "reports.jsonl"
# The triplets of --nli, beside the course's files.
TRIPLETS = "nli-triplets.tsv"


class Cut(NamedTuple):
    """A fixed part of the course's data, and the options of every run on it.

    train, dev: the number of rows of each task. test: of each test file. No score reads these.
    triplets: the number of rows of the NLI file. seed: of the draw of all rows.
    lr_factors: by report, the number by which the tasks' learning rates are multiplied.
    contrastive_lr_factor: the same for the contrastive stages of both reports.
    values: options that every run has.
    """

    train: dict[str, int]
    dev: dict[str, int]
    test: int
    triplets: int
    seed: int
    lr_factors: dict[str, float]
    contrastive_lr_factor: float
    values: Values


# The reports had bert-base-uncased and all rows. On this cut, a row of a table takes some minutes
# of a core or a GPU. SST and STS have all their dev rows.
#
# An epoch on the cut has a tenth of the steps of SST and STS, so the tasks get a larger learning
# rate. In [GEN], whose steps have a batch of every task, it is ten times the report's. In [ROB],
# tasks are trained one after the other. At ten times the rate, one seed of row 5 lost SST to the
# task after it. So it is five times. A contrastive stage gets twice the rate, as its presets do
# for an encoder of half the width of bert-base. With ten times the rate, the loss that [GEN]
# maximises outweighed all others: SST and PARA ended at the most frequent label.
REPORT_CUT = Cut(
    train={"sst": 800, "para": 2400, "sts": 600},
    dev={"sst": 1101, "para": 2000, "sts": 863},
    test=10,
    triplets=1200,
    seed=2023,
    lr_factors={"rob": 5.0, "gen": 10.0},
    contrastive_lr_factor=2.0,
    values={"model": "minilm", "max_length": 64, "score_train": "300"},
)


def report_of(name: str) -> str:
    """Return the report of a published recipe, such as "rob" of rob-14-pooled."""
    return name.partition("-")[0]


def values_on_cut(name: str) -> Values:
    """Return the options of a published recipe on REPORT_CUT."""
    values = values_of(name) | REPORT_CUT.values
    factors = {
        "lr": REPORT_CUT.lr_factors[report_of(name)],
        "contrastive_lr": REPORT_CUT.contrastive_lr_factor,
    }
    for option, factor in factors.items():
        if option in values:
            # Without the digits of rounding, such as 1.0000000000000002e-04.
            values[option] = float(f"{values[option] * factor:.6g}")
    return values


def describe_cut(report: str) -> str:
    """Return what the runs of all rows of a report share, as a sentence or two."""
    cut = REPORT_CUT
    values = cut.values
    parts = []
    for title, rows in (("Training", cut.train), ("Dev", cut.dev)):
        counts = join(f"{rows[task]:,} of {task.upper()}" for task in rows)
        parts.append(f"{title} rows: {counts}.")
    return (
        f"{' '.join(parts)} NLI has {cut.triplets:,} triplets. All are drawn with the seed "
        f"{cut.seed}. The model is {values['model']}, with {values['max_length']} tokens at most. "
        f"The learning rates of the tasks are multiplied by {cut.lr_factors[report]:g}, those of "
        f"the contrastive stages by {cut.contrastive_lr_factor:g}. Training scores are those of "
        f"{values['score_train']} training rows of each task."
    )


# --- the files ------------------------------------------------------------------------------------


class Digests(NamedTuple):
    """What the files of a cut hold, each the beginning of a SHA-256.

    course: of the drawn rows of the course's nine files. It also covers the number of triplets.
    triplets: of the drawn triplets, or None without a file of them.
    """

    course: str
    triplets: str | None


def draw_lines(lines: list[str], num_rows: int, name: str) -> list[str]:
    """Return the header and `num_rows` other lines of a file, in their order.

    lines: of the file, with its header first. name: of the file, which fixes the draw. Raises
    ValueError where there are fewer rows: the runs would have another cut without a word.
    """
    header, *rows = lines
    if len(rows) < num_rows:
        raise ValueError(f"it has {len(rows):,} rows, and the cut has {num_rows:,} of them.")
    generator = random.Random(f"{REPORT_CUT.seed} {name}")
    positions = generator.sample(range(len(rows)), num_rows)
    return [header, *(rows[position] for position in sorted(positions))]


def write_cut(source: Path, triplets: Path | None, out: Path) -> Digests:
    """Write the files of the cut into the folder `out`, and return their digests.

    source: the folder with the course's files. triplets: the file of --nli, or None.
    Raises ValueError where a file cannot be read, or has too few rows, or is no table of triplets.
    """
    digest = hashlib.sha256(f"{REPORT_CUT.triplets}\n".encode())
    for task, files in COURSE_FILES.items():
        num_rows = {"train": REPORT_CUT.train, "dev": REPORT_CUT.dev}
        for split, name in files.items():
            count = num_rows[split][task] if split in num_rows else REPORT_CUT.test
            digest.update(write_part(source / name, count, out / name).encode())
    course = digest.hexdigest()[:16]
    if triplets is None:
        return Digests(course, None)

    # Imported late, because it imports torch.
    from contrastive.sentences import read_triplets

    text = write_part(triplets, REPORT_CUT.triplets, out / TRIPLETS)
    # A wrong file is refused now, and not when the first run reads it.
    read_triplets(out / TRIPLETS)
    return Digests(course, hashlib.sha256(text.encode()).hexdigest()[:16])


def write_part(source: Path, num_rows: int, target: Path) -> str:
    """Write the drawn lines of one file, and return the text. An equal file is left alone."""
    advice = (
        "--data-dir must be a folder with the course's nine files, and --nli a file of triplets."
    )
    try:
        with open(source, encoding="utf-8", newline="\n") as file:
            lines = list(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{source}: cannot be read ({error}). {advice}") from error
    if not lines:
        raise ValueError(f"{source}: is empty. A header and rows are expected.")
    # The name of the target fixes the draw, wherever the user's file is and whatever its name.
    try:
        text = "".join(draw_lines(lines, num_rows, target.name))
    except ValueError as error:
        raise ValueError(f"{source}: {error} {advice}") from error
    # Another process may read the file at this moment.
    if not (target.is_file() and target.read_text(encoding="utf-8") == text):
        write_text(target, text)
    return text


# --- runs on the cut ------------------------------------------------------------------------------


def needs_triplets(name: str) -> bool:
    """Whether a recipe has a stage that reads --nli."""
    return "simcse-nli" in str(values_on_cut(name).get("pretrain", "")).split(",")


def flags_of(name: str, data: Path) -> tuple[str, ...]:
    """Return the flags beside --recipe. data: the folder that `write_cut` filled."""
    flags = ["--data_dir", str(data)]
    if needs_triplets(name):
        flags += ["--nli", str(data / TRIPLETS)]
    of_recipe = values_of(name)
    for option, value in values_on_cut(name).items():
        if option not in of_recipe or of_recipe[option] != value:
            flags += [f"--{option}", str(value)]
    return tuple(flags)


def option_of(record: Mapping[str, Any], name: str) -> Any:
    """Return the value of an option. A record leaves out options with their default value."""
    return record["options"].get(name, default_values()[name])


def default_values() -> Values:
    """Return the default of each option of run_multitask.py."""
    # Imported late: this reads the options of all packages.
    from command_line.options import Options
    from minbert.commands.options import all_fields

    return {item.name: item.default for item in all_fields(Options)}


def differences(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options in which a run differs from its recipe on the cut, each with a sentence.

    options: of run.json, or those of a record, which leaves out options with their default value.
    """
    defaults = default_values()
    sentences = {}
    for option, expected in values_on_cut(name).items():
        stored = options.get(option, defaults[option])
        if is_different(stored, str(expected)):
            sentences[option] = f"--{option} is {stored} and not {expected}"
    return sentences


def is_current(record: Mapping[str, Any]) -> bool:
    """Whether a record is a run of its recipe as the recipe is now."""
    name = record["recipe"]
    return name in RECIPES and not differences(name, record["options"])
