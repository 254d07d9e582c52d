"""One loss per task, each a pure function (model output, labels) -> scalar. tasks.py names them. Next: heads.py.

Legend: B batch.

All compute in float32 whatever comes in: under bfloat16 autocast the outputs have 8 significant bits, too few
for the differences that a loss is made of. Labels arrive as float32 of shape (B,), as data/batching.py makes them.
"""

import math

import torch.nn.functional as F
from torch import Tensor


def sentiment_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy over the five sentiment classes, averaged over the batch (SST).

    logits: (B, 5), any float dtype. labels: (B,), whole numbers 0 to 4 in any dtype.
    Returns a float32 scalar >= 0; log 5 = 1.609 for equal logits. Raises IndexError or RuntimeError (from PyTorch)
    for a label outside 0 to 4. Compare with torch.nn.CrossEntropyLoss.
    """
    return F.cross_entropy(logits.float(), labels.long())


def paraphrase_loss(logit: Tensor, labels: Tensor, shift: float = 0.0) -> Tensor:
    """Binary cross-entropy with logits, averaged over the batch (PARA).

    logit: (B,), any float dtype, before the sigmoid. labels: (B,), 0 or 1 in any dtype, or between them the probability
    that a teacher gives a paraphrase (knowledge distillation, Hinton et al. 2015, at temperature 1). shift: what is
    added to the logit of a pair labelled 0 or 1, here and nowhere else, as `prior_shift` gives it.
    Returns a float32 scalar >= 0; log 2 = 0.693 for logit 0. Raises ValueError (from PyTorch) where the shapes differ.
    Compare with torch.nn.BCEWithLogitsLoss.
    """
    labels = labels.float()
    return F.binary_cross_entropy_with_logits(
        logit.float() + shift * (labels == labels.round()), labels
    )


def prior_shift(share: float, prior: float) -> float:
    """log share / (1 - share) - log prior / (1 - prior): the log-odds that training pairs have and others have not.

    With share of the training pairs paraphrases, and prior of those that will be judged, a model whose logit + shift is
    trained on the first has a logit that is right for the second, if nothing else differs between them (the
    logit-adjusted loss of Menon et al. 2021, for two classes). Both in (0, 1); 0 where they are equal. ValueError for a
    share of 0 or 1, whose log-odds are infinite.
    """
    if share in (0, 1):
        raise ValueError(
            f"--para_prior {prior:g} needs training pairs labelled 0 and 1; PARA's are not both. Drop it."
        )
    return math.log(share / (1 - share)) - math.log(prior / (1 - prior))


def similarity_loss(prediction: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error on the 0 to 5 scale of the labels (STS).

    prediction: (B,), any float dtype, unbounded. labels: (B,), 0 to 5. Both in points of similarity.
    Returns a float32 scalar >= 0, in squared points. Raises ValueError where the shapes differ: PyTorch would
    broadcast (B, 1) against (B,) to (B, B) and train towards the mean with no more than a warning.
    """
    if prediction.shape != labels.shape:
        raise ValueError(
            f"prediction is {tuple(prediction.shape)}, labels are {tuple(labels.shape)}; both need (B,)"
        )
    return F.mse_loss(prediction.float(), labels.float())


def similarity_regression(prediction: Tensor, labels: Tensor, lowest: float | Tensor) -> Tensor:
    """Mean squared error of a cosine on labels 0 to 5 mapped linearly to [lowest, 1] (STS, [CT] section 5.2).

    An encoder's cosines never come near 0; asked for the range they have (`fitted_range`) it keeps what it knows. With
    M = lowest and prediction = 5 (cos - M) / (1 - M), as heads.CosineHead makes it, this is

        mean of 25 (cos - (M + (1 - M) y / 5))^2  =  (1 - M)^2 x similarity_loss(prediction, labels)

    so that a cosine that is off by so much costs the same whatever M is. Arguments and errors as of similarity_loss,
    which this is for M = 0; lowest below 1.
    """
    return (1 - lowest) ** 2 * similarity_loss(prediction, labels)


def fitted_range(cosines: Tensor, labels: Tensor, width: float = 0.25) -> float:
    """M, the mean cosine of the pairs in the lowest label bucket under the model as it is ([CT] section 5.2).

    cosines (N,) in [-1, 1]; labels (N,), 0 to 5; the buckets are [0, width], (width, 2 width] and so on, the lowest is
    the first that holds a pair. Raises ValueError for M of 1, where no range is left.
    """
    lowest = cosines[labels <= width * max(1, math.ceil(float(labels.min()) / width))]
    found = float(lowest.mean())
    if found >= 1:
        raise ValueError(
            "--sts_range fitted: the least similar pairs have a cosine of 1 already, all vectors are "
            "equal. Train or choose another encoder first, or drop the flag."
        )
    return found
