"""The files of a tokenizer, as transformers and other libraries write them.

Two kinds of folder are read. A BERT tokenizer is built from its vocabulary, the switches of
tokenizer_config.json, and its added tokens. The others are complete in their files: RoBERTa's
byte-level BPE, XLM-R's Unigram, and a PreTrainedTokenizerFast, which is tokenizer.json itself. All
give the token ids of transformers. Next: tokenizer.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from minbert.commands.digests import check_recorded
from minbert.commands.files import read_json
from minbert.families import FAMILIES
from minbert.hub import base_of

# One of these holds the tokens of a folder.
VOCABULARY_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")

# Each special token's key in tokenizer_config.json, and its usual name.
SPECIAL_TOKEN_KEYS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

# The usual names in RoBERTa and its like.
ROBERTA_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}

# The settings of tokenizer_config.json that change token ids.
SETTINGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")

# Classes of transformers that all apply BERT's rules, without the ending "Fast".
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")

# Classes that do what tokenizer.json says. Transformers 5 calls the first one TokenizersBackend.
FILE_CLASSES = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
ROBERTA = "RobertaTokenizer"
MPNET = "MPNetTokenizer"
UNIGRAM_CLASSES = ("XLMRobertaTokenizer", "CamembertTokenizer")

# The usual names of the special tokens of a class, where they are not BERT's.
USUAL_NAMES = {
    **dict.fromkeys((ROBERTA, *UNIGRAM_CLASSES), ROBERTA_TOKENS),
    MPNET: ROBERTA_TOKENS | {"unk_token": "[UNK]"},
}


@dataclass(frozen=True)
class TokenizerFiles:
    """The content of a folder's tokenizer files."""

    # From a token to its id, in the order of the ids, without added tokens.
    vocabulary: dict[str, int]

    # The values of SETTINGS that the folder names.
    settings: dict[str, Any]

    # The name of each special token, by the keys of SPECIAL_TOKEN_KEYS.
    special_tokens: dict[str, str]

    # Tokens beyond the vocabulary and the special ones, with their ids or None for the next id.
    added_tokens: list[tuple[AddedToken, int | None]]

    # The complete tokenizer of another class. None for a BERT tokenizer.
    backend: Tokenizer | None


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Read the tokenizer files of a folder.

    Raises ValueError for a file that is missing or damaged, and for a tokenizer class with other
    rules. The message names it.
    """
    # An adapter that stands alone often has no tokenizer: it is that of the base.
    if not any((folder / name).is_file() for name in VOCABULARY_FILES):
        folder = base_of(folder)
    settings = _read_table(folder / "tokenizer_config.json")
    _check_settings(folder, settings)
    kind = _class_of(folder, settings)
    definition = _read_table(folder / "tokenizer.json")
    names = dict(settings)
    if "added_tokens_decoder" not in settings:
        names.update(_read_table(folder / "special_tokens_map.json"))
    special_tokens = {}
    for key, usual_name in USUAL_NAMES.get(kind, SPECIAL_TOKEN_KEYS).items():
        special_tokens[key] = _content_of(names.get(key)) or usual_name

    backend = None
    if kind in BERT_CLASSES:
        vocabulary = _read_vocabulary(folder, definition)
    else:
        backend = _read_backend(folder, kind, settings, definition, special_tokens)
        vocabulary = backend.get_vocab(with_added_tokens=True)
    added_tokens = _read_added_tokens(folder, names, definition, special_tokens)
    return TokenizerFiles(vocabulary, settings, special_tokens, added_tokens, backend)


# --- complete tokenizers --------------------------------------------------------------------------


def _read_backend(
    folder: Path,
    kind: str,
    settings: dict[str, Any],
    definition: dict[str, Any],
    special_tokens: dict[str, str],
) -> Tokenizer:
    """Read the tokenizer of a class that is not a BERT's."""
    if not definition and kind == ROBERTA:
        return _byte_level_bpe(folder, settings, special_tokens)
    if not definition and kind == MPNET:
        return _framed_word_piece(folder, settings, special_tokens)
    if not definition:
        raise ValueError(
            f"{folder}: tokenizer_class is '{kind}', which is defined by tokenizer.json, and there "
            f"is none. {_advice_for(folder)}"
        )
    try:
        backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises plain Exception
        raise ValueError(
            f"{folder / 'tokenizer.json'}: cannot be read ({error}). Fetch the model again."
        ) from error
    # transformers takes this setting from tokenizer_config.json, whatever tokenizer.json says.
    if kind == ROBERTA and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        backend.pre_tokenizer.add_prefix_space = settings.get("add_prefix_space", False)
    # These classes know how ids become text again, whatever tokenizer.json says.
    if kind == ROBERTA:
        backend.decoder = decoders.ByteLevel()
    elif kind in UNIGRAM_CLASSES:
        scheme = "always" if settings.get("add_prefix_space", True) else "never"
        backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return backend


