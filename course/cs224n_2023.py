"""All names that a script of CS224N 2023 imports from the files beside it.

    from course.cs224n_2023 import AdamW, BertModel, SentencePairDataset, test_model_multitask

The results come in the order of 2023: PARA, SST, STS. In 2024 SST was the first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from course import cs224n_2024 as of_2024
from course.cs224n_2024 import (
    AdamW,
    BertConfig,
    BertModel,
    BertTokenizer,
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_multitask_data,
    model_eval_sst,
)
from course.datasets import CourseDataset, load_multitask_test_data
from course.evaluation import Loader, answer
from multitask.prediction_files import write_predictions
from multitask.tasks import TASKS

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
    "load_multitask_test_data",
    "model_eval_multitask",
    "model_eval_sst",
    "model_eval_test_multitask",
    "test_model_multitask",
]


def model_eval_multitask(
    sentiment_dataloader: Loader,
    paraphrase_dataloader: Loader,
    sts_dataloader: Loader,
    model: nn.Module,
    device: torch.device | str,
) -> tuple[Any, ...]:
    """Score the three dev sets.

    Returns score, predictions and ids of PARA, then those of SST, then those of STS.
    """
    loaders = (sentiment_dataloader, paraphrase_dataloader, sts_dataloader)
    results = of_2024.model_eval_multitask(*loaders, model, device)
    return (*results[3:6], *results[:3], *results[6:])


def model_eval_test_multitask(
    sentiment_dataloader: Loader,
    paraphrase_dataloader: Loader,
    sts_dataloader: Loader,
    model: nn.Module,
    device: torch.device | str,
) -> tuple[Any, ...]:
    """Predict the three test sets.

    Returns predictions and ids of PARA, then those of SST, then those of STS.
    """
    loaders = (sentiment_dataloader, paraphrase_dataloader, sts_dataloader)
    results = of_2024.model_eval_test_multitask(*loaders, model, device)
    return (*results[2:4], *results[:2], *results[4:])


def test_model_multitask(args: Any, model: nn.Module, device: torch.device | str) -> None:
    """Predict dev and test of the three tasks and write the six files.

    args: of the script: sst_dev, sst_dev_out and so on, and batch_size. Prints the dev scores.
    """
    for split in ("dev", "test"):
        sst, para, sts = (getattr(args, f"{task}_{split}") for task in TASKS)
        sentiment, _, paraphrase, similarity = load_multitask_data(sst, para, sts, split)
        datasets: dict[str, CourseDataset]
        if split == "dev":
            datasets = {
                "sst": SentenceClassificationDataset(sentiment, args),
                "para": SentencePairDataset(paraphrase, args),
                "sts": SentencePairDataset(similarity, args, isRegression=True),
            }
        else:
            datasets = {
                "sst": SentenceClassificationTestDataset(sentiment, args),
                "para": SentencePairTestDataset(paraphrase, args),
                "sts": SentencePairTestDataset(similarity, args),
            }
        for task, dataset in datasets.items():
            loader = DataLoader(dataset, args.batch_size, collate_fn=dataset.collate_fn)
            answers = answer(task, loader, model, device)
            if split == "dev":
                print(f"dev {task} {TASKS[task].metric}: {answers.score(task):.3f}")
            path = getattr(args, f"{task}_{split}_out")
            write_predictions(path, TASKS[task], answers.ids, answers.values)
