"""Which rows make a stage's steps: the pairs of contrastive tension, the shuffles of BSC. Next: pretrain.py.

N examples, H hidden.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from contrastive.presets import NUM_NEGATIVES
from minbert.pretraining.packing import SEED_STRIDE
from minbert.training.job import Step

SMALLEST, LARGEST = 3, 8  # examples of a group of neighbours ([BSC] section 3)
BATCHES_A_CLUSTER = 10


def tension_plan(
    num_sentences: int, batch_size: int, is_fresh: bool, generator: torch.Generator
) -> list[Step]:
    """One epoch of contrastive tension: every sentence once as a positive, each with NUM_NEGATIVES negatives.

    A step has batch_size / 8 positives. Its rows are the first sentences of all its pairs, then the second ones; equal
    numbers are a positive. A negative is (anchor, another sentence), as the paper has it, or with `is_fresh` two
    different sentences drawn anew, as the released code has it. All others are equally likely.
    """
    order = torch.randperm(num_sentences, generator=generator)
    first = order.unsqueeze(1).repeat(1, 1 + NUM_NEGATIVES)  # (N, 8)
    shape = (num_sentences, NUM_NEGATIVES)
    if is_fresh:
        first[:, 1:] = torch.randint(num_sentences, shape, generator=generator)
    others = torch.randint(num_sentences - 1, shape, generator=generator)
    second = first.clone()  # (N, 8)
    second[:, 1:] = others + (
        others >= first[:, 1:]
    )  # a number below N other than that of the first sentence
    num_positives = batch_size // (1 + NUM_NEGATIVES)
    parts = zip(first.split(num_positives), second.split(num_positives), strict=True)
    return [[("ct", torch.cat([one.flatten(), other.flatten()]).tolist())] for one, other in parts]


class Shuffle(nn.Module):
    """An order of BSC's training pairs in which similar ones meet in a batch, renewed before an epoch.

    "knn" or "cluster". The order is a buffer, so that a checkpoint in the middle of an epoch holds it: it follows from
    the weights with which the epoch began.
    """

    def __init__(self, kind: str, num_examples: int, batch_size: int, seed: int) -> None:
        super().__init__()
        self.kind, self.batch_size, self.seed = kind, batch_size, seed
        self.register_buffer("order", torch.arange(num_examples))  # (N,)
        self.register_buffer("of_epoch", torch.tensor(-1))

    def order_of(self, epoch: int, vectors: Tensor) -> list[int]:
        """An order for `epoch` by the pairs' first sentences, vectors (N, H)."""
        generator = torch.Generator().manual_seed(SEED_STRIDE * self.seed + epoch)
        directions = F.normalize(vectors, dim=-1).numpy()
        if self.kind == "knn":
            return [index for group in knn_order(directions, generator) for index in group]
        return cluster_order(
            directions, len(vectors) // (BATCHES_A_CLUSTER * self.batch_size), generator
        )

    def renew(self, epoch: int, order: list[int]) -> None:
        """Take the order for `epoch`."""
        self.order.copy_(torch.tensor(order))
        self.of_epoch.fill_(epoch)

    def batches(self, epoch: int) -> list[list[int]]:
        """The epoch's batches in order; none where its order is not made yet."""
        return (
            [part.tolist() for part in self.order.split(self.batch_size)]
            if int(self.of_epoch) == epoch
            else []
        )


def knn_order(directions: np.ndarray, generator: torch.Generator) -> list[list[int]]:
    """Greedy groups of neighbours, each index once ([BSC] section 3): (N, H) of length 1 -> lists of numbers.

    In random order every example that is still unused takes the unused ones among its LARGEST nearest, itself among
    them, where they are at least SMALLEST. What forms no group comes first, as one list, then the groups, the loosest
    first: the tightest are the hardest to tell apart.
    """
    from sklearn.neighbors import NearestNeighbors  # late: it takes a second to import

    search = NearestNeighbors(n_neighbors=min(LARGEST, len(directions)), algorithm="brute").fit(
        directions
    )
    with threadpool_limits(
        limits=1
    ):  # which of equally near ones are taken depends on the number of threads
        distances, neighbours = search.kneighbors(directions)  # (N, 8) each
    is_used = np.zeros(len(directions), dtype=bool)
    groups: list[tuple[float, list[int]]] = []
    visits = torch.randperm(len(directions), generator=generator).tolist()
    for visited in visits:
        if is_used[visited]:
            continue
        is_free = ~is_used[neighbours[visited]] & (neighbours[visited] != visited)
        is_free &= (
            np.cumsum(is_free) < LARGEST
        )  # of many equal examples, one may not be among its own nearest
        if is_free.sum() + 1 >= SMALLEST:
            group = [visited, *neighbours[visited][is_free].tolist()]
            is_used[group] = True
            groups.append((float(distances[visited][is_free].mean()), group))
    groups.sort(key=lambda item: -item[0])
    return [
        [visited for visited in visits if not is_used[visited]],
        *(group for _, group in groups),
    ]


def cluster_order(
    directions: np.ndarray, num_clusters: int, generator: torch.Generator
) -> list[int]:
    """Cluster after cluster of k-means, at least two, each index once ([BSC] section 3): (N, H) -> N numbers.

    The order of the clusters and that within them are random.
    """
    from sklearn.cluster import KMeans

    num_clusters = min(max(2, num_clusters), len(directions))
    seed = int(torch.randint(2**31, (), generator=generator))
    with threadpool_limits(
        limits=1
    ):  # threads add up in the order in which they end, so bits would vary
        clusters = KMeans(num_clusters, n_init=1, max_iter=20, random_state=seed).fit_predict(
            directions
        )  # (N,)
    places = torch.randperm(num_clusters, generator=generator).numpy()[clusters]  # (N,)
    order = torch.randperm(len(directions), generator=generator).numpy()
    return order[np.argsort(places[order], kind="stable")].tolist()
