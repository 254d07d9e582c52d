"""How a package declares its options, and the checks that every field brings.

An option group is a frozen dataclass in PACKAGE/options.py. Each of its fields is made by `flag`,
or by `group` where it holds another group. `command_line` joins all groups into one `Options`.

    @dataclass(frozen=True)
    class ExampleOptions(OptionGroup):
        epochs: int = flag(4, "Epochs of this stage.", low=1)

`ExampleOptions(epochs=0)` raises ValueError. A command line and options.json are flat: `from_flat`
makes a group from values by name, and `flat` gives them back.

This file imports nothing heavy, so that `--help` and a typo are answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

AUTO = "auto"
NONE = "none"

# What a field may hold, by the words of its annotation.
TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


class OnlyWith(NamedTuple):
    """Another option of the same group, and the values of it under which a field has an effect."""

    name: str
    values: tuple[str, ...]


def flag(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
    only_with: OnlyWith | None = None,
    is_common: bool = False,
    is_file: bool = False,
) -> Any:
    """A field of an option group.

    default: its type is that of the flag. help: plain sentences for `--help`. A line of it that
    begins with "- " is an item of a list. choices: the words that it may be. low, high: inclusive
    limits of a number. only_with: the option that makes it take effect. is_common: whether `--help`
    shows it. is_file: whether it is the path of one file.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "low": low,
        "high": high,
        "only_with": only_with,
        "is_common": is_common,
        "is_file": is_file,
    }
    return field(default=default, metadata=metadata)


def group(cls: type[OptionGroup]) -> Any:
    """A field that holds another option group, with its defaults."""
    return field(default_factory=cls)


@dataclass(frozen=True)
class OptionGroup:
    """The base of every option group. Making one checks it: ValueError says what to change."""

    def __post_init__(self) -> None:
        for item in direct_fields(type(self)):
            check_value(item, getattr(self, item.name))
        check_effects(self)
        self.check()

    def check(self) -> None:
        """Raise ValueError where the fields contradict each other."""


Group = TypeVar("Group", bound=OptionGroup)


# --- from a group to flat names, and back ---------------------------------------------------------


def direct_fields(cls: type[OptionGroup]) -> list[Field]:
    """The options of a group, without those of the groups inside it."""
    return [item for item in fields(cls) if item.default is not MISSING]


def inner_groups(cls: type[OptionGroup]) -> dict[str, type[OptionGroup]]:
    """The classes of the groups inside a group, by the name of their field."""
    groups: dict[str, type[OptionGroup]] = {}
    for item in fields(cls):
        factory = item.default_factory
        if isinstance(factory, type) and issubclass(factory, OptionGroup):
            groups[item.name] = factory
    return groups


def all_fields(cls: type[OptionGroup]) -> list[Field]:
    """The options of a group, then those of the groups inside it."""
    collected = direct_fields(cls)
    for inner in inner_groups(cls).values():
        collected += all_fields(inner)
    return collected


def flat(options: OptionGroup) -> dict[str, Any]:
    """The values of all options in a group, by name."""
    values = {item.name: getattr(options, item.name) for item in direct_fields(type(options))}
    for name in inner_groups(type(options)):
        values |= flat(getattr(options, name))
    return values


def from_flat(cls: type[Group], values: Mapping[str, Any]) -> Group:
    """A group from values by name. The other options have their defaults.

    Raises TypeError for a name that is no option, and ValueError for values that are refused.
    """
    unknown = set(values) - {item.name for item in all_fields(cls)}
    if unknown:
        raise TypeError(f"unknown option {min(unknown)}")
    return _build(cls, values)


def _build(cls: type[Group], values: Mapping[str, Any]) -> Group:
    names = [item.name for item in direct_fields(cls)]
    arguments = {name: values[name] for name in names if name in values}
    for name, inner in inner_groups(cls).items():
        arguments[name] = _build(inner, values)
    return cls(**arguments)


def with_values(options: Group, **values: Any) -> Group:
    """The same group with other values of some options, wherever they stand in it."""
    return from_flat(type(options), {**flat(options), **values})


def changed(options: OptionGroup) -> dict[str, Any]:
    """The options of a group that differ from their defaults, by name."""
    defaults = {item.name: item.default for item in all_fields(type(options))}
    return {name: value for name, value in flat(options).items() if value != defaults[name]}


# --- checks ---------------------------------------------------------------------------------------


def check_value(item: Field, value: Any) -> None:
    """ValueError for a value of another type, a word that is no choice, a number out of range.

    A command line gives only values of the right type. A file edited by hand may not.
    """
    # isinstance would take True for an int.
    if not any(type(value) in TYPES[word] for word in item.type.split(" | ")):
        expected = item.type.replace("|", "or")
        raise ValueError(f"--{item.name} is {value!r}; it must be {expected}.")

    choices = item.metadata["choices"]
    if choices and value not in choices:
        raise ValueError(f"--{item.name} is '{value}'; it is one of {', '.join(choices)}.")

    # A word instead of a number, such as auto, must be the default.
    low = item.metadata["low"]
    high = item.metadata["high"]
    is_word = isinstance(value, str) and value == item.default
    if low is None or is_word:
        return
    if not math.isfinite(value) or value < low or (high is not None and value > high):
        limit = f"a finite number, at least {low:g}" if high is None else f"{low:g} to {high:.10g}"
        raise ValueError(f"--{item.name} is {value}; it must be {limit}.")


def check_effects(options: OptionGroup) -> None:
    """ValueError for an option that has no effect under the value of another one."""
    differing = changed(options)
    for item in direct_fields(type(options)):
        other = item.metadata["only_with"]
        if other is None or item.name not in differing:
            continue
        value = getattr(options, other.name)
        if value not in other.values:
            # To drop the flag is not enough where a recipe has set it.
            raise ValueError(
                f"--{item.name} has no effect with --{other.name} {value}; add --{other.name} "
                f"{' or '.join(other.values)}, or pass --{item.name} {item.default}."
            )
