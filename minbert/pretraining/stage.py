"""`--pretrain mlm`: masked language modelling on the tasks' own training rows.

Further pretraining before any fine-tuning (Gururangan et al. 2020, "task-adaptive pretraining").
The rows are those that the tasks will see. Pairs share a row where --pair_encoding is "cross", so a
masked token can be found in the other sentence.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.batching import EncodedExamples, sorted_batches
from data.examples import Example
from minbert import AdamW
from minbert.commands.options import flat
from minbert.optimizer import parameter_groups
from minbert.pooling import stored_pooling
from minbert.pretraining.mlm import BertForMaskedLM, MaskedRows, Masking, num_chosen
from minbert.pretraining.options import MlmOptions
from minbert.training import processes
from minbert.training.job import Job, Step
from minbert.training.options import TrainingOptions
from minbert.training.stage import Place, Stage, code_of, shared_identity, stage_fingerprint
from minbert.training.starting_model import StartingModel

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
    packages: Sequence[str]  # that made rows and plan, for the code of the stage


@dataclass(frozen=True)
class MlmTraining:
    """The parts of the stage, and the functions that the loop calls."""

    options: MlmOptions
    training: TrainingOptions
    model: BertForMaskedLM
    masking: Masking
    rows: StageRows

    def job(self, folder: Path) -> Job:
        """The stage as the loop takes it. folder: of its checkpoints."""
        training = self.training
        parameters = parameter_groups(self.model, training.weight_decay)
        return Job(
            name="mlm",
            folder=folder,
            model=self.model,
            optimizer=AdamW(parameters, lr=float(self.options.mlm_lr), fused=True),
            plan=lambda epoch, generator: self.rows.plan(generator),
            load=self.load,
            loss=lambda task, batch: self.model.loss_of(batch),
            size=num_chosen,
            evaluate=self.quality,
            score=SCORE,
            epochs=self.options.mlm_epochs,
            device=torch.device(training.device),
            precision=training.precision,
            seed=training.seed,
            schedule=training.schedule,
            warmup=training.warmup,
            max_grad_norm=training.max_grad_norm,
            save_every=training.save_every,
            evaluation_tokens=sum(int(split.sizes.sum()) for split in self.rows.dev),
        )

    def load(self, task: str, indices: list[int]) -> MaskedRows:
        """A batch of training rows, under masks that are drawn anew."""
        batch = self.rows.train[task].batch(indices)
        input_ids, labels = self.masking(batch.input_ids)
        return MaskedRows(input_ids, labels, batch.token_type_ids, batch.attention_mask, batch.ids)

    def quality(self) -> dict[str, float]:
        """Loss and accuracy at the masked tokens of the dev rows. It reads no labels."""
        return processes.from_first(
            lambda: self.model.score(self.dev_inputs(), self.masking, self.training.precision)
        )

    def dev_inputs(self) -> Iterator[Sequence[Tensor]]:
        """input_ids, token_type_ids and attention_mask, (B, T) each, of rows of similar length."""
        for split in self.rows.dev:
            for rows in sorted_batches(split.lengths, EVALUATION_BATCH):
                batch = split.batch(rows)
                yield batch.input_ids, batch.token_type_ids, batch.attention_mask

    def identity(self, pooling: str) -> dict[str, Any]:
        """The values that decide what the stage does, for its fingerprint."""
        training = self.training
        return {
            **shared_identity(training, pooling),
            **flat(self.options),
            "schedule": training.schedule,
            "warmup": training.warmup,
            **self.rows.identity,
            "device": training.device,
            "torch": torch.__version__,
            "score": SCORE,
            "head": digest_of_head(self.model),
        }


def build_stage(
    options: MlmOptions,
    training: TrainingOptions,
    pooling: str,
    is_pooling_trained: bool,
    start: StartingModel,
    rows: StageRows,
    place: Place,
) -> Stage:
    """The stage on rows.train. The masked tokens of rows.dev select the best weights.

    is_pooling_trained: whether an earlier stage of the chain has trained the sentence vector. Where
        neither that nor the model's folder says so, the encoder is saved without a pooling.
    start: its encoder is trained in place. The head is that of the model where it has one, else a
        random one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = BertForMaskedLM(start.encoder).to(torch.device(training.device))
    model.load_head(start.folder)
    masking = Masking.of(start.tokenizer, options.mlm_whole_word)
    mlm = MlmTraining(options, training, model, masking, rows)
    has_pooling = is_pooling_trained or stored_pooling(start.folder)
    return Stage(
        job=mlm.job(place.checkpoints),
        encoder=start.encoder,
        tokenizer=start.tokenizer,
        pooling=pooling if has_pooling else None,
        quality=mlm.quality,
        heading="masked dev tokens",
        folder=place.folder,
        fingerprint=stage_fingerprint(place.start, mlm.identity(pooling), rows.examples),
        keeps_better=training.hand_on == "better",
        code=code_of(*rows.packages),
    )


def digest_of_head(model: BertForMaskedLM) -> str:
    """SHA-256 of the weights that are not the encoder's."""
    digest = sha256()
    for tensor in model.head_tensors().values():
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
