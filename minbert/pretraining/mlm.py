"""Masked-language-model objective and head (Devlin et al. 2019, section 3.1, task 1).

B batch, T tokens, H hidden, V vocabulary, M masked tokens of the batch. Next: pretrain.py, which trains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from minbert.bert import BertModel
from minbert.commands.files import write_tensors
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer
from minbert.training import processes, runtime
from minbert.weights import copy_tensors, modernise, read_tensors, resolve, to_hugging_face

IGNORED = -100  # the label of a token that is not predicted
ROWS_AT_ONCE = {
    "cpu": 128,
    "cuda": 8192,
    "mps": 8192,
}  # on a CPU few, so that they stay in its cache


def mask_tokens(
    input_ids: Tensor,
    is_special: Tensor,
    vocab_size: int,
    mask_token_id: int,
    probability: float = 0.15,
    continues: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose tokens to predict and hide most of them; draws from torch's global generator, which checkpoints save.

    input_ids (B, T) int64; is_special (B, T) bool, True where a token is never chosen ([CLS], [SEP], padding). Every
    other token is chosen with `probability`; of the chosen 80 % become [MASK], 10 % a random token, 10 % stay.
    With `continues` (B, T) bool, True for the later pieces of a word (##ing), words are chosen instead of tokens:
    whole-word masking, where a piece cannot be guessed from the rest of its own word. What becomes of a chosen piece is
    still drawn for each alone, as in BERT's own code.
    Returns (corrupted input_ids, labels), both (B, T) int64; labels are IGNORED where nothing was chosen.
    """
    draws = torch.rand(input_ids.shape)  # (B, T)
    if continues is not None:  # each piece takes the draw of the token that begins its word
        starts = (
            torch.arange(input_ids.size(1)).expand_as(input_ids).masked_fill(continues, 0)
        )  # (B, T)
        draws = draws.gather(1, starts.cummax(dim=1).values)
    chosen = (draws < probability) & ~is_special  # (B, T)
    labels = input_ids.masked_fill(~chosen, IGNORED)
    fate = torch.rand(input_ids.shape)  # (B, T)
    corrupted = input_ids.masked_fill(chosen & (fate < 0.8), mask_token_id)
    random_ids = torch.randint(vocab_size, input_ids.shape)
    return torch.where(chosen & (fate >= 0.8) & (fate < 0.9), random_ids, corrupted), labels


