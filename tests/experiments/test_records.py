"""experiments/records.py: what is stated comes from records."""

from __future__ import annotations

import errno
import json
import multiprocessing
from datetime import date

import pytest
from filelock import FileLock

from experiments import records
from experiments.records import (
    COMMANDS,
    RECORDS,
    add_records,
    command_of,
    contradictions,
    data_digest,
    newest_of,
    read_records,
    record_of,
)

DAY = date(2026, 11, 25)


def test_the_record_of_a_run(two_runs):
    run = json.loads((two_runs[0] / "run.json").read_text())
    record = record_of(run, DAY)
    assert record["seed"] == 1
    assert record["recipe"] == "none"
    assert record["scores"] == run["scores"]
    assert "train_scores" not in record
    assert "stages" not in record
    stages = {"simcse": {"before": {"spearman": 0.7}, "after": {"spearman": 0.8}}}
    other = record_of({**run, "train_scores": {"sst": 0.9}, "stages": stages}, DAY)
    assert other["train_scores"] == {"sst": 0.9}
    assert other["stages"] == stages
    soup = {"scores": {"sst": 0.5}, "ingredients": []}
    assert "soup" not in record and record_of({**run, "soup": soup}, DAY)["soup"] == soup
    assert record["baselines"] == run["baselines"]
    assert record["epochs"] == run["epochs"]
    assert record["trained"][:3] == ["sst", "para", "sts"]
    assert record["date"] == "2026-11-25"
    assert record["code"] == run["code"]
    # The options that the fixture sets, and none that only says where files are.
    assert record["options"]["epochs"] == 6
    assert record["options"]["lr"] == 3e-3
    assert record["options"]["batch_size"] == 8
    for name in ("seed", "name", "output_dir", "sst_train", "sst_dev_out", "pooling"):
        assert name not in record["options"]
    assert record["minutes"] == pytest.approx(run["actual"]["seconds"] / 60, abs=0.01)


def test_a_record_names_the_code_of_plugins_beside_the_data(two_runs):
    """A method of a plugin is compared with a control that has read the same data without it."""
    run = json.loads((two_runs[0] / "run.json").read_text())
    before = record_of(run, DAY)
    assert "plugins" not in before
    options = {**run["options"], "plugin": ["/home/me/mine.py"], "mine_weight": 2.0}
    files = {**run["files"], "/home/me/mine.py": "a" * 64}
    record = record_of({**run, "options": options, "files": files}, DAY)
    assert record["data"] == before["data"]
    assert record["plugins"] == {"mine.py": "a" * 64}
    # This process has not loaded the file, and does not know the default of its option.
    assert record["options"] == {**before["options"], "mine_weight": 2.0}


def test_the_data_digest_follows_the_content_and_not_the_folder():
    files = {"a/sst.csv": "1" * 64, "a/sts.csv": "2" * 64}
    moved = {"b/c/sts.csv": "2" * 64, "b/sst.csv": "1" * 64}
    assert data_digest(files) == data_digest(moved)
    assert data_digest({**files, "a/sts.csv": "3" * 64}) != data_digest(files)


def test_a_record_is_added_once(tmp_path):
    path = tmp_path / "new" / "some.jsonl"
    first = {"seed": 1, "scores": {"sst": 0.5}, "date": "2026-11-25"}
    again = {**first, "date": "2026-11-26"}
    other = {**first, "seed": 2}
    assert add_records(path, [first, other]) == 2
    assert add_records(path, [again]) == 0
    assert read_records(path) == [first, other]


def test_the_lock_is_not_removed_while_others_wait_for_it(tmp_path):
    """Who waits for a removed file holds another lock than who makes a new file."""
    path = tmp_path / "some.jsonl"
    add_records(path, [{"seed": 1}])
    lock = tmp_path / ".some.jsonl.lock"
    first = lock.stat().st_ino
    add_records(path, [{"seed": 2}])
    assert lock.stat().st_ino == first


