"""Command: what does a fault cost? `python -m tools.reliability`.

Thousands of trials kill commands, fail their file operations, damage what they read, and stand in
the way of what they write. A campaign can be stopped at any time, and `--resume` continues it.
docs/results/reliability.md has the results and says what counts as survived.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# One thread, before torch is imported: a process that has no other threads can be forked.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.files import read_json, write_json
from minbert.commands.flags import Parser
from minbert.training.code_version import code_version
from tools.benchmarks.comparison import versions
from tools.benchmarks.recording import HELP, record_measurement
from tools.reliability import series
from tools.reliability.campaign import (
    PARTS,
    Done,
    commands_of,
    do_all,
    do_trial,
    plan,
    read_done,
    rows_of,
)
from tools.reliability.soak import growth, judge, soak
from tools.reliability.trial import COMMAND, Trial
from tools.reliability.workplace import Workplace
from tools.tables.generic import show_table

RELIABILITY = RECORDS / "reliability.jsonl"
WORK = Path(tempfile.gettempdir()) / "minbert-reliability"
SOAK = "soak"
FULL = "faults"  # the name of the record of a full campaign
MINUTES_OF_SOAK = 60.0


def build_parser() -> Parser:
    """The command line."""
    goals = ", ".join(f"{part.name} {part.goal:,}" for part in PARTS.values())
    parser = Parser(prog=COMMAND, allow_abbrev=False, description="Try thousands of faults.")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=[*PARTS, SOAK],
        default=list(PARTS),
        metavar="PART",
        help=f"kinds of faults, with the trials of a full campaign: {goals}; or soak "
        "(default: all but soak)",
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of a full campaign (default %(default)s)"
    )
    parser.add_argument(
        "--commands",
        default="",
        metavar="A,B",
        help="stop only these commands, such as ensemble,export,part1 (default: all)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="stop after this time; 0: only show what is done (default: never, the soak after 60)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all trials (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=WORK, metavar="DIR", help="folder of all files (%(default)s)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the campaign of this folder"
    )
    parser.add_argument(
        "--repeat", metavar="PART:NUMBER", help="only this trial, as a failed one prints it"
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments. ValueError for a combination that makes no sense."""
    arguments = build_parser().parse_args(argv)
    if not sys.platform.startswith("linux"):
        raise ValueError("this command needs Linux: it forks processes and counts their memory.")
    if not 0 < arguments.share <= 1:
        raise ValueError(f"--share {arguments.share}: expected is a number above 0, at most 1.")
    if arguments.repeat is not None:
        name, _, number = arguments.repeat.partition(":")
        if name not in PARTS or not number.isdecimal():
            raise ValueError(f"--repeat {arguments.repeat}: expected is such as kills:17.")
    return arguments


def check_commands(arguments: argparse.Namespace, workplace: Workplace) -> None:
    """ValueError where --commands names no command, or none for a part."""
    if not arguments.commands:
        return
    chosen = set(arguments.commands.split(","))
    targets = {name for name in workplace.targets if "," not in name}
    readers = {"kills": targets, "disk": targets, "series": set(series.NAMES)}
    known = sorted(set().union(*readers.values()))
    if not chosen <= set(known):
        raise ValueError(f"--commands {arguments.commands}: it is some of {','.join(known)}.")
    repeated = arguments.repeat and arguments.repeat.partition(":")[0]
    for part in [repeated] if repeated else arguments.parts:
        if not chosen & readers.get(part, set()):
            raise ValueError(f"--commands {arguments.commands}: {part} has none of them.")


