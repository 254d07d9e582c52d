"""multitask/predict.py: rows of a user get what the runs give the same rows of their files."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.user_texts import TextRow, UserTexts
from multitask.answers import print_rows
from multitask.predict import main
from multitask.prediction_files import read_predictions
from multitask.probabilities import probabilities
from multitask.saved_run import open_run
from multitask.tasks import TASKS
from tests.toy_votes import altered


@pytest.fixture
def predict(monkeypatch, capsys):
    """A function: standard input and arguments -> exit code, what was printed, what was said."""

    def run(text: str | bytes, *arguments) -> tuple[int, str, str]:
        content = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return (main(list(map(str, arguments))), *capsys.readouterr())

    return run


def split_line(line: str, name: str) -> tuple[str, str]:
    """The prediction of a printed line, and its texts. A class also has a name and a confidence."""
    num_cells = 1 if name == "sts" else 3
    cells = line.split("\t", num_cells)
    return cells[0], cells[-1]


def without_warning(said: str) -> str:
    """What was said, without the warning about words that a few training rows do not have."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if "hold mostly words that the training" not in line)


@pytest.mark.parametrize("name", TASKS)
def test_rows_get_what_the_run_wrote_of_them(two_runs, tmp_path, predict, name):
    """The folder alone is enough: the data files are elsewhere."""
    examples = open_run(two_runs[0]).tables[name]["dev"].examples
    folder = altered(
        two_runs[0],
        tmp_path / "run",
        lambda record: record.update(
            files={f"nowhere/{path}": digest for path, digest in record["files"].items()},
            options={
                key: f"nowhere/{value}" if str(value) in record["files"] else value
                for key, value in record["options"].items()
            },
        ),
    )
    lines = [
        "\t".join(filter(None, (example.sentence_1, example.sentence_2))) for example in examples
    ]
    code, printed, said = predict("\r\n".join(lines), folder, "--task", name)
    assert (code, without_warning(said)) == (0, "")
    rows = [split_line(line, name) for line in printed.splitlines()]
    values, texts = zip(*rows, strict=True)
    assert list(texts) == lines
    written = read_predictions(two_runs[0] / "predictions" / f"{name}-dev-output.csv", TASKS[name])
    assert list(map(float, values)) == pytest.approx(list(written.values()), rel=1e-3, abs=1e-3)
    assert len(set(values)) > 1


@pytest.mark.parametrize("name", TASKS)
def test_several_runs_are_averaged(two_runs, predict, name):
    """Against the mean of the runs' outputs, taken here. Neither run alone says the same."""
    runs = [open_run(folder) for folder in two_runs]
    lines = ["\t".join(example.texts) for example in runs[0].tables[name]["dev"].examples]
    outputs = [run.outputs(name, "dev").astype(np.float64) for run in runs]
    votes = outputs if name == "sts" else list(map(probabilities, outputs))
    decoded = {
        "sst": lambda votes: votes.argmax(axis=1),
        "para": lambda votes: votes > 0.5,
        "sts": lambda votes: votes,
    }
    expected, *alone = [
        decoded[name](of_runs).astype(float).tolist()
        for of_runs in (np.mean(votes, axis=0), *votes)
    ]
    code, printed, said = predict("\n".join(lines), *two_runs, "--task", name)
    assert (code, said) == (0, "")
    assert [float(line.split("\t")[0]) for line in printed.splitlines()] == pytest.approx(
        expected, rel=1e-3, abs=1e-3
    )
    assert expected not in alone


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("sst", "negative, somewhat negative, neutral, somewhat positive, positive"),
        ("para", "paraphrase"),
    ],
)
def test_probabilities_are_the_mean_of_the_runs(two_runs, predict, name, classes):
    runs = [open_run(folder) for folder in two_runs]
    lines = ["\t".join(example.texts) for example in runs[0].tables[name]["dev"].examples]
    expected = np.mean([probabilities(run.outputs(name, "dev")) for run in runs], axis=0)
    code, printed, said = predict("\n".join(lines), *two_runs, "--task", name, "--probabilities")
    assert (code, said) == (0, f"probabilities of each row, in this order: {classes}\n")
    values, texts = zip(*(line.split("\t", 1) for line in printed.splitlines()), strict=True)
    assert list(texts) == lines
    found = np.array([list(map(float, value.split(" "))) for value in values])
    np.testing.assert_allclose(found, expected.reshape(len(lines), -1), rtol=1e-3)


