"""The picture of `python -m minbert.draw_attention`: the attention of a model, drawn."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from minbert import BertModel, BertTokenizer, hub
from minbert.commands.files import write_atomically
from minbert.options import WRITER, PictureOptions
from minbert.reporting.attention_pictures import draw_attention


def picture(options: PictureOptions) -> Figure:
    """Ask the model for its attention, and draw it. ValueError for a text that is too long."""
    folder = hub.resolve(options.model)
    tokenizer = BertTokenizer.from_pretrained(folder)
    # The fused attention never holds the probabilities.
    model = BertModel.from_pretrained(folder, attention_implementation="eager")
    pair = None if options.text_pair is None else [options.text_pair]
    batch = tokenizer([options.text], pair, truncation=False, return_tensors="pt")
    num_tokens = batch.input_ids.size(1)
    most = model.config.num_positions
    if num_tokens > most:
        raise ValueError(
            f"the text has {num_tokens} tokens; {options.model} reads at most {most}. Shorten it."
        )
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    tokens = [str(tokenizer.convert_ids_to_tokens(int(number))) for number in batch.input_ids[0]]
    return draw_attention(output.attentions, tokens, options.layer, options.head)


def write_picture(figure: Figure, path: Path) -> None:
    """Write the picture in the format that the file's name ends in. Equal pictures, equal files."""
    ending = path.suffix.removeprefix(".")
    metadata = {
        "svg": {"Date": None, "Creator": WRITER},
        "pdf": {"CreationDate": None, "Creator": WRITER},
        "png": {"Software": WRITER},
    }[ending]
    # Texts stay texts, which can be searched. Ids depend on nothing but the picture.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "attention"}):
        write_atomically(
            path,
            lambda beside: figure.savefig(beside, format=ending, dpi=150, metadata=metadata),
        )
