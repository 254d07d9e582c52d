"""docs/README.md, the map: every package and file with the line that its `__init__.py` gives it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "data",
    "minbert",
    "contrastive",
    "multitask",
    "experiments",
    "command_line",
    "teaching",
    "benchmarks",
)


def listed(folder: Path) -> list[tuple[str, str]]:
    """(name, line) of each file and package that `__init__.py` in this folder lists, in order."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return re.findall(r"(?m)^ *([\w.]+(?:\.py|/))  +(\S.*)$", text)


def first_line(folder: Path) -> str:
    """What the package is, from its docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def map_of(folder: Path) -> list[str]:
    """The rows of the map for a package and the packages in it."""
    path = folder.relative_to(ROOT).as_posix()
    lines = ["", f"### {path}", "", first_line(folder), "", "| file | |", "|---|---|"]
    inner = []
    for name, line in listed(folder):
        lines.append(f"| `{path}/{name}` | {line} |".replace("|u - v|", "abs(u - v)"))
        if name.endswith("/"):
            inner += map_of(folder / name)
    return lines + inner


def test_the_map_is_that_of_the_packages():
    expected = []
    for package in PACKAGES:
        expected += map_of(ROOT / package)
    page = (ROOT / "docs" / "README.md").read_text("utf-8")
    _, _, rest = page.partition("## Every package and file\n")
    assert rest.strip() == "\n".join(expected).strip(), (
        "docs/README.md differs from the lists in the packages' __init__.py. Write the text below "
        "under its heading 'Every package and file':\n" + "\n".join(expected)
    )


def test_the_tour_passes_through_at_most_fifteen_files():
    tour = (ROOT / "docs" / "tour.md").read_text("utf-8")
    files: list[str] = []
    for line in re.findall(r"(?m)^Files?: (.*)$", tour):
        files += re.findall(r"`([^`]+)`", line)
    assert 0 < len(files) <= 15 and len(set(files)) == len(files)
    assert all((ROOT / name).is_file() for name in files)
    assert (
        f"{len(files)} files" in tour and f"{len(files)} files" in (ROOT / "README.md").read_text()
    )
