"""Sentence vectors that need no training: [CLS], means, max, WK pooling, whitening.

An encoder's own sentence vector is compared with these. All of them are functions of the hidden
states. Next: vector_sources.py.

Legend: R rows, T tokens, H hidden, L layers, S hidden states in use, C context states of one state,
N real tokens of all rows (WK pooling) or sentences (whitening).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from minbert.bert import BertOutput
from minbert.pooling import first_token, maximum, mean, pool

CONTEXT_WINDOW = 2  # hidden states on each side that are a state's context, m in the paper
LEAST_COSINE = 1e-3

# (output, attention mask (R, T)) -> sentence vectors (R, H)
VectorFunction = Callable[[BertOutput, Tensor], Tensor]


# The poolings of every hidden state that --layers compares (Kim et al. 2021, figure 1).
LAYER_POOLINGS = {"cls": first_token, "mean": mean, "max": maximum}


def first_last_mean(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
    """The mean over tokens and over two layers, the first and the last.

    hidden_states: L + 1 tensors (R, T, H). attention_mask: (R, T). Returns (R, H).

    Su et al. 2021 call it first-last-avg, Huang et al. 2021 call it L1 + L12. State 0 is the
    embeddings and not the output of the first layer. SimCSE's code once used state 0, so its
    numbers of that time are about another vector.
    """
    first = mean(hidden_states[1], attention_mask)
    last = mean(hidden_states[-1], attention_mask)
    return (first + last) / 2


def last_two_mean(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
    """The mean over tokens and over the last two layers.

    hidden_states: L + 1 tensors (R, T, H). attention_mask: (R, T). Returns (R, H).

    BERT-flow (Li et al. 2020) starts from it. Huang et al. 2021 call it L11 + L12. State 0 is the
    embeddings, so an encoder of one layer has the mean of that layer.
    """
    before = mean(hidden_states[1:][-2:][0], attention_mask)
    last = mean(hidden_states[-1], attention_mask)
    return (before + last) / 2


# --- WK pooling ---------------------------------------------------------------------------------


def state_weights(states: Tensor, window: int = CONTEXT_WINDOW) -> Tensor:
    """How much each hidden state contributes to a token's one vector.

    states: (S, N, H). Returns (N, S), at least 0. Each row adds up to 1.

    Wang and Kuo 2020 (SBERT-WK), section IV-A. The context C of state i is the states up to
    `window` before and after it, without i itself. Then

        inverse alignment  a_i = K_a / ( 1 / (2 window) sum over j in C of cos(v_i, v_j) )
        novelty            n_i = K_n |v_i - U U^T v_i| / |v_i|,   U an orthonormal basis of C's span
        weight             (a_i + n_i) / 2

    K_a and K_n are such that each term adds up to 1 over i. A state that its neighbours predict
    well gets a small weight. At both ends C has fewer members, which makes a_i larger there.

    The paper computes U by a singular value decomposition, its code by a QR decomposition. Here
    the novelty follows from cosines alone: n_i^2 ~ 1 - c^T G^+ c. G (C, C) holds the cosines within
    C, and c those with v_i. The paper does not define a sum of cosines that is not positive. Here
    it counts as .001.
    """
    directions = F.normalize(states, dim=-1)
    cosines = torch.einsum("snh,rnh->nsr", directions, directions)  # (N, S, S)
    inverse_alignments = []
    novelties = []
    for state in range(len(states)):
        neighbours = range(max(0, state - window), min(len(states), state + window + 1))
        context = [other for other in neighbours if other != state]
        with_state = cosines[:, state, context]  # (N, C)
        within = cosines[:, context][:, :, context]  # (N, C, C)

        sums = with_state.sum(dim=1).clamp(min=LEAST_COSINE)  # (N,)
        inverse_alignments.append(2 * window / sums)

        inverse = torch.linalg.pinv(within, hermitian=True)  # (N, C, C)
        explained = torch.einsum("nc,ncd,nd->n", with_state, inverse, with_state)  # (N,)
        novelties.append((1 - explained).clamp(min=0).sqrt())

    # If no state is new (all are equal), all novelties are 0. Then the inverse alignments decide.
    terms = [torch.stack(inverse_alignments, dim=1), torch.stack(novelties, dim=1)]  # (N, S) each
    tiny = torch.finfo(states.dtype).tiny
    shares = [term / term.sum(dim=1, keepdim=True).clamp(min=tiny) for term in terms]
    weights = shares[0] + shares[1]  # (N, S)
    return weights / weights.sum(dim=1, keepdim=True)


def token_variances(states: Tensor) -> Tensor:
    """The importance of each token: how unevenly it changes from layer to layer.

    states: (S, N, H). Returns (N,), the variance of the cosines between neighbouring states. Wang
    and Kuo 2020, section IV-B: a word with much content changes unevenly.
    """
    cosines = F.cosine_similarity(states[1:], states[:-1], dim=-1)  # (S - 1, N)
    return cosines.var(dim=0, correction=0)


def wk_pool(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
    """WK pooling: L + 1 tensors (R, T, H) and a mask (R, T) -> (R, H) float32 on the CPU.

    Wang and Kuo 2020 (SBERT-WK). `state_weights` makes one vector of each token's states. The
    share of each token in its sentence is its share of `token_variances`.

    As in the authors' code, the last token ([SEP]) is left out, and of 13 states the first four
    are left out. Here it is the first third of any number of states. Their code also uses cosines
    with the part of a state that lies in its context's span, and gives the second state no
    neighbours before it. This function follows the paper's formula. If no token of a sentence has
    any variance (an encoder of one layer), all its tokens count the same. Sequences must be padded
    on the right.
    """
    attention_mask = attention_mask.cpu()
    position = attention_mask.cumsum(dim=1)  # (R, T), 1 for the first token
    is_counted = attention_mask.bool() & (position < position[:, -1:])  # (R, T)
    num_skipped = (len(hidden_states) - 1) // 3

    # In float64: neighbouring states are nearly parallel, and the novelty is a small difference.
    kept = [state.cpu()[is_counted] for state in hidden_states[num_skipped:]]
    states = torch.stack(kept).double()  # (S, N, H)
    tokens = torch.einsum("ns,snh->nh", state_weights(states), states)  # (N, H)

    # The share of each token in its sentence.
    num_rows = len(attention_mask)
    row_of_token = is_counted.nonzero()[:, 0]  # (N,)
    variances = token_variances(states)  # (N,)
    sums = variances.new_zeros(num_rows).index_add(0, row_of_token, variances)  # (R,)
    counts = is_counted.sum(dim=1)  # (R,)
    is_varied = sums[row_of_token] > 0  # (N,)
    shares = torch.where(is_varied, variances / sums[row_of_token], 1 / counts[row_of_token])

    vectors = tokens.new_zeros(num_rows, tokens.size(1))
    return vectors.index_add(0, row_of_token, shares[:, None] * tokens).float()  # (R, H)


# --- whitening ----------------------------------------------------------------------------------


def whiten(vectors: Tensor) -> Tensor:
    """Remove the mean and the covariance: (N, H) -> (N, D) float32, mean 0 and covariance 1.

    Su et al. 2021, section 3; Huang et al. 2021 (WhiteningBERT). With the eigenvalue decomposition
    Sigma = U Lambda U^T of the covariance, the result is (x - mu) U Lambda^(-1/2).

    It uses no label. But mu and Sigma come from the given vectors, so the vector of a sentence
    depends on the other sentences. D is H without the directions of no variance (below 1e-10 of
    the largest one). If N is at most H, all results are equally far from each other. With N only
    a little larger they nearly are. There must be several times as many different sentences as
    units.
    """
    centred = vectors.double() - vectors.double().mean(dim=0)
    covariance = centred.T @ centred / len(centred)  # (H, H)
    variances, directions = torch.linalg.eigh(covariance)  # (H,) ascending, (H, H)
    is_varied = variances > 1e-10 * variances[-1]
    return (centred @ directions[:, is_varied] / variances[is_varied].sqrt()).float()  # (N, D)


# --- which vectors are measured -----------------------------------------------------------------

# The names in tables of the poolings in minbert/pooling.py.
POOLING_NAMES = {"mean": "mean", "cls": "[CLS]", "pooler": "pooler"}
WHITENED = ("mean", "first-last mean", "last-two mean")


def vector_functions(pooling: str, with_baselines: bool) -> dict[str, VectorFunction]:
    """The functions that make sentence vectors, by the name of the vector in tables.

    pooling: the encoder's own, which comes first. The baselines follow it.
    """
    functions: dict[str, VectorFunction] = {POOLING_NAMES[pooling]: partial(pool, pooling=pooling)}
    if not with_baselines:
        return functions

    for name in ("cls", "mean"):
        functions.setdefault(POOLING_NAMES[name], partial(pool, pooling=name))

    def first_last(output: BertOutput, attention_mask: Tensor) -> Tensor:
        return first_last_mean(_hidden_states(output), attention_mask)

    def last_two(output: BertOutput, attention_mask: Tensor) -> Tensor:
        return last_two_mean(_hidden_states(output), attention_mask)

    def wk(output: BertOutput, attention_mask: Tensor) -> Tensor:
        return wk_pool(_hidden_states(output), attention_mask)

    return functions | {"first-last mean": first_last, "last-two mean": last_two, "WK": wk}


def _hidden_states(output: BertOutput) -> Sequence[Tensor]:
    assert output.hidden_states is not None  # the callers ask the encoder for them
    return output.hidden_states


def layer_cosines(
    hidden_states: Sequence[Tensor], attention_mask: Tensor
) -> dict[tuple[int, str], Tensor]:
    """The cosines of P pairs for each hidden state and each pooling of LAYER_POOLINGS.

    hidden_states: L + 1 tensors (R, T, H) with R = 2P rows, all first sentences before all second
    ones. Returns tensors (P,) float64 by (number of the state, name of the pooling).

    It is called batch by batch: all vectors together, 3 (L + 1) per sentence, would fill the
    memory.
    """
    cosines = {}
    for number, state in enumerate(hidden_states):
        for name, pooling in LAYER_POOLINGS.items():
            first, second = pooling(state, attention_mask).cpu().double().chunk(2)  # (P, H) each
            cosines[number, name] = F.cosine_similarity(first, second)
    return cosines
