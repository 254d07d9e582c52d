"""Better sentence vectors: stages that train the encoder before any task is seen.

In reading order:

    losses.py       the formulas, on vectors
    methods.py      what each method encodes, and which loss it calls
    negatives.py    which sentences of a batch must not be pushed apart
    caching.py      large batches in little memory
    sentences.py    the training text: sentences, labelled pairs, triplets
    batch_order.py  which rows make the steps of an epoch
    inputs.py       the rows and steps of each method
    registry.py     what an entry of a method holds, and the entries by name
    options.py      the options of the stages
    presets.py      the entries of the methods, and the settings of each stage
    stage.py        a method, its rows and its settings as a training stage
    zero_shot.py    how good sentence vectors are without training on labels
    sentence_folder.py  the modules of a folder that sentence-transformers wrote
    embedder.py     sentences to vectors, and the search for the nearest ones
    train/          command: train one stage alone
    embed/          command: use the vectors of a model
    quality/        command: measure the vectors of a model
"""

import sys

try:
    from minbert.commands.hidden import check_packages
except ModuleNotFoundError as error:
    if error.name != "minbert.commands":
        raise
    place = getattr(sys.modules.get("minbert"), "__file__", None) or "a folder named minbert"
    raise ImportError(
        f"{place} hides the package minbert, because it comes first on Python's path. Rename it, "
        "or move your script to another folder."
    ) from error

check_packages("data")

# Every import of this package enters its methods. A file for --plugin does the same.
from contrastive import presets as presets  # noqa: E402
from contrastive.registry import (  # noqa: E402
    MethodEntry,
    Settings,
    Vectors,
    register_method,
)

__all__ = ["MethodEntry", "Settings", "Vectors", "register_method"]
