"""Options of the encoder. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minbert.commands.options import AUTO, OptionGroup, flag

# Encoders with fewer units than this have other defaults. They were measured with 192 units
# (docs/archive/results.md).
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
