"""`python -m minbert.pretraining`: from plain text to a folder that others open."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from minbert import BertModel, BertTokenizer
from minbert.commands.ending import this_python
from minbert.commands.options import flat
from minbert.hub import resolve
from minbert.pretraining import __main__ as command
from minbert.pretraining import plain_text
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM
from minbert.pretraining.options import PlainTextOptions
from minbert.pretraining.sizes import SIZES
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training.code_version import ROOT
from minbert.training.loop import Loop
from minbert.training.run_folder import LOCK_FILE
from tests.report_reader import Page
from tests.toy_text import LINES

WORDS = "cls.predictions.decoder.weight"  # an output matrix of its own
# 80 steps.
SMALL_RUN = ["--size", "tiny", "--tokens", 8 * 16 * 80, "--batch-size", 8, "--block-size", 16]
SMALL_RUN += ["--lr", 5e-3, "--precision", "fp32", "--device", "cpu"]


def call(*flags) -> int:
    """The exit code of the command with these flags."""
    try:
        return command.main(list(map(str, flags)))
    except SystemExit as error:  # argparse's way out
        return error.code


def parse(*flags):
    """The run that the flags ask for."""
    return command.parse(list(map(str, flags)))


@pytest.fixture(scope="module", autouse=True)
def _undrawn():
    """No picture at each of 40 evaluations; test_curves.py looks at those."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text.Curves, "__call__", lambda curves, history: None)
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """A corpus of short sentences."""
    path = tmp_path_factory.mktemp("pretrain") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(text) -> Path:
    """The folder of a whole tiny run of the command."""
    assert call("--corpus", text, "--out", text.parent / "model", *SMALL_RUN) == 0
    return text.parent / "model"


def read_json(path: Path) -> dict:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


# --- a whole run ----------------------------------------------------------------------------------


def test_the_command_writes_a_model_that_opens(folder):
    model = BertModel.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    # A masked language model trains no pooler.
    assert model.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias")
    config = model.config
    assert config.vocab_size == len(tokenizer.vocabulary) and config.hidden_size == 64
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1
    assert not (folder / "checkpoint").exists() and not (folder / ".lock").exists()


def test_the_record(folder):
    record = read_json(folder / "run.json")
    # 80 steps in at most 50 rounds: 2 steps each, so 40 rounds.
    assert record["tokens"] == 8 * 16 * 80 and len(record["history"]) == 40
    layer = 4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert record["flops_per_token"] == 6 * 2 * layer
    per_second = record["flops_per_token"] * record["tokens_per_second"]
    share = per_second / record["matrix_product_limit"]
    assert record["share_of_limit"] == pytest.approx(share) and share > 0
    losses = [entry["held_out_loss"] for entry in record["history"]]
    assert min(losses) < 0.8 * losses[0] and record["best"]["held_out_loss"] == min(losses)
    assert record["predicted"][0]["num_steps"] == 80 and record["actual"]["peak_memory"] > 1e8
    assert record["machine"]["processes"] == 1


def test_the_report_and_the_model_card(folder, text):
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert not page.faults and len(page.images) == 4
    scores = page.tables[0]
    assert scores[0][2:] == ["training loss", "held-out loss", "masked accuracy", "best"]
    best = read_json(folder / "run.json")["best"]
    (marked,) = [row for row in scores if row[-1] == "yes"]
    assert marked[3] == f"{best['held_out_loss']:.4f}" and 20 < len(scores) <= 22

    (command,) = page.texts["code"]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["python", "-m", "minbert.pretraining"]
    assert words[3:7] == ["--corpus", str(text), "--out", str(folder)]
    again = parse(*words[3:6], folder / "new", *words[7:])
    stored = read_json(folder / "options.json")["options"]
    assert flat(again.options) == {name: stored[name] for name in flat(again.options)}

    card = ModelCard((folder / "README.md").read_text(encoding="utf-8"))
    assert card.data.pipeline_tag == "fill-mask" and card.data.base_model is None
    assert "10,240 tokens" in card.text and str(text.parent) not in card.text


