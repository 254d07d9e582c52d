"""`python -m contrastive.train`: a stage alone, the text that it reads, and what it writes."""

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from contrastive.embed import SentenceEncoder
from contrastive.methods import CLASSES
from contrastive.presets import settings_of
from contrastive.quality.training_history import read_training
from contrastive.registry import METHODS
from contrastive.sentences import draw_words, words_of
from contrastive.stage import StageText, build_stage
from contrastive.train.__main__ import main
from contrastive.train.parser import parse
from contrastive.train.texts import read_rows
from data.sentence_sets import read_pairs
from minbert import BertModel, BertTokenizer
from minbert.training.options import TrainingOptions
from minbert.training.stage import Place, encoder_fingerprint
from minbert.training.starting_model import StartingModel
from tests.small_models import make_model
from tests.toy_job import Kill, killed_at

FAST = ["--batch-size", "8", "--device", "cpu", "--precision", "fp32"]
LINES = [f"the {noun} is {end}" for noun in ("doctor", "girl", "hotel") for end in "abcdefgh"]
PAIRS = "sentence1\tsentence2\tlabel\n" + "".join(
    f"{line}\t{line} here\t{number % 2}\n" for number, line in enumerate(LINES)
)
TRIPLETS = "".join(f"{line}\t{line} here\tno {line}\n" for line in LINES)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("texts")
    paths = {}
    contents = {"sentences": "\n".join(LINES), "labelled pairs": PAIRS, "triplets": TRIPLETS}
    for kind, content in contents.items():
        paths[kind] = folder / f"{kind.replace(' ', '-')}.{'txt' if kind == 'sentences' else 'tsv'}"
        paths[kind].write_text(content, encoding="utf-8")
    return paths


@pytest.fixture
def train(tiny_model, files, tmp_path):
    """A function that trains a method on its kind of file; returns the folder of the run."""

    def run(method: str, *flags: object, name: str = "run", code: int = 0) -> Path:
        text = files[METHODS[method].reads]
        words = [method, "--model", tiny_model, "--text", text, "--out", tmp_path / name, *FAST]
        assert main([str(word) for word in (*words, *flags)]) == code
        return tmp_path / name

    return run


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def are_equal(one: Path, other: Path) -> bool:
    first = weights(one)
    second = weights(other)
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize("method", ["simcse", "bsc", "simcse-nli", "sg-opt"])
def test_a_stage_alone(train, method, tiny_model, sample_data):
    """No label measures it: the folder has the trained encoder, its options, curve and losses."""
    folder = train(method, "--steps", "3", "--lr", "1e-3")
    assert not are_equal(folder / "encoder", tiny_model)
    stage = json.loads((folder / "encoder" / "stage.json").read_text())
    assert stage["history"][-1]["step"] == 3
    assert stage["before"] == stage["after"] == {}
    assert read_training(str(folder / "encoder")) is None, "contrastive.quality opens it"
    assert len((folder / "log.csv").read_text().splitlines()) == 1 + 3
    record = json.loads((folder / "run.json").read_text())
    assert record["options"]["contrastive_steps"] == 3
    assert record["options"]["hand_on"] == "trained", "no task chooses between it and the start"
    assert not (folder / "checkpoint").exists()


def test_every_short_flag_is_a_setting_of_the_stage(files):
    """Also schedule and warmup, which the tasks have under the same names."""
    words = ["simcse", "--text", str(files["sentences"]), "--out", "out"]
    passed = {"schedule": "cosine", "warmup": 0.9, "epochs": 7, "max_length": 9, "lr": 0.5}
    for name, value in passed.items():
        words += [f"--{name}", str(value)]
    run = parse(words)
    settings = settings_of("simcse", run.options.contrastive, 768, "cpu")
    assert {name: getattr(settings, name) for name in passed} == passed
    assert run.options.training == TrainingOptions(hand_on="trained"), "those of tasks stay"


def test_it_is_the_stage_of_the_main_job(train, tiny_model, files, sample_data, tmp_path):
    """The same weights to the last bit as `build_stage` on the same text, with the same options."""
    dev = sample_data / "sts-dev.csv"
    folder = train("simcse", "--dev", dev, "--keep", "last", "--lr", "1e-3")
    run = parse(["--resume", str(folder)])
    options = run.options
    encoder = BertModel.from_pretrained(tiny_model)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    start = StartingModel(encoder, tokenizer, tiny_model, encoder_fingerprint(encoder, tokenizer))
    rows = read_rows([str(files["sentences"])], "sentences", tmp_path, ["train"], 0)
    stage = build_stage(
        "simcse",
        options.contrastive,
        options.for_training("cpu", "fp32", "fast"),
        options.encoder.pooling,
        start,
        StageText(rows.examples, read_pairs(dev).examples, 48),
        Place(start.fingerprint, tmp_path / "own", tmp_path / "checkpoint"),
    )
    stage.train(is_resumed=False)
    assert are_equal(folder / "encoder", tmp_path / "own")
    assert not are_equal(folder / "encoder", tiny_model)


