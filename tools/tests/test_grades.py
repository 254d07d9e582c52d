"""tools/sample/grades.py: the rule that chooses the shares of film sentences, worked by hand."""

from __future__ import annotations

import math
import statistics

import pytest

from experiments.records import RECORDS, read_records
from tools.sample.grades import (
    FIRST,
    NUM_FINALISTS,
    candidates,
    choose_shares,
    finalists,
    pooled_deviation,
)
from tools.sample.shares import SHARES, Shares
from tools.tables.preparations import scores_of_shares

OTHER = Shares(neutral=0.05, strong=0.35)
THIRD = Shares(neutral=0.10, strong=0.15)


def test_all_pairs_are_candidates_once():
    assert len(set(candidates())) == len(candidates()) == 15
    assert {FIRST, OTHER, THIRD} <= set(candidates())


def test_the_pooled_deviation_by_hand():
    # The squares around the means are 2 in the first group and 8 in the second one.
    assert pooled_deviation([[1.0, 2.0, 3.0], [1.0, 5.0], [7.0]]) == pytest.approx((10 / 3) ** 0.5)
    with pytest.raises(ValueError, match="two seeds"):
        pooled_deviation([[1.0], [2.0]])


def test_the_first_pair_is_a_finalist_even_if_it_is_last():
    scores = {pair: [number, number] for number, pair in enumerate(candidates())}
    best = candidates()[: -NUM_FINALISTS - 1 : -1]
    assert finalists(scores) == [*best, FIRST]
    assert finalists({**scores, FIRST: [99.0, 99.0]}) == [FIRST, *best[:2]]


@pytest.mark.parametrize(
    ("margin", "expected"),
    [
        pytest.param(0.009, FIRST, id="within one deviation"),
        pytest.param(-0.01, FIRST, id="the best itself"),
        pytest.param(0.011, OTHER, id="above one deviation"),
    ],
)
def test_a_small_difference_changes_nothing(margin, expected):
    # Each group has the deviation 0.01.
    first = [0.39, 0.40, 0.41]
    scores = {FIRST: first, OTHER: [score + margin for score in first]}
    choice = choose_shares(scores)
    assert choice.deviation == pytest.approx(0.01)
    assert choice.chosen == expected
    assert choice.margin == pytest.approx(max(margin, 0.0))


def test_a_pair_without_all_seeds_cannot_be_chosen():
    complete = [0.1, 0.2, 0.3]
    choice = choose_shares({FIRST: complete, THIRD: [0.9, 0.9]})
    assert choice.best == choice.chosen == FIRST
    with pytest.raises(ValueError, match="lacks one of 3 seeds"):
        choose_shares({FIRST: [0.1, 0.2], OTHER: complete})


def test_the_sample_keeps_the_pair_that_is_better_on_an_untouched_file():
    score = "1,821 other sentences, polarity"
    values: dict[str, list[float]] = {}
    for record in read_records(RECORDS / "sample-shares.jsonl"):
        values.setdefault(record["label"], []).append(record["scores"][score])
    first, chosen = values["15 % neutral, 25 % strong"], values["25 % neutral, 35 % strong"]
    pooled = math.sqrt((statistics.variance(first) + statistics.variance(chosen)) / 2)
    assert statistics.mean(first) - statistics.mean(chosen) > pooled
    assert (
        choose_shares(scores_of_shares(read_records(RECORDS / "sample-grades.jsonl"))).chosen
        != FIRST
    )
    assert SHARES == FIRST
