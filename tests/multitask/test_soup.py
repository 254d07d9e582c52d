"""--soup: the multitask stage several times, and the mean of the models.

If the ingredients do not start from the same weights, if they are all the same, or if a resumed
run mixes others.
"""

from __future__ import annotations

import json

import pytest
import torch

import run_multitask
from command_line.options import Options
from minbert.training.job import Progress
from minbert.training.loop import fit
from multitask.evaluation import evaluate
from multitask.plan import TrainedTasks
from multitask.rows import read_tables
from multitask.saved_run import open_run
from multitask.single_tasks import SingleTasks
from multitask.soup import (
    AllTasks,
    choose_greedily,
    mean_of,
    num_evaluations,
    soup_sections,
    warning_of_soup,
)
from multitask.stage import SEED_STRIDE, seed_of
from multitask.task_models import TaskModels
from multitask.tasks import TASKS
from tests.toy_multitask import Kill, encoded, same, stage_parts, task_job, two_task_options

NUM_INGREDIENTS = 3


@pytest.fixture(scope="module")
def options(sample_data, tiny_model):
    return two_task_options(sample_data, tiny_model, epochs=2, lr=3e-3, soup=NUM_INGREDIENTS)


@pytest.fixture(scope="module")
def rows(options):
    return encoded(options, read_tables(options.data))


def state_of(job):
    return {name: tensor.clone() for name, tensor in job.model.state_dict().items()}


class Cooked:
    """A soup, with the weights before and after each of its trainings."""

    def __init__(self, options, rows, folder, is_resumed=False, killed_in=-1):
        self.parts = stage_parts(options, rows, folder)
        self.plan = AllTasks(self.parts)
        self.jobs = self.plan.jobs
        if killed_in >= 0:
            self.jobs[killed_in].on_step = self.kill
        self.starts = []
        self.ends = []
        self.is_resumed = is_resumed
        self.trained = self.plan.train(self.train, TrainedTasks(TaskModels(self.parts.model, {})))
        self.ingredients = self.plan.ingredients

    def train(self, job) -> Progress:
        self.starts.append(state_of(job))
        progress = fit(job, self.is_resumed)
        self.ends.append(state_of(job))
        return progress

    def kill(self, record) -> None:
        if record.step == 3:
            raise Kill


@pytest.fixture(scope="module")
def cooked(options, rows, tmp_path_factory):
    return Cooked(options, rows, tmp_path_factory.mktemp("soup"))


# --- training -------------------------------------------------------------------------------------


def test_all_ingredients_start_from_the_same_weights_and_end_in_others(cooked):
    assert len(cooked.ends) == NUM_INGREDIENTS
    for start in cooked.starts[1:]:
        assert same(start, cooked.starts[0])
    assert not same(cooked.ends[0], cooked.ends[1])
    assert not same(cooked.ends[1], cooked.ends[2])
    assert not same(cooked.starts[0], cooked.ends[0])


def test_the_model_is_the_mean_of_the_ingredients(cooked):
    for name, tensor in cooked.jobs[0].model.state_dict().items():
        stacked = torch.stack([end[name].double() for end in cooked.ends])
        torch.testing.assert_close(tensor.double(), stacked.mean(0), rtol=1e-6, atol=1e-7)


def test_the_first_ingredient_is_the_run_without_a_soup(options, rows, cooked, tmp_path):
    job = task_job(options, rows, tmp_path)
    progress = fit(job)
    assert same(job.model.state_dict(), cooked.ends[0])
    assert progress.history == cooked.ingredients[0].epochs


def test_each_ingredient_is_the_best_model_of_its_own_training(rows, cooked):
    for ingredient, end in zip(cooked.ingredients, cooked.ends, strict=True):
        best = max(ingredient.epochs, key=lambda entry: entry["mean"])
        assert (ingredient.best_step, ingredient.scores["mean"]) == (best["step"], best["mean"])
        model = cooked.jobs[0].model
        kept = state_of(cooked.jobs[0])
        model.load_state_dict(end)
        dev = {task: rows[task]["dev"] for task in ("sst", "sts")}
        assert evaluate(model, dev, "fp32") == ingredient.scores
        model.load_state_dict(kept)