def test_what_is_saved_is_what_was_trained(train, tiny_model, tmp_path):
    """Also where the trained encoder is worse: nothing is handed back to the start."""
    pairs = list(itertools.pairwise(LINES))
    vectors = SentenceEncoder(tiny_model).encode(LINES, normalize_embeddings=True)
    rows = ["sentence1\tsentence2\tscore"]
    # By these labels, no encoder is as good as the start.
    for pair, score in zip(pairs, (vectors[:-1] * vectors[1:]).sum(axis=1), strict=True):
        rows.append("\t".join([*pair, str(5 * score)]))
    dev = tmp_path / "dev.tsv"
    dev.write_text("\n".join(rows), encoding="utf-8")
    folder = train("simcse", "--dev", dev, "--steps", "6", "--lr", "1")
    stage = json.loads((folder / "encoder" / "stage.json").read_text())
    assert stage["after"]["spearman"] < stage["before"]["spearman"]
    assert stage["is_kept"]
    assert not are_equal(folder / "encoder", tiny_model)


@pytest.mark.parametrize("copy", ["better", "first", "second", "mean"])
def test_both_copies_of_contrastive_tension_are_kept(train, copy):
    folder = train("ct", "--steps", "2", "--lr", "1e-3", "--ct-copy", copy)
    first = weights(folder / "encoder-first")
    second = weights(folder / "encoder-second")
    result = weights(folder / "encoder")
    assert not are_equal(folder / "encoder-first", folder / "encoder-second")
    for name, tensor in result.items():
        mean = (first[name] + second[name]) / 2
        expected = {"second": second[name], "mean": mean}.get(copy, first[name])
        assert torch.equal(tensor, expected), name


def test_a_shorter_training_is_the_beginning_of_a_longer_one(train):
    """[CT] figure 2: encoders of 2 and of 4 steps are two moments of one training."""
    losses = {}
    for name, steps, seed in (("shorter", 2, 1), ("longer", 4, 1), ("other", 4, 5)):
        folder = train("ct", "--steps", steps, "--seed", seed, name=name)
        rows = csv.DictReader((folder / "log.csv").read_text().splitlines())
        losses[name] = [(row["loss"], row["learning_rate"]) for row in rows]
    assert losses["shorter"] == losses["longer"][:2]
    assert losses["shorter"] != losses["other"][:2], "the negative control"


def test_the_worse_copy_is_the_worse_one(train, sample_data):
    dev = sample_data / "sts-dev.csv"
    scores = {}
    for copy in ("better", "worse"):
        flags = ("--steps", "2", "--lr", "3e-3", "--dev", dev, "--ct-copy", copy)
        folder = train("ct", *flags, name=copy)
        stage = json.loads((folder / "encoder" / "stage.json").read_text())
        both = [value for name, value in stage["found"].items() if name.startswith("Spearman")]
        scores[copy] = stage["after"]["spearman"]
        assert scores[copy] == {"better": max(both), "worse": min(both)}[copy]
    assert scores["worse"] < scores["better"]


def test_a_killed_run_goes_on_to_the_same_bits(train, monkeypatch):
    whole = train("simcse", "--steps", "5", name="whole")

    def dying(*parts, **flags):
        stage = build_stage(*parts, **flags)
        return replace(stage, job=killed_at(stage.job, 9))  # five steps are the cost estimate's

    with monkeypatch.context() as patch:
        patch.setattr("contrastive.train.work.build_stage", dying)
        with pytest.raises(Kill):
            train("simcse", "--steps", "5", name="killed")
    killed = whole.with_name("killed")
    assert (killed / "checkpoint").exists(), "it was killed before its first checkpoint"
    assert main(["--resume", str(killed)]) == 0
    assert are_equal(whole / "encoder", killed / "encoder")


def test_tasks_bring_their_sentences_without_labels(sample_data):
    """Those of test, too, which has no labels. A limit holds for each task."""
    splits = ["train", "test"]
    rows = read_rows(["sst", "sts"], "sentences", sample_data, splits, 20)
    assert {name: len(examples) for name, examples in rows.examples.items()} == {
        "sst": 20,
        "sts": 20,
    }
    assert len(rows.summaries) == 4


def test_sentences_follow_the_pairs_of_a_supervised_stage(sample_data, tiny_model, tmp_path):
    """As in the task stage: PARA's pairs, and in each epoch plain sentences of the named tasks."""
    steps = {}
    for name, flags in (("both", []), ("pairs", ["--unsupervised-too", "none"])):
        folder = tmp_path / name
        texts = ["para", "sst", "sts"] if name == "both" else ["para"]
        words = ["simcse-supervised", "--model", tiny_model, "--out", folder, *FAST, *flags]
        words += ["--data-dir", sample_data, "--epochs", "1", "--rows", "16", "--text", *texts]
        assert main([str(word) for word in words]) == 0
        rows = csv.DictReader((folder / "log.csv").read_text().splitlines())
        steps[name] = len(list(rows))
    assert steps["pairs"] == 2, "16 pairs in batches of 8"
    assert steps["both"] == 2 + 2 + 4, "and 16 sentences of SST, and 32 of STS"


