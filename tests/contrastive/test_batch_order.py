"""contrastive/batch_order.py and text.py: what is read, and what an epoch is made of, by its laws."""

import numpy as np
import pytest
import torch

from contrastive.batch_order import (
    BATCHES_PER_CLUSTER,
    SEED_STRIDE,
    Shuffle,
    cluster_order,
    knn_order,
    tension_plan,
)
from contrastive.sentences import (
    EncodedTriplets,
    labelled_pairs,
    read_triplets,
    tension_sentences,
    unique_sentences,
)
from data.readers import Example
from minbert import BertTokenizer


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


# --- contrastive tension --------------------------------------------------------------------------


@pytest.mark.parametrize("is_fresh", [False, True])
def test_an_epoch_of_contrastive_tension(is_fresh):
    steps = tension_plan(13, 16, is_fresh, generator())
    assert [len(rows) for ((_, rows),) in steps] == [32] * 6 + [
        16
    ]  # 2 positives a step; 13 = 6 x 2 + 1
    positives, negatives = [], []
    for ((task, rows),) in steps:
        assert task == "ct"
        half = len(rows) // 2
        pairs = list(zip(rows[:half], rows[half:], strict=True))
        for start in range(0, half, 8):
            (anchor, same), *others = pairs[start : start + 8]
            assert anchor == same
            positives.append(anchor)
            negatives += others
            assert is_fresh or all(one == anchor for one, _ in others)
    assert sorted(positives) == list(range(13)), "every sentence once as a positive"
    assert len(negatives) == 13 * 7 and all(one != other for one, other in negatives)
    assert not is_fresh or any(
        one != other for (one, _), other in zip(negatives[::7], positives, strict=True)
    )


@pytest.mark.parametrize("is_fresh", [False, True])
def test_negatives_are_uniform(is_fresh):
    """Chi-square over the 5 x 4 ordered pairs, of 200 epochs with 35 negatives; 19 degrees of freedom.

    43.8 is passed once in 1,000 seeds; the seed is fixed. With the anchor, every anchor has 1,400 negatives exactly.
    """
    counts = np.zeros((5, 5))
    for seed in range(200):
        for ((_, rows),) in tension_plan(5, 8, is_fresh, generator(seed)):
            for one, other in zip(rows[1:8], rows[9:], strict=True):
                counts[one, other] += 1
    expected = 200 * 35 / 20
    assert counts.trace() == 0 and counts.sum() == 7000
    assert ((counts[~np.eye(5, dtype=bool)] - expected) ** 2 / expected).sum() < 43.8