def _advice_for(folder: Path) -> str:
    """The way to a tokenizer.json."""
    if (folder / "sentencepiece.bpe.model").is_file():
        return (
            "sentencepiece.bpe.model is not read here. Write tokenizer.json once, where "
            "transformers and sentencepiece are installed: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    return "Fetch that file, too."


def _byte_level_bpe(
    folder: Path, settings: dict[str, Any], special_tokens: dict[str, str]
) -> Tokenizer:
    """Build RoBERTa's tokenizer from vocab.json and merges.txt (Radford et al. 2019, section 2.2).

    Each space is part of the word behind it. A row is `<s> a </s>`, a pair `<s> a </s></s> b </s>`.
    """
    paths = [folder / "vocab.json", folder / "merges.txt"]
    for path in paths:
        if not path.is_file():
            raise ValueError(
                f"{folder}: no {path.name} in it, and no tokenizer.json; a RobertaTokenizer is "
                "read from tokenizer.json, or from vocab.json and merges.txt. Fetch them, too."
            )
    try:
        backend = Tokenizer(models.BPE.from_file(*map(str, paths)))
    except Exception as error:  # the library raises plain Exception
        raise ValueError(
            f"{folder}: vocab.json and merges.txt cannot be read ({error}). Fetch the model again."
        ) from error
    has_space = settings.get("add_prefix_space", False)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=has_space)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = _roberta_frame(backend, paths[0], special_tokens)
    return backend


def _framed_word_piece(
    folder: Path, settings: dict[str, Any], special_tokens: dict[str, str]
) -> Tokenizer:
    """Build MPNet's tokenizer from vocab.txt: BERT's words and pieces in RoBERTa's frame."""
    vocabulary = _read_lines(folder)
    backend = Tokenizer(
        models.WordPiece(
            vocabulary, unk_token=special_tokens["unk_token"], max_input_chars_per_word=100
        )
    )
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.post_processor = _roberta_frame(backend, folder / "vocab.txt", special_tokens)
    mask = AddedToken(special_tokens["mask_token"], lstrip=True, special=True)
    backend.add_special_tokens([mask])
    return backend


def _roberta_frame(
    backend: Tokenizer, path: Path, special_tokens: dict[str, str]
) -> processors.RobertaProcessing:
    """The step that makes rows `<s> a </s>`. path: of the vocabulary, for the message."""
    frame = []
    for key in ("sep_token", "cls_token"):
        token_id = backend.token_to_id(special_tokens[key])
        if token_id is None:
            raise ValueError(
                f"{path}: lacks the token '{special_tokens[key]}'. Fetch the model again."
            )
        frame.append((special_tokens[key], token_id))
    return processors.RobertaProcessing(frame[0], frame[1])


def add_special_tokens(backend: Tokenizer, special_tokens: dict[str, str]) -> None:
    """Mark tokens of a backend as special, so that text that holds one of them is not split.

    Those that the backend marks already keep their properties. RoBERTa's <mask> also takes the
    space before it.
    """
    marked = {token.content for token in backend.get_added_tokens_decoder().values()}
    for name in special_tokens.values():
        if name not in marked and backend.token_to_id(name) is not None:
            backend.add_special_tokens([name])


# --- tables ---------------------------------------------------------------------------------------


