"""experiments/papers.py: rows of the papers as command lines, and a series on a tiny model."""

import json
import math
import statistics
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from contrastive.quality.__main__ import main as quality
from contrastive.train.__main__ import main as train
from experiments import papers
from experiments.__main__ import main as experiments
from experiments.paper_recipes import AVERAGE, PEARSON, RECIPES, find_recipe, paper_name
from experiments.paper_scores import (
    COPIES,
    Score,
    average_of,
    cell_of,
    copies_in_order,
    estimate_of,
    recorded,
    scores_in,
    scores_of_record,
    scores_without_encoder,
)
from experiments.records import read_records
from tests.small_models import make_model
from tests.toy_senteval import write_sts_folder, write_toolkit
from tests.toy_sets import write_sts_file


def test_published_figures_are_shares():
    """And an average is that of its sets, where all of them are printed."""
    for name, recipe in RECIPES.items():
        assert all(0 < figure < 1 for figure in recipe.published.values()), name
        single = [recipe.published[key] for key in recipe.sets if key in recipe.published]
        if len(single) == len(recipe.sets) > 0:
            average = recipe.published[AVERAGE]
            assert average == pytest.approx(statistics.fmean(single), abs=2e-4), name
        if AVERAGE + PEARSON in recipe.published:
            of_pearson = [recipe.published[key + PEARSON] for key in recipe.sets]
            average = recipe.published[AVERAGE + PEARSON]
            assert average == pytest.approx(statistics.fmean(of_pearson), abs=4e-4), name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("STS12_test", "STS12"),
        ("STS16_test", "STS16"),
        ("SICK_test", "SICK-R"),
        ("sts-b_test", "STS-B"),
        ("SICK_train", "SICK_train"),
        ("sts-dev", "sts-dev"),
    ],
)
def test_only_test_files_stand_beside_published_figures(file, name):
    assert paper_name(file) == name


def test_an_average_is_published_only_over_the_same_sets():
    recipe = RECIPES["sg-table-1-sg-opt"]
    assert papers.published_of(recipe, [*recipe.sets, AVERAGE])[AVERAGE] == 0.7462
    published = papers.published_of(recipe, ["STS12", "STS13", AVERAGE])
    assert published == {"STS12": 0.6684, "STS13": 0.8013}

    # The same of Pearson's correlation.
    recipe = RECIPES["ct-table-1"]
    names = [name + PEARSON for name in (*recipe.sets, AVERAGE)]
    assert papers.published_of(recipe, [*recipe.sets, *names])[AVERAGE + PEARSON] == 0.7362
    published = papers.published_of(recipe, ["STS12", "STS12 Pearson", AVERAGE + PEARSON])
    assert published == {"STS12": 0.6686, "STS12 Pearson": 0.6719}


def test_the_rows_of_two_copies():
    """The worse one is that with the lower average, although it is better on one set."""
    scores = {
        "first": {"a": Score(0.5, 0.1, 9), "b": Score(0.4), AVERAGE: Score(0.45)},
        "second": {"a": Score(0.3, 0.2, 9), "b": Score(0.5), AVERAGE: Score(0.4)},
    }
    rows = copies_in_order(scores)
    values = {}
    for name, row in rows.items():
        values[name] = [score.value for score in row.values()]
    assert values["worse copy"] == [0.3, 0.5, 0.4]
    assert values["better copy"] == [0.5, 0.4, 0.45]
    assert values["mean of both"] == pytest.approx([0.4, 0.45, 0.425])
    assert values["difference"] == pytest.approx([0.2, -0.1, 0.05])
    assert rows["mean of both"]["a"].error == pytest.approx(0.15)
    assert rows["mean of both"]["a"].num_groups == 9
    assert rows["mean of both"]["b"].error is None
    assert rows["difference"]["a"].error is None


def test_a_cell_has_the_interval_of_its_seeds_and_of_its_rows():
    """By hand: mean 2, deviation 1, t of two degrees 4.303: 4.303 / sqrt(3) = 2.484.

    One seed: 1.96 errors for very many rows. With both sources the interval is wider.
    """
    seeds = [Score(1.0), Score(2.0), Score(3.0)]
    assert cell_of(seeds, 0.5) == "2.000 [-0.484, 4.484] (0.500)"
    assert cell_of([Score(0.25)], None) == "0.250"
    assert cell_of([Score(0.25, 0.1, 10**6)], None) == "0.250 [0.054, 0.446]"
    assert cell_of([], 0.5) == "-"
    both = estimate_of([Score(score.value, 1.0, 50) for score in seeds])
    assert both.standard_error == pytest.approx(math.sqrt(1 / 3 + 1))
    assert both.interval.low < -0.484
    assert estimate_of([Score(0.5, 0.1, 50), Score(0.5, 0.1, 50)]).standard_error == 0.1


