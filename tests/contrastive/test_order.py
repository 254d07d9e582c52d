"""--contrastive_order: SimCSE before the tasks, after them, or with them, from the job to the finished run."""

from itertools import combinations

import pytest
import torch

import run_multitask
from command_line.automatic import has_dropout_in_tasks
from command_line.options import Options
from contrastive.stage import build_companion
from minbert import BertModel, BertTokenizer
from minbert.training.checkpoint import load_checkpoint
from minbert.training.loop import fit
from multitask.model import MultitaskBert
from multitask.saved_run import open_run
from multitask.stage import build_job, encode_tables, read_tables
from tests.toy_job import Kill, killed_at
from tests.toy_stages import write_triplets


def fusion_job(options, folder):
    encoder = BertModel.from_pretrained(options.encoder.model)
    tokenizer = BertTokenizer.from_pretrained(options.encoder.model)
    rows = encode_tables(
        read_tables(options.data),
        tokenizer,
        options.data.max_length,
        options.multitask.heads.pair_encoding,
    )
    companion = None
    if options.contrastive.is_fusion:
        companion = build_companion(options.contrastive, options.training, "mean", encoder)
    has_dropout = has_dropout_in_tasks(options, encoder.config.hidden_size)
    job = build_job(
        options.multitask, options.training, "mean", has_dropout, encoder, rows, folder, companion
    )
    return job, companion


@pytest.fixture
def options(tiny_model, sample_data):
    return Options.of(
        model=str(tiny_model),
        data_dir=str(sample_data),
        pretrain="simcse",
        contrastive_order="fusion",
        pair_encoding="cross",
        precision="fp32",
        device="cpu",
        score="overall_2023",
        epochs=1,
        lr=1e-3,
        max_length=48,
    ).with_files()


def test_fusion_sees_each_batch_again_with_the_contrastive_loss(options, tmp_path):
    job, companion = fusion_job(options, tmp_path)
    plain, _ = fusion_job(options.with_values(contrastive_order="first"), tmp_path)
    steps, expected = (each.plan(0, torch.Generator().manual_seed(0)) for each in (job, plain))
    assert steps[0::2] == expected
    assert steps[1::2] == [
        [(f"contrastive-{task}", batch) for task, batch in step] for step in expected
    ]
    before = companion.projection[0].weight.detach().clone()
    fit(job)
    assert not torch.equal(companion.projection[0].weight, before), "the projection learns too"
    tensors, _ = load_checkpoint(job.folder)
    assert "model.companion.0.weight" in tensors, "a resumed run needs the projection"
    job.model.save_pretrained(
        tmp_path / "model", BertTokenizer.from_pretrained(options.encoder.model)
    )
    loaded = MultitaskBert.from_pretrained(tmp_path / "model")
    assert not any("companion" in name for name in loaded.state_dict()), (
        "it is of no use after training"
    )


def test_a_frozen_encoder_leaves_nothing_for_fusion_without_a_projection(options, tmp_path):
    frozen = options.with_values(freeze="2", contrastive_projection="none")
    with pytest.raises(
        ValueError, match="--freeze 2 leaves nothing to train for a loss on the vectors"
    ):
        fusion_job(frozen, tmp_path)
    for others in (
        {"freeze": "1"},
        {"contrastive_projection": "tanh"},
        {"contrastive_order": "first"},
    ):
        fusion_job(frozen.with_values(**others), tmp_path)


