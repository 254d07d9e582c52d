"""Classification by threshold, ranking and SentEval: numbers by hand, and slow loops."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from contrastive.quality.__main__ import main
from contrastive.quality.options import Cutoffs
from contrastive.quality.relatedness import distributions, fit_layer, predict_scores
from contrastive.quality.senteval import (
    INVERSE_STRENGTHS,
    WEIGHT_DECAYS,
    fit_logistic,
    fit_mlp,
    folds_of,
    predict_parts,
)
from contrastive.quality.tasks import (
    ClassifiedPairs,
    Thresholds,
    best_thresholds,
    classification_errors,
    classification_scores,
    question_scores,
    ranking_scores,
)
from data.ranking_sets import Question, read_ranking
from data.senteval import read_sts_folder, read_task
from tests.toy_senteval import write_sts_folder, write_toolkit

# --- classification by threshold ------------------------------------------------------------------


def slow_scores(cosines, labels, threshold) -> tuple[float, float]:
    """Accuracy and F1 of one threshold."""
    hits = sum(c >= threshold and y for c, y in zip(cosines, labels, strict=True))
    chosen = sum(c >= threshold for c in cosines)
    right = sum((c >= threshold) == y for c, y in zip(cosines, labels, strict=True))
    return right / len(labels), 2 * hits / (chosen + sum(labels))


@pytest.mark.parametrize("seed", range(8))
def test_no_threshold_is_better_than_the_best_one(seed):
    """Every threshold that can make a difference is tried. Half of the cosines have ties."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, 40)
    cosines = labels * 0.3 + generator.normal(size=40)
    cosines = cosines.round(1) if seed % 2 else cosines
    thresholds = best_thresholds(cosines, labels)
    everything = [slow_scores(cosines, labels, t) for t in [*cosines, 9.0]]
    assert slow_scores(cosines, labels, thresholds.accuracy)[0] == max(a for a, _ in everything)
    best_f1 = max(f1 for _, f1 in everything)
    assert slow_scores(cosines, labels, thresholds.f1)[1] == pytest.approx(best_f1)

    scores = classification_scores(cosines, labels, thresholds)
    assert scores["accuracy"] == pytest.approx(slow_scores(cosines, labels, thresholds.accuracy)[0])
    assert scores["f1"] == pytest.approx(slow_scores(cosines, labels, thresholds.f1)[1])


def test_a_threshold_above_all_cosines_is_a_number():
    """Where no threshold beats calling every pair negative. quality.json cannot hold infinity."""
    thresholds = best_thresholds(np.array([0.9, 0.8, 0.1]), np.array([0, 0, 1]))
    assert thresholds.accuracy == 2.0
    scores = classification_scores(np.array([1.0, 0.5]), np.array([0, 1]), thresholds)
    assert scores["accuracy"] == 0.5


def test_the_threshold_comes_from_other_pairs():
    """By hand: with .5, .9 and .6 are positive and .4 is not. Right are .9 and .4."""
    cosines = np.array([0.9, 0.6, 0.4, 0.2])
    labels = np.array([1, 0, 1, 0])
    scores = classification_scores(cosines, labels, Thresholds(0.5, 0.3))
    assert scores["accuracy"] == 0.5
    assert scores["f1"] == pytest.approx(2 * 2 / (3 + 2))
    # (1/1 + 2/3) / 2
    assert scores["average_precision"] == pytest.approx(5 / 6)
    assert set(classification_scores(cosines, labels, None)) == {"average_precision"}


def test_errors_over_the_pairs_are_those_of_new_pairs():
    """The scores of 100 drawn sets of pairs vary as much as the errors of one set say."""
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(100):
        labels = generator.integers(0, 2, 200)
        cosines = labels * 0.8 + generator.normal(size=200)
        pairs = ClassifiedPairs(cosines, labels, np.arange(200))
        drawn.append(classification_scores(cosines, labels, Thresholds(0.5, 0.3)))
    errors = classification_errors(pairs, Thresholds(0.5, 0.3))
    for name, error in errors.items():
        assert error == pytest.approx(np.std([scores[name] for scores in drawn]), rel=0.3), name
    # Pairs that are drawn together say less: each stands here four times.
    four = ClassifiedPairs(*(np.repeat(values, 4) for values in pairs))
    again = classification_errors(four, Thresholds(0.5, 0.3))
    assert again == pytest.approx(errors, rel=0.1)


