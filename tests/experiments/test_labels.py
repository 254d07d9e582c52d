"""experiments/labels.py: calibration, folds, wrong labels and the learning curve of a run.

The mathematics is compared with scikit-learn, or with a case that was made to have the answer.
"""

from __future__ import annotations

import csv
import json
import random
import re
import shlex

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import run_multitask
from data.options import DataOptions
from data.task_flags import parse_task, with_fold
from data.task_tables import read_splits, resolve_task
from experiments import calibration, checks, label_questions, labels
from experiments.calibration import Costs
from minbert.commands.flags import parse_command
from multitask import Predictor
from multitask import predict as predict_command
from multitask.errors import __main__ as errors
from multitask.errors.suspicious import find_suspicious, write_suspicious
from multitask.probabilities import probabilities
from multitask.summary import describe_stop
from multitask.tasks import BUILT_IN_TASKS, labels_of

SST = BUILT_IN_TASKS["sst"]
PARA = BUILT_IN_TASKS["para"]
WORDS = {"good": "man", "bad": "hotel"}


def write_reviews(path, num_rows: int = 96) -> list[str]:
    """Rows of two classes, each with its word. Every twelfth label is wrong; returns their ids."""
    words = random.Random(0)
    wrong = []
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "label"])
        for number in range(num_rows):
            label = words.choice(list(WORDS))
            filler = words.sample(["a", "of", "in", "and", "to", "it"], 3)
            text = " ".join([*filler, WORDS[label], WORDS[label], str(number)])
            if number % 12 == 5:
                label = "bad" if label == "good" else "good"
                wrong.append(str(number))
            writer.writerow([number, text, label])
    return wrong


@pytest.fixture(scope="module")
def run(tiny_model, sample_data, tmp_path_factory):
    """A run on such rows, the ids of the wrong labels, and a folder."""
    folder = tmp_path_factory.mktemp("labels")
    wrong = write_reviews(folder / "reviews.csv")
    task = f"name=reviews,train={folder}/reviews.csv,text=text,label=label,id=number"
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
    flags += ["--lr", "3e-3", "--batch-size", "8", "--epochs", "8", "--patience", "7"]
    flags += ["--task", task, "--tasks", "reviews", "--output-dir", folder, "--name", "run"]
    assert run_multitask.main(list(map(str, flags))) == 0
    return folder / "run", wrong, folder


@pytest.fixture
def trained(monkeypatch):
    """The commands that were started. They run in this process, which is quicker."""
    commands = []

    def start(command, log):
        commands.append(command)
        return run_multitask.main(command[2:])

    monkeypatch.setattr(label_questions, "run_process", start)
    return commands


# --- folds ----------------------------------------------------------------------------------------


def test_folds_share_the_labels_as_scikit_learn_does(tmp_path):
    path = tmp_path / "train.csv"
    given = ["a"] * 23 + ["b"] * 9 + ["c"] * 5
    rows = [f"text {number},{label}" for number, label in enumerate(given)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    seen = []
    counts = []
    for fold in range(1, 5):
        flag = with_fold(f'name=mine,train="{path}",dev=0.5,label=label', fold, 4)
        spec = resolve_task(parse_task(flag)).spec
        tables = read_splits(spec, DataOptions(task=(flag,)))
        seen += [example.sentence_1 for example in tables["dev"].examples]
        counts.append(np.bincount(labels_of(tables["dev"].examples).astype(int), minlength=3))
        assert len(tables["train"].examples) + len(tables["dev"].examples) == len(given)
        assert f"as part {fold} of 4" in tables["dev"].summary
    assert sorted(seen) == sorted(f"text {number}" for number in range(len(given)))
    # The same numbers of each label, in some order of the folds.
    folds = StratifiedKFold(4, shuffle=True, random_state=0).split(given, given)
    theirs = [
        np.bincount([ord(given[row]) - ord("a") for row in rest], minlength=3) for _, rest in folds
    ]
    for number in range(3):
        assert sorted(count[number] for count in counts) == sorted(
            count[number] for count in theirs
        )


@pytest.mark.parametrize("value", ["0/5", "6/5", "1/1", "2", "a/b"])
def test_no_part_of_parts_is_refused(value):
    with pytest.raises(ValueError, match="it is a part and the number of parts, such as 2/5"):
        parse_task(f"name=a,train=b,fold={value}")
    with pytest.raises(ValueError, match="fold= and dev= both say"):
        parse_task("name=a,train=b,fold=2/5,dev=c.csv")


# --- calibration ----------------------------------------------------------------------------------


def test_the_temperature_is_that_of_a_logistic_regression():
    """With one coefficient and no constant, a logistic regression of the logit is 1 / T."""
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=400)
    gold = (generator.random(400) < 1 / (1 + np.exp(-logits / 2.5))).astype(np.float32)
    temperature = calibration.fit_temperature(PARA, logits, gold)
    model = LogisticRegression(C=np.inf, fit_intercept=False).fit(logits[:, None], gold)
    assert temperature == pytest.approx(1 / model.coef_[0, 0], rel=1e-3)
    assert 2 < temperature < 3.1

    # Several classes: no other temperature has a lower log loss, as scikit-learn computes it.
    logits = 2 * generator.normal(size=(300, 5))
    gold = logits.argmax(axis=1) * (generator.random(300) < 0.5)
    best = calibration.fit_temperature(SST, logits, gold)
    losses = []
    for factor in (0.9, 1.0, 1.1):
        shares = np.exp(logits / (best * factor))
        losses.append(log_loss(gold, shares / shares.sum(axis=1, keepdims=True), labels=range(5)))
    assert losses[1] == min(losses)
    shares = probabilities(logits / best)
    assert losses[1] == pytest.approx(calibration.log_loss(SST, shares, gold))

    # Rows without a mistake would make the model as sure as can be. One mistake is enough.
    gold = logits.argmax(axis=1)
    assert calibration.fit_temperature(SST, logits, gold) == 1.0
    assert calibration.are_all_right(SST, logits, gold)
    gold[0] = (gold[0] + 1) % 5
    assert calibration.fit_temperature(SST, logits, gold) < 0.9
    assert not calibration.are_all_right(SST, logits, gold)


