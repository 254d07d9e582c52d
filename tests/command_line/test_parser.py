"""command_line/parser.py: flags, --help and --help-all, the course's flags, and refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line.checks import all_stages
from command_line.options import Options
from command_line.parser import all_sections, build_parser, parse
from data.examples import COURSE_FILES
from minbert.commands.options import (
    AUTO,
    OptionGroup,
    changed,
    direct_fields,
)
from tests.toy_options import FIELDS, SPLITS, context_of, options_of, refusal

ROOT = Path(__file__).resolve().parents[2]
BOUNDED = [name for name, item in FIELDS.items() if item.metadata["low"] is not None]
COMMON = [name for name, item in FIELDS.items() if item.metadata["is_common"]]
NO_RUN_FLAGS = {"help", "help-all", "list-recipes", "resume"}


# --- help -----------------------------------------------------------------------------------------


def help_text(capsys, flag: str, columns: int = 80) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as caught:
            parse([flag])
    assert caught.value.code == 0
    return capsys.readouterr().out


def shown_flags(text: str) -> list[str]:
    """The flags at the beginnings of lines, without dashes."""
    return re.findall(r"(?m)^  (?:-h, )?--([\w-]+)", text)


def test_help_all_shows_every_flag_once_with_its_default(capsys):
    text = help_text(capsys, "--help-all")
    flags = shown_flags(text)
    assert set(flags) == {*FIELDS, *NO_RUN_FLAGS}
    assert len(flags) == len(set(flags))
    assert " ".join(text.split()).count("(default: ") == len(FIELDS)


def test_help_shows_the_common_flags_only(capsys):
    text = help_text(capsys, "--help")
    assert set(shown_flags(text)) == {*COMMON, *NO_RUN_FLAGS}
    assert 20 <= len(COMMON) <= 30, "a first screen should stay short"
    assert "python run_multitask.py --help-all" in text
    assert text == help_text(capsys, "-h")


def sections_of(text: str) -> dict[str, list[str]]:
    """The flags of each section of a help text, by title."""
    sections: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            title = line[:-1]
            sections[title] = []
        elif title:
            sections[title] += shown_flags(line)
    return sections


def names_in(groups: list[type[OptionGroup]]) -> list[str]:
    """The options of a section."""
    names: list[str] = []
    for group in groups:
        names += [item.name for item in direct_fields(group)]
    return names


def test_help_is_grouped_by_package(capsys):
    sections = sections_of(help_text(capsys, "--help-all", columns=200))
    for title, groups in all_sections().items():
        names = names_in(groups)
        assert [name for name in sections[title] if name not in NO_RUN_FLAGS] == names
    common = sections_of(help_text(capsys, "--help"))
    assert common["the encoder (minbert)"] == ["model", "pooling"]
    assert "leaderboard files" not in common, "a section without common flags is left out"


@pytest.mark.parametrize("columns", [40, 80, 120, 300])
@pytest.mark.parametrize("flag", ["--help", "--help-all"])
def test_help_fits_the_terminal(capsys, flag, columns):
    lines = help_text(capsys, flag, columns).splitlines()
    longest = max(lines, key=len)
    # A flag with its choices is one word, which is not broken.
    assert len(longest) <= min(columns, 100) or "{" in longest or columns < 80, longest


def test_lists_in_a_help_text_stay_lists(capsys):
    text = help_text(capsys, "--help")
    for name in FIELDS["sampling"].metadata["choices"]:
        assert re.search(rf"(?m)^ +- {name}: ", text), f"{name} has no line of its own"


def test_every_option_is_in_one_section():
    """A group that parser.SECTIONS does not name would have no flags."""
    names = []
    for groups in all_sections().values():
        names += names_in(groups)
    assert sorted(names) == sorted(FIELDS)
    destinations = {action.dest for action in build_parser()._actions}
    assert destinations == {*FIELDS, "help", "help_all", "list_recipes", "resume"}


@pytest.mark.parametrize(("flag", "exit_code"), [("--help", 0), ("--help-all", 0), ("--epoch", 2)])
def test_help_and_a_typo_load_no_torch(flag, exit_code):
    code = (
        "import sys, run_multitask\n"
        "try: run_multitask.main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, flag]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    last = result.stdout.splitlines()[-1]
    assert (result.returncode, last) == (exit_code, "False"), result.stderr


# --- flags that mean something --------------------------------------------------------------------


def test_no_flags_are_the_defaults_with_the_sample_s_files():
    options = options_of()
    assert options == Options().with_files()
    of_cfimdb = {"cfimdb_train", "cfimdb_dev", "cfimdb_test"}
    assert changed(options).keys() == set(SPLITS) | of_cfimdb
    assert options.data.files.sst_test == str(Path("data/sample/ids-sst-test-student.csv"))


OTHER_VALUES = {
    "sampling_weights": "sts=2",
    "draw_weights": "sts=2",
    "loss_weights": "sts=2",
    "pair_encoding": "bi",
    "para_head": "vm",
    "train_rows": "sst=5",
    "untrained_tasks": "cfimdb",
    "skip": "estimate,test",
    "dev_rows": "sst=5",
    "max_tokens": "777",
    "contrastive_text_order": "sts,sst",
    "contrastive_text_shares": "sts=0.5",
    "sg_layers": "1-2",
}


def other_value(name: str) -> list[str]:
    """A value of option `name` that is not its default, as it stands on a command line."""
    item = FIELDS[name]
    if name in OTHER_VALUES:
        return [OTHER_VALUES[name]]
    if item.type == "bool":
        return []
    if item.type.startswith("float"):
        return ["0.25"]
    choices = item.metadata["choices"]
    return [choices[-1]] if choices else ["77"]


@pytest.mark.parametrize("name", [name for name in FIELDS if "_" in name])
def test_dashes_and_underscores_spell_the_same_flag(name):
    value = other_value(name)
    context = context_of(name)
    with_underscores = options_of(*context, f"--{name}", *value)
    with_dashes = options_of(*context, f"--{name.replace('_', '-')}", *value)
    assert with_underscores == with_dashes
    assert with_underscores.flat()[name] != FIELDS[name].default


def test_the_course_s_command_line_keeps_its_meaning():
    files = {name: f"my/{name}.csv" for name in SPLITS}
    files |= {f"{name}_out": f"out/{name}.csv" for name in SPLITS if not name.endswith("_train")}
    line = "--seed 7 --epochs 10 --option pretrain --use_gpu --batch_size 8 "
    line += "--hidden_dropout_prob 0.3 --lr 1e-3"
    for name, path in files.items():
        line += f" --{name} {path}"
    options = options_of(*line.split())

    assert options.with_values(**dict.fromkeys(files, AUTO)) == Options.of(
        cfimdb_train="data/sample/ids-cfimdb-train.csv",
        cfimdb_dev="data/sample/ids-cfimdb-dev.csv",
        cfimdb_test="data/sample/ids-cfimdb-test-student.csv",
        seed=7,
        epochs=10,
        option="pretrain",
        use_gpu=True,
        batch_size=8,
        hidden_dropout_prob=0.3,
        lr=1e-3,
    )
    values = options.flat()
    assert {name: values[name] for name in files} == files
    assert options.input_files() == [files[name] for name in SPLITS]
    for task, splits in COURSE_FILES.items():
        for split in splits:
            assert options.data.file_of(task, split) == files[f"{task}_{split}"]
    finetune = options_of("--option", "finetune")
    assert finetune.multitask.fine_tuning.option == "finetune"


def test_a_file_of_one_s_own_and_the_rest_of_a_folder():
    files = options_of("--data-dir", "course", "--para_dev", "mine.csv").data.files
    assert files.para_dev == "mine.csv"
    assert files.para_train == str(Path("course/quora-train.csv"))


def test_a_flag_wins_over_a_recipe():
    recipe = options_of("--recipe", "rob-5")
    flagged = options_of("--recipe", "rob-5", "--batch_size", "8")
    assert flagged == recipe.with_values(batch_size=8) != recipe


# --- flags that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epoch", "3"], "unknown flag --epoch; did you mean --epochs?"),
        (["--batch-sizes=3"], "unknown flag --batch-sizes=3; did you mean --batch-size?"),
        (["--data_dirs", "x"], "unknown flag --data_dirs; did you mean --data_dir?"),
        (["--zzz"], "unknown flag --zzz; --help-all lists all flags."),
        # An abbreviation of several flags, and of a single one: it would break with a new flag.
        (["--simcse"], "unknown flag --simcse; "),
        (["--hidden", "0.1"], "unknown flag --hidden; "),
        (["finetune"], "unknown argument finetune; "),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--epochs", "three"], "argument --epochs: invalid int value: 'three'"),
        (["--batch-size", "8.5"], "argument --batch-size: invalid int value: '8.5'"),
        (["--lr", "fast"], "'fast'"),
        (["--option", "finetuned"], "argument --option: invalid choice: 'finetuned' (choose from "),
    ],
)
def test_a_flag_that_does_not_exist_or_a_value_of_another_kind(capsys, flags, words):
    assert words in refusal(capsys, *flags)


@pytest.mark.parametrize("chain", ["simsce", "", "mlm,mlm", "mlm,", "mlm simcse", "none,mlm"])
def test_a_chain_of_stages_that_is_none(capsys, chain):
    words = (
        f"--pretrain is '{chain}'; it is none, or some of these, each once, separated by commas: "
        f"{', '.join(all_stages())}."
    )
    assert words in refusal(capsys, "--pretrain", chain)


@pytest.mark.parametrize("name", BOUNDED)
def test_values_out_of_range(capsys, name):
    item = FIELDS[name]
    low, high = item.metadata["low"], item.metadata["high"]
    is_float = item.type.startswith("float")
    one = 1.0 if is_float else 1
    wrong = [low - one]
    if high is not None:
        wrong.append(high + one)
    if is_float:
        wrong += [float("nan"), float("inf"), -float("inf")]

    context = context_of(name)
    for value in wrong:
        message = refusal(capsys, *context, f"--{name}={value}")
        assert f"--{name} is {value}; it must be " in message and f"{low:g}" in message
    for value in [low] if high is None else [low, high]:
        assert options_of(*context, f"--{name}={value}").flat()[name] == value
