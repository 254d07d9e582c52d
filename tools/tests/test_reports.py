"""tools/tables/cut.py, reports.py and report_rows.py: the rows of the two course reports."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from experiments.flags import parse_flags
from experiments.recipes import GEN_RECIPES, RECIPES, values_of
from experiments.records import add_records, read_records
from minbert.training import code_version
from minbert.training.code_version import ROOT
from tools.tables import cut as cut_module
from tools.tables import report_rows, reports
from tools.tables.answers import comparison_answers
from tools.tables.cut import (
    REPORT_CUT,
    Digests,
    differences,
    draw_lines,
    flags_of,
    is_current,
    values_on_cut,
    write_cut,
)
from tools.tables.figures import by_recipe, read_runs
from tools.tables.generic import make_table, read_entries
from tools.tables.report_rows import compare, counted_scores
from tools.tables.reports import expand, main

TRIPLETS = "premise\tentailment\tcontradiction\na\tb\tc\nd\te\tf\n"
SMALL = REPORT_CUT._replace(
    train={"sst": 4, "para": 6, "sts": 3}, dev={"sst": 2, "para": 2, "sts": 2}, test=1, triplets=1
)
SCORES = {"sst": 0.4, "para": 0.7, "sts": 0.5}


# --- the cut --------------------------------------------------------------------------------------


def test_the_draw_of_a_file_is_fixed_and_keeps_the_order():
    lines = ["head\n", *(f"{number}\n" for number in range(100))]
    drawn = draw_lines(lines, 10, "sst.csv")
    assert drawn == draw_lines(lines, 10, "sst.csv")
    assert drawn[0] == "head\n"
    numbers = [int(line) for line in drawn[1:]]
    assert len(set(numbers)) == 10
    assert numbers == sorted(numbers)
    # Not the first rows, and not those of another file.
    assert numbers != list(range(10))
    assert drawn != draw_lines(lines, 10, "sts.csv")
    assert draw_lines(lines, 100, "sst.csv") == lines
    # Fewer rows would be another cut, which nobody asked for.
    with pytest.raises(ValueError, match="it has 100 rows, and the cut has 101 of them"):
        draw_lines(lines, 101, "sst.csv")


def test_the_cut_is_written_once_and_its_digest_follows_its_content(tmp_path, monkeypatch):
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL)
    triplets = tmp_path / "mine.tsv"
    triplets.write_text(TRIPLETS)
    source = ROOT / "data" / "sample"
    out = tmp_path / "out"

    digests = write_cut(source, triplets, out)
    counts = {path.name: len(path.read_text().split("\n")) - 2 for path in out.iterdir()}
    assert len(counts) == 10
    assert counts["quora-train.csv"] == 6
    assert counts["ids-sst-dev.csv"] == 2
    assert counts["sts-test-student.csv"] == 1
    assert counts["nli-triplets.tsv"] == 1

    # A run may read the files at this moment, so equal files stay as they are.
    monkeypatch.setattr(cut_module, "write_text", lambda path, text: pytest.fail(f"{path} again"))
    assert write_cut(source, triplets, out) == digests
    monkeypatch.undo()

    # Other triplets are told apart, and the rows without them stay what they are.
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL)
    triplets.write_text(TRIPLETS.replace("\tc\n", "\tx\n").replace("\tf\n", "\ty\n"))
    others = write_cut(source, triplets, out)
    assert others.course == digests.course
    assert others.triplets != digests.triplets

    # The options of a run are compared with its recipe, so they are no part of the digest.
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL._replace(lr_factors={}))
    assert write_cut(source, None, out) == Digests(digests.course, None)
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL._replace(seed=1))
    assert write_cut(source, None, out).course != digests.course
    with pytest.raises(ValueError, match="cannot be read.*--data-dir must be a folder"):
        write_cut(tmp_path / "nowhere", None, out)


def test_a_wrong_file_is_refused_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL)
    source = ROOT / "data" / "sample"
    wrong = tmp_path / "pairs.tsv"
    wrong.write_text("sentence_1\tsentence_2\na\tb\n")
    with pytest.raises(ValueError, match="nli-triplets.tsv"):
        write_cut(source, wrong, tmp_path / "out")
    # A smaller file would be another cut.
    monkeypatch.setattr(cut_module, "REPORT_CUT", SMALL._replace(triplets=2))
    with pytest.raises(ValueError, match=r"pairs.tsv: it has 1 rows, and the cut has 2 of them"):
        write_cut(source, wrong, tmp_path / "out")


def test_the_learning_rates_of_a_recipe_grow_by_the_factors_of_the_cut():
    for name in RECIPES:
        factors = {
            "lr": REPORT_CUT.lr_factors["gen" if name in GEN_RECIPES else "rob"],
            "contrastive_lr": REPORT_CUT.contrastive_lr_factor,
        }
        before, after = values_of(name), values_on_cut(name)
        for option, factor in factors.items():
            assert (option in before) == (option in after)
            if option in before:
                assert after[option] == pytest.approx(before[option] * factor)
        others = set(before) - set(factors)
        assert {option: after[option] for option in others} == {
            option: before[option] for option in others
        }


def test_the_flags_add_the_cut_to_a_recipe():
    flags = parse_flags(flags_of("rob-15", Path("d")))
    assert flags["nli"] == str(Path("d/nli-triplets.tsv"))
    assert flags["model"] == "minilm"
    assert float(flags["lr"]) == pytest.approx(1e-5 * REPORT_CUT.lr_factors["rob"])
    # The recipe sets this one.
    assert "head" not in flags
    assert "nli" not in parse_flags(flags_of("rob-14", Path("d")))
    assert "contrastive_lr" in parse_flags(flags_of("gen-nli", Path("d")))


def test_a_record_belongs_to_its_recipe_as_it_is_now():
    options = values_on_cut("rob-3")
    record = {"recipe": "rob-3", "options": options}
    assert is_current(record)
    # A record leaves out options with their defaults, such as 3 epochs.
    del options["epochs"]
    assert is_current(record)
    options["epochs"] = 6
    assert differences("rob-3", options) == {"epochs": "--epochs is 6 and not 3"}
    assert not is_current(record)
    assert not is_current({**record, "recipe": "removed"})


# --- the command ----------------------------------------------------------------------------------


def test_groups_stand_for_all_rows():
    names = expand(["rob-14", "rob", "gen"])
    assert names[0] == "rob-14"
    assert sorted(names) == sorted(RECIPES)
    with pytest.raises(ValueError, match="'defaults' is no row of a report. Name rob, gen or"):
        expand(["defaults"])
    with pytest.raises(ValueError, match="Did you mean gen-given-sst?"):
        expand(["gen-givn-sst"])


@pytest.fixture
def fake_runs(record_files, monkeypatch):
    """Runs that are finished at once. Returns the names of those that were run, and exit codes.

    The exit codes, by the name of a run's folder, may be set by a test.
    """
    monkeypatch.setattr(reports, "REPORTS", record_files / "reports.jsonl")
    monkeypatch.setattr(reports, "write_cut", lambda *_: Digests("the cut", "the triplets"))
    ran: list[str] = []
    codes: dict[str, int] = {}

    def run(command, log):
        name = command[command.index("--name") + 1]
        ran.append(name)
        if codes.get(name, 0):
            return codes[name]
        folder = Path(command[command.index("--output-dir") + 1]) / name
        folder.mkdir(parents=True)
        recipe = command[command.index("--recipe") + 1]
        write_run(folder, recipe, int(command[command.index("--seed") + 1]))
        return 0

    monkeypatch.setattr(reports, "run_process", run)
    return ran, codes


def write_run(folder: Path, recipe: str, seed: int) -> None:
    """Write the run.json of a finished run on the cut."""
    options = {**values_on_cut(recipe), "recipe": recipe, "seed": seed}
    record = {
        "options": {"tasks": "sst,para,sts", **options},
        "files": {"sst.csv": "0" * 64},
        "scores": SCORES,
        "train_scores": {"sst": 0.5 + 0.1 * seed, "para": 0.8, "sts": 0.9},
        "epochs": [],
        "baselines": {"majority": {"sst": 0.26, "para": 0.6, "sts": 0.0, "overall_2023": 0.287}},
        "stages": {},
        "actual": {"seconds": 90.0, "peak_memory": 1e9},
        "machine": {"system": "Linux-6", "threads": 1, "device": "cpu"},
        "versions": {"torch": "2.13.0"},
        "code": {"git": "0123456789abcdef", "sha256": "0" * 64},
    }
    (folder / "run.json").write_text(json.dumps(record))


def test_what_is_missing_is_run_and_recorded(tmp_path, record_files, fake_runs, capsys):
    ran, _ = fake_runs
    flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--seeds", "0,1"]
    assert main(["rob-7", "rob-1", *flags]) == 0
    assert ran == ["rob-7-seed0", "rob-7-seed1", "rob-1-seed0", "rob-1-seed1"]
    records = read_records(record_files / "reports.jsonl")
    assert [(record["recipe"], record["seed"]) for record in records] == [
        ("rob-7", 0),
        ("rob-7", 1),
        ("rob-1", 0),
        ("rob-1", 1),
    ]
    assert {record["cut"] for record in records} == {"the cut"}
    assert all(record["minutes"] == 1.5 for record in records)
    # The weights are gone.
    assert not list((tmp_path / "out").glob("*/"))

    ran.clear()
    capsys.readouterr()
    assert main(["rob-7", "rob-1", *flags, "--seeds", "0,1,2", "--keep"]) == 0
    assert ran == ["rob-7-seed2", "rob-1-seed2"]
    assert (tmp_path / "out" / "rob-7-seed2" / "run.json").is_file()
    assert (
        f"rob-7-seed0: has a record in {record_files / 'reports.jsonl'}" in capsys.readouterr().out
    )

    # Another file has no record yet.
    mine = tmp_path / "mine.jsonl"
    assert main(["rob-1", *flags, "--seeds", "0", "--records", str(mine)]) == 0
    assert ran[2:] == ["rob-1-seed0"]
    assert [record["recipe"] for record in read_records(mine)] == ["rob-1"]


def test_a_row_with_other_triplets_is_run_again(tmp_path, record_files, fake_runs, monkeypatch):
    ran, _ = fake_runs
    flags = ["--data-dir", "d", "--nli", "n", "--out", str(tmp_path / "out"), "--seeds", "0"]
    assert main(["gen-nli", "rob-1", *flags]) == 0
    monkeypatch.setattr(reports, "write_cut", lambda *_: Digests("the cut", "others"))
    assert main(["gen-nli", "rob-1", *flags]) == 0
    assert ran == ["gen-nli-seed0", "rob-1-seed0", "gen-nli-seed0"]
    records = read_records(record_files / "reports.jsonl")
    assert [record.get("triplets") for record in records] == ["the triplets", None, "others"]

    add_records(record_files / "reports.jsonl", [{**records[0], "seed": 1}])
    with pytest.raises(ValueError, match="2 files of triplets \\(others and the triplets\\)"):
        make_table("gen-dev")


def test_rows_with_the_same_options_share_their_runs(tmp_path, record_files, fake_runs, capsys):
    ran, _ = fake_runs
    assert values_on_cut("gen-baseline") == values_on_cut("gen-first-shared")
    flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--seeds", "0"]
    assert main(["gen-baseline", "gen-first-shared", "gen-heads-different", *flags]) == 0
    assert ran == ["gen-baseline-seed0", "gen-heads-different-seed0"]
    assert "gen-first-shared-seed0: the same options as gen-baseline" in capsys.readouterr().out
    run, shared, _ = read_records(record_files / "reports.jsonl")
    assert shared == {**run, "recipe": "gen-first-shared", "run_of": "gen-baseline"}
    # Another seed is another run.
    assert main(["gen-first-shared", *flags, "--seeds", "1"]) == 0
    assert ran[2:] == ["gen-first-shared-seed1"]


def test_records_of_another_cut_or_of_an_older_recipe_do_not_count(
    tmp_path, fake_runs, monkeypatch
):
    ran, _ = fake_runs
    flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--seeds", "0"]
    assert main(["rob-7", *flags]) == 0
    monkeypatch.setattr(reports, "write_cut", lambda *_: Digests("another cut", None))
    assert main(["rob-7", *flags]) == 0
    assert ran == ["rob-7-seed0"] * 2

    changed = RECIPES["rob-7"]._replace(values={**RECIPES["rob-7"].values, "epochs": 9})
    monkeypatch.setitem(RECIPES, "rob-7", changed)
    assert main(["rob-7", *flags]) == 0
    assert ran == ["rob-7-seed0"] * 3


def test_a_failed_run_lets_the_others_go_on_and_a_stopped_one_does_not(tmp_path, fake_runs, capsys):
    ran, codes = fake_runs
    codes |= {"rob-1-seed0": 1, "rob-3-seed0": 130}
    flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--seeds", "0"]
    assert main(["rob-1", "rob-2", *flags]) == 1
    assert ran == ["rob-1-seed0", "rob-2-seed0"]
    error = capsys.readouterr().err
    assert "rob-1-seed0: failed with code 1. Its message is above, and its output is in" in error
    assert "rob-1-seed0.log." in error
    assert main(["rob-3", "rob-4", *flags]) == 130
    assert ran[2:] == ["rob-3-seed0"]


def test_a_run_of_another_process_is_left_to_it(tmp_path, fake_runs, capsys):
    ran, _ = fake_runs
    out = tmp_path / "out"
    out.mkdir()
    with FileLock(out / "rob-1-seed0.lock"):
        assert main(["rob-1", "--data-dir", "d", "--out", str(out), "--seeds", "0,1"]) == 0
    assert ran == ["rob-1-seed1"]
    assert "rob-1-seed0: another process works on it" in capsys.readouterr().out


def test_a_run_that_was_begun_with_other_options_is_refused(tmp_path, fake_runs, capsys):
    folder = tmp_path / "out" / "rob-1-seed0"
    folder.mkdir(parents=True)
    options = {**values_on_cut("rob-1"), "batch_size": 2}
    (folder / "options.json").write_text(json.dumps({"options": options}))
    assert main(["rob-1", "--data-dir", "d", "--out", str(folder.parent)]) == 2
    assert "begun with other options: --batch_size is 2 and not 32" in capsys.readouterr().err
    assert fake_runs[0] == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["rob-15", "--data-dir", "d"], "rob-15 reads triplets; add --nli FILE"),
        (["rob-99", "--data-dir", "d"], "'rob-99' is no row of a report"),
        (["rob-1", "--data-dir", "d", "--seeds", "1,1"], "1 is given twice, and would count twice"),
        (["rob-1", "--data-dir", "d", "--seeds", "1,x"], "it is whole numbers"),
        (["rob-1"], "--data-dir"),
    ],
)
def test_wrong_arguments_are_named(flags, words, capsys):
    with pytest.raises(SystemExit) as ending:
        main(flags)
    assert ending.value.code == 2
    assert words in capsys.readouterr().err


def test_records_that_are_added_are_no_edit_of_the_code(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    monkeypatch.setattr(code_version, "ROOT", tmp_path)
    assert code_version.current_commit() == ""
    git("init", "-q")
    assert code_version.current_commit() == ""
    records = tmp_path / "experiments" / "records" / "reports.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text("")
    source = tmp_path / "code.py"
    source.write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    commit = code_version.current_commit()
    assert len(commit) == 40

    records.write_text("more")
    (tmp_path / "untracked.py").write_text("")
    assert code_version.current_commit() == commit
    source.write_text("edited")
    assert code_version.current_commit() == f"{commit}-dirty"


def test_a_file_that_takes_no_records_is_refused_before_a_run(tmp_path, fake_runs, capsys):
    other = tmp_path / "ensembles.jsonl"
    add_records(other, [{"title": "3 runs"}])
    for path, words in ((tmp_path, "is a folder. Name a file"), (other, "no rows of the reports")):
        flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--records", str(path)]
        with pytest.raises(SystemExit) as ending:
            main(["rob-1", *flags])
        assert ending.value.code == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- the tables -----------------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path, record_files, fake_runs):
    """The file of records with rows 1, 5 and 7, and the seeds 0 and 1."""
    flags = ["--data-dir", "d", "--out", str(tmp_path / "out"), "--seeds", "1,0"]
    assert main(["rob-1", "rob-5", "rob-7", *flags]) == 0
    return record_files / "reports.jsonl"


def test_the_tables_show_published_beside_measured(records):
    text = make_table("rob-dev")
    # The report scores PARA and STS of row 1 with untrained heads.
    assert "| 2 | 0.400 ± 0.000 (0.388) | 0.700 ± 0.000 (0.380) | 0.500 ± 0.000 (-0.009) |" in text
    assert "| `rob-2` |" in text
    assert "| not measured yet | - (0.327) | - (0.764) | - (0.866) | - (0.652) |" in text
    assert "| majority | baseline without an encoder |  | 0.260 | 0.600 | 0.000 | 0.287 |" in text
    assert "Measured on 20" in text
    assert "commit `0123456789`: Linux, 1 thread, cpu, torch 2.13.0." in text
    assert "Rows with fewer than 3 seeds so far: `rob-1`, `rob-2`" in text
    assert "Training rows: 800 of SST, 2,400 of PARA and 600 of STS." in text
    assert "| `rob-5` | 2 | 0.550 ± 0.071 (0.846) |" in make_table("rob-train")
    # Without a record there are no baselines.
    assert "majority" not in make_table("gen-dev")
    assert "| `gen-nli` | not measured yet | - | - | - |" in make_table("gen-train")


def test_the_two_readings_stand_beside_the_published_differences(records):
    text = make_table("rob-differences")
    # Of the report: .977 - .846, .850 - .896 and .985 - .948.
    assert "| published | +0.131 | -0.046 | +0.037 |" in text
    assert "| `rob-7` less `rob-5` | 0.000 ± 0.000, n 2 |" in text
    assert "| `rob-7-pooled` less `rob-5` | - | - | - |" in text
    text = make_table("rob-readings")
    assert "| `rob-7` | task drawn | 2 |" in text
    assert "| `rob-7-pooled` | pooled | not measured yet |" in text


@pytest.mark.parametrize(
    ("published", "measured", "word", "direction"),
    [
        (0.02, [0.01, 0.03], "", "too few seeds"),
        (0.02, [-0.01, 0.01, 0.03], "", "cannot tell"),
        # .851 - .851 of two floats is no direction.
        (1e-16, [0.03, 0.04, 0.05], "better", "none published"),
        (0.02, [0.03, 0.04, 0.05], "better", "the same"),
        (-0.02, [0.03, 0.04, 0.05], "better", "the opposite"),
        (0.02, [-0.05, -0.04, -0.03], "worse", "the opposite"),
        (-0.02, [-0.05, -0.04, -0.03], "worse", "the same"),
    ],
)
def test_a_difference_has_a_direction_where_it_is_told_from_chance(
    published, measured, word, direction
):
    assert compare(published, measured, word) == direction


def test_each_conclusion_of_a_report_has_its_measured_difference(records):
    first = read_records(records)[0]
    for name, sts in (("rob-5", 0.5), ("rob-7", 0.65)):
        for seed in (0, 1, 2):
            scores = {"sst": 0.4, "para": 0.7, "sts": sts}
            row = {**first, "recipe": name, "options": values_on_cut(name), "seed": seed}
            add_records(records, [{**row, "trained": list(SCORES), "scores": scores}])
    text = make_table("rob-comparisons")
    # The report's overall scores are .733 and .732. Ours differ by .15 in one of three tasks.
    cells = "| `rob-7` | `rob-5` | overall 2023 | +0.001 | 3 | 0.050 [0.050, 0.050] | the same |"
    assert cells in text
    assert "| `rob-5` | `rob-3` | overall 2023 | -0.009 | 0 | - | too few seeds |" in text
    assert "| `rob-9` | `rob-8` | PARA | -0.009 | 0 | - | too few seeds |" in text
    assert "Of 13 differences: 1 with the published direction, 0 with" in text
    assert "on a GPU" not in text
    assert "Rows with fewer than 3 seeds so far: `rob-3`, `rob-2`" in text
    (answer,) = comparison_answers()  # No row of [GEN] is measured.
    assert answer.page == "../papers/rob.md"
    assert answer.result.startswith("Of 13 differences: 1 with the published direction")
    text = make_table("gen-comparisons")
    assert "| `gen-nli` | `gen-baseline` | overall 2023 | +0.121 | 0 |" in text


def test_runs_on_two_kinds_of_device_are_named(records):
    first = read_records(records)[0]
    row = {**first, "recipe": "rob-7", "options": values_on_cut("rob-7"), "seed": 0}
    add_records(records, [{**row, "machine": {**first["machine"], "device": "cuda"}}])
    text = make_table("rob-comparisons")
    sentence = "One of the two runs was on a GPU, and the other was not: `rob-7` less `rob-5`"
    assert f"{sentence} (seed 0)." in text


def test_a_seed_on_two_devices_shows_what_chance_leaves(records):
    first = read_records(records)[0]
    gpu = {**first, "machine": {**first["machine"], "device": "cuda", "gpu": "G"}}
    add_records(records, [{**gpu, "scores": {"sst": 0.43, "para": 0.7, "sts": 0.5}}])
    (row,) = [line for line in make_table("report-devices").split("\n") if line.startswith("| `")]
    assert row == "| `rob-1` | 1 | +0.030 | +0.000 | +0.000 | +0.010 |"


COMPARISONS = []
for name in ("rob-comparisons", "gen-comparisons"):
    COMPARISONS += read_entries()[name]["compared_rows"]
# All options that differ between the two rows of a comparison. The text of each comparison names
# them, so a recipe that changes needs a look at the text.
OPTIONS_THAT_DIFFER = {
    ("rob-3", "rob-2"): "sampling tasks",
    ("rob-5", "rob-3"): "common_layer hidden_dropout_prob tasks vector_dropout_prob",
    ("rob-4", "rob-5"): "batch_size",
    ("rob-6", "rob-5"): "epochs hidden_dropout_prob tasks",
    ("rob-7", "rob-5"): "epochs sampling tasks",
    ("rob-8", "rob-7"): "batch_size",
    ("rob-9", "rob-8"): "para_head",
    ("rob-10", "rob-8"): "draw_weights para_head",
    ("rob-13", "rob-10"): "head para_head",
    ("rob-11", "rob-13"): "vector_dropout_prob",
    ("rob-14", "rob-13"): "vector_dropout_prob",
    ("rob-12", "rob-14"): "batch_size draw_weights sampling surgery surgery_reduction",
    ("rob-15", "rob-14"): "contrastive_batch_size epochs hand_on pretrain",
    ("gen-given", "gen-nli"): "labelled_negatives pretrain",
    ("gen-given-sst", "gen-given"): "tasks untrained_tasks",
    ("gen-given-para", "gen-given"): "tasks untrained_tasks",
    ("gen-given-sts", "gen-given"): "tasks untrained_tasks",
    ("gen-first-shared", "gen-heads-shared"): "sharing",
    ("gen-first-shared", "gen-heads-different"): "sharing",
    ("gen-quora-only", "gen-quora-no-negatives"): "labelled_negatives",
    ("gen-all-given", "gen-quora-only"): "unsupervised_too",
    ("gen-nli-before-given", "gen-given"): "pretrain",
    ("gen-given-before-nli", "gen-given"): "pretrain",
    ("gen-nli-before-given", "gen-given-before-nli"): "pretrain",
    ("gen-baseline", "gen-epoch-round-robin"): "joint_limit sampling",
    ("gen-baseline", "gen-batch-round-robin"): "sampling",
    ("gen-surgery", "gen-nli-before-given"): "surgery surgery_reduction",
    ("gen-nli", "gen-nli-1-epoch"): "contrastive_epochs",
    ("gen-given-3-epochs", "gen-given-2-epochs"): "contrastive_epochs",
    ("gen-given", "gen-given-2-epochs"): "contrastive_epochs",
    ("gen-given", "gen-given-lr-1e-5"): "contrastive_lr",
    ("gen-given-lr-3e-5", "gen-given"): "contrastive_lr",
}


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison["what"])
def test_the_rows_of_a_comparison_differ_in_what_it_says(comparison):
    row, control = (RECIPES[name].values for name in (comparison["row"], comparison["less"]))
    changed = {name for name in {*row, *control} if row.get(name) != control.get(name)}
    expected = OPTIONS_THAT_DIFFER.get((comparison["row"], comparison["less"]))
    if expected is not None:
        assert changed == set(expected.split())
    else:
        # A contrastive stage before the tasks, for none. Its own options belong to it.
        assert "pretrain" in changed
        assert "pretrain" not in control
        rest = {name for name in changed if not name.startswith("contrastive_")}
        assert rest <= {"pretrain", "hand_on", "labelled_negatives"}


def test_the_order_of_the_rows_is_compared(records):
    assert "Spearman" not in make_table("rob-dev")
    first = read_records(records)[0]
    # The report's SST scores of these rows: .498, .483, .499, .454 and .510. STS: as measured.
    sst_of = {"rob-3": 0.2, "rob-4": 0.15, "rob-5": 0.1, "rob-6": 0.4, "rob-8": 0.05}
    for name, sst in sst_of.items():
        for seed in (0, 1, 2):
            published = RECIPES[name].published
            scores = {"sst": sst + 0.01 * seed, "para": published.para, "sts": published.sts}
            row = {**first, "recipe": name, "options": values_on_cut(name), "seed": seed}
            add_records(records, [{**row, "trained": list(SCORES), "scores": scores}])
    text = make_table("rob-dev")
    # Rows 1 and 7 have two seeds, and so no place in the order.
    assert "SST -0.90 (5 rows), PARA 1.00 (5 rows), STS 1.00 (5 rows)" in text


def test_a_row_has_a_line_for_each_schedule(records):
    rows = read_records(records)
    options = values_on_cut("rob-3")
    for option in ("schedule", "warmup", "weight_decay", "max_grad_norm"):
        del options[option]  # the default is linear
    add_records(records, [{**rows[0], "recipe": "rob-3", "options": options}])
    assert "rob-3" not in report_rows.runs_by_recipe(read_records(records))
    assert "| `rob-3` | constant" not in make_table("rob-schedules")
    add_records(records, [{**rows[0], "recipe": "rob-3", "options": values_on_cut("rob-3")}])
    text = make_table("rob-schedules")
    assert "| `rob-3` | constant | 5e-05 | 1 | 0.400 (0.498) |" in text
    assert "| `rob-3` | linear | 5e-05 | 1 | 0.400 (0.498) |" in text
    # Another difference is another experiment.
    add_records(records, [{**rows[0], "recipe": "rob-3", "options": {**options, "epochs": 9}}])
    assert make_table("rob-schedules") == text


def test_a_table_never_mixes_two_cuts_and_forgets_changed_recipes(records, monkeypatch):
    rows = read_records(records)
    add_records(records, [{**rows[0], "minutes": 9.0}])
    # The newest record of a recipe and a seed counts alone.
    assert len(report_rows.runs_by_recipe(read_records(records))["rob-1"]) == 2
    add_records(records, [{**rows[0], "cut": "another"}])
    for table in ("rob-dev", "rob-schedules", "gen-rates"):
        # Two runs of a row with two schedules, or at two learning rates, are of one cut, too.
        for name in ("rob-3", "gen-given"):
            rerun = {**rows[0], "recipe": name, "seed": 0, "options": values_on_cut(name)}
            add_records(records, [rerun, {**rerun, "seed": 1, "cut": "another"}])
        with pytest.raises(ValueError, match=r"of 2 cuts of the data \(another and the cut\)"):
            make_table(table)

    changed = RECIPES["rob-1"]._replace(values={**RECIPES["rob-1"].values, "epochs": 9})
    monkeypatch.setitem(RECIPES, "rob-1", changed)
    current = [record for record in read_records(records) if record["cut"] == "the cut"]
    assert "rob-1" not in report_rows.runs_by_recipe(current)
    assert "rob-5" in report_rows.runs_by_recipe(current)


def test_the_figures_show_the_runs_of_the_tables(records):
    rows = read_records(records)
    add_records(records, [{**rows[0], "options": {**rows[0]["options"], "epochs": 99}, "seed": 7}])
    scores, _ = by_recipe(read_runs(records))
    assert len(scores["rob-1"]) == 2


def test_scores_that_no_report_prints_are_no_part_of_a_mean():
    record = {"recipe": "gen-given-sst", "trained": ["sst"], "scores": SCORES}
    assert counted_scores(record) == {"sst": 0.4}
    record = {"recipe": "gen-fusion", "trained": ["sst"], "scores": SCORES}
    assert counted_scores(record)["overall_2023"] == pytest.approx((0.4 + 0.7 + 0.5) / 3)
