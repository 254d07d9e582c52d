"""contrastive/embedder.py: nearest vectors and sentence vectors, by hand and by slow loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from contrastive.embed.stored_vectors import write_vectors
from contrastive.embedder import nearest, open_embedder, pairs_above
from minbert import BertModel, BertTokenizer
from minbert.pooling import pool, save_pooling
from tests.toy_ranks import in_ranks

SENTENCES = [
    "a doctor is helping the girl",
    "the girl",
    "a short man is in the hotel near the street",
    "two men walk",
    "a doctor",
    "the tall soldier is in the street",
    "?",
    "is the girl in the hotel",
]


def random_vectors(num_rows: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_rows, size, generator=torch.Generator().manual_seed(seed))


def test_int8_vectors_are_close_to_the_exact_ones(tiny_model):
    """The fingerprint is that of the exact weights, so only the precision tells them apart."""
    exact, rounded = [
        open_embedder(tiny_model, device="cpu", precision=name)[0] for name in ("fp32", "int8")
    ]
    vectors = exact.encode(SENTENCES)[0]
    rounded_vectors = rounded.encode(SENTENCES)[0]
    assert F.cosine_similarity(rounded_vectors, vectors).min() > 0.99
    assert not torch.equal(rounded_vectors, vectors)
    assert dict(rounded.identity().items() ^ exact.identity().items()).keys() == {"precision"}


# --- nearest --------------------------------------------------------------------------------------


def slow_cosine(x: list[float], y: list[float]) -> float:
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / math.hypot(*x) / math.hypot(*y)


def slow_nearest(vectors, queries, num_neighbours: int, leaves_out_itself: bool):
    """Python floats and a full sort, one pair at a time."""
    all_cosines = []
    all_rows = []
    for number, query in enumerate(queries.tolist()):
        ranked = []
        for row, vector in enumerate(vectors.tolist()):
            if not (leaves_out_itself and row == number):
                ranked.append((-slow_cosine(query, vector), row))
        ranked.sort()
        all_cosines.append([-negative for negative, _ in ranked[:num_neighbours]])
        all_rows.append([row for _, row in ranked[:num_neighbours]])
    return torch.tensor(all_cosines), torch.tensor(all_rows)


def test_three_vectors_by_hand():
    """Angles 0, 53.1 and 90 degrees; lengths do not matter."""
    vectors = torch.tensor([[2.0, 0], [3, 4], [0, 5]])
    cosines, rows = nearest(vectors, 2)
    assert rows.tolist() == [[1, 2], [2, 0], [1, 0]]
    assert rows.dtype == torch.int64
    assert cosines.dtype == torch.float32
    torch.testing.assert_close(cosines, torch.tensor([[0.6, 0.0], [0.8, 0.6], [0.8, 0.0]]))

    # A query may be the opposite of a row.
    cosines, rows = nearest(vectors, 3, torch.tensor([[-1.0, 0]]))
    assert rows.tolist() == [[2, 1, 0]]
    torch.testing.assert_close(cosines, torch.tensor([[0.0, -0.6, -1.0]]))


@pytest.mark.parametrize("num_neighbours", [1, 4, 19])
@pytest.mark.parametrize("has_queries", [False, True])
def test_is_a_slow_loop(num_neighbours, has_queries):
    """float64, rounded to float32 at the end."""
    vectors = random_vectors(20, 7)
    queries = random_vectors(3, 7, seed=1) if has_queries else None
    cosines, rows = nearest(vectors, num_neighbours, queries)
    asked = queries if has_queries else vectors
    slow_cosines, slow_rows = slow_nearest(vectors, asked, num_neighbours, not has_queries)
    assert torch.equal(rows, slow_rows)
    torch.testing.assert_close(cosines, slow_cosines, rtol=0, atol=1e-7)


def test_ties_and_the_size_of_a_chunk_do_not_matter():
    """A full stable sort of 61 rows. Most are copies of one another in other lengths."""
    copies = random_vectors(9, 37)[torch.arange(61) * 5 % 9]
    lengths = 2.0 ** (torch.arange(61) % 7)
    vectors = copies * lengths[:, None]
    unit = torch.nn.functional.normalize(vectors.double(), dim=-1)
    cosines = (unit @ unit.T).mul(1e9).round().fill_diagonal_(-2e9)  # copies tie exactly
    expected = cosines.argsort(dim=-1, descending=True, stable=True)[:, :-1]
    for max_cells in (1, 61 * 3, 61 * 60, 10**6):
        assert torch.equal(nearest(vectors, 60, max_cells=max_cells).rows, expected)
    # Fewer neighbours are the beginning of the same list.
    assert torch.equal(nearest(vectors, 11).rows, expected[:, :11])


def test_never_itself_even_among_equals():
    cosines, rows = nearest(torch.ones(5, 3), 4)
    for row in range(5):
        assert rows[row].tolist() == [other for other in range(5) if other != row]
    assert cosines.max() <= 1
    assert torch.allclose(cosines, torch.ones(5, 4))
    opposites = torch.tensor([[1.0, 0], [-1, 0]])
    assert nearest(opposites, 1).rows.tolist() == [[1], [0]], "rather the opposite than itself"


def test_permuting_the_input_permutes_the_result():
    vectors = random_vectors(30, 8)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    cosines, rows = nearest(vectors, 6)
    permuted_cosines, permuted_rows = nearest(vectors[order], 6)
    assert torch.equal(order[permuted_rows], rows[order])
    torch.testing.assert_close(permuted_cosines, cosines[order])


def test_is_semantic_search_of_sentence_transformers():
    util = pytest.importorskip(
        "sentence_transformers.util", reason="sentence-transformers is the reference"
    )
    vectors = random_vectors(50, 12)
    queries = random_vectors(4, 12, seed=2)
    cosines, rows = nearest(vectors, 10, queries)
    for number, hits in enumerate(util.semantic_search(queries, vectors, top_k=10)):
        assert [hit["corpus_id"] for hit in hits] == rows[number].tolist()
        scores = [hit["score"] for hit in hits]
        assert scores == pytest.approx(cosines[number].tolist(), abs=1e-6)  # it is in float32


@pytest.mark.parametrize(
    ("num_neighbours", "queries", "limits"),
    [
        (0, None, "1 to 2"),
        (3, None, "1 to 2"),
        (4, torch.ones(1, 2), "1 to 3"),
        (0, torch.ones(1, 2), "1 to 3"),
    ],
)
def test_neighbours_that_there_are_not(num_neighbours, queries, limits):
    message = f"{num_neighbours} neighbours are asked for; .* Ask for {limits}"
    with pytest.raises(ValueError, match=message):
        nearest(torch.eye(3, 2), num_neighbours, queries)


# --- sentences to vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_vectors_are_those_of_the_model_and_pool_by_hand(tiny_model, pooling):
    embedder, _ = open_embedder(tiny_model, pooling, batch_size=3, device="cpu")
    vectors, num_cut = embedder.encode(SENTENCES)
    assert vectors.shape == (8, 32)
    assert vectors.dtype == torch.float32
    assert num_cut == 0

    # Each sentence alone, without any padding. fp32, 2 layers: measured 1e-7.
    model = BertModel.from_pretrained(tiny_model)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    for vector, sentence in zip(vectors, SENTENCES, strict=True):
        batch = tokenizer([sentence])
        with torch.no_grad():
            alone = pool(model(**batch), batch["attention_mask"], pooling)[0]
        torch.testing.assert_close(vector, alone, rtol=0, atol=1e-5)


def test_permuting_the_sentences_permutes_the_vectors_and_batches_show_progress(tiny_model):
    embedder, _ = open_embedder(tiny_model, batch_size=3, device="cpu")
    sizes = []

    def progress(batches):
        sizes.extend(map(len, batches))
        return batches

    vectors, _ = embedder.encode(SENTENCES, progress)
    assert sizes == [3, 3, 2]
    backwards, _ = embedder.encode(SENTENCES[::-1])
    torch.testing.assert_close(backwards.flip(0), vectors, rtol=0, atol=1e-5)


def test_cut_sentences_are_counted(tiny_model):
    """[CLS], 3 tokens, [SEP]: the first sentence is not cut."""
    embedder, _ = open_embedder(tiny_model, max_length=5, device="cpu")
    vectors, num_cut = embedder.encode(["a the is", "a the is the", "a the is in the"])
    assert num_cut == 2
    assert torch.allclose(vectors, vectors[:1], atol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 9])
def test_processes_share_the_tokenizing_and_get_what_one_gets(tiny_model, monkeypatch, count):
    """Five sentences, two of them cut. Nine processes are too many, so each reads all of them."""
    sentences = ["a man", "a man is a man is a man", "a woman", "", "not a girl in a dog in a cat"]
    alone = open_embedder(tiny_model, max_length=6)[0]
    embedder = replace(alone, shares_batches=True)
    read = []
    encode = BertTokenizer.encode

    def note_and_encode(tokenizer, texts, *others, **settings):
        if settings["max_length"] == 6:
            read.append(len(texts))
        return encode(tokenizer, texts, *others, **settings)

    monkeypatch.setattr(BertTokenizer, "encode", note_and_encode)
    expected = alone.rows_of(sentences, "")
    for rows in in_ranks(monkeypatch, count, lambda _: embedder.rows_of(sentences, "")):
        assert rows.lengths.tolist() == expected.lengths.tolist()
        assert torch.equal(rows.batch(range(5)).input_ids, expected.batch(range(5)).input_ids)
        assert rows.num_truncated == expected.num_truncated == 2
    assert read[0] == 5
    assert sum(read[1:]) == (45 if count == 9 else 5)


def test_one_string_is_not_read_letter_by_letter(tiny_model):
    embedder, _ = open_embedder(tiny_model)
    with pytest.raises(ValueError, match="letter by letter; pass a list"):
        embedder.encode("A lovely film.")


# --- models ---------------------------------------------------------------------------------------


def test_auto_is_the_pooling_that_the_folder_notes(tiny_model, model_copy):
    embedder, _ = open_embedder(tiny_model)
    assert embedder.pooling == "mean"
    save_pooling(model_copy, "cls")
    embedder, notes = open_embedder(model_copy)
    assert embedder.pooling == "cls"
    assert "pooling: cls (the model was trained for it)" in notes
    with pytest.raises(ValueError, match="trained with --pooling cls; asked for is mean"):
        open_embedder(model_copy, "mean")


def test_a_pooler_without_weights_is_refused(model_copy):
    path = model_copy / "model.safetensors"
    tensors = load_file(path)
    without = {name: value for name, value in tensors.items() if not name.startswith("pooler")}
    save_file(without, path)
    message = "holds no weights for it .*pooler.dense.*Pass --pooling mean or cls"
    with pytest.raises(ValueError, match=message):
        open_embedder(model_copy, "pooler")
    embedder, _ = open_embedder(model_copy)
    assert embedder.pooling == "mean", "a vector that needs no pooler still works"


def test_weights_that_are_not_finite_are_noticed(model_copy):
    embedder, _ = open_embedder(model_copy, device="cpu")
    with torch.no_grad():
        embedder.encoder.layers[0].feed_forward.up.weight[0, 0] = float("nan")
    with pytest.raises(ValueError, match="not finite; its weights are damaged"):
        embedder.encode(["a girl"])


def test_a_length_beyond_the_positions(tiny_model):
    with pytest.raises(ValueError, match="--max-length is 129; .* has 128 positions"):
        open_embedder(tiny_model, max_length=129)


def test_the_default_length_is_that_of_a_model_with_fewer_positions(short_model, tiny_model):
    embedder, notes = open_embedder(short_model, device="cpu")
    assert embedder.max_length == 64
    assert "max_length: 64 (the model has as many positions)" in notes
    _, num_cut = embedder.encode(["the girl " * 40, "the girl"])
    assert num_cut == 1
    with pytest.raises(ValueError, match="--max-length is 65; .* has 64 positions"):
        open_embedder(short_model, max_length=65)

    # Enough positions: nothing changes, and nothing is said.
    embedder, notes = open_embedder(tiny_model, device="cpu")
    assert embedder.max_length == 128
    assert not any(note.startswith("max_length") for note in notes)


# --- vectors on disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_normalised", [False, True])
def test_vectors_on_disk(tmp_path, is_normalised):
    vectors = random_vectors(5, 3)
    path = tmp_path / "vectors"  # no suffix is added
    write_vectors(path, vectors, is_normalised)
    stored = np.load(path)
    assert stored.dtype == np.float32
    assert stored.shape == (5, 3)
    assert [*tmp_path.iterdir()] == [path]

    lengths = np.linalg.norm(stored, axis=1)
    expected = 1 if is_normalised else vectors.norm(dim=1)
    np.testing.assert_allclose(lengths, expected, rtol=1e-6)
    directions = vectors / vectors.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(stored / lengths[:, None], directions, atol=1e-6)


def test_a_link_stays_one(tmp_path):
    link = tmp_path / "link.npy"
    link.symlink_to(tmp_path / "vectors.npy")
    write_vectors(link, torch.eye(2), False)
    assert link.is_symlink()
    assert np.load(tmp_path / "vectors.npy").tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("sentences", "share"),
    [
        (["\u0436\u0444 \u0436", "\u0436"], "43%"),
        (["\u0436 \u0436 \u0436"], "60%"),
        (["the girl"], None),
    ],
)
def test_a_text_that_is_mostly_unknown_gets_a_warning(tiny_model, capsys, sentences, share):
    """Two rows of 2 and 1 unknown words beside 4 of [CLS] and [SEP]: 3 of 7."""
    open_embedder(tiny_model, device="cpu")[0].encode(sentences)
    message = capsys.readouterr().err
    found = f"{share} of all tokens are [UNK]" in message and repr(sentences[0]) in message
    assert found == (share is not None)
    assert ("warning" in message) == (share is not None)


# --- almost equal vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("max_cells", [1, 40, 2**22])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 0.999])
def test_pairs_above_a_threshold_as_a_slow_loop_finds_them(threshold, max_cells):
    vectors = torch.randn(17, 4, generator=torch.Generator().manual_seed(3))
    vectors[5] = 2 * vectors[11]
    expected = []
    for first in range(17):
        for second in range(first + 1, 17):
            cosine = F.cosine_similarity(vectors[first], vectors[second], dim=0)
            if cosine >= threshold:
                expected.append((first, second, pytest.approx(float(cosine), abs=1e-6)))
    assert list(pairs_above(vectors, threshold, max_cells)) == expected
    assert len(expected) >= 1


def test_equal_vectors_are_a_pair_at_a_threshold_of_1():
    """Their cosine, computed in floating point, may be a little below 1."""
    vectors = torch.rand(50, 33, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    pairs = list(pairs_above(vectors, 1.0))
    assert [(pair.first, pair.second) for pair in pairs] == [(row, row + 50) for row in range(50)]
    assert all(pair.cosine <= 1 for pair in pairs)
