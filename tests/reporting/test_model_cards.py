"""minbert/reporting/model_cards.py: a README.md that the hub's own reader understands."""

import pytest
from huggingface_hub import ModelCard

from minbert.reporting.model_cards import CardMetadata, CardScore, render_card
from minbert.reporting.pages import Section

SCORES = (
    CardScore("text-classification", "SST", "validation", "accuracy", "accuracy", 0.5),
    CardScore("text-classification", "SST", "test", "accuracy", "accuracy", 0.25),
    CardScore("sentence-similarity", "STS", "validation", "pearsonr", "Pearson", -0.125),
)


def read(metadata: CardMetadata) -> ModelCard:
    """The card as the hub's library reads it."""
    return ModelCard(render_card(metadata, "name", [Section("Model", "Text.", level=2)]))


def test_the_hub_reads_the_metadata():
    card = read(
        CardMetadata(
            name="mine",
            tags=("bert", "simcse", "bert"),
            language=("en",),
            license="mit",
            base_model="minbert-mini",
            datasets=("minbert-sample",),
            pipeline="text-classification",
            scores=SCORES,
        )
    )
    data = card.data
    assert (data.language, data.license, data.library_name) == (["en"], "mit", "minbert")
    assert (data.base_model, data.datasets) == ("minbert-mini", ["minbert-sample"])
    assert (data.tags, data.metrics) == (["bert", "simcse"], ["accuracy", "pearsonr"])
    assert data.pipeline_tag == "text-classification" and data.model_name == "mine"
    scores = []
    for result in data.eval_results:
        names = (result.task_type, result.dataset_name, result.dataset_split)
        scores.append(
            CardScore(*names, result.metric_type, result.metric_name, result.metric_value)
        )
    assert sorted(scores) == sorted(SCORES)
    assert card.text.strip() == "# name\n\n## Model\n\nText."


def test_what_is_not_known_is_left_out():
    card = read(CardMetadata(name="mine", tags=("bert",)))
    assert str(card.data) == "library_name: minbert\ntags:\n- bert"


@pytest.mark.parametrize("name", ["a: b", "- x\n---\n", "yes", "1e3", "\x1b[0m", "#", "''"])
def test_any_text_comes_back_from_the_metadata(name):
    card = read(CardMetadata(name=name, tags=(name,), scores=SCORES[:1]))
    assert card.data.tags == [name] and card.data.model_name == name
    assert "# name" in card.text
