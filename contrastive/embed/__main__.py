"""`python -m contrastive.embed MODEL < sentences`: use the sentence vectors of a model.

The command reads one sentence per line, or a table in any format that data/tables/ reads. It
stores the vectors (--out, or alone `> vectors.npy`), prints the nearest sentences to each one
(--nearest) or to another text (--query), lists pairs that are almost equal (--duplicates), and
writes the model as a folder that sentence-transformers opens (--export). --vectors reads stored
vectors back. Answers go to standard output, notes and progress bars to standard error.

`torchrun --nproc_per_node N -m contrastive.embed ...` shares the batches among N processes.

work.py answers. It brings torch, so it is imported when the command line and the sentences are
understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from contrastive.embed.options import EmbedOptions, check_request
from contrastive.embed.sentences import read_sentences
from minbert.commands.ending import exit_code, first_speaks
from minbert.commands.flags import parse_command
from minbert.reporting import terminal

PROGRAM = "python -m contrastive.embed"
DESCRIPTION = "Computes the sentence vectors of a model and uses them."


@exit_code(
    PROGRAM,
    "Stopped. Files named above are complete, others were not written.",
    takes_processes=True,
)
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the sentences, and print the answers."""
    with first_speaks():
        request = parse_command(EmbedOptions, PROGRAM, DESCRIPTION, arguments)
        check_request(request)
    with terminal.session("reading the sentences", uses_stderr=True):
        sentences = []
        # Of several processes the first one reads them. Standard input can be read once.
        if request.needs_sentences and not terminal.is_muted():
            sentences = read_sentences(request, terminal.say)
        terminal.doing("importing PyTorch")
        from contrastive.embed import work

        for text in work.answers(request, sentences, terminal.say):
            terminal.answer(text)
    work.processes.end()


if __name__ == "__main__":
    sys.exit(main())
