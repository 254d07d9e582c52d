"""From the records of measurement.py and pair_map.py to the sections of a report.

Tables, a heat map of the layers, cosines by label, and maps of pairs. Only this file and
training_history.py round numbers. minbert/reporting/pages.py writes the sections.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from contrastive.quality.training_history import training_sections
from minbert.reporting.differences import Estimate
from minbert.reporting.figures import BoxPlot, Figure, PairMap, StackedHistograms
from minbert.reporting.pages import Section
from minbert.reporting.tables import NO_VALUE, Column, Table, heading_and_numbers, number_text

Record = Mapping[str, Any]

CONVENTIONS = ("all", "mean of subsets", "weighted mean")

ABOUT_SETS = (
    "Spearman's correlation over all rows (\"all\"). The first row is the encoder's own vector, "
    "pooling {pooling}. Precision {precision}, sentences cut at {max_length} tokens."
)
ABOUT_MEANS = 'Spearman\'s correlation over all rows ("all"). The first row is the mean of words.'
ABOUT_WORDS = (
    "A sentence vector is the mean of the vectors of its words. A word between spaces counts as "
    "the file has it, or else in small letters. If the file has neither, the word is split at its "
    "punctuation, and its parts count likewise. {file}. Words without a vector, which are "
    "left out: {unknown:,} of {words:,}, in {sentences:,} different sentences. Sentences without a "
    "known word, whose vector is zero: {without:,}."
)
ABOUT_CHANCE = (
    "Chance in the rows alone moves the numbers of the first row by {widths}. That is half of a "
    "95 % interval."
)
ABOUT_BASELINES = (
    "Whitened vectors (Su et al. 2021; Huang et al. 2021) are without the mean and the covariance "
    "of the set's own sentences. They use no label, but they use the set itself. WK is the pooling "
    "of Wang and Kuo 2020. The first-last mean averages the outputs of the first and the last "
    "layer, and the last-two mean those of the last two."
)
ABOUT_CORRELATIONS = (
    "The zero-shot score compares the cosine of a pair's two vectors with its label. No label was "
    'used. "all" is one correlation over all rows of a set. "mean of subsets" is the mean of the '
    'correlations of its subsets. "weighted mean" weights that mean by their rows. Papers use all '
    "three, so compare like with like. STS12 to 16 and STS-B share pairs: a model that was trained "
    "on STS labels has seen some of them."
)
ABOUT_SPREAD = (
    "Both measures are from Wang and Isola 2020. Alignment is the mean squared distance of the "
    "positive pairs, those with a label in the upper fifth of the scale. It goes from 0 to 4, and "
    "lower is better. Uniformity is 0 if all vectors are equal, and about -4 if they fill the "
    "sphere. One alone says little: equal vectors have an alignment of 0."
)
ABOUT_BUCKETS = (
    "The cosines by label, in 20 buckets over the scale. The whisker goes from 5 to 95 % of a "
    "bucket's cosines, the box holds the middle half, and the line is the median. If the boxes of "
    "two buckets overlap, the cosine does not tell their pairs apart. If even the lowest label has "
    "high cosines, all vectors lie in a cone. The histograms show the cosines of each fifth of the "
    "label scale, all to one scale."
)
ABOUT_LAYERS = (
    "Spearman's correlation over all rows for every hidden state and three poolings (Kim et al. "
    "2021, figure 1; Carlsson et al. 2021, figure 1, for the mean). State 0 is the embeddings. "
    "There [CLS] is the same in every sentence, so its correlation is 0. A deeper colour is a "
    "higher number. Choosing the best cell by these labels makes its number a little too high."
)
ABOUT_MAP = (
    "Each sentence of {set} is a point, and a line joins the two sentences of a pair. Positive "
    "pairs have the highest labels, {high}. Negative pairs have the lowest labels, {low}. Of equal "
    "labels, rows at even distances in the file were chosen. t-SNE keeps neighbours together. Only "
    "neighbourhood has a meaning: distances between clusters and their sizes mean little, and two "
    "maps share no scale. Good vectors join positive pairs by short lines and negative pairs by "
    'long lines. The table is about the vectors and not about the map. "nearest" counts the '
    "sentences whose partner has the nearest vector, of all sentences shown here. {before}"
)
ABOUT_TRANSFER = (
    "A logistic regression classifies the frozen vectors, by cross-validation: it is fitted on all "
    "folds but one, and classifies that one. ± is the standard deviation over the folds. The "
    "majority is the share of the most common class. The encoder is not trained here."
)
ABOUT_PAIRS = (
    "A pair counts as positive if the cosine of its two vectors reaches a threshold. The threshold "
    "of the accuracy and that of F1 are the best ones of other pairs (--pairs-dev). The average "
    "precision needs no threshold. Positives is the share of positive pairs."
)
ABOUT_RANKING = (
    "The answers of a question are ranked by their cosine with it. MAP is the mean of the average "
    "precision, and MRR that of 1 / the rank of the first right answer. P@k is the share of right "
    "ones among the first k answers, and nDCG@k looks at the first k answers. Questions without a "
    "right answer, or with only right ones, are left out, as usual: {left_out}."
)
ABOUT_SENTEVAL = (
    "The transfer tasks of SentEval (Conneau and Kiela 2018) by its protocol: a classifier on the "
    "frozen vectors, whose strength is chosen on held-out rows. Accuracy is that of the test rows, "
    "or of MR, CR, SUBJ and MPQA the mean over the folds. Of pairs, the features are |u - v| and "
    "u * v. Classifier: {classifier}. Folds: {folds}."
)
ABOUT_RELATEDNESS = (
    "The tasks of SentEval whose labels are scores. A linear layer on |u - v| and u * v gives a "
    "distribution over 1 to 5, and its mean is the prediction (Tai, Socher and Manning 2015). The "
    "numbers are those of the test pairs. MSE is the mean squared error."
)
NO_BEFORE = "--before MODEL adds a map of the encoder before training."
NO_CORRELATION = (
    "{count} with fewer than three rows, or with only one label, have no correlation. The means "
    "are without them."
)


def all_sections(record: Record) -> list[Section]:
    """Every chapter for which the command's record has numbers."""
    sections = []
    if "word_vectors" in record:
        words = ABOUT_WORDS.format(**record["word_vectors"])
        sections.append(Section("Word vectors", words, level=2))
    if record["sets"]:
        sections += set_sections(record)
    if "map" in record:
        sections.append(map_section(record["map"], record["before"]))
    if "training" in record:
        sections += training_sections(record["training"])
    if record["transfer"]:
        sections.append(transfer_section(record["transfer"]))
    if "pairs" in record:
        sections.append(pairs_section(record["pairs"]))
    if "ranking" in record:
        sections.append(ranking_section(record["ranking"]))
    if "senteval" in record:
        sections += senteval_sections(record["senteval"])
    return sections


