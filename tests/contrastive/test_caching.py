"""contrastive/caching.py: the gradients of a batch in pieces, and that one piece at most is in memory.

Dropout is on, so that the second encoding has masks to repeat. What pieces are compared with is the same pieces with
every intermediate result kept, and without dropout the batch as a whole.
"""

import weakref
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from command_line.options import Options
from contrastive import caching, methods
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
)
from contrastive.options import BscOptions, SelfGuidedOptions
from contrastive.presets import METHODS
from contrastive.sentences import EncodedTriplets
from contrastive.stage import build_companion
from data.batching import Batch, EncodedExamples
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.training import runtime
from tests.toy_options import options_of, refusal

FIRST = [
    "a doctor is helping",
    "the girl",
    "a tall soldier",
    "a man",
    "the hotel is good and the girl is tall",
    "it",
]
SECOND = [
    "a doctor helps the girl in the hotel",
    "the child",
    "it",
    "a woman",
    "the hotel is fine",
    "one",
]
LABELS = [1.0, 1.0, 1.0, 1.0, 0.0, 0.5]
MAKERS = {  # every method; those of pairs have 12 rows, SimCSE 12 too, triplets 9, the self-guided ones 6
    "simcse": ("sentences", SimCSE, 0.05, "tanh", ()),
    "simcse-supervised": ("pairs", SupervisedSimCSE, 0.05, "mlp", ()),
    "simcse-nli": ("triplets", TripletSimCSE, 0.05, "tanh", ()),
    "mnr": ("pairs", Ranking, 0.05, "none", ("cos",)),
    "bsc": ("pairs", BatchSoftmax, 0.07, "none", (BscOptions(bsc_align=0.3),)),
    "bsc, temperature learns": (
        "pairs",
        BatchSoftmax,
        0.07,
        "none",
        (BscOptions(bsc_temperature_lr=1e-3),),
    ),
    "ct": ("pairs", ContrastiveTension, 1.0, "none", ()),
    "ct-in-batch": ("sentences", TensionInBatch, 0.05, "none", ()),
    "sg": ("sentences", SelfGuided, 0.1, "none", (SelfGuidedOptions(),)),
    "sg-opt": ("sentences", SelfGuidedOpt, 0.1, "none", (SelfGuidedOptions(),)),
}
every_method = pytest.mark.parametrize("name", MAKERS)
KEPT = {
    "checkpoint": lambda encode, *piece, use_reentrant: encode(*piece)
}  # pieces whose results all stay


@pytest.fixture(scope="module")
def batches(tiny_model) -> dict[str, Batch]:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    pairs = [
        Example(f"p{n}", *row) for n, row in enumerate(zip(FIRST, SECOND, LABELS, strict=True))
    ]
    sentences = [Example(f"s{n}", text, None, None) for n, text in enumerate(FIRST)]
    triplets = list(zip(FIRST[:3], SECOND[:3], FIRST[3:], strict=True))
    return {
        "pairs": EncodedExamples(pairs, tokenizer, 32, pair_encoding="bi").batch(range(6)),
        "sentences": EncodedExamples(sentences, tokenizer, 32).batch(range(6)),
        "triplets": EncodedTriplets(triplets, tokenizer, 32).batch(range(3)),
    }


