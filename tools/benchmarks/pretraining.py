"""How fast is pretraining, against a plain Hugging Face loop and against the machine's limit?

`python -m tools.benchmarks.pretraining --size mini` times one update of each side in turn, on the
same configuration and on sequences of random tokens. Ours is the loop of `python -m
minbert.pretraining` in its own precision. The peer is transformers' BertForMaskedLM with its
DataCollatorForLanguageModeling and torch.optim.AdamW, in fp32. Each side has its own process, as it
would be used. The command prints medians, and one line of JSON at the end.

N sequences, T tokens of a sequence.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from minbert import BertModel, BertTokenizer
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.pretraining import plain_text
from minbert.pretraining.options import PlainTextOptions, PlainTextRun
from minbert.pretraining.sizes import SIZES
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training import runtime
from minbert.training.loop import Loop
from tools.benchmarks.comparison import Comparison, Goal, json_line, versions
from tools.benchmarks.inputs import require
from tools.benchmarks.jobs import make_loop
from tools.benchmarks.limit import Limit, notes_without_bf16
from tools.benchmarks.settings import DEVICE
from tools.benchmarks.timing import Side, SideProcess, alternate

NUM_SEQUENCES = 512
PEER_LR = 1e-4
PEER_WEIGHT_DECAY = 0.01
MASK_PROBABILITY = 0.15
MAX_NORM = 1.0

# The goal is set for bf16.
GOAL = Goal(">=", 2.5)

# More updates than a side takes, so that the job has enough of them.
SPARE_UPDATES = 50


def make_tokenizer(size: str) -> BertTokenizer:
    """Return a vocabulary as large as the size's, of words that mean nothing."""
    # The size of the vocabulary costs time in the head. Its words cost none.
    num_words = SIZES[size].vocab_size - len(SPECIAL_TOKENS)
    words = [f"w{number}" for number in range(num_words)]
    tokens = [*SPECIAL_TOKENS, *words]
    return BertTokenizer({token: number for number, token in enumerate(tokens)})


def make_sequences(tokenizer: BertTokenizer, length: int) -> np.ndarray:
    """Return random tokens between [CLS] and [SEP], (N, T) uint16."""
    generator = np.random.default_rng(0)
    sequences = generator.integers(
        len(SPECIAL_TOKENS), len(tokenizer.vocabulary), (NUM_SEQUENCES, length), dtype=np.uint16
    )  # (N, T)
    # Packed sequences are full: there is no padding on either side.
    sequences[:, 0] = tokenizer.cls_token_id
    sequences[:, -1] = tokenizer.sep_token_id
    return sequences


def make_our_loop(options: PlainTextOptions, folder: Path) -> Loop:
    """Return the loop of `python -m minbert.pretraining`, before its first update."""
    run = PlainTextRun((), folder, options)
    tokenizer = make_tokenizer(options.named_size)
    sequences = make_sequences(tokenizer, options.block_size)
    return make_loop(plain_text.build_job(run, tokenizer, sequences, sequences[:1]))


def our_side(options: PlainTextOptions, folder: Path) -> Side:
    """Return a function that takes our next update."""
    runtime.settle_memory()
    loop = make_our_loop(options, folder)
    updates = loop.job.all_steps()
    return lambda part: loop.train_step(next(updates))