def test_the_stored_options_have_their_old_names(folder, text):
    """A run of any version is read by these keys."""
    stored = read_json(folder / "run.json")["options"]
    assert stored == read_json(folder / "options.json")["options"]
    own = {item.name for item in fields(PlainTextOptions)}
    assert stored.keys() == own | {"corpus", "out", "resume"}
    assert stored["size"] == "tiny" and stored["precision"] == "fp32"
    assert stored["corpus"] == [str(text)] and stored["resume"] is None


def test_positions_start_as_waves():
    """Of 4 units the wave lengths are 1 and 100 radians: sin, sin, cos, cos, a tenth of each."""
    rows = []
    for place in range(3):
        angles = (place, 0.01 * place)
        waves = [*map(math.sin, angles), *map(math.cos, angles)]
        rows.append([0.1 * value for value in waves])
    torch.testing.assert_close(plain_text.sinusoids(3, 4), torch.tensor(rows))
    special = BertTokenizer({name: number for number, name in enumerate(SPECIAL_TOKENS)})
    model = plain_text.build_model(PlainTextOptions(size="tiny"), special, torch.device("cpu"))
    positions = model.bert.embeddings.position.weight
    assert torch.equal(positions, plain_text.sinusoids(128, 64))


def test_the_job_is_as_the_flags_say(folder, tmp_path, monkeypatch):
    masked = []
    monkeypatch.setattr(
        plain_text.Masking, "of", lambda tokenizer, whole_word: masked.append(whole_word)
    )
    flags = ["--corpus", "x", "--out", tmp_path / "new", "--size", "tiny", "--warmup", 0.5]
    flags += ["--seed", 5, "--lr", 0.25, "--accumulation", 3, "--precision", "bf16", "--whole-word"]
    sequences = np.zeros((4, 64), dtype=np.uint16)
    tokenizer = BertTokenizer.from_pretrained(folder)
    job = plain_text.build_job(parse(*flags), tokenizer, sequences, sequences)
    assert (job.warmup, job.seed, job.accumulation, job.precision) == (0.5, 5, 3, "bf16")
    assert masked == [True]
    assert {group["lr"] for group in job.optimizer.param_groups} == {0.25}


# --- transformers and the bundled model -----------------------------------------------------------


@pytest.fixture
def transformers():
    """The reference."""
    return pytest.importorskip("transformers", reason="the reference; run setup.sh --dev")


def test_transformers_opens_it_and_predicts_the_same(folder, transformers):
    assert read_json(folder / "config.json")["architectures"] == ["BertForMaskedLM"]
    sentence = "a doctor is walking from the [MASK] to the river ."
    check_against_transformers(transformers, folder, sentence)


def check_against_transformers(transformers, folder: Path, sentence: str) -> None:
    """Compare the logits of both for a sentence.

    transformers reads float16 files as the float32 that config.json names.
    """
    reference, report = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert reference.dtype == torch.float32
    assert not report["missing_keys"] and not report["unexpected_keys"]
    batch = BertTokenizer.from_pretrained(folder)([sentence])
    model = BertForMaskedLM.from_pretrained(folder).eval()
    all_tokens = torch.zeros_like(batch["input_ids"])
    with torch.no_grad():
        logits, _ = model.predict(batch["input_ids"], all_tokens)
        expected = reference.eval()(**batch).logits[0]
    torch.testing.assert_close(logits, expected, rtol=0, atol=5e-5)  # fp32


def test_the_bundled_checkpoint():
    """minbert-mini as its README says: size, parameters, tensors, and a head that predicts."""
    folder = resolve("minbert-mini")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8_000_000
    model = BertForMaskedLM.from_pretrained("minbert-mini")
    assert num_parameters(model) == 3_868_160
    report = model.bert.load_report
    assert (report.num_loaded, len(report.missing), len(report.ignored)) == (85, 2, 5)

    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    sentence = "The children are playing in the [MASK] with their friends."
    row = tokenizer([sentence])["input_ids"]
    labels = torch.where(row == tokenizer.vocabulary["[MASK]"], 0, IGNORED)
    logits, _ = model.eval().predict(row, labels)
    likely = [tokenizer.backend.id_to_token(number) for number in logits[0].topk(20).indices]
    expected = {"garden", "park", "street", "house", "school", "water", "yard", "playground"}
    assert expected & set(likely), likely


