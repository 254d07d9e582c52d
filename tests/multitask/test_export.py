"""`python -m multitask.export`: transformers and onnxruntime compute the logits of our models."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import run_multitask
from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.commands.files import read_json
from minbert.commands.optional import ONNX_PACKAGES, install_command
from minbert.commands.options import AUTO
from minbert.pooling import POOLINGS
from multitask import Predictor
from multitask.export.__main__ import main
from multitask.export.classifier import (
    as_columns,
    classifier_of,
    write_classifier,
    write_tokenizer,
)
from multitask.export.sentence_classifier import layers_of, write_sentence_classifier
from multitask.export.work import choose_format
from multitask.head_registry import HEADS
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
from multitask.tasks import TASKS, Task
from tests.small_models import SENTENCES, make_model

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

has_onnx = all(importlib.util.find_spec(name) for name in ONNX_PACKAGES)
needs_onnx = pytest.mark.skipif(not has_onnx, reason="run setup.sh --onnx")

FAMILIES = ("bert", "distilbert", "roberta", "xlm-roberta", "multilingual", "camembert", "mpnet")
EXACT = {"cls": "tanh", "pooler": "none"}


def make_task_model(folder, pooling, tasks=TASKS, **heads):
    """A multitask model with random heads, far from 0, on the encoder of a folder."""
    options = HeadOptions(**({"pair_encoding": "cross"} | heads))
    encoder = BertModel.from_pretrained(folder)
    model = MultitaskBert(encoder, pooling, options, seed=1, tasks=tasks)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("heads.", "shared.")):
                parameter.normal_(std=0.3)
    return model.eval()


def make_batch(tokenizer, task, encoding="cross", max_length=128):
    examples = []
    for number, text in enumerate(SENTENCES):
        second = SENTENCES[-1 - number] if task.is_pair else None
        examples.append(Example(str(number), text, second, None))
    rows = EncodedExamples(examples, tokenizer, max_length, encoding)
    return rows.batch(list(range(len(examples))))


def their_logits(folder, task):
    """The logits of transformers' model on the tokens of transformers' tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    texts = [list(SENTENCES), list(SENTENCES[::-1])] if task.is_pair else [list(SENTENCES)]
    with torch.no_grad():
        inputs = tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")
        return model, model(**inputs).logits


@pytest.mark.parametrize("pooling", EXACT)
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_computes_the_same_logits(tmp_path, family, pooling):
    """Single sentences and pairs, also where the encoder's own class has no such layer."""
    make_model(family, tmp_path / "start")
    model = make_task_model(tmp_path / "start", pooling, common_layer=EXACT[pooling])
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "start")
    for task in TASKS.values():
        out = tmp_path / task.name
        out.mkdir()
        name = write_classifier(model, task, out)
        write_tokenizer(tokenizer, 24, out)
        theirs, logits = their_logits(out, task)
        assert type(theirs).__name__ == name
        with torch.no_grad():
            ours = model(task.name, make_batch(tokenizer, task, max_length=24))
        if task.kind == "binary":
            expected = torch.sigmoid(ours)
            logits = logits.softmax(dim=-1)[:, 1]
        else:
            expected = ours if ours.dim() == 2 else ours.unsqueeze(1)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
        assert expected.std() > 0.001, "equal because constant"


