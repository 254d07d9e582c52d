"""The options of `python -m multitask.ensemble`, and what is refused before any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import real_path
from minbert.commands.plugins import plugin_argument

# The ways to join runs (voting.py).
METHOD_NAMES = ("best", "average", "weighted")


@dataclass(frozen=True)
class EnsembleOptions(CommandOptions):
    """The command line of multitask.ensemble."""

    runs: tuple[Path, ...] = positional(
        "RUN...", "folder of a finished run; two at least", is_required=False
    )
    out: Path = argument(Path("runs/ensemble"), "new folder for files and ensemble.json", "DIR")
    method: str = argument("average", "what the files hold", choices=METHOD_NAMES)
    plugin: tuple[str, ...] = plugin_argument()
    folds: int = argument(5, "parts of dev; what is fitted is scored on the part left out", low=2)
    seed: int = argument(11711, "seed of the folds", low=0)

    def check(self) -> None:
        if len(self.runs) < 2:
            number = f"only {self.runs[0]}" if self.runs else "no run"
            raise ValueError(
                f"{number} is given; an ensemble needs two runs at least. Name the folders of "
                "finished runs, such as runs/A runs/B; one run alone has its files already."
            )


def check_folders(options: EnsembleOptions) -> None:
    """Raise ValueError for a place that cannot be written to, or a run that comes twice."""
    if options.out.exists():
        raise ValueError(
            f"{options.out} exists; --out is made anew, so that no file of another ensemble stays "
            "in it. Choose another folder, or remove that one."
        )
    check_new_folder("--out", options.out)
    # Two paths may lead to one folder.
    seen = set()
    for folder in options.runs:
        if real_path(folder) in seen:
            raise ValueError(f"{folder} is given twice, and would count twice. Name each run once.")
        seen.add(real_path(folder))
