"""contrastive/quality/pair_map.py and the page of --report: the pairs chosen, their map, the chapter on a stage's training."""

import argparse
import json
import shutil

import numpy as np
import pytest
import torch
from sklearn.manifold import TSNE

from contrastive.quality import page as pages
from contrastive.quality.__main__ import main, read_training
from contrastive.quality.pair_map import choose_pairs, measure_map, project
from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.sentence_sets import read_pairs
from minbert import BertModel, BertTokenizer
from tests.report_reader import Page

SCORES = ("spearman", "pearson", "alignment", "uniformity")
OPTIONS = argparse.Namespace(pooling="mean", precision="fp32", max_length=64, batch_size=7)


@pytest.fixture(scope="module", autouse=True)
def _fast(no_fsync):
    """Nothing here pulls a plug."""


@pytest.fixture(scope="module")
def model(tiny_model):
    return BertModel.from_pretrained(tiny_model), BertTokenizer.from_pretrained(tiny_model)


def training(**changes) -> dict:
    """Before, three evaluations of which the second is the best, after."""
    history = [
        {"epoch": 1, "step": step, "loss": loss, **dict(zip(SCORES, scores, strict=True))}
        for step, loss, scores in (
            (10, 2.0, (0.4, 0.5, 0.6, -1.0)),
            (20, 0.5, (0.6, 0.5, 0.4, -2.0)),
            (30, 0.00025, (0.5, 0.5, 0.5, -3.0)),
        )
    ]
    return {
        "before": dict(zip(SCORES, (0.3, 0.2, 0.1, -0.5), strict=True)),
        "is_kept": True,
        "history": history,
        "after": {name: history[1][name] for name in SCORES},
    } | changes


# --- which pairs --------------------------------------------------------------------------------


def test_the_highest_and_the_lowest_labels_are_chosen():
    positive, negative = choose_pairs(np.array([5.0, 1, 3, 0, 4, 2.4, 2.6]), 2)
    assert positive.tolist() == [0, 4] and negative.tolist() == [1, 3]


def test_equal_labels_are_chosen_at_even_distances():
    """One label stands above the 5s; the other three come from nine 5s, which are rows 0 to 8: 0, 3 and 6."""
    positive, negative = choose_pairs(np.array([5.0] * 9 + [5.5] + [1] * 8), 4)
    assert positive.tolist() == [0, 3, 6, 9] and negative.tolist() == [10, 12, 14, 16]


def test_no_pair_is_both_and_there_are_as_many_of_each():
    positive, negative = choose_pairs(np.array([0.0, 0, 0, 0, 0, 5, 2.5]))
    assert positive.tolist() == [5] and negative.tolist() == [0]
    for seed in range(20):
        labels = np.random.default_rng(seed).integers(0, 6, 100).astype(float)
        positive, negative = choose_pairs(labels)
        assert (
            len(set(positive)) == len(set(negative)) == 20
            and labels[positive].min() > labels[negative].max()
        )


# --- where they stand ---------------------------------------------------------------------------


def test_a_map_is_t_sne_of_normalised_vectors_and_always_the_same():
    vectors = np.random.default_rng(0).normal(size=(30, 8))
    points = project(vectors)
    assert points.shape == (30, 2) and np.isfinite(points).all()
    assert np.array_equal(points, project(vectors)) and np.array_equal(
        points, project(4 * vectors)
    )  # 4 is exact
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    other = TSNE(perplexity=8.0, init="pca", method="exact", random_state=0).fit_transform(units)
    assert np.allclose(points, other, atol=1e-4 * np.abs(other).max())
    assert not np.allclose(points, project(np.roll(vectors, 1, axis=1) ** 3))


def test_who_lies_together_stands_together():
    """Two bundles of directions: a point's nearest neighbour on the map is of its own bundle."""
    centres = np.repeat(np.eye(6)[:2], 10, axis=0)
    points = project(centres + 0.05 * np.random.default_rng(1).normal(size=(20, 6)))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(20)
    assert ((distances.argmin(axis=1) < 10) == (np.arange(20) < 10)).all()


def test_few_points_and_equal_vectors_have_a_map():
    assert np.isfinite(project(np.random.default_rng(0).normal(size=(4, 8)))).all()
    assert np.array_equal(project(np.ones((4, 8))), np.zeros((4, 2)))


