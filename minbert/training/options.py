"""Options that every training stage shares. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from minbert.commands.options import AUTO, OptionGroup, flag
from minbert.options import FP32_ONEDNN


@dataclass(frozen=True)
class TrainingOptions(OptionGroup):
    """Device, precision, seed, and how the optimizer steps."""

    seed: int = flag(11711, "Seed of all random numbers.", low=0, high=2**32 - 1, is_common=True)
    device: str = flag(
        AUTO,
        "Where to compute. auto: the fastest device that PyTorch finds.",
        choices=(AUTO, "cpu", "cuda", "mps"),
        is_common=True,
    )
    use_gpu: bool = flag(False, "The same as --device cuda (the course's flag).", is_common=True)
    precision: str = flag(
        AUTO,
        "Precision of matrix products. Weights and losses stay in float32. auto: bf16 if the "
        "processor has fast instructions for it. fp32-onednn: fp32 by oneDNN, which is faster on "
        "some processors.",
        choices=(AUTO, "bf16", "fp32", FP32_ONEDNN),
        is_common=True,
    )
    formulas: str = flag(
        AUTO,
        "Which branches of the formulas run (docs/formulas.md). auto: fast, unless you edited a "
        "lesson file such as minbert/attention.py. Then readable, so that your edit runs.",
        choices=(AUTO, "readable", "fast"),
    )
    tensorboard: bool = flag(
        False,
        "Write the losses, learning rates and scores of all stages to tensorboard/ in the run's "
        "folder, too.",
    )
    save_every: int = flag(200, "Steps between checkpoints.", low=1)
    hand_on: str = flag(
        "better",
        "Which encoder a stage of --pretrain gives to the next stage.\n"
        "- better: the better one of its start and its result, by zero-shot STS (mlm: by held-out "
        "loss)\n"
        "- trained: always its result",
        choices=("better", "trained"),
    )
    # How the optimizer steps. Each stage has its own learning rate.
    schedule: str = flag(
        "linear",
        "How the learning rate changes after the warm-up.",
        choices=("linear", "cosine", "constant"),
    )
    warmup: float = flag(
        0.1, "Share of the steps in which the learning rate rises from 0.", low=0, high=1
    )
    weight_decay: float = flag(
        0.01, "Decoupled weight decay of matrices. Biases and layer norms have none.", low=0
    )
    max_grad_norm: float = flag(
        1.0, "Scale a gradient whose norm is larger down to this norm. 0: never.", low=0
    )

    def check(self) -> None:
        if self.use_gpu and self.device not in (AUTO, "cuda"):
            raise ValueError(
                f"--use_gpu asks for cuda and --device for {self.device}; pass only one of them."
            )
