"""minbert/pretrain.py: plain text -> vocabulary, blocks, plan, and a folder that others open."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
import torch

from minbert import BertModel, BertTokenizer, pretrain
from minbert.mlm import BertForMaskedLM
from minbert.pretrain import pack, pair_up, plan_blocks, read_lines, train_tokenizer
from minbert.tokenizer import SPECIAL_TOKENS

PEOPLE, PLACES = ("a doctor", "the tall soldier", "my sister", "an old sailor"), ("hotel", "river", "street", "garden")
LINES = [f"{person} is walking from the {one} to the {other} ." for person in PEOPLE for one in PLACES
         for other in PLACES] * 20  # 64 sentences, 1,280 lines


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(LINES), 120)


def test_lines_of_several_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n  two  \n\t\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("drei, vier: fünf", encoding="utf-8")
    paths = [tmp_path / "b.txt", tmp_path / "a.txt"]
    assert list(read_lines(paths)) == ["drei, vier: fünf", "one", "two"]


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.txt").write_bytes("fünf".encode("latin-1"))
    for name in ("absent.txt", "latin.txt", ""):
        with pytest.raises(ValueError, match=f"{name}.*Give plain-text files in UTF-8"):
            list(read_lines([tmp_path / name]))


def test_the_vocabulary(tokenizer):
    by_number = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.get)
    assert by_number[:5] == list(SPECIAL_TOKENS) and tokenizer.pad_token_id == 0
    assert sorted(tokenizer.vocabulary.values()) == list(range(len(by_number))) and len(by_number) <= 120
    assert "soldier" in by_number
    ids, _ = tokenizer.encode(["The SOLDIER"])
    assert ids == [[tokenizer.cls_token_id, tokenizer.vocabulary["the"], tokenizer.vocabulary["soldier"],
                    tokenizer.sep_token_id]]


def test_blocks_hold_the_whole_text(tokenizer):
    lines = LINES[:50]
    blocks = pack(iter(lines), tokenizer, 16)
    assert blocks.dtype == np.uint16 and blocks.shape[1] == 16
    assert set(blocks[:, 0]) == {tokenizer.cls_token_id} and set(blocks[:, -1]) == {tokenizer.sep_token_id}
    stream = []
    for line in lines:  # the slow loop: each line without its [CLS], with its [SEP]
        stream += tokenizer.encode([line], max_length=512)[0][0][1:]
    kept = blocks[:, 1:-1].ravel().tolist()
    assert kept == stream[: len(kept)] and len(stream) - len(kept) < 14


def test_lines_are_not_cut_by_an_earlier_limit(tokenizer):
    tokenizer.encode(["a doctor is walking"], max_length=4)
    assert len(pack(iter(LINES[:10]), tokenizer, 16)) > 5


def rows_of(steps):
    return [row for step in steps for _, rows in step for row in rows]


def test_every_block_once_in_each_pass():
    steps = [step for epoch in range(6) for step in plan_blocks(12, 4, 2, epoch, seed=3)]  # 12 steps = 4 passes of 3
    assert all(len(step) == 1 and step[0][0] == "mlm" and len(step[0][1]) == 4 for step in steps)
    passes = [rows_of(steps[start : start + 3]) for start in range(0, 12, 3)]
    assert all(sorted(rows) == list(range(12)) for rows in passes)
    assert len({tuple(rows) for rows in passes}) == 4  # each pass in an order of its own


def test_blocks_beyond_full_batches_come_in_other_passes():
    seen = Counter(rows_of(plan_blocks(10, 4, 200, 0, seed=0)))  # 100 passes of 2 batches: 8 of 10 blocks each
    assert set(seen) == set(range(10)) and max(seen.values()) <= 100 and min(seen.values()) > 60


def test_a_plan_needs_no_state():
    one, two = (plan_blocks(12, 4, 5, epoch, seed=3) for epoch in (0, 1))
    assert [*one, *two] == plan_blocks(12, 4, 10, 0, seed=3)
    assert plan_blocks(12, 4, 5, 1, seed=3) == two != plan_blocks(12, 4, 5, 1, seed=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole tiny run of the script."""
    place = tmp_path_factory.mktemp("pretrain")
    (place / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pretrain", "--corpus", str(place / "text.txt"), "--out", str(place / "model"),
                                    "--size", "tiny", "--tokens", str(8 * 16 * 80), "--batch-size", "8",
                                    "--block-size", "16", "--lr", "5e-3", "--precision", "fp32", "--device", "cpu"])
        pretrain.main()
    return place / "model"


