"""minbert/pretraining/packing.py: plain text -> vocabulary, packed sequences, plan of steps."""

import contextlib
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from data.corpus import MAX_CHARACTERS, read_lines
from minbert.pretraining import __main__ as pretraining_command
from minbert.pretraining.options import PlainTextOptions
from minbert.pretraining.packing import (
    HELD_OUT,
    OpenFiles,
    PackedFile,
    PackedText,
    pack,
    pair_up,
    plan_steps,
    split_and_pack,
    train_tokenizer,
    write_packed,
)
from minbert.pretraining.plain_text import (
    Corpus,
    PlainTextTraining,
    digest_of_ids,
    pieces_of,
    read_corpus,
)
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer
from tests.toy_text import LINES


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(LINES), 120)


def packed(lines, tokenizer, length: int) -> np.ndarray:
    """All sequences of `pack`, (N, T)."""
    return np.concatenate(list(pack(lines, tokenizer, length)))


def split(paths, tokenizer, length: int) -> PackedText:
    """What `split_and_pack` writes, mapped. The files are removed by then."""
    with OpenFiles(paths[0].parent) as place:
        files = split_and_pack(paths, tokenizer, length, place)
        mapped = PackedText(*[file.map() for file in files])
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)
    return mapped


def test_the_vocabulary(tokenizer):
    by_number = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.get)
    assert by_number[:5] == list(SPECIAL_TOKENS)
    assert tokenizer.pad_token_id == 0
    assert sorted(tokenizer.vocabulary.values()) == list(range(len(by_number)))
    assert len(by_number) <= 120
    assert "soldier" in by_number

    ids, _ = tokenizer.encode(["The SOLDIER"])
    words = [tokenizer.vocabulary["the"], tokenizer.vocabulary["soldier"]]
    assert ids == [[tokenizer.cls_token_id, *words, tokenizer.sep_token_id]]


def test_sequences_hold_the_whole_text(tokenizer):
    lines = LINES[:50]
    sequences = packed(iter(lines), tokenizer, 16)
    assert sequences.dtype == np.uint16
    assert sequences.shape[1] == 16
    assert set(sequences[:, 0]) == {tokenizer.cls_token_id}
    assert set(sequences[:, -1]) == {tokenizer.sep_token_id}

    # The slow loop: each line without its [CLS] and with its [SEP].
    stream = []
    for line in lines:
        input_ids, _ = tokenizer.encode([line], max_length=512)
        stream += input_ids[0][1:]
    kept = sequences[:, 1:-1].ravel().tolist()
    assert kept == stream[: len(kept)]
    assert len(stream) - len(kept) < 14, "more than the rest of one sequence is missing"


def test_tokens_are_the_same_whatever_is_encoded_at_a_time(tokenizer, monkeypatch):
    whole = packed(iter(LINES), tokenizer, 16)
    monkeypatch.setattr("minbert.pretraining.packing.CHUNK", 30)
    assert np.array_equal(packed(iter(LINES), tokenizer, 16), whole)


def test_a_vocabulary_beyond_16_bits():
    words = {f"w{number}": number for number in range(5, 70_000)}
    large = BertTokenizer({token: number for number, token in enumerate(SPECIAL_TOKENS)} | words)
    assert large.vocabulary["w69999"] == 69_999
    assert 69_999 in packed(iter(["w69999 w8"] * 20), large, 16)


def test_lines_are_not_cut_by_an_earlier_limit(tokenizer):
    tokenizer.encode(["a doctor is walking"], max_length=4)
    assert len(packed(iter(LINES[:10]), tokenizer, 16)) > 5


def test_held_out_paragraphs_are_not_trained_on(tmp_path, tokenizer):
    """Every HELD_OUT-th paragraph, counted over all files, is about a hotel. No other one is."""
    lines = []
    for number in range(1000):
        is_held_out = number % HELD_OUT == 0
        lines.append("the hotel is tall ." if is_held_out else "my sister is walking .")
    (tmp_path / "a.txt").write_text("\n".join(lines[:333]), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(lines[333:]), encoding="utf-8")

    train, held_out = split([tmp_path / "a.txt", tmp_path / "b.txt"], tokenizer, 8)
    hotel = tokenizer.vocabulary["hotel"]
    sister = tokenizer.vocabulary["sister"]
    assert (train == sister).any() and not (train == hotel).any()
    assert (held_out == hotel).any() and not (held_out == sister).any()


