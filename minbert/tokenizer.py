"""Tokenization through the `tokenizers` library: sentences and pairs, with segment ids.

A call, `tokenizer(texts)`, and its other methods are named as in transformers. `encode` is the
short way for many rows without padding.

`[CLS] a [SEP]` has segment 0 throughout. In `[CLS] a [SEP] b [SEP]`, the second sentence and its
[SEP] have segment 1. RoBERTa and XLM-R have `<s> a </s>` and `<s> a </s></s> b </s>`, with segment
0 throughout.

B rows, T tokens. Next: dropout.py, attention.py and bert.py, which turn token ids into vectors.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from minbert import hub
from minbert.commands.digests import recording
from minbert.commands.files import write_text
from minbert.config import BertConfig
from minbert.token_batch import (
    NO_LIMIT,
    TENSORS,
    Row,
    TokenBatch,
    check_choice,
    converted,
    padded,
    read_call,
    rows_of,
)
from minbert.tokenizer_files import (
    SETTINGS,
    SPECIAL_TOKEN_KEYS,
    TokenizerFiles,
    add_special_tokens,
    add_tokens,
    read_tokenizer_files,
)

SPECIAL_TOKENS = tuple(SPECIAL_TOKEN_KEYS.values())
# A backend keeps how the next rows are cut. So threads, such as those of a web server, take turns.
ONE_THREAD = threading.Lock()

# Settings of tokenizer_config.json beside those of the vocabulary's rules, and their defaults. They
# are about calls and `decode`. split_special_tokens: "[SEP]" in a text is text, and no separator.
CALL_SETTINGS = {
    "model_max_length": NO_LIMIT,
    "padding_side": "right",
    "truncation_side": "right",
    "clean_up_tokenization_spaces": False,
    "split_special_tokens": False,
}
TokenIds = int | Sequence[int] | Tensor | np.ndarray

# What decode(clean_up_tokenization_spaces=True) replaces, in this order.
CLEAN_UPS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class BertTokenizer:
    """Turns text into the token ids that transformers.BertTokenizerFast gives.

    vocabulary: from a token to its id, with all of SPECIAL_TOKENS. lowercase: whether the model is
    uncased. cache: the folder in which data/token_cache.py keeps the token ids of whole files from
    run to run, or None. strip_accents: None strips them if text is lower-cased.
    tokenize_chinese_chars: whether each Chinese character becomes a word. special_tokens: names
    other than SPECIAL_TOKENS, by the keys of tokenizer_config.json. backend: a complete tokenizer,
    used in place of BERT's rules.

    Attributes: pad_token and pad_token_id, and the same for unk, cls, sep and mask.
    model_max_length: the most tokens that the model takes, or a huge number where nothing says it.

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
        self.pad_token, self.unk_token, self.cls_token, self.sep_token, self.mask_token = names
        self.pad_token_id = vocabulary[self.pad_token]
        self.unk_token_id = vocabulary[self.unk_token]
        self.cls_token_id = vocabulary[self.cls_token]
        self.sep_token_id = vocabulary[self.sep_token]
        self.mask_token_id = vocabulary[self.mask_token]

        # Those of CALL_SETTINGS that the folder names.
        self.call_settings: dict[str, Any] = {}
        self.model_max_length = NO_LIMIT

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
        backend.decoder = decoders.WordPiece(prefix="##")
        backend.post_processor = processors.BertProcessing(
            (special["sep_token"], self.sep_token_id), (special["cls_token"], self.cls_token_id)
        )
        return backend

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        cache: Path | None = None,
        local_files_only: bool = False,
        **overrides: Any,
    ) -> BertTokenizer:
        """Read the tokenizer of a folder, as transformers does.

        name_or_folder, local_files_only: as in BertModel.from_pretrained. cache: as in the class.
        overrides: settings in place of those of tokenizer_config.json: do_lower_case,
        strip_accents, tokenize_chinese_chars, and the keys of CALL_SETTINGS.

        Raises ValueError if a file is missing or damaged, if the tokenizer's class has other rules
        than BERT's, if config.json has fewer ids than the vocabulary, or for an override that is
        not known.
        """
        folder = hub.resolve(name_or_folder, local_files_only)
        files = read_tokenizer_files(folder)
        _check_overrides(overrides, is_bert=files.backend is None)
        files.settings.update(overrides)
        tokenizer = cls._of_files(files, folder, cache)
        tokenizer._read_call_settings(files.settings, folder)
        if (hub.base_of(folder) / "config.json").is_file():
            config = BertConfig.from_pretrained(folder)
            _check_vocabulary_size(folder, tokenizer.vocabulary, config.vocab_size)
            tokenizer.model_max_length = min(tokenizer.model_max_length, config.num_positions)
        return tokenizer

    @classmethod
    def _of_files(cls, files: TokenizerFiles, folder: Path, cache: Path | None) -> BertTokenizer:
        """Build the tokenizer that the files of a folder describe."""
        if files.backend is not None:
            add_special_tokens(files.backend, files.special_tokens)
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

    def _read_call_settings(self, settings: dict[str, Any], folder: Path) -> None:
        """Take those of CALL_SETTINGS that tokenizer_config.json names; ValueError for bad ones."""
        self.call_settings = {name: settings[name] for name in CALL_SETTINGS if name in settings}
        try:
            for name in ("padding_side", "truncation_side"):
                check_choice(name, self._setting(name), ("right", "left"))
            if type(self.splits_special_tokens) is not bool:
                value = self.splits_special_tokens
                raise ValueError(f"split_special_tokens is {value!r}; it is true or false.")
        except ValueError as error:
            raise ValueError(f"{folder / 'tokenizer_config.json'}: {error}") from error
        self.backend.encode_special_tokens = self.splits_special_tokens
        length = self._setting("model_max_length")

        # transformers writes numbers from 1e20 on where there is no limit.
        is_limit = type(length) is int and 0 < length < 1e20
        self.model_max_length = length if is_limit else NO_LIMIT

    def _setting(self, name: str) -> Any:
        """The value of one of CALL_SETTINGS."""
        value = self.call_settings.get(name)
        return CALL_SETTINGS[name] if value is None else value

    @property
    def splits_special_tokens(self) -> bool:
        """Whether a text that holds the name of a special token, such as [SEP], is plain text."""
        return self._setting("split_special_tokens")

    @property
    def truncation_side(self) -> str:
        """The side from which rows lose tokens: "right" or "left"."""
        return self._setting("truncation_side")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the token ids of a text depend on."""
        identity: list[Any] = [tokenizers.__version__, self.settings, self.vocabulary]
        if self.definition is not None:
            identity.append(self.definition)
        if self.truncation_side == "left":
            identity.append("truncated on the left")
        if self.splits_special_tokens:
            identity.append("split_special_tokens")
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
        content: dict[str, Any] = {**self.settings, **self.call_settings, "tokenizer_class": name}
        if self.is_defined_by_file:
            # The rules stand in tokenizer.json.
            content = {**self.call_settings, "tokenizer_class": name}
        if not self.has_segments:
            content["model_input_names"] = ["input_ids", "attention_mask"]
        texts = {}
        if self.definition is None:
            texts["vocab.txt"] = self._lines_of_vocabulary()
        else:
            texts["tokenizer.json"] = self.definition
            content.update(self.special_tokens)
        texts["tokenizer_config.json"] = json.dumps(content, indent=2) + "\n"
        with recording(folder) as digests:
            for file_name, text in texts.items():
                digests[file_name] = write_text(folder / file_name, text)

    def _lines_of_vocabulary(self) -> str:
        """The content of vocab.txt, one token a line."""
        # An id without a token gets an empty line, so that the others keep their ids.
        token_of = {token_id: token for token, token_id in self.vocabulary.items()}
        lines = [token_of.get(token_id, "") for token_id in range(max(token_of) + 1)]
        return "\n".join(lines) + "\n"

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

        Returns token ids and sentence ids of each row: 0 for tokens of the first sentence, 1 for
        those of the second. They are the segment ids if `has_segments`. Raises ValueError for one
        string instead of a list, and for lists of different lengths.
        """
        if isinstance(sentences, str) or isinstance(second_sentences, str):
            raise ValueError(
                "sentences is one string, which would be read letter by letter; give a list of "
                'strings. For the ids of one text, tokenizer(text)["input_ids"] is the way.'
            )
        rows: list[Any] = list(sentences)
        if second_sentences is not None:
            rows = list(zip(sentences, second_sentences, strict=True))
        with ONE_THREAD:
            self._set_truncation("longest_first", max_length)
            encodings = self.backend.encode_batch_fast(rows)
        token_ids = [encoding.ids for encoding in encodings]
        if second_sentences is None or self.has_segments:
            sentence_ids = [encoding.type_ids for encoding in encodings]
        else:
            sentence_ids = [_sentence_ids(encoding.sequence_ids) for encoding in encodings]
        return token_ids, sentence_ids

    @cached_property
    def has_segments(self) -> bool:
        """Whether token type ids tell the sentences of a pair apart, as BERT's do.

        In RoBERTa and XLM-R they are 0 throughout.
        """
        with ONE_THREAD:
            self.backend.no_truncation()
            return any(self.backend.encode("a", "a").type_ids)

    def continues_word(self, token: str) -> bool:
        """Whether a token of the vocabulary is a later piece of a word."""
        model = self.backend.model
        if isinstance(model, models.WordPiece):
            return token.startswith(model.continuing_subword_prefix)
        # Byte-level BPE and Unigram mark the first piece, by the space that stands before it.
        return not token.startswith(("\u0120", "\u2581"))

    def __call__(
        self,
        text: str | Iterable[str] | Iterable[tuple[str, str]],
        text_pair: str | Iterable[str] | None = None,
        max_length: int | None = None,
        padding: bool | str | None = True,
        truncation: bool | str | None = True,
        return_tensors: str | None = "pt",
        add_special_tokens: bool = True,
        **others: Any,
    ) -> TokenBatch:
        """Encode texts, ready for `model(**tokenizer(texts))`.

        Compare with the call of transformers.BertTokenizer, which gives the same values. There,
        padding, truncation and return_tensors are off by default.

        text: one text, or one for each row, or pairs. text_pair: as many second texts, or None. An
            empty second text makes a pair.
        max_length: the most tokens of a row, special tokens included. Default: model_max_length.
        padding: True or "longest" (up to the longest row), "max_length", or False.
        truncation: True or "longest_first" (a pair loses tokens from its longer text),
            "only_first", "only_second", or False.
        return_tensors: "pt" for tensors, "np" for arrays, None for lists. A single text is then one
            list of ids, and otherwise a batch of one row.
        add_special_tokens: whether [CLS] and [SEP] are added.
        others: pad_to_multiple_of, padding_side, return_token_type_ids, return_attention_mask.

        Returns input_ids in [0, len(tokenizer)), token_type_ids (1 for the second text of a pair)
        and attention_mask (0 for padding), each (B, T) int64.
        Raises ValueError for an argument that is not known or not computed here, for a text that is
        no str, and for rows that cannot be cut to max_length or make no tensor.
        """
        if return_tensors is not None:
            check_choice("return_tensors", return_tensors, TENSORS)
        side = self._setting("padding_side")
        call = read_call(padding, truncation, max_length, self.model_max_length, side, others)
        rows = rows_of(text, text_pair)
        with ONE_THREAD:
            self._set_truncation(call.truncation, call.max_length)
            encodings = self._encode_rows(rows, add_special_tokens, call.max_length)

        id_rows = [encoding.ids for encoding in encodings]
        columns = {
            "input_ids": padded(id_rows, self.pad_token_id, call),
            "token_type_ids": padded([encoding.type_ids for encoding in encodings], 0, call),
            "attention_mask": padded([[1] * len(row) for row in id_rows], 0, call),
        }
        batch = TokenBatch()
        for key in call.keys:
            if return_tensors is not None:
                batch[key] = converted(columns[key], return_tensors)
            else:
                batch[key] = columns[key][0] if isinstance(text, str) else columns[key]
        return batch

    def _set_truncation(self, strategy: str, max_length: int | None) -> None:
        """Set how the backend cuts rows, until the next call."""
        if strategy == "do_not_truncate" or max_length is None:
            self.backend.no_truncation()
            return
        self.backend.enable_truncation(
            max_length, strategy=strategy, direction=self.truncation_side
        )

    def _encode_rows(
        self, rows: list[Row], add_special_tokens: bool, max_length: int | None
    ) -> list[tokenizers.Encoding]:
        """Encode rows with the backend; ValueError where one cannot be cut to max_length."""
        is_pair = any(isinstance(row, tuple) for row in rows)
        num_special = self.backend.num_special_tokens_to_add(is_pair) if add_special_tokens else 0
        # The backend would not cut such rows, without a word.
        if self.backend.truncation is not None and (max_length or 0) < num_special:
            raise ValueError(
                f"max_length is {max_length}, and a row has {num_special} special tokens alone. "
                "Pass a larger max_length."
            )
        try:
            return self.backend.encode_batch_fast(rows, add_special_tokens=add_special_tokens)
        except Exception as error:  # the library raises plain Exception
            raise ValueError(
                f"a row cannot be cut to max_length {max_length} ({error}). Pass a larger "
                "max_length, or truncation='longest_first'."
            ) from error

    # --- from ids to text, and single tokens ------------------------------------------------------

    def decode(
        self,
        token_ids: TokenIds | Sequence[Sequence[int]],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str | list[str]:
        """Turn token ids back into text. Case and accents that the model never saw are lost.

        token_ids: of one row, as a list, tensor or array (T,), or of several rows.
        skip_special_tokens: leave out [CLS], [SEP], [PAD] and other special tokens.
        clean_up_tokenization_spaces: remove blanks before punctuation and in "do n't". None: as
            tokenizer_config.json says, or no.

        Returns a text, or a list for several rows. Raises ValueError for a negative id, such as the
        label -100. Compare with the method of transformers.
        """
        rows = _list_of(token_ids)
        is_batch = bool(rows) and isinstance(rows[0], Sequence)
        texts = []
        for ids in rows if is_batch else [rows]:
            text = self.backend.decode(_list_of(ids), skip_special_tokens=skip_special_tokens)
            texts.append(self._clean_up(text, clean_up_tokenization_spaces))
        return texts if is_batch else texts[0]

    def batch_decode(
        self,
        sequences: Sequence[Sequence[int]] | Tensor | np.ndarray,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """Turn rows of token ids (B, T), or lists of ids, back into texts, as `decode` does."""
        texts = []
        for ids in sequences:
            text = self.decode(ids, skip_special_tokens, clean_up_tokenization_spaces)
            texts.append(str(text))
        return texts

    def _clean_up(self, text: str, is_wanted: bool | None) -> str:
        """Remove the blanks that decoding puts before punctuation, where that is wanted."""
        if is_wanted is None:
            is_wanted = self._setting("clean_up_tokenization_spaces")

        # Byte-level tokens hold the blanks of the text itself.
        if not is_wanted or isinstance(self.backend.model, models.BPE):
            return text
        for old, new in CLEAN_UPS:
            text = text.replace(old, new)
        return text

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """Cut a text, or a pair, into tokens, without truncation."""
        self.backend.no_truncation()
        encoding = self.backend.encode(text, pair, add_special_tokens=add_special_tokens)
        return encoding.tokens

    def convert_ids_to_tokens(
        self, ids: TokenIds, skip_special_tokens: bool = False
    ) -> str | list[str | None] | None:
        """The token of an id, or the tokens of a row of ids; None where no token has the id."""
        if isinstance(ids, int):
            return self.backend.id_to_token(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        kept = [token_id for token_id in _list_of(ids) if token_id not in skipped]
        return [self.backend.id_to_token(token_id) for token_id in kept]

    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> int | list[int]:
        """The id of a token, or the ids of several; that of [UNK] where there is no such token."""
        if isinstance(tokens, str):
            token_id = self.backend.token_to_id(tokens)
            return self.unk_token_id if token_id is None else token_id
        ids = [self.backend.token_to_id(token) for token in tokens]
        return [self.unk_token_id if token_id is None else token_id for token_id in ids]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Join tokens to a text: ["play", "##ing"] is "playing"."""
        if self.backend.decoder is None:
            return " ".join(tokens)
        return self.backend.decoder.decode(list(tokens))

    def get_vocab(self) -> dict[str, int]:
        """From each token to its id, with added tokens."""
        return self.backend.get_vocab(with_added_tokens=True)

    def __len__(self) -> int:
        return self.backend.get_vocab_size(with_added_tokens=True)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without those that were added to the vocabulary."""
        return self.backend.get_vocab_size(with_added_tokens=False)

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of all special tokens, added ones included, in their order."""
        vocabulary = self.get_vocab()
        return [vocabulary[token] for token in self.all_special_tokens]

    @property
    def all_special_tokens(self) -> list[str]:
        """The special tokens: unknown, separator, padding, [CLS], mask, then added ones."""
        names = [self.unk_token, self.sep_token, self.pad_token, self.cls_token, self.mask_token]
        added = self.backend.get_added_tokens_decoder()
        names += [token.content for _, token in sorted(added.items()) if token.special]
        return list(dict.fromkeys(names))


def _list_of(token_ids: Any) -> list[Any]:
    """Make a list of an id, of a row of ids or of rows, also from tensors and arrays.

    Raises ValueError for a negative id.
    """
    if isinstance(token_ids, Tensor | np.ndarray | np.generic):
        token_ids = token_ids.tolist()
    elements: list[Any] = [token_ids] if isinstance(token_ids, int) else list(token_ids)
    ids = []
    for element in elements:
        is_array = isinstance(element, Tensor | np.ndarray | np.generic)
        ids.append(element.tolist() if is_array else element)
    for token_id in ids:
        if isinstance(token_id, int) and token_id < 0:
            raise ValueError(
                f"token id {token_id} is negative, so no token has it. Replace such labels by "
                "pad_token_id first."
            )
    return ids


def _sentence_ids(sequence_ids: list[int | None]) -> list[int]:
    """Give each token of a pair the number of its sentence, 0 or 1.

    sequence_ids: those of the library, None for special tokens. The first separator closes the
    first sentence, and everything behind it belongs to the second one.
    """
    places = [place for place, number in enumerate(sequence_ids) if number == 0]
    start = max(places, default=0) + 2
    return [int(place >= start) for place in range(len(sequence_ids))]


def _check_overrides(overrides: dict[str, Any], is_bert: bool) -> None:
    """Raise ValueError for a setting that is not known, or that would have no effect."""
    for name, value in overrides.items():
        if name not in SETTINGS and name not in CALL_SETTINGS:
            raise ValueError(
                f"from_pretrained takes no setting '{name}'; it takes "
                f"{', '.join([*SETTINGS, *CALL_SETTINGS])}."
            )
        is_switch = isinstance(value, bool) or (value is None and name == "strip_accents")
        if name in SETTINGS and not is_switch:
            raise ValueError(f"{name} is {value!r}; pass True or False.")
        if name in SETTINGS and not is_bert:
            raise ValueError(
                f"{name} has no effect: the rules of this tokenizer stand in its tokenizer.json. "
                f"Leave {name} out."
            )


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


def _check_vocabulary_size(folder: Path, vocabulary: dict[str, int], vocab_size: int) -> None:
    """Raise ValueError if a vocabulary has more ids than config.json has embeddings."""
    num_ids = max(vocabulary.values(), default=-1) + 1
    if num_ids > vocab_size:
        raise ValueError(
            f"{folder}: its vocabulary (vocab.txt or tokenizer.json) has {num_ids:,} tokens; "
            f"config.json has vocab_size "
            f"{vocab_size:,}, and a token beyond it has no embedding. The two do not belong "
            "together; fetch the model again."
        )
