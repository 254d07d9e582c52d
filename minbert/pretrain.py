"""`python -m minbert.pretrain --corpus FILES --out DIR`: a vocabulary and an encoder from plain text.

Text (a paragraph a line) -> WordPiece vocabulary -> token ids packed into full blocks without padding -> masked-
language modelling through the one loop -> a folder that `--model` opens. T tokens a block, N blocks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from minbert import runtime
from minbert.bert import BertModel
from minbert.config import BertConfig
from minbert.loop import Interrupted, Job, Step, fit
from minbert.mlm import BertForMaskedLM, mask_tokens
from minbert.optimizer import AdamW, parameter_groups
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer

SIZES = {  # mini has 3.9 M parameters, 8 MB in half precision; initial weights grow as 1 / sqrt(width), 0.02 at 768
    "tiny": BertConfig(vocab_size=2048, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                       intermediate_size=256, max_position_embeddings=128, initializer_range=0.07),
    "mini": BertConfig(vocab_size=8192, hidden_size=192, num_hidden_layers=5, num_attention_heads=6,
                       intermediate_size=768, max_position_embeddings=128, initializer_range=0.04),
}
HELD_OUT = 200  # one line in so many is kept for evaluation
NUM_EVALUATIONS = 20


def read_lines(paths: list[Path]) -> Iterator[str]:
    """Every non-empty line of every file, in order; ValueError names a file that is missing or not UTF-8."""
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                yield from (line.strip() for line in file if not line.isspace())
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {error}. Give plain-text files in UTF-8, a paragraph a line.") from error


def train_tokenizer(lines: Iterator[str], vocab_size: int) -> BertTokenizer:
    """A lower-casing WordPiece vocabulary of at most `vocab_size` tokens, the special ones first."""
    from tokenizers import trainers

    untrained = BertTokenizer({token: number for number, token in enumerate(SPECIAL_TOKENS)})
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS),
                                        continuing_subword_prefix="##", show_progress=False)
    untrained.backend.train_from_iterator(lines, trainer)
    return BertTokenizer(untrained.backend.get_vocab())


def pack(lines: Iterator[str], tokenizer: BertTokenizer, block_size: int) -> np.ndarray:
    """Token ids (N, T) uint16: [CLS], then text with a [SEP] after each line, cut every T - 2 tokens, then [SEP]."""
    pieces, chunk = [np.empty(0, dtype=np.uint16)], []

    def encode_chunk() -> None:
        for encoding in tokenizer.backend.encode_batch_fast(chunk, add_special_tokens=False):
            pieces.append(np.array([*encoding.ids, tokenizer.sep_token_id], dtype=np.uint16))
        chunk.clear()

    tokenizer.backend.no_truncation()
    for line in lines:
        chunk.append(line)
        if len(chunk) == 10_000:
            encode_chunk()
    encode_chunk()
    stream = np.concatenate(pieces)
    num_blocks = len(stream) // (block_size - 2)
    blocks = np.full((num_blocks, block_size), tokenizer.sep_token_id, dtype=np.uint16)
    blocks[:, 0] = tokenizer.cls_token_id
    blocks[:, 1:-1] = stream[: num_blocks * (block_size - 2)].reshape(num_blocks, block_size - 2)
    return blocks


@dataclass(frozen=True)
class Blocks:
    """A batch for the loop: token ids (B, T) int64 and, as names for messages, the blocks' numbers."""

    input_ids: Tensor
    ids: tuple[str, ...]


def plan_blocks(num_blocks: int, batch_size: int, num_steps: int, epoch: int, seed: int) -> list[Step]:
    """Steps of evaluation round `epoch`: a slice of an endless stream of shuffled passes over the blocks.

    The order of pass n depends on the seed and n alone, so a resumed run needs no state.
    """
    steps_per_pass = num_blocks // batch_size
    steps: list[Step] = []
    orders: dict[int, Tensor] = {}
    for number in range(epoch * num_steps, (epoch + 1) * num_steps):
        one_pass, place = divmod(number, steps_per_pass)
        if one_pass not in orders:
            orders[one_pass] = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(seed + one_pass))
        steps.append([("mlm", orders[one_pass][place * batch_size : (place + 1) * batch_size].tolist())])
    return steps


