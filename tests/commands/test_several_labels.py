"""Rows with several labels: read, trained, scored as scikit-learn does, and used by the commands.

A label is most likely lost where code takes the largest of C outputs in place of each of them.
"""

from __future__ import annotations

import csv
import json
import random

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss

import run_multitask
from data.options import DataOptions
from data.readers import labels_in
from data.task_flags import parse_task
from data.task_tables import read_splits, resolve_task
from minbert.commands.options import from_flat
from minbert.reporting.intervals import WEIGHTED_SCORES_OF_LABELS
from multitask import Predictor, compare
from multitask import predict as predict_command
from multitask.demo.answers import Demo
from multitask.ensemble import __main__ as ensemble
from multitask.errors import __main__ as errors
from multitask.export import __main__ as export
from multitask.losses import paraphrase_loss
from multitask.options import MultitaskOptions
from multitask.probabilities import confidences, probabilities
from multitask.regularisers import symmetric_divergence
from multitask.saved_run import open_run
from multitask.stage import check_options_of_tasks, describe_class_weights
from multitask.tasks import (
    METRICS_OF_LABELS,
    TASKS,
    exact_match,
    has_label,
    labels_of,
    with_functions,
)

# Words of the tiny model's vocabulary, so that a label can be told by its word.
WORDS = {"billing": "man", "login": "girl", "shipping": "hotel"}


def write_tickets(path, num_rows: int = 150) -> None:
    """Rows with none to three labels, each with its word in the text."""
    words = random.Random(0)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["message", "teams"])
        for number in range(num_rows):
            names = [name for name in WORDS if words.random() < 0.45]
            filler = words.sample(["a", "of", "in", "and", "to", "it"], 3)
            text = " ".join([*filler, *(WORDS[name] for name in names), str(number)])
            writer.writerow([text, "|".join(names) or "|"])


@pytest.fixture(scope="module")
def runs(tiny_model, sample_data, tmp_path_factory):
    """Two runs with two seeds."""
    folder = tmp_path_factory.mktemp("several")
    write_tickets(folder / "tickets.csv")
    task = f"name=tickets,train={folder}/tickets.csv,text=message,label=teams,separator=|"
    flags = [
        "--model",
        tiny_model,
        "--data-dir",
        sample_data,
        "--precision",
        "fp32",
        "--lr",
        "3e-3",
    ]
    flags += ["--batch-size", "8", "--epochs", "8", "--task", task, "--tasks", "tickets"]
    for seed in ("1", "2"):
        own = ["--seed", seed, "--output-dir", folder, "--name", seed]
        assert run_multitask.main(list(map(str, [*flags, *own]))) == 0
    return [folder / "1", folder / "2"]


# --- the mathematics ------------------------------------------------------------------------------


def test_loss_and_scores_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(40, 4)).astype(np.float32)
    labels = (generator.random((40, 4)) < 0.4).astype(np.float32)
    predictions = has_label(logits)
    scores = {name: metric.score(predictions, labels) for name, metric in METRICS_OF_LABELS.items()}
    assert scores == pytest.approx(
        {
            "micro_f1": f1_score(labels, predictions, average="micro"),
            "macro_f1": f1_score(labels, predictions, average="macro"),
            "exact_match": accuracy_score(labels, predictions),
        }
    )
    # On resampled rows, the weight of a row says how often it stands there.
    weights = generator.integers(0, 3, size=(5, 40))
    for name, metric in METRICS_OF_LABELS.items():
        resampled = WEIGHTED_SCORES_OF_LABELS[name](predictions, labels, weights)
        repeated = [
            metric.score(predictions.repeat(row, axis=0), labels.repeat(row, axis=0))
            for row in weights
        ]
        assert resampled == pytest.approx(np.array(repeated))
    shares = probabilities(logits, is_multilabel=True)
    of_labels = [log_loss(labels[:, c], shares[:, c], labels=[0, 1]) for c in range(4)]
    loss = paraphrase_loss(torch.from_numpy(logits), torch.from_numpy(labels))
    assert float(loss) == pytest.approx(np.mean(of_labels), rel=1e-5)
    assert confidences(np.array([[0.9, 0.4], [0.5, 1.0]]), is_multilabel=True).tolist() == [
        0.6,
        0.5,
    ]


def test_each_label_diverges_as_two_classes_do():
    first, second = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    columns = [symmetric_divergence(first[:, c], second[:, c], "binary") for c in range(3)]
    together = symmetric_divergence(first, second, "multilabel")
    assert float(together) == pytest.approx(float(sum(columns)) / 3)