def test_files_have_a_name_where_the_system_does_not_number_them(tmp_path, tokenizer, monkeypatch):
    (tmp_path / "a.txt").write_text("\n".join(LINES), encoding="utf-8")
    numbered = split([tmp_path / "a.txt"], tokenizer, 8)
    monkeypatch.setattr("minbert.pretraining.packing.FILES_OF_PROCESSES", tmp_path / "none")
    named = split([tmp_path / "a.txt"], tokenizer, 8)
    for first, second in zip(numbered, named, strict=True):
        assert isinstance(second, np.memmap) and np.array_equal(first, second)


def test_a_full_disk_is_named(tmp_path, tokenizer):
    class FullDisk(OpenFiles):
        def open(self):
            file = open("/dev/full", "wb")  # noqa: SIM115, closed below
            self.files.callback(suppressed_close, file)
            return file, file.name

    def suppressed_close(file) -> None:
        with contextlib.suppress(OSError):
            file.close()

    message = r"packed text cannot be written \(No space left.*another disk"
    with FullDisk(tmp_path) as place, pytest.raises(ValueError, match=message):
        write_packed(iter(LINES), tokenizer, 8, place)


def chapters() -> str:
    """A text whose held-out paragraphs are one word long."""
    lines = []
    for number in range(600):
        lines.append("I" if number % HELD_OUT == 0 else "my sister is walking .")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "my sister is walking . " * 400,
        "my sister is walking . " * (MAX_CHARACTERS // 20),
        "my sister is walking . " * (MAX_CHARACTERS // 4),
        "I walk .\nmy sister is walking , my brother is walking too .\n",
        "# A title\n" + "my sister is walking .\n" * 150,
        chapters(),
    ],
    ids=["one line", "one endless line", "in six pieces", "two paragraphs", "a title", "chapters"],
)
def test_short_or_few_held_out_paragraphs_leave_sequences_at_the_end(tmp_path, tokenizer, text):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    train, held_out = split([tmp_path / "a.txt"], tokenizer, 16)
    whole = packed(read_lines([tmp_path / "a.txt"]), tokenizer, 16)
    assert len(held_out) == max(1, -(-len(whole) // HELD_OUT))
    assert len(train) + len(held_out) == len(whole)
    assert (np.concatenate([train, held_out]) == whole).all()


def test_a_corpus_of_exactly_one_batch_is_enough(tmp_path):
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")

    def num_sequences(batch_size: int) -> int:
        paths = ["--corpus", str(corpus), "--out", str(tmp_path / "out")]
        model = ["--size", "tiny", "--vocabulary", "minbert-mini"]
        sizes = ["--block-size", "64", "--batch-size", str(batch_size)]
        run = pretraining_command.parse([*paths, *model, *sizes])
        return len(read_corpus(run).train)

    available = num_sequences(1)
    assert num_sequences(available) == available
    message = f"makes {available} training .* needed are {available + 1} and 1"
    with pytest.raises(ValueError, match=message):
        num_sequences(available + 1)


def rows_of(steps):
    """The rows of all steps, one after the other."""
    rows = []
    for step in steps:
        for batch in step:
            rows += batch.rows
    return rows


def test_every_sequence_once_in_each_pass():
    # 12 steps are four passes of three.
    steps = []
    for epoch in range(6):
        steps += plan_steps(12, 4, 2, epoch, seed=3)
    for step in steps:
        assert len(step) == 1
        assert step[0].task == "mlm"
        assert len(step[0].rows) == 4

    passes = [rows_of(steps[start : start + 3]) for start in range(0, 12, 3)]
    assert all(sorted(rows) == list(range(12)) for rows in passes)
    assert len({tuple(rows) for rows in passes}) == 4, "two passes have the same order"


def test_sequences_beyond_full_batches_come_in_other_passes():
    # 100 passes of two batches: 8 of 10 sequences in each pass.
    counts = Counter(rows_of(plan_steps(10, 4, 200, 0, seed=0)))
    assert set(counts) == set(range(10))
    assert max(counts.values()) <= 100
    assert min(counts.values()) > 60


def test_a_plan_needs_no_state():
    first = plan_steps(12, 4, 5, 0, seed=3)
    second = plan_steps(12, 4, 5, 1, seed=3)
    assert [*first, *second] == plan_steps(12, 4, 10, 0, seed=3)
    assert second == plan_steps(12, 4, 5, 1, seed=3)
    assert second != plan_steps(12, 4, 5, 1, seed=4)
    # Two seeds share no order of a pass.
    assert plan_steps(12, 4, 3, 1, seed=3) != plan_steps(12, 4, 3, 0, seed=4)


def sequences_of_numbers() -> torch.Tensor:
    """40 equal sequences (B, T) in which every token is another number."""
    sequences = torch.arange(100, 164).repeat(40, 1)
    sequences[:, 0] = 1
    sequences[:, -1] = 2
    return sequences


def test_pairs_are_overlapping_passages_of_their_sequence():
    sequences = sequences_of_numbers()
    torch.manual_seed(0)
    ids, types = pair_up(sequences, 0.5, sep_token_id=2)
    assert torch.equal(ids[20:], sequences[20:]), "half of the sequences stay plain"
    assert types[20:].sum() == 0

    shifts = set()
    for row, kinds in zip(ids[:20].tolist(), types[:20].tolist(), strict=True):
        assert row[0] == 1
        assert row[31] == row[63] == 2
        assert kinds == [0] * 32 + [1] * 32
        first = row[1:31]
        second = row[32:63]
        assert first == list(range(first[0], first[0] + 30))
        assert second == list(range(second[0], second[0] + 31))
        assert min(first[0], second[0]) == 101
        assert abs(first[0] - second[0]) <= 16
        shifts.add(first[0] - second[0])
    assert min(shifts) < 0 < max(shifts), "either side may come later"


def test_all_shifts_of_pairs_occur():
    sequences = sequences_of_numbers()
    torch.manual_seed(0)
    ids, _ = pair_up(sequences[:1].repeat(800, 1), 1.0, sep_token_id=2)
    shifts = (ids[:, 1] - ids[:, 32]).tolist()
    assert set(shifts) == set(range(-16, 17))


def test_passages_of_short_sequences_still_overlap():
    """[CLS], 5 tokens of text and [SEP]: passages of 2 and 2 tokens, so a shift of 1 at most."""
    sequence = torch.tensor([[1, 101, 102, 103, 104, 105, 2]])
    torch.manual_seed(0)
    ids, types = pair_up(sequence.repeat(200, 1), 1.0, sep_token_id=2)
    pairs = {tuple(row) for row in ids.tolist()}
    assert pairs == {
        (1, 101, 102, 2, 101, 102, 2),
        (1, 102, 103, 2, 101, 102, 2),
        (1, 101, 102, 2, 102, 103, 2),
    }
    assert types[0].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_a_share_of_zero_makes_no_pairs():
    sequences = sequences_of_numbers()
    assert torch.equal(pair_up(sequences, 0.0, 2).input_ids, sequences)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what is held")
def test_pages_that_were_read_are_let_go(tmp_path):
    """Both ways in which the command reads sequences: piece by piece, and the rows of a batch."""
    ids = np.arange(2**20, dtype=np.uint16).reshape(-1, 64)
    ids.tofile(tmp_path / "packed")
    sequences = PackedFile(str(tmp_path / "packed"), ids.shape, ids.dtype).map()

    def kilobytes_held() -> int:
        _, _, entry = Path("/proc/self/smaps").read_text().partition(str(tmp_path / "packed"))
        return int(entry.partition("Rss:")[2].split()[0])

    assert np.array_equal(sequences, ids) and kilobytes_held() >= 2048
    pieces = [piece.copy() for piece in pieces_of(sequences)]
    assert np.array_equal(np.concatenate(pieces), ids) and kilobytes_held() == 0

    digest = digest_of_ids(Corpus(None, sequences, ids[:3]))
    assert digest == hashlib.sha256(ids.tobytes() + ids[:3].tobytes()).hexdigest()
    assert kilobytes_held() == 0

    def no_masks(input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return input_ids, input_ids

    packed = PackedText(sequences, sequences)
    options = PlainTextOptions(pairs=0.0)
    training = PlainTextTraining(options, None, no_masks, 2, packed, None, "fp32")
    rows = list(range(len(ids) - 1, -1, -1))
    assert np.array_equal(training.load("mlm", rows).input_ids.numpy(), ids[rows])
    assert kilobytes_held() == 0
