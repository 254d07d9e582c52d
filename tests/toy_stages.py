"""Stages for tests: of every contrastive method on 16 training examples of each task, and mlm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from command_line.options import Options
from contrastive.registry import METHODS
from contrastive.stage import StageText, build_stage
from minbert import BertModel, BertTokenizer
from minbert.pretraining import stage as mlm
from minbert.training.stage import Place, Stage, build_stages, encoder_fingerprint
from minbert.training.starting_model import StartingModel
from multitask.rows import EncodedTables
from multitask.rows_for_mlm import rows_for_mlm

FAST = {"contrastive_lr": 2e-3, "contrastive_batch_size": 8, "contrastive_warmup": 0.0}


def write_triplets(path: Path, tables: dict, task: str = "sts") -> str:
    """Write a file of 16 triplets, made of a task's training sentences; returns its path."""
    texts = [example.sentence_1 for example in tables[task]["train"].examples]
    rows = ["\t".join(texts[start : start + 3]) for start in range(0, 48, 3)]
    lines = ["premise\tentailment\tcontradiction", *rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def make_chain(
    chain: str, model: Path, tables: dict, tokenizer, run: Path, **changes
) -> list[Stage]:
    """The stages that `chain` names, on one encoder of the folder `model`.

    changes: options that replace those here, by flat name. run: folder of the encoders and the
    checkpoints.
    """
    changes = {**FAST, **changes}
    reads_triplets = any(METHODS[name].reads == "triplets" for name in chain.split(","))
    if reads_triplets and "nli" not in changes:
        changes["nli"] = write_triplets(run.parent / "nli.tsv", tables)
    if "distill" in chain.split(","):
        changes.setdefault("teacher", "minbert-mini")  # the default one is 20 times larger
    options = Options.of(
        pretrain=chain,
        model=str(model),
        device="cpu",
        precision="fp32",
        max_length=48,
        **changes,
    )
    encoder = BertModel.from_pretrained(model)
    text = StageText(
        train={task: splits["train"].examples[:16] for task, splits in tables.items()},
        sts_dev=tables["sts"]["dev"].examples,
        sts_max_length=options.data.max_length,
    )
    start = starting_model(encoder, tokenizer, model)

    def build(name: str, place: Place) -> Stage:
        pooling = options.encoder.pooling
        return build_stage(name, options.contrastive, options.training, pooling, start, text, place)

    return build_stages(options.run.stages, start.fingerprint, run, build)


def starting_model(encoder: BertModel, tokenizer: BertTokenizer, folder: Path) -> StartingModel:
    """An encoder as it is, as the start of a stage."""
    return StartingModel(encoder, tokenizer, folder, encoder_fingerprint(encoder, tokenizer))


def make_mlm_stage(options: Options, rows: EncodedTables, run: Path, model: Path) -> Stage:
    """The stage `--pretrain mlm` as run_multitask.py builds it, on the CPU.

    options: without "auto" in mlm_lr and precision. run: the folder of the encoder and the
    checkpoints. model: the folder of the encoder that it starts from.
    """
    encoder = BertModel.from_pretrained(model)
    tokenizer = BertTokenizer.from_pretrained(model)
    stages = options.run.stages
    earlier = set(stages[: stages.index("mlm")])
    if options.contrastive.is_fusion:
        earlier.discard("simcse")
    training = replace(options.training, device="cpu")
    start = starting_model(encoder, tokenizer, model)
    return mlm.build_stage(
        options.mlm,
        training,
        options.encoder.pooling,
        bool(earlier),
        start,
        rows_for_mlm(rows, options.multitask, options.mlm.mlm_batch_size, options.data),
        Place(start.fingerprint, run / "encoder", run / "checkpoint" / "mlm"),
    )
