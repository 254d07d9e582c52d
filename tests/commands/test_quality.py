"""contrastive/quality/measurement.py, pages.py and survey.py: the command on a tiny model, its files, what it refuses.

The pictures of --report, of a map and of training, are in test_maps.py.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from contrastive.quality import page as pages
from contrastive.quality.__main__ import by_name, main
from contrastive.quality.measurement import measure_set, measure_transfer, score_vectors
from contrastive.zero_shot import embed, sts_quality
from data.batching import EncodedExamples
from data.sentence_sets import read_labelled, read_pairs
from minbert import BertModel, BertTokenizer
from minbert.pooling import save_pooling
from tests.commands.test_ending import HEAVY
from tests.report_reader import Page, markdown_cells

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["mean", "[CLS]", "first-last mean", "WK", "mean, whitened", "first-last mean, whitened"]


@pytest.fixture(scope="module", autouse=True)
def _fast(no_fsync):
    """Nothing here pulls a plug."""


@pytest.fixture(scope="module")
def model(tiny_model):
    return BertModel.from_pretrained(tiny_model), BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def sts_file(sample_data, tmp_path_factory):
    """The sample's STS dev rows as a plain file with subsets: 11, 11, and 2 that make no correlation."""
    path = tmp_path_factory.mktemp("sets") / "pairs.tsv"
    rows = ["score\tsentence1\tsentence2\tsubset"]
    for number, each in enumerate(read_pairs(sample_data / "sts-dev.csv").examples):
        rows.append(
            f"{each.label}\t{each.sentence_1}\t{each.sentence_2}\t{('news', 'forum', 'rest')[number // 11]}"
        )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sst_file(tmp_path_factory):
    """40 sentences of two classes, which a word tells apart."""
    path = tmp_path_factory.mktemp("classes") / "films.tsv"
    rows = [
        f"{('bad', 'good')[number % 2]}\tthe film number {number} is {('slow', 'fresh')[number % 2]}"
        for number in range(40)
    ]
    path.write_text("\n".join(["label\tsentence", *rows]) + "\n", encoding="utf-8")
    return path


def options(**changes) -> argparse.Namespace:
    return argparse.Namespace(
        **{
            "pooling": "mean",
            "baselines": False,
            "range": None,
            "precision": "fp32",
            "max_length": 64,
            "batch_size": 7,
            "folds": 4,
            "seed": 1,
        }
        | changes
    )


@pytest.fixture(scope="module")
def record(model, sts_file):
    return measure_set(*model, read_pairs(sts_file), options(baselines=True), with_layers=True)


# --- measure ------------------------------------------------------------------------------------


def test_the_own_vector_scores_as_in_the_contrastive_stage(model, sts_file, record):
    rows = EncodedExamples(read_pairs(sts_file).examples, model[1], 64, pair_encoding="bi")
    expected = sts_quality(model[0], rows, "mean", "fp32")
    own = record["vectors"]["mean"]
    assert own["all"] == pytest.approx(
        {key: expected[key] for key in ("spearman", "pearson")}, abs=1e-5
    )
    assert own["alignment"] == pytest.approx(expected["alignment"], abs=1e-5)
    assert own["uniformity"] == pytest.approx(expected["uniformity"], abs=1e-5)
    assert list(record["vectors"]) == KINDS[:4] + [
        name for name in KINDS[4:] if name not in record["left_out"]
    ]
    assert own["subsets"]["rest"] is None and own["subsets"]["news"]["rows"] == 11
    assert record["rows"] == 24 and record["range"] == [0, 5] and record["truncated"] == 0
    assert sum(bucket["rows"] for bucket in record["buckets"]) == 24
    json.dumps(record, allow_nan=False)


def test_the_last_state_of_the_survey_is_the_own_vector(record):
    assert {name: len(values) for name, values in record["layers"].items()} == {
        "cls": 3,
        "mean": 3,
        "max": 3,
    }
    for pooling, kind in (("mean", "mean"), ("cls", "[CLS]")):
        assert record["layers"][pooling][2] == pytest.approx(
            record["vectors"][kind]["all"]["spearman"], abs=1e-5
        )
    assert record["layers"]["cls"][0] == 0  # the embedding of [CLS] is the same in every sentence
    assert len({round(value, 6) for values in record["layers"].values() for value in values}) > 5


def test_the_batch_size_does_not_matter(model, sts_file, record):
    other = measure_set(
        *model, read_pairs(sts_file), options(baselines=True, batch_size=64), with_layers=True
    )
    for kind, scores in record["vectors"].items():
        assert other["vectors"][kind]["all"] == pytest.approx(scores["all"], abs=1e-4), kind
    assert other["layers"]["max"] == pytest.approx(record["layers"]["max"], abs=1e-4)


