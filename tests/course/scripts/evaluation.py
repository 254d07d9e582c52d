"""In the shape of the course's evaluation.py of 2024: plain loops over the batches."""

import numpy as np
import torch

from course.cs224n_2024 import SentencePairDataset  # noqa: F401, there: from datasets import ...


def rows_of(loader, predict, names, device):
    predicted, labels, ids = [], [], []
    for batch in loader:
        arguments = [batch[name].to(device) for name in names]
        predicted.extend(predict(*arguments).cpu().numpy())
        labels.extend(batch["labels"].flatten().cpu().numpy())
        ids.extend(batch["sent_ids"])
    return np.array(predicted), np.array(labels), ids


def model_eval_multitask(
    sentiment_dataloader, paraphrase_dataloader, sts_dataloader, model, device
):
    model.eval()
    single = ("token_ids", "attention_mask")
    pair = ("token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2")
    with torch.no_grad():
        sst, sst_true, sst_ids = rows_of(
            sentiment_dataloader,
            lambda *batch: model.predict_sentiment(*batch).argmax(dim=-1).flatten(),
            single,
            device,
        )
        para, para_true, para_ids = rows_of(
            paraphrase_dataloader,
            lambda *batch: model.predict_paraphrase(*batch).sigmoid().round().flatten(),
            pair,
            device,
        )
        sts, sts_true, sts_ids = rows_of(
            sts_dataloader, lambda *batch: model.predict_similarity(*batch).flatten(), pair, device
        )
    correlation = np.corrcoef(sts, sts_true)[1][0]
    return (
        *(np.mean(sst == sst_true), sst, sst_ids),
        *(np.mean(para == para_true), para, para_ids),
        *(correlation, sts, sts_ids),
    )
