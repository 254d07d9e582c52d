"""What `minbert trace` shows: the stations of one sentence as sections of a report.

Legend: R rows (1, or 2 where a pair has two rows), T tokens, H hidden, L layers, N heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from data.batching import Batch, EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer, hub
from minbert.commands.hidden import ROOT
from minbert.commands.plugins import load_named
from minbert.reporting.pages import Section, render_text, write_html
from minbert.reporting.tables import Column, Table, heading_and_numbers
from multitask.model import MultitaskBert
from multitask.probabilities import probabilities, votes_by_class
from multitask.saved_run import can_answer, open_model, read_record
from multitask.task_models import SHARED_FOLDER, TaskModels
from multitask.user_rows import BUNDLED_RUN
from teaching.comparing import compare
from teaching.options import TraceOptions
from teaching.stations import Station, line_of, record, stations_of

NUM_SHOWN = 3  # first numbers of a tensor


@dataclass(frozen=True)
class Opened:
    """A model, and the row that it reads."""

    weights: Path  # the folder of the encoder
    encoder: BertModel
    tokenizer: BertTokenizer
    batch: Batch
    tokens: list[list[str]]  # of each row, with padding
    tasks: dict[str, MultitaskBert]  # the models of the tasks that read such rows


def open_options(options: TraceOptions) -> Opened:
    """Open the model of a command line, and encode its texts. ValueError for a text too long."""
    load_named(options.plugin)
    folder = Path(options.model or BUNDLED_RUN)
    tasks: dict[str, MultitaskBert] = {}
    encoding = "cross"
    if (folder / "run.json").is_file():
        run = read_record(folder)
        model, tokenizer = open_model(run, "cpu")
        for name, task in run.tasks.items():
            if task.is_pair == (options.pair is not None) and can_answer(run, name):
                tasks[name] = model.of(name) if isinstance(model, TaskModels) else model
        shared = model.shared if isinstance(model, TaskModels) else model
        encoder = shared.eval().encoder
        weights = folder / SHARED_FOLDER
        encoding = model.pair_encoding
        max_length = run.options.data.max_length
    else:
        weights = hub.resolve(str(folder))
        encoder = BertModel.from_pretrained(weights, attention_implementation="eager").eval()
        tokenizer = BertTokenizer.from_pretrained(weights)
        max_length = encoder.config.num_positions

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
    arguments = encoder_arguments(opened.batch)
    if options.against is not None:
        row = {key: value[:1] for key, value in arguments.items()}
        # Two readers of one model: ours and that of transformers.
        has_model = options.model is None and (options.against / "config.json").is_file()
        weights = options.against if has_model else opened.weights
        return compare(options.against, weights, row)

    is_page = options.page is not None
    kept = record(opened.encoder, arguments).tensors
    batches = {"answer": opened.batch}
    sections = []
    if options.hide is not None:
        hidden = hide(options.hide, opened)
        batches[f"without {options.hide}"] = hidden
        after = record(opened.encoder, encoder_arguments(hidden)).tensors
        sections.append(change_section(options.hide, opened, kept, after))
    if opened.tasks:
        sections.insert(0, prediction_section(opened.tasks, batches))
    sections += [
        pieces_section(opened),
        *attention_sections(opened, kept),
        stream_section(opened, kept),
        stations_section(opened, kept, is_page),
    ]
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
        words = opened.tokenizer.tokenize(text)
        pieces = [opened.tokenizer.convert_tokens_to_ids(word) for word in words]
        for row, ids in enumerate(opened.batch.input_ids.tolist()):
            for start in range(len(ids) - len(pieces) if pieces else 0):
                end = start + len(pieces)
                is_whole = not opened.tokens[row][end].startswith("##")
                if ids[start:end] == pieces and is_whole:
                    mask[row, start:end] = 0
    if torch.equal(mask, opened.batch.attention_mask):
        found = " ".join(opened.tokens[0])
        raise ValueError(f"--hide {word}: the text has no such word. Its pieces are: {found}")
    return replace(opened.batch, attention_mask=mask)


# --- sections -------------------------------------------------------------------------------------


def answer_rows(model: MultitaskBert, task: str, batch: Batch) -> dict[str, str]:
    """What a task says of the batch: each class with its probability, or a number."""
    spec = model.tasks[task]
    with torch.no_grad():
        output = model(task, batch).float().numpy()
    if spec.is_regression:
        return {task: f"{float(output[0]):.2f}"}
    votes = votes_by_class(probabilities(output, spec.is_multilabel))[0]
    rows = {}
    for name, vote in zip(spec.label_names, votes, strict=True):
        rows[f"{task}: {name}"] = f"{vote:.2f}"
    return rows


def prediction_section(tasks: Mapping[str, MultitaskBert], batches: dict[str, Batch]) -> Section:
    """The answers of all tasks, a column for each batch."""
    columns = []
    for batch in batches.values():
        column: dict[str, str] = {}
        for task, model in tasks.items():
            column |= answer_rows(model, task, batch)
        columns.append(column)
    rows = []
    for name in columns[0]:
        rows.append((name, *(column[name] for column in columns)))
    table = Table(heading_and_numbers("task", *batches), tuple(rows))
    return Section("Prediction", "Probabilities of classes, or the number.", table, level=2)


def change_section(
    word: str, opened: Opened, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> Section:
    """How far each token's vector moves when a word is hidden, relative to its length."""
    moves = []
    for old, new in zip(stream_of(before, opened), stream_of(after, opened), strict=True):
        moves.append((new - old).norm(dim=-1) / old.norm(dim=-1))
    table = stream_table(opened, moves)
    shades = []
    for row in table.rows:
        shares = [min(float(move), 1.0) for move in row[1:]]
        shades.append((0.0, *shares))
    prose = "How far each token's vector moves, as a share of its length."
    return Section(f"Without {word}", prose, replace(table, shades=tuple(shades)), level=2)


