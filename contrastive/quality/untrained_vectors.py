"""Sentence vectors that need no training: [CLS], mean, max, first-last mean, WK pooling, whitening.

What an encoder's own sentence vector is held against, and what the layer-by-pooling survey looks at. All are functions
of hidden states; survey.py calls them. Next: scores.py.

Legend: R rows, T tokens, H hidden, L layers, S hidden states in use, N real tokens of all rows, or N sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from minbert.bert import BertOutput
from minbert.pooling import maximum, mean, pool

WINDOW = 2  # [WK]'s m: so many hidden states on each side are a state's context
LEAST_COSINE = 1e-3


def first_token(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """(R, T, H) -> (R, H) float32: the vector at [CLS]. The mask is not needed; the three poolings have one form."""
    return hidden_states[:, 0].float()


SURVEYED = {"cls": first_token, "mean": mean, "max": maximum}  # Kim et al. 2021, figure 1


def first_last_mean(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
    """L + 1 tensors (R, T, H) -> (R, H): mean over tokens, halfway between the first layer's output and the last's.

    Su et al. 2021 call it first-last-avg, Huang et al. 2021 L1 + L12. State 0, the embeddings, is not the first layer;
    SimCSE's code once mistook it for that, so its numbers of that time are of another vector.
    """
    return (mean(hidden_states[1], attention_mask) + mean(hidden_states[-1], attention_mask)) / 2


# --- WK pooling -------------------------------------------------------------------------------------------------------


def state_weights(states: Tensor, window: int = WINDOW) -> Tensor:
    """How much of each hidden state goes into a token's one vector ([WK] Wang and Kuo 2020, section IV-A).

    states (S, N, H) -> (N, S), at least 0, each row adds up to 1. With C the states up to `window` before and after
    state i, without i itself:

        inverse alignment  a_i = K_a / ( 1 / (2 window) sum over j in C of cos(v_i, v_j) )
        novelty            n_i = K_n |v_i - U U^T v_i| / |v_i|,   U an orthonormal basis of what C spans
        weight             (a_i + n_i) / 2

    with K_a and K_n such that each adds up to 1 over i. A state that its neighbours foretell weighs little. At both
    ends C has fewer members, which makes a_i greater there. The paper takes U from a singular value decomposition and
    its code from a QR one; the length of what C leaves unexplained follows from cosines alone, as here:
    n_i^2 ~ 1 - c^T G^+ c, with G (C, C) the cosines within C and c those with v_i. A sum of cosines that is not
    positive, of which the paper says nothing, counts as .001.
    """
    unit = F.normalize(states, dim=-1)
    cosines = torch.einsum("snh,rnh->nsr", unit, unit)  # (N, S, S)
    alignment, novelty = [], []
    for state in range(len(states)):
        context = [other for other in range(len(states)) if 0 < abs(other - state) <= window]
        between = cosines[:, state, context]  # (N, C)
        within = cosines[:, context][:, :, context]  # (N, C, C)
        explained = torch.einsum(
            "nc,ncd,nd->n", between, torch.linalg.pinv(within, hermitian=True), between
        )
        alignment.append(2 * window / between.sum(dim=1).clamp(min=LEAST_COSINE))
        novelty.append((1 - explained).clamp(min=0).sqrt())
    halves = [torch.stack(measure, dim=1) for measure in (alignment, novelty)]  # (N, S) twice
    # Where no state is new (all equal), the novelties are all 0, and the inverse alignment decides alone.
    weights = sum(
        half / half.sum(dim=1, keepdim=True).clamp(min=torch.finfo(half.dtype).tiny)
        for half in halves
    )
    return weights / weights.sum(dim=1, keepdim=True)


def token_variances(states: Tensor) -> Tensor:
    """(S, N, H) -> (N,): variance of the cosines of neighbouring states, [WK]'s measure of a token's importance.

    Section IV-B: a word that says much changes unevenly from layer to layer.
    """
    return F.cosine_similarity(states[1:], states[:-1], dim=-1).var(dim=0, correction=0)


def wk_pool(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
    """WK pooling: L + 1 tensors (R, T, H), mask (R, T) -> (R, H) float32, on the CPU (Wang and Kuo 2020, SBERT-WK).

    Each token's states become one vector by `state_weights`, and the tokens one by their share of `token_variances`.
    As in the authors' code the last token, [SEP], is left out, and of 13 states the first four; here of any number the
    first third. Their code also measures cosines against the part of a state that lies in its context's span, and gives
    the second state no neighbours before it; here stands the paper's formula. Tokens without any variance (an encoder
    of one layer) weigh the same. Sequences are padded on the right.
    """
    attention_mask = attention_mask.cpu()
    position = attention_mask.cumsum(dim=1)  # (R, T), 1 for the first token
    is_counted = attention_mask.bool() & (position < position[:, -1:])  # (R, T)
    kept = hidden_states[(len(hidden_states) - 1) // 3 :]
    # In float64: neighbouring states are nearly parallel, and what is new in one is a small difference.
    states = torch.stack([state.cpu()[is_counted] for state in kept]).double()  # (S, N, H)
    tokens = torch.einsum("ns,snh->nh", state_weights(states), states)  # (N, H)
    row_of = is_counted.nonzero()[:, 0]  # (N,)
    variances = token_variances(states)  # (N,)
    sums = variances.new_zeros(len(attention_mask)).index_add(0, row_of, variances)  # (R,)
    counts = is_counted.sum(dim=1)  # (R,)
    shares = torch.where(sums[row_of] > 0, variances / sums[row_of], 1 / counts[row_of])  # (N,)
    return (
        tokens.new_zeros(len(attention_mask), tokens.size(1))
        .index_add(0, row_of, shares[:, None] * tokens)
        .float()
    )


# --- whitening --------------------------------------------------------------------------------------------------------


def whiten(vectors: Tensor) -> Tensor:
    """(N, H) -> (N, D) float32 with mean 0 and covariance 1: (x - mu) U Lambda^(-1/2), Sigma = U Lambda U^T.

    Su et al. 2021, section 3; Huang et al. 2021 (WhiteningBERT). No label is used, but mu and Sigma are those of the
    vectors given, so that a sentence's result depends on its company. D is H, less the directions in which nothing
    varies (below 1e-10 of the greatest variance). With N up to H all results are equally far from each other, and with
    not many more nearly so: there must be several times as many different sentences as units.
    """
    centred = vectors.double() - vectors.double().mean(dim=0)
    variances, directions = torch.linalg.eigh(
        centred.T @ centred / len(centred)
    )  # (H,) ascending, (H, H)
    is_varied = variances > 1e-10 * variances[-1]
    return (centred @ directions[:, is_varied] / variances[is_varied].sqrt()).float()


# --- which vectors a measurement is of --------------------------------------------------------------------------------

VectorOf = Callable[[BertOutput, Tensor], Tensor]
NAMES = {"mean": "mean", "cls": "[CLS]", "pooler": "pooler"}  # of minbert/pooling.py, in tables
FROM_STATES = {"first-last mean": first_last_mean, "WK": wk_pool}
WHITENED = ("mean", "first-last mean")


def kinds_of(pooling: str, with_baselines: bool) -> dict[str, VectorOf]:
    """The functions (output, mask (R, T)) -> (R, H) by name: the encoder's own vector first, then the baselines."""
    kinds = {NAMES[pooling]: partial(pool, pooling=pooling)}
    if with_baselines:
        kinds |= {
            NAMES[name]: partial(pool, pooling=name) for name in ("cls", "mean") if name != pooling
        }
        kinds |= {
            name: lambda output, mask, make=make: make(output.hidden_states, mask)
            for name, make in FROM_STATES.items()
        }
    return kinds


def survey_cosines(
    hidden_states: Sequence[Tensor], attention_mask: Tensor
) -> dict[tuple[int, str], Tensor]:
    """Cosines (B,) float64 of B pairs, R = 2B rows, for each hidden state and each of the SURVEYED poolings.

    Computed batch by batch, since the vectors themselves, 3 (L + 1) for each sentence, would fill the memory.
    """
    return {
        (number, name): F.cosine_similarity(*make(state, attention_mask).cpu().double().chunk(2))
        for number, state in enumerate(hidden_states)
        for name, make in SURVEYED.items()
    }
