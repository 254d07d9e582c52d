"""`--pretrain mlm`: masked language modelling on the tasks' own training rows, before any fine-tuning.

Further pretraining (Gururangan et al. 2020, "task-adaptive pretraining"). The rows are those that the
tasks will see. Pairs share a row where --pair_encoding is "cross", so a masked token can be found in
the other sentence. Next: minbert/training/stage.py, which runs the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.batching import Batch, EncodedExamples, sorted_batches
from data.readers import Example
from minbert import AdamW, BertModel, BertTokenizer
from minbert.commands.options import flat
from minbert.optimizer import parameter_groups
from minbert.pooling import stored_pooling
from minbert.pretraining.mlm import BertForMaskedLM, Masking
from minbert.pretraining.options import MlmOptions
from minbert.training import processes
from minbert.training.job import Job, Step
from minbert.training.options import TrainingOptions
from minbert.training.stage import Stage, code_of, shared_identity, stage_fingerprint

EVALUATION_BATCH = 64  # rows
SCORE = "-held_out_loss"  # the lower the better


@dataclass(frozen=True)
class StageRows:
    """The rows of a stage, and the steps of its epochs."""

    train: Mapping[str, EncodedExamples]  # by task
    dev: Sequence[EncodedExamples]
    examples: Sequence[Example]  # all of them as text, for the fingerprint
    plan: Callable[[torch.Generator], list[Step]]  # an epoch over `train`
    identity: Mapping[str, Any]  # the options that made rows and plan, for the fingerprint
    sources: Sequence[Path]  # the Python files that made them, likewise


@dataclass(frozen=True)
class Place:
    """Where the stage starts, and where it writes."""

    start: str  # fingerprint of the encoder that it starts from
    model_folder: Path  # with the head, where the model has one
    folder: Path  # of the trained encoder
    checkpoints: Path


def build_stage(
    options: MlmOptions,
    training: TrainingOptions,
    pooling: str,
    is_pooling_learned: bool,
    encoder: BertModel,
    tokenizer: BertTokenizer,
    rows: StageRows,
    place: Place,
) -> Stage:
    """The stage on rows.train. The masked tokens of rows.dev select the best weights.

    is_pooling_learned: whether an earlier stage of the chain has trained the sentence vector. Where
    neither that nor the model's folder says so, the encoder is saved without a pooling.
    `encoder` is trained in place. The head is that of the model where it has one, else a random one.
    """
    device = torch.device(training.device)
    masking = Masking.of(tokenizer, options.mlm_whole_word)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = BertForMaskedLM(encoder).to(device)
    model.load_head(place.model_folder)
    identity = {
        **shared_identity(training, pooling),
        **flat(options),
        "schedule": training.schedule,
        "warmup": training.warmup,
        **rows.identity,
        "device": str(device),
        "torch": torch.__version__,
        "score": SCORE,
        "head": digest_of_head(model),
    }

    def loss(task: str, batch: Batch) -> Tensor:
        corrupted, labels = masking(batch.input_ids)
        inputs = (corrupted, labels, batch.token_type_ids, batch.attention_mask)
        return model.loss(*(tensor.to(device) for tensor in inputs))

    def quality() -> dict[str, float]:
        return processes.from_first(
            lambda: model.score(dev_inputs(rows.dev), masking, training.precision)
        )

    parameters = parameter_groups(model, training.weight_decay)
    job = Job(
        name="mlm",
        folder=place.checkpoints,
        model=model,
        optimizer=AdamW(parameters, lr=float(options.mlm_lr), fused=True),
        plan=lambda epoch, generator: rows.plan(generator),
        load=lambda task, indices: rows.train[task].batch(indices),
        loss=loss,
        evaluate=quality,
        score=SCORE,
        epochs=options.mlm_epochs,
        device=device,
        precision=training.precision,
        seed=training.seed,
        schedule=training.schedule,
        warmup=training.warmup,
        max_grad_norm=training.max_grad_norm,
        save_every=training.save_every,
        evaluation_tokens=sum(int(split.sizes.sum()) for split in rows.dev),
    )
    has_pooling = is_pooling_learned or stored_pooling(place.model_folder)
    return Stage(
        job=job,
        encoder=encoder,
        tokenizer=tokenizer,
        pooling=pooling if has_pooling else None,
        quality=quality,
        heading="masked dev tokens",
        folder=place.folder,
        fingerprint=stage_fingerprint(place.start, identity, rows.examples),
        keeps_better=training.hand_on == "better",
        code=code_of(*rows.sources),
    )


def dev_inputs(dev: Sequence[EncodedExamples]) -> Iterator[tuple[Tensor, ...]]:
    """input_ids, token_type_ids and attention_mask (B, T) of batches of similar length."""
    for split in dev:
        for indices in sorted_batches(split.lengths, EVALUATION_BATCH):
            batch = split.batch(indices)
            yield batch.input_ids, batch.token_type_ids, batch.attention_mask


def digest_of_head(model: BertForMaskedLM) -> str:
    """SHA-256 of the weights that are not the encoder's."""
    digest = sha256()
    for tensor in model.head_tensors().values():
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
