"""experiments/tables.py: every cell by hand."""

import random

import pytest

from experiments.run_files import stage_records
from experiments.tables import (
    build_difference_table,
    build_score_table,
    build_stage_table,
    build_train_table,
    format_difference,
    format_scores,
    judge,
)

SCORES = {"sst": 0.5, "para": 0.7, "sts": 0.6, "overall_2023": 0.6, "overall_2024": 0.66}


@pytest.mark.parametrize(
    ("scores", "published", "expected"),
    [
        ([0.5, 0.52, 0.54], 0.526, "0.520 ± 0.020 (0.526)"),
        ([0.5], None, "0.500"),
        ([], 0.3, "- (0.300)"),
        ([], None, "-"),
        ([-0.0004], None, "0.000"),
    ],
)
def test_mean_and_deviation_by_hand(scores, published, expected):
    """A deviation of 0.016 instead of 0.020 divides by n and not by n - 1."""
    assert format_scores(scores, published) == expected


def test_score_table_by_hand():
    table = build_score_table(
        {
            "rob-14": [SCORES, {**SCORES, "sst": 0.6}],
            "single-sts": [{"sts": 0.8}],
            "gen-given-para": [{"para": 0.8}],
        }
    )
    assert table.splitlines() == [
        "| recipe | n | SST | PARA | STS | overall 2023 |",
        "|---|---|---|---|---|---|",
        "| rob-14 | 2 | 0.550 ± 0.071 (0.526) | 0.700 ± 0.000 (0.880) | 0.600 ± 0.000 (0.879) | "
        "0.600 ± 0.000 (0.762) |",
        "| single-sts | 1 | - | - | 0.800 | - |",
        "| gen-given-para | 1 | - | 0.800 (0.836) | - | - |",
    ]


def test_own_tasks_have_columns_of_their_own():
    """Without the course's tasks there would be nothing but dashes."""
    runs = {"defaults": [{"tickets": 0.9}, {"tickets": 0.8}], "gen-cosine": [{"tickets": 0.7}] * 2}
    assert build_score_table(runs).splitlines() == [
        "| recipe | n | tickets |",
        "|---|---|---|",
        "| defaults | 2 | 0.850 ± 0.071 |",
        "| gen-cosine | 2 | 0.700 ± 0.000 |",
    ]
    assert build_difference_table(runs, "defaults").splitlines()[:2] == [
        "| recipe less defaults | n | tickets |",
        "|---|---|---|",
    ]
    assert build_train_table(runs).splitlines()[2] == "| defaults | 2 | 0.850 ± 0.071 |"


def test_own_tasks_stand_behind_those_of_the_course():
    head, _, row = build_score_table({"x": [{"sst": 0.5, "tickets": 0.9, "mean": 0.7}]}).split("\n")
    assert head == "| recipe | n | SST | PARA | STS | overall 2023 | tickets |"
    assert row == "| x | 1 | 0.500 | - | - | - | 0.900 |"


def test_train_table_by_hand():
    table = build_train_table({"rob-7": [{"sst": 0.9, "para": 0.8}], "defaults": [{"sts": 0.5}]})
    assert table.splitlines() == [
        "| recipe, training rows | n | SST | PARA | STS |",
        "|---|---|---|---|---|",
        "| rob-7 | 1 | 0.900 (0.977) | 0.800 (0.850) | - (0.985) |",
        "| defaults | 1 | - | - | 0.500 |",
    ]


