"""Registries: the methods that an option names, each with everything that belongs to it.

    SAMPLERS: Registry[Sampler] = Registry("sampler")
    SAMPLERS.register("joint", Sampler(title="one batch of every task", ...))

The choices, checks and help of the option are made from the entries, and the general tests run over
them. So a new method is one entry. `--plugin` (plugins.py) adds the entries of a user's own file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from minbert.commands.options import OptionGroup, all_fields


@dataclass(frozen=True)
class Fixture:
    """What the general tests need of a method.

    options: of the run in which they try it, by flat name. values: of the method's own options,
    those that must make different runs, such as {"sampling_power": [0.0, 1.0]}. beside: for one of
    these, further options of such runs.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def context_of(self, option: str) -> dict[str, Any]:
        """The options with which the values of an own option are tried."""
        options = {name: value for name, value in self.options.items() if name != option}
        return options | dict(self.beside.get(option, {}))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The base of all entries.

    title: one line for the help. options: the groups of the options that only some methods read,
    this one among them. Two methods that read the same option name the same group.
    """

    title: str
    options: tuple[type[OptionGroup], ...] = ()
    fixture: Fixture = Fixture()

    @property
    def own_options(self) -> tuple[str, ...]:
        """The names of the options in its groups."""
        names: list[str] = []
        for group in self.options:
            names += [item.name for item in all_fields(group)]
        return tuple(names)


EntryT = TypeVar("EntryT", bound=Entry)


class Registry(Generic[EntryT], dict[str, EntryT]):
    """The entries of one kind of method by name, in the order in which the help lists them.

    kind: a noun for messages, such as "sampler".
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str, entry: EntryT) -> None:
        """Add an entry. ValueError for a name that exists, or that no flag could take."""
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(
                f"'{name}' cannot name a {self.kind}: use small letters, digits and -, such as "
                "my-method."
            )
        if name in self:
            raise ValueError(f"there is a {self.kind} '{name}' already. Choose another name.")
        self[name] = entry

    def groups(self) -> list[type[OptionGroup]]:
        """The option groups of all entries, each once."""
        groups: dict[type[OptionGroup], None] = {}
        for entry in self.values():
            groups |= dict.fromkeys(entry.options)
        return list(groups)

    def option_names(self) -> list[str]:
        """The names of all options in these groups."""
        names: list[str] = []
        for group in self.groups():
            names += [item.name for item in all_fields(group)]
        return names

    def readers(self, option: str) -> tuple[str, ...]:
        """The names of the methods that read an option."""
        return tuple(name for name, entry in self.items() if option in entry.own_options)

    def help_lines(self) -> Iterator[str]:
        """A line of a list for each entry, as help texts have them."""
        for name, entry in self.items():
            yield f"- {name}: {entry.title}"


class Names(Collection[str]):
    """Words, and after them the names of a registry whose entries pass a test.

    It follows what is registered later, so it may stand in the `choices` of an option.
    """

    def __init__(
        self,
        methods: Registry[EntryT],
        is_included: Callable[[EntryT], bool],
        words: Sequence[str] = (),
    ) -> None:
        self.methods = methods
        self.is_included = is_included
        self.words = tuple(words)

    def __iter__(self) -> Iterator[str]:
        yield from self.words
        for name, entry in self.methods.items():
            if self.is_included(entry):
                yield name

    def __contains__(self, name: object) -> bool:
        return any(name == word for word in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def resolved(place: Any) -> Any:
    """What an entry names: "module:name" is imported, anything else is returned as it is.

    Entries name by text what would import torch. `--help` reads them, and must be quick.
    """
    return resolve_name(place) if isinstance(place, str) else place
