"""`python -m minbert.pretraining --corpus FILES --out DIR`: an encoder from plain text.

This file is the command. plain_text.py does the work. It brings torch, so it is imported when the
command line and the files are understood.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from data.corpus import check_files
from minbert import __version__
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.ending import exit_code, resumable
from minbert.commands.files import DamagedFile, read_json
from minbert.commands.flags import parser_of
from minbert.commands.new_folders import refuse_taken
from minbert.commands.options import NONE, all_fields, from_flat
from minbert.commands.outputs import check_new_folder, check_no_links
from minbert.commands.paths import is_free
from minbert.hub import BUNDLED
from minbert.pretraining.options import (
    PlacesOptions,
    PlainTextCommand,
    PlainTextOptions,
    PlainTextRun,
)
from minbert.reporting import terminal
from minbert.training.code_version import writer_of

PROGRAM = "python -m minbert.pretraining"
BUILT_IN = (*BUNDLED, "minilm")  # names of models, also where a folder of that name exists
PLACES = tuple(item.name for item in all_fields(PlacesOptions))


def parse(argv: Sequence[str] | None = None) -> PlainTextRun:
    """The run that a command line asks for; with --resume the one that began in that folder.

    A wrong flag or combination ends the program with exit code 2 and a message.
    """
    assert __doc__ is not None
    parser = parser_of(PlainTextCommand, PROGRAM, __doc__.splitlines()[0])
    values = vars(parser.parse_args(argv))
    corpus, out, resumed = (values.pop(name, None) for name in PLACES)
    try:
        if resumed is not None:
            if corpus or out or values:
                raise ValueError(
                    "--resume continues a run with its own options; drop the other flags."
                )
            return load(resumed)
        if not (corpus and out):
            raise ValueError("--corpus FILES and --out DIR are needed, or --resume DIR.")
        options = from_flat(
            PlainTextOptions, {**values, "init": absolute(values.get("init", NONE))}
        )
        if not is_free(out):
            refuse_taken(f"--out {out}", out, load, "another folder")
    except ValueError as error:
        parser.error(str(error))
    return PlainTextRun(tuple(corpus), out, options)


def absolute(name: str) -> str:
    """A folder as an absolute path, so that --resume finds it from anywhere.

    The name of a built-in model or of one on the hub stays as it is.
    """
    is_folder = name not in ("", NONE, *BUILT_IN) and Path(name).is_dir()
    return str(Path(name).absolute()) if is_folder else name


def load(folder: Path) -> PlainTextRun:
    """The run that began in `folder`; ValueError where there is none, or one of another version."""
    content = None
    check_no_links(folder)
    try:
        content = read_json(folder / "options.json")
        stored = content["options"]
        names = {item.name for item in all_fields(PlainTextOptions)}
        # A run that began before --formulas was there took the fast ones.
        stored.setdefault("formulas", "fast")
        if stored.keys() != names | set(PLACES):
            raise ValueError("other options than this version's")
        # Commit 94b06e7 and those before wrote null for what was not given.
        values = {name: stored[name] for name in names if stored[name] is not None}
        options = from_flat(PlainTextOptions, values)
        corpus = tuple(Path(name) for name in stored["corpus"])
    except DamagedFile as error:
        raise ValueError(f"--resume {folder}: options.json cannot be used: {error}.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--resume {folder}: no run of minbert.pretraining there, or of another version "
            f"(options.json: {error}{writer_of(content)}). Give the folder of --out."
        ) from error
    return PlainTextRun(corpus, folder, options, is_resumed=True)


@exit_code(PROGRAM, outlives_reader=True, takes_processes=True)
def main(argv: Sequence[str] | None = None) -> None:
    """Train an encoder from plain text, as the command line says."""
    run = parse(argv)
    is_finished = (run.folder / "run.json").is_file()
    if not is_finished:
        check_files(list(run.corpus))
        check_new_folder("--out", run.folder)
    with (
        resumable("-m minbert.pretraining", run.folder, run.is_resumed),
        terminal.session("importing PyTorch"),
    ):
        if not is_finished:
            terminal.heading(f"minBERT {__version__}, pretraining of {run.folder}")
        from minbert.pretraining import plain_text

        plain_text.pretrain(run)


if __name__ == "__main__":
    # SIGTERM ends a run as Ctrl-C does.
    signal.signal(signal.SIGTERM, INTERRUPTION.receive)
    sys.exit(main())
