"""Advice in the messages of commands works: each is followed, and the changed command is accepted.

tests/command_line/test_advice.py does the same for run_multitask.py, and tests/data/test_advice.py
for tables. A case has a command, words of its message, and the command that they ask for. Where a
command only has to be read, its parser stands for it.
"""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from command_line import parser as training_parser
from command_line.folders import find_folder
from contrastive.embed.__main__ import main as embed
from contrastive.quality.__main__ import main as quality
from contrastive.train.parser import parse as parse_stage
from contrastive.train.parser import short_flags
from course.four_runs import check_flags as check_part1
from experiments.__main__ import parse as parse_series
from experiments.labels import LabelsOptions
from experiments.papers import PapersOptions, is_for_papers
from experiments.reproduction import find_record
from minbert.commands import optional
from minbert.commands.flags import parse_command
from minbert.commands.launcher import COMMANDS
from minbert.options import PictureOptions
from minbert.pretraining.__main__ import parse as parse_pretraining
from multitask.command_options import CompareOptions
from teaching.options import GradeOptions, TraceOptions
from tests.messages import Message, messages

TEXTS = "the cat sat\na dog ran\na bird\n"
PAIRS = "sentence1\tsentence2\tscore\na cat\tthe cat\t5\na dog\ta bird\t2\nthe sun\ta car\t0\n"


def train(words: list[str]) -> None:
    options, resumed = training_parser.parse(words)
    find_folder(options, resumed)


def stage(words: list[str]) -> None:
    with short_flags():
        parse_stage(words)


def labels(words: list[str]) -> None:
    parse_command(LabelsOptions, "labels", "", words)


def compare(words: list[str]) -> None:
    parse_command(CompareOptions, "compare", "", words)


def papers(words: list[str]) -> None:
    parse_command(PapersOptions, "papers", "", words)


def picture(words: list[str]) -> None:
    parse_command(PictureOptions, "attention", "", words)


def trace(words: list[str]) -> None:
    parse_command(TraceOptions, "trace", "", words)


def grade(words: list[str]) -> None:
    parse_command(GradeOptions, "grade", "", words)


def reproduce(words: list[str]) -> None:
    find_record(words[0])


def series(words: list[str]) -> None:
    """Recipes of the papers have a command of their own, which takes over."""
    if is_for_papers(words):
        papers(words)
    else:
        parse_series(words)


class Case(NamedTuple):
    """A command that is refused, and the one that its message asks for."""

    start: Callable[[list[str]], Any]
    line: str
    words: str  # of the message
    followed: str


