"""contrastive/stage.py: every method as a stage, from sentences to an encoder's folder.

It trains what it should, resumes to the same bits, and is used again where it would be the same.
"""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line.options import Options
from contrastive.registry import METHODS
from contrastive.sentences import unique_sentences
from contrastive.stage import Place, StageText, build_stage
from contrastive.zero_shot import sts_quality
from data.batching import EncodedExamples
from minbert import BertModel, BertTokenizer
from minbert.pooling import check_pooling
from minbert.training.loop import fit
from minbert.training.stage import (
    STAGE_FILE,
    Stage,
    check_quality,
    encoder_fingerprint,
    plan_chain,
    run_chain,
)
from minbert.training.starting_model import StartingModel
from multitask.rows import read_tables
from tests.contrastive.method_cases import has_projection
from tests.method_values import fixture_of
from tests.toy_job import Kill, killed_at
from tests.toy_multitask import differ
from tests.toy_stages import FAST

# What a stage of SimCSE writes into the folder of its encoder.
FILES = {
    "config.json",
    "model.safetensors",
    "vocab.txt",
    "tokenizer_config.json",
    "sentence.json",
    STAGE_FILE,
    "projection.safetensors",
    "SHA256SUMS",
}


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


def training_examples(tables) -> list:
    """Examples 40 to 89 of all tasks."""
    examples = []
    for splits in tables.values():
        examples += splits["train"].examples
    return examples[40:90]


@pytest.fixture
def make_stage(options, tables, tokenizer, tiny_model, tmp_path):
    """A function that builds SimCSE's stage of a run, on few sentences.

    changes: options with other values, by their flat names.
    """

    def make(
        name: str = "run",
        encoder: BertModel | None = None,
        train=None,
        dev=None,
        words=tokenizer,
        **changes,
    ) -> Stage:
        changed = options.with_values(**changes)
        if train is None:
            train = training_examples(tables)
        encoder = encoder or BertModel.from_pretrained(tiny_model)
        dev = dev or tables["sts"]["dev"].examples
        run = tmp_path / name
        start = encoder_fingerprint(encoder, words)
        return build_stage(
            "simcse",
            changed.contrastive,
            changed.training,
            changed.encoder.pooling,
            StartingModel(encoder, words, tiny_model, start),
            StageText({"sst": train}, dev, changed.data.max_length),
            Place(start, run / "encoder", run / "checkpoint" / "simcse"),
        )

    return make


def bits(encoder: BertModel) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in encoder.state_dict().items()}


def first_batch(stage: Stage) -> tuple[str, list[int]]:
    return stage.job.plan(0, torch.Generator().manual_seed(0))[0][0]


# --- the rows of a stage --------------------------------------------------------------------------


def test_an_epoch_sees_every_sentence_once(make_stage, tables, tokenizer):
    train = training_examples(tables)
    stage = make_stage(train=train)
    rows = []
    for ((_, batch),) in stage.job.plan(0, torch.Generator().manual_seed(1)):
        rows += batch
    assert sorted(rows) == list(range(len(unique_sentences(train, tokenizer, 32))))


def tasks_of_epoch(stage: Stage) -> list[str]:
    return [task for ((task, _),) in stage.job.plan(0, torch.Generator().manual_seed(0))]


def test_supervised_epochs_end_with_the_other_tasks(make_stages):
    """16 pairs, 16 and 32 sentences, 8 in a batch."""
    (stage,) = make_stages("simcse-supervised")
    pairs = ["simcse-supervised"] * 2
    assert tasks_of_epoch(stage) == pairs + ["sst"] * 2 + ["sts"] * 4
    (stage,) = make_stages("simcse-supervised", unsupervised_too="none")
    assert tasks_of_epoch(stage) == pairs


def steps_of_epoch(stage: Stage, epoch: int) -> list[list[int]]:
    """The rows of each step of an epoch, as a run plans it."""
    plan = stage.job.plan(epoch, torch.Generator().manual_seed(epoch))
    return [rows for ((_, rows),) in plan]


