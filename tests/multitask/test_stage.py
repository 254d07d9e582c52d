"""multitask/stage.py: options -> Job; each option of the stage has its effect, and the same seed the same run."""

import copy
from dataclasses import replace

import pytest
import torch

from command_line.options import Options
from minbert import BertModel, BertTokenizer
from minbert.training.cost_estimate import probe
from minbert.training.loop import fit
from multitask.stage import build_job, encode_tables, heads_job, read_tables
from multitask.tasks import TASKS

CPU = torch.device("cpu")
SMALL = {
    "pair_encoding": "cross",
    "batch_size": 8,
    "epochs": 1,
    "lr": 1e-3,
    "precision": "fp32",
    "max_length": 48,
    "warmup": 0.5,
}


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options(data_dir=str(sample_data), model=str(tiny_model), **SMALL).with_files()


@pytest.fixture(scope="module")
def tables(options):
    """The first 16 training rows and 12 dev rows of each task."""
    cut = {"train": 16, "dev": 12, "test": 4}
    return {
        task: {
            split: replace(table, examples=table.examples[: cut[split]])
            for split, table in splits.items()
        }
        for task, splits in read_tables(options).items()
    }


@pytest.fixture
def make_job(options, tables, tiny_model, tmp_path):
    def make(**changes):
        changed = replace(options, **changes)
        tokenizer = BertTokenizer.from_pretrained(tiny_model)
        rows = encode_tables(tables, tokenizer, changed.max_length, changed.pair_encoding)
        return build_job(
            changed, BertModel.from_pretrained(tiny_model), rows, tmp_path / "run", CPU
        )

    return make


class TwoSteps(Exception): ...


def after_two_steps(job) -> dict[str, torch.Tensor]:
    """The weights after two updates of the real loop."""
    step, count = job.optimizer.step, 0

    def counted():
        nonlocal count
        step()
        count += 1
        if count == 2:
            raise TwoSteps

    job.optimizer.step = counted
    with pytest.raises(TwoSteps):
        fit(job)
    return copy.deepcopy(job.model.state_dict())


def differ(one, other) -> bool:
    """Whether weights differ; where heads have others, or other shapes, those of the encoder, which must feel it."""
    is_alike = {name: each.shape for name, each in one.items()} == {
        name: each.shape for name, each in other.items()
    }
    return any(
        not torch.equal(one[name], other[name])
        for name in one
        if is_alike or name.startswith("encoder.")
    )


def test_tables_and_rows(options, sample_data):
    tables = read_tables(options)
    assert {
        task: {split: len(table.examples) for split, table in splits.items()}
        for task, splits in tables.items()
    } == dict.fromkeys(TASKS, {"train": 64, "dev": 24, "test": 24})
    assert all(
        example.label is None for splits in tables.values() for example in splits["test"].examples
    )
    with pytest.raises(ValueError, match="absent.csv: there is no such file"):
        read_tables(replace(options, sts_test=str(sample_data / "absent.csv")))


def test_fewer_rows_at_even_distances(options):
    whole, cut = (
        read_tables(options),
        read_tables(replace(options, train_rows="para=16", dev_rows="sst=5,sts=1000")),
    )
    assert cut["para"]["train"].examples == whole["para"]["train"].examples[::4]  # 64 / 16
    assert [example.id for example in cut["sst"]["dev"].examples] == [
        whole["sst"]["dev"].examples[index].id for index in (0, 4, 9, 14, 19)
    ]  # 24 i / 5
    assert cut["sts"]["dev"] == whole["sts"]["dev"] and cut["sst"]["test"] == whole["sst"]["test"]
    assert cut["para"]["train"].summary.endswith("64 rows read, 0 dropped, 48 left out as asked")


