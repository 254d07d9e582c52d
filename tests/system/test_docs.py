"""The documents agree with the source: links, paths, names, commands, flags, defaults, quoted rows.

A rule goes from one document to (line, complaint) pairs. Each rule is also tried on a text that
breaks it.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from command_line.options import Options
from command_line.parser import parse
from minbert.commands import plugins
from minbert.commands.flags import text_of
from minbert.commands.options import all_fields
from tests.packages import PACKAGES
from tests.plugins.loading import unload

ROOT = Path(__file__).resolve().parents[2]
EVERYWHERE = (*PACKAGES, "tests", "tools")
FIELDS = {item.name: item for item in all_fields(Options)}
# Folders of a run, and those that .gitignore names: they appear when a command is run.
IGNORED = re.findall(r"(?m)^/(.+/)$", (ROOT / ".gitignore").read_text(encoding="utf-8"))
MADE_BY_COMMANDS = ("encoder/", "model/", "checkpoint/", "tensorboard/", *IGNORED)
FILE_TYPE = re.compile(r"\.(py|md|sh|toml|csv|json|txt|safetensors)$")
SOMEWHERE_ELSE = re.compile(
    r"(?<![\w./:])(/(?:work|tmp|home|root|mnt|Users)\b[\w./-]*|\.\./shared\b[\w./-]*|"
    r"\bsandbox\w*|\bsubagent\w*|\bworkplace\b|\bissues show\b)"
)
Complaints = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Document:
    """One Markdown file: its path inside the repository, and its text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[tuple[int, str, bool]]:
        """(number, line, whether it is in a fenced block) of every line but the fences."""
        found, is_code = [], False
        for number, line in enumerate(self.text.splitlines(), start=1):
            if line.lstrip().startswith("```"):
                is_code = not is_code
            else:
                found.append((number, line, is_code))
        return found

    @cached_property
    def spans(self) -> list[tuple[int, str]]:
        """(line, text) of everything in single backticks outside fenced blocks."""
        return [
            (number, span)
            for number, line, is_code in self.lines
            if not is_code
            for span in re.findall(r"`([^`]+)`", line)
        ]


