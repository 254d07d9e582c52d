"""experiments/__main__.py: which runs are left to do, what the table says, and a series that is stopped and goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments import __main__ as ablation
from experiments.__main__ import cell, command_of, main, stage_table, stages_of, table

SCORES = {"sst": 0.5, "para": 0.7, "sts": 0.6, "overall_2023": 0.6, "overall_2024": 0.66}


def finish(folder, name, scores=SCORES, tasks="sst,para,sts", head="features", **others):
    folder.mkdir(parents=True, exist_ok=True)
    options = {"tasks": tasks, "head": head, "recipe": name, **others}
    (folder / "options.json").write_text(json.dumps({"options": options}))
    (folder / "run.json").write_text(
        json.dumps({"options": options, "scores": scores, "stages": {}})
    )


def test_cell_by_hand():
    assert cell([0.5, 0.52, 0.54], 0.526) == "0.520 ± 0.020 (0.526)"
    assert cell([0.5], None) == "0.500" and cell([], 0.3) == "- (0.300)" and cell([], None) == "-"


def test_table_by_hand():
    text = table(
        {
            "rob-14": [SCORES, {**SCORES, "sst": 0.6}],
            "single-sts": [{"sts": 0.8}],
            "gen-given-para": [{"para": 0.8}],
        }
    )
    assert text.splitlines()[2:] == [
        "| rob-14 | 2 | 0.550 ± 0.071 (0.526) | 0.700 ± 0.000 (0.880) | 0.600 ± 0.000 (0.879) | "
        "0.600 ± 0.000 (0.762) |",
        "| single-sts | 1 | - | - | 0.800 | - |",
        "| gen-given-para | 1 | - | 0.800 (0.836) | - | - |",
    ]


def test_differences_by_hand():
    """Seed by seed, with the mean and the deviation of a sample; a single task has no overall score to compare."""
    runs = {
        "head-vm": [SCORES, SCORES, SCORES],
        "single-sst": [{"sst": 0.5}] * 3,
        "head-ph": [{**SCORES, "overall_2023": score} for score in (0.61, 0.58, 0.64)],
    }
    first, *rows = [line.split(" | ")[-1] for line in table(runs, "head-vm").splitlines()]
    assert first == "less head-vm, seed by seed |"
    assert rows[1:] == [" |", "- |", "0.010 ± 0.030: +0.010, -0.020, +0.040 |"]


def test_what_stages_did_by_hand():
    first = {
        "before": {"spearman": 0.6, "pearson": 0},
        "after": {"spearman": 0.7, "pearson": 0},
        "is_kept": True,
        "seconds": 90.0,
    }
    second = {**first, "after": {"spearman": 0.5, "pearson": 0}, "is_kept": False, "seconds": 110.0}
    timeless = {key: value for key, value in first.items() if key != "seconds"}
    text = stage_table({"bsc": [first, second], "mlm": [first], "ct": [timeless]})
    assert text.splitlines()[2:] == [
        "| bsc | 2 | spearman | 0.600 ± 0.000 | 0.600 ± 0.141 | 1 of 2 | 100 |",
        "| mlm | 1 | spearman | 0.600 | 0.700 | 1 of 1 | 90 |",
        "| ct | 1 | spearman | 0.600 | 0.700 | 1 of 1 | - |",
    ]


def test_seconds_of_stages_stand_beside_the_encoders(tmp_path):
    """Whose folders may have been deleted since."""
    record = {"stages": {"mlm": {"is_kept": True}, "simcse": {"is_kept": False}}}
    (tmp_path / "encoder-mlm").mkdir()
    (tmp_path / "encoder-mlm" / "stage.json").write_text('{"seconds": 3.5}')
    found = {"mlm": {"is_kept": True, "seconds": 3.5}, "simcse": {"is_kept": False}}
    assert stages_of(tmp_path, record) == found
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "stage.json").write_text('{"seconds": 4.5}')
    assert stages_of(tmp_path, record)["simcse"]["seconds"] == 4.5


def test_what_is_left_to_do(tmp_path):
    folder = tmp_path / "rob-3-seed1"
    command = command_of("rob-3", 1, folder, ["--lr", "1e-4"])
    assert command[1].endswith("run_multitask.py")
    assert command[2:] == [
        "--recipe",
        "rob-3",
        "--seed",
        "1",
        "--output-dir",
        str(tmp_path),
        "--name",
        "rob-3-seed1",
        "--lr",
        "1e-4",
    ]
    folder.mkdir()
    (folder / "options.json").write_text("{}")
    assert command_of("rob-3", 1, folder, ["--lr", "1e-4"])[2:] == ["--resume", str(folder)]
    finish(folder, "rob-3")
    assert command_of("rob-3", 1, folder, []) is None


def test_a_series_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    """The third run is interrupted; the same command does it and the rest, and nothing twice."""
    done = []

    def run(command, log):
        name, folder = (
            command[command.index("--recipe") + 1],
            tmp_path / command[command.index("--name") + 1],
        )
        done.append(folder.name)
        if len(done) == 3:
            raise KeyboardInterrupt
        finish(folder, name, tasks="sst" if name == "single-sst" else "sst,para,sts")
        return 0

    monkeypatch.setattr(ablation, "run", run)
    flags = ["head-vm", "single-sst", "--seeds", "0,1", "--out", str(tmp_path)]
    assert main(flags) == 130
    assert main(flags) == 0
    assert done == [
        "head-vm-seed0",
        "single-sst-seed0",
        "head-vm-seed1",
        "head-vm-seed1",
        "single-sst-seed1",
    ]
    text = (tmp_path / "ablation.md").read_text()
    assert (
        "| single-sst | 2 | 0.500 ± 0.000 | - | - | - |" in text
        and text.strip() in capsys.readouterr().out
    )


def test_one_mean_is_of_one_experiment(tmp_path, monkeypatch, capsys):
    """Found at once where the runs are there, and after its run where another --with made the difference."""
    started = []
    finish(tmp_path / "head-vm-seed0", "head-vm", seed=0, lr=1e-4)

    def run(command, log):
        started.append(command)
        finish(tmp_path / "head-vm-seed1", "head-vm", seed=1, lr=5e-5)
        return 0

    monkeypatch.setattr(ablation, "run", run)
    for _ in range(2):
        assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 2
        assert "head-vm-seed0 has --lr 0.0001 and " in capsys.readouterr().err and len(started) == 1
    assert main(["head-vm", "--seeds", "1", "--out", str(tmp_path)]) == 0


def test_triplets_are_asked_for_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    for flags, found in {"--lr 1e-4": "none", "--nli nowhere.tsv": "nowhere.tsv"}.items():
        assert main(["head-vm", "gen-nli", "--out", str(tmp_path), f"--with={flags}"]) == 2
        assert (
            f"gen-nli reads triplets, and --nli in --with is {found}, no file. Add"
            in capsys.readouterr().err
        )
    assert (
        main(["head-vm", "--out", str(tmp_path), "--with=--pretrain simcse-nli"]) == 2
    )  # flags win over a recipe
    assert "head-vm reads triplets" in capsys.readouterr().err
    finish(tmp_path / "gen-nli-seed0", "gen-nli")
    assert main(["gen-nli", "--seeds", "0", "--out", str(tmp_path)]) == 0


def test_flags_that_a_finished_run_did_not_have_are_not_ignored(tmp_path, monkeypatch, capsys):
    """It would not be run again, and its scores would pass for those of the flags."""
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    folder = tmp_path / "head-vm-seed0"
    finish(
        folder,
        "head-vm",
        seed=0,
        lr=1e-4,
        model="minilm",
        compile=True,
        precision="bf16",
        train_rows="para=60",
    )
    start = ["head-vm", "--seeds", "0", "--out", str(tmp_path)]
    for flags, found in {
        "--lr 5e-5": "--lr 0.0001, and --with asks for 5e-5",
        "--model=tiny": "--model minilm, and",
        "--lr 1e-4 --train-rows para=6": "--train_rows para=60, and --with asks for para=6",
    }.items():
        assert main([*start, f"--with={flags}"]) == 2
        assert f"{folder} has {found}" in capsys.readouterr().err
    for flags in (
        "",
        "--lr 0.0001 --model minilm/ --compile --precision auto --train_rows=para=60",
    ):
        assert main([*start, f"--with={flags}"]) == 0
    assert main([*start, "--with=--epoch 2"]) == 2
    assert f"--with has --epoch, which the run in {folder} does not know" in capsys.readouterr().err


def test_a_run_of_other_code_is_told(tmp_path, monkeypatch, capsys):
    """Its scores would pass for those of the surgery or the loss that was edited since."""
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    for seed, sha256 in enumerate([ablation.code_version()["sha256"], "f" * 64]):
        finish(tmp_path / f"head-vm-seed{seed}", "head-vm", seed=seed)
        path = tmp_path / f"head-vm-seed{seed}" / "run.json"
        path.write_text(
            json.dumps(
                json.loads(path.read_text()) | {"code": {"sha256": sha256, "git": "abc-dirty"}}
            )
        )
    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "other code" in line]
    assert told == [
        f"{tmp_path / 'head-vm-seed1'}: made by other code than this (abc-dirty); remove it to have it "
        "made anew"
    ]


def test_a_recipe_that_was_edited_since_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    finish(tmp_path / "head-vm-seed0", "head-vm", head="ph")
    finish(tmp_path / "head-vm-seed1", "head-vm", seed=1, head="ph")
    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 0
    told = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "has --head ph, where head-vm says vm: " in line
    ]
    assert len(told) == 2
    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path), "--with=--head ph"]) == 0
    assert "has --head" not in capsys.readouterr().out, "flags win over a recipe"


def test_cosines_know_the_pairs_and_nothing_of_sentiment(tmp_path):
    for tasks, known in (("sst", {"sst", "para", "sts", "overall_2023"}), ("sts", {"para", "sts"})):
        folder = tmp_path / tasks
        finish(folder, "gen-vanilla", tasks=tasks, head="cosine")
        assert set(ablation.scores_of(json.loads((folder / "run.json").read_text()))) >= known
        assert ("sst" in ablation.scores_of(json.loads((folder / "run.json").read_text()))) == (
            tasks == "sst"
        )


def test_a_run_of_another_recipe_and_no_run_are_not_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    folder = tmp_path / "head-vm-seed0"
    finish(folder, "rob-3")
    assert main(["head-vm", "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert (
        f"{folder} holds a run of recipe rob-3, not of head-vm. Move it" in capsys.readouterr().err
    )
    for content in ("", "[]", "{}"):
        (folder / "options.json").write_text(content)
        assert main(["head-vm", "--seeds", "0", "--out", str(tmp_path)]) == 2
        assert f"{folder / 'options.json'}: not what a run writes (" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", '{"options"', "[]", "{}", '{"options": {}, "scores": {}}'])
def test_a_damaged_record_is_named_before_anything_runs(tmp_path, monkeypatch, capsys, content):
    monkeypatch.setattr(ablation, "run", lambda command, log: pytest.fail("it was run"))
    finish(tmp_path / "head-vm-seed1", "head-vm", seed=1)
    (tmp_path / "head-vm-seed1" / "run.json").write_text(content)
    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 2
    assert (
        f"{tmp_path / 'head-vm-seed1' / 'run.json'}: not what a run writes ("
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("sst=4000,para=6000", "para=6000,sst=4000", True),
        ("sst=4000,para=6000", "para=6000,sst=400", False),
        ("mlm,simcse", "simcse,mlm", False),
        (1e-4, "0.0001", True),
        ("a/", "a", True),
        (True, "True", True),
        ("none", "sst=1", False),
    ],
)
def test_values_that_mean_the_same(one, other, is_same):
    assert ablation.is_other(one, other) != is_same


def test_sigterm_reaches_the_run(tmp_path):
    """The ablation alone hears it, and must leave no run behind that goes on beside its own resumption."""
    child = tmp_path / "child.py"
    child.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n"
        f"print('price', flush=True)\npathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "time.sleep(100)\n"
    )
    stopper = threading.Thread(target=stop_when, args=(tmp_path / "ready",))
    stopper.start()
    before = signal.getsignal(signal.SIGTERM)
    assert ablation.run([sys.executable, str(child)], tmp_path / "log") == 130
    stopper.join()
    assert (tmp_path / "log").read_text() == "price\n", "what a run says is kept"
    assert signal.getsignal(signal.SIGTERM) == before


def stop_when(path):
    """Send this process a SIGTERM once `path` is there."""
    while not path.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (1, "Mend what it names first."),
        (2, "Mend what it names first."),
        (130, "The same command goes on from here."),
        (-9, "The same command goes on from here."),
    ],
)
def test_a_run_that_fails_ends_the_series_with_its_code(
    tmp_path, monkeypatch, capsys, code, advice
):
    monkeypatch.setattr(ablation, "run", lambda command, log: code)
    assert main(["head-vm", "--out", str(tmp_path)]) == code
    assert (
        f"head-vm-seed0: ended with code {code}; its message is above. {advice}\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["rob-99", "--out", "x"], "there is no recipe 'rob-99'"),
        (
            ["rob-1", "--out", "x", "--seeds", "0,one"],
            "--seeds is '0,one'; it is whole numbers, separated by commas.",
        ),
        (
            ["rob-1", "--out", "x", "--with=--seed 3"],
            "--seed is set by the ablation itself; drop it",
        ),
        (["rob-1", "rob-1", "--out", "x"], "rob-1 is given twice, and would count twice."),
        (["rob-1", "--out", "x", "--seeds", "0,1,00"], " 0 is given twice, and would count twice."),
        (["rob-1", "--out", "x", "--with=--lr '1"], "No closing quotation"),
    ],
)
def test_bad_input(flags, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(flags)
    assert caught.value.code == 2 and words in capsys.readouterr().err


def test_a_real_series_is_stopped_in_a_step_and_goes_on(tiny_model, sample_data, tmp_path):
    """Ctrl-C, which a terminal sends to the ablation and to its run at once; the same command ends in the same bits."""

    def flags(out):
        return [
            "head-vm",
            "--seeds",
            "3",
            "--out",
            str(tmp_path / out),
            f"--with=--model {tiny_model} --data-dir "
            f"{sample_data} --epochs 2 --save-every 1 --precision fp32",
        ]

    with open(tmp_path / "said.txt", "w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments", *flags("stopped")],
            stdout=said,
            stderr=said,
            cwd=ablation.COMMAND.parent,
            start_new_session=True,
        )
    folder, deadline = tmp_path / "stopped" / "head-vm-seed3", time.monotonic() + 100
    while not (folder / "checkpoint" / "multitask" / "state.json").is_file():
        assert process.poll() is None and time.monotonic() < deadline, (
            tmp_path / "said.txt"
        ).read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=100) == 130 and not (folder / "run.json").exists()
    said = (tmp_path / "said.txt").read_text()
    assert "Continue with: " in said and "The same command goes on from here." in said
    assert main(flags("stopped")) == 0 and main(flags("whole")) == 0
    log = folder.with_name("head-vm-seed3.log").read_text()
    assert log.count("multitask: 12 steps, about") == 2 and log.count("record: ") == 1
    for name in ("model.safetensors", "heads.safetensors"):
        whole = tmp_path / "whole" / folder.name / "model" / name
        assert (folder / "model" / name).read_bytes() == whole.read_bytes()


def test_two_real_runs(tiny_model, sample_data, tmp_path):
    flags = [
        "head-vm",
        "contrastive-first",
        "--seeds",
        "3",
        "--out",
        str(tmp_path),
        f"--with=--model {tiny_model} --data-dir {sample_data} --epochs 1",
    ]
    assert main(flags) == 0
    record = json.loads((tmp_path / "head-vm-seed3" / "run.json").read_text())
    assert record["options"]["head"] == "vm" and record["options"]["seed"] == 3
    assert (
        "\n| contrastive-first: simcse | 1 | spearman | " in (tmp_path / "ablation.md").read_text()
    )
