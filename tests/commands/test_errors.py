"""`python -m multitask.errors`: the two files of a tiny run, and the input that it refuses."""

import contextlib
import io
import json
import re
import shutil

import pytest

import run_multitask
from data.readers import read_examples
from multitask.errors.__main__ import main
from multitask.prediction_files import read_predictions
from multitask.tasks import TASKS
from tests.report_reader import Page, markdown_cells

NASTY = "A | pipe,\na <script>alert('&')</script> and *stars*"


def count(cell: str) -> int:
    return int(cell.replace(",", ""))


# --- a run --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_model, cut_sample, tmp_path_factory):
    """A tiny finished run. The first dev row of each task has markup in its text."""
    folder = tmp_path_factory.mktemp("run")
    data = cut_sample(folder / "data", 24, 48)
    for path in data.glob("*-dev.csv"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        fields = lines[1].split("\t")
        fields[2] = '"' + NASTY + '"'
        text = "".join([lines[0], "\t".join(fields), *lines[2:]])
        path.write_text(text, encoding="utf-8", newline="\n")
    flags = ["--model", tiny_model, "--data-dir", data, "--output-dir", folder]
    flags += ["--name", "tiny", "--epochs", "1", "--option", "pretrain"]
    flags += ["--tasks", "sst,sts", "--untrained-tasks", "para"]
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
    chapters = ["Overview", "SST dev", "PARA dev", "STS dev"]
    assert page.texts["h2"] == chapters
    assert re.findall("(?m)^## (.*)$", markdown) == chapters
    assert page.count("svg") == 1
    assert page.count("title") == 1 + 24, "the title of the page, and a note for each point"
    counted = [table for table in page.tables[1:] if "rows" in table[0]]
    # Two of SST, three of PARA and three of STS.
    assert len(counted) == 8
    for table in counted:
        assert sum(count(row[table[0].index("rows")]) for row in table[1:]) == 24


def test_both_files_hold_the_same_tables(written):
    markdown, html = written
    lines = [line for line in markdown.splitlines() if re.match(r"\|(?! ---)", line)]
    in_html = []
    for table in Page(html).tables:
        for row in table:
            # Markdown has each text on one line.
            in_html.append([" ".join(cell.split()) for cell in row])
    assert [markdown_cells(line) for line in lines] == in_html and len(in_html) > 60


def test_the_scores_are_those_of_the_run(run, written):
    scores = json.loads((run / "run.json").read_text(encoding="utf-8"))["scores"]
    rows = {row[0]: row for row in Page(written[1]).tables[0]}
    for name, task in TASKS.items():
        score = f"{scores[name]:.4f}"
        assert rows[task.title][1:5] == ["24", task.metric, score, score]
        low, _, high = rows[task.title][5].split()
        assert float(low) <= scores[name] + 5e-4 and scores[name] <= float(high) + 5e-4
    assert [rows[title][6] for title in ("SST", "PARA", "STS")] == [
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
        wrong = [example.id for example in examples if example.label != predicted[example.id]]
        assert sorted(row[-1] for row in worst[name][1:]) == sorted(wrong)
        confidence = [float(row[-2]) for row in worst[name][1:]]
        assert confidence == sorted(confidence, reverse=True)
        # The most probable of five classes, or of two, has at least that probability.
        assert min(confidence) > (0.2 if name == "sst" else 0.499)
    distance = [abs(float(row[-2])) for row in worst["sts"][1:]]
    assert distance == sorted(distance, reverse=True)


def test_texts_stay_texts(written):
    markdown, html = written
    assert "<script" not in markdown and "<script" not in html
    assert NASTY in "".join(Page(html).texts["title"])
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


# --- bad input ----------------------------------------------------------------------------------


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
    assert f"--worst is {worst}; it must be a whole number, at least 1" in complaint(
        capsys, run, "--worst", worst
    )


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
