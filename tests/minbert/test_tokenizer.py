"""WordPiece token ids and segment ids: by hand, a slow loop, transformers, properties."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from minbert import BertTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    "play",
    "##ing",
    "##ed",
    "un",
    "##play",
    "##able",
    "the",
    "cafe",
    "world",
    "hello",
    ",",
    ".",
    "!",
    "'",
    "中",
    "国",
    *"abcdefghijklmnopqrstuvwxyz0123456789",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
]

SENTENCES = [
    "Hello, world!",
    "unplayable",
    "The café is playing.",
    "",
    " ",
    "\t\n",
    "...",
    "''",
    "don't",
    "a-b_c/d\\e",
    "naïve Ångström ÉCOLE ﬁne Straße İstanbul",
    "e\u0301 combining",
    "中国 and 中国人",
    "日本語テキスト",
    "한국어",
    "привет мир",
    "مرحبا",
    "emoji 😀 👩‍👩‍👧 🇫🇷 ❤️",
    "zero\u200bwidth\u00a0space\u3000wide",
    "con\x00trol \x07bell \x1b esc\u0085 \ufffd end",
    "\ufefffirst",
    "x" * 1000,
    "x" * 100,
    "x" * 101,
    "long " * 40,
    "1,000.5% €5 £3 ½ ² №",
    "[CLS] in [SEP] text [MASK] [UNK] [PAD]",
    "[cls] lower [Sep]",
    "##ing alone",
    "http://a.b/c?d=e&f",
    "𝒳 math 𠀀 rare",
    "\u2018quotes\u2019 \u201cq\u201d \u2014 dash",
    "line\r\nbreak\u2028and\u2029more",
]


@pytest.fixture(scope="module")
def tokenizer(small_folder):
    return BertTokenizer.from_pretrained(small_folder)


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + PIECES) + "\n", encoding="utf-8")
    return folder


def number(*tokens: str) -> list[int]:
    return [(SPECIAL + PIECES).index(token) for token in tokens]


# --- by hand --------------------------------------------------------------------------------------


def test_a_sentence_by_hand(tokenizer):
    ids, types = tokenizer.encode(["Hello, unplayable café"])
    assert ids == [number("[CLS]", "hello", ",", "un", "##play", "##able", "cafe", "[SEP]")], (
        "lowercase, strip accents, cut at punctuation, then the longest piece from the left"
    )
    assert types == [[0] * 8]


def test_a_pair_by_hand(tokenizer):
    ids, types = tokenizer.encode(["hello world"], ["the world!"])
    assert ids == [number("[CLS]", "hello", "world", "[SEP]", "the", "world", "!", "[SEP]")]
    assert types == [[0, 0, 0, 0, 1, 1, 1, 1]], "the second sentence and its [SEP] are segment 1"


def test_a_word_that_cannot_be_cut_is_unknown_as_a_whole(tokenizer):
    assert tokenizer.encode(["play日play 😀"])[0] == [
        number("[CLS]", "play", "[UNK]", "play", "[UNK]", "[SEP]")
    ]


def test_truncation_by_hand(tokenizer):
    ids, types = tokenizer.encode(["hello hello hello world"], ["the world"], max_length=7)
    assert ids == [number("[CLS]", "hello", "hello", "[SEP]", "the", "world", "[SEP]")], (
        "the longer gives first"
    )
    assert types == [[0, 0, 0, 0, 1, 1, 1]]


def test_padded_tensors_by_hand(tokenizer):
    batch = tokenizer(["hello", "hello world"], ["the", "world"])
    assert batch["input_ids"].tolist() == [
        number("[CLS]", "hello", "[SEP]", "the", "[SEP]", "[PAD]"),
        number("[CLS]", "hello", "world", "[SEP]", "world", "[SEP]"),
    ]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 0], [1] * 6]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]


# --- a slow loop ----------------------------------------------------------------------------------


def longest_piece(word: str, start: int, vocabulary: dict[str, int]) -> str | None:
    """The longest token that begins at this letter, or None."""
    for end in range(len(word), start, -1):
        piece = word[start:end] if start == 0 else f"##{word[start:end]}"
        if piece in vocabulary:
            return piece
    return None


def cut_word(word: str, vocabulary: dict[str, int]) -> list[str]:
    """WordPiece as Wu et al. 2016 use it.

    The longest piece from the left, again and again. A word that cannot be cut is [UNK] as a whole.
    """
    pieces = []
    start = 0
    while start < len(word):
        piece = longest_piece(word, start, vocabulary)
        if piece is None:
            return ["[UNK]"]
        pieces.append(piece)
        start += len(piece.removeprefix("##"))
    return pieces


def test_slow_loop(tokenizer):
    words = ["played", "unplayed", "playingable", "worlds", "the", "b2b", "undo", "cafes"]
    words += ["x" * 100, "é" * 3 + "z"]
    found = tokenizer.encode(words)[0]
    for word, ids in zip(words, found, strict=True):
        assert ids[1:-1] == number(*cut_word(word.replace("é", "e"), tokenizer.vocabulary)), word


# --- transformers ---------------------------------------------------------------------------------


def assert_equals_transformers(folder, max_length: int) -> None:
    """Single sentences, and each sentence paired with the one before it and with itself."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    ours = BertTokenizer.from_pretrained(folder)
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    shifted = SENTENCES[-1:] + SENTENCES[:-1]
    for seconds in (None, shifted, SENTENCES):
        expected = theirs(SENTENCES, seconds, truncation="longest_first", max_length=max_length)
        ids, types = ours.encode(SENTENCES, seconds, max_length)
        for row, sentence in enumerate(SENTENCES):
            second = seconds and seconds[row][:40]
            where = f"{sentence[:40]!r} with {second!r}, at most {max_length} tokens"
            assert ids[row] == expected["input_ids"][row], f"token ids differ for {where}"
            assert types[row] == expected["token_type_ids"][row], f"segments differ for {where}"


