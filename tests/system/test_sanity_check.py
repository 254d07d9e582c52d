"""The course's sanity check: bert-base-uncased on two sentences against the figures that the course published.

It needs the weights in the Hugging Face cache (nothing is downloaded); the first figures stand here, and the complete
ones are read where a clone has the course's reference folder beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from minbert import BertModel, BertTokenizer

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "sanity_check.json"
TEXTS = ["hello world", "hello neural network for NLP"]
TOKEN_IDS = [[101, 7592, 2088, 102], [101, 7592, 15756, 2897, 2005, 17953, 2361, 102]]
FIRST_POOLED = [
    [-0.906153, -0.311153, -0.621654, 0.774093],
    [-0.804259, -0.286005, -0.28289, 0.491087],
]
ATOL, RTOL = 1e-5, 1e-3  # the course's own


@pytest.fixture(scope="module")
def bert_base():
    from huggingface_hub import try_to_load_from_cache

    names = ("bert-base-uncased", "google-bert/bert-base-uncased")
    cached = [
        name for name in names if isinstance(try_to_load_from_cache(name, "config.json"), str)
    ]
    if not cached:
        pytest.skip("bert-base-uncased is not in the Hugging Face cache of this machine")
    return BertModel.from_pretrained(cached[0]).eval(), BertTokenizer.from_pretrained(cached[0])


def test_token_ids_and_first_figures(bert_base):
    model, tokenizer = bert_base
    assert tokenizer.encode(TEXTS)[0] == TOKEN_IDS
    with torch.no_grad():
        pooled = model(**tokenizer(TEXTS)).pooler_output
    torch.testing.assert_close(pooled[:, :4], torch.tensor(FIRST_POOLED), atol=ATOL, rtol=RTOL)


def test_all_figures(bert_base):
    if not REFERENCE.is_file():
        pytest.skip(
            "the course's complete figures are not beside this clone (shared/reference/sanity_check.json)"
        )
    reference = json.loads(REFERENCE.read_text())
    input_ids, mask = (torch.tensor(reference[name]) for name in ("token_ids", "attention_mask"))
    with torch.no_grad():
        output = bert_base[0](input_ids, mask)
    torch.testing.assert_close(
        output.pooler_output, torch.tensor(reference["pooler_output"]), atol=ATOL, rtol=RTOL
    )
    expected = torch.tensor(
        reference["last_hidden_state_first_16_units"]
    )  # (B, T, 16), defined at real tokens only
    found = output.last_hidden_state[:, :, : expected.size(-1)]
    torch.testing.assert_close(found[mask == 1], expected[mask == 1], atol=ATOL, rtol=RTOL)