def test_transformers_finds_all_it_looks_for_in_the_bundled_checkpoint(transformers):
    sentence = "The children are playing in the garden."
    check_against_transformers(transformers, resolve("minbert-mini"), sentence)


def num_parameters(model: BertForMaskedLM) -> int:
    """Of a masked language model, which has no trained pooler."""
    named = model.named_parameters()
    return sum(parameter.numel() for name, parameter in named if "pooler" not in name)


def test_the_named_sizes():
    """Parameters of the masked language model in millions, at the full vocabulary."""
    millions = {}
    for name, config in SIZES.items():
        with torch.device("meta"):
            model = BertForMaskedLM(BertModel(config))
        millions[name] = round(num_parameters(model) / 1e6, 1)
    assert millions == {"tiny": 0.2, "mini": 3.9, "small": 24.6, "base": 109.5}


# --- stopped and resumed --------------------------------------------------------------------------


def test_a_run_stopped_in_mid_corpus_goes_on_to_the_same_bits(
    folder, text, tmp_path, monkeypatch, capsys
):
    """Accumulation, whole words and pairs on; stopped in mid-round and mid-pass.

    Both runs take the vocabulary of another run: the trainer of vocabularies is not the same twice.
    """
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    # 102 updates in 34 rounds of 3; a pass is about 125 batches.
    flags = ["--corpus", text, *SMALL_RUN, "--accumulation", 2, "--whole-word", "--pairs", 0.5]
    flags += ["--vocabulary", folder, "--tokens", 8 * 16 * 204]
    tokens_per_update = []
    curves = plain_text.Curves

    def keep(folder, tokens, title):
        tokens_per_update.append(tokens)
        return curves(folder, tokens, title)

    monkeypatch.setattr(plain_text, "Curves", keep)
    assert call(*flags, "--out", whole) == 0
    assert tokens_per_update == [2 * 8 * 16]
    assert read_json(whole / "run.json")["tokens"] == 8 * 16 * 204

    step = Loop.train_step
    done = []

    def stopping(loop, update):
        step(loop, update)
        done.append(loop.progress.step)
        loop.stop.is_requested = len(done) == 34

    monkeypatch.setattr(Loop, "train_step", stopping)
    assert call(*flags, "--out", parts) == 130
    advice = f"Continue with: {this_python()} -m minbert.pretraining --resume {parts}"
    assert advice in capsys.readouterr().err
    torch.manual_seed(99)
    assert call("--resume", parts) == 0
    assert done == list(range(1, 103)), "what was done is not done again"
    for name in ("model.safetensors", "vocab.txt", "config.json"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name
    history, expected = (read_json(run / "run.json")["history"] for run in (parts, whole))
    assert history == expected
    # What a kill after the end of the run has left.
    (parts / "checkpoint").mkdir()
    for name in (".README.md.writing", LOCK_FILE):
        (parts / name).touch()
    assert call("--resume", parts) == 0
    assert not (parts / "checkpoint").exists() and not list(parts.glob(".*"))
    assert "nothing to resume" in capsys.readouterr().out


def test_a_resumed_run_refuses_another_corpus(text, tmp_path, monkeypatch, capsys):
    def stop(loop):
        raise KeyboardInterrupt

    corpus = tmp_path / "own.txt"
    corpus.write_bytes(text.read_bytes())
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", stop)
        patch.chdir(tmp_path)
        assert call("--corpus", corpus.name, "--out", run, *SMALL_RUN) == 130
    monkeypatch.chdir(tmp_path.parent)  # the run knows its files from anywhere
    corpus.rename(tmp_path / "elsewhere.txt")
    assert call("--resume", run) == 2
    message = f"{corpus}: No such file or directory. Give a file of plain text in UTF-8"
    assert message in capsys.readouterr().err
    lines = text.read_text(encoding="utf-8").splitlines()
    fewer = lines[:-40]
    first_turned = [lines[0][::-1], *lines[1:]]  # the first one is held out
    for changed in (fewer, first_turned):
        corpus.write_text("\n".join(changed), encoding="utf-8")
        assert call("--resume", run) == 2
        assert "the corpus has changed since the run began" in capsys.readouterr().err


def test_going_on_from_the_bundled_checkpoint(text, tmp_path, capsys):
    flags = ["--init", "minbert-mini", "--corpus", text, "--tokens", 64, "--batch-size", 2]
    flags += ["--block-size", 32, "--lr", 0, "--precision", "fp32", "--out", tmp_path / "still"]
    assert call(*flags) == 0
    assert "3,868,160 parameters" in capsys.readouterr().out
    assert_same_weights("minbert-mini", tmp_path / "still")


def assert_same_weights(one: str | Path, other: str | Path) -> None:
    """The weights of two models but for their poolers, to the bit."""
    tensors = BertForMaskedLM.from_pretrained(one).state_dict()
    others = BertForMaskedLM.from_pretrained(other).state_dict()
    for name, tensor in tensors.items():
        assert "pooler" in name or torch.equal(tensor, others[name]), name


def test_going_on_from_a_folder(folder, text, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)  # the run knows its start from anywhere, as it does its corpus
    run = parse("--corpus", "x", "--out", "new", "--init", folder.name)
    assert run.options.init == str(folder)
    flags = ["--init", folder, "--corpus", text, "--tokens", 1280, "--batch-size", 2]
    flags += ["--block-size", 32, "--precision", "fp32", "--pairs", 0.5]
    assert call(*flags, "--out", tmp_path / "still", "--lr", 0) == 0
    vocabulary = (tmp_path / "still" / "vocab.txt").read_bytes()
    assert vocabulary == (folder / "vocab.txt").read_bytes()
    assert_same_weights(folder, tmp_path / "still")

    assert call(*flags, "--out", tmp_path / "moved") == 0
    start = BertForMaskedLM.from_pretrained(folder).state_dict()
    moved = BertForMaskedLM.from_pretrained(tmp_path / "moved").state_dict()
    segments = "bert.embeddings.segment.weight"
    assert not torch.equal(start[segments][1], moved[segments][1]), "pairs train the second segment"


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tokens", 0], "--tokens is 0; it must be a whole number, at least 1"),
        (["--lr", "inf"], "--lr is inf; it must be a finite number, at least 0"),
        (["--seed", 2**32], "--seed is 4294967296; it must be 0 to 4294967295"),
        (["--pairs", 2], "--pairs is 2.0; it must be 0 to 1"),
        (["--pairs", 0.1, "--batch-size", 4], "--pairs 0.1 of --batch-size 4 is no sequence"),
        (["--warmup", "nan"], "--warmup is nan; it must be 0 to 1"),
        (["--size", "tiny", "--init", "x"], "--size tiny and --init x: a model brings its own"),
        (["--vocabulary", "y", "--init", "x"], "--vocabulary y and --init x: a model brings its"),
        (["--vocabulary", "y/z"], "y/z"),
        (["--size", "huge"], "invalid choice: 'huge'"),
        (["--resume", "x"], "drop the other flags"),
        (["--block-size", 129], "--block-size is 129; this model has 128 positions"),
        (["--block-size", 128, "--batch-size", 5000], "needed are 5000 and 1. Give more text"),
    ],
)
def test_flags_that_cannot_be(text, tmp_path, capsys, flags, message):
    assert call("--corpus", text, "--out", tmp_path / "new", *flags) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_files_and_folders_that_do_not_fit(folder, text, tmp_path, capsys):
    new = tmp_path / "new"
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes("ein Buch\nein Wörterbuch".encode("latin-1"))
    headless = tmp_path / "headless"
    BertModel.from_pretrained(folder).save_pretrained(headless)
    shutil.copy(folder / "vocab.txt", headless)
    absent = tmp_path / "absent.txt"
    cases = [
        (["--corpus", absent, "--out", new], "absent.txt: No such file"),
        (["--corpus", tmp_path / "empty.txt", "--out", new], "Give more text"),
        (["--corpus", text, tmp_path / "latin.txt", "--out", new], "latin.txt, line 2: not UTF-8"),
        (["--corpus", text, text, "--out", new], "text.txt: given twice"),
        (["--corpus", text, "--out", folder], "to continue it, or another folder."),
        (["--corpus", text], "--out DIR are needed"),
        (["--corpus", text, "--out", text / "new"], "text.txt is a file. Choose another folder."),
        (["--corpus", text, "--out", new, "--init", headless], "no complete masked-language-model"),
    ]
    for flags, message in cases:
        assert call(*flags) == 2
        assert message in capsys.readouterr().err and not new.exists()