def sinusoids(num_positions: int, width: int, scale: float = 0.1) -> Tensor:
    """Where the learned position embeddings start, (P, H): Vaswani et al. 2017, section 3.5, times `scale`.

    From random ones a small encoder sees a bag of words for thousands of steps; so a neighbour is near from the start.
    """
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)  # (H / 2,)
    angles = torch.arange(num_positions).unsqueeze(1) * frequencies  # (P, H / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1) * scale  # (P, H)


def pair_up(input_ids: Tensor, share: float, sep_token_id: int, max_shift: int = 16) -> tuple[Tensor, Tensor]:
    """Turn the first `share` of plain blocks (B, T) into pairs `[CLS] a [SEP] b [SEP]`; returns ids and token types.

    a and b are passages of the block's text that overlap but for a shift of 0 to max_shift tokens, in either order. To
    predict a masked token the model has to find its twin in the other segment, which is what comparing two sentences
    takes (the idea of translation language modelling, Lample and Conneau 2019, with one language).
    """
    token_type_ids, paired = torch.zeros_like(input_ids), input_ids.clone()
    num_pairs, half = round(share * len(input_ids)), (input_ids.size(1) - 3) // 2
    text = input_ids[:num_pairs, 1:-1]  # (P, T - 2)
    is_moved = torch.nn.functional.one_hot(torch.randint(2, (num_pairs,)), 2)  # (P, 2): which of the two starts later
    shifts = torch.randint(min(max_shift, half - 1) + 1, (num_pairs, 1)) * is_moved  # (P, 2)
    for side, length in enumerate((half, input_ids.size(1) - 3 - half)):
        passage = text.gather(1, shifts[:, side : side + 1] + torch.arange(length))  # (P, length)
        start = 1 + side * (half + 1)
        paired[:num_pairs, start : start + length] = passage
    paired[:num_pairs, half + 1] = sep_token_id
    token_type_ids[:num_pairs, half + 2 :] = 1
    return paired, token_type_ids