def set_sections(record: Record) -> list[Section]:
    """The chapters on the STS sets."""
    sets = record["sets"]
    sections = [
        overview_section(record),
        *correlation_sections(sets),
        *subset_sections(sets),
        spread_section(sets),
        Section("Cosines by label", ABOUT_BUCKETS, level=2),
        *(bucket_section(name, of_set) for name, of_set in sets.items()),
    ]
    for name, of_set in sets.items():
        if "layers" in of_set:
            sections.append(layer_section(name, of_set["layers"]))
    return sections


def overview_section(record: Record) -> Section:
    """Spearman over all rows: a row for each kind of vector, a column for each set."""
    sets = record["sets"]
    # A dict keeps the order of its keys, and a set does not.
    vector_names: dict[str, None] = {}
    for of_set in sets.values():
        vector_names |= dict.fromkeys(of_set["vectors"])

    has_average = len(sets) > 1
    rows = []
    for vector in vector_names:
        values = [_spearman(of_set, vector) for of_set in sets.values()]
        cells = [number_text(value) for value in values]
        if has_average:
            cells.append(number_text(_mean(values)))
        rows.append((vector, *cells))

    # The prose names the kinds of vectors, and those that could not be measured.
    titles = [*sets, "average"] if has_average else list(sets)
    about = ABOUT_MEANS if "word_vectors" in record else ABOUT_SETS
    sentences = [about.format(**record), ABOUT_CHANCE.format(widths=_widths(sets))]
    if len(vector_names) > 1:
        sentences.append(ABOUT_BASELINES)
    for name, of_set in sets.items():
        for vector, reason in of_set["left_out"].items():
            sentences.append(f"{name}: no {vector} ({reason}).")
    table = Table(heading_and_numbers("sentence vector", *titles), tuple(rows))
    return Section("Sets", " ".join(sentences), table, level=2)


def _widths(sets: Record) -> str:
    """How far the interval of the encoder's own correlation reaches to one side, set by set."""
    widths = []
    for name, of_set in sets.items():
        first = next(iter(of_set["vectors"].values()))
        error = first["standard_errors"]["spearman"]
        low, high = Estimate(0.0, error**2, of_set["groups"]).interval
        widths.append(f"± {(high - low) / 2:.3f} ({name})")
    return ", ".join(widths)