def test_the_precision_is_the_one_asked_for(model, sts_file, record):
    rounded = measure_set(
        *model, read_pairs(sts_file), options(precision="bf16"), with_layers=False
    )
    assert rounded["vectors"]["mean"]["uniformity"] != record["vectors"]["mean"]["uniformity"]


def test_whitening_needs_more_sentences_than_units(model, sts_file, record, tmp_path):
    assert record["sentences"] > 32 and "mean, whitened" in record["vectors"]
    short = tmp_path / "short.tsv"
    short.write_text(
        "".join(sts_file.read_text(encoding="utf-8").splitlines(keepends=True)[:11]),
        encoding="utf-8",
    )
    found = measure_set(*model, read_pairs(short), options(baselines=True), with_layers=False)
    assert (
        list(found["vectors"]) == KINDS[:4]
        and list(found["left_out"]) == KINDS[4:]
        and "layers" not in found
    )
    assert "for 32 units" in found["left_out"]["mean, whitened"]


def test_scores_of_made_up_vectors():
    """Cosines 1, .6, 0 for labels 5, 3, 0: alignment of the one pair above 4 is 0; nothing is above 5."""
    vectors = torch.tensor([[1.0, 0], [1, 0], [1, 0], [2, 0], [0.6, 0.8], [0, 3]])
    cosines, found = score_vectors(vectors, np.array([5.0, 3, 0]), None, 4.0)
    assert (
        cosines == pytest.approx([1, 0.6, 0]) and found["alignment"] == 0 and found["subsets"] == {}
    )
    assert found["all"]["spearman"] == pytest.approx(1) and list(found) == [
        "all",
        "subsets",
        "alignment",
        "uniformity",
    ]
    assert score_vectors(vectors, np.array([5.0, 3, 0]), None, 5.0)[1]["alignment"] is None


def test_transfer_of_frozen_vectors(model, sst_file):
    sentences = read_labelled(sst_file, 4)
    before = {name: tensor.clone() for name, tensor in model[0].state_dict().items()}
    found = measure_transfer(*model, sentences, options())
    assert found["rows"] == 40 and found["classes"] == ["bad", "good"] and found["majority"] == 0.5
    assert len(found["of_folds"]) == 4 and found["accuracy"] == pytest.approx(
        np.mean(found["of_folds"])
    )
    assert found["accuracy"] > 0.8
    assert all(torch.equal(tensor, before[name]) for name, tensor in model[0].state_dict().items())


def test_the_deviation_is_that_of_a_sample_of_folds(model, sst_file, monkeypatch):
    monkeypatch.setattr(
        "contrastive.quality.measurement.transfer_accuracies", lambda *_: np.array([0.5, 0.75])
    )
    assert measure_transfer(*model, read_labelled(sst_file, 4), options())[
        "deviation"
    ] == pytest.approx(0.25 / 2**0.5)


# --- pages --------------------------------------------------------------------------------------


def test_the_overview_by_hand():
    def scores(spearman):
        return {"all": {"spearman": spearman, "pearson": 0.1}}

    sets = {
        "A": {
            "vectors": {"mean": scores(0.5), "WK": scores(0.25)},
            "left_out": {"mean, whitened": "too few"},
        },
        "B": {"vectors": {"mean": scores(0.25)}, "left_out": {}},
    }
    section = pages.overview_section(
        {"sets": sets, "pooling": "mean", "precision": "fp32", "max_length": 64}
    )
    assert section.body.header == ("sentence vector", "A", "B", "average")
    assert section.body.rows == (("mean", "0.5000", "0.2500", "0.3750"), ("WK", "0.2500", "–", "–"))
    assert "A: no mean, whitened (too few)." in section.prose


def test_the_heat_map_by_hand():
    """0.2 to 0.4 fill the scale; the 0 of [CLS] among the embeddings is below it and does not stretch it."""
    section = pages.layer_section("A", {"cls": [0.0, 0.25], "mean": [0.2, 0.4], "max": [0.3, 0.2]})
    assert section.body.rows == (
        ("0 (embeddings)", "0.0000", "0.2000", "0.3000"),
        ("1", "0.2500", "0.4000", "0.2000"),
    )
    assert section.body.shades == (pytest.approx((0, 0, 0, 0.5)), pytest.approx((0, 0.25, 1, 0)))
    assert "Highest: state 1, mean, 0.4000." in section.prose
    assert pages.layer_section("A", {"mean": [0.5]}).body.shades == ((0.0, 0.0),)


