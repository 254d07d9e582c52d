"""Options of the encoder, and of `python -m minbert.draw_attention`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minbert.commands.options import (
    AUTO,
    CommandOptions,
    OptionGroup,
    argument,
    flag,
    positional,
)
from minbert.commands.outputs import HELP_OF_OVERWRITE

# A value of --precision: float32, with the products of linear.py by oneDNN.
FP32_ONEDNN = "fp32-onednn"

# Of predictions. Training takes all but int8.
PRECISIONS = ("auto", "fp32", "bf16", "int8", FP32_ONEDNN)

# Encoders with fewer units than this have other defaults, which were chosen with 192 units.
SMALL = 256


@dataclass(frozen=True)
class EncoderOptions(OptionGroup):
    """Which encoder a run starts from, and how it computes."""

    model: str = flag(
        "minbert-mini-distilled",
        "Encoder to start from: minbert-mini-distilled or minbert-mini (both bundled), minilm "
        "(after setup.sh --minilm), a folder in the Hugging Face layout, or a name on its hub, "
        "such as bert-base-uncased. BERT, DistilBERT, RoBERTa and XLM-R are read.",
        is_common=True,
    )
    pooling: str = flag(
        "mean",
        "How token vectors become one sentence vector: the mean of all tokens, the vector of "
        "[CLS], or the output of BERT's pooler.",
        choices=("mean", "cls", "pooler"),
        is_common=True,
    )
    attention: str = flag(
        AUTO,
        "Attention written out (eager), or torch's fused kernel. Both compute the same function. "
        "auto: fused with --device cuda, else eager.",
        choices=(AUTO, "eager", "fused"),
    )
    encoder_dropout: float | str = flag(
        AUTO,
        "Dropout in the encoder. auto: the value in the model's config.json. In the tasks, "
        f"encoders narrower than {SMALL} units use 0 unless you set this or --attention_dropout.",
        low=0,
        high=0.9,
    )
    attention_dropout: float | str = flag(
        AUTO,
        "Dropout of attention probabilities. auto: chosen like --encoder_dropout.",
        low=0,
        high=0.9,
    )
    compile: bool = flag(
        False,
        "Compile the encoder's layers with torch.compile, for a GPU. The first steps take a "
        "minute.",
    )

    def dropout_overrides(self) -> dict[str, Any]:
        """The dropout fields of the encoder's config that the user has set."""
        overrides: dict[str, Any] = {}
        if self.encoder_dropout != AUTO:
            overrides["hidden_dropout_prob"] = float(self.encoder_dropout)
        if self.attention_dropout != AUTO:
            overrides["attention_probs_dropout_prob"] = float(self.attention_dropout)
        return overrides

    def has_dropout_in_tasks(self, hidden_size: int) -> bool:
        """Whether the encoder drops out in the multitask stage, too."""
        return hidden_size >= SMALL or bool(self.dropout_overrides())


def check_compiled(is_compiled: bool, precision: str) -> None:
    """Refuse layers of torch.compile with oneDNN's products, which it cannot compile."""
    if is_compiled and precision == FP32_ONEDNN:
        raise ValueError(
            f"--compile and --precision {FP32_ONEDNN} do not go together: torch.compile cannot "
            "compile that product. Drop one of the two."
        )


PICTURE_FORMATS = (".svg", ".png", ".pdf")
WRITER = "minBERT"  # the program that a picture names


@dataclass(frozen=True)
class PictureOptions(CommandOptions):
    """The command line of minbert.draw_attention."""

    text: str = positional("TEXT", "the sentence, in quotation marks")
    text_pair: str | None = argument(
        None, "a second sentence, which the model reads in one row", "TEXT"
    )
    model: str = argument(
        EncoderOptions().model,
        "a bundled model, minilm, a folder such as runs/latest/model, or a hub name",
    )
    layer: int | None = argument(None, "draw the heads of this layer only; the first layer is 0")
    head: int | None = argument(None, "with --layer: draw this head only; the first head is 0")
    out: Path = argument(
        Path("attention.svg"),
        f"the picture; its name ends in one of {', '.join(PICTURE_FORMATS)}",
        "FILE",
    )
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)

    def check(self) -> None:
        if not self.text.strip():
            raise ValueError("TEXT is empty. Pass a sentence in quotation marks.")
        if self.head is not None and self.layer is None:
            raise ValueError(f"--head {self.head} has no meaning without --layer. Pass both.")
        if self.out.suffix not in PICTURE_FORMATS:
            raise ValueError(
                f"--out is {self.out}; its name must end in one of {', '.join(PICTURE_FORMATS)}."
            )
