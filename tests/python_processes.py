"""Python commands in processes of their own that do not import PyTorch again.

A start of Python with PyTorch takes about two seconds of the processor. Here the server of
`multiprocessing` (its start method "forkserver") imports the libraries once. Each command is a fork
of the server, so it imports only the modules of the project, from its own folder. It has its own
arguments, environment and streams. A test that is about the start of Python itself, such as what a
command imports, uses `subprocess` instead.
"""

from __future__ import annotations

import atexit
import importlib
import json
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.forked_processes import free_port

ROOT = Path(__file__).resolve().parent.parent

# Most commands import these. A library that is not installed is passed over.
LIBRARIES = [
    "numpy",
    "torch",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.stats",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "matplotlib.figure",
    "safetensors.torch",
    "tokenizers",
    "filelock",
    "jinja2",
    "tqdm",
    "pytest",
]


class Running:
    """A command that was started. Its methods are those of subprocess.Popen.

    folder: has the streams of the command as files.
    """

    def __init__(self, words: list[str], cwd: Path, environment: Mapping[str, str], text: str):
        self.words = words
        self.folder = Path(tempfile.mkdtemp(prefix="minbert-command-"))
        (self.folder / "stdin").write_text(text, encoding="utf-8")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LIBRARIES)
        arguments = (words, cwd, dict(environment), self.folder, library_folders())
        self.process = context.Process(target=become, args=arguments)
        self.process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs. A negative one is the signal that ended it."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """The same, asked as subprocess.Popen is asked."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.process.pid, number)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Wait for the end. Return the texts on stdout and stderr.

        Raises subprocess.TimeoutExpired after `timeout` seconds, and ends the process.
        """
        self.process.join(timeout)
        is_late = self.returncode is None
        if is_late:
            self.process.kill()
            self.process.join()
        printed, complaints = self.read("stdout"), self.read("stderr")
        shutil.rmtree(self.folder)
        if is_late:
            raise subprocess.TimeoutExpired(self.words, timeout, printed, complaints)
        return printed, complaints

    def completed(self, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Wait for the end, as `communicate` does."""
        printed, complaints = self.communicate(timeout)
        return subprocess.CompletedProcess(self.words, self.returncode, printed, complaints)

    def read(self, stream: str) -> str:
        """The text on a stream so far."""
        path = self.folder / stream
        return path.read_text(encoding="utf-8") if path.exists() else ""


def start_python(
    *words: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None, input: str = ""
) -> Running:
    """Start `python WORDS`. The words begin with -m MODULE, with -c PROGRAM or with a file.

    cwd: the folder that the process starts in.
    env: all environment variables; None: those of this process. input: the text on stdin.
    """
    return Running(list(map(str, words)), cwd, os.environ if env is None else env, input)


def run_python(
    *words: object,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    input: str = "",
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` to its end, with the arguments of `start_python`."""
    return start_python(*words, cwd=cwd, env=env, input=input).completed(timeout)


def start_ranks(count: int, *words: object, input: str = "") -> list[Running]:
    """Start `torchrun --nproc_per_node COUNT WORDS`, without torchrun itself.

    input: the text on stdin of the first process. The others have none.
    """
    variables = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ranks = []
    for rank in range(count):
        environment = os.environ | variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(start_python(*words, env=environment, input="" if rank else input))
    return ranks


def run_ranks(
    count: int, *words: object, input: str = "", timeout: float = 300
) -> list[subprocess.CompletedProcess[str]]:
    """Run `torchrun --nproc_per_node COUNT WORDS` to its end, with what each process printed."""
    ranks = start_ranks(count, *words, input=input)
    return [rank.completed(timeout) for rank in ranks]


@cache
def library_folders() -> list[str]:
    """The path of imports of a new Python, without the folder of its script."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import json, sys; print(json.dumps(sys.path[1:]))"
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    return json.loads(printed)


# --- in the new process ---------------------------------------------------------------------------


def become(
    words: list[str], cwd: Path, environment: dict[str, str], folder: Path, libraries: list[str]
) -> None:
    """Turn this process into `python WORDS`, and end it with the exit code."""
    open_streams(folder)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)

    # Nothing of the project stays: the folder of the command may have another version of it.
    for name in list(sys.modules):
        if name.split(".")[0] == "tests":
            del sys.modules[name]
    importlib.invalidate_caches()
    more_folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path = ["", *filter(None, more_folders), *libraries]

    code = 1
    try:
        execute(words, folder)
        code = 0
    except SystemExit as end:
        code = exit_code(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def open_streams(folder: Path) -> None:
    """Let the three streams be files of `folder`."""
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        flags = mode if name == "stdin" else mode | os.O_CREAT | os.O_APPEND
        opened = os.open(folder / name, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def execute(words: list[str], folder: Path) -> None:
    """Run a module, a program or a file as __main__."""
    atexit._clear()
    first, *rest = words
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        program = folder / "program.py"
        program.write_text(rest[0], encoding="utf-8")
        sys.argv = rest
        runpy.run_path(str(program), run_name="__main__")
    else:
        sys.path[0] = str(Path(first).resolve().parent)
        sys.argv = words
        runpy.run_path(first, run_name="__main__")


def exit_code(end: SystemExit) -> int:
    """The exit code of a program that ends by sys.exit. A text is printed, as Python does."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1
