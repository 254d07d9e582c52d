"""minbert/commands: what a command says and returns if it is stopped or its input is bad."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from contrastive.quality import __main__ as quality
from minbert.commands import start
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.ending import exit_code, resumable, this_launcher, this_python
from minbert.commands.optional import advice_on_module
from minbert.commands.paths import in_shell
from minbert.pretraining import __main__ as pretraining
from minbert.reporting import terminal
from minbert.training.runtime import settle_memory
from multitask.ensemble import work as ensemble
from multitask.ensemble.__main__ import main as join_runs
from tests.forked_processes import forked

ROOT = Path(__file__).resolve().parents[2]
LIGHT = (
    "minbert.pretraining",
    "minbert.draw_attention",
    "contrastive.embed",
    "contrastive.quality",
    "contrastive.train",
    "experiments",
    "experiments.papers",
    "experiments.reproduce",
    "multitask.check",
    "multitask.compare",
    "multitask.ensemble",
    "multitask.errors",
    "multitask.export",
    "multitask.predict",
    "course.part1",
    "course.predict",
    "course.submit",
    "teaching.grade",
    "teaching.handout",
    "teaching.notebooks",
    "teaching.trace",
    "data.download",
    "tools.sample.controlled",
    "tools.benchmarks",
)
HEAVY = {"torch", "transformers", "tokenizers", "sklearn", "scipy", "numpy", "huggingface_hub"}


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess:
    """A Python process in the root of the clone."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


# --- exit codes and messages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (ValueError("a.csv: no header."), 2, "python -m x: a.csv: no header.\n"),
        (
            FileNotFoundError(2, "No such file", "b"),
            2,
            "python -m x: [Errno 2] No such file: 'b'\n",
        ),
        (
            ModuleNotFoundError("No module named 'jinja2'", name="jinja2"),
            2,
            f"python -m x: No module named 'jinja2'. {advice_on_module('jinja2')}\n",
        ),
        (FloatingPointError("the loss is nan."), 1, "python -m x: the loss is nan.\n"),
        (KeyboardInterrupt(), 130, "\nStopped.\n"),
        (KeyboardInterrupt("Continue with: x"), 130, "\nStopped. Continue with: x\n"),
    ],
)
def test_how_it_ends(raised, code, said, capsys):
    @exit_code("python -m x")
    def main(arguments=None):
        assert arguments == ["--flag"]
        raise raised

    assert main(["--flag"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("code", [None, 0, 7])
def test_a_command_may_return_a_code(code, capsys):
    assert exit_code("x")(lambda arguments: code)() == (code or 0)
    assert not capsys.readouterr().err


def test_a_defect_is_one_line_and_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    @exit_code("x")
    def main(arguments=None):
        raise TypeError("a defect\nof two lines")

    assert main() == 70
    said = capsys.readouterr().err
    (path,) = tmp_path.iterdir()
    assert said.count("\n") == 1 and "TypeError: a defect. The traceback is in" in said
    assert str(path) in said and 'raise TypeError("a defect' in path.read_text()

    # Where nothing can be written, the line is all there is.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert main() == 70
    assert "could not be written (No such file or directory)" in capsys.readouterr().err


def made_of(cause: BaseException) -> ValueError:
    """An error that a reader makes of another one."""
    error = ValueError("runs/a/model: the model cannot be read. Bring it back")
    error.__cause__ = cause
    return error


ALLOCATION = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 165888000 bytes."
LACKS = [
    MemoryError(),
    RuntimeError(ALLOCATION),
    RuntimeError("could not create a primitive"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("can't start new thread"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("libscipy_openblas.so: failed to map segment from shared object"),
    made_of(RuntimeError(ALLOCATION)),
]


@pytest.mark.parametrize("error", LACKS, ids=lambda error: f"{type(error).__name__}: {error}"[:40])
def test_too_little_memory_is_no_defect(error, capsys):
    @exit_code("x")
    def main(arguments=None):
        raise error

    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith("x: there is not enough memory (") and "smaller batches" in said
    assert re.search(r"[\d.]+ of [\d.]+ GB of the machine are free", said)
    if str(error) == ALLOCATION:
        assert "0.17 GB more were asked for" in said


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("a batch of 9 does not fit into the GPU's memory. Pass a smaller one"), 2),
        (RuntimeError("shapes do not fit"), 70),
        (ImportError("cannot import name 'x'"), 70),
    ],
)
def test_other_errors_are_no_lack_of_memory(error, code, capsys):
    """One that says itself what to do, and two defects."""

    @exit_code("x")
    def main(arguments=None):
        raise error from RuntimeError("out of memory") if code == 2 else None

    assert main() == code
    assert "there is not enough memory" not in capsys.readouterr().err


def test_a_limit_that_no_model_fits_into_is_told_before_the_work(monkeypatch, capsys):
    """Close to a limit, OpenBLAS ends the process, and other libraries hang."""
    limits = {
        "infinite": resource.RLIM_INFINITY,
        "large": 1 << 40,
        "small": 900 << 20,
        "smallest": 700 << 20,
    }

    @exit_code("x")
    def main(name):
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[name], limits[name]))
        with terminal.session("importing PyTorch"):
            settle_memory()

    assert main("infinite") == main("large") == 0
    assert main("small") == 2
    assert capsys.readouterr().err.startswith(
        "x: there is not enough memory: this process may have 0.94 GB, and even a small model takes"
    )
    # SciPy's OpenBLAS would ask for its memory without end.
    assert main("smallest") == 2
    assert (
        "may have 0.73 GB, and PyTorch and the libraries beside it take" in capsys.readouterr().err
    )


