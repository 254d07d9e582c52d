"""The files of --pairs, --ranking and --senteval, read before torch is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from contrastive.quality.options import QualityOptions, by_name
from data.ranking_sets import RankingSet, read_ranking
from data.sentence_sets import SentenceSet
from data.senteval import TransferTask, read_task
from data.training_texts import TrainingText, read_training_text


class PairFiles(NamedTuple):
    """Labelled pairs, and those on which their threshold is found, if there are any."""

    pairs: TrainingText
    dev: TrainingText | None


class OtherFiles(NamedTuple):
    """What is measured beside --sets and --transfer, by the names in tables."""

    pairs: Mapping[str, PairFiles]
    ranking: Mapping[str, RankingSet]
    senteval: list[TransferTask]

    @property
    def summaries(self) -> list[str]:
        """A line for the user on each file."""
        lines = []
        for files in self.pairs.values():
            lines += [text.summary for text in files if text is not None]
        lines += [ranking.summary for ranking in self.ranking.values()]
        for task in self.senteval:
            counts = [f"{len(rows.labels):,} {part}" for part, rows in task.parts.items()]
            labels = f"{task.classes} classes" if task.classes else "with scores"
            lines.append(f"{task.name}: {', '.join(counts)} rows, {labels}")
        return lines


def read_others(request: QualityOptions) -> OtherFiles:
    """Read all of these files. ValueError says what cannot be used."""
    pairs = {}
    for number, (name, path) in enumerate(by_name(request.pairs).items()):
        dev = None
        if request.pairs_dev:
            dev = read_classes(request.pairs_dev[number], request.rows)
        pairs[name] = PairFiles(read_classes(path, request.rows), dev)
    ranking = {name: read_ranking(path) for name, path in by_name(request.ranking).items()}
    senteval = []
    if request.senteval is not None:
        senteval = [read_task(request.senteval, name) for name in request.task_names]
    return OtherFiles(pairs, ranking, senteval)


def texts_in(
    sets: Mapping[str, SentenceSet], transfer: Mapping[str, SentenceSet], others: OtherFiles
) -> Iterator[str]:
    """All sentences of all files, in their order."""
    for content in (*sets.values(), *transfer.values()):
        for example in content.examples:
            yield from example.texts
    for files in others.pairs.values():
        for text in files:
            yield from flat(text.rows if text is not None else [])
    for ranking in others.ranking.values():
        for question in ranking.questions:
            yield question.text
            yield from question.candidates
    for task in others.senteval:
        for rows in task.parts.values():
            yield from flat(rows.texts)


def flat(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The texts of rows, one by one."""
    for row in rows:
        yield from row


def read_classes(path: Path, limit: int) -> TrainingText:
    """Pairs labelled 0 or 1, and some of each. ValueError for any other file.

    limit: rows at most, evenly spaced; 0 for all.
    """
    text = read_training_text(path, limit)
    if text.kind != "pairs" or text.labels is None or set(text.labels) != {0.0, 1.0}:
        held = f"{text.kind} without labels" if text.labels is None else "other labels"
        raise ValueError(
            f"{path}: it holds {held}; expected are pairs labelled 0 and 1, some of each: columns "
            "sentence1, sentence2 and label."
        )
    return text