def test_an_epoch_goes_through_the_tasks_in_order(make_stages, tables, tokenizer):
    """16 sentences of STS' pairs less those that come twice, a quarter of PARA's, all of SST's."""
    texts = {name: splits["train"].examples[:16] for name, splits in tables.items()}
    ends = {}
    joined = []
    for task in ("sts", "para", "sst"):
        joined += texts[task]
        ends[task] = len(unique_sentences(joined, tokenizer, 32))
    num_para = round(0.25 * (ends["para"] - ends["sts"]))

    values = {"contrastive_text_order": "sts,para,sst", "contrastive_text_shares": "para=0.25"}
    (stage,) = make_stages("simcse", **values)
    para_of_epoch = []
    for epoch in range(3):
        joined_rows: list[int] = []
        for rows in steps_of_epoch(stage, epoch):
            assert len(rows) <= 8
            joined_rows += rows
        # Rows are numbered in the order of the tasks.
        sts = joined_rows[: ends["sts"]]
        para = joined_rows[ends["sts"] : ends["sts"] + num_para]
        sst = joined_rows[ends["sts"] + num_para :]
        assert sorted(sts) == list(range(ends["sts"]))
        assert sorted(sst) == list(range(ends["para"], ends["sst"]))
        assert len(set(para)) == num_para
        assert all(ends["sts"] <= row < ends["para"] for row in para)
        para_of_epoch.append(set(para))
    assert para_of_epoch[0] != para_of_epoch[1] != para_of_epoch[2], "they are drawn anew"

    drawn = f"{num_para} sentences of para (drawn from {ends['para'] - ends['sts']})"
    assert stage.notes[-1] == (
        f"simcse: each epoch reads {ends['sts']} sentences of sts, then {drawn}, then "
        f"{ends['sst'] - ends['para']} sentences of sst"
    )


def test_shuffled_text_keeps_its_shares(make_stages):
    (stage,) = make_stages("simcse", contrastive_text_shares="para=0.25")
    (all_of_them,) = make_stages("simcse")
    drawn = sum(map(len, steps_of_epoch(stage, 0)))
    assert drawn < sum(map(len, steps_of_epoch(all_of_them, 0)))
    assert stage.notes[-1].startswith("simcse: each epoch reads, shuffled: 16 sentences of sst, ")
    assert len(all_of_them.notes) == 1, "nothing to say where all is read, shuffled"


def test_the_number_of_cut_rows_is_said_before_training(make_stage):
    stage = make_stage(contrastive_max_length=6)
    (note,) = stage.notes
    lengths = stage.job.load("simcse", range(10)).attention_mask.sum(dim=1)
    num_full = int((lengths == 6).sum())
    assert num_full > 0
    assert note.startswith("simcse: ")
    assert note.endswith(" rows cut to 6 tokens")
    num_cut = int(note.split(" sentences, ")[1].split()[0])
    assert num_cut >= num_full


def test_rows_are_counted_as_pairs_where_they_are_pairs(
    options, tables, tokenizer, tiny_model, tmp_path
):
    train = {task: tables[task]["train"].examples for task in ("para", "sts")}
    stage = build_stage(
        "mnr",
        options.contrastive,
        options.training,
        "mean",
        StartingModel(BertModel.from_pretrained(tiny_model), tokenizer, tiny_model, "start"),
        StageText(train, tables["sts"]["dev"].examples, options.data.max_length),
        Place("start", tmp_path / "encoder", tmp_path / "checkpoint"),
    )
    num_pairs = sum(len(batch) for [(_, batch)] in stage.job.plan(0, torch.Generator()))
    assert stage.notes[0].startswith(f"mnr: {num_pairs} pairs, ")


# --- the pairs that measure a stage ---------------------------------------------------------------


