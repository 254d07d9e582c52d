"""tools/reliability: a few trials of each kind, and what the campaign makes of them.

The trials here need no model. `python -m tools.reliability` tries all commands.
"""

from __future__ import annotations

import json
import mmap
import random
import signal
import sys

import pytest

from minbert.commands import files
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training.code_version import code_version
from tests.killed_runs import vocabulary_of
from tools.reliability import (
    campaign,
    children,
    collisions,
    damaged_files,
    disk,
    downloads,
    extremes,
    kills,
    mutations,
    series,
    soak,
)
from tools.reliability.__main__ import main
from tools.reliability.campaign import Done, commands_of, plan, read_done, rows_of, seconds_left
from tools.reliability.children import Call, Ending
from tools.reliability.file_operations import KILL, Fault, watch
from tools.reliability.soak import Sample
from tools.reliability.targets import Target, differences, facts_of
from tools.reliability.trial import Outcome, Trial, complaint
from tools.reliability.workplace import Undisturbed, Workplace, stamps
from tools.tables.preparations import count_faults, trials_of_faults
from tools.tables.rows import Content

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the campaign forks")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, sample_data):
    """A workplace whose only target is the command that writes pages: it needs no model."""
    place = Workplace(tmp_path_factory.mktemp("reliability") / "workplace")
    place.folder.mkdir()
    place.places = place.places._replace(data=sample_data)
    place.places.corpus.write_text("A paragraph of a corpus.\n" * 20)
    place.places.first.mkdir(parents=True)
    (place.places.first / "options.json").write_text("{}")
    (place.places.first / "run.json").write_text("{}")
    place.targets = {"pages": place.targets["pages"]}
    place.undisturbed["pages"] = place.run_undisturbed(place.targets["pages"])
    place.inputs = stamps(place.folder)
    return place


def test_every_workplace_has_the_same_vocabulary():
    """Otherwise its operations differ, and a trial cannot be repeated elsewhere."""
    tokens = list(vocabulary_of(["b ab. a", "Ab c"], 16))
    assert tokens[len(SPECIAL_TOKENS) :] == [".", "a", "b", "c", "##.", "##a", "##b", "##c", "ab"]
    assert len(vocabulary_of(["b ab. a", "Ab c"], 8)) == 8


def trial_of(part: str, number: int) -> Trial:
    return Trial(part, number, seed=3)


# --- trials ---------------------------------------------------------------------------------------


def test_a_kill_at_each_operation_is_survived(workplace, tmp_path):
    operations = workplace.undisturbed["pages"].operations
    assert "replace /README.md" in operations and any("fsync" in name for name in operations)
    for number in range(len(operations)):
        folder = tmp_path / str(number)
        outcome = kills.at_operation(workplace, number, trial_of("kills", number), folder)
        assert outcome.problem == "", outcome.action


def test_a_kill_that_loses_a_page_is_found(workplace, tmp_path, monkeypatch):
    """The negative control: a page that is not written atomically is empty after a kill."""
    monkeypatch.setattr(files, "write_atomically", lambda path, write: write(path))
    target = workplace.targets["pages"]
    kills.prepare(target, tmp_path / "trial")
    call = kills.call_of(target, tmp_path / "trial")
    stop = watch(tmp_path / "trial", Fault(2, KILL))
    ending = children.run(call._replace(before=kills.in_turn(call.before, stop)))
    assert ending.code == -signal.SIGKILL
    problem = kills.continue_and_compare(workplace, target, tmp_path / "trial")
    assert "README.md differs" in problem


def test_a_folder_that_exists_counts_only_if_all_of_it_is_there(workplace, tmp_path):
    """The user has it, and reads "exists". The campaign removes nothing to go on."""
    target = Target("ensemble", "multitask.ensemble", ())
    exists = Ending("a", 2, "", "a: runs/a exists. Choose another folder.\n", 1.0, 1.0, 10**8)
    (tmp_path / "joined").mkdir()
    (tmp_path / "joined" / "ensemble.json").write_text("{}")
    expected = facts_of(target, tmp_path, "a table")
    workplace.undisturbed["ensemble"] = Undisturbed(expected, [], 1.0)
    assert kills.was_complete(workplace, target, tmp_path, exists)
    assert kills.compare(workplace, target, tmp_path, exists) == ""
    assert not kills.was_complete(workplace, target, tmp_path, exists._replace(errors="a: bad"))
    (tmp_path / "joined" / "ensemble.json").write_text("{")
    assert not kills.was_complete(workplace, target, tmp_path, exists)
    assert "ensemble.json differs" in kills.compare(workplace, target, tmp_path, exists)


