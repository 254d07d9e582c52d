"""In the shape of the course's multitask_classifier.py of 2024, with a model filled in.

Only the import lines name minBERT. A student's script has the same calls in the same order.
"""

import argparse
import random
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from course.cs224n_2024 import (
    AdamW,
    BertModel,
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    load_multitask_data,
    model_eval_multitask,
    model_eval_sst,
    model_eval_test_multitask,
)

BERT_HIDDEN_SIZE = 768
N_SENTIMENT_CLASSES = 5


def seed_everything(seed=11711):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, as the course does
    torch.manual_seed(seed)


class MultitaskBERT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        for param in self.bert.parameters():
            param.requires_grad = config.fine_tune_mode == "full-model"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(BERT_HIDDEN_SIZE, N_SENTIMENT_CLASSES)
        self.paraphrase = nn.Linear(2 * BERT_HIDDEN_SIZE, 1)
        self.similarity = nn.Linear(2 * BERT_HIDDEN_SIZE, 1)

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask)["pooler_output"]

    def predict_sentiment(self, input_ids, attention_mask):
        return self.sentiment(self.dropout(self.forward(input_ids, attention_mask)))

    def pair(self, ids_1, mask_1, ids_2, mask_2):
        return torch.cat([self.forward(ids_1, mask_1), self.forward(ids_2, mask_2)], dim=1)

    def predict_paraphrase(self, ids_1, mask_1, ids_2, mask_2):
        return self.paraphrase(self.pair(ids_1, mask_1, ids_2, mask_2))

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        return self.similarity(self.pair(ids_1, mask_1, ids_2, mask_2))


def save_model(model, optimizer, args, config, filepath):
    save_info = {
        "model": model.state_dict(),
        "optim": optimizer.state_dict(),
        "args": args,
        "model_config": config,
        "system_rng": random.getstate(),
        "numpy_rng": np.random.get_state(),  # noqa: NPY002, as the course does
        "torch_rng": torch.random.get_rng_state(),
    }
    torch.save(save_info, filepath)


def loader_of(dataset, args, shuffle=False):
    return DataLoader(
        dataset, shuffle=shuffle, batch_size=args.batch_size, collate_fn=dataset.collate_fn
    )


def train_multitask(args):
    device = torch.device("cuda") if args.use_gpu else torch.device("cpu")
    train_rows, num_labels, *_ = load_multitask_data(
        args.sst_train, args.para_train, args.sts_train, split="train"
    )
    dev_rows, num_labels, *_ = load_multitask_data(
        args.sst_dev, args.para_dev, args.sts_dev, split="train"
    )
    train_loader = loader_of(SentenceClassificationDataset(train_rows, args), args, shuffle=True)
    dev_loader = loader_of(SentenceClassificationDataset(dev_rows, args), args)
    config = SimpleNamespace(
        hidden_dropout_prob=args.hidden_dropout_prob,
        num_labels=num_labels,
        hidden_size=768,
        data_dir=".",
        fine_tune_mode=args.fine_tune_mode,
    )
    model = MultitaskBERT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=args.lr)
    best_dev_acc = -1
    for epoch in range(args.epochs):
        model.train()
        train_loss = 0
        for batch in train_loader:
            b_ids, b_mask, b_labels = batch["token_ids"], batch["attention_mask"], batch["labels"]
            optimizer.zero_grad()
            logits = model.predict_sentiment(b_ids.to(device), b_mask.to(device))
            loss = F.cross_entropy(logits, b_labels.to(device).view(-1), reduction="sum")
            loss = loss / args.batch_size
            loss.backward()
            optimizer.step()
            train_loss += loss.item()
        train_acc, train_f1, *_ = model_eval_sst(train_loader, model, device)
        dev_acc, dev_f1, *_ = model_eval_sst(dev_loader, model, device)
        if dev_acc > best_dev_acc:
            best_dev_acc = dev_acc
            save_model(model, optimizer, args, config, args.filepath)
        print(f"Epoch {epoch}: loss {train_loss:.3f}, train {train_acc:.3f}, dev {dev_acc:.3f}")


