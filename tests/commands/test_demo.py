"""`python -m multitask.demo`: the page answers as the run does, and answers this machine alone."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multitask import Predictor
from multitask.demo.__main__ import main
from multitask.demo.answers import Demo
from multitask.demo.server import DemoServer
from multitask.rows import read_tables
from multitask.user_rows import BUNDLED_RUN

PAIR = ["a man is in the hotel", "a girl"]


@pytest.fixture(scope="module")
def server(two_runs):
    with DemoServer(Demo(two_runs[0]), port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def predictor(two_runs):
    return Predictor(two_runs[0])


def request(server: DemoServer, method: str, address: str, body: str = "", **headers: str) -> Any:
    """The status of an answer, and its body."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, address, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def ask(server: DemoServer, address: str, status: int = 200, **question: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    found, text = request(server, "POST", address, json.dumps(question), **headers)
    assert found == status, text
    return json.loads(text)


def test_the_page_needs_no_other_file(server):
    status, page = request(server, "GET", "/")
    assert status == 200 and f"<title>Try {server.demo.name}</title>" in page
    assert '"title": "SST"' in page and '"title": "STS"' in page
    assert not re.findall(r"""(?:https?:)?//[\w-]+\.|(?:src|href)=["'](?!data:)""", page)


@pytest.mark.parametrize("task", ["sst", "para"])
def test_classes_are_those_of_predictor(server, predictor, task):
    texts = PAIR if task == "para" else PAIR[:1]
    answer = ask(server, "/answer", task=task, texts=texts)
    (expected,) = predictor.predict_proba([PAIR if task == "para" else PAIR[0]], task=task)
    assert [name for name, _ in answer["classes"]] == list(predictor.record.tasks[task].label_names)
    assert [share for _, share in answer["classes"]] == pytest.approx(expected.tolist())


def test_a_score_and_its_scale(server, predictor):
    answer = ask(server, "/answer", task="sts", texts=PAIR)
    assert answer["number"] == pytest.approx(predictor.predict([PAIR], task="sts")[0])
    assert answer["scale"] == [0, 5]


def test_what_the_user_should_know_is_said(server):
    notes = ask(server, "/answer", task="sst", texts=["xyzzy plugh " * 100])["notes"]
    assert "were cut to it" in notes[0] and "words that the training rows do not have" in notes[-1]
    assert not ask(server, "/answer", task="sst", texts=["a man"])["notes"]


def test_a_picture_has_the_tokens_of_a_row(server):
    """A pair that is encoded in two rows has two pictures."""
    predictor = server.demo.predictor
    is_cross = predictor.model.pair_encoding == "cross"
    rows = [PAIR] if is_cross else [[text] for text in PAIR]
    pictures = ask(server, "/attention", task="sts", texts=PAIR, layer=1, head=0)["pictures"]
    for picture, row in zip(pictures, rows, strict=True):
        tokens = predictor.tokenizer.tokenize(*row, add_special_tokens=True)
        # Each token stands beside the map and above it.
        assert sorted(re.findall(r">([^<>\s]+)</text>", picture)) == sorted(tokens * 2)
    other = ask(server, "/attention", task="sts", texts=PAIR, layer=0, head=0)["pictures"]
    assert other != pictures
    ask(server, "/attention", status=400, task="sts", texts=PAIR, layer=99, head=0)


@pytest.mark.parametrize("task", ["sst", "sts"])
def test_a_training_row_is_nearest_to_itself(server, predictor, task):
    record = predictor.record
    tables = read_tables(record.options.data, {task: record.tasks[task]})
    example = tables[task]["train"].examples[0]
    answer = ask(server, "/nearest", task=task, texts=example.texts)
    cosine, label, *texts = answer["rows"][0]
    assert (cosine, tuple(texts)) == ("1.000", example.texts)
    assert label == record.tasks[task].label_text(example.label)
    cosines = [float(row[0]) for row in answer["rows"]]
    assert cosines == sorted(cosines, reverse=True) and len(set(cosines)) > 1


def test_a_table_comes_back_with_its_answers(server, predictor):
    content = base64.b64encode(b"note,said\nx,a man\ny,not a girl\n").decode()
    answer = ask(server, "/table", task="sst", name="my.csv", content=content, text="said")
    table = base64.b64decode(answer["content"]).decode("utf-8-sig").splitlines()
    expected = predictor.predict(["a man", "not a girl"], task="sst")
    assert [line.split(",")[:3] for line in table] == [
        ["note", "said", "prediction"],
        ["x", "a man", expected[0]],
        ["y", "not a girl", expected[1]],
    ]
    assert "probability of positive" in table[0] and answer["name"] == "predictions.csv"
    # A message names the user's file, and not ours.
    error = ask(server, "/table", status=400, task="sst", name="my.csv", content=content, text="b")
    assert error["error"].startswith("my.csv") and "note, said" in error["error"]


