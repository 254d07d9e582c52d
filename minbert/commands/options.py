"""How a package declares its options, and the checks that every field brings.

An option group is a frozen dataclass in PACKAGE/options.py. Each of its fields is made by `flag`,
or by `group` where it holds another group. `command_line` joins all groups into one `Options`.

    @dataclass(frozen=True)
    class ExampleOptions(OptionGroup):
        epochs: int = flag(4, "Epochs of this stage.", low=1)

`ExampleOptions(epochs=0)` raises ValueError. A command line and options.json are flat: `from_flat`
makes a group from values by name, and `flat` gives them back.

The fields of a `CommandOptions` are the whole command line of a smaller command. `argument` and
`positional` make them, and `parse_command` (flags.py) reads them.

This file imports nothing heavy, so that `--help` and a typo are answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

AUTO = "auto"
NONE = "none"

# What a field may hold, by the words of its annotation.
TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "Path": (Path,),
    "None": (type(None),),
    # A flag that may be given several times, or with several values.
    "tuple[str, ...]": (tuple,),
    "tuple[Path, ...]": (tuple,),
    "tuple[float, float]": (tuple,),
}
# What the parts of such a value may be.
TYPES_OF_PARTS: dict[str, tuple[type, ...]] = {
    "tuple[str, ...]": (str,),
    "tuple[Path, ...]": (Path,),
    "tuple[float, float]": (int, float),
}


class OnlyWith(NamedTuple):
    """Another option of the same group, and the values of it under which a field has an effect."""

    name: str
    values: Collection[str]


def flag(
    default: Any,
    help: str | Callable[[], str],
    *,
    choices: Collection[str] = (),
    low: float | None = None,
    high: float | None = None,
    only_with: OnlyWith | None = None,
    is_common: bool = False,
    is_file: bool = False,
) -> Any:
    """A field of an option group.

    default: its type is that of the flag. help: plain sentences for `--help`, or a function that
    returns them. A line of it that begins with "- " is an item of a list. choices: the words that
    it may be. A registry (registry.py) gives its names, and its help lists them. low, high:
    inclusive limits of a number. only_with: the option that makes it take effect. is_common:
    whether `--help` shows it. is_file: whether it is the path of one file.
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
    return field(default=default, metadata={**OF_A_FLAG, **metadata})


# What each field of an option group says, where `flag`, `argument` and `positional` say no other.
OF_A_FLAG: dict[str, Any] = {
    "choices": (),
    "low": None,
    "high": None,
    "only_with": None,
    "is_common": True,
    "is_file": False,
    "metavar": "",
    "is_required": False,
    "is_positional": False,
}


def argument(
    default: Any,
    help: str,
    metavar: str = "",
    *,
    choices: Collection[str] = (),
    low: float | None = None,
    high: float | None = None,
    is_required: bool = False,
) -> Any:
    """A flag of a `CommandOptions`. A name that is a word of Python ends in _, such as from_.

    default: None if the flag has none; then the type of the field ends with `| None`, unless it
    is required. metavar: what the help shows for the value. Several words are several values, and
    "FILE..." is one or more. The others are as in `flag`.
    """
    metadata = {
        "help": help,
        "metavar": metavar,
        "choices": choices,
        "low": low,
        "high": high,
        "is_required": is_required,
    }
    return field(default=default, metadata={**OF_A_FLAG, **metadata})


def positional(metavar: str, help: str, *, is_required: bool = True) -> Any:
    """An argument of a `CommandOptions` without a flag, such as MODEL. "RUN..." takes several."""
    metadata = {
        "help": help,
        "metavar": metavar,
        "is_required": is_required,
        "is_positional": True,
    }
    default = () if metavar.endswith("...") else None
    return field(default=default, metadata={**OF_A_FLAG, **metadata})


def group(cls: type[OptionGroup]) -> Any:
    """A field that holds another option group, with its defaults."""
    return field(default_factory=cls)


# The high of every number of epochs: the plan of more would fill the memory before the first step.
MOST_EPOCHS = 10_000