def test_multitask(args):
    with torch.no_grad():
        device = torch.device("cuda") if args.use_gpu else torch.device("cpu")
        # torch.load without arguments means the same in torch 2.6 and newer.
        saved = torch.load(args.filepath, weights_only=True)
        model = MultitaskBERT(saved["model_config"])
        model.load_state_dict(saved["model"])
        model = model.to(device)

        sst_test, num_labels, para_test, sts_test = load_multitask_data(
            args.sst_test, args.para_test, args.sts_test, split="test"
        )
        sst_dev, num_labels, para_dev, sts_dev = load_multitask_data(
            args.sst_dev, args.para_dev, args.sts_dev, split="dev"
        )
        dev_loaders = [
            loader_of(SentenceClassificationDataset(sst_dev, args), args),
            loader_of(SentencePairDataset(para_dev, args), args),
            loader_of(SentencePairDataset(sts_dev, args, isRegression=True), args),
        ]
        test_loaders = [
            loader_of(SentenceClassificationTestDataset(sst_test, args), args, shuffle=True),
            loader_of(SentencePairTestDataset(para_test, args), args, shuffle=True),
            loader_of(SentencePairTestDataset(sts_test, args), args, shuffle=True),
        ]
        (
            _,
            dev_sst_pred,
            dev_sst_ids,
            _,
            dev_para_pred,
            dev_para_ids,
            _,
            dev_sts_pred,
            dev_sts_ids,
        ) = model_eval_multitask(*dev_loaders, model, device)
        (
            test_sst_pred,
            test_sst_ids,
            test_para_pred,
            test_para_ids,
            test_sts_pred,
            test_sts_ids,
        ) = model_eval_test_multitask(*test_loaders, model, device)

        files = [
            (args.sst_dev_out, "Predicted_Sentiment", dev_sst_ids, dev_sst_pred),
            (args.sst_test_out, "Predicted_Sentiment", test_sst_ids, test_sst_pred),
            (args.para_dev_out, "Predicted_Is_Paraphrase", dev_para_ids, dev_para_pred),
            (args.para_test_out, "Predicted_Is_Paraphrase", test_para_ids, test_para_pred),
            (args.sts_dev_out, "Predicted_Similiary", dev_sts_ids, dev_sts_pred),
            (args.sts_test_out, "Predicted_Similiary", test_sts_ids, test_sts_pred),
        ]
        for path, column, ids, predictions in files:
            with open(path, "w+") as f:
                f.write(f"id \t {column} \n")
                for p, s in zip(ids, predictions, strict=True):
                    f.write(f"{p} , {s} \n")


def get_args():
    parser = argparse.ArgumentParser()
    files = {"sst": "ids-sst", "para": "quora", "sts": "sts"}
    for task, stem in files.items():
        parser.add_argument(f"--{task}_train", default=f"data/{stem}-train.csv")
        parser.add_argument(f"--{task}_dev", default=f"data/{stem}-dev.csv")
        parser.add_argument(f"--{task}_test", default=f"data/{stem}-test-student.csv")
        for split in ("dev", "test"):
            path = f"predictions/{task}-{split}-output.csv"
            parser.add_argument(f"--{task}_{split}_out", default=path)
    parser.add_argument("--seed", type=int, default=11711)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--fine-tune-mode", choices=("last-linear-layer", "full-model"), default="last-linear-layer"
    )
    parser.add_argument("--use_gpu", action="store_true")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--hidden_dropout_prob", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=1e-5)
    return parser.parse_args()


if __name__ == "__main__":
    args = get_args()
    args.filepath = f"{args.fine_tune_mode}-{args.epochs}-{args.lr}-multitask.pt"
    seed_everything(args.seed)
    train_multitask(args)
    test_multitask(args)
