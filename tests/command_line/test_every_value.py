"""Every value of every option of the multitask stage makes another run.

Two training steps on rows of the sample are compared. For options that decide which batches come
when, the whole plan is compared, since it may begin alike. For options that decide when a run ends
and which weights it keeps, whole runs are compared.

Names and own options of samplers and surgeries come from their registries. The values to try stand
in tests/method_values.py.

The tables have 24, 16 and 8 training rows, so that samplers which look at sizes differ. Options of
contrastive stages have tests/contrastive/test_options.py. Options of the run as a whole, such as
its folder, files and device, have tests/system/test_run_multitask.py.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import pytest

from command_line.options import Options
from contrastive.registry import METHODS
from data.examples import BUILT_IN_FILES
from minbert import BertModel
from minbert.commands.registry import Registry
from minbert.options import FP32_ONEDNN
from minbert.training.job import Job
from minbert.training.loop import fit
from multitask.head_registry import HEADS
from multitask.regulariser_registry import REGULARISERS
from multitask.rows import read_tables
from multitask.sampler_registry import SAMPLERS
from multitask.surgery_registry import SURGERIES
from tests.method_values import fixture_of, own_options, tried_with
from tests.toy_multitask import after_two_steps, differ, encoded, resolved, task_job
from tests.toy_options import FIELDS, REGISTRIES

BASE = {
    "pair_encoding": "cross",
    "batch_size": 2,
    "lr": 1e-3,
    "precision": "fp32",
    "max_length": 48,
    "warmup": 0.0,
    "epochs": 2,
    "train_rows": "sst=24,para=16,sts=8",
    "dev_rows": "sst=4,para=4,sts=4",
    "sampling": "joint",
}
DUAL = {"pair_encoding": "dual", "head": "vm"}
BI_MLP = {"pair_encoding": "bi", "head": "mlp"}

# Options that decide which batches come when.
OF_THE_PLAN = {
    "sampling",
    *own_options(SAMPLERS),
    "tasks",
    "max_tokens",
    "epochs",
}
# Options that decide when a run ends and which of its weights are kept.
OF_THE_END = {"score", "patience"}
# Options of an average of the weights, and one that needs more than two steps: the weights that a
# whole run keeps are compared.
OF_THE_AVERAGE = {"averaging", "ema_decay", "swa_start", "swa_every", "proximal_every"}
FOUR_STEPS = {"epochs": 1, "joint_limit": "smallest"}


class Case(NamedTuple):
    """The values of an option to tell apart, and the options that go with all of them."""

    name: str
    values: list[Any]
    context: dict[str, Any] = {}


# Without clipping, which would hide a factor of the gradient. One task is cheaper.
CONTEXTS = {
    "surgery": {"max_grad_norm": 0.0},
    "regulariser": {"tasks": "sst", "train_rows": "sst=6", "dev_rows": "sst=4"},
}


def heads_that_read(encoding: str) -> list[str]:
    """The heads that can read a pair encoding."""
    return [name for name, entry in HEADS.items() if encoding in entry.encodings]


def heads_of_para(encoding: str) -> list[str]:
    """Those of them that --para_head may name."""
    choices = FIELDS["para_head"].metadata["choices"]
    return [name for name in heads_that_read(encoding) if name in choices]


def cases_of(chosen_by: str, methods: Registry) -> list[Case]:
    """The cases of a registry: its names, and for each method the values of its own options."""
    context = CONTEXTS.get(chosen_by, {})
    return [Case(chosen_by, list(methods), context), *own_cases_of(chosen_by, methods)]


def own_cases_of(chosen_by: str, methods: Registry) -> list[Case]:
    """The cases of the methods' own options."""
    context = CONTEXTS.get(chosen_by, {})
    cases = []
    for name in methods:
        fixture = fixture_of(methods, name)
        for option, values in fixture.values.items():
            of_method = {**tried_with(fixture, option), chosen_by: name}
            cases.append(Case(option, list(values), context | of_method))
    return cases


