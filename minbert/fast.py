"""Fast twins of readable functions: the same values and gradients, in less time or memory.

Each function here names its readable twin. Read the twin to learn what is computed. Read this file
to learn why the computation is cheaper. tests/minbert/test_fast.py shows that the two agree.

A readable function names its twin in one line, `@computed_by(twin)`. The code under that line is
complete, and `with switched_off():` runs it. Two twins are chosen by their own switch instead:
`attention` by BertConfig.attention_implementation, `adamw_update` by AdamW(fused=True).

B batch, T tokens, H hidden, N heads, D head size, P positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.optim import Optimizer
from torch.optim.adamw import adamw

Function = TypeVar("Function", bound=Callable[..., Any])

# --- the switch -----------------------------------------------------------------------------------

_is_on = True


def is_on() -> bool:
    """Whether fast twins compute in place of the readable functions. They do by default."""
    return _is_on


@contextmanager
def switched_off() -> Iterator[None]:
    """Inside the `with` block, readable functions compute and their fast twins do not."""
    global _is_on
    was_on = _is_on
    _is_on = False
    try:
        yield
    finally:
        _is_on = was_on


def computed_by(twin: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorate a readable function: calls of it go to its fast `twin`, unless twins are off.

    twin: takes the same arguments and returns the same values.
    """

    def decorate(readable: Function) -> Function:
        @wraps(readable)
        def run(*arguments: Any, **options: Any) -> Any:
            function = twin if _is_on else readable
            return function(*arguments, **options)

        return cast(Function, run)

    return decorate


# --- dropout --------------------------------------------------------------------------------------

# A decision takes 16 random bits, so that one 64-bit draw decides four units.
LEVELS = 2**16


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Twin of minbert.dropout.dropout, with a mask that is cheap to draw on a CPU.

    On a CPU, torch draws one 64-bit number per unit, one after the other. That takes a fifth of a
    fine-tuning step. `dropout_mask` needs a quarter of the draws. It draws other masks than the
    readable twin, but by the same law. On other devices, torch's own fused kernel is faster.
    """
    if not training or probability == 0.0:
        return inputs
    if inputs.device.type != "cpu":
        return F.dropout(inputs, probability)
    return inputs * dropout_mask(inputs, probability)


def dropout_mask(inputs: Tensor, probability: float) -> Tensor:
    """Draw 0 where a unit is dropped and the scale elsewhere, in the shape and dtype of `inputs`.

    The probability is rounded to a multiple of 1 / 65,536, so 0.1 becomes 0.100006. The scale
    belongs to the rounded probability. The mean is therefore exact in float32. bfloat16 rounds
    1.1111 to 1.1094, as it does in torch's own dropout.
    """
    num_dropped_levels = min(round(probability * LEVELS), LEVELS - 1)

    # `None` as the upper end makes every one of the 64 bits random.
    num_words = (inputs.numel() + 3) // 4
    words = torch.empty(num_words, dtype=torch.int64).random_(-(2**63), None)

    # The same memory read as 16-bit numbers: -32,768 to 32,767, all equally likely.
    levels = words.view(torch.int16)[: inputs.numel()].view(inputs.shape)

    # 1 or 0, written over the levels. A bool tensor in between takes four times as long.
    is_kept = levels.ge_(num_dropped_levels - LEVELS // 2).to(inputs.dtype)
    return is_kept.mul_(LEVELS / (LEVELS - num_dropped_levels))


# --- attention ------------------------------------------------------------------------------------


class Projections(Protocol):
    """The part of a MultiHeadAttention that `project` reads."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear


