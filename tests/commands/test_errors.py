"""multitask/errors/__main__.py: sections of made-up answers by hand, then the two files of a tiny run."""

import contextlib
import io
import json
import re
import shutil

import numpy as np
import pytest

import run_multitask
from data.readers import Example, read_examples
from multitask.errors import __main__ as errors
from multitask.errors.__main__ import main
from multitask.errors.breakdown import Answers
from multitask.prediction_files import read_predictions
from multitask.tasks import TASKS
from tests.report_reader import Page, markdown_cells

NASTY = "A | pipe,\na <script>alert('&')</script> and *stars*"


def answers(task: str, labels, outputs, sentence: str = "one two") -> Answers:
    second = "two three" if TASKS[task].is_pair else None
    examples = tuple(
        Example(f"id{row}", sentence, second, float(label)) for row, label in enumerate(labels)
    )
    return Answers(TASKS[task], examples, np.array(outputs, np.float32))


def one_hot(classes) -> np.ndarray:
    return 4 * np.eye(5)[classes]


def count(cell: str) -> int:
    return int(cell.replace(",", ""))


# --- sections by hand -------------------------------------------------------------------------------------------------


def test_sentiment_by_hand():
    section = errors.confusion_section(answers("sst", [0, 0, 2, 4, 4], one_hot([0, 1, 4, 4, 0])))
    assert [row[1:] for row in section.body.rows] == [
        ("1", "1", "0", "0", "0", "2"),
        ("0", "0", "0", "0", "0", "0"),
        ("0", "0", "0", "0", "1", "1"),
        ("0", "0", "0", "0", "0", "0"),
        ("1", "0", "0", "0", "1", "2"),
    ]
    assert section.prose == (
        "2 of 5 rows are right, an accuracy of 0.400. 0.600 are within one class of the gold one. "
        "Of the 3 mistakes, 2 lie above the gold class and 1 below it."
    )
    assert section.body.shades[0] == (0, 0.5, -0.5, 0, 0, 0, 0) and section.body.shades[4] == (
        0,
        -0.5,
        0,
        0,
        0,
        0.5,
        0,
    )


def test_paraphrases_by_hand_and_by_sklearn():
    from sklearn.metrics import precision_score, recall_score

    gold, logits = [1, 1, 1, 0, 0, 0, 0], [1, 1, -1, 1, -1, -1, 0]
    prose = errors.confusion_section(answers("para", gold, logits)).prose
    assert prose == (
        "5 of 7 rows are right, an accuracy of 0.714. Of those predicted as paraphrase, 0.667 are one "
        "(precision); of those that are, 0.667 were found (recall)."
    )
    gold, logits = np.arange(60) % 3 == 0, np.sin(np.arange(60))
    prose = errors.confusion_section(answers("para", gold, logits)).prose
    assert f"{precision_score(gold, logits > 0):.3f} are one" in prose
    assert f"{recall_score(gold, logits > 0):.3f} were found" in prose


def test_no_row_predicted_has_no_precision():
    prose = errors.confusion_section(answers("para", [1, 0], [-1, -1])).prose
    assert "– (of no rows) are one (precision)" in prose and "0.000 were found" in prose


def test_similarity_by_hand():
    section = errors.scatter_section(answers("sts", [0, 0.5, 4, 5], [-1, 2, 4, 6]))
    assert section.body.summary.rows == (
        ("0 to 1", "2", "1.00", "1.00", "1", "0", "1", "0", "0"),
        ("1 to 2", "0", "–", "–", *"00000"),
        ("2 to 3", "0", "–", "–", *"00000"),
        ("3 to 4", "0", "–", "–", *"00000"),
        ("4 to 5", "2", "4.50", "0.50", "0", "0", "0", "0", "2"),
    )
    assert section.body.summary.header[4:] == tuple(
        f"predicted {low} to {low + 1}" for low in range(5)
    )
    assert section.body.y.tolist() == [0, 2, 4, 5] and section.body.x.tolist() == [0, 0.5, 4, 5]
    raw = np.corrcoef([0, 0.5, 4, 5], [-1, 2, 4, 6])[0, 1]
    assert f"correlation {raw:.3f}, mean absolute error 0.375" in section.prose
    assert "2 of 4 predictions leave the scale" in section.prose
    assert section.body.notes[1] == "gold 0.50, predicted 2.00: one two / two three"


