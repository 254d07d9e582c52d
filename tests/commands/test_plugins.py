"""--plugin: a user's file that registers methods, from the first flag to a message in one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line.parser import parse
from minbert.commands import plugins
from minbert.commands.plugins import PluginError, check_named, digest_of_plugin, load
from minbert.commands.registry import REGISTERED
from multitask.head_registry import HEADS
from multitask.sampler_registry import SAMPLERS
from tests.plugins.loading import unload

ROOT = Path(__file__).resolve().parents[2]
SAMPLER = """
from dataclasses import dataclass
from minbert.commands.options import OptionGroup, flag
from multitask import Sampler, register_sampler


@dataclass(frozen=True)
class ToyOptions(OptionGroup):
    toy_level: int = flag(3, "With --sampling toy: how much.", low=1)


def toy(make_batches, generator):
    return [[(task, rows)] for task in make_batches for rows in make_batches[task](generator)]


register_sampler("toy", Sampler(title="a toy of this test", sample=toy, options=(ToyOptions,)))
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes a file of Python code. What it registers is gone after the test."""

    def write_file(code: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(code, encoding="utf-8")
        return path

    before = dict(plugins.LOADED)
    yield write_file
    for place, plugin in tuple(plugins.LOADED.items()):
        if place not in before:
            unload(plugin)


def refusal(capsys: pytest.CaptureFixture, *flags: object) -> str:
    """The message of a refused command line: one line, and exit code 2."""
    with pytest.raises(SystemExit) as caught:
        parse(list(map(str, flags)))
    assert caught.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# --- names, flags and help ------------------------------------------------------------------------


def test_its_name_is_a_choice_and_its_option_a_flag(write):
    path = write(SAMPLER)
    options, _ = parse(["--plugin", str(path), "--sampling", "toy", "--toy-level", "5"])
    assert options.multitask.tasks.sampling == "toy"
    assert options.flat()["toy_level"] == 5
    assert options.run.plugin == (str(path),)
    assert str(path) in options.input_files(), "its SHA-256 goes into options.json and run.json"


def test_several_files_by_commas_or_by_flags(write):
    first = write(SAMPLER)
    second = write(SAMPLER.replace("toy", "play").replace("Toy", "Play"), "second.py")
    for flags in (["--plugin", f"{first},{second}"], ["--plugin", first, f"--plugin={second}"]):
        options, _ = parse([*map(str, flags), "--sampling", "play"])
        assert options.run.plugin == (str(first), str(second))
    assert {"toy", "play"} <= set(SAMPLERS)


def test_paths_are_recorded_absolute(write, monkeypatch):
    """predict may be started in another folder."""
    path = write(SAMPLER)
    monkeypatch.chdir(path.parent)
    options, _ = parse(["--plugin", "mine.py", "--sampling", "toy"])
    assert options.run.plugin == (str(path),)


@pytest.mark.parametrize(("flag", "has_option"), [("--help", False), ("--help-all", True)])
def test_help_lists_it(write, capsys, flag, has_option):
    path = write(SAMPLER)
    with pytest.raises(SystemExit) as caught:
        parse([flag, "--plugin", str(path)])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "- toy: a toy of this test" in shown
    assert ("--toy_level N With --sampling toy: how much. (default: 3)" in shown) == has_option


def test_its_option_needs_its_method(write, capsys):
    path = write(SAMPLER)
    message = refusal(capsys, "--plugin", path, "--toy-level", 5)
    assert message.endswith(
        "--toy_level has no effect with --sampling mt-dnn; add --sampling toy, or pass "
        "--toy_level 3."
    )


def test_without_the_flag_there_is_no_such_name(capsys):
    assert "invalid choice: 'toy'" in refusal(capsys, "--sampling", "toy")


# --- files that cannot be used --------------------------------------------------------------------

BAD_FILES = {
    "x = (": "mine.py, line 1: '(' was never closed.",
    "\nimport nothing_of_this_name": "mine.py, line 2: ModuleNotFoundError: No module named",
    "\n\ndef f():\n    return 1 / 0\n\n\nf()": "line 4: ZeroDivisionError: division by zero",
    "raise SystemExit(3)": "mine.py, line 1: SystemExit: 3",
    "x = 1": "mine.py: it registers nothing. Call register_method, register_sampler, register_sur",
    SAMPLER.replace('"toy"', '"joint"'): "line 16: there is a sampler 'joint' already. Choose ano",
    SAMPLER.replace('"toy"', '"My Toy"'): "line 16: 'My Toy' cannot name a sampler: use small let",
    SAMPLER.replace("Sampler(title", "dict(title"): "the sampler 'toy' is dict; Sampler(title=...",
    SAMPLER.replace("@dataclass(frozen=True)", ""): "ToyOptions is no dataclass. Write @dataclass(",
    SAMPLER.replace('flag(3, "With --sampling toy: how much.", low=1)', "3"): (
        "ToyOptions.toy_level is no flag. Write toy_level: ... = flag(DEFAULT, HELP)."
    ),
    SAMPLER.replace("flag(3", "flag(0"): "line 16: --toy_level is 0; it must be a whole number",
    SAMPLER.replace("(ToyOptions,)", "(int,)"): "<class 'int'>; a subclass of OptionGroup is",
    SAMPLER.replace("toy_level", "lr"): "its option ToyOptions.lr has the name of another option,",
    SAMPLER.replace('title="a toy of this test", ', ""): "missing 1 required keyword-only argument",
}


@pytest.mark.parametrize("code", BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_file_that_cannot_be_used(write, capsys, code):
    names = list(SAMPLERS)
    path = write(code)
    message = refusal(capsys, "--plugin", path)
    assert BAD_FILES[code] in message
    assert message.startswith(f"run_multitask.py: --plugin {path}")
    if "another option" not in message:
        assert list(SAMPLERS) == names, "nothing of it stays registered"
        # The messages ask for this file.
        options, _ = parse(["--plugin", str(write(SAMPLER, "mended.py")), "--sampling", "toy"])
        assert options.flat()["toy_level"] == 3


def test_a_file_that_is_not_there(tmp_path, capsys):
    message = refusal(capsys, "--plugin", tmp_path / "nowhere.py")
    assert "nowhere.py: No such file or directory. Give a Python file" in message
    assert "Is a directory" in refusal(capsys, "--plugin", tmp_path)


def test_what_a_bad_file_registered_before_its_error_is_taken_back(write):
    with pytest.raises(PluginError, match="line 18: ZeroDivisionError"):
        load(write(SAMPLER + "\n1 / 0\n"))
    assert "toy" not in SAMPLERS
    assert not any(item.name == "toy" for item in REGISTERED)


def test_two_files_with_one_name(write):
    load(write(SAMPLER))
    with pytest.raises(PluginError, match="second.py, line 16: there is a sampler 'toy' already"):
        load(write(SAMPLER + "\n", "second.py"))
    assert "toy" in SAMPLERS, "that of the first file"


# --- loaded once, and the same file again ---------------------------------------------------------


def test_a_file_is_run_once(write):
    path = write(SAMPLER)
    assert load(path) is load(path)
    assert digest_of_plugin(SAMPLERS, "toy") == load(path).digest
    assert digest_of_plugin(SAMPLERS, "joint") == ""
    path.write_text(SAMPLER + "\n")
    with pytest.raises(PluginError, match="it has changed since it was loaded. Start again."):
        load(path)


def test_no_compiled_file_is_written_or_read(write):
    """A file that is edited within a second, to the same size, is another file."""
    path = write(SAMPLER)
    unload(load(path))
    assert [entry.name for entry in path.parent.iterdir()] == ["mine.py"]
    path.write_text(SAMPLER.replace("a toy of this test", "a toy of that test"))
    load(path)
    assert SAMPLERS["toy"].title == "a toy of that test"


def test_a_run_runs_no_code_that_the_user_has_not_named(write):
    """Its folder names the file and the digest, so both may be a stranger's."""
    path = write(SAMPLER)
    plugin = load(path)
    check_named([str(path)], {str(path): plugin.digest}, "runs/mine")
    unload(plugin)
    words = rf"runs/mine: it was trained with the plugin {path}, whose code .* add --plugin {path} "
    with pytest.raises(PluginError, match=words):
        check_named([str(path)], {str(path): plugin.digest}, "runs/mine")
    assert "toy" not in SAMPLERS


