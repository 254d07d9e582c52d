"""Stages of every contrastive method on 16 training examples a task, small and quick; for tests."""

from pathlib import Path

import torch

from command_line.options import Options
from contrastive.stage import build_stage
from minbert import BertModel
from minbert.training.stage import Stage, encoder_fingerprint

FAST = {"contrastive_lr": 2e-3, "contrastive_batch_size": 8, "contrastive_warmup": 0.0}


def write_triplets(path: Path, tables: dict, task: str = "sts") -> str:
    """A file of 16 triplets, made of a task's training sentences; returns its path."""
    texts = [example.sentence_1 for example in tables[task]["train"].examples]
    rows = ["\t".join(texts[start : start + 3]) for start in range(0, 48, 3)]
    path.write_text(
        "\n".join(["premise\tentailment\tcontradiction", *rows]) + "\n", encoding="utf-8"
    )
    return str(path)


def make_chain(
    chain: str, model: Path, tables: dict, tokenizer, run: Path, **changes
) -> list[Stage]:
    """The stages that `chain` names, on one encoder of the folder `model`; changes replace options."""
    changes = {**FAST, **changes}
    if "simcse-nli" in chain and "nli" not in changes:
        changes["nli"] = write_triplets(run.parent / "nli.tsv", tables)
    options = Options(pretrain=chain, model=str(model), precision="fp32", max_length=48, **changes)
    encoder = BertModel.from_pretrained(model)
    train = {task: splits["train"].examples[:16] for task, splits in tables.items()}
    stages, start = [], encoder_fingerprint(encoder, tokenizer)
    for name in options.stages:
        folder = "encoder" if name == options.stages[-1] else f"encoder-{name}"
        stages.append(
            build_stage(
                options,
                name,
                encoder,
                tokenizer,
                train,
                tables["sts"]["dev"].examples,
                run,
                folder,
                start,
                torch.device("cpu"),
            )
        )
        start = stages[-1].fingerprint
    return stages
