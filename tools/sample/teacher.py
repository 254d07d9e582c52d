"""The similarity of two sentences, by an encoder that was trained for it.

This package knows no model, so the vectors come from the command `python -m contrastive.embed`,
which runs as a process of its own. Vectors that were computed once are kept in a folder.

Legend: N sentences, H size of a vector.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minbert.commands.outputs import Output

MAX_LENGTH = 64
TEXTS = "texts.txt"
VECTORS = "vectors.npy"
NEW_TEXTS = "new.txt"
NEW_VECTORS = "new.npy"


def cache_outputs(folder: Path) -> list[Output]:
    """The files of --cache, for the check before any work.

    They are minBERT's own where texts and vectors stand side by side, or none of the two.
    """
    num_there = sum((folder / name).exists() for name in (TEXTS, VECTORS))

    def is_ours(path: Path) -> bool:
        return num_there == 2

    names = (TEXTS, VECTORS, NEW_TEXTS, NEW_VECTORS)
    return [Output("--cache", folder / name, is_ours) for name in names]


class Teacher:
    """Vectors of length 1 of sentences, by a model that `contrastive.embed` opens.

    folder: keeps the vectors of all texts so far.
    """

    def __init__(self, model: str, folder: Path) -> None:
        self.model = model
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.known: dict[str, np.ndarray] = {}
        texts = self.folder / TEXTS
        if texts.exists():
            lines = texts.read_text(encoding="utf-8").split("\n")[:-1]
            self.known = dict(zip(lines, np.load(self.folder / VECTORS), strict=True))

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, float32 (N, H). No text holds a line break."""
        # Each text once, in the order of the call: the same call makes the same file.
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        if missing:
            self.learn(missing)
        return np.stack([self.known[text] for text in texts])

    def learn(self, texts: Sequence[str]) -> None:
        """Compute the vectors of new texts, and keep them."""
        new_texts = self.folder / NEW_TEXTS
        new_vectors = self.folder / NEW_VECTORS
        new_texts.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        new_vectors.unlink(missing_ok=True)
        self.embed(new_texts, new_vectors)
        self.known.update(zip(texts, np.load(new_vectors), strict=True))

        np.save(self.folder / VECTORS, np.stack(list(self.known.values())))
        lines = "".join(f"{text}\n" for text in self.known)
        (self.folder / TEXTS).write_text(lines, encoding="utf-8")

    def embed(self, sentences: Path, out: Path) -> None:
        """Write the vectors of the lines of a file."""
        command = [sys.executable, "-m", "contrastive.embed", self.model, "--lines"]
        command += ["--input", str(sentences), "--out", str(out), "--normalise"]
        # In bf16, where the processor has it, a cosine is exact to about 0.002.
        command += ["--max-length", str(MAX_LENGTH), "--precision", "auto"]
        subprocess.run(command, check=True)

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """Return the cosine of each pair of sentences, float32 (N,)."""
        vectors = self.vectors([*first, *second])
        products = vectors[: len(first)] * vectors[len(first) :]  # (N, H)
        return products.sum(axis=1)
