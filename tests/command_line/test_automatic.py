"""command_line/automatic.py: what "auto" becomes, and the reason that is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line.automatic import Choice, choose_length, explain, has_dropout_in_tasks, resolve
from command_line.options import Options
from contrastive.presets import described, overrides, settings_of
from minbert import BertConfig
from minbert.commands.options import AUTO
from tests.toy_options import FIELDS, options_of

CPU = Choice("cpu", "the only one")
GPU = Choice("cuda", "the fastest")
FP32 = Choice("fp32", "no fast bf16")
FUSION = ["--pretrain", "simcse", "--contrastive_order", "fusion"]
# What "auto" means for these depends on a folder or a method. automatic.py says where it is found.
ELSEWHERE = {name for name, item in FIELDS.items() if item.metadata["is_file"]}


def resolved(
    options: Options, hidden_size: int, device: Choice = CPU
) -> tuple[Options, dict[str, str]]:
    """The options without "auto", and the printed reasons."""
    options, choices = resolve(options, hidden_size, device, FP32)
    return options, {name: choice.reason for name, choice in choices.items()}


def meanings(options: Options, hidden_size: int) -> dict[str, Choice]:
    """What stays "auto" in options.json, for an encoder of this size."""
    config = BertConfig(hidden_size=hidden_size, num_attention_heads=1, hidden_dropout_prob=0.2)
    return explain(options, config, Path("runs/mine"))


# --- every one of them ----------------------------------------------------------------------------


def test_every_auto_is_resolved_explained_or_known_to_stand_elsewhere():
    options = options_of("--pretrain", "mlm,simcse", "--single_task_epochs", "1")
    after, reasons = resolved(options, 384)
    explained = meanings(options, 384)
    for name, value in after.flat().items():
        if FIELDS[name].default != AUTO:
            continue
        of_method = name.startswith("contrastive_") and name != "contrastive_sentences"
        stands_elsewhere = name in ELSEWHERE or of_method
        is_resolved = value != AUTO and bool(reasons.get(name))
        is_explained = name in explained and bool(explained[name].reason)
        assert is_resolved + is_explained + stands_elsewhere == 1, name


def test_the_default_length_fits_a_model_with_fewer_positions():
    choices = choose_length(Options.of(), 64)
    reason = "the model has 64 positions, fewer than the default of 128"
    assert choices == {"max_length": Choice(64, reason)}
    assert choose_length(Options.of(), 128) == {}
    # The user's own length is refused in its place, or fits.
    for length in (65, 129, 64):
        assert choose_length(Options.of(max_length=length), 64) == {}


def test_what_the_user_has_set_is_not_chosen_again():
    flags = "--lr 1e-3 --pair_encoding bi --attention fused --score sst --para_head vm --name a"
    flags += " --token_cache none --encoder_dropout 0 --attention_dropout 0"
    options = options_of(*flags.split())
    after, reasons = resolved(options, 384)
    assert reasons == {
        "device": "the only one",
        "precision": "no fast bf16",
        "formulas": "no lesson file was edited",
    }
    assert meanings(options, 384) == {}
    assert after == options.with_values(device="cpu", precision="fp32", formulas="fast")


def test_a_machine_decides_device_precision_and_attention():
    options, reasons = resolved(Options(), 384)
    assert (options.training.device, options.training.precision) == ("cpu", "fp32")
    assert (reasons["device"], reasons["precision"]) == ("the only one", "no fast bf16")
    assert options.encoder.attention == "eager"
    assert resolved(Options(), 384, GPU)[0].encoder.attention == "fused"


def test_readable_formulas_have_attention_step_by_step():
    """Also where a GPU, or a user before the edit of a lesson file, would have torch's kernel."""
    formulas = Choice("readable", "minbert/bert.py was edited, so that the edit runs")
    for given in (Options(), Options.of(attention="fused")):
        options, choices = resolve(given, 384, GPU, FP32, formulas)
        assert options.training.formulas == "readable"
        assert options.encoder.attention == choices["attention"].value == "eager"
        assert choices["formulas"] == formulas


