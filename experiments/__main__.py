"""Recipes over several seeds, side by side: `python -m experiments NAME... --seeds 0,1,2 --out DIR`.

Each run is `run_multitask.py --recipe NAME --seed SEED` in a process of its own, in DIR/NAME-seedSEED; the flags of
--with go to all of them. A finished run is not done again and an interrupted one goes on, so the same command continues
a series that was stopped. Prints mean and standard deviation of the dev scores beside the published figures, and writes
DIR/ablation.md; what a run says goes into DIR/NAME-seedSEED.log.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from experiments.recipes import RECIPES, values_of
from minbert.commands.ending import exit_code
from minbert.training.code_version import code_version, name_of

COMMAND = Path(__file__).resolve().parent.parent / "run_multitask.py"
SECTIONS = ("options", "scores", "stages")  # of run.json
COLUMNS = {"sst": "SST", "para": "PARA", "sts": "STS", "overall_2023": "overall 2023"}


def command_of(name: str, seed: int, folder: Path, flags: Sequence[str]) -> list[str] | None:
    """The command that brings one run to its end; None where it is there already."""
    if (folder / "run.json").is_file():
        return None
    start = [sys.executable, str(COMMAND)]
    if (folder / "options.json").is_file():
        return [*start, "--resume", str(folder)]
    return [
        *start,
        "--recipe",
        name,
        "--seed",
        str(seed),
        "--output-dir",
        str(folder.parent),
        "--name",
        folder.name,
        *flags,
    ]


def scores_of(record: dict) -> dict[str, float]:
    """The dev scores of a finished run, from its run.json; of a recipe with fewer tasks those of its tasks."""
    from multitask.tasks import (
        learned,
        with_overall,
    )  # late: it imports torch, which --help does not need

    known = learned(record["options"]["tasks"].split(","), record["options"]["head"])
    return with_overall({name: record["scores"][name] for name in known})


def asked(flags: Sequence[str]) -> dict[str, str]:
    """The options that flags name, with their values as text; "True" for a flag that stands alone."""
    starts = [number for number, flag in enumerate(flags) if flag.startswith("--")]
    parts = (
        flags[start:end] for start, end in zip(starts, [*starts[1:], len(flags)], strict=False)
    )
    pairs = (part[0].split("=", 1) if "=" in part[0] else [*part, "True"][:2] for part in parts)
    return {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}


def meaning(value: object) -> float | str | list[str]:
    """An option's value such that two that mean the same are equal: 1e-4 and 0.0001, a/ and a, x=1,y=2 and y=2,x=1."""
    try:
        return float(str(value))
    except ValueError:
        return sorted(str(value).split(",")) if "=" in str(value) else os.path.normpath(str(value))


def is_other(stored: object, text: str) -> bool:
    """Whether a run's option is another than the flag's text; "auto" is resolved in the run's record."""
    return text != "auto" and meaning(stored) != meaning(text)