@dataclass(frozen=True)
class Masking:
    """`mask_tokens` for one vocabulary, input_ids (B, T) on the CPU -> (corrupted input_ids, labels)."""

    is_special: Tensor  # (V,) bool
    continues: (
        Tensor | None
    )  # (V,) bool: the tokens that begin with ##; None masks tokens, not words
    mask_token_id: int

    @classmethod
    def of(cls, tokenizer: BertTokenizer, whole_word: bool = False) -> Masking:
        by_id = {number: token for token, number in tokenizer.vocabulary.items()}
        ordered = [
            by_id.get(number, "") for number in range(max(by_id) + 1)
        ]  # vocab.txt may have blank lines
        continues = (
            torch.tensor([token.startswith("##") for token in ordered]) if whole_word else None
        )
        return cls(
            torch.tensor([token in SPECIAL_TOKENS for token in ordered]),
            continues,
            tokenizer.mask_token_id,
        )

    def __call__(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        continues = None if self.continues is None else self.continues[input_ids]
        return mask_tokens(
            input_ids,
            self.is_special[input_ids],
            len(self.is_special),
            self.mask_token_id,
            continues=continues,
        )


class CrossEntropy(torch.autograd.Function):
    """Summed cross-entropy over a large vocabulary, logits (M, V) and targets (M,) int64 -> a float32 scalar in nats.

    F.cross_entropy(logits.float(), targets, reduction="sum"), a few rows at a time: the float32 copy of the logits,
    their log-softmax and its gradient are never held whole, and the pass over them is made once, not five times. The
    gradient, softmax(logits) - one_hot(targets), is computed with the loss. Differentiable once.
    """

    @staticmethod
    def forward(context, logits: Tensor, targets: Tensor) -> Tensor:
        precise = torch.promote_types(logits.dtype, torch.float32)
        total, gradient = (
            torch.zeros((), dtype=precise, device=logits.device),
            torch.empty_like(logits),
        )
        rows = ROWS_AT_ONCE[logits.device.type]
        for part, target, slot in zip(
            logits.split(rows), targets.unsqueeze(1).split(rows), gradient.split(rows), strict=True
        ):
            log_probabilities = part.to(precise).log_softmax(dim=-1)  # (rows, V)
            total -= log_probabilities.gather(1, target).sum()
            slot.copy_(
                log_probabilities.exp_().scatter_add_(
                    1, target, torch.full_like(target, -1, dtype=precise)
                )
            )
        context.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(context, scale: Tensor) -> tuple[Tensor, None]:
        (gradient,) = context.saved_tensors
        return gradient * scale, None


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
        self,
        input_ids: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits (M, V) and true token ids (M,) at the chosen tokens only, which is all that the head works on.

        input_ids, labels (B, T) int64 as `mask_tokens` makes them; the others as in BertModel. M may be 0.
        """
        chosen = (labels != IGNORED).flatten().nonzero().squeeze(1)  # (M,)
        output = self.bert(input_ids, attention_mask, token_type_ids, positions=chosen)
        return self(output.last_hidden_state.squeeze(1)), labels.flatten()[chosen]  # (M, V), (M,)

    def loss(
        self,
        input_ids: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Mean cross-entropy over the chosen tokens, a float32 scalar in nats; 0 where none was chosen.

        Of several processes each gets its own rows' share of that mean.
        """
        rows, share = processes.own_rows(len(labels))
        inputs = (input_ids, labels, token_type_ids, attention_mask)
        with processes.own_randomness():
            logits, targets = self.predict(
                *(each if each is None else each[rows] for each in inputs)
            )
        # A sum over a process's own rows is its share; a process without rows has encoded one only to keep step.
        return (
            CrossEntropy.apply(logits, targets)
            * bool(share)
            / max(1, int((labels != IGNORED).sum()))
        )

    @torch.no_grad()
    def score(
        self, batches: Iterable[tuple[Tensor, ...]], masking: Masking, precision: str
    ) -> dict[str, float]:
        """held_out_loss in nats and masked_accuracy, 0 to 1, under one fixed mask; random states and mode are put back.

        batches: tuples of input_ids, token_type_ids and attention_mask, the last two None or left out at will.
        """
        device, was_training = self.bias.device, self.training
        self.eval()
        total = correct = count = 0.0
        with torch.random.fork_rng(devices=[]), runtime.autocast(device, precision):
            torch.default_generator.manual_seed(0)  # the CPU's: masks are drawn there
            for input_ids, *rest in batches:
                inputs = (*masking(input_ids), *rest)
                logits, targets = self.predict(
                    *(part if part is None else part.to(device) for part in inputs)
                )
                total += float(F.cross_entropy(logits.float(), targets, reduction="sum"))
                correct += float((logits.argmax(-1) == targets).sum())
                count += len(targets)
        self.train(was_training)
        return {"held_out_loss": total / max(1, count), "masked_accuracy": correct / max(1, count)}

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write the folder that BertModel.from_pretrained and transformers.AutoModelForMaskedLM open."""
        parameters = self.bert.named_parameters()
        encoder = {
            f"bert.{to_hugging_face(name)}": p for name, p in parameters if "pooler" not in name
        }
        tensors = encoder | self.head_tensors()
        write_tensors(
            Path(folder) / "model.safetensors",
            {name: tensor.to(dtype) for name, tensor in tensors.items()},
        )
        self.bert.config.save_pretrained(folder, "BertForMaskedLM")

    def head_tensors(self) -> dict[str, Tensor]:
        """The head's parameters by Hugging Face's names."""
        head = {
            "transform.dense.weight": self.transform.weight,
            "transform.dense.bias": self.transform.bias,
            "transform.LayerNorm.weight": self.norm.weight,
            "transform.LayerNorm.bias": self.norm.bias,
            "bias": self.bias,
        }
        return {f"cls.predictions.{name}": tensor for name, tensor in head.items()}

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **config_overrides) -> BertForMaskedLM:
        """Names, overrides and errors as in BertModel.from_pretrained; ValueError where there is no head, too."""
        folder = resolve(name_or_folder)
        model = cls(BertModel.from_pretrained(folder, **config_overrides))
        if not model.load_head(folder):
            raise ValueError(
                f"{folder}: no complete masked-language-model head in it (needed are "
                f"{', '.join(model.head_tensors())}); give one such as minbert.pretrain writes."
            )
        return model

    def load_head(self, folder: str | Path) -> bool:
        """Take the head's parameters from `folder`; False, and nothing changed, where it has no complete head.

        ValueError for one of another shape, or with an output matrix of its own: here that is the word embeddings.
        """
        stored = {modernise(name): tensor for name, tensor in read_tensors(folder).items()}
        wanted = self.head_tensors()
        if not wanted.keys() <= stored.keys():
            return False
        words = stored["embeddings.word_embeddings.weight"]
        if not torch.equal(stored.get("cls.predictions.decoder.weight", words), words):
            raise ValueError(
                f"{folder}: its head has an output matrix (cls.predictions.decoder.weight) other than the "
                "word embeddings; this one shares them, as BERT's does. Give a model with shared ones."
            )
        copy_tensors(wanted, stored, folder)
        return True