def _spearman(of_set: Record, vector: str) -> float | None:
    scores = of_set["vectors"].get(vector)
    return None if scores is None else scores["all"]["spearman"]


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, or None if a value is missing."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if len(present) == len(values) else None


def correlation_sections(sets: Record) -> list[Section]:
    """Both correlations under each convention, for each set and kind of vector."""
    # A set without subsets has only the convention "all".
    measured: set[str] = set()
    for of_set in sets.values():
        for scores in of_set["vectors"].values():
            measured.update(scores)
    conventions = [name for name in CONVENTIONS if name in measured]

    sections = [Section("Correlations", ABOUT_CORRELATIONS, level=2)]
    for title in ("Spearman", "Pearson"):
        rows = []
        for name, of_set in sets.items():
            for vector, scores in of_set["vectors"].items():
                cells = []
                for convention in conventions:
                    value = scores.get(convention, {}).get(title.lower())
                    cells.append(number_text(value))
                rows.append((name, vector, f"{of_set['rows']:,}", *cells))
        table = Table(_set_columns("rows", *conventions), tuple(rows))
        sections.append(Section(title, body=table))
    return sections


def _set_columns(*titles: str) -> tuple[Column, ...]:
    """The columns of a table with a row for each set and kind of vector."""
    name = Column("set", "heading")
    vector = Column("sentence vector", "words")
    return (name, vector, *(Column(title) for title in titles))


def subset_sections(sets: Record) -> list[Section]:
    """The correlations within each subset, of the encoder's own vector, for sets with subsets."""
    sections = []
    for name, of_set in sets.items():
        vector = next(iter(of_set["vectors"]))
        subsets = of_set["vectors"][vector]["subsets"]
        if not subsets:
            continue
        # A subset without a correlation keeps its line.
        rows = []
        for subset, scores in subsets.items():
            cells = [NO_VALUE] * 3
            if scores:
                spearman = number_text(scores["spearman"])
                cells = [f"{scores['rows']:,}", spearman, number_text(scores["pearson"])]
            rows.append((subset, *cells))

        prose = f"Sentence vector: {vector}."
        num_without = sum(scores is None for scores in subsets.values())
        if num_without:
            prose += " " + NO_CORRELATION.format(count=num_without)
        columns = heading_and_numbers("subset", "rows", "Spearman", "Pearson")
        sections.append(Section(f"{name} by subset", prose, Table(columns, tuple(rows))))
    return sections


def spread_section(sets: Record) -> Section:
    """Alignment and uniformity, for each set and kind of vector."""
    rows = []
    for name, of_set in sets.items():
        positives = f"{of_set['positives']:,} above {of_set['positive_above']:g}"
        sentences = f"{of_set['sentences']:,}"
        for vector, scores in of_set["vectors"].items():
            alignment = number_text(scores["alignment"])
            uniformity = number_text(scores["uniformity"])
            rows.append((name, vector, alignment, positives, uniformity, sentences))
    columns = _set_columns("alignment", "positive pairs", "uniformity", "different sentences")
    table = Table(columns, tuple(rows))
    return Section("Alignment and uniformity", ABOUT_SPREAD, table, level=2)


# --- cosines by label ---------------------------------------------------------------------------


def bucket_section(name: str, of_set: Record) -> Section:
    """The cosines of one set by label, of the encoder's own vector: boxes, histograms, a table."""
    rows = []
    for bucket in of_set["buckets"]:
        quantiles = bucket["quantiles"] or [None] * 5
        numbers = [bucket["mean"], bucket["deviation"], *quantiles]
        cells = [NO_VALUE if value is None else f"{value:.3f}" for value in numbers]
        rows.append((_label_span(bucket), f"{bucket['rows']:,}", *cells))
    columns = heading_and_numbers(
        "label", "rows", "mean", "deviation", "5 %", "25 %", "median", "75 %", "95 %"
    )
    plots = (box_plot(of_set["buckets"]), histograms(of_set["histogram"]))
    prose = f"Sentence vector: {next(iter(of_set['vectors']))}."
    return Section(name, prose, Figure(plots, Table(columns, tuple(rows))))


