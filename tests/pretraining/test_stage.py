"""minbert/pretraining/stage.py: masked language modelling on the tasks' own rows, before them.

If the loss by hand differs, padding was chosen or attended to, or segments were left out.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line.options import Options
from contrastive.embedder import open_embedder
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pooling import save_pooling, stored_pooling
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM, Masking
from minbert.pretraining.options import MlmOptions
from minbert.training.code_version import ROOT
from minbert.training.loop import fit
from minbert.training.stage import Stage
from multitask.rows import read_tables
from tests.toy_multitask import encoded
from tests.toy_stages import make_mlm_stage


@pytest.fixture(scope="module")
def options(sample_data, tiny_model) -> Options:
    """The options of the stage in most tests."""
    return Options.of(
        pretrain="mlm",
        model=str(tiny_model),
        data_dir=str(sample_data),
        precision="fp32",
        mlm_lr=3e-3,
        mlm_batch_size=8,
        max_length=48,
        pair_encoding="cross",
        epochs=1,
        lr=1e-3,
    ).with_files()


@pytest.fixture
def make_stage(options, tiny_model, tmp_path):
    """A function that builds the stage on all rows of the cut sample; changes replace options."""

    def make(model_folder: Path = tiny_model, **changes) -> Stage:
        chosen = options.with_values(**changes)
        rows = encoded(chosen, read_tables(chosen.data))
        return make_mlm_stage(chosen, rows, tmp_path / "run", model_folder)

    return make


def enlarge(encoder: BertModel) -> None:
    """Ten times the weights: small ones would hide whether padding is attended to."""
    for parameter in encoder.parameters():
        parameter.data.mul_(10)


# --- steps and loss -------------------------------------------------------------------------------


def test_an_epoch_sees_every_row_of_every_task_once(make_stage):
    steps = make_stage(batch_size=5).job.plan(0, torch.Generator().manual_seed(0))
    seen = []
    for step in steps:
        for task, rows in step:
            assert len(rows) == 8  # --mlm_batch_size
            seen += [(task, row) for row in rows]
    assert sorted(seen) == sorted(
        (task, row) for task in ("sst", "para", "sts") for row in range(64)
    )


def test_the_loss_is_the_masked_language_model_s_on_the_padded_batch(make_stage):
    """Pairs share a row, with their segments; padding is neither chosen nor attended to."""
    job = make_stage().job
    torch.manual_seed(4)
    batch = job.load("para", [3, 0, 5])
    input_ids = torch.where(batch.labels == IGNORED, batch.input_ids, batch.labels)
    assert batch.token_type_ids.any() and not batch.attention_mask.all()
    job.model.eval()
    enlarge(job.model.bert)
    loss = job.loss("para", batch)

    # By hand: the same draws, then one row at a time without padding.
    torch.manual_seed(4)
    draws = torch.rand(input_ids.shape)
    fates = torch.rand(input_ids.shape)
    random_ids = torch.randint(len(job.model.bias), input_ids.shape)
    losses = []
    for row in range(3):
        ids = input_ids[row]
        types = batch.token_type_ids[row]
        length = int(batch.attention_mask[row].sum())
        chosen = []
        corrupted = ids[:length].clone()
        for place in range(length):
            if draws[row, place] >= 0.15 or ids[place] <= 4:  # 0 to 4 are special
                continue
            chosen.append(place)
            if fates[row, place] < 0.8:
                corrupted[place] = 4
            elif fates[row, place] < 0.9:
                corrupted[place] = random_ids[row, place]
        output = job.model.bert(corrupted[None], token_type_ids=types[None, :length])
        for place in chosen:
            logits = job.model(output.last_hidden_state[0, place])
            losses.append(-logits.log_softmax(-1)[ids[place]])
    assert losses and loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


def test_a_batch_in_which_nothing_is_chosen_costs_nothing(make_stage):
    model = make_stage().job.model
    loss = model.loss(torch.tensor([[2, 9, 3]]), torch.full((1, 3), IGNORED))
    assert loss.item() == 0.0 and loss.requires_grad


def test_the_job_is_as_the_options_say(make_stage):
    others = {
        "max_grad_norm": 0.25,
        "seed": 5,
        "save_every": 7,
        "precision": "bf16",
        "warmup": 0.5,
        "schedule": "cosine",
    }
    assert make_stage().keeps_better and not make_stage(hand_on="trained").keeps_better
    job = make_stage(**others, weight_decay=0.125).job
    assert {name: getattr(job, name) for name in others} == others
    assert {group["weight_decay"] for group in job.optimizer.param_groups} == {0.125, 0.0}


def test_it_is_trained_and_leaves_an_encoder(make_stage):
    stage = make_stage(mlm_epochs=6, weight_decay=0.0)
    before = stage.quality()
    assert before.keys() == {"held_out_loss", "masked_accuracy"} and before == stage.quality()
    knows_nothing = math.log(len(stage.job.model.bias))
    assert before["held_out_loss"] == pytest.approx(knows_nothing, rel=0.1)
    history = fit(stage.job).history
    assert history[-1]["held_out_loss"] < before["held_out_loss"] - 0.7
    best = min(history, key=lambda entry: entry["held_out_loss"])
    assert stage.quality() == {name: best[name] for name in before}


# --- the score ------------------------------------------------------------------------------------


def test_the_score_has_one_mask_whatever_was_drawn_before_and_leaves_no_trace(make_stage):
    stage = make_stage()
    stage.job.model.train()
    torch.manual_seed(3)
    first = stage.quality()
    state = torch.get_rng_state()
    torch.manual_seed(3)
    assert torch.equal(torch.get_rng_state(), state)
    assert stage.job.model.training and stage.encoder.training
    torch.manual_seed(4)
    assert stage.quality() == first


@torch.no_grad()
def test_the_score_by_hand(make_stage, tiny_model):
    """Row by row, without padding and with segments, under masks drawn once for all batches."""
    stage = make_stage()
    model = stage.job.model.eval()
    masking = Masking.of(BertTokenizer.from_pretrained(tiny_model), whole_word=False)
    enlarge(model.bert)

    batches = []
    score = model.score

    def keep_batches(inputs, *others):
        batches.extend(inputs)
        return score(batches, *others)

    model.score = keep_batches
    quality = stage.quality()
    nats = 0.0
    hits = 0
    count = 0
    torch.manual_seed(0)
    for input_ids, types, mask in batches:
        corrupted, labels = masking(input_ids)
        for row, length in enumerate(mask.sum(1).tolist()):
            output = model.bert(
                corrupted[row : row + 1, :length], None, types[row : row + 1, :length]
            )
            logits = model(output.last_hidden_state[0])
            for place in range(length):
                label = int(labels[row, place])
                if label != IGNORED:
                    nats -= float(logits[place].log_softmax(-1)[label])
                    hits += int(logits[place].argmax()) == label
                    count += 1
    assert len(batches) == 3 and count > 100
    assert quality == {
        "held_out_loss": pytest.approx(nats / count, rel=1e-4),
        "masked_accuracy": hits / count,
    }


def test_a_run_in_bf16_is_scored_in_bf16(make_stage):
    fp32, bf16 = (
        make_stage(precision=precision).quality()["held_out_loss"] for precision in ("fp32", "bf16")
    )
    assert fp32 != bf16 and bf16 == pytest.approx(fp32, rel=0.01)


# --- head and pooling -----------------------------------------------------------------------------


def test_a_new_head_begins_as_the_layers_do():
    """With a standard deviation of .02 and no bias, as all of BERT's matrices."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=8, hidden_size=96, num_attention_heads=2)
    transform = BertForMaskedLM(BertModel(config)).transform
    assert transform.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not transform.bias.any()


