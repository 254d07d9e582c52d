"""Encoder in, encoder checkpoint out, through minbert.loop: the contrastive stage.

Next: quality.py for the table before and after; the multitask stage starts from the folder written here.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from contrastive.methods import SimCSE
from contrastive.quality import sts_quality
from data.batching import EncodedExamples, length_grouped_batches
from data.readers import Example
from minbert import AdamW, BertModel, BertTokenizer, weights
from minbert.checkpoint import write_json
from minbert.loop import Job, fit
from minbert.optimizer import parameter_groups
from minbert.pooling import save_pooling

STAGE_FILE = "stage.json"


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


@dataclass(frozen=True)
class ContrastiveStage:
    """The job of the stage, the STS dev pairs that judge it, and where its encoder goes."""

    job: Job
    dev_pairs: EncodedExamples
    tokenizer: BertTokenizer
    folder: Path
    fingerprint: str  # equal where model, options and sentences are, so that an encoder can be reused

    @property
    def model(self) -> SimCSE:
        return self.job.model

    def quality(self) -> dict[str, float]:
        """The encoder's zero-shot STS scores, alignment and uniformity as it is now."""
        return sts_quality(self.model.encoder, self.dev_pairs, self.model.pooling, self.job.precision)

    def train(self, is_resumed: bool) -> tuple[dict, float]:
        """Run the job and write the encoder's folder; returns its quality before and after, and the seconds it took.

        stage.json is written last, so a folder that has one is complete.
        """
        encoder = self.model.encoder
        learns = [parameter.requires_grad for parameter in encoder.parameters()]
        encoder.requires_grad_(True)  # the next stage may have frozen it already
        before = self.quality()
        progress = fit(self.job, is_resumed)
        for parameter, learned in zip(encoder.parameters(), learns, strict=True):
            parameter.requires_grad_(learned)
        quality = {"before": before, "after": self.quality()}
        encoder.save_pretrained(self.folder)
        self.tokenizer.save_pretrained(self.folder)
        save_pooling(self.folder, self.model.pooling)
        stage = {"fingerprint": self.fingerprint, "seconds": progress.seconds, "history": progress.history, **quality}
        write_json(self.folder / STAGE_FILE, stage)
        shutil.rmtree(self.job.folder)
        return quality, progress.seconds

    def reusable(self, candidates: Iterable[Path]) -> Path | None:
        """The first finished encoder among `candidates` that has this stage's fingerprint."""
        for candidate in candidates:
            path = candidate / STAGE_FILE
            if path.is_file() and json.loads(path.read_text(encoding="utf-8"))["fingerprint"] == self.fingerprint:
                return candidate
        return None

    def reuse(self, found: Path) -> tuple[dict, float]:
        """Load the encoder in `found` and copy its folder to this run's; returns as `train` does."""
        stage = json.loads((found / STAGE_FILE).read_text(encoding="utf-8"))
        if found != self.folder:
            shutil.copytree(found, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(STAGE_FILE))
            write_json(self.folder / STAGE_FILE, stage)  # last, as in `train`: a copy cut short does not count
        weights.load(self.model.encoder, self.folder)
        seconds = stage["seconds"] if found == self.folder else 0.0
        return {name: stage[name] for name in ("before", "after")}, seconds


def quality_table(quality: dict[str, dict[str, float]]) -> str:
    """The stage's table: zero-shot STS dev scores, alignment and uniformity, before and after."""
    names = list(quality["before"])
    lines = [f"{'zero-shot STS dev':<20}" + "".join(f"{name:>12}" for name in names)]
    return "\n".join(lines + [f"{when:<20}" + "".join(f"{scores[name]:>12.4f}" for name in names)
                              for when, scores in quality.items()])


def build_stage(
    options, encoder: BertModel, tokenizer: BertTokenizer, train: Iterable[Example], sts_dev: Iterable[Example],
    folder: Path, device: torch.device,
) -> ContrastiveStage:
    """Unsupervised SimCSE on every training sentence. `options` is the run's Options; `encoder` is trained in place."""
    sentences = unique_sentences(train, tokenizer, options.simcse_max_length)
    rows = EncodedExamples(sentences, tokenizer, options.simcse_max_length)
    dev_pairs = EncodedExamples(list(sts_dev), tokenizer, options.max_length, pair_encoding="bi")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = SimCSE(encoder, options.pooling, options.simcse_temperature).to(device)

    def plan(epoch: int, generator: torch.Generator):
        return [[("simcse", batch)] for batch in
                length_grouped_batches(rows.lengths, options.simcse_batch_size, generator)]

    job = Job(
        name="simcse", folder=folder / "checkpoint" / "simcse", model=model,
        optimizer=AdamW(parameter_groups(model, options.weight_decay), lr=options.simcse_lr),
        plan=plan, load=lambda task, indices: rows.batch(indices).to(device), loss=lambda task, batch: model(batch),
        evaluate=lambda: sts_quality(encoder, dev_pairs, options.pooling, options.precision), score="spearman",
        epochs=options.simcse_epochs, device=device, precision=options.precision, seed=options.seed,
        schedule=options.schedule, warmup=options.warmup, max_grad_norm=options.max_grad_norm,
        save_every=options.save_every, evaluations_per_epoch=4, evaluation_tokens=2 * int(dev_pairs.lengths.sum()),
    )
    settings = {name: value for name, value in vars(options).items() if name.startswith("simcse_")}
    settings |= {name: getattr(options, name) for name in (
        "pooling", "precision", "max_length", "weight_decay", "schedule", "warmup", "max_grad_norm", "seed")}
    identity = [settings, str(device), torch.__version__, encoder.config.__dict__, tokenizer.vocabulary,
                tokenizer.lowercase]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for parameter in encoder.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    for example in (*sentences, *dev_pairs.examples):
        digest.update(f"{example}\n".encode())
    return ContrastiveStage(job, dev_pairs, tokenizer, folder / "encoder", digest.hexdigest())
