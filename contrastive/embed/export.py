"""A model as a folder that sentence_transformers.SentenceTransformer opens, with the vectors that it has here.

Beside the encoder's own files stand a list of modules (modules.json) and a folder for each module after the encoder.
H hidden. Before: embed.py, whose --export calls `export`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from minbert import BertModel, BertTokenizer
from minbert.commands.files import write_json, write_tensors
from minbert.pooling import save_pooling

DENSE = "2_Dense"


def export_layout(
    hidden_size: int, max_length: int, pooling: str, is_normalised: bool
) -> dict[str, dict | list]:
    """The JSON files that say what becomes of the encoder's output, by path inside the folder.

    No pooling module knows BERT's pooler, but it is two modules: the first token, then a linear layer with tanh, whose
    weights belong into DENSE. Names and keys are the oldest ones, which old and new releases both read.
    """
    modules = ["Transformer", "Pooling"]
    files: dict[str, dict | list] = {
        "sentence_bert_config.json": {
            "max_seq_length": max_length,
            "do_lower_case": False,
        },  # the tokenizer does that
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_cls_token": pooling != "mean",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
    if pooling == "pooler":
        modules.append("Dense")
        files[f"{DENSE}/config.json"] = {
            "in_features": hidden_size,
            "out_features": hidden_size,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
    if is_normalised:
        modules.append("Normalize")  # has no settings, so no file
    files["modules.json"] = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{module}" if place else "",
            "type": f"sentence_transformers.models.{module}",
        }
        for place, module in enumerate(modules)
    ]
    return files


def export(
    encoder: BertModel,
    tokenizer: BertTokenizer,
    folder: Path,
    pooling: str,
    max_length: int,
    is_normalised: bool,
) -> None:
    """Write the new folder: it is there with all its files, or not at all.

    pooling: the sentence vector; max_length: tokens a sentence at most; is_normalised: whether vectors are brought to
    length 1. The folder is also one that `--model` opens. Raises ValueError or OSError where it cannot be written.
    """
    beside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)  # what a killed process may have left
    try:
        beside.mkdir(parents=True)
        encoder.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        save_pooling(beside, pooling)
        for path, content in export_layout(
            encoder.config.hidden_size, max_length, pooling, is_normalised
        ).items():
            write_json(beside / path, content)
        if pooling == "pooler":
            pooler = encoder.pooler
            write_tensors(
                beside / DENSE / "model.safetensors",
                {"linear.weight": pooler.weight, "linear.bias": pooler.bias},
            )
        os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # renamed by now, unless something went wrong
