"""A step in bf16 is the step in fp32 but for its rounding: loss and gradients of every stage."""

from __future__ import annotations

import copy
from itertools import islice

import pytest
import torch
import torch.nn.functional as F

from command_line.options import Options
from minbert import BertModel, BertTokenizer
from minbert.training.gradients import backward
from multitask.rows import read_tables
from multitask.tasks import TASKS
from tests.toy_multitask import encoded, task_job
from tests.toy_stages import make_chain, make_mlm_stage

CONTRASTIVE = ("simcse", "bsc", "ct", "sg")


@pytest.fixture(scope="module")
def model_folder(tiny_model, tmp_path_factory):
    """The tiny model without dropout, whose masks would differ."""
    folder = tmp_path_factory.mktemp("model")
    encoder = BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    encoder.save_pretrained(folder)
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


@pytest.fixture
def make_job(model_folder, sample_data, tmp_path):
    """A function that builds the job of a stage, by its name, on 16 rows of each task."""
    options = Options.of(
        data_dir=str(sample_data),
        model=str(model_folder),
        hidden_dropout_prob=0.0,
        lr=1e-3,
        mlm_lr=1e-3,
        pair_encoding="cross",
        max_length=48,
        precision="fp32",
        pretrain="mlm",
        batch_size=8,
    ).with_files()
    tables = read_tables(options.data)
    for splits in tables.values():
        for split, table in splits.items():
            splits[split] = table.cut(16)

    def make(stage: str):
        if stage in CONTRASTIVE:
            tokenizer = BertTokenizer.from_pretrained(model_folder)
            return make_chain(stage, model_folder, tables, tokenizer, tmp_path)[0].job
        rows = encoded(options, tables)
        if stage == "mlm":
            return make_mlm_stage(options, rows, tmp_path, model_folder).job
        return task_job(options, rows, tmp_path)

    return make


def loss_and_gradient(job, update, precision: str) -> tuple[float, torch.Tensor]:
    """Of one update of the job as it begins: the loss, and all gradients in one vector."""
    job = copy.copy(job)
    job.precision = precision
    job.model.train()
    torch.manual_seed(0)  # which tokens are masked
    loss = backward(job, update).loss
    gradients = [parameter.grad for parameter in job.model.parameters()]
    flat = [gradient.flatten() for gradient in gradients if gradient is not None]
    job.model.zero_grad()
    return loss, torch.cat(flat)


@pytest.mark.parametrize("stage", [*TASKS, "mlm", *CONTRASTIVE])
def test_a_step_in_bf16_is_the_step_in_fp32(stage, make_job):
    job = make_job(stage)
    updates = (
        update for update in job.all_steps() if stage not in TASKS or update[0].task == stage
    )
    update, other_update = islice(updates, 2)
    loss, gradient = loss_and_gradient(job, update, "fp32")
    rounded, in_bf16 = loss_and_gradient(job, update, "bf16")
    assert gradient.norm() > 0 and rounded == pytest.approx(loss, rel=0.02) and rounded != loss
    assert F.cosine_similarity(in_bf16, gradient, dim=0) > 0.99
    assert in_bf16.norm() == pytest.approx(gradient.norm().item(), rel=0.05)
    assert in_bf16.dtype == torch.float32, "weights and their gradients are never in bf16"
    _, other = loss_and_gradient(job, other_update, "fp32")
    farther = (other - gradient).norm() / (in_bf16 - gradient).norm()
    assert farther > 20, "the control: another batch's gradient is not as near"
