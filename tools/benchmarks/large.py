"""Command: what do large inputs cost, what do two processes gain, and what does int8 lose?

    python -m tools.benchmarks.large growth embed gradients --record
    python -m tools.benchmarks.large int8 --model minilm --sts FILE --record

- growth: pretraining packs two texts, and reads every batch of one pass over them. The peak of the
  resident memory grows by so many bytes for each further byte of text.
- embed: `python -m contrastive.embed` in one process and in two, with one thread each, and as two
  separate commands.
- gradients: the share of a training step in which two processes add up their gradients. Sending
  them while the backward pass goes on can't save more than this share.
- int8: what it loses in the correlation of cosines with the labels of STS pairs, next to fp32.
  `python -m tools.benchmarks inference --precision int8` has its speed.

The texts are the sentences of data/sample again and again, so they differ in length alone. Each
measurement has its own processes. The seconds are those that the processor works on a process: on a
machine with free cores these are also the seconds of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from contrastive.embedder import open_embedder
from contrastive.zero_shot import correlations
from data.examples import Example
from data.options import SAMPLE_FOLDER
from data.sentence_sets import read_pairs
from experiments.records import RECORDS
from minbert import hub
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.options import EncoderOptions
from minbert.pretraining import __main__ as pretraining
from minbert.pretraining import plain_text
from minbert.training import cost_estimate, processes, runtime
from tests.forked_processes import free_port
from tools.benchmarks.comparison import versions
from tools.benchmarks.inputs import MAX_LENGTH, sst_examples
from tools.benchmarks.jobs import make_loop
from tools.benchmarks.recording import HELP, conditions, record_measurement
from tools.benchmarks.settings import DEVICE, Execution
from tools.benchmarks.training_sides import TrainingData, build_our_job
from tools.tables.generic import show_table

LARGE = RECORDS / "large.jsonl"
NUM_PROCESSES = 2
BATCH_SIZE = 32
NUM_WARM_UP = 3
NAMES = ("growth", "embed", "gradients", "int8")


def sentences() -> list[Example]:
    """Return the film sentences of the sample."""
    return list(sst_examples(str(SAMPLE_FOLDER), sys.maxsize))


# --- what the measured processes do ---------------------------------------------------------------


def pack_and_read(corpus: Path, out: Path) -> dict[str, float]:
    """Pack a text, take all batches of one pass, and return the peak memory in bytes."""
    words = ["--corpus", str(corpus), "--out", str(out), "--size", "tiny", "--device", "cpu"]
    run = pretraining.parse([*words, "--vocabulary", "minbert-mini", "--precision", "fp32"])
    packed = plain_text.read_corpus(run)
    plain_text.digest_of_ids(packed)
    job = plain_text.build_job(run, *packed)
    for start in range(0, len(packed.train) - run.options.batch_size, run.options.batch_size):
        job.load("mlm", list(range(start, start + run.options.batch_size)))
    return {"peak": cost_estimate.peak_memory(DEVICE)}


def train(model: str, precision: str, num_steps: int, folder: Path) -> dict[str, float]:
    """Take training steps in one of several processes.

    Returns the seconds of the processor of all steps, and those in which gradients are added.
    """
    runtime.settle_memory()
    processes.join("cpu")
    examples = sentences()[: BATCH_SIZE * (NUM_WARM_UP + num_steps)]
    data = TrainingData(hub.resolve(model), examples, BATCH_SIZE)
    loop = make_loop(build_our_job(data, folder, Execution(DEVICE, precision)))
    adding = 0.0
    add_gradients = processes.add_gradients

    def timed(parameters: Sequence[torch.nn.Parameter]) -> None:
        nonlocal adding
        started = time.process_time()
        add_gradients(parameters)
        adding += time.process_time() - started

    started = 0.0
    with mock.patch.object(processes, "add_gradients", timed):
        for number, update in enumerate(loop.job.epoch_steps(0, torch.Generator())):
            if number == NUM_WARM_UP:
                adding = 0.0
                started = time.process_time()
            loop.train_step(update)
    return {"all": time.process_time() - started, "adding": adding}


# --- how they are started -------------------------------------------------------------------------


def start(words: Sequence[str], num_processes: int) -> list[dict[str, float]]:
    """Run a command in processes with one thread each, and wait for all.

    Returns for each process the JSON that it prints, if any, and "seconds" of the processor.
    """
    port = str(free_port())
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(num_processes)}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    children = []
    for rank in range(num_processes):
        numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        children.append(
            subprocess.Popen(
                [sys.executable, "-m", *words],
                env=environment | numbers,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    measured = []
    for child in children:
        assert child.stdout is not None
        printed = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, child.args)
        numbers_of_child = json.loads(printed) if printed.startswith("{") else {}
        numbers_of_child["seconds"] = usage.ru_utime + usage.ru_stime
        measured.append(numbers_of_child)
    return measured


def write_text(path: Path, num_bytes: int) -> int:
    """Write the sentences again and again, to at least a size. Returns the size in bytes."""
    lines = [f"{example.sentence_1}\n" for example in sentences()]
    size = 0
    with path.open("w", encoding="utf-8") as file:
        while size < num_bytes:
            file.writelines(lines)
            size = file.tell()
    return size


def growth(folder: Path, megabytes: Sequence[int]) -> dict[str, Any]:
    """Return the growth of the peak memory from the smaller text to the larger one."""
    peaks = []
    sizes = []
    for number in megabytes:
        sizes.append(write_text(folder / "text.txt", number * 10**6))
        words = ["tools.benchmarks.large", "--corpus", str(folder / "text.txt")]
        (measured,) = start([*words, "--out", str(folder / "model")], 1)
        peaks.append(measured["peak"])
    return {
        "what": "growth of the resident memory for a byte of text, pretraining",
        "value": (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]),
        "goal": "at most 0.2",
        "details": f"peaks of {peaks[0] / 1e6:.0f} and {peaks[1] / 1e6:.0f} MB with texts of "
        f"{sizes[0] / 1e6:.0f} and {sizes[1] / 1e6:.0f} MB",
    }


def embed(folder: Path, model: str, precision: str, num_sentences: int) -> list[dict[str, Any]]:
    """Return how many times as fast two processes embed as one, with one thread each.

    Two separate commands at the same time, each with half of the sentences, exchange nothing. So
    their number is the most that sharing can reach on this machine.
    """
    lines = [example.sentence_1 for example in sentences()]
    repeated = [lines[number % len(lines)] for number in range(num_sentences)]
    half = num_sentences // 2
    settings = ["--device", "cpu", "--precision", precision]

    def words(name: str, texts: Sequence[str]) -> list[str]:
        """Return the command that embeds some texts. name: of its files."""
        (folder / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
        source = ["--input", str(folder / f"{name}.txt"), "--lines"]
        out = ["--out", str(folder / f"{name}.npy")]
        return ["contrastive.embed", model, *source, *settings, *out]

    alone = start(words("alone", repeated), 1)[0]["seconds"]
    shared = max(numbers["seconds"] for numbers in start(words("shared", repeated), NUM_PROCESSES))
    assert (folder / "alone.npy").read_bytes() == (folder / "shared.npy").read_bytes()
    commands = [words("first", repeated[:half]), words("second", repeated[half:])]
    with ThreadPoolExecutor() as threads:
        measured = list(threads.map(start, commands, (1, 1)))
    separate = max(numbers["seconds"] for (numbers,) in measured)
    started = start(words("start", lines[:1]), 1)[0]["seconds"]
    return [
        {
            "what": "`embed`, seconds of one process : of two, equal to the bit",
            "sentences": num_sentences,
            "value": alone / shared,
            "goal": "at least 1.8",
            "details": f"{alone:.1f} and {shared:.1f} s for {num_sentences:,} sentences, the "
            "start of Python included",
        },
        {
            "what": "`embed`, seconds of one process : of two separate ones, each with half",
            "sentences": num_sentences,
            "value": alone / separate,
            "goal": "none",
            "details": f"{alone:.1f} and {separate:.1f} s. One sentence takes {started:.1f} s",
        },
    ]


def gradients(model: str, precision: str, num_steps: int) -> dict[str, Any]:
    """Return the share of a training step in which two processes add up their gradients."""
    words = ["tools.benchmarks.large", "--steps", str(num_steps), "--model", model]
    # Only the first process prints.
    measured = start([*words, "--precision", precision, "--train"], NUM_PROCESSES)[0]
    milliseconds = measured["all"] / num_steps * 1e3
    return {
        "what": "share of a training step in which two processes add up their gradients",
        "value": measured["adding"] / measured["all"],
        "goal": "none",
        "details": f"{milliseconds:.0f} ms a step of {BATCH_SIZE} sentences",
    }


def int8(model: str, sts: Path) -> dict[str, Any]:
    """Return what int8 loses on labelled pairs."""
    folder = hub.resolve(model)
    pairs = read_pairs(sts).examples
    labels = np.array([example.label for example in pairs])
    spearman = {}
    for name in ("fp32", "int8"):
        embedder, _ = open_embedder(folder, "mean", MAX_LENGTH, BATCH_SIZE, "cpu", name, False)
        first, _ = embedder.encode([example.texts[0] for example in pairs])
        second, _ = embedder.encode([example.texts[1] for example in pairs])
        cosines = torch.nn.functional.cosine_similarity(first, second).numpy()
        spearman[name] = correlations(cosines, labels)["spearman"]
    # Each set of pairs has a row of its own in the table.
    of_sample = " of the sample" if sts.resolve().parent == SAMPLE_FOLDER.resolve() else ""
    return {
        "what": f"Spearman correlation on STS pairs{of_sample}, fp32 - int8",
        "value": spearman["fp32"] - spearman["int8"],
        "goal": "at most 0.005",
        "details": f"{spearman['fp32']:.4f} and {spearman['int8']:.4f}, {len(pairs):,} pairs",
    }


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(prog="python -m tools.benchmarks.large", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--model", default=EncoderOptions().model, help="%(default)s")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--megabytes", type=int, nargs=2, default=(40, 100), help="of both texts")
    parser.add_argument("--sentences", type=int, default=49_152, help="that are embedded")
    parser.add_argument("--sts", type=Path, metavar="FILE", help="labelled pairs, for int8")
    parser.add_argument("--steps", type=int, default=20, help="training steps that are timed")
    parser.add_argument("--record", action="store_true", help=HELP)
    group = parser.add_argument_group("what a measured process does")
    group.add_argument("--corpus", type=Path, help="pack this text")
    group.add_argument("--out", type=Path, help="beside this folder")
    group.add_argument("--train", action="store_true", help="take training steps")
    return parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments. Exits with code 2 and a message for arguments that cannot be used."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if not set(arguments.names) <= set(NAMES):
        parser.error(f"{arguments.names}: pass some of {', '.join(NAMES)}")
    if not (arguments.names or arguments.corpus or arguments.train):
        parser.error(f"pass some of {', '.join(NAMES)}")
    if "int8" in arguments.names and arguments.sts is None:
        parser.error("int8 is measured on labelled pairs: pass --sts FILE")
    return arguments


def measure(arguments: argparse.Namespace, precision: str, folder: Path) -> list[dict[str, Any]]:
    """Return the numbers of the measurements that are asked for. folder: a temporary one."""
    measured: list[dict[str, Any]] = []
    if "growth" in arguments.names:
        measured.append(growth(folder, arguments.megabytes))
    if "embed" in arguments.names:
        measured += embed(folder, arguments.model, precision, arguments.sentences)
    if "gradients" in arguments.names:
        measured.append(gradients(arguments.model, precision, arguments.steps))
    if "int8" in arguments.names:
        measured.append(int8(arguments.model, arguments.sts))
    return measured


@exit_code("python -m tools.benchmarks.large", takes_processes=True)
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and record; or be one of the measured processes."""
    arguments = parse(argv)
    precision = runtime.choose_precision(arguments.precision, DEVICE)[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.corpus:
            print(json.dumps(pack_and_read(arguments.corpus, arguments.out)))
            return
        if arguments.train:
            print(json.dumps(train(arguments.model, precision, arguments.steps, folder)))
            return
        measured = measure(arguments, precision, folder)
    settings = {**conditions(num_threads=1), "model": arguments.model, "versions": versions()}
    records = [{**settings, **numbers} for numbers in measured]
    print(show_table("large", records))
    if arguments.record:
        for record in records:
            record_measurement(LARGE, record)


if __name__ == "__main__":
    sys.exit(main())
