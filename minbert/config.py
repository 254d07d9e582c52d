"""BertConfig: the numbers that fix an encoder's shape, read from and written to config.json.

Next: tokenizer.py.
"""

from __future__ import annotations

import json
from dataclasses import Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from minbert import hub

ATTENTION_IMPLEMENTATIONS = ("eager", "fused")

# transformers' names of the one activation that is computed here, x Phi(x).
NAMES_OF_GELU = ("gelu", "gelu_python")

# Keys of config.json that change the mathematics, and the effect of each.
UNSUPPORTED_KEYS = {
    "is_decoder": "its attention masks the future (causal attention)",
    "add_cross_attention": "its layers attend to a second encoder",
    "quantization_config": "its weights are quantised",
    "pruned_heads": "some of its attention heads were removed",
}


@dataclass(frozen=True)
class BertConfig:
    """Shape and dropout of a BERT (Devlin et al. 2019, section 3).

    The defaults are those of bert-base-uncased. The names of the fields are Hugging Face's, except
    `attention_implementation`. There, "eager" is the attention written out, and "fused" is torch's
    scaled_dot_product_attention. Both compute the same function.

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

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check_type(field)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}; every head has the same whole number of units."
            )
        if self.hidden_act != "gelu":
            raise ValueError(
                f"hidden_act is '{self.hidden_act}'; this encoder computes only 'gelu' (the erf "
                "form), as BERT does."
            )
        if self.attention_implementation not in ATTENTION_IMPLEMENTATIONS:
            raise ValueError(
                f"attention_implementation '{self.attention_implementation}' is not 'eager' or "
                "'fused'."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            probability = getattr(self, name)
            if not 0.0 <= probability < 1.0:
                raise ValueError(
                    f"{name} is {probability}; a dropout probability is at least 0 and below 1."
                )

    def _check_type(self, field: Field) -> None:
        """Raise ValueError if a field is not of its default's type, or an int below its minimum."""
        value = getattr(self, field.name)
        kind = type(field.default)

        # JSON writes 1.0 as 1, so an int may stand for a float. True is no number here.
        is_int_for_float = kind is float and type(value) is int
        if type(value) is not kind and not is_int_for_float:
            raise ValueError(f"{field.name} is {value!r}; it must be of type {kind.__name__}.")

        minimum = 0 if field.name == "pad_token_id" else 1
        if kind is int and value < minimum:
            raise ValueError(f"{field.name} is {value}; it must be at least {minimum}.")

    @property
    def head_size(self) -> int:
        """D, the units of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, local_files_only: bool = False, **overrides: Any
    ) -> BertConfig:
        """Read the config.json of a model. Keys that are not ours are ignored.

        name_or_folder, local_files_only: as in BertModel.from_pretrained. A Path is always a
        folder. overrides: replace what was read, by name. Raises ValueError if the file is missing,
        is not JSON, or describes another architecture.
        """
        folder = name_or_folder
        if isinstance(folder, str):
            folder = hub.resolve(folder, local_files_only)
        path = folder / "config.json"
        content = _read_json_object(path)
        _check_architecture(path, content)

        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in content.items() if name in known}
        if values.get("hidden_act") in NAMES_OF_GELU:
            values["hidden_act"] = "gelu"
        try:
            return replace(cls(**values), **overrides)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save_pretrained(self, folder: str | Path, architecture: str = "BertModel") -> None:
        """Write `folder`/config.json, so that transformers recognises a BERT.

        architecture: the class of transformers that opens it. That class computes in float32.
        """
        content: dict[str, Any] = {
            "architectures": [architecture],
            "model_type": "bert",
            "dtype": "float32",
            **asdict(self),
        }
        # It says how to compute, which is no property of the weights.
        del content["attention_implementation"]
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")


def _read_json_object(path: Path) -> dict[str, Any]:
    """Read an object of named fields; ValueError with what to do if there is none."""
    folder = path.parent
    if not path.is_file():
        # The folder of a run holds its models one level below.
        models = [str(inner.parent) for inner in sorted(folder.glob("*/config.json"))]
        hint = f"Did you mean {' or '.join(models)}?" if models else "Check the path."
        raise ValueError(
            f"{folder}: no config.json in it; a model folder in Hugging Face layout holds it "
            f"beside vocab.txt and model.safetensors (or pytorch_model.bin). {hint}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({error}); fetch the model again.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: holds a {type(content).__name__}, not an object of named fields; fetch it "
            "again."
        )
    return content


def _check_architecture(path: Path, content: dict[str, Any]) -> None:
    """Raise ValueError if the config is that of another model than BERT."""
    if "__version__" in content and "hidden_size" not in content:
        inner = [str(config.parent) for config in sorted(path.parent.glob("0_*/config.json"))]
        raise ValueError(
            f"{path}: describes no encoder. This is a folder of an early sentence-transformers, "
            f"whose encoder stands in {' or '.join(inner) or 'a folder such as 0_BERT'}. Give that "
            "folder."
        )
    model_type = content.get("model_type", "bert")
    if model_type != "bert":
        raise ValueError(f"{path}: model_type is '{model_type}'; this encoder loads 'bert' only.")
    position_type = content.get("position_embedding_type", "absolute")
    if position_type != "absolute":
        raise ValueError(
            f"{path}: position_embedding_type is '{position_type}'; only 'absolute' position "
            "embeddings are built here."
        )

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
            f"{path}: architectures is {architectures} and there is no model_type; this encoder "
            'loads a BERT only. If it is one, add "model_type": "bert".'
        )