def test_the_two_samplings(make_job, tables):
    generator = torch.Generator().manual_seed(0)
    joint = make_job(sampling="joint").plan(0, generator)
    assert [[task for task, _ in step] for step in joint] == [
        ["sst", "para", "sts"]
    ] * 2  # 16 rows / 8
    pooled = make_job(sampling="mt-dnn").plan(0, generator)
    assert len(pooled) == 6 and all(len(step) == 1 for step in pooled)
    for plan in (joint, pooled):
        for name in TASKS:
            rows = [row for step in plan for task, batch in step if task == name for row in batch]
            assert sorted(rows) == list(range(16))
    assert [weight for _, _, weight in make_job(sampling="joint").epoch_steps(0, generator)[0]] == [
        1 / 3
    ] * 3


def test_a_task_alone_is_judged_by_its_own_score(tables, options, tiny_model, tmp_path):
    rows = encode_tables(
        {"para": tables["para"]}, BertTokenizer.from_pretrained(tiny_model), 48, "cross"
    )
    job = build_job(
        replace(options, tasks="para"), BertModel.from_pretrained(tiny_model), rows, tmp_path, CPU
    )
    assert {task for step in job.plan(0, torch.Generator()) for task, _ in step} == {"para"}
    progress = fit(job)
    assert job.score == "para" and progress.best_score == progress.history[-1]["para"]


def test_two_tasks_are_judged_by_their_mean_and_the_third_head_stays(make_job):
    job = make_job(tasks="sts,sst", sampling="joint", epochs=2)
    before = copy.deepcopy(job.model.heads["para"].state_dict())
    history = fit(job).history
    assert job.score == "mean" and all(
        entry["mean"] == (entry["sst"] + entry["sts"]) / 2 for entry in history
    )
    assert not differ(before, job.model.heads["para"].state_dict())


def test_sequential_training_ends_a_task_before_the_next(make_job):
    job = make_job(sampling="sequential", tasks="sts,sst", epochs=2)
    seen = []
    progress = fit(replace(job, load=lambda task, rows: seen.append(task) or job.load(task, rows)))
    assert seen == ["sts"] * 4 + ["sst"] * 4  # 16 rows / 8 = 2 batches, 2 epochs
    assert progress.num_steps == 8 and len(progress.history) == 4


def test_the_joint_limit(make_job, tables, options, tiny_model, tmp_path):
    shorter = {
        **tables,
        "sst": {
            **tables["sst"],
            "train": replace(tables["sst"]["train"], examples=tables["sst"]["train"].examples[:8]),
        },
    }
    rows = encode_tables(shorter, BertTokenizer.from_pretrained(tiny_model), 48, "cross")
    lengths = {}
    for limit in ("largest", "smallest"):
        changed = replace(options, sampling="joint", joint_limit=limit)
        job = build_job(changed, BertModel.from_pretrained(tiny_model), rows, tmp_path, CPU)
        lengths[limit] = len(job.plan(0, torch.Generator().manual_seed(0)))
    assert lengths == {"largest": 2, "smallest": 1}


@pytest.mark.parametrize("sampling", ["joint", "mt-dnn", "annealed"])
def test_the_seed_fixes_the_run(make_job, sampling):
    first = after_two_steps(make_job(sampling=sampling))
    torch.rand(3)
    assert not differ(first, after_two_steps(make_job(sampling=sampling)))
    assert differ(first, after_two_steps(make_job(sampling=sampling, seed=1)))


def test_sampling_weights_change_the_plan(make_job):
    def count(**changes):
        plan = make_job(**changes).plan(0, torch.Generator().manual_seed(0))
        return [task for step in plan for task, _ in step].count("para")

    assert count() == 2 and count(sampling_weights="para=2") == 4  # 16 rows / 8


