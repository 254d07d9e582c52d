"""`python -m contrastive.quality MODEL --sets FILE...`: how good are an encoder's sentence vectors?

Nothing is trained. The command measures zero-shot STS under each convention, alignment and
uniformity, and the distribution of cosines by label. --layers adds every hidden state under three
poolings, --baselines adds vectors that need no training, and --transfer adds a linear classifier
on the frozen vectors. --pairs classifies pairs by a threshold, --ranking ranks answers, and
--senteval runs the transfer tasks of that toolkit.

MODEL may be a text file of word vectors, such as GloVe's. The mean of the vectors of a sentence's
words is measured then, as a baseline.

It prints tables. --out keeps them as quality.json and quality.md. --report writes one HTML page
with all figures: the heat map of the layers, cosines by label, a map of pairs, and the curves of
the training if a stage of training wrote the model's folder.

torch is imported once the command line and the files are understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from contrastive.quality.files import read_others, texts_in
from contrastive.quality.options import QualityOptions, by_name, check_output_files
from contrastive.quality.word_vectors import read_word_vectors
from data.sentence_sets import evenly_cut, read_labelled, read_pairs
from data.senteval import read_sts_folder
from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.reporting import terminal

PROGRAM = "python -m contrastive.quality"
DESCRIPTION = "Measures an encoder's sentence vectors, without training it."


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the files, measure the encoder, write and print the report."""
    request = parse_command(QualityOptions, PROGRAM, DESCRIPTION, arguments)
    check_output_files(request)
    with terminal.session("reading the files"):
        # A mistake in the files is reported before torch is imported.
        names = request.column_names
        sets = {}
        for name, path in by_name(request.sets).items():
            pairs = read_sts_folder(path) if path.is_dir() else read_pairs(path, names)
            sets[name] = evenly_cut(pairs, request.rows)
        transfer = {}
        for name, path in by_name(request.transfer).items():
            transfer[name] = read_labelled(path, request.folds, names)
        terminal.say(*(content.summary for content in (*sets.values(), *transfer.values())))
        others = read_others(request)
        terminal.say(*others.summaries)
        words = None
        if request.has_word_vectors:
            terminal.doing(f"reading {request.model}")
            words = read_word_vectors(request.model, texts_in(sets, transfer, others))
            terminal.say(words.summary)

        terminal.doing("importing PyTorch")
        from contrastive.quality import work

        work.report(request, sets, transfer, others, words)


if __name__ == "__main__":
    sys.exit(main())
