"""A record of survey.py -> sections of a report: tables, a heat map of layers, cosines by label, a map, curves.

Pure: numbers in, sections out; minbert/reporting/pages.py renders them. Only this file rounds.
"""

from __future__ import annotations

import math

from minbert.reporting.figures import Boxes, PairMap, Panels, Ridges, Trace, round_ticks
from minbert.reporting.pages import Section
from minbert.reporting.tables import Grid

NOTHING = "–"
CURVE_HEIGHT = 260  # of 460 across
SCORES = {
    "spearman": "Spearman of dev",
    "held_out_loss": "held-out loss of dev",
}  # what a stage is judged by
CONVENTIONS = ("all", "mean of subsets", "weighted mean")
HOW_TO_READ = {
    "correlations": (
        'Zero-shot: the cosine of a pair\'s two vectors against its label; no label was used. "all" is one '
        'correlation over all rows of a set, "mean of subsets" the mean of the correlations of its subsets, '
        '"weighted mean" the same weighted by their rows. Papers use all three, so compare like with like. STS12 to '
        "16 and STS-B share pairs: a model that was trained on STS labels has seen some of them."
    ),
    "spread": (
        "How far apart the vectors of similar pairs are, and whether all vectors fill the sphere or lie in a cone "
        "(Wang and Isola 2020). Alignment is the mean squared distance of pairs labelled in the upper fifth of the "
        "scale, 0 to 4, lower is better; uniformity is 0 where all vectors are equal and about -4 where they fill "
        "the sphere. One alone says little: equal vectors have an alignment of 0."
    ),
    "buckets": (
        "How cosines lie, by label, in 20 buckets over the scale. A whisker goes from 5 to 95 % of a bucket's "
        "cosines, a box holds the middle half, the line is the median. Where the boxes of two buckets overlap, the "
        "cosine does not tell their pairs apart; where even the lowest label has high cosines, all vectors lie in a "
        "cone. Beside them, for each fifth of the label scale, a histogram of its share of cosines, all "
        "of one scale."
    ),
    "layers": (
        "Spearman's correlation over all rows for every hidden state, 0 being the embeddings, and three ways to "
        "make a sentence vector of it (Kim et al. 2021, figure 1; Carlsson et al. 2021, figure 1, for the mean). "
        "Before the first layer [CLS] is the same in every sentence, hence its 0. The deeper the colour, the higher. "
        "Choosing the best cell by these labels makes its number a little high."
    ),
    "map": (
        "Each sentence of {set} is a point, each pair a line: those with the highest labels, {high}, as positive ones, "
        "and those with the lowest, {low}, as negative ones (of equal labels, rows at even distances in the file). "
        "t-SNE puts beside each other what lies beside each other among the vectors. Only who lies beside whom counts: "
        "distances between clusters, their sizes and the numbers on the axes mean little, and two maps share no scale. "
        "Good vectors join positive pairs by short lines and negative ones by long lines. The table is of the vectors, "
        'not of the map: "nearest" counts the sentences whose own partner is the nearest of all others here.'
    ),
    "training": (
        "What stage.json in the model's folder says of how it was trained: scores of the dev pairs that judged it, "
        "which need not be among the files above. {outcome}"
    ),
    "way": (
        "From before training through each evaluation, numbered, to after (as Wang and Isola 2020 and Gao et al. 2021 "
        "draw it). Lower is better on both axes, so that the way to wish for leads down and to the left; mostly one is "
        "paid for with the other."
    ),
    "curves": (
        "The loss is the mean over the steps since the evaluation before; step 0 is before training, and the marked "
        "point is the evaluation whose weights were kept as the stage's best."
    ),
    "transfer": (
        "A logistic regression on the frozen vectors, in folds: each part of the file is classified by what was "
        "fitted on the others. ± is the standard deviation over the folds. The majority column is the share of the "
        "commonest class. The encoder learns nothing here."
    ),
}
WHITENING = (
    "Whitened vectors (Su et al. 2021; Huang et al. 2021) have the mean and the covariance of the set's own "
    "sentences taken out: no label is used, but the set itself is. WK is the pooling of Wang and Kuo 2020; the "
    "first-last mean lies halfway between the first layer's output and the last's."
)