CHANGES = {
    "surgery": "pcgrad",
    "tasks": "sst,para",
    "pair_encoding": "bi",
    "pooling": "cls",
    "sampling": "mt-dnn",
    "schedule": "cosine",
    "warmup": 0.5,
    "weight_decay": 0.5,
    "max_grad_norm": 0.01,
    "accumulation": 2,
    "hidden_dropout_prob": 0.6,
    "vector_dropout_prob": 0.6,
    "lr": 2e-3,
    "batch_size": 4,
    "max_length": 8,
    "option": "pretrain",
    "epochs": 2,
    "seed": 1,
    "precision": "bf16",
    "head": "vm",
    "para_head": "vm",
    "common_layer": "none",
    "layer_decay": 0.5,
    "freeze": "1",
}


@pytest.fixture(scope="module")
def reference():
    return {}


@pytest.mark.parametrize("name", CHANGES)
def test_each_option_changes_the_weights(make_job, reference, name):
    """After two steps of an epoch of eight, without warm-up, so that the schedules have parted by then."""
    base = {"sampling": "joint", "batch_size": 2, "warmup": 0.0}
    if not reference:
        reference.update(after_two_steps(make_job(**base)))
        assert not differ(
            reference, after_two_steps(make_job(**base))
        )  # the negative control: nothing changed
    assert differ(reference, after_two_steps(make_job(**{**base, name: CHANGES[name]})))


def test_weights_gradients_and_moments_stay_in_float32(make_job):
    job = make_job(precision="bf16", sampling="joint")
    after_two_steps(job)
    kept = [
        *job.model.parameters(),
        *(
            moment
            for state in job.optimizer.state.values()
            for moment in (state["first_moment"], state["second_moment"])
        ),
    ]
    assert len(kept) > 90 and {tensor.dtype for tensor in kept} == {torch.float32}


@pytest.mark.parametrize("name", ["save_every", "contrastive_epochs", "name", "drop_bad_rows"])
def test_options_of_other_rooms_change_nothing(make_job, name):
    values = {"save_every": 1, "contrastive_epochs": 3, "name": "other", "drop_bad_rows": True}
    extra = {"pretrain": "simcse"} if name.startswith("contrastive") else {}
    assert not differ(
        after_two_steps(make_job()), after_two_steps(make_job(**{name: values[name]}, **extra))
    )


