"""The encoder, its optimizer and the one training loop. Knows nothing of tasks or CSV files.

Reading order: config, attention, bert, weights, tokenizer, optimizer, schedule, mlm, then checkpoint, runtime, loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if (
    TYPE_CHECKING
):  # for editors; importing torch takes a second or two, so each name waits until it is asked for
    from minbert.bert import BertModel, BertOutput
    from minbert.config import BertConfig
    from minbert.optimizer import AdamW
    from minbert.tokenizer import BertTokenizer

__all__ = ["AdamW", "BertConfig", "BertModel", "BertOutput", "BertTokenizer"]
HOMES = {
    "AdamW": "optimizer",
    "BertConfig": "config",
    "BertModel": "bert",
    "BertOutput": "bert",
    "BertTokenizer": "tokenizer",
}


def __getattr__(name: str) -> type:
    """A public name of the package, from its module (PEP 562)."""
    if name not in HOMES:
        raise AttributeError(f"module 'minbert' has no attribute '{name}'")
    return getattr(import_module(f"minbert.{HOMES[name]}"), name)
