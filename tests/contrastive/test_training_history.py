"""contrastive/quality/training_history.py: stage.json, and the chapter on a stage's training."""

import json
import shutil

import pytest

from contrastive.quality.__main__ import main
from contrastive.quality.training_history import read_training, training_sections

SCORES = ("spearman", "pearson", "alignment", "uniformity")


def scores(*values: float) -> dict:
    return dict(zip(SCORES, values, strict=True))


def training(**changes) -> dict:
    """Before, three evaluations of which the second is the best, after."""
    history = [
        {"epoch": 1, "step": 10, "loss": 2.0, **scores(0.4, 0.5, 0.6, -1.0)},
        {"epoch": 1, "step": 20, "loss": 0.5, **scores(0.6, 0.5, 0.4, -2.0)},
        {"epoch": 1, "step": 30, "loss": 0.00025, **scores(0.5, 0.5, 0.5, -3.0)},
    ]
    after = {name: history[1][name] for name in SCORES}
    before = scores(0.3, 0.2, 0.1, -0.5)
    return {"before": before, "is_kept": True, "history": history, "after": after} | changes


# --- sections -----------------------------------------------------------------------------------


def test_the_path_by_hand():
    chapter, path, _ = training_sections(training())
    assert "Spearman of dev went from 0.3000 to 0.6000." in chapter.prose and chapter.level == 2
    (plot,) = path.body.plots
    (line,) = plot.lines
    assert line.x == [-0.5, -1, -2, -3] and line.y == [0.1, 0.6, 0.4, 0.5]
    assert (plot.x_label, plot.y_label) == ("uniformity", "alignment")
    assert plot.highlighted == 2 and plot.labels == {0: "before", 2: "2 = after"}
    assert line.notes[1] == "1, step 10: alignment 0.6000, uniformity -1.0000"
    assert path.table.rows == (("before", "0.1000", "-0.5000"), ("after", "0.4000", "-2.0000"))


def test_the_curves_by_hand():
    *_, section = training_sections(training())
    loss, score = section.body.plots
    assert (loss.lines[0].x, loss.lines[0].y) == ([10, 20, 30], [2, 0.5, 0.00025])
    assert loss.highlighted == 1 and loss.labels == {1: "0.5"} and loss.y_label == "loss"
    assert (score.lines[0].x, score.lines[0].y) == ([0, 10, 20, 30], [0.3, 0.4, 0.6, 0.5])
    assert score.highlighted == 2 and score.labels == {2: "0.6"}
    assert loss.starts_at_zero and score.starts_at_zero
    rows = section.table.rows
    assert rows[0] == ("before", "0", "–", "0.3000", "0.2000", "0.1000", "-0.5000")
    assert rows[3] == ("3", "30", "0.00025", "0.5000", "0.5000", "0.5000", "-3.0000")


def test_of_equal_scores_the_first_one_was_kept():
    history = [{**entry, "spearman": 0.5} for entry in training()["history"]]
    *_, section = training_sections(training(history=history))
    assert section.body.plots[1].highlighted == 1


def test_training_that_was_not_kept_says_so():
    chapter, *_ = training_sections(training(is_kept=False))
    assert "so the encoder in the folder is the one before" in chapter.prose


def test_both_copies_of_contrastive_tension_stand_in_the_table():
    both = training()
    for number, point in enumerate(both["history"]):
        point |= {"spearman_first": 0.1 * number, "spearman_second": 0.5}
    table = training_sections(both)[-1].table
    assert table.header[-2:] == ("spearman_first", "spearman_second")
    shown = [row[-2:] for row in table.rows]
    assert shown[:3] == [("–", "–"), ("0.0000", "0.5000"), ("0.1000", "0.5000")]


def test_a_stage_without_alignment_has_curves_only():
    """Its best evaluation has the lowest loss."""
    history = []
    for number, loss in ((1, 2.0), (2, 1.5), (3, 1.75)):
        entry = {"epoch": 1, "step": 5 * number, "loss": 3.0}
        history.append(entry | {"held_out_loss": loss, "masked_accuracy": 0.25})
    before = {"held_out_loss": 2.5, "masked_accuracy": 0.125}
    sections = training_sections(
        {"before": before, "after": before, "is_kept": True, "history": history}
    )
    assert [section.title for section in sections] == ["Training", "Loss and dev score"]
    score = sections[1].body.plots[1]
    assert score.lines[0].y == [2.5, 2.0, 1.5, 1.75] and score.y_label == "held-out loss of dev"
    assert [row[0] for row in sections[1].table.rows] == ["before", "1", "2 = after", "3"]


# --- stage.json ---------------------------------------------------------------------------------


def test_a_folder_without_stage_json_has_no_history(tiny_model):
    assert read_training(str(tiny_model)) is None


def test_what_is_read_is_what_the_stage_wrote(tmp_path):
    content = training() | {"fingerprint": "x"}
    (tmp_path / "stage.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_training(str(tmp_path)) == training()


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
    flags = ["--sets", str(sample_data / "sts-dev.csv"), "--device", "cpu"]
    assert main([str(folder), *flags]) == 2
    message = capsys.readouterr().err
    assert f"{folder / 'stage.json'}: is not what a stage of training writes" in message
    assert problem in message and "Restore the file, or remove it" in message