def test_pairs_that_cannot_measure_a_stage_are_refused_before_training(make_stage, tables):
    low = []
    for example in tables["sts"]["dev"].examples:
        low.append(replace(example, label=min(example.label, 3.0)))
    message = "expected are different labels, some above 4. Add such pairs to their file, or"
    with pytest.raises(ValueError, match=message):
        make_stage(dev=low)
    make_stage(dev=[*low, replace(low[0], label=5.0)])


def test_similar_pairs_are_sought_only_where_there_is_a_second_epoch(make_stages):
    with pytest.raises(ValueError, match="Pass a larger number, or drop --bsc_shuffle"):
        make_stages("bsc", bsc_shuffle="knn", contrastive_steps=1)
    make_stages("bsc", bsc_shuffle="knn", contrastive_steps=100)
    make_stages("bsc", contrastive_steps=1)


def test_it_is_measured_by_pairs_of_the_runs_own_length(make_stage):
    same = make_stage(max_length=48, contrastive_max_length=32).quality()
    assert make_stage(max_length=48, contrastive_max_length=6).quality() == same
    assert make_stage(max_length=6, contrastive_max_length=32).quality() != same


# --- the job --------------------------------------------------------------------------------------


def test_the_job_is_as_the_options_say(make_stage, tables, tokenizer):
    values = {"max_grad_norm": 0.25, "seed": 5, "save_every": 7, "precision": "bf16"}
    job = make_stage("other", **values).job
    for name, value in values.items():
        assert getattr(job, name) == value
    assert make_stage().keeps_better
    assert not make_stage(hand_on="trained").keeps_better
    assert not make_stage(contrastive_order="last").keeps_better

    stage = make_stage(pooling="cls", weight_decay=0.125)
    groups = stage.job.optimizer.param_groups
    assert {group["weight_decay"] for group in groups} == {0.125, 0.0}
    dev = EncodedExamples(tables["sts"]["dev"].examples, tokenizer, 32, "bi")
    assert stage.quality() == sts_quality(stage.encoder, dev, "cls", "fp32")
    assert stage.quality() != sts_quality(stage.encoder, dev, "mean", "fp32")


def test_contrastive_tension_is_trained_as_its_paper_says(make_stages):
    """Learning rates at 32 units are 24 times those at 768."""
    (stage,) = make_stages("ct", **dict.fromkeys(FAST, "auto"))
    job = stage.job
    assert isinstance(job.optimizer, torch.optim.RMSprop)
    group = job.optimizer.param_groups[0]
    assert (group["alpha"], group["eps"], group["weight_decay"]) == (0.9, 1e-7, 0)
    assert group["lr"] == pytest.approx(2.4e-4)
    assert (job.schedule, job.warmup) == ("tension", 0.0)
    steps = job.plan(0, torch.Generator())
    assert all(len(rows) == 32 for ((_, rows),) in steps[:-1])


def test_self_guided_training_is_as_its_paper_says(make_stages):
    (stage,) = make_stages("sg-opt", **dict.fromkeys(FAST, "auto"))
    job = stage.job
    assert job.optimizer.param_groups[0]["betas"] == (0.9, 0.9)
    assert (job.patience, job.warmup) == (10, 0.1)
    num_steps = len(job.plan(0, torch.Generator()))
    assert job.evaluations_per_epoch == -(-num_steps // 50)


def test_the_scale_of_bsc_has_its_own_learning_rate(make_stages):
    (stage,) = make_stages("bsc", bsc_temperature_lr=1e-3, **dict.fromkeys(FAST, "auto"))
    assert stage.job.epochs == 5
    for group in stage.job.optimizer.param_groups:
        if any(parameter is stage.job.model.scale for parameter in group["params"]):
            assert (group["lr"], group["weight_decay"]) == (1e-3, 0.0)
            return
    pytest.fail("the optimizer does not train the scale")


# --- what is trained ------------------------------------------------------------------------------


def test_every_parameter_is_trained_but_the_pooler(make_stage):
    stage = make_stage()
    task, rows = first_batch(stage)
    stage.job.loss(task, stage.job.load(task, rows)).backward()
    without = set()
    for name, parameter in stage.job.model.named_parameters():
        if parameter.grad is None or not parameter.grad.abs().sum():
            without.add(name)
    assert without == {"encoder.pooler.weight", "encoder.pooler.bias"}


def test_the_loss_falls(make_stage):
    history = fit(make_stage(contrastive_epochs=3, contrastive_lr=3e-3).job).history
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]


