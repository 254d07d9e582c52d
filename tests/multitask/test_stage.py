"""multitask/stage.py: the job of the tasks.

Each option matters, frozen parts stay, and a seed fixes the run. All jobs are tiny and run in the
real loop. If two runs of a seed differ, something draws from the global generator.
"""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from command_line.options import Options
from data.examples import Table
from minbert import BertTokenizer
from minbert.training.cost_estimate import probe
from minbert.training.loop import fit
from multitask.heads_first import heads_job
from multitask.rows import encode_tables, read_tables, warnings_of_unknown
from multitask.tasks import TASKS
from tests.toy_multitask import after_two_steps, differ, encoded, task_job

SMALL = {
    "pair_encoding": "cross",
    "batch_size": 8,
    "epochs": 1,
    "lr": 1e-3,
    "precision": "fp32",
    "max_length": 48,
    "warmup": 0.5,
}
NUM_ROWS = {"train": 16, "dev": 12, "test": 4}


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return Options.of(data_dir=str(sample_data), model=str(tiny_model), **SMALL).with_files()


def first_rows(table: Table, num_rows: int) -> Table:
    return replace(table, examples=table.examples[:num_rows])


@pytest.fixture(scope="module")
def tables(options):
    """The first 16 training rows and 12 dev rows of each task."""
    shortened = {}
    for task, splits in read_tables(options.data).items():
        shortened[task] = {
            split: first_rows(table, NUM_ROWS[split]) for split, table in splits.items()
        }
    return shortened


@pytest.fixture
def make_job(options, tables, tmp_path):
    """A function that builds the job with some options changed."""

    def make(**changes):
        changed = options.with_values(**changes)
        return task_job(changed, encoded(changed, tables), tmp_path / "run")

    return make


def names_of_steps(plan) -> list[list[str]]:
    """The names of the tasks in each step."""
    return [[task for task, _ in step] for step in plan]


def batches_in(plan) -> list[tuple[str, list[int]]]:
    """All batches of a plan with their tasks."""
    batches = []
    for step in plan:
        batches += step
    return batches


def moved(before, after) -> set[str]:
    """The names of the tensors that are no longer the same."""
    return {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}


def outside_encoder(state) -> set[str]:
    return {name for name in state if not name.startswith("encoder.")}


# --- the data -----------------------------------------------------------------------------------


def test_tables_and_rows(options, sample_data):
    tables = read_tables(options.data)
    assert list(tables) == list(TASKS)
    for splits in tables.values():
        counts = {split: len(table.examples) for split, table in splits.items()}
        assert counts == {"train": 64, "dev": 24, "test": 24}
        assert all(example.label is None for example in splits["test"].examples)

    absent = options.with_values(sts_test=str(sample_data / "absent.csv"))
    with pytest.raises(ValueError, match="absent.csv: there is no such file"):
        read_tables(absent.data)


def test_fewer_rows_at_even_distances(options):
    whole = read_tables(options.data)
    cut = read_tables(
        options.with_values(train_rows="para=16", dev_rows="sst=5,sts=1000").data,
    )
    assert cut["para"]["train"].examples == whole["para"]["train"].examples[::4]  # 64 / 16

    # Row i of 5 is row 24 i / 5 of the file.
    whole_ids = [example.id for example in whole["sst"]["dev"].examples]
    cut_ids = [example.id for example in cut["sst"]["dev"].examples]
    assert cut_ids == [whole_ids[index] for index in (0, 4, 9, 14, 19)]

    assert cut["sts"]["dev"] == whole["sts"]["dev"]
    assert cut["sst"]["test"] == whole["sst"]["test"]
    assert cut["para"]["train"].summary.endswith("64 rows read, 0 dropped, 48 left out as asked")


# --- which batches make a step ------------------------------------------------------------------