@dataclass(frozen=True)
class OptionGroup:
    """The base of every option group. Making one checks it: ValueError says what to change."""

    separator: ClassVar[str] = "_"  # between the words of its flags, in help and messages

    def __post_init__(self) -> None:
        for item in direct_fields(type(self)):
            # A command line and a file of JSON give lists, which could be changed.
            value = getattr(self, item.name)
            if isinstance(value, list):
                object.__setattr__(self, item.name, tuple(value))
            check_value(item, getattr(self, item.name), shown_name(item, self.separator))
        check_effects(self)
        self.check()

    def check(self) -> None:
        """Raise ValueError where the fields contradict each other."""


@dataclass(frozen=True)
class CommandOptions(OptionGroup):
    """The base of the command lines of all commands but run_multitask.py."""

    separator: ClassVar[str] = "-"


Group = TypeVar("Group", bound=OptionGroup)


def shown_name(item: Field, separator: str) -> str:
    """An option as messages name it: --max-length, or the word of the help where it has no flag."""
    if item.metadata["is_positional"]:
        return item.metadata["metavar"].removesuffix("...")
    return f"--{item.name.rstrip('_').replace('_', separator)}"


# --- the own options of methods -------------------------------------------------------------------


class Methods(Protocol):
    """A registry of methods (registry.py), as this file sees it."""

    def groups(self) -> list[type[OptionGroup]]:
        """The option groups of all methods, each once."""

    def readers(self, option: str) -> tuple[str, ...]:
        """The names of the methods that read an option."""


@dataclass(frozen=True)
class MethodOptions:
    """The options that only some methods read: a group for each class that an entry names.

    `options.of_sampler[PowerOptions].sampling_power` is the value of one of them.
    """

    groups: tuple[OptionGroup, ...]

    def __getitem__(self, cls: type[Group]) -> Group:
        """The group of this class. KeyError where no entry has named it."""
        for item in self.groups:
            if type(item) is cls:
                return item
        raise KeyError(f"no method has the options {cls.__name__}; name them in its entry")

    def value(self, name: str) -> Any:
        """The value of an option, or of a property of a group. KeyError where no group has it."""
        for item in self.groups:
            if hasattr(item, name):
                return getattr(item, name)
        raise KeyError(f"no method has the option {name}; name its group in an entry")


def options_of(methods: Methods, chosen_by: str = "") -> Any:
    """A field that holds the own options of the methods in a registry.

    chosen_by: the option of the same group that names the method. An option that the chosen method
    does not read is then refused. Without it, the one who joins the groups has to check that.
    """

    def defaults() -> MethodOptions:
        return _build_methods(methods, {})

    metadata = {"methods": methods, "chosen_by": chosen_by}
    return field(default_factory=defaults, metadata=metadata)


def method_fields(cls: type[OptionGroup]) -> list[Field]:
    """The fields of a group that `options_of` made."""
    return [item for item in fields(cls) if "methods" in item.metadata]


def groups_of_methods(cls: type[OptionGroup]) -> list[type[OptionGroup]]:
    """The groups of the methods' own options in a group, without those of the groups inside it."""
    groups: list[type[OptionGroup]] = []
    for item in method_fields(cls):
        groups += item.metadata["methods"].groups()
    return groups


def _build_methods(methods: Methods, values: Mapping[str, Any]) -> MethodOptions:
    return MethodOptions(tuple(_build(cls, values) for cls in methods.groups()))


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
    """The options of a group, then those of its methods and of the groups inside it."""
    collected = direct_fields(cls)
    for of_method in groups_of_methods(cls):
        collected += all_fields(of_method)
    for inner in inner_groups(cls).values():
        collected += all_fields(inner)
    return collected


def flat(options: OptionGroup) -> dict[str, Any]:
    """The values of all options in a group, by name."""
    values = {item.name: getattr(options, item.name) for item in direct_fields(type(options))}
    for item in method_fields(type(options)):
        for of_method in getattr(options, item.name).groups:
            values |= flat(of_method)
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
    for item in method_fields(cls):
        arguments[item.name] = _build_methods(item.metadata["methods"], values)
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


