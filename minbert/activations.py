"""The activation of the feed-forward network, by its name in config.json.

BERT's is GELU in the erf form, x Phi(x) (Hendrycks and Gimpel 2016). Other models that are read
here have its tanh approximation, ReLU or SiLU. Next: bert.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from minbert.config import OTHER_ACTIVATIONS, TANH_GELU


def tanh_gelu(inputs: Tensor) -> Tensor:
    """Compute 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), unit by unit.

    Hendrycks and Gimpel 2016, section 2. It differs from x Phi(x) by less than 0.0005.
    """
    return F.gelu(inputs, approximate="tanh")


BY_MEANING: dict[str, Callable[[Tensor], Tensor]] = {
    TANH_GELU: tanh_gelu,
    "max(x, 0)": F.relu,
    "x sigmoid(x)": F.silu,
}


def activation_of(name: str) -> Callable[[Tensor], Tensor]:
    """Find the function of an activation's name. Tensors of any shape keep their shape.

    name: "gelu", or a key of config.OTHER_ACTIVATIONS.
    """
    return F.gelu if name == "gelu" else BY_MEANING[OTHER_ACTIVATIONS[name]]
