"""multitask/verdict.py and the baseline on start vectors: is a model better than simple ones?"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import run_multitask
from data.examples import Example
from multitask.baselines import vectors_predictions
from multitask.options import FineTuningOptions, HeadOptions, MultitaskOptions
from multitask.tasks import TASKS
from multitask.verdict import describe_verdict, leads, warnings_of_leads

ROOT = Path(__file__).resolve().parents[2]
VECTORS = {
    "good": [2.0, 0.0],
    "fine": [1.0, 0.2],
    "bad": [-2.0, 0.0],
    "poor": [-1.0, -0.3],
    "film": [0.0, 1.0],
}


def encode(texts) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def vectors_score(task, train, dev, encode) -> float:
    labels = np.array([example.label for example in dev], dtype=np.float32)
    return task.score(vectors_predictions(task, train, dev, encode), labels)


# --- the baseline ---------------------------------------------------------------------------------


def test_vectors_tell_words_that_training_rows_do_not_have():
    """TF-IDF could not: no dev row shares a word with a training row."""
    train = [Example("1", "good", None, 4.0), Example("2", "bad", None, 0.0)]
    dev = [Example("3", "fine", None, 4.0), Example("4", "poor", None, 0.0)]
    assert vectors_score(TASKS["sst"], train, dev, encode) == 1.0


def test_a_score_of_pairs_is_a_line_through_the_cosine():
    """Pearson's r of the cosines, worked with NumPy. The sign follows the training rows."""
    pairs = [
        ("good", "fine", 5.0),
        ("good", "bad", 0.0),
        ("good", "film", 3.0),
        ("fine", "film", 2),
    ]
    rows = [Example(str(place), *pair) for place, pair in enumerate(pairs)]
    cosines = []
    for first, second, _ in pairs:
        u, v = np.array(VECTORS[first]), np.array(VECTORS[second])
        cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    expected = np.corrcoef(cosines, [label for _, _, label in pairs])[0, 1]
    assert vectors_score(TASKS["sts"], rows, rows, encode) == pytest.approx(expected, abs=1e-6)

    distances = [Example(str(place), a, b, 5 - s) for place, (a, b, s) in enumerate(pairs)]
    found = vectors_score(TASKS["sts"], distances, distances, encode)
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_binary_task_of_pairs_reads_both_vectors():
    train = [Example("1", "good", "fine", 1.0), Example("2", "good", "bad", 0.0)]
    train += [Example("3", "bad", "poor", 1.0), Example("4", "fine", "poor", 0.0)]
    dev = [Example("5", "bad", "bad", 1.0), Example("6", "poor", "good", 0.0)]
    assert vectors_score(TASKS["para"], train, dev, encode) == 1.0


def test_training_rows_of_one_class_have_one_answer():
    train = [Example("1", "good", None, 4.0), Example("2", "bad", None, 4.0)]
    dev = [Example("3", "fine", None, 4.0), Example("4", "poor", None, 0.0)]
    assert vectors_score(TASKS["sst"], train, dev, encode) == 0.5


# --- the verdict ----------------------------------------------------------------------------------