PATHS = [
    ROOT / "README.md",
    *(path for package in ("docs", *EVERYWHERE) for path in sorted((ROOT / package).rglob("*.md"))),
]
DOCUMENTS = [
    Document(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in PATHS
]


@cache
def sources() -> dict[str, str]:
    """Text of our Python files, and of setup.sh, by path."""
    paths = [
        *ROOT.glob("*.py"),
        ROOT / "setup.sh",
        *(path for package in EVERYWHERE for path in (ROOT / package).rglob("*.py")),
    ]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@cache
def names_in(path: str) -> set[str]:
    """What a Python file defines: functions, classes, constants, and Class.member."""
    found = set()
    for node in ast.parse(sources()[path]).body:
        for member in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            prefix = f"{node.name}." if member is not node else ""
            targets = getattr(member, "targets", [getattr(member, "target", None)])
            names = [member.name] if isinstance(member, ast.FunctionDef | ast.ClassDef) else []
            found |= {
                prefix + name
                for name in [*names, *(target.id for target in targets if hasattr(target, "id"))]
            }
    return found


def without_dashes(flag: str) -> str:
    return flag.strip("`").removeprefix("--").replace("-", "_")


# --- the rules ------------------------------------------------------------------------------------


def broken_links(document: Document) -> Complaints:
    text = "\n".join("" if is_code else line for _, line, is_code in document.lines)
    for match in re.finditer(r"\[[^\]]*\]\(([^)\s#]+)", text):
        target, line = match.group(1), document.lines[text.count("\n", 0, match.start())][0]
        if (
            not re.match(r"[a-z]+:", target)
            and not ((ROOT / document.path).parent / target).exists()
        ):
            yield line, f"no {target} beside this document. Write that file, or correct the link"


@cache
def anchors_of(path: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    page = Document(path.name, path.read_text(encoding="utf-8"))
    anchors: set[str] = set()
    for _, line, is_code in page.lines:
        if is_code or not re.match(r"#+ ", line):
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        copies = sum(bool(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", old)) for old in anchors)
        anchors.add(f"{anchor}-{copies}" if copies else anchor)
    return anchors


def broken_anchors(document: Document) -> Complaints:
    """Links to a heading that the page does not have."""
    for line, text, is_code in document.lines:
        if is_code:
            continue
        for target, anchor in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", text):
            path = ROOT / document.path
            if target:
                path = path.parent / target
            is_page = ":" not in target and path.suffix == ".md" and path.exists()
            if is_page and anchor not in anchors_of(path):
                yield line, f"{path.name} has no heading #{anchor}. Correct the link"


def is_path(span: str) -> bool:
    """Whether a span in backticks names a file or folder of the repository."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", span) or any(
        part.isupper() for part in span.split("/")
    ):
        return False  # a part in capitals (NAME, DIR) stands for something
    if f"{span.strip('/')}/".startswith(MADE_BY_COMMANDS):
        return False
    if "/" not in span:
        return span.endswith((".py", ".sh", ".toml", ".md"))
    return (
        span.endswith("/") or bool(FILE_TYPE.search(span)) or (ROOT / span.split("/")[0]).exists()
    )


def missing_paths(document: Document) -> Complaints:
    """Paths from the root or beside the document, and bare names of any of our files."""
    bare = {path.split("/")[-1] for path in sources()}
    for line, span in document.spans:
        places = (ROOT / span, (ROOT / document.path).parent / span)
        if is_path(span) and span not in bare and not any(place.exists() for place in places):
            yield line, f"`{span}` is not there. Correct the path, or remove the sentence"


def missing_names(document: Document) -> Complaints:
    """`path/to/file.py::name` must name something that the file defines."""
    for line, span in document.spans:
        path, _, name = span.partition("::")
        if name and path not in sources():
            yield (
                line,
                f"`{span}`: there is no file {path}. Write its path from the root",
            )
        elif name and name not in names_in(path):
            yield line, f"`{span}`: {path} does not define {name}. Write what it is called today"


def commands(document: Document) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of every python or bash command, in fenced blocks and in backticks.

    Chains of commands are taken apart.
    """
    joined: list[tuple[int, str]] = []
    for number, line, is_code in document.lines:
        if is_code and joined and joined[-1][1].endswith("\\"):
            joined[-1] = (joined[-1][0], joined[-1][1][:-1] + line)
        elif is_code:
            joined.append((number, line))
    for number, text in [*joined, *document.spans]:
        for piece in re.split(r"&&|\|\||[;|]", text):
            match = re.match(r"\s*(?:\$ |do |\w+=\S* )*((?:\S*/)?(?:python[\d.]*|bash)\s.+)", piece)
            if match:
                words = shlex.split(match.group(1), comments=True)
                end = next(
                    (place for place, word in enumerate(words) if re.match(r"\d?[<>]|&$", word)),
                    None,
                )
                yield number, words[:end]


def file_of(module: str) -> str:
    """The file that `python -m MODULE` runs: that of a package is its __main__.py."""
    path = module.replace(".", "/")
    return f"{path}/__main__.py" if f"{path}/__main__.py" in sources() else f"{path}.py"


def flags_in(text: str) -> set[str]:
    """The flags that a file names, and those that it declares as fields of an option group."""
    names = re.findall(r"(?m)^    (\w+): [^=]+ = (?:flag|argument)\(", text)
    names = [name.rstrip("_") for name in names]
    declared = [f"--{name}" for name in names] + [f"--{name.replace('_', '-')}" for name in names]
    return {*re.findall(r"--[a-z][\w-]*", text), *declared}


def fault_of(words: list[str]) -> str | None:
    """What is wrong with a command, or None."""
    target, *rest = words[1:]
    if target == "-m":
        module, *rest = rest
        if module.split(".")[0] not in EVERYWHERE:
            return fault_of_other(module, rest)
        target = file_of(module)
    if target not in sources():
        return None if target.startswith(("-", *MADE_BY_COMMANDS)) else f"there is no file {target}"
    if target == "run_multitask.py":
        return fault_of_run(rest)
    # The flags of a command may stand in another file of its package.
    folder = target.rpartition("/")[0]
    known = {"--help"}
    for path, text in sources().items():
        if path.startswith(folder):
            known |= flags_in(text)
    wrong = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
    return f"{target} has no flag {wrong[0]}" if wrong else None


def fault_of_other(module: str, arguments: list[str]) -> str | None:
    """What is wrong with a command that is not ours, such as pytest."""
    for word in arguments:
        if word.startswith("tests/") and not (ROOT / word.split("::")[0]).exists():
            return f"{word} is not there"
    return None if importlib.util.find_spec(module) else f"there is no module {module}"


def fault_of_run(flags: list[str]) -> str | None:
    """What command_line/parser.py says to the flags of a run_multitask.py command.

    A shell variable stands for a number.
    """
    if flags[:1] == ["--resume"] and len(flags) == 2:  # its folder is an example
        return None
    loaded = set(plugins.LOADED)
    with (
        contextlib.redirect_stderr(io.StringIO()) as said,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        try:
            parse([re.sub(r"^\$\{?\w+\}?$", "1", word) for word in flags])
        except SystemExit as stop:
            return said.getvalue().strip().splitlines()[-1] if stop.code else None
        finally:
            for place in set(plugins.LOADED) - loaded:
                unload(plugins.LOADED[place])
    return None


def wrong_commands(document: Document) -> Complaints:
    for line, words in commands(document):
        if fault := fault_of(words):
            yield line, f"`{' '.join(words)}`: {fault}. Print a command that works"


def wrong_flags(document: Document) -> Complaints:
    """Flags in backticks on their own, such as `--sampling joint`."""
    known: set[str] = set()
    for path, text in sources().items():
        if not Path(path).name.startswith("test_"):
            known |= flags_in(text)
    for line, span in document.spans:
        flag, *values = span.split() if span.startswith("--") else [""]
        item = FIELDS.get(without_dashes(flag))
        choices = item.metadata["choices"] if item else ()
        if flag and not item and flag not in known:
            yield line, f"no command has the flag {flag}. Correct it"
        elif choices and values and not values[0].isupper() and values[0] not in choices:
            yield line, f"{flag} has no choice '{values[0]}'. Write one of {', '.join(choices)}"


def wrong_defaults(document: Document) -> Complaints:
    """Rows of tables that begin with | option | default |."""
    is_table = False
    for number, line, _ in document.lines:
        cells = [cell.strip() for cell in line.split("|")[1:]] if line.startswith("|") else []
        is_table = cells[:2] == ["option", "default"] or (is_table and bool(cells))
        if not is_table or not cells[0].startswith("`"):
            continue
        item = FIELDS.get(without_dashes(cells[0]))
        default = str(item.default).replace("False", "off").replace("()", "none") if item else None
        if cells[1] != default:
            yield (
                number,
                f"the default of {cells[0]} is {default}, not {cells[1]}. Copy it",
            )


def strange_rows(document: Document) -> Complaints:
    """Ids, and tab-separated rows in fenced blocks, that the sample does not hold."""
    sample = "".join(path.read_text("utf-8") for path in (ROOT / "data" / "sample").glob("*.csv"))
    for number, line, is_code in document.lines:
        quoted = (
            [f"{line}\n"]
            if is_code and line.count("\t") >= 2
            else re.findall(r"\b[0-9a-f]{25}\b", line)
        )
        yield from (
            (number, f"the sample does not hold '{text.strip()}'. Quote what it holds")
            for text in quoted
            if text not in sample
        )


def strange_places(document: Document) -> Complaints:
    for number, line, _ in document.lines:
        for place in SOMEWHERE_ELSE.findall(line):
            yield (
                number,
                f"'{place}' means nothing to a reader. Name a place in the repository, or say DIR",
            )


def broken_python(document: Document) -> Complaints:
    for match in re.finditer(r"(?ms)^( *)```python\n(.*?)^ *```", document.text):
        try:
            ast.parse(textwrap.dedent(match.group(2)))
        except SyntaxError as error:
            start = document.text.count("\n", 0, match.start()) + 1
            yield start + (error.lineno or 0), f"not Python ({error.msg}). Correct the example"


# --- the documents keep them ----------------------------------------------------------------------

RULES = [
    broken_links,
    broken_anchors,
    strange_places,
    missing_paths,
    missing_names,
    wrong_commands,
    wrong_flags,
    wrong_defaults,
    strange_rows,
    broken_python,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_document_keeps(rule):
    complaints = [
        f"{document.path}, line {line}: {complaint}."
        for document in DOCUMENTS
        for line, complaint in rule(document)
    ]
    assert not complaints, "\n".join(["the documents and the source disagree:", *complaints])


def test_every_option_is_explained_by_help():
    with contextlib.redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit):
        parse(["--help-all"])
    text = "".join(shown.getvalue().split())
    words = {name: "".join(text_of(item).split()) for name, item in FIELDS.items()}
    mute = [
        name
        for name in FIELDS
        if not words[name] or words[name] not in text or f"--{name}" not in text
    ]
    assert not mute, (
        f"--help-all says nothing of --{', --'.join(mute)}. Give it a help text in its options.py."
    )


def test_every_option_stands_in_a_document():
    """The flags of single files excepted: they are the course's, and --help lists them."""
    flags = {
        without_dashes(flag)
        for document in DOCUMENTS
        for flag in re.findall(r"--[a-z][\w-]*", document.text)
    }
    absent = [
        name for name, item in FIELDS.items() if not item.metadata["is_file"] and name not in flags
    ]
    assert not absent, (
        f"no document names --{', --'.join(absent)}. Add a row to the settings of a page in docs/."
    )


# --- negative controls: each rule speaks up when broken, and only then ----------------------------

BROKEN = [
    (broken_links, "See [the\ntour](docs/detour.md)."),
    (broken_anchors, "See [a rule](docs/README.md#the-rule)."),
    (missing_paths, "Read `minbert/berd.py`, in the package `minbert/`."),
    (missing_paths, "Read `berd.py` and the rows of `data/sample`."),
    (missing_names, "`minbert/bert.py::BertModel.backward` encodes."),
    (missing_names, "`bert.py::BertModel` is not the whole path."),
    (
        wrong_commands,
        "```bash\nbash setup.sh && .venv/bin/python run_multitask.py \\\n  --sampling joined\n```",
    ),
    (
        wrong_commands,
        "```\nbash setup.sh --dev; HF_HUB_OFFLINE=1 python -m minbert.pretrain --out DIR\n```",
    ),
    (wrong_commands, "Run `python -m minbert.pretraining --output DIR`, or `python -m pytest`."),
    (wrong_commands, "```bash\npython -m pytest tests/test_berd.py\n```"),
    (wrong_flags, "Pass `--smapling joint`."),
    (wrong_flags, "Pass `--sampling joined`."),
    (wrong_defaults, "| option | default | |\n|---|---|---|\n| `--epochs` | 5 | |"),
    (strange_rows, "```text\n0\t87013d916465e5453ce817371\t Another sentence .\t3\n```"),
    (strange_places, "It is in /tmp/run now."),
    (broken_python, "```python\nprint(\n```"),
]
KEPT = [
    (broken_links, "[A page](LICENSE), [the web](https://example.org/x), [here](#a-heading)"),
    (broken_anchors, "[Rules](docs/README.md#the-rules), [the web](https://example.org/x.md#y)"),
    (
        missing_paths,
        "`minbert/bert.py`, `bert.py`, `data/`, `runs/NAME/run.json`, `1/K`, `a.json`, `DIR/x.py`",
    ),
    (
        missing_names,
        "`minbert/bert.py::BertModel.forward`, `multitask/options.py::FineTuningOptions.epochs`, "
        "`multitask/tasks.py::TASKS`",
    ),
    (
        wrong_commands,
        "```bash\nfor seed in 1 2; do python run_multitask.py --seed $seed > log; done\n```",
    ),
    (
        wrong_commands,
        "```bash\n$ .venv/bin/python run_multitask.py --resume runs/NAME  # goes on\n```",
    ),
    (
        wrong_flags,
        "`--sampling joint`, `--data_dir DIR`, `--dev`, `--corpus`, `--resume runs/NAME`",
    ),
    (
        wrong_defaults,
        "| option | default |\n|---|---|\n| `--use-gpu` | off |\n| `--data-dir` | data/sample |",
    ),
    (strange_places, "A step/work unit, `data/tmp`, https://example.org/home"),
]


@pytest.mark.parametrize(
    ("rule", "text", "count"), [(*row, 1) for row in BROKEN] + [(*row, 0) for row in KEPT]
)
def test_a_rule_complains_of_what_is_broken_and_of_nothing_else(rule, text, count):
    complaints = list(rule(Document("README.md", text)))
    assert len(complaints) == count, f"{rule.__name__} on {text!r}: {complaints}"
