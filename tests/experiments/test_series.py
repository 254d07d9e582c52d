"""`python -m experiments`: which runs are left to do, what is refused, stopping and continuing."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments import __main__ as experiments_command
from experiments.__main__ import add_record, main
from experiments.checks import find_doubts
from experiments.comparable import check_runs
from experiments.flags import is_different, parse_flags
from experiments.recipes import published_tasks
from experiments.records import add_records, read_records
from experiments.run_files import dev_scores
from experiments.series import COMMAND, Series, run_process
from minbert.training.code_version import code_version

SCORES = {"sst": 0.5, "para": 0.7, "sts": 0.6, "overall_2023": 0.6, "overall_2024": 0.66}


def write_run(folder, recipe, tasks="sst,para,sts", head="features", **other_options):
    """Write the files of a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {"tasks": tasks, "head": head, "recipe": recipe, **other_options}
    (folder / "options.json").write_text(json.dumps({"options": options}))
    record = {"options": options, "scores": SCORES, "stages": {}}
    (folder / "run.json").write_text(json.dumps(record))


@pytest.fixture
def nothing_runs(monkeypatch):
    """No process may be started."""

    def refuse(command, log):
        pytest.fail("it was run")

    monkeypatch.setattr(experiments_command, "run_process", refuse)


# --- the command of a run -------------------------------------------------------------------------


def test_command_of_a_new_a_begun_and_a_finished_run(tmp_path):
    series = Series(("rob-3",), (1,), tmp_path, ("--lr", "1e-4"))
    folder = tmp_path / "rob-3-seed1"

    command = series.command("rob-3", 1)
    assert command[1].endswith("run_multitask.py")
    where = ["--output-dir", str(tmp_path), "--name", "rob-3-seed1"]
    assert command[2:] == ["--recipe", "rob-3", "--seed", "1", *where, "--lr", "1e-4"]

    folder.mkdir()
    (folder / "options.json").write_text("{}")
    assert series.command("rob-3", 1)[2:] == ["--resume", str(folder)]

    write_run(folder, "rob-3")
    assert series.command("rob-3", 1) is None


def test_flags_as_option_values():
    flags = ["--lr", "1e-4", "--compile", "--train-rows=para=60", "--epochs", "2"]
    assert parse_flags(flags) == {
        "lr": "1e-4",
        "compile": "True",
        "train_rows": "para=60",
        "epochs": "2",
    }
    assert parse_flags(["--compile"]) == {"compile": "True"}
    assert parse_flags([]) == {}


@pytest.mark.parametrize(
    ("stored", "flag_value", "is_same"),
    [
        ("sst=4000,para=6000", "para=6000,sst=4000", True),
        ("sst=4000,para=6000", "para=6000,sst=400", False),
        ("mlm,simcse", "simcse,mlm", False),
        (1e-4, "0.0001", True),
        ("a/", "a", True),
        (True, "True", True),
        ("none", "sst=1", False),
        ("bf16", "auto", True),
    ],
)
def test_values_that_mean_the_same(stored, flag_value, is_same):
    assert is_different(stored, flag_value) != is_same


def test_flags_that_may_be_given_several_times(tmp_path):
    """A run records the files of --plugin by their absolute paths, and each --task as it is."""
    flags = ["--task", "name=a,train=a.csv", "--seed", "3", "--task=name=b,train=b.csv"]
    values = parse_flags(flags)
    assert values == {"task": "name=a,train=a.csv\nname=b,train=b.csv", "seed": "3"}
    stored = ["name=a,train=a.csv", "name=b,train=b.csv"]
    assert not is_different(stored, values["task"])
    assert is_different(stored, "name=a,train=a.csv")
    assert is_different([], values["task"])

    first = tmp_path / "first.py"
    second = tmp_path / "second.py"
    first.touch()
    second.touch()
    relative = os.path.relpath(first)
    assert not is_different([str(first)], relative)
    assert not is_different([str(first), str(second)], f"{relative},{second}")
    assert is_different([str(first)], f"{relative}\n{second}")
    assert is_different([str(second)], relative)


# --- a series of runs -----------------------------------------------------------------------------


