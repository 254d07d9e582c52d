"""What does each part of the bundled sample contribute? The default job without one of them.

`python -m tools.sample.sample_parts --course DIR --out DIR` trains the default job on all rows, and
then once without each part. It measures every run on the course's dev files in --course and on the
hundred sentences, and prints a table. A part is left out of the training files alone, so all runs
choose their best epoch on the same dev rows. Finished runs in --out are not trained again.
`--record` adds the scores to the records from which the documents are written.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from data.examples import COURSE_FILES
from data.options import SAMPLE_FOLDER
from experiments.records import RECORDS, Record, add_records
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import check_new_folder
from minbert.options import EncoderOptions
from tools.benchmarks.real_sentences import (
    SENTENCES,
    Sentences,
    majority,
    make_record,
    measure,
    read_course,
    read_sentences,
)
from tools.tables.generic import show_table

SAMPLE_PARTS = RECORDS / "sample-parts.jsonl"
RUN_MULTITASK = Path(__file__).resolve().parents[2] / "run_multitask.py"
# A copy of the sample gets the same number of sentences as the sample itself.
JOB = ("--option", "finetune", "--pretrain", "simcse", "--contrastive-sentences", 1000)
ALL_ROWS = "all rows"


class Part(NamedTuple):
    """Rows of the sample that belong together.

    sources: the first two digits of their ids, which data/sample/README.md explains.
    """

    task: str
    sources: tuple[str, ...]


PARTS = {
    "SST, film sentences": Part("sst", ("f1",)),
    "SST, product sentences and phrases": Part("sst", ("a1", "a2")),
    "SST, graded words": Part("sst", ("c1",)),
    "SST, generated": Part("sst", ("c0",)),
    "PARA, neighbouring questions": Part("para", ("d1",)),
    "PARA, other and changed wordings": Part("para", ("d2", "d3")),
    "PARA, generated": Part("para", ("c0",)),
    "STS, everyday sentences": Part("sts", ("e1", "e2")),
    "STS, questions": Part("sts", ("d4",)),
    "STS, sentences of Wikipedia": Part("sts", ("b1", "b2")),
    "STS, generated": Part("sts", ("c0",)),
}


def write_without(part: Part | None, folder: Path) -> int:
    """Write the nine files of the sample without a part's training rows, and return how many.

    Raises ValueError where the sample has no such row.
    """
    # Dev and test stay whole, so that all runs choose their best epoch by the same rows.
    folder.mkdir(parents=True, exist_ok=True)
    for splits in COURSE_FILES.values():
        for name in splits.values():
            shutil.copyfile(SAMPLE_FOLDER / name, folder / name)
    if part is None:
        return 0

    path = folder / COURSE_FILES[part.task]["train"]
    header, *rows = path.read_text("utf-8").splitlines(keepends=True)
    # The id is the second column.
    kept = [row for row in rows if row.split("\t")[1][:2] not in part.sources]
    if len(kept) == len(rows):
        raise ValueError(f"{path.name} has no row of {', '.join(part.sources)}.")
    path.write_text("".join([header, *kept]), "utf-8", newline="")
    return len(rows) - len(kept)


def train(name: str, seed: int, model: str, out: Path) -> Path:
    """Train the default job without the part `name`, unless it is there. Return the run's folder.

    Raises CalledProcessError where the job fails.
    """
    words = "".join(letter if letter.isalnum() else " " for letter in name).lower().split()
    run = out / "-".join([*words, str(seed)])
    if (run / "run.json").is_file():
        return run
    data = out / "data" / "-".join(words)
    write_without(PARTS.get(name), data)
    command = [sys.executable, RUN_MULTITASK, *JOB, "--model", model, "--seed", seed]
    command += ["--data-dir", data, "--output-dir", out, "--name", run.name]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)
    return run


@exit_code("python -m tools.sample.sample_parts")
def main(arguments: Sequence[str] | None = None) -> None:
    """Train and measure a run without each part, and print the table."""
    parser = Parser(
        prog="python -m tools.sample.sample_parts",
        allow_abbrev=False,
        description="The default job without one part of the bundled sample.",
    )
    parser.add_argument(
        "--course",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with the course's dev files (python -m data.download brings them)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs")
    parser.add_argument(
        "--model",
        default=EncoderOptions().model,
        help="as --model of run_multitask.py (%(default)s)",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="one run for each")
    parser.add_argument(
        "--record",
        action="store_true",
        help="add the scores to experiments/records/sample-parts.jsonl",
    )
    options = parser.parse_args(arguments)
    check_new_folder("--out", options.out)

    sentences = Sentences(read_sentences(SENTENCES), read_course(options.course), binary=[])
    baseline = majority(sentences)
    log = partial(print, file=sys.stderr)
    records: list[Record] = []
    for name in [ALL_ROWS, *PARTS]:
        for seed in options.seeds:
            log(f"without: {name}, seed {seed}" if name in PARTS else f"{name}, seed {seed}")
            run = train(name, seed, options.model, options.out)
            record = make_record(run, measure(run, sentences), baseline)
            records.append({"left_out": name, **record})
    print(show_table("sample-parts", records))
    if options.record:
        log(f"{add_records(SAMPLE_PARTS, records)} new records in {SAMPLE_PARTS}")


if __name__ == "__main__":
    sys.exit(main())
