"""The encoder and the tokenizer that a run starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from minbert.bert import BertModel
from minbert.options import EncoderOptions
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact
from minbert.tokenizer import BertTokenizer
from minbert.training import runtime
from minbert.training.stage import encoder_fingerprint


@dataclass(frozen=True)
class StartingModel:
    """An encoder, its tokenizer, and where they come from. Training changes the encoder."""

    encoder: BertModel
    tokenizer: BertTokenizer
    folder: Path  # in the Hugging Face layout
    fingerprint: str  # of both, before any training


def open_model(
    options: EncoderOptions,
    folder: Path,
    seed: int,
    device: torch.device,
    token_folder: Path | None,
) -> StartingModel:
    """Read the model in a folder, and print what its files held.

    Weights that they lack are drawn from the seed. token_folder: of the cache of token ids.
    """
    terminal.title("Model", "reading the weights")
    runtime.seed_everything(seed)
    encoder = BertModel.from_pretrained(
        folder, attention_implementation=options.attention, **options.dropout_overrides()
    ).to(device)
    runtime.compile_layers(encoder, options.compile)
    tokenizer = BertTokenizer.from_pretrained(folder, token_folder)
    report = encoder.load_report
    if report is not None:
        terminal.facts([Fact.of(report.source, report.describe(options.pooling))])
    return StartingModel(encoder, tokenizer, folder, encoder_fingerprint(encoder, tokenizer))