def test_a_series_continues_where_it_stopped(tmp_path, monkeypatch, capsys):
    """The third run is interrupted. The same command does it and the rest, and nothing twice."""
    started = []

    def run(command, log):
        name = command[command.index("--recipe") + 1]
        folder = tmp_path / command[command.index("--name") + 1]
        started.append(folder.name)
        if len(started) == 3:
            raise KeyboardInterrupt
        write_run(folder, name, tasks="sst" if name == "single-sst" else "sst,para,sts")
        return 0

    monkeypatch.setattr(experiments_command, "run_process", run)
    flags = ["head-vm", "single-sst", "--seeds", "0,1", "--out", str(tmp_path)]
    assert main(flags) == 130
    assert main(flags) == 0
    assert started == [
        "head-vm-seed0",
        "single-sst-seed0",
        "head-vm-seed1",
        "head-vm-seed1",
        "single-sst-seed1",
    ]

    table = (tmp_path / "ablation.md").read_text()
    assert "| single-sst | 2 | 0.500 ± 0.000 | - | - | - |" in table
    assert capsys.readouterr().out.endswith("\n\n" + table.split("\n\n")[0] + "\n")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (1, "Correct what the message names. Then start the same command again."),
        (2, "Correct what the message names. Then start the same command again."),
        (70, "The message names a file with the traceback. Please report it."),
        (130, "The same command goes on from here."),
        (-9, "The same command goes on from here."),
    ],
)
def test_a_run_that_fails_ends_the_series_with_its_code(
    tmp_path, monkeypatch, capsys, code, advice
):
    monkeypatch.setattr(experiments_command, "run_process", lambda command, log: code)
    assert main(["head-vm", "--out", str(tmp_path)]) == code
    message = f"head-vm-seed0: ended with code {code}; its message is above. {advice}\n"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("sst", {"sst", "para", "sts", "overall_2023", "overall_2024"}),
        ("sts", {"para", "sts"}),
    ],
)
def test_cosine_heads_answer_the_pair_tasks_without_training(tmp_path, tasks, expected):
    write_run(tmp_path / "run", "gen-vanilla", tasks=tasks, head="cosine")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert set(dev_scores(record)) == expected


def test_untrained_heads_are_scored_where_the_report_prints_their_score(tmp_path):
    """[ROB] row 1 trains SST alone, and prints scores of PARA and STS."""
    write_run(tmp_path / "run", "rob-1", tasks="sst", head="vm")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert set(dev_scores(record)) == {"sst"}
    assert {"para", "sts", "overall_2023"} < set(dev_scores(record, published_tasks("rob-1")))
    assert published_tasks("gen-given-sst") == ["sst"] and published_tasks("head-vm") == []


# --- runs that may not be counted -----------------------------------------------------------------


def test_one_mean_is_of_one_experiment(tmp_path, monkeypatch, capsys):
    """Two learning rates are refused: after the run that brought the second, and then at once."""
    started = []
    write_run(tmp_path / "head-vm-seed0", "head-vm", seed=0, lr=1e-4)

    def run(command, log):
        started.append(command)
        write_run(tmp_path / "head-vm-seed1", "head-vm", seed=1, lr=5e-5)
        return 0

    monkeypatch.setattr(experiments_command, "run_process", run)
    for _ in range(2):
        assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 2
        assert "head-vm-seed0 has --lr 0.0001 and " in capsys.readouterr().err
        assert len(started) == 1
    assert main(["head-vm", "--seeds", "1", "--out", str(tmp_path)]) == 0


def test_triplets_are_asked_for_before_anything_runs(tmp_path, nothing_runs, capsys):
    for flags, path in {"--lr 1e-4": "none", "--nli nowhere.tsv": "nowhere.tsv"}.items():
        assert main(["head-vm", "gen-nli", "--out", str(tmp_path), f"--with={flags}"]) == 2
        message = f"gen-nli reads triplets, and --nli in --with is {path}, no file. Add"
        assert message in capsys.readouterr().err

    # Flags win over a recipe.
    assert main(["head-vm", "--out", str(tmp_path), "--with=--pretrain simcse-nli"]) == 2
    assert "head-vm reads triplets" in capsys.readouterr().err

    # A finished run needs no file.
    write_run(tmp_path / "gen-nli-seed0", "gen-nli")
    assert main(["gen-nli", "--seeds", "0", "--out", str(tmp_path)]) == 0


