"""contrastive/methods.py: the loss of a batch is its formula on vectors that are computed apart, in slow loops."""

import copy
import math

import pytest
import torch

from command_line.options import Options
from contrastive.methods import (
    BatchSoftmax,
    ContrastiveTension,
    MethodSetup,
    Ranking,
    SelfGuided,
    SelfGuidedOpt,
    SimCSE,
    SupervisedSimCSE,
    TensionInBatch,
    TripletSimCSE,
    build_method,
    make_projection,
)
from contrastive.negatives import no_negatives
from contrastive.options import BscOptions
from contrastive.presets import METHODS, settings_of
from contrastive.sentences import EncodedTriplets
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import pool

OPTIONS = Options.of().contrastive
FIRST = [
    "a doctor is helping",
    "the girl",
    "a tall soldier",
    "The Girl",
    "the hotel is good",
    "a man",
]
SECOND = [
    "a doctor helps",
    "the child",
    "the girl",
    "a woman",
    "the hotel is fine",
    "a doctor helps",
]
LABELS = [1.0, 1.0, 1.0, 1.0, 0.0, 0.56]
WORDS = {
    text.lower(): number
    for number, text in enumerate(dict.fromkeys(map(str.lower, FIRST + SECOND)))
}
A, B = (
    [WORDS[text.lower()] for text in FIRST],
    [WORDS[text.lower()] for text in SECOND],
)  # equal numbers: equal text


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture
def encoder(tiny_model):
    return BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


@pytest.fixture
def pairs(tokenizer):
    rows = [
        Example(str(n), a, b, label)
        for n, (a, b, label) in enumerate(zip(FIRST, SECOND, LABELS, strict=True))
    ]
    return EncodedExamples(rows, tokenizer, 32, pair_encoding="bi").batch(range(6))


@pytest.fixture
def sentences(tokenizer):
    return EncodedExamples(
        [Example(f"s{n}", text, None, None) for n, text in enumerate(FIRST[:3] + SECOND[3:5])],
        tokenizer,
        32,
    ).batch(range(5))


def softmax(encoder, temperature: float = 0.07, **options) -> BatchSoftmax:
    return BatchSoftmax(MethodSetup(encoder, "mean", temperature), BscOptions(**options))


def mean_vectors(encoder, batch) -> list[torch.Tensor]:
    """Each row alone, without its padding: the mean of its last hidden states, float64."""
    found = []
    for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True):
        state = encoder(ids[mask.bool()].unsqueeze(0)).last_hidden_state[0]
        found.append(state.mean(dim=0).double())
    return found


def cos(u, v) -> float:
    return float((u @ v / (u.norm() * v.norm())).detach())


def pushed(i: int, j: int, positive: list[bool]) -> bool:
    """Whether second j is a negative of first i: no chain of positive pairs leads from one text to the other."""
    reached = {A[i]}
    for _ in positive:
        reached |= {
            text
            for k, (one, other) in enumerate(zip(A, B, strict=True))
            if positive[k] and {one, other} & reached
            for text in (one, other)
        }
    return i != j and B[j] not in reached


def slow_softmax(similarity, positive: list[bool], symmetric: bool, temperature: float) -> float:
    """Rows (and columns) of pairs that belong together, over their own partner and what may be pushed; over B."""
    size, total = len(positive), 0.0
    for i in (i for i in range(size) if positive[i]):
        rows = [
            similarity(i, j) / temperature for j in range(size) if j == i or pushed(i, j, positive)
        ]
        columns = [
            similarity(j, i) / temperature for j in range(size) if j == i or pushed(j, i, positive)
        ]
        own = similarity(i, i) / temperature
        row, column = (math.log(sum(map(math.exp, each))) - own for each in (rows, columns))
        total += (row + column) / 2 if symmetric else row
    return total / size


def agree(found: torch.Tensor, expected: float) -> None:
    """fp32 through 2 layers; cosines over .05 magnify to 20 times: measured 5e-6, allow 1e-4."""
    assert float(found.detach()) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_what_is_no_negative(pairs):
    """Rows by hand. 1 and 3 have one first text, 0 and 5 one second text, and second 2 is the text of first 1 and 3, so
    that first 2 belongs together with what they have beside them.
    """
    first, second = pairs.input_ids.chunk(2)
    positive = [True, True, True, True, False, False]
    found = no_negatives(first, second, torch.tensor(positive))
    expected = {
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (1, 3),
        (3, 1),
        (0, 5),
        (1, 2),
        (3, 2),
        (2, 1),
        (2, 3),
    }
    assert {(i, j) for i in range(6) for j in range(6) if found[i, j]} == expected
    assert not found[5, 0], (
        "5 is a labelled negative of second 5: equal to second 0, which is pushed from first 5 too"
    )
    assert all(
        bool(found[i, j]) != pushed(i, j, positive) for i in range(6) for j in range(6) if i != j
    )