@pytest.mark.parametrize("family", FAMILIES)
def test_sentence_transformers_computes_the_same_logits(tmp_path, family):
    """Of each family, with mean pooling."""
    make_model(family, tmp_path / "start")
    model = make_task_model(tmp_path / "start", "mean")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "start")
    theirs, expected = in_sentence_transformers(model, TASKS["sst"], tokenizer, tmp_path / "out")
    torch.testing.assert_close(theirs, expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.001, "equal because constant"


def in_sentence_transformers(model, task, tokenizer, out):
    """The logits of the exported folder, and those of the model."""
    library = pytest.importorskip("sentence_transformers")
    out.mkdir()
    write_sentence_classifier(model, task, 24, out)
    write_tokenizer(tokenizer, 24, out)
    theirs = library.SentenceTransformer(str(out), device="cpu", local_files_only=True)
    rows = list(zip(SENTENCES, SENTENCES[::-1], strict=True)) if task.is_pair else list(SENTENCES)
    with torch.no_grad():
        expected = as_columns(model(task.name, make_batch(tokenizer, task, max_length=24)), task)
    return theirs.encode(rows, convert_to_tensor=True), expected


# A task of each kind, of single texts and of pairs. Three of them are of a user.
CLASSES = ("contradiction", "entailment", "neutral")
EVERY_KIND = {
    **TASKS,
    "teams": Task("teams", "teams", TASKS["sst"].format, "multilabel", CLASSES),
    "funny": Task("funny", "funny", TASKS["sst"].format, "binary", ("no", "yes")),
    "nli": Task("nli", "nli", TASKS["para"].format, "classes", CLASSES),
}


def kind_of_folder(head, pooling, common_layer, encoding, is_pair) -> str | None:
    """The library of the table in docs/tasks.md. None: `--format onnx` alone."""
    if is_pair and (encoding != "cross" or pooling == "mean" or head not in ("features", "vm")):
        return None
    is_exact = (pooling, common_layer) in EXACT.items() and (is_pair or head != "mlp")
    return "transformers" if is_exact else "sentence-transformers"


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", HEADS)
def test_each_head_and_pooling_opens_in_a_library_or_says_what_does(tmp_path, head, pooling):
    """All pair encodings, common layers and kinds of tasks. The advice of a refusal is onnx."""
    make_model("bert", tmp_path / "start", num_hidden_layers=1)
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "start")
    tasks = dict(EVERY_KIND)
    if not HEADS[head].has_weights:
        del tasks["nli"]  # a cosine alone is no answer to three classes
    opened = set()
    for encoding in HEADS[head].encodings:
        if HEADS[head].needs_two_vectors and encoding == "cross" and pooling != "mean":
            continue  # a run refuses this
        for common_layer in ("tanh", "none"):
            heads = {"head": head, "pair_encoding": encoding, "common_layer": common_layer}
            model = make_task_model(tmp_path / "start", pooling, tasks, **heads)
            for task in tasks.values():
                kind = kind_of_folder(head, pooling, common_layer, encoding, task.is_pair)
                if kind is None:
                    with pytest.raises(ValueError, match="Pass --format onnx, which writes any"):
                        layers_of(model, task)
                    continue
                assert choose_format(AUTO, model, task) == kind
                # The head of single texts does not depend on how pairs are encoded.
                case = (common_layer, task.name)
                if case in opened or (not task.is_pair and head not in ("vm", "mlp")):
                    continue
                opened.add(case)
                out = tmp_path / "-".join(case)
                if kind == "transformers":
                    theirs, expected = in_transformers(model, task, tokenizer, out)
                else:
                    theirs, expected = in_sentence_transformers(model, task, tokenizer, out)
                torch.testing.assert_close(theirs, expected, atol=1e-5, rtol=0)
                assert expected.std() > 0.001, "equal because constant"


def in_transformers(model, task, tokenizer, out):
    """The logits of the exported folder, and those of the model."""
    out.mkdir()
    write_classifier(model, task, out)
    write_tokenizer(tokenizer, 24, out)
    with torch.no_grad():
        expected = as_columns(model(task.name, make_batch(tokenizer, task, max_length=24)), task)
    return their_logits(out, task)[1], expected


def test_an_electra_is_written_as_a_bert_where_that_is_exact(tmp_path):
    """Its own classifier has a GELU, and a BERT has no projection of the embeddings."""
    task = TASKS["sst"]
    make_model("electra", tmp_path / "plain", embedding_size=32)
    model = make_task_model(tmp_path / "plain", "cls")
    (tmp_path / "out").mkdir()
    assert write_classifier(model, task, tmp_path / "out").startswith("Bert")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "plain")
    write_tokenizer(tokenizer, 24, tmp_path / "out")
    _, logits = their_logits(tmp_path / "out", task)
    with torch.no_grad():
        ours = model("sst", make_batch(tokenizer, task, max_length=24))
    torch.testing.assert_close(logits, ours, atol=1e-5, rtol=0)

    make_model("electra", tmp_path / "projected")
    model = make_task_model(tmp_path / "projected", "cls")
    with pytest.raises(ValueError, match="its embeddings are projected"):
        write_classifier(model, task, tmp_path / "out")


