"""Which rows make the steps of an epoch.

The pairs of contrastive tension, the order of the tasks' sentences, and the shuffles of BSC.

N examples, H hidden.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from contrastive.registry import Settings
from data.batching import WINDOW, length_grouped_batches
from minbert.pretraining.packing import SEED_STRIDE
from minbert.training.job import Step, TaskBatch

SMALLEST_GROUP = 3  # examples of a group of neighbours ([BSC] section 3)
BATCHES_PER_CLUSTER = 10

# The number of an epoch and a generator -> the steps of that epoch.
Plan = Callable[[int, torch.Generator], list[Step]]

# --- contrastive tension --------------------------------------------------------------------------


def tension_plan(
    num_sentences: int,
    batch_size: int,
    is_fresh: bool,
    generator: torch.Generator,
    num_negatives: int = 7,
) -> list[Step]:
    """One epoch of contrastive tension. Every sentence is the anchor of one positive pair.

    num_negatives (K) go with each positive. A step has batch_size / (1 + K) positives. Its rows are
    the first sentences of all its pairs, then their second sentences. A pair of equal numbers is a
    positive.

    is_fresh: a negative is two different sentences that are drawn anew, as in the authors' code.
    Otherwise it is the anchor and another sentence, as in the paper (Carlsson et al. 2021, section
    4). All other sentences are equally likely.
    """
    group_size = 1 + num_negatives
    order = torch.randperm(num_sentences, generator=generator)  # (N,)
    first = order.unsqueeze(1).repeat(1, group_size)  # (N, 1 + K)
    shape = (num_sentences, num_negatives)
    if is_fresh:
        first[:, 1:] = torch.randint(num_sentences, shape, generator=generator)

    # A number from 0 to N - 2, plus 1 from the first sentence's number on, is any other number.
    drawn = torch.randint(num_sentences - 1, shape, generator=generator)  # (N, K)
    second = first.clone()  # (N, 1 + K)
    second[:, 1:] = drawn + (drawn >= first[:, 1:])

    num_positives = batch_size // group_size
    steps: list[Step] = []
    for firsts, seconds in zip(
        first.split(num_positives), second.split(num_positives), strict=True
    ):
        rows = torch.cat([firsts.flatten(), seconds.flatten()]).tolist()
        steps.append([TaskBatch("ct", rows)])
    return steps


# --- the number of steps, and the lengths in a batch ----------------------------------------------


class Schedule(NamedTuple):
    """How many epochs a stage has, and the steps of each."""

    epochs: int
    plan: Plan


def end_after(plan: Plan, num_steps: int) -> Schedule:
    """The schedule of a stage that ends after `num_steps`, wherever that is in its last epoch.

    Every epoch of the plan has as many steps as its first one.
    """
    in_epoch = len(plan(0, torch.Generator().manual_seed(0)))
    num_epochs = math.ceil(num_steps / in_epoch)
    in_last = num_steps - (num_epochs - 1) * in_epoch

    def ending(epoch: int, generator: torch.Generator) -> list[Step]:
        steps = plan(epoch, generator)
        return steps[:in_last] if epoch == num_epochs - 1 else steps

    return Schedule(num_epochs, ending)


def window_of(settings: Settings) -> int:
    """The number of batches whose rows are sorted by length together. 1: a batch has any rows."""
    return WINDOW if settings.batches == "similar" else 1


# --- the sentences of tasks: shuffled, or task after task -----------------------------------------


def draw_shares(
    rows_of: Mapping[str, Sequence[int]], shares: Mapping[str, float], generator: torch.Generator
) -> dict[str, list[int]]:
    """The rows of each task that one epoch reads, by task.

    rows_of: the numbers of each task's rows. shares: of a task with n rows, share x n are drawn
    without replacement, rounded, and at least one. They keep their order. A task without a share,
    or with a share of 1, keeps all its rows and draws nothing from the generator.
    """
    drawn = {}
    for task, rows in rows_of.items():
        share = shares.get(task, 1.0)
        chosen = list(rows)
        if share < 1:
            num_drawn = max(1, round(share * len(rows)))
            places = torch.randperm(len(rows), generator=generator)[:num_drawn]
            chosen = [rows[place] for place in sorted(places.tolist())]
        drawn[task] = chosen
    return drawn


def text_plan(
    name: str,
    groups: Sequence[Sequence[int]],
    lengths: np.ndarray,
    batch_size: int,
    generator: torch.Generator,
    window: int = WINDOW,
) -> list[Step]:
    """The steps of one epoch that goes through the groups of rows, one after the other.

    Inside a group, batches have rows of similar length (data/batching.py). No batch has rows of two
    groups. name: of the rows in a step. lengths: (N,), the tokens of each row. window: batches
    whose rows are sorted by length together.
    """
    steps: list[Step] = []
    for group in groups:
        rows = np.asarray(group, dtype=int)
        for batch in length_grouped_batches(lengths[rows], batch_size, generator, window):
            steps.append([TaskBatch(name, rows[batch].tolist())])
    return steps


# --- BSC: similar pairs meet in a batch -----------------------------------------------------------


class Groups(NamedTuple):
    """The groups of neighbours that share a batch.

    size: examples of a group at most. neighbours: the nearest ones from which it is filled.
    """

    size: int = 8
    neighbours: int = 8


PAPER_GROUPS = Groups()  # [BSC] section 3


class Renewal(nn.Module, ABC):
    """What a stage works out anew before each epoch but the first, from vectors of the encoder.

    It begins with the second epoch, because an untrained encoder knows no neighbours. It is a
    module and its results are buffers, so that a checkpoint in the middle of an epoch holds them:
    they follow from the weights with which the epoch began.

    title: for messages.
    """

    title = "this method"

    @abstractmethod
    def compute(self, epoch: int, vectors: Tensor) -> Any:
        """The result for an epoch, without a change of the module.

        vectors: (N, H) float32 on the CPU, of the rows that Inputs.renewal_rows names. Of several
        processes the first one calls this. The others get the result, so it holds no tensors.
        """

    @abstractmethod
    def renew(self, epoch: int, computed: Any) -> None:
        """Take a result of `compute` into the buffers."""


class Shuffle(Renewal):
    """An order of BSC's training pairs in which similar pairs meet in a batch.

    kind: "knn" or "cluster".
    """

    order: Tensor  # (N,) int64
    of_epoch: Tensor  # the epoch that `order` is for, -1 before there is one

    def __init__(
        self,
        kind: str,
        num_examples: int,
        batch_size: int,
        seed: int,
        groups: Groups = PAPER_GROUPS,
    ) -> None:
        super().__init__()
        self.title = f"--bsc_shuffle {kind}"
        self.groups = groups
        self.kind = kind
        self.batch_size = batch_size
        self.seed = seed
        self.register_buffer("order", torch.arange(num_examples))
        self.register_buffer("of_epoch", torch.tensor(-1))

    def compute(self, epoch: int, vectors: Tensor) -> list[int]:
        """An order for `epoch`. vectors: (N, H), of the pairs' first sentences."""
        generator = torch.Generator().manual_seed(SEED_STRIDE * self.seed + epoch)
        directions = F.normalize(vectors, dim=-1).numpy()  # (N, H)
        if self.kind == "knn":
            order: list[int] = []
            for group in knn_order(directions, generator, self.groups):
                order += group
            return order
        num_clusters = len(vectors) // (BATCHES_PER_CLUSTER * self.batch_size)
        return cluster_order(directions, num_clusters, generator)

    def renew(self, epoch: int, computed: list[int]) -> None:
        """Take the order for `epoch`."""
        self.order.copy_(torch.tensor(computed))
        self.of_epoch.fill_(epoch)

    def batches(self, epoch: int) -> list[list[int]]:
        """The epoch's batches in order; none where its order is not made yet."""
        if int(self.of_epoch) != epoch:
            return []
        return [batch.tolist() for batch in self.order.split(self.batch_size)]


