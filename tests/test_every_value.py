"""Every value of every option of the multitask stage makes another run: two steps on rows of the sample, compared.

What decides which batches come when may begin alike: there the whole plan is compared.

The tables have 24, 16 and 8 training rows, so that samplers which look at sizes differ. test_train.py asks that an
option has an effect at all; here each of its choices has to differ from each other one.
"""

from itertools import combinations

import pytest
import torch

from minbert import BertModel, BertTokenizer
from multitask.train import build_job, encode_tables, read_tables
from options import Options
from tests.test_train import after_two_steps, differ

BASE = {"pair_encoding": "cross", "batch_size": 2, "lr": 1e-3, "precision": "fp32", "max_length": 48, "warmup": 0.0,
        "epochs": 2, "train_rows": "sst=24,para=16,sts=8", "dev_rows": "sst=4,para=4,sts=4", "sampling": "joint"}
CPU = torch.device("cpu")
PLANNED = ("sampling", "sampling_weights", "sampling_power", "joint_limit", "tasks", "max_tokens")
DUAL = {"pair_encoding": "dual", "head": "vm"}
BI_MLP = {"pair_encoding": "bi", "head": "mlp"}
GROUPS = {  # option -> the values to tell apart, and what goes with all of them
    "sampling": (["mt-dnn", "joint", "batch-round-robin", "epoch-round-robin", "sequential", "annealed", "power"], {}),
    "sampling_weights": (["none", "sst=0.1", "sts=5"], {"sampling": "mt-dnn"}),
    "sampling_power": ([0.0, 1.0], {"sampling": "power"}),
    "joint_limit": (["largest", "smallest"], {}),
    "tasks": (["sst,para,sts", "sts,para,sst", "sst,sts", "para"], {}),
    "head": (["ph", "dph", "dpha", "vm"], DUAL),
    "para_head": (["ph", "dph", "dpha", "vm"], {**DUAL, "head": "ph"}),
    "sharing": (["none", "heads", "first"], BI_MLP),
    "sts_range": (["zero", "fitted"], BI_MLP),
    "common_layer": (["tanh", "none"], {}),
    "pair_encoding": (["cross", "bi", "dual"], {"head": "vm", "pooling": "cls"}),
    "pooling": (["mean", "cls", "pooler"], {}),
    "surgery": (["mean", "sum", "weighted", "pcgrad", "gradvac"], {"max_grad_norm": 0.0, "loss_weights": "sst=3"}),
    "surgery_reduction": (["sum", "mean"], {"surgery": "pcgrad", "max_grad_norm": 0.0}),
    "gradvac_beta": ([0.01, 0.9], {"surgery": "gradvac"}),
    "loss_weights": (["sst=3", "sst=2", "para=2"], {"surgery": "weighted"}),
    "schedule": (["linear", "cosine", "constant"], {}),
    "layer_decay": ([1.0, 0.9, 0.5], {}),
    "freeze": (["none", "embeddings", "1", "2"], {}),
    "max_grad_norm": ([0.0, 0.01, 0.1], {}),
    "accumulation": ([1, 2, 3], {}),
    "weight_decay": ([0.0, 0.5], {}),
    "max_tokens": ([0, 48, 60], {"batch_size": 8}),
    "option": (["finetune", "pretrain"], {}),
}


@pytest.mark.parametrize("name", GROUPS)
def test_every_value_is_another_run(name, sample_data, tiny_model, tmp_path, no_fsync):
    values, context = GROUPS[name]
    found = {}
    for value in values:
        changes = {**BASE, **context, name: value}
        if name == "surgery" and value != "weighted":
            del changes["loss_weights"]
        options = Options(data_dir=str(sample_data), model=str(tiny_model), **changes).with_files()
        rows = encode_tables(read_tables(options), BertTokenizer.from_pretrained(tiny_model), 48, options.pair_encoding)
        job = build_job(options, BertModel.from_pretrained(tiny_model), rows, tmp_path / str(value), CPU)
        found[value] = list(job.all_steps()) if name in PLANNED else after_two_steps(job)
        if name == "sts_range":  # that M is there is no difference yet; the weights have to differ
            found[value].pop("heads.pairs.cosine.lowest", None)
    unlike = (lambda one, other: one != other) if name in PLANNED else differ
    alike = [pair for pair in combinations(values, 2) if not unlike(*(found[value] for value in pair))]
    assert not alike, f"--{name}: no difference between {alike}"


def test_choices_are_all_tried():
    """An option with choices that stands above names every one of them, but those that cannot be compared alike."""
    choices = {item.name: set(item.metadata["choices"]) for item in Options.__dataclass_fields__.values()}
    left_out = {"head": {"features", "mlp", "cosine"}, "para_head": {"auto"}, "pair_encoding": {"auto"}}
    for name, (values, _) in GROUPS.items():
        assert choices[name] - set(values) in (set(), left_out.get(name, set()))
