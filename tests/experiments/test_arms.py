"""--arm of `python -m experiments`: rows of one's own in one table, and the files for a paper."""

from __future__ import annotations

import csv
import json
import statistics

import pytest

from experiments import __main__ as experiments_command
from experiments.__main__ import main
from experiments.series import Arm, Series
from experiments.tables import build_latex
from minbert.reporting.figures import Line, LinePlot

TASK = "name=tickets,train=tickets.csv,text=message,label=team"
SPEC = {
    "name": "tickets",
    "title": "tickets",
    "format": {
        "name": "tickets",
        "text_columns": ["message"],
        "label_column": "team",
        "low": 0,
        "high": 1,
        "is_integer": True,
        "classes": ["a", "b"],
        "is_course": False,
    },
    "kind": "binary",
    "label_names": ["a", "b"],
}
# Of plain and of simcse: better by .10, .11 and .12.
SCORES = {"plain": [0.7, 0.72, 0.71], "simcse": [0.8, 0.83, 0.83]}


def write_run(folder, seed: int, score: float, **options) -> None:
    """Write the files of a finished run on a task of one's own."""
    folder.mkdir(parents=True)
    values = {"tasks": "tickets", "task": [TASK], "head": "features", "recipe": "none"}
    values |= {"seed": seed, "pretrain": "none", "epochs": 2, **options}
    (folder / "options.json").write_text(json.dumps({"options": values}))
    epochs = [{"epoch": number, "step": number, "tickets": score} for number in (1, 2)]
    record = {"options": values, "scores": {"tickets": score}, "stages": {}, "tasks": [SPEC]}
    record["baselines"] = {"majority": {"tickets": 0.5}, "vectors": {"tickets": 0.9}}
    said = [
        "warning: of a start before",
        f"minBERT 1.0, run {folder.name}",
        f"warning: In tickets, vectors scores higher than this model: accuracy 0.9 and {score}.",
    ]
    folder.with_name(f"{folder.name}.log").write_text("\n".join(said))
    (folder / "run.json").write_text(json.dumps({**record, "epochs": epochs}))


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """The folder of six finished runs, and the flags of their command. Nothing may be trained."""

    def refuse(command, log):
        pytest.fail("it was run")

    monkeypatch.setattr(experiments_command, "run_process", refuse)
    for name, stage in (("plain", "none"), ("simcse", "simcse")):
        for seed, score in enumerate(SCORES[name]):
            write_run(tmp_path / f"{name}-seed{seed}", seed, score, pretrain=stage)
    flags = ["--arm", "plain=", "--arm", "simcse=--pretrain simcse", "--out", str(tmp_path)]
    return tmp_path, [*flags, f"--with=--task {TASK} --tasks tickets --epochs 2"]


def test_two_sets_of_flags_stand_in_one_table(finished, capsys):
    """An own task, with and without a stage before it."""
    folder, flags = finished
    assert main([*flags, "--against", "plain"]) == 0
    printed = capsys.readouterr().out
    assert "| arm | n | tickets (accuracy) |" in printed
    assert "| baseline: majority | - | 0.500 |" in printed
    assert "| simcse | 3 | 0.820 ± 0.017 |" in printed
    assert "0.110 [" in printed and "(better): +0.100, +0.110, +0.120" in printed
    assert printed.count("warning: ") == 1, "each warning once"
    assert (
        "- plain (seeds 0, 1, 2), simcse (seeds 0, 1, 2); the numbers are those of the first run: "
        "warning: In tickets, vectors scores higher than this model: accuracy 0.9 and 0.7."
    ) in printed
    assert "\nFlags of simcse: `--pretrain simcse`.\n" in printed
    assert printed.splitlines()[-1].startswith("| simcse | 3 | 0.110"), "the tables stand last"

    # The differences are the first result of the page.
    page = (folder / "ablation.html").read_text(encoding="utf-8")
    assert "arm less plain" in page and "(better): +0.100, +0.110, +0.120" in page
    assert page.index("arm less plain") < page.rindex("Scores by arm")


