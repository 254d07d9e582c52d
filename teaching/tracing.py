"""What `minbert trace` shows: the stations of one sentence as sections of a report.

Legend: R rows (1, or 2 where a pair has two rows), T tokens, H hidden, L layers, N heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from data.batching import Batch, EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer, hub
from minbert.commands.hidden import ROOT
from minbert.reporting.pages import Section, render_text, write_html
from minbert.reporting.tables import Column, Table, heading_and_numbers
from multitask.model import MultitaskBert
from multitask.predictor import Predictor
from multitask.probabilities import probabilities, votes_by_class
from multitask.task_models import SHARED_FOLDER, TaskModels
from multitask.user_rows import BUNDLED_RUN
from teaching.comparing import compare
from teaching.options import TraceOptions
from teaching.stations import Station, line_of, record, stations_of

NUM_SHOWN = 3  # first numbers of a tensor
VECTOR = Station(MultitaskBert.sentence_vectors, "return (pool(")
HEAD = Station(MultitaskBert.forward, "return self.head_of")


class Opened(NamedTuple):
    """A model, and the row that it reads."""

    weights: Path  # the folder of the encoder
    encoder: BertModel
    tokenizer: BertTokenizer
    batch: Batch
    tokens: list[list[str]]  # of each row, with padding
    tasks: dict[str, MultitaskBert]  # the models of the tasks that read such rows


def open_options(options: TraceOptions) -> Opened:
    """Open the model of a command line, and encode its texts. ValueError for a text too long."""
    folder = Path(options.model or BUNDLED_RUN)
    if options.against is not None and (options.against / "config.json").is_file():
        # Two readers of one model: ours and that of transformers.
        folder = Path(options.model or options.against)
    tasks: dict[str, MultitaskBert] = {}
    encoding, max_length = "cross", None
    if (folder / "run.json").is_file():
        run = Predictor(folder, device="cpu", plugin=options.plugin)
        for name in run.tasks:
            if run.record.tasks[name].is_pair == (options.pair is not None):
                tasks[name] = run.model.of(name) if isinstance(run.model, TaskModels) else run.model
        encoding, max_length = run.model.pair_encoding, run.record.options.data.max_length
        weights = folder / SHARED_FOLDER
    else:
        weights = hub.resolve(str(folder))
    encoder = BertModel.from_pretrained(weights, attention_implementation="eager").eval()
    tokenizer = BertTokenizer.from_pretrained(weights)

    max_length = max_length or encoder.config.num_positions
    example = Example("1", options.text, options.pair, None)
    rows = EncodedExamples([example], tokenizer, max_length, encoding)
    if rows.num_truncated:
        raise ValueError(f"the text is longer than {max_length} tokens. Shorten it.")
    batch = rows.batch([0])
    tokens = []
    for ids in batch.input_ids.tolist():
        tokens.append([str(tokenizer.convert_ids_to_tokens(number)) for number in ids])
    return Opened(weights, encoder, tokenizer, batch, tokens, tasks)


def trace(options: TraceOptions) -> str:
    """The text of a command line's report, or the path of its page."""
    opened = open_options(options)
    if options.against is not None:
        row = {key: value[:1] for key, value in encoder_arguments(opened.batch).items()}
        return compare(options.against, opened.weights, opened.encoder, row)

    kept = record(opened.encoder, encoder_arguments(opened.batch)).tensors
    batches = {"answer": opened.batch}
    sections = [
        tokens_section(opened, kept),
        *attention_sections(opened, kept),
        stations_section(opened, kept, is_page=options.page is not None),
    ]
    if options.hide is not None:
        hidden = hide(options.hide, opened)
        batches[f"without {options.hide}"] = hidden
        after = record(opened.encoder, encoder_arguments(hidden)).tensors
        sections.insert(0, change_section(options.hide, opened, kept, after))
    if opened.tasks:
        sections.insert(0, prediction_section(opened.tasks, batches))

    title = " / ".join(text for text in (options.text, options.pair) if text)
    if options.page is None:
        return render_text(title, sections)
    write_html(options.page, title, sections)
    return str(options.page)


