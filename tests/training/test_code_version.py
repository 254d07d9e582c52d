"""minbert/training/code_version.py: an edit of any file that made a result gives another version.

A stage is reused from another run only if the code that trained it is the same. If a test here
fails, an edit of a loss or of the loop may be ignored: a run would show the results of the old
code.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from command_line.options import Options
from minbert.training import code_version
from minbert.training.stage import code_of
from tests.toy_multitask import encoded
from tests.toy_stages import make_mlm_stage

ROOT = code_version.ROOT
PACKAGES = {"simcse": ("data", "contrastive"), "mlm": ("data", "multitask")}


@pytest.fixture
def clone(tmp_path, monkeypatch) -> Path:
    """A copy of the sources, which a test may edit. The digests are those of the copy."""
    for name in code_version.SOURCES:
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            only_code = shutil.ignore_patterns("__pycache__", "sample", "*.safetensors")
            shutil.copytree(ROOT / name, target, ignore=only_code)
        else:
            shutil.copyfile(ROOT / name, target)
    monkeypatch.setattr(code_version, "ROOT", tmp_path / "clone")
    return tmp_path / "clone"


def sha256() -> str:
    """The digest of `code_version`, computed anew."""
    return code_version.code_version.__wrapped__()["sha256"]


def test_the_clone_is_the_folder_of_the_main_job():
    assert (ROOT / "run_multitask.py").is_file() and (ROOT / "minbert" / "training").is_dir()


def test_a_copy_has_the_same_version_and_no_commit(clone, monkeypatch):
    of_copy = code_version.code_version.__wrapped__()
    assert of_copy["git"] == "", "a copy is no clone, even where a folder above it is one"
    monkeypatch.setattr(code_version, "ROOT", ROOT)
    assert sha256() == of_copy["sha256"]


def unnoticed_edits(paths: Iterable[Path], digest: Callable[[], str]) -> list[Path]:
    """The files of which an edit gives the digest of the whole clone without edits."""
    before = digest()
    unnoticed = []
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        if digest() == before:
            unnoticed.append(path)
        path.write_bytes(content)
    assert digest() == before
    return unnoticed


def test_the_version_covers_every_file_that_a_run_may_import(clone):
    assert unnoticed_edits(clone.rglob("*.py"), sha256) == []


def test_the_version_does_not_cover_documents(clone):
    before = sha256()
    (clone / "README.md").write_text("changed")
    (clone / "minbert" / "README.md").write_text("changed")
    assert sha256() == before


def test_a_file_that_was_renamed_is_other_code(clone):
    before = code_of("data")
    (clone / "data" / "corpus.py").rename(clone / "data" / "corpora.py")
    assert code_of("data") != before


def test_code_is_named_by_its_place_in_the_clone(tmp_path, clone):
    """A name that is no package must not pass silently as an empty one."""
    for name in ("nothing", "minbert/nothing.py"):
        with pytest.raises(ValueError, match="no Python file. Name a package or a file"):
            code_of(name)


@pytest.mark.parametrize("stage", PACKAGES)
def test_the_code_of_a_stage_covers_nested_folders(clone, stage):
    packages = ("minbert", *PACKAGES[stage])
    paths = [path for package in packages for path in (clone / package).rglob("*.py")]
    assert unnoticed_edits(paths, lambda: code_of(*PACKAGES[stage])) == []
    nested = [path for path in paths if path.parent.parent != clone]
    assert len(nested) > 10, "minbert/training and other packages in packages count"


@pytest.mark.parametrize("stage", PACKAGES)
def test_the_code_of_a_stage_covers_nothing_else(clone, stage):
    others = ["run_multitask.py", "command_line/options.py"]
    others.append("contrastive/losses.py" if stage == "mlm" else "multitask/losses.py")
    for name in others:
        path = clone / name
        assert unnoticed_edits([path], lambda: code_of(*PACKAGES[stage])) == [path]
    (clone / "docs").mkdir()
    (clone / "docs" / "tour.py").write_text("x = 1\n")
    before = code_of(*PACKAGES[stage])
    (clone / "docs" / "tour.py").write_text("x = 2\n")
    assert code_of(*PACKAGES[stage]) == before


@pytest.fixture
def make_stage(make_stages, sample_data, tiny_model, tmp_path):
    """A function that builds a stage by its name in --pretrain."""
    from multitask.rows import read_tables

    options = Options.of(
        pretrain="mlm",
        model=str(tiny_model),
        data_dir=str(sample_data),
        precision="fp32",
        mlm_lr=1e-3,
        max_length=48,
        pair_encoding="cross",
    ).with_files()
    rows = encoded(options, read_tables(options.data))

    def make(name: str):
        if name == "mlm":
            return make_mlm_stage(options, rows, tmp_path / "run", tiny_model)
        return make_stages(name)[0]

    return make


@pytest.mark.parametrize("name", PACKAGES)
def test_a_stage_carries_the_code_of_its_packages(make_stage, clone, name):
    """The stage itself, as a run builds it: the code follows an edit, the fingerprint does not."""
    stage = make_stage(name)
    assert stage.code == code_of(*PACKAGES[name])
    for place in ("minbert/training/loop.py", f"{PACKAGES[name][1]}/stage.py", "data/batching.py"):
        path = clone / place
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        edited = make_stage(name)
        path.write_bytes(content)
        assert edited.code != stage.code, place
        assert edited.fingerprint == stage.fingerprint


def test_a_clone_of_another_user_has_its_commit(monkeypatch):
    """Git refuses such a folder, and the commit of a record would be empty without a word."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    command = ["git", "-C", str(code_version.ROOT), "rev-parse", "HEAD"]
    assert subprocess.run(command, capture_output=True).returncode != 0, "the control"
    assert len(code_version.run_git("rev-parse", "--verify", "HEAD").stdout.strip()) == 40
