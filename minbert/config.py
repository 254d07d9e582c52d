"""BertConfig: the numbers that fix an encoder's shape, read from and written to config.json.

families.py lists the families that are read, and how their files differ. Next: tokenizer.py.
"""

from __future__ import annotations

import json
from dataclasses import Field, asdict, dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from minbert import hub
from minbert.commands.digests import check_recorded, recording
from minbert.commands.files import read_json, write_text
from minbert.families import FAMILIES, NUM_BUCKETS, Family
from minbert.weight_files import list_weights, listed

ATTENTION_IMPLEMENTATIONS = ("eager", "fused")

# Names that stand for x Phi(x), the exact GELU. They are read as "gelu".
NAMES_OF_GELU = ("gelu", "gelu_python")

# transformers' names of the other activations that bert.py computes, and what each computes.
TANH_GELU = "GELU by its tanh approximation"
OTHER_ACTIVATIONS = {
    "gelu_new": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "gelu_python_tanh": TANH_GELU,
    "gelu_fast": TANH_GELU,
    "gelu_accurate": TANH_GELU,
    "relu": "max(x, 0)",
    "silu": "x sigmoid(x)",
    "swish": "x sigmoid(x)",
}


# Keys of config.json that change the mathematics, and the effect of each.
UNSUPPORTED_KEYS = {
    "is_decoder": "its attention masks the future (causal attention)",
    "add_cross_attention": "its layers attend to a second encoder",
    "quantization_config": "its weights are quantised",
    "pruned_heads": "some of its attention heads were removed",
}

# The only value that is computed, where a config.json has the key.
ONLY_VALUES = {"position_embedding_type": "absolute", "relative_attention_num_buckets": NUM_BUCKETS}