# --- ranking --------------------------------------------------------------------------------------


def slow_ranking(cosines, is_right, precision=(1,), gains=(10,)) -> dict[str, float]:
    """The scores of a ranking without ties, from the definitions."""
    order = sorted(range(len(cosines)), key=lambda place: -cosines[place])
    hits = [is_right[place] for place in order]
    precisions = [sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits) if hit]
    scores = {"MAP": sum(precisions) / sum(hits), "MRR": 1 / (hits.index(True) + 1)}
    for k in precision:
        scores[f"P@{k}"] = sum(hits[:k]) / k
    for k in gains:
        gain = sum(hit / np.log2(n + 2) for n, hit in enumerate(hits[:k]))
        scores[f"nDCG@{k}"] = gain / sum(1 / np.log2(n + 2) for n in range(min(k, sum(hits))))
    return scores


@pytest.mark.parametrize("seed", range(6))
def test_the_scores_of_a_question_are_those_of_the_definitions(seed):
    generator = np.random.default_rng(seed)
    cosines = generator.normal(size=15)
    is_right = np.array([True, False, *generator.integers(0, 2, 13).astype(bool)])
    expected = slow_ranking(cosines.tolist(), is_right.tolist())
    assert question_scores(cosines, is_right) == pytest.approx(expected)
    numbers = (1, 3, 5, 20)  # 20: more than there are candidates
    expected = slow_ranking(cosines.tolist(), is_right.tolist(), numbers, numbers)
    scores = question_scores(cosines, is_right, Cutoffs(numbers, numbers))
    assert scores == pytest.approx(expected)
    assert scores["P@20"] == is_right.sum() / 20, "as in trec_eval, divided by k"


def test_equal_vectors_gain_nothing():
    """All cosines are equal: as if the right one of three came last, whatever its place."""
    for place in range(3):
        is_right = np.arange(3) == place
        scores = question_scores(np.zeros(3), is_right)
        assert (scores["MRR"], scores["P@1"]) == (pytest.approx(1 / 3), 0.0)
        assert scores["MAP"] == pytest.approx(1 / 3)
        scores = question_scores(np.zeros(3), is_right, Cutoffs((2, 3), (3,)))
        assert (scores["P@2"], scores["P@3"]) == (0.0, pytest.approx(1 / 3))


