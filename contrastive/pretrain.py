"""Encoder in, encoder checkpoint out, through minbert.loop: the contrastive stage.

Next: quality.py for the table before and after; the multitask stage starts from the folder written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from contrastive.methods import SimCSE
from contrastive.quality import sts_quality
from data.batching import EncodedExamples, length_grouped_batches
from data.readers import Example
from minbert import AdamW, BertModel, BertTokenizer
from minbert.loop import Job
from minbert.optimizer import parameter_groups
from minbert.stage import Stage, stage_fingerprint


def unique_sentences(examples: Iterable[Example], tokenizer: BertTokenizer, max_length: int) -> list[Example]:
    """Every sentence of the examples once, each side of a pair on its own, in first-seen order.

    Sentences that the tokenizer cannot tell apart (case, accents, what max_length cuts) count as one, so that no batch
    holds a negative that is equal to its anchor.
    """
    texts = [text for example in examples for text in (example.sentence_1, example.sentence_2) if text is not None]
    rows, _ = tokenizer.encode(texts, max_length=max_length)
    first_seen: dict[tuple[int, ...], str] = {}
    for row, text in zip(rows, texts, strict=True):
        first_seen.setdefault(tuple(row), text)
    return [Example(f"sentence-{number}", text, None, None) for number, text in enumerate(first_seen.values())]


def build_stage(
    options, encoder: BertModel, tokenizer: BertTokenizer, train: Iterable[Example], sts_dev: Iterable[Example],
    run: Path, name: str, start: str, device: torch.device,
) -> Stage:
    """Unsupervised SimCSE on every training sentence, judged by the STS dev pairs.

    `options` is the run's Options, `run` its folder, `name` that of the encoder's folder in it; `start` is the
    fingerprint of what the stage starts from; `encoder` is trained in place.
    """
    sentences = unique_sentences(train, tokenizer, options.simcse_max_length)
    rows = EncodedExamples(sentences, tokenizer, options.simcse_max_length)
    dev_pairs = EncodedExamples(list(sts_dev), tokenizer, options.max_length, pair_encoding="bi")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = SimCSE(encoder, options.pooling, options.simcse_temperature).to(device)

    def plan(epoch: int, generator: torch.Generator):
        return [[("simcse", batch)] for batch in
                length_grouped_batches(rows.lengths, options.simcse_batch_size, generator)]

    def quality() -> dict[str, float]:
        return sts_quality(encoder, dev_pairs, options.pooling, options.precision)

    job = Job(
        name="simcse", folder=run / "checkpoint" / "simcse", model=model,
        optimizer=AdamW(parameter_groups(model, options.weight_decay), lr=options.simcse_lr),
        plan=plan, load=lambda task, indices: rows.batch(indices).to(device), loss=lambda task, batch: model(batch),
        evaluate=quality, score="spearman",
        epochs=options.simcse_epochs, device=device, precision=options.precision, seed=options.seed,
        schedule=options.schedule, warmup=options.warmup, max_grad_norm=options.max_grad_norm,
        save_every=options.save_every, evaluations_per_epoch=4, evaluation_tokens=2 * int(dev_pairs.lengths.sum()),
    )
    settings = options.of_stage("simcse", "max_length") | {"device": str(device), "torch": torch.__version__}
    fingerprint = stage_fingerprint(start, settings, (*sentences, *dev_pairs.examples))
    return Stage(job, encoder, tokenizer, options.pooling, quality, "zero-shot STS dev", run / name, fingerprint)