@dataclass(frozen=True)
class BertConfig:
    """Shape and dropout of a BERT (Devlin et al. 2019, section 3).

    The defaults are those of bert-base-uncased. The names of the fields are Hugging Face's, except
    `attention_implementation`. There, "eager" is the attention written out, and "fused" is torch's
    scaled_dot_product_attention. Both compute the same function. `model_type` is a key of FAMILIES.
    `embedding_size` is that of the embeddings, which an ELECTRA projects to hidden_size. 0 stands
    for hidden_size.

    Raises ValueError for a value of another type or out of its range.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    attention_implementation: str = "eager"
    model_type: str = "bert"
    embedding_size: int = 0

    def __post_init__(self) -> None:
        for entry in fields(self):
            self._check_type(entry)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}; every head has the same whole number of units."
            )
        if self.hidden_act != "gelu" and self.hidden_act not in OTHER_ACTIVATIONS:
            raise ValueError(
                f"hidden_act is '{self.hidden_act}', which is not computed here. Computed are "
                f"gelu, {', '.join(OTHER_ACTIVATIONS)}."
            )
        if self.attention_implementation not in ATTENTION_IMPLEMENTATIONS:
            raise ValueError(
                f"attention_implementation '{self.attention_implementation}' is not 'eager' or "
                "'fused'."
            )
        if self.model_type not in FAMILIES:
            raise ValueError(
                f"model_type is '{self.model_type}'; this encoder loads {', '.join(FAMILIES)} only."
            )
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(
                f"pad_token_id is {self.pad_token_id}; it must be below vocab_size, "
                f"{self.vocab_size}."
            )
        if self.num_positions < 1:
            raise ValueError(
                f"max_position_embeddings is {self.max_position_embeddings}; {self.model_type} "
                f"must have more than {self.first_position}."
            )
        self._check_ranges()

    def _check_ranges(self) -> None:
        """Raise ValueError for a probability or a small number that is not from 0 to below 1."""
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            probability = getattr(self, name)
            if not 0.0 <= probability < 1.0:
                raise ValueError(
                    f"{name} is {probability}; a dropout probability is at least 0 and below 1."
                )
        # JSON of Python may hold nan, and every vector would be nan.
        if not 0.0 <= self.layer_norm_eps < 1.0:
            raise ValueError(
                f"layer_norm_eps is {self.layer_norm_eps}; it is at least 0 and below 1, such as "
                "1e-12."
            )

    def _check_type(self, entry: Field) -> None:
        """Raise ValueError if a field is not of its default's type, or an int below its minimum."""
        value = getattr(self, entry.name)
        kind = type(entry.default)

        # JSON writes 1.0 as 1, so an int may stand for a float. True is no number here.
        is_int_for_float = kind is float and type(value) is int
        if type(value) is not kind and not is_int_for_float:
            raise ValueError(f"{entry.name} is {value!r}; it must be of type {kind.__name__}.")

        minimum = 0 if entry.name in ("pad_token_id", "embedding_size") else 1
        if kind is int and value < minimum:
            raise ValueError(f"{entry.name} is {value}; it must be at least {minimum}.")

    @property
    def head_size(self) -> int:
        """D, the units of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def family(self) -> Family:
        """The row of FAMILIES."""
        return FAMILIES[self.model_type]

    @property
    def has_segments(self) -> bool:
        """Whether the encoder has segment embeddings. DistilBERT and MPNet have none."""
        return self.family.has_segments

    @property
    def first_position(self) -> int:
        """The row of the position table that the first token reads.

        RoBERTa and its like begin behind the row of padding, which has the padding token's id. In
        MPNet it has a fixed number, whatever that id is.
        """
        family = self.family
        if not family.counts_behind_padding:
            return 0
        row = self.pad_token_id if family.padding_row is None else family.padding_row
        return row + 1

    @property
    def word_size(self) -> int:
        """The units of an embedding, before any projection to hidden_size."""
        return self.embedding_size or self.hidden_size

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the encoder, embeddings and pooler included."""
        size, inner = self.hidden_size, self.intermediate_size
        segments = self.type_vocab_size if self.has_segments else 0
        rows = self.vocab_size + self.max_position_embeddings + segments
        embeddings = (rows + 2) * self.word_size
        if self.word_size != size:
            embeddings += self.word_size * size + size
        if self.family.has_relative_positions:
            embeddings += NUM_BUCKETS * self.num_attention_heads
        attention = 4 * (size * size + size)
        feed_forward = 2 * size * inner + inner + size
        layer = attention + feed_forward + 4 * size
        return embeddings + self.num_hidden_layers * layer + size * size + size

    @property
    def num_positions(self) -> int:
        """The most tokens of a row."""
        return self.max_position_embeddings - self.first_position

    @property
    def identity(self) -> dict[str, Any]:
        """The fields for a fingerprint. A BERT has those of versions that knew no other family."""
        values = dict(self.__dict__)
        if not self.embedding_size:
            del values["embedding_size"]
        if self.model_type == "bert":
            del values["model_type"]
        return values

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, local_files_only: bool = False, **overrides: Any
    ) -> BertConfig:
        """Read the config.json of a model. Keys that are not ours are ignored.

        name_or_folder, local_files_only: as in BertModel.from_pretrained. A Path is always a
        folder. overrides: replace what was read, by name. Raises ValueError if the file is missing,
        is not JSON, or describes another architecture, and for an override that is no field.
        """
        folder = name_or_folder
        if isinstance(folder, str):
            folder = hub.resolve(folder, local_files_only)
        path = hub.base_of(folder, local_files_only) / "config.json"
        content = _read_json_object(path)
        _check_architecture(path, content)
        _check_names(overrides, [entry.name for entry in fields(cls)])

        family = FAMILIES[content.get("model_type", "bert")]
        values = dict(family.defaults)
        for name in [entry.name for entry in fields(cls)]:
            # transformers reads the family's own name, and BERT's as well.
            for key in (name, family.keys.get(name, name)):
                if key in content and name not in family.fixed:
                    values[name] = content[key]
        if values.get("hidden_act") in NAMES_OF_GELU:
            values["hidden_act"] = "gelu"
        try:
            return replace(cls(**values), **overrides)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save_pretrained(self, folder: str | Path, kind: str = "Model") -> None:
        """Write `folder`/config.json, so that transformers recognises the family.

        kind: the end of the name of the class of transformers that opens it, such as "ForMaskedLM".
            That class computes in float32.
        """
        family = self.family
        content: dict[str, Any] = {
            "architectures": [f"{family.class_name}{kind}"],
            "dtype": "float32",
        }
        for name, value in (asdict(self) | {"embedding_size": self.word_size}).items():
            # attention_implementation says how to compute. It is no property of the weights.
            if name != "attention_implementation" and name not in family.fixed:
                content[family.keys.get(name, name)] = value
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        path = Path(folder) / "config.json"
        with recording(path.parent) as digests:
            digests[path.name] = write_text(path, text)