def box_plot(buckets: Sequence[Record]) -> BoxPlot:
    """The records of `cosine_buckets` as a plot."""
    notes = []
    for bucket in buckets:
        note = ""
        if bucket["quantiles"]:
            _, lower, median, upper, _ = bucket["quantiles"]
            note = (
                f"label {_label_span(bucket)}: {bucket['rows']:,} pairs, median cosine "
                f"{median:.3f}, middle half {lower:.3f} to {upper:.3f}"
            )
        notes.append(note)

    # The axis begins at 0, or at the multiple of 0.2 below the lowest whisker. So sets can be
    # compared by eye.
    whiskers = [bucket["quantiles"][0] for bucket in buckets if bucket["quantiles"]]
    lowest = min(0.0, math.floor(min(whiskers) * 5) / 5)
    edges = [*(bucket["low"] for bucket in buckets), buckets[-1]["high"]]
    return BoxPlot(
        edges,
        [bucket["quantiles"] for bucket in buckets],
        x_limits=(edges[0], edges[-1]),
        y_limits=(lowest, 1.0),
        x_label="label",
        y_label="cosine",
        notes=notes,
    )


def _label_span(bucket: Record) -> str:
    return f"{bucket['low']:.4g} to {bucket['high']:.4g}"


def histograms(record: Record) -> StackedHistograms:
    """The record of `cosine_histogram` as a plot."""
    bands = record["bands"]
    edges = record["edges"]
    notes = []
    for (low, high), num_rows, shares in zip(
        itertools.pairwise(bands), record["rows"], record["shares"], strict=True
    ):
        note = ""
        if num_rows:
            highest = shares.index(max(shares))
            note = (
                f"label {low:g} to {high:g}: {num_rows:,} pairs, most often a cosine of "
                f"{edges[highest]:.2f} to {edges[highest + 1]:.2f}"
            )
        notes.append(note)
    lowest = math.floor(edges[0] * 5) / 5
    return StackedHistograms(
        edges,
        bands,
        record["shares"],
        x_limits=(lowest, 1.0),
        x_label="cosine",
        y_label="label",
        notes=notes,
    )


# --- layers, map, transfer ----------------------------------------------------------------------


def layer_section(name: str, layers: Mapping[str, Sequence[float]]) -> Section:
    """A heat map of the layers: a row for each hidden state, a column for each pooling."""
    low, high = _shade_range(layers)
    rows = []
    shades = []
    for state, values in enumerate(zip(*layers.values(), strict=True)):
        heading = f"{state} (embeddings)" if state == 0 else str(state)
        rows.append((heading, *map(number_text, values)))
        shades.append((0.0, *(_shade(value, low, high) for value in values)))

    # The best cell of the table, by its row and column.
    pooling = max(layers, key=lambda pooling: max(layers[pooling]))
    highest = max(layers[pooling])
    state = layers[pooling].index(highest)
    prose = f"{ABOUT_LAYERS} Highest: state {state}, {pooling}, {number_text(highest)}."
    table = Table(heading_and_numbers("hidden state", *layers), tuple(rows), tuple(shades))
    return Section(f"Layer by pooling, {name}", prose, table, level=2)


def _shade_range(layers: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """The lowest and the highest value, without [CLS] of the embeddings.

    That one is 0 in every model, and would make all others look alike.
    """
    values: list[float] = []
    for pooling, of_pooling in layers.items():
        values += of_pooling[1:] if pooling == "cls" else of_pooling
    return min(values), max(values)


def _shade(value: float, low: float, high: float) -> float:
    """Where the value lies between low and high, 0 to 1. 0 if both are equal."""
    if low == high:
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))


def map_section(record: Record, before: str | None) -> Section:
    """The maps of `measure_map` side by side. before: the name of the first encoder of two."""
    pairs = record["pairs"]
    notes = []
    for pair in pairs:
        notes.append(f"label {pair['label']:g}: {pair['sentence_1']} / {pair['sentence_2']}")
    is_positive = [pair["is_positive"] for pair in pairs]
    plots = []
    for time, of_map in record["maps"].items():
        plots.append(PairMap(time, of_map["points"], is_positive, "t-SNE 1", "t-SNE 2", notes))

    prose = ABOUT_MAP.format(
        set=record["set"],
        high=_span_of_labels(pairs, True),
        low=_span_of_labels(pairs, False),
        before=f"Before is {before}." if before else NO_BEFORE,
    )
    return Section("Map of pairs", prose, Figure(tuple(plots), _map_table(record)), level=2)


