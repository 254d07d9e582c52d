"""The course's sanity check: bert-base-uncased on two sentences, against the course's figures.

It needs the weights in the Hugging Face cache, since nothing is downloaded. The first figures stand
here. The complete ones are read if the course's reference folder lies beside the clone.

B batch, T tokens.
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

    for name in ("bert-base-uncased", "google-bert/bert-base-uncased"):
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return BertModel.from_pretrained(name).eval(), BertTokenizer.from_pretrained(name)
    pytest.skip("bert-base-uncased is not in the Hugging Face cache of this machine")


def test_token_ids_and_first_figures(bert_base):
    model, tokenizer = bert_base
    assert tokenizer.encode(TEXTS)[0] == TOKEN_IDS
    with torch.no_grad():
        pooled = model(**tokenizer(TEXTS)).pooler_output
    torch.testing.assert_close(pooled[:, :4], torch.tensor(FIRST_POOLED), atol=ATOL, rtol=RTOL)


def test_all_figures(bert_base):
    if not REFERENCE.is_file():
        pytest.skip("shared/reference/sanity_check.json is not beside this clone")
    reference = json.loads(REFERENCE.read_text())
    input_ids = torch.tensor(reference["token_ids"])  # (B, T)
    mask = torch.tensor(reference["attention_mask"])  # (B, T)
    with torch.no_grad():
        output = bert_base[0](input_ids, mask)
    pooled = torch.tensor(reference["pooler_output"])
    torch.testing.assert_close(output.pooler_output, pooled, atol=ATOL, rtol=RTOL)

    # The course's figures have a meaning at real tokens only.
    expected = torch.tensor(reference["last_hidden_state_first_16_units"])  # (B, T, 16)
    hidden_state = output.last_hidden_state[:, :, :16]  # (B, T, 16)
    is_real = mask == 1
    torch.testing.assert_close(hidden_state[is_real], expected[is_real], atol=ATOL, rtol=RTOL)
