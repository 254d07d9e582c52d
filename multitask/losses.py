"""One loss per task, each a pure function (model output, labels) -> scalar.

All of them compute in float32 for every dtype. Under bfloat16 autocast the outputs have 8
significant bits. That is too few for the differences that a loss is made of.

[CT]: contrastive tension, Carlsson et al. 2021.
Legend: B batch, C classes, N rows. Labels are float32 (B,), as data/batching.py makes them.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor


def sentiment_loss(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy over the classes of sentiment, averaged over the batch (SST).

    logits: (B, C), any float dtype. labels: (B,), whole numbers 0 to C - 1 in any dtype; C is 5.
    weights: (C,) float32, by which the loss of a row of each class is multiplied
    (`balanced_weights`). The sum is divided by B in any case, and not by the sum of the weights, as
    PyTorch's class does: then a batch of one class would cost as much with any weight.

    Returns a float32 scalar >= 0. For equal logits it is log 5 = 1.609. Autocast changes nothing.
    Raises IndexError or RuntimeError (from PyTorch) for a label outside 0 to C - 1. PyTorch's
    function leaves out rows labelled -100. No task has that label, so any result for it is right.
    Compare with torch.nn.CrossEntropyLoss.
    """
    if weights is not None:
        of_rows = F.cross_entropy(logits.float(), labels.long(), weights, reduction="none")  # (B,)
        return of_rows.mean()
    return F.cross_entropy(logits.float(), labels.long())


def balanced_weights(counts: Tensor) -> Tensor:
    """A weight for each class with which all classes cost the same in sum: n / (C n_c).

    Without weights, a model may leave out a class with few rows, for its loss hardly counts. The
    mean weight of the n training rows is 1, so the learning rate keeps its meaning (King and Zeng
    2001). Compare with sklearn.utils.class_weight.compute_class_weight("balanced").

    counts: n_c, the training rows of each class, (C,) or (C, L) for L labels that are two classes
    each. A class without rows gets the weight of a class with one. Returns the shape of counts.
    """
    num_rows = counts.sum(dim=0)  # () or (L,)
    return num_rows / (len(counts) * counts.clamp(min=1))


def shape_error(prediction: Tensor, labels: Tensor) -> ValueError:
    """The error for predictions and labels that do not belong together row by row."""
    return ValueError(
        f"prediction is {tuple(prediction.shape)}, labels are {tuple(labels.shape)}; both must be "
        "of one shape, such as (B,). A column (B, 1) becomes (B,) with squeeze(-1)."
    )


