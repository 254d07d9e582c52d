"""course/part1.py: four runs, the eight files by the names of each year, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line.parser import parse
from course.editions import EDITIONS
from course.four_runs import Run, run_flags
from course.part1 import main
from data.examples import BUILT_IN_FILES, CFIMDB, SST
from data.readers import read_examples
from multitask.prediction_files import verify_predictions
from multitask.tasks import BUILT_IN_TASKS

NAMES_2023 = [
    f"{mode}-{task}-{split}-out.csv"
    for mode in ("pretrain", "finetune")
    for task in ("sst", "cfimdb")
    for split in ("dev", "test")
]


def error_of(flags: list[str], capsys) -> str:
    assert main(flags) == 2
    return capsys.readouterr().err


def refuse_to_train(command: list[str], log: Path) -> int:
    pytest.fail(f"trained: {command}")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in (folder / "predictions").iterdir()}


def test_the_eight_files_hold_every_id(part1, course_data):
    out, _ = part1
    assert names_in(out) >= set(NAMES_2023)
    for name in NAMES_2023:
        _, task, split, _ = name.split("-")
        path = course_data / BUILT_IN_FILES[task][split]
        format = CFIMDB if task == "cfimdb" else SST
        table = read_examples(path, format, labelled=split == "dev")
        ids = [example.id for example in table.examples]
        verify_predictions(out / "predictions" / name, BUILT_IN_TASKS[task], ids)


def test_each_run_has_its_task_its_mode_and_the_settings_of_the_course(part1):
    out, _ = part1
    for task in ("sst", "cfimdb"):
        for mode in ("pretrain", "finetune"):
            options = json.loads((out / f"{mode}-{task}" / "run.json").read_text())["options"]
            assert (options["tasks"], options["option"]) == (task, mode)
            assert options["hidden_dropout_prob"] == 0.3
            # The flags of the user win over those of the course.
            assert (options["epochs"], options["batch_size"]) == (1, 32)


def test_training_scores_stand_beside_those_of_dev(part1):
    """--score-train 9: an accuracy of nine rows."""
    out, _ = part1
    record = json.loads((out / "finetune-sst" / "run.json").read_text())
    assert list(record["train_scores"]) == ["sst"]
    assert (record["train_scores"]["sst"] * 9) % 1 == pytest.approx(0, abs=1e-9)


def test_the_frozen_runs_have_the_encoder_that_they_started_from(part1, tiny_model):
    from safetensors.torch import load_file

    out, _ = part1
    start = load_file(tiny_model / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    for mode, is_equal in (("pretrain", True), ("finetune", False)):
        trained = load_file(out / f"{mode}-sst" / "model" / "model.safetensors")
        assert trained[name].equal(start[name]) is is_equal


def test_a_later_year_gets_its_names_and_nothing_is_trained_again(part1, monkeypatch, capsys):
    out, flags = part1
    monkeypatch.setattr("course.four_runs.run_process", refuse_to_train)
    assert main([*flags, "--course", "cs224n-2024"]) == 0
    first = out / "predictions" / "last-linear-layer-cfimdb-test-out.csv"
    assert first.read_bytes() == (
        (out / "predictions" / "pretrain-cfimdb-test-out.csv").read_bytes()
    )
    assert (out / "predictions" / "full-model-sst-dev-out.csv").is_file()
    printed = capsys.readouterr().out
    assert "CFIMDB accuracy" in printed and "last-linear-layer" in printed


@pytest.mark.parametrize(
    "words, mode",
    [
        (["--option", "finetune"], "finetune"),
        (["--fine-tune-mode", "last-linear-layer"], "pretrain"),
        (["--fine_tune_mode", "full-model"], "finetune"),
    ],
)
def test_one_mode_alone(part1, words, mode, monkeypatch, capsys):
    _, flags = part1
    monkeypatch.setattr("course.four_runs.run_process", refuse_to_train)
    assert main([*flags, *words]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("-out.csv")]
    assert len(lines) == 4 and all(f"{mode}-" in line for line in lines)


def test_the_length_is_that_of_the_model_up_to_512(tiny_model, tmp_path):
    run = Run("cfimdb", "pretrain", tmp_path / "run")
    flags = run_flags(run, "data", ["--model", str(tiny_model)])
    assert flags[flags.index("--max_length") + 1] == "128"
    own = run_flags(run, "data", ["--model", str(tiny_model), "--max-length", "64"])
    assert "--max_length" not in own and own[-2:] == ["--max-length", "64"]


# --- what is refused ------------------------------------------------------------------------------


def test_other_flags_than_those_of_a_finished_run_are_refused(part1, capsys):
    _, flags = part1
    message = error_of([*flags, "--lr", "1e-2"], capsys)
    assert "was trained with --lr" in message and "another --out, or pass the same flags" in message

    # The same flags also bring back a copy that was edited.
    path = part1[0] / "predictions" / "pretrain-sst-dev-out.csv"
    content = path.read_bytes()
    path.write_bytes(b"edited")
    assert main(flags) == 0
    assert path.read_bytes() == content


def test_a_trial_is_not_taken_for_the_real_run(part1, capsys):
    """The run had --epochs 1. Without the flag, the course's 10 are asked for."""
    out, flags = part1
    position = flags.index("--epochs")
    shorter = flags[:position] + flags[position + 2 :]
    message = error_of(shorter, capsys)
    assert "was trained with --epochs 1, not 10" in message
    message = error_of([*flags, "--train-rows", "sst=8,cfimdb=8"], capsys)
    assert "was trained with --train_rows none, not sst=8,cfimdb=8" in message


