"""Every value of every option of a contrastive stage makes another run; files must have their form.

Two training steps are compared. For options that decide which batches come when, or when a stage is
evaluated, the plan or the evaluations are compared.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from command_line.checks import needed_stages
from command_line.options import Options
from contrastive.methods import states_of
from contrastive.registry import METHODS
from minbert.schedule import SCHEDULES
from minbert.training.job import Job
from minbert.training.loop import fit
from multitask.rows import read_tables
from tests.contrastive.method_cases import batch_of
from tests.method_values import fixture_of, tried_with
from tests.toy_multitask import after_two_steps, differ
from tests.toy_options import FIELDS
from tests.toy_stages import write_triplets

YES_NO = ["yes", "no"]


class Case(NamedTuple):
    """A method that reads an option, the values to tell apart, and what goes with all of them."""

    method: str
    values: list[Any]
    context: dict[str, Any] = {}


def own_cases() -> dict[tuple[str, str], Case]:
    """The cases of the methods' own options, by option and method, from the fixtures."""
    cases = {}
    for method in METHODS:
        fixture = fixture_of(METHODS, method)
        for option, values in fixture.values.items():
            context = tried_with(fixture, option)
            cases[option, method] = Case(method, list(values), context)
    return cases


OWN_CASES = own_cases()
# Options of the presets.
CASES = {
    "contrastive_projection": Case("simcse", ["none", "tanh", "mlp"]),
    "contrastive_optimizer": Case("simcse", ["adamw", "rmsprop"]),
    "contrastive_schedule": Case(
        "simcse", ["linear", "cosine", "constant"], {"contrastive_epochs": 2}
    ),
    "contrastive_warmup": Case("simcse", [0.0, 0.5]),
    "contrastive_lr": Case("simcse", ["auto", 1e-3]),
    "contrastive_temperature": Case("simcse", ["auto", 0.123]),
    "contrastive_max_length": Case("simcse", ["auto", 5]),
    "contrastive_batch_size": Case("simcse", ["auto", 8], {"contrastive_epochs": 2}),
    # The dropout masks of chunks are drawn in another order.
    "contrastive_chunk": Case("simcse", ["auto", 3, 5]),
    "contrastive_sentences": Case("simcse", ["auto", 20]),
    "contrastive_text_order": Case("simcse", ["shuffled", "sts,sst"]),
    "contrastive_text_shares": Case("simcse", ["none", "sts=0.25"]),
    "contrastive_batches": Case("simcse", ["similar", "random"]),
}
# The tests below, test_batch_order.py and test_train.py.
ELSEWHERE = {"nli", "bsc_shuffle", "ct_copy", "bsc_group_size", "bsc_neighbours"}

# Choices that CASES leaves out: the default's meaning, and a schedule that differs after 500 steps.
LEFT_OUT = {
    "contrastive_schedule": {"auto", "tension"},
    "contrastive_projection": {"auto"},
    "contrastive_optimizer": {"auto"},
    "contrastive_batches": {"auto"},
}


def all_cases() -> dict[tuple[str, str], Case]:
    """Each option with each method that reads it."""
    cases = dict(OWN_CASES)
    for name, case in CASES.items():
        for method in [case.method, *needed_stages(name, Options().contrastive)]:
            cases[name, method] = case
    return cases


ALL_CASES = all_cases()