@pytest.mark.parametrize("step", [2, 7])
def test_a_killed_fusion_goes_on_to_the_same_bits(options, tmp_path, step):
    """Killed in a step of the tasks or of the contrastive loss between them; the projection goes on too."""
    undisturbed, _ = fusion_job(options, tmp_path / "undisturbed")
    history = fit(undisturbed).history
    stopped, _ = fusion_job(options, tmp_path / "stopped")
    with pytest.raises(Kill):
        fit(killed_at(stopped, step))
    again, companion = fusion_job(options, tmp_path / "stopped")
    with torch.no_grad():
        companion.projection[0].weight.zero_()  # what another process drew
    assert fit(again, resume=True).history == history
    for one, other in zip(again.model.parameters(), undisturbed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_whole_run_of_each_order_is_another_model(
    tiny_model, sample_data, tmp_path, no_fsync, capsys
):
    """And one whose heads are trained first, which begins as late as a stage would."""
    found = {}
    for order in ("none", "heads", "first", "last", "fusion"):
        stage = {"none": [], "heads": ["--heads-first", 1]}.get(
            order, ["--pretrain", "simcse", "--contrastive-order", order]
        )
        flags = [
            "--model",
            tiny_model,
            "--data-dir",
            sample_data,
            "--epochs",
            1,
            *stage,
            "--output-dir",
            tmp_path,
            "--name",
            order,
            "--precision",
            "fp32",
            "--lr",
            1e-3,
        ]
        assert run_multitask.main(list(map(str, flags))) == 0
        output = capsys.readouterr().out
        assert ("zero-shot STS dev" in output) == (order in ("first", "last")), (
            "fusion has no stage of its own"
        )
        assert "given:" not in output, "what fusion fills in was not given"
        assert "SST accuracy" in output
        found[order] = open_run(tmp_path / order).outputs("sts", "dev")
        if (
            order == "first" and "is worse" in output
        ):  # then it hands its start on, and the run is that of none
            found.pop("none")
    alike = [
        pair for pair in combinations(found, 2) if abs(found[pair[0]] - found[pair[1]]).max() < 1e-4
    ]
    assert not alike


def test_a_whole_run_of_both_kinds_of_supervised_simcse(
    tiny_model, sample_data, tmp_path, no_fsync, capsys
):
    nli = write_triplets(
        tmp_path / "nli.tsv", read_tables(Options.of(data_dir=str(sample_data)).with_files().data)
    )
    flags = [
        "--recipe",
        "gen-surgery",
        "--nli",
        nli,
        "--model",
        tiny_model,
        "--data-dir",
        sample_data,
        "--epochs",
        1,
        "--contrastive_epochs",
        1,
        "--output-dir",
        tmp_path,
        "--name",
        "both",
        "--precision",
        "fp32",
    ]
    assert run_multitask.main(list(map(str, flags))) == 0
    output = capsys.readouterr().out
    assert (
        output.index("simcse-nli: step")
        < output.index("simcse-supervised: step")
        < output.index("multitask: step")
    )


@pytest.mark.parametrize("flags", [["simcse-nli", "--nli"], ["ct", "--ct_corpus"]])
def test_a_file_of_a_method_that_is_nowhere(tiny_model, sample_data, tmp_path, capsys, flags):
    argv = [
        "--model",
        tiny_model,
        "--data-dir",
        sample_data,
        "--output-dir",
        tmp_path / "runs",
        "--pretrain",
        *flags,
        tmp_path / "nowhere.tsv",
    ]
    assert run_multitask.main(list(map(str, argv))) == 2
    assert f"{tmp_path / 'nowhere.tsv'}: No such file or directory. " in capsys.readouterr().err
    assert not (tmp_path / "runs").exists(), "nothing was begun"


def test_other_methods_follow_the_tasks_too(tiny_model, sample_data, tmp_path, no_fsync, capsys):
    flags = [
        "--model",
        tiny_model,
        "--data-dir",
        sample_data,
        "--epochs",
        1,
        "--pretrain",
        "mnr",
        "--output-dir",
        tmp_path,
        "--name",
        "last",
        "--contrastive-order",
        "last",
        "--precision",
        "fp32",
    ]
    assert run_multitask.main(list(map(str, flags))) == 0
    output = capsys.readouterr().out
    assert output.index("multitask: step") < output.index("mnr: step")
    flags[flags.index("last")] = "again"
    assert run_multitask.main(list(map(str, flags))) == 0
    assert "reused" not in capsys.readouterr().out, (
        "a late stage starts from what only its own run has"
    )