def all_sections(record: dict) -> list[Section]:
    """Every chapter that the record has numbers for, as survey.py makes it."""
    sections = []
    if record["sets"]:
        sections += [
            overview_section(record),
            *correlation_sections(record["sets"]),
            *subset_sections(record["sets"]),
            spread_section(record["sets"]),
        ]
        sections += [Section("Cosines by label", HOW_TO_READ["buckets"], level=2)]
        sections += [bucket_section(name, found) for name, found in record["sets"].items()]
        sections += [
            layer_section(name, found["layers"])
            for name, found in record["sets"].items()
            if "layers" in found
        ]
    sections += [map_section(record["map"], record["before"])] if "map" in record else []
    sections += training_sections(record["training"]) if "training" in record else []
    return sections + ([transfer_section(record["transfer"])] if record["transfer"] else [])


def overview_section(record: dict) -> Section:
    """Spearman over all rows, one row for each kind of vector and one column for each set."""
    sets = record["sets"]
    kinds = list(dict.fromkeys(kind for found in sets.values() for kind in found["vectors"]))
    rows = []
    for kind in kinds:
        values = [
            found["vectors"][kind]["all"]["spearman"] if kind in found["vectors"] else None
            for found in sets.values()
        ]
        average = sum(values) / len(values) if None not in values else None
        rows.append((kind, *map(_number, values), *([_number(average)] if len(sets) > 1 else [])))
    header = ("sentence vector", *sets, *(["average"] if len(sets) > 1 else []))
    missing = [
        f"{name}: no {kind} ({reason})."
        for name, found in sets.items()
        for kind, reason in found["left_out"].items()
    ]
    prose = (
        f"Spearman's correlation over all rows (\"all\"). The first row is the encoder's own vector, pooling "
        f"{record['pooling']}; precision {record['precision']}, sentences cut at {record['max_length']} tokens."
    )
    return Section(
        "Sets",
        " ".join([prose, *([WHITENING] if len(kinds) > 1 else []), *missing]),
        Grid(header, tuple(rows), "h" + "n" * (len(header) - 1)),
        level=2,
    )


def correlation_sections(sets: dict[str, dict]) -> list[Section]:
    """Both correlations under each convention that any set has, for each set and kind of vector."""
    conventions = [
        name
        for name in CONVENTIONS
        if any(name in scores for found in sets.values() for scores in found["vectors"].values())
    ]
    sections = [Section("Correlations", HOW_TO_READ["correlations"], level=2)]
    for title in ("Spearman", "Pearson"):
        rows = tuple(
            (
                name,
                kind,
                f"{found['rows']:,}",
                *(
                    _number(scores.get(convention, {}).get(title.lower()))
                    for convention in conventions
                ),
            )
            for name, found in sets.items()
            for kind, scores in found["vectors"].items()
        )
        header = ("set", "sentence vector", "rows", *conventions)
        sections.append(Section(title, body=Grid(header, rows, "hwn" + "n" * len(conventions))))
    return sections


def subset_sections(sets: dict[str, dict]) -> list[Section]:
    """The correlations within each subset, of the encoder's own vector; sets without subsets have none."""
    sections = []
    for name, found in sets.items():
        (kind, scores), *_ = found["vectors"].items()
        rows = tuple(
            (
                subset,
                f"{of_subset['rows']:,}",
                _number(of_subset["spearman"]),
                _number(of_subset["pearson"]),
            )
            if of_subset
            else (subset, NOTHING, NOTHING, NOTHING)
            for subset, of_subset in scores["subsets"].items()
        )
        without = sum(of_subset is None for of_subset in scores["subsets"].values())
        left_out = (
            (
                f" {without} with fewer than three rows, or one label only, have no correlation and are not in the "
                "means."
            )
            if without
            else ""
        )
        if rows:
            sections.append(
                Section(
                    f"{name} by subset",
                    f"Sentence vector: {kind}.{left_out}",
                    Grid(("subset", "rows", "Spearman", "Pearson"), rows, "hnnn"),
                )
            )
    return sections


def spread_section(sets: dict[str, dict]) -> Section:
    """Alignment and uniformity, for each set and kind of vector."""
    rows = tuple(
        (
            name,
            kind,
            _number(scores["alignment"]),
            f"{found['positives']:,} above {found['positive_above']:g}",
            _number(scores["uniformity"]),
            f"{found['sentences']:,}",
        )
        for name, found in sets.items()
        for kind, scores in found["vectors"].items()
    )
    header = (
        "set",
        "sentence vector",
        "alignment",
        "positive pairs",
        "uniformity",
        "different sentences",
    )
    return Section(
        "Alignment and uniformity", HOW_TO_READ["spread"], Grid(header, rows, "hwnnnn"), level=2
    )


