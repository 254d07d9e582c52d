"""tools/tables/paper_rows.py: rows of the three papers from hand-made records."""

import pytest

from tools.tables import generic
from tools.tables.paper_rows import (
    direction_of,
    paper_comparisons,
    paper_rows,
    runs_of_recipe,
    state_changes,
    state_rows,
    way_of,
)

FIVE = ("STS12", "STS13", "STS14", "STS15", "STS16")
FLAGS = "--steps 60 --rows 2000 --evaluate-every 60"  # of --with, in the tables of [SG]
COMMAND = "sg --text sts --model minbert-mini --seed {seed} --out x-seed{seed} " + FLAGS
TENSION = "ct --model minbert-mini --seed {seed} --out x-seed{seed} --steps 100 --rows 4000"


def record_of(name, seed, score, copies=("encoder",), command=COMMAND):
    """A record whose copies have all sets at the same score, the second copy .1 higher."""
    scores = {}
    for number, copy in enumerate(copies):
        value = score + 0.1 * number
        scores[copy] = dict.fromkeys((*FIVE, "sts-train", "SICK_train", "average"), value)
    return {
        "paper_recipe": name,
        "model": "minbert-mini",
        "seed": seed,
        "scores": scores,
        "measured": "--sets a b",
        "data": {"a": "1"},
        "command": command.format(seed=seed),
    }


def test_a_row_has_mean_interval_and_published_figure():
    """By hand: mean .2, deviation .1, t of two degrees 4.303: .1 * 4.303 / sqrt(3) = .248."""
    entry = generic.read_entries()["sg-table-5"]
    records = [record_of("sg-table-5-opt2", seed, 0.1 + 0.1 * seed) for seed in range(3)]
    row = next(row for row in paper_rows(entry, records) if row.title == "`sg-table-5-opt2`")
    cells = [generic.cell_of(column, row) for column in entry["columns"]]
    assert cells == ["`sg-table-5-opt2`", "loss opt2", "3", "0.200 [-0.048, 0.448] (0.731)"]


def test_both_copies_of_contrastive_tension():
    """The worse one by Spearman stays it, and has the published figure of both correlations."""
    entry = {**generic.read_entries()["ct-table-1"], "with_pearson": True}
    records = [record_of("ct-table-1", 0, 0.5, ("first", "second"), TENSION)]
    assert not any(row.records for row in paper_rows(entry, records)), "without Pearson"
    for copy, value in (("first", 0.9), ("second", 0.7)):
        titles = [f"{title} Pearson" for title in records[0]["scores"][copy]]
        records[0]["scores"][copy] |= dict.fromkeys(titles, value)
    column = entry["columns"][-1]
    cells = {row.title: generic.cell_of(column, row) for row in paper_rows(entry, records)}
    assert cells == {
        "`ct-table-1-mean`": "-",
        "`ct-table-1`, worse copy": "0.500 (0.733)",
        "`ct-table-1`, better copy": "0.600",
        "`ct-table-1`, mean of both": "0.550",
        "`ct-table-1`, difference": "0.100",
        "`ct-table-1-mean`, Pearson": "-",
        "`ct-table-1`, worse copy, Pearson": "0.900 (0.736)",
        "`ct-table-1`, better copy, Pearson": "0.700",
        "`ct-table-1`, mean of both, Pearson": "0.800",
        "`ct-table-1`, difference, Pearson": "-0.200",
    }


def test_the_last_row_needs_no_encoder():
    entry = {**generic.read_entries()["sg-table-5"], "without_encoder": True}
    record = record_of(entry["recipes"][0], 0, 0.4)
    without = {"scores": {"encoder": {"average": 0.6}}, "row_errors": {"encoder": {"average": 0.1}}}
    record["without_encoder"] = {**without, "row_groups": {"average": 10**6}}
    row = paper_rows(entry, [record])[-1]
    cells = [generic.cell_of(column, row) for column in entry["columns"]]
    assert cells[0].startswith("no encoder:")
    assert cells[1:] == ["-", "-", "0.600 [0.404, 0.796]"]


def test_a_row_mixes_no_experiments():
    """Seeds and folders differ. Steps must not, and neither must the data."""
    entry = {**generic.read_entries()["sg-table-5"]}
    del entry["with"]
    first = record_of("sg-table-5-opt2", 0, 0.1)
    second = record_of("sg-table-5-opt2", 1, 0.1)
    assert way_of(first) == way_of(second)
    for change in ({"command": COMMAND.replace("60", "90").format(seed=1)}, {"data": {"a": "2"}}):
        with pytest.raises(ValueError, match="sg-table-5-opt2 are of 2 experiments"):
            paper_rows(entry, [first, second | change])


def test_a_row_has_the_runs_of_its_model_and_its_flags():
    """The flags of the entry, or those that the row itself names."""
    entry = generic.read_entries()["sg-table-5"]
    longer = FLAGS.replace("60", "240")
    usual = record_of("sg-table-5-opt2", 0, 0.1)
    other = record_of("sg-table-5-opt2", 0, 0.2, command=COMMAND.replace(FLAGS, longer))
    other_model = usual | {"model": "minilm"}
    records = [usual, other, other_model]
    assert runs_of_recipe(entry, "sg-table-5-opt2", records) == [usual]
    assert runs_of_recipe(entry, f"sg-table-5-opt2 {longer}", records) == [other]
    assert runs_of_recipe({**entry, "model": "minilm"}, "sg-table-5-opt2", records) == [other_model]


