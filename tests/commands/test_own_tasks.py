"""Tasks of a user: trained, predicted, joined and examined by the commands.

Two generated tables: tickets of four teams, and pairs of three classes as in NLI. If a label gets
another name on its way, its order in a file and in the model most likely differ.
"""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import run_multitask
from data.examples import COURSE_FILES, PARA
from multitask import Predictor, check, compare
from multitask import predict as predict_command
from multitask.ensemble import __main__ as ensemble
from multitask.errors import __main__ as errors
from multitask.export import __main__ as export
from multitask.model import MultitaskBert
from multitask.saved_run import all_tasks, open_run, read_record

# Words of the tiny model's vocabulary, so that a team can be told by its word.
TEAMS = {"=sales": "woman", "billing": "man", "login": "girl", "product, other": "hotel"}
RELATIONS = {"contradiction": "not", "entailment": "is", "neutral": "the"}


def read_table(path) -> list[list[str]]:
    """The rows of a file that was written for a spreadsheet."""
    text = path.read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with tickets.csv (four teams) and nli.tsv (three classes)."""
    folder = tmp_path_factory.mktemp("own-tables")
    words = random.Random(0)
    with open(folder / "tickets.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "message", "team"])
        for number in range(120):
            team = words.choice(list(TEAMS))
            filler = words.sample(["a", "of", "in", "and", "to", "it"], 3)
            writer.writerow([f"T{number}", " ".join([*filler, TEAMS[team], TEAMS[team]]), team])
    lines = ["premise\thypothesis\tlabel"]
    for number in range(96):
        relation = words.choice(list(RELATIONS))
        lines.append(f"a man in {number % 13}\t{RELATIONS[relation]} a man {number}\t{relation}")
    (folder / "nli.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def flags(tables, tiny_model, sample_data):
    """The flags that all runs share."""
    values = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
    values += ["--lr", "3e-3", "--batch-size", "8"]
    return list(map(str, values))


def tickets(tables) -> str:
    return f"name=tickets,train={tables}/tickets.csv,text=message,label=team,id=number"


def nli(tables) -> str:
    return f"name=nli,train={tables}/nli.tsv,text=premise,text_pair=hypothesis,label=label"


@pytest.fixture(scope="module")
def two_tickets(flags, tables, tmp_path_factory):
    """Two runs on tickets alone, with two seeds."""
    folder = tmp_path_factory.mktemp("tickets")
    runs = []
    for seed in ("1", "2"):
        own = ["--task", tickets(tables), "--tasks", "tickets", "--epochs", "6", "--seed", seed]
        name = ["--output-dir", str(folder), "--name", seed]
        assert run_multitask.main([*flags, *own, *name]) == 0
        runs.append(folder / seed)
    return runs


@pytest.fixture(scope="module")
def mixed(flags, tables, tmp_path_factory):
    """A run on SST and NLI, and what it printed."""
    folder = tmp_path_factory.mktemp("mixed")
    own = ["--task", nli(tables), "--tasks", "sst,nli", "--epochs", "4", "--head", "features"]
    with pytest.MonkeyPatch.context() as patch:
        printed = io.StringIO()
        patch.setattr(sys, "stdout", printed)
        assert run_multitask.main([*flags, *own, "--output-dir", str(folder), "--name", "run"]) == 0
    return folder / "run", printed.getvalue()


def record_of(run) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


# --- a run ----------------------------------------------------------------------------------------


def test_only_the_named_tasks_are_read_trained_and_saved(two_tickets, tables):
    record = record_of(two_tickets[0])
    assert record["scores"].keys() == {"tickets"}
    assert {name: set(scores) for name, scores in record["baselines"].items()} == {
        "majority": {"tickets"},
        "TF-IDF": {"tickets"},
        "vectors": {"tickets"},
    }
    assert list(record["files"]) == [str(tables / "tickets.csv")]
    assert record["options"]["task"] == [tickets(tables)]
    assert [path.name for path in (two_tickets[0] / "predictions").iterdir()] == [
        "tickets-dev-output.csv"
    ]
    model = MultitaskBert.from_pretrained(two_tickets[0] / "model")
    assert list(model.tasks) == ["tickets"] and list(model.heads) == ["task_tickets"]
    for epoch in record["epochs"]:
        assert not {"sst", "para", "sts"} & epoch.keys()


def test_it_learns_and_keeps_the_names_of_the_labels(two_tickets, tables):
    record = record_of(two_tickets[0])
    assert record["scores"]["tickets"] > record["baselines"]["majority"]["tickets"] + 0.3
    task = MultitaskBert.from_pretrained(two_tickets[0] / "model").tasks["tickets"]
    assert task.label_names == tuple(sorted(TEAMS))

    header, *rows = read_table(two_tickets[0] / "predictions" / "tickets-dev-output.csv")
    assert header == ["id", "prediction", "confidence"]
    # A label that looks like a formula has an apostrophe in the file for a spreadsheet.
    gold = {row[0]: row[2] for row in read_table(tables / "tickets.csv")[1:]}
    right = [gold[row[0]] == row[1].removeprefix("'") for row in rows]
    assert sum(right) / len(right) == pytest.approx(record["scores"]["tickets"])
    assert all(0.25 <= float(row[2]) <= 1 for row in rows)


def test_a_course_task_beside_an_own_one(mixed, sample_data):
    run, printed = mixed
    record = record_of(run)
    assert record["scores"].keys() == {"sst", "nli"}
    assert record["scores"]["nli"] > record["baselines"]["majority"]["nli"] + 0.2
    assert record["options"]["score"] == "mean"
    names = sorted(path.name for path in (run / "predictions").iterdir())
    assert names == ["nli-dev-output.csv", "sst-dev-output.csv", "sst-test-output.csv"]
    first = (run / "predictions" / "sst-dev-output.csv").read_bytes().splitlines()[0]
    assert first == b"id \t Predicted_Sentiment "
    assert not any("quora" in path or "sts" in path for path in record["files"])
    assert str(sample_data / COURSE_FILES["sst"]["dev"]) in record["files"]

    assert "task nli: classes (3 different labels), contradiction, entailment, neutral" in printed
    assert "are dev rows of nli, drawn with seed 0, stratified by label:" in printed
    table = printed[printed.index("dev   ") :].splitlines()
    assert [line.split()[0] for line in table[1:3]] == ["SST", "nli"]
    assert "overall" not in printed and "not trained" not in printed
    assert f"  {run / 'predictions' / 'nli-dev-output.csv'}" in printed


# --- predict --------------------------------------------------------------------------------------


@pytest.fixture
def predict(monkeypatch, capsys):
    """A function that runs the command on lines, and returns (exit code, output, errors)."""

    def run(text: str, *arguments):
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stdin)
        code = predict_command.main(list(map(str, arguments)))
        return code, *capsys.readouterr()

    return run


def test_predict_needs_no_task_where_there_is_one(two_tickets, predict):
    code, printed, said = predict("to it woman woman\nof in hotel hotel\n", two_tickets[0])
    assert (code, said) == (0, "")
    labels, shares, texts = zip(*(line.split("\t") for line in printed.splitlines()), strict=True)
    assert labels == ("=sales", "product, other")
    assert texts == ("to it woman woman", "of in hotel hotel")
    assert all(0.25 <= float(share) <= 1 for share in shares)
    named = predict("to it woman woman\n", two_tickets[0], "--task", "tickets")[1]
    assert named == printed.splitlines(keepends=True)[0]
    # Python needs no name either.
    predictor = Predictor(two_tickets[0])
    assert predictor.label_names == tuple(sorted(TEAMS))
    assert predictor.predict(texts).tolist() == list(labels)


def test_predict_says_which_tasks_there_are(two_tickets, mixed, predict):
    code, _, said = predict("a\n", two_tickets[0], "--task", "sst")
    assert code == 2
    assert "--task sst: " in said and "was trained on tickets. Pass one of these" in said
    code, _, said = predict("a\n", mixed[0])
    assert code == 2 and "was trained on sst, nli; pass one as --task." in said
    # A run on other tasks cannot help.
    code, _, said = predict("a\n", two_tickets[0], mixed[0], "--task", "tickets")
    assert code == 2 and "was trained on sst,nli; its head for tickets never learned" in said


def test_probabilities_are_in_the_order_of_the_labels(two_tickets, predict):
    lines = "to it woman woman\nof in hotel hotel\n"
    code, printed, _ = predict(lines, *two_tickets, "--probabilities")
    assert code == 0
    for line, largest in zip(printed.splitlines(), (0, 3), strict=True):
        shares = list(map(float, line.split("\t")[0].split()))
        assert len(shares) == 4 and sum(shares) == pytest.approx(1, abs=1e-3)
        assert shares.index(max(shares)) == largest


def test_a_table_with_the_columns_of_training_needs_no_names(mixed, predict, tables, tmp_path):
    out = tmp_path / "out.csv"
    code, _, said = predict(
        "", mixed[0], "--task", "nli", "--input", tables / "nli.tsv", "--out", out
    )
    assert code == 0 and "text in 'premise' and 'hypothesis'" in said
    header, *rows = read_table(out)
    assert header == ["premise", "hypothesis", "label", "prediction", "confidence"]
    assert len(rows) == 96 and {row[3] for row in rows} <= set(RELATIONS)
    # The run has seen most of these rows.
    assert sum(row[2] == row[3] for row in rows) > 0.5 * len(rows)


# --- errors and ensemble --------------------------------------------------------------------------


def test_a_file_of_one_column_is_read_by_its_header(two_tickets, predict, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("message\na of woman woman\n", encoding="utf-8")
    code, printed, said = predict("", two_tickets[0], "--input", path)
    assert code == 0 and len(printed.splitlines()) == 1 and "a of woman woman" in printed
    assert "the first line, 'message', is the header" in said
    assert len(predict("", two_tickets[0], "--input", path, "--lines")[1].splitlines()) == 2


def test_check_says_where_an_own_task_is_scored(two_tickets, capsys):
    path = two_tickets[0] / "predictions" / "tickets-dev-output.csv"
    assert check.main([str(path)]) == 2
    message = capsys.readouterr().err
    assert "is a table of predictions, as of a task of your own" in message
    assert "`multitask.errors RUN` shows them" in message and "\\r" not in message


def test_precision_may_be_another_than_that_of_the_run(two_tickets, predict):
    """The run's is fp32. Half precision changes the probabilities a little."""
    printed = {}
    for precision in ("auto", "fp32", "bf16"):
        flags = ("--probabilities", "--precision", precision)
        printed[precision] = predict("a of woman woman\nman in it\n", two_tickets[0], *flags)[1]
    assert printed["auto"] == printed["fp32"] != printed["bf16"]
    for line, rounded in zip(
        printed["fp32"].splitlines(), printed["bf16"].splitlines(), strict=True
    ):
        exact = list(map(float, line.split("\t")[0].split()))
        assert exact == pytest.approx(list(map(float, rounded.split("\t")[0].split())), abs=0.03)