@pytest.mark.parametrize("change", [{"size": "huge"}, {"lr": None}, {"new": 1}, {"tokens": "many"}])
def test_a_run_of_another_version_is_named(folder, tmp_path, capsys, change):
    """Such as one of a later version, or one whose options.json was edited."""
    assert call("--resume", tmp_path) == 2
    assert "no run of minbert.pretraining there" in capsys.readouterr().err

    stored = read_json(folder / "options.json")
    del stored["checksum"]
    for name, value in change.items():
        stored["options"][name] = value
        if value is None:
            stored["options"].pop(name)
    stored["code"] = {"git": "c0ffee", "sha256": "0" * 64}
    (tmp_path / "options.json").write_text(json.dumps(stored))
    assert call("--resume", tmp_path) == 2
    message = capsys.readouterr().err
    assert "or of another version (options.json: " in message
    assert "; version c0ffee wrote it). Give the folder of --out." in message


@pytest.mark.parametrize("vocabulary", [[], ["--vocabulary", "minbert-mini"]])
def test_an_empty_file_among_others_is_told(text, tmp_path, capsys, vocabulary):
    (tmp_path / "empty.txt").write_text("\n  \n", encoding="utf-8-sig")
    flags = ["--corpus", tmp_path / "empty.txt", text, *vocabulary, *SMALL_RUN]
    assert call(*flags, "--tokens", 1280, "--out", tmp_path / "new") == 0
    out = capsys.readouterr().out
    assert "empty.txt: an empty file; there is no text in it" in out
    assert "text.txt: an empty" not in out
    few = r"\d training sequences of 16 tokens, \d held out, which are few: held-out loss"
    assert re.search(few, out)
    speed = (
        r"1,280 tokens in .* minutes, [\d,]+ tokens/s; that is [\d,]+ GFLOP/s, \d+% of the [\d,]+"
    )
    assert re.search(speed, out)