def test_the_two_samplings(make_job, tables):
    generator = torch.Generator().manual_seed(0)
    joint = make_job(sampling="joint").plan(0, generator)
    assert names_of_steps(joint) == [["sst", "para", "sts"]] * 2  # 16 rows / 8
    pooled = make_job(sampling="mt-dnn").plan(0, generator)
    assert len(pooled) == 6
    assert all(len(step) == 1 for step in pooled)

    for plan in (joint, pooled):
        for name in TASKS:
            rows = []
            for task, batch in batches_in(plan):
                rows += batch if task == name else []
            assert sorted(rows) == list(range(16))

    weights = [part[2] for part in make_job(sampling="joint").epoch_steps(0, generator)[0]]
    assert weights == [1 / 3] * 3


def test_a_task_alone_is_judged_by_its_own_score(tables, options, tmp_path):
    changed = options.with_values(tasks="para")
    job = task_job(changed, encoded(changed, {"para": tables["para"]}), tmp_path)
    plan = job.plan(0, torch.Generator())
    assert {task for task, _ in batches_in(plan)} == {"para"}
    progress = fit(job)
    assert job.score == "para"
    assert progress.best_score == progress.history[-1]["para"]


def test_two_tasks_are_judged_by_their_mean_and_the_third_head_stays(make_job):
    job = make_job(tasks="sts,sst", sampling="joint", epochs=2)
    before = copy.deepcopy(job.model.heads["para"].state_dict())
    history = fit(job).history
    assert job.score == "mean"
    assert all(entry["mean"] == (entry["sst"] + entry["sts"]) / 2 for entry in history)
    assert not differ(before, job.model.heads["para"].state_dict())


def test_sequential_training_ends_a_task_before_the_next(make_job):
    job = make_job(sampling="sequential", tasks="sts,sst", epochs=2)
    seen = []

    def load(task, rows):
        seen.append(task)
        return job.load(task, rows)

    progress = fit(replace(job, load=load))
    assert seen == ["sts"] * 4 + ["sst"] * 4  # 16 rows / 8 = 2 batches, 2 epochs
    assert progress.num_steps == 8
    assert len(progress.history) == 4


def test_the_joint_limit(tables, options, tmp_path):
    short = {**tables["sst"], "train": first_rows(tables["sst"]["train"], 8)}
    shorter = {**tables, "sst": short}
    lengths = {}
    for limit in ("largest", "smallest"):
        changed = options.with_values(sampling="joint", joint_limit=limit)
        job = task_job(changed, encoded(changed, shorter), tmp_path)
        lengths[limit] = len(job.plan(0, torch.Generator().manual_seed(0)))
    assert lengths == {"largest": 2, "smallest": 1}


def test_sampling_weights_change_the_plan(make_job):
    def count(**changes):
        plan = make_job(**changes).plan(0, torch.Generator().manual_seed(0))
        return [task for task, _ in batches_in(plan)].count("para")

    assert count() == 2  # 16 rows / 8
    assert count(sampling_weights="para=2") == 4


def test_both_rows_of_a_pair_count_for_max_tokens(make_job):
    job = make_job(pair_encoding="bi", max_tokens=60)
    plan = job.plan(0, torch.Generator().manual_seed(0))
    for task, rows in batches_in(plan):
        assert len(rows) == 1 or job.load(task, rows).input_ids.numel() <= 60


# --- what an option changes ---------------------------------------------------------------------

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
    """After two steps of an epoch of eight, without warm-up: the schedules have parted by then."""
    base = {"sampling": "joint", "batch_size": 2, "warmup": 0.0}
    if not reference:
        reference.update(after_two_steps(make_job(**base)))
        # The negative control: where nothing was changed, nothing differs.
        assert not differ(reference, after_two_steps(make_job(**base)))
    assert differ(reference, after_two_steps(make_job(**{**base, name: CHANGES[name]})))


@pytest.mark.parametrize("name", ["save_every", "contrastive_epochs", "name", "drop_bad_rows"])
def test_options_of_other_packages_change_nothing(make_job, name):
    values = {"save_every": 1, "contrastive_epochs": 3, "name": "other", "drop_bad_rows": True}
    extra = {"pretrain": "simcse"} if name.startswith("contrastive") else {}
    expected = after_two_steps(make_job())
    assert not differ(expected, after_two_steps(make_job(**{name: values[name]}, **extra)))