def test_meanings_of_what_stays_auto(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    explained = meanings(Options(), 384)
    assert explained["name"] == ("mine", "made of the main options and the seed")
    assert explained["token_cache"] == (Path("/cache/minbert"), "the user's cache")
    assert explained["para_head"] == ("features", "as --head")
    assert explained["encoder_dropout"] == (0.2, "as in the model's config.json")
    assert explained["attention_dropout"] == (0.1, "as in the model's config.json")
    assert "para_head" not in meanings(Options.of(tasks="sst,sts"), 384)


# --- learning rates -------------------------------------------------------------------------------


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
    options, reasons = resolved(options_of("--pair_encoding", "cross", *flags), hidden_size)
    assert options.multitask.fine_tuning.lr == pytest.approx(lr, rel=1e-12)
    assert reasons.get("lr") == reason
    # Each contrastive stage has its own, see contrastive/presets.py.
    assert options.contrastive.contrastive_lr == AUTO


def test_learning_rate_of_masked_language_modelling():
    options, reasons = resolved(options_of("--pretrain", "mlm"), 384)
    assert options.mlm.mlm_lr == pytest.approx(1e-4, rel=1e-12)
    assert reasons["mlm_lr"] == "5e-5 x 768 / hidden size 384"
    given = options_of("--pretrain", "mlm,simcse", "--mlm_epochs", "2", "--mlm_lr", "1e-4")
    options, reasons = resolved(given, 384)
    assert options.mlm.mlm_lr == 1e-4 and "mlm_lr" not in reasons
    assert resolved(options_of("--pretrain", "simcse"), 384)[0].mlm.mlm_lr == AUTO


# --- contrastive presets --------------------------------------------------------------------------


def description(method: str, options: Options, hidden_size: int) -> str:
    """The line that a run prints."""
    settings = settings_of(method, options.contrastive, hidden_size, "cpu")
    return described(method, settings, options.contrastive, "cpu", options.flat())


def test_learning_rate_of_the_contrastive_stage():
    options = options_of("--pretrain", "simcse,ct").contrastive
    assert settings_of("simcse", options, 768, "cpu").lr == pytest.approx(3e-5)
    assert settings_of("ct", options, 384, "cpu").lr == pytest.approx(2e-5)


def test_settings_that_the_user_has_set():
    flags = "--pretrain simcse,ct --contrastive_lr 1e-4 --contrastive_temperature 1"
    options = options_of(*flags.split())
    assert settings_of("ct", options.contrastive, 768, "cpu").lr == 1e-4
    assert overrides("ct", options.contrastive) == {"lr": 1e-4}, "ct has no temperature"


def test_the_line_that_describes_a_stage():
    flags = "--pretrain simcse,ct --contrastive_lr 1e-4 --contrastive_temperature 1"
    options = options_of(*flags.split())
    text = description("ct", options, 768)
    assert text.startswith("ct: epochs 1, batch_size 16, lr 0.0001, ")
    assert text.endswith(
        ", alpha 0.9, eps 1e-07, ct_corpus none, ct_negatives paper, ct_num_negatives 7, "
        "ct_loss code, ct_copy better, max_grad_norm 1, pooling mean (Carlsson et al. 2021; "
        "set: lr)"
    ), "RMSprop decays nothing"
    assert "temperature" not in text and "betas" not in text
    text = description("simcse", options, 768)
    assert "temperature 1," in text and "ct_" not in text

    # The learning rate of the paper is not that of this narrow encoder, so it counts as set.
    options = options_of("--pretrain", "simcse", "--contrastive_lr", "3e-5")
    assert description("simcse", options, 192).endswith("[CLS]; set: lr)")


def test_chunks_are_no_preset_of_a_device_that_cannot_do_them():
    options = options_of("--pretrain", "simcse-nli", "--nli", "x.tsv")
    for device, chunk in (("cpu", 128), ("mps", 0)):
        assert settings_of("simcse-nli", options.contrastive, 768, device).chunk == chunk

    # A chunk that the user asks for is refused later, by name.
    options = options.with_values(contrastive_chunk=64)
    assert settings_of("simcse-nli", options.contrastive, 768, "mps").chunk == 64


def test_settings_of_fusion_stand_among_the_options():
    """It has no stage whose record would hold them."""
    options, reasons = resolved(options_of(*FUSION), 384)
    contrastive = options.contrastive
    assert contrastive.contrastive_temperature == 0.05
    assert contrastive.contrastive_projection == "tanh"
    assert contrastive.contrastive_chunk == 0
    assert reasons["contrastive_temperature"] == "Gao et al. 2021, for [CLS]"

    options, _ = resolved(options_of(*FUSION, "--contrastive_temperature", "1"), 384)
    assert options.contrastive.contrastive_temperature == 1
    options, _ = resolved(options_of("--pretrain", "simcse"), 384)
    assert options.contrastive.contrastive_temperature == AUTO


# --- dropout --------------------------------------------------------------------------------------


def test_small_encoders_have_no_dropout_in_the_tasks():
    """Unless it was asked for, or is what fusion makes its two views with."""
    for size, has_dropout in ((192, False), (255, False), (256, True), (768, True)):
        assert has_dropout_in_tasks(options_of(), size) == has_dropout
    expected = Choice(0.0, "in the tasks, hidden size 192 is under 256")
    assert meanings(options_of(), 192)["encoder_dropout"] == expected
    assert meanings(options_of(), 256)["encoder_dropout"].value == 0.2

    asking = [["--encoder-dropout", "0.1"], ["--attention-dropout", "0"], FUSION]
    for flags in asking:
        options = options_of(*flags)
        assert has_dropout_in_tasks(options, 192)
        for choice in meanings(options, 192).values():
            assert "in the tasks" not in choice.reason


# --- the pair encoding and the score --------------------------------------------------------------


def encoding_of(hidden_size: int, *flags: str) -> tuple[str, str | None]:
    """The pair encoding, and its reason where it was chosen."""
    options, reasons = resolved(options_of(*flags), hidden_size)
    return options.multitask.heads.pair_encoding, reasons.get("pair_encoding")


def test_pair_encoding_follows_the_head():
    encodings = {"ph": "dual", "dpha": "dual", "mlp": "bi", "vm": "cross"}
    for head, encoding in encodings.items():
        assert encoding_of(384, "--head", head)[0] == encoding
    for head in ("ph", "vm"):
        assert encoding_of(192, "--para_head", "dph", "--head", head)[0] == "dual"
    assert encoding_of(384, "--head", "cosine", "--para_head", "features")[0] == "bi"
    assert encoding_of(384, "--head", "vm", "--para_head", "dph") == ("dual", "head dph")


def test_pair_encoding_is_cross_whatever_the_encoder():
    for size in (64, 192, 768):
        assert encoding_of(size) == ("cross", "the two sentences see each other")
        assert encoding_of(size, "--pair_encoding", "bi") == ("bi", None)


@pytest.mark.parametrize(
    ("head", "encoding"), [("features", "bi"), ("vm", "cross"), ("mlp", "bi"), ("dpha", "dual")]
)
def test_pair_encoding_of_a_frozen_encoder(head, encoding):
    """It encodes the sentences apart where the head can compare them. The head vm cannot."""
    found, reason = encoding_of(384, "--option", "pretrain", "--head", head)
    assert found == encoding
    assert ("frozen" in reason) == (head == "features")


@pytest.mark.parametrize(
    ("tasks", "score"),
    [("sst,para,sts", "overall_2023"), ("sts,sst", "mean"), ("para", "para")],
)
def test_the_score_that_selects_the_best_epoch(tasks, score):
    options, reasons = resolved(Options.of(tasks=tasks), 384)
    assert options.multitask.tasks.score == score and reasons["score"]


def test_a_contrastive_stage_reads_fewer_sentences_of_the_bundled_sample():
    """Only where nobody said how many, and only a stage that reads them all."""
    after, reasons = resolved(options_of("--pretrain", "simcse"), 384)
    assert after.contrastive.contrastive_sentences == 1000
    assert "bundled sample" in str(reasons["contrastive_sentences"])
    for flags in (
        ["--pretrain", "simcse", "--data-dir", "elsewhere"],
        ["--pretrain", "mnr"],
        ["--pretrain", "simcse", "--contrastive-order", "fusion"],
    ):
        after, reasons = resolved(options_of(*flags), 384)
        assert after.contrastive.contrastive_sentences == AUTO
        assert "contrastive_sentences" not in reasons
    after, _ = resolved(options_of("--pretrain", "simcse", "--contrastive-sentences", "0"), 384)
    assert after.contrastive.contrastive_sentences == 0