def test_a_named_file_counts_wherever_it_lies_and_only_as_it_was(write, tmp_path):
    path = write(SAMPLER)
    plugin = load(path)
    elsewhere = str(tmp_path / "before" / "mine.py")
    check_named([elsewhere], {elsewhere: plugin.digest}, "runs/mine")
    with pytest.raises(PluginError, match="mine.py has changed since the run began"):
        check_named([str(path)], {str(path): "0" * 64}, "runs/mine")
    for damaged in ("mine.py", None, [3], {"mine.py": 1}):
        with pytest.raises(PluginError, match="its list of plugins is damaged"):
            check_named(damaged, {}, "runs/mine")


# --- the examples in the docstrings ---------------------------------------------------------------


def example_of(function: Callable) -> str:
    """The indented code of a docstring."""
    lines = (function.__doc__ or "").splitlines()
    return "\n".join(line[8:] for line in lines if line.startswith(" " * 8) or not line.strip())


def test_the_examples_of_the_docstrings_can_be_registered(write):
    from contrastive import register_method
    from contrastive.registry import METHODS
    from multitask import register_head, register_sampler, register_surgery
    from multitask.surgery_registry import SURGERIES

    for function in (register_method, register_sampler, register_surgery, register_head):
        load(write(example_of(function), f"{function.__name__}.py"))
    assert "clip" in METHODS and "shortest-first" in SAMPLERS
    assert "shortest" in SURGERIES and "product" in HEADS


def test_a_library_user_loads_a_file_before_anything_else(write):
    """The package that the file imports has entries of its own, which are not the file's."""
    path = write(SAMPLER)
    code = (
        "from minbert.commands.plugins import load\n"
        f"plugin = load({str(path)!r})\n"
        "print([item.name for item in plugin.registered])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.stdout.strip() == "['toy']", result.stderr