def test_a_temperature_that_is_worse_on_other_rows_is_not_advised():
    worse = calibration.Calibration(
        0.9, calibration.Quality(0.83, 0.1), calibration.Quality(0.85, 0.1)
    )
    words = label_questions.describe_temperature(worse, False)
    assert "the log loss is 0.8500 with it and 0.8300 without" in words and "stays 1." in words
    better = worse._replace(before=worse.after, after=worse.before)
    assert "0.900: the model is not sure enough" in label_questions.describe_temperature(
        better, False
    )


def test_calibration_error_by_hand():
    # Ten bins of one row each: |1 - .8| and |0 - .6|, five times.
    confidence = np.array([0.8, 0.6] * 5)
    is_right = np.array([True, False] * 5)
    assert calibration.calibration_error(confidence, is_right) == pytest.approx(0.4)
    assert calibration.calibration_error(np.ones(20), np.ones(20, dtype=bool)) == 0


def test_the_threshold_is_the_cheapest_one_for_right_probabilities():
    generator = np.random.default_rng(0)
    shares = generator.random(200_000)
    gold = generator.random(200_000) < shares
    costs = Costs(missed=4, false=1)
    assert costs.threshold == pytest.approx(0.2)
    of_rows = {t: calibration.cost_at(t, shares, gold, costs) for t in (0.1, 0.2, 0.3, 0.5, 0.8)}
    assert min(of_rows, key=lambda t: of_rows[t]) == 0.2
    # By hand: one of four rows is missed and one is named falsely.
    four = calibration.cost_at(0.5, np.array([0.9, 0.6, 0.4, 0.1]), np.array([1, 0, 1, 0]), costs)
    assert four == pytest.approx((4 + 1) / 4)


# --- suspicious labels ----------------------------------------------------------------------------


def test_suspicious_rows_by_hand():
    """Mean probabilities: class 0 of its rows (.9 + .8 + .4) / 3 = .7, class 1 (.9 + .7) / 2 = .8.

    Row 2 is labelled 0 and has .6 for class 1, which is below .8: no doubt. Row 5 has .85.
    """
    shares = np.array([0.1, 0.2, 0.6, 0.9, 0.7])
    gold = np.array([0, 0, 0, 1, 1], dtype=np.float32)
    assert find_suspicious(PARA, shares, gold) == []
    shares = np.array([0.1, 0.2, 0.6, 0.9, 0.7, 0.95])
    gold = np.array([0, 0, 0, 1, 1, 0], dtype=np.float32)
    (only,) = find_suspicious(PARA, shares, gold)
    assert only[:3] == (5, "not a paraphrase", "paraphrase")
    assert only.doubt == only.share == pytest.approx(0.95)