def content_of(path: Path, *sections: str) -> dict:
    """What options.json or run.json holds; ValueError where it is damaged or lacks a section."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {**content, **{name: dict(content[name]) for name in sections}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: not what a run writes ({type(error).__name__}: {error}). Move the run."
        ) from error


def check_same(recipe: str, folders: Sequence[Path], flags: Sequence[str]) -> None:
    """ValueError where runs, finished or begun, are not of this recipe, differ in more than seed and name, or have
    other options than the flags of --with ask for."""
    found = []
    for folder in (folder for folder in folders if (folder / "options.json").is_file()):
        options = content_of(folder / "options.json", "options")["options"]
        if (other := options.get("recipe")) != recipe:
            raise ValueError(f"{folder} holds a run of recipe {other}, not of {recipe}. Move it.")
        for name, text in asked(flags).items():
            if name not in options:
                raise ValueError(
                    f"--with has --{name}, which the run in {folder} does not know; drop it."
                )
            if is_other(options[name], text):
                raise ValueError(
                    f"{folder} has --{name} {options[name]}, and --with asks for {text}. It is not run "
                    "again: move it, give another --out, or no --with, for a table of what is finished."
                )
        found.append((folder, options))
    for folder, options in found[1:]:
        before, first = found[0]
        for key in sorted(
            (first.keys() & options.keys()) - {"seed", "name", "output_dir"}
        ):  # one may be newer
            if meaning(options[key]) != meaning(first[key]):
                raise ValueError(
                    f"{before} has --{key} {first[key]} and {folder} {options[key]}: one mean "
                    "would mix two experiments. Give the series one --with, or another --out."
                )


def stages_of(folder: Path, record: dict) -> dict[str, dict]:
    """What run.json says of a run's stages, by stage, and "seconds" where the encoder's folder is still there."""
    found = {name: dict(quality) for name, quality in record["stages"].items()}
    for name, quality in found.items():
        path = folder / ("encoder" if name == list(found)[-1] else f"encoder-{name}") / "stage.json"
        if path.is_file():
            quality["seconds"] = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    return found


def cell(scores: list[float], published: float | None) -> str:
    """Mean ± standard deviation (of a sample, n - 1), and in brackets what was published."""
    deviation = f" ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else ""
    mean = f"{statistics.mean(scores):.3f}{deviation}" if scores else "-"
    return mean + (f" ({published:.3f})" if published is not None else "")


def differences(runs: list[dict[str, float]], others: list[dict[str, float]]) -> str:
    """Overall 2023 of each run less that of the other recipe's run with the same seed, their mean and deviation.

    What differs between two seeds (the order of the rows, dropout) is taken out, so that less is left to chance.
    """
    overall = [[run.get("overall_2023") for run in of_recipe] for of_recipe in (runs, others)]
    found = [
        mine - theirs for mine, theirs in zip(*overall, strict=True) if None not in (mine, theirs)
    ]
    return f"{cell(found, None)}: " + ", ".join(f"{each:+.3f}" for each in found) if found else "-"


def table(found: dict[str, list[dict[str, float]]], against: str = "") -> str:
    """Markdown: a row for each recipe, its runs' scores as a list of dicts, seed by seed.

    against: the recipe of the last column, `differences` from it; "" for none.
    """
    columns = [*COLUMNS.values(), *([f"less {against}, seed by seed"] if against else [])]
    lines = ["| recipe | n | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for name, runs in found.items():
        published = RECIPES[name][1] if name in RECIPES else None
        figures = [getattr(published, key.removesuffix("_2023"), None) for key in COLUMNS]
        cells = [
            cell([run[key] for run in runs if key in run], figure)
            for key, figure in zip(COLUMNS, figures, strict=True)
        ]
        cells += [differences(runs, found[against]) if name != against else ""] if against else []
        lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def stage_table(stages: dict[str, list[dict]]) -> str:
    """Markdown: what each stage of --pretrain did to the encoder, from its records, by recipe and stage.

    The first score before and after: of contrastive stages Spearman of zero-shot STS dev, of mlm the held-out loss.
    """
    lines = ["| stage | n | score | before | after | handed on | seconds |", "|---" * 7 + "|"]
    for name, records in stages.items():
        score = next(iter(records[0]["before"]))
        seconds = [record["seconds"] for record in records if "seconds" in record]
        before, after = (
            cell([record[when][score] for record in records], None) for when in ("before", "after")
        )
        lines.append(
            f"| {name} | {len(records)} | {score} | {before} | {after} | "
            f"{sum(record['is_kept'] for record in records)} of {len(records)} | "
            f"{f'{statistics.mean(seconds):.0f}' if seconds else '-'} |"
        )
    return "\n".join(lines)


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the flags for run_multitask.py."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="recipes, see run_multitask.py --list-recipes"
    )
    parser.add_argument(
        "--seeds", default="0,1,2", help="separated by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/ablation"),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="NAME",
        help="one of the recipes: differences from it, seed by seed, in a column of their own",
    )
    parser.add_argument(
        "--with",
        default="",
        dest="flags",
        metavar="'FLAGS'",
        help="for every run, in quotes and "
        "after an equals sign: --with='--model minilm --epochs 2'",
    )
    given = parser.parse_args(argv)
    try:
        flags = shlex.split(given.flags)
        for name in given.names:
            values_of(name)
    except ValueError as error:
        parser.error(str(error))
    if not all(seed.isdecimal() for seed in given.seeds.split(",")):
        parser.error(f"--seeds is '{given.seeds}'; it is whole numbers, separated by commas.")
    given.seeds = list(map(int, given.seeds.split(",")))
    values = [*given.names, *given.seeds]
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        parser.error(
            f"{twice} is given twice, and would count twice. Name each recipe and seed once."
        )
    if given.against not in ("", *given.names):
        parser.error(
            f"--against is {given.against}, which is not among the recipes to run; add it to them."
        )
    taken = [
        flag
        for flag in flags
        if flag.split("=")[0]
        in ("--recipe", "--seed", "--name", "--output-dir", "--output_dir", "--resume")
    ]
    if taken:
        parser.error(f"{taken[0]} is set by the ablation itself; drop it from --with.")
    return given, flags


def run(command: list[str], log: Path) -> int:
    """The exit code of a process, whose output is added to `log`; on Ctrl-C, which it hears too, and SIGTERM it is
    given the time to save."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output)
    before = signal.signal(
        signal.SIGTERM, lambda *_: process.terminate()
    )  # which only the ablation has heard
    try:
        return process.wait()
    finally:
        process.wait()
        signal.signal(signal.SIGTERM, before)


