"""Wrong losses and wrong PCGrads fail the checks of the lessons, which say what is wrong.

As in test_student_mistakes.py, the versions here are written without the code of the repository.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.lessons.test_contrastive_losses import check_info_nce
from tests.lessons.test_surgery import check_pcgrad
from tests.lessons.test_task_losses import check_paraphrase, check_sentiment, check_similarity
from tests.teaching.test_student_mistakes import expect_hint

# --- the losses of the tasks ----------------------------------------------------------------------


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(logits, labels.long(), reduction=reduction)


def binary(logit: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    return F.binary_cross_entropy_with_logits(logit, labels, reduction=reduction)


def squares(prediction: Tensor, labels: Tensor) -> Tensor:
    return (prediction - labels) ** 2


SENTIMENT_MISTAKES = {
    "not written": lambda logits, labels: None,
    "expected a scalar": lambda logits, labels: cross_entropy(logits, labels, "none"),
    "take the mean": lambda logits, labels: cross_entropy(logits, labels, "sum"),
    "the minus": lambda logits, labels: -cross_entropy(logits, labels),
    "softmax is applied twice": lambda logits, labels: cross_entropy(logits.softmax(1), labels),
}
PARAPHRASE_MISTAKES = {
    "expected a scalar": lambda logit, labels: binary(logit, labels, "none"),
    "take the mean": lambda logit, labels: binary(logit, labels, "sum"),
    "the minus": lambda logit, labels: -binary(logit, labels),
    "sigmoid is applied twice": lambda logit, labels: binary(logit.sigmoid(), labels),
    "only duplicates": lambda logit, labels: -(labels * F.logsigmoid(logit)).mean(),
}
SIMILARITY_MISTAKES = {
    "expected a scalar": squares,
    "take the mean": lambda prediction, labels: squares(prediction, labels).sum(),
    "whole numbers": lambda prediction, labels: squares(prediction, labels.long()).mean(),
    "square them": lambda prediction, labels: (prediction - labels).abs().mean(),
    "the root of the mean": lambda prediction, labels: squares(prediction, labels).mean().sqrt(),
    "half of the mean": lambda prediction, labels: squares(prediction, labels).mean() / 2,
    "cut at 5": lambda prediction, labels: squares(prediction.clamp(0, 5), labels).mean(),
}


@pytest.mark.parametrize("hint", SENTIMENT_MISTAKES)
def test_sentiment_mistakes(hint):
    check_sentiment(cross_entropy)
    expect_hint(check_sentiment, SENTIMENT_MISTAKES[hint], hint)


@pytest.mark.parametrize("hint", PARAPHRASE_MISTAKES)
def test_paraphrase_mistakes(hint):
    check_paraphrase(binary)
    expect_hint(check_paraphrase, PARAPHRASE_MISTAKES[hint], hint)


@pytest.mark.parametrize("hint", SIMILARITY_MISTAKES)
def test_similarity_mistakes(hint):
    check_similarity(lambda prediction, labels: squares(prediction, labels).mean())
    expect_hint(check_similarity, SIMILARITY_MISTAKES[hint], hint)


# --- InfoNCE --------------------------------------------------------------------------------------


def cosines(first: Tensor, second: Tensor) -> Tensor:
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


def over_rows(logits: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(logits, torch.arange(len(logits)), reduction=reduction)


def over_rows_and_columns(logits: Tensor) -> Tensor:
    return (over_rows(logits) + over_rows(logits.T)) / 2


def without_the_positive(logits: Tensor) -> Tensor:
    is_positive = torch.eye(len(logits), dtype=torch.bool)
    negatives = logits.masked_fill(is_positive, -torch.inf).logsumexp(dim=1)
    return (negatives - logits.diagonal()).mean()


@dataclass
class InfoNCE:
    """InfoNCE in three steps. The defaults are right. A mistake replaces one of them."""

    compare: Callable = cosines
    divide: Callable = lambda scores, temperature: scores / temperature
    reduce: Callable = over_rows

    def __call__(self, anchors: Tensor, positives: Tensor, temperature: float) -> Tensor:
        scores = self.compare(anchors, positives)
        return self.reduce(self.divide(scores, temperature))


INFO_NCE_MISTAKES = {
    "these are dot products": InfoNCE(compare=lambda first, second: first @ second.T),
    "temperature is missing": InfoNCE(divide=lambda scores, temperature: scores),
    "multiplied by the temperature": InfoNCE(
        divide=lambda scores, temperature: scores * temperature
    ),
    "take the mean": InfoNCE(reduce=lambda logits: over_rows(logits, "sum")),
    "down the columns": InfoNCE(reduce=lambda logits: over_rows(logits.T)),
    "rows and columns": InfoNCE(reduce=over_rows_and_columns),
    "the minus": InfoNCE(reduce=lambda logits: -over_rows(logits)),
    "the positive is missing": InfoNCE(reduce=without_the_positive),
    "expected a scalar": InfoNCE(reduce=lambda logits: over_rows(logits, "none")),
}


@pytest.mark.parametrize("hint", INFO_NCE_MISTAKES)
def test_info_nce_mistakes(hint):
    check_info_nce(InfoNCE())
    expect_hint(check_info_nce, INFO_NCE_MISTAKES[hint], hint)


# --- PCGrad ---------------------------------------------------------------------------------------


@dataclass
class PCGrad:
    """PCGrad of two tasks, with switches. The defaults are right. A mistake changes one of them."""

    copy: Callable = torch.clone
    projected: tuple[int, ...] = (0, 1)  # the tasks whose gradients are
    is_conflict: Callable = lambda product: product < 0
    on_changed: bool = False
    length: Callable = lambda other: other @ other
    sign: int = -1
    combine: Callable = lambda gradients: gradients.sum(dim=0)

    def __call__(self, gradients: Tensor) -> Tensor:
        changed = self.copy(gradients)
        for i in self.projected:
            for j in range(len(gradients)):
                other = (changed if self.on_changed else gradients)[j]
                product = changed[i] @ other
                if j != i and self.is_conflict(product):
                    changed[i] += self.sign * product / self.length(other) * other
        return self.combine(changed)


PCGRAD_MISTAKES = {
    "the plain sum": PCGrad(is_conflict=lambda product: False),
    "the mean of the projected": PCGrad(combine=lambda gradients: gradients.mean(dim=0)),
    "on what the first had become": PCGrad(on_changed=True),
    "squared length": PCGrad(length=lambda other: 1),
    "subtract it": PCGrad(sign=1),
    "only the first was projected, or": PCGrad(projected=(0,)),
    "only the second was projected": PCGrad(projected=(1,)),
    "are changed; copy them": PCGrad(copy=lambda gradients: gradients),
    "two gradients that agree": PCGrad(is_conflict=lambda product: True),
    "one gradient of all": PCGrad(combine=lambda gradients: gradients),
}


@pytest.mark.parametrize("hint", PCGRAD_MISTAKES)
def test_pcgrad_mistakes(hint):
    check_pcgrad(PCGrad())
    expect_hint(check_pcgrad, PCGRAD_MISTAKES[hint], hint)
