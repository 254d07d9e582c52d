"""How much memory does training take, against a plain Hugging Face loop?

The number is the highest resident size of a process after three steps on the longest SST sentences.
Each side and each measurement has its own process. Python, torch and the model count on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.benchmarks.comparison import Comparison, json_line, versions
from tools.benchmarks.inputs import require, sst_examples
from tools.benchmarks.limit import notes_without_bf16
from tools.benchmarks.settings import Execution, Settings
from tools.benchmarks.timing import Side, SideProcess
from tools.benchmarks.training_sides import TrainingData, Tricks, our_side, peer_side, write_heads

# The first step makes the state of the optimizer.
NUM_STEPS = 3


def longest_sentences(settings: Settings) -> TrainingData:
    """Return one batch of the longest sentences."""
    examples = sst_examples(settings.data_dir, 10**9)
    by_length = sorted(examples, key=lambda example: len(example.sentence_1))
    longest = by_length[-settings.batch_size :]
    return TrainingData(settings.model, longest, settings.batch_size)


def measure_peak(num_threads: int, make_side: Callable[..., Side], *arguments: Any) -> int:
    """Return the peak of a new process after NUM_STEPS steps, in bytes."""
    # A process begins with the peak of its parent. This one's is below that of a training process.
    with SideProcess(num_threads, make_side, *arguments) as process:
        for _ in range(NUM_STEPS):
            process(0)
        return process("peak")


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 3 processes of each side; quick: 1."""
    require("transformers")
    data = longest_sentences(settings)
    write_heads(data, settings.folder / "heads")

    ours = (our_side, data, settings.folder / "ours", Execution(precision=settings.precision))
    peer = (peer_side, data, Execution(), Tricks())
    our_peaks = []
    peer_peaks = []
    for _ in range(settings.rounds(3, 1)):
        our_peaks.append(measure_peak(settings.threads, *ours))
        peer_peaks.append(measure_peak(settings.threads, *peer))

    comparison = Comparison.of(
        f"peak, ours ({settings.precision}) : plain Hugging Face loop (fp32)",
        "MB",
        our_peaks,
        peer_peaks,
        scale=1e-6,
    )
    notes = notes_without_bf16("Both sides are in fp32.")
    notes.append(f"{NUM_STEPS} steps on the {len(data.examples)} longest sentences")
    return json_line("memory", [comparison], versions("transformers"), notes=notes)
