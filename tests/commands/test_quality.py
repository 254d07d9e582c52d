"""`python -m contrastive.quality` on a tiny model: its output, its files, the input it refuses.

tests/contrastive has tests of the numbers and of the sections.
"""

import json
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from contrastive.quality.__main__ import main
from contrastive.quality.options import by_name
from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.sentence_sets import read_pairs
from minbert import BertModel, BertTokenizer
from minbert.pooling import save_pooling
from tests.python_processes import run_python
from tests.report_reader import Page, markdown_cells
from tests.toy_sets import write_class_file, write_sts_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def _fast():
    """No test here cuts the power."""


@pytest.fixture(scope="module")
def model(tiny_model):
    return BertModel.from_pretrained(tiny_model), BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def sts_file(sample_data, tmp_path_factory):
    return write_sts_file(tmp_path_factory.mktemp("sets") / "pairs.tsv", sample_data)


@pytest.fixture(scope="module")
def sst_file(tmp_path_factory):
    return write_class_file(tmp_path_factory.mktemp("classes") / "films.tsv")


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


# --- everything at once -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def out(tiny_model, sample_data, sts_file, sst_file, tmp_path_factory):
    """The folder with all files of one call, and what it printed as printed.txt."""
    folder = tmp_path_factory.mktemp("out") / "deep" / "folder"
    command = ["-m", "contrastive.quality", tiny_model]
    command += ["--sets", sts_file, sample_data / "sts-dev.csv", "--transfer", sst_file]
    command += ["--out", folder, "--report", folder / "page.html"]
    command += ["--baselines", "--device", "cpu", "--folds", "2"]
    result = run_python(*command)
    assert result.returncode == 0, result.stderr
    (folder / "printed.txt").write_text(result.stdout, encoding="utf-8")
    return folder


def test_the_page_has_every_chapter_and_figure(out):
    page = Page((out / "page.html").read_text(encoding="utf-8"))
    assert not page.faults
    assert page.texts["h2"] == [
        "Sets",
        "Correlations",
        "Alignment and uniformity",
        "Cosines by label",
        "Layer by pooling, pairs",
        "Map of pairs",
        "Transfer",
    ]
    assert page.texts["h3"][:3] == ["Spearman", "Pearson", "pairs by subset"]
    kinds = [image["aria-label"].split(":")[0] for image in page.images]
    of_a_set = ["Box plot of 20 intervals", "Histograms of 5 bands"]
    assert kinds == [*of_a_set, *of_a_set, "Map of 14 pairs"]


def test_the_record_has_every_file(out):
    record = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    assert list(record["sets"]) == ["pairs", "sts-dev"] and list(record["transfer"]) == ["films"]
    assert "layers" in record["sets"]["pairs"] and "layers" not in record["sets"]["sts-dev"]
    # The same rows in two files have the same score over all rows. Only the file with subsets has
    # the other conventions.
    first, second = (record["sets"][name]["vectors"]["mean"] for name in ("pairs", "sts-dev"))
    assert first["all"] == second["all"]
    assert "weighted mean" in first and "weighted mean" not in second


def test_page_markdown_and_terminal_show_the_same_number(out):
    record = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    score = f"{record['sets']['pairs']['vectors']['mean']['all']['spearman']:.4f}"
    page = Page((out / "page.html").read_text(encoding="utf-8"))
    assert page.tables[0][1][:3] == ["mean", score, score]

    lines = (out / "quality.md").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith("| mean |"))
    assert markdown_cells(line)[:3] == ["mean", score, score]

    printed = (out / "printed.txt").read_text(encoding="utf-8")
    assert any(line.split()[:3] == ["mean", score, score] for line in printed.splitlines())
    for words in (
        "device: cpu",
        "pooling: mean (its folder notes none)",
        "24 rows read",
        "page.html",
        "quality.json",
    ):
        assert words in printed


# --- numbers and pages --------------------------------------------------------------------------


def test_the_first_number_by_another_way(tiny_model, sts_file, model, tmp_path):
    assert run(tiny_model, "--sets", sts_file, "--pooling", "cls", "--out", tmp_path) == 0
    record = json.loads((tmp_path / "quality.json").read_text(encoding="utf-8"))
    vectors = record["sets"]["pairs"]["vectors"]
    examples = read_pairs(sts_file).examples
    rows = EncodedExamples(examples, model[1], 128, "bi")
    u, v = embed(model[0], rows, "cls", "fp32").double().chunk(2)
    cosines = (u * v).sum(1) / u.norm(dim=1) / v.norm(dim=1)
    expected = spearmanr(cosines, [example.label for example in examples]).statistic
    assert list(vectors) == ["[CLS]"]
    assert vectors["[CLS]"]["all"]["spearman"] == pytest.approx(expected, abs=1e-5)


