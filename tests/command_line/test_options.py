"""command_line/options.py: every flag, the course's own flags, what is refused and with which words, what "auto" becomes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from command_line.checks import AUTO, ONLY_WITH, STAGES
from command_line.options import Options
from command_line.parser import choose_folder, parse
from contrastive.presets import OWN, described, given, settings_of
from minbert import BertConfig
from tests.toy_options import options_of, refusal

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {item.name: item for item in fields(Options)}
BOUNDED = {name: item for name, item in FIELDS.items() if item.metadata["low"] is not None}
SPLITS = [
    f"{task}_{split}" for task in ("sst", "para", "sts") for split in ("train", "dev", "test")
]


# --- what a flag is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_has_type_default_and_help(name):
    item = FIELDS[name]
    types = {
        "int": int,
        "float": (int, float),
        "float | str": (float, str),
        "int | str": (int, str),
        "str": str,
        "bool": bool,
    }
    assert isinstance(item.default, types[item.type]), (
        f"{name}: default {item.default!r} is not of type {item.type}"
    )
    assert item.metadata["help"], f"{name} has no help text"
    assert item.default is not None, f"{name}: None would mean 'some default'; say which, or 'auto'"
    if item.metadata["choices"]:
        assert item.default in item.metadata["choices"], (
            f"{name}: the default is none of its choices"
        )


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
        result = subprocess.run(
            [sys.executable, "-c", code, *flags], cwd=ROOT, capture_output=True, text=True
        )
        assert (result.returncode, result.stdout.splitlines()[-1]) == (exit_code, "False"), (
            result.stderr
        )


def test_no_flags_are_the_defaults_with_the_sample_s_files():
    options = options_of()
    assert options == Options().with_files()
    assert options.changed().keys() == set(SPLITS)
    assert options.sst_test == str(Path("data/sample/ids-sst-test-student.csv"))


def context_of(name: str) -> list[str]:
    """The flags without which option `name` would have no effect."""
    if name == "hard_negative_weight":
        return ["--pretrain", "simcse-nli", "--nli", "a.tsv"]
    if name.startswith("contrastive_") or name == "hand_on":
        return ["--pretrain", "simcse"]
    owners = [method for method, own in OWN.items() if name in own]
    if owners:
        return ["--pretrain", owners[0]]
    if name in ONLY_WITH:
        flags = [f"--{ONLY_WITH[name][0]}", ONLY_WITH[name][1]]
        return [*flags, "--sampling", "joint"] if flags[0] == "--surgery" else flags
    return next((["--pretrain", stage] for stage in STAGES if name.startswith(f"{stage}_")), [])


def test_a_chain_of_stages():
    assert options_of().stages == () and options_of("--pretrain", "simcse").stages == ("simcse",)
    options = options_of("--pretrain", "mlm,simcse", "--mlm_epochs", "2", "--mlm_lr", "1e-4")
    assert options.stages == ("mlm", "simcse")
    resolved, reasons = options.for_encoder(384)
    assert resolved.mlm_lr == 1e-4 and "mlm_lr" not in reasons
    assert options.methods == ("simcse",) and options_of("--pretrain", "ct,mlm,bsc").methods == (
        "ct",
        "bsc",
    )
    assert choose_folder(options).name == "finetune-mlm-simcse-minbert-mini-sample-seed11711"


@pytest.mark.parametrize("chain", ["simsce", "", "mlm,mlm", "mlm,", "mlm simcse", "none,mlm"])
def test_a_chain_that_is_none(capsys, chain):
    assert (
        f"--pretrain is '{chain}'; it is none, or some of these, each once, separated by commas: "
        + (f"{', '.join(STAGES)}.")
        in refusal(capsys, "--pretrain", chain)
    )


@pytest.mark.parametrize("name", [name for name in FIELDS if "_" in name])
def test_dashes_and_underscores_spell_the_same_flag(name):
    item = FIELDS[name]
    value = (
        []
        if item.type == "bool"
        else [str(item.metadata["choices"][-1] if item.metadata["choices"] else 77)]
    )
    if item.type.startswith("float"):
        value = ["0.25"]
    value = {
        "sampling_weights": ["sts=2"],
        "loss_weights": ["sts=2"],
        "pair_encoding": ["bi"],
        "para_head": ["vm"],
        "train_rows": ["sst=5"],
        "dev_rows": ["sst=5"],
        "max_tokens": ["777"],
    }.get(name, value)
    context = context_of(name)
    with_underscores = options_of(*context, f"--{name}", *value)
    assert with_underscores == options_of(*context, f"--{name.replace('_', '-')}", *value)
    assert getattr(with_underscores, name) != item.default


def test_the_course_s_command_line_keeps_its_meaning():
    files = {name: f"my/{name}.csv" for name in SPLITS}
    files |= {f"{name}_out": f"out/{name}.csv" for name in SPLITS if not name.endswith("_train")}
    flags = (
        "--seed 7 --epochs 10 --option pretrain --use_gpu --batch_size 8 --hidden_dropout_prob 0.3 --lr 1e-3 "
        + " ".join(f"--{name} {path}" for name, path in files.items())
    )
    options = options_of(*flags.split())
    assert replace(options, **dict.fromkeys(files, AUTO)) == Options(
        seed=7,
        epochs=10,
        option="pretrain",
        use_gpu=True,
        batch_size=8,
        hidden_dropout_prob=0.3,
        lr=1e-3,
    )
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


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epoch", "3"], "unknown flag --epoch; did you mean --epochs?"),
        (["--batch-sizes=3"], "unknown flag --batch-sizes=3; did you mean --batch-size?"),
        (["--data_dirs", "x"], "unknown flag --data_dirs; did you mean --data_dir?"),
        (["--zzz"], "unknown flag --zzz; --help lists all flags."),
        (["--simcse"], "unknown flag --simcse; "),  # an abbreviation of several
        (
            ["--hidden", "0.1"],
            "unknown flag --hidden; ",
        ),  # and of one: abbreviations break when flags are added
        (["finetune"], "unknown flag finetune; "),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--epochs", "three"], "argument --epochs: invalid int value: 'three'"),
        (["--lr", "fast"], "'fast'"),
        (["--option", "finetuned"], "argument --option: invalid choice: 'finetuned' (choose from "),
    ],
)
def test_a_flag_that_does_not_exist_or_a_value_of_another_kind(capsys, flags, words):
    assert words in refusal(capsys, *flags)


@pytest.mark.parametrize("name", BOUNDED)
def test_values_out_of_range(capsys, name):
    item = BOUNDED[name]
    low, high, is_float = item.metadata["low"], item.metadata["high"], item.type.startswith("float")
    context = context_of(name)
    wrong = [low - (1.0 if is_float else 1)]
    wrong += [high + (1.0 if is_float else 1)] if high is not None else []
    wrong += [float("nan"), float("inf"), -float("inf")] if is_float else []
    for value in wrong:
        message = refusal(capsys, *context, f"--{name}={value}")
        assert f"--{name} is {value}; it must be " in message and f"{low:g}" in message
    for value in [low] if high is None else [low, high]:
        assert getattr(options_of(*context, f"--{name}={value}"), name) == value


# --- what "auto" becomes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "hidden_size", "lr", "reason"),
    [
        ([], 384, 5e-5, "5e-5 x 384 / hidden size 384"),
        ([], 192, 5e-4, "hidden size 192 is under 256"),
        (["--option", "pretrain"], 192, 1e-3, "the encoder is frozen"),
        (["--lr", "3e-4"], 192, 3e-4, None),
        (["--lr", "3e-4", "--option", "pretrain"], 192, 3e-4, None),
    ],
)
def test_learning_rate_and_its_reason(flags, hidden_size, lr, reason):
    options, reasons = options_of("--pair_encoding", "cross", *flags).for_encoder(hidden_size)
    assert options.lr == pytest.approx(lr, rel=1e-12)
    assert reasons.get("lr") == reason
    assert options.contrastive_lr == AUTO  # each stage has its own, see presets.py


def test_learning_rate_of_the_contrastive_stage():
    options = options_of("--pretrain", "simcse,ct")
    assert settings_of("simcse", options, 768).lr == pytest.approx(3e-5)
    assert settings_of("ct", options, 384).lr == pytest.approx(2e-5)
    options = options_of(
        "--pretrain", "simcse,ct", "--contrastive_lr", "1e-4", "--contrastive_temperature", "1"
    )
    settings = settings_of("ct", options, 768)
    assert settings.lr == 1e-4 and given("ct", options) == {"lr": 1e-4}  # ct has no temperature
    text = described("ct", settings, options)
    assert text.startswith("ct: epochs 1, batch_size 16, lr 0.0001, ")
    assert text.endswith(
        ", alpha 0.9, eps 1e-07, ct_corpus none, ct_negatives paper, max_grad_norm 1, pooling mean "
        "(Carlsson et al. 2021; given: lr)"
    ), "RMSprop decays nothing"
    assert "temperature" not in text and "betas" not in text
    text = described("simcse", settings_of("simcse", options, 768), options)
    assert "temperature 1," in text and "ct_" not in text
    options = options_of(
        "--pretrain", "simcse", "--contrastive_lr", "3e-5"
    )  # the paper's, and not this encoder's
    assert described("simcse", settings_of("simcse", options, 192), options).endswith(
        "[CLS]; given: lr)"
    )


def test_pieces_that_a_device_cannot_do_are_no_preset_of_it():
    options = options_of("--pretrain", "simcse-nli", "--nli", "x.tsv")
    on_apple = replace(options, device="mps")
    assert [settings_of("simcse-nli", each, 768).chunk for each in (options, on_apple)] == [128, 0]
    assert (
        settings_of("simcse-nli", replace(on_apple, contrastive_chunk=64), 768).chunk == 64
    )  # refused later, by name


def test_settings_of_fusion_stand_among_the_options():
    """It has no stage whose record would hold them."""
    options, reasons = options_of(
        "--pretrain", "simcse", "--contrastive_order", "fusion"
    ).for_encoder(384)
    assert (
        options.contrastive_temperature,
        options.contrastive_projection,
        options.contrastive_chunk,
    ) == (0.05, "tanh", 0)
    assert reasons["contrastive_temperature"] == "Gao et al. 2021, for [CLS]"
    options, _ = options_of(
        "--pretrain", "simcse", "--contrastive_order", "fusion", "--contrastive_temperature", "1"
    ).for_encoder(384)
    assert (
        options.contrastive_temperature == 1
        and options_of("--pretrain", "simcse").for_encoder(384)[0].contrastive_temperature == AUTO
    )


def test_dropout_of_the_encoder_replaces_fields_of_its_config(tiny_model):
    assert options_of().dropout_of_encoder() == {}
    options = options_of("--encoder_dropout", "0.25", "--attention-dropout", "0")
    config = BertConfig.from_pretrained(tiny_model, **options.dropout_of_encoder())
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.25, 0.0)
    assert options.hidden_dropout_prob == 0.1, "that of the heads is another one"


def test_small_encoders_have_no_dropout_in_the_tasks():
    """Unless it was asked for, or is what fusion makes its two views with."""
    assert [options_of().drops_out(size) for size in (192, 255, 256, 768)] == [
        False,
        False,
        True,
        True,
    ]
    assert (
        options_of().for_encoder(192)[1]["encoder_dropout"]
        == "0 in the tasks, hidden size 192 is under 256"
    )
    assert "encoder_dropout" not in options_of().for_encoder(256)[1]
    for flags in (
        ["--encoder-dropout", "0.1"],
        ["--attention-dropout", "0"],
        ["--pretrain", "simcse", "--contrastive_order", "fusion"],
    ):
        options = options_of(*flags)
        assert options.drops_out(192) and "encoder_dropout" not in options.for_encoder(192)[1]


def test_where_token_ids_are_kept(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert Options().token_folder == Path("/cache/minbert")
    assert Options(token_cache="/mine").token_folder == Path("/mine")
    assert Options(token_cache="none").token_folder is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Options().token_folder == Path.home() / ".cache" / "minbert"

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert Options().token_folder is None and Options(token_cache="/mine").token_folder == Path(
        "/mine"
    )


def test_pair_encoding_follows_the_head():
    for head, encoding in {"ph": "dual", "dpha": "dual", "mlp": "bi", "vm": "cross"}.items():
        assert options_of("--head", head).for_encoder(384)[0].pair_encoding == encoding
    for head in ("ph", "vm"):
        assert (
            options_of("--para_head", "dph", "--head", head).for_encoder(192)[0].pair_encoding
            == "dual"
        )
    assert (
        options_of("--head", "cosine", "--para_head", "features").for_encoder(384)[0].pair_encoding
        == "bi"
    )


def test_pair_encoding_is_cross_whatever_the_encoder():
    for size in (64, 192, 768):
        options, reasons = options_of().for_encoder(size)
        assert (options.pair_encoding, reasons["pair_encoding"]) == (
            "cross",
            "the two sentences see each other",
        )
        options, reasons = options_of("--pair_encoding", "bi").for_encoder(size)
        assert options.pair_encoding == "bi" and "pair_encoding" not in reasons


@pytest.mark.parametrize(
    ("head", "encoding"), [("features", "bi"), ("vm", "cross"), ("mlp", "bi"), ("dpha", "dual")]
)
def test_pair_encoding_of_a_frozen_encoder(head, encoding):
    """Read apart where the head can compare; vm can not."""
    options, reasons = options_of("--option", "pretrain", "--head", head).for_encoder(384)
    assert options.pair_encoding == encoding
    assert ("frozen" in reasons["pair_encoding"]) == (head == "features")


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ({}, True),
        ({"common_layer": "none"}, False),
        ({"common_layer": "none", "head": "mlp", "sharing": "first", "tasks": "para,sts"}, True),
        ({"common_layer": "none", "head": "mlp", "sharing": "heads", "tasks": "sts,para"}, True),
        (
            {"common_layer": "none", "head": "mlp", "sharing": "first"},
            False,
        ),  # the heads of pairs share, SST's does not
        ({"common_layer": "none", "head": "mlp", "tasks": "para,sts"}, False),
        ({"common_layer": "none", "head": "mlp", "sharing": "first", "tasks": "para"}, False),
    ],
)
def test_what_tasks_share_after_a_frozen_encoder(values, shares):
    assert Options(**values).shares_a_layer == shares
