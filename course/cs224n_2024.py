"""All names that a script of CS224N 2024 imports from the files beside it.

    from course.cs224n_2024 import AdamW, BertModel, SentencePairDataset, model_eval_multitask

The results come in the order of 2024: SST, PARA, STS. In 2023 PARA was the first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from course.checkpoints import allow_checkpoints
from course.datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_multitask_data,
)
from course.evaluation import Loader, answer, model_eval_sst
from minbert import AdamW, BertConfig, BertModel, BertTokenizer

__all__ = [
    "AdamW",
    "BertConfig",
    "BertModel",
    "BertTokenizer",
    "SentenceClassificationDataset",
    "SentenceClassificationTestDataset",
    "SentencePairDataset",
    "SentencePairTestDataset",
    "load_multitask_data",
    "model_eval_multitask",
    "model_eval_sst",
    "model_eval_test_multitask",
]

allow_checkpoints()


def model_eval_multitask(
    sentiment_dataloader: Loader,
    paraphrase_dataloader: Loader,
    sts_dataloader: Loader,
    model: nn.Module,
    device: torch.device | str,
) -> tuple[Any, ...]:
    """Score the three dev sets.

    Returns score, predictions and ids of SST, then those of PARA, then those of STS.
    """
    results: list[Any] = []
    loaders = {"sst": sentiment_dataloader, "para": paraphrase_dataloader, "sts": sts_dataloader}
    for task, loader in loaders.items():
        answers = answer(task, loader, model, device)
        results += [answers.score(task), answers.values, answers.ids]
    return tuple(results)


def model_eval_test_multitask(
    sentiment_dataloader: Loader,
    paraphrase_dataloader: Loader,
    sts_dataloader: Loader,
    model: nn.Module,
    device: torch.device | str,
) -> tuple[Any, ...]:
    """Predict the three test sets.

    Returns predictions and ids of SST, then those of PARA, then those of STS.
    """
    results: list[Any] = []
    loaders = {"sst": sentiment_dataloader, "para": paraphrase_dataloader, "sts": sts_dataloader}
    for task, loader in loaders.items():
        answers = answer(task, loader, model, device)
        results += [answers.values, answers.ids]
    return tuple(results)
