"""`--pretrain mlm`: masked language modelling on the tasks' own training rows, before anything is fine-tuned.

Further pretraining (Gururangan et al. 2020, "task-adaptive pretraining"). The rows are those that the
tasks will see, pairs in one row where --pair_encoding is "cross", so that a masked token can be found in the other
sentence. Next: minbert/training/stage.py, which runs the stage; then train.py.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from data.batching import Batch, EncodedExamples, sorted_batches
from minbert import AdamW, BertModel, BertTokenizer
from minbert.optimizer import parameter_groups
from minbert.pooling import stored_pooling
from minbert.pretraining.mlm import BertForMaskedLM, Masking
from minbert.training import processes
from minbert.training.job import Job, Step
from minbert.training.stage import Stage, code_of, stage_fingerprint
from multitask.sampling import mt_dnn
from multitask.stage import batches_of


def build_stage(
    options,
    encoder: BertModel,
    tokenizer: BertTokenizer,
    rows: dict[str, dict[str, EncodedExamples]],
    model_folder: Path,
    run: Path,
    name: str,
    start: str,
    device: torch.device,
) -> Stage:
    """The stage on rows[task]["train"] of every task, judged by the masked tokens of rows[task]["dev"].

    `options` is the run's Options, `run` its folder, `name` that of the encoder's folder in it; `start` is the
    fingerprint of what the stage starts from; `encoder` is trained in place. The head is that of `model_folder` where
    it has one, else a random one.
    """
    masking = Masking.of(tokenizer, options.mlm_whole_word)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = BertForMaskedLM(encoder).to(device)
    model.load_head(model_folder)
    head = b"".join(
        tensor.detach().cpu().numpy().tobytes() for tensor in model.head_tensors().values()
    )
    dev = [splits["dev"] for splits in rows.values()]

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        return mt_dnn(batches_of(rows, options.mlm_batch_size, options.max_tokens), generator)

    def loss(task: str, batch: Batch) -> Tensor:
        corrupted, labels = masking(batch.input_ids)
        inputs = (corrupted, labels, batch.token_type_ids, batch.attention_mask)
        return model.loss(*(tensor.to(device) for tensor in inputs))

    def quality() -> dict[str, float]:
        batches = (
            split.batch(indices) for split in dev for indices in sorted_batches(split.lengths, 64)
        )
        inputs = (
            (batch.input_ids, batch.token_type_ids, batch.attention_mask) for batch in batches
        )
        return processes.from_first(lambda: model.score(inputs, masking, options.precision))

    job = Job(
        name="mlm",
        folder=run / "checkpoint" / "mlm",
        model=model,
        optimizer=AdamW(
            parameter_groups(model, options.weight_decay), lr=options.mlm_lr, fused=True
        ),
        plan=plan,
        load=lambda task, indices: rows[task]["train"].batch(indices),
        loss=loss,
        evaluate=quality,
        score="-held_out_loss",
        epochs=options.mlm_epochs,
        device=device,
        precision=options.precision,
        seed=options.seed,
        schedule=options.schedule,
        warmup=options.warmup,
        max_grad_norm=options.max_grad_norm,
        save_every=options.save_every,
        evaluation_tokens=sum(int(split.sizes.sum()) for split in dev),
    )
    settings = options.of_stage(
        "mlm_epochs",
        "mlm_batch_size",
        "mlm_lr",
        "mlm_whole_word",
        "schedule",
        "warmup",
        "max_length",
        "max_tokens",
        "pair_encoding",
    ) | {
        "device": str(device),
        "torch": torch.__version__,
        "score": job.score,
        "head": sha256(head).hexdigest(),
    }
    examples = [
        example
        for splits in rows.values()
        for split in ("train", "dev")
        for example in splits[split].examples
    ]
    # It learns no sentence vector; one that the start or another stage of the chain has learned stays noted.
    earlier = set(options.stages[: options.stages.index("mlm")]) - (
        {"simcse"} if options.contrastive_order == "fusion" else set()
    )
    pooling = options.pooling if earlier or stored_pooling(model_folder) else None
    root = Path(__file__).parents[2]
    return Stage(
        job,
        encoder,
        tokenizer,
        pooling,
        quality,
        "masked dev tokens",
        run / name,
        stage_fingerprint(start, settings, examples),
        keeps_better=options.hand_on == "better",
        code=code_of(root / "multitask", root / "data"),
    )