def pieces_section(opened: Opened) -> Section:
    """The tokens of all rows."""
    titles = ("row", "token", "id", "segment", "mask")
    columns = (Column("piece", "heading"), *(Column(title) for title in titles))
    rows = []
    batch = opened.batch
    for row, tokens in enumerate(opened.tokens):
        for place, token in enumerate(tokens):
            numbers = (batch.input_ids, batch.token_type_ids, batch.attention_mask)
            ids, segment, mask = (str(int(tensor[row, place])) for tensor in numbers)
            rows.append((token, str(row), str(place), ids, segment, mask))
    prose = "The text in pieces. The encoder reads the three numbers on the right."
    return Section("Pieces", prose, Table(columns, tuple(rows)), level=2)


def stations_section(opened: Opened, kept: Mapping[str, Tensor], is_page: bool) -> Section:
    """Each tensor with its file and line, shape, size and first numbers."""
    columns = (
        Column("station", "heading"),
        Column("file and line", "identifier"),
        *(Column(title) for title in ("shape", "root mean square", "largest", "first numbers")),
    )
    rows = []
    for name, station in stations_of(len(opened.encoder.layers)).items():
        # The other layers compute the same with other weights.
        if name in kept and (is_page or not name.startswith("layer ") or "layer 0 " in name):
            rows.append(station_row(name, line_of(station, ROOT), kept[name]))
    for task, model in opened.tasks.items():
        rows += head_rows(task, model, opened.batch)
    prose = "Layer 0 stands for all layers. --page lists every layer." if not is_page else ""
    return Section("Stations", prose, Table(columns, tuple(rows)), level=2)


def head_rows(task: str, model: MultitaskBert, batch: Batch) -> list[tuple[str, ...]]:
    """The sentence vectors of a task, and the output of its head."""
    with torch.no_grad():
        vectors = model.sentence_vectors(batch, model.tasks[task].is_pair)  # (1, H) each
        output = model(task, batch)  # (1, C) or (1,)
    rows = []
    for number, vector in enumerate(vectors):
        station = Station(MultitaskBert.sentence_vectors, "return (pool(")
        rows.append(station_row(f"{task} vector {number}", line_of(station, ROOT), vector))
    station = Station(MultitaskBert.forward, "return self.head_of")
    return [*rows, station_row(f"{task} head", line_of(station, ROOT), output)]


def station_row(name: str, place: str, tensor: Tensor) -> tuple[str, ...]:
    """A tensor in numbers."""
    numbers = tensor.double()
    first = " ".join(f"{float(value):.3g}" for value in numbers.flatten()[:NUM_SHOWN])
    size = float(numbers.square().mean().sqrt())
    shape = " x ".join(map(str, tensor.shape))
    return (name, place, shape, f"{size:.3g}", f"{float(numbers.abs().max()):.3g}", first)


def attention_sections(opened: Opened, kept: Mapping[str, Tensor]) -> list[Section]:
    """For each layer: the token to which each token attends most, by head."""
    prose = "For each token and head: the token that gets most of its attention, and how much."
    sections = [Section("Attention", prose, level=2)]
    for layer in range(len(opened.encoder.layers)):
        weights = kept[f"layer {layer} attention"]  # (R, N, T, T)
        rows = []
        shades = []
        for row, place, token in real_tokens(opened):
            strongest = weights[row, :, place].max(dim=-1)
            cells = []
            for value, target in zip(*map(Tensor.tolist, strongest), strict=True):
                cells.append(f"{opened.tokens[row][target]} {value:.2f}")
            rows.append((token, *cells))
            shades.append((0.0, *strongest.values.tolist()))
        columns = [Column(f"head {head}", "words") for head in range(weights.size(1))]
        table = Table((Column("token", "heading"), *columns), tuple(rows), tuple(shades))
        sections.append(Section(f"Attention of layer {layer}", "", table))
    return sections


def real_tokens(opened: Opened) -> list[tuple[int, int, str]]:
    """Row, place and text of each token that is no padding."""
    found = []
    for row, tokens in enumerate(opened.tokens):
        for place, token in enumerate(tokens):
            if opened.batch.attention_mask[row, place]:
                found.append((row, place, token))
    return found


def stream_of(kept: Mapping[str, Tensor], opened: Opened) -> list[Tensor]:
    """The L + 1 hidden states (R, T, H)."""
    num_layers = len(opened.encoder.layers)
    return [kept["embeddings"], *(kept[f"layer {i} output"] for i in range(num_layers))]


def stream_table(opened: Opened, numbers: Sequence[Tensor]) -> Table:
    """A row for each token, with a number (R, T) of each of the L + 1 hidden states."""
    layers = [f"layer {number}" for number in range(len(opened.encoder.layers))]
    rows = []
    for row, place, token in real_tokens(opened):
        rows.append((token, *(f"{float(values[row, place]):.2f}" for values in numbers)))
    return Table(heading_and_numbers("token", "embeddings", *layers), tuple(rows))


def stream_section(opened: Opened, kept: Mapping[str, Tensor]) -> Section:
    """The length of each token's vector after the embeddings and after each layer."""
    lengths = [state.norm(dim=-1) for state in stream_of(kept, opened)]
    prose = "The length (L2 norm) of each token's vector on its way up."
    return Section("The stream", prose, stream_table(opened, lengths), level=2)