def test_a_data_file_that_has_changed_since_is_named(part1, course_data, capsys):
    """Such as a file that was cut off when it was downloaded, and was then repaired."""
    out, flags = part1
    path = course_data / "ids-cfimdb-train.csv"
    content = path.read_bytes()
    path.write_bytes(content + content.splitlines(keepends=True)[1].replace(b"c", b"d", 1))
    message = error_of(flags, capsys)
    path.write_bytes(content)
    assert f"{path} has changed since {out / 'pretrain-cfimdb'} was trained with it" in message


def test_a_lost_file_of_a_run_is_named(part1, capsys):
    out, flags = part1
    path = out / "finetune-cfimdb" / "predictions" / "cfimdb-test-output.csv"
    content = path.read_bytes()
    path.unlink()
    message = error_of(flags, capsys)
    path.write_bytes(content)
    assert f"{path}: there is no such file. Bring it back, or remove {path.parents[1]}" in message


def test_missing_files_are_named_with_the_command_that_brings_them(part1, sample_data, capsys):
    message = error_of(["--data-dir", str(sample_data)], capsys)
    assert "ids-cfimdb-train.csv: there is no such file" in message
    assert "data.download --cfimdb" in message


@pytest.mark.parametrize(
    "words, cause",
    [
        (["--tasks", "sst"], "--tasks is set by this command itself"),
        (["--dev_out", "mine.csv"], "--dev_out names one file, but this command trains four"),
        (["--train=mine.csv"], "--train names one file"),
        (["--skip", "baselines,test"], "--skip test leaves out files that the course asks for"),
        (["--sst-test-out", "mine.csv"], "--sst_test_out names one file"),
        (["--option", "pretrain", "--fine-tune-mode", "full-model"], "say the same thing"),
        (["--course", "goettingen"], "names in CS224N only"),
        (["sst"], "unknown argument sst"),
    ],
)
def test_contradictions(words, cause, capsys):
    assert cause in error_of(words, capsys)


def test_files_that_the_course_does_not_ask_for_may_be_left_out(course_data, tmp_path, monkeypatch):
    commands = []

    def interrupted(command, log):
        commands.append(command)
        return 130

    monkeypatch.setattr("course.four_runs.run_process", interrupted)
    flags = ["--data-dir", str(course_data), "--out", str(tmp_path)]
    assert main([*flags, "--skip", "estimate,baselines"]) == 130
    assert [command[-2:] for command in commands] == [["--skip", "estimate,baselines"]]


def write_begun(out: Path, data_dir: Path, changes: dict, without: tuple[str, ...] = ()) -> Path:
    """A run of SST that has begun, with the flags of the course. without: options that it lacks."""
    folder = out / "pretrain-sst"
    options, _ = parse(run_flags(Run("sst", "pretrain", folder), str(data_dir), []))
    values = {**options.flat(), **changes}
    for name in without:
        del values[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps({"options": values}))
    return folder


def test_an_option_that_a_run_lacks_counts_as_its_default_and_is_told(
    course_data, tmp_path, monkeypatch, capsys
):
    """Such as in a run of an older version. It is no agreement with whatever is asked for."""
    monkeypatch.setattr("course.four_runs.run_process", lambda command, log: 130)
    folder = write_begun(tmp_path, course_data, {}, without=("train_rows", "layer_decay"))
    flags = ["--data-dir", str(course_data), "--out", str(tmp_path)]
    assert main(flags) == 130
    assert (
        "pretrain-sst/options.json lacks --train_rows, --layer_decay, as" in capsys.readouterr().out
    )
    message = error_of([*flags, "--train-rows", "sst=8,cfimdb=8"], capsys)
    assert f"{folder} was trained with --train_rows none (the default, because" in message
    assert "lacks this option), not sst=8,cfimdb=8" in message


@pytest.mark.parametrize(
    "code, advice",
    [(2, "is above. Correct that first."), (130, "The same command goes on from here.")],
)
def test_a_failing_run_ends_the_command_with_its_code(
    course_data, tmp_path, monkeypatch, capsys, code, advice
):
    commands = []

    def stop(command, log):
        commands.append(command[1:])
        return code

    monkeypatch.setattr("course.four_runs.run_process", stop)
    out = tmp_path / "new"
    flags = ["--data-dir", str(course_data), "--out", str(out), "--lr", "1e-3"]
    assert main(flags) == code
    assert advice in capsys.readouterr().err
    assert len(commands) == 1 and Path(commands[0][0]).name == "run_multitask.py"

    # A run that has begun goes on.
    begun = write_begun(out, course_data, {"lr": 1e-3})
    assert main(flags) == code
    assert commands[1][1:] == ["--resume", str(begun)]


def test_the_page_of_the_course_says_our_defaults():
    from command_line.options import Options
    from minbert.commands.hidden import ROOT

    page = (ROOT / "docs" / "course.md").read_text("utf-8")
    options = Options().flat()
    for name in ("option", "epochs", "batch_size", "hidden_dropout_prob", "model"):
        row = next(line for line in page.splitlines() if line.startswith(f"| `--{name}` |"))
        assert row.split("|")[3].strip() == str(options[name]), row


def test_help_names_a_trial(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "--train-rows sst=64,cfimdb=32 --epochs 1" in printed
    assert "an estimate of its time" in printed


def test_the_words_of_the_modes():
    edition = EDITIONS["cs224n-2024"]
    assert (edition.word_of("pretrain"), edition.word_of("finetune")) == edition.modes
    assert [Path(file.name).name for file in EDITIONS["cs224n-2023"].part1_files()] == NAMES_2023