def record_of(score: float, num_steps: int = 21) -> dict:
    return {
        "scores": {"sst": 0.5, "para": 0.9, "sts": score},
        "baselines": {
            "majority": {"sst": 0.3, "para": 0.6, "sts": 0.0},
            "TF-IDF": {"sst": 0.4, "para": 0.7, "sts": 0.5},
            "vectors": {"sts": 0.6},
        },
        "epochs": [{"step": num_steps * epoch // 3} for epoch in (1, 2, 3)],
    }


def test_the_best_baseline_is_named():
    (lead,) = leads(record_of(0.55), TASKS, list(TASKS))
    assert (lead.task.name, lead.baseline) == ("sts", "vectors")
    assert describe_verdict(record_of(0.55), TASKS, list(TASKS)) == (
        "On the dev rows: In STS, vectors scores higher than this model: Pearson 0.6000 and 0.5500."
    )


def test_a_model_that_is_better_is_called_so():
    good = record_of(0.7)
    assert not leads(good, TASKS, list(TASKS))
    assert "scores higher than each baseline" in describe_verdict(good, TASKS, list(TASKS))
    assert not leads(record_of(0.1), TASKS, ["sst"]), "an untrained head is not compared"


@pytest.mark.parametrize("score", [0.6, 0.60004, 0.59996])
def test_a_tie_is_called_so(score):
    """A score is equal if it is printed so. Then no line warns, and none says that it is higher."""
    record = record_of(score)
    assert describe_verdict(record, TASKS, list(TASKS)) == (
        "On the dev rows: In STS, vectors scores as high as this model: Pearson 0.6000."
    )
    assert not warnings_of_leads(record, TASKS, list(TASKS), MultitaskOptions(), {"sts": 64})
    assert leads(record_of(0.5999), TASKS, list(TASKS))


@pytest.mark.parametrize(
    ("head", "num_steps", "words"),
    [
        # STS alone has 64 rows, which are 2 steps in an epoch, whatever the joint run had.
        ("features", 21, "Try --tasks sts --head cosine --pair-encoding bi --epochs 100."),
        ("features", 900, "Try --tasks sts --head cosine --pair-encoding bi --epochs 100."),
        ("cosine", 21, "Try a smaller --lr, or compare the vectors themselves"),
    ],
)
def test_the_advice_fits_the_options(head, num_steps, words):
    heads = HeadOptions(head=head, para_head="features" if head == "cosine" else "auto")
    options = MultitaskOptions(heads=heads)
    (line,) = warnings_of_leads(record_of(0.1, num_steps), TASKS, list(TASKS), options, {"sts": 64})
    assert line.startswith("warning: In STS, vectors scores higher") and words in line


@pytest.mark.parametrize(
    ("option", "num_steps", "words"),
    [
        ("finetune", 21, "Try --option pretrain --epochs 30"),
        ("pretrain", 21, "Try --epochs 29."),
        ("pretrain", 900, "Try another encoder, such as --model minilm."),
    ],
)
def test_the_advice_for_pairs_with_classes(option, num_steps, words):
    record = record_of(0.9, num_steps)
    record["scores"]["para"] = 0.1
    options = MultitaskOptions(fine_tuning=FineTuningOptions(option=option))
    (line,) = warnings_of_leads(record, TASKS, list(TASKS), options, {"para": 64})
    assert line.startswith("warning: In PARA, TF-IDF scores higher") and words in line


def test_the_advice_for_pairs_with_scores_is_followed(tmp_path, capsys):
    """100 pairs of the sample as a table of a user: the flags of the warning help a lot."""
    with open(ROOT / "data/sample/sts-train.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    with open(tmp_path / "faq.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "score"])
        writer.writerows(row[2:5] for row in rows[1::30])
    task = f"name=faq,train={tmp_path}/faq.csv,text=question,text_pair=answer,label=score"
    flags = ["--task", task, "--tasks", "faq", "--output-dir", str(tmp_path / "runs")]
    flags += ["--least-steps", "20"]
    assert run_multitask.main([*flags, "--name", "before", "--head", "features"]) == 0
    said = capsys.readouterr().out
    advice = re.search(r"warning: In faq, .* Try (--head .*) --epochs (\d+)\.\n", said)
    assert advice is not None and int(advice[2]) > 50
    # The same flags are named before the first step. Without any flag on heads, a run takes them.
    note = "note: faq has 81 training pairs with scores."
    assert note in said.split("== Stage multitask")[0]
    # A sixth of the epochs is enough to see it.
    epochs = ["--epochs", str(int(advice[2]) // 6)]
    assert run_multitask.main([*flags, "--name", "after", *epochs]) == 0
    said_after = capsys.readouterr().out
    assert note not in said_after
    stored = json.loads((tmp_path / "runs/after/options.json").read_text())["options"]
    for flag, value in zip(*[iter(advice[1].split())] * 2, strict=True):
        assert stored[flag.removeprefix("--").replace("-", "_")] == value
    assert "head: cosine (instead of features: few pairs" in said_after
    # Only a cosine is trained to compare vectors. Otherwise the encoder before training does it.
    assert "contrastive.embed minbert-mini-distilled --input" in said
    assert "/after/model --input" in said_after
    scores = []
    for name in ("before", "after"):
        record = json.loads((tmp_path / "runs" / name / "run.json").read_text())
        scores.append(record["scores"]["faq"])
    assert scores[1] > scores[0] + 0.2 and scores[1] > record["baselines"]["TF-IDF"]["faq"]