@pytest.mark.parametrize("pair_encoding", ["bi", "dual"])
def test_in_fusion_the_two_rows_of_an_example_are_no_negatives(encoder, tokenizer, pair_encoding):
    """Three pairs without a common text: row i is pushed from all rows but itself and the other one of its pair."""
    rows = [Example(str(n), FIRST[n], SECOND[n + 1], 1.0) for n in (0, 2, 4)]
    batch = EncodedExamples(rows, tokenizer, 32, pair_encoding).batch(range(3))
    vectors = pool(
        encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids),
        batch.attention_mask,
        "mean",
    )
    total = 0.0
    for i in range(6):
        terms = [
            math.exp(cos(vectors[i], vectors[j]) / 0.05) for j in range(6) if j == i or (i - j) % 3
        ]
        total += math.log(sum(terms)) - cos(vectors[i], vectors[i]) / 0.05
    agree(SimCSE(MethodSetup(encoder, "mean", 0.05))(batch), total / 6)


@pytest.mark.parametrize("kind", ["none", "tanh", "mlp"])
def test_projection(encoder, kind):
    vectors = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    weights = [module for module in make_projection(encoder, kind) if hasattr(module, "weight")]
    projection = make_projection(encoder, kind)
    assert len(weights) == {"none": 0, "tanh": 1, "mlp": 2}[kind]
    linear = [module for module in projection if hasattr(module, "weight")]
    match kind:
        case "tanh":
            expected = torch.tanh(vectors @ linear[0].weight.T + linear[0].bias)
        case "mlp":
            inner = (vectors @ linear[0].weight.T + linear[0].bias).clamp(min=0)
            expected = inner @ linear[1].weight.T + linear[1].bias
        case _:
            expected = vectors
    torch.testing.assert_close(projection(vectors), expected)


def test_simcse_does_not_push_equal_rows(encoder, tokenizer):
    """Without dropout both views are equal: two equal rows and a third give log 1 + e^.. by hand."""
    rows = EncodedExamples(
        [
            Example(str(n), text, None, None)
            for n, text in enumerate(["a man", "A man", "the girl"])
        ],
        tokenizer,
        32,
    )
    batch = rows.batch([0, 1, 2])
    vectors = mean_vectors(encoder, batch)
    term = math.log(1 + math.exp((cos(vectors[0], vectors[2]) - 1) / 0.05))
    last = math.log(1 + 2 * math.exp((cos(vectors[0], vectors[2]) - 1) / 0.05))
    agree(SimCSE(MethodSetup(encoder, "mean", 0.05))(batch), (2 * term + last) / 3)


def test_supervised_on_labelled_pairs(encoder, pairs):
    method = SupervisedSimCSE(MethodSetup(encoder, "mean", 0.05, "mlp"))
    rows = [method.projection.double()(vector) for vector in mean_vectors(encoder, pairs)]
    method.projection.float()
    expected = slow_softmax(
        lambda i, j: cos(rows[i], rows[6 + j]), [label > 0 for label in LABELS], False, 0.05
    )
    agree(method(pairs), expected)


def test_supervised_ends_with_unsupervised_batches(encoder, sentences):
    method = SupervisedSimCSE(MethodSetup(encoder, "mean", 0.05, "tanh"))
    plain = SimCSE(MethodSetup(encoder, "mean", 0.05, "none"))
    plain.projection = method.projection
    assert torch.equal(method(sentences, "sts"), plain(sentences))