def test_buckets_become_boxes():
    buckets = [
        {
            "low": 1.0,
            "high": 3.0,
            "rows": 2,
            "mean": 0.5,
            "deviation": 0.1,
            "quantiles": [-0.25, 0.4, 0.5, 0.6, 0.7],
        },
        {"low": 3.0, "high": 5.0, "rows": 0, "mean": None, "deviation": None, "quantiles": None},
    ]
    bands = {
        "edges": [-0.25, 0.5, 1.0],
        "bands": [1.0, 3.0, 5.0],
        "rows": [2, 0],
        "shares": [[0.25, 0.75], [0, 0]],
    }
    panels = pages.bucket_section(
        "A", {"buckets": buckets, "range": [1.0, 5.0], "vectors": {"mean": {}}, "histogram": bands}
    ).body
    body, ridges = panels.pictures
    assert ridges.x_ticks == [-0.4, -0.2, 0, 0.2, 0.4, 0.6, 0.8, 1] and ridges.y_ticks == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert ridges.notes[0] == "label 1 to 3: 2 pairs, most often a cosine of 0.50 to 1.00"
    assert panels.summary == body.summary
    assert body.edges == [1, 3, 5] and body.x_ticks == [1, 2, 3, 4, 5]
    assert body.y_ticks == [-0.4, -0.2, 0, 0.2, 0.4, 0.6, 0.8, 1]
    assert body.summary.rows[0] == (
        "1 to 3",
        "2",
        "0.500",
        "0.100",
        "-0.250",
        "0.400",
        "0.500",
        "0.600",
        "0.700",
    )
    assert body.summary.rows[1] == ("3 to 5", "0", *["–"] * 7)
    assert body.notes == (
        "label 1 to 3: 2 pairs, median cosine 0.500, middle half 0.400 to 0.600",
        "",
    )


# --- the command --------------------------------------------------------------------------------


