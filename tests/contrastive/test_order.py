"""--contrastive_order: contrastive stages before the tasks, after them, or SimCSE with them.

From the job of the tasks to finished runs.
"""

from itertools import combinations

import pytest
import torch

import run_multitask
from command_line.options import Options
from contrastive.stage import build_companion
from minbert import BertModel, BertTokenizer
from minbert.training.checkpoint import load_checkpoint
from minbert.training.loop import fit
from multitask.model import MultitaskBert
from multitask.rows import read_tables
from multitask.saved_run import open_run
from tests.toy_job import Kill, killed_at
from tests.toy_multitask import encoded, task_job
from tests.toy_stages import write_triplets

# --- fusion: the job of the tasks -----------------------------------------------------------------


def fusion_job(options: Options, folder):
    """The job of the tasks, and in fusion training the loss that follows every batch, else None."""
    encoder = BertModel.from_pretrained(options.encoder.model)
    companion = None
    if options.contrastive.is_fusion:
        companion = build_companion(options.contrastive, options.training, "mean", encoder)
    rows = encoded(options, read_tables(options.data))
    return task_job(options, rows, folder, encoder, companion), companion


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
        epochs=1,
        lr=1e-3,
        max_length=48,
    ).with_files()


def test_fusion_sees_each_batch_again_with_the_contrastive_loss(options, tmp_path):
    job, _ = fusion_job(options, tmp_path)
    plain, _ = fusion_job(options.with_values(contrastive_order="first"), tmp_path)
    steps = job.plan(0, torch.Generator().manual_seed(0))
    plain_steps = plain.plan(0, torch.Generator().manual_seed(0))
    assert steps[0::2] == plain_steps
    again = []
    for step in plain_steps:
        again.append([(f"contrastive-{task}", batch) for task, batch in step])
    assert steps[1::2] == again


def test_the_projection_of_fusion_is_trained_and_not_saved_with_the_model(options, tmp_path):
    job, companion = fusion_job(options, tmp_path)
    before = companion.projection[0].weight.detach().clone()
    fit(job)
    assert not torch.equal(companion.projection[0].weight, before), "the projection is trained too"
    tensors, _ = load_checkpoint(job.folder)
    assert "model.companion.0.weight" in tensors, "a resumed run needs the projection"

    tokenizer = BertTokenizer.from_pretrained(options.encoder.model)
    job.model.save_pretrained(tmp_path / "model", tokenizer)
    names = MultitaskBert.from_pretrained(tmp_path / "model").state_dict()
    assert not any("companion" in name for name in names), "it is of no use after training"


def test_a_frozen_encoder_leaves_nothing_for_fusion_without_a_projection(options, tmp_path):
    frozen = options.with_values(freeze="2", contrastive_projection="none")
    message = "nothing to train for --contrastive_order fusion with --contrastive_projection none."
    with pytest.raises(ValueError, match=message):
        fusion_job(frozen, tmp_path)


@pytest.mark.parametrize(
    "values",
    [{"freeze": "1"}, {"contrastive_projection": "tanh"}, {"contrastive_order": "first"}],
)
def test_anything_that_fusion_can_train_is_enough(options, tmp_path, values):
    frozen = options.with_values(freeze="2", contrastive_projection="none")
    job, companion = fusion_job(frozen.with_values(**values), tmp_path)
    # Without fusion there is no companion, and the heads are trained.
    trained = job.model if companion is None else companion
    assert any(parameter.requires_grad for parameter in trained.parameters())


@pytest.mark.parametrize("step", [2, 7])
def test_a_killed_fusion_goes_on_to_the_same_bits(options, tmp_path, step):
    """It is killed in a step of the tasks, or of the contrastive loss between them."""
    undisturbed, _ = fusion_job(options, tmp_path / "undisturbed")
    history = fit(undisturbed).history
    stopped, _ = fusion_job(options, tmp_path / "stopped")
    with pytest.raises(Kill):
        fit(killed_at(stopped, step))
    again, companion = fusion_job(options, tmp_path / "stopped")
    with torch.no_grad():
        companion.projection[0].weight.zero_()  # another process drew other numbers
    assert fit(again, resume=True).history == history
    for one, other in zip(again.model.parameters(), undisturbed.model.parameters(), strict=True):
        assert torch.equal(one, other)


