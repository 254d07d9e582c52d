"""minbert/reporting/attention_pictures.py: what a picture of attention shows, cell by cell.

L layers, B batch, N heads, T tokens.
"""

import matplotlib
import numpy as np
import pytest
import torch

from minbert import BertConfig, BertModel
from minbert.reporting.attention_pictures import (
    TEXT,
    attention_of_sentence,
    draw_attention,
    draw_map,
)

TOKENS = ["[CLS]", "a", "[SEP]", "[PAD]"]
MASK = [[1, 1, 1, 1], [1, 1, 1, 0]]  # of two rows, the second of which has padding


@pytest.fixture(scope="module")
def attentions():
    """3 layers of 2 heads for two rows of 4 tokens, by a random model."""
    config = BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=4,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = BertModel(config).eval()
        ids = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]])
        return model(ids, torch.tensor(MASK), output_attentions=True).attentions


def cells(axes) -> np.ndarray:
    """The opacity of each cell of a map."""
    (image,) = axes.get_images()
    return np.asarray(image.get_array())[..., 3]


def labels(ticks) -> list[str]:
    return [tick.get_text() for tick in ticks]


# --- one sentence of a batch ----------------------------------------------------------------------


def test_padding_is_cut_off(attentions):
    sentence = attention_of_sentence(attentions, TOKENS, torch.tensor(MASK), row=1)
    assert sentence.tokens == TOKENS[:3]
    assert sentence.weights.shape == (3, 2, 3, 3)
    expected = attentions[2][1, 1, :3, :3]
    np.testing.assert_allclose(sentence.weights[2, 1], expected, rtol=1e-6)
    # Nobody attends to padding, so nothing is lost.
    np.testing.assert_allclose(sentence.weights.sum(axis=-1), 1, rtol=1e-5)


def test_padding_on_the_left_is_cut_off():
    weights = np.arange(16.0).reshape(1, 1, 4, 4)
    tokens = ["[PAD]", "[CLS]", "a", "[SEP]"]
    sentence = attention_of_sentence([weights], tokens, np.array([[0, 1, 1, 1]]))
    assert sentence.tokens == tokens[1:]
    np.testing.assert_array_equal(sentence.weights[0, 0], weights[0, 0, 1:, 1:])


def test_without_a_mask_every_token_is_kept(attentions):
    assert attention_of_sentence(attentions, TOKENS, row=1).tokens == TOKENS


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, np.float32])
def test_tensors_and_arrays_are_taken(kind):
    weights = [[[[0.25, 0.75], [0.5, 0.5]]]]
    if isinstance(kind, torch.dtype):
        layer = torch.tensor(weights, dtype=kind, requires_grad=True)
    else:
        layer = np.array(weights, dtype=kind)
    sentence = attention_of_sentence((layer,), ["a", "b"])
    np.testing.assert_array_equal(sentence.weights[0, 0], weights[0][0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attentions": None}, "output_attentions=True"),
        ({"attentions": ()}, "output_attentions=True"),
        ({"attentions": (torch.ones(2, 4, 4),)}, "expected is .batch, heads, tokens, tokens"),
        ({"attentions": (torch.ones(1, 2, 4, 3),)}, "expected is .batch, heads, tokens, tokens"),
        ({"tokens": TOKENS[:3]}, "3 tokens, and attentions of 4"),
        ({"row": 2}, "row is 2; the batch has the rows 0 to 1"),
        ({"row": -1}, "row is -1"),
        ({"attention_mask": torch.ones(4)}, r"shape \(4,\); expected is \(2, 4\)"),
    ],
)
def test_what_does_not_fit_is_refused(attentions, changes, words):
    arguments = {"attentions": attentions, "tokens": TOKENS, **changes}
    with pytest.raises(ValueError, match=words):
        attention_of_sentence(**arguments)


# --- one head -------------------------------------------------------------------------------------


def test_a_map_by_hand():
    """The largest weight is opaque, 0 is not drawn, and rows are the tokens that attend."""
    figure = draw_map([[0.2, 0.8], [0.0, 0.4]], ["x", "$y$"])
    (axes,) = figure.axes
    np.testing.assert_allclose(cells(axes), [[0.25, 1.0], [0.0, 0.5]])
    assert labels(axes.get_yticklabels()) == labels(axes.get_xticklabels()) == ["x", "$y$"]
    assert axes.get_ylabel() == "from this token"
    assert axes.get_xlabel() == "to this token"
    # Row 0 is at the top.
    bottom, top = axes.get_ylim()
    assert bottom > top