def test_the_worst_come_first_with_all_that_is_known_of_them():
    section = errors.worst_section(
        answers("sst", [0, 4, 2], [[0, 0, 0, 0, 9], [5, 0, 0, 0, 0], [0, 0, 9, 0, 0]]), 10
    )
    assert section.body.header == ("sentence", "gold", "prediction", "confidence", "id")
    assert section.body.rows == (
        ("one two", "negative", "positive", "0.9995", "id0"),
        ("one two", "positive", "negative", "0.9738", "id1"),
    )
    assert section.prose.startswith("2 of 2 mistakes"), "the third row is right"
    section = errors.worst_section(answers("sts", [0, 5, 2], [2, 1, 2.5]), 2)
    assert section.body.rows == (
        ("one two", "two three", "5.00", "1.00", "-4.00", "id1"),
        ("one two", "two three", "0.00", "2.00", "+2.00", "id0"),
    )
    assert section.prose.startswith("2 of 3 mistakes")
    assert (
        errors.worst_section(answers("para", [1, 0], [3, -3]), 10).body is None
    )  # a model that is never wrong


def test_buckets_by_hand():
    given = answers("sts", [0, 1, 2, 5], [1, 2, 3, 9])
    buckets = [
        ("two", np.array([0, 1])),
        ("three", np.array([0, 1, 3])),
        ("none", np.array([], int)),
    ]
    section = errors.bucket_section(given, "t", "p", "words", buckets)
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
    buckets = [("all", np.arange(3)), ("one", np.array([0]))]
    section = errors.bucket_section(
        answers("para", [1, 0, 1], [1, 1, 1]), "t", "p", "words", buckets
    )
    assert section.body.rows == (
        ("all", "3", "0.667", "0.67", "1.00"),
        ("one", "1", "1.000", "1.00", "1.00"),
    )


