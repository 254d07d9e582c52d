"""What a small hand-out holds: the files of its exercises, what they import, and pages on them.

The zip that Gradescope runs holds the grader, what it imports, and two scripts.

Next: rehearsal.py, which tries a hand-out before any student does.
"""

from __future__ import annotations

import ast
import sys
import zipfile
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

# The pages of a hand-out, and the scripts of a grader.
TEMPLATES = Path(__file__).parent / "templates"


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


def texts_from(folder: str, exercises: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """The texts of a folder of templates/ for some exercises, by name.

    files: their libraries are those that a text lists.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # minbert/reporting has one, too, and would bring its plots into the zip.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES / folder),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    chosen = {name: EXERCISES[name] for name in exercises}
    libraries = libraries_of(files)
    texts = {}
    for name in environment.list_templates():
        text = environment.get_template(name).render(exercises=chosen, libraries=libraries)
        texts[Path(name).stem] = text
    return texts


# --- the zip --------------------------------------------------------------------------------------


def write_zip(path: Path, exercises: Sequence[str]) -> None:
    """Write the zip of some exercises. It holds the answers, as the clone does."""
    # grafting.py imports the files of the exercises by name.
    needed = needed_files(exercises, "teaching/grade.py", "teaching/grading.py")
    files = {file: text for file, text in needed.items() if not file.startswith("tests/")}
    files |= texts_from("grader", exercises, files)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            info = zipfile.ZipInfo(file)
            info.external_attr = 0o755 << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
