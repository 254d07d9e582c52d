"""How long until something happens? Fresh processes import us, ask for help, and import the peer.

The times are wall seconds from the start of Python to its end.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.benchmarks.comparison import Check, Comparison, json_line, versions
from tools.benchmarks.inputs import require
from tools.benchmarks.settings import Settings
from tools.benchmarks.timing import Side, alternate

ROOT = Path(__file__).resolve().parents[2]
# Our commands must answer before torch is imported, and our model soon after it.
COMMANDS = {
    "import": ["-c", "import minbert"],
    "help": ["run_multitask.py", "--help"],
    "model": ["-c", "from minbert import BertModel"],
    "torch": ["-c", "import torch"],
    "peer": ["-c", "from transformers import BertModel"],
}


def side_of(command: list[str]) -> Side:
    """Return a function that runs Python with these arguments."""

    def run_part(part: int) -> None:
        # A fresh process each time: an import is cached within one.
        command_line = [sys.executable, *command]
        subprocess.run(command_line, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    return run_part


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 9 processes of each command; quick: 3."""
    require("transformers")
    sides = {name: side_of(command) for name, command in COMMANDS.items()}
    seconds = alternate(sides, settings.rounds(9, 3), num_warmup=1)

    def compare(what: str, ours: str, peer: str) -> Comparison:
        return Comparison.of(what, "s", seconds[ours], seconds[peer])

    def check(what: str, name: str) -> Check:
        return Check(f"seconds of `{what}`", statistics.median(seconds[name]), "<=", 1.0)

    comparisons = [
        compare("import our BertModel : that of transformers", "model", "peer"),
        compare("import our BertModel : torch alone", "model", "torch"),
        compare("run_multitask.py --help : import torch alone", "help", "torch"),
    ]
    checks = [check("import minbert", "import"), check("run_multitask.py --help", "help")]
    return json_line("startup", comparisons, versions("transformers"), checks)
