"""contrastive/methods.py: the loss of a batch is its formula on vectors that are computed apart.

Each expected loss is a slow loop over sentences that go through the encoder one by one.
"""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from contrastive import methods
from contrastive.losses import info_nce
from contrastive.methods import (
    BatchSoftmax,
    ContrastiveTension,
    Matryoshka,
    MethodSetup,
    SelfGuided,
    SelfGuidedOpt,
    SimCSE,
    SupervisedSimCSE,
    TensionInBatch,
    TripletSimCSE,
    make_projection,
)
from contrastive.negatives import no_negatives
from contrastive.options import BscOptions, ContrastiveOptions
from contrastive.registry import METHODS
from contrastive.sentences import EncodedGroups
from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.commands.options import with_values
from minbert.pooling import pool

# Six pairs. Some texts come twice, once in other letters.
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
BELONG_TOGETHER = [label > 0.6 for label in LABELS]  # as [BSC] has it


def number_texts() -> dict[str, int]:
    """A number for each text."""
    numbers: dict[str, int] = {}
    for text in FIRST + SECOND:
        numbers.setdefault(text.lower(), len(numbers))
    return numbers


# Equal numbers: equal text.
NUMBERS = number_texts()
A = [NUMBERS[text.lower()] for text in FIRST]
B = [NUMBERS[text.lower()] for text in SECOND]

GUIDED_WIDTH = methods.GUIDED_WIDTH  # as the module has it; the tests make it smaller


@pytest.fixture(autouse=True)
def _small_projection(monkeypatch):
    """A product of 4,096 x 4,096 takes long."""
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture
def encoder(tiny_model):
    """Without dropout."""
    return BertModel.from_pretrained(
        tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def singles(texts, tokenizer) -> EncodedExamples:
    """Single sentences, each with an id of its own."""
    examples = [Example(f"s{n}", text, None, None) for n, text in enumerate(texts)]
    return EncodedExamples(examples, tokenizer, 32)


@pytest.fixture
def pairs(tokenizer):
    rows = []
    for n, (first, second, label) in enumerate(zip(FIRST, SECOND, LABELS, strict=True)):
        rows.append(Example(str(n), first, second, label))
    return EncodedExamples(rows, tokenizer, 32, pair_encoding="bi").batch(range(6))


@pytest.fixture
def sentences(tokenizer):
    """Five different sentences."""
    return singles(FIRST[:3] + SECOND[3:5], tokenizer).batch(range(5))


# --- slow loops -----------------------------------------------------------------------------------


def mean_vectors(encoder, batch) -> list[torch.Tensor]:
    """Each row alone, without its padding: the mean of its last hidden states, float64."""
    vectors = []
    for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True):
        state = encoder(ids[mask.bool()].unsqueeze(0)).last_hidden_state[0]
        vectors.append(state.mean(dim=0).double())
    return vectors


def cos(u, v) -> float:
    return float((u @ v / (u.norm() * v.norm())).detach())


def pushed(i: int, j: int, positive: list[bool]) -> bool:
    """Whether second j is a negative of first i: no chain of positive pairs joins their texts."""
    reached = {A[i]}
    for _ in positive:
        for k, (one, other) in enumerate(zip(A, B, strict=True)):
            if positive[k] and {one, other} & reached:
                reached |= {one, other}
    return i != j and B[j] not in reached


def slow_softmax(similarity, positive: list[bool], symmetric: bool, temperature: float) -> float:
    """The softmax over rows, and over columns, of the pairs that belong together; divided by B.

    The candidates of a sentence are its own partner and what may be pushed from it.
    """
    size = len(positive)
    total = 0.0
    for i in range(size):
        if not positive[i]:
            continue
        row = 0.0
        column = 0.0
        for j in range(size):
            if j == i or pushed(i, j, positive):
                row += math.exp(similarity(i, j) / temperature)
            if j == i or pushed(j, i, positive):
                column += math.exp(similarity(j, i) / temperature)
        own = similarity(i, i) / temperature
        over_row = math.log(row) - own
        over_column = math.log(column) - own
        total += (over_row + over_column) / 2 if symmetric else over_row
    return total / size


def assert_agree(loss: torch.Tensor, expected: float) -> None:
    """fp32 through 2 layers; dividing by .05 makes errors 20 times as large. Measured 5e-6."""
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4, abs=1e-4)