def expected_outcomes(stage: Stage) -> set[str]:
    """What a stage found: the scores of several copies and widths, and a trained scale."""
    model = stage.job.model
    names = {f"Spearman of the {name} copy" for name in model.copies()}
    outcomes = names if len(names) > 1 else set()
    for width in model.widths:
        outcomes |= {f"Spearman of the first {width} units{when}" for when in (" before", "")}
    return outcomes if model.scale is None else {*outcomes, "scale that learned"}


@pytest.mark.parametrize("method", METHODS)
def test_a_stage_moves_the_encoder_and_keeps_it(make_stages, method, tmp_path):
    (stage,) = make_stages(method, pooling="cls" if method.startswith("sg") else "mean")
    is_frozen = bool(stage.job.frozen)
    start = copy.deepcopy(stage.encoder.state_dict())
    # The trained encoder is kept, even if it is worse.
    quality, seconds = replace(stage, keeps_better=False).train(is_resumed=False)
    assert seconds > 0
    assert quality["settings"]["batch_size"] == 8
    assert "alignment" in quality["after"]
    assert set(quality["found"]) == expected_outcomes(stage)
    for when, key in (("before", " before"), ("after", "")):
        for width in stage.job.model.widths[-1:]:
            of_all = quality["found"][f"Spearman of the first {width} units{key}"]
            assert of_all == quality[when]["spearman"]

    folder = tmp_path / "run" / "encoder"
    check_pooling(folder, stage.pooling)
    moved = set()
    for name, tensor in stage.encoder.state_dict().items():
        if not torch.equal(tensor, start[name]):
            moved.add(name.split(".")[0])
    assert "layers" in moved
    assert ("embeddings" in moved) == (not is_frozen)
    stored = load_file(folder / "model.safetensors")
    assert len(stored) == len(start), "no projection, second copy, scale or order is stored with it"


@pytest.mark.parametrize("method", ["sg", "sg-opt"])
def test_the_guide_stays_where_the_stage_began(make_stages, method):
    (stage,) = make_stages(method, pooling="cls")
    model = stage.job.model
    start = bits(stage.encoder)
    stage.begin()
    modes = []
    model.guides[0].register_forward_pre_hook(lambda module, inputs: modes.append(module.training))
    # The last evaluation is the best one.
    fit(replace(stage.job, evaluate=lambda: {"spearman": float(len(modes))}))
    assert modes
    assert not any(modes), "F is never in training mode"
    assert bits(model.guides[0]) == start

    # [CLS] has no pooler.
    trained = bits(stage.encoder)
    frozen = {name for name in start if trained[name] == start[name]}
    assert frozen == {name for name in start if name.startswith(("embeddings.", "pooler."))}


def test_the_better_copy_goes_on(make_stages, monkeypatch):
    (stage,) = make_stages("ct")
    model = stage.job.model
    stage.begin()
    fit(stage.job)
    copies = {name: bits(encoder) for name, encoder in model.copies().items()}
    assert copies["first"] != copies["second"], "they are independent"
    outcome = stage.close()
    best = max(("first", "second"), key=lambda name: outcome[f"Spearman of the {name} copy"])
    assert bits(stage.encoder) == copies[best]
    assert outcome[f"Spearman of the {best} copy"] == stage.quality()["spearman"]

    # Either copy may be the better one: here the score says so.
    for winner, better in {"first": model.encoder, "second": model.second}.items():
        shifted = {name: value + 1 for name, value in model.second.state_dict().items()}
        stage.encoder.load_state_dict(shifted)
        expected = bits(better)

        def quality(measured, *_, best=better) -> dict[str, float]:
            return {"spearman": float(measured is best)}

        with monkeypatch.context() as patch:
            patch.setattr("contrastive.stage.sts_quality", quality)
            stage.close()
        assert bits(stage.encoder) == expected, f"the {winner} copy is the better one"


