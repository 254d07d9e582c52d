"""The command that uses the sentence vectors of a model, and SentenceEncoder for programs.

In reading order:

    shards.py            a part of the sentences that one call embeds, and its file
    options.py           the options of the command, and what is refused before any work
    sentences.py         the sentences that it reads
    work.py              the answers
    __main__.py          the command
    stored_vectors.py    vectors on disk, with a record of their sentences and their model
    export.py            the model as a folder for sentence-transformers
    sentence_encoder.py  SentenceEncoder: vectors in the protocol of sentence-transformers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrastive.embed.sentence_encoder import SentenceEncoder

__all__ = ["SentenceEncoder"]


def __getattr__(name: str) -> Any:
    """Import SentenceEncoder when it is first asked for: the command must answer at once."""
    if name != "SentenceEncoder":
        raise AttributeError(f"module 'contrastive.embed' has no attribute '{name}'")
    return import_module("contrastive.embed.sentence_encoder").SentenceEncoder


def __dir__() -> list[str]:
    """All public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
