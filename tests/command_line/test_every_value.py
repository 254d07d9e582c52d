"""Every value of every option of the multitask stage makes another run: two steps on rows of the sample, compared.

What decides which batches come when may begin alike: there the whole plan is compared; what decides when a run ends and
which of its weights are kept, by whole runs. Options of other stages have test_contrastive_options.py and
test_further.py (--hand_on both of them), --heads_first and the order of stages test_contrastive_order.py, those of the
run as a whole (its folder, its files, its device) test_run_multitask.py.

The tables have 24, 16 and 8 training rows, so that samplers which look at sizes differ. test_train.py asks that an
option has an effect at all; here each of its choices has to differ from each other one.
"""

from dataclasses import fields
from itertools import combinations

import pytest
import torch

from command_line.options import Options
from contrastive.presets import OWN
from data.readers import COURSE_FILES
from minbert import BertModel, BertTokenizer
from minbert.training.loop import fit
from multitask.stage import build_job, encode_tables, read_tables
from tests.multitask.test_stage import after_two_steps, differ

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
CPU = torch.device("cpu")
PLANNED = (
    "sampling",
    "sampling_weights",
    "sampling_power",
    "joint_limit",
    "tasks",
    "max_tokens",
    "epochs",
)
JUDGED = ("score", "patience")
DUAL = {"pair_encoding": "dual", "head": "vm"}
BI_MLP = {"pair_encoding": "bi", "head": "mlp"}
GROUPS = [  # option, the values to tell apart, and what goes with all of them
    (
        "sampling",
        [
            "mt-dnn",
            "joint",
            "batch-round-robin",
            "epoch-round-robin",
            "sequential",
            "annealed",
            "power",
        ],
        {},
    ),
    ("sampling_weights", ["none", "sst=0.1", "sts=5"], {"sampling": "mt-dnn"}),
    ("sampling_power", [0.0, 1.0], {"sampling": "power"}),
    ("joint_limit", ["largest", "smallest"], {}),
    ("tasks", ["sst,para,sts", "sts,para,sst", "sst,sts", "para"], {}),
    ("head", ["ph", "dph", "dpha", "vm"], DUAL),
    ("head", ["features", "vm", "mlp", "cosine"], {"pair_encoding": "bi", "tasks": "sst,sts"}),
    ("head", ["features", "vm", "mlp", "cosine"], {"tasks": "sst,sts"}),
    ("para_head", ["ph", "dph", "dpha", "vm"], {**DUAL, "head": "ph"}),
    ("para_head", ["features", "vm"], {"pair_encoding": "bi", "head": "cosine"}),
    ("sharing", ["none", "heads", "first"], BI_MLP),
    ("para_prior", ["none", 0.2, 0.6], {}),
    ("sts_range", ["zero", "fitted"], BI_MLP),
    ("common_layer", ["tanh", "none"], {}),
    ("pair_encoding", ["cross", "bi", "dual"], {"head": "vm", "pooling": "cls"}),
    ("pooling", ["mean", "cls", "pooler"], {}),
    (
        "surgery",
        ["mean", "sum", "weighted", "pcgrad", "gradvac"],
        {"max_grad_norm": 0.0, "loss_weights": "sst=3"},
    ),
    ("surgery_reduction", ["sum", "mean"], {"surgery": "pcgrad", "max_grad_norm": 0.0}),
    ("gradvac_beta", [0.01, 0.9], {"surgery": "gradvac"}),
    ("loss_weights", ["sst=3", "sst=2", "para=2"], {"surgery": "weighted"}),
    ("schedule", ["linear", "cosine", "constant"], {}),
    ("layer_decay", [1.0, 0.9, 0.5], {}),
    ("freeze", ["none", "embeddings", "1", "2"], {}),
    ("max_grad_norm", [0.0, 0.01, 0.1], {}),
    ("accumulation", [1, 2, 3], {}),
    ("weight_decay", [0.0, 0.5], {}),
    ("max_tokens", [0, 48, 60], {"batch_size": 8}),
    ("option", ["finetune", "pretrain"], {}),
    ("score", ["sst", "para", "sts", "overall_2023", "overall_2024"], {"sampling": "mt-dnn"}),
    ("patience", [0, 1, 2], {"epochs": 5, "lr": 1e-9}),  # a score that never moves
    ("epochs", [1, 2, 3], {}),
    ("lr", [1e-3, 2e-3], {}),
    ("warmup", [0.0, 0.5], {}),
    ("batch_size", [1, 2, 4], {}),
    ("max_length", [8, 48], {}),
    ("seed", [0, 1], {}),
    ("precision", ["fp32", "bf16"], {}),
    ("hidden_dropout_prob", [0.0, 0.3, 0.6], {}),
    ("vector_dropout_prob", [0.0, 0.3, 0.6], {}),
    ("encoder_dropout", ["auto", 0.0, 0.5], {}),
    ("attention_dropout", ["auto", 0.0, 0.5], {}),
]
OF_THE_RUN = {
    "recipe",
    "pretrain",
    "model",
    "data_dir",
    "drop_bad_rows",
    "train_rows",
    "dev_rows",
    "token_cache",
    "name",
    "output_dir",
    "device",
    "use_gpu",
    "attention",
    "compile",
    "save_every",
    "heads_first",
    "hand_on",
    *(
        f"{task}_{file}"
        for task in COURSE_FILES
        for file in ("train", "dev", "test", "dev_out", "test_out")
    ),
}
OF_STAGES = {name for own in OWN.values() for name in own}