# --- what is no negative --------------------------------------------------------------------------


def test_no_negatives_by_hand(pairs):
    """Rows 1 and 3 have one first text, rows 0 and 5 have one second text.

    Second 2 is the text of first 1 and 3. So first 2 belongs together with their second sentences.
    """
    first, second = pairs.input_ids.chunk(2)
    positive = [True, True, True, True, False, False]
    masked = no_negatives(first, second, torch.tensor(positive))
    expected = {(n, n) for n in range(4)}
    expected |= {(1, 3), (3, 1), (0, 5), (1, 2), (3, 2), (2, 1), (2, 3)}
    assert {(i, j) for i, j in masked.nonzero().tolist()} == expected
    assert not masked[5, 0], (
        "5 is a labelled negative of second 5: equal to second 0, which is pushed from first 5 too"
    )
    for i in range(6):
        for j in range(6):
            assert i == j or bool(masked[i, j]) != pushed(i, j, positive)


@pytest.mark.parametrize("pair_encoding", ["bi", "dual"])
def test_in_fusion_the_two_rows_of_an_example_are_no_negatives(encoder, tokenizer, pair_encoding):
    """Three pairs without a common text: row i is pushed from all but itself and its partner."""
    rows = [Example(str(n), FIRST[n], SECOND[n + 1], 1.0) for n in (0, 2, 4)]
    batch = EncodedExamples(rows, tokenizer, 32, pair_encoding).batch(range(3))
    output = encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids)
    vectors = pool(output, batch.attention_mask, "mean")
    total = 0.0
    for i in range(6):
        below = 0.0
        for j in range(6):
            if j == i or (i - j) % 3 != 0:
                below += math.exp(cos(vectors[i], vectors[j]) / 0.05)
        total += math.log(below) - cos(vectors[i], vectors[i]) / 0.05
    assert_agree(SimCSE(MethodSetup(encoder, "mean", 0.05))(batch), total / 6)


# --- projections ----------------------------------------------------------------------------------


def linear_layers(projection) -> list[torch.nn.Linear]:
    return [module for module in projection.modules() if isinstance(module, torch.nn.Linear)]


@pytest.mark.parametrize(("kind", "num_layers"), [("none", 0), ("tanh", 1), ("mlp", 2)])
def test_projection(encoder, kind, num_layers):
    vectors = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    projection = make_projection(encoder, kind)
    layers = linear_layers(projection)
    assert len(layers) == num_layers
    match kind:
        case "tanh":
            expected = torch.tanh(vectors @ layers[0].weight.T + layers[0].bias)
        case "mlp":
            inner = (vectors @ layers[0].weight.T + layers[0].bias).clamp(min=0)
            expected = inner @ layers[1].weight.T + layers[1].bias
        case _:
            expected = vectors
    torch.testing.assert_close(projection(vectors), expected)


def test_the_self_guided_projection(tiny_model, monkeypatch):
    """H -> 4096 -> GELU -> 4096 -> GELU; narrower here."""
    assert GUIDED_WIDTH == 4096
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 8)
    encoder = BertModel.from_pretrained(tiny_model)
    method = SelfGuidedOpt(MethodSetup(encoder, "cls", 0.5, "guided"))
    first, second = linear_layers(method.projection)
    x = torch.randn(3, encoder.config.hidden_size)
    inner = F.gelu(F.linear(x, first.weight, first.bias))
    expected = F.gelu(F.linear(inner, second.weight, second.bias))
    torch.testing.assert_close(method.projection(x), expected)
    assert expected.shape == (3, 8)


# --- SimCSE and its supervised forms --------------------------------------------------------------


def test_simcse_is_its_formula(tiny_model, tokenizer):
    """Two dropout masks from one pass of 2B rows, projected by linear and tanh, then info_nce."""
    encoder = BertModel.from_pretrained(tiny_model)
    method = SimCSE(MethodSetup(encoder, "mean", 0.05, "tanh")).train()
    texts = ["a doctor is helping the girl", "a tall soldier", "the hotel"]
    batch = singles(texts, tokenizer).batch([0, 1, 2])
    torch.manual_seed(0)
    loss = method(batch)

    # By hand, with the same draws.
    torch.manual_seed(0)
    input_ids = batch.input_ids.repeat(2, 1)
    attention_mask = batch.attention_mask.repeat(2, 1)
    vectors = pool(encoder(input_ids, attention_mask), attention_mask, "mean")
    linear = method.projection[0]
    first, second = torch.tanh(vectors @ linear.weight.T + linear.bias).split(3)
    torch.testing.assert_close(loss, info_nce(first, second, 0.05), rtol=1e-5, atol=1e-6)  # fp32
    assert not torch.equal(first, second), "dropout differs between the views"

    # Without dropout the views agree.
    encoder.eval()
    vectors = pool(encoder(input_ids, attention_mask), attention_mask, "mean")
    torch.testing.assert_close(vectors[:3], vectors[3:], rtol=0, atol=1e-6)


