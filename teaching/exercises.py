"""The exercises of a course: what the students write, and the tests that they run.

Next: handout.py, which removes the answers, and grafting.py, which takes the students' answers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# The body of a function that the student writes.
TO_WRITE = 'raise NotImplementedError("{name} is not written yet")  # yours to write'

# The body of a function that is the answer under another name.
LEFT_OUT = 'raise NotImplementedError("{name} is an answer under another name")'


class Exercise(NamedTuple):
    """What the students write, and the tests that they run."""

    file: str

    # The functions of the file that the students write.
    to_write: Sequence[str]

    # The file of tests.
    tests: str

    # Also emptied: functions of the file that are an answer under another name.
    left_out: Sequence[str] = ()

    # Files that `trace --against` runs, if no test imports them.
    traced: Sequence[str] = ()

    # For the students: about how long it takes, and what it is worth.
    minutes: int = 60
    points: int = 10

    def bodies(self) -> dict[str, str]:
        """Collect the new bodies of all functions, by name."""
        bodies = {name: TO_WRITE.format(name=name) for name in self.to_write}
        return bodies | {name: LEFT_OUT.format(name=name) for name in self.left_out}


EXERCISES: dict[str, Exercise] = {
    "attention": Exercise(
        file="minbert/attention.py",
        to_write=(
            "mask_to_bias",
            "attention",
            "MultiHeadAttention.project",
            "MultiHeadAttention.forward",
        ),
        tests="tests/lessons/test_attention.py",
        traced=("minbert/bert.py",),
        minutes=90,
        points=15,
    ),
    "optimizer": Exercise(
        file="minbert/optimizer.py",
        to_write=("AdamW.update",),
        tests="tests/lessons/test_optimizer.py",
        minutes=60,
        points=10,
    ),
    "layers": Exercise(
        file="minbert/bert.py",
        to_write=("BertEmbeddings.forward", "FeedForward.forward", "BertLayer.forward"),
        tests="tests/lessons/test_layers.py",
        minutes=60,
        points=10,
    ),
    "schedules": Exercise(
        file="minbert/schedule.py",
        to_write=("linear", "cosine"),
        tests="tests/lessons/test_schedules.py",
        minutes=30,
        points=5,
    ),
    "masking": Exercise(
        file="minbert/pretraining/mlm.py",
        to_write=("mask_tokens",),
        tests="tests/lessons/test_masking.py",
        minutes=60,
        points=10,
    ),
    "losses": Exercise(
        file="multitask/losses.py",
        to_write=("sentiment_loss", "paraphrase_loss", "similarity_loss"),
        tests="tests/lessons/test_task_losses.py",
        # The squared error with another word.
        left_out=("absolute_loss",),
        minutes=45,
        points=10,
    ),
    "contrastive": Exercise(
        file="contrastive/losses.py",
        to_write=("info_nce",),
        tests="tests/lessons/test_contrastive_losses.py",
        # With one direction bsc is InfoNCE. The other two have its lines, with more candidates.
        left_out=("bsc", "nt_xent", "self_guided_opt1"),
        minutes=60,
        points=10,
    ),
    "samplers": Exercise(
        file="multitask/sampling.py",
        to_write=("joint", "mt_dnn"),
        tests="tests/lessons/test_samplers.py",
        minutes=60,
        points=10,
    ),
    "surgery": Exercise(
        file="multitask/surgery.py",
        to_write=("pcgrad_weights",),
        tests="tests/lessons/test_surgery.py",
        # With all targets 0 it is PCGrad.
        left_out=("gradvac_weights",),
        minutes=90,
        points=15,
    ),
}
DEFAULT_EXERCISES = ("attention", "optimizer", "layers")


def exercise_of(name: str) -> Exercise:
    """The exercise in which the students write a function. KeyError where there is none."""
    for exercise in EXERCISES.values():
        if name in exercise.to_write:
            return exercise
    raise KeyError(name)


def functions(tree: ast.AST, prefix: str = "") -> dict[str, ast.FunctionDef]:
    """Find the functions of a module and the methods of its classes, by names as "AdamW.update"."""
    by_name = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            by_name[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            by_name |= functions(node, f"{node.name}.")
    return by_name


def without_answers(source: str, bodies: Mapping[str, str]) -> str:
    """Replace the bodies of some functions behind their docstrings.

    bodies: from a function's name to its new body. Raises KeyError for a name that is not in the
    source.
    """
    by_name = functions(ast.parse(source))
    lines = source.splitlines()

    # From the end of the file, so that the line numbers before it stay right.
    for name in sorted(bodies, key=lambda name: by_name[name].lineno, reverse=True):
        node = by_name[name]
        has_docstring = ast.get_docstring(node) is not None
        body = node.body[1:] if has_docstring else node.body

        # Comments in front of the first statement are a part of the answer.
        start = body[0].lineno - 1
        while lines[start - 1].lstrip().startswith("#"):
            start -= 1

        indent = " " * body[0].col_offset
        new_lines = [f"{indent}{line}".rstrip() for line in bodies[name].splitlines()]
        lines[start : node.end_lineno] = new_lines
    return "\n".join(lines) + "\n"


def write_bodies(file: Path, bodies: Mapping[str, str]) -> None:
    """Replace the bodies of some functions in a file, as `without_answers` does."""
    source = file.read_text(encoding="utf-8")
    file.write_text(without_answers(source, bodies), encoding="utf-8")


class WithoutBranches(ast.NodeTransformer):
    """Removes the branches with some condition, such as the fast ones, which no student writes."""

    def __init__(self, condition: str) -> None:
        self.condition = condition

    def visit_If(self, node: ast.If) -> ast.If | None:
        """Drop a branch whose condition holds the text."""
        return None if self.condition in ast.unparse(node.test) else node


def released_body(source: str, name: str) -> str:
    """The body of a function without its docstring, comments and fast branches."""
    node = WithoutBranches("fast.is_on()").visit(functions(ast.parse(source))[name])
    statements = node.body[1:] if ast.get_docstring(node) else node.body
    return "\n".join(ast.unparse(statement) for statement in statements)