def test_questions_that_say_nothing_are_counted_and_left_out():
    questions = [
        Question("a", ["x", "y"], [True, False]),
        Question("b", ["x", "y"], [False, False]),
        Question("c", ["x"], [True]),
    ]
    scores = ranking_scores([np.array([0.9, 0.1]), np.zeros(2), np.zeros(1)], questions)
    assert (scores["questions"], scores["without_right"], scores["only_right"]) == (1, 1, 1)
    assert scores["MAP"] == 1.0, "the other two questions would lower or raise it"
    assert scores["standard_errors"]["MAP"] is None, "one question says nothing of others"

    # By hand: reciprocal ranks of 1 and 1/2, a deviation of .3536 and two questions.
    questions[1] = Question("b", ["x", "y"], [False, True])
    scores = ranking_scores([np.array([0.9, 0.1]), np.array([0.9, 0.1]), np.zeros(1)], questions)
    assert (scores["MRR"], scores["standard_errors"]["MRR"]) == (0.75, pytest.approx(0.25))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("qtext,label,atext\nwho,2,me\n", "line 2: the label is '2'"),
        ("qtext,label,atext\nwho,1,me\nwho,1,you\n", "no question has both"),
        ("text,label\nwho,1\n", "Expected are question, answer and label"),
    ],
)
def test_files_of_answers_that_cannot_be_used(content, words, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read_ranking(path)


# --- SentEval -------------------------------------------------------------------------------------


def test_the_toolkits_files(tmp_path):
    """Odd bytes stay in their line, and rows are sorted by words and then by label."""
    write_toolkit(tmp_path)
    tasks = {name: read_task(tmp_path, name) for name in ("CR", "SST", "TREC", "MRPC")}
    sizes = {
        name: {part: len(rows.labels) for part, rows in task.parts.items()}
        for name, task in tasks.items()
    }
    assert sizes == {
        "CR": {"train": 40},
        "SST": {"train": 20, "dev": 20, "test": 20},
        "TREC": {"train": 20, "test": 20},
        "MRPC": {"train": 20, "test": 20},
    }
    rows = tasks["CR"].parts["train"]
    keys = [(len(texts[0].split()), label) for texts, label in zip(*rows, strict=True)]
    assert keys == sorted(keys)
    assert any("caf\xe9" in texts[0] for texts in rows.texts)
    assert tasks["MRPC"].is_pair and tasks["TREC"].classes == 2
    (tmp_path / "downstream" / "MR" / "rt-polarity.pos").unlink()
    with pytest.raises(ValueError, match="MR/rt-polarity.pos: No such file"):
        read_task(tmp_path, "MR")


def test_the_toolkits_other_tasks(tmp_path):
    """SICK has two labels for a pair, and the fine labels of SST stand first."""
    write_toolkit(tmp_path)
    fine = read_task(tmp_path, "SST5")
    assert (fine.classes, fine.is_pair) == (5, False)
    for text, label in zip(*fine.parts["dev"], strict=True):
        assert text[0].count("x") == label
    classes = read_task(tmp_path, "SICKEntailment")
    scores = read_task(tmp_path, "SICKRelatedness")
    assert (classes.classes, scores.classes) == (3, 0)
    assert set(scores.parts["train"].labels) == {1.5, 2.5, 3.5, 4.5}
    benchmark = read_task(tmp_path, "STSBenchmark").parts["test"]
    assert len(benchmark.labels) == 24 and set(benchmark.labels) == {0.4, 1.4, 2.4, 3.4}
    assert benchmark.labels[benchmark.texts.index(("the three more words 8", "the cat 8"))] == 0.4

    path = tmp_path / "downstream" / "SICK" / "SICK_trial.txt"
    path.write_text(path.read_text().replace("\t2.5\t", "\t25\t"))
    with pytest.raises(ValueError, match="SICK_trial.txt, line 3: its score is '25', not a number"):
        read_task(tmp_path, "SICKEntailment")


def test_a_folder_of_sts_is_read_as_the_toolkit_does(tmp_path):
    """Line i of both files is one pair, also behind one that has no score."""
    folder = write_sts_folder(tmp_path)
    pairs = read_sts_folder(folder)
    assert pairs.subsets == ("MSRpar",) * 5 + ("surprise.OnWN",) * 5
    labels = [example.label for example in pairs.examples[:5]]
    assert labels == pytest.approx([0, 4.1, 0.2, 0.4, 4.5])
    assert pairs.examples[3].texts == ("a dog 4", "a cat 4")
    assert pairs.summary.endswith("12 rows read, 2 without a score left out")
    scores = folder / "STS.gs.MSRpar.txt"
    scores.write_text(scores.read_text().replace("\n\n", "\n"))
    with pytest.raises(ValueError, match="5 lines, and STS.input.MSRpar.txt has 6; expected is a"):
        read_sts_folder(folder)
    with pytest.raises(ValueError, match="a folder without files such as STS.input.headlines.txt"):
        read_sts_folder(tmp_path)


def slow_distribution(score: float) -> list[float]:
    """Equation of Tai, Socher and Manning 2015, section 4.2, as the toolkit has it."""
    whole = int(score)
    weights = []
    for value in range(1, 6):
        if value == whole + 1:
            weights.append(score - whole)
        else:
            weights.append(whole - score + 1 if value == whole else 0.0)
    return weights


def test_a_score_is_the_mean_of_its_distribution():
    scores = np.array([0.0, 0.4, 1.0, 2.25, 3.5, 4.9, 5.0])
    targets = distributions(scores)
    expected = torch.tensor([slow_distribution(score) for score in scores.tolist()])
    torch.testing.assert_close(targets, expected, rtol=0, atol=1e-6)
    means = (targets @ torch.arange(1.0, 6.0)).numpy()
    assert means[2:] == pytest.approx(scores[2:])


def test_a_layer_learns_scores_and_never_sees_the_test_pairs():
    """The scores are the length along one direction. Reversed ones give the reverse."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 6))
    scores = np.clip(3 + features[:, 0], 1, 5)
    state = torch.get_rng_state()
    layer = fit_layer(features[:64], scores[:64], features[64:100], scores[64:100])
    assert torch.equal(state, torch.get_rng_state())
    test = torch.from_numpy(features[100:]).float()
    assert pearsonr(predict_scores(layer, test), scores[100:]).statistic > 0.9
    reversed_scores = 6 - scores[:100]
    wrong = fit_layer(features[:64], reversed_scores[:64], features[64:100], reversed_scores[64:])
    assert pearsonr(predict_scores(wrong, test), scores[100:]).statistic < -0.9, "labels decide"


def toy_rows(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes that a line nearly separates."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.arange(num_rows) % 2)
    return generator.normal(size=(num_rows, 4)) + labels[:, None] * 1.5, labels


def test_nested_folds_are_those_of_a_slow_loop():
    """The strength of each fold is chosen inside its training rows, never on its test rows."""
    features, labels = toy_rows(60, seed=1)
    outcomes = predict_parts({"train": (features, labels)}, "logistic", 3)
    for (train, test), (true, predicted) in zip(folds_of(labels, 3), outcomes, strict=True):
        means = []
        for strength in INVERSE_STRENGTHS["folds"]:
            accuracies = []
            for inner, held_out in folds_of(labels[train], 3):
                inside = train[inner]
                classifier = fit_logistic(features[inside], labels[inside], strength)
                outside = train[held_out]
                accuracies.append(classifier.score(features[outside], labels[outside]))
            means.append(sum(accuracies) / 3)
        strength = INVERSE_STRENGTHS["folds"][means.index(max(means))]
        expected = fit_logistic(features[train], labels[train], strength)
        assert (true == labels[test]).all()
        assert (predicted == expected.predict(features[test])).all()


@pytest.mark.parametrize("has_dev", [False, True])
def test_a_test_file_is_never_trained_on(has_dev):
    """Its labels may be anything: the predictions stay the same."""
    parts = {"train": toy_rows(40, 2), "test": toy_rows(20, 3)}
    if has_dev:
        parts["dev"] = toy_rows(20, 4)
    ((_, predicted),) = predict_parts(parts, "logistic", 2)
    features, labels = parts["test"]
    ((_, again),) = predict_parts({**parts, "test": (features, 1 - labels)}, "logistic", 2)
    assert (predicted == again).all()
    assert (predicted == labels).mean() > 0.8


def test_the_network_learns_what_no_line_separates():
    """Exclusive or: logistic regression must fail. The network must not forget its best round."""
    generator = np.random.default_rng(0)
    centres = generator.choice([-2.0, 2.0], size=(4000, 2))
    features = centres + generator.normal(size=(4000, 2)) / 4
    labels = (features[:, 0] * features[:, 1] > 0).astype(int)
    held_out = features[3000:], labels[3000:]
    network = fit_mlp(features[:3000], labels[:3000], WEIGHT_DECAYS[0], held_out)
    assert network.score(*held_out) > 0.95
    assert network.coefs_[0].shape == (2, 50)
    assert fit_logistic(features[:3000], labels[:3000], 1.0).score(*held_out) < 0.7


def test_each_epoch_of_the_network_has_an_order_of_its_own(monkeypatch):
    from sklearn.neural_network import MLPClassifier, _multilayer_perceptron

    orders = []
    shuffle = _multilayer_perceptron.shuffle

    def watched(rows, random_state):
        order = shuffle(rows, random_state=random_state)
        orders.append(tuple(order))
        return order

    monkeypatch.setattr(_multilayer_perceptron, "shuffle", watched)
    monkeypatch.setattr(MLPClassifier, "score", lambda *_: 0.0)
    fit_mlp(*toy_rows(40, 2), WEIGHT_DECAYS[0], toy_rows(20, 3))
    assert len(orders) > 1
    assert len(set(orders)) == len(orders)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_measures_all_of_them(tiny_model, tmp_path, capsys):
    write_toolkit(tmp_path)
    pairs = tmp_path / "pairs.tsv"
    lines = [f"a dog {n}\t{'a dog' if n % 2 else 'rain'} {n}\t{n % 2}" for n in range(12)]
    pairs.write_text("\n".join(["sentence1\tsentence2\tlabel", *lines]), encoding="utf-8")
    dev = tmp_path / "dev.tsv"
    dev.write_text(pairs.read_text(encoding="utf-8"), encoding="utf-8")
    answers = tmp_path / "answers.csv"
    answers.write_text("qtext,label,atext\nwho,1,a dog\nwho,0,rain\n", encoding="utf-8")
    flags = ["--pairs", pairs, "--pairs-dev", dev, "--ranking", answers, "--senteval", tmp_path]
    tasks = "CR,MRPC,SST5,SICKEntailment,SICKRelatedness,STSBenchmark"
    sets = write_sts_folder(tmp_path)
    flags += ["--sets", sets, "--senteval-tasks", tasks, "--folds", 2, "--out", tmp_path / "out"]
    flags += ["--ranking-cutoffs", "2,1"]
    assert main([str(tiny_model), *map(str, flags), "--device", "cpu"]) == 0
    record = json.loads((tmp_path / "out" / "quality.json").read_text(encoding="utf-8"))
    assert record["pairs"]["pairs"]["rows"] == 12
    ranking = record["ranking"]["answers"]
    assert ranking["questions"] == 1
    assert list(ranking["standard_errors"]) == ["MAP", "MRR", "P@2", "P@1", "nDCG@2", "nDCG@1"]
    assert ranking["P@2"] == 0.5
    assert record["sets"]["STS12-en-test"]["rows"] == 10
    assert list(record["senteval"]) == tasks.split(",")
    with_f1 = [name for name, task in record["senteval"].items() if "f1" in task]
    with_scores = [name for name, task in record["senteval"].items() if "pearson" in task]
    assert (with_f1, with_scores) == (["MRPC"], ["SICKRelatedness", "STSBenchmark"])
    printed = capsys.readouterr().out
    for title in ("Classification by threshold", "Ranking", "SentEval", "SentEval, relatedness"):
        assert title in printed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--classifier", "mlp"], "have no effect without --senteval"),
        (["--pairs-dev", "a", "b"], "--pairs-dev names 2 files and --pairs 0"),
        (["--senteval", ".", "--senteval-tasks", "MR,XY"], "it is some of MR,CR"),
        (
            ["--senteval", ".", "--senteval-tasks", "STSBenchmark", "--classifier", "mlp"],
            "has no effect on tasks of scores",
        ),
        (["--ranking-cutoffs", "5"], "no effect without --ranking; add that"),
        (["--ranking", "a.csv", "--ranking-cutoffs", "5,0"], "pass whole numbers above 0"),
        (["--ranking", "a.csv", "--label", "x"], "measure these in a command of their own"),
    ],
)
def test_flags_without_an_effect(flags, words, tmp_path, capsys):
    assert main(["minbert-mini", "--sets", "x.tsv", *flags]) == 2
    assert words in capsys.readouterr().err


def test_rows_cut_sets_and_pairs_alone(capsys):
    assert main(["minbert-mini", "--ranking", "a.csv", "--rows", "5"]) == 2
    assert "--rows has no effect without --sets or --pairs" in capsys.readouterr().err