def test_a_map_of_zeros_is_empty():
    (axes,) = draw_map(np.zeros((2, 2)), ["a", "b"]).axes
    np.testing.assert_array_equal(cells(axes), np.zeros((2, 2)))


def test_a_map_needs_a_token_for_each_row():
    with pytest.raises(ValueError, match=r"\(2, 2\), and there are 3 tokens"):
        draw_map(np.eye(2), ["a", "b", "c"])


def test_the_head_that_was_asked_for(attentions):
    figure = draw_attention(attentions, TOKENS, 2, 1, torch.tensor(MASK), row=1)
    (axes,) = figure.axes
    weights = attentions[2][1, 1, :3, :3].numpy()
    np.testing.assert_allclose(cells(axes), weights / weights.max(), rtol=1e-6)
    assert axes.get_title() == "layer 2, head 1"
    assert labels(axes.get_xticklabels()) == TOKENS[:3]


# --- the grid -------------------------------------------------------------------------------------


def test_the_grid_has_each_layer_and_head_in_its_place(attentions):
    figure = draw_attention(attentions, TOKENS, attention_mask=torch.tensor(MASK), row=1)
    assert len(figure.axes) == 3 * 2
    for number, axes in enumerate(figure.axes):
        weights = attentions[number // 2][1, number % 2, :3, :3].numpy()
        np.testing.assert_allclose(cells(axes), weights / weights.max(), rtol=1e-6)
    assert [axes.get_title() for axes in figure.axes] == ["head 0", "head 1", "", "", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["layer 0", "layer 1", "layer 2"]
    assert figure.get_supxlabel() == "rows and columns: [CLS] a [SEP]"


def test_a_layer_alone_gives_its_heads(attentions):
    figure = draw_attention(attentions, TOKENS, layer=1)
    assert len(figure.axes) == 2
    weights = attentions[1][0, 1].numpy()
    np.testing.assert_allclose(cells(figure.axes[1]), weights / weights.max(), rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "head", "words"),
    [
        (3, None, "layer is 3; this model has the layers 0 to 2"),
        (-1, 0, "layer is -1"),
        (0, 2, "head is 2; this model has the heads 0 to 1"),
        (None, 0, "layer is missing"),
    ],
)
def test_a_map_that_is_not_there_is_refused(attentions, layer, head, words):
    with pytest.raises(ValueError, match=words):
        draw_attention(attentions, TOKENS, layer, head)


# --- the look -------------------------------------------------------------------------------------


def contrast(colour: str, paper: str) -> float:
    """The contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    luminances = []
    for name in (colour, paper):
        channels = np.array(matplotlib.colors.to_rgb(name))
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        luminances.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def test_texts_can_be_read_on_light_and_dark_pages(attentions):
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast(TEXT, "white") > 3.9
    assert contrast(TEXT, "#0d1117") > 3.9
    for figure in (draw_attention(attentions, TOKENS), draw_attention(attentions, TOKENS, 0, 0)):
        # The page shows through.
        assert figure.patch.get_alpha() == 0
        assert all(axes.patch.get_alpha() == 0 for axes in figure.axes)


def test_a_notebook_shows_the_picture(attentions):
    """Also before pyplot is imported. IPython asks an object for this method."""
    for figure in (draw_attention(attentions, TOKENS), draw_map(np.eye(4), TOKENS)):
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_long_sentences_stay_on_the_page():
    """Cells and letters get smaller, and no token is left out."""
    tokens = [f"token{number}" for number in range(100)]
    figure = draw_map(np.eye(100), tokens)
    assert max(figure.get_size_inches()) < 20
    ticks = figure.axes[0].get_yticklabels()
    assert labels(ticks) == tokens
    assert 4 <= ticks[0].get_fontsize() < 10
    grid = draw_attention([np.eye(100).reshape(1, 1, 100, 100)], tokens)
    lines = grid.get_supxlabel().splitlines()
    assert " ".join(lines).endswith(" ".join(tokens))
    assert max(map(len, lines)) < 90


def test_the_settings_of_matplotlib_stay(attentions):
    before = dict(matplotlib.rcParams)
    draw_attention(attentions, TOKENS)
    assert dict(matplotlib.rcParams) == before
