"""All pictures by name, and the command `python -m tools.pictures`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import HELP_OF_OVERWRITE, OVERWRITE, Output, check_outputs
from tools.pictures import contrastive, encoder, layers, multitask, museum, overview, training
from tools.pictures.canvas import Picture, paths_of, write_picture

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PICTURES = {
    "overview": Picture(10.3, 3.5, overview.draw),
    "overview-narrow": Picture(3.8, 7.5, overview.draw_narrow),
    "tour": Picture(9.9, 2.95, training.draw_stations),
    "masks": Picture(8.4, 3.2, encoder.draw_masks),
    "poolings": Picture(8.4, 3.2, encoder.draw_poolings),
    "training-step": Picture(8.8, 2.9, training.draw_step),
    "schedules": Picture(8.4, 2.2, training.draw_schedules),
    "masked-words": Picture(8.2, 2.75, training.draw_masking),
    "in-batch-negatives": Picture(8.6, 3.3, contrastive.draw_negatives),
    "cone": Picture(7.7, 3.5, contrastive.draw_cone),
    "pair-encodings": Picture(9.7, 4.0, multitask.draw_pairs),
    "samplers": Picture(8.0, 3.6, multitask.draw_samplers),
    "gradient-surgery": Picture(9.8, 3.3, multitask.draw_surgery),
    "layers": Picture(9.4, 3.35, layers.draw),
    "museum": Picture(10.3, 5.95, museum.draw),
}


@exit_code("python -m tools.pictures")
def main(argv: Sequence[str] | None = None) -> None:
    """Draw the pictures."""
    parser = Parser(
        prog="python -m tools.pictures",
        description="Draw the pictures of the documents.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="folder")
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    arguments = parser.parse_args(argv)
    folder = arguments.out
    outputs = []
    for name in PICTURES:
        outputs += [Output("--out", path) for path in paths_of(name, folder).values()]
    check_outputs(outputs, overwrite=arguments.overwrite or folder == FOLDER)
    for name, picture in PICTURES.items():
        for path in write_picture(name, picture, folder):
            print(path)


if __name__ == "__main__":
    sys.exit(main())
