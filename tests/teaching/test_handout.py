"""teaching/handout.py: the answers are out, all else is as it was, and a student's first test run says so."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from teaching import handout
from teaching.handout import EXERCISES, LEFT_OUT, ROOT, YOURS, functions, main, without_answers


def is_clone() -> bool:
    try:
        return bool(handout.tracked())
    except (ValueError, OSError):
        return False


needs_git = pytest.mark.skipif(
    not is_clone(), reason="what belongs to a clone is what git tracks; git lists nothing"
)


def test_bodies_by_hand():
    source = (
        'import a\n\n\nclass C:\n    def f(self):\n        """Doc."""\n        # why\n        return a.b(\n'
        "            1)\n\n    def g(self): return 2\n\n\ndef f(x):\n    return 3\n"
    )
    assert without_answers(source, {"C.f": "return None", "f": "y = x\nreturn y"}) == (
        'import a\n\n\nclass C:\n    def f(self):\n        """Doc."""\n        # why\n        return None\n\n'
        "    def g(self): return 2\n\n\ndef f(x):\n    y = x\n    return y\n"
    )
    with pytest.raises(KeyError, match="h"):
        without_answers(source, {"h": "pass"})


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_answers_are_out_and_nothing_else(exercise):
    name, bodies, test = EXERCISES[exercise]
    source = (ROOT / name).read_text(encoding="utf-8")
    before, after = (
        functions(ast.parse(text)) for text in (source, without_answers(source, bodies))
    )
    assert before.keys() == after.keys() and (ROOT / test).is_file()
    for function, node in after.items():
        is_same = ast.dump(node) == ast.dump(before[function])
        assert is_same == (function not in bodies), function
        assert ast.get_docstring(node) == ast.get_docstring(before[function])
        assert ast.dump(node.args) == ast.dump(before[function].args)
        if bodies.get(function) == YOURS:
            assert (
                ast.unparse(node.body[-1])
                == f"raise NotImplementedError('{function} is not written yet')"
            )
            assert len(node.body) <= 2


@needs_git
def test_a_student_s_first_run(tmp_path, capsys):
    """Each of the three files with hints says what is missing; another function is not the answer by another name."""
    folder = tmp_path / "course"
    assert main([str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    command = ".venv/bin/python -m pytest -x tests/lessons/test_optimizer.py"
    assert said[1] == f"optimizer: AdamW.update in minbert/optimizer.py; {command}"
    assert not (folder / ".git").exists() and not any((folder / name).exists() for name in LEFT_OUT)
    assert (folder / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    for exercise in ("attention", "optimizer", "layers"):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            EXERCISES[exercise][2],
        ]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert result.returncode == 1 and "not written yet" in result.stdout, result.stdout[-2000:]
    command = [sys.executable, "run_multitask.py", "--epochs", "1"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert run.returncode and run.stderr.splitlines()[-1].endswith("is not written yet"), (
        run.stderr[-2000:]
    )
    source = (folder / "minbert" / "optimizer.py").read_text()
    assert "return adamw(" not in source and "adamw(members" not in source


def test_what_it_refuses(tmp_path, monkeypatch, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main([str(tmp_path / "full")]) == 2
    assert "is there already, and holds something" in capsys.readouterr().err
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    assert main([str(tmp_path / "new")]) == 2 and "is no clone" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
