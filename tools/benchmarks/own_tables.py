"""How good are the defaults for a user's own table, beside simple models?

    python -m tools.benchmarks.own_tables tickets questions --out DIR --record
    python -m tools.benchmarks.own_tables question-question --sts DIR --out DIR --record

A table is trained with several settings and seeds. Each run says what its model and the baselines
reach. The tables tickets and questions are made here (made_tables.py). Other names are subsets of
the files of STS in --sts. A finished run in --out is not trained again.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.__main__ import finish_run
from experiments.records import RECORDS
from experiments.run_files import read_record
from experiments.series import Arm, Series, parse_seeds
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from tools.benchmarks.made_tables import write_questions, write_table, write_tickets
from tools.benchmarks.recording import HELP, record_measurement

RUNS = RECORDS / "own-tables.jsonl"
MODEL = "minBERT"
NUM_ROWS = 300  # of a subset of STS
SEED = 7  # of their order
TEXT = (Arm("default", ()), Arm("--model minilm", ("--model", "minilm")))
PAIRS = (Arm("default", ()), Arm("--head features", ("--head", "features")))


class Trial(NamedTuple):
    """A table: what its rows are, its --task, and the settings that are compared."""

    kind: str
    task: str
    arms: Sequence[Arm]


def make_trial(name: str, folder: Path, sts: Path | None) -> Trial:
    """Write the table of a trial. Raises ValueError for a name that is no table."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "tickets":
        train, seen, unseen = write_tickets(folder)
        return Trial(
            "texts", f"train={train},dev={seen},test={unseen},text=message,label=team", TEXT
        )
    if name == "questions":
        path = write_questions(folder)
        return pairs_of(path)
    if sts is None:
        raise ValueError(f"'{name}' is neither tickets nor questions. Pass --sts for a subset.")
    return pairs_of(write_subset(name, sts, folder))


def pairs_of(path: Path) -> Trial:
    """Return the trial of a table of pairs with scores."""
    task = f"train={path},text=first,text_pair=second,label=score,kind=score"
    return Trial("pairs", task, PAIRS)


def write_subset(name: str, sts: Path, folder: Path) -> Path:
    """Write some rows of a subset of STS. Raises ValueError where no file has it."""
    rows = []
    for path in sorted(sts.glob("STS*.tsv")):
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["subset"] == name and row["score"]:
                    rows.append([row["sentence1"], row["sentence2"], row["score"]])
    if not rows:
        raise ValueError(f"no file STS*.tsv in {sts} has the subset '{name}'.")
    random.Random(SEED).shuffle(rows)
    return write_table(folder / f"{name}.csv", ["first", "second", "score"], rows[:NUM_ROWS])


def scores_of(run: dict[str, Any], split: str) -> dict[str, float]:
    """Return the score of the model and of each baseline, on dev or labelled test rows."""
    prefix = "test_" if split == "test" else ""
    scores = {MODEL: run[f"{prefix}scores"]["own"]}
    for baseline, of_tasks in run[f"{prefix}baselines"].items():
        scores[baseline] = of_tasks["own"]
    return scores


def count_answers(run_folder: Path, split: str) -> int:
    """Return how many rows of a split the model of a run answered."""
    with open(run_folder / f"predictions/own-{split}-output.csv", encoding="utf-8") as file:
        return sum(1 for _ in file) - 1


def record_of_run(run: dict[str, Any], run_folder: Path) -> dict[str, Any]:
    """Return what is recorded of a run. run: the content of its run.json."""
    options = run["options"]
    measured: dict[str, Any] = {
        "seed": options["seed"],
        "metric": run["tasks"][0]["metric_name"],
        "num_rows": {"scores": count_answers(run_folder, "dev")},
        "steps": run["epochs"][-1]["step"],
        "head": options["head"],
        "scores": scores_of(run, "dev"),
        "versions": run["versions"],
        "machine": run["machine"],
        "code": run["code"],
    }
    if "test_scores" in run:
        measured["test"] = scores_of(run, "test")
        measured["num_rows"]["test"] = count_answers(run_folder, "test")
    return measured


@exit_code("python -m tools.benchmarks.own_tables", "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Train, print and record. Exit code 0, or that of a run that failed."""
    assert __doc__ is not None
    parser = Parser(prog="python -m tools.benchmarks.own_tables", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="TABLE")
    parser.add_argument("--sts", type=Path, metavar="DIR", help="folder with the files of STS")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs")
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)

    for name in arguments.names:
        trial = make_trial(name, arguments.out / "tables", arguments.sts)
        for setting in trial.arms:
            arm = Arm(setting.name.strip("-").replace(" ", "-"), setting.flags)
            flags = ("--task", f"name=own,{trial.task}", "--tasks", "own")
            seeds = parse_seeds(arguments.seeds)
            series = Series((arm.name,), seeds, arguments.out / name, flags, (arm,))
            for seed in seeds:
                code = finish_run(series, arm.name, seed, print)
                if code:
                    return code
                folder = series.folder(arm.name, seed)
                about = {"table": name, "kind": trial.kind, "setting": setting.name}
                measured = about | record_of_run(read_record(folder), folder)
                print(measured)
                if arguments.record:
                    record_measurement(RUNS, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
