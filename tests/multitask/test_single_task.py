"""--single_task_epochs: each task alone after the multitask stage, trained, saved and opened again.

If a task's files are those of another model: the copy is made before its best epoch is put back.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import run_multitask
from command_line.automatic import Choice, resolve
from command_line.options import Options
from minbert import BertTokenizer
from minbert.training.loop import fit
from multitask.evaluation import evaluate
from multitask.export import work as export_command
from multitask.export.__main__ import main as export
from multitask.model import MultitaskBert
from multitask.plan import TrainedTasks
from multitask.plan_registry import TaskStage
from multitask.prediction_files import read_predictions
from multitask.rows import read_tables
from multitask.saved_run import open_run
from multitask.single_tasks import SingleTaskResult, SingleTasks
from multitask.task_models import TaskModels, tasks_alone
from multitask.tasks import TASKS
from tests.toy_multitask import Kill, encoded, same, stage_parts, two_task_options

TWO = ("sst", "sts")


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return two_task_options(
        sample_data,
        tiny_model,
        epochs=1,
        lr=1e-6,  # the tasks alone have much to add
        single_task_epochs=2,
        single_task_lr=3e-3,
    )


@pytest.fixture(scope="module")
def rows(options):
    return encoded(options, read_tables(options.data))


class Trained:
    """The plans of all tasks and of each task alone, as a run trains them."""

    def __init__(self, options, rows, folder, is_resumed=False, killed_in=""):
        stage = TaskStage.of(stage_parts(options, rows, folder))
        together, single = stage.plans
        self.job = stage.parts.job
        self.jobs = dict(zip(TWO, single.jobs, strict=True))
        if killed_in:
            self.jobs[killed_in].on_step = self.kill
        before = TrainedTasks(TaskModels(stage.parts.model, {}))

        def train(job):
            return fit(job, is_resumed)

        trained = together.train(train, before)
        self.shared = {name: value.clone() for name, value in self.job.model.state_dict().items()}
        self.models = single.train(train, trained).models
        self.results = single.results

    def kill(self, record) -> None:
        if record.step == 3:
            raise Kill


@pytest.fixture(scope="module")
def trained(options, rows, tmp_path_factory):
    return Trained(options, rows, tmp_path_factory.mktemp("single"))


# --- training -------------------------------------------------------------------------------------


def test_each_task_is_trained_alone(options, rows, trained):
    for task, job in trained.jobs.items():
        steps = list(job.all_steps())
        assert len(steps) == 4, "two epochs of two batches"
        assert {part.task for update in steps for part in update} == {task}
        seen = sorted(row for update in steps[:2] for part in update for row in part.rows)
        assert seen == list(range(16)), "each row once in an epoch"
        assert (job.score, job.surgery, job.name) == (task, None, f"single-{task}")
    assert trained.job.surgery is not None, "the multitask stage keeps its surgery"


def test_before_and_after_are_the_scores_of_the_two_models(rows, trained):
    """before: the best multitask model. after: the best of the task's own epochs."""
    shared = trained.models.shared
    assert same(shared.state_dict(), trained.shared), "the multitask model has its own weights"
    for result in trained.results:
        dev = {result.task: rows[result.task]["dev"]}
        assert result.before == evaluate(shared, dev, "fp32")[result.task]
        scores = [entry[result.task] for entry in result.epochs]
        assert len(scores) == 2 and result.after == max(scores)
        assert result.is_kept == (result.after > result.before)
        kept = trained.models.of(result.task)
        assert (kept is not shared) == result.is_kept
        expected = result.after if result.is_kept else result.before
        assert evaluate(trained.models, dev, "fp32")[result.task] == expected
    assert any(result.is_kept for result in trained.results), "otherwise this test shows little"


@pytest.mark.parametrize(("after", "is_kept"), [(0.5, True), (0.4, False), (0.3, False)])
def test_a_model_is_kept_where_it_is_better(after, is_kept):
    result = SingleTaskResult("sst", 0.4, after, [], 1)
    assert result.is_kept == is_kept
    assert tasks_alone({"single_task": {"sst": result.stored}}) == (["sst"] if is_kept else [])


@pytest.mark.parametrize("task", TWO)
def test_a_resumed_run_ends_in_the_same_bits(options, rows, trained, tmp_path, task):
    with pytest.raises(Kill):
        Trained(options, rows, tmp_path, killed_in=task)
    torch.manual_seed(12345)
    again = Trained(options, rows, tmp_path, is_resumed=True)
    assert again.results == trained.results
    assert same(again.models.state_dict(), trained.models.state_dict())
    assert len(again.models.state_dict()) == len(trained.models.state_dict())


# --- options --------------------------------------------------------------------------------------


