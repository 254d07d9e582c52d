"""How the K losses of one step become one gradient. Called by train.py; next: minbert/loop.py, which applies it.

Every method answers with a weight per loss: the training loop runs one backward pass per loss, and the weighted
gradients add up in .grad.
"""


def mean(num_losses: int) -> list[float]:
    """The weights that make a step follow the mean of its losses: 1/K each.

    The gradient of the mean of the losses is the mean of their gradients, so K backward passes, each on its own
    loss times 1/K, leave in .grad what one backward pass on the mean would, and only one task's graph is in memory
    at a time. A step of one batch (mt-dnn sampling) has the weight 1.0: its loss as it is.

    num_losses: K >= 1. Returns K floats that sum to 1. Raises ValueError for K < 1.
    """
    if num_losses < 1:
        raise ValueError(f"a step has {num_losses} losses; it needs at least one batch")
    return [1.0 / num_losses] * num_losses
