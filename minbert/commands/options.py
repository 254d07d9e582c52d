"""How a package declares its options, and the checks that each field brings.

An option group is a frozen dataclass in PACKAGE/options.py. Each of its fields is made by `flag`.
A group may hold other groups as fields. `command_line` joins all groups into one `Options`.

Imports nothing heavy: `--help` and a typo are answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

AUTO = "auto"
NONE = "none"
KINDS = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}


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

    default: its type is that of the flag. help: one or two plain sentences for `--help`.
    choices: the words it may be. low, high: inclusive limits of a number.
    only_with: the option that makes it take effect. is_common: whether `--help` shows it.
    is_file: whether it is the path of one file, which `--help-all` lists apart.
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


def group(cls: type) -> Any:
    """A field that holds another option group, with its defaults."""
    return field(default_factory=cls)


@dataclass(frozen=True)
class OptionGroup:
    """The base of every option group: it checks its fields when it is made."""

    def __post_init__(self) -> None:
        for item in own_fields(type(self)):
            check_range(item, getattr(self, item.name))
        self.check()

    def check(self) -> None:
        """Raise ValueError where the fields contradict each other."""


Group = TypeVar("Group")


def inner_groups(cls: type) -> Iterator[tuple[str, type]]:
    """The fields of a group that are groups themselves, with their classes."""
    for item in fields(cls):
        if is_dataclass(item.default_factory):
            yield item.name, item.default_factory  # type: ignore[misc]


def own_fields(cls: type) -> list[Field]:
    """The fields of a group that are options, without those of inner groups."""
    return [item for item in fields(cls) if item.default is not MISSING]


def all_fields(cls: type) -> list[Field]:
    """The options of a group and of its inner groups, in order."""
    collected = []
    for item in fields(cls):
        if item.default is not MISSING:
            collected.append(item)
        elif is_dataclass(item.default_factory):
            collected += all_fields(item.default_factory)  # type: ignore[arg-type]
    return collected


def flat(group: object) -> dict[str, Any]:
    """The values of all options in a group, by name."""
    values: dict[str, Any] = {}
    for item in fields(group):  # type: ignore[arg-type]
        value = getattr(group, item.name)
        if item.default is not MISSING:
            values[item.name] = value
        else:
            values |= flat(value)
    return values


def from_flat(cls: Callable[..., Group], values: Mapping[str, Any]) -> Group:
    """A group from values by name; TypeError for a name that is no option."""
    names = {item.name for item in all_fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - names)
    if unknown:
        raise TypeError(f"unknown option {unknown[0]}")
    return _build(cls, values)


def _build(cls: Callable[..., Group], values: Mapping[str, Any]) -> Group:
    own = {item.name for item in own_fields(cls)}  # type: ignore[arg-type]
    arguments = {name: value for name, value in values.items() if name in own}
    for name, inner in inner_groups(cls):  # type: ignore[arg-type]
        arguments[name] = _build(inner, values)
    return cls(**arguments)


def with_values(group: Group, **values: Any) -> Group:
    """The same group with other values of some options, wherever they stand in it."""
    return from_flat(type(group), {**flat(group), **values})


def changed(group: object) -> dict[str, Any]:
    """The options of a group that differ from their defaults, by name."""
    defaults = {item.name: item.default for item in all_fields(type(group))}
    return {name: value for name, value in flat(group).items() if value != defaults[name]}


def check_range(item: Field, value: Any) -> None:
    """ValueError for a value of another type, a word that is no choice, a number out of range.

    A command line gives only values of the right type. A file edited by hand may not.
    """
    # isinstance would take True for an int.
    if not any(type(value) in KINDS[kind] for kind in str(item.type).split(" | ")):
        expected = str(item.type).replace("|", "or")
        raise ValueError(f"--{item.name} is {value!r}; it must be {expected}.")
    choices = item.metadata["choices"]
    if choices and value not in choices:
        raise ValueError(f"--{item.name} is '{value}'; it is one of {', '.join(choices)}.")
    low, high = item.metadata["low"], item.metadata["high"]
    is_word = isinstance(value, str) and value == item.default
    if low is None or is_word:
        return
    if not math.isfinite(value) or value < low or (high is not None and value > high):
        limit = f"a finite number, at least {low:g}" if high is None else f"{low:g} to {high:g}"
        raise ValueError(f"--{item.name} is {value}; it must be {limit}.")


def check_only_with(group: object) -> None:
    """ValueError for an option that has no effect under the value of another one."""
    differing = changed(group)
    for item in own_fields(type(group)):
        other = item.metadata["only_with"]
        if other is None or item.name not in differing:
            continue
        value = getattr(group, other.name)
        if value not in other.values:
            raise ValueError(
                f"--{item.name} has no effect with --{other.name} {value}; add --{other.name} "
                f"{' or '.join(other.values)}, or pass --{item.name} {item.default}."
            )
