"""BERT itself, its optimizer, and what every training stage shares.

In reading order:

weight_files.py     Which files of a folder hold its weights, by their names.
hub.py              Where a model is: bundled, in a folder, or on the hub.
families.py         The families of encoders, and how each differs from BERT.
config.py           The numbers that fix an encoder's shape.
tokenizer_files.py  The files of a tokenizer, as other libraries write them.
token_batch.py      What a call of the tokenizer takes and returns.
tokenizer.py        Text -> token ids.
dropout.py          Dropout, as a function and as a module.
linear.py           A linear layer, by torch or by oneDNN.
attention.py        Multi-head self-attention.
activations.py      The activation of the feed-forward network, by its name.
relative_positions.py  How far two tokens are apart, as MPNet's bias of the attention.
call_checks.py      What a call of the encoder must look like.
bert.py             The encoder: embeddings, layers, pooler.
adapters.py         LoRA adapters, merged into the weights of their base.
weights.py          How weights are named, read and written.
onnx_files.py       Models as ONNX files, and the check of a file against torch.
pooling.py          Token vectors -> one vector per row.
sentence_modules.py  An encoder and layers as a folder for sentence-transformers.
optimizer.py        AdamW.
schedule.py         The learning rate of each step.
fast.py             The switch for fast formulas, and the longer ones.
options.py          The option groups of the encoder and of draw_attention.py.
training/           One training loop for every stage.
pretraining/        Masked language modelling, as a stage and as a command.
reporting/          What a person looks at: tables, figures, HTML pages.
commands/           How every command starts and ends.
attention_picture.py  A sentence and a model -> a picture of the attention.
draw_attention.py   Command: draws the attention of a sentence as a picture.
__main__.py         The command `minbert`, which lists and starts all commands.

The folder bundled/ holds the weights of minbert-mini and minbert-mini-distilled.
"""

# First of all: from here on Ctrl-C ends a command of ours without a traceback.
import minbert.commands.start  # noqa: F401

# isort: split

from importlib import import_module
from typing import TYPE_CHECKING

# For editors. At run time each name waits until it is asked for, because importing torch takes a
# second or two.
if TYPE_CHECKING:
    from minbert.bert import BertModel, BertOutput
    from minbert.config import BertConfig
    from minbert.optimizer import AdamW
    from minbert.tokenizer import BertTokenizer

__version__ = "0.2.0"

__all__ = ["AdamW", "BertConfig", "BertModel", "BertOutput", "BertTokenizer"]

# A public name, and the file of this package that defines it.
DEFINED_IN = {
    "AdamW": "optimizer",
    "BertConfig": "config",
    "BertModel": "bert",
    "BertOutput": "bert",
    "BertTokenizer": "tokenizer",
}


def __getattr__(name: str) -> type:
    """Import a public name of the package when it is first asked for (PEP 562)."""
    if name not in DEFINED_IN:
        raise AttributeError(f"module 'minbert' has no attribute '{name}'")
    module = import_module(f"minbert.{DEFINED_IN[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    """All public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
