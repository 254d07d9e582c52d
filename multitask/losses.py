"""One loss per task, each a pure function (model output, labels) -> scalar. Next: tasks.py, which names them.

Legend: B batch.

All three compute in float32 whatever comes in: under bfloat16 autocast the outputs have 8 significant bits, too few
for the differences that a loss is made of. Labels arrive as float32 of shape (B,), as data/batching.py makes them.
"""

import torch.nn.functional as F
from torch import Tensor


def sentiment_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy over the five sentiment classes, averaged over the batch (SST).

    logits: (B, 5), any float dtype. labels: (B,), whole numbers 0 to 4 in any dtype.
    Returns a float32 scalar >= 0; log 5 = 1.609 for equal logits. Raises IndexError or RuntimeError (from PyTorch)
    for a label outside 0 to 4. Compare with torch.nn.CrossEntropyLoss.
    """
    return F.cross_entropy(logits.float(), labels.long())


def paraphrase_loss(logit: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy with logits, averaged over the batch (PARA).

    logit: (B,), any float dtype, before the sigmoid. labels: (B,), 0 or 1 in any dtype.
    Returns a float32 scalar >= 0; log 2 = 0.693 for logit 0. Raises ValueError (from PyTorch) where the shapes differ.
    Compare with torch.nn.BCEWithLogitsLoss.
    """
    return F.binary_cross_entropy_with_logits(logit.float(), labels.float())


def similarity_loss(prediction: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error on the 0 to 5 scale of the labels (STS).

    prediction: (B,), any float dtype, unbounded. labels: (B,), 0 to 5. Both in points of similarity.
    Returns a float32 scalar >= 0, in squared points. Raises ValueError where the shapes differ: PyTorch would
    broadcast (B, 1) against (B,) to (B, B) and train towards the mean with no more than a warning.
    """
    if prediction.shape != labels.shape:
        raise ValueError(f"prediction is {tuple(prediction.shape)}, labels are {tuple(labels.shape)}; both need (B,)")
    return F.mse_loss(prediction.float(), labels.float())
