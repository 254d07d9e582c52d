"""MultitaskBert: an encoder, a shared first layer, a head per task. Next: sampling.py, then train.py.

B examples, R rows (B, or 2B where the sentences of a pair are encoded apart), T tokens, H hidden.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from data.batching import Batch
from minbert import BertModel, BertTokenizer
from minbert.commands.files import write_json, write_tensors
from minbert.dropout import Dropout
from minbert.fast import positions_read
from minbert.pooling import mean, pool, save_pooling, stored_pooling
from multitask.heads import (
    CosineHead,
    DenseHead,
    FeaturesHead,
    MlpHead,
    PairMlpHeads,
    TwoOrdersHead,
)
from multitask.tasks import TASKS, Task


class MultitaskBert(nn.Module):
    """Three tasks on one encoder.

    With the common layer every sentence vector goes through a linear layer and tanh that all tasks share ([ROB] CL),
    then through its task's head. A pair is encoded "cross", both sentences in one row whose tokens see each other;
    "bi", each in a row of its own; or "dual", one row in each order ([ROB]). With mean pooling "bi" and "cross" give a
    vector for each sentence; a row has only one [CLS], so with "cls" and "pooler" the one vector of a cross-encoded row
    stands for the pair. "dual" gives the vector of each order.

    head: "features", "vm", "ph", "dph", "dpha", "mlp" or "cosine" (heads.py), for PARA `para_head`; SST has a linear
    layer, with "mlp" two. sharing: what PARA and STS share with "mlp". sts_range: of "mlp" and "cosine", whether labels
    of STS stand for cosines from 0 ("zero") or from what was found before training ("fitted"). Without `drops_out` the
    encoder is trained in evaluation mode, which is to say without dropout; that of vectors and heads stays.
    """

    def __init__(
        self,
        encoder: BertModel,
        pooling: str,
        pair_encoding: str,
        dropout_probability: float,
        seed: int,
        head: str = "features",
        para_head: str = "",
        sharing: str = "none",
        has_common_layer: bool = True,
        sts_range: str = "zero",
        vector_dropout: float = 0.0,
        drops_out: bool = True,
    ) -> None:
        super().__init__()
        self.dropout = Dropout(
            vector_dropout
        )  # of the sentence vectors; dropout_probability is that inside each head
        self.encoder, self.pooling, self.pair_encoding, self.drops_out = (
            encoder,
            pooling,
            pair_encoding,
            drops_out,
        )
        self.settings = {
            "pair_encoding": pair_encoding,
            "head": head,
            "para_head": para_head or head,
            "sharing": sharing,
            "has_common_layer": has_common_layer,
            "sts_range": sts_range,
        }
        hidden_size = encoder.config.hidden_size
        with torch.random.fork_rng(
            devices=[]
        ):  # the same heads for a seed, whatever was drawn before
            torch.manual_seed(seed)
            self.shared = nn.Linear(hidden_size, hidden_size) if has_common_layer else None
            self.heads = nn.ModuleDict()
            for task in TASKS.values():
                chosen = self.settings["para_head" if task.name == "para" else "head"]
                if not (chosen == "mlp" and task.is_pair):
                    self.heads[task.name] = self.make_head(
                        chosen, task, hidden_size, dropout_probability
                    )
            if head == "mlp":
                self.heads["pairs"] = PairMlpHeads(
                    hidden_size, dropout_probability, sharing, self.has_range
                )
            for module in (
                module for name, module in self.named_modules() if not name.startswith("encoder")
            ):
                encoder.initialise(module)
            for name, module in self.heads.items():
                if name in TASKS:
                    module.reset(TASKS[name].start)

    def make_head(
        self, name: str, task: Task, hidden_size: int, dropout_probability: float
    ) -> nn.Module:
        """The head `name` for one task; heads.py says what each is."""
        num_vectors = 2 if task.is_pair and self.has_two_vectors else 1
        if not task.is_pair:
            name = "mlp" if name == "mlp" else "vm"
        match name:
            case "vm":
                return DenseHead(num_vectors * hidden_size, task.num_outputs, dropout_probability)
            case "features":
                num_inputs = 4 * hidden_size if num_vectors == 2 else hidden_size
                return FeaturesHead(num_inputs, task.num_outputs, dropout_probability)
            case "cosine":
                return CosineHead(self.has_range and task.name == "sts")
            case "mlp":
                return MlpHead(hidden_size, task.num_outputs, dropout_probability)
            case "ph" | "dph" | "dpha":
                return TwoOrdersHead(
                    hidden_size,
                    dropout_probability,
                    has_difference=name != "ph",
                    has_activation=name == "dpha",
                )
        raise AssertionError(f"there is no head {name}")

    @property
    def has_range(self) -> bool:
        """Whether the lowest cosine of STS is a fitted one."""
        return self.settings["sts_range"] == "fitted"

    @property
    def lowest(self) -> Tensor:
        """Where the cosines of STS begin, a scalar that can be set; of a model that `has_range`."""
        return (self.heads["sts"] if "sts" in self.heads else self.heads["pairs"].cosine).lowest

    def fitted(self) -> dict[str, float]:
        """What was found rather than learned, by name, for the record."""
        return {"sts_lowest": float(self.lowest)} if self.has_range else {}

    @property
    def has_two_vectors(self) -> bool:
        """Whether a pair gives two vectors, rather than one for both sentences."""
        return self.pair_encoding in ("bi", "dual") or self.pooling == "mean"

    def train(self, mode: bool = True) -> MultitaskBert:
        """Training mode, or evaluation mode; see `drops_out`."""
        super().train(mode)
        self.encoder.train(mode and self.drops_out)
        return self

    def forward(self, task: str, batch: Batch) -> Tensor:
        """Raw outputs: "sst" logits (B, 5), "para" a logit (B,), "sts" a number on the 0..5 scale (B,)."""
        output = self.encoder(
            batch.input_ids,
            batch.attention_mask,
            batch.token_type_ids,
            positions=positions_read(batch.attention_mask, self.pooling),
        )
        vectors = (pool(output, batch.attention_mask, self.pooling),)  # (R, H)
        if TASKS[task].is_pair and self.pair_encoding in ("bi", "dual"):
            vectors = vectors[0].chunk(2)  # (B, H) each
        elif TASKS[task].is_pair and self.has_two_vectors:
            is_second = batch.token_type_ids * batch.attention_mask  # (B, T)
            sides = (batch.attention_mask - is_second, is_second)
            vectors = tuple(mean(output.last_hidden_state, side) for side in sides)  # (B, H) each
        head = self.heads[task] if task in self.heads else partial(self.heads["pairs"], task)
        if isinstance(head, TwoOrdersHead):
            vectors = head.with_difference(*vectors)
        vectors = tuple(map(self.dropout, vectors))
        if self.shared is not None:
            vectors = tuple(torch.tanh(self.shared(vector)) for vector in vectors)  # (B, H) each
        return head(*vectors)  # (B, C) or (B,)

    def save_pretrained(self, folder: str | Path, tokenizer: BertTokenizer) -> None:
        """Write the encoder in Hugging Face's layout, which `--model folder` opens, and heads.safetensors."""
        self.encoder.save_pretrained(folder, self.pooling)
        tokenizer.save_pretrained(folder)
        save_pooling(folder, self.pooling)
        own = {
            name: tensor
            for name, tensor in self.state_dict().items()
            if name.startswith(("shared.", "heads."))
        }  # what only training needed is dropped
        write_tensors(Path(folder) / "heads.safetensors", own)
        write_json(Path(folder) / "heads.json", self.settings)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **config_overrides) -> MultitaskBert:
        """Load what `save_pretrained` wrote, such as runs/NAME/model, in evaluation mode, as BertModel's does.

        config_overrides: as of BertModel.from_pretrained. Raises ValueError where there are no heads, or those of
        another version or of other shapes.
        """
        path, pooling = Path(folder) / "heads.json", stored_pooling(folder)
        try:
            stored = dict(json.loads(path.read_text(encoding="utf-8")))
            pair_encoding = stored.pop("pair_encoding")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}: no record of heads there ({error}). Give the model of a finished run, such as "
                "runs/NAME/model, as the run wrote it."
            ) from error
        encoder = BertModel.from_pretrained(folder, **config_overrides)
        try:
            model = cls(encoder, pooling, pair_encoding, dropout_probability=0.0, seed=0, **stored)
            report = model.load_state_dict(
                load_file(path.with_suffix(".safetensors")), strict=False
            )
        except (TypeError, AssertionError) as error:
            raise ValueError(
                f"{path}: of another version ({error}). Start the run anew with this one."
            ) from error
        except (
            OSError,
            SafetensorError,
            RuntimeError,
        ) as error:  # absent, cut short, of other shapes
            raise ValueError(
                f"{path.with_suffix('.safetensors')}: these heads cannot be read ({error}). Bring the "
                "folder back as the run wrote it, or start the run anew."
            ) from error
        wrong = [
            *report.unexpected_keys,
            *(name for name in report.missing_keys if not name.startswith("encoder.")),
        ]
        wrong += [] if pooling else ["a record of their pooling"]
        if wrong:
            raise ValueError(
                f"{folder}: its heads have, or lack, {', '.join(wrong)}, so another version wrote them. "
                "Start the run anew with this one."
            )
        return model.eval()
