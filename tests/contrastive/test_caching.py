"""contrastive/caching.py: the gradients of a batch in pieces, and that one piece is in memory.

Dropout is on, so that the second encoding has masks to repeat. The pieces are compared with the
same pieces with every intermediate result kept, and without dropout with the batch as a whole.
"""

import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from command_line.options import Options
from contrastive import caching, methods
from contrastive.methods import MethodSetup, SimCSE
from contrastive.registry import METHODS
from contrastive.sentences import EncodedGroups
from contrastive.stage import build_companion
from data.batching import Batch, EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.training import runtime
from tests.contrastive.method_cases import batch_of, build_case
from tests.toy_options import needed_flags, options_of, refusal

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

# Every method, and one more way to use bsc: its name, and other options.
RUNS = {name: (name, {}) for name in METHODS}
RUNS["bsc, mixed"] = ("bsc", {"bsc_align": 0.3})
RUNS["bsc, trained temperature"] = ("bsc", {"bsc_temperature_lr": 1e-3})
every_run = pytest.mark.parametrize("name", RUNS)

# In place of torch's checkpoint: pieces whose intermediate results all stay.
KEPT = {"checkpoint": lambda encode, *piece, use_reentrant: encode(*piece)}


@pytest.fixture(scope="module")
def batches(tiny_model) -> dict[str, Batch]:
    """Pairs have 12 rows, triplets 9, sentences 6, of which SimCSE makes 12."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    pairs = []
    for n, row in enumerate(zip(FIRST, SECOND, LABELS, strict=True)):
        pairs.append(Example(f"p{n}", *row))
    singles = [Example(f"s{n}", text, None, None) for n, text in enumerate(FIRST)]
    sentences = EncodedExamples(singles, tokenizer, 32)
    triplets = list(zip(FIRST[:3], SECOND[:3], FIRST[3:], strict=True))
    return {
        "pairs": EncodedExamples(pairs, tokenizer, 32, pair_encoding="bi").batch(range(6)),
        "sentences": sentences.batch(range(6)),
        "sentences with vectors": replace(sentences.batch(range(6)), labels=torch.eye(6, 32)),
        "pairs of sentences": sentences.batch([0, 1, 2, 3, 4, 5, 0, 1, 2, 4, 5, 3]),
        "triplets": EncodedGroups(triplets, tokenizer, 32).batch(range(3)),
    }


@pytest.fixture
def step(tiny_model, batches, monkeypatch):
    """A function: one forward and backward pass of a method.

    It returns the loss, and the gradients by name. replaced: attributes of caching.py.
    """
    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)

    def run(
        name: str,
        chunk: int,
        dropout: float = 0.1,
        precision: str = "fp32",
        device: str = "cpu",
        **replaced,
    ):
        method, options = RUNS[name]
        torch.manual_seed(0)
        encoder = BertModel.from_pretrained(
            tiny_model, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        model = build_case(method, encoder, chunk, **options).to(device).train()
        model.begin()
        for copy in model.copies().values():
            # Away from F, so that its distance counts.
            copy.layers[0].feed_forward.up.bias.data.add_(0.01)

        batch = batches[batch_of(method)].to(device)
        torch.manual_seed(1)
        with monkeypatch.context() as patch, runtime.autocast(torch.device(device), precision):
            for attribute, value in replaced.items():
                patch.setattr(caching, attribute, value)
            loss = model(batch)
        state = torch.get_rng_state()
        loss.backward()
        assert torch.equal(torch.get_rng_state(), state), (
            "what follows draws the numbers that it would have drawn"
        )
        parameters = model.named_parameters()
        gradients = {name: p.grad for name, p in parameters if p.grad is not None}
        return loss.detach(), gradients

    return run


def furthest(one: dict, other: dict) -> float:
    """The largest distance of two gradients of one parameter.

    It is relative to the length of the whole gradient.
    """
    assert one.keys() == other.keys()
    length = torch.stack([gradient.norm() for gradient in other.values()]).norm()
    return float(max((one[name] - other[name]).norm() / length for name in one))


@every_run
@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_gradients_are_those_of_pieces_that_are_kept(step, name, chunk):
    """With dropout, in float32. The sums run in another order: measured 4e-7, allow 1e-5."""
    loss, gradients = step(name, chunk)
    kept_loss, kept = step(name, chunk, **KEPT)
    assert torch.equal(loss, kept_loss)
    assert furthest(gradients, kept) < 1e-5
    assert ("scale" in gradients) == (name in ("ct-in-batch", "bsc, trained temperature"))


@every_run
@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_without_dropout_they_are_those_of_the_whole_batch(step, name, chunk):
    """Other shapes, other sums: measured 4e-7, allow 1e-5.

    The rows differ in length, and a piece keeps the padding.
    """
    loss, gradients = step(name, chunk, 0.0)
    whole_loss, whole = step(name, 0, 0.0)
    torch.testing.assert_close(loss, whole_loss, rtol=1e-5, atol=1e-6)
    assert furthest(gradients, whole) < 1e-5


@pytest.mark.parametrize("chunk", [12, 100])
def test_one_piece_is_the_batch(step, chunk):
    loss, gradients = step("simcse", chunk)
    whole_loss, whole = step("simcse", 0)
    assert torch.equal(loss, whole_loss)
    assert furthest(gradients, whole) == 0


def test_bf16(step):
    """The second encoding is in bfloat16 as the first, though backward runs outside of autocast.

    Kept pieces share a bfloat16 copy of each weight, in which its gradients add up. Of pieces that
    are encoded again they add up in float32. Measured 5e-5, allow 5e-4.
    """
    loss, gradients = step("simcse", 4, precision="bf16")
    kept_loss, kept = step("simcse", 4, precision="bf16", **KEPT)
    assert torch.equal(loss, kept_loss)
    assert furthest(gradients, kept) < 5e-4
    _, in_float32 = step("simcse", 4)
    assert furthest(gradients, in_float32) > 1e-3, "the negative control: float32 differs by more"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["simcse", "bsc, trained temperature"])
def test_on_a_gpu(step, name):
    loss, gradients = step(name, 4, device="cuda")
    kept_loss, kept = step(name, 4, device="cuda", **KEPT)
    assert torch.equal(loss, kept_loss)
    assert furthest(gradients, kept) < 1e-5


def test_other_masks_would_be_noticed(step):
    """The negative control: the same without the random state of the first encoding."""
    forgetful = {"checkpoint": partial(checkpoint, preserve_rng_state=False)}
    _, kept = step("simcse", 4, **KEPT)
    # The backward pass draws numbers, too.
    with pytest.raises(AssertionError, match="what follows draws"):
        step("simcse", 4, **forgetful)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_rng_state", lambda: torch.zeros(1))
        _, gradients = step("simcse", 4, **forgetful)
        assert furthest(gradients, kept) > 1e-2


@pytest.mark.parametrize("chunk", [3, 0])
def test_one_piece_at_most_is_in_memory(tiny_model, batches, chunk):
    """What the widest layer makes is gone after the forward pass.

    It is also gone before the next piece is encoded again.
    """
    encoder = BertModel.from_pretrained(tiny_model)
    model = SimCSE(MethodSetup(encoder, "mean", 0.05, chunk=chunk)).train()
    made: list[weakref.ref] = []  # outputs of the widest layer
    num_alive = []  # of them, each time the encoder starts
    shapes = []  # of the encoder's input

    def count_alive() -> int:
        return sum(output() is not None for output in made)

    def before_encoder(module, inputs):
        num_alive.append(count_alive())
        shapes.append(tuple(inputs[0].shape))

    def after_layer(module, inputs, output):
        made.append(weakref.ref(output))

    encoder.register_forward_pre_hook(before_encoder)
    encoder.layers[0].feed_forward.up.register_forward_hook(after_layer)
    loss = model(batches["sentences"])
    num_tokens = batches["sentences"].input_ids.size(1)
    num_kept = count_alive()
    loss.backward()
    if chunk:
        assert num_kept == 0
        assert num_alive == [0] * 8, "4 pieces, each encoded twice"
        assert shapes == [(3, num_tokens)] * 8, "cut from the padded batch"
    else:
        assert num_kept == 1, "the negative control: the whole batch stays"
        assert shapes == [(12, num_tokens)]
    del loss
    assert count_alive() == 0


@pytest.mark.filterwarnings("error")
def test_a_frozen_encoder_and_no_gradient_at_all(tiny_model, batches):
    """As in fusion training with --option pretrain: the projection is trained nevertheless."""
    encoder = BertModel.from_pretrained(tiny_model).requires_grad_(False)
    model = SimCSE(MethodSetup(encoder, "mean", 0.05, "tanh", chunk=4))
    model(batches["sentences"]).backward()
    assert model.projection[0].weight.grad.abs().sum() > 0
    with torch.no_grad():
        assert not model(batches["sentences"]).requires_grad


def test_fusion_gives_it_to_the_companion(tiny_model):
    options = Options.of(
        pretrain="simcse", contrastive_order="fusion", contrastive_chunk=3, device="cpu"
    )
    encoder = BertModel.from_pretrained(tiny_model)
    companion = build_companion(options.contrastive, options.training, "mean", encoder)
    assert companion.chunk == 3


def test_it_is_refused_where_nothing_reads_it(capsys):
    for flags in ([], ["--pretrain", "mlm"]):
        message = refusal(capsys, "--contrastive_chunk", "64", *flags)
        assert "--contrastive_chunk has no effect without --pretrain simcse" in message


FUSION = ["--pretrain", "simcse", "--contrastive_order", "fusion"]


FLAGS = [FUSION, *(["--pretrain", method, *needed_flags(method)] for method in METHODS)]


@pytest.mark.parametrize("flags", FLAGS)
def test_every_method_reads_it(flags):
    options = options_of("--contrastive_chunk", "64", *flags)
    assert options.contrastive.contrastive_chunk == 64