def test_an_average_has_the_error_of_independent_sets():
    assert average_of([Score(0.2, 0.3, 5), Score(0.4, 0.4, 6)]) == (pytest.approx(0.3), 0.25, 11)
    assert average_of([Score(0.2, 0.3, 5), Score(0.4)]) == (pytest.approx(0.3), None, 0)


def test_a_record_gives_back_its_scores():
    """And one without errors, as older records are, has none."""
    scores = {"": {"a": Score(0.5, 0.1, 9), "b": Score(0.25, None, 0)}}
    fields = recorded(scores)
    assert scores_of_record(fields) == {"encoder": scores[""]}
    older = scores_of_record({"scores": fields["scores"]})
    assert older["encoder"]["a"] == Score(0.5)


def test_pearson_stands_behind_all_of_spearman():
    """And has an average of its own."""
    sets = {}
    for name, value in (("a", 0.2), ("b", 0.4)):
        of_kind = {
            "all": {"spearman": value, "pearson": value + 0.5},
            "standard_errors": {"spearman": 0.1, "pearson": 0.3},
        }
        sets[name] = {"vectors": {"mean": of_kind}, "groups": 9}
    scores = scores_in({"sets": sets}, "")
    assert list(scores) == ["a", "b", AVERAGE, "a Pearson", "b Pearson", f"{AVERAGE} Pearson"]
    assert scores["b"] == Score(0.4, 0.1, 9) and scores["b Pearson"] == Score(0.9, 0.3, 9)
    assert scores[f"{AVERAGE} Pearson"].value == pytest.approx(0.8)
    assert "average Pearson" not in scores_in({"sets": {"a": sets["a"]}}, "")


def test_scores_without_an_encoder_are_those_of_scikit_learn():
    """Three of four pairs are positive. The error of F1 is that of the share times its slope."""
    labels = [1, 1, 0, 1]
    names = ("average_precision", "accuracy", "f1")
    pairs = {"rows": 4, "positives": 3, "groups": 4, "standard_errors": dict.fromkeys(names, 0.1)}
    scores = scores_without_encoder({"pairs": {"x": pairs}})
    assert scores["x average precision"].value == average_precision_score(labels, [1] * 4) == 0.75
    assert scores["x accuracy"].value == accuracy_score(labels, [1] * 4)
    assert scores["x f1"].value == pytest.approx(f1_score(labels, [1] * 4))
    assert scores["x accuracy"].error == pytest.approx((0.75 * 0.25 / 4) ** 0.5)
    slope = (2 * 0.7501 / 1.7501 - 2 * 0.7499 / 1.7499) / 0.0002
    assert scores["x f1"].error == pytest.approx(scores["x accuracy"].error * slope)

    # With few positive pairs the common answer is no. Without thresholds there is one score.
    few = {**pairs, "positives": 1, "standard_errors": {"accuracy": 0.1}}
    assert scores_without_encoder({"pairs": {"x": few}}).keys() == {"x accuracy"}
    assert scores_without_encoder({"pairs": {"x": few}})["x accuracy"].value == 0.75
    assert scores_without_encoder({"sets": {}}) == {}


@pytest.fixture
def commands(monkeypatch):
    """The processes of a series, run in this one; returns the list of their words."""
    started = []
    mains = {"contrastive.train": train, "contrastive.quality": quality}

    def run_here(command, log):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("its output\n", encoding="utf-8")
        started.append(command[2:])
        return mains[command[2]](command[3:])

    monkeypatch.setattr("experiments.papers.run_process", run_here)
    return started