def test_the_answer_of_the_model_is_suggested_and_is_never_the_label():
    """Class 1 has the threshold (.2 + .3) / 2 = .25. In rows 1 and 5, only it is that probable."""
    gold = np.array([0, 0, 1, 1, 2, 0], dtype=np.float32)
    shares = np.zeros((6, 5))
    shares[:, 0] = [0.95, 0.5, 0.4, 0.4, 0.05, 0.1]
    shares[:, 1] = [0.05, 0.3, 0.2, 0.3, 0.05, 0.4]
    shares[:, 2] = 1 - shares.sum(axis=1)
    # Row 1 is answered with its label. Row 5 is answered with class 2.
    (only,) = find_suspicious(SST, shares, gold)
    assert only[:3] == (5, SST.label_names[0], SST.label_names[2])
    assert (only.doubt, only.share) == pytest.approx((0.9, 0.5))


def test_the_distance_of_a_score_is_that_of_the_suggested_number():
    labels_of_rows = np.array([1.0, 2.0, 3.0, 4.0] * 5 + [0.0])
    numbers = labels_of_rows + 0.5
    numbers[-1] = 7.0  # above the scale, which ends at 5
    (only,) = find_suspicious(BUILT_IN_TASKS["sts"], numbers, labels_of_rows)
    assert only == (20, "0", "5", 5.0, None)


def test_the_list_has_the_style_of_the_table(tmp_path):
    source = tmp_path / "pairs.csv"
    lines = [f"question {n};answer {n};{n % 5},5" for n in range(40)]
    source.write_text("\n".join(["a;b;score", *lines]) + "\n", encoding="utf-8")
    flag = f"name=mine,train={source},text=a,text_pair=b,label=score"
    spec = resolve_task(parse_task(flag)).spec
    dev = read_splits(spec, DataOptions(task=(flag,)))["dev"]
    numbers = labels_of(dev.examples).copy()
    numbers[0] += 1.25
    path = tmp_path / "list.csv"
    task = BUILT_IN_TASKS["sts"]
    assert write_suspicious(path, task, dev.examples, numbers, numbers, dev.style) == 1
    label, *others = path.read_text("utf-8-sig").splitlines()[1].split(";")[3:]
    total = f"{numbers[0]:.4g}".replace(".", ",")
    assert label.endswith(",5") and others == [total, "1,25", total]


def test_wrong_labels_of_several_classes_are_found():
    generator = np.random.default_rng(1)
    true = generator.integers(5, size=500)
    logits = generator.normal(size=(500, 5))
    logits[np.arange(500), true] += 4
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = true.copy()
    given[:40] = (true[:40] + 1) % 5
    found = find_suspicious(SST, shares, given.astype(np.float32))
    rows = {suspicion.row for suspicion in found}
    assert len(rows & set(range(40))) >= 32 and len(rows) < 45
    # Negative control: without wrong labels hardly a row is named.
    assert len(find_suspicious(SST, shares, true.astype(np.float32))) < 10


# --- learning curve -------------------------------------------------------------------------------


def test_a_power_law_is_continued():
    sizes = [100, 200, 400, 800]
    law = 1 - 2 * np.array(sizes) ** -0.3
    other = np.array([0.9, 0.85, 0.8, 0.75])  # falls: more rows are not forecast to harm
    found = label_questions.forecast(sizes, np.stack([law, other]), 3200)
    assert found[0] == pytest.approx(1 - 2 * 3200**-0.3)
    assert 0.75 < found[1] < 0.9


# --- the command ----------------------------------------------------------------------------------


def test_each_row_is_predicted_once_and_the_wrong_labels_are_listed(run, trained, capsys):
    folder, wrong, out = run
    flags = [str(folder), "--folds", "3", "--out", str(out / "cv")]
    assert labels.main(flags) == 0
    printed = capsys.readouterr().out
    assert len(trained) == 3
    assert "All 96 rows together" in printed and "standard deviation" in printed
    with open(out / "cv" / "run-suspicious.csv", encoding="utf-8-sig", newline="") as file:
        found = [row["id"] for row in csv.DictReader(file)]
    # Its model is weak, so it finds some of the eight, and hardly another row.
    assert len(set(found) & set(wrong)) >= 3 and len(set(found) - set(wrong)) <= 2
    # The same command again trains nothing.
    assert labels.main(flags) == 0 and len(trained) == 3


def test_the_curve_has_the_same_dev_rows_and_a_forecast(run, trained, capsys):
    folder, _, out = run
    assert labels.main([str(folder), "--curve", "--out", str(out / "curve")]) == 0
    printed = capsys.readouterr().out
    assert len(trained) == 3
    table = printed[printed.rindex("training rows, accuracy") :].splitlines()[1:5]
    assert [line.split()[0] for line in table] == ["9", "19", "38", "77"]
    assert "With 2 times the labels, 154 rows: about" in printed


