"""minbert/pretraining/__main__.py, from_text.py: plain text -> a folder that others open; what it refuses; runs that stop."""

import argparse
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert import BertModel, BertTokenizer
from minbert.commands.ending import this_python
from minbert.pretraining import __main__ as pretrain
from minbert.pretraining import plain_text as from_text
from minbert.pretraining.mlm import IGNORED, BertForMaskedLM
from minbert.training.loop import Loop
from minbert.weights import resolve
from tests.toy_text import LINES

SMALL_RUN = (
    "--size",
    "tiny",
    "--tokens",
    8 * 16 * 80,
    "--batch-size",
    8,
    "--block-size",
    16,
    "--lr",
    5e-3,
    "--precision",
    "fp32",
    "--device",
    "cpu",
)  # 80 steps


def call(*flags) -> int:
    try:
        return pretrain.main(list(map(str, flags)))
    except SystemExit as error:  # argparse's way out
        return error.code


@pytest.fixture(scope="module", autouse=True)
def _undrawn(no_fsync):
    """No plots at each of 40 evaluations: test_curves.py tests them. And no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minbert.reporting.curves.Curves.__call__", lambda self, history: None)
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("pretrain") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(text):
    """A whole tiny run of the script."""
    assert call("--corpus", text, "--out", text.parent / "model", *SMALL_RUN) == 0
    return text.parent / "model"


def test_the_script_writes_a_model_that_opens(folder):
    model, tokenizer = BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)
    assert model.load_report.missing == (
        "pooler.dense.weight",
        "pooler.dense.bias",
    )  # a masked LM trains no pooler
    assert model.config.vocab_size == len(tokenizer.vocabulary) and model.config.hidden_size == 64
    assert model.config.hidden_dropout_prob == model.config.attention_probs_dropout_prob == 0.1
    assert not (folder / "checkpoint").exists()


def test_the_record(folder):
    record = json.loads((folder / "run.json").read_text())
    assert (
        record["tokens"] == 8 * 16 * 80
    )  # 80 steps in at most 50 rounds: 2 steps each, so 40 rounds
    assert record["flops_per_token"] == 6 * 2 * (
        4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    )  # two layers
    expected = (
        record["flops_per_token"] * record["tokens_per_second"] / record["matrix_product_limit"]
    )
    assert record["share_of_limit"] == pytest.approx(expected) and expected > 0
    losses = [entry["held_out_loss"] for entry in record["history"]]
    assert len(losses) == 40 and min(losses) < 0.8 * losses[0]
    assert record["best"]["held_out_loss"] == min(losses)
    assert record["predicted"][0]["num_steps"] == 80 and record["actual"]["peak_memory"] > 1e8
    assert record["machine"]["processes"] == 1
    assert record["options"]["size"] == "tiny" and record["options"]["precision"] == "fp32"


def test_positions_start_as_waves():
    """Of 4 units the wave lengths are 1 and 100 radians: sin, sin, cos, cos, a tenth of each."""
    expected = [
        [0.1 * wave(place * rate) for wave in (math.sin, math.cos) for rate in (1, 0.01)]
        for place in range(3)
    ]
    torch.testing.assert_close(from_text.sinusoids(3, 4), torch.tensor(expected))
    given = argparse.Namespace(size="tiny", init=None, seed=0, compile=False)
    model = from_text.build_model(given, 100, torch.device("cpu"))
    assert torch.equal(model.bert.embeddings.position.weight, from_text.sinusoids(128, 64))


def test_the_job_is_as_the_flags_say(folder, tmp_path, monkeypatch):
    masked = []
    monkeypatch.setattr(
        from_text.Masking, "of", lambda tokenizer, whole_word: masked.append(whole_word)
    )
    flags = [
        "--corpus",
        "x",
        "--out",
        tmp_path / "new",
        "--size",
        "tiny",
        "--warmup",
        0.5,
        "--seed",
        5,
        "--lr",
        0.25,
        "--accumulation",
        3,
        "--precision",
        "bf16",
        "--whole-word",
    ]
    arguments, blocks = pretrain.parse(list(map(str, flags))), np.zeros((4, 64), dtype=np.uint16)
    job = from_text.build_job(arguments, BertTokenizer.from_pretrained(folder), blocks, blocks)
    assert (job.warmup, job.seed, job.accumulation, job.precision) == (
        0.5,
        5,
        3,
        "bf16",
    ) and masked == [True]
    assert {group["lr"] for group in job.optimizer.param_groups} == {0.25}


def test_transformers_opens_it_and_predicts_the_same(folder):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    check_against_transformers(
        transformers, folder, "a doctor is walking from the [MASK] to the river ."
    )


def check_against_transformers(transformers, folder: Path, text: str) -> None:
    """What both say of a text's tokens; transformers reads float16 files as the float32 that config.json names."""
    reference, report = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert (
        reference.dtype == torch.float32
        and not report["missing_keys"]
        and not report["unexpected_keys"]
    )
    batch = BertTokenizer.from_pretrained(folder)([text])
    model = BertForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits, _ = model.predict(batch["input_ids"], torch.zeros_like(batch["input_ids"]))
        torch.testing.assert_close(
            logits, reference.eval()(**batch).logits[0], rtol=0, atol=5e-5
        )  # fp32


