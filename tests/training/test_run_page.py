"""minbert/training/run_page.py: the sections of every run's report, by hand."""

import pytest

from minbert.reporting.pages import render_html
from minbert.training import run_page
from minbert.training.step_log import COLUMNS, StepLog, StepRecord
from tests.report_reader import Page

TITLES = {"sst": "SST", "sts": "STS"}


def step(number: int, stage: str = "multitask", **losses: float) -> StepRecord:
    """A step whose learning rate is its number / 1000."""
    mean = sum(losses.values()) / len(losses)
    return StepRecord(stage, 1, number, mean, losses, number / 1000, 2.0, 6.0 * number, 64)


def alternating(count: int) -> list[StepRecord]:
    """Odd steps hold STS with the loss 10, even ones SST with the loss of their number."""
    steps = []
    for number in range(1, count + 1):
        losses = {"sts": 10.0} if number % 2 else {"sst": float(number)}
        steps.append(step(number, **losses))
    return steps


def texts(table) -> list[str]:
    return [" ".join(row) for row in table.rows]


# --- curves ---------------------------------------------------------------------------------------


def test_the_log_is_read_back(tmp_path):
    log = StepLog(tmp_path)
    records = [step(1, "mlm", mlm=0.1), step(1, sts=1 / 3), step(2, sst=2.0, sts=3.0)]
    for record in records:
        log.write(record)
    with open(tmp_path / "log.csv", "a") as file:
        file.write("multitask,1,3,0.")  # a kill cut this row short
    curves = run_page.read_curves(tmp_path)
    assert curves.stages == {"mlm": records[:1], "multitask": records[1:]}
    assert curves.problem == ""


def test_a_log_that_is_absent_or_damaged_is_no_error(tmp_path):
    absent = run_page.read_curves(tmp_path)
    assert absent.stages == {} and "has no log.csv" in absent.problem
    (tmp_path / "log.csv").write_text(f"{','.join(COLUMNS)}\nmultitask,1,one\n")
    damaged = run_page.read_curves(tmp_path)
    assert damaged.stages == {} and "cannot be read" in damaged.problem
    (tmp_path / "log.csv").write_bytes(b"\xff\xfe\x00")
    assert run_page.read_curves(tmp_path).stages == {}


def test_each_task_has_a_line_over_its_own_steps():
    section = run_page.curve_section("multitask", alternating(6), TITLES)
    losses, learning_rates = section.body.plots
    sst, sts = losses.lines
    assert (sst.name, sst.x, sst.y) == ("SST", [2, 4, 6], [2, 4, 6])
    assert (sts.name, sts.x, sts.y) == ("STS", [1, 3, 5], [10, 10, 10])
    assert learning_rates.lines[0].y == pytest.approx([0.001 * number for number in range(1, 7)])
    assert "SST from 2 to 6, STS from 10 to 10" in losses.description
    assert section.prose == "6 steps, trained in 36 s."


def test_a_table_has_the_means_of_parts():
    section = run_page.curve_section("multitask", alternating(20), TITLES)
    assert section.table.header == (
        "steps",
        "epoch",
        "loss",
        "SST",
        "STS",
        "learning rate",
        "gradient norm",
    )
    first, *_, last = texts(section.table)
    assert first == "1 to 2 1 6.0000 2.0000 10.0000 1.50e-03 2.00"
    assert last == "19 to 20 1 15.0000 20.0000 10.0000 1.95e-02 2.00"
    assert len(section.table.rows) == 10


def test_a_long_curve_has_sixty_points_whose_mean_is_that_of_all_steps():
    steps = [step(number, sst=float(number)) for number in range(1, 601)]
    section = run_page.curve_section("multitask", steps, TITLES)
    (line,) = section.body.plots[0].lines
    assert len(line.x) == 60 and line.x == line.y
    assert line.x[0] == 5.5 and sum(line.y) / 60 == pytest.approx(300.5)
    assert line.name == "", "a single line needs no legend"
    assert "A point is the mean of up to 10 steps." in section.prose


