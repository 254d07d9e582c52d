"""contrastive/stage.py and methods.py: the stage from sentences to an encoder's folder, and its reuse."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line.options import Options
from contrastive.losses import info_nce
from contrastive.methods import MethodSetup, SimCSE
from contrastive.sentences import unique_sentences
from contrastive.stage import Place, StageText, build_stage
from contrastive.zero_shot import sts_quality
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import check_pooling, pool
from minbert.training.loop import fit
from minbert.training.stage import STAGE_FILE, Stage, encoder_fingerprint
from multitask.stage import read_tables


def training_examples(tables):
    return [example for splits in tables.values() for example in splits["train"].examples][40:90]


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options.of(
        pretrain="simcse",
        model=str(tiny_model),
        data_dir=str(sample_data),
        precision="fp32",
        device="cpu",
        contrastive_batch_size=8,
        contrastive_lr=1e-3,
        lr=1e-3,
        max_length=48,
    ).with_files()


@pytest.fixture(scope="module")
def tables(options):
    return read_tables(options.data)


@pytest.fixture
def make_stage(options, tables, tokenizer, tiny_model, tmp_path):
    """A function that builds the stage of a run, on few sentences; changes replace options."""

    def make(
        name: str = "run",
        encoder: BertModel | None = None,
        train=None,
        dev=None,
        words=tokenizer,
        **changes,
    ) -> Stage:
        train = training_examples(tables) if train is None else train
        encoder = encoder or BertModel.from_pretrained(tiny_model)
        changed = options.with_values(**changes)
        run = tmp_path / name
        return build_stage(
            "simcse",
            changed.contrastive,
            changed.training,
            changed.encoder.pooling,
            encoder,
            words,
            StageText(
                {"sst": train}, dev or tables["sts"]["dev"].examples, changed.data.max_length
            ),
            Place(
                encoder_fingerprint(encoder, words), run / "encoder", run / "checkpoint" / "simcse"
            ),
        )

    return make


def bits(encoder: BertModel) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in encoder.state_dict().items()}


def test_sentences_count_once(tokenizer):
    examples = [
        Example("1", "a doctor is helping", "the girl", 1.0),
        Example("2", "The GIRL", None, 0.0),
        Example("3", "a   doctor is helping", "a doctor is", 2.0),
    ]
    found = unique_sentences(examples, tokenizer, 32)
    assert [example.sentence_1 for example in found] == [
        "a doctor is helping",
        "the girl",
        "a doctor is",
    ]
    assert [example.id for example in found] == ["sentence-0", "sentence-1", "sentence-2"]
    assert all(example.sentence_2 is None and example.label is None for example in found)
    cut = unique_sentences(
        examples, tokenizer, 5
    )  # [CLS] a doctor is [SEP]: what differs is cut off
    assert [example.sentence_1 for example in cut] == ["a doctor is helping", "the girl"]


def test_simcse_is_its_formula(tiny_model, tokenizer):
    """Two dropout masks from one pass of 2B rows, projected by linear and tanh, then info_nce."""
    encoder = BertModel.from_pretrained(tiny_model)
    method = SimCSE(MethodSetup(encoder, "mean", 0.05, "tanh")).train()
    texts = ["a doctor is helping the girl", "a tall soldier", "the hotel"]
    rows = EncodedExamples(
        [Example(str(n), text, None, None) for n, text in enumerate(texts)], tokenizer, 32
    )
    batch = rows.batch([0, 1, 2])
    torch.manual_seed(0)
    found = method(batch)
    torch.manual_seed(0)
    twice = batch.input_ids.repeat(2, 1), batch.attention_mask.repeat(2, 1)
    vectors = pool(encoder(*twice), twice[1], "mean")
    first, second = torch.tanh(
        vectors @ method.projection[0].weight.T + method.projection[0].bias
    ).split(3)
    torch.testing.assert_close(found, info_nce(first, second, 0.05), rtol=1e-5, atol=1e-6)  # fp32
    assert not torch.equal(first, second)  # dropout differs between the views
    encoder.eval()
    vectors = pool(encoder(*twice), twice[1], "mean")
    torch.testing.assert_close(
        vectors[:3], vectors[3:], rtol=0, atol=1e-6
    )  # without dropout the views agree


def test_every_parameter_learns_but_the_pooler(make_stage):
    stage = make_stage()
    task, rows = stage.job.plan(0, torch.Generator().manual_seed(0))[0][0]
    stage.job.loss(task, stage.job.load(task, rows)).backward()
    without = {
        name
        for name, p in stage.job.model.named_parameters()
        if p.grad is None or not p.grad.abs().sum()
    }
    assert without == {"encoder.pooler.weight", "encoder.pooler.bias"}


def test_what_is_read_and_what_cannot_judge_it_are_said_before_training(make_stage, tables):
    stage = make_stage(contrastive_max_length=6)
    (note,) = stage.notes
    num_cut = int((stage.job.load("simcse", range(10)).attention_mask.sum(dim=1) == 6).sum())
    assert note.startswith("simcse: ") and note.endswith(" rows cut to 6 tokens") and num_cut > 0
    assert int(note.split(" sentences, ")[1].split()[0]) >= num_cut
    low = [
        replace(example, label=min(example.label, 3.0)) for example in tables["sts"]["dev"].examples
    ]
    with pytest.raises(
        ValueError,
        match="expected are different labels, some above 4. Add such pairs, raise --dev_rows",
    ):
        make_stage(dev=low)


def test_what_a_method_reads_is_counted_as_pairs_where_it_reads_pairs(
    options, tables, tokenizer, tiny_model, tmp_path
):
    train = {task: tables[task]["train"].examples for task in ("para", "sts")}
    stage = build_stage(
        "mnr",
        options.contrastive,
        options.training,
        "mean",
        BertModel.from_pretrained(tiny_model),
        tokenizer,
        StageText(train, tables["sts"]["dev"].examples, options.data.max_length),
        Place("start", tmp_path / "encoder", tmp_path / "checkpoint"),
    )
    num_pairs = sum(len(batch) for [(_, batch)] in stage.job.plan(0, torch.Generator()))
    assert stage.notes[0].startswith(f"mnr: {num_pairs} pairs, ")


def test_it_is_judged_by_pairs_of_the_run_s_own_length(make_stage):
    lengths = ((48, 32), (48, 6), (6, 32))  # --max_length and --contrastive_max_length
    found = [
        make_stage(max_length=run, contrastive_max_length=own).quality() for run, own in lengths
    ]
    assert found[0] == found[1] != found[2]


def test_an_epoch_sees_every_sentence_once(make_stage, tables, tokenizer):
    train = training_examples(tables)
    stage = make_stage(train=train)
    steps = stage.job.plan(0, torch.Generator().manual_seed(1))
    seen = sorted(row for ((_, rows),) in steps for row in rows)
    assert seen == list(range(len(unique_sentences(train, tokenizer, 32))))


CHANGES = {
    "contrastive_lr": 2e-3,
    "contrastive_temperature": 0.1,
    "contrastive_epochs": 2,
    "contrastive_batch_size": 16,
    "contrastive_max_length": 16,
    "contrastive_projection": "mlp",
    "contrastive_optimizer": "rmsprop",
    "contrastive_schedule": "constant",
    "contrastive_warmup": 0.3,
    "contrastive_evaluate_every": 5,
    "contrastive_patience": 2,
    "contrastive_chunk": 3,
    "pooling": "cls",
    "precision": "bf16",
    "max_length": 40,
    "weight_decay": 0.5,
    "max_grad_norm": 0.5,
    "seed": 1,
    "hand_on": "trained",
}


def test_the_fingerprint(make_stage, tables, tiny_model, tokenizer):
    first = make_stage().fingerprint
    assert make_stage("another folder").fingerprint == first
    same = {
        "schedule": "cosine",
        "warmup": 0.5,
        "save_every": 7,
        "epochs": 3,
        "batch_size": 5,
        "lr": 1.0,
        "sampling": "joint",
        "name": "x",
        "option": "pretrain",
        "hidden_dropout_prob": 0.5,
    }
    assert (
        make_stage(**same).fingerprint == first
    )  # options of the other stage are not its business
    found = {name: make_stage(**{name: value}).fingerprint for name, value in CHANGES.items()}
    assert [name for name, fingerprint in found.items() if fingerprint == first] == []
    train, dev = training_examples(tables), list(tables["sts"]["dev"].examples)
    shorter, other_label = train[:-1], [replace(dev[0], label=4.75), *dev[1:]]
    encoder = BertModel.from_pretrained(tiny_model)
    encoder.layers[1].feed_forward.up.bias.data[3] += 1e-7
    dropout = BertModel.from_pretrained(tiny_model, hidden_dropout_prob=0.2)
    swapped = dict(tokenizer.vocabulary) | {
        "a": tokenizer.vocabulary["b"],
        "b": tokenizer.vocabulary["a"],
    }
    others = [
        make_stage(train=shorter),
        make_stage(dev=other_label),
        make_stage(encoder=encoder),
        make_stage(encoder=dropout),
        make_stage(words=BertTokenizer(swapped)),
        make_stage(words=BertTokenizer(tokenizer.vocabulary, tokenize_chinese_chars=False)),
    ]
    assert len({stage.fingerprint for stage in others} | {first}) == len(others) + 1
    assert len({*found.values()}) == len(found)


def test_every_option_of_the_stage_is_in_that_table():
    names = {name for name in Options.of().flat() if name.startswith("contrastive_")}
    assert names - {"contrastive_order"} <= CHANGES.keys()


def test_the_job_is_as_the_options_say(make_stage, tables, tokenizer):
    others = {"max_grad_norm": 0.25, "seed": 5, "save_every": 7, "precision": "bf16"}
    assert {name: getattr(make_stage("other", **others).job, name) for name in others} == others
    assert make_stage().keeps_better and not make_stage(hand_on="trained").keeps_better
    assert not make_stage(contrastive_order="last").keeps_better
    stage = make_stage(pooling="cls", weight_decay=0.125)
    assert {group["weight_decay"] for group in stage.job.optimizer.param_groups} == {0.125, 0.0}
    dev = EncodedExamples(tables["sts"]["dev"].examples, tokenizer, 32, "bi")
    scores = {
        pooling: sts_quality(stage.encoder, dev, pooling, "fp32") for pooling in ("cls", "mean")
    }
    assert stage.quality() == scores["cls"] != scores["mean"]


def test_train_then_reuse(make_stage, tmp_path, tokenizer):
    stage = make_stage("first")
    before = bits(stage.encoder)
    folder = tmp_path / "first" / "encoder"
    assert stage.reusable([folder]) is None
    quality, seconds = stage.train(is_resumed=False)
    after = bits(stage.encoder)
    assert {name for name in before if before[name] == after[name]} == {
        "pooler.weight",
        "pooler.bias",
    }
    assert set(quality) == {"before", "after", "is_kept", "found", "settings"} and seconds > 0
    assert quality["after"] == stage.quality() and quality["before"] != quality["after"]
    assert not stage.job.folder.exists()
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "tokenizer_config.json",
        "sentence.json",
        STAGE_FILE,
        "projection.safetensors",
    }
    projection = load_file(folder / "projection.safetensors")  # apart: the encoder opens without it
    assert set(projection) == {"0.weight", "0.bias"}
    assert all(
        torch.equal(tensor, stage.projection.state_dict()[name])
        for name, tensor in projection.items()
    )
    assert not [name for name in load_file(folder / "model.safetensors") if "projection" in name]
    assert bits(BertModel.from_pretrained(folder)) == after
    check_pooling(folder, "mean")
    assert BertTokenizer.from_pretrained(folder).vocabulary == tokenizer.vocabulary

    other = make_stage("second")
    found = other.reusable([tmp_path / "absent", folder])
    assert found == folder and make_stage("third", seed=5).reusable([folder]) is None
    reused, seconds = other.reuse(found)
    assert reused == quality and seconds == 0.0 and bits(other.encoder) == after
    copied = tmp_path / "second" / "encoder"
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    weights = (copied / "model.safetensors").read_bytes()
    for content in (
        b"",
        weights[:100],
    ):  # without weights, such as deleted to save space, it is no encoder
        (copied / "model.safetensors").write_bytes(content)
        assert make_stage("second").reusable([copied, folder]) == folder
    (copied / "model.safetensors").write_bytes(weights)
    again = make_stage("second")  # a resumed run finds its own
    assert (
        again.reuse(again.reusable([copied]))[1]
        == json.loads((folder / STAGE_FILE).read_text())["seconds"]
    )


def test_a_copy_cut_short_does_not_count(make_stage, tmp_path, monkeypatch):
    stage = make_stage("first")
    stage.train(is_resumed=False)
    other = make_stage("second")

    def copy_and_die(source, target, **rest):
        Path(target).mkdir(parents=True)
        for path in sorted(
            Path(source).iterdir(), reverse=True
        ):  # "vocab.txt", ..., "stage.json", "sentence.json"
            if path.name in rest["ignore"](source, [path.name]):
                continue
            if path.name == "model.safetensors":
                raise KeyboardInterrupt
            (Path(target) / path.name).write_bytes(path.read_bytes())

    monkeypatch.setattr("minbert.training.stage.shutil.copytree", copy_and_die)
    with pytest.raises(KeyboardInterrupt):
        other.reuse(tmp_path / "first" / "encoder")
    assert other.reusable([tmp_path / "second" / "encoder"]) is None


def test_the_loss_falls(make_stage):
    history = fit(make_stage(contrastive_epochs=3, contrastive_lr=3e-3).job).history
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]


def test_the_table(make_stage):
    scores = {
        "before": {"spearman": 0.5, "alignment": 0.25},
        "after": {"spearman": 0.75, "alignment": 0.125},
        "found": {},
    }
    rows = [
        "zero-shot STS dev  spearman  alignment",
        "before               0.5000     0.2500",
        "after                0.7500     0.1250",
    ]
    assert make_stage().table({**scores, "is_kept": True}).splitlines() == rows
    assert make_stage().table({**scores, "is_kept": False}).splitlines() == [
        *rows,
        "its spearman is worse, so the next stage begins where this one began",
    ]