@pytest.mark.parametrize("name", TASKS)
def test_names_of_classes_and_the_kind_of_problem(tmp_path, tiny_model, name):
    task = TASKS[name]
    write_classifier(make_task_model(tiny_model, "cls"), task, tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    if name == "sts":
        assert (config.problem_type, config.id2label) == ("regression", {0: "sts"})
    else:
        assert config.problem_type == "single_label_classification"
        assert config.id2label == dict(enumerate(task.label_names))
        assert config.label2id == {label: number for number, label in config.id2label.items()}


@pytest.mark.parametrize(
    ("pooling", "heads", "task", "reason"),
    [
        ("mean", {}, "sst", r"the mean over all tokens \(--pooling mean\)"),
        ("mean", {}, "sts", "the mean over all tokens"),
        ("cls", {"pair_encoding": "bi"}, "para", "--pair_encoding bi reads a pair in two rows"),
        ("cls", {"pair_encoding": "dual", "head": "ph"}, "sts", "--pair_encoding dual"),
        ("cls", {"common_layer": "none"}, "sst", "no layer with tanh.*--common_layer none"),
        ("pooler", {}, "sst", "two layers with tanh"),
        ("cls", {"head": "mlp", "pair_encoding": "bi"}, "sst", r"no linear layer \(--head mlp\)"),
    ],
)
def test_other_formulas_are_refused_by_name(tiny_model, pooling, heads, task, reason):
    model = make_task_model(tiny_model, pooling, **heads)
    with pytest.raises(ValueError, match=f"{reason}.*Pass --format") as caught:
        classifier_of(model, TASKS[task])
    # The advice is followed: what the message names is not refused in turn.
    if "sentence-transformers" in str(caught.value):
        assert layers_of(model, TASKS[task])
        return
    with pytest.raises(ValueError, match="cannot be a model.*Pass --format onnx, which writes any"):
        layers_of(model, TASKS[task])


def test_one_task_may_be_exact_where_another_is_not(tiny_model):
    model = make_task_model(tiny_model, "cls", pair_encoding="bi", head="cosine")
    classifier_of(model, TASKS["sst"])
    with pytest.raises(ValueError, match="STS of this model cannot be"):
        classifier_of(model, TASKS["sts"])


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tiny_model, sample_data, tmp_path_factory):
    """Finished runs by the pooling of their sentence vectors."""
    folder = tmp_path_factory.mktemp("runs")
    for pooling in ("cls", "mean"):
        flags = ["--model", tiny_model, "--data-dir", sample_data, "--output-dir", folder]
        flags += ["--name", pooling, "--pooling", pooling, "--pair-encoding", "cross"]
        flags += ["--epochs", 1, "--batch-size", 8, "--max-length", 20, "--precision", "fp32"]
        assert run_multitask.main(list(map(str, flags))) == 0
    return folder


def export(*arguments):
    return main(list(map(str, arguments)))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_of_a_run(finished, tmp_path, capsys, name):
    """The folder is complete: model, names and tokenizer, which cuts as the run does."""
    out = tmp_path / "out"
    assert export(finished / "cls", "--task", name, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "largest difference from the run's model on 8 texts: " in printed
    assert "AutoModelForSequenceClassification.from_pretrained" in printed

    task = TASKS[name]
    _, logits = their_logits(out, task)
    model = MultitaskBert.from_pretrained(finished / "cls" / "model")
    tokenizer = BertTokenizer.from_pretrained(finished / "cls" / "model")
    with torch.no_grad():
        ours = model(name, make_batch(tokenizer, task, max_length=20))
    ours = ours if ours.dim() == 2 else ours.unsqueeze(1)
    theirs = logits[:, 1:] - logits[:, :1] if task.kind == "binary" else logits
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=0)
    # The encoder in it opens here, too.
    encoder = BertModel.from_pretrained(out)
    expected = model.encoder.state_dict()
    for key, tensor in encoder.state_dict().items():
        if not key.startswith("pooler."):
            assert torch.equal(tensor, expected[key])