def test_it_binds_the_encoder_to_no_pooling_but_one_that_was_trained_before(
    make_stage, tiny_model, tmp_path
):
    stage = make_stage(mlm_epochs=1, pooling="cls")
    stage.train(is_resumed=False)
    assert stored_pooling(stage.folder) is None
    bound = tmp_path / "bound"
    shutil.copytree(tiny_model, bound)
    save_pooling(bound, "cls")
    assert make_stage(bound, pooling="cls").pooling == "cls"
    assert make_stage(pretrain="simcse,mlm", pooling="cls").pooling == "cls"
    assert make_stage(pretrain="mlm,simcse", pooling="cls").pooling is None
    assert make_stage(pretrain="simcse,mlm", contrastive_order="fusion").pooling is None


def test_the_head_of_the_folder_is_taken_where_there_is_one(make_stage, tiny_model, tmp_path):
    folder = tmp_path / "whole"
    torch.manual_seed(5)
    whole = BertForMaskedLM(BertModel.from_pretrained(tiny_model))
    whole.save_pretrained(folder)
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    with_head = make_stage(folder)
    without = make_stage()
    assert torch.equal(with_head.job.model.transform.weight, whole.transform.weight)
    assert not torch.equal(without.job.model.transform.weight, whole.transform.weight)
    torch.nn.init.normal_(whole.bias)
    whole.save_pretrained(folder)
    stages = (with_head, without, make_stage(folder))
    assert len({stage.fingerprint for stage in stages}) == 3


