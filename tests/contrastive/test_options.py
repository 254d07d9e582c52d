"""Every value of every option of a contrastive stage makes another run; what files have to look like.

Two steps are compared, or where an option decides which batches come when, the plan, or the evaluations.
"""

from dataclasses import asdict, replace
from itertools import combinations

import pytest
import torch

from command_line.checks import needed_stages
from command_line.options import Options
from contrastive.presets import METHODS, settings_of
from minbert.commands.options import all_fields
from minbert.schedule import SCHEDULES
from minbert.training.loop import fit
from multitask.stage import read_tables
from tests.multitask.test_stage import after_two_steps, differ
from tests.toy_stages import write_triplets

YES_NO = ["yes", "no"]
GROUPS = {  # option -> its method, the values to tell apart, what goes with all of them
    "labelled_negatives": ("simcse-supervised", YES_NO, {}),
    "unsupervised_too": (
        "simcse-supervised",
        ["sst,sts", "none"],  # the second step, at the rate of the first
        {"contrastive_batch_size": 16, "contrastive_schedule": "constant"},
    ),
    "hard_negative_weight": ("simcse-nli", [0.0, -5.0, 5.0], {}),
    "mnr_similarity": ("mnr", ["cos", "dot"], {"contrastive_temperature": 0.5}),
    "bsc_symmetric": ("bsc", YES_NO, {}),
    "bsc_labelled_negatives": ("bsc", YES_NO, {}),
    "bsc_normalise": ("bsc", ["l2", "batch", "none"], {"contrastive_temperature": 1.0}),
    "bsc_align": ("bsc", ["none", 0.1, 0.9], {}),
    "bsc_temperature_lr": ("bsc", ["none", 1e-3, 1e-2], {"contrastive_warmup": 0.0}),
    "ct_corpus": ("ct", ["none", "random-words", "FILE"], {}),
    "ct_negatives": ("ct", ["paper", "code"], {}),
    "sg_loss": ("sg", ["nt-xent", "opt1", "opt2"], {}),
    "sg_states": ("sg-opt", ["max", "mean"], {}),
    "sg_regulariser": ("sg-opt", [0.0, 0.1, 10.0], {}),
    "contrastive_projection": ("simcse", ["none", "tanh", "mlp"], {}),
    "contrastive_optimizer": ("simcse", ["adamw", "rmsprop"], {}),
    "contrastive_schedule": ("simcse", ["linear", "cosine", "constant"], {"contrastive_epochs": 2}),
    "contrastive_warmup": ("simcse", [0.0, 0.5], {}),
    "contrastive_lr": ("simcse", ["auto", 1e-3], {}),
    "contrastive_temperature": ("simcse", ["auto", 0.1], {}),
    "contrastive_max_length": ("simcse", ["auto", 5], {}),
    "contrastive_batch_size": ("simcse", ["auto", 8], {"contrastive_epochs": 2}),
    "contrastive_chunk": (
        "simcse",
        ["auto", 3, 5],
        {},
    ),  # dropout's masks are drawn in another order
}
ELSEWHERE = {"nli", "bsc_shuffle"}  # the tests below


READERS = [
    (name, method)
    for name, (first, *_) in GROUPS.items()
    for method in dict.fromkeys([first, *needed_stages(name, Options.of().contrastive)])
]


