"""multitask/run_report.py and model_card.py: the page and the card of a made-up run.

tests/system/test_end_to_end.py looks at those of a real run.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

from command_line.options import Options
from data.examples import Example
from data.options import SAMPLE_FOLDER
from minbert.reporting.pages import render_html
from minbert.training.step_log import StepLog, StepRecord
from multitask.model_card import card_metadata, origin_of, write_model_card
from multitask.run_report import ReportedRun, report_sections, write_report
from multitask.tasks import TASKS
from tests.report_reader import Page
from tests.toy_surgery import make_surgery

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[2Jgone",
    "\u202etfel ot thgir",
    "שלום <bdi>",
    "</td></table>",
    '" onload="x',
]
OUTPUTS = {
    "sst": np.tile(np.float32([0, 0, 0, 0, 3]), (len(HOSTILE), 1)),
    "para": np.full(len(HOSTILE), 2, np.float32),
    "sts": np.arange(len(HOSTILE), dtype=np.float32),
}
SCORES = {"sst": 0.25, "para": 0.5, "sts": 0.75, "overall_2023": 0.5, "overall_2024": 0.625}


def make_record(**options) -> dict:
    """The content of run.json, as far as the report reads it."""
    epochs = []
    for number in (1, 2):
        epochs.append({"epoch": number, "step": 4 * number, "loss": 1 / number, **SCORES})
    quality = {"before": {"spearman": 0.5}, "after": {"spearman": 0.6}, "is_kept": True}
    estimate = {"name": "multitask", "num_steps": 8, "seconds": 60.0, "peak_memory": 1e9}
    given = {"model": "minbert-mini", "pretrain": "simcse", "score": "overall_2023", **options}
    return {
        "options": Options.of(**given).flat(),
        "code": {"git": "abc", "sha256": "0" * 64},
        "versions": {"python": "3.11"},
        "machine": {"device": "cpu"},
        "files": {str(SAMPLE_FOLDER / "sts-dev.csv"): "f" * 64},
        "scores": SCORES,
        "baselines": {"majority": dict.fromkeys(SCORES, 0.125)},
        "epochs": epochs,
        "best_step": 8,
        "conflicts": [],
        "stages": {"simcse": {**quality, "found": {}, "settings": {}}},
        "predicted": [{**estimate, "disk": 1}],
        "actual": {"seconds": 120.0, "peak_memory": 2e9},
    }


def dev_rows(task: str) -> list[Example]:
    second = "b" if TASKS[task].is_pair else None
    return [Example(f"id{number}", text, second, 0.0) for number, text in enumerate(HOSTILE)]


@pytest.fixture
def run(tmp_path) -> ReportedRun:
    """A run of three tasks after SimCSE, whose dev rows are hostile texts."""
    log = StepLog(tmp_path)
    for stage in ("simcse", "multitask"):
        for number in range(1, 9):
            losses = {"simcse": 1.0} if stage == "simcse" else {"sst": 1.0, "sts": 2.0}
            log.write(StepRecord(stage, 1, number, 1.5, losses, 1e-4, 1.0, number, 8))
    return ReportedRun(
        folder=tmp_path,
        record=make_record(),
        tasks=TASKS,
        command="python run_multitask.py",
        dev_rows={name: dev_rows(name) for name in TASKS},
        dev_outputs=OUTPUTS,
        surgery=None,
    )


def titles(run: ReportedRun, level: int | None = None) -> list[str]:
    sections = report_sections(run)
    return [section.title for section in sections if level in (None, section.level)]


def table_of(run: ReportedRun, title: str) -> list[tuple[str, ...]]:
    (section,) = [section for section in report_sections(run) if section.title == title]
    return list(section.table.rows)


def with_options(run: ReportedRun, **options) -> ReportedRun:
    return replace(run, record={**run.record, "options": make_record(**options)["options"]})


# --- the page -------------------------------------------------------------------------------------


def test_the_chapters(run):
    assert titles(run) == [
        "Scores",
        "Scores by epoch",
        "Training",
        "simcse: loss and learning rate",
        "simcse: scores before and after",
        "multitask: loss and learning rate",
        "Worst mistakes on dev",
        "SST",
        "PARA",
        "STS",
        "Cost",
        "How to reproduce it",
        "Versions and machine",
        "Files that were read",
    ]
    assert table_of(run, "Scores")[2:4] == [
        ("STS Pearson", "0.7500", "0.1250"),
        ("overall 2023", "0.5000", "0.1250"),
    ]


def test_a_page_of_hostile_rows_is_whole(run):
    html = write_report(run).read_text(encoding="utf-8")
    page = Page(html)
    assert not page.faults
    assert len(page.images) == 5
    assert all(image["role"] == "img" and image["aria-label"] for image in page.images)

    # Each text of the data has its own <bdi>, and no sign in it is a command to a terminal.
    cells = [cell for table in page.tables for row in table for cell in row]
    for text in HOSTILE[:1] + HOSTILE[2:]:
        assert text in cells
    assert "\x1b" not in html and "\\x1b[2Jgone" in cells
    assert "<bdi>\u202etfel ot thgir</bdi>" in html and "<script>" not in html


def test_the_worst_mistakes_come_first(run):
    rows = table_of(run, "STS")
    assert [row[2:5] for row in rows][:2] == [("0.00", "5.00", "+5.00"), ("0.00", "4.00", "+4.00")]
    assert len(rows) == 5


def test_conflicts_are_shown_where_they_were_measured(run):
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    for cosine in (1.0, -1.0, -1.0, -1.0):
        gramian = torch.tensor([[1.0, cosine], [cosine, 1.0]], dtype=torch.float64)
        surgery(gramian, ["sst", "sts"])
    record = {**run.record, "conflicts": surgery.conflicts()}
    with_surgery = replace(run, record=record, surgery=surgery)
    assert "Gradient conflicts" in titles(with_surgery, level=2)
    assert table_of(with_surgery, "Gradient conflicts") == [
        ("SST and STS", "4", "75.0%", "-0.5000")
    ]
    images = Page(render_html("x", report_sections(with_surgery))).images
    assert len(images) == 7
    descriptions = [image["aria-label"] for image in images]
    assert any("SST and STS from 1 to -1." in text for text in descriptions)


def test_without_a_log_the_page_says_so(run):
    (run.folder / "log.csv").unlink()
    assert "simcse: scores before and after" in titles(run)
    assert "multitask: loss and learning rate" not in titles(run)
    (training,) = [part for part in report_sections(run) if part.title == "Training"]
    assert training.prose == "There are no curves, because this run has no log.csv."


def test_a_stage_that_was_reused_comes_first_and_says_so(run):
    stages = {"mlm": run.record["stages"]["simcse"], **run.record["stages"]}
    reused = replace(run, record={**run.record, "stages": stages})
    assert titles(reused)[3:5] == [
        "mlm: scores before and after",
        "simcse: loss and learning rate",
    ]
    sections = [part.prose for part in report_sections(reused) if "before and" in part.title]
    assert ["encoder of an earlier run" in prose for prose in sections] == [True, False]


def test_a_task_that_was_not_trained_has_no_score(run):
    some = with_options(run, tasks="sst,para", untrained_tasks="sts", score="sst")
    assert table_of(some, "Scores") == [
        ("SST accuracy", "0.2500", "0.1250"),
        ("PARA accuracy", "0.5000", "0.1250"),
        ("STS Pearson", "–", "0.1250"),
        ("overall 2023", "–", "0.1250"),
        ("overall 2024", "–", "0.1250"),
    ]
    assert "STS" not in titles(some)
    assert "It cannot answer sts" in write_model_card(some).read_text()


def test_a_run_of_one_task(run):
    single = replace(
        run,
        record={
            **make_record(),
            "options": Options.of(tasks="sts", score="sts").flat(),
            "scores": {"sts": 0.75},
            "test_scores": {"sts": 0.5},
            "test_baselines": {"TF-IDF": {"sts": 0.25}},
            "baselines": {"majority": {"sts": 0.0}},
            "epochs": [{"epoch": 1, "step": 8, "loss": 1.0, "sts": 0.75}],
            "stages": {},
        },
        tasks={"sts": TASKS["sts"]},
    )
    assert table_of(single, "Scores") == [("STS Pearson", "0.7500", "0.5000", "0.0000", "0.2500")]
    assert not Page(render_html("x", report_sections(single))).faults
    data = ModelCard(write_model_card(single).read_text()).data
    assert data.metrics == ["pearsonr"] and data.tags == ["minbert", "bert"]
    splits = {result.dataset_split: result.metric_value for result in data.eval_results}
    assert splits == {"validation": 0.75, "test": 0.5}
    assert data.pipeline_tag == "sentence-similarity"

    # A model that is worse than a baseline says so in the first line of its card, and only then.
    assert "## Model\n\nA BERT encoder" in write_model_card(single).read_text()
    worse = replace(single, record={**single.record, "baselines": {"TF-IDF": {"sts": 0.8}}})
    card = write_model_card(worse).read_text()
    assert "## Model\n\nOn the dev rows: In STS, TF-IDF scores higher than this model" in card
    assert card.count("TF-IDF scores higher") == 1


def test_parts_that_were_left_out_are_named_and_have_no_column(run):
    skipped = with_options(run, skip="estimate,baselines,test")
    skipped = replace(skipped, record={**skipped.record, "baselines": {}, "predicted": []})
    assert table_of(skipped, "Scores")[0] == ("SST accuracy", "0.2500")
    page = render_html("x", report_sections(skipped))
    assert not Page(page).faults and "The estimate was left out by --skip" in page
    for text in (page, write_model_card(skipped).read_text()):
        assert "The baselines were left out by --skip" in text
        assert "The predictions of test files were left out by --skip" in text
        assert "TF-IDF" not in text and "higher than each baseline" not in text
        assert "The baselines read" not in text
    assert "--skip" not in render_html("x", report_sections(run)), "a whole run"


# --- the card -------------------------------------------------------------------------------------


def test_the_hub_reads_the_card(run):
    card = ModelCard(write_model_card(run).read_text(encoding="utf-8"))
    data = card.data
    assert (data.base_model, data.license, data.language) == ("minbert-mini", "mit", ["en"])
    assert data.tags == ["minbert", "bert", "simcse", "multi-task-learning"]
    assert data.datasets == ["minbert-sample"]
    scores = {result.dataset_name: result.metric_value for result in data.eval_results}
    assert scores == {"SST": 0.25, "PARA": 0.5, "STS": 0.75}
    assert f"python -m multitask.predict {run.folder.name} --task sst" in card.text
    assert str(SAMPLE_FOLDER) not in card.text, "a folder of this computer"


def test_nothing_is_said_of_other_rows(run, tmp_path):
    record = {**run.record, "files": {"/home/me/sts-dev.csv": "f" * 64}}
    metadata = card_metadata(replace(run, record=record))
    assert (metadata.license, metadata.language, metadata.datasets) == ("", (), ())
    text = write_model_card(replace(run, record=record)).read_text()
    assert "Not stated. The licence" in text and "/home/me" not in text


@pytest.mark.parametrize(
    ("model", "base_model"),
    [
        ("minbert-mini", "minbert-mini"),
        ("minilm", "sentence-transformers/all-MiniLM-L6-v2"),
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased"),
        ("/home/me/model", ""),
        ("encoder", ""),
        ("../encoder", ""),
        ("a/b/c", ""),
        ("my model", ""),
    ],
)
def test_the_base_model_is_a_name_and_no_folder(run, tmp_path, monkeypatch, model, base_model):
    monkeypatch.chdir(tmp_path)
    Path("encoder").mkdir()
    assert origin_of(with_options(run, model=model)).base_model == base_model