def project(layer: Projections, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Twin of MultiHeadAttention.project: one matrix product instead of three.

    hidden_states (B, T, H). Returns query, key and value, (B, T, H) each. The three modules are
    not called, so hooks on them never run.
    """
    linears = (layer.query, layer.key, layer.value)
    weight = torch.cat([linear.weight for linear in linears])  # (3 H, H)
    bias = torch.cat([linear.bias for linear in linears])  # (3 H,)
    projected = F.linear(hidden_states, weight, bias)  # (B, T, 3 H)
    query, key, value = projected.chunk(3, dim=-1)  # (B, T, H) each
    return query, key, value


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_bias: Tensor | None,
    dropout_probability: float,
    training: bool,
) -> Tensor:
    """Twin of minbert.attention.attention: torch's fused kernel, which never stores (T, T) scores.

    Arguments, shapes and result are those of the readable twin. The kernel draws its own dropout
    masks. It is fast on a GPU. On a CPU its backward pass is slow.
    """
    if mask_bias is not None:
        # The most negative float32 is -inf in bfloat16, so it is limited before it is converted.
        lowest = torch.finfo(query.dtype).min
        mask_bias = mask_bias.clamp(min=lowest).to(query.dtype)
    probability = dropout_probability if training else 0.0
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask_bias, dropout_p=probability
    )


# --- the last layer at few positions --------------------------------------------------------------


class Layer(Protocol):
    """The parts of a BertLayer."""

    attention: nn.Module
    attention_norm: nn.Module
    feed_forward: nn.Module
    feed_forward_norm: nn.Module
    dropout: nn.Module


def positions_read(attention_mask: Tensor, pooling: str) -> Tensor | None:
    """Find the positions that minbert.pooling.pool reads: each row's [CLS], or None for all.

    attention_mask (B, T). Returns (B,) int64, the `positions` of BertModel.forward. "mean" reads
    every token.
    """
    if pooling == "mean":
        return None
    num_tokens = attention_mask.size(1)
    return torch.arange(0, attention_mask.numel(), num_tokens, device=attention_mask.device)


def last_layer_at(layers: nn.ModuleList, positions: Tensor | None) -> Sequence[Callable]:
    """List the layers of an encoder, the last one limited to `positions` where they are given."""
    if positions is None:
        return list(layers)
    return [*layers[:-1], partial(layers[-1], positions=positions)]


def accepts_positions(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorate BertLayer.forward: with the further argument `positions`, its twin computes.

    The twin stands inside `forward` and not beside it, so that torch.compile compiles it, too.
    """

    @wraps(forward)
    def run(
        layer: Any,
        hidden_states: Tensor,
        mask_bias: Tensor | None,
        positions: Tensor | None = None,
    ) -> Tensor:
        if positions is None:
            return forward(layer, hidden_states, mask_bias)
        return layer_at_positions(layer, hidden_states, mask_bias, positions)

    return run


def layer_at_positions(
    layer: Layer, hidden_states: Tensor, mask_bias: Tensor | None, positions: Tensor
) -> Tensor:
    """Twin of BertLayer.forward that computes a few tokens only: (B, T, H) -> (P, 1, H).

    positions (P,) int64 in [0, B T): b T + t stands for token t of row b. All tokens are attended
    to. After attention, each token is computed by itself, so the others can be left out. That
    saves most of the feed-forward network, which holds two thirds of the layer's weights. Each
    position becomes a row of one token.
    """
    attended = layer.attention(hidden_states, mask_bias)  # (B, T, H)

    # From here on, (P, 1, H) stands in the place of (B, T, H).
    hidden_states = hidden_states.flatten(0, 1).index_select(0, positions).unsqueeze(1)
    attended = attended.flatten(0, 1).index_select(0, positions).unsqueeze(1)

    hidden_states = layer.attention_norm(hidden_states + layer.dropout(attended))
    transformed = layer.feed_forward(hidden_states)
    return layer.feed_forward_norm(hidden_states + layer.dropout(transformed))


# --- cross-entropy over a vocabulary --------------------------------------------------------------

# Rows of logits that are in work at once. They are few on a CPU, so that they stay in its cache.
ROWS_AT_ONCE = {"cpu": 128, "cuda": 8192, "mps": 8192}


def summed_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Twin of minbert.pretraining.mlm.summed_cross_entropy for a large vocabulary.

    logits (M, V). targets (M,) int64. The result can be differentiated once.

    It takes a few rows at a time. The float32 copy of the logits, their log-softmax and its
    gradient therefore never exist for all rows. The gradient is computed together with the loss, so
    there is one pass over the logits instead of five.
    """
    return CrossEntropy.apply(logits, targets)


class CrossEntropy(torch.autograd.Function):
    """`summed_cross_entropy` with its gradient, softmax(logits) - one_hot(targets).

    M rows, V vocabulary, R rows that are in work.
    """

    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor) -> Tensor:
        """Compute the sum, and keep the gradient for `backward`."""
        dtype = torch.promote_types(logits.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=logits.device)
        gradient = torch.empty_like(logits)  # (M, V)
        size = ROWS_AT_ONCE[logits.device.type]
        for start in range(0, len(logits), size):
            rows = slice(start, start + size)
            target = targets[rows].unsqueeze(1)  # (R, 1)
            log_probabilities = logits[rows].to(dtype).log_softmax(dim=-1)  # (R, V)
            total -= log_probabilities.gather(1, target).sum()

            # softmax(logits) - one_hot(target), written over the log-probabilities.
            minus_one = torch.full_like(target, -1, dtype=dtype)
            difference = log_probabilities.exp_().scatter_add_(1, target, minus_one)
            gradient[rows].copy_(difference)
        context.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(context: Any, scale: Tensor) -> tuple[Tensor, None]:
        """Scale the gradient by that of the sum."""
        (gradient,) = context.saved_tensors
        return gradient * scale, None


# --- the optimizer --------------------------------------------------------------------------------


def adamw_update(optimizer: Optimizer, parameters: list[Tensor], group: dict[str, Any]) -> None:
    """Twin of AdamW.update for many parameters: torch's fused kernel, which reads memory once.

    parameters: those of `group` that have a gradient; their step is counted already. group: as in
    AdamW, with the bias correction on.

    torch's formula differs from ours in two places, so the kernel receives other numbers:

    - It adds eps to the corrected sqrt(v). It therefore receives eps / sqrt(1 - b2^t).
    - It decays before the step: p (1 - d) - s, with d = lr weight_decay. Ours is (p - s) (1 - d),
      so the step s is made (1 - d) times as long.

    The kernel multiplies by 1 - d in float32, which rounds d to a multiple of 6e-8. That changes
    5e-7 (5e-5 times 0.01) by a sixteenth at most. It makes 1.2e-7 of 1e-7. Below 3e-8 nothing
    decays.
    """
    # A head that some steps do not touch has counted fewer steps than the other parameters.
    by_step: dict[int, list[Tensor]] = {}
    for parameter in parameters:
        step = optimizer.state[parameter]["step"]
        by_step.setdefault(step, []).append(parameter)

    decay = group["lr"] * group["weight_decay"]
    beta_1, beta_2 = group["betas"]
    for step, members in by_step.items():
        states = [optimizer.state[parameter] for parameter in members]
        # The kernel adds 1 to the number of steps itself.
        steps = torch.full((len(members),), step - 1.0, device=members[0].device)
        adamw(
            members,
            [cast(Tensor, parameter.grad) for parameter in members],
            [state["first_moment"] for state in states],
            [state["second_moment"] for state in states],
            [],
            list(steps),
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=beta_1,
            beta2=beta_2,
            lr=group["lr"] * (1 - decay),
            weight_decay=group["weight_decay"] / (1 - decay),
            eps=group["eps"] / math.sqrt(1 - beta_2**step),
        )