@pytest.mark.parametrize("sampling", ["joint", "mt-dnn", "annealed"])
def test_the_seed_fixes_the_run(make_job, sampling):
    first = after_two_steps(make_job(sampling=sampling))
    torch.rand(3)
    assert not differ(first, after_two_steps(make_job(sampling=sampling)))
    assert differ(first, after_two_steps(make_job(sampling=sampling, seed=1)))


def test_weights_gradients_and_moments_stay_in_float32(make_job):
    job = make_job(precision="bf16", sampling="joint")
    after_two_steps(job)
    kept = list(job.model.parameters())
    for state in job.optimizer.state.values():
        kept += [state["first_moment"], state["second_moment"]]
    assert len(kept) > 90
    assert {tensor.dtype for tensor in kept} == {torch.float32}


# --- what is frozen -----------------------------------------------------------------------------


def test_a_frozen_encoder_keeps_its_bits(make_job):
    job = make_job(option="pretrain", epochs=2, lr=1e-2, weight_decay=0.5)
    before = copy.deepcopy(job.model.state_dict())
    fit(job)
    assert moved(before, job.model.state_dict()) == outside_encoder(before)


@pytest.mark.parametrize(
    ("freeze", "parts"),
    [("embeddings", ("embeddings",)), ("0", ("embeddings",)), ("1", ("embeddings", "layers.0"))],
)
def test_frozen_parts_keep_their_bits_and_others_move(make_job, freeze, parts):
    job = make_job(freeze=freeze, epochs=1, lr=1e-2, weight_decay=0.5)
    before = copy.deepcopy(job.model.encoder.state_dict())
    fit(job)
    still = set(before) - moved(before, job.model.encoder.state_dict())
    assert {name for name in before if name.startswith(parts)} <= still
    still_in_top_layer = [name for name in still if name.startswith("layers.1")]
    assert not [name for name in still_in_top_layer if name.endswith("weight")]
    with pytest.raises(ValueError, match="--freeze is 3; this encoder has 2 layers"):
        make_job(freeze="3")


def test_heads_first(make_job, options):
    chosen = {"heads_first": 2, "lr": 2e-3, "sampling": "joint", "surgery": "gradvac"}
    changed = options.with_values(**chosen)
    job = make_job(**chosen)
    first = heads_job(job, changed.multitask, changed.training)
    assert first.surgery is not job.surgery
    assert first.closing_tokens == 0 < job.closing_tokens

    before = copy.deepcopy(job.model.state_dict())
    progress = fit(first)
    assert {group["initial_lr"] for group in first.optimizer.param_groups} == {1e-3}
    assert len(progress.history) == 2
    assert first.folder != job.folder
    assert first.model is job.model
    assert moved(before, job.model.state_dict()) == outside_encoder(before)
    assert all(parameter.requires_grad for parameter in job.model.parameters())

    fit(job)
    name = "encoder.layers.0.feed_forward.up.weight"
    assert not torch.equal(job.model.state_dict()[name], before[name])


def test_heads_first_are_sampled_as_the_first_epoch(make_job, options):
    """However many there are. Annealing beyond its epochs would use negative powers."""
    job = replace(make_job(), plan=lambda epoch, generator: [epoch])
    changed = options.with_values(heads_first=5)
    first = heads_job(job, changed.multitask, changed.training)
    assert [first.plan(epoch, None) for epoch in range(5)] == [[0]] * 5
    assert job.plan(4, None) == [4]


def test_surgery_on_a_frozen_encoder_needs_a_shared_layer(make_job):
    values = {"sampling": "joint", "surgery": "pcgrad", "freeze": "2"}
    with pytest.raises(ValueError, match="for --surgery pcgrad, whose tasks share no other"):
        make_job(**values, common_layer="none")
    assert make_job(**values).surgery


