"""multitask/evaluation.py: predictions in row order, and scores that are the tasks' own.

If predictions differ from those of single rows, rows were most likely put back in another order.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from data.batching import EncodedExamples
from data.examples import Example
from data.options import DataOptions
from minbert import BertTokenizer
from multitask.evaluation import evaluate, predict, score_training_rows
from multitask.options import FineTuningOptions
from multitask.rows import encode_tables, read_tables
from multitask.tasks import TASKS, labels_of
from tests.toy_multitask import make_bert


@pytest.fixture(scope="module", params=["cross", "bi"])
def case(request, tiny_model, sample_data):
    """A model and the encoded dev rows, for each pair encoding."""
    tables = read_tables(DataOptions(data_dir=str(sample_data)).with_files())
    model = make_bert(tiny_model, pair_encoding=request.param, dropout=0.5)
    rows = encode_tables(tables, BertTokenizer.from_pretrained(tiny_model), 64, request.param)
    return model, {task: splits["dev"] for task, splits in rows.items()}


# --- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_row_order_whatever_the_batches(case, task, batch_size):
    model, rows = case
    found = predict(model, task, rows[task], "fp32", batch_size)
    assert found.dtype == np.float32
    assert found.shape == ((24, 5) if task == "sst" else (24,))

    model.eval()
    with torch.no_grad():
        singles = [model(task, rows[task].batch([index])).numpy() for index in range(24)]
    # fp32, 2 layers: padding adds up in another order
    np.testing.assert_allclose(found, np.concatenate(singles), rtol=0, atol=1e-5)


def test_the_mode_is_put_back_and_no_graph_is_kept(case):
    model, rows = case
    for mode in (True, False):
        model.train(mode)
        first = predict(model, "sst", rows["sst"], "fp32")
        assert model.training == mode == model.encoder.training
        again = predict(model, "sst", rows["sst"], "fp32")
        np.testing.assert_array_equal(again, first)  # no dropout in it
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_precision_is_the_one_asked_for(case):
    model, rows = case
    exact = predict(model, "sst", rows["sst"], "fp32")
    rounded = predict(model, "sst", rows["sst"], "bf16")
    assert 0 < np.abs(exact - rounded).max() < 0.05  # bf16 has 8 significant bits


@pytest.mark.parametrize("encoding", ["cross", "bi", "dual"])
def test_pairs_of_another_encoding_are_refused(case, tiny_model, encoding):
    """Most would give numbers, and wrong ones.

    For SST's single sentences every encoding is the same.
    """
    model, rows = case
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    pairs = EncodedExamples(rows["sts"].examples, tokenizer, 64, encoding)
    sentences = EncodedExamples(rows["sst"].examples, tokenizer, 64, encoding)
    expected = predict(model, "sst", rows["sst"], "fp32")
    np.testing.assert_array_equal(predict(model, "sst", sentences, "fp32"), expected)
    if encoding == model.pair_encoding:
        assert predict(model, "sts", pairs, "fp32").shape == (24,)
    else:
        message = f"encoded '{encoding}', this model reads '{model.pair_encoding}'; make"
        with pytest.raises(ValueError, match=message):
            predict(model, "sts", pairs, "fp32")


def test_rows_without_labels(case, tiny_model):
    model, rows = case
    examples = []
    for example in rows["sst"].examples:
        examples.append(Example(example.id, example.sentence_1, None, None))
    unlabelled = EncodedExamples(examples, BertTokenizer.from_pretrained(tiny_model), 64)
    expected = predict(model, "sst", rows["sst"], "fp32")
    np.testing.assert_array_equal(predict(model, "sst", unlabelled, "fp32"), expected)


def test_labels(case):
    _, rows = case
    labels = labels_of(rows["sts"].examples)
    assert labels.dtype == np.float32
    assert labels.tolist() == [example.label for example in rows["sts"].examples]


# --- scores -------------------------------------------------------------------------------------


def test_scores_are_the_tasks_own(case):
    model, rows = case
    scores = evaluate(model, rows, "fp32")
    assert list(scores) == ["sst", "para", "sts", "overall_2023", "overall_2024"]
    logits = predict(model, "sst", rows["sst"], "fp32")
    assert scores["sst"] == np.mean(logits.argmax(1) == labels_of(rows["sst"].examples))
    logits = predict(model, "para", rows["para"], "fp32")
    assert scores["para"] == np.mean((logits > 0) == labels_of(rows["para"].examples))
    numbers = predict(model, "sts", rows["sts"], "fp32")
    correlation = np.corrcoef(numbers, labels_of(rows["sts"].examples))[0, 1]
    assert scores["sts"] == pytest.approx(correlation, abs=1e-6)

    accuracies = scores["sst"] + scores["para"]
    assert scores["overall_2023"] == pytest.approx((accuracies + scores["sts"]) / 3)
    assert scores["overall_2024"] == pytest.approx((accuracies + (scores["sts"] + 1) / 2) / 3)


def test_a_task_alone_has_no_overall_score(case):
    model, rows = case
    alone = evaluate(model, {"sts": rows["sts"]}, "fp32")
    assert alone == {"sts": evaluate(model, rows, "fp32")["sts"]}


def test_a_perfect_model_scores_one(case, monkeypatch):
    model, rows = case

    def perfect(model, task, rows, precision):
        labels = labels_of(rows.examples)
        if task == "sst":
            return np.eye(5, dtype=np.float32)[labels.astype(int)]
        return labels if task == "sts" else 2 * labels - 1

    monkeypatch.setattr("multitask.evaluation.predict", perfect)
    names = ["sst", "para", "sts", "overall_2023", "overall_2024"]
    assert evaluate(model, rows, "fp32") == pytest.approx(dict.fromkeys(names, 1.0))


def test_a_model_that_diverged_is_refused(case):
    model, rows = case
    bias = model.heads["sts"].dense.bias
    before = bias.detach().clone()
    bias.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="first in row 0: nan.* diverged.* lower learning rate"):
        evaluate(model, rows, "fp32")
    bias.data.copy_(before)


# --- training rows --------------------------------------------------------------------------------


def scored(case, choice: str) -> dict[str, float]:
    model, rows = case
    return score_training_rows(FineTuningOptions(score_train=choice), model, rows, "fp32")


def test_all_training_rows_have_the_score_of_evaluate(case):
    """Both names of an overall score are there, too. The dev rows stand for training rows here."""
    model, rows = case
    assert scored(case, "all") == pytest.approx(evaluate(model, rows, "fp32"))
    assert scored(case, "1000") == scored(case, "all")
    assert scored(case, "none") == {}


def test_a_sample_is_taken_at_even_distances(case):
    model, rows = case
    chosen = np.array([0, 4, 9, 14, 19])  # 5 of 24: i x 24 // 5
    outputs = predict(model, "sst", rows["sst"], "fp32")[chosen]
    labels = labels_of(rows["sst"].examples)[chosen]
    expected = TASKS["sst"].score(TASKS["sst"].decode(outputs), labels)
    assert scored(case, "5")["sst"] == pytest.approx(expected)


def test_rows_whose_label_is_a_probability_are_left_out(case, tiny_model):
    model, rows = case
    examples = [replace(rows["para"].examples[0], label=0.3), *rows["para"].examples[1:]]
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    para = EncodedExamples(examples, tokenizer, 64, rows["para"].pair_encoding)
    options = FineTuningOptions(score_train="all")
    found = score_training_rows(options, model, {"para": para}, "fp32")
    outputs = predict(model, "para", rows["para"], "fp32")[1:]
    labels = labels_of(rows["para"].examples)[1:]
    assert found == {"para": TASKS["para"].score(TASKS["para"].decode(outputs), labels)}


@pytest.mark.parametrize("choice", ["0", "-3", "half", "1.5"])
def test_another_choice_is_refused(choice):
    with pytest.raises(ValueError, match="it is none, all, or a number of rows"):
        FineTuningOptions(score_train=choice)
