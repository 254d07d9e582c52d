"""A model card: a README.md whose first lines are metadata that the Hugging Face hub reads.

huggingface_hub writes the metadata, so that they are what it expects. pages.py writes the sections
below. templates/model_card.md joins both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from minbert.reporting.pages import (
    Section,
    render_markdown,
    template_environment,
    write_text,
)


class CardScore(NamedTuple):
    """A score for the entry "model-index" of a card.

    task: the hub's name of a kind of task, such as "text-classification". dataset: a name.
    split: "validation" or "test". metric: the hub's name, such as "pearsonr". title: for a reader.
    """

    task: str
    dataset: str
    split: str
    metric: str
    title: str
    value: float


@dataclass(frozen=True)
class CardMetadata:
    """The metadata of a card. What is not known is empty, and then left out.

    base_model, datasets: names on the hub, or such as could be there. language: codes such as "en".
    """

    name: str
    tags: Sequence[str]
    language: Sequence[str] = ()
    license: str = ""
    base_model: str = ""
    datasets: Sequence[str] = ()
    pipeline: str = ""
    scores: Sequence[CardScore] = ()


def render_card(metadata: CardMetadata, title: str, sections: Sequence[Section]) -> str:
    """Write the card as Markdown. All texts are escaped."""
    template = template_environment(is_html=False).get_template("model_card.md")
    return template.render(
        metadata=render_metadata(metadata), body=render_markdown(title, sections)
    )


def render_metadata(metadata: CardMetadata) -> str:
    """The metadata as YAML."""
    # Imported late: the hub's library is needed for nothing else here.
    from huggingface_hub import EvalResult, ModelCardData

    results = []
    for score in metadata.scores:
        results.append(
            EvalResult(
                task_type=score.task,
                dataset_type=score.dataset,
                dataset_name=score.dataset,
                dataset_split=score.split,
                metric_type=score.metric,
                metric_name=score.title,
                metric_value=score.value,
            )
        )
    metrics = [score.metric for score in metadata.scores]
    data = ModelCardData(
        # It is the name of the scores' entry.
        model_name=metadata.name if results else None,
        language=list(metadata.language) or None,
        license=metadata.license or None,
        library_name="minbert",
        base_model=metadata.base_model or None,
        tags=list(dict.fromkeys(metadata.tags)),
        datasets=list(metadata.datasets) or None,
        metrics=list(dict.fromkeys(metrics)) or None,
        pipeline_tag=metadata.pipeline or None,
        eval_results=results or None,
    )
    return data.to_yaml()


def write_card(path: Path, metadata: CardMetadata, title: str, sections: Sequence[Section]) -> None:
    """Write `render_card` to a file, whole or not at all."""
    write_text(path, render_card(metadata, title, sections))
