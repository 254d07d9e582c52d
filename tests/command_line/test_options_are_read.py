"""Every option is read by some code. One that does nothing would be a promise that is not kept.

The test follows the types of the source: in a function with the argument `options: DataOptions`,
`options.max_length` reads that option, and so does `self.max_length` in the class itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import fields
from pathlib import Path

from command_line.options import Options
from contrastive.registry import METHODS, Settings
from minbert.commands.options import (
    OptionGroup,
    all_fields,
    direct_fields,
    groups_of_methods,
    inner_groups,
)
from multitask.sampler_registry import SAMPLERS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("data", "minbert", "contrastive", "multitask", "command_line")
SETTINGS = "|".join(item.name for item in fields(Settings))

# What a placeholder in getattr(options, f"{task}_{split}") can stand for.
WORDS = {
    "task": "(sst|para|sts|cfimdb)",
    "task.name": "(sst|para|sts|cfimdb)",
    "split": "(train|dev|test)",
    "item.name": f"({SETTINGS})",
}


def classes_in(cls: type[OptionGroup]) -> dict[str, type[OptionGroup]]:
    """A group and all groups inside it, by the name of their class."""
    classes = {cls.__name__: cls}
    for inner in [*groups_of_methods(cls), *inner_groups(cls).values()]:
        classes |= classes_in(inner)
    return classes


GROUPS = classes_in(Options)


def group_in(annotation: ast.expr | None) -> type[OptionGroup] | None:
    """The option group that an annotation names, such as `DataOptions | None`."""
    words = re.findall(r"\w+", ast.unparse(annotation)) if annotation else []
    for word in words:
        if word in GROUPS:
            return GROUPS[word]
    return None


class Reader(ast.NodeVisitor):
    """Collects the options that one file reads, as patterns of their names."""

    def __init__(
        self,
        attributes: dict[str, type[OptionGroup]],
        classes: dict[str, dict[str, type[OptionGroup]]],
    ) -> None:
        self.attributes = attributes  # group of an attribute, such as `setup.options`
        self.classes = classes  # the same by class, of all files
        self.holders: dict[str, dict[str, type[OptionGroup]]] = {}  # local names of such classes
        self.variables: dict[str, type[OptionGroup]] = {}  # group of a local name
        self.arguments: dict[str, type[OptionGroup]] = {}  # group of an argument of any function
        self.patterns: set[str] = set()

    def group_of(self, node: ast.expr) -> type[OptionGroup] | None:
        """The option group that an expression is."""
        # The options of a method: method_options[PowerOptions].
        if isinstance(node, ast.Subscript):
            return GROUPS.get(ast.unparse(node.slice))
        if isinstance(node, ast.Name):
            return self.variables.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and node.value.id in self.holders:
            return self.holders[node.value.id].get(node.attr)
        outer = self.group_of(node.value)
        return inner_groups(outer).get(node.attr) if outer else self.attributes.get(node.attr)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        variables = dict(self.variables)
        attributes = dict(self.attributes)
        if node.name in GROUPS:
            self.variables["self"] = GROUPS[node.name]
        self.generic_visit(node)
        self.variables = variables
        self.attributes = attributes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # An option that is only checked does nothing.
        if "self" in self.variables and node.name.startswith("check"):
            return
        before = dict(self.variables)
        self.holders = {}
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            annotation = ast.unparse(argument.annotation) if argument.annotation else ""
            if annotation in self.classes:
                self.holders[argument.arg] = self.classes[annotation]
            group = group_in(argument.annotation)
            if group is not None:
                self.variables[argument.arg] = group
                self.arguments[argument.arg] = group
        self.generic_visit(node)
        self.variables = before

    def visit_Lambda(self, node: ast.Lambda) -> None:
        # It has no annotations. Its arguments are what the functions of the file call so.
        before = dict(self.variables)
        for argument in node.args.args:
            if argument.arg in self.arguments:
                self.variables[argument.arg] = self.arguments[argument.arg]
        self.generic_visit(node)
        self.variables = before

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        targets = [node.targets[0]]
        values = [node.value]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets = node.targets[0].elts
            values = node.value.elts
        for target, value in zip(targets, values, strict=True):
            group = self.group_of(value)
            if group is not None and isinstance(target, ast.Name):
                self.variables[target.id] = group
            elif group is not None and isinstance(target, ast.Attribute):
                self.attributes[target.attr] = group

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        group = self.group_of(node.value)
        names = {item.name for item in direct_fields(group)} if group else set()
        if node.attr in names:
            self.patterns.add(node.attr)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        is_getattr = ast.unparse(node.func) == "getattr" and len(node.args) > 1
        if not is_getattr or not self.group_of(node.args[0]):
            return
        name = node.args[1]
        if isinstance(name, ast.JoinedStr):
            parts = []
            for part in name.values:
                if isinstance(part, ast.FormattedValue):
                    parts.append(WORDS.get(ast.unparse(part.value), "none"))
                else:
                    parts.append(ast.literal_eval(part))
            self.patterns.add("".join(parts))


def attributes_in(trees: Iterable[ast.Module]) -> dict[str, type[OptionGroup]]:
    """The groups of annotated fields of classes, such as `options: Options` in Setup."""
    attributes = {}
    for tree in trees:
        for node in ast.walk(tree):
            group = group_in(node.annotation) if isinstance(node, ast.AnnAssign) else None
            if group is not None and isinstance(node.target, ast.Name):
                attributes[node.target.id] = group
    return attributes


def classes_with_groups(
    trees: Iterable[ast.Module],
) -> dict[str, dict[str, type[OptionGroup]]]:
    """The groups of the fields of each class that has some, by the name of the class."""
    classes = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in GROUPS:
                classes[node.name] = attributes_in([ast.Module(node.body, [])])
    return {name: fields for name, fields in classes.items() if fields}


def unread(names: Iterable[str], sources: Collection[str]) -> list[str]:
    """The options that none of the sources reads."""
    trees = [ast.parse(source) for source in sources]
    classes = classes_with_groups(trees)
    patterns = set()
    for tree in trees:
        reader = Reader(attributes_in([tree]), classes)
        reader.visit(tree)
        patterns |= reader.patterns
    return [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)]


def test_no_option_that_nothing_reads():
    paths = [ROOT / "run_multitask.py"]
    for package in PACKAGES:
        paths += sorted((ROOT / package).rglob("*.py"))
    paths.remove(ROOT / "command_line" / "checks.py")
    sources = [path.read_text(encoding="utf-8") for path in paths]
    passed = passed_options()
    names = [item.name for item in all_fields(Options) if item.name not in passed]
    assert not unread(names, sources)


def passed_options() -> set[str]:
    """The options that an entry passes to its function. Tests of the entries compare the two."""
    passed: set[str] = set()
    for methods in (SAMPLERS, METHODS):
        for entry in methods.values():
            passed |= set(entry.arguments.values())
    return passed


READS = """
@dataclass
class Setup:
    options: Options

def f(options: DataOptions, other, *, head: HeadOptions | None = None):
    other.token_cache
    return options.max_length, getattr(options, f"{task}_{split}"), head.sharing

def g(setup: Setup):
    options = setup.options
    return options.training.seed, options.multitask.heads.head, setup.options.run.recipe

class EncoderOptions:
    def check(self):
        self.compile

    def folder(self):
        return self.model

class Other:
    def __init__(self, options: TrainingOptions):
        self.options = options

    def f(self):
        return self.attention, self.options.schedule

def h(x):
    return x.options.warmup
"""


def test_what_counts_as_reading():
    names = ["max_length", "sst_dev", "sharing", "seed", "head", "recipe", "model", "schedule"]
    assert unread(names, [READS]) == []


def test_an_option_that_nothing_reads_is_noticed():
    """One of an unknown object, of a path with another ending, of a check, of another class."""
    names = ["token_cache", "sst_dev_out", "compile", "attention", "warmup", "lr"]
    assert unread(names, [READS]) == names
