"""What a small hand-out holds: the files of its exercises, what they import, and pages on them.

Next: rehearsal.py, which tries a hand-out before any student does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from minbert import DEFINED_IN
from minbert.commands.hidden import ROOT
from teaching.exercises import EXERCISES, WithoutBranches

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


def imports_in(source: str) -> Iterator[str]:
    """The modules that a file imports. A package is not among them if only modules of it are."""
    # The imports for types do not run.
    tree = WithoutBranches("TYPE_CHECKING").visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                # `from minbert import fast` imports a module, too.
                inner = f"{node.module}.{alias.name}"
                yield inner if file_of(inner) else node.module
                # The package minbert imports these when their names are asked for.
                if node.module == "minbert" and alias.name in DEFINED_IN:
                    yield f"minbert.{DEFINED_IN[alias.name]}"


def needed_files(exercises: Sequence[str], *others: str) -> dict[str, str]:
    """The files of some exercises, other files, and all of ours that they import: texts by name.

    A package of which only modules are imported needs no more than its folder, so its __init__.py
    is the first line of its text alone.
    """
    todo = [*ALWAYS, *others]
    for name in exercises:
        todo += [EXERCISES[name].file, EXERCISES[name].tests, *EXERCISES[name].traced]
    files: dict[str, str] = {}
    while todo:
        file = todo.pop()
        if file not in files:
            files[file] = (ROOT / file).read_text(encoding="utf-8")
            modules = imports_in(files[file]) if file.endswith(".py") else ()
            todo += filter(None, map(file_of, modules))
    for file in list(files):
        for folder in Path(file).parents:
            package = (folder / "__init__.py").as_posix()
            if (ROOT / package).is_file() and package not in files:
                title = (ROOT / package).read_text(encoding="utf-8").partition("\n")[0]
                files[package] = title.removesuffix('"""') + '"""\n'
    return dict(sorted(files.items()))


def libraries_of(files: Mapping[str, str]) -> list[str]:
    """The libraries that some files import, without those that tests only compare with."""
    names = {"pytest"}
    for file, text in files.items():
        if file.endswith(".py"):
            names |= {module.partition(".")[0] for module in imports_in(text)}
    names -= {*sys.stdlib_module_names, *REFERENCES}
    return sorted(PACKAGE_OF.get(name, name) for name in names if not (ROOT / name).is_dir())


# --- pages ----------------------------------------------------------------------------------------

README = """# Exercises: a BERT written by hand

After this page you can write your first function and test it.

```bash
python3 -m venv .venv
.venv/bin/pip install -r requirements.txt
.venv/bin/python -m pytest -x {tests}
```

The first test fails, because nothing is written yet. [EXERCISES.md](EXERCISES.md) says what to
write, and in which order. Commit after each function: `git commit -am "My first function"`.

- Python must be 3.10 or newer. On Linux, pip installs a PyTorch with the libraries for GPUs. If you
  have no GPU, run this before the second command. It is a much smaller download:
  `.venv/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu`
- Some tests compare with other libraries, such as transformers. Without the library they are
  skipped, and no point is lost. With `-rs`, pytest says which one is missing.
- This folder is a part of a larger project. Comments also name files that are only in the full
  project. No exercise needs them.

A coding agent reads [AGENTS.md](AGENTS.md). It asks the agent to explain, and to leave the writing
to you. What you did not write, you will not be able to explain.
"""

EXERCISES_HEAD = """# The exercises

After this page you know what to write, and how to read a failed test. The order of the exercises
counts: a later one may call an earlier one, as the tests of `layers` call `attention`.

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

## What to hand in

The files of the table, under the names that they have here. Other files do not matter, but leave
`.venv` out: it is large, and may hold other files of these names.

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


def pages_of(exercises: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """The files that are written for a hand-out, by name."""
    rows = []
    functions = []
    for number, name in enumerate(exercises, start=1):
        exercise = EXERCISES[name]
        functions += [f"- `{function}` in `{exercise.file}`" for function in exercise.to_write]
        written = ", ".join(f"`{function}`" for function in exercise.to_write)
        cells = f"{number} | {name} | {exercise.minutes} | {exercise.points}"
        rows.append(f"| {cells} | {written} in `{exercise.file}` | `{exercise.tests}` |")
    return {
        "README.md": README.format(tests=EXERCISES[exercises[0]].tests),
        "EXERCISES.md": EXERCISES_HEAD + "\n".join(rows) + "\n" + EXERCISES_TAIL,
        "AGENTS.md": AGENTS.format(functions="\n".join(functions)),
        "pyproject.toml": PYPROJECT,
        "requirements.txt": "\n".join(libraries_of(files)) + "\n",
        ".gitignore": IGNORED,
    }