def test_flags_that_a_finished_run_did_not_have_are_not_ignored(tmp_path, nothing_runs, capsys):
    """It would not be run again, and its scores would pass for those of the flags."""
    folder = tmp_path / "head-vm-seed0"
    options = {"lr": 1e-4, "model": "minilm", "compile": True, "precision": "bf16"}
    write_run(folder, "head-vm", seed=0, train_rows="para=60", **options)
    start = ["head-vm", "--seeds", "0", "--out", str(tmp_path)]

    refused = {
        "--lr 5e-5": "--lr 0.0001, and --with asks for 5e-5",
        "--model=tiny": "--model minilm, and",
        "--lr 1e-4 --train-rows para=6": "--train_rows para=60, and --with asks for para=6",
    }
    for flags, message in refused.items():
        assert main([*start, f"--with={flags}"]) == 2
        assert f"{folder} has {message}" in capsys.readouterr().err

    same = "--lr 0.0001 --model minilm/ --compile --precision auto --train_rows=para=60"
    for flags in ("", same):
        assert main([*start, f"--with={flags}"]) == 0

    assert main([*start, "--with=--epoch 2"]) == 2
    message = "--with has --epoch, which is no option of run_multitask.py. Correct the flag."
    assert message in capsys.readouterr().err
    assert main([*start, "--with=--epochs 2"]) == 2
    message = f"--with has --epochs, and another version made the run in {folder}"
    assert message in capsys.readouterr().err


def test_a_run_of_other_code_is_named(tmp_path, nothing_runs, capsys):
    """Its scores would pass for those of a method that was edited since."""
    for seed, sha256 in enumerate([code_version()["sha256"], "f" * 64]):
        write_run(tmp_path / f"head-vm-seed{seed}", "head-vm", seed=seed)
        path = tmp_path / f"head-vm-seed{seed}" / "run.json"
        record = json.loads(path.read_text())
        record["code"] = {"sha256": sha256, "git": "abc-dirty"}
        path.write_text(json.dumps(record))

    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "other code" in line]
    assert lines == [
        f"{tmp_path / 'head-vm-seed1'}: made by other code than this (abc-dirty); remove it to "
        "have it made anew"
    ]


def test_a_recipe_that_was_edited_since_is_named(tmp_path, nothing_runs, capsys):
    write_run(tmp_path / "head-vm-seed0", "head-vm", head="ph")
    write_run(tmp_path / "head-vm-seed1", "head-vm", seed=1, head="ph")
    start = ["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]

    assert main(start) == 0
    message = "has --head ph, where head-vm says vm: "
    lines = [line for line in capsys.readouterr().out.splitlines() if message in line]
    assert len(lines) == 2

    assert main([*start, "--with=--head ph"]) == 0
    output = capsys.readouterr().out
    assert message not in output, "flags win over a recipe"
    # But the tables name the row by its recipe.
    assert "Flags of --with: `--head ph`.\nThey give head-vm --head ph and not vm.\n" in output


@pytest.mark.parametrize("name", ["ablation.md", "ablation.html"])
def test_a_table_of_somebody_else_stays(tmp_path, nothing_runs, capsys, name):
    (tmp_path / name).write_text("my own notes")
    assert main(["head-vm", "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert f"{name}: this file exists, and minBERT may not have" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "my own notes"


def test_a_run_of_another_recipe_and_a_damaged_one_are_not_counted(tmp_path, nothing_runs, capsys):
    folder = tmp_path / "head-vm-seed0"
    write_run(folder, "rob-3")
    assert main(["head-vm", "--seeds", "0", "--out", str(tmp_path)]) == 2
    message = f"{folder} holds a run of recipe rob-3, not of head-vm. Move it"
    assert message in capsys.readouterr().err

    for content in ("", "[]", "{}"):
        (folder / "options.json").write_text(content)
        assert main(["head-vm", "--seeds", "0", "--out", str(tmp_path)]) == 2
        assert f"{folder / 'options.json'}: not what a run writes (" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", '{"options"', "[]", "{}", '{"options": {}, "scores": {}}'])
def test_a_damaged_record_is_named_before_anything_runs(tmp_path, nothing_runs, capsys, content):
    path = tmp_path / "head-vm-seed1" / "run.json"
    write_run(path.parent, "head-vm", seed=1)
    path.write_text(content)
    assert main(["head-vm", "--seeds", "0,1", "--out", str(tmp_path)]) == 2
    assert f"{path}: not what a run writes (" in capsys.readouterr().err


def test_a_file_that_is_not_ours_is_kept(tmp_path, capsys):
    """The command has no flag that replaces it, so none is named."""
    (tmp_path / "ablation.md").write_text("my notes\n")
    assert main(["head-vm", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("minBERT may not have written it. Choose another path.\n")
    assert "my notes" in (tmp_path / "ablation.md").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["rob-99", "--out", "x"], "there is no recipe 'rob-99'"),
        (
            ["rob-1", "--out", "x", "--seeds", "0,one"],
            "--seeds is '0,one'; it is whole numbers, separated by commas.",
        ),
        (["rob-1", "--out", "x", "--with=--seed 3"], "--seed is set by this command itself"),
        (["rob-1", "--out", "x", "--against", "rob-2"], "--against is rob-2, which is not among"),
        (["rob-1", "rob-1", "--out", "x"], "rob-1 is given twice, and would count twice."),
        (["rob-1", "--out", "x", "--seeds", "0,1,00"], " 0 is given twice, and would count twice."),
        (["rob-1", "--out", "x", "--with=--lr '1"], "No closing quotation"),
        # A flag of a course that a run refuses is refused before the first run.
        (["rob-1", "--out", "x", "--with=--lr_pretrain 1"], "there is one learning rate"),
        (["rob-1", "--out", "x", "--record", "a/b"], "--record is 'a/b'; it is a name of letters"),
        (
            ["rob-1", "--out", "x", "--record", "default-job"],
            "a file that another command writes: python -m tools.benchmarks.default_job --record.",
        ),
        (
            ["defaults", "--out", "x", "--record", "methods", "--with=--epochs 1"],
            "--record methods takes runs with the options of their recipes, and --with has --epo",
        ),
    ],
)
def test_bad_input(flags, message, capsys):
    assert main(flags) == 2
    assert message in capsys.readouterr().err


# --- what is recorded -----------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A file of records that holds one run of head-vm."""
    monkeypatch.setattr(experiments_command, "RECORDS", tmp_path / "records")
    path = tmp_path / "records" / "mine.jsonl"
    options = {"head": "vm", "lr": 5e-4, "epochs": 2}
    add_records(path, [{"recipe": "head-vm", "seed": 0, "options": options, "data": "d"}])
    return path


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--epochs 3", "--epochs is 3 and 2"),
        ("", "--epochs is 3 and 2"),
        ("--epochs 2 --train-rows sst=64", "--train_rows is sst=64 and none"),
        ("--epochs 2 --lr 1e-3", "--lr is 1e-3 and 0.0005"),
    ],
)
def test_runs_that_do_not_fit_the_records_are_refused_before_they_begin(
    tmp_path, records, nothing_runs, capsys, flags, message
):
    assert main(["head-vm", "--out", str(tmp_path), "--record", "mine", f"--with={flags}"]) == 2
    assert f"another experiment than this command asks for: {message}. Give" in (
        capsys.readouterr().err
    )


