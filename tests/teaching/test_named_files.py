"""A file that a hand-out names is in the hand-out, or the text says that it is elsewhere."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from teaching import handout
from teaching.exercises import DEFAULT_EXERCISES, EXERCISES, functions
from tests.teaching.test_handout import needs_git

# A file of a project such as this one: docs/tour.md, bert.py. Not a model's config.json.
FILE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.(?:py|md|sh|toml)\b")

# Where a link of Markdown leads.
LINK = re.compile(r"\]\(([^)]+)\)")

COMMAND = re.compile(r"python3? -m ([\w.]+)")

# What a text says of a file that is not in the hand-out.
ELSEWHERE = "in the full project"

# What the page README says of all other files.
README_SAYS = "Comments also name files that are only in the full project."


def texts_of_python(source: str) -> Iterator[str]:
    """The strings of a Python file, by paragraphs, and its comments."""
    comment: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comment.append(token.string)
        elif token.type != tokenize.NL:
            yield " ".join(comment)
            comment = []
        if token.type == tokenize.STRING:
            yield from token.string.split("\n\n")


def texts_of(path: Path) -> list[str]:
    """The paragraphs of a file that a student reads, each as one line."""
    source = path.read_text(encoding="utf-8")
    texts = texts_of_python(source) if path.suffix == ".py" else source.split("\n\n")
    return [" ".join(text.split()) for text in texts]


def is_module(name: str, folder: Path) -> bool:
    """Whether `python -m NAME` starts in a folder."""
    path = folder / name.replace(".", "/")
    if path.with_suffix(".py").is_file() or (path / "__main__.py").is_file():
        return True
    is_ours = (handout.ROOT / name.split(".")[0]).is_dir()
    return not is_ours and importlib.util.find_spec(name) is not None


class Names:
    """The files of a folder, by the ways in which a text may name them."""

    def __init__(self, files: Sequence[str]) -> None:
        self.ends = set()
        for file in files:
            parts = file.split("/")
            self.ends |= {"/".join(parts[start:]) for start in range(len(parts))}

    def __contains__(self, name: str) -> bool:
        return name in self.ends


def told_to_read(folder: Path, exercises: Sequence[str]) -> dict[str, list[str]]:
    """The texts that a student has to read: pages, tests, and the functions to write."""
    paths = [*folder.glob("*.md"), *folder.glob("tests/**/*.py")]
    texts = {str(path.relative_to(folder)): texts_of(path) for path in paths}
    for exercise in exercises:
        file, names = EXERCISES[exercise].file, EXERCISES[exercise].to_write
        by_name = functions(ast.parse((folder / file).read_text(encoding="utf-8")))
        docstrings = [ast.get_docstring(by_name[name]) or "" for name in names]
        texts[file] = [" ".join(text.split()) for text in docstrings]
    return texts


def dead_ends_of_text(text: str, folder: Path, here: Names) -> Iterator[str]:
    """The files, links and commands of a paragraph that a student does not have."""
    for name in FILE.findall(text):
        if name not in here and ELSEWHERE not in text.lower():
            yield f"names {name}"
    for name in COMMAND.findall(text):
        if not is_module(name, folder):
            yield f"python -m {name} does not start"
    for link in LINK.findall(text):
        if not (folder / link).exists():
            yield f"links to {link}"


def dead_ends(folder: Path, exercises: Sequence[str]) -> list[str]:
    """The places of a hand-out that name what a student does not have."""
    paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    here = Names([path.relative_to(folder).as_posix() for path in paths])
    found = []
    for file, texts in told_to_read(folder, exercises).items():
        for text in texts:
            found += [f"{file}: {words}" for words in dead_ends_of_text(text, folder, here)]

    # Other files are the library. README says that some of what they name is elsewhere.
    if README_SAYS not in " ".join(texts_of(folder / "README.md")):
        found.append("README.md: does not say where other files are")
    anywhere = Names(handout.tracked())
    for path in paths:
        if path.suffix == ".py":
            paths_named = [name for name in FILE.findall(" ".join(texts_of(path))) if "/" in name]
            missing = [name for name in paths_named if name not in anywhere and name.islower()]
            found += [f"{path.name}: names {name}, which is nowhere" for name in missing]
    return found


@needs_git
@pytest.mark.parametrize(
    "names", [DEFAULT_EXERCISES, *((name,) for name in EXERCISES), tuple(EXERCISES)], ids=str
)
def test_a_handout_names_no_file_that_is_missing(tmp_path, names):
    folder = tmp_path / "course"
    handout.hand_out(folder, names, whole=False)
    assert dead_ends(folder, names) == []


@needs_git
def test_a_missing_file_is_noticed(tmp_path):
    """The negative control: each place of a hand-out names something that is not there."""
    folder = tmp_path / "course"
    handout.hand_out(folder, ("schedules",), whole=False)
    for file, old, new in (
        ("tests/lessons/test_schedules.py", '"""Learning', '"""See docs/tour.md.\n\nLearning'),
        ("tests/lessons/test_schedules.py", "# What comes", "# As in teaching/grade.py: what"),
        ("minbert/schedule.py", "Compare with", "See docs/museum.md. Compare with"),
        ("minbert/schedule.py", '"""Learning', '"""See docs/nowhere.md. Learning'),
        ("EXERCISES.md", "## For a talk", "[Docs](docs/README)\n\n## For a talk"),
        ("AGENTS.md", "Give a hint", "Run `python -m teaching.grade`. Give a hint"),
        ("README.md", "the full\n  project", "other\n  projects"),
    ):
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text, old
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert sorted(dead_ends(folder, ("schedules",))) == [
        "AGENTS.md: python -m teaching.grade does not start",
        "EXERCISES.md: links to docs/README",
        "README.md: does not say where other files are",
        "minbert/schedule.py: names docs/museum.md",
        "schedule.py: names docs/nowhere.md, which is nowhere",
        "tests/lessons/test_schedules.py: names docs/tour.md",
        "tests/lessons/test_schedules.py: names teaching/grade.py",
    ]


@needs_git
def test_a_text_may_say_that_a_file_is_in_the_full_project(tmp_path):
    folder = tmp_path / "course"
    handout.hand_out(folder, ("schedules",), whole=False)
    page = folder / "EXERCISES.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(f"{before}\nIn the full project, docs/tour.md follows a row.\n")
    assert dead_ends(folder, ("schedules",)) == []
