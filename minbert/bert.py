"""The BERT encoder (Devlin et al. 2019): embeddings, layers, pooler.

B batch, T tokens, E embedding (H in all families but ELECTRA), H hidden, I intermediate, L layers,
N heads, P positions that are read.

Its parameters correspond one to one to those of Hugging Face's BertModel. The table of names is
in weights.py, which is the next file to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from minbert import hub, weights
from minbert.activations import activation_of
from minbert.attention import MultiHeadAttention, mask_to_bias
from minbert.call_checks import check_ids, check_mask, check_outputs
from minbert.config import BertConfig
from minbert.dropout import Dropout
from minbert.families import NUM_BUCKETS
from minbert.linear import Linear
from minbert.relative_positions import relative_bias


@dataclass
class BertOutput:
    """The result of the encoder, read by attribute, by key or by position.

    `output.pooler_output`, `output["pooler_output"]` and `output[1]` are the same tensor, as in
    Hugging Face's code and in the course's. `states, pooled = output` takes it apart. Positions
    count what was asked for. `dict(output)` has the names.
    """

    # (B, T, H), or (P, 1, H) with `positions`.
    last_hidden_state: Tensor

    # (B, H), or (P, H) with `positions`; in (-1, 1).
    pooler_output: Tensor

    # L + 1 tensors (B, T, H): the embeddings, then the output of each layer.
    hidden_states: tuple[Tensor, ...] | None = None

    # L tensors (B, N, T, T): how much each token attends to each other token, for each head.
    attentions: tuple[Tensor, ...] | None = None

    def keys(self) -> list[str]:
        """The names of what the output holds, in the order of the positions."""
        return [item.name for item in fields(self) if getattr(self, item.name) is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        """What the output holds, by position. transformers' method of this name gives the same."""
        return tuple(getattr(self, name) for name in self.keys())

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self.to_tuple()[key]
        if key not in {item.name for item in fields(self)}:
            raise KeyError(f"'{key}'; this output holds {', '.join(self.keys())}")
        return getattr(self, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_tuple())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __setitem__(self, key: str, value: Tensor) -> None:
        # The course's sanity check masks its padding this way.
        setattr(self, key, value)


