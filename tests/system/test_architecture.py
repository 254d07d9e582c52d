"""The design's rules, checked on the source itself: who may import whom, how long things may be, what no file may do.

Every rule is a function from one file to a list of complaints, so that each is also tried on a snippet that breaks it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {  # the arrows; a room always sees itself
    "minbert": set(),
    "data": set(),
    "contrastive": {"minbert", "data"},
    "multitask": {"minbert", "data"},
}
TOP_LEVEL = (
    "run_multitask.py",
    "command_line/options.py",
    "command_line/checks.py",
    "command_line/parser.py",
)  # all outside the rooms
OURS = {
    *MAY_IMPORT,
    "run_multitask",
    "options",
    "option_checks",
    "command_line",
    "tests",
    "benchmarks",
}
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_CORE_LINES, MAX_AROUND_LINES = 300, 60, 4000, 3400
# Not on the way from a row to its prediction: what made sample or checkpoint, uses finished runs, refuses or stands by.
AROUND = {"command_line/checks.py"} | {
    f"{room}/{name}.py"
    for room, names in {
        "data": "sample download sentence_sets",
        "minbert": "pretrain from_text blocks command provenance curves report pictures names",
        "multitask": (
            "check predict breakdown errors ensemble voting finished ablation recipes recipes_gen baselines "
            "conflicts"
        ),
        "contrastive": "embed vectors export states scores measure pages maps survey",
    }.items()
    for name in names.split()
}
SHORTER_FILES = {"run_multitask.py": 150}
JUNK_DRAWERS = {
    "utils",
    "util",
    "common",
    "base",
    "misc",
    "helpers",
    "helper",
    "shared",
    "lib",
    "tools",
}
MAY_PRINT = {
    "run_multitask.py",
    "minbert/training/loop.py",
    "minbert/training/stage.py",
    "minbert/pretraining/__main__.py",
    "minbert/pretraining/plain_text.py",
    "minbert/commands/ending.py",
    "minbert/training/run_folder.py",
    "data/download.py",
}
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
SEEDED_ROOTS = {"torch", "random", "np", "numpy"}


@dataclass(frozen=True)
class Source:
    """One Python file: its path inside the repository, its text and its syntax tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def room(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else ""


def read_sources(*folders: str) -> list[Source]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += [ROOT / name for name in TOP_LEVEL if (ROOT / name).is_file()]
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    ]


CORE = read_sources(*MAY_IMPORT)
EVERYTHING = read_sources(*MAY_IMPORT, "tests", "benchmarks")
IN_ROOMS = [source for source in CORE if source.room]


# --- the rules ------------------------------------------------------------------------------------------------------


def imported_modules(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, dotted module) of every import, wherever it stands; `from . import x` counts as ''."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(
                (node.lineno, "." * max(0, node.level - 1) if node.level else node.module or "")
            )
    return found


def wrong_arrows(source: Source) -> list[str]:
    complaints = []
    for line, module in imported_modules(source.tree):
        target = module.split(".")[0]
        if module.startswith(".") or (
            target in OURS and target not in MAY_IMPORT[source.room] | {source.room}
        ):
            allowed = ", ".join(sorted(MAY_IMPORT[source.room])) or "nothing of ours"
            complaints.append(
                f"{source.path}, line {line}: imports '{module}'; {source.room}/ may import {allowed}. "
                "Pass the object in as an argument, or move the code to the room it belongs to."
            )
    return complaints


def too_long(source: Source) -> list[str]:
    limit = SHORTER_FILES.get(source.path, MAX_FILE_LINES)
    lines = len(source.text.splitlines())
    complaints = []
    if lines > limit:
        complaints.append(
            f"{source.path}: {lines} lines, at most {limit}. Give one of its ideas a file."
        )
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                complaints.append(
                    f"{source.path}, line {node.lineno}: {node.name} has {length} lines, at most "
                    f"{MAX_FUNCTION_LINES}. Name one of its steps and make it a function."
                )
    return complaints


def junk_drawers(source: Source) -> list[str]:
    junk = [part for part in Path(source.path).with_suffix("").parts if part in JUNK_DRAWERS]
    return [
        f"{source.path}: '{part}' says nothing of what is inside. Name it after its idea."
        for part in junk
    ]


