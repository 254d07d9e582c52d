"""tests/plugins/ance.py: the search against a slow loop, and what the loss sees of a batch."""

from __future__ import annotations

import pytest
import torch

from contrastive.inputs import Source, collect
from contrastive.methods import build_method
from contrastive.options import ContrastiveOptions
from contrastive.presets import settings_of
from contrastive.registry import METHODS
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.commands import plugins
from minbert.commands.options import MethodOptions, with_values
from minbert.training.options import TrainingOptions
from tests.plugins.loading import FILES, module_of, unload

# The second text of pair 0 is the first one of pair 3, so these two say the same.
PAIRS = [
    ("the doctor", "a doctor"),
    ("the girl", "a girl"),
    ("two men", "two tall men"),
    ("a doctor", "doctor"),
    ("the hotel", "a hotel"),
]
ALIKE = [{0, 3}, {1}, {2}, {0, 3}, {4}]


def vectors_of_all(seed: int = 0) -> torch.Tensor:
    return torch.randn(10, 6, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_negatives", [1, 3])
def test_the_nearest_texts_that_say_something_else(num_negatives):
    vectors = vectors_of_all()
    mined = module_of("ance").Mined(PAIRS, num_negatives)
    found = mined.compute(1, vectors)
    for row, alike in enumerate(ALIKE):
        cosines = torch.cosine_similarity(vectors[row], vectors[5:], dim=-1).tolist()
        others = [number for number in range(5) if number not in alike]
        others.sort(key=lambda number, cosines=cosines: -cosines[number])
        assert found[row] == others[:num_negatives]
    # The negative control: some text that says the same is nearer.
    nearest = (vectors[:5] @ torch.nn.functional.normalize(vectors[5:], dim=-1).T).argmax(dim=1)
    assert any(int(near) in alike for near, alike in zip(nearest, ALIKE, strict=True))


def test_too_few_texts_are_refused():
    with pytest.raises(ValueError, match="5 pairs, of which up to 2 say the same, do not hold 4"):
        module_of("ance").Mined(PAIRS, 4)


@pytest.fixture
def source(tiny_model):
    """The pairs as PARA has them, for ance with two negatives."""
    plugin = plugins.load(FILES["ance"])
    method_options = MethodOptions((plugin.module.AnceOptions(ance_negatives=2),))
    examples = [Example(f"p{number}", *pair, 1.0) for number, pair in enumerate(PAIRS)]
    yield Source(
        "ance",
        method_options,
        METHODS["ance"].preset,
        {"para": examples},
        BertTokenizer.from_pretrained(tiny_model),
        TrainingOptions(device="cpu"),
        32,
    )
    unload(plugin)


def test_the_loss_sees_the_texts_and_all_negatives(source, tiny_model, monkeypatch):
    inputs = collect(source)
    settings = settings_of("ance", with_values(ContrastiveOptions()), 32, "cpu")
    encoder = BertModel.from_pretrained(tiny_model)
    method = build_method("ance", source.method_options, settings, "mean", encoder)
    seen = []
    monkeypatch.setattr(method, "loss", lambda vectors, _: seen.append(vectors) or torch.zeros(()))

    rows = inputs.rows["ance"]
    method(rows.batch([4, 0]))
    assert seen[0].hard_negatives is None, "nothing is searched before the first epoch"
    assert seen[0].texts == (PAIRS[4], PAIRS[0])

    inputs.renewal.renew(1, [[2, 1], [0, 4], [3, 4], [1, 2], [0, 3]])
    method.eval()
    method(rows.batch([4, 0]))
    vectors = seen[1]
    assert vectors.texts[0] == (*PAIRS[4], "a doctor", "doctor")
    assert vectors.texts[1] == (*PAIRS[0], "two tall men", "a girl")
    # The first negative of both, then the second one of both.
    texts = ["a doctor", "two tall men", "doctor", "a girl"]
    expected = method.vectors(encoder, *tokens(texts, source))
    torch.testing.assert_close(vectors.hard_negatives, expected, atol=1e-5, rtol=0)
    # Those of "the hotel" say the same as "the doctor", which must not be pushed from them.
    assert vectors.same_hard.tolist() == [[False] * 4, [True, False, False, False]]
    # The plugin's own loss has both of them among its candidates.
    own = METHODS["ance"].loss
    without = replace_negatives(vectors)
    assert own(vectors, source.method_options) > own(without, source.method_options)


def replace_negatives(vectors):
    return vectors._replace(hard_negatives=None, same_hard=None)


def tokens(texts: list[str], source: Source) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask of single sentences."""
    sentences = [Example("", text, None, None) for text in texts]
    batch = source.encode(sentences).batch(range(len(texts)))
    return batch.input_ids, batch.attention_mask
