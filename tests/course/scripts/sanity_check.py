"""In the shape of a course's sanity_check.py: two sentences against stored outputs."""

import torch

from minbert import BertModel  # there: from bert import BertModel

sanity_data = torch.load("./sanity_check.data", weights_only=True)
sent_ids = torch.tensor(
    [[101, 7592, 2088, 102, 0, 0, 0, 0], [101, 7592, 15756, 2897, 2005, 17953, 2361, 102]]
)
att_mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])

bert = BertModel.from_pretrained("bert-base-uncased")
outputs = bert(sent_ids, att_mask)
att_mask = att_mask.unsqueeze(-1)
outputs["last_hidden_state"] = outputs["last_hidden_state"] * att_mask
sanity_data["last_hidden_state"] = sanity_data["last_hidden_state"] * att_mask
for key in ["last_hidden_state", "pooler_output"]:
    assert outputs[key].shape == sanity_data[key].shape
    assert torch.allclose(outputs[key], sanity_data[key], atol=1e-5, rtol=1e-3), key
print("The BERT is right.")