def test_the_scores_are_those_of_the_mean(rows, cooked):
    dev = {task: rows[task]["dev"] for task in ("sst", "sts")}
    assert evaluate(cooked.jobs[0].model, dev, "fp32") == cooked.trained.scores


def test_an_ingredient_has_its_own_seed_order_and_surgery(cooked):
    seeds = [job.seed for job in cooked.jobs]
    assert [ingredient.seed for ingredient in cooked.ingredients] == seeds
    assert len(set(seeds)) == NUM_INGREDIENTS
    orders = {str(list(job.all_steps())) for job in cooked.jobs}
    assert len(orders) == NUM_INGREDIENTS
    assert len({id(job.surgery) for job in cooked.jobs}) == NUM_INGREDIENTS
    assert len({id(job.optimizer) for job in cooked.jobs}) == NUM_INGREDIENTS
    assert len({job.folder for job in cooked.jobs}) == NUM_INGREDIENTS


def test_seeds_of_users_are_closer_together_than_those_of_ingredients():
    assert seed_of(7, 0) == 7
    several = {seed_of(seed, number) for seed in range(100) for number in range(100)}
    assert len(several) == 100 * 100
    assert seed_of(2**32 - 1, 1) == SEED_STRIDE - 1, "it stays a seed that --seed could have"


@pytest.mark.parametrize("number", range(NUM_INGREDIENTS))
def test_a_resumed_run_ends_in_the_same_bits(options, rows, cooked, tmp_path, number):
    with pytest.raises(Kill):
        Cooked(options, rows, tmp_path, killed_in=number)
    torch.manual_seed(12345)
    again = Cooked(options, rows, tmp_path, is_resumed=True)
    assert again.ingredients == cooked.ingredients
    assert again.trained.scores == cooked.trained.scores
    assert same(again.jobs[0].model.state_dict(), cooked.jobs[0].model.state_dict())


def test_one_training_is_no_soup(options, rows, tmp_path):
    alone = Cooked(options.with_values(soup=1), rows, tmp_path)
    assert same(alone.jobs[0].model.state_dict(), alone.ends[0])
    assert alone.ingredients == []
    assert alone.plan.stored() == {}
    assert alone.trained.scores["mean"] == max(entry["mean"] for entry in alone.trained.epochs)


def test_each_task_alone_starts_from_the_soup(options, rows, tmp_path):
    options = options.with_values(single_task_epochs=1, single_task_lr=3e-3, soup=2, epochs=1)
    cooked = Cooked(options, rows, tmp_path)
    soup = state_of(cooked.jobs[0])
    starts = []

    def train(job):
        starts.append(state_of(job))
        return fit(job)

    plan = SingleTasks(cooked.parts)
    plan.train(train, cooked.trained)
    assert all(same(start, soup) for start in starts) and len(starts) == 2
    for result in plan.results:
        assert result.before == cooked.trained.scores[result.task]


def weights(*values) -> dict[str, torch.Tensor]:
    return {"weight": torch.tensor(values)}


def test_the_mean_by_hand():
    states = [weights(1.0, 3.0), weights(3.0, 4.0), weights(8.0, 5.0)]
    assert mean_of(states)["weight"].tolist() == [4.0, 4.0]
    assert states[0]["weight"].tolist() == [1.0, 3.0], "its parts are as they were"
    assert mean_of(states[:1])["weight"].tolist() == [1.0, 3.0]


def test_weights_that_are_equal_in_all_ingredients_stay_to_the_bit():
    """Those of a frozen encoder."""
    frozen = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    mean = mean_of([{"weight": frozen.clone()} for _ in range(3)])
    assert torch.equal(mean["weight"], frozen)
    assert not torch.equal(sum(frozen / 3 for _ in range(3)), frozen), "a plain sum rounds"


# --- a greedy soup --------------------------------------------------------------------------------


class ToyModel:
    """A model of one number, which is its score."""

    def load_state_dict(self, state) -> None:
        self.value = float(state["weight"])