def encoder_arguments(batch: Batch) -> dict[str, Tensor]:
    """The arguments of the encoder."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {name: getattr(batch, name) for name in names}


def hide(word: str, opened: Opened) -> Batch:
    """The batch in which no token may attend to a word. ValueError where it does not stand there.

    A word is hidden wherever it stands. Its positions stay empty, so the others keep theirs.
    """
    mask = opened.batch.attention_mask.clone()
    # Byte-level tokenizers write the blank in front into the first piece.
    for text in (word, f" {word}"):
        pieces = opened.tokenizer.tokenize(text)
        for row, tokens in enumerate(opened.tokens):
            for start in range(len(tokens) - len(pieces)):
                end = start + len(pieces)
                if tokens[start:end] == pieces and not tokens[end].startswith("##"):
                    mask[row, start:end] = 0
    if torch.equal(mask, opened.batch.attention_mask):
        found = " ".join(opened.tokens[0])
        raise ValueError(f"--hide {word}: the text has no such word. Its pieces are: {found}")
    return replace(opened.batch, attention_mask=mask)


# --- the answers ----------------------------------------------------------------------------------


def answers_of(model: MultitaskBert, task: str, batch: Batch) -> dict[str, str]:
    """What a task says of the batch: each class with its probability, or a number."""
    spec = model.tasks[task]
    with torch.no_grad():
        output = model(task, batch).float().numpy()
    if spec.is_regression:
        return {task: f"{float(output[0]):.2f}"}
    votes = votes_by_class(probabilities(output, spec.is_multilabel))[0]
    names = [f"{task}: {name}" for name in spec.label_names]
    return dict(zip(names, (f"{vote:.2f}" for vote in votes), strict=True))


def prediction_section(tasks: Mapping[str, MultitaskBert], batches: dict[str, Batch]) -> Section:
    """The answers of all tasks, a column for each batch."""
    rows = []
    for task, model in tasks.items():
        answers = [answers_of(model, task, batch) for batch in batches.values()]
        for name in answers[0]:
            rows.append((name, *(answer[name] for answer in answers)))
    table = Table(heading_and_numbers("task", *batches), tuple(rows))
    return Section("Prediction", "Probabilities of classes, or the number.", table, level=2)


# --- token by token -------------------------------------------------------------------------------


def token_table(
    opened: Opened,
    columns: Mapping[str, Tensor],
    targets: Tensor | None = None,
    is_shaded: bool = False,
) -> Table:
    """A row for each token that is no padding.

    columns: the numbers of the tokens by title, (R, T) each. targets: (columns, R, T), the place of
    a token that stands in front of each number.
    """
    rows = []
    shades = []
    for row, place in opened.batch.attention_mask.nonzero().tolist():
        tokens = opened.tokens[row]
        numbers = [column[row, place].item() for column in columns.values()]
        cells = [f"{n:.2f}" if isinstance(n, float) else str(n) for n in numbers]
        if targets is not None:
            words = [tokens[target] for target in targets[:, row, place].tolist()]
            cells = [f"{word} {cell}" for word, cell in zip(words, cells, strict=True)]
        rows.append((tokens[place], *cells))
        shades.append((0.0, *(min(number, 1.0) for number in numbers)))
    titles = [Column("token", "heading")]
    titles += [Column(title, "number" if targets is None else "words") for title in columns]
    return Table(tuple(titles), tuple(rows), tuple(shades) if is_shaded else ())


def stream_of(kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The vectors of the tokens after the embeddings and after each layer, (R, T, H) each."""
    states = {"embeddings": kept["embeddings"]}
    for name, tensor in kept.items():
        if name.endswith(" output"):
            states[name.removesuffix(" output")] = tensor
    return states


def change_section(
    word: str, opened: Opened, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> Section:
    """How far each token's vector moves when a word is hidden, relative to its length."""
    moves = {}
    states = stream_of(after)
    for name, state in stream_of(before).items():
        moves[name] = (states[name] - state).norm(dim=-1) / state.norm(dim=-1)
    prose = "How far each token's vector moves, as a share of its length."
    table = token_table(opened, moves, is_shaded=True)
    return Section(f"Without {word}", prose, table, level=2)


def tokens_section(opened: Opened, kept: Mapping[str, Tensor]) -> Section:
    """What the encoder reads of each token, and the length of its vector on its way up."""
    batch = opened.batch
    columns = {"id": batch.input_ids, "segment": batch.token_type_ids}
    columns |= {name: state.norm(dim=-1) for name, state in stream_of(kept).items()}
    prose = "What the encoder reads, and the length (L2 norm) of each token's vector on its way up."
    return Section("Tokens", prose, token_table(opened, columns), level=2)


def attention_sections(opened: Opened, kept: Mapping[str, Tensor]) -> list[Section]:
    """For each layer: the token to which each token attends most, by head."""
    prose = "For each token and head: the token that gets most of its attention, and how much."
    sections = [Section("Attention", prose, level=2)]
    for layer in range(len(opened.encoder.layers)):
        weights = kept[f"layer {layer} attention"].transpose(0, 1)  # (N, R, T, T)
        shares, targets = weights.max(dim=-1)  # (N, R, T)
        columns = {f"head {head}": numbers for head, numbers in enumerate(shares)}
        table = token_table(opened, columns, targets, is_shaded=True)
        sections.append(Section(f"Attention of layer {layer}", "", table))
    return sections


# --- station by station ---------------------------------------------------------------------------


def stations_section(opened: Opened, kept: Mapping[str, Tensor], is_page: bool) -> Section:
    """Each tensor with its file and line, shape, size and first numbers."""
    rows = []
    for name, station in stations_of(len(opened.encoder.layers)).items():
        # The other layers compute the same with other weights.
        if name in kept and (is_page or not name.startswith("layer ") or "layer 0 " in name):
            rows.append(station_row(name, station, kept[name]))
    for task, model in opened.tasks.items():
        with torch.no_grad():
            vectors = model.sentence_vectors(opened.batch, model.tasks[task].is_pair)  # (1, H) each
            output = model(task, opened.batch)  # (1, C) or (1,)
        for number, vector in enumerate(vectors):
            rows.append(station_row(f"{task} vector {number}", VECTOR, vector))
        rows.append(station_row(f"{task} head", HEAD, output))
    columns = (
        Column("station", "heading"),
        Column("file and line", "identifier"),
        *(Column(title) for title in ("shape", "root mean square", "largest", "first numbers")),
    )
    prose = "Layer 0 stands for all layers. --page lists every layer." if not is_page else ""
    return Section("Stations", prose, Table(columns, tuple(rows)), level=2)


def station_row(name: str, station: Station, tensor: Tensor) -> tuple[str, ...]:
    """A tensor in numbers."""
    numbers = tensor.double().flatten()
    size = float(numbers.square().mean().sqrt())
    first = " ".join(f"{value:.3g}" for value in numbers[:NUM_SHOWN].tolist())
    shape = " x ".join(map(str, tensor.shape))
    largest = float(numbers.abs().max())
    return (name, line_of(station, ROOT), shape, f"{size:.3g}", f"{largest:.3g}", first)