def test_auto_is_the_vector_that_the_encoder_was_trained_for(capsys, model, sts_file, tmp_path):
    for part in model:
        part.save_pretrained(tmp_path)
    save_pooling(tmp_path, "cls")
    assert run(tmp_path, "--sets", sts_file) == 0
    assert "pooling: cls (the model was trained for it)" in capsys.readouterr().out
    assert run(tmp_path, "--sets", sts_file, "--pooling", "mean") == 0
    assert "pooling: mean (the model was trained for cls)" in capsys.readouterr().out
    save_pooling(tmp_path, "median")
    assert run(tmp_path, "--sets", sts_file) == 2
    message = capsys.readouterr().err
    assert "sentence.json: names no pooling (it is none of mean, cls, pooler)" in message


def test_both_encoders_of_a_map_are_read_in_the_same_way(model, sts_file, tmp_path):
    """--pooling auto is the choice of MODEL, even if --before was trained for another pooling."""
    for name in ("cls", "mean"):
        for part in model:
            part.save_pretrained(tmp_path / name)
        save_pooling(tmp_path / name, name)
    flags = ["--sets", sts_file, "--before", tmp_path / "mean", "--out", tmp_path / "out"]
    assert run(tmp_path / "cls", *flags, "--report", tmp_path / "page.html") == 0
    record = json.loads((tmp_path / "out" / "quality.json").read_text(encoding="utf-8"))
    assert record["pooling"] == "cls"
    assert record["map"]["maps"]["before"] == record["map"]["maps"]["after"]


def test_the_page_of_a_stage_s_folder(capsys, make_stages, sample_data, tiny_model, tmp_path):
    """A real stage: its stage.json, the encoder before it, every figure, twice the same bytes."""
    stage = make_stages("simcse")[0]
    stage.train(is_resumed=False)
    flags = [stage.folder, "--sets", sample_data / "sts-dev.csv", "--before", tiny_model]
    for name in ("one.html", "two.html"):
        assert run(*flags, "--device", "cpu", "--report", tmp_path / name) == 0
    assert f"{tmp_path / 'one.html'}" in capsys.readouterr().out
    assert not list(tmp_path.glob("quality*")), "--out was not given"
    text = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.html").read_text(encoding="utf-8")

    page = Page(text)
    assert not page.faults
    # Boxes, histograms, two maps, the path, loss, score.
    assert page.count("svg") == 7
    assert page.texts["h2"][-3:] == ["Layer by pooling, sts-dev", "Map of pairs", "Training"]
    history = json.loads((stage.folder / "stage.json").read_text(encoding="utf-8"))["history"]
    shown = [(row[1], row[3]) for row in page.tables[-1][2:]]
    assert shown == [(f"{entry['step']:,}", f"{entry['spearman']:.4f}") for entry in history]


def test_a_folder_without_stage_json_has_no_chapter_on_training(tiny_model, sample_data, tmp_path):
    flags = ["--sets", sample_data / "sts-dev.csv", "--device", "cpu"]
    assert run(tiny_model, *flags, "--report", tmp_path / "a.html") == 0
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "Training" not in page.texts["h2"] and page.count("svg") == 3


def test_columns_of_other_names(capsys, tiny_model, tmp_path):
    """The numbers are those of the same rows under the usual names."""
    records = []
    for separator, header in (("\t", "score,sentence1,sentence2"), (";", "Wert,Satz A,Satz B")):
        rows = [header, "4.5,a girl,the girl", "0.5,the hotel,a man", "2,a man,the soldier"]
        path = tmp_path / f"{len(records)}.csv"
        path.write_text("\n".join(row.replace(",", separator) for row in rows), encoding="utf-16")
        flags = ["--text", "Satz A", "--text-pair", "satz b", "--label", "Wert"]
        flags = flags if separator == ";" else []
        folder = tmp_path / f"out-{len(records)}"
        command = [tiny_model, "--sets", path, *flags, "--device", "cpu", "--out", folder]
        assert run(*command) == 0
        record = json.loads((folder / "quality.json").read_text(encoding="utf-8"))
        (of_set,) = record["sets"].values()
        assert of_set.pop("file") == str(path)
        records.append(of_set)
    assert records[0] == records[1]
    assert "3 rows read" in capsys.readouterr().out


# --- bad input ----------------------------------------------------------------------------------