def test_contrastive_tension_scores_both_copies(make_stages):
    (stage,) = make_stages("ct", contrastive_evaluate_every=4)
    entry = fit(stage.job).history[-1]
    assert entry["spearman"] == max(entry["spearman_first"], entry["spearman_second"])


# --- resume ---------------------------------------------------------------------------------------

# A method, other options, and the step before which the run is killed. Some are in a later epoch.
# Without a step: before one in the last third of the run.
KILLED: dict[str, tuple] = {
    name: (name, fixture_of(METHODS, name).options, None) for name in METHODS
}
KILLED["bsc trained temperature"] = (
    "bsc",
    {"contrastive_epochs": 3, "bsc_temperature_lr": 1e-3},
    7,
)
SHUFFLED = {"contrastive_epochs": 3, "contrastive_temperature": 0.1}
KILLED["bsc knn"] = ("bsc", {**SHUFFLED, "bsc_shuffle": "knn"}, 7)
IN_ORDER = {
    "contrastive_epochs": 2,
    "contrastive_text_order": "para,sst",
    "contrastive_text_shares": "para=0.3",
}
# In the second epoch, after the sentences that it drew.
KILLED["simcse in order"] = ("simcse", IN_ORDER, 6)
KILLED["bsc cluster"] = ("bsc", {**SHUFFLED, "bsc_shuffle": "cluster"}, 11)


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_stage_goes_on_to_the_same_bits(make_stages, name):
    method, changes, step = KILLED[name]
    (undisturbed,) = make_stages(method, "undisturbed", **changes)
    expected, _ = undisturbed.train(is_resumed=False)
    (stopped,) = make_stages(method, "stopped", **changes)
    step = step or math.ceil(sum(1 for _ in stopped.job.all_steps()) * 2 / 3)
    assert step > 1
    with pytest.raises(Kill):
        replace(stopped, job=killed_at(stopped.job, step)).train(is_resumed=False)
    (again,) = make_stages(method, "stopped", **changes)
    torch.manual_seed(12345)  # another process has drawn other numbers by now
    quality, _ = again.train(is_resumed=True)
    assert quality == expected
    assert bits(again.encoder) == bits(undisturbed.encoder)
    assert not differ(again.job.model.state_dict(), undisturbed.job.model.state_dict()), (
        "the second copy, the scale and the order too"
    )

    assert bool(undisturbed.projection.state_dict()) == has_projection(method)
    is_stored = (undisturbed.folder / "projection.safetensors").exists()
    assert is_stored == (has_projection(method) and expected["is_kept"])
    stored = load_file(undisturbed.folder / "model.safetensors")
    assert not [part for part in stored if "projection" in part]


@pytest.mark.parametrize("chain", ["ct,sg-opt", "bsc,ct"])
def test_a_chain_killed_in_its_second_stage(make_stages, chain):
    """Copies are taken from the result of the first stage, also where that is read from disk."""
    undisturbed = make_stages(chain, "undisturbed", contrastive_epochs=1)
    expected, _ = run_chain(plan_chain(undisturbed, []), is_resumed=False)
    first, second = make_stages(chain, "stopped", contrastive_epochs=1)
    dying = replace(second, job=killed_at(second.job, 5))
    with pytest.raises(Kill):
        run_chain([(first, None), (dying, None)], is_resumed=False)

    again = make_stages(chain, "stopped", contrastive_epochs=1)
    planned = plan_chain(again, [])
    assert [bool(folder) for _, folder in planned] == [True, False]
    qualities, _ = run_chain(planned, is_resumed=True)
    assert qualities == expected
    assert bits(again[1].encoder) == bits(undisturbed[1].encoder)


