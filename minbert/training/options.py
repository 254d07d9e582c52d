"""Options that every training stage shares. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from minbert.commands.options import AUTO, OptionGroup, flag


@dataclass(frozen=True)
class TrainingOptions(OptionGroup):
    """Device, precision, seed, and how the optimizer steps."""

    seed: int = flag(11711, "Seed of everything random.", low=0, high=2**32 - 1, is_common=True)
    device: str = flag(
        AUTO,
        "Where to compute. auto: the fastest device that PyTorch finds.",
        choices=(AUTO, "cpu", "cuda", "mps"),
        is_common=True,
    )
    use_gpu: bool = flag(False, "The course's flag. The same as --device cuda.", is_common=True)
    precision: str = flag(
        AUTO,
        "Precision of matrix products. Weights and losses stay in float32. auto: bf16 where the "
        "processor has bf16 instructions.",
        choices=(AUTO, "bf16", "fp32"),
        is_common=True,
    )
    save_every: int = flag(200, "Steps between checkpoints.", low=1)
    hand_on: str = flag(
        "better",
        "Which encoder a stage of --pretrain gives to the next: the better one of its start and its "
        "result (by zero-shot STS, after mlm by held-out loss), or always the trained one.",
        choices=("better", "trained"),
    )
    schedule: str = flag(
        "linear",
        "Learning rate after warm-up.",
        choices=("linear", "cosine", "constant"),
    )
    warmup: float = flag(0.1, "Share of the steps in which the learning rate rises.", low=0, high=1)
    weight_decay: float = flag(
        0.01, "Decoupled weight decay of matrices. Biases and norms have none.", low=0
    )
    max_grad_norm: float = flag(1.0, "Clip the gradient to this norm. 0: never clip.", low=0)

    def check(self) -> None:
        if self.use_gpu and self.device not in (AUTO, "cuda"):
            raise ValueError(
                f"--use_gpu asks for cuda and --device for {self.device}; pass only one of them."
            )
