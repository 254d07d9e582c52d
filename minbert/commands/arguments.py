"""Checks of arguments that several commands share."""

from __future__ import annotations

from collections.abc import Mapping


def check_at_least(arguments: object, minimums: Mapping[str, int]) -> None:
    """Raise ValueError if a number on the command line is below its minimum.

    arguments: a namespace or an option group. minimums: from the name of an argument to the
    smallest number that means something. An argument that is None was not passed.
    """
    for name, minimum in minimums.items():
        value = getattr(arguments, name)
        if value is not None and value < minimum:
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} is {value}; pass a whole number of {minimum} or more.")