# --- a finished encoder is used again -------------------------------------------------------------


def test_a_stage_writes_its_encoder(make_stage, tmp_path, tokenizer):
    stage = make_stage("first")
    folder = tmp_path / "first" / "encoder"
    before = bits(stage.encoder)
    assert stage.reusable([folder]) is None
    quality, seconds = stage.train(is_resumed=False)
    after = bits(stage.encoder)
    unchanged = {name for name in before if before[name] == after[name]}
    assert unchanged == {"pooler.weight", "pooler.bias"}
    assert set(quality) == {"before", "after", "is_kept", "found", "settings"}
    assert seconds > 0
    assert quality["after"] == stage.quality()
    assert quality["before"] != quality["after"]
    assert not stage.job.folder.exists()
    assert {path.name for path in folder.iterdir()} == FILES

    # The projection stands apart: the encoder opens without it.
    projection = load_file(folder / "projection.safetensors")
    assert set(projection) == {"0.weight", "0.bias"}
    for name, tensor in projection.items():
        assert torch.equal(tensor, stage.projection.state_dict()[name])
    names = load_file(folder / "model.safetensors")
    assert not [name for name in names if "projection" in name]
    assert bits(BertModel.from_pretrained(folder)) == after
    check_pooling(folder, "mean")
    assert BertTokenizer.from_pretrained(folder).vocabulary == tokenizer.vocabulary


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_finished_encoder_is_used_again(make_stage, tmp_path):
    stage = make_stage("first")
    quality, _ = stage.train(is_resumed=False)
    folder = tmp_path / "first" / "encoder"

    other = make_stage("second")
    reusable = other.reusable([tmp_path / "absent", folder])
    assert reusable == folder
    assert make_stage("third", seed=5).reusable([folder]) is None
    reused, seconds = other.reuse(reusable)
    assert reused == quality
    assert seconds == 0.0
    assert bits(other.encoder) == bits(stage.encoder)
    copied = tmp_path / "second" / "encoder"
    assert contents(copied) == contents(folder)

    # Without its weights, which may be deleted to save space, a folder holds no encoder.
    path = copied / "model.safetensors"
    weights = path.read_bytes()
    for content in (b"", weights[:100]):
        path.write_bytes(content)
        assert make_stage("second").reusable([copied, folder]) == folder
    path.write_bytes(weights)

    # A resumed run finds its own encoder.
    again = make_stage("second")
    _, seconds = again.reuse(again.reusable([copied]))
    assert seconds == json.loads((folder / STAGE_FILE).read_text())["seconds"]


@pytest.mark.parametrize("change", [{"found": 5}, {"after": {}}, {"seconds": "1"}, {"is_kept": 1}])
def test_a_record_without_scores_is_named(change):
    """Its checksum may have been deleted after an edit."""
    scores = {"STS": 0.5}
    stored = {"before": scores, "after": scores, "found": {}, "settings": {}}
    stored |= {"seconds": 1.5, "is_kept": True}
    check_quality(stored)
    with pytest.raises(ValueError, match=r"stage.json (does not hold the scores|has different)"):
        check_quality(stored | change)


def test_a_copy_cut_short_does_not_count(make_stage, tmp_path, monkeypatch):
    stage = make_stage("first")
    stage.train(is_resumed=False)
    other = make_stage("second")

    def copy_and_die(source, target, **rest):
        """The files from "vocab.txt" to "sentence.json" are in reverse order here."""
        Path(target).mkdir(parents=True)
        for path in sorted(Path(source).iterdir(), reverse=True):
            if path.name in rest["ignore"](source, [path.name]):
                continue
            if path.name == "model.safetensors":
                raise KeyboardInterrupt
            (Path(target) / path.name).write_bytes(path.read_bytes())

    monkeypatch.setattr("minbert.training.stage.shutil.copytree", copy_and_die)
    with pytest.raises(KeyboardInterrupt):
        other.reuse(tmp_path / "first" / "encoder")
    assert other.reusable([tmp_path / "second" / "encoder"]) is None