def test_the_learning_rate_is_that_of_the_tasks_unless_it_is_given():
    for values, expected in (({"lr": 1e-4}, 1e-4), ({"single_task_lr": 2e-6}, 2e-6)):
        options = Options.of(single_task_epochs=1, **values)
        options, _ = resolve(options, 384, Choice("cpu", ""), Choice("fp32", ""))
        assert options.multitask.fine_tuning.single_task_lr == expected
    # Without such epochs nothing is chosen.
    options, _ = resolve(Options.of(), 384, Choice("cpu", ""), Choice("fp32", ""))
    assert options.multitask.fine_tuning.single_task_lr == "auto"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"single_task_lr": 1e-4}, "--single_task_lr has no effect without --single_task_epochs"),
        ({"single_task_epochs": 1, "tasks": "sst"}, "the only task is trained alone already"),
        (
            {"single_task_epochs": 1, "pretrain": "simcse", "contrastive_order": "last"},
            "would change the multitask model after the tasks have left it",
        ),
    ],
)
def test_options_without_an_effect_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        Options.of(**values)


# --- a whole run ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(options, tmp_path_factory):
    """A finished run of the command in which a task keeps its own model."""
    folder = tmp_path_factory.mktemp("runs")
    flags = ["--output_dir", str(folder), "--name", "mine", "--single_task_lr", "0.003"]
    for name in ("data_dir", "model", "tasks", "train_rows", "dev_rows", "batch_size", "lr"):
        flags += [f"--{name}", str(options.flat()[name])]
    flags += ["--sampling", "joint", "--epochs", "1", "--precision", "fp32"]
    assert run_multitask.main([*flags, "--single_task_epochs", "2"]) == 0
    return folder / "mine"


def test_the_files_are_those_of_each_task_s_own_model(run):
    record = json.loads((run / "run.json").read_text("utf-8"))
    results = record["single_task"]
    kept = [task for task in TWO if results[task]["is_kept"]]
    assert kept, "otherwise this test shows nothing"
    assert [cost["name"] for cost in record["predicted"]] == [
        "multitask",
        "single-sst",
        "single-sts",
    ]
    assert sorted(path.name for path in run.glob("model*")) == [
        "model",
        *(f"model-{t}" for t in kept),
    ]
    for task in TWO:
        best = results[task]["after"] if task in kept else results[task]["before"]
        assert record["scores"][task] == pytest.approx(best, abs=1e-5)

    opened = open_run(run)
    assert isinstance(opened.model, TaskModels)
    shared = MultitaskBert.from_pretrained(run / "model")
    for task in TWO:
        for split in ("dev", "test"):
            outputs = TASKS[task].decode(opened.outputs(task, split))
            written = read_predictions(
                run / "predictions" / f"{task}-{split}-output.csv", TASKS[task]
            )
            assert list(written.values()) == pytest.approx(outputs, abs=1e-5)
        is_shared = same(opened.model.of(task).state_dict(), shared.state_dict())
        assert is_shared == (task not in kept)


def test_the_report_and_the_card_say_it(run):
    """They are drawn by write_report alone, so their parts are called here."""
    from multitask.model_card import card_sections
    from multitask.run_report import ReportedRun

    record = json.loads((run / "run.json").read_text("utf-8"))
    tasks = {task: TASKS[task] for task in TWO}
    reported = ReportedRun(run, record, tasks, "", {"sst": [], "sts": []}, {}, None)
    (section,) = SingleTasks.sections(record, tasks)
    assert [row[0] for row in section.body.rows] == ["SST", "STS"]
    first = card_sections(reported)[0]
    assert f"encoder of their own: {', '.join(tasks_alone(record))}." in first.prose
    assert not SingleTasks.sections({**record, "single_task": {}}, tasks)


def test_export_takes_the_model_of_the_task(run, tmp_path, monkeypatch):
    task = open_run(run).alone[0]
    written = []

    def note(model, task, *_):
        written.append((model, task.name))
        return []

    monkeypatch.setattr(export_command, "write_model", note)
    assert export([str(run), "--task", task, "--out", str(tmp_path / "out")]) == 0
    ((model, name),) = written
    own = MultitaskBert.from_pretrained(run / f"model-{task}")
    assert name == task and same(model.state_dict(), own.state_dict())


def test_a_missing_model_of_a_task_is_named(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "run")
    task = open_run(copied).alone[0]
    shutil.rmtree(copied / f"model-{task}")
    with pytest.raises(ValueError, match=f"model-{task}"):
        open_run(copied)


def test_the_models_of_tasks_are_saved_and_opened(trained, tmp_path, tiny_model, rows):
    """By hand, with a task of which it is known that it has its own."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    own = trained.models.of(trained.results[-1].task)
    models = TaskModels(trained.models.shared, {"sts": own})
    models.save_pretrained(tmp_path, tokenizer)
    opened = TaskModels.from_pretrained(tmp_path, ["sts"])
    batch = rows["sts"]["dev"].batch([0, 1])
    with torch.no_grad():
        np.testing.assert_array_equal(opened("sts", batch), own.eval()("sts", batch))
    assert opened.of("sst") is opened.shared and not opened.training