def test_every_recipe_runs(commands, tiny_model, sample_data, tmp_path, monkeypatch):
    """On few rows, with three steps: the second epoch, where neighbours are sought, has one.

    The flags of each recipe exist, and none of them is without an effect.
    """
    monkeypatch.setattr("contrastive.methods.GUIDED_WIDTH", 64)
    sets = sample_data / "sts-train.csv"
    words = [*RECIPES, "--model", tiny_model, "--sets", sets, "--text", "sts"]
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 .2\na .3 1\nman .5 -1\nwoman -2 .1\n")
    words += ["--word-vectors", vectors]
    words += ["--data-dir", sample_data, "--out", tmp_path / "out", "--seeds", "0"]
    flags = "--with=--steps 3 --rows 16 --batch-size 8 --device cpu --precision fp32"
    assert experiments([str(word) for word in [*words, flags]]) == 0

    table = (tmp_path / "out" / "papers.md").read_text(encoding="utf-8")
    for name, recipe in RECIPES.items():
        lines = [line for line in table.splitlines() if line.startswith(f"| `{name}`")]
        assert len(lines) == (4 if recipe.has_copies else 1), name
        assert not any("nan" in line for line in lines), name


@pytest.mark.parametrize("family", ["roberta", "multilingual"])
def test_rows_of_roberta_and_of_other_languages(
    family, commands, sample_data, tmp_path, monkeypatch
):
    """[SG] tables 2, 3 and 11, [CT] table 3: small random models of both families."""
    pytest.importorskip("transformers", reason="run setup.sh --dev")
    monkeypatch.setattr("contrastive.methods.GUIDED_WIDTH", 64)
    make_model(family, tmp_path / family)
    sets = write_sts_file(tmp_path / "STS12_test.tsv", sample_data)
    names = ["sg-table-1-sg-opt", "ct-table-1"]
    words = [*names, "--model", tmp_path / family, "--sets", sets, "--text", "sts"]
    words += ["--data-dir", sample_data, "--out", tmp_path / "out", "--seeds", "0"]
    flags = "--with=--steps 2 --rows 16 --batch-size 8 --device cpu --precision fp32"
    assert experiments([str(word) for word in [*words, flags]]) == 0
    for folder in ("sg-table-1-sg-opt-seed0/encoder", "ct-table-1-seed0/encoder-first"):
        before = load_file(tmp_path / family / "model.safetensors")
        after = load_file(tmp_path / "out" / folder / "model.safetensors")
        name = next(name for name in after if name.endswith("attention.self.query.weight"))
        assert not torch.equal(after[name], before[name.removeprefix("bert.")])
    assert "nan" not in (tmp_path / "out" / "papers.md").read_text(encoding="utf-8")


def test_a_series_is_trained_measured_and_not_repeated(
    commands, tiny_model, sample_data, tmp_path, capsys
):
    sets = write_sts_file(tmp_path / "STS12_test.tsv", sample_data)
    names = ["sg-table-1-mean", "bsc-one-way", "ct-table-4-random"]
    words = [*names, "--model", tiny_model, "--sets", sets, "--text", "sts"]
    words = [str(word) for word in (*words, "--data-dir", sample_data, "--out", tmp_path / "out")]
    words += ["--rows", "12"]
    # A recipe's own --steps and --rows are replaced, because the last ones count.
    flags = "--with=--steps 2 --rows 40 --batch-size 8 --device cpu --precision fp32"
    assert experiments([*words, "--seeds", "0,1", flags]) == 0
    trained = [command for command in commands if command[0] == "contrastive.train"]
    assert len(trained) == 4, "two methods with two seeds"
    assert len(commands) == 4 + 1 + 2 + 4, "one model as it is, two encoders, two pairs of copies"

    path = tmp_path / "out" / "papers.md"
    table = path.read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if "`" in line}
    assert "(0.309)" in rows["`sg-table-1-mean`"], "the published figure"
    assert "| 2 |" in rows["`bsc-one-way`"] and "[" in rows["`bsc-one-way`"]
    assert {"`ct-table-4-random`, worse copy", "`ct-table-4-random`, difference"} <= set(rows)
    measured = tmp_path / "out" / "measured" / "bsc-one-way-seed1" / "quality.json"
    record = json.loads(measured.read_text(encoding="utf-8"))
    assert record["sets"]["STS12_test"]["rows"] == 12
    score = record["sets"]["STS12_test"]["vectors"]["mean"]["all"]["spearman"]
    assert f"{score:.4f}" in capsys.readouterr().out

    # Nothing is done twice.
    commands.clear()
    assert experiments([*words, "--seeds", "0,1", flags]) == 0
    assert not commands
    assert path.read_text(encoding="utf-8") == table

    # An encoder that was trained again is measured again, and nothing else.
    weights = next((tmp_path / "out" / "bsc-one-way-seed1" / "encoder").glob("*.safetensors"))
    weights.with_name("SHA256SUMS").unlink()
    tensors = load_file(weights)
    name = min(tensors)
    save_file(tensors | {name: tensors[name] + 1}, weights)
    assert experiments([*words, "--seeds", "0,1", flags]) == 0
    assert [command[0] for command in commands] == ["contrastive.quality"]
    commands.clear()

    # Other flags would make another row of the same name.
    other = flags.replace("--steps 2", "--steps 3")
    assert papers.main([*words, "--seeds", "0", other]) == 2
    message = capsys.readouterr().err
    assert "was trained with contrastive_steps 2, and this command asks for 3" in message
    assert not commands


