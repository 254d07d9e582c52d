"""Options of the stage `--pretrain mlm`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from minbert.commands.options import AUTO, OptionGroup, flag


@dataclass(frozen=True)
class MlmOptions(OptionGroup):
    """Masked language modelling on the tasks' own training rows."""

    mlm_epochs: int = flag(1, "Epochs of the stage.", low=1)
    mlm_batch_size: int = flag(32, "Rows in a batch.", low=1)
    mlm_lr: float | str = flag(
        AUTO, "Peak learning rate. auto: 5e-5 x 768 / hidden size.", low=1e-9
    )
    mlm_whole_word: bool = flag(False, "Mask whole words instead of single tokens.")
