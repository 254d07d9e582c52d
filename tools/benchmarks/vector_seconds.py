"""How many seconds does each kind of sentence vector take ([SG] table 6)?

    python -m tools.benchmarks.vector_seconds --sets FILE --data-dir DIR --record

FILE has STS pairs, whose sentences are encoded. DIR has the course's files, on which SG-OPT is
trained. The seconds are those of the processor, of all threads: set OMP_NUM_THREADS=1 for those of
one. Other programs on the machine change them less than the seconds of a clock. All kinds take
turns, and a number is the median of the rounds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from contrastive.embedder import Embedder, open_embedder
from contrastive.quality.untrained_vectors import vector_functions, whiten
from contrastive.train.__main__ import main as train
from contrastive.zero_shot import encode
from data.batching import EncodedExamples, sorted_batches
from data.sentence_sets import evenly_cut, read_pairs
from experiments.records import RECORDS
from minbert.bert import BertOutput
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from tools.benchmarks.recording import HELP, record_measurement

SECONDS = RECORDS / "vector-seconds.jsonl"
BATCH_SIZE = 16  # as in the paper
WHITENED = "first-last mean, whitened"
TRAINED = "SG-OPT, [CLS]"


def seconds_of(function: Callable[[], object]) -> float:
    """Return the seconds that the processor works on a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def encodings(embedder: Embedder, rows: EncodedExamples) -> dict[str, Callable[[], Tensor]]:
    """Return the functions that make all sentence vectors of one kind, by kind."""

    def vectors(name: str, needs_states: bool = True) -> Tensor:
        function = vector_functions(embedder.pooling, with_baselines=True)[name]

        def read(output: BertOutput, attention_mask: Tensor) -> dict[str, Tensor]:
            return {name: function(output, attention_mask)}

        batches = sorted_batches(rows.lengths, BATCH_SIZE)
        return encode(embedder.encoder, rows, read, "fp32", batches, needs_states)[name]

    return {
        "mean": lambda: vectors("mean", needs_states=False),
        "first-last mean": lambda: vectors("first-last mean"),
        WHITENED: lambda: whiten(vectors("first-last mean")),
        "WK": lambda: vectors("WK"),
        # A trained encoder has the vectors of [CLS], and the same weights otherwise.
        TRAINED: lambda: vectors("[CLS]", needs_states=False),
    }


def seconds_of_training(model: str, data_dir: Path, steps: int) -> float:
    """Return the seconds of training SG-OPT on the sentences of STS-B."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["sg-opt", "--text", "sts", "--data-dir", str(data_dir), "--pooling", "cls"]
        words += ["--model", model, "--steps", str(steps), "--out", str(Path(folder) / "run")]
        return seconds_of(lambda: train(words))


@exit_code("python -m tools.benchmarks.vector_seconds")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    assert __doc__ is not None
    parser = Parser(prog="python -m tools.benchmarks.vector_seconds", description=__doc__)
    parser.add_argument("--sets", type=Path, required=True, metavar="FILE", help="STS pairs")
    parser.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="the course's")
    parser.add_argument("--model", default="minbert-mini")
    parser.add_argument("--rows", type=int, default=500, help="pairs that are encoded")
    parser.add_argument("--steps", type=int, default=60, help="of the training")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)

    embedder, _ = open_embedder(
        arguments.model, "mean", None, BATCH_SIZE, "cpu", "fp32", is_bound=False
    )
    pairs = evenly_cut(read_pairs(arguments.sets), arguments.rows)
    rows = EncodedExamples(
        pairs.examples, embedder.tokenizer, embedder.max_length, pair_encoding="bi"
    )
    kinds = encodings(embedder, rows)
    inference: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(arguments.rounds):
        for name, make_vectors in kinds.items():
            inference[name].append(seconds_of(make_vectors))
    training = seconds_of_training(arguments.model, arguments.data_dir, arguments.steps)

    measured = []
    for name, seconds in inference.items():
        of_training = f"{training:.1f}" if name == TRAINED else "-"
        middle = statistics.median(seconds)
        measured.append({"kind": name, "inference": middle, "training": of_training})
        print(f"{name}: training {of_training} s, inference {middle:.2f} s")
    if arguments.record:
        names = ("model", "rows", "steps", "rounds")
        settings = {name: getattr(arguments, name) for name in names}
        record_measurement(SECONDS, {**settings, "kinds": measured})


if __name__ == "__main__":
    sys.exit(main())