@pytest.mark.parametrize("weight", [0.0, 1.5])
def test_supervised_on_triplets(encoder, tokenizer, weight):
    triplets = [
        ("a man", "a person", "the girl"),
        ("the hotel", "the good hotel", "a person"),
        ("A man", "someone", "a tall soldier"),
    ]
    rows = EncodedTriplets(triplets, tokenizer, 32)
    batch = rows.batch([0, 1, 2])
    assert batch.ids == ("triplet-0", "triplet-1", "triplet-2") * 3
    assert rows.lengths.tolist() == [
        max(map(len, tokenizer.encode(triplet)[0])) for triplet in triplets
    ]
    vectors = mean_vectors(encoder, batch)
    anchors, positives, hard = vectors[:3], vectors[3:6], vectors[6:]
    total = 0.0
    for i in range(3):
        below = sum(
            math.exp(cos(anchors[i], positives[j]) / 0.05) for j in range(3) if {i, j} != {0, 2}
        )  # one text
        below += sum(
            math.exp(cos(anchors[i], hard[j]) / 0.05 + (weight if i == j else 0))
            for j in range(3)
            if (i, j) not in ((0, 1), (2, 1))
        )  # the contradiction of 1 is what 0 entails, whose text 2 has
        total += math.log(below) - cos(anchors[i], positives[i]) / 0.05
    method = TripletSimCSE(MethodSetup(encoder, "mean", 0.05), weight)
    agree(method(batch), total / 3)


@pytest.mark.parametrize(("similarity", "temperature"), [("cos", 0.05), ("dot", 1.0)])
def test_ranking(encoder, pairs, similarity, temperature):
    vectors = mean_vectors(encoder, pairs)
    measure = cos if similarity == "cos" else lambda u, v: float((u @ v).detach())
    expected = slow_softmax(
        lambda i, j: measure(vectors[i], vectors[6 + j]), [True] * 6, False, temperature
    )
    agree(Ranking(MethodSetup(encoder, "mean", temperature), similarity)(pairs), expected)


@pytest.mark.parametrize("symmetric", ["yes", "no"])
def test_batch_softmax(encoder, pairs, symmetric):
    """A pair labelled .56 (an STS score of 2.8) does not belong together; its label still counts for `align`."""
    vectors = mean_vectors(encoder, pairs)
    positive = [label > 0.6 for label in LABELS]
    expected = slow_softmax(
        lambda i, j: cos(vectors[i], vectors[6 + j]), positive, symmetric == "yes", 0.07
    )
    agree(softmax(encoder, bsc_symmetric=symmetric)(pairs), expected)
    errors = sum((cos(vectors[i], vectors[6 + i]) - LABELS[i]) ** 2 for i in range(6)) / 6
    found = softmax(encoder, bsc_symmetric=symmetric, bsc_align=0.3)(pairs)
    agree(found, 0.3 * expected + 0.7 * errors)


def test_batch_softmax_learns_its_scale(encoder, pairs):
    method = softmax(encoder, bsc_temperature_lr=1e-3)
    assert method.scale.item() == 1.0 and "scale" in dict(method.named_parameters())
    vectors = mean_vectors(encoder, pairs)
    positive = [label > 0.6 for label in LABELS]
    agree(
        method(pairs),
        slow_softmax(lambda i, j: cos(vectors[i], vectors[6 + j]), positive, True, 1.0),
    )
    method(pairs).backward()
    assert method.scale.grad is not None and method.scale.grad != 0
    method.scale.data.fill_(20.0)
    agree(
        method(pairs),
        slow_softmax(lambda i, j: cos(vectors[i], vectors[6 + j]), positive, True, 0.05),
    )


def test_other_normalisations_are_other_losses(encoder, pairs):
    found = [
        softmax(encoder, 1.0, bsc_normalise=each)(pairs).item() for each in ("l2", "batch", "none")
    ]
    assert len(set(found)) == 3


def test_each_name_is_its_own_method_and_no_other_name_is_one(encoder):
    made = {
        name: type(
            build_method(
                name, OPTIONS, settings_of(name, OPTIONS, 24, "cpu"), "mean", copy.deepcopy(encoder)
            )
        )
        for name in METHODS
    }
    assert made == {
        "simcse": SimCSE,
        "simcse-supervised": SupervisedSimCSE,
        "simcse-nli": TripletSimCSE,
        "mnr": Ranking,
        "bsc": BatchSoftmax,
        "ct": ContrastiveTension,
        "ct-in-batch": TensionInBatch,
        "sg": SelfGuided,
        "sg-opt": SelfGuidedOpt,
    }
    with pytest.raises(KeyError, match="cosent"):
        build_method("cosent", OPTIONS, settings_of("simcse", OPTIONS, 24, "cpu"), "mean", encoder)