def test_simcse_does_not_push_equal_rows(encoder, tokenizer):
    """Without dropout both views are equal. Two rows are equal, and the third one is not."""
    batch = singles(["a man", "A man", "the girl"], tokenizer).batch([0, 1, 2])
    vectors = mean_vectors(encoder, batch)
    other = math.exp((cos(vectors[0], vectors[2]) - 1) / 0.05)
    term = math.log(1 + other)  # of each of the two
    last = math.log(1 + 2 * other)
    assert_agree(SimCSE(MethodSetup(encoder, "mean", 0.05))(batch), (2 * term + last) / 3)


def test_supervised_on_labelled_pairs(encoder, pairs):
    method = SupervisedSimCSE(MethodSetup(encoder, "mean", 0.05, "mlp"))
    method.projection.double()
    rows = [method.projection(vector) for vector in mean_vectors(encoder, pairs)]
    method.projection.float()
    positive = [label > 0 for label in LABELS]
    expected = slow_softmax(lambda i, j: cos(rows[i], rows[6 + j]), positive, False, 0.05)
    assert_agree(method(pairs), expected)


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
    rows = EncodedGroups(triplets, tokenizer, 32)
    batch = rows.batch([0, 1, 2])
    assert batch.ids == ("triplet-0", "triplet-1", "triplet-2")
    longest = [max(map(len, tokenizer.encode(triplet)[0])) for triplet in triplets]
    assert rows.lengths.tolist() == longest

    # First 0 and 2 have one text. The contradiction of 1 is what 0 entails.
    no_positive = ({0, 2},)
    no_hard_negative = ((0, 1), (2, 1))
    vectors = mean_vectors(encoder, batch)
    anchors, positives, hard = vectors[:3], vectors[3:6], vectors[6:]
    total = 0.0
    for i in range(3):
        below = 0.0
        for j in range(3):
            if {i, j} not in no_positive:
                below += math.exp(cos(anchors[i], positives[j]) / 0.05)
            if (i, j) not in no_hard_negative:
                own_weight = weight if i == j else 0.0
                below += math.exp(cos(anchors[i], hard[j]) / 0.05 + own_weight)
        total += math.log(below) - cos(anchors[i], positives[i]) / 0.05
    method = TripletSimCSE(MethodSetup(encoder, "mean", 0.05), weight)
    assert_agree(method(batch), total / 3)


# --- multiple negatives ranking and batch softmax -------------------------------------------------


@pytest.mark.parametrize(("similarity", "temperature"), [("cos", 0.05), ("dot", 1.0)])
def test_ranking(encoder, pairs, similarity, temperature):
    vectors = mean_vectors(encoder, pairs)

    def measure(i: int, j: int) -> float:
        u, v = vectors[i], vectors[6 + j]
        return cos(u, v) if similarity == "cos" else float((u @ v).detach())

    expected = slow_softmax(measure, [True] * 6, False, temperature)
    options = with_values(ContrastiveOptions(), mnr_similarity=similarity)
    settings = replace(METHODS["mnr"].preset, temperature=temperature)
    method = methods.build_method("mnr", options.of_method, settings, "mean", encoder)
    # Its pairs all belong together.
    assert_agree(method(replace(pairs, labels=torch.ones(6))), expected)


@pytest.mark.parametrize(
    ("widths", "expected"), [("halves", (4, 8, 16, 32)), ("16,2", (2, 16, 32)), ("2,2", (2, 32))]
)
def test_matryoshka_compares_the_first_units_and_all(encoder, pairs, widths, expected):
    method = Matryoshka(MethodSetup(encoder, "mean", 0.05), widths)
    assert method.widths == expected
    vectors = mean_vectors(encoder, pairs)
    total = 0.0
    for width in expected:
        cut = [vector[:width] for vector in vectors]
        total += slow_softmax(
            lambda i, j, cut=cut: cos(cut[i], cut[6 + j]), [True] * 6, False, 0.05
        )
    assert_agree(method(replace(pairs, labels=torch.ones(6))), total)


