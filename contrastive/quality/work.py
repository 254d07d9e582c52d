"""The work of `python -m contrastive.quality`: opens the encoder, measures, writes the files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contrastive.embedder import open_embedder
from contrastive.quality.files import OtherFiles, texts_in
from contrastive.quality.measurement import measure_set, measure_transfer
from contrastive.quality.options import TITLE_START, QualityOptions
from contrastive.quality.page import all_sections
from contrastive.quality.pair_map import measure_map
from contrastive.quality.senteval import measure_task
from contrastive.quality.tasks import (
    best_thresholds,
    classification_errors,
    classification_scores,
    classify,
    rank,
)
from contrastive.quality.training_history import read_training
from contrastive.quality.vector_sources import EncoderVectors, VectorSource, WordMean
from contrastive.quality.word_vectors import WordVectors
from data.sentence_sets import SentenceSet
from minbert.commands.files import write_json
from minbert.reporting import terminal
from minbert.reporting.pages import Section, render_text, write_html, write_markdown
from minbert.training import runtime
from minbert.training.code_version import code_version
from minbert.training.run_folder import describe_machine, library_versions


def report(
    request: QualityOptions,
    sets: Mapping[str, SentenceSet],
    transfer: Mapping[str, SentenceSet],
    others: OtherFiles,
    words: WordVectors | None,
) -> None:
    """Measure the encoder on all files, write and print the report.

    sets, transfer, others: the files by their names in tables. words: word vectors whose mean is
    measured in place of an encoder's vectors.
    """
    runtime.settle_memory()
    source: VectorSource
    if words is None:
        source = open_encoder(request)
    else:
        source = WordMean(words, words.coverage(texts_in(sets, transfer, others)))
        terminal.say(source.coverage.summary)
    record = measure(request, sets, transfer, source, log=terminal.say)
    record |= measure_others(request, others, source, log=terminal.say)

    terminal.doing("writing the report")
    title = f"{TITLE_START}{request.model}"
    sections = all_sections(record)
    # Written before it is printed: a pipe such as `| head` may break.
    paths = write_files(request, record, title, sections)
    terminal.say("", render_text(title, sections), *map(str, paths))


def open_encoder(request: QualityOptions) -> EncoderVectors:
    """Open the encoder that is measured."""
    embedder, notes = open_embedder(
        request.model,
        request.pooling,
        request.max_length,
        request.batch_size,
        request.device,
        request.precision,
        # Any pooling can be measured, and not only the one the model was trained for.
        is_bound=False,
    )
    terminal.say(*notes)
    return EncoderVectors(embedder, read_training(request.model))


def open_map_sources(request: QualityOptions, source: VectorSource) -> dict[str, VectorSource]:
    """What to draw maps of, by time: "before" and "after", or "" for only one.

    Raises ValueError if --before cannot be the start of MODEL's training.
    """
    if not request.before:
        return {"": source}

    # Both encoders are read in the same way, even if --pooling is auto.
    before, _ = open_embedder(
        request.before,
        source.pooling,
        source.max_length,
        request.batch_size,
        request.device,
        source.precision,
        is_bound=False,
    )
    source_before = EncoderVectors(before)
    if source_before.size != source.size:
        raise ValueError(
            f"--before is {request.before}, of {source_before.size} units, and {request.model} has "
            f"{source.size}; expected is the encoder that its training started from. Pass that, or "
            "drop --before."
        )
    return {"before": source_before, "after": source}


def measure(
    request: QualityOptions,
    sets: Mapping[str, SentenceSet],
    transfer: Mapping[str, SentenceSet],
    source: VectorSource,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Measure all files; returns the record that page.py shows and quality.json keeps.

    It names the code, the versions and the machine that measured, as a run.json does.
    sets, transfer: the files by their names in tables. log: gets a line for each file.
    """
    record: dict[str, Any] = {
        "model": request.model,
        "before": request.before,
        "pooling": source.pooling,
        "precision": source.precision,
        "max_length": source.max_length,
        "seed": request.seed,
        "code": code_version(),
        "versions": library_versions(),
        "machine": describe_machine(source.device),
        "sets": {},
        "transfer": {},
        **source.description,
    }
    # Before the measurement, so that a wrong --before is reported at once.
    map_sources = open_map_sources(request, source) if request.report else {}

    for number, (name, pairs) in enumerate(sets.items()):
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        # Layers cost the most, so only the first set has them.
        with_layers = number == 0 and (request.layers or request.report is not None)
        of_set = measure_set(source, pairs, request.range, request.baselines, with_layers)
        record["sets"][name] = of_set
        log(_progress(name, of_set, source.max_length, started))
    for name, sentences in transfer.items():
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        of_file = measure_transfer(source, sentences, request.folds, request.seed)
        record["transfer"][name] = of_file
        log(_progress(name, of_file, source.max_length, started))

    # The map shows pairs of the first set.
    if map_sources and sets:
        first = next(iter(sets))
        record["map"] = measure_map(map_sources, first, sets[first])
    return record


def measure_others(
    request: QualityOptions, others: OtherFiles, source: VectorSource, log: Callable[[str], None]
) -> dict[str, Any]:
    """Measure --pairs, --ranking and --senteval; returns their part of the record."""
    pairs = {}
    for name, content in others.pairs.items():
        terminal.doing(f"classifying {name}")
        classified = classify(source, content.pairs)
        cosines, labels, groups = classified
        thresholds = None
        if content.dev is not None:
            of_dev = classify(source, content.dev)
            thresholds = best_thresholds(of_dev.cosines, of_dev.labels)
        pairs[name] = {
            "rows": len(labels),
            "groups": int(groups.max()) + 1,
            "positives": int(labels.sum()),
            **({} if thresholds is None else {"thresholds": thresholds._asdict()}),
            **classification_scores(cosines, labels, thresholds),
            "standard_errors": classification_errors(classified, thresholds),
        }
    ranking = {}
    for name, ranked in others.ranking.items():
        terminal.doing(f"ranking {name}")
        ranking[name] = rank(source, ranked, request.cutoffs)
    senteval = {}
    for task in others.senteval:
        started = time.perf_counter()
        terminal.doing(f"{task.name}: {request.classifier} classifiers on its vectors")
        senteval[task.name] = measure_task(source, task, request.classifier, request.folds)
        log(f"{task.name}: {time.perf_counter() - started:.1f} s")
    record = {"pairs": pairs, "ranking": ranking, "senteval": senteval}
    return {name: content for name, content in record.items() if content}


def _progress(name: str, record: Mapping[str, Any], max_length: int | None, started: float) -> str:
    seconds = time.perf_counter() - started
    line = f"{name}: {record['rows']:,} rows in {seconds:.1f} s"
    if record["truncated"]:
        line += f", {record['truncated']} sentences cut at {max_length} tokens"
    return line


def write_files(
    request: QualityOptions, record: dict[str, Any], title: str, sections: Sequence[Section]
) -> list[Path]:
    """Write the files that were asked for; returns their paths."""
    paths = []
    if request.report:
        write_html(request.report, title, sections)
        paths.append(request.report)
    if request.out:
        write_markdown(request.out / "quality.md", title, sections)
        write_json(request.out / "quality.json", record)
        paths += [request.out / "quality.md", request.out / "quality.json"]
    return paths