CASES = [
    *cases_of("sampling", SAMPLERS),
    *cases_of("surgery", SURGERIES),
    *cases_of("regulariser", REGULARISERS),
    *own_cases_of("head", HEADS),
    Case("tasks", ["sst,para,sts", "sts,para,sst", "sst,sts", "para"]),
    Case("head", heads_that_read("dual"), DUAL),
    Case("head", heads_that_read("bi"), {"pair_encoding": "bi", "tasks": "sst,sts"}),
    Case("head", heads_that_read("cross"), {"tasks": "sst,sts"}),
    Case("para_head", heads_of_para("dual"), {**DUAL, "head": "ph"}),
    Case("para_head", heads_of_para("bi"), {"pair_encoding": "bi", "head": "cosine"}),
    Case("sharing", ["none", "heads", "first"], BI_MLP),
    Case("para_prior", ["none", 0.2, 0.6]),
    Case("sts_range", ["zero", "fitted"], BI_MLP),
    Case("class_weights", ["none", "balanced"]),
    Case("common_layer", ["tanh", "none"]),
    Case("pair_encoding", ["cross", "bi", "dual"], {"head": "vm", "pooling": "cls"}),
    Case("pooling", ["mean", "cls", "pooler"]),
    Case("schedule", ["linear", "cosine", "constant"]),
    Case("averaging", ["none", "ema", "swa"], FOUR_STEPS),
    Case("ema_decay", [0.05, 0.15], {**FOUR_STEPS, "averaging": "ema"}),
    Case("swa_start", [0.0, 0.7, 1.0], {**FOUR_STEPS, "averaging": "swa"}),
    Case("swa_every", [1, 3, 4], {**FOUR_STEPS, "averaging": "swa", "swa_start": 0.0}),
    Case("layer_decay", [1.0, 0.9, 0.5]),
    Case("freeze", ["none", "embeddings", "1", "2"]),
    Case("max_grad_norm", [0.0, 0.01, 0.1]),
    Case("accumulation", [1, 2, 3]),
    Case("weight_decay", [0.0, 0.5]),
    Case("max_tokens", [0, 48, 60], {"batch_size": 8}),
    Case("option", ["finetune", "pretrain"]),
    Case("score", ["sst", "para", "sts", "overall_2023", "overall_2024"], {"sampling": "mt-dnn"}),
    Case("score", ["sst", "sts", "mean"], {"sampling": "mt-dnn", "tasks": "sst,sts"}),
    # With this learning rate the score never moves.
    Case("patience", [0, 1, 2], {"epochs": 5, "lr": 1e-9}),
    Case("epochs", [1, 2, 3]),
    Case("lr", [1e-3, 2e-3]),
    Case("warmup", [0.0, 0.5]),
    Case("batch_size", [1, 2, 4]),
    Case("max_length", [8, 48]),
    Case("seed", [0, 1]),
    Case("precision", ["fp32", "bf16"]),
    Case("hidden_dropout_prob", [0.0, 0.3, 0.6]),
    Case("vector_dropout_prob", [0.0, 0.3, 0.6]),
    Case("encoder_dropout", ["auto", 0.0, 0.5]),
    Case("attention_dropout", ["auto", 0.0, 0.5]),
]
OF_THE_RUN = {
    "least_steps",
    "few_pairs",
    "plugin",
    "overwrite",
    "recipe",
    "pretrain",
    "model",
    "data_dir",
    "task",
    "untrained_tasks",
    "drop_bad_rows",
    "train_rows",
    "dev_rows",
    "token_cache",
    "name",
    "output_dir",
    "device",
    "use_gpu",
    "formulas",
    "attention",
    "compile",
    "save_every",
    "tensorboard",
    "score_train",
    "skip",
    "heads_first",
    "soup",
    "soup_kind",
    "single_task_epochs",
    "single_task_lr",
    "hand_on",
}
ENDINGS = ("train", "dev", "test", "dev_out", "test_out")


def is_tested_elsewhere(name: str) -> bool:
    """Whether an option belongs to the run as a whole, or to a stage of --pretrain."""
    files = {f"{task}_{ending}" for task in BUILT_IN_FILES for ending in ENDINGS}
    of_methods = [name in entry.own_options for entry in METHODS.values()]
    is_of_a_stage = any(of_methods) or name.startswith(("contrastive_", "mlm_"))
    return name in OF_THE_RUN or name in files or is_of_a_stage


@pytest.fixture
def make_job(sample_data, tiny_model, tmp_path):
    """A function that makes the multitask stage from changes to BASE."""

    def make(**changes) -> Job:
        values = {"data_dir": str(sample_data), "model": str(tiny_model), **BASE, **changes}
        options = Options.of(**values).with_files()
        encoder = BertModel.from_pretrained(tiny_model, **options.encoder.dropout_overrides())
        options = resolved(options, encoder.config.hidden_size)
        rows = encoded(options, read_tables(options.data))
        folder = tmp_path / "-".join(map(str, changes.values()))
        return task_job(options, rows, folder, encoder)

    return make


def result_of(job: Job, name: str) -> Any:
    """What option `name` must change: the plan, the end of the run, or the trained weights."""
    if name in OF_THE_PLAN:
        return list(job.all_steps())
    if name in OF_THE_END:
        progress = fit(job)
        return len(progress.history), progress.best_score
    if name in OF_THE_AVERAGE:
        fit(job)
        return job.model.state_dict()
    weights = after_two_steps(job)
    if name == "sts_range":
        # That M is there is no difference yet. The trained weights have to differ.
        weights.pop("heads.pairs.cosine.lowest", None)
    return weights


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_value_is_another_run(case, make_job):
    results = {}
    for value in case.values:
        changes = {**case.context, case.name: value}
        if case.name in REGISTRIES:
            changes |= fixture_of(REGISTRIES[case.name], value).options
        results[value] = result_of(make_job(**changes), case.name)

    alike = []
    for one, other in combinations(case.values, 2):
        if isinstance(results[one], dict):
            is_alike = not differ(results[one], results[other])
        else:
            is_alike = results[one] == results[other]
        if is_alike:
            alike.append((one, other))
    assert not alike, f"--{case.name}: no difference between {alike}"


def test_a_common_layer_is_there_where_it_is_asked_for(make_job):
    """Two values that differ could be each other's."""
    assert make_job(common_layer="tanh").model.shared is not None
    assert make_job(common_layer="none").model.shared is None


@pytest.mark.parametrize("name", FIELDS)
def test_every_choice_is_tried(name):
    """Each option of the multitask stage stands in CASES, with each of its choices but "auto"."""
    tried = set()
    for case in CASES:
        if case.name == name:
            tried |= set(case.values)
    assert bool(tried) != is_tested_elsewhere(name)
    # oneDNN gives what "fp32" does, see tests/minbert/test_linear.py.
    choices = set(FIELDS[name].metadata["choices"]) - {"auto", FP32_ONEDNN}
    assert is_tested_elsewhere(name) or choices <= tried
