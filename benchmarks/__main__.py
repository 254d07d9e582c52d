"""`python -m benchmarks NAME [--quick]`, or `all`, or `--list`: our side and the peer in one run, in turn.

Each NAME is the file of that name and ends with one line of JSON. `all` gives each a process of its own, one after the
other, and writes a dated report. The flags are explained by --help, the numbers by README.md.
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from benchmarks.comparison import busy_cores, markdown, report

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "benchmarks" / "reports"
QUESTIONS = {
    "train_step": "How fast is a training step, against Hugging Face loops and against the machine?",
    "inference": "How fast do sentences become vectors, against sentence_transformers.encode, and are they the same?",
    "optimizer": "What does an AdamW step cost, against torch.optim.AdamW, and is it the same step?",
    "surgery": "What does PCGrad cost, against a joint step and against torchjd?",
    "simcse": "What does SimCSE gain by one pass of 2B rows, against two passes of B?",
    "startup": "How long until something happens?",
    "tokenize": "How fast does text become token ids, against transformers' fast tokenizer, and are they the same?",
    "memory": "How much memory does training take, against a plain Hugging Face loop?",
}
BATCH_SIZE = 32
READS = {  # flags that not every benchmark reads, with what stands for "not given"
    "batch_size": (
        BATCH_SIZE,
        ("train_step", "inference", "surgery", "memory"),
    ),  # SimCSE has its preset's
    "device": ("cpu", ("train_step", "inference")),
    "compile": (False, ("train_step", "inference")),
    "pooling": ("mean", ("train_step", "inference")),
}


def functions() -> dict[str, Callable]:
    """The benchmarks by name; imported late, since they bring torch."""
    from benchmarks import (
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


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line; exits with code 2 and a message for what cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
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
    parser.add_argument(
        "--model",
        default="auto",
        help="as --model of run_multitask.py; tiny, mini, small, base: "
        "random weights of that size; auto: minilm where its package is installed, else random weights "
        "of its shape (%(default)s)",
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
    parser.add_argument("--n", type=int, help="rounds, instead of each benchmark's own number")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where `all` writes its report (benchmarks/reports; "
        "with --quick it writes one only if this is given)",
    )
    given = parser.parse_args(argv)
    if given.list:
        return given
    if given.name is None:
        parser.error("no name is given; pass one of those that --list shows, or all.")
    if given.name != "all" and given.name not in QUESTIONS:
        close = difflib.get_close_matches(given.name.replace("-", "_"), [*QUESTIONS, "all"], n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"there are {', '.join(QUESTIONS)} and all."
        )
        parser.error(f"no benchmark is called '{given.name}'; {hint}")
    if given.out is not None and given.name != "all":
        parser.error(
            f"--out is for the report of all; {given.name} alone ends with its line of JSON."
        )
    for flag, (absent, names) in READS.items():
        if given.name not in ("all", *names) and getattr(given, flag) != absent:
            parser.error(f"--{flag.replace('_', '-')} has no effect on {given.name}; drop it.")
    for flag in ("batch_size", "threads", "n"):
        value = getattr(given, flag)
        if value is not None and value < 1:
            parser.error(f"--{flag.replace('_', '-')} is {value}; pass 1 or more.")
    return given


def run_one(given: argparse.Namespace) -> dict:
    """One benchmark in this process; returns its line of JSON. ValueError for what is missing."""
    import torch

    from benchmarks.material import Settings, write_model
    from minbert.training import runtime

    device, _ = runtime.choose_device(given.device)
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            given.data_dir,
            given.threads,
            given.batch_size,
            given.quick,
            given.n,
            Path(folder),
            device,
            given.compile,
            given.pooling,
        )
        model = write_model(given.model, settings.model)
        load = busy_cores()
        line = functions()[given.name](settings)
    return line | {
        "model": model,
        "threads": given.threads,
        "is_quick": given.quick,
        "busy_cores": load,
    }


def own_flags(given: argparse.Namespace, name: str) -> list[str]:
    """What was given of the flags that only some benchmarks read, and this one does."""
    words = []
    for flag, (absent, names) in READS.items():
        if name in names and (value := getattr(given, flag)) != absent:
            words += [f"--{flag.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def run_all(given: argparse.Namespace, log: Callable[[str], None]) -> dict[str, dict | None]:
    """Every benchmark in a process of its own; its line of JSON, or None where it failed."""
    flags = [
        "--data-dir",
        given.data_dir,
        "--model",
        given.model,
        "--threads",
        str(given.threads),
        *(["--n", str(given.n)] if given.n else []),
        *(["--quick"] if given.quick else []),
    ]
    lines: dict[str, dict | None] = {}
    for name in QUESTIONS:
        log(f"\n{name}: {QUESTIONS[name]}")
        command = [sys.executable, "-m", "benchmarks", name, *flags, *own_flags(given, name)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        ) as process:
            last = ""
            for text in process.stdout:
                log(text.rstrip("\n"))
                last = text
        lines[name] = json.loads(last) if process.returncode == 0 else None
    return lines


def write_report(
    given: argparse.Namespace, lines: dict[str, dict | None], load: float, when: datetime
) -> Path:
    """The report of `all`, in a file named after the minute in which it began; returns the path."""
    folder = given.out or REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    model = next((line["model"] for line in lines.values() if line), given.model)
    settings = (
        f"{'A quick look' if given.quick else 'A full run'} with {model}, batches of {given.batch_size}, "
        f"{given.threads} thread{'s' * (given.threads > 1)}, train_step and inference on {given.device}"
        f"{' and compiled' * given.compile} with the vector {given.pooling}, data of the folder "
        f"{Path(given.data_dir).resolve().name}"
    )
    path = folder / f"{when:%Y-%m-%d-%H%M}.md"
    path.write_text(report(lines, QUESTIONS, settings, load, when), encoding="utf-8")
    return path


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when done, 1 where one of `all` failed, 2 for bad input, 130 when interrupted."""
    given = parse(argv)
    if given.list:
        print("\n".join(f"{name:<12}{question}" for name, question in QUESTIONS.items()))
        return 0
    when, load = datetime.now(), busy_cores()
    try:
        if given.name != "all":
            line = run_one(given)
            print("\n".join([*markdown(line), "", json.dumps(line)]), flush=True)
            return 0
        if load > 0.5:
            print(
                f"{load:.1f} processes wanted to run in the last minute; beside other work no time is worth noting."
            )
        lines = run_all(given, log=lambda text: print(text, flush=True))
        print(f"\nall of it took {(datetime.now() - when).total_seconds() / 60:.1f} minutes")
        if given.out or not given.quick:
            print(f"\nreport: {write_report(given, lines, load, when)}")
        return 0 if all(lines.values()) else 1
    except KeyboardInterrupt:
        print("\nStopped; nothing was written.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