@pytest.mark.parametrize("max_length", [512, 128, 10, 4])
def test_equals_transformers_on_a_small_vocabulary(small_folder, max_length):
    assert_equals_transformers(small_folder, max_length)


@pytest.mark.parametrize("max_length", [512, 16])
def test_equals_transformers_on_the_vocabulary_of_bert(minilm_folder, max_length):
    assert_equals_transformers(minilm_folder, max_length)


def test_saved_tokenizer_opens_in_transformers(tokenizer, tmp_path):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    tokenizer.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs(SENTENCES, truncation=True, max_length=64)["input_ids"]
    assert tokenizer.encode(SENTENCES, None, 64)[0] == expected
    assert BertTokenizer.from_pretrained(tmp_path).encode(SENTENCES) == tokenizer.encode(SENTENCES)


# --- properties -----------------------------------------------------------------------------------


def test_a_batch_is_its_rows_one_by_one(tokenizer):
    """Also after a call with another max_length: no setting of one call may stay for the next."""
    together = tokenizer.encode(SENTENCES, max_length=128)[0]
    tokenizer.encode(SENTENCES, SENTENCES, max_length=5)
    one_by_one = [tokenizer.encode([sentence], max_length=128)[0][0] for sentence in SENTENCES]
    assert together == one_by_one
    assert max(map(len, together)) <= 128
    assert tokenizer.encode([]) == ([], [])


def test_every_row_is_framed_whatever_it_holds(tokenizer):
    for ids in tokenizer.encode(SENTENCES, max_length=8)[0]:
        assert 2 <= len(ids) <= 8
        assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_windows_line_ends_in_the_vocabulary(tmp_path, tokenizer):
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(SPECIAL + PIECES).encode())
    assert BertTokenizer.from_pretrained(tmp_path).encode(SENTENCES) == tokenizer.encode(SENTENCES)


def test_blank_and_doubled_lines_move_no_id(tmp_path, tokenizer):
    """The line's number is the id. Of two lines with one token the later counts.

    transformers reads a vocabulary in the same way.
    """
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "", PIECES[0], *PIECES]) + "\n")
    found = BertTokenizer.from_pretrained(tmp_path)
    assert found.vocabulary[PIECES[0]] == len(SPECIAL) + 2
    assert found.vocabulary[PIECES[-1]] == len(SPECIAL + PIECES) + 1
    found.save_pretrained(tmp_path / "again")
    assert BertTokenizer.from_pretrained(tmp_path / "again").vocabulary == found.vocabulary