class ToyJob:
    """Scores the number that the model holds."""

    def __init__(self, score=lambda value: value):
        self.model = ToyModel()
        self.score = score

    def evaluate(self):
        return {"score": self.score(self.model.value)}

    def selection_value(self, scores):
        return scores["score"]


def kept_of(values, score=lambda value: value):
    """Which ingredients a greedy soup keeps, in their order. values: their only weights."""
    states = [{"weight": torch.tensor(float(value))} for value in values]
    scores = [{"score": score(value)} for value in values]
    return choose_greedily(ToyJob(score), states, scores)


def test_a_greedy_soup_by_hand():
    # The score is highest at 3. 2 and 4.5 have 9 and 7.75, their mean 3.25 has more.
    def score(value):
        return 10 - (value - 3) ** 2

    assert kept_of([4.5, 2.0], score) == [1, 0]
    # With 9, the mean of 2 and 9 would be far from 3.
    assert kept_of([2.0, 9.0], score) == [0]
    # 2, then 4.5 (mean 3.25), then 9 (mean 5.2): the last one is left out.
    assert kept_of([9.0, 2.0, 4.5], score) == [1, 2]


def test_an_equal_score_is_kept_and_ties_keep_their_order():
    """The paper's recipe has "at least as high"."""
    assert kept_of([5.0, 5.0, 5.0]) == [0, 1, 2]
    # The score is the weight itself, so a lower one always makes the mean worse.
    assert kept_of([1.0, 5.0, 4.0]) == [1]


def test_a_greedy_soup_is_not_below_its_best_ingredient(options, rows, tmp_path):
    cooked = Cooked(options.with_values(soup_kind="greedy"), rows, tmp_path)
    values = [ingredient.scores["mean"] for ingredient in cooked.ingredients]
    assert cooked.trained.scores["mean"] >= max(values)
    kept = [ingredient.is_kept for ingredient in cooked.ingredients]
    assert kept[values.index(max(values))]
    parts = [end for end, is_kept in zip(cooked.ends, kept, strict=True) if is_kept]
    # The order of the sum may change the last digit.
    for name, tensor in cooked.jobs[0].model.state_dict().items():
        stacked = torch.stack([part[name].double() for part in parts])
        torch.testing.assert_close(tensor.double(), stacked.mean(0), rtol=1e-6, atol=1e-7)


def test_how_often_a_mean_is_scored(options, rows, tmp_path):
    assert [num_evaluations(number, False) for number in (1, 2, 3)] == [0, 1, 1]
    assert [num_evaluations(number, True) for number in (1, 2, 3)] == [0, 2, 3]
    # The estimate counts what a run does: each evaluation but those of the trainings.
    for kind in ("uniform", "greedy"):
        parts = stage_parts(options.with_values(soup_kind=kind), rows, tmp_path / kind)
        plan = AllTasks(parts)
        counts = []
        evaluate_job = plan.jobs[0].evaluate
        plan.jobs[0].evaluate = lambda of=evaluate_job, counts=counts: counts.append(1) or of()

        def train(job, counts=counts):
            progress = fit(job)
            counts.clear()  # those of the training
            return progress

        plan.train(train, TrainedTasks(TaskModels(parts.model, {})))
        assert len(counts) == num_evaluations(NUM_INGREDIENTS, kind == "greedy")


def test_the_estimate_counts_the_predictions_of_the_end_once(options, rows, tmp_path):
    plain = task_job(options.with_values(soup=1), rows, tmp_path).closing_tokens
    plan = AllTasks(stage_parts(options, rows, tmp_path))
    first, *others = [job.closing_tokens for job in plan.jobs]
    assert others == [0, 0]
    dev = sum(int(rows[task]["dev"].sizes.sum()) for task in ("sst", "sts"))
    assert first == plain + dev, "the soup is scored once"


