"""WordPiece tokenization through the `tokenizers` library: single sentences and pairs, with token_type_ids.

`[CLS] a [SEP]` has segment 0 throughout; in `[CLS] a [SEP] b [SEP]` the second sentence and its [SEP] have segment 1.
Next: optimizer.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from minbert.config import BertConfig

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class BertTokenizer:
    """Token ids as transformers.BertTokenizerFast gives them, from a vocab.txt with one token a line.

    cache: folder in which data/token_cache.py keeps the token ids of whole files from run to run, or None.
    strip_accents: None strips them if text is lower-cased. tokenize_chinese_chars: each becomes a word of its own.
    """

    def __init__(
        self,
        vocabulary: dict[str, int],
        lowercase: bool = True,
        cache: Path | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
    ) -> None:
        absent = [token for token in SPECIAL_TOKENS if token not in vocabulary]
        if absent:
            raise ValueError(
                f"the vocabulary lacks {', '.join(absent)}; BERT needs {', '.join(SPECIAL_TOKENS)}."
            )
        self.vocabulary, self.cache = vocabulary, cache
        self.settings = {
            "do_lower_case": lowercase,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": tokenize_chinese_chars,
        }  # as in tokenizer_config.json
        for token in SPECIAL_TOKENS:
            setattr(
                self, f"{token[1:-1].lower()}_token_id", vocabulary[token]
            )  # pad_token_id, cls_token_id, ...
        self.backend = Tokenizer(
            models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
        )
        self.backend.add_special_tokens(list(SPECIAL_TOKENS))
        self.backend.normalizer = normalizers.BertNormalizer(
            lowercase=lowercase,
            strip_accents=strip_accents,
            handle_chinese_chars=tokenize_chinese_chars,
        )
        self.backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self.backend.post_processor = processors.BertProcessing(
            ("[SEP]", self.sep_token_id), ("[CLS]", self.cls_token_id)
        )

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, cache: Path | None = None
    ) -> BertTokenizer:
        """Read vocab.txt (and the settings of tokenizer_config.json); names as in BertModel.from_pretrained."""
        from minbert import (
            weights,
        )  # late, so that a tokenizer alone can be used without loading safetensors

        folder = weights.resolve(name_or_folder)
        path = folder / "vocab.txt"
        if not path.is_file():
            raise ValueError(
                f"{folder}: no vocab.txt in it; it must hold the WordPiece vocabulary, a token a line."
            )
        path_of_settings = folder / "tokenizer_config.json"
        try:
            tokens = path.read_text(encoding="utf-8").split("\n")
            settings = (
                json.loads(path_of_settings.read_text("utf-8"))
                if path_of_settings.is_file()
                else {}
            )
        except ValueError as error:  # of the decoder or of JSON, neither of which names the file
            raise ValueError(
                f"{folder}: vocab.txt is not UTF-8, or tokenizer_config.json not JSON ({error}). Fetch "
                "the model again."
            ) from error
        switches = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
        if not isinstance(settings, dict) or any(
            type(value) is not bool and (name, value) != ("strip_accents", None)
            for name, value in settings.items()
            if name in switches
        ):
            raise ValueError(
                f"{path_of_settings}: not a table in which {', '.join(switches)} are true or false (or "
                "strip_accents null). Fetch the model again."
            )
        vocabulary = {
            token.rstrip("\r"): number for number, token in enumerate(tokens) if token.rstrip("\r")
        }
        num_ids = max(vocabulary.values(), default=-1) + 1
        if (folder / "config.json").is_file() and num_ids > (
            limit := BertConfig.from_pretrained(folder).vocab_size
        ):
            raise ValueError(
                f"{path}: {num_ids:,} tokens; config.json has vocab_size {limit:,}, and a token beyond it "
                "has no embedding. The two do not belong together; fetch the model again."
            )
        return cls(
            vocabulary,
            settings.get("do_lower_case", True),
            cache,
            settings.get("strip_accents"),
            settings.get("tokenize_chinese_chars", True),
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that the token ids of a text depend on."""
        identity = [tokenizers.__version__, self.settings, self.vocabulary]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write vocab.txt and tokenizer_config.json, which transformers.AutoTokenizer opens."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        token_of = {number: token for token, number in self.vocabulary.items()}
        ordered = [
            token_of.get(number, "") for number in range(max(token_of) + 1)
        ]  # a line for ids without a token
        (Path(folder) / "vocab.txt").write_text(
            "\n".join(ordered) + "\n", encoding="utf-8", newline="\n"
        )
        settings = self.settings | {"tokenizer_class": "BertTokenizer"}
        (Path(folder) / "tokenizer_config.json").write_text(
            json.dumps(settings, indent=2) + "\n", encoding="utf-8"
        )

    def encode(
        self,
        sentences: Sequence[str],
        second_sentences: Sequence[str] | None = None,
        max_length: int = 128,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Token ids and segment ids of each row, unpadded, at most `max_length` tokens with [CLS] and [SEP].

        A pair that is too long loses tokens from its longer sentence first. One string instead of a list: ValueError.
        """
        if isinstance(sentences, str) or isinstance(second_sentences, str):
            raise ValueError(
                "sentences is one string, which would be read letter by letter; give a list of strings."
            )
        self.backend.enable_truncation(max_length, strategy="longest_first")
        rows = (
            list(sentences)
            if second_sentences is None
            else list(zip(sentences, second_sentences, strict=True))
        )
        encodings = self.backend.encode_batch_fast(rows)
        return [encoding.ids for encoding in encodings], [
            encoding.type_ids for encoding in encodings
        ]

    def __call__(
        self,
        sentences: Sequence[str],
        second_sentences: Sequence[str] | None = None,
        max_length: int = 128,
    ) -> dict[str, Tensor]:
        """Padded tensors (B, T) int64, ready for `BertModel(**...)`: input_ids, attention_mask, token_type_ids."""
        id_rows, type_rows = self.encode(sentences, second_sentences, max_length)
        longest = max(map(len, id_rows))

        def pad(rows: list[list[int]], filler: int) -> Tensor:
            return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])

        return {
            "input_ids": pad(id_rows, self.pad_token_id),
            "token_type_ids": pad(type_rows, 0),
            "attention_mask": pad([[1] * len(row) for row in id_rows], 0),
        }
