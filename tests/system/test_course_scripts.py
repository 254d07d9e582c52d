"""The course's sanity_check.py and optimizer_test.py work with only their imports changed.

`from bert import BertModel` becomes `from minbert import BertModel`, and `from optimizer import
AdamW` likewise. tests/lessons/test_layers.py, test_optimizer.py and test_sanity_check.py compare
the numbers more closely.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from minbert import AdamW, BertModel

NAME = "bert-base-uncased"
NO_REFERENCE = "transformers is the reference; run setup.sh --dev"
ATOL, RTOL = 1e-5, 1e-3  # the course's own, of the sanity check
OPTIMIZER_REFERENCE = [[0.55482787, 0.86665666, 0.07291982], [-0.44724506, -0.2951228, -0.2717272]]

# The names and the sentences of the scripts.
sent_ids = [[101, 7592, 2088, 102, 0, 0, 0, 0], [101, 7592, 15756, 2897, 2005, 17953, 2361, 102]]
att_mask = [[1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]]


@pytest.fixture
def small_stand_in(tmp_path, monkeypatch):
    """A folder called bert-base-uncased, made by transformers: 2 layers, 24 units, dropout."""
    transformers = pytest.importorskip("transformers", reason=NO_REFERENCE)
    config = transformers.BertConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reference = transformers.BertModel(config)
    reference.save_pretrained(tmp_path / NAME)
    monkeypatch.chdir(tmp_path)
    return reference.eval()


@pytest.fixture
def cached_bert_base():
    """The real one, as transformers loads it."""
    transformers = pytest.importorskip("transformers", reason=NO_REFERENCE)
    from huggingface_hub import try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(NAME, "config.json"), str):
        pytest.skip(f"{NAME} is not in the Hugging Face cache of this machine")
    return transformers.BertModel.from_pretrained(NAME, attn_implementation="eager").eval()


@pytest.mark.parametrize("weights", ["small_stand_in", "cached_bert_base"])
def test_sanity_check(weights, request):
    """The script never calls eval(), and assigns the masked output by its key. Both must work."""
    reference = request.getfixturevalue(weights)
    ids = torch.tensor(sent_ids)
    mask = torch.tensor(att_mask)
    with torch.no_grad():
        expected = dict(reference(ids, mask))

    bert = BertModel.from_pretrained(NAME)
    outputs = bert(ids, mask)
    mask = mask.unsqueeze(-1)
    outputs["last_hidden_state"] = outputs["last_hidden_state"] * mask
    expected["last_hidden_state"] = expected["last_hidden_state"] * mask
    for key in ("last_hidden_state", "pooler_output"):
        assert torch.allclose(outputs[key], expected[key], atol=ATOL, rtol=RTOL), (
            f"{key} is off. Does from_pretrained give a model in evaluation mode? If dropout is "
            "not the reason, run tests/lessons/test_layers.py."
        )


def test_a_model_in_training_mode_would_fail_the_sanity_check(small_stand_in):
    """Negative control: with dropout the same call is far off."""
    ids = torch.tensor(sent_ids)
    mask = torch.tensor(att_mask)
    bert = BertModel.from_pretrained(NAME)
    quiet = bert(ids, mask)["pooler_output"]
    noisy = bert.train()(ids, mask)["pooler_output"]
    assert not torch.allclose(noisy, quiet, atol=ATOL, rtol=RTOL)


def train_a_linear_map(opt_class) -> torch.Tensor:
    """Train as the course's optimizer_test.py does. Its seeds are 0."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2, bias=False)
    opt = opt_class(model.parameters(), lr=1e-3, weight_decay=1e-4, correct_bias=True)
    for _ in range(1000):
        opt.zero_grad()
        x = torch.FloatTensor(rng.uniform(size=[model.in_features]))
        y_hat = model(x)
        y = torch.Tensor([x[0] + x[1], -x[2]])
        ((y - y_hat) ** 2).sum().backward()
        opt.step()
    return model.weight.detach()


def test_optimizer_test():
    expected = torch.tensor(OPTIMIZER_REFERENCE)
    weight = train_a_linear_map(AdamW)
    assert torch.allclose(expected, weight, atol=1e-6, rtol=1e-4), (
        "the weights are off after 1000 steps. tests/lessons/test_optimizer.py looks at one step."
    )


def test_an_optimizer_without_bias_correction_would_fail_it():
    """Negative control: the course's tolerance does tell two optimizers apart."""

    def uncorrected(*arguments, **options):
        return AdamW(*arguments, **{**options, "correct_bias": False})

    expected = torch.tensor(OPTIMIZER_REFERENCE)
    assert not torch.allclose(expected, train_a_linear_map(uncorrected), atol=1e-6, rtol=1e-4)
