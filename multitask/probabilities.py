"""From a classifier's raw outputs to probabilities.

The commands `ensemble`, `predict` and `errors` share it.
Legend: N rows, C classes.
"""

from __future__ import annotations

import numpy as np


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities.

    logits (N, C), several classes: the softmax over the classes, (N, C).
    logits (N,), two classes: the sigmoid, which is the probability of the second class, (N,).
    The result is float64, 0 to 1. Compare with torch.softmax and torch.sigmoid.
    """
    # Imported late: scipy takes half a second, and `--help` must answer at once.
    from scipy.special import expit, softmax

    logits = logits.astype(np.float64)
    return softmax(logits, axis=1) if logits.ndim == 2 else expit(logits)
