"""tests/python_processes.py: a fork of the server does what a new Python does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.python_processes import run_python, run_ranks, start_python

SHOW = """
import os, sys
print(sys.argv, os.getcwd(), sys.path[0], os.environ.get("COLOUR"), sys.stdin.read())
print(__name__, sys.modules["__main__"].__name__, "tests" in sys.modules, file=sys.stderr)
"""
# How a program can end.
ENDINGS = {
    "end": "print('all')",
    "number": "import sys; sys.exit(7)",
    "text": "import sys; sys.exit('no file')",
    "nothing": "import sys; sys.exit()",
    "signal": f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})",
    "at exit": "import atexit; atexit.register(print, 'last'); print('first')",
}


def by_a_new_python(*words: object, **options) -> subprocess.CompletedProcess:
    """The same by the interpreter."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.parametrize("kind", ["file", "module"])
def test_a_program_sees_what_a_new_python_sees(tmp_path, kind):
    (tmp_path / "shown.py").write_text(SHOW)
    words = {"file": ["shown.py", "a", "b c"], "module": ["-m", "shown", "a"]}[kind]
    options = {"cwd": tmp_path, "env": {**os.environ, "COLOUR": "blue"}, "input": "one\ntwo\n"}
    expected = by_a_new_python(*words, **options)
    result = run_python(*words, **options)
    assert "two" in expected.stdout
    assert (result.stdout, result.stderr) == (expected.stdout, expected.stderr)


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_in_a_new_python(name):
    expected = by_a_new_python("-c", ENDINGS[name])
    result = run_python("-c", ENDINGS[name])
    assert result.returncode == expected.returncode
    assert (result.stdout, result.stderr) == (expected.stdout, expected.stderr)


def test_an_error_has_its_traceback():
    result = run_python("-c", "1 / 0")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_the_modules_of_the_folder_are_imported(tmp_path):
    """A hand-out has its own minbert. This process has another one."""
    (tmp_path / "minbert.py").write_text("PLACE = __file__")
    code = "import minbert, tests; print(minbert.PLACE, list(tests.__path__)[0])"
    (tmp_path / "tests").mkdir()
    result = run_python("-c", code, cwd=tmp_path)
    assert result.stdout.split() == [str(tmp_path / "minbert.py"), str(tmp_path / "tests")]


def test_the_libraries_are_there_already():
    loaded = run_python("-c", "import sys; print('torch' in sys.modules)")
    assert loaded.stdout == "True\n"


def test_a_program_that_hangs_is_ended():
    running = start_python("-c", "import time; print('begun', flush=True); time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        running.communicate(timeout=1)
    assert running.returncode == -signal.SIGKILL


def test_ranks_have_the_variables_of_torchrun():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    code = f"import os, sys; print(*map(os.environ.get, {names}), sys.stdin.read())"
    first, second = (result.stdout.split() for result in run_ranks(2, "-c", code, input="words"))
    assert first[:4] == ["0", "0", "2", "2"] and first[5:] == ["words"]
    assert second[:4] == ["1", "1", "2", "2"] and second[5:] == []
    assert first[4] == second[4]
