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
from minbert.tokenizer_files import (
    SPECIAL_TOKEN_KEYS,
    TokenizerFiles,
    add_tokens,
    read_tokenizer_files,
)

SPECIAL_TOKENS = tuple(SPECIAL_TOKEN_KEYS.values())


class BertTokenizer:
    """Turns text into the token ids that transformers.BertTokenizerFast gives.

    vocabulary: from a token to its id, with all of SPECIAL_TOKENS. lowercase: whether the model is
    uncased. cache: the folder in which data/token_cache.py keeps the token ids of whole files from
    run to run, or None. strip_accents: None strips them if text is lower-cased.
    tokenize_chinese_chars: whether each Chinese character becomes a word. special_tokens: names
    other than SPECIAL_TOKENS, by the keys of tokenizer_config.json. backend: a complete tokenizer,
    used in place of BERT's rules.

    Raises ValueError if the vocabulary lacks a special token.
    """

    def __init__(
        self,
        vocabulary: dict[str, int],
        lowercase: bool = True,
        cache: Path | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        special_tokens: dict[str, str] | None = None,
        backend: Tokenizer | None = None,
    ) -> None:
        self.special_tokens = special_tokens or SPECIAL_TOKEN_KEYS
        names = tuple(self.special_tokens.values())
        absent = [token for token in names if token not in vocabulary]
        if absent:
            raise ValueError(
                f"the vocabulary lacks {', '.join(absent)}; BERT needs {', '.join(names)}."
            )
        self.vocabulary = vocabulary
        self.cache = cache

        # The keys are those of tokenizer_config.json.
        self.settings: dict[str, bool | None] = {
            "do_lower_case": lowercase,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": tokenize_chinese_chars,
        }
        self.pad_token_id = vocabulary[self.special_tokens["pad_token"]]
        self.unk_token_id = vocabulary[self.special_tokens["unk_token"]]
        self.cls_token_id = vocabulary[self.special_tokens["cls_token"]]
        self.sep_token_id = vocabulary[self.special_tokens["sep_token"]]
        self.mask_token_id = vocabulary[self.special_tokens["mask_token"]]

        # tokenizer.json of a tokenizer that vocabulary and settings do not describe, or None.
        self.definition: str | None = None

        # Whether its rules are those of a tokenizer.json, and not BERT's.
        self.is_defined_by_file = False
        self.backend = self._make_backend() if backend is None else backend
        if backend is not None or special_tokens not in (None, SPECIAL_TOKEN_KEYS):
            self.define()

    def define(self) -> None:
        """Note that the backend is more than vocabulary and settings: it is saved as a whole."""
        self.backend.no_truncation()
        self.backend.no_padding()
        self.definition = self.backend.to_str()
        vocabulary = self.backend.get_vocab(with_added_tokens=True)
        self.vocabulary = dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))

    def lowercase_first(self) -> None:
        """Lower-case every text before the tokenizer's own rules, as sentence-transformers can."""
        if self.settings["do_lower_case"] and not self.is_defined_by_file:
            return
        steps: list[Any] = [normalizers.Lowercase()]
        if self.backend.normalizer is not None:
            steps.append(self.backend.normalizer)
        self.backend.normalizer = normalizers.Sequence(steps)
        self.is_defined_by_file = True
        self.define()

    def _make_backend(self) -> Tokenizer:
        """Build the tokenizer of the `tokenizers` library.

        It normalises the text, splits it into words, cuts these into pieces, and adds [CLS] and
        [SEP].
        """
        special = self.special_tokens
        word_piece = models.WordPiece(
            self.vocabulary, unk_token=special["unk_token"], max_input_chars_per_word=100
        )
        backend = Tokenizer(word_piece)
        backend.add_special_tokens(list(special.values()))
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=bool(self.settings["do_lower_case"]),
            strip_accents=self.settings["strip_accents"],
            handle_chinese_chars=bool(self.settings["tokenize_chinese_chars"]),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.post_processor = processors.BertProcessing(
            (special["sep_token"], self.sep_token_id), (special["cls_token"], self.cls_token_id)
        )
        return backend

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, cache: Path | None = None
    ) -> BertTokenizer:
        """Read the tokenizer of a folder, as transformers does.

        name_or_folder: as in BertModel.from_pretrained. cache: as in the class. Raises ValueError
        if a file is missing or damaged, if the tokenizer's class has other rules than BERT's, or if
        config.json has fewer ids than the vocabulary.
        """
        # Late, so that a tokenizer alone can be used without safetensors.
        from minbert import weights

        folder = weights.resolve(name_or_folder)
        files = read_tokenizer_files(folder)
        tokenizer = cls._of_files(files, folder, cache)
        _check_vocabulary_size(folder, tokenizer.vocabulary)
        return tokenizer

    @classmethod
    def _of_files(cls, files: TokenizerFiles, folder: Path, cache: Path | None) -> BertTokenizer:
        """Build the tokenizer that the files of a folder describe."""
        if files.backend is not None:
            special_names = list(files.special_tokens.values())
            present = [name for name in special_names if name in files.vocabulary]
            files.backend.add_special_tokens(present)
            add_tokens(files.backend, files.added_tokens, folder)
        tokenizer = cls(
            files.vocabulary,
            files.settings.get("do_lower_case", True),
            cache,
            files.settings.get("strip_accents"),
            files.settings.get("tokenize_chinese_chars", True),
            files.special_tokens,
            files.backend,
        )
        if files.backend is None and files.added_tokens:
            add_tokens(tokenizer.backend, files.added_tokens, folder)
            tokenizer.define()
        if files.backend is not None:
            _check_frame(tokenizer, folder)
            tokenizer.is_defined_by_file = True
        return tokenizer

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the token ids of a text depend on."""
        identity: list[Any] = [tokenizers.__version__, self.settings, self.vocabulary]
        if self.definition is not None:
            identity.append(self.definition)
        text = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the files that transformers.AutoTokenizer opens.

        They are vocab.txt and tokenizer_config.json. A tokenizer with added tokens or other rules
        is written as tokenizer.json in place of vocab.txt, as transformers 5 does.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = "PreTrainedTokenizerFast" if self.is_defined_by_file else "BertTokenizer"
        content: dict[str, Any] = {**self.settings, "tokenizer_class": name}
        if self.definition is None:
            self._save_vocabulary(folder)
        else:
            (folder / "tokenizer.json").write_text(self.definition, encoding="utf-8")
            content.update(self.special_tokens)
        text = json.dumps(content, indent=2) + "\n"
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")

    def _save_vocabulary(self, folder: Path) -> None:
        """Write vocab.txt, one token a line."""
        # An id without a token gets an empty line, so that the others keep their ids.
        token_of = {token_id: token for token, token_id in self.vocabulary.items()}
        lines = [token_of.get(token_id, "") for token_id in range(max(token_of) + 1)]
        vocabulary = "\n".join(lines) + "\n"
        (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8", newline="\n")

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


def _check_frame(tokenizer: BertTokenizer, folder: Path) -> None:
    """Raise ValueError if a tokenizer.json does not put [CLS] before and [SEP] behind a text."""
    (token_ids,), _ = tokenizer.encode(["a"])
    is_framed = token_ids[0] == tokenizer.cls_token_id and token_ids[-1] == tokenizer.sep_token_id
    if not is_framed:
        raise ValueError(
            f"{folder / 'tokenizer.json'}: its post_processor does not put "
            f"{tokenizer.special_tokens['cls_token']} before a text and "
            f"{tokenizer.special_tokens['sep_token']} behind it, as a BERT expects. Fetch the "
            "tokenizer of this model again."
        )


def _check_vocabulary_size(folder: Path, vocabulary: dict[str, int]) -> None:
    """Raise ValueError if config.json beside the vocabulary has embeddings for fewer ids."""
    if not (folder / "config.json").is_file():
        return
    num_ids = max(vocabulary.values(), default=-1) + 1
    vocab_size = BertConfig.from_pretrained(folder).vocab_size
    if num_ids > vocab_size:
        raise ValueError(
            f"{folder}: its vocabulary (vocab.txt or tokenizer.json) has {num_ids:,} tokens; "
            f"config.json has vocab_size "
            f"{vocab_size:,}, and a token beyond it has no embedding. The two do not belong "
            "together; fetch the model again."
        )
