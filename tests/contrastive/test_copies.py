"""contrastive/methods.py, methods with a second encoder: contrastive tension's two copies, self-guided's frozen F."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from command_line.options import Options
from contrastive import methods
from contrastive.methods import (
    ContrastiveTension,
    MethodSetup,
    SelfGuided,
    SelfGuidedOpt,
    TensionInBatch,
)
from contrastive.options import SelfGuidedOptions
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from tests.contrastive.test_methods import FIRST, SECOND, agree, cos, mean_vectors

WIDTH = methods.GUIDED_WIDTH  # as the module has it; all tests here make it smaller


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return BertTokenizer.from_pretrained(tiny_model)


@pytest.fixture(autouse=True)
def _small_projection(monkeypatch):
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)


@pytest.fixture
def sentences(tokenizer):
    return EncodedExamples(
        [Example(f"s{n}", text, None, None) for n, text in enumerate(FIRST[:3] + SECOND[3:5])],
        tokenizer,
        32,
    ).batch(range(5))


@pytest.fixture
def tension(tiny_model):
    """Two copies that differ, and dropout in their configuration."""
    method = ContrastiveTension(
        MethodSetup(BertModel.from_pretrained(tiny_model), "mean", 1.0)
    ).train()
    with torch.no_grad():
        for parameter in method.second.parameters():
            parameter.add_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=0.02
            )
    return method


def test_contrastive_tension(tension, tokenizer):
    rows = EncodedExamples(
        [Example(f"s{n}", text, None, None) for n, text in enumerate(FIRST[:3])], tokenizer, 32
    )
    pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (2, 0)]
    batch = rows.batch([one for one, _ in pairs] + [other for _, other in pairs])
    alone = rows.batch([0, 1, 2])
    first, second = mean_vectors(tension.encoder, alone), mean_vectors(tension.second, alone)
    terms = [
        math.log1p(math.exp(-float((first[i] @ second[j]).detach()) * (1 if i == j else -1)))
        for i, j in pairs
    ]
    seen = []
    tension.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    found = tension(batch)
    agree(found, sum(terms) / 5)
    assert seen == [3], "a sentence is encoded once by each copy"
    assert not tension.training and not tension.encoder.training and not tension.second.training
    torch.testing.assert_close(tension(batch), found, rtol=0, atol=0)  # no dropout
    found.backward()
    once = [
        parameter.grad.clone() for parameter in tension.parameters() if parameter.grad is not None
    ]
    tension.zero_grad()
    first, second = (
        mean_vectors(encoder, rows.batch(side))  # each row by itself, as often as it comes
        for encoder, side in zip(
            (tension.encoder, tension.second), zip(*pairs, strict=True), strict=True
        )
    )
    signs = torch.tensor([1.0 if i == j else -1.0 for i, j in pairs])
    F.softplus(-signs * (torch.stack(first) * torch.stack(second)).sum(dim=1)).mean().backward()
    often = [parameter.grad for parameter in tension.parameters() if parameter.grad is not None]
    assert len(once) > 50 and len(once) == len(often)
    for one, other in zip(once, often, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_contrastive_tension_in_batch(tiny_model, sentences):
    method = TensionInBatch(MethodSetup(BertModel.from_pretrained(tiny_model), "mean", 0.05))
    assert method.scale.item() == pytest.approx(20.0)
    method.second.layers[1].feed_forward.up.weight.data.mul_(1.5)
    first, second = mean_vectors(method.encoder, sentences), mean_vectors(method.second, sentences)
    logits = torch.tensor([[cos(u, v) * 20 for v in second] for u in first])
    expected = (
        F.cross_entropy(logits, torch.arange(5)) + F.cross_entropy(logits.T, torch.arange(5))
    ) / 2
    agree(method(sentences), float(expected))


def test_copies_are_made_when_a_stage_begins(tiny_model):
    encoder = BertModel.from_pretrained(tiny_model)
    tension = ContrastiveTension(MethodSetup(encoder, "mean", 1.0))
    guided = SelfGuidedOpt(MethodSetup(encoder, "cls", 0.01), SelfGuidedOptions())
    encoder.layers[0].feed_forward.up.weight.data.add_(
        1.0
    )  # what an earlier stage of the chain does
    for copy in (tension.second, guided.guides[0]):
        assert not torch.equal(
            copy.layers[0].feed_forward.up.weight, encoder.layers[0].feed_forward.up.weight
        )
    tension.begin()
    guided.begin()
    for copy in (tension.second, guided.guides[0]):
        assert all(
            torch.equal(one, other)
            for one, other in zip(
                copy.state_dict().values(), encoder.state_dict().values(), strict=True
            )
        )
    assert not any(parameter.requires_grad for parameter in guided.guides[0].parameters())


def test_the_self_guided_projection(tiny_model, monkeypatch):
    """f: H -> 4096 -> GELU -> 4096 -> GELU; narrower here, since a product of 4,096 x 4,096 takes long."""
    assert WIDTH == 4096
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 8)
    encoder = BertModel.from_pretrained(tiny_model)
    method = SelfGuidedOpt(MethodSetup(encoder, "cls", 0.5), SelfGuidedOptions())
    first, second = (
        each for each in method.projection.modules() if isinstance(each, torch.nn.Linear)
    )
    x = torch.randn(3, encoder.config.hidden_size)
    expected = F.gelu(
        F.linear(F.gelu(F.linear(x, first.weight, first.bias)), second.weight, second.bias)
    )
    torch.testing.assert_close(method.projection(x), expected)
    assert expected.shape == (3, 8)


@pytest.mark.parametrize("state_pooling", ["max", "mean"])
@pytest.mark.parametrize("objective", ["nt-xent", "opt1", "opt2", "opt3"])
def test_self_guided(tiny_model, sentences, objective, state_pooling):
    encoder = BertModel.from_pretrained(tiny_model)  # T in training mode has dropout, F must not
    setup = MethodSetup(encoder, "cls", 0.5)
    if objective == "opt3":
        options = SelfGuidedOptions(sg_states=state_pooling)
        method = SelfGuidedOpt(setup, options).eval()
    else:
        options = SelfGuidedOptions(sg_loss=objective, sg_states=state_pooling)
        method = SelfGuided(setup, options).eval()
    encoder.layers[0].feed_forward.up.weight.data.add_(0.01)
    difference = (
        encoder.layers[0].feed_forward.up.weight - method.guides[0].layers[0].feed_forward.up.weight
    )
    cls, states = [], []
    for ids, mask in zip(
        sentences.input_ids, sentences.attention_mask, strict=True
    ):  # each row alone, unpadded
        row = ids[mask.bool()].unsqueeze(0)
        cls.append(encoder(row).last_hidden_state[0, 0])
        hidden = method.guides[0](row, output_hidden_states=True).hidden_states
        states.append(
            [state[0].amax(0) if state_pooling == "max" else state[0].mean(0) for state in hidden]
        )
    c = [method.projection(vector) for vector in cls]
    torch.manual_seed(3)
    chosen = torch.randint(3, (5,)).tolist()
    h = [method.projection(states[i][k]) for i, k in enumerate(chosen)]

    def phi(u, v):
        return math.exp(cos(u, v) / 0.5)

    def fraction(i):
        others = sum(phi(c[i], c[j]) for j in range(5) if j != i)
        candidates = sum(phi(c[i], h[j]) for j in range(5))
        return -math.log(phi(c[i], h[i]) / (candidates + (others if objective == "opt1" else 0)))

    if objective == "nt-xent":
        both = c + h
        expected = (
            sum(
                -math.log(
                    phi(both[i], both[(i + 5) % 10])
                    / sum(phi(both[i], both[j]) for j in range(10) if j != i)
                )
                for i in range(10)
            )
            / 10
        )
    elif objective == "opt3":
        all_h = [[method.projection(state) for state in row] for row in states]
        others = [
            sum(phi(c[i], state) for m in range(5) if m != i for state in all_h[m])
            for i in range(5)
        ]
        own = [(phi(c[i], all_h[i][k]), others[i]) for i in range(5) for k in range(3)]
        expected = sum(-math.log(one / (one + rest)) for one, rest in own) / 15
    else:
        expected = sum(map(fraction, range(5))) / 5
    torch.manual_seed(3)
    agree(method(sentences), expected + 0.1 * float(difference.detach().square().sum()))


def test_one_hidden_state_is_drawn_for_each_sentence_and_uniformly(
    tiny_model, sentences, monkeypatch
):
    """3 states, 400 batches of 5: chi-square with 2 degrees of freedom stays below 13.8 in 999 of 1,000 seeds."""
    method = SelfGuided(
        MethodSetup(BertModel.from_pretrained(tiny_model), "cls", 0.01),
        SelfGuidedOptions(sg_loss="opt2"),
    ).eval()
    monkeypatch.setattr(method, "projected", lambda batch: torch.zeros(5, 3))
    monkeypatch.setattr(
        method, "states", lambda batch: torch.arange(3.0).view(1, 3, 1).expand(5, 3, 3)
    )
    drawn = []
    method.projection = torch.nn.Identity()
    method.projection.register_forward_hook(
        lambda module, inputs, output: drawn.append(output[:, 0].tolist())
    )
    torch.manual_seed(0)
    for _ in range(400):
        method(sentences)
    assert any(len(set(row)) > 1 for row in drawn), "each sentence has its own"
    counts = [sum(row.count(float(state)) for row in drawn) for state in range(3)]
    assert sum((count - 2000 / 3) ** 2 / (2000 / 3) for count in counts) < 13.8


def test_the_guide_has_no_dropout_whatever_mode_is_asked_for(tiny_model, sentences):
    method = SelfGuidedOpt(
        MethodSetup(BertModel.from_pretrained(tiny_model), "cls", 0.01), SelfGuidedOptions()
    ).train()
    assert method.encoder.training and not method.guides[0].training
    torch.testing.assert_close(method.states(sentences), method.states(sentences), rtol=0, atol=0)
    assert not any(name.startswith("guides") for name in method.state_dict())
    assert set(map(id, method.frozen())) == set(map(id, method.encoder.embeddings.parameters()))


def test_every_method_is_built_from_its_options(tiny_model):
    """What build_method hands over; the values' effects are in test_contrastive_stages.py."""
    options = Options.of(
        pretrain="sg,sg-opt", sg_loss="opt1", sg_states="mean", sg_regulariser=0.5
    ).contrastive
    settings = SimpleNamespace(temperature=0.2, projection="none", chunk=7)
    encoder = BertModel.from_pretrained(tiny_model)
    method = methods.build_method("sg", options, settings, "cls", encoder)
    found = (
        method.pooling,
        method.temperature,
        method.objective,
        method.state_pooling,
        method.regulariser,
        method.chunk,
    )
    assert found == ("cls", 0.2, "opt1", "mean", 0.5, 7)
    built = methods.build_method("sg-opt", options, settings, "cls", encoder)
    assert isinstance(built, SelfGuidedOpt)
