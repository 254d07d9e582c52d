"""Checks of arguments that several commands share."""

from __future__ import annotations


def check_at_least(given: object, least: dict[str, int]) -> None:
    """ValueError for a number below its least value with a meaning; None was not given."""
    for name, limit in least.items():
        if (value := getattr(given, name)) is not None and value < limit:
            raise ValueError(
                f"--{name.replace('_', '-')} is {value}; pass a whole number of {limit} or more."
            )
