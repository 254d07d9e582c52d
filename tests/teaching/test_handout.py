"""teaching/handout.py: the answers are out, all else is as it was, and a first test run says so."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from teaching import handout, rehearsal
from teaching.exercises import (
    DEFAULT_EXERCISES,
    EXERCISES,
    TO_WRITE,
    functions,
    without_answers,
)
from teaching.handout import LEFT_OUT, ROOT, main
from tests.python_processes import run_python


def is_clone() -> bool:
    try:
        return bool(handout.tracked())
    except (ValueError, OSError):
        return False


needs_git = pytest.mark.skipif(
    not is_clone(), reason="what belongs to a clone is what git tracks; git lists nothing"
)


# --- what is removed ------------------------------------------------------------------------------

SOURCE = '''\
import a


class C:
    @other
    def f(self):
        """Doc."""
        # why
        return a.b(
            1)

    def g(self): return 2


@other(
    1
)
def f(x):
    # how
    return 3
'''


def test_bodies_by_hand():
    bodies = {"C.f": TO_WRITE.format(name="C.f"), "f": "y = x\nreturn y"}
    assert (
        without_answers(SOURCE, bodies)
        == '''\
import a


class C:
    @other
    def f(self):
        """Doc."""
        raise NotImplementedError("C.f is not written yet")  # yours to write

    def g(self): return 2


@other(
    1
)
def f(x):
    y = x
    return y
'''
    )


def test_a_function_that_is_not_there():
    with pytest.raises(KeyError, match="h"):
        without_answers(SOURCE, {"h": "pass"})


@pytest.mark.parametrize("name", EXERCISES)
def test_the_answers_are_out_and_nothing_else(name):
    exercise = EXERCISES[name]
    assert (ROOT / exercise.tests).is_file()
    bodies = exercise.bodies()
    source = (ROOT / exercise.file).read_text(encoding="utf-8")
    before = functions(ast.parse(source))
    after = functions(ast.parse(without_answers(source, bodies)))
    assert before.keys() == after.keys()
    for function, node in after.items():
        is_same = ast.dump(node) == ast.dump(before[function])
        assert is_same == (function not in bodies), function
        assert ast.get_docstring(node) == ast.get_docstring(before[function])
        assert ast.dump(node.args) == ast.dump(before[function].args)
        if function in exercise.to_write:
            last = ast.unparse(node.body[-1])
            assert last == f"raise NotImplementedError('{function} is not written yet')"
            assert len(node.body) <= 2


# --- no answer stands elsewhere -------------------------------------------------------------------

# A function gives an answer away if it holds at least this share of the answer's statements. One
# statement alone may be an everyday one, such as a check of arguments.
SHARE = 0.5

# A shorter statement says nothing. In characters.
SHORTEST = 10


def local_names(function: ast.AST) -> set[str]:
    """The arguments of a function and the names that it assigns."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def without_names(value: ast.expr, names: set[str]) -> str:
    """An expression in which local names are numbered: `layer.up(x)` and `self.up(y)` are alike."""
    numbers: dict[str, str] = {}
    before: list[tuple[ast.AST, str, str]] = []
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in names:
            before.append((node, "id", node.id))
            node.id = numbers.setdefault(node.id, f"v{len(numbers)}")
        elif isinstance(node, ast.arg):
            before.append((node, "arg", node.arg))
            node.arg = numbers.setdefault(node.arg, f"v{len(numbers)}")
    text = ast.unparse(value)

    # A copy of every expression of the clone would take longer than all else here.
    for node, field, name in before:
        setattr(node, field, name)
    return text


