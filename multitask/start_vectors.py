"""The sentence vectors of an encoder before training, for the baseline of a user's own tasks.

Legend: N texts, T tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from data.batching import EncodedExamples, sorted_batches
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import mean

BATCH_SIZE = 64


class StartVectors:
    """The model in a folder, without any training here. A vector is the mean over the tokens.

    folder: in the layout of Hugging Face. max_length: tokens of a text at most.
    """

    def __init__(self, folder: Path, max_length: int, device: torch.device) -> None:
        self.encoder = BertModel.from_pretrained(folder).eval().to(device)
        self.tokenizer = BertTokenizer.from_pretrained(folder)
        self.max_length = max_length
        self.device = device

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, (N, H) float32, in their order."""
        examples = [Example(text, text, None, None) for text in texts]
        rows = EncodedExamples(examples, self.tokenizer, self.max_length)
        vectors = np.zeros((len(texts), self.encoder.config.hidden_size), dtype=np.float32)
        for numbers in sorted_batches(rows.lengths, BATCH_SIZE):
            batch = rows.batch(numbers).to(self.device)
            output = self.encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids)
            vectors[numbers] = mean(output.last_hidden_state, batch.attention_mask).cpu().numpy()
        return vectors
