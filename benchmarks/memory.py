"""How much memory does training take, against a plain Hugging Face loop?

The resident process's highest point after three steps on the longest SST sentences, each side and each measurement in a
process of its own. Python, torch and the model count on both sides.
"""

from __future__ import annotations

from benchmarks.comparison import Comparison, json_line, versions
from benchmarks.material import Place, Settings, require, sst_examples, without_bf16
from benchmarks.sides import Process
from benchmarks.training import our_side, peer_side, write_heads

NUM_STEPS = 3  # the first makes the optimizer's state


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 3 processes of each side; quick: 1."""
    require("transformers")
    examples = sorted(
        sst_examples(settings.data_dir, 10**9), key=lambda example: len(example.sentence_1)
    )
    examples = examples[-settings.batch_size :]
    write_heads(settings.model, settings.folder / "heads", examples)
    sides = {
        "ours": (
            our_side,
            settings.model,
            settings.folder / "ours",
            examples,
            settings.batch_size,
            Place(precision=settings.precision),
        ),
        "peer": (peer_side, settings.model, examples, settings.batch_size, Place()),
    }
    peaks: dict[str, list[int]] = {name: [] for name in sides}
    for _ in range(settings.rounds(3, 1)):
        for name, side in sides.items():
            with Process(
                settings.threads, *side
            ) as process:  # it starts at this one's peak, which is below its own
                for _ in range(NUM_STEPS):
                    process(0)
                peaks[name].append(process("peak"))
    comparison = Comparison.of(
        f"peak, ours ({settings.precision}) : plain Hugging Face loop (fp32)",
        "MB",
        peaks["ours"],
        peaks["peer"],
        scale=1e-6,
    )
    return json_line(
        "memory",
        [comparison],
        versions("transformers"),
        notes=[
            *without_bf16("Both sides are in fp32."),
            f"{NUM_STEPS} steps on the {len(examples)} longest sentences",
        ],
    )