def test_the_script_writes_a_model_that_opens(folder):
    model, tokenizer = BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)
    assert model.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias")  # a masked LM trains no pooler
    assert model.config.vocab_size == len(tokenizer.vocabulary) and model.config.hidden_size == 64
    state = json.loads((folder / "checkpoint" / "state.json").read_text())
    assert state["is_finished"] and state["step"] == 80  # 8 x 16 x 80 tokens / (8 x 16)
    losses = [entry["held_out_loss"] for entry in state["history"]]
    assert len(losses) == 20 and min(losses) < 0.8 * losses[0]


def test_transformers_opens_it_and_predicts_the_same(folder):
    transformers = pytest.importorskip("transformers", reason="transformers is the reference; run setup.sh --dev")
    reference = transformers.AutoModelForMaskedLM.from_pretrained(folder).float().eval()  # stored in float16
    model = BertModel.from_pretrained(folder).eval()
    batch = BertTokenizer.from_pretrained(folder)(["a doctor is walking from the [MASK] to the river ."])
    with torch.no_grad():
        expected = reference.bert(**batch).last_hidden_state
        torch.testing.assert_close(model(**batch).last_hidden_state, expected, rtol=0, atol=1e-5)  # fp32, 2 layers
        assert reference(**batch).logits.shape[-1] == model.config.vocab_size


def test_a_second_call_resumes_and_keeps_the_vocabulary(folder, monkeypatch, capsys):
    before = {name: (folder / name).read_bytes() for name in ("model.safetensors", "vocab.txt", "config.json")}
    text = folder.parent / "text.txt"
    monkeypatch.setattr(sys, "argv", ["pretrain", "--corpus", str(text), "--out", str(folder), "--size", "tiny",
                                      "--tokens", str(8 * 16 * 80), "--batch-size", "8", "--block-size", "16", "--lr",
                                      "5e-3", "--precision", "fp32", "--device", "cpu", "--resume"])
    pretrain.main()
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert "10,240 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(("lines", "flags"), [(LINES[:5], []), ([], []), (LINES, ["--tokens", "1000"]),
                                              (LINES, ["--batch-size", "5000"])])
def test_too_little_text_is_told_before_the_work(tmp_path, monkeypatch, capsys, lines, flags):
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["pretrain", "--corpus", str(tmp_path / "text.txt"), "--out",
                                      str(tmp_path / "model"), "--size", "tiny", *flags])
    with pytest.raises(SystemExit) as stopped:
        pretrain.main()
    assert stopped.value.code == 2 and "Give more text or tokens" in capsys.readouterr().err


def test_pairs_are_overlapping_passages_of_their_block():
    blocks = torch.arange(100, 164).repeat(40, 1)  # (B, T), every token another number
    blocks[:, 0], blocks[:, -1] = 1, 2
    torch.manual_seed(0)
    ids, types = pair_up(blocks, 0.5, sep_token_id=2)
    assert torch.equal(ids[20:], blocks[20:]) and types[20:].sum() == 0  # the other half stays plain
    shifts = set()
    for row, kind in zip(ids[:20].tolist(), types[:20].tolist(), strict=True):
        first, second = row[1:31], row[32:63]
        assert row[0] == 1 and row[31] == row[63] == 2 and kind == [0] * 32 + [1] * 32
        assert first == list(range(first[0], first[0] + 30)) and second == list(range(second[0], second[0] + 31))
        assert min(first[0], second[0]) == 101 and abs(first[0] - second[0]) <= 16
        shifts.add(first[0] - second[0])
    assert min(shifts) < 0 < max(shifts)  # either side may come later
    assert torch.equal(pair_up(blocks, 0.0, 2)[0], blocks)


def test_going_on_from_a_folder(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    flags = ["--init", folder, "--corpus", tmp_path / "text.txt", "--tokens", "1280", "--batch-size", "2",
             "--block-size", "32", "--precision", "fp32", "--pairs", "0.5"]
    monkeypatch.setattr(sys, "argv", ["pretrain", *map(str, flags), "--out", str(tmp_path / "still"), "--lr", "0"])
    pretrain.main()
    assert (tmp_path / "still" / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()
    start, still = (BertForMaskedLM.from_pretrained(path).state_dict() for path in (folder, tmp_path / "still"))
    assert all(torch.equal(start[name], still[name]) for name in start if "pooler" not in name)  # it began there
    monkeypatch.setattr(sys, "argv", ["pretrain", *map(str, flags), "--out", str(tmp_path / "moved")])
    pretrain.main()
    moved = BertForMaskedLM.from_pretrained(tmp_path / "moved").state_dict()
    segments = "bert.embeddings.segment.weight"
    assert not torch.equal(start[segments][1], moved[segments][1])  # pairs train the second segment
    monkeypatch.setattr(sys, "argv", ["pretrain", *map(str, flags[:-1]), "2", "--out", str(tmp_path / "x")])
    with pytest.raises(SystemExit):
        pretrain.main()
    assert "--pairs is 2.0; it is a share, 0 to 1" in capsys.readouterr().err