def test_sts_has_no_probabilities(two_runs, tmp_path, predict):
    """The message names the tasks that the run was trained on."""
    code, printed, said = predict("a\tb", two_runs[0], "--task", "sts", "--probabilities")
    assert (code, printed) == (2, "")
    assert "--probabilities: sts has no classes. Pass --task sst or para, or drop it." in said
    assert predict("a", two_runs[0], "--task", "sst", "--probabilities")[0] == 0
    alone = altered(
        two_runs[0],
        tmp_path / "sts",
        lambda record: record["options"].update(tasks="sts", score="sts"),
    )
    assert "sts has no classes. Drop it." in predict("a\tb", alone, "--probabilities")[2]
    assert predict("a\tb", alone)[0] == 0


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        (
            "sst",
            "fine\n\nbad\n",
            "standard input, line 2 is empty; expected is one text per line, so that row and",
        ),
        (
            "sst",
            "a\tb",
            "line 1 is 'a\\tb'; expected is one sentence, without a tab. Fix or remove",
        ),
        (
            "sts",
            "a\tb\nalone",
            "line 2 is 'alone'; expected are two texts per line, with a tab between. Fix or remove",
        ),
        ("para", "a\tb\tc", "line 1 is 'a\\tb\\tc'; expected are two texts"),
        ("para", "a\t ", "line 1 is 'a'; expected are two texts"),
        ("sst", "", "standard input holds no lines; expected is one text per line"),
        (
            "sst",
            "é\n".encode() + b"caf\xe9\n",
            "line 2 holds bytes that are not UTF-8; expected is",
        ),
        (
            "sst",
            "name,words\na,b\n",
            "line 1: the header has no column sentence; found are: name,",
        ),
        (
            "sts",
            "text_a\ttext_b\nx\ty\n",
            "'text_a and text_b' may be names of columns, or",
        ),
        ("para", "sentence1\tsentence\nx\ty\n", "the header has no column sentence2; found are"),
    ],
)
def test_rows_that_cannot_be(two_runs, predict, task, text, words):
    code, printed, said = predict(text, two_runs[0], "--task", task)
    assert (code, printed) == (2, "")
    assert words in said
    assert said.startswith("python -m multitask.predict: ")


def test_a_person_at_a_terminal_is_asked(two_runs, capsys, monkeypatch):
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Terminal(b"fine\n")))
    code = main([str(two_runs[0]), "--task", "sst"])
    printed, said = capsys.readouterr()
    assert (code, without_warning(said)) == (0, "Type one row a line and end with Ctrl-D.\n")
    assert printed.endswith("\tfine\n")


def test_rows_that_are_cut_are_counted(two_runs, predict):
    code, printed, said = predict("fine\n" + "very " * 200 + "bad\n", two_runs[0], "--task", "sst")
    assert code == 0
    assert len(printed.splitlines()) == 2
    said = without_warning(said)
    assert said == "1 of 2 rows are longer than --max_length 128 and were cut to it\n"


def test_a_task_that_the_run_does_not_know_and_no_run(two_runs, tmp_path, predict):
    other = altered(
        two_runs[0],
        tmp_path / "run",
        lambda record: record["options"].update(tasks="sst,para", score="mean"),
    )
    assert (
        "was trained on sst,para; its head for STS never learned. Pass"
        in predict("a\tb", other, "--task", "sts")[2]
    )
    beside = predict("a\tb", two_runs[0], other, "--task", "sts")
    assert beside[:2] == (2, "")
    assert f"{other} was trained on sst,para" in beside[2]
    assert predict("a", other, "--task", "sst")[0] == 0
    shutil.rmtree(other / "model")
    assert predict("a", other, "--task", "sst")[0] == 2
    assert ": no finished run there" in predict("a", tmp_path / "none", "--task", "sst")[2]


# --- what a prediction says -----------------------------------------------------------------------


