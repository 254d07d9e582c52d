"""The flags of --with as option values, and when two values or two runs mean the same."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from minbert.commands.plugins import paths_in


def parse_flags(flags: Sequence[str]) -> dict[str, str]:
    """Return the options that flags name, with their values as text.

    A flag that has no value, such as --compile, gets the text "True". The values of a flag that is
    there several times, such as --task, have a line each.
    """
    values: dict[str, str] = {}
    for position, flag in enumerate(flags):
        if not flag.startswith("--"):
            continue
        name, equals, value = flag.partition("=")
        if not equals:
            following = [*flags[position + 1 :], "--"][0]
            value = "True" if following.startswith("--") else following
        option = name.removeprefix("--").replace("-", "_")
        values[option] = f"{values[option]}\n{value}" if option in values else value
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

    "auto" differs from nothing: a run's record holds the value that replaced it. A list belongs to
    a flag that may be given several times.
    """
    if isinstance(stored, list):
        asked = flag_value.split("\n")
        paths = paths_in(asked)
        # The files of --plugin are recorded by their absolute paths.
        if all(os.path.isfile(path) for path in paths):
            asked = list(paths)
        return list(map(normalise, stored)) != list(map(normalise, asked))
    return flag_value != "auto" and normalise(stored) != normalise(flag_value)


def has_raised_epochs(stored: Mapping[str, Any], name: str, asked: object) -> bool:
    """Return whether an option is epochs, of which --least_steps has added some to those asked for.

    stored: the options of a run, which hold the epochs that it had.
    """
    least = normalise(asked)
    if name != "epochs" or not stored.get("least_steps") or not isinstance(least, float):
        return False
    return bool(stored[name] >= least)


def differing_option(
    stored: Mapping[str, Any], asked: Mapping[str, Any], free: Collection[str]
) -> str | None:
    """Return the name of the first option that a run has with another value than is asked for.

    None where there is none.

    stored: the options of the run, as its JSON file holds them. asked: values of options.
    free: the options in which the two may differ.
    """
    # As they would be stored: JSON has no tuples and no paths.
    values = json.loads(json.dumps(dict(asked), default=str))
    for name, value in values.items():
        if name not in free and stored.get(name) != value:
            return name
    return None
