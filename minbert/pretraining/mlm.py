"""Masked language modelling: the objective and the head (Devlin et al. 2019, section 3.1, task 1).

B batch, T tokens, H hidden, V vocabulary, M masked tokens of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.activations import activation_of
from minbert.bert import BertModel
from minbert.commands.digests import recording
from minbert.commands.files import write_tensors
from minbert.hub import resolve
from minbert.linear import Linear, linear
from minbert.tokenizer import BertTokenizer
from minbert.training import processes, runtime
from minbert.weights import copy_tensors, read_by_name, to_hugging_face

IGNORED = -100  # the label of a token that is not predicted


# --- masking --------------------------------------------------------------------------------------


class MaskedBatch(NamedTuple):
    """Token ids of which some are hidden, and the original ids as labels, both (B, T) int64."""

    input_ids: Tensor
    labels: Tensor  # IGNORED where nothing was chosen


def mask_tokens(
    input_ids: Tensor,
    is_special: Tensor,
    vocab_size: int,
    mask_token_id: int,
    probability: float = 0.15,
    continues: Tensor | None = None,
) -> MaskedBatch:
    """Choose tokens to predict, and hide most of them (Devlin et al. 2019, section 3.1).

    input_ids: (B, T) int64.
    is_special: (B, T) bool, True where a token is never chosen: [CLS], [SEP], padding.
    probability: of every other token to be chosen, each by itself. A chosen token becomes [MASK] in
        80 % of the cases, a random token in 10 %, and stays as it is in 10 %. A random token is any
        number from 0 to vocab_size - 1, each as likely as another. Each chosen token draws for
        itself.
    continues: (B, T) bool, True for the later pieces of a word (##ing). With it, words are chosen
        instead of tokens (whole-word masking), so that a piece cannot be guessed from the rest of
        its own word. Each chosen piece still draws its own replacement, as in BERT's own code.
        A special token is never chosen, whatever its word. A word ends with its row.

    Returns new tensors. A label is the original id of a chosen token, and IGNORED for all others.
    Draws from torch's global generator, whose state a checkpoint holds. How many numbers are drawn,
    and in which order, is free.
    """
    # Which tokens to predict.
    draws = torch.rand(input_ids.shape)  # (B, T), uniform in [0, 1)
    if continues is not None:
        draws = share_within_words(draws, continues)  # (B, T)
    is_chosen = (draws < probability) & ~is_special  # (B, T)
    labels = input_ids.masked_fill(~is_chosen, IGNORED)  # (B, T)

    # 80 %: [MASK]. 10 %: a random token. The rest stays.
    fate = torch.rand(input_ids.shape)  # (B, T), uniform in [0, 1)
    is_hidden = is_chosen & (fate < 0.8)  # (B, T)
    is_replaced = is_chosen & (fate >= 0.8) & (fate < 0.9)  # (B, T)
    random_ids = torch.randint(vocab_size, input_ids.shape)  # (B, T)
    corrupted = input_ids.masked_fill(is_hidden, mask_token_id)  # (B, T)
    corrupted = torch.where(is_replaced, random_ids, corrupted)  # (B, T)
    return MaskedBatch(corrupted, labels)


def share_within_words(draws: Tensor, continues: Tensor) -> Tensor:
    """Give every piece of a word the draw of the token that begins the word.

    draws: (B, T) float. continues: (B, T) bool, True for the later pieces. Returns (B, T) float.
    """
    places = torch.arange(draws.size(1)).expand_as(draws)  # (B, T): 0, 1, 2, ...
    # The place of the last token so far that began a word.
    starts = places.masked_fill(continues, 0).cummax(dim=1).values  # (B, T)
    return draws.gather(1, starts)  # (B, T)


@dataclass(frozen=True)
class MaskedRows:
    """A batch for the loop, with its masks."""

    input_ids: Tensor  # (B, T) int64, some of them hidden
    labels: Tensor  # (B, T) int64, as in MaskedBatch
    token_type_ids: Tensor  # (B, T) int64
    attention_mask: Tensor | None  # (B, T) int64; None: there is no padding
    ids: tuple[str, ...]  # names of the rows, for messages


def num_chosen(_: str, batch: MaskedRows) -> int:
    """The masked tokens of a batch, over which its loss is the mean (Job.size)."""
    return int((batch.labels != IGNORED).sum())


@dataclass(frozen=True)
class Masking:
    """`mask_tokens` for one vocabulary."""

    is_special: Tensor  # (V,) bool
    continues: Tensor | None  # (V,) bool, later pieces of a word; None masks tokens, not words
    mask_token_id: int

    @classmethod
    def of(cls, tokenizer: BertTokenizer, whole_word: bool = False) -> Masking:
        """The masking for a tokenizer's vocabulary, of single tokens or of whole words."""
        token_of = {number: token for token, number in tokenizer.vocabulary.items()}
        # vocab.txt may have blank lines, whose numbers have no token.
        tokens = [token_of.get(number, "") for number in range(max(token_of) + 1)]
        special_tokens = tokenizer.special_tokens.values()
        is_special = torch.tensor([token in special_tokens for token in tokens])
        continues = None
        if whole_word:
            continues = torch.tensor([tokenizer.continues_word(token) for token in tokens])
        return cls(is_special, continues, tokenizer.mask_token_id)

    def __call__(self, input_ids: Tensor) -> MaskedBatch:
        """Mask token ids (B, T) int64 on the CPU."""
        continues = None if self.continues is None else self.continues[input_ids]
        return mask_tokens(
            input_ids,
            self.is_special[input_ids],
            len(self.is_special),
            self.mask_token_id,
            continues=continues,
        )


# --- the loss -------------------------------------------------------------------------------------


def summed_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The sum over the chosen tokens of -log softmax(logits)[target], a scalar in nats.

    logits: (M, V), of any floating dtype. targets: (M,) int64, the true token ids. M may be 0. The
    sum is in float32; float64 stays float64. Compare with F.cross_entropy(reduction="sum").
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = logits.to(dtype).log_softmax(dim=-1)  # (M, V)
    of_targets = log_probabilities.gather(1, targets.unsqueeze(1))  # (M, 1)
    return -of_targets.sum()


# --- the model ------------------------------------------------------------------------------------


class Predictions(NamedTuple):
    """What the head says of the chosen tokens, and what they were."""

    logits: Tensor  # (M, V)
    targets: Tensor  # (M,) int64


class BertForMaskedLM(nn.Module):
    """A BertModel with the head that predicts tokens.

    The head's output matrix is the word embedding matrix (weight tying).
    """

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        config = bert.config
        self.bert = bert
        self.transform = Linear(config.hidden_size, config.word_size)
        self.norm = nn.LayerNorm(config.word_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.names = config.family.head
        self.activation = activation_of("gelu" if self.names.is_gelu else config.hidden_act)
        bert.initialise(self.transform)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Predict tokens: hidden states (..., H) -> logits over the vocabulary (..., V)."""
        transformed = self.norm(self.activation(self.transform(hidden_states)))  # (..., H)
        word_embeddings = self.bert.embeddings.word.weight  # (V, H)
        return linear(transformed, word_embeddings, self.bias, self.transform.is_onednn)  # (..., V)

    def predict(
        self,
        input_ids: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Predictions:
        """Logits and true token ids at the chosen tokens only. The head works on no other token.

        input_ids, labels: (B, T) int64, as `mask_tokens` makes them.
        token_type_ids, attention_mask: as in BertModel. M may be 0.
        """
        is_chosen = (labels != IGNORED).flatten()  # (B * T,)
        positions = is_chosen.nonzero().squeeze(1)  # (M,)
        output = self.bert(input_ids, attention_mask, token_type_ids, positions=positions)
        logits = self(output.last_hidden_state.squeeze(1))  # (M, V)
        targets = labels.flatten()[positions]  # (M,)
        return Predictions(logits, targets)

    def loss(
        self,
        input_ids: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Mean cross-entropy over the chosen tokens, a float32 scalar in nats; 0 where M is 0.

        Compare with transformers.BertForMaskedLM. Of several processes each gets the share of its
        own rows in that mean.
        """
        rows, share = processes.own_rows(len(labels))
        inputs = rows_of(rows, (input_ids, labels, token_type_ids, attention_mask))
        with processes.own_randomness():
            logits, targets = self.predict(*inputs)
        total = summed_cross_entropy(logits, targets)
        # A process without rows has encoded one only to keep step, and its share is 0.
        num_chosen = int((labels != IGNORED).sum())  # of all processes
        return total * bool(share) / max(1, num_chosen)

    def loss_of(self, batch: MaskedRows) -> Tensor:
        """`loss` of a batch of the loop, on the device of the model."""
        inputs = (batch.input_ids, batch.labels, batch.token_type_ids, batch.attention_mask)
        return self.loss(*on_device(self.bias.device, inputs))

    @torch.no_grad()
    def score(
        self, batches: Iterable[Sequence[Tensor | None]], masking: Masking, precision: str
    ) -> dict[str, float]:
        """Held-out loss in nats and masked accuracy, 0 to 1, always under the same masks.

        batches: of input_ids, token_type_ids and attention_mask, each (B, T). The last two may be
            None or left out. precision: "fp32" or "bf16".
        The random states and the mode of the model are afterwards as before.
        """
        device = self.bias.device
        was_training = self.training
        self.eval()
        total = 0.0
        num_correct = 0.0
        num_tokens = 0
        with torch.random.fork_rng(devices=[]), runtime.predicting(self, device, precision):
            torch.default_generator.manual_seed(0)  # the CPU's: masks are drawn there
            for input_ids, *other_inputs in batches:
                assert input_ids is not None
                inputs = on_device(device, (*masking(input_ids), *other_inputs))
                logits, targets = self.predict(*inputs)
                loss = F.cross_entropy(logits.float(), targets, reduction="sum")
                total += float(loss)
                num_correct += float((logits.argmax(-1) == targets).sum())
                num_tokens += len(targets)
        self.train(was_training)
        return {
            "held_out_loss": total / max(1, num_tokens),
            "masked_accuracy": num_correct / max(1, num_tokens),
        }

    # --- files ---

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write a folder for BertModel.from_pretrained and transformers.AutoModelForMaskedLM."""
        config = self.bert.config
        tensors = self.head_tensors()
        for name, parameter in self.bert.named_parameters():
            if "pooler" not in name:  # masked language modelling does not train it
                their_name = to_hugging_face(name, config.model_type)
                tensors[config.family.prefix + their_name] = parameter
        converted = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        path = Path(folder) / "model.safetensors"
        with recording(path.parent) as digests:
            digests[path.name] = write_tensors(path, converted)
        self.bert.config.save_pretrained(folder, "ForMaskedLM")

    def head_tensors(self) -> dict[str, Tensor]:
        """The head's parameters by Hugging Face's names."""
        return {
            f"{self.names.transform}.weight": self.transform.weight,
            f"{self.names.transform}.bias": self.transform.bias,
            f"{self.names.norm}.weight": self.norm.weight,
            f"{self.names.norm}.bias": self.norm.bias,
            self.names.bias: self.bias,
        }

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, **config_overrides: Any
    ) -> BertForMaskedLM:
        """Load a model with its head. Names, overrides and errors are those of BertModel.

        ValueError, too, where the folder has no complete head.
        """
        folder = resolve(name_or_folder)
        model = cls(BertModel.from_pretrained(folder, **config_overrides))
        if not model.load_head(folder):
            raise ValueError(
                f"{folder}: no complete masked-language-model head in it (needed are "
                f"{', '.join(model.head_tensors())}); give one such as minbert.pretraining writes."
            )
        return model

    def load_head(self, folder: str | Path) -> bool:
        """Load the head's parameters from `folder`; returns whether it has a complete head.

        Nothing changes where it has none. ValueError for a head of another shape, or with its own
        output matrix: here that is the word embedding matrix.
        """
        stored = {name: entry.tensor for name, entry in read_by_name(folder).items()}
        head = self.head_tensors()

        # transformers ties these two, and a file may hold either.
        bias = self.names.bias
        twin_name = f"{self.names.decoder}.bias"
        twin = stored.get(twin_name)
        if twin is not None and not torch.equal(stored.setdefault(bias, twin), twin):
            raise ValueError(
                f"{folder}: its head has two different biases, {bias} and {twin_name}, which are "
                "one tensor. Delete the one that is not meant."
            )
        if not head.keys() <= stored.keys():
            return False
        words = stored["embeddings.word_embeddings.weight"]
        matrix_name = f"{self.names.decoder}.weight"
        if not torch.equal(stored.get(matrix_name, words), words):
            raise ValueError(
                f"{folder}: its head has an output matrix ({matrix_name}) other than the word "
                "embeddings; this one shares them, as BERT's does. Give a model with shared ones."
            )
        copy_tensors(head, stored, folder)
        return True


def on_device(device: torch.device, tensors: Iterable[Tensor | None]) -> list[Any]:
    """The tensors on the device; None stays None."""
    return [None if tensor is None else tensor.to(device) for tensor in tensors]


def rows_of(rows: list[int], tensors: Iterable[Tensor | None]) -> list[Any]:
    """These rows of each tensor; None stays None."""
    return [None if tensor is None else tensor[rows] for tensor in tensors]
