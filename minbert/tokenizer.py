"""WordPiece tokenization through the `tokenizers` library: sentences and pairs, with segment ids.

`[CLS] a [SEP]` has segment 0 throughout. In `[CLS] a [SEP] b [SEP]`, the second sentence and its
[SEP] have segment 1.

B rows, T tokens. Next: dropout.py, attention.py and bert.py, which turn token ids into vectors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from minbert.config import BertConfig

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# The settings of tokenizer_config.json that change token ids.
SETTINGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")


class BertTokenizer:
    """Turns text into the token ids that transformers.BertTokenizerFast gives.

    vocabulary: from a token to its id, with all of SPECIAL_TOKENS. lowercase: whether the model is
    uncased. cache: the folder in which data/token_cache.py keeps the token ids of whole files from
    run to run, or None. strip_accents: None strips them if text is lower-cased.
    tokenize_chinese_chars: whether each Chinese character becomes a word.

    Raises ValueError if the vocabulary lacks a special token.
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
        self.vocabulary = vocabulary
        self.cache = cache

        # The keys are those of tokenizer_config.json.
        self.settings: dict[str, bool | None] = {
            "do_lower_case": lowercase,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": tokenize_chinese_chars,
        }
        self.pad_token_id = vocabulary["[PAD]"]
        self.unk_token_id = vocabulary["[UNK]"]
        self.cls_token_id = vocabulary["[CLS]"]
        self.sep_token_id = vocabulary["[SEP]"]
        self.mask_token_id = vocabulary["[MASK]"]
        self.backend = self._make_backend()

    def _make_backend(self) -> Tokenizer:
        """Build the tokenizer of the `tokenizers` library.

        It normalises the text, splits it into words, cuts these into pieces, and adds [CLS] and
        [SEP].
        """
        word_piece = models.WordPiece(
            self.vocabulary, unk_token="[UNK]", max_input_chars_per_word=100
        )
        backend = Tokenizer(word_piece)
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=bool(self.settings["do_lower_case"]),
            strip_accents=self.settings["strip_accents"],
            handle_chinese_chars=bool(self.settings["tokenize_chinese_chars"]),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.post_processor = processors.BertProcessing(
            ("[SEP]", self.sep_token_id), ("[CLS]", self.cls_token_id)
        )
        return backend

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, cache: Path | None = None
    ) -> BertTokenizer:
        """Read vocab.txt, and the settings of tokenizer_config.json where there is one.

        name_or_folder: as in BertModel.from_pretrained. cache: as in the class. Raises ValueError
        if a file is missing or damaged, or if config.json has fewer ids than the vocabulary.
        """
        # Late, so that a tokenizer alone can be used without safetensors.
        from minbert import weights

        folder = weights.resolve(name_or_folder)
        path = folder / "vocab.txt"
        if not path.is_file():
            raise ValueError(
                f"{folder}: no vocab.txt in it; it must hold the WordPiece vocabulary, one token a "
                "line."
            )
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
            settings = _read_settings(folder)
        except ValueError as error:
            # The decoder and the JSON parser do not name the file.
            raise ValueError(
                f"{folder}: vocab.txt is not UTF-8, or tokenizer_config.json not JSON ({error}). "
                "Fetch the model again."
            ) from error
        _check_settings(folder, settings)

        # The line's number is the id, also behind a blank line.
        vocabulary = {}
        for token_id, line in enumerate(lines):
            token = line.rstrip("\r")
            if token:
                vocabulary[token] = token_id
        _check_vocabulary_size(folder, vocabulary)
        return cls(
            vocabulary,
            settings.get("do_lower_case", True),
            cache,
            settings.get("strip_accents"),
            settings.get("tokenize_chinese_chars", True),
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the token ids of a text depend on."""
        identity = [tokenizers.__version__, self.settings, self.vocabulary]
        text = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write vocab.txt and tokenizer_config.json, which transformers.AutoTokenizer opens."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)

        # An id without a token gets an empty line, so that the others keep their ids.
        token_of = {token_id: token for token, token_id in self.vocabulary.items()}
        lines = [token_of.get(token_id, "") for token_id in range(max(token_of) + 1)]
        vocabulary = "\n".join(lines) + "\n"
        (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8", newline="\n")

        content = {**self.settings, "tokenizer_class": "BertTokenizer"}
        text = json.dumps(content, indent=2) + "\n"
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")

    def encode(
        self,
        sentences: Sequence[str],
        second_sentences: Sequence[str] | None = None,
        max_length: int = 128,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode rows without padding.

        sentences: one for each row. second_sentences: as many, for pairs. max_length: the most
        tokens of a row, [CLS] and [SEP] included. A pair that is too long loses tokens from its
        longer sentence first.

        Returns token ids and segment ids of each row. Raises ValueError for one string instead of
        a list, and for lists of different lengths.
        """
        if isinstance(sentences, str) or isinstance(second_sentences, str):
            raise ValueError(
                "sentences is one string, which would be read letter by letter; give a list of "
                "strings."
            )
        self.backend.enable_truncation(max_length, strategy="longest_first")
        rows: list[Any] = list(sentences)
        if second_sentences is not None:
            rows = list(zip(sentences, second_sentences, strict=True))
        encodings = self.backend.encode_batch_fast(rows)
        token_ids = [encoding.ids for encoding in encodings]
        segment_ids = [encoding.type_ids for encoding in encodings]
        return token_ids, segment_ids

    def __call__(
        self,
        sentences: Sequence[str],
        second_sentences: Sequence[str] | None = None,
        max_length: int = 128,
    ) -> dict[str, Tensor]:
        """Encode rows as padded tensors (B, T) int64, ready for `BertModel(**...)`.

        Arguments and errors as in `encode`. Returns input_ids, token_type_ids and attention_mask.
        """
        id_rows, segment_rows = self.encode(sentences, second_sentences, max_length)
        mask_rows = [[1] * len(row) for row in id_rows]
        return {
            "input_ids": _pad(id_rows, self.pad_token_id),
            "token_type_ids": _pad(segment_rows, 0),
            "attention_mask": _pad(mask_rows, 0),
        }


def _pad(rows: list[list[int]], filler: int) -> Tensor:
    """Make a tensor (B, T) int64 of rows of different lengths."""
    longest = max(map(len, rows))
    padded = [row + [filler] * (longest - len(row)) for row in rows]
    return torch.tensor(padded)


def _read_settings(folder: Path) -> Any:
    """Read tokenizer_config.json, or an empty table where there is none."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return {}
    return json.loads(path.read_text("utf-8"))


def _check_settings(folder: Path, settings: Any) -> None:
    """Raise ValueError if settings are not a table, or one of SETTINGS is not true or false."""
    is_valid = isinstance(settings, dict)
    if is_valid:
        for name in SETTINGS:
            value = settings.get(name, True)
            is_null_allowed = name == "strip_accents"
            if type(value) is not bool and not (value is None and is_null_allowed):
                is_valid = False
    if not is_valid:
        raise ValueError(
            f"{folder / 'tokenizer_config.json'}: not a table in which {', '.join(SETTINGS)} are "
            "true or false (or strip_accents null). Fetch the model again."
        )


def _check_vocabulary_size(folder: Path, vocabulary: dict[str, int]) -> None:
    """Raise ValueError if config.json beside the vocabulary has embeddings for fewer ids."""
    if not (folder / "config.json").is_file():
        return
    num_ids = max(vocabulary.values(), default=-1) + 1
    vocab_size = BertConfig.from_pretrained(folder).vocab_size
    if num_ids > vocab_size:
        raise ValueError(
            f"{folder / 'vocab.txt'}: {num_ids:,} tokens; config.json has vocab_size "
            f"{vocab_size:,}, and a token beyond it has no embedding. The two do not belong "
            "together; fetch the model again."
        )