def test_a_cased_model_keeps_case_and_accents(small_folder, tmp_path):
    (tmp_path / "vocab.txt").write_text((small_folder / "vocab.txt").read_text() + "Café\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    cased = BertTokenizer.from_pretrained(tmp_path)
    assert cased.encode(["Café cafe"])[0][0][1:-1] == [len(SPECIAL + PIECES), *number("cafe")]
    cased.save_pretrained(tmp_path / "again")
    again = BertTokenizer.from_pretrained(tmp_path / "again")
    assert again.encode(["Café"]) == cased.encode(["Café"])


@pytest.mark.parametrize(
    "settings",
    [
        {"strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
    ],
)
def test_every_setting_is_that_of_transformers(small_folder, tmp_path, settings):
    shutil.copytree(small_folder, tmp_path / "model")
    vocabulary = tmp_path / "model" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "café\ncafe\nCafe\n中文\n中\n文\n")
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    assert_equals_transformers(tmp_path / "model", 32)
    ours = BertTokenizer.from_pretrained(tmp_path / "model")
    plain = BertTokenizer.from_pretrained(small_folder)
    unset = BertTokenizer(ours.vocabulary)
    texts = ["Café cafe 中文"]
    assert ours.encode(texts) != unset.encode(texts), "the setting changes something"
    assert ours.fingerprint != unset.fingerprint != plain.fingerprint
    ours.save_pretrained(tmp_path / "again")
    assert BertTokenizer.from_pretrained(tmp_path / "again").encode(texts) == ours.encode(texts)


# --- bad input ------------------------------------------------------------------------------------


def test_folder_without_vocabulary(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}.*no vocab.txt"):
        BertTokenizer.from_pretrained(tmp_path)


def test_vocabulary_without_special_tokens(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\nhello\n")
    with pytest.raises(ValueError, match=r"lacks \[SEP\], \[MASK\]"):
        BertTokenizer.from_pretrained(tmp_path)


def test_pairs_of_unequal_number(tokenizer):
    with pytest.raises(ValueError, match="shorter|longer"):
        tokenizer.encode(["hello", "world"], ["the"])


# --- negative controls ----------------------------------------------------------------------------


def test_negative_control_case_and_truncation_are_not_free(small_folder, tokenizer, tmp_path):
    """What the comparison would miss if the samples were too tame: they must tell these apart."""
    cased = BertTokenizer(tokenizer.vocabulary, lowercase=False)
    assert cased.encode(SENTENCES) != tokenizer.encode(SENTENCES)
    swapped = tokenizer.encode(SENTENCES, [""] * len(SENTENCES), 10)[1]
    assert swapped != tokenizer.encode([""] * len(SENTENCES), SENTENCES, 10)[1]


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        '{"strip_accents": 3}',
        '{"do_lower_case": "yes"}',
        '{"do_lower_case": null}',
        '{"tokenize_chinese_chars": 1}',
    ],
)
def test_settings_that_are_none_are_refused(tmp_path, content):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(
        ValueError,
        match=r"tokenizer_config.json: not a table (in which do_lower_case, strip_acc|of named)",
    ):
        BertTokenizer.from_pretrained(tmp_path)


def test_one_string_is_not_read_letter_by_letter(tokenizer):
    with pytest.raises(ValueError, match="letter by letter; give a list"):
        tokenizer.encode("A lovely film.")
    with pytest.raises(ValueError, match="letter by letter"):
        tokenizer.encode(["A lovely film."], "Another.")


def test_threads_of_one_tokenizer_take_turns(tokenizer):
    """Rows are cut to the length of their own call, as in a web server with several threads."""

    def longest(max_length: int) -> set[int]:
        found = set()
        for _ in range(300):
            ids, _segments = tokenizer.encode(["a a a a a a a a"] * 4, max_length=max_length)
            found.add(max(len(row) for row in ids))
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(longest, (4, 5, 6, 7))) == [{4}, {5}, {6}, {7}]
    finally:
        sys.setswitchinterval(interval)
