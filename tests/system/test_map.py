"""docs/README.md, the map: every package and file with the line that its `__init__.py` gives it.

Run this file to write the map anew: `python tests/system/test_map.py`.
"""

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
    "course",
    "tools",
)
# Their files are of interest to few readers. The map links to the list in their __init__.py.
ONLY_LINKED = (
    "data/tables",
    "minbert/commands",
    "minbert/reporting",
    "contrastive/quality",
    "contrastive/train",
    "contrastive/embed",
    "multitask/ensemble",
    "multitask/demo",
    "multitask/errors",
    "multitask/export",
    "command_line",
    "course",
    "experiments",
    "teaching",
    "tools",
)
PAGE = ROOT / "docs" / "README.md"
HEADING = "## Every package and file\n"


def listed(folder: Path) -> list[tuple[str, str]]:
    """(name, line) of each file and package that `__init__.py` in this folder lists, in order."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return re.findall(r"(?m)^ *([\w.]+(?:\.py|/))  +(\S.*)$", text)


def first_line(folder: Path) -> str:
    """What the package is, from its docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def map_of(folder: Path) -> list[str]:
    """The table of the map for a package, and the tables of the packages in it."""
    path = folder.relative_to(ROOT).as_posix()
    lines = ["", f"| `{path}/` | {first_line(folder)} |", "|---|---|"]
    if path in ONLY_LINKED:
        return [*lines, f"| all files | [the list](../{path}/__init__.py) |"]
    inner: list[str] = []
    for name, line in listed(folder):
        if name.endswith("/"):
            inner += map_of(folder / name)
        else:
            lines.append(f"| `{name}` | {line} |".replace("|u - v|", "abs(u - v)"))
    return lines + inner


def text_of_map() -> str:
    """The part of the page under its heading."""
    lines = []
    for package in PACKAGES:
        lines += map_of(ROOT / package)
    return "\n".join(lines).strip() + "\n"


def test_the_map_is_that_of_the_packages():
    _, _, rest = PAGE.read_text("utf-8").partition(HEADING)
    assert rest.strip() == text_of_map().strip(), (
        "docs/README.md differs from the lists in the packages' __init__.py. "
        "Run python tests/system/test_map.py, which writes it anew."
    )


def test_the_map_fits_into_three_hundred_lines():
    assert len(PAGE.read_text("utf-8").splitlines()) <= 300, (
        "docs/README.md is too long. Add a package that few readers look into to ONLY_LINKED."
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


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text.partition(HEADING)[0] + HEADING + "\n" + text_of_map(), "utf-8")
