"""MultitaskBert: an encoder, a shared first layer, a head per task. Next: losses.py, sampling.py, then train.py.

B examples, R rows (B, or 2B where the sentences of a pair are encoded apart), T tokens, H hidden.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from data.batching import Batch
from minbert import BertModel, BertTokenizer
from minbert.checkpoint import write_json, write_tensors
from minbert.pooling import check_pooling, mean, pool, save_pooling
from multitask.heads import DenseHead, pair_features
from multitask.tasks import TASKS


class MultitaskBert(nn.Module):
    """Three tasks on one encoder.

    Every sentence vector goes through a linear layer and tanh that all tasks share ([ROB] "common layer"), then through
    its task's head. A pair is encoded "cross", both sentences in one row whose tokens see each other, or "bi", each in
    a row of its own. With mean pooling either way gives a vector for each sentence, joined by `pair_features`; a row
    has only one [CLS], so with "cls" and "pooler" the one vector of a cross-encoded row stands for the pair.
    """

    def __init__(
        self, encoder: BertModel, pooling: str, pair_encoding: str, dropout_probability: float, seed: int
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.pair_encoding = encoder, pooling, pair_encoding
        hidden_size = encoder.config.hidden_size
        with torch.random.fork_rng(devices=[]):  # the same heads for a seed, whatever was drawn before
            torch.manual_seed(seed)
            self.shared = nn.Linear(hidden_size, hidden_size)
            self.heads = nn.ModuleDict()
            for task in TASKS.values():
                num_inputs = 4 * hidden_size if task.is_pair and self.has_two_vectors else hidden_size
                self.heads[task.name] = DenseHead(num_inputs, task.num_outputs, dropout_probability)
            for module in (self.shared, *(head.dense for head in self.heads.values())):
                encoder.initialise(module)
            for task in TASKS.values():
                if not task.format.is_integer:  # a regression starts at the middle of its scale, not at 0
                    nn.init.constant_(self.heads[task.name].dense.bias, (task.format.low + task.format.high) / 2)

    @property
    def has_two_vectors(self) -> bool:
        """Whether a pair gives a vector for each of its sentences, rather than one for both."""
        return self.pair_encoding == "bi" or self.pooling == "mean"

    def forward(self, task: str, batch: Batch) -> Tensor:
        """Raw outputs: "sst" logits (B, 5), "para" a logit (B,), "sts" a number on the 0..5 scale (B,)."""
        output = self.encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        vectors = (pool(output, batch.attention_mask, self.pooling),)  # (R, H)
        if TASKS[task].is_pair and self.pair_encoding == "bi":
            vectors = vectors[0].chunk(2)  # (B, H) each
        elif TASKS[task].is_pair and self.has_two_vectors:
            is_second = batch.token_type_ids * batch.attention_mask  # (B, T)
            sides = (batch.attention_mask - is_second, is_second)
            vectors = tuple(mean(output.last_hidden_state, side) for side in sides)  # (B, H) each
        features = [torch.tanh(self.shared(vector)) for vector in vectors]  # (B, H) each
        return self.heads[task](pair_features(*features) if len(features) == 2 else features[0])  # (B, C) or (B,)

    def save_pretrained(self, folder: str | Path, tokenizer: BertTokenizer) -> None:
        """Write the encoder in Hugging Face's layout, which `--model folder` opens, and heads.safetensors."""
        self.encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        save_pooling(folder, self.pooling)
        own = {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("encoder.")}
        write_tensors(Path(folder) / "heads.safetensors", own)
        write_json(Path(folder) / "heads.json", {"pair_encoding": self.pair_encoding})

    @classmethod
    def from_pretrained(cls, folder: str | Path, pooling: str, pair_encoding: str) -> MultitaskBert:
        """Load what `save_pretrained` wrote. ValueError where it was trained with another pooling or pair encoding."""
        check_pooling(folder, pooling)
        path = Path(folder) / "heads.json"
        stored = json.loads(path.read_text(encoding="utf-8"))["pair_encoding"] if path.is_file() else "no heads at all"
        if stored != pair_encoding:
            raise ValueError(f"{folder}: it holds {stored}; asked for is --pair-encoding {pair_encoding}. Load a model "
                             "with the pair encoding it was trained with.")
        model = cls(BertModel.from_pretrained(folder), pooling, pair_encoding, dropout_probability=0.0, seed=0)
        report = model.load_state_dict(load_file(Path(folder) / "heads.safetensors"), strict=False)
        assert not report.unexpected_keys and all(name.startswith("encoder.") for name in report.missing_keys)
        return model