def test_a_run_with_mean_pooling_opens_in_sentence_transformers(finished, tmp_path, capsys):
    """The default of the main job: no class of transformers has its formula."""
    library = pytest.importorskip("sentence_transformers")
    out = tmp_path / "out"
    assert export(finished / "mean", "--task", "sst", "--out", out) == 0
    printed = capsys.readouterr().out
    assert f'SentenceTransformer("{out}"), whose encode gives the logits' in printed
    assert "largest difference from the run's model on 8 texts: " in printed
    theirs = library.SentenceTransformer(str(out), device="cpu", local_files_only=True)
    logits = theirs.encode(list(SENTENCES), convert_to_tensor=True)
    model = MultitaskBert.from_pretrained(finished / "mean" / "model")
    tokenizer = BertTokenizer.from_pretrained(finished / "mean" / "model")
    with torch.no_grad():
        ours = model("sst", make_batch(tokenizer, TASKS["sst"], max_length=20))
    torch.testing.assert_close(logits, ours, atol=1e-5, rtol=0)
    names = transformers.AutoConfig.from_pretrained(out).id2label
    assert list(names.values()) == list(TASKS["sst"].label_names)


def test_a_run_in_half_precision_is_said_to_round_more(finished, tmp_path, capsys):
    run = Path(shutil.copytree(finished / "cls", tmp_path / "run"))
    assert export(run, "--task", "sst", "--out", tmp_path / "exact") == 0
    assert "fp32" not in capsys.readouterr().out
    record = read_json(run / "run.json")
    record["options"]["precision"] = "bf16"
    (run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert export(run, "--task", "sst", "--out", tmp_path / "out") == 0
    assert "predicts in bf16, which rounds more. multitask.predict --precision fp32 agrees" in (
        capsys.readouterr().out
    )


def test_the_pipeline_of_transformers_names_the_class(finished, tmp_path):
    assert export(finished / "cls", "--task", "sst", "--out", tmp_path / "out") == 0
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "out"))
    model = MultitaskBert.from_pretrained(finished / "cls" / "model")
    tokenizer = BertTokenizer.from_pretrained(finished / "cls" / "model")
    with torch.no_grad():
        logits = model("sst", make_batch(tokenizer, TASKS["sst"], max_length=20))
    answers = pipeline(list(SENTENCES), truncation=True)
    labels = [TASKS["sst"].label_names[number] for number in logits.argmax(dim=1).tolist()]
    assert [answer["label"] for answer in answers] == labels
    highest = logits.softmax(dim=1).amax(dim=1).tolist()
    assert [answer["score"] for answer in answers] == pytest.approx(highest, abs=1e-5)


