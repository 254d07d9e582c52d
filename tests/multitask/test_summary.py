"""multitask/summary.py: what a run says after its closing table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from data.examples import Example
from multitask.evaluation import predict
from multitask.saved_run import open_model, open_run, read_record
from multitask.summary import (
    MAX_LETTERS,
    choose_rows,
    describe_answer,
    describe_predictions,
    describe_progress,
    describe_stages,
    next_commands,
    rising_tasks,
    shortened,
)
from multitask.tasks import TASKS


def rows(count: int) -> list[Example]:
    return [Example(str(number), f"text {number}", None, 0.0) for number in range(count)]


def ids_of(shown) -> list[tuple[str, str]]:
    return [(row.task, row.example.id) for row in shown]


def test_tasks_take_turns():
    dev = {"sst": rows(10), "para": rows(20), "sts": rows(31)}
    assert ids_of(choose_rows(dev)) == [("sst", "5"), ("para", "10"), ("sts", "15")]


def test_rows_of_one_task_are_evenly_spaced():
    assert ids_of(choose_rows({"sst": rows(60)})) == [("sst", "10"), ("sst", "30"), ("sst", "50")]
    two_tasks = choose_rows({"sst": rows(4), "nli": rows(4)})
    assert ids_of(two_tasks) == [("sst", "1"), ("sst", "3"), ("nli", "2")]


def test_a_file_with_fewer_rows_shows_each_once():
    assert ids_of(choose_rows({"sst": rows(1)})) == [("sst", "0")]


def test_an_answer_is_said_beside_its_label():
    logits = np.log(np.array([[0.05, 0.05, 0.1, 0.2, 0.6]]))
    right = Example("1", "A lovely film .", None, 4.0)
    wrong = Example("1", "A lovely film .", None, 3.0)
    assert describe_answer(TASKS["sst"], logits, right) == "positive, 60% (right)"
    expected = "positive, 60% (labelled somewhat positive)"
    assert describe_answer(TASKS["sst"], logits, wrong) == expected


def test_the_confidence_of_no_is_that_of_the_first_class():
    pair = Example("1", "a", "b", 1.0)
    expected = "not a paraphrase, 75% (labelled paraphrase)"
    assert describe_answer(TASKS["para"], np.array([-np.log(3)]), pair) == expected


def test_a_score_is_said_beside_its_label():
    pair = Example("1", "a", "b", 4.2)
    answer = describe_answer(TASKS["sts"], np.array([3.456], dtype=np.float32), pair)
    assert answer == "3.46 (labelled 4.2)"


def test_long_texts_are_cut_and_line_breaks_are_blanks():
    assert shortened(Example("1", "a\nb", "c  d", None)) == "a b | c d"
    text = shortened(Example("1", "word " * 40, None, None))
    assert text.endswith("...")
    assert len(text) <= MAX_LETTERS


@pytest.mark.parametrize(
    ("scores", "rising"),
    [
        ([0.5], []),
        ([0.5, 0.6], ["sst"]),
        ([0.5, 0.5], []),
        ([0.7, 0.5, 0.6], []),
        ([0.5, 0.4, 0.6], ["sst"]),
    ],
)
def test_a_score_rises_if_it_is_above_that_of_each_earlier_epoch(scores, rising):
    assert rising_tasks([{"sst": score} for score in scores], ["sst"]) == rising


def test_rising_scores_in_words():
    tasks = {"sst": TASKS["sst"], "sts": TASKS["sts"]}
    history = [{"sst": 0.1, "sts": 0.3}, {"sst": 0.2, "sts": 0.4}]
    assert describe_progress(history, tasks).startswith("SST and STS still rose in the last epoch:")
    assert describe_progress(history[:1], tasks) == ""
    three = {name: TASKS[name] for name in ("sst", "para", "sts")}
    rising = [dict.fromkeys(three, score) for score in (0.1, 0.2)]
    assert describe_progress(rising, three).startswith("SST, PARA and STS still rose")
    level = [history[0], history[0]]
    assert describe_progress(level, tasks, True) == "No score rose in the last epoch."
    fell = describe_progress([history[0], *history[::-1]], {"sst": TASKS["sst"]}, True)
    assert fell.startswith("No score rose in the last epoch. SST fell by 0.1000 since epoch 2. Try")
    assert "--patience" not in describe_progress(history[::-1], tasks)


def test_predictions_are_those_of_the_model(two_runs):
    run = open_run(two_runs[0])
    model, tokenizer = open_model(read_record(two_runs[0]))
    text = describe_predictions(model, tokenizer, run.tables, list(TASKS), 128, "fp32")
    title, sst, para, sts = text.splitlines()
    assert title == "3 rows of the dev files:"
    position = len(run.tables["sts"]["dev"].examples) // 2
    points = predict(run.model, "sts", run.rows["sts"]["dev"], "fp32")[position]
    assert sts.startswith(f"  STS   {points:.2f} (labelled ")
    assert sst.startswith("  SST   ")
    assert para.startswith("  PARA  ")


def test_a_run_ends_with_the_scores_of_its_contrastive_stages():
    before, after = {"spearman": 0.5, "uniformity": -1.0}, {"spearman": 0.625, "uniformity": -2.0}
    stages = {
        "mlm": {"before": {"loss": 2.0}, "after": {"loss": 1.0}, "is_kept": True},
        "ct": {"before": before, "after": {**before, "spearman": 0.4}, "is_kept": False},
        "bsc": {"before": before, "after": after, "is_kept": True},
    }
    of_ct = "ct: Spearman on STS dev 0.5000 before, 0.4000 after, without a head"
    assert describe_stages(stages) == [
        f"{of_ct}; its start was handed on",
        "bsc: Spearman on STS dev 0.5000 before, 0.6250 after, without a head",
    ]
    assert describe_stages({"mlm": stages["mlm"]}) == describe_stages({}) == []


def test_the_commands_have_the_path_of_the_run(tmp_path):
    run = tmp_path / "my run"
    text = next_commands(run, TASKS["sts"], "data/sts-dev.csv", run / "encoder")
    assert f"-m multitask.errors '{run}'\n" in text
    assert f"-m multitask.predict '{run}' --task sts\n" in text
    embed = f"-m contrastive.embed '{run}/encoder' --input data/sts-dev.csv --text sentence1"
    assert text.endswith(f"{embed} --nearest 3")


def test_a_column_with_a_blank_is_one_word_for_a_shell(tmp_path):
    format = replace(TASKS["sst"].format, text_columns=("the message",), is_course=False)
    own = replace(TASKS["sst"], name="tickets", format=format)
    text = next_commands(tmp_path / "run", own, "tickets.csv", "minilm")
    assert "--task tickets" in text
    assert "embed minilm --input tickets.csv --text 'the message' --nearest 3" in text