def test_random_words_have_twenty_to_seventy_five(tiny_model):
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    drawn = [example.sentence_1.split() for example in draw_words(tokenizer, 400, seed=1)]
    lengths = [len(words) for words in drawn]
    assert (min(lengths), max(lengths)) == (20, 75)
    assert set().union(*drawn) <= set(tokenizer.vocabulary)
    again = [example.sentence_1.split() for example in draw_words(tokenizer, 400, seed=2)]
    assert drawn != again


def test_random_words_are_whole_words_also_of_roberta(tmp_path):
    """Its tokens mark the first piece of a word. Later pieces are not drawn."""
    make_model("roberta", tmp_path)
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    words = words_of(tokenizer)
    assert words
    assert {f"\u0120{word}" for word in words} <= set(tokenizer.vocabulary)
    assert all(word.isalpha() and word.isascii() for word in words)


def test_a_log_for_tensorboard_is_checked_before_the_work(train, monkeypatch, capsys):
    monkeypatch.setattr("minbert.commands.optional.importlib.util.find_spec", lambda name: None)
    folder = train("simcse", "--tensorboard", code=2)
    assert "tensorboard is not installed" in capsys.readouterr().err.replace("\n", " ")
    assert not folder.exists()


def test_pairs_of_one_label_have_no_order(tmp_path, tiny_model, capsys):
    text = tmp_path / "wordings.tsv"
    text.write_text("".join(f"{line}\t{line} here\n" for line in LINES), encoding="utf-8")
    words = ["cosent", "--model", tiny_model, "--text", text, "--out", tmp_path / "run", *FAST]
    assert main([str(word) for word in words]) == 2
    assert "all 24 pairs are labelled 1; the method compares" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "flags", "words"),
    [
        ("simcse", ["--bsc-align", "0.3"], "--bsc-align has no effect on simcse"),
        ("ct", ["--temperature", "0.3"], "--temperature has no effect on ct"),
        ("matryoshka", ["--projection", "mlp"], "on matryoshka: its widths are the first units"),
        ("ct", ["--encoder-dropout", "0.3"], "--encoder-dropout has no effect on ct, which trains"),
        ("distill", ["--attention-dropout", "0"], "--attention-dropout has no effect on distill"),
        ("ct", ["--weight-decay", "0.5"], "--weight-decay has no effect on ct with RMSprop"),
        ("ct", ["--ct-copy", "worse"], "--ct-copy needs pairs with labels"),
        ("simcse", ["--keep", "best"], "--keep needs pairs with labels"),
        ("ct", ["--batch-size", "12"], "--batch-size is 12; with ct it is a multiple of 8"),
        ("simcse", ["--splits", "train,dev"], "--splits train,dev has no effect"),
        ("bsc", ["--text", "random-words"], "stands alone, for a method that reads sentences"),
        ("ct", ["--text", "random-words"], "say how many sequences"),
        ("bsc", ["--text", "sts", "--splits", "dev"], "only those of train may be read"),
        ("bsc", ["--text", "sst"], "bsc trains on the labelled pairs of para or sts, or of a file"),
        ("bsc", ["--text", "sts", "sst"], "is a task of single sentences"),
        ("simcse-supervised", ["--text", "sts"], "the labelled pairs of para, or of a file"),
        ("simcse", ["--steps", "3", "--epochs", "2"], "both say when a stage ends"),
        ("bogus", [], "METHOD is 'bogus'; it is one of simcse"),
    ],
)
def test_what_is_refused(method, flags, words, files, sample_data, tmp_path, capsys):
    kind = METHODS[method].reads if method in METHODS else "sentences"
    line = [method, "--text", files[kind], "--out", tmp_path / "run", *flags]
    line += ["--data-dir", sample_data]
    assert main([str(word) for word in line]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_methods_with_dropout_and_adamw_take_their_flags(files):
    """The negative control of the refusals above."""
    for method, flags in (("sg", ["--encoder-dropout", "0.3"]), ("ct", ["--optimizer", "adamw"])):
        words = [method, "--text", str(files["sentences"]), "--out", "out", *flags]
        assert parse([*words, "--weight-decay", "0.5"]).options.training.weight_decay == 0.5


def test_entries_know_which_methods_have_dropout():
    without = {name for name, cls in CLASSES.items() if not cls.has_dropout}
    assert without == {"ct", "ct-in-batch", "distill"}
    assert without == {name for name, entry in METHODS.items() if not entry.has_dropout}


def test_the_bundled_files_are_found_outside_of_the_clone(tmp_path, monkeypatch):
    """As for run_multitask.py: the default means the files that came with this package."""
    monkeypatch.chdir(tmp_path)
    for folder in ([], ["--data-dir", "data/sample"]):
        options = parse(["simcse", "--text", "sts", "--out", "new", *folder]).options.stage
        assert all(path.is_file() for path in options.input_files())
        rows = read_rows(["sts"], "sentences", options.data_dir, ["train"], 4)
        assert len(rows.examples["sts"]) == 4