def test_predictions_of_one_axis_are_refused():
    with pytest.raises(ValueError, match=r"both must be \(N, C\)"):
        exact_match(np.zeros(3), np.zeros(3))


# --- the table ------------------------------------------------------------------------------------


def read(tmp_path, labels: list[str], keys: str = "separator=;"):
    """The specification and the tables of a file with these labels."""
    path = tmp_path / "train.csv"
    rows = [f"text number {number},{label}" for number, label in enumerate(labels)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    flag = f"name=mine,train={path},{keys}"
    spec, line, _ = resolve_task(parse_task(flag))
    return spec, line, read_splits(spec, DataOptions(task=(flag,)))


def test_a_field_becomes_a_vector(tmp_path):
    labels = ["a;b", "b", ";", "c ; a", "b;b", "a;b;c"] * 5
    spec, line, tables = read(tmp_path, labels)
    assert (spec.kind, spec.label_names, spec.num_outputs) == ("multilabel", ("a", "b", "c"), 3)
    assert "loss binary_cross_entropy, metric micro_f1" in line
    examples = {
        example.sentence_1: example for split in tables.values() for example in split.examples
    }
    vectors = [examples[f"text number {number}"].label_set for number in range(6)]
    assert vectors == [(1, 1, 0), (0, 1, 0), (0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1)]
    assert {example.label for example in examples.values()} == {None}
    # Each label is in both parts.
    for table in tables.values():
        assert labels_of(table.examples).sum(axis=0).min() > 0


@pytest.mark.parametrize("is_json", [True, False])
def test_lists_of_labels(tmp_path, is_json):
    """A comma inside the quotes belongs to a label. Compare with json.loads."""
    lists = [["sales, EU", "login"], ["login"], [], ["it's"], ["it's", "sales, EU"]] * 4
    path = tmp_path / ("rows.jsonl" if is_json else "rows.csv")
    if is_json:
        rows = [json.dumps({"text": f"row {n}", "label": names}) for n, names in enumerate(lists)]
        path.write_text("\n".join(rows))
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            rows = [["text", "label"], *[[f"row {n}", str(x)] for n, x in enumerate(lists)]]
            csv.writer(file).writerows(rows)
    flag = f"name=mine,train={path},kind=multilabel"
    spec = resolve_task(parse_task(flag)).spec
    names = ("it's", "login", "sales, EU")
    # Predictions are written with a sign that no label holds.
    assert (spec.label_names, spec.format.separator) == (names, "|")
    for table in read_splits(spec, DataOptions(task=(flag,))).values():
        for example in table.examples:
            labels = lists[int(example.sentence_1.split()[1])]
            assert example.label_set == tuple(float(name in labels) for name in names)


@pytest.mark.parametrize(
    ("field", "labels"),
    [
        ("['a, b', \"it's\"]", ["a, b", "it's"]),
        ('["Caf\\u00e9", "\\ud83d\\ude00"]', ["Café", "😀"]),
        ("[1, -2, 'x']", ["1", "-2", "x"]),
        ("[]", []),
        # Escapes that mean nothing stay as they are.
        (r"['C:\x', 'b']", [r"C:\x", "b"]),
        (r'["\ud83d"]', [r"\ud83d"]),
    ],
)
def test_a_list_in_a_field(field, labels):
    assert labels_in(field, ";") == labels


def test_lists_of_one_number_need_no_separator(tmp_path):
    spec, *_ = read(tmp_path, ["[1]", "[10]", "[2]", "[]"] * 4, "kind=multilabel")
    assert (spec.label_names, spec.format.separator) == (("1", "2", "10"), ",")


def test_the_separator_is_found_or_named(tmp_path):
    spec, *_ = read(tmp_path, ["a/b", "b", "a", "b/a"] * 4, "kind=multilabel")
    assert spec.format.separator == "/"
    with pytest.raises(ValueError, match="no label holds '#', the separator= of"):
        read(tmp_path, ["a/b", "b", "a"] * 4, "separator=#")
    with pytest.raises(ValueError, match="no sign between several labels was found"):
        read(tmp_path, ["a", "b", "c"] * 4, "kind=multilabel")
    with pytest.raises(ValueError, match="a row of kind=classes has one"):
        read(tmp_path, ["a", "b"] * 4, "separator=;,kind=classes")
    with pytest.raises(ValueError, match="metric=accuracy; it is one of micro_f1"):
        read(tmp_path, ["a;b", "b"] * 4, "separator=;,metric=accuracy")


def test_the_warning_about_joined_labels_says_what_to_add(tmp_path):
    labels = ["login|billing", "billing|login", "login", "billing"] * 4
    line = read(tmp_path, labels, "kind=classes")[1]
    advice = line.rpartition("say ")[2].partition(" in --task")[0]
    spec, line, _ = read(tmp_path, labels, advice)
    assert spec.label_names == ("billing", "login") and "warning" not in line


def test_balanced_weights_are_said_and_need_classes(tmp_path):
    spec, _, tables = read(tmp_path, ["a;b", "b", "b", "b"] * 5)
    line = describe_class_weights(with_functions(spec), tables["train"].examples)
    # 16 rows: 4 with a, and 16 with b.
    assert line == "class weights of mine: a 2.00, b 0.50"
    with pytest.raises(ValueError, match="--class_weights balanced has no effect with --tasks sts"):
        check_options_of_tasks(
            from_flat(MultitaskOptions, {"tasks": "sts", "class_weights": "balanced"}), TASKS
        )


# --- a run ----------------------------------------------------------------------------------------


def test_it_learns_and_stands_beside_the_baselines(runs):
    record = json.loads((runs[0] / "run.json").read_text(encoding="utf-8"))
    assert record["scores"]["tickets"] > record["baselines"]["majority"]["tickets"] + 0.2
    assert record["baselines"]["TF-IDF"]["tickets"] > 0.9
    low, high = record["intervals"]["tickets"]
    assert low <= record["scores"]["tickets"] <= high
    run = open_run(runs[0])
    labels = labels_of(run.rows["tickets"]["dev"].examples)
    predictions = run.outputs("tickets", "dev") > 0
    score = f1_score(labels, predictions, average="micro")
    assert record["scores"]["tickets"] == pytest.approx(score)


def test_predictor_and_predict_name_all_labels(runs, tmp_path):
    predictor = Predictor(runs[0])
    texts = ["a of in man girl", "to it and", "of a it hotel"]
    answers = predictor.predict(texts)
    shares = predictor.predict_proba(texts)
    assert shares.shape == (3, 3) and not np.allclose(shares.sum(axis=1), 1)
    for answer, row in zip(answers, shares, strict=True):
        assert answer == tuple(np.array(predictor.label_names)[row > 0.5])

    out = tmp_path / "out.csv"
    rows = tmp_path / "rows.csv"
    rows.write_text("message\n" + "\n".join(texts) + "\n", encoding="utf-8")
    assert predict_command.main([str(runs[0]), "--input", str(rows), "--out", str(out)]) == 0
    with open(out, encoding="utf-8-sig", newline="") as file:
        written = [row["prediction"] for row in csv.DictReader(file)]
    assert written == ["|".join(answer) or "|" for answer in answers]


def test_the_commands_on_runs_take_them(runs, tmp_path, capsys):
    assert errors.main([str(runs[0]), "--out", str(tmp_path / "errors")]) == 0
    page = (tmp_path / "errors" / "errors.md").read_text(encoding="utf-8")
    assert "| label | gold | predicted | precision | recall | F1 |" in page
    assert ensemble.main([*map(str, runs), "--out", str(tmp_path / "both")]) == 0
    capsys.readouterr()
    # The files of both runs are read back, with rows that have no label.
    assert compare.main(list(map(str, runs))) == 0
    assert "tickets micro F1" in capsys.readouterr().out
    assert export.main([str(runs[0]), "--out", str(tmp_path / "model")]) == 0
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert config["problem_type"] == "multi_label_classification"


def test_an_onnx_folder_gives_the_same_labels(runs, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from multitask.export.onnx_predictor import OnnxPredictor

    out = tmp_path / "graph"
    assert export.main([str(runs[0]), "--out", str(out), "--format", "onnx"]) == 0
    texts = ["a of in man girl", "to it and", "of a it hotel"]
    ours, theirs = Predictor(runs[0]), OnnxPredictor(out)
    assert theirs.predict(texts).tolist() == ours.predict(texts).tolist()
    assert theirs.predict_proba(texts) == pytest.approx(ours.predict_proba(texts), abs=1e-5)


def test_the_page_of_the_demo_shows_all_labels_of_a_row(runs):
    demo = Demo(runs[0])
    (example, *_) = demo.open_training_rows(demo.record.tasks["tickets"]).examples
    names = [name for name, word in WORDS.items() if word in example.sentence_1.split()]
    _, label, text = demo.nearest("tickets", example.texts)["rows"][0]
    assert (label, text) == ("|".join(names) or "|", example.sentence_1)
    classes = demo.answer("tickets", example.texts)["classes"]
    (expected,) = Predictor(runs[0]).predict_proba([example.sentence_1])
    assert [share for _, share in classes] == pytest.approx(expected.tolist())
