"""The answers of `python -m contrastive.embed`: files, and texts to print.

N sentences, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from contrastive.embed.export import GRAPH, TOKENIZER, export, export_graph
from contrastive.embed.options import EmbedOptions
from contrastive.embed.sentences import Sentence
from contrastive.embed.shards import BLOCK_SIZE, Shard
from contrastive.embed.stored_vectors import is_stored, read_vectors, record_of, write_vectors
from contrastive.embedder import Embedder, Neighbours, nearest, open_embedder, pairs_above
from data.user_texts import one_line
from minbert.commands.new_folders import new_folder, reserved
from minbert.reporting import terminal
from minbert.training import processes, runtime

comparing = partial(terminal.track, description="comparing the vectors")


class Query(NamedTuple):
    """The text of --query."""

    vector: Tensor  # (1, H)
    is_cut: bool
    max_length: int


def list_neighbours(
    heading: str, cosines: Tensor, rows: Tensor, sentences: Sequence[Sentence]
) -> str:
    """A heading, then per neighbour its cosine, its id or line, and the sentence."""
    lines = [heading]
    for cosine, row in zip(cosines.tolist(), rows.tolist(), strict=True):
        lines.append(f"  {cosine:7.4f}  {sentences[row]}")
    return "\n".join(lines)


def answer_query(
    request: EmbedOptions, query: Query, sentences: Sequence[Sentence], vectors: Tensor
) -> str:
    """The text that --query prints."""
    assert request.query is not None
    neighbours = nearest(vectors, min(request.top, len(sentences)), query.vector)
    remark = f" (cut to {query.max_length} tokens)" if query.is_cut else ""
    heading = f"query{remark}: {request.query.strip()}"
    return list_neighbours(heading, neighbours.cosines[0], neighbours.rows[0], sentences)


def answer_nearest(neighbours: Neighbours, sentences: Sequence[Sentence]) -> Iterator[str]:
    """The texts that --nearest prints, one per sentence."""
    for row, (cosines, rows) in enumerate(zip(*neighbours, strict=True)):
        yield list_neighbours(str(sentences[row]), cosines, rows, sentences)


def answer_duplicates(
    request: EmbedOptions, sentences: Sequence[Sentence], vectors: Tensor
) -> Iterator[str]:
    """The table that --duplicates prints: a header, then per pair two ids and the cosine."""
    yield "id_1\tid_2\tcosine"
    for pair in pairs_above(vectors, request.threshold, progress=comparing):
        ids = [one_line(sentences[row].id) for row in (pair.first, pair.second)]
        yield f"{ids[0]}\t{ids[1]}\t{pair.cosine:.4f}"


def compute_vectors(
    request: EmbedOptions,
    embedder: Embedder,
    sentences: Sequence[Sentence],
    log: Callable[[str], None],
    name: str = "sentence {}",
) -> Tensor:
    """The vectors (N, H) of the sentences: computed, or read from --vectors.

    name: of a sentence in an error, {} stands for its number.
    """
    texts = [sentence.text for sentence in sentences]
    if request.vectors is not None:
        vectors, check = read_vectors(request.vectors, texts, embedder)
        log(f"vectors: {request.vectors}, {len(vectors):,} rows of {vectors.size(1)}, read")
        log(f"vectors: {check}")
        return vectors
    vectors, num_cut = embedder.encode(texts, name=name)
    log(f"{len(sentences):,} sentences, {num_cut:,} of them cut to {embedder.max_length} tokens")
    return vectors


def check_modules(embedder: Embedder) -> None:
    """Raise ValueError if an export would lose modules of a sentence-transformers folder."""
    if embedder.modules is not None and not embedder.modules.is_plain:
        raise ValueError(
            "--export writes an encoder and its pooling only; this model has further modules, "
            "another pooling, a prompt or truncate_dim, which would be lost. It is a folder of "
            "sentence-transformers already: copy it."
        )


def write_export(
    folder: Path, request: EmbedOptions, embedder: Embedder, log: Callable[[str], None]
) -> None:
    """Write the model to a new folder, with --onnx also as a graph. log: receives the notes."""
    check_modules(embedder)
    is_normalised = request.normalise or embedder.is_normalised
    with reserved(folder), new_folder(folder) as beside:
        export(
            embedder.encoder,
            embedder.tokenizer,
            beside,
            embedder.pooling,
            embedder.max_length,
            is_normalised,
        )
        if request.onnx:
            difference = export_graph(embedder, beside, is_normalised)
    log(f"export: {folder}")
    if request.onnx:
        log(f"graph: {folder / GRAPH}, largest difference from torch {difference:.1e}")
        log(f"its tokenizer, which needs no transformers: {folder / TOKENIZER}")
        if embedder.tokenizer.splits_special_tokens:
            log("this file cannot hold one setting: set tokenizer.encode_special_tokens = True")


def write_shard(
    request: EmbedOptions,
    shard: Shard,
    embedder: Embedder,
    sentences: Sequence[Sentence],
    log: Callable[[str], None],
) -> None:
    """Write the vectors of a shard, unless its file holds them. log: receives the notes."""
    path = request.vector_file
    assert path is not None
    rows = shard.rows(len(sentences))
    log(f"shard {shard}: sentences {rows.start + 1:,} to {rows.stop:,} of {len(sentences):,}")
    sentences_of_shard = sentences[rows.start : rows.stop]
    record = {
        **record_of([sentence.text for sentence in sentences_of_shard], embedder),
        "shard": str(shard),
        "precision": embedder.precision,
        "normalised": request.normalise,
    }
    if processes.from_first(lambda: is_stored(path, record, request.overwrite)):
        log(f"vectors: {path} is complete already")
        processes.leave()
        return
    vectors = compute_vectors(
        request, embedder, sentences_of_shard, log, f"sentence {{}} of shard {shard}"
    )
    processes.leave()
    write_vectors(path, vectors, request.normalise, record)
    log(f"vectors: {path}, {len(vectors):,} rows of {vectors.size(1)}")


def in_all_processes(sentences: Sequence[Sentence]) -> Sequence[Sentence]:
    """The sentences of the first process. In the others they have numbers in place of ids."""
    # Plain strings are sent much faster than named tuples.
    texts = processes.from_first(lambda: [sentence.text for sentence in sentences])
    if processes.number() == 0:
        return sentences
    return [Sentence(str(row), text) for row, text in enumerate(texts, start=1)]


def answers(
    request: EmbedOptions, sentences: Sequence[Sentence], log: Callable[[str], None]
) -> Iterator[str]:
    """Write all files, then yield the texts to print. log: receives the notes."""
    runtime.settle_memory()
    # Of several processes the first one has read the sentences. All encode them.
    processes.join_helpers(request.device)
    sentences = in_all_processes(sentences)
    embedder, notes = open_embedder(
        request.model,
        request.pooling,
        request.max_length,
        request.batch_size,
        request.device,
        request.precision,
    )
    log("\n".join(notes))

    shares_batches = processes.count() > 1
    embedder = replace(embedder, block_size=BLOCK_SIZE, shares_batches=shares_batches)
    if shares_batches:
        processes.check_agreement(embedder.identity())
    if request.part is not None:
        write_shard(request, request.part, embedder, sentences, log)
        return

    # The export needs no sentences.
    if request.export is not None and processes.number() == 0:
        write_export(request.export, request, embedder, log)
    if not sentences:
        processes.leave()
        return

    # A bad query is refused before the sentences are encoded, which may take long.
    query = None
    if request.query is not None:
        vector, num_cut = embedder.encode([request.query], name="--query")
        query = Query(vector, num_cut > 0, embedder.max_length)
    terminal.doing("reading the sentences")
    vectors = compute_vectors(request, embedder, sentences, log)
    processes.leave()  # of several processes the first one goes on alone

    # Files first: whoever stops the printing keeps them.
    if request.out is not None:
        path = None if request.writes_to_stream else request.out
        record = record_of([sentence.text for sentence in sentences], embedder)
        write_vectors(path, vectors, request.normalise, record)
        log(f"vectors: {request.out}, {len(vectors):,} rows of {vectors.size(1)}")
    if query is not None:
        yield answer_query(request, query, sentences, vectors)
    if request.nearest is not None:
        neighbours = nearest(vectors, request.nearest, progress=comparing)
        yield from answer_nearest(neighbours, sentences)
    if request.duplicates:
        yield from answer_duplicates(request, sentences, vectors)
