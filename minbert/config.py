"""BertConfig: the numbers that fix an encoder's shape, read from and written to the Hugging Face config.json.

Next: attention.py.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path


@dataclass(frozen=True)
class BertConfig:
    """Shape and dropout of a BERT (Devlin et al. 2019, section 3); defaults are bert-base-uncased's.

    Field names are Hugging Face's. `attention_implementation` is ours: "eager" is the attention written out, "fused" is
    torch's scaled_dot_product_attention; both compute the same function.
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
            value, kind = getattr(self, field.name), type(field.default)
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise ValueError(f"{field.name} is {value!r}; it must be of type {kind.__name__}.")
            if kind is int and value < (least := 0 if field.name == "pad_token_id" else 1):
                raise ValueError(f"{field.name} is {value}; it must be at least {least}.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}; every head needs the same whole number of units."
            )
        if self.hidden_act != "gelu":
            raise ValueError(
                f"hidden_act is '{self.hidden_act}'; this encoder computes 'gelu' (erf) only, as BERT."
            )
        if self.attention_implementation not in ("eager", "fused"):
            raise ValueError(
                f"attention_implementation '{self.attention_implementation}' is not 'eager' or 'fused'."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; a dropout probability is at least 0 and below 1."
                )

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_pretrained(cls, folder: str | Path, **overrides) -> BertConfig:
        """Read `folder`/config.json; keys that are not ours are ignored, `overrides` replace what was read.

        Raises ValueError where the file is missing, is not JSON, or describes another architecture.
        """
        path = Path(folder) / "config.json"
        if not path.is_file():
            inside = [
                str(path.parent) for path in sorted(Path(folder).glob("*/config.json"))
            ]  # of a run's folder
            hint = f"Did you mean {' or '.join(inside)}?" if inside else "Check the path."
            raise ValueError(
                f"{folder}: no config.json in it; a model folder in Hugging Face layout holds it beside "
                f"vocab.txt and model.safetensors (or pytorch_model.bin). {hint}"
            )
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not valid JSON ({error}); fetch the model again.") from error
        if not isinstance(found, dict):
            raise ValueError(
                f"{path}: holds a {type(found).__name__}, not an object of named fields; fetch it again."
            )
        if found.get("model_type", "bert") != "bert":
            raise ValueError(
                f"{path}: model_type is '{found['model_type']}'; this encoder loads 'bert' only."
            )
        if found.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError(
                f"{path}: position_embedding_type is '{found['position_embedding_type']}'; only "
                "'absolute' position embeddings are built here."
            )
        known = {field.name for field in fields(cls)}
        try:
            return replace(
                cls(**{key: value for key, value in found.items() if key in known}), **overrides
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save_pretrained(self, folder: str | Path, architecture: str = "BertModel") -> None:
        """Write `folder`/config.json so that transformers recognises a BERT, and computes in float32 by default."""
        content = {
            "architectures": [architecture],
            "model_type": "bert",
            "dtype": "float32",
            **asdict(self),
        }
        del content["attention_implementation"]
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