# STS and SST are the two files, MODEL is the model.
REFUSED = [
    ("", "there is nothing to measure on; expected is --sets FILE"),
    ("--transfer SST --layers", "--layers has no effect without --sets"),
    ("--transfer SST --range 0 5", "--range has no effect without --sets"),
    ("--transfer SST --text-pair x", "--text-pair has no effect without --sets"),
    ("--sets STS --transfer SST --text x", "--text and --label would name columns of --sets and"),
    ("--sets STS --label value", "the header has no column value, which --label names; found are"),
    ("--sets STS --max-length 2", "--max-length is 2; it must be a whole number, at least 3"),
    (
        "--sets STS --max-length 129",
        "--max-length is 129; MODEL has 128 positions. Pass at most that",
    ),
    ("--sets STS --batch-size 0", "--batch-size is 0"),
    ("--sets STS --range 5 0", "--range is 5 0; expected is the lowest label and then the highest"),
    ("--sets STS --range 5 5", "--range is 5 5; expected is the lowest label and then the highest"),
    (
        "--sets STS --range 1 5",
        "labels are 0 to 5, and --range is 1 to 5. Give a range that holds them",
    ),
    ("--sets STS STS", "is given twice"),
    ("--sets gone.tsv", "gone.tsv: there is no such file. Check the path"),
    (
        "--transfer SST --seed 4294967296",
        "--seed is 4294967296; it must be 0 to 4294967295.",
    ),
    (
        "--transfer SST --folds 30",
        "sentences of class 'bad'; expected are two classes at least",
    ),
    ("--sets SST", "the header has no column score, sentence1, sentence2"),
    ("--sets STS --out STS", "is a file. Choose another folder"),
    ("--sets STS --report STS/page.html", "is a file. Choose another folder"),
    ("--sets STS --device mps", "--device mps: torch"),
    (
        "--sets STS --folds 5",
        "--folds has no effect without --transfer or --senteval; add one or drop it.",
    ),
    (
        "--sets STS --report page.pdf",
        "--report is page.pdf; expected is a file whose name ends in .html",
    ),
    ("--sets STS --before minbert-mini", "--before has no effect without --report"),
    (
        "--transfer SST --report x.html --before minilm",
        "--before has no effect without --sets",
    ),
    (
        "--sets STS --report x.html --before minbert-mini",
        " units, and MODEL has 32; expected is the encoder that its training started from",
    ),
    ("--sets STS --report x.html --before ./gone", "./gone: no such folder"),
]


@pytest.mark.parametrize(("flags", "complaint"), REFUSED)
def test_bad_input_is_refused(capsys, tiny_model, sts_file, sst_file, flags, complaint):
    if "mps" in flags and torch.backends.mps.is_available():
        pytest.skip("this machine has an Apple GPU")
    flags = flags.replace("STS", str(sts_file)).replace("SST", str(sst_file))
    assert run(tiny_model, *flags.split()) == 2
    message = capsys.readouterr().err
    assert message.startswith("python -m contrastive.quality: ")
    assert complaint.replace("MODEL", str(tiny_model)) in message


def test_a_random_pooler_is_refused(capsys, sts_file):
    assert run("minbert-mini", "--sets", sts_file, "--pooling", "pooler") == 2
    assert "minbert-mini holds no weights for it" in capsys.readouterr().err


def test_files_of_one_name_keep_their_folders():
    paths = [Path("a/x.tsv"), Path("b/x.tsv"), Path("b/y.tsv")]
    assert by_name(paths) == {"a/x.tsv": paths[0], "b/x.tsv": paths[1], "y": paths[2]}


@pytest.mark.parametrize(("flags", "length"), [([], 5), (["--max-length", "9"], 9)])
def test_the_maximum_length_is_that_of_the_folder(model_copy, sts_file, tmp_path, flags, length):
    """That of sentence_bert_config.json, as contrastive.embed takes it, unless a flag says more."""
    settings = {"max_seq_length": 5, "do_lower_case": False}
    (model_copy / "sentence_bert_config.json").write_text(json.dumps(settings))
    (model_copy / "1_Pooling").mkdir()
    (model_copy / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = []
    for name, path in (("Transformer", ""), ("Pooling", "1_Pooling")):
        modules.append({"path": path, "type": f"sentence_transformers.models.{name}"})
    (model_copy / "modules.json").write_text(json.dumps(modules))
    out = tmp_path / "out"
    assert run(model_copy, "--sets", sts_file, "--out", out, "--device", "cpu", *flags) == 0
    record = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    assert record["max_length"] == length
    pairs = read_pairs(sts_file).examples
    tokenizer = BertTokenizer.from_pretrained(model_copy)
    rows = EncodedExamples(pairs, tokenizer, length, pair_encoding="bi")
    assert record["sets"]["pairs"]["truncated"] == rows.num_truncated > 0


def test_a_file_that_the_model_does_not_know_gets_a_warning(tiny_model, tmp_path, capsys):
    path = tmp_path / "russian.tsv"
    lines = ["score\tsentence1\tsentence2"]
    for number in range(5):
        lines.append(f"{number}\tчеловек играет {number}\tгитара")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run(tiny_model, "--sets", path, "--range", "0", "5", "--device", "cpu") == 0
    message = capsys.readouterr().err
    assert message.count("of all tokens are [UNK]") == 1
    assert f"warning: {path}: " in message and "as in 'человек играет 0 | гитара'" in message