def test_a_width_beyond_the_vectors_is_refused(encoder):
    with pytest.raises(ValueError, match=r"--matryoshka_widths is 8,32; the encoder's .* 32 units"):
        Matryoshka(MethodSetup(encoder, "mean", 0.05), "8,32")
    for words in ("8,x", "", "0,4"):
        with pytest.raises(ValueError, match="it is halves, or whole numbers above 0"):
            with_values(ContrastiveOptions(), matryoshka_widths=words)


def softmax(encoder, temperature: float = 0.07, **options) -> BatchSoftmax:
    return BatchSoftmax(MethodSetup(encoder, "mean", temperature), **options)


def slow_batch_softmax(encoder, pairs, symmetric: bool, temperature: float) -> float:
    vectors = mean_vectors(encoder, pairs)

    def measure(i: int, j: int) -> float:
        return cos(vectors[i], vectors[6 + j])

    return slow_softmax(measure, BELONG_TOGETHER, symmetric, temperature)


def slow_label_error(encoder, pairs) -> float:
    vectors = mean_vectors(encoder, pairs)
    return sum((cos(vectors[i], vectors[6 + i]) - LABELS[i]) ** 2 for i in range(6)) / 6


@pytest.mark.parametrize("symmetric", ["yes", "no"])
def test_batch_softmax(encoder, pairs, symmetric):
    """A pair labelled .56, an STS score of 2.8, does not belong together.

    Its label still counts for --bsc_align.
    """
    expected = slow_batch_softmax(encoder, pairs, symmetric == "yes", 0.07)
    assert_agree(softmax(encoder, symmetric=symmetric)(pairs), expected)
    aligned = softmax(encoder, symmetric=symmetric, align=0.3)
    assert_agree(aligned(pairs), 0.3 * expected + 0.7 * slow_label_error(encoder, pairs))


@pytest.mark.parametrize("normalise", ["l2", "batch", "none"])
def test_align_pulls_the_vectors_as_they_are(encoder, pairs, normalise):
    """Whatever the softmax divides them by."""
    alone = softmax(encoder, 1.0, normalise=normalise)(pairs).item()
    aligned = softmax(encoder, 1.0, normalise=normalise, align=0.3)
    assert_agree(aligned(pairs), 0.3 * alone + 0.7 * slow_label_error(encoder, pairs))


@pytest.mark.parametrize("share", [0.0, 2.0])
def test_a_share_that_is_none(share):
    with pytest.raises(ValueError, match=f"--bsc_align is {share}"):
        BscOptions(bsc_align=share)


def test_batch_softmax_trains_its_scale(encoder, pairs):
    method = softmax(encoder, temperature_lr=1e-3)
    assert method.scale.item() == 1.0
    assert "scale" in dict(method.named_parameters())
    assert_agree(method(pairs), slow_batch_softmax(encoder, pairs, True, 1.0))
    method(pairs).backward()
    assert method.scale.grad is not None
    assert method.scale.grad != 0
    method.scale.data.fill_(20.0)
    assert_agree(method(pairs), slow_batch_softmax(encoder, pairs, True, 0.05))


def test_other_normalisations_are_other_losses(encoder, pairs):
    kinds = ("l2", "batch", "none")
    losses = {softmax(encoder, 1.0, normalise=kind)(pairs).item() for kind in kinds}
    assert len(losses) == 3


# --- contrastive tension: two copies --------------------------------------------------------------


@pytest.fixture
def tension(tiny_model):
    """Two copies that differ, and dropout in their configuration."""
    encoder = BertModel.from_pretrained(tiny_model)
    method = ContrastiveTension(MethodSetup(encoder, "mean", 1.0)).train()
    with torch.no_grad():
        for parameter in method.second.parameters():
            generator = torch.Generator().manual_seed(1)
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.02)
    return method


TENSION_PAIRS = [(0, 0), (0, 1), (0, 2), (1, 1), (2, 0)]  # numbers of sentences


