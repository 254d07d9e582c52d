"""The course's sanity check: bert-base-uncased on two sentences, against the course's figures.

It needs the weights in the Hugging Face cache, since nothing is downloaded. The first figures of
each sentence and of each token stand here.

T tokens.
"""

from __future__ import annotations

import pytest
import torch

from minbert import BertModel, BertTokenizer

TEXTS = ["hello world", "hello neural network for NLP"]
TOKEN_IDS = [[101, 7592, 2088, 102], [101, 7592, 15756, 2897, 2005, 17953, 2361, 102]]
FIRST_POOLED = [
    [-0.906153, -0.311153, -0.621654, 0.774093],
    [-0.804259, -0.286005, -0.28289, 0.491087],
]
# The first unit of the last hidden state of each token.
FIRST_HIDDEN = [
    [-0.168884, -0.363275, -0.698594, 0.830983],
    [-0.44185, -0.08284, 0.445814, -0.349276, -0.371462, 0.095545, -0.751067, 0.645269],
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
        output = model(**tokenizer(TEXTS))
    pooled = output.pooler_output[:, :4]
    torch.testing.assert_close(pooled, torch.tensor(FIRST_POOLED), atol=ATOL, rtol=RTOL)
    # The course's figures have a meaning at real tokens only.
    for hidden, expected in zip(output.last_hidden_state, FIRST_HIDDEN, strict=True):
        first = hidden[: len(expected), 0]  # (T,)
        torch.testing.assert_close(first, torch.tensor(expected), atol=ATOL, rtol=RTOL)