def test_a_class_is_printed_with_its_name_and_the_confidence_in_it(two_runs, predict):
    runs = open_run(two_runs[0])
    example = runs.tables["sst"]["dev"].examples[0]
    votes = probabilities(runs.outputs("sst", "dev"))[0]
    printed = predict(example.sentence_1, two_runs[0], "--task", "sst")[1]
    number = int(votes.argmax())
    name = TASKS["sst"].label_names[number]
    assert printed == f"{number}\t{name}\t{votes.max():.2f}\t{example.sentence_1}\n"


def test_the_confidence_of_two_classes_is_that_of_the_predicted_one(two_runs, predict):
    run = open_run(two_runs[0])
    examples = run.tables["para"]["dev"].examples
    votes = probabilities(run.outputs("para", "dev"))
    lines = "\n".join("\t".join(example.texts) for example in examples)
    printed = predict(lines, two_runs[0], "--task", "para")[1]
    names = TASKS["para"].label_names
    for line, vote in zip(printed.splitlines(), votes, strict=True):
        is_paraphrase = bool(vote > 0.5)
        confidence = vote if is_paraphrase else 1 - vote
        expected = [str(int(is_paraphrase)), names[is_paraphrase], f"{confidence:.2f}"]
        assert line.split("\t")[:3] == expected


@pytest.mark.parametrize(
    ("is_terminal", "expected"),
    [
        (False, "4\tpositive\t0.91\tGood.\n1\tsomewhat negative\t0.50\tBad.\n"),
        (True, "4  positive           0.91  Good.\n1  somewhat negative  0.50  Bad.\n"),
    ],
)
def test_a_terminal_gets_aligned_columns_and_a_pipe_gets_tabs(
    is_terminal, expected, monkeypatch, capsys
):
    monkeypatch.setattr("multitask.answers.terminal.is_terminal", lambda stream: is_terminal)
    rows = tuple(TextRow("", (text,)) for text in ("Good.", "Bad."))
    texts = UserTexts("rows.txt", rows, None, ())
    print_rows(texts, [["4", "positive", "0.91"], ["1", "somewhat negative", "0.50"]])
    assert capsys.readouterr().out == expected
    print_rows(replace(texts, rows=()), [])
    assert capsys.readouterr().out == ""


def test_words_that_training_never_held_are_said(two_runs, predict):
    run = open_run(two_runs[0])
    known = run.tables["sst"]["train"].examples[0].sentence_1
    code, printed, said = predict(f"{known}\nzorp blarg quux\n", two_runs[0], "--task", "sst")
    assert code == 0
    assert len(printed.splitlines()) == 2
    assert said == (
        "warning: 1 of 2 rows hold mostly words that the training rows do not have, so their "
        "predictions mean little. The first: line 2 (zorp, blarg, quux).\n"
    )
    assert predict(known, two_runs[0], "--task", "sst")[2] == ""


def test_words_of_several_runs_count_together(two_runs, tmp_path, predict):
    other = altered(two_runs[0], tmp_path / "other", lambda record: None)
    path = other / "model" / "training_words.json"
    (path.parent / "SHA256SUMS").unlink()
    words = json.loads(path.read_text())
    path.write_text(json.dumps({**words, "sst": "zorp blarg"}))
    assert predict("zorp blarg", other, "--task", "sst")[2] == ""
    assert predict("zorp blarg", two_runs[0], other, "--task", "sst")[2] == ""
    assert "warning" in predict("zorp blarg", two_runs[0], "--task", "sst")[2]


def test_a_run_without_its_words_gives_no_warning(two_runs, tmp_path, predict):
    older = altered(two_runs[0], tmp_path / "older", lambda record: None)
    (older / "model" / "training_words.json").unlink()
    code, printed, said = predict("zorp blarg quux", older, "--task", "sst")
    assert (code, len(printed.splitlines()), said) == (0, 1, "")


def test_without_a_run_the_bundled_one_answers(two_runs, predict, monkeypatch):
    monkeypatch.setattr("multitask.predict.BUNDLED_RUN", two_runs[0])
    code, printed, said = predict("A lovely film.")
    assert code == 0
    assert printed == predict("A lovely film.", two_runs[0], "--task", "sst")[1]
    assert "No RUN is named. The small model in " in said
    pair = predict("a\tb", "--task", "sts")[1]
    assert pair == predict("a\tb", two_runs[0], "--task", "sts")[1]