def test_export_needs_no_task_where_there_is_one(two_tickets, mixed, tmp_path, capsys):
    """The task is found. Its pooling has no class in transformers, so another library opens it."""
    assert export.main([str(two_tickets[0]), "--out", str(tmp_path / "model")]) == 0
    assert "Open it with SentenceTransformer(" in capsys.readouterr().out
    assert export.main([str(mixed[0]), "--out", str(tmp_path / "other")]) == 2
    assert "was trained on sst, nli; pass one as --task." in capsys.readouterr().err


def test_predict_names_the_member_runs_of_an_ensemble(two_tickets, tmp_path, predict, capsys):
    out = tmp_path / "AB"
    assert ensemble.main([*map(str, two_tickets), "--out", str(out)]) == 0
    capsys.readouterr()
    code, _, said = predict("a man\n", out)
    assert code == 2 and "holds an ensemble, and no model" in said
    assert all(str(run) in said for run in two_tickets)
    assert predict("a man\n", *two_tickets)[0] == 0


def test_the_report_of_errors_has_the_names_of_the_labels(two_tickets, tmp_path, capsys):
    assert errors.main([str(two_tickets[1]), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "errors.md").read_text(encoding="utf-8")
    assert "## tickets dev" in text
    assert "| gold \\\\ predicted | =sales | billing | login | product, other | rows |" in text
    assert 'The recall of each class: "=sales"' in text
    assert "class away" not in text, "teams have no order"
    assert "mean gold" not in text
    assert f"dev rows of {read_record(two_tickets[1]).options.data.requests['tickets'].train}" in (
        text
    )
    rows = ["--suspicious", str(tmp_path / "rows.csv"), "--task"]
    assert errors.main([str(two_tickets[1]), *rows, "sst"]) == 2
    assert "has tickets. Pass one." in capsys.readouterr().err
    assert errors.main([str(two_tickets[1]), *rows, "tickets"]) == 0


def test_a_report_of_pairs_with_three_classes(mixed, tmp_path, capsys):
    assert errors.main([str(mixed[0]), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "errors.md").read_text(encoding="utf-8")
    assert "## SST dev" in text and "## nli dev" in text and "## STS dev" not in text
    assert text.count("Score by word overlap") == 1


def test_an_ensemble_of_own_tasks(two_tickets, tmp_path, capsys):
    out = tmp_path / "joined"
    assert ensemble.main([*map(str, two_tickets), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "tickets accuracy" in printed and "overall" not in printed
    record = json.loads((out / "ensemble.json").read_text())
    assert record["scores"].keys() == {"tickets"}
    names = [path.name for path in (out / "predictions").iterdir()]
    assert names == ["tickets-dev-output.csv"]
    header, *rows = read_table(out / "predictions" / names[0])
    assert header == ["id", "prediction", "confidence"]

    # The confidence is that of the mean of both runs.
    runs = [open_run(folder) for folder in two_tickets]
    from multitask.probabilities import probabilities

    mean = sum(probabilities(run.outputs("tickets", "dev")) for run in runs) / 2
    assert [float(row[2]) for row in rows] == pytest.approx(mean.max(axis=1), abs=1e-4)


def test_runs_on_other_rows_or_labels_are_not_joined(two_tickets, flags, tables, tmp_path, capsys):
    own = ["--task", f"{tickets(tables)},split_seed=9", "--tasks", "tickets", "--epochs", "1"]
    assert run_multitask.main([*flags, *own, "--output-dir", str(tmp_path), "--name", "a"]) == 0
    out = str(tmp_path / "joined")
    assert ensemble.main([str(two_tickets[0]), str(tmp_path / "a"), "--out", out]) == 2
    assert "drew different dev rows of tickets" in capsys.readouterr().err


# --- options that change what is read -------------------------------------------------------------


def test_runs_that_differ_in_their_metric_are_joined(two_tickets, tmp_path, capsys):
    """A metric chose the best epoch of a run. It does not change what an answer means."""
    other = Path(shutil.copytree(two_tickets[1], tmp_path / "other"))
    record = json.loads((other / "run.json").read_text())
    record["tasks"] = [
        task | {"metric_name": "macro_f1"} if task["name"] == "tickets" else task
        for task in record["tasks"]
    ]
    del record["checksum"]
    (other / "run.json").write_text(json.dumps(record))
    out = tmp_path / "joined"
    assert ensemble.main([str(two_tickets[0]), str(other), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "tickets: scored by accuracy, as the first run that reads it." in said
    assert "chose their best epoch by macro F1." in said
    assert (out / "ensemble.json").is_file()


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param({"label_names": ("east", "west")}, "classes east, west", id="other classes"),
        pytest.param({"format": PARA}, "of pairs of texts", id="pairs"),
        pytest.param({"kind": "multilabel"}, "multilabel", id="several labels a row"),
    ],
)
def test_runs_on_different_tasks_of_one_name_are_refused(two_tickets, change, cause):
    """The message names what differs, and never twice the same."""
    records = [read_record(run) for run in two_tickets]
    task = records[1].tasks["tickets"]
    other = replace(records[1], tasks={"tickets": replace(task, **change)})
    with pytest.raises(ValueError, match="different tasks called tickets") as error:
        all_tasks([records[0], other])
    first, second = str(error.value).split("tickets: ")[1].split(", and ")
    assert cause in second and cause not in first


def test_dev_and_labelled_test_files(flags, tables, tmp_path, capsys):
    """Dev labels may be in other spellings of numbers; a labelled test file is scored."""
    rows = [f"a man {number},{number % 3}.0" for number in range(30)]
    for name in ("train", "dev", "test"):
        text = "\n".join(["text,label", *rows]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text.replace(".0", "" if name == "train" else ".0"))
    task = f"name=type,train={tmp_path}/train.csv,dev={tmp_path}/dev.csv,test={tmp_path}/test.csv"
    own = ["--task", f"{task},metric=macro_f1", "--tasks", "type", "--epochs", "1"]
    assert run_multitask.main([*flags, *own, "--output-dir", str(tmp_path), "--name", "a"]) == 0
    printed = capsys.readouterr().out
    record = record_of(tmp_path / "a")
    # Both files hold the same rows, and so does training.
    assert record["test_scores"] == record["scores"]
    assert record["test_baselines"] == record["baselines"]
    assert f"test: type macro F1 {record['scores']['type']:.4f} (majority " in printed
    assert "TF-IDF: 100% of the words in the dev rows of type stand in its training" in printed
    assert "dev rows that are training rows too: 30 of type" in printed
    assert len(read_table(tmp_path / "a" / "predictions" / "type-test-output.csv")) == 31


def test_untrained_tasks_are_read_and_marked(flags, tmp_path, capsys):
    own = ["--tasks", "sst", "--untrained-tasks", "sts", "--epochs", "1"]
    assert run_multitask.main([*flags, *own, "--output-dir", str(tmp_path), "--name", "a"]) == 0
    printed = capsys.readouterr().out
    assert record_of(tmp_path / "a")["scores"].keys() == {"sst", "sts"}
    assert "–: not trained; the files of STS hold what an untrained head says" in printed
    assert "PARA" not in printed
    assert list(MultitaskBert.from_pretrained(tmp_path / "a" / "model").heads) == ["sst", "sts"]


def test_a_contrastive_stage_reads_the_sentences_of_own_tasks(
    flags, tables, tmp_path, sample_data, capsys
):
    own = ["--task", tickets(tables), "--tasks", "tickets", "--epochs", "1"]
    own += ["--pretrain", "simcse", "--contrastive-epochs", "1"]
    assert run_multitask.main([*flags, *own, "--output-dir", str(tmp_path), "--name", "a"]) == 0
    printed = capsys.readouterr().out
    path = str(sample_data / COURSE_FILES["sts"]["dev"])
    assert f"{path}: 24 rows read, 0 dropped; they only select the best weights" in printed
    assert path in record_of(tmp_path / "a")["files"]
    assert record_of(tmp_path / "a")["scores"].keys() == {"tickets"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            "--tasks ticket",
            "--tasks is 'ticket'; it is some of these, separated by commas: sst, "
            "para, sts, cfimdb, tickets. Did you mean tickets?",
        ),
        ("", "--task name=tickets has no effect with --tasks sst,para,sts. Pass --tasks tickets"),
        ("--tasks tickets --score mean", "--score mean cannot select an epoch of --tasks tickets"),
        ("--tasks tickets --pretrain mnr", "--pretrain mnr trains on labelled pairs of para and"),
        ("--tasks tickets,sts --pretrain simcse-supervised", "trains on labelled pairs of para, "),
        ("--tasks tickets --sst-dev-out a.csv", "--sst_dev_out a.csv has no effect with --tasks t"),
        ("--tasks tickets --sampling-weights sst=2", "names a task that --tasks tickets does not"),
        ("--tasks tickets --untrained-tasks tickets", "--untrained_tasks is 'tickets'; it is none"),
        ("--tasks tickets --train-rows nli=3", "there is no task nli; there are sst, para, sts,"),
    ],
)
def test_options_that_are_refused_before_any_file_is_read(arguments, words, capsys):
    with pytest.raises(SystemExit):
        run_multitask.main(["--task", "name=tickets,train=none.csv", *arguments.split()])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--head cosine", "--head cosine gives a number, and nli has classes. Pass --head"),
        ("--head mlp --sts-range fitted", "--sts_range fitted has no effect with --tasks nli"),
    ],
)
def test_heads_that_have_no_meaning_for_the_task(flags, tables, tmp_path, capsys, arguments, words):
    own = ["--task", nli(tables), "--tasks", "nli", "--output-dir", str(tmp_path)]
    assert run_multitask.main([*flags, *own, *arguments.split()]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_two_runs_of_an_own_task_are_compared(two_tickets, capsys):
    """The scores are those of run.json, though a class is called =sales in the file."""
    assert compare.main([*map(str, two_tickets), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    scores = [record_of(run)["scores"]["tickets"] for run in two_tickets]
    assert printed["tickets"]["scores"] == pytest.approx(scores)
    assert printed["tickets"]["rows"] == len(
        open_run(two_tickets[0]).tables["tickets"]["dev"].examples
    )