@pytest.mark.parametrize(
    ("task", "content", "words", "changes"),
    [
        ("sst", "said,by\nhello,me\n", "texts with --text NAME", {"text": "said"}),
        ("sst", "hello, you\nbye, you\n", "or --lines if each line", {"lines": True}),
        ("sst", "said,by\nhello,me\n", "a number names a column: 1 to 2", {"text": "2"}),
        (
            "para",
            "a1\tb1\nx\ty\n",
            "Name the columns with --text and --text-pair",
            {"text": "a1", "text_pair": "b1"},
        ),
        ("para", "a1\tb1\nx\ty\n", "or pass --lines", {"lines": True}),
        ("sst", "", "holds no lines", {"content": "hello"}),
        ("sst", "hello\n\nbye", "Remove empty lines first", {"content": "hello\nbye"}),
    ],
)
def test_advice_about_a_table_is_followed_on_the_page(server, task, content, words, changes):
    """Each flag that a message names is a field of the page."""

    def answer(status: int, content: str, **fields: Any) -> dict[str, Any]:
        encoded = base64.b64encode(content.encode()).decode()
        name = "mine.csv" if "," in content else "mine.txt"
        return ask(server, "/table", status, task=task, name=name, content=encoded, **fields)

    message = answer(400, content)["error"]
    assert words in message
    for flag in re.findall(r"--[a-z-]+", message):
        assert f"({flag})" in server.page
    assert answer(200, **{"content": content, **changes})["name"] == "predictions.csv"


def test_the_bundled_run_finds_its_rows_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo = Demo(BUNDLED_RUN)
    monkeypatch.setattr("multitask.demo.answers.NUM_TRAINING_ROWS", 20)
    found = demo.nearest("sst", ["a man"])
    assert len(found["rows"]) == 5 and not any("changed" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"task": "sst", "texts": [" "]}, "SST reads a sentence"),
        ({"task": "sts", "texts": ["a man"]}, "STS reads two sentences"),
        ({"task": "tickets", "texts": ["a man"]}, "no task 'tickets'"),
        ({"task": "sst"}, "texts"),
    ],
)
def test_questions_that_cannot_be(server, question, words):
    assert words in ask(server, "/answer", status=400, **question)["error"]


def test_other_sites_and_machines_are_refused(server):
    question = json.dumps({"task": "sst", "texts": ["a man"]})
    kind = {"Content-Type": "application/json"}
    assert request(server, "POST", "/answer", question, **kind)[0] == 200
    # A form of another page, a name that another site gives this machine, and no address.
    for address, headers, status in (
        ("/answer", {"Content-Type": "text/plain"}, 403),
        ("/answer", {**kind, "Host": "example.org"}, 403),
        ("/answer", {**kind, "Host": "127.0.0.1.example.org"}, 403),
        ("/predictor", kind, 404),
        ("/answer", {**kind, "Content-Length": "60000000"}, 413),
    ):
        assert request(server, "POST", address, question, **headers)[0] == status
    assert request(server, "GET", "/", Host="example.org")[0] == 403
    assert request(server, "GET", "/run.json")[0] == 404
    assert server.server_address[0] == "127.0.0.1"


def test_the_command(server, two_runs, monkeypatch, capsys):
    """It prints its address, and refuses a port that is taken."""
    monkeypatch.setattr(DemoServer, "serve_forever", lambda self: None)
    assert main(["--port", "0"]) == 0
    assert re.search(r"Open http://127\.0\.0\.1:\d+ in a browser", capsys.readouterr().out)
    assert main([str(two_runs[0]), "--port", str(server.server_port)]) == 2
    assert "or --port 0, which takes a free one" in capsys.readouterr().err
    assert main([str(Path("no-run"))]) == 2
    assert "no finished run there" in capsys.readouterr().err


def test_vectors_do_not_depend_on_the_batch(server):
    """Padding and order leave no trace."""
    demo = server.demo
    task = demo.record.tasks["sts"]
    table = read_tables(demo.record.options.data, {"sts": task})["sts"]["train"]
    examples = table.examples[:100]
    together = demo.vectors_of(task, examples)
    alone = np.concatenate([demo.vectors_of(task, [example]) for example in examples[::10]])
    np.testing.assert_allclose(together[::10], alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