def test_a_record_has_the_states_of_both_copies(
    commands, tiny_model, sample_data, tmp_path, monkeypatch
):
    """Of --layers: each hidden state, and the cosines by label.

    The record of an encoder that is not trained says where it was made, too.
    """
    monkeypatch.setattr(papers, "RECORDS", tmp_path / "records")
    sets = write_sts_file(tmp_path / "sts-dev.tsv", sample_data)
    words = ["--layers", "ct-table-4-random", "ct-table-1-mean", "--model", tiny_model]
    words += ["--sets", sets, "--rows", "12"]
    words += ["--seeds", "0", "--out", tmp_path / "out", "--record"]
    flags = "--with=--steps 1 --rows 40 --batch-size 8 --device cpu --precision fp32"
    assert experiments([str(word) for word in [*words, flags]]) == 0
    record, untuned = read_records(tmp_path / "records" / "papers.jsonl")
    for receipts in (record, record["measured_by"], untuned, untuned["measured_by"]):
        assert {"command", "code", "versions", "machine"} <= receipts.keys()
    assert (
        untuned["command"]
        == f"{Path(tiny_model).name} --sets sts-dev.tsv --rows 12 --layers --pooling mean"
    )
    assert untuned["row_groups"] == {"sts-dev": 12, "sts-dev Pearson": 12}
    assert 0 < untuned["row_errors"]["encoder"]["sts-dev"] < 0.5
    for copy in COPIES:
        path = tmp_path / "out" / "measured" / f"ct-table-4-random-seed0-{copy}" / "quality.json"
        of_set = json.loads(path.read_text(encoding="utf-8"))["sets"]["sts-dev"]
        states = record["states"][copy]
        assert states["layers"] == of_set["layers"]
        means = [bucket["mean"] for bucket in of_set["buckets"]]
        assert [bucket["mean"] for bucket in states["buckets"]] == means


def test_rows_of_transfer_tasks(commands, tiny_model, sample_data, tmp_path, monkeypatch):
    """[SG] table 4 and [CT] table 8. The search for a strength has tests of its own."""
    monkeypatch.setattr("contrastive.methods.GUIDED_WIDTH", 64)
    chosen = []
    monkeypatch.setattr(
        "contrastive.quality.senteval.best_strength",
        lambda features, labels, strengths, fit, num_folds: chosen.append(1) or strengths[0],
    )
    write_toolkit(tmp_path)
    text = tmp_path / "nli.txt"
    text.write_text("".join(f"the dog {n} is here\n" for n in range(24)), encoding="utf-8")
    names = ["sg-table-4-mean", "sg-table-4-sg-opt", "ct-table-1"]
    words = [*names, "--model", tiny_model, "--senteval", tmp_path, "--text", text]
    words += ["--data-dir", sample_data, "--out", tmp_path / "out", "--seeds", "0"]
    flags = "--with=--steps 2 --batch-size 8 --device cpu --precision fp32"
    assert experiments([str(word) for word in [*words, flags]]) == 0
    # Four tasks of ten folds and two with a test file, for four encoders.
    assert len(chosen) == 4 * (4 * 10 + 2)
    table = (tmp_path / "out" / "papers.md").read_text(encoding="utf-8")
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    assert len(lines) == 2 + 4 and "nan" not in table
    assert "(0.859)" in lines[0] and "(0.866)" in lines[1], "the published averages"
    path = tmp_path / "out" / "measured" / "sg-table-4-mean" / "quality.json"
    tasks = json.loads(path.read_text(encoding="utf-8"))["senteval"]
    assert list(tasks) == list(RECIPES[names[0]].sets)
    assert tasks["MR"]["accuracy"] > 0.9, "a word tells its classes apart"


