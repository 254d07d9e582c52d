"""The work of `python -m contrastive.quality`: opens the encoder, measures, writes the files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contrastive.embedder import Embedder, open_embedder
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
from contrastive.quality.word_mean import Measured, WordMean
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
    embedder: Measured
    if words is None:
        embedder = open_encoder(request)
        record = measure(request, sets, transfer, embedder, log=terminal.say)
    else:
        embedder = WordMean(words)
        coverage = words.coverage(texts_in(sets, transfer, others))
        terminal.say(coverage.summary)
        record = measure(request, sets, transfer, embedder, log=terminal.say)
        record["word_vectors"] = coverage.record | {"file": words.summary}
    record |= measure_others(request, others, embedder, log=terminal.say)

    terminal.doing("writing the report")
    title = f"{TITLE_START}{request.model}"
    sections = all_sections(record)
    # Written before it is printed: a pipe such as `| head` may break.
    paths = write_files(request, record, title, sections)
    terminal.say("", render_text(title, sections), *map(str, paths))


def open_encoder(request: QualityOptions) -> Embedder:
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
    return embedder


def open_map_embedders(request: QualityOptions, embedder: Measured) -> dict[str, Measured]:
    """The encoders to draw maps of, by time: "before" and "after", or "" for only one.

    Raises ValueError if --before cannot be the start of MODEL's training.
    """
    # Word vectors are not trained, so nothing was before.
    if not request.before or isinstance(embedder, WordMean):
        return {"": embedder}

    # Both encoders are read in the same way, even if --pooling is auto.
    before, _ = open_embedder(
        request.before,
        embedder.pooling,
        embedder.max_length,
        request.batch_size,
        request.device,
        embedder.precision,
        is_bound=False,
    )
    num_units = embedder.encoder.config.hidden_size
    num_units_before = before.encoder.config.hidden_size
    if num_units_before != num_units:
        raise ValueError(
            f"--before is {request.before}, of {num_units_before} units, and {request.model} has "
            f"{num_units}; expected is the encoder that its training started from. Pass that, or "
            "drop --before."
        )
    return {"before": before, "after": embedder}


def measure(
    request: QualityOptions,
    sets: Mapping[str, SentenceSet],
    transfer: Mapping[str, SentenceSet],
    embedder: Measured,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Measure all files; returns the record that page.py shows and quality.json keeps.

    It names the code, the versions and the machine that measured, as a run.json does.
    sets, transfer: the files by their names in tables. log: gets a line for each file.
    """
    record: dict[str, Any] = {
        "model": request.model,
        "before": request.before,
        "pooling": embedder.pooling,
        "precision": embedder.precision,
        "max_length": embedder.max_length,
        "seed": request.seed,
        "code": code_version(),
        "versions": library_versions(),
        "machine": describe_machine(device_of(embedder)),
        "sets": {},
        "transfer": {},
    }
    # Before the measurement, so that a damaged file or a wrong --before is reported at once.
    training = None if isinstance(embedder, WordMean) else read_training(request.model)
    if training is not None:
        record["training"] = training
    map_embedders = open_map_embedders(request, embedder) if request.report else {}

    for number, (name, pairs) in enumerate(sets.items()):
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        # Layers cost the most, so only the first set has them.
        with_layers = number == 0 and (request.layers or request.report is not None)
        of_set = measure_set(embedder, pairs, request.range, request.baselines, with_layers)
        record["sets"][name] = of_set
        log(_progress(name, of_set, embedder.max_length, started))
    for name, sentences in transfer.items():
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        of_file = measure_transfer(embedder, sentences, request.folds, request.seed)
        record["transfer"][name] = of_file
        log(_progress(name, of_file, embedder.max_length, started))

    # The map shows pairs of the first set.
    if map_embedders and sets:
        first = next(iter(sets))
        record["map"] = measure_map(map_embedders, first, sets[first])
    return record


def device_of(embedder: Measured) -> str:
    """Where the vectors are computed: the type of a device."""
    if isinstance(embedder, WordMean):
        return "cpu"
    return next(embedder.encoder.parameters()).device.type


def measure_others(
    request: QualityOptions, others: OtherFiles, embedder: Measured, log: Callable[[str], None]
) -> dict[str, Any]:
    """Measure --pairs, --ranking and --senteval; returns their part of the record."""
    pairs = {}
    for name, content in others.pairs.items():
        terminal.doing(f"classifying {name}")
        classified = classify(embedder, content.pairs)
        cosines, labels, groups = classified
        thresholds = None
        if content.dev is not None:
            of_dev = classify(embedder, content.dev)
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
        ranking[name] = rank(embedder, ranked, request.cutoffs)
    senteval = {}
    for task in others.senteval:
        started = time.perf_counter()
        terminal.doing(f"{task.name}: {request.classifier} classifiers on its vectors")
        senteval[task.name] = measure_task(embedder, task, request.classifier, request.folds)
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