def _check_names(overrides: dict[str, Any], names: list[str]) -> None:
    """Raise ValueError for an override that is no field, with the field that is likely meant."""
    for name in overrides:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"they are {', '.join(names)}."
            raise ValueError(f"from_pretrained: '{name}' is no field of a config; {hint}")


def _read_json_object(path: Path) -> dict[str, Any]:
    """Read an object of named fields; ValueError with what to do if there is none."""
    folder = path.parent
    if not path.is_file():
        # The folder of a run holds its models one level below.
        models = []
        for name in ("config.json", hub.ADAPTER_CONFIG):
            models += [str(inner.parent) for inner in sorted(folder.glob(f"*/{name}"))]
        hint = f"Did you mean {' or '.join(models)}?" if models else "Check the path."
        names = list_weights(folder)
        if names and not models:
            hint = f"It holds {listed(names)}. Fetch config.json of the same model, too."
        raise ValueError(
            f"{folder}: no config.json in it; a model folder in Hugging Face layout holds it "
            f"beside vocab.txt and model.safetensors (or pytorch_model.bin). {hint}"
        )
    check_recorded(path)
    try:
        content = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({error}); fetch the model again.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: holds a {type(content).__name__}, not an object of named fields; fetch it "
            "again."
        )
    return content


def _check_architecture(path: Path, content: dict[str, Any]) -> None:
    """Raise ValueError if the config is that of a model that is not computed here."""
    if "__version__" in content and "hidden_size" not in content:
        inner = [str(config.parent) for config in sorted(path.parent.glob("0_*/config.json"))]
        raise ValueError(
            f"{path}: describes no encoder. This is a folder of an early sentence-transformers, "
            f"whose encoder stands in {' or '.join(inner) or 'a folder such as 0_BERT'}. Give that "
            "folder."
        )
    model_type = content.get("model_type", "bert")
    if model_type not in FAMILIES:
        raise ValueError(
            f"{path}: model_type is '{model_type}'; this encoder loads {', '.join(FAMILIES)} only."
        )
    for key, only in ONLY_VALUES.items():
        if content.get(key, only) != only:
            raise ValueError(f"{path}: {key} is {content[key]!r}; only {only!r} is built here.")

    # A falsy value, such as false or {}, switches the key off.
    for key, effect in UNSUPPORTED_KEYS.items():
        if content.get(key):
            raise ValueError(
                f"{path}: {key} is {json.dumps(content[key])}: {effect}. This encoder is a plain "
                "BERT and would compute other numbers. Use a model without it."
            )
    if "AutoModel" in (content.get("auto_map") or {}):
        raise ValueError(
            f"{path}: auto_map says that the model is computed by code of its own "
            f"({content['auto_map']['AutoModel']}), which is never run here. Use a plain BERT."
        )
    _check_declared_class(path, content)


def _check_declared_class(path: Path, content: dict[str, Any]) -> None:
    """Raise ValueError if a config without a model_type names the class of another model."""
    architectures = content.get("architectures")
    if "model_type" in content or not isinstance(architectures, list):
        return
    if architectures and not any("bert" in str(name).lower()[:4] for name in architectures):
        raise ValueError(
            f"{path}: architectures is {architectures} and there is no model_type, so it would be "
            f'read as a BERT. Add "model_type": {" or ".join(FAMILIES)}, if it is one of these.'
        )