def gradients_of(module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


def test_contrastive_tension(tension, tokenizer):
    rows = singles(FIRST[:3], tokenizer)
    firsts = [one for one, _ in TENSION_PAIRS]
    seconds = [other for _, other in TENSION_PAIRS]
    alone = rows.batch([0, 1, 2])
    first = mean_vectors(tension.encoder, alone)
    second = mean_vectors(tension.second, alone)
    total = 0.0
    for i, j in TENSION_PAIRS:
        z = float((first[i] @ second[j]).detach())
        total += math.log1p(math.exp(-z if i == j else z))

    num_rows = []
    tension.encoder.register_forward_pre_hook(
        lambda module, inputs: num_rows.append(len(inputs[0]))
    )
    batch = rows.batch(firsts + seconds)
    loss = tension(batch)
    assert_agree(loss, total / 5)
    assert num_rows == [3], "a sentence is encoded once by each copy"
    assert not tension.training
    assert not tension.encoder.training
    assert not tension.second.training
    torch.testing.assert_close(tension(batch), loss, rtol=0, atol=0)  # no dropout


def test_the_gradient_of_a_sentence_that_is_encoded_once(tension, tokenizer):
    """It is that of encoding each row by itself, as often as it comes."""
    rows = singles(FIRST[:3], tokenizer)
    firsts = [one for one, _ in TENSION_PAIRS]
    seconds = [other for _, other in TENSION_PAIRS]
    tension(rows.batch(firsts + seconds)).backward()
    once = gradients_of(tension)
    tension.zero_grad()

    first = torch.stack(mean_vectors(tension.encoder, rows.batch(firsts)))
    second = torch.stack(mean_vectors(tension.second, rows.batch(seconds)))
    signs = torch.tensor([1.0 if i == j else -1.0 for i, j in TENSION_PAIRS])
    F.softplus(-signs * (first * second).sum(dim=1)).mean().backward()
    often = gradients_of(tension)
    assert len(once) > 50
    assert len(once) == len(often)
    for one, other in zip(once, often, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_contrastive_tension_in_batch(tiny_model, sentences):
    encoder = BertModel.from_pretrained(tiny_model)
    method = TensionInBatch(MethodSetup(encoder, "mean", 0.05))
    assert method.scale.item() == pytest.approx(20.0)
    method.second.layers[1].feed_forward.up.weight.data.mul_(1.5)
    first = mean_vectors(method.encoder, sentences)
    second = mean_vectors(method.second, sentences)
    logits = torch.empty(5, 5)
    for i, u in enumerate(first):
        for j, v in enumerate(second):
            logits[i, j] = cos(u, v) * 20
    answers = torch.arange(5)
    expected = (F.cross_entropy(logits, answers) + F.cross_entropy(logits.T, answers)) / 2
    assert_agree(method(sentences), float(expected))


@pytest.mark.parametrize("is_in_batch", [False, True])
def test_each_copy_has_a_projection_of_its_own(tiny_model, tokenizer, is_in_batch):
    """z is the product of tanh(W u) and tanh(W' v), or their cosine times 20."""
    encoder = BertModel.from_pretrained(tiny_model)
    cls, temperature = (TensionInBatch, 0.05) if is_in_batch else (ContrastiveTension, 1.0)
    method = cls(MethodSetup(encoder, "mean", temperature, "tanh"))
    layer, other = method.projection[0], method.second_projection[0]
    assert torch.equal(layer.weight, other.weight) and layer.weight is not other.weight
    # Larger than at their start, and the opposite of each other.
    layer.weight.data.normal_(std=0.3, generator=torch.Generator().manual_seed(1))
    other.weight.data.copy_(-layer.weight)
    rows = singles(FIRST[:3], tokenizer)
    batch = rows.batch([0, 1, 2] if is_in_batch else [0, 1, 0, 2])  # else pairs (0, 0), (1, 2)

    def slow_loss(second_layer) -> float:
        vectors = mean_vectors(encoder, rows.batch([0, 1, 2]))
        first = [torch.tanh(layer.double()(vector)) for vector in vectors]
        second = [torch.tanh(second_layer.double()(vector)) for vector in vectors]
        if is_in_batch:
            logits = torch.empty(3, 3)
            for i, u in enumerate(first):
                logits[i] = torch.tensor([20 * cos(u, v) for v in second])
            answers = torch.arange(3)
            both = F.cross_entropy(logits, answers) + F.cross_entropy(logits.T, answers)
            return float(both / 2)
        products = (first[0] @ second[0]).item(), (first[1] @ second[2]).item()
        return (math.log1p(math.exp(-products[0])) + math.log1p(math.exp(products[1]))) / 2

    loss = method(batch)
    loss.backward()
    assert layer.weight.grad.abs().sum() > 0 and other.weight.grad.abs().sum() > 0
    assert_agree(loss, slow_loss(other))
    assert abs(loss.item() - slow_loss(layer)) > 1e-2, "one projection for both is another loss"
    names = set(method.trained_projection().state_dict())
    expected = set()
    for copy in method.copies():
        expected |= {f"{copy}.0.weight", f"{copy}.0.bias"}
    assert names == expected


def test_copies_are_made_when_a_stage_begins(tiny_model):
    encoder = BertModel.from_pretrained(tiny_model)
    tension = ContrastiveTension(MethodSetup(encoder, "mean", 1.0))
    guided = SelfGuidedOpt(MethodSetup(encoder, "cls", 0.01))
    copies = (tension.second, guided.guides[0])

    # An earlier stage of the chain trains the encoder.
    weight = encoder.layers[0].feed_forward.up.weight
    weight.data.add_(1.0)
    for copy in copies:
        assert not torch.equal(copy.layers[0].feed_forward.up.weight, weight)

    tension.begin()
    guided.begin()
    for copy in copies:
        state = copy.state_dict()
        assert all(torch.equal(state[name], value) for name, value in encoder.state_dict().items())
    assert not any(parameter.requires_grad for parameter in guided.guides[0].parameters())


# --- self-guided: a frozen copy -------------------------------------------------------------------


def build_guided(encoder, objective: str, temperature: float = 0.01, **options) -> SelfGuided:
    """The method with --pooling cls. objective: a value of --sg_loss, or "opt3" for SG-OPT."""
    setup = MethodSetup(encoder, "cls", temperature, "guided")
    if objective == "opt3":
        return SelfGuidedOpt(setup, **options)
    return SelfGuided(setup, objective=objective, **options)


def phi(u, v) -> float:
    return math.exp(cos(u, v) / 0.5)


def slow_nt_xent(c, h) -> float:
    vectors = c + h
    total = 0.0
    for i in range(10):
        below = sum(phi(vectors[i], vectors[j]) for j in range(10) if j != i)
        total -= math.log(phi(vectors[i], vectors[(i + 5) % 10]) / below)
    return total / 10


def slow_one_state(c, h, has_others: bool) -> float:
    """opt1, with the other c_j as negatives, or opt2."""
    total = 0.0
    for i in range(5):
        below = sum(phi(c[i], h[j]) for j in range(5))
        if has_others:
            below += sum(phi(c[i], c[j]) for j in range(5) if j != i)
        total -= math.log(phi(c[i], h[i]) / below)
    return total / 5


def slow_all_states(c, states) -> float:
    """opt3. states[i][k]: hidden state k of sentence i."""
    total = 0.0
    for i in range(5):
        others = 0.0
        for m in range(5):
            if m != i:
                others += sum(phi(c[i], state) for state in states[m])
        for state in states[i]:
            own = phi(c[i], state)
            total -= math.log(own / (own + others))
    return total / 15


@pytest.mark.parametrize("state_pooling", ["max", "mean"])
@pytest.mark.parametrize("objective", ["nt-xent", "opt1", "opt2", "opt3"])
def test_self_guided(tiny_model, sentences, objective, state_pooling):
    encoder = BertModel.from_pretrained(tiny_model)
    method = build_guided(encoder, objective, 0.5, state_pooling=state_pooling).eval()
    weight = encoder.layers[0].feed_forward.up.weight
    weight.data.add_(0.01)
    difference = weight - method.guides[0].layers[0].feed_forward.up.weight

    # Each row alone, without padding: c_i of T, and all hidden states of F.
    c = []
    states = []
    for ids, mask in zip(sentences.input_ids, sentences.attention_mask, strict=True):
        row = ids[mask.bool()].unsqueeze(0)
        c.append(method.projection(encoder(row).last_hidden_state[0, 0]))
        hidden = method.guides[0](row, output_hidden_states=True).hidden_states
        if state_pooling == "max":
            pooled = [state[0].amax(0) for state in hidden]
        else:
            pooled = [state[0].mean(0) for state in hidden]
        states.append([method.projection(state) for state in pooled])

    # One state for each sentence, by the draw that the method will make.
    torch.manual_seed(3)
    drawn = torch.randint(3, (5,)).tolist()
    h = [states[i][k] for i, k in enumerate(drawn)]
    expected = {
        "nt-xent": lambda: slow_nt_xent(c, h),
        "opt1": lambda: slow_one_state(c, h, has_others=True),
        "opt2": lambda: slow_one_state(c, h, has_others=False),
        "opt3": lambda: slow_all_states(c, states),
    }[objective]()
    torch.manual_seed(3)
    assert_agree(method(sentences), expected + 0.1 * float(difference.detach().square().sum()))


@pytest.mark.parametrize("pooling", ["cls", "pooler"])
def test_the_regulariser_counts_the_weights_that_are_trained(tiny_model, pooling):
    """The pooler is trained only where it makes the vectors. The embeddings are frozen."""
    encoder = BertModel.from_pretrained(tiny_model)
    method = SelfGuided(MethodSetup(encoder, pooling, 0.5))
    for parameter in method.frozen():
        parameter.requires_grad_(False)
    with torch.no_grad():
        encoder.layers[0].feed_forward.up.bias.add_(0.5)
        encoder.pooler.bias.add_(2.0)
        encoder.embeddings.word.weight.add_(1.0)
    expected = 0.25 * encoder.config.intermediate_size
    if pooling == "pooler":
        expected += 4.0 * encoder.config.hidden_size
    assert method.distance().item() == pytest.approx(expected)


def test_one_hidden_state_is_drawn_for_each_sentence_and_uniformly(
    tiny_model, sentences, monkeypatch
):
    """3 states, 400 batches of 5: in 999 of 1,000 seeds chi-square (2 degrees) is below 13.8."""
    method = build_guided(BertModel.from_pretrained(tiny_model), "opt2").eval()
    numbers = torch.arange(3.0).view(1, 3, 1).expand(5, 3, 3)  # state k holds the number k
    monkeypatch.setattr(method, "projected", lambda batch: torch.zeros(5, 3))
    monkeypatch.setattr(method, "states", lambda batch: numbers)
    drawn = []
    method.projection = torch.nn.Identity()
    method.projection.register_forward_hook(
        lambda module, inputs, output: drawn.append(output[:, 0].tolist())
    )
    torch.manual_seed(0)
    for _ in range(400):
        method(sentences)
    assert any(len(set(row)) > 1 for row in drawn), "each sentence has its own"
    expected = 2000 / 3
    chi_square = 0.0
    for state in range(3):
        count = sum(row.count(float(state)) for row in drawn)
        chi_square += (count - expected) ** 2 / expected
    assert chi_square < 13.8


def test_the_guide_has_no_dropout_whatever_mode_is_asked_for(tiny_model, sentences):
    method = build_guided(BertModel.from_pretrained(tiny_model), "opt3").train()
    assert method.encoder.training
    assert not method.guides[0].training
    torch.testing.assert_close(method.states(sentences), method.states(sentences), rtol=0, atol=0)
    assert not any(name.startswith("guides") for name in method.state_dict())
    embeddings = method.encoder.embeddings.parameters()
    assert set(map(id, method.frozen())) == set(map(id, embeddings))


def test_a_method_takes_its_options(tiny_model):
    """The effects of the values are in test_options.py."""
    options = with_values(
        ContrastiveOptions(), sg_loss="opt1", sg_states="mean", sg_regulariser=0.5
    )
    settings = replace(METHODS["sg"].preset, temperature=0.2, chunk=7)
    encoder = BertModel.from_pretrained(tiny_model)
    method = methods.build_method("sg", options.of_method, settings, "cls", encoder)
    assert (method.pooling, method.temperature, method.chunk) == ("cls", 0.2, 7)
    assert (method.objective, method.state_pooling, method.regulariser) == ("opt1", "mean", 0.5)


def test_a_stage_gives_a_method_its_settings(tiny_model):
    options = ContrastiveOptions()
    for name, entry in METHODS.items():
        encoder = BertModel.from_pretrained(tiny_model)
        method = methods.build_method(name, options.of_method, entry.preset, "cls", encoder)
        assert method.pooling == "cls"
        assert method.temperature == entry.preset.temperature
        assert method.chunk == entry.preset.chunk