# --- whole runs -----------------------------------------------------------------------------------


@pytest.fixture
def run(tiny_model, sample_data, tmp_path, capsys):
    """A function that runs the main job in fp32 and returns the exit code and what it prints."""

    def run_once(name: str, *flags: object) -> tuple[int, str]:
        data = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
        place = ["--output-dir", tmp_path, "--name", name]
        code = run_multitask.main(list(map(str, [*data, *place, "--epochs", 1, *flags])))
        return code, capsys.readouterr().out

    return run_once


ORDERS = {
    "none": [],
    "heads": ["--heads-first", 1],  # it begins as late as a stage would
    "first": ["--pretrain", "simcse", "--contrastive-order", "first"],
    "last": ["--pretrain", "simcse", "--contrastive-order", "last"],
    "fusion": ["--pretrain", "simcse", "--contrastive-order", "fusion"],
}


def test_a_whole_run_of_each_order_is_another_model(run, tmp_path):
    outputs = {}
    for order, flags in ORDERS.items():
        code, printed = run(order, "--lr", 1e-3, *flags)
        assert code == 0
        has_stage = "zero-shot STS dev" in printed
        assert has_stage == (order in ("first", "last")), "fusion has no stage of its own"
        assert "; set: " not in printed, "a value that fusion fills in was not set by the user"
        assert "SST accuracy" in printed
        outputs[order] = open_run(tmp_path / order).outputs("sts", "dev")
        if order == "first" and "is worse" in printed:
            # Then the stage goes on with its start, and the run is that of "none".
            outputs.pop("none")
    for one, other in combinations(outputs, 2):
        difference = abs(outputs[one] - outputs[other]).max()
        assert difference >= 1e-4, f"{one} and {other} are the same model"


def test_a_whole_run_of_both_kinds_of_supervised_simcse(run, sample_data, tmp_path):
    tables = read_tables(Options.of(data_dir=str(sample_data)).with_files().data)
    nli = write_triplets(tmp_path / "nli.tsv", tables)
    flags = ["--recipe", "gen-surgery", "--nli", nli, "--contrastive_epochs", 1]
    code, printed = run("both", *flags)
    assert code == 0
    places = [
        printed.index(f"{name}: step") for name in ("simcse-nli", "simcse-supervised", "multitask")
    ]
    assert places == sorted(places)


def test_other_methods_follow_the_tasks_too(run):
    flags = ["--pretrain", "mnr", "--contrastive-order", "last"]
    code, printed = run("last", *flags)
    assert code == 0
    assert printed.index("multitask: step") < printed.index("mnr: step")
    code, printed = run("again", *flags)
    assert code == 0
    assert "reused" not in printed, "a late stage starts from an encoder that only its run has"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["simcse-nli", "--nli"], "nowhere.tsv: there is no such file. Check"),
        (["ct", "--ct_corpus"], "nowhere.tsv: No such file or directory. Give"),
    ],
)
def test_a_file_of_a_method_that_is_nowhere(
    tiny_model, sample_data, tmp_path, capsys, flags, message
):
    data = ["--model", tiny_model, "--data-dir", sample_data, "--output-dir", tmp_path / "runs"]
    argv = [*data, "--pretrain", *flags, tmp_path / "nowhere.tsv"]
    assert run_multitask.main(list(map(str, argv))) == 2
    error = capsys.readouterr().err
    assert message in error
    assert f"{tmp_path / 'nowhere.tsv'}: " in error
    assert not (tmp_path / "runs").exists(), "nothing was begun"