def bucket_section(name: str, found: dict) -> Section:
    """The cosines of one set by label, as boxes, histograms and a table; of the encoder's own vector."""
    buckets, (low, high) = found["buckets"], found["range"]
    rows, notes = [], []
    for bucket in buckets:
        label, num_rows = f"{bucket['low']:.4g} to {bucket['high']:.4g}", f"{bucket['rows']:,}"
        numbers = [bucket["mean"], bucket["deviation"], *(bucket["quantiles"] or [None] * 5)]
        rows.append(
            (label, num_rows, *(NOTHING if value is None else f"{value:.3f}" for value in numbers))
        )
        notes.append(
            f"label {label}: {num_rows} pairs, median cosine {rows[-1][6]}, middle half {rows[-1][5]} to "
            f"{rows[-1][7]}"
            if bucket["rows"]
            else ""
        )
    header = ("label", "rows", "mean", "deviation", "5 %", "25 %", "median", "75 %", "95 %")
    quantiles = [bucket["quantiles"] for bucket in buckets]
    # From the multiple of 0.2 below the lowest whisker, or from 0: sets can be compared by eye.
    lowest = min(0.0, *(math.floor(each[0] * 5) / 5 for each in quantiles if each))
    ticks = [round(lowest + 0.2 * step, 1) for step in range(round((1 - lowest) * 5) + 1)]
    edges = [*(bucket["low"] for bucket in buckets), high]
    labels = (
        list(range(int(low), int(high) + 1))
        if low.is_integer() and high.is_integer() and high - low <= 10
        else [low, (low + high) / 2, high]
    )
    grid = Grid(header, tuple(rows), "h" + "n" * 8)
    boxes = Boxes(edges, quantiles, labels, ticks, "label", "cosine", tuple(notes), grid)
    return Section(
        name,
        f"Sentence vector: {next(iter(found['vectors']))}.",
        Panels((boxes, histogram(found["histogram"], labels)), grid),
    )


def histogram(found: dict[str, list], labels: list[float]) -> Ridges:
    """The numbers of `cosine_histogram` as a picture; labels: the ticks of the label axis."""
    bands, edges = found["bands"], found["edges"]
    notes = []
    for low, high, num_rows, shares in zip(
        bands[:-1], bands[1:], found["rows"], found["shares"], strict=True
    ):
        highest = shares.index(max(shares))
        notes.append(
            f"label {low:g} to {high:g}: {num_rows:,} pairs, most often a cosine of {edges[highest]:.2f} to "
            f"{edges[highest + 1]:.2f}"
            if num_rows
            else ""
        )
    ticks = [tick / 5 for tick in range(math.floor(edges[0] * 5), 6)]
    return Ridges(edges, bands, found["shares"], ticks, labels, "cosine", "label", tuple(notes))


def layer_section(name: str, layers: dict[str, list[float]]) -> Section:
    """The survey as a heat map: a row for each hidden state, a column for each pooling."""
    # The scale leaves out [CLS] of the embeddings: that 0, which every model has, would make all others look alike.
    values = [
        value for pooling, of_pooling in layers.items() for value in of_pooling[pooling == "cls" :]
    ]
    low, high = min(values), max(values)
    scale = high - low or 1.0
    rows, shades = [], []
    for state, cells in enumerate(zip(*layers.values(), strict=True)):
        rows.append((f"{state} (embeddings)" if state == 0 else str(state), *map(_number, cells)))
        shades.append((0.0, *(min(1.0, max(0.0, (value - low) / scale)) for value in cells)))
    best = max(layers, key=lambda pooling: max(layers[pooling]))
    number = max(layers[best])
    prose = f"{HOW_TO_READ['layers']} Highest: state {layers[best].index(number)}, {best}, {_number(number)}."
    return Section(
        f"Layer by pooling, {name}",
        prose,
        Grid(("hidden state", *layers), tuple(rows), "h" + "n" * len(layers), tuple(shades)),
        level=2,
    )


def map_section(found: dict, before: str | None) -> Section:
    """The maps of `measure_map` side by side; `before` names the encoder of the first, where there are two."""
    pairs, maps = found["pairs"], found["maps"]
    kinds = [
        [pair["label"] for pair in pairs if pair["is_positive"] == kind] for kind in (True, False)
    ]
    spans = [
        " to ".join(dict.fromkeys((f"{min(labels):g}", f"{max(labels):g}"))) for labels in kinds
    ]
    prose = HOW_TO_READ["map"].format(set=found["set"], high=spans[0], low=spans[1])
    prose += (
        f" Before is {before}."
        if before
        else " --before MODEL adds a map of the encoder before training."
    )
    notes = tuple(
        f"label {pair['label']:g}: {pair['sentence_1']} / {pair['sentence_2']}" for pair in pairs
    )
    pictures = tuple(
        PairMap(when, of_map["points"], [pair["is_positive"] for pair in pairs], "t-SNE", notes)
        for when, of_map in maps.items()
    )
    rows = [
        (
            kind,
            str(len(labels)),
            span,
            *(f"{of_map['cosine'][number]:.3f}" for of_map in maps.values()),
            *(f"{of_map['beside'][number]} of {2 * len(labels)}" for of_map in maps.values()),
        )
        for number, (kind, labels, span) in enumerate(
            zip(("positive", "negative"), kinds, spans, strict=True)
        )
    ]
    header = (
        "pairs",
        "number",
        "labels",
        *(f"mean cosine{f', {when}' if when else ''}" for when in maps),
        *(f"nearest{f', {when}' if when else ''}" for when in maps),
    )
    return Section(
        "Map of pairs",
        prose,
        Panels(pictures, Grid(header, tuple(rows), "h" + "n" * (len(header) - 1))),
        level=2,
    )


