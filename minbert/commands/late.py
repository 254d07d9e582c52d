"""torch, imported when it is first used.

`--help` reads the registries of methods, which stand beside the methods. Importing torch takes a
second or two, so these files write

    from minbert.commands.late import F, torch

in place of `import torch` and `import torch.nn.functional as F`. The code below that line is the
same. Types such as `Tensor` are imported for the type checker alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
    import torch.nn.functional as F
else:

    class Late:
        """Stands for a module, and imports it when one of its names is asked for."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self.name), attribute)

    torch = Late("torch")
    F = Late("torch.nn.functional")

__all__ = ["F", "torch"]
