"""`python -m contrastive.train METHOD --text TEXT --out DIR`: a contrastive stage alone.

No task is trained and no label is read, except those of --dev and those that the method trains on.
DIR/encoder holds what was trained. parser.py reads the command line. work.py does the work. It
brings torch, so it is imported when the command line and the files are understood.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from contrastive.train.options import StageOptions, TrainOptions
from contrastive.train.parser import PROGRAM, parse, short_flags
from contrastive.train.texts import StageRows, read_rows
from data.examples import Example
from data.sentence_sets import read_pairs
from minbert import __version__
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.ending import exit_code, resumable
from minbert.commands.optional import check_tensorboard
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import check_plain_inputs
from minbert.reporting import terminal


@exit_code(PROGRAM, outlives_reader=True)
@short_flags()
def main(argv: Sequence[str] | None = None) -> None:
    """Train a stage, as the command line says. After Ctrl-C it says how the run is continued."""
    run = parse(argv)
    check_tensorboard(run.options.training.tensorboard)
    if (run.folder / "run.json").is_file():
        terminal.say(f"{run.folder} is finished, there is nothing to resume.")
        return
    stage = run.options.stage
    check_new_folder("--out", run.folder)
    check_plain_inputs(stage.input_files())
    with (
        resumable("-m contrastive.train", run.folder, run.is_resumed),
        terminal.session("reading the text"),
    ):
        terminal.heading(f"minBERT {__version__}, stage {stage.method} in {run.folder}")
        # A mistake in the files is reported before torch is imported.
        rows = read_text(run.options)
        dev = read_dev(stage)
        terminal.doing("importing PyTorch")
        from contrastive.train import work

        work.train(run, rows, dev)


def read_text(options: TrainOptions) -> StageRows:
    """The rows of all files of text. Random words are drawn later, from the vocabulary."""
    stage = options.stage
    if stage.has_random_words:
        return StageRows()
    rows = read_rows(
        stage.text,
        stage.entry.reads,
        stage.data_dir,
        stage.split_names,
        stage.rows,
        options.sentence_tasks,
    )
    terminal.say(*rows.summaries)
    return rows


def read_dev(stage: StageOptions) -> Sequence[Example]:
    """The pairs that measure the stage; none without --dev."""
    if stage.dev is None:
        return ()
    pairs = read_pairs(stage.dev)
    terminal.say(f"{pairs.summary}; they measure the stage")
    return pairs.examples


if __name__ == "__main__":
    # SIGTERM ends a run as Ctrl-C does.
    signal.signal(signal.SIGTERM, INTERRUPTION.receive)
    sys.exit(main())
