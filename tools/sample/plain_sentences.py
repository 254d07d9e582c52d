"""`python -m tools.sample.plain_sentences --corpus FILE... --course DIR --out FILE`: plain text.

Cuts texts into sentences, draws some of each file, and writes them in a random order, one on a
line: the text of `--pretrain distill`. No line contains a sentence of the course's dev and test
files, or is contained in one. So what is trained on it can be measured there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from data.corpus import check_files, read_lines
from minbert.commands.ending import exit_code
from minbert.commands.files import write_text
from minbert.commands.flags import Parser
from minbert.commands.outputs import HELP_OF_OVERWRITE, OVERWRITE, Output, check_outputs
from tools.sample.held_out import HeldOut, held_out_files, normal_form, read_held_out

# A sentence ends before a blank and a capital letter or a quotation mark.
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'])")


def split_sentences(paragraphs: Iterable[str], least: int, most: int) -> list[str]:
    """Return the sentences that have at least `least` and at most `most` words."""
    sentences = []
    for paragraph in paragraphs:
        for sentence in END_OF_SENTENCE.split(paragraph.strip()):
            if least <= len(sentence.split()) <= most:
                sentences.append(sentence)
    return sentences


def draw(
    sentences: Iterable[str], limit: int, held_out: HeldOut, taken: set[str], random: Random
) -> list[str]:
    """Return at most `limit` sentences in a random order.

    held_out: sentences that none of them may touch. taken: the normal forms of earlier sentences,
    to which those of the new ones are added.
    """
    # A random order first, so that the limit cuts a fair sample.
    order = list(sentences)
    random.shuffle(order)
    drawn: list[str] = []
    for sentence in order:
        if len(drawn) == limit:
            break
        form = normal_form(sentence)
        if form not in taken and not held_out.touches(sentence):
            taken.add(form)
            drawn.append(sentence)
    return drawn


@exit_code("python -m tools.sample.plain_sentences")
def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sentences, and print how many each file gave."""
    parser = Parser(
        prog="python -m tools.sample.plain_sentences",
        allow_abbrev=False,
        description="Draw sentences of plain text that are not in the course's dev and test files.",
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="texts, with a sentence or a paragraph on each line",
    )
    parser.add_argument(
        "--course",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with the course's files (python -m data.download brings them)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="is written")
    parser.add_argument(
        "--limit", type=int, default=40_000, help="sentences of a file at most (%(default)s)"
    )
    parser.add_argument("--least", type=int, default=4, help="words at least (%(default)s)")
    parser.add_argument("--most", type=int, default=40, help="words at most (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (%(default)s)")
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    options = parser.parse_args(arguments)

    check_files(options.corpus)
    inputs = [*options.corpus, *held_out_files(options.course)]
    check_outputs([Output("--out", options.out)], inputs, overwrite=options.overwrite)
    # One set for all files, so that no sentence is drawn from two of them.
    held_out = read_held_out(options.course)
    random = Random(options.seed)
    taken: set[str] = set()
    lines: list[str] = []
    for path in options.corpus:
        sentences = split_sentences(read_lines([path]), options.least, options.most)
        drawn = draw(sentences, options.limit, held_out, taken, random)
        print(f"{path}: {len(sentences):,} sentences, {len(drawn):,} drawn")
        lines += drawn
    # Training reads the lines in order. So the files are mixed.
    random.shuffle(lines)
    write_text(options.out, "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
