"""contrastive/registry.py: a method is entered once, and everything else follows its entry."""

import inspect
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import torch

import run_multitask
from command_line.checks import all_stages, needed_stages
from command_line.options import Options
from contrastive.inputs import OF_METHODS, OF_READS
from contrastive.losses import loss_of_mnr
from contrastive.methods import (
    CLASSES,
    LOSSES,
    LossOnVectors,
    MethodSetup,
    SimCSE,
    build_method,
)
from contrastive.options import ContrastiveOptions, SelfGuidedOptions
from contrastive.presets import settings_of
from contrastive.registry import (
    METHODS,
    MethodEntry,
    Settings,
    Vectors,
    list_methods,
    register_method,
)
from minbert import BertModel
from minbert.commands.options import all_fields

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = Options.of().contrastive

# --- the names agree ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_an_entry_names_what_exists(name):
    entry = METHODS[name]
    # A user's entry has one of these itself.
    has_function = entry.loss is not None or entry.method_class is not None
    assert has_function + (name in LOSSES) + (name in CLASSES) == 1
    assert entry.has_own_rows == (name in OF_METHODS)
    assert entry.reads in OF_READS
    assert set(entry.own_options) <= {item.name for item in all_fields(ContrastiveOptions)}
    assert set(entry.unread) <= {item.name for item in fields(Settings)}
    assert f"- {name}: {entry.title}" in list_methods().splitlines()
    assert name in all_stages()
    for option in entry.own_options:
        assert name in needed_stages(option, OPTIONS)


@pytest.mark.parametrize("name", CLASSES)
def test_an_entry_passes_what_its_class_takes(name):
    parameters = set(inspect.signature(CLASSES[name]).parameters) - {"setup"}
    # SG-OPT has one objective.
    assert parameters - set(METHODS[name].arguments) <= {"objective"}
    assert set(METHODS[name].arguments) <= parameters


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_built_by_its_name(tiny_model, name, monkeypatch):
    monkeypatch.setattr("contrastive.methods.GUIDED_WIDTH", 24)
    settings = settings_of(name, OPTIONS, 32, "cpu")
    encoder = BertModel.from_pretrained(tiny_model)
    method = build_method(name, OPTIONS.of_method, settings, "mean", encoder)
    entry = METHODS[name]
    assert type(method) is (entry.method_class or CLASSES.get(name, LossOnVectors))
    assert (method.temperature, method.chunk) == (settings.temperature, settings.chunk)


@pytest.mark.parametrize("parts", [{}, {"loss": sum, "method_class": SimCSE}])
def test_an_entry_has_either_a_loss_or_a_class(parts):
    preset = METHODS["simcse"].preset
    with pytest.raises(ValueError, match="either a loss or a method_class, not both"):
        register_method(
            "toy", MethodEntry(title="both or neither", reads="sentences", preset=preset, **parts)
        )


def test_an_entry_reads_what_exists():
    with pytest.raises(ValueError, match="reads is 'words'; it is one of sentences, labelled pair"):
        MethodEntry(title="words", reads="words", preset=METHODS["simcse"].preset, loss=sum)


def test_a_loss_that_is_no_scalar_is_named(tiny_model, monkeypatch):
    """One loss for each sentence: torch would only say that it cannot go backwards."""
    entry = replace(METHODS["mnr"], title="a list")
    encoder = BertModel.from_pretrained(tiny_model)
    method = LossOnVectors(
        MethodSetup(encoder, "mean", 0.05),
        lambda vectors, method_options: vectors.anchors[:, 0],
        entry,
        OPTIONS.of_method,
    )
    vectors = Vectors(torch.zeros(6, 32), torch.zeros(6, 32), torch.zeros(6, 6).bool(), 0.05)
    monkeypatch.setattr(method, "vectors_of", lambda batch: vectors)
    with pytest.raises(ValueError, match=r"the loss of 'a list' has the shape \(6,\); a scalar"):
        method(None)


def test_no_other_name_is_a_method(tiny_model):
    settings = settings_of("simcse", OPTIONS, 32, "cpu")
    encoder = BertModel.from_pretrained(tiny_model)
    with pytest.raises(KeyError, match="cosine"):
        build_method("cosine", OPTIONS.of_method, settings, "mean", encoder)


# --- one entry is enough --------------------------------------------------------------------------

NEW_METHOD = """
import sys
from dataclasses import replace
from contrastive.losses import loss_of_mnr
from contrastive.registry import METHODS

# The one entry. Its class and its function may stand in any file.
METHODS["toy"] = replace(
    METHODS["mnr"],
    loss=loss_of_mnr,
    title="a method of this test",
    preset=replace(METHODS["mnr"].preset, source="this test", batch_size=8),
)

import run_multitask
code = run_multitask.main(sys.argv[1:])
print("torch's compiler:", "torch._dynamo" in sys.modules)
sys.exit(code)
"""