EMBED = "minbert-mini --input texts.txt"
QUALITY = "minbert-mini --sets pairs.tsv"
STAGE = "simcse --text sts --out new"
MEAN = "sg-table-1-mean"
SETS = "--sets pairs.tsv"
CASES = [
    Case(embed, f"{EMBED} --top 2", "add one of them, or drop", f"{EMBED} --top 2 --query cat"),
    Case(embed, f"{EMBED} --query cat --duplicates", "ask for one", f"{EMBED} --duplicates"),
    Case(embed, f"{EMBED} --nearest 3", "Pass a smaller K", f"{EMBED} --nearest 2"),
    Case(
        embed,
        "minbert-mini --input one.txt --nearest 1",
        "0 others. Pass more sentences.",
        f"{EMBED} --nearest 1",
    ),
    Case(embed, f"{EMBED} --out a.csv", "a name such as a.npy", f"{EMBED} --out a.npy"),
    Case(
        embed, f"{EMBED} --out full", "such as full/vectors.npy", f"{EMBED} --out full/vectors.npy"
    ),
    Case(embed, f"{EMBED} --shard 1/1", "pass it as --out DIR", f"{EMBED} --shard 1/1 --out s"),
    Case(
        embed,
        f"{EMBED} --shard 1/2 --out t",
        "Pass at most 1 shards",
        f"{EMBED} --shard 1/1 --out t",
    ),
    Case(
        embed,
        f"{EMBED} --vectors texts.txt --nearest 1",
        "it does not begin as one). Pass the file that --out wrote.",
        f"{EMBED} --vectors stored.npy --nearest 1",
    ),
    Case(
        embed,
        f"{EMBED} --vectors stored.npy --out b.npy",
        "has no effect without --nearest or",
        f"{EMBED} --vectors stored.npy --nearest 1",
    ),
    Case(
        embed,
        "someone/none --input texts.txt --nearest 1",
        "use what needs no hub: minbert-mini, minilm",
        f"{EMBED} --nearest 1",
    ),
    Case(
        embed,
        "minbert-min --input texts.txt --nearest 1",
        "Give 'minbert-mini'",
        f"{EMBED} --nearest 1",
    ),
    Case(quality, "minbert-mini", "expected is --sets FILE", QUALITY),
    Case(quality, f"{QUALITY} --range 5 0", "such as --range 0 5", f"{QUALITY} --range 0 5"),
    Case(quality, f"{QUALITY} --range 0 4", "or leave --range out", QUALITY),
    Case(quality, f"{QUALITY} pairs.tsv", "Name each file once", QUALITY),
    Case(quality, f"{QUALITY} --folds 3", "add one or drop it", QUALITY),
    Case(quality, f"{QUALITY} --report r.htm", "ends in .html", f"{QUALITY} --layers"),
    Case(
        stage,
        "ct --text random-words --out new",
        "such as --rows 10000",
        "ct --text random-words --rows 10000 --out new",
    ),
    Case(stage, f"{STAGE} --keep best", "Add --dev FILE", f"{STAGE} --keep best --dev pairs.tsv"),
    Case(stage, f"{STAGE} --steps 5 --epochs 2", "--steps 5 and --epochs 2", f"{STAGE} --steps 5"),
    Case(
        stage,
        f"{STAGE} --dev pairs.tsv --keep last --patience 2",
        "--patience 2 has no effect with --keep last",
        f"{STAGE} --dev pairs.tsv --keep last",
    ),
    Case(
        stage,
        "bsc --text sts --out new --epochs 1 --bsc-shuffle knn",
        "Drop --epochs 1, or the shuffle",
        "bsc --text sts --out new --bsc-shuffle knn",
    ),
    Case(
        stage, f"{STAGE} --splits train,all", "some of train, dev, test", f"{STAGE} --splits train"
    ),
    Case(
        stage,
        "mnr --text sts --out new --splits train,dev",
        "Drop it, or choose a method that reads sentences",
        f"{STAGE} --splits train,dev",
    ),
    Case(stage, "simcse --text sts --out full", "no run that this command", STAGE),
    Case(
        parse_pretraining,
        "--corpus texts.txt --out full",
        "no run that this command can continue. Pass another folder",
        "--corpus texts.txt --out new",
    ),
    Case(
        parse_pretraining,
        "--corpus texts.txt --out new --size tiny --init minbert-mini",
        "drop one of the two",
        "--corpus texts.txt --out new --init minbert-mini",
    ),
    Case(parse_pretraining, "--out new", "--corpus FILES", "--corpus texts.txt --out new"),
    Case(train, "--output_dir . --name full", "Pass another --name", "--output_dir . --name new"),
    Case(parse_series, "--out new", "Name one at least", "defaults --out new"),
    Case(parse_series, "default --out new", "did you mean defaults?", "defaults --out new"),
    Case(parse_series, "none --out new", "`python run_multitask.py --list-recipes`", "defaults"),
    Case(
        parse_series,
        "rob-1 --against defaults",
        "add it to them",
        "rob-1 defaults --against defaults",
    ),
    Case(parse_series, "defaults defaults", "Name each recipe once", "defaults"),
    Case(parse_series, "defaults --with=--name=x", "drop it from --with", "defaults"),
    Case(parse_series, "--arm a", "then = and flags", "--arm a=--epochs=1"),
    Case(parse_series, "--arm a= --record b", "Drop --arm", "defaults --record b"),
    Case(parse_series, "--arm a=--epochs=1 --with=--epochs=2", "Drop one of", "--arm a=--epochs=1"),
    Case(
        series,
        "sg-table-1-mea --sets pairs.tsv",
        "Did you mean sg-table-1-mean? python -m experiments.papers --list shows all.",
        "sg-table-1-mean --sets pairs.tsv",
    ),
    Case(papers, SETS, "NAME is missing; --list shows", "--list"),
    Case(papers, f"{MEAN} {MEAN} {SETS}", "Name each one once", f"{MEAN} {SETS}"),
    Case(series, f"rob-1 {MEAN} {SETS}", "own: python -m experiments rob-1.", "rob-1"),
    Case(papers, f"ct-table-1 {SETS}", "Add --text FILE", f"ct-table-1 {SETS} --text texts.txt"),
    Case(papers, f"{MEAN} {SETS} --text texts.txt", "Drop it", f"{MEAN} {SETS}"),
    Case(papers, MEAN, "pass --sets FILE...,", f"{MEAN} {SETS}"),
    Case(
        papers,
        f"{MEAN} --ranking r.tsv --rows 9",
        "without --sets or --pairs. Add one of them",
        f"{MEAN} --ranking r.tsv --rows 9 --pairs pairs.tsv",
    ),
    Case(papers, f"{MEAN} {SETS} --senteval d", "Measure them in two commands", f"{MEAN} {SETS}"),
    Case(
        papers,
        f"sg-table-1-wk {SETS} --ranking r.tsv",
        "a command of its own, with --sets alone",
        f"sg-table-1-wk {SETS}",
    ),
    Case(picture, "cat --head 1", "Pass both", "cat --head 1 --layer 1"),
    Case(picture, "cat --out a.jpg", "must end in one of .svg", "cat --out a.svg"),
    Case(trace, "cat --overwrite", "Drop it", "cat"),
    Case(trace, "cat --against x --hide cat", "Drop --page and --hide", "cat --against x"),
    Case(grade, "", "or --zip FILE", "--zip x.zip"),
    Case(grade, "e.py", "Give a folder or a file of a student", "full"),
    Case(
        stage,
        "simcse --text texts.txt --out new --splits dev",
        "names no task. Drop it",
        "simcse --text texts.txt --out new",
    ),
    Case(series, "--arm a=--epochs=1 --record b", "Drop --arm", "defaults --record b"),
    Case(reproduce, "methods", "such as methods:6", "methods:6"),
    Case(check_part1, "--name x", "drop it", ""),
    Case(check_part1, "--sst_dev_out x.csv", "Drop the flag", ""),
    Case(labels, "run --folds 3 --curve", "Ask one after the other", "run --curve"),
    Case(labels, "run --folds 3 --cost-missed 2", "Drop them", "run --folds 3"),
    Case(compare, "a", "Give A and B", "a b"),
    Case(compare, "a b --with c", "or several on each", "a b --with c d"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The folder in which all commands work."""
    folder = tmp_path_factory.mktemp("advice")
    (folder / "texts.txt").write_text(TEXTS)
    (folder / "one.txt").write_text(TEXTS.splitlines()[0])
    (folder / "pairs.tsv").write_text(PAIRS)
    (folder / "full").mkdir()
    (folder / "full" / "notes.txt").touch()
    for name in "abcd":
        (folder / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert embed([*EMBED.split(), "--out", "stored.npy"]) == 0
    assert np.load(folder / "stored.npy").shape[0] == 3
    return folder


@pytest.fixture
def message_of(place, monkeypatch, capsys) -> Callable[[Case, str], str]:
    """A function: the message with which a command ends; "" where it is accepted."""
    from huggingface_hub import constants

    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def message_of(case: Case, line: str) -> str:
        try:
            code = case.start(line.split())
        except (ValueError, SystemExit) as error:
            return capsys.readouterr().err or str(error)
        return capsys.readouterr().err if code and isinstance(code, int) else ""

    return message_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_advice_that_is_followed_works(case, message_of):
    assert case.words in message_of(case, case.line)
    assert message_of(case, case.followed) == ""


def test_a_command_that_is_not_changed_is_refused_again(message_of):
    """The negative control."""
    case = CASES[0]
    assert message_of(case, case.line) == message_of(case, case.line) != ""


@pytest.mark.parametrize(
    ("prefix", "has_script", "command"),
    [
        ("clone/.venv", True, "bash setup.sh --excel"),
        ("/usr", True, "bash setup.sh --excel"),
        ("/opt/conda", True, "python3 -m pip install openpyxl"),
        ("clone/.venv", False, "python3 -m pip install openpyxl"),
    ],
    ids=["its own environment", "none", "another one", "an installed package"],
)
def test_a_package_is_installed_for_the_python_that_lacks_it(
    tmp_path, monkeypatch, prefix, has_script, command
):
    """setup.sh would install it into the .venv of the clone."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("setup.sh", "pyproject.toml") if has_script else ():
        (clone / name).touch()
    monkeypatch.chdir(clone)
    monkeypatch.setattr(optional, "ROOT", clone)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / prefix))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "executable", "python3")
    assert optional.install_command(["openpyxl"], "--excel") == command
    # Without it no command starts, and a clone brings all of its packages.
    advice = optional.advice_on_module("sklearn")
    if "setup.sh" in command:
        assert advice == "Run `bash setup.sh` once, then .venv/bin/python"
    else:
        packages = "-e ." if has_script else "scikit-learn"
        assert advice == f"Run `python3 -m pip install {packages}` once"


