"""The BERT encoder (Devlin et al. 2019): embeddings, layers, pooler.

B batch, T tokens, H hidden, I intermediate, L layers, P positions. Parameters correspond one to one to Hugging Face's
BertModel; the name table is in weights.py, which is the next file to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert import weights
from minbert.attention import MultiHeadAttention, mask_to_bias
from minbert.config import BertConfig
from minbert.dropout import Dropout


@dataclass
class BertOutput:
    """What the encoder returns; by attribute or by key, as in Hugging Face's and the course's code."""

    last_hidden_state: Tensor  # (B, T, H), or at `positions` (P, 1, H)
    pooler_output: Tensor  # (B, H) or (P, H), in (-1, 1)
    hidden_states: tuple[Tensor, ...] | None = (
        None  # L + 1 tensors (B, T, H): the embeddings, then each layer
    )

    def __getitem__(self, key: str) -> Tensor | tuple[Tensor, ...] | None:
        return getattr(self, key)

    def __setitem__(
        self, key: str, value: Tensor
    ) -> None:  # the course's sanity check masks its padding this way
        setattr(self, key, value)


class BertEmbeddings(nn.Module):
    """Word + position + segment embeddings, normalised; input_ids (B, T) -> (B, T, H)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        positions = self.position.weight[: input_ids.size(1)]  # (T, H), the same for every row
        return self.dropout(
            self.norm(self.word(input_ids) + self.segment(token_type_ids) + positions)
        )  # (B, T, H)


class FeedForward(nn.Module):
    """The position-wise network: H -> I, GELU (the erf form, not the tanh approximation), I -> H."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(hidden_states)))  # (B, T, H)


class BertLayer(nn.Module):
    """Attention, add and norm, feed-forward, add and norm: the norm stands after the sum ("post-norm")."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, hidden_states: Tensor, mask_bias: Tensor | None, positions: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, H) -> (B, T, H), or (P, 1, H) at `positions` (P,) alone; see BertModel's forward."""
        attended = self.attention(hidden_states, mask_bias)  # (B, T, H)
        if (
            positions is not None
        ):  # all that follows is done to each token by itself: (P, 1, H) instead of (B, T, H)
            hidden_states, attended = (
                each.flatten(0, 1).index_select(0, positions).unsqueeze(1)
                for each in (hidden_states, attended)
            )
        hidden_states = self.attention_norm(hidden_states + self.dropout(attended))  # (B, T, H)
        transformed = self.dropout(self.feed_forward(hidden_states))  # (B, T, H)
        return self.feed_forward_norm(hidden_states + transformed)  # (B, T, H)


class BertModel(nn.Module):
    """BERT with the parameters and outputs of Hugging Face's BertModel.

    Attributes: `config`, and after `from_pretrained` `load_report`, which says what was read from disk.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.load_report: weights.LoadReport | None = None
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.apply(self.initialise)

    def initialise(self, module: nn.Module) -> None:
        """Normal(0, initializer_range) for matrices and embeddings, 0 for biases and padding (as Hugging Face does)."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        positions: Tensor | None = None,
    ) -> BertOutput:
        """Encode token ids (Devlin et al. 2019, section 3).

        input_ids (B, T) int64 in [0, vocab_size); attention_mask (B, T), 1 for tokens and 0 for padding, default all 1;
        token_type_ids (B, T) int64, 0 for the first sentence and 1 for the second, default all 0. T is at most
        config.max_position_embeddings, else ValueError.

        Returns last_hidden_state (B, T, H), without a meaning at padding, pooler_output (B, H) in (-1, 1), and with
        `output_hidden_states` all L + 1 states (B, T, H), the embeddings first. Compare with transformers.BertModel.

        positions (P,) int64 in [0, B T), b T + t for token t of row b: where these are all that is read of the last
        layer (each row's [CLS], or masked tokens), its feed-forward network, two thirds of its weights, leaves out the
        rest. Each then counts as a row of one token: the last state is (P, 1, H) and pooler_output (P, H).
        """
        if input_ids.size(1) > self.config.max_position_embeddings:
            raise ValueError(
                f"input_ids has {input_ids.size(1)} tokens a row; this model has "
                f"{self.config.max_position_embeddings} positions. Truncate to that (max_length)."
            )
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        hidden = self.embeddings(input_ids, token_type_ids)  # (B, T, H)
        mask_bias = (
            None if attention_mask is None else mask_to_bias(attention_mask, hidden.dtype)
        )  # (B, 1, 1, T)
        hidden_states = [hidden]
        for layer in self.layers:
            hidden = layer(hidden, mask_bias, positions if layer is self.layers[-1] else None)
            if output_hidden_states:
                hidden_states.append(hidden)
        pooled = torch.tanh(self.pooler(hidden[:, 0]))  # (B, H): [CLS] is token 0
        return BertOutput(hidden, pooled, tuple(hidden_states) if output_hidden_states else None)

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **config_overrides) -> BertModel:
        """Load "minbert-mini", "minilm", a folder in Hugging Face layout, or a hub name such as "bert-base-uncased".

        The model comes in evaluation mode, without dropout, as Hugging Face's does; fit() puts it into training mode.
        `config_overrides` replace fields of the stored config (dropout, attention_implementation). Raises ValueError
        with what was found and what is needed where the folder or its weights do not fit.
        """
        folder = weights.resolve(name_or_folder)
        model = cls(BertConfig.from_pretrained(folder, **config_overrides))
        model.load_report = weights.load(model, folder)
        return model.eval()

    def save_pretrained(self, folder: str | Path, pooling: str | None = "pooler") -> None:
        """Write config.json and model.safetensors, a folder that transformers.AutoModel opens.

        pooling: the sentence vector that was trained, or None. A pooler that the model's files lacked, and that nothing
        trained, is left out: with random weights it would pass for a trained one.
        """
        weights.save(
            self,
            folder,
            self.load_report.missing if self.load_report and pooling != "pooler" else (),
        )
        self.config.save_pretrained(folder)