def test_the_bundled_run_tells_good_from_bad(predict):
    """The very first command of a visitor, and what the tour says of its row.

    The bundled run has the options of the tour's run.
    """
    page = (Path(__file__).resolve().parents[2] / "docs" / "tour.md").read_text("utf-8")
    row = re.search(r"(?m)^\d+\t(?P<id>\w+)\t(?P<sentence>[^\t]+)\t(?P<label>\d)$", page)
    assert row is not None and f"\n{row['id']} , {row['label']} \n" in page

    lines = ["A lovely film.", "The plot is dull and the acting is terrible.", row["sentence"]]
    code, printed, said = predict("\n".join(lines))
    good, bad, of_tour = printed.splitlines()
    assert code == 0
    assert int(good.split("\t")[0]) >= 3
    assert int(bad.split("\t")[0]) <= 1
    assert of_tour.split("\t")[0] == row["label"], "take another row of the sample for the tour"
    assert said.startswith("No RUN is named. The small model in ")
    pairs = "How old are you?\tWhat is your age?\nHow old are you?\tWhere is the station?"
    similar, other = predict(pairs, "--task", "sts")[1].splitlines()
    assert float(similar.split("\t")[0]) > float(other.split("\t")[0])


# --- tables ---------------------------------------------------------------------------------------