def test_the_checkpoint_that_comes_along():
    """minbert-mini as its README says: size, parameters, tensors, its head; transformers finds all it looks for."""
    folder = resolve("minbert-mini")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8_000_000
    model = BertForMaskedLM.from_pretrained("minbert-mini")
    assert (
        sum(p.numel() for name, p in model.named_parameters() if "pooler" not in name) == 3_868_160
    )
    report = model.bert.load_report
    assert (report.num_loaded, len(report.missing), len(report.ignored)) == (85, 2, 5)
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    row = tokenizer(["The children are playing in the [MASK] with their friends."])["input_ids"]
    logits, _ = model.eval().predict(
        row, torch.where(row == tokenizer.vocabulary["[MASK]"], 0, IGNORED)
    )
    likely = [
        tokenizer.backend.id_to_token(number) for number in logits[0].topk(20).indices.tolist()
    ]
    assert {"garden", "park", "street", "house", "school", "water", "yard", "playground"} & set(
        likely
    ), likely
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    check_against_transformers(transformers, folder, "The children are playing in the garden.")


def test_a_run_stopped_in_mid_corpus_goes_on_to_the_same_bits(
    folder, text, tmp_path, monkeypatch, capsys
):
    """Accumulation, whole words and pairs on; stopped in mid-round and mid-pass, with the loop's own signal.

    Both take the vocabulary of another run, for the trainer of vocabularies is not the same twice.
    """
    flags = (
        "--corpus",
        text,
        *SMALL_RUN,
        "--accumulation",
        2,
        "--whole-word",
        "--pairs",
        0.5,
        "--vocabulary",
        folder,
        "--tokens",
        8 * 16 * 204,
    )  # 102 updates in 34 rounds of 3; a pass is about 125 batches
    seen, curves = [], from_text.Curves
    monkeypatch.setattr(
        from_text,
        "Curves",
        lambda folder, tokens, title: seen.append(tokens) or curves(folder, tokens, title),
    )
    assert call(*flags, "--out", tmp_path / "whole") == 0
    assert seen == [2 * 8 * 16]  # an update
    assert json.loads((tmp_path / "whole" / "run.json").read_text())["tokens"] == 8 * 16 * 204
    step, done = Loop.train_step, []

    def stopping(loop, parts):
        step(loop, parts)
        done.append(loop.progress.step)
        loop.stop.is_requested = len(done) == 34

    monkeypatch.setattr(Loop, "train_step", stopping)
    assert call(*flags, "--out", tmp_path / "parts") == 130
    advice = f"Continue with: {this_python()} -m minbert.pretraining --resume {tmp_path / 'parts'}"
    assert advice in capsys.readouterr().err
    torch.manual_seed(99)
    assert call("--resume", tmp_path / "parts") == 0
    assert done == list(range(1, 103))  # what was done is not done again
    for name in ("model.safetensors", "vocab.txt", "config.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes(), name
    histories = [
        json.loads((tmp_path / name / "run.json").read_text())["history"]
        for name in ("parts", "whole")
    ]
    assert histories[0] == histories[1]
    assert (
        call("--resume", tmp_path / "parts") == 0 and "nothing to resume" in capsys.readouterr().out
    )


def test_a_resumed_run_refuses_another_corpus(text, tmp_path, monkeypatch, capsys):
    own = tmp_path / "own.txt"
    own.write_bytes(text.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", lambda loop: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.chdir(tmp_path)
        assert call("--corpus", own.name, "--out", tmp_path / "run", *SMALL_RUN) == 130
    monkeypatch.chdir(tmp_path.parent)  # the run knows its files from anywhere
    own.rename(tmp_path / "elsewhere.txt")
    assert call("--resume", tmp_path / "run") == 2
    assert (
        f"{own}: No such file or directory. Give a file of plain text in UTF-8"
        in capsys.readouterr().err
    )
    lines = text.read_text(encoding="utf-8").splitlines()
    for changed in (lines[:-40], [lines[0][::-1], *lines[1:]]):  # the first is held out
        own.write_text("\n".join(changed), encoding="utf-8")
        assert call("--resume", tmp_path / "run") == 2
        assert "the corpus has changed since the run began" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tokens", 0], "--tokens is 0; it must be a finite number, at least 1"),
        (["--lr", "inf"], "--lr is inf; it must be a finite number, at least 0"),
        (["--seed", 2**32], "--seed is 4294967296; it must be 0 to 4294967295"),
        (["--pairs", 2], "--pairs is 2.0; it must be 0 to 1"),
        (
            ["--pairs", 0.1, "--batch-size", 4],
            "--pairs 0.1 of --batch-size 4 is no block; raise one",
        ),
        (["--warmup", "nan"], "--warmup is nan; it must be 0 to 1"),
        (["--size", "tiny", "--init", "x"], "--size tiny and --init x: a folder brings its own"),
        (
            ["--vocabulary", "y", "--init", "x"],
            "--vocabulary y and --init x: a folder brings its own",
        ),
        (["--vocabulary", "y/z"], "y/z"),
        (["--size", "huge"], "invalid choice: 'huge'"),
        (["--resume", "x"], "drop the other flags"),
        (["--block-size", 129], "--block-size is 129; this model has 128 positions"),
        (["--block-size", 128, "--batch-size", 5000], "needed are 5000 and 1. Give more text"),
    ],
)
def test_what_cannot_be(text, tmp_path, capsys, flags, message):
    assert call("--corpus", text, "--out", tmp_path / "new", *flags) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_files_and_folders_that_do_not_fit(folder, text, tmp_path, capsys):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes("ein Buch\nein Wörterbuch".encode("latin-1"))
    headless = tmp_path / "headless"
    BertModel.from_pretrained(folder).save_pretrained(headless)
    shutil.copy(folder / "vocab.txt", headless)
    edited = tmp_path / "edited"
    edited.mkdir()
    stored = json.loads((folder / "options.json").read_text())
    stored["options"]["size"] = "huge"
    (edited / "options.json").write_text(json.dumps(stored))
    for flags, message in (
        (
            ["--corpus", tmp_path / "absent.txt", "--out", tmp_path / "new"],
            "absent.txt: No such file",
        ),
        (["--corpus", tmp_path / "empty.txt", "--out", tmp_path / "new"], "Give more text"),
        (
            ["--corpus", text, tmp_path / "latin.txt", "--out", tmp_path / "new"],
            "latin.txt, line 2: not UTF-8",
        ),
        (["--corpus", text, text, "--out", tmp_path / "new"], "text.txt: given twice"),
        (
            ["--corpus", text, "--out", folder],
            "exists. Give a new folder, or continue the run in it with --resume",
        ),
        (["--corpus", text], "--out DIR are needed"),
        (["--resume", tmp_path], "no run of minbert.pretrain there"),
        (["--resume", edited], "other options than this version's). Give the folder"),
        (["--corpus", text, "--out", text / "new"], "text.txt is a file. Choose another folder."),
        (
            ["--corpus", text, "--out", tmp_path / "new", "--init", headless],
            "no complete masked-language-model head",
        ),
    ):
        assert call(*flags) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "new").exists()