def test_a_folder_of_sts_is_several_measured_files(tmp_path):
    """Two years have subsets of one name, and a record has the digests of both."""
    folder = write_sts_folder(tmp_path)
    options = papers.PapersOptions(names=["ct-table-1-mean"], sets=[folder])
    names = [path.name for path in options.measured_files()]
    assert names == [
        "STS.input.MSRpar.txt",
        "STS.gs.MSRpar.txt",
        "STS.input.surprise.OnWN.txt",
        "STS.gs.surprise.OnWN.txt",
    ]
    assert paper_name(folder.name) == "STS12"


def test_after_a_failure_the_same_command_is_advised_only_where_it_helps(
    commands, tiny_model, tmp_path, capsys
):
    """A file that lacks a column fails again. Mended, the same command works."""
    sets = tmp_path / "own.tsv"
    sets.write_text("a\tb\n1\t2\n")
    words = ["sg-table-1-mean", "--model", str(tiny_model), "--sets", str(sets)]
    words += ["--out", str(tmp_path / "out")]
    assert papers.main(words) == 2
    said = capsys.readouterr().err
    assert "ended with code 2; its message is above" in said
    assert said.endswith("Correct what the message names. Then start the same command again.\n")
    rows = "a dog\ta cat\t1\nthe sun\ta star\t4\na man\ta boy\t3\n"
    sets.write_text(f"sentence1\tsentence2\tscore\n{rows}")
    assert papers.main(words) == 0

    # Whitening needs more sentences than a vector has coordinates.
    sets.write_text(f"sentence1\tsentence2\tscore\n{rows}x y\tz\t2\n")
    words[0] = "sg-table-1-whitening"
    assert papers.main([*words, "--rows", "3"]) == 2
    assert "Pass a larger file, or more --rows." in capsys.readouterr().err
    words_of = ["cat", "dog", "sun", "star", "man", "boy", "girl", "house"]
    many = [f"a {a} {b}\tthe {b} of {a}\t{len(a + b) % 5}\n" for a in words_of for b in words_of]
    sets.write_text("sentence1\tsentence2\tscore\n" + "".join(many))
    assert papers.main([*words[:-1], str(tmp_path / "more"), "--rows", "60"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sg-table-1-sgopt", "--sets", "a"], "Did you mean sg-table-1-sg-opt?"),
        (["sg-table-1-sg"], "there is nothing to measure on"),
        (["ct-table-1", "--sets", "a"], "is trained on text of your choice"),
        (["sg-table-1-sg", "--text", "a", "--sets", "a"], "--text has no effect"),
        (["sg-table-1-wk", "--ranking", "a"], "that only --sets measures"),
        (["sg-table-1-sg", "--sets", "a", "--with=--stps 3"], "unknown flag --stps"),
        (["sg-table-1-sg", "--sets", "a", "--senteval", "b"], "have averages of their own"),
        (["rob-5", "sg-table-1-sg", "--sets", "a"], "rob-5 is a recipe of run_multitask.py"),
        (["sg-table-1-sg", "--ranking", "a", "--rows", "9"], "--rows has no effect"),
        (["sg-table-1-sg", "--ranking", "a", "--layers"], "--layers has no effect"),
        ([], "NAME is missing"),
    ],
)
def test_what_is_refused(words, message, capsys, commands):
    try:
        code = papers.main(words)
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not commands


def test_a_recipe_is_found_by_its_name():
    assert find_recipe("bsc-symmetric").method == "bsc"
    assert papers.is_for_papers(["bsc-symmetric", "--seeds", "0"])
    assert papers.is_for_papers(["--seeds", "0", "bsc-symmetric"])
    assert papers.is_for_papers(["rob-5", "bsc-symmetric"])
    assert not papers.is_for_papers(["rob-5", "--out", "bsc-symmetric"])
    assert not papers.is_for_papers(["rob-5"]) and not papers.is_for_papers([])


def test_the_files_of_senteval_are_measured_files(tmp_path):
    """So a record has their digests, and other files are measured anew."""
    file = tmp_path / "downstream" / "SST" / "binary" / "sentiment-dev"
    file.parent.mkdir(parents=True)
    file.write_text("good\t1\n")
    for folder in (tmp_path, tmp_path / "downstream"):
        options = papers.PapersOptions(names=["sg-table-4-mean"], senteval=folder)
        assert options.measured_files() == [file]
