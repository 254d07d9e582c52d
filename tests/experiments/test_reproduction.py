"""experiments/reproduction.py: the same bits, tampered runs, tampered records."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from types import SimpleNamespace

import pytest
from safetensors.numpy import load_file, save_file

import run_multitask
from data.options import SAMPLE_FOLDER
from experiments import reproduction
from experiments.records import RECORDS, add_records, read_records
from experiments.reproduce import main
from experiments.reproduction import differences_of_runs, digest_of_data, unlike_seeds
from minbert.commands.files import write_json
from multitask.compare import main as compare

METHODS = read_records(RECORDS / "methods.jsonl")


@pytest.fixture
def reproduce(capsys):
    """A function: arguments -> exit code, what was printed, what was said."""

    def run(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def copy(two_runs, tmp_path):
    return shutil.copytree(two_runs[0], tmp_path / "copy")


def change_record(folder, **changes):
    """Edit run.json so that its checksum fits again."""
    record = json.loads((folder / "run.json").read_text())
    record.pop("checksum", None)
    write_json(folder / "run.json", {**record, **changes}, has_checksum=True)
    return record


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_comes_out_in_the_same_bits(two_runs, tmp_path, reproduce):
    """In a process of its own. Then two tampered copies are compared with what was trained."""
    code, printed, said = reproduce(two_runs[0], "--out", tmp_path / "again")
    assert code == 0, said + printed
    assert "same bits" in printed
    again = tmp_path / "again" / two_runs[0].name

    copy = shutil.copytree(two_runs[0], tmp_path / "copy")
    path = copy / "model" / "heads.safetensors"
    tensors = load_file(path)
    key = sorted(tensors)[0]
    flat = tensors[key].reshape(-1).copy()
    flat.view("uint8")[0] ^= 1
    save_file({**tensors, key: flat.reshape(tensors[key].shape)}, path)
    assert differences_of_runs(copy, again) == [f"model/heads.safetensors: {key}"]

    record = json.loads((two_runs[0] / "run.json").read_text())
    change_record(copy, best_step=1)
    assert "best_step in run.json" in differences_of_runs(copy, again)
    assert record["best_step"] != 1


def test_the_command_that_it_names_compares_the_two(two_runs, tmp_path, reproduce, monkeypatch):
    """In folders whose names have a blank."""
    first, second = (shutil.copytree(run, tmp_path / "my runs" / run.name) for run in two_runs)
    monkeypatch.setattr(reproduction, "train_again", lambda *_: second)
    code, printed, _ = reproduce(first)
    program, command = re.findall(r"`python -m (\S+) (.*)`", printed)[0]
    assert (code, program) == (1, "multitask.compare")
    assert compare(shlex.split(command)) == 0


def test_a_folder_that_is_there_is_not_written_into(two_runs, tmp_path, reproduce, monkeypatch):
    (tmp_path / "out" / two_runs[0].name).mkdir(parents=True)
    code, _, said = reproduce(two_runs[0], "--out", tmp_path / "out")
    assert code == 2 and "exists. Give another --out" in said
    monkeypatch.setattr(
        reproduction.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=3)
    )
    _, _, said = reproduce(two_runs[0], "--out", tmp_path / "other")
    assert "the training ended with exit code 3" in said


def test_two_seeds_differ_first_at_the_first_step(two_runs):
    assert differences_of_runs(*two_runs)
    assert "first at step 1 of multitask" in reproduction.first_difference(*two_runs)


@pytest.mark.parametrize("name", ["seed", "lr", "epochs"])
def test_an_edited_option_of_a_run_is_noticed(copy, tmp_path, reproduce, name):
    options = json.loads((copy / "run.json").read_text())["options"]
    change_record(copy, options={**options, name: options[name] * 2})
    code, _, said = reproduce(copy, "--out", tmp_path / "again")
    assert code == 2 and f"run.json has --{name}" in said and "was edited" in said


def test_an_edited_digest_and_an_edited_file_of_a_run_are_noticed(copy, tmp_path, reproduce):
    files = json.loads((copy / "run.json").read_text())["files"]
    path = next(iter(files))
    change_record(copy, files={**files, path: "0" * 64})
    code, _, said = reproduce(copy, "--out", tmp_path / "again")
    assert code == 2 and "has changed since the run read it" in said
    change_record(copy, files=files)
    (copy / "predictions" / "sst-dev-output.csv").write_text("nothing")
    code, _, said = reproduce(copy, "--out", tmp_path / "again")
    assert code == 2 and "the run did not write this file" in said


# --- ten kinds of runs ----------------------------------------------------------------------------

KINDS = {
    "one task, encoder frozen": "--option pretrain --tasks sst",
    "a pair as one input": "--pair-encoding cross",
    "joint steps, PCGrad": "--sampling joint --surgery pcgrad",
    "pooled batches, two for a step": "--sampling mt-dnn --accumulation 2",
    "SimCSE before the tasks": "--pretrain simcse --contrastive-sentences 32",
    "masked language modelling before the tasks": "--pretrain mlm",
    "R-Drop, averaged weights": "--regulariser r-drop --averaging ema",
    "a model soup": "--soup 2",
    "each task alone afterwards": "--single-task-epochs 1",
    "bf16, a constant learning rate": "--precision bf16 --schedule constant",
}


@pytest.fixture
def train(tiny_model, sample_data, tmp_path, monkeypatch):
    """A function: flags -> the folder of a run. What `reproduce` starts runs in this process."""

    def start(command, **_streams):
        code = run_multitask.main(list(map(str, command[2:])))
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(reproduction, "subprocess", SimpleNamespace(run=start))

    def run(flags: str):
        words = ["--model", tiny_model, "--data-dir", sample_data, "--epochs", "1"]
        words += ["--batch-size", "16", "--seed", "5", "--output-dir", tmp_path, "--name", "run"]
        start(["python", "run_multitask.py", *words, *flags.split()])
        return tmp_path / "run"

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_each_kind_comes_out_in_the_same_bits(kind, train, reproduce, tmp_path):
    """Trained again from what is recorded alone. One flipped bit of a tensor is noticed."""
    folder = train(KINDS[kind])
    code, printed, said = reproduce(folder, "--out", tmp_path / "again")
    assert code == 0 and "same bits" in printed, said + printed

    path = max(folder.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert len(differences_of_runs(folder, tmp_path / "again" / "run")) == 1


# --- records --------------------------------------------------------------------------------------


@pytest.fixture
def tampered(tmp_path, monkeypatch):
    """A function: changes to the first record of the methods -> its name in another folder."""
    monkeypatch.setattr(reproduction, "RECORDS", tmp_path)

    def write(**changes) -> str:
        (tmp_path / "mine.jsonl").unlink(missing_ok=True)
        add_records(tmp_path / "mine.jsonl", [{**METHODS[0], **changes}])
        return "mine:1"

    return write


def test_a_record_says_what_it_needs(tampered, reproduce, tmp_path, monkeypatch):
    """The bundled sample is the default outside of the clone, too."""
    monkeypatch.chdir(tmp_path)
    digest = digest_of_data(SAMPLE_FOLDER, METHODS[0])
    code, printed, said = reproduce(tampered(data=digest))
    assert code == 0, said
    assert f"It took {METHODS[0]['minutes']} minutes" in printed
    assert digest[:10] in printed and METHODS[0]["code"]["git"][:10] in printed
    assert "--seed 0" in printed and "--start trains" in printed

    code, _, said = reproduce("--data-dir", str(tmp_path), "mine:1")
    assert code == 2 and f"{tmp_path} does not hold all files of its tasks" in said
    assert "Give the folder of its data as --data-dir." in said
    assert reproduce("--data-dir", str(SAMPLE_FOLDER), "mine:1")[0] == 0


def test_a_record_of_an_earlier_sample_says_where_its_data_are(reproduce):
    """Of a file of runs, and of a benchmark that measured a run."""
    for name in ("methods:1", "real-sentences:11"):
        code, _, said = reproduce(name)
        assert code == 2
        assert "the first bundled sample. `git archive 0179ec29ba data/sample | tar -x -C" in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": {**METHODS[0]["scores"], "sst": 0.9}}, "overall_2023 is not the mean"),
        ({"epochs": METHODS[0]["epochs"][:1]}, "those of no epoch"),
        ({"data": "0" * 64}, "and the record was made with 0000000000"),
        ({"code": {"git": "0" * 40, "sha256": "0" * 64}}, "no commit 0000000000"),
        ({"code": {"git": "abc-dirty", "sha256": "0" * 64}}, "in no commit"),
        ({"options": {"invented": 1}}, "--invented is no option"),
    ],
)
def test_a_tampered_record_is_noticed_before_it_is_trained(tampered, reproduce, changes, message):
    code, _, said = reproduce(tampered(**changes))
    assert code == 2 and message in said


def test_a_record_that_was_edited_by_hand_is_refused(tampered, reproduce, tmp_path):
    name = tampered()
    path = tmp_path / "mine.jsonl"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 3', 1))
    code, _, said = reproduce(name)
    assert code == 2 and "this record was edited" in said


@pytest.mark.parametrize("name", ["methods:999", "nothing:1", "benchmarks:1", "methods"])
def test_a_name_of_no_record_is_refused(reproduce, name):
    code, _, said = reproduce(name)
    assert code == 2 and "record" in said


def test_another_score_is_within_the_noise_of_the_seeds_or_not():
    """Seeds .50, .52 and .54: mean .52, deviation .02. A new one may be 4.3 * .02 * 1.15 away."""
    runs = [{"scores": {"sst": score}} for score in (0.50, 0.52, 0.54)]
    assert unlike_seeds(runs[0], runs[1:], {"sst": 0.61}) == []
    assert unlike_seeds(runs[0], runs[1:], {"sst": 0.63}) == ["sst"]
    assert unlike_seeds(runs[0], [], {"sst": 0.5}) is None
