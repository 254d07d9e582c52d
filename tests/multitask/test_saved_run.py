"""multitask/saved_run.py: a run opened again predicts what it wrote; faults are named.

If predictions differ from the files, the run was most likely opened with other options than it had.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from data.examples import COURSE_FILES
from data.readers import read_examples
from minbert.commands.files import digest_of_file, read_json
from minbert.training.code_version import ROOT
from multitask.evaluation import evaluate, predict
from multitask.prediction_files import read_predictions
from multitask.saved_run import choose_device, open_run, read_record, same_data
from multitask.tasks import TASKS


@pytest.fixture
def copied(two_runs, tmp_path) -> Path:
    """A run whose files may be damaged."""
    return Path(shutil.copytree(two_runs[0], tmp_path / "run"))


def change(run: Path, **changes) -> None:
    """Replace entries of run.json."""
    record = read_json(run / "run.json")
    (run / "run.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


def options_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))["options"]


def change_options(run: Path, **changes) -> None:
    """Replace options in run.json."""
    change(run, options={**options_of(run), **changes})


def attention_of(run) -> str:
    return run.model.encoder.config.attention_implementation


# --- a run opened again -------------------------------------------------------------------------


def test_a_run_opened_again_predicts_what_it_wrote(two_runs):
    run = open_run(two_runs[0])
    assert not run.model.training
    assert (run.folder, run.options.training.seed) == (two_runs[0], 1)
    for name, task in TASKS.items():
        # Training rows would take time, and nobody asks for them.
        assert run.rows[name].keys() == {"dev", "test"}
        for split in ("dev", "test"):
            outputs = run.outputs(name, split)
            assert outputs.dtype == np.float32
            assert outputs.shape == ((24, 5) if name == "sst" else (24,))
            path = two_runs[0] / "predictions" / f"{name}-{split}-output.csv"
            written = read_predictions(path, task)
            assert list(written) == [example.id for example in run.tables[name][split].examples]
            assert list(written.values()) == pytest.approx(task.decode(outputs), abs=1e-5)

    dev = {name: run.rows[name]["dev"] for name in TASKS}
    scores = evaluate(run.model, dev, run.options.training.precision)
    assert {name: scores[name] for name in TASKS} == pytest.approx(run.scores, abs=1e-6)


def test_rows_are_cut_and_computed_as_the_run_says(copied):
    assert attention_of(open_run(copied)) == "eager" == options_of(copied)["attention"]
    change_options(copied, max_length=8, precision="bf16", attention="fused")
    run = open_run(copied)
    # bf16 rounds the two kinds of attention at different places.
    assert attention_of(run) == "fused"
    for splits in run.rows.values():
        for of_split in splits.values():
            assert max(of_split.lengths) == 8
    exact = predict(run.model, "sts", run.rows["sts"]["dev"], "fp32")
    # bf16 has 8 significant bits.
    assert 0 < np.abs(run.outputs("sts", "dev") - exact).max() < 0.2


def test_negative_control_another_seed_is_another_model(two_runs):
    first = open_run(two_runs[0]).outputs("sts", "dev")
    second = open_run(two_runs[1]).outputs("sts", "dev")
    assert np.abs(first - second).max() > 1e-3


def test_its_rows_are_those_of_the_data_folder(two_runs, sample_data):
    tables = open_run(two_runs[0]).tables
    for name, task in TASKS.items():
        table = read_examples(sample_data / COURSE_FILES[name]["dev"], task.format)
        assert table.examples == tables[name]["dev"].examples


def test_a_record_is_read_without_the_model(copied):
    shutil.rmtree(copied / "model")
    record = read_record(str(copied))
    assert record.folder == copied
    assert record.scores.keys() == TASKS.keys()
    assert len(record.files) == 9
    with pytest.raises(ValueError, match="model"):
        open_run(copied)


@pytest.mark.parametrize("name", ["heads.safetensors", "model.safetensors"])
def test_a_model_that_cannot_be_read(copied, name):
    path = copied / "model" / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"model"):
        open_run(copied)


def test_a_run_of_a_device_that_is_not_here(copied, monkeypatch, capsys):
    """It opens on another one, and the user is told."""
    record = read_record(copied)
    assert choose_device(record).type == "cpu" and not capsys.readouterr().out
    change_options(copied, device="cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert next(open_run(copied).model.parameters()).device.type == "cpu"
    words = (
        "was trained on the device cuda, which torch does not find on this machine. It is opened"
    )
    assert words in capsys.readouterr().out


def test_another_fault_of_the_device_is_not_hidden(two_runs, monkeypatch):
    def fail(name="auto"):
        raise ValueError("the driver is too old")

    monkeypatch.setattr("minbert.training.runtime.choose_device", fail)
    with pytest.raises(ValueError, match="the driver is too old"):
        choose_device(read_record(two_runs[0]))


# --- no run, half a run, another version --------------------------------------------------------


def test_no_run_at_all(tmp_path):
    message = "no finished run there .*Give a folder that run_multitask.py wrote"
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ValueError, match=message):
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
    without = {name: value for name, value in options.items() if name != "max_length"}
    change(copied, options=without)
    with pytest.raises(ValueError, match="lacks max_length, so another version wrote it"):
        open_run(copied)
    change(copied, options=options, files={})
    with pytest.raises(ValueError, match="lacks sst_train"):
        open_run(copied)


def test_a_record_of_an_older_version_opens(two_runs, copied):
    """Older versions left "auto" in the record, and had options that are gone."""
    change_options(copied, score="auto", an_option_that_is_gone=3)
    expected = open_run(two_runs[0]).outputs("sts", "dev")
    assert (open_run(copied).outputs("sts", "dev") == expected).all()


def test_an_option_of_another_version(copied):
    change_options(copied, head="blend")
    message = "does not know .--head is 'blend'.*so another version wrote it. Start the run anew"
    with pytest.raises(ValueError, match=message):
        open_run(copied)


def test_a_record_that_was_edited(copied):
    """Another precision, such as here, would give other predictions without a word."""
    path = copied / "run.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"precision": "', '"precision": "x'), encoding="utf-8")
    message = r'run.json cannot be used: its checksum is wrong.*delete its entry "checksum", too'
    with pytest.raises(ValueError, match=message):
        read_record(copied)


# --- its data -----------------------------------------------------------------------------------


@pytest.fixture
def with_own_data(copied, sample_data, tmp_path) -> tuple[Path, Path]:
    """A run and a data folder of its own, which may be damaged."""
    data = Path(shutil.copytree(sample_data, tmp_path / "data"))
    record = json.loads((copied / "run.json").read_text(encoding="utf-8"))
    moved = {path: str(data / Path(path).name) for path in record["files"]}
    change(
        copied,
        files={moved[path]: digest for path, digest in record["files"].items()},
        options={name: moved.get(str(value), value) for name, value in record["options"].items()},
    )
    return copied, data


def drop_last_line(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")


def test_data_that_moved_as_it_is(with_own_data):
    run, data = with_own_data
    assert open_run(run).tables["sts"]["dev"].path == str(data / "sts-dev.csv")


def test_data_that_is_gone_or_has_changed(with_own_data):
    run, data = with_own_data
    path = data / "sts-dev.csv"
    drop_last_line(path)
    message = r"sts-dev.csv is not the file that the run was trained on.*Restore it"
    with pytest.raises(ValueError, match=message):
        open_run(run)
    path.unlink()
    message = r"sts-dev.csv, which the run was trained on, is not there.*Restore it"
    with pytest.raises(ValueError, match=message):
        open_run(run)


def test_the_same_data_by_another_name_and_training_rows_of_ones_own(with_own_data, two_runs):
    run, data = with_own_data
    same_data([read_record(two_runs[0]), read_record(two_runs[1]), read_record(run)])

    path = data / "sts-train.csv"
    drop_last_line(path)
    records = [read_record(two_runs[0]), read_record(run)]
    message = f"{run}: .*sts-train.csv is not the file that the run was trained on"
    with pytest.raises(ValueError, match=message):
        same_data(records)

    # A run on that other training file can be compared.
    change(run, files={**records[1].files, str(path): digest_of_file(path)})
    same_data([records[0], read_record(run)])


@pytest.mark.parametrize("name", ["ids-sst-dev.csv", "quora-test-student.csv"])
def test_other_dev_or_test_rows(with_own_data, two_runs, name):
    run, data = with_own_data
    change(run, files={**read_record(run).files, str(data / name): "0" * 64})
    message = (
        rf"{two_runs[0]} and {run} have different files for --\w+_(dev|test) .*{name}.*Give runs "
        "on one data"
    )
    with pytest.raises(ValueError, match=message):
        same_data([read_record(two_runs[0]), read_record(two_runs[1]), read_record(run)])
