"""Options of the stage `--pretrain mlm`, and of `python -m minbert.pretraining`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.options import (
    AUTO,
    MOST_EPOCHS,
    NONE,
    CommandOptions,
    OptionGroup,
    argument,
    flag,
    group,
)
from minbert.options import FP32_ONEDNN, check_compiled
from minbert.pretraining.sizes import SIZES

DEFAULT_SIZE = "mini"


# The updates of one training. The plan of more would take minutes before the first step.
MOST_UPDATES = 50_000_000


@dataclass(frozen=True)
class MlmOptions(OptionGroup):
    """Masked language modelling on the tasks' own training rows."""

    mlm_epochs: int = flag(1, "Epochs of the stage.", low=1, high=MOST_EPOCHS)
    mlm_batch_size: int = flag(32, "Rows in a batch.", low=1)
    mlm_lr: float | str = flag(
        AUTO, "Peak learning rate. auto: 5e-5 x 768 / hidden size.", low=1e-9
    )
    mlm_whole_word: bool = flag(False, "Mask whole words instead of single tokens.")


@dataclass(frozen=True)
class PlainTextOptions(OptionGroup):
    """Masked language modelling on plain text: how an encoder is trained from it."""

    size: str = flag(
        AUTO,
        f"Named shape. auto: {DEFAULT_SIZE}, or the shape of --init.",
        choices=(AUTO, *SIZES),
    )
    init: str = flag(
        NONE,
        "Start from the weights, shape and vocabulary of this model: minbert-mini, or a folder of "
        "this command.",
    )
    vocabulary: str = flag(
        NONE, "Take the vocabulary of this model or folder instead of a new one."
    )
    tokens: int = flag(22_000_000, "Tokens to see, over all passes.", low=1)
    batch_size: int = flag(32, "Packed sequences in a batch.", low=1)
    accumulation: int = flag(1, "Batches that make one update.", low=1)
    block_size: int = flag(64, "Tokens of a packed sequence.", low=8)
    lr: float = flag(5e-4, "Peak learning rate. It decays linearly.", low=0)
    warmup: float = flag(
        0.05, "Share of the updates in which the learning rate rises.", low=0, high=1
    )
    pairs: float = flag(
        0.0,
        "Share of the sequences that hold two overlapping passages as a pair.",
        low=0,
        high=1,
    )
    seed: int = flag(0, "Seed of everything random.", low=0, high=2**32 - 1)
    whole_word: bool = flag(False, "Mask whole words instead of single tokens.")
    compile: bool = flag(False, "Let torch.compile make kernels of the layers.")
    device: str = flag(AUTO, "Where to compute.", choices=(AUTO, "cpu", "cuda", "mps"))
    precision: str = flag(
        AUTO,
        "Precision of matrix products. fp32-onednn: fp32 by oneDNN, which is faster on some "
        "processors.",
        choices=(AUTO, "fp32", "bf16", FP32_ONEDNN),
    )
    formulas: str = flag(
        AUTO,
        "Which branches of the formulas run (docs/formulas.md). auto: fast, unless you edited a "
        "lesson file. Then readable, so that your edit runs.",
        choices=(AUTO, "readable", "fast"),
    )

    @property
    def has_init(self) -> bool:
        """Whether training goes on from the weights of another model."""
        return self.init != NONE

    @property
    def has_vocabulary(self) -> bool:
        """Whether the vocabulary is that of another model."""
        return self.vocabulary != NONE

    @property
    def named_size(self) -> str:
        """The named shape of a model that starts from random weights."""
        return DEFAULT_SIZE if self.size == AUTO else self.size

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch_size * self.block_size

    def check(self) -> None:
        check_compiled(self.compile, self.precision)
        # A model brings its own shape and vocabulary.
        are_set = {"size": self.size != AUTO, "vocabulary": self.has_vocabulary}
        for name, is_set in are_set.items():
            if self.has_init and is_set:
                raise ValueError(
                    f"--{name} {getattr(self, name)} and --init {self.init}: a model brings its own"
                    "; drop one of the two."
                )
        num_updates = self.tokens // (self.batch_tokens * self.accumulation)
        if num_updates > MOST_UPDATES:
            raise ValueError(
                f"--tokens {self.tokens:,} makes {num_updates:,} updates, and at most "
                f"{MOST_UPDATES:,} are possible. Lower it, or raise --batch-size."
            )
        if self.pairs and not round(self.pairs * self.batch_size):
            raise ValueError(
                f"--pairs {self.pairs} of --batch-size {self.batch_size} is no sequence; raise one."
            )


@dataclass(frozen=True)
class PlacesOptions(CommandOptions):
    """The flags of `python -m minbert.pretraining` that say where, not how."""

    corpus: tuple[Path, ...] = argument(
        (), "plain-text files in UTF-8, a paragraph a line", "CORPUS..."
    )
    out: Path | None = argument(
        None, "new folder for config.json, model.safetensors, vocab.txt", "OUT"
    )
    resume: Path | None = argument(None, "continue the run in this folder; no other flag", "DIR")


@dataclass(frozen=True)
class PlainTextCommand(CommandOptions):
    """All flags of `python -m minbert.pretraining`."""

    places: PlacesOptions = group(PlacesOptions)
    training: PlainTextOptions = group(PlainTextOptions)


@dataclass(frozen=True)
class PlainTextRun:
    """One run of `python -m minbert.pretraining`: which text, into which folder, and how."""

    corpus: tuple[Path, ...]
    folder: Path
    options: PlainTextOptions
    is_resumed: bool = False
