"""multitask/errors/page.py: the sections of made-up outputs, by hand."""

import numpy as np
import pytest

from data.examples import Example
from multitask.errors import page
from multitask.errors.breakdown import Bucket
from multitask.errors.mistakes import DevOutputs, worst_section
from multitask.tasks import TASKS


def outputs_of(task: str, labels, outputs) -> DevOutputs:
    second = "two three" if TASKS[task].is_pair else None
    examples = []
    for row, label in enumerate(labels):
        examples.append(Example(f"id{row}", "one two", second, float(label)))
    return DevOutputs(TASKS[task], tuple(examples), np.array(outputs, np.float32))


def one_hot(classes) -> np.ndarray:
    return 4 * np.eye(5)[classes]


def count(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_sentiment_by_hand():
    section = page.confusion_section(outputs_of("sst", [0, 0, 2, 4, 4], one_hot([0, 1, 4, 4, 0])))
    assert [row[1:] for row in section.body.rows] == [
        ("1", "1", "0", "0", "0", "2"),
        ("0", "0", "0", "0", "0", "0"),
        ("0", "0", "0", "0", "1", "1"),
        ("0", "0", "0", "0", "0", "0"),
        ("1", "0", "0", "0", "1", "2"),
    ]
    assert section.prose == (
        "2 of 5 rows are right, an accuracy of 0.400. A share of 0.600 is at most one class away "
        "from the gold class. Of the 3 mistakes, 2 are above the gold class and 1 below it."
    )
    assert section.body.shades[0] == (0, 0.5, -0.5, 0, 0, 0, 0)
    assert section.body.shades[4] == (0, -0.5, 0, 0, 0, 0.5, 0)


def test_paraphrases_by_hand_and_by_sklearn():
    from sklearn.metrics import precision_score, recall_score

    gold = [1, 1, 1, 0, 0, 0, 0]
    logits = [1, 1, -1, 1, -1, -1, 0]
    prose = page.confusion_section(outputs_of("para", gold, logits)).prose
    assert prose == (
        '5 of 7 rows are right, an accuracy of 0.714. The precision of "paraphrase" is 0.667: the '
        "share of its predictions that are right. Its recall is 0.667: the share of its gold rows "
        "that were predicted."
    )
    gold = np.arange(60) % 3 == 0
    logits = np.sin(np.arange(60))
    prose = page.confusion_section(outputs_of("para", gold, logits)).prose
    assert f'precision of "paraphrase" is {precision_score(gold, logits > 0):.3f}' in prose
    assert f"recall is {recall_score(gold, logits > 0):.3f}" in prose


def test_no_row_predicted_has_no_precision():
    prose = page.confusion_section(outputs_of("para", [1, 0], [-1, -1])).prose
    assert 'precision of "paraphrase" is – (of no rows)' in prose and "recall is 0.000" in prose


def test_similarity_by_hand():
    section = page.scatter_section(outputs_of("sts", [0, 0.5, 4, 5], [-1, 2, 4, 6]))
    assert section.table.rows == (
        ("0 to 1", "2", "1.00", "1.00", "1", "0", "1", "0", "0"),
        ("1 to 2", "0", "–", "–", *"00000"),
        ("2 to 3", "0", "–", "–", *"00000"),
        ("3 to 4", "0", "–", "–", *"00000"),
        ("4 to 5", "2", "4.50", "0.50", "0", "0", "0", "0", "2"),
    )
    titles = tuple(f"predicted {low} to {low + 1}" for low in range(5))
    assert section.table.header[4:] == titles
    (plot,) = section.body.plots
    assert plot.x == [0, 0.5, 4, 5] and plot.y == [0, 2, 4, 5]
    assert plot.notes[1] == "gold 0.50, predicted 2.00: one two / two three"

    # The correlation takes the predictions as they are, the error moves them to the scale.
    raw = np.corrcoef([0, 0.5, 4, 5], [-1, 2, 4, 6])[0, 1]
    assert f"correlation is {raw:.3f}, the mean absolute error 0.375" in section.prose
    assert "2 of 4 predictions leave the scale" in section.prose


def test_the_worst_classes_come_first():
    outputs = [[0, 0, 0, 0, 9], [5, 0, 0, 0, 0], [0, 0, 9, 0, 0]]
    section = worst_section(outputs_of("sst", [0, 4, 2], outputs), 10)
    assert section.body.header == ("sentence", "gold", "prediction", "confidence", "id")
    assert section.body.rows == (
        ("one two", "negative", "positive", "0.9995", "id0"),
        ("one two", "positive", "negative", "0.9738", "id1"),
    )
    assert section.prose.startswith("2 of 2 mistakes"), "the third row is right"


def test_the_worst_numbers_come_first():
    section = worst_section(outputs_of("sts", [0, 5, 2], [2, 1, 2.5]), 2)
    assert section.body.rows == (
        ("one two", "two three", "5.00", "1.00", "-4.00", "id1"),
        ("one two", "two three", "0.00", "2.00", "+2.00", "id0"),
    )
    assert section.prose.startswith("2 of 3 mistakes")


def test_a_model_that_is_never_wrong_has_no_table():
    section = worst_section(outputs_of("para", [1, 0], [3, -3]), 10)
    assert section.body is None and section.prose == "No row is wrong."


def test_buckets_of_numbers_by_hand():
    dev = outputs_of("sts", [0, 1, 2, 5], [1, 2, 3, 9])
    buckets = [
        Bucket("two", np.array([0, 1])),
        Bucket("three", np.array([0, 1, 3])),
        Bucket("none", np.array([], int)),
    ]
    section = page.bucket_section(dev, "title", "prose", "words", buckets)
    pearson = np.corrcoef([0, 1, 5], [1, 2, 9])[0, 1]
    assert section.body.header == (
        "words",
        "rows",
        "Pearson",
        "mean absolute error",
        "mean gold",
        "mean prediction",
    )
    assert section.body.rows == (
        ("two", "2", "–", "1.00", "0.50", "1.50"),
        ("three", "3", f"{pearson:.3f}", "0.67", "2.00", "2.67"),
        ("none", "0", "–", "–", "–", "–"),
    )


def test_buckets_of_classes_by_hand():
    dev = outputs_of("para", [1, 0, 1], [1, 1, 1])
    buckets = [Bucket("all", np.arange(3)), Bucket("one", np.array([0]))]
    section = page.bucket_section(dev, "title", "prose", "words", buckets)
    assert section.body.rows == (
        ("all", "3", "0.667", "0.67", "1.00"),
        ("one", "1", "1.000", "1.00", "1.00"),
    )


def random_outputs(task: str, num_rows: int, random: np.random.Generator) -> DevOutputs:
    """Random labels, outputs and sentences of 1 to 8 words."""
    labels = random.integers(TASKS[task].format.low, TASKS[task].format.high + 1, num_rows)
    shape = (num_rows, 5) if task == "sst" else num_rows
    outputs = random.normal(2 if task == "sts" else 0, 2, shape)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "more", "bird", "there"]
    examples = []
    for row, label in enumerate(labels):
        first, second = (
            " ".join(random.choice(words, random.integers(1, 9))) for _ in ("first", "second")
        )
        sentence_2 = second if TASKS[task].is_pair else None
        examples.append(Example(f"i{row}", first, sentence_2, float(label)))
    return DevOutputs(TASKS[task], tuple(examples), outputs.astype(np.float32))


@pytest.mark.parametrize("task", TASKS)
def test_every_row_is_counted_once_and_in_any_order(task):
    random = np.random.default_rng(1)
    dev = random_outputs(task, 90, random)
    sections = page.task_sections(dev, 10)
    assert len(sections) == (5 if TASKS[task].is_pair else 4)
    for section in sections:
        if not section.title.startswith(("Score", "Gold")):
            continue
        column = section.table.header.index("rows")
        assert sum(count(row[column]) for row in section.table.rows) == 90
        if task != "sts" and section.title.startswith("Gold"):
            # A row of the confusion table adds up to its own number of rows.
            for row in section.table.rows:
                assert sum(map(count, row[1:column])) == count(row[column])

    order = random.permutation(90)
    examples = tuple(dev.examples[row] for row in order)
    shuffled = page.task_sections(DevOutputs(dev.task, examples, dev.outputs[order]), 10)
    for section, other in zip(sections, shuffled, strict=True):
        assert section.prose == other.prose
        # Of equally bad mistakes, the first ones in the file are shown.
        if section.title != "Worst mistakes":
            assert section.table == other.table