def test_a_part_without_a_task_has_a_dash():
    steps = [step(1, sst=1.0), *(step(number, sts=1.0) for number in range(2, 21))]
    table = run_page.curve_section("multitask", steps, TITLES).table
    assert [row[3] for row in table.rows] == ["1.0000", *["–"] * 9]


def test_a_log_that_begins_late_says_so():
    section = run_page.curve_section("multitask", alternating(20)[10:], TITLES)
    assert "The log begins at step 11" in section.prose


# --- scores ---------------------------------------------------------------------------------------

HISTORY = [
    {"epoch": 1, "step": 10, "loss": 2.0, "sst": 0.25, "mean": 0.5},
    {"epoch": 2, "step": 20, "loss": 1.0, "sst": 0.75, "mean": 0.25},
]


def test_the_best_evaluation_stands_out():
    section = run_page.evaluation_section("Scores", HISTORY, 10, "mean", TITLES)
    (plot,) = section.body.plots
    assert [line.name for line in plot.lines] == ["mean", "SST"]
    assert plot.highlighted == 0
    assert "mean from 0.500 to 0.250, SST from 0.250 to 0.750" in plot.description
    assert texts(section.table) == ["1 10 2.0000 0.5000 0.2500 yes", "2 20 1.0000 0.2500 0.7500 "]


def test_one_evaluation_is_no_curve():
    section = run_page.evaluation_section("Scores", HISTORY[:1], 10, "sst", TITLES)
    assert section.body is section.table and len(section.table.rows) == 1


def test_a_stage_by_hand():
    quality = {
        "before": {"spearman": 0.5},
        "after": {"spearman": 0.25},
        "is_kept": False,
        "found": {"scale": 20.0},
        "settings": {"epochs": 1, "source": "a paper"},
    }
    section = run_page.stage_section("simcse", quality, is_reused=True)
    assert texts(section.table) == ["before 0.5000", "after 0.2500"]
    assert section.prose == (
        "This run did not train it: it used the encoder of an earlier run. The trained encoder was "
        "worse, so the next stage began without it. scale: 20.0000. Settings: epochs 1."
    )


# --- cost and reproduction ------------------------------------------------------------------------

RECORD = {
    "predicted": [
        {"name": "mlm", "num_steps": 30, "seconds": 60.0, "peak_memory": 2e9, "disk": 1},
        {"name": "multitask", "num_steps": 1000, "seconds": 120.0, "peak_memory": 1e9, "disk": 1},
    ],
    "actual": {"seconds": 240.0, "peak_memory": 3e9},
    "code": {"git": "", "sha256": "0123456789abcdef"},
    "versions": {"python": "3.11"},
    "machine": {"system": "Linux\x1b[2J", "device": "cpu"},
    "files": {"data/<b>.csv": "f" * 64},
}


def test_the_cost_estimate_stands_beside_the_actual_cost():
    curves = run_page.Curves({"multitask": alternating(20)}, "")
    section = run_page.cost_section(RECORD, curves)
    assert texts(section.table) == [
        "mlm 30 – 1.0 min – 2.0 –",
        "multitask 1,000 20 2.0 min 2.0 min 1.0 –",
        "the whole run 1,030 – 3.0 min 4.0 min 2.0 3.0",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (90, "1.5 min"), (5400, "1.5 h")]
)
def test_a_time_has_its_fitting_unit(seconds, text):
    assert run_page.duration(seconds) == text


def test_command_versions_and_files():
    command, environment, files = run_page.reproduction_sections(RECORD, "python <a> 'b'")
    assert texts(environment.table) == [
        "code 0123456789ab",
        "python 3.11",
        "system Linux\x1b[2J",
        "device cpu",
    ]
    assert texts(files.table) == ["data/<b>.csv ffffffffffff"]
    assert texts(run_page.files_section(RECORD, has_paths=False).table) == ["<b>.csv ffffffffffff"]

    html = render_html("x", [command, environment, files])
    page = Page(html)
    assert not page.faults and page.texts["code"] == ["python <a> 'b'"]
    assert "\x1b" not in html and "Linux\\x1b[2J" in html