def check_folder(arguments: argparse.Namespace) -> None:
    """Begin a campaign in a new folder, or check that it is the one to continue.

    ValueError where the folder holds another campaign, or one of other code.
    """
    path = arguments.work / "campaign.json"
    campaign = {"seed": arguments.seed, "code": code_version()["sha256"]}
    if not arguments.resume:
        if path.exists():
            raise ValueError(
                f"{arguments.work} holds a campaign. Continue it with --resume, or choose another "
                "folder with --work."
            )
        arguments.work.mkdir(parents=True, exist_ok=True)
        write_json(path, campaign)
    elif not path.is_file():
        raise ValueError(f"--resume: {arguments.work} holds no campaign.")
    elif read_json(path) != campaign:
        raise ValueError(
            f"--resume: the campaign in {arguments.work} has another seed or other code. Begin a "
            "new one with --work."
        )


def say(text: str) -> None:
    """Print a line at once, even where the output is no terminal."""
    print(text, flush=True)


def repeat(arguments: argparse.Namespace, workplace: Workplace) -> int:
    """Do one trial alone. Return 0 if it was survived, else 1."""
    name, _, number = arguments.repeat.partition(":")
    trial = Trial(name, int(number), arguments.seed, arguments.commands)
    folder = arguments.work / "repeated"
    outcome = do_trial(workplace, trial, folder).outcome
    say(f"{outcome.action}: {outcome.problem or 'survived'}")
    if outcome.problem:
        say(f"its files are in {folder}")
    return 1 if outcome.problem else 0


def measure(arguments: argparse.Namespace, workplace: Workplace) -> dict[str, Any]:
    """Do the campaign or the soak, and print its table. Return the record."""
    line: dict[str, Any] = {"seed": arguments.seed, "versions": versions()}
    if SOAK in arguments.parts:
        minutes = arguments.minutes or MINUTES_OF_SOAK
        say(f"soak: {minutes:g} minutes")
        samples = soak(workplace, arguments.work / SOAK, minutes)
        problem = judge(samples)
        say(f"{len(samples)} rounds; {problem or 'memory and open files are flat'}")
        share = growth(samples) if not problem else None
        return {**line, "name": SOAK, "samples": samples, "problem": problem, "growth": share}

    path = arguments.work / "trials.jsonl"
    if arguments.minutes == 0:
        done = read_done(path)
    else:
        workplace.make(say)
        trials = plan(arguments.parts, arguments.share, arguments.seed, arguments.commands)
        done = do_all(workplace, trials, path, arguments.minutes or math.inf, say)
    rows = [row._asdict() for row in rows_of(done)]
    line |= {"name": name_of(arguments), "rows": rows}
    commands = []
    for command, (tried, survived) in commands_of(done).items():
        commands.append({"command": command, "tried": tried, "survived": survived})
    line |= {"commands": commands}
    line |= {"goals": {name: PARTS[name].goal for name in arguments.parts}}
    line |= {"seconds": round(sum(item.seconds for item in done)), "failed": failures(done)}
    # The table of full campaigns, whatever the parts of this one.
    say(show_table("reliability", [{**line, "name": FULL}]))
    return line


def name_of(arguments: argparse.Namespace) -> str:
    """The name of a campaign's record. One of some parts does not take the place of a full one."""
    if set(arguments.parts) == set(PARTS):
        return FULL
    return f"{FULL} of {', '.join(arguments.parts)}"


def failures(done: Sequence[Done]) -> list[str]:
    """The commands of the trials that were not survived."""
    return [item.trial.command for item in done if item.outcome.problem]


@exit_code(COMMAND, "Stopped. --resume continues the campaign.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 where all trials were survived, 1 where one was not."""
    arguments = parse(argv)
    torch.set_num_threads(1)
    workplace = Workplace(arguments.work / "workplace")
    check_commands(arguments, workplace)
    if arguments.repeat is None and SOAK not in arguments.parts:
        check_folder(arguments)
    if arguments.repeat is not None:
        workplace.make(say)
        return repeat(arguments, workplace)
    line = measure(arguments, workplace)
    if arguments.record:
        record_measurement(RELIABILITY, line)
    say(json.dumps({key: value for key, value in line.items() if key != "samples"}))
    return 1 if line.get("failed") or line.get("problem") else 0


if __name__ == "__main__":
    sys.exit(main())