def run_with_new_method(*flags: object) -> subprocess.CompletedProcess:
    """run_multitask.py in a process in which METHODS has one more entry."""
    command = [sys.executable, "-c", NEW_METHOD, *map(str, flags)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_help_and_checks_know_a_new_method(monkeypatch, capsys):
    preset = replace(METHODS["mnr"].preset, source="this test")
    new = replace(METHODS["mnr"], loss=loss_of_mnr, title="a method of this test", preset=preset)
    monkeypatch.setitem(METHODS, "toy", new)

    assert exit_code("--help") == 0
    assert "- toy: a method of this test" in " ".join(capsys.readouterr().out.split())
    assert exit_code("--pretrain", "none", "--mnr_similarity", "dot") == 2
    assert "has no effect without --pretrain mnr or toy" in capsys.readouterr().err
    assert exit_code("--pretrain", "tox") == 2
    assert "toy" in capsys.readouterr().err


def exit_code(*flags: str) -> object:
    """The code of run_multitask.py in this process. argparse leaves by SystemExit."""
    try:
        return run_multitask.main(list(flags))
    except SystemExit as end:
        return end.code


def test_a_run_trains_with_a_new_method(tiny_model, sample_data, tmp_path):
    data = ["--model", tiny_model, "--data-dir", sample_data, "--device", "cpu"]
    place = ["--output-dir", tmp_path, "--name", "new"]
    result = run_with_new_method("--pretrain", "toy", "--epochs", 1, *data, *place)
    assert result.returncode == 0, result.stderr
    assert "toy: epochs 1, batch_size 8," in result.stdout
    assert "(this test)" in result.stdout
    assert "torch's compiler: False" in result.stdout, "it takes as long to load as torch"
    assert "toy: step" in result.stdout
    assert (tmp_path / "new" / "encoder" / "stage.json").is_file()


# --- the settings ---------------------------------------------------------------------------------


SELF_GUIDED = {
    "epochs": 1,
    "batch_size": 16,
    "lr": 5e-5,
    "temperature": 0.01,
    "betas": (0.9, 0.9),
    "evaluate_every": 50,
    "patience": 10,
    "projection": "guided",
}
TENSION = {
    "batch_size": 16,
    "lr": 1e-5,
    "optimizer": "rmsprop",
    "schedule": "tension",
    "projection": "none",
}
OF_THE_PAPERS = {
    "simcse": {
        "epochs": 1,
        "batch_size": 64,
        "lr": 3e-5,
        "temperature": 0.05,
        "max_length": 32,
        "projection": "tanh",
    },
    "simcse-supervised": {
        "epochs": 5,
        "batch_size": 16,
        "lr": 2e-5,
        "temperature": 0.05,
        "projection": "mlp",
    },
    "simcse-nli": {
        "epochs": 3,
        "batch_size": 512,
        "lr": 5e-5,
        "temperature": 0.05,
        "projection": "tanh",
    },
    "mnr": {"epochs": 1, "batch_size": 64, "lr": 2e-5, "temperature": 0.05, "projection": "none"},
    "cosent": {"epochs": 5, "batch_size": 32, "lr": 2e-5, "temperature": 0.05, "max_length": 64},
    "bsc": {"epochs": 5, "batch_size": 30, "lr": 2e-5, "temperature": 0.07, "projection": "none"},
    "ct": {**TENSION, "epochs": 1, "warmup": 0.0},
    "ct-in-batch": {**TENSION, "temperature": 0.05},
    "sg": SELF_GUIDED,
    "sg-opt": SELF_GUIDED,
}


@pytest.mark.parametrize("name", OF_THE_PAPERS)
def test_presets_are_those_of_the_papers(name):
    assert OF_THE_PAPERS[name].items() <= asdict(METHODS[name].preset).items()


def test_defaults_are_those_of_the_papers():
    assert OPTIONS.of_method[SelfGuidedOptions].sg_regulariser == 0.1
    assert OPTIONS.of_method[SelfGuidedOptions].sg_states == "max"


@pytest.mark.parametrize(
    ("values", "temperature"),
    [
        ({}, 0.05),
        ({"mnr_similarity": "dot"}, 1.0),
        ({"mnr_similarity": "dot", "contrastive_temperature": 0.5}, 0.5),
    ],
)
def test_ranking_by_dot_products_has_no_temperature_but_a_given_one(values, temperature):
    options = Options.of(pretrain="mnr", **values).contrastive
    assert settings_of("mnr", options, 768, "cpu").temperature == temperature