def test_a_pooler_that_nothing_trained_is_not_left_in_the_encoder_s_folder(make_stage, model_copy):
    """Random weights would pass for trained ones, once they are in a file."""
    path = model_copy / "model.safetensors"
    tensors = load_file(path)
    for name in list(tensors):
        if name.startswith("pooler"):
            tensors.pop(name)
    save_file(tensors, path)
    stage = make_stage(model_copy)
    stage.train(is_resumed=False)
    with pytest.raises(ValueError, match="holds no weights for it"):
        open_embedder(stage.folder, "pooler")
    stage.reuse(stage.folder)  # which lacks it as well
    encoder = BertModel.from_pretrained(model_copy)
    encoder.save_pretrained(stage.folder, pooling="pooler")  # by one who has trained it
    assert torch.equal(BertModel.from_pretrained(stage.folder).pooler.weight, encoder.pooler.weight)


# --- identity -------------------------------------------------------------------------------------


def test_the_fingerprint_follows_its_own_options_only(make_stage):
    first = make_stage().fingerprint
    same = {
        "lr": 1.0,
        "epochs": 9,
        "batch_size": 5,
        "sampling": "joint",
        "option": "pretrain",
        "save_every": 3,
    }
    assert make_stage(**same).fingerprint == first
    changes = {
        "mlm_lr": 1e-4,
        "mlm_epochs": 2,
        "mlm_batch_size": 4,
        "mlm_whole_word": True,
        "pair_encoding": "bi",
        "max_length": 20,
        "seed": 1,
        "warmup": 0.5,
        "weight_decay": 0.5,
        "schedule": "constant",
        "max_grad_norm": 0.5,
        "pooling": "cls",
        "precision": "bf16",
        "hand_on": "trained",
    }
    assert {item.name for item in fields(MlmOptions)} <= changes.keys()
    others = {make_stage(**{name: value}).fingerprint for name, value in changes.items()}
    assert len({first, *others}) == len(changes) + 1


def test_what_plans_its_batches_is_part_of_its_code(make_stage, monkeypatch):
    """test_code_version.py shows that every file of these packages counts."""
    packages = []
    monkeypatch.setattr(
        "minbert.pretraining.stage.code_of", lambda *names: str(packages.extend(names))
    )
    make_stage()
    assert packages == ["data", "multitask"]
    assert (ROOT / "multitask" / "sampling.py").is_file()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_it_trains_on_one_split_and_is_scored_on_the_other(make_stage, split):
    """And its fingerprint knows both."""
    whole = make_stage()
    cut = make_stage(**{f"{split}_rows": "sst=4,para=4,sts=4"})
    assert whole.fingerprint != cut.fingerprint
    assert (whole.quality() != cut.quality()) == (split == "dev")


@pytest.mark.parametrize("is_asked", [True, False])
def test_whole_words_are_masked_where_asked(make_stage, monkeypatch, is_asked):
    asked = []
    make_masking = Masking.of

    def keep(tokenizer, whole_word):
        asked.append(whole_word)
        return make_masking(tokenizer, whole_word)

    monkeypatch.setattr(Masking, "of", keep)
    make_stage(mlm_whole_word=is_asked)
    assert asked == [is_asked]