def test_runs_are_not_added_to_records_of_something_else(tmp_path, records, nothing_runs, capsys):
    add_records(records.with_name("other.jsonl"), [{"left_out": "nothing"}])
    assert main(["head-vm", "--out", str(tmp_path), "--record", "other"]) == 2
    said = capsys.readouterr().err
    assert "other.jsonl holds records that are no runs of a recipe. Choose another name" in said
    assert experiments_command.path_of_records("new", Series(("head-vm",), (1,), tmp_path, ()))


def test_a_run_that_does_not_fit_the_records_is_not_recorded(records):
    """Only the run itself says which data it has read, and what it puts in place of auto."""
    options = {"recipe": "head-vm", "head": "vm", "lr": 5e-4, "epochs": 2, "seed": 1}
    run = {
        "options": {**options, "tasks": "sst,para,sts"},
        "files": {"sst.csv": "1"},
        "scores": SCORES,
        "epochs": [],
        "baselines": {},
        "actual": {"seconds": 60, "peak_memory": 0},
        **dict.fromkeys(("machine", "versions", "code"), {}),
    }
    with pytest.raises(ValueError, match="the data are not the same.*was not recorded"):
        add_record(records, run)
    assert len(read_records(records)) == 1
    # Another recipe has a row of its own.
    run["options"]["recipe"] = "head-dpha"
    add_record(records, run)
    assert len(read_records(records)) == 2


def test_flags_of_a_course_mean_what_they_mean_in_a_run(tmp_path, nothing_runs):
    write_run(tmp_path / "head-vm-seed0", "head-vm", para_train="F")
    start = ["head-vm", "--seeds", "0", "--out", str(tmp_path)]
    assert main([*start, "--with=--quora_train F"]) == 0
    assert main([*start, "--with=--quora_train G"]) == 2


# --- what the tables say of their runs ------------------------------------------------------------