def build_job(arguments: argparse.Namespace, tokenizer: BertTokenizer, train: np.ndarray, held_out: np.ndarray) -> Job:
    """The masked-language-model stage as a Job: no dropout, since each pass over the text masks it anew."""
    config = SIZES[arguments.size]
    device, _ = runtime.choose_device(arguments.device)
    config = replace(config, vocab_size=len(tokenizer.vocabulary), hidden_dropout_prob=0.0,
                     attention_probs_dropout_prob=0.0,
                     # torch's fused kernel has a slow backward pass on CPU
                     attention_implementation="fused" if device.type == "cuda" else "eager")
    torch.manual_seed(arguments.seed)
    if arguments.init:
        model = BertForMaskedLM.from_pretrained(arguments.init, **{
            name: getattr(config, name) for name in ("hidden_dropout_prob", "attention_probs_dropout_prob",
                                                     "attention_implementation")}).train()
    else:
        model = BertForMaskedLM(BertModel(config))
        positions = model.bert.embeddings.position.weight
        positions.data.copy_(sinusoids(*positions.shape))
    precision, reason = runtime.choose_precision(arguments.precision, device)
    model.to(device)
    num_steps = arguments.tokens // (arguments.batch_size * train.shape[1] * NUM_EVALUATIONS)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; {len(train):,} training blocks of "
          f"{train.shape[1]} tokens, {len(held_out):,} held out; {num_steps * NUM_EVALUATIONS:,} steps")
    print(f"{precision}: {reason}")

    def load(task: str, rows: list[int]) -> Blocks:
        return Blocks(torch.from_numpy(train[rows].astype(np.int64)), tuple(map(str, rows)))

    def mask(input_ids: Tensor) -> tuple[Tensor, Tensor]:
        is_special = (input_ids == tokenizer.cls_token_id) | (input_ids == tokenizer.sep_token_id)
        corrupted, labels = mask_tokens(input_ids, is_special, config.vocab_size, tokenizer.mask_token_id)
        return corrupted.to(device), labels.to(device)

    def loss(task: str, batch: Blocks) -> Tensor:
        input_ids, token_type_ids = pair_up(batch.input_ids, arguments.pairs, tokenizer.sep_token_id)
        return model.loss(*mask(input_ids), token_type_ids.to(device))

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        """Held-out loss and accuracy under one fixed mask; the loop's random state is put back."""
        model.eval()
        with torch.random.fork_rng(devices=[]), runtime.autocast(device, precision):
            torch.manual_seed(0)
            total = correct = count = 0.0
            for start in range(0, len(held_out), arguments.batch_size):
                block = torch.from_numpy(held_out[start : start + arguments.batch_size].astype(np.int64))
                logits, targets = model.predict(*mask(block))
                total += float(torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum"))
                correct += float((logits.argmax(-1) == targets).sum())
                count += len(targets)
        model.train()
        return {"held_out_loss": total / count, "accuracy": correct / count}

    return Job(
        name="mlm", folder=arguments.out / "checkpoint", model=model, device=device, precision=precision,
        optimizer=AdamW(parameter_groups(model, 0.01), lr=arguments.lr, betas=(0.9, 0.98), weight_decay=0.01),
        plan=lambda epoch, _: plan_blocks(len(train), arguments.batch_size, num_steps, epoch, arguments.seed),
        load=load, loss=loss, evaluate=evaluate, score="accuracy",
        epochs=NUM_EVALUATIONS, seed=arguments.seed, warmup=0.05, save_every=500,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, nargs="+", required=True,
                        help="plain-text files in UTF-8, a paragraph a line")
    parser.add_argument("--out", type=Path, required=True, help="folder for config.json, model.safetensors, vocab.txt")
    parser.add_argument("--size", choices=SIZES, default="mini",
                        help="named shape (default %(default)s); --init brings its own")
    parser.add_argument("--tokens", type=int, default=22_000_000, help="tokens to see (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="blocks a step (default %(default)s)")
    parser.add_argument("--block-size", type=int, default=64, help="tokens a block (default %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-4, help="peak learning rate (default %(default)s)")
    parser.add_argument("--pairs", type=float, default=0.0,
                        help="share of the blocks that hold two overlapping passages as a pair (default %(default)s)")
    parser.add_argument("--init", type=Path, help="go on from this folder's weights, shape and vocabulary")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--resume", action="store_true", help="continue from DIR/checkpoint")
    arguments = parser.parse_args()
    if not 0.0 <= arguments.pairs <= 1.0:
        parser.error(f"--pairs is {arguments.pairs}; it is a share, 0 to 1.")
    started = time.perf_counter()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.init or (arguments.out / "vocab.txt").is_file():
        tokenizer = BertTokenizer.from_pretrained(arguments.init or arguments.out)
    else:
        tokenizer = train_tokenizer(read_lines(arguments.corpus), SIZES[arguments.size].vocab_size)
    tokenizer.save_pretrained(arguments.out)
    numbered = enumerate(read_lines(arguments.corpus))
    train = pack((line for number, line in numbered if number % HELD_OUT), tokenizer, arguments.block_size)
    numbered = enumerate(read_lines(arguments.corpus))
    held_out = pack((line for number, line in numbered if number % HELD_OUT == 0), tokenizer, arguments.block_size)
    num_seen = arguments.tokens // (arguments.batch_size * arguments.block_size)
    if len(train) < arguments.batch_size or not len(held_out) or num_seen < NUM_EVALUATIONS:
        parser.error(f"{len(train)} training and {len(held_out)} held-out blocks, and --tokens for {num_seen} steps; "
                     f"needed are {arguments.batch_size}, 1 and {NUM_EVALUATIONS}. Give more text or tokens, or a "
                     "smaller --batch-size or --block-size.")
    rows = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(0))[:512].numpy()
    print(f"vocabulary of {len(tokenizer.vocabulary):,}; text read and packed in {time.perf_counter() - started:.0f} s")
    runtime.keep_freed_memory()
    job = build_job(arguments, tokenizer, train, held_out[rows])
    try:
        progress = fit(job, arguments.resume)
    except Interrupted:
        raise SystemExit("Stopped and saved. Run the same command with --resume to go on.") from None
    config = job.model.bert.config  # trained without dropout; whoever fine-tunes it wants BERT's own
    job.model.bert.config = replace(config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    job.model.save_pretrained(arguments.out, dtype=torch.float16)
    seen = progress.step * arguments.batch_size * arguments.block_size
    print(f"{seen:,} tokens in {progress.seconds / 60:.1f} minutes, {seen / progress.seconds:,.0f} tokens/s; "
          f"written to {arguments.out}")


if __name__ == "__main__":
    main()