def test_states_are_means_of_both_copies():
    """Four buckets of labels make a fifth. By hand: (1 * .2 + 3 * .6) / 4 = .5."""
    entry = {"recipes": ["ct-table-1"], "poolings": ["cls", "mean"], "columns": []}
    buckets = [{"rows": 0, "mean": None, "deviation": None}] * 20
    buckets[:2] = [
        {"rows": 1, "mean": 0.2, "deviation": 0.0},
        {"rows": 3, "mean": 0.6, "deviation": 0.0},
    ]
    for place in range(4, 20, 4):
        buckets[place] = {"rows": 4, "mean": 0.1, "deviation": 0.2}
    run = record_of("ct-table-1", 0, 0.5, ("first", "second"), TENSION)
    run["states"] = {
        "first": {"layers": {"cls": [0.0, 0.0], "mean": [0.1, 0.2]}, "buckets": buckets},
        "second": {"layers": {"cls": [0.0, 0.0], "mean": [0.3, 0.4]}, "buckets": buckets},
    }
    without_states = record_of("ct-table-1", 1, 0.5, ("first", "second"), TENSION)
    _, row = state_rows(entry, [run, without_states])
    assert (row.title, row.count, row.values["pooling"]) == ("`ct-table-1`", "1", "mean")
    assert row.records[0]["states"] == pytest.approx([0.2, 0.3])
    assert row.records[0]["cosines"] == pytest.approx([0.5, 0.1, 0.1, 0.1, 0.1])
    # Errors: the squares of .2 and .6 lie .03 above that of .5, and .2 / sqrt(4) in the others.
    errors = row.records[0]["errors"]
    assert errors["cosines.0"] == pytest.approx((0.03 / 4) ** 0.5)
    assert (errors["cosines.4"], errors["states.0"]) == (pytest.approx(0.1), None)
    assert errors["spread"] == pytest.approx((0.03 / 4 + 0.01) ** 0.5)

    # The change of a state is the difference to the untuned encoder.
    untuned = record_of("ct-table-1-mean", 0, 0.5)
    layers = {"cls": [0.0, 0.0], "mean": [0.1, 0.3]}
    untuned["states"] = {"encoder": {"layers": layers, "buckets": buckets}}
    _, change = state_changes({**entry, "less": "ct-table-1-mean"}, [run, untuned])
    assert change.values["changes"] == ["0.100", "0.000"]


def test_a_record_of_other_sets_is_not_counted():
    entry = generic.read_entries()["sg-table-5"]
    record = record_of("sg-table-5-opt2", 0, 0.1)
    del record["scores"]["encoder"]["STS16"]
    assert all(not row.records for row in paper_rows(entry, [record]))


def test_a_published_average_over_other_sets_stands_nowhere():
    """That of [CLS] is over STS sets, so it stands beside no average of transfer tasks."""
    rows = {row.title: row for row in paper_rows(generic.read_entries()["sg-table-4"], [])}
    assert rows["`sg-table-4-mean`"].published["scores.average"] == 0.8585
    assert rows["`sg-table-1-cls`"].published["scores.average"] is None
    compared = paper_comparisons(generic.read_entries()["sg-table-4-compared"], [])
    assert [row.values["published"] for row in compared] == ["+0.007", "-"]


def test_differences_are_those_of_each_seed():
    """An encoder that is measured as it is stands against every seed."""
    entry = generic.read_entries()["sg-comparisons"]
    records = [record_of("sg-table-1-mean", 0, 0.2)]
    for seed in range(3):
        records.append(record_of("sg-table-1-sg", seed, 0.4 + 0.001 * seed))
        records.append(record_of("sg-table-1-sg-opt", seed, 0.4 + 0.001 * seed))
    rows = {
        (row.values["row"].strip("`"), row.values["less"].strip("`")): row
        for row in paper_comparisons(entry, records)
    }
    mean = rows["sg-table-1-sg", "sg-table-1-mean"].values
    assert (mean["n"], mean["published"], mean["direction"]) == (3, "+0.196", "the same")
    assert mean["measured"] == "0.201 [0.199, 0.203]"
    same = rows["sg-table-1-sg-opt", "sg-table-1-sg"].values
    assert (same["published"], same["direction"]) == ("+0.024", "cannot tell")


@pytest.mark.parametrize(
    ("published", "measured", "word", "direction"),
    [
        (0.1, [0.1, 0.1, 0.1], "better", "the same"),
        (0.1, [-0.1, -0.1, -0.1], "worse", "the opposite"),
        (0.1, [0.1, -0.1, 0.1], "", "cannot tell"),
        (0.1, [0.1, 0.1], "better", "too few seeds"),
        (None, [0.1, 0.1, 0.1], "better", "better"),
        (None, [0.1, -0.1, 0.1], "", "cannot tell"),
        (None, [], "", "too few seeds"),
    ],
)
def test_directions(published, measured, word, direction):
    assert direction_of(published, measured, word) == direction