def test_finetuning_moves_all_but_the_pooler(make_job):
    job = make_job(sampling="joint", lr=1e-2)
    before = copy.deepcopy(job.model.state_dict())
    after = after_two_steps(job)
    still = set(before) - moved(before, after)
    # Mean pooling never reads the pooler. A bias of the keys adds the same to every score of a
    # row, and softmax ignores that.
    pooler = {"encoder.pooler.weight", "encoder.pooler.bias"}
    key_biases = {f"encoder.layers.{number}.attention.key.bias" for number in range(2)}
    assert still <= pooler | key_biases
    assert "encoder.pooler.weight" in still


def test_biases_and_norms_do_not_decay(make_job):
    job = make_job(weight_decay=0.3)
    groups = {group["weight_decay"]: group["params"] for group in job.optimizer.param_groups}
    assert {parameter.ndim for parameter in groups[0.3]} == {2}
    assert {parameter.ndim for parameter in groups[0.0]} == {1}
    assert sum(map(len, groups.values())) == len(list(job.model.parameters()))


# --- evaluation and cost ------------------------------------------------------------------------


def test_the_cost_counts_the_dev_rows_of_trained_tasks_and_the_files_of_all(make_job):
    alone = make_job(tasks="sst")
    together = make_job()
    assert 0 < alone.evaluation_tokens < together.evaluation_tokens
    assert alone.closing_tokens == together.closing_tokens > together.evaluation_tokens


def test_the_best_epoch_is_by_the_given_score(make_job):
    job = make_job(epochs=3, score="sts")
    progress = fit(job)
    assert progress.best_step == max(progress.history, key=lambda entry: entry["sts"])["step"]


def test_the_best_epoch_is_by_the_overall_score(make_job):
    job = make_job(epochs=3)
    progress = fit(job)
    assert job.score == "overall_2023"
    assert len(progress.history) == 3
    best = max(progress.history, key=lambda entry: entry["overall_2023"])
    assert progress.best_step == best["step"]
    scores = job.evaluate()
    assert {name: best[name] for name in scores} == scores


def test_a_cost_estimate_changes_nothing(make_job):
    probed = make_job(sampling="joint")
    probe(probed)
    assert not differ(after_two_steps(probed), after_two_steps(make_job(sampling="joint")))


def test_the_loss_falls(make_job):
    job = make_job(sampling="joint", epochs=20, lr=5e-3, hidden_dropout_prob=0.0)
    history = fit(replace(job, evaluate=lambda: {"overall_2023": 0.0})).history
    assert history[-1]["loss"] < 0.6 * history[0]["loss"]


def test_files_that_the_model_does_not_know_are_named_once_each(options, tables, tiny_model):
    """The test rows of SST and the training pairs of STS are in Russian."""
    russian = "человек играет на гитаре"
    changed = {task: dict(splits) for task, splits in tables.items()}
    for task, split in (("sst", "test"), ("sts", "train")):
        table = changed[task][split]
        rows = []
        for example in table.examples:
            second = None if example.sentence_2 is None else russian
            rows.append(replace(example, sentence_1=russian, sentence_2=second))
        changed[task][split] = replace(table, examples=tuple(rows))
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    rows = encode_tables(changed, tokenizer, 48, "cross")
    first, second = warnings_of_unknown(rows, options.data)
    assert first.startswith(f"warning: {options.data.file_of('sst', 'test')}: 67% of all tokens")
    assert second.startswith(f"warning: {options.data.file_of('sts', 'train')}: 73% of all tokens")
    assert repr(russian) in first and repr(f"{russian} | {russian}") in second
    assert not warnings_of_unknown(encode_tables(tables, tokenizer, 48, "cross"), options.data)


def test_rows_without_a_file_of_their_own_are_named_by_their_task(tables, tiny_model):
    """The dev rows of a user's task may come from its training file."""
    table = tables["sst"]["dev"]
    rows = tuple(replace(example, sentence_1="человек играет") for example in table.examples)
    russian = {"sst": {"dev": replace(table, examples=rows)}}
    encoded_rows = encode_tables(russian, BertTokenizer.from_pretrained(tiny_model), 48, "cross")
    data = SimpleNamespace(file_of=lambda task, split: "")
    (warning,) = warnings_of_unknown(encoded_rows, data)
    assert warning.startswith("warning: the dev rows of sst: 50% of all tokens are [UNK]")
