"""MultitaskBert: an encoder, a common layer, and a head per task.

Legend: B examples, R rows (B, or 2B where a pair has two rows), T tokens, H hidden, C outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from data.batching import Batch
from data.task_specs import stored
from minbert import BertModel, BertTokenizer
from minbert.commands.digests import check_recorded, recording
from minbert.commands.files import read_json, write_json, write_tensors
from minbert.commands.options import AUTO, NONE, from_flat
from minbert.dropout import Dropout
from minbert.pooling import FILE_NAME as POOLING_FILE
from minbert.pooling import mean, pool, positions_read, save_pooling, stored_pooling
from multitask.head_registry import HEADS
from multitask.heads import (
    CosineHead,
    Head,
    HeadShape,
    PairMlpHeads,
    PairTask,
    build_head,
    module_name,
)
from multitask.options import HeadOptions
from multitask.tasks import TASKS, Task, Tasks, stored_tasks

PAIRS = "pairs"  # the name of PairMlpHeads among the heads


class UnfitNames(NamedTuple):
    """The tensors by which a file of heads differs from the model."""

    missing: list[str]  # only the model has them
    unknown: list[str]  # only the file has them


class MultitaskBert(nn.Module):
    """The tasks of a run on one encoder.

    The common layer is a linear layer and tanh that all tasks share ([ROB] CL). Every sentence
    vector goes through it, then through the head of its task. There are three ways to encode a
    pair:

    - "cross": both sentences in one row, where their tokens see each other;
    - "bi": each sentence in its own row;
    - "dual": one row in each order ([ROB]).

    With mean pooling, "bi" and "cross" give a vector for each sentence. A row has only one [CLS],
    so with "cls" and "pooler" the one vector of a cross-encoded row stands for the pair. "dual"
    gives the vector of each order.

    pooling: "mean", "cls" or "pooler". heads: which heads read the vectors, and the pair
    encoding. seed: of the heads' weights. has_encoder_dropout: without it the encoder is trained
    in evaluation mode, which turns its dropout off. The dropout of vectors and heads stays.
    tasks: by name; each of them gets a head. Raises ValueError where the pair encoding is "auto",
    and where a task has no meaning with its head.
    """

    def __init__(
        self,
        encoder: BertModel,
        pooling: str,
        heads: HeadOptions,
        seed: int,
        has_encoder_dropout: bool = True,
        tasks: Tasks = TASKS,
    ) -> None:
        super().__init__()
        if heads.pair_encoding == AUTO:
            raise ValueError(
                "--pair_encoding is auto; a model needs one of "
                f"{', '.join(heads.readable_encodings())}. Pass HeadOptions(pair_encoding=...)."
            )
        self.options = heads
        self.tasks = dict(tasks)
        self.pooling = pooling
        self.pair_encoding = heads.pair_encoding
        self.has_encoder_dropout = has_encoder_dropout

        self.dropout = Dropout(heads.vector_dropout_prob)  # of sentence vectors
        self.encoder = encoder
        # A seed gives the same heads, whatever was drawn before.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.shared = self.make_common_layer()
            self.heads = self.make_heads()
            for name, module in self.named_modules():
                if not name.startswith("encoder"):
                    encoder.initialise(module)
        for task in self.tasks.values():
            if self.has_own_head(task.name):
                self.head_of(task.name).reset(task.start)

    # --- building ---------------------------------------------------------------------------------

    def make_common_layer(self) -> nn.Linear | None:
        """The layer that all tasks share, or None."""
        hidden_size = self.encoder.config.hidden_size
        return None if self.options.common_layer == NONE else nn.Linear(hidden_size, hidden_size)

    def make_heads(self) -> nn.ModuleDict:
        """A head for each task, by name. With --head mlp one module holds those of all pairs."""
        heads = nn.ModuleDict()
        pairs = []
        for task in self.tasks.values():
            if self.has_pair_module and task.is_pair:
                pairs.append(task)
            else:
                heads[module_name(task.name)] = self.make_head(task)
        if pairs:
            heads[PAIRS] = PairMlpHeads(
                self.encoder.config.hidden_size,
                self.options.hidden_dropout_prob,
                self.options.sharing,
                self.has_range,
                tasks={task.name: pair_task(task) for task in pairs},
            )
        return heads

    def make_head(self, task: Task) -> Head:
        """The head of one task."""
        name = self.options.head_of(task.name)
        if not task.is_pair and not HEADS[name].reads_sentences:
            name = "vm"  # the other heads differ in how they read two vectors
        shape = HeadShape(
            hidden_size=self.encoder.config.hidden_size,
            num_vectors=2 if task.is_pair and self.has_two_vectors else 1,
            num_outputs=task.num_outputs,
            dropout_probability=self.options.hidden_dropout_prob,
            has_range=self.has_range and task.is_regression,
            method_options=self.options.of_head,
            low=task.format.low if task.is_regression else 0.0,
            high=task.format.high if task.is_regression else 5.0,
        )
        return build_head(name, shape)

    def has_own_head(self, task: str) -> bool:
        """Whether a task has its own module, and none for all pairs."""
        return module_name(task) in self.heads

    def head_of(self, task: str) -> Head:
        """The head of a task that has its own module."""
        return cast(Head, self.heads[module_name(task)])

    # --- properties -------------------------------------------------------------------------------

    @property
    def has_two_vectors(self) -> bool:
        """Whether a pair gives two vectors, rather than one for both sentences."""
        return self.pair_encoding in ("bi", "dual") or self.pooling == "mean"

    @property
    def has_pair_module(self) -> bool:
        """Whether one module holds the heads of all pairs."""
        return HEADS[self.options.head].has_pair_module

    @property
    def has_range(self) -> bool:
        """Whether the lowest cosine of a regression is fitted before training."""
        return self.options.sts_range == "fitted"

    def lowest_cosines(self) -> dict[str, Tensor]:
        """Where the cosines of a regression begin, by task: scalars that `fit_ranges` sets.

        Empty unless the range is fitted.
        """
        lowest = {}
        for name, task in self.tasks.items():
            if not (self.has_range and task.is_pair and task.is_regression):
                continue
            if self.has_pair_module:
                lowest[name] = cast(PairMlpHeads, self.heads[PAIRS]).cosine_of(name).lowest
            else:
                lowest[name] = cast(CosineHead, self.head_of(name)).lowest
        return lowest

    def fitted(self) -> dict[str, float]:
        """The numbers that were fitted before training, by name, for the record."""
        return {f"{task}_lowest": float(value) for task, value in self.lowest_cosines().items()}

    # --- computing --------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> MultitaskBert:
        """Set training mode or evaluation mode.

        Without encoder dropout the encoder stays in evaluation mode.
        """
        super().train(mode)
        self.encoder.train(mode and self.has_encoder_dropout)
        return self

    def forward(self, task: str, batch: Batch) -> Tensor:
        """Compute the raw outputs of a batch of one task.

        classes: logits (B, C). binary: a logit (B,). score: a number on the task's scale (B,).
        """
        vectors = self.sentence_vectors(batch, self.tasks[task].is_pair)  # (B, H) each
        has_head = self.has_own_head(task)
        # Some heads read more than the encoder gives, such as a difference.
        if has_head:
            vectors = self.head_of(task).inputs(*vectors)
        vectors = tuple(self.dropout(vector) for vector in vectors)
        # The common layer (CL).
        if self.shared is not None:
            vectors = tuple(torch.tanh(self.shared(vector)) for vector in vectors)  # (B, H) each

        if has_head:
            return self.head_of(task)(*vectors)  # (B, C) or (B,)
        return self.heads[PAIRS](task, *vectors)  # (B, C) or (B,)

    def sentence_vectors(self, batch: Batch, is_pair: bool) -> tuple[Tensor, ...]:
        """Encode a batch: one vector (B, H) per example, or two for pairs if `has_two_vectors`."""
        output = self.encoder(
            batch.input_ids,
            batch.attention_mask,
            batch.token_type_ids,
            positions=positions_read(batch.attention_mask, self.pooling),
        )
        if is_pair and self.pair_encoding in ("bi", "dual"):
            # The first B rows hold one sentence or order of each pair, the next B the other one.
            vectors = pool(output, batch.attention_mask, self.pooling)  # (2B, H)
            return vectors.chunk(2)  # (B, H) each
        if is_pair and self.has_two_vectors:
            # Both sentences stand in one row: take the mean over the tokens of each.
            is_second = batch.sentence_ids * batch.attention_mask  # (B, T)
            is_first = batch.attention_mask - is_second  # (B, T)
            states = output.last_hidden_state  # (B, T, H)
            return mean(states, is_first), mean(states, is_second)  # (B, H) each
        return (pool(output, batch.attention_mask, self.pooling),)  # (B, H)

    # --- on disk ----------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | Path, tokenizer: BertTokenizer) -> None:
        """Write encoder, tokenizer and heads.

        The encoder is in Hugging Face's layout, so `--model folder` opens it.
        """
        folder = Path(folder)
        self.encoder.save_pretrained(folder, self.pooling)
        tokenizer.save_pretrained(folder)
        save_pooling(folder, self.pooling)

        # Other tensors, such as a companion's, were only there for training.
        tensors = {}
        for name, tensor in self.state_dict().items():
            if name.startswith(("shared.", "heads.")):
                tensors[name] = tensor
        settings = {**stored_settings(self.options), "tasks": stored(self.tasks)}
        with recording(folder) as digests:
            path = folder / "heads.safetensors"
            digests[path.name] = write_tensors(path, tensors)
            path = folder / "heads.json"
            digests[path.name] = write_json(path, settings)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **config_overrides: Any) -> MultitaskBert:
        """Load the files of `save_pretrained`, such as runs/NAME/model, in evaluation mode.

        Its `tasks` are those of the run. A folder of an older version has the three of the course.

        config_overrides: as in BertModel.from_pretrained. Raises ValueError if there are no heads,
        or heads of another version or of other shapes.
        """
        path = Path(folder) / "heads.json"
        pooling = stored_pooling(folder)
        settings = read_settings(path)
        if pooling is None:
            raise ValueError(
                f"{folder}: the record of the pooling is missing ({POOLING_FILE}), so it is not "
                "known which sentence vectors its heads read. Bring the file back as the run wrote "
                "it, or start the run anew."
            )
        check_heads(path, settings)
        encoder = BertModel.from_pretrained(folder, **config_overrides)
        try:
            tasks = stored_tasks(settings)
            options = head_options(settings)
            model = cls(encoder, pooling, options, seed=0, tasks=tasks)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: of another version ({error}). Start the run anew with this one."
            ) from error

        tensors_path = path.with_suffix(".safetensors")
        names = model.load_heads(tensors_path)
        if names.missing or names.unknown:
            raise ValueError(
                f"{tensors_path}: {describe_names(names)}. The file does not fit {path.name} in "
                "this version. Bring both files back as the run wrote them, or start the run anew "
                "with this version."
            )
        return model.eval()

    def load_heads(self, path: Path) -> UnfitNames:
        """Load the tensors of the common layer and the heads.

        Returns the names that do not fit. Raises ValueError if the file is absent, cut short, or
        holds other shapes.
        """
        try:
            check_recorded(path)
            report = self.load_state_dict(load_file(path), strict=False)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ValueError(
                f"{path}: these heads cannot be read ({error}). Bring the folder back as the run "
                "wrote it, or start the run anew."
            ) from error
        missing = [name for name in report.missing_keys if not name.startswith("encoder.")]
        return UnfitNames(missing, list(report.unexpected_keys))


def describe_names(names: UnfitNames) -> str:
    """The tensors that do not fit, for a message."""
    parts = []
    if names.missing:
        parts.append(f"it lacks {', '.join(names.missing)}")
    if names.unknown:
        parts.append(f"this model has no {', '.join(names.unknown)}")
    return ", and ".join(parts)


def pair_task(task: Task) -> PairTask:
    """What PairMlpHeads has to know of a task."""
    format = task.format
    return PairTask(task.num_outputs, task.is_regression, format.low, format.high)


# --- heads.json -----------------------------------------------------------------------------------


def stored_settings(options: HeadOptions) -> dict[str, Any]:
    """The content of heads.json: the options that decide which heads there are."""
    return {
        "pair_encoding": options.pair_encoding,
        "head": options.head,
        "para_head": options.head_of_para,
        "sharing": options.sharing,
        "has_common_layer": options.common_layer != NONE,
        "sts_range": options.sts_range,
        **options.method_values(),
    }


def read_settings(path: Path) -> dict[str, Any]:
    """Read heads.json. Raises ValueError if it holds no record of heads."""
    if path.is_file():
        check_recorded(path)
    try:
        settings = dict(read_json(path))
        settings["pair_encoding"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: no record of heads there ({error}). Give the model of a finished run, such "
            "as runs/NAME/model, as the run wrote it."
        ) from error
    return settings


def check_heads(path: Path, settings: Mapping[str, Any]) -> None:
    """ValueError where heads.json names a head that a file for --plugin may have to register."""
    for name in (settings.get("head"), settings.get("para_head")):
        if name is not None and name not in HEADS:
            raise ValueError(
                f"{path}: there is no head '{name}'. If a file of --plugin registers it, load that "
                "file first: from minbert.commands.plugins import load; load('mine.py'). The heads "
                f"are {', '.join(HEADS)}."
            )


def head_options(settings: Mapping[str, Any]) -> HeadOptions:
    """The options of stored heads, without dropout.

    Raises TypeError for a name and ValueError for a value of another version.
    """
    values = {name: value for name, value in settings.items() if name != "tasks"}
    has_common_layer = values.pop("has_common_layer", True)
    values["common_layer"] = "tanh" if has_common_layer else NONE
    # The record names the head of PARA also where it is that of all pairs.
    if values.get("para_head") == values.get("head"):
        values["para_head"] = AUTO
    # A loaded model predicts. Training sets its own dropout.
    no_dropout = {"hidden_dropout_prob": 0.0, "vector_dropout_prob": 0.0}
    return from_flat(HeadOptions, {**values, **no_dropout})