def dotted(node: ast.expr) -> str:
    """`torch.nn.init` of an attribute chain, '' of anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}" if dotted(node.value) else ""
    return node.id if isinstance(node, ast.Name) else ""


def is_true(call: ast.Call, name: str) -> bool:
    return any(
        k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.keywords
    )


def dangerous(source: Source) -> list[str]:
    complaints = []
    for node in ast.walk(source.tree):
        where = f"{source.path}, line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            complaints.append(
                f"{where}: bare except; it swallows Ctrl-C too. Name the expected exceptions."
            )
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        if name == "torch.load" and not is_true(node, "weights_only"):
            complaints.append(
                f"{where}: torch.load can run code from the file. Pass weights_only=True."
            )
        if name in {"np.load", "numpy.load"} and is_true(node, "allow_pickle"):
            complaints.append(
                f"{where}: allow_pickle can run code from the file. Store plain arrays."
            )
        if name in {"eval", "exec"}:
            complaints.append(
                f"{where}: {name} runs text as code. Use a dict literal of functions."
            )
    for line, module in imported_modules(source.tree):
        if module.split(".")[0] in UNPICKLERS:
            complaints.append(
                f"{source.path}, line {line}: {module} can run code from a file. Use safetensors, JSON."
            )
    return complaints


def is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def prints(source: Source) -> list[str]:
    if source.path in MAY_PRINT:
        return []
    is_script = any(is_main_guard(node) for node in source.tree.body)
    excused: set[ast.AST] = set()
    for node in source.tree.body if is_script else []:
        if is_main_guard(node) or (isinstance(node, ast.FunctionDef) and node.name == "main"):
            excused.update(ast.walk(node))
    return [
        f"{source.path}, line {node.lineno}: prints. Only {' and '.join(sorted(MAY_PRINT))} do, and the "
        "`main` of a script; return the text, or take a `log` function as an argument."
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "print" and node not in excused
    ]


def calls_at_import(node: ast.AST) -> list[ast.Call]:
    """The calls that run when the module is imported: not those inside functions, but those of their defaults."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        children: list[ast.AST] = [
            *node.args.defaults,
            *(default for default in node.args.kw_defaults if default),
        ]
    else:
        children = list(ast.iter_child_nodes(node))
    here = [node] if isinstance(node, ast.Call) else []
    return here + [call for child in children for call in calls_at_import(child)]


def work_at_import(source: Source) -> list[str]:
    calls = [
        call
        for node in source.tree.body
        if not is_main_guard(node)
        for call in calls_at_import(node)
    ]
    return [
        f"{source.path}, line {call.lineno}: {dotted(call.func)}(...) runs at import. Move it into the "
        "function that needs it; seeds and tensors are made when asked for."
        for call in calls
        if dotted(call.func).split(".")[0] in SEEDED_ROOTS
    ]


def undocumented(source: Source) -> list[str]:
    named = [
        (node.lineno, node.name, node)
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and node.name != "main"
    ]  # what a script does stands in its module docstring
    return [
        f"{source.path}, line {line}: {name} has no docstring. One sentence, then arguments, result, errors."
        for line, name, node in [(1, "the module", source.tree), *named]
        if not ast.get_docstring(node)
    ]


# --- the source keeps them --------------------------------------------------------------------------------------------


def complain(complaints: list[str]) -> None:
    assert not complaints, "\n".join(["the design is broken in these places:", *complaints])


@pytest.mark.parametrize(
    "rule", [too_long, junk_drawers, dangerous], ids=lambda rule: rule.__name__
)
def test_every_file_keeps(rule):
    complain([text for source in EVERYTHING for text in rule(source)])


@pytest.mark.parametrize(
    "rule", [prints, work_at_import, undocumented], ids=lambda rule: rule.__name__
)
def test_every_core_file_keeps(rule):
    complain([text for source in CORE for text in rule(source)])


def test_arrows_between_rooms():
    complain([text for source in IN_ROOMS for text in wrong_arrows(source)])