@pytest.mark.parametrize(("name", "method"), READERS)
def test_every_value_is_another_run(make_stages, name, method, tmp_path):
    """With each method that an option is for."""
    _, values, context = GROUPS[name]
    found, fingerprints = {}, set()
    lines = [
        f"the {one} is {other}\n"
        for one in ("doctor", "girl", "hotel", "letter", "soldier")
        for other in ("tall", "short", "in the hotel", "a letter")
    ]
    (tmp_path / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    for value in values:
        given = str(tmp_path / "corpus.txt") if value == "FILE" else value
        (stage,) = make_stages(method, **{**context, name: given})
        stage.encoder.layers[0].feed_forward.up.bias.data.add_(
            0.01
        )  # away from F, so that its distance counts
        found[value] = after_two_steps(stage.job)
        fingerprints.add(stage.fingerprint)
    alike = [
        pair for pair in combinations(values, 2) if not differ(*(found[value] for value in pair))
    ]
    assert not alike, f"--{name}: no difference between {alike}"
    assert len(fingerprints) == len(values), (
        f"--{name}: an encoder made with one value would be used for another"
    )


def test_values_are_not_each_others(make_stages):
    """What two runs that differ do not tell: which of them has what its option says."""

    def job(method: str, **values):
        return make_stages(method, **values)[0].job

    def rows(method: str, **values) -> int:
        plan = job(method, **values).plan(0, torch.Generator())
        return len({(part, row) for step in plan for part, rows in step for row in rows})

    assert [job("bsc", bsc_symmetric=value).model.symmetric for value in YES_NO] == [True, False]
    assert [job("bsc", bsc_align=value).model.align for value in ("none", 0.5)] == [None, 0.5]
    assert [
        "scale" in dict(job("bsc", bsc_temperature_lr=value).model.named_parameters())
        for value in ("none", 1e-3)
    ] == [False, True]
    assert [
        all(
            len(set(rows[start : start + 8])) == 1
            for ((_, rows),) in job("ct", ct_negatives=value).plan(0, torch.Generator())
            for start in range(0, len(rows) // 2, 8)
        )
        for value in ("paper", "code")
    ] == [True, False]
    for method, name in (
        ("bsc", "bsc_labelled_negatives"),
        ("simcse-supervised", "labelled_negatives"),
    ):
        labelled, positives = (rows(method, **{name: value}) for value in YES_NO)
        assert labelled > positives, name


def test_all_options_of_methods_are_tried():
    tried = {name for name in GROUPS if not name.startswith("contrastive_")} | ELSEWHERE
    assert {name for entry in METHODS.values() for name in entry.own_options} == tried
    choices = {item.name: set(item.metadata["choices"]) for item in all_fields(Options)}
    left_out = {
        "contrastive_schedule": {"auto", "tension"},
        "contrastive_projection": {"auto"},
        "contrastive_optimizer": {"auto"},
    }
    for name, (_, values, _) in GROUPS.items():
        assert choices[name] - set(values) in (set(), left_out.get(name, set()))


def test_triplets_are_those_of_the_file(make_stages, sample_data, tmp_path):
    tables = read_tables(Options.of(data_dir=str(sample_data)).with_files().data)
    stages = [
        make_stages("simcse-nli", nli=write_triplets(tmp_path / f"{task}.tsv", tables, task))[0]
        for task in ("sst", "sts")
    ]
    assert differ(*(after_two_steps(stage.job) for stage in stages))
    assert len({stage.fingerprint for stage in stages}) == 2
    steps = [step for (step,) in stages[0].job.plan(0, torch.Generator())]
    assert sorted(row for _, rows in steps for row in rows) == list(range(16))
    assert {task for task, _ in steps} == {"simcse-nli"}


@pytest.mark.parametrize("chain", ["simcse-nli,simcse-supervised", "simcse-supervised,simcse-nli"])
def test_both_kinds_of_supervised_simcse_in_a_chain(make_stages, chain):
    """As the two papers train them, each with its own settings; rates at 32 units are 24 times those at 768."""
    built = make_stages(chain, contrastive_lr="auto", contrastive_batch_size="auto")
    stages = {stage.job.name: stage for stage in built}
    assert ",".join(stages) == chain
    found = {
        name: [
            stage.settings[key]
            for key in ("epochs", "batch_size", "lr", "temperature", "projection")
        ]
        for name, stage in stages.items()
    }
    assert found == {
        "simcse-supervised": [5, 16, pytest.approx(2e-5 * 24), 0.05, "mlp"],
        "simcse-nli": [3, 512, pytest.approx(5e-5 * 24), 0.05, "tanh"],
    }
    assert all(stage.settings["max_length"] == 32 for stage in stages.values())


def test_shuffles_begin_with_the_second_epoch(make_stages):
    plans, cells = {}, {}
    for kind in ("random", "any-length", "knn", "cluster"):
        (stage,) = make_stages("bsc", bsc_shuffle=kind, contrastive_epochs=3)
        job = stage.job
        counted = sum(1 for _ in job.all_steps())
        plans[kind] = []
        for epoch in range(3):
            job.before_epoch(epoch)
            plans[kind].append(job.plan(epoch, torch.Generator().manual_seed(epoch)))
        assert sum(map(len, plans[kind])) == counted, "as many steps as were counted before"
        rows = [sorted(row for ((_, batch),) in plan for row in batch) for plan in plans[kind]]
        assert rows == [list(range(32))] * 3
        cells[kind] = sum(job.load(*part[:2]).input_ids.numel() for (part,) in plans[kind][0])
    assert plans["random"][0] == plans["knn"][0] == plans["cluster"][0] != plans["any-length"][0]
    assert all(
        plans[one][epoch] != plans[other][epoch]
        for epoch in (1, 2)
        for one, other in combinations(plans, 2)
    )
    assert cells["random"] < cells["any-length"]  # batches of similar length have less padding


@pytest.mark.parametrize(
    ("method", "values"),
    {
        "simcse": {
            "epochs": 1,
            "batch_size": 64,
            "lr": 3e-5,
            "temperature": 0.05,
            "max_length": 32,
            "projection": "tanh",
        },
        "simcse-supervised": {
            "epochs": 5,
            "batch_size": 16,
            "lr": 2e-5,
            "temperature": 0.05,
            "projection": "mlp",
        },
        "simcse-nli": {
            "epochs": 3,
            "batch_size": 512,
            "lr": 5e-5,
            "temperature": 0.05,
            "projection": "tanh",
        },
        "mnr": {
            "epochs": 1,
            "batch_size": 64,
            "lr": 2e-5,
            "temperature": 0.05,
            "projection": "none",
        },
        "bsc": {
            "epochs": 5,
            "batch_size": 30,
            "lr": 2e-5,
            "temperature": 0.07,
            "projection": "none",
        },
        "ct": {
            "epochs": 1,
            "batch_size": 16,
            "lr": 1e-5,
            "optimizer": "rmsprop",
            "schedule": "tension",
            "warmup": 0.0,
        },
        "ct-in-batch": {
            "batch_size": 16,
            "lr": 1e-5,
            "temperature": 0.05,
            "optimizer": "rmsprop",
            "schedule": "tension",
        },
        "sg": {
            "epochs": 1,
            "batch_size": 16,
            "lr": 5e-5,
            "temperature": 0.01,
            "betas": (0.9, 0.9),
            "evaluate_every": 50,
            "patience": 10,
            "projection": "guided",
        },
        "sg-opt": {
            "epochs": 1,
            "batch_size": 16,
            "lr": 5e-5,
            "temperature": 0.01,
            "betas": (0.9, 0.9),
            "evaluate_every": 50,
            "patience": 10,
            "projection": "guided",
        },
    }.items(),
)
def test_presets_are_those_of_the_papers(method, values):
    assert values.items() <= asdict(METHODS[method].preset).items()
    options = Options.of().contrastive.self_guided
    assert options.sg_regulariser == 0.1 and options.sg_states == "max"


def test_ranking_by_dot_products_has_no_temperature_but_a_given_one():
    chosen = [
        {},
        {"mnr_similarity": "dot"},
        {"mnr_similarity": "dot", "contrastive_temperature": 0.5},
    ]
    found = [
        settings_of("mnr", Options.of(pretrain="mnr", **each).contrastive, 768, "cpu").temperature
        for each in chosen
    ]
    assert found == [0.05, 1.0, 0.5]


@pytest.mark.parametrize("method", ["bsc", "ct-in-batch"])
def test_a_scale_that_learned_its_way_to_zero_is_named(make_stages, method):
    (stage,) = make_stages(method, **({"bsc_temperature_lr": 1e-3} if method == "bsc" else {}))
    task, rows = stage.job.plan(0, torch.Generator().manual_seed(0))[0][0]
    for scale in (0.0, -0.5):
        stage.job.model.scale.data.fill_(scale)
        with pytest.raises(
            ValueError, match=f"has come to {scale:g}; it must be above 0. Use a fixed one"
        ):
            stage.job.loss(task, stage.job.load(task, rows))


def test_the_schedule_of_contrastive_tension(make_stages):
    """It parts from a constant rate after 500 steps, which no test takes."""
    jobs = {
        value: make_stages("ct", contrastive_schedule=value)[0].job
        for value in ("auto", "tension", "constant")
    }
    assert {value: SCHEDULES[job.schedule](500, 4000) for value, job in jobs.items()} == {
        "auto": pytest.approx(0.8),
        "tension": pytest.approx(0.8),
        "constant": 1.0,
    }


def test_evaluations_patience_and_epochs(make_stages):
    def steps(**changes) -> list[int]:
        (stage,) = make_stages("simcse", **changes)
        scores = iter(range(1000, 0, -1))
        job = replace(
            stage.job, evaluate=lambda: {"spearman": float(next(scores))}
        )  # never better than the first
        return [entry["step"] for entry in fit(job).history]

    every = steps(contrastive_evaluate_every=1)
    assert every == list(range(1, len(every) + 1)) and len(steps()) == 4
    assert (
        len(steps(contrastive_evaluate_every=len(every) - 1)) == 2
    )  # what is left over has its evaluation too
    assert steps(contrastive_evaluate_every=1, contrastive_patience=2) == [1, 2, 3]
    assert len(steps(contrastive_epochs=2)) == 8


def test_one_sentence_alone_in_the_last_batch(make_stages):
    """A batch of one has no negatives: its loss is 0 or that of a positive, and finite."""
    for method in METHODS:
        (stage,) = make_stages(method)
        task = stage.job.plan(0, torch.Generator().manual_seed(0))[0][0][0]
        rows = [0, 0] if method == "ct" else [0]
        loss = stage.job.loss(task, stage.job.load(task, rows))
        loss.backward()
        assert torch.isfinite(loss), method
        assert all(
            p.grad is None or torch.isfinite(p.grad).all() for p in stage.job.model.parameters()
        ), method


def test_messages_of_files(make_stages, tmp_path):
    with pytest.raises(ValueError, match="nowhere.tsv: No such file"):
        make_stages("simcse-nli", nli=str(tmp_path / "nowhere.tsv"))
    with pytest.raises(ValueError, match="nowhere.txt: No such file"):
        make_stages("ct", ct_corpus=str(tmp_path / "nowhere.txt"))
