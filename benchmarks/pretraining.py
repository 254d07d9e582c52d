"""How fast is pretraining, against a plain Hugging Face loop and against the machine's own limit?

`python -m benchmarks.pretraining --size mini`: an update of each side in turn, the same configuration, blocks of random
tokens. Ours is the loop of `python -m minbert.pretrain` in its own precision; the peer is transformers' BertForMaskedLM
with DataCollatorForLanguageModeling and torch.optim.AdamW in fp32. Prints medians, and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from minbert import BertTokenizer, from_text, pretrain, price, runtime
from minbert.loop import Loop
from minbert.tokenizer import SPECIAL_TOKENS

NUM_BLOCKS = 512


def make_tokenizer(size: str) -> BertTokenizer:
    """A vocabulary as large as the size's, of words that mean nothing."""
    num_words = pretrain.SIZES[size].vocab_size - len(SPECIAL_TOKENS)
    tokens = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(num_words))]
    return BertTokenizer({token: number for number, token in enumerate(tokens)})


def make_blocks(tokenizer: BertTokenizer, block_size: int) -> np.ndarray:
    """(NUM_BLOCKS, T) uint16 of random tokens between [CLS] and [SEP]."""
    generator = np.random.default_rng(0)
    shape = (NUM_BLOCKS, block_size)
    blocks = generator.integers(len(SPECIAL_TOKENS), len(tokenizer.vocabulary), shape, dtype=np.uint16)
    blocks[:, 0], blocks[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    return blocks


class Ours:
    """The steps of `python -m minbert.pretrain`, taken one by one."""

    def __init__(self, arguments: argparse.Namespace, tokenizer: BertTokenizer, blocks: np.ndarray) -> None:
        self.job = from_text.build_job(arguments, tokenizer, blocks, blocks[:1])
        self.loop = Loop(self.job, resume=False)
        self.loop.bar = tqdm(disable=True)
        self.steps = iter(self.job.epoch_steps(0, torch.Generator()))
        self.loop.progress.num_steps = 10**6

    def step(self) -> None:
        self.loop.train_step(next(self.steps))


class HuggingFace:
    """The plain loop: collate, forward, backward, step, all in fp32."""

    def __init__(self, tokenizer: BertTokenizer, blocks: np.ndarray, folder: Path, config, batch_size: int) -> None:
        import transformers

        tokenizer.save_pretrained(folder)
        names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                 "max_position_embeddings", "hidden_dropout_prob", "attention_probs_dropout_prob")
        torch.manual_seed(0)
        self.model = transformers.BertForMaskedLM(
            transformers.BertConfig(**{name: getattr(config, name) for name in names})).train()
        self.collate = transformers.DataCollatorForLanguageModeling(
            transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt")), mlm_probability=0.15)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01)
        self.blocks, self.batch_size, self.generator = blocks, batch_size, torch.Generator().manual_seed(0)

    def step(self) -> None:
        rows = torch.randperm(len(self.blocks), generator=self.generator)[: self.batch_size].tolist()
        batch = self.collate([{"input_ids": self.blocks[row].astype(np.int64)} for row in rows])
        self.model(input_ids=batch["input_ids"], labels=batch["labels"]).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=pretrain.SIZES, default="mini")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--n", type=int, default=20, help="timed updates of each side")
    given = parser.parse_args()
    runtime.settle_memory()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--size", given.size, "--batch-size", given.batch_size, "--block-size", given.block_size,
                 "--tokens", given.batch_size * given.block_size * 50 * (given.n + 3), "--corpus", "x", "--out",
                 Path(folder) / "out"]
        arguments = pretrain.parse(list(map(str, flags)))
        tokenizer = make_tokenizer(given.size)
        blocks = make_blocks(tokenizer, given.block_size)
        ours = Ours(arguments, tokenizer, blocks)
        peer = HuggingFace(tokenizer, blocks, Path(folder), ours.job.model.bert.config, given.batch_size)
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    limits = []
    for number in range(given.n + 3):
        for name, side in {"ours": ours, "peer": peer}.items():
            started = time.perf_counter()
            side.step()
            if number >= 3:  # the first ones warm up
                seconds[name].append(time.perf_counter() - started)
        if number % 5 == 0:
            limits.append(price.matrix_product_limit(ours.job.device, ours.job.precision))
    tokens = given.batch_size * given.block_size
    rates = {name: tokens / statistics.median(values) for name, values in seconds.items()}
    flops = 6 * sum(parameter.numel() for parameter in ours.job.model.bert.layers.parameters())
    limit = statistics.median(limits)
    print(f"{given.size}, {given.batch_size} blocks of {given.block_size}, {torch.get_num_threads()} threads, "
          f"n = {given.n}")
    print(f"ours ({ours.job.precision})  {rates['ours']:>10,.0f} tokens/s")
    print(f"Hugging Face (fp32)  {rates['peer']:>10,.0f} tokens/s; ratio {rates['ours'] / rates['peer']:.2f}")
    print(f"ours reaches {flops * rates['ours'] / limit:.1%} of {limit / 1e9:,.0f} GFLOP/s (median of {len(limits)})")
    import transformers

    print(json.dumps({
        "name": f"pretraining-{given.size}", "ours": rates["ours"], "peer": rates["peer"],
        "ratio": rates["ours"] / rates["peer"], "n": given.n, "share_of_limit": flops * rates["ours"] / limit,
        "versions": {"python": platform.python_version(), "torch": torch.__version__,
                     "transformers": transformers.__version__}}))


if __name__ == "__main__":
    main()