@pytest.fixture
def step(tiny_model, batches, monkeypatch):
    """A function: one forward and backward pass of a method; returns its loss and its gradients by name."""
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)

    def run(
        name: str,
        chunk: int,
        dropout: float = 0.1,
        precision: str = "fp32",
        device: str = "cpu",
        **replaced,
    ):
        kind, make, temperature, projection, own = MAKERS[name]
        torch.manual_seed(0)
        encoder = BertModel.from_pretrained(
            tiny_model, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        model = make(MethodSetup(encoder, "mean", temperature, projection, chunk), *own)
        model = model.to(device).train()
        model.begin()
        for copy in model.copies().values():
            copy.layers[0].feed_forward.up.bias.data.add_(
                0.01
            )  # away from F, so that its distance counts
        torch.manual_seed(1)
        with monkeypatch.context() as patch, runtime.autocast(torch.device(device), precision):
            for attribute, value in replaced.items():
                patch.setattr(caching, attribute, value)
            loss = model(batches[kind].to(device))
        state = torch.get_rng_state()
        loss.backward()
        assert torch.equal(torch.get_rng_state(), state), (
            "what follows draws the numbers that it would have drawn"
        )
        return loss.detach(), {
            name: p.grad for name, p in model.named_parameters() if p.grad is not None
        }

    return run


def furthest(one: dict, other: dict) -> float:
    """The largest distance of two gradients of one parameter, relative to the length of the whole gradient."""
    assert one.keys() == other.keys()
    length = torch.stack([gradient.norm() for gradient in other.values()]).norm()
    return float(max((one[name] - other[name]).norm() / length for name in one))


def test_every_method_is_here():
    assert {name.split(",")[0] for name in MAKERS} == set(METHODS)


@every_method
@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_gradients_are_those_of_pieces_that_are_kept(step, name, chunk):
    """With dropout, in float32; the pieces' gradients add up in another order: measured 4e-7, allow 1e-5."""
    (loss, found), (kept_loss, expected) = step(name, chunk), step(name, chunk, **KEPT)
    assert torch.equal(loss, kept_loss)
    assert furthest(found, expected) < 1e-5
    assert ("scale" in found) == (name in ("ct-in-batch", "bsc, temperature learns"))


@every_method
@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_without_dropout_they_are_those_of_the_whole_batch(step, name, chunk):
    """Other shapes, other sums: measured 4e-7, allow 1e-5. The rows differ in length, and a piece keeps the padding."""
    (loss, found), (whole_loss, expected) = step(name, chunk, 0.0), step(name, 0, 0.0)
    torch.testing.assert_close(loss, whole_loss, rtol=1e-5, atol=1e-6)
    assert furthest(found, expected) < 1e-5


@pytest.mark.parametrize("chunk", [12, 100])
def test_one_piece_is_the_batch(step, chunk):
    (loss, found), (whole_loss, expected) = step("simcse", chunk), step("simcse", 0)
    assert torch.equal(loss, whole_loss) and furthest(found, expected) == 0


def test_bf16(step):
    """The second encoding is in bfloat16 as the first, though backward runs outside of autocast.

    Kept pieces share a bfloat16 copy of each weight, in which its gradients add up; of pieces that are encoded again
    they add up in float32: measured 5e-5, allow 5e-4.
    """
    (loss, found), (kept_loss, expected) = (
        step("simcse", 4, precision="bf16", **more) for more in ({}, KEPT)
    )
    assert torch.equal(loss, kept_loss) and furthest(found, expected) < 5e-4
    assert furthest(found, step("simcse", 4)[1]) > 1e-3, (
        "the negative control: float32 differs by more"
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["simcse", "bsc, temperature learns"])
def test_on_a_gpu(step, name):
    (loss, found), (kept_loss, expected) = (
        step(name, 4, device="cuda", **more) for more in ({}, KEPT)
    )
    assert torch.equal(loss, kept_loss) and furthest(found, expected) < 1e-5


def test_other_masks_would_be_noticed(step):
    """The negative control: the same without the random state of the first encoding."""
    forgetful = {"checkpoint": partial(checkpoint, preserve_rng_state=False)}
    encoder_only = step("simcse", 4, **KEPT)[1]
    with pytest.raises(
        AssertionError, match="what follows draws"
    ):  # which also drew numbers in backward
        step("simcse", 4, **forgetful)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_rng_state", lambda: torch.zeros(1))
        assert furthest(step("simcse", 4, **forgetful)[1], encoder_only) > 1e-2


@pytest.mark.parametrize(("chunk", "at_once"), [(3, 1), (0, 1)])
def test_one_piece_at_most_is_in_memory(tiny_model, batches, chunk, at_once):
    """What the widest layer makes is gone after the forward pass, and before the next piece is encoded again."""
    encoder = BertModel.from_pretrained(tiny_model)
    model = SimCSE(MethodSetup(encoder, "mean", 0.05, chunk=chunk)).train()
    made, alive, shapes = [], [], []
    encoder.register_forward_pre_hook(
        lambda module, inputs: alive.append(sum(each() is not None for each in made))
    )
    encoder.register_forward_pre_hook(lambda module, inputs: shapes.append(tuple(inputs[0].shape)))
    encoder.layers[0].feed_forward.up.register_forward_hook(
        lambda module, inputs, output: made.append(weakref.ref(output))
    )
    loss = model(batches["sentences"])
    num_tokens = batches["sentences"].input_ids.size(1)
    kept = sum(each() is not None for each in made)
    loss.backward()
    if chunk:
        assert kept == 0 and alive == [0] * 8, "4 pieces, each encoded twice"
        assert shapes == [(3, num_tokens)] * 8, "cut from the padded batch"
    else:
        assert kept == 1 and shapes == [(12, num_tokens)], (
            "the negative control: the whole batch stays"
        )
    del loss
    assert not any(each() is not None for each in made)


@pytest.mark.filterwarnings("error")
def test_a_frozen_encoder_and_no_gradient_at_all(tiny_model, batches):
    """As in fusion training with --option pretrain: the projection learns nevertheless."""
    model = SimCSE(
        MethodSetup(
            BertModel.from_pretrained(tiny_model).requires_grad_(False),
            "mean",
            0.05,
            "tanh",
            chunk=4,
        )
    )
    model(batches["sentences"]).backward()
    assert model.projection[0].weight.grad.abs().sum() > 0
    with torch.no_grad():
        assert not model(batches["sentences"]).requires_grad


def test_fusion_hands_it_to_the_companion(tiny_model):
    options = Options.of(
        pretrain="simcse", contrastive_order="fusion", contrastive_chunk=3, device="cpu"
    )
    encoder = BertModel.from_pretrained(tiny_model)
    companion = build_companion(options.contrastive, options.training, "mean", encoder)
    assert companion.chunk == 3


def test_it_is_refused_where_nothing_reads_it(capsys):
    for flags in ([], ["--pretrain", "mlm"]):
        assert "--contrastive_chunk has no effect without --pretrain simcse" in refusal(
            capsys, "--contrastive_chunk", "64", *flags
        )
    fusion = ["--pretrain", "simcse", "--contrastive_order", "fusion"]
    nli = {"simcse-nli": ["--nli", "triplets.tsv"]}
    for flags in (fusion, *(["--pretrain", method, *nli.get(method, [])] for method in METHODS)):
        assert options_of("--contrastive_chunk", "64", *flags).contrastive.contrastive_chunk == 64
