"""The families of encoders that are read: how the files and the sums of each differ from BERT's.

A family is one model_type of transformers, and one row of FAMILIES. Next: config.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

# The numbers of distances in MPNet's attention (relative_positions.py): half of them are for tokens
# on the left, half for those on the right.
NUM_BUCKETS = 32


class HeadNames(NamedTuple):
    """transformers' names of the parameters of a masked-language-model head, without their ends."""

    transform: str
    norm: str
    bias: str  # with its end
    decoder: str  # the output matrix, and a second name for the bias

    # Whether the head has GELU, whatever activation the encoder has.
    is_gelu: bool = True


class ClassifierNames(NamedTuple):
    """transformers' names of the two layers of a classifier, without their ends."""

    dense: str
    output: str


BERT_HEAD = HeadNames(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
    "cls.predictions.decoder",
    is_gelu=False,
)
ROBERTA_HEAD = HeadNames("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder")
ROBERTA_CLASSIFIER = ClassifierNames("classifier.dense", "classifier.out_proj")


@dataclass(frozen=True)
class Family:
    """How one model_type of transformers differs from BERT."""

    # The beginning of its class names in transformers, such as RobertaModel.
    class_name: str

    # The encoder's tensors stand behind this prefix where the file also holds a head.
    prefix: str

    # The class of its tokenizer, where its files name none.
    tokenizer_class: str

    # Its names of our config fields, where they are not BERT's.
    keys: dict[str, str] = field(default_factory=dict)

    # Its values of fields that a config.json leaves out, where they are not BERT's.
    defaults: dict[str, Any] = field(default_factory=dict)

    # Fields that it has no name for: their values are fixed.
    fixed: tuple[str, ...] = ("embedding_size",)

    # Its names of our parameters, where they are not BERT's. {i} is the layer's number.
    names: dict[str, str] = field(default_factory=dict)

    # Whether there are segment embeddings, for the two sentences of a pair.
    has_segments: bool = True

    # Whether positions are counted from the row behind padding's own row (fairseq).
    counts_behind_padding: bool = False

    # The row of padding in the position table, where it is not the padding token's id.
    padding_row: int | None = None

    # Whether the attention also reads how far two tokens are apart (relative_positions.py).
    has_relative_positions: bool = False

    # The head of its ForMaskedLM.
    head: HeadNames = ROBERTA_HEAD

    # The two layers of its ForSequenceClassification, or None where these are not tanh and linear.
    classifier: ClassifierNames | None = ROBERTA_CLASSIFIER


FAMILIES = {
    "bert": Family(
        "Bert",
        "bert.",
        "BertTokenizer",
        head=BERT_HEAD,
        classifier=ClassifierNames("bert.pooler.dense", "classifier"),
    ),
    "distilbert": Family(
        "DistilBert",
        "distilbert.",
        "DistilBertTokenizer",
        keys={
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "hidden_act": "activation",
        },
        defaults={"num_hidden_layers": 6},
        fixed=("embedding_size", "type_vocab_size", "layer_norm_eps"),
        names={
            "layers.{i}.attention.query": "transformer.layer.{i}.attention.q_lin",
            "layers.{i}.attention.key": "transformer.layer.{i}.attention.k_lin",
            "layers.{i}.attention.value": "transformer.layer.{i}.attention.v_lin",
            "layers.{i}.attention.output": "transformer.layer.{i}.attention.out_lin",
            "layers.{i}.attention_norm": "transformer.layer.{i}.sa_layer_norm",
            "layers.{i}.feed_forward.up": "transformer.layer.{i}.ffn.lin1",
            "layers.{i}.feed_forward.down": "transformer.layer.{i}.ffn.lin2",
            "layers.{i}.feed_forward_norm": "transformer.layer.{i}.output_layer_norm",
        },
        has_segments=False,
        head=HeadNames(
            "vocab_transform",
            "vocab_layer_norm",
            "vocab_projector.bias",
            "vocab_projector",
            is_gelu=False,
        ),
        classifier=None,
    ),
    "roberta": Family(
        "Roberta",
        "roberta.",
        "RobertaTokenizer",
        defaults={"vocab_size": 50265, "pad_token_id": 1},
        counts_behind_padding=True,
    ),
    "xlm-roberta": Family(
        "XLMRoberta",
        "roberta.",
        "XLMRobertaTokenizer",
        defaults={"pad_token_id": 1},
        counts_behind_padding=True,
    ),
    "camembert": Family(
        "Camembert",
        "roberta.",
        "CamembertTokenizer",
        defaults={"pad_token_id": 1},
        counts_behind_padding=True,
    ),
    "electra": Family(
        "Electra",
        "electra.",
        "ElectraTokenizer",
        defaults={
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        fixed=(),
        names={"embeddings.project": "embeddings_project"},
        head=HeadNames(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
            "generator_lm_head",
        ),
        classifier=None,
    ),
    "mpnet": Family(
        "MPNet",
        "mpnet.",
        "MPNetTokenizer",
        defaults={"vocab_size": 30527, "pad_token_id": 1},
        fixed=("embedding_size", "type_vocab_size"),
        names={
            "embeddings.relative": "encoder.relative_attention_bias",
            "layers.{i}.attention.query": "encoder.layer.{i}.attention.attn.q",
            "layers.{i}.attention.key": "encoder.layer.{i}.attention.attn.k",
            "layers.{i}.attention.value": "encoder.layer.{i}.attention.attn.v",
            "layers.{i}.attention.output": "encoder.layer.{i}.attention.attn.o",
            "layers.{i}.attention_norm": "encoder.layer.{i}.attention.LayerNorm",
        },
        has_segments=False,
        counts_behind_padding=True,
        padding_row=1,
        has_relative_positions=True,
    ),
}
