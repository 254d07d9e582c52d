"""The rules of docs/README.md, checked on the source itself.

Who may import whom, which files a package lists, what no file may do. A rule is a function from one
file to a list of complaints. Each rule is also tried on a snippet that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]

# A package, and the packages that its files may import beside itself. The longest matching name
# counts, so minbert/training/loop.py belongs to minbert.training.
EVERYWHERE = {"minbert.commands", "minbert.reporting"}  # they import nothing of ours
BELOW_STAGES = {"minbert", "minbert.training", "minbert.pretraining", "data"}
MAY_IMPORT: dict[str, set[str]] = {
    "minbert.commands": set(),
    "minbert.reporting": {"minbert.commands"},
    "data": EVERYWHERE,
    "minbert": EVERYWHERE,
    "minbert.training": EVERYWHERE | {"minbert"},
    "minbert.pretraining": EVERYWHERE | {"minbert", "minbert.training", "data"},
    "contrastive": EVERYWHERE | BELOW_STAGES,
    "multitask": EVERYWHERE | BELOW_STAGES,
    "command_line": EVERYWHERE | BELOW_STAGES | {"contrastive", "multitask"},
    "experiments": EVERYWHERE | BELOW_STAGES | {"contrastive", "multitask", "command_line"},
    "teaching": EVERYWHERE | BELOW_STAGES | {"contrastive", "multitask", "command_line"},
    "course": EVERYWHERE
    | BELOW_STAGES
    | {"contrastive", "multitask", "command_line", "experiments"},
}
# Single files that may import more, or less, than their package.
RECIPES = "experiments.recipes"
SPECIAL: dict[str, set[str]] = {
    "command_line/parser.py": MAY_IMPORT["command_line"] | {"command_line", RECIPES},
    "experiments/recipes.py": set(),
}
OURS = {*PACKAGES, "run_multitask", "tools", "tests"}
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
    "contrastive/embedder.py",
    "minbert/commands/ending.py",
    "minbert/commands/launcher.py",
    "minbert/commands/streams.py",
    "minbert/reporting/terminal.py",
    "data/download.py",
    # As the course's functions of these names do.
    "course/datasets.py",
    "course/cs224n_2023.py",
}
# Files that import others of ours in functions: parts of a run that only some runs need, and what
# must not be loaded before a message or a signal.
MAY_IMPORT_LATE = {
    "run_multitask.py",
    "command_line/parser.py",
    "command_line/settings.py",
    "experiments/run_files.py",
    "minbert/commands/start.py",
    "minbert/training/job_logs.py",
    "multitask/user_rows.py",
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
    def module(self) -> str:
        """The dotted name, without `__init__`."""
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    @property
    def package(self) -> str:
        """Its name in MAY_IMPORT, or "" (run_multitask.py, tools, tests)."""
        return package_of(self.module)


def package_of(module: str) -> str:
    """The longest name in MAY_IMPORT that a dotted module belongs to, or ""."""
    matching = [name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}.")]
    return max(matching, key=len, default="")


def read_sources(*folders: str) -> list[Source]:
    paths = [ROOT / "run_multitask.py"]
    for folder in folders:
        paths += sorted((ROOT / folder).rglob("*.py"))
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


CORE = read_sources(*PACKAGES)
EVERYTHING = read_sources(*PACKAGES, "tests", "tools")
TOOLS = [source for source in EVERYTHING if re.match("tools/(?!tests/)", source.path)]
MODULES = {source.module for source in EVERYTHING}


# --- the rules ------------------------------------------------------------------------------------


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import, wherever it stands, also under TYPE_CHECKING.

    `from minbert import bert` gives minbert.bert where that is a file. A relative import begins
    with a dot.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{module}.{alias.name}"
                yield node.lineno, full if full in MODULES else module


def is_allowed(module: str, source: Source) -> bool:
    """Whether the source may import this module."""
    if module.startswith("."):
        return False
    if module.split(".")[0] not in OURS:
        return True
    allowed = SPECIAL.get(source.path, MAY_IMPORT[source.package] | {source.package})
    return package_of(module) in allowed or module in allowed


def wrong_arrows(source: Source) -> list[str]:
    complaints = []
    for line, module in imported_modules(source.tree):
        if not is_allowed(module, source):
            complaints.append(
                f"{source.path}, line {line}: imports '{module}', which it may not. Pass "
                "the object in as an argument, or move the code to the package that it belongs to. "
                "docs/README.md has the rule."
            )
    return complaints


def over_the_wall(source: Source) -> list[str]:
    """Nothing outside of tools/ imports it."""
    if source.path.startswith("tools/"):
        return []
    return [
        f"{source.path}, line {line}: imports '{module}', which only maintainers need. Move what "
        "both use to a package, or to tests/ if only tests use it."
        for line, module in imported_modules(source.tree)
        if module.split(".")[0] == "tools"
    ]


def whole_options(source: Source) -> list[str]:
    """Functions get the option group that they read, and never all options or the whole setup."""
    if source.path == "run_multitask.py" or source.package == "command_line":
        return []
    complaints = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            annotation = ast.unparse(argument.annotation) if argument.annotation else ""
            if re.search(r"\b(Options|Setup)\b", annotation):
                complaints.append(
                    f"{source.path}, line {node.lineno}: {node.name} takes {annotation}. Give it "
                    "the option group that it reads."
                )
    return complaints


def unlisted_files(source: Source) -> list[str]:
    """Each `__init__.py` names every file and folder of its package, one line each."""
    if not source.path.endswith("__init__.py"):
        return []
    folder = (ROOT / source.path).parent
    names = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    names |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    listed = re.findall(r"(?m)^ *([\w.]+(?:\.py|/))  +\S", ast.get_docstring(source.tree) or "")
    complaints = []
    for name in sorted(names - set(listed)):
        complaints.append(f"{source.path}: does not list {name}. Add a line, in reading order.")
    for name in sorted(set(listed) - names):
        complaints.append(f"{source.path}: lists {name}, which is not there. Remove the line.")
    for name in {name for name in listed if listed.count(name) > 1}:
        complaints.append(f"{source.path}: lists {name} twice.")
    return complaints


def junk_drawers(source: Source) -> list[str]:
    # The top folder tools/ is the one that docs/README.md describes.
    parts = Path(source.path.removeprefix("tools/")).with_suffix("").parts
    junk = [part for part in parts if part in JUNK_DRAWERS]
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
                f"{source.path}, line {line}: {module} can run code from a file. Use "
                "safetensors or JSON."
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
        f"{source.path}, line {node.lineno}: prints. Only {' and '.join(sorted(MAY_PRINT))} do, "
        "and "
        "the "
        "`main` of a script; return the text, or take a `log` function as an argument."
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "print" and node not in excused
    ]


def calls_at_import(node: ast.AST) -> list[ast.Call]:
    """The calls that run at import: not those inside functions, but those of their defaults."""
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
        f"{source.path}, line {call.lineno}: {dotted(call.func)}(...) runs at import. Move it into "
        "the "
        "function that needs it; seeds and tensors are made when asked for."
        for call in calls
        if dotted(call.func).split(".")[0] in SEEDED_ROOTS
    ]


def late_imports(source: Source) -> list[str]:
    """Files of ours are imported at the top, where an editor finds them.

    The main function of a command imports the module that works, once the command line is
    understood. It has one such import.
    """
    if source.path in MAY_IMPORT_LATE:
        return []
    complaints = []
    num_of_main = 0
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for line, module in imported_modules(function):
            if module.split(".")[0] not in OURS:
                continue
            num_of_main += function.name == "main"
            if function.name != "main" or num_of_main > 1:
                complaints.append(
                    f"{source.path}, line {line}: imports '{module}' in a function. Import it at "
                    "the top. A command may import one module in `main`: the one that works."
                )
    return complaints


def undocumented(source: Source) -> list[str]:
    named = [
        (node.lineno, node.name, node)
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and node.name != "main"
    ]  # what a script does stands in its module docstring
    return [
        f"{source.path}, line {line}: {name} has no docstring. Write one sentence, then arguments, "
        "result, errors."
        for line, name, node in [(1, "the module", source.tree), *named]
        if not ast.get_docstring(node)
    ]


# --- the source keeps them ------------------------------------------------------------------------


def complain(complaints: list[str]) -> None:
    assert not complaints, "\n".join(["the design is broken in these places:", *complaints])


@pytest.mark.parametrize(
    "rule", [junk_drawers, dangerous, over_the_wall], ids=lambda rule: rule.__name__
)
def test_every_file_keeps(rule):
    complain([text for source in EVERYTHING for text in rule(source)])


CORE_RULES = [
    prints,
    work_at_import,
    late_imports,
    undocumented,
    whole_options,
    unlisted_files,
]


@pytest.mark.parametrize("rule", CORE_RULES, ids=lambda rule: rule.__name__)
def test_every_core_file_keeps(rule):
    complain([text for source in CORE for text in rule(source)])


@pytest.mark.parametrize("rule", [undocumented, unlisted_files], ids=lambda rule: rule.__name__)
def test_every_tool_keeps(rule):
    complain([text for source in TOOLS for text in rule(source)])


def test_arrows_between_packages():
    packages = [source for source in CORE if source.package]
    complain([text for source in packages for text in wrong_arrows(source)])


def test_run_multitask_stands_alone_on_top():
    names = [path.name for path in ROOT.glob("*.py")]
    assert names == ["run_multitask.py"], f"{names} stand at the top. Move the others to a package."
    for source in CORE:
        imported = {module for _, module in imported_modules(source.tree)}
        assert "run_multitask" not in imported, (
            f"{source.path} imports run_multitask. Pass the value in."
        )


def import_graph() -> dict[str, set[str]]:
    """Which of our modules each one imports."""
    graph = {}
    for source in [*CORE, *TOOLS]:
        targets = {module for _, module in imported_modules(source.tree)}
        graph[source.module] = (targets & MODULES) - {source.module}
    return graph


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle, each before the one that it imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]  # graphlib names what is imported first
    return []


def test_no_import_cycle():
    graph = import_graph()
    assert len(graph) > 80
    assert not cycle_in(graph), f"an import cycle: {' -> '.join(cycle_in(graph))}"


def test_a_cycle_is_noticed():
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()})) == {"b", "c"}
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []


# --- negative controls: each rule speaks up when broken -------------------------------------------

BROKEN = [
    (wrong_arrows, "contrastive/losses.py", "from multitask.tasks import SST\n"),
    (wrong_arrows, "multitask/stage.py", "from contrastive import losses\n"),
    (wrong_arrows, "minbert/bert.py", "import data.readers\n"),
    (wrong_arrows, "minbert/bert.py", "from minbert.training import loop\n"),
    (wrong_arrows, "minbert/training/loop.py", "from minbert.pretraining.mlm import Masking\n"),
    (wrong_arrows, "minbert/commands/ending.py", "from minbert.bert import BertModel\n"),
    (wrong_arrows, "minbert/reporting/tables.py", "from minbert.training import runtime\n"),
    (wrong_arrows, "minbert/pretraining/stage.py", "from multitask.sampling import mt_dnn\n"),
    (wrong_arrows, "data/readers.py", "def f():\n    from command_line.options import Options\n"),
    (wrong_arrows, "command_line/options.py", "from experiments.recipes import RECIPES\n"),
    (wrong_arrows, "command_line/parser.py", "from experiments.__main__ import main\n"),
    (wrong_arrows, "experiments/recipes.py", "from data.readers import SST\n"),
    (wrong_arrows, "multitask/stage.py", "import run_multitask\n"),
    (wrong_arrows, "course/submit.py", "from tools.tables import records\n"),
    (over_the_wall, "experiments/results.py", "def f():\n    import tools.benchmarks.timing\n"),
    (over_the_wall, "tests/system/test_resume.py", "from tools.benchmarks import kill_resume\n"),
    (over_the_wall, "run_multitask.py", "import tools\n"),
    (wrong_arrows, "multitask/stage.py", "from ..contrastive import losses\n"),
    (whole_options, "multitask/stage.py", "def f(options: Options):\n    pass\n"),
    (whole_options, "multitask/stage.py", "def f(x: int, *, setup: Setup | None):\n    pass\n"),
    (unlisted_files, "teaching/__init__.py", '"""Nothing."""\n'),
    (unlisted_files, "teaching/__init__.py", '"""A.\n\nhandout.py  x\nb.py  x\n"""\n'),
    (junk_drawers, "data/utils.py", ""),
    (dangerous, "minbert/weights.py", "try:\n    pass\nexcept:\n    pass\n"),
    (dangerous, "minbert/weights.py", "torch.load(path)\n"),
    (dangerous, "minbert/weights.py", "torch.load(path, weights_only=False)\n"),
    (dangerous, "minbert/weights.py", "import pickle\n"),
    (dangerous, "minbert/weights.py", "def f(x):\n    return eval(x)\n"),
    (prints, "data/readers.py", "def main():\n    print(1)\n"),
    (
        prints,
        "teaching/handout.py",
        "def f():\n    print(1)\nif __name__ == '__main__':\n    f()\n",
    ),
    (work_at_import, "data/readers.py", "torch.manual_seed(0)\n"),
    (work_at_import, "data/readers.py", "class A:\n    x = torch.zeros(3)\n"),
    (work_at_import, "data/readers.py", "def f(generator=np.random.default_rng(0)):\n    pass\n"),
    (late_imports, "data/readers.py", "def f():\n    import data.examples\n"),
    (
        late_imports,
        "multitask/check.py",
        "def main():\n    from multitask import tasks\n    from multitask import rows\n",
    ),
    (undocumented, "data/readers.py", '"""Module."""\ndef read():\n    return 1\n'),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_broken_rule_is_noticed(rule, path, text):
    assert rule(Source(path, text)), f"{rule.__name__} says nothing about {path}:\n{text}"


KEPT = [
    (
        wrong_arrows,
        "multitask/stage.py",
        "import torch\nfrom minbert import AdamW\nfrom data.readers import read\n"
        "from minbert.training.job import Job\nfrom multitask import surgery\n",
    ),
    (wrong_arrows, "command_line/parser.py", "from experiments.recipes import values_of\n"),
    (wrong_arrows, "data/options.py", "from minbert.commands.options import flag\n"),
    (over_the_wall, "tools/tables/cut.py", "from tools.tables import rows\n"),
    (whole_options, "multitask/stage.py", "def f(options: MultitaskOptions):\n    pass\n"),
    (whole_options, "command_line/automatic.py", "def f(options: Options):\n    pass\n"),
    (dangerous, "minbert/weights.py", "torch.load(path, 'cpu', weights_only=True)\n"),
    (
        prints,
        "teaching/handout.py",
        "def main():\n    print(1)\nif __name__ == '__main__':\n    main()\n",
    ),
    (
        work_at_import,
        "data/readers.py",
        "@torch.no_grad()\ndef f():\n    return torch.zeros(3)\n",
    ),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_a_kept_rule_is_silent(rule, path, text):
    assert not rule(Source(path, text))