@pytest.mark.parametrize(("limit", "code"), [(1 << 40, 70), (100 << 20, 2)])
def test_an_error_without_a_name_close_to_the_limit_is_a_lack_of_memory(limit, code, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))

    @exit_code("x")
    def main(arguments=None):
        raise SystemError("error return without exception set")

    assert main() == code


def test_a_panic_of_a_library_in_rust_is_no_traceback(capsys):
    """It is no Exception. tokenizers panics where it gets no thread."""
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    @exit_code("x")
    def main(text):
        raise panic(text)

    assert main("The global thread pool has not been initialized.: ThreadPoolBuildError {") == 2
    assert "x: there is not enough memory (" in capsys.readouterr().err
    assert main("index out of bounds") == 70
    with pytest.raises(SystemExit):
        exit_code("x")(lambda arguments: sys.exit(3))()


# --- input and output -----------------------------------------------------------------------------


def test_what_is_said_stands_in_a_log_at_once():
    """Also if the process is killed next. A pipe would keep up to 8 KB back."""
    program = (
        "import os; from minbert.commands.ending import exit_code\n"
        "exit_code('x')(lambda arguments: (print('estimate'), os._exit(9)))()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = run_python("-c", program, env=environment)
    assert (result.returncode, result.stdout) == (9, "estimate\n")


def test_a_pipe_that_knows_no_dash_gets_an_escape(monkeypatch):
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="ascii"))
    assert exit_code("x")(lambda arguments: print("–: not trained"))() == 0
    assert pipe.getvalue() == b"\\u2013: not trained\n"