def test_the_command_writes_what_it_prints(
    capsys, tiny_model, sample_data, sts_file, sst_file, tmp_path
):
    out = tmp_path / "deep" / "folder"
    assert (
        main(
            [
                str(tiny_model),
                "--sets",
                str(sts_file),
                str(sample_data / "sts-dev.csv"),
                "--transfer",
                str(sst_file),
                "--baselines",
                "--out",
                str(out),
                "--report",
                str(out / "page.html"),
                "--device",
                "cpu",
                "--folds",
                "2",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    record = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    page, text = (
        Page((out / "page.html").read_text(encoding="utf-8")),
        (out / "quality.md").read_text("utf-8"),
    )
    assert not page.faults and page.count("svg") == 5  # boxes and histograms of two sets, one map
    assert page.texts["h3"][:3] == ["Spearman", "Pearson", "pairs by subset"]
    assert page.texts["h2"] == [
        "Sets",
        "Correlations",
        "Alignment and uniformity",
        "Cosines by label",
        "Layer by pooling, pairs",
        "Map of pairs",
        "Transfer",
    ]
    assert list(record["sets"]) == ["pairs", "sts-dev"] and list(record["transfer"]) == ["films"]
    assert "layers" in record["sets"]["pairs"] and "layers" not in record["sets"]["sts-dev"]
    # The same rows from two files: the same score over all, but only the file with subsets has the other conventions.
    own = [record["sets"][name]["vectors"]["mean"] for name in ("pairs", "sts-dev")]
    assert (
        own[0]["all"] == own[1]["all"]
        and "weighted mean" in own[0]
        and "weighted mean" not in own[1]
    )
    shown = f"{own[0]['all']['spearman']:.4f}"
    assert page.tables[0][1][:3] == ["mean", shown, shown]
    line = next(line for line in text.splitlines() if line.startswith("| mean |"))
    assert markdown_cells(line)[:3] == ["mean", shown, shown]
    assert f"mean: mean {shown}" in " ".join(printed.replace("mean  ", "mean: mean ").split())
    for words in (
        "device: cpu",
        "pooling: mean (its folder notes none)",
        "24 rows read",
        "page.html",
        "quality.json",
    ):
        assert words in printed


def test_the_first_number_by_another_way(tiny_model, sts_file, model, tmp_path):
    assert (
        main([str(tiny_model), "--sets", str(sts_file), "--pooling", "cls", "--out", str(tmp_path)])
        == 0
    )
    found = json.loads((tmp_path / "quality.json").read_text(encoding="utf-8"))["sets"]["pairs"][
        "vectors"
    ]
    examples = read_pairs(sts_file).examples
    u, v = (
        embed(model[0], EncodedExamples(examples, model[1], 128, "bi"), "cls", "fp32")
        .double()
        .chunk(2)
    )
    cosines = (u * v).sum(1) / u.norm(dim=1) / v.norm(dim=1)
    expected = spearmanr(cosines, [each.label for each in examples]).statistic
    assert list(found) == ["[CLS]"] and found["[CLS]"]["all"]["spearman"] == pytest.approx(
        expected, abs=1e-5
    )


def test_auto_is_the_vector_that_the_encoder_was_trained_for(capsys, model, sts_file, tmp_path):
    model[0].save_pretrained(tmp_path)
    model[1].save_pretrained(tmp_path)
    save_pooling(tmp_path, "cls")
    assert main([str(tmp_path), "--sets", str(sts_file)]) == 0
    assert "pooling: cls (the model was trained for it)" in capsys.readouterr().out
    assert main([str(tmp_path), "--sets", str(sts_file), "--pooling", "mean"]) == 0
    assert "pooling: mean (the model was trained for cls)" in capsys.readouterr().out
    save_pooling(tmp_path, "median")
    assert main([str(tmp_path), "--sets", str(sts_file)]) == 2
    assert (
        "sentence.json: names no pooling (it is none of mean, cls, pooler)"
        in capsys.readouterr().err
    )


def test_help_answers_without_torch():
    command = [sys.executable, "-X", "importtime", "-m", "contrastive.quality", "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "--baselines" in result.stdout
    loaded = {
        line.rsplit("|", 1)[-1].strip().split(".")[0]
        for line in result.stderr.splitlines()
        if "|" in line
    }
    assert not loaded & HEAVY


REFUSED = [
    ([], "there is nothing to measure on; needed is --sets FILE"),
    (["--transfer", "SST", "--layers"], "--layers has no effect without --sets"),
    (["--transfer", "SST", "--range", "0", "5"], "--range has no effect without --sets"),
    (["--sets", "STS", "--max-length", "2"], "--max-length is 2; pass a whole number of 3 or more"),
    (
        ["--sets", "STS", "--max-length", "129"],
        "--max-length is 129; MODEL has 128 positions. Pass at most that",
    ),
    (["--sets", "STS", "--batch-size", "0"], "--batch-size is 0"),
    (
        ["--sets", "STS", "--range", "5", "0"],
        "--range is 5 0; needed is the lowest label and then the highest",
    ),
    (
        ["--sets", "STS", "--range", "5", "5"],
        "--range is 5 5; needed is the lowest label and then the highest",
    ),
    (
        ["--sets", "STS", "--range", "1", "5"],
        "labels are 0 to 5, and --range is 1 to 5. Give a range that holds them",
    ),
    (["--sets", "STS", "STS"], "is given twice"),
    (["--sets", "gone.tsv"], "gone.tsv: cannot be read (No such file or directory)"),
    (
        ["--transfer", "SST", "--seed", "4294967296"],
        "--seed is 4294967296; pass a whole number below 4294967296.",
    ),
    (
        ["--transfer", "SST", "--folds", "30"],
        "sentences of class 'bad'; expected are two classes at least",
    ),
    (["--sets", "SST"], "the header has no column score, sentence1, sentence2"),
    (["--sets", "STS", "--out", "STS"], "is a file. Choose another folder"),
    (["--sets", "STS", "--report", "STS/page.html"], "is a file. Choose another folder"),
    (["--sets", "STS", "--device", "mps"], "--device mps: torch"),
    (
        ["--sets", "STS", "--folds", "5"],
        "--folds and --seed have no effect without --transfer; add that or drop them.",
    ),
    (
        ["--sets", "STS", "--report", "page.pdf"],
        "--report is page.pdf; needed is a file whose name ends in .html",
    ),
    (["--sets", "STS", "--before", "minbert-mini"], "--before has no effect without --report"),
    (
        ["--transfer", "SST", "--report", "x.html", "--before", "minilm"],
        "--before has no effect without --sets",
    ),
    (
        ["--sets", "STS", "--report", "x.html", "--before", "minbert-mini"],
        " units, and MODEL has 32; needed is the encoder that its training started from",
    ),
    (["--sets", "STS", "--report", "x.html", "--before", "./gone"], "./gone: no such folder"),
]


@pytest.mark.parametrize(("flags", "complaint"), REFUSED)
def test_bad_input_is_refused(capsys, tiny_model, sts_file, sst_file, flags, complaint):
    paths = {"STS": str(sts_file), "SST": str(sst_file), "STS/page.html": f"{sts_file}/page.html"}
    if "mps" in flags and torch.backends.mps.is_available():
        pytest.skip("this machine has an Apple GPU")
    assert main([str(tiny_model), *(paths.get(flag, flag) for flag in flags)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("python -m contrastive.quality: ")
    assert complaint.replace("MODEL", str(tiny_model)) in said


def test_a_random_pooler_is_refused(capsys, sts_file):
    assert main(["minbert-mini", "--sets", str(sts_file), "--pooling", "pooler"]) == 2
    assert "minbert-mini holds no weights for it" in capsys.readouterr().err


def test_files_of_one_name_keep_their_folders():
    assert by_name([Path("a/x.tsv"), Path("b/x.tsv"), Path("b/y.tsv")]) == {
        "a/x.tsv": Path("a/x.tsv"),
        "b/x.tsv": Path("b/x.tsv"),
        "y": Path("b/y.tsv"),
    }