@pytest.mark.parametrize("vocabulary", [[], ["--vocabulary", "minbert-mini"]])
def test_an_empty_file_among_others_is_told(text, tmp_path, capsys, vocabulary):
    (tmp_path / "empty.txt").write_text("\n  \n", encoding="utf-8-sig")
    assert (
        call(
            "--corpus",
            tmp_path / "empty.txt",
            text,
            *vocabulary,
            *SMALL_RUN,
            "--tokens",
            1280,
            "--out",
            tmp_path / "new",
        )
        == 0
    )
    out = capsys.readouterr().out
    assert (
        "empty.txt: an empty file; there is no text in it" in out
        and "text.txt: an empty" not in out
    )
    assert re.search(
        r"\d training blocks of 16 tokens, \d held out, which are few: held-out loss", out
    )
    assert re.search(
        r"1,280 tokens in .* minutes, [\d,]+ tokens/s; that is [\d,]+ GFLOP/s, \d+% of the [\d,]+",
        out,
    )


def test_heads_of_another_kind(folder, tmp_path):
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    tensors = load_file(folder / "model.safetensors")
    words, decoder = (
        tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.weight",
    )
    save_file(
        tensors | {decoder: words.clone()}, other / "model.safetensors"
    )  # as older files of BERT have it
    assert torch.equal(
        BertForMaskedLM.from_pretrained(other).bias, BertForMaskedLM.from_pretrained(folder).bias
    )
    save_file(tensors | {decoder: words + 1}, other / "model.safetensors")
    with pytest.raises(
        ValueError, match="its head has an output matrix .* other than the word embeddings"
    ):
        BertForMaskedLM.from_pretrained(other)
    save_file(
        tensors | {"cls.predictions.bias": tensors["cls.predictions.bias"][:1].clone()},
        other / "model.safetensors",
    )
    with pytest.raises(
        ValueError, match=r"'cls.predictions.bias' has shape \(1,\); config.json asks for"
    ):
        BertForMaskedLM.from_pretrained(other)


