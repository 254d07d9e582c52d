"""Advice in the messages of commands works: each is followed, and the changed command is accepted.

tests/command_line/test_advice.py does the same for run_multitask.py, and tests/data/test_advice.py
for tables. advice.txt has the cases: a command line, words of its message, and the command line
that they ask for. Where a command only has to be read, its parser stands for it.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
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
from contrastive.train.__main__ import main as train_stage_alone
from contrastive.train.parser import parse as parse_stage
from contrastive.train.parser import short_flags
from course.four_runs import check_flags as check_part1
from course.options import Part1Options, SubmitOptions
from experiments.__main__ import parse as parse_series
from experiments.labels import LabelsOptions
from experiments.papers import PapersOptions, is_for_papers
from experiments.reproduction import find_record
from minbert.commands import optional
from minbert.commands.flags import parse_command
from minbert.commands.launcher import COMMANDS
from minbert.commands.options import CommandOptions
from minbert.options import PictureOptions
from minbert.pretraining.__main__ import parse as parse_pretraining
from minbert.pretraining.plain_text import read_corpus
from multitask.command_options import CheckOptions, CompareOptions
from multitask.ensemble.options import EnsembleOptions
from multitask.errors.options import ErrorsOptions
from multitask.predict import main as predict
from multitask.run_data import read_task_tables
from teaching.options import GradeOptions, TraceOptions
from tests.advice import Message, advices, shown
from tests.small_models import make_model

HEADER = "sentence1\tsentence2\tscore\n"
# The files that the cases name.
FILES = {
    "texts.txt": "the cat sat\na dog ran\na bird\n",
    "others.txt": "x y\nz\nthe bird\n",
    "one.txt": "the cat sat\n",
    "empty.txt": "",
    "gap.txt": "a cat\n\na dog\n",
    "words.csv": "name,words\na,the cat\nb,a dog\n",
    "both.csv": "text,sentence\na cat,the cat\na dog,dogs\n",
    "twice.csv": "words,Words\na,the cat\nb,a dog\n",
    "noid.tsv": "sentence\na fine film\n",
    "hole.tsv": "id\tsentence\na1\ta fine film\na2\tx\ty\n",
    "colours.csv": "text,label\n"
    + "".join(f"{n},{'red' if n % 2 else 'blue'}\n" for n in range(12)),
    "misspelt.csv": "text,label\na,red\nb,rad\n",
    "own.csv": "text,body,label\n" + "".join(f"t{n},b{n},{n % 2}\n" for n in range(12)),
    "bodies.csv": "body,label\na,0\nb,1\n",
    "binary.tsv": "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n",
    "unlike.tsv": HEADER + "a cat\tthe sun\t0\na dog\ta bird\t0\n",
    "long.txt": "the cat sat on a mat\n" * 400,
    "equal.csv": "text,label\na,1\nb,1\n",
    "twotexts.tsv": "text\ttext_pair\tlabel\n"
    + "".join(f"a{n}\tb{n}\t{'xyz'[n % 3]}\n" for n in range(12)),
    "hole.csv": "text,n\na cat,1\n,2\n",
    "triplets.tsv": "anchor\tpositive\tnegative\na cat\tthe cat\ta dog\nthe sun\tsun\ta car\n",
    "zero.txt": "one\nt\0wo\n",
    "tab.txt": "a cat\tb\n",
    "two.txt": "a\tb\n",
    "three.txt": "a\tb\tc\n",
    "bad/options.json": "{}",
    "pairs.tsv": HEADER + "a cat\tthe cat\t5\na dog\ta bird\t2\nthe sun\ta car\t0\n",
    "equal.tsv": HEADER + "a\tb\t1\na\tc\t1\n",
    "wordscore.tsv": HEADER + "a\tb\tx\nc\td\t1\n",
    "holes.tsv": HEADER + "a\t\t1\nc\td\t1\n",
    "classes.tsv": "text\tlabel\n" + "".join(f"word {n}\t{n % 2}\n" for n in range(20)),
    "rank.tsv": "question\tanswer\tlabel\nq\ta\t1\nq\tb\t0\n",
    "rank1.tsv": "question\tanswer\tlabel\nq\ta\t1\nq\tb\t1\n",
    "vectors.txt": "a .1 .2 .3\ncat .2 .1 .0\ndog .3 .2 .1\nsun .5 .1 .9\n",
    "short.vec": "a .1 .2 .3\ncat .2 .1\n",
    "infinite.vec": "a .1 .2 .3\ncat inf .1 .0\n",
    "header.vec": "3 3\na .1 .2 .3\n",
    "other.vec": "maison .1 .2 .3\n",
    "packed.vec": "PK\3\4",
    "year/STS.input.news.txt": "a cat\tthe cat\nb\tc\nthe sun\ta car\n",
    "year/STS.gs.news.txt": "5\n\n0\n",
    "yearbad/STS.input.news.txt": "a cat\tthe cat\nthe sun\ta car\n",
    "yearbad/STS.gs.news.txt": "5\n",
    "yearcut/STS.input.news.txt": "a cat\nthe sun\ta car\n",
    "yearcut/STS.gs.news.txt": "5\n1\n",
    "yearhalf/STS.input.news.txt": "a cat\tthe cat\n",
    "rank2.tsv": "question\tanswer\tlabel\nq\ta\t1\nq\tb\t7\n",
}
EMBED = "minbert-mini --input"


def train(words: list[str]) -> None:
    options, resumed = training_parser.parse(words)
    find_folder(options, resumed)


def stage(words: list[str]) -> None:
    with short_flags():
        parse_stage(words)


def papers(words: list[str]) -> None:
    parse_command(PapersOptions, "papers", "", words)


def read_tasks(words: list[str]) -> None:
    """Read the files of all tasks, as a run does before it trains."""
    options, _ = training_parser.parse(words)
    read_task_tables(options.data, options.multitask)


def corpus(words: list[str]) -> None:
    read_corpus(parse_pretraining(words))


def reproduce(words: list[str]) -> None:
    find_record(words[0])


def train_stage(words: list[str]) -> int:
    return train_stage_alone([*words, "--model", "minbert-mini", "--steps", "1"])


def series(words: list[str]) -> None:
    """Recipes of the papers have a command of their own, which takes over."""
    if is_for_papers(words):
        papers(words)
    else:
        parse_series(words)


# The commands of advice.txt, and what reads or runs a command line of each.
STARTS: dict[str, Callable[[list[str]], Any]] = {
    "embed": embed,
    "quality": quality,
    "stage": stage,
    "trained stage": train_stage,
    "pretraining": parse_pretraining,
    "corpus": corpus,
    "train": train,
    "tasks": read_tasks,
    "experiments": series,
    "papers": papers,
    "reproduce": reproduce,
    "part1": check_part1,
    "predict": predict,
}
# Commands whose options alone refuse.
OPTIONS: dict[str, type[CommandOptions]] = {
    "attention": PictureOptions,
    "trace": TraceOptions,
    "grade": GradeOptions,
    "labels": LabelsOptions,
    "compare": CompareOptions,
    "ensemble": EnsembleOptions,
    "errors": ErrorsOptions,
    "check": CheckOptions,
    "submit": SubmitOptions,
    "part1 options": Part1Options,
}


class Case(NamedTuple):
    """A command that is refused, and the one that its message asks for."""

    command: str
    line: str
    words: str  # of the message
    followed: str


def read_cases() -> list[Case]:
    """The cases of advice.txt: a section for each command, and a case in each line."""
    cases = []
    command = ""
    for line in Path(__file__).with_name("advice.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            command = line.strip("[]")
        elif line and not line.startswith("#"):
            refused, words, followed = f"{line} ".split(" | ")
            cases.append(Case(command, refused, words, followed))
    return cases


CASES = read_cases()


def start(command: str, line: str) -> Any:
    """Read or run a command line."""
    if command in STARTS:
        return STARTS[command](shlex.split(line))
    return parse_command(OPTIONS[command], command, "", shlex.split(line))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The folder in which all commands work."""
    folder = tmp_path_factory.mktemp("advice")
    for name in ("full", "run1", *"abcd"):
        (folder / name).mkdir()
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (folder / "full" / "notes.txt").touch()
    np.save(folder / "narrow.npy", np.ones((3, 4), dtype=np.float32))
    np.save(folder / "plain.npy", np.ones((3, 192), dtype=np.float32))
    np.save(folder / "nan.npy", np.full((3, 192), np.nan, dtype=np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert embed(shlex.split(f"{EMBED} texts.txt --out stored.npy")) == 0
        assert embed(shlex.split(f"{EMBED} texts.txt --out cls.npy --pooling cls")) == 0
        assert embed(shlex.split(f"{EMBED} one.txt --out one.npy")) == 0
        assert embed(shlex.split(f"{EMBED} texts.txt --shard 1/1 --out shards")) == 0
    make_model("roberta", folder / "roberta")
    (folder / "strange").mkdir()
    values = {"options": {"sst_dev_out": "../x.csv"}, "files": {}}
    (folder / "strange" / "options.json").write_text(json.dumps(values))
    changed = bytearray((folder / "stored.npy").read_bytes())
    changed[200] ^= 1  # a bit of a number
    (folder / "changed.npy").write_bytes(changed)
    assert np.load(folder / "stored.npy").shape[0] == 3
    return folder


@pytest.fixture
def message_of(place, monkeypatch, capsys) -> Callable[[Case, str], str]:
    """A function: the message with which a command ends; "" where it is accepted."""
    from huggingface_hub import constants

    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def message_of(case: Case, line: str) -> str:
        try:
            code = start(case.command, line)
        except (ValueError, SystemExit) as error:
            return capsys.readouterr().err or str(error)
        return capsys.readouterr().err if code and isinstance(code, int) else ""

    return message_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.command} {case.line}")
def test_advice_that_is_followed_works(case, message_of):
    assert shown(case.words) in message_of(case, case.line)
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
    for message in advices():
        false = false_flags(message, flags_of)
        if false:
            found[f"{message.path}:{message.line}"] = false
    assert not found
    assert len(advices()) > 700 and all(len(flags) > 1 for flags in flags_of.values())


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