def test_a_run_and_its_control_differ_in_their_recipes_alone(tmp_path, nothing_runs, capsys):
    """Both were finished before. The command asks for no flags, so they might differ."""
    start = ["head-vm", "head-dpha", "--seeds", "0", "--out", str(tmp_path)]
    write_run(tmp_path / "head-vm-seed0", "head-vm", head="vm", lr=5e-4, pair_encoding="cross")
    write_run(tmp_path / "head-dpha-seed0", "head-dpha", head="dpha", lr=5e-4, pair_encoding="dual")
    assert main([*start, "--against", "head-vm"]) == 0
    assert "| recipe less head-vm | n | SST |" in capsys.readouterr().out

    write_run(tmp_path / "head-dpha-seed0", "head-dpha", head="dpha", lr=1e-3)
    assert main(start) == 0
    capsys.readouterr()
    assert main([*start, "--against", "head-vm"]) == 2
    message = "head-dpha cannot be compared with head-vm for seed ?: --lr is 0.001 and 0.0005. Run"
    assert message in capsys.readouterr().err
    # With the same flags the two are compared.
    write_run(tmp_path / "head-dpha-seed0", "head-dpha", head="dpha", lr=5e-4, pair_encoding="dual")
    assert main([*start, "--against", "head-vm"]) == 0


def test_runs_on_other_data_are_not_compared():
    def run(recipe, digest):
        files = {"data/sst.csv": digest, f"{recipe}.tsv": recipe}
        return {"options": {"recipe": recipe, "seed": 1}, "files": files}

    check_runs(run("head-vm", "1"), run("head-dpha", "1"))
    with pytest.raises(ValueError, match="for seed 1: sst.csv is not the same file"):
        check_runs(run("head-vm", "1"), run("head-dpha", "2"))


def test_the_tables_say_how_their_runs_were_made(tmp_path, nothing_runs, capsys):
    """A row has the name of its recipe, whatever --with has changed."""
    plugin = tmp_path / "mine.py"
    plugin.write_text("first")
    folder = tmp_path / "surgery-sum-seed0"
    options = {"surgery": "mine", "model": "tiny", "data_dir": "data/sample"}
    write_run(folder, "surgery-sum", plugin=[str(plugin)], sampling="joint", **options)
    run = json.loads((folder / "run.json").read_text())
    digest = hashlib.sha256(b"first").hexdigest()
    run["files"] = {"data/sample/sst.csv": "1" * 64, str(plugin): digest}
    run["code"] = code_version()
    (folder / "run.json").write_text(json.dumps(run))

    start = ["surgery-sum", "--seeds", "0", "--out", str(tmp_path)]
    start.append(f"--with=--plugin {plugin} --surgery mine")
    assert main(start) == 0
    last = (tmp_path / "ablation.md").read_text().splitlines()[-1]
    for sentence in (
        "standard deviation, which divides by n - 1.",
        "Seeds: 0.",
        f"Flags of --with: `--plugin {plugin} --surgery mine`.",
        "They give surgery-sum --surgery mine and not sum.",
        "Model: tiny. Data: data/sample with digest ",
        f"; plugin mine.py with SHA-256 {digest[:10]}.",
        "Code: commit `",
    ):
        assert sentence in last
    assert "They give surgery-sum --surgery mine" in (tmp_path / "ablation.html").read_text()
    assert "has changed" not in capsys.readouterr().out

    # The finished run is of the file as it was.
    plugin.write_text("second")
    assert main(start) == 0
    message = f"{folder}: {plugin} has changed since the run read it; remove the run"
    assert message in capsys.readouterr().out


def test_what_a_run_does_not_say_is_a_doubt(tmp_path):
    series = Series(("head-vm",), (0,), tmp_path, ("--epochs", "2"))
    folder = series.folder("head-vm", 0)
    code = {"git": "abc", "sha256": "0" * 64}
    whole = {"options": {"head": "vm", "epochs": 2}, "code": code}
    assert find_doubts(series, "head-vm", folder, whole, code) == []

    of_older_version = {"options": {"epochs": 2}}
    lines = find_doubts(series, "head-vm", folder, of_older_version, code)
    assert [line.split(";")[0] for line in lines] == [
        f"{folder}: its version has no --head, which head-vm sets to vm",
        f"{folder}: run.json does not say which code made it",
    ]


# --- real processes -------------------------------------------------------------------------------