def test_what_calibration_prints_can_be_passed_to_predict(run, tmp_path, capsys, monkeypatch):
    folder = run[0]
    monkeypatch.setattr(label_questions, "flags_of_named", lambda: " --plugin=a.py")
    assert labels.main([str(folder), "--cost-missed", "9"]) == 0
    printed = capsys.readouterr().out
    assert "minBERT, calibrated" in printed and "TF-IDF at 0.100" in printed
    words = printed.splitlines()[-1].split()
    assert words[-1] == "--plugin=a.py", "its tasks may be those of a plugin"
    flags = words[-5:-1]
    assert flags[0] == "--temperature" and flags[2:] == ["--threshold", "0.1"]

    rows = tmp_path / "rows.csv"
    texts = ["a of in man", "to it", "hotel and"]
    rows.write_text("text\n" + "\n".join(texts) + "\n", encoding="utf-8")
    out = tmp_path / "out.csv"
    own = [str(folder), "--input", str(rows), "--out", str(out)]
    assert predict_command.main([*own, *flags]) == 0
    with open(out, encoding="utf-8-sig", newline="") as file:
        written = list(csv.DictReader(file))
    usual = Predictor(folder).predict_proba(texts)[:, 1]
    odds = np.log(usual / (1 - usual)) / float(flags[1])
    shares = 1 / (1 + np.exp(-odds))
    for row, share in zip(written, shares, strict=True):
        assert row["prediction"] == ("good" if share > 0.1 else "bad")
        expected = share if share > 0.1 else 1 - share
        assert float(row["confidence"]) == pytest.approx(expected, abs=1e-3)
    assert predict_command.main(["--task", "sst", "--threshold", "0.2", "--input", str(rows)]) == 2
    assert "--threshold has no effect with --task sst" in capsys.readouterr().err


def test_errors_writes_the_suspicious_dev_rows(run, tmp_path, capsys):
    folder, wrong, _ = run
    path = tmp_path / "list.csv"
    own = [str(folder), "--out", str(tmp_path / "errors"), "--suspicious", str(path)]
    assert errors.main(own) == 0
    with open(path, encoding="utf-8-sig", newline="") as file:
        found = [row["id"] for row in csv.DictReader(file)]
    assert set(found) & set(wrong) and len(found) <= 6
    # What it advises is a command of minbert labels, and --overwrite replaces the list.
    words = shlex.split(re.findall(r"`(.*)` looks at all rows", capsys.readouterr().out)[0])
    assert words[1:3] == ["-m", "experiments.labels"]
    options = parse_command(labels.LabelsOptions, "labels", "", words[3:])
    assert options.run == folder and options.folds == 5 and options.task
    request = parse_command(errors.ErrorsOptions, "errors", "", own[:1] + own[3:])
    with pytest.raises(ValueError, match="pass --overwrite to replace it"):
        errors.check_output_files(request)
    request = parse_command(errors.ErrorsOptions, "errors", "", [*own[:1], *own[3:], "--overwrite"])
    errors.check_output_files(request)


def test_more_epochs_of_a_smaller_part_are_no_other_options(tmp_path):
    """A run without --epochs has those that --least_steps asks for, by its rows."""
    stored = {"epochs": 29, "least_steps": 200}
    (tmp_path / "options.json").write_text(json.dumps({"options": stored}), encoding="utf-8")
    label_questions.check_same_options(tmp_path, {"epochs": 4, "least_steps": 200})
    flags = ["--epochs", "4", "--least-steps", "200"]
    run = checks.BegunRun(tmp_path, stored)
    checks.check_flags(run, flags)
    # Negative controls: fewer epochs than asked for, and a request for just these.
    with pytest.raises(ValueError, match="holds a run with --epochs 29, and not 30"):
        label_questions.check_same_options(tmp_path, {"epochs": 30, "least_steps": 200})
    with pytest.raises(ValueError, match="has --epochs 29, and --with asks for 4"):
        checks.check_flags(run, flags[:2])
    with pytest.raises(ValueError, match="holds a run with --least_steps 200, and not 0"):
        label_questions.check_same_options(tmp_path, {"least_steps": 0, "epochs": 29})


def test_a_stop_is_told():
    history = [{"step": 10}, {"step": 20}, {"step": 30}]
    assert "after epoch 3 of 9" in describe_stop(history, 10, 9, 2)
    assert "better than that of epoch 1." in describe_stop(history, 10, 9, 2)
    assert describe_stop(history, 10, 3, 2) == describe_stop(history, 10, 9, 0) == ""