def test_the_files_for_a_paper_hold_the_same_scores(finished, capsys):
    folder, flags = finished
    assert main(flags) == 0
    with open(folder / "ablation.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, scores in SCORES.items():
        assert [float(row["value"]) for row in rows if row["recipe"] == name] == scores
    assert {row["metric"] for row in rows} == {"accuracy"}
    latex = (folder / "ablation.tex").read_text(encoding="utf-8")
    assert rf"simcse & 3 & 0.820 $\pm$ {statistics.stdev(SCORES['simcse']):.3f} \\" in latex
    assert (folder / "ablation.pdf").read_bytes().startswith(b"%PDF")
    # The same command again writes the same bytes.
    before = (folder / "ablation.pdf").read_bytes()
    assert latex.count("tabular") == 2, "no --against, no differences"
    assert main(flags) == 0 and (folder / "ablation.pdf").read_bytes() == before
    assert r"a\_b \& c & 1 & 0.500 \\" in build_latex({"a_b & c": [{"mine": 0.5}]})


def test_the_differences_are_a_table_for_a_paper():
    """.10, .11, .12: the interval reaches 4.303 * .01 / sqrt(3) to each side."""
    scores = {
        "plain": [{"a": 0.7, "b": 0.5, "c": 0.1}] * 3,
        "my_arm": [{"a": 0.8, "b": 0.5, "c": c} for c in (0.0, 0.1, 0.2)],
    }
    for run, value in zip(scores["my_arm"], (0.8, 0.81, 0.82), strict=True):
        run["a"] = value
    _, table = build_latex(scores, "plain").split(r"\bottomrule", 1)
    assert r"recipe less plain & score & n & mean & 95 \% interval & says \\" in table
    assert [line for line in table.splitlines() if line.startswith("my")] == [
        r"my\_arm & a & 3 & 0.110 & [0.085, 0.135] & better \\",
        r"my\_arm & b & 3 & 0.000 & - & equal in each seed \\",
        r"my\_arm & c & 3 & 0.000 & [$-$0.248, 0.248] & cannot tell \\",
    ]
    one_seed = {name: runs[:1] for name, runs in scores.items()}
    assert r"& a & 1 & 0.100 & - & cannot tell \\" in build_latex(one_seed, "plain")


def test_the_command_of_an_arm(tmp_path):
    arms = (Arm("wide", ("--batch_size", "64")),)
    series = Series(("defaults", "wide"), (3,), tmp_path, ("--epochs", "2"), arms)
    words = series.command("wide", 3)
    assert words is not None
    assert words[2:6] == ["--recipe", "none", "--seed", "3"]
    assert words[-4:] == ["--epochs", "2", "--batch_size", "64"]
    assert series.command("defaults", 3)[2:4] == ["--recipe", "defaults"]
    assert series.expected_options("wide") == {"epochs": "2", "batch_size": "64"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--arm", "a b=--lr 1"], "it is a name of letters"),
        (["--arm", "defaults=--lr 1"], "a recipe has this name"),
        (["--arm", "a=--seed 3"], "--seed is set by this command itself; drop it from a"),
        (["--arm", "a=--lr 1", "--with=--lr 2"], "--lr stands in --with and in --arm a"),
        (["--arm", "a=", "--arm", "a=--lr 1"], "a is given twice"),
        (["--arm", "a=", "--record", "mine"], "Drop --arm"),
        ([], "no recipe is named, and no --arm"),
    ],
)
def test_what_is_refused(flags, message, tmp_path, capsys):
    assert main([*flags, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_other_differences_than_those_of_the_arms_are_refused(finished, capsys):
    folder, flags = finished
    for seed in range(3):
        path = folder / f"simcse-seed{seed}" / "run.json"
        record = json.loads(path.read_text())
        record["options"]["batch_size"] = 64
        path.write_text(json.dumps(record))
    assert main([*flags, "--against", "plain"]) == 2
    assert "simcse cannot be compared with plain" in capsys.readouterr().err


def test_the_epochs_of_arms_follow_from_their_batches(tmp_path, capsys):
    """An own table without --epochs: larger batches get more epochs for as many steps."""
    for name, options in {
        "small": {"batch_size": 8, "epochs": 4},
        "large": {"batch_size": 16, "epochs": 8},
    }.items():
        write_run(tmp_path / f"{name}-seed0", 0, 0.7, least_steps=200, **options)
    arms = ["--arm", "small=--batch-size 8", "--arm", "large=--batch-size 16", "--seeds", "0"]
    flags = [*arms, "--against", "small", "--out", str(tmp_path), f"--with=--task {TASK}"]
    assert main(flags) == 0
    assert "| large | 1 | 0.700" in capsys.readouterr().out


def test_an_axis_does_not_enlarge_nothing():
    from matplotlib.figure import Figure

    heights = []
    for least in (0.0, 0.1):
        axes = Figure().add_subplot()
        line = Line([1, 2], [0.3496, 0.3500], "a", [])
        LinePlot((line,), "epoch", "score", least_height=least).draw(axes)
        assert [tick for tick in axes.get_xticks() if tick % 1] == [], "no epoch 1.2"
        low, high = axes.get_ylim()
        heights.append(high - low)
    assert heights[0] < 0.001 and heights[1] == pytest.approx(0.1)