class BertEmbeddings(nn.Module):
    """Word, position and segment embeddings, added and normalised (Devlin et al. 2019, fig. 2).

    DistilBERT has no segments. RoBERTa counts positions from another number. ELECTRA projects its
    embeddings from E units to H. MPNet has a table of relative positions, which bias_of reads.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        size = config.word_size
        self.word = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position = nn.Embedding(config.max_position_embeddings, size)
        self.first_position = config.first_position
        self.segment = nn.Embedding(config.type_vocab_size, size) if config.has_segments else None
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.project = Linear(size, config.hidden_size) if size != config.hidden_size else None
        has_relative = config.family.has_relative_positions
        self.relative = (
            nn.Embedding(NUM_BUCKETS, config.num_attention_heads) if has_relative else None
        )

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        """Embed tokens: input_ids and token_type_ids (B, T) int64 -> (B, T, H).

        `positions_of` looks up the positions. Each token's segment has a row in the table, also
        segment 0. `segment` is None in a model without segments. Dropout stands behind the norm.
        `project`, where there is one, comes last. Whether padding's row of the word table gets a
        gradient is free.
        """
        words = self.word(input_ids)  # (B, T, E)
        segments = 0 if self.segment is None else self.segment(token_type_ids)  # (B, T, E)
        positions = self.positions_of(input_ids)  # (T, E)

        embedded = self.norm(words + segments + positions)  # (B, T, E)
        dropped = self.dropout(embedded)
        return dropped if self.project is None else self.project(dropped)  # (B, T, H)

    def positions_of(self, input_ids: Tensor) -> Tensor:
        """Look up the position embeddings: (B, T) -> (T, E), or (B, T, E) in RoBERTa."""
        if self.first_position == 0:
            # Row t of the table belongs to token t, and all rows of the batch share it.
            return self.position.weight[: input_ids.size(1)]  # (T, E)

        # Liu et al. 2019 (fairseq): tokens are counted from the row behind padding's own row.
        padding = self.first_position - 1
        is_token = input_ids != padding  # (B, T)
        numbers = is_token.cumsum(dim=1) * is_token  # (B, T): 1, 2, 3, ..., and 0 for padding
        return self.position(numbers + padding)  # (B, T, E)


class FeedForward(nn.Module):
    """The position-wise network: H -> I, GELU, I -> H (Vaswani et al. 2017, equation 2).

    GELU is the erf form, x Phi(x) (Hendrycks and Gimpel 2016), not the tanh approximation. A model
    whose config.json names another activation has that one.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.up = Linear(config.hidden_size, config.intermediate_size)
        self.down = Linear(config.intermediate_size, config.hidden_size)
        self.activation = activation_of(config.hidden_act)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Transform each token by itself: (B, T, H) -> (B, T, H)."""
        activated = self.activation(self.up(hidden_states))  # (B, T, I)
        return self.down(activated)  # (B, T, H)


class BertLayer(nn.Module):
    """One layer: attention, add and norm, feed-forward, add and norm.

    The norm stands after the sum ("post-norm"), as in Vaswani et al. 2017, section 3.1.
    """

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
        """Transform hidden states (B, T, H) -> (B, T, H), or to (P, 1, H) with `positions`.

        Dropout stands before each sum: on what attention returns, and on what the network returns.

        mask_bias (B, 1, 1, T), or None. positions: the tokens that are read, as in `tokens_at`.
        Default: all tokens. All tokens are attended to in any case. Whether the tokens are taken
        before dropout or after it is free.
        """
        attended = self.attention(hidden_states, mask_bias)  # (B, T, H)

        # After attention, each token is computed by itself, so tokens that nobody reads can be
        # left out. That saves the feed-forward network, which holds two thirds of the weights.
        if positions is not None:
            hidden_states = tokens_at(hidden_states, positions)  # (P, 1, H)
            attended = tokens_at(attended, positions)  # (P, 1, H)

        hidden_states = self.attention_norm(hidden_states + self.dropout(attended))

        transformed = self.feed_forward(hidden_states)  # (B, T, H)
        return self.feed_forward_norm(hidden_states + self.dropout(transformed))


def tokens_at(hidden_states: Tensor, positions: Tensor) -> Tensor:
    """Take single tokens of a batch, each as a row of one token: (B, T, H) -> (P, 1, H).

    positions (P,) int64 in [0, B T): b T + t stands for token t of row b.
    """
    return hidden_states.flatten(0, 1).index_select(0, positions).unsqueeze(1)


def mask_as_bias(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask of two or four dimensions into a bias, as BertModel.bias_of describes it."""
    if attention_mask.dim() == 2:
        return mask_to_bias(attention_mask, dtype)  # (B, 1, 1, T)
    if attention_mask.is_floating_point():
        return attention_mask.clamp(min=torch.finfo(dtype).min).to(dtype)
    rows = attention_mask.flatten(0, 2)  # each token's own mask, one below the other
    return mask_to_bias(rows, dtype).view(attention_mask.shape)


