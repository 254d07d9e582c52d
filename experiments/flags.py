"""The flags of --with as option values, and when two values mean the same."""

from __future__ import annotations

import os
from collections.abc import Sequence


def parse_flags(flags: Sequence[str]) -> dict[str, str]:
    """Return the options that flags name, with their values as text.

    A flag that has no value, such as --compile, gets the text "True".
    """
    values = {}
    for position, flag in enumerate(flags):
        if not flag.startswith("--"):
            continue
        name, equals, value = flag.partition("=")
        if not equals:
            following = [*flags[position + 1 :], "--"][0]
            value = "True" if following.startswith("--") else following
        values[name.removeprefix("--").replace("-", "_")] = value
    return values


def normalise(value: object) -> float | str | list[str]:
    """Return an option's value in a form that is equal for values with the same meaning.

    Examples: 1e-4 and 0.0001, the paths a/ and a, the lists x=1,y=2 and y=2,x=1.
    """
    text = str(value)
    try:
        return float(text)
    except ValueError:
        return sorted(text.split(",")) if "=" in text else os.path.normpath(text)


def is_different(stored: object, flag_value: str) -> bool:
    """Return whether a run has another value of an option than a flag asks for.

    "auto" differs from nothing: a run's record holds the value that replaced it.
    """
    return flag_value != "auto" and normalise(stored) != normalise(flag_value)
