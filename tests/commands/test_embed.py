"""contrastive/embed: the answers, files and refusals of the command.

The arithmetic is in tests/contrastive/test_embedder.py.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from contrastive.embed import shards, work
from contrastive.embed.__main__ import main
from contrastive.embedder import nearest, open_embedder

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = [
    "a doctor is helping the girl",
    "the girl",
    "a man is in the hotel",
    "the tall soldier",
    "the girl is in",
]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES).encode()


@pytest.fixture
def command(monkeypatch, tiny_model):
    """A function that runs the command in this process.

    It takes the flags, the content of standard input and the model. It returns the exit code, the
    standard output (bytes of a .npy file, else text) and the standard error.
    """

    def run(*flags, content: bytes = TEXT, model=tiny_model, stream=io.TextIOWrapper):
        monkeypatch.setattr(sys, "stdin", stream(io.BytesIO(content)))
        out = stream(io.BytesIO())
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
            code = main([str(model), "--device", "cpu", *map(str, flags)])
        out.flush()
        printed = out.buffer.getvalue()
        is_vectors = printed.startswith(b"\x93NUMPY")
        return code, printed if is_vectors else printed.decode(), err.getvalue()

    return run


# --- answers --------------------------------------------------------------------------------------


def vectors_of(model) -> np.ndarray:
    """The vectors (N, H) of SENTENCES, without the command."""
    embedder, _ = open_embedder(model, device="cpu")
    vectors, _ = embedder.encode(SENTENCES)
    return vectors.numpy()


def test_vectors_are_written(command, tiny_model, tmp_path):
    path = tmp_path / "vectors.npy"
    code, out, err = command("--out", path)
    assert code == 0
    assert not out
    assert "5 sentences, 0 of them cut" in err
    assert "pooling: mean" in err
    stored = np.load(path)
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored, vectors_of(tiny_model))

    # An older file is written over.
    assert command("--out", path, "--normalise")[0] == 0
    lengths = np.linalg.norm(stored, axis=1, keepdims=True)
    np.testing.assert_allclose(np.load(path), stored / lengths, atol=1e-6)


def test_alone_it_sends_the_vectors_on(command, tiny_model):
    for flags in ([], ["--out", "-"]):
        code, out, err = command(*flags)
        assert code == 0
        assert "vectors: -, 5 rows" in err
        np.testing.assert_array_equal(np.load(io.BytesIO(out)), vectors_of(tiny_model))
    _, out, _ = command("--normalise")
    lengths = np.linalg.norm(np.load(io.BytesIO(out)), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_vectors_do_not_fill_a_terminal(command):
    for flags in ([], ["--out", "-"]):
        code, out, err = command(*flags, stream=Terminal)
        assert code == 2
        assert not out
        assert "standard output is a terminal, which cannot show vectors" in err
        assert "> vectors.npy" in err


def test_the_vectors_go_through_a_pipe(tiny_model, tmp_path):
    script = 'printf \'the girl\\na man\\n\' | "$0" -m contrastive.embed "$1" | cat > "$2"'
    bash = ["bash", "-o", "pipefail", "-c", script]
    command = [*bash, sys.executable, str(tiny_model), str(tmp_path / "v.npy")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "v.npy").shape[0] == 2


def test_the_nearest_are_printed_with_their_lines(command, tiny_model):
    code, out, _ = command("--nearest", 2)
    blocks = re.split(r"\n(?! )", out.rstrip("\n"))
    assert code == 0
    assert len(blocks) == 5
    neighbours = nearest(torch.from_numpy(vectors_of(tiny_model)), 2)
    for row, (block, cosines, rows) in enumerate(zip(blocks, *neighbours, strict=True)):
        expected = [f"{row + 1}: {SENTENCES[row]}"]
        for cosine, other in zip(cosines.tolist(), rows.tolist(), strict=True):
            expected.append(f"  {cosine:7.4f}  {other + 1}: {SENTENCES[other]}")
        assert block.split("\n") == expected


def test_a_query_finds_its_like(command, tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_bytes(TEXT)
    code, out, _ = command("--query", " The  girl ", "--top", 3, "--input", path, content=b"")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "query: The  girl"
    assert lines[1] == "   1.0000  2: the girl"
    assert len(lines) == 4

    # Both questions at once. --top is 5 of 5 sentences.
    code, out, _ = command("--query", "the girl", "--nearest", 1)
    assert code == 0
    assert out.count("query:") == 1
    assert len(out.splitlines()) == 6 + 5 * 2

    code, out, _ = command("--query", "the girl is in the hotel", "--max-length", 5)
    assert code == 0
    assert out.startswith("query (cut to 5 tokens): ")


def test_duplicates_are_listed_with_their_ids(command):
    content = b"id,text\nb,the girl\na,a man is in the hotel\nc,The  GIRL\nd,the girl\n"
    code, out, _ = command("--duplicates", "--threshold", 0.999, content=content)
    assert code == 0
    assert out == "id_1\tid_2\tcosine\nb\tc\t1.0000\nb\td\t1.0000\nc\td\t1.0000\n"
    # Of plain lines, the ids are the numbers of the lines.
    code, out, _ = command("--duplicates", content=b"the girl\nsoldier\nthe girl\n")
    assert "1\t3\t1.0000\n" in out
    code, out, _ = command("--duplicates", "--threshold", -1)
    assert len(out.splitlines()) == 1 + 5 * 4 / 2
    assert "--duplicates compares two" in command("--duplicates", content=b"alone\n")[2]


def test_rows_without_a_text_are_left_out_where_ids_are_printed(command, tmp_path):
    content = b"id,text\nb,the girl\na,\nd,the girl\n"
    code, out, err = command("--duplicates", content=content)
    assert (code, out) == (0, "id_1\tid_2\tcosine\nb\td\t1.0000\n")
    assert "1 without a text left out, the first: line 3" in err
    # A stored row must be that of its row in the table.
    code, out, err = command("--out", tmp_path / "v.npy", "--duplicates", content=content)
    assert (code, out) == (2, "")
    assert "line 3: 'text' is empty" in err


def test_stored_vectors_are_read_back(command, tmp_path, monkeypatch):
    path = tmp_path / "vectors.npy"
    assert command("--out", path, "--normalise")[0] == 0
    expected = command("--query", "a man", "--nearest", 2)[1]

    code, out, err = command("--query", "a man", "--nearest", 2, "--vectors", path)
    assert (code, out) == (0, expected)
    assert "vectors.npy, 5 rows of" in err and "sentences, 0 of them cut" not in err
    assert command("--duplicates", "--vectors", path)[0] == 0


def test_vectors_of_a_model_without_a_pooler_are_read_back(command, tmp_path):
    """Its pooler has other random weights in every process, and no vector is made of it."""
    path = tmp_path / "vectors.npy"
    for flags in (["--out", path], ["--vectors", path, "--query", "a man"]):
        torch.manual_seed(len(flags))
        code, _, err = command(*flags, model="minbert-mini")
        assert code == 0, err


def test_shards_are_the_vectors_of_one_call(command, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_SIZE", 2)
    monkeypatch.setattr(work, "BLOCK_SIZE", 2)
    parts = tmp_path / "parts"
    assert command("--out", tmp_path / "whole.npy")[0] == 0
    for shard in ("3/3", "1/3"):
        assert command("--out", parts, "--shard", shard)[0] == 0
    code, _, err = command("--vectors", parts, "--query", "a man")
    assert code == 2 and "1 of 3 shards are missing" in err and "--shard 2/3" in err
    assert command("--out", parts, "--shard", "2/3")[0] == 0

    arrays = [np.load(path) for path in sorted(parts.iterdir())]
    assert [len(array) for array in arrays] == [2, 2, 1]
    assert np.concatenate(arrays).tobytes() == np.load(tmp_path / "whole.npy").tobytes()
    answers = [
        command("--vectors", path, "--nearest", 2)[1] for path in (parts, tmp_path / "whole.npy")
    ]
    assert answers[0] == answers[1] != ""


def test_a_shard_is_computed_once_and_never_mixed_with_others(command, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_SIZE", 2)
    flags = ("--out", tmp_path, "--shard", "1/2")
    assert "2 rows of" in command(*flags)[2]
    (path,) = tmp_path.iterdir()
    stored = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(work, "compute_vectors", None)
        code, _, err = command(*flags)
        assert code == 0 and "is complete already" in err

    for others, words in {
        ("--normalise",): "its normalised differ",
        ("--shard", "1/3"): "of another number of shards",
        ("--shard", "2/9"): "Pass at most 3 shards",
    }.items():
        folder = tmp_path / "new" if "2/9" in others else tmp_path
        code, _, err = command("--out", folder, "--shard", "1/2", *others)
        assert code == 2 and words in err, err
    code, _, err = command(*flags, content=b"the girl\n" + TEXT)
    assert code == 2 and "its sentences differ" in err and path.read_bytes() == stored

    path.write_bytes(stored[:200] + b"?" + stored[201:])
    code, _, err = command(*flags)
    assert code == 2 and "is damaged" in err
    assert command(*flags, "--overwrite")[0] == 0 and path.read_bytes() == stored


def test_vectors_of_something_else_are_noticed(command, tmp_path):
    path = tmp_path / "vectors.npy"
    assert command("--out", path)[0] == 0
    stored = np.load(path)

    def refusal(array=None, content=TEXT, flags=()):
        if array is not None:
            np.save(path, array)
        code, out, err = command("--nearest", 1, "--vectors", path, *flags, content=content)
        assert (code, out) == (2, "")
        return err

    assert "5 rows, and there are 6 sentences" in refusal(content=TEXT + b"one more\n")

    # The record names every difference.
    other = TEXT.replace(b"the tall soldier", b"the tall soldiers")
    assert "its row 3 was made of another sentence than sentence 4 (1 of 5" in refusal(
        content=other
    )
    lines = TEXT.splitlines(keepends=True)
    swapped = b"".join([lines[0], lines[2], lines[1], *lines[3:]])
    assert "its row 1 was made of another sentence" in refusal(content=swapped)
    assert "made with --pooling mean; this command has --pooling cls" in refusal(
        flags=("--pooling", "cls")
    )
    assert "made with --max-length 128; this command has --max-length 64" in refusal(
        flags=("--max-length", 64)
    )
    content = bytearray(path.read_bytes())
    content[content.index(stored[2].tobytes())] ^= 1
    path.write_bytes(content)
    assert "numbers were changed after --out stored them" in refusal()
    np.save(path, stored)
    with path.open("ab") as stream:
        np.save(stream, stored)
    assert "cannot be read as a .npy file" in refusal()

    # Without a record, some rows are compared.
    other = TEXT.replace(b"the tall soldier", b"a bike, a good day")
    assert "its row 3 has a cosine of only" in refusal(stored, content=other)
    assert "with sentence 4. It was made of other sentences" in refusal(stored, content=other)
    assert "with another model, pooling" in refusal(stored, flags=("--pooling", "cls"))
    assert "4 numbers in a row; the model gives" in refusal(stored[:, :4])
    assert "holds no matrix of finite numbers" in refusal(stored[0])
    assert "holds no matrix of finite numbers" in refusal(stored * np.nan)
    path.write_bytes(TEXT)
    assert "cannot be read as a .npy file" in refusal()
    path.unlink()
    assert "cannot be read as a .npy file" in refusal()


def test_every_row_of_stored_vectors_is_checked(command, tmp_path, model_copy):
    """Of a long file, too: a swap in its middle, and a model with one other weight."""
    path = tmp_path / "vectors.npy"
    words = ["girl", "man", "soldier", "hotel", "doctor"]
    lines = [f"the {words[row % 5]} is {'the ' * (row // 5)}{words[row % 3]}" for row in range(40)]
    flags = ("--nearest", 1, "--vectors", path)
    content = "\n".join(lines).encode()
    assert command("--out", path, content=content, model=model_copy)[0] == 0
    assert command(*flags, content=content, model=model_copy)[0] == 0

    lines[17], lines[18] = lines[18], lines[17]
    swapped = "\n".join(lines).encode()
    code, out, err = command(*flags, content=swapped, model=model_copy)
    assert (code, out) == (2, "")
    assert "its row 17 was made of another sentence than sentence 18 (2 of 40 rows differ)" in err

    # numpy.save writes no record. The user is told that most rows were not looked at.
    np.save(path, np.load(path))
    code, _, err = command(*flags, content=content, model=model_copy)
    assert code == 0
    assert "NOT ALL CHECKED" in err and "8 of its 40 rows were compared" in err

    # A file of numpy may be the user's, and a file of --out is replaced.
    code, _, err = command("--out", path, content=content, model=model_copy)
    assert code == 2 and "minBERT may not have written it" in err
    flags_of_out = ("--out", path, "--overwrite")
    assert command(*flags_of_out, content=content, model=model_copy)[0] == 0
    assert command("--out", path, content=content, model=model_copy)[0] == 0
    tensors = load_file(model_copy / "model.safetensors")
    tensors["embeddings.LayerNorm.bias"] += 1e-4
    save_file(tensors, model_copy / "model.safetensors", metadata={"format": "pt"})
    assert "made with another model. Pass" in command(*flags, content=content, model=model_copy)[2]


def test_vectors_of_a_pipe_have_a_record(command, tmp_path):
    path = tmp_path / "vectors.npy"
    path.write_bytes(command()[1])
    _, _, err = command("--nearest", 1, "--vectors", path)
    assert "its record names this model and these sentences" in err


def test_an_export_needs_no_sentences(command, tmp_path):
    code, out, err = command("--export", tmp_path / "model", "--pooling", "cls", content=b"")
    assert code == 0
    assert not out
    assert "export: " in err
    assert (tmp_path / "model" / "modules.json").is_file()
    assert command("--query", "the girl", model=tmp_path / "model")[0] == 0


def test_on_a_terminal_it_says_what_it_waits_for(command):
    assert "end with Ctrl-D" in command("--nearest", 1, stream=Terminal)[2]
    assert "end with Ctrl-D" not in command("--nearest", 1)[2]


# --- sentences ------------------------------------------------------------------------------------


def test_a_table_is_embedded_by_its_column(command, tiny_model, tmp_path):
    rows = [f'k{row},"{sentence}",x\n' for row, sentence in enumerate(SENTENCES)]
    path = tmp_path / "table.txt"
    path.write_bytes(("id,sentence,n\n" + "".join(rows)).encode("utf-16"))
    code, _, err = command("--out", tmp_path / "v.npy", "--input", path, content=b"")
    assert code == 0
    assert "table.txt: comma-separated UTF-16, 5 rows, text in 'sentence'" in err
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), vectors_of(tiny_model))

    _, out, _ = command("--query", "the girl", "--top", 1, "--input", path)
    assert out.splitlines()[1] == "   1.0000  k1: the girl"
    _, out, _ = command("--query", "x", "--top", 1, "--input", path, "--text", "n", "--id", "n")
    assert out.splitlines()[1] == "   1.0000  x: x"
    _, out, _ = command("--query", "k1,the girl,x", "--top", 6, "--input", path, "--lines")
    assert len(out.splitlines()) == 7


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig"])
def test_sentences_in_other_encodings(command, tmp_path, encoding):
    vectors = []
    for content in ("das Café\nthe girl\n".encode(encoding), "das Café\nthe girl\n".encode()):
        code, _, _ = command("--out", tmp_path / "v.npy", content=content)
        assert code == 0
        vectors.append(np.load(tmp_path / "v.npy"))
    np.testing.assert_array_equal(*vectors)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("standard input holds no lines", "one text per line", "--input texts.txt")),
        (b"one\n\nthree\n", ("standard input, line 2 is empty", "row and line agree", "grep")),
        (b"one\n \t\nthree\n", ("line 2 is empty",)),
        (b"one\ntwo\n\n", ("line 3 is empty",)),
        (
            "zwölf\ntwo\n".encode() + b"caf\xe9\n",
            ("standard input, line 3 holds bytes that are not UTF-8", "save the file as UTF-8"),
        ),
        (b"one\nt\0wo\n", ("standard input, line 2 holds a zero byte, which is no text",)),
        (b"name,words\na,b\nc,d\n", ("the header has no column sentence; found are: name, words",)),
        (b"text,sentence\na,b\n", ("found are: text, sentence. Pass one with --text.",)),
        (b"text,n\na,1\n,2\n", ("standard input, line 3: 'text' is empty",)),
    ],
)
def test_sentences_that_are_refused(command, content, words, tmp_path):
    code, out, err = command("--out", tmp_path / "vectors.npy", content=content)
    assert code == 2, err
    assert not out
    assert all(word in err for word in words), err
    assert err.count("\n") == 1, err
    assert not [*tmp_path.iterdir()]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--out", "-", "--nearest", 1], ("--out - writes vectors to standard output", "a file")),
        (["--out", "-", "--query", "x"], ("--out - writes vectors to standard output",)),
        (["--nearest", 0], ("--nearest is 0", "at least 1")),
        (["--nearest", 5], ("--nearest is 5; standard input holds 5 lines", "has 4 others")),
        (["--query", "  "], ("--query is empty",)),
        (["--query", "\udce9"], ("--query is not in UTF-8",)),
        (["--query", "x", "--top", 0], ("--top is 0",)),
        (["--nearest", 1, "--top", 3], ("--top has no effect without --query",)),
        (["--nearest", 1, "--normalise"], ("--normalise has no effect without --out or --export",)),
        (["--nearest", 1, "--batch-size", 0], ("--batch-size is 0", "at least 1")),
        (["--nearest", 1, "--max-length", 3], ("--max-length is 3", "at least 4")),
        (["--nearest", 1, "--max-length", 129], ("--max-length is 129", "128 positions")),
        (
            ["--nearest", 1, "--input", "DIR/absent.txt"],
            ("absent.txt: there is no such file", "Check"),
        ),
        (["--nearest", 1, "--input", "DIR"], ("the file cannot be read",)),
        (
            ["--export", "DIR/new", "--input", "DIR/x"],
            ("--input has no effect without --out or --nearest or --query or --duplicates",),
        ),
        (["--export", "DIR/new", "--text", "x"], ("--text has no effect",)),
        (["--export", "DIR/new", "--lines"], ("--lines has no effect",)),
        (["--nearest", 1, "--lines", "--text", "x"], ("--lines says that the input has no col",)),
        (["--out", "-", "--duplicates"], ("--out - writes vectors to standard output",)),
        (["--duplicates", "--threshold", 2], ("--threshold is 2.0; it must be -1 to 1",)),
        (["--duplicates", "--threshold", "nan"], ("--threshold is nan",)),
        (["--nearest", 1, "--threshold", 0.5], ("--threshold has no effect without --duplicates",)),
        (["--nearest", 1, "--duplicates"], ("--duplicates prints a table", "ask for one of them")),
        (["--shard", "1/2"], ("pass it as --out DIR",)),
        (["--shard", "3/2", "--out", "DIR/new"], ("from 1 to N",)),
        (["--shard", "1/2", "--out", "DIR/new", "--query", "x"], ("--query is another job",)),
        (["--out", "DIR/new", "--vectors", "x"], ("--vectors has no effect without --nearest",)),
        (
            ["--out", "DIR/new", "--query", "x", "--vectors", "y"],
            ("--out would only copy the vectors of --vectors",),
        ),
        (["--out", "DIR"], ("--out is ", "a folder", "vectors.npy")),
        (["--out", "/dev/null"], ("not a plain file",)),
        (["--out", "DIR/absent/vectors.npy"], ("there is no folder", "absent")),
        (
            ["--out", "DIR/new.npy", "--input", "DIR/absent.txt"],
            ("absent.txt: there is no such file",),
        ),
        (["--out", "DIR/new.CSV"], ("the vectors are stored as .npy", "new.npy.")),
        (["--out", "DIR/full.txt", "--input", "DIR/full.txt"], ("it is an input already",)),
        (["--out", "DIR/new", "--export", "DIR/new"], ("--out and --export are both",)),
        (["--export", "DIR"], ("which exists", "Choose another")),
        (["--export", "DIR/full.txt/new"], ("is a file", "Choose another folder")),
    ],
)
def test_requests_that_are_refused(command, flags, words, tmp_path):
    (tmp_path / "full.txt").write_bytes(TEXT)
    code, out, err = command(*(str(flag).replace("DIR", str(tmp_path)) for flag in flags))
    assert code == 2, err
    assert not out
    assert err.startswith("python -m contrastive.embed: "), err
    assert all(word in err for word in words), err
    assert [*tmp_path.iterdir()] == [tmp_path / "full.txt"]
    assert (tmp_path / "full.txt").read_bytes() == TEXT


@pytest.mark.parametrize("invisible", ["\u200b", "\xad"])
def test_a_sentence_of_nothing_is_refused(command, tmp_path, invisible):
    content = f"a man\n{invisible}\nthe girl\n".encode()
    code, _, err = command("--out", tmp_path / "v.npy", content=content)
    assert code == 2
    assert "sentence 2 (" in err
    assert "holds no token that the model reads" in err
    assert "leave it out" in err
    assert not [*tmp_path.iterdir()]

    code, _, err = command("--out", tmp_path / "v.npy", "--query", "\u200b")
    assert code == 2
    assert "--query ('\\u200b') holds no token that the model reads" in err
    assert not [*tmp_path.iterdir()]


def test_one_sentence_has_no_other(command):
    _, _, err = command("--nearest", 1, content=b"alone\n")
    assert "holds 1 line, so each sentence has 0 others" in err


def test_an_unknown_model(command, tmp_path):
    code, _, err = command("--nearest", 1, model=tmp_path / "absent" / "model")
    assert code == 2
    assert "no such folder" in err
    assert "minilm" in err


def test_ctrl_c(command, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("contrastive.embedder.encode", stop)
    code, out, err = command("--out", tmp_path / "vectors.npy", "--nearest", 1)
    assert code == 130
    assert not out
    assert "Stopped" in err
    assert not [*tmp_path.iterdir()]


def test_the_sentences_of_standard_input_are_not_replaced(tmp_path):
    (tmp_path / "s.txt").write_text("one sentence\n")
    with (tmp_path / "s.txt").open() as sentences:
        command = [sys.executable, "-m", "contrastive.embed", "minilm"]
        result = subprocess.run(
            [*command, "--out", tmp_path / "s.txt"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=sentences,
        )
    assert result.returncode == 2
    assert "it is an input already" in result.stderr
    assert (tmp_path / "s.txt").read_text() == "one sentence\n"


def test_a_reader_that_has_seen_enough(tiny_model):
    """`| head -1` closes the pipe; that is no error."""
    code = (
        "import sys, contrastive.embed.__main__ as embed\n"
        "from contrastive.embed import work\n"
        "work.answers = lambda *_, **__: iter(['x' * 9] * 99999)\n"
        "sys.exit(embed.main(['minilm', '--nearest', '1']))"
    )
    python = f"'{sys.executable}' -c \"$0\""
    script = f"printf 'one\\ntwo\\n' | {python} | head -1; exit ${{PIPESTATUS[1]}}"
    result = subprocess.run(
        ["bash", "-c", script, code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0
    assert result.stdout == "xxxxxxxxx\n"
    assert not result.stderr