def test_records_are_added_where_files_cannot_be_locked(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert add_records(tmp_path / "some.jsonl", [{"seed": 1}]) == 1
    assert read_records(tmp_path / "some.jsonl") == [{"seed": 1}]


def test_the_newest_record_of_a_key_counts():
    group = [{"seed": 1, "n": 1}, {"seed": 2, "n": 2}, {"seed": 1, "n": 3}]
    newest = newest_of(group, lambda record: record["seed"])
    assert newest == [{"seed": 1, "n": 3}, {"seed": 2, "n": 2}]


def add_many(path, process: int) -> None:
    for number in range(20):
        add_records(path, [{"process": process, "number": number}])


def test_several_processes_add_at_the_same_time(tmp_path):
    path = tmp_path / "some.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(path, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    added = {(record["process"], record["number"]) for record in read_records(path)}
    assert len(added) == len(read_records(path)) == 40


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "some.jsonl"
    add_records(path, [{"seed": 1}])
    path.write_text(path.read_text() + '{"seed": ')
    with pytest.raises(ValueError, match=r"some\.jsonl, line 2: no record there"):
        read_records(path)


@pytest.mark.parametrize(("before", "after"), [("0.5", "0.6"), ('"digest"', '"other"')])
def test_a_record_that_was_edited_is_named_with_the_command_that_measures_again(
    tmp_path, before, after
):
    path = tmp_path / "round-trips.jsonl"
    add_records(path, [{"seed": 1, "scores": {"sst": 0.5}}, {"seed": 2, "scores": {"sst": 0.4}}])
    assert len(read_records(path)) == 2
    path.write_text(path.read_text().replace(before, after, 1))
    message = (
        r"line 1: this record was edited.*git checkout.*: python -m tools.benchmarks\.round_trips$"
    )
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_a_record_is_known_by_what_json_keeps_of_it(tmp_path):
    path = tmp_path / "some.jsonl"
    record = {"sizes": (1, 2), "seconds": {16: 0.1}}
    assert add_records(path, [record]) == 1
    assert add_records(path, [record]) == 0
    assert read_records(path) == [{"sizes": [1, 2], "seconds": {"16": 0.1}}]


def test_every_file_of_records_is_readable_and_has_a_command():
    paths = sorted(RECORDS.glob("*.jsonl"))
    assert {path.stem for path in paths} >= {"real-sentences", "round-trips"}
    for path in paths:
        assert read_records(path)
    commands = [command_of(path) for path in (*paths, RECORDS / "mine.jsonl")]
    assert commands[-1] == "python -m experiments RECIPE --record mine"
    assert commands[0] == COMMANDS[paths[0].stem]


# --- what must agree ------------------------------------------------------------------------------


def test_code_that_is_in_no_commit_cannot_record(tmp_path, monkeypatch, _records_of_edited_code):
    """The tests leave this check out (conftest.py), so it is put back here."""
    monkeypatch.setattr(records, "check_committed", _records_of_edited_code)
    path = tmp_path / "mine.jsonl"
    code = {"git": "0123456789abcdef", "sha256": "f" * 64}
    assert add_records(path, [{"seed": 0, "code": code}]) == 1
    edited = {**code, "git": f"{code['git']}-dirty"}
    with pytest.raises(ValueError, match="the code has changed since commit 0123456789abcdef"):
        add_records(path, [{"seed": 1, "code": edited}])
    assert len(read_records(path)) == 1


def test_a_shifted_score_is_noticed_though_its_digest_is_computed_anew():
    """In each run of the tables of methods, each score by itself."""
    num_shifted = 0
    for record in read_records(RECORDS / "methods.jsonl"):
        if "single_task_epochs" in record["options"]:
            continue
        for name in ("sst", "para", "sts", "overall_2023"):
            scores = {**record["scores"], name: record["scores"][name] + 0.001}
            assert contradictions({**record, "scores": scores}), (record["recipe"], name)
            num_shifted += 1
    assert num_shifted > 50


def test_the_record_of_a_run_has_the_whole_command(two_runs):
    run = json.loads((two_runs[0] / "run.json").read_text())
    command = record_of(run, DAY)["command"]
    assert command.startswith("python run_multitask.py") and "--epochs 6" in command
    # A run that was resumed says the same, and not --resume.
    assert (
        record_of({**run, "command": ["run_multitask.py", "--resume"]}, DAY)["command"] == command
    )
