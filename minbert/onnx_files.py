"""Models as ONNX files, which run without this code, and the check of a file against torch.

ONNX (onnx.ai) is a format for computation graphs. onnxruntime computes them, in many languages. The
packages come with `bash setup.sh --onnx`. They are imported late.

B batch, T tokens.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
import torch
from torch import Tensor, nn

from minbert import BertTokenizer
from minbert.commands.files import write_text
from minbert.commands.optional import ONNX_PACKAGES

# The largest difference between onnxruntime and torch that rounding in float32 explains.
LIMIT = 1e-4

# Texts of different lengths, with which a file is checked.
CHECKED_TEXTS = (
    "A man is playing a guitar.",
    "Two dogs",
    "The girl, who is helping an old man near the hotel, is not his daughter but his doctor.",
    "",
    "It is late!",
)


def write_onnx(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    path: Path,
    rows_of_example: int = 1,
) -> None:
    """Write a module as an ONNX file in which batch size and length are free.

    module: in evaluation mode, on the CPU. It takes `inputs` by name and returns one tensor for
        each of `outputs`, in a tuple.
    inputs: an example, tensors (R, T) int64 with at least 2 examples and 3 tokens. R is the batch
        size times rows_of_example.
    """
    batch = torch.export.Dim("batch", min=1)
    rows = batch if rows_of_example == 1 else rows_of_example * batch
    shape = {0: rows, 1: torch.export.Dim("tokens", min=2)}
    # The exporter warns of packages and names that are of no concern here.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            (),
            kwargs=dict(inputs),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=dict.fromkeys(inputs, shape),
            dynamo=True,
            # onnxscript cannot fold the split of two sides.
            optimize=rows_of_example == 1,
            verbose=False,
        )
    assert program is not None, "without a path the exporter returns the program"
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(str(path))


def write_tokenizer(tokenizer: BertTokenizer, max_length: int, path: Path) -> None:
    """Write a tokenizer.json that cuts and pads rows as the model expects them.

    tokenizers.Tokenizer.from_file opens it, so a graph needs neither our code nor transformers.
    The file cannot hold `splits_special_tokens`: set encode_special_tokens after opening.
    """
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
    backend.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    write_text(path, backend.to_str(pretty=True))


@torch.no_grad()
def largest_difference(
    module: nn.Module, batches: Sequence[Mapping[str, Tensor]], path: Path
) -> float:
    """The largest difference of any output number between onnxruntime and the module.

    batches: inputs as in `write_onnx`, of different batch sizes and lengths. Raises ValueError if
    it is above LIMIT, or if a shape differs. The file is then removed.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    largest = 0.0
    for inputs in batches:
        computed = session.run(None, {name: inputs[name].numpy() for name in names})
        for ours, theirs in zip(module(**inputs), computed, strict=True):
            if tuple(ours.shape) != theirs.shape:
                largest = float("inf")
                break
            largest = max(largest, float((ours - torch.from_numpy(theirs)).abs().max()))
    # A nan is not below the limit either.
    if not largest <= LIMIT:
        path.unlink()
        raise ValueError(
            f"{path}: onnxruntime and torch differ by {largest:.1e}, more than the {LIMIT:.0e} "
            "that rounding explains; the file was removed. Use other versions of "
            f"{', '.join(ONNX_PACKAGES)}."
        )
    return largest
