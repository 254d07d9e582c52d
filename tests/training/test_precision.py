"""A step in bf16 is the step in fp32 but for its rounding: loss and gradients of every kind of stage."""

from __future__ import annotations

import copy
from itertools import islice

import pytest
import torch
import torch.nn.functional as F

from minbert import BertModel, BertTokenizer
from minbert.training.gradients import backward
from multitask import stage as train
from tests.toy_stages import make_chain

CPU = torch.device("cpu")
STAGES = ("sst", "para", "sts", "mlm", "simcse", "bsc", "ct", "sg")


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


def make_job(stage, model_folder, sample_data, folder):
    from command_line.options import Options

    options = Options(
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
    tokenizer = BertTokenizer.from_pretrained(model_folder)
    tables = {
        task: {split: table.cut(16) for split, table in splits.items()}
        for task, splits in train.read_tables(options).items()
    }
    if stage in ("simcse", "bsc", "ct", "sg"):
        return make_chain(stage, model_folder, tables, tokenizer, folder)[0].job
    rows = train.encode_tables(tables, tokenizer, options.max_length, "cross")
    encoder = BertModel.from_pretrained(model_folder)
    if stage == "mlm":
        from minbert.pretraining import stage as further

        return further.build_stage(
            options, encoder, tokenizer, rows, model_folder, folder, "encoder", "", CPU
        ).job
    return train.build_job(options, encoder, rows, folder, CPU)


def loss_and_gradient(job, step, precision: str) -> tuple[float, torch.Tensor]:
    """Of one step of the job as it begins: the loss, and all gradients in one vector."""
    job = copy.copy(job)
    job.precision = precision
    job.model.train()
    torch.manual_seed(0)  # which tokens are masked
    loss, _ = backward(job, step)
    found = torch.cat(
        [
            parameter.grad.flatten()
            for parameter in job.model.parameters()
            if parameter.grad is not None
        ]
    )
    job.model.zero_grad()
    return loss, found


@pytest.mark.parametrize("stage", STAGES)
def test_a_step_in_bf16_is_the_step_in_fp32(stage, model_folder, sample_data, tmp_path):
    job = make_job(stage, model_folder, sample_data, tmp_path)
    steps = [step for step in job.all_steps() if stage not in train.TASKS or step[0][0] == stage]
    step, other = islice(steps, 2)
    (loss, gradient), (rounded, in_bf16) = (
        loss_and_gradient(job, step, each) for each in ("fp32", "bf16")
    )
    assert gradient.norm() > 0 and rounded == pytest.approx(loss, rel=0.02) and rounded != loss
    assert F.cosine_similarity(in_bf16, gradient, dim=0) > 0.99
    assert in_bf16.norm() == pytest.approx(gradient.norm().item(), rel=0.05)
    assert in_bf16.dtype == torch.float32, "weights and their gradients are never in bf16"
    _, another = loss_and_gradient(job, other, "fp32")
    farther = (another - gradient).norm() / (in_bf16 - gradient).norm()
    assert farther > 20, "the control: another batch's gradient is not as near"