# --- flags in messages ----------------------------------------------------------------------------

FLAG = re.compile(r"(?<![\w-])--[a-z](?:[\w-]*\w)?(?![\w{-])")
# A command that a message names, up to the end of it.
NAMED = re.compile(
    r"(?:python -m |`minbert |(?<![\w.])(?=(?:multitask|experiments)\.))([\w.]+)([^`;|]*)"
)
# Flags of other programs: torchrun, pip and pytest.
OF_OTHERS = {"--nproc-per-node", "--break-system-packages", "--index-url", "--import-mode"}
# What another command wrote or trained, by its flags.
OF_THE_RUN = {"multitask/export/classifier.py": "run_multitask"}


def flags_in(text: str) -> list[str]:
    """The flags that a text names, as --help writes them, each with dashes."""
    return [flag.replace("_", "-") for flag in FLAG.findall(text)]


@pytest.fixture(scope="module")
def flags_of() -> dict[str, set[str]]:
    """The flags of each command, by its module, as its help has them."""
    flags = {}
    for command in COMMANDS:
        module = importlib.import_module(command.module)
        if not hasattr(module, "main"):
            module = importlib.import_module(f"{command.module}.__main__")
        shown = io.StringIO()
        with redirect_stdout(shown), suppress(SystemExit):
            module.main(["--help-all" if command.name == "train" else "--help"])
        flags[command.module] = set(flags_in(shown.getvalue()))
    return flags


