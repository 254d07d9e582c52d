"""Runs with the plugins of this folder: trained, predicted, resumed, refused with a changed file.

The general tests also run over the plugins, because they take all they need from the entries.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import run_multitask
from course import predict as course
from experiments import reproduce
from multitask import compare, predict
from multitask.ensemble import __main__ as ensemble
from multitask.errors import __main__ as errors
from multitask.export import __main__ as export
from tests.plugins.loading import FILES
from tests.python_processes import ROOT, run_python


def named(*files: object) -> list[str]:
    """The flags that name plugins."""
    return [f"--plugin={file}" for file in files]


def call(*command: object) -> subprocess.CompletedProcess:
    """Run a Python command in the root of the clone to its end."""
    return run_python(*command, timeout=600)


def exit_code(main: Callable[[list[str]], int], arguments: list[str]) -> object:
    """The code of a command that runs in this process. argparse leaves by SystemExit."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """Copies of the plugins, which a test may change."""
    folder = tmp_path_factory.mktemp("plugins")
    return {name: Path(shutil.copy(path, folder)) for name, path in FILES.items()}


@pytest.fixture(scope="module")
def run(files, tiny_model, sample_data, tmp_path_factory):
    """A function that trains a small run with some plugins; it returns the run's folder."""
    folder = tmp_path_factory.mktemp("runs")

    def train(name: str, plugins: list[str], *flags: object) -> Path:
        paths = ",".join(str(files[plugin]) for plugin in plugins)
        small = ["--train-rows", "sst=16,para=16,sts=16", "--dev-rows", "sst=8,para=8,sts=8"]
        data = ["--model", tiny_model, "--data-dir", sample_data, "--device", "cpu"]
        place = ["--output-dir", folder, "--name", name]
        result = call(
            "run_multitask.py", "--plugin", paths, "--epochs", 1, *small, *data, *place, *flags
        )
        assert result.returncode == 0, result.stderr
        (folder / name / "output.txt").write_text(result.stdout)
        return folder / name

    return train


@pytest.fixture(scope="module")
def trained(run) -> Path:
    """A run with a loss and gradient surgery of plugins."""
    flags = [
        "--pretrain",
        "ance",
        "--ance-negatives",
        2,
        "--sampling",
        "joint",
        "--surgery",
        "mgda",
    ]
    return run("loss", ["ance", "mgda"], *flags)


@pytest.fixture(scope="module")
def headed(run) -> Path:
    """A run with a sampler and a head of plugins."""
    flags = ["--sampling", "spread", "--head", "product", "--product-scale", 2.0]
    return run("head", ["spread", "product"], *flags)


def test_a_loss_and_a_surgery(trained, files):
    output = (trained / "output.txt").read_text()
    assert "ance: epochs 3, batch_size 64," in output and "ance_negatives 2" in output
    assert "ance: step" in output
    record = json.loads((trained / "run.json").read_text())
    assert record["options"]["surgery"] == "mgda"
    assert record["options"]["plugin"] == [str(files["ance"]), str(files["mgda"])]
    for path in (files["ance"], files["mgda"]):
        assert record["files"][str(path)] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(record["conflicts"]) == 3, "the cosines of each pair of tasks"
    stage = json.loads((trained / "encoder" / "stage.json").read_text())
    assert stage["settings"]["epochs"] == 3


def test_a_stage_is_used_again_only_with_the_same_file(run, trained, files):
    """Another file with the same name of the method trains something else."""
    flags = ["--pretrain", "ance", "--ance-negatives", 2]
    again = run("again", ["ance"], *flags)
    assert "ance: step" not in (again / "output.txt").read_text()
    original = files["ance"].read_text()
    try:
        files["ance"].write_text(original + "\n# another file\n")
        other = run("other", ["ance"], *flags)
        assert "ance: step" in (other / "output.txt").read_text()
    finally:
        files["ance"].write_text(original)