def test_standard_input_that_is_closed_is_empty(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    found = []

    @exit_code("x")
    def main(arguments=None):
        found.append(sys.stdin.read())
        found.append(sys.stdin.isatty())

    assert main() == 0
    assert found == ["", False]


def test_messages_without_standard_error_are_printed(monkeypatch, capsys):
    """print(file=None) and progress bars would fail or mix with the results."""

    @exit_code("x")
    def main(arguments=None):
        print("a note", file=sys.stderr)
        raise ValueError("no file")

    monkeypatch.setattr(sys, "stderr", None)
    assert main() == 2
    assert capsys.readouterr().out == "x: no file\n"


def test_results_without_standard_output_are_missed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert exit_code("x")(lambda arguments: print("a result"))() == 0
    assert "standard output is closed" in capsys.readouterr().err


def write_to(path: str, **settings) -> int:
    """The exit code of a command that prints to a file which it cannot write."""
    with open(path, "w") if isinstance(path, str) else os.fdopen(path, "w") as stream:
        saved = sys.stdout
        sys.stdout = stream
        try:
            return exit_code("x", **settings)(lambda arguments: print("y" * 10_000))()
        finally:
            sys.stdout = saved


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_behind_standard_output(capsys):
    assert write_to("/dev/full") == 2
    said = "x: standard output cannot be written (No space left on device). Free some space, "
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("outlives_reader", [True, False])
def test_a_reader_that_has_gone_away(outlives_reader, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    assert write_to(writer, outlives_reader=outlives_reader) == 0
    assert capsys.readouterr().err == ""


def test_a_run_goes_on_without_its_reader(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    steps = []

    @exit_code("x", outlives_reader=True)
    def main(arguments=None):
        for step in range(3):
            print("a loss")
            steps.append(step)

    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main() == 0
        monkeypatch.undo()
    assert steps == [0, 1, 2]


def test_a_message_cannot_steer_a_terminal(capsys):
    """A label or a file's name in it may hold escape sequences, or turn the direction of text."""

    @exit_code("x")
    def main(arguments=None):
        raise ValueError("label \x1b[2Jé\u202eevil\x07, tab\there")

    assert main() == 2
    assert capsys.readouterr().err == "x: label \\x1b[2Jé\\u202eevil\\x07, tab\there\n"


def test_a_message_that_quotes_a_long_row_is_short(capsys):
    @exit_code("x")
    def main(arguments=None):
        raise ValueError(f"a.csv, line 3: the row is '{'x' * 1_000_000}'. Restore it.")

    assert main() == 2
    said = capsys.readouterr().err
    assert len(said) < 2000 and said.endswith("'. Restore it.\n")


# --- the first moments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "program", "expected"),
    [
        (["python", "-m", "multitask.predict"], "-m", True),
        (["python", "-X", "dev", "-m", "run_multitask"], "-m", True),
        (["python", "-m", "pytest", "tests"], "-m", False),
        (["python", "-m"], "-m", False),
        (["python", "run_multitask.py"], str(ROOT / "run_multitask.py"), True),
        (["python", "x"], str(ROOT / "experiments" / "__main__.py"), True),
        (["python", "x"], str(ROOT / "my_script.py"), False),
        (["python", "x"], str(ROOT / ".venv" / "bin" / "pytest"), False),
        (["minbert", "train"], "/usr/local/bin/minbert", True),
        (["python"], "", False),
    ],
)
def test_which_programs_are_commands(monkeypatch, words, program, expected):
    """In a notebook or a user's script, Ctrl-C and the streams stay as they are."""
    monkeypatch.setattr(sys, "orig_argv", words)
    monkeypatch.setattr(sys, "argv", [program])
    assert start.is_command() == expected


def test_ctrl_c_while_the_command_is_imported():
    """No traceback, and the exit code of Ctrl-C. Later closed streams keep their numbers."""
    program = (
        "import os, signal, sys\n"
        "sys.argv = ['-m']; sys.orig_argv = ['python', '-m', 'minbert']\n"
        "os.close(0)\n"
        "import minbert\n"
        "assert os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    result = run_python("-c", program)
    assert (result.returncode, result.stderr) == (130, "\nStopped.\n")


# --- Ctrl-C while a command works -----------------------------------------------------------------


@pytest.fixture
def program(monkeypatch):
    """Handlers of signals as in a fresh process of a command."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for name, value in vars(INTERRUPTION).items():
        monkeypatch.setattr(INTERRUPTION, name, value)
    before = signal.signal(signal.SIGINT, start.stop_at_once)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_error_that_a_library_makes_of_ctrl_c_is_not_believed(program, tmp_path, capsys):
    """safetensors says that the file is damaged, which it is not."""

    @exit_code("x")
    def main(arguments=None):
        with resumable("y.py", tmp_path, is_resumed=True):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ValueError("model.safetensors: cannot be read") from None

    assert main() == 130
    assert capsys.readouterr().err == "\nStopped. Nothing was written yet.\n"
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN, "nothing is left to stop"


def test_ctrl_c_in_a_destructor_stops_the_command_all_the_same(program, capsys):
    class Thing:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    reached = []

    @exit_code("x")
    def main(arguments=None):
        thing = Thing()
        del thing
        reached.append("the line after it")
        time.sleep(10)

    assert main() == 130
    assert reached and capsys.readouterr().err == "\nStopped.\n"


def test_ctrl_c_right_after_ctrl_c_does_not_disturb_the_end(program, capsys):
    removed = []

    @exit_code("x")
    def main(arguments=None):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
            removed.append("a half-written folder")

    assert main() == 130
    assert removed and capsys.readouterr().err == "\nStopped.\n"


def test_ctrl_c_after_a_while_is_obeyed_again(program, monkeypatch, capsys):
    """The first one may have been lost, or what it waits for takes too long."""
    monkeypatch.setattr("minbert.commands.ctrl_c.SECONDS_TO_OBEY", 0.0)
    steps = []

    @exit_code("x")
    def main(arguments=None):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        steps.append("lost")
        signal.raise_signal(signal.SIGINT)
        steps.append("never")

    assert main() == 130 and steps == ["lost"]


def break_pipe(*_) -> None:
    raise BrokenPipeError(32, "Broken pipe")


def test_an_ensemble_is_written_before_it_is_said(two_runs, tmp_path, monkeypatch):
    """A pipe such as `| head` may break, and a terminal may know no dash."""
    monkeypatch.setattr(ensemble, "score_table", break_pipe)
    assert join_runs([*map(str, two_runs), "--out", str(tmp_path / "ensemble")]) == 0
    assert (tmp_path / "ensemble" / "ensemble.json").is_file()


def test_a_survey_is_written_before_it_is_said(tiny_model, sample_data, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive.quality.work.render_text", break_pipe)
    flags = ["--sets", str(sample_data / "sts-dev.csv"), "--out", str(tmp_path / "quality")]
    assert quality.main([str(tiny_model), *flags]) == 0
    assert any((tmp_path / "quality").iterdir())


# --- advice ---------------------------------------------------------------------------------------


def test_the_command_of_this_python(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_python() == ".venv/bin/python"
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert this_python() == "/usr/bin/python3"


@pytest.mark.parametrize("name", ["run", "mit Leer", "o'brien naïve", "$HOME; ls"])
def test_a_path_survives_the_shell(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / name
    expected = {tmp_path / name: Path(name), Path(name): Path(name), outside: outside}
    for path, shown in expected.items():
        (word,) = shlex.split(in_shell(path))
        assert Path(word) == shown


def test_several_processes_are_told_to_go_on_as_several(monkeypatch, tmp_path):
    """With another number of processes the bits would be others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_launcher() == ".venv/bin/python"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert this_launcher() == ".venv/bin/torchrun --nproc_per_node 2"


@pytest.mark.parametrize(("rank", "said"), [("0", "\nStopped. Continue.\n"), ("3", "")])
def test_one_of_several_processes_speaks(rank, said, monkeypatch, capsys):
    @exit_code("x", takes_processes=True)
    def main(arguments=None):
        raise KeyboardInterrupt("Continue.")

    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", rank)
    assert main() == 130
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("count", "rank"),
    [("2", None), ("abc", "0"), ("2", "5"), ("0", "0"), ("1", "-1"), (None, "3"), ("2", "1.0")],
)
@pytest.mark.parametrize("takes_processes", [True, False])
def test_variables_that_name_no_process_are_refused(
    count, rank, takes_processes, monkeypatch, capsys
):
    """They are left by batch systems and containers. torch would wait, or quote itself."""
    for name, value in (("WORLD_SIZE", count), ("RANK", rank)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)

    @exit_code("x", takes_processes=takes_processes)
    def main(arguments=None):
        pytest.fail("it began")

    assert main() == 2
    assert f"are {count or 1} and {rank or 'not set'}. torchrun sets" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("is_begun", "advice"),
    [(True, "Continue with: {} -m x.y --resume {}"), (False, "Nothing was written yet.")],
)
def test_a_stopped_run_says_how_it_goes_on(tmp_path, is_begun, advice):
    """Whatever stopped it: the loop, a second Ctrl-C while it saves, or one outside of it."""
    if is_begun:
        (tmp_path / "options.json").touch()
    with pytest.raises(KeyboardInterrupt) as caught, resumable("-m x.y", tmp_path, True):
        raise KeyboardInterrupt
    assert caught.value.args == (advice.format(this_python(), tmp_path),)


def test_pretraining_that_is_stopped_outside_the_loop_says_how_it_goes_on(
    tmp_path, monkeypatch, capsys
):
    text = tmp_path / "text.txt"
    text.write_text("A line.\n")
    folder = tmp_path / "out"

    def run(*arguments) -> None:
        folder.mkdir()
        (folder / "options.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.pretraining.plain_text.pretrain", run)
    assert pretraining.main(["--corpus", str(text), "--out", str(folder)]) == 130
    advice = f"Continue with: {this_python()} -m minbert.pretraining --resume {folder}"
    assert capsys.readouterr().err == f"\nStopped. {advice}\n"


# --- what is imported -----------------------------------------------------------------------------

LIGHT_COMMANDS = {
    "run_multitask.py": ("run_multitask.py", "--help"),
    "import minbert": ("-c", "import minbert"),
    **{module: ("-m", module, "--help") for module in LIGHT},
}


REFUSED_AT_ONCE = {"a request without a sense": ("-m", "contrastive.embed", "--nearest", "0")}


@pytest.mark.parametrize("name", [*LIGHT_COMMANDS, *REFUSED_AT_ONCE])
def test_it_loads_nothing_heavy(name):
    """It answers within a second only because torch and its like are imported late."""
    result = run_python("-X", "importtime", *(LIGHT_COMMANDS | REFUSED_AT_ONCE)[name])
    assert result.returncode == (2 if name in REFUSED_AT_ONCE else 0), (
        f"{name} failed:\n{result.stdout[-500:]}\n{result.stderr[-1000:]}"
    )
    loaded = set()
    for line in result.stderr.splitlines():
        if "|" in line:
            module = line.rsplit("|", 1)[-1].strip()
            loaded.add(module.split(".")[0])
    assert not loaded & HEAVY, (
        f"it imports {sorted(loaded & HEAVY)}. Import them in the functions that need them."
    )


# --- several processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", LIGHT)
def test_torchrun_starts_only_commands_that_share_their_work(command, tmp_path):
    """The others would all do the whole work, and write the same files."""
    main = importlib.import_module(f"{command}.__main__" if is_package(command) else command).main
    if command == "minbert.pretraining" or not hasattr(main, "__wrapped__"):
        pytest.skip("it trains, or starts other commands")
    first, second = forked(tmp_path, [lambda: main(["--no-such-flag"])] * 2)
    assert (first.code, second.code, second.text) == (2, 0, "")
    expected = "torchrun started 2 processes, and this command works in one"
    if command in ("contrastive.embed", "multitask.predict"):
        expected = "unknown flag --no-such-flag"
    assert expected in first.text
    assert first.text.count("\n") == 1


def is_package(command: str) -> bool:
    """Whether a command is a folder with __main__.py."""
    return (ROOT / command.replace(".", "/")).is_dir()
