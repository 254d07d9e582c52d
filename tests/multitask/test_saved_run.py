"""multitask/saved_run.py: a run opened again predicts what it wrote; what is wrong with a folder is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from data.readers import COURSE_FILES, read_examples, sha256_of
from minbert.training.code_version import ROOT
from multitask.evaluation import evaluate, predict
from multitask.prediction_files import read_predictions
from multitask.saved_run import open_run, read_record, same_data
from multitask.tasks import TASKS


@pytest.fixture
def copied(two_runs, tmp_path) -> Path:
    """A run whose files may be damaged."""
    return Path(shutil.copytree(two_runs[0], tmp_path / "run"))


def change(run: Path, **changes) -> None:
    """Replace entries of run.json."""
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


def options_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))["options"]


def test_a_run_opened_again_predicts_what_it_wrote(two_runs):
    run = open_run(two_runs[0])
    assert not run.model.training
    assert (run.folder, run.options.training.seed) == (two_runs[0], 1)
    for name, task in TASKS.items():
        assert run.rows[name].keys() == {
            "dev",
            "test",
        }  # no time for training rows, which nobody asks for
        for split in ("dev", "test"):
            outputs = run.outputs(name, split)
            assert outputs.dtype == np.float32 and outputs.shape == (
                (24, 5) if name == "sst" else (24,)
            )
            written = read_predictions(
                two_runs[0] / "predictions" / f"{name}-{split}-output.csv", task
            )
            assert list(written) == [example.id for example in run.tables[name][split].examples]
            assert list(written.values()) == pytest.approx(task.decode(outputs), abs=1e-5)
    scores = evaluate(
        run.model, {name: run.rows[name]["dev"] for name in TASKS}, run.options.training.precision
    )
    assert {name: scores[name] for name in TASKS} == pytest.approx(run.scores, abs=1e-6)


def test_rows_are_cut_and_computed_as_the_run_says(copied):
    assert (
        open_run(copied).model.encoder.config.attention_implementation
        == "eager"
        == options_of(copied)["attention"]
    )
    change(
        copied,
        options={**options_of(copied), "max_length": 8, "precision": "bf16", "attention": "fused"},
    )
    run = open_run(copied)
    assert (
        run.model.encoder.config.attention_implementation == "fused"
    )  # bf16 rounds the two at different places
    assert {
        max(of_split.lengths) for splits in run.rows.values() for of_split in splits.values()
    } == {8}
    exact = predict(run.model, "sts", run.rows["sts"]["dev"], "fp32")
    assert 0 < np.abs(run.outputs("sts", "dev") - exact).max() < 0.2  # bf16 has 8 significant bits


def test_negative_control_another_seed_is_another_model(two_runs):
    first, second = (open_run(folder).outputs("sts", "dev") for folder in two_runs)
    assert np.abs(first - second).max() > 1e-3


def test_its_rows_are_those_of_the_data_folder(two_runs, sample_data):
    tables = open_run(two_runs[0]).tables
    for name, task in TASKS.items():
        table = read_examples(sample_data / COURSE_FILES[name]["dev"], task.format)
        assert table.examples == tables[name]["dev"].examples


def test_a_record_is_read_without_the_model(copied):
    shutil.rmtree(copied / "model")
    record = read_record(str(copied))
    assert (
        record.folder == copied and record.scores.keys() == TASKS.keys() and len(record.files) == 9
    )
    with pytest.raises(ValueError, match="model"):
        open_run(copied)


@pytest.mark.parametrize("name", ["heads.safetensors", "model.safetensors"])
def test_a_model_that_cannot_be_read(copied, name):
    content = (copied / "model" / name).read_bytes()
    (copied / "model" / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"model"):
        open_run(copied)


def test_a_run_of_a_device_that_is_not_here(copied, monkeypatch):
    change(copied, options={**options_of(copied), "device": "cuda"})
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert next(open_run(copied).model.parameters()).device.type == "cpu"


def test_no_run_at_all(tmp_path):
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(
            ValueError, match="no finished run there .*Give a folder that run_multitask.py wrote"
        ):
            read_record(folder)


def test_an_unfinished_run(copied, tmp_path, monkeypatch):
    (copied / "run.json").unlink()
    for folder, program in ((ROOT, "run_multitask.py"), (tmp_path, str(ROOT / "run_multitask.py"))):
        monkeypatch.chdir(folder)
        with pytest.raises(ValueError, match=f"has not come to its end .* {program} --resume"):
            read_record(copied)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"options": {}, "files": {}}',
        "not JSON",
        '{"options": {}, "files": {}, "scores": {"sst": 0.5, "para": 0.5}}',
        '{"options": 3, "files": {}, "scores": {}}',
    ],
)
def test_a_record_that_is_none(copied, content):
    (copied / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="no finished run there"):
        open_run(copied)


def test_a_record_of_another_version(copied):
    options = options_of(copied)
    change(copied, options={name: value for name, value in options.items() if name != "max_length"})
    with pytest.raises(ValueError, match="lacks max_length, so another version wrote it"):
        open_run(copied)
    change(copied, options=options, files={})
    with pytest.raises(ValueError, match="lacks sst_train"):
        open_run(copied)


@pytest.fixture
def with_own_data(copied, sample_data, tmp_path) -> tuple[Path, Path]:
    """A run and a data folder of its own, which may be damaged."""
    data = Path(shutil.copytree(sample_data, tmp_path / "data"))
    record = json.loads((copied / "run.json").read_text(encoding="utf-8"))
    moved = {path: str(data / Path(path).name) for path in record["files"]}
    change(
        copied,
        files={moved[path]: digest for path, digest in record["files"].items()},
        options={name: moved.get(value, value) for name, value in record["options"].items()},
    )
    return copied, data


def test_data_that_moved_as_it_is(with_own_data):
    run, data = with_own_data
    assert open_run(run).tables["sts"]["dev"].path == str(data / "sts-dev.csv")


def test_data_that_is_gone_or_has_changed(with_own_data):
    run, data = with_own_data
    text = (data / "sts-dev.csv").read_text(encoding="utf-8")
    (data / "sts-dev.csv").write_text(
        "".join(text.splitlines(keepends=True)[:-1]), encoding="utf-8"
    )
    with pytest.raises(
        ValueError, match=r"sts-dev.csv is not the file that the run was trained on.*Restore it"
    ):
        open_run(run)
    (data / "sts-dev.csv").unlink()
    with pytest.raises(
        ValueError, match=r"sts-dev.csv, which the run was trained on, is not there.*Restore it"
    ):
        open_run(run)


def test_the_same_data_by_another_name_and_training_rows_of_ones_own(with_own_data, two_runs):
    run, data = with_own_data
    same_data([read_record(two_runs[0]), read_record(two_runs[1]), read_record(run)])
    text = (data / "sts-train.csv").read_text(encoding="utf-8")
    (data / "sts-train.csv").write_text(
        "".join(text.splitlines(keepends=True)[:-1]), encoding="utf-8"
    )
    records = [read_record(two_runs[0]), read_record(run)]
    with pytest.raises(
        ValueError, match=f"{run}: .*sts-train.csv is not the file that the run was trained on"
    ):
        same_data(records)
    change(
        run,
        files={**records[1].files, str(data / "sts-train.csv"): sha256_of(data / "sts-train.csv")},
    )
    same_data([records[0], read_record(run)])


@pytest.mark.parametrize("name", ["ids-sst-dev.csv", "quora-test-student.csv"])
def test_other_dev_or_test_rows(with_own_data, two_runs, name):
    run, data = with_own_data
    change(run, files={**read_record(run).files, str(data / name): "0" * 64})
    message = rf"{two_runs[0]} and {run} have different files for --\w+_(dev|test) .*{name}.*Give runs on one data"
    with pytest.raises(ValueError, match=message):
        same_data([read_record(two_runs[0]), read_record(two_runs[1]), read_record(run)])