def test_differences_by_hand():
    """Task by task and seed by seed. A single task has no other score to compare."""
    runs = {
        "head-vm": [SCORES, SCORES, SCORES],
        "single-sst": [{"sst": 0.5}] * 3,
        "head-ph": [{**SCORES, "overall_2023": score} for score in (0.61, 0.58, 0.64)],
    }
    nothing = "equal in each seed"  # and no interval from 0 to 0
    # Mean .01, deviation .03: the interval is 4.303 * .03 / sqrt(3) to each side.
    assert build_difference_table(runs, "head-vm").splitlines() == [
        "| recipe less head-vm | n | SST | PARA | STS | overall 2023 |",
        "|---|---|---|---|---|---|",
        f"| single-sst | 3 | {nothing} | - | - | - |",
        f"| head-ph | 3 | {nothing} | {nothing} | {nothing} | "
        "0.010 [-0.065, 0.085]: +0.010, -0.020, +0.040 |",
    ]


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        # Mean .02, deviation .01: 4.303 * .01 / sqrt(3) = .0248, which is more than the mean.
        ([0.01, 0.02, 0.03], ""),
        # Mean .03
        ([0.02, 0.03, 0.04], "better"),
        ([-0.02, -0.03, -0.04], "worse"),
        ([0.0, 0.0, 0.0], ""),
        # Two seeds need 12.7 * deviation / sqrt(2).
        ([0.02, 0.03], ""),
        ([0.029, 0.031], "better"),
        # One seed says nothing.
        ([5.0], ""),
        ([], ""),
    ],
)
def test_what_a_difference_says(differences, word):
    """By hand, on both sides of the border."""
    assert judge([differences]) == [word]


def test_a_table_with_more_cells_says_less():
    """The p value of the first cell is .035. Beside another cell it counts twice."""
    told, nothing = [0.02, 0.03, 0.04], [-0.01, 0.0, 0.01]
    assert judge([told]) == ["better"]
    assert judge([told, nothing]) == ["", ""]
    assert judge([told, [0.0301, 0.03, 0.0299]]) == ["better", "better"], "Holm's second step"


def test_a_rule_has_the_same_level_with_few_and_many_seeds():
    """Of 1,000 methods that do nothing, 50 are expected to be called better or worse."""
    generator = random.Random(0)
    for num_seeds in (2, 3, 8):
        num_alarms = 0
        for _ in range(1000):
            num_alarms += judge([[generator.gauss(0, 1) for _ in range(num_seeds)]]) != [""]
        assert 30 < num_alarms < 70


def test_a_difference_is_written_with_its_interval():
    assert format_difference([0.03, 0.04, 0.05]) == "0.040 [0.015, 0.065]"
    assert format_difference([-0.01, 0.0, 0.01]) == "0.000 [-0.025, 0.025]"
    assert format_difference([0.04]) == "0.040"
    assert format_difference([]) == "-"


def test_stage_table_by_hand():
    first = {
        "before": {"spearman": 0.6, "pearson": 0},
        "after": {"spearman": 0.7, "pearson": 0},
        "is_kept": True,
        "seconds": 90.0,
    }
    second = {**first, "after": {"spearman": 0.5, "pearson": 0}, "is_kept": False, "seconds": 110.0}
    without_seconds = {key: value for key, value in first.items() if key != "seconds"}
    table = build_stage_table({"bsc": [first, second], "mlm": [first], "ct": [without_seconds]})
    assert table.splitlines() == [
        "| stage | n | score | before | after | handed on | seconds |",
        "|---|---|---|---|---|---|---|",
        "| bsc | 2 | Spearman, STS dev | 0.600 ± 0.000 | 0.600 ± 0.141 | 1 of 2 | 100 |",
        "| mlm | 1 | Spearman, STS dev | 0.600 | 0.700 | 1 of 1 | 90 |",
        "| ct | 1 | Spearman, STS dev | 0.600 | 0.700 | 1 of 1 | - |",
    ]


def test_seconds_of_stages_come_from_the_folders_of_the_encoders(tmp_path):
    """These folders may have been deleted."""
    record = {"stages": {"mlm": {"is_kept": True}, "simcse": {"is_kept": False}}}
    (tmp_path / "encoder-mlm").mkdir()
    (tmp_path / "encoder-mlm" / "stage.json").write_text('{"seconds": 3.5}')
    assert stage_records(tmp_path, record) == {
        "mlm": {"is_kept": True, "seconds": 3.5},
        "simcse": {"is_kept": False},
    }

    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "stage.json").write_text('{"seconds": 4.5}')
    assert stage_records(tmp_path, record)["simcse"]["seconds"] == 4.5