@pytest.mark.parametrize("task", TASKS)
def test_every_row_is_counted_once_and_in_any_order(task):
    drawn = np.random.default_rng(1)
    num_rows, form = 90, TASKS[task].format
    labels = drawn.integers(form.low, form.high + 1, num_rows)
    outputs = drawn.normal(
        {"sst": 0, "para": 0, "sts": 2}[task], 2, (num_rows, 5) if task == "sst" else num_rows
    )
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "more", "bird", "there"]
    texts = [
        [" ".join(drawn.choice(words, drawn.integers(1, 9))) for _ in range(2)]
        for _ in range(num_rows)
    ]
    examples = [
        Example(f"i{row}", first, second if task != "sst" else None, float(label))
        for row, (label, (first, second)) in enumerate(zip(labels, texts, strict=True))
    ]

    def sections(order):
        return errors.task_sections(
            Answers(
                TASKS[task],
                tuple(examples[row] for row in order),
                outputs[order].astype(np.float32),
            ),
            10,
        )

    found = sections(np.arange(num_rows))
    assert len(found) == (5 if TASKS[task].is_pair else 4)
    for section in (section for section in found if section.title.startswith(("Score", "Gold"))):
        grid = getattr(section.body, "summary", section.body)
        column = grid.header.index("rows")
        assert sum(count(row[column]) for row in grid.rows) == num_rows
        if task != "sts" and section.title.startswith("Gold"):
            assert sum(count(cell) for row in grid.rows for cell in row[1:column]) == num_rows
    shuffled = sections(drawn.permutation(num_rows))
    for one, other in zip(found, shuffled, strict=True):
        assert one.prose == other.prose
        if one.title != "Worst mistakes":  # of which equally bad ones come in file order
            assert getattr(one.body, "summary", one.body) == getattr(
                other.body, "summary", other.body
            )


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_model, cut_sample, tmp_path_factory, no_fsync):
    """A tiny finished run; the first dev row of each task has a text that Markdown and HTML would obey."""
    folder = tmp_path_factory.mktemp("run")
    data = cut_sample(folder / "data", 24, 48)
    for path in data.glob("*-dev.csv"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        fields = lines[1].split("\t")
        fields[2] = '"' + NASTY + '"'
        path.write_text(
            "".join([lines[0], "\t".join(fields), *lines[2:]]), encoding="utf-8", newline="\n"
        )
    flags = [
        "--model",
        tiny_model,
        "--data-dir",
        data,
        "--output-dir",
        folder,
        "--name",
        "tiny",
        "--epochs",
        1,
        "--option",
        "pretrain",
        "--tasks",
        "sst,sts",
    ]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        assert run_multitask.main(list(map(str, flags))) == 0, said.getvalue()
    return folder / "tiny"


@pytest.fixture(scope="module")
def written(run):
    """Markdown and HTML of that run, with every mistake, and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main([str(run), "--worst", "1000"]) == 0
    assert said.getvalue() == f"{run / 'errors.md'}\n{run / 'errors.html'}\n"
    return [(run / name).read_text(encoding="utf-8") for name in ("errors.md", "errors.html")]


def test_the_page_needs_nothing_beside_itself_and_shows_every_row(written):
    markdown, html = written
    page = Page(html)
    assert not page.faults
    assert (
        page.texts["h2"]
        == ["Overview", "SST dev", "PARA dev", "STS dev"]
        == re.findall("(?m)^## (.*)$", markdown)
    )
    assert page.count("circle") == 24
    counted = [table for table in page.tables[1:] if "rows" in table[0]]
    assert len(counted) == 8  # two, three and three
    for table in counted:
        assert sum(count(row[table[0].index("rows")]) for row in table[1:]) == 24


def test_both_files_hold_the_same_tables(written):
    markdown, html = written
    in_markdown = [
        markdown_cells(line) for line in markdown.splitlines() if re.match(r"\|(?! ---)", line)
    ]
    in_html = [
        [" ".join(cell.split()) for cell in row] for table in Page(html).tables for row in table
    ]
    assert in_markdown == in_html and len(in_html) > 60


def test_the_scores_are_those_of_the_run(run, written):
    scores = json.loads((run / "run.json").read_text(encoding="utf-8"))["scores"]
    rows = {row[0]: row for row in Page(written[1]).tables[0]}
    for name, task in TASKS.items():
        assert rows[task.title][1:5] == [
            "24",
            task.metric,
            f"{scores[name]:.4f}",
            f"{scores[name]:.4f}",
        ]
    assert [rows[title][5] for title in ("SST", "PARA", "STS")] == [
        "yes",
        "no, its head is still random",
        "yes",
    ]


def test_every_mistake_is_one_and_is_shown_once(run, written):
    """The ids under "worst mistakes" are those on which leaderboard file and labels differ."""
    tables = [table for table in Page(written[1]).tables if table[0][-1] == "id"]
    worst = dict(zip(TASKS, tables, strict=True))
    options = json.loads((run / "run.json").read_text(encoding="utf-8"))["options"]
    for name in ("sst", "para"):
        predicted = read_predictions(run / "predictions" / f"{name}-dev-output.csv", TASKS[name])
        examples = read_examples(options[f"{name}_dev"], TASKS[name].format).examples
        shown = [row[-1] for row in worst[name][1:]]
        assert sorted(shown) == sorted(
            example.id for example in examples if example.label != predicted[example.id]
        )
        confidence = [float(row[-2]) for row in worst[name][1:]]
        assert confidence == sorted(confidence, reverse=True) and min(confidence) > (
            0.2 if name == "sst" else 0.499
        )
    distance = [abs(float(row[-2])) for row in worst["sts"][1:]]
    assert distance == sorted(distance, reverse=True)


def test_texts_stay_texts(written):
    markdown, html = written
    assert "<script" not in markdown and "<script" not in html
    assert "A | pipe,\na <script>alert('&')</script> and *stars*" in "".join(
        Page(html).texts["title"]
    )
    escaped = r"A \| pipe, a &lt;script&gt;alert('&amp;')&lt;/script&gt; and \*stars\*"
    rows = [line for line in markdown.splitlines() if escaped in line]
    assert rows and all(len(re.findall(r"(?<!\\)\|", row)) in (6, 7) for row in rows)


def test_another_folder_and_fewer_mistakes(run, tmp_path, capsys, written):
    folder = tmp_path / "new" / "folder"
    assert main([str(run), "--worst", "1", "--out", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'errors.md'}\n{folder / 'errors.html'}\n"
    page = Page((folder / "errors.html").read_text(encoding="utf-8"))
    assert [len(table) for table in page.tables if table[0][-1] == "id"] == [2, 2, 2]
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


# --- bad input --------------------------------------------------------------------------------------------------------


def complaint(capsys, *arguments) -> str:
    assert main(list(map(str, arguments))) == 2
    said = capsys.readouterr()
    assert (
        said.out == ""
        and said.err.startswith("python -m multitask.errors: ")
        and said.err.count("\n") == 1
    )
    return said.err


@pytest.mark.parametrize("worst", ["0", "-3"])
def test_no_mistakes_asked_for(capsys, run, worst):
    assert f"--worst is {worst}; pass a whole number of 1 or more" in complaint(
        capsys, run, "--worst", worst
    )


def test_words_for_a_number(capsys, run):
    with pytest.raises(SystemExit) as stop:
        main([str(run), "--worst", "many"])
    assert stop.value.code == 2 and "--worst" in capsys.readouterr().err


def test_no_run_there(capsys, tmp_path, run):
    assert "no finished run there" in complaint(capsys, tmp_path / "nowhere")
    assert "no finished run there" in complaint(capsys, tmp_path)
    assert "no finished run there" in complaint(capsys, run / "run.json")
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_its_model(capsys, tmp_path, run):
    shutil.copy(run / "run.json", tmp_path)
    assert str(tmp_path / "model") in complaint(capsys, tmp_path)


def test_out_is_a_file(capsys, run, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "file is a file. Choose another folder" in complaint(
        capsys, run, "--out", tmp_path / "file"
    )
    assert "cannot be written" in complaint(capsys, run, "--out", tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"