REVIEWS = """id;Review;date
7;"The film; a good one, is \"\"fine\"\"";2024-01-02
8;=SUM(A1);2024-01-03
9;-1;2024-01-04
"""
TEXTS = ['The film; a good one, is "fine"', "=SUM(A1)", "-1"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_bytes(REVIEWS.encode())
    return path


def read_back(path, delimiter=","):
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf"), "Excel would take it for Windows-1252"
    text = content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def test_a_table_is_read_by_its_columns(two_runs, predict, table):
    lines = predict("\n".join(TEXTS), two_runs[0], "--task", "sst")[1]
    flags = ("--task", "sst", "--input", table, "--text", "review")
    code, printed, said = predict("", two_runs[0], *flags)
    assert (code, printed) == (0, lines)
    said = without_warning(said)
    assert said == f"{table}: semicolon-separated UTF-8, 3 rows, text in 'Review'\n"


def test_a_table_on_standard_input_is_no_list_of_sentences(two_runs, predict, table):
    code, printed, said = predict(REVIEWS, two_runs[0], "--task", "sst")
    assert (code, printed) == (2, "")
    assert "the header has no column sentence; found are: id, Review, date. Pass the col" in said
    assert "--text NAME, or --lines if each line is a text of its own" in said
    assert predict(REVIEWS, two_runs[0], "--task", "sst", "--text", "Review")[0] == 0
    assert len(predict(REVIEWS, two_runs[0], "--task", "sst", "--lines")[1].splitlines()) == 4


def test_all_columns_are_written_for_a_spreadsheet(two_runs, predict, table, tmp_path):
    out = tmp_path / "predictions.csv"
    flags = ("--task", "sst", "--input", table, "--text", "Review", "--out", out)
    code, printed, said = predict("", two_runs[0], *flags)
    assert (code, printed) == (0, "")
    assert f"predictions: {out}, 3 rows" in said

    header, *rows = read_back(out, ";")
    assert header == ["id", "Review", "date", "prediction", "confidence"]
    # A cell like a formula has an apostrophe, and a number has none.
    assert [row[1] for row in rows] == [TEXTS[0], "'=SUM(A1)", "-1"]
    classes = predict("\n".join(TEXTS), two_runs[0], "--task", "sst")[1]
    expected = [TASKS["sst"].label_names[int(line.split("\t")[0])] for line in classes.splitlines()]
    assert [row[3] for row in rows] == expected
    flags = ("--task", "sst", "--probabilities")
    shares = predict("\n".join(TEXTS), two_runs[0], *flags)[1].splitlines()
    highest = [max(map(float, line.split("\t")[0].split())) for line in shares]
    assert [float(row[4].replace(",", ".")) for row in rows] == pytest.approx(highest, abs=1e-3)


def test_a_written_file_can_be_predicted_again(two_runs, predict, table, tmp_path):
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    flags = ("--task", "sst", "--text", "Review", "--out")
    assert predict("", two_runs[0], *flags, first, "--input", table)[0] == 0
    assert predict("", two_runs[1], *flags, second, "--input", first)[0] == 0
    header = read_back(second, ";")[0]
    assert header[3:] == ["prediction", "confidence", "prediction_2", "confidence_2"]


@pytest.mark.parametrize("name", ["para", "sts"])
def test_pairs_of_a_table_and_of_lines_are_written(two_runs, predict, tmp_path, name):
    rows = [("Is it fine?", "Is it good?"), ("A man, a girl.", "The hotel.")]
    lines = "\n".join("\t".join(row) for row in rows)
    path = tmp_path / "pairs.jsonl"
    records = [json.dumps({"q1": first, "q2": second, "n": 1}) for first, second in rows]
    path.write_text("\n".join(records))
    columns = ("--text", "q1", "--text-pair", "q2")
    out = tmp_path / "table.csv"
    flags = (two_runs[0], "--task", name, "--out")
    assert predict("", *flags, out, "--input", path, *columns)[0] == 0
    assert predict(lines, *flags, tmp_path / "lines.csv")[0] == 0
    header, *of_table = read_back(out)
    plain_header, *of_lines = read_back(tmp_path / "lines.csv")
    added = ["prediction"] if name == "sts" else ["prediction", "confidence"]
    assert header == ["q1", "q2", "n", *added]
    assert plain_header == ["sentence1", "sentence2", *added]
    assert [row[3:] for row in of_table] == [row[2:] for row in of_lines]
    printed = predict(lines, two_runs[0], "--task", name)[1].splitlines()
    values = [float(line.split("\t")[0]) for line in printed]
    if name == "sts":
        assert [float(row[2]) for row in of_lines] == values
    else:
        assert [row[2] for row in of_lines] == [TASKS["para"].label_names[int(v)] for v in values]


def test_probabilities_get_a_column_for_each_class(two_runs, predict, tmp_path):
    out = tmp_path / "out.csv"
    flags = ("--task", "para", "--probabilities", "--out", out)
    assert predict("a b\tc d\ne f\tg h\n", two_runs[0], *flags)[0] == 0
    header, *rows = read_back(out)
    assert header[4:] == ["probability of not a paraphrase", "probability of paraphrase"]
    for row in rows:
        assert float(row[4]) + float(row[5]) == pytest.approx(1, abs=2e-4)
        assert max(float(row[4]), float(row[5])) == float(row[3])


def test_a_workbook_becomes_a_workbook_with_numbers(two_runs, predict, tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")
    workbook = openpyxl.Workbook()
    rows = [["key", "Review"], ["007", "=a film"], [12, "fine,\nreally"]]
    for row in rows:
        workbook.active.append(row)
    workbook.active["B2"].data_type = "s"
    workbook.save(tmp_path / "in.xlsx")
    flags = ("--task", "sst", "--text", "review", "--input", tmp_path / "in.xlsx", "--out")
    assert predict("", two_runs[0], *flags, tmp_path / "out.xlsx")[0] == 0
    header, *cells = openpyxl.load_workbook(tmp_path / "out.xlsx").active.values
    assert header == ("key", "Review", "prediction", "confidence")
    assert [list(row[:2]) for row in cells] == rows[1:]
    assert predict("", two_runs[0], *flags, tmp_path / "out.csv")[0] == 0
    of_csv = read_back(tmp_path / "out.csv")[1:]
    assert [row[2] for row in cells] == [row[2] for row in of_csv]
    assert [row[3] for row in cells] == [float(row[3]) for row in of_csv]


def test_a_text_too_long_for_a_workbook_is_refused_before_any_work(two_runs, predict, tmp_path):
    pytest.importorskip("openpyxl", reason="bash setup.sh --excel installs openpyxl")
    content = f"id,sentence\n1,fine\n2,{'x' * 40_000}\n"
    flags = ("--task", "sst", "--out", tmp_path / "out.xlsx")
    code, printed, said = predict(content, two_runs[0], *flags)
    assert (code, printed) == (2, "")
    assert "row 2 has a cell of 40,000 characters, and Excel keeps 32,767" in said


def test_a_row_without_a_text_has_no_prediction(two_runs, predict, tmp_path):
    content = "id,sentence\n1,a fine film\n2,\n3,a dull film\n"
    flags = ("--task", "sst", "--out", tmp_path / "out.csv")
    code, printed, said = predict(content, two_runs[0], *flags)
    assert (code, printed) == (0, "")
    assert "1 without a text left out, the first: line 3" in said
    assert "out.csv, 3 rows, 1 of them without a prediction" in said
    rows = read_back(tmp_path / "out.csv")[1:]
    assert [row[:2] for row in rows] == [["1", "a fine film"], ["2", ""], ["3", "a dull film"]]
    assert rows[1][2:] == ["", ""]
    lines = predict("a fine film\na dull film\n", two_runs[0], "--task", "sst")[1].splitlines()
    names = [TASKS["sst"].label_names[int(line.split("\t")[0])] for line in lines]
    assert [rows[0][2], rows[2][2]] == names
    # Without a file, each row of the input has its line, too.
    code, printed, said = predict(content, two_runs[0], "--task", "sst")
    assert code == 0 and "1 without a text left out, the first: line 3" in said
    assert printed.splitlines() == [lines[0], "\t\t\t", lines[1]]


@pytest.mark.parametrize(
    ("score", "written"),
    [
        ("4.5", "."),  # pandas writes so with sep=";"
        ("4,5", ","),
        ("6.124", ","),  # a thousand
        ("4", ","),
    ],
)
def test_the_decimal_sign_is_that_of_the_table(two_runs, predict, tmp_path, score, written):
    source = tmp_path / "in.csv"
    source.write_text(f"sentence;score\nA good film .;{score}\nA film .;\n", encoding="utf-8")
    out = tmp_path / "out.csv"
    code, _, _ = predict("", two_runs[0], "--task", "sst", "--input", source, "--out", out)
    rows = list(csv.reader(io.StringIO(out.read_text(encoding="utf-8-sig")), delimiter=";"))
    assert code == 0 and rows[1][1] == score
    assert re.fullmatch(rf"0\{written}\d{{4}}", rows[1][-1])


def test_a_text_of_several_lines_is_printed_on_one(two_runs, predict):
    content = 'sentence,n\n"two\nlines",1\nfine,2\n'
    code, printed, _ = predict(content, two_runs[0], "--task", "sst")
    assert code == 0
    assert [split_line(line, "sst")[1] for line in printed.splitlines()] == ["two lines", "fine"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--task sst --text-pair x", "--text-pair has no effect with --task sst"),
        ("--task sst --lines --text x", "--lines says that the input has no columns"),
        ("--task sst --out DIR/out.ods", "expected is a name that ends in .csv or .xlsx"),
        ("--task sst --input DIR/reviews.csv --out DIR/reviews.csv", "it is an input already"),
        ("--task sst --input DIR/none.csv", "none.csv: there is no such file"),
        ("--task sst --input DIR/reviews.csv --text words", "no column words, which --text names"),
        (
            "--task para --input DIR/reviews.csv --text id --text-pair id",
            "name the same column, id",
        ),
        ("--task sst --input DIR/header.csv", "holds a header and no rows"),
    ],
)
def test_requests_that_are_refused(two_runs, predict, table, tmp_path, flags, words):
    (tmp_path / "header.csv").write_text("sentence,n\n")
    arguments = flags.replace("DIR", str(tmp_path)).split()
    code, printed, said = predict("fine\n", two_runs[0], *arguments)
    assert (code, printed) == (2, "")
    assert words in said
    assert table.read_bytes() == REVIEWS.encode()


def test_rows_that_the_model_does_not_know_get_a_warning(two_runs, predict):
    code, printed, said = predict(
        "человек играет\nс другом\nгромко на гитаре\n", two_runs[0], "--task", "sst"
    )
    assert code == 0 and printed.count("\n") == 3
    assert f"warning: the rows, for {two_runs[0]}: " in said
    assert "of all tokens are [UNK]" in said and "as in 'громко на гитаре'" in said
