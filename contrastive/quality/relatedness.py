"""The protocol of SentEval for scores: a layer on frozen vectors says how related two texts are.

Tai, Socher and Manning 2015, section 4.2, as in senteval/tools/relatedness.py of the toolkit
(Conneau and Kiela 2018). The features of a pair are |u - v| and u * v side by side. A linear layer
and a softmax give a distribution over the scores 1 to 5. The prediction is its mean.

Legend: N pairs, D features of a pair, S = 5 scores.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.zero_shot import correlations

NUM_SCORES = 5  # S
SEED = 1111  # the toolkit's
BATCH = 64
EPOCHS_IN_ROUND = 50  # between two looks at the dev pairs
MOST_EPOCHS = 1000
TENACITY = 3  # rounds without a better correlation

Model = TypeVar("Model")


def values() -> Tensor:
    """The scores 1 to 5, (S,) float32."""
    return torch.arange(1.0, NUM_SCORES + 1)


def distributions(scores: np.ndarray) -> Tensor:
    """For each score the distribution over 1 to 5 that has it as its mean, (N, S) float32.

    A score between two whole numbers shares its weight between them. One below 1 has the weight of
    its own value on 1, and the rest nowhere, as in the toolkit.
    """
    distances = torch.from_numpy(scores).float().unsqueeze(1) - values()  # (N, S)
    return (1 - distances.abs()).clamp(min=0)


def predict_scores(layer: nn.Linear, features: Tensor) -> np.ndarray:
    """The mean of the distribution of each pair, (N,), from 1 to 5. features: (N, D)."""
    with torch.no_grad():
        return (F.softmax(layer(features), dim=-1) @ values()).numpy()


def train_round(
    layer: nn.Linear, optimizer: torch.optim.Optimizer, features: Tensor, targets: Tensor
) -> None:
    """Train for EPOCHS_IN_ROUND epochs. features: (N, D). targets: (N, S)."""
    for _ in range(EPOCHS_IN_ROUND):
        for rows in torch.randperm(len(features)).split(BATCH):
            predicted = F.softmax(layer(features[rows]), dim=-1)
            loss = F.mse_loss(predicted, targets[rows], reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def fit_layer(
    features: np.ndarray, scores: np.ndarray, dev_features: np.ndarray, dev_scores: np.ndarray
) -> nn.Linear:
    """The layer of the round with the best Pearson correlation on the dev pairs.

    features, dev_features: (N, D). scores, dev_scores: (N,). The loss is the squared error of the
    distribution, with Adam.
    """
    inputs = torch.from_numpy(features).float()  # (N, D)
    targets = distributions(scores)  # (N, S)
    dev_inputs = torch.from_numpy(dev_features).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layer = nn.Linear(inputs.size(1), NUM_SCORES)
        optimizer = torch.optim.Adam(layer.parameters())

        def score_round() -> float:
            train_round(layer, optimizer, inputs, targets)
            return correlations(predict_scores(layer, dev_inputs), dev_scores)["pearson"]

        num_rounds = MOST_EPOCHS // EPOCHS_IN_ROUND + 1
        return best_of_rounds(layer, score_round, num_rounds, TENACITY)


def best_of_rounds(
    model: Model, score_round: Callable[[], float], num_rounds: int, tenacity: int
) -> Model:
    """A copy of the model as it was after the round with the best score.

    score_round: trains the model for a round and returns its score, above -1. num_rounds: at most.
    tenacity: rounds without a better score that do not end the training. They need not follow each
    other, as in the toolkit.
    """
    best = model
    best_score = -1.0
    num_worse = 0
    for _ in range(num_rounds):
        score = score_round()
        if score > best_score:
            best_score = score
            best = copy.deepcopy(model)
            continue
        if num_worse >= tenacity:
            break
        num_worse += 1
    return best
