"""How long until something happens? Fresh processes that import us, ask for help, and import the peer.

Wall seconds from the start of Python to its end.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import Settings, require
from benchmarks.sides import alternate

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "import": ["-c", "import minbert"],
    "help": ["run_multitask.py", "--help"],
    "model": ["-c", "from minbert import BertModel"],
    "torch": ["-c", "import torch"],
    "peer": ["-c", "from transformers import BertModel"],
}


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 9 processes of each command; quick: 3."""
    require("transformers")

    def start(command: list[str]) -> None:
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    sides = {
        name: lambda part, command=command: start(command) for name, command in COMMANDS.items()
    }
    seconds = alternate(sides, settings.rounds(9, 3), num_warm=1)
    comparisons = [
        Comparison.of(
            "import our BertModel : that of transformers", "s", seconds["model"], seconds["peer"]
        ),
        Comparison.of(
            "import our BertModel : torch alone", "s", seconds["model"], seconds["torch"]
        ),
        Comparison.of(
            "run_multitask.py --help : import torch alone", "s", seconds["help"], seconds["torch"]
        ),
    ]
    checks = [
        Check(f"seconds of `{what}`", statistics.median(seconds[name]), "<=", 1.0)
        for name, what in {"import": "import minbert", "help": "run_multitask.py --help"}.items()
    ]
    return json_line("startup", comparisons, versions("transformers"), checks)