def test_going_on_from_the_checkpoint_that_comes_along(text, tmp_path, capsys):
    flags = [
        "--init",
        "minbert-mini",
        "--corpus",
        text,
        "--tokens",
        "64",
        "--batch-size",
        "2",
        "--block-size",
        "32",
        "--lr",
        "0",
        "--precision",
        "fp32",
    ]
    assert call(*flags, "--out", tmp_path / "still") == 0
    assert "3,868,160 parameters" in capsys.readouterr().out
    start, still = (
        BertForMaskedLM.from_pretrained(name).state_dict()
        for name in ("minbert-mini", tmp_path / "still")
    )
    assert all(torch.equal(start[name], still[name]) for name in start if "pooler" not in name)


def test_going_on_from_a_folder(folder, text, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)  # the run knows its start from anywhere, as it does its corpus
    assert pretrain.parse(["--corpus", "x", "--out", "new", "--init", folder.name]).init == str(
        folder
    )
    flags = [
        "--init",
        folder,
        "--corpus",
        text,
        "--tokens",
        "1280",
        "--batch-size",
        "2",
        "--block-size",
        "32",
        "--precision",
        "fp32",
        "--pairs",
        "0.5",
    ]
    assert call(*flags, "--out", tmp_path / "still", "--lr", "0") == 0
    assert (tmp_path / "still" / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()
    start, still = (
        BertForMaskedLM.from_pretrained(path).state_dict() for path in (folder, tmp_path / "still")
    )
    assert all(
        torch.equal(start[name], still[name]) for name in start if "pooler" not in name
    )  # it began there
    assert call(*flags, "--out", tmp_path / "moved") == 0
    moved = BertForMaskedLM.from_pretrained(tmp_path / "moved").state_dict()
    segments = "bert.embeddings.segment.weight"
    assert not torch.equal(start[segments][1], moved[segments][1])  # pairs train the second segment


def test_the_document_s_table_of_flags(tmp_path):
    """docs/pretraining.md, the rows `--flag` | default |, against what the parser gives."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "pretraining.md").read_text(
        encoding="utf-8"
    )
    rows = dict(re.findall(r"(?m)^\| `(--[a-z-]+)` \| ([^|]*?) ?\|", text.split("| option |")[0]))
    arguments = vars(pretrain.parse(["--corpus", "x", "--out", str(tmp_path / "new")]))
    found = {flag: arguments[flag[2:].replace("-", "_")] for flag in rows}
    shown = {"None": "", "False": "off"}
    assert rows == {
        flag: shown.get(text := f"{value:,}" if type(value) is int else str(value), text)
        for flag, value in found.items()
    }
    hidden = {"corpus", "out", "resume"}
    assert {flag[2:].replace("-", "_") for flag in rows} == arguments.keys() - hidden


def test_the_named_sizes():
    """Parameters of the masked language model in millions, at the full vocabulary."""
    found = {}
    for name, config in pretrain.SIZES.items():
        with torch.device("meta"):
            model = BertForMaskedLM(BertModel(config))
        found[name] = round(
            sum(p.numel() for part, p in model.named_parameters() if "pooler" not in part) / 1e6, 1
        )
    assert found == {"tiny": 0.2, "mini": 3.9, "small": 24.6, "base": 109.5}
