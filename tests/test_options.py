"""options.py: every flag, the course's own flags, what is refused and with which words, where a run goes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from options import AUTO, STAGES, Options, check_writable, choose_folder, parse

ROOT = Path(__file__).resolve().parent.parent
FIELDS = {item.name: item for item in fields(Options)}
BOUNDED = {name: item for name, item in FIELDS.items() if item.metadata["low"] is not None}
SPLITS = [f"{task}_{split}" for task in ("sst", "para", "sts") for split in ("train", "dev", "test")]


def options_of(*flags: str) -> Options:
    options, resumed = parse(list(flags))
    assert resumed is None
    return options


def refusal(capsys, *flags: str) -> str:
    """The last line that a refused command line prints; what argparse prints before it is its usage."""
    with pytest.raises(SystemExit) as caught:
        parse(list(flags))
    assert caught.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


# --- what a flag is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_has_type_default_and_help(name):
    item = FIELDS[name]
    types = {"int": int, "float": (int, float), "float | str": (float, str), "str": str, "bool": bool}
    assert isinstance(item.default, types[item.type]), f"{name}: default {item.default!r} is not of type {item.type}"
    assert item.metadata["help"], f"{name} has no help text"
    assert item.default is not None, f"{name}: None would mean 'some default'; say which, or 'auto'"
    if item.metadata["choices"]:
        assert item.default in item.metadata["choices"], f"{name}: the default is none of its choices"


def test_help_shows_every_flag_once_with_its_default(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name}" in text for name in (*FIELDS, "resume"))
    assert text.count("(default: ") == len(FIELDS)


def test_help_and_a_typo_load_no_torch():
    code = "import sys, run_multitask\ntry: run_multitask.main(sys.argv[1:])\nfinally: print('torch' in sys.modules)"
    for flags, exit_code in ((["--help"], 0), (["--epoch", "3"], 2)):
        result = subprocess.run([sys.executable, "-c", code, *flags], cwd=ROOT, capture_output=True, text=True)
        assert (result.returncode, result.stdout.splitlines()[-1]) == (exit_code, "False"), result.stderr


def test_no_flags_are_the_defaults_with_the_sample_s_files():
    options = options_of()
    assert options == Options().with_files()
    assert options.changed().keys() == set(SPLITS)
    assert options.sst_test == str(Path("data/sample/ids-sst-test-student.csv"))


def stage_of(name: str) -> list[str]:
    """The flags without which option `name` would have no effect."""
    return next((["--pretrain", stage] for stage in STAGES if name.startswith(f"{stage}_")), [])


def test_a_chain_of_stages():
    assert options_of().stages == () and options_of("--pretrain", "simcse").stages == ("simcse",)
    options = options_of("--pretrain", "mlm,simcse", "--mlm_epochs", "2", "--simcse_lr", "1e-4")
    assert options.stages == ("mlm", "simcse")
    resolved, reasons = options.for_encoder(384)
    assert resolved.mlm_lr == 1e-4 and resolved.simcse_lr == 1e-4 and "mlm_lr" in reasons
    assert choose_folder(options).name == "finetune-mlm-simcse-minbert-mini-sample-seed11711"


@pytest.mark.parametrize("chain", ["simsce", "", "mlm,mlm", "mlm,", "mlm simcse", "none,mlm"])
def test_a_chain_that_is_none(capsys, chain):
    assert f"--pretrain is '{chain}'; it is none, or some of these, separated by commas: mlm, simcse." in refusal(
        capsys, "--pretrain", chain)


@pytest.mark.parametrize("name", [name for name in FIELDS if "_" in name])
def test_dashes_and_underscores_spell_the_same_flag(name):
    item = FIELDS[name]
    value = [] if item.type == "bool" else [str(item.metadata["choices"][-1] if item.metadata["choices"] else 77)]
    if item.type.startswith("float"):
        value = ["0.5"]
    context = {"joint_limit": ["--sampling", "joint"]}.get(name, stage_of(name))
    with_underscores = options_of(*context, f"--{name}", *value)
    assert with_underscores == options_of(*context, f"--{name.replace('_', '-')}", *value)
    assert getattr(with_underscores, name) != item.default


def test_the_course_s_command_line_keeps_its_meaning():
    files = {name: f"my/{name}.csv" for name in SPLITS}
    files |= {f"{name}_out": f"out/{name}.csv" for name in SPLITS if not name.endswith("_train")}
    flags = ("--seed 7 --epochs 10 --option pretrain --use_gpu --batch_size 8 --hidden_dropout_prob 0.3 --lr 1e-3 "
             + " ".join(f"--{name} {path}" for name, path in files.items()))
    options = options_of(*flags.split())
    assert replace(options, **dict.fromkeys(files, AUTO)) == Options(
        seed=7, epochs=10, option="pretrain", use_gpu=True, batch_size=8, hidden_dropout_prob=0.3, lr=1e-3)
    assert {name: getattr(options, name) for name in files} == files
    assert options.input_files() == [files[name] for name in SPLITS]
    assert options_of("--option", "finetune").option == "finetune"


def test_a_file_of_one_s_own_and_the_rest_of_a_folder():
    options = options_of("--data-dir", "course", "--para_dev", "mine.csv")
    assert options.para_dev == "mine.csv"
    assert options.para_train == str(Path("course/quora-train.csv"))


def test_options_cannot_be_changed():
    with pytest.raises(AttributeError):
        Options().epochs = 5


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "words"), [
    (["--epoch", "3"], "unknown flag --epoch; did you mean --epochs?"),
    (["--batch-sizes=3"], "unknown flag --batch-sizes=3; did you mean --batch-size?"),
    (["--data_dirs", "x"], "unknown flag --data_dirs; did you mean --data_dir?"),
    (["--zzz"], "unknown flag --zzz; --help lists all flags."),
    (["--simcse"], "unknown flag --simcse; "),  # an abbreviation of several
    (["--hidden", "0.1"], "unknown flag --hidden; "),  # and of one: abbreviations break when flags are added
    (["finetune"], "unknown flag finetune; "),
    (["--epochs"], "argument --epochs: expected one argument"),
    (["--epochs", "three"], "argument --epochs: invalid int value: 'three'"),
    (["--lr", "fast"], "'fast'"),
    (["--option", "finetuned"], "argument --option: invalid choice: 'finetuned' (choose from "),
])
def test_a_flag_that_does_not_exist_or_a_value_of_another_kind(capsys, flags, words):
    assert words in refusal(capsys, *flags)


@pytest.mark.parametrize("name", BOUNDED)
def test_values_out_of_range(capsys, name):
    item = BOUNDED[name]
    low, high, is_float = item.metadata["low"], item.metadata["high"], item.type.startswith("float")
    context = stage_of(name)
    wrong = [-1.0 if is_float else low - 1]
    wrong += [high + (1.0 if is_float else 1)] if high is not None else []
    wrong += [float("nan"), float("inf"), -float("inf")] if is_float else []
    for value in wrong:
        message = refusal(capsys, *context, f"--{name}={value}")
        assert f"--{name} is {value}; it must be " in message and f"{low:g}" in message
    for value in [low] if high is None else [low, high]:
        assert getattr(options_of(*context, f"--{name}={value}"), name) == value


@pytest.mark.parametrize(("flags", "words"), [
    (["--use_gpu", "--device", "cpu"], "--use_gpu asks for cuda and --device for cpu; pass only one of them."),
    (["--joint_limit", "smallest"], "--joint_limit has no effect with --sampling mt-dnn; add --sampling joint or drop"),
    (["--simcse_lr", "1e-5"], "--simcse_lr has no effect without --pretrain simcse; add that or drop it."),
    (["--simcse-epochs", "2", "--pretrain", "none"], "--simcse_epochs has no effect without --pretrain simcse;"),
    (["--mlm_lr", "1e-5", "--pretrain", "simcse"], "--mlm_lr has no effect without --pretrain mlm; add that or drop"),
    (["--sst_dev_out", "a.csv", "--sts_dev_out", "./a.csv"], "--sts_dev_out ./a.csv: it is --sst_dev_out already;"),
    (["--data-dir", "my", "--sst_dev_out", "my/sts-dev.csv"], "--sst_dev_out my/sts-dev.csv: it is an input already;"),
])
def test_combinations_of_which_one_part_would_be_ignored_or_overwritten(capsys, flags, words):
    assert words in refusal(capsys, *flags)


@pytest.mark.parametrize("flags", [
    ["--use_gpu", "--device", "cuda"], ["--sampling", "joint", "--joint_limit", "smallest"],
    ["--pretrain", "simcse", "--simcse_lr", "1e-5"], ["--lr", "auto"], ["--sst_train", "a.csv", "--sst_dev", "a.csv"],
])
def test_combinations_that_make_sense(flags):
    options_of(*flags)


# --- --resume ---------------------------------------------------------------------------------------------------------


def write_options(folder: Path, content) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_resume_takes_the_run_s_own_options(tmp_path):
    stored = options_of("--epochs", "7", "--lr", "0.001", "--data-dir", "elsewhere")
    folder = write_options(tmp_path / "run", {"options": vars(stored), "files": {}})
    assert parse(["--resume", str(folder)]) == (stored, folder)


@pytest.mark.parametrize(("content", "words"), [
    (None, "no run there (options.json is missing). Give a folder such as runs/NAME."),
    ('{"options": ', "not the options of this version ("),
    ({"files": {}}, "not the options of this version ('options'). Start a new run instead."),
    ({"options": {"epoch": 3}}, "unexpected keyword argument 'epoch'). Start a new run instead."),
    ({"options": {"epochs": 0}}, "--epochs is 0; it must be"),
])
def test_resume_of_what_is_no_run(capsys, tmp_path, content, words):
    if content is not None:
        write_options(tmp_path, content)
    message = refusal(capsys, "--resume", str(tmp_path))
    assert words in message and str(tmp_path) in message


def test_resume_with_another_flag(capsys, tmp_path):
    folder = write_options(tmp_path, {"options": {}, "files": {}})
    message = refusal(capsys, "--resume", str(folder), "--epochs", "9")
    assert "--resume continues a run with its own options; drop --epochs, or start a new run" in message


# --- what "auto" becomes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "hidden_size", "lr", "reason"), [
    ([], 384, 5e-5, "5e-5 x 384 / hidden size 384"),
    ([], 192, 5e-4, "hidden size 192 is under 256"),
    (["--option", "pretrain"], 192, 1e-3, "the encoder is frozen"),
    (["--lr", "3e-4"], 192, 3e-4, None),
    (["--lr", "3e-4", "--option", "pretrain"], 192, 3e-4, None),
])
def test_learning_rate_and_its_reason(flags, hidden_size, lr, reason):
    options, reasons = options_of("--pair_encoding", "cross", *flags).for_encoder(hidden_size)
    assert options.lr == pytest.approx(lr, rel=1e-12)
    assert reasons == ({} if reason is None else {"lr": reason})
    assert options.simcse_lr == AUTO  # there is no such stage


def test_learning_rate_of_the_contrastive_stage():
    options, reasons = options_of("--pretrain", "simcse").for_encoder(768)
    assert options.simcse_lr == pytest.approx(3e-5)
    assert reasons["simcse_lr"] == "3e-5 x 768 / hidden size 768" and "lr" in reasons
    options, reasons = options_of("--pretrain", "simcse", "--simcse_lr", "1e-4").for_encoder(768)
    assert options.simcse_lr == 1e-4 and reasons.keys() == {"lr", "pair_encoding"}


def test_pair_encoding_follows_the_width_unless_given():
    assert [options_of().for_encoder(size)[0].pair_encoding for size in (192, 256)] == ["bi", "cross"]
    assert options_of("--pair_encoding", "cross").for_encoder(192)[0].pair_encoding == "cross"


def test_folders_are_numbered_and_named_ones_must_be_new(tmp_path):
    flags = ["--output-dir", str(tmp_path), "--model", "some/model", "--data-dir", "a/course", "--seed", "3"]
    options = options_of(*flags)
    for suffix in ("", "-2", "-3"):
        folder = choose_folder(options)
        assert folder == tmp_path / f"finetune-none-model-course-seed3{suffix}"
        assert not folder.exists()  # choosing creates nothing
        folder.mkdir()
    named = replace(options, name="mine")
    assert choose_folder(named) == tmp_path / "mine"
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'mine'} exists. Pass --resume {tmp_path / 'mine'}")):
        choose_folder(named)


def test_what_can_be_written_is_known_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "old.csv").write_text("")
    check_writable(tmp_path / "new" / "run", [tmp_path / "other" / "a.csv", tmp_path / "old.csv"])
    assert not (tmp_path / "new").exists() and not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match=r"cannot be written, because .*file is a file\. Choose another folder"):
        check_writable(tmp_path / "file" / "run", [])
    with pytest.raises(ValueError, match=r"cannot be written, because .*file is a file\. Choose another folder"):
        check_writable(tmp_path / "run", [tmp_path / "file" / "a.csv"])
    with pytest.raises(ValueError, match=r"a folder stands where a file is to be written\. Choose another path"):
        check_writable(tmp_path / "run", [tmp_path])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(ValueError, match=r"closed is not writable\. Choose another folder"):
        check_writable(tmp_path / "closed" / "run", [])