def test_nothing_imports_the_command_and_no_other_module_stands_beside_it():
    strays = sorted(path.name for path in ROOT.glob("*.py") if path.name not in TOP_LEVEL)
    assert not strays, (
        f"{strays} stand at the top level; only {TOP_LEVEL} do. Move them into a room."
    )
    for source in (source for source in CORE if not source.room):
        lines = [
            line for line, module in imported_modules(source.tree) if module == "run_multitask"
        ]
        assert not lines, (
            f"{source.path}, line {lines[0]}: imports run_multitask; nothing does. Pass the value in."
        )


def code_lines(source: Source) -> set[int]:
    """The numbers of the lines that hold code: no blank lines, comments or docstrings, which nobody should ration."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        node.body[0]
        for node in ast.walk(source.tree)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
    ]
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - {line for node in docstrings for line in range(node.lineno, node.end_lineno + 1)}


def test_lines_of_code_are_counted_without_words():
    text = (
        '"""What\n\nit does."""\n\nx = (1,  # one\n     2)\n# a comment\n'
        'def f():\n    """Why."""\n    return """a\nb"""\n'
    )
    assert code_lines(Source("m/a.py", text)) == {5, 6, 8, 10, 11}


@pytest.mark.parametrize(
    ("is_around", "limit"),
    [(False, MAX_CORE_LINES), (True, MAX_AROUND_LINES)],
    ids=["core", "around"],
)
def test_the_code_stays_small(is_around, limit):
    lines = {
        source.path: len(code_lines(source))
        for source in CORE
        if (source.path in AROUND) == is_around
    }
    longest = sorted(lines, key=lines.get, reverse=True)[:5]
    assert sum(lines.values()) < limit, (
        f"{sum(lines.values())} lines of code, fewer than {limit} are allowed; longest: {longest}. Look for the same "
        "thing written twice before cutting words. In a fork raise the number at the top of this file."
    )


# --- negative controls: each rule speaks up when broken ---------------------------------------------------------------

BROKEN = [
    (wrong_arrows, "contrastive/losses.py", "from multitask.tasks import SST\n"),
    (wrong_arrows, "minbert/training/loop.py", "import data.readers\n"),
    (wrong_arrows, "data/readers.py", "def f():\n    from options import Options\n"),
    (wrong_arrows, "multitask/stage.py", "import run_multitask\n"),
    (wrong_arrows, "multitask/stage.py", "from ..contrastive import losses\n"),
    (too_long, "data/readers.py", "x = 1\n" * 301),
    (too_long, "run_multitask.py", "x = 1\n" * 151),
    (too_long, "data/readers.py", "def f():\n" + "    x = 1\n" * 60),
    (junk_drawers, "data/utils.py", ""),
    (dangerous, "minbert/weights.py", "try:\n    pass\nexcept:\n    pass\n"),
    (dangerous, "minbert/weights.py", "torch.load(path)\n"),
    (dangerous, "minbert/weights.py", "torch.load(path, weights_only=False)\n"),
    (dangerous, "minbert/weights.py", "import pickle\n"),
    (dangerous, "minbert/weights.py", "def f(x):\n    return eval(x)\n"),
    (prints, "data/readers.py", "def main():\n    print(1)\n"),
    (prints, "data/sample.py", "def f():\n    print(1)\nif __name__ == '__main__':\n    f()\n"),
    (work_at_import, "data/readers.py", "torch.manual_seed(0)\n"),
    (work_at_import, "data/readers.py", "class A:\n    x = torch.zeros(3)\n"),
    (work_at_import, "data/readers.py", "def f(generator=np.random.default_rng(0)):\n    pass\n"),
    (undocumented, "data/readers.py", '"""Module."""\ndef read():\n    return 1\n'),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_broken_rule_is_noticed(rule, path, text):
    assert rule(Source(path, text)), f"{rule.__name__} says nothing about {path}:\n{text}"


KEPT = [
    (
        wrong_arrows,
        "multitask/stage.py",
        "import torch\nfrom minbert import AdamW\nfrom data.readers import read\n",
    ),
    (dangerous, "minbert/weights.py", "torch.load(path, 'cpu', weights_only=True)\n"),
    (
        prints,
        "data/sample.py",
        "def main():\n    print(1)\nif __name__ == '__main__':\n    main()\n",
    ),
    (work_at_import, "data/readers.py", "@torch.no_grad()\ndef f():\n    return torch.zeros(3)\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_a_kept_rule_is_silent(rule, path, text):
    assert not rule(Source(path, text))
