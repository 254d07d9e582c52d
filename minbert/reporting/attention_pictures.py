"""Pictures of attention: how much each token of a sentence attends to each other token.

One head is a heat map with the tokens beside it. All layers and heads are a grid of small maps.
A cell is blue, and the more opaque the more attention it stands for. The paper is transparent and
the texts are grey, so one picture can be read on light and on dark pages.

matplotlib is imported late, in the functions that draw.

Legend: L layers, B batch, N heads, T tokens, R tokens without padding.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The contrast of this grey is above 4 both on white and on a black page.
TEXT = "#7a808a"
CELL = "#3b82e6"

# The sizes of a picture, in inches.
TOKEN = 0.3  # of a token beside the map of one head
SMALL_MAP = 1.15  # of one map in the grid
LABELS = 1.1  # of the tokens' names
LARGEST = 18.0  # longer sentences get smaller cells

FEWEST_POINTS = 4.0  # of the letters of a token
USUAL_POINTS = 10.0
CHARACTERS = 14  # of the line of tokens under a grid, for each inch


class SentenceAttention(NamedTuple):
    """The attention of one sentence without padding."""

    weights: np.ndarray  # (L, N, R, R), each row sums to 1
    tokens: list[str]  # R of them, the special ones included


def attention_of_sentence(
    attentions: Sequence[Any], tokens: Sequence[str], attention_mask: Any = None, row: int = 0
) -> SentenceAttention:
    """Take one sentence out of a batch, and cut its padding off.

    attentions: L tensors or arrays (B, N, T, T), the `attentions` of a model's output.
    tokens: T texts, those of the sentence, with its padding.
    attention_mask: (B, T), 1 for tokens and 0 for padding. None means that there is no padding.
    row: the number of the sentence in the batch, from 0.
    Raises ValueError if the shapes do not fit to each other.
    """
    if attentions is None or len(attentions) == 0:
        raise ValueError("there are no attentions. Call the model with output_attentions=True.")
    shape = tuple(attentions[0].shape)
    if len(shape) != 4 or shape[2] != shape[3]:
        raise ValueError(
            f"a layer's attentions have the shape {shape}; expected is (batch, heads, tokens, "
            "tokens). Pass the attentions of the model's output as they are."
        )
    num_rows, _, num_tokens, _ = shape
    if not 0 <= row < num_rows:
        raise ValueError(f"row is {row}; the batch has the rows 0 to {num_rows - 1}.")
    if len(tokens) != num_tokens:
        raise ValueError(
            f"there are {len(tokens)} tokens, and attentions of {num_tokens}. Pass the tokens of "
            "row's input_ids, with their padding."
        )

    weights = np.stack([_as_array(layer[row]) for layer in attentions])  # (L, N, T, T)
    if attention_mask is None:
        return SentenceAttention(weights, list(tokens))
    mask = _as_array(attention_mask)  # (B, T)
    if mask.shape != (num_rows, num_tokens):
        raise ValueError(
            f"attention_mask has the shape {mask.shape}; expected is {(num_rows, num_tokens)}. "
            "Pass the one that the model got."
        )
    is_token = mask[row] != 0  # (T,)
    weights = weights[:, :, is_token][:, :, :, is_token]  # (L, N, R, R)
    return SentenceAttention(weights, list(compress(tokens, is_token)))


def _as_array(values: Any) -> np.ndarray:
    """A tensor or an array as an array of floats. This file does not import torch."""
    if hasattr(values, "detach"):
        # numpy has no bfloat16.
        values = values.detach().cpu().float().numpy()
    return np.asarray(values, dtype=np.float64)


def draw_attention(
    attentions: Sequence[Any],
    tokens: Sequence[str],
    layer: int | None = None,
    head: int | None = None,
    attention_mask: Any = None,
    row: int = 0,
) -> Figure:
    """Draw the attention of one sentence: of one head, or of all layers and heads.

    attentions, tokens, attention_mask, row: as in `attention_of_sentence`.
    layer, head: which map to draw, from 0. Without both, all maps are drawn as a grid. A layer
        alone gives the heads of this layer.

    Returns a figure of matplotlib, for `figure.savefig("attention.svg")` or a notebook.
    Raises ValueError for a layer or a head that is not there, and if shapes do not fit.
    """
    sentence = attention_of_sentence(attentions, tokens, attention_mask, row)
    num_layers, num_heads = sentence.weights.shape[:2]
    if head is not None and layer is None:
        raise ValueError(f"head is {head}, and layer is missing. Pass both, or a layer alone.")
    _check_number("layer", layer, num_layers)
    _check_number("head", head, num_heads)
    if layer is not None and head is not None:
        title = f"layer {layer}, head {head}"
        return draw_map(sentence.weights[layer, head], sentence.tokens, title)
    layers = range(num_layers) if layer is None else [layer]
    return _draw_grid(sentence, layers)


def _check_number(name: str, number: int | None, count: int) -> None:
    """Raise ValueError if a layer or head is not there."""
    if number is not None and not 0 <= number < count:
        raise ValueError(f"{name} is {number}; this model has the {name}s 0 to {count - 1}.")


def draw_map(weights: Any, tokens: Sequence[str], title: str = "") -> Figure:
    """Draw one map: the token of a row attends to the tokens of the columns.

    weights: (R, R), each row sums to 1. tokens: R texts. Returns a figure of matplotlib.
    """
    weights = _as_array(weights)  # (R, R)
    if weights.shape != (len(tokens), len(tokens)):
        raise ValueError(
            f"weights have the shape {weights.shape}, and there are {len(tokens)} tokens; expected "
            "is a row and a column for each token."
        )
    side = min(TOKEN * len(tokens), LARGEST)
    # A short sentence has room for the title, too.
    figure = _new_figure(max(side, 2.4) + LABELS, side + LABELS + 0.4)
    axes = figure.add_subplot()
    _draw_cells(axes, weights)

    points = min(USUAL_POINTS, max(FEWEST_POINTS, USUAL_POINTS * side / (TOKEN * len(tokens))))
    places = range(len(tokens))
    # A dollar in a token is no formula.
    style: dict[str, Any] = {"fontsize": points, "color": TEXT, "parse_math": False}
    axes.set_xticks(places, list(tokens), rotation=90, **style)
    axes.set_yticks(places, list(tokens), **style)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_ylabel("from this token", color=TEXT)
    axes.set_xlabel("to this token", color=TEXT)
    axes.set_title(title, color=TEXT, fontsize=11)
    return figure


def _draw_grid(sentence: SentenceAttention, layers: Sequence[int]) -> Figure:
    """Draw small maps: a row for each layer, a column for each head."""
    num_heads = sentence.weights.shape[1]
    width = max(SMALL_MAP * num_heads + 0.6, 6.0)
    lines = _lines_of_tokens(sentence.tokens, int(CHARACTERS * width))
    height = SMALL_MAP * len(layers) + 0.35 + 0.16 * len(lines)
    figure = _new_figure(width, height)
    axes_of = figure.subplots(len(layers), num_heads, squeeze=False)
    for place, layer in enumerate(layers):
        for head in range(num_heads):
            axes = axes_of[place, head]
            _draw_cells(axes, sentence.weights[layer, head])
            axes.set(xticks=[], yticks=[])
            if place == 0:
                axes.set_title(f"head {head}", color=TEXT, fontsize=9)
            if head == 0:
                axes.set_ylabel(f"layer {layer}", color=TEXT, fontsize=9)
    # Labels of this size would not fit. The order of the tokens is the same in all maps.
    text = figure.supxlabel("\n".join(lines), color=TEXT, fontsize=8)
    text.set_parse_math(False)
    return figure


def _new_figure(width: float, height: float) -> Figure:
    """An empty figure on transparent paper. width, height: in inches."""
    figure = _picture_class()(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure


@cache
def _picture_class() -> type[Figure]:
    """A figure of matplotlib that a notebook shows as a picture.

    A plain one is shown as a picture only after the first call of pyplot.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png")
            return stream.getvalue()

    return Picture


def _lines_of_tokens(tokens: Sequence[str], longest: int) -> list[str]:
    """The tokens in their order, as lines of at most `longest` characters."""
    lines = ["rows and columns:"]
    for token in tokens:
        if len(lines[-1]) + 1 + len(token) > longest:
            lines.append(token)
        else:
            lines[-1] += f" {token}"
    return lines


def _draw_cells(axes: Axes, weights: np.ndarray) -> None:
    """Draw the cells (R, R) as an image of one colour. The largest weight is opaque."""
    from matplotlib.colors import to_rgb

    image = np.empty((*weights.shape, 4))  # (R, R, 4): red, green, blue, opacity
    image[..., :3] = to_rgb(CELL)
    # A map of zeros alone stays empty.
    image[..., 3] = weights / (weights.max() or 1.0)
    axes.imshow(image, interpolation="nearest")
    axes.patch.set_alpha(0)
    for spine in axes.spines.values():
        spine.set(color=TEXT, linewidth=0.5)