def test_heads_of_another_kind(folder, tmp_path):
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "SHA256SUMS").unlink()
    tensors = load_file(folder / "model.safetensors")
    words = tensors["bert.embeddings.word_embeddings.weight"]

    # The words once more, as older files of BERT have them.
    save_file({**tensors, WORDS: words.clone()}, other / "model.safetensors")
    bias = BertForMaskedLM.from_pretrained(folder).bias
    assert torch.equal(BertForMaskedLM.from_pretrained(other).bias, bias)

    save_file({**tensors, WORDS: words + 1}, other / "model.safetensors")
    message = "its head has an output matrix .* other than the word embeddings"
    with pytest.raises(ValueError, match=message):
        BertForMaskedLM.from_pretrained(other)

    name = "cls.predictions.bias"
    save_file({**tensors, name: tensors[name][:1].clone()}, other / "model.safetensors")
    message = rf"'{name}' has shape \(1,\); config.json asks for"
    with pytest.raises(ValueError, match=message):
        BertForMaskedLM.from_pretrained(other)


# --- the document ---------------------------------------------------------------------------------


def test_the_document_s_table_of_flags():
    """docs/pretraining.md, the rows `--flag` | default |, against the fields of the options."""
    text = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8")
    table = text.split("| option |")[0]
    rows = dict(re.findall(r"(?m)^\| `(--[a-z-]+)` \| ([^|]*?) ?\|", table))
    expected = {}
    for item in fields(PlainTextOptions):
        default = item.default
        shown = f"{default:,}" if type(default) is int else str(default)
        flag = f"--{item.name.replace('_', '-')}"
        expected[flag] = {"none": "", "False": "off"}.get(shown, shown)
    assert rows == expected