@pytest.fixture
def make_job(sample_data, tiny_model, tmp_path, no_fsync):
    """A function: changes to BASE -> the multitask stage."""

    def make(**changes):
        options = Options(
            data_dir=str(sample_data), model=str(tiny_model), **{**BASE, **changes}
        ).with_files()
        encoder = BertModel.from_pretrained(tiny_model, **options.dropout_of_encoder())
        rows = encode_tables(
            read_tables(options),
            BertTokenizer.from_pretrained(tiny_model),
            options.max_length,
            options.pair_encoding,
        )
        return build_job(
            options, encoder, rows, tmp_path / "-".join(map(str, changes.values())), CPU
        )

    return make


@pytest.mark.parametrize(("name", "values", "context"), GROUPS)
def test_every_value_is_another_run(name, values, context, make_job):
    found = {}
    for value in values:
        changes = {**context, name: value}
        if name == "surgery" and value != "weighted":
            del changes["loss_weights"]
        job = make_job(**changes)
        if name in PLANNED:
            found[value] = list(job.all_steps())
        elif name in JUDGED:
            progress = fit(job)
            found[value] = len(progress.history), progress.best_score
        else:
            found[value] = after_two_steps(job)
        if name == "sts_range":  # that M is there is no difference yet; the weights have to differ
            found[value].pop("heads.pairs.cosine.lowest", None)
    unlike = differ if isinstance(found[values[0]], dict) else (lambda one, other: one != other)
    alike = [
        pair for pair in combinations(values, 2) if not unlike(*(found[value] for value in pair))
    ]
    assert not alike, f"--{name}: no difference between {alike}"


def test_a_common_layer_is_there_where_it_is_asked_for(make_job):
    """Two values that differ could be each other's."""
    assert [make_job(common_layer=value).model.shared is None for value in ("tanh", "none")] == [
        False,
        True,
    ]


def test_choices_are_all_tried():
    """Every option of the multitask stage stands above, and one with choices with each of them but "auto"."""
    for item in fields(Options):
        is_elsewhere = item.name in OF_THE_RUN | OF_STAGES or item.name.startswith(
            ("contrastive_", "mlm_")
        )
        tried = {value for name, values, _ in GROUPS if name == item.name for value in values}
        assert bool(tried) != is_elsewhere, item.name
        assert is_elsewhere or set(item.metadata["choices"] or ()) - {"auto"} <= tried, item.name