def false_flags(message: Message, flags_of: dict[str, set[str]]) -> list[str]:
    """The flags of a message that do not exist where it sends the user.

    Behind the name of a command a flag must be that command's. Otherwise the command is the one
    whose files hold the message, or any command for a file that several share.
    """
    of_names = {command.name: command.module for command in COMMANDS}
    text = message.text
    false = []
    for name, words in NAMED.findall(text):
        module = of_names.get(name, name)
        if module.startswith("tools."):
            text = text.replace(words, " ")
        elif module in flags_of:
            false += [flag for flag in flags_in(words) if flag not in flags_of[module]]
            text = text.replace(words, " ")

    known = OF_OTHERS.union(*flags_of.values())
    for module, flags in flags_of.items():
        place = module.replace(".", "/")
        has_folder = module != "experiments" and message.path.startswith(f"{place}/")
        if has_folder or message.path == f"{place}.py":
            known = flags_of[OF_THE_RUN.get(message.path, module)] | flags
    return false + [flag for flag in flags_in(text) if flag not in known]


def test_each_flag_in_a_message_exists(flags_of):
    found = {}
    for message in messages():
        false = false_flags(message, flags_of)
        if false:
            found[f"{message.path}:{message.line}"] = false
    assert not found
    assert len(messages()) > 700 and all(len(flags) > 1 for flags in flags_of.values())


@pytest.mark.parametrize(
    ("path", "text", "flag"),
    [
        ("data/readers.py", "Drop it, or pass --drop-good-rows.", "--drop-good-rows"),
        ("experiments/track.py", "Choose another --out.", "--out"),
        ("data/readers.py", "Run `python -m data.download --overwrit` once.", "--overwrit"),
        ("multitask/errors/page.py", "`minbert labels RUN --worst 5` looks.", "--worst"),
    ],
)
def test_a_false_flag_is_found(flags_of, path, text, flag):
    """The negative control."""
    assert false_flags(Message(path, 1, text), flags_of) == [flag]
