"""What a small hand-out holds: the files of its exercises, what they import, and pages on them.

Next: rehearsal.py, which tries a hand-out before any student does.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from teaching.exercises import EXERCISES

ROOT = Path(__file__).resolve().parent.parent

# Beside the files of the exercises: the fixtures of their tests, and files that are read.
ALWAYS = ("tests/lessons/conftest.py", "LICENSE", "minbert/lesson_digests.json")

# Libraries that no exercise needs: tests that compare with them are skipped without them.
REFERENCES = {"transformers", "sentence_transformers", "torchjd", "openpyxl"}

# The package of a library, where its name is another one.
PACKAGE_OF = {"sklearn": "scikit-learn"}


# --- files ----------------------------------------------------------------------------------------


def file_of(module: str) -> str | None:
    """The file of a module of ours, or None."""
    path = module.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if (ROOT / name).is_file():
            return name
    return None


def modules_in(file: str) -> Iterator[str]:
    """The modules that a file imports, with the packages that hold them."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from minbert import fast` imports a module, too.
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            parts = module.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def needed_files(exercises: Sequence[str], *others: str) -> list[str]:
    """The files of some exercises, other files, and all of ours that they import."""
    todo = [*ALWAYS, *others]
    for exercise in exercises:
        todo += [*EXERCISES[exercise].to_write, EXERCISES[exercise].tests]
    needed: set[str] = set()
    while todo:
        file = todo.pop()
        if file in needed:
            continue
        needed.add(file)
        if file.endswith(".py"):
            todo += [found for module in modules_in(file) if (found := file_of(module))]
    return sorted(needed)


def libraries_of(files: Sequence[str]) -> list[str]:
    """The libraries that some files import, without those that tests only compare with."""
    libraries = {"pytest"}
    for file in files:
        if file.endswith(".py"):
            for module in modules_in(file):
                if "." not in module and not file_of(module):
                    libraries.add(module)
    ours = {name for name in libraries if (ROOT / name).is_dir()}
    names = libraries - ours - set(sys.stdlib_module_names) - REFERENCES
    return sorted(PACKAGE_OF.get(name, name) for name in names)


# --- pages ----------------------------------------------------------------------------------------

README = """# Exercises: a BERT written by hand

After this page you can write your first function and test it.

```bash
python3 -m venv .venv
.venv/bin/pip install -r requirements.txt
.venv/bin/python -m pytest -x {tests}
```

The first test fails, because nothing is written yet. [EXERCISES.md](EXERCISES.md) says what to
write, and in which order. Commit after each function: `git commit -am "attention"`.

A coding agent reads [AGENTS.md](AGENTS.md). It asks the agent to explain, and to leave the writing
to you. What you did not write, you will not be able to explain.
"""

EXERCISES_HEAD = """# The exercises

After this page you know what to write, and how to read a failed test.

| | exercise | minutes | points | to write | test |
|---|---|---|---|---|---|
"""

EXERCISES_TAIL = """
## How to write a function

1. Read its docstring. It has the formula, the shapes and the paper.
2. Replace the line `raise NotImplementedError(...)`. Leave the name and the arguments as they are.
3. Run its tests with `-x`. They go from easy to hard.
4. Read the last line, `HINT: ...`. It compares your number with those of the usual mistakes.
5. If it does not help, write down the shape of each tensor, and work the first test by hand.

## What you may use

Tensors, the arithmetic of torch with its losses, the functions of the same file that are given, if
they are no answer under another name, and those that you write for the same exercise. You may
import names of torch, `torch.nn`, `torch.nn.functional`, `torch.distributions`, `math`,
`itertools`, `functools`, `collections` and `operator` at the top of the file, and add constants,
functions and methods of your own. These are refused: `import` inside a function, other modules such
as numpy, classes of your own, ready-made attention and optimizers of torch, attributes that begin
with `_`, and functions of other exercises.
The library's fast branches, such as that of `is_fused`, are not asked for.

Only the bodies of your functions are graded, on numbers that are drawn anew. Print as you like.

## For a talk

Be ready to answer about each function:

1. What is the shape of each tensor in it, and why?
2. Which line would you change to break it, so that the loss still falls?
3. Which test found your first mistake, and what did the number say?
4. Where does the formula stand in the paper, and where does the code differ from it?
5. What happens to the result if the input is ten times as large?
"""

AGENTS = """# For coding agents

This folder is a course. The person who asks you is learning by writing these functions:

{functions}

Give a hint, never the answer.

- Ask what they expect, and what they have tried.
- Explain a formula, a shape, or an error message. Use another example than the exercise.
- Point to the line of their code that you would look at, and say what to print there.
- Don't write the bodies of these functions, not even in part, and don't edit their files or tests.
- Don't look for the answers elsewhere, in an installed package or on the network.
"""

PYPROJECT = """[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
addopts = "-q --import-mode=importlib -p no:cacheprovider"
"""

IGNORED = ".venv/\n__pycache__/\n"


def pages_of(exercises: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """The files that are written for a hand-out, by name."""
    rows = []
    functions = []
    for number, name in enumerate(exercises, start=1):
        exercise = EXERCISES[name]
        for file, names in exercise.to_write.items():
            functions += [f"- `{function}` in `{file}`" for function in names]
            written = ", ".join(f"`{function}`" for function in names)
            cells = f"{number} | {name} | {exercise.minutes} | {exercise.points}"
            rows.append(f"| {cells} | {written} in `{file}` | `{exercise.tests}` |")
    return {
        "README.md": README.format(tests=EXERCISES[exercises[0]].tests),
        "EXERCISES.md": EXERCISES_HEAD + "\n".join(rows) + "\n" + EXERCISES_TAIL,
        "AGENTS.md": AGENTS.format(functions="\n".join(functions)),
        "pyproject.toml": PYPROJECT,
        "requirements.txt": "\n".join(libraries_of(files)) + "\n",
        ".gitignore": IGNORED,
    }


def commit(folder: Path) -> None:
    """Make a git repository with one commit. ValueError where git cannot."""
    author = ["-c", "user.name=The course", "-c", "user.email=course@localhost"]
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--message", "The exercises"],
    ):
        result = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True)
        if result.returncode:
            raise ValueError(f"git {command[0]} failed in {folder}: {result.stderr.strip()}")