def test_a_plan_follows_from_its_generator():
    plans = [tension_plan(9, 16, False, generator(seed)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


def test_what_contrastive_tension_reads(tokenizer, tmp_path):
    train = [
        Example("1", "a doctor is helping", "the girl", 1.0),
        Example("2", "The girl", "a man", 0.0),
    ]
    assert [each.sentence_1 for each in tension_sentences("none", train, tokenizer, 32, 0)] == [
        "a doctor is helping",
        "the girl",
        "a man",
    ]
    (tmp_path / "corpus.txt").write_text(
        "A line.\n\nA man\na MAN\n  Another line.  \n", encoding="utf-8"
    )
    found = tension_sentences(str(tmp_path / "corpus.txt"), train, tokenizer, 32, 0)
    assert [each.sentence_1 for each in found] == ["A line.", "A man", "Another line."]
    words = [tension_sentences("random-words", train, tokenizer, 32, seed) for seed in (0, 0, 1)]
    assert words[0] == words[1] != words[2]
    assert [len(each.sentence_1.split()) for each in words[0]] == [4, 2, 2]
    assert all(
        word in tokenizer.vocabulary for each in words[0] for word in each.sentence_1.split()
    )


def test_text_that_cannot_be_used(tokenizer, tmp_path):
    with pytest.raises(
        ValueError, match="absent.txt: No such file or directory. Give a file of plain text"
    ):
        tension_sentences(str(tmp_path / "absent.txt"), [], tokenizer, 32, 0)
    for content, number in (("A man\na man\n", 1), ("\n \n", 0)):
        (tmp_path / "one.txt").write_text(content, encoding="utf-8")
        with pytest.raises(
            ValueError,
            match=f"one.txt: {number} different sentences; contrastive tension tells",
        ):
            tension_sentences(str(tmp_path / "one.txt"), [], tokenizer, 32, 0)
    (tmp_path / "latin.txt").write_bytes("A man\ncaf\xe9\n".encode("latin1"))
    with pytest.raises(ValueError, match="latin.txt, line 2: not UTF-8"):
        tension_sentences(str(tmp_path / "latin.txt"), [], tokenizer, 32, 0)


# --- pairs and triplets ---------------------------------------------------------------------------


def test_labelled_pairs():
    para = [Example("a", "x", "y", 1.0), Example("b", "x", "z", 0.0)]
    sts = [Example("a", "u", "v", 3.0), Example("c", "u", "w", 3.2)]
    found = labelled_pairs(para, sts, keeps_negatives=True)
    assert [(each.id, each.label) for each in found] == [
        ("para-a", 1.0),
        ("para-b", 0.0),
        ("sts-a", 0.6),
        ("sts-c", 0.64),
    ]
    assert [each.id for each in labelled_pairs(para, sts, keeps_negatives=False)] == [
        "para-a",
        "sts-c",
    ]


def test_the_same_border_in_a_tensor():
    """A score of 3 is .6 in double and in float32; neither is above POSITIVE_ABOVE."""
    assert not (torch.tensor([3.0 / 5], dtype=torch.float32) > 0.6).any()


def test_triplets(tokenizer, tmp_path):
    path = tmp_path / "nli.tsv"
    path.write_text(
        'source\tpremise\tentailment\tcontradiction\nx\tA man "sits"\ta man\tthe girl\n'
        "\ny\tthe hotel is good\ta\tb\n\n",
        encoding="utf-8",
    )  # blank lines are no rows
    triplets = read_triplets(path)
    assert triplets == [('A man "sits"', "a man", "the girl"), ("the hotel is good", "a", "b")]
    rows = EncodedTriplets(triplets, tokenizer, 32)
    batch = rows.batch([1, 0])
    assert (
        batch.ids == ("triplet-1", "triplet-0") * 3
        and batch.input_ids.shape[0] == 6
        and batch.labels is None
    )
    single = tokenizer.encode([triplets[1][0], triplets[0][2]])[0]
    assert batch.input_ids[0][: len(single[0])].tolist() == single[0]
    assert batch.input_ids[5][: len(single[1])].tolist() == single[1]


def test_triplets_as_simcse_has_them(tmp_path):
    path = tmp_path / "nli_for_simcse.csv"
    path.write_text(
        '\ufeffsent0,sent1,hard_neg\n"One, two",a man,"the ""girl"""\nx,y,z\n', encoding="utf-8"
    )
    assert read_triplets(path) == [("One, two", "a man", 'the "girl"'), ("x", "y", "z")]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_triplets_of_either_names_with_any_separator(tmp_path, separator):
    path = tmp_path / "nli.csv"
    text = "Entailment,PREMISE,contradiction\na,b,c\n"
    path.write_bytes(text.replace(",", separator).encode("utf-16"))
    assert read_triplets(path) == [("b", "a", "c")]


def test_a_very_long_text_of_a_triplet(tmp_path):
    path = tmp_path / "nli.csv"
    text = "x " * 70_000 + "x"
    path.write_text(f"sent0,sent1,hard_neg\na cat,{text},a dog\n", encoding="utf-8")
    assert read_triplets(path) == [("a cat", text, "a dog")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty; expected are a header and at least one row"),
        ("premise\tentailment\tcontradiction\n", "a header and no rows; expected is at least one"),
        (
            "a\tb\tc\nd\te\tf\n",
            "line 1: the header has no column premise, entailment, contradiction; found are: a, b, c. "
            "A file of triplets has the columns premise, entailment and contradiction, or sent0, sen",
        ),
        (
            "premise\tentailment\tcontradiction\na\tb\tc\na\tb\n",
            "line 3: the row has 2 fields; the header names 3",
        ),
        (
            "premise\tentailment\tcontradiction\na\t \tc\n",
            "line 2: premise, entailment, contradiction are not all there",
        ),
        (
            'sent0,sent1,hard_neg\n"a\nb",c,d\na,,b\n',
            "line 4: sent0, sent1, hard_neg are not all there",
        ),
        ('sent0,sent1,hard_neg\n"a,b,c\n', "line 2: not readable as comma-separated text"),
    ],
)
def test_triplets_that_cannot_be_used(tmp_path, content, words):
    (tmp_path / "nli.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read_triplets(tmp_path / "nli.tsv")


def test_triplets_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="absent.tsv: there is no such file. Check the path"):
        read_triplets(tmp_path / "absent.tsv")


def test_sentences_cut_alike_count_once(tokenizer):
    examples = [
        Example("1", "a doctor is helping", None, None),
        Example("2", "a doctor is a man", None, None),
    ]
    assert (
        len(unique_sentences(examples, tokenizer, 5)) == 1
        and len(unique_sentences(examples, tokenizer, 6)) == 2
    )


# --- the shuffles of BSC --------------------------------------------------------------------------


def directions(num_groups: int, size: int, spread: float) -> np.ndarray:
    """Groups of vectors of length 1, group g first, the later the tighter."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(num_groups, 1, 16))
    widths = spread * np.geomspace(1, 0.01, num_groups)[:, None, None]
    vectors = (centres + widths * rng.normal(size=(num_groups, size, 16))).reshape(-1, 16)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_neighbours_meet_and_the_tightest_come_last():
    alone, *groups = knn_order(directions(6, 8, 0.05), generator())
    assert not alone and sorted(sum(groups, [])) == list(range(48))
    assert [{index // 8 for index in group} for group in groups] == [{0}, {1}, {2}, {3}, {4}, {5}]


@pytest.mark.parametrize("noise", [1e-3, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_groups_have_three_to_eight_members(noise, seed):
    """Of 30 alike and two that are far from them: equal ones need not be among their own nearest."""
    far, near = np.eye(16, dtype=np.float32)[:2], np.tile(np.eye(16, dtype=np.float32)[5], (30, 1))
    near += noise * np.random.default_rng(1).normal(size=near.shape).astype(np.float32)
    alone, *groups = knn_order(np.concatenate([far, near]), generator(seed))
    assert sorted(sum(groups, alone)) == list(range(32))
    sizes = {len(group) for group in groups}
    assert min(sizes) >= 3 and max(sizes) == 8
    alone, *groups = knn_order(far, generator(seed))
    assert sorted(alone) == [0, 1] and not groups, "fewer than three of all"


def test_neighbours_are_searched_in_one_thread(monkeypatch):
    """Which of equally near ones are found depends on the number of threads, and the groups on them."""
    from sklearn import neighbors
    from threadpoolctl import threadpool_info

    def search(*arguments):
        seen.update(pool["num_threads"] for pool in threadpool_info())
        return kneighbors(*arguments)

    seen, kneighbors = set(), neighbors.NearestNeighbors.kneighbors
    monkeypatch.setattr(neighbors.NearestNeighbors, "kneighbors", search)
    knn_order(directions(6, 8, 0.05), generator())
    assert seen == {1}


@pytest.mark.parametrize("kind", ["knn", "cluster"])
def test_two_seeds_share_no_epochs_order(kind):
    vectors = torch.from_numpy(directions(6, 8, 0.05))
    orders = [
        tuple(Shuffle(kind, 48, 5, seed).order_of(epoch, vectors))
        for seed in range(3)
        for epoch in range(1, 5)
    ]
    assert len(set(orders)) == len(orders)


def test_each_kind_has_its_own_order():
    vectors, number = torch.from_numpy(directions(6, 8, 0.05)), SEED_STRIDE * 2 + 1
    neighbours = [
        index for group in knn_order(vectors.numpy(), generator(number)) for index in group
    ]
    clusters = cluster_order(vectors.numpy(), 48 // (BATCHES_PER_CLUSTER * 2), generator(number))
    assert [Shuffle(kind, 48, 2, seed=2).order_of(1, vectors) for kind in ("knn", "cluster")] == [
        neighbours,
        clusters,
    ]
    assert neighbours != clusters


def test_clusters_stay_together():
    vectors = directions(3, 10, 0.02)[np.random.default_rng(2).permutation(30)]
    order = cluster_order(vectors, 3, generator())
    assert sorted(order) == list(range(30))
    inside = [
        float(vectors[one] @ vectors[other]) for one, other in zip(order, order[1:], strict=False)
    ]
    assert sum(cosine < 0.9 for cosine in inside) == 2, "two borders between three clusters"
    assert order != cluster_order(vectors, 3, generator(1))
    assert sorted(cluster_order(vectors[:2], 0, generator())) == [0, 1]


@pytest.mark.parametrize("kind", ["knn", "cluster"])
def test_a_shuffle_serves_its_epoch_only(kind):
    shuffle = Shuffle(kind, 24, 5, seed=3)
    assert shuffle.batches(0) == shuffle.batches(1) == []
    vectors = torch.from_numpy(directions(6, 4, 0.05))
    shuffle.renew(1, shuffle.order_of(1, vectors))
    batches = shuffle.batches(1)
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 4]
    assert sorted(index for batch in batches for index in batch) == list(range(24))
    assert shuffle.batches(2) == shuffle.batches(0) == []
    other = Shuffle(kind, 24, 5, seed=3)
    other.load_state_dict(shuffle.state_dict())
    assert other.batches(1) == batches, "what a checkpoint brings back"
    other.renew(2, other.order_of(2, vectors))
    assert other.batches(1) == [] != other.batches(2) != batches, "each epoch draws its own"