def test_a_soup_below_an_ingredient_is_told():
    entry = {"scores": {"sst": 0.5}, "ingredients": []}
    entry["ingredients"] = [{"scores": {"sst": score}} for score in (0.4, 0.6, 0.6)]
    sentence = warning_of_soup(entry, "sst", "SST accuracy")
    assert sentence.startswith("The soup has a lower SST accuracy than ingredient 2. --soup_kind")
    entry["ingredients"] = [{"scores": {"sst": 0.5}}]
    assert warning_of_soup(entry, "sst", "SST accuracy") is None


def test_a_greedy_soup_of_one_is_refused():
    with pytest.raises(ValueError, match="--soup_kind greedy has no effect without --soup"):
        Options.of(soup_kind="greedy")


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{"averaging": "ema"}, {"regulariser": "smart"}])
def test_finished_ingredients_free_their_memory(options, rows, tmp_path, values):
    cooked = Cooked(options.with_values(soup=2, **values), rows, tmp_path)
    for job in cooked.jobs:
        assert len(job.optimizer.state) == 0
        follower = job.average if "averaging" in values else job.reference
        held = follower.state_dict()
        assert set(held) <= {"count"}, "no weights"


def test_the_mean_is_that_of_averaged_weights(options, rows, tmp_path):
    """With --averaging, the best model of an ingredient is an average of its own."""
    cooked = Cooked(options.with_values(soup=2, averaging="ema"), rows, tmp_path)
    for name, tensor in cooked.jobs[0].model.state_dict().items():
        expected = (cooked.ends[0][name].double() + cooked.ends[1][name].double()) / 2
        torch.testing.assert_close(tensor.double(), expected, rtol=1e-6, atol=1e-7)
    for ingredient, end in zip(cooked.ingredients, cooked.ends, strict=True):
        cooked.jobs[0].model.load_state_dict(end)
        dev = {task: rows[task]["dev"] for task in ("sst", "sts")}
        assert evaluate(cooked.jobs[0].model, dev, "fp32") == ingredient.scores


# --- a whole run ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(options, tmp_path_factory):
    """A finished run of the command."""
    folder = tmp_path_factory.mktemp("runs")
    flags = ["--output_dir", str(folder), "--name", "mine", "--soup", "2"]
    for name in ("data_dir", "model", "tasks", "train_rows", "dev_rows", "batch_size", "lr"):
        flags += [f"--{name}", str(options.flat()[name])]
    flags += ["--sampling", "joint", "--epochs", "2", "--precision", "fp32"]
    assert run_multitask.main(flags) == 0
    return folder / "mine"


@pytest.fixture(scope="module")
def record(run):
    return json.loads((run / "run.json").read_text("utf-8"))


def test_the_record_holds_the_ingredients_and_the_scores_of_the_soup(run, record):
    entry = record["soup"]
    assert len(entry["ingredients"]) == 2
    assert [cost["name"] for cost in record["predicted"]] == ["multitask", "multitask-2"]
    opened = open_run(run)
    dev = {task: opened.rows[task]["dev"] for task in ("sst", "sts")}
    scores = evaluate(opened.model, dev, "fp32")
    for task in ("sst", "sts"):
        assert entry["scores"][task] == pytest.approx(scores[task], abs=1e-6)
        assert record["scores"][task] == pytest.approx(scores[task], abs=1e-6)
    assert record["epochs"] == entry["ingredients"][0]["epochs"]
    stages = {line.split(",")[0] for line in (run / "log.csv").read_text("utf-8").splitlines()[1:]}
    assert {"multitask", "multitask-2"} <= stages


def test_the_report_and_the_card_say_it(run, record):
    from multitask.model_card import card_sections
    from multitask.run_report import ReportedRun

    tasks = {task: TASKS[task] for task in ("sst", "sts")}
    reported = ReportedRun(run, record, tasks, "", {"sst": [], "sts": []}, {}, None)
    (section,) = soup_sections(record, tasks)
    assert [row[0] for row in section.body.rows] == ["ingredient 1", "ingredient 2", "the soup"]
    assert "trained 2 times" in section.prose
    assert "the mean of 2 models" in card_sections(reported)[0].prose
    without = {name: value for name, value in record.items() if name != "soup"}
    assert soup_sections(without, tasks) == []