def statements(function: ast.AST, names: set[str]) -> set[str]:
    """The values that a function assigns, returns or throws away, without its names and types."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr):
            value = node.value
            if value is not None and not isinstance(value, ast.Constant):
                found.add(without_names(value, names))
    return {text for text in found if len(text) >= SHORTEST}


class Answer(NamedTuple):
    """The body that an exercise removes from a function: what is looked for in a hand-out."""

    function: str
    statements: set[str]
    lines: set[str]


def answers_of(name: str) -> list[Answer]:
    """The bodies that an exercise removes, without what the new body keeps."""
    answers = []
    source = (ROOT / EXERCISES[name].file).read_text(encoding="utf-8")
    by_name = functions(ast.parse(source))
    for function in EXERCISES[name].to_write:
        new_body = EXERCISES[name].bodies()[function]
        node = by_name[function]
        names = local_names(node)
        removed = statements(node, names) - statements(ast.parse(new_body), names)
        first = node.body[1].lineno - 1
        lines = set()
        for line in source.splitlines()[first : node.end_lineno]:
            code = " ".join(line.split("  #")[0].split())
            if len(code) >= SHORTEST and not code.startswith("#"):
                lines.add(code)
        answers.append(Answer(function, removed, lines))
    return answers


def is_given_away(found: set[str], answer: set[str]) -> bool:
    """Whether at least SHARE of an answer is found."""
    return bool(answer) and len(found & answer) >= SHARE * len(answer)


@cache
def statements_by_function(text: str) -> list[tuple[str, set[str]]]:
    """The statements of every function of a Python file. Most files are alike in all hand-outs."""
    by_function = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            by_function.append((node.name, statements(node, local_names(node))))
    return by_function


def leaks_of_code(path: Path, answers: list[Answer]) -> Iterator[str]:
    """The functions of a Python file that give an answer away."""
    for name, found in statements_by_function(path.read_text(encoding="utf-8")):
        for answer in answers:
            if is_given_away(found, answer.statements):
                yield f"{path.name}: {name} gives {answer.function} away"


def leaks_of_text(path: Path, answers: list[Answer]) -> Iterator[str]:
    """Another file that gives an answer away. The text of a notebook stands behind # marks."""
    text = re.sub(r"(?m)^# ?", "", path.read_text(encoding="utf-8"))
    content = " ".join(text.split())
    for answer in answers:
        found = {line for line in answer.lines if line in content}
        if is_given_away(found, answer.lines):
            yield f"{path.name} gives {answer.function} away"


