"""Runs of commit 94b06e7, the last one before the packages of today, are resumed.

A run of another version either goes on, or a message says which version wrote it. `OPTIONS` is the
options.json of a run as that commit wrote it, without the options that have their default of today.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import run_multitask
from command_line.folders import load
from command_line.options import Options
from minbert.pretraining import __main__ as pretraining
from minbert.training.loop import Loop
from tests.killed_runs import differences

COMMIT = "94b06e7b76dd7e5c6f1fe2ce3309e6a4831b1ea7"
CODE = {
    "sha256": "38306f57fa54d0cbe16d1d473468dee5f4f2c60fd6fed9a950fd290aca1159b9",
    "git": COMMIT,
}
# All its options, by their names. The values are those of a run with --head dpha --heads-first 1.
OLD_OPTIONS = """
option recipe pretrain model data_dir drop_bad_rows train_rows dev_rows token_cache name output_dir
seed device use_gpu precision attention compile save_every epochs batch_size max_tokens lr
vector_dropout_prob hidden_dropout_prob pair_encoding head para_head sharing sts_range para_prior
common_layer pooling max_length tasks sampling sampling_weights sampling_power joint_limit surgery
surgery_reduction gradvac_beta loss_weights schedule warmup weight_decay max_grad_norm accumulation
layer_decay freeze heads_first encoder_dropout attention_dropout score patience contrastive_order
hand_on mlm_epochs mlm_batch_size mlm_lr mlm_whole_word contrastive_epochs contrastive_batch_size
contrastive_lr contrastive_temperature contrastive_max_length contrastive_projection
contrastive_optimizer contrastive_schedule contrastive_warmup contrastive_evaluate_every
contrastive_patience contrastive_chunk labelled_negatives unsupervised_too nli hard_negative_weight
mnr_similarity bsc_symmetric bsc_labelled_negatives bsc_normalise bsc_align bsc_temperature_lr
bsc_shuffle ct_corpus ct_negatives sg_loss sg_states sg_regulariser sst_train sst_dev sst_test
para_train para_dev para_test sts_train sts_dev sts_test sst_dev_out sst_test_out para_dev_out
para_test_out sts_dev_out sts_test_out
"""
NAMES = OLD_OPTIONS.split()
OPTIONS = {
    "option": "finetune",
    "data_dir": "data/sample",
    "train_rows": "sst=120,para=120,sts=120",
    "token_cache": "none",
    "name": "heads",
    "device": "cpu",
    "precision": "bf16",
    "attention": "eager",
    "save_every": 3,
    "epochs": 2,
    "lr": 0.0005,
    "pair_encoding": "dual",
    "head": "dpha",
    "heads_first": 1,
    "score": "auto",
}
# The options.json of `python -m minbert.pretrain`, as the command was called.
PLAIN_TEXT = {
    "corpus": ["/texts/corpus.txt"],
    "out": "runs/enc",
    "resume": None,
    "size": "tiny",
    "init": None,
    "vocabulary": "minbert-mini",
    "tokens": 200000,
    "batch_size": 32,
    "accumulation": 1,
    "block_size": 64,
    "lr": 0.0005,
    "warmup": 0.05,
    "pairs": 0.0,
    "seed": 0,
    "whole_word": False,
    "compile": False,
    "device": "cpu",
    "precision": "bf16",
}
# The keys of state.json in a checkpoint.
OLD_STATE = """
epoch step_in_epoch step num_steps evaluated_step best_score best_step history losses seconds
is_finished optimizer keep tensors
"""
STATE = OLD_STATE.split()


def write_run(folder: Path, options: dict) -> Path:
    """A folder with an options.json of that commit."""
    content = {"options": options, "files": {}, "code": CODE, "processes": 1, "threads": 1}
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


# --- options --------------------------------------------------------------------------------------


def test_every_option_is_still_one(tmp_path):
    values = {**Options.of().with_files().flat(), **OPTIONS}
    assert set(NAMES) <= values.keys(), (
        "an option that old runs hold is gone: read it, or refuse it"
    )
    old = {name: values[name] for name in NAMES}
    options = load(write_run(tmp_path / "run", old))
    kept = options.flat()
    assert {name: kept[name] for name in OPTIONS} == OPTIONS


@pytest.mark.parametrize(
    ("tasks", "untrained"), [("sst", "para,sts"), ("sts,sst", "para"), ("sts,para,sst", "none")]
)
def test_a_run_of_fewer_tasks_still_reads_all_three(tmp_path, tasks, untrained):
    """Its checkpoint has the heads of all three."""
    run = write_run(tmp_path / "run", {**OPTIONS, "tasks": tasks})
    assert load(run).multitask.tasks.untrained_tasks == untrained


def test_a_run_with_an_unknown_option_is_refused_with_its_version(tmp_path, capsys):
    folder = write_run(tmp_path / "run", {**OPTIONS, "gone": 1})
    with pytest.raises(SystemExit):
        run_multitask.main(["--resume", str(folder)])
    message = capsys.readouterr().err
    assert f"not the options of this version (unknown option gone; version {COMMIT} wrote it)" in (
        message
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"size": "tiny", "init": "none", "vocabulary": "minbert-mini"}),
        ({"vocabulary": None, "size": "mini"}, {"size": "mini", "vocabulary": "none"}),
        (
            {"size": None, "init": "minbert-mini", "vocabulary": None},
            {"size": "auto", "init": "minbert-mini", "vocabulary": "none"},
        ),
    ],
)
def test_a_pretraining_run_is_read(tmp_path, change, expected):
    """null stood for an option that was not given."""
    folder = write_run(tmp_path / "enc", {**PLAIN_TEXT, **change})
    run = pretraining.parse(["--resume", str(folder)])
    assert run.corpus == (Path("/texts/corpus.txt"),)
    assert run.folder == folder and run.is_resumed
    values = vars(run.options)
    assert {name: values[name] for name in expected} == expected
    same = PLAIN_TEXT.keys() - {"corpus", "out", "resume", "size", "init", "vocabulary"}
    assert {name: values[name] for name in same} == {name: PLAIN_TEXT[name] for name in same}


# --- a whole run ----------------------------------------------------------------------------------


def make_old(folder: Path) -> None:
    """Change the folder of a stopped run into one that commit 94b06e7 would have left."""
    # There were no checksums, and no digests of files.
    for path in [*folder.rglob("state.json"), *folder.rglob("stage.json")]:
        content = json.loads(path.read_text(encoding="utf-8"))
        for name in ("checksum", "digests", "files"):
            content.pop(name, None)
        path.write_text(json.dumps(content), encoding="utf-8")
    path = folder / "options.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["checksum"]
    values = content["options"]
    content["options"] = {name: values[name] for name in NAMES} | {"score": "auto"}
    content["code"] = CODE
    path.write_text(json.dumps(content), encoding="utf-8")
    for path in folder.rglob("SHA256SUMS"):
        path.unlink()
    (folder / "cost_estimate.json").rename(folder / "price.json")
    (folder / ".lock").unlink(missing_ok=True)


def test_a_stopped_run_goes_on_to_the_same_result(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
    flags += ["--pretrain", "mlm,simcse", "--epochs", 1, "--save-every", 2, "--name", "run"]
    flags = list(map(str, flags))
    whole = tmp_path / "whole" / "run"
    stopped = tmp_path / "stopped" / "run"
    assert run_multitask.main([*flags, "--output-dir", str(whole.parent)]) == 0

    train_step = Loop.train_step

    def stop_in_the_last_job(loop, update):
        train_step(loop, update)
        loop.stop.is_requested = loop.job.name == "multitask" and loop.progress.step == 3

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "train_step", stop_in_the_last_job)
        assert run_multitask.main([*flags, "--output-dir", str(stopped.parent)]) == 130
    make_old(stopped)
    state = json.loads((stopped / "checkpoint" / "multitask" / "state.json").read_text())
    assert list(state) == STATE, "a checkpoint of that commit would not be read"

    capsys.readouterr()
    assert run_multitask.main(["--resume", str(stopped)]) == 0
    printed = capsys.readouterr().out
    assert f"begun with other code ({COMMIT}, now " in printed
    assert printed.count("encoder reused from") == 2, "its finished stages are not trained again"
    assert differences(whole, stopped) == []
    assert not (stopped / "price.json").exists()


def test_a_finished_stage_of_an_old_run_is_not_taken_by_a_new_one(
    tiny_model, sample_data, tmp_path, capsys
):
    """Its code is another one: a loss may have been edited since."""
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
    flags += ["--pretrain", "mlm", "--epochs", 1, "--output-dir", tmp_path]
    flags = list(map(str, flags))
    assert run_multitask.main([*flags, "--name", "old"]) == 0
    path = tmp_path / "old" / "encoder" / "stage.json"
    stage = json.loads(path.read_text())
    assert list(stage)[:2] == ["fingerprint", "code"]
    path.write_text(json.dumps({**stage, "code": CODE["sha256"]}))
    capsys.readouterr()
    assert run_multitask.main([*flags, "--name", "new"]) == 0
    assert "encoder reused from" not in capsys.readouterr().out
