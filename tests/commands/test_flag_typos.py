"""Every command answers a typo in a flag with the flag that was meant, in one line, with code 2."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from command_line.parser import build_parser
from minbert.commands.flags import Parser
from tests.packages import PACKAGES
from tests.python_processes import run_python

ROOT = Path(__file__).resolve().parents[2]


def source_files() -> list[Path]:
    """The Python files of our packages."""
    files = [ROOT / "run_multitask.py"]
    for package in (*PACKAGES, "tools"):
        files += sorted((ROOT / package).rglob("*.py"))
    return [path for path in files if path != ROOT / "minbert" / "commands" / "flags.py"]


@cache
def calls_in(path: Path) -> set[str]:
    """The functions that a file calls, as they are written there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def command_of(path: Path) -> str | None:
    """The module that `python -m` runs for a file with a parser, or None.

    A command is a single file, or a folder whose parser may stand in a file of its own.
    """
    names = {"Parser", "parse_command", "parser_of"}
    text = path.read_text(encoding="utf-8")
    # Most files are not parsed: none of the names stands in them.
    if not any(name in text for name in names) or not calls_in(path) & names:
        return None
    place = path.parent if (path.parent / "__main__.py").exists() else path.with_suffix("")
    # A file beside __main__.py may be a command as well.
    is_script = 'if __name__ == "__main__":' in text
    if is_script and path.name != "__main__.py":
        place = path.with_suffix("")
    return ".".join(place.relative_to(ROOT).parts)


COMMANDS = sorted({command for path in source_files() if (command := command_of(path))})


def test_every_parser_suggests_the_flag_that_was_meant():
    """argparse's own parser prints a page of usage and no suggestion.

    A predictor that is copied beside an exported model runs without minBERT.
    """
    plain = [path for path in source_files() if "argparse.ArgumentParser" in calls_in(path)]
    assert plain == [ROOT / "multitask/export/onnx_predictor.py"], (
        "use minbert.commands.flags.Parser"
    )
    assert {"multitask.predict", "contrastive.embed", "data.download", "experiments"} <= {*COMMANDS}


@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.startswith("tools.")])
def test_a_typo_in_a_flag(command):
    """Also where other arguments are missing: the typo is why. Those of tools/ have the parser."""
    result = run_python("-m", command, "--hlep")
    assert result.returncode == 2, result.stderr
    assert not result.stdout
    assert len(result.stderr.strip().splitlines()) == 1
    assert "unknown flag --hlep; did you mean --help?" in result.stderr


# --- what the parser says -------------------------------------------------------------------------


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="toy")
    parser.add_argument("file")
    parser.add_argument("--task", required=True)
    parser.add_argument("--nli")
    parser.add_argument("--hand-on")
    return parser


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "--taks", "sts"], "toy: unknown flag --taks; did you mean --task?"),
        (["a", "--taks=sts"], "toy: unknown flag --taks=sts; did you mean --task?"),
        (["--task", "sts", "--zzz"], "toy: unknown flag --zzz; --help lists all flags."),
        (["a", "--task", "sts", "--config"], "toy: unknown flag --config; --help lists all flags."),
        (["a", "--task", "sts", "--wandb"], "toy: unknown flag --wandb; --help lists all flags."),
        (
            ["a", "--task", "sts", "--hand-off"],
            "toy: unknown flag --hand-off; did you mean --hand-on?",
        ),
        (
            ["a", "--task", "sts", "--learning-rate", "1"],
            "toy: unknown flag --learning-rate; --help lists all flags.",
        ),
        (["a", "b", "--task", "sts"], "toy: unknown argument b; --help lists all arguments."),
        (["a"], "toy: the following arguments are required: --task"),
    ],
)
def test_messages(parser, capsys, words, message):
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--learning-rate", "--lr"),
        ("--num_train_epochs", "--epochs"),
        ("--per_device_train_batch_size", "--batch_size"),
        ("--max_seq_length", "--max_length"),
        ("--model_name_or_path", "--model"),
        ("--warmup_ratio", "--warmup"),
    ],
)
def test_flags_of_other_libraries(flag, meant, capsys):
    """Some are alike enough to the wrong one: num_train_epochs to --contrastive_epochs."""
    with pytest.raises(SystemExit):
        build_parser().parse_args([flag, "1"])
    assert capsys.readouterr().err.endswith(f"unknown flag {flag}; did you mean {meant}?\n")


def test_a_long_word_is_not_quoted_whole(parser, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(["a", "--task", "sts", "b" * 100_000])
    assert len(capsys.readouterr().err) < 2000


@pytest.mark.parametrize("words", [["a", "--task", "sts"], ["--tas", "sts", "--", "a"]])
def test_right_words(parser, words):
    """The beginning of a flag is enough where argparse allows it; after -- nothing is a flag."""
    assert parser.parse_args(words).task == "sts"
    assert parser.parse_args(["--task", "sts", "--", "--file"]).file == "--file"