def test_a_head_and_a_sampler_are_opened_again(headed, files, tmp_path):
    """From another folder, where --plugin names the file of the head again."""
    record = json.loads((headed / "run.json").read_text())
    assert record["options"]["pair_encoding"] == "bi", "the head's first encoding"
    assert record["options"]["spread_jitter"] == 0.0
    stored = json.loads((headed / "model" / "heads.json").read_text())
    assert (stored["head"], stored["product_scale"]) == ("product", 2.0)
    # The card of the model names the files in its command.
    assert f" --plugin {files['product']}" in (headed / "README.md").read_text()

    rows = tmp_path / "rows.tsv"
    rows.write_text("a cat sleeps\ta cat is asleep\n")
    command = ["-m", "multitask.predict", headed, "--task", "sts", "--input", rows, "--lines"]
    command += named(files["product"])
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    result = run_python(*command, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    float(result.stdout.split("\t")[0])


def test_the_model_alone_says_that_its_head_is_of_a_plugin(headed):
    code = f"""
from multitask.model import MultitaskBert
try:
    MultitaskBert.from_pretrained({str(headed / "model")!r})
except ValueError as error:
    print(error)
from minbert.commands.plugins import load
load({str(FILES["product"])!r})
print(type(MultitaskBert.from_pretrained({str(headed / "model")!r}).heads["sts"]).__name__)
"""
    result = call("-c", code)
    message, name = result.stdout.strip().splitlines()
    assert "there is no head 'product'. If a file of --plugin registers it, load that" in message
    assert name == "Product"


def test_a_run_is_predicted_without_the_file_of_its_sampler(headed, files, tmp_path):
    """A sampler only trains. To go on training, its file must be there."""
    rows = tmp_path / "rows.tsv"
    rows.write_text("a cat sleeps\ta cat is asleep\n")
    command = ["-m", "multitask.predict", headed, "--task", "sts", "--input", rows, "--lines"]
    command += named(files["product"])
    expected = call(*command)
    assert expected.returncode == 0, expected.stderr

    original = files["spread"].read_text()
    try:
        files["spread"].unlink()
        result = call(*command)
        assert (result.returncode, result.stdout) == (0, expected.stdout), result.stderr
        flags = named(files["product"])
        report = call("-m", "multitask.errors", headed, "--out", tmp_path / "report", *flags)
        assert report.returncode == 0, report.stderr
        refused = call("run_multitask.py", "--resume", headed, *flags)
        assert refused.returncode == 2
        assert f"it was trained with the plugin {files['spread']}, whose code" in refused.stderr
    finally:
        files["spread"].write_text(original)


def test_a_run_is_not_opened_with_another_file(headed, files):
    """The file of its head has changed, and the user has named it."""
    original = files["product"].read_text()
    words = "has changed since the run began. Bring the file back as it was, or start a new run."
    try:
        files["product"].write_text(original + "\nEDITED = True\n")
        for command in (["-m", "multitask.errors"], ["run_multitask.py", "--resume"]):
            result = call(*command, headed, *named(files["product"], files["spread"]))
            assert result.returncode == 2
            assert f"its plugin {files['product']} {words}" in result.stderr
    finally:
        files["product"].write_text(original)


def test_no_command_runs_the_code_of_a_run_that_the_user_has_not_named(
    headed, files, tmp_path, capsys
):
    """The digest in the folder fits the file: a stranger writes both."""
    trace = tmp_path / "trace"
    rows = tmp_path / "rows.tsv"
    rows.write_text("a cat sleeps\ta cat is asleep\n")
    run = Path(shutil.copytree(headed, tmp_path / "theirs"))
    evil = tmp_path / "evil.py"
    evil.write_text(files["product"].read_text() + f"\nopen({str(trace)!r}, 'w').close()\n")
    digest = hashlib.sha256(evil.read_bytes()).hexdigest()
    for name in ("run.json", "options.json"):
        content = json.loads((run / name).read_text())
        content.pop("checksum", None)
        content["options"]["plugin"] = [str(evil)]
        content["files"][str(evil)] = digest
        (run / name).write_text(json.dumps(content))
    named_run = [str(run)]
    predicted = [*named_run, "--task", "sts", "--input", str(rows), "--lines"]
    commands = [
        (predict.main, predicted),
        (errors.main, named_run),
        (ensemble.main, [*named_run, str(headed), "--out", str(tmp_path / "joined")]),
        (export.main, [*named_run, "--task", "sts", "--out", str(tmp_path / "exported")]),
        (course.main, [*named_run, "--out", str(tmp_path / "hand-in")]),
        (compare.main, [*named_run, str(headed)]),
        (reproduce.main, [*named_run, "--out", str(tmp_path / "again")]),
        (run_multitask.main, ["--resume", *named_run]),
    ]
    for main, arguments in commands:
        assert exit_code(main, arguments) == 2
        refusal = capsys.readouterr().err
        assert f"trained with the plugin {evil}, whose code runs only if" in refusal, main
        assert not trace.exists(), main
    # The control: named by the user, it runs.
    assert call("-m", "multitask.predict", *predicted, *named(evil)).returncode == 0
    assert trace.exists()


def test_a_run_with_plugins_is_resumed(headed, files, tmp_path):
    """--plugin names its files again."""
    begun = Path(shutil.copytree(headed, tmp_path / "begun"))
    expected = json.loads((begun / "run.json").read_text())
    (begun / "run.json").unlink()
    flags = named(files["spread"], files["product"])
    result = call("run_multitask.py", "--resume", begun, *flags)
    assert result.returncode == 0, result.stderr
    assert json.loads((begun / "run.json").read_text())["scores"] == expected["scores"]


GENERAL = [
    "tests/lessons/test_samplers.py",
    "tests/multitask/test_registries.py",
    "tests/contrastive/test_registry.py",
    "tests/contrastive/test_options.py",
    "tests/contrastive/test_caching.py",
    "tests/contrastive/test_stage.py",
    "tests/command_line/test_every_value.py",
]
# The tests of the plugins' entries, of every registry, and of all options together.
CHOSEN = " or ".join([*FILES, "registries", "all_options", "each_name"])


def test_the_general_tests_hold_for_them():
    """In one process, because each new one imports everything again."""
    plugins = []
    for path in FILES.values():
        plugins += ["--plugin-file", path]
    chosen = ["-k", CHOSEN]
    result = call("-m", "pytest", "-vv", "-p", "no:cacheprovider", *GENERAL, *chosen, *plugins)
    assert result.returncode == 0, result.stdout[-3000:]
    for file in GENERAL:
        assert f"{file}::" in result.stdout, f"no test of {file} was run"
