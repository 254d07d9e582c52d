"""Command: draws the attention of a sentence as a picture.

Run `python -m minbert.draw_attention "A lovely film." --out attention.svg`. Without --layer and
--head it draws all of them. The picture can be read on light and on dark pages.

torch is imported late, so `--help` and bad input answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.commands.ending import exit_code
from minbert.commands.files import write_atomically
from minbert.commands.flags import Parser
from minbert.commands.outputs import HELP_OF_OVERWRITE, OVERWRITE, Output, check_outputs
from minbert.options import EncoderOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")
PROGRAM = "minBERT"  # the program that a picture names


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m minbert.draw_attention",
        description="Draw how much each token of a sentence attends to each other token.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("text", metavar="TEXT", help="the sentence, in quotation marks")
    parser.add_argument(
        "--text-pair", metavar="TEXT", help="a second sentence, which the model reads in one row"
    )
    parser.add_argument(
        "--model",
        default=EncoderOptions().model,
        help="a bundled model, minilm, a folder such as runs/latest/model, or a hub name",
    )
    parser.add_argument(
        "--layer", type=int, help="draw the heads of this layer only; the first layer is 0"
    )
    parser.add_argument(
        "--head", type=int, help="with --layer: draw this head only; the first head is 0"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("attention.svg"),
        metavar="FILE",
        help=f"the picture; its name ends in one of {', '.join(FORMATS)}",
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    return parser


def is_our_picture(path: Path) -> bool:
    """Whether a file was written by `write_picture`, which names minBERT in it."""
    return PROGRAM.encode() in path.read_bytes()


def check_options(options: argparse.Namespace) -> None:
    """Raise ValueError for everything that can be refused before any work."""
    if not options.text.strip():
        raise ValueError("TEXT is empty. Pass a sentence in quotation marks.")
    if options.head is not None and options.layer is None:
        raise ValueError(f"--head {options.head} has no meaning without --layer. Pass both.")
    if options.out.suffix not in FORMATS:
        raise ValueError(
            f"--out is {options.out}; its name must end in one of {', '.join(FORMATS)}."
        )
    output = Output("--out", options.out, is_our_picture)
    check_outputs([output], folders=[Path(options.model)], overwrite=options.overwrite)


def picture(options: argparse.Namespace) -> Figure:
    """Ask the model for its attention, and draw it. ValueError for a text that is too long."""
    import torch

    from minbert import BertModel, BertTokenizer, hub
    from minbert.reporting.attention_pictures import draw_attention

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
    from matplotlib import rc_context

    ending = path.suffix.removeprefix(".")
    metadata = {
        "svg": {"Date": None, "Creator": PROGRAM},
        "pdf": {"CreationDate": None, "Creator": PROGRAM},
        "png": {"Software": PROGRAM},
    }[ending]
    # Texts stay texts, which can be searched. Ids depend on nothing but the picture.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "attention"}):
        write_atomically(
            path,
            lambda beside: figure.savefig(beside, format=ending, dpi=150, metadata=metadata),
        )


@exit_code("python -m minbert.draw_attention")
def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture, and print where it is."""
    options = build_parser().parse_args(arguments)
    check_options(options)
    write_picture(picture(options), options.out)
    print(options.out)


if __name__ == "__main__":
    sys.exit(main())
