"""`python -m tools.benchmarks NAME [--quick]`, or `all`, or `--list`: our side beside the peer.

Each NAME is the file of that name, and it ends with one line of JSON. `all` gives each of them its
own process, one after the other. --help explains the flags, and
README.md explains the numbers.
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from tools.benchmarks.report import busy_cores, format_line

BENCHMARKS = RECORDS / "benchmarks.jsonl"
ROOT = Path(__file__).resolve().parents[2]
BATCH_SIZE = 32

# The machine is not quiet if more processes than this wanted to run in the last minute.
QUIET = 0.5

Line = dict[str, Any]

QUESTIONS = {
    "train_step": (
        "How fast is a training step, against Hugging Face loops and against the machine?"
    ),
    "inference": (
        "How fast do sentences become vectors, against sentence_transformers.encode, and are they "
        "the same?"
    ),
    "optimizer": (
        "What does an AdamW step cost, against torch.optim.AdamW, and is it the same step?"
    ),
    "surgery": "What does PCGrad cost, against a joint step and against torchjd?",
    "simcse": "What does SimCSE gain by one pass of 2B rows, against two passes of B?",
    "startup": "How long until something happens?",
    "tokenize": (
        "How fast does text become token ids, against transformers' fast tokenizer, and are they "
        "the same?"
    ),
    "memory": "How much memory does training take, against a plain Hugging Face loop?",
}


class FlagUse(NamedTuple):
    """The default of a flag, and the benchmarks that read it."""

    default: Any
    benchmarks: tuple[str, ...]


# Flags that not every benchmark reads. SimCSE has the batch size of its preset.
FLAG_USES = {
    "batch_size": FlagUse(BATCH_SIZE, ("train_step", "inference", "surgery", "memory")),
    "device": FlagUse("cpu", ("train_step", "inference")),
    "compile": FlagUse(False, ("train_step", "inference")),
    "pooling": FlagUse("mean", ("train_step", "inference")),
    "precision": FlagUse("auto", ("train_step", "inference")),
}


def load_benchmarks() -> dict[str, Callable[..., Line]]:
    """Return the functions of the benchmarks by name. Imported late, because they import torch."""
    from tools.benchmarks import (
        inference,
        memory,
        optimizer,
        simcse,
        startup,
        surgery,
        tokenize,
        train_step,
    )

    return {
        "train_step": train_step.run,
        "inference": inference.run,
        "optimizer": optimizer.run,
        "surgery": surgery.run,
        "simcse": simcse.run,
        "startup": startup.run,
        "tokenize": tokenize.run,
        "memory": memory.run,
    }


# --- the command line -----------------------------------------------------------------------------


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m tools.benchmarks",
        allow_abbrev=False,
        description="Our side and the peer in one run, in turn.",
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help=f"all, or one of {', '.join(QUESTIONS)}"
    )
    parser.add_argument("--list", action="store_true", help="show what each asks, and stop")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer and smaller rounds: does it run, is it plausible?",
    )
    parser.add_argument(
        "--data-dir",
        default=str(ROOT / "data" / "sample"),
        help="folder with the nine course files (the sample)",
    )
    add_sides(parser)
    parser.add_argument("--n", type=int, help="rounds, instead of each benchmark's own number")
    parser.add_argument(
        "--record",
        action="store_true",
        help="add the results to experiments/records/benchmarks.jsonl, from which the tables of "
        "docs/results are made",
    )
    return parser


def add_sides(parser: Parser) -> None:
    """Add the flags that say what both sides compute, and on what."""
    parser.add_argument(
        "--model",
        default="auto",
        help="as --model of run_multitask.py; tiny, mini, small, base: random weights of that "
        "size; auto: minilm where its package is installed, else random weights of its shape "
        "(%(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, help="sentences, or pairs (%(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, default=2, help="of torch; the goals are for 2 (%(default)s)"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "mps"),
        default="cpu",
        help="of both sides; the goals are for a processor (%(default)s)",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="torch.compile ours, and the peer that has every trick",
    )
    parser.add_argument(
        "--pooling",
        choices=("mean", "cls"),
        default="mean",
        help="the sentence vector of both sides (%(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8", "fp32-onednn"),
        default="auto",
        help="of our side. The peers of train_step compute in bf16 if ours does, else in fp32. "
        "int8 is for inference alone (%(default)s)",
    )


def flag_name(name: str) -> str:
    """Return the flag of an argument, such as --batch-size."""
    return f"--{name.replace('_', '-')}"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments. Exits with code 2 and a message for arguments that cannot be used."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if not arguments.list:
        problem = find_problem(arguments)
        if problem:
            parser.error(problem)
    return arguments


def find_problem(arguments: argparse.Namespace) -> str:
    """Return what is wrong with the arguments and what to do, or ""."""
    name = arguments.name
    if name is None:
        return "no name is given; pass one of those that --list shows, or all."
    if name != "all" and name not in QUESTIONS:
        similar = difflib.get_close_matches(name.replace("-", "_"), [*QUESTIONS, "all"], n=1)
        hint = f"there are {', '.join(QUESTIONS)} and all."
        if similar:
            hint = f"did you mean {similar[0]}?"
        return f"no benchmark is called '{name}'; {hint}"
    if arguments.record and arguments.quick:
        return "--record is for full measurements; drop it, or drop --quick."

    for argument, use in FLAG_USES.items():
        is_set = getattr(arguments, argument) != use.default
        if is_set and name not in ("all", *use.benchmarks):
            return f"{flag_name(argument)} has no effect on {name}; drop it."
    if arguments.precision == "int8" and name != "inference":
        return "--precision int8 is for inference alone; pass that name."
    for argument in ("batch_size", "threads", "n"):
        value = getattr(arguments, argument)
        if value is not None and value < 1:
            return f"{flag_name(argument)} is {value}; pass 1 or more."
    return ""


def flags_for(arguments: argparse.Namespace, name: str) -> list[str]:
    """Return the flags that were set and that this benchmark reads, but not every one does."""
    words = []
    for argument, use in FLAG_USES.items():
        value = getattr(arguments, argument)
        if name not in use.benchmarks or value == use.default:
            continue
        words.append(flag_name(argument))
        if value is not True:
            words.append(str(value))
    return words


# --- one, or all ----------------------------------------------------------------------------------


def run_one(arguments: argparse.Namespace) -> Line:
    """Run one benchmark in this process and return its line of JSON.

    Raises ValueError for something that is missing.
    """
    import torch

    from minbert.training import runtime
    from tools.benchmarks.inputs import write_model
    from tools.benchmarks.recording import conditions
    from tools.benchmarks.settings import Settings

    device = runtime.choose_device(arguments.device)[0]
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data_dir=arguments.data_dir,
            threads=arguments.threads,
            batch_size=arguments.batch_size,
            is_quick=arguments.quick,
            num_rounds=arguments.n,
            folder=Path(folder),
            device=device,
            is_compiled=arguments.compile,
            pooling=arguments.pooling,
            asked_precision=arguments.precision,
        )
        model = write_model(arguments.model, settings.model)
        # Asked before the work begins, which keeps the cores busy itself.
        load = busy_cores()
        line = load_benchmarks()[arguments.name](settings)
    return line | {
        "model": model,
        "threads": arguments.threads,
        "is_quick": arguments.quick,
        "busy_cores": load,
        **conditions(device.type),
    }


def record_lines(arguments: argparse.Namespace, lines: dict[str, Line]) -> None:
    """Add closing lines to the records, each with the flags that differ from their defaults."""
    # Imported late, because it imports torch.
    from tools.benchmarks.recording import digest_of_folder, record_measurement

    data = digest_of_folder(arguments.data_dir)
    for name, line in lines.items():
        flags = flags_for(arguments, name)
        for argument in ("threads", "n"):
            value = getattr(arguments, argument)
            if value != build_parser().get_default(argument):
                flags += [flag_name(argument), str(value)]
        record_measurement(BENCHMARKS, {**line, "changed_flags": flags, "data": data})


def run_all(arguments: argparse.Namespace, log: Callable[[str], None]) -> dict[str, Line | None]:
    """Run every benchmark in its own process. Return their lines of JSON, None where one failed."""
    # Flags that every benchmark reads.
    flags = ["--data-dir", arguments.data_dir, "--model", arguments.model]
    flags += ["--threads", str(arguments.threads)]
    if arguments.n:
        flags += ["--n", str(arguments.n)]
    if arguments.quick:
        flags.append("--quick")

    lines: dict[str, Line | None] = {}
    for name, question in QUESTIONS.items():
        log(f"\n{name}: {question}")
        command = [
            sys.executable,
            "-m",
            "tools.benchmarks",
            name,
            *flags,
            *flags_for(arguments, name),
        ]
        last = ""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        ) as process:
            assert process.stdout is not None
            # Shown as it comes. The last line is the JSON.
            for text in process.stdout:
                log(text.rstrip("\n"))
                last = text
        lines[name] = json.loads(last) if process.returncode == 0 else None
    return lines


def log(text: str) -> None:
    """Print a line at once, even where the output is no terminal."""
    print(text, flush=True)


def measure_all(arguments: argparse.Namespace) -> int:
    """Run all benchmarks. Return 0, or 1 where one of them failed."""
    start = time.monotonic()
    load = busy_cores()
    if load > QUIET:
        log(
            f"{load:.1f} processes wanted to run in the last minute; beside other work no time is "
            "worth noting."
        )
    lines = run_all(arguments, log)
    minutes = (time.monotonic() - start) / 60
    log(f"\nall of it took {minutes:.1f} minutes")
    if arguments.record:
        # Every benchmark but the first begins while the load of the one before still counts.
        measured = {name: line | {"busy_cores": load} for name, line in lines.items() if line}
        record_lines(arguments, measured)
    failed = [name for name, line in lines.items() if line is None]
    if failed:
        log(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


@exit_code("python -m tools.benchmarks", "Stopped; nothing was written.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when done, 1 where one of `all` failed."""
    arguments = parse(argv)
    if arguments.list:
        for name, question in QUESTIONS.items():
            print(f"{name:<12}{question}")
        return 0
    if arguments.name == "all":
        return measure_all(arguments)
    line = run_one(arguments)
    if arguments.record:
        record_lines(arguments, {arguments.name: line})
    log("\n".join([*format_line(line), "", json.dumps(line)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
