"""Registries: the methods that an option names, each with everything that belongs to it.

    SAMPLERS: Registry[Sampler] = Registry("sampler", Sampler)
    SAMPLERS.register("joint", Sampler(title="one batch of every task", ...))

The choices, checks and help of the option are made from the entries, and the general tests run over
them. `--plugin` (plugins.py) adds the entries of a user's own file.

`--help` reads the registries and must be quick, so they stand in files without torch. The function
of a method of ours stands in a file with torch, in a table by name. A user's entry brings its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, NamedTuple, TypeVar

from minbert.commands.options import MethodOptions, OptionGroup, all_fields


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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The base of all entries.

    title: one line for the help. options: the groups of the options that only some methods read,
    this one among them. Two methods that read the same option name the same group. arguments: the
    parameters of its function, and the option (or the property of a group) that each one gets, such
    as {"limit": "joint_limit"}. fixture: what the general tests need of a user's method.
    """

    title: str
    options: tuple[type[OptionGroup], ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    fixture: Fixture = Fixture()

    def arguments_from(self, method_options: MethodOptions) -> dict[str, Any]:
        """The values of its options, by the parameters of its function."""
        return {name: method_options.value(of) for name, of in self.arguments.items()}

    @property
    def own_options(self) -> tuple[str, ...]:
        """The names of the options in its groups."""
        names: list[str] = []
        for group in self.options:
            names += [item.name for item in all_fields(group)]
        return tuple(names)


EntryT = TypeVar("EntryT", bound=Entry)


class Registered(NamedTuple):
    """An entry that `register` has added: a file of --plugin made it."""

    registry: Registry[Any]
    name: str


REGISTERED: list[Registered] = []  # in the order of the calls


class Registry(Generic[EntryT], dict[str, EntryT]):
    """The entries of one kind of method by name, in the order in which the help lists them.

    kind: a noun for messages, such as "sampler". entry_class: of its entries.
    """

    def __init__(self, kind: str, entry_class: type[EntryT]) -> None:
        super().__init__()
        self.kind = kind
        self.entry_class = entry_class

    def register(self, name: str, entry: EntryT) -> None:
        """Add the entry of a user's method. Our own stand in the registry without this call.

        ValueError for a name that exists, or that no flag could take, for something else than an
        entry of this kind, and for option groups that could make no flags.
        """
        if not isinstance(entry, self.entry_class):
            raise ValueError(
                f"the {self.kind} '{name}' is {type(entry).__name__}; "
                f"{self.entry_class.__name__}(title=..., ...) is expected."
            )
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(
                f"'{name}' cannot name a {self.kind}: use small letters, digits and -, such as "
                "my-method."
            )
        if name in self:
            raise ValueError(f"there is a {self.kind} '{name}' already. Choose another name.")
        for group in entry.options:
            check_group(group)
        self[name] = entry
        REGISTERED.append(Registered(self, name))

    def groups(self) -> list[type[OptionGroup]]:
        """The option groups of all entries, each once."""
        groups: dict[type[OptionGroup], None] = {}
        for entry in self.values():
            groups |= dict.fromkeys(entry.options)
        return list(groups)

    def readers(self, option: str) -> tuple[str, ...]:
        """The names of the methods that read an option."""
        return tuple(name for name, entry in self.items() if option in entry.own_options)

    def help_lines(self) -> Iterator[str]:
        """A line of a list for each entry, as help texts have them."""
        for name, entry in self.items():
            yield f"- {name}: {entry.title}"


def check_group(group: type[OptionGroup]) -> None:
    """ValueError where a class is no option group, or has a field that `flag` did not make."""
    if not (isinstance(group, type) and issubclass(group, OptionGroup)):
        raise ValueError(f"options names {group!r}; a subclass of OptionGroup is expected.")
    # Without the decorator its fields would be those of the class that it extends: none.
    if "__dataclass_fields__" not in vars(group):
        raise ValueError(
            f"{group.__name__} is no dataclass. Write @dataclass(frozen=True) above it."
        )
    for item in fields(group):
        if "help" not in item.metadata:
            raise ValueError(
                f"{group.__name__}.{item.name} is no flag. Write {item.name}: ... = "
                "flag(DEFAULT, HELP)."
            )
    group()  # checks the defaults


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
