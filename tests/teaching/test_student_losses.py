"""As test_student_mistakes.py, of InfoNCE and PCGrad: wrong versions fail, and the checks say what is wrong."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lessons.test_contrastive_losses import check_info_nce
from tests.lessons.test_surgery import check_pcgrad
from tests.teaching.test_student_mistakes import expect_hint


def written_info_nce(mistake: str):
    """InfoNCE with one mistake; "" has none."""

    def loss(anchors, positives, temperature):
        if mistake != "dot":
            anchors, positives = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
        logits = anchors @ positives.T
        logits = {"no t": logits, "times t": logits * temperature}.get(
            mistake, logits / temperature
        )
        targets = torch.arange(len(logits))
        rows, columns = (
            F.cross_entropy(logits, targets, reduction="none"),
            F.cross_entropy(logits.T, targets),
        )
        negatives = logits.masked_fill(
            torch.eye(len(logits), dtype=torch.bool), -torch.inf
        ).logsumexp(dim=1)
        return {
            "sum": rows.sum(),
            "columns": columns,
            "both": (rows.mean() + columns) / 2,
            "sign": -rows.mean(),
            "no positive": (negatives - logits.diagonal()).mean(),
            "rows": rows,
        }.get(mistake, rows.mean())

    return loss


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        ("dot", "these are dot products"),
        ("no t", "temperature is missing"),
        ("times t", "multiplied by the temperature"),
        ("sum", "take the mean"),
        ("columns", "down the columns"),
        ("both", "rows and columns"),
        ("sign", "the minus"),
        ("no positive", "the positive is missing"),
        ("rows", "expected a scalar"),
    ],
)
def test_info_nce_mistakes(mistake, hint):
    check_info_nce(written_info_nce(""))
    expect_hint(check_info_nce, written_info_nce(mistake), hint)


def written_pcgrad(mistake: str):
    """PCGrad with one mistake; "" has none."""

    def surgery(gradients):
        changed = gradients if mistake == "in place" else gradients.clone()
        for i in range(len(gradients) - (mistake == "first only")):
            for j in range(len(gradients)):
                other = (changed if mistake == "on changed" else gradients)[j]
                product = changed[i] @ other
                if i != j and (product < 0 or mistake == "always") and mistake != "plain":
                    step = product / (1 if mistake == "no length" else other @ other) * other
                    changed[i] += step if mistake == "added" else -step
        return (
            changed
            if mistake == "no sum"
            else changed.mean(dim=0)
            if mistake == "mean"
            else changed.sum(dim=0)
        )

    return surgery


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        ("plain", "the plain sum"),
        ("mean", "the mean of the projected"),
        ("on changed", "on what the first had become"),
        ("no length", "squared length"),
        ("added", "subtract it"),
        ("first only", "only the first was projected, or"),
        ("in place", "are changed; copy them"),
        ("always", "two gradients that agree"),
        ("no sum", "one gradient of all"),
    ],
)
def test_pcgrad_mistakes(mistake, hint):
    check_pcgrad(written_pcgrad(""))
    expect_hint(check_pcgrad, written_pcgrad(mistake), hint)