def test_the_record_of_a_map_by_another_way(model, sample_data):
    pairs = read_pairs(sample_data / "sts-dev.csv")
    other = BertModel(model[0].config)
    found = measure_map({"before": (other, model[1]), "after": model}, "dev", pairs, OPTIONS)
    labels = [pair["label"] for pair in found["pairs"]]
    kinds = [pair["is_positive"] for pair in found["pairs"]]
    count = len(labels) // 2
    assert kinds == [True] * count + [False] * count and min(labels[:count]) > max(labels[count:])
    examples = [
        next(
            each
            for each in pairs.examples
            if (each.sentence_1, each.sentence_2) == (pair["sentence_1"], pair["sentence_2"])
        )
        for pair in found["pairs"]
    ]
    vectors = embed(
        model[0], EncodedExamples(examples, model[1], 64, "bi"), "mean", "fp32"
    ).double()
    cosines = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    beside = [0, 0]
    for row in range(4 * count):
        partner = (row + 2 * count) % (4 * count)
        nearest = max(cosines[row, column] for column in range(4 * count) if column != row)
        beside[row % (2 * count) >= count] += int(cosines[row, partner] >= nearest - 1e-9)
    after = found["maps"]["after"]
    assert after["beside"] == beside and after["beside"] != [0, 0]
    own = torch.stack([cosines[row, row + 2 * count] for row in range(2 * count)])
    assert after["cosine"] == pytest.approx(
        [float(own[:count].mean()), float(own[count:].mean())], abs=1e-6
    )
    points = np.array(after["points"])  # (2K, 2, 2): both sentences of a pair stand in its row
    assert points.shape == (2 * count, 2, 2)
    # fp32 vectors of other batches: measured below 1e-3 of the map's size
    assert np.allclose(
        points,
        project(vectors.numpy()).reshape(2, -1, 2).swapaxes(0, 1),
        atol=0.05 * np.ptp(points),
    )
    assert found["maps"]["before"]["points"] != after["points"] and list(found["maps"]) == [
        "before",
        "after",
    ]
    assert found == measure_map(
        {"before": (other, model[1]), "after": model}, "dev", pairs, OPTIONS
    )
    json.dumps(found, allow_nan=False)


# --- sections -----------------------------------------------------------------------------------


def test_a_map_s_section_by_hand():
    pairs = [
        {"label": 5.0, "sentence_1": "a", "sentence_2": "b", "is_positive": True},
        {"label": 0.5, "sentence_1": "c", "sentence_2": "d", "is_positive": False},
    ]
    of_map = {
        "points": [[[0, 0], [1, 1]], [[2, 2], [3, 3]]],
        "cosine": [0.98765, -0.5],
        "beside": [2, 0],
    }
    alone = pages.map_section({"set": "dev", "pairs": pairs, "maps": {"": of_map}}, None)
    assert alone.body.summary.header == ("pairs", "number", "labels", "mean cosine", "nearest")
    assert alone.body.summary.rows == (
        ("positive", "1", "5", "0.988", "2 of 2"),
        ("negative", "1", "0.5", "-0.500", "0 of 2"),
    )
    assert (
        "--before MODEL adds" in alone.prose and "Only who lies beside whom counts" in alone.prose
    )
    assert alone.body.pictures[0].notes == ("label 5: a / b", "label 0.5: c / d")
    both = pages.map_section(
        {"set": "dev", "pairs": pairs, "maps": {"before": of_map, "after": of_map}}, "start"
    )
    assert [picture.title for picture in both.body.pictures] == [
        "before",
        "after",
    ] and "Before is start." in both.prose
    assert both.body.summary.header[3:] == (
        "mean cosine, before",
        "mean cosine, after",
        "nearest, before",
        "nearest, after",
    )


def test_training_by_hand():
    chapter, way, curves = pages.training_sections(training())
    assert "Spearman of dev went from 0.3000 to 0.6000." in chapter.prose and chapter.level == 2
    (path,) = way.body.pictures
    assert path.x == [-0.5, -1, -2, -3] and path.y == [0.1, 0.6, 0.4, 0.5] and path.marked == 2
    assert (path.x_label, path.y_label) == ("uniformity", "alignment")
    assert path.names == ("before", "1", "2 = after", "3")
    assert path.notes[1] == "1, step 10: alignment 0.6000, uniformity -1.0000"
    assert way.body.summary.rows == (
        ("before", "0.1000", "-0.5000"),
        ("after", "0.4000", "-2.0000"),
    )
    loss, score = curves.body.pictures
    assert (loss.x, loss.y, loss.marked) == (
        [10, 20, 30],
        [2, 0.5, 0.00025],
        1,
    ) and loss.y_label == "loss"
    assert (score.x, score.y, score.marked) == ([0, 10, 20, 30], [0.3, 0.4, 0.6, 0.5], 2)
    assert loss.x_ticks == score.x_ticks and loss.x_ticks[0] == 0
    assert curves.body.summary.rows[0] == (
        "before",
        "0",
        "–",
        "0.3000",
        "0.2000",
        "0.1000",
        "-0.5000",
    )
    assert curves.body.summary.rows[3] == (
        "3",
        "30",
        "0.00025",
        "0.5000",
        "0.5000",
        "0.5000",
        "-3.0000",
    )