def check_value(item: Field, value: Any, name: str) -> None:
    """ValueError for a value of another type, a word that is no choice, a number out of range.

    name: of the option, for messages. A command line gives only values of the right type. A file
    edited by hand may not.
    """
    if item.metadata["is_required"] and value in (None, ()):
        raise ValueError(f"{name} is missing.")
    words = type_words(item)
    if not any(is_of_type(value, word) for word in words):
        expected = " or ".join(words)
        raise ValueError(f"{name} is {value!r}; it must be {expected}.")
    if isinstance(value, tuple) and not all(is_part(part, words) for part in value):
        kind = {"tuple[str, ...]": "a text", "tuple[Path, ...]": "a path"}.get(words[0], "a number")
        raise ValueError(f"{name} is {value!r}; each of its values must be {kind}.")

    choices = item.metadata["choices"]
    if choices and value is not None:
        for part in value if isinstance(value, tuple) else (value,):
            if part not in choices:
                raise ValueError(f"{name} is '{part}'; it is one of {', '.join(choices)}.")

    # A word instead of a number, such as auto, must be the default.
    low = item.metadata["low"]
    high = item.metadata["high"]
    is_word = isinstance(value, str) and value == item.default
    if low is None or is_word or value is None:
        return
    if not math.isfinite(value) or value < low or (high is not None and value > high):
        kind = "whole" if "int" in words else "finite"
        limit = f"a {kind} number, at least {low:g}" if high is None else f"{low:g} to {high:.10g}"
        raise ValueError(f"{name} is {value}; it must be {limit}.")


def is_of_type(value: Any, word: str) -> bool:
    """Whether a value is of a type of TYPES."""
    # isinstance would take True for an int. A path has a class for each system.
    return isinstance(value, Path) if word == "Path" else type(value) in TYPES[word]


def is_part(value: Any, words: Sequence[str]) -> bool:
    """Whether a value may be a part of one of the types in TYPES_OF_PARTS."""
    kinds: list[type] = []
    for word in words:
        kinds += TYPES_OF_PARTS.get(word, ())
    return isinstance(value, Path) if Path in kinds else type(value) in kinds


def type_words(item: Field) -> list[str]:
    """The types that a field may have, by name, such as ["float", "str"].

    A file with `from __future__ import annotations` keeps them as text, another one as types.
    """
    annotation = item.type.__name__ if isinstance(item.type, type) else str(item.type)
    return annotation.split(" | ")


def check_effects(options: OptionGroup) -> None:
    """ValueError for an option that has no effect under the value of another one."""
    differing = changed(options)
    for item in direct_fields(type(options)):
        other = item.metadata["only_with"]
        if other is not None and item.name in differing:
            check_effect(options, item, other)

    # The own options of a method need that method.
    for holder in method_fields(type(options)):
        chosen_by = holder.metadata["chosen_by"]
        methods = holder.metadata["methods"]
        for cls in methods.groups() if chosen_by else []:
            for item in all_fields(cls):
                if item.name in differing:
                    check_effect(options, item, OnlyWith(chosen_by, methods.readers(item.name)))


def check_effect(options: OptionGroup, item: Field, other: OnlyWith) -> None:
    """ValueError where another option has none of the values under which this one has an effect."""
    value = getattr(options, other.name)
    if value not in other.values:
        values = [name for name in other.values if is_possible(options, other.name, name)]
        # To drop the flag is not enough where a recipe has set it.
        raise ValueError(
            f"--{item.name} has no effect with --{other.name} {value}; add --{other.name} "
            f"{' or '.join(values or other.values)}, or pass --{item.name} {item.default}."
        )


def is_possible(options: OptionGroup, name: str, value: str) -> bool:
    """Whether the other options allow this value of an option, so that it can be advised."""
    group = copy(options)
    object.__setattr__(group, name, value)
    try:
        group.check()
    except ValueError:
        return False
    return True