def write_corpus(path: Path) -> str:
    """A text file of 20 sentences."""
    lines = []
    for noun in ("doctor", "girl", "hotel", "letter", "soldier"):
        for ending in ("tall", "short", "in the hotel", "a letter"):
            lines.append(f"the {noun} is {ending}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("name", "method"), ALL_CASES)
def test_every_value_is_another_run(make_stages, name, method, tmp_path):
    """With each method that an option is for."""
    case = ALL_CASES[name, method]
    corpus = write_corpus(tmp_path / "corpus.txt")
    weights = {}
    fingerprints = set()
    for value in case.values:
        values = {**case.context, name: corpus if value == "FILE" else value}
        (stage,) = make_stages(method, **values)
        # Away from the copy F of sg, so that the distance from it counts.
        stage.encoder.layers[0].feed_forward.up.bias.data.add_(0.01)
        weights[value] = after_two_steps(stage.job)
        fingerprints.add(stage.fingerprint)

    alike = []
    for one, other in combinations(case.values, 2):
        if not differ(weights[one], weights[other]):
            alike.append((one, other))
    assert not alike, f"--{name}: no difference between {alike}"
    assert len(fingerprints) == len(case.values), (
        f"--{name}: an encoder made with one value would be used for another"
    )


def test_all_options_are_tried():
    for method, entry in METHODS.items():
        fixture = fixture_of(METHODS, method)
        tried = set(fixture.values)
        assert set(entry.own_options) - ELSEWHERE == tried, f"the fixture of {method}"
        assert set(fixture.beside) <= tried
    for (name, _), case in ALL_CASES.items():
        assert len(set(case.values)) > 1, name
        missing = set(FIELDS[name].metadata["choices"]) - set(case.values)
        assert missing <= LEFT_OUT.get(name, set()), name


# --- what a single value does ---------------------------------------------------------------------
# Two runs that differ do not tell which of them does what its option says.


@pytest.fixture
def make_job(make_stages):
    """A function that makes the job of one method."""

    def make(method: str, **values) -> Job:
        (stage,) = make_stages(method, **values)
        return stage.job

    return make


def test_the_loss_of_bsc_is_the_one_asked_for(make_job):
    assert make_job("bsc", bsc_symmetric="yes").model.symmetric
    assert not make_job("bsc", bsc_symmetric="no").model.symmetric
    assert make_job("bsc", bsc_align="none").model.align is None
    assert make_job("bsc", bsc_align=0.5).model.align == 0.5
    for value, is_trained in (("none", False), (1e-3, True)):
        parameters = dict(make_job("bsc", bsc_temperature_lr=value).model.named_parameters())
        assert ("scale" in parameters) == is_trained


@pytest.mark.parametrize("number", [1, 7, 15])
def test_each_positive_has_its_negatives(make_job, number):
    """A step has two positives, whatever K is."""
    job = make_job("ct", ct_num_negatives=number, contrastive_batch_size="auto")
    for ((_, rows),) in job.plan(0, torch.Generator())[:-1]:
        half = len(rows) // 2
        is_positive = [a == b for a, b in zip(rows[:half], rows[half:], strict=True)]
        assert (half, sum(is_positive)) == (2 * (1 + number), 2)


def test_states_that_the_encoder_does_not_have(make_stages):
    """Of 12 layers, upper leaves out the states 0 to 3."""
    assert states_of("upper", 12) == slice(4, 13)
    with pytest.raises(ValueError, match="the encoder has the states 0 to 2"):
        make_stages("sg", sg_layers="1-3")
    for words in ("3", "2-1", "a-b"):
        with pytest.raises(ValueError, match="--sg_layers is"):
            Options.of(pretrain="sg", sg_layers=words)


@pytest.mark.parametrize(("value", "has_anchor"), [("paper", True), ("code", False)])
def test_negative_pairs_of_contrastive_tension(make_job, value, has_anchor):
    """In the paper, the first sentence of all 8 pairs of a group is the anchor."""
    is_anchor = []
    for ((_, rows),) in make_job("ct", ct_negatives=value).plan(0, torch.Generator()):
        for start in range(0, len(rows) // 2, 8):
            is_anchor.append(len(set(rows[start : start + 8])) == 1)
    assert all(is_anchor) == has_anchor


@pytest.mark.parametrize(
    ("method", "name"),
    [("bsc", "bsc_labelled_negatives"), ("simcse-supervised", "labelled_negatives")],
)
def test_labelled_negatives_are_more_rows(make_job, method, name):
    num_rows = {}
    for value in YES_NO:
        rows = set()
        for step in make_job(method, **{name: value}).plan(0, torch.Generator()):
            for part, indices in step:
                rows |= {(part, index) for index in indices}
        num_rows[value] = len(rows)
    assert num_rows["yes"] > num_rows["no"]


def test_triplets_are_those_of_the_file(make_stages, sample_data, tmp_path):
    tables = read_tables(Options.of(data_dir=str(sample_data)).with_files().data)
    stages = []
    for task in ("sst", "sts"):
        path = write_triplets(tmp_path / f"{task}.tsv", tables, task)
        stages += make_stages("simcse-nli", nli=path)
    one, other = [after_two_steps(stage.job) for stage in stages]
    assert differ(one, other)
    assert stages[0].fingerprint != stages[1].fingerprint

    rows = []
    for ((task, indices),) in stages[0].job.plan(0, torch.Generator()):
        assert task == "simcse-nli"
        rows += indices
    assert sorted(rows) == list(range(16))


@pytest.mark.parametrize("chain", ["simcse-nli,simcse-supervised", "simcse-supervised,simcse-nli"])
def test_both_kinds_of_supervised_simcse_in_a_chain(make_stages, chain):
    """Each has the settings of its own paper. The learning rate is 24 times that of 768 units."""
    expected = {
        "simcse-supervised": [5, 16, pytest.approx(2e-5 * 24), 0.05, "mlp"],
        "simcse-nli": [3, 512, pytest.approx(5e-5 * 24), 0.05, "tanh"],
    }
    names = []
    for stage in make_stages(chain, contrastive_lr="auto", contrastive_batch_size="auto"):
        names.append(stage.job.name)
        settings = stage.settings
        keys = ("epochs", "batch_size", "lr", "temperature", "projection")
        assert [settings[key] for key in keys] == expected[stage.job.name]
        assert settings["max_length"] == 32
    assert ",".join(names) == chain


def test_shuffles_begin_with_the_second_epoch(make_job):
    plans = {}
    num_tokens = {}
    for kind in ("random", "any-length", "knn", "cluster"):
        job = make_job("bsc", bsc_shuffle=kind, contrastive_epochs=3)
        num_steps = sum(1 for _ in job.all_steps())
        plans[kind] = []
        for epoch in range(3):
            job.before_epoch(epoch)
            plan = job.plan(epoch, torch.Generator().manual_seed(epoch))
            rows = []
            for ((_, batch),) in plan:
                rows += batch
            assert sorted(rows) == list(range(32)), "each row comes once in an epoch"
            plans[kind].append(plan)
        assert sum(map(len, plans[kind])) == num_steps, "as many steps as were counted before"
        num_tokens[kind] = 0
        for ((task, batch),) in plans[kind][0]:
            num_tokens[kind] += job.load(task, batch).input_ids.numel()

    assert plans["random"][0] == plans["knn"][0] == plans["cluster"][0] != plans["any-length"][0]
    for epoch in (1, 2):
        for one, other in combinations(plans, 2):
            assert plans[one][epoch] != plans[other][epoch]
    assert num_tokens["random"] < num_tokens["any-length"], "similar lengths need less padding"


def test_a_shuffle_that_never_begins_is_refused(make_job):
    """A step more than the first epoch, and it begins."""
    num_steps = len(make_job("bsc").plan(0, torch.Generator()))
    make_job("bsc", bsc_shuffle="knn", contrastive_epochs="auto", contrastive_steps=num_steps + 1)
    with pytest.raises(ValueError, match=f"--contrastive_steps {num_steps} ends before it"):
        make_job("bsc", bsc_shuffle="knn", contrastive_epochs="auto", contrastive_steps=num_steps)


@pytest.mark.parametrize("num_steps", [3, 7, 8, 17])
def test_a_stage_ends_after_its_steps(make_job, num_steps):
    """An epoch has more than one step here, and the last one is cut where the steps end."""
    job = make_job("simcse", contrastive_steps=num_steps)
    in_epoch = len(make_job("simcse").plan(0, torch.Generator().manual_seed(0)))
    assert in_epoch > 1
    assert sum(1 for _ in job.all_steps()) == num_steps
    assert fit(replace(job, evaluate=lambda: {"spearman": 0.0})).step == num_steps


# --- numbers of a job -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "values"), [("bsc", {"bsc_temperature_lr": 1e-3}), ("ct-in-batch", {})]
)
def test_a_scale_that_came_to_zero_in_training_is_named(make_job, method, values):
    job = make_job(method, **values)
    task, rows = job.plan(0, torch.Generator().manual_seed(0))[0][0]
    for scale in (0.0, -0.5):
        job.model.scale.data.fill_(scale)
        words = f"has come to {scale:g}; it must be above 0. Use a fixed one"
        with pytest.raises(ValueError, match=words):
            job.loss(task, job.load(task, rows))
    fixed = make_job({"bsc": "bsc", "ct-in-batch": "ct"}[method])
    assert "scale" not in dict(fixed.model.named_parameters())


@pytest.mark.parametrize(("value", "factor"), [("auto", 0.8), ("tension", 0.8), ("constant", 1.0)])
def test_the_schedule_of_contrastive_tension(make_job, value, factor):
    """It differs from a constant learning rate after 500 steps. No test trains that long."""
    job = make_job("ct", contrastive_schedule=value)
    assert SCHEDULES[job.schedule](500, 4000) == pytest.approx(factor)


def test_evaluations_patience_and_epochs(make_job):
    def evaluated_steps(**values) -> list[int]:
        # The first score is the best one.
        scores = iter(range(1000, 0, -1))
        job = make_job("simcse", **values)
        job = replace(job, evaluate=lambda: {"spearman": float(next(scores))})
        return [entry["step"] for entry in fit(job).history]

    every = evaluated_steps(contrastive_evaluate_every=1)
    assert every == list(range(1, len(every) + 1))
    assert len(evaluated_steps()) == 4
    num_evaluations = len(evaluated_steps(contrastive_evaluate_every=len(every) - 1))
    assert num_evaluations == 2, "the remaining step has its evaluation, too"
    assert evaluated_steps(contrastive_evaluate_every=1, contrastive_patience=2) == [1, 2, 3]
    assert len(evaluated_steps(contrastive_epochs=2)) == 8


@pytest.mark.parametrize(("value", "is_last"), [("auto", False), ("last", True)])
def test_which_encoder_is_the_result(make_job, value, is_last):
    """sg has a patience of its own, which would end the stage after ten falling scores."""
    scores = iter(range(1000, 0, -1))
    job = make_job("sg", contrastive_keep=value)
    assert job.patience == (0 if is_last else 10)
    job = replace(job, evaluate=lambda: {"spearman": float(next(scores))}, evaluations_per_epoch=2)
    progress = fit(job)
    assert len(progress.history) == 2
    assert progress.best_step == progress.history[-1 if is_last else 0]["step"]


@pytest.mark.parametrize("method", METHODS)
def test_one_sentence_alone_in_the_last_batch(make_job, method):
    """A batch of one has no negatives: its loss is 0 or that of a positive, and finite."""
    job = make_job(method)
    task = job.plan(0, torch.Generator().manual_seed(0))[0][0][0]
    rows = [0, 0] if batch_of(method) == "pairs of sentences" else [0]
    loss = job.loss(task, job.load(task, rows))
    loss.backward()
    assert torch.isfinite(loss)
    for parameter in job.model.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


def test_messages_of_files(make_stages, tmp_path):
    with pytest.raises(ValueError, match="nowhere.tsv: there is no such file"):
        make_stages("simcse-nli", nli=str(tmp_path / "nowhere.tsv"))
    with pytest.raises(ValueError, match="nowhere.txt: No such file"):
        make_stages("ct", ct_corpus=str(tmp_path / "nowhere.txt"))
