"""Masked-language-model objective and head (Devlin et al. 2019, section 3.1, task 1).

B batch, T tokens, H hidden, V vocabulary, M masked tokens of the batch. Next: pretrain.py, which trains it.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.bert import BertModel
from minbert.checkpoint import write_tensors
from minbert.weights import read_tensors, to_hugging_face

IGNORED = -100  # the label of a token that is not predicted; cross_entropy skips it


def mask_tokens(
    input_ids: Tensor, is_special: Tensor, vocab_size: int, mask_token_id: int, probability: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Choose tokens to predict and hide most of them; draws from torch's global generator, which checkpoints save.

    input_ids (B, T) int64; is_special (B, T) bool, True where a token is never chosen ([CLS], [SEP], padding). Every
    other token is chosen with `probability`; of the chosen 80 % become [MASK], 10 % a random token, 10 % stay.
    Returns (corrupted input_ids, labels), both (B, T) int64; labels are IGNORED where nothing was chosen.
    """
    chosen = (torch.rand(input_ids.shape) < probability) & ~is_special  # (B, T)
    labels = input_ids.masked_fill(~chosen, IGNORED)
    fate = torch.rand(input_ids.shape)  # (B, T)
    corrupted = input_ids.masked_fill(chosen & (fate < 0.8), mask_token_id)
    random_ids = torch.randint(vocab_size, input_ids.shape)
    return torch.where(chosen & (fate >= 0.8) & (fate < 0.9), random_ids, corrupted), labels


class BertForMaskedLM(nn.Module):
    """A BertModel with the head that predicts tokens; its output matrix is the word embedding matrix (weight tying)."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert
        self.transform = nn.Linear(bert.config.hidden_size, bert.config.hidden_size)
        self.norm = nn.LayerNorm(bert.config.hidden_size, eps=bert.config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(bert.config.vocab_size))
        bert.initialise(self.transform)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Hidden states (..., H) -> logits over the vocabulary (..., V)."""
        transformed = self.norm(F.gelu(self.transform(hidden_states)))  # (..., H)
        return F.linear(transformed, self.bert.embeddings.word.weight, self.bias)  # (..., V)

    def predict(
        self, input_ids: Tensor, labels: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits (M, V) and true token ids (M,) at the chosen tokens only: the head's work is M rows, not B x T."""
        hidden_states = self.bert(input_ids, token_type_ids=token_type_ids).last_hidden_state  # (B, T, H); no padding
        chosen = labels != IGNORED  # (B, T)
        return self(hidden_states[chosen]), labels[chosen]  # (M, V), (M,)

    def loss(self, input_ids: Tensor, labels: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Mean cross-entropy over the chosen tokens, a float32 scalar in nats."""
        logits, targets = self.predict(input_ids, labels, token_type_ids)
        return F.cross_entropy(logits.float(), targets)

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write the folder that BertModel.from_pretrained and transformers.AutoModelForMaskedLM open."""
        parameters = self.bert.named_parameters()
        encoder = {f"bert.{to_hugging_face(name)}": p for name, p in parameters if "pooler" not in name}
        tensors = encoder | self.head_tensors()
        write_tensors(Path(folder) / "model.safetensors", {name: tensor.to(dtype) for name, tensor in tensors.items()})
        self.bert.config.save_pretrained(folder)

    def head_tensors(self) -> dict[str, Tensor]:
        """The head's parameters by Hugging Face's names."""
        head = {"transform.dense.weight": self.transform.weight, "transform.dense.bias": self.transform.bias,
                "transform.LayerNorm.weight": self.norm.weight, "transform.LayerNorm.bias": self.norm.bias,
                "bias": self.bias}
        return {f"cls.predictions.{name}": tensor for name, tensor in head.items()}

    @classmethod
    def from_pretrained(cls, folder: str | Path, **config_overrides) -> BertForMaskedLM:
        """Load what `save_pretrained` wrote; ValueError where the head's tensors are missing."""
        model = cls(BertModel.from_pretrained(folder, **config_overrides))
        stored = read_tensors(folder)
        for name, parameter in model.head_tensors().items():
            if name not in stored:
                raise ValueError(f"{folder}: no '{name}' in it; give a folder that minbert.pretrain wrote.")
            parameter.data.copy_(stored[name])
        return model