# --- the fingerprint ------------------------------------------------------------------------------

# Options of a contrastive stage, with a value that is not the default.
CHANGES = {
    "contrastive_lr": 2e-3,
    "contrastive_temperature": 0.1,
    "contrastive_epochs": 2,
    "contrastive_steps": 5,
    "contrastive_batches": "random",
    "contrastive_batch_size": 16,
    "contrastive_max_length": 16,
    "contrastive_projection": "mlp",
    "contrastive_optimizer": "rmsprop",
    "contrastive_schedule": "constant",
    "contrastive_warmup": 0.3,
    "contrastive_evaluate_every": 5,
    "contrastive_patience": 2,
    "contrastive_keep": "last",
    "contrastive_chunk": 3,
    "contrastive_sentences": 20,
    "contrastive_text_order": "sst",
    "contrastive_text_shares": "sst=0.5",
    "pooling": "cls",
    "precision": "bf16",
    "max_length": 40,
    "weight_decay": 0.5,
    "max_grad_norm": 0.5,
    "seed": 1,
    "hand_on": "trained",
}
# Options of other stages, or without an effect on the result.
OTHERS = {
    "schedule": "cosine",
    "warmup": 0.5,
    "save_every": 7,
    "epochs": 2,
    "batch_size": 5,
    "lr": 1.0,
    "sampling": "joint",
    "name": "x",
    "option": "pretrain",
    "hidden_dropout_prob": 0.5,
}


def test_the_fingerprint_follows_the_options_of_the_stage(make_stage):
    first = make_stage().fingerprint
    assert make_stage("another folder").fingerprint == first
    assert make_stage(**OTHERS).fingerprint == first
    fingerprints = {first}
    for name, value in CHANGES.items():
        fingerprint = make_stage(**{name: value}).fingerprint
        assert fingerprint not in fingerprints, f"--{name} is not part of the fingerprint"
        fingerprints.add(fingerprint)


def test_every_option_of_the_stage_is_in_that_table():
    names = {name for name in Options.of().flat() if name.startswith("contrastive_")}
    assert names - {"contrastive_order"} <= CHANGES.keys()


def test_the_fingerprint_follows_encoder_tokenizer_and_text(
    make_stage, tables, tiny_model, tokenizer
):
    train = training_examples(tables)
    dev = list(tables["sts"]["dev"].examples)
    encoder = BertModel.from_pretrained(tiny_model)
    encoder.layers[1].feed_forward.up.bias.data[3] += 1e-7
    dropout = BertModel.from_pretrained(tiny_model, hidden_dropout_prob=0.2)
    swapped = dict(tokenizer.vocabulary)
    swapped["a"], swapped["b"] = swapped["b"], swapped["a"]
    stages = [
        make_stage(),
        make_stage(train=train[:-1]),
        make_stage(dev=[replace(dev[0], label=4.75), *dev[1:]]),
        make_stage(encoder=encoder),
        make_stage(encoder=dropout),
        make_stage(words=BertTokenizer(swapped)),
        make_stage(words=BertTokenizer(tokenizer.vocabulary, tokenize_chinese_chars=False)),
    ]
    assert len({stage.fingerprint for stage in stages}) == len(stages)


# --- the table ------------------------------------------------------------------------------------


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
    stage = make_stage()
    assert stage.table({**scores, "is_kept": True}).splitlines() == rows
    remark = "its spearman is worse, so the next stage begins where this one began"
    assert stage.table({**scores, "is_kept": False}).splitlines() == [*rows, remark]