def test_what_a_series_leaves_is_compared_without_times(tmp_path):
    places = [tmp_path / name for name in ("whole", "stopped")]
    for place in places:
        (place / "run" / "predictions").mkdir(parents=True)
        (place / "run" / "predictions" / "sst-dev-output.csv").write_text("id,0")
        (place / "run" / "log.csv").write_text(f"seconds\n{place.name}")
        record = {"epochs": [], "best_step": 1, "scores": {}, "actual": place.name}
        (place / "run" / "run.json").write_text(json.dumps(record))
    whole = series.facts_of(places[0])
    assert differences(whole, series.facts_of(places[1])) == ""
    (places[1] / "run" / "predictions" / "sst-dev-output.csv").write_text("id,1")
    (places[1] / "run" / ".log.csv.writing").touch()
    found = differences(whole, series.facts_of(places[1]))
    assert "run/.log.csv.writing is left over" in found and "sst-dev-output.csv differs" in found
    table = "\tid\tsentence\tsentiment\n0\ta\tgood\t3\n1\tb\tbad\t0\n"
    assert series.as_reviews(table, "train") == table.replace("\t3", "\t1")
    assert series.as_reviews(table, "test") == table


@pytest.mark.parametrize("number", [0, 1, 2, 3, 6, 14])
def test_a_disk_fault_is_survived(workplace, tmp_path, number):
    assert disk.run_trial(workplace, trial_of("disk", number), tmp_path / "trial").problem == ""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_signal_is_survived(workplace, tmp_path, number):
    trial = trial_of("kills", number)
    assert kills.at_random_time(workplace, number, trial, tmp_path / "trial").problem == ""


def test_an_output_that_stands_in_the_way_is_refused(workplace, tmp_path, monkeypatch):
    writers = collisions.make_writers(workplace)
    pretrain = next(writer for writer in writers if writer.name == "pretrain")
    for turn in (1, 4, 9):
        monkeypatch.setattr(collisions, "choose_case", lambda *_, turn=turn: (pretrain, turn))
        outcome = collisions.run_trial(workplace, trial_of("outputs", turn), tmp_path / str(turn))
        assert outcome.problem == "", outcome.action
    names = collisions.paths_inside(workplace, tmp_path, pretrain)
    assert len(names) == collisions.NUM_INSIDE


def test_a_download_that_fails_is_survived(workplace, tmp_path, monkeypatch):
    ways = {way: downloads.WAYS[way] for way in ("404", downloads.WELL)}
    monkeypatch.setattr(downloads, "WAYS", ways)
    outcome = downloads.run_trial(workplace, trial_of("downloads", 0), tmp_path / "trial")
    assert outcome == Outcome("download", "404", "")


def test_an_extreme_number_is_refused(workplace, tmp_path, monkeypatch):
    monkeypatch.setattr(extremes, "all_cases", lambda: [("lr", "nan")])
    outcome = extremes.run_trial(workplace, trial_of("numbers", 0), tmp_path / "trial")
    assert outcome == Outcome("extreme number", "lr nan", "")


def test_a_damaged_page_is_survived(workplace, tmp_path):
    names = [reader.name for reader in damaged_files.READERS]
    trial = trial_of("files", names.index("pages"))
    assert damaged_files.run_trial(workplace, trial, tmp_path / "trial").problem == ""


# --- what counts as survived ----------------------------------------------------------------------

REFUSED = Ending("a", 2, "", "a: no such file. Give another one.\n", 1.0, 1.0, 10**8)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"code": None}, "no end"),
        ({"code": 70}, "exit code 70"),
        ({"code": -9}, "exit code -9"),
        ({"errors": "Traceback (most recent call last):\nValueError\n"}, "a traceback"),
        ({"errors": ""}, "0 lines"),
        ({"errors": "a: one\na: two\n"}, "2 lines"),
        ({"errors": f"a: {'x' * 3000}\n"}, "characters"),
        ({"busy_seconds": 11.0}, "11 seconds"),
        ({"bytes": 3 * 10**9}, "3.0 GB"),
    ],
)
def test_complaint(changes, problem):
    found = complaint(REFUSED._replace(**changes))
    assert problem in found and bool(problem) == bool(found)


def test_a_child_is_a_process_of_its_own(tmp_path):
    ending = children.run(Call("run_multitask", ["--lr", "nan"]))
    assert ending.code == 2 and ending.errors.startswith("run_multitask.py: ")
    assert 0 < ending.busy_seconds < 10 and not children.RUNNING