def test_a_task_of_the_user_keeps_the_names_of_its_labels(tiny_model, tmp_path):
    """Three classes of pairs, from a file with words as labels."""
    lines = ["premise\thypothesis\tlabel"]
    labels = ("contradiction", "entailment", "neutral")
    for number in range(60):
        label = labels[number % 3]
        lines.append(f"the man is {label} {number}\ta girl is {number % 7}\t{label}")
    path = tmp_path / "nli.tsv"
    path.write_text("\n".join(lines) + "\n")
    task = f"name=nli,train={path},text=premise,text_pair=hypothesis,label=label"
    flags = ["--task", task, "--tasks", "nli", "--model", tiny_model, "--pooling", "cls"]
    flags += ["--pair-encoding", "cross", "--epochs", 1, "--batch-size", 8, "--precision", "fp32"]
    flags += ["--output-dir", tmp_path / "runs", "--name", "own"]
    assert run_multitask.main(list(map(str, flags))) == 0
    out = tmp_path / "out"
    assert export(tmp_path / "runs" / "own", "--task", "nli", "--out", out) == 0
    config = transformers.AutoConfig.from_pretrained(out)
    assert sorted(config.id2label.values()) == list(labels)

    model = MultitaskBert.from_pretrained(tmp_path / "runs" / "own" / "model")
    task = model.tasks["nli"]
    assert list(config.id2label.values()) == list(task.label_names)
    batch = make_batch(BertTokenizer.from_pretrained(out), task)
    with torch.no_grad():
        torch.testing.assert_close(
            their_logits(out, task)[1], model("nli", batch), atol=1e-5, rtol=0
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["RUNS/mean", "--task", "sst", "--out", "OUT", "--format", "transformers"],
            "cannot be a ForSequenceClassification",
        ),
        (["RUNS/mean", "--task", "sts", "--out", "OUT"], "its pairs have two vectors. Pass"),
        (["RUNS/cls", "--task", "nli", "--out", "OUT"], "--task is nli; the tasks are sst, para"),
        (["RUNS/none", "--task", "sst", "--out", "OUT"], "no finished run there"),
        (["RUNS/cls", "--task", "sst", "--out", "RUNS/cls"], "nothing is overwritten"),
        (["RUNS/cls/model", "--task", "sst", "--out", "OUT"], "no finished run there"),
    ],
)
def test_what_is_refused_leaves_nothing(finished, tmp_path, capsys, arguments, message):
    places = {"RUNS": str(finished), "OUT": str(tmp_path / "out")}
    filled = []
    for argument in arguments:
        for name, place in places.items():
            argument = argument.replace(name, place)
        filled.append(argument)
    assert export(*filled) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named_before_any_work(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "out"
    assert export(finished / "mean", "--task", "sst", "--out", out, "--format", "onnx") == 2
    assert (
        "not installed, but needed for ONNX files: onnx, onnxscript, onnxruntime. Run "
        f"`{install_command(ONNX_PACKAGES, '--onnx')}`."
    ) in capsys.readouterr().err


# --- ONNX -----------------------------------------------------------------------------------------


def run_graph(folder, inputs):
    import onnxruntime

    path = str(folder / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    (logits,) = session.run(None, {name: inputs[name].numpy() for name in names})
    return torch.from_numpy(logits)


@pytest.fixture(scope="module")
def graph(finished, tmp_path_factory):
    """The graph of SST of a run with mean pooling."""
    out = tmp_path_factory.mktemp("graph") / "out"
    assert export(finished / "mean", "--task", "sst", "--out", out, "--format", "onnx") == 0
    return out


@needs_onnx
def test_a_graph_of_a_run(finished, graph):
    """It describes its inputs, and transformers' tokenizer gives them."""
    model = MultitaskBert.from_pretrained(finished / "mean" / "model")
    batch = make_batch(BertTokenizer.from_pretrained(graph), TASKS["sst"], max_length=20)
    theirs = transformers.AutoTokenizer.from_pretrained(graph)
    inputs = theirs(list(SENTENCES), padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        ours = model("sst", batch)
    torch.testing.assert_close(run_graph(graph, inputs), ours, atol=1e-5, rtol=0)
    described = json.loads((graph / "onnx.json").read_text())
    assert list(described["inputs"]) == ["input_ids", "attention_mask", "token_type_ids"]
    assert described["largest_difference"] < 1e-5


@needs_onnx
def test_the_python_of_the_page_reads_a_graph(finished, graph, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", page)
    (code,) = [block for block in blocks if "import onnxruntime" in block]
    (tmp_path / "snippet.py").write_text(code.replace("runs/sentiment", str(graph)))
    names = runpy.run_path(str(tmp_path / "snippet.py"))
    texts = ["A fine film.", "It was in no way amusing."]
    expected = Predictor(finished / "mean", "sst", precision="fp32")
    assert names["classes"] == expected.predict(texts).tolist()
    weights = np.exp(names["logits"])
    shares = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, expected.predict_proba(texts), atol=1e-5)


@needs_onnx
@pytest.mark.parametrize(
    ("family", "head", "pooling", "encoding", "name"),
    [
        ("roberta", "features", "mean", "cross", "sts"),
        ("distilbert", "vm", "pooler", "dual", "nli"),
        # It computes all that ph and dph do.
        ("xlm-roberta", "dpha", "cls", "dual", "para"),
        ("bert", "mlp", "mean", "cross", "para"),
        ("bert", "cosine", "cls", "bi", "sts"),
    ],
)
def test_graphs_of_each_head(tmp_path, family, head, pooling, encoding, name):
    """predict.py cuts, pads and arranges the rows of a graph as our own code does."""
    from multitask.export.graph import write_graph
    from multitask.export.onnx_predictor import OnnxPredictor

    shape = {"n_layers" if family == "distilbert" else "num_hidden_layers": 1}
    make_model(family, tmp_path / "start", **shape)
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "start")
    task = EVERY_KIND[name]
    heads = {"head": head, "pair_encoding": encoding}
    model = make_task_model(tmp_path / "start", pooling, {name: task}, **heads)
    # Some rows have more than 16 tokens.
    batch = make_batch(tokenizer, task, encoding, max_length=16)
    out = tmp_path / "out"
    out.mkdir()
    with torch.no_grad():
        ours = as_columns(model(name, batch), task)
    difference = write_graph(model, task, tokenizer, 16, out, [batch, batch.part([2])])
    assert difference < 1e-5 * max(1, ours.abs().max())

    predictor = OnnxPredictor(out, batch_size=3)
    pairs = list(zip(SENTENCES, SENTENCES[::-1], strict=True))
    with pytest.warns(UserWarning, match="rows were cut to 16 tokens") as caught:
        logits = torch.from_numpy(predictor.logits(pairs))
    assert len(caught) == 1
    torch.testing.assert_close(logits, ours, atol=1e-5, rtol=1e-5)
    assert ours.std() > 0.001, "equal because constant"


@needs_onnx
def test_the_script_beside_a_graph_predicts_without_torch(finished, graph, monkeypatch, capsys):
    """It imports nothing but three packages, and answers as the run does."""
    imported = set(re.findall(r"(?m)^(?:import|from) (\w+)", (graph / "predict.py").read_text()))
    assert imported - sys.stdlib_module_names == {"numpy", "onnxruntime", "tokenizers"}

    names = runpy.run_path(str(graph / "predict.py"))
    predictor = names["OnnxPredictor"]()
    expected = Predictor(finished / "mean", "sst", precision="fp32")
    texts = ["a man is in the hotel", "a girl", ""]
    assert predictor.label_names == expected.label_names
    assert predictor.predict(texts).tolist() == expected.predict(texts).tolist()
    shares = predictor.predict_proba(texts)
    np.testing.assert_allclose(shares, expected.predict_proba(texts), atol=1e-5)
    assert predictor.predict_proba([]).shape == (0, 5)
    for rows, message in (("a text", "pass a list"), ([("a", "b")], "expected is a str")):
        with pytest.raises(ValueError, match=message):
            predictor.predict(rows)

    monkeypatch.setattr("sys.argv", ["predict.py", "rows.txt"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(graph / "predict.py"), run_name="__main__")
    assert "unrecognized arguments: rows.txt" in capsys.readouterr().err, (
        "it does not wait for rows"
    )

    monkeypatch.setattr("sys.argv", ["predict.py"])
    monkeypatch.setattr("sys.stdin", io.StringIO("a girl\n\n"))
    runpy.run_path(str(graph / "predict.py"), run_name="__main__")
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [cells[::2] for cells in lines] == [
        [str(answer), text]
        for answer, text in zip(expected.predict(texts[1:]), texts[1:], strict=True)
    ]
    assert [cells[1] for cells in lines] == [f"{share:.2f}" for share in shares.max(axis=1)[1:]]


@needs_onnx
def test_a_wrong_graph_is_noticed_and_removed(tmp_path):
    from minbert import onnx_files

    layer = torch.nn.Linear(4, 2)

    class Sum(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            return (layer((input_ids * attention_mask).float() @ torch.ones(5, 4)),)

    inputs = {"input_ids": torch.ones(2, 5, dtype=torch.long)}
    inputs["attention_mask"] = inputs["input_ids"]
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        Sum(), (), kwargs=inputs, input_names=list(inputs), dynamo=True, verbose=False
    ).save(str(path))
    assert onnx_files.largest_difference(Sum(), [inputs], path) < 1e-5
    with torch.no_grad():
        layer.bias += 0.01
    with pytest.raises(ValueError, match=r"differ by 1.0e-02, more than the 1e-04"):
        onnx_files.largest_difference(Sum(), [inputs], path)
    assert not path.exists()
