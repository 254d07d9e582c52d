"""data/corpus.py and blocks.py: plain text -> vocabulary, blocks, plan."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from data.corpus import MAX_CHARACTERS, check_files, read_lines
from minbert.pretraining import __main__ as pretrain
from minbert.pretraining import plain_text as from_text
from minbert.pretraining.packing import (
    HELD_OUT,
    pack,
    pair_up,
    plan_steps,
    split_and_pack,
    train_tokenizer,
)
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer

PEOPLE, PLACES = (
    ("a doctor", "the tall soldier", "my sister", "an old sailor"),
    ("hotel", "river", "street", "garden"),
)
LINES = [
    f"{person} is walking from the {one} to the {other} ."
    for person in PEOPLE
    for one in PLACES
    for other in PLACES
] * 20  # 64 sentences, 1,280 lines


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(LINES), 120)


def test_lines_of_several_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n  two  \n\t\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("drei, vier: fünf", encoding="utf-8")
    paths = [tmp_path / "b.txt", tmp_path / "a.txt"]
    assert list(read_lines(paths)) == ["drei, vier: fünf", "one", "two"]


def test_files_that_cannot_be_read(tmp_path):
    for name, problem in {"absent.txt": "No such file", "": "Is a directory"}.items():
        with pytest.raises(
            ValueError, match=f"{name}: {problem}.*Give a file of plain text in UTF-8"
        ):
            check_files([tmp_path / name])
    for content, problem in (
        ("eins\n".encode("utf-16"), "UTF-16; convert it with iconv -f utf-16"),
        (gzip.compress(b"eins\n"), "compressed; unpack it with gunzip"),
    ):
        (tmp_path / "file.txt").write_bytes(content)
        with pytest.raises(ValueError, match=f"file.txt: {problem}"):
            check_files([tmp_path / "file.txt"])
    (tmp_path / "good.txt").write_text("eins", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "good.txt")
    with pytest.raises(ValueError, match="link.txt: given twice.*give it once"):
        check_files([tmp_path / "good.txt", tmp_path / "link.txt"])
    with pytest.raises(ValueError, match="null: not a file that can be read more than once"):
        check_files([Path("/dev/null")])
    check_files([tmp_path / "good.txt"])


def test_bytes_that_are_not_utf8_are_named_by_their_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"eins\n" * 5000 + "fünf\n".encode("latin-1") + b"sechs\n")
    with pytest.raises(ValueError, match=r"latin.txt, line 5001: not UTF-8 .*iconv"):
        list(read_lines([tmp_path / "latin.txt"]))
    (tmp_path / "endless.txt").write_bytes(
        b"eins\rzwei\n" + b"drei " * MAX_CHARACTERS + b"f\xfcnf\n"
    )
    with pytest.raises(ValueError, match=r"endless.txt, line 3: not UTF-8"):
        list(read_lines([tmp_path / "endless.txt"]))


def test_an_empty_file_a_byte_order_mark_and_foreign_line_ends(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "windows.txt").write_bytes("\ufeffeins\r\nzwei\r\n".encode())
    assert list(read_lines([tmp_path / "empty.txt", tmp_path / "windows.txt"])) == ["eins", "zwei"]


def test_a_line_without_end_comes_in_parts_and_loses_no_word(tmp_path):
    words = [f"wört{number}" for number in range(30_000)]  # 290,000 characters
    for between in (" ", "\t", "  ", "\u3000"):
        (tmp_path / "endless.txt").write_text(between.join(words) + "\nshort\n", encoding="utf-8")
        parts = list(read_lines([tmp_path / "endless.txt"]))
        assert parts[-1] == "short" and " ".join(parts[:-1]).split() == words
        assert len(parts) > 10 and max(map(len, parts)) <= 2 * MAX_CHARACTERS
    (tmp_path / "unbroken.txt").write_text("x" * (3 * MAX_CHARACTERS + 5), encoding="utf-8")
    assert list(map(len, read_lines([tmp_path / "unbroken.txt"]))) == [MAX_CHARACTERS] * 3 + [5]
    (tmp_path / "exact.txt").write_text("y" * (MAX_CHARACTERS - 1) + "\nz", encoding="utf-8")
    assert list(map(len, read_lines([tmp_path / "exact.txt"]))) == [MAX_CHARACTERS - 1, 1]


def test_the_vocabulary(tokenizer):
    by_number = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.get)
    assert by_number[:5] == list(SPECIAL_TOKENS) and tokenizer.pad_token_id == 0
    assert (
        sorted(tokenizer.vocabulary.values()) == list(range(len(by_number)))
        and len(by_number) <= 120
    )
    assert "soldier" in by_number
    ids, _ = tokenizer.encode(["The SOLDIER"])
    assert ids == [
        [
            tokenizer.cls_token_id,
            tokenizer.vocabulary["the"],
            tokenizer.vocabulary["soldier"],
            tokenizer.sep_token_id,
        ]
    ]


def test_blocks_hold_the_whole_text(tokenizer):
    lines = LINES[:50]
    blocks = pack(iter(lines), tokenizer, 16)
    assert blocks.dtype == np.uint16 and blocks.shape[1] == 16
    assert set(blocks[:, 0]) == {tokenizer.cls_token_id} and set(blocks[:, -1]) == {
        tokenizer.sep_token_id
    }
    stream = []
    for line in lines:  # the slow loop: each line without its [CLS], with its [SEP]
        stream += tokenizer.encode([line], max_length=512)[0][0][1:]
    kept = blocks[:, 1:-1].ravel().tolist()
    assert kept == stream[: len(kept)] and len(stream) - len(kept) < 14


def test_tokens_are_the_same_whatever_is_encoded_at_a_time(tokenizer, monkeypatch):
    whole = pack(iter(LINES), tokenizer, 16)
    monkeypatch.setattr("minbert.pretraining.packing.CHUNK", 30)
    assert np.array_equal(pack(iter(LINES), tokenizer, 16), whole)


def test_a_vocabulary_beyond_16_bits():
    words = {f"w{number}": number for number in range(5, 70_000)}
    large = BertTokenizer({token: number for number, token in enumerate(SPECIAL_TOKENS)} | words)
    assert large.vocabulary["w69999"] == 69_999
    assert 69_999 in pack(iter(["w69999 w8"] * 20), large, 16)


def test_lines_are_not_cut_by_an_earlier_limit(tokenizer):
    tokenizer.encode(["a doctor is walking"], max_length=4)
    assert len(pack(iter(LINES[:10]), tokenizer, 16)) > 5


def test_held_out_paragraphs_are_not_trained_on(tmp_path, tokenizer):
    """Every HELD_OUT-th paragraph, counted over all files, is about a hotel; the others never are."""
    lines = [
        "the hotel is tall ." if number % HELD_OUT == 0 else "my sister is walking ."
        for number in range(1000)
    ]
    (tmp_path / "a.txt").write_text("\n".join(lines[:333]), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(lines[333:]), encoding="utf-8")
    train, held_out = split_and_pack([tmp_path / "a.txt", tmp_path / "b.txt"], tokenizer, 8)
    hotel, sister = tokenizer.vocabulary["hotel"], tokenizer.vocabulary["sister"]
    assert (train == sister).any() and not (train == hotel).any()
    assert (held_out == hotel).any() and not (held_out == sister).any()


@pytest.mark.parametrize(
    "text",
    [
        "my sister is walking . " * 400,
        "my sister is walking . " * (MAX_CHARACTERS // 20),
        "my sister is walking . " * (MAX_CHARACTERS // 4),
        "I walk .\nmy sister is walking , my brother is walking too .\n",
        "# A title\n" + "my sister is walking .\n" * 150,
        "".join(
            ("I\n" if number % HELD_OUT == 0 else "my sister is walking .\n")
            for number in range(600)
        ),
    ],
    ids=["one line", "one endless line", "in six pieces", "two paragraphs", "a title", "chapters"],
)
def test_short_or_few_held_out_paragraphs_leave_blocks_at_the_end(tmp_path, tokenizer, text):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    train, held_out = split_and_pack([tmp_path / "a.txt"], tokenizer, 16)
    whole = pack(read_lines([tmp_path / "a.txt"]), tokenizer, 16)
    assert len(held_out) == max(1, -(-len(whole) // HELD_OUT)) and len(train) + len(
        held_out
    ) == len(whole)
    assert (np.concatenate([train, held_out]) == whole).all()


def test_a_corpus_of_exactly_one_batch_is_enough(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")

    def blocks_of(batch_size: int) -> int:
        flags = [
            "--corpus",
            tmp_path / "text.txt",
            "--out",
            tmp_path / "out",
            "--size",
            "tiny",
            "--vocabulary",
            "minbert-mini",
            "--block-size",
            64,
            "--batch-size",
            batch_size,
        ]
        return len(from_text.read_corpus(pretrain.parse(list(map(str, flags))))[1])

    num_blocks = blocks_of(1)
    assert blocks_of(num_blocks) == num_blocks
    with pytest.raises(
        ValueError, match=f"makes {num_blocks} training .* needed are {num_blocks + 1} and 1"
    ):
        blocks_of(num_blocks + 1)


def rows_of(steps):
    return [row for step in steps for _, rows in step for row in rows]


def test_every_block_once_in_each_pass():
    steps = [
        step for epoch in range(6) for step in plan_steps(12, 4, 2, epoch, seed=3)
    ]  # 12 steps = 4 passes of 3
    assert all(len(step) == 1 and step[0][0] == "mlm" and len(step[0][1]) == 4 for step in steps)
    passes = [rows_of(steps[start : start + 3]) for start in range(0, 12, 3)]
    assert all(sorted(rows) == list(range(12)) for rows in passes)
    assert len({tuple(rows) for rows in passes}) == 4  # each pass in an order of its own


def test_blocks_beyond_full_batches_come_in_other_passes():
    seen = Counter(
        rows_of(plan_steps(10, 4, 200, 0, seed=0))
    )  # 100 passes of 2 batches: 8 of 10 blocks each
    assert set(seen) == set(range(10)) and max(seen.values()) <= 100 and min(seen.values()) > 60


def test_a_plan_needs_no_state():
    one, two = (plan_steps(12, 4, 5, epoch, seed=3) for epoch in (0, 1))
    assert [*one, *two] == plan_steps(12, 4, 10, 0, seed=3)
    assert plan_steps(12, 4, 5, 1, seed=3) == two != plan_steps(12, 4, 5, 1, seed=4)
    assert plan_steps(12, 4, 3, 1, seed=3) != plan_steps(
        12, 4, 3, 0, seed=4
    )  # seeds share no order of a pass


def test_pairs_are_overlapping_passages_of_their_block():
    blocks = torch.arange(100, 164).repeat(40, 1)  # (B, T), every token another number
    blocks[:, 0], blocks[:, -1] = 1, 2
    torch.manual_seed(0)
    ids, types = pair_up(blocks, 0.5, sep_token_id=2)
    assert (
        torch.equal(ids[20:], blocks[20:]) and types[20:].sum() == 0
    )  # the other half stays plain
    shifts = set()
    for row, kind in zip(ids[:20].tolist(), types[:20].tolist(), strict=True):
        first, second = row[1:31], row[32:63]
        assert row[0] == 1 and row[31] == row[63] == 2 and kind == [0] * 32 + [1] * 32
        assert first == list(range(first[0], first[0] + 30)) and second == list(
            range(second[0], second[0] + 31)
        )
        assert min(first[0], second[0]) == 101 and abs(first[0] - second[0]) <= 16
        shifts.add(first[0] - second[0])
    assert min(shifts) < 0 < max(shifts)  # either side may come later
    ids, _ = pair_up(blocks[:1].repeat(800, 1), 1.0, sep_token_id=2)
    shifts = (ids[:, 1] - ids[:, 32]).tolist()
    assert set(shifts) == set(range(-16, 17))
    assert torch.equal(pair_up(blocks, 0.0, 2)[0], blocks)