def leaks_of_cells(path: Path, answers: list[Answer]) -> Iterator[str]:
    """A notebook whose cells, outside of functions, give an answer away."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = statements(tree, local_names(tree))
    for answer in answers:
        if is_given_away(found, answer.statements):
            yield f"{path.name}: its cells give {answer.function} away"


def leaks(folder: Path, name: str) -> list[str]:
    """The places of a hand-out that give an answer away."""
    answers = answers_of(name)
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".py":
            found += leaks_of_code(path, answers)
            if path.parent.name == "notebooks":
                found += leaks_of_cells(path, answers)
                found += leaks_of_text(path, answers)
        elif path.suffix in (".md", ".toml", ".sh", ".html"):
            found += leaks_of_text(path, answers)
    return found


@needs_git
@pytest.mark.parametrize("name", EXERCISES)
def test_no_answer_stands_elsewhere(tmp_path, name):
    """A student who searches the hand-out finds no other copy, also under other variable names."""
    folder = tmp_path / "course"
    assert main([str(folder), "--whole", "--exercises", name]) == 0
    assert leaks(folder, name) == []


@needs_git
@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("layers", "minbert/bert.py", "forward gives BertLayer.forward away"),
        ("attention", "minbert/attention.py", "project gives MultiHeadAttention.project away"),
        ("optimizer", "minbert/optimizer.py", "update gives AdamW.update away"),
    ],
)
def test_a_copy_of_an_answer_is_noticed(tmp_path, name, file, words):
    """The negative control: with the original file in it, a hand-out holds answers."""
    folder = tmp_path / "course"
    assert main([str(folder), "--whole", "--exercises", name]) == 0
    (folder / file).write_bytes((ROOT / file).read_bytes())
    assert f"{Path(file).name}: {words}" in leaks(folder, name)
    (folder / "notes.md").write_text((ROOT / file).read_text(encoding="utf-8"))
    assert any(text.startswith("notes.md gives") for text in leaks(folder, name))


@needs_git
def test_an_answer_in_a_notebook_is_noticed(tmp_path):
    """In its cells, with other names of variables, and in its text."""
    folder = tmp_path / "course"
    assert main([str(folder), "--whole", "--exercises", "optimizer"]) == 0
    source = (ROOT / "minbert" / "optimizer.py").read_text(encoding="utf-8")
    node = functions(ast.parse(source))["AdamW.update"]
    cells = body_of(node).replace("step_size", "size_of_step")
    notebook = folder / "docs" / "notebooks" / "7-solution.py"
    notebook.write_text(f"# %%\n{cells}\n", encoding="utf-8")
    assert "7-solution.py: its cells give AdamW.update away" in leaks(folder, "optimizer")

    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    text = textwrap.indent("\n".join(lines), "# ", lambda line: True)
    notebook.write_text(f"# %% [markdown]\n{text}\n", encoding="utf-8")
    assert "7-solution.py gives AdamW.update away" in leaks(folder, "optimizer")


# --- the command ----------------------------------------------------------------------------------


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess:
    return run_python(*command, cwd=folder)


@needs_git
def test_the_first_run_of_a_student(tmp_path, capsys):
    """Each of the three default exercises says what is missing, and so does a run."""
    folder = tmp_path / "course"
    assert main([str(folder), "--whole"]) == 0
    said = capsys.readouterr().out.splitlines()
    command = ".venv/bin/python -m pytest -x tests/lessons/test_optimizer.py"
    assert said[1] == f"optimizer: AdamW.update in minbert/optimizer.py; {command}"
    assert not (folder / ".git").exists()
    assert not any((folder / name).exists() for name in LEFT_OUT)
    assert (folder / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    for name in DEFAULT_EXERCISES:
        tests = EXERCISES[name].tests
        result = run_in(folder, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests)
        # The tests go through the functions in the order of the list.
        first = EXERCISES[name].to_write[0]
        assert result.returncode == 1, result.stdout[-2000:]
        last = result.stdout.splitlines()[-1]
        assert f"{first} is not written yet" in last, result.stdout[-2000:]
    result = run_in(folder, "run_multitask.py", "--epochs", "1")
    assert result.returncode
    assert result.stderr.splitlines()[-1].endswith("is not written yet"), result.stderr[-2000:]


@needs_git
def test_a_model_calls_what_the_student_writes(tmp_path):
    """With right answers in the three files, everything trains with the code of the student."""
    folder = tmp_path / "course"
    assert main([str(folder), "--whole"]) == 0
    for name in DEFAULT_EXERCISES:
        exercise = EXERCISES[name]
        by_name = functions(ast.parse((ROOT / exercise.file).read_text(encoding="utf-8")))
        answers = {function: body_of(by_name[function]) for function in exercise.to_write}
        file = folder / exercise.file
        blank = file.read_text(encoding="utf-8")
        file.write_text(without_answers(blank, answers), encoding="utf-8")
    tests = [EXERCISES[name].tests for name in DEFAULT_EXERCISES]
    result = run_in(folder, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
    assert result.returncode == 0, result.stdout[-2000:]
    program = (
        "import torch\n"
        "from minbert import AdamW, BertConfig, BertModel, fast\n"
        "from minbert.pooling import positions_read\n"
        "assert not fast.is_on()\n"
        "small = dict(vocab_size=9, hidden_size=4, num_hidden_layers=2, num_attention_heads=2)\n"
        "config = BertConfig(**small, intermediate_size=8, attention_implementation='fused')\n"
        "model = BertModel(config)\n"
        "optimizer = AdamW(model.parameters(), fused=True)\n"
        "ids = torch.ones(2, 3, dtype=torch.long)\n"
        "output = model(ids, positions=positions_read(ids, 'cls'))\n"
        "assert output.last_hidden_state.shape == (2, 1, 4)\n"
        "output.pooler_output.sum().backward()\n"
        "optimizer.step()\n"
    )
    result = run_in(folder, "-c", program)
    assert result.returncode == 0, result.stderr[-2000:]


def body_of(node: ast.FunctionDef) -> str:
    """The statements of a function behind its docstring."""
    return "\n".join(ast.unparse(statement) for statement in node.body[1:])


@pytest.fixture
def _quick_rehearsal(monkeypatch):
    """A rehearsal starts the students' tests by `run_python`. Their command stays the same."""

    def run(command, cwd, **_):
        return run_python(*command[1:], cwd=cwd, timeout=1500)

    monkeypatch.setattr(rehearsal, "subprocess", SimpleNamespace(run=run))


