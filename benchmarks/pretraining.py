"""How fast is pretraining, against a plain Hugging Face loop and against the machine's own limit?

`python -m benchmarks.pretraining --size mini`: an update of each side in turn, the same configuration, blocks of random
tokens. Ours is the loop of `python -m minbert.pretraining` in its own precision; the peer is transformers' BertForMaskedLM
with DataCollatorForLanguageModeling and torch.optim.AdamW in fp32. Each side has a process of its own, as it would be
used. Prints medians, and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.comparison import Comparison, json_line, versions
from benchmarks.material import DEVICE, Limit, require, without_bf16
from benchmarks.sides import Process, Take, alternate
from minbert import BertModel, BertTokenizer
from minbert.pretraining import __main__ as pretrain
from minbert.pretraining import plain_text as from_text
from minbert.pretraining.sizes import SIZES
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training import runtime
from minbert.training.loop import Loop

NUM_BLOCKS = 512


def make_tokenizer(size: str) -> BertTokenizer:
    """A vocabulary as large as the size's, of words that mean nothing."""
    num_words = SIZES[size].vocab_size - len(SPECIAL_TOKENS)
    tokens = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(num_words))]
    return BertTokenizer({token: number for number, token in enumerate(tokens)})


def make_blocks(tokenizer: BertTokenizer, block_size: int) -> np.ndarray:
    """(NUM_BLOCKS, T) uint16 of random tokens between [CLS] and [SEP]."""
    generator = np.random.default_rng(0)
    shape = (NUM_BLOCKS, block_size)
    blocks = generator.integers(
        len(SPECIAL_TOKENS), len(tokenizer.vocabulary), shape, dtype=np.uint16
    )
    blocks[:, 0], blocks[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    return blocks


def make_loop(flags: list[str]) -> Loop:
    """The loop of `python -m minbert.pretraining` with these flags, before its first update."""
    run = pretrain.parse(flags)
    tokenizer = make_tokenizer(run.options.named_size)
    blocks = make_blocks(tokenizer, run.options.block_size)
    loop = Loop(from_text.build_job(run, tokenizer, blocks, blocks[:1]), resume=False)
    loop.bar, loop.progress.num_steps = tqdm(disable=True), 10**6
    return loop


def our_side(flags: list[str]) -> Take:
    """An update of ours at each call."""
    runtime.settle_memory()
    loop = make_loop(flags)
    steps = loop.job.all_steps()
    return lambda _: loop.train_step(next(steps))


def make_peer(flags: list[str], folder: Path) -> HuggingFace:
    """The plain loop in the same configuration."""
    options = pretrain.parse(flags).options
    tokenizer = make_tokenizer(options.named_size)
    return HuggingFace(
        tokenizer,
        make_blocks(tokenizer, options.block_size),
        folder,
        SIZES[options.named_size],
        options.batch_size,
    )


def peer_side(flags: list[str], folder: Path) -> Take:
    """An update of the plain loop at each call."""
    peer = make_peer(flags, folder)
    return lambda _: peer.step()


class HuggingFace:
    """The plain loop: collate, forward, backward, step, all in fp32."""

    def __init__(
        self, tokenizer: BertTokenizer, blocks: np.ndarray, folder: Path, config, batch_size: int
    ) -> None:
        import transformers

        tokenizer.save_pretrained(folder)
        same = asdict(config) | {
            "vocab_size": len(tokenizer.vocabulary),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }  # ours pretrains without dropout
        del same["attention_implementation"]
        torch.manual_seed(0)
        self.model = transformers.BertForMaskedLM(transformers.BertConfig(**same)).train()
        self.collate = transformers.DataCollatorForLanguageModeling(
            transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt")),
            mlm_probability=0.15,
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01)
        self.blocks, self.batch_size, self.generator = (
            blocks,
            batch_size,
            torch.Generator().manual_seed(0),
        )

    def step(self) -> None:
        rows = torch.randperm(len(self.blocks), generator=self.generator)[
            : self.batch_size
        ].tolist()
        batch = self.collate([{"input_ids": self.blocks[row].astype(np.int64)} for row in rows])
        self.model(input_ids=batch["input_ids"], labels=batch["labels"]).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def layer_flops(size: str) -> int:
    """FLOPs a token of forward and backward, embeddings and head apart: 6 a weight of the layers."""
    with torch.device("meta"):
        layers = BertModel(SIZES[size]).layers
    return 6 * sum(parameter.numel() for parameter in layers.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size", choices=SIZES, default="mini", help="named shape (%(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="blocks a batch (%(default)s)")
    parser.add_argument("--block-size", type=int, default=64, help="tokens a block (%(default)s)")
    parser.add_argument("--n", type=int, default=20, help="timed updates of each side")
    given = parser.parse_args()
    require("transformers")
    precision, threads = runtime.choose_precision("auto", DEVICE)[0], torch.get_num_threads()
    limit = Limit(precision)
    with tempfile.TemporaryDirectory() as folder:
        flags = [
            "--size",
            given.size,
            "--batch-size",
            given.batch_size,
            "--block-size",
            given.block_size,
            "--tokens",
            given.batch_size * given.block_size * 50 * (given.n + 3),
            "--corpus",
            "x",
            "--out",
            Path(folder) / "out",
            "--device",
            DEVICE.type,
            "--precision",
            precision,
        ]
        flags = list(map(str, flags))
        with (
            Process(threads, our_side, flags) as ours,
            Process(threads, peer_side, flags, Path(folder)) as peer,
        ):
            seconds = alternate(
                {"ours": ours, "peer": peer}, given.n, num_warm=3, between=limit.measure
            )
    goal = (">=", 2.5) if precision == "bf16" else None  # it is set for bf16
    found = Comparison.of(
        f"ours ({precision}) : Hugging Face (fp32)",
        "tokens/s",
        seconds["ours"],
        seconds["peer"],
        goal,
        per=given.batch_size * given.block_size,
    )
    share = layer_flops(given.size) * found.ours / limit.median
    notes = without_bf16("Both sides are in fp32. The goal is for bf16 and is left out.")
    print(
        *notes,
        f"{given.size}, {given.batch_size} blocks of {given.block_size}, {threads} threads, n = {given.n}\n"
        f"ours ({precision})  {found.ours:>10,.0f} tokens/s\n"
        f"Hugging Face (fp32)  {found.peer:>10,.0f} tokens/s; ratio {found.ours / found.peer:.3f}"
        f"{' (goal: 2.5)' * bool(goal)}\n"
        f"ours reaches {share:.1%} of {limit.median / 1e9:,.0f} GFLOP/s (median of {given.n})",
        sep="\n",
    )
    print(
        json.dumps(
            json_line(
                f"pretraining-{given.size}",
                [found],
                versions("transformers"),
                notes=notes,
                share_of_limit=share,
                limit=limit.median,
            )
        )
    )


if __name__ == "__main__":
    main()