class Group(NamedTuple):
    """Neighbours that go into one batch."""

    distance: float  # mean distance of the other members to the first one
    members: list[int]


def knn_order(
    directions: np.ndarray, generator: torch.Generator, groups: Groups = PAPER_GROUPS
) -> list[list[int]]:
    """Greedy groups of neighbours, each index once ([BSC] section 3).

    The examples are visited in random order. One that is still unused takes the unused examples
    among its nearest ones, itself included, if they are at least SMALLEST_GROUP.

    directions: (N, H), rows of length 1. Returns lists of numbers: first one list of all examples
    without a group, then the groups. The loosest group comes first. The tightest groups are the
    hardest to tell apart.
    """
    from sklearn.neighbors import NearestNeighbors  # late: it takes a second to import

    num_neighbours = min(groups.neighbours, len(directions))
    search = NearestNeighbors(n_neighbors=num_neighbours, algorithm="brute").fit(directions)
    # The number of threads decides which of equally near examples are taken.
    with threadpool_limits(limits=1):
        distances, neighbours = search.kneighbors(directions)  # (N, neighbours) each

    is_used = np.zeros(len(directions), dtype=bool)
    tight: list[Group] = []
    visits = torch.randperm(len(directions), generator=generator).tolist()
    for visited in visits:
        if is_used[visited]:
            continue
        near = neighbours[visited]  # (neighbours,)
        is_free = ~is_used[near] & (near != visited)
        # Of many equal examples, one may not be among its own nearest. So at most size - 1 others.
        is_free &= np.cumsum(is_free) < groups.size
        if is_free.sum() + 1 >= SMALLEST_GROUP:
            members = [visited, *near[is_free].tolist()]
            is_used[members] = True
            tight.append(Group(float(distances[visited][is_free].mean()), members))

    tight.sort(key=lambda group: -group.distance)
    alone = [visited for visited in visits if not is_used[visited]]
    return [alone, *(group.members for group in tight)]


def cluster_order(
    directions: np.ndarray, num_clusters: int, generator: torch.Generator
) -> list[int]:
    """Cluster after cluster of k-means, each index once ([BSC] section 3).

    The order of the clusters is random, and so is the order inside a cluster. directions: (N, H),
    rows of length 1. num_clusters: at least 2 are made. Returns N numbers.
    """
    from sklearn.cluster import KMeans  # late: it takes a second to import

    num_clusters = min(max(2, num_clusters), len(directions))
    seed = int(torch.randint(2**31, (), generator=generator))
    means = KMeans(num_clusters, n_init=1, max_iter=20, random_state=seed)
    # Threads add up in the order in which they end, so the last bits would vary.
    with threadpool_limits(limits=1):
        clusters = means.fit_predict(directions)  # (N,)

    place_of_cluster = torch.randperm(num_clusters, generator=generator).numpy()
    places = place_of_cluster[clusters]  # (N,)
    order = torch.randperm(len(directions), generator=generator).numpy()  # (N,)
    by_cluster = np.argsort(places[order], kind="stable")
    return order[by_cluster].tolist()