def test_sigterm_reaches_the_run(tmp_path):
    """SIGTERM reaches this command alone. A run that went on would meet its own resumption."""
    ready = tmp_path / "ready"
    child = tmp_path / "child.py"
    child.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n"
        "print('one line', flush=True)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(100)\n"
    )

    def stop_when_ready():
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_when_ready)
    stopper.start()
    handler_before = signal.getsignal(signal.SIGTERM)
    assert run_process([sys.executable, str(child)], tmp_path / "log") == 130
    stopper.join()
    assert (tmp_path / "log").read_text() == "one line\n", "the output of a run must be kept"
    assert signal.getsignal(signal.SIGTERM) == handler_before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, 137)])
def test_a_run_that_a_signal_ends_has_the_exit_code_of_a_shell(tmp_path, number, code):
    """SIGTERM may come before the run can answer to it."""
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    assert run_process([sys.executable, "-c", program], tmp_path / "run.log") == code


def test_a_real_series_is_stopped_in_a_step_and_continues(tiny_model, sample_data, tmp_path):
    """A terminal sends Ctrl-C to the command and to its run. The same command ends in the same
    bits as a series that was never stopped."""

    def flags(out):
        of_run = f"--model {tiny_model} --data-dir {sample_data} --epochs 2 --save-every 1"
        start = ["head-vm", "--seeds", "3", "--out", str(tmp_path / out)]
        return [*start, f"--with={of_run} --precision fp32"]

    output_path = tmp_path / "output.txt"
    with open(output_path, "w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments", *flags("stopped")],
            stdout=output,
            stderr=output,
            cwd=COMMAND.parent,
            start_new_session=True,
        )
    folder = tmp_path / "stopped" / "head-vm-seed3"
    deadline = time.monotonic() + 100
    while not (folder / "checkpoint" / "multitask" / "state.json").is_file():
        assert process.poll() is None and time.monotonic() < deadline, output_path.read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=100) == 130
    assert not (folder / "run.json").exists()
    output = output_path.read_text()
    assert "Continue with: " in output and "The same command goes on from here." in output

    assert main(flags("stopped")) == 0
    assert main(flags("whole")) == 0
    log = folder.with_name("head-vm-seed3.log").read_text()
    assert log.count("multitask         12 ") == 2 and log.count("record: ") == 1
    for name in ("model.safetensors", "heads.safetensors"):
        whole = tmp_path / "whole" / folder.name / "model" / name
        assert (folder / "model" / name).read_bytes() == whole.read_bytes()


def test_two_real_runs(tiny_model, sample_data, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments_command, "RECORDS", tmp_path / "records")
    of_run = f"--model {tiny_model} --data-dir {sample_data} --epochs 1"
    start = ["head-vm", "contrastive-first", "--seeds", "3", "--out", str(tmp_path)]
    start += ["--record", "some-series"]
    assert main([*start, f"--with={of_run}"]) == 0

    record = json.loads((tmp_path / "head-vm-seed3" / "run.json").read_text())
    assert record["options"]["head"] == "vm" and record["options"]["seed"] == 3
    table = (tmp_path / "ablation.md").read_text()
    assert "\n| contrastive-first: simcse | 1 | Spearman, STS dev | " in table

    page = (tmp_path / "ablation.html").read_text(encoding="utf-8")
    assert "<title>head-vm, SST: " in page and "by epoch" not in page

    # Each run has its record. The same command adds none.
    records = read_records(tmp_path / "records" / "some-series.jsonl")
    assert [item["recipe"] for item in records] == ["head-vm", "contrastive-first"]
    assert records[0]["options"]["head"] == "vm"
    assert records[0]["scores"] == record["scores"]
    assert main([*start, f"--with={of_run}"]) == 0
    assert len(read_records(tmp_path / "records" / "some-series.jsonl")) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do this")
def test_a_series_that_is_killed_leaves_no_run_behind(tmp_path):
    """The run gets SIGTERM, and saves. Otherwise the same command finds it locked."""
    child = (
        "import pathlib, signal, sys, time\n"
        "def stop(*_): pathlib.Path(sys.argv[1]).touch(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop); print('begun', flush=True); time.sleep(60)\n"
    )
    code = (
        "import sys\nfrom pathlib import Path\nfrom experiments.series import run_process\n"
        f"run_process([sys.executable, '-c', {child!r}, {str(tmp_path / 'saved')!r}], "
        f"Path({str(tmp_path / 'log')!r}))\n"
    )
    series = subprocess.Popen([sys.executable, "-c", code], cwd=COMMAND.parent)
    deadline = time.monotonic() + 60
    while not (tmp_path / "log").is_file() or "begun" not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    series.kill()
    series.wait()
    while not (tmp_path / "saved").exists():
        assert time.monotonic() < deadline, "the run goes on alone"
        time.sleep(0.05)