def _read_table(path: Path) -> dict[str, Any]:
    """Read a file of named values, or an empty table where there is none."""
    if not path.is_file():
        return {}
    check_recorded(path)
    try:
        content = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}). Fetch the model again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a table of named values. Fetch the model again.")
    return content


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Raise ValueError if one of SETTINGS is not true or false."""
    for name in SETTINGS:
        value = settings.get(name, True)
        is_null_allowed = name == "strip_accents"
        if type(value) is not bool and not (value is None and is_null_allowed):
            raise ValueError(
                f"{folder / 'tokenizer_config.json'}: not a table in which {', '.join(SETTINGS)} "
                "are true or false (or strip_accents null). Fetch the model again."
            )


def _class_of(folder: Path, settings: dict[str, Any]) -> str:
    """The tokenizer class of a folder, without the ending "Fast".

    Older models name theirs in config.json, or not at all. Raises ValueError for a class with other
    rules than those that are known here.
    """
    file_name = "tokenizer_config.json"
    name = settings.get("tokenizer_class")
    if name is None:
        file_name = "config.json"
        config = _read_table(base_of(folder) / file_name)
        name = config.get("tokenizer_class")
        if name is None:
            family = FAMILIES.get(config.get("model_type", "bert"), FAMILIES["bert"])
            name = family.tokenizer_class
    if name in FILE_CLASSES:
        return str(name)
    kind = str(name).removesuffix("Fast")
    if kind in (*BERT_CLASSES, *USUAL_NAMES):
        return kind
    raise ValueError(
        f"{folder / file_name}: tokenizer_class is '{name}', whose rules are not built here; its "
        f"token ids would be others. Supported are {', '.join([*BERT_CLASSES, *USUAL_NAMES])} "
        "and, with a tokenizer.json, PreTrainedTokenizerFast."
    )


# --- vocabularies ---------------------------------------------------------------------------------


def _read_vocabulary(folder: Path, definition: dict[str, Any]) -> dict[str, int]:
    """Read the WordPiece vocabulary of tokenizer.json, or else of vocab.txt."""
    model = definition.get("model")
    if not definition:
        return _read_lines(folder)
    is_word_piece = isinstance(model, dict) and model.get("type", "WordPiece") == "WordPiece"
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not is_word_piece or not isinstance(vocabulary, dict):
        kind = model.get("type") if isinstance(model, dict) else None
        raise ValueError(
            f"{folder / 'tokenizer.json'}: its model is {kind!r}; a BERT tokenizer has a WordPiece "
            "vocabulary. Fetch the tokenizer of this model again."
        )
    return dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))


def _read_lines(folder: Path) -> dict[str, int]:
    """Read vocab.txt, one token a line. The line's number is the id, also behind a blank line."""
    path = folder / "vocab.txt"
    if not path.is_file():
        raise ValueError(
            f"{folder}: no vocab.txt in it, and no tokenizer.json; one must hold the WordPiece "
            "vocabulary."
        )
    check_recorded(path)
    try:
        # Some editors begin a file with a byte-order mark, which belongs to no token.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except ValueError as error:
        raise ValueError(
            f"{folder}: vocab.txt is not UTF-8 ({error}). Fetch the model again."
        ) from error
    vocabulary: dict[str, int] = {}
    for token_id, line in enumerate(lines):
        # A token holds no blank, so blanks at a line's end were added by an editor.
        token = line.rstrip(" \t\r")
        if token:
            vocabulary[token] = token_id
    return vocabulary


# --- added tokens ---------------------------------------------------------------------------------


def _content_of(token: Any) -> str | None:
    """The text of a token, which is stored as a text or as a table of its properties."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _read_added_tokens(
    folder: Path,
    names: dict[str, Any],
    definition: dict[str, Any],
    special_tokens: dict[str, str],
) -> list[tuple[AddedToken, int | None]]:
    """Collect the added tokens of all files, in the order of their ids.

    names: tokenizer_config.json and special_tokens_map.json joined.
    """
    extra_tokens: list[Any] = []
    for key in ("extra_special_tokens", "additional_special_tokens"):
        values = names.get(key) or []
        extra_tokens += values.values() if isinstance(values, dict) else values
    extra_names = [_content_of(token) for token in extra_tokens]

    # Transformers before 5 wrote the properties of each token, older versions only its id.
    by_id: dict[int, AddedToken] = {}
    stored = names.get("added_tokens_decoder")
    if stored is None:
        for text, token_id in _read_table(folder / "added_tokens.json").items():
            is_special = text in extra_names or text in special_tokens.values()
            by_id[token_id] = AddedToken(text, normalized=not is_special, special=is_special)
        for properties in definition.get("added_tokens", []):
            by_id[properties["id"]] = _added_token(properties)
    else:
        for token_id, properties in stored.items():
            by_id[int(token_id)] = _added_token(properties)

    added_tokens: list[tuple[AddedToken, int | None]] = []
    known = set(special_tokens.values())
    for token_id, token in sorted(by_id.items()):
        if token.content not in known:
            known.add(token.content)
            added_tokens.append((token, token_id))
    for name in extra_names:
        if name is not None and name not in known:
            known.add(name)
            added_tokens.append((AddedToken(name, special=True), None))
    return added_tokens


def _added_token(properties: dict[str, Any]) -> AddedToken:
    """Make an added token of its stored properties."""
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    values = {name: properties[name] for name in names if name in properties}
    return AddedToken(properties["content"], **values)


def add_tokens(
    backend: Tokenizer, added_tokens: list[tuple[AddedToken, int | None]], folder: Path
) -> None:
    """Add tokens to a tokenizer; ValueError if one would not have the id that its file says."""
    backend.add_tokens([token for token, _ in added_tokens])
    for token, stored_id in added_tokens:
        token_id = backend.token_to_id(token.content)
        if stored_id is not None and token_id != stored_id:
            raise ValueError(
                f"{folder}: the added token '{token.content}' has id {stored_id} in its file, and "
                f"{token_id} behind the vocabulary. The files do not belong together; fetch the "
                "model again."
            )