@needs_git
@pytest.mark.usefixtures("_quick_rehearsal")
def test_a_small_handout_is_rehearsed(tmp_path, capsys):
    """It holds what its tests need, one commit, and no answer under another name."""
    folder = tmp_path / "course"
    assert main([str(folder), "--rehearse"]) == 0
    assert "rehearsed: a blank gets 0 points" in capsys.readouterr().out
    log = subprocess.run(["git", "log", "--oneline"], cwd=folder, capture_output=True, text=True)
    assert len(log.stdout.splitlines()) == 1
    for name in DEFAULT_EXERCISES:
        assert leaks(folder, name) == []
        assert f"| {name} |" in (folder / "EXERCISES.md").read_text()
    result = run_in(folder, "-m", "pytest", "-x", EXERCISES["attention"].tests)
    last = result.stdout.splitlines()[-1]
    assert last.startswith("HINT: ") and "not written yet" in last


@needs_git
@pytest.mark.parametrize("names", [DEFAULT_EXERCISES, *((name,) for name in EXERCISES)], ids=str)
def test_a_handout_is_small(tmp_path, names):
    """Also where a package imports much more than the exercise: then it is its folder alone."""
    folder = tmp_path / "course"
    handout.hand_out(folder, names, whole=False)
    files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    assert len(files) <= 80
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 8000


@needs_git
def test_a_package_of_which_modules_alone_are_needed_is_its_folder(tmp_path):
    """Without BERT, all tests can be imported."""
    folder = tmp_path / "course"
    names = ("schedules", "losses", "contrastive", "samplers", "surgery")
    handout.hand_out(folder, names, whole=False)
    assert not (folder / "minbert" / "bert.py").exists()
    result = run_in(folder, "-m", "pytest", "--collect-only", "tests")
    assert result.returncode == 0, result.stdout[-2000:]


def test_imports_that_do_not_run_are_passed_over():
    """The package minbert imports its tokenizer when it is asked for: one test of these asks."""
    attention = handout.needed_files(["attention"])
    masking = handout.needed_files(["masking"])
    assert "minbert/tokenizer.py" in masking and "minbert/tokenizer.py" not in attention
    # Of the modules behind the names of minbert, only those that are asked for.
    optimizer = handout.needed_files(["optimizer"])
    assert "minbert/__init__.py" in optimizer and "minbert/bert.py" not in optimizer
    # `trace --against` runs the encoder, which the tests of attention do not.
    assert "minbert/bert.py" in attention


@needs_git
@pytest.mark.usefixtures("_quick_rehearsal")
def test_the_handout_of_the_other_exercises_is_complete(tmp_path):
    others = [name for name in EXERCISES if name not in DEFAULT_EXERCISES]
    assert main([str(tmp_path / "course"), "--exercises", *others, "--rehearse"]) == 0


def test_a_rehearsal_notices_an_answer_that_was_left(tmp_path):
    (tmp_path / "multitask").mkdir()
    shutil.copy(ROOT / "multitask" / "losses.py", tmp_path / "multitask")
    with pytest.raises(ValueError, match="the blank hand-out gets 10 points"):
        rehearsal.rehearse(tmp_path, ["losses"])


def test_a_folder_that_is_not_free_is_refused(tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main([str(tmp_path / "full")]) == 2
    assert "is there already, and holds something" in capsys.readouterr().err


def test_a_folder_without_git_is_no_clone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    assert main([str(tmp_path / "new")]) == 2
    assert "is no clone" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
