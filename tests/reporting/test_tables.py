"""minbert/reporting/tables.py: tables of texts, and the table of scores for the terminal."""

import pytest

from minbert.reporting.tables import Column, Table, heading_and_numbers, score_table


def test_columns_of_numbers():
    columns = heading_and_numbers("task", "rows", "score")
    assert columns == (Column("task", "heading"), Column("rows"), Column("score", "number"))
    assert Table(columns, (("SST", "1", "2"),)).header == ("task", "rows", "score")


def test_columns_that_do_not_fit_are_an_error_of_ours():
    one = (Column("a", "words"),)
    two = (*one, Column("b"))
    broken_tables = [
        (two, (("1",),)),
        ((Column("a", "x"),), (("1",),)),
        (one, (("1",),), ((0.0,), (0.0,))),
        (one, (("1",),), ((0.0, 1.0),)),
    ]
    for arguments in broken_tables:
        with pytest.raises(AssertionError):
            Table(*arguments)


def test_a_table_of_scores_by_hand():
    table = score_table(
        "dev",
        {"a": "A", "b": "overall 2023"},
        {"first": {"a": 1, "b": -0.25}, "x": {"a": 0, "b": 2}, "y": {"a": 0.5}},
    )
    assert table.splitlines() == [
        "dev          A  overall 2023",
        "first   1.0000       -0.2500",
        "x       0.0000        2.0000",
        "y       0.5000             –",
    ]
