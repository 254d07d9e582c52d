"""Command: draws the attention of a sentence as a picture.

Run `python -m minbert.draw_attention "A lovely film." --out attention.svg`. Without --layer and
--head it draws all of them. The picture can be read on light and on dark pages.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.memory import check_limit_of_libraries
from minbert.commands.outputs import Output, check_outputs
from minbert.options import WRITER, PictureOptions

PROGRAM = "python -m minbert.draw_attention"


def is_our_picture(path: Path) -> bool:
    """Whether a file was written by this command, which names minBERT in it."""
    return WRITER.encode() in path.read_bytes()


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture, and print where it is."""
    description = "Draw how much each token of a sentence attends to each other token."
    options = parse_command(PictureOptions, PROGRAM, description, arguments)
    output = Output("--out", options.out, is_our_picture)
    check_outputs([output], folders=[Path(options.model)], overwrite=options.overwrite)
    check_limit_of_libraries()
    from minbert import attention_picture

    attention_picture.write_picture(attention_picture.picture(options), options.out)
    print(options.out)


if __name__ == "__main__":
    sys.exit(main())
