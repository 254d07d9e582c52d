"""minbert/pretraining/stage.py: masked-language modelling on the tasks' own rows, as a stage before them."""

import math
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line.options import Options
from contrastive.embedder import open_embedder
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pooling import save_pooling, stored_pooling
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM, Masking
from minbert.pretraining.stage import build_stage
from minbert.training.loop import fit
from minbert.training.stage import Stage, encoder_fingerprint
from multitask.stage import encode_tables, read_tables

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options(
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

    def make(model_folder=tiny_model, **changes) -> Stage:
        chosen = replace(options, **changes)
        encoder, tokenizer = (
            BertModel.from_pretrained(model_folder),
            BertTokenizer.from_pretrained(model_folder),
        )
        rows = encode_tables(
            read_tables(chosen), tokenizer, chosen.max_length, chosen.pair_encoding
        )
        return build_stage(
            chosen,
            encoder,
            tokenizer,
            rows,
            model_folder,
            tmp_path / "run",
            "encoder",
            encoder_fingerprint(encoder, tokenizer),
            CPU,
        )

    return make


def test_an_epoch_sees_every_row_of_every_task_once(make_stage):
    steps = make_stage(batch_size=5).job.plan(0, torch.Generator().manual_seed(0))
    assert {len(rows) for step in steps for _, rows in step} == {8}  # --mlm_batch_size
    seen = sorted((task, row) for step in steps for task, rows in step for row in rows)
    assert seen == sorted((task, row) for task in ("sst", "para", "sts") for row in range(64))


def test_the_loss_is_the_masked_language_model_s_on_the_padded_batch(make_stage):
    """Pairs share a row, with their segments; padding is neither chosen nor attended to."""
    job = make_stage().job
    batch = job.load("para", [3, 0, 5])
    assert batch.token_type_ids.any() and not batch.attention_mask.all()
    job.model.eval()
    for parameter in job.model.bert.parameters():
        parameter.data.mul_(10)  # at its small start values a padded token would say almost nothing
    torch.manual_seed(4)
    found = job.loss("para", batch)
    torch.manual_seed(4)
    draws, fates = torch.rand(batch.input_ids.shape), torch.rand(batch.input_ids.shape)
    random_ids = torch.randint(len(job.model.bias), batch.input_ids.shape)
    losses = []
    for row in range(3):
        ids, types = batch.input_ids[row], batch.token_type_ids[row]
        length = int(batch.attention_mask[row].sum())
        chosen = [
            place for place in range(length) if draws[row, place] < 0.15 and ids[place] > 4
        ]  # 0 to 4 are special
        corrupted = ids[:length].clone()
        for place in chosen:
            if fates[row, place] < 0.8:
                corrupted[place] = 4
            elif fates[row, place] < 0.9:
                corrupted[place] = random_ids[row, place]
        hidden = job.model.bert(
            corrupted[None], token_type_ids=types[None, :length]
        ).last_hidden_state[0]
        losses += [-job.model(hidden[place]).log_softmax(-1)[ids[place]] for place in chosen]
    assert losses and found.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


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


def test_it_learns_and_leaves_an_encoder(make_stage):
    stage = make_stage(mlm_epochs=6, weight_decay=0.0)
    before = stage.quality()
    assert before.keys() == {"held_out_loss", "masked_accuracy"} and before == stage.quality()
    assert before["held_out_loss"] == pytest.approx(
        math.log(len(stage.job.model.bias)), rel=0.1
    )  # knows nothing yet
    history = fit(stage.job).history
    assert history[-1]["held_out_loss"] < before["held_out_loss"] - 0.7
    best = min(history, key=lambda entry: entry["held_out_loss"])
    assert stage.quality() == {name: best[name] for name in before}


def test_the_score_has_one_mask_whatever_was_drawn_before_and_leaves_no_trace(make_stage):
    stage = make_stage()
    stage.job.model.train()
    torch.manual_seed(3)
    first, state = stage.quality(), torch.get_rng_state()
    torch.manual_seed(3)
    assert (
        torch.equal(torch.get_rng_state(), state)
        and stage.job.model.training
        and stage.encoder.training
    )
    torch.manual_seed(4)
    assert stage.quality() == first


@torch.no_grad()
def test_the_score_by_hand(make_stage, tiny_model):
    """Row by row, without padding and with segments, under masks drawn once for all batches, in their order."""
    stage, chosen = make_stage(), 0
    model, masking = (
        stage.job.model.eval(),
        Masking.of(BertTokenizer.from_pretrained(tiny_model), whole_word=False),
    )
    for parameter in model.bert.parameters():
        parameter.mul_(10)  # at its small start values a padded token would say almost nothing
    batches = []
    score = model.score
    model.score = lambda inputs, *rest: score(
        (batches.append(each) or each for each in inputs), *rest
    )
    found, nats, hits = stage.quality(), 0.0, 0
    torch.manual_seed(0)
    for input_ids, types, mask in batches:
        for ids, wanted, segments, length in zip(
            *masking(input_ids), types, mask.sum(1).tolist(), strict=True
        ):
            logits = model(
                model.bert(ids[None, :length], None, segments[None, :length]).last_hidden_state[0]
            )
            for place in range(length):
                if wanted[place] != IGNORED:
                    nats -= float(logits[place].log_softmax(-1)[wanted[place]])
                    hits += int(logits[place].argmax()) == int(wanted[place])
                    chosen += 1
    assert len(batches) == 3 and chosen > 100
    assert found == {
        "held_out_loss": pytest.approx(nats / chosen, rel=1e-4),
        "masked_accuracy": hits / chosen,
    }


def test_a_run_in_bf16_is_judged_in_bf16(make_stage):
    fp32, bf16 = (
        make_stage(precision=precision).quality()["held_out_loss"] for precision in ("fp32", "bf16")
    )
    assert fp32 != bf16 and bf16 == pytest.approx(fp32, rel=0.01)


def test_a_new_head_begins_as_the_layers_do():
    """With a standard deviation of .02 and no bias, as all of BERT's matrices (Devlin et al.'s code)."""
    torch.manual_seed(0)
    transform = BertForMaskedLM(
        BertModel(BertConfig(vocab_size=8, hidden_size=96, num_attention_heads=2))
    ).transform
    assert (
        transform.weight.std().item() == pytest.approx(0.02, rel=0.05) and not transform.bias.any()
    )


def test_it_binds_the_encoder_to_no_pooling_but_one_that_was_learned_before(
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
    torch.manual_seed(5)
    whole = BertForMaskedLM(BertModel.from_pretrained(tiny_model))
    whole.save_pretrained(tmp_path / "whole")
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "whole")
    with_head, without = make_stage(tmp_path / "whole"), make_stage()
    assert torch.equal(with_head.job.model.transform.weight, whole.transform.weight)
    assert not torch.equal(without.job.model.transform.weight, whole.transform.weight)
    torch.nn.init.normal_(whole.bias)
    whole.save_pretrained(tmp_path / "whole")
    assert (
        len({stage.fingerprint for stage in (with_head, without, make_stage(tmp_path / "whole"))})
        == 3
    )


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
    assert {name for name in vars(Options()) if name.startswith("mlm_")} <= changes.keys()
    found = [make_stage(**{name: value}).fingerprint for name, value in changes.items()]
    assert len({first, *found}) == len(changes) + 1


def test_what_plans_its_batches_is_part_of_its_code(make_stage, monkeypatch):
    places = []
    monkeypatch.setattr(
        "minbert.pretraining.stage.code_of", lambda *given: str(places.extend(given))
    )
    make_stage()
    assert {f"{place.parent.name}/{place.name}" for place in places if place.suffix} == {
        "minbert/pretraining/stage.py",
        "multitask/sampling.py",
        "multitask/stage.py",
    }
    assert all(place.exists() for place in places) and "data" in {place.name for place in places}


def test_a_pooler_that_nothing_trained_is_not_left_in_the_encoder_s_folder(make_stage, model_copy):
    """Random weights would pass for trained ones, once they lie in a file."""
    path = model_copy / "model.safetensors"
    save_file(
        {name: tensor for name, tensor in load_file(path).items() if not name.startswith("pooler")},
        path,
    )
    stage = make_stage(model_copy)
    stage.train(is_resumed=False)
    with pytest.raises(ValueError, match="holds no weights for it"):
        open_embedder(stage.folder, "pooler")
    stage.reuse(stage.folder)  # which lacks it as well
    encoder = BertModel.from_pretrained(model_copy)
    encoder.save_pretrained(stage.folder, pooling="pooler")  # by who has trained it
    assert torch.equal(BertModel.from_pretrained(stage.folder).pooler.weight, encoder.pooler.weight)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_it_trains_on_one_split_and_is_judged_by_the_other(make_stage, split):
    """And its fingerprint knows both."""
    limit = {f"{split}_rows": "sst=4,para=4,sts=4"}
    whole, cut = make_stage(), make_stage(**limit)
    assert whole.fingerprint != cut.fingerprint
    assert (whole.quality() != cut.quality()) == (split == "dev")


@pytest.mark.parametrize("is_asked", [True, False])
def test_whole_words_are_masked_where_asked(make_stage, monkeypatch, is_asked):
    asked = []
    monkeypatch.setattr(
        Masking,
        "of",
        lambda tokenizer, whole_word, clean=Masking.of: (
            asked.append(whole_word),
            clean(tokenizer, whole_word),
        )[1],
    )
    make_stage(mlm_whole_word=is_asked)
    assert asked == [is_asked]