def paraphrase_loss(
    logit: Tensor, labels: Tensor, shift: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Binary cross-entropy with logits, averaged over the batch (PARA).

    logit: (B,), any float dtype, before the sigmoid. labels: (B,), 0 or 1 in any dtype. A label
    between them is the probability that a teacher gives to a paraphrase (knowledge distillation,
    Hinton et al. 2015, at temperature 1). shift: added to the logit of a pair labelled 0 or 1, here
    and nowhere else. `prior_shift` computes it. weights: w_0 and w_1 of the two classes, (2,)
    float32: the loss of a row with the label y is multiplied by (1 - y) w_0 + y w_1. Of rows with
    several labels, logit and labels are (B, L), weights (2, L), and the mean is over all B L
    labels.

    Returns a float32 scalar >= 0. For a logit of 0 it is log 2 = 0.693, and has its gradient there,
    too: a head may begin at 0. Autocast changes nothing. Raises ValueError if the shapes differ.
    Compare with torch.nn.BCEWithLogitsLoss.
    """
    if logit.shape != labels.shape:
        raise shape_error(logit, labels)

    labels = labels.float()
    # A label between 0 and 1 is a teacher's probability, which needs no shift.
    is_class = labels == labels.round()
    of_rows = None
    if weights is not None:
        # Of a label between 0 and 1, both classes have their share.
        of_rows = weights[0] + (weights[1] - weights[0]) * labels  # (B,)
    return F.binary_cross_entropy_with_logits(logit.float() + shift * is_class, labels, of_rows)


def prior_shift(share: float, prior: float) -> float:
    """The log-odds of a paraphrase in training, minus those among the pairs to predict.

        log(share / (1 - share)) - log(prior / (1 - prior))

    A model learns that logit + shift is right for the training pairs. Its logit alone is then
    right for pairs of which a share `prior` are paraphrases, if nothing else differs between
    them. This is the logit-adjusted loss of Menon et al. 2021, for two classes.

    share: of paraphrases among the training pairs. prior: of paraphrases among the pairs to
    predict. Both in (0, 1). Returns 0 if they are equal. Raises ValueError for a share of 0 or 1,
    which has infinite log-odds.
    """
    if share in (0, 1):
        raise ValueError(
            f"--para_prior {prior:g} needs training pairs labelled 0 and 1; PARA's are not both. "
            "Drop it."
        )
    return math.log(share / (1 - share)) - math.log(prior / (1 - prior))


def similarity_loss(prediction: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error on the 0 to 5 scale of the labels (STS).

    prediction: (B,), any float dtype, unbounded. labels: (B,), 0 to 5 in any dtype. Both in points
    of similarity. Returns a float32 scalar >= 0, in squared points. Autocast changes nothing.
    Raises ValueError if the shapes differ: PyTorch would broadcast (B, 1) against (B,) to (B, B),
    give only a warning, and train towards the mean.
    """
    if prediction.shape != labels.shape:
        raise shape_error(prediction, labels)
    return F.mse_loss(prediction.float(), labels.float())


def absolute_loss(prediction: Tensor, labels: Tensor) -> Tensor:
    """Mean absolute error on the scale of the labels, for scores with a few wild labels.

    Arguments and errors as in similarity_loss. Returns a float32 scalar >= 0, in points. Compare
    with torch.nn.L1Loss.
    """
    if prediction.shape != labels.shape:
        raise shape_error(prediction, labels)
    return F.l1_loss(prediction.float(), labels.float())


def similarity_regression(prediction: Tensor, labels: Tensor, lowest: float | Tensor) -> Tensor:
    """Mean squared error of a cosine, with labels 0 to 5 mapped linearly to [lowest, 1] (STS).

    The cosines of an encoder never come near 0. If the targets lie in the range of its cosines
    (`fitted_range`), the encoder can keep its knowledge ([CT] section 5.2). With M = lowest and
    prediction = 5 (cos - M) / (1 - M), as heads.CosineHead computes it, this is

        mean of 25 (cos - (M + (1 - M) y / 5))^2  =  (1 - M)^2 x similarity_loss(prediction, labels)

    The same error of the cosine then costs the same for every M. Labels of another range, from low
    to high, have high - low in place of 5.

    Arguments and errors as in similarity_loss, which this equals for M = 0. lowest: below 1.
    """
    return (1 - lowest) ** 2 * similarity_loss(prediction, labels)


def absolute_regression(prediction: Tensor, labels: Tensor, lowest: float | Tensor) -> Tensor:
    """Mean absolute error of a cosine, which costs the same for every M, as similarity_regression.

    It is (1 - M) x absolute_loss(prediction, labels). Arguments and errors as there.
    """
    return (1 - lowest) * absolute_loss(prediction, labels)


def fitted_range(cosines: Tensor, labels: Tensor, width: float = 0.25, low: float = 0.0) -> float:
    """M, the mean cosine of the pairs in the lowest bucket of labels ([CT] section 5.2).

    The buckets are [low, low + width], (low + width, low + 2 width] and so on. The lowest one is
    the first that holds a pair.

    cosines: (N,) in [-1, 1], of the model as it is. labels: (N,), low or more, such as 0 to 5. For
    STS width is a twentieth of the range, as in the paper. Raises ValueError for M
    of 1: then no range is left.
    """
    # The number of the lowest bucket that holds a pair, counted from 1.
    lowest_bucket = max(1, math.ceil((float(labels.min()) - low) / width))
    lowest_cosines = cosines[labels <= low + width * lowest_bucket]
    mean_cosine = float(lowest_cosines.mean())
    if mean_cosine >= 1:
        raise ValueError(
            "--sts_range fitted: the least similar pairs have a cosine of 1 already, all vectors "
            "are equal. Train or choose another encoder first, or drop the flag."
        )
    return mean_cosine