def _map_table(record: Record) -> Table:
    """The mean cosines and the nearest neighbours of both kinds of pairs, for each map."""
    maps = record["maps"]
    rows = []
    for number, kind in enumerate(("positive", "negative")):
        is_positive = kind == "positive"
        count = sum(pair["is_positive"] == is_positive for pair in record["pairs"])
        cosines = [f"{of_map['cosine'][number]:.3f}" for of_map in maps.values()]
        # A pair has two sentences.
        nearest = [f"{of_map['beside'][number]} of {2 * count}" for of_map in maps.values()]
        span = _span_of_labels(record["pairs"], is_positive)
        rows.append((kind, str(count), span, *cosines, *nearest))

    times = [f", {time}" if time else "" for time in maps]
    titles = [f"mean cosine{time}" for time in times] + [f"nearest{time}" for time in times]
    return Table(heading_and_numbers("pairs", "number", "labels", *titles), tuple(rows))


def _span_of_labels(pairs: Sequence[Record], is_positive: bool) -> str:
    """The lowest and the highest label of the pairs of one kind."""
    labels = [pair["label"] for pair in pairs if pair["is_positive"] == is_positive]
    low = f"{min(labels):g}"
    high = f"{max(labels):g}"
    return low if low == high else f"{low} to {high}"


def transfer_section(files: Record) -> Section:
    """The accuracies of --transfer, a row for each file."""
    rows = []
    for name, record in files.items():
        counts = (f"{record['rows']:,}", str(len(record["classes"])))
        majority = f"{record['majority']:.3f}"
        accuracy = f"{record['accuracy']:.3f} ± {record['deviation']:.3f}"
        rows.append((name, *counts, majority, accuracy, str(record["folds"])))
    columns = heading_and_numbers("file", "rows", "classes", "majority", "accuracy", "folds")
    return Section("Transfer", ABOUT_TRANSFER, Table(columns, tuple(rows)), level=2)


def pairs_section(files: Record) -> Section:
    """The scores of --pairs, a row for each file."""
    rows = []
    for name, record in files.items():
        share = f"{record['positives'] / record['rows']:.3f}"
        names = ("average_precision", "accuracy", "f1")
        numbers = [number_text(record.get(score)) for score in names]
        rows.append((name, f"{record['rows']:,}", share, *numbers))
    titles = ("rows", "positives", "average precision", "accuracy", "F1")
    table = Table(heading_and_numbers("file", *titles), tuple(rows))
    return Section("Classification by threshold", ABOUT_PAIRS, table, level=2)


def ranking_section(files: Record) -> Section:
    """The scores of --ranking, a row for each file."""
    names = list(next(iter(files.values()))["standard_errors"])
    rows = []
    left_out = []
    for name, record in files.items():
        scores = [number_text(record[score]) for score in names]
        rows.append((name, str(record["questions"]), *scores))
        left_out.append(f"{record['without_right']} and {record['only_right']} questions of {name}")
    table = Table(heading_and_numbers("file", "questions", *names), tuple(rows))
    return Section("Ranking", ABOUT_RANKING.format(left_out=", ".join(left_out)), table, level=2)


def senteval_sections(tasks: Record) -> list[Section]:
    """The tasks of --senteval: those with classes, and those with scores."""
    with_classes = {name: record for name, record in tasks.items() if "accuracy" in record}
    with_scores = {name: record for name, record in tasks.items() if "pearson" in record}
    sections = [accuracy_section(with_classes)] if with_classes else []
    return [*sections, relatedness_section(with_scores)] if with_scores else sections


def relatedness_section(tasks: Record) -> Section:
    """The correlations of --senteval, a row for each task of scores."""
    rows = []
    for name, record in tasks.items():
        numbers = [number_text(record[score]) for score in ("pearson", "spearman", "squared_error")]
        rows.append((name, f"{sum(record['rows'].values()):,}", *numbers))
    table = Table(heading_and_numbers("task", "rows", "Pearson", "Spearman", "MSE"), tuple(rows))
    return Section("SentEval, relatedness", ABOUT_RELATEDNESS, table, level=2)


def accuracy_section(tasks: Record) -> Section:
    """The accuracies of --senteval, a row for each task and the mean."""
    rows = []
    for name, record in tasks.items():
        count = f"{sum(record['rows'].values()):,}"
        rows.append((name, count, number_text(record["accuracy"]), number_text(record.get("f1"))))
    accuracies = [record["accuracy"] for record in tasks.values()]
    if len(rows) > 1:
        rows.append(("mean", NO_VALUE, number_text(_mean(accuracies)), NO_VALUE))
    prose = ABOUT_SENTEVAL.format(**next(iter(tasks.values())))
    table = Table(heading_and_numbers("task", "rows", "accuracy", "F1"), tuple(rows))
    return Section("SentEval", prose, table, level=2)