@pytest.mark.parametrize(("size", "is_counted"), [(4096, False), (300_000_000, True)])
def test_memory_is_that_of_the_child_alone(monkeypatch, size, is_counted):
    """A large parent does not count: a fork shares its memory until it writes to it."""

    def allocate(arguments):
        # Not by malloc, which may give what the parent has freed.
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for place in range(0, size, 4096):
            pages[place] = 1
        return 0

    held = bytearray(b"x") * 200_000_000
    monkeypatch.setattr(children, "main_of", lambda module: allocate)
    ending = children.run(Call("run_multitask", []))
    assert ending.code == 0 and len(held) > 0
    assert (ending.bytes > 100_000_000) == is_counted


@pytest.mark.parametrize(
    "mutation", list(dict.fromkeys(mutations.JSON)), ids=lambda function: function.__name__
)
def test_a_mutation_of_json_repeats_itself(mutation):
    content = json.dumps({"a": [1, 2], "b": {"c": "text"}, "d": None}, indent=1).encode()
    results = [mutation(content, random.Random(seed)) for seed in (*range(8), *range(8))]
    assert results[:8] == results[8:]
    assert any(result != content for result in results)


# --- the campaign ---------------------------------------------------------------------------------


def test_a_plan_mixes_the_parts():
    trials = plan(["kills", "outputs"], 0.1, seed=0)
    assert len(trials) == 116 and len(set(trials)) == 116
    early = [trial.part for trial in trials[:58]]
    assert 2 <= early.count("outputs") <= 4
    assert len(plan(["together"], 1e-9, seed=0)) == 1


def test_the_campaign_continues_where_it_was_stopped(workplace, tmp_path, monkeypatch):
    trials = plan(["kills"], 0.004, seed=3)
    monkeypatch.setattr(campaign, "TRAINING", "pages")
    said = []
    path = tmp_path / "trials.jsonl"
    assert campaign.do_all(workplace, trials, path, -1, said.append) == []
    done = campaign.do_all(workplace, trials[:1], path, 9, said.append)
    assert done == read_done(path) and len(done) == 1
    # The line of the trial that a kill has cut.
    path.write_text(path.read_text() + '[["kills", 1')
    campaign.do_all(workplace, trials[:1], path, 9, said.append)
    assert "1 trials, 1 of them done" in said[-1]


def test_a_defect_of_a_trial_is_no_success(workplace, tmp_path, monkeypatch):
    def fail(*arguments):
        raise KeyError("x")

    part = campaign.PARTS["kills"]._replace(run=fail)
    monkeypatch.setitem(campaign.PARTS, "kills", part)
    done = campaign.do_trial(workplace, Trial("kills", 17, 4), tmp_path / "trial")
    assert done.outcome.problem == "KeyError: 'x'"
    assert done.trial.command.endswith("tools.reliability --repeat kills:17 --seed 4")


def test_the_rows_and_the_time_that_is_left():
    done = []
    for number, problem in enumerate(("", "x", "")):
        trial = Trial("tables", number, 0)
        done.append(Done(trial, Outcome("table", "", problem), 2.0 + number))
    assert rows_of(done) == [campaign.Row("tables", "table", 3, 2)]
    assert seconds_left([Trial("tables", 9, 0)], done, 10.0) == 3.0
    expected = campaign.PARTS["kills"].cost * 10.0
    assert seconds_left([Trial("kills", 9, 0)], done, 10.0) == pytest.approx(expected)


def test_the_commands_that_were_stopped_are_counted():
    outcomes = [
        ("kills", Outcome("SIGTERM", "export: SIGTERM after 1 s")),
        ("kills", Outcome("SIGTERM", "export: SIGTERM after 2 s", "a file is gone")),
        ("kills", Outcome(kills.ENDED_BEFORE, "export: SIGTERM after 9 s")),
        ("series", Outcome("part1: SIGTERM", "part1: SIGTERM after 3 s")),
        ("disk", Outcome("EIO once", "ensemble: EIO at file operation 3")),
    ]
    done = []
    for number, (part, outcome) in enumerate(outcomes):
        done.append(Done(Trial(part, number, 0), outcome, 1.0))
    assert commands_of(done) == {"export": [2, 1], "part1": [1, 1]}