def test_a_frozen_encoder_keeps_its_bits(make_job):
    job = make_job(option="pretrain", epochs=2, lr=1e-2, weight_decay=0.5)
    before = copy.deepcopy(job.model.state_dict())
    fit(job)
    moved = {
        name
        for name, tensor in job.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert moved == {name for name in before if not name.startswith("encoder.")}


@pytest.mark.parametrize(
    ("freeze", "parts"),
    [("embeddings", ("embeddings",)), ("0", ("embeddings",)), ("1", ("embeddings", "layers.0"))],
)
def test_frozen_parts_keep_their_bits_and_others_move(make_job, freeze, parts):
    job = make_job(freeze=freeze, epochs=1, lr=1e-2, weight_decay=0.5)
    before = copy.deepcopy(job.model.encoder.state_dict())
    fit(job)
    still = {
        name
        for name, tensor in job.model.encoder.state_dict().items()
        if torch.equal(tensor, before[name])
    }
    frozen = {name for name in before if name.startswith(parts)}
    assert frozen <= still and not any(
        name.startswith("layers.1") and name.endswith("weight") for name in still
    )
    with pytest.raises(ValueError, match="--freeze is 3; this encoder has 2 layers"):
        make_job(freeze="3")


def test_heads_first(make_job, options):
    chosen = {"heads_first": 2, "lr": 2e-3, "sampling": "joint", "surgery": "gradvac"}
    job = make_job(**chosen)
    first = heads_job(job, replace(options, **chosen))
    assert first.surgery is not job.surgery and first.closing_tokens == 0 < job.closing_tokens
    before = copy.deepcopy(job.model.state_dict())
    progress = fit(first)
    assert {group["initial_lr"] for group in first.optimizer.param_groups} == {1e-3}
    assert len(progress.history) == 2 and first.folder != job.folder and first.model is job.model
    moved = {
        name
        for name, tensor in job.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert moved == {name for name in before if not name.startswith("encoder.")}
    assert all(parameter.requires_grad for parameter in job.model.parameters())
    fit(job)
    assert not torch.equal(
        job.model.encoder.layers[0].feed_forward.up.weight,
        before["encoder.layers.0.feed_forward.up.weight"],
    )


def test_heads_first_are_sampled_as_the_first_epoch(make_job, options):
    """However many there are: an annealing that went on beyond its epochs would draw by negative powers."""
    job = replace(make_job(), plan=lambda epoch, generator: [epoch])
    first = heads_job(job, replace(options, heads_first=5))
    assert [first.plan(epoch, None) for epoch in range(5)] == [[0]] * 5 and job.plan(4, None) == [4]


def test_surgery_on_a_frozen_encoder_needs_a_shared_layer(make_job):
    values = {"sampling": "joint", "surgery": "pcgrad", "freeze": "2"}
    with pytest.raises(ValueError, match="or that the tasks of --surgery share; freeze fewer"):
        make_job(**values, common_layer="none")
    assert make_job(**values).surgery


def test_both_rows_of_a_pair_count_for_max_tokens(make_job):
    job = make_job(pair_encoding="bi", max_tokens=60)
    batches = [batch for step in job.plan(0, torch.Generator().manual_seed(0)) for batch in step]
    assert all(
        len(rows) == 1 or job.load(task, rows).input_ids.numel() <= 60 for task, rows in batches
    )


def test_the_price_counts_the_dev_rows_of_trained_tasks_and_the_files_of_all(make_job):
    alone, together = make_job(tasks="sst"), make_job()
    assert 0 < alone.evaluation_tokens < together.evaluation_tokens
    assert alone.closing_tokens == together.closing_tokens > together.evaluation_tokens


def test_the_best_epoch_is_by_the_given_score(make_job):
    job = make_job(epochs=3, score="sts")
    progress = fit(job)
    assert progress.best_step == max(progress.history, key=lambda entry: entry["sts"])["step"]


def test_finetuning_moves_all_but_the_pooler(make_job):
    job = make_job(sampling="joint", lr=1e-2)
    before = copy.deepcopy(job.model.state_dict())
    after = after_two_steps(job)
    still = {name for name, tensor in after.items() if torch.equal(tensor, before[name])}
    # mean pooling never reads the pooler; a bias of the keys adds the same to every score, which softmax ignores
    assert still <= {
        "encoder.pooler.weight",
        "encoder.pooler.bias",
        *(f"encoder.layers.{number}.attention.key.bias" for number in range(2)),
    }
    assert "encoder.pooler.weight" in still


def test_biases_and_norms_do_not_decay(make_job):
    job = make_job(weight_decay=0.3)
    groups = {group["weight_decay"]: group["params"] for group in job.optimizer.param_groups}
    assert {p.ndim for p in groups[0.3]} == {2} and {p.ndim for p in groups[0.0]} == {1}
    assert sum(map(len, groups.values())) == len(list(job.model.parameters()))


def test_the_best_epoch_is_by_the_overall_score(make_job):
    job = make_job(epochs=3)
    progress = fit(job)
    assert job.score == "overall_2023" and len(progress.history) == 3
    best = max(progress.history, key=lambda entry: entry["overall_2023"])
    assert progress.best_step == best["step"]
    scores = job.evaluate()
    assert {name: best[name] for name in scores} == scores


def test_a_price_changes_nothing(make_job):
    probed = make_job(sampling="joint")
    probe(probed)
    assert not differ(after_two_steps(probed), after_two_steps(make_job(sampling="joint")))


def test_the_loss_falls(make_job):
    job = make_job(sampling="joint", epochs=20, lr=5e-3, hidden_dropout_prob=0.0)
    history = fit(replace(job, evaluate=lambda: {"overall_2023": 0.0})).history
    assert history[-1]["loss"] < 0.6 * history[0]["loss"]
