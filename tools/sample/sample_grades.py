"""Which shares of the film sentences should be neutral, and which strong? A rule on bundled text.

`python -m tools.sample.sample_grades --sources DIR --wordnet DIR --course DIR --cache DIR --out
DIR` follows the rule in tools/sample/grades.py. It builds the SST files with each pair of shares,
trains the default job on SST without the product sentences, and measures it on the product
sentences. It prints a table with the pair that the rule chooses. The course's files only tell which
sentences must be left out, as in the sample. Nothing is measured on them. Finished runs in --out
are not trained again, and a run that was stopped goes on. `--record` adds the scores to the records
from which the documents are written.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from data.examples import COURSE_FILES, SST, Example
from data.options import SAMPLE_FOLDER
from experiments.records import RECORDS, Record, add_records, record_of
from experiments.run_files import read_json
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import check_new_folder, check_outputs
from tools.benchmarks.real_sentences import (
    class_scores,
    errors_by_drawing,
    labels_of,
    open_answers,
)
from tools.sample.__main__ import Builder, add_source_flags, source_files
from tools.sample.grades import FIRST_SEEDS, LAST_SEED, candidates, finalists
from tools.sample.rows import Row, Source, write_task
from tools.sample.sample_parts import JOB, RUN_MULTITASK
from tools.sample.shares import Shares
from tools.sample.teacher import cache_outputs
from tools.tables.generic import show_table
from tools.tables.preparations import scores_of_shares

SAMPLE_GRADES = RECORDS / "sample-grades.jsonl"


def split_rows(rows_of: Mapping[str, Sequence[Row]]) -> tuple[dict[str, list[Row]], list[Example]]:
    """Return the rows of each split without the product sentences, and all product sentences."""
    kept = {}
    products: list[Example] = []
    for split, rows in rows_of.items():
        kept[split] = [row for row in rows if row.source is not Source.PRODUCTS]
        for row in rows:
            if row.source is Source.PRODUCTS:
                products.append(Example(str(len(products)), row.texts[0], None, row.label))
    return kept, products


def write_data(builder: Builder, shares: Shares, folder: Path) -> list[Example]:
    """Write the SST files of a pair of shares, and return the product sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    rows_of, products = split_rows(builder.sst(shares))
    write_task(folder, SST, rows_of, builder.random("sst order"))
    # SimCSE selects its best weights by these pairs.
    pairs = COURSE_FILES["sts"]["dev"]
    shutil.copyfile(SAMPLE_FOLDER / pairs, folder / pairs)
    return products


def name_of(shares: Shares) -> str:
    """Return the pair as a name of a folder, such as "neutral-15-strong-25"."""
    return f"neutral-{shares.neutral:.0%}-strong-{shares.strong:.0%}".replace("%", "")


def train(shares: Shares, seed: int, data: Path, out: Path) -> Path:
    """Train the default job on the SST rows in `data`, unless that is done. Return its folder.

    Raises ValueError where a finished run was trained on other rows, and CalledProcessError where
    the job fails.
    """
    run = out / f"{name_of(shares)}-seed-{seed}"
    if (run / "run.json").is_file():
        rows = (data / COURSE_FILES["sst"]["train"]).read_bytes()
        files = read_json(run / "run.json", "files")["files"]
        if hashlib.sha256(rows).hexdigest() not in files.values():
            raise ValueError(f"{run} was trained on other rows than today's. Choose another --out.")
        return run

    command = [sys.executable, RUN_MULTITASK]
    if (run / "options.json").is_file():
        command += ["--resume", run]
    else:
        command += [*JOB, "--tasks", "sst", "--seed", seed, "--data-dir", data]
        command += ["--output-dir", out, "--name", run.name]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)
    return run


def make_record(shares: Shares, run: Path, products: list[Example]) -> Record:
    """Return the record of a run: its shares, what it was, and its scores on the products."""
    predictions = open_answers(run)("sst", products)
    scores = class_scores(predictions, labels_of(products))
    content = record_of(read_json(run / "run.json", "options", "scores"), date.today())
    return {
        **shares._asdict(),
        "products": len(products),
        "run": content,
        "scores": scores,
        "row_errors": errors_by_drawing(predictions, products),
    }


def measure_all(builder: Builder, out: Path) -> Iterator[Record]:
    """Train and measure all candidates, and then the finalists with one more seed."""
    log = partial(print, file=sys.stderr)

    def measure(shares: Shares, seeds: Sequence[int]) -> Iterator[Record]:
        data = out / "data" / name_of(shares)
        products = write_data(builder, shares, data)
        for seed in seeds:
            log(f"{name_of(shares)}, seed {seed}")
            yield make_record(shares, train(shares, seed, data, out), products)

    records = []
    for shares in candidates():
        for record in measure(shares, FIRST_SEEDS):
            records.append(record)
            yield record
    for shares in finalists(scores_of_shares(records)):
        yield from measure(shares, (LAST_SEED,))


@exit_code("python -m tools.sample.sample_grades")
def main(arguments: Sequence[str] | None = None) -> None:
    """Train and measure the candidates, and print the table."""
    parser = Parser(
        prog="python -m tools.sample.sample_grades",
        allow_abbrev=False,
        description="Choose the shares that give the film sentences of the sample their classes.",
    )
    add_source_flags(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs")
    parser.add_argument(
        "--record",
        action="store_true",
        help="add the scores to experiments/records/sample-grades.jsonl",
    )
    options = parser.parse_args(arguments)
    check_new_folder("--out", options.out)
    check_outputs(cache_outputs(options.cache), source_files(options), overwrite=False)

    records = list(measure_all(Builder(options), options.out))
    print(show_table("sample-grades", records))
    if options.record:
        num_new = add_records(SAMPLE_GRADES, records)
        print(f"{num_new} new records in {SAMPLE_GRADES}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