class BertModel(nn.Module):
    """BERT with the parameters and outputs of Hugging Face's BertModel.

    Attributes: `config`. After `from_pretrained` also `load_report`, which says what was read from
    disk.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.load_report: weights.LoadReport | None = None
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = Linear(config.hidden_size, config.hidden_size)
        self.apply(self.initialise)

    def initialise(self, module: nn.Module) -> None:
        """Set the start values of one module, as Hugging Face does.

        Matrices and embeddings are drawn from Normal(0, initializer_range). Biases and the
        embedding of padding are 0.
        """
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])

    @property
    def device(self) -> torch.device:
        """Where the parameters are, for `batch.to(model.device)`."""
        return self.embeddings.word.weight.device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        positions: Tensor | None = None,
        return_dict: bool = True,
    ) -> BertOutput:
        """Encode token ids (Devlin et al. 2019, section 3).

        Compare with transformers.BertModel.

        input_ids: (B, T) int64 in [0, vocab_size).
        attention_mask: (B, T), 1 for tokens and 0 for padding, or prepared as in `bias_of`.
            Default: all 1.
        token_type_ids: (B, T) int64, 0 for the first sentence and 1 for the second. Default: all 0.
        output_hidden_states: whether to return all L + 1 states, the embeddings first.
        output_attentions: whether to return the attention probabilities of all L layers. They are
            those without dropout, and take a second pass through each layer's attention.
        positions: (P,) int64, the only tokens of the last layer that are read, as in `tokens_at`.
            It saves time, as BertLayer.forward explains. Default: all tokens.
        return_dict: True alone. The output can be taken apart and indexed as a tuple.

        Returns last_hidden_state (B, T, H), which means nothing at padding, and pooler_output
        (B, H) in (-1, 1). With positions they are (P, 1, H) and (P, H).
        Raises ValueError if the model has too few positions or segments, for output_attentions
        with the fused attention, and for input_ids that are no (B, T).
        """
        check_outputs(self.config, output_attentions, return_dict)

        hidden = self.embed(input_ids, token_type_ids)  # (B, T, H)
        mask_bias = self.bias_of(attention_mask, hidden)  # (B, 1, 1, T)

        hidden_states = [hidden]
        attentions: list[Tensor] = []
        for number, layer in enumerate(self.layers, start=1):
            if output_attentions:
                attention = cast(BertLayer, layer).attention
                attentions.append(attention.probabilities(hidden, mask_bias))  # (B, N, T, T)
            is_last = number == len(self.layers)
            hidden = layer(hidden, mask_bias, positions if is_last else None)  # (B, T, H)
            if output_hidden_states:
                hidden_states.append(hidden)

        # The pooler reads [CLS], which is token 0 of each row.
        pooled = torch.tanh(self.pooler(hidden[:, 0]))  # (B, H)
        return BertOutput(
            hidden,
            pooled,
            tuple(hidden_states) if output_hidden_states else None,
            tuple(attentions) if output_attentions else None,
        )

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """The first step of `forward`: token ids (B, T) int64 -> embeddings (B, T, H).

        The course's BertModel has this method and `encode`. The arguments and errors are those of
        `forward`.
        """
        check_ids(self.config, input_ids, token_type_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        return self.embeddings(input_ids, token_type_ids)  # (B, T, H)

    def bias_of(self, attention_mask: Tensor | None, hidden_states: Tensor) -> Tensor | None:
        """Turn the mask of a call into the bias that `attention` adds to its scores.

        attention_mask: (B, T), or prepared once by training code: (B, 1, 1, T), (B, 1, T, T) or
            (B, N, T, T). A prepared mask of bool or int is 1 where a token may be attended to, and
            one of floating point is the bias itself, as in transformers.
        hidden_states: (B, T, H).

        Returns (B, 1, 1, T), or the shape of the prepared mask. None masks nothing. MPNet adds its
        relative positions to it, so there it is (B, N, T, T).
        """
        bias = None
        if attention_mask is not None:
            check_mask(self.config, attention_mask, hidden_states)
            bias = mask_as_bias(attention_mask, hidden_states.dtype)
        if self.embeddings.relative is None:
            return bias
        relative = relative_bias(self.embeddings.relative.weight, hidden_states.size(1))
        relative = relative.to(hidden_states.dtype)  # (1, N, T, T)
        return relative if bias is None else bias + relative  # (B, N, T, T)

    def encode(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Apply all layers to embeddings: (B, T, H) -> last_hidden_state (B, T, H).

        attention_mask: as in `forward`.
        """
        mask_bias = self.bias_of(attention_mask, hidden_states)  # (B, 1, 1, T)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask_bias)  # (B, T, H)
        return hidden_states

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, local_files_only: bool = False, **config_overrides: Any
    ) -> BertModel:
        """Load a pretrained model.

        name_or_folder: "minbert-mini-distilled", "minbert-mini", "minilm", a folder in Hugging Face
            layout, or a hub name such as "bert-base-uncased".
        local_files_only: never ask the hub; a hub name must be in its cache.
        config_overrides: replace fields of the stored config, such as dropout probabilities and
            attention_implementation.

        The model is in evaluation mode, without dropout, as Hugging Face's is. fit() puts it into
        training mode. Raises ValueError if the folder or its weights do not fit. The message says
        what was found and what is expected.
        """
        folder = hub.resolve(name_or_folder, local_files_only)
        config = BertConfig.from_pretrained(folder, **config_overrides)
        stored = weights.read_by_name(folder)
        weights.check_size(config, stored, folder)
        model = cls(config)
        model.load_report = weights.load(model, folder, stored)
        return model.eval()

    def save_pretrained(self, folder: str | Path, pooling: str | None = "pooler") -> None:
        """Write config.json and model.safetensors, a folder that transformers.AutoModel opens.

        pooling: the sentence vector that was trained, or None. If it is not "pooler", a pooler
            that the model's own files lacked is not written. It holds random weights and would
            look like a trained one.
        """
        is_pooler_trained = pooling == "pooler"
        left_out: tuple[str, ...] = ()
        if self.load_report is not None and not is_pooler_trained:
            left_out = self.load_report.missing
        weights.save(self, folder, left_out)
        self.config.save_pretrained(folder)
