"""A page to try a finished run: `python -m multitask.demo RUN`, then open the printed address.

The page answers a sentence or a pair, and shows the attention and the nearest training rows. It
also answers a table. Only this machine can open it, and it needs no network.

gradio makes such pages, too. It was not taken: it brings some forty packages, and loads fonts from
the network.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.plugins import load_named
from minbert.reporting import terminal
from multitask.demo.options import DemoOptions
from multitask.user_rows import BUNDLED_RUN

PROGRAM = "python -m multitask.demo"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Open the run, print the address of the page, and answer until Ctrl-C."""
    options = parse_command(
        DemoOptions, PROGRAM, "A page on this machine to try a finished run.", arguments
    )
    load_named(options.plugin)
    with terminal.session("importing PyTorch"):
        from multitask.demo.server import open_server

        terminal.doing("opening the model")
        server = open_server(options.run or BUNDLED_RUN, options.port)
    with server:
        terminal.say(f"Open {server.address} in a browser on this machine. Ctrl-C ends it.")
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
