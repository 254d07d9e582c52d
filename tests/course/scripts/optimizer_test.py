"""In the shape of a course's optimizer_test.py: 1,000 steps against stored weights."""

import numpy as np
import torch

from minbert import AdamW  # there: from optimizer import AdamW


def test_optimizer(opt_class) -> torch.Tensor:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2, bias=False)
    opt = opt_class(model.parameters(), lr=1e-3, weight_decay=1e-4, correct_bias=True)
    for _ in range(1000):
        opt.zero_grad()
        x = torch.FloatTensor(rng.uniform(size=[model.in_features]))
        y_hat = model(x)
        y = torch.Tensor([x[0] + x[1], -x[2]])
        loss = ((y - y_hat) ** 2).sum()
        loss.backward()
        opt.step()
    return model.weight.detach()


ref = torch.tensor(np.load("optimizer_test.npy"))
actual = test_optimizer(AdamW)
assert torch.allclose(ref, actual, atol=1e-6, rtol=1e-4)
print("The optimizer is right.")