@exit_code("python -m experiments", "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all runs are there, else that of the run that failed."""
    given, flags = parse(sys.argv[1:] if argv is None else argv)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in given.names}
    stages: dict[str, list[dict]] = {}
    now = code_version()
    folders = {
        name: [given.out / f"{name}-seed{seed}" for seed in given.seeds] for name in given.names
    }
    wanted = {
        name: {**values_of(name), **asked(flags)} for name in given.names
    }  # flags win, as in the run
    for name, of_recipe in folders.items():
        check_same(name, of_recipe, flags)
        for folder in (folder for folder in of_recipe if (folder / "run.json").is_file()):
            content_of(folder / "run.json", *SECTIONS)
        starts_anew = not all((folder / "options.json").is_file() for folder in of_recipe)
        nli = wanted[name].get("nli", "none")
        if (
            "simcse-nli" in wanted[name].get("pretrain", "").split(",")
            and not Path(nli).is_file()
            and starts_anew
        ):
            raise ValueError(
                f"{name} reads triplets, and --nli in --with is {nli}, no file. Add --nli FILE, or give "
                "this recipe a command of its own with the same --out."
            )
    for (number, seed), name in product(enumerate(given.seeds), given.names):
        folder = folders[name][number]
        command = command_of(name, seed, folder, flags)
        if command is not None:
            log = folder.with_name(f"{folder.name}.log")
            print(f"{folder}: running, its output in {log}")
            code = run(command, log)
            if code:
                advice = (
                    "Mend what it names first"
                    if code in (1, 2)
                    else "The same command goes on from here"
                )
                print(
                    f"{folder}: ended with code {code}; its message is above. {advice}.",
                    file=sys.stderr,
                )
                return code
            check_same(name, folders[name], flags)
        record = content_of(folder / "run.json", *SECTIONS)
        found[name].append(scores_of(record))
        for stage, content in stages_of(folder, record).items():
            stages.setdefault(f"{name}: {stage}", []).append(content)
        print(
            f"{folder}: "
            + ", ".join(f"{key} {score:.4f}" for key, score in found[name][-1].items())
        )
        for key, value in wanted[name].items():
            if is_other(stored := record["options"].get(key, value), str(value)):
                print(
                    f"{folder}: has --{key} {stored}, where {name} says {value}: flags of an earlier --with won, or "
                    "the recipe was edited since; remove it to have it made anew"
                )
        if record.get("code", now)["sha256"] != now["sha256"]:
            print(
                f"{folder}: made by other code than this ({name_of(record['code'])}); remove it to have it made "
                "anew"
            )
    text = "\n\n".join([table(found, given.against), *([stage_table(stages)] if stages else [])])
    (given.out / "ablation.md").write_text(text + "\n", encoding="utf-8")
    print(
        f"\n{text}\n\nmean ± standard deviation over seeds, in brackets the published figure; also in "
        f"{given.out / 'ablation.md'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