def training_sections(training: dict) -> list[Section]:
    """The history of a stage: alignment against uniformity where it has them, loss and dev score over steps."""
    before, after, history = training["before"], training["after"], training["history"]
    score = next(name for name in SCORES if name in before)
    # The weights kept are those of the first evaluation with the best score; `after` is measured on them once more.
    best = min if score == "held_out_loss" else max
    marked = 1 + best(range(len(history)), key=lambda number: history[number][score])
    points = [{"step": 0, **before}, *history]
    names = ["before", *map(str, range(1, len(points)))]
    names[marked] = f"{marked} = after"
    outcome = f"{SCORES[score]} went from {before[score]:.4f} to {after[score]:.4f}" + (
        "." if training["is_kept"] else ", so the encoder in the folder is the one from before."
    )
    sections = [Section("Training", HOW_TO_READ["training"].format(outcome=outcome), level=2)]
    if "alignment" in before:
        notes = tuple(
            f"{name}, step {point['step']:,}: alignment {point['alignment']:.4f}, uniformity "
            f"{point['uniformity']:.4f}"
            for name, point in zip(names, points, strict=True)
        )
        x, y = ([point[name] for point in points] for name in ("uniformity", "alignment"))
        way = Trace(
            x,
            y,
            round_ticks(x),
            round_ticks(y),
            "uniformity",
            "alignment",
            tuple(names),
            notes,
            marked,
        )
        rows = tuple(
            (name, _number(scores["alignment"]), _number(scores["uniformity"]))
            for name, scores in (("before", before), ("after", after))
        )
        sections.append(
            Section(
                "Alignment against uniformity",
                HOW_TO_READ["way"],
                Panels((way,), Grid(("", "alignment", "uniformity"), rows, "hnn")),
            )
        )
    columns = [
        *before,
        *(name for name in points[-1] if name.startswith(f"{score}_")),
    ]  # also of both copies, of ct
    rows = tuple(
        (
            name,
            f"{point['step']:,}",
            f"{point['loss']:.4g}" if "loss" in point else NOTHING,
            *(_number(point.get(column)) for column in columns),
        )
        for name, point in zip(names, points, strict=True)
    )
    curves = (
        _curve(history, "loss", "loss", marked - 1),
        _curve(points, score, SCORES[score], marked),
    )
    grid = Grid(("evaluation", "step", "loss", *columns), rows, "h" + "n" * (2 + len(columns)))
    return [*sections, Section("Loss and dev score", HOW_TO_READ["curves"], Panels(curves, grid))]


def _curve(points: list[dict], name: str, label: str, marked: int) -> Trace:
    steps, values = ([point[key] for point in points] for key in ("step", name))
    notes = tuple(f"step {step:,}: {value:.4g}" for step, value in zip(steps, values, strict=True))
    names = tuple(f"{value:.4g}" if number == marked else "" for number, value in enumerate(values))
    return Trace(
        steps,
        values,
        round_ticks([0, *steps]),
        round_ticks(values),
        "step",
        label,
        names,
        notes,
        marked,
        CURVE_HEIGHT,
    )


def transfer_section(files: dict[str, dict]) -> Section:
    """The accuracies of --transfer, one row for each file."""
    rows = tuple(
        (
            name,
            f"{found['rows']:,}",
            str(len(found["classes"])),
            f"{found['majority']:.3f}",
            f"{found['accuracy']:.3f} ± {found['deviation']:.3f}",
            str(found["folds"]),
        )
        for name, found in files.items()
    )
    return Section(
        "Transfer",
        HOW_TO_READ["transfer"],
        Grid(("file", "rows", "classes", "majority", "accuracy", "folds"), rows, "hnnnnn"),
        level=2,
    )


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
