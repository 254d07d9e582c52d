"""`python -m minbert`: the command `minbert`, which lists and starts all commands."""

from __future__ import annotations

import sys

from minbert.commands.launcher import main

if __name__ == "__main__":
    sys.exit(main())