class HuggingFaceLoop:
    """The plain loop: collate, forward, backward, step, all in fp32. folder: for its vocabulary."""

    def __init__(self, options: PlainTextOptions, folder: Path) -> None:
        import transformers

        tokenizer = make_tokenizer(options.named_size)
        tokenizer.save_pretrained(folder)
        # Ours pretrains without dropout.
        changes = {
            "vocab_size": len(tokenizer.vocabulary),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        # The peer gets the same shape.
        values = asdict(SIZES[options.named_size]) | changes
        del values["attention_implementation"]

        torch.manual_seed(0)
        self.model = transformers.BertForMaskedLM(transformers.BertConfig(**values)).train()
        vocabulary = str(folder / "vocab.txt")
        tokenizer_class: Any = transformers.BertTokenizerFast  # type: ignore[attr-defined]
        peer_tokenizer = tokenizer_class(vocab_file=vocabulary)
        self.collate = transformers.DataCollatorForLanguageModeling(
            peer_tokenizer, mlm_probability=MASK_PROBABILITY
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=PEER_LR, weight_decay=PEER_WEIGHT_DECAY
        )
        self.sequences = make_sequences(tokenizer, options.block_size)
        self.batch_size = options.batch_size
        self.generator = torch.Generator().manual_seed(0)

    def step(self) -> None:
        """Take one update on a random batch."""
        order = torch.randperm(len(self.sequences), generator=self.generator)
        examples = []
        for row in order[: self.batch_size].tolist():
            examples.append({"input_ids": self.sequences[row].astype(np.int64)})
        batch = self.collate(examples)

        # The loss is a mean over the masked tokens, as in ours.
        output = self.model(input_ids=batch["input_ids"], labels=batch["labels"])
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()


def peer_side(options: PlainTextOptions, folder: Path) -> Side:
    """Return a function that takes the peer's next update."""
    loop = HuggingFaceLoop(options, folder)
    return lambda part: loop.step()


def layer_flops(size: str) -> int:
    """Return the FLOPs of forward and backward for one token, without embeddings and head.

    They are 6 for each weight of the layers.
    """
    # On the meta device nothing is allocated or drawn.
    with torch.device("meta"):
        layers = BertModel(SIZES[size]).layers
    return 6 * sum(parameter.numel() for parameter in layers.parameters())


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        description="How fast is pretraining, against Hugging Face and the machine's limit?"
    )
    parser.add_argument("--size", choices=SIZES, default="mini", help="named shape (%(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=32, help="sequences of a batch (%(default)s)"
    )
    parser.add_argument(
        "--block-size", type=int, default=64, help="tokens of a sequence (%(default)s)"
    )
    parser.add_argument("--n", type=int, default=20, help="timed updates of each side")
    return parser


@exit_code("python -m tools.benchmarks.pretraining")
def main(argv: Sequence[str] | None = None) -> None:
    """Time both sides, and print medians and one line of JSON."""
    arguments = build_parser().parse_args(argv)
    require("transformers")
    precision = runtime.choose_precision("auto", DEVICE)[0]
    threads = torch.get_num_threads()
    batch_tokens = arguments.batch_size * arguments.block_size
    options = PlainTextOptions(
        size=arguments.size,
        batch_size=arguments.batch_size,
        block_size=arguments.block_size,
        tokens=batch_tokens * SPARE_UPDATES * (arguments.n + 3),
        device=DEVICE.type,
        precision=precision,
    )

    limit = Limit(precision)
    with (
        tempfile.TemporaryDirectory() as name,
        SideProcess(threads, our_side, options, Path(name) / "out") as ours,
        SideProcess(threads, peer_side, options, Path(name)) as peer,
    ):
        sides = {"ours": ours, "peer": peer}
        seconds = alternate(sides, arguments.n, num_warmup=3, between=limit.measure)

    goal = GOAL if precision == "bf16" else None
    comparison = Comparison.of(
        f"ours ({precision}) : Hugging Face (fp32)",
        "tokens/s",
        seconds["ours"],
        seconds["peer"],
        goal,
        per=batch_tokens,
    )
    share = layer_flops(arguments.size) * comparison.ours / limit.median
    notes = notes_without_bf16("Both sides are in fp32. The goal is for bf16 and is left out.")

    ratio = f"{comparison.ours / comparison.peer:.3f}"
    if goal is not None:
        ratio += f" (goal: {goal.number:g})"
    print(
        *notes,
        f"{arguments.size}, {arguments.batch_size} blocks of {arguments.block_size}, {threads} "
        f"threads, n = {arguments.n}",
        f"ours ({precision})  {comparison.ours:>10,.0f} tokens/s",
        f"Hugging Face (fp32)  {comparison.peer:>10,.0f} tokens/s; ratio {ratio}",
        f"ours reaches {share:.1%} of {limit.median / 1e9:,.0f} GFLOP/s (median of {arguments.n})",
        sep="\n",
    )
    line = json_line(
        f"pretraining-{arguments.size}",
        [comparison],
        versions("transformers"),
        notes=notes,
        share_of_limit=share,
        limit=limit.median,
    )
    print(json.dumps(line))


if __name__ == "__main__":
    sys.exit(main())