def test_every_other_kill_stops_no_training(workplace, monkeypatch):
    """Training has many more file operations than the commands that make folders."""
    pages = workplace.targets["pages"]
    training = pages._replace(name="training", is_training=True)
    monkeypatch.setitem(workplace.targets, "training", training)
    undisturbed = Undisturbed({}, ["replace"] * 500, 1.0)
    monkeypatch.setitem(workplace.undisturbed, "training", undisturbed)
    num_pages = len(workplace.undisturbed["pages"].operations)
    trial = trial_of("kills", 0)
    choices = [kills.choose_operation(workplace, number, trial) for number in range(2 * num_pages)]
    of_pages = [choice for choice in choices if choice[1] == pages]
    assert sorted(of_pages) == [(0, pages, operation) for operation in range(1, 1 + num_pages)]
    assert kills.choose_operation(workplace, 2 * num_pages + 1, trial)[:2] == (1, pages)

    only = trial._replace(commands="errors,pages")
    choices = [kills.choose_operation(workplace, number, only) for number in range(num_pages)]
    assert {target for _, target, _ in choices} == {pages}
    assert only.command.endswith("--repeat kills:0 --seed 3 --commands errors,pages")


def test_a_soak_judges_memory_and_open_files():
    flat = [Sample(float(number), 10**8 + number, 7) for number in range(40)]
    assert soak.judge(flat) == ""
    assert "only 6 rounds" in soak.judge(flat[:6])
    growing = [sample._replace(bytes=10**8 + 10**6 * n) for n, sample in enumerate(flat)]
    assert "memory grew" in soak.judge(growing)
    assert "open files grew" in soak.judge([*flat, flat[-1]._replace(descriptors=8)])


def test_another_campaign_is_not_continued(tmp_path, capsys):
    def refusal(*words: str) -> str:
        assert main(["--work", str(tmp_path), *words]) == 2
        return capsys.readouterr().err

    assert "holds no campaign" in refusal("--resume")
    (tmp_path / "campaign.json").write_text(json.dumps({"seed": 0, "code": "other"}))
    assert "other code" in refusal("--resume")
    assert "holds a campaign" in refusal()
    assert "at most 1" in refusal("--share", "2")
    assert "such as kills:17" in refusal("--repeat", "nothing:1")
    assert "it is some of embed,embed --export,ensemble" in refusal("--commands", "train")
    assert "disk has none of them" in refusal("--parts", "disk", "--commands", "part1")
    assert code_version()["sha256"] != "other"


# --- the table ------------------------------------------------------------------------------------


def test_one_failed_trial_of_many_is_counted():
    """Of three faults of one kind, one was not survived. The other kinds are not touched."""
    outcomes = [Outcome("SIGTERM", "", ""), Outcome("SIGTERM", "", "a file is gone")]
    outcomes += [Outcome("SIGTERM", "", ""), Outcome("Ctrl-C", "", "")]
    done = []
    for number, outcome in enumerate(outcomes):
        done.append(Done(Trial("kills", number, 0), outcome, 1.0))
    rows = rows_of(done)
    assert [(row.kind, row.tried, row.survived) for row in rows] == [
        ("Ctrl-C", 1, 1),
        ("SIGTERM", 3, 2),
    ]


def test_the_documents_say_so_and_count_no_command_that_had_ended():
    kinds = {"SIGTERM": (3, 2), "Ctrl-C": (1, 1), "no kill: it ended before the signal": (7, 7)}
    rows = []
    for kind, (tried, survived) in kinds.items():
        rows.append({"part": "kills", "kind": kind, "tried": tried, "survived": survived})
    record = {"rows": rows, "goals": {"kills": 20}, "seconds": 9}
    assert count_faults(record) == (3, 4)
    text = trials_of_faults(Content({}, [record], []))
    assert "3 of 4 faults were survived" in text and "kills 4 of 20" in text
    assert "7 commands ended before their signal came" in text


def test_a_campaign_of_some_parts_shows_its_table(tmp_path, capsys):
    campaign_file = {"seed": 0, "code": code_version()["sha256"]}
    (tmp_path / "campaign.json").write_text(json.dumps(campaign_file))
    done = Done(Trial("kills", 1, 0), Outcome("SIGTERM", "export: SIGTERM after 1 s"), 1.0)
    campaign.add_done(tmp_path / "trials.jsonl", done)
    words = ["--parts", "kills", "--resume", "--minutes", "0", "--work", str(tmp_path)]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "| kills | SIGTERM | 1 | 1 |" in output
    assert json.loads(output.splitlines()[-1])["name"] == "faults of kills"