def test_training_that_was_not_kept_says_so():
    chapter, *_ = pages.training_sections(training(is_kept=False))
    assert "so the encoder in the folder is the one from before" in chapter.prose


def test_both_copies_of_contrastive_tension_stand_in_the_table():
    found = training()
    for number, point in enumerate(found["history"]):
        point |= {"spearman_first": 0.1 * number, "spearman_second": 0.5}
    grid = pages.training_sections(found)[-1].body.summary
    assert grid.header[-2:] == ("spearman_first", "spearman_second")
    assert [row[-2:] for row in grid.rows][:3] == [
        ("–", "–"),
        ("0.0000", "0.5000"),
        ("0.1000", "0.5000"),
    ]


def test_a_stage_without_alignment_has_curves_only():
    history = [
        {
            "epoch": 1,
            "step": 5 * number,
            "loss": 3.0,
            "held_out_loss": loss,
            "masked_accuracy": 0.25,
        }
        for number, loss in ((1, 2.0), (2, 1.5), (3, 1.75))
    ]
    scores = {"held_out_loss": 2.5, "masked_accuracy": 0.125}
    sections = pages.training_sections(
        {"before": scores, "after": scores, "is_kept": True, "history": history}
    )
    assert [section.title for section in sections] == ["Training", "Loss and dev score"]
    assert sections[1].body.pictures[1].y == [2.5, 2.0, 1.5, 1.75]
    assert sections[1].body.pictures[1].y_label == "held-out loss of dev"
    assert [row[0] for row in sections[1].body.summary.rows] == [
        "before",
        "1",
        "2 = after",
        "3",
    ]  # the lowest


# --- the command --------------------------------------------------------------------------------


def test_the_page_of_a_stage_s_folder(capsys, make_stages, sample_data, tiny_model, tmp_path):
    """A real stage: its own stage.json, the encoder that it started from, every picture, twice the same bytes."""
    stage = make_stages("simcse")[0]
    stage.train(is_resumed=False)
    flags = [
        str(stage.folder),
        "--sets",
        str(sample_data / "sts-dev.csv"),
        "--before",
        str(tiny_model),
        "--device",
        "cpu",
        "--report",
    ]
    for name in ("one.html", "two.html"):
        assert main([*flags, str(tmp_path / name)]) == 0
    assert f"{tmp_path / 'one.html'}" in capsys.readouterr().out
    text = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.html").read_text(encoding="utf-8")
    page = Page(text)
    assert (
        not page.faults and page.count("svg") == 7
    )  # boxes, histograms, two maps, the way, loss, score
    assert page.texts["h2"][-3:] == ["Layer by pooling, sts-dev", "Map of pairs", "Training"]
    history = json.loads((stage.folder / "stage.json").read_text(encoding="utf-8"))["history"]
    assert [row[1] for row in page.tables[-1][2:]] == [f"{entry['step']:,}" for entry in history]
    assert [row[3] for row in page.tables[-1][2:]] == [
        f"{entry['spearman']:.4f}" for entry in history
    ]
    assert not list(tmp_path.glob("quality*"))


def test_a_folder_without_stage_json_has_no_chapter_on_training(tiny_model, sample_data, tmp_path):
    assert read_training(str(tiny_model)) == {}
    assert (
        main(
            [
                str(tiny_model),
                "--sets",
                str(sample_data / "sts-dev.csv"),
                "--report",
                str(tmp_path / "a.html"),
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "Training" not in page.texts["h2"] and page.count("svg") == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        (json.dumps({"before": {}}), "KeyError: 'after'"),
        (json.dumps(training(history=[])), "no evaluations"),
        (json.dumps(training(before={"f1": 0.5})), "or none with"),
        (json.dumps(training(after={"spearman": 0.5})), "KeyError: 'pearson'"),
        (json.dumps(training(after=dict.fromkeys(SCORES, "high"))), "a score that is no number"),
        (
            json.dumps(training(before={**training()["before"], "uniformity": None})),
            "a score that is no number",
        ),
    ],
)
def test_a_damaged_stage_json_is_refused(
    capsys, tiny_model, sample_data, tmp_path, content, problem
):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_model, folder)
    (folder / "stage.json").write_text(content, encoding="utf-8")
    assert main([str(folder), "--sets", str(sample_data / "sts-dev.csv"), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert (
        f"{folder / 'stage.json'}: is not what a stage of training writes" in said
        and problem in said
    )
    assert "Restore the file, or remove it" in said
